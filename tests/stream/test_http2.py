"""Streams over HTTP/2: whole ones, and what can befall one stream or the connection that it shares with others.

The scripts wait for what the client has read, so that nothing depends on how fast either side is. What the clients
make of a fault differs little from HTTP/1.1; what is new is that other streams go on, or do not.
"""

import gc
import json
import math
import ssl
import threading
import warnings
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio
import fronts
import pytest
from asked import WatchedReads
from fronts import (
    ALONE,
    ASKED,
    PATIENCE,
    AsyncFront,
    Expected,
    by_turns,
    check_reading,
    connections_in_use,
    generators_of_httpx_are_not_ours,
    over_both_fronts,
    text_of,
)
from http2_provider import Drop, End, GoAway, Head, Http2Provider, Reset, Step, Until

from chunkfold import (
    ChunkfoldError,
    IncompleteStreamError,
    StreamEnd,
    StreamInterruptedError,
    connect,
)
from chunkfold.testing import DONE, delta

pytestmark = generators_of_httpx_are_not_ours

pytest_generate_tests = over_both_fronts

CANCEL = 8  # the error code of RST_STREAM by whom no longer wants the answer


HELLO = delta(content="Hello")
WORLD = delta(content=" world")
STOP = delta("stop")
WHOLE = (Head(), HELLO, WORLD, STOP, DONE, End())


def client_of(front: Any, library: Any, **options: Any) -> AbstractAsyncContextManager[Any]:
    """A client that knows that the provider speaks HTTP/2, as nothing says so without TLS."""
    return fronts.client_of(front, library, **{"http2": True, "http1": False, **options})


async def test_a_whole_stream(front: Any, library: Any) -> None:
    with Http2Provider(WHOLE) as provider:
        async with client_of(front, library) as client:
            for _ in range(2):
                async with client.connect(provider.url) as stream:
                    assert await text_of(stream) == "Hello world"
                assert stream.response.http_version == "HTTP/2"
                assert stream.response.is_closed
                assert (stream.end, stream.anomalies) == (StreamEnd.FINISHED, ())
                assert stream.completion().text == "Hello world"
                assert connections_in_use(client) == []
        assert provider.connections == 1
    sent = provider.streams[0]
    assert (sent.headers["accept"], sent.headers["accept-encoding"]) == ("text/event-stream", "identity")
    assert json.loads(sent.body) == {**ASKED, "stream": True}


async def test_over_tls_both_sides_agree_on_it(front: Any, library: Any, server_side: ssl.SSLContext) -> None:
    server_side.set_alpn_protocols(["h2"])
    with Http2Provider(WHOLE, ssl_context=server_side) as provider:
        async with client_of(front, library, http1=True) as client, client.connect(provider.url) as stream:
            assert await text_of(stream) == "Hello world"
    assert stream.response.http_version == "HTTP/2"


async def test_a_body_that_stays_open_after_done_holds_nobody(front: Any, library: Any) -> None:
    with Http2Provider([*WHOLE[:-1], math.inf], WHOLE) as provider:
        async with client_of(front, library, timeout=None) as client:
            for _ in range(2):
                async with client.connect(provider.url) as stream:
                    assert await text_of(stream) == "Hello world"
                assert connections_in_use(client) == []
        assert provider.connections == 1


@dataclass(kw_only=True)
class Case(Expected):
    """A script, and what has to come of it.

    What is to come after is sent when the client has read what came before. Where the connection ends behind the
    stream's back, only the next request can tell the client.
    """

    before: list[Step]
    after: list[Step]
    leaves_a_trap: bool = False

    def script(self, texts: list[str]) -> list[Step]:
        def has_read() -> bool:
            return len(texts) >= sum(isinstance(step, bytes) for step in self.before)

        return [*self.before, Until(has_read), *self.after]


def interrupted(before: list[Step], after: list[Step], text: str, cause: str = "RemoteProtocolError") -> Case:
    """It failed, which is worth another try as long as no output came."""
    error = StreamInterruptedError
    return Case(before=before, after=after, end="interrupted", text=text, error=error, cause=cause, retryable=not text)


def finished(before: list[Step], after: list[Step], noted: tuple[str, ...] = (), **options: Any) -> Case:
    return Case(before=before, after=after, end="finished", text="Hello world", noted=noted, **options)


def incomplete(end: str, before: list[Step], after: list[Step], text: str) -> Case:
    return Case(before=before, after=after, end=end, text=text, error=IncompleteStreamError, retryable=not text)


REST = [WORLD, STOP, DONE, End()]

