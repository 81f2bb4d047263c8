"""Memory: the unfinished event and the output so far, and nothing that grows with what was read to get there.

Peaks are what Python allocated while the body was read (`tracemalloc`); the body itself is made before.
"""

import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from measured_memory import only_garbage_of_these_tests, traced
from parsed_bodies import fed, folded
from pydantic import BaseModel, field_validator

from chunkfold import RULES, ChatCompletion, ChatCompletionParser, ChatCompletionStream, ParseError, ToolCallDone
from chunkfold.testing import DONE, chunk, delta, event, fragment

collecting_is_quick = only_garbage_of_these_tests

MEGABYTE = 10**6
READ = 4096  # bytes
KEPT = 50_000  # bytes, of which most are the last gaps between chunks


def slow(*values: Any) -> Any:
    """A case that takes long."""
    return pytest.param(*values, marks=pytest.mark.slow)


def arguments(text: str) -> bytes:
    return delta(tool_calls=[fragment(0, arguments=text)])


FIRST = delta(role="assistant", content="")
CALL = delta(tool_calls=[fragment(0, "call_a", "f", "")])
END = delta("stop") + DONE
KINDS: dict[str, Callable[[str], bytes]] = {
    "text": lambda text: delta(content=text),
    "reasoning": lambda text: delta(reasoning_content=text),
    "reasoning details": lambda text: delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": text}]),
    "arguments": arguments,
}


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
    parser = folded(in_reads(body))
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


def assert_little_more_than_its_output(
    body: bytes, way: Callable[[bytes], ChatCompletion], *, allowed: int = 2 * MEGABYTE
) -> None:
    way(b"".join([FIRST, CALL, END]))  # what is loaded when it is used is no cost of the body
    with traced() as memory:
        completion = way(body)
    output = output_of(completion)
    print(f"{memory.peak / MEGABYTE:.2f} MB for {output / MEGABYTE:.2f} MB of output")
    assert memory.peak <= 3 * output + allowed, (memory.peak, output)


@pytest.mark.parametrize("way", [by_iterating, by_read, by_one_large_read])
def test_text_costs_little_more_than_its_output(way: Any) -> None:
    body = b"".join([FIRST, *map(KINDS["text"], words(10_000)), END])
    assert_little_more_than_its_output(body, way, allowed=2 * MEGABYTE if way is by_one_large_read else MEGABYTE // 4)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "way"), [*zip(KINDS, itertools.cycle(WAYS))])
def test_so_does_all_other_output_also_where_no_two_pieces_are_equal(kind: str, way: Any) -> None:
    """Was once wrong: Python 3.11's StringIO keeps up to 100,000 pieces as they came, each with some 60 bytes around it."""
    body = b"".join([FIRST, CALL, *map(KINDS[kind], numbers(20_000)), END])
    assert_little_more_than_its_output(body, way)


# It goes with the stream

USAGE = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}


def usage_event(number: int) -> bytes:
    usage = {**USAGE, "completion_tokens": number + 1}
    return event({"choices": [{"index": 0, "delta": {"content": f" {number}"}}], "usage": usage})


@pytest.mark.parametrize("kind", [*KINDS, "usage on each chunk"])
@pytest.mark.parametrize("view", [iter, ChatCompletionStream.events, ChatCompletionStream.text_deltas])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_stream_that_raised_nothing_is_freed_without_the_garbage_collector(
    view: Any, kind: str, is_left: bool
) -> None:
    """Was once wrong: what was learned of alike events referred to itself, so each text stayed until a full collection."""
    events = [usage_event(number) if kind not in KINDS else KINDS[kind](f" {number}") for number in range(40)]
    stream = ChatCompletionStream([FIRST, CALL, *events, END])
    for _ in itertools.islice(view(stream), 30 if is_left else None):
        pass
    stream.close()
    fold = stream._parser._fold
    kept = weakref.ref(fold), weakref.ref(fold.log)
    gc.disable()
    try:
        del stream, fold
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


class Refused(BaseModel):
    """Arguments that are never right."""

    x: int

    @field_validator("x")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise ValueError(f"{value} is not allowed")


@pytest.mark.parametrize("text", ['{"x": 1}', '{"x": ', "[]"])
def test_an_event_with_an_error_keeps_no_stream(text: str) -> None:
    """Was once wrong: the traceback of the error, or of what a validator raised, kept all of the stream."""
    stream = ChatCompletionStream([FIRST, CALL, arguments(text), END], tools={"f": Refused})
    [done] = [event for event in stream.events() if isinstance(event, ToolCallDone)]
    stream.close()
    fold = weakref.ref(stream._parser._fold)
    gc.disable()
    try:
        del stream
        assert fold() is None
    finally:
        gc.enable()
    assert isinstance(done.error, ParseError)


