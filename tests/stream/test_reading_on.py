"""Reading on: after a break, in another view, after the end; and what counts as emitted."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing, nullcontext, suppress
from typing import Any

import pytest
from cases import each_case
from fronts import generators_of_httpx_are_not_ours, over_both_streams
from sources import (
    ERROR,
    HI,
    IN_ONE_READ,
    ROLE,
    STOP,
    USAGE,
    VIEWS_OF_TEXT,
    WHOLE,
    Kin,
    async_generator,
    every_source,
    generator,
    opened,
    source,
    texts_of,
)
from ways_out import WAYS_OUT

from chunkfold import (
    APIError,
    AsyncChatCompletionStream,
    ChatCompletionStream,
    IncompleteStreamError,
    StreamConsumedError,
    StreamEnd,
)
from chunkfold.testing import DONE, delta, event, fragment

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


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
    with pytest.raises(IncompleteStreamError) if end == "closed" else nullcontext():
        assert await stream.read() == snapshot
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


@each_case("pieces", [WHOLE, IN_ONE_READ], ids=["a read each", "one read"])
@each_case("view", VIEWS_OF_TEXT)
@each_case("before", [0, 1, 3, 5])
async def test_read_after_some_items(front: Any, pieces: list[bytes], view: str, before: int) -> None:
    async with front(source(front, pieces)) as stream:
        items = VIEWS_OF_TEXT[view](stream)
        with suppress(StopAsyncIteration):
            for _ in range(before):
                await anext(items)
        completion = await stream.read()
        assert (completion.text, completion.finish_reason) == ("Hello world", "stop")
        assert stream.completion() == completion
        assert await stream.read() == completion
        with pytest.raises(StreamConsumedError):
            VIEWS_OF_TEXT[view](stream)


async def test_read_raises_what_went_wrong_every_time(front: Any) -> None:
    """And lets go of the response, also without `with`."""
    response = Kin([HI, ERROR])
    stream = front(response)
    for _ in range(2):
        with pytest.raises(APIError, match="overloaded") as caught:
            await stream.read()
        assert caught.value is stream.error
        assert response.closings == 1


THOUGHT, OTHER_CHOICE = delta(reasoning_content="Hm"), delta(content="Hi", index=1)
CALL = delta(tool_calls=[fragment(0, id="a", name="f", arguments="{}")])
NUMBER = delta(content="[1")
MESSAGE = event({"object": "chat.completion.chunk", "choices": [{"index": 0, "message": {"content": "Hi"}}]})
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
