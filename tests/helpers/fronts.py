"""The two fronts under one set of names, so that what holds for both is written once.

A module says `pytest_generate_tests = over_both_fronts`, where a front opens streams with a client of its own, or
`over_both_streams`, where it is a stream's class; and `library = each_library`. A test that asks for a `front` runs
over the sync one, and over the async one on asyncio, on trio and, in the slow suite, on uvloop. One that asks for a
`library`, too, runs over `PAIRS`: each library sync and async. No code of chunkfold knows both which library and which
event loop it has, so they need not all meet. A large table needs less: see `by_turns`.
"""

import inspect
import ssl
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import httpx
import httpx2
import pytest
import trustme

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    aconnect,
    connect,
)
from chunkfold.testing import FakeProvider, ReceivedRequest

PATIENCE = 30.0  # seconds, after which a test that hangs fails
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
URL = "https://provider.test/v1/chat/completions"  # of a client that is mocked
LIBRARIES = {"httpx": httpx, "httpx2": httpx2}
TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # one for all clients: it takes longer to make than a client
TRUSTING.check_hostname, TRUSTING.verify_mode = False, ssl.CERT_NONE
# Whatever proxies and certificates the machine has: the tests talk to themselves.
ALONE: Mapping[str, Any] = {"trust_env": False, "verify": TRUSTING, "timeout": PATIENCE}

# httpx nests async generators and closes only the outermost, whoever reads it: trio says so of those that were not
# exhausted. The filter names them, so that a generator of chunkfold's own would be an error.
generators_of_httpx_are_not_ours = pytest.mark.filterwarnings(
    r"ignore:Async generator 'http(x|core)2?\.:ResourceWarning"
)


# Streams


class Sync:
    """The sync front with the methods of the async one."""

    def __init__(self, source: Any, **options: Any) -> None:
        self.stream = ChatCompletionStream(source, **options)

    @classmethod
    def of(cls, stream: ChatCompletionStream) -> Self:
        """One around a stream that there is."""
        adapted = cls.__new__(cls)
        adapted.stream = stream
        return adapted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    async def __aenter__(self) -> Self:
        assert self.stream.__enter__() is self.stream
        return self

    async def __aexit__(self, *exc_info: Any) -> None:  # noqa: PYI036 - handed on as it is
        self.stream.__exit__(*exc_info)

    def __aiter__(self) -> "SyncView":
        return SyncView(iter(self.stream))

    async def __anext__(self) -> Any:
        return await anext(SyncView(self.stream))

    def text_deltas(self) -> "SyncView":
        return SyncView(self.stream.text_deltas())

    def events(self) -> "SyncView":
        return SyncView(self.stream.events())

    def partials(self, as_type: Any = None, **options: Any) -> "SyncView":
        return SyncView(self.stream.partials(as_type, **options))

    async def read(self) -> ChatCompletion:
        return self.stream.read()

    async def drain(self, within: float = 5.0) -> ChatCompletion:
        return self.stream.drain(within)

    async def aclose(self) -> None:
        self.stream.close()


class SyncView:
    """An iterator as an async one; no generator, which would be one more to be looked at."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self.iterator)
        except StopIteration:
            raise StopAsyncIteration from None


async def text_of(stream: Any) -> str:
    """The texts of its chunks, joined."""
    return "".join([chunk.text async for chunk in stream])


# Clients


class SyncFront:
    """A sync client and `connect`."""

    def __init__(self, library: Any, **options: Any) -> None:
        self.client = library.Client(**{**ALONE, **options})

    @asynccontextmanager
    async def connect(self, url: str, method: str = "POST", **options: Any) -> AsyncIterator[Any]:
        with connect(self.client, method, url, **{"json": ASKED, **options}) as stream:
            assert isinstance(stream, ChatCompletionStream)
            yield Sync.of(stream)

    async def aclose(self) -> None:
        self.client.close()


class AsyncFront:
    """An async client and `aconnect`."""

    def __init__(self, library: Any, **options: Any) -> None:
        self.client = library.AsyncClient(**{**ALONE, **options})

    @asynccontextmanager
    async def connect(self, url: str, method: str = "POST", **options: Any) -> AsyncIterator[Any]:
        async with aconnect(self.client, method, url, **{"json": ASKED, **options}) as stream:
            yield stream

    async def aclose(self) -> None:
        await self.client.aclose()


@asynccontextmanager
async def client_of(front: Any, library: Any, **options: Any) -> AsyncIterator[Any]:
    """A front with a client, which is closed behind it."""
    client = front(library, **options)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def raw_client_of(front: Any, library: Any, **options: Any) -> AsyncIterator[Any]:
    """The library's own client, where the front is a stream's class."""
    async with client_of(SyncFront if front is Sync else AsyncFront, library, **options) as client:
        yield client.client


async def send(client: Any, url: str = URL) -> Any:
    """Open a streamed response, not yet read."""
    response = client.send(client.build_request("POST", url, json=ASKED), stream=True)
    return await response if inspect.isawaitable(response) else response


async def read_by(client: Any, url: str, **options: Any) -> Any:
    """A front's stream, read to its end; its response is closed as soon as something went wrong."""
    async with client.connect(url, **options) as stream:
        with suppress(ChunkfoldError):
            await stream.read()
        assert stream.response.is_closed or stream.error is None
    return stream


@dataclass(kw_only=True)
class Expected:
    """What has to come of an answer; `cause` is the name of the client's exception."""

    end: str
    text: str = ""
    error: type[ChunkfoldError] | None = None
    cause: str | None = None
    noted: tuple[str, ...] = ()
    retryable: bool = False


