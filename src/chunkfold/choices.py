"""Fold one choice: a rule for each field of a delta.

Texts are gathered in buffers and joined when somebody looks, so many small deltas cost as much as few large ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from chunkfold.anomalies import (
    AUDIO_NOT_BASE64,
    CONTENT_PARTS,
    EMPTY_FOR_ABSENT,
    ROLE_REPEATED,
    WRONG_TYPE,
    AnomalyLog,
)
from chunkfold.audio import is_base64
from chunkfold.errors import excerpt
from chunkfold.fold_observer import FoldObserver
from chunkfold.json_values import is_list, is_object
from chunkfold.merging import ReasoningDetails, keep_unknown
from chunkfold.models import ChoiceDelta, ChoiceDeltaAudio, ChoiceDeltaFunctionCall, ChoiceDeltaToolCall, ChoiceLogprobs
from chunkfold.models.content import named_reasoning, stretches_of
from chunkfold.surrogates import well_formed
from chunkfold.text_buffer import TextBuffer
from chunkfold.tool_calls import ToolCalls

if TYPE_CHECKING:
    from chunkfold.models.parts import PartStart


class FunctionCallState:
    """The legacy function call while it is folded."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments = TextBuffer()
        self.extra: dict[str, Any] = {}


class AudioState:
    """Spoken output while it is folded."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.transcript = TextBuffer()
        self.fields: dict[str, Any] = {}  # the id, the expiry, and unknown keys


class ChoiceState:
    """One choice while it is folded. What most choices never have is made when it comes: there may be many choices."""

    __slots__ = (
        *("_last_part", "audio", "details", "extra", "finish_reason", "function_call", "index", "lists", "log"),
        *("logprobs", "logprobs_extra", "message", "message_extra", "observer", "order", "role", "texts"),
        "tool_calls",
    )

    def __init__(self, index: int, log: AnomalyLog, observer: FoldObserver | None = None) -> None:
        self.index = index
        self.log = log
        self.observer = observer
        self.role: str | None = None
        self.finish_reason: str | None = None
        self.texts: dict[str, TextBuffer] = {}  # content, refusal, reasoning, reasoning_content
        self.order: list[PartStart] | None = None
        self._last_part = ""
        self.tool_calls: ToolCalls | None = None
        self.details: ReasoningDetails | None = None
        self.lists: dict[str, list[Any]] = {}  # images, annotations
        self.logprobs: dict[str, list[Any]] = {}
        self.logprobs_extra: dict[str, Any] = {}
        self.function_call: FunctionCallState | None = None
        self.audio: AudioState | None = None
        self.message: ChoiceDelta | None = None  # the last whole message that came
        self.extra: dict[str, Any] = {}
        self.message_extra: dict[str, Any] = {}

    def write(self, name: str, text: str) -> None:
        """Append to one of the texts that are parts of the message: content, reasoning, refusal."""
        if name == self._last_part:
            buffer = self.texts[name]
        else:
            buffer = self.buffer(name)
            if text:
                self.begin_part(name, buffer.tell())
        buffer.write(text)
        if self.observer is not None and text:
            self.observer.on_text(self.index, name, text, buffer, buffer.tell())

    def begin_part(self, name: str, start: int) -> None:
        """Remember where a part of the message begins: a character of its text, or a place in its list."""
        self._last_part = name
        if self.order is None:
            self.order = []
        self.order.append((name, start))

    def buffer(self, name: str) -> TextBuffer:
        """Where one of the texts is gathered."""
        buffer = self.texts.get(name)
        if buffer is None:
            buffer = self.texts[name] = TextBuffer()
        return buffer

    def compact(self) -> None:
        """Join the pieces of all texts."""
        for buffer in self.texts.values():
            buffer.compact()
        if self.tool_calls is not None:
            for call in self.tool_calls.calls:
                call.compact()
        if self.details is not None:
            self.details.compact()

    @property
    def has_calls(self) -> bool:
        """Whether there is any tool call, or the legacy function call."""
        return bool(self.tool_calls) or self.function_call is not None

    def text(self, name: str) -> str | None:
        """One of the texts so far, None if none of it came."""
        buffer = self.texts.get(name)
        return None if buffer is None else well_formed(buffer.getvalue())


def fold_delta(state: ChoiceState, delta: ChoiceDelta) -> int:
    """Fold each field by its rule, what has none as an unknown key; return how many characters of output it brought."""
    fields = vars(delta)
    reasoning = named_reasoning(fields)
    if reasoning:
        state.write("reasoning", reasoning)
    size = len(reasoning)
    for name, value in fields.items():
        if value is None:  # most of them
            continue
        if name == "content" and is_list(value):
            size += _add_content_list(state, value, thinking=not reasoning)
        elif (rule := _DELTA_RULES.get(name)) is not None:
            size += rule(state, value)
    keep_unknown(state.message_extra, delta.__pydantic_extra__)
    return size


def _add_content(state: ChoiceState, content: str) -> int:
    state.write("content", content)
    return len(content)


def _add_content_list(state: ChoiceState, content: list[Any], *, thinking: bool) -> int:
    """Text and, where it came in no field of its own, thinking."""
    state.log.note(CONTENT_PARTS)
    state.write("content", "")
    size = 0
    for kind, text in stretches_of(content):
        if kind == "text" or thinking:
            state.write("content" if kind == "text" else "reasoning", text)
            size += len(text)
    return size


def _add_refusal(state: ChoiceState, refusal: str) -> int:
    state.write("refusal", refusal)
    return len(refusal)


def _add_role(state: ChoiceState, role: str) -> int:
    if not role:
        state.log.note(EMPTY_FOR_ABSENT, "role")
    elif state.role is None:
        state.role = role
    else:
        state.log.note(ROLE_REPEATED, excerpt(role))
    return 0


def _add_raw_reasoning(state: ChoiceState, text: str) -> int:
    state.buffer("reasoning_content").write(text)
    return 0


def _add_details(state: ChoiceState, fragments: list[Any]) -> int:
    """Merged by type and index. Their text counts as reasoning; data is output of its own."""
    if state.details is None:
        state.details = ReasoningDetails()
    objects = list(filter(is_object, fragments))
    if len(objects) < len(fragments):
        state.log.note(WRONG_TYPE, "reasoning_details: expected objects")
    state.details.add(objects)
    return sum(len(str(item["data"])) for item in objects if item.get("data"))


def fold_tool_calls(state: ChoiceState, fragments: list[Any]) -> int:
    """Fold fragments of tool calls; return how many characters of output they brought."""
    if not fragments:
        return 0
    calls = state.tool_calls
    if calls is None:
        calls = state.tool_calls = ToolCalls(state.log)
    size = 0
    for fragment in fragments:
        known = len(calls.calls)
        size += calls.add(fragment)
        if len(calls.calls) > known:
            state.begin_part("tool_calls", known)
        if state.observer is not None and calls.last is not None:
            state.observer.on_tool_call(state.index, calls, calls.last, _argument_text(fragment))
    return size


def _argument_text(fragment: ChoiceDeltaToolCall) -> str:
    """What a fragment adds to its call's arguments, or input."""
    fields = vars(fragment)
    return _text_in(fields.get("function"), "arguments") + _text_in(fields.get("custom"), "input")


