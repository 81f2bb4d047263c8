"""Transforms: tags, repeated text and spread choices, undone only where somebody asks for it.

What is said of the whole text is told by a plain reading of it (`split_whole`), so that no cut can have a say.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import URL
from hypothesis import example, given
from hypothesis import strategies as st
from linear import assert_linear

import chunkfold
from chunkfold import (
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    CumulativeDeltas,
    OneChoice,
    TextPart,
    ThinkTags,
    Transform,
    connect,
    testing,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import HEAD, StreamBuilder, event, fragment, mock_transport, sse


def choice(content: Any = None, finish_reason: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    """A choice whose delta has this content, and what is passed by name."""
    return testing.choice(finish_reason, index, **fields, **({} if content is None else {"content": content}))


def chunk(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The payload of a chunk."""
    return {**HEAD, "choices": list(choices), **fields}


def read(
    chunks: Sequence[dict[str, Any]], *transforms: Transform, **options: Any
) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    """A parser at its end, and the chunks that it gave."""
    parser = ChatCompletionParser(transforms=transforms, **options)
    return parser, [chunk for data in sse(*chunks) for chunk in parser.feed(data)]


def contents(texts: Sequence[str], index: int = 0, finish_reason: str | None = "stop") -> list[dict[str, Any]]:
    """A chunk for each text; the finish reason comes with the last."""
    last = len(texts) - 1
    return [chunk(choice(text, finish_reason if at == last else None, index)) for at, text in enumerate(texts)]


def deltas(chunks: list[ChatCompletionChunk]) -> list[dict[str, Any]]:
    return [one.delta.model_dump(exclude_unset=True) for chunk in chunks for one in chunk.choices]


def noted(parser: ChatCompletionParser) -> dict[str, int]:
    return {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies}


def adds_up(parser: ChatCompletionParser, chunks: list[ChatCompletionChunk]) -> None:
    """What was handed out bit by bit is what there is at the end."""
    assert "".join(chunk.text for chunk in chunks) == parser.snapshot.text
    assert "".join(chunk.reasoning for chunk in chunks) == parser.snapshot.reasoning


def call(id_: str | None, name: str | None, arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**fields, "function": function} if id_ is None else {**fields, "id": id_, "function": function}


# Think tags


def split_whole(text: str, *, inside: bool = False, tags: tuple[str, str] = ("<think>", "</think>")) -> tuple[str, str]:
    """The text and the reasoning, read from the whole at once."""
    parts = {True: "", False: ""}
    for piece in re.split(f"({'|'.join(map(re.escape, tags))})", text):
        if piece in tags:
            inside = piece == tags[0]
        else:
            parts[inside] += piece
    return parts[False], parts[True]


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


# Tags, what looks like the beginning of one, and plain text.
TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</", "<thi", "nk>", "think>", "/", ">", "a", "é\n", "號 ", "😀"]),
    max_size=12,
).map("".join)
CUTS = st.lists(st.integers(0, 100), max_size=30)


@given(TEXTS, CUTS, st.booleans())
@example("<think>hm</think>a", list(range(18)), False)
@example("<think>a<</think", [8], False)
@example("<<think>a</</think>b", list(range(20)), True)
def test_what_think_tags_make_of_a_text_does_not_depend_on_the_cuts(text: str, cuts: list[int], inside: bool) -> None:
    parser, chunks = read(contents(cut(text, cuts)), ThinkTags(inside=inside))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == split_whole(text, inside=inside)
    assert parser.end == "finished"
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


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "a", "b"])),
        max_size=15,
    )
)
def test_each_choice_has_tags_of_its_own(pieces: list[tuple[int, str]]) -> None:
    parser, _ = read([chunk(choice(text, index=index)) for index, text in pieces], ThinkTags())
    for one in parser.snapshot.choices:
        whole = "".join(text for index, text in pieces if index == one.index)
        assert (one.message.content or "", one.message.reasoning or "") == split_whole(whole)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4))
def test_several_choices_in_each_chunk(pairs: list[tuple[str, str]]) -> None:
    last = len(pairs) - 1
    parser, _ = read(
        [
            chunk(choice(zero, "stop" if at == last else None), choice(one, "length" if at == last else None, 1))
            for at, (zero, one) in enumerate(pairs)
        ],
        ThinkTags(),
    )
    for one, reason in zip(parser.snapshot.choices, ("stop", "length"), strict=True):
        whole = "".join(pair[one.index] for pair in pairs)
        assert (one.message.content or "", one.message.reasoning or "") == split_whole(whole)
        assert one.finish_reason == reason


