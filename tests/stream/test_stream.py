"""Reading a response, sync and async.

What holds for one front holds for the other, so most tests are written once, with `await`, and run over both. And what holds for one source of bytes holds for any: see `KINDS`.
"""

import asyncio
import gzip
import itertools
import math
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
import respx
from cases import each_case
from fronts import (
    LIBRARIES,
    PATIENCE,
    STREAMS,
    URL,
    Sync,
    SyncView,
    by_turns,
    connections_in_use,
    each_library,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_streams,
    raw_client_of,
    rescue,
    send,
    tls_server_side,
)
from measured_memory import only_garbage_of_these_tests

from chunkfold import (
    APIError,
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletionChunk,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    LimitExceededError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    TextDelta,
)
from chunkfold.stream.network import wake_reader
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    delta,
    event,
    fragment,
    json_answer,
    mock_response,
    stalled,
)

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams
library = each_library
server_side = tls_server_side
collecting_is_quick = only_garbage_of_these_tests

SILENCE = 0.15  # seconds; the read timeout where one is to pass: the headers come in time on a busy machine, too

ROLE, HELLO, WOR, LD = delta(role="assistant"), delta(content="Hello"), delta(content=" wor"), delta(content="ld")
HI, STOP = delta(content="Hi"), delta("stop")
ERROR = event({"error": {"message": "overloaded", "code": 503}})
WHOLE = [ROLE, HELLO, WOR, LD, STOP, DONE]
IN_ONE_READ = [b"".join(WHOLE)]


# Many sources


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


@asynccontextmanager
async def answered(library: Any, front: Any, answer: Answer, **client_options: Any) -> AsyncIterator[Any]:
    """A stream over a provider's answer."""
    async with AsyncExitStack() as stack:
        provider = stack.enter_context(FakeProvider(answer))
        client = await stack.enter_async_context(raw_client_of(front, library, **client_options))
        yield await stack.enter_async_context(front(await send(client, provider.url)))


KINDS = ["iterable", "generator", "httpx mock", "httpx2 mock", "httpx socket", "httpx2 socket"]
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


# As it is meant to be used


@every_source
@pytest.mark.parametrize("pieces", [WHOLE, IN_ONE_READ], ids=["a read each", "one read"])
async def test_every_source(kind: str, front: Any, pieces: list[bytes]) -> None:
    async with opened(kind, front, pieces) as body:
        async with front(body.source) as stream:
            assert stream.end is None
            chunks = [chunk async for chunk in stream]
            assert {type(chunk) for chunk in chunks} == {ChatCompletionChunk}
            assert [chunk.text for chunk in chunks] == ["", "Hello", " wor", "ld", ""]
            assert stream.end is StreamEnd.FINISHED
            assert stream.completion().text == "Hello world"
        assert body.let_go()
    assert (stream.error, stream.anomalies) == (None, ())
    assert stream.completion() == stream.snapshot
    assert stream.timing.first_output is not None
    has_response = kind not in ("iterable", "generator")
    assert stream.response is (body.source if has_response else None)


def test_chunks_come_as_they_arrive() -> None:
    body = Pieces([HELLO, WOR + LD, STOP, DONE])
    with ChatCompletionStream(iter(body)) as stream:
        assert body.read == 0
        assert [(chunk.text, body.read) for chunk in stream] == [("Hello", 1), (" wor", 2), ("ld", 2), ("", 3)]


def test_any_iterable_of_bytes(tmp_path: Any) -> None:
    file = tmp_path / "body.sse"
    file.write_bytes(b"".join(WHOLE))
    with file.open("rb") as lines:
        assert ChatCompletionStream(lines).read().text == "Hello world"
    assert ChatCompletionStream(tuple(WHOLE)).read().text == "Hello world"
    assert ChatCompletionStream(map(bytes, WHOLE)).read().text == "Hello world"


class StartingOver:
    """An iterator that begins again whenever it is asked for an iterator."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        self.left = [*self.pieces]
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class Bare:
    """Its iterator can only go on."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Any:
        left = iter(self.pieces)
        return type("Reads", (), {"__next__": lambda _: next(left)})()


@pytest.mark.parametrize("kind", [StartingOver, Bare])
def test_a_source_is_asked_for_its_iterator_once(kind: Callable[[list[bytes]], Iterable[bytes]]) -> None:
    stream = ChatCompletionStream(kind(WHOLE))
    assert [next(stream).text for _ in WHOLE[:3]] == ["", "Hello", " wor"]
    assert stream.read().text == "Hello world"


@pytest.mark.parametrize("encoding", ["gzip", "x-zip"])
@pytest.mark.parametrize("library", [httpx, httpx2])
def test_an_encoded_response_without_a_request(library: Any, encoding: str) -> None:
    body = b"".join(WHOLE)
    sent = gzip.compress(body) if encoding == "gzip" else body
    response = library.Response(200, headers={"content-encoding": encoding}, content=iter([sent]))
    assert ChatCompletionStream(response).read().text == "Hello world"


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


async def test_any_response_with_these_methods(front: Any) -> None:
    response = Kin(WHOLE)
    async with front(response) as stream:
        assert (await stream.read()).text == "Hello world"
    assert (stream.response, stream.request_id) == (response, "r1")
    assert response.closings == 1
    refused = front(Kin([b'{"error":{"message":"no"}}'], status_code=401))
    with pytest.raises(APIStatusError) as caught:
        await refused.read()
    assert (caught.value.status_code, caught.value.request_id) == (401, "r1")


