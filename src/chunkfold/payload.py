"""One event to its chunks, an error, or `[DONE]`; and bodies that are no event stream.

The fast path is one `validate_json` of the event's raw bytes. What it refuses, and what looks like more than a plain
chunk, takes the slow path: parse, look for an error, repair, validate again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from chunkfold.anomalies import (
    BLANK_DATA,
    COMMENT_IN_DATA,
    DONE_WITH_BLANKS,
    ERROR_BODY,
    ERROR_EVENT,
    FOREIGN_EVENT,
    NULL_DATA,
    SEVERAL_PAYLOADS,
    WHOLE_COMPLETION,
    WRAPPED_IN_LIST,
    Rule,
)
from chunkfold.brief import BriefRepr
from chunkfold.envelopes import Headers, api_error, api_status_error, find_error
from chunkfold.errors import APIStatusError, ChunkfoldError, InvalidChunkError, excerpt
from chunkfold.event_stream import MESSAGE, EventStreamDecoder, ServerSentEvent
from chunkfold.json_values import is_list, is_object
from chunkfold.models import ChatCompletionChunk, Outcome
from chunkfold.models.outcome import outcome_of
from chunkfold.repairs import Notes, UnreadableError, read_json, repaired_chunk

ChatCompletionChunk.model_rebuild()  # the one model that every stream needs
validate_json: Callable[[bytes], ChatCompletionChunk] = ChatCompletionChunk.__pydantic_validator__.validate_json
_DONE: Final = b"[DONE]"
_FIRST_FIELDS: Final = (b"data:", b"event:", b"error:", b":")
_CHUNK_EVENTS: Final = frozenset({MESSAGE, "error", "chat.completion.chunk"})
# Keys that no plain chunk has; beside choices only the first two mean anything.
_TELLING: Final = frozenset({"error", "base_resp", "type", "code", "status_code", "message", "detail"})
_TELLING_OBJECTS: Final = ("error", "text_completion")
_ANTHROPIC_EVENTS: Final = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


@dataclass(slots=True, repr=False)
class Payload(BriefRepr):
    """What came of one event.

    Attributes:
        chunks: Its chunks: often one, sometimes none, several where a block holds several payloads.
        error: What is wrong, after those chunks; None if nothing is.
        done: Whether it was `[DONE]`.
        notes: What was tolerated: the rule and the place within the event.
    """

    chunks: list[ChatCompletionChunk] = field(default_factory=list[ChatCompletionChunk])
    error: ChunkfoldError | None = None
    done: bool = False
    notes: Notes = field(default_factory=list[tuple[Rule, str]])


def parse_payload(event: ServerSentEvent) -> Payload:
    """Read one event. Never raises: what is wrong with it is in the result.

    Half a surrogate pair at the edge of a text stays in the chunk; `ChatCompletionParser` joins the halves.
    """
    chunk = valid_chunk(event)
    return Payload([chunk]) if chunk is not None and is_plain(chunk) else parse_slowly(event)


def valid_chunk(event: ServerSentEvent) -> ChatCompletionChunk | None:
    """The fast path: the event as a chunk if it is a valid one, which may yet be more than that: see `is_plain`."""
    if event.event != MESSAGE:
        return None
    try:
        return validate_json(event.data)
    except ValidationError:
        return None


def is_plain(chunk: ChatCompletionChunk) -> bool:
    """Whether a valid chunk is a chunk and nothing else: no error in it, no other API's."""
    extra = chunk.__pydantic_extra__
    if chunk.object in _TELLING_OBJECTS:
        return False
    if not chunk.choices:
        return not extra or _TELLING.isdisjoint(extra)
    if extra and (extra.get("error") is not None or extra.get("base_resp") is not None):
        return False
    for choice in chunk.choices:
        if choice.finish_reason and outcome_of(choice.finish_reason) is Outcome.ERROR:
            return False
    return True


