"""A stream as typed events: what a chunk means, instead of what it looks like.

    for event in stream.events():
        match event:
            case TextDelta(delta=text):
                print(text, end="")
            case ToolCallDone(call=call, parsed=arguments):
                run(call.name, arguments)

Events are small frozen values in the order in which the stream brought what they tell. Each names its choice by the
choice's index. Deltas know what they add up to, which costs something only when it is asked for. Folded again, the
events of a stream give its text, reasoning, refusal, tool calls, finish reasons and usage.
"""

from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from chunkfold.anomalies import Anomaly
from chunkfold.brief import BriefRepr
from chunkfold.errors import ParseError
from chunkfold.models import Annotation, ChatCompletionMessageToolCall, CompletionUsage, Outcome
from chunkfold.text_buffer import TextBuffer


class _Growth(BriefRepr):
    """A piece that a text grew by, which knows the text it became part of."""

    __slots__ = ("_source",)
    delta: str
    _source: tuple[TextBuffer, int]

    @property
    def snapshot(self) -> str:
        """The whole text up to and with this piece; put together when it is asked for, so keep it if you need it.

        An event that was made by hand, or pickled, knows its own piece only.
        """
        source = getattr(self, "_source", None)
        return self.delta if source is None else source[0].getvalue()[: source[1]]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


GrowthT = TypeVar("GrowthT", bound=_Growth)


def grown(event: GrowthT, buffer: TextBuffer, end: int) -> GrowthT:
    """The event, told that the first `end` characters of the buffer are the text up to and with its piece."""
    object.__setattr__(event, "_source", (buffer, end))
    return event


@dataclass(frozen=True, slots=True, repr=False)
class TextDelta(_Growth):
    """The content of a choice grew.

    Attributes:
        choice: The choice's index.
        delta: What is new; never empty.
    """

    choice: int
    delta: str


@dataclass(frozen=True, slots=True, repr=False)
class ReasoningDelta(_Growth):
    """The reasoning of a choice grew, whichever field brought it.

    Attributes:
        choice: The choice's index.
        delta: What is new; never empty.
    """

    choice: int
    delta: str


@dataclass(frozen=True, slots=True, repr=False)
class RefusalDelta(_Growth):
    """The refusal of a choice grew.

    Attributes:
        choice: The choice's index.
        delta: What is new; never empty.
    """

    choice: int
    delta: str


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallStarted(BriefRepr):
    """A tool call begins: its name is known, and its first argument text has come, or it is done already.

    Attributes:
        choice: The choice's index.
        position: Its place in `message.tool_calls`, which is how the events of one call belong together.
        id: Its id, None if none was sent so far.
        name: The tool's name; "" if the call is done and none ever came.
    """

    choice: int
    position: int
    id: str | None
    name: str


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallArgumentsDelta(_Growth):
    """The arguments of a tool call, or a custom tool's input, grew.

    Attributes:
        choice: The choice's index.
        position: The call's place in `message.tool_calls`.
        delta: What is new; never empty.
    """

    choice: int
    position: int
    delta: str


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallDone(BriefRepr):
    """A tool call is complete, because the stream says so, and never because its arguments already parse.

    It says so by a finish reason, by `[DONE]`, or by a later call; but by a later call only if the call has a name and
    its arguments are a whole object that is not empty, for some providers fill in several calls at once. Should more
    of the call come after all, it is done once more, at the end, with all of it.

    Attributes:
        choice: The choice's index.
        position: Its place in `message.tool_calls`.
        call: The call. One that was sent without an id has the one that it will have in the final message.
        parsed: Its arguments: as the type that was registered for the tool, else a dict; the text of a custom
            tool's input. None if they do not parse.
        error: Why they do not parse, None if they do. `error.cut` says whether they end too early, as they do when a
            token limit cut them.
    """

    choice: int
    position: int
    call: ChatCompletionMessageToolCall
    parsed: Any
    error: ParseError | None = field(compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class AudioDelta(BriefRepr):
    """Spoken output, as it comes.

    Attributes:
        choice: The choice's index.
        data: The next bytes of the audio, decoded; b"" if only the transcript grew.
        transcript: What the transcript grew by; "" if only the audio did.
    """

    choice: int
    data: bytes
    transcript: str


@dataclass(frozen=True, slots=True, repr=False)
class ImageReceived(BriefRepr):
    """An image came.

    Attributes:
        choice: The choice's index.
        image: The image as sent, as a rule `{"type": "image_url", "image_url": {"url": "data:..."}}`.
    """

    choice: int
    image: Any


@dataclass(frozen=True, slots=True, repr=False)
class AnnotationReceived(BriefRepr):
    """An annotation to the content came, such as a citation.

    Attributes:
        choice: The choice's index.
        annotation: The annotation.
    """

    choice: int
    annotation: Annotation


@dataclass(frozen=True, slots=True, repr=False)
class ChoiceFinished(BriefRepr):
    """A choice has its finish reason. Rarely, another one or another outcome comes later, and counts.

    Attributes:
        choice: The choice's index.
        finish_reason: The provider's word.
        outcome: What it means.
    """

    choice: int
    finish_reason: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, repr=False)
class UsageReceived(BriefRepr):
    """Usage came, or changed.

    Attributes:
        usage: All of it so far, merged.
    """

    usage: CompletionUsage


@dataclass(frozen=True, slots=True, repr=False)
class AnomalyNoted(BriefRepr):
    """Something was tolerated for the first time in this stream; how often it was in all, `anomalies` tells.

    Attributes:
        anomaly: The rule, and the place where it was broken.
    """

    anomaly: Anomaly


ChatCompletionEvent = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolCallStarted
    | ToolCallArgumentsDelta
    | ToolCallDone
    | AudioDelta
    | ImageReceived
    | AnnotationReceived
    | ChoiceFinished
    | UsageReceived
    | AnomalyNoted
)
