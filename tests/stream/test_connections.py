"""What becomes of a connection after `[DONE]`: kept, reused, waited for, closed.

The provider is a real server on loopback, so what is shown of connections is shown by the server, too.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fronts import (
    ALONE,
    ASKED,
    PATIENCE,
    client_of,
    connections_in_use,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_fronts,
    rescue,
)
from ways_out import leave_at_the_finish_reason, read_it

from chunkfold import StreamEnd, connect
from chunkfold.stream import reuse
from chunkfold.stream.network import read_to_end
from chunkfold.testing import DONE, Answer, FakeProvider, delta, stalled
from chunkfold.testing.answers import Raw

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts

TEXT = delta(content="Hello")
STOP = delta("stop")
WHOLE = [TEXT, STOP, DONE]


@pytest.mark.parametrize(
    ("body", "use"),
    [(WHOLE, read_it), ([TEXT, DONE], read_it), ([TEXT, STOP], read_it), (WHOLE, leave_at_the_finish_reason)],
    ids=["whole", "done", "finished", "left at the finish reason"],
)
async def test_streams_one_after_the_other_use_one_connection(
    front: Any, library: Any, body: list[bytes], use: Callable[[Any], Awaitable[None]]
) -> None:
    with FakeProvider(*[Answer(body)] * 3) as provider:
        async with client_of(front, library) as client:
            for _ in range(3):
                async with client.connect(provider.url) as stream:
                    await use(stream)
                assert stream.completion().text == "Hello"
                assert connections_in_use(client.client) == []
        assert len(provider.requests) == 3
        assert provider.connections == 1


AFTER_DONE: dict[str, Answer] = {
    "nothing": Answer(WHOLE, ending="open"),
    "keep-alives": Answer(stalled(WHOLE, len(WHOLE), 10.0, keep_alive=b": ping\n\n", every=0.01)),
    "a flood": Answer([*WHOLE, *[b":" * 2**16] * 2**14]),  # a gigabyte, of which a tenth of a second is read at most
}


@pytest.mark.parametrize("what", AFTER_DONE)
async def test_a_body_that_stays_open_after_done_holds_nobody(front: Any, library: Any, what: str) -> None:
    """Not even a client without any timeout."""
    with FakeProvider(AFTER_DONE[what], Answer(WHOLE)) as provider, rescue(provider):
        async with client_of(front, library, timeout=None) as client:
            async with client.connect(provider.url) as stream:
                assert (await stream.read()).text == "Hello"
                # `[DONE]` ended the loop, although the provider holds the body open.
                assert not provider.requests[0].answered.is_set()
            assert connections_in_use(client.client) == []
            assert has_left(provider.requests[0])
            assert stream.end is StreamEnd.FINISHED
            # The client can go on, over another connection.
            async with client.connect(provider.url) as stream:
                assert (await stream.read()).text == "Hello"
        assert provider.connections == 2


# A server that promises to keep the connection, and closes it some milliseconds after the last chunk. llama.cpp's does.
LAST_CHUNK = Raw(b"0\r\n\r\n")


def closing_soon(seconds: float) -> Answer:
    return Answer([*WHOLE, LAST_CHUNK, seconds], headers={"Keep-Alive": "timeout=5, max=100"}, ending="cut")


async def ask_back_to_back(client: Any, url: str, times: int, **options: Any) -> list[Exception]:
    """One request after another; what the client raised."""
    failures: list[Exception] = []
    for _ in range(times):
        try:
            async with client.connect(url, **options) as stream:
                assert (await stream.read()).text == "Hello"
        except Exception as exc:  # noqa: BLE001 - looked at by the caller
            failures.append(exc)
    return failures


async def test_a_connection_that_is_closed_right_after_done_fails_one_request(front: Any, library: Any) -> None:
    """After the first failure at an origin no connection is kept there; what the client raises passes unchanged."""
    with FakeProvider(*[closing_soon(0.1)] * 6) as provider:
        async with client_of(front, library) as client:
            failures = await ask_back_to_back(client, provider.url, 6)
    (failure,) = failures
    assert type(failure) in (library.RemoteProtocolError, library.ReadError)
    assert len(provider.requests) == 5


async def test_no_connection_is_reused_where_none_is_to_be(front: Any, library: Any) -> None:
    with FakeProvider(*[closing_soon(0.1)] * 3, *[Answer(WHOLE)] * 3) as provider:
        async with client_of(front, library) as client:
            assert await ask_back_to_back(client, provider.url, 6, reuse_connection=False) == []
            assert connections_in_use(client.client) == []
        assert provider.connections == 6


async def test_the_connections_of_other_origins_and_clients_are_kept(front: Any, library: Any) -> None:
    with (
        FakeProvider(*[closing_soon(0.1)] * 2, *[Answer(WHOLE)] * 3) as bad,
        FakeProvider(*[Answer(WHOLE)] * 3) as good,
    ):
        async with client_of(front, library) as client:
            assert len(await ask_back_to_back(client, bad.url, 3)) == 1
            assert await ask_back_to_back(client, good.url, 3) == []
        assert good.connections == 1
        before = bad.connections
        async with client_of(front, library) as other:
            assert await ask_back_to_back(other, bad.url, 3) == []
        assert bad.connections == before + 1


async def test_a_failure_long_after_the_last_stream_is_not_blamed_on_the_wait(
    front: Any, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may close a connection that was idle for long, and a client may see it too late."""
    monkeypatch.setattr(reuse, "_SOON", 0.0)
    with FakeProvider(closing_soon(0.1), *[Answer(WHOLE)] * 3) as provider:
        async with client_of(front, library) as client:
            assert len(await ask_back_to_back(client, provider.url, 4)) == 1
        assert provider.connections == 2


