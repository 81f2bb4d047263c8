"""The part that both streams share: everything but the reading itself.

A view takes its next item from the driver, as with h11: it gets the item, `NEED_DATA`, or `OVER`. At `NEED_DATA` the
stream pulls bytes from its source and passes them on, at `OVER` it closes and raises the error. So the decision about
the next step is in one place, without I/O; a stream only pulls bytes and closes.
"""

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from chunkfold.anomalies import Anomaly
from chunkfold.arguments import check_flag, check_seconds
from chunkfold.errors import ChunkfoldError, StreamConsumedError, StreamEnd
from chunkfold.event_stream.lines import SLICE
from chunkfold.excerpts import counted
from chunkfold.json_text.parsing import T
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.options import ParserOptions
from chunkfold.parser.parser import (
    ChatCompletionParser,
    after_failure,
    end_of_body,
    feed_in_slices,
    feed_or_fold,
    note_yielded,
    observe_as,
    take_events,
)
from chunkfold.parser.timing import StreamTiming
from chunkfold.stream.network import DeadlineReachedError, may_be_kept
from chunkfold.stream.responses import check_source, encoding_error, expansion_error
from chunkfold.wire.headers import Headers, decoded_encodings

if TYPE_CHECKING:
    from chunkfold.events.types import ChatCompletionEvent, TextDelta
    from chunkfold.stream.partials import Partials

_MAX_SLICES_AT_LEAVE: Final = 32  # of a large read that is half parsed; each has 32 KiB at most


class Step(Enum):
    """What a view gets instead of an item."""

    NEED_DATA = auto()
    OVER = auto()


_NOTHING: Final[Iterator[Any]] = iter(())  # one that is over can be shared
NEED_DATA: Final = Step.NEED_DATA
OVER: Final = Step.OVER


_STOPS: Final = (StopIteration, StopAsyncIteration)


def _stopped(exc: Exception) -> RuntimeError:
    """As a generator raises it: the exception itself would end the consumer's loop as if the stream had ended."""
    return RuntimeError(f"a callback, a transform or the clock raised {type(exc).__name__}")


class AnyView(Generic[T]):
    """The items of a stream, without its I/O. A class, so that leaving it early leaves no open generator."""

    def __init__(self, stream: "StreamDriver", take: Callable[[], T | Step]) -> None:
        self._stream: Any = stream  # whose `_read` and `_finish` do the I/O
        self._stream._check_not_consumed()
        self._take = take


