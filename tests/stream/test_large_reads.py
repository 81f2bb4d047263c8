"""A large read is fed in slices: none of it may show in what a stream hands out, or when."""

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cases import each_case
from fronts import Sync, over_both_streams
from hypothesis import given
from hypothesis import strategies as st
from invariants.holding import plain
from made_streams import STOP
from repeating_bodies import (
    FIRST,
    HELLO,
    OPTIONS,
    READS,
    SIZES,
    Read,
    Result,
    each_validated,
    parsed,
    prepared,
    result_of,
    slices_of,
)

from chunkfold import AsyncChatCompletionStream, ChatCompletionParser, ChatCompletionStream, ChunkfoldError, StreamEnd
from chunkfold.event_stream.lines import slices
from chunkfold.parser.timing import StreamTiming
from chunkfold.testing import DONE, Answer, FakeResponse, ManualClock, event
from chunkfold.testing.playback import Playback

pytest_generate_tests = over_both_streams


@contextmanager
def its_error(stream: Any) -> Iterator[None]:
    """What is raised is what went wrong, if anything did."""
    raised: ChunkfoldError | None = None
    try:
        yield
    except ChunkfoldError as error:
        raised = error
    assert raised is stream.error


async def each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


async def iterate(stream: Any, take: Callable[[Any], object]) -> None:
    async for chunk in stream:
        take(chunk)


async def iterate_over_events(stream: Any, take: Callable[[Any], object]) -> None:
    async for one in stream.events():
        take(one)


async def read(stream: Any, take: Callable[[Any], object]) -> None:
    assert await stream.read() is stream.completion()


def streamed(
    front: Any, use: Callable[..., Any], reads: list[Read], options: dict[str, Any]
) -> tuple[list[str], Result]:
    """The chunks or events that a stream hands out, and all else."""
    clock = ManualClock()
    given, seen = prepared(options, clock)

    def source() -> Iterator[bytes]:
        for read in reads:
            clock.advance(read.wait)
            yield read.data
        clock.advance(1)
        if options["is_reset"]:
            raise ConnectionError("reset")

    items: list[str] = []
    stream = front(source() if front is Sync else each(source()), **given)
    with its_error(stream):
        run(use(stream, lambda item: items.append(plain(item))))
    return items, result_of(stream, seen, [], "")


def fed_chunks(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    """The same by a parser, which is fed whole reads."""
    clock = ManualClock()
    given, seen = prepared(options, clock)
    parser = ChatCompletionParser(**given)
    chunks: list[Any] = []
    for read in reads:
        if parser.end is None:  # a stream does not read on behind its end
            clock.advance(read.wait)
            chunks += parser.feed(read.data)
    if parser.end is None:
        clock.advance(1)
        chunks += parser.interrupt(ConnectionError("reset")) if options["is_reset"] else parser.close()
    return [plain(chunk) for chunk in chunks], result_of(parser, seen, [], "")


@given(READS, OPTIONS, SIZES, st.sampled_from([Sync, AsyncChatCompletionStream]))
def test_streams_are_the_parser_whatever_the_slices(reads: list[Read], options: Any, size: int, front: Any) -> None:
    with each_validated():
        chunks, result = fed_chunks(reads, options)
        events = [one for one, _ in parsed(reads, False, options).events]
    assert fed_chunks(reads, options) == (chunks, result)
    with slices_of(size):
        for use, items in [(iterate, chunks), (iterate_over_events, events), (read, [])]:
            assert streamed(front, use, reads, options) == (items, result), use


@given(st.lists(st.sampled_from([b"a", b"\n", b"\n\n", b"data: x\n\n", b"x" * 40]), max_size=60).map(b"".join), st.sampled_from([1, 2, 30]), st.booleans())  # fmt: skip
def test_slices_are_the_data_cut_behind_blocks(data: bytes, size: int, has_crlf: bool) -> None:
    blank = b"\r\n\r\n" if has_crlf else b"\n\n"
    data = data.replace(b"\n", blank[: len(blank) // 2])
    with slices_of(size):
        pieces = list(slices(data))
    assert b"".join(pieces) == data
    assert all(piece.endswith(blank) for piece in pieces[:-1])
    assert all(len(piece) >= size for piece in pieces[1:-1])
    assert all(piece for piece in pieces)
    # No slice is longer than it has to be; the first one ends with its first block.
    assert all(blank not in piece[size if place else 0 : -1] for place, piece in enumerate(pieces))


LARGE = FIRST + HELLO * 200
LARGE_TEXT = "Hello" * 200


def test_a_large_read_is_not_parsed_at_once() -> None:
    """Few chunks are held at a time: many cost more."""
    stream = ChatCompletionStream([LARGE + STOP + DONE])
    next(stream)
    next(stream)
    assert 0 < len(stream.snapshot.text) < len(LARGE_TEXT) / 2
    assert stream.end is None
    assert len(list(stream)) == 200  # the others, and the finish reason


ARRIVED = {
    "all": (LARGE + STOP + DONE, StreamEnd.FINISHED, LARGE_TEXT),
    "all but [DONE]": (LARGE + STOP, StreamEnd.FINISHED, LARGE_TEXT),
    "[DONE] alone": (LARGE + DONE, StreamEnd.DONE, LARGE_TEXT),
    "not all": (LARGE, StreamEnd.CLOSED, LARGE_TEXT),
    "an error": (LARGE + event({"error": {"message": "overloaded"}}) + HELLO, StreamEnd.FAILED, LARGE_TEXT),
    "garbage": (LARGE + event("garbage") + HELLO, StreamEnd.INVALID, LARGE_TEXT),
    "all in a few bytes": (FIRST + HELLO + STOP + DONE, StreamEnd.FINISHED, "Hello"),
    "an error in a few bytes": (FIRST + event({"error": "no"}), StreamEnd.FAILED, ""),
}


@each_case("name", ARRIVED)
async def test_what_had_arrived_counts_for_who_leaves(front: Any, name: str) -> None:
    body, end, text = ARRIVED[name]
    async with front(Playback(Answer([body, HELLO]))) as stream:
        async for _ in stream:
            break
    assert (stream.end, stream.snapshot.text) == (end, text)
    if end.complete:
        assert stream.completion().text == text
    else:
        with pytest.raises(ChunkfoldError):
            stream.completion()


def test_who_takes_long_over_the_first_chunks_does_not_make_the_others_come_late() -> None:
    seconds = itertools.count()
    stream = ChatCompletionStream([LARGE, LARGE + STOP + DONE], clock=lambda: float(next(seconds)))
    for _ in stream:
        next(seconds)  # time passes
    second = 201 + 2.0  # a second for each chunk before it, and one for each read
    assert stream.timing == StreamTiming(1.0, 1.0, 1.0, second, second)


async def test_leaving_closes_whatever_a_tap_raises(front: Any) -> None:
    """Was once wrong: what it raised of a slice that had not been fed kept the response open."""
    events = itertools.count(1)

    def on_server_sent_event(_: Any, __: Any) -> None:
        if next(events) == 150:
            raise KeyError("mine")

    response = FakeResponse(LARGE + STOP + DONE)
    with pytest.raises(KeyError):
        async with front(response, on_server_sent_event=on_server_sent_event) as stream:
            await anext(aiter(stream))
    assert response.is_closed
