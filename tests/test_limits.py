"""Limits: what they count, where a stream stops that passes one, and that nothing a peer sends slips under them.

The attacks are streams without end, each of which makes something grow. Every one is read until it ends, for so long
at most; then it is too late. Memory is what Python allocated meanwhile (`tracemalloc`).
"""

import gc
import gzip
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import made_streams
import pytest
from fronts import by_turns, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts, read_by
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_memory import only_garbage_of_these_tests, traced  # noqa: F401 - a fixture of this module
from shared_data import shared_data

from chunkfold import (
    APIStatusError,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    LimitExceededError,
)
from chunkfold.testing import DONE, Answer, FakeProvider, choice, chunk, delta

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts
library = each_library

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
SMALL_LIMIT = LIMIT // 5
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
    "calls with an index of 400 digits": (OUTPUT, lambda n: calls(10**399 + n, lambda place: {"index": place})),
    "ids of one call": (OUTPUT, lambda n: calls(n, lambda place: {"index": 0, "id": f"{place:0100}"})),
    "ids and indexes of one call": (OUTPUT, lambda n: calls(n, lambda place: {"index": place, "id": f"{place:0100}"})),
    "empty annotations": (OUTPUT, lambda n: delta(annotations=[{} for _ in EACH])),
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
    "keys of usage": (OUTPUT, lambda n: chunk(usage=fresh(n, n))),
    "keys of a usage's details": (OUTPUT, lambda n: chunk(usage={"prompt_tokens_details": fresh(n, n)})),
    "reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"index": f"{n} {each}"} for each in EACH])),
    "types of reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"type": key} for key in fresh(n)])),
    "unknown keys of reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"index": 0, **fresh(n)}])),
}  # fmt: skip


