"""Limits: what they count, and where a stream stops that passes one."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import made_streams
import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from limited import ALLOWED, COST, HI, READ, SMALL_LIMIT, STOP, TOKEN, assert_named, call, fresh, parsed_with_chunks
from measured_memory import only_garbage_of_these_tests, traced
from parsed_bodies import fed, parsed

from chunkfold import (
    APIStatusError,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    LimitExceededError,
)
from chunkfold.event_stream import discarded
from chunkfold.fold import stream_fold
from chunkfold.parser import limits
from chunkfold.testing import DONE, choice, chunk, cut_every, delta, event, fragment

collecting_is_quick = only_garbage_of_these_tests


@dataclass
class Steps:
    """What came of each piece of a body, and last of its end; and which of them was the end of the stream."""

    parser: ChatCompletionParser
    chunks: list[list[ChatCompletionChunk]]
    last: int

    @property
    def shown(self) -> Any:
        parser = self.parser
        all_chunks = list(itertools.chain(*self.chunks))
        return parser.end, repr(parser.error), all_chunks, parser.snapshot, parser.anomalies

    def begins_like(self, other: "Steps", count: int) -> bool:
        return self.chunks[:count] == other.chunks[:count] and not any(self.chunks[count + 1 :])


def steps(pieces: list[bytes], **options: Any) -> Steps:
    parser = ChatCompletionParser(**options)
    chunks, last = [], 0
    for piece in pieces:
        last += parser.end is None
        chunks += [parser.feed(piece)]
    last -= parser.end is not None
    return Steps(parser, [*chunks, parser.close()], last)


@given(made_streams.STREAMS, st.integers(0, 30), made_streams.CUTS)
def test_the_event_that_passes_the_output_limit_is_the_last(
    stream: made_streams.Stream, limit: int, places: list[int]
) -> None:
    free = steps(stream.pieces)
    limited = steps(stream.pieces, max_output_size=limit)
    output = ChatCompletionAccumulator()
    passing = None
    for place, chunks in enumerate(free.chunks):
        for each in chunks:
            output.add(each)
        if passing is None and output.output_size > limit:
            passing = place
    if passing is None:
        assert limited.shown == free.shown
    else:
        assert limited.begins_like(free, passing)
        assert limited.chunks[passing][: len(free.chunks[passing])] == free.chunks[passing]
        if free.parser.end in ("failed", "invalid") and passing == free.last:
            assert limited.shown == free.shown  # an error of its own is told first
        else:
            assert_named(limited.parser, "max_output_size", limit)
    assert steps(stream.cut(places).pieces, max_output_size=limit).shown == limited.shown


@given(made_streams.STREAMS, st.integers(0, 400), made_streams.CUTS)
def test_nothing_comes_of_the_event_that_passes_its_limit(
    stream: made_streams.Stream, limit: int, places: list[int]
) -> None:
    free = steps(stream.pieces)
    limited = steps(stream.pieces, max_event_size=limit)
    sizes = [len(piece.removeprefix(b"data:").removeprefix(b" ").rstrip(b"\r\n")) for piece in stream.pieces]
    passing = next((place for place, size in enumerate(sizes) if size > limit), None)
    if passing is None or passing > free.last:
        assert limited.shown == free.shown
    else:
        assert limited.begins_like(free, passing)
        assert_named(limited.parser, "max_event_size", limit)
        before = ChatCompletionParser()
        before.fold(b"".join(stream.pieces[:passing]))
        before.leave()
        assert limited.parser.snapshot == before.snapshot
    assert steps(stream.cut(places).pieces, max_event_size=limit).shown == limited.shown


def test_without_being_told_an_event_may_have_32_mib() -> None:
    parser = fed(b"data: " + b"x" * 32 * 2**20)
    assert parser.end is None
    parser.feed(b"x")
    assert_named(parser, "max_event_size", 32 * 2**20)
    parser = fed(b"data: " + b"x" * 33 * 2**20 + b"\n", max_event_size=None)
    assert parser.end is None


LARGE_OPENINGS: dict[str, bytes] = {
    "an error in several lines": json.dumps({"error": {"message": "x", "trace": ["a"] * 40}}, indent=1).encode(),
    "a completion in a list": json.dumps([{"choices": [{"message": {"content": "x" * 50}}] * 4}], indent=1).encode(),
    "behind blanks": b"\r\n  \n" + b'{"a": 1,\n' * 40,
}


@pytest.mark.parametrize("rest", [b"\n\n" + delta(content="Hi") + DONE, b"\r\rdata: [DONE]"])
@pytest.mark.parametrize("opening", LARGE_OPENINGS.values(), ids=LARGE_OPENINGS)
def test_json_before_the_first_event_that_is_larger_than_an_event_may_be(opening: bytes, rest: bytes) -> None:
    for size in (1, 3, 100, 10_000):
        parser, chunks = parsed_with_chunks(opening + rest, size, max_event_size=200)
        assert_named(parser, "max_event_size", 200)
        assert chunks == []


def test_other_lines_before_the_first_event_are_ignored_however_many() -> None:
    parser, chunks = parsed_with_chunks(b"a log\n" * 100 + delta(content="Hello") + DONE, max_event_size=200)
    assert ([one.text for one in chunks], parser.end) == (["Hello"], "done")


def test_without_a_limit_json_before_the_first_event_may_have_32_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    assert discarded._PREAMBLE_LIMIT == 32 * 2**20
    monkeypatch.setattr(discarded, "_PREAMBLE_LIMIT", 2**16)
    parser = fed(b"{\n" + b" " * 2**16 + b"\n", max_event_size=None)
    parser.feed(DONE)
    assert_named(parser, "max_event_size", 2**16)


def alike(field: bytes = b"data: ", end: bytes = b"\n") -> list[bytes]:
    """Events that differ in their texts alone, with lists that add up."""
    choices = [{"index": 0, "delta": {"content": f" {n}"}, "token_ids": [7] * 20} for n in range(250)]
    return [event({"choices": [one]}).replace(b"data: ", field).replace(b"\n", end) for one in choices]


KEPT = {
    "new keys": [chunk(**fresh(n)) for n in range(20)],
    "alike": alike(),
    "alike, without a space": alike(b"data:"),
    "alike, with CRLF": alike(end=b"\r\n"),
    "alike, without a space and with CRLF": alike(b"data:", b"\r\n"),
}


@each_case("name", KEPT)
@patch.object(limits, "_ALLOWANCE", 2**16)
@patch.object(stream_fold, "_COMPACTION", 50)  # chunks, so that texts are joined before the limit is passed
def test_what_is_kept_beside_the_output_is_measured_at_the_same_events_however_they_are_cut(name: str) -> None:
    """Was once wrong: an event that was one read, and had no space after its colon, counted a byte less."""
    events, chunks = [HI, *KEPT[name], STOP, DONE], set()
    body = b"".join(events)
    for way in (ChatCompletionParser.feed, ChatCompletionParser.fold):
        for reads in (events, [body], cut_every(body, 371), cut_every(body, READ)):
            parser = ChatCompletionParser(max_output_size=10_000)
            for data in reads:
                way(parser, data)
            assert_named(parser, "max_output_size", 10_000)
            assert parser.snapshot.text.startswith("Hi")
            chunks.add(parser.chunks)
    assert len(chunks) == 1


def test_an_error_in_the_event_that_passes_the_limit_is_told() -> None:
    error = {"message": "overloaded", "code": 503}
    parser, chunks = parsed_with_chunks(HI + chunk(choice(content="x" * 100), error=error) + HI, max_output_size=10)
    assert (parser.end, len(chunks)) == ("failed", 2)
    assert "overloaded" in str(parser.error)


def test_a_whole_completion_is_measured_as_a_stream_is() -> None:
    choices = [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]
    body = {"object": "chat.completion", "junk": "x" * 20 * SMALL_LIMIT, "choices": choices}
    assert_named(parsed(json.dumps(body).encode(), max_output_size=SMALL_LIMIT), "max_output_size", SMALL_LIMIT)


@pytest.mark.slow
def test_long_numbers_count_by_their_length() -> None:
    parser = fed((delta(**{f"k{n}": 10**4000}) for n in range(1000)), max_output_size=1000)
    assert_named(parser, "max_output_size", 1000)


def pieces_of(text: str, piece: Callable[[str], bytes], size: int = 1000) -> bytes:
    return b"".join(piece(text[start : start + size]) for start in range(0, len(text), size))


def named_call(index: int) -> bytes:
    return call(index=index, id=f"call_{index}", function={"name": "f", "arguments": ""})


def more_arguments(text: str, index: int = 0) -> bytes:
    return call(index=index, function={"arguments": text})


TEXT = "word " * (SMALL_LIMIT * 19 // 100)  # 95 % of the limit
HALF = TEXT[: len(TEXT) // 2]
FRAGMENTS = 1_500  # texts are joined after 1,024
LEGITIMATE = {
    "text": pieces_of(TEXT, lambda text: delta(content=text)),
    "reasoning in both spellings": pieces_of(TEXT, lambda text: delta(reasoning=text, reasoning_content=text)),
    "reasoning, then text": pieces_of(HALF, lambda text: delta(reasoning=text))
    + pieces_of(HALF, lambda text: delta(content=text)),
    "reasoning beside its details": pieces_of(
        TEXT, lambda text: delta(reasoning=text, reasoning_details=[{"type": "reasoning.text", "index": 0, "text": text}])
    ),
    "encrypted reasoning": pieces_of(
        TEXT, lambda text: delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 0, "data": text}])
    ),
    "arguments of one call": named_call(0) + pieces_of(TEXT, more_arguments),
    "arguments of two calls": named_call(0) + pieces_of(HALF, more_arguments)
    + named_call(1) + pieces_of(HALF, lambda text: more_arguments(text, 1)),
    "arguments in fragments that have new ids": named_call(0)
    + b"".join(call(index=0, id=f"call_{n}", function={"arguments": "word "}) for n in range(FRAGMENTS)),
    "an image": delta(images=[{"type": "image_url", "image_url": {"url": TEXT}}]),
    "audio": pieces_of("AAAA" * (SMALL_LIMIT // 5), lambda text: delta(audio={"data": text})),
    "usage in every chunk": pieces_of(TEXT, lambda text: chunk(
        choice(content=text), usage={"completion_tokens": 1, "prompt_tokens_details": {}}
    )),
    "padding": pieces_of(TEXT, lambda text: delta(content=text, obfuscation=text)),
    "log probabilities of a hundred tokens": b"".join(
        chunk({**choice(content="word "), "logprobs": {"content": [{**TOKEN, "top_logprobs": [TOKEN] * 5}]}})
        for _ in range(100)
    ),
}  # fmt: skip


@each_case("name", LEGITIMATE)
def test_a_stream_with_less_output_than_the_limit_is_read(name: str) -> None:
    parser = parsed(LEGITIMATE[name] + STOP + DONE, max_output_size=SMALL_LIMIT)
    assert parser.end == "finished"


def test_what_is_replaced_is_not_added_up() -> None:
    parser = ChatCompletionParser(max_output_size=1000)
    body = chunk(choice(content=""), usage={f"k{n}": n for n in range(20)}, provider="x" * 1000) * 10
    for _ in range(100):
        parser.feed(body)
    assert parser.end is None


@each_case("again", [fragment(0, None, "f"), fragment(0, "a", "f"), fragment(0, "a", "g")])
def test_a_name_that_is_sent_again_or_too_late_is_no_output(again: dict[str, Any]) -> None:
    parser = ChatCompletionParser(max_output_size=len("f{}"))
    parser.feed(delta(tool_calls=[fragment(0, "a", "f", "{}")]) + delta(tool_calls=[again]) * 2)
    assert parser.error is None


def test_behind_the_end_no_error_field_is_read() -> None:
    parser = fed(HI + STOP + DONE + b"error: [" + b"1," * 300_000 + b"1]\n\n")
    assert parser.end == "finished"


def test_leaving_exceeds_no_limit() -> None:
    parser = fed(chunk({"index": 0, "message": {"content": "whole"}}), max_output_size=3)
    parser.leave()
    assert (parser.end, parser.error) == ("closed", None)


@pytest.mark.slow
def test_without_being_told_output_may_have_64_mi_characters() -> None:
    parser = ChatCompletionParser()
    piece = delta(content="x" * 2**20)
    for _ in range(64):
        parser.feed(piece)
    assert parser.end is None
    parser.feed(HI)
    assert_named(parser, "max_output_size", 64 * 2**20)
    assert len(parser.snapshot.text) == 64 * 2**20 + 2


def test_none_turns_the_limit_off() -> None:
    body = b"".join(chunk(**fresh(n)) for n in range(200))
    assert_named(parsed(body, max_output_size=1000), "max_output_size", 1000)
    assert parsed(body, max_output_size=None).end == "empty"


REFUSED = b'{"error":{"message":"overloaded"},"padding":"%b"}'


def refused(size: int) -> bytes:
    """A JSON error of so many bytes."""
    return REFUSED % (b"x" * (size - len(REFUSED) + 2))


@each_case("read", [1000, ALLOWED - 1, ALLOWED, ALLOWED + 1, 10**7])
@each_case("size", [100, ALLOWED - 1, ALLOWED, ALLOWED + 1, 10 * ALLOWED])
def test_a_refusal_is_read_up_to_64_kib_and_says_if_it_was_cut(size: int, read: int) -> None:
    parser = parsed(refused(size), read, status_code=503)
    error, cause = parser.error, parser.error.__cause__
    assert (parser.end, type(error), error.status_code) == ("failed", APIStatusError, 503)
    if size <= ALLOWED:
        assert (error.message, cause) == ("overloaded", None)
    else:
        assert error.raw == refused(size)[:ALLOWED].decode()
        assert len(str(error)) < 1000
        assert type(cause) is LimitExceededError
        assert (cause.limit, cause.value) == ("max_error_body", ALLOWED)


def test_of_a_refusal_without_end_no_more_is_read_than_that() -> None:
    parser = ChatCompletionParser(status_code=503)
    sent = 0
    with traced() as memory:
        while parser.end is None:
            parser.feed(b"x" * 1000)
            sent += 1000
    assert sent == 66_000
    assert memory.peak < COST * ALLOWED
