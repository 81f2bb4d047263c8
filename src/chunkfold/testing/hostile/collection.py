"""All streams of the set, in the order in which they are shown."""

from functools import cache

from chunkfold.testing.hostile.values import HostileStream


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
    from chunkfold.testing.hostile.rules import rule_streams
    from chunkfold.testing.hostile.usage import USAGE

    return (*FRAMING, *CHUNKS, *CALLS, *USAGE, *ERRORS, *ENDINGS, *(ABUSE if abuse else ()), *rule_streams())
