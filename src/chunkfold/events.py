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
from io import StringIO
from typing import Any

from chunkfold.anomalies import Anomaly
from chunkfold.errors import ParseError
from chunkfold.models import Annotation, ChatCompletionMessageToolCall, CompletionUsage, Outcome
from chunkfold.surrogates import well_formed


@dataclass(frozen=True, slots=True)
class _Growth:
    """A piece that a text grew by.

    Attributes:
        choice: The choice's index.
        delta: What is new; never empty.
    """

    choice: int
    delta: str
    _buffer: StringIO = field(repr=False, compare=False)
    _end: int = field(repr=False, compare=False)

    @property
    def snapshot(self) -> str:
        """The whole text up to and with this piece; put together when it is asked for, so keep it if you need it."""
        return well_formed(self._buffer.getvalue()[: self._end])


@dataclass(frozen=True, slots=True)
class TextDelta(_Growth):
    """The content of a choice grew by `delta`."""


@dataclass(frozen=True, slots=True)
class ReasoningDelta(_Growth):
    """The reasoning of a choice grew by `delta`, whichever field brought it."""


@dataclass(frozen=True, slots=True)
class RefusalDelta(_Growth):
    """The refusal of a choice grew by `delta`."""


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
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


@dataclass(frozen=True, slots=True)
class ToolCallArgumentsDelta(_Growth):
    """The arguments of a tool call, or a custom tool's input, grew by `delta`.

    Attributes:
        position: The call's place in `message.tool_calls`.
    """

    position: int


@dataclass(frozen=True, slots=True)
class ToolCallDone:
    """A tool call is complete, because the stream says so, and never because its arguments already parse.

    It says so by a finish reason, by `[DONE]`, or by a later call; but by a later call only if the arguments are
    whole, for some providers fill in several calls at once. Should more arguments come after all, the call is done
    once more with all of them.

    Attributes:
        choice: The choice's index.
        position: Its place in `message.tool_calls`.
        call: The call. One that was sent without an id has the id that it will have in the final message.
        parsed: Its arguments: as the type that was registered for the tool, else a dict; the text of a custom
            tool's input. None if they do not parse.
        error: Why they do not parse, None if they do. `error.cut` says whether they end too early, as they do when a
            token limit cut them.
    """

    choice: int
    position: int
    call: ChatCompletionMessageToolCall
    parsed: Any
    error: ParseError | None


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """Spoken output, as it comes.

    Attributes:
        choice: The choice's index.
        data: The next bytes of the audio, decoded; b"" if only the transcript grew.
        transcript: What the transcript grew by; "" if only the audio did.
    """

    choice: int
    data: bytes
    transcript: str


@dataclass(frozen=True, slots=True)
class ImageReceived:
    """An image came.

    Attributes:
        choice: The choice's index.
        image: The image as sent, as a rule `{"type": "image_url", "image_url": {"url": "data:..."}}`.
    """

    choice: int
    image: Any


@dataclass(frozen=True, slots=True)
class AnnotationReceived:
    """An annotation to the content came, such as a citation.

    Attributes:
        choice: The choice's index.
        annotation: The annotation.
    """

    choice: int
    annotation: Annotation


@dataclass(frozen=True, slots=True)
class ChoiceFinished:
    """A choice has its finish reason; rarely, another one comes later, and counts.

    Attributes:
        choice: The choice's index.
        finish_reason: The provider's word.
        outcome: What it means.
    """

    choice: int
    finish_reason: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class UsageReceived:
    """Usage came, or changed.

    Attributes:
        usage: All of it so far, merged.
    """

    usage: CompletionUsage


@dataclass(frozen=True, slots=True)
class AnomalyNoted:
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
