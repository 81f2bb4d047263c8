"""Find the values in which events that are alike differ, and what they mean to the fold.

The bytes of the events say where the values are, but not which fields they are. So a chunk is made with a marker in
each of these places, and each marker has to appear in the chunk in exactly one field.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic_core import from_json, to_json

from chunkfold.fold.choice_state import ChoiceState
from chunkfold.fold.deltas import RULED_UNKNOWN, TEXT_RULES, TextRule, brought_fields, rule_for_call, rule_with_block
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.values import is_container, is_list, is_object
from chunkfold.models.base import Model, is_model
from chunkfold.models.chunk import ChatCompletionChunk, ChoiceDelta
from chunkfold.models.content import REASONING_DETAILS
from chunkfold.models.shared import CompletionUsage
from chunkfold.wire.payload import validate_json

VALUE: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?\d[\d.eE+-]*+)', re.DOTALL)
"""A string or number of JSON; of the numbers, only integers can be in a hole.

A string without an end goes to the end of the data, so that the search does not start in it again and again.
"""
_REASONING_AND_BLOCK: Final = ({"reasoning", "reasoning_details"}, {"reasoning_content", "reasoning_details"})
_LISTS: Final = frozenset({"choices", "tool_calls", "reasoning_details"})  # of which the fold keeps nothing as it is
_Kind = Literal["text", "index", "count", "created", "unknown", "padding"]


class Place(NamedTuple):
    """The field that a value is in."""

    holder: dict[str, Any]
    key: str


class Hole(NamedTuple):
    """One value that changes: its field, and the bytes between it and the next hole."""

    holder: dict[str, Any]
    key: str
    kind: type[str] | type[int]
    after: bytes


class Meaning(NamedTuple):
    """What the values in the holes of a chunk, given by the holes' numbers, mean to the fold."""

    texts: list[int]  # one that appends, or a reasoning and that of its block, which have to be equal
    counts: list[int]  # in the usage
    positive: list[int]  # numbers in which a 0 has another meaning: counts, and `created`
    unknown: list[int]  # values of unknown keys that are kept
    choice: int | None  # the choice's index, if it changes
    # For the text, if a chunk like the last one adds nothing else, but for counts at the top of the usage and unknown
    # values; else None.
    rule: TextRule | None

    def joined(self, rows: Sequence[tuple[Any, ...]]) -> list[Any] | None:
        """The values of a single event equivalent to all rows after the first; None if there is none."""
        text, *same = self.texts
        are_same = all(row[place] == row[text] for place in same for row in rows)
        are_positive = all(row[place] > 0 for place in self.positive for row in rows)
        is_one = self.choice is None or len({row[self.choice] for row in rows}) == 1
        if self.unknown or not (is_one and are_same and are_positive):
            return None
        values = [*rows[-1]]
        for place in self.texts:
            values[place] = "".join([row[text] for row in rows[1:]])
        return values


def holes_of(
    chunk: ChatCompletionChunk, parts: list[bytes], places: list[int]
) -> tuple[ChatCompletionChunk, list[Hole]] | None:
    """A chunk like the given one, and its holes for the parts at these places.

    None if one of them is not exactly one value of the chunk.
    """
    given = [from_json(parts[place]) for place in places]
    if not {*map(type, given)} <= {str, int}:
        return None
    markers = [f"value {n}" if isinstance(value, str) else 10**9 + n for n, value in enumerate(given)]
    tried = [*parts]
    for place, marker in zip(places, markers, strict=True):
        tried[place] = to_json(marker)
    try:
        like = validate_json(b"".join(tried))
        found = [place for place in _places(like) if place.holder[place.key] in markers]
    except ValueError:
        return None
    by_marker = {place.holder[place.key]: place for place in found}
    if not len(found) == len(by_marker) == len(markers):
        return None
    after = [b"".join(parts[place + 1 : following]) for place, following in pairwise(places)]
    holes = [
        Hole(*by_marker[marker], type(marker), between) for marker, between in zip(markers, [*after, b""], strict=True)
    ]
    for hole, value in zip(holes, given, strict=True):
        hole.holder[hole.key] = value
    return (like, holes) if like == chunk else None


def _places(model: Model) -> Iterator[Place]:
    """The places of a chunk's single values, but for nulls.

    Raises:
        ValueError: There is a list or an object which the fold may keep as it is.
    """
    fields = vars(model)
    for key, value in fields.items():
        if value is None:
            continue
        if is_model(value):
            yield from _places(value)
        elif is_list(value) and key in _LISTS:
            for item in value:
                yield from _places_of_item(item)
        elif is_container(value):
            msg = f"{key}: expected one value, received several"
            raise ValueError(msg)
        else:
            yield Place(fields, key)
    unknown = _unknown(model)
    for key, value in unknown.items():
        if not is_container(value):  # a hole in it is not found
            yield Place(unknown, key)


def _places_of_item(item: Any) -> Iterator[Place]:
    if is_model(item):
        yield from _places(item)
    elif is_object(item) and not any(map(is_container, item.values())):
        yield from (Place(item, key) for key in item)
    else:
        msg = "expected an object of single values"
        raise ValueError(msg)


