"""A buffer for text that grows in many small pieces, with little memory beyond its characters."""

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TextBuffer:
    """Gather text, as fast as the interpreter's own buffer, which may keep each piece.

    If you write many pieces, call `compact` occasionally to join them.

    Attributes:
        write: Appends a text; returns how many characters it has.
    """

    __slots__ = ("_done", "_done_size", "_open", "write")

    def __init__(self, text: str = "") -> None:
        self._done = [text] if text else []
        self._done_size = len(text)
        self._open = StringIO(newline="")
        self.write: Callable[[str], int] = self._open.write

    def __reduce__(self) -> "tuple[type[TextBuffer], tuple[str]]":
        """Copied and pickled by its text: a copy of `write` would write here."""
        return TextBuffer, (self.getvalue(),)

    def tell(self) -> int:
        """How many characters there are."""
        return self._done_size + self._open.tell()

    @property
    def size(self) -> int:
        """Its size in bytes: one for each character, four if any of them is not ASCII."""
        self.compact()
        return self._done_size * (1 if all(map(str.isascii, self._done)) else 4)

    def getvalue(self) -> str:
        """All of the text; joined once, for as long as nothing is written."""
        self.compact()
        if len(self._done) > 1:
            self._done = ["".join(self._done)]
        return self._done[0] if self._done else ""

    def compact(self) -> None:
        """Join the pieces that came since the last time."""
        size = self._open.tell()
        if size:
            self._done.append(self._open.getvalue())
            self._done_size += size
            self._open = StringIO(newline="")
            self.write = self._open.write
