"""The exceptions: every way in which reading a stream can fail.

    ChunkfoldError                  .snapshot, .emitted_output, .retryable, .retry_after
    ├─ APIError                     the provider reported an error
    │  └─ APIStatusError            an HTTP status that is not 2xx, before any stream
    ├─ InvalidStreamError           the input is not a stream of chunks
    │  ├─ NotAnEventStreamError     the body has another format
    │  ├─ InvalidChunkError         an event is not a chunk
    │  └─ LimitExceededError        a limit was exceeded
    ├─ IncompleteStreamError        the stream ended before it was complete
    │  ├─ StreamInterruptedError    the transport raised
    │  └─ StreamStalledError        bytes, but no chunks; or out of time
    ├─ ParseError                   the text is not the JSON that was expected
    └─ StreamConsumedError          iterated again after the end

A public call raises nothing else for what a peer sent. Messages quote at most a bounded, escaped excerpt of it.
"""

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from chunkfold.anomalies import Rule
from chunkfold.arguments import check_flag
from chunkfold.excerpts import printed

_RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429, 498})  # 498: Groq has no capacity left for `flex`
_NOT_IMPLEMENTED: Final = 501  # gRPC's UNIMPLEMENTED, and what a llama.cpp server was not started for
_PAYMENT_REQUIRED: Final = 402  # with a wait: running requests fill OpenRouter's budget until they are billed
# An account that is out of credit, which a 429 can mean as well: words of OpenAI, ChatGPT, Anthropic, Moonshot,
# LiteLLM, OpenCode, Alibaba, Volcengine, Baidu, Tencent, Sarvam, one-api and gateways, and numbers of Zhipu, iFlytek
# and 302.AI. The last two are a request that is too long, which llama.cpp reported as a 500. In lower case.
_NEVER_RETRYABLE_CODES: Final = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit_balance_exhausted"),
        *("organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
        *("enforced_spend_limit_reached", "credits_required", "usage_not_included", "billing_error"),
        *("exceeded_current_quota_error", "budget_exceeded", "insufficient_user_quota"),
        *("insufficient_balance", "insufficient_credit", "insufficient_credits"),
        *("commoditynotpurchased", "prepaidbilloverdue", "postpaidbilloverdue", "budgetlimitexceeded"),
        *("arrearage", "accountoverdueerror", "freeusagelimiterror", "gousagelimiterror"),
        *("setlimitexceeded", "billing_insufficient_balance", "quota_user_daily_free", "exceed_token_quota_limit"),
        *("insufficient_quota_error", "1113", "1309", "11200", "-10004", "-10006"),
        *("context_length_exceeded", "exceed_context_size_error"),
    }
)
# Alibaba reports its limit of tokens per minute by OpenAI's word for an empty account; its message says which it is.
_TOKENS_PER_MINUTE: Final = ("You exceeded your current quota", "Allocated quota exceeded")
_TOKENS_PER_MINUTE_LINK: Final = "/model-studio/error-code#token-limit"
_TRANSIENT_ERRORS: Final = ("TimeoutException", "NetworkError", "RemoteProtocolError")
_UNITS: Final = {
    "max_event_items": "values in one event",
    "max_event_parts": "choices and entries of their lists in one event",
    "max_event_payloads": "payloads in one event",
    "max_arguments_values": "characters in arguments and ids of calls that are not text, in one event",
    "max_wide_text": "bytes in texts with characters of four bytes, such as emoji, in one event",
    "max_partial_values": "values in JSON that is shown while it is written",
    "max_content_encodings": "content encoding of the body",
    "max_expansion": "times the size of the compressed body, after decoding",
    "max_output_size": "characters of output (or, for everything that is kept, four bytes for each and 1 MiB)",
}


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
        """Whether the message is complete: true for `finished` and `done` only."""
        return self in (StreamEnd.FINISHED, StreamEnd.DONE)