async def test_status_and_headers_beside_a_plain_iterable(front: Any) -> None:
    """As with requests or aiohttp, whose responses have no `iter_bytes`."""
    stream = front(source(front, [b"slow down"]), status_code=429, headers={"Retry-After": "3"})
    with pytest.raises(APIStatusError) as caught:
        await stream.read()
    assert (caught.value.status_code, caught.value.retry_after) == (429, 3.0)


async def test_the_parsers_options(front: Any) -> None:
    seen: list[int] = []
    times = itertools.count()
    options = {"on_server_sent_event": lambda event, chunks: seen.append(len(chunks)), "clock": lambda: next(times)}
    stream = front(source(front, IN_ONE_READ), **options)
    await stream.read()
    assert seen == [1, 1, 1, 1, 1, 0]
    assert stream.timing.first_byte == 1
    refusing: dict[str, dict[str, Any]] = {
        "CF105": {"strict": True},
        "max_event_size": {"max_event_size": 10},
        "max_output_size": {"max_output_size": 3},
    }
    for told, option in refusing.items():
        with pytest.raises(InvalidStreamError, match=told):
            await front(source(front, [b"data: null\n\n", *WHOLE]), **option).read()
    with pytest.raises(TypeError, match="retries"):
        front(source(front, []), retries=3)


# Every way out


async def read_to_the_end(stream: Any) -> None:
    await texts_of(stream)


async def read_it(stream: Any) -> None:
    await stream.read()


async def read_the_texts(stream: Any) -> None:
    assert [delta async for delta in stream.text_deltas()] == ["Hello", " wor", "ld"]


async def leave_at_the_first(stream: Any) -> None:
    async for _ in stream:
        break


async def leave_the_texts(stream: Any) -> None:
    async for _ in stream.text_deltas():
        break


async def read_the_events(stream: Any) -> None:
    assert [event.delta async for event in stream.events() if isinstance(event, TextDelta)] == ["Hello", " wor", "ld"]


async def leave_the_events(stream: Any) -> None:
    async for _ in stream.events():
        break


async def leave_at_the_finish_reason(stream: Any) -> None:
    async for chunk in stream:
        if chunk.choices[0].finish_reason:
            break


async def leave_at_once(stream: Any) -> None:
    pass


async def close_at_once(stream: Any) -> None:
    await stream.aclose()


async def close_in_the_loop(stream: Any) -> None:
    async for _ in stream:
        await stream.aclose()


async def close_behind_the_loop(stream: Any) -> None:
    await texts_of(stream)
    await stream.aclose()
    await stream.aclose()


WAYS_OUT: dict[Callable[[Any], Awaitable[None]], str] = {
    read_to_the_end: "finished",
    read_it: "finished",
    read_the_texts: "finished",
    read_the_events: "finished",
    close_behind_the_loop: "finished",
    leave_at_the_finish_reason: "finished",
    leave_at_the_first: "closed",
    leave_the_texts: "closed",
    leave_the_events: "closed",
    leave_at_once: "closed",
    close_at_once: "closed",
    close_in_the_loop: "closed",
}


@every_source
@pytest.mark.parametrize("way_out", WAYS_OUT)
async def test_every_way_out_closes(kind: str, front: Any, way_out: Callable[[Any], Awaitable[None]]) -> None:
    async with opened(kind, front, WHOLE) as body:
        async with front(body.source) as stream:
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


VIEWS: dict[str, Callable[[Any], Any]] = {
    "chunks": aiter,
    "texts": lambda stream: stream.text_deltas(),
    "events": lambda stream: stream.events(),
}


async def take(items: Any, taken: list[Any]) -> None:
    """Gather items in a list that is the caller's when they end with an error."""
    async for item in items:
        taken.append(item)  # noqa: PERF401 - what came before an error is to be kept


@every_source
@each_case("fault", FAULTS)
@each_case("view", VIEWS)
async def test_every_item_then_the_error_once(kind: str, front: Any, fault: str, view: str) -> None:
    pieces, kind_of_error, end = FAULTS[fault]
    taken: list[Any] = []
    async with opened(kind, front, pieces) as body:
        async with front(body.source) as stream:
            with pytest.raises(kind_of_error) as caught:
                await take(VIEWS[view](stream), taken)
        assert body.let_go()
    assert [getattr(item, {"chunks": "text", "events": "delta"}.get(view, ""), item) for item in taken] == ["Hi"]
    assert (stream.end, stream.error) == (end, caught.value)
    assert caught.value.snapshot.text == stream.snapshot.text == "Hi"
    assert caught.value.emitted_output
    for ask in (stream.completion, stream.completion):
        with pytest.raises(kind_of_error) as again:
            ask()
        assert again.value is caught.value
    with pytest.raises(StreamConsumedError):
        await take(VIEWS[view](stream), taken)


@every_source
async def test_an_error_lets_go_without_with(kind: str, front: Any) -> None:
    async with opened(kind, front, [HI, ERROR]) as body:
        with pytest.raises(APIError):
            await front(body.source).read()
        assert body.let_go()


