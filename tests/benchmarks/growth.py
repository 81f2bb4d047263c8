"""Growth: how much longer ten times as much takes. Linear is 10, quadratic 100.

The garbage collector is off here: what it costs depends on how much else the process holds, and is no property of the
code that is measured.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import drawing
from bodies import chunk, event, rows, text, tool_arguments
from folding import fed
from measuring import Figure, Scale, Target, at_most, least_times, say
from pydantic_core import from_json

from chunkfold import ChatCompletionStream, PartialJSON
from chunkfold.testing import cut_every

TABLE = "growth"
PARTIAL = "partial"
_TARGET = at_most(10.5)
_DRAWN = at_most(11)  # the thread that draws takes its part of the time, whatever there is to draw
_PIECE = 20  # characters of JSON in a delta


@dataclass(frozen=True, slots=True)
class Case:
    """What grows.

    Attributes:
        unit: What is counted.
        large: How many there are in the large one; the small one has a tenth.
        make: Makes the bodies' reads, or what is drawn.
        take: Reads them, or draws it.
        target: What is meant.
    """

    unit: str
    large: int
    make: Callable[[int], Any]
    take: Callable[[Any], object]
    target: Target = _TARGET


def _take_events(reads: list[bytes]) -> int:
    return sum(1 for _ in ChatCompletionStream(reads).events())


_HI = event(chunk({"content": "Hi"}))
_STOP = event(chunk({}, "stop"))


def _choices(count: int) -> list[bytes]:
    texts = [event(chunk({"content": "Hi"}, index=index)) for index in range(count)]
    return [*texts, *(event(chunk({}, "stop", index=index)) for index in range(count))]


def _tool_calls(count: int) -> list[bytes]:
    """Each call in three fragments, between those of others."""
    begun = [
        {"index": index, "id": f"call_{index}", "function": {"name": "f", "arguments": ""}} for index in range(count)
    ]
    rest = [{"index": index, "function": {"arguments": piece}} for piece in ('{"x"', ":1}") for index in range(count)]
    return [*(event(chunk({"tool_calls": [fragment]})) for fragment in begun + rest), event(chunk({}, "tool_calls"))]


CASES: dict[str, Case] = {
    "text": Case("chunks", 20_000, lambda n: text(n).events, fed),
    "tool arguments": Case("chunks", 20_000, lambda n: tool_arguments(n).events, fed),
    "`events()`": Case("chunks", 20_000, lambda n: text(n).events, _take_events),
    "one event in 16-byte reads": Case(
        "bytes", 2_000_000, lambda n: [*cut_every(event(chunk({"content": "x" * n})), 16), _STOP], fed
    ),
    "empty lines": Case("lines", 1_000_000, lambda n: [_HI, *cut_every(b"\n" * n, 65536), _STOP], fed),
    "comments": Case("lines", 1_000_000, lambda n: [_HI, *cut_every(b": ping\n" * n, 65536), b"\n", _STOP], fed),
    "choices": Case("choices", 10_000, _choices, fed),
    "tool calls": Case("calls", 1_000, _tool_calls, fed),
    "drawn tool calls": Case("calls", 10_000, drawing.tool_calls, drawing.draw, _DRAWN),
    "drawn zero-width characters": Case("characters", 40_000, drawing.zero_width, drawing.draw, _DRAWN),
    "drawn code": Case("characters", 80_000, drawing.code, drawing.draw, _DRAWN),
}


def measure(scale: Scale) -> Iterator[Figure]:
    for name, case in CASES.items():
        say(f"growth: {name}")
        large = case.large // 20 if scale.is_quick else case.large
        small = large // 10
        subjects = {
            "small": partial(case.take, case.make(small)),
            "large": partial(case.take, case.make(large)),
        }
        yield Figure(
            TABLE,
            (name, f"{small:,} {case.unit}", f"{large:,}"),
            "times as long",
            _growth(subjects, scale),
            case.target,
        )
    yield from _measure_partial(scale)


def _growth(subjects: dict[str, Callable[[], object]], scale: Scale) -> float:
    with _no_collector():
        subjects["small"]()
        times = least_times(subjects, scale.rounds)
    return times["large"] / times["small"]


@contextmanager
def _no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# JSON that is still being written


def _measure_partial(scale: Scale) -> Iterator[Figure]:
    """10,000 deltas of a document of 200 kB, against parsing the whole text again with each delta."""
    say("growth: partial JSON")
    count = 1_000 if scale.is_quick else 10_000
    small, large = _pieces(count // 10), _pieces(count)
    row = ("partial JSON", f"{count // 10:,} deltas", f"{count:,}")
    growth = _growth({"small": partial(_feed_partial, small), "large": partial(_feed_partial, large)}, scale)
    yield Figure(TABLE, row, "times as long", growth, _TARGET)
    if _feed_partial(large) != from_json("".join(large)):
        raise AssertionError("PartialJSON gives another value")
    subjects = {"ours": partial(_feed_partial, large), "parsed again": partial(_read_anew, large)}
    times = least_times(subjects, min(scale.rounds, 3))
    row = (f"{count * _PIECE:,} characters",)
    yield Figure(PARTIAL, row, "deltas", count)
    yield Figure(PARTIAL, row, "parsed again", times["parsed again"] / times["ours"])


def _pieces(count: int) -> list[str]:
    document = rows(count * _PIECE)
    return [document[place : place + _PIECE] for place in range(0, len(document), _PIECE)]


def _feed_partial(pieces: list[str]) -> object:
    live = PartialJSON()
    for piece in pieces:
        live.feed(piece)
    return live.close()


def _read_anew(pieces: list[str]) -> object:
    text, value = "", None
    for piece in pieces:
        text += piece
        value = from_json(text, allow_partial="trailing-strings")
    return value
