"""`drain`: reading on to the end without handing anything out, for a bounded time."""

import itertools
import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from cases import each_case
from fronts import (
    PATIENCE,
    STREAMS,
    by_turns,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_streams,
    raw_client_of,
    rescue,
    send,
)
from sources import (
    ERROR,
    HELLO,
    HI,
    IN_ONE_READ,
    LD,
    SILENCE,
    STOP,
    USAGE,
    VIEWS_OF_TEXT,
    WHOLE,
    WOR,
    Kin,
    is_sync,
    over_http_1_0,
    source,
    stopped_after_the_first,
)
from ways_out import close_at_once, leave_at_once, read_it, read_to_the_end

from chunkfold import APIError, AsyncChatCompletionStream, ChatCompletionStream, ChunkfoldError, StreamEnd
from chunkfold.stream import sync
from chunkfold.testing import DONE, FakeProvider, event

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


async def test_draining_reads_on_to_the_usage(library: Any, front: Any) -> None:
    pieces = [WOR, 0.01, LD, 0.01, STOP, 0.01, USAGE, DONE]
    async with stopped_after_the_first(library, front, *pieces) as stream:
        snapshot = await stream.drain()
        assert snapshot.usage.total_tokens == 7
        assert stream.response.is_closed
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert stream.completion() == snapshot
        assert await stream.drain() == snapshot
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


# What the provider sends, how its body ends, how long it is drained, and how the stream ends.
DRAINED: dict[str, tuple[list[Any], str, float, str]] = {
    "a stall": ([math.inf], "end", 0.1, "closed"),
    "text for ever": ([WOR, 0.005] * 10_000, "end", 0.2, "closed"),
    "a cut": ([WOR, 0.02], "cut", 5.0, "interrupted"),
    "an error": ([WOR + ERROR], "end", 5.0, "failed"),
    "a cut after the finish reason": ([WOR + STOP], "cut", 5.0, "finished"),
    "[DONE] in an open body": ([WOR + DONE, math.inf], "end", 5.0, "done"),
}


@by_turns("what", DRAINED, STREAMS)
async def test_draining_raises_nothing_for_what_the_provider_sends(library: Any, front: Any, what: str) -> None:
    """Nor does it last longer, in a client without a read timeout."""
    pieces, ending, within, end = DRAINED[what]
    async with stopped_after_the_first(library, front, *pieces, ending=ending) as stream:
        text = (await stream.drain(within=within)).text
        assert text == "Hello wor" if end != "closed" else re.fullmatch("Hello( wor)*", text)  # on a busy machine
        assert stream.end == end
        assert (stream.error is None) is (stream.end.complete or end == "closed")
        assert stream.response.is_closed
        with nullcontext() if stream.end.complete else pytest.raises(ChunkfoldError):
            stream.completion()


async def test_draining_over_http_1_0_ends_in_time(library: Any, front: Any) -> None:
    with FakeProvider(over_http_1_0(HELLO, math.inf)) as provider, rescue(provider):
        async with raw_client_of(front, library, timeout=None) as client:
            stream = front(await send(client, provider.url))
            assert (await stream.drain(within=0.1)).text == "Hello"
            assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(provider.requests[0])


async def test_draining_is_no_longer_than_the_clients_own_read_timeout(library: Any, front: Any) -> None:
    timeout = library.Timeout(PATIENCE, read=SILENCE)
    async with stopped_after_the_first(library, front, math.inf, timeout=timeout) as stream:
        await stream.drain(within=PATIENCE)
        assert type(stream.error.__cause__) is library.ReadTimeout


