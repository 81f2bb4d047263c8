"""Fold events without parsing their JSON again, because successive chunks of a stream differ in a few values only.

Two events that differ only in strings and numbers share a template: the bytes around those values, which are its holes.
An event with exactly these bytes, and with one JSON string or integer in each hole, is the same chunk with other
values. So the values are put into a chunk that is kept for it, and that chunk is folded as any other. Which hole is
which field is verified: the template is tried once with marker values, each of which has to appear in the chunk in
exactly one place. If there is any doubt, the event is parsed as usual. For example, these two events

    {"id":"c1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}
    {"id":"c1","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}

share a template with one hole, the string after `"content":`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from chunkfold.event_stream import MESSAGE, ServerSentEvent
from chunkfold.fold.deltas import TEXT_RULES
from chunkfold.fold.head import HEAD_FIELDS
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.json_text.values import is_list, is_object
from chunkfold.models import ChatCompletionChunk
from chunkfold.models.base import Model
from chunkfold.wire.payload import valid_chunk

_VALUE: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d[\d.eE+-]*+)', re.DOTALL)
_MOST_HOLES: Final = 8
_LONGEST_INTEGER: Final = 18  # digits, which are less than 64 bits
_LONG_INTEGER: Final = re.compile(rb"\d{%d}" % (_LONGEST_INTEGER + 1))
_LONGEST_WAIT: Final = 1024  # events
_WORTH_LEARNING: Final = 8  # events that were taken since
_LISTS: Final = frozenset({"choices", "tool_calls", "reasoning_details"})  # of which the fold keeps nothing as it is


# Folds the values of that many events; returns whether it was possible.
_Add = Callable[[Sequence[Any], int], bool]


class _Place(NamedTuple):
    """The field that a value is in."""

    holder: dict[str, Any]
    key: str


class _Hole(NamedTuple):
    """One value that changes: its field, and the bytes between it and the next hole."""

    holder: dict[str, Any]
    key: str
    kind: type[str] | type[int]
    behind: bytes


class EventTemplate:
    """Fold the events of one stream that are like an earlier one.

    Args:
        fold: Where the chunks are folded.
    """

    def __init__(self, fold: StreamFold) -> None:
        self._fold = fold
        self._before = b"\r"  # no event's data has one
        self._before_size = 1
        self._behind = b""
        self._behind_size = 0
        self._holes: list[_Hole] = []
        self._add: _Add  # once it has learned
        self._appended: int | None = None  # the hole of a text that appends, if no other value is kept
        self._may_run = False  # whether many events may be folded at once
        self._parts: list[bytes] = []  # of the last event that was compared: between its values, and each value
        self._places: set[int] = set()  # of the holes, in the parts
        self._wait = 0  # events to let pass before learning again
        self._next_wait = 0
        self._hits = 0  # since it was learned

    def take(self, event: ServerSentEvent) -> bool:
        """Fold an event that fits the template, or that is learned from; return False if it was not folded."""
        data = event.data
        if not (data.startswith(self._before) and data.endswith(self._behind)) or event.event != MESSAGE:
            return self._take_other(event)
        rest = data[self._before_size : len(data) - self._behind_size]
        values: list[Any] = []
        try:
            for _, _, kind, behind in self._holes:
                if behind:
                    raw, _, rest = rest.partition(behind)
                else:
                    raw = rest
                value = from_json(raw)
                if type(value) is not kind or (kind is int and len(raw) > _LONGEST_INTEGER):
                    return self._take_other(event)
                values.append(value)
        except ValueError:
            return self._take_other(event)
        if not self._add(values, 1):
            return self._take_other(event)  # the head was sent again in the meantime
        self._hits += 1
        return True

    def take_run(self, data: bytes, offset: int) -> int:
        """Fold the events at the start of the data at once, if all of them fit the template up to the last that does.

        They must be plain blocks. For text in large reads this takes a third of the time of folding them one by one.

        Args:
            data: The bytes of the events, and those after them.
            offset: Where they begin in the body.

        Returns:
            How many bytes were folded.
        """
        start, end = b"data: " + self._before, self._behind + b"\n\n"
        if not self._may_run or not data.startswith(start):
            return 0
        *parts, _ = data.split(end)
        rows = [*self._values_of([part.removeprefix(start) for part in parts])]
        places = [offset, *accumulate((len(part) + len(end) for part in parts), initial=offset)]
        count = self._add_each(rows, places[1:])
        if not count:
            return 0
        self._hits += count
        self._fold.log.offset = places[count]
        return places[count + 1] - offset

    def _add_each(self, rows: list[tuple[Any, ...]], places: list[int]) -> int:
        """Fold the values of events that begin at these places; return of how many.

        Texts that append are joined, unless an observer is notified of each. Joining starts after a text of more than
        two characters, since a rule checks the first ones of arguments (CF311).
        """
        appended = None if self._fold.is_observed else self._appended
        may_join = False
        for count, values in enumerate(rows):
            self._fold.log.offset = places[count]
            if may_join and appended is not None:
                joined = [*values]
                joined[appended] = "".join([row[appended] for row in rows[count:]])
                return len(rows) if self._add(joined, len(rows) - count) else count
            if not self._may_run or not self._add(values, 1):
                return count
            self._may_run = not self._fold.keeps_more  # what is kept beside text is counted event by event
            may_join = self._may_run and appended is not None and len(values[appended]) > len("{}")
        return len(rows)

    def _values_of(self, events: list[bytes]) -> Iterable[tuple[Any, ...]]:
        """The values of events, given without the bytes before and after their holes; none in case of doubt.

        All are parsed at once. A number and a line break take the place of the bytes between two values. No string of
        JSON has a line break, so if all numbers and line breaks are found, there is one value between two of them.
        """
        kinds = [hole.kind for hole in self._holes]
        text = b",0,\n".join(events)
        for place, hole in enumerate(self._holes[:-1], 1):
            text = text.replace(hole.behind, b",%d,\n" % place)
        between = [*range(1, len(kinds)), 0] * len(events)
        try:
            values = from_json(b"[%b,0]" % text)
        except ValueError:
            return ()
        if values[1::2] != between or text.count(b"\n") != len(between) - 1 or _LONG_INTEGER.search(text):
            return ()
        values = values[::2]
        if [*map(type, values)] != kinds * len(events):
            return ()
        return zip(*[iter(values)] * len(kinds), strict=True)

    def _take_other(self, event: ServerSentEvent) -> bool:
        """Learn from an event that is not like the last one learned from, if it is time to try that."""
        if self._wait or event.event != MESSAGE:
            self._wait = max(self._wait - 1, 0)
            return False
        # If the bytes around the values keep changing, learning is tried less and less often.
        self._next_wait = 1 if self._hits >= _WORTH_LEARNING else min(2 * self._next_wait, _LONGEST_WAIT)
        self._wait = self._next_wait
        self._next_wait = max(self._next_wait, 1)
        self._hits = 0
        known, self._parts = self._parts, _VALUE.split(event.data)
        if known[::2] != self._parts[::2]:
            self._places = set()
            return False
        places = range(1, len(known), 2)
        self._places |= {place for place in places if known[place] != self._parts[place]}
        chunk = valid_chunk(event) if 0 < len(self._places) <= _MOST_HOLES else None
        if chunk is None or self._fold.add(chunk, _nothing_else) is None:
            return False
        self._learn(chunk)
        return True

    def _learn(self, chunk: ChatCompletionChunk) -> None:
        """Remember a chunk and the bytes around its changing values, if each of them is one of its values."""
        parts, places = self._parts, sorted(self._places)
        delta = chunk.choices[0].delta
        if delta.reasoning_details:
            vars(delta)["reasoning_details"] = _copied(delta.reasoning_details)  # the fold may keep the others
        holes = _holes_of(chunk, parts, places)
        if holes is None:
            self._places = set()  # where text follows reasoning one is a key, which changes only there
            return
        self._before, self._behind = b"".join(parts[: places[0]]), b"".join(parts[places[-1] + 1 :])
        self._before_size, self._behind_size = len(self._before), len(self._behind)
        self._holes = holes
        self._add = self._adding_text(chunk) or self._adding(chunk)
        self._appended = self._place_appended(chunk)
        self._may_run = True

    def _place_appended(self, chunk: ChatCompletionChunk) -> int | None:
        """The hole of a text that appends to another, if no other value that changes is kept."""
        kept = [(place, hole) for place, hole in enumerate(self._holes) if hole.key != "obfuscation"]
        text = _only_text(chunk)
        if len(kept) != 1 or text is None or kept[0][1].holder is not text.holder or kept[0][1].key != text.key:
            return None
        return kept[0][0]

    def _adding(self, chunk: ChatCompletionChunk) -> _Add:
        """A function that folds the chunk with other values in its holes."""
        places, index = [(hole.holder, hole.key) for hole in self._holes], vars(chunk.choices[0])
        add, add_again, add_usual = self._fold.add, self._fold.add_again, self._fold.add_usual
        has_own_head = any(holder is vars(chunk) and key in HEAD_FIELDS for holder, key in places)
        head, delta = self._fold.head.usual, vars(chunk.choices[0].delta)
        details = delta["reasoning_details"]

        def add_values(values: Sequence[Any], count: int) -> bool:
            for (holder, key), value in zip(places, values, strict=True):
                holder[key] = value
            if details:
                delta["reasoning_details"] = _copied(details)
            if has_own_head:
                return add(chunk, _nothing_else) is not None
            return add_again(index["index"], head, add_usual, chunk, count)

        return add_values

    def _adding_text(self, chunk: ChatCompletionChunk) -> _Add | None:
        """The same for a chunk that brings one text and nothing else, which saves half; None of any other."""
        text = _only_text(chunk)
        names = [hole.key for hole in self._holes]
        if text is None or text.holder is not vars(chunk.choices[0].delta):
            return None
        field = text.key
        if field not in names or not {*names} <= {field, "index", "obfuscation"}:
            return None
        add_again, index, head = self._fold.add_again, chunk.choices[0].index, self._fold.head.usual
        place, rule = names.index(field), TEXT_RULES[field]
        if "index" in names:
            of = names.index("index")
            return lambda values, count: add_again(values[of], head, rule, values[place], count)
        return lambda values, count: add_again(index, head, rule, values[place], count)


def _nothing_else(chunk: ChatCompletionChunk) -> bool:
    """Only usual chunks are folded here."""
    del chunk
    return False


def _copied(details: list[Any]) -> list[Any]:
    """A copy of details of reasoning, which can be changed independently."""
    return [dict(detail) if is_object(detail) else detail for detail in details]


def _only_text(chunk: ChatCompletionChunk) -> _Place | None:
    """The one text that a chunk brings, of a message or of a call's arguments; None if it brings more that is kept."""
    choice = chunk.choices[0]
    unknown = (chunk.__pydantic_extra__ or {}).keys()
    if chunk.usage or choice.__pydantic_extra__ or not unknown <= {"obfuscation"}:
        return None
    part: Model = choice.delta
    brought = _brought(part)
    if brought == {"tool_calls"}:
        calls = choice.delta.tool_calls or []
        if len(calls) != 1 or calls[0].function is None:
            return None
        part = calls[0].function  # the call's other fields are kept with it or not at all
        brought = _brought(part)
    [name, *others] = brought or {""}
    return None if others or name not in (*TEXT_RULES, "arguments") else _Place(vars(part), name)