END_MEANINGS: Final = {
    StreamEnd.FINISHED: "every choice has its finish reason",
    StreamEnd.DONE: "[DONE] arrived, but a choice has no finish reason",
    StreamEnd.EMPTY: "no output arrived",
    StreamEnd.TRUNCATED: "the stream ended too early",
    StreamEnd.FAILED: "the provider reported an error",
    StreamEnd.INVALID: "it is not a stream of chat completion chunks",
    StreamEnd.INTERRUPTED: "the transport failed",
    StreamEnd.STALLED: "it stalled, or took too long",
    StreamEnd.CLOSED: "the client left before the end",
}


class ChunkfoldError(Exception):
    """The base class of all errors about the content of a stream.

    Attributes:
        emitted_output: Whether you received output before the error: in a chunk, an event, or an item of
            `text_deltas()` or `partials()`. Output that these two skip does not count. The stream's `read()` and the
            parser's `fold` emit output only to `on_server_sent_event`.
        retry_after: Seconds to wait before another attempt, None if unknown.
    """

    emitted_output: bool = False
    retry_after: float | None = None
    _snapshot: Any = None

    @property
    def snapshot(self) -> Any:
        """The answer so far, a `ChatCompletion`; None if no stream was being read. It is made when it is first read.

        (Its type is not declared, because this module does not import the layers above it.)
        """
        made = self._snapshot
        if callable(made):
            self._snapshot = made = made()
        return made

    @snapshot.setter
    def snapshot(self, value: Any) -> None:
        """Set the partial answer, or a function that makes it when it is first read."""
        self._snapshot = value

    def __reduce__(self) -> Any:
        """Copied and pickled with its snapshot."""
        self._snapshot = self.snapshot
        return super().__reduce__()

    @property
    def retryable(self) -> bool:
        """Whether the same request is likely to succeed, and no output was emitted yet."""
        return is_retryable(self)

    def is_transient(self) -> bool:
        """Whether the fault is likely to be temporary; `retryable` also requires that no output was emitted."""
        return False


class APIError(ChunkfoldError):
    """The provider reported an error, in any of the shapes providers use.

    Attributes:
        error: The `ErrorObject`, with every field that was sent.
        status_code: The equivalent HTTP status, from the body; None if unknown. Never the response's 200.
        request_id: From the `x-request-id` header or another header for it, else from the body; None if unknown.
        retry_after: Seconds to wait before another attempt, from the response's headers or the body (`retry_after`,
            OpenRouter's `retry_after_seconds` and `X-RateLimit-Reset`, Google's `RetryInfo`, ChatGPT's
            `resets_in_seconds`, CLIProxyAPI's `reset_seconds`); None if unknown.
        raw: The whole body or event data, parsed as JSON if it is JSON, else as text; for a list with a single item,
            that item. A compressed body is replaced by a note that it is compressed.
    """

    def __init__(
        self,
        message: str,
        *,
        error: Any = None,
        status_code: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        raw: Any = None,
    ) -> None:
        super().__init__(message)
        self.error = error  # None only if the exception was created elsewhere
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
        """Whether the fault is likely to be temporary."""
        status = self.status_code
        if status == _PAYMENT_REQUIRED:
            return self.retry_after is not None
        words = {printed(word).lower() for word in (self.code, self.type)}
        if not words.isdisjoint(_NEVER_RETRYABLE_CODES) and not _is_limit_of_tokens_per_minute(self.message):
            return False
        is_of_server = status is not None and status >= 500 and status != _NOT_IMPLEMENTED
        return is_of_server or status in _RETRYABLE_STATUS


def _is_limit_of_tokens_per_minute(message: str) -> bool:
    return _TOKENS_PER_MINUTE_LINK in message and any(words in message for words in _TOKENS_PER_MINUTE)


class APIStatusError(APIError):
    """The response's status is not 2xx; there is no stream.

    Attributes:
        headers: The response's headers, rate limits included; the names are in lower case.
    """

    headers: Mapping[str, str] = {}

    def is_transient(self) -> bool:
        """Whether the fault is likely to be temporary; `x-should-retry` decides if the response has it."""
        should_retry = {"true": True, "false": False}.get(self.headers.get("x-should-retry", ""))
        return super().is_transient() if should_retry is None else should_retry


