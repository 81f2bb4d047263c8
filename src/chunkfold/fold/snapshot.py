"""Build the public form of the message so far, in time proportional to the output.

A whole message that was sent beside or instead of deltas fills the gaps that these leave.
"""

from copy import copy, deepcopy
from typing import Any

from chunkfold.anomaly_log import AnomalyLog
from chunkfold.excerpts import short_repr
from chunkfold.fold.choice_state import ChoiceState
from chunkfold.fold.deltas import fold_delta
from chunkfold.json_text.values import copied, is_list, is_object
from chunkfold.models.base import Model, copied_fields, for_completion, validate_leniently, with_unknown
from chunkfold.models.chunk import ChoiceDelta, ChoiceDeltaToolCall
from chunkfold.models.completion import Choice
from chunkfold.models.content import (
    BLOCK_KINDS,
    CONTENT_BLOCKS,
    ENCRYPTED_TEXT,
    REASONING_FIELDS,
    THINKING,
    content_block,
    fields_of,
    fragments_of,
    is_thought,
    kind_in,
    read_part,
    reasoning_of,
    thought_flag,
)
from chunkfold.models.message import keep_order
from chunkfold.models.shared import ChoiceLogprobs


def choice_snapshot(state: ChoiceState) -> Choice:
    """The choice so far, with what a whole message adds to the deltas; it shares nothing with the state."""
    gap = gap_in(state)
    if gap is not None:  # the stream still runs
        state = _filled(state, gap)
    message = _message_fields(state)
    fields: dict[str, Any] = {"index": state.index, "finish_reason": state.finish_reason, "message": message}
    if state.tool_messages:
        fields["tool_messages"] = [copied_fields(message) for message in state.tool_messages]
    if state.logprobs or state.logprobs_extra:
        lists = {name: [_own(entry) for entry in kept] for name, kept in state.logprobs.items()}
        fields["logprobs"] = validate_leniently(ChoiceLogprobs, with_unknown(state.logprobs_extra, lists))[0]
    choice = validate_leniently(Choice, with_unknown(state.extra, fields))[0]
    if len(state.order) > 1:  # else it is the usual one
        keep_order(choice.message, state.order)
    return choice


def _message_fields(state: ChoiceState) -> dict[str, Any]:
    fields: dict[str, Any] = {"reasoning": None}  # never a raw value of that name
    fields |= {name: state.text(name) for name in state.texts}
    if encrypted := fields.pop(ENCRYPTED_TEXT, None):
        fields["reasoning_content"] = (fields.get("reasoning_content") or "") + encrypted
    fields["role"] = role_of(state)  # the model reads None as its default
    for name, blocks in state.blocks.items():
        fields[name] = _blocks_snapshot(name, blocks.snapshot())
    if state.content_parts is not None:
        fields["content_parts"] = state.content_parts.snapshot(state.text("content") or "")
    fields["tool_calls"] = [] if state.tool_calls is None else [call.snapshot() for call in state.tool_calls.calls]
    if state.function_call is not None:
        fields["function_call"] = state.function_call.snapshot()
    if state.audio is not None:
        fields["audio"] = state.audio.snapshot()
    fields |= {name: [_own(item) for item in items] for name, items in state.lists.items()}
    return with_unknown(state.message_extra, fields)


def _filled(state: ChoiceState, gap: ChoiceDelta) -> ChoiceState:
    """A copy of a choice into which a gap was folded, without notes and notifications.

    Only what folding a gap can change is copied: a field that has a value is not a gap.
    """
    filled = copy(state)
    filled.log, filled.observer = AnomalyLog(), None
    filled.texts, filled.content_parts = deepcopy((state.texts, state.content_parts))
    filled.lists = {name: [*items] for name, items in state.lists.items()}
    filled.order = [*state.order]
    filled.blocks, filled.message_extra = {**state.blocks}, {**state.message_extra}
    fold_delta(filled, gap)
    return filled


