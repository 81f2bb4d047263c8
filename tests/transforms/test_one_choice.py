"""One choice: an answer whose chunks wander over several indexes, by the transform and by the parser's option."""

from collections.abc import Sequence
from typing import Any

import pytest
from cases import each_case
from parsed_bodies import noted
from transformed import adds_up, call, choice, chunk, contents, read

from chunkfold import ChatCompletionChunk, ChatCompletionParser, OneChoice, ThinkTags
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import sse


def merged(
    payloads: Sequence[dict[str, Any]], way: str = "option", *, done: bool = True
) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    """A parser that takes all choices for one, at its end; the chunks add up to what it has."""
    parser = ChatCompletionParser(transforms=[OneChoice()] * (way == "transform"), one_choice=way == "option")
    chunks = [new for data in sse(*payloads, done=done) for new in parser.feed(data)]
    chunks += parser.close()
    adds_up(parser, chunks)
    return parser, chunks


either_way = each_case("way", ["transform", "option"])


SPREAD = [
    chunk(choice("Let me ", role="assistant")),
    chunk(choice("look.", "stop")),
    chunk(choice(index=1, tool_calls=[call("a", "f", '{"q"', index=0)])),
    chunk(choice(None, "tool_calls", 1, tool_calls=[call(None, None, ":1}", index=0)])),
]


@either_way
def test_one_message_of_several_choices(way: str) -> None:
    parser, _ = merged(SPREAD, way)
    (one,) = parser.completion().choices
    assert (one.index, one.message.content, one.finish_reason) == (0, "Let me look.", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in one.message.tool_calls] == [("a", "f", '{"q":1}')]
    assert noted(parser) == ({"CF221": 2} if way == "option" else {})


@either_way
@each_case(
    "later",
    [
        pytest.param(choice(index=1, role="assistant"), id="a role"),
        pytest.param(choice("", index=1, role="assistant"), id="an empty text"),
        pytest.param(choice("", "null", 1), id="the word null as its finish reason"),
        pytest.param(choice("x", "stop", 1, role="tool"), id="a tool's message"),
    ],
)
def test_a_choice_that_says_nothing_takes_no_finish_back(later: dict[str, Any], way: str) -> None:
    parser, _ = merged([chunk(choice("Hi", "stop")), chunk(later)], way, done=False)
    assert (parser.end, parser.snapshot.text, parser.snapshot.finish_reason) == ("finished", "Hi", "stop")


def test_one_message_of_several_choices_of_one_chunk() -> None:
    payload = chunk(choice("Hi", "stop"), choice(None, "tool_calls", 1, tool_calls=[call("a", "f", "{}", index=0)]))
    parser, chunks = read([payload], OneChoice())
    (one,) = parser.completion().choices
    assert (one.message.content, one.finish_reason, len(one.message.tool_calls)) == ("Hi", "tool_calls", 1)
    assert [one.index for one in chunks[0].choices] == [0, 0]


def test_a_finish_reason_beside_a_tool_message_does_not_end_the_one_choice() -> None:
    parser = ChatCompletionParser(transforms=[OneChoice()])
    found = choice("[1]", "stop", role="tool")
    parser.feed(b"".join(sse(chunk(choice("Hi")), chunk(found), chunk(choice("!")), done=False)))
    parser.close()
    assert (parser.end, parser.snapshot.text) == ("truncated", "Hi!")


def test_the_word_null_is_noted_through_one_choice() -> None:
    payloads = [chunk(choice("Hi", "stop")), chunk(choice("", "null", 1))]
    assert noted(read(payloads, OneChoice())[0]) == {"CF203": 1}
    assert read(payloads, OneChoice(), strict=True)[0].end == "invalid"


# One choice, by the parser's option


def test_one_index_other_than_0_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[ChatCompletionChunk] = []
    add = StreamFold.add_unusual
    monkeypatch.setattr(StreamFold, "add_unusual", lambda self, one: (added.append(one), add(self, one))[1])
    for index, notes in ((0, {}), (3, {"CF221": 102})):
        added.clear()
        parser, _ = merged(contents(["a"] * 101 + [""], index))
        assert (parser.snapshot.text, noted(parser)) == ("a" * 101, notes)
        assert len(added) == 2  # the first and the last


