"""How `chat`, `demo`, `replay` and `record --show` show an answer.

On a terminal rows are printed once nothing can change them. Unfinished parts are shown below them: the end of the text,
the tool calls that are still arriving, and a status line. A thread draws the changes, a frame at a time, for at most
half of the time: adding a piece only stores it, however fast the pieces arrive. In a pipe standard output gets
only the text; the facts about it go to standard error.
"""

import os
import sys
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Self, TextIO

import click
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from chunkfold.cli.consoles import is_live, standard_output
from chunkfold.cli.rows import DimRows, FoldedRows, ZeroWidthLimit
from chunkfold.cli.safe import harmless, one_line
from chunkfold.cli.signals import on_suspend
from chunkfold.cli.tail import Call, Tail
from chunkfold.excerpts import counted

SEPARATOR: Final = " · "
_FRAME: Final = 1 / 30  # seconds
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TURN: Final = 0.1  # seconds per character of the spinner


class AnswerView:
    """Takes one answer inside `with`, and draws nothing: for output as JSON."""

    def add(self, text: str, *, is_reasoning: bool = False) -> None:
        """The next piece of the text, or of the reasoning; "" changes nothing."""

    def show_tool_call(self, position: int, call: Call, *, is_open: bool = True) -> None:
        """A tool call that began, grew, or is whole; `is_open` while its arguments arrive."""

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls, in place of those that were shown."""

    def show_facts(self, footer: Sequence[str]) -> None:
        """Show the facts about it, after it has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""


