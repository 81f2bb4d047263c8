"""Events with a payload, and what the library makes of them on their way in."""

import json
from typing import Any

from chunkfold import ChatCompletionParser, InvalidStreamError, Payload, ServerSentEvent, StreamEnd, parse_payload
from chunkfold.testing import HEAD, choice, sse

SLOW = "chat.completion.chunk"  # an event of this name is a chunk like any other, but takes the slow path


def compact(value: Any) -> bytes:
    """JSON with every character beyond ASCII as an escape, surrogates among them."""
    return json.dumps(value, separators=(",", ":")).encode()


def parse(data: Any, event: str = "message") -> Payload:
    """What one event gives; bytes are its data as they are."""
    return parse_payload(ServerSentEvent(data if isinstance(data, bytes) else compact(data), event))


def chunk(delta: Any, finish_reason: Any = None, **more: Any) -> dict[str, Any]:
    """A payload of one choice; what is passed by name stands in the choice."""
    return {**HEAD, "choices": [{**choice(finish_reason), "delta": delta, **more}]}


def stream(*payloads: Any) -> bytes:
    return b"".join(sse(*(one if isinstance(one, bytes) else compact(one) for one in payloads)))


def noted(payload: Payload | ChatCompletionParser) -> set[str]:
    """The rules that were noted."""
    if isinstance(payload, Payload):
        return {rule.id for rule, _ in payload.notes}
    return {anomaly.rule.id for anomaly in payload.anomalies}


def refused_by(parser: ChatCompletionParser) -> str:
    """The rule of a stream that strict mode refused."""
    assert (parser.end, type(parser.error)) == (StreamEnd.INVALID, InvalidStreamError)
    return parser.error.rule.id


def dumped(payload: Payload) -> Any:
    """The only chunk, as it was sent."""
    assert payload.error is None
    (one,) = payload.chunks
    return one.model_dump(exclude_unset=True, warnings="error")


def calls(*fragments: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


def call(arguments: Any) -> dict[str, Any]:
    return {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}


A, B = chunk({"content": "a"}), chunk({"content": "b"}, "stop")
