"""Where a command draws: in colour on a terminal, as plain lines everywhere else."""

import sys
from collections.abc import Iterable
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkfold.cli.answer import AnswerView, FoldedRows, LiveAnswerView, PlainAnswerView

Fact = tuple[str, str]
SEPARATOR: Final = " · "


class Screen:
    """Headings, facts and answers, on a terminal or not.

    Args:
        console: Where to draw; by default standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or standard_output()

    @property
    def is_live(self) -> bool:
        """Whether it is a terminal that can draw a row again."""
        return self._console.is_interactive and not self._console.legacy_windows

    def heading(self, text: str) -> None:
        """A line that begins a part, with an empty one before it."""
        self._console.print(Text(f"\n{text}", "bold"), soft_wrap=True)

    def question(self, text: str) -> None:
        """What the user says, with an empty line behind it."""
        self._console.print(Text(f"you: {text}\n"), soft_wrap=not self._console.is_interactive)

    def facts(self, facts: Iterable[Fact]) -> None:
        """Labels and values, one below the other; they are printed as they are."""
        self._console.print()
        if not self._console.is_interactive:
            for label, value in facts:
                self._console.out(f"{label}: {value}", highlight=False)
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(Text(label), Text(value))
        self._console.print(table)

    def answer(self) -> AnswerView:
        """A context manager that draws one answer while it streams, its text as it stands."""
        return LiveAnswerView(self._console) if self.is_live else PlainAnswerView(self._console)

    def markdown_answer(self, *, is_folded: bool, waiting: str) -> AnswerView:
        """The same for a terminal, its text as Markdown.

        Args:
            is_folded: Whether of the reasoning only the last rows are left.
            waiting: What is shown until something comes.
        """
        from chunkfold.cli.markdown.lines import MarkdownRows  # only for those who want it

        if not self.is_live:
            return PlainAnswerView(self._console)
        reasoning = FoldedRows if is_folded else None
        return LiveAnswerView(self._console, text=MarkdownRows, reasoning=reasoning, waiting=waiting)

    def footer(self, parts: Iterable[str]) -> None:
        """What there is to say at the end, in one dim paragraph; a part is broken only where it must be."""
        self._console.print()
        for row in rows_of(parts, self._console.width):
            self._console.print(Text(row, "dim"))


def rows_of(parts: Iterable[str], width: int) -> list[str]:
    """The parts, separated by dots, as many in a row as fit."""
    rows: list[str] = []
    for part in parts:
        if rows and cell_len(rows[-1]) + len(SEPARATOR) + cell_len(part) <= width:
            rows[-1] += SEPARATOR + part
        else:
            rows.append(part)
    return rows


def standard_output() -> Console:
    """A console that takes nothing for a terminal but a terminal, whatever FORCE_COLOR says."""
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # where its encoding cannot write everything
    return Console(force_terminal=None if stdout.isatty() else False, highlight=False)
