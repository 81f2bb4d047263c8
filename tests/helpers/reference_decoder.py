"""The event stream of the WHATWG HTML standard, section 9.2, as plainly as it can be written.

A whole body in, all that it means out. Each step stands as the standard has it and in its order: the decoder and its
fuzzers are held to this, and nothing here is taken from them. Only the limit of `EventStreamDecoder` is beyond it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
DIGITS = "0123456789"
FIELDS = ("event", "data", "id", "retry")
KEPT_FIELDS = (*FIELDS, "error")  # the decoder shows a field `error` too, so that it begins a block like the others
LINE = re.compile("([^\r\n]*)(\r\n|\r|\n|\\Z)")
# So does this one, once a line was the stream's.
BARE_ERROR = re.compile(r'\[?\s*\{\s*"error"\s*:\s*(?:\{\s*"|"[^"])', re.ASCII)


class Dispatched(NamedTuple):
    """An event as it was dispatched.

    Attributes:
        event: Its type.
        data: The bytes of its data.
        text: The same as the standard decodes it.
        id: The last event ID.
        offset: Where the first line that belongs to it begins, in bytes.
    """

    event: str
    data: bytes
    text: str
    id: str
    offset: int


class Decoded(NamedTuple):
    """What a body means.

    Attributes:
        events: In the order in which they were dispatched.
        last_event_id: The last event ID string of the event source.
        reconnection_time: The last one that was set, in milliseconds; None if none was.
        limit_exceeded: Whether an event's data, or a line, was larger than the limit. What follows was not read.
    """

    events: list[Dispatched]
    last_event_id: str
    reconnection_time: int | None
    limit_exceeded: bool


class _Line(NamedTuple):
    text: str
    offset: int
    is_ended: bool


def decode_whole(body: bytes, limit: int | None = None) -> Decoded:
    """Decode a body that has come to its end.

    Args:
        body: All of its bytes.
        limit: The most bytes that an event's data, and any one line, may have; None for no limit.
    """
    events: list[Dispatched] = []
    data_buffer = event_type_buffer = last_event_id_buffer = last_event_id = ""
    reconnection_time: int | None = None
    offset: int | None = None
    is_stream = has_unknown = False
    for line in _lines(body):
        if limit is not None and _size(line, data_buffer) > limit:
            return Decoded(events, _shown(last_event_id), reconnection_time, limit_exceeded=True)
        if not line.is_ended:
            break  # "Once the end of the file is reached, any pending data must be discarded."
        # "If the line is empty (a blank line): Dispatch the event, as defined below."
        if line.text == "":
            last_event_id = last_event_id_buffer
            if data_buffer != "":
                data = data_buffer.removesuffix("\n")
                event_type = event_type_buffer if event_type_buffer != "" else "message"
                events.append(
                    Dispatched(_shown(event_type), _bytes(data), _shown(data), _shown(last_event_id), offset or 0)
                )
            data_buffer = event_type_buffer = ""
            offset = None
            continue
        name, value = _field(line.text)
        is_bare_error = is_stream and BARE_ERROR.match(line.text) is not None
        if offset is None and (name in KEPT_FIELDS or is_bare_error):
            offset = line.offset
        is_stream = is_stream or name in KEPT_FIELDS or (name == "" and not has_unknown)
        has_unknown = has_unknown or name not in ("", *KEPT_FIELDS)
        if name == "event":
            event_type_buffer = value
        elif name == "data":
            data_buffer += value + "\n"
        elif name == "id":
            if "\0" not in value:
                last_event_id_buffer = value
        elif name == "retry" and value and all(character in DIGITS for character in value):
            reconnection_time = _base_ten(value)
    return Decoded(events, _shown(last_event_id), reconnection_time, limit_exceeded=False)


def _lines(body: bytes) -> Iterator[_Line]:
    """The lines of the stream, as 9.2.5 has them: ended by CRLF, LF or CR, after at most one BOM."""
    # A byte that is not UTF-8 stands as a code point of its own, so that no byte is lost.
    stream = body.decode("utf-8", "surrogateescape")
    place = 1 if stream.startswith(BOM) else 0
    offset = len(_bytes(stream[:place]))
    for line in LINE.finditer(stream, place):
        text, end = line.groups()
        if text or end:
            yield _Line(text, offset, is_ended=end != "")
        offset += len(_bytes(line[0]))


def _field(line: str) -> tuple[str, str]:
    """The name and the value of a field, as 9.2.6 takes a line apart; a comment has the empty name."""
    if ":" not in line:
        return line, ""
    colon = line.index(":")
    value = line[colon + 1 :]
    return line[:colon], value.removeprefix(" ")


def _size(line: _Line, data_buffer: str) -> int:
    """What the limit counts: the data so far, where a line adds to it, and else the line."""
    name, value = _field(line.text)
    if name == "data":
        return len(_bytes(data_buffer + value))
    if not line.is_ended and line.offset == 0 and BOM.encode().startswith(_bytes(line.text)):
        return 0  # only the beginning of a BOM is not a line
    return len(_bytes(line.text))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    """The text with U+FFFD for what is not UTF-8."""
    return _bytes(text).decode("utf-8", "replace")


def _base_ten(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * 10 + DIGITS.index(digit)
    return number