@each_case(
    ("texts", "inside", "text", "reasoning"),
    [
        pytest.param(["<think>hm</think>Hi"], False, "Hi", "hm", id="a block"),
        pytest.param(list("<think>hm</think>Hi"), False, "Hi", "hm", id="a character each"),
        pytest.param(["<thi", "nk>hm</", "think>Hi"], False, "Hi", "hm", id="tags over deltas"),
        pytest.param(["<think>a</think>b<think>c</think>d"], False, "bd", "ac", id="several blocks"),
        pytest.param(["a</think>b"], False, "ab", "", id="a closing tag without an opening one is dropped"),
        pytest.param(["a</thi", "nk>b"], True, "b", "a", id="the template opens the tag"),
        pytest.param(["<think>a</think>b"], True, "b", "a", id="the template opens it, and so does the model"),
        pytest.param(["<think>never closed"], False, "", "never closed", id="never closed"),
        pytest.param(["1 <thi", "s> 2"], False, "1 <this> 2", "", id="what only looks like a tag"),
        pytest.param(["a <think"], False, "a <think", "", id="and at the end"),
        pytest.param(["<think><think>a</think>b"], False, "b", "a", id="tags do not nest"),
        pytest.param(["<Think>a</Think>"], False, "<Think>a</Think>", "", id="tags have one spelling"),
    ],
)  # fmt: skip
def test_think_tags(texts: list[str], inside: bool, text: str, reasoning: str) -> None:
    parser, chunks = read(contents(texts), ThinkTags(inside=inside))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == (text, reasoning)
    adds_up(parser, chunks)
    assert noted(parser) == {}


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
    "beside half a character": (contents(["<think>\ud83d", "\ude00</think>\ud83d", "\ude00"]), "😀", "😀"),
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


@pytest.mark.parametrize("name", ["delta", "message"])
def test_think_tags_in_content_that_is_flagged_as_a_thought(name: str) -> None:
    """Its text is not reasoning in a field of its own, of which the tags would have a repetition."""
    thought = {"content": "<thought>hm", "extra_content": {"google": {"thought": True}}}
    payloads = [chunk({**choice(None), name: thought}), chunk(choice("</thought>Hi", "stop"))]
    parser, chunks = read(payloads, ThinkTags("<thought>", "</thought>"))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("Hi", "hm")
    adds_up(parser, chunks)


def test_think_tags_split_a_text_a_thousand_times() -> None:
    """Each part of it is a chunk, which takes far more memory than its text."""
    text = "<think>a</think>b" * 600 + "<think>c"
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
    """Was once wrong: thousands of choices in one event were thousands of chunks."""
    payload = chunk(*(choice(f"a<think>b{index}</think>c", "stop", index) for index in range(100)))
    parser, chunks = read([payload], ThinkTags())
    assert [len(one.choices) for one in chunks] == [100, 100, 100]
    assert {(one.message.reasoning, one.message.content) for one in parser.snapshot.choices} == {
        (f"b{index}", "ac") for index in range(100)
    }


def test_an_index_that_comes_twice_in_a_chunk_keeps_its_order() -> None:
    """Was once wrong: the rest of the first text came after the second text, and after the finish reason."""
    payload = chunk(choice("a<think>b"), choice("c</think>d", "stop"), choice("x", index=1))
    parser, chunks = read([payload], ThinkTags())
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("ad", "bc")
    assert "".join(one.text for one in chunks) == "ad"
    assert "CF505" not in noted(parser)


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
    """Was once wrong: text that only looked like a tag was moved after a tool call."""
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


class Returning:
    """A transform that returns what its author forgot to put into a list."""

    def __init__(self, feed: Callable[[ChatCompletionChunk], Any], close: Any = ()) -> None:
        self.feed = feed
        self._last = close

    def close(self) -> Any:
        return self._last


