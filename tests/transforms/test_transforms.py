"""Transforms together and in general: their order, limits and ends, and that nothing happens unless it is asked for."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import URL
from hypothesis import given
from made_transforms import Made
from parsed_bodies import noted
from transformed import CUTS, TEXTS, adds_up, call, choice, chunk, contents, cut, grown, read, split_whole

import chunkfold
from chunkfold import (
    ChatCompletionChunk,
    ChatCompletionParser,
    CumulativeDeltas,
    OneChoice,
    ThinkTags,
    Transform,
    connect,
)
from chunkfold.testing import StreamBuilder, mock_transport, sse


@pytest.mark.parametrize(
    ("feed", "received"),
    [
        (lambda _: None, "None"),
        (lambda chunk: chunk, r"ChatCompletionChunk\("),
        (lambda chunk: [chunk, None], r"\[ChatCompletionChunk\("),
        (lambda chunk: (chunk, {}), r"\(ChatCompletionChunk\("),
        (lambda _: "text", "'text'"),
    ],
)
def test_a_transform_that_returns_no_list_of_chunks_is_named(feed: Any, received: str) -> None:
    with pytest.raises(TypeError, match=rf"^Made: expected a list of chunks, received {received}"):
        read(contents(["a"]), Made(feed))
    with pytest.raises(TypeError, match=r"^Made: expected a list of chunks, received None"):
        read(contents(["a"]), Made(close=lambda: None))


# Together


@given(TEXTS.filter(bool), CUTS)
def test_cumulative_deltas_with_tags(text: str, cuts: list[int]) -> None:
    parser, chunks = read(contents(grown(cut(text, cuts))), CumulativeDeltas(), ThinkTags())
    assert (parser.snapshot.text, parser.snapshot.reasoning) == split_whole(text)
    adds_up(parser, chunks)


def test_they_are_applied_in_the_order_given() -> None:
    payloads = contents(["<think>a", "<think>a</think>b"])
    parser, _ = read(payloads, ThinkTags(), CumulativeDeltas())
    # The tags are gone before anything is compared; the reasoning grows, and then the text begins.
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("b", "a")
    seen: list[ChatCompletionChunk] = []

    def see(chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        seen.append(chunk)
        return [chunk]

    tap = Made(see)
    read(payloads, tap, CumulativeDeltas(), tap)
    assert [one.text for one in seen] == ["<think>a", "<think>a", "<think>a</think>b", "</think>b"]


def test_what_one_held_back_goes_through_those_behind_it() -> None:
    parser, _ = read(contents(["a <thi"], finish_reason=None), ThinkTags(), Made(lambda chunk: [chunk, chunk]))
    assert parser.snapshot.text == "a a <thi<thi"


def test_the_output_that_one_makes_is_limited_chunk_by_chunk() -> None:
    def louder(chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        chunk.choices[0].delta.content = chunk.text * 10_000
        return [chunk]

    parser, _ = read(contents(["hello"] * 10), Made(louder), max_output_size=100_000)
    assert isinstance(parser.error, chunkfold.LimitExceededError)
    assert len(parser.snapshot.text) == 150_000  # the chunk that exceeds it is still returned


CUT_AND_WHOLE = [
    (ThinkTags(), ["a<think>b"], ["c"], ("c", "")),
    (ThinkTags(inside=True), ["b</think>a"], ["c"], ("", "c")),
    (ThinkTags(), ["a<thi"], ["nk>c"], ("nk>c", "")),
    (CumulativeDeltas(), ["a", "ab"], ["ab", "abc"], ("abc", "")),
    (OneChoice(), ["a"], ["b"], ("b", "")),
]


@each_case(("transform", "first", "second", "expected"), CUT_AND_WHOLE)
@each_case("ending", [b"data: [DONE]\n\n", b"data: broken\n\n", b""])
def test_a_transform_forgets_a_stream_that_has_ended(
    transform: Transform, first: list[str], second: list[str], expected: tuple[str, str], ending: bytes
) -> None:
    """Options are shared easily. Nothing of one answer may turn up in the next, least of all its finish reason."""
    parser = ChatCompletionParser(transforms=[transform])
    parser.feed(b"".join(sse(*contents(first))[:-1]) + ending)
    parser.leave()
    parser, _ = read(contents(second, finish_reason=None), transform)
    parser.close()
    assert (parser.snapshot.text, parser.snapshot.reasoning, parser.snapshot.finish_reason) == (*expected, None)


@each_case(
    ("body", "way_out", "end"),
    [
        (b"", "close", "truncated"),
        (b"", "leave", "closed"),
        (b"", "interrupt", "interrupted"),
        (b"", "stall", "stalled"),
        (b"data: [DONE]\n\n", "feed", "closed"),  # what it held back is lost
        (b"data: no JSON\n\n", "feed", "invalid"),
        (b"data: [DONE]", "close", "closed"),
    ],
)
def test_a_stream_has_ended_although_a_transform_raised_then(body: bytes, way_out: str, end: str) -> None:
    def fail() -> None:
        raise KeyError("mine")

    ended: list[str | None] = []
    parser = ChatCompletionParser(transforms=[Made(close=fail)], total_timeout=5, started=0, clock=lambda: 0.0)
    parser.observe(on_end=lambda one: ended.append(one.end))
    ways_out: dict[str, Callable[[], Any]] = {
        "close": parser.close,
        "leave": parser.leave,
        "interrupt": lambda: parser.interrupt(ConnectionError("gone")),
        "stall": lambda: parser.feed(b": ping\n\n", arrived=6.0),
        "feed": lambda: parser.feed(body),
    }
    parser.feed(sse(*contents(["a"], finish_reason=None))[0])
    if way_out != "feed":
        parser.feed(body)
    with pytest.raises(KeyError, match="mine"):
        ways_out[way_out]()
    assert (parser.end, parser.snapshot.text, ended) == (end, "a", [end])
    assert (parser.error is None) is (end == "closed")
    parser.close()
    assert ended == [end]


@each_case("more", [0, 20_000])
def test_what_was_held_back_at_a_deadline_counts_for_a_callback_however_large_the_read_is(more: int) -> None:
    parser = ChatCompletionParser(
        transforms=[ThinkTags()], total_timeout=1, clock=lambda: 0.0, on_server_sent_event=lambda event, chunks: None
    )
    held_back = sse(*contents(["<th"], finish_reason=None))[0]
    parser.fold(held_back + b": keep-alive\n" * (more // 10), arrived=5.0)
    assert (parser.end, parser.emitted_output) == ("stalled", True)


def test_one_choice_and_cumulative_deltas() -> None:
    payloads = [chunk(choice("a")), chunk(choice("ab", "stop")), chunk(choice("abc", "stop", 1))]
    parser, _ = read(payloads, OneChoice(), CumulativeDeltas())
    assert parser.snapshot.text == "abc"


def test_one_choice_with_tags() -> None:
    payload = chunk(choice(index=1, tool_calls=[call("a", "f", "{}", index=0)]), choice("<think>a</think>b", "stop"))
    parser, _ = read([payload], OneChoice(), ThinkTags())
    assert parser.snapshot.finish_reason == "stop"


# Off by default, and over the wire


@pytest.mark.parametrize("texts", [["<think>a</think>b"], ["a", "ab", "abc"]], ids=["tags", "cumulative"])
def test_off_by_default(texts: list[str]) -> None:
    parser, _ = read(contents(texts))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("".join(texts), "")


MAKERS: list[Callable[[], Transform]] = [ThinkTags, CumulativeDeltas, OneChoice]


@pytest.mark.parametrize("make", MAKERS)
def test_a_stream_without_the_habit_passes_as_it_came(make: Callable[[], Transform]) -> None:
    """The text grows by pieces that do not begin with all that came before, has no tags, and is of one choice."""
    calls = [{"index": 0, **call("a", "f", "{}")}]
    payloads = [
        chunk(choice("Hello", role="assistant")),
        chunk(choice(", you", reasoning_content="hm")),
        chunk(choice(tool_calls=calls)),
        chunk(choice(finish_reason="tool_calls"), usage={"total_tokens": 3}),
    ]
    parser, chunks = read(payloads, make())
    if make is not OneChoice:  # there the finish reason comes at the end
        assert [one.model_dump(exclude_unset=True) for one in chunks] == payloads
    assert parser.completion() == read(payloads)[0].completion()


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_tolerated_is_noted_all_the_same(make: Callable[[], Transform]) -> None:
    no_delta = chunk({"index": 0, "finish_reason": "stop"})
    no_choices = {name: value for name, value in chunk().items() if name != "choices"}
    payloads = [chunk({"delta": {"content": "a"}, "finish_reason": None}), no_delta, no_choices]
    assert noted(read(payloads, make())[0]) == noted(read(payloads)[0]) == {"CF201": 1, "CF202": 1, "CF210": 1}


def test_through_a_connection() -> None:
    with (
        httpx.Client(transport=mock_transport(StreamBuilder().text("<think>a</th", "ink>b").finish().done())) as client,
        connect(client, "POST", URL, json={}, transforms=[ThinkTags()]) as stream,
    ):
        assert "".join(stream.text_deltas()) == "b"
        completion = stream.completion()
    assert (completion.text, completion.reasoning) == ("b", "a")
