"""The lifecycle of one stream: the effect of each read, its times, and how it ends."""

from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from chunkfold import anomalies
from chunkfold.anomalies import Anomaly
from chunkfold.arguments import as_bytes, check_callback
from chunkfold.errors import APIError, ChunkfoldError, InvalidStreamError, StreamEnd, StreamStalledError
from chunkfold.event_stream.lines import slices
from chunkfold.excerpts import counted
from chunkfold.fold.choice_state import notify_finish
from chunkfold.fold.stream_fold import StreamFold, brings_output
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.endings import Facts, Stop, conclude
from chunkfold.parser.limits import Deadlines
from chunkfold.parser.refused_body import RefusedBody
from chunkfold.parser.streamed_body import StreamedBody
from chunkfold.parser.timing import StreamTiming, note_read
from chunkfold.wire.api_errors import add_headers
from chunkfold.wire.headers import Headers, request_id

if TYPE_CHECKING:
    from chunkfold.events.recorder import EventRecorder
    from chunkfold.events.types import ChatCompletionEvent
    from chunkfold.parser.observers import Observers, OnChunks, OnEnd


class Lifecycle:
    """The parser without its options: process what a transport delivers, until the stream ends."""

    def __init__(
        self,
        fold: StreamFold,
        body: StreamedBody | RefusedBody,
        deadlines: Deadlines,
        *,
        headers: Headers,
        clock: Callable[[], float],
    ) -> None:
        self.end: StreamEnd | None = None
        """How the stream ended, None while it runs."""
        self.error: ChunkfoldError | None = None
        """The error, None if there is none. Everything before it was delivered."""
        self.timing: StreamTiming = StreamTiming()
        """Arrival times, in seconds since `started`."""
        self._fold = fold
        self._body = body
        self._deadlines = deadlines
        self._headers = headers
        self._clock = clock
        self._log = fold.log
        self._recorder: EventRecorder | None = None
        self._observers: Observers | None = None
        self.emitted_output: bool = False
        """Whether output was emitted, in a chunk or an event that was returned or yielded."""

    def __repr__(self) -> str:
        """Show the state, without content."""
        return f"<{type(self).__name__}: {self.end or 'running'}, {counted(self.chunks, 'chunk')}>"

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far; readable at any time, in time proportional to the output.

        While the stream runs, each access creates a new one, which you can change. After the end there is only one.
        """
        return self._fold.snapshot if self.end is None else self._fold.last_snapshot()

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What was tolerated: each rule once, with a count and the first place."""
        return self._log.entries()

    @property
    def request_id(self) -> str | None:
        """The response's `x-request-id`, or another header for it; None if it has none."""
        return request_id(self._headers)

    @property
    def elapsed(self) -> float:
        """Seconds since the request was sent, on the clock of `timing`."""
        return max(self._clock() - self._deadlines.started, 0.0)

    @property
    def chunks(self) -> int:
        """The number of chunks so far."""
        return self._fold.chunks

    def events(self) -> "list[ChatCompletionEvent]":
        """The typed events since the last call, or since the start.

        Events are made from the first call on, and kept until the next one. A late first call starts with
        everything that has arrived, in as few events as possible.
        """
        events = self._take_events()
        any(map(self._note_yielded, events))  # up to the first with output
        return events

    def _take_events(self) -> "list[ChatCompletionEvent]":
        """What `events` returns, without marking it as emitted."""
        if self._recorder is None:
            from chunkfold.events.recorder import EventRecorder  # loaded only for events

            recorder = EventRecorder(self._fold.tools)
            self._log.observe(recorder.on_anomaly)
            self._fold.observe(recorder)
            self._recorder = recorder  # not before: if this is interrupted, the next call starts over
            self._record_end()
        return self._recorder.take()

    def _observe(self, subject: object, on_chunks: "OnChunks", on_end: "OnEnd") -> None:
        """Like `ChatCompletionParser.observe`, but the callables get the subject, which is not kept alive."""
        check_callback("on_chunks", on_chunks)
        check_callback("on_end", on_end)
        if self._observers is None:
            from chunkfold.parser.observers import Observers  # loaded only for observers

            self._observers = Observers(self._fold.chunks)
        self._observers.add(subject, on_chunks, on_end)
        self._notify_observers()

    def _feed_or_fold(
        self,
        data: bytes | bytearray | memoryview,
        arrived: float | None = None,
        *,
        folding: bool = False,
        is_slice: bool = False,
        is_returned: bool = False,
    ) -> list[ChatCompletionChunk]:
        """Take the next bytes of the body, see `feed`, before the end of the stream; return the chunks they complete.

        `folding` makes chunks only where the bytes cannot be folded without them. `is_slice` says that more bytes of
        the same read follow, so that no deadline is checked yet; `is_returned` that the caller gets all chunks.
        """
        data = data if type(data) is bytes else as_bytes(data)
        fold, body, deadlines = self._fold, self._body, self._deadlines
        now = self._clock() if arrived is None else arrived
        known, keep_alives, size = fold.chunks, body.keep_alives, fold.output_size
        seconds = now - deadlines.started
        chunks: list[ChatCompletionChunk] = []
        outer, body.chunks = body.chunks, chunks  # of the read whose callback or transform called this, if any
        try:
            body.feed(data, folding=folding)
        except BaseException:
            self._after_failure()
            body.chunks = outer
            raise
        if body.stop is not None:
            self._conclude()
        has_chunks = fold.chunks > known
        if data:
            note_read(self.timing, seconds, has_chunks=has_chunks, has_output=fold.output_size > 0)
        if deadlines.is_set:
            has_others = fold.chunks - known > body.keep_alives - keep_alives  # than keep-alives
            if has_others or body.has_progress:
                deadlines.last_progress = now
                body.has_progress = False
            if not is_slice and self.end is None and (missed := deadlines.missed(now)) is not None:
                self._end_at(Stop.STALLED, StreamStalledError(missed, end=StreamEnd.STALLED))
        body.chunks = outer
        if not self.emitted_output and (is_returned or body.has_callback) and fold.output_size > size:
            self._mark_emitted()
        if body.stop is not None:
            self._notify_of_end()
        elif self._observers is not None:
            self._notify_observers()
        return chunks

    def _feed_in_slices(
        self, data: bytes, arrived: float | None = None, *, folding: bool = False, is_returned: bool = False
    ) -> Generator[list[ChatCompletionChunk]]:
        """Take a large read, a slice at a time. Deadlines are checked after the last: all of it arrived at once."""
        now = self._clock() if arrived is None else arrived
        for piece in chain(slices(data), (b"",)):
            if self.end is not None:
                return
            yield self._feed_or_fold(piece, now, folding=folding, is_slice=piece != b"", is_returned=is_returned)

    def _end_of_body(
        self, exc: BaseException | None, *, is_returned: bool = False, is_transport: bool = False
    ) -> list[ChatCompletionChunk]:
        """Process the end of the body, or the transport's exception, if there is one; return the last chunks.

        `is_transport` says that the exception is the transport's, even if it is an `InvalidStreamError`.
        """
        if self.end is not None:
            return []
        body, size = self._body, self._fold.output_size
        chunks: list[ChatCompletionChunk] = []
        outer, body.chunks = body.chunks, chunks  # see `_feed_or_fold`
        try:
            body.close(exc)
            if body.stop is not None:
                self._conclude()
            elif isinstance(exc, InvalidStreamError) and not is_transport:
                self._end_at(Stop.INVALID, exc)
            else:
                self._end_at(Stop.BODY_ENDED if exc is None else Stop.TRANSPORT, cause=exc)
        except BaseException:
            self._after_failure(exc)
            raise
        finally:
            body.chunks = outer
        if chunks and self.timing.last_byte is not None:  # they came with the last bytes
            note_read(self.timing, self.timing.last_byte, has_chunks=True, has_output=self._fold.has_output)
        if (is_returned or body.has_callback) and self._fold.output_size > size:
            self._mark_emitted()
        self._notify_of_end()
        return chunks

    def leave(self) -> None:
        """Mark that the consumer left. This is not an error.

        If every choice has finished, the stream has too, unless output followed a finish reason (CF505).
        """
        if self.end is None:
            self._end_at(Stop.LEFT)
            self._notify_observers()

    def _note_yielded(self, item: object) -> bool:
        """Mark output as emitted if a chunk or event that the caller gets has some; return whether any was so far."""
        if not self.emitted_output and self._fold.output_size and _brings_output(item):
            self._mark_emitted()
        return self.emitted_output

    def _mark_emitted(self) -> None:
        self.emitted_output = True
        if self.error is not None:
            self.error.emitted_output = True

    def _with_context(self, error: ChunkfoldError) -> ChunkfoldError:
        """The error with what is known of the stream."""
        if isinstance(error, APIError):
            add_headers(error, self._headers)
        if self._log.refused is not None and isinstance(error, InvalidStreamError) and error.rule is None:
            error.rule = self._log.refused.rule
        error.snapshot = self.snapshot if self.end is None else self._fold.last_snapshot
        error.emitted_output = self.emitted_output
        return error

    def _end_at(self, stop: Stop, error: ChunkfoldError | None = None, *, cause: BaseException | None = None) -> None:
        """End the stream; `cause` is what the transport raised."""
        try:
            self._body.end(stop, error)
        except BaseException:
            self._after_failure(cause)
            raise
        self._conclude(cause)

    def _after_failure(self, cause: BaseException | None = None) -> None:
        """A transform, a callback or a signal handler raised: end the stream, whose last read is lost."""
        if self._body.has_callback and self._fold.has_output:
            self._mark_emitted()
        with suppress(Exception):  # the transform may raise again
            if self._body.stop is None:
                self._body.end(Stop.LEFT)
        self._conclude(cause, has_lost_data=True)
        self._notify_observers()

    def _conclude(self, cause: BaseException | None = None, *, has_lost_data: bool = False) -> None:
        """Set how the stream ended, now that the body has stopped, unless a callback ended it itself."""
        fold, log, body = self._fold, self._log, self._body
        if body.stop is None or self.end is not None:
            return
        facts = Facts(
            body.stop,
            all_finished=fold.all_finished,
            finished_early=log.get(anomalies.OUTPUT_AFTER_FINISH) is not None,
            has_output=fold.has_output,
            has_unexplained=log.get(anomalies.UNEXPLAINED_OBJECT) is not None,
            foreign=body.foreign if fold.chunks == fold.unexplained else None,
            has_lost_data=has_lost_data,
            is_refused=log.refused is not None,
            refused_ids=log.refused_ids,
        )
        self.end, error = conclude(facts, log, body.error, cause)
        self.error = None if error is None else self._with_context(error)
        self._record_end()

    def _record_end(self) -> None:
        """Record the events of the end, if the stream has ended. Nothing is noted after it."""
        if self._recorder is None or self.end is None:
            return
        self._log.observe(None)  # the recorder refers to the log: the stream is then freed as soon as it is not used
        if self.end.complete:
            self._recorder.complete()
        for state in self._fold.all_states():  # later chunks can turn a `stop` into `tool_calls`
            notify_finish(state, self._recorder)

    def _notify_of_end(self) -> None:
        """Pass the last event to the callback; even if that raises, the observers learn of the end."""
        try:
            self._body.notify_callback()
        finally:
            self._notify_observers()

    def _notify_observers(self) -> None:
        """Notify the observers; everything that they can read is up to date."""
        if self._observers is not None:
            self._observers.notify(self._fold.chunks, has_ended=self.end is not None)


def _brings_output(item: object) -> bool:
    if isinstance(item, ChatCompletionChunk):
        return bool(item.text) or brings_output(*item.choices)  # the text first: folding it would take two floors
    from chunkfold.events.types import OutputEvent  # loaded only for events

    return isinstance(item, OutputEvent)
