"""The end of a terminal's output that is still open: drawn again whenever it changes, in as few bytes as possible."""

from collections.abc import Reversible, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from chunkfold.cli.safe import one_line

_OPEN_ARGUMENTS: Final = 400  # the last characters of a call's arguments, drawn while they arrive
_KEPT_CALLS: Final = 1024  # more than are visible
_ERASE_BELOW: Final = "\x1b[999M"  # deletes rows: some terminals keep erased ones in their history
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


@dataclass(slots=True)
class Call:
    """A tool call, or the end of one that is still arriving."""

    name: str
    arguments: str = ""

    def add(self, arguments: str) -> None:
        """Add a piece of its arguments; only their end is kept."""
        self.arguments = (self.arguments + arguments)[-_OPEN_ARGUMENTS - 1 :]

    def text(self) -> Text:
        """The call on one line."""
        return Text.assemble("tool call: ", (one_line(self.name), "bold cyan"), " ", one_line(self.arguments))


class Tail:
    """The open rows at the end of a terminal. Between two writes the cursor is hidden at their beginning.

    So it does not matter how the terminal wraps them, or wraps them again when its size changes: everything below the
    cursor is erased, and drawn again.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[str] = []
        self._size = console.size
        self._made_rows = lru_cache(maxsize=_KEPT_CALLS)(self._rows_of)

    @property
    def height(self) -> int:
        """The number of rows that fit; of more open rows only the last ones are drawn."""
        return max(self._console.size.height - 1, 1)

    def fitted(self, rows: Sequence[Text]) -> list[str]:
        """The rows as written to the terminal, none wider than it is now."""
        return [self._drawn(part) for row in rows for part in folded(row, self._console.width)]

    def call_rows(self, calls: Reversible[Call]) -> list[str]:
        """The rows of the last calls, as many as are visible. Those of a call are only made if it has grown."""
        found: list[list[str]] = []
        count = self.height
        for call in reversed(calls):
            if count <= 0:
                break
            found.append(self._made_rows(call.name, call.arguments, self._console.width))
            count -= len(found[-1])
        return [row for rows in reversed(found) for row in rows]

    def draw(self, finished: Sequence[Text], rows: Sequence[str]) -> None:
        """Print the finished rows above the open ones, which are from `fitted`, in one write."""
        size = self._console.size
        drawn = list(rows[-self.height :])
        kept = 0
        if not finished and size == self._size:
            kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._rows, drawn, strict=False)))
            if len(drawn) == len(self._rows) == kept:
                return
        above = "".join(f"{self._drawn(row)}\n" for row in finished)
        # Without wrapping each row stays one row, even if the terminal draws a character wider than expected here.
        below = _NO_WRAP + "\n".join(drawn[kept:]) + _WRAP if drawn[kept:] else ""
        down = f"\x1b[{kept - 1}B\n" if kept > 1 else "\n" * kept  # to a row that may not exist yet
        up = len(drawn) - 1 if below else kept
        back = f"\x1b[{up}A" if up else ""
        self._write(f"\r{down}{_ERASE_BELOW}{above}{below}\r{back}")  # the first \r for what was typed meanwhile
        self._rows, self._size = drawn, size

    def erase(self) -> None:
        """Erase the open rows."""
        self._write(f"\r{_ERASE_BELOW}")
        self._rows = []

    def _rows_of(self, name: str, arguments: str, width: int) -> list[str]:
        if len(arguments) > _OPEN_ARGUMENTS:
            arguments = "..." + arguments[-_OPEN_ARGUMENTS:]
        return self.fitted(list(Call(name, arguments).text().wrap(self._console, width)))

    def _drawn(self, row: Text) -> str:
        """What the console prints for a row."""
        row = row.copy()
        row.rstrip()
        with self._console.capture() as captured:
            self._console.print(row, end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def folded(row: Text, width: int) -> list[Text]:
    """A row as a terminal that is too narrow wraps it."""
    if cell_len(row.plain) <= width:
        return [row]
    pieces = chop_cells(row.plain, max(width, 2))
    return list(row.divide(accumulate(len(piece) for piece in pieces[:-1])))