@pytest.mark.parametrize(
    ("feed", "received"),
    [
        (lambda _: None, "None"),
        (lambda chunk: chunk, r"ChatCompletionChunk\("),
        (lambda chunk: [chunk, None], r"\[ChatCompletionChunk\("),
        (lambda chunk: (chunk, {}), r"\(ChatCompletionChunk\("),
        (lambda _: "text", "'text'"),
    ],
)
def test_a_transform_that_returns_no_list_of_chunks_is_named(feed: Any, received: str) -> None:
    with pytest.raises(TypeError, match=rf"^Returning: expected a list of chunks, received {received}"):
        read(contents(["a"]), Returning(feed))
    with pytest.raises(TypeError, match=r"^Returning: expected a list of chunks, received None"):
        read(contents(["a"]), Returning(lambda chunk: [chunk], None))


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
    """Was once wrong: a tag in a search result hid the answer behind it."""
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
    for one in (chunk(choice(role="assistant")), chunk(choice(finish_reason="stop")), chunk(), chunk(choice(""))):
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


# Cumulative deltas


def grown(texts: list[str]) -> list[str]:
    """Each text with all that came before it."""
    return ["".join(texts[: at + 1]) for at in range(len(texts))]


@given(st.lists(st.text("ab号 ", max_size=4), min_size=1, max_size=8))
@example(["ha", "ha", "", "ha"])
def test_real_deltas_come_of_cumulative_ones(texts: list[str]) -> None:
    parser, chunks = read(contents(grown(texts)), CumulativeDeltas())
    assert parser.snapshot.text == "".join(texts)
    assert [one.text for one in chunks] == texts
    adds_up(parser, chunks)
    assert noted(parser) == {}


@pytest.mark.parametrize("name", ["content", "reasoning_content", "reasoning", "refusal"])
def test_every_text_is_a_channel_of_its_own(name: str) -> None:
    payloads = [
        chunk(choice(**{name: text, "content" if name != "content" else "refusal": text * 2}))
        for text in ("a", "ab", "abc")
    ]
    parser, _ = read(payloads, CumulativeDeltas())
    message = parser.snapshot.message
    view = "reasoning" if name.startswith("reasoning") else name
    assert getattr(message, view) == "abc"
    # "aa", "abab" and "abcabc" do not grow: they are real deltas.
    assert (message.refusal if name == "content" else message.content) == "aaabababcabc"


def test_arguments_may_be_cumulative_too() -> None:
    def calls(one: str, two: str) -> dict[str, Any]:
        return chunk(choice(tool_calls=[call("a", "f", one, index=0), call("b", "g", two, index=1)]))

    payloads = [
        calls("{", "{"),
        calls('{"x":', '{"x"'),
        calls('{"x":1}', '{"x":2}'),
        chunk(choice(finish_reason="tool_calls")),
    ]
    parser, _ = read(payloads, CumulativeDeltas())
    assert [one.arguments for one in parser.snapshot.tool_calls] == ['{"x":1}', '{"x":2}']


def test_choices_grow_apart() -> None:
    parser, _ = read([chunk(choice(text, index=index)) for text in ("a", "ab") for index in (0, 1)], CumulativeDeltas())
    assert [one.message.content for one in parser.snapshot.choices] == ["ab", "ab"]


@each_case(
    ("texts", "text"),
    [
        pytest.param(["He", "Hell", "Hello", "Hello"], "Hello", id="a last chunk that repeats the whole"),
        pytest.param(["ha", "ha", "ha!"], "ha!", id="real deltas lose text: why nobody gets it unasked"),
        pytest.param(["a", "b", "abc"], "abc", id="what does not grow is a delta: some send snapshots now and then"),
    ],
)
def test_what_cumulative_deltas_make_of_texts(texts: list[str], text: str) -> None:
    assert read(contents(texts), CumulativeDeltas())[0].snapshot.text == text


@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["no index", "one index"])
@pytest.mark.parametrize("ids", [["a", "b"], [None, None]], ids=["ids", "no ids"])
@pytest.mark.parametrize("arguments", ["{}", '{"n":1}'])
def test_calls_that_only_their_ids_or_names_tell_apart(
    index: dict[str, int], ids: list[str | None], arguments: str
) -> None:
    """Equal arguments of a second call are its own, and not what was sent before."""
    payloads = [
        chunk(choice(tool_calls=[call(id_, name, arguments, **index)])) for id_, name in zip(ids, "fg", strict=True)
    ]
    parser, _ = read(payloads, CumulativeDeltas())
    assert [(one.name, one.arguments) for one in parser.snapshot.tool_calls] == [("f", arguments), ("g", arguments)]
    assert not any(ids) or [one.id for one in parser.snapshot.tool_calls] == ids


