"""Pass events through their payloads into the fold.

The payload decides what an event is. This module decides what happens to it in which order: limits, repairs, merged
choices, joined halves of characters, transforms, the fold, observers. Leniency is decided here: the decoder follows the
standard and only exposes what it discards.
"""

from bisect import bisect
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from chunkfold.anomalies import (
    ERROR_EVENT,
    ERROR_FIELD,
    NEARLY_DATA,
    SPLIT_SURROGATES,
    UNFINISHED_BLOCK,
)
from chunkfold.errors import (
    APIError,
    ChunkfoldError,
    exceeded,
)
from chunkfold.event_stream import MESSAGE, EventStreamDecoder, ServerSentEvent, UnfinishedBlock
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models import ChatCompletionChunk
from chunkfold.parser.choice_merger import merger_for
from chunkfold.parser.endings import (
    Stop,
    not_an_event_stream,
)
from chunkfold.parser.limits import (
    OutputLimit,
    has_more_items,
)
from chunkfold.parser.options import OnServerSentEvent
from chunkfold.parser.surrogate_joiner import SurrogateJoiner
from chunkfold.parser.template import EventTemplate
from chunkfold.wire.parts import MAX_EVENT_PARTS
from chunkfold.wire.payload import (
    Payload,
    is_json,
    is_meant,
    is_plain,
    parse_body,
    parse_slowly,
    valid_chunk,
    validate_json,
    whole_part,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chunkfold.transforms import Transform

_FIELD_NAMES: Final = (b"data", b"event", b"id", b"retry", b"error")
_LARGE: Final = 2 * MAX_EVENT_PARTS  # bytes; an event that has no more is below all limits on what it holds
_BOM: Final = b"\xef\xbb\xbf"

_offset = attrgetter("offset")


class Intake:
    """Take the events of one stream.

    Args:
        fold: Where chunks are folded; what is tolerated is noted in its log.
        is_strict: Whether strict mode refuses anything.
        response: The status and the content type, for an error message. The other options are the parser's.

    Attributes:
        stop: Why nothing more is taken, None as long as events are.
        error: The error that an event or a limit caused, if any.
        has_progress: Whether chunks came, which a transform may have kept. The reader of this flag resets it.
        foreign: The place and the start of the first event that does not belong to a stream of chunks.
    """

    def __init__(
        self,
        fold: StreamFold,
        *,
        max_event_size: int | None,
        max_event_items: int | None,
        max_output_size: int | None,
        on_server_sent_event: OnServerSentEvent | None,
        transforms: "Sequence[Transform]",
        one_choice: bool,
        is_strict: bool,
        response: tuple[int | None, str | None],
    ) -> None:
        self.stop: Stop | None = None
        self.error: ChunkfoldError | None = None
        self.has_progress = False
        self.foreign: tuple[int, str] | None = None
        self._fold = fold
        self._log = fold.log
        self._max_event_size = max_event_size
        self._max_event_items = max_event_items
        self._large = _LARGE if max_event_items is None else min(_LARGE, max_event_items)
        self._on_server_sent_event = on_server_sent_event
        self._last: tuple[ServerSentEvent, list[ChatCompletionChunk]] | None = None  # the event that ended the stream
        self._transforms = tuple(transforms)
        self._response = response
        self._is_watched = is_strict or on_server_sent_event is not None or bool(transforms)
        self._is_unwatched = not self._is_watched
        self._decoder = EventStreamDecoder(max_event_size)
        self._merger = merger_for(fold, transforms) if one_choice else None
        self._output_limit = OutputLimit(max_output_size, fold)
        self._template: EventTemplate | None = None
        # Transforms can change calls, so fragments cannot be routed before; but then all chunks pass through them.
        self._joiner = SurrogateJoiner(None if transforms else fold.call_router)

    def take(
        self, data: bytes | bytearray | memoryview, seconds: float = 0.0, *, folding: bool = False
    ) -> list[ChatCompletionChunk]:
        """Take the next bytes; return the chunks they complete, or at least those that had to be made.

        Args:
            data: The bytes.
            seconds: How long after the request they came, which is nothing to this kind of body.
            folding: Whether chunks are wanted only where there is no other way.
        """
        del seconds
        chunks: list[ChatCompletionChunk] = []
        if folding and self._template is None and self._is_unwatched:
            self._template = EventTemplate(self._fold)
        template = self._template if folding else None
        decoder = self._decoder
        events = decoder.feed(data)
        if decoder.error_fields or decoder.nearly_data or decoder.opening:
            self._take_asides(events, chunks, template)
        else:
            self._take_events(events, chunks, template)
        if decoder.limit_exceeded and self.stop is None:
            self._exceed("max_event_size", self._max_event_size, chunks)
        return chunks

    def lose(self, data: bytes) -> None:
        """Let bytes go by, so that what follows them is not misread."""
        self._decoder.feed(data)

    def take_rest(self, chunks: list[ChatCompletionChunk], exc: BaseException | None = None) -> None:
        """The body has no more bytes: handle an unfinished block, and a body that is not an event stream.

        Args:
            chunks: Where the chunks go.
            exc: What the transport raised, None where the body ended.
        """
        self._decoder.close()
        self._take_asides([], chunks)
        if self.stop is None and self._decoder.unfinished is not None:
            self._take_unfinished(self._decoder.unfinished, chunks)
        body = self._decoder.preamble
        if self.stop is None and body is not None:
            self._take_foreign_body(body.strip(), chunks, cut=exc is not None)

    def end(self, stop: Stop, chunks: list[ChatCompletionChunk], error: ChunkfoldError | None = None) -> None:
        """Take nothing more: return what was held back.

        Args:
            stop: Why.
            chunks: Where last chunks go.
            error: What is wrong, if something is.
        """
        self.stop, self.error = stop, error
        self._flush(chunks)
        limit = self._output_limit
        if error is None and stop not in (Stop.REFUSED, Stop.LEFT) and limit.is_passed(self._log.offset):
            self.stop, self.error = Stop.INVALID, exceeded("max_output_size", limit.most or 0)

    def _take_asides(
        self, events: list[ServerSentEvent], chunks: list[ChatCompletionChunk], template: EventTemplate | None = None
    ) -> None:
        """Take the events with what the decoder only shows beside them, each in its place."""
        decoder = self._decoder
        if decoder.opening:
            self._take_opening(decoder.opening, chunks)
        begin = 0
        for aside in sorted([*decoder.nearly_data, *decoder.error_fields], key=_offset):
            end = bisect(events, aside.offset, begin, key=_offset)
            if self.stop is None:
                self._take_events(events[begin:end], chunks, template)
            if self.stop is None:
                self._take_aside(aside, chunks)
            begin = end
        if self.stop is None:
            self._take_events(events[begin:], chunks, template)

    def _take_aside(self, field: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        """An `error` field, an error as bare JSON, or a line that is nearly `data`."""
        if field.event == "error":
            if self._is_error_field(field):
                self._take_error_field(field, chunks)
        elif len(field.data) <= self._large and is_meant(field.data):
            self._log.offset = field.offset
            self._log.note(NEARLY_DATA)
            self._check_guards(chunks)

    def _take_opening(self, opening: bytes, chunks: list[ChatCompletionChunk]) -> None:
        """A completion, or an error, before the first line of an event stream: relays add a `[DONE]` to it."""
        if self._has_too_many_items(opening, chunks):
            return
        payload = parse_body(opening.strip(), is_opening=True)
        if payload is not None:
            self._output_limit.take(opening)
            self._absorb(payload, chunks)

    def _take_events(  # noqa: C901 - the loop of every event, in which one more call can be measured
        self, events: list[ServerSentEvent], chunks: list[ChatCompletionChunk], template: EventTemplate | None = None
    ) -> None:
        """Each event in the fastest way that is right for it; up to the one that ends the stream."""
        fold, output_limit, log, large = self._fold, self._output_limit, self._log, self._large
        for event in events:
            log.offset = offset = event.offset
            data = event.data
            if len(data) > large:
                self._take_large(event, chunks)
                if self.stop is not None:
                    return
            elif template is None or not self._is_unwatched or not template.take(event):
                try:
                    chunk = validate_json(data) if event.event == MESSAGE else None
                except ValidationError:
                    chunk = None
                added = fold.add(chunk, self._admit) if chunk is not None and self._is_unwatched else None
                if added is not None:
                    chunks.append(added)
                else:
                    self._take(event, chunk, chunks)
                    if self.stop is not None:
                        return
            if fold.keeps_more:
                fold.keeps_more = False
                output_limit.take(data)
            if offset >= output_limit.look_at:
                fold.compact()
                self._check_guards(chunks)
                if self.stop is not None:
                    return

    def _take_large(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        """An event that could have too many values, which are counted before they are made."""
        if not self._has_too_many_items(event.data, chunks):
            self._take(event, valid_chunk(event), chunks)

    def _has_too_many_items(self, data: bytes, chunks: list[ChatCompletionChunk]) -> bool:
        """Whether an event has more values than are allowed; then the stream is over, before they are made."""
        most = self._max_event_items
        if most is None or not has_more_items(data, most):
            return False
        self._exceed("max_event_items", most, chunks)
        return True

    def _take(
        self, event: ServerSentEvent, chunk: ChatCompletionChunk | None, chunks: list[ChatCompletionChunk]
    ) -> None:
        """Take an event that is more than the next piece of text, or that is observed.

        Args:
            event: The event.
            chunk: The event as a chunk, None if it is not valid.
            chunks: Where the chunks go.
        """
        known = len(chunks)
        self._output_limit.take(event.data)
        if chunk is not None and not is_plain(chunk):
            chunk = None  # it may be large, and is read again
        payload = parse_slowly(event) if chunk is None else Payload([chunk])
        if payload.foreign and self.foreign is None:
            self.foreign = (event.offset, payload.foreign)
        self._absorb(payload, chunks)
        if self._on_server_sent_event is None:
            return
        if self.stop is None:
            self._on_server_sent_event(event, chunks[known:])
        else:
            self._last = (event, chunks[known:])

    def tell_last(self) -> None:
        """Notify observers of the event that ended the stream; to be called when it is known how it ended."""
        if self._last is not None and self._on_server_sent_event is not None:
            last, self._last = self._last, None
            self._on_server_sent_event(*last)

    def _admit(self, chunk: ChatCompletionChunk) -> bool:
        """Whether an unusual chunk is a chunk and nothing else; then its choices are merged."""
        if not is_plain(chunk):
            return False
        if self._merger is not None:
            self._merger.merge(chunk)
        return True

    def _absorb(self, payload: Payload, chunks: list[ChatCompletionChunk]) -> None:
        """Process the payload of an event: merge choices, join halves of characters, transform, fold."""
        self._log.note_all(payload.notes)
        if self._merger is not None:
            for chunk in payload.chunks:
                self._merger.merge(chunk)
        is_split = any(rule is SPLIT_SURROGATES for rule, _ in payload.notes)
        if is_split or self._joiner.is_needed:
            payload.chunks = [self._joiner.join(chunk, is_split=is_split) for chunk in payload.chunks]
            self._is_unwatched = not (self._is_watched or self._joiner.is_needed)
        self.has_progress |= bool(payload.chunks)
        chunks += map(self._fold.add, self._transformed(payload.chunks, self._transforms))
        if payload.error is not None:
            self._fail(payload.error, chunks)
        else:
            self._check_guards(chunks)
        if payload.done and self.stop is None:
            self.end(Stop.DONE, chunks)

    def _transformed(
        self, chunks: list[ChatCompletionChunk], transforms: "Sequence[Transform]"
    ) -> list[ChatCompletionChunk]:
        for transform in transforms:
            chunks = [new for chunk in chunks for new in transform.feed(chunk)]
        return chunks

    def _check_guards(self, chunks: list[ChatCompletionChunk]) -> None:
        """The output limit, and strict mode."""
        self._fold.keeps_more = False
        if self._output_limit.is_passed(self._log.offset):
            self._exceed("max_output_size", self._output_limit.most, chunks)
        elif self._log.refused is not None:
            self.end(Stop.REFUSED, chunks)

    def _take_unfinished(self, block: UnfinishedBlock, chunks: list[ChatCompletionChunk]) -> None:
        """What stood open at the end of the body: dispatch what is whole, drop a mere beginning."""
        if block.event is None:
            if block.error is not None and self._is_error_field(block.error):
                self._take_error_field(block.error, chunks)
            return
        if self._has_too_many_items(block.event.data, chunks):
            return
        event = whole_part(block.event, data_terminated=block.data_terminated)
        if event is not None or self._fold.all_finished:
            self._log.offset = block.event.offset
            self._log.note(UNFINISHED_BLOCK, "dropped" if event is None else "read")
        if event is not None:
            self._take(event, valid_chunk(event), chunks)

    def _is_error_field(self, field: ServerSentEvent) -> bool:
        """Whether the value of an `error` field is an error: JSON, and not one that means there is none.

        What has too many values counts as one, unread.
        """
        if self._max_event_items is not None and has_more_items(field.data, self._max_event_items):
            return True
        return field.data.strip() not in (b"null", b"false") and is_json(field.data)

    def _take_error_field(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        self._log.offset = event.offset
        if self._has_too_many_items(event.data, chunks):
            return
        payload = parse_slowly(event)
        payload.notes = [(ERROR_FIELD if rule is ERROR_EVENT else rule, detail) for rule, detail in payload.notes]
        self._absorb(payload, chunks)

    def _take_foreign_body(self, body: bytes, chunks: list[ChatCompletionChunk], *, cut: bool) -> None:
        """A body in which nothing belongs to an event stream: an error, a whole completion, or something else."""
        if any(name.startswith(body) for name in (*_FIELD_NAMES, _BOM)):
            return  # nothing, or the mere beginning of a stream
        if body[:1] in (b"{", b"[") and self._has_too_many_items(body, chunks):
            return
        payload = parse_body(body)
        self._output_limit.take(body)
        if payload is not None:
            self._absorb(payload, chunks)
            if self.stop is None:
                self.end(Stop.WHOLE_BODY, chunks)
        elif not (cut and body[:1] in (b"{", b"[")):
            self._fail(not_an_event_stream(body, *self._response), chunks)

    def _flush(self, chunks: list[ChatCompletionChunk]) -> None:
        """Return what was held back: halves of characters, and what whole messages add to the deltas."""
        held = self._joiner.flush()
        last_chunks = self._transformed([held] if held is not None else [], self._transforms)
        for place, transform in enumerate(self._transforms, 1):
            last_chunks += self._transformed(transform.close(), self._transforms[place:])
        chunks += last_chunks
        rest = self._fold.finish(last_chunks)
        if rest is not None:
            chunks.append(rest)

    def _exceed(self, limit: str, value: int | None, chunks: list[ChatCompletionChunk]) -> None:
        self._fail(exceeded(limit, value or 0), chunks)

    def _fail(self, error: ChunkfoldError, chunks: list[ChatCompletionChunk]) -> None:
        """A provider's error, an invalid event, a limit: they hold whatever came before them."""
        self.end(Stop.ERROR if isinstance(error, APIError) else Stop.INVALID, chunks, error)