class InvalidStreamError(ChunkfoldError):
    """The input is not a stream of chat completion chunks, or not one that strict mode accepts.

    Attributes:
        rule: In strict mode, the rule of the catalogue that was broken.
    """

    def __init__(self, message: str, *, rule: Rule | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class NotAnEventStreamError(InvalidStreamError):
    """The body has another format: HTML, text, other JSON.

    Attributes:
        status_code: The response's status, None if not known.
        content_type: Its content type, None if not known.
        body: The first bytes of the body, at most 1,024.
    """

    def __init__(
        self, message: str, *, status_code: int | None = None, content_type: str | None = None, body: bytes = b""
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.content_type = content_type
        self.body = body


class InvalidChunkError(InvalidStreamError):
    """An event is not a chunk; the message has the place, the expected type and the received one.

    Attributes:
        position: The position of the event's block in the body, in bytes.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class LimitExceededError(InvalidStreamError):
    """A limit was exceeded.

    Attributes:
        limit: The option's name, such as "max_event_size".
        value: Its value.
    """

    def __init__(self, message: str, *, limit: str = "", value: int = 0) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value


def exceeded(limit: str, value: int | None, unit: str | None = None) -> LimitExceededError:
    """Create the error for a limit that was exceeded; its value is then never None, although an option may be."""
    msg = f"expected at most {value} {unit or _UNITS.get(limit, 'bytes')}, received more ({limit})"
    return LimitExceededError(msg, limit=limit, value=value or 0)


class IncompleteStreamError(ChunkfoldError):
    """The stream ended, or was left, before it was complete; the snapshot is the answer so far.

    Attributes:
        end: How the stream ended; None while it runs.
    """

    def __init__(self, message: str, *, end: StreamEnd | None = None) -> None:
        super().__init__(message)
        self.end = end

    def is_transient(self) -> bool:
        """Whether the fault is likely to be temporary."""
        return self.end is not None and self.end is not StreamEnd.CLOSED


class StreamInterruptedError(IncompleteStreamError):
    """The transport raised while the stream ran; its exception is the `__cause__`."""


class StreamStalledError(IncompleteStreamError):
    """No chunk arrived for `progress_timeout` seconds although bytes did, or `total_timeout` passed."""


class ParseError(ChunkfoldError):
    """The text is not JSON, or does not fit the type that `parse` expected.

    Attributes:
        text: The text.
        position: The offset at which the text stops being valid JSON, in characters; None if all of it is valid.
        path: The first place that does not fit the type: keys and list indexes from the root; () if it is not JSON.
        cut: Whether the text ended too early, usually at a token limit.
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
    """The stream is over, or another task reads it; `completion()` and `snapshot` still have the result."""


def is_retryable(exc: BaseException, after_output: bool = False) -> bool:  # noqa: FBT001, FBT002 - its only option
    """Whether the request that raised `exc` is likely to succeed if it is sent again.

    Args:
        exc: Any exception: chunkfold's, transport errors of httpx and httpx2, Python's connection errors.
        after_output: True to retry even if output was emitted; it is then emitted again.

    Raises:
        TypeError: `after_output` is not a bool.
    """
    check_flag("after_output", after_output)
    if isinstance(exc, ChunkfoldError):
        return (after_output or not exc.emitted_output) and exc.is_transient()
    transient = _loaded_errors(("httpx", "httpx2"), _TRANSIENT_ERRORS)
    return isinstance(exc, (ConnectionError, TimeoutError, *transient)) and not _is_certificate_refused(exc)


def _is_certificate_refused(exc: BaseException | None) -> bool:
    """Whether the cause is the peer's certificate, which a retry does not change."""
    refused = _loaded_errors(("ssl",), ("SSLCertVerificationError",))
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:  # `raise exc from exc` makes it its own cause
        if isinstance(exc, refused):
            return True
        seen.add(id(exc))
        # The clients' pools raise again `from None`, which leaves the cause as the context.
        exc = exc.__context__ if exc.__cause__ is None and exc.__suppress_context__ else exc.__cause__
    return False


def _loaded_errors(modules: tuple[str, ...], names: tuple[str, ...]) -> tuple[type, ...]:
    """The exceptions of those names, of modules that are loaded; none is imported for it."""
    found = (getattr(sys.modules.get(module), name, None) for module in modules for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))
