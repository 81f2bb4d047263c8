"""The parts of a body, as JSON and bytes: events, chunks, choices, deltas, tool call fragments, usage.

To describe only what a model says, use `StreamBuilder`; use these functions to write the exact bytes.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from chunkfold.event_stream.server_sent_event import encode_event

Body: TypeAlias = bytes | Iterable[bytes]

HEAD: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_760_000_000,
    "model": "m",
}
DONE: Final = b"data: [DONE]\n\n"


def event(payload: object, name: str = "message") -> bytes:
    r"""Create one event; `name` is its type, by default the standard's "message".

    Text and bytes are sent unchanged, anything else becomes compact JSON in UTF-8.

    Examples:
        >>> event({"choices": []})
        b'data: {"choices":[]}\n\n'

    Raises:
        ValueError: The name contains a CR, LF or NUL.
    """
    return encode_event(payload if isinstance(payload, str | bytes) else compact_json(payload), event=name)


def sse(*payloads: Mapping[str, Any] | bytes | str, done: bool = True) -> list[bytes]:
    r"""Create the body of a stream, an event for each payload.

    Args:
        payloads: As `event` takes them.
        done: Whether a last event `[DONE]` follows.

    Examples:
        >>> sse({"choices": []}, '{"usage": null}')
        [b'data: {"choices":[]}\n\n', b'data: {"usage": null}\n\n', b'data: [DONE]\n\n']
    """
    return [*map(event, payloads), *([DONE] if done else [])]


def chunk(*choices: Mapping[str, Any], **more: Any) -> bytes:
    """Create an event with a chunk of these choices; keywords become fields at the top level."""
    return event({**HEAD, "choices": choices, **more})


def choice(finish_reason: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    """Create a choice; keywords become the fields of its delta."""
    return {"index": index, "delta": delta, "finish_reason": finish_reason}


def delta(finish_reason: str | None = None, index: int = 0, **fields: Any) -> bytes:
    """Create an event with a chunk of one choice; keywords become the fields of its delta."""
    return chunk(choice(finish_reason, index, **fields))


def fragment(
    index: int | None, id: str | int | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """Create a fragment of a tool call; values that are None are not sent."""
    outer = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**outer, **({"type": "function"} if name is not None else {}), "function": function}


def fragments(*parts: Mapping[str, Any]) -> bytes:
    """Create a chunk for each fragment of a tool call."""
    return b"".join(delta(tool_calls=[part]) for part in parts)


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    """Create a usage with OpenAI's names and the sum as its total; keywords are added as further fields."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, **more}


def bytes_of(body: Body) -> bytes:
    """A body that is whole, in pieces or still a `StreamBuilder`, as its bytes."""
    __tracebackhide__ = True
    given: Any = body
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise TypeError(f"body: expected bytes, or bytes in pieces, received {type(given).__name__}")
    return body if isinstance(body, bytes) else b"".join(body)


def compact_json(payload: object) -> bytes:
    """JSON without spaces, in UTF-8; all of it escaped where there is half of a surrogate pair, as no UTF-8 has it.

    Raises:
        TypeError: `json.dumps` cannot write the payload.
    """
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()
