"""Limits: what they count, where a stream stops that passes one, and that nothing a peer sends slips under them.

The attacks are streams without end, each of which makes something grow. Every one is read until it ends, for so long
at most; then it is too late. Memory is what Python allocated meanwhile (`tracemalloc`).
"""

import gzip
import itertools
import json
import os
import pickle
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import made_streams
import pytest
from cases import each_case
from fronts import by_turns, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts, read_by
from hypothesis import given, settings
from hypothesis import strategies as st
from linear import assert_linear, no_collector, seconds
from measured_memory import only_garbage_of_these_tests, traced
from shared_data import shared_data

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    CumulativeDeltas,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    OneChoice,
    UsageReceived,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.json_text.parsing import has_more_items
from chunkfold.models import base
from chunkfold.parser import event_folder
from chunkfold.parser.holes import VALUE
from chunkfold.testing import DONE, Answer, FakeProvider, choice, chunk, cut, delta, event
from chunkfold.wire import payload, raw_data, reading

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts
library = each_library
collecting_is_quick = only_garbage_of_these_tests

READ = 2**16  # bytes
STOP = delta("stop")
HI = delta(content="Hi")


def call(**fields: Any) -> bytes:
    return delta(tool_calls=[fields])


def in_reads(body: bytes, size: int = READ) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def parsed(body: bytes, size: int = READ, **options: Any) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    parser = ChatCompletionParser(**options)
    chunks = [each for data in in_reads(body, size) for each in parser.feed(data)]
    return parser, chunks + parser.close()


# Attacks

LIMIT = 10**6
EACH = range(100)  # how many new things come at once
SMALL_LIMIT = LIMIT // 10
COST = 50  # bytes for a character, at most: an object that is two characters of JSON may take a kilobyte
MOST_SENT = 50 * LIMIT  # bytes, which is far more than the limit lets through


def kept_by(limit: int) -> int:
    """What may be kept by a limit of so many characters: those, as much again, and 1 MiB; and then there is one read."""
    return 2 * limit + 2**20 + READ


def fresh(n: int, value: Any = "word " * 20) -> dict[str, Any]:
    """Keys that were never seen before."""
    return {f"key{n}_{each}": value for each in EACH}


def choices(n: int, **fields: Any) -> bytes:
    return chunk(*({"index": n * len(EACH) + each, **fields} for each in EACH))


def calls(n: int, fragment_of: Callable[[int], dict[str, Any]]) -> bytes:
    return delta(tool_calls=[fragment_of(n * len(EACH) + each) for each in EACH])


TOKEN = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}
EVENT = "max_event_size"
OUTPUT = "max_output_size"
# What comes as the n-th piece of a body, and the limit that ends it.
ATTACKS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    # Events without end
    "a line": (EVENT, lambda n: b"x" * 1000 if n else b"data: "),
    "a line of no field": (EVENT, lambda n: b"x" * 1000),
    "a comment": (EVENT, lambda n: b":" * 1000),
    "a name of an event": (EVENT, lambda n: b"x" * 1000 if n else b"event:"),
    "lines of data": (EVENT, lambda n: b"data: word\n" * 100),
    "a JSON string": (EVENT, lambda n: b"x" * 1000 if n else b'data: {"choices": "'),
    "a JSON list": (EVENT, lambda n: b"[" * 1000 if n else b"data: ["),
    # Output
    "text": (OUTPUT, lambda n: delta(content="word " * 100)),
    "wide text": (OUTPUT, lambda n: delta(content="\N{GRINNING FACE}" * 100)),
    "reasoning": (OUTPUT, lambda n: delta(reasoning_content="word " * 100)),
    "a refusal": (OUTPUT, lambda n: delta(refusal="word " * 100)),
    "arguments": (OUTPUT, lambda n: call(index=0, function={"arguments": "word " * 100})),
    "a name": (OUTPUT, lambda n: call(index=0, function={"name": f"word {n} " * 50})),
    "input": (OUTPUT, lambda n: call(index=0, custom={"input": "word " * 100})),
    "a function call": (OUTPUT, lambda n: delta(function_call={"arguments": "word " * 100})),
    "audio": (OUTPUT, lambda n: delta(audio={"data": "AAAA" * 100})),
    "a transcript": (OUTPUT, lambda n: delta(audio={"transcript": "word " * 100})),
    "images": (OUTPUT, lambda n: delta(images=[{"image_url": {"url": "x" * 500}}])),
    "encrypted reasoning": (OUTPUT, lambda n: delta(reasoning_details=[{"type": "x", "data": "x" * 500}])),
    "reasoning and text by turns": (OUTPUT, lambda n: b"".join([delta(content="x"), delta(reasoning="y")] * 20)),
    # Whatever else is kept
    "choices": (OUTPUT, choices),
    "choices with strange indexes": (OUTPUT, lambda n: choices([n, -n, 10**18 + n, 10**399 + n][n % 4])),
    "choices with a whole message": (OUTPUT, lambda n: choices(n, message={"content": "x" * 100})),
    "calls": (OUTPUT, lambda n: calls(n, lambda place: {"index": place, "id": f"c{place}"})),
    "calls without an index": (OUTPUT, lambda n: calls(n, lambda place: {"id": f"c{place}", "function": {"name": "f"}})),
    "calls with an index of 400 digits": (OUTPUT, lambda n: calls(10**399 + n, lambda place: {"index": place, "function": {"name": "f"}})),
    "ids of one call": (OUTPUT, lambda n: calls(n, lambda place: {"index": 0, "id": f"{place:0100}"})),
    "ids and indexes of one call": (OUTPUT, lambda n: calls(n, lambda place: {"index": place, "id": f"{place:0100}"})),
    "halves of characters": (OUTPUT, lambda n: calls(n, lambda place: {"index": place, "function": {"arguments": "\ud800"}})),
    "types of calls": (OUTPUT, lambda n: call(index=n, function={"name": "f"}) + call(index=n, type="x" * 1000)),
    "parts of a content list": (OUTPUT, lambda n: delta(content=[{"type": "x", **fresh(n)}])),
    "annotations": (OUTPUT, lambda n: delta(annotations=[{"type": str(n)}, *({} for _ in EACH)])),
    "log probabilities": (OUTPUT, lambda n: chunk({**choice(), "logprobs": {"content": [TOKEN] * 100}})),
    "unknown keys of log probabilities": (OUTPUT, lambda n: chunk({**choice(), "logprobs": fresh(n)})),
    "unknown keys of chunks": (OUTPUT, lambda n: chunk(**fresh(n))),
    "unknown keys of choices": (OUTPUT, lambda n: chunk({**choice(), **fresh(n)})),
    "unknown keys of deltas": (OUTPUT, lambda n: delta(**fresh(n))),
    "unknown keys of calls": (OUTPUT, lambda n: call(index=0, **fresh(n))),
    "unknown keys of functions": (OUTPUT, lambda n: call(index=0, function=fresh(n))),
    "unknown keys of function calls": (OUTPUT, lambda n: delta(function_call=fresh(n))),
    "unknown keys of audio": (OUTPUT, lambda n: delta(audio=fresh(n))),
    "unknown numbers": (OUTPUT, lambda n: chunk(**fresh(n, n))),
    "unknown objects": (OUTPUT, lambda n: chunk(**fresh(n, {"a": [{}]}))),
    "unknown strings": (OUTPUT, lambda n: chunk(**fresh(n, "\N{GRINNING FACE}" * 100))),
    "reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"index": f"{n} {each}"} for each in EACH])),
    "types of reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"type": key} for key in fresh(n)])),
    "unknown keys of reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"index": 0, **fresh(n)}])),
}  # fmt: skip


