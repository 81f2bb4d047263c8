"""One stream as one object without I/O: bytes in, chunks out, and at the end the word on how it ended.

`feed` never raises for what the peer sent: an error becomes state, so that what came before it is always delivered.
Leniency lives here: the decoder follows the standard, and only makes visible what the parser then judges.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from pydantic import ValidationError

from chunkfold.accumulator import ChatCompletionAccumulator
from chunkfold.anomalies import (
    DONE_MISSING,
    ERROR_EVENT,
    ERROR_FIELD,
    FINISH_MISSING,
    LATE_FAULT,
    SPLIT_SURROGATES,
    UNFINISHED_BLOCK,
    Anomaly,
    AnomalyLog,
)
from chunkfold.endings import StreamEnd, empty, exceeded, interrupted, not_an_event_stream, truncated
from chunkfold.envelopes import Headers, retry_after
from chunkfold.errors import (
    APIError,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidStreamError,
    StreamStalledError,
)
from chunkfold.event_stream import MESSAGE, SLICE, EventStreamDecoder, ServerSentEvent, UnfinishedBlock, slices
from chunkfold.limits import Deadlines, OutputLimit
from chunkfold.models import ChatCompletion, ChatCompletionChunk
from chunkfold.models.completion import ToolTypes
from chunkfold.payload import (
    Payload,
    is_json,
    is_plain,
    parse_body,
    parse_slowly,
    valid_chunk,
    validate_json,
    whole_part,
)
from chunkfold.refusal import Refusal
from chunkfold.shortcut import TextShortcut
from chunkfold.surrogates import SurrogateJoiner
from chunkfold.timing import StreamTiming

if TYPE_CHECKING:
    from chunkfold.event_recorder import EventRecorder
    from chunkfold.events import ChatCompletionEvent
    from chunkfold.observers import Observers
    from chunkfold.transforms import Transform

__all__ = ["ChatCompletionParser", "ParserOptions", "StreamEnd"]

DEFAULT_MAX_EVENT_SIZE: Final = 32 * 2**20
_FIELD_NAMES: Final = (b"data", b"event", b"id", b"retry", b"error")
_BOM: Final = b"\xef\xbb\xbf"

OnEvent = Callable[[ServerSentEvent, list[ChatCompletionChunk]], object]


class ParserOptions(TypedDict, total=False):
    """The options of `ChatCompletionParser`, which every front passes on; see there."""

    strict: bool
    max_event_size: int | None
    max_output_size: int | None
    progress_timeout: float | None
    total_timeout: float | None
    status_code: int | None
    headers: Mapping[str, str] | None
    on_event: OnEvent | None
    clock: Callable[[], float]
    transforms: "Sequence[Transform]"
    tools: ToolTypes | None
    started: float | None


class ChatCompletionParser:
    """Parse one streamed chat completion, fed in pieces of any size. It belongs to one task or thread.

    Args:
        strict: Turn the first anomaly into an `InvalidStreamError` that names its rule.
        max_event_size: The most bytes one event's data, and any one line, may have; None for no limit.
        max_output_size: The most characters of output; None for no limit. What else is kept (choices, calls, log
            probabilities, unknown fields) may be as much again, and 1 MiB more.
        progress_timeout: The most seconds from chunk to chunk while bytes arrive; None for no limit.
        total_timeout: The most seconds for the whole stream; None for no limit.
        status_code: The response's status, for error messages.
        headers: The response's headers, for `request_id`, `retry_after` and the content type in error messages.
        on_event: Called for every server-sent event with the chunks that came of it. What it raises passes through
            `feed` and costs the events of that read that were still to come.
        clock: Seconds from any fixed point; read once per `feed`.
        transforms: Opt-in transforms of the chunks, applied in this order before anything else sees them.
        tools: What the arguments of each tool are, by the tools' names: `{"lookup_weather": WeatherArgs}`. Pydantic
            models, TypedDicts and dataclasses; `function.parse()` and `ToolCallDone.parsed` give them.
        started: What the clock said when the request was sent; now, if not given. Timing and deadlines count from it.

    Attributes:
        end: How the stream ended, None while it runs.
        error: What went wrong, None if nothing did. Everything that came before it was delivered.
        timing: When things arrived.

    Raises:
        TypeError: Pydantic knows nothing to do with the type of a tool.
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        max_event_size: int | None = DEFAULT_MAX_EVENT_SIZE,
        max_output_size: int | None = None,
        progress_timeout: float | None = None,
        total_timeout: float | None = None,
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        clock: Callable[[], float] = time.monotonic,
        transforms: "Sequence[Transform]" = (),
        tools: ToolTypes | None = None,
        started: float | None = None,
    ) -> None:
        self.end: StreamEnd | None = None
        self.error: ChunkfoldError | None = None
        self.timing = StreamTiming()
        self._strict = strict
        self._max_event_size = max_event_size
        self._status_code = status_code
        self._headers = Headers(headers or {})
        self._on_event = on_event
        self._clock = clock
        self._is_watched = strict or max_output_size is not None or on_event is not None or bool(transforms)
        self._is_unwatched = not self._is_watched
        self._started = clock() if started is None else started
        self._deadlines = Deadlines(total_timeout, progress_timeout, self._started)
        self._has_deadline = self._deadlines.is_set
        self._log = AnomalyLog()
        self._decoder = EventStreamDecoder(max_event_size)
        self._accumulator = ChatCompletionAccumulator(self._log, tools)
        self._output_limit = OutputLimit(max_output_size, self._accumulator)
        self._recorder: EventRecorder | None = None
        self._observers: Observers | None = None
        self._shortcut: TextShortcut | None = None
        self._joiner = SurrogateJoiner()
        self._transforms = tuple(transforms)
        self._is_flushed = False
        self._has_progress = False
        self._final: ChatCompletion | None = None
        self._refusal: Refusal | None = None
        if status_code is not None and not 200 <= status_code <= 299:
            self._refusal = Refusal(status_code, self._headers, self._deadlines.shortest)

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far; readable at any time, costs as much as the output is long."""
        if self.end is None:
            return self._accumulator.snapshot
        if self._final is None:
            self._final = self._accumulator.snapshot
        return self._final

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What was tolerated: each rule once, with a count and the first place."""
        return self._log.entries()

    @property
    def request_id(self) -> str | None:
        """The response's `x-request-id`, None if it has none."""
        return self._headers.get("x-request-id")

    @property
    def elapsed(self) -> float:
        """How many seconds ago the request was sent, on the clock that `timing` has its times from."""
        return max(self._clock() - self._started, 0.0)

    @property
    def chunks(self) -> int:
        """How many chunks came."""
        return self._accumulator.chunks

    @property
    def emitted_output(self) -> bool:
        """Whether output was handed out."""
        return self._accumulator.has_output

    def completion(self) -> ChatCompletion:
        """The final message.

        Raises:
            ChunkfoldError: The stream did not end well: `error`, or `IncompleteStreamError` while it runs or if it
                was left early.
        """
        self.raise_error()
        if self.end is None or not self.end.complete:
            what = "the stream still runs" if self.end is None else "the stream was left before it ended"
            raise self._with_context(IncompleteStreamError(f"no completion: {what}", end=self.end))
        return self.snapshot

    def events(self) -> "list[ChatCompletionEvent]":
        """What the bytes meant, as typed events: those since the last call, or since the beginning.

        Events are made from the first call on, and kept until the next one. A first call that comes late begins with
        all that has arrived, in as few events as possible.
        """
        if self._recorder is None:
            from chunkfold.event_recorder import EventRecorder  # only for those who want events

            self._recorder = EventRecorder(self._accumulator.tools)
            self._log.observe(self._recorder.on_anomaly)
            self._accumulator.observe(self._recorder)
            self._tell_end()
        return self._recorder.take()

    def observe(
        self,
        *,
        on_chunks: Callable[[Any, int], object] | None = None,
        on_end: Callable[[Any], object] | None = None,
        subject: object = None,
    ) -> None:
        """Have plain callables told what the stream does. What they raise is logged, and never reaches the reader.

        Args:
            on_chunks: Called as `on_chunks(parser, count)` after each call that brought chunks, with how many;
                `timing.last_chunk` says when. Of a large read, slice by slice.
            on_end: Called as `on_end(parser)` exactly once, as soon as `end` is set, in whichever way; at once if it
                is already.
            subject: What they are given in place of the parser, such as the stream that it belongs to. It is not kept
                alive.
        """
        if self._observers is None:
            from chunkfold.observers import Observers  # only for those who observe

            self._observers = Observers(self.chunks)
        self._observers.add(self if subject is None else subject, on_chunks, on_end)
        self._tell_observers()

    def raise_error(self) -> None:
        """Raise `error`, if there is one."""
        if self.error is not None:
            raise self.error

    def feed(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> list[ChatCompletionChunk]:
        """Take the next bytes of the body; return the chunks they complete. Without effect after the end.

        Args:
            data: The bytes.
            arrived: What the clock said when they came; what it says now, if not given.
        """
        if self.end is not None:
            return []
        now = self._clock() if arrived is None else arrived
        chunks = self._take_data(data, now, None)
        if self._has_deadline:
            self._check_time(now, chunks)
        if self._observers is not None:
            self._tell_observers()
        return chunks

    def feed_in_slices(self, data: bytes) -> Generator[list[ChatCompletionChunk]]:
        """Take a large read like `feed`, but a slice at a time: to hold many chunks at once costs more."""
        return self._take_slices(data, self._clock(), None)

    def fold(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> None:
        """Take the next bytes of the body like `feed`, without making the chunks: for those who want the end result.

        `end`, `error`, `snapshot`, `anomalies` and `events()` are the same as after `feed`. Text takes less than half
        the time.

        Args:
            data: The bytes.
            arrived: What the clock said when they came; what it says now, if not given.
        """
        if self.end is not None:
            return
        now = self._clock() if arrived is None else arrived
        if self._shortcut is None and self._is_unwatched:
            self._shortcut = TextShortcut(self._accumulator)
        if len(data) > SLICE and type(data) is bytes:
            for _ in self._take_slices(data, now, self._shortcut):
                pass
            return
        chunks = self._take_data(data, now, self._shortcut)
        if self._has_deadline:
            self._check_time(now, chunks)
        if self._observers is not None:
            self._tell_observers()

    def close(self) -> list[ChatCompletionChunk]:
        """The body ended. May return last chunks; `end` is set from here at the latest."""
        return self._end(None)

    def interrupt(self, exc: BaseException) -> list[ChatCompletionChunk]:
        """The transport raised. Like `close`, but the stream counts as interrupted where it is not complete."""
        return self._end(exc)

    def leave(self) -> None:
        """The consumer left. That is no error; the stream is finished if every choice has its finish reason."""
        if self.end is None:
            self._flush([])
            if self._accumulator.all_finished:
                self._complete(StreamEnd.FINISHED)
            else:
                self.end = StreamEnd.CLOSED
                self._tell_end()
            self._tell_observers()

    def _take_data(
        self, data: bytes | bytearray | memoryview, now: float, shortcut: TextShortcut | None
    ) -> list[ChatCompletionChunk]:
        chunks: list[ChatCompletionChunk] = []
        if self._refusal is not None:
            if self._refusal.feed(data, now - self._started):
                self._fail(self._refusal.error(), chunks)
            return chunks
        accumulator = self._accumulator
        known = accumulator.chunks
        self._take_events(self._decoder.feed(data), chunks, shortcut)
        has_chunks = bool(chunks) or accumulator.chunks > known
        if has_chunks or self._has_progress:  # a transform may have kept what came
            self._deadlines.last_progress = now
            self._has_progress = False
            accumulator.compact()
        self.timing.note(now - self._started, has_chunks, accumulator.output_size > 0)
        return chunks

    def _take_slices(
        self, data: bytes, now: float, shortcut: TextShortcut | None
    ) -> Generator[list[ChatCompletionChunk]]:
        pieces = iter(slices(data) if self._refusal is None else (data,))
        for piece in pieces:
            if self.end is not None:
                return
            try:
                chunks = self._take_data(piece, now, shortcut)
            except BaseException:  # a tap's: the read is lost, but what follows it must not be misread
                for lost in pieces:
                    self._decoder.feed(lost)
                raise
            self._tell_observers()
            yield chunks
        last: list[ChatCompletionChunk] = []
        if self._has_deadline:
            self._check_time(now, last)  # of the whole read: a chunk may be in its last slice
            self._tell_observers()
        yield last

    def _take_events(
        self, events: list[ServerSentEvent], chunks: list[ChatCompletionChunk], shortcut: TextShortcut | None = None
    ) -> None:
        decoder = self._decoder
        failure = next(filter(_is_error_field, decoder.error_fields), None) if decoder.error_fields else None
        for event in events:
            if failure is not None and event.offset > failure.offset:
                break
            self._log.offset = event.offset
            if shortcut is not None and self._is_unwatched and shortcut.take(event):
                continue
            try:
                chunk = validate_json(event.data) if event.event == MESSAGE else None
            except ValidationError:
                chunk = None
            if chunk is not None and self._is_unwatched and self._accumulator.add_usual(chunk):
                chunks.append(chunk)
            elif chunk is not None and self._is_unwatched and is_plain(chunk):
                self._accumulator.add(chunk)
                chunks.append(chunk)
            else:
                self._take(event, chunk, chunks)
                if self.end is not None:
                    return
        if failure is not None:
            self._take_error_field(failure, chunks)
        if decoder.limit_exceeded and self.end is None:
            self._exceed("max_event_size", self._max_event_size, chunks)

    def _take(
        self, event: ServerSentEvent, chunk: ChatCompletionChunk | None, chunks: list[ChatCompletionChunk]
    ) -> None:
        """Take an event that is more than the next piece of text, or that somebody watches.

        Args:
            event: The event.
            chunk: The event as a chunk, None if it is no valid one.
            chunks: Where the chunks go.
        """
        known = len(chunks)
        self._output_limit.take(len(event.data))
        self._absorb(Payload([chunk]) if chunk is not None and is_plain(chunk) else parse_slowly(event), chunks)
        if self._on_event is not None:
            self._on_event(event, chunks[known:])

    def _absorb(self, payload: Payload, chunks: list[ChatCompletionChunk]) -> None:
        """What came of an event: join halves of characters, transform, fold."""
        for rule, detail in payload.notes:
            self._log.note(rule, detail)
        if self._joiner.held or any(rule is SPLIT_SURROGATES for rule, _ in payload.notes):
            payload.chunks = [self._joiner.join(chunk) for chunk in payload.chunks]
            self._is_unwatched = not (self._is_watched or self._joiner.held)
        self._has_progress |= bool(payload.chunks)
        for chunk in self._transformed(payload.chunks, self._transforms):
            self._accumulator.add(chunk)
            chunks.append(chunk)
        if payload.error is not None:
            self._fail(payload.error, chunks)
        else:
            self._check_guards(chunks)
        if payload.done and self.end is None:
            self._conclude(chunks, done=True)

    def _transformed(
        self, chunks: list[ChatCompletionChunk], transforms: "Sequence[Transform]"
    ) -> list[ChatCompletionChunk]:
        for transform in transforms:
            chunks = [new for chunk in chunks for new in transform.feed(chunk)]
        return chunks

    def _check_guards(self, chunks: list[ChatCompletionChunk]) -> None:
        """The output limit, and strict mode."""
        if self._output_limit.is_passed:
            self._exceed("max_output_size", self._output_limit.most, chunks)
        elif self._strict and self._log:
            self._fail(self._strict_error(), chunks)

    def _end(self, exc: BaseException | None) -> list[ChatCompletionChunk]:
        if self.end is not None:
            return []
        chunks = self._end_of_body(exc)
        self._tell_observers()
        return chunks

    def _end_of_body(self, exc: BaseException | None) -> list[ChatCompletionChunk]:
        chunks: list[ChatCompletionChunk] = []
        if self._refusal is not None:
            self._fail(self._refusal.error(), chunks)
            return chunks
        self._decoder.close()
        self._take_events([], chunks)
        if self.end is None and self._decoder.unfinished is not None:
            self._take_unfinished(self._decoder.unfinished, chunks)
        body = self._decoder.preamble
        if self.end is None and body is not None:
            self._take_foreign_body(body.strip(), chunks, cut=exc is not None)
        if self.end is None:
            self._conclude(chunks, exc=exc)
        if chunks and self.timing.last_byte is not None:  # they came with the last bytes
            self.timing.note(self.timing.last_byte, True, self._accumulator.has_output)  # noqa: FBT003 - there are
        return chunks

    def _take_unfinished(self, block: UnfinishedBlock, chunks: list[ChatCompletionChunk]) -> None:
        """What stood open at the end of the body: dispatch what is whole, drop a mere beginning."""
        if block.event is None:
            if block.error is not None and _is_error_field(block.error):
                self._take_error_field(block.error, chunks)
            return
        event = whole_part(block.event, data_terminated=block.data_terminated)
        if event is not None or self._accumulator.all_finished:
            self._log.offset = block.event.offset
            self._log.note(UNFINISHED_BLOCK, "dropped" if event is None else "read")
        if event is not None:
            self._take(event, valid_chunk(event), chunks)

    def _take_error_field(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        self._log.offset = event.offset
        payload = parse_slowly(event)
        payload.notes = [(ERROR_FIELD if rule is ERROR_EVENT else rule, detail) for rule, detail in payload.notes]
        self._absorb(payload, chunks)

    def _take_foreign_body(self, body: bytes, chunks: list[ChatCompletionChunk], *, cut: bool) -> None:
        """A body in which nothing belongs to an event stream: an error, a whole completion, or something else."""
        if any(name.startswith(body) for name in (*_FIELD_NAMES, _BOM)):
            return  # nothing, or the mere beginning of a stream
        payload = parse_body(body)
        self._output_limit.take(len(body))
        if payload is not None:
            self._absorb(payload, chunks)
            if self.end is None:
                self._conclude(chunks, whole=True)
        elif not (cut and body[:1] in (b"{", b"[")):
            self._fail(not_an_event_stream(body, self._status_code, self._headers.get("content-type")), chunks)

    def _conclude(
        self,
        chunks: list[ChatCompletionChunk],
        *,
        done: bool = False,
        whole: bool = False,
        exc: BaseException | None = None,
    ) -> None:
        """The stream is over without an error of its own: say how.

        Args:
            chunks: Where last chunks go.
            done: `[DONE]` came.
            whole: The body was a whole completion, which knows no `[DONE]`.
            exc: What the transport raised.
        """
        self._flush(chunks)
        accumulator = self._accumulator
        if self._output_limit.is_passed:
            self._exceed("max_output_size", self._output_limit.most, chunks)
        elif accumulator.all_finished:
            if exc is not None:
                self._log.note(LATE_FAULT, type(exc).__name__)
            elif not done and not whole:
                self._log.note(DONE_MISSING)
            self._complete(StreamEnd.FINISHED, cause=exc)
        elif done and accumulator.has_output:
            self._log.note(FINISH_MISSING)
            self._complete(StreamEnd.DONE)
        elif exc is not None:
            self._set_error(interrupted(exc), StreamEnd.INTERRUPTED)
        elif accumulator.has_output:
            self._set_error(truncated(), StreamEnd.TRUNCATED)
        else:
            self._set_error(empty(done=done), StreamEnd.EMPTY)

    def _complete(self, end: StreamEnd, *, cause: BaseException | None = None) -> None:
        if self._strict and self._log:
            error = self._strict_error()
            error.__cause__ = cause
            self._set_error(error, StreamEnd.INVALID)
        else:
            self.end = end
            self._tell_end()

    def _tell_end(self) -> None:
        """What events there are at the end, if it has come."""
        if self._recorder is None or self.end is None:
            return
        if self.end.complete:
            self._recorder.complete()
        self._accumulator.tell_finishes(self._recorder)

    def _tell_observers(self) -> None:
        """Everything that they may look at is up to date."""
        if self._observers is not None:
            self._observers.tell(self.chunks, has_ended=self.end is not None)

    def _flush(self, chunks: list[ChatCompletionChunk]) -> None:
        """Hand out what was held back: halves of characters, and what whole messages add to the deltas."""
        if self._is_flushed:
            return
        self._is_flushed = True
        held = self._joiner.flush()
        last_chunks = self._transformed([held] if held is not None else [], self._transforms)
        for place, transform in enumerate(self._transforms, 1):
            last_chunks += self._transformed(transform.close(), self._transforms[place:])
        chunks += last_chunks
        rest = self._accumulator.finish(last_chunks)
        if rest is not None:
            chunks.append(rest)

    def _fail(self, error: ChunkfoldError, chunks: list[ChatCompletionChunk]) -> None:
        """A provider's error or an invalid event: they hold whatever came before them."""
        self._flush(chunks)
        if isinstance(error, APIError):
            error.request_id = error.request_id or self.request_id
            if error.retry_after is None:
                error.retry_after = retry_after(self._headers)
        self._set_error(error, StreamEnd.FAILED if isinstance(error, APIError) else StreamEnd.INVALID)

    def _set_error(self, error: ChunkfoldError, end: StreamEnd) -> None:
        if self._strict and self._log and end not in (StreamEnd.FAILED, StreamEnd.INVALID):
            strict_error = self._strict_error()
            strict_error.__cause__ = error.__cause__
            error, end = strict_error, StreamEnd.INVALID
        self.end = end
        self.error = self._with_context(error)
        self._tell_end()

    def _with_context(self, error: ChunkfoldError) -> ChunkfoldError:
        if self._strict and self._log and isinstance(error, InvalidStreamError) and error.rule is None:
            error.rule = self._log.entries()[0].rule
        error.snapshot = self.snapshot
        error.emitted_output = self._accumulator.has_output
        return error

    def _strict_error(self) -> InvalidStreamError:
        first = self._log.entries()[0]
        return InvalidStreamError(f"{first.rule} ({first.first})", rule=first.rule)

    def _exceed(self, limit: str, value: int | None, chunks: list[ChatCompletionChunk]) -> None:
        self._fail(exceeded(limit, value or 0), chunks)

    def _check_time(self, now: float, chunks: list[ChatCompletionChunk]) -> None:
        msg = self._deadlines.missed(now) if self.end is None else None
        if msg is None:
            return
        self._flush(chunks)
        if self._accumulator.all_finished:
            self._log.note(LATE_FAULT, msg)
            self._complete(StreamEnd.FINISHED)
        else:
            self._set_error(StreamStalledError(msg, end=StreamEnd.STALLED), StreamEnd.STALLED)


def _is_error_field(field: ServerSentEvent) -> bool:
    """Whether the value of an `error` field is an error: JSON, and not one that means there is none."""
    return field.data.strip() not in (b"null", b"false") and is_json(field.data)
