"""Arrival times: which moments are told, and what is said of the gaps between them, beside the plain way to say it."""

import copy
import math
import sys
from dataclasses import asdict

import pytest
from cases import each_case
from copies import pickled
from hypothesis import example, given, settings
from hypothesis import strategies as st
from played import HI, PING, ROLE, STOP

from chunkfold import ChatCompletionParser, StreamTiming
from chunkfold.parser.parser import feed_in_slices
from chunkfold.parser.timing import Gaps, note_read
from chunkfold.testing import DONE


def fed(*reads: tuple[float, bytes]) -> ChatCompletionParser:
    """A parser that was fed each piece at its time, in seconds since it was made."""
    parser = ChatCompletionParser(started=0.0)
    assert set(asdict(parser.timing).values()) == {None}
    for seconds, data in reads:
        parser.feed(data, arrived=seconds)
    return parser


@each_case(
    ("reads", "times"),
    [
        ([(1, PING), (2, ROLE), (4, HI), (8, HI), (16, STOP), (32, PING)], (1, 2, 4, 16, 32)),
        ([(3, HI + STOP + DONE)], (3, 3, 3, 3, 3)),
        ([(1, b""), (2, HI), (4, b"")], (2, 2, 2, 2, 2)),  # an empty read has no bytes to time
        ([(1, HI), (2, PING)], (1, 1, 1, 1, 2)),  # nor is the end of the body a chunk
    ],
)
def test_timing(reads: list[tuple[float, bytes]], times: tuple[float, ...]) -> None:
    parser = fed(*reads)
    parser.close()
    timing = parser.timing
    assert (timing.first_byte, timing.first_chunk, timing.first_output, timing.last_chunk, timing.last_byte) == times


def timing_of(gaps: list[float]) -> StreamTiming:
    """The timing of chunks that came that far apart."""
    timing = StreamTiming()
    seconds = 1.0
    note_read(timing, seconds, has_chunks=True, has_output=True)
    for gap in gaps:
        seconds += gap
        note_read(timing, seconds, has_chunks=True, has_output=True)
    return timing


def percentile(gaps: list[float], share: int) -> float:
    """The nearest rank: the smallest gap that so many percent of all are no longer than."""
    return sorted(gaps)[math.ceil(len(gaps) * share / 100) - 1]


def told(timing: StreamTiming) -> Gaps:
    assert timing.gaps is not None
    return timing.gaps


def test_gaps_are_those_between_reads_that_brought_chunks() -> None:
    parser = fed((1, PING), (2, HI), (3, PING), (6, HI + HI), (7, STOP), (20, PING), (21, DONE))
    assert parser.timing.gaps == Gaps(count=2, mean=2.5, p50=1.0, p95=4.0, p99=4.0, longest=4.0)


def test_a_large_read_in_slices_is_one_read() -> None:
    parser = ChatCompletionParser(started=0.0, clock=lambda: 1.0)
    for _ in feed_in_slices(parser, HI * 500):
        pass
    parser.feed(HI, arrived=2.5)
    assert told(parser.timing).count == 1
    assert told(parser.timing).longest == 1.5


# Sixteenths are added without rounding.
LENGTHS = st.integers(1, 10_000).map(lambda sixteenths: sixteenths / 16)


@given(st.lists(LENGTHS, min_size=1, max_size=300))
@example([float(length) for length in range(1, 101)])
def test_all_is_exact_of_a_stream_of_usual_length(gaps: list[float]) -> None:
    assert told(timing_of(gaps)) == Gaps(
        count=len(gaps),
        mean=sum(gaps) / len(gaps),
        p50=percentile(gaps, 50),
        p95=percentile(gaps, 95),
        p99=percentile(gaps, 99),
        longest=max(gaps),
    )


@pytest.mark.parametrize("count", [4095, 4096, 4097, 20_000])
def test_the_percentiles_of_a_long_stream_are_right_to_within_2_percent(count: int) -> None:
    gaps = [(place * 7919 % 9973 + 1) / 16 for place in range(count)]
    gaps[7] = 1_000_000.0
    gaps_told = told(timing_of(gaps))
    assert (gaps_told.count, gaps_told.longest) == (count, 1_000_000.0)
    assert gaps_told.mean == pytest.approx(sum(gaps) / count)
    for share, value in [(50, gaps_told.p50), (95, gaps_told.p95), (99, gaps_told.p99)]:
        assert value == pytest.approx(percentile(gaps, share), rel=0.02)


@settings(max_examples=30)
@given(st.floats(min_value=1e-9, max_value=1e9))
@example(math.inf)  # those of an odd clock raise nothing
@example(sys.float_info.max)
@example(sys.float_info.min)
def test_a_gap_of_any_length_is_right_to_within_2_percent(gap: float) -> None:
    timing = StreamTiming()
    timing._arrivals.extend([0.0, gap])
    timing._compact()
    assert (timing.gaps.count, timing.gaps.longest) == (1, gap)
    if 1e-9 <= gap <= 1e9:
        assert timing.gaps.p50 == pytest.approx(gap, rel=0.02)


def test_memory_is_bounded() -> None:
    def size(gaps: int) -> int:
        timing = timing_of([1 / 16 + place % 100 / 16 for place in range(gaps)])
        return sum(map(sys.getsizeof, (timing._arrivals, timing._counts)))

    assert size(40_000) <= size(4000) + 16_384


def test_a_timing_is_a_value() -> None:
    timing = timing_of([1.0, 2.0])
    for other in (copy.deepcopy(timing), pickled(timing)):
        assert other == timing
        assert other.gaps == timing.gaps


def test_there_are_no_gaps_and_no_rate_without_output() -> None:
    assert StreamTiming().gaps is timing_of([]).gaps is None
    assert StreamTiming().tokens_per_second(5) is None
    assert timing_of([]).tokens_per_second(5) is None  # no time has passed
    assert timing_of([2.0]).tokens_per_second(None) is None
    assert timing_of([2.0]).tokens_per_second(2**64) is None
    assert timing_of([2.0]).tokens_per_second(5) == 2.5
