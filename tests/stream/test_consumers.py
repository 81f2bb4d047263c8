"""Consumers: whoever reads a stream may leave, fail, be cancelled or drop it anywhere, and nothing stays behind.

Over a real socket, both libraries, sync code, asyncio and trio. Each test runs in `spotless`, which compares before and
after: sockets, tasks, and what is only told to a hook, a log or as a warning. Most also run in `asked`, which looks at
the responses and the pool. What `test_stream` and `test_connect` show of closing is not shown again.

To cancel anywhere, a coroutine is run by `Driven`, which counts its awaits and acts at the k-th; each k has its turn,
until one is so large that everything runs through.
"""

import asyncio
import gc
import logging
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, ClassVar, Self

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
import trio
from fronts import (
    ALONE,
    ASKED,
    LIBRARIES,
    PATIENCE,
    Sync,
    connections_in_use,
    each_library,
    has_left,
    over_both_streams,
    send,
)
from measured_memory import only_garbage_of_these_tests

from chunkfold import (
    APIError,
    AsyncChatCompletionStream,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    aconnect,
    connect,
)
from chunkfold.stream import network
from chunkfold.stream.network import run_to_completion
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, delta, event, paced

pytest_generate_tests = over_both_streams
library = each_library
collecting_is_quick = only_garbage_of_these_tests

APART = 0.001  # seconds between two pieces that are to be read one by one

TEXTS = ["[1, ", "2, ", "3]"]
NUMBERS = [delta(content=text) for text in TEXTS]
STOP = delta("stop")
COUNTED = [*NUMBERS, STOP, DONE]
ERROR = event({"error": {"message": "overloaded", "code": 503}})


def apart(pieces: list[bytes]) -> list[bytes | float]:
    return paced(pieces, first=APART, pace=APART)


# Both fronts


class SyncConnect:
    """`connect` as an async context manager; a class, so that it adds no generator to those that are looked at."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.opening = connect(*arguments, **options)

    async def __aenter__(self) -> Sync:
        return Sync.of(self.opening.__enter__())

    async def __aexit__(self, *exc_info: Any) -> bool | None:  # noqa: PYI036 - handed on as it is
        return self.opening.__exit__(*exc_info)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "chunks": aiter,
    "text_deltas": lambda stream: stream.text_deltas(),
    "events": lambda stream: stream.events(),
    "partials": lambda stream: stream.partials(),
}
every_view = pytest.mark.parametrize("view", VIEWS)


# Nothing stays behind


def open_sockets() -> set[str]:
    """The sockets of this process; none where nobody tells."""
    links: set[str] = set()
    if sys.platform == "linux":
        for descriptor in os.scandir("/proc/self/fd"):
            with suppress(OSError):  # that of the listing itself
                links.add(os.readlink(descriptor.path))  # noqa: PTH115 - pathlib takes far longer
    return {link for link in links if link.startswith("socket:")}


def living_tasks() -> int | set[Any]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living if trio.lowlevel.in_trio_run() else 0


class Told(logging.Handler):
    """What is told to nobody in particular."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def hear(self, *context: Any) -> None:
        self.messages.append(repr(context))


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Hear what goes to hooks and logs."""
    told = Told()
    unraisable, thread_failure = sys.unraisablehook, threading.excepthook
    sys.unraisablehook, threading.excepthook = told.hear, told.hear
    loggers = [logging.getLogger(name) for name in ("asyncio", "trio")]
    for logger in loggers:
        logger.addHandler(told)
    try:
        yield told.messages
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, thread_failure
        for logger in loggers:
            logger.removeHandler(told)


# httpx nests async generators and closes only the outermost, whoever reads it: trio says so of those that were not
# exhausted. They are named here, so that a generator of chunkfold's own would be seen.
OWN_TO_HTTPX = re.compile(r"Async generator 'http(x|core)2?\.")


@contextmanager
def spotless() -> Iterator[None]:
    """Nothing stays behind."""
    gc.freeze()  # so that collecting looks at nothing but what comes now
    sockets = open_sockets()
    with hearing() as told, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    noise = [str(warning.message) for warning in warned]
    assert [text for text in noise if not OWN_TO_HTTPX.match(text)] == []
    assert told == []
    assert open_sockets() <= sockets


@asynccontextmanager
async def spotless_loop() -> AsyncIterator[None]:
    """Nothing stays behind, in the event loop either."""
    tasks = living_tasks()
    loop = asyncio.get_running_loop() if isinstance(tasks, set) else None
    handler = loop and loop.get_exception_handler()
    told: list[Any] = []
    with spotless():
        if loop is not None:
            loop.set_exception_handler(lambda _, context: told.append(context))
        try:
            yield
            gc.collect()
            for _ in range(20):  # the event loop ends what generators were left to it
                await anyio.lowlevel.checkpoint()
        finally:
            if loop is not None:
                loop.set_exception_handler(handler)
    assert living_tasks() == tasks
    assert told == []


def send_sync(client: Any, url: str) -> Any:
    return client.send(client.build_request("POST", url, json=ASKED), stream=True)


@dataclass
class Asked:
    """A provider, a client, and the streams that were opened with it."""

    front: Any
    library: Any
    provider: FakeProvider
    client: Any
    streams: list[Any] = field(default_factory=list)
    may_keep: bool = False  # whether a connection may stay in use until the client is closed

    @property
    def request(self) -> ReceivedRequest:
        return self.provider.requests[0]

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Any]:
        opening = SyncConnect if self.front is Sync else aconnect
        async with opening(self.client, "POST", self.provider.url, json=ASKED, **options) as stream:
            self.streams.append(stream)
            yield stream

    async def open(self, **options: Any) -> Any:
        """A stream that nobody else closes."""
        stream = self.front(await send(self.client, self.provider.url), **options)
        self.streams.append(stream)
        return stream

    async def check(self) -> None:
        """All is closed, and the client goes on: with the one connection it may have."""
        for stream in self.streams:
            assert stream.end is not None
            assert stream.response.is_closed
        if self.may_keep:
            return
        assert connections_in_use(self.client) == []
        assert self.client._transport._pool._requests == []
        again = self.client.stream("GET", self.provider.url)
        if self.front is Sync:
            with again:
                pass
        else:
            async with again:
                pass


@asynccontextmanager
async def asked(library: Any, front: Any, *answers: Answer, **options: Any) -> AsyncIterator[Asked]:
    """Answers to read; on the way out, nothing stays behind."""
    options = {**ALONE, "limits": library.Limits(max_connections=1), **options}
    async with spotless_loop():
        with FakeProvider(*answers) as provider:
            client = (library.Client if front is Sync else library.AsyncClient)(**options)
            to = Asked(front, library, provider, client)
            try:
                yield to
                await to.check()
            finally:
                with anyio.CancelScope(shield=True):
                    await to.client.aclose() if front is not Sync else to.client.close()
                to.streams.clear()


# Leaving


@pytest.mark.parametrize(
    ("view", "count"), [("chunks", 0), ("chunks", 3), *((view, 1) for view in VIEWS), ("events", 3)]
)
async def test_leaving_after_some_items(library: Any, front: Any, view: str, count: int) -> None:
    async with asked(library, front, Answer([*apart(NUMBERS), math.inf])) as to:
        async with to.connect() as stream:
            items = VIEWS[view](stream)
            for _ in range(count):
                await anext(items)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)
        with pytest.raises(IncompleteStreamError):
            stream.completion()
        with pytest.raises(StreamConsumedError):
            VIEWS[view](stream)


@every_view
async def test_leaving_at_the_last_item(library: Any, front: Any, view: str) -> None:
    """The finish reason has come, `[DONE]` has not: the message is whole."""
    async with asked(library, front, Answer([*apart(NUMBERS[:2]), APART, NUMBERS[2] + STOP, APART, DONE])) as to:
        async with to.connect() as stream:
            items = VIEWS[view](stream)
            for _ in range(3):
                await anext(items)
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert stream.completion().text == "[1, 2, 3]"


@every_view
async def test_reading_the_rest(library: Any, front: Any, view: str) -> None:
    async with asked(library, front, Answer(apart(COUNTED))) as to:
        async with to.connect() as stream:
            items = VIEWS[view](stream)
            await anext(items)
            assert (await stream.read()).text == "[1, 2, 3]"
            with pytest.raises(StreamConsumedError):
                VIEWS[view](stream)
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)


class Mine(BaseException):
    """An exception of the consumer's own."""