QUICK = [
    *("a line", "a comment", "a JSON string", "text", "arguments", "encrypted reasoning"),
    *("ids of one call", "log probabilities", "unknown keys of functions"),
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


def by_feed(reads: Iterator[bytes], **options: Any) -> Any:
    parser = ChatCompletionParser(**options)
    while parser.end is None:
        parser.feed(next(reads))
    return parser


def by_fold(reads: Iterator[bytes], **options: Any) -> Any:
    parser = ChatCompletionParser(**options)
    while parser.end is None:
        parser.fold(next(reads))
    return parser


def by_feed_with_events(reads: Iterator[bytes], **options: Any) -> Any:
    parser = ChatCompletionParser(**options)
    parser.events()
    while parser.end is None:
        parser.feed(next(reads))
        parser.events()
    return parser


def by_iterating(reads: Iterator[bytes], **options: Any) -> Any:
    stream = ChatCompletionStream(reads, **options)
    with suppress(LimitExceededError):
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


# An event has all of the usage, so keys without end cost the square of their number: that ends, too, but not soon.
ATTACKS_WITH_EVENTS = [name for name in ATTACKS if "usage" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS_WITH_EVENTS)
def test_every_attack_ends_at_a_limit_also_with_events(name: str) -> None:
    attack(name, by_feed_with_events, SMALL_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("way", [by_fold, by_iterating])
@pytest.mark.parametrize("name", QUICK)
def test_an_attack_ends_at_a_limit_whoever_reads_it(name: str, way: Callable[..., Any]) -> None:
    assert_limited(name, way(endless(name), max_output_size=SMALL_LIMIT, max_event_size=SMALL_LIMIT), SMALL_LIMIT)


ENDLESS = {
    "comments": b": ping\n",
    "blocks of comments": b": ping\r\n\r\n",
    "blank lines": b"\n",
    "reconnection times": b"retry: 5\n\n",
    "ids": b"id: 1\n\n",
    "blank data": b"data:\n\n",
    "null": b"data: null\n\n",
    "events of another name": b"event: ping\ndata: {}\n\n",
    "errors that are none": b"error: null\n\n",
    "chunks without choices": chunk(),
    "chunks without output": delta(),
    "roles": delta(role="assistant"),
    "ids of chunks that change": chunk(id="c2"),
    "padding": delta(obfuscation="x" * 1000),
    "usage": chunk(usage={"prompt_tokens": 1}),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_is_not_kept_passes_no_limit(name: str) -> None:
    """It may go on for ever, and costs no memory: the deadlines are for that."""
    parser = ChatCompletionParser(max_event_size=2000, max_output_size=2)
    parser.feed(HI)
    data = ENDLESS[name] * (READ // 8 // len(ENDLESS[name]))
    with traced() as memory:
        for _ in range(4):
            parser.feed(data)
    assert (parser.end, parser.snapshot.text) == (None, "Hi")
    assert memory.peak < COST * READ // 8


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


often = settings(max_examples=100, deadline=None)  # no deadline: the machine may be busy


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
    sizes = [len(piece) - len(b"data: \n\n") for piece in stream.pieces]
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


TEXT = "word " * (LIMIT * 19 // 100)  # 95 % of the limit
HALF = TEXT[: len(TEXT) // 2]
FRAGMENTS = 5000
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
    "audio": pieces_of("AAAA" * (LIMIT // 5), lambda text: delta(audio={"data": text})),
    "usage in every chunk": pieces_of(TEXT, lambda text: chunk(
        choice(content=text), usage={"completion_tokens": 1, "prompt_tokens_details": {}}
    )),
    "padding": pieces_of(TEXT, lambda text: delta(content=text, obfuscation=text)),
    "log probabilities of a thousand tokens": b"".join(
        chunk({**choice(content="word "), "logprobs": {"content": [{**TOKEN, "top_logprobs": [TOKEN] * 5}]}})
        for _ in range(1000)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_stream_with_less_output_than_the_limit_is_read(name: str) -> None:
    parser, _ = parsed(LEGITIMATE[name] + STOP + DONE, max_output_size=LIMIT)
    assert parser.end == "finished"


# The body of a refusal

REFUSED = b'{"error":{"message":"overloaded"},"padding":"%b"}'
ALLOWED = 2**16


def refused(size: int) -> bytes:
    """A JSON error of so many bytes."""
    return REFUSED % (b"x" * (size - len(REFUSED) + 2))


@pytest.mark.parametrize("read", [1000, ALLOWED - 1, ALLOWED, 10**7])
@pytest.mark.parametrize("size", [100, ALLOWED - 1, ALLOWED])
def test_a_refusal_of_up_to_64_kib_is_read_whole(size: int, read: int) -> None:
    parser, _ = parsed(refused(size), read, status_code=503)
    assert type(parser.error) is APIStatusError
    assert parser.error.message == "overloaded"
    assert parser.error.__cause__ is None


@pytest.mark.parametrize("read", [1000, ALLOWED - 1, ALLOWED, ALLOWED + 1, 10**7])
@pytest.mark.parametrize("size", [ALLOWED + 1, 10 * ALLOWED])
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
def compressed(piece: bytes, start: bytes = b"") -> bytes:
    return gzip.compress(start + piece * (EXPLODED // len(piece)))


# What comes over and over again, behind what, and the limit that ends it.
BOMBS = {
    "a line": (b"x", b"data: ", "max_event_size"),
    "text": (delta(content="word " * 1000), b"", "max_output_size"),
}


@by_turns("name", BOMBS)
async def test_a_body_that_explodes(library: Any, front: Any, name: str) -> None:
    """No limit sees it before the client has decoded a read of it: that is what it costs, and a few copies."""
    piece, start, limit = BOMBS[name]
    sent = compressed(piece, start)
    assert len(sent) < 100_000
    with FakeProvider(Answer(sent, headers={"content-encoding": "gzip"})) as provider:
        async with client_of(front, library, limits=library.Limits(max_connections=1)) as client:
            with traced() as memory:
                stream = await read_by(client, provider.url, max_output_size=LIMIT, max_event_size=LIMIT)
            assert (await read_by(client, provider.url)).end == "finished"
    assert provider.requests[0].headers["accept-encoding"] == "identity"
    assert_named(stream, limit, LIMIT)
    assert memory.peak < 3 * EXPLODED + COST * READ


async def test_a_refusal_that_explodes(library: Any, front: Any) -> None:
    answer = Answer(compressed(b"x"), 503, headers={"content-encoding": "gzip"})
    with FakeProvider(answer) as provider:
        async with client_of(front, library, limits=library.Limits(max_connections=1)) as client:
            with traced() as memory:
                stream = await read_by(client, provider.url)
            assert (await read_by(client, provider.url)).end == "finished"
    assert type(stream.error) is APIStatusError
    assert type(stream.error.__cause__) is LimitExceededError
    assert len(stream.error.raw) <= ALLOWED
    assert memory.peak < 3 * EXPLODED + COST * READ


LARGE = {
    "LF": HI,
    "CRLF": HI.replace(b"\n", b"\r\n"),
    "CR": HI.replace(b"\n", b"\r"),
    "comments": b":\n",
    "blocks of comments": b":\n\n",
    "blank lines": b"\n",
    "blank lines with CRLF": b"\r\n",
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_read_costs_a_few_times_its_size(name: str) -> None:
    data = LARGE[name] * (300_000 // len(LARGE[name]))
    with traced() as memory:
        for _ in by_iterating_over(data):
            pass
    assert memory.peak < 5 * len(data)


def by_iterating_over(data: bytes) -> Iterator[ChatCompletionChunk]:
    with suppress(ChunkfoldError):
        yield from ChatCompletionStream([data])


# Without any limit, whatever comes costs what it is long

MANY: dict[str, Callable[[int], bytes]] = {
    "choices": lambda n: chunk(*(choice(index=index) for index in range(n))),
    "calls": lambda n: delta(tool_calls=[{"index": index, "id": f"c{index}"} for index in range(n)]),
    "calls without an index": lambda n: delta(tool_calls=[{"id": f"c{n}", "function": {"name": "f"}} for n in range(n)]),
    "ids of one call": lambda n: delta(tool_calls=[{"index": 0, "id": f"c{index}"} for index in range(n)]),
    "annotations": lambda n: delta(annotations=[{} for _ in range(n)]),
    "log probabilities": lambda n: chunk({**choice(), "logprobs": {"content": [TOKEN] * n}}),
    "reasoning details": lambda n: delta(reasoning_details=[{"index": index} for index in range(n)]),
    "content parts": lambda n: delta(content=[{"type": "text", "text": "x"} for _ in range(n)]),
    "payloads in one block": lambda n: HI.rstrip() + b"\n" + b"".join(HI.rstrip() + b"\n" for _ in range(n)) + b"\n",
    "chunks with a new key each": lambda n: b"".join(chunk(**{f"key{index}": index}) for index in range(n)),
    "chunks with a new key of usage each": lambda n: b"".join(chunk(usage={f"key{index}": index}) for index in range(n)),
    "chunks with a new call each": lambda n: b"".join(named_call(index) for index in range(n)),
}  # fmt: skip


def seconds_of(body: bytes, *, with_events: bool) -> float:
    """Of the processor, as the machine may be busy; and without the collector, whose cost is not of this body."""
    parser = ChatCompletionParser()
    if with_events:
        parser.events()
    gc.collect()
    gc.disable()
    started = time.process_time()
    for data in in_reads(body):
        parser.feed(data)
        if with_events:
            parser.events()
    parser.close()
    seconds = time.process_time() - started
    gc.enable()
    return seconds


WITH_EVENTS = [(name, told) for name in MANY for told in (False, True) if not told or "usage" not in name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "with_events"), WITH_EVENTS)
def test_ten_times_as_much_takes_ten_times_as_long(name: str, with_events: bool) -> None:
    few, many = MANY[name](3_000), MANY[name](30_000)
    ratios: list[float] = []
    while len(ratios) < 3 and not (ratios and ratios[-1] < 20):
        least = min(seconds_of(few, with_events=with_events) for _ in range(3))
        ratios.append(seconds_of(many, with_events=with_events) / least)
    assert ratios[-1] < 20, ratios


def test_a_whole_completion_is_measured_as_a_stream_is() -> None:
    choices = [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]
    body = {"object": "chat.completion", "junk": "x" * 10 * LIMIT, "choices": choices}
    parser = ChatCompletionParser(max_output_size=LIMIT)
    parser.feed(json.dumps(body).encode())
    parser.close()
    assert isinstance(parser.error, LimitExceededError)


def test_long_numbers_count_by_their_length() -> None:
    parser = ChatCompletionParser(max_output_size=1000)
    for n in range(1000):
        parser.feed(delta(**{f"k{n}": 10**4000}))
    assert isinstance(parser.error, LimitExceededError)
