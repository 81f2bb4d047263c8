"""Cuts, pauses and faults: the bytes stay what they were, unless a fault is what was asked for, and time is exact."""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from parsed_bodies import noted, parsed

from chunkfold.testing import (
    DIALECTS,
    DONE,
    ManualClock,
    StreamBuilder,
    bytewise,
    cut,
    cut_every,
    cut_randomly,
    paced,
    stalled,
    ways_to_cut,
    with_bad_utf8,
    without_done,
)

HELLO = StreamBuilder().text("Hel", "lo").finish().done()
BODIES = st.binary(max_size=200) | st.sampled_from([HELLO.body, HELLO.body.replace(b"\n", b"\r\n")])


def pauses(pieces: Iterable[bytes | float]) -> list[float]:
    return [piece for piece in pieces if not isinstance(piece, bytes)]


# Cuts


@given(BODIES, st.data())
def test_a_cut_is_at_its_places(body: bytes, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(-len(body), len(body)), max_size=5))
    reads = cut(body, *places)
    assert b"".join(reads) == body
    assert len(reads) == len(places) + 1
    before = list(accumulate(map(len, reads)))[:-1]
    assert before == sorted(place + len(body) if place < 0 else place for place in places)


@given(BODIES, st.integers(1, 300))
def test_reads_of_one_size(body: bytes, size: int) -> None:
    reads = cut_every(body, size)
    assert b"".join(reads) == body
    assert {len(read) for read in reads[:-1]} <= {size}
    assert all(0 < len(read) <= size for read in reads[-1:])
    assert bytewise(body) == cut_every(body, 1)


@given(BODIES, st.integers(), st.integers(1, 20))
def test_a_seed_cuts_at_the_same_places(body: bytes, seed: int, count: int) -> None:
    reads = cut_randomly(body, seed, count)
    assert reads == cut_randomly(body, seed, count)
    assert b"".join(reads) == body
    assert len(reads) == count


def test_another_seed_cuts_elsewhere() -> None:
    assert len({tuple(cut_randomly(HELLO.body, seed)) for seed in range(20)}) == 20
    assert cut_randomly(HELLO.body) == cut_randomly(HELLO.body, 0, 8)


@given(BODIES)
def test_every_way_keeps_the_bytes_and_has_a_name_of_its_own(body: bytes) -> None:
    ways = dict(ways_to_cut(body))
    assert all(b"".join(reads) == body for reads in ways.values())
    assert len(ways) == len(list(ways_to_cut(body)))
    assert ways.get("byte by byte", []) == bytewise(body)
    assert {f"at byte {place}" for place in range(1, len(body))} <= ways.keys()


def test_line_ends_are_cut_between_cr_and_lf_too() -> None:
    ways = dict(ways_to_cut(b"a\r\nb\n\rc"))
    assert ways["at each line end"] == [b"a\r", b"\n", b"b\n", b"\r", b"c"]
    assert list(ways_to_cut(b"")) == []


def test_a_large_body_is_not_cut_at_each_byte() -> None:
    assert not [name for name, _ in ways_to_cut(b"a" * 4097) if name.startswith("at byte")]
    assert len([name for name, _ in ways_to_cut(b"a" * 4096) if name.startswith("at byte")]) == 4095


def test_the_seed_is_that_of_the_random_ways() -> None:
    first, second = (dict(ways_to_cut(HELLO.body, seed)) for seed in (0, 100))
    assert [name for name in second if "random" in name] == [f"at random, seed {seed}" for seed in range(100, 108)]
    assert second["at random, seed 100"] == cut_randomly(HELLO.body, 100, 2)
    assert second["at random, seed 107"] == cut_randomly(HELLO.body, 107, 23)
    assert {name for name in first if "random" not in name} == {name for name in second if "random" not in name}


# Time


