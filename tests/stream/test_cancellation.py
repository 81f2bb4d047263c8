"""Cancelled anywhere: at each await in turn, while it is read or closed.

To cancel anywhere, a coroutine is run by `Driven`, which counts its awaits and acts at the k-th; each k has its turn,
until one is so large that everything runs through.
"""

import asyncio
import gc
import math
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
from asked import APART, COUNTED, NUMBERS, SOON, TEXTS, VIEWS, Asked, apart, asked, drop_items, every_view, has_read
from fronts import LIBRARIES, PATIENCE, has_left, over_both_streams
from sources import ERROR

from chunkfold import APIError, AsyncChatCompletionStream, StreamEnd, StreamInterruptedError
from chunkfold.stream import network
from chunkfold.stream.network import run_to_completion
from chunkfold.testing import Answer

pytest_generate_tests = over_both_streams


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
        """Whether a task was cancelled where httpx keeps a connection for good.

        That is as it waits for its own lock of a new one, and as it closes a response whose body has ended. A scope is
        shielded there, but not from asyncio's own `Task.cancel`.
        """
        waits_for_lock = {
            ("httpcore", "AsyncConnectionPool.handle_async_request"),
            ("httpcore", "AsyncLock.__aenter__"),
        }
        return self.was_in >= waits_for_lock or ("httpcore", "AsyncHTTP11Connection._response_closed") in self.was_in

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
# Over one library each; over the other one `slow`.
every_cancelling = pytest.mark.parametrize(
    ("cancelling", "anyio_backend", "library"),
    [
        pytest.param(one, one.backend, library, id=f"{name}-{key}", marks=() if (n + m) % 2 == 0 else pytest.mark.slow)
        for n, (name, one) in enumerate(CANCELLINGS.items())
        for m, (key, library) in enumerate(LIBRARIES.items())
    ],
)


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


Use = Callable[[Asked], Coroutine[Any, Any, None]]


async def cancel_everywhere(
    library: Any,
    answer: Answer,
    cancelling: Cancelling,
    use: Use,
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
        await drop_items(stream)


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
            await drop_items(stream.partials())


# What comes, how it is used, and how the stream ends that nobody cancels.
USES = [
    pytest.param(SOON, use_it_whole, StreamEnd.FINISHED, id="from opening to the wait after [DONE]"),
    # Without `[DONE]` it is the client that closes the response, inside of the read.
    pytest.param(SOON[:-2], use_it_whole, StreamEnd.FINISHED, id="as the body ends"),
    pytest.param([*SOON[:2], math.inf], leave_it, StreamEnd.CLOSED, id="while leaving"),
    # Between sending the request and entering the stream nothing awaits.
    pytest.param(SOON, read_it_whole, StreamEnd.FINISHED, id="read without connect", marks=pytest.mark.slow),
    pytest.param(SOON, leave_its_events, StreamEnd.CLOSED, id="events without connect", marks=pytest.mark.slow),
    pytest.param(
        [*SOON[:2], APART, ERROR, math.inf], see_it_fail, StreamEnd.FAILED, id="an error", marks=pytest.mark.slow
    ),
]


@every_cancelling
@pytest.mark.parametrize(("pieces", "use", "end"), USES)
async def test_cancelled_anywhere(
    library: Any, cancelling: Cancelling, pieces: list[Any], use: Use, end: StreamEnd
) -> None:
    ends = await cancel_everywhere(library, Answer(pieces), cancelling, use)
    assert ends[-1] is end
    assert set(ends) <= {StreamEnd.CLOSED, end}


@pytest.mark.slow
@every_cancelling
@pytest.mark.parametrize("seconds", [0.0, 0.002])
async def test_cancelled_anywhere_as_the_wait_after_done_is_over(
    library: Any, cancelling: Cancelling, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own end is a cancellation, too; the other one is not lost for it."""
    monkeypatch.setattr(network, "MAX_WAIT_FOR_END", seconds)
    assert await cancel_everywhere(library, Answer(SOON, ending="open"), cancelling, use_it_whole)


async def read_to_the_first(to: Asked) -> None:
    await anext(aiter(await to.open()))


async def read_to_done(to: Asked) -> None:
    await (await to.open()).read()


async def close_the_last(to: Asked) -> None:
    await to.streams[-1].aclose()


@every_cancelling
@pytest.mark.parametrize("prepare", [Asked.open, read_to_the_first, read_to_done], ids=["unread", "begun", "done"])
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
        inner = SimpleNamespace(cancel=lambda: cancelled.append(None))
        await run_to_completion(several_turns(), object(), inner, shield=shield)
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

    task = asyncio.create_task(run_to_completion(fails(), object(), SimpleNamespace(cancel=cancelled.set)))
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


async def take_two(to: Asked) -> None:
    await read_two(aiter(await to.open()))


@every_cancelling
async def test_a_drain_that_is_cancelled_anywhere(library: Any, cancelling: Cancelling) -> None:
    """In a read, or as the client closes once the time is over."""
    answer = Answer([*NUMBERS, math.inf])
    ends = await cancel_everywhere(library, answer, cancelling, lambda to: to.streams[-1].drain(0.02), take_two)
    assert set(ends) == {StreamEnd.CLOSED}


async def test_a_drain_that_is_cancelled_by_a_scope_ends_at_once(library: Any, anyio_backend: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf]), timeout=None) as to:
        stream = await to.open()
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.drain, 2 * PATIENCE)
                await has_read(stream, TEXTS)
                scope.cancel()
        assert scope.cancelled_caught


async def read_two(items: Any) -> None:
    await anext(items)
    await anext(items)


@every_cancelling
@every_view
async def test_going_on_after_a_cancelled_read(library: Any, cancelling: Cancelling, view: str) -> None:
    """As after a deadline: either all is there, or it is said that something is missing."""

    async def once(place: int) -> bool:
        async with asked(library, AsyncChatCompletionStream, Answer(apart(COUNTED))) as to:
            async with to.connect() as stream:
                items = VIEWS[view](stream)
                driven = Driven(read_two(items), place)
                was_cancelled = await cancelling.run(driven)
                assert not was_cancelled or (stream.end, stream.error) == (None, None)
                with pytest.raises(StreamInterruptedError) if was_cancelled else nullcontext():
                    await drop_items(items)
            assert stream.end is (StreamEnd.INTERRUPTED if was_cancelled else StreamEnd.FINISHED)
            assert was_cancelled or stream.completion().text == "[1, 2, 3]"
            to.may_keep = driven.is_kept_by_httpx
        return driven.reached

    await at_each_await(once)
