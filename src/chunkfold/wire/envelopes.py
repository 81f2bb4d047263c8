"""Recognise providers' errors by their shape, inside a stream or instead of one, and turn them into `APIError`.

Events of other APIs are recognised here too: the URL is wrong then, and a retry does not help.

The shapes are tried in a fixed order (see `find_error`); `may_be_other` is a quick check for whether any of them is
possible.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from chunkfold.anomalies import ERROR_BARE, ERROR_BASE_RESP, ERROR_FINISH, ERROR_INSIDE, ERROR_SHAPE, Rule
from chunkfold.errors import APIError, APIStatusError
from chunkfold.excerpts import escaped, excerpt, printed
from chunkfold.json_text.parsing import load_json
from chunkfold.json_text.surrogates import scrubbed
from chunkfold.json_text.values import is_integer, is_list, is_object, with_shared_texts
from chunkfold.models import ChatCompletionChunk, ErrorObject, Outcome
from chunkfold.models.base import validate_leniently
from chunkfold.models.outcome import outcome_of
from chunkfold.wire.headers import request_id, retry_after, seconds_in
from chunkfold.wire.repairs import is_too_deep, objects_in
from chunkfold.wire.statuses import code_of, status_of

_MESSAGE_EXCERPT: Final = 500
_LONGEST_PATH: Final = 10  # keys
_LONGEST_KEY: Final = 50  # characters
_LONGEST_INNER: Final = 2**16  # characters
_BRACKETS: Final = ("{", "[")
_REDIRECTS: Final = (301, 302, 303, 307, 308)
# A path of anything else, such as `;jsessionid=`, may hold more than names.
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9._~:/-]*")
# Keys of the errors without an envelope, in addition to those that end in this.
_BARE_KEYS: Final = frozenset(
    {"code", "status_code", "message", "detail", "type", "error_code", "error_message", "errors", "success"}
    | {"Message", "Response"}
)
_EXCEPTION: Final = "Exception"
_NATIVE: Final = "native_finish_reason"
_TEXT_IS_ERROR: Final = "error_finish"
_GOOD_WORDS: Final = ("0", "200", "ok", "success", "succeeded", "completed")
_MESSAGES: Final = frozenset({"delta", "message"})
_ANTHROPIC_EVENTS: Final = (
    *("message_start", "message_delta", "message_stop"),
    *("content_block_start", "content_block_delta", "content_block_stop"),
)


class Envelope(NamedTuple):
    """An error found in a JSON object: the value that describes it, and the rule that its shape breaks, if any."""

    value: Any
    rule: Rule | None


def may_be_other(chunk: ChatCompletionChunk) -> bool:
    """Whether the object that a valid chunk was read from may be, or hold, an error, or be an event of another API."""
    extra = chunk.__pydantic_extra__
    if "choices" not in chunk.__pydantic_fields_set__:
        return True  # any of the shapes; such objects are few
    if not chunk.choices and extra and any(name in _BARE_KEYS or name.endswith(_EXCEPTION) for name in extra):
        return True
    if extra and (extra.get("error") or extra.get("base_resp") is not None or _has_error(extra.get("x_groq"))):
        return True
    for choice in chunk.choices:
        extra, reason = choice.__pydantic_extra__, choice.finish_reason
        if "delta" not in choice.__pydantic_fields_set__ or (extra and extra.get("error")):
            return True
        if reason is not None and _failure(reason, extra.get(_NATIVE) if extra else None):
            return True
    return False


def find_error(body: dict[str, Any], *, named: bool = False) -> Envelope | None:
    """The error in an event's JSON object, None if it has none.

    Args:
        body: The object.
        named: Whether its event had a name that is not a chunk's: then only shapes that leave no doubt count.
    """
    choices = body.get("choices")
    has_choices = choices is not None
    error = body.get("error")
    if error is not None and error is not False and (_is_not_empty(error) or not has_choices):
        return Envelope(error, None if error and is_object(error) else ERROR_SHAPE)
    if not named and (body.get("object") == "error" or (body.get("type") == "error" and not choices)):
        return Envelope(body, ERROR_BARE)
    base = body.get("base_resp")
    if is_object(base) and base.get("status_code") not in (None, 0, "0"):
        return Envelope({**base, "code": base["status_code"]}, ERROR_BASE_RESP)
    inside = _error_inside(body)
    if inside is not None or named or choices or (has_choices and body.get("usage")):
        return inside
    vendor = _vendor_error(body)
    is_failure = any(400 <= code_of(body.get(name)) < 10**18 for name in ("code", "status_code"))
    if vendor is not None or is_failure or (_has_message(body) and (not has_choices or status_of(body, body))):
        return Envelope(vendor or body, ERROR_BARE)
    return None


def _has_error(holder: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a choice or `x_groq` has an error; null, false and an error with only empty fields do not count."""
    return is_object(holder) and _is_not_empty(holder.get("error"))


