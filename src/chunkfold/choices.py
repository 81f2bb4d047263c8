"""Fold one choice: a rule for each field of a delta, and the message that has come of it so far.

Texts are gathered in buffers and joined when somebody looks, so many small deltas cost as much as few large ones.
"""

from collections.abc import Callable
from io import StringIO
from typing import Any, Final

from chunkfold.anomalies import (
    AUDIO_NOT_BASE64,
    CONTENT_PARTS,
    EMPTY_FOR_ABSENT,
    ROLE_REPEATED,
    WRONG_TYPE,
    AnomalyLog,
)
from chunkfold.errors import excerpt
from chunkfold.json_values import copied, is_list, is_object
from chunkfold.merging import ReasoningDetails, is_base64, join_audio, keep_unknown
from chunkfold.models import (
    ChatCompletionAudio,
    ChatCompletionMessage,
    Choice,
    ChoiceDelta,
    ChoiceDeltaAudio,
    ChoiceDeltaFunctionCall,
    ChoiceLogprobs,
    FunctionCall,
    Model,
)
from chunkfold.models.content import reasoning_of, text_of
from chunkfold.surrogates import well_formed
from chunkfold.tool_calls import ToolCalls


class _FunctionCallState:
    """The legacy function call while it is folded."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments = StringIO(newline="")
        self.extra: dict[str, Any] = {}


class _AudioState:
    """Spoken output while it is folded."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.transcript = StringIO(newline="")
        self.fields: dict[str, Any] = {}  # the id, the expiry, and unknown keys


class ChoiceState:
    """One choice while it is folded. What most choices never have is made when it comes: there may be many choices."""

    __slots__ = (
        *("audio", "details", "extra", "finish_reason", "function_call", "index", "lists", "log", "logprobs"),
        *("logprobs_extra", "message", "message_extra", "role", "texts", "tool_calls"),
    )

    def __init__(self, index: int, log: AnomalyLog) -> None:
        self.index = index
        self.log = log
        self.role: str | None = None
        self.finish_reason: str | None = None
        self.texts: dict[str, StringIO] = {}  # content, refusal, reasoning, reasoning_content
        self.tool_calls: ToolCalls | None = None
        self.details: ReasoningDetails | None = None
        self.lists: dict[str, list[Any]] = {}  # images, annotations
        self.logprobs: dict[str, list[Any]] = {}
        self.logprobs_extra: dict[str, Any] = {}
        self.function_call: _FunctionCallState | None = None
        self.audio: _AudioState | None = None
        self.message: ChoiceDelta | None = None  # the last whole message that came
        self.extra: dict[str, Any] = {}
        self.message_extra: dict[str, Any] = {}

    def write(self, name: str, text: str) -> None:
        """Append to one of the texts."""
        buffer = self.texts.get(name)
        if buffer is None:
            buffer = self.texts[name] = StringIO(newline="")
        buffer.write(text)

    def text(self, name: str) -> str | None:
        """One of the texts so far, None if none of it came."""
        buffer = self.texts.get(name)
        return None if buffer is None else well_formed(buffer.getvalue())


def fold_delta(state: ChoiceState, delta: ChoiceDelta) -> int:
    """Fold each field by its rule, what has none as an unknown key."""
    fields = vars(delta)
    reasoning = reasoning_of(fields)
    if reasoning:
        state.write("reasoning", reasoning)
    size = len(reasoning)
    for name, value in fields.items():
        if value is not None:
            rule = _DELTA_RULES.get(name)
            size += rule(state, value) if rule is not None else 0
    keep_unknown(state.message_extra, delta.__pydantic_extra__)
    return size


def _add_content(state: ChoiceState, content: str | list[Any]) -> int:
    if is_list(content):
        state.log.note(CONTENT_PARTS)
    text = text_of(content)
    state.write("content", text)
    return len(text)


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
    state.write("reasoning_content", text)
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


def _add_tool_calls(state: ChoiceState, fragments: list[Any]) -> int:
    if not fragments:
        return 0
    if state.tool_calls is None:
        state.tool_calls = ToolCalls(state.log)
    return sum([state.tool_calls.add(fragment) for fragment in fragments])


