"""`on_server_sent_event` and transforms that raise, leave, interrupt or read on within a read."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from cases import each_case
from made_transforms import Made
from parsed_bodies import parsed
from played import ERROR, GARBAGE, HI, STOP, cuts, text, unterminated

from chunkfold import (
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    IncompleteStreamError,
    ServerSentEvent,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    ThinkTags,
)
from chunkfold.testing import DONE, choice, chunk


@cuts
@each_case(
    ("last", "data", "texts"),
    [
        (ERROR, unterminated(ERROR).removeprefix(b"data: "), []),
        (GARBAGE, b"garbage", []),
        (DONE + HI + STOP, b"[DONE]", []),
        (ERROR + HI, None, []),
        (chunk(choice(content="x"), error="y"), None, ["x"]),
        (unterminated(text("x")), None, ["x"]),  # an unfinished block that is read
    ],
)
def test_on_event_is_called_for_the_last_event_too_and_not_after_it(
    last: bytes, data: bytes | None, texts: list[str], size: int | None
) -> None:
    seen: list[tuple[bytes, list[str]]] = []

    def tap(event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        seen.append((event.data, [one.text for one in chunks]))

    parsed(HI + last, size, on_server_sent_event=tap)
    assert [texts for _, texts in seen] == [["Hi"], texts]
    assert data is None or seen[-1][0] == data


def failing_once(error: BaseException) -> Callable[..., Any]:
    """A tap, or what a transform does with a chunk, that raises once."""
    errors = iter([error])

    def fail(event: object, chunks: object = ()) -> list[object]:
        for one in errors:
            raise one
        return [event]

    return fail


@each_case("error", [LookupError("mine"), KeyboardInterrupt()])
@each_case("way", ["tap", "transform"])
@each_case("copies", [1, 2, 5_000])
def test_after_an_exception_of_the_consumer_a_stream_with_a_gap_is_not_complete(
    copies: int, way: str, error: BaseException
) -> None:
    """What was read with it is lost: the stream has been left."""
    ended: list[object] = []
    fails = failing_once(error)
    options: Any = {"on_server_sent_event": fails} if way == "tap" else {"transforms": [Made(fails)]}
    parser = ChatCompletionParser(**options)
    parser.observe(on_end=lambda one: ended.append(one.end))
    with pytest.raises(type(error)):
        parser.feed(text("a") * copies)
    arrived = "a" if way == "tap" else ""
    assert (parser.end, parser.snapshot.text or "", ended) == (StreamEnd.CLOSED, arrived, [StreamEnd.CLOSED])
    assert parser.emitted_output is (way == "tap")
    assert parser.feed(text("last") + STOP + DONE) == parser.close() == []
    with pytest.raises(IncompleteStreamError, match="left before it ended") as raised:
        parser.completion()
    assert (raised.value.snapshot.text or "") == arrived


@each_case(("body", "end"), [(text("a") + STOP, StreamEnd.CLOSED), (STOP + DONE, StreamEnd.FINISHED)])
def test_a_tap_that_leaves_and_raises_ends_the_stream_once(body: bytes, end: StreamEnd) -> None:
    ended: list[object] = []

    def tap(event: object, chunks: object) -> None:
        parser.leave()
        raise LookupError

    parser = ChatCompletionParser(on_server_sent_event=tap)
    parser.observe(on_end=lambda one: ended.append(one.end))
    events = parser.events()
    with pytest.raises(LookupError):
        parser.feed(body)
    events += parser.events()
    expected = ["TextDelta"] if end is StreamEnd.CLOSED else ["ChoiceFinished"]
    assert (parser.end, ended, [type(event).__name__ for event in events]) == (end, [end], expected)


def test_a_tap_that_interrupts_the_stream_ends_it_once() -> None:
    fault, told = ConnectionError(), list[object]()

    def tap(event: object, chunks: object) -> None:
        parser.interrupt(fault)

    parser = ChatCompletionParser(on_server_sent_event=tap)
    parser.observe(on_end=lambda one: told.append(one.error))
    assert [one.text for one in parser.feed(text("a") + text("b"))] == ["a"]
    assert parser.end is StreamEnd.INTERRUPTED
    assert isinstance(parser.error, StreamInterruptedError)
    assert (parser.error.__cause__, told) == (fault, [parser.error])


@each_case("way", ["feed", "fold"])
@each_case("hook", ["tap", "transform"])
def test_a_read_within_a_read_returns_its_own_chunks(hook: str, way: str) -> None:
    """Was once wrong: it returned those of the read around it, too, or lost them."""

    def read_once(event: object, chunks: object = ()) -> list[object]:
        for body in bodies:
            inner.extend(getattr(parser, way)(body) or ())
        return [event]

    bodies, inner = iter([text("b") + text("c")]), list[ChatCompletionChunk]()
    options: Any = {"on_server_sent_event": read_once} if hook == "tap" else {"transforms": [Made(read_once)]}
    parser = ChatCompletionParser(**options)
    assert [chunk.text for chunk in parser.feed(text("a") + text("d"))] == ["a", "d"]
    assert [chunk.text for chunk in inner] == (["b", "c"] if way == "feed" else [])


@each_case("read", [lambda parser: parser.feed(text("b") + text("bad")), ChatCompletionParser.close])
def test_a_read_within_a_read_that_fails_leaves_the_chunks_of_the_other(
    read: Callable[[ChatCompletionParser], object],
) -> None:
    def fail() -> list[ChatCompletionChunk]:
        raise LookupError

    def tap(event: object, chunks: object) -> None:
        for read_once in reads:
            with suppress(LookupError):
                read_once(parser)

    reads = iter([read])
    broken = Made(lambda chunk: [chunk] if chunk.text != "bad" else fail(), fail)
    parser = ChatCompletionParser(on_server_sent_event=tap, transforms=[broken])
    assert [chunk.text for chunk in parser.feed(text("a") + text("c"))] == ["a"]
    assert parser.end is not None


@each_case("lost", [text("more"), ERROR, b"", DONE])
def test_a_read_that_was_cut_off_is_not_complete_although_all_had_finished(lost: bytes) -> None:
    """What is lost may be an error, or more output."""
    parser = ChatCompletionParser(on_server_sent_event=failing_once(LookupError()))
    with pytest.raises(LookupError):
        parser.feed(STOP + lost)
    assert (parser.end, parser.error) == (StreamEnd.CLOSED, None)


def test_output_that_no_callback_got_is_not_emitted() -> None:
    parser = ChatCompletionParser(on_server_sent_event=failing_once(LookupError()), transforms=[ThinkTags()])
    with pytest.raises(LookupError):
        parser.feed(text("<thi"))  # held back until the stream ends
    assert (parser.snapshot.text, parser.emitted_output) == ("<thi", False)


def test_a_transform_may_raise_again_while_the_stream_ends() -> None:
    def fail(error: Exception) -> None:
        raise error

    broken = Made(lambda _: fail(LookupError("first")), lambda: fail(KeyError("second")))
    parser = ChatCompletionParser(transforms=[broken])
    with pytest.raises(LookupError, match="first"):
        parser.feed(HI)
    assert parser.end is StreamEnd.CLOSED


def test_a_stream_whose_tap_raised_is_over() -> None:
    stream = ChatCompletionStream([HI, HI + STOP + DONE], on_server_sent_event=failing_once(LookupError()))
    with pytest.raises(LookupError):
        next(stream)
    for again in (iter, ChatCompletionStream.events, ChatCompletionStream.text_deltas):
        with pytest.raises(StreamConsumedError, match=r"the stream is over \(closed\)"):
            again(stream)
    with pytest.raises(IncompleteStreamError):
        stream.read()
