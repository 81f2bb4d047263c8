"""Record when chunks arrived, in seconds since the request was sent, from one clock reading per read."""

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import floor, log2
from typing import Final

from chunkfold.json_text.values import is_int64

_EXACT: Final = 4096  # gaps; older ones are counted by their length
_LONGEST: Final = 2.0**1023  # seconds; twice as many are no float
_STEPS: Final = 32  # that each doubling of a length is divided into, so that the middle of one is less than 2 % off


@dataclass(frozen=True, slots=True)
class Gaps:
    """The times from each read that brought a chunk to the next such read, in seconds.

    With 4,096 gaps or more, the percentiles are accurate to within 2 %; everything else is exact.

    Attributes:
        count: The number of gaps.
        mean: The mean gap.
        p50: The median gap.
        p95: The 95th percentile.
        p99: The 99th percentile.
        longest: The longest gap.
    """

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass
class StreamTiming:
    """Arrival times of one stream, in seconds since the request was sent; None for what has not arrived.

    If `connect` did not send the request, the seconds count from the creation of the parser or stream. `gaps` describes
    how evenly the chunks arrived.

    Attributes:
        first_byte: The first bytes of the body.
        first_chunk: The first chunk.
        first_output: The first text, reasoning, tool call fragment, audio or image.
        last_chunk: The last chunk so far.
        last_byte: The last bytes so far.
        headers: The response's status and headers; only known if `connect` sent the request.
    """

    first_byte: float | None = None
    first_chunk: float | None = None
    first_output: float | None = None
    last_chunk: float | None = None
    last_byte: float | None = None
    headers: float | None = None

    def __post_init__(self) -> None:
        self._arrivals = array("d")  # when the last reads that brought chunks arrived
        self._counts: dict[int, int] = {}  # of the older gaps, by the step that their length is in
        self._longest = self._total = 0.0  # of these

    @property
    def gaps(self) -> Gaps | None:
        """The times between the reads that brought chunks; None before the second of them."""
        recent = self._recent()
        lengths = Counter(recent)
        for step, occurred in self._counts.items():
            lengths[2 ** ((step + 0.5) / _STEPS)] += occurred
        count = lengths.total()
        if not count:
            return None
        ordered = sorted(lengths)
        ranks = list(accumulate(lengths[length] for length in ordered))
        mean = (self._total + sum(recent)) / count
        longest = max(self._longest, max(recent, default=0.0))
        p50, p95, p99 = (min(ordered[bisect_left(ranks, count * share / 100)], longest) for share in (50, 95, 99))
        return Gaps(count, mean, p50, p95, p99, longest)

    def tokens_per_second(self, completion_tokens: int | None) -> float | None:
        """The rate from the first output to the last chunk; None unless the usage is known and time has passed.

        None also for a count of more than 64 bits, which cannot be real.
        """
        if not is_int64(completion_tokens) or self.first_output is None or self.last_chunk is None:
            return None
        seconds = self.last_chunk - self.first_output
        return completion_tokens / seconds if seconds > 0 else None

    def _recent(self) -> "array[float]":
        """The gaps that are not counted yet; no time passes between parts of one read."""
        return array("d", (later - sooner for sooner, later in pairwise(self._arrivals) if later > sooner))

    def _compact(self) -> None:
        """Count the gaps so far by their length."""
        recent = self._recent()
        self._longest = max(self._longest, max(recent, default=0.0))
        self._total += sum(recent)
        self._counts = Counter(self._counts) + Counter(floor(_STEPS * log2(min(gap, _LONGEST))) for gap in recent)
        self._arrivals = self._arrivals[-1:]


def note_read(timing: StreamTiming, seconds: float, *, has_chunks: bool, has_output: bool) -> None:
    """Take one read into account: when it arrived, whether it brought a chunk, and whether there is output so far."""
    timing.last_byte = seconds
    if has_chunks:
        timing.last_chunk = seconds
        arrivals = timing._arrivals  # pyright: ignore[reportPrivateUsage] - of this module
        arrivals.append(seconds)
        if len(arrivals) > _EXACT:
            timing._compact()  # pyright: ignore[reportPrivateUsage] - of this module
    if timing.first_output is None:
        if timing.first_byte is None:
            timing.first_byte = seconds
        if has_chunks and timing.first_chunk is None:
            timing.first_chunk = seconds
        if has_output:
            timing.first_output = seconds
