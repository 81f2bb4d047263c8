"""A response whose status is not 2xx: its body is no stream, but tells why, and is read in bounded size and time."""

from collections.abc import Mapping
from typing import Final

from chunkfold.endings import exceeded
from chunkfold.errors import APIStatusError
from chunkfold.payload import error_from_response

MAX_ERROR_BODY: Final = 64 * 2**10  # bytes


class Refusal:
    """Gather the body of a refused request.

    Args:
        status_code: The response's status.
        headers: Its headers.
        seconds: How long its body may take, counted from the request; None for no limit.
    """

    def __init__(self, status_code: int, headers: Mapping[str, str], seconds: float | None) -> None:
        self._status_code = status_code
        self._headers = headers
        self._seconds = seconds
        self._body = bytearray()

    def feed(self, data: bytes | bytearray | memoryview, seconds: float) -> bool:
        """Take the next bytes, that came so many seconds after the request; return whether that is enough."""
        self._body += data
        out_of_time = self._seconds is not None and seconds > self._seconds
        return out_of_time or len(self._body) > MAX_ERROR_BODY

    def error(self) -> APIStatusError:
        """The error that what came stands for; where its body was longer than is read, the limit is its cause."""
        error = error_from_response(self._status_code, self._headers, bytes(self._body[:MAX_ERROR_BODY]))
        if len(self._body) > MAX_ERROR_BODY:
            error.__cause__ = exceeded("max_error_body", MAX_ERROR_BODY)
        return error