# Again, and on


@each_case("pieces", [WHOLE, IN_ONE_READ], ids=["a read each", "one read"])
@each_case("finish", WAYS_OUT)
async def test_iterating_again_after_any_end(
    front: Any, finish: Callable[[Any], Awaitable[None]], pieces: list[bytes]
) -> None:
    async with front(source(front, pieces)) as stream:
        await finish(stream)
    end, snapshot = stream.end, stream.snapshot
    for _ in range(2):
        with pytest.raises(StreamConsumedError) as caught:
            await texts_of(stream)
        assert caught.value.snapshot == snapshot
        assert not caught.value.retryable
        for view in (stream.text_deltas, stream.events):
            with pytest.raises(StreamConsumedError) as caught:
                view()
            assert caught.value.snapshot == snapshot
    # The result is still there.
    assert (stream.end, stream.snapshot) == (end, snapshot)


@every_source
@pytest.mark.parametrize("pieces", [WHOLE, IN_ONE_READ], ids=["a read each", "one read"])
async def test_going_on_after_a_break(kind: str, front: Any, pieces: list[bytes]) -> None:
    async with opened(kind, front, pieces) as body, front(body.source) as stream:
        texts = []
        for _ in range(3):
            async for chunk in stream:
                texts.append(chunk.text)
                break
        assert texts + await texts_of(stream) == ["", "Hello", " wor", "ld", ""]
        assert stream.completion().text == "Hello world"


@each_case("view", VIEWS)
@each_case("pieces", [WHOLE, [*WHOLE[:3], ERROR]], ids=["whole", "failed"])
async def test_nothing_more_comes_after_the_last_or_an_error(front: Any, view: str, pieces: list[bytes]) -> None:
    items = VIEWS[view](front(source(front, pieces)))
    with pytest.raises(APIError) if ERROR in pieces else nullcontext():
        await take(items, [])
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(items)


async def test_read(front: Any) -> None:
    async with front(source(front, WHOLE)) as stream:
        completion = await stream.read()
        assert completion.text == "Hello world"
        assert completion.finish_reason == "stop"
        assert stream.completion() == completion
        assert await stream.read() == completion
    assert await stream.read() == completion


@each_case("pieces", [WHOLE, IN_ONE_READ], ids=["a read each", "one read"])
@each_case("before", [1, 3, 5])
async def test_read_after_some_chunks(front: Any, pieces: list[bytes], before: int) -> None:
    async with front(source(front, pieces)) as stream:
        for _ in range(before):
            await anext(aiter(stream))
        assert (await stream.read()).text == "Hello world"


async def test_read_raises_what_went_wrong_every_time(front: Any) -> None:
    stream = front(source(front, [HI, ERROR]))
    for _ in range(2):
        with pytest.raises(APIError, match="overloaded") as caught:
            await stream.read()
        assert caught.value is stream.error


THOUGHT, OTHER_CHOICE = delta(reasoning_content="Hm"), delta(content="Hi", index=1)
CALL = delta(tool_calls=[fragment(0, id="a", name="f", arguments="{}")])
NUMBER = delta(content="[1")
MESSAGE = event({"object": "chat.completion.chunk", "choices": [{"index": 0, "message": {"content": "Hi"}}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}})
# The body before the error, the view, how many items are taken of it, and whether these have output.
TAKEN: dict[str, tuple[list[bytes], Callable[[Any], Any], int, bool]] = {
    "nothing": ([HI], aiter, 0, False),
    "a chunk without output": ([ROLE, HI], aiter, 1, False),
    "a chunk with text": ([ROLE, HI], aiter, 2, True),
    "a chunk of a call": ([CALL, HI], aiter, 1, True),
    "a chunk of another choice": ([OTHER_CHOICE], aiter, 1, True),
    "a whole message, which is folded at the end": ([MESSAGE], aiter, 1, False),
    "a text": ([ROLE, THOUGHT, HI], lambda stream: stream.text_deltas(), 1, True),
    "texts that never come": ([ROLE, THOUGHT, CALL, OTHER_CHOICE], lambda stream: stream.text_deltas(), 9, False),
    "an event without output": ([USAGE, HI], lambda stream: stream.events(), 1, False),
    "reasoning": ([ROLE, THOUGHT, HI], lambda stream: stream.events(), 1, True),
    "a value": ([THOUGHT, NUMBER, HI], lambda stream: stream.partials(), 1, True),
    "values that never come": ([THOUGHT, CALL], lambda stream: stream.partials(), 9, False),
}


@each_case("name", TAKEN)
@each_case("in_one_read", [False, True], ids=["a read each", "one read"])
async def test_output_is_emitted_once_it_is_yielded(name: str, in_one_read: bool, front: Any) -> None:
    """However the bytes were cut: what waits to be taken is not emitted, nor what a view passes over."""
    before, view, count, is_emitted = TAKEN[name]
    pieces = [*before, ERROR]
    for leave in (lambda stream: stream.read(), lambda stream: stream.drain()):
        stream = front(source(front, [b"".join(pieces)] if in_one_read else pieces))
        items = aiter(view(stream))
        with suppress(APIError):
            for _ in range(count):
                await anext(items)
        with suppress(APIError):
            await leave(stream)
        assert (stream.error.emitted_output, stream.error.retryable) == (is_emitted, not is_emitted)


