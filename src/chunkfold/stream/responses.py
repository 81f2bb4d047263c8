"""What the streams need to know about responses: what is read of them, their encodings, and how to close them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

from chunkfold.errors import LimitExceededError, exceeded
from chunkfold.parser.limits import layers_error
from chunkfold.wire.headers import BOUNDED_ENCODINGS, Headers, encodings_in

MAX_EXPANSION: Final = 100  # decoded bytes for each received byte
_EXPANSION_ALLOWED: Final = 32 * 2**20  # bytes, before the ratio is checked


class Response(Protocol):
    """The attributes of a response that are read, besides its bytes."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Any:
        """The headers, a case-insensitive mapping."""
        ...


class SyncResponse(Response, Protocol):
    """A response of a sync client, such as those of httpx and httpx2."""

    def iter_bytes(self) -> Iterator[bytes]:
        """The decoded body, read by read."""
        ...

    def close(self) -> None:
        """Close the connection, or return it to the pool."""
        ...


class AsyncResponse(Response, Protocol):
    """A response of an async client, such as those of httpx and httpx2."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decoded body, read by read."""
        ...

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        ...


def encoding_error(response: Any, encodings: list[str]) -> LimitExceededError | None:
    """The error if the encodings of a response are not safe, found before anything is decoded; else None.

    Gzip yields at most a thousand times the 64 KiB that a client reads at once. Newer encodings have no such bound, so
    they must have been requested.
    """
    if (error := layers_error(encodings)) is not None:
        return error
    if BOUNDED_ENCODINGS.issuperset(encodings):
        return None
    try:
        asked = response.request.headers
    except (AttributeError, RuntimeError):  # a response that was made by hand
        return None
    known = set(encodings_in(Headers(asked).get("accept-encoding")))
    if known.issuperset(encodings) or "*" in known:
        return None
    return exceeded("max_content_encodings", 0, "content encodings that were not requested")


def check_source(source: object, method: str) -> None:
    """Check that a source is read as its stream reads, sync or async; a `TypeError` if it is not.

    The response of a client of the other kind has the method too, and would look like a transport that failed.
    """
    received = type(source).__name__
    is_async = method == "aiter_bytes"
    own, other = ("__aiter__", "__iter__") if is_async else ("__iter__", "__aiter__")
    if hasattr(source, method):
        missing = [name for name in ("status_code", "headers") if not hasattr(source, name)]
        if missing:
            raise TypeError(f"source: expected a response with {' and '.join(missing)}, received {received}")
        body = getattr(source, "stream", None)
        if getattr(source, "is_closed", False) or hasattr(body, own) or not hasattr(body, other):
            return  # closed: its body may have been read
        received = f"the {received} of {'a sync' if is_async else 'an async'} client"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        received += "" if is_async else ": pass a whole body as [body]"
    elif hasattr(source, own) and not isinstance(source, str):
        return
    expected = "an async response or async iterable of bytes" if is_async else "a response or an iterable of bytes"
    raise TypeError(f"source: expected {expected}, received {received}")


def expansion_error(received: int | None, decoded: int) -> LimitExceededError | None:
    """The error if a compressed body expands too much, given its bytes (received: None if not known); else None."""
    if received is None or decoded <= max(_EXPANSION_ALLOWED, MAX_EXPANSION * received):
        return None
    return exceeded("max_expansion", MAX_EXPANSION)


def raised(exc: Exception) -> bytes:
    """Raise an exception where bytes are expected."""
    raise exc


def close_quietly(source: Any) -> None:
    """Close a source, if it can be closed; what it raises is ignored, since how the stream ended is already known."""
    with suppress(Exception):
        if hasattr(source, "close"):  # else two errors are raised, which take a fiftieth of a short stream
            source.close()


async def aclose_quietly(source: Any) -> None:
    """The same for an async source."""
    with suppress(Exception):
        if hasattr(source, "aclose"):
            await source.aclose()
