"""Fold events: each through its payload into the fold, up to the one that ends the stream.

The payload decides what an event is; this module decides the order of what happens to it: limits, repairs, merged
choices, joined halves of characters, transforms, the fold, observers.
"""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from chunkfold import anomalies
from chunkfold.errors import APIError, ChunkfoldError, exceeded
from chunkfold.event_stream.server_sent_event import MESSAGE, ServerSentEvent
from chunkfold.excerpts import excerpt
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.parsing import has_more_items, has_more_wide_text
from chunkfold.models.chunk import ChatCompletionChunk, is_keep_alive
from chunkfold.parser.choice_merger import ChoiceMerger
from chunkfold.parser.endings import Stop
from chunkfold.parser.limits import OutputLimit
from chunkfold.parser.options import BodyOptions
from chunkfold.parser.surrogate_joiner import SurrogateJoiner
from chunkfold.parser.template import EventTemplate
from chunkfold.transforms import CumulativeDeltas, OneChoice, Transform
from chunkfold.wire.envelopes import is_only_chunk
from chunkfold.wire.part_counts import MAX_EVENT_PARTS
from chunkfold.wire.payload import Payload, chunk_from_json, parse_slowly, valid_chunk
from chunkfold.wire.raw_data import DONE
from chunkfold.wire.reading import MAX_WIDE_TEXT

_LARGE: Final = 2 * MAX_EVENT_PARTS  # bytes; an event that has no more is below all limits on what it holds


