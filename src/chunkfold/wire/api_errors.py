"""Turn the value that describes an error, under any names, into an `APIError` or an `APIStatusError`."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from chunkfold.errors import APIError, APIStatusError
from chunkfold.excerpts import excerpt, on_one_line, printed
from chunkfold.json_text.parsing import load_json
from chunkfold.json_text.surrogates import scrub
from chunkfold.json_text.values import is_integer, is_list, is_object, objects_in
from chunkfold.models.base import validate_leniently
from chunkfold.models.shared import ErrorObject
from chunkfold.wire.envelopes import LONGEST_JOINED, error_value, first_message, message_of
from chunkfold.wire.headers import request_id, reset_after, retry_after, seconds_in
from chunkfold.wire.repairs import is_too_deep
from chunkfold.wire.statuses import status_of

_MESSAGE_EXCERPT: Final = 500
_LONGEST_PATH: Final = 10  # keys
_LONGEST_KEY: Final = 50  # characters
_LONGEST_INNER: Final = 2**16  # characters
# FastAPI's `HTTPException(429, {"message": "..."})`; CLOVA Studio's `{"status": {"code": "42901", "message": "..."}}`.
_INNER_NAMES: Final = ("detail", "status")
# Names of a message in an error that has none under a usual name: AWS, Elastic, Lambda, Okta and others.
_OTHER_NAMES: Final = ("Message", "reason", "errorMessage", "errorSummary", "details")
_REQUEST_ID_NAMES: Final = ("request_id", "requestId", "RequestId")
# Gateways such as PostHog's, and Cloudflare; a plan of ChatGPT; CLIProxyAPI.
_WAITS: Final = ("retry_after", "resets_in_seconds", "reset_seconds")
_REDIRECTS: Final = (301, 302, 303, 307, 308)
# A path of anything else, such as `;jsessionid=`, may hold more than names.
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9._~:/-]*")


def api_error(value: Any, raw: Any) -> APIError:
    """An `APIError` from the value that describes it, and the whole JSON or text that it is in."""
    text, known = _message_and_arguments(value, raw)
    return APIError(text, raw=raw, **known)


def api_status_error(status_code: int, headers: Mapping[str, str], raw: Any, text: str) -> APIStatusError:
    """An `APIStatusError`: `raw` is the JSON of the response, else None. `text` is quoted if no message is found."""
    raw = scrub(raw)
    value = text if raw is None else error_value(raw)
    said, known = _message_and_arguments(value, raw, text)
    msg = f"HTTP {status_code}{_redirected(status_code, headers)}: {said}"
    failure = APIStatusError(msg, raw=text if raw is None else raw, **known)
    failure.status_code = status_code
    add_headers(failure, headers)
    failure.headers = headers
    return failure


def add_headers(error: APIError, headers: Mapping[str, str]) -> None:
    """Add what the response's headers say: the id of the request and the wait, which come before those of the body."""
    error.request_id = request_id(headers) or error.request_id
    metadata = getattr(error.error, "metadata", None)
    waits = (retry_after(headers), error.retry_after, reset_after(metadata, headers))
    error.retry_after = next((wait for wait in waits if wait is not None), None)


def _message_and_arguments(value: Any, raw: Any, text: str = "") -> tuple[str, dict[str, Any]]:
    """The message of an exception, and its arguments, as `value` and the whole JSON or text around it have them."""
    fields = _error_fields(value, raw)
    inner = _inner_fields(fields)
    error, _ = validate_leniently(ErrorObject, dict(fields))
    return _message_for(error, inner, text), {
        "error": error,
        "status_code": status_of(fields, raw) or status_of(inner, None),
        "request_id": _request_id_in(fields, raw),
        "retry_after": _retry_delay(fields, inner, raw if is_object(raw) else {}),
    }


def _redirected(status_code: int, headers: Mapping[str, str]) -> str:
    """Where a redirect leads to, for the message: without user, password and query, each of which may be a secret."""
    try:
        parts = urlsplit(headers.get("location", "") if status_code in _REDIRECTS else "")
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    path = parts.path if _PLAIN_PATH.fullmatch(parts.path) else ""
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    place = f"{scheme}//{host}{path}" if host else f"{scheme}{path}"
    return f", redirected to {excerpt(place)}" if host or place.startswith("/") else ""


