"""Chunks that have a whole message instead of a delta: it fills gaps only."""

import inspect
import sys
from typing import Any

import pytest
from cases import each_case
from folded_payloads import THINKING, THOUGHT, chunk, fold, noted, running, said, texts
from invariants import check
from transformed import read

from chunkfold import ChatCompletion, ChatCompletionParser
from chunkfold.testing import sse


def whole(message: Any, finish_reason: str | None = None, **choice: Any) -> dict[str, Any]:
    """A chunk that has a message instead of a delta."""
    return chunk(finish_reason=finish_reason, choice={"message": message, **choice})


MESSAGES = {
    "instead of deltas (HybridAI)": ([whole({"content": "whole"}, "stop")], "whole", 1),
    "several: the last (Perplexity's full mode)":
        ([whole({"content": "w"}), whole({"content": "wh"}), whole({"content": "whole"}, "stop")], "whole", 1),
    "several, of which the last is empty: the one before it":
        ([whole({"content": "whole"}), whole({"role": "assistant", "content": ""}, "stop")], "whole", 1),
    "several, of which the last has an unknown field alone: the last":
        ([whole({"content": "w"}), whole({"thinking_blocks": [{"type": "redacted", "data": "x"}]}, "stop")], "", 1),
    "after deltas, as at the end of MiniMax: the deltas hold":
        ([chunk({"content": "de"}), chunk({"content": "lta"}), whole({"content": "whole"}, "stop")], "delta", 0),
    "around deltas":
        ([whole({"content": "w"}), chunk({"content": "delta"}), whole({"content": "whole"}, "stop")], "delta", 0),
    "beside a delta":
        ([chunk({"content": "de"}, choice={"message": {"content": "whole"}}), *said({"content": "lta"})], "delta", 0),
    "after deltas without output":
        ([chunk({"role": "assistant", "content": ""}), whole({"content": "whole"}, "stop")], "whole", 1),
    "an empty message": ([whole({"content": None}), *said({"content": "a"})], "a", 0),
}  # fmt: skip


