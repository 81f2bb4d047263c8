"""A buffer for text that grows in many small pieces, with little memory beyond its characters."""

from io import StringIO
from typing import Final

_LARGE: Final = 2**16  # characters; from 3.12 on, the interpreter's buffer makes two copies of what is written


class TextBuffer:
    """Gather text, as fast as the interpreter's own buffer, which may keep each piece until `compact` joins them."""

    __slots__ = ("_done", "_is_lost", "_open", "_pieces", "_pieces_size", "_write")

    def __init__(self, text: str = "") -> None:
        self._done = text
        self._is_lost = False
        self._pieces: list[str] = []
        self._pieces_size = 0
        self._open = StringIO()
        self._write = self._open.write

    def __reduce__(self) -> "tuple[type[TextBuffer], tuple[str]]":
        """Copied and pickled by its text: a copy of `_write` would write here."""
        return TextBuffer, (self.getvalue(),)

    def write(self, text: str) -> int:
        """Append a text, which is not copied if it is large; return how many characters it has."""
        size = len(text)
        if size < _LARGE:
            return self._write(text)
        self.compact()
        # From here on there is no call; see `compact`.
        self._pieces += [text]
        self._pieces_size += size
        return size

    def tell(self) -> int:
        """How many characters there are."""
        return len(self._done) + self._pieces_size + self._open.tell()

    def equals(self, text: str) -> bool:
        """Whether this is all of the text. By the length first: pieces are not joined for each shorter one."""
        return len(text) == self.tell() and text == self.getvalue()

    @property
    def size(self) -> int:
        """Its size in bytes: one for each character, four if any of them is not ASCII."""
        self.compact()
        return self.tell() * (1 if all(map(str.isascii, (self._done, *self._pieces))) else 4)

    def getvalue(self) -> str:
        """All of the text; joined once, for as long as nothing is written."""
        self.compact()
        if self._pieces:
            self._join()
        return self._done

    def compact(self) -> None:
        """Join what was written since the last time."""
        opened = self._open
        size = opened.tell()
        if size:
            written, empty = [opened.getvalue()], StringIO()
            # Signal handlers, which may raise, and other threads run at calls. So there is none from here on.
            if self._open is opened:  # else another thread, which reads the text too, was faster
                self._pieces += written
                self._pieces_size += size
                self._open, self._write = empty, empty.write
        if self._pieces_size > len(self._done) // 32:
            self._join()

    def _join(self) -> None:
        """Append the pieces, in place if there is no other reference: a copy would double the memory at the end.

        CPython appends in place to a local variable that has the only reference. Elsewhere this is a copy, and the cost
        stays linear because `compact` waits until the pieces are a 32nd of the text.

        If there is no memory to append, CPython drops the text: from then on, reading it raises a `MemoryError`.
        """
        if self._is_lost:
            raise MemoryError("a text was lost because there was no memory to append to it")
        pieces = self._pieces
        more = "".join(pieces)
        if self._pieces is pieces:  # see `compact`
            done, self._done, self._is_lost = self._done, "", True
            done += more
            self._done, self._pieces, self._pieces_size, self._is_lost = done, [], 0, False