CASES = {
    "trailers": finished([Head(), HELLO, WORLD, STOP], [DONE, End({"x-cost": "1"})]),
    "trailers without [DONE]": finished([Head(), HELLO, WORLD, STOP], [End({"x-cost": "1"})], ("CF501",)),
    "other responses before": finished([Head(103, {}), *WHOLE[:3]], [STOP, DONE, End()]),
    "the end at once": incomplete("empty", [Head()], [End()], ""),
    "the end in the middle": incomplete("truncated", [Head(), HELLO], [End()], "Hello"),
    "the end inside an event": incomplete("truncated", [Head(), HELLO], [WORLD[:40], End()], "Hello"),
    "204": incomplete("empty", [], [Head(204, {}), End()], ""),
    "reset before the body": interrupted([Head()], [Reset()], ""),
    "reset in the middle": interrupted([Head(), HELLO], [Reset()], "Hello"),
    "reset inside an event": interrupted([Head(), HELLO], [WORLD[:40], Reset()], "Hello"),
    "reset without an error": interrupted([Head(), HELLO], [Reset(0)], "Hello"),
    "reset after the finish reason": finished([Head(), HELLO, WORLD, STOP], [Reset()], ("CF507",)),
    "reset after [DONE]": finished([Head(), HELLO, WORLD, STOP], [DONE, Reset()]),
    "going away before the body": interrupted([Head()], [GoAway(error_code=2)], ""),
    "going away in the middle, with this stream": interrupted([Head(), HELLO], [GoAway(0, error_code=2)], "Hello"),
    # The provider would go on, but neither client listens any more.
    "going away in the middle, after this stream": interrupted([Head(), HELLO], [GoAway(), math.inf], "Hello"),
    "going away in the middle, and going on": interrupted([Head(), HELLO], [GoAway(), *REST], "Hello", "ProtocolError"),
    "going away after the finish reason": finished([Head(), HELLO, WORLD, STOP], [GoAway(), DONE, End()], ("CF507",)),
    "going away after [DONE]": finished([Head(), HELLO, WORLD, STOP], [DONE, GoAway(), Drop()], leaves_a_trap=True),
    "dropped before the body": interrupted([Head()], [Drop()], ""),
    "dropped in the middle": interrupted([Head(), HELLO], [Drop()], "Hello"),
    "dropped inside an event": interrupted([Head(), HELLO], [WORLD[:40], Drop()], "Hello"),
    "dropped by a reset": interrupted([Head(), HELLO], [Drop(by_reset=True)], "Hello", "ReadError"),
    "dropped after the finish reason": finished([Head(), HELLO, WORLD, STOP], [Drop()], ("CF507",)),
    "dropped after [DONE]": finished([Head(), HELLO, WORLD, STOP], [DONE, Drop()], leaves_a_trap=True),
}  # fmt: skip


@by_turns("name", CASES)
async def test_a_fault_while_the_answer_comes(front: Any, library: Any, name: str) -> None:
    case = CASES[name]
    texts: list[str] = []
    with Http2Provider(case.script(texts), WHOLE) as provider:
        async with client_of(front, library) as client:
            await check_reading(case, client, library, provider.url, texts)
            if not case.leaves_a_trap:
                async with client.connect(provider.url) as another:
                    assert await text_of(another) == "Hello world"


async def test_leaving_early_leaves_the_connection(front: Any, library: Any) -> None:
    with Http2Provider([Head(), HELLO, math.inf], WHOLE) as provider:
        async with client_of(front, library) as client:
            async with client.connect(provider.url) as stream:
                async for _ in stream:
                    break
            assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
            assert stream.response.is_closed
            assert connections_in_use(client) == []
            async with client.connect(provider.url) as stream:
                assert await text_of(stream) == "Hello world"
        assert provider.connections == 1


async def test_leaving_early_closes_the_iterator_of_the_body(library: Any) -> None:
    """Trio warns of one that is left to the garbage collector, as httpcore leaves its own."""
    with Http2Provider([Head(), HELLO, math.inf]) as provider:
        async with client_of(AsyncFront, library, timeout=None) as client:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                async with client.connect(provider.url) as stream:
                    await anext(stream)
                del stream
                gc.collect()
    assert not [warning for warning in caught if "aiter_bytes" in str(warning.message)]


@pytest.mark.xfail(reason="neither client sends RST_STREAM for a response that is closed early", strict=True)
async def test_leaving_early_stops_the_generation(front: Any, library: Any) -> None:
    with Http2Provider([Head(), HELLO, math.inf], WHOLE) as provider:
        async with client_of(front, library) as client:
            async with client.connect(provider.url) as stream:
                async for _ in stream:
                    break
            # What the client sends is seen in order: behind the next request it would be too late.
            async with client.connect(provider.url) as stream:
                assert await text_of(stream) == "Hello world"
        assert provider.streams[0].reset_by_client == CANCEL


