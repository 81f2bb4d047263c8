"""The typed events of a stream: what a chunk means, independent of its shape.

    for event in stream.events():
        match event:
            case TextDelta(delta=text):
                print(text, end="")
            case ToolCallDone(call=call, parsed=arguments):
                run(call.name, arguments)

Events are small frozen values that can be hashed, in the order in which the stream sent their content. Each has the
index of its choice. The snapshot of a delta is computed on access. Adding up the events of a stream results in its
text, reasoning, refusal, tool calls, finish reasons and usage.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from chunkfold.anomalies import Anomaly
from chunkfold.errors import ParseError
from chunkfold.excerpts import ShortRepr
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.fold.tool_call import ToolCall
from chunkfold.json_text.values import copied
from chunkfold.models.base import validate_leniently
from chunkfold.models.outcome import Outcome
from chunkfold.models.shared import Annotation, CompletionUsage
from chunkfold.models.tool_calls import ChatCompletionMessageToolCall, is_server_side


class _Growth(ShortRepr):
    """A piece that was appended to a text, with access to the text so far."""

    __slots__ = ("_source",)
    delta: str
    _source: tuple[TextBuffer, int]

    @property
    def snapshot(self) -> str:
        """The whole text up to and with this piece; computed on each access.

        An event that was created by hand, or pickled, has its own piece only.
        """
        source = getattr(self, "_source", None)
        return self.delta if source is None else source[0].getvalue()[: source[1]]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@dataclass(frozen=True, slots=True, repr=False)
class _TextGrowth(_Growth):
    """A piece of a choice's own text."""

    choice: int
    delta: str


TextGrowthT = TypeVar("TextGrowthT", bound=_TextGrowth)


@dataclass(frozen=True, slots=True, repr=False)
class TextDelta(_TextGrowth):
    """The content of a choice grew by `delta`, which is never empty."""


@dataclass(frozen=True, slots=True, repr=False)
class ReasoningDelta(_TextGrowth):
    """The reasoning of a choice grew by `delta`, which is never empty, whichever field it was sent in."""


@dataclass(frozen=True, slots=True, repr=False)
class RefusalDelta(_TextGrowth):
    """The refusal of a choice grew by `delta`, which is never empty."""


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallStarted(ShortRepr):
    """A tool call starts: its name is known, and its first argument text has arrived, or it is done already.

    Attributes:
        choice: The choice's index.
        position: Its index in `message.tool_calls`, which identifies the events of one call.
        id: Its id; None if none has been sent so far.
        name: The tool's name; "" if the call is done and no name was sent.
        type: Its type as sent, usually `function`; None if none has been sent so far.
    """

    choice: int
    position: int
    id: str | None
    name: str
    type: str | None = None

    @property
    def is_server_side(self) -> bool:
        """Whether there is nothing for you to run, as far as is known by now; `ToolCallDone.call` knows."""
        return is_server_side(self.id, self.type, has_name=bool(self.name))


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallArgumentsDelta(_Growth):
    """The arguments of a tool call, or a custom tool's input, grew.

    Attributes:
        choice: The choice's index.
        position: The call's index in `message.tool_calls`.
        delta: The new piece; never empty.
    """

    choice: int
    position: int
    delta: str


_new: Final = object.__new__
_set_choice, _set_delta = (vars(_TextGrowth)[name].__set__ for name in ("choice", "delta"))
_set_source: Final = vars(_Growth)["_source"].__set__


def text_grown(kind: type[TextGrowthT], choice: int, delta: str, buffer: TextBuffer, end: int) -> TextGrowthT:
    """The event for a piece of a text, now the first `end` characters of the buffer: its class takes twice the time."""
    event = _new(kind)
    _set_choice(event, choice)
    _set_delta(event, delta)
    _set_source(event, (buffer, end))
    return event


