"""All streams of the set, in the order in which they are shown."""

from functools import cache

from chunkfold.anomalies import RULES, Rule
from chunkfold.errors import StreamEnd
from chunkfold.rule_examples import Example, example_of
from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.readings import Call


@cache
def hostile_streams(*, abuse: bool = True) -> tuple[HostileStream, ...]:
    """The set: those written for it, then the example of each rule of the catalogue. Built at the first call.

    Args:
        abuse: Whether to include the cases of abuse, each of which has a `cost`. Without them the set suits a client
            that reads from providers it trusts.
    """
    from chunkfold.testing.hostile.abuse import ABUSE
    from chunkfold.testing.hostile.calls import CALLS
    from chunkfold.testing.hostile.chunks import CHUNKS
    from chunkfold.testing.hostile.endings import ENDINGS
    from chunkfold.testing.hostile.errors import ERRORS
    from chunkfold.testing.hostile.framing import FRAMING
    from chunkfold.testing.hostile.usage import USAGE

    examples = ((rule, example_of(rule.id)) for rule in RULES)
    by_rule = [_stream_of(rule, one) for rule, one in examples if not (one.is_broken or one.is_for_one)]
    return (*FRAMING, *CHUNKS, *CALLS, *USAGE, *ERRORS, *ENDINGS, *(ABUSE if abuse else ()), *by_rule)


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
