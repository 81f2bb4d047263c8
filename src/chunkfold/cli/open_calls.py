"""The tool calls that are filling in, below the text of an answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from chunkfold.cli.safe import one_line
from chunkfold.cli.tail import Tail

_OPEN_ARGUMENTS: Final = 400  # characters drawn of a call that is still filling in: the last ones


@dataclass(slots=True)
class Call:
    """A tool call, or the end of one that is filling in."""

    name: str
    arguments: str = ""

    def add(self, arguments: str) -> None:
        """The next piece of its arguments; what is far past the end is dropped."""
        self.arguments = (self.arguments + arguments)[-_OPEN_ARGUMENTS - 1 :]

    def text(self) -> Text:
        """The call on one line."""
        return Text.assemble("tool call: ", (one_line(self.name), "bold cyan"), " ", one_line(self.arguments))


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
        if len(call.arguments) > _OPEN_ARGUMENTS:
            call = Call(call.name, "..." + call.arguments[-_OPEN_ARGUMENTS:])
        text = call.text()
        rows = self._rows[position] = self._tail.fitted(list(text.wrap(self._console, self._width)))
        return rows