@pytest.mark.parametrize(("payloads", "text", "extra"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_the_content_only_where_no_delta_was(payloads: list[Any], text: str, extra: int) -> None:
    """What it adds is handed out as one more chunk at the end, so that the chunks add up to the message."""
    parser, chunks = read(payloads)
    assert parser.completion().text == text
    assert len(chunks) == len(payloads) + extra
    assert "".join(one.text for one in chunks) == text
    assert noted(parser) == {"CF207"}


def test_a_message_fills_gaps() -> None:
    message = {
        "role": "bot",
        "content": "whole",
        "reasoning_content": "why",
        "annotations": [{"type": "url_citation"}],
        "x": 1,
        "y": 1,
    }
    parser, chunks = read([chunk({"content": "delta", "y": 2}), whole(message, "stop", z=3)])
    (choice,) = parser.completion().choices
    assert choice.message.model_dump(exclude_none=True) == {
        "role": "bot",
        "content": "delta",
        "reasoning": "why",
        "reasoning_content": "why",
        "annotations": [{"type": "url_citation"}],
        "tool_calls": [],
        "x": 1,
        "y": 2,
    }
    assert choice.model_extra == {"z": 3}
    assert "".join(one.reasoning for one in chunks) == "why"


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_a_message_may_have_whole_tool_calls() -> None:
    """They have no index, and need none: they are told apart by their places."""
    calls = [CALL, {**CALL, "id": "b"}]
    parser = fold(whole({"content": None, "tool_calls": calls}, "tool_calls"))
    assert [call.model_dump() for call in parser.completion().tool_calls] == calls


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        pytest.param({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
                     {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, id="details without text"),
        pytest.param({"reasoning": "r"}, {"reasoning_content": "r"}, id="reasoning in another spelling"),
        pytest.param({"refusal": "r"}, {"refusal": "r"}, id="refusal"),
        pytest.param({"images": [{"image_url": {"url": "u"}}]}, {"images": [{"image_url": {"url": "u"}}]}, id="images"),
        pytest.param({"content_blocks": [{"index": 0, "delta": {"type": "image_url", "image_url": {"url": "u"}}}]},
                     {"content_blocks": [{"type": "image_url", "image_url": {"url": "u"}}]},
                     id="images among content blocks"),
        pytest.param({"audio": {"data": "YQ=="}}, {"audio": {"id": "i", "data": "YQ=="}}, id="audio"),
        pytest.param({"function_call": {"name": "f"}}, {"function_call": {"name": "f"}}, id="function_call"),
        pytest.param({"x": [1]}, {"x": [2]}, id="an unknown key"),
        pytest.param({"tool_calls": [{"index": 0, **CALL}]}, {"tool_calls": [CALL]}, id="calls"),
        pytest.param({"reasoning": "r"}, {"content": "r", "extra_content": THOUGHT}, id="a flagged thought"),
        pytest.param({"content": "r", "extra_content": THOUGHT}, {"content": "r", "extra_content": THOUGHT},
                     id="a flagged thought, twice"),
    ],
)  # fmt: skip
def test_what_deltas_brought_is_no_gap(delta: dict[str, Any], message: dict[str, Any]) -> None:
    alone, both = fold(*said(delta)), fold(chunk(delta), whole(message, "stop"))
    assert both.completion().message == alone.completion().message


SIGNED = {"google": {"thought_signature": "s"}}
FLAGGED = {"google": {**THOUGHT["google"], "thought_signature": "s"}}


@each_case(
    "payloads",
    [
        # Was once wrong: the flag was no gap beside a signature, so that the thought became text.
        [chunk({"extra_content": SIGNED}), whole({"content": "hm", "extra_content": THOUGHT}, "stop")],
        [whole({"content": "hm", "extra_content": FLAGGED}, "stop")],
    ],
    ids=["behind the signature", "beside the signature"],
)
def test_a_flagged_thought_of_a_message_is_reasoning_and_the_signature_stays(payloads: list[Any]) -> None:
    parser, chunks = read(payloads)
    message = parser.completion().message
    assert (message.content, message.reasoning, message.model_extra) == (None, "hm", {"extra_content": SIGNED})
    assert ["".join(one.text for one in chunks), "".join(one.reasoning for one in chunks)] == ["", "hm"]


@pytest.mark.parametrize("text", [{"reasoning": "hm"}, {"content": "hm", "extra_content": THOUGHT}])
@pytest.mark.parametrize("block", [1, {}, {"type": "reasoning.encrypted", "data": "x"}], ids=str)
def test_reasoning_of_a_message_is_added_to_blocks_without_text(block: Any, text: dict[str, Any]) -> None:
    """Was once wrong: it was dropped. The blocks stay as the deltas brought them."""
    details = {"reasoning_details": [block]}
    message = fold(chunk(details), whole({**text, **details}, "stop")).completion().message
    kept = fold(*said(details)).completion().message
    assert (message.reasoning, message.content) == ("hm", None)
    assert getattr(message, "reasoning_details", None) == getattr(kept, "reasoning_details", None)


SIGNED_BLOCK = {"type": "thinking", "thinking": "", "signature": "s"}
BLOCKS = [
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
    {"thinking_blocks": [SIGNED_BLOCK, {"type": "redacted_thinking", "data": "x"}]},
    {"thinking": {"content": "", "signature": "s"}},
]


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_blocks_of_a_message_are_added_to_a_text_if_they_have_none(blocks: dict[str, Any]) -> None:
    """Was once wrong: what the provider needs back was dropped, if only the whole message had it."""
    told = {"reasoning_content": "hm"}
    message = fold(chunk(told), whole({**told, **blocks}, "stop")).completion().message
    assert message.reasoning == "hm"
    assert message.to_param().items() >= fold(*said(blocks)).completion().message.to_param().items() >= blocks.items()


@pytest.mark.parametrize("name", ["thinking_blocks", "reasoning_details"])
@pytest.mark.parametrize("value", [[{**SIGNED_BLOCK, "thinking": "hm"}], "hm"], ids=["blocks", "no blocks"])
def test_blocks_of_a_message_with_a_text_are_not_added_to_another(name: str, value: Any) -> None:
    told = {"reasoning_content": "hm"}
    message = fold(chunk(told), whole({**told, name: value}, "stop")).completion().message
    assert message == fold(*said(told)).completion().message


@pytest.mark.parametrize("name", ["refusal", "images", "annotations"])
def test_a_value_of_a_wrong_type_leaves_a_gap(name: str) -> None:
    wrong = {"refusal": 5, "images": 5, "annotations": 5}[name]
    right = {"refusal": "no", "images": [IMAGE], "annotations": [{"type": "url_citation"}]}[name]
    message = fold(chunk({name: wrong}), whole({name: right}, "stop")).completion().message
    alone = fold(*said({name: right})).completion().message
    assert (getattr(message, name), message.raw_values) == (getattr(alone, name), {name: wrong})
    again = fold(chunk({name: wrong}), whole({name: 6}, "stop"))
    assert again.completion().message.raw_values == {name: wrong}


@pytest.mark.parametrize("name", ["thinking_blocks", "reasoning_details"])
def test_a_value_that_is_no_blocks_leaves_a_gap_for_blocks(name: str) -> None:
    right = {name: [{"type": "thinking", "thinking": "hm"}]}
    message = fold(chunk({name: 5}), whole(right, "stop")).completion().message
    assert (message.reasoning, message.raw_values) == ("hm", {name: 5})
    assert message.to_param().items() >= right.items()


def test_a_snapshot_of_blocks_of_a_message_behind_a_list_without_blocks_changes_nothing() -> None:
    """Was once wrong: the snapshot folded the message into the blocks so far, which then were no gap at the end."""
    parser = running(chunk({"reasoning_details": ["x"]}), whole({"reasoning_details": [{"text": "hm"}]}))
    early = parser.snapshot.message
    assert (early.reasoning, early.reasoning_details) == ("hm", [{"text": "hm"}])
    assert parser.snapshot.message == early
    parser.close()
    assert parser.snapshot.message == early


def test_content_blocks_of_a_message_fill_a_gap() -> None:
    message = {"content": "a", "content_blocks": [{"type": "thinking", "thinking": "hm"}]}
    assert fold(chunk({"content": "a"}), whole(message, "stop")).completion().reasoning == "hm"


def test_an_empty_message_has_its_role() -> None:
    assert fold(whole({"role": "model", "content": ""}, "stop")).completion().message.role == "model"


IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
REFERENCE = {"type": "reference", "reference_ids": [1]}
HI_PART = {"type": "text", "text": "Hi"}
GAPS_IN_A_LIST = {
    "an image after text": ({"content": "Hi"}, [HI_PART, IMAGE], ("Hi", "", [HI_PART, IMAGE])),
    "reasoning after text": ({"content": "Hi"}, [THINKING, HI_PART], ("Hi", "T", [HI_PART, THINKING])),
    "text after reasoning": ({"reasoning": "r"}, [THINKING, HI_PART, IMAGE], ("Hi", "r", [HI_PART, IMAGE])),
    "an image after an image": ({"content": [IMAGE]}, [HI_PART, IMAGE], ("Hi", "", [IMAGE, HI_PART])),
    "an image after a reference": ({"content": [REFERENCE]}, [IMAGE], ("", "", [REFERENCE, IMAGE])),
    "no text after reasoning": ({"reasoning": "r"}, [THINKING], (None, "r", None)),
    "nothing": ({"content": [HI_PART, THINKING, IMAGE]}, [HI_PART, THINKING, IMAGE], ("Hi", "T", [HI_PART, THINKING, IMAGE])),
}  # fmt: skip


@each_case(("delta", "content", "expected"), GAPS_IN_A_LIST.values(), ids=GAPS_IN_A_LIST)
def test_a_content_list_of_a_message_fills_gaps_part_by_part(
    delta: dict[str, Any], content: list[Any], expected: tuple[Any, ...]
) -> None:
    parser = running(chunk(delta), whole({"content": content}))
    early = parser.snapshot.message
    parser.close()
    message = parser.snapshot.message
    assert (message.content, message.reasoning or "", message.content_parts) == expected
    assert early == message


EMPTY_BEFORE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"content": ""}, {"content": "whole"}),
    "a refusal": ({"refusal": ""}, {"refusal": "no"}),
    "images": ({"images": []}, {"images": [{"image_url": {"url": "u"}}]}),
    "images after text": ({"content": "Hi"}, {"images": [{"image_url": {"url": "u"}}]}),
    "reasoning after text": ({"content": "Hi"}, {"content": "other", "reasoning": "hm"}),
    "annotations": ({"annotations": []}, {"annotations": [{"type": "url_citation"}]}),
    "calls": ({"tool_calls": []}, {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    "signatures": ({"x": 1}, {"provider_specific_fields": {"thought_signatures": ["s"]}}),
    "parts": ({"content": [{"type": "reference", "reference_ids": [1]}]}, {"content": [THINKING, HI_PART]}),
}


@each_case(("delta", "message"), EMPTY_BEFORE.values(), ids=EMPTY_BEFORE)
def test_a_running_snapshot_leaves_the_gap_as_it_is(delta: dict[str, Any], message: dict[str, Any]) -> None:
    """Who looks at each snapshot, or at events, gets the same chunks and the same message in the end."""
    check(b"".join(sse(chunk(delta), whole(message), done=False)))


def test_a_running_snapshot_takes_little_of_the_stack() -> None:
    value: Any = 1
    for _ in range(199):
        value = [value]
    deltas = {"content": "Hi", "y": value, "reasoning_details": [{"text": "r", "z": value}]}
    parser = running(chunk(deltas), whole({"content": "whole", "x": 1}))
    left = sys.getrecursionlimit() - len(inspect.stack(0)) - 150

    def snapshot_at(depth: int) -> ChatCompletion:
        return snapshot_at(depth - 1) if depth else parser.snapshot

    assert snapshot_at(left).message.model_extra == parser.snapshot.message.model_extra


@pytest.mark.parametrize("end", ["cut", "interrupted", "failed", "left"])
def test_the_message_counts_however_the_stream_ends(end: str) -> None:
    parser = running(whole({"content": "whole"}))
    more = {
        "cut": parser.close,
        "interrupted": lambda: parser.interrupt(OSError()),
        "failed": lambda: parser.feed(b'data: {"error":{"message":"x"}}\n\n'),
        "left": lambda: [parser.leave()],
    }[end]()
    assert parser.snapshot.text == "whole"
    if end != "left":  # nobody is there to take a chunk
        assert [one.text for one in more] == ["whole"]


def test_each_choice_has_its_own_message() -> None:
    parser, (*_, last) = read([whole({"content": "a"}, "stop"), whole({"content": "b"}, "stop", index=1)])
    assert texts(parser.completion()) == {0: "a", 1: "b"}
    assert {choice.index: choice.delta.content for choice in last.choices} == {0: "a", 1: "b"}


@each_case("wrong", [{"refusal": 5}, {"function_call": []}, {"audio": ""}, {"role": 0}])
def test_a_wrong_type_in_a_message_is_kept_raw(wrong: dict[str, Any]) -> None:
    parser = fold(chunk({}), whole({"content": "whole", **wrong}, "stop"))
    assert parser.completion().text == "whole"
    assert noted(parser) == {"CF207", "CF209"}
    assert parser.completion().message.role == "assistant"


def test_a_running_snapshot_shows_a_whole_message() -> None:
    calls = [{"id": "a", "function": {"name": "f"}}]
    message = {"role": "model", "content": "Hi", "reasoning": "hm", "tool_calls": calls}
    parser = running(whole(message))
    early = parser.snapshot
    assert parser.snapshot == early
    parser.close()
    assert early == parser.snapshot
    assert [type(part).__name__ for part in early.message.parts] == ["ReasoningPart", "TextPart", "ToolCallPart"]
    assert early.message.parts == parser.snapshot.message.parts
    assert (early.text, early.message.role) == ("Hi", "model")


@pytest.mark.parametrize("message", [{"content": "Hi"}, {"content": "Hi", "reasoning": "hm"}], ids=["no gap", "a gap"])
def test_chunks_are_counted_as_they_are_handed_out(message: dict[str, Any]) -> None:
    parser = ChatCompletionParser()
    told: list[int] = []
    parser.observe(on_chunks=lambda _, count: told.append(count))
    data = b"".join(sse(chunk({"content": "Hi"}), chunk({}, finish_reason="stop", choice={"message": message})))
    chunks = parser.feed(data)
    assert sum(told) == parser.chunks == len(chunks) == 2 + ("reasoning" in message)