def _brought(model: Model) -> set[str]:
    """The fields that are not null."""
    return {name for name, value in [*model] if value is not None}


def _holes_of(chunk: ChatCompletionChunk, parts: list[bytes], places: list[int]) -> list[_Hole] | None:
    """The holes for the parts at these places; None if one of them is not exactly one value of the chunk."""
    tried: list[bytes] = [*parts]
    probes: dict[Any, int] = {}
    for number, place in enumerate(places):
        is_text = parts[place].startswith(b'"')
        probe = f"value {number}" if is_text else 10**9 + number
        tried[place] = b'"%b"' % probe.encode() if isinstance(probe, str) else b"%d" % probe
        probes[probe] = place
    chunk_tried = valid_chunk(ServerSentEvent(b"".join(tried)))
    found: dict[int, _Place] = {}
    try:
        pairs = [] if chunk_tried is None else list(zip(_values(chunk), _values(chunk_tried), strict=True))
    except ValueError:
        return None
    for (holder, key), (holder_tried, key_tried) in pairs:
        value, value_tried = holder[key], holder_tried[key_tried]
        hole = probes.get(value_tried)
        if key != key_tried or value in probes or hole in found or (hole is None and value != value_tried):
            return None
        if hole is not None:
            found[hole] = _Place(holder, key)
    if found.keys() != {*places}:
        return None
    behind = [b"".join(parts[place + 1 : following]) for place, following in pairwise(places)]
    return [
        _Hole(*found[place], str if parts[place].startswith(b'"') else int, between)
        for place, between in zip(places, [*behind, b""], strict=True)
    ]


def _values(model: Model) -> Iterator[_Place]:
    """The places of a chunk's values, in order.

    Raises:
        ValueError: There is one which the fold may keep as it is.
    """
    for holder in (vars(model), model.__pydantic_extra__ or {}):
        for key, value in holder.items():
            if is_list(value) and key in _LISTS:
                for item in value:
                    yield from _values_of_item(item)
            elif isinstance(value, Model):
                yield from _values(value)
            elif is_list(value) or is_object(value):
                msg = f"{key}: expected one value, received several"
                raise ValueError(msg)
            else:
                yield _Place(holder, key)


def _values_of_item(item: Any) -> Iterator[_Place]:
    if isinstance(item, Model):
        yield from _values(item)
    elif is_object(item) and not any(is_list(value) or is_object(value) for value in item.values()):
        yield from (_Place(item, key) for key in item)
    else:
        msg = "expected an object of single values"
        raise ValueError(msg)
