"""The message that has come of a choice so far; costs as much as the output is long."""

import json
from typing import Any

from chunkfold.audio import join_audio
from chunkfold.choices import AudioState, ChoiceState, FunctionCallState
from chunkfold.json_values import copied
from chunkfold.models import (
    ChatCompletionAudio,
    ChatCompletionMessage,
    Choice,
    ChoiceLogprobs,
    FunctionCall,
    Model,
)
from chunkfold.surrogates import well_formed


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
    message = ChatCompletionMessage.validate_leniently(fields)[0]
    if state.order is not None:
        message.keep_order(state.order)
    return message


def _own(item: Any) -> Any:
    """A copy of an image or an annotation that is the snapshot's own."""
    return item.model_copy(deep=True) if isinstance(item, Model) else copied(item)


def _function_call_snapshot(call: FunctionCallState) -> FunctionCall:
    text = well_formed(call.arguments.getvalue())
    fields = {**call.extra, "name": call.name or None}
    raw = fields.get("arguments")  # kept because it was no text; an empty list is PHP's empty object
    fields["arguments"] = text or ("" if raw is None else json.dumps({} if raw == [] else raw))
    return FunctionCall.validate_leniently(fields)[0]


def _audio_snapshot(audio: AudioState) -> ChatCompletionAudio:
    fields = dict(audio.fields)
    if audio.pieces:
        fields["data"] = join_audio(audio.pieces)
    transcript = well_formed(audio.transcript.getvalue())
    if transcript:
        fields["transcript"] = transcript
    return ChatCompletionAudio.validate_leniently(fields)[0]