QUICK = [
    *("a line", "a comment", "a JSON string", "text", "arguments", "encrypted reasoning"),
    *("ids of one call", "halves of characters", "log probabilities", "unknown keys of functions"),
]


def endless(name: str) -> Iterator[bytes]:
    """What a socket gives of an attack, read by read, until it is too late."""
    pieces = map(ATTACKS[name][1], itertools.count())
    sent = 0
    while sent < MOST_SENT:
        data = b""
        while len(data) < READ:
            data += next(pieces)
        sent += len(data)
        yield data
    pytest.fail("no limit ends it")


def by_feed(
    reads: Iterator[bytes],
    *,
    way: Callable[..., Any] = ChatCompletionParser.feed,
    with_events: bool = False,
    **options: Any,
) -> Any:
    parser = ChatCompletionParser(**options)
    told: Callable[[], object] = parser.events if with_events else list
    told()
    while parser.end is None:
        way(parser, next(reads))
        told()
    return parser


def by_iterating(reads: Iterable[bytes], **options: Any) -> Any:
    stream = ChatCompletionStream(reads, **options)
    with suppress(ChunkfoldError):
        for _ in stream:
            pass
    return stream


def assert_limited(name: str, stream: Any, value: int) -> None:
    limit, _ = ATTACKS[name]
    assert_named(stream, limit, value)
    assert limit in str(stream.error)


def attack(name: str, way: Callable[..., Any], limit: int = LIMIT) -> None:
    with traced() as memory:
        stream = way(endless(name), max_output_size=limit, max_event_size=limit)
    print(f"{memory.peak / 10**6:.1f} MB")
    assert_limited(name, stream, limit)
    assert memory.peak < COST * kept_by(limit), f"{memory.peak / kept_by(limit):.0f}"


@pytest.mark.parametrize("name", QUICK)
def test_an_attack_ends_at_a_limit(name: str) -> None:
    attack(name, by_feed, SMALL_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_ends_at_a_limit_also_with_events(name: str) -> None:
    attack(name, partial(by_feed, with_events=True), SMALL_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"), [*zip(QUICK, itertools.cycle([partial(by_feed, way=ChatCompletionParser.fold), by_iterating]))]
)
def test_an_attack_ends_at_a_limit_whoever_reads_it(name: str, way: Callable[..., Any]) -> None:
    assert_limited(name, way(endless(name), max_output_size=SMALL_LIMIT, max_event_size=SMALL_LIMIT), SMALL_LIMIT)


@each_case("transforms", [[OneChoice], [CumulativeDeltas, OneChoice]])
def test_the_calls_of_choices_that_a_transform_merges_are_counted(transforms: list[type[Any]]) -> None:
    """Was once wrong: to join halves of characters, the calls of each choice were kept, which no limit counted."""
    parser = ChatCompletionParser(max_output_size=SMALL_LIMIT, transforms=[kind() for kind in transforms])
    for n in range(2000):
        parser.fold(delta(index=n, tool_calls=[{"index": 0, "id": "a"}]))
    assert_named(parser, OUTPUT, SMALL_LIMIT)
    assert parser.chunks < 1000


@pytest.mark.slow
def test_half_a_character_keeps_nothing_else() -> None:
    parser = ChatCompletionParser(max_output_size=LIMIT)
    with traced() as memory:
        for n in range(140):
            parser.feed(delta(index=n, content=[{"type": "text", "text": "\ud83d", "padding": "x" * LIMIT}]))
    assert parser.end is not None or memory.peak < COST * kept_by(LIMIT)


# Where a stream stops that passes a limit


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


often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy


@often
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


@often
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
    parser = ChatCompletionParser()
    parser.feed(b"data: " + b"x" * 32 * 2**20)
    assert parser.end is None
    parser.feed(b"x")
    assert_named(parser, "max_event_size", 32 * 2**20)
    parser = ChatCompletionParser(max_event_size=None)
    parser.feed(b"data: " + b"x" * 33 * 2**20 + b"\n")
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
        parser, chunks = parsed(opening + rest, size, max_event_size=200)
        parser.close()
        assert_named(parser, "max_event_size", 200)
        assert chunks == []


def test_other_lines_before_the_first_event_are_ignored_however_many() -> None:
    parser, chunks = parsed(b"a log\n" * 100 + delta(content="Hello") + DONE, max_event_size=200)
    assert ([one.text for one in chunks], parser.end) == (["Hello"], "done")


def test_without_a_limit_json_before_the_first_event_may_have_32_mib() -> None:
    parser = ChatCompletionParser(max_event_size=None)
    parser.feed(b"{\n" + b" " * 32 * 2**20 + b"\n")
    parser.feed(DONE)
    assert_named(parser, "max_event_size", 32 * 2**20)


def assert_named(parser: Any, limit: str, value: int) -> None:
    assert parser.end == "invalid"
    assert type(parser.error) is LimitExceededError
    assert (parser.error.limit, parser.error.value) == (limit, value)
    assert parser.error.snapshot is parser.snapshot


def test_what_is_kept_beside_the_output_is_measured_at_the_same_events() -> None:
    body = HI + b"".join(chunk(**fresh(n)) for n in range(300)) + STOP + DONE
    chunks = set()
    for way, read in itertools.product([ChatCompletionParser.feed, ChatCompletionParser.fold], [1000, READ, 10**7]):
        parser = ChatCompletionParser(max_output_size=1000)
        for data in in_reads(body, read):
            way(parser, data)
        assert_named(parser, "max_output_size", 1000)
        assert parser.snapshot.text == "Hi"
        chunks.add(parser.chunks)
    assert len(chunks) == 1


# What is legitimate passes


def test_recordings_pass_by_exactly_their_own_output(subtests: pytest.Subtests) -> None:
    for path in sorted(shared_data("recordings").glob("*.sse")):
        with subtests.test(path.stem):
            body = path.read_bytes()
            parser, chunks = parsed(body)
            output = ChatCompletionAccumulator()
            for each in chunks:
                output.add(each)
            limited, same_chunks = parsed(body, max_output_size=output.output_size)
            assert (limited.end, same_chunks, limited.snapshot) == (parser.end, chunks, parser.snapshot)
            assert (repr(limited.error), limited.anomalies) == (repr(parser.error), parser.anomalies)
            if output.output_size:
                limited, some_chunks = parsed(body, max_output_size=output.output_size - 1)
                assert limited.end == "invalid"
                assert some_chunks == chunks[: len(some_chunks)]
                if parser.end != "invalid":  # what is no chunk is told first, if it comes in the same block
                    assert_named(limited, "max_output_size", output.output_size - 1)


@pytest.mark.slow
def test_recordings_pass_by_exactly_their_own_largest_event(subtests: pytest.Subtests) -> None:
    for path in sorted(shared_data("recordings").glob("*.sse")):
        with subtests.test(path.stem):
            body = path.read_bytes()
            parser, chunks = parsed(body)
            largest = largest_of(body)
            limited, same_chunks = parsed(body, 100, max_event_size=largest)
            assert (limited.end, same_chunks, limited.snapshot) == (parser.end, chunks, parser.snapshot)
            limited, some_chunks = parsed(body, 100, max_event_size=largest - 1)
            assert some_chunks == chunks[: len(some_chunks)]
            assert_named(limited, "max_event_size", largest - 1)


def largest_of(body: bytes) -> int:
    """The size of the largest data of an event, or line that is none, by a plain look at the body."""
    sizes = []
    for block in re.split(rb"\n\n|\r\n\r\n", body):
        lines = [line.partition(b":") for line in block.splitlines()]
        data = [value.removeprefix(b" ") for name, _, value in lines if name == b"data"]
        sizes += [len(b"\n".join(data)), *(len(b"".join(line)) for line in lines if line[0] != b"data")]
    return max(sizes)


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
    parser, _ = parsed(LEGITIMATE[name] + STOP + DONE, max_output_size=SMALL_LIMIT)
    assert parser.end == "finished"


@pytest.mark.slow
def test_what_is_only_added_to_is_measured_once() -> None:
    """The tokens of vLLM, which come with each chunk, were once measured anew each time."""
    [one] = ChatCompletionParser().feed(chunk({**choice(content="a"), "token_ids": [*range(100)]}))

    def measured(size: int) -> Callable[[], object]:
        def take() -> None:
            fold = StreamFold()
            for _ in range(size):
                fold.add(one)
                assert fold.measure()

        return take

    assert_linear(measured, 100)


def in_choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, **fields}]}


