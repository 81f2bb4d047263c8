"""Read a response, sync and async: the only place that knows of I/O.

Both fronts are the same loop: read, feed, hand out chunks, raise what went wrong. They take any response with
`iter_bytes` or `aiter_bytes` (httpx, httpx2 and their kin) and any iterable or async iterable of bytes.
"""

import builtins
import time
import warnings
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    contextmanager,
    suppress,
)
from functools import partial
from inspect import GEN_RUNNING, getgeneratorstate
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from pydantic import BaseModel

from chunkfold.anomalies import Anomaly
from chunkfold.drain import drain, drain_async, is_drainable, new_patience
from chunkfold.endings import StreamEnd
from chunkfold.errors import ChunkfoldError, StreamConsumedError
from chunkfold.event_stream import SLICE
from chunkfold.models import ChatCompletion, ChatCompletionChunk
from chunkfold.parser import ChatCompletionParser, ParserOptions
from chunkfold.shield import shielded
from chunkfold.timing import StreamTiming
from chunkfold.transport import AsyncResponse, SyncResponse, aclose_if_possible, close_if_possible, split_options

if TYPE_CHECKING:
    import anyio

    from chunkfold.events import ChatCompletionEvent
    from chunkfold.partials import Partials

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class _Stream:
    """What both fronts share: the parser, its views, and whether the stream was iterated to its end."""

    _closed = True  # nothing is open yet, should making the stream fail

    def __init__(self, source: Any, reader: str, options: ParserOptions) -> None:
        if isinstance(source, bytes | bytearray | str):
            msg = f"source: expected a response or an iterable of bytes, received {type(source).__name__}"
            raise TypeError(msg)
        self._response: Any = source if hasattr(source, reader) else None
        if self._response is not None:
            options = {"status_code": self._response.status_code, "headers": self._response.headers, **options}
        self._parser = ChatCompletionParser(**options)
        self._ready: Iterator[ChatCompletionChunk] = iter(())
        self._slices: Generator[list[ChatCompletionChunk]] | None = None  # what comes of the rest of a large read
        self._ready_events: Iterator[ChatCompletionEvent] = iter(())
        self._reading = False
        self._exhausted = False
        self._cut_short: BaseException | None = None  # what left a read half done, such as a cancellation
        self._consumed = False
        self._closed = False

    def __repr__(self) -> str:
        """How it stands; nothing of the content."""
        state = self.end or ("left" if self._closed else "running")
        return f"<{type(self).__name__}: {state}, {self._parser.chunks} chunks>"

    def __del__(self) -> None:
        """Say so if a response that is still being sent was left open; closing it here could wait for ever."""
        if not self._closed and self.end is None and not getattr(self._response, "is_closed", True):
            msg = f"unclosed {self!r}: use `with`, or close it, so that the provider stops and the connection is free"
            warnings.warn(msg, ResourceWarning, stacklevel=2, source=self)

    @property
    def response(self) -> Any:
        """The response that is read, None where a plain iterable is."""
        return self._response

    @property
    def request_id(self) -> str | None:
        """The response's `x-request-id`, None if it has none."""
        return self._parser.request_id

    @property
    def snapshot(self) -> ChatCompletion:
        """What has arrived so far; readable at any time, costs as much as the output is long."""
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
        """What was tolerated."""
        return self._parser.anomalies

    @property
    def timing(self) -> StreamTiming:
        """When things arrived."""
        return self._parser.timing

    @property
    def elapsed(self) -> float:
        """How many seconds ago the request was sent, on the clock that `timing` has its times from."""
        return self._parser.elapsed

    def observe(
        self,
        *,
        on_chunks: Callable[[Self, int], object] | None = None,
        on_end: Callable[[Self], object] | None = None,
    ) -> Self:
        """Have plain callables told what the stream does, for telemetry, logs and meters; return the stream.

        They are called by whoever reads or closes the stream, in between: they should be quick, and only look. What
        they raise is logged and never reaches the reader. Of several observers, the first is told first.

        Args:
            on_chunks: Called as `on_chunks(stream, count)` after each read that brought chunks, with how many it
                brought; `stream.timing.last_chunk` says when. Of a large read, slice by slice.
            on_end: Called as `on_end(stream)` exactly once, as soon as the stream has ended, in whichever way; at once
                if it has already. Its `end`, `error`, `snapshot`, `anomalies` and `timing` are the final ones. A
                stream that is neither read to its end nor closed never ends.
        """
        self._parser.observe(on_chunks=on_chunks, on_end=on_end, subject=self)
        return self

    def completion(self) -> ChatCompletion:
        """The final message; no I/O.

        Raises:
            ChunkfoldError: The stream did not end well, or still runs; its `snapshot` has what arrived.
        """
        return self._parser.completion()

    def _check_not_consumed(self) -> None:
        if self._consumed or self._closed:
            raise self._consumed_error(f"the stream is over ({self.end}); its result is in completion() and snapshot")

    def _check_nobody_reads(self) -> None:
        if self._reading:
            raise self._consumed_error("another task or thread is reading this stream")

    def _consumed_error(self, msg: str) -> StreamConsumedError:
        error = StreamConsumedError(msg)
        error.snapshot, error.emitted_output = self.snapshot, self._parser.emitted_output
        return error

    def _take(self, data: bytes, *, folding: bool) -> list[ChatCompletionChunk]:
        """Fold a read; or feed it, a large one in slices."""
        if folding:
            self._parser.fold(data)
            return []
        if type(data) is not bytes:
            return self._parser.feed(data)
        self._slices = self._parser.feed_in_slices(data)
        return self._take_slice()

    def _take_slice(self) -> list[ChatCompletionChunk]:
        """What comes of the next slice of the last read."""
        for chunks in self._slices or ():
            return chunks
        self._slices = None
        return []

    def _leave(self) -> None:
        """The consumer goes. What had arrived counts for how the stream ended, unless it is being parsed right now."""
        while self._slices is not None and getgeneratorstate(self._slices) != GEN_RUNNING:
            self._take_slice()
        self._parser.leave()

    def _end_of_source(self) -> list[ChatCompletionChunk]:
        """The source has no more bytes: the body ended, unless a read that was left half done broke the source."""
        self._exhausted = True
        return self._parser.close() if self._cut_short is None else self._parser.interrupt(self._cut_short)

    def _may_drain(self) -> bool:
        """Whether the end of the body may be near, so that waiting for it saves the connection."""
        complete = self.end is not None and self.end.complete
        return complete and not self._exhausted and not self._reading and is_drainable(self._response)


