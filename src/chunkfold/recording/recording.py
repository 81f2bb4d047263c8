"""One recorded response, as a value; and as a response that streams can read again."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from chunkfold.brief import BriefRepr

RecordedEnd: TypeAlias = Literal["body", "error", "left"]


class RecordedRead(NamedTuple):
    """What one read of the body gave.

    Attributes:
        at: When, in seconds since the request was sent.
        data: The bytes.
    """

    at: float
    data: bytes


class RecordedTransportError(Exception):
    """What the transport raised when the stream was recorded; of it only the type's name is stored."""


@dataclass(frozen=True, slots=True, repr=False)
class Recording(BriefRepr):
    """The body of a response, read by read, and how it ended.

    Attributes:
        reads: What was read, in order, cut as it came.
        status_code: The response's status.
        headers: Those of its headers that say something about a stream, by lower-case names.
        url: Where the request went, without user, query and fragment; "" if not known.
        headers_at: When the response began, in seconds since the request was sent; None if not known.
        end: How reading ended: `body` (the body ended), `error` (the transport raised), `left` (nobody read on).
        ended_at: When, in seconds since the request was sent; None if not known.
        error: The name of the type of what the transport raised, "" if nothing.
    """

    reads: tuple[RecordedRead, ...]
    status_code: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers_at: float | None = None
    end: RecordedEnd = "body"
    ended_at: float | None = None
    error: str = ""

    @property
    def body(self) -> bytes:
        """The whole body, or as much of it as was read."""
        return b"".join(read.data for read in self.reads)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file: a recording, or a plain body, which counts as read at once.

        Raises:
            ValueError: It is a recording with a version or a line that this library does not know.
            OSError: It cannot be read.
        """
        from chunkfold.recording.format import loads

        loaded: Self = loads(Path(path).read_bytes(), cls)
        return loaded

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file; the format is in `chunkfold.recording.format`."""
        from chunkfold.recording.format import dumps

        Path(path).write_bytes(dumps(self))

    def iter_bytes(self) -> Iterator[bytes]:
        """The reads at once, then what the transport raised."""
        for read in self.reads:
            yield read.data
        self.raise_error()

    def iter_paced(self, speed: float = 1.0) -> Iterator[bytes]:
        """The reads at their times, so many times faster; then what the transport raised."""
        started = time.monotonic()
        for read in self.reads:
            time.sleep(max(0.0, read.at / speed - (time.monotonic() - started)))
            yield read.data
        self.raise_error()

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The same for async streams."""
        for data in self.iter_bytes():
            yield data

    def close(self) -> None:
        """Nothing to close: this makes it a response."""

    async def aclose(self) -> None:
        """Nothing to close: this makes it a response."""

    def raise_error(self) -> None:
        """Raise what stands for the transport's error, if there was one.

        Raises:
            RecordedTransportError: The transport had raised.
        """
        if self.end == "error":
            raise RecordedTransportError(self.error)