async def test_texts_of_chunks_that_were_not_taken_are_emitted(front: Any) -> None:
    stream = front(source(front, [ROLE + HI + ERROR]))
    await anext(aiter(stream))
    assert not stream.error.emitted_output
    assert await anext(aiter(stream.text_deltas())) == "Hi"
    assert stream.error.emitted_output


async def test_read_after_closing(front: Any) -> None:
    stream = front(source(front, WHOLE))
    await anext(aiter(stream))
    await stream.aclose()
    with pytest.raises(IncompleteStreamError):
        await stream.read()


async def test_no_completion_while_it_runs(front: Any) -> None:
    async with front(source(front, WHOLE)) as stream:
        for expected in ("", "", "Hello", "Hello wor", "Hello world"):
            assert stream.snapshot.text == expected
            assert stream.end is None
            with pytest.raises(IncompleteStreamError) as caught:
                stream.completion()
            assert caught.value.snapshot.text == expected
            await anext(aiter(stream))
        assert stream.snapshot.finish_reason == "stop"
        assert stream.error is None


async def test_text_deltas_have_no_empty_pieces_and_are_of_choice_0(front: Any) -> None:
    other, reasoning = delta(index=1, content="other"), delta(reasoning_content="hm")
    pieces = [delta(content=""), reasoning, other, delta(content="a"), STOP, delta(content="b"), DONE]
    stream = front(source(front, pieces))
    assert [delta async for delta in stream.text_deltas()] == ["a", "b"]
    assert stream.end is StreamEnd.DONE  # choice 1 has no finish reason


async def test_text_deltas_give_what_neither_chunks_nor_events_have_given(front: Any) -> None:
    reads = [b"".join(delta(content=text) for text in texts) for texts in ("abcd", ["e", "", "f", "g"])]
    stream = front(source(front, [*reads, STOP, DONE]))
    assert await anext(stream.text_deltas()) == "a"
    assert await anext(stream.text_deltas()) == "b"
    assert (await anext(stream.events())).delta == "c"
    assert await anext(stream.text_deltas()) == "d"
    assert (await anext(aiter(stream))).text == "e"
    assert [text async for text in stream.text_deltas()] == ["f", "g"]
    # Was once wrong: the text of a chunk that was handed out came again.
    stream = front(source(front, [*(delta(content=text) for text in "abcd"), STOP, DONE]))
    deltas, chunks = stream.text_deltas(), aiter(stream)
    assert [(await anext(chunks)).text, await anext(deltas)] == ["a", "b"]
    assert [(await anext(chunks)).text, await anext(deltas)] == ["c", "d"]


@pytest.mark.parametrize("view", ["text_deltas", "events"])
@pytest.mark.parametrize("count", [9, 60], ids=["one read", "a read in slices"])
async def test_chunks_do_not_skip_events_that_wait(front: Any, view: str, count: int) -> None:
    """Was once wrong: text that the events of a read still had was in no chunk either, and nothing said so."""
    words = [delta(content=f"{number} " * 100) for number in range(count)]
    stream = front(source(front, [b"".join(words), STOP, DONE]))
    items = getattr(stream, view)()
    first = await anext(items)
    for _ in range(2):
        with pytest.raises(StreamConsumedError, match=r"more events \(\d+\), which chunks would skip.*events\(\)"):
            await anext(aiter(stream))
    rest = [item async for item in items]
    said = [item if view == "text_deltas" else getattr(item, "delta", "") for item in (first, *rest)]
    assert "".join(said) == stream.snapshot.text


async def test_chunks_do_not_skip_events_of_a_read_that_began_with_chunks(front: Any) -> None:
    """Was once wrong: only events of a read that made no chunks counted, and the text of the rest was in no chunk."""
    stream = front(
        source(front, [delta(content="a"), delta(content="b") + delta(content="c"), delta(content="d"), DONE])
    )
    assert (await anext(stream.events())).delta == "a"
    assert (await anext(aiter(stream))).text == "b"
    assert (await anext(stream.events())).delta == "b"  # events continue after the last one
    with pytest.raises(StreamConsumedError, match=r"more events \(1\)"):
        await anext(aiter(stream))
    assert [text async for text in stream.text_deltas()] == ["c", "d"]


async def test_chunks_do_not_skip_events_of_a_read_that_is_half_parsed(front: Any) -> None:
    """Was once wrong: at the end of a slice, the chunks were those that had to be made to fold the next one."""
    words = [delta(content=f"{number} " * 100, x=number % 2 or None) for number in range(60)]
    for taken in range(1, len(words)):
        stream = front(source(front, [b"".join(words), STOP, DONE]))
        items = stream.events()
        for _ in range(taken):
            await anext(items)
        with pytest.raises(StreamConsumedError):
            await anext(aiter(stream))


async def test_chunks_go_on_behind_the_last_event_of_a_read(front: Any) -> None:
    stream = front(source(front, [HI + delta(content="a"), delta(content="b"), delta(content="c") + STOP + DONE]))
    texts = stream.text_deltas()
    assert [await anext(texts), await anext(texts)] == ["Hi", "a"]
    assert [chunk.text async for chunk in stream] == ["b", "c", ""]


