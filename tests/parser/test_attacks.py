"""Streams without end, each of which makes something grow: nothing that a peer sends slips under the limits.

Every one is read until it ends, for so long at most; then it is too late. Memory is what Python allocated meanwhile
(`tracemalloc`).
"""

import itertools
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cases import each_case
from limited import COST, EACH, LIMIT, READ, SMALL_LIMIT, TOKEN, assert_named, by_iterating, call, fresh
from measured_memory import only_garbage_of_these_tests, traced
from parsed_bodies import fed

from chunkfold import ChatCompletionParser, ChatCompletionStream, CumulativeDeltas, LimitExceededError, OneChoice
from chunkfold.parser import limits
from chunkfold.testing import choice, chunk, delta

collecting_is_quick = only_garbage_of_these_tests


MOST_SENT = 50 * LIMIT  # bytes, which is far more than the limit lets through


def kept_by(limit: int, allowance: int = 2**20) -> int:
    """What may be kept by a limit of so many characters: those, as much again, the allowance, and one read."""
    return 2 * limit + allowance + READ


def choices(n: int, **fields: Any) -> bytes:
    return chunk(*({"index": n * len(EACH) + each, **fields} for each in EACH))


def calls(n: int, fragment_of: Callable[[int], dict[str, Any]]) -> bytes:
    return delta(tool_calls=[fragment_of(n * len(EACH) + each) for each in EACH])


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
    # Output; of every kind it is counted by `test_output`, and unknown keys of every place by `test_footprint`
    "text": (OUTPUT, lambda n: delta(content="word " * 100)),
    "wide text": (OUTPUT, lambda n: delta(content="\N{GRINNING FACE}" * 100)),
    "reasoning": (OUTPUT, lambda n: delta(reasoning_content="word " * 100)),
    "arguments": (OUTPUT, lambda n: call(index=0, function={"arguments": "word " * 100})),
    "a name": (OUTPUT, lambda n: call(index=0, function={"name": f"word {n} " * 50})),
    "audio": (OUTPUT, lambda n: delta(audio={"data": "AAAA" * 100})),
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
    "unknown keys of chunks": (OUTPUT, lambda n: chunk(**fresh(n))),
    "unknown keys of functions": (OUTPUT, lambda n: call(index=0, function=fresh(n))),
    "unknown numbers": (OUTPUT, lambda n: chunk(**fresh(n, n))),
    "unknown objects": (OUTPUT, lambda n: chunk(**fresh(n, {"a": [{}]}))),
    "unknown strings": (OUTPUT, lambda n: chunk(**fresh(n, "\N{GRINNING FACE}" * 100))),
    "reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"index": f"{n} {each}"} for each in EACH])),
    "types of reasoning details": (OUTPUT, lambda n: delta(reasoning_details=[{"type": key} for key in fresh(n)])),
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


def assert_limited(name: str, stream: Any, value: int) -> None:
    limit, _ = ATTACKS[name]
    assert_named(stream, limit, value)
    assert limit in str(stream.error)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ATTACKS]
)
@patch.object(limits, "_ALLOWANCE", 2**17)  # so what counts for little passes it sooner
def test_an_attack_ends_at_a_limit_also_with_events(name: str) -> None:
    with traced() as memory:
        parser = by_feed(endless(name), with_events=True, max_output_size=SMALL_LIMIT, max_event_size=SMALL_LIMIT)
    most = kept_by(SMALL_LIMIT, 2**17)
    print(f"{memory.peak / 10**6:.1f} MB")
    assert_limited(name, parser, SMALL_LIMIT)
    assert memory.peak < COST * most, f"{memory.peak / most:.0f}"


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


BY_DEFAULT = 64 * 2**20  # characters


@pytest.mark.slow
def test_without_being_told_what_is_kept_may_take_257_mib() -> None:
    parser = fed(chunk(**{f"key{n}": "x" * 10**6}) for n in range(300))
    assert_named(parser, "max_output_size", BY_DEFAULT)
    assert 264 < parser.chunks < 275


@pytest.mark.slow
@pytest.mark.parametrize("name", ["choices", "calls", "log probabilities", "unknown objects", "wide text", "text"])
def test_by_default_a_stream_ends_within_a_gigabyte(name: str) -> None:
    """All but one within a quarter of it, by a quarter of the limit, since some take a minute."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "helpers")}
    code = f"from test_attacks import end_by_default; end_by_default({name!r})"
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
