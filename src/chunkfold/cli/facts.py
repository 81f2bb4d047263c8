"""What there is to say of a stream that ended, as labels and values ready to be printed."""

from collections.abc import Sequence

from chunkfold import (
    Anomaly,
    ChatCompletion,
    ChatCompletionMessageToolCall,
    Choice,
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


def footer(
    completion: ChatCompletion, end: StreamEnd | None, timing: StreamTiming, anomalies: Sequence[Anomaly]
) -> list[str]:
    """What there is to say below an answer, of which choice 0 was shown."""
    usage, shown = completion.usage, choice_of(completion)
    rate = timing.tokens_per_second(usage.completion_tokens if usage else None)
    facts = [
        f"{end or 'not ended'}: {one_line(shown.finish_reason)}"
        if shown and shown.finish_reason
        else end or "not ended",
        f"first token {_seconds(timing.first_output)}" if timing.first_output is not None else "no output",
        f"{rate:.1f} tokens/s" if rate is not None else "",
        _usage(usage) if usage else "no usage",
        f"{_seconds(timing.last_byte)} in all" if timing.last_byte is not None else "",
        _of_choices(completion),
        *_beside_text(shown),
        f"tolerated {', '.join(anomaly.rule.id for anomaly in anomalies)}" if anomalies else "",
    ]
    return [fact for fact in facts if fact]


def choice_of(completion: ChatCompletion) -> Choice | None:
    """Choice 0, None if nothing came of it."""
    return next((choice for choice in completion.choices if choice.index == 0), None)


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _of_choices(completion: ChatCompletion) -> str:
    """That there is more than what is shown, if so."""
    others = sum(choice.index != 0 for choice in completion.choices)
    return f"choice 0 of {others + 1} is shown" if others else ""


def _beside_text(choice: Choice | None) -> list[str]:
    """What came that is not drawn."""
    if choice is None:
        return []
    message = choice.message
    counts = (("image", len(message.images or ())), ("citation", len(message.annotations or ())))
    audio = ["audio"] if message.audio and message.audio.data else []
    return [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts if count] + audio


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
