"""The usual event passes through few functions. A detour gives the same result, so only its cost shows it.

What is counted are the calls of chunkfold's functions, which do not depend on the machine.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from parsed_bodies import folded

import chunkfold.parser.streamed_body
import chunkfold.parser.template
from chunkfold import ChatCompletionParser
from chunkfold.testing import chunk, delta, fragment, usage
from chunkfold.testing.wire import choice

KINDS: dict[str, Callable[[int], bytes]] = {  # the event with this number
    "text": lambda n: delta(content=f"word {n}"),
    "text and padding": lambda n: chunk(choice(content=f"word {n}"), obfuscation="x" * (n % 5)),
    "text and usage": lambda n: chunk(choice(content=f"word {n}"), usage=usage(9, n)),
    "text and tokens": lambda n: chunk({**choice(content=f"word {n}", token_id=n), "text": f"word {n}"}),
    "text of choices in turn": lambda n: delta(content=f"word {n}", index=n % 2),
    "usage of choices in turn": lambda n: chunk(choice(content=f"word {n}", index=n % 2), usage=usage(9, n)),
    "reasoning": lambda n: delta(reasoning_content=f"word {n}"),
    "details": lambda n: delta(reasoning_details=[detail("text", n)]),
    "summaries": lambda n: delta(reasoning_details=[detail("summary", n)]),
    "details beside reasoning": lambda n: delta(reasoning=f"word {n}", reasoning_details=[detail("text", n)]),
    "thinking parts": lambda n: delta(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": f"word {n}"}]}]
    ),
    "arguments": lambda n: delta(tool_calls=[fragment(0, arguments=f"word {n}")]),
}
WAYS = ("validated", "fed", "folded")
# For each way to take an event the most calls for one that comes alone, and for each of many in one read.
MOST = {
    "text": ((14, 7), (15, 6), (11, 1)),
    "text and padding": ((15, 8), (15, 6), (11, 1)),
    "text and usage": ((26, 19), (22, 9), (17, 3)),
    "text and tokens": ((23, 16), (22, 16), (18, 11)),
    "text of choices in turn": ((14, 7), (15, 11), (11, 6)),
    "usage of choices in turn": ((26, 19), (20, 16), (15, 10)),
    "reasoning": ((17, 10), (18, 6), (14, 1)),
    "details": ((35, 28), (21, 7), (16, 1)),
    "summaries": ((36, 29), (21, 7), (16, 1)),
    "details beside reasoning": ((37, 30), (22, 8), (17, 2)),
    "thinking parts": ((64, 57), (25, 8), (20, 2)),
    "arguments": ((19, 12), (19, 9), (12, 1)),
}


def detail(key: str, number: int) -> dict[str, Any]:
    return {"type": f"reasoning.{key}", "index": 0, key: f"word {number}"}


def calls(take: Callable[[bytes], object], data: bytes) -> list[str]:
    """The functions of chunkfold that are called for a read."""
    called: list[str] = []

    def note(frame: Any, what: str, _: object) -> None:
        if what == "call" and frame.f_globals["__name__"].startswith("chunkfold."):
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    gc.disable()  # what other tests left may be finalized by functions of chunkfold
    sys.setprofile(note)
    try:
        take(data)
    finally:
        sys.setprofile(before)
        gc.enable()
    return called


@each_case("name", KINDS)
@each_case("way", WAYS)
def test_the_usual_event_takes_few_calls(way: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    event, (alone, among_many) = KINDS[name], MOST[name][WAYS.index(way)]
    monkeypatch.setattr(chunkfold.parser.template, "_FIRST_WAIT", 1000 if way == "validated" else 0)
    monkeypatch.setattr(chunkfold.parser.streamed_body, "_LONG", 1024)  # bytes, which ten events have
    parser = ChatCompletionParser()
    take = parser.fold if way == "folded" else parser.feed
    take(delta(role="assistant", content="") + delta(tool_calls=[fragment(0, "call_1", "f", "")]))
    take(delta(index=1, content="") if "of choices in turn" in name else b"")
    for number in range(20):
        take(event(number))
    one = calls(take, event(20))
    few, many = (calls(take, b"".join(map(event, range(21, 21 + count)))) for count in (10, 20))
    assert len(one) <= alone
    assert len(many) - len(few) <= 10 * among_many
    if way != "validated":
        crlf = calls(take, event(41).replace(b"\n", b"\r\n"))
        assert len(crlf) <= alone


@each_case("size", [9, 10_000])
def test_folding_copies_no_chunk_however_the_event_is_cut(size: int) -> None:
    parser = folded(KINDS["text"](number) for number in range(40))
    event, copy = KINDS["text"](40), "copier_of.<locals>.copy"
    assert copy not in calls(parser.fold, event[:size]) + calls(parser.fold, event[size:])
    assert copy in calls(parser.feed, event[:size]) + calls(parser.feed, event[size:])


def test_so_does_one_that_is_observed() -> None:
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: None)
    for number in range(20):
        parser.feed(delta(content=f"word {number}"))
    assert len(calls(parser.feed, delta(content="another"))) <= 30
