"""How the bodies of the hostile set are written: events, chunks, tool call fragments, and the five kinds of cases."""

import json
from collections.abc import Mapping
from typing import Any, Final

from chunkfold.testing.hostile.values import Call, HostileStream

HEAD: Final[dict[str, Any]] = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1_760_000_000,
    "model": "m",
}
DONE: Final = b"data: [DONE]\n\n"


def event(payload: object, name: str = "") -> bytes:
    """One event: text as it stands, anything else as compact JSON."""
    data = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


def chunk(*choices: Mapping[str, Any], **more: Any) -> bytes:
    """An event with a chunk of these choices; what is passed by name is added at the top."""
    return event({**HEAD, "choices": choices, **more})


def choice(finish_reason: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    """A choice whose delta is what is passed by name."""
    return {"index": index, "delta": delta, "finish_reason": finish_reason}


def delta(finish_reason: str | None = None, **fields: Any) -> bytes:
    """An event with a chunk of one choice whose delta is what is passed by name."""
    return chunk(choice(finish_reason, **fields))


HI: Final = delta(role="assistant", content="H") + delta(content="i")
STOP: Final = delta("stop")
CALLED: Final = delta("tool_calls")


def usage(prompt: int, completion: int) -> dict[str, int]:
    """Counts in OpenAI's names."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def part(
    index: int | None, id: str | int | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A fragment of a tool call with what is not None."""
    outer = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**outer, **({"type": "function"} if name is not None else {}), "function": function}


def parts(*fragments: dict[str, Any]) -> bytes:
    """A chunk for each fragment."""
    return b"".join(delta(tool_calls=[fragment]) for fragment in fragments)


def answer(
    name: str,
    sentence: str,
    senders: str,
    body: bytes,
    *texts: str,
    reasoning: str | None = None,
    finish_reason: str | None = "stop",
    usage: Mapping[str, int] | None = None,
) -> HostileStream:
    """A whole answer in text: "Hi" unless told otherwise."""
    return HostileStream(
        name,
        sentence,
        senders,
        body,
        texts=texts or ("Hi",),
        reasoning=reasoning,
        finish_reason=finish_reason,
        usage=usage or {},
    )


def calling(
    name: str,
    sentence: str,
    senders: str,
    body: bytes,
    *calls: Call,
    text: str = "",
    finish_reason: str | None = "tool_calls",
) -> HostileStream:
    """A whole answer that calls tools."""
    return HostileStream(name, sentence, senders, body, texts=(text,), calls=calls, finish_reason=finish_reason)


def error(name: str, sentence: str, senders: str, body: bytes, message: str, *, text: str = "Hi") -> HostileStream:
    """The provider's error, after some text unless told otherwise."""
    return HostileStream(name, sentence, senders, body, "error", texts=(text,), message=message)


def cut(
    name: str, sentence: str, senders: str, body: bytes, *, text: str = "Hi", calls: tuple[Call, ...] = ()
) -> HostileStream:
    """Too little came."""
    return HostileStream(name, sentence, senders, body, "cut", texts=(text,), calls=calls)


def invalid(name: str, sentence: str, senders: str, body: bytes, *, text: str = "") -> HostileStream:
    """What came is no stream of chat completion chunks."""
    return HostileStream(name, sentence, senders, body, "invalid", texts=(text,))
