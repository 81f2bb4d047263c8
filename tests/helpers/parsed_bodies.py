"""A parser, or a decoder, that has read a body: what most tests of bodies begin with."""

from collections.abc import Iterable
from typing import Any

from chunkfold import ChatCompletionParser, EventStreamDecoder, ServerSentEvent
from chunkfold.testing import cut_every


def fed(reads: bytes | Iterable[bytes], **options: Any) -> ChatCompletionParser:
    """A parser that was fed one read, or several; it still runs, unless one of them ended the stream."""
    parser = ChatCompletionParser(**options)
    for data in [reads] if isinstance(reads, bytes) else reads:
        parser.feed(data)
    return parser


def folded(reads: bytes | Iterable[bytes], **options: Any) -> ChatCompletionParser:
    """The same, without its chunks."""
    parser = ChatCompletionParser(**options)
    for data in [reads] if isinstance(reads, bytes) else reads:
        parser.fold(data)
    return parser


def parsed(body: bytes, size: int | None = None, **options: Any) -> ChatCompletionParser:
    """A parser that was fed the body, at once or in reads of this size, and closed."""
    parser = ChatCompletionParser(**options)
    for piece in cut_every(body, size or len(body) or 1):
        parser.feed(piece)
    parser.close()
    return parser


def noted(parser: ChatCompletionParser) -> dict[str, int]:
    """How often each rule was noted, by its id."""
    return {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies}


def decoded(body: bytes) -> list[ServerSentEvent]:
    """The events of a body that ends behind one."""
    decoder = EventStreamDecoder()
    events = decoder.feed(body)
    decoder.close()
    assert decoder.unfinished is None
    return events
