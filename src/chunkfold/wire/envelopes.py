"""Recognise providers' errors by their shape, inside a stream or instead of one; `api_errors` turns them into errors.

The shapes are tried in a fixed order (see `find_error`); `is_only_chunk` quickly checks that none is possible. Events
of other APIs are recognised here too: the URL is wrong then, and a retry does not help.
"""

import re
from itertools import islice
from typing import Any, Final, NamedTuple, TypeGuard

from chunkfold import anomalies
from chunkfold.anomalies import Rule
from chunkfold.excerpts import excerpt, printed
from chunkfold.json_text.values import is_list, is_object, objects_in, with_shared_texts
from chunkfold.models.chunk import AMBIGUOUS_OBJECTS, ChatCompletionChunk
from chunkfold.models.content import is_of_tool
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.wire.repairs import AUDIO_MODALITY, DIFFUSION, SUMMARY
from chunkfold.wire.statuses import NUMBER_NAMES, code_of, leading_number, status_of

# Keys of the errors without an envelope, in addition to those that end in this.
_ERROR_KEYS: Final = frozenset(
    {"code", "status_code", "message", "detail", "type", "error_code", "error_message", "errors", "success"}
    | {"Message", "Response"}
)
# The second line has those of APISIX, Writer, Apigee (an object and its text), IONOS, Llama Stack and WSO2.
_MESSAGE_NAMES: Final = (
    *("message", "msg", "status_msg", "error_message", "detail", "error_description", "error", "title"),
    *("error_msg", "description", "fault", "faultstring", "messages", "errors", "actionReason"),
)
_EXCEPTION: Final = "Exception"
_NATIVE: Final = "native_finish_reason"
_TEXT_IS_ERROR: Final = "error_finish"
_EVENT_AS_TEXT: Final = re.compile(r"\s*(?:id:\S*\s+)?event:\s*error\s+:HTTP_STATUS/(\d+)\s+data:(.*)", re.DOTALL)
_GOOD_WORDS: Final = ("0", "200", "ok", "success", "succeeded", "completed")
_MESSAGES: Final = ("delta", "message")
_MOST_JOINED: Final = 100  # messages of a list
LONGEST_JOINED: Final = 2**16  # characters of a message that is joined to others; it may be as large as the event
_ANTHROPIC_EVENTS: Final = (
    *("message_start", "message_delta", "message_stop"),
    *("content_block_start", "content_block_delta", "content_block_stop"),
)


class Envelope(NamedTuple):
    """An error found in a JSON object: the value that describes it, and the rule that its shape breaks, if any."""

    value: Any
    rule: Rule | None


def is_only_chunk(chunk: ChatCompletionChunk) -> bool:
    """Whether a valid chunk is all that it seems: no error, not another API's, with nothing that is to be moved."""
    extra = chunk.__pydantic_extra__
    if "choices" not in chunk.__pydantic_fields_set__ or chunk.object in AMBIGUOUS_OBJECTS:
        return False  # any of the shapes; such objects are few
    if not chunk.choices and extra and any(name in _ERROR_KEYS or name.endswith(_EXCEPTION) for name in extra):
        return False
    if extra and (
        extra.get("error")
        or extra.get("modality") == AUDIO_MODALITY
        or extra.get(DIFFUSION)
        or extra.get(SUMMARY)
        or extra.get("base_resp") is not None
        or _has_error(extra.get("x_groq"))
    ):
        return False
    for choice in chunk.choices:
        extra, reason = choice.__pydantic_extra__, choice.finish_reason
        if "delta" not in choice.__pydantic_fields_set__ or (extra and extra.get("error")):
            return False
        for part in (choice.delta, vars(choice).get("message")):
            if part is not None and part.__pydantic_extra__ and part.__pydantic_extra__.get("error"):
                return False
        if reason is not None and _failure(reason, extra.get(_NATIVE) if extra else None):
            return False
    return True


