"""The entries of the hostile set: each is a stream and the expected result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from chunkfold.excerpts import ShortRepr
from chunkfold.testing.readings import Call, Ending
from chunkfold.testing.wire import delta

# The events that many of them share.
HI: Final = delta(role="assistant", content="H") + delta(content="i")
STOP: Final = delta("stop")
CALLED: Final = delta("tool_calls")


class Cost(NamedTuple):
    """The cost that reading a body may have: CPU time, and Python's peak memory, the result included."""

    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True, repr=False)
class HostileStream(ShortRepr):
    """A body that a provider sends with status 200, and the result that a correct client gets.

    Attributes:
        name: Short and unique; the rule's id where the body is a rule's example.
        sentence: What is sent.
        senders: Who sends it.
        body: The bytes of the response's body.
        ending: `complete`: an answer, however odd. `error`: the provider's error has to surface. `cut`: the stream
            ended too early and must not be taken for a whole answer. `invalid`: not a stream of chat completion chunks.
        texts: The text of each choice, by index; if the ending is not `complete`, the text that arrived before it.
        reasoning: The reasoning text; None if it does not count.
        calls: The tool calls of choice 0, in order.
        finish_reason: The finish reason as sent; None if it does not count.
        usage: Counts that the result must have, by OpenAI's names; it may have others.
        message: A part of the message of the provider's error.
        cost: The cost that reading it may have; None except for the cases of abuse.
    """

    name: str
    sentence: str
    senders: str
    body: bytes
    ending: Ending = "complete"
    texts: tuple[str, ...] = ("",)
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    message: str = ""
    cost: Cost | None = None


def answer(
    name: str,
    sentence: str,
    senders: str,
    body: bytes,
    *texts: str,
    reasoning: str | None = None,
    finish_reason: str = "stop",
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