# One choice

SPREAD = [
    chunk(choice("Let me ", role="assistant")),
    chunk(choice("look.", "stop")),
    chunk(choice(index=1, tool_calls=[call("a", "f", '{"q"', index=0)])),
    chunk(choice(None, "tool_calls", 1, tool_calls=[call(None, None, ":1}", index=0)])),
]


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
    """Was once wrong: an answer that was cut counted as finished."""
    parser = ChatCompletionParser(transforms=[OneChoice()])
    found = choice("[1]", "stop", role="tool")
    parser.feed(b"".join(sse(chunk(choice("Hi")), chunk(found), chunk(choice("!")), done=False)))
    parser.close()
    assert (parser.end, parser.snapshot.text) == ("truncated", "Hi!")


def test_the_word_null_is_noted_through_one_choice() -> None:
    payloads = [chunk(choice("Hi", "stop")), chunk(choice("", "null", 1))]
    assert noted(read(payloads, OneChoice())[0]) == {"CF203": 1}
    assert read(payloads, OneChoice(), strict=True)[0].end == "invalid"


def test_several_choices_stay_apart_unless_asked() -> None:
    parser, _ = read(SPREAD)
    assert [one.message.content for one in parser.completion().choices] == ["Let me look.", None]


# Together


@given(TEXTS.filter(bool), CUTS)
def test_cumulative_deltas_with_tags(text: str, cuts: list[int]) -> None:
    parser, chunks = read(contents(grown(cut(text, cuts))), CumulativeDeltas(), ThinkTags())
    assert (parser.snapshot.text, parser.snapshot.reasoning) == split_whole(text)
    adds_up(parser, chunks)


def test_they_are_applied_in_the_order_given() -> None:
    payloads = contents(["<think>a", "<think>a</think>b"])
    parser, _ = read(payloads, ThinkTags(), CumulativeDeltas())
    # The tags are gone before anything is compared; the reasoning grows, and then the text begins.
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("b", "a")
    texts: list[str] = []

    class Tap:
        """What a transform of one's own needs."""

        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            texts.append(chunk.text)
            return [chunk]

        def close(self) -> list[ChatCompletionChunk]:
            return []

    read(payloads, Tap(), CumulativeDeltas(), Tap())
    assert texts == ["<think>a", "<think>a", "<think>a</think>b", "</think>b"]


def test_what_one_held_back_goes_through_those_behind_it() -> None:
    class Twice:
        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            return [chunk, chunk]

        def close(self) -> list[ChatCompletionChunk]:
            return []

    parser, _ = read(contents(["a <thi"], finish_reason=None), ThinkTags(), Twice())
    assert parser.snapshot.text == "a a <thi<thi"


def test_the_output_that_one_makes_is_limited_chunk_by_chunk() -> None:
    class Louder:
        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            chunk.choices[0].delta.content = chunk.text * 10_000
            return [chunk]

        def close(self) -> list[ChatCompletionChunk]:
            return []

    parser, _ = read(contents(["hello"] * 10), Louder(), max_output_size=100_000)
    assert isinstance(parser.error, chunkfold.LimitExceededError)
    assert len(parser.snapshot.text) == 150_000  # the chunk that exceeds it is still returned


CUT_AND_WHOLE = [
    (ThinkTags(), ["a<think>b"], ["c"], ("c", "")),
    (ThinkTags(inside=True), ["b</think>a"], ["c"], ("", "c")),
    (ThinkTags(), ["a<thi"], ["nk>c"], ("nk>c", "")),
    (CumulativeDeltas(), ["a", "ab"], ["ab", "abc"], ("abc", "")),
    (OneChoice(), ["a"], ["b"], ("b", "")),
]


@each_case(("transform", "first", "second", "expected"), CUT_AND_WHOLE)
@each_case("ending", [b"data: [DONE]\n\n", b"data: broken\n\n", b""])
def test_a_transform_forgets_a_stream_that_has_ended(
    transform: Transform, first: list[str], second: list[str], expected: tuple[str, str], ending: bytes
) -> None:
    """Options are shared easily. Nothing of one answer may turn up in the next, least of all its finish reason."""
    parser = ChatCompletionParser(transforms=[transform])
    parser.feed(b"".join(sse(*contents(first))[:-1]) + ending)
    parser.leave()
    parser, _ = read(contents(second, finish_reason=None), transform)
    parser.close()
    assert (parser.snapshot.text, parser.snapshot.reasoning, parser.snapshot.finish_reason) == (*expected, None)


