"""An answer without a server: the same bytes, pauses and faults, from memory.

    stream = ChatCompletionStream(FakeResponse(builder.answer(first=2.0), clock=clock), clock=clock)

Use a `FakeProvider` for everything that needs a socket: framing, TLS, closing and reusing connections.
"""

import math
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chunkfold.testing.answers import Answer, Answerish, Raw, all_headers, as_answer, sent_pieces, visible_ending
from chunkfold.testing.pacing import ManualClock

_CUT: Final = "peer closed connection without sending complete message body (incomplete chunked read)"
_RESET: Final = "connection reset by peer"
_SILENT: Final = "the read operation timed out"
_WINDOW: Final = zlib.MAX_WBITS | 32  # a gzip or a zlib header


@dataclass(frozen=True, slots=True)
class Faults:
    """The exceptions for faults of a connection: each is called with a message."""

    cut: Callable[[str], Exception] = ConnectionAbortedError
    reset: Callable[[str], Exception] = ConnectionResetError
    timeout: Callable[[str], Exception] = TimeoutError


class Playback:
    """The body of an answer as it is sent, for `for` and `async for`; it can be iterated repeatedly.

    `FakeResponse` describes the arguments; `faults` are the exceptions to raise. With `decompress` the reads are
    decompressed, and those that give nothing are left out.

    Raises:
        ValueError: Only a socket can send that answer: it contains a `Raw`, has no framing, or has trailers or
            interim responses.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        clock: ManualClock | None = None,
        read_timeout: float | None = None,
        faults: Faults | None = None,
        decompress: bool = False,
    ) -> None:
        sent = [*sent_pieces(answer)]
        self._pieces = [piece for piece in sent if not isinstance(piece, Raw)]
        if answer.framing == "raw" or len(self._pieces) < len(sent):
            raise ValueError("answer: expected one with a framing and without Raw, which only a FakeProvider can send")
        if answer.trailers or answer.interim:
            raise ValueError("answer: expected one without trailers and interim, which only a FakeProvider can send")
        self._ending = visible_ending(answer)
        self._clock = clock
        self._read_timeout = math.inf if read_timeout is None else read_timeout
        self._faults = faults or Faults()
        self._decompress = decompress

    def __iter__(self) -> Iterator[bytes]:
        """The reads."""
        for read in self._reads():
            if isinstance(read, bytes):
                yield read
            else:
                time.sleep(read)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The same, on any event loop."""
        return _AsyncReads(self._reads())

    def _reads(self) -> Iterator[bytes | float]:
        """The reads, decoded, and the pauses that take real time."""
        decode = zlib.decompressobj(wbits=_WINDOW).decompress if self._decompress else bytes
        for step in self._steps():
            if isinstance(step, bytes):
                if data := decode(step):
                    yield data
            elif self._clock:
                self._clock.advance(step)
            else:
                yield step

    def _steps(self) -> Iterator[bytes | float]:
        """Bytes, and pauses that end; a pause longer than the read timeout is a timeout. Faults come last.

        An endless pause takes time only on a clock: a test need not wait for a timeout that is certain.
        """
        open_end = [math.inf] if self._ending == "open" else []
        for piece in (*self._pieces, *open_end):
            if isinstance(piece, bytes) or piece < self._read_timeout:
                yield piece
            else:
                if self._read_timeout < math.inf and (piece < math.inf or self._clock is not None):
                    yield self._read_timeout
                raise self._faults.timeout(_SILENT)
        if self._ending == "reset":
            raise self._faults.reset(_RESET)
        if self._ending == "cut":
            raise self._faults.cut(_CUT)


class _AsyncReads(AsyncIterator[bytes]):
    """Reads of a playback; no async generator, as event loops warn of those that are not read to their end."""

    def __init__(self, reads: Iterator[bytes | float]) -> None:
        self._reads = reads

    async def __anext__(self) -> bytes:
        for read in self._reads:
            if isinstance(read, bytes):
                return read
            import anyio  # httpx and httpx2 bring it

            await anyio.sleep(read)
        raise StopAsyncIteration


class FakeResponse:
    """An answer as a response that `ChatCompletionStream` and `AsyncChatCompletionStream` can read.

    Args:
        answer: An `Answer`, a `StreamBuilder`, or the bytes of a body, whole or in a list with pauses.
        clock: The clock that pauses advance; None to really wait.
        read_timeout: Seconds after which a pause is a timeout. An endless pause always is one, and at once.

    Attributes:
        status_code: The HTTP status.
        headers: By lower-case name.
        is_closed: Whether it was closed.

    Raises:
        TypeError: It is not an answer.
        ValueError: Only a socket can send that answer.
    """

    def __init__(
        self,
        answer: Answerish,
        *,
        clock: ManualClock | None = None,
        read_timeout: float | None = None,
    ) -> None:
        sent = as_answer(answer)
        self.status_code: int = sent.status
        self.headers: Mapping[str, str] = all_headers(sent)
        self.is_closed: bool = False
        is_compressed = self.headers.get("content-encoding", "").lower() in ("gzip", "deflate")
        self._playback = Playback(sent, clock=clock, read_timeout=read_timeout, decompress=is_compressed)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} [{self.status_code}]>"

    def iter_bytes(self) -> Iterator[bytes]:
        """The body, decoded, read by read."""
        return iter(self._playback)

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The same for an async stream."""
        return aiter(self._playback)

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self.iter_bytes())

    async def aread(self) -> bytes:
        """The whole body."""
        return b"".join([data async for data in self.aiter_bytes()])

    def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.is_closed = True