@pytest.mark.parametrize("is_read", [False, True], ids=["a loop", "a read"])
async def test_closing_from_another_task_ends_the_loop(library: Any, is_read: bool) -> None:
    """At once, although the connection is silent and the client has no timeout; its other streams go on."""
    has_closed = threading.Event()
    open_end = [Head(), HELLO, math.inf]
    other = [Head(), HELLO, Until(has_closed.is_set), WORLD, STOP, DONE, End()]
    texts: list[str] = []
    ends: list[type[ChunkfoldError] | None] = []

    async def use(stream: Any) -> None:
        try:
            texts.append((await stream.read()).text if is_read else await text_of(stream))
            ends.append(None)
        except ChunkfoldError as error:
            ends.append(type(error))

    with Http2Provider(open_end, other) as provider, anyio.fail_after(PATIENCE):
        async with client_of(AsyncFront, library, timeout=None) as client:
            async with client.connect(provider.url) as stream, client.connect(provider.url) as another:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(use, stream)
                    while stream.snapshot.text != "Hello":
                        await anyio.lowlevel.checkpoint()
                    await anyio.wait_all_tasks_blocked()
                    await stream.aclose()
                assert stream.response.is_closed
                has_closed.set()
                assert (await another.read()).text == "Hello world"
            assert connections_in_use(client) == []
        assert provider.connections == 1
    assert (texts, ends) == (([], [IncompleteStreamError]) if is_read else (["Hello"], [None]))
    assert (stream.end, stream.error, stream.snapshot.text) == (StreamEnd.CLOSED, None, "Hello")


def test_closing_from_another_thread_ends_the_loop_with_the_next_bytes(library: Any) -> None:
    """A thread that shares its connection cannot be woken, so it closes the response itself."""
    waiting, has_closed = threading.Event(), threading.Event()
    script = [Head(), HELLO, Until(has_closed.is_set), WORLD, math.inf]
    with Http2Provider(script, WHOLE) as provider, library.Client(**ALONE, http2=True, http1=False) as client:
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            WatchedReads(stream.response, lambda: waiting.set() if stream.snapshot.text else None)

            def close() -> None:
                assert waiting.wait(PATIENCE)
                stream.close()
                has_closed.set()

            closing = threading.Thread(target=close, name="closer", daemon=True)
            closing.start()
            assert [chunk.text for chunk in stream] == ["Hello"]
            closing.join(PATIENCE)
            assert stream.response.is_closed
            assert connections_in_use(client) == []
        with connect(client, "POST", provider.url, json=ASKED) as another:
            assert another.read().text == "Hello world"
        assert provider.connections == 1
    assert (stream.end, stream.error, stream.snapshot.text) == (StreamEnd.CLOSED, None, "Hello")


FAULTS: dict[str, tuple[list[Step], list[str]]] = {
    "none": ([WORLD, STOP, DONE, End()], ["finished"] * 4),
    "one is reset": ([Reset()], ["interrupted", *["finished"] * 3]),
    "the provider goes away": ([GoAway(error_code=2), math.inf], ["interrupted"] * 4),
    "the connection is dropped": ([Drop()], ["interrupted"] * 4),
}
TEXTS = {"finished": "Hello world", "interrupted": "Hello"}


@by_turns("fault", FAULTS)
async def test_several_streams_on_one_connection(front: Any, library: Any, fault: str) -> None:
    steps, ends = FAULTS[fault]
    begun: list[Any] = []
    first = [Head(), HELLO, Until(lambda: len(begun) == 4), *steps]
    other = [Head(), HELLO, Until(lambda: provider.streams[0].answered), WORLD, STOP, DONE, End()]
    with Http2Provider(first, *[other] * 3, WHOLE) as provider:
        async with client_of(front, library) as client:
            async with AsyncExitStack() as stack:
                for _ in range(4):
                    stream = await stack.enter_async_context(client.connect(provider.url))
                    async for each in stream:
                        assert each.text == "Hello"
                        break
                    begun.append(stream)
                for stream, end in zip(begun, ends, strict=True):
                    with pytest.raises(StreamInterruptedError) if end == "interrupted" else nullcontext():
                        await text_of(stream)
            assert [(stream.end, stream.snapshot.text) for stream in begun] == [(end, TEXTS[end]) for end in ends]
            assert provider.connections == 1
            assert connections_in_use(client) == []
            async with client.connect(provider.url) as stream:
                assert await text_of(stream) == "Hello world"


async def test_leaving_one_of_several(front: Any, library: Any) -> None:
    script = [Head(), HELLO, Until(lambda: has_left), WORLD, STOP, DONE, End()]
    has_left = False
    with Http2Provider(script) as provider:
        async with client_of(front, library) as client, client.connect(provider.url) as stream:
            async for _ in stream:
                break
            async with client.connect(provider.url) as another:
                async for _ in another:
                    break
            assert another.end is StreamEnd.CLOSED
            has_left = True
            assert await text_of(stream) == " world"
        assert provider.connections == 1
    assert stream.completion().text == "Hello world"
