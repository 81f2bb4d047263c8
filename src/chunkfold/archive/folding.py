"""Fold the bytes of one record into its row. A fault in a record is reported in its row and never raises.

A process that folds a billion records meets every kind of fault. A completion already has no value of a wrong type and
no half characters; a number beyond 64 bits, which no column can hold, is left out here.
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Final

from chunkfold.archive.columns import Ending, FoldedRecord, Message, Timing, ToolCall, Usage
from chunkfold.arguments import check_count
from chunkfold.errors import APIError, exceeded, is_retryable
from chunkfold.json_text.surrogates import well_formed
from chunkfold.json_text.values import is_int64
from chunkfold.models.completion import ChatCompletion, Choice
from chunkfold.models.shared import CompletionUsage
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.parser.timing import StreamTiming
from chunkfold.recording import Recording, replay
from chunkfold.recording.unpacking import GZIP, unpacked

_MOST: Final = 64 * 2**20  # bytes; docs/scale.md computes what these three cost at worst
_MOST_OF_AN_EVENT: Final = 8 * 2**20  # bytes
_MOST_OUTPUT: Final = 16 * 2**20  # characters


def fold_record(
    data: bytes | bytearray | memoryview,
    *,
    max_size: int | None = _MOST,
    max_event_size: int | None = _MOST_OF_AN_EVENT,
    max_output_size: int | None = _MOST_OUTPUT,
) -> FoldedRecord:
    """Fold one recorded stream into a flat row; `chunkfold.archive.columns` describes each column.

    The row has what `chunkfold fold --json` prints for the same file, except values without a column: audio, images,
    annotations, log probabilities and unknown fields. Nothing is kept between two calls.

    Args:
        data: The content of a file: a recording, or a plain body as `curl -N` saves it; either may be gzipped.
        max_size: The maximum size in bytes, unpacked; 64 MiB by default, None for no limit. A larger record is not
            read.
        max_event_size: The parser's option; 8 MiB by default. The number of values in one event is limited by the
            default of the parser's `max_event_items`.
        max_output_size: The parser's option; 16 Mi characters by default.

    Raises:
        TypeError: The data is not bytes, or a limit is not a number.
        ValueError: A limit is negative. Nothing else is raised: a record that cannot be read is a row with an `error`.
    """
    check_count("max_size", max_size)
    check_count("max_event_size", max_event_size)
    check_count("max_output_size", max_output_size)
    try:
        size = memoryview(data).nbytes
    except TypeError:
        raise TypeError(f"data: expected bytes, received {type(data).__name__}") from None
    if max_size is not None and size > max_size:
        return _unreadable(size, exceeded("max_size", max_size))
    try:
        recording = Recording.loads(_unpacked(bytes(data), max_size))
        parser = replay(recording, max_event_size=max_event_size, max_output_size=max_output_size)
        return _row(size, recording, parser, parser.error)
    except Exception as error:  # noqa: BLE001 - one bad record must not end the run, whatever is wrong with it
        return _unreadable(size, error)


def _unpacked(data: bytes, max_size: int | None) -> bytes:
    """The record, unpacked if it is gzip, up to a size."""
    if not data.startswith(GZIP):
        return data
    whole = bytearray()
    for piece in unpacked(BytesIO(data)):
        whole += piece
        if max_size is not None and len(whole) > max_size:
            raise exceeded("max_size", max_size)
    return bytes(whole)


def _unreadable(size: int, error: Exception) -> FoldedRecord:
    """The row of a record that has no stream."""
    return _row(size, Recording(()), ChatCompletionParser(), error)


def _row(size: int, recording: Recording, parser: ChatCompletionParser, error: Exception | None) -> FoldedRecord:
    snapshot = parser.snapshot
    usage = _usage(snapshot.usage)
    return {
        **_ending(size, recording, parser, error),
        **_message(snapshot),
        **usage,
        **_timing(recording, parser.timing, usage["completion_tokens"]),
    }


def _ending(size: int, recording: Recording, parser: ChatCompletionParser, error: Exception | None) -> Ending:
    status, code = (error.status_code, error.code) if isinstance(error, APIError) else (None, None)
    return {
        "size": size,
        "url": well_formed(recording.url) or None,
        "ending": None if parser.end is None else parser.end.value,
        "complete": parser.end is not None and parser.end.complete,
        "error_type": None if error is None else type(error).__name__,
        "error": None if error is None else _message_of(error),
        "error_status": _integer(status),
        "error_code": None if code is None else well_formed(str(code)),
        "error_retryable": None if parser.error is None else is_retryable(parser.error, after_output=True),
        "anomalies": [{"rule": anomaly.rule.id, "count": anomaly.count} for anomaly in parser.anomalies],
    }


def _message_of(error: Exception) -> str:
    return "out of memory" if isinstance(error, MemoryError) else well_formed(str(error))


def _message(completion: ChatCompletion) -> Message:
    choices = completion.choices
    messages = [choice.message for choice in choices]
    return {
        "id": completion.id,
        "model": completion.model,
        "created": _integer(completion.created),
        "choices": [_integer(choice.index) for choice in choices],
        "finish_reasons": [choice.finish_reason for choice in choices],
        "outcomes": [None if choice.outcome is None else choice.outcome.value for choice in choices],
        "texts": [message.content for message in messages],
        "reasonings": [message.reasoning for message in messages],
        "refusals": [message.refusal for message in messages],
        "tool_calls": [call for choice in choices for call in _tool_calls(choice)],
    }


def _tool_calls(choice: Choice) -> Iterator[ToolCall]:
    for call in choice.message.tool_calls:
        yield {
            "choice": _integer(choice.index),
            "id": call.id,
            "type": call.type,
            "name": call.name or None,
            "arguments": call.arguments,
        }
    legacy = choice.message.function_call
    if legacy is not None:
        yield {
            "choice": _integer(choice.index),
            "id": None,
            "type": "function_call",
            "name": legacy.name,
            "arguments": legacy.arguments,
        }


def _usage(sent: CompletionUsage | None) -> Usage:
    usage = sent or CompletionUsage()
    return {
        "prompt_tokens": _integer(usage.prompt_tokens),
        "completion_tokens": _integer(usage.completion_tokens),
        "total_tokens": _integer(usage.total_tokens),
        "cached_tokens": _integer(usage.cached_tokens),
        "reasoning_tokens": _integer(usage.reasoning_tokens),
    }


def _timing(recording: Recording, noted: StreamTiming, completion_tokens: int | None) -> Timing:
    timing = noted if recording.is_timed else StreamTiming()
    gaps = timing.gaps
    return {
        "seconds": recording.seconds if recording.is_timed else None,
        "headers_seconds": timing.headers,
        "first_byte_seconds": timing.first_byte,
        "first_chunk_seconds": timing.first_chunk,
        "first_output_seconds": timing.first_output,
        "last_chunk_seconds": timing.last_chunk,
        "last_byte_seconds": timing.last_byte,
        "gaps": None if gaps is None else gaps.count,
        "gap_p50_seconds": None if gaps is None else gaps.p50,
        "gap_p95_seconds": None if gaps is None else gaps.p95,
        "gap_longest_seconds": None if gaps is None else gaps.longest,
        "tokens_per_second": timing.tokens_per_second(completion_tokens),
    }


def _integer(value: int | None) -> int | None:
    """The number if a column can hold it, else None."""
    return value if is_int64(value) else None