class AnyClient:
    """A client as far as it is remembered."""


def test_what_is_remembered_of_origins_is_bounded() -> None:
    def message(host: int) -> Any:
        return SimpleNamespace(url=SimpleNamespace(scheme="https", host=f"{host}.test", port=None))

    def failure(host: int) -> Exception:
        exc: Any = type("ReadError", (Exception,), {})()
        exc.request = message(host)
        return exc

    client = AnyClient()
    for host in range(1000):
        reuse.note_kept(client, message(host))
        reuse.note_failure(client, failure(host))
    assert [reuse.may_reuse(client, message(host)) for host in (0, 743, 744, 999)] == [True, True, False, False]
    assert len(reuse._clients[client]) == 256
    assert reuse.may_reuse(AnyClient(), message(999))


def test_nothing_is_remembered_of_what_cannot_be_told_apart() -> None:
    """A client that cannot be referred to weakly, a URL that is none, an exception without a request."""
    reuse.note_kept({}, None)
    client = AnyClient()
    reuse.note_kept(client, SimpleNamespace(url="https://provider.test/"))
    reuse.note_failure(client, httpx.ReadError("no request"))
    reuse.note_failure(client, KeyError())
    reuse.note_failure(client, type("ReadError", (Exception,), {})("of another library, without `request`"))
    assert reuse.may_reuse({}, None)
    assert reuse.may_reuse(client, SimpleNamespace(url="https://provider.test/"))


