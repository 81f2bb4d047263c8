"""An answer while it streams: what is finished is printed once, only what is open is drawn again.

On a terminal rows are printed as soon as nothing can change them. What is open (a row of text or two, a table, the
tool calls that are filling in) stands below them, and of that only the rows that changed are written again.
Elsewhere there is none: text is written as it comes, tool calls when they are whole.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final, Protocol, Self, TextIO

from rich.console import Console
from rich.text import Text

from chunkfold.cli.markdown.wrapping import folded, wrapped
from chunkfold.cli.safe import harmless, one_line

_OPEN_ARGUMENTS: Final = 400  # characters drawn of a call that is still filling in: the last ones
_FOLDED: Final = 4  # rows left of a reasoning that is folded
_QUIET: Final = "dim"

_ERASE_BELOW: Final = "\x1b[999M"  # deletes rows; to erase them would make some terminals keep them in their history
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class Call(Protocol):
    """What is shown of a tool call."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def arguments(self) -> str:
        """Its arguments, as far as they have come."""
        ...


@dataclass(slots=True)
class ShownCall:
    """A tool call, or the end of one that is filling in."""

    name: str
    arguments: str = ""

    def add(self, arguments: str) -> None:
        """The next piece of its arguments; what is far behind the end is dropped."""
        self.arguments = (self.arguments + arguments)[-_OPEN_ARGUMENTS - 1 :]


class Rows(Protocol):
    """Text in pieces to rows that fit the screen."""

    def add(self, text: str) -> list[Text]:
        """The next piece; the rows that are final now."""
        ...

    def end(self) -> list[Text]:
        """The rows that are left."""
        ...

    def open_rows(self) -> list[Text]:
        """The rows that would be left if the text ended here."""
        ...


class PlainRows:
    """Text as it stands.

    Args:
        console: Where the rows will be printed; it knows how wide they may be.
        style: How they look.
    """

    def __init__(self, console: Console, style: str = "") -> None:
        self._console = console
        self._style = style
        self._row = Text(style=style)

    def add(self, text: str) -> list[Text]:
        """The next piece; the rows that are final now."""
        self._row.append(text.replace("\t", "    "))
        *rows, self._row = wrapped(self._row, self._console.width)
        return rows

    def end(self) -> list[Text]:
        """The row that is left."""
        row, self._row = self._row, Text(style=self._style)
        return [row] if row else []

    def open_rows(self) -> list[Text]:
        """The row that would be left if the text ended here."""
        return [self._row] if self._row else []


class FoldedRows:
    """The last rows of a text, and how many stand above them. None is final before the end.

    Args:
        console: Where the rows will be printed.
    """

    def __init__(self, console: Console) -> None:
        self._rows = PlainRows(console, _QUIET)
        self._last = deque[Text](maxlen=_FOLDED)
        self._count = 0

    def add(self, text: str) -> list[Text]:
        """The next piece."""
        rows = self._rows.add(text)
        self._last.extend(rows)
        self._count += len(rows)
        return []

    def end(self) -> list[Text]:
        """The rows that are left, and an empty one."""
        return [*self._folded(self._rows.end()), Text()]

    def open_rows(self) -> list[Text]:
        """The rows that would be left if the text ended here."""
        return self._folded(self._rows.open_rows())

    def _folded(self, rows: list[Text]) -> list[Text]:
        shown = [*self._last, *rows][-_FOLDED:]
        hidden = self._count + len(rows) - len(shown)
        if not hidden:
            return shown
        return [Text(f"... {hidden + 1} more rows of reasoning", "dim italic"), *shown[1:]]


class AnswerView(ABC):
    """Draws one answer inside `with`; the end of the block finishes what is still open."""

    @abstractmethod
    def add_reasoning(self, text: str) -> None:
        """The next piece of the reasoning; "" changes nothing."""

    @abstractmethod
    def add_text(self, text: str) -> None:
        """The next piece of the text; "" changes nothing."""

    @abstractmethod
    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls, as far as they have come."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    @abstractmethod
    def finish(self) -> None:
        """Draw what is still open for good."""


class NoAnswerView(AnswerView):
    """Draws nothing."""

    def add_reasoning(self, text: str) -> None:
        """Nothing."""

    def add_text(self, text: str) -> None:
        """Nothing."""

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""


class TextAnswerView(NoAnswerView):
    """The text and nothing else, as it comes: for pipes.

    Args:
        file: Where it is written.
        raw: Whether control characters are left as they are.
    """

    def __init__(self, file: TextIO, *, raw: bool = False) -> None:
        self._file = file
        self._raw = raw

    def add_text(self, text: str) -> None:
        """The next piece of the text."""
        self._file.write(text if self._raw else harmless(text))
        self._file.flush()


class PlainAnswerView(AnswerView):
    """Plain lines: no styles, no wrapping, each line of reasoning marked by a prefix.

    Args:
        console: Where they are written.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._prefix = ""
        self._line_is_open = False
        self._calls: Sequence[Call] = ()

    def add_reasoning(self, text: str) -> None:
        """The next piece of the reasoning; "" changes nothing."""
        self._add(text, "reasoning: ")

    def add_text(self, text: str) -> None:
        """The next piece of the text; "" changes nothing."""
        self._add(text, "")

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls, as far as they have come."""
        self._calls = calls

    def finish(self) -> None:
        """End the line, and write the tool calls."""
        self._end_line()
        for call in self._calls:
            self._console.print(_call_text(call), soft_wrap=True)

    def _add(self, text: str, prefix: str) -> None:
        if not text:
            return
        if prefix != self._prefix:
            self._end_line()
            self._prefix = prefix
        for number, line in enumerate(harmless(text).split("\n")):
            if number:
                self._write("\n")
                self._line_is_open = False
            if line:
                self._write(line if self._line_is_open else self._prefix + line)
                self._line_is_open = True

    def _end_line(self) -> None:
        if self._line_is_open:
            self._write("\n")
            self._line_is_open = False

    def _write(self, text: str) -> None:
        self._console.file.write(text)  # as it is: rich would expand its tabs
        self._console.file.flush()


