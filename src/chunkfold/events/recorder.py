"""Record what the fold does as events, and decide when a tool call starts and when it is done."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from chunkfold.anomalies import Anomaly
from chunkfold.errors import ParseError
from chunkfold.events.types import (
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
    arguments_grown,
    text_grown,
    usage_received,
)
from chunkfold.excerpts import exception_text, excerpt
from chunkfold.fold.audio import AudioDecoder
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.fold.tool_call import ToolCall
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.parsing import count_items, load_json
from chunkfold.json_text.values import copied, is_object, new_dict
from chunkfold.models.base import for_completion
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.models.shared import Annotation
from chunkfold.models.tool_calls import (
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    ToolTypes,
    give_types,
)

# Each takes up to 200 bytes, and a microsecond.
_MOST_VALUES: Final = 250_000
_MOST_VALUES_IN_ALL: Final = 500_000
_TEXT_EVENTS: Final[dict[str, type[TextDelta | ReasoningDelta | RefusalDelta]]] = {
    "content": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}


@dataclass(slots=True)
class _CallProgress:
    """The events of a tool call that were recorded so far."""

    choice: int
    calls: ToolCalls  # all calls of its choice
    call: ToolCall
    is_started: bool = False  # its start was recorded
    is_followed: bool = False  # another call began since
    done: ChatCompletionMessageToolCall | None = None  # as it was when its end was recorded


@dataclass(slots=True)
class _ChoiceProgress:
    """The events of a choice that were recorded so far. Its calls are kept by their places."""

    calls: dict[int, _CallProgress] = field(default_factory=new_dict)
    open_calls: dict[int, _CallProgress] = field(default_factory=new_dict)  # those that are not done
    touched: _CallProgress | None = None  # the call that the last fragment belonged to
    audio: AudioDecoder = field(default_factory=AudioDecoder)
    finish: tuple[str, Outcome] | None = None


class _ValueBudget:
    """The values of arguments that may still be parsed in a stream."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES_IN_ALL

    def allows(self, arguments: str) -> bool:
        """Whether arguments may be parsed. Their values are counted in any case, since counting takes time too."""
        most = min(self._left, _MOST_VALUES)
        values = count_items(arguments.encode("utf-8", "surrogatepass"), most)
        self._left -= values  # no less than -1: at most one more than allowed is counted
        return values <= most