def _is_not_empty(error: Any) -> bool:
    """Whether an error is not empty; some relays add one with empty fields to every chunk (Apertis)."""
    return any(error.values()) if is_object(error) else bool(error)


def _failure(finish_reason: Any, native: Any) -> tuple[str, str] | None:
    """The key and the word of the finish reason that means an error, if a choice has one.

    OpenRouter passes on the upstream's own word, and sends `stop` where it does not know that word.
    """
    own, upstream = (outcome_of(word) if isinstance(word, str) else None for word in (finish_reason, native))
    if own is Outcome.ERROR:
        return "finish_reason", finish_reason
    return (_NATIVE, native) if own is Outcome.STOP and upstream is Outcome.ERROR else None


def _error_inside(body: dict[str, Any]) -> Envelope | None:
    """The error in a choice or in `x_groq`; a finish reason that means an error is one by itself."""
    choices = objects_in(body.get("choices"))
    errors = [holder["error"] for holder in (*choices, body.get("x_groq")) if _has_error(holder)]
    for choice in choices:
        failure = _failure(choice.get("finish_reason"), choice.get(_NATIVE))
        if failure is not None:
            key, word = failure
            reason = f"{key.replace('_', ' ')} {excerpt(word)}"
            message = f"the provider ended choice {excerpt(choice.get('index', 0))} with the {reason}"
            holders = (choice, choice.get("delta"), choice.get("message"))
            own = next((holder["error"] for holder in holders if _has_error(holder)), errors[0] if errors else None)
            return Envelope(own or {"message": _error_text(choice) or message, key: word}, ERROR_FINISH)
    return Envelope(errors[0], ERROR_INSIDE) if errors else None


def _error_text(choice: dict[str, Any]) -> str | None:
    """The error that DashScope writes where the text of an answer is, JSON or not; None if a choice has none."""
    delta = choice.get("delta")
    text = delta.get("content") if is_object(delta) and choice.get("finish_reason") == _TEXT_IS_ERROR else None
    return text if isinstance(text, str) and text.strip() else None


def without_error_texts(body: dict[str, Any]) -> dict[str, Any]:
    """A copy of an object with choices, in which no error is the text of an answer."""
    body = with_shared_texts(body)
    for choice in objects_in(body["choices"]):
        if _error_text(choice) is not None:
            del choice["delta"]["content"]
    return body


def _vendor_error(body: dict[str, Any]) -> dict[str, Any] | None:
    """The error in a shape of one vendor's, with OpenAI's names for its message and its code; None if there is none."""
    errors = body.get("errors")
    if errors and is_list(errors):  # Cloudflare, watsonx
        first = errors[0] if is_object(errors[0]) else {}
        return {**body, "message": _message_of(errors), "code": first.get("code") or body.get("status_code")}
    if is_object(errors) and _first_message(errors) and body.get("success") is not True:  # ModelScope
        return {**body, **errors}
    if body.get("success") is False:
        return body
    message, code = body.get("error_message"), body.get("error_code")
    has_message = bool(message) and isinstance(message, str) and code is None and body.get("success") is not True
    if has_message or code not in (None, "", 0, "0"):  # DeepInfra, Venice; Baidu, Databricks
        return {**body, "message": body.get("error_msg") or message or body.get("message"), "code": code}
    response = body.get("Response")
    inner = response.get("Error") if is_object(response) else None
    if is_object(inner):  # Tencent
        return {**inner, "message": inner.get("Message"), "code": inner.get("Code")}
    if isinstance(body.get("Message"), str) and body["Message"]:  # AWS
        return {**body, "message": body["Message"]}
    for name, value in body.items():
        if name.endswith(_EXCEPTION) and is_object(value):  # Bedrock, inside a stream
            return {**value, "type": name}
    return None


