"""Fold chunks into a message: one rule per field, never by Python type.

Most deltas carry one field: the fold looks at the common ones first and consults `_DELTA_RULES` for whatever is
left. Choices are kept by their index, which is a key and never a position. Texts are gathered in buffers and joined
when somebody looks, so many small deltas cost as much as few large ones.
"""

from collections.abc import Callable
from copy import deepcopy
from io import StringIO
from operator import itemgetter
from typing import Any, Final

from chunkfold.anomalies import (
    CHOICES_MISSING,
    CONTENT_PARTS,
    DELTA_MISSING,
    EMPTY_FOR_ABSENT,
    FINISH_UNUSUAL,
    FINISHED_TWICE,
    FULL_MESSAGE,
    HEAD_MISSING,
    ID_CHANGED,
    INDEX_MISSING,
    OBJECT_UNUSUAL,
    OUTPUT_AFTER_FINISH,
    ROLE_REPEATED,
    STOP_WITH_CALLS,
    AnomalyLog,
)
from chunkfold.json_values import is_list, is_object
from chunkfold.merging import ReasoningDetails, join_audio, keep_unknown, merge_usage
from chunkfold.models import (
    ChatCompletion,
    ChatCompletionAudio,
    ChatCompletionChunk,
    ChatCompletionMessage,
    Choice,
    ChoiceDelta,
    ChoiceDeltaAudio,
    ChoiceDeltaFunctionCall,
    ChoiceLogprobs,
    ChunkChoice,
    CompletionUsage,
    FunctionCall,
    Outcome,
)
from chunkfold.models.content import reasoning_of, text_of
from chunkfold.models.outcome import outcome_of
from chunkfold.surrogates import well_formed
from chunkfold.tool_calls import ToolCalls

_FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_FIRST_WINS: Final = ("id", "created", "model", "system_fingerprint")
_HEAD_FIELDS: Final = (*_FIRST_WINS, "object", "service_tier")
_head_values = itemgetter(*_HEAD_FIELDS)


class _FunctionCallState:
    """The legacy function call while it is folded."""

    def __init__(self) -> None:
        self.name = ""
        self.arguments = StringIO(newline="")
        self.extra: dict[str, Any] = {}


class _ChoiceState:
    """One choice while it is folded."""

    def __init__(self, index: int, log: AnomalyLog) -> None:
        self.index = index
        self.log = log
        self.role: str | None = None
        self.finish_reason: str | None = None
        self.texts: dict[str, StringIO] = {}  # content, refusal, reasoning, reasoning_content
        self.tool_calls = ToolCalls(log)
        self.details: ReasoningDetails | None = None
        self.lists: dict[str, list[Any]] = {}  # images, annotations
        self.logprobs: dict[str, list[Any]] = {}
        self.logprobs_extra: dict[str, Any] = {}
        self.function_call: _FunctionCallState | None = None
        self.audio: dict[str, Any] | None = None
        self.audio_pieces: list[str] = []
        self.audio_transcript = StringIO(newline="")
        self.message: ChoiceDelta | None = None  # the last whole message that came
        self.extra: dict[str, Any] = {}
        self.message_extra: dict[str, Any] = {}

    def write(self, name: str, text: str) -> None:
        buffer = self.texts.get(name)
        if buffer is None:
            buffer = self.texts[name] = StringIO(newline="")
        buffer.write(text)

    def text(self, name: str) -> str | None:
        buffer = self.texts.get(name)
        return None if buffer is None else well_formed(buffer.getvalue())