async def test_closing_a_view_closes_the_stream() -> None:
    """For `contextlib.closing`: a view is no generator, and its stream can be open without `with`."""
    body, async_body = generator(WHOLE), async_generator(WHOLE)
    stream, async_stream = ChatCompletionStream(body), AsyncChatCompletionStream(async_body)
    with closing(stream.text_deltas()) as texts:
        assert next(texts) == "Hello"
    assert (stream.end, body.gi_frame) == ("closed", None)
    async with aclosing(async_stream.events()) as events:
        await anext(events)
    assert (async_stream.end, async_body.ag_frame) == ("closed", None)


# [DONE] ends it


async def test_nothing_is_read_behind_done(front: Any) -> None:
    """`[DONE]` ends the loop at once, and only a response of httpx or httpx2 has a connection worth waiting for."""

    def pieces() -> Iterator[bytes]:
        yield from WHOLE
        pytest.fail("read on")

    for body in (source(front, pieces()), Kin(pieces())):
        async with front(body) as stream:
            assert await texts_of(stream) == ["", "Hello", " wor", "ld", ""]
        assert stream.end is StreamEnd.FINISHED


@pytest.mark.parametrize(("version", "read"), [(b"HTTP/1.1", True), (b"HTTP/2", False), (b"HTTP/1.0", False)])
async def test_only_http_1_1_is_drained(library: Any, version: bytes, read: bool) -> None:
    """Async, because there a mock is drained too; in sync code the network stream itself is asked to hurry."""
    body = Pieces([*WHOLE, b": bye\n\n"])
    response = library.Response(200, stream=body, extensions={"http_version": version})
    async with mocked(library, AsyncChatCompletionStream, response) as given:
        async with AsyncChatCompletionStream(given) as stream:
            await texts_of(stream)
            assert body.read == len(WHOLE)
        assert (body.read > len(WHOLE)) is read
        assert given.is_closed


# Closing from elsewhere