async def fail_in_the_loop(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect() as stream:
        async for _ in VIEWS[view](stream):
            raise mine


async def fail_at_once(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect():
        raise mine


async def fail_after_done(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect() as stream:
        async for _ in VIEWS[view](stream):
            pass
        raise mine


KINDS = [KeyError, Mine, KeyboardInterrupt, SystemExit, asyncio.CancelledError, TimeoutError, GeneratorExit]


@pytest.mark.parametrize(
    ("view", "kind", "fail"),
    [
        *(("chunks", kind, fail_in_the_loop) for kind in KINDS),
        *((view, KeyboardInterrupt, fail_in_the_loop) for view in [*VIEWS][1:]),
        *(("chunks", kind, fail_after_done) for kind in (KeyError, KeyboardInterrupt)),
        ("chunks", KeyError, fail_at_once),
    ],
)
async def test_an_exception_of_the_consumer_passes_unchanged(
    library: Any, front: Any, view: str, kind: type[BaseException], fail: Callable[..., Awaitable[None]]
) -> None:
    mine, is_over = kind("mine"), fail is fail_after_done
    async with asked(library, front, Answer(COUNTED, ending="open") if is_over else Answer([*NUMBERS, math.inf])) as to:
        with pytest.raises(kind) as caught:
            await fail(to, view, mine)
        assert caught.value is mine
        assert (mine.__cause__, mine.__context__) == (None, None)
        (stream,) = to.streams
        assert (stream.end, stream.error) == (StreamEnd.FINISHED if is_over else StreamEnd.CLOSED, None)
        assert has_left(to.request)
        del caught


async def read_with(to: Asked, **options: Any) -> None:
    async with to.connect(**options) as stream:
        await stream.read()


@pytest.mark.parametrize("repeats", [1, 2000], ids=["small", "large"])
async def test_an_exception_of_on_event_passes_unchanged(library: Any, front: Any, repeats: int) -> None:
    """A large read is parsed in slices: leaving does not call again what has failed."""
    mine = KeyError("mine")
    calls: list[int] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise mine

    async with asked(library, front, Answer([b"".join(NUMBERS * repeats), math.inf])) as to:
        with pytest.raises(KeyError) as caught:
            await read_with(to, on_server_sent_event=on_server_sent_event)
        assert caught.value is mine
        assert (mine.__cause__, mine.__context__) == (None, None)
        (stream,) = to.streams
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert calls == [0, 1]
        del caught


async def test_an_option_that_fails_when_it_is_used_closes_what_was_opened(library: Any, front: Any) -> None:
    times = {0: 0.0}  # which is not enough
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        with pytest.raises(KeyError):
            await read_with(to, clock=lambda: times.pop(0))
        assert has_left(to.request)


async def test_closing_again_does_not_touch_the_next_stream(library: Any, front: Any) -> None:
    """The connection was given back, and belongs to another."""
    async with asked(library, front, Answer(COUNTED), Answer(apart(COUNTED))) as to:
        async with to.connect() as first:
            await first.read()
        async with to.connect() as second:
            await anext(aiter(second))
            await first.aclose()
            await first.response.aclose() if front is not Sync else first.response.close()
            assert (await second.read()).text == "[1, 2, 3]"
        assert to.provider.connections == 1


async def test_closing_inside_another_stream_of_the_same_client(library: Any, front: Any) -> None:
    answers = [Answer([*NUMBERS, math.inf]), Answer(apart(COUNTED))]
    async with asked(library, front, *answers, limits=library.Limits(max_connections=2)) as to:
        first = await to.open()
        await anext(aiter(first))
        async with to.connect() as second:
            await anext(aiter(second))
            await first.aclose()
            await first.aclose()
            assert (await second.read()).text == "[1, 2, 3]"
        assert (first.end, second.end) == (StreamEnd.CLOSED, StreamEnd.FINISHED)
        assert has_left(to.request)


@pytest.mark.parametrize(("view", "repeats"), [*((view, 1) for view in VIEWS), ("chunks", 2000), ("events", 2000)])
async def test_closing_in_the_loop_ends_it(library: Any, front: Any, view: str, repeats: int) -> None:
    taken: list[Any] = []
    async with asked(library, front, Answer([b"".join(NUMBERS[:1] + [NUMBERS[1]] * repeats), math.inf])) as to:
        async with to.connect() as stream:
            with anyio.fail_after(PATIENCE):
                async for item in VIEWS[view](stream):
                    taken.append(item)
                    await stream.aclose()
        assert len(taken) == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


@pytest.mark.parametrize("repeats", [1, 2000], ids=["small", "large"])
@pytest.mark.parametrize("folding", [True, False])
def test_closing_in_on_event_ends_the_loop(library: Any, repeats: int, folding: bool) -> None:
    """In the middle of what is being parsed."""
    calls: list[int] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            stream.close()

    with asked_sync(library, Answer([b"".join(NUMBERS * repeats), math.inf])) as (client, provider):
        stream = ChatCompletionStream(send_sync(client, provider.url), on_server_sent_event=on_server_sent_event)
        with stream, pytest.raises(IncompleteStreamError) if folding else nullcontext():
            stream.read() if folding else list(stream)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert calls == [0, 1]
        assert has_left(provider.requests[0])


# A generator of the consumer's own around it


async def texts_from(to: Asked) -> AsyncIterator[str]:
    async with to.connect() as stream:
        async for text in stream.text_deltas():
            yield text


async def test_leaving_a_generator_around_the_stream(library: Any, front: Any) -> None:
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        async with aclosing(texts_from(to)) as texts:
            async for _ in texts:
                break
        assert [stream.end for stream in to.streams] == [StreamEnd.CLOSED]
        assert has_left(to.request)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio says what it thinks of such a generator
async def test_dropping_a_generator_around_the_stream(library: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        async for _ in texts_from(to):
            break
        with anyio.fail_after(PATIENCE):
            while not to.request.answered.is_set():
                await anyio.lowlevel.checkpoint()
        assert [stream.end for stream in to.streams] == [StreamEnd.CLOSED]
        assert has_left(to.request)


def sync_texts_of(client: Any, url: str, streams: list[Any]) -> Iterator[str]:
    with connect(client, "POST", url, json=ASKED) as stream:
        streams.append(stream)
        yield from stream.text_deltas()


@pytest.mark.parametrize("closes", [True, False], ids=["closing", "dropping"])
def test_leaving_a_sync_generator_around_the_stream(library: Any, closes: bool) -> None:
    streams: list[Any] = []
    with asked_sync(library, Answer([*NUMBERS, math.inf])) as (client, provider):
        texts = sync_texts_of(client, provider.url, streams)
        with closing(texts) if closes else nullcontext():
            assert next(texts) == TEXTS[0]
        del texts
        gc.collect()
        assert [(stream.end, stream.response.is_closed) for stream in streams] == [(StreamEnd.CLOSED, True)]
        assert has_left(provider.requests[0])
        streams.clear()


async def test_a_stream_that_is_entered_in_one_task_and_left_in_another(library: Any, anyio_backend: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer(COUNTED)) as to:
        opening = to.connect()
        entered = anyio.Event()

        async def enter_and_read() -> None:
            await (await opening.__aenter__()).read()
            entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter_and_read)
            await entered.wait()
            await opening.__aexit__(None, None, None)
        assert [stream.end for stream in to.streams] == [StreamEnd.FINISHED]


# Closing while another reads


async def drop_items(items: Any) -> None:
    async for _ in items:
        pass


async def has_read(stream: Any, texts: list[str]) -> None:
    """Wait until another task has read these texts, and waits for more."""
    while stream.snapshot.text != "".join(texts):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(("view", "texts"), [("chunks", []), *((view, TEXTS) for view in VIEWS), ("read", TEXTS)])
async def test_closing_from_another_task_ends_the_loop(library: Any, view: str, texts: list[str]) -> None:
    """The loop just ends: whoever closed knows why. Only `read` raises, since it has no completion to return."""
    failures: list[type[ChunkfoldError]] = []

    async def use(stream: Any) -> None:
        try:
            await (stream.read() if view == "read" else drop_items(VIEWS[view](stream)))
        except ChunkfoldError as error:
            failures.append(type(error))

    pieces = [b": hello\n\n", *NUMBERS[: len(texts)], math.inf]
    async with asked(library, AsyncChatCompletionStream, Answer(pieces)) as to:
        with anyio.fail_after(PATIENCE):
            async with to.connect() as stream, anyio.create_task_group() as tasks:
                tasks.start_soon(use, stream)
                await has_read(stream, texts)
                await stream.aclose()
        assert failures == ([IncompleteStreamError] if view == "read" else [])
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


async def test_closing_the_client_under_the_reader(library: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:

        async def close_the_client() -> None:
            while not to.streams or to.streams[0].snapshot.text != "[1, 2, 3]":
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            await to.client.aclose()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close_the_client)
                with pytest.raises(StreamInterruptedError):
                    await read_with(to)
        assert [stream.end for stream in to.streams] == [StreamEnd.INTERRUPTED]
        assert has_left(to.request)
        to.client = library.AsyncClient(**ALONE)  # what is checked at the end is of another


class WatchedReads:
    """A response's network stream, of which each read is told before it begins."""

    def __init__(self, response: Any, before: Callable[[], object]) -> None:
        self.read = response.extensions["network_stream"].read
        self.before = before
        response.extensions["network_stream"].read = self

    def __call__(self, max_bytes: int, timeout: float | None = None) -> Any:
        self.before()
        return self.read(max_bytes, timeout)


def test_closing_from_another_thread_during_the_wait_after_done(library: Any) -> None:
    """The second to close does not wait, and does not disturb the first."""
    with (
        spotless(),
        FakeProvider(Answer(COUNTED, ending="open")) as provider,
        library.Client(**ALONE) as client,
    ):
        waiting = threading.Event()
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            WatchedReads(stream.response, lambda: waiting.set() if stream.end else None)

            def close() -> None:
                assert waiting.wait(PATIENCE)
                stream.close()
                stream.close()

            other = threading.Thread(target=close, name="closer")
            other.start()
            assert stream.read().text == "[1, 2, 3]"
        other.join(PATIENCE)
        assert not other.is_alive()
        assert stream.response.is_closed
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert has_left(provider.requests[0])


async def close_it(to: Asked, stream: Any) -> None:
    await stream.aclose()


async def close_its_response(to: Asked, stream: Any) -> None:
    await stream.response.aclose()


async def close_its_client(to: Asked, stream: Any) -> None:
    await to.client.aclose()
    to.client = to.library.AsyncClient(**ALONE)  # what is checked at the end is of another


async def iterate_over_it(to: Asked, stream: Any) -> None:
    with pytest.raises(StreamConsumedError):
        aiter(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.parametrize("meanwhile", [close_it, close_its_response, close_its_client, iterate_over_it])
async def test_another_task_during_the_wait_after_done(
    library: Any, meanwhile: Callable[[Asked, Any], Awaitable[None]]
) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer(COUNTED, ending="open")) as to:
        with anyio.fail_after(PATIENCE):
            stream = await to.open()
            await stream.read()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.aclose)
                await anyio.wait_all_tasks_blocked()
                await meanwhile(to, stream)
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert stream.completion().text == "[1, 2, 3]"
        assert has_left(to.request)


# Two that read one stream


async def test_two_tasks_that_read_at_once() -> None:
    """The second is told so. The first gets every chunk, and never an end that is none."""
    go_on = anyio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield NUMBERS[0]
        await go_on.wait()
        for piece in COUNTED[1:]:
            yield piece

    texts: list[str] = []

    async def consume() -> None:
        texts.extend([chunk.text async for chunk in stream])

    async with spotless_loop():
        stream = AsyncChatCompletionStream(pieces())
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                await anyio.wait_all_tasks_blocked()
                try:
                    with pytest.raises((ChunkfoldError, RuntimeError)) as caught:
                        await anext(stream)
                finally:
                    go_on.set()
        assert not isinstance(caught.value, IncompleteStreamError)  # which would be worth a retry
        assert texts == [*TEXTS, ""]
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        await stream.aclose()
        del caught


def test_two_threads_that_read_at_once() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        yield NUMBERS[0]
        waiting.set()
        assert go_on.wait(PATIENCE)
        yield from COUNTED[1:]

    texts: list[str] = []
    with spotless():
        stream = ChatCompletionStream(pieces())
        first = threading.Thread(target=lambda: texts.extend(chunk.text for chunk in stream), name="first")
        first.start()
        assert waiting.wait(PATIENCE)
        try:
            with pytest.raises((ChunkfoldError, RuntimeError)) as caught:
                next(stream)
        finally:
            go_on.set()
            first.join(PATIENCE)
        assert not isinstance(caught.value, IncompleteStreamError)
        assert texts == [*TEXTS, ""]
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        del caught


# Cancelled anywhere


class Driven:
    """Run a coroutine, and act when it comes to its k-th await.

    Args:
        coroutine: What is run.
        place: k, from 1 on.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None], place: int) -> None:
        self.coroutine = coroutine
        self.place = place
        self.awaits = 0
        self.act: Callable[[Any], object] = lambda trap: None
        self.was_in: set[tuple[str, str]] = set()  # the functions that were left by an exception

    @property
    def reached(self) -> bool:
        """Whether there was a k-th await."""
        return self.awaits >= self.place

    @property
    def is_kept_by_httpx(self) -> bool:
        """Whether a task was cancelled where httpx keeps a new connection for good: as it waits for its own lock of it.

        A scope is shielded there, but not from asyncio's own `Task.cancel`.
        """
        return self.was_in >= {
            ("httpcore", "AsyncConnectionPool.handle_async_request"),
            ("httpcore", "AsyncLock.__aenter__"),
        }

    def __await__(self) -> Generator[Any, Any, None]:
        resume: Callable[[Any], Any] = self.coroutine.send
        value: Any = None
        while True:
            try:
                trap = resume(value)
            except StopIteration:
                return
            except BaseException as error:
                frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
                names = [(f.f_globals["__name__"].partition(".")[0], f.f_code.co_qualname) for f in frames]
                self.was_in.update(names)
                raise
            self.awaits += 1
            if self.awaits == self.place:
                self.act(trap)
            try:
                value = yield trap
            except BaseException as error:  # noqa: BLE001 - handed on
                resume, value = self.coroutine.throw, error
            else:
                resume = self.coroutine.send


@dataclass
class Cancelling:
    """How the coroutine is cancelled."""

    backend: str
    run: Callable[[Driven], Awaitable[bool]]  # returns whether it was cancelled


async def cancel_the_task(driven: Driven) -> bool:
    """By `Task.cancel`, as it begins to wait."""
    return await run_as_task(driven, lambda task, _: task.cancel())


async def cancel_the_woken_task(driven: Driven) -> bool:
    """By `Task.cancel`, after what it waits for has come, before it knows."""

    def act(task: asyncio.Task[None], trap: Any) -> None:
        if isinstance(trap, asyncio.Future):
            trap.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()

    return await run_as_task(driven, act)


async def run_as_task(driven: Driven, act: Callable[[asyncio.Task[None], Any], object]) -> bool:
    async def run() -> None:
        await driven

    task = asyncio.create_task(run())
    driven.act = lambda trap: act(task, trap)
    await asyncio.wait([task], timeout=PATIENCE)
    if not task.cancelled():
        task.result()
        assert not driven.reached  # a task that is cancelled is cancelled, whatever happens meanwhile
    return task.cancelled()


async def cancel_the_scope(driven: Driven) -> bool:
    with anyio.CancelScope() as scope:
        driven.act = lambda trap: scope.cancel()
        await driven
    return scope.cancelled_caught


CANCELLINGS = {
    "task": Cancelling("asyncio", cancel_the_task),
    "woken task": Cancelling("asyncio", cancel_the_woken_task),
    "asyncio scope": Cancelling("asyncio", cancel_the_scope),
    "trio scope": Cancelling("trio", cancel_the_scope),
}
every_cancelling = pytest.mark.parametrize(
    ("cancelling", "anyio_backend"),
    [(cancelling, cancelling.backend) for cancelling in CANCELLINGS.values()],
    ids=CANCELLINGS,
)
# Over one library each; over the other one `slow`.
every_cancelling_over_both = pytest.mark.parametrize(
    ("cancelling", "anyio_backend", "library"),
    [
        pytest.param(one, one.backend, library, id=f"{name}-{key}", marks=() if (n + m) % 2 == 0 else pytest.mark.slow)
        for n, (name, one) in enumerate(CANCELLINGS.items())
        for m, (key, library) in enumerate(LIBRARIES.items())
    ],
)
# Over one library each.
every_cancelling_by_turns = pytest.mark.parametrize(
    ("cancelling", "anyio_backend", "library"),
    [
        (cancelling, cancelling.backend, library)
        for cancelling, library in zip(CANCELLINGS.values(), [*LIBRARIES.values()] * 2, strict=True)
    ],
    ids=CANCELLINGS,
)
SOON = [*apart(NUMBERS[:1]), APART, STOP, APART, DONE, APART]


async def at_each_await(once: Callable[[int], Awaitable[bool]]) -> None:
    """Do something once for each place, until it runs through.

    Args:
        once: What is done; it is given the place and returns whether that was reached.
    """
    place = 1
    for _ in range(100):
        with anyio.fail_after(PATIENCE):
            if await once(place):
                place += 1
            elif place > 1:  # else all came in one read, for once
                return
    pytest.fail("it never ran through" if place > 1 else "nothing was awaited")


async def cancel_everywhere(
    library: Any,
    answer: Answer,
    cancelling: Cancelling,
    use: Callable[[Asked], Coroutine[Any, Any, None]],
    prepare: Callable[[Asked], Awaitable[None]] | None = None,
) -> list[StreamEnd]:
    """Cancel a use at each of its awaits in turn; return how the streams ended that were opened until then."""
    ends: list[StreamEnd] = []

    async def once(place: int) -> bool:
        async with asked(library, AsyncChatCompletionStream, answer) as to:
            if prepare is not None:
                await prepare(to)
            driven = Driven(use(to), place)
            assert await cancelling.run(driven) <= driven.reached
            to.may_keep = driven.is_kept_by_httpx
            for stream in to.streams:
                assert stream.error is None or stream.end is StreamEnd.FAILED
                if stream.error is None:
                    is_whole = stream.snapshot.finish_reason is not None
                    assert stream.end is (StreamEnd.FINISHED if is_whole else StreamEnd.CLOSED)
                ends.append(stream.end)
        return driven.reached

    await at_each_await(once)
    return ends


async def use_it_whole(to: Asked) -> None:
    async with to.connect() as stream:
        async for _ in stream:
            pass


async def read_it_whole(to: Asked) -> None:
    async with await to.open() as stream:
        await stream.read()


async def leave_it(to: Asked) -> None:
    async with to.connect() as stream:
        async for _ in stream:
            break


async def leave_its_events(to: Asked) -> None:
    async with await to.open() as stream:
        async for _ in stream.events():
            break


async def see_it_fail(to: Asked) -> None:
    with suppress(APIError):
        async with to.connect() as stream:
            async for _ in stream.partials():
                pass


@every_cancelling_over_both
async def test_cancelled_anywhere(library: Any, cancelling: Cancelling) -> None:
    """From opening the connection to the wait after `[DONE]`."""
    ends = await cancel_everywhere(library, Answer(SOON), cancelling, use_it_whole)
    assert StreamEnd.FINISHED in ends


@every_cancelling_over_both
async def test_cancelled_anywhere_while_leaving(library: Any, cancelling: Cancelling) -> None:
    ends = await cancel_everywhere(library, Answer([*SOON[:2], math.inf]), cancelling, leave_it)
    assert set(ends) == {StreamEnd.CLOSED}


@pytest.mark.slow
@every_cancelling_by_turns
@pytest.mark.parametrize("use", [read_it_whole, leave_its_events], ids=["read", "events"])
async def test_cancelled_anywhere_without_connect(
    library: Any, cancelling: Cancelling, use: Callable[[Asked], Coroutine[Any, Any, None]]
) -> None:
    """Between sending the request and entering the stream nothing awaits."""
    assert await cancel_everywhere(library, Answer(SOON), cancelling, use)


@pytest.mark.slow
@every_cancelling_by_turns
async def test_cancelled_anywhere_on_the_way_to_an_error(library: Any, cancelling: Cancelling) -> None:
    answer = Answer([*SOON[:2], APART, ERROR, math.inf])
    ends = await cancel_everywhere(library, answer, cancelling, see_it_fail)
    assert StreamEnd.FAILED in ends


@pytest.mark.slow
@every_cancelling
@pytest.mark.parametrize("seconds", [0.0, 0.002])
async def test_cancelled_anywhere_as_the_wait_after_done_is_over(
    library: Any, cancelling: Cancelling, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own end is a cancellation, too; the other one is not lost for it."""
    monkeypatch.setattr(network, "MAX_WAIT_FOR_END", seconds)
    assert await cancel_everywhere(library, Answer(SOON, ending="open"), cancelling, use_it_whole)


async def open_it(to: Asked) -> None:
    await to.open()


async def read_to_the_first(to: Asked) -> None:
    await anext(aiter(await to.open()))


async def read_to_done(to: Asked) -> None:
    await (await to.open()).read()


async def close_the_last(to: Asked) -> None:
    await to.streams[-1].aclose()


@every_cancelling_by_turns
@pytest.mark.parametrize("prepare", [open_it, read_to_the_first, read_to_done], ids=["unread", "begun", "done"])
async def test_closing_that_is_cancelled_anywhere(
    library: Any, cancelling: Cancelling, prepare: Callable[[Asked], Awaitable[None]]
) -> None:
    """It is closed all the same, and closing it again changes nothing."""

    async def close_twice(to: Asked) -> None:
        try:
            await close_the_last(to)
        finally:
            assert to.streams[-1].response.is_closed
            await close_the_last(to)

    answer = Answer(SOON if prepare is read_to_done else [*SOON[:2], math.inf])
    ends = await cancel_everywhere(library, answer, cancelling, close_twice, prepare)
    assert set(ends) == {StreamEnd.FINISHED if prepare is read_to_done else StreamEnd.CLOSED}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_closing_that_is_cancelled_waits_no_longer_for_the_end_of_the_body(
    library: Any, anyio_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On asyncio the closing is a task of its own, which nobody cancels."""
    monkeypatch.setattr(network, "MAX_WAIT_FOR_END", math.inf)
    async with asked(library, AsyncChatCompletionStream, Answer(SOON, ending="open"), timeout=None) as to:
        stream = await to.open()
        await stream.read()
        closing = asyncio.create_task(stream.aclose())
        await anyio.wait_all_tasks_blocked()
        closing.cancel()
        await asyncio.wait((closing,), timeout=PATIENCE)
        assert closing.cancelled()
        assert not stream.connection_was_kept


async def test_the_end_of_a_body_is_waited_for_100_ms_at_most() -> None:
    for seconds in (0.05, 5.0, math.inf):
        with network.end_of_body_scope(seconds) as scope:
            assert scope.deadline <= anyio.current_time() + min(seconds, 0.1)


@pytest.mark.parametrize("shield", [True, False])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_scope_that_is_cancelled_does_not_wake_the_closing_in_every_turn_of_the_event_loop(
    anyio_backend: Any, shield: bool
) -> None:
    cancelled: list[None] = []

    async def several_turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_to_completion(several_turns(), on_cancel=lambda: cancelled.append(None), shield=shield)
    assert len(cancelled) == (0 if shield else 1)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_work_raises_once_it_is_cancelled_is_not_logged(
    anyio_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled, logged = asyncio.Event(), []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_exception_handler", logged.append)

    async def fails() -> None:
        await cancelled.wait()
        raise KeyError("the work's own")

    task = asyncio.create_task(run_to_completion(fails(), on_cancel=cancelled.set))
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert logged == []


async def test_closing_that_is_cancelled_anywhere_lets_the_reader_go(library: Any, anyio_backend: Any) -> None:
    async def once(place: int) -> bool:
        async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
            stream = await to.open()
            driven = Driven(stream.aclose(), place)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(drop_items, aiter(stream))
                await has_read(stream, TEXTS)
                await cancel_the_scope(driven)
            assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
            assert has_left(to.request)
        return driven.reached

    await at_each_await(once)


LOSES_IT = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="httpcore shields its closing with anyio's scope alone, which a second Task.cancel() gets through",
)


@pytest.mark.parametrize(
    ("library", "anyio_backend"),
    [pytest.param(httpx, "asyncio", marks=LOSES_IT), (httpx2, "asyncio")],
    ids=["httpx", "httpx2"],
)
async def test_a_second_cancellation_as_the_client_closes_after_the_first(library: Any) -> None:
    """The first hits a read: the client closes the connection itself, before anybody else knows."""
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        driven = Driven(use_it_whole(to), sys.maxsize)

        async def use() -> None:
            await driven

        task = asyncio.create_task(use())
        driven.act = lambda trap: task.cancel()
        while not to.streams or to.streams[0].snapshot.text != "[1, 2, 3]":
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        driven.place = driven.awaits + 1
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        assert (task.cancelled(), driven.reached) == (True, True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_as_the_client_closes_after_the_time_to_drain(library: Any) -> None:
    async def once(place: int) -> bool:
        async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
            stream = await to.open()
            await read_two(aiter(stream))
            driven = Driven(drain_shortly(stream), place)

            async def use() -> None:
                await driven

            task = asyncio.create_task(use())
            driven.act = lambda trap: task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled() or not driven.reached
            assert stream.end is StreamEnd.CLOSED
        return driven.reached

    await at_each_await(once)


async def drain_shortly(stream: Any) -> None:
    await stream.drain(0.02)


async def read_two(items: Any) -> None:
    await anext(items)
    await anext(items)


@every_cancelling_by_turns
@every_view
async def test_going_on_after_a_cancelled_read(library: Any, cancelling: Cancelling, view: str) -> None:
    """Either all is there, or it is said that something is missing."""

    async def once(place: int) -> bool:
        async with asked(library, AsyncChatCompletionStream, Answer(apart(COUNTED))) as to:
            async with to.connect() as stream:
                items = VIEWS[view](stream)
                driven = Driven(read_two(items), place)
                was_cancelled = await cancelling.run(driven)
                with pytest.raises(StreamInterruptedError) if was_cancelled else nullcontext():
                    async for _ in items:
                        pass
            assert stream.end is (StreamEnd.INTERRUPTED if was_cancelled else StreamEnd.FINISHED)
            assert was_cancelled or stream.completion().text == "[1, 2, 3]"
            to.may_keep = driven.is_kept_by_httpx
        return driven.reached

    await at_each_await(once)


# Deadlines


@asynccontextmanager
async def asyncio_timeout() -> AsyncIterator[Callable[[], None]]:
    async with asyncio.timeout(None) as timeout:
        yield lambda: timeout.reschedule(asyncio.get_running_loop().time() + APART)


@asynccontextmanager
async def anyio_scope() -> AsyncIterator[Callable[[], None]]:
    with anyio.CancelScope() as scope:
        yield lambda: setattr(scope, "deadline", anyio.current_time() + APART)


@asynccontextmanager
async def trio_scope() -> AsyncIterator[Callable[[], None]]:
    with trio.CancelScope() as scope:
        yield lambda: setattr(scope, "deadline", trio.current_time() + APART)


every_deadline = pytest.mark.parametrize(
    ("deadline", "anyio_backend", "library"),
    [
        (asyncio_timeout, "asyncio", httpx),
        (anyio_scope, "asyncio", httpx2),
        (anyio_scope, "trio", httpx),
        (trio_scope, "trio", httpx2),
    ],
)


@every_deadline
@every_view
async def test_a_deadline_around_the_stream(library: Any, deadline: Any, view: str) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        with anyio.fail_after(PATIENCE), suppress(TimeoutError):
            async with deadline() as is_near, to.connect() as stream:
                async for _ in VIEWS[view](stream):
                    is_near()
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


@every_deadline
async def test_a_deadline_around_the_loop(library: Any, deadline: Any) -> None:
    """The stream is still there, and says that its read was cut short."""
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        async with to.connect() as stream:
            with anyio.fail_after(PATIENCE), suppress(TimeoutError):
                async with deadline() as is_near:
                    async for _ in stream:
                        if stream.snapshot.text == "[1, 2, 3]":
                            is_near()
            assert (stream.end, stream.error) == (None, None)
            assert stream.snapshot.text == "[1, 2, 3]"
            with pytest.raises(StreamInterruptedError):
                await stream.read()
        assert stream.end is StreamEnd.INTERRUPTED
        assert has_left(to.request)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_waiting_for_one_item_and_no_longer(library: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        async with to.connect() as stream:
            for _ in TEXTS:
                await asyncio.wait_for(anext(stream), PATIENCE)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), APART)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_read_that_is_looked_at_now_and_then(library: Any) -> None:
    """To do something else while a read goes on, it is not cancelled but made a task."""
    texts: list[str] = []
    async with asked(library, AsyncChatCompletionStream, Answer(apart(COUNTED))) as to:
        async with to.connect() as stream:
            while stream.end is None:
                read = asyncio.ensure_future(anext(stream, None))
                while not read.done():
                    await asyncio.wait({read}, timeout=APART / 4)
                if (chunk := read.result()) is not None:
                    texts.append(chunk.text)
        assert texts == [*TEXTS, ""]
        assert stream.completion().text == "[1, 2, 3]"


# Several tasks, one client


async def test_cancelled_tasks_beside_others_of_one_client(library: Any, anyio_backend: Any) -> None:
    """Each of twenty is cancelled at another await; those that are not cancelled get all of theirs."""
    answers = [Answer(apart(COUNTED))] * 30
    async with asked(library, AsyncChatCompletionStream, *answers, limits=library.Limits(max_connections=None)) as to:
        texts: list[str] = []

        async def consume() -> None:
            async with to.connect() as stream:
                texts.append((await stream.read()).text)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for place in range(1, 21):
                    tasks.start_soon(cancel_the_scope, Driven(consume(), place))
                for _ in range(10):
                    tasks.start_soon(consume)
        assert set(texts) == {"[1, 2, 3]"}
        assert len(texts) >= 10
        assert {stream.end for stream in to.streams} <= {StreamEnd.CLOSED, StreamEnd.FINISHED}


async def test_a_failure_beside_the_stream_cancels_it(library: Any, anyio_backend: Any) -> None:
    mine = KeyError("mine")

    async def fail_soon(stream: Any) -> None:
        while stream.snapshot.text != "[1, 2, 3]":
            await anyio.lowlevel.checkpoint()
        raise mine

    async def read_beside_it(to: Asked) -> None:
        async with anyio.create_task_group() as tasks, to.connect() as stream:
            tasks.start_soon(fail_soon, stream)
            await stream.read()

    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        with anyio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as caught:
            await read_beside_it(to)
        assert caught.value.exceptions == (mine,)
        assert [stream.end for stream in to.streams] == [StreamEnd.CLOSED]
        assert has_left(to.request)
        del caught


# Interrupted anywhere


@contextmanager
def asked_sync(library: Any, answer: Answer) -> Iterator[tuple[Any, FakeProvider]]:
    """A client and a provider; on the way out, nothing stays behind."""
    options = {**ALONE, "limits": library.Limits(max_connections=1)}
    with spotless(), FakeProvider(answer) as provider, library.Client(**options) as client:
        yield client, provider
        assert client._transport._pool._requests == []
        with client.stream("GET", provider.url):  # the one connection is free
            pass


class Interrupting:
    """Inside `with`, acts once where a signal handler or a thread could: as a function begins, or behind a call.

    Args:
        act: Called at the place.
        place: A number from 1 on.
        modules: The modules whose functions count.
    """

    def __init__(self, act: Callable[[], object], place: int, modules: Iterable[str]) -> None:
        self.act = act
        self.place = place
        self.places = 0
        self.files = {sys.modules[name].__file__ for name in modules}

    def __enter__(self) -> None:
        sys.setprofile(self)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_filename in self.files and event in ("call", "c_return") and not is_ignored_in(frame):
            self.places += 1
            if self.places == self.place:
                self.act()


def raising(error: BaseException) -> Callable[[], None]:
    """What a signal handler may do."""

    def act() -> None:
        raise error

    return act


def is_ignored_in(frame: FrameType) -> bool:
    """Whether Python may ignore an exception there: while an object is deleted, or a generator is closed."""
    callers = frame.f_code.co_name, frame.f_back.f_code.co_name if frame.f_back is not None else ""
    return "__del__" in callers or "<genexpr>" in callers


MODULES = [f"chunkfold.stream.{name}" for name in ("connection", "driver", "sync", "network", "responses", "reuse")]


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [True, False], ids=["leaving", "whole"])
def test_interrupted_anywhere(library: Any, leaves: bool) -> None:
    """`connect` closes the response wherever it happens."""
    for place in range(1, 500):
        mine = KeyboardInterrupt()
        interrupting = Interrupting(raising(mine), place, MODULES)
        seen: list[Any] = []
        raised: BaseException | None = None
        with asked_sync(library, Answer(SOON)) as (client, provider):
            try:
                with interrupting, connect(client, "POST", provider.url, json=ASKED) as stream:
                    seen.append(stream)
                    for _ in stream:
                        if leaves:
                            break
            except KeyboardInterrupt as error:
                raised = error
            if interrupting.places < place:
                assert raised is None
                return
            assert raised is mine
            for stream in seen:
                assert stream.response.is_closed
                assert stream.error is None
                assert stream.end in (None, StreamEnd.CLOSED, StreamEnd.FINISHED)  # None as `close` was to begin
            raised = None
    pytest.fail("it never ran through")


def test_interrupted_in_any_read(library: Any) -> None:
    """By whom nobody else closes; from the first read to the wait after `[DONE]`."""
    ends: list[Any] = []
    for place in range(1, 50):
        mine = KeyboardInterrupt()
        reads: list[int] = []

        def before(reads: list[int] = reads, place: int = place, mine: BaseException = mine) -> None:
            reads.append(1)
            if len(reads) == place:
                raise mine

        raised: BaseException | None = None
        with asked_sync(library, Answer(SOON)) as (client, provider):
            response = send_sync(client, provider.url)
            watched = WatchedReads(response, before)
            try:
                with ChatCompletionStream(response) as stream:
                    for _ in stream:
                        pass
            except KeyboardInterrupt as error:
                raised = error
            watched.before = lambda: None  # the connection may be used again
            assert raised is (mine if len(reads) >= place else None)
            assert response.is_closed
            assert stream.error is None
            is_whole = stream.snapshot.finish_reason is not None
            assert stream.end is (StreamEnd.FINISHED if is_whole else StreamEnd.CLOSED)
            ends.append(stream.end)
            raised = None
        if len(reads) < place:
            assert StreamEnd.FINISHED in ends
            return
    pytest.fail("it never ran through")


@every_view
def test_going_on_after_an_interrupted_read(library: Any, view: str) -> None:
    """It is not the end of the stream."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    views: dict[str, Callable[[ChatCompletionStream], Iterator[Any]]] = {**VIEWS, "chunks": iter}
    with asked_sync(library, Answer([*apart(NUMBERS[:1]), math.inf])) as (client, provider):
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            items = views[view](stream)
            next(items)
            WatchedReads(stream.response, interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(items)
            with pytest.raises(StreamInterruptedError) as caught:
                list(items)
            assert isinstance(caught.value.__cause__, KeyboardInterrupt)
            del caught
        assert stream.end is StreamEnd.INTERRUPTED


def by_hand(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never has to wait."""
    with suppress(StopIteration):
        work.send(None)
        pytest.fail("it waits")


async def all_chunks(stream: AsyncChatCompletionStream) -> None:
    async for _ in stream:
        pass


class Each(AsyncIterator[bytes]):
    """Pieces without waiting; not a generator, since Python 3.13 warns of its next item if nothing awaits it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.left = iter(pieces)

    def __anext__(self) -> "NextOf":
        return NextOf(self.left)


class NextOf:
    def __init__(self, left: Iterator[bytes]) -> None:
        self.left = left

    def __await__(self) -> Generator[Any, Any, bytes]:
        yield from ()
        for piece in self.left:
            return piece
        raise StopAsyncIteration


# How a stream over some pieces is made, and how all of it is read
READ_BY: dict[str, tuple[Callable[[list[bytes]], Any], Callable[[Any], object]]] = {
    "chunks": (ChatCompletionStream, list),
    "events": (ChatCompletionStream, lambda stream: list(stream.events())),
    "read": (ChatCompletionStream, ChatCompletionStream.read),
    "async chunks": (
        lambda pieces: AsyncChatCompletionStream(Each(pieces)),
        lambda stream: by_hand(all_chunks(stream)),
    ),
    "async read": (lambda pieces: AsyncChatCompletionStream(Each(pieces)), lambda stream: by_hand(stream.read())),
}


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("way", READ_BY)
def test_going_on_after_an_interrupt_anywhere(way: str, large: bool) -> None:
    """In the stream or the parser: a stream that ends well has all of its text, and none of it twice."""
    make, use = READ_BY[way]
    pieces = [NUMBERS[0] * 600, *COUNTED[1:]] if large else COUNTED
    text = "".join(TEXTS[:1] * (600 if large else 1) + TEXTS[1:])
    modules = [name for name in sys.modules if name.startswith("chunkfold.")]
    ends: set[StreamEnd | None] = set()
    for place in range(1, 10**6, 499 if large else 1):
        interrupting = Interrupting(raising(KeyboardInterrupt()), place, modules)
        stream = make(pieces)
        with suppress(KeyboardInterrupt), interrupting:
            use(stream)
        told = ""
        try:
            use(stream)
        except (StreamConsumedError, IncompleteStreamError) as error:
            told = str(error)
        assert "another task" not in told
        ends.add(stream.end)
        assert stream.end in (StreamEnd.FINISHED, StreamEnd.CLOSED)
        assert text == stream.snapshot.text if stream.end.complete else text.startswith(stream.snapshot.text)
        if interrupting.places < place:
            assert len(ends) == 2
            return
    pytest.fail("it never ran through")


@pytest.mark.parametrize("use", [list, ChatCompletionStream.read])
def test_another_thread_that_reads_anywhere(use: Callable[[ChatCompletionStream], object]) -> None:
    """It reads on, or it gets an error: in both cases the stream has all of its text."""
    modules = [*MODULES, "chunkfold.parser.lifecycle", "chunkfold.fold.text_buffer"]

    def read() -> None:
        with suppress(StreamConsumedError):
            stream.read()

    def act() -> None:
        other = threading.Thread(target=read, name="other")
        other.start()
        other.join(PATIENCE)

    for place in range(1, 10**6):
        visiting = Interrupting(act, place, modules)
        stream = ChatCompletionStream(COUNTED)
        with suppress(StreamConsumedError), visiting:
            use(stream)
        assert (stream.end, stream.snapshot.text) == (StreamEnd.FINISHED, "".join(TEXTS))
        if visiting.places < place:
            return
    pytest.fail("it never ran through")


def interrupt_soon(begun: threading.Event) -> None:
    """Ctrl-C, a moment after the first item."""
    assert begun.wait(PATIENCE)
    time.sleep(0.02)
    assert threading.main_thread().ident is not None
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def use_sync(library: Any, url: str, begun: threading.Event, streams: list[Any]) -> None:
    with (
        library.Client(**ALONE) as client,
        connect(client, "POST", url, json=ASKED) as stream,
    ):
        streams.append(stream)
        for _ in stream:
            begun.set()


async def use_async(library: Any, url: str, begun: threading.Event, streams: list[Any]) -> None:
    async with (
        library.AsyncClient(**ALONE) as client,
        aconnect(client, "POST", url, json=ASKED) as stream,
    ):
        streams.append(stream)
        async for _ in stream:
            begun.set()


RUNS: dict[str, Callable[..., None]] = {
    "sync": use_sync,
    "asyncio": lambda *arguments: asyncio.run(use_async(*arguments)),
    "trio": lambda *arguments: trio.run(use_async, *arguments),
}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal between threads")
@pytest.mark.parametrize("run", RUNS)
def test_ctrl_c(library: Any, run: str) -> None:
    streams: list[Any] = []
    begun = threading.Event()
    with spotless(), FakeProvider(Answer([*NUMBERS[:1], math.inf])) as provider:
        presser = threading.Thread(target=interrupt_soon, args=(begun,), name="presser")
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            RUNS[run](library, provider.url, begun, streams)
        presser.join(PATIENCE)
        (stream,) = streams
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert stream.response.is_closed
        assert has_left(provider.requests[0])
        streams.clear()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_closing_in_a_signal_handler(library: Any) -> None:
    """In the thread that reads, in the middle of its read: the loop ends."""
    begun = threading.Event()
    with asked_sync(library, Answer([*NUMBERS[:1], math.inf])) as (client, provider):
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            before = signal.signal(signal.SIGINT, lambda *_: stream.close())
            presser = threading.Thread(target=interrupt_soon, args=(begun,), name="presser")
            presser.start()
            try:
                for _ in stream:
                    begun.set()
            finally:
                presser.join(PATIENCE)
                signal.signal(signal.SIGINT, before)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(provider.requests[0])


def test_a_task_that_reads_as_the_event_loop_ends(library: Any) -> None:
    """It is cancelled, and closes its stream."""
    streams: list[Any] = []
    begun = threading.Event()

    async def main(url: str) -> asyncio.Task[None]:
        task = asyncio.create_task(use_async(library, url, begun, streams))
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        return task

    with spotless(), FakeProvider(Answer([*NUMBERS[:1], math.inf])) as provider:
        assert asyncio.run(main(provider.url)).cancelled()
        (stream,) = streams
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert stream.response.is_closed
        assert has_left(provider.requests[0])
        streams.clear()


# Closing that fails


class Unwilling:
    """A response, of both fronts, that raises when its body is closed, or it is closed itself.

    Args:
        of_body: What closing the body raises.
        of_response: What closing the response raises.
        on_read: What happens in the first read.
    """

    status_code = 200
    headers: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        of_body: BaseException | None = None,
        of_response: BaseException | None = None,
        on_read: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.of_body = of_body
        self.of_response = of_response
        self.on_read = on_read
        self.closings = 0

    def iter_bytes(self) -> "UnwillingBody":
        return UnwillingBody(self)

    aiter_bytes = iter_bytes

    def close(self) -> None:
        self.closings += 1
        if self.of_response is not None:
            raise self.of_response

    async def aclose(self) -> None:
        self.close()


class UnwillingBody:
    """Its body."""

    def __init__(self, response: Unwilling) -> None:
        self.response = response

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> bytes:
        if self.response.on_read is not None:
            with suppress(StopIteration):  # what it awaits is sync code, too
                self.response.on_read().send(None)
        return NUMBERS[0]

    async def __anext__(self) -> bytes:
        if self.response.on_read is not None:
            await self.response.on_read()
        return NUMBERS[0]

    def close(self) -> None:
        if self.response.of_body is not None:
            raise self.response.of_body

    async def aclose(self) -> None:
        self.close()


@pytest.mark.parametrize("failing", ["body", "response"])
@pytest.mark.parametrize("kind", [OSError, Mine])
async def test_closing_that_fails(front: Any, kind: type[BaseException], failing: str) -> None:
    """What a transport raises is no news; what is no `Exception` passes. The response is closed in any case."""
    mine = kind("mine")
    async with spotless_loop():
        response = Unwilling(**{f"of_{failing}": mine})
        raised: BaseException | None = None
        try:
            async with front(response) as stream:
                await anext(aiter(stream))
        except Mine as error:
            raised = error
        assert raised is (mine if kind is Mine else None)
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        raised = None


class Unfinished(UnwillingBody):
    """A body whose methods to close it cannot even be read."""

    @property
    def close(self) -> Any:
        raise OSError("mine")

    aclose = close


async def test_closing_that_cannot_be_read(front: Any) -> None:
    async with front(Unfinished(Unwilling())) as stream:
        await anext(aiter(stream))
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


async def test_a_body_that_cannot_be_closed_after_its_stream_was(front: Any) -> None:
    """It is closed by whoever reads it, when closing came during a read; that it fails is no news then either."""
    async with spotless_loop():

        async def close() -> None:
            await stream.aclose()

        response = Unwilling(of_body=OSError("mine"), on_read=close)
        stream = front(response)
        async for _ in stream:
            pytest.fail("it was closed")
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


# Dropped


@contextmanager
def dropping() -> Iterator[list[str]]:
    """What is said of streams that are dropped inside, and of nothing else."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield said
        gc.collect()
    assert {warning.category for warning in warned} <= {ResourceWarning}
    said += [text for warning in warned if not OWN_TO_HTTPX.match(text := str(warning.message))]


async def read_nothing(stream: Any) -> None:
    pass


async def read_one(stream: Any) -> None:
    await anext(aiter(stream))


async def read_an_event(stream: Any) -> None:
    await anext(stream.events())


async def read_to_the_finish_reason(stream: Any) -> None:
    async for chunk in stream:
        if chunk.choices[0].finish_reason:
            break


@pytest.mark.parametrize("use", [read_nothing, read_one, read_an_event, read_to_the_finish_reason])
async def test_dropping_a_stream_that_is_open(library: Any, front: Any, use: Callable[[Any], Awaitable[None]]) -> None:
    async with asked(library, front, Answer([*apart(COUNTED[:-1]), math.inf])) as to:
        to.may_keep = True  # the connection is free when the client is closed
        stream = await to.open()
        await use(stream)
        with dropping() as said:
            to.streams.clear()
            del stream
        (text,) = said
        assert text.startswith("unclosed ")
        assert "[1" not in text  # nothing of the content


async def read_all(stream: Any) -> None:
    await stream.read()


async def iterate_over_all(stream: Any) -> None:
    async for _ in stream:
        pass


async def close(stream: Any) -> None:
    await stream.aclose()


async def read_one_and_close(stream: Any) -> None:
    await read_one(stream)
    await stream.aclose()


async def close_the_response(stream: Any) -> None:
    await read_one(stream)
    closing = stream.response.close() if isinstance(stream, Sync) else stream.response.aclose()
    await closing if closing is not None else None


async def see_the_error(stream: Any) -> None:
    with pytest.raises(APIError):
        await stream.read()


@pytest.mark.parametrize(
    "use", [read_all, iterate_over_all, close, read_one_and_close, close_the_response, see_the_error]
)
async def test_dropping_a_stream_that_is_over(library: Any, front: Any, use: Callable[[Any], Awaitable[None]]) -> None:
    answer = Answer([*NUMBERS, ERROR, math.inf] if use is see_the_error else apart(COUNTED))
    async with asked(library, front, answer) as to:
        to.may_keep = True
        stream = await to.open()
        await use(stream)
        with dropping() as said:
            to.streams.clear()
            del stream
        assert said == []


async def test_dropping_a_stream_over_an_iterable(front: Any) -> None:
    async def async_pieces() -> AsyncIterator[bytes]:
        for piece in COUNTED:
            yield piece

    async with spotless_loop():
        for read in (read_nothing, read_one):
            source = iter(COUNTED) if front is Sync else async_pieces()
            stream = front(source)
            await read(stream)
            with dropping() as said:
                del stream
            assert said == []
            if front is not Sync:
                await source.aclose()


async def test_a_stream_that_could_not_be_made(library: Any, front: Any) -> None:
    """There is nothing to close, and whoever has the response keeps it."""
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        with dropping() as said:
            with pytest.raises(TypeError):
                front(b"data: x")
            with pytest.raises(TypeError):
                front(5)
            with pytest.raises(TypeError):
                await to.open(no_option=1)
        assert said == []
        to.may_keep = True


LEFT_OPEN = """
import asyncio, importlib, math, sys
from chunkfold import AsyncChatCompletionStream
from chunkfold.testing import Answer, FakeProvider

async def main(library, use):
    if backend == "asyncio":
        asyncio.get_running_loop().slow_callback_duration = 60
    with FakeProvider(Answer([{first!r}, math.inf])) as provider:
        async with library.AsyncClient(trust_env=False, verify=False) as client:
            response = await client.send(client.build_request("POST", provider.url), stream=True)
            stream = AsyncChatCompletionStream(response)
            if use == "half read":
                async for chunk in stream:
                    break
            elif use == "its events":
                async for event in stream.events():
                    break

backend = sys.argv[1]
for name in ("httpx", "httpx2"):
    for use in ("unread", "half read", "its events"):
        if backend == "asyncio":
            asyncio.run(main(importlib.import_module(name), use))
        else:
            import trio
            trio.run(main, importlib.import_module(name), use)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_that_is_still_open_as_the_event_loop_ends(backend: str) -> None:
    """A warning for each, and no word besides."""
    options = ["-X", "dev", "-W", "always::ResourceWarning"]
    script = LEFT_OPEN.format(first=NUMBERS[0])
    done = subprocess.run(
        [sys.executable, *options, "-c", script, backend], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    hint = "ResourceWarning: Enable tracemalloc to get the object allocation traceback"
    said = [line for line in done.stderr.splitlines() if line != hint and not line.startswith("  ")]  # a line of code
    if backend == "trio":
        said = [line for line in said if not OWN_TO_HTTPX.search(line)]
    assert [line.partition("ResourceWarning: ")[2][:9] for line in said] == ["unclosed "] * 6, done.stderr