def in_delta(**fields: Any) -> dict[str, Any]:
    return in_choice(delta=fields)


def in_call(**fields: Any) -> dict[str, Any]:
    return in_delta(tool_calls=[{"index": 0, **fields}])


# Where values are kept until they are replaced.
REPLACED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "a chunk": lambda value: {**in_delta(), "x": value},
    "a choice": lambda value: in_choice(x=value),
    "a delta": lambda value: in_delta(x=value),
    "extra_content": lambda value: in_delta(extra_content=value),
    "provider fields": lambda value: in_delta(provider_specific_fields={"x": value}),
    "a call": lambda value: in_call(x=value),
    "a call's provider fields": lambda value: in_call(provider_specific_fields={"x": value}),
    "a call's function": lambda value: in_call(function={"x": value}),
    "the legacy call": lambda value: in_delta(function_call={"x": value}),
    "audio": lambda value: in_delta(audio={"x": value}),
    "a block": lambda value: in_delta(reasoning_details=[{"type": "t", "index": 0, "x": value}]),
    "log probabilities": lambda value: in_choice(logprobs={"x": value}),
    "usage": lambda value: {**in_delta(), "usage": {"x": value}},
    "a message": lambda value: in_choice(message={"content": "a", "x": value}),
}


def measured_values(fold: StreamFold) -> list[object]:
    """The keys of the values that are kept for their sizes; of lists that grow the key is a number."""
    return [key for key in fold._footprint._measured if isinstance(key, tuple)]


@each_case("name", REPLACED)
def test_all_that_is_kept_is_measured_until_it_is_replaced(name: str) -> None:
    fold = StreamFold()

    def size_with(value: Any) -> int:
        fold.add(ChatCompletionChunk.model_validate(REPLACED[name](value)))
        size = fold.measure()
        assert size == fold.measure() == deepcopy(fold).measure()
        return size

    small = size_with({"y": "a"})
    assert size_with({"y": "a" * 20_000}) - small == 19_999
    assert size_with({"y": "b" * 20_000}) - small == 19_999
    assert size_with({"y": "a"}) == small
    assert measured_values(fold) == []  # what was replaced is not kept for its size


GROWING: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "token_ids": lambda items: choice(content="a") | {"token_ids": items},
    "reasoning_items": lambda items: choice(reasoning_items=items),
    "reasoning_items beside a ruled field": lambda items: choice(reasoning_items=items, reasoning_text="a"),
    "logprobs.reasoning_content": lambda items: choice(content="a") | {"logprobs": {"reasoning_content": items}},
    "messages of a tool": lambda items: choice(role="tool", content=items),
}


@each_case("name", GROWING)
def test_lists_that_add_up_are_measured_as_they_grow(name: str) -> None:
    parser = ChatCompletionParser(max_output_size=10_000)
    for _ in range(3000):
        parser.feed(chunk(GROWING[name]([{"a": "y" * 1000}])))
    assert isinstance(parser.error, LimitExceededError)
    assert parser.error.limit == "max_output_size"


def test_lists_that_grow_are_forgotten_when_they_are_replaced() -> None:
    fold = StreamFold()
    for value in ([7] * 2000, "x", [8] * 2000, "x"):
        fold.add(ChatCompletionChunk.model_validate(in_choice(token_ids=value)))
        fold.measure()
        assert len(fold._footprint._measured) == isinstance(value, list)


def test_small_values_are_not_kept_for_their_sizes() -> None:
    """An entry takes more than they do."""
    fold = StreamFold()
    fold.add(ChatCompletionChunk.model_validate(in_delta(**{f"x{number}": [] for number in range(100)})))
    fold.measure()
    assert measured_values(fold) == []


def test_provider_fields_of_a_call_are_merged_in_linear_time() -> None:
    """Was once wrong: all that were known were copied for each fragment."""

    def merged(size: int) -> Callable[[], object]:
        fragments = [{"index": 0, "provider_specific_fields": {f"x{number}": 1}} for number in range(size)]
        one = ChatCompletionChunk.model_validate(in_delta(tool_calls=fragments))
        return lambda: StreamFold().add(one)

    assert_linear(merged, 1000)


def pickled(parser: ChatCompletionParser) -> Any:
    return pickle.loads(pickle.dumps(parser))  # noqa: S301 - its own


@each_case("holder", [list, lambda items: {"items": items}], ids=["list", "object"])
def test_an_unknown_field_is_measured_once_until_it_is_replaced(holder: Callable[[list[Any]], Any]) -> None:
    """Was once wrong: all that was kept was measured again and again while more came."""
    fold, visited = StreamFold(), []
    sizes = [(0, 1000), (1, 1000), (1, 10), (2, 1)]
    unknown = [{f"x{name}": holder([{"a": size}] * size)} for name, size in sizes]
    for fields in unknown:
        [one] = ChatCompletionParser().feed(chunk(choice(content="a", **fields), **fields))
        fold.add(one)
        before = fold._footprint.visited
        size = fold.measure()
        visited.append(fold._footprint.visited - before)
    assert visited[0] > visited[1] - 50 > 4000
    assert max(visited[2:]) < 200
    assert deepcopy(fold).measure() == size


def test_an_unknown_list_that_the_consumer_of_its_chunk_empties_can_be_measured_again() -> None:
    parser = ChatCompletionParser()
    [one] = parser.feed(chunk(choice(content="a", x=[{"a": 1}] * 1000)))
    size = parser._fold.measure()
    (one.choices[0].delta.model_extra or {})["x"].clear()
    assert parser._fold.measure() <= size


@pytest.mark.parametrize("again", [deepcopy, pickled])
def test_what_a_copy_keeps_is_measured_anew(again: Callable[[Any], Any]) -> None:
    """Was once wrong: sizes were known by the identity of what was copied, and `feed` raised a `ValueError`."""
    parser = alone = ChatCompletionParser(max_output_size=10_000)
    for number in range(1000):
        if number % 50 == 0:
            parser = again(parser)
        data = chunk({**choice(content=f" {number}"), "token_ids": [7] * 8})
        assert parser.feed(data) == alone.feed(data)
        assert parser._fold.measure() == alone._fold.measure()


# How many values an event may have

ITEMS = {
    b"": 0,
    b"{}": 1,
    b"[1,2,3]": 3,
    b"[{},{}]": 4,
    b'{"a":1,"b":[{"c":",[{"}]}': 4,
    b'["\\",[{", "\\\\", {}]': 4,
    b'["cut,[': 1,
    b'["cut\\': 1,
    b",,,": 3,
    b"no JSON": 0,
}


@each_case("data", ITEMS)
def test_items_are_commas_and_opening_brackets_outside_of_strings(data: bytes) -> None:
    padded = data + b" " * 20  # what has no more bytes than items are allowed is not looked at
    assert has_more_items(padded, ITEMS[data] - 1)
    assert not has_more_items(padded, ITEMS[data])
    assert not has_more_items(data, len(data))