def _error_fields(value: Any, raw: Any) -> dict[str, Any]:
    """The fields of the error object, from the value that describes it, and the whole JSON that it is in."""
    fields = _fields_in(value)
    outer = raw if is_object(raw) else {}
    for name in _INNER_NAMES:
        if is_object(inner := fields.get(name)) and "message" not in fields:
            fields = {**inner, **fields}
    if is_object(fields.get("error")) and "message" not in fields:
        fields |= fields.pop("error")
    beside = {**outer, "error": None}
    if not (isinstance(message := fields.get("message"), str) and message_of(message)):
        # `{"error": true, "message": "..."}`: the words are beside it.
        words = first_message(fields) or first_message(beside) or message_of(value) or _other_words(fields)
        fields["message"] = words or ("" if message == "" else None)
    elif isinstance(value, str) and (details := first_message(beside)):
        # `{"error": "Bad Request", "message": "..."}`: a phrase, and the details beside it (Fastify, Spring, OAuth).
        joined = f"{value[:LONGEST_JOINED]}: {details[:LONGEST_JOINED]}"
        fields["message"] = details if details.startswith(value) else joined
    # A string error keeps its type and code beside it (text-generation-inference: `error_type`).
    fields.setdefault("code", outer.get("code"))
    types = map(outer.get, ("error_type", "type", "tpe", "__type"))  # the last two are Writer's and AWS'
    fields.setdefault("type", next(filter(None, types), None))
    if fields["code"] is None:  # the last is 302.AI's
        fields["code"] = fields.get("errorCode", outer.get("errorCode", fields.get("err_code")))
    if fields["code"] is None and is_object(details := fields.get("details")):
        fields["code"] = details.get("error_code")  # Anthropic
    # FastAPI says where in the request something is wrong, and Llama Stack passes it on.
    for detail in (*objects_in(fields.get("detail")), *objects_in(fields.get("errors"))):
        if (loc := detail.get("loc")) and is_list(loc):
            fields.setdefault("param", ".".join(printed(key)[:_LONGEST_KEY] for key in loc[:_LONGEST_PATH]))
    return {name: field for name, field in fields.items() if not is_too_deep(field)}


def _other_words(fields: dict[str, Any]) -> str | None:
    texts = (text for name in _OTHER_NAMES if isinstance(text := fields.get(name), str))
    return next(filter(message_of, texts), None)


def _request_id_in(fields: dict[str, Any], raw: Any) -> str | None:
    """The id of the request in an error (Anthropic, NVIDIA), which some gateways leave out of the headers."""
    inner = raw.get("Response") if is_object(raw) else None  # Tencent
    ids = (part.get(name) for part in (fields, raw, inner) if is_object(part) for name in _REQUEST_ID_NAMES)
    return next((id_ for id_ in ids if id_ and isinstance(id_, str)), None)


def _retry_delay(*errors: dict[str, Any]) -> float | None:
    """Seconds to wait, as OpenRouter's metadata say, or an error itself, or Google's `RetryInfo` among the details.

    Google's compatible endpoint has no header for it, nor has an error within a stream.
    """
    metadata = (error.get("metadata") for error in errors)
    waits = [printed(part.get("retry_after_seconds")) for part in metadata if is_object(part)]
    waits += [printed(error.get(name)) for error in errors for name in _WAITS]
    delays = (detail.get("retryDelay") for error in errors for detail in objects_in(error.get("details")))
    waits += [delay[:-1] for delay in delays if isinstance(delay, str) and delay.endswith("s")]
    return next((seconds for seconds in map(seconds_in, waits) if seconds is not None), None)


def _fields_in(value: Any) -> dict[str, Any]:
    """The fields of an object, or of the first in a list of them; of anything else the message, or the code."""
    if is_list(value):
        return {**(value[0] if value and is_object(value[0]) else {}), "message": message_of(value)}
    if is_object(value):
        return dict(value)
    return {"code": value} if is_integer(value) else {"message": message_of(value)}


def _message_for(error: ErrorObject, inner: dict[str, Any], text: str) -> str:
    """The message, bounded and without control characters; else the code and the type; else an excerpt of the text."""
    message, words = _with_reason(error.message, error.param), _with_reason(inner.get("message"), inner.get("param"))
    if message:
        if words and message.lstrip()[:1] in ("{", "["):  # the same, as JSON
            message = words
        elif words and words not in message:
            message = f"{message}: {words}"
        return on_one_line(message, _MESSAGE_EXCERPT)
    known = [f"{name} {excerpt(value)}" for name in ("code", "type") if (value := getattr(error, name)) is not None]
    told = ", ".join(known) or on_one_line(text)
    return f"the provider sent an error without a message: {told}".removesuffix(": ")


def _with_reason(message: str | None, param: Any) -> str | None:
    """The message, or as much of it as is shown, and the reason that Xiaomi MiMo tells as the `param`.

    Unlike the name of a parameter, it has blanks.
    """
    shown = message and message[: _MESSAGE_EXCERPT + 1]
    if shown and isinstance(param, str) and " " in param.strip() and param not in shown:
        return f"{shown}: {param[:_MESSAGE_EXCERPT]}"
    return shown


def _inner_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of the provider's error that a gateway passes on; empty if it passes on none.

    It is JSON, or only text, where OpenRouter (`metadata.raw`) and Vercel (`value`) keep it, or JSON as the message.
    """
    metadata, value = fields.get("metadata"), fields.get("value")
    sent: Any = metadata.get("raw") if is_object(metadata) else value.get("error_message") if is_object(value) else None
    sent = sent or fields["message"]
    if isinstance(sent, str) and len(sent) <= _LONGEST_INNER:
        with suppress(ValueError, RecursionError):
            sent = load_json(sent)
    sent = sent[0] if is_list(sent) and len(sent) == 1 else sent
    if not isinstance(sent, str | list | dict):
        return {}
    return _error_fields(error_value(sent), sent)