class Failing:
    """A transform that raises as the stream ends."""

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        return [chunk]

    def close(self) -> list[ChatCompletionChunk]:
        raise KeyError("mine")


@each_case(
    ("body", "way_out", "end"),
    [
        (b"", "close", "truncated"),
        (b"", "leave", "closed"),
        (b"", "interrupt", "interrupted"),
        (b"", "stall", "stalled"),
        (b"data: [DONE]\n\n", "feed", "closed"),  # what it held back is lost
        (b"data: no JSON\n\n", "feed", "invalid"),
        (b"data: [DONE]", "close", "closed"),
    ],
)
def test_a_stream_has_ended_although_a_transform_raised_then(body: bytes, way_out: str, end: str) -> None:
    ended: list[str | None] = []
    parser = ChatCompletionParser(transforms=[Failing()], total_timeout=5, started=0, clock=lambda: 0.0)
    parser.observe(on_end=lambda one: ended.append(one.end))
    ways_out: dict[str, Callable[[], Any]] = {
        "close": parser.close,
        "leave": parser.leave,
        "interrupt": lambda: parser.interrupt(ConnectionError("gone")),
        "stall": lambda: parser.feed(b": ping\n\n", arrived=6.0),
        "feed": lambda: parser.feed(body),
    }
    parser.feed(sse(*contents(["a"], finish_reason=None))[0])
    if way_out != "feed":
        parser.feed(body)
    with pytest.raises(KeyError, match="mine"):
        ways_out[way_out]()
    assert (parser.end, parser.snapshot.text, ended) == (end, "a", [end])
    assert (parser.error is None) is (end == "closed")
    parser.close()
    assert ended == [end]


