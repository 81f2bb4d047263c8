"""Read the file of a recording in pieces, unpacked if it is gzip."""

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from chunkfold.stream.responses import expansion_error

_PIECE: Final = 65536  # bytes
GZIP: Final = b"\x1f\x8b"  # the first two bytes
_GZIP_FORMAT: Final = 31  # for zlib: with a header and a checksum


def unpacked(file: Any) -> Iterator[bytes]:
    """The bytes of a binary file as they arrive; gzip, recognised by its first two bytes, is unpacked.

    Raises:
        OSError: It cannot be read.
        ValueError: The gzip data is damaged or cut, or expands more than a compressed response may.
    """
    pieces: Iterator[bytes] = iter(lambda: file.read1(_PIECE), b"")
    head = b""
    while len(head) < len(GZIP) and (piece := next(pieces, b"")):
        head += piece
    whole = chain([head] if head else [], pieces)
    yield from _unpacked_gzip(whole) if head.startswith(GZIP) else whole


def _unpacked_gzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of one or several members."""
    member = zlib.decompressobj(_GZIP_FORMAT)
    received = size = 0
    for packed in pieces:
        received += len(packed)
        rest = packed
        while rest:
            member = zlib.decompressobj(_GZIP_FORMAT) if member.eof else member
            try:
                data = member.decompress(rest, _PIECE)
            except zlib.error as error:
                raise ValueError(f"gzip: {error}") from None
            rest = member.unconsumed_tail or member.unused_data
            size += len(data)
            if (excess := expansion_error(received, size)) is not None:
                raise ValueError(f"gzip: {excess}")
            if data:
                yield data
    if not member.eof:
        raise ValueError("gzip: the data ends too early")
