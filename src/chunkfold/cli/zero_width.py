"""How many characters may stand in one place on a screen."""

from typing import Final

from rich.cells import get_character_cell_size

_MOST: Final = 16  # characters that make one: a kiss with skin tones has 10, a flag with tags 7
_JOINER: Final = "\u200d"  # joins the next character to the one before
_LINES_AND_TABS: Final = frozenset("\n\t")


class ZeroWidthLimit:
    """Drops characters without width where too many follow each other, in a text that comes in pieces.

    They fill no row, so a row of them would be open, and redrawn forever.
    """

    def __init__(self) -> None:
        self._last = ""
        self._length = 0  # characters in the place of the last one

    def cut(self, piece: str) -> str:
        """What is shown of the next piece."""
        if piece.isascii():
            self._last, self._length = "", 0
            return piece
        return "".join(filter(self._is_shown, piece))

    def _is_shown(self, character: str) -> bool:
        has_width = character in _LINES_AND_TABS or get_character_cell_size(character) > 0
        if has_width and self._last != _JOINER:
            self._length = 0
        elif not has_width and self._length >= _MOST:
            return False
        self._last = character
        self._length += 1
        return True