@each_case("more", [0, 20_000])
def test_what_was_held_back_at_a_deadline_counts_for_a_callback_however_large_the_read_is(more: int) -> None:
    parser = ChatCompletionParser(
        transforms=[ThinkTags()], total_timeout=1, clock=lambda: 0.0, on_server_sent_event=lambda event, chunks: None
    )
    held_back = sse(*contents(["<th"], finish_reason=None))[0]
    parser.fold(held_back + b": keep-alive\n" * (more // 10), arrived=5.0)
    assert (parser.end, parser.emitted_output) == ("stalled", True)


def test_one_choice_and_cumulative_deltas() -> None:
    payloads = [chunk(choice("a")), chunk(choice("ab", "stop")), chunk(choice("abc", "stop", 1))]
    parser, _ = read(payloads, OneChoice(), CumulativeDeltas())
    assert parser.snapshot.text == "abc"


def test_one_choice_with_tags() -> None:
    payload = chunk(choice("<think>a</think>b", "stop"), choice(index=1, tool_calls=[call("a", "f", "{}", index=0)]))
    parser, _ = read([payload], OneChoice(), ThinkTags())
    assert parser.snapshot.finish_reason == "stop"


# Off by default, and over the wire


@pytest.mark.parametrize("texts", [["<think>a</think>b"], ["a", "ab", "abc"]], ids=["tags", "cumulative"])
def test_off_by_default(texts: list[str]) -> None:
    parser, _ = read(contents(texts))
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("".join(texts), "")


MAKERS: list[Callable[[], Transform]] = [ThinkTags, CumulativeDeltas, OneChoice]


@pytest.mark.parametrize("make", MAKERS)
def test_a_stream_without_the_habit_passes_as_it_came(make: Callable[[], Transform]) -> None:
    """The text grows by pieces that do not begin with all that came before, has no tags, and is of one choice."""
    calls = [{"index": 0, **call("a", "f", "{}")}]
    payloads = [
        chunk(choice("Hello", role="assistant")),
        chunk(choice(", you", reasoning_content="hm")),
        chunk(choice(tool_calls=calls)),
        chunk(choice(finish_reason="tool_calls"), usage={"total_tokens": 3}),
    ]
    parser, chunks = read(payloads, make())
    if make is not OneChoice:  # there the finish reason comes at the end
        assert [one.model_dump(exclude_unset=True) for one in chunks] == payloads
    assert parser.completion() == read(payloads)[0].completion()


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_tolerated_is_noted_all_the_same(make: Callable[[], Transform]) -> None:
    no_delta = chunk({"index": 0, "finish_reason": "stop"})
    no_choices = {name: value for name, value in chunk().items() if name != "choices"}
    payloads = [chunk({"delta": {"content": "a"}, "finish_reason": None}), no_delta, no_choices]
    assert noted(read(payloads, make())[0]) == noted(read(payloads)[0]) == {"CF201": 1, "CF202": 1, "CF210": 1}


def test_through_a_stream() -> None:
    stream = ChatCompletionStream(sse(*contents(["<think>a</th", "ink>b"])), transforms=[ThinkTags()])
    assert "".join(stream.text_deltas()) == "b"
    assert stream.completion().reasoning == "a"


def test_through_a_connection() -> None:
    with (
        httpx.Client(transport=mock_transport(StreamBuilder().text("<think>a</th", "ink>b").finish().done())) as client,
        connect(client, "POST", URL, json={}, transforms=[ThinkTags()]) as stream,
    ):
        completion = stream.read()
    assert (completion.text, completion.reasoning) == ("b", "a")


@pytest.mark.parametrize("tags", [("", "x"), ("x", ""), ("ab", "xabx"), ("<", "<"), ("<<", "<")])
def test_tags_that_cannot_be_told_apart_are_a_wrong_argument(tags: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="expected two tags"):
        ThinkTags(*tags)


# Cumulative deltas: which text it is that grows


def test_texts_in_lists_may_be_cumulative_too() -> None:
    def parts(*texts: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": text} for text in texts]

    def details(*texts: str) -> list[dict[str, Any]]:
        return [{"type": "reasoning.text", "index": index, "text": text} for index, text in enumerate(texts)]

    payloads = [
        chunk(choice(parts("a"), reasoning_details=details("x"))),
        chunk(choice(parts("a", "bc"), reasoning_details=details("xy", "p"))),
        chunk(choice(parts("a", "bcd", "e"), reasoning_details=details("xy", "pq"))),
    ]
    parser, chunks = read(payloads, CumulativeDeltas())
    assert [one.text for one in chunks] == ["a", "bc", "de"]
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("abcde", "xypq")
    assert [one["text"] for one in parser.snapshot.message.reasoning_details] == ["xy", "pq"]


def test_blocks_of_anthropic_in_details_may_be_cumulative_too() -> None:
    payloads = [chunk(choice("", reasoning_details=[{"type": "thinking", "thinking": text}])) for text in ("a", "ab")]
    parser, chunks = read(payloads, CumulativeDeltas())
    assert [one.reasoning for one in chunks] == ["a", "b"]
    assert parser.snapshot.reasoning == "ab"


@pytest.mark.slow
def test_real_deltas_cost_no_joining() -> None:
    """Ten times as many chunks that do not grow cost ten times as much."""
    one = ChatCompletionChunk.model_validate(chunk(choice("ab")))

    def take(count: int) -> Callable[[], object]:
        def run() -> None:
            transform = CumulativeDeltas()
            for _ in range(count):
                transform.feed(one)

        return run

    assert_linear(take, 1_000)


# Think tags: what is held back, and what it costs


@pytest.mark.parametrize("texts", [["a <th"], ["a ", "<th"], ["a <", "th"], ["a <th", None]])
def test_nothing_is_held_past_the_finish_reason(texts: list[str | None]) -> None:
    transform = ThinkTags()
    last = len(texts) - 1
    given = [chunk(choice(text, "stop" if at == last else None)) for at, text in enumerate(texts)]
    chunks = [new for one in given for new in transform.feed(ChatCompletionChunk.model_validate(one))]
    assert "".join(one.text for one in chunks) == "a <th"
    assert transform.close() == []


@pytest.mark.parametrize("more", [{}, {"message": {"role": "assistant", "content": "a <th"}}], ids=["bare", "message"])
def test_what_is_held_back_is_not_lost_where_the_last_choice_has_no_delta(more: dict[str, Any]) -> None:
    """Was once wrong: MiniMax ends with a whole message instead of a delta, and the end of the text was not folded."""
    parser, chunks = read([chunk(choice("a <th")), chunk({"index": 0, "finish_reason": "stop", **more})], ThinkTags())
    assert ("".join(one.text for one in chunks), parser.snapshot.text) == ("a <th", "a <th")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["</think>", "<think></think>", "<think>a</think>b"])
def test_many_tags_in_one_delta(text: str) -> None:
    def take(count: int) -> Callable[[], object]:
        one = ChatCompletionChunk.model_validate(chunk(choice(text * count)))
        return lambda: ThinkTags().feed(one)

    assert_linear(take, 2_000)


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


def test_a_tool_message_in_another_index_is_not_another_answer() -> None:
    """Was once wrong: the choices stayed apart, so that the one of the tool never finished."""
    found = {"role": "tool", "tool_call_id": "call_a", "content": "[1]"}
    parser, _ = merged([chunk(choice("Hi"), choice(index=1, **found)), chunk(choice(None, "stop"))])
    [answer] = parser.completion().model_dump()["choices"]
    assert (answer["message"]["content"], answer["tool_messages"]) == ("Hi", [found])


@pytest.mark.parametrize(
    ("payloads", "end"),
    [
        pytest.param([chunk(choice("Hi", "stop")), chunk(choice(None, None, 1))], "finished", id="nothing goes on"),
        pytest.param([chunk(choice("Hi", "stop")), chunk(choice("!", None, 1))], "truncated", id="another goes on"),
        pytest.param([chunk(choice("Hi", "stop", 1)), chunk(choice("!", None, 1))], "finished", id="it goes on itself"),
        pytest.param([chunk(choice("Hi", "stop"), choice(None, "length", 1))], "finished", id="both finish"),
        pytest.param([chunk(choice("Hi", "stop", 1)), chunk(choice("!"))], "truncated", id="choice 0 goes on"),
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


def test_the_option_takes_a_finish_back_where_another_choice_of_the_chunk_goes_on() -> None:
    parser, _ = merged(
        [chunk(choice("Hi", "stop"), choice(None, None, 1, tool_calls=[call("a", "f", "{")]))], done=False
    )
    assert (parser.end, parser.snapshot.finish_reason) == ("truncated", None)


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


def test_two_reasonings_in_one_chunk_stay_apart() -> None:
    payload = chunk(*({"index": index, "delta": {"reasoning_content": text}} for index, text in enumerate("AB")))
    parser, _ = read([payload, payload], one_choice=True)
    assert [one.message.reasoning for one in parser.snapshot.choices] == ["AA", "BB"]


def test_two_whole_messages_in_one_chunk_stay_apart() -> None:
    both = [{"index": index, "message": {"content": text}, "finish_reason": "stop"} for index, text in enumerate("AB")]
    parser, _ = read([chunk(*both)], one_choice=True)
    assert [one.message.content for one in parser.snapshot.choices] == ["A", "B"]


SPELLINGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "reasoning_text": lambda text: {"reasoning_text": text},
    "cot_summary": lambda text: {"cot_summary": text},
    "thinking_blocks": lambda text: {"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": ""}]},
    "thinking": lambda text: {"thinking": {"content": text}},
    "content_blocks": lambda text: {"content_blocks": [{"index": 0, "delta": {"thinking": text}}]},
    "tensorzero_extra_content": lambda text: {
        "tensorzero_extra_content": [{"type": "thought", "id": "0", "text": text}]
    },
    "summary": lambda text: {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}]},
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_of_reasoning_is_a_channel(spelled: Callable[[str], dict[str, Any]]) -> None:
    def of(*texts: str) -> list[dict[str, Any]]:
        return [chunk({"index": 0, "delta": spelled(text)}) for text in texts]

    parser, chunks = read(of("a\ud83d", "\ude00b", "c\ud83d"))
    chunks += parser.close()
    adds_up(parser, chunks)
    assert parser.snapshot.reasoning == "a😀bc\ufffd"
    cumulative, _ = read(of("a", "ab", "abc"), CumulativeDeltas())
    assert cumulative.snapshot.reasoning == "abc"


def test_halves_in_thinking_do_not_hide_that_its_signature_comes_with_a_repeat() -> None:
    blocks = [("a\ud83d", ""), ("\ude00b", ""), ("a😀b", "SIG")]
    thinking = [{"type": "thinking", "thinking": text, "signature": signature} for text, signature in blocks]
    parser, _ = read([chunk({"index": 0, "delta": {"thinking_blocks": [one]}}) for one in thinking])
    assert parser.snapshot.message.to_param()["thinking_blocks"] == [
        {"type": "thinking", "thinking": "a😀b", "signature": "SIG"}
    ]
