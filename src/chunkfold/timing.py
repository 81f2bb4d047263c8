"""When things arrived, in seconds since the request was sent, from one clock reading per read."""

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from math import frexp, ldexp
from typing import Final

_EXACT: Final = 4096  # gaps; older ones are counted by their length
_STEPS: Final = 32  # in each doubling of the length, so that the middle of a step is never 2 % off


@dataclass(frozen=True, slots=True)
class Gaps:
    """The times from each read that brought a chunk to the next such read, in seconds.

    Of streams with 4,096 gaps or more the percentiles are right to within 2 %; everything else is exact.

    Attributes:
        count: How many gaps there were.
        mean: How long they were on average.
        p50: Half of them were no longer than this.
        p95: 95 % of them were no longer than this.
        p99: 99 % of them were no longer than this.
        longest: The longest stall.
    """

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    longest: float


class _GapLog:
    """The gaps so far, in memory that is bounded however many come."""

    __slots__ = ("_counts", "_longest", "_recent", "_total")

    def __init__(self) -> None:
        self._recent = array("d")
        self._counts: Counter[int] = Counter()  # of the older ones, by the step that their length is in
        self._longest = self._total = 0.0

    def note_gap(self, seconds: float) -> None:
        """Take one gap into account."""
        self._recent.append(seconds)
        if len(self._recent) == _EXACT:
            self._longest = max(self._longest, *self._recent)
            self._total += sum(self._recent)
            self._counts.update(map(_step_of, self._recent))
            self._recent = array("d")

    @property
    def gaps(self) -> Gaps | None:
        """The times between the reads that brought chunks; None before the second of them."""
        lengths = Counter(self._recent)
        for step, occurred in self._counts.items():
            lengths[_middle_of(step)] += occurred
        count = lengths.total()
        if not count:
            return None
        ordered = sorted(lengths)
        ranks = list(accumulate(lengths[length] for length in ordered))

        longest = max(self._longest, *self._recent) if self._recent else self._longest

        def percentile(share: int) -> float:
            return min(ordered[bisect_left(ranks, count * share / 100)], longest)

        return Gaps(
            count=count,
            mean=(self._total + sum(self._recent)) / count,
            p50=percentile(50),
            p95=percentile(95),
            p99=percentile(99),
            longest=longest,
        )


def _step_of(seconds: float) -> int:
    mantissa, exponent = frexp(seconds)  # seconds = mantissa * 2 ** exponent, the mantissa in [0.5, 1)
    return exponent * _STEPS + int(mantissa * 2 * _STEPS) - _STEPS


def _middle_of(step: int) -> float:
    exponent, place = divmod(step, _STEPS)
    return ldexp((place + _STEPS + 0.5) / (2 * _STEPS), exponent)


@dataclass(slots=True)
class StreamTiming(_GapLog):
    """Arrival times of one stream, in seconds since the request was sent; None for what has not come.

    Where `connect` did not send it, the seconds count from the making of the parser or the stream. `gaps` tells how
    evenly the chunks came.

    Attributes:
        first_byte: The first bytes of the body.
        first_chunk: The first chunk.
        first_output: The first text, reasoning, tool call fragment, audio or image.
        last_chunk: The last chunk so far.
        last_byte: The last bytes so far.
        headers: The response's status and headers; known where `connect` sent the request.
    """

    first_byte: float | None = None
    first_chunk: float | None = None
    first_output: float | None = None
    last_chunk: float | None = None
    last_byte: float | None = None
    headers: float | None = None

    def __post_init__(self) -> None:
        _GapLog.__init__(self)

    def note(self, seconds: float, chunks: bool, output: bool) -> None:  # noqa: FBT001 - called for every read
        """Take one read into account: when it came, whether it brought a chunk, and whether output has come by now."""
        self.last_byte = seconds
        if chunks:
            if self.last_chunk is not None and seconds > self.last_chunk:  # else it is the same read
                self.note_gap(seconds - self.last_chunk)
            self.last_chunk = seconds
        if self.first_output is None:
            self._note_firsts(seconds, chunks, output)

    def _note_firsts(self, seconds: float, chunks: bool, output: bool) -> None:  # noqa: FBT001 - as above
        if self.first_byte is None:
            self.first_byte = seconds
        if chunks and self.first_chunk is None:
            self.first_chunk = seconds
        if chunks and output:
            self.first_output = seconds

    def tokens_per_second(self, completion_tokens: int | None) -> float | None:
        """The rate from the first output to the last chunk; None unless the usage is known and time has passed."""
        if not isinstance(completion_tokens, int) or self.first_output is None or self.last_chunk is None:
            return None
        seconds = self.last_chunk - self.first_output
        return completion_tokens / seconds if seconds > 0 else None
