"""Large reads are cut where blocks end, whichever ends their lines have."""

import pytest

from chunkfold.event_stream.lines import SLICE, slices


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_large_read_is_cut_where_blocks_end(end: bytes) -> None:
    data = b"".join(b"data: %b%b" % (b"x" * (place % 300), 2 * end) for place in range(1000))
    pieces = [*slices(data)]
    assert b"".join(pieces) == data
    assert all(piece.endswith(2 * end) for piece in pieces)
    assert len(pieces) > 2
    assert all(SLICE < len(piece) < 3 * SLICE for piece in pieces[1:-1])


@pytest.mark.parametrize("data", [b"x" * 100_000, b"\r\n" * 50_000, b"\r\n\r\n" + b"data: a\n\n" * 10_000])
def test_whatever_is_in_it_no_slice_is_large(data: bytes) -> None:
    pieces = [*slices(data)]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= 4 * SLICE