def arguments_grown(choice: int, call: ToolCall, delta: str) -> ToolCallArgumentsDelta:
    """The event for a piece of a call's arguments, which are now all that the call has."""
    event = ToolCallArgumentsDelta(choice, call.place, delta)
    _set_source(event, (call.arguments, call.arguments.tell()))
    return event


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallDone(ShortRepr):
    """A tool call is done: the stream ended it. It is not enough that its arguments parse.

    A finish reason or `[DONE]` ends it. A later call only does if the call has a name and its arguments are a whole
    object that is not empty, because some providers write several calls in turn. If more of the call arrives
    afterwards, another event with the whole call follows at the end.

    Attributes:
        choice: The choice's index.
        position: Its index in `message.tool_calls`.
        call: The call. If it was sent without an id, it has the id of the final message.
        parsed: Its arguments: the type that was registered for the tool, else a dict; for a custom tool, the text of
            its input. None if they do not parse, or have more than 250,000 values, or if the stream's calls have more
            than 500,000.
        error: Why `parsed` is None, else None. `error.cut` says whether the arguments ended too early, usually at a
            token limit.
    """

    choice: int
    position: int
    call: ChatCompletionMessageToolCall = field(hash=False)
    parsed: Any = field(hash=False)
    error: ParseError | None = field(compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class AudioDelta(ShortRepr):
    """A piece of audio or of its transcript.

    Attributes:
        choice: The choice's index.
        data: The next bytes of the audio, decoded; b"" if only the transcript grew.
        transcript: The new piece of the transcript; "" if only the audio grew.
    """

    choice: int
    data: bytes
    transcript: str


@dataclass(frozen=True, slots=True, repr=False)
class ImageReceived(ShortRepr):
    """An image arrived, in `images`, in a content list or in `content_blocks`.

    Attributes:
        choice: The choice's index.
        image: The image as sent, usually `{"type": "image_url", "image_url": {"url": "data:..."}}`.
    """

    choice: int
    image: Any = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class AnnotationReceived(ShortRepr):
    """An annotation of the content arrived, such as a citation.

    Attributes:
        choice: The choice's index.
        annotation: The annotation.
    """

    choice: int
    annotation: Annotation = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class ChoiceFinished(ShortRepr):
    """A choice has its finish reason. Rarely, another one or another outcome follows; the last one counts.

    Attributes:
        choice: The choice's index.
        finish_reason: The finish reason, as sent.
        outcome: What it means.
    """

    choice: int
    finish_reason: str
    outcome: Outcome


class _WithUsage(ShortRepr):
    """Computes its usage on first access: if usage comes with every chunk, this saves a quarter of the time."""

    __slots__ = ("_source",)
    _source: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Called for missing attributes: `usage`, before its first access."""
        if name != "usage":
            raise AttributeError(name)
        usage, _ = validate_leniently(CompletionUsage, copied(self._source))
        object.__setattr__(self, "usage", usage)
        return usage


@dataclass(frozen=True, slots=True, repr=False)
class UsageReceived(_WithUsage):
    """Usage arrived, or changed.

    Attributes:
        usage: All usage so far, merged. Computed on first access.
    """

    usage: CompletionUsage = field(hash=False)


def usage_received(usage: dict[str, Any]) -> UsageReceived:
    """The event with the usage so far; the object is never changed."""
    event = UsageReceived.__new__(UsageReceived)
    object.__setattr__(event, "_source", usage)
    return event


@dataclass(frozen=True, slots=True, repr=False)
class AnomalyNoted(ShortRepr):
    """A deviation was tolerated for the first time in this stream; `anomalies` counts how often.

    Attributes:
        anomaly: The rule, and the place where it was broken.
    """

    anomaly: Anomaly


_TextEvent = TextDelta | ReasoningDelta | RefusalDelta
_CallEvent = ToolCallStarted | ToolCallArgumentsDelta | ToolCallDone
OutputEvent = _TextEvent | _CallEvent | AudioDelta | ImageReceived
"""The events that bring output."""
ChatCompletionEvent = OutputEvent | AnnotationReceived | ChoiceFinished | UsageReceived | AnomalyNoted
