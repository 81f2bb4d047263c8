"""The fold of several choices, and of messages that are not the assistant's."""

from typing import Any

import pytest
from cases import each_case
from folded_payloads import chunk, fold, noted, read_all, running, said, texts

from chunkfold.testing import HEAD

# Choices


CHOICES = [
    pytest.param([(0, "a"), (1, "b"), (0, "A"), (1, "B")], {0: "aA", 1: "bB"}, id="interleaved"),
    pytest.param([(1, "b"), (0, "a"), (1, "B"), (0, "A")], {0: "aA", 1: "bB"}, id="index 1 first"),
    pytest.param([(7, "b"), (2, "a"), (7, "B")], {2: "a", 7: "bB"}, id="gaps"),
    pytest.param([(-1, "a"), (1_000_000, "b")], {-1: "a", 1_000_000: "b"}, id="any integer"),
]


@pytest.mark.parametrize(("pieces", "expected"), CHOICES)
def test_choices_are_told_apart_by_their_index_and_come_out_by_it(pieces: Any, expected: dict[int, str]) -> None:
    one_per_chunk = [chunk({"content": text}, index=index) for index, text in pieces]
    together = {**HEAD, "choices": [one["choices"][0] for one in one_per_chunk]}
    for payloads in (one_per_chunk, [together]):
        completion = fold(*payloads).completion()
        assert texts(completion) == expected
        assert [choice.index for choice in completion.choices] == sorted(expected)


def test_each_choice_has_a_message_of_its_own() -> None:
    tool_calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
    parser = fold(
        chunk({"tool_calls": tool_calls}, index=1),
        chunk({"content": "a", "x": 1}, index=0),
        chunk({}, index=1, finish_reason="tool_calls"),
        chunk({"refusal": "no"}, index=2, finish_reason="stop", choice={"y": 1}),
        chunk({}, index=0, finish_reason="length"),
    )
    first, second, third = parser.completion().choices
    assert (first.message.content, first.finish_reason, first.message.tool_calls) == ("a", "length", [])
    assert (second.message.content, second.finish_reason, second.message.tool_calls[0].id) == (None, "tool_calls", "a")
    assert (third.message.refusal, third.finish_reason, third.model_extra) == ("no", "stop", {"y": 1})
    assert first.message.model_extra == {"x": 1}
    assert second.message.model_extra == {}
    assert noted(parser) == set()


@each_case(
    ("value", "choices"),
    [(..., ...), (None, None), (None, {})],
    ids=["not sent", "null", "an object in place of a list"],
)
def test_what_is_missing_has_a_default(value: Any, choices: Any) -> None:
    filtered = {"content_filter_offsets": {"start": 1}}  # Azure's asynchronous filter has no delta
    for payloads, extra, rule in (
        ([chunk({"content": "a"}, index=value), *said({"content": "b"})], {}, "CF210"),
        ([chunk(choices=choices, x=1), *said({"content": "ab"})], {}, "CF201"),
        ([*said({"content": "ab"}), chunk(value, choice=filtered)], filtered, "CF202"),
    ):
        parser = fold(*payloads)
        (choice,) = parser.completion().choices
        assert (choice.index, choice.message.content, choice.finish_reason) == (0, "ab", "stop")
        assert (choice.model_extra, parser.completion().model_extra) == (extra, {"x": 1} if rule == "CF201" else {})
        assert noted(parser) == {rule}


# A tool's messages


TOOL = {"reasoning": "x", "role": "tool", "tool_call_id": "a", "content": "[1]", "name": "search"}


def test_what_a_tool_says_is_not_the_assistants() -> None:
    """MiniMax's search: its results come in choice 0, with a finish reason of their own."""
    payloads = [
        chunk({"role": "tool", **TOOL}, finish_reason="tool_calls"),
        chunk({"role": "function", "content": "x"}),
        *said({"role": "assistant", "content": "Hi"}, {"content": "!"}),
    ]
    parser, chunks = read_all(*payloads)
    completion = parser.completion()
    (choice,) = completion.choices
    assert (completion.text, completion.message.role, choice.finish_reason) == ("Hi!", "assistant", "stop")
    assert choice.model_extra == {"tool_messages": [TOOL, {"role": "function", "content": "x"}]}
    assert [each.text + each.reasoning for each in chunks] == ["", "", "Hi", "!"]
    assert noted(parser) == {"CF220"}


def test_how_long_a_function_still_takes_is_not_the_answer() -> None:
    """GigaChat says so while it draws an image. Was once wrong: the answer began with it."""
    progress = {"role": "function_in_progress", "content": "10 s left", "created": 1760000000, "name": "text2image"}
    parser, chunks = read_all(*said(progress, progress, {"role": "assistant", "content": "Hi"}))
    (choice,) = parser.completion().choices
    assert (choice.message.content, choice.message.model_extra) == ("Hi", {})
    assert choice.model_extra == {"tool_messages": [progress] * 2}
    assert [each.text for each in chunks] == ["", "", "Hi"]
    assert [(one.rule.id, one.count) for one in parser.anomalies] == [("CF220", 2)]


@each_case("place", ["delta", "message"])
def test_a_finish_reason_of_a_tool_does_not_end_the_answer(place: str) -> None:
    """MiniMax sends whole messages, too. Was once wrong: it was the answer, and its finish reason ended it."""
    of_the_tool = {"choices": [{"index": 0, place: TOOL, "finish_reason": "stop"}]}
    parser = running(chunk({"content": "Hi"}), of_the_tool)
    parser.close()
    (choice,) = parser.snapshot.choices
    assert (parser.end, parser.snapshot.text, choice.model_extra) == ("truncated", "Hi", {"tool_messages": [TOOL]})
    assert noted(parser) >= {"CF220"}


def test_tool_calls_are_the_assistants_whatever_the_role() -> None:
    calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
    parser = fold(*said({"role": "tool", "tool_calls": calls, "reasoning": "x"}, {}, finish_reason="tool_calls"))
    (choice,) = parser.completion().choices
    assert [call.name for call in choice.message.tool_calls] == ["f"]
    assert choice.message.reasoning is None
    assert choice.model_extra == {"tool_messages": [{"role": "tool", "reasoning": "x"}]}