def find_error(fields: dict[str, Any], *, unambiguous: bool = False) -> Envelope | None:
    """The error in a JSON object, None if it has none; if `unambiguous`, only in a shape that leaves no doubt."""
    if unambiguous and fields.get("tool_call_id"):
        return None  # a tool's, after which the answer continues: Friendli's event `tool_status`
    choices = fields.get("choices")
    has_choices = choices is not None
    error = fields.get("error")
    if error is not None and error is not False and (_is_not_empty(error) or not has_choices):
        return Envelope(error, None if error and is_object(error) else anomalies.ERROR_SHAPE)
    if not unambiguous and (fields.get("object") == "error" or (fields.get("type") == "error" and not choices)):
        return Envelope(fields, anomalies.ERROR_BARE)
    base = fields.get("base_resp")
    if is_object(base) and base.get("status_code") not in (None, 0, "0"):
        return Envelope({**base, "code": base["status_code"]}, anomalies.ERROR_BASE_RESP)
    inside = _error_inside(fields)
    if inside is not None or unambiguous or choices or (has_choices and fields.get("usage")):
        return inside
    vendor = _vendor_error(fields)
    is_error = vendor is not None or _has_failure_code(fields)
    if is_error or (_has_message(fields) and (not has_choices or status_of(fields, fields))):
        return Envelope(vendor or fields, anomalies.ERROR_BARE)
    return None


def error_value(value: Any, *, unambiguous: bool = False) -> Any:
    """The value that describes an error, in JSON that is an error: that of its envelope, else all of it."""
    envelope = find_error(value, unambiguous=unambiguous) if is_object(value) else None
    return value if envelope is None else envelope.value


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
    own = outcome_of(finish_reason) if isinstance(finish_reason, str) else None
    if own is Outcome.STOP and isinstance(native, str) and outcome_of(native) is Outcome.ERROR:
        return _NATIVE, native
    return ("finish_reason", finish_reason) if own is Outcome.ERROR else None


def _error_inside(fields: dict[str, Any]) -> Envelope | None:
    """The error in a choice or in `x_groq`; a finish reason that means an error is one by itself."""
    choices = objects_in(fields.get("choices"))
    errors = [error for holder in (*choices, fields.get("x_groq")) if (error := _error_in(holder))]
    for choice in choices:
        failure = _failure(choice.get("finish_reason"), choice.get(_NATIVE))
        if failure is not None:
            key, word = failure
            reason = f"{key.replace('_', ' ')} {excerpt(word)}"
            message = f"the provider ended choice {excerpt(choice.get('index', 0))} with the {reason}"
            own = {"message": message, key: word, **_error_as_text(choice)}
            return Envelope(errors[0] if errors else own, anomalies.ERROR_FINISH)
    return Envelope(errors[0], anomalies.ERROR_INSIDE) if errors else None


def _error_in(holder: Any) -> Any:
    """The error in a choice, in its delta or in its message, or in `x_groq`; None if there is none.

    The error of a tool's message is the tool's own.
    """
    if not is_object(holder):
        return None
    parts = (part for name in _MESSAGES if is_object(part := holder.get(name)) and not is_of_tool(part))
    return next((one["error"] for one in (holder, *parts) if _has_error(one)), None)


def _error_as_text(choice: dict[str, Any]) -> dict[str, str]:
    """The error that DashScope sends as the text of a choice: an event with its status, JSON or words. Else empty."""
    delta = choice.get("delta")
    text = delta.get("content") if is_object(delta) and choice.get("finish_reason") == _TEXT_IS_ERROR else None
    if not isinstance(text, str) or not text.strip():
        return {}
    event = _EVENT_AS_TEXT.match(text)
    return {"status_code": event[1], "message": event[2]} if event else {"message": text}