async def test_draining_ends_the_loop_that_it_stands_in(front: Any) -> None:
    """Of a read with many chunks, too, and of each view."""
    streams: list[tuple[list[bytes], str, str]] = [
        (WHOLE, "Hello world", "finished"),
        (IN_ONE_READ, "Hello world", "finished"),
        ([HI * 300, STOP], "Hi" * 300, "finished"),
        ([HELLO, WOR, ERROR], "Hello wor", "failed"),  # which is not raised in the loop either
    ]
    for pieces, text, end in streams:
        for view in VIEWS_OF_TEXT.values():
            stream = front(source(front, pieces))
            count = 0
            async for _ in view(stream):
                count += 1
                await stream.drain()
            assert count == 1
            assert (stream.snapshot.text, stream.end) == (text, end)
            with nullcontext() if end == "finished" else pytest.raises(APIError):
                stream.completion()


async def test_draining_what_is_over(front: Any) -> None:
    for prepare in (read_it, close_at_once, read_to_the_end, leave_at_once):
        response = Kin(WHOLE)
        stream = front(response)
        await prepare(stream)
        end = stream.end
        assert await stream.drain(within=0) == stream.snapshot
        assert stream.end == (end or "closed")
        assert response.closings == 1


async def test_draining_for_no_time_at_all(front: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is read, even if nothing can be cancelled, and the clock has not gone on meanwhile."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in WHOLE:
            yield piece

    for module in ("sync", "asynchronous"):
        monkeypatch.setattr(f"chunkfold.stream.{module}.time", SimpleNamespace(monotonic=lambda: 5.0))
    stream = front(iter(WHOLE) if is_sync(front) else pieces())
    await anext(aiter(stream))
    assert (await stream.drain(within=0)).text == ""
    assert stream.end is StreamEnd.CLOSED


@pytest.mark.parametrize(
    ("within", "error"), [(-1, ValueError), (math.nan, ValueError), ("5", TypeError), (None, TypeError)]
)
async def test_draining_within_no_time(front: Any, within: Any, error: type[Exception]) -> None:
    stream = front(source(front, WHOLE))
    with pytest.raises(error, match="within"):
        await stream.drain(within=within)
    assert (await stream.read()).text == "Hello world"  # nothing was done


async def test_draining_an_iterable(front: Any) -> None:
    """Between two pieces the time is looked at."""
    stream = front(source(front, itertools.repeat(HI)))
    await stream.drain(within=0.02)
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    stream = front(source(front, WHOLE))
    assert (await stream.drain(within=math.inf)).text == "Hello world"


@each_case(("late", "end"), [(TimeoutError, "closed"), (StopIteration, "truncated"), (KeyboardInterrupt, "closed")])
def test_what_fails_after_the_time_of_a_drain_does_not_count(
    late: type[BaseException], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the read timeout of a client over HTTP/2, where the time is only looked at between two pieces."""

    class Pieces:
        def __init__(self) -> None:
            self.left = [HELLO]

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> bytes:
            if self.left:
                return self.left.pop()
            now.append(10.0)  # the drain's time has passed
            raise late

    now = [0.0]
    monkeypatch.setattr(sync, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    stream = ChatCompletionStream(Pieces())
    next(stream)
    with pytest.raises(KeyboardInterrupt) if late is KeyboardInterrupt else nullcontext():
        stream.drain(within=1.0)
    assert (stream.end, stream.error is None) == (end, end == "closed")
    assert stream.snapshot.text == "Hello"


async def test_draining_an_async_iterable_that_stalls() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield HELLO
        await anyio.sleep_forever()

    stream = AsyncChatCompletionStream(pieces())
    with anyio.fail_after(PATIENCE):
        assert (await stream.drain(within=0.05)).text == "Hello"
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


@pytest.mark.parametrize("leave", ["close", "drain"])
def test_a_stream_that_was_left_between_events_yields_no_chunks(leave: str) -> None:
    # Leaving notes that there is no id.
    stream = ChatCompletionStream([event({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}), STOP])
    next(stream.events())
    getattr(stream, leave)()
    assert next(stream, None) is None


def test_draining_within_a_read_after_closing() -> None:
    def pieces() -> Iterator[bytes]:
        yield HELLO
        stream.close()
        drained.append(stream.drain().text)

    drained: list[str] = []
    stream = ChatCompletionStream(pieces())
    assert [chunk.text for chunk in stream] == drained == ["Hello"]
