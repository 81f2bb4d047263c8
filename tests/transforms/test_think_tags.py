"""Think tags: text between them is reasoning, however the text is cut.

What is said of the whole text is told by a plain reading of it (`split_whole`), so that no cut can have a say.
"""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given
from hypothesis import strategies as st
from linear import assert_linear
from parsed_bodies import noted
from transformed import CUTS, TEXTS, adds_up, call, choice, chunk, contents, cut, read, split_whole

from chunkfold import (
    ChatCompletionChunk,
    ChatCompletionParser,
    CumulativeDeltas,
    OneChoice,
    TextPart,
    ThinkTags,
    Transform,
)
from chunkfold.testing import HEAD, event, fragment


@given(TEXTS, CUTS, st.booleans())
@example("<think>hm</think>a", list(range(18)), False)
@example("<think>a<</think", [8], False)
@example("<<think>a</</think>b", list(range(20)), True)
@example("<think>a</think>b<think>c</think>d", [], False)
@example("a</think>b", [], False)  # a closing tag without an opening one is dropped
@example("<think>a</think>b", [], True)  # the template opens it, and so does the model
@example("1 <this> 2 <think", [6], False)  # what only looks like a tag
@example("<think><think>a</think>b", [], False)  # tags do not nest
@example("<Think>a</Think>", [], False)  # and have one spelling
def test_what_think_tags_make_of_a_text_does_not_depend_on_the_cuts(text: str, cuts: list[int], inside: bool) -> None:
    parser, chunks = read(contents(cut(text, cuts)), ThinkTags(inside=inside))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == split_whole(text, inside=inside)
    assert (parser.end, noted(parser)) == ("finished", {})
    adds_up(parser, chunks)


@given(TEXTS, CUTS, st.sampled_from(["end", "cut", "error", "leave"]))
def test_nothing_that_is_held_back_is_lost_however_the_stream_ends(text: str, cuts: list[int], how: str) -> None:
    parser = ChatCompletionParser(transforms=[ThinkTags()])
    chunks = [new for one in contents(cut(text, cuts), finish_reason=None) for new in parser.feed(event(one))]
    if how == "end":
        chunks += parser.close()
    elif how == "cut":
        chunks += parser.interrupt(OSError("reset"))
    elif how == "error":
        chunks += parser.feed(event({"error": {"message": "boom"}}))
    else:
        parser.leave()  # nobody takes chunks any more
    assert (parser.snapshot.text, parser.snapshot.reasoning) == split_whole(text)
    if how != "leave":
        adds_up(parser, chunks)


PIECES = st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "a", "b"]) | TEXTS
REASONS = ("stop", "length", "content_filter")


@given(st.lists(st.dictionaries(st.integers(0, 2), PIECES, min_size=1), min_size=1, max_size=8))
def test_each_choice_has_tags_of_its_own(several: list[dict[int, str]]) -> None:
    *first, last = several
    payloads = [chunk(*(choice(text, index=index) for index, text in texts.items())) for texts in first]
    payloads += [chunk(*(choice(text, REASONS[index], index) for index, text in last.items()))]
    parser, _ = read(payloads, ThinkTags())
    for one in parser.snapshot.choices:
        whole = "".join(texts.get(one.index, "") for texts in several)
        assert (one.message.content or "", one.message.reasoning or "") == split_whole(whole)
        assert one.finish_reason == (REASONS[one.index] if one.index in last else None)