class _AsyncView(Generic[T]):
    """What an async stream gives one by one; a class, so that leaving it early leaves no generator behind."""

    def __init__(self, get_next: Callable[[], Awaitable[T]]) -> None:
        self._get_next = get_next

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self._get_next()


class ChatCompletionStream(_Stream):
    """Iterate over the chunks of a response, or of any iterable of bytes.

    Iterating delivers every chunk that arrived and then raises what went wrong, if anything did. Use it in a `with`
    statement: that closes the response on every way out, and so stops the generation.

    Args:
        source: A response with `iter_bytes`, or an iterable of bytes in pieces of any size.
        options: Those of `ChatCompletionParser`; status and headers are the response's own.

    Raises:
        ChunkfoldError: From iterating and from `read`: how the stream failed.
    """

    def __init__(self, source: SyncResponse | Iterable[bytes], **options: Unpack[ParserOptions]) -> None:
        super().__init__(source, "iter_bytes", options)
        data: Any = self._response.iter_bytes() if self._response is not None else source
        self._source: Iterator[bytes] = iter(data)

    def __iter__(self) -> Self:
        self._check_not_consumed()
        return self

    def __next__(self) -> ChatCompletionChunk:
        while True:
            for chunk in self._ready:
                return chunk
            if self._parser.end is not None or self._closed:
                break
            self._ready = iter(self._read())
        self._consume()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(may_wait=exc is None)

    def close(self) -> None:
        """Close the response. Before the end this leaves the stream; afterwards it changes nothing."""
        self._close(may_wait=True)

    def read(self) -> ChatCompletion:
        """Read the rest and return the completion.

        Raises:
            ChunkfoldError: The stream did not end well; its `snapshot` has what arrived.
        """
        if not (self._consumed or self._closed):
            while self.end is None:
                self._read(folding=True)
            self._ready = iter(())
            self._consume()
        return self.completion()

    def text_deltas(self) -> Iterator[str]:
        """The text of choice 0 as it arrives, without empty pieces."""
        self._check_not_consumed()
        return iter(self._next_text, None)

    def _next_text(self) -> str:
        while not (text := next(self).text):
            pass
        return text

    def events(self) -> "Iterator[ChatCompletionEvent]":
        """What arrives, as typed events, then what went wrong, if anything did; see `chunkfold.events`.

        Instead of iterating over the chunks: what was read for the one is not handed out by the other. The first
        events tell what has arrived so far; another call goes on where the last one stopped.
        """
        self._check_not_consumed()
        return iter(self._next_event, None)

    @overload
    def partials(
        self, type: builtins.type[ModelT], *, half_numbers: bool = False
    ) -> Iterator[ModelT | dict[str, Any]]: ...
    @overload
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> Iterator[Any]: ...
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> Iterator[Any]:
        """The JSON that the text of choice 0 is: what is known of it after each piece, and at last the whole value.

        What is shown when, `PartialJSON` says. The last value is that of `message.parse(type)`.

        Raises:
            ParseError: The text is no JSON, is cut, or does not fit the type.
            ChunkfoldError: The stream did not end well.
        """
        from chunkfold.partials import Partials  # only for those who want them

        partials = Partials(self._parser, type, half_numbers=half_numbers)
        self._check_not_consumed()
        return iter(partial(self._next_partial, partials), object())

    def _next_event(self) -> "ChatCompletionEvent":
        while True:
            for event in self._ready_events:
                return event
            events = self._parser.events()
            if not events and (self.end is not None or self._closed):
                break
            if not events:
                self._read()
            self._ready_events = iter(events)
        self._consume()
        raise StopIteration

    def _next_partial(self, partials: "Partials") -> Any:
        events: Iterator[ChatCompletionEvent] = iter(self._next_event, None)
        for event in events:
            for value in partials.after(event):
                return value
        for value in partials.last():
            return value
        raise StopIteration

    def _read(self, *, folding: bool = False) -> list[ChatCompletionChunk]:
        self._check_nobody_reads()
        if self._slices is not None:
            return self._take_slice()
        self._reading = True
        try:
            data = next(self._source)
        except StopIteration:
            return self._end_of_source()
        except Exception as exc:  # noqa: BLE001 - whatever a transport raises, it interrupted the stream
            return self._parser.interrupt(exc)
        except BaseException as exc:
            self._cut_short = exc
            raise
        finally:
            self._reading = False
            if self._closed:  # meanwhile, by another thread, which could not close a source that was being read
                with suppress(Exception):
                    close_if_possible(self._source)
        self._cut_short = None  # if it was, the source survived it
        if folding or type(data) is not bytes or len(data) > SLICE:
            return self._take(data, folding=folding)
        return self._parser.feed(data)

    def _consume(self) -> None:
        """The last chunk was handed out: raise what went wrong, once."""
        if self._consumed:
            return
        self._consumed = True
        if self.error is not None:
            self._close(may_wait=False)
            raise self.error

    def _close(self, *, may_wait: bool) -> None:
        if self._closed:
            return
        self._closed = True
        # What a transport raises while it is closed is no news: how the stream ended is known.
        try:
            self._leave()
            if may_wait and self._may_drain():
                drain(self._response, self._source)
        finally:
            try:
                with suppress(Exception):
                    if not self._reading:
                        close_if_possible(self._source)
            finally:
                if self._response is not None:
                    with suppress(Exception):
                        self._response.close()


