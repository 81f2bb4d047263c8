"""Another task or thread: closing while a stream is read, drained or closed, and reading it at once."""

import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from asked import (
    COUNTED,
    NUMBERS,
    TEXTS,
    VIEWS,
    Asked,
    WatchedReads,
    asked,
    asked_sync,
    drop_items,
    has_read,
    read_with,
)
from cases import each_case
from fronts import (
    ALONE,
    ASKED,
    PATIENCE,
    connections_in_use,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_streams,
    rescue,
)
from parsed_bodies import fed
from sources import HELLO, Pieces, collect, over_http_1_0
from spotless import spotless, spotless_loop

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    connect,
)
from chunkfold.fold.choice_state import ChoiceState
from chunkfold.stream.driver import NEED_DATA
from chunkfold.stream.network import wake_reader
from chunkfold.testing import Answer, FakeProvider, delta

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


def each_text(stream: ChatCompletionStream) -> Iterator[str]:
    return (chunk.text for chunk in stream)


def drained_text(stream: ChatCompletionStream) -> list[str]:
    return [stream.drain(PATIENCE).text]


@contextmanager
def consumer(
    stream: ChatCompletionStream, use: Callable[[ChatCompletionStream], Iterable[Any]] = each_text
) -> Iterator[list[Any]]:
    """Consume the stream in a thread; what came of it is in the list on leaving."""
    seen: list[Any] = []

    def consume() -> None:
        try:
            seen.extend(use(stream))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion that follows
            seen.append(error)

    thread = threading.Thread(target=consume, name="consumer", daemon=True)
    thread.start()
    yield seen
    thread.join(PATIENCE)
    assert not thread.is_alive()


class Held:
    """Pieces of which all but the first are held back until they may go on, in a generator."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield self.pieces[0]
        self.waiting.set()
        assert self.go_on.wait(PATIENCE)
        yield from self.pieces[1:]


async def held(go_on: anyio.Event, first: bytes, *others: bytes) -> AsyncIterator[bytes]:
    """The same for tasks."""
    yield first
    await go_on.wait()
    for piece in others:
        yield piece


@pytest.mark.parametrize(
    ("use", "came"),
    [
        (each_text, str),
        (lambda stream: [stream.read()], IncompleteStreamError),
        (drained_text, str),
    ],
    ids=["a loop", "a read", "a drain"],
)
@pytest.mark.parametrize("over", ["HTTP/1.1", "HTTP/1.0", "TLS"])
def test_closing_from_another_thread_wakes_the_reader(
    library: Any,
    over: str,
    use: Callable[[ChatCompletionStream], Iterable[Any]],
    came: type,
    request: pytest.FixtureRequest,
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
        WatchedReads(response, lambda: waiting.set() if stream.snapshot.text else None)
        stream = ChatCompletionStream(response)
        with consumer(stream, use) as seen:
            assert waiting.wait(PATIENCE)
            time.sleep(0.02)  # so that the thread is in its read
            stream.close()
            assert response.is_closed
        assert [type(item) for item in seen] == [came]
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert stream.snapshot.text == "Hello"
        assert connections_in_use(client) == []
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


def texts_of(stream: ChatCompletionStream) -> None:
    """Read the texts; before each read of theirs, `_parse_slice` of the stream is called as after one."""
    texts = stream.text_deltas()
    take = texts._take

    def take_after_slice() -> Any:
        item = take()
        if item is NEED_DATA and stream._slices is not None:
            stream._parse_slice()
        return item

    texts._take = take_after_slice
    list(texts)


@each_case("read", [ChatCompletionStream.read, ChatCompletionStream.drain, list, texts_of])
def test_another_thread_that_closes_parses_the_rest_of_a_large_read(
    read: Callable[[ChatCompletionStream], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading thread does not take it for a second reader."""
    is_parsing, may_go_on = threading.Event(), threading.Event()
    parse_slice, slices = ChatCompletionStream._parse_slice, 0

    def parse_slice_then_close(self: ChatCompletionStream) -> None:
        nonlocal slices
        parse_slice(self)
        slices += 1
        if slices == 2:
            closing.start()
            assert is_parsing.wait(PATIENCE)

    def on_server_sent_event(event: object, chunks: object) -> None:
        if threading.current_thread() is closing:
            is_parsing.set()
            assert may_go_on.wait(PATIENCE)

    monkeypatch.setattr(ChatCompletionStream, "_parse_slice", parse_slice_then_close)
    stream = ChatCompletionStream([HELLO * 2000], on_server_sent_event=on_server_sent_event)
    closing = threading.Thread(target=stream.close, name="closing", daemon=True)
    started = time.monotonic()
    with pytest.raises(IncompleteStreamError) if read is ChatCompletionStream.read else nullcontext():
        read(stream)
    assert time.monotonic() - started < 4  # a drain does not try again for its five seconds
    may_go_on.set()
    closing.join(PATIENCE)
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