@given(
    st.lists(st.binary(max_size=3), max_size=6), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1), st.integers()
)
def test_pauses_are_within_the_jitter(pieces: list[bytes], first: float, pace: float, jitter: float, seed: int) -> None:
    steps = paced(pieces, first=first, pace=pace, jitter=jitter, seed=seed)
    assert [step for step in steps if isinstance(step, bytes)] == pieces
    assert steps == paced(iter(pieces), first=first, pace=pace, jitter=jitter, seed=seed)
    waited = [
        0.0 if isinstance(before, bytes) else before
        for before, step in pairwise([b"", *steps])
        if isinstance(step, bytes)
    ]
    for pause, middle in zip(waited, [first, *[pace] * len(pieces)], strict=False):
        assert middle * (1 - jitter) <= pause <= middle * (1 + jitter) * (1 + 1e-12)


def test_without_jitter_the_pauses_are_exact() -> None:
    assert paced([b"a", b"b", b"c"], first=2.0, pace=0.5) == [2.0, b"a", 0.5, b"b", 0.5, b"c"]
    assert paced([b"a", b"b"]) == [b"a", b"b"]
    assert paced([]) == []
    assert paced(b"abc", first=1.0, pace=9.0) == [1.0, b"abc"]  # one piece
    assert stalled(b"abc", 0, 1.0) == [1.0, b"abc"]


def test_jitter_differs_from_pause_to_pause_and_by_seed() -> None:
    ways = [pauses(paced(bytewise(b"abcdefgh"), pace=1.0, jitter=0.5, seed=seed)) for seed in range(3)]
    assert [len(set(way)) for way in ways] == [7, 7, 7]
    assert len({tuple(way) for way in ways}) == 3


def test_a_clock_passes_only_when_it_is_told_to() -> None:
    clock = ManualClock(5.0)
    clock.advance(0)
    assert clock() == clock() == 5.0
    clock.advance(0.25)
    assert clock() == 5.25


# Silence


def test_the_silence_is_behind_so_many_pieces() -> None:
    assert stalled([b"a", b"b"], 0, 3.0) == [3.0, b"a", b"b"]
    assert stalled([b"a", b"b"], 1, 3.0) == [b"a", 3.0, b"b"]
    assert stalled([b"a", b"b"], 2, 3.0) == [b"a", b"b", 3.0]
    assert stalled([b"a", b"b"], 1) == [b"a", math.inf, b"b"]
    assert stalled([0.5, b"a", 0.5, b"b"], 1, 3.0) == [0.5, b"a", 3.0, 0.5, b"b"]
    assert stalled(HELLO, 2, 3.0)[2] == 3.0
    for longer in (1e10, math.inf):  # was once wrong: there was no silence if it ends before any keep-alive
        assert stalled([b"a"], 1, 3.0, keep_alive=b": ping\n\n", every=longer) == [b"a", 3.0]


@given(st.integers(1, 50), st.integers(1, 10), st.integers(0, 9))
def test_keep_alives_come_at_their_times(count: int, tenths: int, rest: int) -> None:
    every = tenths / 10
    seconds = count * every + every * rest / 10
    silence = stalled([b"a"], 1, seconds, keep_alive=b": ping\n\n", every=every)[1:]
    assert silence[1::2] == [b": ping\n\n"] * count  # each after its pause
    assert math.isclose(sum(pauses(silence)), seconds)
    assert all(math.isclose(pause, every) for pause in pauses(silence)[:count])
    assert len(pauses(silence)) == count + (rest > 0)


# Bytes


TEXTS = {dialect: StreamBuilder(dialect).text("Hel", "lo") for dialect in DIALECTS if dialect != "minimax-search"}
THOUGHTS = {dialect: StreamBuilder(dialect).reasoning("Hel", "lo") for dialect in ("deepseek", "sansa", "mistral")}


@each_case(
    ("stream", "what"),
    [
        *((stream, lambda snapshot: snapshot.text) for stream in TEXTS.values()),  # that of minimax-search is a tool's
        *((stream, lambda snapshot: snapshot.reasoning) for stream in THOUGHTS.values()),
        (StreamBuilder().tool_call("f", "Hello"), lambda snapshot: snapshot.tool_calls[0].arguments),
    ],
)
def test_bad_utf8_is_put_into_the_first_text_of_any_kind(stream: StreamBuilder, what: Callable[[Any], str]) -> None:
    body = stream.finish().done().body
    broken = with_bad_utf8(body)
    assert len(broken) == len(body) + 1
    parser = parsed(broken)
    assert what(parser.completion()) == "\ufffdHello"
    assert "CF107" in noted(parser)


