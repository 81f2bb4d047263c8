"""Split large reads into slices, because holding many chunks at once is slower."""

from collections.abc import Iterator
from typing import Final

SLICE: Final = 8192  # bytes, which is some 25 chunks
_LONGEST_SLICE: Final = 4 * SLICE


def slices(data: bytes) -> Iterator[bytes]:
    """Cut a large read into slices, so that few chunks are held at a time: many cost more.

    It cuts at the end of a block if one is near, because such slices are read fastest; else anywhere. The first slice
    ends with the first block, which may have begun in an earlier read.
    """
    begin = least = 0
    blank = b"\n\n" if data.find(b"\r\n\r\n", 0, _LONGEST_SLICE) < 0 else b"\r\n\r\n"
    while begin < len(data):
        place = data.find(blank, begin + least, begin + _LONGEST_SLICE)
        end = begin + _LONGEST_SLICE if place < 0 else place + len(blank)
        yield data[begin:end]
        begin, least = end, SLICE
