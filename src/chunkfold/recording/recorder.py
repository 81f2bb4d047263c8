"""Record a response while it is read."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any

from chunkfold.recording.recording import RecordedEnd, RecordedRead, Recording
from chunkfold.recording.redaction import Redactor, bare_url, kept_headers, secrets_in_request


class Recorder:
    """A response that remembers what was read of it, and when; everything else is the response's own.

    While it records, a read costs one reading of the clock. The recording is made when it is asked for: that is when
    secrets are overwritten, also where two reads cut them in half.

    Args:
        response: A response of httpx, httpx2 or their kin, whose body nobody has read yet.
        secrets: What must not be stored, besides what the request's headers and URL tell.
        started: What the clock said when the request was sent; now, if not given.
        clock: Seconds from any fixed point.
    """

    def __init__(
        self,
        response: Any,
        *,
        secrets: Iterable[str] = (),
        started: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        now = clock()
        self._response = response
        self._clock = clock
        self._started = now if started is None else started
        self._headers_at = None if started is None else now - started
        self._reads: list[RecordedRead] = []
        self._end: RecordedEnd = "left"
        self._ended_at: float | None = None
        self._error = ""
        self._secrets = set(secrets)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a response has."""
        return getattr(self._response, name)

    def iter_bytes(self) -> Iterator[bytes]:
        """The response's body, recorded as it comes."""
        try:
            for data in self._response.iter_bytes():
                self._take(data)
                yield data
            self._conclude("body")
        except Exception as error:
            self._conclude("error", error)
            raise

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The same for an async response."""
        try:
            async for data in self._response.aiter_bytes():
                self._take(data)
                yield data
            self._conclude("body")
        except Exception as error:
            self._conclude("error", error)
            raise

    @property
    def recording(self) -> Recording:
        """What was recorded so far, without secrets."""
        request = getattr(self._response, "request", None)
        url = str(getattr(request, "url", "") or getattr(self._response, "url", ""))
        redactor = Redactor(self._secrets | secrets_in_request(url, dict(getattr(request, "headers", {}))))
        headers = {name: redactor.clean_text(value) for name, value in kept_headers(self._response.headers).items()}
        return Recording(
            reads=tuple(_without_secrets(self._reads, redactor)),
            status_code=self._response.status_code,
            headers=headers,
            url=redactor.clean_text(bare_url(url)),
            headers_at=self._headers_at,
            end=self._end,
            ended_at=self._ended_at,
            error=self._error,
        )

    def _take(self, data: bytes) -> None:
        self._reads.append(RecordedRead(self._clock() - self._started, bytes(data)))

    def _conclude(self, end: RecordedEnd, error: Exception | None = None) -> None:
        self._end = end
        self._ended_at = self._clock() - self._started
        self._error = "" if error is None else type(error).__name__


def _without_secrets(reads: list[RecordedRead], redactor: Redactor) -> Iterator[RecordedRead]:
    """The reads, cleaned as the one body that they are, and cut as before."""
    body = redactor.clean(b"".join(read.data for read in reads))
    bounds = pairwise(accumulate((len(read.data) for read in reads), initial=0))
    return (RecordedRead(read.at, body[start:end]) for read, (start, end) in zip(reads, bounds, strict=True))
