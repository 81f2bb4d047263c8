"""Pauses between pieces, and a clock that only moves when a test advances it."""

import random
from collections.abc import Iterable

from chunkfold.arguments import check_seconds


class ManualClock:
    """A clock for tests: its time, in seconds, changes only when a test or a pause advances it.

    Use it instead of `time.monotonic` wherever a clock is an option, and for `sleep` where something waits.

    Examples:
        >>> clock = ManualClock()
        >>> clock.advance(1.5)
        >>> clock()
        1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._now})"

    def __call__(self) -> float:
        """The time, in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: The number of seconds is negative or not finite.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds: expected a finite number of 0 or more, received {seconds}")
        self._now += seconds


def paced(
    pieces: bytes | Iterable[bytes], *, first: float = 0.0, pace: float = 0.0, jitter: float = 0.0, seed: int = 0
) -> list[bytes | float]:
    """The pieces with pauses before them, as an `Answer` takes them.

    Args:
        pieces: The body, in one piece or in several; empty ones are kept.
        first: Seconds before the first piece, which is the time to the first token if that is in it.
        pace: Seconds before each of the others.
        jitter: By how much of itself a pause may be shorter or longer: 0.3 is up to 30 %.
        seed: The same seed gives the same pauses.

    Raises:
        TypeError: A time is not a number.
        ValueError: A time is negative, or the jitter is not between 0 and 1.

    Examples:
        >>> paced([b"a", b"b", b"c"], first=0.5, pace=0.1)
        [0.5, b'a', 0.1, b'b', 0.1, b'c']
    """
    check_seconds("first", first, optional=False)
    check_seconds("pace", pace, optional=False)
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter: expected a share from 0 to 1, received {jitter}")
    chance = random.Random(seed)  # noqa: S311 - pauses are no secret
    steps: list[bytes | float] = []
    for number, piece in enumerate([pieces] if isinstance(pieces, bytes) else pieces):
        pause = (pace if number else first) * (1 + chance.uniform(-jitter, jitter))
        steps += [pause, piece] if pause else [piece]
    return steps