def parse_slowly(event: ServerSentEvent) -> Payload:
    """The slow path: whatever is not a valid chunk, and plain."""
    payload = Payload()
    data = event.data.strip()
    if event.event == "error":
        payload.notes.append((ERROR_EVENT, ""))
        _take_error_event(event, payload)
    elif data == _DONE:
        if data != event.data:
            payload.notes.append((DONE_WITH_BLANKS, ""))
        payload.done = True
    elif (api := _other_api(event.event)) is not None:
        payload.error = _invalid(event, _names_other_api(api))
    elif not data:
        payload.notes.append((BLANK_DATA, ""))
    elif data.startswith(b":"):
        payload.notes.append((COMMENT_IN_DATA, ""))
    elif data == b"null":
        payload.notes.append((NULL_DATA, ""))
    else:
        _take_json(event, payload)
    return payload


def _take_error_event(event: ServerSentEvent, payload: Payload) -> None:
    """An event named error is one, whatever its data."""
    try:
        body = read_json(event.data, payload.notes)
    except UnreadableError:
        payload.error = api_error(event.text.strip(), event.text)
        return
    body = _unwrapped(body, payload.notes)
    envelope = find_error(body) if is_object(body) else None
    if is_object(body) and body.get("choices"):
        _take_chunk(event, _unwrapped(read_json(event.data, []), []), payload)
    payload.error = api_error(envelope.value if envelope else body, body)


def _take_json(event: ServerSentEvent, payload: Payload) -> None:
    is_foreign = event.event not in _CHUNK_EVENTS
    notes: Notes = []
    try:
        body = read_json(event.data, notes)
    except UnreadableError as error:
        lines = _split_payloads(event)
        if lines:
            payload.notes.append((SEVERAL_PAYLOADS, f"{len(lines)} payloads"))
            _take_lines(lines, payload)
        elif is_foreign:
            payload.notes.append((FOREIGN_EVENT, excerpt(event.event)))
        else:
            payload.error = _invalid(event, f"{error}: {excerpt(event.text)}")
        return
    if not is_foreign:
        body = _unwrapped(body, notes)
    if is_foreign and not (is_object(body) and ("choices" in body or find_error(body, named=True))):
        payload.notes.append((FOREIGN_EVENT, excerpt(event.event)))
    elif is_object(body):
        payload.notes += notes
        _take_object(event, body, payload)
    else:
        kind = type(body).__name__
        payload.error = _invalid(event, f"expected a JSON object, received {kind}: {excerpt(event.text)}")


def _take_object(event: ServerSentEvent, body: dict[str, Any], payload: Payload) -> None:
    api = _other_api_object(body)
    envelope = find_error(body, named=event.event not in _CHUNK_EVENTS)
    if envelope is not None and (api is None or body.get("error")):
        if envelope.rule is not None:
            payload.notes.append((envelope.rule, ""))
        if body.get("choices"):
            _take_chunk(event, _unwrapped(read_json(event.data, []), []), payload)
        payload.error = api_error(envelope.value, body)
        return
    if api is not None:
        payload.error = _invalid(event, _names_other_api(api))
        return
    _take_chunk(event, body, payload)


def _take_chunk(event: ServerSentEvent, body: dict[str, Any], payload: Payload) -> None:
    try:
        payload.chunks.append(repaired_chunk(body, payload.notes))
    except UnreadableError as error:
        payload.error = _invalid(event, str(error))


def _split_payloads(event: ServerSentEvent) -> list[ServerSentEvent]:
    """The lines of a block that lost its blank lines, as events; none if it is not such a block.

    It is one where the first line alone is a JSON object or `[DONE]`.
    """
    lines = [line for line in event.data.split(b"\n") if line.strip()]
    if len(lines) < 2:
        return []
    first = lines[0].strip()
    if first != _DONE and not _is_json_object(first):
        return []
    return [event._replace(data=line) for line in lines]


def _take_lines(lines: list[ServerSentEvent], payload: Payload) -> None:
    """Each line as an event of its own, up to the first that ends the stream."""
    for line in lines:
        one = parse_payload(line)
        payload.chunks += one.chunks
        payload.notes += one.notes
        payload.error, payload.done = one.error, one.done
        if one.error or one.done:
            return


def whole_part(event: ServerSentEvent, *, data_terminated: bool) -> ServerSentEvent | None:
    """What of an unfinished block is whole; None if that is nothing."""
    lines = event.data.split(b"\n")
    if not data_terminated and not _is_whole(event.data) and not _is_whole(lines[-1]):
        lines.pop()
        if not lines:
            return None
        event = event._replace(data=b"\n".join(lines))
    if not event.data.strip() or not (_is_whole(event.data) or _split_payloads(event)):
        return None
    return event