def test_two_indexes_with_text_in_one_chunk_stay_apart() -> None:
    payloads = [
        chunk(choice(role="assistant"), choice(role="assistant", index=1)),
        chunk(choice("A"), choice("B", index=1)),
        chunk(choice("1", "stop")),
        chunk(choice("2", "stop", 1)),
    ]
    parser, _ = merged(payloads)
    assert [(one.index, one.message.content) for one in parser.completion().choices] == [(0, "A1"), (1, "B2")]


@each_case(
    ("delta", "view"),
    [
        (lambda text: {"delta": {"reasoning_content": text}}, lambda message: message.reasoning),
        (lambda text: {"message": {"content": text}, "finish_reason": "stop"}, lambda message: message.content),
    ],
    ids=["reasonings", "whole messages"],
)
def test_two_of_them_in_one_chunk_stay_apart(delta: Any, view: Any) -> None:
    payload = chunk(*({"index": index, **delta(text)} for index, text in enumerate("AB")))
    parser, _ = read([payload], one_choice=True)
    assert [view(one.message) for one in parser.snapshot.choices] == ["A", "B"]


def test_a_tool_message_in_another_index_is_not_another_answer() -> None:
    found = {"role": "tool", "tool_call_id": "call_a", "content": "[1]"}
    parser, _ = merged([chunk(choice("Hi"), choice(index=1, **found)), chunk(choice(None, "stop"))])
    [answer] = parser.completion().model_dump()["choices"]
    assert (answer["message"]["content"], answer["tool_messages"]) == ("Hi", [found])


@pytest.mark.parametrize(
    ("payloads", "end"),
    [
        pytest.param([chunk(choice("Hi", "stop")), chunk(choice(None, None, 1))], "finished", id="nothing goes on"),
        pytest.param([chunk(choice("Hi", "stop")), chunk(choice("", None, 1, obfuscation="x", annotations=[{"type": "a"}]))],
            "finished", id="only padding and a citation follow"),
        pytest.param([chunk(choice("Hi", "stop")), chunk(choice("!", None, 1))], "truncated", id="another goes on"),
        pytest.param([chunk(choice("Hi", "stop", 1)), chunk(choice("!", None, 1))], "finished", id="it goes on itself"),
        pytest.param([chunk(choice("Hi", "stop"), choice(None, "length", 1))], "finished", id="both finish"),
        pytest.param([chunk(choice("Hi", "stop", 1)), chunk(choice("!"))], "truncated", id="choice 0 goes on"),
        # Was once wrong for the transform.
        pytest.param([chunk(choice("Hi", "stop"), choice(index=1, tool_calls=[call("a", "f", "{", index=0)]))], "truncated",
            id="another goes on in the same chunk"),
    ],
)  # fmt: skip
@either_way
def test_a_finish_is_taken_back_where_another_choice_goes_on(
    payloads: list[dict[str, Any]], end: str, way: str
) -> None:
    parser, chunks = merged(payloads, way, done=False)
    assert parser.end == end
    reasons = [one.finish_reason for each in chunks for one in each.choices if one.finish_reason]
    assert (parser.snapshot.finish_reason is None) is (end == "truncated")
    if end == "finished":
        assert parser.snapshot.finish_reason == reasons[-1]
        assert len(reasons) == 1


def test_halves_of_a_character_in_two_indexes_are_joined() -> None:
    parser, _ = merged([chunk(choice("\ud83d", index=1)), chunk(choice("\ude00", "stop", 2))])
    assert parser.snapshot.text == "😀"


def test_the_transform_sees_the_indexes_as_sent() -> None:
    payloads = [chunk(choice("Hi", "stop")), chunk(choice("!", None, 1))]
    parser = ChatCompletionParser(transforms=[OneChoice()], one_choice=True)
    for data in sse(*payloads, done=False):
        parser.feed(data)
    parser.close()
    assert (parser.end, parser.snapshot.text, noted(parser)) == ("truncated", "Hi!", {})


def test_other_transforms_see_choice_0() -> None:
    parser = ChatCompletionParser(transforms=[ThinkTags()], one_choice=True)
    parser.feed(b"".join(sse(chunk(choice("<thi", index=1)), chunk(choice("nk>a</think>b", "stop", 2)))))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("b", "a")
