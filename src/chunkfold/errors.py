"""What can go wrong, as one tree.

    ChunkfoldError                  .snapshot, .emitted_output, .retryable
    ├─ APIError                     the provider said so
    │  └─ APIStatusError            an HTTP status that is not 2xx, before any stream
    ├─ InvalidStreamError           what came is not a stream of chunks
    │  ├─ NotAnEventStreamError     the body is something else
    │  ├─ InvalidChunkError         one event is no chunk
    │  └─ LimitExceededError        a limit was passed
    ├─ IncompleteStreamError        it ended before it was complete
    │  ├─ StreamInterruptedError    the transport raised
    │  └─ StreamStalledError        bytes, but no chunks; or out of time
    ├─ ParseError                   the text is not the JSON that was asked for
    └─ StreamConsumedError          iterated again after the end

Nothing else leaves a public call for what a peer sent. Messages carry at most a bounded, escaped excerpt of it.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from chunkfold.anomalies import Rule
    from chunkfold.endings import StreamEnd
    from chunkfold.models import ChatCompletion, ErrorObject

_RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429})
_NEVER_RETRYABLE_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_TRANSIENT_ERRORS: Final = ("TimeoutException", "NetworkError", "RemoteProtocolError")
_EXCERPT: Final = 200


def excerpt(value: object, limit: int = _EXCERPT) -> str:
    """At most `limit` characters of what came, quoted and escaped, fit for a message and for a terminal."""
    shown = repr(value[: limit + 1] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= limit else shown[:limit] + "..."


def escaped(text: str, limit: int = _EXCERPT) -> str:
    """At most `limit` characters of a text, escaped like an excerpt, but without quotes."""
    shown = repr(text[: limit + 1])[1:-1]
    return shown if len(shown) <= limit else shown[:limit] + "..."


class ChunkfoldError(Exception):
    """The root of everything chunkfold raises for what a stream brought.

    Attributes:
        snapshot: What had arrived, None where no stream was being read.
        emitted_output: Whether output had been handed to the caller before.
        retry_after: Seconds to wait before another try, None if nothing told.
    """

    snapshot: "ChatCompletion | None" = None
    emitted_output: bool = False
    retry_after: float | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same request may well succeed, and no output was emitted yet."""
        return is_retryable(self)

    def is_transient(self) -> bool:
        """Whether what went wrong may well be gone at the next try; `retryable` also asks for the output."""
        return False


class APIError(ChunkfoldError):
    """The provider reported an error, in any of the shapes providers use.

    Attributes:
        error: The error object, with every field that was sent.
        status_code: What the error means as an HTTP status, from the body; None if nothing tells. Never the outer 200.
        request_id: From the `x-request-id` header, if there was one.
        retry_after: Seconds to wait before another try, from the response's headers, None if they do not say.
        raw: The whole body or event data as JSON gave it (or its text).
    """

    def __init__(
        self,
        message: str,
        *,
        error: "ErrorObject | None" = None,
        status_code: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        raw: Any = None,
    ) -> None:
        super().__init__(message)
        self.error: ErrorObject = cast("ErrorObject", error)  # None only where somebody else makes the exception
        self.status_code = status_code
        self.request_id = request_id
        self.retry_after = retry_after
        self.raw = raw

    @property
    def message(self) -> str:
        """The provider's message."""
        return getattr(self.error, "message", None) or str(self)

    @property
    def code(self) -> int | str | None:
        """The error's `code`, as sent."""
        return getattr(self.error, "code", None)

    @property
    def type(self) -> str | None:
        """The error's `type`, as sent."""
        return getattr(self.error, "type", None)

    @property
    def param(self) -> str | None:
        """The error's `param`, as sent."""
        return getattr(self.error, "param", None)

    def is_transient(self) -> bool:
        """Whether what went wrong may well be gone at the next try."""
        if {str(self.code), str(self.type)} & _NEVER_RETRYABLE_CODES:
            return False
        status = self.status_code
        return status is not None and (status in _RETRYABLE_STATUS or status >= 500)