def test_a_choice_that_is_added_while_another_thread_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a read is parsed while the stream ends."""

    def gap_in(state: ChoiceState) -> None:
        parser.feed(delta(index=state.index + 1, content="late"))

    monkeypatch.setattr("chunkfold.fold.stream_fold.gap_in", gap_in)
    parser = fed(HELLO)
    parser.leave()
    assert [choice.message.content for choice in parser.snapshot.choices] == ["Hello", "late"]
    assert parser.end is StreamEnd.CLOSED


def test_a_source_that_ends_because_another_thread_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that thread says that it left: the stream is not truncated, so nobody asks again."""
    has_ended = threading.Event()
    leave = ChatCompletionStream._leave

    def leave_late(self: ChatCompletionStream) -> None:
        assert has_ended.wait(PATIENCE)
        leave(self)

    def pieces() -> Iterator[bytes]:
        yield HELLO
        closing.start()
        while not stream._closed:
            time.sleep(0.001)

    monkeypatch.setattr(ChatCompletionStream, "_leave", leave_late)
    stream = ChatCompletionStream(pieces())
    closing = threading.Thread(target=stream.close, name="closing", daemon=True)
    with pytest.raises(IncompleteStreamError, match="was left before it ended") as caught:
        stream.read()
    has_ended.set()
    closing.join(PATIENCE)
    assert (stream.end, caught.value.retryable) == (StreamEnd.CLOSED, False)


async def test_closing_from_another_task_while_a_generator_runs() -> None:
    """A generator cannot be closed while it runs; its next piece finds the stream closed."""
    go_on, texts = anyio.Event(), list[str]()
    stream = AsyncChatCompletionStream(held(go_on, HELLO, delta(content=" never")))
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
    pieces = Held(HELLO, delta(content=" never"))
    stream = ChatCompletionStream(pieces)
    with consumer(stream) as seen:
        assert pieces.waiting.wait(PATIENCE)
        stream.close()
        pieces.go_on.set()
    assert seen == ["Hello"]
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


@pytest.mark.parametrize(("view", "texts"), [("chunks", []), *((view, TEXTS) for view in VIEWS), ("read", TEXTS)])
async def test_closing_from_another_task_ends_the_loop(library: Any, view: str, texts: list[str]) -> None:
    """The loop just ends: whoever closed knows why. Only `read` raises, since it has no completion to return."""
    failures: list[type[ChunkfoldError]] = []

    async def use(stream: Any) -> None:
        try:
            await (stream.read() if view == "read" else drop_items(VIEWS[view](stream)))
        except ChunkfoldError as error:
            failures.append(type(error))

    pieces = [b": hello\n\n", *NUMBERS[: len(texts)], math.inf]
    async with asked(library, AsyncChatCompletionStream, Answer(pieces)) as to:
        with anyio.fail_after(PATIENCE):
            async with to.connect() as stream, anyio.create_task_group() as tasks:
                tasks.start_soon(use, stream)
                await has_read(stream, texts)
                await stream.aclose()
        assert failures == ([IncompleteStreamError] if view == "read" else [])
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert has_left(to.request)


