"""Files of recordings that are gzipped."""

import gzip
import io
from pathlib import Path

import pytest
from made_recordings import WHOLE

from chunkfold.recording import RecordedRead, Recording
from chunkfold.recording.unpacking import unpacked
from chunkfold.testing import StreamBuilder

BODY = StreamBuilder().text("Hel", "lo").finish().done().body


class Slow(io.BytesIO):
    """A pipe that brings one byte at a time."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 1, 1))


def test_how_it_arrives_changes_nothing() -> None:
    for content in (b"", b"d", b"\x1f", BODY):
        assert b"".join(unpacked(Slow(content))) == content
        assert b"".join(unpacked(Slow(gzip.compress(content)))) == content


def test_several_members_follow_each_other_in_bounded_pieces() -> None:
    content = bytes(range(256)) * 2**12
    packed = gzip.compress(content) + gzip.compress(b"") + gzip.compress(content[::-1])
    pieces = list(unpacked(io.BytesIO(packed)))
    assert b"".join(pieces) == content + content[::-1]
    assert 0 < min(map(len, pieces)) <= max(map(len, pieces)) == 65536


def test_load_unpacks(tmp_path: Path) -> None:
    file = tmp_path / "packed"  # recognised by its content
    file.write_bytes(gzip.compress(WHOLE.dumps()))
    assert Recording.load(file) == WHOLE
    file.write_bytes(gzip.compress(BODY))
    assert Recording.load(file).body == BODY
    file.write_bytes(gzip.compress(BODY)[:-10])
    with pytest.raises(ValueError, match="gzip: the data ends too early"):
        Recording.load(file)
    assert Recording.loads(gzip.compress(BODY)).reads == (RecordedRead(0.0, gzip.compress(BODY)),)