class LiveAnswerView(AnswerView):
    """Rows that are printed when they are final, and below them what is open.

    Args:
        console: A terminal.
        text: Makes rows of the text; as it stands, if not given.
        reasoning: Makes rows of the reasoning; dim and all of it, if not given.
        waiting: What is shown until something comes.
    """

    def __init__(
        self,
        console: Console,
        *,
        text: Callable[[Console], Rows] = PlainRows,
        reasoning: Callable[[Console], Rows] | None = None,
        waiting: str = "",
    ) -> None:
        self._console = console
        self._text = text
        self._reasoning = reasoning or partial(PlainRows, style=_QUIET)
        self._waiting = waiting
        self._make_rows: Callable[[Console], Rows] | None = None
        self._rows: Rows | None = None
        self._calls: Sequence[Call] = ()
        self._tail = _Tail(console)

    def __enter__(self) -> Self:
        self._console.show_cursor(show=False)
        if self._waiting:
            self._tail.draw([], [Text(self._waiting, _QUIET)])
        return self

    def add_reasoning(self, text: str) -> None:
        """The next piece of the reasoning; "" changes nothing."""
        self._add(text, self._reasoning)

    def add_text(self, text: str) -> None:
        """The next piece of the text; "" changes nothing."""
        self._add(text, self._text)

    def show_tool_calls(self, calls: Sequence[Call]) -> None:
        """All tool calls, as far as they have come; they stand below the text."""
        self._calls = calls
        self._draw([])

    def finish(self) -> None:
        """Print what is open for good, and give the cursor back."""
        rows = self._rows.end() if self._rows else []
        self._tail.draw([*rows, *self._call_rows(_call_text)], [])
        self._console.show_cursor(show=True)

    def _add(self, text: str, make_rows: Callable[[Console], Rows]) -> None:
        if not text:
            return
        finished: list[Text] = []
        if self._rows is None or make_rows is not self._make_rows:
            finished += self._rows.end() if self._rows else []
            self._rows, self._make_rows = make_rows(self._console), make_rows
        finished += self._rows.add(harmless(text))
        self._draw(finished)

    def _draw(self, finished: list[Text]) -> None:
        rows = self._rows.open_rows() if self._rows else []
        self._tail.draw(finished, [*rows, *self._call_rows(_open_call_text)])

    def _call_rows(self, text_of: Callable[[Call], Text]) -> list[Text]:
        """The tool calls, below an empty row if something stands above them."""
        rows = [row for call in self._calls for row in wrapped(text_of(call), self._console.width)]
        return [Text(), *rows] if rows and self._rows else rows


class _Tail:
    """What is open, at the end of a terminal. Between two writes the cursor rests, hidden, where it begins.

    So nothing needs to be known about how the terminal broke it into rows, or does so anew when its size changes: all
    below the cursor is erased, and drawn again.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[str] = []
        self._size = console.size

    def draw(self, finished: Sequence[Text], rows: Sequence[Text]) -> None:
        """Print what is finished above what is open, in one write."""
        size = self._console.size
        fitting = [part for row in rows for part in folded(row, size.width)]
        drawn = [self._drawn(row) for row in fitting[-max(size.height - 1, 1) :]]
        kept = 0
        if not finished and size == self._size:
            kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._rows, drawn, strict=False)))
            if len(drawn) == len(self._rows) == kept:
                return
        above = "".join(f"{self._drawn(row)}\n" for row in finished)
        # Without wrapping each row is one, even where the terminal takes a character for wider than it is here.
        below = _NO_WRAP + "\n".join(drawn[kept:]) + _WRAP if drawn[kept:] else ""
        up = len(drawn) - 1 if below else kept
        self._write(f"\r{_down(kept)}{_ERASE_BELOW}{above}{below}\r{_up(up)}")  # the first for what was typed meanwhile
        self._rows, self._size = drawn, size

    def _drawn(self, row: Text) -> str:
        row = row.copy()
        row.rstrip()
        with self._console.capture() as capture:
            self._console.print(row, end="", soft_wrap=True)
        return capture.get()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _down(rows: int) -> str:
    """From the first row to the one that so many stand above, which may have to be made."""
    if not rows:
        return ""
    return f"\x1b[{rows - 1}B\n" if rows > 1 else "\n"


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows else ""


def _call_text(call: Call) -> Text:
    return _call_row(call.name, call.arguments)


def _open_call_text(call: Call) -> Text:
    arguments = call.arguments
    shown = arguments if len(arguments) <= _OPEN_ARGUMENTS else "..." + arguments[-_OPEN_ARGUMENTS:]
    return _call_row(call.name, shown)


def _call_row(name: str, arguments: str) -> Text:
    return Text.assemble("tool call: ", (one_line(name), "bold cyan"), " ", one_line(arguments))
