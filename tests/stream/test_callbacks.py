"""What callbacks may do: fail, close the stream that calls them, or try to read it."""

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from asked import NUMBERS, asked, asked_sync, read_with, send_sync
from cases import each_case
from fronts import generators_of_httpx_are_not_ours, has_left, over_both_streams
from sources import HELLO, STOP, WHOLE, AsyncList, source

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionStream,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
)
from chunkfold.testing import Answer

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


READS: dict[str, Callable[[Any], Any]] = {
    "next": lambda stream: anext(aiter(stream)),
    "read": lambda stream: stream.read(),
    "drain": lambda stream: stream.drain(),
    "text_deltas": lambda stream: anext(stream.text_deltas()),
}


@pytest.mark.parametrize("repeats", [1, 200], ids=["small", "large"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_callback_cannot_read_the_stream_that_calls_it(
    front: Any, read: Callable[[Any], Any], repeats: int
) -> None:
    """It would take bytes that belong behind those which are being parsed. Nor may it step a coroutine that does."""
    errors: list[str] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        with pytest.raises(StreamConsumedError) as raised:
            read(stream).send(None)
        errors.append(str(raised.value))

    stream = front(source(front, [HELLO * repeats, *WHOLE]), on_server_sent_event=on_server_sent_event)
    assert "".join([chunk.text async for chunk in stream]) == "Hello" * repeats + "Hello world"
    assert len(errors) == repeats + len(WHOLE)
    assert set(errors) == {"another task or thread, or the call that runs this callback, is reading this stream"}
    assert stream.end is StreamEnd.FINISHED


@each_case(
    "pieces", [[HELLO, STOP], [HELLO * 1000], [HELLO.rstrip()]], ids=["a read", "a slice", "the end of the body"]
)
@each_case("read", [list, lambda stream: list(stream.events()), ChatCompletionStream.read])
def test_a_callback_without_a_next_item_does_not_end_the_loop(
    pieces: list[bytes], read: Callable[[ChatCompletionStream], object]
) -> None:
    """In a generator or a coroutine, Python itself replaces the exception."""
    nothing: Iterator[object] = iter(())
    stream = ChatCompletionStream(pieces, on_server_sent_event=lambda *_: next(nothing))
    with pytest.raises(RuntimeError, match=r"StopIteration$"):
        read(stream)
    assert stream.end == "closed"


@each_case(
    "pieces", [[HELLO, STOP], [HELLO * 1000], [HELLO.rstrip()]], ids=["a read", "a slice", "the end of the body"]
)
async def test_nor_does_one_without_a_next_item_of_an_async_iterator(pieces: list[bytes]) -> None:
    for after in (0, 500) if len(pieces[0]) > len(HELLO) else (0,):
        calls = itertools.count()

        def stop(*_: object, calls: Iterator[int] = calls, after: int = after) -> None:
            if next(calls) == after:
                raise StopAsyncIteration

        stream = AsyncChatCompletionStream(AsyncList(pieces), on_server_sent_event=stop)
        with pytest.raises(RuntimeError, match=r"StopAsyncIteration$"):
            async for _ in stream:
                pass
        assert stream.end == "closed"


@each_case(
    ("hook", "pieces", "text", "end"),
    [
        *(
            (hook, [b"".join([HELLO, *WHOLE])], "HelloHello world", "finished")
            for hook in ("on_server_sent_event", "on_end")
        ),
        ("on_end", [HELLO, HELLO.rstrip()], "HelloHello", "truncated"),
    ],
    ids=["the last event", "the end", "the end of the body, which completes a chunk"],
)
@each_case("read", [next, ChatCompletionStream.read, ChatCompletionStream.events], ids=["next", "read", "events"])
def test_a_callback_at_the_end_takes_no_chunks_from_the_loop(
    hook: str, pieces: list[bytes], text: str, end: str, read: Callable[[ChatCompletionStream], object]
) -> None:
    """They come in the read that ended the stream."""

    def at_the_end(*_: object) -> None:
        if stream.end is not None:
            with pytest.raises(StreamConsumedError):
                read(stream)
            ends.append(stream.end)

    ends: list[StreamEnd] = []
    if hook == "on_server_sent_event":
        stream = ChatCompletionStream(pieces, on_server_sent_event=at_the_end)
    else:
        stream = ChatCompletionStream(pieces).observe(on_end=at_the_end)
    received: list[str] = []
    with nullcontext() if end == "finished" else pytest.raises(IncompleteStreamError):
        received.extend(chunk.text for chunk in stream)
    assert ("".join(received), ends) == (text, [end])
    assert end != "finished" or stream.read() is stream.completion()


@pytest.mark.parametrize(
    ("leave", "reads", "most"),
    [("close", [HELLO * 200], 199), ("drain", [HELLO * 200], 0), ("drain", [HELLO * 2, HELLO], 0)],
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


@each_case("repeats", [1, 200], ids=["small", "large"])
@each_case("use", ["read", "drain"])
async def test_an_exception_of_on_event_passes_unchanged(front: Any, use: str, repeats: int) -> None:
    """A large read is parsed in slices: leaving does not call again what has failed."""
    mine = KeyError("mine")
    calls: list[int] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise mine

    stream = front(source(front, [b"".join(NUMBERS * repeats)]), on_server_sent_event=on_server_sent_event)
    with pytest.raises(KeyError) as caught:
        await getattr(stream, use)()
    assert caught.value is mine
    assert (mine.__cause__, mine.__context__) == (None, None)
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
    assert calls == [0, 1]


async def test_an_option_that_fails_when_it_is_used_closes_what_was_opened(library: Any, front: Any) -> None:
    times = {0: 0.0}  # which is not enough
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        with pytest.raises(KeyError):
            await read_with(to, clock=lambda: times.pop(0))
        assert has_left(to.request)


@pytest.mark.parametrize("repeats", [1, 200], ids=["small", "large"])
@pytest.mark.parametrize("folding", [True, False])
def test_closing_in_on_event_ends_the_loop(library: Any, repeats: int, folding: bool) -> None:
    """In the middle of what is being parsed."""
    calls: list[int] = []

    def on_server_sent_event(event: object, chunks: object) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            stream.close()

    with asked_sync(library, Answer([b"".join(NUMBERS * repeats), math.inf])) as (client, provider):
        stream = ChatCompletionStream(send_sync(client, provider.url), on_server_sent_event=on_server_sent_event)
        with stream, pytest.raises(IncompleteStreamError) if folding else nullcontext():
            stream.read() if folding else list(stream)
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        assert calls == [0, 1]
        assert has_left(provider.requests[0])
