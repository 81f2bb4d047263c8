"""Limit what a stream may cost: all that is kept of it, and the time, without reading a clock."""

from collections.abc import Iterable
from typing import Any, Final

from chunkfold.errors import LimitExceededError, exceeded
from chunkfold.fold.stream_fold import StreamFold

_MAX_CONTENT_ENCODINGS: Final = 1  # with two, a few hundred bytes can become gigabytes in one read
_PER_CHARACTER: Final = 4  # bytes that are allowed for each character of output
_ALLOWANCE: Final = 2**20  # bytes, beside those
# The most bytes that an event can add: a tool call for `{}`, a list for `[]`, and, for a single character of text, the
# note that another part of the message begins there.
_MOST_PER_OBJECT: Final = 2500
_MOST_PER_BYTE: Final = 32
_MOST_PER_CHARACTER: Final = 200
_CHECK_EVERY: Final = 2**13  # bytes
# What a byte of a body can become at most: characters of output (1e15 is counted as it is printed), or half an object.
_OUTPUT_PER_BYTE: Final = 8
_MOST_PER_BODY_BYTE: Final = _MOST_PER_OBJECT // 2 + _MOST_PER_BYTE + _OUTPUT_PER_BYTE * _MOST_PER_CHARACTER


def layers_error(encodings: list[str]) -> LimitExceededError | None:
    """The error for a body with more than one layer of content encoding; None for any other."""
    is_exceeded = len(encodings) > _MAX_CONTENT_ENCODINGS
    return exceeded("max_content_encodings", _MAX_CONTENT_ENCODINGS) if is_exceeded else None


class OutputLimit:
    """The limit on what is kept of a stream.

    Characters of output are counted as they arrive. The size in bytes of everything kept (the text, choices, tool
    calls, log probabilities, unknown fields) is slow to measure, so it is measured only if an estimate, which is never
    too low, exceeds the limit. The estimate is checked only if the bytes since the last check could exceed it. Both
    depend on the events alone, not on how they were cut or read. Where `EventTemplate` folds only the values of an
    event, only these count.
    """

    def __init__(self, most: int | None, fold: StreamFold, *others: object) -> None:
        self.most = most  # characters of output; None for no limit
        self._estimate = 0  # bytes kept beside the output's text
        self.check_from = 0  # events that end before this byte of the body need no check
        self._fold = fold
        self._others = others  # what is kept of the stream besides it, with a method `kept`
        self._allowed = _PER_CHARACTER * (most or 0) + _ALLOWANCE
        self._measure_at = self._allowed

    def count(self, data: bytes, times: int = 1) -> None:
        """Count the data of an event, all of which may be kept."""
        self._estimate += times * (_MOST_PER_OBJECT * data.count(b"{") + _MOST_PER_BYTE * len(data))

    def count_values(self, values: Iterable[Any]) -> None:
        """Count single values that may be kept; numbers take no more than what they replace."""
        self._estimate += _MOST_PER_BYTE * sum(len(value) for value in values if isinstance(value, str))

    def is_exceeded(self, offset: int) -> bool:
        """Whether the limit is exceeded, after the event whose data ends at this offset of the body."""
        if self.most is None:
            self.check_from = offset + _CHECK_EVERY
            return False
        output = self._fold.output_size
        estimate = self._estimate + _MOST_PER_CHARACTER * output
        if output > self.most:
            return True
        if estimate > self._measure_at:
            size = self._fold.measure(*self._others)
            self._measure_at = estimate + max(self._allowed - size, self._allowed // 4)
            if size > self._allowed:
                return True
        unchecked = max((self._measure_at - estimate) // _MOST_PER_BODY_BYTE, _CHECK_EVERY)
        self.check_from = offset + min((self.most - output) // _OUTPUT_PER_BYTE, unchecked)
        return False


class Deadlines:
    """The limits on the time, in seconds: for the whole stream, and from chunk to chunk. None for no limit."""

    def __init__(self, total: float | None, progress: float | None, started: float) -> None:
        self.is_set = total is not None or progress is not None
        self.last_progress = started
        self._total = total
        self._progress = progress
        self.started = started  # the clock's reading

    def missed(self, now: float) -> str | None:
        """The message for the deadline that was missed, given the clock's reading; None if none was."""
        if self._total is not None and now - self.started > self._total:
            return f"the stream was not complete after {self._total} s (total_timeout)"
        if self._progress is not None and now - self.last_progress > self._progress:
            return f"received bytes but no chunk for {self._progress} s (progress_timeout)"
        return None