class TextView(AnswerView):
    """Writes only the text, as it arrives, if raw with its control characters; the rest goes to standard error."""

    def __init__(self, file: TextIO, *, raw: bool = False) -> None:
        self._file = file
        self._raw = raw
        self._calls: Sequence[Call] = ()
        self._is_in_line = False

    def add(self, text: str, *, is_reasoning: bool = False) -> None:
        """The next piece; reasoning is not written."""
        if text and not is_reasoning:
            self._file.write(text if self._raw else harmless(text))
            self._file.flush()
            self._is_in_line = not text.endswith("\n")

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls."""
        self._calls = calls

    def show_facts(self, footer: Sequence[str]) -> None:
        """The tool calls and the facts, a line each; below the text where both are shown together."""
        if self._is_in_line and (self._file.isatty() or _are_one(self._file, sys.stderr)):
            click.echo(err=True)
        for call in self._calls:
            click.echo(f"tool call: {one_line(f'{call.name} {call.arguments}')}", err=True)
        click.echo(SEPARATOR.join(footer), err=True)


def _are_one(file: TextIO, other: TextIO) -> bool:
    """Whether two files are one, such as a pipe that takes both."""
    with suppress(OSError, ValueError):  # one of them is in memory
        return os.path.sameopenfile(file.fileno(), other.fileno())
    return False


class LiveView(AnswerView):
    """Prints rows when they are final, and draws the open ones below them.

    Args:
        console: A terminal.
        waiting: What is waited for, shown until output arrives; "" for no status line.
        is_folded: Whether only the last rows of the reasoning are shown.
        frame: The seconds from one drawing to the next; with 0 every change is drawn at once.
    """

    def __init__(self, console: Console, *, waiting: str = "", is_folded: bool = True, frame: float = _FRAME) -> None:
        from chunkfold.cli.markdown import MarkdownRows  # slow to import

        self._console = console
        self._text = MarkdownRows
        self._reasoning = FoldedRows if is_folded else DimRows
        self._rows: DimRows | MarkdownRows | None = None
        self._finished: list[Text] = []  # since the last frame
        self._is_changed = True
        self._waiting = waiting
        self._status: list[str] = []
        self._started = time.monotonic()
        self._first: float | None = None  # when the first output arrived
        self._pieces = 0  # pieces of output; a piece is about a token
        self._open_calls: set[int] = set()
        self._limit = ZeroWidthLimit()
        self._tail = Tail(console)
        self._calls: dict[int, Call] = {}
        self._frame = frame
        self._lock = threading.RLock()  # guards everything that is drawn
        self._is_over = threading.Event()
        self._drawing = threading.Thread(target=self._draw_frames, daemon=True)
        self._suspension = on_suspend(self._suspended)

    def __enter__(self) -> Self:
        self._console.show_cursor(show=False)
        self._started = time.monotonic()
        self._suspension.__enter__()
        with self._lock:
            self._draw()
        if self._frame:
            self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Print the open rows as final, and show the cursor again."""
        self._is_over.set()
        self._suspension.__exit__(None, None, None)
        # Once no frame is being drawn. The thread may never end: an interrupt can leave the lock locked.
        with self._lock:
            rows = [*self._finished, *(self._rows.end() if self._rows else [])]
            width = self._console.width
            calls = [row for call in self._calls.values() for row in call.text().wrap(self._console, width)]
            self._tail.draw([*rows, *self._gap(calls), *calls], [])
            self._console.show_cursor(show=True)

    def add(self, text: str, *, is_reasoning: bool = False) -> None:
        """The next piece of the text, or of the reasoning."""
        text = self._limit.cut(harmless(text))
        if not text:
            return
        kind = self._reasoning if is_reasoning else self._text
        with self._change():
            if type(self._rows) is not kind:
                self._finished += self._rows.end() if self._rows else []
                self._rows = kind(self._console)
            self._rows.add(text)
            self._note_output()

    def show_tool_call(self, position: int, call: Call, *, is_open: bool = True) -> None:
        """A tool call that began, grew, or is whole; the calls are below the text."""
        with self._change():
            self._calls[position] = call
            if is_open:
                self._open_calls.add(position)
                self._note_output()
            else:
                self._open_calls.discard(position)

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls, in place of those that were shown."""
        with self._change():
            self._calls = dict(enumerate(calls))

    def show_facts(self, footer: Sequence[str]) -> None:
        """One dim paragraph; a part is broken only where it must be."""
        self._console.print()
        for row in rows_of(footer, self._console.width):
            self._console.print(Text(row, "dim"))

    def _note_output(self) -> None:
        self._pieces += 1
        if self._first is None:
            self._first = time.monotonic()

    def _progress(self) -> list[str]:
        """The parts of the status line; they change at least as often as the spinner."""
        now = time.monotonic()
        seconds = now - self._started
        spinner = _SPINNER[int(seconds / _TURN) % len(_SPINNER)]
        if self._first is None:
            return [f"{spinner} {self._waiting}", f"{seconds:.0f} s"]
        parts = [f"{spinner} {seconds:.0f} s", f"first token {self._first - self._started:.2f} s"]
        if now - self._first > 1:
            parts.append(f"~{self._pieces / (now - self._first):.0f} tokens/s")
        if calls := len(self._open_calls):
            parts.append(f"{counted(calls, 'call')} in flight")
        return parts

    @contextmanager
    def _change(self) -> Generator[None]:
        """Change what is drawn."""
        with self._lock:
            yield
            self._is_changed = True
            if not self._frame:
                self._draw()

    def _draw_frames(self) -> None:
        pause = self._frame
        with suppress(OSError):  # the terminal is gone: the last write fails, too
            while not self._is_over.wait(pause):
                started = time.monotonic()
                with self._lock:
                    if not self._is_over.is_set() and (self._is_changed or self._progress() != self._status):
                        self._draw()
                pause = max(self._frame, time.monotonic() - started)

    def _draw(self) -> None:
        finished = [*self._finished, *(self._rows.settled() if self._rows else [])]
        self._finished, self._is_changed, self._status = [], False, self._progress()
        rows = self._rows.open_rows() if self._rows else []
        calls = self._tail.call_rows(self._calls.values())
        status = [Text(row, "dim") for row in rows_of(self._status, self._console.width)] if self._waiting else []
        gap = [Text()] if status and (self._rows or calls) else []
        fitted = self._tail.fitted
        self._tail.draw(finished, [*fitted([*rows, *self._gap(calls)]), *calls, *fitted([*gap, *status])])

    def _gap(self, call_rows: Sequence[object]) -> list[Text]:
        """An empty row above the tool calls, if there is something above them."""
        return [Text()] if call_rows and self._rows else []

    @contextmanager
    def _suspended(self) -> Generator[None]:
        """Restore the terminal while this process is stopped."""
        with self._lock:
            self._tail.erase()
            self._console.show_cursor(show=True)
            yield
            self._console.show_cursor(show=False)
            self._draw()


def rows_of(parts: Iterable[str], width: int) -> list[str]:
    """The parts, separated by dots, as many in a row as fit."""
    rows: list[str] = []
    for part in parts:
        if rows and cell_len(rows[-1]) + len(SEPARATOR) + cell_len(part) <= width:
            rows[-1] += SEPARATOR + part
        else:
            rows.append(part)
    return rows


def answer_view(waiting: str, *, is_folded: bool = True, raw: bool = False) -> AnswerView:
    """The view of an answer on standard output: drawn on a terminal, its text elsewhere."""
    console = standard_output()
    if is_live(console):
        return LiveView(console, waiting=f"waiting for {one_line(waiting)}", is_folded=is_folded)
    if raw:
        stdout: Any = sys.stdout
        stdout.reconfigure(encoding="utf-8", newline="")  # every character is kept
    return TextView(sys.stdout, raw=raw)
