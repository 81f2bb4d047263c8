"""How a stream can end, and what is said of each way."""

from enum import StrEnum
from typing import Final

from chunkfold.errors import (
    IncompleteStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    StreamInterruptedError,
    excerpt,
)

_BODY_EXCERPT: Final = 1024
_COMMON_TYPES: Final = frozenset({"application/json", "text/event-stream", "text/html", "text/plain", "text/xml"})


class StreamEnd(StrEnum):
    """How a stream ended."""

    FINISHED = "finished"
    DONE = "done"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    FAILED = "failed"
    INVALID = "invalid"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    CLOSED = "closed"

    @property
    def complete(self) -> bool:
        """Whether the message is whole: true for `finished` and `done` alone."""
        return self in (StreamEnd.FINISHED, StreamEnd.DONE)


def truncated() -> IncompleteStreamError:
    """The body ended cleanly, but too early."""
    msg = "the body ended before the stream was complete: no [DONE], and a choice without a finish reason"
    return IncompleteStreamError(msg, end=StreamEnd.TRUNCATED)


def empty(*, done: bool) -> IncompleteStreamError:
    """Nothing came, with or without `[DONE]`."""
    msg = "the stream ended without any output" + (" but [DONE]" if done else "")
    return IncompleteStreamError(msg, end=StreamEnd.EMPTY)


def interrupted(exc: BaseException) -> StreamInterruptedError:
    """The transport raised; its exception is the cause."""
    told = str(exc).partition("bytearray(")[0].rstrip(": ")  # h11 quotes what it could not read: it may be a secret
    msg = f"the transport failed before the stream was complete: {excerpt(told or type(exc).__name__)}"
    error = StreamInterruptedError(msg, end=StreamEnd.INTERRUPTED)
    error.__cause__ = exc
    return error


def exceeded(limit: str, value: int) -> LimitExceededError:
    """The limit of that name was passed."""
    unit = "characters of output, and about as much beside it" if limit == "max_output_size" else "bytes"
    msg = f"expected at most {value} {unit}, received more ({limit})"
    return LimitExceededError(msg, limit=limit, value=value)


def _kind_of(content_type: str | None) -> str:
    """The content type in words, if it is one of the common ones: a header's value has no place in a message."""
    if content_type is None:
        return "without a content type"
    kind = content_type.partition(";")[0].strip().lower()
    return f"content type {kind}" if kind in _COMMON_TYPES else "another content type"


def not_an_event_stream(body: bytes, status_code: int | None, content_type: str | None) -> NotAnEventStreamError:
    """The body is something else."""
    told = f"status {status_code}, {_kind_of(content_type)}"
    shown = excerpt(body[:_BODY_EXCERPT].decode("utf-8", "replace"))
    return NotAnEventStreamError(
        f"expected an event stream, received another body ({told}): {shown}",
        status_code=status_code,
        content_type=content_type,
        body=body[:_BODY_EXCERPT],
    )