class ChatCompletionAccumulator:
    """Fold the chunks of one stream.

    Args:
        log: Where to note what was tolerated; its own if none is given.

    Attributes:
        has_output: Whether any output came: text, reasoning, refusal, a tool call's name or arguments, audio, image.
        output_size: How much of it, in characters.
        log: What was tolerated.
    """

    def __init__(self, log: AnomalyLog | None = None) -> None:
        self.log = AnomalyLog() if log is None else log
        self.has_output = False
        self.output_size = 0
        self._chunks = 0
        self._head: dict[str, Any] = {}
        self._plain_head: tuple[Any, ...] | None = None
        self._service_tier: str | None = None
        self._usage: dict[str, Any] | None = None
        self._extra: dict[str, Any] = {}
        self._choices: dict[int, _ChoiceState] = {}
        self._open_choices = 0

    @property
    def all_finished(self) -> bool:
        """Whether at least one choice was seen, and every one has its finish reason."""
        return bool(self._choices) and not self._open_choices

    def add(self, chunk: ChatCompletionChunk) -> None:
        """Fold one chunk in. The chunk is not changed."""
        self._chunks += 1
        # By the dict, not by attribute: a value of a wrong type is kept raw beside the fields, not among them.
        fields, unknown = vars(chunk), chunk.__pydantic_extra__
        self._add_head(fields)
        if unknown:
            keep_unknown(self._extra, unknown)
        for choice in chunk.choices:
            self._add_choice(choice)
            unknown = unknown or choice.__pydantic_extra__
        if not chunk.choices and "choices" not in chunk.__pydantic_fields_set__:
            self.log.note(CHOICES_MISSING)
        usage = fields.get("usage")
        if usage is None and unknown:
            usage = _nested_usage(chunk)
        if usage is not None:
            self._add_usage(usage)

    def finish(self) -> ChatCompletionChunk | None:
        """The stream ended: what whole messages add to the deltas, as a last chunk (already folded), or None."""
        gaps = [
            ChunkChoice(index=state.index, delta=delta) for state in self._choices.values() if (delta := _gap(state))
        ]
        chunk = ChatCompletionChunk(choices=gaps) if gaps else None
        for choice in gaps:
            self._add_delta(self._choices[choice.index], choice.delta)
        for state in self._choices.values():
            state.tool_calls.finish()
            if state.finish_reason == "stop" and (state.tool_calls or state.function_call):
                self.log.note(STOP_WITH_CALLS, f"choice {state.index}")
        missing = [name for name in ("id", "created", "model") if name not in self._head]
        if missing and self._chunks:
            self.log.note(HEAD_MISSING, ", ".join(missing))
        return chunk

    def snapshot(self) -> ChatCompletion:
        """What has arrived so far; costs as much as the output is long."""
        fields = {
            **self._extra,
            **self._head,
            "choices": [_choice_snapshot(self._choices[index]) for index in sorted(self._choices)],
        }
        if self._service_tier is not None:
            fields["service_tier"] = self._service_tier
        if self._usage is not None:
            fields["usage"] = CompletionUsage.validate_leniently(deepcopy(self._usage))[0]
        return ChatCompletion.validate_leniently(fields)[0]

    def _add_head(self, fields: dict[str, Any]) -> None:
        """The fields that most streams repeat in every chunk: what is equal to the last plain head says nothing new."""
        try:
            values = _head_values(fields)
        except KeyError:  # a value of a wrong type stands elsewhere
            values = tuple(fields.get(name) for name in _HEAD_FIELDS)
        if values == self._plain_head:
            return
        head = dict(zip(_HEAD_FIELDS, values, strict=True))
        plain = True
        for name in _FIRST_WINS:
            value = head[name]
            if value:
                first = self._head.setdefault(name, value)
                if first != value and name in ("id", "model"):
                    self.log.note(ID_CHANGED, f"{name}: {value!r} after {first!r}")
                    plain = False
            elif value is not None and name != "system_fingerprint":
                self.log.note(EMPTY_FOR_ABSENT, name)
                plain = False
        if head["object"] != "chat.completion.chunk":
            self.log.note(OBJECT_UNUSUAL, repr(head["object"]))
            plain = False
        if head["service_tier"]:
            self._service_tier = head["service_tier"]
        if plain:
            self._plain_head = values

    def _add_usage(self, usage: CompletionUsage) -> None:
        if self._usage is None:
            self._usage = {}
        merge_usage(self._usage, usage.model_dump(exclude_unset=True), self.log)

    def _add_choice(self, choice: ChunkChoice) -> None:
        index = choice.index
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = _ChoiceState(index, self.log)
            self._open_choices += 1
        present = choice.__pydantic_fields_set__
        if "index" not in present:
            self.log.note(INDEX_MISSING)
        fields = choice.__dict__
        logprobs, message = fields.get("logprobs"), fields.get("message")
        if "delta" in present:
            size = self._add_delta(state, choice.delta)
            if size and state.finish_reason:
                self.log.note(OUTPUT_AFTER_FINISH, f"choice {index}")
        elif message is None:
            self.log.note(DELTA_MISSING, f"choice {index}")
        if choice.finish_reason is not None:
            self._finish_choice(state, choice.finish_reason)
        if logprobs is not None:
            _extend_logprobs(state, logprobs)
        if message is not None:
            self.log.note(FULL_MESSAGE, f"choice {index}")
            state.message = message
        if choice.__pydantic_extra__:
            keep_unknown(state.extra, choice.__pydantic_extra__)

    def _finish_choice(self, state: _ChoiceState, finish_reason: str) -> None:
        if not finish_reason:
            self.log.note(EMPTY_FOR_ABSENT, "finish_reason")
            return
        if state.finish_reason is None:
            self._open_choices -= 1
        else:
            self.log.note(FINISHED_TWICE, f"choice {state.index}: {finish_reason!r} after {state.finish_reason!r}")
        state.finish_reason = finish_reason
        if finish_reason not in _FINISH_REASONS and outcome_of(finish_reason) is not Outcome.ERROR:
            self.log.note(FINISH_UNUSUAL, repr(finish_reason))

    def _add_delta(self, state: _ChoiceState, delta: ChoiceDelta) -> int:
        """Fold a delta; return how many characters of output it brought."""
        content = delta.content
        if type(content) is str and len(delta.__pydantic_fields_set__) == 1:
            state.write("content", content)
            size = len(content)
        else:
            size = _fold_fields(state, delta)
        if size:
            self.has_output = True
            self.output_size += size
        return size


