"""Bytes to server-sent events and back, after the WHATWG HTML standard, section 9.2, to the letter.

The strategy: cut what arrived into lines at once (`bytes.splitlines` knows exactly the standard's three line
ends), keep the pieces of an unfinished line in a list and join them only when its end has come (a line in many
pieces stays linear), and hand data out undecoded, so that JSON can be parsed straight from it.

The decoder never raises and never guesses. What the standard throws away but some senders mean (an unfinished
last block, a field named `error`, a body that is no event stream at all) it only makes visible, in bounded form,
for a layer above that may be lenient: see `unfinished`, `error_fields` and `preamble`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from chunkfold.brief import brief

MESSAGE: Final = "message"
SLICE: Final = 4096  # bytes, which is some 12 chunks
_LONGEST_SLICE: Final = 8 * SLICE
_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 0x0A  # as numbers, which are found in bytes at once
_CR: Final = 0x0D
_MAX_RETRY_DIGITS: Final = 640  # what int() converts whatever limit the interpreter was given
_FOREIGN_EXCERPT: Final = 4096
_FOREIGN_LIMIT: Final = 32 * 2**20  # where no other limit is set


class ServerSentEvent(NamedTuple):
    """One dispatched event (a named tuple, because one is made for every event of every stream).

    Attributes:
        data: The values of its `data` lines, joined by LF, undecoded.
        event: Its type, "message" unless an `event` line said otherwise.
        id: The last event ID at its dispatch, "" if none was sent.
        offset: Where the first line of its block stands in the body, in bytes.
    """

    data: bytes
    event: str = MESSAGE
    id: str = ""
    offset: int = 0

    def __repr__(self) -> str:
        """Like a named tuple's own, with an excerpt of the data."""
        fields = (f"{name}={brief(value)}" for name, value in zip(self._fields, self, strict=True))
        return f"ServerSentEvent({', '.join(fields)})"

    @property
    def text(self) -> str:
        """The data as the standard decodes it: UTF-8, with U+FFFD for what is not."""
        return self.data.decode("utf-8", "replace")


_new: Callable[..., ServerSentEvent] = cast(
    "Any", tuple
).__new__  # what the class does when it is called, in half the time


@dataclass(frozen=True, slots=True)
class UnfinishedBlock:
    """The block that stood open when the body ended; the standard discards it.

    Attributes:
        event: What it would have been dispatched as.
        error: Its `error` field as an event, if it had one and no data.
        data_terminated: Whether its last data line had a line end.
    """

    event: ServerSentEvent | None
    error: ServerSentEvent | None
    data_terminated: bool