def _add_function_call(state: ChoiceState, call: ChoiceDeltaFunctionCall) -> int:
    if state.function_call is None:
        state.function_call = _FunctionCallState()
    kept, fields = state.function_call, call.__dict__
    name, text = fields.get("name") or "", fields.get("arguments") or ""
    kept.name = kept.name or name
    kept.arguments.write(text)
    keep_unknown(kept.extra, call.__pydantic_extra__)
    return len(text) + len(name)


def _add_audio(state: ChoiceState, audio: ChoiceDeltaAudio) -> int:
    """The id and the expiry are the last ones; data and transcript append."""
    if state.audio is None:
        state.audio = _AudioState()
    kept, fields = state.audio, audio.__dict__
    keep_unknown(kept.fields, {name: fields[name] for name in ("id", "expires_at") if fields.get(name)})
    keep_unknown(kept.fields, audio.__pydantic_extra__)
    data, transcript = fields.get("data") or "", fields.get("transcript") or ""
    if data:
        if not is_base64(data):
            state.log.note(AUDIO_NOT_BASE64)
        kept.pieces.append(data)
    kept.transcript.write(transcript)
    return len(data) + len(transcript)


def _add_images(state: ChoiceState, images: list[Any]) -> int:
    state.lists.setdefault("images", []).extend(images)
    return sum(len(str(image)) for image in images)


def _add_annotations(state: ChoiceState, annotations: list[Any]) -> int:
    state.lists.setdefault("annotations", []).extend(annotations)
    return 0


# `reasoning` has no rule of its own: it is folded together with its other spellings.
_DELTA_RULES: Final[dict[str, Callable[[ChoiceState, Any], int]]] = {
    "content": _add_content,
    "role": _add_role,
    "refusal": _add_refusal,
    "tool_calls": _add_tool_calls,
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


def choice_snapshot(state: ChoiceState) -> Choice:
    """The choice so far."""
    fields: dict[str, Any] = {
        **copied(state.extra),
        "index": state.index,
        "finish_reason": state.finish_reason,
        "message": _message_snapshot(state),
    }
    if state.logprobs or state.logprobs_extra:
        lists = {name: list(entries) for name, entries in state.logprobs.items()}
        fields["logprobs"] = ChoiceLogprobs.validate_leniently({**state.logprobs_extra, **lists})[0]
    return Choice.validate_leniently(fields)[0]


def _message_snapshot(state: ChoiceState) -> ChatCompletionMessage:
    parts: dict[str, Any] = {
        "role": state.role or "assistant",
        "content": state.text("content"),
        "refusal": state.text("refusal"),
        "reasoning_content": state.text("reasoning_content"),
        "reasoning_details": state.details and state.details.snapshot(),
        "tool_calls": state.tool_calls.snapshot() if state.tool_calls is not None else [],
        "function_call": state.function_call and _function_call_snapshot(state.function_call),
        "audio": state.audio and _audio_snapshot(state.audio),
        **{name: [_own(item) for item in items] for name, items in state.lists.items()},
    }
    fields = {**copied(state.message_extra), **{name: value for name, value in parts.items() if value is not None}}
    # The one normalised field, in place of a raw field of that name.
    fields["reasoning"] = state.text("reasoning")
    return ChatCompletionMessage.validate_leniently(fields)[0]


def _own(item: Any) -> Any:
    """A copy of an image or an annotation that is the snapshot's own."""
    return item.model_copy(deep=True) if isinstance(item, Model) else copied(item)


def _function_call_snapshot(call: _FunctionCallState) -> FunctionCall:
    text = well_formed(call.arguments.getvalue())
    fields = {**call.extra, "name": call.name or None}
    if text or "arguments" not in fields:
        fields["arguments"] = text
    elif fields["arguments"] in ({}, []):
        fields["arguments"] = "{}"
    return FunctionCall.validate_leniently(fields)[0]


def _audio_snapshot(audio: _AudioState) -> ChatCompletionAudio:
    fields = dict(audio.fields)
    if audio.pieces:
        fields["data"] = join_audio(audio.pieces)
    transcript = well_formed(audio.transcript.getvalue())
    if transcript:
        fields["transcript"] = transcript
    return ChatCompletionAudio.validate_leniently(fields)[0]