def _fold_fields(state: _ChoiceState, delta: ChoiceDelta) -> int:
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


def _add_content(state: _ChoiceState, content: str | list[Any]) -> int:
    if is_list(content):
        state.log.note(CONTENT_PARTS)
    text = text_of(content)
    state.write("content", text)
    return len(text)


def _add_refusal(state: _ChoiceState, refusal: str) -> int:
    state.write("refusal", refusal)
    return len(refusal)


def _add_role(state: _ChoiceState, role: str) -> int:
    if not role:
        state.log.note(EMPTY_FOR_ABSENT, "role")
    elif state.role is None:
        state.role = role
    else:
        state.log.note(ROLE_REPEATED, repr(role))
    return 0


def _add_raw_reasoning(state: _ChoiceState, text: str) -> int:
    state.write("reasoning_content", text)
    return 0


def _add_details(state: _ChoiceState, fragments: list[dict[str, Any]]) -> int:
    if state.details is None:
        state.details = ReasoningDetails()
    state.details.add(fragments)
    return 0


def _add_tool_calls(state: _ChoiceState, fragments: list[Any]) -> int:
    return sum([state.tool_calls.add(fragment) for fragment in fragments])


def _add_function_call(state: _ChoiceState, call: ChoiceDeltaFunctionCall) -> int:
    if state.function_call is None:
        state.function_call = _FunctionCallState()
    kept, fields = state.function_call, call.__dict__
    name, text = fields.get("name") or "", fields.get("arguments") or ""
    kept.name = kept.name or name
    kept.arguments.write(text)
    keep_unknown(kept.extra, call.__pydantic_extra__)
    return len(text) + len(name)


def _add_audio(state: _ChoiceState, audio: ChoiceDeltaAudio) -> int:
    """The id and the expiry are the last ones; data and transcript append."""
    if state.audio is None:
        state.audio = {}
    fields = audio.__dict__
    keep_unknown(state.audio, {name: fields[name] for name in ("id", "expires_at") if fields.get(name)})
    keep_unknown(state.audio, audio.__pydantic_extra__)
    data, transcript = fields.get("data") or "", fields.get("transcript") or ""
    if data:
        state.audio_pieces.append(data)
    state.audio_transcript.write(transcript)
    return len(data) + len(transcript)


