"""A stream frame by frame: what each server-sent event is, what it adds to the answer, which rules it breaks.

Nothing else decodes the bytes. The parser reports each event, and what changed in it since the last one is the result
of that event. What changes between two events, as it does at the end of the body, makes a frame without an event.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Unpack

from chunkfold import (
    APIError,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChunkfoldError,
    IncompleteStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    Rule,
    ServerSentEvent,
)
from chunkfold.anomalies import (
    BLANK_DATA,
    COMMENT_IN_DATA,
    ERROR_BODY,
    ERROR_FIELD,
    FOREIGN_EVENT,
    NULL_DATA,
    WHOLE_COMPLETION,
)
from chunkfold.cli.additions import Addition, additions_of, unknown_fields
from chunkfold.excerpts import excerpt
from chunkfold.parser.options import ParserOptions
from chunkfold.parser.parser import feed_or_fold
from chunkfold.recording import RecordedTransportError, Recording
from chunkfold.wire.raw_data import is_json

_PIECE: Final = 65536  # bytes fed at once, so that a huge read does not become all its chunks at once
_EXCERPT: Final = 2000  # characters kept of an event's data
_MOST_FIELDS: Final = 100  # names of unknown fields that are counted

_DONE: Final = b"[DONE]"
_PINGS: Final = frozenset({BLANK_DATA, COMMENT_IN_DATA, NULL_DATA})
_BODIES: Final = frozenset({WHOLE_COMPLETION, ERROR_BODY})


class Kind(StrEnum):
    """What a frame is."""

    CHUNK = "chunk"
    USAGE = "usage"
    DONE = "[DONE]"
    ERROR = "error"
    PING = "ping"
    FOREIGN = "foreign"
    NOT_JSON = "not JSON"
    NO_CHUNK = "no chunk"
    LIMIT = "limit"
    BODY = "body"
    END = "end"


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a frame broke."""

    rule: Rule
    count: int  # how often, in this frame
    detail: str  # the place and what was found there, if the stream had not broken the rule before; else ""
    is_first: bool  # whether it had not


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event, or a change without an event, as at the end of the body."""

    number: int  # counted from 1
    kind: Kind
    event: str | None  # the event's name, None if there was no event
    offset: int  # where its block begins in the body, in bytes; at the end of the body, its length
    at: float | None  # when it arrived, in seconds since the request was sent; None if not known
    size: int  # the length of its data in bytes
    data: str  # the beginning of its data, as text
    adds: tuple[Addition, ...]
    anomalies: tuple[BrokenRule, ...]
    error: ChunkfoldError | None  # what is wrong with it, or what it says is wrong
    note: str  # how the body ended, if the stream had not ended before

    @property
    def is_odd(self) -> bool:
        """Whether it breaks a rule, is an error, or reports an end that no event reported."""
        return bool(self.anomalies or self.note) or self.error is not None


class Inspection:
    """Parses one stream and reports each of its frames as it arrives; none is kept.

    It counts the frames, those with an event, the bytes received, and the bytes after the end, which were not read.
    """

    def __init__(self, on_frame: Callable[[Frame], object], **options: Unpack[ParserOptions]) -> None:
        given: ParserOptions = {**options, "on_server_sent_event": self._report}
        self.parser = ChatCompletionParser(**given)
        self.parser.events()  # from now on
        self.frames = self.events = self.received = self.unread = 0
        self.unknown_fields: dict[str, int] = {}  # those that OpenAI's API does not know, and how often each arrived
        self._on_frame = on_frame
        self._at: float | None = None
        self._counts: dict[str, int] = {}
        self._ended = False

    def feed(self, data: bytes, at: float | None = None) -> None:
        """Take the next bytes of the body; `at` is in seconds since the request was sent, None if not known."""
        self._at = at
        for begin in range(0, len(data), _PIECE):
            piece = data[begin : begin + _PIECE]
            self.received += len(piece)
            if self._ended:
                self.unread += len(piece)
                continue
            is_last = begin + _PIECE >= len(data)  # only then it is known whether the read brought a chunk in time
            feed_or_fold(self.parser, piece, at, is_slice=not is_last, is_returned=True)
            if self.parser.end is not None and not self._ended:  # without an event: a limit, or out of time
                self._report(None, [], str(self.parser.error or ""))

    def close(self, at: float | None = None) -> None:
        """Report that the body ended."""
        self._finish(self.parser.close, at, "the body ends")

    def interrupt(self, error: Exception, at: float | None = None) -> None:
        """Report that the transport raised an error."""
        told = excerpt(str(error) or type(error).__name__)[1:-1]
        self._finish(lambda: self.parser.interrupt(error), at, f"the transport fails: {told}")

    def leave(self, at: float | None = None) -> None:
        """Report that reading stops early."""
        self._finish(self.parser.leave, at, "reading stops early")

    def _finish(self, finish: Callable[[], list[ChatCompletionChunk] | None], at: float | None, note: str) -> None:
        if self._ended:
            return
        self._at = at
        chunks = finish()
        if not self._ended:  # else the decoder still had an event, which was the last one
            self._report(None, chunks or [], note)

    def _report(self, event: ServerSentEvent | None, chunks: list[ChatCompletionChunk], note: str = "") -> None:
        """Make a frame of all that changed since the last one."""
        parser, data = self.parser, b"" if event is None else event.data
        self.frames += 1
        self.events += event is not None
        self._ended = parser.end is not None
        self._note_fields(chunks)
        anomalies = tuple(self._new_anomalies())
        rules = {noted.rule for noted in anomalies}
        kind = self._kind(event, chunks, rules)
        frame = Frame(
            number=self.frames,
            kind=kind,
            event=None if event is None else event.event,
            offset=self._offset(event, rules),
            at=self._at,
            size=len(data),
            data=data[: 4 * _EXCERPT].decode("utf-8", "replace")[:_EXCERPT],
            adds=additions_of(parser.events(), chunks),
            anomalies=anomalies,
            error=None if isinstance(parser.error, IncompleteStreamError) else parser.error,
            note=note if kind is Kind.END else "",
        )
        self._on_frame(frame)

    def _kind(self, event: ServerSentEvent | None, chunks: Sequence[ChatCompletionChunk], rules: set[Rule]) -> Kind:
        error = self.parser.error
        if isinstance(error, LimitExceededError):
            return Kind.LIMIT
        if event is None:
            return Kind.ERROR if ERROR_FIELD in rules else Kind.BODY if self._is_body(rules) else Kind.END
        if isinstance(error, APIError):
            return Kind.ERROR
        if error is not None and not isinstance(error, IncompleteStreamError):
            return Kind.NO_CHUNK if is_json(event.data) else Kind.NOT_JSON
        if self._ended and event.data.strip() == _DONE:
            return Kind.DONE  # its chunks were held back until now
        if chunks:
            return Kind.USAGE if all(chunk.usage and not chunk.choices for chunk in chunks) else Kind.CHUNK
        return Kind.PING if rules & _PINGS else Kind.FOREIGN if FOREIGN_EVENT in rules else Kind.CHUNK

    def _is_body(self, rules: set[Rule]) -> bool:
        """Whether a frame without an event is the whole body, and not its end."""
        return bool(rules & _BODIES) or isinstance(self.parser.error, NotAnEventStreamError | APIError)

    def _offset(self, event: ServerSentEvent | None, rules: set[Rule]) -> int:
        if event is not None:
            return event.offset
        if ERROR_FIELD in rules:
            return next(each.offset for each in self.parser.anomalies if each.rule is ERROR_FIELD)
        return 0 if self._is_body(rules) else self.received

    def _new_anomalies(self) -> Iterator[BrokenRule]:
        """The anomalies since the last frame."""
        for anomaly in self.parser.anomalies:
            rule, known = anomaly.rule, self._counts.get(anomaly.rule.id, 0)
            if anomaly.count > known:
                self._counts[rule.id] = anomaly.count
                detail = "" if known else anomaly.detail
                yield BrokenRule(rule, anomaly.count - known, detail, is_first=not known)

    def _note_fields(self, chunks: Iterable[ChatCompletionChunk]) -> None:
        known = self.unknown_fields
        for chunk in chunks:
            for name in unknown_fields(chunk):
                if name in known or len(known) < _MOST_FIELDS:
                    known[name] = known.get(name, 0) + 1


def inspect_recording(recording: Recording, inspection: Inspection) -> None:
    """Inspect a recording in the reads of the live stream."""
    timed = recording.is_timed
    inspection.parser.timing.headers = recording.headers_at
    for read in recording.reads:
        inspection.feed(read.data, read.at if timed else None)
    ended_at = recording.ended_at if timed else None
    if recording.end == "error":
        inspection.interrupt(RecordedTransportError(recording.error), ended_at)
    elif recording.end == "body":
        inspection.close(ended_at)
    else:
        inspection.leave(ended_at)
