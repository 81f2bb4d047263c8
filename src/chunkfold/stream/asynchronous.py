"""Read a response, async: `sync` with `await`, and without other threads."""

import builtins
import math
import time
from collections.abc import AsyncIterable, AsyncIterator
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from chunkfold.json_text.parsing import ModelT, T
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.options import ParserOptions
from chunkfold.stream.driver import NEED_DATA, OVER, AnyView, StreamDriver
from chunkfold.stream.network import (
    InterruptibleReads,
    aread_to_end,
    end_of_body_scope,
    run_to_completion,
    shares_connection,
)
from chunkfold.stream.responses import AsyncResponse, aclose_quietly, raised

if TYPE_CHECKING:
    import anyio

    from chunkfold.events.types import ChatCompletionEvent


async def _failing(exc: Exception) -> AsyncIterator[bytes]:
    """A source whose first read raises."""
    yield raised(exc)


class AsyncView(AnyView[T]):
    """An async iterator over the items of a stream, which `events`, `text_deltas` and `partials` return."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while (item := self._take()) is NEED_DATA:
            await self._stream._read(folding=True)
        if item is OVER:
            await self._stream._finish()
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Close the stream, for `contextlib.aclosing`."""
        await self._stream.aclose()


class AsyncChatCompletionStream(StreamDriver):
    """Iterate over the chunks of an async response, or of any async iterable of bytes; on asyncio and trio.

    The same as `ChatCompletionStream`, with `async for`, `async with`, `await stream.read()` and `aclose`.

    Args:
        source: A response with `aiter_bytes`, or an async iterable of bytes in pieces of any size, whose `status_code`
            and `headers` count if it has them.
        reuse_connection: Whether closing waits up to 100 ms for the end of the body; see `ChatCompletionStream`.
        options: The options of `ChatCompletionParser`; status and headers are those of the response, unless given.

    Raises:
        TypeError, ValueError: The source or an option is wrong.
        ChunkfoldError: Iterating or `read` failed; see `ChatCompletionStream`.
    """

    def __init__(
        self,
        source: AsyncResponse | AsyncIterable[bytes | bytearray | memoryview],
        *,
        reuse_connection: bool = True,
        **options: Unpack[ParserOptions],
    ) -> None:
        super().__init__(source, "aiter_bytes", reuse_connection, options)
        reads: Any = self._begun(source, "aiter_bytes", aiter, _failing)
        self._source: AsyncIterator[bytes] = InterruptibleReads(reads) if shares_connection(self.response) else reads

    def __aiter__(self) -> Self:
        self._check_not_consumed()
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        while True:  # what a view does; two calls fewer for each read save a tenth of the floor
            for chunk in self._ready:
                if not self._parser.emitted_output:
                    self._note_yielded(chunk)
                return chunk
            if self._folding:
                self._check_no_events_wait()
            if self._step() is OVER:
                await self._finish()
                raise StopAsyncIteration
            await self._read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(wait=math.inf if exc is None else 0)

    async def aclose(self) -> None:
        """Close the response. Before the end, this leaves the stream; afterwards, it has no effect.

        Another task may call it: a loop over the stream then ends.
        """
        await self._close()

    async def read(self) -> ChatCompletion:
        """Read the rest and return the completion.

        Raises:
            ChunkfoldError: The stream did not end well; the error's `snapshot` is the answer so far.
            StreamConsumedError: Another task is reading.
        """
        self._check_not_drained()
        if not (self._consumed or self._closed):
            while self.end is None:
                await self._read(folding=True)
            self._drop_items()
            await self._finish()
        return self.completion()

    async def drain(self, within: float = 5.0) -> ChatCompletion:
        """Read on to the end without yielding anything, close the stream, and return the snapshot.

        The same as `ChatCompletionStream.drain`, but the time limit holds for every source.

        Raises:
            StreamConsumedError: Another task is reading.
            TypeError, ValueError: `within` is not a number of seconds, 0 or more.
        """
        import anyio  # loaded only if it is needed

        self._start_drain(within)
        deadline = time.monotonic() + within
        scope = anyio.move_on_after(within)
        try:  # the client closes the connection if its read is cancelled
            await run_to_completion(self._read_on(scope, deadline), self.response, scope, shield=False)
        finally:
            await self._close(wait=deadline - time.monotonic())
        return self.snapshot

    async def _read_on(self, scope: "anyio.CancelScope", deadline: float) -> None:
        with scope:
            while self.end is None and time.monotonic() < deadline:
                await self._read(folding=True)

    def text_deltas(self) -> AsyncView[str]:
        """Yield the text of choice 0 from here on, without empty pieces; see `ChatCompletionStream.text_deltas`."""
        return AsyncView(self, self._texts())

    def events(self) -> "AsyncView[ChatCompletionEvent]":
        """Yield typed events, then raise the error, if there is one; see `ChatCompletionStream.events`."""
        return AsyncView(self, self._next_event)

    @overload
    def partials(
        self, type: builtins.type[ModelT], *, half_numbers: bool = False
    ) -> AsyncView[ModelT | dict[str, Any]]: ...
    @overload
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> AsyncView[Any]: ...
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> AsyncView[Any]:
        """Parse the text of choice 0 as JSON while it is written; see `ChatCompletionStream.partials`."""
        return AsyncView(self, self._partials_of(type, half_numbers=half_numbers))

    async def _read(self, *, folding: bool = False) -> None:
        if self._reader is not None or self._is_parsing:
            raise self._second_reader_error()
        if self._slices is not None:
            self._parse_slice()
            return
        self._reader = get_ident()
        try:
            data = await anext(self._source)
        except BaseException as exc:
            if not self._read_ended(exc):
                raise
            return
        finally:
            self._reader = None
            if self._closed:  # meanwhile, by another task, which could not close a source that was being read
                await aclose_quietly(self._source)
        try:
            self._received(data, folding=folding)
        except BaseException:
            self._lose_read()
            raise

    async def _finish(self) -> None:
        if (error := self._consume()) is not None:
            await self._close(wait=0)
            raise error

    async def _close(self, *, wait: float = math.inf) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
        finally:
            scope = end_of_body_scope(wait) if self._waits_for_end(wait) else None
            await run_to_completion(self._let_go(scope), self.response, scope)

    async def _let_go(self, scope: "anyio.CancelScope | None") -> None:
        try:
            if scope is not None:
                self.connection_was_kept = await aread_to_end(self._source, scope)
        finally:
            try:
                if self._reader is None:
                    await aclose_quietly(self._source)
                elif isinstance(self._source, InterruptibleReads):
                    self._source.interrupt()
            finally:
                await aclose_quietly(self.response)
