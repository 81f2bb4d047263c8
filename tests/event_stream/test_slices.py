"""Large reads are cut where blocks end, whichever ends their lines have."""

import pytest

from chunkfold.event_stream.lines import SLICE, slices


@pytest.mark.parametrize("data", [b"x" * 100_000, b"\r\n" * 50_000, b"\r\n\r\n" + b"data: a\n\n" * 10_000])
def test_whatever_is_in_it_no_slice_is_large(data: bytes) -> None:
    pieces = [*slices(data)]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= 4 * SLICE