class EventRecorder:
    """Observe the fold of one stream, and keep its events until they are taken."""

    def __init__(self, types: ToolTypes) -> None:
        self._types = types
        self._events: list[ChatCompletionEvent] = []
        self._choices: defaultdict[int, _ChoiceProgress] = defaultdict(_ChoiceProgress)
        self._checked = _ValueBudget()  # to find whether a call is whole
        self._parsed = _ValueBudget()  # for the events

    def take(self) -> list[ChatCompletionEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def complete(self) -> None:
        """The stream ended well: complete each call that is open, or that changed since its end was recorded."""
        for kept in self._choices.values():
            for place, progress in kept.calls.items():
                if progress.done is None or progress.done.id != progress.call.id:
                    kept.open_calls[place] = progress
            count = len(self._events)
            for progress in [*kept.open_calls.values()]:
                self._end(progress)
            if len(self._events) > count:
                kept.finish = None  # recorded again, after the calls

    def on_anomaly(self, anomaly: Anomaly) -> None:
        """A rule was broken for the first time."""
        self._events.append(AnomalyNoted(anomaly))

    def on_text(self, choice: int, name: str, text: str, buffer: TextBuffer, end: int) -> None:
        """Content, reasoning or refusal grew."""
        self._events.append(text_grown(_TEXT_EVENTS[name], choice, text, buffer, end))

    def on_tool_call(self, choice: int, calls: ToolCalls, call: ToolCall, text: str) -> None:
        """A fragment was folded into a call."""
        kept = self._choices[choice]
        progress = kept.calls.get(call.place)
        if progress is None:
            self._end_previous(kept)
            progress = kept.calls[call.place] = _CallProgress(choice, calls, call)
        kept.touched = kept.open_calls[call.place] = progress
        if progress.is_started and text:
            self._events.append(arguments_grown(choice, call, text))
        # Some providers send the name in pieces, or after the arguments.
        elif not progress.is_started and call.has_name and call.has_text:
            self._start(progress)

    def on_audio(self, choice: int, data: str, transcript: str) -> None:
        """A piece of audio or of its transcript came."""
        decoded = self._choices[choice].audio.feed(data)
        if decoded or transcript:
            self._events.append(AudioDelta(choice, decoded, transcript))

    def on_image(self, choice: int, image: Any) -> None:
        """An image came."""
        self._events.append(ImageReceived(choice, copied(image)))

    def on_annotation(self, choice: int, annotation: Annotation) -> None:
        """An annotation came."""
        self._events.append(AnnotationReceived(choice, for_completion(annotation)))

    def on_finish(self, choice: int, finish_reason: str, *, has_tool_calls: bool) -> None:
        """A choice has its finish reason. One that means an error does not complete a call."""
        outcome = outcome_of(finish_reason, has_tool_calls=has_tool_calls) or Outcome.OTHER
        kept = self._choices[choice]
        # A call after the first finish reason is done when the stream ends: more of it could follow.
        if outcome is not Outcome.ERROR and kept.finish is None:
            for progress in [*kept.open_calls.values()]:
                if not progress.call.is_late:
                    self._end(progress)
        if (finish_reason, outcome) != kept.finish:
            kept.finish = (finish_reason, outcome)
            self._events.append(ChoiceFinished(choice, finish_reason, outcome))

    def on_usage(self, usage: dict[str, Any]) -> None:
        """The usage changed."""
        self._events.append(usage_received(usage))

    def _start(self, progress: _CallProgress) -> None:
        progress.is_started = True
        call = progress.call
        self._events.append(ToolCallStarted(progress.choice, call.place, call.id, call.name, call.type))
        if call.has_text:
            self._events.append(arguments_grown(progress.choice, call, call.arguments.getvalue()))

    def _end_previous(self, kept: _ChoiceProgress) -> None:
        """A new call begins: record the end of the one before, if it can be complete."""
        previous = kept.touched
        if previous is None or previous.is_followed:
            return  # each call is checked once, so that the cost stays linear
        previous.is_followed = True
        if previous.call.place in kept.open_calls and _is_whole(previous.call, self._checked):
            self._end(previous)

    def _end(self, progress: _CallProgress) -> None:
        if not progress.is_started:
            self._start(progress)
        del self._choices[progress.choice].open_calls[progress.call.place]
        call = progress.call.snapshot()
        call.id = call.id or progress.calls.made_up_id(progress.call)
        if call == progress.done:
            return
        has_deltas = progress.call.has_text or (progress.done is not None and progress.done.arguments)
        if call.arguments and not has_deltas:  # an empty object (CF310)
            self._events.append(ToolCallArgumentsDelta(progress.choice, progress.call.place, call.arguments))
        progress.done = call.model_copy(deep=True)  # the receiver may change the event's own
        give_types([call], self._types)
        parsed, error = _parsed(call, self._parsed)
        self._events.append(ToolCallDone(progress.choice, progress.call.place, call, parsed, error))


def _is_whole(call: ToolCall, budget: _ValueBudget) -> bool:
    """Whether a call can be taken for complete when another one begins: it has a name, and a whole object.

    A custom tool's input has no end of its own. An empty object is what some bridges send before the real one.
    """
    text = call.arguments.getvalue()
    if call.is_custom or not call.has_name or not budget.allows(text):
        return False
    try:
        arguments = load_json(text)
    except (ValueError, RecursionError):
        return False
    return is_object(arguments) and bool(arguments)


def _parsed(call: ChatCompletionMessageToolCall, budget: _ValueBudget) -> tuple[Any, ParseError | None]:
    if not isinstance(call, ChatCompletionMessageFunctionToolCall):
        return call.custom.input, None
    if not budget.allows(call.arguments):
        what = f"expected at most {_MOST_VALUES} values to parse for an event, and {_MOST_VALUES_IN_ALL} in a stream"
        return None, ParseError(f"{what}, received more: call.function.parse() has no limit", text=call.arguments)
    try:
        return call.function.parse(), None
    except ParseError as error:
        return None, _without_frames(error)
    except Exception as error:  # noqa: BLE001 - validators are the user's, and must not break the stream
        reason = f"{type(error).__name__}: {excerpt(exception_text(error))}"
        msg = f"the type of {excerpt(call.name)} failed to validate: {reason}"
        failure = ParseError(msg, text=call.arguments)
        failure.__cause__ = error  # with its traceback, which shows where the validator failed
        return None, failure


def _without_frames(error: ParseError) -> ParseError:
    """An error to keep: its traceback, and those of its causes, would keep the whole stream."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        if isinstance(cause, ValidationError):  # it keeps what a validator raised
            for detail in cause.errors(include_url=False, include_input=False):
                if isinstance(raised := detail.get("ctx", {}).get("error"), Exception):
                    raised.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    return error
