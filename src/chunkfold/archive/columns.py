"""The columns of a folded record: their names, types and order.

An unknown value is None; a list without items is empty and never None. No column depends on the data, so the columns
are the same for every record. A schema that an engine infers depends on the rows that it sees, since a column with
only None has no type; `arrow_schema` gives every file of a table the same.
"""

from importlib import import_module
from types import NoneType
from typing import Any, TypedDict, get_args, get_origin, get_type_hints, is_typeddict


class ToolCall(TypedDict):
    """A tool call of a message.

    Attributes:
        choice: The index of the choice that has it.
        id: As sent; made up where a stream ended without one.
        type: `function` or `custom`; `function_call` is the legacy one.
        name: The tool's name.
        arguments: The raw text; for a custom tool, its input.
    """

    choice: int | None
    id: str | None
    type: str | None
    name: str | None
    arguments: str | None


class AnomalyCount(TypedDict):
    """A rule that was broken.

    Attributes:
        rule: Its id, as in `chunkfold.RULES`.
        count: How often.
    """

    rule: str
    count: int


class Ending(TypedDict):
    """How the stream ended.

    Attributes:
        size: The record's size in bytes.
        url: The URL of the request, without user, query and fragment; None for plain bodies.
        ending: A `StreamEnd`; None if the record could not be read.
        complete: Whether the message is whole.
        error_type: The name of the exception's type.
        error: The exception's message.
        error_status: The HTTP status that a provider's error is equivalent to.
        error_code: The provider's code, a number or a word, as text.
        error_retryable: Whether to send the request again, whatever output had arrived; None if no stream failed.
        anomalies: The rules that were broken, in the order of their first occurrence.
    """

    size: int
    url: str | None
    ending: str | None
    complete: bool
    error_type: str | None
    error: str | None
    error_status: int | None
    error_code: str | None
    error_retryable: bool | None
    anomalies: list[AnomalyCount]


class Message(TypedDict):
    """The answer up to then. All lists except `tool_calls` have an item for each choice, sorted by index.

    Attributes:
        id: The completion's id.
        model: As sent.
        created: Seconds since 1970, as sent.
        choices: The indexes of the choices.
        finish_reasons: As sent; None for a choice that is still open.
        outcomes: What they mean, an `Outcome` each.
        texts: The contents.
        reasonings: The reasoning texts.
        refusals: The refusals.
        tool_calls: The calls of all choices, in order.
    """

    id: str | None
    model: str | None
    created: int | None
    choices: list[int | None]
    finish_reasons: list[str | None]
    outcomes: list[str | None]
    texts: list[str | None]
    reasonings: list[str | None]
    refusals: list[str | None]
    tool_calls: list[ToolCall]


class Usage(TypedDict):
    """The provider's token counts, read from wherever they were sent, as in `CompletionUsage`."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


class Timing(TypedDict):
    """Times, in seconds since the request was sent. All are None for a plain body, which has no times.

    Attributes:
        seconds: The duration of the whole stream.
        headers_seconds: Until status and headers.
        first_byte_seconds: Until the first bytes of the body.
        first_chunk_seconds: Until the first chunk.
        first_output_seconds: Until the first text, reasoning, tool call fragment, audio or image.
        last_chunk_seconds: Until the last chunk.
        last_byte_seconds: Until the last bytes that were parsed.
        gaps: The number of gaps between reads that brought chunks.
        gap_p50_seconds: The median gap.
        gap_p95_seconds: The 95th percentile of the gaps.
        gap_longest_seconds: The longest gap.
        tokens_per_second: From the first output to the last chunk.
    """

    seconds: float | None
    headers_seconds: float | None
    first_byte_seconds: float | None
    first_chunk_seconds: float | None
    first_output_seconds: float | None
    last_chunk_seconds: float | None
    last_byte_seconds: float | None
    gaps: int | None
    gap_p50_seconds: float | None
    gap_p95_seconds: float | None
    gap_longest_seconds: float | None
    tokens_per_second: float | None


class FoldedRecord(Ending, Message, Usage, Timing):
    """A row: the result of folding one record."""


def arrow_schema() -> Any:
    """The `pyarrow.Schema` of folded records: `string`, `int64`, `double` and `bool`, lists and structs of them.

    Raises:
        ImportError: `pyarrow` is not installed; chunkfold does not depend on it.
    """
    try:
        arrow: Any = import_module("pyarrow")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        msg = "chunkfold.archive.arrow_schema needs pyarrow: pip install pyarrow"
        raise ModuleNotFoundError(msg, name=error.name) from None
    return arrow.schema(_fields(arrow, FoldedRecord))


def _fields(arrow: Any, columns: type) -> list[Any]:
    return [arrow.field(name, _type(arrow, hint)) for name, hint in get_type_hints(columns).items()]


def _type(arrow: Any, hint: Any) -> Any:
    """The type for values of a type; every column may be null."""
    if get_origin(hint) is list:
        return arrow.list_(_type(arrow, *get_args(hint)))
    if is_typeddict(hint):
        return arrow.struct(_fields(arrow, hint))
    (kind,) = {*(get_args(hint) or (hint,))} - {NoneType}
    return {str: arrow.string, int: arrow.int64, float: arrow.float64, bool: arrow.bool_}[kind]()
