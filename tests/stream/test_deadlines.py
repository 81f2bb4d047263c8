"""Deadlines around a stream, its loop or one of its items."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
import trio
from asked import APART, COUNTED, NUMBERS, TEXTS, VIEWS, apart, asked, every_view
from fronts import PATIENCE, has_left, over_both_streams

from chunkfold import AsyncChatCompletionStream, StreamEnd, StreamInterruptedError
from chunkfold.testing import Answer

pytest_generate_tests = over_both_streams


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
