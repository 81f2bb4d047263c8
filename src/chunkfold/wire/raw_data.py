"""Judge data by itself: whether it is whole, and whether it alone is a payload, a chunk, an error or a keep-alive.

It is the data of an event, one line of it, or a line that the standard discards. Where data is more than one payload,
or less, the functions at the end split it or take what is whole in it. Nothing is noted here.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Any, Final

from chunkfold.event_stream.lines import SLICE
from chunkfold.event_stream.server_sent_event import MESSAGE, ServerSentEvent
from chunkfold.excerpts import printed
from chunkfold.json_text.values import is_object, objects_in
from chunkfold.models.chunk import CHUNK_OBJECT, KEEP_ALIVES
from chunkfold.wire.envelopes import find_error
from chunkfold.wire.reading import Notes, read_json, unwrapped

DONE: Final = b"[DONE]"
_CHUNK_EVENTS: Final = (MESSAGE, CHUNK_OBJECT)
DATA: Final = b"data:"
_GLUE: Final = b"}" + DATA
LINE_ENDS_LOST: Final = "expected a line for each event, received several on one: pass bytes with their line ends"
MAX_EVENT_PAYLOADS: Final = 10_000  # where a block holds several; each can begin a choice or a call
_NOT_BLANK: Final = re.compile(rb"\S")
_JSON_START: Final = re.compile(rb"\s*+[{\[]")
_OBJECT_START: Final = re.compile(rb"\s*+(?:\[\s*+)?+\{")
_PREFIX: Final = re.compile(rb"^[^\S\n]*+(?:data: ?+)?+", re.MULTILINE)
_OTHER_LINE: Final = re.compile(rb"(?:event|id|retry)?:[^\r\n]*+")
_END_OF_GLUED: Final = re.compile(rb"\}(?=(?:data|event|id|retry)?:)")
NULL_LINE: Final = re.compile(rb"^[^\S\n]*+null[^\S\n]*+", re.MULTILINE)
_KEEP_ALIVE_LINES: Final = re.compile(rb"(?:[^\S\n]*+(?::[^\n]*+|null[^\S\n]*+)?+\n)*+")  # in one step
_BROKEN_ERROR: Final = re.compile(rb"""\s*\{\s*["']error["']\s*:(?!\s*+(?:null|false|""|\{\s*+\}))""")


def is_foreign(event: ServerSentEvent) -> bool:
    """Whether an event has a name that is not a chunk's."""
    return event.event not in _CHUNK_EVENTS


def is_json(data: bytes) -> bool:
    """Whether data is JSON, repairs allowed."""
    _, problem = read_json(data, [])
    return not problem


def begins_like_json(data: bytes) -> bool:
    """Whether data begins like a JSON object or list. So does `[DONE]`."""
    return _JSON_START.match(data) is not None


def begins_like_object(data: bytes) -> bool:
    """Whether data begins like a JSON object, maybe in a list."""
    return _OBJECT_START.match(data) is not None


def object_in(data: bytes, notes: Notes) -> dict[str, Any] | None:
    """The JSON object that data is, maybe in a list of one; None if it is something else."""
    value = unwrapped(read_json(data.strip(), notes)[0], notes) if begins_like_json(data) else None
    return value if is_object(value) else None


def is_done(data: bytes) -> bool:
    """Whether data is `[DONE]`, maybe with blanks around it."""
    return data.strip() == DONE


def is_payload(data: bytes) -> bool:
    """Whether data by itself is a payload: a JSON object or `[DONE]`."""
    return is_done(data) or object_in(data, []) is not None


def is_error(data: bytes, *, is_framed: bool = False) -> bool:
    """Whether data alone is an error without doubt, see `is_error_object`."""
    fields = object_in(data, [])
    return fields is not None and is_error_object(fields, is_framed=is_framed)


def is_error_object(fields: dict[str, Any], *, is_framed: bool = False) -> bool:
    """Whether an object is an error without doubt: in an envelope, or named error.

    `is_framed` says that it is the data of an event; else it may be a line of a log.
    """
    # A log has lines with a text as `error`, or with any `code`.
    named = {printed(fields.get(name)).lower().rpartition("_")[2] for name in ("object", "type", "code")}
    is_envelope = is_framed or is_object(fields.get("error"))
    return "error" in named or (is_envelope and find_error(fields, unambiguous=True) is not None)


def is_broken_error(data: bytes) -> bool:
    """Whether data that is not JSON begins as an error does. A chunk may begin with an error that is empty."""
    return _BROKEN_ERROR.match(data) is not None


def is_error_field(data: bytes) -> bool:
    """Whether the value of an `error` field is an error: JSON other than `null` and `false`."""
    return data.strip() not in (b"null", b"false") and is_json(data)


def is_chunk_or_done(data: bytes) -> bool:
    """Whether data alone is without doubt `[DONE]` or a chunk, see `is_chunk_object`."""
    fields = object_in(data, [])
    return is_done(data) if fields is None else is_chunk_object(fields)


def is_chunk_object(fields: dict[str, Any]) -> bool:
    """Whether an object is without doubt a chunk: of that name, or with a choice's delta."""
    has_delta = any("delta" in choice for choice in objects_in(fields.get("choices")))
    return has_delta or fields.get("object") == CHUNK_OBJECT


def value_of(data: bytes) -> Any:
    """The JSON value, out of a list of one; None if it is not JSON."""
    value, _ = read_json(data, [])
    return unwrapped(value, [])


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines that are not blank, one at a time; there may be millions, and millions of blank ones."""
    begin = 0
    while (word := _NOT_BLANK.search(data, begin)) is not None:
        end = data.find(b"\n", word.start())
        end = len(data) if end < 0 else end
        yield data[max(begin, data.rfind(b"\n", begin, word.start()) + 1) : end]
        begin = end


def holds_several(data: bytes) -> bool:
    """Whether a block lost its blank lines: its first line alone is a JSON object or `[DONE]`, and another follows."""
    return is_payload(_first_of_several(data))


def after_keep_alives(data: bytes) -> bytes:
    """Data without the keep-alives at its beginning: lines that begin with a colon (CF104), or are `null` (CF105)."""
    lines = _KEEP_ALIVE_LINES.match(data)
    return data if lines is None else data[lines.end() :]


def begins_with_chunk(data: bytes) -> bool:
    """Whether the first of several lines is a chunk or `[DONE]`; a chunk may have no choices yet (Azure)."""
    first = _first_of_several(data)
    value = value_of(first)
    return is_chunk_or_done(first) or (is_object(value) and "choices" in value and find_error(value) is None)


def _first_of_several(data: bytes) -> bytes:
    """The first line that is not blank; b"" if no other follows."""
    first, second = islice(chain(lines_of(data), (b"", b"")), 2)
    return first if second else b""


def data_beside_comment(body: bytes) -> bytes:
    """The first data in a body that begins with a comment or another field and has data on the same line; else b"".

    The lines have lost their ends then, see `has_lost_line_ends`.
    """
    line, _, data = body.partition(DATA)
    end = _END_OF_GLUED.search(data)
    return b"" if _OTHER_LINE.fullmatch(line) is None else data if end is None else data[: end.end()]


def has_lost_line_ends(data: bytes) -> bool:
    """Whether a payload and the next one are on one line, as if they came from `iter_lines()` of requests."""
    first, _, rest = data.partition(_GLUE)
    second, glue, _ = rest.partition(_GLUE)
    return is_payload(second + b"}" if glue else second) and is_payload(first + b"}")


def ends_in_error(data: bytes) -> bool:
    """Whether the last of several lines is an error: a gateway adds it, maybe right after an event that was cut."""
    first_lines, _, last_line = before_done(data).rpartition(b"\n")
    return bool(first_lines) and is_error(last_line, is_framed=True)


def before_done(data: bytes) -> bytes:
    """Data without a `[DONE]` at its end."""
    return data.rstrip().removesuffix(DONE).rstrip()


def has_chunk_line(data: bytes) -> bool:
    """Whether any of the first lines is a chunk or `[DONE]`."""
    if not (b'"choices"' in data or DONE in data):
        return False  # without parsing every line
    return any(is_chunk_or_done(without_prefix(line)) for line in islice(lines_of(data), MAX_EVENT_PAYLOADS))


def without_splice(event: ServerSentEvent) -> ServerSentEvent:
    """The event with an error on a line of its own, if a gateway wrote it, field and all, right behind data it cut."""
    cut, _, last = event.data.rpartition(DATA)
    may_be_spliced = begins_like_json(cut) and not is_foreign(event)
    is_spliced = may_be_spliced and is_error(before_done(last), is_framed=True)
    return event._replace(data=cut + b"\n" + last) if is_spliced else event


def without_prefix(data: bytes) -> bytes:
    """Data without the second `data:` that each of its lines starts with."""
    lines = BytesIO(data)  # in batches: a substitution needs more memory for each line than the line itself
    return b"".join(_PREFIX.sub(b"", b"".join(part)) for part in iter(lambda: lines.readlines(SLICE), []))


def whole_part(event: ServerSentEvent, *, data_terminated: bool) -> ServerSentEvent | None:
    """The complete part of a block that the end of the body left unfinished; None if there is none.

    An unterminated last data line that begins like JSON and does not parse was cut, and is dropped (CF101). So is one
    that is the beginning of a `null` or of a doubled `data:`, except in an event named error.
    """
    event = without_splice(event)
    if data_terminated and is_broken_error(event.data):
        return event
    first_lines, _, last_line = event.data.rpartition(b"\n")
    is_cut = not _is_whole(event.data) and not _is_whole(last_line)
    if not data_terminated and (is_cut or (event.event != "error" and _is_beginning(last_line))):
        event = event._replace(data=first_lines)
    data = _unprefixed(event.data)
    if not event.data.strip() or not (_is_whole(data) or holds_several(data) or ends_in_error(data)):
        return None
    return event


def _is_whole(data: bytes) -> bool:
    """Whether data is complete: data that begins like JSON and does not parse was cut."""
    data = _unprefixed(data).strip()
    return not begins_like_json(data) or data == DONE or is_json(data)


def _unprefixed(data: bytes) -> bytes:
    """Data as it is read: without keep-alives at its beginning and a second `data:` (CF111)."""
    data = after_keep_alives(data)
    return after_keep_alives(without_prefix(data)) if data.lstrip().startswith(DATA) else data


def _is_beginning(line: bytes) -> bool:
    """Whether a line is the beginning of something that may come in data and is not JSON that may be cut anywhere."""
    line = line.strip().removeprefix(DATA).strip()
    return any(word.startswith(line) and line not in (b"", word) for word in (b"null", DATA))


def error_comment(comments: bytes) -> bytes:
    """The first of the comments in an event named error that does not just keep the connection alive; b"" if none."""
    texts = (line.removeprefix(b":").strip() for line in comments.split(b"\n"))
    return next((text for text in texts if not _keeps_alive(text)), b"")


def _keeps_alive(comment: bytes) -> bool:
    """Whether a comment is a keep-alive: blank, one of the usual words, perhaps with a time, or OpenRouter's."""
    letters = "".join(filter(str.isalpha, comment.decode("utf-8", "replace").lower()))
    return not comment or letters in (*KEEP_ALIVES, "openrouterprocessing")