def over_http_1_0(*body: bytes | float) -> Answer:
    """As mlx-lm's server answers."""
    return Answer([b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", *body], framing="raw")


class Blocking(Kin):
    """A response whose second read lasts until it is closed."""

    def __init__(self, waiting: threading.Event) -> None:
        super().__init__([])
        self.waiting = waiting
        self.woken = threading.Event()

    def iter_bytes(self) -> Iterator[bytes]:
        yield HELLO
        self.waiting.set()
        assert self.woken.wait(PATIENCE)
        raise ConnectionError("closed under me")

    def close(self) -> None:
        super().close()
        self.woken.set()


@contextmanager
def consumer(stream: ChatCompletionStream, *, folding: bool = False) -> Iterator[list[Any]]:
    """Consume the stream in a thread; what came of it is in the list on leaving."""
    seen: list[Any] = []

    def consume() -> None:
        try:
            seen.extend([stream.read()] if folding else (chunk.text for chunk in stream))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion that follows
            seen.append(error)

    thread = threading.Thread(target=consume, name="consumer", daemon=True)
    thread.start()
    yield seen
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_closing_from_another_thread() -> None:
    waiting = threading.Event()
    response = Blocking(waiting)
    stream = ChatCompletionStream(response)
    with consumer(stream) as seen:
        assert waiting.wait(PATIENCE)
        with pytest.raises(StreamConsumedError, match="another task or thread"):
            stream.drain()
        stream.close()
    assert seen == ["Hello"]
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    assert response.closings == 1


@pytest.mark.parametrize("folding", [False, True], ids=["a loop", "a read"])
@pytest.mark.parametrize("over", ["HTTP/1.1", "HTTP/1.0", "TLS"])
def test_closing_from_another_thread_wakes_the_reader(
    library: Any, over: str, folding: bool, request: pytest.FixtureRequest
) -> None:
    """The provider is silent, and the client has no timeout."""
    ssl_context = request.getfixturevalue("server_side") if over == "TLS" else None
    answer = over_http_1_0(HELLO, math.inf) if over == "HTTP/1.0" else Answer([HELLO, math.inf])
    waiting = threading.Event()
    with (
        FakeProvider(answer, ssl_context=ssl_context) as provider,
        rescue(provider),
        library.Client(trust_env=False, verify=False) as client,
    ):
        response = client.send(client.build_request("POST", provider.url, timeout=None), stream=True)
        network_stream = response.extensions["network_stream"]
        read = network_stream.read

        def watched(*arguments: Any, **options: Any) -> Any:
            if stream.snapshot.text:
                waiting.set()
            return read(*arguments, **options)

        network_stream.read = watched
        stream = ChatCompletionStream(response)
        with consumer(stream, folding=folding) as seen:
            assert waiting.wait(PATIENCE)
            time.sleep(0.02)  # so that the thread is in its read
            stream.close()
            assert response.is_closed
        assert [type(item) for item in seen] == [IncompleteStreamError if folding else str]
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert stream.snapshot.text == "Hello"
        assert connections_in_use(client) == []
        assert has_left(provider.requests[0])


def test_closing_from_another_thread_ends_a_drain(library: Any) -> None:
    with FakeProvider(Answer([HELLO, math.inf])) as provider, rescue(provider):
        with library.Client(trust_env=False, timeout=None) as client:
            stream = ChatCompletionStream(client.send(client.build_request("POST", provider.url), stream=True))
            drained = threading.Thread(target=stream.drain, args=(PATIENCE,), name="drain", daemon=True)
            drained.start()
            while not stream.snapshot.text:
                time.sleep(0.001)
            stream.close()
            drained.join(PATIENCE)
            assert not drained.is_alive()
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(provider.requests[0])


def test_a_connection_that_is_not_the_streams_own_is_not_shut_down(library: Any) -> None:
    """Over HTTP/2 others use it, too; and there may be no socket at all."""

    class NoSocket:
        def get_extra_info(self, _: str) -> None:
            return None

    for version, stream in [(b"HTTP/2", None), (b"HTTP/1.1", None), (b"HTTP/1.1", NoSocket())]:
        response = library.Response(
            200, stream=Pieces([]), extensions={"http_version": version, "network_stream": stream}
        )
        assert not wake_reader(response)
    assert not wake_reader(None)


async def test_closing_from_another_task_while_a_generator_runs() -> None:
    """A generator cannot be closed while it runs; its next piece finds the stream closed."""
    go_on = anyio.Event()
    texts: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        yield HELLO
        await go_on.wait()
        yield delta(content=" never")

    stream = AsyncChatCompletionStream(pieces())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, stream, texts)
            await anyio.wait_all_tasks_blocked()
            try:
                await stream.aclose()
            finally:
                go_on.set()
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    assert texts == ["Hello"]


def test_closing_from_another_thread_while_a_generator_runs() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        yield HELLO
        waiting.set()
        assert go_on.wait(PATIENCE)
        yield delta(content=" never")

    stream = ChatCompletionStream(pieces())
    with consumer(stream) as seen:
        assert waiting.wait(PATIENCE)
        try:
            stream.close()
        finally:
            go_on.set()
    assert seen == ["Hello"]
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


async def test_closing_at_the_same_time(library: Any) -> None:
    front = AsyncChatCompletionStream
    with FakeProvider(Answer([HELLO, math.inf])) as provider:
        async with raw_client_of(front, library) as client:
            stream = front(await send(client, provider.url))
            await anext(stream)
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(stream.aclose)
            assert stream.end is StreamEnd.CLOSED
            assert connections_in_use(client) == []


@pytest.mark.parametrize("use", ["read", "drain"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_what_is_no_exception_passes_unchanged(front: Any, stop: type[BaseException], use: str) -> None:
    """And closes, by `with` or where a drain ends."""
    body = Raising(stop)
    stream = front(body if is_sync(front) else AsyncList(body))
    with pytest.raises(stop):
        async with stream if use == "read" else nullcontext():
            await getattr(stream, use)()
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    assert stream.snapshot.text == "Hello"


class Raising:
    """An iterator that is no generator, since those may not raise GeneratorExit at will."""

    def __init__(self, stop: type[BaseException]) -> None:
        self.pieces = iter([HELLO])
        self.stop = stop

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        for piece in self.pieces:
            return piece
        raise self.stop


# Draining


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


async def test_draining_reads_on_to_the_usage(library: Any, front: Any) -> None:
    pieces = [WOR, 0.01, LD, 0.01, STOP, 0.01, USAGE, DONE]
    async with stopped_after_the_first(library, front, *pieces) as stream:
        snapshot = await stream.drain()
        assert snapshot.usage.total_tokens == 7
        assert stream.response.is_closed
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert stream.completion() == snapshot
        assert await stream.drain() == snapshot
        assert [chunk async for chunk in _rest_of(stream)] == []


async def _rest_of(stream: Any) -> AsyncIterator[Any]:
    with suppress(StopAsyncIteration):
        while True:
            yield await anext(stream) if not isinstance(stream, Sync) else await anext(SyncView(stream.stream))


# What the provider sends, how its body ends, how long it is drained, and how the stream ends.
DRAINED: dict[str, tuple[list[Any], str, float, str]] = {
    "a stall": ([math.inf], "end", 0.1, "closed"),
    "a stall later": ([WOR, 0.01, LD, math.inf], "end", 0.1, "closed"),
    "text for ever": ([WOR, 0.005] * 10_000, "end", 0.2, "closed"),
    "a cut": ([WOR, 0.02], "cut", 5.0, "interrupted"),
    "a reset": ([WOR, 0.02], "reset", 5.0, "interrupted"),
    "an early end": ([WOR], "end", 5.0, "truncated"),
    "an error": ([WOR + ERROR], "end", 5.0, "failed"),
    "no chunk": ([WOR + b"data: garbage\n\n"], "end", 5.0, "invalid"),
    "a cut after the finish reason": ([WOR + STOP], "cut", 5.0, "finished"),
    "[DONE] in an open body": ([WOR + DONE, math.inf], "end", 5.0, "done"),
}


@pytest.mark.parametrize("what", DRAINED)
async def test_draining_raises_nothing_for_what_the_provider_sends(library: Any, front: Any, what: str) -> None:
    """Nor does it last longer, in a client without a read timeout."""
    pieces, ending, within, end = DRAINED[what]
    async with stopped_after_the_first(library, front, *pieces, ending=ending) as stream:
        text = (await stream.drain(within=within)).text
        assert text == "Hello wor" if end != "closed" else re.fullmatch("Hello( wor)*(ld)?", text)  # on a busy machine
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
        ([HI * 2000, STOP], "Hi" * 2000, "finished"),
        ([HELLO, WOR, ERROR], "Hello wor", "failed"),  # which is not raised in the loop either
    ]
    for pieces, text, end in streams:
        for view in VIEWS.values():
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


async def test_draining_an_async_iterable_that_stalls() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield HELLO
        await anyio.sleep_forever()

    stream = AsyncChatCompletionStream(pieces())
    with anyio.fail_after(PATIENCE):
        assert (await stream.drain(within=0.05)).text == "Hello"
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


async def test_draining_what_another_task_reads(library: Any) -> None:
    front = AsyncChatCompletionStream
    async with stopped_after_the_first(library, front, WOR, math.inf) as stream:
        texts: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, stream, texts)
            while not texts:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StreamConsumedError, match="another task"):
                await stream.drain()
            assert stream.end is None
            await stream.aclose()
        assert texts == [" wor"]
        assert (await stream.drain()).text == "Hello wor"


