"""Growing text as rows of a terminal: final rows, and rows that may still change."""

from collections import deque
from typing import Final

from rich.cells import get_character_cell_size
from rich.console import Console
from rich.text import Text

_FOLDED: Final = 4  # rows shown of folded reasoning
_QUIET: Final = "dim"
_MOST: Final = 16  # characters in one cell: a kiss with skin tones has 10, a flag with tags 7
_JOINER: Final = "\u200d"  # joins the next character to the one before


class DimRows:
    """Text unchanged, dim, in rows that fit the console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pieces: list[str] = []
        self._open = ""  # the last row, with the spaces at its end

    def add(self, text: str) -> None:
        """The next piece."""
        self._pieces.append(text.replace("\t", "    "))

    def settled(self) -> list[Text]:
        """The rows that are final now."""
        text = self._open + "".join(self._pieces)
        self._pieces.clear()
        *lines, line = text.split("\n")
        *rows, last = self._wrapped(line)
        self._open = line[line.rindex(last.plain) :] if rows else line
        return [row for whole in lines for row in self._wrapped(whole)] + rows

    def open_rows(self) -> list[Text]:
        """The row that would be left if the text ended here."""
        return [Text(self._open.rstrip(), _QUIET)] if self._open.strip() else []

    def end(self) -> list[Text]:
        """The rows that are left, and an empty one."""
        rows = [*self.settled(), *self.open_rows()]
        self._open = ""
        return [*rows, Text()] if rows else []

    def _wrapped(self, line: str) -> list[Text]:
        return list(Text(line, _QUIET).wrap(self._console, max(self._console.width, 2))) or [Text()]


class FoldedRows(DimRows):
    """The last rows of a text, and the number of rows above them. None is final before the end."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._last = deque[Text](maxlen=_FOLDED)
        self._count = 0

    def settled(self) -> list[Text]:
        """No row is final."""
        rows = super().settled()
        self._last.extend(rows)
        self._count += len(rows)
        return []

    def open_rows(self) -> list[Text]:
        """The rows that would be left if the text ended here."""
        rows = super().open_rows()
        shown = [*self._last, *rows][-_FOLDED:]
        hidden = self._count + len(rows) - len(shown)
        if not hidden:
            return shown
        return [Text(f"... {hidden + 1} more rows of reasoning", "dim italic"), *shown[1:]]


class ZeroWidthLimit:
    """Drops characters without width after too many in a row, in a text that arrives in pieces.

    They fill no row, so a row of them would be open, and redrawn forever.
    """

    def __init__(self) -> None:
        self._last = ""
        self._length = 0  # characters in the cell of the last one

    def cut(self, piece: str) -> str:
        """The characters of the next piece that are shown."""
        if piece.isascii():
            self._last, self._length = "", 0
            return piece
        return "".join(filter(self._is_shown, piece))

    def _is_shown(self, character: str) -> bool:
        has_width = character in "\n\t" or get_character_cell_size(character) > 0
        if has_width and self._last != _JOINER:
            self._length = 0
        elif not has_width and self._length >= _MOST:
            return False
        self._last = character
        self._length += 1
        return True
