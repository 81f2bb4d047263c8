"""The tool calls that are filling in, below the text of an answer."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from rich.console import Console
from rich.text import Text

from chunkfold.cli.safe import one_line
from chunkfold.cli.tail import Tail

OPEN_ARGUMENTS: Final = 400  # characters drawn of a call that is still filling in: the last ones


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


class OpenCalls:
    """The rows of one are made when it grew, and only if they are to be seen.

    Args:
        console: It knows how wide the rows may be.
        tail: Where they are drawn.
    """

    def __init__(self, console: Console, tail: Tail) -> None:
        self._console = console
        self._tail = tail
        self._calls: dict[int, Call] = {}
        self._rows: dict[int, list[str]] = {}
        self._width = console.width

    def put(self, position: int, call: Call) -> None:
        """A call that began or grew."""
        self._calls[position] = call
        self._rows.pop(position, None)

    def replace(self, calls: Sequence[Call]) -> None:
        """All of them."""
        self._calls = dict(enumerate(calls))
        self._rows.clear()

    def last_rows(self, count: int) -> list[str]:
        """The rows of the last calls: as many as that, or more, if there are."""
        if self._width != self._console.width:
            self._width = self._console.width
            self._rows.clear()
        found: list[list[str]] = []
        for position in reversed(self._calls):
            if count <= 0:
                break
            rows = self._rows.get(position) or self._made_rows(position)
            found.append(rows)
            count -= len(rows)
        return [row for rows in reversed(found) for row in rows]

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls.values())

    def _made_rows(self, position: int) -> list[str]:
        call = self._calls[position]
        arguments = call.arguments
        shown = arguments if len(arguments) <= OPEN_ARGUMENTS else "..." + arguments[-OPEN_ARGUMENTS:]
        text = _call_row(call.name, shown)
        rows = self._rows[position] = self._tail.fitted(list(text.wrap(self._console, self._width)))
        return rows


def call_text(call: Call) -> Text:
    """A call on one line."""
    return _call_row(call.name, call.arguments)


def _call_row(name: str, arguments: str) -> Text:
    return Text.assemble("tool call: ", (one_line(name), "bold cyan"), " ", one_line(arguments))
