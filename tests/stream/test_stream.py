"""How a stream ends for whoever reads it: every way out, an error, a refusal, a fault of the source, `[DONE]`.

What holds for one front holds for the other, so most tests are written once, with `await`, and run over both.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import pytest
from cases import each_case
from fronts import PATIENCE, STREAMS, by_turns, generators_of_httpx_are_not_ours, over_both_streams, raw_client_of, send
from sources import (
    ERROR,
    HELLO,
    HI,
    LD,
    SILENCE,
    STOP,
    VIEWS_OF_TEXT,
    WHOLE,
    WOR,
    AsyncList,
    Kin,
    Pieces,
    every_source,
    is_sync,
    mocked,
    opened,
    source,
    take,
    texts_of,
)
from ways_out import WAYS_OUT

from chunkfold import (
    APIError,
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.testing import DONE, Answer, FakeProvider, delta, json_answer, stalled

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


def test_chunks_come_as_they_arrive() -> None:
    body = Pieces([HELLO, WOR + LD, STOP, DONE])
    with ChatCompletionStream(iter(body)) as stream:
        assert body.read == 0
        assert [(chunk.text, body.read) for chunk in stream] == [("Hello", 1), (" wor", 2), ("ld", 2), ("", 3)]


@every_source
@each_case("way_out", WAYS_OUT)
async def test_every_way_out_closes(kind: str, front: Any, way_out: Callable[[Any], Awaitable[None]]) -> None:
    async with opened(kind, front, WHOLE) as body:
        async with front(body.source) as stream:
            assert stream.response is (None if kind in ("iterable", "generator") else body.source)
            await way_out(stream)
        assert stream.end == WAYS_OUT[way_out]
        assert body.let_go()
    # Leaving raises nothing; only the completion is not to be had.
    assert stream.error is None
    if stream.end == "closed":
        with pytest.raises(IncompleteStreamError) as caught:
            stream.completion()
        assert caught.value.snapshot == stream.snapshot
        assert not caught.value.retryable
    else:
        assert stream.completion().text == "Hello world"


FAULTS: dict[str, tuple[list[bytes], type[ChunkfoldError], str]] = {
    "an error": ([HI, ERROR, delta(content="never")], APIError, "failed"),
    "an error in the same read": ([HI + ERROR + delta(content="never")], APIError, "failed"),
    "an event that is no chunk": ([HI + b"data: garbage\n\n", delta(content="never")], InvalidChunkError, "invalid"),
    "the end of the body": ([HI], IncompleteStreamError, "truncated"),
}


@every_source
@each_case("fault", FAULTS)
@each_case("view", VIEWS_OF_TEXT)
async def test_every_item_then_the_error_once(kind: str, front: Any, fault: str, view: str) -> None:
    pieces, kind_of_error, end = FAULTS[fault]
    taken: list[Any] = []
    async with opened(kind, front, pieces) as body, front(body.source) as stream:
        items = VIEWS_OF_TEXT[view](stream)
        with pytest.raises(kind_of_error) as caught:
            await take(items, taken)
        assert body.let_go()  # also of whoever uses no `with`
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(items)
    assert [getattr(item, {"chunks": "text", "events": "delta"}.get(view, ""), item) for item in taken] == ["Hi"]
    assert (stream.end, stream.error) == (end, caught.value)
    assert caught.value.snapshot.text == stream.snapshot.text == "Hi"
    assert caught.value.emitted_output
    for ask in (stream.completion, stream.completion):
        with pytest.raises(kind_of_error) as again:
            ask()
        assert again.value is caught.value
    with pytest.raises(StreamConsumedError):
        await take(VIEWS_OF_TEXT[view](stream), taken)


async def test_nothing_is_read_behind_done(front: Any) -> None:
    """`[DONE]` ends the loop at once, and only a response of httpx or httpx2 has a connection worth waiting for."""

    def pieces() -> Iterator[bytes]:
        yield from WHOLE
        pytest.fail("read on")

    for body in (source(front, pieces()), Kin(pieces())):
        async with front(body) as stream:
            assert await texts_of(stream) == ["", "Hello", " wor", "ld", ""]
        assert stream.end is StreamEnd.FINISHED


@pytest.mark.parametrize(
    ("version", "connection", "read"),
    [
        (b"HTTP/1.1", "keep-alive", True),
        (b"HTTP/1.1", "upgrade, Close", False),
        (b"HTTP/2", "keep-alive", False),
        (b"HTTP/1.0", "keep-alive", False),
    ],
)
async def test_only_http_1_1_that_stays_open_is_drained(
    library: Any, version: bytes, connection: str, read: bool
) -> None:
    """Async, because there a mock is drained too; in sync code the network stream itself is asked to hurry."""
    body = Pieces([*WHOLE, b": bye\n\n"])
    headers = {"connection": connection}
    response = library.Response(200, headers=headers, stream=body, extensions={"http_version": version})
    async with mocked(library, AsyncChatCompletionStream, response) as given:
        async with AsyncChatCompletionStream(given) as stream:
            await texts_of(stream)
            assert body.read == len(WHOLE)
        assert (body.read > len(WHOLE)) is read
        assert given.is_closed


@pytest.mark.parametrize("use", ["read", "drain"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_what_is_no_exception_passes_unchanged(front: Any, stop: type[BaseException], use: str) -> None:
    """And closes, by `with` or where a drain ends."""

    def give(item: Any) -> bytes:
        if item is stop:
            raise stop
        return HELLO

    body = map(give, [HELLO, stop])  # no generator, since those may not raise GeneratorExit at will
    stream = front(body if is_sync(front) else AsyncList(body))
    with pytest.raises(stop):
        async with stream if use == "read" else nullcontext():
            await getattr(stream, use)()
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    assert stream.snapshot.text == "Hello"


OF_OURS = [LimitExceededError("x", limit="x", value=1), InvalidChunkError("x")]


@each_case("fault", [OSError("gone"), RuntimeError("odd"), ValueError(), *OF_OURS])
async def test_whatever_the_source_raises_is_an_interruption(front: Any, fault: Exception) -> None:
    def pieces() -> Iterator[bytes]:
        yield HELLO
        raise fault

    stream = front(source(front, pieces()))
    with pytest.raises(StreamInterruptedError) as caught:
        await stream.read()
    assert (stream.end, caught.value.__cause__) == ("interrupted", fault)


REFUSAL = {"error": {"message": "no", "type": "some_error", "code": "some_code", "param": "n"}}


@asynccontextmanager
async def answered(library: Any, front: Any, answer: Answer, **client_options: Any) -> AsyncIterator[Any]:
    """A stream over a provider's answer."""
    async with AsyncExitStack() as stack:
        provider = stack.enter_context(FakeProvider(answer))
        client = await stack.enter_async_context(raw_client_of(front, library, **client_options))
        yield await stack.enter_async_context(front(await send(client, provider.url)))


