"""Fold events without parsing their JSON again, because successive chunks of a stream differ in a few values only.

These two events share a template, the bytes around its one hole, which is the string after `"content":`

    {"id":"c1","choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}
    {"id":"c1","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}

- Learning (`_compare`): an event is split at its strings and numbers. Those that differ from event to event are holes.
- Verifying (`holes`): the event is parsed once more with a marker in each hole, which has to appear in just one field.
- Folding (`value_folder`): an event with the bytes of the template, and a string or an integer in each hole, is the
  same chunk with other values. Only these are parsed and folded, and returned in a copy of that chunk.

If there is any doubt, the event is parsed as usual.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final

from pydantic_core import from_json

from chunkfold.event_stream.lines import CR, LF
from chunkfold.event_stream.server_sent_event import MESSAGE, ServerSentEvent
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.parser.holes import VALUE, Hole, holes_of
from chunkfold.parser.limits import OutputLimit
from chunkfold.parser.value_folder import ValueFolder
from chunkfold.wire.payload import valid_chunk

_NEVER: Final = b"\r"  # no event's data has one
_SPACE: Final = 0x20
_MOST_HOLES: Final = 8
_LARGEST: Final = 10**18  # what is smaller has less than 64 bits
_FEWEST: Final = 8  # events to take at once; fewer take less time one by one
_FIRST_WAIT: Final = 16  # events; learning costs less than validating this many
_LONGEST_WAIT: Final = 1024
_WORTH_LEARNING: Final = 64  # hits since learning was last tried: they pay for it
_MISS: Final = 2  # an event that fits but for its values costs as much as this many hits save
_MOST_MISSES: Final = 8


class EventTemplate:
    """Fold the events of one stream that are like an earlier one."""

    def __init__(self, fold: StreamFold, limit: OutputLimit) -> None:
        self._fold = fold
        self._limit = limit
        self._forget()
        self._holes: list[Hole] = []
        self._folder: ValueFolder  # once it has learned
        self._parts: list[bytes] = []  # of the last event that was compared: between its values, and each value
        self._changed: set[int] = set()  # the numbers of those parts that are holes
        self._wait = _FIRST_WAIT  # events to let pass before learning again
        self._next_wait = 0  # doubles from 1; at first the next event is compared at once
        self._credit = 0  # hits since learning was last tried, less the misses

    def __reduce__(self) -> "tuple[type[EventTemplate], tuple[StreamFold, OutputLimit]]":
        """Copied and pickled without what it has learned, which folds into the original."""
        return EventTemplate, (self._fold, self._limit)

    def _forget(self) -> None:
        """Let no event fit."""
        self._before, self._after = _NEVER, b""
        self._starts: tuple[bytes, ...] = ()
        self._ends: tuple[bytes, ...] = ()

    def fold_event(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Fold an event that fits the template, or from which it learns; return whether it was folded.

        Its chunk is appended to a list, if there is one.
        """
        data = event.data
        if data.startswith(self._before) and data.endswith(self._after) and event.event == MESSAGE:
            values = data[self._before_size : len(data) - self._after_size]
            if self._fold_values(values, chunks):
                return True
            self._credit -= _MISS
            if self._credit < -_MISS * _MOST_MISSES:
                self._forget()
        if self._wait:
            self._wait -= 1
            return False
        return self._compare(event, chunks)

    def fold_block(self, block: bytes, offset: int, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Fold a read that is one event, of one `data` line and a blank one, if it fits the template; see `fold_event`.

        So most reads need neither the decoder nor an event, which saves a quarter of the floor.
        """
        if not (block.startswith(self._starts) and block.endswith(self._ends)):
            return False
        begin = self._before_size + (6 if block[5] == _SPACE else 5)
        values = block[begin : len(block) - self._after_size - (4 if block[-2] == CR else 2)]
        if LF in values or CR in values:
            return False
        self._fold.log.offset = offset
        return self._fold_values(values, chunks)

    def _fold_values(self, rest: bytes, chunks: list[ChatCompletionChunk] | None) -> bool:
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
        if not self._folder.fold(values):
            return False  # the head was sent again in the meantime
        self._credit += 1
        if chunks is not None:
            chunks.append(self._folder.copy())
        return True

    def fold_run(self, data: bytes, offset: int, largest: int, chunks: list[ChatCompletionChunk] | None) -> int:
        """Fold the leading events that fit the template, all at once; append their chunks to a list, if there is one.

        Only plain blocks fit: one `data` line and a blank one, with at most `largest` bytes of data. For text in large
        reads this takes a third of the time of folding them one by one. Returns how many bytes were folded.
        """
        start = next((start for start in self._starts if data.startswith(start)), b"")
        end = next((end for end in self._ends if end in data), b"")
        if not (start and end):
            return 0
        *parts, _ = data.split(end)
        events = [part[len(start) :] for part in parts]
        if len(parts) < _FEWEST or not data.startswith(start + (end + start).join(events)):  # one begins otherwise
            return 0
        around = self._before_size + self._after_size
        if len(data) > largest and max(map(len, events)) + around > largest:
            return 0
        rows = [*self._rows_of(events)]
        offsets = [*accumulate((len(part) + len(end) for part in parts), initial=offset)]
        count = self._folder.fold_run(rows, offsets)
        if not count:
            return 0
        self._credit += count
        if chunks is not None:
            for values in rows[:count]:
                self._folder.fill(values)
                chunks.append(self._folder.copy())
        self._fold.log.offset = offsets[count - 1]
        return offsets[count] - offset

    def _rows_of(self, events: list[bytes]) -> Iterable[tuple[Any, ...]]:
        """The values of events, given without the bytes before and after their holes; none in case of doubt.

        All are parsed at once. A number and a carriage return take the place of the bytes between two values. The
        events have none, and no string of JSON has one. So if all numbers and carriage returns are found, there is one
        value between two of them.
        """
        kinds = [hole.kind for hole in self._holes]
        text = b",0,\r".join(events)
        if LF in text or text.count(b"\r") >= len(events):  # a line ends in between
            return ()
        for number, hole in enumerate(self._holes[:-1], 1):
            text = text.replace(hole.after, b",%d,\r" % number)
        between = [*range(1, len(kinds)), 0] * len(events)
        try:
            values = from_json(b"[%b,0]" % text)
        except ValueError:
            return ()
        if values[1::2] != between or text.count(b"\r") != len(between) - 1:
            return ()
        columns = [values[2 * number :: 2 * len(kinds)] for number in range(len(kinds))]
        for column, kind in zip(columns, kinds, strict=True):
            if {*map(type, column)} != {kind}:
                return ()
            if kind is int and not -_LARGEST < min(column) <= max(column) < _LARGEST:
                return ()
        return zip(*columns, strict=True)

    def _compare(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk] | None) -> bool:
        """Compare an event that does not fit with the one compared before; return whether it was folded for that."""
        # If the bytes around the values keep changing, learning is tried less and less often.
        self._wait = 1 if self._credit >= _WORTH_LEARNING else self._next_wait
        self._next_wait = min(2 * max(self._wait, 1), _LONGEST_WAIT)
        self._credit = 0
        known, self._parts = self._parts, VALUE.split(event.data)
        if known[::2] != self._parts[::2]:
            self._changed = set()
            return False
        values = range(1, len(known), 2)
        self._changed |= {number for number in values if known[number] != self._parts[number]}
        # A block is found by its bytes, so its one line has an object right after `data:` or a single space.
        is_learnable = 0 < len(self._changed) <= _MOST_HOLES and event.data[:1] == b"{" and LF not in event.data
        chunk = valid_chunk(event) if is_learnable else None
        if chunk is None or not self._fold.add_if_usual(chunk):
            return False
        self._limit.count(event.data)
        self._learn(chunk)
        if chunks is not None:
            chunks.append(chunk)
        return True

    def _learn(self, given: ChatCompletionChunk) -> None:
        """Remember the bytes around the changing values, if each of these is one value of the chunk."""
        parts, changed = self._parts, sorted(self._changed)
        # While a thought is open, no chunk is usual.
        learned = None if self._fold.head.usual is None else holes_of(given, parts, changed)
        if learned is None:
            self._changed = set()  # where text follows reasoning one is a key, which changes only there
            return
        chunk, self._holes = learned
        # The bytes before the first hole and after the last: of an event, and those of its block, in either spelling.
        before, after = b"".join(parts[: changed[0]]), b"".join(parts[changed[-1] + 1 :])
        self._before, self._after = before, after
        self._before_size, self._after_size = len(before), len(after)
        self._starts = (b"data: " + before, b"data:" + before)
        self._ends = (after + b"\n\n", after + b"\r\n\r\n")
        frame = b"".join([before, after, *(hole.after for hole in self._holes)])
        self._folder = ValueFolder(self._fold, self._limit, chunk, self._holes, frame)