HOSTILE_TEXTS = [b'"",', b'"' + b"x" * 50, b'"\\"' * 20, b'"', b"1", b"}", b'"a":"\\\\",', b"\\"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE_TEXTS)
def test_items_are_counted_in_linear_time(piece: bytes) -> None:
    assert_linear(lambda size: partial(has_more_items, piece * (size // len(piece)), size), 300_000)


def ones(count: int) -> list[int]:
    return [1] * count


MANY_ITEMS = 2_000_000
TOO_MANY: dict[str, Callable[[int], bytes]] = {
    "calls": lambda n: delta(tool_calls=ones(n)),
    "annotations": lambda n: delta(annotations=ones(n)),
    "images": lambda n: delta(images=ones(n)),
    "parts": lambda n: delta(content=ones(n)),
    "log probabilities": lambda n: chunk({**choice(), "logprobs": {"content": ones(n)}}),
    "choices": lambda n: chunk(*ones(n)),
    "empty choices": lambda n: chunk(*[{}] * n),
    "unknown values": lambda n: chunk(x=ones(n)),
    "equal keys": lambda n: b"data: {" + b'"a":1,' * n + b'"choices":[]}\n\n',
    "brackets": lambda n: b"data: " + b"[" * n + b"\n\n",
    "an error": lambda n: b'data: {"error":' + b"[1," * n + b"}\n\n",
    "an event named error": lambda n: b"event: error\ndata: [" + b"1," * n + b"1]\n\n",
    "an event of another name": lambda n: b"event: ping\ndata: [" + b"1," * n + b"1]\n\n",
    "a field named error": lambda n: b"error: [" + b"1," * n + b"1]\n\n",
    "lines of one event": lambda n: (b'data: {"a":[1' + b",1" * 100 + b"]}\n") * (n // 200) + b"\n",
    "no JSON": lambda n: b"data: " + b"{,[" * n + b"\n\n",
    "a last event that nothing ends": lambda n: b"data: [" + b"1," * n,
    "a last error that nothing ends": lambda n: b"error: [" + b"1," * n + b"1]",
}


@each_case("name", TOO_MANY)
def test_an_event_with_more_values_than_are_allowed_is_not_read(name: str) -> None:
    parser, _ = parsed(HI + TOO_MANY[name](2_000), max_event_items=1_000)
    assert_named(parser, "max_event_items", 1_000)
    assert parser.snapshot.text == "Hi"


@pytest.mark.slow
@pytest.mark.parametrize("name", TOO_MANY)
def test_an_event_with_very_many_values_costs_little_more_than_its_bytes(name: str) -> None:
    """Each of them would take hundreds of bytes, and some a kilobyte of errors."""
    body = HI + TOO_MANY[name](MANY_ITEMS)
    for read in (READ, len(body)):
        with traced() as memory:
            parser, _ = parsed(body, read)
        assert_named(parser, "max_event_items", 250_000)
        assert parser.snapshot.text == "Hi"
        assert memory.peak < 8 * len(body)
    folded = ChatCompletionParser()
    folded.fold(body)
    folded.close()
    assert (folded.end, repr(folded.error)) == (parser.end, repr(parser.error))


@pytest.mark.parametrize("start", [b"{", b"["])
def test_a_whole_body_with_too_many_values_is_not_read(start: bytes) -> None:
    parser, _ = parsed(start + b'"choices":[' + b"1," * MANY_ITEMS + b"1]}")
    assert_named(parser, "max_event_items", 250_000)


def test_text_that_looks_like_values_is_none() -> None:
    text = ',[{"' * 500_000
    parser, _ = parsed(delta(content=text) + STOP + DONE)
    assert parser.completion().text == text


@pytest.mark.slow
def test_a_whole_completion_with_log_probabilities_is_read() -> None:
    """4,000 tokens with five top log probabilities each, of four bytes."""
    token = {"token": "word", "logprob": -0.25, "bytes": list(b"word")}
    entry = {**token, "top_logprobs": [token] * 5}
    body = {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "word" * 4000},
                "logprobs": {"content": [entry] * 4000},
                "finish_reason": "stop",
            }
        ],
    }
    parser, _ = parsed(json.dumps(body).encode())
    logprobs = parser.completion().choices[0].logprobs
    assert len(logprobs.content or ()) == 4000


def test_without_a_limit_there_may_be_any_number_of_values() -> None:
    body = chunk(x=ones(300_000)) + HI
    assert_named(parsed(body)[0], "max_event_items", 250_000)
    assert parsed(body, max_event_items=None)[0].snapshot.text == "Hi"
    assert parsed(body, max_event_items=300_020)[0].snapshot.text == "Hi"
    assert_named(parsed(HI, max_event_items=5)[0], "max_event_items", 5)


PARTS = 10_000
MANY_PARTS: dict[str, Callable[[int], bytes]] = {
    "choices": lambda n: chunk(*({"index": index} for index in range(n))),
    "empty choices": lambda n: chunk(*[{}] * n),
    "wrong choices": lambda n: chunk(*ones(n)),
    "calls": lambda n: delta(tool_calls=[{"index": index} for index in range(n - 1)]),
    "calls with an id of a wrong type": lambda n: delta(tool_calls=[{"id": 1.5}] * (n - 1)),
    "annotations": lambda n: delta(annotations=[{}] * (n - 1)),
    "images": lambda n: delta(images=[{}] * (n - 1)),
    "parts": lambda n: delta(content=[{"type": "text", "text": "x"}] * (n - 1)),
    "reasoning details": lambda n: delta(reasoning_details=[{"index": index} for index in range(n - 1)]),
    "thinking blocks": lambda n: delta(thinking_blocks=[{"index": index} for index in range(n - 1)]),
    "content blocks": lambda n: delta(content_blocks=[{"index": index} for index in range(n - 1)]),
    "TensorZero's blocks": lambda n: delta(tensorzero_extra_content=[{}] * (n - 1)),
    "parts of a part": lambda n: delta(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}] * (n - 2)}]
    ),
    "log probabilities": lambda n: chunk({**choice(), "logprobs": {"content": [{}] * (6 * n - 6)}}),
    "other likely tokens": lambda n: chunk(
        {**choice(), "logprobs": {"refusal": [{"top_logprobs": [{}, {}]}] * (2 * n - 2)}}
    ),
    "a message's calls": lambda n: chunk({"index": 0, "message": {"tool_calls": [{}] * (n - 1)}}),
    "a whole completion's calls": lambda n: json.dumps(
        {"object": "chat.completion", "choices": [{"message": {"tool_calls": [{}] * (n - 1)}}]}
    ).encode(),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "choices" else pytest.mark.slow) for name in MANY_PARTS]
)
def test_an_event_has_no_more_choices_and_entries_than_that(name: str) -> None:
    """A model writes no ten thousand calls, and each takes some kilobytes until it stands in a snapshot."""
    parser, _ = parsed(MANY_PARTS[name](PARTS))
    assert getattr(parser.error, "limit", None) is None
    parser, _ = parsed(MANY_PARTS[name](PARTS + 1))
    assert_named(parser, "max_event_parts", PARTS)


