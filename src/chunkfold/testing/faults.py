"""Faults in a body. Faults of the connection are options of an `Answer`.

Cut at a byte, reset, never finished, compressed, framed differently: `Answer(body, cut_at=..., ending=...)`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from chunkfold.testing.wire import Body, bytes_of

_ALMOST: Final = 1e-9  # as far as a quotient of seconds may be from a whole number, and be one
_TEXT: Final = re.compile(rb'"(?:content|reasoning\w*|arguments|text)":\s?"(?=[^"])')
_DONE: Final = re.compile(rb"(?:^|(?<=[\r\n]))data:[ \t]*\[DONE\][ \t]*(?:\r\n|\r|\n|$)+")


def without_done(body: Body) -> bytes:
    """The body without its `[DONE]`.

    Raises:
        ValueError: It has none.
    """
    left, count = _DONE.subn(b"", bytes_of(body))
    if not count:
        raise ValueError("body: expected an event [DONE], found none")
    return left


def with_bad_utf8(body: Body, at: int | None = None) -> bytes:
    """The body with a byte that is not valid UTF-8.

    Args:
        body: Any body, whole or in pieces; or a `StreamBuilder`.
        at: How many bytes are before it; None for the beginning of the first text that is not empty.

    Raises:
        ValueError: The place is outside the body, or there is no text.
    """
    data = bytes_of(body)
    if at is None:
        found = _TEXT.search(data)
        if found is None:
            raise ValueError("body: expected a text that is not empty, found none")
        at = found.end()
    if not 0 <= at <= len(data):
        raise ValueError(f"at: expected 0 to {len(data)}, received {at}")
    return data[:at] + b"\xff" + data[at:]


def stalled(
    pieces: bytes | Iterable[bytes | float],
    after: int,
    seconds: float = math.inf,
    *,
    keep_alive: bytes = b"",
    every: float = 1.0,
) -> list[bytes | float]:
    r"""The pieces with a silence in them, as an `Answer` takes them.

    Args:
        pieces: The body, in the pieces in which it is sent.
        after: How many of the pieces (pauses do not count) are sent before it.
        seconds: How long it lasts; forever by default.
        keep_alive: Bytes that are sent meanwhile, such as a comment `b": ping\n\n"`; the silence has to end then.
        every: Seconds before each keep-alive.

    Raises:
        ValueError: There are fewer pieces, a time is negative, or the keep-alives would never end.
    """
    steps: list[bytes | float] = [pieces] if isinstance(pieces, bytes) else list(pieces)
    bounds = [place for place, piece in enumerate(steps) if isinstance(piece, bytes)]
    if not 0 <= after <= len(bounds):
        raise ValueError(f"after: expected 0 to {len(bounds)} pieces, received {after}")
    if not seconds >= 0 or not every > 0:
        raise ValueError(f"seconds: expected 0 or more, every more than 0, received {seconds} and {every}")
    place = bounds[after - 1] + 1 if after else 0
    return [*steps[:place], *_silence(seconds, keep_alive, every), *steps[place:]]


def _silence(seconds: float, keep_alive: bytes, every: float) -> Sequence[bytes | float]:
    if not keep_alive:
        return [seconds]
    if seconds == math.inf:
        raise ValueError("seconds: expected a silence that ends where keep-alives are sent")
    count = int(seconds / every + _ALMOST)
    beats: list[bytes | float] = [every, keep_alive] * count
    rest = seconds - count * every if count else seconds  # 0 * inf is NaN
    return [*beats, rest] if rest > _ALMOST * seconds else beats
