"""The facts about a stream: for people in the line below an answer, for programs as JSON of one shape.

This is loaded by processes that fold, so it loads neither click nor rich.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from chunkfold import (
    Anomaly,
    APIError,
    APIStatusError,
    ChatCompletion,
    ChatCompletionMessage,
    ChatCompletionParser,
    ChatCompletionStream,
    Choice,
    ChunkfoldError,
    CompletionUsage,
    StreamEnd,
    StreamTiming,
)
from chunkfold.cli.safe import json_line, one_line
from chunkfold.cli.signals import LEFT
from chunkfold.excerpts import counted

EXIT_CODES: Final = {
    StreamEnd.FINISHED: 0,
    StreamEnd.DONE: 0,
    StreamEnd.FAILED: 3,
    StreamEnd.INVALID: 4,
    StreamEnd.INTERRUPTED: 5,
    StreamEnd.STALLED: 6,
    StreamEnd.TRUNCATED: 7,
    StreamEnd.EMPTY: 8,
    StreamEnd.CLOSED: LEFT,
}


def exit_code(end: StreamEnd | None) -> int:
    """The exit code for a stream with this end; 1 for one that has not ended."""
    return 1 if end is None else EXIT_CODES[end]


class Problem(NamedTuple):
    """Why there is no stream: there was no response, or a file could not be read."""

    kind: str  # the name of the error's class, such as ConnectError
    message: str  # fit to be printed; "" if it has none

    def __str__(self) -> str:
        """The message, else the kind."""
        return self.message or self.kind


class StreamResult(NamedTuple):
    """The result of a request, or of a recording."""

    error: ChunkfoldError | Problem | None
    end: StreamEnd | None = None  # None if there was no stream
    completion: ChatCompletion | None = None  # so far; None if there was no stream
    anomalies: Sequence[Anomaly] = ()
    timing: StreamTiming = StreamTiming()
    request_id: str | None = None
    is_timed: bool = True  # whether the times are meaningful; those of a plain body are not


def result_of(source: ChatCompletionParser | ChatCompletionStream, *, is_timed: bool = True) -> StreamResult:
    """The result of a stream that has ended, or was left."""
    return StreamResult(
        source.error, source.end, source.snapshot, source.anomalies, source.timing, source.request_id, is_timed
    )


# For people


def footer(result: StreamResult) -> list[str]:
    """The facts to show below an answer; one of its choices is shown."""
    completion, timing = result.completion or ChatCompletion(), result.timing
    usage, shown = completion.usage, choice_of(completion)
    rate = timing.tokens_per_second(usage.completion_tokens if usage else None)
    reason = shown.finish_reason if shown else None
    facts = [
        f"{result.end or 'not ended'}" + (f": {one_line(reason)}" if reason else ""),
        *(_times(timing, rate) if result.is_timed else ()),
        _usage(usage) if usage else "no usage",
        _of_choices(completion, shown),
        *_beside_text(shown),
        f"tolerated {', '.join(anomaly.rule.id for anomaly in result.anomalies)}" if result.anomalies else "",
    ]
    return [fact for fact in facts if fact]


def error_line(result: StreamResult, clean: Callable[[str], str] = one_line, note: str = "") -> str:
    """What went wrong in a result with an error, and what helps to report it, on one line.

    `clean` makes a text one line without secrets; the note is a further detail.
    """
    error = result.error
    after = error.retry_after if isinstance(error, ChunkfoldError) else None
    told = [
        note,
        f"request id {clean(result.request_id)}" if result.request_id else "",
        f"retry after {after:g} s" if after is not None else "",
    ]
    aside = ", ".join(filter(None, told))
    if isinstance(error, APIError) and not isinstance(error, APIStatusError):
        message = f"the provider reported an error: {clean(str(error))}"
    else:
        message = clean(str(error))
    return f"Error: {message}" + (f" ({aside})" if aside else "")


def choice_of(completion: ChatCompletion) -> Choice | None:
    """The choice to show: choice 0, or if it has no output, the first one that has some."""
    first = next((choice for choice in completion.choices if choice.index == 0), None)
    if first is not None and _has_output(first):
        return first
    return next(filter(_has_output, completion.choices), first)


def calls_of(message: ChatCompletionMessage) -> list[tuple[str, str]]:
    """The name and the arguments of each call; a legacy call beside them is one of them, in its other form."""
    calls, legacy = message.tool_calls, message.function_call
    if legacy is not None and not calls:
        return [(legacy.name or "", legacy.arguments)]
    return [(call.name, call.arguments) for call in calls]


def _has_output(choice: Choice) -> bool:
    message = choice.message
    return bool(message.content or message.refusal or message.reasoning or calls_of(message) or message.audio)


def _times(timing: StreamTiming, rate: float | None) -> list[str]:
    first, last = timing.first_output, timing.last_byte
    return [
        f"first token {_seconds(first)}" if first is not None else "no output",
        f"{rate:.1f} tokens/s" if rate is not None else "",
        f"{_seconds(last)} in all" if last is not None else "",
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _of_choices(completion: ChatCompletion, shown: Choice | None) -> str:
    """Which choice is shown; "" if there is only one."""
    count, index = len({0, *(choice.index for choice in completion.choices)}), shown.index if shown else 0
    return f"choice {index} of {count} is shown" if count > 1 else ""


def _beside_text(choice: Choice | None) -> list[str]:
    """The output that is not drawn."""
    if choice is None:
        return []
    message = choice.message
    counts = (("image", len(message.images or ())), ("citation", len(message.annotations or ())))
    audio = ["audio"] if message.audio and message.audio.data else []
    return [counted(count, kind) for kind, count in counts if count] + audio


def _usage(usage: CompletionUsage) -> str:
    prompt = _tokens(usage.prompt_tokens, "prompt", usage.cached_tokens, "cached")
    return f"{prompt}, {_tokens(usage.completion_tokens, 'completion', usage.reasoning_tokens, 'reasoning')}"


def _tokens(count: int | None, kind: str, part: int | None, part_kind: str) -> str:
    tokens = f"? {kind} tokens" if count is None else counted(count, f"{kind} token")
    return tokens if part is None else f"{tokens} ({part:,} {part_kind})"


# For programs


def result_object(result: StreamResult) -> dict[str, Any]:
    """The object that every command with `--json` gives for a stream; docs/command-line.md has it as a table."""
    timing, usage = result.timing, result.completion.usage if result.completion else None
    return {
        "end": result.end,
        "error": error_object(result.error),
        "anomalies": [anomaly_object(anomaly) for anomaly in result.anomalies],
        "completion": completion_object(result.completion),
        "timing": {
            **asdict(timing),
            "gaps": asdict(timing.gaps) if timing.gaps else None,
            "tokens_per_second": timing.tokens_per_second(usage.completion_tokens if usage else None),
        }
        if result.is_timed
        else None,
        "request_id": result.request_id,
    }


def result_json(result: StreamResult, hide: Callable[[str], str] = str) -> bytes:
    """The same as one line, without secrets."""
    return hide(json_line(result_object(result))).encode()


def completion_object(completion: ChatCompletion | None) -> dict[str, Any] | None:
    """A completion; a number that JSON does not have, such as a log probability of -Infinity, is null."""
    return None if completion is None else json.loads(completion.model_dump_json())


def error_object(error: ChunkfoldError | Problem | None) -> dict[str, Any] | None:
    """An error; unknown values are null."""
    if error is None:
        return None
    ours = error if isinstance(error, ChunkfoldError) else None
    told = error if isinstance(error, APIError) else None
    return {
        "type": error.kind if isinstance(error, Problem) else type(error).__name__,
        "message": str(error),
        "retryable": ours and ours.retryable,
        "retry_after": ours and ours.retry_after,
        "status_code": told and told.status_code,
        "code": told and _short(told.code),
        "param": told and _short(told.param),
    }


def anomaly_object(anomaly: Anomaly, *, explained: bool = False) -> dict[str, Any]:
    """A rule that was broken; if explained, with who breaks it, and what chunkfold does."""
    rule = anomaly.rule
    place = {"first": anomaly.first, "offset": anomaly.offset, "detail": anomaly.detail}
    more = {"senders": rule.senders, "handling": rule.handling} if explained else {}
    return {"rule": rule.id, "sentence": rule.sentence, "count": anomaly.count, **place, **more}


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else str(value)[:200]
