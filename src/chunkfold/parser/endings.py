"""Decide how a stream ended, as one pure function of the facts, and create the error for each ending."""

from collections.abc import Container, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from chunkfold import anomalies
from chunkfold.anomalies import Rule
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.errors import (
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    NotAnEventStreamError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.excerpts import exception_text, excerpt
from chunkfold.wire.bodies import is_compressed

_BODY_EXCERPT: Final = 1024
_COMMON_TYPES: Final = frozenset({"application/json", "text/event-stream", "text/html", "text/plain", "text/xml"})


class Stop(Enum):
    """Why nothing more of a stream is read."""

    ERROR = auto()  # the provider reported one
    INVALID = auto()  # an event or a body that is not a chunk, or a limit
    REFUSED = auto()  # strict mode refuses an anomaly
    DONE = auto()  # `[DONE]`
    BODY_ENDED = auto()
    WHOLE_BODY = auto()  # the body was one JSON completion, which has no `[DONE]`
    TRANSPORT = auto()  # the transport raised
    STALLED = auto()  # a deadline passed
    LEFT = auto()  # the consumer left


# The provider ended the bytes, so an anomaly that shows only then is the provider's fault.
_BY_ITSELF: Final = frozenset({Stop.DONE, Stop.BODY_ENDED, Stop.WHOLE_BODY})


class Facts(NamedTuple):
    """What is known of a stream when it stops."""

    stop: Stop
    all_finished: bool = False  # there is at least one choice, and each has its finish reason
    # Output came after a finish reason, which proves nothing then: some relays send one with every chunk, or the first.
    finished_early: bool = False
    has_output: bool = False
    has_unexplained: bool = False  # an object came that is neither a chunk nor an error
    # The place and the start of the first event with data, if none of them is part of a stream of chunks.
    foreign: tuple[int, str] | None = None
    has_lost_data: bool = False  # the consumer's own code raised within a read, the rest of which is lost
    is_refused: bool = False  # strict mode refuses an anomaly that was noted
    refused_ids: Container[str] = ()  # of the rules that strict mode refuses


class Verdict(NamedTuple):
    """How a stream ended."""

    end: StreamEnd
    note: Rule | None = None  # the rule that this ending breaks
    is_refused: bool = False  # only strict mode makes it invalid


def judge(facts: Facts) -> Verdict:
    """How a stream with these facts ended; the first rule that applies decides.

    Strict mode also refuses an anomaly that was noted only at the end, but only if the provider ended the bytes: if the
    transport broke, a deadline passed or the consumer left, it is not the provider's fault.
    """
    if facts.stop in _AT_ONCE:
        return _AT_ONCE[facts.stop]
    verdict = _tolerant(facts)
    if facts.has_lost_data and verdict.end.complete:
        return Verdict(StreamEnd.CLOSED)
    is_noted = facts.is_refused and facts.stop in _BY_ITSELF
    if is_noted or (verdict.note is not None and verdict.note.id in facts.refused_ids):
        return Verdict(StreamEnd.INVALID, verdict.note, is_refused=True)
    return verdict


_AT_ONCE: Final = {
    Stop.ERROR: Verdict(StreamEnd.FAILED),
    Stop.INVALID: Verdict(StreamEnd.INVALID),
    Stop.REFUSED: Verdict(StreamEnd.INVALID, is_refused=True),
}
_AFTER_FINISH: Final = {
    Stop.BODY_ENDED: anomalies.DONE_MISSING,
    Stop.TRANSPORT: anomalies.LATE_FAULT,
    Stop.STALLED: anomalies.LATE_FAULT,
}
_BEFORE_FINISH: Final = {
    Stop.TRANSPORT: StreamEnd.INTERRUPTED,
    Stop.STALLED: StreamEnd.STALLED,
    Stop.LEFT: StreamEnd.CLOSED,
}


def _tolerant(facts: Facts) -> Verdict:
    """The verdict without strict mode, for a stream that stopped without an error in its content."""
    if facts.all_finished and not (facts.finished_early and facts.stop in _BEFORE_FINISH):
        return Verdict(StreamEnd.FINISHED, _AFTER_FINISH.get(facts.stop))
    if facts.stop in _BEFORE_FINISH:
        return Verdict(_BEFORE_FINISH[facts.stop])
    if facts.foreign:
        return Verdict(StreamEnd.INVALID)
    if not facts.has_output:
        return Verdict(StreamEnd.EMPTY)
    if facts.stop is Stop.DONE and not facts.has_unexplained:
        return Verdict(StreamEnd.DONE, anomalies.FINISH_MISSING)
    return Verdict(StreamEnd.TRUNCATED)


def conclude(
    facts: Facts, log: AnomalyLog, error: ChunkfoldError | None, cause: BaseException | None
) -> tuple[StreamEnd, ChunkfoldError | None]:
    """How a stream ended, and the error for it, None if it ended well or was left; noted if it breaks a rule.

    `error` is what an event or a deadline caused; the transport raised `cause`.
    """
    verdict = judge(facts)
    if verdict.note is not None:
        fault = error or (cause and type(cause).__name__)
        log.note(verdict.note, str(fault or ""))
    end = verdict.end
    if end.complete or end is StreamEnd.CLOSED:
        return end, None
    if verdict.is_refused and log.refused is not None:
        refusal = InvalidStreamError(f"{log.refused.rule} ({log.refused.first})", rule=log.refused.rule)
        refusal.__cause__ = cause
        return end, refusal
    if error is not None:
        return end, error
    if cause is not None:
        return end, _interrupted(cause)
    if facts.foreign is not None:
        offset, quoted = facts.foreign
        what = "expected chunks of the chat completions API, received only other events"
        return end, InvalidChunkError(f"event at byte {offset}: {what}: {quoted}", position=offset)
    return end, _incomplete(end, facts.stop, log)


def _incomplete(end: StreamEnd, stop: Stop, log: AnomalyLog) -> IncompleteStreamError:
    """The stream stopped by itself, but too early: `empty` or `truncated`; what was not read as a chunk is quoted."""
    if end is StreamEnd.EMPTY:
        msg = "[DONE] arrived before any output" if stop is Stop.DONE else "the stream ended without any output"
    else:
        before, missing = ("[DONE] arrived", "") if stop is Stop.DONE else ("the body ended", "no [DONE], and ")
        msg = f"{before} before the stream was complete: {missing}a choice without a finish reason"
    if (unexplained := log.get(anomalies.UNEXPLAINED_OBJECT)) is not None:
        msg += f", after an object that is neither a chunk nor an error: {unexplained.detail}"
    elif (ignored := log.get(anomalies.NEARLY_DATA)) is not None and ignored.detail:
        msg += f", after a line that is nearly data, which was not read: {ignored.detail}"
    return IncompleteStreamError(msg, end=end)


def _interrupted(exc: BaseException) -> StreamInterruptedError:
    # h11 quotes what it could not read: it may be a secret
    reason = exception_text(exc).partition("bytearray(")[0].rstrip(": ")
    msg = f"the transport failed before the stream was complete: {excerpt(reason or type(exc).__name__)}"
    error = StreamInterruptedError(msg, end=StreamEnd.INTERRUPTED)
    error.__cause__ = exc
    return error


def _kind_of(content_type: str | None) -> str:
    """The content type in words, if it is a common one: a message quotes no other value of a header."""
    if content_type is None:
        return "without a content type"
    kind = content_type.partition(";")[0].strip().lower()
    return f"content type {kind}" if kind in _COMMON_TYPES else "another content type"


def not_an_event_stream(body: bytes, status_code: int | None, headers: Mapping[str, str]) -> NotAnEventStreamError:
    """The error for a body that is not an event stream. Without headers, as for a file, no response is described."""
    content_type = headers.get("content-type")
    status = "" if status_code is None else f"status {status_code}, "
    response = f" ({status}{_kind_of(content_type)})" if headers else ""
    if is_compressed(body):
        received = f"a compressed body{response}: pass the decoded one"
    else:
        received = f"another body{response}: {excerpt(body[:_BODY_EXCERPT].decode('utf-8', 'replace'))}"
    msg = f"expected an event stream, received {received}"
    return NotAnEventStreamError(msg, status_code=status_code, content_type=content_type, body=body[:_BODY_EXCERPT])
