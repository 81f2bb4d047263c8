"""The kinds of cases of the hostile set, and the events that many of them share."""

from collections.abc import Mapping
from typing import Final

from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.readings import Call
from chunkfold.testing.wire import delta

HI: Final = delta(role="assistant", content="H") + delta(content="i")
STOP: Final = delta("stop")
CALLED: Final = delta("tool_calls")


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
    """A whole answer in text, by default "Hi"."""
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


def cut(
    name: str, sentence: str, senders: str, body: bytes, *, text: str = "Hi", calls: tuple[Call, ...] = ()
) -> HostileStream:
    """A stream that ended too early."""
    return HostileStream(name, sentence, senders, body, "cut", texts=(text,), calls=calls)


def invalid(name: str, sentence: str, senders: str, body: bytes, *, text: str = "") -> HostileStream:
    """The body is not a stream of chat completion chunks."""
    return HostileStream(name, sentence, senders, body, "invalid", texts=(text,))