TAGGED: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    # Was once wrong: of a spelling that the transform did not know, the reasoning in the tags took the place.
    **{f"beside {name}": ([chunk(choice("<think>B</think>C", "stop", **{name: "A"}))], "C", "AB")
       for name in ("reasoning_content", "reasoning", "reasoning_text", "cot_summary")},
    "beside thinking_blocks":
        ([chunk(choice("<think>B</think>C", "stop", thinking_blocks=[{"type": "thinking", "thinking": "A"}]))], "C", "AB"),
    "the same text in a field, too":
        ([chunk(choice("<think>\nThe", reasoning_content="The")), chunk(choice(" u <", reasoning_content=" u <")),
          chunk(choice(" b</thi", reasoning_content=" b")), chunk(choice("nk>Hi")), chunk(choice(" <", "stop"))],
         "Hi <", "The u < b"),
    "the same text in blocks, and a new one":
        ([chunk(choice("<think>A</think>C<think>B", "stop", thinking_blocks=[{"type": "thinking", "thinking": "A"}]))],
         "C", "AB"),
    "the same texts in a field, in their order":
        ([chunk(choice("<think>A</think>C<think>B</think>", "stop", reasoning_content="AB"))], "C", "AB"),
    "one that is not in the field, so that the next is not searched for":
        ([chunk(choice("<think>X</think>C<think>B</think>", "stop", reasoning_content="AB"))], "C", "ABXB"),
    "over deltas, beside reasoning":
        ([chunk(choice("<thi", reasoning_content="x")), chunk(choice("nk>hm</think>Hi"))], "Hi", "xhm"),
    "not in a list of parts: whoever sends parts says what is thinking and what is not":
        ([chunk(choice([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "</think>"}]))], "</think>", "hm"),
    "what only begins like a tag, before a list of parts":
        ([chunk(choice("a <")), chunk(choice([{"type": "text", "text": "b"}], "stop"))], "a <b", ""),
    # Was once wrong: MiniMax ends with a whole message instead of a delta, and the end of the text was not folded.
    **{f"before a choice without a delta, but {[*more]}":
       ([chunk(choice("a <th")), chunk({"index": 0, "finish_reason": "stop", **more})], "a <th", "")
       for more in ({}, {"message": {"role": "assistant", "content": "a <th"}})},
    "beside half a character": (contents(["<think>\ud83d", "\ude00</think>\ud83d", "\ude00"]), "😀", "😀"),
    # Was once wrong: the rest of the first text came after the second text, and after the finish reason.
    "an index that comes twice in a chunk":
        ([chunk(choice("a<think>b"), choice("c</think>d", "stop"), choice("x", index=1))], "ad", "bc"),
    **{f"beside a wrong {name}": ([chunk(choice("<think>a</think>b", "stop"), **{name: value})], "b", "a")
       for name, value in (("created", "now"), ("id", 7), ("model", {}))},
    **{f"over deltas, beside the finish reason {word!r}":
       ([chunk(choice(text, word)) for text in ("<thi", "nk>a</thi", "nk>b")], "b", "a")
       for word in ("", "null", "None", "thinking_end")},
}  # fmt: skip


@each_case(("payloads", "text", "reasoning"), TAGGED.values(), ids=TAGGED)
def test_think_tags_beside_other_fields(payloads: list[dict[str, Any]], text: str, reasoning: str) -> None:
    parser, chunks = read(payloads, ThinkTags())
    chunks += parser.close()
    assert (parser.snapshot.text, parser.snapshot.reasoning) == (text, reasoning)
    adds_up(parser, chunks)
    assert "CF505" not in noted(parser)


@pytest.mark.parametrize("name", ["delta", "message"])
def test_think_tags_in_content_that_is_flagged_as_a_thought(name: str) -> None:
    """Its text is not reasoning in a field of its own, of which the tags would have a repetition."""
    thought = {"content": "<thought>hm", "extra_content": {"google": {"thought": True}}}
    payloads = [chunk({**choice(None), name: thought}), chunk(choice("</thought>Hi", "stop"))]
    parser, chunks = read(payloads, ThinkTags("<thought>", "</thought>"))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("Hi", "hm")
    adds_up(parser, chunks)


@pytest.mark.parametrize("end", ["c", ""], ids=["a text", "a tag"])
def test_think_tags_split_a_text_a_thousand_times(end: str) -> None:
    """Each part of it is a chunk, which takes far more memory than its text; later tags are text."""
    text = "<think>a</think>b" * 600 + "<think>" + end
    parser, chunks = read([chunk(choice(text)), chunk(choice("d</think>e"))], ThinkTags())
    assert len(chunks) == 1000 + 2
    assert (parser.snapshot.reasoning, parser.snapshot.text) == ("a" * 500 + "d", "b" * 500 + text[8500:] + "e")


def test_think_tags_split_the_choices_of_an_event_a_thousand_times_in_all() -> None:
    """Each choice may have two tags beside those, and so may each later choice."""
    text = "<think>a</think>b" * 300
    parser, chunks = read([chunk(*(choice(text, index=index) for index in range(10)))], ThinkTags())
    assert len(chunks) < 1000 + 3 * 10
    last = parser.snapshot.choices[-1].message
    assert (last.reasoning, last.content) == ("a", "b" + text[17:])
    parser, chunks = read([chunk(choice(text)) for _ in range(10)], ThinkTags())
    assert len(chunks) < 1000 + 3 * 10
    parser, _ = read([chunk(choice("<think>a</think>b")) for _ in range(1000)], ThinkTags())
    assert (parser.snapshot.reasoning, parser.snapshot.text) == ("a" * 1000, "b" * 1000)


def test_choices_of_one_chunk_are_split_together() -> None:
    payload = chunk(*(choice(f"a<think>b{index}</think>c", "stop", index) for index in range(100)))
    parser, chunks = read([payload], ThinkTags())
    assert [len(one.choices) for one in chunks] == [100, 100, 100]
    assert {(one.message.reasoning, one.message.content) for one in parser.snapshot.choices} == {
        (f"b{index}", "ac") for index in range(100)
    }


