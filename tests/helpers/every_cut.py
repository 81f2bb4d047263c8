"""A body in every cut, and the events that a decoder gives of it."""

from collections.abc import Iterator

from chunkfold import ServerSentEvent
from chunkfold.testing import bytewise, cut

Pieces = list[bytes]
BOM = b"\xef\xbb\xbf"


def event(data: bytes, event: str = "message", *, id: str = "", offset: int = 0) -> ServerSentEvent:
    return ServerSentEvent(data, event, id, offset)


def in_every_cut(body: bytes) -> Iterator[Pieces]:
    """Whole, in two at each place, byte by byte, and with empty reads around each byte."""
    yield [body]
    for place in range(len(body) + 1):
        yield cut(body, place)
    yield bytewise(body)
    yield [piece for byte in bytewise(body) for piece in (b"", byte, b"")]
