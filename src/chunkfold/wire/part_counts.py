"""Count the choices, calls and log probabilities of an event: each costs far more memory than its bytes."""

from typing import Any, Final

from pydantic_core import from_json

from chunkfold.json_text.values import is_list, is_object, objects_in
from chunkfold.models.content import BLOCK_KINDS, PART_TEXTS

MAX_EVENT_PARTS: Final = 10_000  # choices, and entries of the lists in their messages
MAX_BLOCK_PARTS: Final = 3 * MAX_EVENT_PARTS // 2  # in an event of several payloads, most of which have one
_TOKENS_PER_PART: Final = 6  # log probabilities take less, and a whole completion has many
_PARTS: Final = ("content", "tool_calls", "annotations", "images", *(kind.name for kind in BLOCK_KINDS))


def is_full_of_parts(data: bytes) -> bool:
    """Whether JSON has too many parts, checked before models are made of them; a `ValueError` if it is not JSON."""
    if data.count(b",") + data.count(b"[") <= MAX_EVENT_PARTS:  # an entry has one of these before it
        return False
    value = from_json(data)
    return is_object(value) and count_parts(value.get("choices")) > MAX_EVENT_PARTS


def count_parts(choices: Any) -> int:
    """How many choices there are, and entries of the lists in their messages: each has a state, a copy, and events."""
    objects = objects_in(choices)
    messages = (choice.get(name) for choice in objects for name in ("delta", "message"))
    lists = [message.get(name) for message in messages if is_object(message) for name in _PARTS]
    parts = (part for items in lists for part in objects_in(items))
    lists += [part.get(name) for part in parts for name in PART_TEXTS]
    tokens = sum(_count_of_tokens(choice.get("logprobs")) for choice in objects)
    return sum(map(_length, (choices, *lists))) + tokens // _TOKENS_PER_PART


def _count_of_tokens(logprobs: Any) -> int:
    """How many log probabilities there are, those of other likely tokens among them."""
    if not is_object(logprobs):
        return 0
    lists = [logprobs.get(name) for name in ("content", "refusal")]
    others = [token.get("top_logprobs") for tokens in lists for token in objects_in(tokens)]
    return sum(map(_length, lists + others))


def _length(value: Any) -> int:
    return len(value) if is_list(value) else 0
