"""Many streams at once: one process, one event loop, real sockets, a provider in a process of its own.

Each stream brings a first chunk and waits until all are open, which is when the memory is looked at; then all bring
chunks, one by one. What a chunk waited is the time from the bytes, as httpx hands them over, to the consumer's loop.
openai's client reads the same sockets through the same httpx.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import httpx
from bodies import chunk
from measuring import Figure, Scale, complain, say

from chunkfold import AsyncChatCompletionStream
from chunkfold.testing import DONE, Answer, FakeProvider, event

TABLE = "concurrency"
_CHUNKS = 20  # in a stream, after the first
_RATE = 4_000  # chunks a second, of all streams together
_OPENED = 120  # streams a second, at the least
_PROVIDERS = 10  # each looks through its connections whenever another comes
_STREAMS_PER_CLIENT = 100  # what a pool does for each request grows with its connections
_REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


@dataclass
class Load:
    """Streams that run at once.

    Attributes:
        streams: How many.
        delays: Seconds that each chunk waited.
        opened: How many have brought their first chunk.
        resident: The bytes that this process holds, before the first stream and when all were open.
        began: The processor's time then.
        ended_early: Whether a stream went on before all were open.
        opening: Held by the streams that have not brought their first chunk.
    """

    streams: int
    delays: list[float] = field(default_factory=list)
    opened: int = 0
    resident: tuple[int, int] = (0, 0)
    began: float = 0.0
    ended_early: bool = False
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_STREAMS_PER_CLIENT))

    def take(self, place: int, arrived: float) -> None:
        """A chunk came, the one at that place of its stream."""
        if place:
            self.delays.append(perf_counter() - arrived)
            self.ended_early |= self.opened < self.streams
            return
        self.opened += 1
        self.opening.release()
        if self.opened == self.streams:
            self.resident = (self.resident[0], _resident())
            self.began = process_time()


class Stamped(httpx.AsyncHTTPTransport):
    """Sockets of httpx's that note when each read came."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        stream = StampedBody(response.stream)
        return httpx.Response(
            response.status_code, headers=response.headers, stream=stream, extensions={"body": stream}
        )


class StampedBody(httpx.AsyncByteStream):
    """A body that knows when its last bytes came."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.arrived = 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self.arrived = perf_counter()
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _with_chunkfold(client: httpx.AsyncClient, url: str, load: Load) -> None:
    async with client.stream("POST", f"{url}/chat/completions", json=_REQUEST) as response:
        body = response.extensions["body"]
        place = 0
        async for one in AsyncChatCompletionStream(response):
            if one.text:
                load.take(place, body.arrived)
                place += 1


async def _with_openai(client: httpx.AsyncClient, url: str, load: Load) -> None:
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(api_key="none", base_url=url, http_client=client, max_retries=0)
    stream = await openai.chat.completions.create(**_REQUEST)
    body = stream.response.extensions["body"]
    place = 0
    async for one in stream:
        if one.choices and one.choices[0].delta.content:
            load.take(place, body.arrived)
            place += 1


_Read = Callable[[httpx.AsyncClient, str, Load], Coroutine[Any, Any, None]]
CLIENTS: dict[str, _Read] = {
    "chunkfold": _with_chunkfold,
    "openai": _with_openai,
}


def measure(scale: Scale) -> Iterator[Figure]:
    """Each load in a process of its own, so that the memory of one is not that of another."""
    for streams in (20,) if scale.is_quick else (1_000, 10_000):
        for client in CLIENTS:
            say(f"concurrency: {streams:,} streams, {client}")
            command = [sys.executable, __file__, client, str(streams)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            if ran.returncode:
                complain(f"concurrency: {client}, {streams:,} streams: {ran.stderr.strip()[-300:]}")
                continue
            found = json.loads(ran.stdout)
            row, needs = (client, f"{streams:,}"), "openai" if client == "openai" else ""
            yield Figure(TABLE, row, "chunks per second of the processor", found["chunks per second"], needs=needs)
            yield Figure(TABLE, row, "median wait, µs", found["median wait"], needs=needs)
            yield Figure(TABLE, row, "99 % wait at most, µs", found["p99 wait"], needs=needs)
            yield Figure(TABLE, row, "kB per open stream", found["memory"], needs=needs)


def _measured(client: str, streams: int) -> dict[str, float]:
    load = Load(streams)
    with _providers(streams) as urls:
        asyncio.run(_run(CLIENTS[client], urls, load))
    if len(load.delays) != streams * _CHUNKS or load.ended_early:
        raise SystemExit(f"{len(load.delays)} chunks came; all streams were not open at once: {load.ended_early}")
    waits = statistics.quantiles(load.delays, n=100)
    return {
        "chunks per second": round(len(load.delays) / (process_time() - load.began)),
        "median wait": waits[49] * 1e6,
        "p99 wait": waits[98] * 1e6,
        "memory": (load.resident[1] - load.resident[0]) / streams / 1000,
    }


async def _run(read: _Read, urls: list[str], load: Load) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(transport=Stamped(verify=False), timeout=300))
            for _ in range(-(-load.streams // _STREAMS_PER_CLIENT))
        ]
        await read(clients[0], urls[0], Load(1))  # so that what is imported and built once is there
        load.resident = (_resident(), 0)
        async with asyncio.TaskGroup() as group:
            for number in range(load.streams):
                await load.opening.acquire()
                group.create_task(read(clients[number % len(clients)], urls[number % len(urls)], load))


@contextmanager
def _providers(streams: int) -> Iterator[list[str]]:
    """Providers in a process of their own: their URLs."""
    command = [sys.executable, __file__, "provider", str(streams)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()
        process.kill()


def _serve(streams: int) -> None:
    pause = streams / _RATE
    answers = [_answer(0.0, 0.0), _answer(streams / _OPENED + 1, pause)]
    asked = 0

    def answer(request: object) -> Answer:
        nonlocal asked
        asked += 1
        return answers[asked > 1]

    with ExitStack() as stack:
        served = [stack.enter_context(FakeProvider(*[answer] * (streams + 1))) for _ in range(_PROVIDERS)]
        print(*(provider.base_url for provider in served), flush=True)
        sys.stdin.read()


def _answer(wait: float, pause: float) -> Answer:
    first, last = event(chunk({"role": "assistant", "content": "Hi"})), event(chunk({}, "stop")) + DONE
    rest = [step for place in range(_CHUNKS) for step in (event(chunk({"content": f" word {place}"})), pause)]
    return Answer([first, wait, *rest, last])


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[1] == "provider":
        _serve(int(sys.argv[2]))
    else:
        print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]))))