class EventStreamDecoder:
    """Decode one event stream, fed in pieces of any size.

    Args:
        max_event_size: The most bytes one event's data, and any one line, may have; None for no limit. The limit
            counts content, not buffers, so the outcome does not depend on how the bytes were cut.

    Attributes:
        last_event_id: The last event ID committed by a blank line, "" at first.
        reconnection_time: The last valid `retry` value in milliseconds, None at first.
        limit_exceeded: Whether `max_event_size` was passed. Everything after that is ignored.
        unfinished: After `close`, the block that was not ended by a blank line.
        error_fields: Of the last `feed`, the blocks with a field `error` and no data, as events.
        preamble: The body so far while nothing in it belongs to an event stream; None once something does.
    """

    def __init__(self, max_event_size: int | None = None) -> None:
        self.last_event_id = ""
        self.reconnection_time: int | None = None
        self.limit_exceeded = False
        self.unfinished: UnfinishedBlock | None = None
        self.error_fields: list[ServerSentEvent] = []
        self._limit = max_event_size
        self._closed = False
        self._is_between_blocks = False
        self._start: bytes | None = b""  # the first bytes, until they can no longer be a BOM
        self._skip_lf = False  # the last read ended in CR: an LF at the start of the next belongs to it
        self._line = bytearray()  # the unfinished line
        self._line_size = 0
        self._line_head = b""  # its first bytes: enough to tell whether it is a `data` line
        self._offset = 0  # of the first byte that is not yet part of a finished line
        self._foreign: bytearray | None = bytearray()  # the body, until it proves to be an event stream
        self._foreign_size = 0
        self._unknown_line_seen = False
        self._new_block()

    def _new_block(self) -> None:
        self._data: list[bytes] = []
        self._data_size = -1  # counts the LFs between the lines: n lines have n - 1
        self._event = ""
        self._pending_id: str | None = None
        self._error: bytes | None = None
        self._block_offset: int | None = None

    @property
    def preamble(self) -> bytes | None:
        """The body so far (its beginning, past the limit), if nothing in it belongs to an event stream; else None."""
        if self._foreign is None:
            return None
        body = bytes(self._foreign)
        return body[:_FOREIGN_EXCERPT] if self._is_foreign_too_large() else body

    def feed(self, data: bytes | bytearray | memoryview) -> list[ServerSentEvent]:
        """Take the next bytes of the body; return the events they complete. Without effect after the end."""
        if self._is_between_blocks and type(data) is bytes and _CR not in data:
            line, _, blank = data.partition(b"\n")
            if blank == b"\n" and line[:6] == b"data: " and (self._limit is None or len(line) - 6 <= self._limit):
                # One whole event per read, as servers send them one by one.
                event = _new(ServerSentEvent, (line[6:], MESSAGE, self.last_event_id, self._offset))
                self._offset += len(data)
                return [event]
        self._is_between_blocks = False
        events = self._feed_slowly(data)
        self._is_between_blocks = self._is_at_rest()
        return events

    def _is_at_rest(self) -> bool:
        """Whether nothing that came before has any bearing on what comes next."""
        is_over = self._closed or self.limit_exceeded
        is_open = bool(self._line) or self._block_offset is not None or self._skip_lf
        return not (is_over or is_open or self.error_fields) and self._foreign is None

    def _feed_slowly(self, data: bytes | bytearray | memoryview) -> list[ServerSentEvent]:
        if self.error_fields:
            self.error_fields = []
        if self._closed or self.limit_exceeded:
            return []
        if not isinstance(data, bytes):
            data = _as_bytes(data)
        if self._start is not None:
            data = self._without_bom(data)
        if self._foreign is not None:
            self._keep_foreign(self._foreign, data)
        if self._skip_lf and data:
            self._skip_lf = False
            if data[:1] == b"\n":
                data = data[1:]
                self._offset += 1
        if not data:
            return []
        return self._take_data(data)

    def close(self) -> None:
        """The body ended. What was not ended by a blank line is not dispatched, but kept in `unfinished`."""
        self.error_fields = []
        self._is_between_blocks = False
        if self._closed or self.limit_exceeded:
            self._closed = True
            return
        if self._start:
            # Fewer than three bytes came, and they look like the beginning of a BOM: no line, but not lost.
            self._foreign = bytearray(self._start)
        self._closed = True
        whole_lines = len(self._data)
        if self._line:
            # Only to show it: the end of the file ends no line, so a `retry` in it does not count (section 9.2.5).
            reconnection_time = self.reconnection_time
            self._take_line(bytes(self._line), [])
            self._line.clear()
            self.reconnection_time = reconnection_time
        if self._data or self._error is not None:
            event = self._current_event(self._pending_id) if self._data else None
            error = self._error_event() if event is None else None
            self.unfinished = UnfinishedBlock(event, error, whole_lines == len(self._data))
        self._new_block()

    def _without_bom(self, data: bytes) -> bytes:
        """Hold the first bytes until it is clear whether they are a BOM."""
        start = (self._start or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        if start.startswith(_BOM):
            self._offset = len(_BOM)
            return start[len(_BOM) :]
        return start

    def _take_data(self, data: bytes) -> list[ServerSentEvent]:
        """Split into lines; where no CR and no open block is in the way, take whole plain blocks first."""
        events: list[ServerSentEvent] = []
        if self._foreign is None and self._block_offset is None and _CR not in data:
            if self._line:
                if _LF not in data:
                    self._keep_unfinished(data)
                    return events
                data = self._joined_line(data)
            data = self._take_plain_blocks(data, events)
        if data:
            self._take_lines(data, events)
        return events

    def _take_plain_blocks(self, data: bytes, events: list[ServerSentEvent]) -> bytes:
        """Take what nearly every event of nearly every stream is, one `data` line and a blank one; return the rest."""
        begin = offset = self._offset
        largest = len(data) if self._limit is None else self._limit
        *lines, _ = data.split(b"\n")
        for line, blank in zip(lines[::2], lines[1::2], strict=False):
            if blank or line[:6] != b"data: " or len(line) - 6 > largest:
                break
            events.append(_new(ServerSentEvent, (line[6:], MESSAGE, self.last_event_id, offset)))
            offset += len(line) + 2
        self._offset = offset
        return data[offset - begin :]

    def _take_lines(self, data: bytes, events: list[ServerSentEvent]) -> None:
        lines = data.splitlines(keepends=True)
        rest = b"" if data[-1:] in b"\r\n" else lines.pop()
        # A line that ends with CR is whole: its LF, if one comes, is skipped, so that nothing waits for it.
        self._skip_lf = data[-1:] == b"\r"
        if lines and self._line:
            lines[0] = self._joined_line(lines[0])
        for line in lines:
            self._take_line(line.rstrip(b"\r\n"), events)
            self._offset += len(line)
            if self.limit_exceeded:
                return
        if rest:
            self._keep_unfinished(rest)

    def _joined_line(self, last_piece: bytes) -> bytes:
        line = bytes(self._line + last_piece)
        self._line.clear()
        self._line_size = 0
        self._line_head = b""
        return line

    def _keep_unfinished(self, piece: bytes) -> None:
        self._line += piece
        self._line_size += len(piece)
        if len(self._line_head) < len(b"data: "):
            self._line_head += piece[: len(b"data: ")]
        if self._limit is not None:
            self._check_size(self._line_head, self._line_size)

    def _take_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        """One line, without its end, as section 9.2.6 interprets it."""
        if not line:
            self._end_block(events)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            if self._limit is not None and self._data_size > self._limit:
                self._exceed()
                return
        elif not self._take_other_line(name, value, line):
            return
        self._foreign = None
        if self._block_offset is None and name:
            self._block_offset = self._offset

    def _take_other_line(self, name: bytes, value: bytes, line: bytes) -> bool:
        """A line that is no data; return whether it belongs to an event stream."""
        if self._limit is not None and len(line) > self._limit:
            self._exceed()
            return False
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._pending_id = value.decode("utf-8", "replace")
        elif name == b"retry":
            self._take_retry(value)
        elif name == b"error":
            self._error = value
        elif name:
            self._unknown_line_seen = True
            return False
        # A comment proves nothing once a foreign line came: style sheets have lines that begin with a colon.
        return bool(name) or not self._unknown_line_seen

    def _take_retry(self, value: bytes) -> None:
        """ASCII digits only, of any length: more of them than the interpreter converts mean a very long time."""
        if value.isdigit():
            digits = value.lstrip(b"0")[:_MAX_RETRY_DIGITS] or b"0"
            self.reconnection_time = int(digits)

    def _end_block(self, events: list[ServerSentEvent]) -> None:
        """A blank line: commit the id, dispatch what has data, forget the rest (section 9.2.6, "dispatch")."""
        if self._pending_id is not None:
            self.last_event_id = self._pending_id
        if self._data:
            events.append(self._current_event())
        elif self._error is not None:
            self.error_fields.append(ServerSentEvent(self._error, "error", self.last_event_id, self._block_offset or 0))
        if self._block_offset is not None:
            self._new_block()

    def _current_event(self, pending_id: str | None = None) -> ServerSentEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event_id = self.last_event_id if pending_id is None else pending_id
        return ServerSentEvent(data, self._event or MESSAGE, event_id, self._block_offset or 0)

    def _error_event(self) -> ServerSentEvent:
        return ServerSentEvent(self._error or b"", "error", self.last_event_id, self._block_offset or 0)

    def _check_size(self, head: bytes, size: int) -> None:
        """Hold an unfinished line against the limit.

        Of a `data` line only the value counts, added to the data before it; a mere beginning of `data: ` counts
        nothing yet. So the verdict never shrinks as the line grows, and does not depend on where it was cut.
        """
        if head.startswith(b"data: "):
            size += self._data_size + 1 - len(b"data: ")
        elif head.startswith(b"data:"):
            size += self._data_size + 1 - len(b"data:")
        elif b"data".startswith(head):
            size = 0
        if self._limit is not None and size > self._limit:
            self._exceed()

    def _exceed(self) -> None:
        self.limit_exceeded = True
        self._line.clear()
        self._new_block()

    def _keep_foreign(self, foreign: bytearray, data: bytes) -> None:
        """Keep a body that is no event stream so far; of one larger than the limit, only its beginning."""
        # Blank lines before it are not kept: there may be any number of them.
        kept = data if self._foreign_size else data.lstrip(b"\r\n")
        self._foreign_size += len(kept)
        if self._is_foreign_too_large():
            kept = kept[: max(0, _FOREIGN_EXCERPT - len(foreign))]
            del foreign[_FOREIGN_EXCERPT:]
        foreign += kept

    def _is_foreign_too_large(self) -> bool:
        return self._foreign_size > (_FOREIGN_LIMIT if self._limit is None else self._limit)


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytearray):
        return bytes(data)
    if isinstance(data, memoryview):
        return data.tobytes()
    raise TypeError(f"data: expected bytes, received {type(data).__name__}")


