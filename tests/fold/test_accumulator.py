"""What the accumulator shows of itself: its counts, and snapshots that are their reader's own."""

import json
import pickle
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from folded_payloads import chunk, fold
from pydantic import BaseModel

from chunkfold import (
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ServerSentEvent,
    parse_payload,
)
from chunkfold.testing import sse

# Snapshots


def test_a_snapshot_before_the_first_chunk() -> None:
    for snapshot in (ChatCompletionParser().snapshot, ChatCompletionAccumulator().snapshot):
        assert snapshot == ChatCompletion()


def test_a_dump_without_unset_fields_is_a_completion() -> None:
    """It was once without its `object`, which only chunks have sent."""
    completion = fold(chunk({"content": "Hi"})).completion()
    for snapshot in (completion, ChatCompletionAccumulator().snapshot):
        assert snapshot.model_dump(exclude_unset=True)["object"] == "chat.completion"
    message = completion.choices[0].message.model_dump(exclude_unset=True)
    assert message == {"role": "assistant", "content": "Hi", "reasoning": None, "tool_calls": []}


def test_halves_of_a_character_in_a_name_are_joined() -> None:
    """A parser replaces each of them, so it takes chunks from elsewhere."""
    accumulator = ChatCompletionAccumulator()
    for name in ("f\ud83d", "\ude00"):
        call = {"index": 0, "id": "a", "function": {"name": name}}
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"tool_calls": [call]})))
    assert ascii(accumulator.snapshot.tool_calls[0].name) == ascii("f\N{GRINNING FACE}")


EVERYTHING = [
    chunk(
        {
            "content": [{"type": "reference", "a": [{"b": [1]}]}, "Hi"],
            "function_call": {"name": "f", "arguments": "{}", "x": {"a": [1]}},
            "tool_calls": [{"index": 0, "id": "a", "x": [[1]], "function": {"name": "f", "arguments": "{}", "y": {"a": [1]}}}],
            "audio": {"id": "a", "data": "QUI=", "x": {"a": [1]}},
            "images": [{"a": [1]}],
            "annotations": [{"type": "t", "url_citation": {"x": [1]}, "y": {"a": [1]}}],
            "reasoning_details": [{"text": "a", "x": [1]}],
            "thinking_blocks": [{"thinking": "a", "x": [1]}],
            "provider_specific_fields": {"thought_signatures": ["a"], "x": [1]},
            "refusal": [1],
            "unknown": {"a": [1]},
        },
        choice={
            "logprobs": {"content": [{"token": "a", "bytes": [1], "top_logprobs": [{"bytes": [1], "x": [1]}], "y": [1]}], "x": [1]},
            "token_ids": [1],
            "x": {"a": [1]},
        },
        usage={"prompt_tokens_details": {"cached_tokens": 1, "x": [1]}, "y": {"a": [1]}},
        x={"a": [1]},
    ),
    chunk({"role": "tool", "content": "x", "y": [1]}),
    chunk({"tool_calls": [{"index": 1, "id": "b", "custom": {"name": "f", "input": "", "x": [1]}}]}),
    chunk({}, choice={"message": {"refusal": "no", "annotations": [{"type": "t", "x": [1]}], "unknown_too": [1]}}),
]  # fmt: skip


def emptied(value: Any) -> int:
    """Empty every container inside a value, models and their unknown fields included; return how many there were."""
    if isinstance(value, BaseModel):
        inside: list[Any] = [vars(value), value.__pydantic_extra__]
        return sum(emptied(one) for part in inside if part for one in list(part.values()))
    if isinstance(value, dict | list):
        items: list[Any] = list(value.values() if isinstance(value, dict) else value)
        value.clear()
        return 1 + sum(map(emptied, items))
    return 0


@pytest.mark.parametrize("is_over", [False, True], ids=["running", "ended"])
def test_changing_a_snapshot_changes_no_later_one(is_over: bool) -> None:
    accumulator = ChatCompletionAccumulator()
    for payload in EVERYTHING:
        (parsed,) = parse_payload(ServerSentEvent(json.dumps(payload).encode())).chunks
        accumulator.add(parsed)
    if is_over:
        accumulator.finish()
    before = accumulator.snapshot.model_dump()
    assert emptied(accumulator.snapshot) > 50
    assert accumulator.snapshot.model_dump() == before


@pytest.mark.parametrize("count", [3, 60])  # of 60 alike events a template is learned
def test_a_copy_continues_independently(count: int) -> None:
    texts = [f" {number}" for number in range(2 * count)]
    parser = ChatCompletionParser()
    for text in texts[:count]:
        parser.feed(b"".join(sse(chunk({"content": text}), done=False)))
    for copy in (deepcopy(parser), pickle.loads(pickle.dumps(parser))):  # noqa: S301 - its own
        for text in texts[count:]:
            copy.feed(b"".join(sse(chunk({"content": text}), done=False)))
        assert copy.snapshot.text == "".join(texts)
    assert parser.snapshot.text == "".join(texts[:count])


# What the accumulator shows of itself


def test_it_counts_the_chunks_and_what_was_tolerated() -> None:
    accumulator = ChatCompletionAccumulator()
    for role in ("assistant", "model"):
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"role": role, "content": "a"})))
    assert (accumulator.chunks, accumulator.output_size, accumulator.has_output) == (2, 2, True)
    assert [(anomaly.rule.id, anomaly.count) for anomaly in accumulator.anomalies] == [("CF204", 1)]


@pytest.mark.parametrize(
    "value",
    [chunk({"content": "a"}), b"{}", SimpleNamespace(choices=[]), None],
    ids=["a dict", "bytes", "another library's", "None"],
)
def test_what_is_no_chunk_is_refused(value: Any) -> None:
    """Another library's chunk, too: its fields are not these, and what it has beside them would be lost."""
    accumulator = ChatCompletionAccumulator()
    with pytest.raises(TypeError, match="chunk: expected a chunkfold"):
        accumulator.add(value)
    assert accumulator.chunks == 0
