"""Record a response while it is read.

While it records, a read costs one reading of the clock. The recording is created on access: then secrets are
overwritten, even if they are split over two reads.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from chunkfold.arguments import check_callable, check_time
from chunkfold.recording.credentials import request_of, secrets_of
from chunkfold.recording.format import RecordedEnd, RecordedRead
from chunkfold.recording.recording import Recording
from chunkfold.recording.redaction import Redactor, bare_url, kept_headers


class Recorder:
    """A response that records everything that is read from it, with times; all other attributes are the response's.

    It records the bytes that `iter_bytes` and `read` return, or `aiter_bytes` and `aread`, in memory.

    Args:
        response: A response of httpx, httpx2 or a similar client, whose body has not been read yet.
        secrets: Further secrets that must not be stored, besides those of the request and the response.
        started: The clock's reading when the request was sent; now, if not given.
        clock: Seconds from any fixed point.

    Raises:
        TypeError: An argument is of a wrong type, such as one string as `secrets`.
        ValueError: `started` is later than the clock's reading: it is from another clock.
    """

    # Of the response, through `__getattr__`: pyright accepts a response only if these are declared.
    status_code: int
    headers: Any

    def __init__(
        self,
        response: Any,
        *,
        secrets: Iterable[str] = (),
        started: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not hasattr(response, "iter_bytes") and not hasattr(response, "aiter_bytes"):
            raise TypeError(f"response: expected a response of httpx or httpx2, received {type(response).__name__}")
        if isinstance(secrets, str):
            raise TypeError("secrets: expected several strings, received one")
        kept: set[Any] = set(secrets)
        for secret in kept:
            if not isinstance(secret, str):  # whose value is not for the message
                raise TypeError(f"secrets: expected strings, received one of type {type(secret).__name__}")
        check_callable("clock", clock)
        check_time("started", started)
        now = clock()
        if started is not None and started > now:
            raise ValueError(f"started: expected at most {now}, the clock's reading, received {started}")
        self._response = response
        self._secrets = kept
        self._headers_at = None if started is None else now - started
        self._log = _Log(clock, now if started is None else started, latest=self._headers_at or 0.0)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._response!r}>"

    def __getattr__(self, name: str) -> Any:
        """Whatever else a response has."""
        if name == "_response":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self._response, name)

    def iter_bytes(self, *args: Any, **options: Any) -> Iterator[bytes]:
        """The response's body, recorded as it arrives."""
        return _Reads(self._log, self._response.iter_bytes(*args, **options))

    def aiter_bytes(self, *args: Any, **options: Any) -> AsyncIterator[bytes]:
        """The same for an async response."""
        return _AsyncReads(self._log, self._response.aiter_bytes(*args, **options))

    def read(self) -> bytes:
        """The whole body, recorded as one read."""
        with self._log:
            data: bytes = self._response.read()
        return self._log.take_whole(data)

    async def aread(self) -> bytes:
        """The same for an async response."""
        with self._log:
            data: bytes = await self._response.aread()
        return self._log.take_whole(data)

    def close(self) -> None:
        """Close the response; before the end of its body that is leaving it."""
        self._log.conclude("left")
        self._response.close()

    async def aclose(self) -> None:
        """The same for an async response."""
        self._log.conclude("left")
        await self._response.aclose()

    @property
    def recording(self) -> Recording:
        """The recording so far, without secrets. Each access creates it again, in 0.2 seconds for a megabyte."""
        response, log = self._response, self._log
        redactor = Redactor(self._secrets | secrets_of(response))
        url, _ = request_of(response)
        return Recording(
            reads=tuple(log.cleaned_reads(redactor)),
            status_code=response.status_code,
            headers={name: redactor.clean_text(value) for name, value in kept_headers(response.headers).items()},
            url=redactor.clean_text(bare_url(url)),
            headers_at=self._headers_at,
            end=log.end or "left",
            ended_at=log.ended_at,
            error=log.error,
        )


class _Log:
    """The reads so far. After the end nothing more is recorded, and only the first end counts.

    A read from the response is made inside `with`, which notes what it raises.
    """

    def __init__(self, clock: Callable[[], float], started: float, latest: float) -> None:
        self._clock = clock
        self._started = started
        self._latest = latest  # seconds since the request was sent
        self._reads: list[tuple[float, bytes]] = []
        self._cut_short: BaseException | None = None  # what left a read half done, such as a cancellation
        self.end: RecordedEnd | None = None
        self.ended_at: float | None = None
        self.error = ""

    def take(self, data: bytes) -> None:
        """Note the next bytes of the body, with the current time."""
        if self.end is None:
            self._reads.append((self._now(), bytes(data)))

    def take_whole(self, data: bytes) -> bytes:
        """Note the whole body, with the current time, if it was not read before."""
        if not self._reads:
            self.take(data)
        self.conclude("body")
        return data

    def conclude(self, end: RecordedEnd, error: BaseException | None = None) -> None:
        """Note the end, with the current time."""
        if self.end is None:
            self.end = end
            self.ended_at = self._now()
            self.error = "" if error is None else type(error).__name__

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _: object, raised: BaseException | None, __: object) -> None:
        """Note what a read raised. A `StopIteration` is the end, unless an interrupted read broke the source before."""
        if not isinstance(raised, Exception):
            self._cut_short = raised  # None where the source survived it
        elif isinstance(raised, StopIteration | StopAsyncIteration):
            self.conclude("body" if self._cut_short is None else "error", self._cut_short)
        else:
            self.conclude("error", raised)

    def cleaned_reads(self, redactor: Redactor) -> Iterator[RecordedRead]:
        """The reads, cleaned as the one body that they are, and cut as before."""
        reads = self._reads.copy()
        body = redactor.clean(b"".join(data for _, data in reads))
        bounds = pairwise(accumulate((len(data) for _, data in reads), initial=0))
        for (at, _), (start, end) in zip(reads, bounds, strict=True):
            yield RecordedRead(at, body[start:end])

    def _now(self) -> float:
        """Seconds since the request was sent; never fewer than before, even if the clock is set back."""
        self._latest = max(self._latest, self._clock() - self._started)
        return self._latest


@dataclass(eq=False, repr=False)
class _Reads(Iterator[bytes]):
    """The bytes of a response, noted as they are read; not a generator, so that leaving early leaves none behind."""

    _log: _Log
    _source: Any

    def __next__(self) -> bytes:
        with self._log:
            data: bytes = next(self._source)
        self._log.take(data)
        return data

    def close(self) -> None:
        """Close what is read."""
        if hasattr(self._source, "close"):
            self._source.close()


@dataclass(eq=False, repr=False)
class _AsyncReads(AsyncIterator[bytes]):
    """The same for an async response."""

    _log: _Log
    _source: Any

    async def __anext__(self) -> bytes:
        with self._log:
            data: bytes = await anext(self._source)
        self._log.take(data)
        return data

    async def aclose(self) -> None:
        """Close what is read."""
        if hasattr(self._source, "aclose"):
            await self._source.aclose()
