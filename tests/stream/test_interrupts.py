"""Interrupted anywhere: a signal or another thread in the middle of sync or async code."""

import asyncio
import inspect
import math
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from asked import COUNTED, NUMBERS, SOON, TEXTS, VIEWS, WatchedReads, apart, asked_sync, every_view, send_sync
from fronts import ALONE, ASKED, PATIENCE, has_left, over_both_streams
from spotless import spotless

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionStream,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    aconnect,
    connect,
)
from chunkfold.testing import Answer, FakeProvider

pytest_generate_tests = over_both_streams


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


def test_nothing_waits_for_a_lock() -> None:
    """On Python 3.14, what a signal handler raises can come between `with lock` and its block: it stays locked."""
    assert [name for name in MODULES if "Lock" in inspect.getsource(sys.modules[name])] == []


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

    def __anext__(self) -> "Each":
        return self

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


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("way", READ_BY)
def test_going_on_after_an_interrupt_anywhere(way: str, large: bool, step: int) -> None:
    """In the stream or the parser: a stream that ends well has all of its text, and none of it twice."""
    make, use = READ_BY[way]
    pieces = [NUMBERS[0] * 200, *COUNTED[1:]] if large else COUNTED  # which is several slices
    text = "".join(TEXTS[:1] * (200 if large else 1) + TEXTS[1:])
    modules = [name for name in sys.modules if name.startswith("chunkfold.")]
    ends: set[StreamEnd | None] = set()
    # The ways have most of their places in common: each begins at another one.
    for place in range(1 + [*READ_BY].index(way), 10**6, step * (67 if large else 1)):
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


@contextmanager
def interrupting_soon() -> Iterator[threading.Event]:
    """Ctrl-C, a moment after the event was set for the first item."""
    begun = threading.Event()

    def press() -> None:
        assert begun.wait(PATIENCE)
        time.sleep(0.02)  # so that it waits for the next item; wherever it comes, the result is the same
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=press, name="presser")
    presser.start()
    try:
        yield begun
    finally:
        presser.join(PATIENCE)


def use_sync(library: Any, url: str, begun: threading.Event, streams: list[Any]) -> None:
    with library.Client(**ALONE) as client, connect(client, "POST", url, json=ASKED) as stream:
        streams.append(stream)
        for _ in stream:
            begun.set()


async def use_async(library: Any, url: str, begun: threading.Event, streams: list[Any]) -> None:
    async with library.AsyncClient(**ALONE) as client, aconnect(client, "POST", url, json=ASKED) as stream:
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
    with spotless(), FakeProvider(Answer([*NUMBERS[:1], math.inf])) as provider:
        with pytest.raises(KeyboardInterrupt), interrupting_soon() as begun:
            RUNS[run](library, provider.url, begun, streams)
        (stream,) = streams
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert stream.response.is_closed
        assert has_left(provider.requests[0])
        streams.clear()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_closing_in_a_signal_handler(library: Any) -> None:
    """In the thread that reads, in the middle of its read: the loop ends."""
    with asked_sync(library, Answer([*NUMBERS[:1], math.inf])) as (client, provider):
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            before = signal.signal(signal.SIGINT, lambda *_: stream.close())
            try:
                with interrupting_soon() as begun:
                    for _ in stream:
                        begun.set()
            finally:
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
