"""What there is to say of a stream that ended, as labels and values ready to be printed."""

from chunkfold import (
    ChatCompletion,
    ChatCompletionMessageToolCall,
    ChunkfoldError,
    CompletionUsage,
    ParseError,
    StreamEnd,
    StreamTiming,
    is_retryable,
)
from chunkfold.cli.safe import one_line
from chunkfold.cli.screen import Fact


def completion_facts(completion: ChatCompletion) -> list[Fact]:
    """The tool calls with their arguments parsed, the finish reason and the usage."""
    calls = [("parsed call", call_as_code(call)) for call in completion.tool_calls]
    return [*calls, ("finish reason", _finish_reason(completion)), ("usage", _usage(completion.usage))]


def stream_facts(end: StreamEnd | None, timing: StreamTiming, usage: CompletionUsage | None) -> list[Fact]:
    """How the stream ended, and how fast it was."""
    rate = timing.tokens_per_second(usage.completion_tokens if usage else None)
    return [
        ("ended", end or "not yet"),
        ("first token", "none" if timing.first_output is None else f"after {timing.first_output:.2f} s"),
        ("speed", "unknown" if rate is None else f"{rate:.1f} tokens per second"),
    ]


def error_facts(error: ChunkfoldError, end: StreamEnd | None) -> list[Fact]:
    """What went wrong, and what can be done with it."""
    partial = error.snapshot.text if error.snapshot else ""
    return [
        ("partial text", one_line(repr(partial))),
        ("error", type(error).__name__),
        ("message", one_line(str(error))),
        ("retryable", _retryable(error)),
        ("ended", end or "not yet"),
    ]


def call_as_code(call: ChatCompletionMessageToolCall) -> str:
    """The call as Python would write it, or why its arguments cannot be read."""
    if call.type == "custom":
        return one_line(f"{call.name}({call.custom.input!r})")
    try:
        arguments = call.function.parse()
    except ParseError as error:
        return one_line(f"{call.name}: {error}")
    return one_line(f"{call.name}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")


def _finish_reason(completion: ChatCompletion) -> str:
    outcome = completion.choices[0].outcome if completion.choices else None
    return f"{one_line(completion.finish_reason or 'none')} (outcome: {outcome or 'open'})"


def _usage(usage: CompletionUsage | None) -> str:
    if usage is None:
        return "not reported"
    prompt = _tokens(usage.prompt_tokens, "prompt", usage.cached_tokens, "cached")
    return f"{prompt}, {_tokens(usage.completion_tokens, 'completion', usage.reasoning_tokens, 'reasoning')}"


def _tokens(count: int | None, kind: str, part: int | None, part_kind: str) -> str:
    counted = f"{'?' if count is None else one_line(str(count))} {kind} tokens"
    return counted if part is None else f"{counted} ({one_line(str(part))} {part_kind})"


def _retryable(error: ChunkfoldError) -> str:
    if not error.retryable and is_retryable(error, after_output=True):
        return "no, for output was shown already (yes with after_output=True)"
    return "yes" if error.retryable else "no"