def _has_message(body: dict[str, Any]) -> bool:
    """Whether an object has an error's message, does not report success, and is not a chunk."""
    message = body.get("message")
    is_answer = is_object(message) and "role" in message  # of another API, Ollama's own
    codes = [code for name in ("code", "status_code", "error_code", "status") if (code := body.get(name)) is not None]
    is_well = body.get("success") is True or (bool(codes) and all(map(_is_good, codes)))
    is_chunk = "usage" in body or printed(body.get("object", "")).startswith("chat.completion")
    return bool((message and not is_answer) or body.get("detail")) and not is_well and not is_chunk


def _is_good(code: Any) -> bool:
    return code.lower() in _GOOD_WORDS if isinstance(code, str) else code in (0, 200)


def other_api(name: Any) -> str | None:
    """The API whose events have this name or type; None if it is not known."""
    if isinstance(name, str) and name.startswith("response."):
        return "OpenAI's Responses API (/responses)"
    return "Anthropic's Messages API (/messages)" if name in _ANTHROPIC_EVENTS else None


def other_api_object(body: dict[str, Any]) -> str | None:
    """The API that sends such an object; None if it is not known."""
    choices = body.get("choices")
    if not choices:
        return other_api(body.get("type"))
    texts = [choice["text"] for choice in objects_in(choices) if "text" in choice and not {*choice} & _MESSAGES]
    # Some relays send these events with the object of a chunk.
    is_legacy = any(texts) or (bool(texts) and body.get("object") == "text_completion")
    return "the legacy completions API (/completions)" if is_legacy else None


def api_error(value: Any, raw: Any) -> APIError:
    """An `APIError` from the value that describes it and the whole body that contained the value."""
    is_same = value is raw
    raw = scrubbed(raw)
    value = raw if is_same else scrubbed(value)
    fields = _error_fields(value, raw)
    inner = _inner_fields(fields)
    error, _ = validate_leniently(ErrorObject, dict(fields))
    return APIError(
        _shown(error, inner),
        error=error,
        status_code=status_of(fields, raw) or status_of(inner, None),
        request_id=_request_id_in(fields, raw),
        retry_after=_retry_delay(fields, inner),
        raw=raw,
    )


def api_status_error(status_code: int, headers: Mapping[str, str], body: Any, text: str) -> APIStatusError:
    """An `APIStatusError`: `body` is the JSON of the response; if it is not JSON, None, and `text` is quoted."""
    body = scrubbed(body)
    envelope = find_error(body) if is_object(body) else None
    value: Any = envelope.value if envelope else text if body is None or is_list(body) else body
    fields = _error_fields(value, body)
    inner = _inner_fields(fields)
    error, _ = validate_leniently(ErrorObject, dict(fields))
    wait = retry_after(headers)
    failure = APIStatusError(
        f"HTTP {status_code}{_redirected(status_code, headers)}: {_shown(error, inner)}",
        error=error,
        status_code=status_code,
        request_id=request_id(headers) or _request_id_in(fields, body),
        retry_after=_retry_delay(fields, inner) if wait is None else wait,
        raw=text if body is None else body,
    )
    failure.headers = headers
    return failure


def _redirected(status_code: int, headers: Mapping[str, str]) -> str:
    """Where a redirect leads to, for the message: without user, password and query, each of which may be a secret."""
    try:
        parts = urlsplit(headers.get("location", "") if status_code in _REDIRECTS else "")
    except ValueError:
        return ""
    if parts.scheme not in ("", "http", "https"):
        return ""
    host = parts.netloc.rpartition("@")[2]
    path = parts.path if _PLAIN_PATH.fullmatch(parts.path) else ""
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    place = f"{scheme}//{host}{path}" if host else f"{scheme}{path}"
    return f", redirected to {excerpt(place)}" if host or place.startswith("/") else ""


