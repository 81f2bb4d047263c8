"""The two fronts under one set of names: a test that asks for a `front` runs over both, and on asyncio and trio.

A module that uses it says `pytest_generate_tests = over_both_fronts` and `library = each_library`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest

from chunkfold import ChatCompletionStream, aconnect, connect

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


class Connected:
    """`connect` with the methods of `aconnect`'s stream, so that a test can be written once for both."""

    def __init__(self, stream: ChatCompletionStream) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self.stream:
            yield each


class SyncFront:
    """A sync client and `connect`."""

    def __init__(self, library: Any, **options: Any) -> None:
        self.client = library.Client(**options)

    @asynccontextmanager
    async def connect(self, url: str, **options: Any) -> AsyncIterator[Any]:
        with connect(self.client, "POST", url, json=ASKED, **options) as stream:
            yield Connected(stream)

    async def aclose(self) -> None:
        self.client.close()


class AsyncFront:
    """An async client and `aconnect`."""

    def __init__(self, library: Any, **options: Any) -> None:
        self.client = library.AsyncClient(**options)

    @asynccontextmanager
    async def connect(self, url: str, **options: Any) -> AsyncIterator[Any]:
        async with aconnect(self.client, "POST", url, json=ASKED, **options) as stream:
            yield stream

    async def aclose(self) -> None:
        await self.client.aclose()


FRONTS = {"sync": (SyncFront, "asyncio"), "asyncio": (AsyncFront, "asyncio"), "trio": (AsyncFront, "trio")}


def over_both_fronts(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `front` over both, and over the sync one once."""
    if "front" in metafunc.fixturenames:
        metafunc.parametrize(("front", "anyio_backend"), FRONTS.values(), ids=FRONTS)


@pytest.fixture(name="library", params=[httpx, httpx2], ids=["httpx", "httpx2"])
def each_library(request: pytest.FixtureRequest) -> Any:
    return request.param


def connections_in_use(client: Any) -> list[Any]:
    pool = client.client._transport._pool
    return [c for c in pool.connections if not (c.is_idle() or c.is_closed())]
