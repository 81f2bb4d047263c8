"""The usual event passes through few functions. A detour gives the same result, so only its cost shows it.

What is counted are the calls of chunkfold's functions, which do not depend on the machine.
"""

import sys
from collections.abc import Callable
from typing import Any

from cases import each_case

from chunkfold import ChatCompletionParser
from chunkfold.testing import chunk, delta, fragment
from chunkfold.testing.wire import choice

# An event of its kind, the most calls for one that comes alone, and for each of many in one read.
FED = {
    "text": (lambda word: delta(content=word), 13, 5),
    "text and padding": (lambda word: chunk(choice(content=word), obfuscation="x" * (len(word) % 5)), 14, 6),
    "reasoning": (lambda word: delta(reasoning_content=word), 16, 8),
    "details": (lambda word: delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": word}]), 29, 21),
    "arguments": (lambda word: delta(tool_calls=[fragment(0, arguments=word)]), 15, 7),
}
FOLDED = {
    "text": (FED["text"][0], 13, 5),
    "text and padding": (FED["text and padding"][0], 13, 5),
    "reasoning": (FED["reasoning"][0], 16, 8),
    "details": (FED["details"][0], 33, 25),
    "arguments": (FED["arguments"][0], 16, 8),
}


def calls(take: Callable[[bytes], object], data: bytes) -> list[str]:
    """The functions of chunkfold that are called for a read."""
    called: list[str] = []

    def note(frame: Any, what: str, _: object) -> None:
        if what == "call" and frame.f_globals["__name__"].startswith("chunkfold."):
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        take(data)
    finally:
        sys.setprofile(before)
    return called


@each_case("name", FED)
@each_case("verb", ["feed", "fold"])
def test_the_usual_event_takes_few_calls(verb: str, name: str) -> None:
    of, alone, among_many = (FED if verb == "feed" else FOLDED)[name]
    parser = ChatCompletionParser()
    take = getattr(parser, verb)
    take(delta(role="assistant", content="") + delta(tool_calls=[fragment(0, "call_1", "f", "")]))
    for number in range(20):
        take(of(f"word {number}"))
    assert len(calls(take, of("another"))) <= alone
    few, many = (calls(take, b"".join(of(f"word {number}") for number in range(count))) for count in (5, 15))
    assert len(many) - len(few) <= 10 * among_many


def test_so_does_one_that_is_observed() -> None:
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: None)
    for number in range(20):
        parser.feed(delta(content=f"word {number}"))
    assert len(calls(parser.feed, delta(content="another"))) <= 30
