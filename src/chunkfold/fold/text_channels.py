"""Identify the texts of a chunk, so that each can be continued from chunk to chunk.

A text that grows from chunk to chunk is a channel: a choice's content, the arguments of one of its calls, a block of
its reasoning. Joining halves of characters and removing repeats need the earlier part: they keep it by the key.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from chunkfold.excerpts import short_repr
from chunkfold.fold.footprint import Kept
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.values import is_list, is_object
from chunkfold.models.chunk import ChoiceDelta, ChoiceDeltaToolCall, ChunkChoice
from chunkfold.models.content import (
    APPENDED,
    BLOCK_KINDS,
    THINKING,
    BlockKind,
    fields_of,
    is_of_tool,
    is_thought,
    kind_in,
)

_DELTA_TEXTS: Final = ("refusal", "reasoning_content", "reasoning")  # besides the content
_PART_TYPES: Final = {"thinking": "thinking", "summary": "reasoning", "reasoning": "reasoning"}


class Channel(NamedTuple):
    """The place of one text of a chunk, and the key that identifies it."""

    key: tuple[Any, ...]  # within the stream, the choice's index first
    holder: Any  # the object or, of a bare text in a content list, the list that has the text under `name`
    name: Any
    field: str  # of the delta, which the text is part of
    inner: tuple[str, ...] = ()  # the keys from that field down to the text
    item: dict[str, Any] | None = None  # if that field is a list: what identifies the item

    @property
    def text(self) -> str:
        """The text, "" if there is none or the value is not text."""
        text = self.holder.get(self.name) if is_object(self.holder) else self.holder[self.name]
        return text if isinstance(text, str) else ""


class TextChannels:
    """The channels of one stream.

    Unless all chunks pass through here, `calls_of` returns the calls of a choice so far, which are changed here.
    """

    def __init__(self, calls_of: Callable[[int], ToolCalls] = ToolCalls) -> None:
        self._calls_of = calls_of
        self.calls: dict[int, ToolCalls] = {}  # by choice; once there are any, each fragment needs those before it

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self.calls,))

    def of(self, choice: ChunkChoice) -> Iterator[Channel]:
        """The channels in a choice's delta, in the order of its texts; take all of them before the next choice."""
        delta, index = vars(choice.delta), choice.index
        if not is_of_tool(delta):  # which is kept raw
            yield from _message_channels(index, choice.delta)
        if fragments := delta.get("tool_calls"):
            yield from self._call_channels(index, fragments)

    def _call_channels(self, choice: int, fragments: list[ChoiceDeltaToolCall]) -> Iterator[Channel]:
        if choice not in self.calls:
            self.calls[choice] = self._calls_of(choice)
        calls = self.calls[choice]
        for fragment in calls.in_places(fragments):
            call, _ = calls.route(fragment)
            if call is None:
                continue
            item = {name: value for name, value in (("index", call.index), ("id", call.id)) if value is not None}
            fields = vars(fragment)
            for part, name in (("function", "arguments"), ("custom", "input")):
                if fields.get(part) is not None:
                    key = (choice, part, call.place)
                    yield Channel(key, vars(fields[part]), name, "tool_calls", (part, name), item)


def _message_channels(choice: int, sent: ChoiceDelta) -> Iterator[Channel]:
    """All texts of a delta but those of its tool calls."""
    delta, unknown = vars(sent), sent.__pydantic_extra__ or {}
    if "extra_content" in unknown and is_thought(fields_of(sent)):
        yield Channel((choice, "thought"), delta, "content", "reasoning")
    else:
        yield Channel((choice, "content"), delta, "content", "content")
    for name in _DELTA_TEXTS:
        yield Channel((choice, name), delta, name, name)
    if is_list(delta.get("content")):
        yield from _part_channels(choice, delta["content"])
    for name, inner in (("function_call", "arguments"), ("audio", "transcript")):
        if delta.get(name) is not None:
            yield Channel((choice, name), vars(delta[name]), inner, name, (inner,))
    for name in APPENDED:
        yield Channel((choice, name), unknown, name, name)
    for kind in BLOCK_KINDS:
        yield from _block_channels(choice, kind, delta.get(kind.name) or unknown.get(kind.name))


def _part_channels(choice: int, parts: list[Any]) -> Iterator[Channel]:
    """The texts in a content list; its text continues the channel of plain content."""
    for place, part in enumerate(parts):
        if isinstance(part, str):
            yield Channel((choice, "content"), parts, place, "content")
        if not is_object(part):
            continue
        yield Channel((choice, "content"), part, "text", "content")
        for key, type_ in _PART_TYPES.items():
            inner = part.get(key)
            texts = [(item, "text") for item in filter(is_object, inner)] if is_list(inner) else [(part, key)]
            for holder, name in texts:
                yield Channel((choice, key), holder, name, "content", (key,), {"type": type_})


def _block_channels(choice: int, kind: BlockKind, value: Any) -> Iterator[Channel]:
    """The texts in blocks of reasoning, each in a channel of its own."""
    is_one = kind is THINKING and is_object(value)  # any other object is kept raw
    fragments = list(filter(is_object, [value] if is_one else value if is_list(value) else ()))
    kind = kind_in(kind, fragments)
    for fragment in fragments:
        own = fragment.get(kind.inner)
        holder, inner = (own, (kind.inner,)) if is_object(own) else (fragment, ())
        block: dict[str, Any] = {name: fragment[name] for name in ("type", "index") if name in fragment}
        for name in kind.appended:
            key = (choice, kind.name, name, short_repr(block))
            yield Channel(key, holder, name, kind.name, (*inner, name), None if is_one else block)