def _error_fields(value: Any, raw: Any) -> dict[str, Any]:
    """The fields of the error object, from the value that describes it and the whole body that contained the value."""
    fields = _described_by(value)
    outer = raw if is_object(raw) else {}
    if isinstance(fields.get("error"), dict | str) and "message" not in fields:
        fields |= _described_by(fields.pop("error"))
    beside = {} if value is raw else {name: field for name, field in outer.items() if name != "error"}
    details = _first_message(beside)
    if not isinstance(fields.get("message"), str):
        # `{"error": true, "message": "..."}`: the words are beside it.
        fields["message"] = _first_message(fields) or details or _message_of(value)
    elif isinstance(value, str) and details:
        # `{"error": "Bad Request", "message": "..."}`: a phrase, and the details beside it (Fastify, Spring, OAuth).
        fields["message"] = details if details.startswith(value) else f"{value}: {details}"
    if value is not raw:
        # A string error keeps its type and code beside it (text-generation-inference: `error_type`).
        fields.setdefault("code", outer.get("code"))
        fields.setdefault("type", fields.get("error_type") or outer.get("error_type") or outer.get("type"))
    if fields.get("code") is None and outer.get("errorCode") is not None:
        fields["code"] = outer["errorCode"]
    for detail in objects_in(fields.get("detail")):  # FastAPI says where in the request something is wrong
        if (loc := detail.get("loc")) and is_list(loc):
            fields.setdefault("param", ".".join(printed(key)[:_LONGEST_KEY] for key in loc[:_LONGEST_PATH]))
    return {name: field for name, field in fields.items() if not is_too_deep(field)}


def _request_id_in(fields: dict[str, Any], raw: Any) -> str | None:
    """The id of the request in a body (Anthropic, DashScope), which some gateways leave out of the headers."""
    ids = (part.get("request_id") for part in (fields, raw) if is_object(part))
    return next((id_ for id_ in ids if id_ and isinstance(id_, str)), None)


def _retry_delay(fields: dict[str, Any], inner: dict[str, Any]) -> float | None:
    """Seconds to wait, as Google's `RetryInfo` says among the details: its compatible endpoint has no header."""
    for detail in chain(objects_in(fields.get("details")), objects_in(inner.get("details"))):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s") and (seconds := seconds_in(delay[:-1])) is not None:
            return seconds
    return None


def _described_by(value: Any) -> dict[str, Any]:
    """The fields of an object, or of the first in a list of them; of anything else the message, or the code."""
    if is_list(value):
        return {**(value[0] if value and is_object(value[0]) else {}), "message": _message_of(value)}
    if is_object(value):
        return dict(value)
    return {"code": value} if is_integer(value) else {"message": _message_of(value)}


def _first_message(fields: dict[str, Any], levels: int = 4) -> str | None:
    for name in ("message", "msg", "status_msg", "detail", "error_description", "error", "title"):
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


def _shown(error: ErrorObject, inner: dict[str, Any]) -> str:
    """The message for the exception's text: bounded, without control characters; else the code and the type."""
    if error.message:
        words = inner.get("message")
        if not isinstance(words, str):
            return escaped(error.message, _MESSAGE_EXCERPT)
        if error.message.lstrip()[:1] in _BRACKETS:  # the same, as JSON
            return escaped(words, _MESSAGE_EXCERPT)
        return escaped(error.message if words in error.message else f"{error.message}: {words}", _MESSAGE_EXCERPT)
    known = [f"{name} {excerpt(value)}" for name in ("code", "type") if (value := getattr(error, name)) is not None]
    what = "the provider sent an error without a message"
    return f"{what}: {', '.join(known)}" if known else what


def _inner_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of the provider's error that a gateway passes on; empty if it passes on none.

    It is JSON, or only text, where OpenRouter (`metadata.raw`) and Vercel (`value`) keep it, or JSON as the message.
    """
    metadata, value, message = (fields.get(name) for name in ("metadata", "value", "message"))
    sent: Any = metadata.get("raw") if is_object(metadata) else value.get("error_message") if is_object(value) else None
    if not sent and isinstance(message, str) and message.lstrip()[:1] in _BRACKETS:
        sent = message
    if isinstance(sent, str) and len(sent) <= _LONGEST_INNER and sent.lstrip()[:1] in _BRACKETS:
        with suppress(ValueError, RecursionError):
            sent = load_json(sent)
    sent = sent[0] if is_list(sent) and len(sent) == 1 else sent
    if not sent or not isinstance(sent, str | list | dict):
        return {}
    envelope = find_error(sent) if is_object(sent) else None
    return _error_fields(envelope.value if envelope else sent, sent)