class AsyncChatCompletionStream(_Stream):
    """Iterate over the chunks of an async response, or of any async iterable of bytes; on asyncio and trio.

    The same as `ChatCompletionStream`, with `async for`, `async with`, `await stream.read()` and `aclose`.

    Args:
        source: A response with `aiter_bytes`, or an async iterable of bytes in pieces of any size.
        options: Those of `ChatCompletionParser`; status and headers are the response's own.

    Raises:
        ChunkfoldError: From iterating and from `read`: how the stream failed.
    """

    def __init__(self, source: AsyncResponse | AsyncIterable[bytes], **options: Unpack[ParserOptions]) -> None:
        super().__init__(source, "aiter_bytes", options)
        data: Any = self._response.aiter_bytes() if self._response is not None else source
        self._source: AsyncIterator[bytes] = aiter(data)

    def __aiter__(self) -> Self:
        self._check_not_consumed()
        return self

    async def __anext__(self) -> ChatCompletionChunk:
        while True:
            for chunk in self._ready:
                return chunk
            if self._parser.end is not None or self._closed:
                break
            self._ready = iter(await self._read())
        await self._consume()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close(may_wait=exc is None)

    async def aclose(self) -> None:
        """Close the response. Before the end this leaves the stream; afterwards it changes nothing."""
        await self._close(may_wait=True)

    async def read(self) -> ChatCompletion:
        """Read the rest and return the completion.

        Raises:
            ChunkfoldError: The stream did not end well; its `snapshot` has what arrived.
        """
        if not (self._consumed or self._closed):
            while self.end is None:
                await self._read(folding=True)
            self._ready = iter(())
            await self._consume()
        return self.completion()

    def text_deltas(self) -> AsyncIterator[str]:
        """The text of choice 0 as it arrives, without empty pieces."""
        self._check_not_consumed()
        return _AsyncView(self._next_text)

    def events(self) -> "AsyncIterator[ChatCompletionEvent]":
        """What arrives, as typed events, then what went wrong, if anything did; see `ChatCompletionStream.events`."""
        self._check_not_consumed()
        return _AsyncView(self._next_event)

    @overload
    def partials(
        self, type: builtins.type[ModelT], *, half_numbers: bool = False
    ) -> AsyncIterator[ModelT | dict[str, Any]]: ...
    @overload
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> AsyncIterator[Any]: ...
    def partials(self, type: Any = None, *, half_numbers: bool = False) -> AsyncIterator[Any]:
        """The JSON that the text of choice 0 is, while it is written; see `ChatCompletionStream.partials`."""
        from chunkfold.partials import Partials  # only for those who want them

        partials = Partials(self._parser, type, half_numbers=half_numbers)
        self._check_not_consumed()
        return _AsyncView(partial(self._next_partial, partials))

    async def _next_text(self) -> str:
        while not (text := (await anext(self)).text):
            pass
        return text

    async def _next_partial(self, partials: "Partials") -> Any:
        async for event in _AsyncView(self._next_event):
            for value in partials.after(event):
                return value
        for value in partials.last():
            return value
        raise StopAsyncIteration

    async def _next_event(self) -> "ChatCompletionEvent":
        while True:
            for event in self._ready_events:
                return event
            events = self._parser.events()
            if not events and (self.end is not None or self._closed):
                break
            if not events:
                await self._read()
            self._ready_events = iter(events)
        await self._consume()
        raise StopAsyncIteration

    async def _read(self, *, folding: bool = False) -> list[ChatCompletionChunk]:
        self._check_nobody_reads()
        if self._slices is not None:
            return self._take_slice()
        self._reading = True
        try:
            data = await anext(self._source)
        except StopAsyncIteration:
            return self._end_of_source()
        except Exception as exc:  # noqa: BLE001 - whatever a transport raises, it interrupted the stream
            return self._parser.interrupt(exc)
        except BaseException as exc:
            self._cut_short = exc
            raise
        finally:
            self._reading = False
            if self._closed:  # meanwhile, by another task, which could not close a source that was being read
                with suppress(Exception):
                    await aclose_if_possible(self._source)
        self._cut_short = None  # if it was, the source survived it
        if folding or type(data) is not bytes or len(data) > SLICE:
            return self._take(data, folding=folding)
        return self._parser.feed(data)

    async def _consume(self) -> None:
        """The last chunk was handed out: raise what went wrong, once."""
        if self._consumed:
            return
        self._consumed = True
        if self.error is not None:
            await self._close(may_wait=False)
            raise self.error

    async def _close(self, *, may_wait: bool) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._leave()
        finally:
            patience = new_patience() if may_wait and self._may_drain() else None
            letting_go = self._let_go(patience)
            if self._response is None:
                await letting_go  # a plain iterable may insist on the task that began it
            else:
                await shielded(letting_go, hurry=patience.cancel if patience is not None else None)

    async def _let_go(self, patience: "anyio.CancelScope | None") -> None:
        # What a transport raises while it is closed is no news: how the stream ended is known.
        try:
            if patience is not None:
                await drain_async(self._source, patience)
        finally:
            try:
                with suppress(Exception):
                    if not self._reading:
                        await aclose_if_possible(self._source)
            finally:
                if self._response is not None:
                    with suppress(Exception):
                        await self._response.aclose()