OTHER_OUTPUT = [
    {"tool_calls": [fragment(0, "call_a", "f", "{}")]},
    {"function_call": {"name": "f", "arguments": "{}"}},
    {"refusal": "no"},
    {"images": [{"image_url": {"url": "u"}}]},
    {"audio": {"data": "YQ=="}},
    {"tool_calls": [fragment(0, "call_a", "f", "{}")], "reasoning_content": None, "content": ""},
]


@each_case("other", OTHER_OUTPUT)
def test_what_think_tags_hold_back_comes_before_other_output(other: dict[str, Any]) -> None:
    parser, chunks = read([chunk(choice("a <thi")), chunk(choice(**other))], ThinkTags())
    assert parser.snapshot.message.parts[0] == TextPart("a <thi")
    assert [one.text for one in chunks if one.text] == ["a ", "<thi"]


def test_text_beside_a_call_is_not_held_back() -> None:
    parser, _ = read([chunk(choice("a <thi", tool_calls=[fragment(0, "call_a", "f", "{}")]))], ThinkTags())
    first, second = parser.snapshot.message.parts
    assert (first, second.type) == (TextPart("a <thi"), "tool_call")


def test_what_think_tags_hold_back_of_a_thought_comes_before_reasoning() -> None:
    parser, _ = read([chunk(choice("think <")), chunk(choice(reasoning_content="NEW"))], ThinkTags(inside=True))
    assert parser.snapshot.reasoning == "think <NEW"


@pytest.mark.parametrize(
    ("texts", "transform", "reasoning"),
    [
        pytest.param(["<think>Hm", "</think>Hi"], ThinkTags(), "Hm", id="inside the tags"),
        pytest.param(["<think>Hm</thi", "nk>Hi"], ThinkTags(), "Hm", id="within a tag"),
        pytest.param(["Hm</think>", "Hi"], ThinkTags(inside=True), "Hm", id="behind the tags"),
        pytest.param(["H", "Hi"], CumulativeDeltas(), "", id="cumulative"),
        pytest.param(["\ud83d", "\ude00"], None, "", id="half a character"),
    ],
)
def test_a_tool_message_is_not_part_of_the_text_around_it(
    texts: list[str], transform: Transform | None, reasoning: str
) -> None:
    first, last = texts
    found = {"role": "tool", "tool_call_id": "call_a", "content": "a <think> tag"}
    payloads = [chunk(choice(first)), chunk(choice(**found)), chunk(choice(last, "stop"))]
    parser, _ = read(payloads, *filter(None, [transform]))
    [answer] = parser.snapshot.model_dump()["choices"]
    text = "😀" if transform is None else "Hi"
    assert (parser.snapshot.text, parser.snapshot.reasoning, answer["tool_messages"]) == (text, reasoning, [found])


@pytest.mark.parametrize(
    ("text", "message", "inside", "expected"),
    [
        pytest.param("<think>Hm", {"content": "<think>Hm"}, False, ("", "Hm"), id="cut in the reasoning"),
        pytest.param(
            "<think>Hm</think>Hi", {"content": "<think>Hm</think>Hi"}, False, ("Hi", "Hm"), id="a whole answer"
        ),
        pytest.param("Hm</think>", {"content": "Hm</think>"}, True, ("", "Hm"), id="inside"),
        pytest.param(None, {"content": "a<think>b</think>c<think>d"}, False, ("ac", "bd"), id="no deltas"),
        pytest.param(None, {"content": "<think>b</think>c", "reasoning": "a"}, False, ("c", "ab"), id="a field, too"),
        pytest.param(
            *(None, {"content": "<think>\na\n</think>c", "reasoning": "a"}, False, ("c", "a")), id="the same in a field"
        ),
        pytest.param(None, {"content": [{"type": "text", "text": "<think>"}]}, False, ("<think>", ""), id="a list"),
        pytest.param(None, {"content": "a"}, False, ("a", ""), id="no tags"),
    ],
)
def test_a_whole_message_is_split_like_the_deltas(
    text: str | None, message: dict[str, Any], inside: bool, expected: tuple[str, str]
) -> None:
    """Was once wrong: MiniMax repeats the whole message in its last chunk, and what had no text got one with tags."""
    payloads = [chunk(choice(text)), chunk({**choice(None, "length"), "message": message})]
    parser, chunks = read(payloads, ThinkTags(inside=inside))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == expected
    adds_up(parser, chunks)


def test_a_whole_message_of_a_tool_is_not_split() -> None:
    found = {"role": "tool", "content": "a <think> tag"}
    parser, _ = read([chunk(choice("Hi")), chunk({**choice(None, "stop"), "message": found})], ThinkTags())
    [answer] = parser.snapshot.model_dump()["choices"]
    assert (parser.snapshot.text, answer["tool_messages"]) == ("Hi", [found])


