"""The rules' own examples as hostile streams."""

from chunkfold.anomalies import RULES, Rule
from chunkfold.errors import StreamEnd
from chunkfold.rule_examples import Example, example_of
from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.readings import Call


def rule_streams() -> tuple[HostileStream, ...]:
    """One for each rule that a body can show by itself."""
    examples = ((rule, example_of(rule.id)) for rule in RULES)
    return tuple(_stream_of(*shown) for shown in examples if not (shown[1].is_broken or shown[1].is_for_one))


def _stream_of(rule: Rule, example: Example) -> HostileStream:
    return HostileStream(
        rule.id,
        rule.sentence,
        rule.senders,
        example.body,
        ending="complete" if StreamEnd(example.end).complete else "error",
        texts=(example.text,),
        reasoning=example.reasoning or None,
        calls=tuple(Call(*call) for call in example.calls),
        finish_reason=example.finish_reason,
        usage=example.usage,
        message=example.error[0] if example.error else "",
    )