def slices(data: bytes) -> Iterator[bytes]:
    """Cut a large read into slices, so that few chunks are held at a time: many cost more.

    At the ends of blocks, which is what reading them is fastest with, if one is near; else anywhere.
    """
    begin = 0
    while begin < len(data):
        end = data.find(b"\n\n", begin + SLICE, begin + _LONGEST_SLICE) + 2
        if end < 2:
            end = begin + _LONGEST_SLICE
        yield data[begin:end]
        begin = end


def encode_event(
    data: ServerSentEvent | bytes | str, *, event: str = MESSAGE, id: str = "", retry: int | None = None
) -> bytes:
    """One event as it goes over the wire; decoding it gives the same event back.

    Args:
        data: The data, split into `data` lines at CR, LF and CRLF; or a whole event, whose fields are then used.
        event: The event type; "message" is the standard's default and not written.
        id: The event's id; "" writes none.
        retry: The reconnection time in milliseconds.

    Raises:
        ValueError: The event type or the id has a CR, LF or NUL, or `retry` is negative.
    """
    if isinstance(data, ServerSentEvent):
        return encode_event(data.data, event=data.event, id=data.id, retry=retry)
    body = data.encode() if isinstance(data, str) else data
    lines: list[bytes] = []
    if event != MESSAGE:
        lines.append(b"event: " + _one_line("event", event))
    if id:
        lines.append(b"id: " + _one_line("id", id))
    if retry is not None:
        if retry < 0:
            msg = f"retry: expected milliseconds, 0 or more, received {retry}"
            raise ValueError(msg)
        lines.append(b"retry: %d" % retry)
    # splitlines drops an empty last line, which is data too: a sentinel holds its place.
    *first, last = (body + b".").splitlines()
    lines += [b"data: " + line for line in (*first, last[:-1])]
    return b"\n".join(lines) + b"\n\n"


def _one_line(name: str, value: str) -> bytes:
    if any(character in value for character in "\r\n\0"):
        msg = f"{name}: expected one line without CR, LF or NUL, received {value!r}"
        raise ValueError(msg)
    return value.encode()
