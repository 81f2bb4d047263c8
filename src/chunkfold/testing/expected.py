"""What must come of what was said, in a dialect: the right outcome, which no parser has a hand in."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chunkfold.testing.dialects import Dialect
from chunkfold.testing.outcomes import Call, Ending, Outcome
from chunkfold.testing.writing import CallTools, Fail, Finish, Say, SayDone, Step, UsageCounts


def outcome_of(steps: Sequence[Step], dialect: Dialect, counts: UsageCounts | None) -> Outcome:
    """The outcome that is right for these steps."""
    failure = next((step.error.message for step in steps if isinstance(step, Fail)), None)
    finishes = {step.choice: step.reason for step in steps if isinstance(step, Finish)}
    reason = finishes.get(0, "")
    return Outcome(
        texts=_texts(steps),
        calls=tuple(_calls(steps, has_ids=dialect.calls != "no ids")),
        reasoning="".join(_pieces(steps, "reasoning")) if dialect.reasoning else "",
        finish_reason=dialect.finish_reasons.get(reason, reason),
        usage=_usage(counts) if finishes else None if dialect.usage == "each" else {},
        refused=failure,
        ending="error" if failure is not None else _ending(steps, finishes, has_done=bool(dialect.done)),
    )


def _ending(steps: Sequence[Step], finishes: Mapping[int, str], *, has_done: bool) -> Ending:
    begun = {step.choice for step in steps if isinstance(step, Say | CallTools | Finish)}
    is_done = has_done and any(isinstance(step, SayDone) for step in steps)
    return "complete" if begun and (is_done or begun <= finishes.keys()) else "cut"


def _texts(steps: Sequence[Step]) -> tuple[str, ...]:
    """The text of each choice, by index."""
    texts: defaultdict[int, str] = defaultdict(str)
    for step in steps:
        if isinstance(step, Say | CallTools | Finish):
            texts[step.choice] += "".join(step.pieces) if isinstance(step, Say) and step.kind == "content" else ""
    return tuple(texts[index] for index in sorted(texts)) or ("",)


def _calls(steps: Sequence[Step], *, has_ids: bool) -> Iterator[Call]:
    for step in steps:
        if isinstance(step, CallTools) and step.choice == 0:
            for call in step.calls:
                yield Call(call.name, "".join(call.pieces), call.id if has_ids else None)


def _pieces(steps: Sequence[Step], kind: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Say) and step.kind == kind and step.choice == 0:
            yield from step.pieces


def _usage(counts: UsageCounts | None) -> dict[str, int]:
    if counts is None:
        return {}
    told = {"prompt_tokens": counts.prompt, "completion_tokens": counts.completion}
    return {**told, "total_tokens": sum(told.values())}