def _text_in(part: Any, name: str) -> str:
    text: str | None = None if part is None else part.__dict__.get(name)
    return text or ""


def _add_function_call(state: ChoiceState, call: ChoiceDeltaFunctionCall) -> int:
    if state.function_call is None:
        state.function_call = FunctionCallState()
    kept, fields = state.function_call, call.__dict__
    name, text = fields.get("name") or "", fields.get("arguments") or ""
    kept.name = kept.name or name
    kept.arguments.write(text)
    keep_unknown(kept.extra, call.__pydantic_extra__)
    return len(text) + len(name)


def _add_audio(state: ChoiceState, audio: ChoiceDeltaAudio) -> int:
    """The id and the expiry are the last ones; data and transcript append."""
    if state.audio is None:
        state.audio = AudioState()
        state.begin_part("audio", 0)
    kept, fields = state.audio, audio.__dict__
    keep_unknown(kept.fields, {name: fields[name] for name in ("id", "expires_at") if fields.get(name)})
    keep_unknown(kept.fields, audio.__pydantic_extra__)
    data, transcript = fields.get("data") or "", fields.get("transcript") or ""
    if data:
        if not is_base64(data):
            state.log.note(AUDIO_NOT_BASE64)
        kept.pieces.append(data)
    kept.transcript.write(transcript)
    if state.observer is not None:
        state.observer.on_audio(state.index, data, transcript)
    return len(data) + len(transcript)


def _add_images(state: ChoiceState, images: list[Any]) -> int:
    kept = state.lists.setdefault("images", [])
    for image in images:
        state.begin_part("images", len(kept))
        kept.append(image)
        if state.observer is not None:
            state.observer.on_image(state.index, image)
    return sum(len(str(image)) for image in images)


def _add_annotations(state: ChoiceState, annotations: list[Any]) -> int:
    state.lists.setdefault("annotations", []).extend(annotations)
    if state.observer is not None:
        for annotation in annotations:
            state.observer.on_annotation(state.index, annotation)
    return 0


# `reasoning` has no rule of its own: it is folded together with its other spellings.
_DELTA_RULES: Final[dict[str, Callable[[ChoiceState, Any], int]]] = {
    "content": _add_content,
    "role": _add_role,
    "refusal": _add_refusal,
    "tool_calls": fold_tool_calls,
    "function_call": _add_function_call,
    "reasoning_content": _add_raw_reasoning,
    "reasoning_details": _add_details,
    "audio": _add_audio,
    "images": _add_images,
    "annotations": _add_annotations,
}


def fold_logprobs(state: ChoiceState, logprobs: ChoiceLogprobs) -> None:
    """Extend the lists; what is no list is an unknown key."""
    fields = logprobs.__dict__
    for name in ("content", "refusal"):
        if fields.get(name) is not None:
            state.logprobs.setdefault(name, []).extend(fields[name])
    keep_unknown(state.logprobs_extra, logprobs.__pydantic_extra__)


def gap_in(state: ChoiceState) -> ChoiceDelta | None:
    """What a whole message has that no delta brought; None if there is nothing."""
    message = state.message
    if message is None:
        return None
    if state.role is None:
        state.role = message.__dict__.get("role") or None
    fields = {name: value for name, value in message.__dict__.items() if value and not _has(state, name)}
    fields.pop("role", None)
    extra = {
        name: value for name, value in (message.__pydantic_extra__ or {}).items() if name not in state.message_extra
    }
    if not fields and not extra:
        return None
    if "tool_calls" in fields:
        # Whole calls are told apart by their places.
        fields["tool_calls"] = [
            call if call.index is not None else call.model_copy(update={"index": place})
            for place, call in enumerate(fields["tool_calls"])
        ]
    return ChoiceDelta.validate_leniently({**extra, **fields})[0]


def _has(state: ChoiceState, name: str) -> bool:
    """Whether deltas brought a field of the message."""
    if name in ("reasoning", "reasoning_content", "reasoning_details"):
        return bool(state.text("reasoning")) or state.details is not None
    if name in ("tool_calls", "function_call", "audio"):
        return getattr(state, name) is not None
    return bool(state.lists.get(name)) or bool(state.text(name))
