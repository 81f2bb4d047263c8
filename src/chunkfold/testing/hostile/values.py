"""The entries of the hostile set: a stream, and the result that is expected."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chunkfold.testing.readings import Call, Ending


class Cost(NamedTuple):
    """What reading a body may cost.

    Attributes:
        seconds: Of processor time.
        megabytes: Of Python's memory at the peak, the result included.
    """

    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class HostileStream:
    """A body that a provider sends with status 200, and what a correct client gets of it.

    Attributes:
        name: Short and unique; the rule's id where the body is a rule's example.
        sentence: What comes.
        senders: Who sends it.
        body: The bytes of the response's body.
        ending: `complete`: an answer, however odd. `error`: the provider's error has to surface. `cut`: too little
            came, which must not pass for a whole answer. `invalid`: no stream of chat completion chunks.
        texts: The text of each choice, by index; of what came before the end, where that is not `complete`.
        reasoning: The reasoning text; None is not judged.
        calls: The tool calls of choice 0, in order.
        finish_reason: As sent; None is not judged.
        usage: Counts that have to come out, by OpenAI's names; others may be there.
        message: Words of the provider's error.
        cost: What reading it may cost; None for all but the cases of abuse.
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
