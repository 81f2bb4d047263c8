"""Read a response: pull bytes and close. The driver decides what to do next."""

import builtins
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, overload

from chunkfold.json_text.parsing import ModelT, T
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.options import ParserOptions
from chunkfold.stream.driver import NEED_DATA, OVER, AnyView, StreamDriver
from chunkfold.stream.network import (
    DeadlineReachedError,
    owns_connection,
    read_to_end,
    reads_until,
    shares_connection,
    wake_reader,
)
from chunkfold.stream.responses import SyncResponse, close_quietly, raised

if TYPE_CHECKING:
    from chunkfold.events.types import ChatCompletionEvent

_MAX_WAKING: Final = 1.0  # seconds for a reader to return after its connection was shut down


def _failing(exc: Exception) -> Iterator[bytes]:
    """A source whose first read raises."""
    yield raised(exc)


class View(AnyView[T]):
    """An iterator over the items of a stream, which `events`, `text_deltas` and `partials` return."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        while (item := self._take()) is NEED_DATA:
            self._stream._read(folding=True)
        if item is OVER:
            self._stream._finish()
            raise StopIteration
        return item

    def close(self) -> None:
        """Close the stream, for `contextlib.closing`."""
        self._stream.close()


class ChatCompletionStream(StreamDriver):
    """Iterate over the chunks of a response, or of any iterable of bytes.

    Iterating yields every chunk that arrived and then raises the error, if there is one. Use it in a `with`
    statement: it closes the response however the block ends, which stops the generation.

    Args:
        source: A response with `iter_bytes`, or an iterable of bytes in pieces of any size, whose `status_code` and
            `headers` count if it has them, as a response of requests has.
        reuse_connection: Whether closing waits up to 100 ms for the end of the body after `[DONE]`, so that the client
            can use the connection again. Pass False if the server closes its connections right after an answer.
        options: The options of `ChatCompletionParser`; status and headers are those of the response, unless given.

    Raises:
        TypeError, ValueError: The source or an option is wrong.
        ChunkfoldError: Iterating or `read` failed.
        StreamConsumedError: Iterating after the end, or before all events of the last read were taken.
    """

    def __init__(
        self,
        source: SyncResponse | Iterable[bytes | bytearray | memoryview],
        *,
        reuse_connection: bool = True,
        **options: Unpack[ParserOptions],
    ) -> None:
        super().__init__(source, "iter_bytes", reuse_connection, options)
        self._source: Iterator[bytes] = self._begun(source, "iter_bytes", iter, _failing)
        # To loop over in `_read`: a loop asks for the iterator each time, and that of a source may then start over.
        self._reads = iter(self._source.__next__, OVER)
        self._drained_until = math.inf
        self._reader_left: SimpleQueue[None] = SimpleQueue()  # an `Event` takes a fiftieth of a short stream

    def __iter__(self) -> Self:
        self._check_not_consumed()
        return self

    def __next__(self) -> ChatCompletionChunk:
        while True:  # what a view does; two calls fewer for each read save a tenth of the floor
            for chunk in self._ready:
                if not self._parser.emitted_output:
                    self._note_yielded(chunk)
                return chunk
            if self._folding:
                self._check_no_events_wait()
            if self._step() is OVER:
                self._finish()
                raise StopIteration
            self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(wait=math.inf if exc is None else 0)

    def close(self) -> None:
        """Close the response. Before the end, this leaves the stream; afterwards, it has no effect.

        Another thread may call it. If a thread is waiting for bytes, it is woken if the connection is HTTP/1 over
        httpx or httpx2; otherwise its loop ends when the next bytes arrive.
        """
        self._close()

    def read(self) -> ChatCompletion:
        """Read the rest and return the completion.

        Raises:
            ChunkfoldError: The stream did not end well; the error's `snapshot` is the answer so far.
            StreamConsumedError: Another thread is reading.
        """
        self._check_not_drained()
        if not (self._consumed or self._closed):
            while self.end is None and not self._closed:
                self._read(folding=True)
            self._drop_items()
            self._finish()
        return self.completion()

    def drain(self, within: float = 5.0) -> ChatCompletion:
        """Read on to the end without yielding anything, close the stream, and return the snapshot.

        For a "stop" button: the provider bills the answer anyway, and the usage is in the last chunk. A loop
        over the stream ends. If the stream fails, nothing is raised, but `error` is set. If the time runs out first,
        `end` is `closed`.

        Args:
            within: How many seconds to read on at most. For an iterable of bytes, and over HTTP/2, the time is only
                checked between two reads: if the provider is silent, it waits as long as the source does.

        Raises:
            StreamConsumedError: Another thread is reading.
            TypeError, ValueError: `within` is not a number of seconds, 0 or more.
        """
        self._start_drain(within)
        self._drained_until = deadline = time.monotonic() + within
        try:
            with reads_until(self.response if owns_connection(self.response) else None, deadline):
                while self.end is None and not self._closed and time.monotonic() < deadline:
                    self._read(folding=True)
        finally:
            self._close(wait=deadline - time.monotonic())
        return self.snapshot

    def text_deltas(self) -> View[str]:
        """Yield the text of choice 0 from here on, without empty pieces.

        Use it instead of iterating over the chunks: what one has read, the other does not yield again. If chunks or
        events of an earlier read were not taken, their text comes first.

        Raises:
            ChunkfoldError: The stream did not end well.
        """
        return View(self, self._texts())

    def events(self) -> "View[ChatCompletionEvent]":
        """Yield typed events, then raise the error, if there is one; see `chunkfold.events`.

        Use it instead of iterating over the chunks: what one has read, the other does not yield again. The first
        events have everything that has arrived so far; another call continues where the last one stopped.
        """
        return View(self, self._next_event)

    @overload
    def partials(self, type: builtins.type[ModelT], *, half_numbers: bool = False) -> View[ModelT | dict[str, Any]]: ...
    @overload
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> View[Any]: ...
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> View[Any]:
        """Parse the text of choice 0 as JSON: yield the value so far after each piece, finally the whole value.

        `PartialJSON` describes the values. The last one is that of `message.parse(type)`. After events or other
        partials, it continues with the next piece; the values then include the text before it.

        Raises:
            ParseError: The text is not JSON, is cut, or does not fit the type.
            LimitExceededError: The text has more than 250,000 values.
            ChunkfoldError: The stream did not end well.
            TypeError: Pydantic cannot validate the type.
        """
        return View(self, self._partials_of(type, half_numbers=half_numbers))

    def _read(self, *, folding: bool = False) -> None:
        reader = get_ident()
        # Other threads and signal handlers run at calls: there is none from a check to its effect, nor after a read.
        if self._reader is not None or self._is_parsing:
            if self._closed:  # by another thread, which parses the rest of the last read
                return
            raise self._second_reader_error()
        if self._slices is not None:
            self._parse_slice()
            return
        self._reader = reader
        try:
            for received in self._reads:  # `next` would be a call
                data, self._is_parsing = received, True
                break
            else:
                raise StopIteration  # noqa: TRY301 - as `next` does
        except BaseException as exc:
            is_fault = isinstance(exc, Exception) and not isinstance(exc, StopIteration)
            is_late = is_fault and time.monotonic() >= self._drained_until
            if not self._read_ended(DeadlineReachedError() if is_late else exc):
                raise
            return
        finally:
            self._reader = None
            if self._closed:  # meanwhile, by another thread, which could not close a source that was being read
                close_quietly(self._source)
                if shares_connection(self.response):
                    close_quietly(self.response)
                self._reader_left.put(None)
        try:
            self._received(data, folding=folding)
        except BaseException:
            self._lose_read()
            raise

    def _finish(self) -> None:
        if (error := self._consume()) is not None:
            self._close(wait=0)
            raise error

    def _close(self, *, wait: float = math.inf) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
            if self._reader not in (None, get_ident()) and wake_reader(self.response):
                with suppress(Empty):
                    self._reader_left.get(timeout=_MAX_WAKING)  # the socket must not be closed under its read
            if self._waits_for_end(wait):
                self.connection_was_kept = read_to_end(self.response, self._source, wait)
        finally:
            try:
                if self._reader is None:
                    close_quietly(self._source)
            finally:
                if self._reader is None or not shares_connection(self.response):
                    close_quietly(self.response)