class StreamDriver:
    """A stream without its I/O; `method` is the name of the method by which a response is recognised.

    Attributes:
        connection_was_kept: Whether closing waited for the end of the body, and received it.
    """

    _closed = True  # nothing is open yet, in case creating the stream fails

    def __init__(self, source: Any, method: str, reuse_connection: bool, options: ParserOptions) -> None:  # noqa: FBT001 - no public call
        check_source(source, method)
        check_flag("reuse_connection", reuse_connection)
        self.response: Any = source if hasattr(source, method) else None
        """The response that is read, None for a plain iterable."""
        given = options.get("headers")
        if self.response is not None or isinstance(getattr(source, "status_code", None), int):  # one of requests, too
            given = getattr(source, "headers", None)
            options = {"status_code": source.status_code, "headers": given, **options}
        self._parser = ChatCompletionParser(**options)
        encodings = decoded_encodings(Headers({} if given is None else given))
        self._decoded = 0 if encodings and self.response is not None else None  # bytes of a compressed body
        if (refused := encoding_error(source, encodings)) is not None:
            self._parser.interrupt(refused)
        self._reuse_connection = reuse_connection
        self.connection_was_kept = False
        self._ready: Iterator[ChatCompletionChunk] = _NOTHING
        self._slices: Generator[list[ChatCompletionChunk]] | None = None  # the chunks of the rest of a large read
        self._is_parsing = False  # and may be running a callback
        self._folding = False  # whether what the last read brought is given by events, not by chunks
        self._ready_events: Iterator[ChatCompletionEvent] = _NOTHING
        self._gives_events = False  # whether any were asked for
        self._may_have_events = True  # whether the parser may have some, since something was read
        self._reader: int | None = None  # the thread that waits for the source
        self._exhausted = False
        self._cut_short: BaseException | None = None  # what left a read half done, such as a cancellation
        self._consumed = False
        self._closed = False

    def __repr__(self) -> str:
        """Show the state, without content."""
        return f"<{type(self).__name__}: {self.end or 'running'}, {counted(self._parser.chunks, 'chunk')}>"

    def __del__(self) -> None:
        """Warn if a response that is still being sent was left open; closing it here could wait forever."""
        if not self._closed and self.end is None and not getattr(self.response, "is_closed", True):
            msg = f"unclosed {self!r}: use `with`, or close it, so that the provider stops and the connection is free"
            warnings.warn(msg, ResourceWarning, stacklevel=2, source=self)

    @property
    def request_id(self) -> str | None:
        """The response's `x-request-id`, or another header for it; None if it has none."""
        return self._parser.request_id

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far, yielded or not; for the thread that reads, at any time.

        While the stream runs, each access takes time proportional to the output.
        """
        return self._parser.snapshot

    @property
    def end(self) -> StreamEnd | None:
        """How the stream ended, None while it runs."""
        return self._parser.end

    @property
    def error(self) -> ChunkfoldError | None:
        """What went wrong, None if nothing did (yet)."""
        return self._parser.error

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What was tolerated: each rule once, with a count and the first place."""
        return self._parser.anomalies

    @property
    def timing(self) -> StreamTiming:
        """Arrival times, in seconds since the request was sent."""
        return self._parser.timing

    @property
    def elapsed(self) -> float:
        """Seconds since the request was sent, on the clock of `timing`."""
        return self._parser.elapsed

    def observe(
        self, *, on_chunks: Callable[[Self, int], object] | None = None, on_end: Callable[[Self], object] | None = None
    ) -> Self:
        """Call plain callables as chunks arrive and when the stream ends; return the stream. For telemetry and logs.

        The task that reads or closes calls them, in the order in which they were added, so they should be quick and
        must not change anything. Their exceptions are logged, not propagated.

        Args:
            on_chunks: Called as `on_chunks(stream, count)` after each read that brought chunks, with their number;
                `timing.last_chunk` is their time. A large read is reported in slices.
            on_end: Called as `on_end(stream)` exactly once, as soon as `end` is set; immediately if it already is. A
                stream that is neither read to its end nor closed never ends.

        Raises:
            TypeError: One of them is not callable, or async.
        """
        observe_as(self._parser, self, on_chunks, on_end)
        return self

    def completion(self) -> ChatCompletion:
        """The final message; no I/O.

        Raises:
            ChunkfoldError: The stream did not end well, or still runs; its `snapshot` has what arrived.
        """
        return self._parser.completion()

    def _begun(self, source: Any, method: str, begin: Callable[[Any], Any], failing: Callable[[Exception], Any]) -> Any:
        """An iterator over the reads of the source; `failing` gives one that raises what beginning raised."""
        try:
            reads = source if self.response is None else getattr(source, method)()
            if hasattr(reads, f"__{begin.__name__}__"):
                return begin(reads)
        except Exception as exc:  # noqa: BLE001 - the transport's, which the first read raises
            traceback = exc.__traceback__  # without this frame, which refers to the stream
            return failing(exc.with_traceback(None if traceback is None else traceback.tb_next))
        raise TypeError(f"source: expected {method}() for {type(self).__name__}, received {type(reads).__name__}")

    # Items for the views

    def _texts(self) -> Callable[[], str | Step]:
        from chunkfold.events.types import TextDelta  # loaded only for texts

        return partial(self._next_text, TextDelta)

    def _next_text(self, text_delta: "type[TextDelta]") -> str | Step:
        if not self._folding:  # yield the texts of the chunks already made, and drop the events that repeat them
            for chunk in self._ready:
                if text := chunk.text:
                    self._note_yielded(chunk)
                    return text
            take_events(self._parser)
            self._folding = True
        while not isinstance(event := self._next_event(is_yielded=False), Step):
            if isinstance(event, text_delta) and event.choice == 0:
                if not self._parser.emitted_output:
                    self._note_yielded(event)
                return event.delta
        return event

    def _next_event(self, *, is_yielded: bool = True) -> "ChatCompletionEvent | Step":
        while True:
            for event in self._ready_events:
                if is_yielded and not self._parser.emitted_output:
                    self._note_yielded(event)
                return event
            if not self._may_have_events or self._consumed or self._closed:
                return self._step()
            self._gives_events, self._may_have_events = True, False
            self._folding, self._ready = True, _NOTHING  # what its chunks mean is among the events
            self._ready_events = iter(take_events(self._parser))

    def _next_partial(self, partials: "Partials") -> Any:
        while not isinstance(event := self._next_event(is_yielded=False), Step):
            for value in partials.after(event):
                self._note_yielded(event)
                return value
        if event is OVER and not self._closed:
            for value in partials.last():
                return value
        return event

    def _partials_of(self, as_type: Any, *, half_numbers: bool) -> Callable[[], Any]:
        from chunkfold.stream.partials import Partials  # loaded only if they are used

        return partial(self._next_partial, Partials(self._parser, as_type, half_numbers=half_numbers))

    def _note_yielded(self, item: "ChatCompletionChunk | ChatCompletionEvent") -> None:
        """The item, or what is made of it, is about to be yielded; to be called until output was emitted."""
        note_yielded(self._parser, item)

    def _step(self) -> Step:
        if self._parser.end is not None or self._closed or self._consumed:
            return OVER
        self._may_have_events = True  # after the read
        return NEED_DATA

    def _consume(self) -> ChunkfoldError | None:
        """The last item was yielded: the error to raise, once."""
        if self._consumed:
            return None
        if self._is_parsing and not self._closed:  # a callback runs: what this read brings was not yielded yet
            raise self._second_reader_error()
        self._consumed = True
        return self.error

    # One reader at a time

    def _check_no_events_wait(self) -> None:
        """Raise if chunks of the next read would skip events that have not been taken."""
        if not self._gives_events or self._consumed or self._closed:
            return
        waiting = [*self._ready_events, *take_events(self._parser)]
        while self._slices is not None and not waiting:
            self._parse_slice()
            waiting = take_events(self._parser)
        self._ready, self._ready_events = _NOTHING, iter(waiting)
        if waiting:
            what = f"the last read brought more events ({len(waiting)}), which chunks would skip"
            raise self._consumed_error(f"{what}: continue with events(), text_deltas() or read()")

    def _check_not_drained(self) -> None:
        if self._consumed and self.end is None:
            raise self._second_reader_error()

    def _check_not_consumed(self) -> None:
        self._check_not_drained()
        if self._is_parsing:
            raise self._second_reader_error()
        if self._consumed or self._closed or self.end is StreamEnd.CLOSED:
            raise self._consumed_error(f"the stream is over ({self.end}); its result is in completion() and snapshot")

    def _second_reader_error(self) -> StreamConsumedError:
        who = ", or the call that runs this callback," if self._is_parsing else ""
        return self._consumed_error(f"another task or thread{who} is reading this stream")

    def _consumed_error(self, msg: str) -> StreamConsumedError:
        error = StreamConsumedError(msg)
        # Made when it is first read: another thread may be parsing.
        error.snapshot, error.emitted_output = lambda: self.snapshot, self._parser.emitted_output
        return error

    # Parsing a read

    def _received(self, data: bytes, *, folding: bool) -> None:
        self._cut_short = None  # if a read was, the source survived it
        self._folding = folding
        self._is_parsing = True
        try:
            error = None
            if self._decoded is not None:
                self._decoded += len(data)
                error = expansion_error(getattr(self.response, "num_bytes_downloaded", None), self._decoded)
            if error is not None:
                self._give(end_of_body(self._parser, error))
            elif type(data) is bytes and len(data) > SLICE:
                self._slices = feed_in_slices(self._parser, data, folding=folding)
                self._parse_slice()
            elif self._parser.end is None:  # else it was closed meanwhile
                chunks = feed_or_fold(self._parser, data, folding=folding)
                if not folding:
                    self._give(chunks)
        except _STOPS as exc:
            raise _stopped(exc) from exc
        finally:
            self._is_parsing = False

    def _parse_slice(self) -> None:
        self._is_parsing = True
        try:
            slices, self._slices = self._slices, None  # another thread, which closes the stream, may want it as well
            chunks = next(slices, None) if slices is not None else None
            if chunks is not None:
                self._slices = slices
            self._give(chunks or ())
        except BaseException as exc:
            self._lose_read()
            if isinstance(exc, _STOPS):
                raise _stopped(exc) from exc
            raise
        finally:
            self._is_parsing = False

    def _lose_read(self) -> None:
        """The items of a read are lost: an exception, such as a signal handler's, was raised before they were given."""
        self._is_parsing = False
        after_failure(self._parser)

    def _give(self, chunks: Iterable[ChatCompletionChunk]) -> None:
        """Yield these chunks next, unless a callback closed the stream meanwhile, or it is being drained."""
        if not (self._closed or self._consumed):
            self._ready = iter(chunks)

    def _read_ended(self, exc: BaseException) -> bool:
        """The source raised: return whether the exception is handled here; if not, the caller has to get it."""
        if not isinstance(exc, Exception):
            self._cut_short = exc
            return False
        fault: BaseException | None = exc
        if isinstance(exc, StopIteration | StopAsyncIteration):
            self._exhausted = True
            fault = self._cut_short  # if a read was left half done, that broke the source
        if self._closed:  # by another thread, which is about to leave: the source may have ended because of that
            self._parser.leave()
        elif not isinstance(fault, DeadlineReachedError):
            self._is_parsing = True
            try:
                self._give(end_of_body(self._parser, fault, is_transport=True))
            except _STOPS as stopped:
                raise _stopped(stopped) from stopped
            finally:
                self._is_parsing = False
        return True

    # Leaving

    def _start_drain(self, within: float) -> None:
        """Yield nothing more; an error if `within` is not a number of seconds, or another task or thread is reading."""
        check_seconds("within", within, optional=False)
        if (self._reader is not None or self._is_parsing) and not self._closed:
            raise self._second_reader_error()
        self._consumed = True
        self._drop_items()

    def _drop_items(self) -> None:
        self._ready = self._ready_events = _NOTHING

    def _leave(self) -> None:
        """The consumer leaves, and nothing more is yielded; the ending depends on what arrived, up to a limit."""
        for _ in range(_MAX_SLICES_AT_LEAVE):
            if self._slices is None or self._is_parsing:
                break
            self._parse_slice()
        self._parser.leave()
        self._drop_items()

    def _waits_for_end(self, seconds: float) -> bool:
        """Whether the end of the body may be near, so that waiting for it saves the connection."""
        is_near = self.end is not None and self.end.complete and not self._exhausted and self._reader is None
        return is_near and seconds > 0 and self._reuse_connection and may_be_kept(self.response)
