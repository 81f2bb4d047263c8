"""Fill the gaps of a choice from a whole message that was sent beside or instead of deltas (CF207)."""

from typing import Any

from chunkfold.fold.choice_state import ChoiceState
from chunkfold.models import ChoiceDelta, ChoiceDeltaToolCall
from chunkfold.models.base import validate_leniently
from chunkfold.models.content import REASONING_FIELDS


def gap_in(state: ChoiceState) -> ChoiceDelta | None:
    """What a whole message has that no delta brought, except its role; None if there is nothing."""
    message = state.message
    if message is None:
        return None
    fields = {name: value for name, value in message.__dict__.items() if value and not _has(state, name, value)}
    extra = {name: value for name, value in (message.__pydantic_extra__ or {}).items() if not _has(state, name, value)}
    if not fields and not extra:
        return None
    if "tool_calls" in fields:
        # Whole calls are identified by their places.
        calls: list[ChoiceDeltaToolCall] = fields["tool_calls"]
        fields["tool_calls"] = [
            call if vars(call).get("index") is not None else call.model_copy(update={"index": place})
            for place, call in enumerate(calls)
        ]
    return validate_leniently(ChoiceDelta, {**extra, **fields})[0]


def role_of(state: ChoiceState) -> str | None:
    """The role that the deltas brought, else that of a whole message; None if none came."""
    return state.role or (None if state.message is None else state.message.__dict__.get("role") or None)


def _has(state: ChoiceState, name: str, value: Any) -> bool:
    """Whether deltas brought a field of the message, or there is no gap."""
    if name in REASONING_FIELDS:
        return bool(state.text("reasoning") or state.blocks)
    if name == "content" and state.content_parts is not None and not isinstance(value, str):
        return True
    if name in ("tool_calls", "function_call", "audio"):
        return getattr(state, name) is not None
    if name == "role":
        return isinstance(value, str) or state.role is not None
    return name in state.message_extra or bool(state.lists.get(name)) or bool(state.text(name))
