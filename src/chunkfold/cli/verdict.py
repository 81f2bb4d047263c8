"""The verdict on a finished stream in words: how it ended, what it contained, what a client has to tolerate."""

from collections.abc import Iterator
from typing import Final

from chunkfold import (
    APIError,
    ChatCompletion,
    ChatCompletionMessage,
    ChunkfoldError,
    StreamEnd,
    is_retryable,
)
from chunkfold.cli.additions import tokens_of, word
from chunkfold.cli.frames import Inspection
from chunkfold.cli.safe import one_line
from chunkfold.errors import END_MEANINGS
from chunkfold.excerpts import counted

_FIELDS: Final = 12  # names of unknown fields that are shown
_CHOICES: Final = 4  # choices that are described


def facts_of(inspection: Inspection, *, timed: bool) -> Iterator[tuple[str, str]]:
    """The verdict on a stream that is over as labels and values; every value is bounded and escaped."""
    parser, snapshot = inspection.parser, inspection.parser.snapshot
    yield "ended", "not yet" if parser.end is None else f"{parser.end}: {END_MEANINGS[parser.end]}"
    if parser.error is not None:
        yield "error", described(parser.error)
        yield "retryable", retryable(parser.error)
    yield "received", _received(inspection)
    if timed:
        yield "time", _time(inspection)
    yield "output", "; ".join(_output(snapshot)) or "none"
    yield "finish reason", ", ".join(_finish_reasons(snapshot)) or "none"
    yield "usage", "not reported" if snapshot.usage is None else tokens_of(snapshot.usage)
    if parser.request_id:
        yield "request id", word(parser.request_id)
    if inspection.unknown_fields:
        yield "also sent", _fields(inspection.unknown_fields)


def no_deviations(inspection: Inspection) -> str:
    """The verdict if no rule was broken."""
    end = inspection.parser.end
    if end is not None and end.complete:
        return "none"
    return "none, the error included" if end is StreamEnd.FAILED else "none, up to where it ended"


def times(count: int) -> str:
    """A count of occurrences, in words."""
    return "once" if count == 1 else f"{count:,} times"


def described(error: ChunkfoldError) -> str:
    """An error on one line: its type, its message, and the other values that the provider sent."""
    message = one_line(str(error))
    fields: list[tuple[str, object]] = []
    if isinstance(error, APIError):
        fields = [("status", error.status_code)]
        if error.error.message:  # else the text of the exception has the rest
            fields += [("type", error.type), ("code", error.code)]
    details = [f"{name} {word(str(value)[:200])}" for name, value in fields if value is not None]
    return f"{type(error).__name__}: {message}" + (f" ({', '.join(details)})" if details else "")


def retryable(error: ChunkfoldError) -> str:
    """Whether to retry, in words."""
    if error.retryable:
        return "yes" if error.retry_after is None else f"yes, after {error.retry_after:g} s"
    return "no, since output had arrived (a retry would repeat it)" if is_retryable(error, after_output=True) else "no"


def _received(inspection: Inspection) -> str:
    told = f"{counted(inspection.events, 'event')} in {counted(inspection.received, 'byte')}"
    return told + (f", and {inspection.unread:,} of them after the end, not read" if inspection.unread else "")


def _time(inspection: Inspection) -> str:
    timing = inspection.parser.timing
    told = (("headers", timing.headers), ("first output", timing.first_output), ("last byte", timing.last_byte))
    return ", ".join(f"{name} after {seconds:.2f} s" for name, seconds in told if seconds is not None) or "not known"


def _output(snapshot: ChatCompletion) -> Iterator[str]:
    for choice in snapshot.choices[:_CHOICES]:
        told = ", ".join(_kinds_of_output(choice.message))
        if told:
            yield f"choice {choice.index}: {told}" if len(snapshot.choices) > 1 else told
    if len(snapshot.choices) > _CHOICES:
        yield f"and {len(snapshot.choices) - _CHOICES} more choices"


def _kinds_of_output(message: ChatCompletionMessage) -> Iterator[str]:
    for name, text in (("text", message.content), ("reasoning", message.reasoning), ("refusal", message.refusal)):
        if text:
            yield f"{name} of {counted(len(text), 'character')}"
    calls = message.tool_calls
    if calls:
        names = ", ".join(word(call.name) for call in calls[:_CHOICES])
        more = ", ..." if len(calls) > _CHOICES else ""
        yield f"{counted(len(calls), 'tool call')} ({names}{more})"
    if message.function_call is not None:
        yield f"a function call ({word(message.function_call.name or '')})"
    if message.audio is not None:
        yield "audio"
    for name, parts in (("image", message.images), ("annotation", message.annotations)):
        if parts:
            yield counted(len(parts), name)


def _finish_reasons(snapshot: ChatCompletion) -> Iterator[str]:
    for choice in snapshot.choices[:_CHOICES]:
        if choice.finish_reason:
            outcome = "" if choice.outcome == choice.finish_reason else f" (outcome {choice.outcome})"
            yield f"{word(choice.finish_reason)}{outcome}"


def _fields(counts: dict[str, int]) -> str:
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:_FIELDS]]
    return ", ".join(shown) + (", ..." if len(counts) > _FIELDS else "")
