"""Read the body of a response whose status is 2xx: bytes into events, and other bodies into an error or a completion.

Leniency is decided here: the decoder follows the standard and only exposes what it discards.
"""

from bisect import bisect
from operator import attrgetter
from typing import Final, Unpack

from chunkfold.anomalies import ERROR_EVENT, ERROR_FIELD, NEARLY_DATA, UNFINISHED_BLOCK
from chunkfold.event_stream import BOM, EventStreamDecoder, ServerSentEvent, UnfinishedBlock
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models import ChatCompletionChunk
from chunkfold.parser.endings import Stop, not_an_event_stream
from chunkfold.parser.event_intake import EventIntake, EventOptions
from chunkfold.parser.limits import has_more_items
from chunkfold.wire.payload import is_json, is_meant, parse_body, parse_slowly, valid_chunk, whole_part

_FIELD_NAMES: Final = (b"data", b"event", b"id", b"retry", b"error")
_LONG: Final = 2048  # bytes; what is shorter is one event, or few

_offset = attrgetter("offset")


class StreamedBody(EventIntake):
    """Read the body of one stream.

    Args:
        fold: Where chunks are folded; what is tolerated is noted in its log.
        max_event_size: The parser's option.
        response: The status and the content type, for an error message.
        options: See `EventOptions`.
    """

    def __init__(
        self,
        fold: StreamFold,
        *,
        max_event_size: int | None,
        response: tuple[int | None, str | None],
        **options: Unpack[EventOptions],
    ) -> None:
        super().__init__(fold, **options)
        self._max_event_size = max_event_size
        self._largest = self._large if max_event_size is None else min(self._large, max_event_size)
        self._short = min(_LONG, self._largest)
        self._response = response
        self._decoder = EventStreamDecoder(max_event_size)

    def take(
        self, data: bytes | bytearray | memoryview, seconds: float = 0.0, *, folding: bool = False
    ) -> list[ChatCompletionChunk]:
        """Take the next bytes; return the chunks they complete, or at least those that had to be made.

        Args:
            data: The bytes.
            seconds: How long after the request they arrived; not used for this kind of body.
            folding: Whether to make chunks only where the bytes cannot be folded without them.
        """
        del seconds
        chunks: list[ChatCompletionChunk] = []
        decoder, made, look_at = self._decoder, None if folding else chunks, self._output_limit.look_at
        if decoder.is_between and self._is_direct and type(data) is bytes:
            if len(data) > self._short:
                data = self._without_run(data, made)
            elif decoder.offset + len(data) < look_at and self._template.take_block(data, decoder.offset, made):
                decoder.offset += len(data)
                return chunks
        events = decoder.feed(data)
        if decoder.is_plain:
            if events:
                self._take_events(events, chunks, folding=folding)
            return chunks
        self._take_exposed(events, chunks, folding=folding)
        if decoder.limit_exceeded and self.stop is None:
            self._exceed("max_event_size", self._max_event_size, chunks)
        return chunks

    def _without_run(self, data: bytes, chunks: list[ChatCompletionChunk] | None) -> bytes:
        """Take the events at the start of the data at once, if they are like the one before; return the rest."""
        decoder = self._decoder
        known = data[: max(0, self._output_limit.look_at - decoder.offset)]
        size = self._template.take_run(known, decoder.offset, chunks, self._largest)
        decoder.offset += size
        return data[size:]

    def skip(self, data: bytes) -> None:
        """Let bytes pass unread, so that what follows them is not misread."""
        self._decoder.feed(data)

    def take_rest(self, chunks: list[ChatCompletionChunk], exc: BaseException | None = None) -> None:
        """The body has no more bytes: handle an unfinished block, and a body that is not an event stream.

        Args:
            chunks: The chunks are appended to it.
            exc: What the transport raised, None where the body ended.
        """
        self._decoder.close()
        self._take_exposed([], chunks)
        if self.stop is None and self._decoder.unfinished is not None:
            self._take_unfinished(self._decoder.unfinished, chunks)
        body = self._decoder.preamble
        if self.stop is None and body is not None:
            self._take_other_body(body.strip(), chunks, cut=exc is not None)

    def _take_exposed(
        self, events: list[ServerSentEvent], chunks: list[ChatCompletionChunk], *, folding: bool = False
    ) -> None:
        """Take the events, and in between what the decoder exposes besides them, in the order of the body."""
        decoder = self._decoder
        if decoder.opening:
            self._take_opening(decoder.opening, chunks)
        begin = 0
        for aside in sorted([*decoder.nearly_data, *decoder.error_fields], key=_offset):
            end = bisect(events, aside.offset, begin, key=_offset)
            if self.stop is None:
                self._take_events(events[begin:end], chunks, folding=folding)
            if self.stop is None:
                self._take_exposed_field(aside, chunks)
            begin = end
        if self.stop is None:
            self._take_events(events[begin:], chunks, folding=folding)

    def _take_exposed_field(self, field: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        """An `error` field, an error as bare JSON, or a line that is nearly `data`."""
        if field.event == "error":
            if self._is_error_field(field):
                self._take_error_field(field, chunks)
        elif len(field.data) <= self._large and is_meant(field.data):
            self._log.offset = field.offset
            self._log.note(NEARLY_DATA)
            self._check_guards(field.offset, chunks)

    def _take_opening(self, opening: bytes, chunks: list[ChatCompletionChunk]) -> None:
        """A completion, or an error, before the first line of an event stream: relays add a `[DONE]` to it."""
        if self._has_too_many_items(opening, chunks):
            return
        payload = parse_body(opening.strip(), is_opening=True)
        if payload is not None:
            self._output_limit.objects += opening.count(b"{")
            self._absorb(payload, len(opening), chunks)

    def _take_unfinished(self, block: UnfinishedBlock, chunks: list[ChatCompletionChunk]) -> None:
        """Handle the block that is unfinished at the end of the body: take its complete part, and drop the rest."""
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
            self._output_limit.objects += event.data.count(b"{")
            self._take(event, valid_chunk(event), chunks)

    def _is_error_field(self, field: ServerSentEvent) -> bool:
        """Whether the value of an `error` field is an error: JSON other than `null` and `false`.

        JSON with too many values counts as an error without being read.
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
        self._absorb(payload, event.offset + len(event.data), chunks)

    def _take_other_body(self, body: bytes, chunks: list[ChatCompletionChunk], *, cut: bool) -> None:
        """A body in which nothing belongs to an event stream: an error, a whole completion, or something else."""
        if any(name.startswith(body) for name in (*_FIELD_NAMES, BOM)):
            return  # nothing, or only the beginning of an event stream
        if body[:1] in (b"{", b"[") and self._has_too_many_items(body, chunks):
            return
        payload = parse_body(body)
        if payload is not None:
            self._output_limit.objects += body.count(b"{")
            self._absorb(payload, len(body), chunks)
            if self.stop is None:
                self.end(Stop.WHOLE_BODY, chunks)
        elif not (cut and body[:1] in (b"{", b"[")):
            self._fail(not_an_event_stream(body, *self._response), chunks)
