"""Keep what the standard discards although senders mean it: errors, what is nearly `data`, the start of a body.

It is only kept, in bounded form, for a layer above that may be lenient.
"""

import re
from operator import attrgetter
from typing import Final

from chunkfold.event_stream.server_sent_event import BOM, MESSAGE, ServerSentEvent

_BARE_ERROR: Final = re.compile(rb'\[?\s*\{\s*"error"\s*:\s*(?:\{\s*"|"[^"])')  # null and {} mean no error
_VALUE: Final = re.compile(rb'\s*(?:\{\s*"|"[^"])')  # an object or a text that is not empty
_JSON_STARTS: Final = (b"{", b"[", b"[{")  # the first line, where JSON is printed in several
_LONGEST_LINES: Final = 2**16  # bytes of lines that are kept one by one
_LONGEST_JSON: Final = 2**20  # bytes of JSON in several lines that are kept; a whole completion may have many
_PREAMBLE_EXCERPT: Final = 4096  # bytes
_PREAMBLE_LIMIT: Final = 32 * 2**20  # bytes, where no other limit is set


class Preamble:
    """Keep a body that is not an event stream so far; if it is larger than the limit in bytes, only its start."""

    def __init__(self, limit: int | None) -> None:
        self._limit = _PREAMBLE_LIMIT if limit is None else limit
        self._kept = bytearray()
        self._size = 0
        self._offset = 0  # of its first byte

    @property
    def shown(self) -> bytes:
        """The body so far; past the limit, its beginning."""
        body = bytes(self._kept)
        return body[:_PREAMBLE_EXCERPT] if self._size > self._limit else body

    def keep(self, data: bytes, offset: int) -> None:
        """Take the next bytes; `offset` is that of the first byte that is not yet part of a finished line."""
        if offset - self._offset > self._limit:
            del self._kept[_PREAMBLE_EXCERPT:]
        # Blank lines before it are not kept: there may be any number of them.
        kept = data
        if not self._size:
            kept = data.lstrip(b"\r\n")
            self._offset = offset + len(data) - len(kept)
        self._size += len(kept)
        self._kept += kept[: max(0, max(self._limit, _PREAMBLE_EXCERPT) - len(self._kept))]

    def before(self, offset: int) -> tuple[bytes, int | None]:
        """The bytes before the line at that offset, and None; past the limit, their beginning, and the limit."""
        size = offset - self._offset
        if size > self._limit:
            return self.shown[:size], self._limit
        return bytes(self._kept[:size]), None


class Discarded:
    """What the standard discards of a stream, kept block by block; `EventStreamDecoder.discarded` describes it."""

    def __init__(self) -> None:
        self.events: list[ServerSentEvent] = []  # of the blocks that ended, in the order of the body
        self._new_block()

    def _new_block(self) -> None:
        self.is_begun = False  # whether the current block has something of it
        self._error: bytes | None = None
        self._is_field = False  # whether a field named error has it
        self._json_offset = 0
        self._json = bytearray()  # the lines of JSON so far; of too long ones, as many bytes as are kept
        self._nearly_data: list[ServerSentEvent] = []
        self._payloads_size = 0  # of all lines that may be payloads without their field

    def keep_error_field(self, value: bytes) -> None:
        """Keep the value of a field named error; of several, the last."""
        self._error, self._is_field, self.is_begun = value, True, True

    def keep_error(self, line: bytes) -> None:
        """Keep the block's first error as bare JSON; before it, comments, which may be the error of an error event."""
        self.is_begun = True
        if self._error is None or (self._has_no_error and not line.startswith(b":")):
            self._error = line
        elif self._has_no_error and len(self._error) + len(line) < _LONGEST_LINES:
            self._error += b"\n" + line

    @property
    def _has_no_error(self) -> bool:
        """Whether the current block has no error, except perhaps in comments."""
        return self._error is None or self._error.startswith(b":")

    def keep_line(self, line: bytes, offset: int, event_id: str, *, in_stream: bool) -> None:
        """Keep a line that is not a field, if it is bare JSON or nearly `data`; `offset` is its place in the body."""
        if in_stream and self._is_json_line(line):
            self.is_begun = True
            if not self._json:
                self._json_offset = offset
            self._json += line[: _LONGEST_JSON - len(self._json)] + b"\n"
            del self._json[_LONGEST_JSON:]
        meant = _meant_as_data(line, in_stream=in_stream)
        if meant is None:
            return
        is_payload = meant is line
        self._payloads_size += len(line) if is_payload else 0
        # The first of a block; of payloads more, while they are small.
        if not self._nearly_data or (is_payload and self._payloads_size < _LONGEST_LINES):
            self.is_begun = True
            self._nearly_data.append(ServerSentEvent(meant, "" if is_payload else MESSAGE, event_id, offset))

    def _is_json_line(self, line: bytes) -> bool:
        """Whether a line is part of JSON that is printed in several lines; False once these are too long."""
        return len(self._json) < _LONGEST_JSON and (bool(self._json) or line.strip() in _JSON_STARTS)

    def keeps_each(self, line: bytes) -> bool:
        """Whether each repetition of a line may be kept: one of JSON in several, or a payload, while they are small."""
        return self._is_json_line(line) or (self._payloads_size < _LONGEST_LINES and _is_payload(line))

    def error_event(self, offset: int | None, event_id: str, *, has_data: bool) -> ServerSentEvent | None:
        """The current block's error, None if it has none; `offset` is that of the block, None if it has no field.

        Beside data, only bare JSON is an error, or such a field that is not empty: a gateway adds it to what it passes
        on, or a blank line was lost. It has the offset of the event then.
        """
        if self._has_no_error and is_bare_error(self._json):
            self._error, self._is_field = bytes(self._json), False
            offset = self._json_offset if offset is None else offset
        if has_data and not (_VALUE if self._is_field else _BARE_ERROR).match(self._error or b""):
            return None
        return None if self._error is None else ServerSentEvent(self._error, "error", event_id, offset or 0)

    def end_block(self, error: ServerSentEvent | None) -> None:
        """Show what the block has, so that its place among the events does not depend on how the bytes are cut."""
        kept = self._nearly_data if error is None else [*self._nearly_data, error]
        if self._json and not is_bare_error(self._json):
            kept.append(ServerSentEvent(bytes(self._json), "", "", self._json_offset))
        self.events += sorted(kept, key=attrgetter("offset"))
        self._new_block()


def is_bare_error(line: bytes | bytearray) -> bool:
    """Whether JSON that is in no field looks like an error."""
    return _BARE_ERROR.match(line) is not None


def _is_payload(line: bytes) -> bool:
    """Whether a line begins as an object of JSON, with more than its brace, or is `[DONE]`.

    There may be a blank before it: if a line end comes after `data:`, the blank after that begins the next line.
    """
    line = line.removeprefix(b" ").rstrip()
    return (line[:1] == b"{" and line != b"{") or line == b"[DONE]"


def _meant_as_data(line: bytes, *, in_stream: bool) -> bytes | None:
    """The value of a line whose field is `data` but for blanks around it, a BOM or capitals, or missing; else None."""
    if in_stream and _is_payload(line):
        return line
    colon = line.find(b":") if b":" in line else len(line)
    if line[:colon].removeprefix(BOM).strip().lower() != b"data":
        return None
    begin = colon + 1
    return line[begin + line.startswith(b" ", begin) :]  # copied once, since a line may be large