def _is_whole(data: bytes) -> bool:
    """Whether data can be judged: text that begins like JSON and is none was cut."""
    data = data.strip()
    return data[:1] not in (b"{", b"[") or data == b"[DONE]" or is_json(data)


def is_json(data: bytes) -> bool:
    """Whether data is JSON, repairs allowed."""
    try:
        read_json(data, [])
    except UnreadableError:
        return False
    return True


def _is_json_object(data: bytes) -> bool:
    return data.startswith(b"{") and is_json(data)


def _unwrapped(body: Any, notes: Notes) -> Any:
    """Google wraps an error in a list of one."""
    if is_list(body) and len(body) == 1 and is_object(body[0]):
        notes.append((WRAPPED_IN_LIST, ""))
        return body[0]
    return body


def _other_api(name: Any) -> str | None:
    """The API whose event names or types these are."""
    if not isinstance(name, str):
        return None
    if name.startswith("response."):
        return "OpenAI's Responses API (/responses)"
    return "Anthropic's Messages API (/messages)" if name in _ANTHROPIC_EVENTS else None


def _other_api_object(body: dict[str, Any]) -> str | None:
    choices = body.get("choices")
    if not choices:
        return _other_api(body.get("type"))
    if body.get("object") == "text_completion" and is_list(choices):
        texts = (choice for choice in choices if is_object(choice) and "text" in choice)
        if any("delta" not in choice for choice in texts):
            return "the legacy completions API (/completions)"
    return None


def _names_other_api(api: str) -> str:
    return f"expected chunks of the chat completions API, received events of {api}"


def _invalid(event: ServerSentEvent, what: str) -> InvalidChunkError:
    return InvalidChunkError(f"event at byte {event.offset}: {what}", position=event.offset)


def parse_body(body: bytes) -> Payload | None:
    """A body that is no event stream: an error, or a whole completion as one chunk; None if it is neither."""
    payload = Payload()
    try:
        value = _unwrapped(read_json(body, payload.notes), payload.notes)
    except UnreadableError:
        return None
    if not is_object(value):
        return None
    event = ServerSentEvent(body)
    if find_error(value) is not None:
        payload.notes.append((ERROR_BODY, ""))
        _take_object(event, value, payload)
        return payload
    choices = value.get("choices")
    is_completion = bool(choices) or value.get("object") == "chat.completion"
    if not is_list(choices := choices or []) or not is_completion or _other_api_object(value):
        return None
    payload.notes.append((WHOLE_COMPLETION, ""))
    chunk = {**value, "object": "chat.completion.chunk", "choices": [_with_delta(choice) for choice in choices]}
    _take_chunk(event, chunk, payload)
    return payload


def _with_delta(choice: Any) -> Any:
    """A completion's choice as a chunk's: its message is the delta, its tool calls get their places as index."""
    if not is_object(choice) or not is_object(choice.get("message")):
        return choice
    delta = with_call_indexes(choice["message"])
    return {**{key: value for key, value in choice.items() if key != "message"}, "delta": delta}


def with_call_indexes(message: dict[str, Any]) -> dict[str, Any]:
    """A message's fields as a delta's: whole tool calls are told apart by their places."""
    calls = message.get("tool_calls")
    if not is_list(calls):
        return message
    numbered = [{"index": place, **call} if is_object(call) else call for place, call in enumerate(calls)]
    return {**message, "tool_calls": numbered}


def _event_data(body: bytes) -> bytes | None:
    """The data of the first event, where an error is told as a stream; None where the body is none."""
    events = EventStreamDecoder().feed(body + b"\n\n") if body.lstrip().startswith(_FIRST_FIELDS) else []
    return events[0].data if events else None


def error_from_response(status_code: int, headers: Mapping[str, str], body: bytes) -> APIStatusError:
    """The error that a response with a status other than 2xx stands for.

    Args:
        status_code: The response's status.
        headers: Its headers; names in any case.
        body: Its body, or as much of it as was read.
    """
    notes: Notes = []
    try:
        value = _unwrapped(read_json(_event_data(body) or body, notes), notes)
    except UnreadableError:
        value = None
    return api_status_error(status_code, Headers(headers), value, body.decode("utf-8", "replace").strip())
