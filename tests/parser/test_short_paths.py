"""The usual event passes through few functions. A detour gives the same result, so only its cost shows it.

What is counted are the calls of chunkfold's functions, which do not depend on the machine.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case

import chunkfold.parser.streamed_body
import chunkfold.parser.template
from chunkfold import ChatCompletionParser
from chunkfold.testing import chunk, delta, fragment
from chunkfold.testing.wire import choice

# Of each kind: the event with this number; and for each way to take it the most calls for one that comes alone, and for
# each of many in one read.
KINDS: dict[str, tuple[Callable[[int], bytes], dict[str, tuple[int, int]]]] = {
    "text": (lambda n: delta(content=f"word {n}"), {"validated": (14, 7), "fed": (14, 6), "folded": (10, 1)}),
    "text and padding": (
        lambda n: chunk(choice(content=f"word {n}"), obfuscation="x" * (n % 5)),
        {"validated": (15, 8), "fed": (14, 6), "folded": (10, 1)},
    ),
    "text and usage": (
        lambda n: chunk(
            choice(content=f"word {n}"), usage={"prompt_tokens": 9, "completion_tokens": n, "total_tokens": n + 9}
        ),
        {"validated": (26, 19), "fed": (22, 9), "folded": (17, 3)},
    ),
    "text and tokens": (
        lambda n: chunk({**choice(content=f"word {n}", token_id=n), "text": f"word {n}"}),
        {"validated": (23, 16), "fed": (22, 15), "folded": (18, 10)},
    ),
    "text of choices in turn": (
        lambda n: delta(content=f"word {n}", index=n % 2),
        {"validated": (14, 7), "fed": (14, 11), "folded": (10, 6)},
    ),
    "usage of choices in turn": (
        lambda n: chunk(
            choice(content=f"word {n}", index=n % 2),
            usage={"prompt_tokens": 9, "completion_tokens": n, "total_tokens": n + 9},
        ),
        {"validated": (25, 18), "fed": (19, 15), "folded": (14, 9)},
    ),
    "reasoning": (
        lambda n: delta(reasoning_content=f"word {n}"),
        {"validated": (16, 9), "fed": (16, 6), "folded": (12, 1)},
    ),
    "details": (
        lambda n: delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": f"word {n}"}]),
        {"validated": (31, 24), "fed": (21, 7), "folded": (16, 1)},
    ),
    "summaries": (
        lambda n: delta(reasoning_details=[{"type": "reasoning.summary", "index": 0, "summary": f"word {n}"}]),
        {"validated": (32, 25), "fed": (21, 7), "folded": (16, 1)},
    ),
    "details beside reasoning": (
        lambda n: delta(
            reasoning=f"word {n}", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": f"word {n}"}]
        ),
        {"validated": (33, 26), "fed": (22, 8), "folded": (17, 2)},
    ),
    "thinking parts": (
        lambda n: delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": f"word {n}"}]}]),
        {"validated": (61, 54), "fed": (24, 8), "folded": (19, 2)},
    ),
    "arguments": (
        lambda n: delta(tool_calls=[fragment(0, arguments=f"word {n}")]),
        {"validated": (19, 12), "fed": (18, 9), "folded": (11, 1)},
    ),
}


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
@each_case("way", ["validated", "fed", "folded"])
def test_the_usual_event_takes_few_calls(way: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    event, most = KINDS[name]
    alone, among_many = most[way]
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


def test_so_does_one_that_is_observed() -> None:
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: None)
    for number in range(20):
        parser.feed(delta(content=f"word {number}"))
    assert len(calls(parser.feed, delta(content="another"))) <= 30
