"""The start of a body, while nothing in it belongs to an event stream."""

from typing import Final

_EXCERPT: Final = 4096
_LIMIT: Final = 32 * 2**20  # where no other limit is set


class Preamble:
    """Keep a body that is not an event stream so far; if it is larger than the limit in bytes, only its start."""

    def __init__(self, limit: int | None) -> None:
        self._limit = _LIMIT if limit is None else limit
        self._kept = bytearray()
        self._size = 0
        self._offset = 0  # of its first byte

    @property
    def shown(self) -> bytes:
        """The body so far; past the limit, its beginning."""
        body = bytes(self._kept)
        return body[:_EXCERPT] if self._size > self._limit else body

    def keep(self, data: bytes, offset: int) -> None:
        """Take the next bytes; `offset` is that of the first byte that is not yet part of a finished line."""
        if offset - self._offset > self._limit:
            del self._kept[_EXCERPT:]
        # Blank lines before it are not kept: there may be any number of them.
        kept = data
        if not self._size:
            kept = data.lstrip(b"\r\n")
            self._offset = offset + len(data) - len(kept)
        self._size += len(kept)
        self._kept += kept[: max(0, max(self._limit, _EXCERPT) - len(self._kept))]

    def before(self, offset: int) -> tuple[bytes, int | None]:
        """The bytes before the line at that offset, which belongs to an event stream.

        If they exceed the limit, their beginning, and the limit; else all of them, and None.
        """
        size = max(offset - self._offset, 0) if self._size else 0
        if size > self._limit:
            return self.shown[:size], self._limit
        return bytes(self._kept[:size]), None
