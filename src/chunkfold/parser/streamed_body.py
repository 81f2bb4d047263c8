"""Read the body of a response whose status is 2xx: bytes into events, which are folded.

The decoder follows the standard and only exposes what it discards; leniency is decided here: bare JSON before the
first event, lines that are nearly `data`, `error` fields, an unfinished block, and a body of another kind.
"""

from bisect import bisect_left
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.errors import ChunkfoldError, InvalidChunkError, exceeded
from chunkfold.event_stream.decoder import EventStreamDecoder
from chunkfold.event_stream.server_sent_event import BOM, MESSAGE, ServerSentEvent, UnfinishedBlock
from chunkfold.excerpts import excerpt_of
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser.endings import Stop, not_an_event_stream
from chunkfold.parser.event_folder import EventFolder
from chunkfold.parser.options import BodyOptions
from chunkfold.wire import raw_data
from chunkfold.wire.bodies import MAX_ERROR_BODY, opening_error, parse_body
from chunkfold.wire.payload import Payload, parse_slowly, take_object

_BEGINNINGS: Final = (b"data", b"event", b"id", b"retry", b"error", BOM)  # of an event stream
_UNEXPLAINED: Final = frozenset({Stop.DONE, Stop.BODY_ENDED, Stop.TRANSPORT})  # a body without a chunk
_LONG: Final = 2048  # bytes; what is shorter is one event, or few

_offset = attrgetter("offset")