def _blocks_snapshot(name: str, blocks: list[dict[str, Any]]) -> Any:
    """Merged blocks in the shape in which the provider has them in a whole message."""
    if name == THINKING.name:  # one object
        merged = {key: value for block in blocks for key, value in block.items() if value not in (None, "")}
        texts = [text for block in blocks if isinstance(text := block.get("content"), str)]
        return {**merged, "content": "".join(texts)} if texts or "content" not in merged else merged
    return [content_block(block) for block in blocks] if name == CONTENT_BLOCKS.name else blocks


def _own(item: Any) -> Any:
    """A copy of an image, an annotation or a token's log probability that is the snapshot's own."""
    # Models are validated again one by one: there are never more wrong values in one than an event can have.
    return for_completion(item) if isinstance(item, Model) else copied(item)


def gap_in(state: ChoiceState) -> ChoiceDelta | None:
    """What a whole message (CF207) has that no delta brought, except its role; None if there is nothing."""
    message = state.message
    if message is None:
        return None
    is_flagged = is_thought(fields_of(message))
    fields = {
        name: value
        for name, value in message.__dict__.items()
        if value and not _has(state, "reasoning" if name == "content" and is_flagged else name, value)
    }
    if is_list(content := message.__dict__.get("content")) and (missing := _missing_parts(state, content)):
        fields["content"] = missing
    unknown = message.__pydantic_extra__ or {}
    kept = state.message_extra.keys() - REASONING_FIELDS  # a raw value does not replace a raw value
    extra = {name: value for name, value in unknown.items() if name not in kept and not _has(state, name, value)}
    if not fields and not extra:
        return None
    if is_flagged and "content" in fields:
        extra.setdefault("extra_content", thought_flag())  # else the content would be taken for text
    if "tool_calls" in fields:
        # Whole calls are identified by their places, whatever index they have.
        calls: list[ChoiceDeltaToolCall] = fields["tool_calls"]
        fields["tool_calls"] = [call.model_copy(update={"index": place}) for place, call in enumerate(calls)]
    return validate_leniently(ChoiceDelta, {**extra, **fields})[0]


def role_of(state: ChoiceState) -> str | None:
    """The role that the deltas brought, else that of a whole message; None if none came."""
    return state.role or (None if state.message is None else state.message.__dict__.get("role") or None)


def _missing_parts(state: ChoiceState, parts: list[Any]) -> list[Any]:
    """The parts of a content list of which no delta brought any of their kind: text, reasoning, or another type."""
    kept = [] if state.content_parts is None else state.content_parts.snapshot("")
    known = {*map(_kind_of, kept)}
    known |= {"text"} if state.text("content") else set()
    known |= {"reasoning"} if _has_reasoning(state) else set()
    return [part for part in parts if _kind_of(part) not in known]


def _kind_of(part: Any) -> str:
    kind, _ = read_part(part)
    return short_repr(part.get("type")) if kind == "other" and is_object(part) else kind


def _has(state: ChoiceState, name: str, value: Any) -> bool:
    """Whether deltas brought a field of the message, or there is no gap."""
    if name in REASONING_FIELDS:
        return _has_reasoning_of(state, name, value)
    if is_list(value) and name == "content":
        return True  # its parts are checked one by one
    if name in ("tool_calls", "function_call", "audio"):
        return getattr(state, name) is not None
    if name == "role":
        return isinstance(value, str)
    return bool(state.lists.get(name) or state.text(name))


def _has_reasoning_of(state: ChoiceState, name: str, value: Any) -> bool:
    """Whether deltas brought what a field of reasoning has: for a text, any text; for blocks, any or their text."""
    kind = next((kind for kind in BLOCK_KINDS if kind.name == name), None)
    fragments = None if kind is None else fragments_of(kind, value)
    if kind is None or fragments is None:
        return _has_reasoning(state)
    if any(state.blocks.values()) or (kind is CONTENT_BLOCKS and "images" in state.lists):
        return True
    return _has_reasoning(state) and reasoning_of(kind_in(kind, fragments), fragments) != ""


def _has_reasoning(state: ChoiceState) -> bool:
    """Whether deltas brought reasoning as text, whichever field it came in."""
    return bool(state.text("reasoning") or state.text(ENCRYPTED_TEXT))
