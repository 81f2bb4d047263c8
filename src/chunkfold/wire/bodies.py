"""Parse a body that is not an event stream: a whole completion, an error, or the body of a refused response."""

import re
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.arguments import check_count, check_instance
from chunkfold.errors import APIStatusError, exceeded
from chunkfold.event_stream.decoder import EventStreamDecoder
from chunkfold.event_stream.server_sent_event import BOM, ServerSentEvent
from chunkfold.json_text.values import is_list, is_object, objects_in
from chunkfold.models.chunk import CHUNK_OBJECT
from chunkfold.models.content import (
    CLOSING_THOUGHT_TAG,
    OPENING_THOUGHT_TAG,
    is_thought,
    reasoning_in,
    without_thought_flag,
)
from chunkfold.wire.api_errors import api_status_error
from chunkfold.wire.envelopes import find_error, other_api_object
from chunkfold.wire.headers import GivenHeaders, Headers
from chunkfold.wire.payload import Payload, take_chunk, take_object
from chunkfold.wire.raw_data import DATA, before_done, error_comment, value_of
from chunkfold.wire.reading import read_json, unwrapped
from chunkfold.wire.repairs import read_contents

MAX_ERROR_BODY: Final = 64 * 2**10  # bytes of the body of a refused response
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # the first bytes of gzip and zstd
_FIRST_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
_LONGEST_FIELD: Final = len(b"\nevent:")
_COMMENT: Final = re.compile(rb"(?<=[\r\n]):")
_COMMENT_LINES: Final = re.compile(rb"(?::[^\r\n]*+|[\r\n]++)*+")  # in one step


def parse_body(body: bytes, *, is_opening: bool = False) -> Payload | None:
    """A body that is not an event stream: an error, or a whole completion as one chunk; None if it is neither.

    `is_opening` says that it is only the text before an event stream: then an error has to be unambiguous.
    """
    payload = Payload()
    value, _ = read_json(_without_rest(body), payload.notes)
    value = unwrapped(value, payload.notes)
    if not is_object(value):
        return None
    event = ServerSentEvent(body)
    if find_error(value, unambiguous=is_opening) is not None:
        payload.notes.append((anomalies.ERROR_BODY, ""))
        take_object(event, value, payload)
        return payload
    choices: Any = value.get("choices") or []
    is_completion = bool(choices) or value.get("object") == "chat.completion"
    if not is_completion or not is_list(choices) or other_api_object(value):
        return None
    payload.notes.append((anomalies.WHOLE_COMPLETION, ""))
    messages = [message for choice in objects_in(choices) if is_object(message := choice.get("message"))]
    # An object is the answer that Workers AI gives in JSON mode. In a chunk it could also be a part, and is refused.
    read_contents(messages, (dict, int, float), payload.notes)
    for message in filter(is_thought, messages):
        _split_thought(message)
    chunk = {**value, "object": CHUNK_OBJECT, "choices": [_with_delta(choice) for choice in choices]}
    take_chunk(event, chunk, payload)
    return payload


def opening_error(opening: bytes) -> Payload | None:
    """The error in text before an event stream in which no chunk comes; None if it has none.

    It has any shape, except a `message` alone: a line of a log has one.
    """
    body = opening.strip()
    value = value_of(_without_rest(body))
    has_more = is_object(value) and find_error({**value, "message": None}) is not None
    return parse_body(body) if has_more else None


def _without_rest(body: bytes) -> bytes:
    """A JSON body without what gateways add: comments to keep a connection alive, and a `data: [DONE]`, maybe cut."""
    body = before_done(body)
    last = (b"", *body[-_LONGEST_FIELD:].splitlines())[-1]
    is_beginning = any(field.startswith(last) for field in _FIRST_FIELDS)
    body = body.removesuffix(last if is_beginning else DATA)
    first = _COMMENT.search(body)
    if first is None or not _COMMENT_LINES.fullmatch(body, first.start()):
        return body
    before = body[: first.start()].rstrip()
    return before if before.endswith((b"}", b"]")) else body  # else the colon is part of the JSON


def _with_delta(choice: Any) -> Any:
    """A completion's choice as a chunk's: its message is the delta, its tool calls get their places as index."""
    if not is_object(choice) or not is_object(choice.get("message")):
        return choice
    fields = dict(choice)
    delta = dict(fields.pop("message"))
    if is_list(calls := delta.get("tool_calls")):
        delta["tool_calls"] = [{**one, "index": place} if is_object(one) else one for place, one in enumerate(calls)]
    return {**fields, "delta": delta}


def _split_thought(message: dict[str, Any]) -> None:
    """Take the thought out of a whole message's content that is flagged as one, unless all of it is the thought.

    Gemini flags a whole message with a thought: its content is the thought, in tags, and the text, or the text alone
    beside the thought's signature.
    """
    content, extra = message["content"], message["extra_content"]
    if content.startswith(OPENING_THOUGHT_TAG):
        thought, _, text = content.removeprefix(OPENING_THOUGHT_TAG).partition(CLOSING_THOUGHT_TAG)
    elif extra["google"].get("thought_signature"):
        thought, text = "", content
    else:
        return
    message |= {"content": text, "extra_content": without_thought_flag(extra)}
    if thought and not reasoning_in(message):
        message["reasoning"] = thought


def is_compressed(body: bytes) -> bool:
    """Whether a body is still compressed, as its first bytes say."""
    return body.startswith(_COMPRESSED)


def _read_and_quoted(body: bytes) -> tuple[bytes, bytes]:
    """What to read of a refused response's body, and what to quote if it is not JSON.

    Some send the error as a stream: then it is the data of the error event, else of the first event.
    """
    decoder = EventStreamDecoder()
    events = decoder.feed(body + b"\n\n") if body.lstrip().startswith(_FIRST_FIELDS) else []
    errors = [event for event in (*events, *decoder.discarded) if event.event == "error"]
    if errors:
        data = errors[0].data
        data = error_comment(data) if data.startswith(b":") else data
        return data, data
    return events[0].data if events else body, body


def error_from_response(
    status_code: int, headers: GivenHeaders, body: bytes | bytearray | memoryview
) -> APIStatusError:
    """Create the error for a response whose status is not 2xx.

    Args:
        status_code: The response's status.
        headers: Its headers; the case of their names does not matter.
        body: Its body, or the part of it that was read. Only its first 64 KiB are used; the `__cause__` is a
            `LimitExceededError` if it has more.

    Raises:
        TypeError: The status is not an int, the body is not bytes, or the headers are not a mapping.
        ValueError: The status is negative.
    """
    check_instance("status_code", status_code, int, "an int")
    check_count("status_code", status_code)
    check_instance("body", body, (bytes, bytearray, memoryview), "bytes")
    whole = bytes(body)
    body = whole[:MAX_ERROR_BODY].removeprefix(BOM)
    read, quoted = _read_and_quoted(body)
    text = (
        "a compressed body: pass the decoded one" if is_compressed(body) else quoted.decode("utf-8", "replace").strip()
    )
    error = api_status_error(status_code, Headers(headers), value_of(_without_rest(read)), text)
    if len(whole) > MAX_ERROR_BODY:
        error.__cause__ = exceeded("max_error_body", MAX_ERROR_BODY)
    return error