def _add_images(state: _ChoiceState, images: list[dict[str, Any]]) -> int:
    state.lists.setdefault("images", []).extend(images)
    return sum(len(str(image.get("image_url", image))) for image in images)


def _add_annotations(state: _ChoiceState, annotations: list[Any]) -> int:
    state.lists.setdefault("annotations", []).extend(annotations)
    return 0


# `reasoning` has no rule of its own: it is folded together with its other spellings.
_DELTA_RULES: Final[dict[str, Callable[[_ChoiceState, Any], int]]] = {
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


def _extend_logprobs(state: _ChoiceState, logprobs: ChoiceLogprobs) -> None:
    fields = logprobs.__dict__
    for name in ("content", "refusal"):
        if fields.get(name) is not None:
            state.logprobs.setdefault(name, []).extend(fields[name])
    keep_unknown(state.logprobs_extra, logprobs.__pydantic_extra__)


def _gap(state: _ChoiceState) -> ChoiceDelta | None:
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


def _has(state: _ChoiceState, name: str) -> bool:
    """Whether deltas brought a field of the message."""
    if name in ("reasoning", "reasoning_content", "reasoning_details"):
        return bool(state.text("reasoning")) or state.details is not None
    if name == "tool_calls":
        return bool(state.tool_calls)
    if name in ("function_call", "audio"):
        return getattr(state, name) is not None
    return bool(state.lists.get(name)) or bool(state.text(name))


def _choice_snapshot(state: _ChoiceState) -> Choice:
    fields: dict[str, Any] = {
        **state.extra,
        "index": state.index,
        "finish_reason": state.finish_reason,
        "message": _message_snapshot(state),
    }
    if state.logprobs or state.logprobs_extra:
        lists = {name: list(entries) for name, entries in state.logprobs.items()}
        fields["logprobs"] = ChoiceLogprobs.validate_leniently({**state.logprobs_extra, **lists})[0]
    return Choice.validate_leniently(fields)[0]


def _message_snapshot(state: _ChoiceState) -> ChatCompletionMessage:
    parts: dict[str, Any] = {
        "role": state.role or "assistant",
        "content": state.text("content"),
        "refusal": state.text("refusal"),
        "reasoning_content": state.text("reasoning_content"),
        "reasoning_details": state.details and state.details.snapshot(),
        "tool_calls": state.tool_calls.snapshot(),
        "function_call": state.function_call and _function_call_snapshot(state.function_call),
        "audio": _audio_snapshot(state),
        **{name: list(items) for name, items in state.lists.items()},
    }
    fields = {**state.message_extra, **{name: value for name, value in parts.items() if value is not None}}
    # The one normalised field, in place of a raw field of that name.
    fields["reasoning"] = state.text("reasoning")
    return ChatCompletionMessage.validate_leniently(fields)[0]


def _function_call_snapshot(call: _FunctionCallState) -> FunctionCall:
    fields = {**call.extra, "name": call.name or None, "arguments": well_formed(call.arguments.getvalue())}
    return FunctionCall.validate_leniently(fields)[0]


def _audio_snapshot(state: _ChoiceState) -> ChatCompletionAudio | None:
    if state.audio is None:
        return None
    fields = dict(state.audio)
    if state.audio_pieces:
        fields["data"] = join_audio(state.audio_pieces)
    transcript = well_formed(state.audio_transcript.getvalue())
    if transcript:
        fields["transcript"] = transcript
    return ChatCompletionAudio.validate_leniently(fields)[0]


def _nested_usage(chunk: ChatCompletionChunk) -> CompletionUsage | None:
    """Moonshot puts usage into the choice, Groq into `x_groq`."""
    groq = (chunk.__pydantic_extra__ or {}).get("x_groq")
    holders = [*((choice.__pydantic_extra__ or {}) for choice in chunk.choices), groq]
    for holder in holders:
        if is_object(holder) and is_object(holder.get("usage")):
            return CompletionUsage.validate_leniently(deepcopy(holder["usage"]))[0]
    return None