def test_bad_utf8_may_stand_anywhere() -> None:
    assert with_bad_utf8(b"abc", 0) == b"\xffabc"
    assert with_bad_utf8(b"abc", 3) == b"abc\xff"


@each_case("line_end", [b"\n", b"\r\n", b"\r"])
@each_case("done", [b"data: [DONE]", b"data:[DONE]", b"data: [DONE] \t"])
@each_case("blank", [b"", b"\n", b"\n\n"])
def test_the_done_is_taken_out_however_it_is_written(line_end: bytes, done: bytes, blank: bytes) -> None:
    before = StreamBuilder().text('"data: [DONE]"').body
    body = (before + done + blank).replace(b"\n", line_end)
    assert without_done(body) == before.replace(b"\n", line_end)


WITHOUT_DONE = [b"", HELLO.body.replace(DONE, b""), b'data: {"content":"data: [DONE]"}\n\n']


@each_case(
    ("use", "words"),
    [
        (lambda: cut(b"abc", 1, 4), "places: expected -3 to 3, received 4"),
        (lambda: cut(b"abc", 1, -4), "places: expected -3 to 3, received -4"),
        (lambda: cut_every(b"abc", 0), "size: expected 1 or more, received 0"),
        (lambda: cut_randomly(b"abc", reads=0), "reads: expected 1 or more, received 0"),
        (lambda: with_bad_utf8(b"abc", -1), "at: expected 0 to 3, received -1"),
        (lambda: with_bad_utf8(b"abc", 4), "at: expected 0 to 3, received 4"),
        (lambda: with_bad_utf8(StreamBuilder().finish().done()), "body: expected a text that is not empty, found none"),
        *(
            (lambda body=body: without_done(body), r"body: expected an event \[DONE\], found none")
            for body in WITHOUT_DONE
        ),
        *(
            (
                lambda time=time: ManualClock(5.0).advance(time),
                f"seconds: expected a finite number of 0 or more, received {time}",
            )
            for time in (-1.0, math.inf, math.nan)
        ),
        (lambda: paced([b"a"], first=-1.0), "first: expected seconds, 0 or more, received -1.0"),
        (lambda: paced([b"a"], pace=math.nan), "pace: expected seconds, 0 or more, received nan"),
        (lambda: paced([b"a"], jitter=1.1), "jitter: expected a share from 0 to 1, received 1.1"),
        (lambda: paced([b"a"], jitter=math.nan), "jitter: expected a share"),
        (lambda: stalled([b"a", b"b"], 3), "after: expected 0 to 2 pieces, received 3"),
        (lambda: stalled([b"a", b"b"], -1), "after: expected 0 to 2 pieces, received -1"),
        (lambda: stalled(b"a", 1, -1.0), "seconds: expected 0 or more, every more than 0, received -1.0 and 1.0"),
        (lambda: stalled(b"a", 1, math.nan), "seconds: expected 0 or more"),
        (lambda: stalled(b"a", 1, 1.0, every=0.0), "every more than 0"),
        (lambda: stalled(b"a", 1, keep_alive=b":\n\n"), "expected a silence that ends where keep-alives are sent"),
    ],
)
def test_impossible_arguments_are_refused(use: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        use()


@each_case("body", ["data: [DONE]", 5, None])
@each_case("use", [cut, bytewise, cut_randomly, lambda body: [*ways_to_cut(body)], with_bad_utf8, without_done])
def test_a_body_is_bytes_or_a_builder(use: Callable[[Any], object], body: Any) -> None:
    with pytest.raises(TypeError, match=r"^body: expected bytes, or bytes in pieces, received "):
        use(body)
    assert use(HELLO) == use(HELLO.body)
