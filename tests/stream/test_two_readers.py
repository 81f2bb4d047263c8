"""Two that read one stream at once: the second is refused, and the first gets all."""

import math
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from asked import COUNTED, NUMBERS, TEXTS
from fronts import PATIENCE, generators_of_httpx_are_not_ours, over_both_streams
from sources import HELLO, WOR, collect, stopped_after_the_first
from spotless import spotless, spotless_loop

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
)

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


async def test_draining_what_another_task_reads(library: Any) -> None:
    front = AsyncChatCompletionStream
    async with stopped_after_the_first(library, front, WOR, math.inf) as stream:
        texts: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, stream, texts)
            while not texts:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StreamConsumedError, match="another task"):
                await stream.drain()
            assert stream.end is None
            await stream.aclose()
        assert texts == [" wor"]
        assert (await stream.drain()).text == "Hello wor"


async def test_reading_what_another_task_drains() -> None:
    """The error has what arrived so far, and the drain goes on."""

    async def pieces() -> AsyncIterator[bytes]:
        yield HELLO
        await anyio.sleep_forever()

    stream = AsyncChatCompletionStream(pieces())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.drain, PATIENCE)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(IncompleteStreamError) as caught:
            await stream.read()
        assert (caught.value.snapshot.text, stream.end) == ("Hello", None)
        tasks.cancel_scope.cancel()
    assert stream.end is StreamEnd.CLOSED


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
