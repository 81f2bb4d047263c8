"""Many streams at the same time in one process: each gives what it gives alone, and costs what it costs alone."""

import threading
from collections.abc import Callable
from contextlib import AsyncExitStack

import anyio
import httpx
import pytest
from fronts import ALONE, ASKED, PATIENCE, URL
from linear import assert_linear
from measured_memory import traced

from chunkfold import AsyncChatCompletionStream, StreamEnd, aconnect
from chunkfold.testing import Answer, FakeProvider, StreamBuilder, mock_transport

WORDS = [f" word{number}" for number in range(50)]
ANSWER = StreamBuilder().text(*WORDS).finish().done().answer()


def assert_finished(streams: list[AsyncChatCompletionStream]) -> None:
    for stream in streams:
        assert stream.end is StreamEnd.FINISHED
        assert stream.completion().text == "".join(WORDS)
        assert (stream.error, stream.anomalies) == (None, ())
        assert stream.response.is_closed


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_thirty_streams_at_the_same_time() -> None:
    """No answer begins before all requests have come."""
    barrier, streams = threading.Barrier(30), list[AsyncChatCompletionStream]()

    def respond(request: object) -> Answer:
        barrier.wait(PATIENCE)
        return ANSWER

    async def read() -> None:
        async with aconnect(client, "POST", provider.url, json=ASKED) as stream:
            streams.append(stream)
            async for _ in stream:
                pass

    with FakeProvider(*[respond] * 30) as provider:
        async with httpx.AsyncClient(**ALONE) as client, anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(read)
        assert (len(streams), provider.connections) == (30, 30)
    assert_finished(streams)


async def read_in_turns(count: int) -> None:
    """Read so many streams chunk by chunk, each in its turn."""
    async with (
        httpx.AsyncClient(transport=mock_transport(*[ANSWER] * count)) as client,
        AsyncExitStack() as stack,
    ):
        opened = [aconnect(client, "POST", URL, json=ASKED) for _ in range(count)]
        streams = [await stack.enter_async_context(each) for each in opened]
        for _ in [*WORDS, "the role", "the finish reason"]:
            for stream in streams:
                await anext(stream)
    assert_finished(streams)


@pytest.mark.slow
def test_each_of_many_streams_costs_what_it_costs_alone() -> None:
    def take(count: int) -> Callable[[], object]:
        return lambda: anyio.run(read_in_turns, count)

    assert_linear(take, 100)


@pytest.mark.slow
def test_many_streams_take_little_memory() -> None:
    """With what httpx takes for each: the parser, and the text so far."""
    anyio.run(read_in_turns, 1)  # so that what is imported and built once is there
    with traced() as memory:
        anyio.run(read_in_turns, 300)
    assert memory.peak / 300 <= 50_000
