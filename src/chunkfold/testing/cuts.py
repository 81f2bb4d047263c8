"""Cut a body into reads, anywhere, since nothing in HTTP keeps an event together."""

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from chunkfold.testing.wire import Body, bytes_of

_FEW: Final = 4096  # bytes of a body that is tried with every single cut
_AT_RANDOM: Final = 8
_LINE_END: Final = re.compile(rb"(?<=[\r\n])")


def cut(body: Body, *places: int) -> list[bytes]:
    """The body, cut at these places.

    Args:
        body: Any bytes, whole or in pieces; or a `StreamBuilder`.
        places: How many bytes are before each cut, in any order; negative ones count from the end.

    Raises:
        ValueError: A place is outside the body.

    Examples:
        >>> cut(b"abcdef", 2, -1)
        [b'ab', b'cde', b'f']
    """
    data = bytes_of(body)
    size = len(data)
    for place in places:
        if not -size <= place <= size:
            raise ValueError(f"places: expected {-size} to {size}, received {place}")
    bounds = sorted(place % size if place < 0 else place for place in places)
    return [data[start:end] for start, end in pairwise([0, *bounds, size])]


def bytewise(body: Body) -> list[bytes]:
    """The body byte by byte."""
    return cut_every(body, 1)


def cut_every(body: Body, size: int) -> list[bytes]:
    """The body in reads of `size` bytes; the last one may be shorter.

    Raises:
        ValueError: The size is less than one byte.

    Examples:
        >>> cut_every(b"abcdef", 4)
        [b'abcd', b'ef']
    """
    if size < 1:
        raise ValueError(f"size: expected 1 or more, received {size}")
    data = bytes_of(body)
    return [data[place : place + size] for place in range(0, len(data), size)]


def cut_randomly(body: Body, seed: int = 0, reads: int = 8) -> list[bytes]:
    """The body in this number of reads, cut at random; some may be empty. The same seed cuts at the same places.

    Raises:
        ValueError: The number of reads is less than one.
    """
    if reads < 1:
        raise ValueError(f"reads: expected 1 or more, received {reads}")
    chance = random.Random(seed)  # noqa: S311 - cuts are no secret
    data = bytes_of(body)
    return cut(data, *(chance.randint(0, len(data)) for _ in range(reads - 1)))


def ways_to_cut(body: Body, seed: int = 0) -> Iterator[tuple[str, list[bytes]]]:
    """Ways to cut a body that break naive parsers, each with its name; the whole body is not included.

    The cuts are: byte by byte, at each line end (also between CR and LF), at random, and, for a body of up to 4,096
    bytes, in two at each place. For an empty body there are none.
    """
    data = bytes_of(body)
    if not data:
        return
    yield "byte by byte", bytewise(data)
    yield "at each line end", _LINE_END.split(data)
    for number in range(_AT_RANDOM):
        yield f"at random, seed {seed + number}", cut_randomly(data, seed + number, reads=2 + 3 * number)
    if len(data) <= _FEW:
        for place in range(1, len(data)):
            yield f"at byte {place}", cut(data, place)
