"""Errors as providers send them, inside a stream or instead of one: recognised by shape, read into `APIError`.

The shapes are tried in a fixed order (see `find_error`). A status is derived from the body alone, since the outer
one says 200: from a number first, then from the words of `code` and `type`.
"""

import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from chunkfold.anomalies import ERROR_BARE, ERROR_BASE_RESP, ERROR_FINISH, ERROR_SHAPE, Rule
from chunkfold.errors import APIError, APIStatusError, escaped, excerpt
from chunkfold.json_values import is_integer, is_list, is_object
from chunkfold.models import ErrorObject, Outcome
from chunkfold.models.outcome import outcome_of
from chunkfold.repairs import MAX_UNKNOWN_DEPTH, is_deeper
from chunkfold.surrogates import scrubbed

_MESSAGE_EXCERPT: Final = 500
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class Headers(Mapping[str, str]):
    """A response's headers: names in lower case, looked up in any."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = {str(name).lower(): str(value) for name, value in headers.items()}

    def __getitem__(self, name: str) -> str:
        return self._headers[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __repr__(self) -> str:
        """Names only: values may be secrets."""
        return f"Headers({', '.join(self._headers)})"


class Envelope(NamedTuple):
    """An error found in a JSON object: the value that describes it, and the rule that its shape breaks, if any."""

    value: Any
    rule: Rule | None


def find_error(body: dict[str, Any], *, named: bool = False) -> Envelope | None:
    """The error in an event's JSON object, None if it has none.

    Args:
        body: The object.
        named: Whether its event had a name that is not a chunk's: then only shapes that leave no doubt count.
    """
    has_choices = body.get("choices") is not None
    error = body.get("error")
    if error is not None and error is not False and (error or not has_choices):
        return Envelope(error, None if error and is_object(error) else ERROR_SHAPE)
    if not named and (body.get("object") == "error" or (body.get("type") == "error" and not has_choices)):
        return Envelope(body, ERROR_BARE)
    base = body.get("base_resp")
    if is_object(base) and base.get("status_code") not in (None, 0, "0"):
        return Envelope({**base, "code": base["status_code"]}, ERROR_BASE_RESP)
    finish = _failed_choice(body)
    if finish is not None:
        return Envelope(finish, ERROR_FINISH)
    if not named and not has_choices and _is_bare_error(body):
        return Envelope(body, ERROR_BARE)
    return None


def _failed_choice(body: dict[str, Any]) -> Any:
    """What a choice says of its failure, if its finish reason means an error."""
    choices = body.get("choices")
    for choice in choices if is_list(choices) else ():
        word = choice.get("finish_reason") if is_object(choice) else None
        if not isinstance(word, str) or outcome_of(word) is not Outcome.ERROR:
            continue
        groq = body.get("x_groq")
        told = choice.get("error") or (groq.get("error") if is_object(groq) else None)
        index = excerpt(choice.get("index", 0))
        message = f"the provider ended choice {index} with the finish reason {excerpt(word)}"
        return told or {"message": message, "finish_reason": word}
    return None


def _is_bare_error(body: dict[str, Any]) -> bool:
    if any(_is_failure(body.get(name)) for name in ("code", "status_code")):
        return True
    # A chunk that only carries usage has neither; nor is an object that calls itself a chunk one.
    told = body.get("message") or body.get("detail")
    return bool(told) and "usage" not in body and not str(body.get("object", "")).startswith("chat.completion")


def api_error(value: Any, raw: Any) -> APIError:
    """An `APIError` from the value that describes it and the whole body it stood in."""
    value, raw = scrubbed(value), scrubbed(raw)
    error = _error_object(value, raw)
    return APIError(_shown(error.message), error=error, status_code=_status(value, raw), raw=raw)


def api_status_error(status_code: int, headers: Mapping[str, str], body: Any, text: str) -> APIStatusError:
    """An `APIStatusError`: `body` is its JSON, None where it is none; `text` what to quote then."""
    body = scrubbed(body)
    envelope = find_error(body) if is_object(body) else None
    value: Any = envelope.value if envelope else text if body is None or is_list(body) else body
    error = _error_object(value, body)
    failure = APIStatusError(
        f"HTTP {status_code}: {_shown(error.message)}",
        error=error,
        status_code=status_code,
        request_id=headers.get("x-request-id"),
        retry_after=retry_after(headers),
        raw=text if body is None else body,
    )
    failure.headers = headers
    return failure


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait before the next try: `retry-after-ms`, else `retry-after` as seconds or as a date.

    A date counts from the response's own `date`, so that no clock is needed. None if the headers do not say.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _seconds(text)
    if seconds is not None or text is None:
        return seconds
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers["date"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return max(0.0, wait.total_seconds())


def _seconds(text: str | None) -> float | None:
    """A number of seconds or milliseconds; None for anything else, infinities and negative numbers among it."""
    return float(text) if text and _NUMBER.fullmatch(text.strip(" \t")) else None


def _error_object(value: Any, raw: Any) -> ErrorObject:
    fields = dict(value) if is_object(value) else {"message": _message_of(value)}
    outer = raw if is_object(raw) else {}
    if isinstance(fields.get("error"), dict | str) and "message" not in fields:
        inner = fields.pop("error")
        fields = {**fields, **(inner if is_object(inner) else {"message": inner})}
    if not isinstance(fields.get("message"), str):
        fields["message"] = _first_message(fields)
    if value is not raw:
        # A string error keeps its type and code beside it (text-generation-inference: `error_type`).
        fields.setdefault("code", outer.get("code"))
        fields.setdefault("type", fields.get("error_type") or outer.get("error_type") or outer.get("type"))
    fields = {name: field for name, field in fields.items() if not is_deeper(field, MAX_UNKNOWN_DEPTH)}
    error, _ = ErrorObject.validate_leniently(fields)
    return error


def _first_message(fields: dict[str, Any], levels: int = 4) -> str | None:
    for name in ("message", "msg", "status_msg", "detail", "error_description", "error"):
        if fields.get(name):
            return _message_of(fields[name], levels)
    return None


def _message_of(value: Any, levels: int = 4) -> str | None:
    """The words in a string, a list of messages (FastAPI's `detail`) or an object, a few levels deep."""
    if isinstance(value, str):
        return value or None
    if levels and is_list(value):
        return "; ".join(filter(None, (_message_of(item, levels - 1) for item in value))) or None
    if is_object(value):
        return _first_message(value, levels - 1) if levels else None
    return None if value is None or value is True else excerpt(value)


def _shown(message: str | None) -> str:
    """The message as it stands in the exception's text: bounded, without control characters."""
    return escaped(message, _MESSAGE_EXCERPT) if message else "the provider sent an error without a message"


def _status(value: Any, raw: Any) -> int | None:
    """The HTTP status a body means: a number first, then the words."""
    parts = [part for part in (value, raw) if is_object(part)]
    for part in parts:
        for name in ("code", "status_code", "status"):
            status = _http_status(part.get(name))
            if status is not None:
                return status
    for word in _words(parts):
        # DashScope's words have a second part that only says more: Throttling.RateQuota.
        status = _WORD_STATUS.get(_plain(word)) or _WORD_STATUS.get(_plain(word.partition(".")[0]))
        if status is not None:
            return status
    return None


def _words(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        metadata = part.get("metadata")
        inner = metadata.get("error_type") if is_object(metadata) else None
        names = (part.get(name) for name in ("code", "type", "status", "error_type", "finish_reason"))
        yield from (str(word) for word in (*names, inner) if isinstance(word, str | int))


def _plain(word: str) -> str:
    """`RateLimitError`, `rate_limit_error` and `rate-limit` are one word."""
    return "".join(filter(str.isalnum, word.lower())).removesuffix("error").removesuffix("exception")


def _is_failure(value: Any) -> bool:
    """A number of 400 or more, or its digits: an HTTP status, or a provider's own (Zhipu has 1113)."""
    digits = str(value) if is_integer(value) or isinstance(value, str) else ""
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and int(digits) >= 400


def _http_status(value: Any) -> int | None:
    """A number from 400 to 599, or its digits."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if is_integer(value) and 400 <= value <= 599 else None


# Words of OpenAI, Anthropic, Google, AWS, Groq and OpenRouter; the numbers are MiniMax's.
_WORD_STATUS: Final[dict[str, int]] = {
    _plain(word): status
    for status, words in {
        400: "invalid_request bad_request invalid_argument failed_precondition context_length_exceeded tool_use_failed"
        " json_validate_failed invalid_prompt content_policy_violation content_filter validation invalid_parameter"
        " unsupported_value unsupported_parameter data_inspection_failed invalid_value"
        " string_above_max_length 1026 1027 1042 2013",
        401: "authentication invalid_api_key unauthorized unauthenticated invalid_authentication 1004 2049",
        402: "payment_required billing insufficient_credit insufficient_credits insufficient_balance 1008",
        403: "permission permission_denied forbidden access_denied",
        404: "not_found model_not_found",
        408: "request_timeout",
        409: "conflict aborted",
        413: "request_too_large",
        422: "unprocessable_entity",
        429: "rate_limit rate_limit_exceeded rate_limit_reached exceeded_current_quota rate_limited"
        " too_many_requests resource_exhausted insufficient_quota"
        " quota_exceeded spend_limit_exceeded throttling throttled tokens requests 1002 1039 1041",
        500: "server internal internal_server api unknown 1000 1013 1024 1033",
        502: "bad_gateway provider upstream network",
        503: "service_unavailable unavailable engine_overloaded overloaded model_overloaded server_overloaded"
        " insufficient_system_resource capacity",
        504: "gateway_timeout upstream_timeout api_timeout deadline_exceeded timeout 1001",
    }.items()
    for word in words.split()
}
