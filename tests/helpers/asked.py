"""A provider, a client and the streams that a test opens with it: over a real socket, of either library and front.

On the way out the streams have to be closed and the pool to be free, and nothing stays behind (`spotless`).
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fronts import ALONE, ASKED, Sync, connections_in_use, send
from sources import STOP, VIEWS_OF_TEXT
from spotless import spotless, spotless_loop

from chunkfold import aconnect, connect
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, delta, paced

APART = 0.001  # seconds between two pieces that are to be read one by one
TEXTS = ["[1, ", "2, ", "3]"]
NUMBERS = [delta(content=text) for text in TEXTS]
COUNTED = [*NUMBERS, STOP, DONE]


def apart(pieces: list[bytes]) -> list[bytes | float]:
    return paced(pieces, first=APART, pace=APART)


class SyncConnect:
    """`connect` as an async context manager; a class, so that it adds no generator to those that are looked at."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.opening = connect(*arguments, **options)

    async def __aenter__(self) -> Sync:
        return Sync.of(self.opening.__enter__())

    async def __aexit__(self, *exc_info: Any) -> bool | None:  # noqa: PYI036 - handed on as it is
        return self.opening.__exit__(*exc_info)


VIEWS: dict[str, Callable[[Any], Any]] = {**VIEWS_OF_TEXT, "partials": lambda stream: stream.partials()}  # of JSON
every_view = pytest.mark.parametrize("view", VIEWS)


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


class Mine(BaseException):
    """An exception of the consumer's own."""


async def read_with(to: Asked, **options: Any) -> None:
    async with to.connect(**options) as stream:
        await stream.read()


async def drop_items(items: Any) -> None:
    async for _ in items:
        pass


async def has_read(stream: Any, texts: list[str]) -> None:
    """Wait until another task has read these texts, and waits for more."""
    while stream.snapshot.text != "".join(texts):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


class WatchedReads:
    """A response's network stream, of which each read is told before it begins."""

    def __init__(self, response: Any, before: Callable[[], object]) -> None:
        self.read = response.extensions["network_stream"].read
        self.before = before
        response.extensions["network_stream"].read = self

    def __call__(self, max_bytes: int, timeout: float | None = None) -> Any:
        self.before()
        return self.read(max_bytes, timeout)


SOON = [*apart(NUMBERS[:1]), APART, STOP, APART, DONE, APART]


@contextmanager
def asked_sync(library: Any, answer: Answer) -> Iterator[tuple[Any, FakeProvider]]:
    """A client and a provider; on the way out, nothing stays behind."""
    options = {**ALONE, "limits": library.Limits(max_connections=1)}
    with spotless(), FakeProvider(answer) as provider, library.Client(**options) as client:
        yield client, provider
        assert client._transport._pool._requests == []
        with client.stream("GET", provider.url):  # the one connection is free
            pass
