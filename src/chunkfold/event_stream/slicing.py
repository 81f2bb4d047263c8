"""Split large reads into slices, because holding many chunks at once is slower."""

from collections.abc import Iterator
from typing import Final

SLICE: Final = 4096  # bytes, which is some 12 chunks
_LONGEST_SLICE: Final = 8 * SLICE


def slices(data: bytes) -> Iterator[bytes]:
    """Cut a large read into slices, so that few chunks are held at a time: many cost more.

    At the ends of blocks, which is what reading them is fastest with, if one is near; else anywhere.
    """
    begin = 0
    while begin < len(data):
        end = data.find(b"\n\n", begin + SLICE, begin + _LONGEST_SLICE) + 2
        if end < 2:
            end = begin + _LONGEST_SLICE
        yield data[begin:end]
        begin = end