# Nothing grows with the number of chunks


def kept_of(body: bytes) -> int:
    """What a parser keeps when it has read a body, and its text was asked for."""

    def read(body: bytes) -> ChatCompletionParser:
        parser = folded(in_reads(body))
        assert output_of(parser.snapshot) > 0
        return parser

    # What is kept of the first time, such as a coverage tool's lines, is no cost of the body; a cache of its events is.
    read(body.replace(b'"chatcmpl-1"', b'"chatcmpl-2"'))
    with traced() as memory:
        _parser = read(body)
    return memory.kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tiny", "larger", "allowed"), [(2_000, 200, 40_000), slow(50_000, 5_000, 100_000)])
def test_many_tiny_chunks_leave_no_more_behind_than_fewer_larger_ones(
    kind: str, tiny: int, larger: int, allowed: int
) -> None:
    text = "abcdefghij" * (tiny // 10)
    size = tiny // larger
    bodies = [
        b"".join([FIRST, CALL, *(KINDS[kind](text[place : place + step]) for place in range(0, len(text), step))])
        for step in (1, size)
    ]
    in_tiny, in_larger = map(kept_of, bodies)
    print(f"{in_tiny / 1000:.0f} kB after {tiny} chunks, {in_larger / 1000:.0f} kB after {larger}")
    assert in_tiny <= in_larger + allowed


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
    "errors that are none, and comments": b"error: null\n: processing the request\n\n",
    "chunks that say nothing": chunk(),
    "chunks without output": delta(),
    "roles": delta(role="assistant"),
    "ids of chunks that change": chunk(id="c2"),
    "padding": delta(obfuscation="x" * 100),
    "usage": chunk(usage={"prompt_tokens": 1}),
}


FEW = {"max_event_size": 2_000, "max_output_size": 5}


def assert_nothing_is_kept(lines: bytes, count: int, *, behind: bytes, allowed: int = MEGABYTE // 20) -> None:
    """Read many lines, which pass no limit; what is allocated in between is that for one read.

    What other threads allocate counts, too, such as that of a server that an earlier test stopped; so there is more than
    one chance.
    """
    in_one_read = max(1, READ // len(lines))
    data = lines * in_one_read
    looks: list[tuple[int, int]] = []  # bytes more than for one read, and bytes that are kept
    while len(looks) < 3 and not (looks and looks[-1][0] <= allowed and looks[-1][1] <= KEPT):
        with traced() as few:
            ChatCompletionParser(**FEW).feed(behind + data)
        with traced() as memory:
            parser = fed(behind, **FEW)
            for _ in range(count // in_one_read):
                parser.feed(data)
        assert parser.end is None
        looks.append((memory.peak - few.peak, memory.kept))
    assert looks[-1][0] <= allowed, looks
    assert looks[-1][1] <= KEPT, looks


FIRST_LINES = ("comments", "comments in blocks", "empty lines", "empty lines with CRLF")  # in front of all others, too


@pytest.mark.parametrize(
    ("name", "behind"),
    [*((name, FIRST) for name in LINES), *((name, b"") for name in FIRST_LINES), ("comments", FIRST + b"data: \n")],
)
@pytest.mark.parametrize("count", [3_000, slow(30_000)])
def test_nothing_is_kept_of_what_is_ignored(name: str, behind: bytes, count: int) -> None:
    assert_nothing_is_kept(LINES[name], count, behind=behind)


# Anomalies are bounded

LOUD = "x" * 1000  # what is quoted of it
ODD: dict[str, Callable[[int], bytes]] = {
    "ids that change": lambda n: chunk(id=f"{n}{LOUD}"),
    "names of objects": lambda n: chunk(object=f"{n}{LOUD}"),
    "choices without an index": lambda n: chunk(*[{"delta": {}}] * 10),
    "roles": lambda n: delta(role=f"{n}{LOUD}"),
    "finish reasons": lambda n: delta(f"{n}{LOUD}"),
    "values of a wrong type": lambda n: chunk(usage=[f"{n}{LOUD}"]),
    "names of events": lambda n: b"event: %d%b\ndata: {}\n\n" % (n, LOUD.encode()),
    "late names": lambda n: delta(tool_calls=[fragment(0, "call_a", f"{n}{LOUD}")]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("count", [500, slow(10_000)])
def test_anomalies_are_bounded(name: str, count: int) -> None:
    body = FIRST + CALL + arguments("{}") + b"".join(map(ODD[name], range(count)))

    with traced() as memory:
        parser = fed(in_reads(body))
    assert sum(anomaly.count for anomaly in parser.anomalies) >= count
    assert len(parser.anomalies) <= len(RULES)
    assert memory.kept <= 150_000, memory.kept
    assert memory.peak <= 0.5 * MEGABYTE, memory.peak