class APIStatusError(APIError):
    """The response's status is not 2xx; there is no stream.

    Attributes:
        headers: The response's headers, names in lower case (rate limits among them).
    """

    headers: Mapping[str, str] = {}


class InvalidStreamError(ChunkfoldError):
    """What came is not a stream of chat completion chunks, or not the strict kind that was asked for.

    Attributes:
        rule: In strict mode, the rule of the catalogue that was broken.
    """

    def __init__(self, message: str, *, rule: "Rule | None" = None) -> None:
        super().__init__(message)
        self.rule = rule


class NotAnEventStreamError(InvalidStreamError):
    """The body is something else: HTML, text, another JSON.

    Attributes:
        status_code: The response's status, None if not known.
        content_type: Its content type, None if not known.
        body: The first bytes of the body.
    """

    def __init__(
        self, message: str, *, status_code: int | None = None, content_type: str | None = None, body: bytes = b""
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.content_type = content_type
        self.body = body


class InvalidChunkError(InvalidStreamError):
    """One event is no chunk; the message says what was expected, what came, and where.

    Attributes:
        position: Where the event's block begins in the body, in bytes.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class LimitExceededError(InvalidStreamError):
    """A limit was passed.

    Attributes:
        limit: The option's name, such as "max_event_size".
        value: Its value.
    """

    def __init__(self, message: str, *, limit: str = "", value: int = 0) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value


class IncompleteStreamError(ChunkfoldError):
    """The stream ended, or was left, before it was complete; the snapshot holds what had arrived.

    Attributes:
        end: How it ended; None while it still runs.
    """

    def __init__(self, message: str, *, end: "StreamEnd | None" = None) -> None:
        super().__init__(message)
        self.end = end

    def is_transient(self) -> bool:
        """Whether what went wrong may well be gone at the next try."""
        return self.end is not None and self.end != "closed"


class StreamInterruptedError(IncompleteStreamError):
    """The transport raised while the stream ran; its exception is the `__cause__`."""


class StreamStalledError(IncompleteStreamError):
    """Bytes came but no chunk for `progress_timeout` seconds, or `total_timeout` passed."""


class ParseError(ChunkfoldError):
    """The text is not the JSON, or not of the type, that `parse` was asked for.

    Attributes:
        text: The text.
        position: Where it stops being what was expected, in characters; None where the JSON is well-formed.
        path: Where the value does not fit the type: keys and places from the root; () where it is no JSON.
        cut: Whether the text ended too early, as it does when a token limit cut it.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        position: int | None = None,
        path: tuple[str | int, ...] = (),
        cut: bool = False,
    ) -> None:
        super().__init__(message)
        self.text = text
        self.position = position
        self.path = path
        self.cut = cut


class StreamConsumedError(ChunkfoldError):
    """The stream is over, or is being read by somebody else; `completion()` and `snapshot` still hold the result."""


def is_retryable(exc: BaseException, after_output: bool = False) -> bool:  # noqa: FBT001, FBT002 - its only option
    """Whether the request that led to `exc` may be sent again with hope.

    Args:
        exc: Any exception: chunkfold's own, httpx's or httpx2's transport errors, the interpreter's connection errors.
        after_output: Say True to also retry when output had been handed out, and would come again.
    """
    if isinstance(exc, ChunkfoldError):
        return (after_output or not exc.emitted_output) and exc.is_transient()
    transient = _loaded_errors(("httpx", "httpx2"), _TRANSIENT_ERRORS)
    return isinstance(exc, (ConnectionError, TimeoutError, *transient)) and not _is_certificate_refused(exc)


def _is_certificate_refused(exc: BaseException | None) -> bool:
    """Whether the peer's certificate is behind it: that will be no better next time."""
    refused = _loaded_errors(("ssl",), ("SSLCertVerificationError",))
    while exc is not None:
        if isinstance(exc, refused):
            return True
        exc = exc.__cause__
    return False


def _loaded_errors(modules: tuple[str, ...], names: tuple[str, ...]) -> tuple[type[BaseException], ...]:
    """The exceptions of those names, of modules that are loaded; none is imported for it."""
    found = (getattr(sys.modules.get(module), name, None) for module in modules for name in names)
    return tuple(kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseException))
