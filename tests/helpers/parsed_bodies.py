"""A parser, or a decoder, that has read a body to its end: what most tests of bodies begin with."""

from typing import Any

from chunkfold import ChatCompletionParser, EventStreamDecoder, ServerSentEvent
from chunkfold.testing import cut_every


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
