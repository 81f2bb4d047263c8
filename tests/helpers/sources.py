"""Sources of bytes of every kind, sync and async: iterables, generators, mocked and real responses.

What holds for one source holds for any: see `SOURCES`.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
import respx
from fronts import LIBRARIES, PATIENCE, STREAMS, URL, Sync, connections_in_use, raw_client_of, rescue, send

from chunkfold.testing import DONE, Answer, FakeProvider, delta, event, mock_response

SILENCE = 0.15  # seconds; the read timeout where one is to pass: the headers come in time on a busy machine, too
ROLE, HELLO, WOR, LD = delta(role="assistant"), delta(content="Hello"), delta(content=" wor"), delta(content="ld")
HI, STOP = delta(content="Hi"), delta("stop")
ERROR = event({"error": {"message": "overloaded", "code": 503}})
WHOLE = [ROLE, HELLO, WOR, LD, STOP, DONE]
IN_ONE_READ = [b"".join(WHOLE)]


@dataclass
class Opened:
    """A source of bytes, and whether it was let go: closed, and its connection not in use."""

    source: Any
    let_go: Callable[[], bool]


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream, httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body of either library that comes in these pieces; it counts how many were read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)
        self.read = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.read += 1
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            await anyio.lowlevel.checkpoint()
            self.read += 1
            yield piece


class AsyncList:
    """An async iterable that is no generator."""

    def __init__(self, items: Iterable[bytes]) -> None:
        self.items = iter(items)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        for item in self.items:
            return item
        raise StopAsyncIteration


def generator(pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield from pieces


async def async_generator(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        await anyio.lowlevel.checkpoint()
        yield piece


def is_sync(front: Any) -> bool:
    return front is Sync


@asynccontextmanager
async def mocked(library: Any, front: Any, response: Any) -> AsyncIterator[Any]:
    """The response as a client gives it: by respx for httpx, which it knows, by a mock transport for httpx2."""
    if library is httpx:
        with respx.mock:
            respx.post(URL).mock(return_value=response)
            async with raw_client_of(front, library) as client:
                yield await send(client)
    else:
        transport = library.MockTransport(lambda request: response)
        async with raw_client_of(front, library, transport=transport) as client:
            yield await send(client)


@asynccontextmanager
async def opened(kind: str, front: Any, pieces: list[bytes]) -> AsyncIterator[Opened]:
    """The pieces as a source of that kind."""
    if kind == "iterable":
        yield Opened(pieces if is_sync(front) else AsyncList(pieces), lambda: True)
    elif kind == "generator" and is_sync(front):
        body: Any = generator(pieces)
        yield Opened(body, lambda: body.gi_frame is None)
    elif kind == "generator":
        async_body: Any = async_generator(pieces)
        yield Opened(async_body, lambda: async_body.ag_frame is None)
    elif kind.endswith("mock"):
        library = LIBRARIES[kind.removesuffix(" mock")]
        async with mocked(library, front, mock_response(Answer(pieces), library=library)) as response:
            yield Opened(response, lambda: response.is_closed)
    else:
        library = LIBRARIES[kind.removesuffix(" socket")]
        with FakeProvider(Answer(pieces)) as provider:
            async with raw_client_of(front, library) as client:
                response = await send(client, provider.url)
                yield Opened(response, lambda: response.is_closed and not connections_in_use(client))


# Each kind, and each library, sync and async.
SOURCES = [
    *(("iterable", "sync"), ("iterable", "asyncio"), ("generator", "sync"), ("generator", "trio")),
    *(("httpx mock", "sync"), ("httpx2 mock", "trio"), ("httpx socket", "asyncio"), ("httpx2 socket", "sync")),
]
every_source = pytest.mark.parametrize(
    ("kind", "front", "anyio_backend"),
    [(kind, *STREAMS[front]) for kind, front in SOURCES],
    ids=map("-".join, SOURCES),
)


def source(front: Any, pieces: Iterable[bytes]) -> Any:
    """A source for tests in which its kind plays no part; it needs no closing."""
    return iter(pieces) if is_sync(front) else AsyncList(pieces)


async def texts_of(stream: Any) -> list[str]:
    return [chunk.text async for chunk in stream]


async def collect(stream: Any, texts: list[str]) -> None:
    """Gather the texts in a list that the caller keeps when the stream raises."""
    async with stream:
        async for chunk in stream:
            texts += [chunk.text]


class Kin:
    """A response with just what chunkfold asks of one."""

    def __init__(self, pieces: Iterable[bytes], status_code: int = 200) -> None:
        self.status_code = status_code
        self.headers = {"X-Request-ID": "r1", "content-type": "text/event-stream"}
        self.pieces = pieces
        self.closings = 0

    def iter_bytes(self) -> Iterator[bytes]:
        return iter(self.pieces)

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        return AsyncList(self.pieces)

    def close(self) -> None:
        self.closings += 1

    async def aclose(self) -> None:
        self.closings += 1


VIEWS_OF_TEXT: dict[str, Callable[[Any], Any]] = {
    "chunks": aiter,
    "text_deltas": lambda stream: stream.text_deltas(),
    "events": lambda stream: stream.events(),
}


async def take(items: Any, taken: list[Any]) -> None:
    """Gather items in a list that is the caller's when they end with an error."""
    async for item in items:
        taken.append(item)  # noqa: PERF401 - what came before an error is to be kept


USAGE = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})


def over_http_1_0(*body: bytes | float) -> Answer:
    """As mlx-lm's server answers."""
    return Answer([b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", *body], framing="raw")


@asynccontextmanager
async def stopped_after_the_first(
    library: Any, front: Any, *pieces: bytes | float, **options: Any
) -> AsyncIterator[Any]:
    """A stream of which one chunk was read, from a client without any timeout unless the options give one."""
    answer = Answer([HELLO, 0.01, *pieces], ending=options.pop("ending", "end"))
    with FakeProvider(answer) as provider, rescue(provider):
        async with raw_client_of(front, library, **{"timeout": None, **options}) as client:
            async with front(await send(client, provider.url)) as stream:
                assert (await anext(aiter(stream))).text == "Hello"
                yield stream
            assert stream.response.is_closed
            assert connections_in_use(client) == []
            assert provider.requests[0].answered.wait(PATIENCE)
