"""Split large reads into slices, because holding many chunks at once is slower."""

from collections.abc import Iterator
from typing import Final

SLICE: Final = 8192  # bytes, which is some 25 chunks
LARGE_SLICE: Final = 2 * SLICE  # where no chunks are made of it
_LONGEST_SLICE: Final = 4 * SLICE


def slices(data: bytes, *, large: bool = False) -> Iterator[bytes]:
    """Cut a large read into slices, so that few chunks are held at a time: many cost more.

    It cuts at the end of a block if one is near, because such slices are read fastest; else anywhere. The first slice
    ends with the first block, which may have begun in an earlier read.

    Args:
        data: The read.
        large: Whether no chunks are made of them, so that the slices may be larger.
    """
    begin = least = 0
    while begin < len(data):
        end = data.find(b"\n\n", begin + least, begin + _LONGEST_SLICE) + 2
        if end < 2:
            end = begin + _LONGEST_SLICE
        yield data[begin:end]
        begin, least = end, LARGE_SLICE if large else SLICE
