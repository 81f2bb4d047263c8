"""Leaving a stream before its end: by `break`, `close`, an exception, or in a generator around it; closing that fails."""

import asyncio
import gc
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest
from asked import COUNTED, NUMBERS, TEXTS, VIEWS, Asked, Mine, apart, asked, asked_sync, drop_items
from fronts import (
    ASKED,
    PATIENCE,
    STREAMS,
    Sync,
    by_turns,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_streams,
)
from sources import HI, STOP, Kin, source
from spotless import spotless_loop

from chunkfold import AsyncChatCompletionStream, StreamEnd, connect
from chunkfold.testing import DONE, Answer

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


@by_turns("items", ["0 chunks", "3 chunks", *(f"1 {view}" for view in VIEWS), "3 events"], STREAMS)
async def test_leaving_after_some_items(library: Any, front: Any, items: str) -> None:
    count, view = items.split()
    async with asked(library, front, Answer([*apart(NUMBERS), math.inf])) as to:
        async with to.connect() as stream:
            iterator = VIEWS[view](stream)
            for _ in range(int(count)):
                await anext(iterator)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


async def fail_in_the_loop(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect() as stream:
        async for _ in VIEWS[view](stream):
            raise mine


async def fail_at_once(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect():
        raise mine


async def fail_after_done(to: Asked, view: str, mine: BaseException) -> None:
    async with to.connect() as stream:
        await drop_items(VIEWS[view](stream))
        raise mine


KINDS = [KeyError, Mine, KeyboardInterrupt, SystemExit, asyncio.CancelledError, TimeoutError, GeneratorExit]


FAILURES: dict[str, tuple[str, type[BaseException], Callable[..., Awaitable[None]]]] = {
    f"{kind.__name__} {fail.__name__} {view}": (view, kind, fail)
    for view, kind, fail in [
        *(("chunks", kind, fail_in_the_loop) for kind in KINDS),
        *((view, KeyboardInterrupt, fail_in_the_loop) for view in [*VIEWS][1:]),
        *(("chunks", kind, fail_after_done) for kind in (KeyError, KeyboardInterrupt)),
        ("chunks", KeyError, fail_at_once),
    ]
}


@by_turns("failure", FAILURES, STREAMS)
async def test_an_exception_of_the_consumer_passes_unchanged(library: Any, front: Any, failure: str) -> None:
    view, kind, fail = FAILURES[failure]
    mine, is_over = kind("mine"), fail is fail_after_done
    async with asked(library, front, Answer(COUNTED, ending="open") if is_over else Answer([*NUMBERS, math.inf])) as to:
        with pytest.raises(kind) as caught:
            await fail(to, view, mine)
        assert caught.value is mine
        assert (mine.__cause__, mine.__context__) == (None, None)
        (stream,) = to.streams
        assert (stream.end, stream.error) == (StreamEnd.FINISHED if is_over else StreamEnd.CLOSED, None)
        assert has_left(to.request)
        del caught


async def test_closing_again_does_not_touch_the_next_stream(library: Any, front: Any) -> None:
    """The connection was given back, and belongs to another."""
    async with asked(library, front, Answer(COUNTED), Answer(apart(COUNTED))) as to:
        async with to.connect() as first:
            await first.read()
        async with to.connect() as second:
            await anext(aiter(second))
            await first.aclose()
            await first.response.aclose() if front is not Sync else first.response.close()
            assert (await second.read()).text == "[1, 2, 3]"
        assert to.provider.connections == 1


@by_turns("items", [*(f"1 {view}" for view in VIEWS), "300 chunks", "300 events"], STREAMS)
async def test_closing_in_the_loop_ends_it(library: Any, front: Any, items: str) -> None:
    repeats, view = items.split()
    taken: list[Any] = []
    async with asked(library, front, Answer([b"".join(NUMBERS[:1] + [NUMBERS[1]] * int(repeats)), math.inf])) as to:
        async with to.connect() as stream:
            with anyio.fail_after(PATIENCE):
                async for item in VIEWS[view](stream):
                    taken.append(item)
                    await stream.aclose()
        assert len(taken) == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


async def texts_from(to: Asked) -> AsyncIterator[str]:
    async with to.connect() as stream:
        async for text in stream.text_deltas():
            yield text


async def test_leaving_a_generator_around_the_stream(library: Any, front: Any) -> None:
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        async with aclosing(texts_from(to)) as texts:
            async for _ in texts:
                break
        assert [stream.end for stream in to.streams] == [StreamEnd.CLOSED]
        assert has_left(to.request)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio says what it thinks of such a generator
async def test_dropping_a_generator_around_the_stream(library: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:
        async for _ in texts_from(to):
            break
        with anyio.fail_after(PATIENCE):
            while not to.request.answered.is_set():
                await anyio.lowlevel.checkpoint()
        assert [stream.end for stream in to.streams] == [StreamEnd.CLOSED]
        assert has_left(to.request)


def test_dropping_a_sync_generator_around_the_stream(library: Any) -> None:
    streams: list[Any] = []

    def texts_of(client: Any, url: str) -> Iterator[str]:
        with connect(client, "POST", url, json=ASKED) as stream:
            streams.append(stream)
            yield from stream.text_deltas()

    with asked_sync(library, Answer([*NUMBERS, math.inf])) as (client, provider):
        texts = texts_of(client, provider.url)
        assert next(texts) == TEXTS[0]
        del texts
        gc.collect()
        assert [(stream.end, stream.response.is_closed) for stream in streams] == [(StreamEnd.CLOSED, True)]
        assert has_left(provider.requests[0])
        streams.clear()


async def test_a_stream_that_is_entered_in_one_task_and_left_in_another(library: Any, anyio_backend: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer(COUNTED)) as to:
        opening = to.connect()
        entered = anyio.Event()

        async def enter_and_read() -> None:
            await (await opening.__aenter__()).read()
            entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter_and_read)
            await entered.wait()
            await opening.__aexit__(None, None, None)
        assert [stream.end for stream in to.streams] == [StreamEnd.FINISHED]


async def test_leaving_parses_no_more_than_a_little_of_what_had_arrived(front: Any) -> None:
    """So that a finish reason that had arrived counts, but leaving takes no long time."""
    stream = front(source(front, [HI * 40_000 + STOP + DONE]))
    await anext(aiter(stream))
    await stream.aclose()
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    text = stream.snapshot.text
    assert len(HI) * len(text) // 2 <= 2**20 + 2**16
    assert text[:1000] == "Hi" * 500
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


class Unwilling(Kin):
    """A response that raises `of_body` when its body is closed, and `of_response` when it is closed itself."""

    def __init__(
        self,
        of_body: BaseException | None = None,
        of_response: BaseException | None = None,
        on_read: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        super().__init__([])
        self.of_body, self.of_response, self.on_read = of_body, of_response, on_read

    def iter_bytes(self) -> "UnwillingBody":
        return UnwillingBody(self)

    aiter_bytes = iter_bytes

    def close(self) -> None:
        super().close()
        if self.of_response is not None:
            raise self.of_response

    async def aclose(self) -> None:
        self.close()


class UnwillingBody:
    """Its body."""

    def __init__(self, response: Unwilling) -> None:
        self.response = response

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> bytes:
        if self.response.on_read is not None:
            with suppress(StopIteration):  # what it awaits is sync code, too
                self.response.on_read().send(None)
        return NUMBERS[0]

    async def __anext__(self) -> bytes:
        if self.response.on_read is not None:
            await self.response.on_read()
        return NUMBERS[0]

    def close(self) -> None:
        if self.response.of_body is not None:
            raise self.response.of_body

    async def aclose(self) -> None:
        self.close()


@pytest.mark.parametrize("failing", ["body", "response"])
@pytest.mark.parametrize("kind", [OSError, Mine])
async def test_closing_that_fails(front: Any, kind: type[BaseException], failing: str) -> None:
    """What a transport raises is no news; what is no `Exception` passes. The response is closed in any case."""
    mine = kind("mine")
    async with spotless_loop():
        response = Unwilling(**{f"of_{failing}": mine})
        raised: BaseException | None = None
        try:
            async with front(response) as stream:
                await anext(aiter(stream))
        except Mine as error:
            raised = error
        assert raised is (mine if kind is Mine else None)
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        raised = None


class Unfinished(UnwillingBody):
    """A body whose methods to close it cannot even be read."""

    @property
    def close(self) -> Any:
        raise OSError("mine")

    aclose = close


async def test_closing_that_cannot_be_read(front: Any) -> None:
    async with front(Unfinished(Unwilling())) as stream:
        await anext(aiter(stream))
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


async def test_a_body_that_cannot_be_closed_after_its_stream_was(front: Any) -> None:
    """It is closed by whoever reads it, when closing came during a read; that it fails is no news then either."""
    async with spotless_loop():

        async def close() -> None:
            await stream.aclose()

        response = Unwilling(of_body=OSError("mine"), on_read=close)
        stream = front(response)
        async for _ in stream:
            pytest.fail("it was closed")
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
