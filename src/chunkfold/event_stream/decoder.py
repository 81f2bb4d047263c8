"""Decode bytes into server-sent events, exactly as section 9.2 of the WHATWG HTML standard prescribes.

The strategy: split the data into lines at once (`bytes.splitlines` knows exactly the standard's three line ends),
append the pieces of an unfinished line to one buffer (so a line in many pieces stays linear), and return data
undecoded, so that JSON can be parsed straight from it, and characters that are cut between two reads stay whole.

The decoder never raises and never guesses. The standard discards some input that senders rely on: an unfinished last
block, a field named `error` or nearly `data`, a body that is not an event stream, or does not start as one. The decoder
only exposes it, in bounded form, for a layer above that may be lenient: see `unfinished`, `discarded`, `preamble` and
`opening`.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from chunkfold.arguments import as_bytes, check_count
from chunkfold.event_stream.discarded import Discarded, Preamble, is_bare_error
from chunkfold.event_stream.lines import CR, LF, RUN, end_of_stretch, line_end, size_of_unfinished, values_of
from chunkfold.event_stream.server_sent_event import BOM, MESSAGE, ServerSentEvent, UnfinishedBlock

_MOST_LINES: Final = 1024  # of one event that are kept one by one
_SHORT_LINE: Final = 64  # bytes; where lines are shorter on average, they are taken in runs
_SHORT_RUN: Final = 64  # bytes; lines in shorter runs are taken one by one
# An id or a name is kept as text, in which one emoji makes Python take four bytes for each character.
_LONGEST_TEXT: Final = 8 * 2**20  # bytes of its line
_MAX_RETRY_DIGITS: Final = 640  # what int() converts whatever limit the interpreter was given

# The same as calling the class, but twice as fast.
_new: Callable[..., ServerSentEvent] = cast("Any", tuple).__new__


class EventStreamDecoder:
    """Decode one event stream, fed in pieces of any size.

    Args:
        max_event_size: The maximum size of one event's data, and of any line, in bytes; None for no limit. The limit
            counts content, not buffers, so the result does not depend on how the bytes were cut. With a limit, the
            line of an id or a name may have 8 MiB at most.

    Attributes:
        last_event_id: The last event ID committed by a blank line, "" at first.
        reconnection_time: The last valid `retry` value in milliseconds, None at first.
        limit_exceeded: Whether `max_event_size` was exceeded. Everything after that is ignored.
        limit: `max_event_size`, in bytes, or None; 8 MiB, once the line of an id or a name exceeded only that.
        unfinished: After `close`, the last block, if no blank line ended it.
        opening: The bytes that the last `feed` found before the first line of an event stream, without blank lines;
            b"" if there were none. If they exceed the limit, only their beginning.
        opening_limit: The limit that `opening` exceeds, in bytes; None if it does not.
        opening_place: How many entries of `discarded` belong before `opening`.
        has_only_events: Whether the last `feed` exposed nothing besides its events, and the body is an event stream.
        is_between: Whether `has_only_events` is true and the next byte begins a block. You may then read blocks of one
            `data` line and a blank one without the decoder, and add their size to `offset`.
        offset: The position in the body of the first byte that is not yet part of a finished line.

    Raises:
        TypeError, ValueError: `max_event_size` is not a number of bytes.
    """

    def __init__(self, max_event_size: int | None = None) -> None:
        check_count("max_event_size", max_event_size)
        self.last_event_id: str = ""
        self.reconnection_time: int | None = None
        self.limit_exceeded: bool = False
        self._is_over = self._unknown_line_seen = False
        self.unfinished: UnfinishedBlock | None = None
        self._discarded = Discarded()
        self.opening: bytes = b""
        self.opening_limit: int | None = None
        self.opening_place: int = 0
        self.has_only_events: bool = False
        self.is_between: bool = False
        self.offset: int = 0
        self.limit: int | None = max_event_size
        self._largest = sys.maxsize if max_event_size is None else max_event_size
        self._start: bytes | None = b""  # the first bytes, until they can no longer be a BOM
        self._skip_lf = False  # the last read ended in CR: an LF at the start of the next belongs to it
        self._line = bytearray()  # the unfinished line
        self._preamble: Preamble | None = Preamble(max_event_size)  # until the body proves to be an event stream
        self._new_block()

    def _new_block(self) -> None:
        self._data: list[bytes | bytearray] = []
        self._data_size = -1  # counts the LFs between the lines: n lines have n - 1
        self._event = ""
        self._pending_id: str | None = None
        self._block_offset: int | None = None

    @property
    def _is_begun(self) -> bool:
        """Whether the current block has a line that is not ignored."""
        return self._block_offset is not None or self._discarded.is_begun

    @property
    def discarded(self) -> list[ServerSentEvent]:
        """What the last `feed` discarded although its sender means something by it, as events in the order of the body.

        - Of the type "error": an error as bare JSON or in an `error` field; of an event named error without data, also
          other bare JSON or its comments (the whole lines). If the block has data, the error has its event's offset.
        - Of the type "", bare JSON within a stream, and a bare `[DONE]`.
        - Of the type "message", one line of each block whose field is `data` except for blanks, a BOM or capitals.
        """
        return self._discarded.events

    @property
    def preamble(self) -> bytes | None:
        """The body so far (its beginning, past the limit), if nothing in it belongs to an event stream; else None."""
        return None if self._preamble is None else self._preamble.shown

    def feed(self, data: bytes | bytearray | memoryview) -> list[ServerSentEvent]:
        """Take the next bytes of the body; return the events they complete. Has no effect after the end."""
        if self.has_only_events and type(data) is bytes and CR not in data:  # as most servers send it
            if self._line:
                if LF not in data:
                    self._keep_unfinished(data)
                    return []
            elif self.is_between:
                line, _, blank = data.partition(b"\n")
                if blank == b"\n" and line[:6] == b"data: " and len(line) - 6 <= self._largest:
                    # One whole event per read, as servers send them one by one.
                    event = _new(ServerSentEvent, (line[6:], MESSAGE, self.last_event_id, self.offset))
                    self.offset += len(data)
                    return [event]
        self.has_only_events = False
        events = self._feed_slowly(data)
        has_exposed = bool(self._discarded.events or self.opening)
        self.has_only_events = not (self._is_over or self._skip_lf or has_exposed) and self._preamble is None
        self.is_between = self.has_only_events and not self._line and not self._is_begun
        return events

    def _feed_slowly(self, data: bytes | bytearray | memoryview) -> list[ServerSentEvent]:
        self._discarded.events, self.opening, self.opening_place = [], b"", 0
        if self._is_over:
            return []
        if not isinstance(data, bytes):
            data = as_bytes(data)
        if self._start is not None:
            data = self._without_bom(data)
        if self._preamble is not None:
            self._preamble.keep(data, self.offset)
        if self._skip_lf and data:
            self._skip_lf = False
            if data[:1] == b"\n":
                data = data[1:]
                self.offset += 1
        return self._take_data(data)

    def close(self) -> None:
        """Mark the end of the body. A block without a final blank line is not dispatched, but kept in `unfinished`."""
        self._discarded.events, self.opening, self.opening_place = [], b"", 0
        self.has_only_events = self.is_between = False
        if self._is_over:
            return
        if self._start and self._preamble is not None:
            # Fewer than three bytes came, and they look like the beginning of a BOM: keep them, but not as a line.
            self._preamble.keep(self._start, 0)
        self._is_over = True
        whole_lines = len(self._data)
        if self._line:
            # Only to show it: the end of the file ends no line, so a `retry` in it does not count (section 9.2.5).
            reconnection_time = self.reconnection_time
            self._take_line(bytes(self._line), [])
            self._line.clear()
            self.reconnection_time = reconnection_time
        event = self._current_event() if self._data else None
        error = self._discarded.error_event(self._block_offset, self.last_event_id, has_data=event is not None)
        if event is not None or error is not None:
            self.unfinished = UnfinishedBlock(event, error, whole_lines == len(self._data))
        self._discarded.end_block(None)

    def _without_bom(self, data: bytes) -> bytes:
        """Hold the first bytes until it is clear whether they are a BOM."""
        start = (self._start or b"") + data
        if len(start) < len(BOM) and BOM.startswith(start):
            self._start = start
            return b""
        self._start = None
        rest = start.removeprefix(BOM)
        self.offset = len(start) - len(rest)
        return rest

    def _take_data(self, data: bytes) -> list[ServerSentEvent]:
        """Split into lines; where all have the same end and no block is open, take whole plain blocks first."""
        events: list[ServerSentEvent] = []
        if not self._is_begun and (end := line_end(data)) is not None:
            if self._line and LF in data:
                data = self._joined_line(data)
            if not self._line and data.startswith(b"data: "):
                data = self._take_plain_blocks(data, end, events)
        if data:
            self._take_lines(data, events)
        return events

    def _take_plain_blocks(self, data: bytes, end: bytes, events: list[ServerSentEvent]) -> bytes:
        """Take blocks of one `data` line and a blank one, as nearly all blocks are; return the rest."""
        begin = offset = self.offset
        largest = self._largest
        *lines, _ = data.split(end)
        for line, blank in zip(lines[::2], lines[1::2], strict=False):
            if blank or line[:6] != b"data: " or len(line) - 6 > largest:
                break
            events.append(_new(ServerSentEvent, (line[6:], MESSAGE, self.last_event_id, offset)))
            offset += len(line) + 2 * len(end)
        if events:
            self._end_preamble()
        self.offset = offset
        return data[offset - begin :]

    def _take_lines(self, data: bytes, events: list[ServerSentEvent]) -> None:
        # A line that ends with CR is whole: its LF, if one comes, is skipped, so that nothing waits for it.
        self._skip_lf = data[-1:] == b"\r"
        if data.count(b"\n") + data.count(b"\r") > len(data) // _SHORT_LINE:
            self._take_runs(self._joined_line(data) if self._line else data, events)
            return
        lines = data.splitlines(keepends=True)
        rest = b"" if data[-1:] in b"\r\n" else lines.pop()
        if lines and self._line:
            lines[0] = self._joined_line(lines[0])
        self._take_each(lines, events)
        if rest and not self.limit_exceeded:
            self._keep_unfinished(rest)

    def _take_each(self, lines: list[bytes], events: list[ServerSentEvent]) -> None:
        for line in lines:
            self._take_line(line.rstrip(b"\r\n"), events)
            self.offset += len(line)
            if self.limit_exceeded:
                return

    def _take_runs(self, data: bytes, events: list[ServerSentEvent]) -> None:
        """Take many short lines, of which there may be millions, in as few steps as they have runs.

        Where the runs are short, a stretch of lines is taken line by line, which costs a third of finding its runs.
        """
        begin = 0
        while (run := RUN.match(data, begin)) is not None:
            end = run.end()
            if end - begin >= _SHORT_RUN and self._is_one_step(run):
                if run["data"]:
                    self._take_line(b"data: " + values_of(run["data"]), events)
                elif run["line"]:
                    self._take_line(run["line"].rstrip(b"\r\n"), events)
                self.offset += end - begin
            else:
                end = max(end, end_of_stretch(data, begin))
                self._take_each(data[begin:end].splitlines(keepends=True), events)
            if self.limit_exceeded:
                return
            begin = end
        if begin < len(data):
            self._keep_unfinished(data[begin:])

    def _is_one_step(self, run: re.Match[bytes]) -> bool:
        """Whether a run can be taken as one line: none ends the preamble, exceeds the limit, is JSON or an error."""
        if self._preamble is None and self._discarded.keeps_each(run["line"] or b""):
            return False
        if run["ignored"]:
            is_small = len(run["ignored"]) <= self._largest
            return is_small and self._event != "error" and (self._preamble is None or self._unknown_line_seen)
        return self._preamble is None or not run["data"]

    def _joined_line(self, last_piece: bytes) -> bytes:
        self._line += last_piece
        line, self._line = bytes(self._line), bytearray()
        return line

    def _keep_unfinished(self, piece: bytes) -> None:
        self._line += piece
        largest, known = self._largest, self._data_size
        if len(self._line) + known >= largest and size_of_unfinished(self._line, known) > largest:
            self._exceed()

    def _take_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        """One line, without its end, as section 9.2.6 interprets it."""
        if not line:
            self._end_block(events)
            return
        name, colon, value = line.partition(b": ")  # so that the value is copied once: it may be large
        if not colon or b":" in name:
            name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            if len(self._data) > _MOST_LINES:
                self._join_lines()
            if self._data_size > self._largest:
                self._exceed()
                return
        elif not self._take_other_line(name, value, line):
            return
        self._end_preamble()
        if self._block_offset is None and name:
            self._block_offset = self.offset

    def _end_preamble(self) -> None:
        """The line at `offset` belongs to an event stream."""
        if self._preamble is not None:
            self.opening, self.opening_limit = self._preamble.before(self.offset)
            self.opening_place = len(self._discarded.events)
            self._preamble = None

    def _join_lines(self) -> None:
        """Many short lines take far more memory than their bytes: they become the beginning of one long line."""
        first, *rest = self._data
        begin = first if isinstance(first, bytearray) else bytearray(first)
        begin += b"\n" + b"\n".join(rest)
        self._data = [begin]

    def _take_other_line(self, name: bytes, value: bytes, line: bytes) -> bool:
        """Handle a line that is not data; return whether it belongs to an event stream."""
        if self.limit is not None and _LONGEST_TEXT < len(line) <= self.limit and name in (b"event", b"id"):
            self.limit = self._largest = _LONGEST_TEXT
        if len(line) > self._largest:
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
            self._discarded.keep_error_field(value)
        elif (self._preamble is None and is_bare_error(line)) or (
            self._event == "error" and (line[:1] + line[-1:] == b"{}" or (not name and value))
        ):
            self._discarded.keep_error(line)
        elif name:
            self._discarded.keep_line(line, self.offset, self.last_event_id, in_stream=self._preamble is None)
            self._unknown_line_seen = True
            return False
        # A comment proves nothing once a foreign line came: style sheets have lines that begin with a colon.
        return bool(name) or not self._unknown_line_seen

    def _take_retry(self, value: bytes) -> None:
        """ASCII digits only, of any length: more digits than the interpreter converts are a very long time."""
        if value.isdigit():
            self.reconnection_time = int(value.lstrip(b"0")[:_MAX_RETRY_DIGITS] or b"0")

    def _end_block(self, events: list[ServerSentEvent]) -> None:
        """A blank line: commit the id, dispatch what has data, forget the rest (section 9.2.6, "dispatch")."""
        if self._pending_id is not None:
            self.last_event_id = self._pending_id
        if self._data:
            events.append(self._current_event())
        if self._discarded.is_begun:
            error = self._discarded.error_event(self._block_offset, self.last_event_id, has_data=bool(self._data))
            self._discarded.end_block(error)
        if self._block_offset is not None:
            self._new_block()

    def _current_event(self) -> ServerSentEvent:
        event_id = self.last_event_id if self._pending_id is None else self._pending_id
        return ServerSentEvent(b"\n".join(self._data), self._event or MESSAGE, event_id, self._block_offset or 0)

    def _exceed(self) -> None:
        self.limit_exceeded = self._is_over = True
        self.has_only_events = self.is_between = False
        self._line.clear()
        self._new_block()