class EventFolder:
    """Fold the events of one stream; the parser describes the options."""

    def __init__(self, fold: StreamFold, options: BodyOptions) -> None:
        self.chunks: list[ChatCompletionChunk] = []  # of the current read; the parser gives each read a list of its own
        self.stop: Stop | None = None  # why no more events are taken
        self.error: ChunkfoldError | None = None  # that an event or a limit caused
        self.has_progress = False  # more than keep-alives arrived, even if a transform held it; the parser resets it
        self.keep_alives = 0  # of all chunks: those that only keep the connection alive
        self._has_chunks = False  # whether any came, even if a transform held them back
        # The place and the start of the first event that does not belong to a stream of chunks.
        self.foreign: tuple[int, str] | None = None
        self._fold = fold
        self._log = fold.log
        self._options = options
        self._large = _LARGE if options.max_event_items is None else min(_LARGE, options.max_event_items)
        self._last: tuple[ServerSentEvent, list[ChatCompletionChunk]] | None = None  # not passed to the callback yet
        self.has_callback = options.on_server_sent_event is not None  # which gets the chunks however the body is read
        # Whether each chunk passes through strict mode, a transform or the callback.
        self._sees_all = bool(fold.log.refused_ids or options.transforms) or self.has_callback
        self._is_direct = not self._sees_all  # whether a plain chunk may go straight to the fold
        # A transform that merges choices needs their indexes.
        merges = options.one_choice and not any(isinstance(transform, OneChoice) for transform in options.transforms)
        self._merger = ChoiceMerger(fold) if merges else None
        # Transforms can change calls, so fragments cannot be routed before; but then all chunks pass through them.
        is_cumulative = any(isinstance(transform, CumulativeDeltas) for transform in options.transforms)
        calls_of = ToolCalls if options.transforms else fold.calls_of
        self._joiner = SurrogateJoiner(calls_of, is_cumulative=is_cumulative)
        self._output_limit = OutputLimit(options.max_output_size, fold, self._joiner.channels)
        self._template = EventTemplate(fold, self._output_limit)

    def _fold_events(self, events: list[ServerSentEvent], *, folding: bool) -> None:
        """Fold each event by the fastest path that is correct for it, up to the one that ends the stream.

        `folding` makes chunks only where the events cannot be folded without them. This is the loop of every event: one
        more call in it can be measured.
        """
        fold, output_limit, log, large = self._fold, self._output_limit, self._log, self._large
        template, chunks = self._template, None if folding else self.chunks
        for event in events:
            data = event.data
            log.offset = offset = event.offset
            end = offset + len(data)
            if len(data) > large:
                self._fold_counted(event)
            elif not (self._is_direct and template.fold_event(event, chunks)):
                output_limit.count(data)
                try:
                    chunk = chunk_from_json(data) if event.event == MESSAGE and data != DONE else None
                except ValidationError:
                    chunk = None
                direct = chunk if self._is_direct else None
                if direct is not None and fold.add_if_usual(direct):
                    self.chunks.append(direct)
                elif direct is None or not self._add_if_only_chunk(direct):
                    self._fold_event(event, chunk)
            if end >= output_limit.check_from and self.stop is None:
                self._check_limits(end)
            if self.stop is not None:
                return

    def _fold_counted(self, event: ServerSentEvent) -> None:
        """Fold an event that may have too many values: they are counted before it is parsed."""
        if not self._is_too_large(event.data):
            self._output_limit.count(event.data)
            self._fold_event(event, valid_chunk(event))

    def _is_too_large(self, data: bytes) -> bool:
        """Whether an event has more values or wide text than are allowed; if so, end the stream without parsing it."""
        if (error := self._size_error(data)) is not None:
            self._fail(error)
        return error is not None

    def _size_error(self, data: bytes) -> ChunkfoldError | None:
        if has_more_items(data, self._options.max_event_items):
            return exceeded("max_event_items", self._options.max_event_items)
        return exceeded("max_wide_text", MAX_WIDE_TEXT) if has_more_wide_text(data, MAX_WIDE_TEXT) else None

    def _fold_event(self, event: ServerSentEvent, chunk: ChatCompletionChunk | None) -> None:
        """Fold an event that is more than a plain chunk, or that is observed; `chunk` is None if it is not valid."""
        if chunk is not None and not is_only_chunk(chunk):
            chunk = None  # it may be large, and is read again
        payload = parse_slowly(event) if chunk is None else Payload([chunk])
        if payload.foreign and self.foreign is None:
            self.foreign = (event.offset, payload.foreign)
        self._fold_and_notify(event, payload)

    def _fold_and_notify(self, event: ServerSentEvent, payload: Payload) -> None:
        """Fold what an event has, or JSON that is not in one, and pass it to the callback with its chunks."""
        known = len(self.chunks)
        self._fold_payload(payload, event.offset + len(event.data))
        if self.has_callback:
            self._last = (event, self.chunks[known:])
            if self.stop is None:
                self.notify_callback()

    def notify_callback(self) -> None:
        """Notify the callback of the last event; of the one that ended the stream once it is known how it ended."""
        callback = self._options.on_server_sent_event
        if self._last is not None and callback is not None:
            last, self._last = self._last, None
            callback(*last)

    def end(self, stop: Stop, error: ChunkfoldError | None = None) -> None:
        """End the stream, and add the chunks that were held back."""
        self.stop, self.error = stop, error
        self._flush()
        limit = self._output_limit
        if error is None and stop not in (Stop.REFUSED, Stop.LEFT) and limit.is_exceeded(self._log.offset):
            self.stop, self.error = Stop.INVALID, exceeded("max_output_size", limit.most)

    def _add_if_only_chunk(self, chunk: ChatCompletionChunk) -> bool:
        """Fold an unusual chunk, for a fifth less than `_fold_event`; return False if it may be more than a chunk."""
        if not is_only_chunk(chunk):
            return False
        if self._merger is None:
            self.chunks.append(self._fold.add_unusual(chunk))
        else:
            self._merger.merge(chunk)  # which may make it usual
            self.chunks.append(self._fold.add(chunk))
        return True

    def _fold_payload(self, payload: Payload, end: int) -> None:
        """Merge, join, transform and fold the chunks of a payload, whose data ends there; or end with its error."""
        self._log.note_all(payload.notes)
        if payload.chunks:
            if self._merger is not None:
                for chunk in payload.chunks:
                    self._merger.merge(chunk)
            is_split = any(rule is anomalies.SPLIT_SURROGATES for rule, _ in payload.notes)
            if is_split or self._joiner.is_needed or self._options.transforms:
                for chunk in payload.chunks:
                    self._joiner.join(chunk, is_split=is_split)
                self._is_direct = not (self._sees_all or self._joiner.is_needed)
            keep_alives = sum(map(is_keep_alive, payload.chunks))
            self.keep_alives += keep_alives
            self.has_progress |= keep_alives < len(payload.chunks)
            self._has_chunks = True
            self.chunks += map(self._fold.add, _transformed(payload.chunks, self._options.transforms))
        if payload.error is not None:
            self._fail(payload.error)
        else:
            self._check_limits(end)
        if payload.done and self.stop is None:
            self.end(Stop.DONE)

    def _check_limits(self, end: int) -> None:
        """After data that ends here: join texts, check the output limit, and whether strict mode refuses an anomaly."""
        self._fold.compact()
        if self._output_limit.is_exceeded(end):
            self._fail(exceeded("max_output_size", self._output_limit.most))
        elif self._log.refused is not None:
            self.end(Stop.REFUSED)

    def _flush(self) -> None:
        """Add the last chunks: what was held back, and what whole messages add to the deltas."""
        transforms = self._options.transforms
        last_chunks = _transformed(self._joiner.flush(), transforms)
        for place, transform in enumerate(transforms, 1):
            last_chunks += _transformed(_chunks_from(transform, transform.close()), transforms[place:])
        self.chunks += last_chunks
        self.chunks += self._fold.finish(last_chunks)

    def _fail(self, error: ChunkfoldError) -> None:
        """End the stream with a provider's error, or with that of an invalid event or a limit."""
        self.end(Stop.ERROR if isinstance(error, APIError) else Stop.INVALID, error)


def _transformed(chunks: list[ChatCompletionChunk], transforms: Sequence[Transform]) -> list[ChatCompletionChunk]:
    for transform in transforms:
        chunks = [new for chunk in chunks for new in _chunks_from(transform, transform.feed(chunk))]
    return chunks


def _chunks_from(transform: Transform, returned: Any) -> list[ChatCompletionChunk]:
    """What a transform returned, if that is chunks, as its protocol promises."""
    items: list[Any] = list(returned) if hasattr(returned, "__iter__") else [returned]
    if not all(isinstance(item, ChatCompletionChunk) for item in items):
        raise TypeError(f"{type(transform).__name__}: expected a list of chunks, received {excerpt(returned)}")
    return items
