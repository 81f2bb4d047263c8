"""Surrogate pairs that providers split over two deltas, put together again on the chunk side.

JSON may escape a character beyond the BMP as two escapes, and some providers cut between them: the first delta's
text then ends in half a character that no encoder takes. Here that half is held back, per text channel, until the
other one comes; one whose other half never comes turns into U+FFFD. So no text that is handed out has a lone
surrogate, and the deltas still add up to the final text.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from chunkfold.fragments import CallNumbers
from chunkfold.json_values import is_list, is_object
from chunkfold.models import ChatCompletionChunk, ChoiceDelta, ChoiceDeltaToolCall, ChunkChoice

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_DELTA_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


def well_formed(text: str) -> str:
    """The text with split pairs joined and lone surrogates as U+FFFD; the same text where it has none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def has_surrogates(value: Any) -> bool:
    """Whether any string in a JSON value, key or item, has a surrogate in it."""
    text = json.dumps(value, ensure_ascii=False)
    return well_formed(text) is not text


def scrubbed(value: Any) -> Any:
    """The JSON value with split pairs joined within each string and lone surrogates as U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return value if well_formed(text) is text else json.loads(well_formed(text))


class _Channel(NamedTuple):
    """Where one text of a chunk stands, and what tells it from others.

    Attributes:
        key: The channel's identity within the stream, the choice's index first.
        holder: The fields among which the text stands under `name`.
        field: The delta's field that it is part of.
        inner: The keys from that field down to the text.
        item: Where that field is a list: what tells the item from others.
    """

    key: tuple[Any, ...]
    holder: dict[str, Any]
    name: str
    field: str
    inner: tuple[str, ...] = ()
    item: dict[str, Any] | None = None

    def as_delta(self, text: str) -> ChoiceDelta:
        """A delta that brings just this text."""
        value: Any = text
        for key in reversed(self.inner):
            value = {key: value}
        if self.item is not None:
            value = [{**scrubbed(self.item), **value}]  # as it was in the chunk that was handed out
        return ChoiceDelta.model_validate({self.field: value})


class SurrogateJoiner:
    """Join split pairs across the chunks of one stream.

    Attributes:
        held: The halves that are held back, with the place where each stood.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[Any, ...], tuple[str, _Channel]] = {}
        self._calls = CallNumbers()

    def join(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """The chunk with whole characters only; the argument is not handed out yet and may be changed."""
        for choice in chunk.choices:
            for channel in self._channels(choice):
                text = channel.holder.get(channel.name)
                if text and isinstance(text, str):
                    channel.holder[channel.name] = self._whole(channel, text)
        # Elsewhere (names, unknown fields) halves are not joined: there is no telling what would continue them.
        fields = chunk.model_dump(exclude_unset=True)
        return ChatCompletionChunk.validate_leniently(scrubbed(fields))[0] if has_surrogates(fields) else chunk

    def flush(self) -> ChatCompletionChunk | None:
        """The stream ended: a chunk with U+FFFD for each half still held, None if there is none."""
        held, self.held = self.held, {}
        choices = [
            ChunkChoice(index=channel.key[0], delta=channel.as_delta(REPLACEMENT)) for _, channel in held.values()
        ]
        return ChatCompletionChunk(object="chat.completion.chunk", choices=choices) if choices else None

    def _whole(self, channel: _Channel, text: str) -> str:
        if channel.key in self.held:
            text = self.held.pop(channel.key)[0] + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.held[channel.key] = (text[-1], channel._replace(holder={}))  # which may be large
            text = text[:-1]
        return well_formed(text)

    def _channels(self, choice: ChunkChoice) -> Iterator[_Channel]:
        delta = vars(choice.delta)
        for name in _DELTA_TEXTS:
            yield _Channel((choice.index, name), delta, name, name)
        if is_list(delta.get("content")):
            yield from _part_channels(choice.index, delta["content"])
        for name, inner in (("function_call", "arguments"), ("audio", "transcript")):
            if delta.get(name) is not None:
                yield _Channel((choice.index, name), vars(delta[name]), inner, name, (inner,))
        for detail in delta.get("reasoning_details") or ():
            if is_object(detail):
                yield from _detail_channels(choice.index, detail)
        for call in choice.delta.tool_calls or ():
            yield from self._call_channels(choice.index, call)

    def _call_channels(self, choice: int, call: ChoiceDeltaToolCall) -> Iterator[_Channel]:
        fields = vars(call)
        number = self._calls.number(choice, call)
        item = {name: fields[name] for name in ("index", "id") if fields.get(name) not in (None, "")}
        for part, name in (("function", "arguments"), ("custom", "input")):
            if fields.get(part) is not None:
                yield _Channel((choice, part, number), vars(fields[part]), name, "tool_calls", (part, name), item)


def _part_channels(choice: int, parts: list[Any]) -> Iterator[_Channel]:
    """The texts in a content list: text goes on where a plain content would."""
    for part in filter(is_object, parts):
        yield _Channel((choice, "content"), part, "text", "content")
        thinking: Any = part.get("thinking")
        holders: list[tuple[dict[str, Any], str]] = [(part, "thinking")]
        if is_list(thinking):
            holders = [(item, "text") for item in filter(is_object, thinking)]
        for holder, name in holders:
            yield _Channel((choice, "thinking"), holder, name, "content", ("thinking",), {"type": "thinking"})


def _detail_channels(choice: int, detail: dict[str, Any]) -> Iterator[_Channel]:
    block: dict[str, Any] = {name: detail[name] for name in ("type", "index") if name in detail}
    for name in ("text", "summary"):
        key = (choice, "reasoning_details", name, json.dumps(block))
        yield _Channel(key, detail, name, "reasoning_details", (name,), block)