@by_turns("status", [302, 400, 401, 404, 429, 500, 503, 529], STREAMS)
async def test_a_status_that_is_not_2xx(library: Any, front: Any, status: int) -> None:
    headers = {"location": "/elsewhere", "x-request-id": "r1", "retry-after": "7", "X-RateLimit-Limit-Requests": "60"}
    async with answered(library, front, json_answer(REFUSAL, status, headers)) as stream:
        with pytest.raises(APIStatusError) as caught:
            await texts_of(stream)
    error = caught.value
    assert (stream.end, stream.error) == (StreamEnd.FAILED, error)
    assert (error.status_code, error.message, error.raw) == (status, "no", REFUSAL)
    assert (error.request_id, error.retry_after, error.headers["x-ratelimit-limit-requests"]) == ("r1", 7.0, "60")
    assert error.retryable is (status == 429 or status >= 500)
    with pytest.raises(APIStatusError):
        stream.completion()


async def test_a_refusal_whose_body_hangs(library: Any, front: Any) -> None:
    answer = Answer(stalled(json_answer(REFUSAL).pieces, 1), 503)
    async with answered(library, front, answer, timeout=library.Timeout(PATIENCE, read=SILENCE)) as stream:
        with pytest.raises(APIStatusError, match="no"):
            await stream.read()


async def test_a_refusal_that_is_not_read(library: Any, front: Any) -> None:
    """Nothing was asked, so nothing is raised."""
    async with answered(library, front, Answer(b"{}", 500)) as stream:
        pass
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
