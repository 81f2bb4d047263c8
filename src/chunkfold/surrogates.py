"""Surrogate pairs that providers split over two deltas, put together again on the chunk side.

JSON may escape a character beyond the BMP as two escapes, and some providers cut between them: the first delta's
text then ends in half a character that no encoder takes. Here that half is held back, per text channel, until the
other one comes; one whose other half never comes turns into U+FFFD. So no text that is handed out has a lone
surrogate, and the deltas still add up to the final text.
"""

import json
from collections.abc import Iterator
from typing import Any

from chunkfold.models import ChatCompletionChunk, ChoiceDelta, ChoiceDeltaToolCall, ChunkChoice

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_Channel = tuple[Any, ...]
_DELTA_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


def well_formed(text: str) -> str:
    """The text with split pairs joined and lone surrogates as U+FFFD; the same text where it has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def has_surrogates(value: Any) -> bool:
    """Whether any string in a JSON value, key or item, has a surrogate in it."""
    text = json.dumps(value, ensure_ascii=False)
    return well_formed(text) is not text


class SurrogateJoiner:
    """Join split pairs across the chunks of one stream.

    Attributes:
        held: The halves that are held back, by their channel.
    """

    def __init__(self) -> None:
        self.held: dict[_Channel, str] = {}

    def join(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """The chunk with whole characters only; the argument is not handed out yet and may be changed."""
        for channel, holder, name in _channels(chunk):
            text = holder[name]
            if text and isinstance(text, str):
                holder[name] = self._whole(channel, text)
        # Elsewhere (names, unknown fields) halves are not joined: there is no telling what would continue them.
        fields = chunk.model_dump(exclude_unset=True)
        if not has_surrogates(fields):
            return chunk
        scrubbed = json.loads(well_formed(json.dumps(fields, ensure_ascii=False)))
        return ChatCompletionChunk.validate_leniently(scrubbed)[0]

    def flush(self) -> ChatCompletionChunk | None:
        """The stream ended: a chunk with U+FFFD for each half still held, None if there is none."""
        if not self.held:
            return None
        choices: dict[int, ChoiceDelta] = {}
        for index, name, *call in self.held:
            delta = choices.setdefault(index, ChoiceDelta())
            if name in _DELTA_TEXTS:
                setattr(delta, name, REPLACEMENT)
            elif name == "reasoning_details":
                fragment = {"type": call[0], "index": call[1], call[2]: REPLACEMENT}
                delta.reasoning_details = [*(delta.reasoning_details or []), fragment]
            else:
                part = "custom" if name == "input" else "function"
                fields = {"index": call[0], part: {name: REPLACEMENT}}
                delta.tool_calls = [*(delta.tool_calls or []), ChoiceDeltaToolCall.model_validate(fields)]
        self.held.clear()
        return ChatCompletionChunk(
            object="chat.completion.chunk",
            choices=[ChunkChoice(index=index, delta=delta) for index, delta in choices.items()],
        )

    def _whole(self, channel: _Channel, text: str) -> str:
        text = self.held.pop(channel, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.held[channel] = text[-1]
            text = text[:-1]
        return well_formed(text)


def _channels(chunk: ChatCompletionChunk) -> Iterator[tuple[_Channel, dict[str, Any], str]]:
    """Where text stands in a chunk: what tells its channel from others, the dict that holds it, and the key."""
    for choice in chunk.choices:
        delta = vars(choice.delta)
        for name in _DELTA_TEXTS:
            if name in delta:
                yield (choice.index, name), delta, name
        for detail in choice.delta.reasoning_details or ():
            for name in ("text", "summary"):
                if name in detail:
                    channel = (choice.index, "reasoning_details", detail.get("type"), detail.get("index"), name)
                    yield channel, detail, name
        for call in choice.delta.tool_calls or ():
            if call.function is not None:
                yield (choice.index, "arguments", call.index), vars(call.function), "arguments"
            if call.custom is not None:
                yield (choice.index, "input", call.index), vars(call.custom), "input"