@pytest.mark.parametrize("most", [3, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_block_has_no_more_payloads_than_that(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is delivered, as with every error."""
    assert raw_data.MAX_EVENT_PAYLOADS == 10_000
    monkeypatch.setattr(raw_data, "MAX_EVENT_PAYLOADS", most)
    line = b"data: {}\n"
    parser, chunks = parsed(line * most + b"\n")
    assert (parser.error and type(parser.error), len(chunks)) == (IncompleteStreamError, most)
    assert parser.anomalies[0].detail == f"{most} payloads"
    parser, chunks = parsed(line * (most + 1) + b"\n")
    assert_named(parser, "max_event_payloads", most)
    assert len(chunks) == most
    assert parser.anomalies[0].detail == f"more than {most} payloads"


@each_case("begin", [b"", b'"x":"\\ud800",'])  # half a surrogate pair: read by the slow path alone
def test_the_payloads_of_a_block_together_have_half_as_many_more(begin: bytes) -> None:
    """Each needs few, so a block of many payloads is read; but a state for each of the parts costs too much."""
    calls = b",".join([b"{}"] * 999)
    lines = [b'data: {%b"choices":[{"delta":{"tool_calls":[%b]}}]}\n' % (begin, calls)] * 15
    more = b'data: {%b"choices":[{}]}\n' % begin
    parser, _ = parsed(b"".join(lines) + b"\n")
    assert getattr(parser.error, "limit", None) is None
    parser, chunks = parsed(b"".join([*lines, more]) + b"\n")
    assert_named(parser, "max_event_parts", 3 * PARTS // 2)
    assert len(chunks) == 15


@pytest.mark.parametrize("field", [b"data: ", b"data:"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit_on_what_is_kept_does_not_depend_on_how_alike_events_are_cut(field: bytes, end: bytes) -> None:
    """Was once wrong: an event that was one read, and had no space after its colon, counted a byte less."""
    choices = [{"index": 0, "delta": {"content": f" {n}"}, "token_ids": [7] * 20} for n in range(1400)]
    events = [event({"choices": [one]}).replace(b"data: ", field).replace(b"\n", end) for one in choices]
    body = b"".join(events)
    chunks: set[int] = set()
    for reads in (events, [body], cut(body, *range(71, len(body), 71))):
        parser = ChatCompletionParser(max_output_size=10_000)
        chunks.add(sum(len(parser.feed(data)) for data in reads))
        assert_named(parser, "max_output_size", 10_000)
    assert len(chunks) == 1


MIB = 2**20
SHORT: dict[str, Callable[[int], bytes]] = {
    "data of one character": lambda size: b"data:1\n" * (size // 7) + b"\n",
    "data with CRLF": lambda size: b"data:1\r\n" * (size // 8) + b"\r\n",
    "data without a value": lambda size: b"data\n" * (size // 5) + b"\n",
    "comments": lambda size: b":\n" * (size // 2),
    "comments behind data": lambda size: b"data: {}\n" + b":\n" * (size // 2) + b"\n",
    "lines of no field": lambda size: b"x\n" * (size // 2),
    "blank lines": lambda size: b"\n" * size,
    "ids": lambda size: b"data: {}\n" + b"id\n" * (size // 3) + b"\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_short_line_costs_little_more_than_its_bytes(name: str) -> None:
    """There are 16 million of them in 32 MiB."""
    body = SHORT[name](4 * MIB)
    tries = [seconds_of(body) for _ in range(3)]
    assert min(tries) < 0.5, tries  # a tenth of that if nothing else runs; line by line it is a second


FULL = 32 * MIB - 200  # bytes
COSTLY: dict[str, Callable[[], bytes]] = {
    "empty choices": lambda: chunk(*[{}] * 124_000),
    "choices with a field": lambda: chunk(*[{"x": 1}] * 62_000),
    "lines": lambda: b"data: {}\n" * 240_000 + b"\n",
    "lines of keep-alives": lambda: b"data: {}\n" + b"data: null\n" * 2_000_000 + b"\n",
    "blank lines of data": lambda: b"data: {}\n" + b"data:  \n" * 2_000_000 + b"\n",
    "half a character, again and again": lambda: delta(content="?").replace(b"?", b"\\ud83d" * (FULL // 6)),
    "half a character before a long text": lambda: delta(content="?").replace(b"?", b"\\ud83d" + b"a" * FULL),
    "half a character in each key": lambda: delta(**{f"?{n}": n for n in range(120_000)}).replace(b"?", b"\\ud83d"),
    "half a character in an error": lambda: b'data: {"error": {"message": "%b"}}\n\n' % (b"\\ude00" * (FULL // 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_an_event_takes_a_few_seconds_at_most(name: str) -> None:
    """Two, where nothing else runs."""
    body = COSTLY[name]()
    tries: list[float] = []
    while len(tries) < 5 and not (tries and tries[-1] < 5):
        tries.append(seconds_of(body))
    assert tries[-1] < 5, tries


WIDE = "\N{GRINNING FACE}".encode()  # each takes four bytes, on the wire and in a text
WIDE_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "beside half a pair": lambda wide: delta(content="?").replace(b"?", b"\\ud83d" + wide),
    "beside half a pair in another field": lambda wide: delta(x="?").replace(b"?", b"\\ud83d" + wide),
    "beside half a pair in an error": lambda wide: b'data: {"error": {"message": "\\ude00%b"}}\n\n' % wide,
    "of a tool": lambda wide: delta(role="tool", content="?").replace(b"?", wide),
}


@pytest.mark.parametrize("size", [2 * MIB, pytest.param(FULL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WIDE_TEXTS)
def test_a_large_text_takes_six_times_its_bytes_at_most(name: str, size: int) -> None:
    body = WIDE_TEXTS[name](WIDE * ((size - 200) // len(WIDE)))
    with traced() as memory:
        parser, _ = parsed(body)
        assert isinstance(parser.error, ChunkfoldError)
        parser.error.snapshot.model_dump()
    assert memory.peak < 6.2 * size


TO_REPAIR = {
    "half a pair": b"\\ud83d ",
    "a control character": b"\x01",
    "bytes that are not UTF-8": b"\xff",
}


@pytest.mark.slow
@pytest.mark.parametrize("wide", [WIDE, b"\\ud83d\\ude00"], ids=["as it is", "escaped"])
@pytest.mark.parametrize("field", ["content", "x"])
@pytest.mark.parametrize("name", TO_REPAIR)
def test_a_large_event_to_repair_takes_at_most_200_mb(name: str, field: str, wide: bytes) -> None:
    """Python keeps four bytes for each character of a text that has one beyond the Basic Multilingual Plane."""
    for size, is_read in ((16 * MIB, True), (FULL, False)):
        body = delta(**{field: "?", "y": "~"}).replace(b"?", TO_REPAIR[name] + b"a" * (size - 2 * MIB))
        body = body.replace(b"~", wide + b"a" * (2 * MIB - 400))
        with traced() as memory:
            parser, _ = parsed(body)
        assert (parser.end != "invalid") == is_read
        assert memory.peak < 200 * 10**6 + COST * READ


@pytest.mark.slow
@pytest.mark.parametrize("field", ["content", "reasoning_content", "x"])
def test_an_event_with_a_large_wide_text_takes_at_most_200_mb(field: str) -> None:
    for size in (8 * MIB, FULL - 400):
        text = WIDE + b"a" * (size - len(WIDE))
        body = delta(**{field: "?", "y": "~"}).replace(b"?", text).replace(b"~", b"a" * (FULL - 400 - size))
        parser = ChatCompletionParser()
        parser.feed(delta(**{field: "Hi"}))
        with traced() as memory:
            for data in in_reads(body):
                parser.feed(data)
        if size == 8 * MIB:
            assert parser.error is None
        else:
            assert_named(parser, "max_wide_text", 8 * MIB)
        assert memory.peak < 200 * 10**6 + COST * READ


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"", b"{", b'{"error": "'], ids=["text", "object", "string"])
def test_an_error_that_is_a_large_wide_text_takes_at_most_200_mb(start: bytes) -> None:
    for size in (8 * MIB, FULL - 400):
        parser = ChatCompletionParser()
        parser.feed(HI)
        text = start + WIDE + b'a "b" ' * (size // 6)
        with traced() as memory:
            for data in in_reads(b"event: error\ndata: %b\n\n" % text[:size]):
                parser.feed(data)
        if size == 8 * MIB:
            assert isinstance(parser.error, APIError)
            assert len(parser.error.raw) == len(text[:size].decode())
        else:
            assert_named(parser, "max_wide_text", 8 * MIB)
        assert memory.peak < 200 * 10**6 + COST * READ


@each_case("wide", [WIDE, b"\\ud83d\\ude00"])
def test_only_the_strings_with_wide_characters_count_as_wide_text(wide: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_folder, "MAX_WIDE_TEXT", 100)
    event = delta(**{"content": "?", 'a "key"': "~", "b": "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 20_000})
    event = event.replace(b"?", wide + b"a" * (50 - len(wide))).replace(b"~", b'\\"' + wide + b"b" * (48 - len(wide)))
    fits, _ = parsed(HI + event)
    assert (fits.end, len(fits.snapshot.text)) == ("truncated", len("Hi") + 1 + 50 - len(wide))
    exceeds, _ = parsed(HI + event.replace(b'a"', b'aa"'))
    assert_named(exceeds, "max_wide_text", 100)
    assert exceeds.snapshot.text == "Hi"


def test_an_error_that_is_text_is_limited_by_its_size_only_if_it_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_WIDE_TEXT", 100)
    for text in (b"a" * 101, WIDE + b"a" * (100 - len(WIDE))):
        fits, _ = parsed(HI + b"event: error\ndata: %b\n\n" % text)
        assert (fits.end, str(fits.error)) == ("failed", text.decode())
    exceeds, _ = parsed(HI + b"event: error\ndata: %b\n\n" % (WIDE + b"a" * (101 - len(WIDE))))
    assert_named(exceeds, "max_wide_text", 100)
    assert exceeds.snapshot.text == "Hi"


@pytest.mark.slow
@pytest.mark.parametrize("size", [8 * MIB - 200, FULL - 200])
def test_a_long_id_and_a_long_name_take_at_most_200_mb(size: int) -> None:
    text = WIDE + b"a" * size
    body = b"id: %b\nevent: %b\ndata: {}\n\n" % (text, text)
    with traced() as memory:
        parser, _ = parsed(body)
    assert getattr(parser.error, "value", None) == (8 * MIB if size > 8 * MIB else None)
    assert memory.peak < 200 * 10**6 + COST * READ


@each_case("wide", [WIDE, b"\\ud83d\\ude00", b"\\uD83D\\uDE00"])
def test_an_event_to_repair_that_has_wide_characters_is_read_up_to_a_size(
    wide: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = delta(content="?").replace(b"?", b"\xff" + wide)
    monkeypatch.setattr(reading, "_LARGEST_WIDE", len(event) - len(b"data: \n\n"))
    parser, _ = parsed(event)
    assert (parser.snapshot.text, parser.end) == ("\ufffd\N{GRINNING FACE}", "truncated")
    parser, _ = parsed(HI + event.replace(wide, b"a" + wide))
    assert (parser.snapshot.text, parser.end) == ("Hi", "invalid")
    assert "expected at most 16 MiB of JSON to repair" in str(parser.error)
    parser, _ = parsed(event.replace(wide, b"a" * 100 + b"\\ud83d \\ude00"))
    assert parser.end == "truncated"


def test_a_large_line_that_is_nearly_data_takes_one_copy_more_than_a_comment() -> None:
    peaks: list[int] = []
    for line in (b": %b", b' data: {"a": "%b"}'):
        with traced() as memory:
            parsed(HI + line % (b"a" * MIB) + b"\n\n")
        peaks.append(memory.peak)
    assert peaks[1] < peaks[0] + 1.1 * MIB


@pytest.mark.parametrize("most", [30, pytest.param(25_000, marks=pytest.mark.slow)])
def test_fields_of_a_wrong_type_are_counted_before_they_are_listed(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert base._MOST_WRONG == 25_000
    monkeypatch.setattr(base, "_MOST_WRONG", most)

    def body(count: int) -> bytes:
        return chunk({**choice(), "logprobs": {"content": [{"token": 1}] * count}})

    parser, _ = parsed(body(most) + HI)
    assert parser.snapshot.text == "Hi"
    assert [(anomaly.rule.id, anomaly.count) for anomaly in parser.anomalies] == [("CF209", most)]
    parser, _ = parsed(body(most + 1) + HI)
    assert (parser.end, parser.snapshot.text) == ("invalid", "")
    assert f"{most} fields of a wrong type" in str(parser.error)


def test_short_lines_of_one_event_take_little_more_than_their_bytes() -> None:
    """One at a time, as a list of them would take twenty times as much."""
    parser = ChatCompletionParser()
    line = b"data:ab\n"
    with traced() as memory:
        for _ in range(100):
            parser.feed(line * 1000)
    assert memory.peak < 4 * 3 * 100_000
    parser.feed(b"\n")
    parser.close()
    assert isinstance(parser.error, InvalidChunkError)


@pytest.mark.slow
def test_lines_of_one_event_are_read_up_to_the_one_that_ends_the_stream() -> None:
    body = b'data: {"choices":[]}\n' + b"data: x\n" * 200_000 + b"\n"
    parser = ChatCompletionParser()
    with traced() as memory:
        for data in in_reads(body, 2**14):
            parser.feed(data)
    assert isinstance(parser.error, InvalidChunkError)
    assert memory.peak < 4 * len(body)


def test_an_error_in_the_event_that_passes_the_limit_is_told() -> None:
    error = {"message": "overloaded", "code": 503}
    parser, chunks = parsed(HI + chunk(choice(content="x" * 100), error=error) + HI, max_output_size=10)
    assert (parser.end, len(chunks)) == ("failed", 2)
    assert "overloaded" in str(parser.error)


# Without an option


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
    assert_named(parsed(body, max_output_size=1000)[0], "max_output_size", 1000)
    assert parsed(body, max_output_size=None)[0].end == "empty"


BY_DEFAULT = 64 * 2**20  # characters


@pytest.mark.slow
def test_without_being_told_what_is_kept_may_take_257_mib() -> None:
    parser = ChatCompletionParser()
    for n in range(300):
        parser.feed(chunk(**{f"key{n}": "x" * 10**6}))
    assert_named(parser, "max_output_size", BY_DEFAULT)
    assert 264 < parser.chunks < 275


def test_what_is_replaced_is_not_added_up() -> None:
    parser = ChatCompletionParser(max_output_size=1000)
    body = chunk(choice(content=""), usage={f"k{n}": n for n in range(20)}, provider="x" * 1000) * 10
    for _ in range(100):
        parser.feed(body)
    assert parser.end is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["choices", "calls", "log probabilities", "unknown objects", "wide text", "text"])
def test_by_default_a_stream_ends_within_a_gigabyte(name: str) -> None:
    """All but one within a quarter of it, by a quarter of the limit, since some take a minute."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "helpers")}
    code = f"from test_limits import end_by_default; end_by_default({name!r})"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=env, check=True, timeout=600)


def end_by_default(name: str) -> None:
    """Read an attack in a process of its own; fail if that takes a gigabyte, or its share of one."""
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
    pieces = map(ATTACKS[name][1], itertools.count())
    share = 1 if name == "text" else 4
    stream = ChatCompletionStream(pieces, **({} if share == 1 else {"max_output_size": BY_DEFAULT // share}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(LimitExceededError):
        for _ in stream.events():
            pass
    assert_named(stream, "max_output_size", BY_DEFAULT // share)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 2**30 // share


# Numbers that mean nothing

HUGE = 10**4000
NUMBERS: dict[str, list[bytes]] = {
    "counts": [chunk(usage={"prompt_tokens": HUGE, "completion_tokens": HUGE, "total_tokens": 1})] * 2,
    "details": [chunk(usage={"prompt_tokens_details": {"cached_tokens": HUGE}, "x": HUGE})],
    "counts in a choice": [chunk({**choice(), "usage": {"prompt_tokens": HUGE}})],
    "a choice": [
        chunk({"index": HUGE, "delta": {"content": "x"}, "finish_reason": "stop"}),
        chunk({"index": HUGE, "message": {}, "finish_reason": "length"}),
        chunk({"index": HUGE, "delta": {"content": "x"}}),
    ],
    "a creation": [chunk(created=HUGE)],
    "a call": [
        call(index=HUGE, id="a", x=HUGE, function={"name": "f", "arguments": "{}", "x": HUGE}),
        call(index=HUGE, id="b", function={"name": "g", "arguments": "{}"}),
    ],
    "a call's id": [call(index=0, id=HUGE, function={"name": "f", "arguments": "{}"})],
    "arguments that are an object": [call(index=0, function={"name": "f", "arguments": {"x": HUGE}})],
    "unknown fields": [chunk({**choice(content="x"), "x": HUGE}, x=HUGE)],
    "reasoning details": [delta(reasoning_details=[{"type": HUGE, "index": HUGE, "id": HUGE, "data": HUGE}])],
    "an image": [delta(images=[HUGE, {"x": [HUGE]}])],
    "log probabilities": [chunk({**choice(), "logprobs": {"x": HUGE, "content": [{"bytes": [HUGE]}]}})],
    "a wrong type": [delta(role=HUGE)],
    "an error's code": [event({"error": {"message": "m", "code": HUGE, "type": "x"}})],
    "an error without an envelope": [event({"message": "m", "code": HUGE})],
    "an object of no name": [event({"message": "m", "object": HUGE})],
}


def test_learning_from_a_string_without_an_end_is_linear() -> None:
    assert_linear(lambda size: partial(VALUE.split, b':"' + b'\\"' * size), 2_000)


@each_case("digits", [4300, 640])
@each_case("name", NUMBERS)
def test_numbers_of_very_many_digits_raise_nothing_but_our_errors(name: str, digits: int) -> None:
    """The interpreter refuses to print them, and may be told to refuse more."""
    body = b"".join(NUMBERS[name])
    sys.set_int_max_str_digits(digits)
    try:
        for strict in (False, True):
            parser = ChatCompletionParser(strict=strict)
            parser.events()
            shown = repr([parser.feed(body), parser.events(), parser.snapshot, parser.close(), parser.events()])
            shown += repr([parser.snapshot, parser.anomalies, parser.error, parser.error and parser.error.retryable])
            assert len(shown) < 50_000
            usage = parser.snapshot.usage
            assert parser.timing.tokens_per_second(usage and usage.prompt_tokens) is None
    finally:
        sys.set_int_max_str_digits(4300)


def test_a_count_of_more_than_64_bits_is_kept_raw() -> None:
    counts = {"prompt_tokens": 2**63 - 1, "completion_tokens": 2**63, "total_tokens": 1e30}
    parser, _ = parsed(chunk(choice(content="Hi"), usage=counts) + STOP + DONE)
    assert [anomaly.rule.id for anomaly in parser.anomalies] == ["CF403", "CF209"]
    assert "usage.completion_tokens: expected an integer of 64 bits" in parser.anomalies[0].detail
    usage = parser.snapshot.model_dump()["usage"]
    assert usage["completion_tokens"] is usage["total_tokens"] is None
    assert usage["raw_values"] == {"completion_tokens": 2**63, "total_tokens": 1e30}


def test_a_count_that_means_nothing_never_displaces_one() -> None:
    parser, _ = parsed(chunk(usage={"prompt_tokens": 5}) + chunk(usage={"prompt_tokens": HUGE}))
    assert parser.snapshot.usage.prompt_tokens == 5


# Usage


def test_keys_of_usage_are_bounded() -> None:
    parser = ChatCompletionParser(max_output_size=2)
    parser.feed(HI)
    for n in range(30):
        details = {f"d{n}": n, "deep": {**fresh(n, n)}}
        parser.feed(chunk(usage={**fresh(n, n), "details": details, "x": {"y": fresh(n, n)}}))
    parser.feed(chunk(usage={"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3, **fresh(0, 1)}}))
    usage = parser.snapshot.usage
    assert (usage.prompt_tokens, usage.cached_tokens, parser.end) == (7, 3, None)
    assert len(usage.model_dump_json()) < 10_000
    assert "CF404" in {anomaly.rule.id for anomaly in parser.anomalies}


def test_keys_of_one_usage_are_bounded() -> None:
    parser, _ = parsed(chunk(usage={"prompt_tokens": 5, **{f"k{n}": n for n in range(300)}}))
    usage = parser.snapshot.usage
    assert usage.model_extra == {f"k{n}": n for n in range(100)}


def test_lists_and_long_objects_in_usage() -> None:
    """They are the snapshot's own; of an object's keys the first hundred are kept, at every level."""
    parser = ChatCompletionParser()
    long = {f"k{n}": n for n in range(101)}
    [sent] = [one.usage for one in parser.feed(chunk(usage={"steps": [[1]], "x": {"y": long}}))]
    sent.model_extra["steps"][0].append(2)
    sent.model_extra["x"]["y"].clear()
    usage = parser.snapshot.model_dump()["usage"]
    assert (usage["steps"], len(usage["x"]["y"])) == ([[1]], 100)
    assert [(one.rule.id, one.detail) for one in parser.anomalies if one.rule.id == "CF404"] == [("CF404", "101 keys")]


def usage_of(place: int) -> bytes:
    return chunk(usage={"prompt_tokens": place, "details": {"x": place}, f"key{place}": 1})


def test_an_event_keeps_the_usage_of_its_time() -> None:
    parser = ChatCompletionParser()
    parser.events()
    for place in range(1, 200):
        parser.feed(usage_of(place))
    events = [event for event in parser.events() if isinstance(event, UsageReceived)]
    assert [event.usage.prompt_tokens for event in events] == list(range(1, 200))
    assert [(event.usage.model_extra or {})["details"]["x"] for event in events] == list(range(1, 200))
    first = events[0]
    assert first.usage is first.usage
    assert first == UsageReceived(first.usage) == deepcopy(first)
    assert "prompt_tokens=1" in repr(first)
    first.usage.prompt_tokens = 1000
    assert parser.snapshot.usage.prompt_tokens == 199
    with pytest.raises(AttributeError):
        _ = first.nothing  # type: ignore[attr-defined]


# The body of a refusal

REFUSED = b'{"error":{"message":"overloaded"},"padding":"%b"}'
ALLOWED = 2**16


def refused(size: int) -> bytes:
    """A JSON error of so many bytes."""
    return REFUSED % (b"x" * (size - len(REFUSED) + 2))


@each_case("read", [1000, ALLOWED - 1, ALLOWED, 10**7])
@each_case("size", [100, ALLOWED - 1, ALLOWED])
def test_a_refusal_of_up_to_64_kib_is_read_whole(size: int, read: int) -> None:
    parser, _ = parsed(refused(size), read, status_code=503)
    assert type(parser.error) is APIStatusError
    assert parser.error.message == "overloaded"
    assert parser.error.__cause__ is None


@each_case("read", [1000, ALLOWED - 1, ALLOWED, ALLOWED + 1, 10**7])
@each_case("size", [ALLOWED + 1, 10 * ALLOWED])
def test_a_larger_refusal_says_that_it_was_cut(size: int, read: int) -> None:
    parser, _ = parsed(refused(size), read, status_code=503)
    error = parser.error
    assert (type(error), parser.end) == (APIStatusError, "failed")
    assert error.status_code == 503
    assert error.raw == refused(size)[:ALLOWED].decode()
    assert len(str(error)) < 1000
    cause = error.__cause__
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


# A compressed body, that explodes

EXPLODED = 10 * LIMIT  # bytes


@cache
def compressed(piece: bytes, start: bytes = b"", size: int = EXPLODED) -> bytes:
    return gzip.compress(start + piece * (size // len(piece)))


# What comes over and over again, behind what, and the limit that ends it.
BOMBS = {
    "a line": (b"x", b"data: ", "max_event_size"),
    "text": (delta(content="word " * 1000), b"", "max_output_size"),
}


async def answered(answer: Answer, library: Any, front: Any, **options: Any) -> tuple[Any, int]:
    """The stream of an answer, behind which its only connection is as good as new, and what memory reading it takes."""
    with FakeProvider(answer) as provider:
        async with client_of(front, library, limits=library.Limits(max_connections=1)) as client:
            with traced() as memory:
                stream = await read_by(client, provider.url, **options)
            assert (await read_by(client, provider.url)).end == "finished"
    assert provider.requests[0].headers["accept-encoding"] == "identity"
    return stream, memory.peak


def encoded(body: bytes, encoding: str = "gzip", status: int = 200) -> Answer:
    return Answer(body, status, headers={"content-encoding": encoding})


@by_turns("name", BOMBS)
async def test_a_body_that_explodes(library: Any, front: Any, name: str) -> None:
    """No limit sees it before the client has decoded a read of it: that is what it costs, and a few copies."""
    piece, start, limit = BOMBS[name]
    sent = compressed(piece, start)
    assert len(sent) < 100_000
    stream, memory = await answered(encoded(sent), library, front, max_output_size=LIMIT, max_event_size=LIMIT)
    assert_named(stream, limit, LIMIT)
    assert memory < 3 * EXPLODED + COST * READ


async def test_a_refusal_that_explodes(library: Any, front: Any) -> None:
    stream, memory = await answered(encoded(compressed(b"x"), status=503), library, front)
    assert type(stream.error) is APIStatusError
    assert type(stream.error.__cause__) is LimitExceededError
    assert len(stream.error.raw) <= ALLOWED
    assert memory < 3 * EXPLODED + COST * READ


TWICE = (1, "expected at most 1 content encoding of the body, received more (max_content_encodings)")
UNASKED = (0, "expected at most 0 content encodings that were not requested, received more (max_content_encodings)")
ENCODINGS = {
    "gzip, gzip": TWICE,
    "deflate, gzip": TWICE,
    "gzip , identity,gzip": TWICE,
    "br": UNASKED,
    "zstd": UNASKED,
}


@by_turns("encoding", ENCODINGS)
async def test_a_body_that_is_encoded_twice_or_unasked_is_not_read(library: Any, front: Any, encoding: str) -> None:
    """A few hundred bytes of two layers become gigabytes, before any limit sees one of them."""
    sent = gzip.compress(compressed(b"x", b"data: "))
    for status, kind in ((200, LimitExceededError), (503, APIStatusError)):
        stream, memory = await answered(encoded(sent, encoding, status), library, front)
        assert type(stream.error) is kind
        limited = stream.error if status == 200 else stream.error.__cause__
        assert limited.limit == "max_content_encodings"
        assert (limited.value, str(limited)) == ENCODINGS[encoding]
        assert memory < EXPLODED


async def test_a_body_that_explodes_without_end(library: Any, front: Any) -> None:
    """Comments pass no limit on what is kept, and cost time all the same."""
    sent = compressed(b":" + b"x" * 2**16 + b"\n\n", size=40 * 2**20)
    stream, _ = await answered(encoded(sent), library, front)
    assert (stream.error.limit, stream.error.value) == ("max_expansion", 100)


@by_turns("encoding", ["none", "utf-8", "null", "x-unheard-of", "gzip, none"])
async def test_an_encoding_that_no_client_decodes_is_none(library: Any, front: Any, encoding: str) -> None:
    """`none` is a common way to keep a proxy from compressing a stream. Was once wrong: its body was refused."""
    for status, sent, end in ((200, HI + STOP + DONE, "finished"), (429, b'{"error":{"message":"slow"}}', "failed")):
        body = gzip.compress(sent) if "gzip" in encoding else sent
        stream, _ = await answered(encoded(body, encoding, status), library, front)
        assert stream.end == end
        assert stream.error is None or "slow" in str(stream.error)


async def test_one_encoding_is_read(library: Any, front: Any) -> None:
    body = gzip.compress((HI * 1000) + STOP + DONE)
    stream, _ = await answered(encoded(body, "identity, GZIP"), library, front)
    assert (stream.end, len(stream.snapshot.text)) == ("finished", 2000)


class Encoded:
    """A response of a client of another make."""

    status_code = 200

    def __init__(self, encoding: str, asked: str | None, body: bytes = HI + STOP + DONE) -> None:
        self.headers = {"Content-Encoding": encoding}
        self.body = body
        if asked is not None:
            self.request = SimpleNamespace(headers={"Accept-Encoding": asked})

    def iter_bytes(self) -> Iterator[bytes]:
        yield self.body

    def close(self) -> None:
        pass


def test_an_encoding_that_was_asked_for_is_read() -> None:
    for encoding, asked in (("br", "gzip, br;q=0.5"), ("zstd", "*"), ("zstd", None), ("gzip", "identity")):
        assert ChatCompletionStream(Encoded(encoding, asked)).read().text == "Hi"
    with pytest.raises(LimitExceededError):
        ChatCompletionStream(Encoded("zstd", "gzip")).read()


def test_behind_the_end_no_error_field_is_read() -> None:
    parser = ChatCompletionParser()
    parser.feed(HI + STOP + DONE + b"error: [" + b"1," * 300_000 + b"1]\n\n")
    assert parser.end == "finished"


LARGE = {
    "LF": HI,
    "CRLF": HI.replace(b"\n", b"\r\n"),
    "CR": HI.replace(b"\n", b"\r"),
    "comments": b":\n",
    "blocks of comments": b":\n\n",
    "blank lines": b"\n",
    "blank lines with CRLF": b"\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_read_costs_a_few_times_its_size(name: str) -> None:
    data = LARGE[name] * (300_000 // len(LARGE[name]))
    with traced() as memory:
        by_iterating([data])
    assert memory.peak < 5 * len(data)


def seconds_of(body: bytes) -> float:
    """Of the processor, as the machine may be busy; and without the collector, whose cost is not of this body."""
    with no_collector():
        return seconds(lambda: parsed(body, READ))


def test_a_whole_completion_is_measured_as_a_stream_is() -> None:
    choices = [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]
    body = {"object": "chat.completion", "junk": "x" * 10 * LIMIT, "choices": choices}
    parser = ChatCompletionParser(max_output_size=LIMIT)
    parser.feed(json.dumps(body).encode())
    parser.close()
    assert isinstance(parser.error, LimitExceededError)


def test_leaving_exceeds_no_limit() -> None:
    parser = ChatCompletionParser(max_output_size=3)
    parser.feed(chunk({"index": 0, "message": {"content": "whole"}}))
    parser.leave()
    assert (parser.end, parser.error) == ("closed", None)


@pytest.mark.slow
def test_long_numbers_count_by_their_length() -> None:
    parser = ChatCompletionParser(max_output_size=1000)
    for n in range(1000):
        parser.feed(delta(**{f"k{n}": 10**4000}))
    assert isinstance(parser.error, LimitExceededError)
