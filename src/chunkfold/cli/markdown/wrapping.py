"""Text in rows that fit the screen."""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.text import Text

# Characters that are written without spaces: a row may end behind any, but not before one that closes something.
WIDE: Final = "\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
CLOSING: Final = "、。，．！？）」』】》〉〕：；ー々"  # noqa: RUF001 - those very characters
_OPENING: Final = "（「『【《〈〔"  # noqa: RUF001 - as above
_UNIT: Final = re.compile(rf"\s+|[{_OPENING}]*(?:[{WIDE}]|[^\s{WIDE}]+)[{CLOSING}]*")


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in rows of at most `width` cells; whatever is appended to it changes none but the last."""
    return [row for line in text.split("\n", allow_blank=True) for row in _wrapped_line(line, max(width, 2))]


def folded(row: Text, width: int) -> list[Text]:
    """A row as a terminal breaks it that is too narrow."""
    if cell_len(row.plain) <= width:
        return [row]
    pieces = chop_cells(row.plain, max(width, 2))
    return list(row.divide(accumulate(len(piece) for piece in pieces[:-1])))


def _wrapped_line(line: Text, width: int) -> list[Text]:
    *rows, last = line.divide(_breaks(line.plain, width))
    for row in rows:
        row.rstrip()
    _crop_spaces(last, width + 1)  # one more says that the next word is another one, on the next row
    return [*rows, last]


def _crop_spaces(row: Text, width: int) -> None:
    spaces = len(row.plain) - len(row.plain.rstrip(" "))
    excess = min(cell_len(row.plain) - width, spaces)
    if excess > 0:
        row.right_crop(excess)


def _breaks(line: str, width: int) -> Iterator[int]:
    """Where the rows behind the first one begin."""
    used, has_words = 0, False
    for match in _UNIT.finditer(line):
        cells, position = cell_len(match[0]), match.start()
        if match[0].isspace():
            used += cells  # at the end of a row they may hang over
            continue
        if used + cells > width and (has_words or used > width // 2):
            yield position
            used = 0
        if used + cells > width:
            *full, last = _folded(match[0], width - used, width)
            for piece in full:
                position += len(piece)
                yield position
            used, cells = 0, cell_len(last)
        used, has_words = used + cells, True


def _folded(word: str, room: int, width: int) -> list[str]:
    """A word that no row can hold: what fits into the room that is left, and into rows of their own."""
    first = chop_cells(word, room)[0]
    rest = word[len(first) :]
    return [first, *chop_cells(rest, width)] if rest else [first]
