"""The expected result of a builder's steps in a dialect, made without a parser."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chunkfold.testing.dialects import Dialect
from chunkfold.testing.readings import Call, Ending, Reading, is_failure
from chunkfold.testing.steps import CallTools, Fail, Finish, Say, SayDone, Step, UsageCounts
from chunkfold.testing.wire import usage


def reading_of(steps: Sequence[Step], dialect: Dialect, counts: UsageCounts | None) -> Reading:
    """The reading that these steps have to give."""
    sent = list(sent_steps(steps, dialect))
    failure = _failure(sent[-1]) if sent else None
    finishes = {step.choice: step.reason for step in sent if isinstance(step, Finish) and dialect.has_finish_reason}
    choices = sorted(finishes.keys() | {step.choice for step in sent if isinstance(step, Say | CallTools)}) or [0]
    reason = finishes.get(choices[0], "")
    return Reading(
        texts=tuple(_joined(_pieces(sent, "content", choice)) for choice in choices),
        calls=tuple(_calls(sent, choices[0], has_ids=dialect.calls != "no ids")),
        reasoning=_joined(_pieces(sent, "reasoning", choices[0])),
        finish_reason=dialect.finish_reasons.get(reason, reason),
        usage=_usage(counts) if _has_usage(steps, sent) else None if dialect.usage == "each" else {},
        refused=failure,
        ending="error" if failure is not None else _ending(sent, finishes),
    )


def sent_steps(steps: Sequence[Step], dialect: Dialect) -> Iterator[Step]:
    """The steps that are sent, up to the one that ends the stream."""
    for step in steps:
        if _is_sent(step, dialect):
            yield step
            if isinstance(step, SayDone) or _failure(step) is not None:
                return


def _is_sent(step: Step, dialect: Dialect) -> bool:
    match step:
        case Say():
            return bool(step.pieces) and (step.kind != "reasoning" or bool(dialect.reasoning))
        case CallTools():
            return bool(step.calls)
        case Finish():
            return dialect.has_finish_reason or not is_failure(step.reason)  # else it is for the usage alone
        case SayDone():
            return bool(dialect.done)
        case _:
            return True


def _failure(step: Step) -> str | None:
    """The error of a step; None if the step is not an error."""
    if isinstance(step, Finish) and is_failure(step.reason):
        return step.reason
    return step.error.message if isinstance(step, Fail) else None


def _has_usage(steps: Sequence[Step], sent: Sequence[Step]) -> bool:
    """Whether the last finish reason, with which the whole usage is sent, arrives."""
    finishes = [step for step in steps if isinstance(step, Finish)]
    return bool(finishes) and any(step is finishes[-1] for step in sent)


def _ending(steps: Sequence[Step], finishes: Mapping[int, str]) -> Ending:
    begun = {step.choice for step in steps if isinstance(step, Say | CallTools | Finish)}
    is_done = any(isinstance(step, SayDone) for step in steps)
    has_output = any(isinstance(step, CallTools) or (isinstance(step, Say) and any(step.pieces)) for step in steps)
    return "complete" if begun and ((is_done and has_output) or begun <= finishes.keys()) else "cut"


def _calls(steps: Sequence[Step], choice: int, *, has_ids: bool) -> Iterator[Call]:
    for step in steps:
        if isinstance(step, CallTools) and step.choice == choice:
            for call in step.calls:
                yield Call(_joined([call.name]), _joined(call.pieces), call.id if has_ids else None)


def _pieces(steps: Sequence[Step], kind: str, choice: int) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Say) and step.kind == kind and step.choice == choice:
            yield from step.pieces


def _joined(pieces: Iterable[str]) -> str:
    """The pieces as one text; halves of a character that come together are one, a lone half is U+FFFD."""
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _usage(counts: UsageCounts | None) -> dict[str, int]:
    return {} if counts is None else usage(counts.prompt, counts.completion)
