"""Errors as providers send them, and what the library reads from them."""

from typing import Any

from parsed_bodies import parsed

from chunkfold import APIError, ServerSentEvent, parse_payload
from chunkfold.testing import HEAD, choice, event
from chunkfold.testing.wire import compact_json

ANY: Any = ...  # what the contract does not say


def chunk(content: str | None = None, finish_reason: str | None = None, **top: Any) -> dict[str, Any]:
    fields = {} if content is None else {"content": content}
    return {**HEAD, "choices": [choice(finish_reason, **fields)], **top}


def data(payload: Any, name: str = "message") -> bytes:
    """An event; bytes are its data as they are, all else is JSON, text too."""
    return event(payload if isinstance(payload, bytes) else compact_json(payload), name)


def failure(payload: Any) -> APIError:
    """The error of one event."""
    value = payload if isinstance(payload, bytes) else compact_json(payload)
    error = parse_payload(ServerSentEvent(value)).error
    assert isinstance(error, APIError), error
    return error


def failure_of(body: bytes) -> APIError:
    """The error of a body."""
    error = parsed(body).error
    assert isinstance(error, APIError)
    return error


TRANSIENT = (408, 409, 429, 498, 500, 502, 503, 504, 529)

LIMITED = {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
NO_MESSAGE = "the provider sent an error without a message"
INNER = {"error": {"code": 429, "message": "slow down", "details": [{"retryDelay": "7s"}]}}
