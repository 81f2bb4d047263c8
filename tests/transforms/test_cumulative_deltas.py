"""Cumulative deltas: of texts that come again and again, each longer than before, what is new."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given
from hypothesis import strategies as st
from linear import assert_linear
from parsed_bodies import noted
from transformed import adds_up, call, choice, chunk, contents, grown, read

from chunkfold import ChatCompletionChunk, CumulativeDeltas


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


# Which text it is that grows


@each_case("is_bare", [False, True])
def test_texts_in_lists_may_be_cumulative_too(is_bare: bool) -> None:
    def parts(*texts: str) -> list[Any]:
        return [text if is_bare and text != "bcd" else {"type": "text", "text": text} for text in texts]

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


SPELLINGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "reasoning_text": lambda text: {"reasoning_text": text},
    "cot_summary": lambda text: {"cot_summary": text},
    "thinking_blocks": lambda text: {"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": ""}]},
    "thinking in details": lambda text: {"reasoning_details": [{"type": "thinking", "thinking": text}]},
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
    cumulative, chunks = read(of("a", "ab", "abc"), CumulativeDeltas())
    assert cumulative.snapshot.reasoning == "".join(one.reasoning for one in chunks) == "abc"


def test_half_a_character_at_the_end_of_a_repeat_is_whole_in_the_next() -> None:
    parser, chunks = read([chunk(choice(text)) for text in ("a\ud83d", "a😀", "a😀b\ud83d")], CumulativeDeltas())
    chunks += parser.close()
    adds_up(parser, chunks)
    assert parser.snapshot.text == "a😀b\ufffd"
    real, _ = read([chunk(choice(text)) for text in ("a\ud83d", "\ude00b")], CumulativeDeltas())
    assert real.snapshot.text == "a😀b"


def test_each_text_that_ends_in_half_a_character_gets_its_own_end() -> None:
    texts = [{"index": place, "delta": {"content": "a\ud83d", "refusal": "b\ud83d"}} for place in (0, 1)]
    calls = [call(id_, "f", "c\ud83d", index=place) for place, id_ in enumerate("xy")]
    parser, chunks = read([chunk(*texts), chunk(choice(None, tool_calls=calls))])
    chunks += parser.close()
    adds_up(parser, chunks)
    for made in parser.snapshot.choices:
        assert (made.message.content, made.message.refusal) == ("a\ufffd", "b\ufffd")
    assert [one.arguments for one in parser.snapshot.tool_calls] == ["c\ufffd", "c\ufffd"]


def test_other_fields_of_gemini_do_not_make_a_text_a_thought() -> None:
    signed = {"content": "a\ud83d", "extra_content": {"google": {"thought_signature": "s"}}}
    parser, _ = read([chunk({"index": 0, "delta": signed}), chunk(choice("\ude00"))])
    assert parser.snapshot.text == "a😀"


@each_case(
    "other",
    [
        lambda text: {"reasoning_content": text},
        lambda text: {"reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]},
    ],
    ids=["in a field", "in details"],
)
def test_half_a_character_that_two_fields_have_counts_once(other: Callable[[str], dict[str, Any]]) -> None:
    parser, chunks = read([chunk({"index": 0, "delta": {"reasoning": "a\ud83d", **other("a\ud83d")}})])
    chunks += parser.close()
    adds_up(parser, chunks)
    assert parser.snapshot.reasoning == "a\ufffd"


@each_case(
    ("thoughts", "reasoning"),
    [(["<thought>a\ud83d", "\ude00b"], "a😀b"), (["<thought>a\ud83d"], "a\ufffd")],
    ids=["that goes on", "that does not"],
)
def test_half_a_character_in_a_thought_is_not_the_texts(thoughts: list[str], reasoning: str) -> None:
    flag = {"extra_content": {"google": {"thought": True}}}
    deltas = [*({"content": text, **flag} for text in thoughts), {"content": "</thought>B"}]
    parser, chunks = read([chunk({"index": 0, "delta": delta}) for delta in deltas])
    chunks += parser.close()
    assert (parser.snapshot.text, parser.snapshot.reasoning) == ("B", reasoning)


def test_halves_in_thinking_do_not_hide_that_its_signature_comes_with_a_repeat() -> None:
    blocks = [("a\ud83d", ""), ("\ude00b", ""), ("a😀b", "SIG")]
    thinking = [{"type": "thinking", "thinking": text, "signature": signature} for text, signature in blocks]
    parser, _ = read([chunk({"index": 0, "delta": {"thinking_blocks": [one]}}) for one in thinking])
    assert parser.snapshot.message.to_param()["thinking_blocks"] == [
        {"type": "thinking", "thinking": "a😀b", "signature": "SIG"}
    ]