class StreamedBody(EventFolder):
    """Read the body of one stream, given as bytes."""

    def __init__(self, fold: StreamFold, options: BodyOptions) -> None:
        super().__init__(fold, options)
        most = options.max_event_size
        self._largest = self._large if most is None else min(self._large, most)
        self._short = min(_LONG, self._largest)
        self._decoder = EventStreamDecoder(most)
        self._opening: ServerSentEvent | None = None  # text before the first event that is not read yet

    def feed(self, data: bytes, *, folding: bool) -> None:
        """Take the next bytes and make the chunks they complete, if `folding` only those that folding needs."""
        decoder, template, offset = self._decoder, self._template, self._decoder.offset
        chunks = None if folding else self.chunks
        if decoder.is_between and self._is_direct:
            if len(data) > self._short:  # the events at its start may be like the one before
                known = data[: max(0, self._output_limit.check_from - offset)]
                size = template.fold_run(known, offset, self._largest, chunks)
                decoder.offset += size
                data = data[size:]
            elif offset + len(data) < self._output_limit.check_from and template.fold_block(data, offset, chunks):
                decoder.offset += len(data)
                return
        events = decoder.feed(data)
        if decoder.has_only_events:
            if events:
                self._fold_events(events, folding=folding)
            return
        self._read_exposed(events, folding=folding)
        if decoder.limit_exceeded and self.stop is None:
            self._fail(exceeded("max_event_size", decoder.limit))

    def close(self, exc: BaseException | None = None) -> None:
        """The body ended, or the transport raised: read an unfinished block, and a body that is not an event stream."""
        self._check_line_ends()
        self._decoder.close()
        self._read_start()
        self._read_last_block()
        body = self._decoder.preamble
        self._decoder = EventStreamDecoder()  # the old one keeps another copy of the body
        if body is not None:
            body = body.strip()  # in place of the larger one
            self._read_other_body(body, cut=exc is not None)

    def end(self, stop: Stop, error: ChunkfoldError | None = None) -> None:
        """End the stream. If no chunk came, an error in any shape that it began with is why; other JSON is quoted."""
        opening, self._opening = self._opening, None
        may_be_why = stop in _UNEXPLAINED and not (self._fold.chunks or self._has_chunks)
        if opening is not None and may_be_why:
            self._log.offset = opening.offset
            if (payload := opening_error(opening.data)) is not None:
                self._fold_payload(payload, opening.offset)
                return
            if raw_data.is_payload(opening.data) and not raw_data.is_chunk_or_done(opening.data):
                self._log.note(anomalies.UNEXPLAINED_OBJECT, excerpt_of(opening.data.strip()))
        super().end(stop, error)

    def _read_exposed(self, events: list[ServerSentEvent], *, folding: bool) -> None:
        """Fold the events, and read in between what the decoder exposes besides them, in the order of the body."""
        begin = 0
        for place, discarded in enumerate((*self._decoder.discarded, None)):
            if place == self._decoder.opening_place:
                self._read_start()
            end = len(events) if discarded is None else bisect_left(events, discarded.offset, begin, key=_offset)
            has_error = discarded is not None and end < len(events) and events[end].offset == discarded.offset
            beside = events[end] if has_error else None
            if self.stop is None:
                self._fold_events(events[begin:end], folding=folding)
            if self.stop is None and discarded is not None:
                self._read_discarded(discarded, beside)
            begin = end + (beside is not None)

    def _check_line_ends(self) -> None:
        """End the stream if its body lost its line ends: a comment or another field has data on the same line."""
        line = self._decoder.preamble or b""
        data = raw_data.data_beside_comment(line)
        if self._size_error(data) is not None:
            return
        is_several = not line.endswith(data) and raw_data.is_payload(data)
        if is_several or raw_data.is_chunk_or_done(data) or raw_data.is_error(data, is_framed=True):
            self._fail(InvalidChunkError(f"{raw_data.LINE_ENDS_LOST}: {excerpt_of(line)}", position=0))

    def _read_start(self) -> None:
        """Read what the body has before the first line of an event stream."""
        opening, limit = self._decoder.opening, self._decoder.opening_limit
        if not opening or self.stop is not None:
            return
        if limit is not None:
            if raw_data.begins_like_json(opening):
                self._fail(exceeded("max_event_size", limit))
        elif not self._read_opening(opening):
            self._read_bare_lines(opening)

    def _read_discarded(self, field: ServerSentEvent, beside: ServerSentEvent | None = None) -> None:
        """Read an `error` field, an error as bare JSON, or a line that is nearly `data`, such as other bare JSON.

        `beside` is the event of the same block, if that has data and an error.
        """
        self._log.offset = field.offset
        if field.event == "error":
            self._read_error_field(field, beside)
            return
        is_bare = not field.event
        if is_bare and not self._fold.chunks and self._read_opening(field.data):
            return  # after keep-alives
        payload = Payload()
        fields = raw_data.object_in(field.data, payload.notes) if self._size_error(field.data) is None else None
        if fields is None and not raw_data.is_done(field.data):
            if is_bare or raw_data.begins_like_object(field.data):
                self._note_unexplained(field)
        elif is_bare and fields is not None and raw_data.is_error_object(fields):
            self._read_error_field(field._replace(event="error"))
        elif is_bare and (fields is None or raw_data.is_chunk_object(fields)):
            self._log.note(anomalies.NEARLY_DATA)
            self._fold_bare(field._replace(event=MESSAGE), fields, payload)
        else:
            self._log.note(anomalies.NEARLY_DATA, excerpt_of(field.data))
            self._check_limits(field.offset)

    def _fold_bare(self, event: ServerSentEvent, fields: dict[str, Any] | None, payload: Payload) -> None:
        """Fold a `[DONE]` or, from the object that was read already, a chunk: reading a large one takes long."""
        if fields is None:
            self._fold_counted(event)
        else:
            self._output_limit.count(event.data)
            take_object(event, fields, payload)
            self._fold_and_notify(event, payload)

    def _note_unexplained(self, field: ServerSentEvent) -> None:
        """Note JSON that is broken or too large to read: a `[DONE]` after it does not replace a finish reason."""
        self._log.note(anomalies.UNEXPLAINED_OBJECT, excerpt_of(field.data))
        self._check_limits(field.offset)

    def _read_opening(self, opening: bytes) -> bool:
        """Read a completion, or an error, where an event stream should begin: relays add a `[DONE]` to it.

        Returns whether it is one, or has too many values to tell.
        """
        if self._is_too_large(opening):
            return True
        payload = parse_body(opening.strip(), is_opening=True)
        if payload is None:
            if self._opening is None and len(opening) <= MAX_ERROR_BODY:
                self._opening = ServerSentEvent(opening, offset=self._log.offset)
            return False
        self._output_limit.count(opening)
        self._fold_and_notify(ServerSentEvent(opening, offset=self._log.offset), payload)
        return True

    def _read_bare_lines(self, opening: bytes) -> None:
        """Read the chunks and errors among the first lines before an event stream: JSON without the field."""
        for line in islice(raw_data.lines_of(opening), raw_data.MAX_EVENT_PAYLOADS):
            if self.stop is None and (raw_data.is_chunk_or_done(line) or raw_data.is_error(line)):
                self._read_discarded(ServerSentEvent(line, event=""))

    def _read_last_block(self) -> None:
        """Read the block that is unfinished at the end of the body, its parts in the order of the body."""
        block = self._decoder.unfinished or UnfinishedBlock(None, None, data_terminated=False)
        for part in sorted((*self._decoder.discarded, *filter(None, (block.event or block.error,))), key=_offset):
            if self.stop is None and part is block.event:
                self._read_unfinished_event(part, block)
            elif self.stop is None:
                self._read_discarded(part)

    def _read_unfinished_event(self, event: ServerSentEvent, block: UnfinishedBlock) -> None:
        if self._is_too_large(event.data):
            return
        whole = raw_data.whole_part(event, data_terminated=block.data_terminated)
        if whole is None and not self._fold.all_finished and raw_data.has_lost_line_ends(event.data):
            whole = event  # which is invalid, and no cut
        if whole is not None or self._fold.all_finished:
            self._log.offset = event.offset
            self._log.note(anomalies.UNFINISHED_BLOCK, "dropped" if whole is None else "read")
        if whole is None and self._may_quote(event):
            self._note_unexplained(event)
        if block.error is not None:
            self._read_discarded(block.error, whole)
        elif whole is not None:
            self._fold_counted(whole)

    def _may_quote(self, cut: ServerSentEvent) -> bool:
        """Whether an event that was cut off is an error to quote. Strict mode would refuse it, although it is a cut."""
        is_error = raw_data.is_broken_error(cut.data) or (cut.event == "error" and bool(cut.data.strip()))
        return is_error and anomalies.UNEXPLAINED_OBJECT.id not in self._log.refused_ids

    def _read_error_field(self, event: ServerSentEvent, beside: ServerSentEvent | None = None) -> None:
        """Read comments or the value of a field as an error, if they are one, and before it the event beside it."""
        is_comment = event.data.startswith(b":")
        data = raw_data.error_comment(event.data) if is_comment else event.data
        if beside is not None:
            if not (self._size_error(beside.data) or self._size_error(data)) and raw_data.is_error_field(data):
                self._fold_and_notify(beside, _with_error(beside, _error_of(event)))
                return
            self._fold_counted(beside)
        if self.stop is not None or self._is_too_large(data):
            return
        if not (data if is_comment else raw_data.is_error_field(data)):
            if raw_data.is_broken_error(event.data):
                self._note_unexplained(event)
            return
        payload = parse_slowly(event._replace(data=data)) if is_comment else _error_of(event)
        self._fold_payload(payload, event.offset + len(event.data))

    def _read_other_body(self, body: bytes, *, cut: bool) -> None:
        """Read a body in which nothing belongs to an event stream: an error, a whole completion, or something else."""
        if any(beginning.startswith(body) for beginning in _BEGINNINGS):
            return  # nothing, or less than a field's name
        may_be_json = raw_data.begins_like_json(body)
        if may_be_json and self._is_too_large(body):
            return
        payload = parse_body(body)
        if payload is not None:
            self._output_limit.count(body)
            self._fold_payload(payload, len(body))
            if self.stop is None and not cut:
                self.end(Stop.WHOLE_BODY)
        elif not (cut and may_be_json):
            self._fail(not_an_event_stream(body, self._options.status_code, self._options.headers))


def _error_of(field: ServerSentEvent) -> Payload:
    """The error in a field or in bare JSON."""
    payload = parse_slowly(field)
    payload.notes = [
        (anomalies.ERROR_FIELD if rule is anomalies.ERROR_EVENT else rule, detail) for rule, detail in payload.notes
    ]
    return payload


def _with_error(event: ServerSentEvent, error: Payload) -> Payload:
    """An event and the error beside it, which no `[DONE]`, no cut chunk and no other invalid data hides."""
    rest = raw_data.whole_part(event._replace(data=raw_data.before_done(event.data)), data_terminated=False)
    payload = Payload() if rest is None else parse_slowly(rest)
    if payload.error is not None and not isinstance(payload.error, InvalidChunkError):
        return payload
    return Payload([*payload.chunks, *error.chunks], error.error, notes=[*payload.notes, *error.notes])