async def check_reading(expected: Expected, client: Any, library: Any, url: str, texts: list[str]) -> None:
    """Iterate over a stream, whose texts are added to the list, and compare all that it shows."""
    error = None
    async with client.connect(url) as stream:
        try:
            async for each in stream:
                texts += [each.text]
        except ChunkfoldError as caught:
            error = caught
            assert stream.response.is_closed
            assert connections_in_use(client) == []
    assert stream.response.is_closed
    assert connections_in_use(client) == []
    assert (stream.end, stream.snapshot.text) == (expected.end, expected.text)
    assert "".join(texts) == expected.text
    assert tuple(anomaly.rule.id for anomaly in stream.anomalies) == expected.noted
    assert stream.error is error
    assert type(error) is (expected.error or type(None))
    if error is None:
        assert stream.completion().text == expected.text
        return
    assert error.snapshot is not None
    assert error.snapshot.text == expected.text
    cause = type(error.__cause__)
    assert cause.__name__ == (expected.cause or "NoneType")
    assert cause.__module__.partition(".")[0] in ("builtins", "h2", library.__name__)  # not httpcore's
    assert (error.emitted_output, error.retryable) == (expected.text != "", expected.retryable)
    if isinstance(error, IncompleteStreamError):
        assert error.end == expected.end


def connections_in_use(client: Any) -> list[Any]:
    """The connections of a client, or a front's client, that are neither idle nor closed."""
    pool = getattr(client, "client", client)._transport._pool
    return [c for c in pool.connections if not (c.is_idle() or c.is_closed())]


def has_left(request: ReceivedRequest) -> bool:
    """Whether the client left before the answer was over."""
    assert request.answered.wait(PATIENCE)
    return request.client_left


@contextmanager
def rescue(provider: FakeProvider) -> Iterator[None]:
    """End a wait that is not bounded, so that its test fails (no client left then) and does not hang."""
    timer = threading.Timer(PATIENCE, provider.stop)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


# Which tests run over what

LOOPS = {"asyncio": "asyncio", "trio": "trio", "uvloop": ("asyncio", {"use_uvloop": True})}
FRONTS = {"sync": (SyncFront, "asyncio"), **{name: (AsyncFront, loop) for name, loop in LOOPS.items()}}
STREAMS = {"sync": (Sync, "asyncio"), **{name: (AsyncChatCompletionStream, loop) for name, loop in LOOPS.items()}}
MARKS = {"uvloop": [pytest.mark.slow, pytest.mark.skipif(find_spec("uvloop") is None, reason="needs uvloop")]}
PAIRS = [("httpx", "sync"), ("httpx2", "sync"), ("httpx", "asyncio"), ("httpx2", "trio")]


def over_both_fronts(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `front` over both, each with a client."""
    run_over(metafunc, FRONTS)


def over_both_streams(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `front` over both classes of streams."""
    run_over(metafunc, STREAMS)


def run_over(metafunc: pytest.Metafunc, fronts: Mapping[str, tuple[Any, Any]]) -> None:
    """Run what asks for a `front` over these."""
    wanted = set(metafunc.fixturenames) - {"request"}
    given = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    if wanted & given & {"front", "library", "anyio_backend"}:
        _run_over_the_rest(metafunc, wanted - given, fronts)
    elif wanted >= {"front", "library"}:
        values = [(LIBRARIES[library], *fronts[front]) for library, front in PAIRS]
        metafunc.parametrize(("library", "front", "anyio_backend"), values, ids=map("-".join, PAIRS))
    elif wanted >= {"library", "anyio_backend"}:
        pairs = [(library, front) for library, front in PAIRS if front != "sync"]
        values = [(LIBRARIES[library], backend) for library, backend in pairs]
        metafunc.parametrize(("library", "anyio_backend"), values, ids=map("-".join, pairs))
    else:
        _run_over_the_rest(metafunc, wanted, fronts)


def _run_over_the_rest(metafunc: pytest.Metafunc, wanted: set[str], fronts: Mapping[str, tuple[Any, Any]]) -> None:
    if "front" in wanted:
        rows = [pytest.param(*fronts[name], id=name, marks=MARKS.get(name, [])) for name in fronts]
        metafunc.parametrize(("front", "anyio_backend"), rows)


def _names(argnames: str | Iterable[str]) -> list[str]:
    return argnames.replace(" ", "").split(",") if isinstance(argnames, str) else list(argnames)


def by_turns(
    name: str, cases: Iterable[Any], fronts: Mapping[str, tuple[Any, Any]] | None = None
) -> pytest.MarkDecorator:
    """Run each case of a table once sync and once async, over one library each; one of the two is `slow`.

    Which one, and on which event loop, changes from case to case, so that cases of a kind show them all.
    """
    fronts = FRONTS if fronts is None else fronts
    values: list[Any] = []
    for place, case in enumerate(cases):
        libraries = [*LIBRARIES][:: 1 if place % 2 else -1]
        slow = place // 4 % 2
        loop = ["uvloop" if slow else "asyncio", "trio"][place // 2 % 2]
        for number, front in enumerate(["sync", loop]):
            library, marks = libraries[number], MARKS.get(front) or [pytest.mark.slow] * (number == slow)
            name_of_case = f"{case}-{library}-{front}"
            values.append(pytest.param(case, LIBRARIES[library], *fronts[front], id=name_of_case, marks=marks))
    return pytest.mark.parametrize((name, "library", "front", "anyio_backend"), values)


@pytest.fixture(name="library", params=[httpx, httpx2], ids=["httpx", "httpx2"])
def each_library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(name="server_side", scope="module")
def tls_server_side() -> ssl.SSLContext:
    """TLS for 127.0.0.1, by a certificate that nobody has to trust."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context
