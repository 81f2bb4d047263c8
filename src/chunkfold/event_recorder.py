"""What the fold does, as events. The one thing decided here is when a tool call starts, and when it is done."""

import json
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Final

from chunkfold.anomalies import Anomaly
from chunkfold.audio import AudioDecoder
from chunkfold.errors import ParseError
from chunkfold.events import (
    AnnotationReceived,
    AnomalyNoted,
    AudioDelta,
    ChatCompletionEvent,
    ChoiceFinished,
    ImageReceived,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.json_values import copied
from chunkfold.models import (
    Annotation,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    CompletionUsage,
    Outcome,
)
from chunkfold.models.completion import ToolTypes, give_types
from chunkfold.models.outcome import outcome_of
from chunkfold.models.parsing import without_placeholder
from chunkfold.tool_calls import ToolCall, ToolCalls

_TEXT_EVENTS: Final[dict[str, type[TextDelta | ReasoningDelta | RefusalDelta]]] = {
    "content": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}


@dataclass(slots=True)
class _Progress:
    """How much of a tool call was told."""

    calls: ToolCalls
    call: ToolCall
    is_started: bool = False
    is_followed: bool = False
    is_done: bool = False


@dataclass(slots=True)
class _ChoiceProgress:
    """How much of a choice was told.

    Attributes:
        touched: The call that the last fragment belonged to.
    """

    calls: dict[int, _Progress] = field(default_factory=dict[int, _Progress])
    touched: _Progress | None = None
    audio: AudioDecoder = field(default_factory=AudioDecoder)
    finish_reason: str | None = None


class EventRecorder:
    """Watch the fold of one stream, and keep what it does as events until somebody takes them.

    Args:
        types: The types of the tools' arguments, by the tools' names.
    """

    def __init__(self, types: ToolTypes) -> None:
        self._types = types
        self._events: list[ChatCompletionEvent] = []
        self._choices: dict[int, _ChoiceProgress] = {}

    def take(self) -> list[ChatCompletionEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def complete(self) -> None:
        """The stream ended well: whatever call is still open is done."""
        for index, choice in self._choices.items():
            self._end_calls(index, choice)

    def on_anomaly(self, anomaly: Anomaly) -> None:
        """A rule was broken for the first time."""
        self._events.append(AnomalyNoted(anomaly))

    def on_text(self, choice: int, name: str, text: str, buffer: StringIO, end: int) -> None:
        """Content, reasoning or refusal grew."""
        self._events.append(_TEXT_EVENTS[name](choice, text, buffer, end))

    def on_tool_call(self, choice: int, calls: ToolCalls, call: ToolCall, text: str) -> None:
        """A fragment was folded into a call."""
        kept = self._choice(choice)
        progress = kept.calls.get(call.place)
        if progress is None:
            self._end_previous(choice, kept.touched)
            progress = kept.calls[call.place] = _Progress(calls, call)
        kept.touched = progress
        if not progress.is_started:
            if call.has_name and call.has_arguments:
                self._start(choice, progress)
        elif text:
            progress.is_done = False
            self._grow(choice, call, text)

    def on_audio(self, choice: int, data: str, transcript: str) -> None:
        """A piece of audio or of its transcript came."""
        decoded = self._choice(choice).audio.feed(data)
        if decoded or transcript:
            self._events.append(AudioDelta(choice, decoded, transcript))

    def on_image(self, choice: int, image: Any) -> None:
        """An image came."""
        self._events.append(ImageReceived(choice, copied(image)))

    def on_annotation(self, choice: int, annotation: Annotation) -> None:
        """An annotation came."""
        self._events.append(AnnotationReceived(choice, annotation.model_copy(deep=True)))

    def on_finish(self, choice: int, finish_reason: str, *, has_tool_calls: bool) -> None:
        """A choice has its finish reason. One that means an error does not complete a call."""
        outcome = outcome_of(finish_reason, has_tool_calls=has_tool_calls) or Outcome.OTHER
        kept = self._choice(choice)
        if outcome is not Outcome.ERROR:
            self._end_calls(choice, kept)
        if finish_reason != kept.finish_reason:
            kept.finish_reason = finish_reason
            self._events.append(ChoiceFinished(choice, finish_reason, outcome))

    def on_usage(self, usage: dict[str, Any]) -> None:
        """The usage changed."""
        self._events.append(UsageReceived(CompletionUsage.validate_leniently(copied(usage))[0]))

    def _choice(self, index: int) -> _ChoiceProgress:
        kept = self._choices.get(index)
        if kept is None:
            kept = self._choices[index] = _ChoiceProgress()
        return kept

    def _start(self, choice: int, progress: _Progress) -> None:
        progress.is_started = True
        call = progress.call
        self._events.append(ToolCallStarted(choice, call.place, call.id, call.name))
        if call.has_arguments:
            self._grow(choice, call, call.arguments.getvalue())

    def _grow(self, choice: int, call: ToolCall, text: str) -> None:
        end = call.arguments.tell()
        self._events.append(ToolCallArgumentsDelta(choice, text, call.arguments, end, call.place))

    def _end_previous(self, choice: int, previous: _Progress | None) -> None:
        """A new call begins: the one before is done, unless its arguments show that it is not."""
        if previous is None or previous.is_followed:
            return  # each call is looked at once, so that the cost stays linear
        previous.is_followed = True
        if not previous.is_done and _is_whole(previous.call):
            self._end(choice, previous)

    def _end_calls(self, choice: int, kept: _ChoiceProgress) -> None:
        for progress in kept.calls.values():
            if not progress.is_done:
                self._end(choice, progress)

    def _end(self, choice: int, progress: _Progress) -> None:
        if not progress.is_started:
            self._start(choice, progress)
        progress.is_done = True
        call = progress.call.snapshot()
        call.id = call.id or progress.calls.made_up_id(progress.call)
        if not progress.call.has_arguments and call.arguments:  # an empty object, which counts if nothing else came
            text, place = call.arguments, progress.call.place
            self._events.append(ToolCallArgumentsDelta(choice, text, StringIO(text), len(text), place))
        give_types([call], self._types)
        parsed, error = _parsed(call)
        self._events.append(ToolCallDone(choice, progress.call.place, call, parsed, error))


def _is_whole(call: ToolCall) -> bool:
    """Whether a call's arguments are JSON to the end; there is no telling of a custom tool's input."""
    if call.is_custom:
        return True
    try:
        json.loads(without_placeholder(call.arguments.getvalue()))
    except (ValueError, RecursionError):
        return False
    return call.has_arguments


def _parsed(call: ChatCompletionMessageToolCall) -> tuple[Any, ParseError | None]:
    if not isinstance(call, ChatCompletionMessageFunctionToolCall):
        return call.custom.input, None
    try:
        return call.function.parse(), None
    except ParseError as error:
        return None, error
