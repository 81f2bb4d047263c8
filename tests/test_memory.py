"""Memory: the unfinished event and the output so far, and nothing that grows with what was read to get there.

Peaks are what Python allocated while the body was read (`tracemalloc`); the body itself is made before.
"""

import gc
import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from chunkfold import RULES, ChatCompletion, ChatCompletionParser, ChatCompletionStream

HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
MEGABYTE = 10**6
READ = 4096  # bytes


def event(payload: Any) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def choice(finish_reason: str | None = None, index: int = 0, **delta: Any) -> bytes:
    """An event with a chunk of one choice; what is passed by name is its delta."""
    return event({**HEAD, "choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]})


def arguments(text: str, **fields: Any) -> bytes:
    return choice(tool_calls=[{"index": 0, **fields, "function": {"arguments": text}}])


FIRST = choice(role="assistant", content="")
CALL = choice(tool_calls=[{"index": 0, "id": "call_a", "function": {"name": "f", "arguments": ""}}])
END = choice("stop") + b"data: [DONE]\n\n"
KINDS: dict[str, Callable[[str], bytes]] = {
    "text": lambda text: choice(content=text),
    "reasoning": lambda text: choice(reasoning_content=text),
    "arguments": arguments,
}


class Measured(NamedTuple):
    """What a call gave, and the bytes that were allocated for it: at most, and in the end."""

    value: Any
    peak: int
    kept: int


def measured(call: Callable[[], Any]) -> Measured:
    gc.collect()
    tracemalloc.start()
    try:
        value = call()
        peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return Measured(value, peak, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def in_reads(body: bytes) -> Iterator[bytes]:
    return (body[start : start + READ] for start in range(0, len(body), READ))


def by_iterating(body: bytes) -> ChatCompletion:
    stream = ChatCompletionStream(in_reads(body))
    for _ in stream:
        pass
    return stream.completion()


def by_read(body: bytes) -> ChatCompletion:
    return ChatCompletionStream(in_reads(body)).read()


def by_fold(body: bytes) -> ChatCompletion:
    parser = ChatCompletionParser()
    for data in in_reads(body):
        parser.fold(data)
    return parser.completion()


def by_one_large_read(body: bytes) -> ChatCompletion:
    return ChatCompletionStream([body]).read()


WAYS = [by_iterating, by_read, by_fold]


# A stream costs what its output costs


def words(count: int) -> Iterator[str]:
    """Pieces as a language model makes them: most have come before."""
    return itertools.islice(itertools.cycle([f" {'word'[number % 4 :]}{number % 7}" for number in range(500)]), count)


def numbers(count: int) -> Iterator[str]:
    """Pieces of which no two are equal."""
    return (f" {number:05}" for number in range(count))


def output_of(completion: ChatCompletion) -> int:
    calls = sum(len(call.arguments) for call in completion.tool_calls)
    return len(completion.text) + len(completion.reasoning) + calls


def assert_little_more_than_its_output(body: bytes, way: Callable[[bytes], ChatCompletion]) -> None:
    run = measured(lambda: way(body))
    output = output_of(run.value)
    print(f"{run.peak / MEGABYTE:.2f} MB for {output / MEGABYTE:.2f} MB of output")
    assert run.peak <= 3 * output + 2 * MEGABYTE, (run.peak, output)


@pytest.mark.parametrize("way", [by_iterating, by_read])
def test_text_costs_little_more_than_its_output(way: Any) -> None:
    body = b"".join([FIRST, *map(KINDS["text"], words(50_000)), END])
    assert_little_more_than_its_output(body, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_costs_little_more_than_its_output(kind: str, way: Any) -> None:
    body = b"".join([FIRST, CALL, *map(KINDS[kind], words(50_000)), END])
    assert_little_more_than_its_output(body, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_also_where_no_two_pieces_are_equal(kind: str, way: Any) -> None:
    """Was once wrong: Python 3.11's StringIO keeps up to 100,000 pieces as they came, each with some 60 bytes around it."""
    body = b"".join([FIRST, CALL, *map(KINDS[kind], numbers(50_000)), END])
    assert_little_more_than_its_output(body, way)


def test_a_large_read_is_not_held_as_chunks() -> None:
    body = b"".join([FIRST, *map(KINDS["text"], words(10_000)), END])
    assert_little_more_than_its_output(body, by_one_large_read)


# Nothing grows with the number of chunks


def kept_of(body: bytes) -> int:
    """What a parser keeps when it has read a body, and its text was asked for."""

    def read() -> ChatCompletionParser:
        parser = ChatCompletionParser()
        for data in in_reads(body):
            parser.fold(data)
        assert output_of(parser.snapshot) > 0
        return parser

    return measured(read).kept


def assert_the_pieces_are_gone(kind: str, tiny: int, larger: int) -> None:
    text = "abcdefghij" * (tiny // 10)
    size = tiny // larger
    bodies = [
        b"".join([FIRST, CALL, *(KINDS[kind](text[place : place + step]) for place in range(0, len(text), step))])
        for step in (1, size)
    ]
    in_tiny, in_larger = map(kept_of, bodies)
    print(f"{in_tiny / 1000:.0f} kB after {tiny} chunks, {in_larger / 1000:.0f} kB after {larger}")
    assert in_tiny <= in_larger + 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_many_tiny_chunks_leave_no_more_behind_than_fewer_larger_ones(kind: str) -> None:
    assert_the_pieces_are_gone(kind, 5_000, 500)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_very_many_tiny_chunks_leave_no_more_behind(kind: str) -> None:
    assert_the_pieces_are_gone(kind, 200_000, 20_000)


# Nothing is kept of what is ignored

LINES = {
    "comments": b": ping\n",
    "comments in blocks": b": ping\n\n",
    "empty lines": b"\n",
    "empty lines with CRLF": b"\r\n",
    "unknown fields": b"foo: bar\n",
    "reconnection times": b"retry: 5\n\n",
    "ids": b"id: 1\n\n",
    "names of events without data": b"event: x\n\n",
    "blank data": b"data: \n\n",
    "null": b"data: null\n\n",
    "events of another name": b"event: ping\ndata: {}\n\n",
    "chunks that say nothing": event({**HEAD, "choices": []}),
}


def assert_nothing_is_kept(lines: bytes, count: int, *, behind: bytes) -> None:
    """Read many lines; what is allocated in between is that for one read."""
    in_one_read = max(1, READ // len(lines))
    data = lines * in_one_read

    def read() -> ChatCompletionParser:
        parser = ChatCompletionParser()
        parser.feed(behind)
        for _ in range(count // in_one_read):
            parser.feed(data)
        return parser

    few = measured(lambda: ChatCompletionParser().feed(behind + data)).peak
    run = measured(read)
    assert run.value.end is None
    assert run.peak <= few + MEGABYTE, (run.peak, few)
    assert run.kept <= 100_000


@pytest.mark.parametrize("name", LINES)
def test_nothing_is_kept_of_what_is_ignored(name: str) -> None:
    assert_nothing_is_kept(LINES[name], 5_000, behind=FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_nothing_is_kept_of_a_million_of_them(name: str) -> None:
    assert_nothing_is_kept(LINES[name], 10**6, behind=FIRST)


@pytest.mark.parametrize("name", ["comments", "comments in blocks", "empty lines", "empty lines with CRLF"])
def test_nor_is_anything_kept_of_them_before_the_first_event(name: str) -> None:
    assert_nothing_is_kept(LINES[name], 20_000, behind=b"")


def test_nothing_is_kept_of_comments_inside_a_block() -> None:
    assert_nothing_is_kept(b": ping\n", 20_000, behind=FIRST + b"data: \n")


# Anomalies are bounded

LOUD = "x" * 1000  # what is quoted of it
ODD: dict[str, Callable[[int], bytes]] = {
    "ids that change": lambda n: event({**HEAD, "id": f"{n}{LOUD}", "choices": []}),
    "names of objects": lambda n: event({**HEAD, "object": f"{n}{LOUD}", "choices": []}),
    "choices without an index": lambda n: event({**HEAD, "choices": [{"delta": {}}] * 10}),
    "roles": lambda n: choice(role=f"{n}{LOUD}"),
    "finish reasons": lambda n: choice(f"{n}{LOUD}"),
    "values of a wrong type": lambda n: event({**HEAD, "usage": [f"{n}{LOUD}"], "choices": []}),
    "names of events": lambda n: b"event: %d%b\ndata: {}\n\n" % (n, LOUD.encode()),
    "late names": lambda n: choice(tool_calls=[{"index": 0, "id": "call_a", "function": {"name": f"{n}{LOUD}"}}]),
}


def assert_anomalies_are_bounded(name: str, count: int) -> None:
    body = FIRST + CALL + arguments("{}") + b"".join(map(ODD[name], range(count)))

    def read() -> ChatCompletionParser:
        parser = ChatCompletionParser()
        for data in in_reads(body):
            parser.feed(data)
        return parser

    run = measured(read)
    assert sum(anomaly.count for anomaly in run.value.anomalies) >= count
    assert len(run.value.anomalies) <= len(RULES)
    assert run.kept <= 150_000, run.kept
    assert run.peak <= 0.5 * MEGABYTE, run.peak


@pytest.mark.parametrize("name", ODD)
def test_anomalies_are_bounded(name: str) -> None:
    assert_anomalies_are_bounded(name, 500)


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_a_hundred_thousand_anomalies_are_bounded(name: str) -> None:
    assert_anomalies_are_bounded(name, 100_000)