def chunk_beside(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The chunk in an object with an error: a copy in which no error is the text of an answer; None if it has none.

    It has one if it has choices or a usage.
    """
    holders = (fields, fields.get("x_groq"))
    if not (fields.get("choices") or any(is_object(holder) and holder.get("usage") for holder in holders)):
        return None
    fields = with_shared_texts(fields)
    for choice in objects_in(fields.get("choices")):
        if _error_as_text(choice):
            del choice["delta"]["content"]
    return fields


def _vendor_error(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The error in the shape of a single vendor, with OpenAI's names for message and code; None if there is none."""
    errors = fields.get("errors")
    if errors and is_list(errors):  # Cloudflare, watsonx
        first = errors[0] if is_object(errors[0]) else {}
        return {**fields, "message": message_of(errors), "code": first.get("code") or fields.get("status_code")}
    if is_object(errors) and first_message(errors) and fields.get("success") is not True:  # ModelScope
        return {**fields, **errors}
    if fields.get("success") is False:
        return fields
    message, code = fields.get("error_message"), fields.get("error_code")
    has_message = bool(message) and isinstance(message, str) and code is None and fields.get("success") is not True
    if has_message or code not in (None, "", 0, "0"):  # DeepInfra, Venice; Baidu, Databricks, FastChat
        texts = (fields.get("error_msg"), message, fields.get("message"), fields.get("text"))
        return {**fields, "message": next(filter(None, texts), None), "code": code}
    response = fields.get("Response")
    inner = response.get("Error") if is_object(response) else None
    if is_object(inner):  # Tencent
        return {**inner, "message": inner.get("Message"), "code": inner.get("Code")}
    if isinstance(fields.get("Message"), str) and fields["Message"]:  # AWS
        return {**fields, "message": fields["Message"]}
    for name, value in fields.items():
        if name.endswith(_EXCEPTION) and is_object(value):  # Bedrock, inside a stream
            return {**value, "type": name}
    return None


def _has_failure_code(fields: dict[str, Any]) -> bool:
    """Whether an object has a code of a failure, or the status and the title of one (RFC 9457)."""
    if any(code_of(fields.get(name)) >= 400 for name in ("code", "status_code")):
        return True
    is_problem = fields.get("choices") is None and isinstance(fields.get("title"), str)
    return is_problem and 400 <= code_of(fields.get("status")) <= 599


def _has_message(fields: dict[str, Any]) -> bool:
    """Whether an object has an error's message, does not report success, and is not a chunk."""
    message = fields.get("message")
    is_answer = is_object(message) and "role" in message  # of another API, Ollama's own
    codes = [code for name in (*NUMBER_NAMES, "error_code") if (code := fields.get(name)) is not None]
    is_well = all(map(_is_good, codes)) if codes else fields.get("error") is False
    is_chunk = "usage" in fields or printed(fields.get("object", "")).startswith("chat.completion")
    says_something = (_says_something(message) and not is_answer) or _says_something(fields.get("detail"))
    return says_something and not is_well and fields.get("success") is not True and not is_chunk


def _says_something(value: Any) -> bool:
    """Whether a value has words or, as an object, a code; a list is one of messages."""
    if is_object(value):
        return bool(value.get("code") or value.get("error_code") or message_of(value))
    return bool(value) and (is_list(value) or message_of(value) is not None)


def _is_good(code: Any) -> bool:
    if isinstance(code, bool):
        return code
    is_word = isinstance(code, str) and code.lower() in _GOOD_WORDS
    return is_word or code == 0 or 200 <= leading_number(code) < 300


def other_api(name: Any) -> str | None:
    """The API whose events have this name or type; None if it is not known."""
    if isinstance(name, str) and name.startswith("response."):
        return "OpenAI's Responses API (/responses)"
    return "Anthropic's Messages API (/messages)" if name in _ANTHROPIC_EVENTS else None


def other_api_object(fields: dict[str, Any]) -> str | None:
    """The API that sends such an object; None if it is not known."""
    choices = fields.get("choices")
    if not choices:
        return other_api(fields.get("type"))
    bare = [choice for choice in objects_in(choices) if choice.keys().isdisjoint(_MESSAGES)]
    texts = [choice["text"] for choice in bare if "text" in choice]
    # Some relays send these events with the object of a chunk.
    is_legacy = any(texts) or (bool(texts) and fields.get("object") == "text_completion")
    return "the legacy completions API (/completions)" if is_legacy else None


def message_of(value: Any, levels: int = 4, most: int = _MOST_JOINED) -> str | None:
    """The words in a string, a list of messages (FastAPI's `detail`) or an object, a few levels deep.

    `most` messages of a list are joined, of a list in it a tenth. No more than twice as many items are read.
    """
    if isinstance(value, str):
        return None if not value or value.isspace() else value
    if levels and is_list(value):
        texts = filter(None, (message_of(item, levels - 1, max(most // 10, 1)) for item in value[: 2 * most]))
        return "; ".join(text[:LONGEST_JOINED] for text in islice(texts, most)) or None
    if is_object(value):
        return first_message(value, levels - 1, most) if levels else None
    return None if value is None or value is True else excerpt(value)


def first_message(fields: dict[str, Any], levels: int = 4, most: int = _MOST_JOINED) -> str | None:
    """The words under the first of the names that has any."""
    found = (message_of(fields[name], levels, most) for name in _MESSAGE_NAMES if fields.get(name))
    return next(filter(None, found), None)