async def test_reading_what_another_task_drains() -> None:
    """The error has what arrived so far, and the drain goes on."""

    async def pieces() -> AsyncIterator[bytes]:
        yield HELLO
        await anyio.sleep_forever()

    stream = AsyncChatCompletionStream(pieces())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.drain, PATIENCE)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(IncompleteStreamError) as caught:
            await stream.read()
        assert (caught.value.snapshot.text, stream.end) == ("Hello", None)
        tasks.cancel_scope.cancel()
    assert stream.end is StreamEnd.CLOSED


@pytest.mark.parametrize("repeats", [1, 2000], ids=["small", "large"])
@pytest.mark.parametrize(
    "read",
    [next, ChatCompletionStream.read, ChatCompletionStream.drain, lambda stream: list(stream.text_deltas())],
    ids=["next", "read", "drain", "text_deltas"],
)
def test_a_callback_cannot_read_the_stream_that_calls_it(
    read: Callable[[ChatCompletionStream], object], repeats: int
) -> None:
    """It would take bytes that belong behind those which are being parsed."""
    errors: list[str] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        try:
            read(stream)
        except StreamConsumedError as error:
            errors.append(str(error))

    stream = ChatCompletionStream([HELLO * repeats, *WHOLE], on_server_sent_event=on_server_sent_event)
    assert "".join(chunk.text for chunk in stream) == "Hello" * repeats + "Hello world"
    assert set(errors[:repeats]) == {
        "another task or thread, or the call that runs this callback, is reading this stream"
    }
    assert stream.end is StreamEnd.FINISHED


@pytest.mark.parametrize(
    ("leave", "reads", "most"),
    [("close", [HELLO * 2000], 1999), ("drain", [HELLO * 2000], 0), ("drain", [HELLO * 2, HELLO], 0)],
    ids=["closed", "drained", "drained with chunks left"],
)
def test_a_stream_that_is_being_left_ends_for_its_callback_too(leave: str, reads: list[bytes], most: int) -> None:
    taken: list[int] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        if is_leaving:
            taken.append(sum(1 for _ in iter(lambda: next(stream, None), None)))

    is_leaving = False
    stream = ChatCompletionStream(reads, on_server_sent_event=on_server_sent_event)
    next(stream)
    is_leaving = True
    getattr(stream, leave)()
    assert taken
    assert sum(taken) <= most
    assert stream.end == ("closed" if leave == "close" else "truncated")


@pytest.mark.parametrize("view", ["__iter__", "text_deltas", "events", "partials"])
@pytest.mark.parametrize("hook", ["on_server_sent_event", "on_chunks", "on_end"])
def test_a_stream_that_its_callback_closed_yields_nothing_more(view: str, hook: str) -> None:
    def close(*_: object) -> None:
        stream.close()

    body = [b"".join([HELLO, *WHOLE])]
    if hook == "on_server_sent_event":
        stream = ChatCompletionStream(body, on_server_sent_event=close)
    else:
        stream = ChatCompletionStream(body).observe(**{hook: close})
    assert list(getattr(stream, view)()) == []
    assert stream.end is (StreamEnd.CLOSED if hook == "on_server_sent_event" else StreamEnd.FINISHED)


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


async def test_cancelling_while_draining(library: Any) -> None:
    """It passes unchanged, and the response is closed."""
    front = AsyncChatCompletionStream
    with FakeProvider(Answer([HELLO, math.inf])) as provider:
        async with raw_client_of(front, library) as client:
            stream = front(await send(client, provider.url))
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(stream.drain, PATIENCE)
                    while not stream.snapshot.text:
                        await anyio.lowlevel.checkpoint()
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
            assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
            assert stream.response.is_closed
            assert connections_in_use(client) == []
            assert has_left(provider.requests[0])


# Leaving in the middle of a large read


