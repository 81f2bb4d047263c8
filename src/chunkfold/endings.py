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
    msg = f"the transport failed before the stream was complete: {excerpt(str(exc) or type(exc).__name__)}"
    error = StreamInterruptedError(msg, end=StreamEnd.INTERRUPTED)
    error.__cause__ = exc
    return error


def exceeded(limit: str, value: int) -> LimitExceededError:
    """The limit of that name was passed."""
    unit = "bytes" if limit == "max_event_size" else "characters"
    msg = f"expected at most {value} {unit}, received more ({limit})"
    return LimitExceededError(msg, limit=limit, value=value)


def not_an_event_stream(body: bytes, status_code: int | None, content_type: str | None) -> NotAnEventStreamError:
    """The body is something else."""
    told = f"status {status_code}, content type {excerpt(content_type)}"
    shown = excerpt(body[:_BODY_EXCERPT].decode("utf-8", "replace"))
    return NotAnEventStreamError(
        f"expected an event stream, received another body ({told}): {shown}",
        status_code=status_code,
        content_type=content_type,
        body=body[:_BODY_EXCERPT],
    )
