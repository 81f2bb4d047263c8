"""Halves of a character, each with what it belongs to."""

from typing import Any

import pytest

from chunkfold import ChatCompletionParser
from chunkfold.testing import delta, fragment

HALF = "\ud83d"  # of 😀, whose other half is \ude00


def parsed(*deltas: bytes) -> tuple[Any, Any]:
    """What the chunks of a body are, as JSON, and its tool calls: their ids and arguments."""
    parser = ChatCompletionParser()
    chunks = [chunk for data in deltas for chunk in parser.feed(data)] + parser.close()
    calls = parser.snapshot.choices[0].message.tool_calls or []
    return "".join(chunk.model_dump_json() for chunk in chunks), [(call.id, call.function.arguments) for call in calls]


@pytest.mark.parametrize("index", [0, None])
def test_half_a_character_stays_with_the_call_that_was_open(index: int | None) -> None:
    """The first half is the first chunk that the joiner takes: it knows the calls before from the fold."""
    first = delta(tool_calls=[fragment(index, "call_1", "f", "a")])
    split = delta(tool_calls=[fragment(index, arguments=HALF)])
    second = delta(tool_calls=[fragment(None if index is None else 1, "call_2", "f", "b")])
    assert parsed(first, split, second)[1] == [("call_1", "a\ufffd"), ("call_2", "b")]


def test_half_a_character_outside_of_texts_is_replaced() -> None:
    """Nothing says what would continue it there."""
    body = delta(tool_calls=[{**fragment(0, "call_1", f"f{HALF}", "a"), "unknown": HALF}])
    shown, calls = parsed(body, delta(tool_calls=[fragment(0, arguments="\ude00")]))
    assert '"name":"f\ufffd"' in shown
    assert '"unknown":"\ufffd"' in shown
    assert calls == [("call_1", "a\ufffd")]
