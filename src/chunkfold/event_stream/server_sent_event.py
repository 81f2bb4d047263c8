"""A server-sent event, and the function that encodes one."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from chunkfold.arguments import check_count, check_instance
from chunkfold.excerpts import short_repr

MESSAGE: Final = "message"
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark, of which one may be at the start of a body."""


class ServerSentEvent(NamedTuple):
    """One dispatched event (a named tuple, because one is made for every event of every stream).

    Attributes:
        data: The values of its `data` lines, joined by LF, undecoded.
        event: Its type, "message" unless an `event` line sets another.
        id: The last event ID when it was dispatched; "" if none was sent.
        offset: The position of the first line of its block in the body, in bytes.
    """

    data: bytes
    event: str = MESSAGE
    id: str = ""
    offset: int = 0

    def __repr__(self) -> str:
        """Like a named tuple's own, with an excerpt of the data."""
        fields = (f"{name}={short_repr(value)}" for name, value in zip(self._fields, self, strict=True))
        return f"ServerSentEvent({', '.join(fields)})"

    @property
    def text(self) -> str:
        """The data as the standard decodes it: UTF-8, with U+FFFD for invalid bytes."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class UnfinishedBlock:
    """The unfinished block at the end of the body, which the standard discards."""

    event: ServerSentEvent | None  # that it would have been
    error: ServerSentEvent | None  # its error as an event: bare JSON or a field named `error`
    data_terminated: bool  # whether its last data line had a line end


def encode_event(
    data: ServerSentEvent | bytes | bytearray | memoryview | str,
    *,
    event: str = MESSAGE,
    id: str = "",
    retry: int | None = None,
) -> bytes:
    """Encode one event; decoding it returns the same event.

    Args:
        data: The data, split into `data` lines at CR, LF and CRLF; or a whole event, whose fields are then used.
        event: The event type; "message" is the standard's default and is not written.
        id: The event's id; "" writes none.
        retry: The reconnection time in milliseconds.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The event type or the id has a CR, LF or NUL, or `retry` is negative.
    """
    if isinstance(data, ServerSentEvent):
        return encode_event(data.data, event=data.event, id=data.id, retry=retry)
    check_instance("data", data, (bytes, bytearray, memoryview, str), "bytes, a str or a ServerSentEvent")
    check_instance("event", event, str, "a str")
    check_instance("id", id, str, "a str")
    check_count("retry", retry)
    body = data.encode() if isinstance(data, str) else bytes(data)
    lines: list[bytes] = []
    if event != MESSAGE:
        lines.append(b"event: " + _one_line("event", event))
    if id:
        lines.append(b"id: " + _one_line("id", id))
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    # splitlines drops an empty last line, which is data too: a sentinel holds its place.
    *first, last = (body + b".").splitlines()
    lines += [b"data: " + line for line in (*first, last[:-1])]
    return b"\n".join(lines) + b"\n\n"


def _one_line(name: str, value: str) -> bytes:
    if any(character in value for character in "\r\n\0"):
        raise ValueError(f"{name}: expected one line without CR, LF or NUL, received {value!r}")
    return value.encode()