def test_other_tags() -> None:
    parser, _ = read(contents(["[reas", "on]hm[/reason]", "Hi <think>"]), ThinkTags("[reason]", "[/reason]"))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("Hi <think>", "hm")


def test_text_is_held_back_only_while_it_may_be_a_tag() -> None:
    transform = ThinkTags()
    shown = [
        [new.text + new.reasoning for new in transform.feed(ChatCompletionChunk.model_validate(one))]
        for one in contents(["a <", "th", "e b", "<think>", "c"])
    ]
    assert shown == [["a "], [""], ["<the b"], [""], ["c"]]


def test_the_finish_reason_stays_with_the_last_part() -> None:
    _, chunks = read(contents(["<think>a</think>b"]), ThinkTags())
    assert [(one.reasoning, one.text, one.choices[0].finish_reason) for one in chunks] == [
        ("a", "", None),
        ("", "b", "stop"),
    ]


def deltas(chunks: list[ChatCompletionChunk]) -> list[dict[str, Any]]:
    return [one.delta.model_dump(exclude_unset=True) for chunk in chunks for one in chunk.choices]


def test_the_first_part_keeps_all_else() -> None:
    calls = [{"index": 0, **call("a", "f", "{}")}]
    payload = chunk(
        {**choice("<think>a</think>b<think>c", role="assistant", tool_calls=calls, x=1), "logprobs": {"content": [{"token": "b", "logprob": -1}]}, "y": 2},
        usage={"total_tokens": 9},
        z=3,
    )  # fmt: skip
    parser, chunks = read([payload], ThinkTags())
    assert deltas(chunks) == [
        {"role": "assistant", "tool_calls": calls, "x": 1, "reasoning_content": "a"},
        {"content": "b"},
        {"reasoning_content": "c"},
    ]
    first, *more = chunks
    assert (first.usage.total_tokens, first.model_extra, first.choices[0].model_extra) == (9, {"z": 3}, {"y": 2})
    assert [(one.usage, one.model_extra, one.choices[0].logprobs) for one in more] == [(None, {}, None)] * 2
    assert {(one.id, one.object, one.created, one.model) for one in chunks} == {tuple(HEAD.values())}
    snapshot = parser.snapshot
    assert (snapshot.model_extra, snapshot.choices[0].model_extra, snapshot.message.model_extra) == (
        {"z": 3},
        {"y": 2},
        {"x": 1},
    )
    assert [one.arguments for one in snapshot.tool_calls] == ["{}"]
    assert len(snapshot.choices[0].logprobs.content) == 1


def test_what_has_no_text_passes_unchanged() -> None:
    transform = ThinkTags()
    choices = (
        choice(role="assistant"),
        choice(finish_reason="stop"),
        choice(""),
        choice([{"type": "text", "text": "a"}]),
    )
    for one in (*map(chunk, choices), chunk()):
        given = ChatCompletionChunk.model_validate(one)
        assert transform.feed(given) == [given]
    assert transform.close() == []


def test_a_chunk_is_replaced_and_never_changed() -> None:
    for transform in (ThinkTags(), CumulativeDeltas(), OneChoice()):
        given = ChatCompletionChunk.model_validate(
            chunk(choice("<think>a</think>b", "stop", 1, tool_calls=[call("a", "f", "{}")]))
        )
        before = given.model_copy(deep=True)
        transform.feed(given)
        transform.feed(given)
        assert given == before


@pytest.mark.parametrize("tags", [("", "x"), ("x", ""), ("ab", "xabx"), ("<", "<"), ("<<", "<")], ids=repr)
def test_tags_that_cannot_be_told_apart_are_a_wrong_argument(tags: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="expected two tags"):
        ThinkTags(*tags)


# What is held back, and what it costs


@pytest.mark.parametrize("texts", [["a <th"], ["a ", "<th"], ["a <", "th"], ["a <th", None]], ids=repr)
def test_nothing_is_held_past_the_finish_reason(texts: list[str | None]) -> None:
    transform = ThinkTags()
    last = len(texts) - 1
    given = [chunk(choice(text, "stop" if at == last else None)) for at, text in enumerate(texts)]
    chunks = [new for one in given for new in transform.feed(ChatCompletionChunk.model_validate(one))]
    assert "".join(one.text for one in chunks) == "a <th"
    assert transform.close() == []


@pytest.mark.slow
@pytest.mark.parametrize("text", ["</think>", "<think></think>", "<think>a</think>b"])
def test_many_tags_in_one_delta(text: str) -> None:
    def take(count: int) -> Callable[[], object]:
        one = ChatCompletionChunk.model_validate(chunk(choice(text * count)))
        return lambda: ThinkTags().feed(one)

    assert_linear(take, 2_000)
