"""What the hostile set is made of: a stream and what must come of it, and what came of it in a client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Ending: TypeAlias = Literal["complete", "error", "cut", "invalid"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: its name, its raw arguments, and its id, None where none was sent or none is known."""

    name: str
    arguments: str
    id: str | None = None


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client made of a body. None always means that it has no notion of the thing, or did not say.

    Attributes:
        texts: The text of each choice that the client tells apart.
        calls: The tool calls of choice 0.
        reasoning: The reasoning text.
        finish_reason: "" where the client has one but says that none came.
        usage: Counts by OpenAI's names; empty where none came.
        refused: One line on the exception, or on the explicit error; None if an answer came.
        ending: What kind of ending the client says it was.
    """

    texts: tuple[str, ...] | None = None
    calls: tuple[Call, ...] | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    refused: str | None = None
    ending: Ending | None = None
