"""One recorded response, as a value and as a response that streams can read again."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Final

from chunkfold.arguments import check_instance
from chunkfold.excerpts import ShortRepr
from chunkfold.recording.format import RecordedEnd, RecordedRead, dumps, loads
from chunkfold.recording.unpacking import unpacked

_LONGEST_SLEEP: Final = 86_400.0  # seconds; systems refuse some longer ones


class RecordedTransportError(Exception):
    """Stands for the exception that the transport raised when the stream was recorded; only its type's name is stored.

    It is also raised at the end of a recording of a stream that was left, if you continue to read there.
    """


@dataclass(frozen=True, slots=True, repr=False)
class Recording(ShortRepr):
    """The body of a response, read by read, and how it ended.

    It can be read like a response, by sync and async streams, without waiting. If the stream was left when it was
    recorded, a stream that reads the recording to its end is interrupted there; `replay` gives the original ending.

    Attributes:
        reads: The reads, in order, with their original boundaries.
        status_code: The response's status.
        headers: The headers that matter for a stream, by lower-case names.
        url: The URL of the request, without user, query and fragment; "" if not known.
        headers_at: When the response began, in seconds since the request was sent; None if not known.
        end: How reading ended: `body` (the body ended), `error` (the transport raised), `left` (not read further).
        ended_at: When reading ended, in seconds since the request was sent; None if not known.
        error: The name of the type of the transport's exception, "" if there was none.
        progress_timeout: The limit that the stream was read with, in seconds; None if there was none, or it is not
            known. `replay` applies it, so that a stream that stalled does so again.
    """

    reads: tuple[RecordedRead, ...]
    status_code: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers_at: float | None = None
    end: RecordedEnd = "body"
    ended_at: float | None = None
    error: str = ""
    progress_timeout: float | None = None

    @property
    def body(self) -> bytes:
        """The whole body, or as much of it as was read."""
        return b"".join(read.data for read in self.reads)

    @property
    def seconds(self) -> float:
        """The duration, from the request to the end or to the last known time."""
        times = (self.headers_at, *(read.at for read in self.reads[-1:]), self.ended_at)
        return max((at for at in times if at is not None), default=0.0)

    @property
    def is_timed(self) -> bool:
        """Whether its times are known; a plain body has none, and counts as read at 0 seconds."""
        return self.seconds > 0

    @staticmethod
    def load(path: str | PathLike[str]) -> "Recording":
        """Read a file: a recording, or a plain body, which counts as read at once. Either may be gzipped.

        Raises:
            ValueError: It is a recording whose version or one of whose lines is unknown, or damaged gzip.
            OSError: It cannot be read.
        """
        with Path(path).open("rb") as file:
            return Recording.loads(b"".join(unpacked(file)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file; the format is in `chunkfold.recording.format`.

        Raises:
            OSError: It cannot be written.
        """
        Path(path).write_bytes(self.dumps())

    @staticmethod
    def loads(data: bytes) -> "Recording":
        """Read the content of a file, which is not unpacked; see `load`.

        Raises:
            ValueError: It is a recording whose version or one of whose lines is unknown.
        """
        check_instance("data", data, (bytes, bytearray), "bytes")
        return Recording(**loads(bytes(data)))

    def dumps(self) -> bytes:
        """The bytes of its file."""
        return dumps({each.name: getattr(self, each.name) for each in fields(self)})

    def paced(self, speed: float = 1.0) -> Iterator[RecordedRead]:
        """Yield the reads at their times, `speed` times faster; 0 for all at once. Waits for the end, too.

        Raises:
            ValueError: The speed is negative or NaN.
        """
        if not speed >= 0:
            raise ValueError(f"speed: expected 0 or more, received {speed}")
        return self._paced(speed)

    def iter_paced(self, speed: float = 1.0) -> Iterator[bytes]:
        """Yield the bytes of the reads at their times, then raise the transport's exception; see `paced`."""
        for read in self.paced(speed):
            yield read.data
        if self.end == "error":
            raise RecordedTransportError(self.error)
        if self.end == "left":
            raise RecordedTransportError("the recording ends here: the stream was not read further")

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the reads without waiting, then raise the transport's exception."""
        return self.iter_paced(0)

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The same for async streams."""
        return _AsyncBytes(self.iter_bytes())

    def close(self) -> None:
        """Nothing to close: this makes it a response."""

    async def aclose(self) -> None:
        """Nothing to close: this makes it a response."""

    def _paced(self, speed: float) -> Iterator[RecordedRead]:
        started = time.monotonic()

        def wait(at: float) -> None:
            seconds = at / speed - (time.monotonic() - started) if speed else 0.0
            if seconds > 0:
                time.sleep(min(seconds, _LONGEST_SLEEP))

        for read in self.reads:
            wait(read.at)
            yield read
        wait(self.seconds)


class _AsyncBytes(AsyncIterator[bytes]):
    """The items of an iterator, for `async for`; not a generator, so that leaving early leaves none behind."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source = source

    async def __anext__(self) -> bytes:
        for data in self._source:
            return data
        raise StopAsyncIteration