@pytest.mark.parametrize(
    ("unread", "end"), [(20, StreamEnd.FINISHED), (40_000, StreamEnd.CLOSED)], ids=["a little", "much"]
)
async def test_leaving_parses_a_little_of_what_had_arrived(front: Any, unread: int, end: StreamEnd) -> None:
    """So that a finish reason that had arrived counts, but leaving takes no long time."""
    stream = front(source(front, [HI * unread + STOP + DONE]))
    await anext(aiter(stream))
    await stream.aclose()
    assert (stream.end, stream.error) == (end, None)
    text = stream.snapshot.text
    assert len(HI) * len(text) // 2 <= 2**20 + 2**16
    assert "Hi" * min(unread, 500) == text[:1000]
    with pytest.raises(StopAsyncIteration):
        await anext(SyncView(stream.stream) if isinstance(stream, Sync) else stream)


# Faults of the source


@pytest.mark.parametrize(
    "fault",
    [
        OSError("gone"),
        RuntimeError("odd"),
        ValueError(),
        LimitExceededError("x", limit="x", value=1),
        InvalidChunkError("x"),
    ],
)
async def test_whatever_the_source_raises_is_an_interruption(front: Any, fault: Exception) -> None:
    def pieces() -> Iterator[bytes]:
        yield HELLO
        raise fault

    stream = front(source(front, pieces()))
    with pytest.raises(StreamInterruptedError) as caught:
        await stream.read()
    assert (stream.end, caught.value.__cause__) == ("interrupted", fault)


async def test_a_stall_hidden_by_keep_alives(front: Any) -> None:
    seconds = itertools.count()
    body = source(front, itertools.chain([HELLO], itertools.repeat(b": ping\n\n")))
    with pytest.raises(StreamStalledError) as caught:
        async with front(body, progress_timeout=10, clock=lambda: float(next(seconds))) as stream:
            await stream.read()
    assert stream.end is StreamEnd.STALLED
    assert caught.value.snapshot.text == "Hello"


# A status that is not 2xx


REFUSAL = {"error": {"message": "no", "type": "some_error", "code": "some_code", "param": "n"}}


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


async def test_a_large_body_of_a_refusal_is_not_read_to_its_end(library: Any, front: Any) -> None:
    answer = Answer([b"x" * 2**16] * 1000, 500)
    with FakeProvider(answer) as provider:
        async with raw_client_of(front, library) as client:
            with pytest.raises(APIStatusError) as caught:
                async with front(await send(client, provider.url)) as stream:
                    await stream.read()
            assert connections_in_use(client) == []
            assert has_left(provider.requests[0])
    assert len(caught.value.raw) <= 2**20
    assert len(str(caught.value)) < 1000


async def test_a_refusal_that_is_not_read(library: Any, front: Any) -> None:
    """Nothing was asked, so nothing is raised."""
    async with answered(library, front, Answer(b"{}", 500)) as stream:
        pass
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


# What is no source


@pytest.mark.parametrize("body", [b"data: x", "data: x", bytearray(b"data: x")])
def test_a_body_in_one_piece_is_no_iterable_of_bytes(body: Any) -> None:
    hint = "" if isinstance(body, str) else r": pass a whole body as \[body\]"
    expected = "source: expected a response or an iterable of bytes, received"
    with pytest.raises(TypeError, match=f"^{expected} {type(body).__name__}{hint}$"):
        ChatCompletionStream(body)


@pytest.mark.parametrize("source", [None, 5, memoryview(b"data: x"), object()])
def test_what_cannot_be_read_is_no_source(source: Any) -> None:
    with pytest.raises(TypeError, match=r"^source: expected a response or an iterable of bytes, received "):
        ChatCompletionStream(source)
    with pytest.raises(TypeError, match=r"^source: expected an async response or async iterable of bytes, received "):
        AsyncChatCompletionStream(source)


def test_a_response_has_a_status_and_headers() -> None:
    class Body:
        def iter_bytes(self) -> Iterator[bytes]:
            return iter([HI])

    class WithStatus(Body):
        status_code = 200

    with pytest.raises(TypeError, match=r"expected a response with status_code and headers, received Body$"):
        ChatCompletionStream(Body())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a response with headers, received WithStatus$"):
        ChatCompletionStream(WithStatus())  # type: ignore[arg-type]


def test_a_source_of_the_other_kind_is_refused_at_once(library: Any) -> None:
    """Otherwise it fails at the first read as a transport does, which is retried."""

    class Body(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            yield HELLO

    class AsyncBody(library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield HELLO

    with pytest.raises(TypeError, match=r"received the Response of an async client$"):
        ChatCompletionStream(library.Response(200, stream=AsyncBody()))
    with pytest.raises(TypeError, match=r"received the Response of a sync client$"):
        AsyncChatCompletionStream(library.Response(200, stream=Body()))
    response = library.Response(200, stream=AsyncBody())
    asyncio.run(response.aread())
    assert ChatCompletionStream(response).__next__().text == "Hello"
    with pytest.raises(TypeError, match=r"received list$"):
        AsyncChatCompletionStream([HELLO])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"received AsyncBody$"):
        ChatCompletionStream(AsyncBody())


@pytest.mark.parametrize("kind", [bytearray, memoryview])
@pytest.mark.parametrize("repeats", [1, 500], ids=["small", "large"])
def test_other_kinds_of_bytes(kind: type, repeats: int) -> None:
    pieces = [kind(HI * repeats), kind(STOP)]
    assert [chunk.text for chunk in ChatCompletionStream(pieces)] == ["Hi"] * repeats + [""]
    assert ChatCompletionStream(pieces).read().text == "Hi" * repeats
