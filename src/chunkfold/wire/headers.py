"""Read a response's headers: the id of the request, how long to wait before another attempt, how it is encoded."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

from chunkfold.excerpts import printed
from chunkfold.json_text.values import is_object

# Gateways have names of their own: LiteLLM, Portkey, one-api, Helicone, Cloudflare and Kong. So have Azure, AWS,
# OpenRouter, Mistral, Moonshot, MiniMax, DeepSeek, Zhipu, Kimi Code, NVIDIA, SiliconFlow, Together, Baseten, Snowflake,
# Oracle, IBM, Chutes, AI/ML API and GitHub. Venice's, `cf-ray`, comes from anyone behind Cloudflare, and would replace
# the id in the body of an error.
_REQUEST_IDS: Final = (
    *("x-request-id", "request-id", "x-litellm-call-id", "x-portkey-trace-id", "x-oneapi-request-id"),
    *("helicone-id", "cf-aig-log-id", "x-kong-request-id"),
    *("apim-request-id", "x-amzn-requestid", "x-generation-id", "mistral-correlation-id", "msh-request-id"),
    *("minimax-request-id", "x-ds-trace-id", "x-log-id", "x-trace-id", "trace-id", "nvcf-reqid"),
    *("x-siliconcloud-trace-id", "x-together-request-id", "x-baseten-request-id", "x-snowflake-request-id"),
    *("opc-request-id", "x-global-transaction-id", "x-chutes-invocationid", "x-inference-id", "x-github-request-id"),
)
_WAIT_PREFIXES: Final = ("", "llm_provider-")
_WAITS: Final = {"retry-after-ms": 1000, "retry-after": 1}  # how many of its units are a second
READ_HEADERS: Final = frozenset({*_REQUEST_IDS, *(prefix + name for prefix in _WAIT_PREFIXES for name in _WAITS)})
BOUNDED_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""Encodings that yield at most a thousand times the bytes that a client reads at once."""
# What clients decode. A body with any other encoding is passed on as it is: `none` is often sent against compression.
_DECODED: Final = BOUNDED_ENCODINGS | {"br", "zstd"}
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class GivenHeaders(Protocol):
    """Headers as clients have them: a mapping, or the `email.message.Message` of the standard library's clients."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Names and values: text, or bytes; a value may be None."""
        ...


class Headers(Mapping[str, str]):
    """A response's headers: names in lower case, looked up in any. One whose value is None was not sent."""

    def __init__(self, headers: GivenHeaders) -> None:
        if not hasattr(headers, "items"):
            raise TypeError(f"headers: expected a mapping, received {type(headers).__name__}")
        self._headers = {_text(name).lower(): _text(value) for name, value in headers.items() if value is not None}

    def __getitem__(self, name: str) -> str:
        return self._headers[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __repr__(self) -> str:
        """Names only: values may be secrets."""
        return f"Headers({', '.join(self._headers)})"


def _text(value: object) -> str:
    """A header's name or value, which some clients give as bytes."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def request_id(headers: Mapping[str, str]) -> str | None:
    """The id by which the provider, or a gateway, knows the request: `x-request-id`, else another name for it."""
    return next((headers[name] for name in _REQUEST_IDS if name in headers), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next try: `retry-after-ms`, else `retry-after` as seconds or as a date.

    LiteLLM forwards the provider's own as `llm_provider-retry-after`, which is tried last. A date counts from the
    response's own `date`, so that no clock is needed. None if the headers do not say.
    """
    waits = (_wait(headers, prefix) for prefix in _WAIT_PREFIXES)
    return next((wait for wait in waits if wait is not None), None)


def _wait(headers: Mapping[str, str], prefix: str) -> float | None:
    for name, per_second in _WAITS.items():
        if (number := seconds_in(headers.get(prefix + name))) is not None:
            return number / per_second
    until, now = _date(headers.get(f"{prefix}retry-after")), _date(headers.get("date"))
    return None if until is None or now is None else max(0.0, (until - now).total_seconds())


def reset_after(metadata: Any, headers: Mapping[str, str]) -> float | None:
    """Seconds until a limit is reset, from the headers that OpenRouter puts into the metadata of an error.

    The time is in milliseconds since 1970, and is compared with the response's own `date`. None if it has passed.
    """
    sent = metadata.get("headers") if is_object(metadata) else None
    reset = seconds_in(printed(sent.get("X-RateLimit-Reset"))) if is_object(sent) else None
    now = _date(headers.get("date"))
    if reset is None or now is None or (wait := reset / 1000 - now.timestamp()) < 0:
        return None
    return wait


def encodings_in(header: str | None) -> list[str]:
    """The content encodings that a header names, without their weights."""
    names = (name.partition(";")[0].strip().lower() for name in (header or "").split(","))
    return [name for name in names if name not in ("", "identity")]


def decoded_encodings(headers: Mapping[str, str]) -> list[str]:
    """The encodings of a response with these headers that its client decodes."""
    return [name for name in encodings_in(headers.get("content-encoding")) if name in _DECODED]


def _date(text: str | None) -> datetime | None:
    """A date in any of HTTP's three forms (RFC 9110, section 5.6.7), of which one names no zone: it is in UTC."""
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def seconds_in(text: str | None) -> float | None:
    """A number of seconds or milliseconds; None for anything else, including infinities and negative numbers."""
    return float(text) if text and _NUMBER.fullmatch(text.strip(" \t")) else None