def meaning_of(chunk: ChatCompletionChunk, holes: list[Hole], state: ChoiceState) -> Meaning | None:
    """The meaning of a chunk's holes, after it was folded into this choice; None if each has to be folded in full."""
    [choice], usage = chunk.choices, chunk.usage
    unknown = [_unknown(model) for model in (chunk, choice, choice.delta)]
    has_index = any(hole.holder is vars(choice) for hole in holes)
    texts = _texts_of(choice.delta, None if has_index else state)
    is_ruled = not RULED_UNKNOWN.isdisjoint(unknown[-1]) or any(
        is_list(value) for one in unknown for value in one.values()
    )
    if is_ruled or not _has_all_counts(usage):
        return None
    numbers: defaultdict[_Kind | None, list[int]] = defaultdict(list)
    for number, hole in enumerate(holes):
        numbers[_kind_of(hole, chunk, texts, unknown)].append(number)
    if not texts or None in numbers or len(numbers["text"]) != len(texts):
        return None
    counts = numbers["count"]
    is_deep = any(usage is None or holes[number].holder is not vars(usage) for number in counts)
    has_block = bool(choice.delta.reasoning_details)
    is_more_kept = is_deep or (has_index and (numbers["unknown"] or any(unknown[1:]) or usage or has_block))
    return Meaning(
        texts=numbers["text"],
        counts=counts,
        positive=counts + numbers["created"],
        unknown=numbers["unknown"],
        choice=numbers["index"][0] if has_index else None,
        rule=None if is_more_kept else _rule_for(texts, choice.delta, None if has_index else state.tool_calls),
    )


def _rule_for(texts: list[Place], delta: ChoiceDelta, calls: ToolCalls | None) -> TextRule | None:
    """The rule for a text of a delta, for a reasoning in a block, or for a call's arguments; None if there is none.

    `calls` are those of the delta's choice; None if the choice changes.
    """
    if delta.tool_calls:
        [call] = delta.tool_calls
        return None if calls is None or call.index is None else rule_for_call(calls, call.index)
    rule = TEXT_RULES[next((text.key for text in texts if text.holder is vars(delta)), "reasoning")]
    in_block = next((text.key for text in texts if text.holder is not vars(delta)), None)
    return rule if in_block is None else rule_with_block(rule, str(in_block))


def _kind_of(hole: Hole, chunk: ChatCompletionChunk, texts: list[Place], unknown: list[dict[str, Any]]) -> _Kind | None:
    """What is in a hole: a text, the choice's index, a count in the usage, `created`, or the value of an unknown key.

    None for a value that has another meaning.
    """
    holder, [choice], usage = hole.holder, chunk.choices, chunk.usage
    if any(holder is text.holder and hole.key == text.key for text in texts):
        return "text"
    if holder is vars(choice):
        return "index"
    if holder is vars(chunk) and hole.key == "created":
        return "created" if chunk.created else None  # while it is 0, each is noted
    if usage is not None and any(holder is vars(part) for part in (usage, *filter(is_model, vars(usage).values()))):
        return "count"
    if any(holder is fields for fields in unknown):
        return "padding" if hole.key == "obfuscation" else "unknown"
    return None


def _texts_of(delta: ChoiceDelta, state: ChoiceState | None) -> list[Place]:
    """The text that a delta brings, or two: a reasoning and the same in a block. Empty if it brings anything else."""
    brought = brought_fields(delta, state)
    if len(brought) != 1 and {*brought} not in _REASONING_AND_BLOCK:
        return []
    places = [place for name in brought if (place := _text_of(delta, name)) is not None]
    return places if len(places) == len(brought) else []


def _text_of(delta: ChoiceDelta, name: str) -> Place | None:
    """The text in a field of a delta, if nothing else is in it that is kept."""
    fields = vars(delta)
    if name in TEXT_RULES:
        return Place(fields, name)
    if name not in ("tool_calls", "reasoning_details") or len(fields[name]) != 1:
        return None
    [item] = fields[name]
    if is_object(item):
        brought = [key for key in (*REASONING_DETAILS.appended, "signature") if item.get(key)]
        is_text = len(brought) == 1 and brought[0] in REASONING_DETAILS.reasoning and isinstance(item[brought[0]], str)
        return Place(item, brought[0]) if is_text else None
    # The call's other fields are kept with it or not at all.
    function: Model | None = item.function if item.custom is None else None
    brought = [name for name, value in function or () if value is not None]
    return Place(vars(function), "arguments") if brought == ["arguments"] else None


def _has_all_counts(usage: CompletionUsage | None) -> bool:
    """Whether a usage, if there is one, has its three counts, so that none of them comes from an earlier one."""
    if usage is None:
        return True
    counts = map(vars(usage).get, ("prompt_tokens", "completion_tokens", "total_tokens"))
    return all(isinstance(count, int) and count > 0 for count in counts)


def _unknown(model: Model) -> dict[str, Any]:
    return cast("dict[str, Any]", model.__pydantic_extra__)
