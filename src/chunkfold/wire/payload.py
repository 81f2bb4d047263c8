"""Parse one event into its chunks, an error, or `[DONE]`.

The fast path is one `validate_json` of the event's raw bytes. Events that it refuses, and events that look like more
than a plain chunk, take the slow path: parse, look for an error, repair, validate again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.arguments import check_instance
from chunkfold.errors import ChunkfoldError, InvalidChunkError, LimitExceededError, exceeded
from chunkfold.event_stream.server_sent_event import MESSAGE, ServerSentEvent
from chunkfold.excerpts import ShortRepr, excerpt, excerpt_of
from chunkfold.json_text.parsing import is_wide
from chunkfold.json_text.surrogates import scrub
from chunkfold.json_text.values import is_object, new_list
from chunkfold.models.chunk import KEEP_ALIVES, ChatCompletionChunk, is_unexplained
from chunkfold.wire import raw_data
from chunkfold.wire.api_errors import api_error
from chunkfold.wire.envelopes import chunk_beside, error_value, find_error, is_only_chunk, other_api, other_api_object
from chunkfold.wire.part_counts import MAX_BLOCK_PARTS, MAX_EVENT_PARTS, count_parts, is_full_of_parts
from chunkfold.wire.reading import MAX_WIDE_TEXT, Notes, read_json, unwrapped
from chunkfold.wire.repairs import repaired_chunk

_LARGE: Final = 2**20  # bytes of an event

ChatCompletionChunk.model_rebuild()  # the one model that every stream needs
chunk_from_json: Callable[[bytes], ChatCompletionChunk] = ChatCompletionChunk.__pydantic_validator__.validate_json


@dataclass(slots=True, repr=False)
class Payload(ShortRepr):
    """The result of parsing one event.

    Attributes:
        chunks: Its chunks: often one, sometimes none, several if a block has several payloads.
        error: The error after those chunks; None if there is none.
        done: Whether it was `[DONE]`.
        notes: What was tolerated: each rule with its place within the event.
        foreign: An excerpt of an event that does not belong to a stream of chunks: one of another name that is not a
            keep-alive, or an object that is neither a chunk nor an error. "" for every other event.
    """

    chunks: list[ChatCompletionChunk] = field(default_factory=new_list)
    error: ChunkfoldError | None = None
    done: bool = False
    notes: Notes = field(default_factory=new_list)
    foreign: str = ""


def parse_payload(event: ServerSentEvent) -> Payload:
    """Parse one event. Never raises for its content: an error is in the result.

    Half a surrogate pair at the edge of a text stays in the chunk; `ChatCompletionParser` joins the halves.

    Raises:
        TypeError: It is not a `ServerSentEvent`, or its data is not bytes.
    """
    check_instance("event", event, ServerSentEvent, "a ServerSentEvent")
    check_instance("event.data", event.data, bytes, "bytes")
    chunk = valid_chunk(event)
    return Payload([chunk]) if chunk is not None and is_only_chunk(chunk) else parse_slowly(event)


def valid_chunk(event: ServerSentEvent) -> ChatCompletionChunk | None:
    """The fast path: the event as a valid chunk without too many parts, which may also be more: see `is_only_chunk`."""
    if event.event != MESSAGE:
        return None
    try:
        return None if is_full_of_parts(event.data) else chunk_from_json(event.data)
    except ValueError:
        return None


def parse_slowly(event: ServerSentEvent) -> Payload:
    """The slow path: parse an event that is not a valid, plain chunk."""
    payload = Payload()
    event = _without_keep_alives(event, payload)
    if event.data.lstrip().startswith(raw_data.DATA):
        payload.notes.append((anomalies.DATA_PREFIX_TWICE, ""))
        event = _without_keep_alives(event._replace(data=raw_data.without_prefix(event.data)), payload)
    if event.event.strip() == "error":
        payload.notes.append((anomalies.ERROR_EVENT, ""))
        _take_error_event(event._replace(event="error"), payload)
    else:
        _take_data(event, payload)
    return payload


def _without_keep_alives(event: ServerSentEvent, payload: Payload) -> ServerSentEvent:
    """The event without the keep-alives that its data begins with, which lost their blank line; unless it is all."""
    rest = raw_data.after_keep_alives(event.data)
    if len(rest) == len(event.data) or not rest.strip():
        return event
    dropped = event.data[: -len(rest)]
    kinds = ((anomalies.COMMENT_IN_DATA, b":" in dropped), (anomalies.NULL_DATA, raw_data.NULL_LINE.search(dropped)))
    found = [rule for rule, is_found in kinds if is_found]
    if found:  # not only blank lines
        payload.notes += [(rule, "") for rule in (anomalies.SEVERAL_PAYLOADS, *found)]
    return event._replace(data=rest)


def _take_data(event: ServerSentEvent, payload: Payload) -> None:
    data = event.data.strip()
    if data == raw_data.DONE:
        if data != event.data:
            payload.notes.append((anomalies.DONE_WITH_BLANKS, ""))
        payload.done = True
    elif (api := other_api(event.event)) is not None:
        payload.error = _of_other_api(event, api)
    elif not data:
        payload.notes.append((anomalies.BLANK_DATA, ""))
    elif data.startswith(b":"):
        payload.notes.append((anomalies.COMMENT_IN_DATA, ""))
    elif data == b"null":
        payload.notes.append((anomalies.NULL_DATA, ""))
    elif data == raw_data.DONE[-1:]:
        payload.notes.append((anomalies.DONE_REMNANT, ""))
    else:
        _take_json(event, payload)


def _take_error_event(event: ServerSentEvent, payload: Payload) -> None:
    """An event named error is an error, whatever its data."""
    found: Notes = []  # dropped if each line is read by itself
    value, problem = read_json(event.data, found)
    if not problem:
        payload.notes += found
        value = unwrapped(value, payload.notes)
        _take_error(event, value, payload)
    elif (is_cut := raw_data.ends_in_error(event.data)) or raw_data.begins_with_chunk(event.data):
        _take_several(event, payload, is_cut=is_cut)
    elif raw_data.holds_several(event.data):  # such as `[DONE]`, without the blank line between them
        payload.notes.append((anomalies.SEVERAL_PAYLOADS, ""))
        _take_error_event(event._replace(data=next(raw_data.lines_of(event.data))), payload)
    else:
        payload.notes += found
        payload.error = _error_in_text(event)


def _take_error(event: ServerSentEvent, raw: Any, payload: Payload, *, unambiguous: bool = False) -> None:
    """The error that the raw JSON is, and before it the chunk that came with it, if any.

    The chunk keeps halves of characters, which may be joined, but not in a large event: the chunk and the error would
    each have a text of their own.
    """
    is_split, is_large = b"\\u" in event.data, len(event.data) > _LARGE  # only escapes are halves
    if is_split and is_large:
        raw = scrub(raw)
    if is_object(raw) and (chunk := chunk_beside(raw)) is not None:
        take_chunk(event, chunk, payload)  # a copy: repairs change it, and the error shows it
    if is_split and not is_large:
        raw = scrub(raw)
    payload.error = api_error(error_value(raw, unambiguous=unambiguous), raw)


def _error_in_text(event: ServerSentEvent) -> ChunkfoldError:
    """The error in data that is not JSON: all of the text is its message."""
    if len(event.data) > MAX_WIDE_TEXT and is_wide(event.data):
        return exceeded("max_wide_text", MAX_WIDE_TEXT)
    text = event.text
    return api_error(text.strip(), text)


def _take_json(event: ServerSentEvent, payload: Payload) -> None:
    notes: Notes = []
    value, problem = read_json(event.data, notes)
    if problem:
        _take_broken(event, problem, payload)
        return
    is_foreign = raw_data.is_foreign(event)
    if not is_foreign:
        value = unwrapped(value, notes)
    if is_foreign and not (is_object(value) and ("choices" in value or find_error(value, unambiguous=True))):
        _skip_foreign(event, payload)
    elif is_object(value):
        payload.notes += notes
        take_object(event, value, payload)
    else:
        kind = type(value).__name__
        payload.error = _invalid(event, f"expected a JSON object, received {kind}: {excerpt_of(event.data)}")


def _take_broken(event: ServerSentEvent, problem: str, payload: Payload) -> None:
    event = raw_data.without_splice(event)
    data, is_foreign = event.data, raw_data.is_foreign(event)
    # The last line first: the first one of data that an error ends may be large.
    is_cut = raw_data.ends_in_error(data)
    if is_cut or raw_data.holds_several(data) or (is_foreign and raw_data.has_chunk_line(data)):
        _take_several(event, payload, is_cut=is_cut)
    elif raw_data.is_broken_error(data):
        payload.notes.append((anomalies.ERROR_BROKEN, ""))
        payload.error = _error_in_text(event)
    elif is_foreign:
        _skip_foreign(event, payload)
    else:
        problem = raw_data.LINE_ENDS_LOST if raw_data.has_lost_line_ends(data) else problem
        payload.error = _invalid(event, f"{problem}: {excerpt_of(data)}")


def _skip_foreign(event: ServerSentEvent, payload: Payload) -> None:
    payload.notes.append((anomalies.FOREIGN_EVENT, excerpt(event.event)))
    if event.event not in KEEP_ALIVES:
        payload.foreign = excerpt_of(event.data)


def take_object(event: ServerSentEvent, fields: dict[str, Any], payload: Payload) -> None:
    """An object: an error, an object of another API, or a chunk."""
    api = other_api_object(fields)
    unambiguous = raw_data.is_foreign(event)
    envelope = find_error(fields, unambiguous=unambiguous)
    if envelope is not None and (api is None or fields.get("error") or fields.get("choices")):
        if envelope.rule is not None:
            payload.notes.append((envelope.rule, ""))
        _take_error(event, fields, payload, unambiguous=unambiguous)
    elif api is not None:
        payload.error = _of_other_api(event, api)
    else:
        take_chunk(event, fields, payload)


def take_chunk(event: ServerSentEvent, fields: dict[str, Any], payload: Payload) -> None:
    """An object as a chunk, after the repairs that it needs."""
    if count_parts(fields.get("choices")) > MAX_EVENT_PARTS:
        payload.error = exceeded("max_event_parts", MAX_EVENT_PARTS)
        return
    try:
        chunk = repaired_chunk(fields, payload.notes)
    except ValueError as error:
        payload.error = _invalid(event, str(error))
    except LimitExceededError as error:
        payload.error = error
    else:
        payload.chunks.append(chunk)
        if is_unexplained(chunk):
            payload.foreign = excerpt_of(event.data)
            payload.notes.append((anomalies.UNEXPLAINED_OBJECT, payload.foreign))


def _take_several(event: ServerSentEvent, payload: Payload, *, is_cut: bool) -> None:
    """Take each line as an event of its own, up to the first that ends the stream.

    `is_cut` says that an error ends the data: a line that it cut off is skipped.
    """
    count = sum(1 for _ in islice(raw_data.lines_of(event.data), raw_data.MAX_EVENT_PAYLOADS + 1))
    shown = count if count <= raw_data.MAX_EVENT_PAYLOADS else f"more than {raw_data.MAX_EVENT_PAYLOADS}"
    payload.notes.append((anomalies.SEVERAL_PAYLOADS, f"{shown} payloads"))
    parts = 0
    for place, line in enumerate(raw_data.lines_of(event.data)):
        if place == raw_data.MAX_EVENT_PAYLOADS:
            payload.error = exceeded("max_event_payloads", raw_data.MAX_EVENT_PAYLOADS)
            return
        one = _payload_of_line(event._replace(data=line), is_last=place + 1 == count)
        if is_cut and isinstance(one.error, InvalidChunkError):
            continue
        parts += sum(count_parts(chunk.model_dump(include={"choices"}).get("choices")) for chunk in one.chunks)
        if parts > MAX_BLOCK_PARTS:
            payload.error = exceeded("max_event_parts", MAX_BLOCK_PARTS)
            return
        payload.chunks += one.chunks
        payload.notes += one.notes
        payload.error, payload.done = one.error, one.done
        payload.foreign = payload.foreign or one.foreign
        if one.error or one.done:
            return


def _payload_of_line(event: ServerSentEvent, *, is_last: bool) -> Payload:
    """One line of a block as an event of its own. Only the last line of an event named error is the error."""
    if event.event != "error":
        return parse_payload(event)
    if not is_last:
        return parse_payload(event._replace(event=MESSAGE))
    payload = Payload()
    _take_error_event(event, payload)
    return payload


def _of_other_api(event: ServerSentEvent, api: str) -> InvalidChunkError:
    return _invalid(event, f"expected chunks of the chat completions API, received events of {api}")


def _invalid(event: ServerSentEvent, what: str) -> InvalidChunkError:
    return InvalidChunkError(f"event at byte {event.offset}: {what}", position=event.offset)