class NetworkStream:
    """What a sync client reads from; it keeps the timeouts it was asked to read with."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.timeouts.append(timeout)
        return b""


def read_and_close(library: Any, network_stream: NetworkStream, after_done: Callable[[], object]) -> None:
    """Read a stream over the network stream and close it; `after_done` happens while its end is waited for."""

    def body() -> Iterator[bytes]:
        yield from WHOLE
        after_done()

    def respond(_: Any) -> Any:
        return library.Response(200, content=body(), extensions={"network_stream": network_stream})

    with (
        library.Client(transport=library.MockTransport(respond)) as client,
        connect(client, "POST", "https://provider.test/", json=ASKED) as stream,
    ):
        assert stream.read().text == "Hello"


def test_only_the_thread_that_waits_is_hurried(library: Any) -> None:
    """Once the body has ended, the pool may hand the connection to another thread at once."""
    network_stream = NetworkStream()

    def after_done() -> None:
        network_stream.read(1, timeout=5.0)
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(network_stream.read, 1, timeout=6.0).result(PATIENCE)

    read_and_close(library, network_stream, after_done)
    network_stream.read(1, timeout=7.0)
    hurried, *others = network_stream.timeouts
    assert hurried is not None
    assert hurried <= 0.1
    assert others == [6.0, 7.0]
    assert network_stream.read == NetworkStream.read.__get__(network_stream)  # nothing of ours is left on it


def check_two_threads(
    library: Any,
    network_stream: NetworkStream,
    after_done: Callable[[], object],
    second_comes: threading.Event,
    first_is_through: threading.Event,
) -> None:
    """Read and close over one network stream in two threads: the second comes while the first waits for the end."""
    with ThreadPoolExecutor(1) as elsewhere:
        second: list[Future[None]] = []

        def first_after_done() -> None:
            second.append(elsewhere.submit(read_and_close, library, network_stream, after_done))
            assert second_comes.wait(PATIENCE)
            network_stream.read(1, timeout=5.0)

        read_and_close(library, network_stream, first_after_done)
        first_is_through.set()
        second[0].result(PATIENCE)
    network_stream.read(1, timeout=7.0)
    *hurried, other = network_stream.timeouts
    assert [timeout is not None and timeout <= 0.1 for timeout in hurried] == [True, True]
    assert other == 7.0


def test_two_threads_that_wait_on_one_connection(library: Any) -> None:
    """The second got the connection, and came to its own end, before the first had tidied up."""
    second_waits, first_is_through = threading.Event(), threading.Event()
    network_stream = NetworkStream()

    def after_done() -> None:
        second_waits.set()
        assert first_is_through.wait(PATIENCE)
        network_stream.read(1, timeout=6.0)

    check_two_threads(library, network_stream, after_done, second_waits, first_is_through)


def test_a_thread_begins_to_wait_while_the_one_before_it_tidies_up(library: Any) -> None:
    """Was once wrong: the second found what the first had just removed, and waited without a limit."""
    second_begins, first_is_through = threading.Event(), threading.Event()

    class HandedOver(NetworkStream):
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "read" and threading.current_thread() is not first and not second_begins.is_set():
                second_begins.set()
                assert first_is_through.wait(PATIENCE)
            return value

    first, network_stream = threading.current_thread(), HandedOver()
    check_two_threads(
        library, network_stream, lambda: network_stream.read(1, timeout=6.0), second_begins, first_is_through
    )


def test_threads_that_share_a_client(library: Any) -> None:
    def ask(client: Any, url: str) -> None:
        for _ in range(10):
            with connect(client, "POST", url, json=ASKED) as stream:
                assert stream.read().text == "Hello"

    with (
        FakeProvider(*[Answer(WHOLE)] * 40) as provider,
        library.Client(**ALONE) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        for asked in [threads.submit(ask, client, provider.url) for _ in range(4)]:
            asked.result(PATIENCE)
        assert connections_in_use(client) == []


def test_a_network_stream_of_another_make_is_not_waited_for() -> None:
    class Own:
        __slots__ = ()

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            raise AssertionError("nobody reads")

    def untouched() -> Iterator[bytes]:
        raise AssertionError("nobody reads")
        yield b""

    read_to_end(SimpleNamespace(extensions={"network_stream": Own()}), untouched())


def test_a_body_that_decodes_to_nothing_is_not_waited_for_either() -> None:
    class Endless:
        reads = 0

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            self.reads += 1
            time.sleep(0.01)
            return b""

    network_stream = Endless()

    def decoded() -> Iterator[bytes]:
        while True:  # as a client does that waits for something to hand out
            network_stream.read(1, 30.0)
        yield b""

    read_to_end(SimpleNamespace(extensions={"network_stream": network_stream}), decoded())
    assert 0 < network_stream.reads <= 11
