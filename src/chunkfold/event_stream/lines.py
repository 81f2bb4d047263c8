"""Split bytes: into lines, many of them in one step, and large reads into slices."""

import re
from collections.abc import Iterator
from typing import Final

CR, LF = 0x0D, 0x0A  # as numbers: `in` finds these in bytes fastest
# Lines that are taken in one step: `data` lines, lines that mean nothing, or a line with its repetitions, of which only
# the first may have to be kept. What may be a field, nearly `data`, JSON, blank or behind a BOM is taken alone.
RUN: Final = re.compile(
    rb"(?P<data>(?:data(?::[^\r\n]*+)?+(?:\n|\r\n?+))++)"
    rb"|(?P<ignored>(?:(?!(?:event|id|retry|error)[:\r\n])[^\S\r\n]*+(?!(?i:data)[^\S\r\n]*+[:\r\n]|[{}\[\]\s\xef])"
    rb"[^\r\n]*+(?:\n|\r\n?+))++)"
    rb"|(?P<line>[^\r\n]*+(?:\n|\r\n?+))(?:(?P=line)(?!(?<=\r)\n)){0,1023}+"
)
_STRETCH: Final = 1024  # bytes
SLICE: Final = 8192  # bytes, which is some 25 chunks
_LONGEST_SLICE: Final = 4 * SLICE


def line_end(data: bytes) -> bytes | None:
    """The end that all lines of the data have: LF, or CRLF; None if they have different ones."""
    if CR not in data:
        return b"\n"
    count = data.count(b"\r\n")
    return b"\r\n" if data.count(b"\r") == count == data.count(b"\n") else None


def end_of_stretch(data: bytes, begin: int) -> int:
    """The end of the last whole line of some hundred bytes from `begin` on; 0 if no line ends there."""
    end = begin + _STRETCH
    # One byte less for CR: if it is that of a CRLF, its LF is found too, and is the later one.
    return max(data.rfind(b"\n", begin, end), data.rfind(b"\r", begin, end - 1)) + 1


def values_of(lines: bytes) -> bytes:
    """The values of lines that all are `data`, joined by LF."""
    if CR in lines:
        lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # The start of each line is replaced once: the replacement itself is not scanned again.
    return (b"\n" + lines[:-1]).replace(b"\ndata", b"\n").replace(b"\n:", b"\n").replace(b"\n ", b"\n")[1:]


def size_of_unfinished(line: bytearray, data_size: int) -> int:
    """How much of the limit on an event's size an unfinished line takes, with the data before it.

    Only the value of a `data` line counts, added to that data; an incomplete `data: ` counts nothing yet. So the
    verdict never shrinks as the line grows, and does not depend on where it was cut.
    """
    head, size = bytes(line[: len(b"data: ")]), len(line)
    if head.startswith(b"data:"):
        return size + data_size + 1 - len(b"data: " if head == b"data: " else b"data:")
    return 0 if b"data".startswith(head) else size


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
