"""Read the body of a response whose status is not 2xx, in bounded size and time: the body has the reason.

The body is fed like the events of a stream, see `streamed_body`, but yields no chunks. It has the same deadlines, or,
if none is set, five seconds from its first bytes.
"""

from collections.abc import Mapping
from typing import Any, Final

from chunkfold.errors import ChunkfoldError, InvalidStreamError
from chunkfold.parser.endings import Stop
from chunkfold.wire.bodies import MAX_ERROR_BODY, error_from_response

MAX_BODY_SECONDS: Final = 5.0  # from the first bytes of the body, unless a deadline is given


class RefusedBody:
    """Read the body of a refused request."""

    has_callback = False
    has_progress = False
    keep_alives = 0
    foreign: tuple[int, str] | None = None

    def __init__(self, status_code: int, headers: Mapping[str, str]) -> None:
        self.chunks: list[Any] = []  # never any
        self.stop: Stop | None = None  # why no more bytes are taken
        self.error: ChunkfoldError | None = None  # in the body, once nothing more is taken
        self._status_code = status_code
        self._headers = headers
        self._body = bytearray()

    def feed(self, data: bytes, *, folding: bool) -> None:
        """Take the next bytes, up to the limit."""
        del folding
        self._body += data
        if len(self._body) > MAX_ERROR_BODY:
            self.end(Stop.ERROR)

    def notify_callback(self) -> None:
        """This kind of body has no callback."""

    def close(self, exc: BaseException | None = None) -> None:
        """The body has no more bytes."""
        self.end(Stop.ERROR, exc if isinstance(exc, InvalidStreamError) else None)

    def end(self, stop: Stop, error: ChunkfoldError | None = None) -> None:
        """Take nothing more. The error is always the one for the status; any other error becomes its cause."""
        self.stop = Stop.LEFT if stop is Stop.LEFT else Stop.ERROR
        self.error = error_from_response(self._status_code, self._headers, self._body)
        if error is not None:
            self.error.__cause__ = error
