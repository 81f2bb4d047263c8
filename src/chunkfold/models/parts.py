"""The parts of a message in the order in which they arrived: reasoning, text, calls and the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from chunkfold.excerpts import ShortRepr
from chunkfold.json_text.values import is_list
from chunkfold.models.content import read_part
from chunkfold.models.shared import ChatCompletionAudio
from chunkfold.models.tool_calls import ChatCompletionMessageToolCall

PartStart = tuple[str, int]
"""A field of the message and where in it a part begins: a character of its text, or a place in its list."""


@dataclass(frozen=True, slots=True, repr=False)
class TextPart(ShortRepr):
    """A piece of the content."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, repr=False)
class ReasoningPart(ShortRepr):
    """A piece of the reasoning."""

    text: str
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True, repr=False)
class RefusalPart(ShortRepr):
    """A piece of the refusal."""

    text: str
    type: Literal["refusal"] = "refusal"


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallPart(ShortRepr):
    """A tool call, at the place where it first appeared."""

    tool_call: ChatCompletionMessageToolCall
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True, repr=False)
class ImagePart(ShortRepr):
    """An image, as sent."""

    image: Any
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True, repr=False)
class AudioPart(ShortRepr):
    """All of the spoken output, at the place where it began."""

    audio: ChatCompletionAudio
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True, repr=False)
class ContentPart(ShortRepr):
    """A part of a content list other than text and reasoning, as sent, such as Mistral's references."""

    part: dict[str, Any]
    type: Literal["content_part"] = "content_part"


MessagePart = TextPart | ReasoningPart | RefusalPart | ToolCallPart | ImagePart | AudioPart | ContentPart

_TEXT_PARTS: Final[dict[str, type[TextPart | ReasoningPart | RefusalPart]]] = {
    "reasoning": ReasoningPart,
    "content": TextPart,
    "refusal": RefusalPart,
}
_ITEM_PARTS: Final[dict[str, type[ToolCallPart | ImagePart | ContentPart]]] = {
    "tool_calls": ToolCallPart,
    "images": ImagePart,
    "content_parts": ContentPart,
}


def sizes_of(fields: Mapping[str, Any]) -> tuple[int, ...]:
    """How long each field is that has parts."""
    return tuple([len(fields.get(name) or ()) for name in (*_TEXT_PARTS, *_ITEM_PARTS)])


def usual_order(fields: Mapping[str, Any]) -> list[PartStart]:
    """The order of most messages, given their fields: first all reasoning, then all text, then the calls."""
    order = [(name, 0) for name in _TEXT_PARTS if fields.get(name)]
    order += [(name, place) for name, items in _items_of(fields).items() for place in range(len(items))]
    return order + ([("audio", 0)] if fields.get("audio") is not None else [])


def parts_of(fields: Mapping[str, Any], order: Sequence[PartStart]) -> list[MessagePart]:
    """The parts of a message, given its fields."""
    values = {**fields, **_items_of(fields)}
    parts = (_part(name, values.get(name), start, end) for name, start, end in stretches(order))
    return [part for part in parts if part is not None]


def stretches(order: Sequence[PartStart]) -> list[tuple[str, int, int | None]]:
    """Where parts begin and end: a stretch of text where the next one of its field begins; None for the last."""
    ends: dict[str, int] = {}
    found: list[tuple[str, int, int | None]] = []
    for name, start in reversed(order):
        found.append((name, start, ends.get(name)))
        ends[name] = start
    return found[::-1]


def _items_of(fields: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The items of a message that are parts, by their field."""
    items = {name: value if is_list(value := fields.get(name)) else [] for name in _ITEM_PARTS}
    items["content_parts"] = [part for part in items["content_parts"] if read_part(part)[0] == "other"]
    return items


def _part(name: str, value: Any, start: int, end: int | None) -> MessagePart | None:
    make = _TEXT_PARTS.get(name)
    if make is not None:
        text = value[start:end] if isinstance(value, str) else ""
        return make(text) if text else None
    if name == "audio":
        return None if value is None else AudioPart(value)
    return _ITEM_PARTS[name](value[start]) if start < len(value) else None
