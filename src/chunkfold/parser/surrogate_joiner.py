"""Join surrogate pairs that providers split over two deltas (CF211).

JSON can escape a character beyond the BMP as two escapes, and some providers cut between them: the first delta's text
then ends in half a character that cannot be encoded. That half is held back, per text channel, until the other one
arrives; if it never does, the half becomes U+FFFD. So no text that is returned has a lone surrogate, and the deltas
still add up to the final text.
"""

from collections.abc import Callable
from itertools import starmap
from typing import Any, Final

from chunkfold.fold.text_channels import Channel, TextChannels
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.surrogates import REPLACEMENT, make_well_formed, scrub
from chunkfold.json_text.values import is_list
from chunkfold.models.base import Model, is_model
from chunkfold.models.chunk import ChatCompletionChunk, ChoiceDelta, ChunkChoice, chunks_with

_MOST_HELD: Final = 1000  # halves at a time: what is held back is kept nowhere else, so no other limit counts it


class SurrogateJoiner:
    """Join split pairs across the chunks of one stream; `calls_of` is that of `TextChannels`.

    `is_cumulative` says that texts repeat the one before: half of a character at its end is then whole in the next.
    """

    def __init__(self, calls_of: Callable[[int], ToolCalls], *, is_cumulative: bool) -> None:
        self._is_cumulative = is_cumulative
        self._held: dict[tuple[Any, ...], tuple[str, Channel]] = {}
        self.channels = TextChannels(calls_of)

    @property
    def is_needed(self) -> bool:
        """Whether the next chunk must be passed to `join`, even if it has no half of a character."""
        return bool(self._held or self.channels.calls)

    def join(self, chunk: ChatCompletionChunk, *, is_split: bool) -> None:
        """Leave only whole characters in a chunk, which is changed; `is_split` says that a text has half of one."""
        for choice in chunk.choices:
            for channel in self.channels.of(choice):
                if channel.text:
                    self._join_in(channel)
        if is_split:
            # Elsewhere (names, unknown fields) halves are not joined, because no rule says what continues them.
            _scrub_model(chunk)

    def flush(self) -> list[ChatCompletionChunk]:
        """The stream ended: return a chunk with U+FFFD for each half that is still held; none if there is none."""
        held, self._held = self._held, {}
        deltas: list[tuple[int, dict[str, Any]]] = []
        for (choice, *_), (_, channel) in held.items():
            # Together if they are in different fields, of which two may have the same reasoning.
            fields = next((known for index, known in deltas if index == choice and channel.field not in known), None)
            if fields is None:
                fields = dict[str, Any]()
                deltas.append((choice, fields))
            fields[channel.field] = _replacement_for(channel)
        return chunks_with([*starmap(_choice_of, deltas)])

    def _join_in(self, channel: Channel) -> None:
        key, holder, name = channel.key, channel.holder, channel.name
        held, _ = self._held.pop(key, ("", None))
        if held and ("\udc00" <= holder[name][0] <= "\udfff" or not self._is_cumulative):
            holder[name] = held + holder[name]
        if "\ud800" <= (last := holder[name][-1]) <= "\udbff" and len(self._held) < _MOST_HELD:
            self._held[key] = (last, channel._replace(holder={}))  # which may be large
            holder[name] = holder[name][:-1]
        make_well_formed(holder, name)


def _scrub_model(model: Model) -> None:
    """Scrub the fields of a model; in place, since a text may be as large as an event."""
    for fields in filter(None, (vars(model), model.__pydantic_extra__)):
        scrub(fields)
        for value in fields.values():
            for inner in filter(is_model, value if is_list(value) else (value,)):
                _scrub_model(inner)


def _choice_of(index: int, fields: dict[str, Any]) -> ChunkChoice:
    """A choice whose delta has these fields.

    A function: pydantic builds a model at its first use and looks at the caller's variables, and CPython 3.13.0 crashes
    if some of these are hidden by those of a comprehension.
    """
    return ChunkChoice(index=index, delta=ChoiceDelta.model_validate(fields))


def _replacement_for(channel: Channel) -> Any:
    """The value of the channel's field of a delta that brings just U+FFFD."""
    value: Any = REPLACEMENT
    for key in reversed(channel.inner):
        value = {key: value}
    if channel.item is not None:
        value = [{**scrub(channel.item), **value}]  # as it was in the chunk that was returned
    return value
