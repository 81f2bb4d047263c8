"""Where a command draws: in colour on a terminal, as plain lines everywhere else."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkfold.cli.answer import AnswerView, LiveAnswerView, PlainAnswerView

Fact = tuple[str, str]


class Screen:
    """Headings, facts and answers, on a terminal or not.

    Args:
        console: Where to draw; by default standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _standard_output()

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
        """A context manager that draws one answer while it streams."""
        return LiveAnswerView(self._console) if self._console.is_interactive else PlainAnswerView(self._console)


def _standard_output() -> Console:
    """A console that takes nothing for a terminal but a terminal, whatever FORCE_COLOR says."""
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # where its encoding cannot write everything
    return Console(force_terminal=None if stdout.isatty() else False, highlight=False)
