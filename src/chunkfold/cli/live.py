"""Ask a provider, and inspect the answer as it arrives, without the request's secrets.

Providers quote keys in their errors. So that no message, excerpt or delta can hold one, not even a part of one, each
character of a key is replaced by a star before the parser reads it.
"""

import math
import re
import socket
import time
from collections.abc import Callable
from typing import Final

import httpx

from chunkfold.cli.frames import Frame, Inspection
from chunkfold.cli.request import ChatRequest
from chunkfold.parser.options import DEFAULT_MAX_EVENT_SIZE, ParserOptions
from chunkfold.recording import RecordedTransportError
from chunkfold.recording.credentials import secrets_of
from chunkfold.recording.redaction import Redactor
from chunkfold.stream.network import DeadlineReachedError, read_to_end, reads_until

_LONGEST_REACTION: Final = 1.0  # seconds that a provider has to notice that its client left
_IS_WHOLE: Final = re.compile(rb'\[DONE\]|"finish_reason":\s?"')


class LineRedactor:
    """Overwrites secrets in a body that arrives in pieces, a line at a time, so that no cut can hide one.

    Holding back an incomplete line delays nothing: an event is reported when its last line has ended. At most as much
    is held back as the parser accepts in one line.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete now."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._held += data
        if not end and len(self._held) <= DEFAULT_MAX_EVENT_SIZE:
            return b""
        return self._taken(len(self._held) - len(data) + end if end else len(self._held))

    def close(self) -> bytes:
        """The rest, which no line end follows."""
        return self._taken(len(self._held))

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return self._redactor.clean(taken)


class LiveAnswer:
    """Reads the response to a request that was sent at `started`, by the monotonic clock, and inspects it."""

    def __init__(
        self, request: ChatRequest, response: httpx.Response, started: float, on_frame: Callable[[Frame], object]
    ) -> None:
        self._response = response
        self._reads = response.iter_bytes()
        self._started = started
        self._redactor = Redactor(secrets_of(response))
        given: ParserOptions = {
            **request.parser_options,
            "status_code": response.status_code,
            "headers": {name: self._redactor.clean_text(value) for name, value in response.headers.items()},
            "started": 0.0,
            "clock": self._now,
        }
        self.inspection = Inspection(on_frame, **given)
        self.inspection.parser.timing.headers = self._now()

    def read(self, is_enough: Callable[[Inspection], bool] = lambda _: False) -> None:
        """Read to the end of the stream, as every client should; after that the body has 100 ms to end, too.

        After each read `is_enough` is asked whether to leave.
        """
        inspection, lines = self.inspection, LineRedactor(self._redactor)
        while inspection.parser.end is None:
            failure: Exception | None = None
            try:
                data = next(self._reads, None)
            except Exception as error:  # noqa: BLE001 - whatever a transport raises, it interrupted the stream
                data, failure = None, error
            at = self._now()
            inspection.feed(lines.close() if data is None else lines.feed(data), at)
            if failure is not None:
                told = self._redactor.clean_text(f"{type(failure).__name__}: {failure}")
                inspection.interrupt(RecordedTransportError(told), at)
            elif data is None:
                inspection.close(at)
            elif is_enough(inspection):
                inspection.leave(at)
        if inspection.parser.end.complete and not self._response.is_closed:
            read_to_end(self._response, self._reads)

    def hang_up(self) -> float | None:
        """Close this side of the connection, and see whether the provider notices.

        Returns:
            The seconds until it ended the answer early; infinity if it did not within one second, and None if the
            answer was already complete.
        """
        if self._response.is_closed:
            return None
        begun, rest = time.monotonic(), list[bytes]()
        network_stream = self._response.extensions["network_stream"]
        with reads_until(self._response, begun + _LONGEST_REACTION) as is_bounded:
            if not is_bounded:
                return math.inf
            try:
                socket.socket.shutdown(network_stream.get_extra_info("socket"), socket.SHUT_WR)  # FIN alone, below TLS
                rest.extend(self._reads)
            except (httpx.TransportError, OSError):
                pass  # expected if the provider notices
            except DeadlineReachedError:
                return math.inf
            finally:
                network_stream.close()  # nothing can be sent over it
        return None if _IS_WHOLE.search(b"".join(rest)) else time.monotonic() - begun

    def _now(self) -> float:
        return time.monotonic() - self._started
