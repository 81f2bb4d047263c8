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

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from pydantic_core import from_json

from chunkfold.event_stream.server_sent_event import MESSAGE, ServerSentEvent
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models.base import copier_of
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.parser.holes import VALUE, Hole, Meaning, holes_of, meaning_of
from chunkfold.parser.limits import OutputLimit
from chunkfold.wire.payload import valid_chunk

_NEVER: Final = b"\r"  # no event's data has one
_CR, _LF, _SPACE = 0x0D, 0x0A, 0x20
_MOST_HOLES: Final = 8
_LARGEST: Final = 10**18  # what is smaller has less than 64 bits
_FEWEST: Final = 8  # events to take at once; fewer take less time one by one
_FIRST_WAIT: Final = 16  # events; learning costs less than validating this many
_LONGEST_WAIT: Final = 1024
_WORTH_LEARNING: Final = 64  # hits since learning was last tried: they pay for it
_MISS: Final = 2  # an event that fits but for its values costs as much as this many hits save
_MOST_MISSES: Final = 8

_Fold = Callable[[Sequence[Any], int], bool]
"""Folds values, as that many events; returns whether it was possible."""


class EventTemplate:
    """Fold the events of one stream that are like an earlier one."""

    def __init__(self, fold: StreamFold, limit: OutputLimit) -> None:
        self._fold = fold
        self._limit = limit
        self._starts: tuple[bytes, ...]
        self._ends: tuple[bytes, ...]
        self._forget()
        self._holes: list[Hole] = []
        # Set when it has learned: copies its chunk; folds values.
        self._copy: Callable[[], ChatCompletionChunk]
        self._fold_values: _Fold
        self._meaning: Meaning | None = None
        self._parts: list[bytes] = []  # of the last event that was compared: between its values, and each value
        self._places: set[int] = set()  # of the holes, in the parts
        self._wait = _FIRST_WAIT  # events to let pass before learning again
        self._next_wait = 0  # doubles from 1; 0 lets the second event be compared at once
        self._credit = 0  # hits since learning was last tried, less the misses

    def __reduce__(self) -> "tuple[type[EventTemplate], tuple[StreamFold, OutputLimit]]":
        """Copied and pickled without what it has learned, which folds into the original."""
        return EventTemplate, (self._fold, self._limit)

    def _set_frame(self, before: bytes, after: bytes) -> None:
        """Set the bytes before the first hole and after the last, of an event and of its block."""
        self._before, self._after = before, after
        self._before_size, self._after_size = len(before), len(after)
        self._starts = (b"data: " + before, b"data:" + before)
        self._ends = (after + b"\n\n", after + b"\r\n\r\n")

    def _forget(self) -> None:
        """Let no event fit."""
        self._before, self._after = _NEVER, b""
        self._starts = self._ends = ()

    def take(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Fold an event that fits the template, or from which it learns; return False if it was not folded.

        Its chunk is appended to `chunks`; None means that no chunks are to be made, here and below.
        """
        data = event.data
        if data.startswith(self._before) and data.endswith(self._after) and event.event == MESSAGE:
            values = data[self._before_size : len(data) - self._after_size]
            if self._take_values(values, chunks):
                return True
            self._credit -= _MISS
            if self._credit < -_MISS * _MOST_MISSES:
                self._forget()
        if self._wait:
            self._wait -= 1
            return False
        return event.event == MESSAGE and self._compare(event, chunks)

    def take_block(self, block: bytes, offset: int, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Fold a read that is one event, of one `data` line and a blank one, if it fits the template.

        So most reads need neither the decoder nor an event, which saves a quarter of the floor.
        """
        if not (block.startswith(self._starts) and block.endswith(self._ends)):
            return False
        begin = self._before_size + (6 if block[5] == _SPACE else 5)
        values = block[begin : len(block) - self._after_size - (4 if block[-2] == _CR else 2)]
        if _LF in values or _CR in values:
            return False
        self._fold.log.offset = offset
        return self._take_values(values, chunks)

    def _take_values(self, rest: bytes, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Fold the event with these bytes between the first hole and the end of the last, if all of them fit."""
        values: list[Any] = []
        try:
            for holder, key, kind, after in self._holes:
                if after:
                    raw, _, rest = rest.partition(after)
                else:
                    raw = rest
                value = from_json(raw)
                if type(value) is not kind or (isinstance(value, int) and not -_LARGEST < value < _LARGEST):
                    return False
                holder[key] = value
                values.append(value)
        except ValueError:
            return False
        if not self._fold_values(values, 1):
            return False  # the head was sent again in the meantime
        self._credit += 1
        if chunks is not None:
            chunks.append(self._copy())
        return True

    def take_run(self, data: bytes, offset: int, chunks: list[ChatCompletionChunk] | None, largest: int) -> int:
        """Fold the leading events that fit the template, all at once.

        Only plain blocks fit: one `data` line and a blank one, with at most `largest` bytes of data. For text in large
        reads this takes a third of the time of folding them one by one. Returns how many bytes were folded.
        """
        start = next((start for start in self._starts if data.startswith(start)), b"")
        end = next((end for end in self._ends if end in data), b"")
        if not (start and end):
            return 0
        *parts, _ = data.split(end)
        if len(parts) < _FEWEST:
            return 0
        begin = len(start)
        events = [part[begin:] for part in parts]
        if not data.startswith(start + (end + start).join(events)):  # one of them begins otherwise
            return 0
        around = self._before_size + self._after_size
        if len(data) > largest and max(map(len, events)) + around > largest:
            return 0
        rows = [*self._values_of(events)]
        places = [*accumulate((len(part) + len(end) for part in parts), initial=offset)]
        count = self._fold_run(rows, places)
        if not count:
            return 0
        self._credit += count
        if chunks is not None:
            for values in rows[:count]:
                _fill(self._holes, values)
                chunks.append(self._copy())
        self._fold.log.offset = places[count - 1]
        return places[count] - offset

    def _fold_run(self, rows: list[tuple[Any, ...]], places: list[int]) -> int:
        """Fold the values of the events that begin at these places; return how many these are.

        Texts that append are joined, unless an observer is notified of each. Joining starts after an event that was
        folded without a note, with a text of more than two characters, since a rule checks the first ones of arguments
        (CF311).
        """
        fold = self._fold
        meaning = self._meaning if fold.observer is None else None
        for count, values in enumerate(rows):
            fold.log.offset = places[count]
            if not self._fold_values(values, 1):
                return count
            if meaning is not None and fold.follows_template and len(values[meaning.texts[0]]) > len("{}"):
                joined, meaning = meaning.joined(rows[count:]), None
                if joined is not None:
                    fold.log.offset = places[count + 1]
                    return len(rows) if self._fold_values(joined, len(rows) - count - 1) else count + 1
        return len(rows)

    def _values_of(self, events: list[bytes]) -> Iterable[tuple[Any, ...]]:
        """The values of events, given without the bytes before and after their holes; none in case of doubt.

        All are parsed at once. A number and a carriage return take the place of the bytes between two values. The
        events have none, and no string of JSON has one. So if all numbers and carriage returns are found, there is one
        value between two of them.
        """
        kinds = [hole.kind for hole in self._holes]
        text = b",0,\r".join(events)
        if _LF in text or text.count(b"\r") >= len(events):  # a line ends in between
            return ()
        for place, hole in enumerate(self._holes[:-1], 1):
            text = text.replace(hole.after, b",%d,\r" % place)
        between = [*range(1, len(kinds)), 0] * len(events)
        try:
            values = from_json(b"[%b,0]" % text)
        except ValueError:
            return ()
        if values[1::2] != between or text.count(b"\r") != len(between) - 1:
            return ()
        columns = [values[2 * place :: 2 * len(kinds)] for place in range(len(kinds))]
        for column, kind in zip(columns, kinds, strict=True):
            if {*map(type, column)} != {kind}:
                return ()
            if kind is int and not -_LARGEST < min(column) <= max(column) < _LARGEST:
                return ()
        return zip(*columns, strict=True)

    def _compare(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Compare an event that does not fit with the one compared before it, and learn where the two differ."""
        # If the bytes around the values keep changing, learning is tried less and less often.
        self._next_wait = 1 if self._credit >= _WORTH_LEARNING else min(2 * self._next_wait, _LONGEST_WAIT)
        self._wait = self._next_wait
        self._next_wait = max(self._next_wait, 1)
        self._credit = 0
        known, self._parts = self._parts, VALUE.split(event.data)
        if known[::2] != self._parts[::2]:
            self._places = set()
            return False
        places = range(1, len(known), 2)
        self._places |= {place for place in places if known[place] != self._parts[place]}
        # A block is found by its bytes, so its one line has an object right after `data:` or a single space.
        is_learnable = 0 < len(self._places) <= _MOST_HOLES and event.data[:1] == b"{" and _LF not in event.data
        chunk = valid_chunk(event) if is_learnable else None
        if chunk is None or not self._fold.add_if_usual(chunk):
            return False
        self._limit.count(event.data)
        if chunks is not None:
            chunks.append(chunk)
        self._learn(chunk)
        return True

    def _learn(self, given: ChatCompletionChunk) -> None:
        """Remember the chunk and the bytes around its changing values, if each of them is one of its values."""
        parts, places = self._parts, sorted(self._places)
        # While a thought is open, no chunk is usual.
        learned = None if self._fold.head.usual is None else holes_of(given, parts, places)
        if learned is None:
            self._places = set()  # where text follows reasoning one is a key, which changes only there
            return
        self._set_frame(b"".join(parts[: places[0]]), b"".join(parts[places[-1] + 1 :]))
        chunk, self._holes = learned
        self._copy = copier_of(chunk)
        self._meaning = meaning_of(chunk, self._holes, self._fold.state_of(given.choices[0].index))
        self._fold_values = self._values_folder(chunk, self._chunk_folder(chunk))

    def _chunk_folder(self, chunk: ChatCompletionChunk) -> _Fold:
        """A function that folds all of the chunk, since another one may have been folded before it.

        Of the next one only its values may be folded; but if anything is noted of this one, the next has to be folded
        in full, too, to note it again.

        It does not refer to the template, which keeps it, so that a stream is freed as soon as it is not used.
        """
        fold, holes, choice = self._fold, self._holes, vars(chunk.choices[0])
        add_if_usual, add_again, add_usual = fold.add_if_usual, fold.add_again, fold.add_usual
        has_own_head = any(hole.holder is vars(chunk) for hole in holes)
        log, limit, head = fold.log, self._limit, fold.head.usual
        frame = b"".join([self._before, self._after, *(hole.after for hole in holes)])

        def add_chunk(values: Sequence[Any], count: int) -> bool:
            noted = log.count
            _fill(holes, values)
            if has_own_head and count == 1:  # what is joined has a usual one
                is_folded = add_if_usual(chunk)
            else:
                is_folded = add_again(choice["index"], head, add_usual, chunk, count)
            if is_folded:
                limit.count(frame, count)
                limit.count_values(values)
                fold.follows_template = log.count == noted + count * len(fold.head.notes)
            return is_folded

        return add_chunk

    def _values_folder(self, chunk: ChatCompletionChunk, add: _Fold) -> _Fold:
        """A function that folds nothing but the values, at half the cost; where more can be new, it uses `add`."""
        fold, meaning = self._fold, self._meaning
        if meaning is None or meaning.rule is None:
            return add
        add_again, rule, head, index = fold.add_again, meaning.rule, fold.head.usual, chunk.choices[0].index
        place, repeat, choice = meaning.texts[0], meaning.texts[-1], meaning.choice
        counts = [(self._holes[number].key, number) for number in meaning.counts]
        positive = meaning.positive

        # What `add_next` does for a text alone; it saves 2 % of a read, and 4 % of folding large ones with events.
        def add_text(values: Sequence[Any], count: int) -> bool:
            if not fold.follows_template:
                return add(values, count)
            return add_again(index if choice is None else values[choice], head, rule, values[place], count)

        def add_next(values: Sequence[Any], count: int) -> bool:
            text = values[place]
            is_predicted = values[repeat] == text
            for number in positive:
                is_predicted = is_predicted and values[number] > 0
            if not (is_predicted and fold.follows_template):
                is_folded = add(values, count)
                # Else the total may now be a sum (CF402), so the next is folded in full, too.
                fold.follows_template = is_predicted and fold.follows_template
                return is_folded
            if not add_again(index if choice is None else values[choice], head, rule, text, count):
                return False
            if counts:
                fold.count_again({name: values[number] for name, number in counts})
            return True

        if meaning.unknown:
            return self._with_unknown(add_next, chunk, meaning)
        return add_next if positive or repeat != place else add_text

    def _with_unknown(self, add: _Fold, chunk: ChatCompletionChunk, meaning: Meaning) -> _Fold:
        """A function that folds as the given one does, and keeps the values of unknown keys."""
        limit, holes, [choice] = self._limit, self._holes, chunk.choices
        state = self._fold.state_of(choice.index)
        levels = ((chunk, self._fold.extra), (choice, state.extra), (choice.delta, state.message_extra))
        unknown = [
            (kept, holes[number].key, number)
            for model, kept in levels
            for number in meaning.unknown
            if holes[number].holder is model.__pydantic_extra__
        ]

        def add_and_keep(values: Sequence[Any], count: int) -> bool:
            if not add(values, count):
                return False
            for kept, name, number in unknown:
                kept[name] = values[number]
            limit.count_values([values[number] for _, _, number in unknown])
            return True

        return add_and_keep


def _fill(holes: list[Hole], values: Sequence[Any]) -> None:
    for (holder, key, _, _), value in zip(holes, values, strict=True):
        holder[key] = value
