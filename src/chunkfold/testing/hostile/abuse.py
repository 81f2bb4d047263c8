"""Streams that are expensive rather than odd: bodies of up to a megabyte, each with the cost that reading it may have.

Anyone who controls what a provider sends, through a relay or a base URL of their own, can send these. Test a client
that is not meant for such bodies with the set without them: `hostile_streams(abuse=False)`.
"""

from typing import Any, Final

from chunkfold.testing.hostile.values import CALLED, HI, STOP, Cost, HostileStream
from chunkfold.testing.readings import Call, Ending
from chunkfold.testing.wire import DONE, choice, chunk, delta, fragment, fragments, usage

_END: Final = STOP + DONE
_SENDERS: Final = "attackers"
_SOME: Final = 2_000
_MANY: Final = 100_000
_LARGE: Final = 1_000_000
_HUGE: Final = "9" * 4_000  # digits; Python converts up to 4,300
_WORDS: Final = tuple(f"word {place} " for place in range(_SOME))
_TEXT: Final = "".join(_WORDS)
_SAID: Final = (Call("say", f'{{"text":"{_TEXT}"}}', "call_a"),)
# On a slow machine there are clients that take five seconds for 2,000 chunks in which nothing is unusual.
_COST: Final = Cost(seconds=10.0, megabytes=100)


def _abuse(
    name: str,
    sentence: str,
    body: bytes,
    *texts: str,
    calls: tuple[Call, ...] = (),
    ending: Ending = "complete",
) -> HostileStream:
    reason = ("tool_calls" if calls else "stop") if ending == "complete" else None
    said = texts or ("" if calls else "Hi",)
    return HostileStream(f"abuse-{name}", sentence, _SENDERS, body, ending, said, None, calls, reason, cost=_COST)


def _call(*pieces: dict[str, Any]) -> bytes:
    return fragments(fragment(0, "call_a", "say", '{"text":"'), *pieces, fragment(0, arguments='"}')) + CALLED + DONE


ABUSE: Final[tuple[HostileStream, ...]] = (
    _abuse("blank-lines", "100,000 blank lines between two chunks", HI + b"\n" * _MANY + _END),
    _abuse("comments", "100,000 comments between two chunks", HI + b":\n" * _MANY + _END),
    _abuse("empty-chunks", "2,000 chunks without choices", HI + chunk() * _SOME + _END),
    _abuse("long-text", "a megabyte of text in one chunk", delta(content="x" * _LARGE) + _END, "x" * _LARGE),
    _abuse("text-in-pieces", "text in 2,000 pieces", b"".join(delta(content=each) for each in _WORDS) + _END, _TEXT),
    _abuse(
        "arguments-in-pieces",
        "the arguments of a call in 2,000 pieces",
        _call(*(fragment(0, arguments=each) for each in _WORDS)),
        calls=_SAID,
    ),
    _abuse(
        "fresh-ids",
        "each of the 2,000 pieces of a call has an id of its own",
        _call(*(fragment(0, f"call_{place}", arguments=each) for place, each in enumerate(_WORDS))),
        calls=_SAID,
    ),
    _abuse(
        "calls",
        "2,000 calls in one chunk",
        delta(tool_calls=[fragment(place, f"call_{place}", "f", "{}") for place in range(_SOME)]) + CALLED + DONE,
        calls=tuple(Call("f", "{}", f"call_{place}") for place in range(_SOME)),
    ),
    _abuse(
        "choices",
        "1,000 choices where one was asked for",
        chunk(*(choice("stop", place, content="Hi") for place in range(_SOME // 2))) + DONE,
        *["Hi"] * (_SOME // 2),
    ),
    _abuse(
        "fresh-keys",
        "2,000 chunks, each with an unknown key of its own",
        HI + b"".join(chunk(**{f"key_{place}": place}) for place in range(_SOME)) + _END,
    ),
    _abuse("items", "an unknown list of 100,000 numbers", HI + chunk(extra=[0] * _MANY) + _END),
    _abuse(
        "digits",
        "counts of usage with 4,000 digits",
        HI + STOP + chunk(usage=usage(1, 1)).replace(b":1,", f":{_HUGE},".encode()) + DONE,
    ),
    _abuse(
        "line-without-end",
        "a chunk with a megabyte of text whose line never ends",
        HI + delta(content="x" * _LARGE).rpartition(b'"}')[0],
        ending="cut",
    ),
)
