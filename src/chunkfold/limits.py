"""What a stream may cost: how much output, and how much time. No clock is read here, and no thread waits."""

from typing import Final

from chunkfold.accumulator import ChatCompletionAccumulator

_ALLOWANCE: Final = 2**20
_OFTEN_ENOUGH: Final = 2**18  # bytes


class OutputLimit:
    """The limit on the output.

    Characters of output are counted as they come. What else is kept (choices, tool calls, log probabilities, unknown
    fields) is measured now and then, and may be as much again and 1 MiB more. Both depend on the content alone.

    Args:
        most: The most characters of output; None for no limit.
        accumulator: Where the output is gathered.
    """

    def __init__(self, most: int | None, accumulator: ChatCompletionAccumulator) -> None:
        self.most = most
        self._accumulator = accumulator
        self._unmeasured = 0

    def take(self, size: int) -> None:
        """An event with so many bytes of data came."""
        self._unmeasured += size

    @property
    def is_passed(self) -> bool:
        """Whether more came than that."""
        most = self.most
        return most is not None and (self._accumulator.output_size > most or self._is_passed_by_the_rest(most))

    def _is_passed_by_the_rest(self, most: int) -> bool:
        if self._unmeasured < max(_OFTEN_ENOUGH, most // 4):
            return False
        self._unmeasured = 0
        return self._accumulator.footprint > 2 * most + _ALLOWANCE


class Deadlines:
    """The limits on the time, in seconds.

    Args:
        total: For the whole stream; None for no limit.
        progress: From chunk to chunk while bytes arrive; None for no limit.
        started: What the clock said when the stream began.
    """

    def __init__(self, total: float | None, progress: float | None, started: float) -> None:
        self.is_set = total is not None or progress is not None
        self.shortest = min((seconds for seconds in (total, progress) if seconds is not None), default=None)
        self.last_progress = started
        self._total = total
        self._progress = progress
        self._started = started

    def missed(self, now: float) -> str | None:
        """What was missed by the time that the clock says, in words; None if nothing was."""
        if self._total is not None and now - self._started > self._total:
            return f"the stream was not complete after {self._total} s (total_timeout)"
        if self._progress is not None and now - self.last_progress > self._progress:
            return f"bytes but no chunk came for {self._progress} s (progress_timeout)"
        return None
