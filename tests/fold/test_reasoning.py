"""The fold of reasoning: its details, all its spellings, signed blocks, and content that is flagged as a thought."""

import json
from operator import attrgetter
from typing import Any

import pytest
from cases import each_case
from folded_payloads import REASONING_PART, THINKING, THOUGHT, chunk, fold, noted, read_all, running, said, texts
from parsed_bodies import parsed
from transformed import read

from chunkfold import (
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ReasoningDelta,
    ReasoningPart,
    StreamEnd,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import HEAD, sse

# reasoning_details


TEXT = "reasoning.text"


def at(index: int, **fields: Any) -> dict[str, Any]:
    """A block of text at an index."""
    return {"type": TEXT, "index": index, **fields}


def summary(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.summary", "index": 0, **({} if text is None else {"summary": text}), **fields}


def encrypted(data: str, id_: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    ids = {} if id_ is None else {"id": id_}
    return {"type": "reasoning.encrypted", "index": index, "data": data, **ids, **fields}


def signed(signature: str, id_: str | None = None, **fields: Any) -> dict[str, Any]:
    ids = {} if id_ is None else {"id": id_}
    return {"type": "reasoning.encrypted", "index": 0, "signature": signature, **ids, **fields}


def thinking(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "thinking", **({} if text is None else {"thinking": text}), **fields}


def kimi(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "encrypted", **fields} if text is None else {"type": "summary", "summary": text, **fields}


REDACTED = {"type": "redacted_thinking", "data": "x", "index": 0}
DETAILS = {
    "text appends": ([[at(0, text="a")], [at(0, text="b")]], [at(0, text="ab")]),
    "a null is kept until a value comes":
        ([[at(0, text="a", format=None)], [at(0, id=None)], [at(0, id="i")]], [at(0, text="a", format=None, id="i")]),
    "summary appends": ([[summary("a")]] * 2, [summary("aa")]),
    "data appends": ([[encrypted("a")]] * 2, [encrypted("aa")]),
    "a signature that comes late and alone":
        ([[at(0, text="a", signature=None)], [at(0, signature="s")]], [at(0, text="a", signature="s")]),
    "signature, id, format: the last that is not empty":
        ([[at(0, signature="s", id="i", format="f")], [at(0, signature="", id=None, format="")],
         [at(0, signature="t", format="g")]], [at(0, signature="t", id="i", format="g")]),
    "by index, not by place":
        ([[at(0, text="a"), at(1, text="b")], [at(1, text="B"), at(0, text="A")]],
         [at(0, text="aA"), at(1, text="bB")]),
    "by type too: the same index twice":
        ([[at(0, text="a")], [encrypted("x")], [at(0, text="b")]], [at(0, text="ab"), encrypted("x")]),
    "a fragment without a type: to the last block with its index":
        ([[at(0, text="a"), at(1, text="b")], [{"index": 0, "text": "A"}], [{"index": 0, "type": "", "signature": "s"}]],
         [at(0, text="aA", signature="s"), at(1, text="b")]),
    "of whichever type that is":
        ([[at(0, text="a")], [encrypted("x")], [{"index": 0, "type": None, "data": "X"}]],
         [at(0, text="a"), encrypted("xX")]),
    "but a text without a type after encrypted data with an id is another block":
        ([[encrypted("x", "rs_1")], [{"index": 0, "text": "a"}], [{"index": 0, "text": "A"}]],
         [encrypted("x", "rs_1"), {"index": 0, "text": "aA"}]),
    "not after a summary with an id":
        ([[summary("a", id="rs_1")], [{"index": 0, "text": "b"}]], [{**summary("a", id="rs_1"), "text": "b"}]),
    "encrypted data of another id is another block, at the same index too (OpenRouter)":
        ([[encrypted("x", "rs_1")], [encrypted("y", "rs_2")], [encrypted("z")], [encrypted("!", "rs_2")]],
         [encrypted("x", "rs_1"), encrypted("yz!", "rs_2")]),
    "a summary after encrypted data with an id is another block, at the same index too (OpenRouter)":
        ([[summary("a")], [summary("b")], [encrypted("x", "rs_1")], [summary(format="f")], [encrypted("X", "rs_1")],
         [summary("c")], [summary("d")], [encrypted("y", "rs_2")]], [summary("ab", format="f"),
         encrypted("xX", "rs_1"), summary("cd"), encrypted("y", "rs_2")]),
    "not where the encrypted data has an index of its own":
        ([[summary("a")], [encrypted("x", "rs_1", 1)], [summary("b")]], [summary("ab"), encrypted("x", "rs_1", 1)]),
    "nor where the text is of the same type":
        ([[encrypted("x", "rs_1")], [{"type": "reasoning.encrypted", "index": 0, "text": "a"}]],
         [encrypted("x", "rs_1", text="a")]),
    "another signature in place of the data is another block, at the same index too (Bifrost)":
        ([[at(0, text="a")], [signed("s")], [signed("t", "tool_call_1")], [signed("t", "tool_call_1")],
         [signed("u", "tool_call_2")], [signed("", "tool_call_2", format="f")]],
         [at(0, text="a"), signed("s"), signed("t", "tool_call_1"), signed("u", "tool_call_2", format="f")]),
    "a text after a signed one is another block, at the same index too (Bifrost)":
        ([[at(0, text="a")], [at(0, text="b")], [at(0, signature="s")], [at(0, signature="t")], [at(0, text="c")],
         [at(0, text="d", signature="u")], [at(0, text="e", signature="v")], [at(0, text="f", signature="v")]],
         [at(0, text="ab", signature="t"), at(0, text="cd", signature="u"), at(0, text="ef", signature="v")]),
    "not where only a signature came before it":
        ([[at(0, signature="s")], [at(0, text="a")]], [at(0, text="a", signature="s")]),
    "text of another id at the same index is not":
        ([[at(0, text="a", id="1")], [at(0, text="b", id="2")]], [at(0, text="ab", id="2")]),
    "an equal text beside a signature":
        ([[at(0, text="a")], [at(0, text="a", signature="s")]], [at(0, text="aa", signature="s")]),
    "without an index: to the last of its type":
        ([[{"type": TEXT, "text": "a"}], [{"type": "x", "text": "-"}],
         [{"type": TEXT, "text": "b", "signature": "s"}]],
         [{"type": TEXT, "text": "ab", "signature": "s"}, {"type": "x", "text": "-"}]),
    "also after a signature":
        ([[{"type": TEXT, "text": "a", "signature": "s"}], [{"type": TEXT, "text": "b"}]],
         [{"type": TEXT, "text": "ab", "signature": "s"}]),
    "the last of its type may have an index":
        ([[at(0, text="a"), at(1, text="b")], [{"type": TEXT, "text": "!"}]], [at(0, text="a"), at(1, text="b!")]),
    "unless the id differs":
        ([[{"type": TEXT, "id": "i", "text": "a"}], [{"type": TEXT, "id": "i", "text": "b"}],
         [{"type": TEXT, "id": "j"}]], [{"type": TEXT, "id": "i", "text": "ab"}, {"type": TEXT, "id": "j"}]),
    "null text adds nothing": ([[at(0, text=None)], [at(0, text="a")]], [at(0, text="a")]),
    "Anthropic's blocks (Meituan)":
        ([[thinking("a")], [thinking("b")], [thinking(signature="s")], [thinking("c")], [thinking("d", signature="t")]],
         [thinking("ab", signature="s"), thinking("cd", signature="t")]),
    "a text beside the signature that repeats the block":
        ([[thinking("a")], [thinking("b")], [thinking("ab", signature="s")]], [thinking("ab", signature="s")]),
    "by index, and redacted ones":
        ([[REDACTED], [thinking("", index=1)], [thinking("a", index=1)], [thinking("b", index=1)],
         [thinking(signature="s", index=1)]], [REDACTED, thinking("ab", index=1, signature="s")]),
    "not where the type is Anthropic's and the text is not":
        ([[{"type": "thinking", "text": "a"}], [{"type": "thinking", "text": "b"}]],
         [{"type": "thinking", "text": "ab"}]),
    "whole blocks without type and index (Helicone)":
        ([[{"thinking": "a", "signature": "s"}, {"thinking": "b", "signature": "t"}]],
         [{"thinking": "a", "signature": "s"}, {"thinking": "b", "signature": "t"}]),
    "summaries and encrypted blocks by index (Kimi)":
        ([[kimi("a", index=0)], [kimi("b", index=0)], [kimi(encrypted="x", index=1)], [kimi("c", index=2)]],
         [kimi("ab", index=0), kimi(encrypted="x", index=1), kimi("c", index=2)]),
    "whole ones without an index, in their order (Kimi)":
        ([[kimi("a"), kimi(encrypted="x"), kimi(encrypted="y"), kimi("b")]],
         [kimi("a"), kimi(encrypted="x"), kimi(encrypted="y"), kimi("b")]),
    "another provider's of these types":
        ([[{"type": "summary", "text": "a"}, {"type": "encrypted", "data": "x"}],
          [{"type": "summary", "text": "b"}, {"type": "encrypted", "data": "y"}]],
         [{"type": "summary", "text": "ab"}, {"type": "encrypted", "data": "xy"}]),
}  # fmt: skip


@each_case(("deltas", "expected"), DETAILS.values(), ids=DETAILS)
def test_reasoning_details(deltas: list[Any], expected: list[Any]) -> None:
    # Content begins in between: a signature may well come after it.
    parser = fold(*said(*({"reasoning_details": details, "content": "."} for details in deltas)))
    assert parser.completion().message.reasoning_details == expected
    assert noted(parser) == set()


@each_case("before", [[], ["x"]])
@each_case("signature", ["s", None])
def test_signed_thinking_in_details_is_a_repeat(signature: str | None, before: list[str]) -> None:
    """Of reasoning that came in another field; without a signature it is as new as in any other spelling."""
    details = [{"reasoning_details": one} for one in (before, [thinking("a", signature=signature)])]
    parser = fold(*said({"reasoning": "a"}, *details))
    assert parser.completion().reasoning == ("a" if signature else "aa")


def test_a_null_among_reasoning_details_does_not_lose_the_text() -> None:
    detail = {"type": "reasoning.text", "index": 0, "text": "T"}
    parser = fold(*said({"reasoning_details": [detail, None]}))
    assert parser.completion().reasoning == "T"
    assert parser.completion().message.reasoning_details == [detail]
    assert noted(parser) == {"CF209"}


# Reasoning text, in all its spellings


ENCRYPTED = "__ENCRYPTED_REASONING__id=rs_1\ngAAA="
SPELLINGS = {
    "reasoning_content": ({"reasoning_content": "T"}, set()),
    "reasoning": ({"reasoning": "T"}, set()),
    "text of reasoning_details": ({"reasoning_details": [{"type": TEXT, "text": "T"}]}, set()),
    "else their summary": ({"reasoning_details": [{"type": "s", "summary": "T"}]}, set()),
    "thinking in them (Meituan)": ({"reasoning_details": [{"type": "thinking", "thinking": "T"}]}, set()),
    "thinking parts of the content (Mistral)": ({"content": [THINKING]}, {"CF208"}),
    "twice, the same": ({"reasoning_content": "T", "reasoning": "T"}, set()),
    "twice: reasoning_content first": ({"reasoning_content": "T", "reasoning": "other"}, set()),
    "reasoning before details": ({"reasoning": "T", "reasoning_details": [{"text": "other"}]}, set()),
    "text before summary": ({"reasoning_details": [{"text": "T", "summary": "other"}]}, set()),
    "details before thinking parts":
        ({"reasoning_details": [{"text": "T"}], "content": [{"type": "thinking", "thinking": "other"}]}, {"CF208"}),
    "an empty one is not it": ({"reasoning_content": "", "reasoning": "T"}, set()),
    "two": ({"reasoning_content": None, "reasoning": "", "reasoning_details": [{"text": "T"}]}, set()),
    "reasoning_text (GitHub Copilot)": ({"reasoning_text": "T"}, set()),
    "reasoning before reasoning_text": ({"reasoning": "T", "reasoning_text": "other"}, set()),
    "cot_summary (GitHub Copilot in front of Azure)": ({"cot_summary": "T"}, set()),
    "then details": ({"reasoning_text": "T", "reasoning_details": [{"text": "other"}]}, set()),
    "thinking_blocks (LiteLLM)": ({"thinking_blocks": [{"type": "thinking", "thinking": "T"}]}, set()),
    "details before thinking_blocks":
        ({"reasoning_details": [{"text": "T"}], "thinking_blocks": [{"type": "thinking", "thinking": "other"}]}, set()),
    "thinking as an object (musistudio/llms)": ({"thinking": {"content": "T"}}, set()),
    "reasoning_content as an object (Envoy)": ({"reasoning_content": {"text": "T"}}, {"CF209"}),
    "reasoning as an object (Braintrust)": ({"reasoning": {"content": "T"}}, {"CF209"}),
    "reasoning as an object (Heroku)": ({"reasoning": {"thinking": "T", "signature": "c2ln"}}, {"CF209"}),
    "an object with an empty id": ({"reasoning": {"id": "", "content": "T"}}, {"CF209"}),
    "a list of objects, in a whole message": ({"reasoning": [{"content": "T"}, "x"]}, {"CF209"}),
    "an object whose text is a number": ({"reasoning": {"text": 5}, "reasoning_text": "T"}, {"CF209"}),
    "blocks before thinking": ({"thinking_blocks": [{"thinking": "T"}], "thinking": {"content": "other"}}, set()),
    "content_blocks (Portkey)": ({"content_blocks": [{"index": 0, "delta": {"thinking": "T"}}]}, set()),
    "content_blocks only where no field of its own brought it":
        ({"reasoning_content": "T", "content_blocks": [{"index": 0, "delta": {"thinking": "other"}}]}, set()),
    "tensorzero_extra_content":
        ({"tensorzero_extra_content": [{"type": "thought", "text": "T", "summary_text": "S", "signature": "c2ln"}]},
         set()),
    "a summary in tensorzero_extra_content":
        ({"tensorzero_extra_content": [{"type": "thought", "id": "0", "text": None, "summary_text": "T"}]}, set()),
    "reasoning parts of the content (Databricks)": ({"content": [REASONING_PART]}, {"CF208"}),
    "a flagged content (Gemini)": ({"content": "<thought>T", "extra_content": THOUGHT}, set()),
    "a flagged content without a tag": ({"content": "T", "extra_content": THOUGHT}, set()),
    "a field of its own before the flag": ({"content": "other", "extra_content": THOUGHT, "reasoning": "T"}, set()),
    "a reasoning_text that is a number": ({"reasoning_text": 5, "reasoning": "T"}, {"CF209"}),
    "nulls": ({"reasoning_text": None, "thinking_blocks": None, "reasoning": "T"}, set()),
    "thinking_blocks that are no list": ({"thinking_blocks": "x", "reasoning": "T"}, {"CF209"}),
    "thinking_blocks of no objects": ({"thinking_blocks": ["x"], "reasoning": "T"}, {"CF209"}),
    "a block whose text is a number": ({"thinking_blocks": [{"thinking": 5}], "reasoning": "T"}, {"CF209"}),
    "a bare thinking is an unknown field": ({"thinking": "x", "reasoning": "T"}, set()),
    "nor one that is no string": ({"reasoning_content": {"x": 1}, "reasoning": "T"}, {"CF209"}),
    "nor one that is a number": ({"reasoning": 5, "reasoning_content": "T"}, {"CF209"}),
    "before what is encrypted (Venice)": ({"reasoning_content": f"T\n\n{ENCRYPTED}", "reasoning_encrypted": True}, set()),
    "what is encrypted is not it":
        ({"reasoning_content": ENCRYPTED, "reasoning_encrypted": True, "reasoning": "T"}, set()),
    "the flag alone": ({"reasoning_content": "T", "reasoning_encrypted": True}, set()),
    "the flag beside a number": ({"reasoning_content": 5, "reasoning_encrypted": True, "reasoning": "T"}, {"CF209"}),
}  # fmt: skip


@each_case(("delta", "rules"), SPELLINGS.values(), ids=SPELLINGS)
def test_reasoning_is_taken_once_from_the_first_spelling(delta: dict[str, Any], rules: set[str]) -> None:
    parser, chunks = read(said(delta, {}))
    assert "".join(each.reasoning for each in chunks) == "T"
    message = parser.completion().message
    assert message.reasoning == message.model_dump()["reasoning"] == "T"
    assert noted(parser) == rules
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": delta, "finish_reason": "stop"}]}
    assert parsed(json.dumps(whole).encode()).completion().reasoning == "T"


def test_encrypted_reasoning_comes_last_in_the_raw_text() -> None:
    """Venice reads it up to the end of the text, and may send more of the readable reasoning after it."""
    encrypted = [f"\n\n{ENCRYPTED}{number}" for number in range(40)]
    flagged = [{"reasoning_content": text, "reasoning_encrypted": True} for text in encrypted]
    parser, chunks = read(said({"reasoning_content": "T"}, *flagged, {"reasoning_content": "U"}, {"content": "Hi"}))
    message = parser.completion().message
    assert message.reasoning == "".join(one.reasoning for one in chunks) == "TU"
    assert message.reasoning_content == "".join(["TU", *encrypted])
    assert chunks[1].choices[0].delta.reasoning_content == encrypted[0]
    assert message.model_extra == {"reasoning_encrypted": True}


@each_case(
    "delta",
    [
        {"reasoning_content": f"T{ENCRYPTED}"},  # a model may write about the mark
        {"reasoning_content": f"T{ENCRYPTED}", "reasoning_encrypted": False},
        {"reasoning_content": "", "reasoning": f"T{ENCRYPTED}", "reasoning_encrypted": True},
    ],
)
def test_the_mark_of_encrypted_reasoning_is_text_without_the_flag_and_in_another_field(delta: dict[str, Any]) -> None:
    parser, [chunk] = read(said(delta)[:1])
    assert chunk.reasoning == parser.snapshot.reasoning == f"T{ENCRYPTED}"
    assert parser.snapshot.message.model_extra.get("reasoning_encrypted") is delta.get("reasoning_encrypted")


def test_a_whole_message_with_encrypted_reasoning_after_the_same_deltas() -> None:
    flagged = {"reasoning_content": ENCRYPTED, "reasoning_encrypted": True}
    message = fold(
        *said(flagged, {"content": "Hi"}), sse({"choices": [{"index": 0, "message": flagged}]})[0]
    ).snapshot.message
    assert (message.reasoning, message.reasoning_content) == (None, ENCRYPTED)


@each_case(("delta", "rules"), SPELLINGS.values(), ids=SPELLINGS)
def test_reasoning_is_output_in_every_spelling(delta: dict[str, Any], rules: set[str]) -> None:
    """A stream that is cut while it thinks is truncated, and no retry is safe."""
    parser = running(chunk(delta))
    assert [each.delta for each in parser.events() if isinstance(each, ReasoningDelta)] == ["T"]
    parser.close()
    assert parser.end is StreamEnd.TRUNCATED
    assert not parser.error.retryable
    assert parser.timing.first_output is not None
    assert [type(part) for part in parser.snapshot.message.parts] == [ReasoningPart]


DETAIL = {"type": TEXT, "text": "a"}
SIGNED = [
    {"content": text, **signature} for text, sign in (("a", "s"), ("b", "t")) for signature in ({}, {"signature": sign})
]
BESIDE_THE_FLAG = {"google": {"thought_signature": "s"}, "x": 1}
CITED = {"type": "text", "text": "D", "citations": [1], "index": 1}
SIGNED_PART = {"type": "thinking", "thinking": "hm", "signature": "s", "index": 0}
SIGNED_SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T", "signature": "s"}]}
EMPTY_CITED = [{"type": "text", "text": "", "citations": [number]} for number in (1, 2)]


def block(thinking: Any = "hm", **fields: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": thinking, **fields}


def text_part(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


# The deltas, and fields of the message as it is dumped without nulls; all of them where its role is among them.
DUMPED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a spelling of reasoning that changes from delta to delta":
        ([{"reasoning_content": "a"}, {"reasoning": "b"}, {"reasoning_details": [{"text": "c"}]}],
         {"reasoning": "abc"}),
    "raw fields beside the reasoning; bare `thinking` and `thought` are unknown keys":
        ([{"reasoning_content": "a", "reasoning": "a", "thinking": "x", "reasoning_details": [DETAIL]},
         {"reasoning_content": "b", "thought": "y"}],
         {"role": "assistant", "reasoning": "ab", "reasoning_content": "ab", "reasoning_details": [DETAIL],
         "tool_calls": [], "thinking": "x", "thought": "y"}),
    "a raw reasoning that is no string gives way to the text":
        ([{"reasoning": {"effort": "high"}}, {"reasoning_content": "a"}], {"reasoning": "a"}),
    "two thoughts of one thinking object":
        ([{"thinking": one} for one in (*SIGNED, {"content": "c", "signature": None})],
         {"reasoning": "abc", "thinking": {"content": "abc", "signature": "t"}}),
    "a thinking object with a signature alone":
        ([{"thinking": {"signature": "s"}}], {"thinking": {"content": "", "signature": "s"}}),
    "blank lines beside a flag, and nothing that is encrypted":
        ([{"reasoning_content": "a\n\n", "reasoning_encrypted": True}, {"reasoning": "b"}], {"reasoning": "a\n\nb"}),
    "a thinking object without a text":
        ([{"thinking": {"content": 5, "signature": "s"}}], {"thinking": {"content": 5, "signature": "s"}}),
    "what stands beside the flag of a thought":
        ([{"content": "a", "extra_content": {**BESIDE_THE_FLAG, "google": {"thought": True, "thought_signature": "s"}}}],
         {"extra_content": BESIDE_THE_FLAG}),
    "or beside its object": ([{"content": "a", "extra_content": {**THOUGHT, "x": 1}}], {"extra_content": {"x": 1}}),
    "text parts are not merged by their places":
        ([{"content": content} for content in (
         [SIGNED_PART], [text_part("A", index=1)], "B", [text_part("C", index=1)], [CITED, CITED], "E")],
         {"content_parts": [SIGNED_PART, text_part("ABC"), CITED, CITED, text_part("E")], "content": "ABCDDE"}),
    "parts at one place are each their own":
        ([{"content": EMPTY_CITED}, {"content": "a"}], {"content_parts": [*EMPTY_CITED, text_part("a")]}),
    "reasoning parts are pieces until text comes":
        ([{"content": content} for content in ([REASONING_PART], [SIGNED_SUMMARY], "a", [REASONING_PART],
         [{"type": "reasoning", "summary": "U"}], [THINKING])],
         {"reasoning": "TTTUT", "content_parts": [SIGNED_SUMMARY, text_part("a"),
          {**REASONING_PART, "summary": [*REASONING_PART["summary"], text_part("U")]}, THINKING]}),
    "a text before a list under the same key":
        ([{"content": [block(text)]} for text in ("", "a", [{"type": "x", "text": "b"}], "", "c")],
         {"reasoning": "abc", "content_parts": [block([text_part("a"), {"type": "x", "text": "b"}, text_part("c")])]}),
    "an empty text before a list under the same key":
        ([{"content": [block(text)]} for text in ("", [{"type": "x", "text": "b"}], "")],
         {"reasoning": "b", "content_parts": [block([{"type": "x", "text": "b"}])]}),
    "raw values beside what a provider sent under that name":
        ([{"refusal": "no"}, {"refusal": 5, "raw_values": {"a": 1}}], {"raw_values": {"a": 1, "refusal": 5}}),
    "raw values beside a text under that name":
        ([{"refusal": "no"}, {"refusal": 5, "raw_values": "x"}], {"raw_values": {"refusal": 5}}),
}  # fmt: skip


@each_case(("deltas", "expected"), DUMPED.values(), ids=DUMPED)
def test_what_deltas_come_to(deltas: list[Any], expected: dict[str, Any]) -> None:
    dumped = fold(*said(*deltas)).completion().message.model_dump(exclude_none=True)
    if "role" not in expected:  # a few fields
        dumped = {field: dumped[field] for field in expected}
    assert dumped == expected


BLOCKS = {
    "at once": ([[block(signature="s")]], [block(signature="s")], "hm"),
    "the last piece has the signature": ([[block("h")], [block("m", signature="s")]], [block(signature="s")], "hm"),
    "the signed block repeats the text, twice":
        ([[block()], [block(signature="s")], [block(signature="s")]], [block(signature="s")], "hm"),
    "pieces": ([[block()], [block()]], [block("hmhm")], "hmhm"),
    "a signature that is empty": ([[block(signature="")]], [block()], "hm"),
    "after a signature comes another block":
        ([[block(signature="s")], [block("so")]], [block(signature="s"), block("so")], "hmso"),
    "after data, too": ([[{"data": "x"}], [{"thinking": "so"}]], [{"data": "x"}, {"thinking": "so"}], "so"),
    "by index":
        ([[block(index=0), block(index=1)], [block("!", index=0)]], [block("hm!", index=0), block(index=1)], "hmhm!"),
    "by id": ([[block(id="a")], [block(id="b")]], [block(id="a"), block(id="b")], "hmhm"),
    "a number beside the signature": ([[block()], [block(5, signature="s")]], [block(signature="s")], "hm"),
    "by signature, where the text is left out":
        ([[block("", signature=signature)] for signature in ("s", "s", "t", "", "t")],
         [block("", signature=signature) for signature in ("s", "t")], None),
    "not by signature, where the text is repeated":
        ([[block(signature="s")], [block(signature="t")]], [block(signature="t")], "hm"),
}  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected", "reasoning"), BLOCKS.values(), ids=BLOCKS)
def test_thinking_blocks(deltas: list[Any], expected: list[Any], reasoning: str | None) -> None:
    message = fold(*said(*({"thinking_blocks": blocks} for blocks in deltas))).completion().message
    assert message.model_dump()["thinking_blocks"] == expected
    assert message.reasoning == reasoning


MIXED = {
    "a redacted block, then text": [[{"type": "redacted_thinking", "data": "D"}], [at(0, text="ab")]],
    "a redacted block, then a summary": [[{"type": "redacted_thinking", "data": "D"}], [summary("ab")]],
    "both in one delta": [[{"type": "redacted_thinking", "data": "D"}, at(0, text="ab")]],
    "thinking, then text": [[block("a", index=0)], [at(0, text="b")]],
    "text, then thinking": [[at(0, text="a")], [block("b")]],
    "a summary of Kimi's, then text": [[{"type": "summary", "summary": "a", "index": 0}], [at(1, text="b")]],
}


@each_case("details", MIXED.values(), ids=MIXED)
def test_no_reasoning_is_lost_where_blocks_of_another_kind_follow(details: list[Any]) -> None:
    payloads = said(*({"reasoning_details": one} for one in details))
    assert "".join(ChatCompletionChunk.model_validate(one).reasoning for one in payloads) == "ab"
    assert fold(*payloads).completion().message.reasoning == "ab"


@each_case("spelling", ["reasoning", "reasoning_content", "reasoning_text"])
def test_a_signed_block_may_repeat_all_of_the_reasoning_in_another_field(spelling: str) -> None:
    for block_of in (
        {"thinking_blocks": [block("hm, so", signature="s")]},
        {"thinking": {"content": "hm, so", "signature": "s"}},
    ):
        deltas = [{spelling: "hm,"}, {spelling: " so"}, block_of]
        assert fold(*said(*deltas)).completion().message.reasoning == "hm, so"
    redacted = [block("hm, so", signature="s"), {"type": "redacted_thinking", "data": "D"}]
    deltas = [{spelling: "hm, so"}, {"thinking_blocks": redacted}]
    assert fold(*said(*deltas)).completion().message.reasoning == "hm, so"
    twice = [{"thinking_blocks": [block("Hm.", index=0)]}, {"thinking_blocks": [block("Hm.", index=1, signature="s")]}]
    assert fold(*said(*twice)).completion().message.reasoning == "Hm.Hm."
    other = {"thinking_blocks": [block("no, so", signature="s")]}
    assert fold(*said({spelling: "hm, so"}, other)).completion().message.reasoning == "hm, sono, so"


def test_many_blocks_are_linear() -> None:
    """Pieces of thousands of blocks, by turns: joining them now and then must not look at all blocks each time."""
    accumulator = StreamFold()
    looked: list[int] = []
    for place in range(6_000):
        blocks = [{"type": "t", "index": place % 3_000, "text": "a"}]
        accumulator.add(ChatCompletionChunk.model_validate(chunk({"reasoning_details": blocks})))
        accumulator.compact()
        looked.append(accumulator._next_compaction)
    assert len(set(looked)) <= 4
    details = accumulator.snapshot.message.reasoning_details
    assert details is not None
    assert [one["text"] for one in details] == ["aa"] * 3_000


PIECES = {
    "a call": ({"tool_calls": [{"index": 0, "function": {"arguments": "a"}}]}, "tool_calls.last.arguments"),
    "the legacy call": ({"function_call": {"arguments": "a"}}, "function_call.arguments"),
    "a transcript": ({"audio": {"transcript": "a"}}, "audio.transcript"),
}  # fmt: skip


@pytest.mark.parametrize(("delta", "buffer"), PIECES.values(), ids=PIECES)
def test_the_pieces_of_every_text_are_joined_now_and_then(delta: dict[str, Any], buffer: str) -> None:
    accumulator = StreamFold()
    piece = ChatCompletionChunk.model_validate(chunk(delta))
    for _ in range(3_000):
        accumulator.compact()
        accumulator.add(piece)
    text = attrgetter(buffer)(accumulator.states[0])
    assert text.tell() == 3_000
    assert text._open.tell() < 2_000


def thought(text: str, **fields: Any) -> dict[str, Any]:
    return {"content": text, "extra_content": {"google": {"thought": True, **fields}}}


def test_reasoning_steps_extend() -> None:
    """Perplexity's `stream_mode: concise`; when they are all there, a whole message has them once more."""
    steps = [{"type": "web_search", "thought": thought} for thought in "abc"]
    whole = {"role": "assistant", "content": "", "reasoning_steps": steps}
    parser = fold(
        *(chunk({"content": "", "reasoning_steps": some}) for some in (steps[:1], steps[1:])),
        {"choices": [{"index": 0, "delta": {}, "message": whole}]},
        *said({"content": "d"}),
    )
    assert parser.completion().message.model_extra == {"reasoning_steps": steps}
    assert parser.completion().text == "d"


# Content that is flagged as a thought (Gemini's compatible endpoint)


THOUGHTS = {
    "tags": ([thought("<thought>h"), thought("m"), {"content": "</thought>Hi"}], "hm", "Hi"),
    "no tags": ([thought("h"), thought("m"), {"content": "Hi"}], "hm", "Hi"),
    "a tag alone": ([thought("<thought>hm"), {"content": "</thought>"}, {"content": "Hi"}], "hm", "Hi"),
    "an empty text": ([thought("<thought>hm"), {"content": ""}, {"content": "</thought>Hi"}], "hm", "Hi"),
    "the first one only":
        ([thought("<thought>hm"), {"content": "</thought>Hi"}, {"content": "</thought>"}], "hm", "Hi</thought>"),
    "not later": ([thought("hm"), {"content": "Hi"}, {"content": "</thought>"}], "hm", "Hi</thought>"),
    "not inside": ([thought("a<thought>b</thought>"), {"content": "Hi"}], "a<thought>b</thought>", "Hi"),
    "no flag": ([{"content": "<thought>a"}, {"content": "</thought>b"}], None, "<thought>a</thought>b"),
    "a flag of false":
        ([{"content": "a", "extra_content": {"google": {"thought": False}}}, {"content": "</thought>b"}], None,
         "a</thought>b"),
    "twice":
        ([thought("<thought>a"), {"content": "</thought>b"}, thought("<thought>c"), {"content": "</thought>d"}], "ac",
         "bd"),
    "a list of parts closes it too":
        ([thought("<thought>a"), {"content": [{"type": "text", "text": "b"}]}, {"content": "</thought>"}], "a",
         "b</thought>"),
    "nothing in it": ([thought(""), thought("<thought>")], None, None),
}  # fmt: skip


@each_case(("deltas", "reasoning", "text"), THOUGHTS.values(), ids=THOUGHTS)
def test_flagged_thoughts(deltas: list[Any], reasoning: str | None, text: str | None) -> None:
    """Plain text chunks come before and after, so that each way a chunk can take is taken."""
    last = [{"content": "."}] * 3
    parser, chunks = read_all(*said({"role": "assistant"}, *deltas, *last))
    message = parser.completion().message
    assert (message.reasoning, message.content) == (reasoning, (text or "") + "...")
    assert "".join(each.text for each in chunks) == message.content
    assert "".join(each.reasoning for each in chunks) == (reasoning or "")
    assert "thought" not in message.model_dump().get("extra_content", {}).get("google", {})
    assert {one.rule.id for one in parser.anomalies} <= {"CF208"}


def test_a_thought_of_one_choice_does_not_touch_another() -> None:
    payloads = [
        chunk({"content": "a"}),
        chunk({"content": "b"}, index=1),
        chunk(thought("<thought>hm"), index=1),
        chunk({"content": "</thought>a"}),
        chunk(..., usage={"total_tokens": 1}, choices=[]),
        chunk({"content": "</thought>b"}, index=1),
        chunk({"content": "</thought>c"}, index=1),
    ]
    parser, _ = read_all(*payloads)
    assert texts(parser.snapshot) == {0: "a</thought>a", 1: "bb</thought>c"}


def test_a_thought_is_closed_in_the_choice_that_has_it_wherever_it_is_in_the_chunk() -> None:
    both = {
        **HEAD,
        "choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "</thought>b"}}],
    }
    parser, chunks = read_all(chunk(thought("<thought>hm"), index=1), both)
    assert texts(parser.snapshot) == {0: "a", 1: "b"}
    assert [(one.index, one.delta.content) for one in chunks[1].choices] == [(0, "a"), (1, "b")]


def test_the_chunk_that_was_sent_is_not_changed() -> None:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate(chunk(thought("<thought>a"))))
    sent = ChatCompletionChunk.model_validate(chunk({"content": "</thought>b"}))
    before = sent.model_copy(deep=True)
    given = accumulator.add(sent)
    assert sent == before
    assert (given.text, accumulator.snapshot.text) == ("b", "b")
    assert accumulator.add(sent) is sent
