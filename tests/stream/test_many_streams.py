"""Many streams at the same time in one process.

What holds for one stream, and for a few, the other tests show. The provider of the many is a process of
its own, so that its cost is not counted here; `-m slow -s` prints what was measured.
"""

import asyncio
import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fronts import ASKED

from chunkfold import AsyncChatCompletionStream, StreamEnd, aconnect

PATIENCE = 120.0  # seconds, after which what hangs fails

# No answer begins before all requests have come, so that all streams run at the same time.
PROVIDER = f"""
import sys, threading
from chunkfold.testing import FakeProvider, StreamBuilder

together, streams, chunks = map(int, sys.argv[1:])
words = [" word" + str(number) for number in range(chunks - 2)]  # beside the role and the finish reason
answer = StreamBuilder().text(*words).finish().done().answer()
barrier = threading.Barrier(together)

def respond(request):
    barrier.wait({PATIENCE})
    return answer

with FakeProvider(*[respond] * streams) as provider:
    print(provider.url, flush=True)
    sys.stdin.read()
    print(provider.connections)
"""


@dataclass
class Provider:
    """A provider in another process."""

    url: str
    connections: int = 0  # known afterwards


@contextmanager
def provider_of(streams: int, chunks: int, *, together: int) -> Iterator[Provider]:
    arguments = [sys.executable, "-c", PROVIDER, str(together), str(streams), str(chunks)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            provider = Provider(process.stdout.readline().strip())
            yield provider
            told, _ = process.communicate(timeout=PATIENCE)
            provider.connections = int(told)
        finally:
            process.kill()


def client_of(**limits: Any) -> httpx.AsyncClient:
    # Connections that are kept cost httpx time that grows with their square, and have no part in this.
    limits = {"max_connections": None, "max_keepalive_connections": 0, **limits}
    return httpx.AsyncClient(trust_env=False, timeout=PATIENCE, limits=httpx.Limits(**limits))


@asynccontextmanager
async def folding(client: httpx.AsyncClient, url: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """A stream whose first chunk has come, and how to read the others."""
    async with aconnect(client, "POST", url, json=ASKED) as stream:
        await anext(stream)

        async def read() -> AsyncChatCompletionStream:
            async for _ in stream:
                pass
            return stream

        yield read


@asynccontextmanager
async def raw(client: httpx.AsyncClient, url: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """The same without chunkfold."""
    headers = {"accept-encoding": "identity"}
    async with client.stream("POST", url, json=ASKED, headers=headers) as response:

        async def read() -> None:
            async for data in response.aiter_bytes():
                if b"[DONE]" in data:
                    break

        yield read


Opening = Callable[[httpx.AsyncClient, str], AbstractAsyncContextManager[Callable[[], Awaitable[Any]]]]


@dataclass
class Run:
    """What came of reading streams, and what it cost."""

    seconds: float = 0.0  # of CPU, from when the first is open to when the last is read
    results: list[Any] = field(default_factory=list)
    left_behind: set[Any] = field(default_factory=set)


async def all_together(url: str, streams: int, opening: Opening) -> Run:
    """Read streams at the same time. Opening and closing connections is httpx's own, and not counted."""
    run = Run()
    started: list[float] = []
    all_read = asyncio.Event()

    async def consume(client: httpx.AsyncClient) -> None:
        async with opening(client, url) as read:
            started.append(time.process_time())
            run.results.append(await read())
            if len(run.results) == streams:
                run.seconds = time.process_time() - started[0]
                all_read.set()
            await all_read.wait()

    async with client_of() as client:
        tasks: list[asyncio.Task[None]] = []
        for number in range(streams):
            tasks.append(asyncio.create_task(consume(client)))
            if number % 50 == 49:  # the provider's backlog is 128: of a thousand at once, some are refused
                await asyncio.sleep(0.05)
        await asyncio.gather(*tasks)
        run.left_behind = asyncio.all_tasks() - {asyncio.current_task()}
    return run


async def one_by_one(url: str, streams: int, opening: Opening) -> Run:
    run = Run()
    async with client_of(max_keepalive_connections=1) as client:
        for _ in range(streams):
            async with opening(client, url) as read:
                started = time.process_time()
                run.results.append(await read())
                run.seconds += time.process_time() - started
    return run


def run_together(streams: int, chunks: int, opening: Opening) -> Run:
    with provider_of(streams, chunks, together=streams) as provider:
        gc.collect()
        run = asyncio.run(all_together(provider.url, streams, opening))
    assert provider.connections == streams
    return run


def run_one_by_one(streams: int, chunks: int, opening: Opening) -> Run:
    with provider_of(streams, chunks, together=1) as provider:
        gc.collect()
        return asyncio.run(one_by_one(provider.url, streams, opening))


def assert_all_finished(run: Run, streams: int, chunks: int) -> None:
    assert run.left_behind == set()
    assert len(run.results) == streams
    text = "".join(f" word{number}" for number in range(chunks - 2))
    for stream in run.results:
        assert stream.end is StreamEnd.FINISHED
        assert stream.completion().text == text
        assert (stream.error, stream.anomalies) == (None, ())
        assert stream.response.is_closed


def test_thirty_streams_at_the_same_time() -> None:
    run = run_together(30, 20, folding)
    assert_all_finished(run, 30, 20)


def with_files_for(streams: int) -> int:
    """So many streams, or as many as there can be files."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = streams + 100
    if soft < needed:
        soft = min(needed, hard) if hard >= 0 else needed
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < needed:
        print(f"no more than {soft} files: {soft - 100} streams instead of {streams}")
    return min(streams, soft - 100)


@pytest.mark.slow
def test_many_streams_cost_what_each_costs_alone() -> None:
    """The same chunks, read without chunkfold, are taken off both: what httpx costs is httpx's.

    What 500 streams keep does not fit into a processor's caches, so on some machines most tries are close to the limit.
    Anything that grows with the number of streams makes every try many times as much.
    """
    streams, chunks, alone = with_files_for(500), 100, 100
    ratios: list[float] = []
    while len(ratios) < 12 and not (ratios and ratios[-1] <= 1.5):  # the machine may be busy elsewhere
        many = run_together(streams, chunks, folding)
        assert_all_finished(many, streams, chunks)
        many_raw = run_together(streams, chunks, raw)
        one, one_raw = run_one_by_one(alone, chunks, folding), run_one_by_one(alone, chunks, raw)
        assert_all_finished(one, alone, chunks)
        cost_of_many = (many.seconds - many_raw.seconds) / (streams * chunks)
        cost_of_one = (one.seconds - one_raw.seconds) / (alone * chunks)
        ratios.append(cost_of_many / cost_of_one)
        print(
            f"{streams} streams of {chunks} chunks: {cost_of_many * 1e6:.1f} µs of CPU a chunk"
            f" (httpx: {many_raw.seconds / streams / chunks * 1e6:.1f}), {cost_of_one * 1e6:.1f} alone"
            f" (httpx: {one_raw.seconds / alone / chunks * 1e6:.1f}), {ratios[-1]:.2f} times as much"
        )
    assert ratios[-1] <= 1.5, ratios


@pytest.mark.slow
def test_many_streams_take_little_memory() -> None:
    """Beside what httpx takes: the parser, and the text so far."""
    streams, chunks = with_files_for(300), 20
    peaks: list[int] = []
    for opening in (raw, folding):
        tracemalloc.start()
        try:
            run_together(streams, chunks, opening)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    for_httpx, for_both = (peak / streams / 1000 for peak in peaks)
    print(f"{streams} streams: at most {for_both:.0f} kB each, {for_httpx:.0f} of them for httpx")
    assert for_both - for_httpx <= 50