def connect(
    client: Any, method: str, url: Any, *, json: Mapping[str, Any], **options: Any
) -> AbstractContextManager[ChatCompletionStream]:
    """Send a streamed request; a context manager that gives the `ChatCompletionStream` and closes it.

    Args:
        client: An `httpx.Client`, an `httpx2.Client`, or anything with their `stream` method.
        method: The HTTP method, "POST" as a rule.
        url: The URL of the chat completions endpoint.
        json: The request's body; `"stream": true` is added to a copy.
        options: The parser's options (all but `status_code` and `headers`, which are the response's) and the
            client's request options (`headers`, `timeout`, ...). `Accept: text/event-stream` and
            `Accept-Encoding: identity` are added to a copy of the headers, unless given.

    Raises:
        Exception: What the client raises while it opens the request passes unchanged. A status that is not 2xx is
            raised as `APIStatusError` by the first read.
    """
    parser_options, request = split_options(json, options)
    return _connect(client, method, url, request, parser_options)


def aconnect(
    client: Any, method: str, url: Any, *, json: Mapping[str, Any], **options: Any
) -> AbstractAsyncContextManager[AsyncChatCompletionStream]:
    """Send a streamed request with an async client; see `connect`."""
    parser_options, request = split_options(json, options)
    return _AsyncConnection(client, method, url, request, parser_options)


@contextmanager
def _connect(
    client: Any, method: str, url: Any, request: dict[str, Any], options: ParserOptions
) -> Generator[ChatCompletionStream]:
    clock = options.get("clock", time.monotonic)
    options["started"] = started = clock()
    with client.stream(method, url, **request) as response, ChatCompletionStream(response, **options) as stream:
        stream.timing.headers = clock() - started
        yield stream


class _AsyncConnection(AbstractAsyncContextManager[AsyncChatCompletionStream]):
    """A class, so that one that is still open when the event loop ends leaves no generator behind."""

    def __init__(self, client: Any, method: str, url: Any, request: dict[str, Any], options: ParserOptions) -> None:
        self._client = client
        self._method = method
        self._url = url
        self._request = request
        self._options = options
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> AsyncChatCompletionStream:
        clock = self._options.get("clock", time.monotonic)
        self._options["started"] = started = clock()
        async with AsyncExitStack() as stack:
            opening = self._client.stream(self._method, self._url, **self._request)
            response = await stack.enter_async_context(opening)
            stream = await stack.enter_async_context(AsyncChatCompletionStream(response, **self._options))
            stream.timing.headers = clock() - started
            self._opened = stack.pop_all()
        return stream

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(exc_type, exc, traceback)