async def test_closing_the_client_under_the_reader(library: Any) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer([*NUMBERS, math.inf])) as to:

        async def close_the_client() -> None:
            while not to.streams or to.streams[0].snapshot.text != "[1, 2, 3]":
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            await to.client.aclose()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close_the_client)
                with pytest.raises(StreamInterruptedError):
                    await read_with(to)
        assert [stream.end for stream in to.streams] == [StreamEnd.INTERRUPTED]
        assert has_left(to.request)
        to.client = library.AsyncClient(**ALONE)  # what is checked at the end is of another


def test_closing_from_another_thread_during_the_wait_after_done(library: Any) -> None:
    """The second to close does not wait, and does not disturb the first."""
    waiting = threading.Event()
    with asked_sync(library, Answer(COUNTED, ending="open")) as (client, provider):
        with connect(client, "POST", provider.url, json=ASKED) as stream:
            WatchedReads(stream.response, lambda: waiting.set() if stream.end else None)

            def close() -> None:
                assert waiting.wait(PATIENCE)
                stream.close()
                stream.close()

            other = threading.Thread(target=close, name="closer")
            other.start()
            assert stream.read().text == "[1, 2, 3]"
        other.join(PATIENCE)
        assert not other.is_alive()
        assert stream.response.is_closed
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert has_left(provider.requests[0])


async def close_its_client(to: Asked, stream: Any) -> None:
    await to.client.aclose()
    to.client = to.library.AsyncClient(**ALONE)  # what is checked at the end is of another


async def iterate_over_it(to: Asked, stream: Any) -> None:
    with pytest.raises(StreamConsumedError):
        aiter(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


MEANWHILE: dict[str, Callable[[Asked, Any], Awaitable[None]]] = {
    "close it": lambda to, stream: stream.aclose(),
    "close its response": lambda to, stream: stream.response.aclose(),
    "close its client": close_its_client,
    "iterate over it": iterate_over_it,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
async def test_another_task_during_the_wait_after_done(
    library: Any, meanwhile: Callable[[Asked, Any], Awaitable[None]]
) -> None:
    async with asked(library, AsyncChatCompletionStream, Answer(COUNTED, ending="open")) as to:
        with anyio.fail_after(PATIENCE):
            stream = await to.open()
            await stream.read()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.aclose)
                await anyio.wait_all_tasks_blocked()
                await meanwhile(to, stream)
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
        assert stream.completion().text == "[1, 2, 3]"
        assert has_left(to.request)


@each_case("drains", [False, True], ids=["reads", "drains"])
async def test_what_another_task_reads_or_drains(drains: bool) -> None:
    """The second is told so, with what arrived so far. The first gets every chunk, and never an end that is none."""
    go_on, texts = anyio.Event(), list[str]()
    async with spotless_loop():
        stream = AsyncChatCompletionStream(held(go_on, *COUNTED))
        tries = [stream.read, stream.drain, lambda: drop_items(stream), lambda: drop_items(stream.events())]
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(*((stream.drain, PATIENCE) if drains else (collect, stream, texts)))
                await anyio.wait_all_tasks_blocked()
                try:
                    for again in tries:
                        with pytest.raises(StreamConsumedError, match="another task or thread") as caught:
                            await again()
                        assert (caught.value.snapshot.text, stream.end) == (TEXTS[0], None)
                        assert caught.value.emitted_output is not drains
                finally:
                    go_on.set()
        assert texts == ([] if drains else [*TEXTS, ""])
        assert (stream.end, stream.error, stream.completion().text) == (StreamEnd.FINISHED, None, "".join(TEXTS))


@each_case("drains", [False, True], ids=["reads", "drains"])
def test_what_another_thread_reads_or_drains(drains: bool) -> None:
    with spotless():
        pieces = Held(*COUNTED)
        stream = ChatCompletionStream(pieces)
        with consumer(stream, drained_text if drains else each_text) as texts:
            assert pieces.waiting.wait(PATIENCE)
            for again in (lambda: list(stream), stream.read, stream.drain, lambda: list(stream.events())):
                with pytest.raises(StreamConsumedError, match="another task or thread"):
                    again()
            pieces.go_on.set()
        assert texts == (["".join(TEXTS)] if drains else [*TEXTS, ""])
        assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)
