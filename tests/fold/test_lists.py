"""The fold of lists: log probabilities, annotations, images, and those of one provider."""

from copy import deepcopy
from typing import Any

import pytest
from cases import each_case
from folded_payloads import chunk, fold, noted, said

LISTS = {
    "images": (lambda items: chunk({"images": items}), lambda choice: choice.message.images),
    "annotations": (lambda items: chunk({"annotations": items}), lambda choice: choice.message.annotations),
    "logprobs.content":
        (lambda items: chunk({}, choice={"logprobs": {"content": items}}), lambda choice: choice.logprobs.content),
    "logprobs.refusal":
        (lambda items: chunk({}, choice={"logprobs": {"refusal": items}}), lambda choice: choice.logprobs.refusal),
}  # fmt: skip


def plain(items: Any) -> Any:
    """Models as what was sent."""
    return [item if isinstance(item, dict) else item.model_dump(exclude_unset=True) for item in items]


@pytest.mark.parametrize(("sent", "found"), LISTS.values(), ids=LISTS)
def test_lists_extend(sent: Any, found: Any) -> None:
    a, b, c = ({"x": letter, "token": letter} for letter in "abc")
    parser = fold(sent([a]), sent([]), sent(None), sent([b, c]), sent([a]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b, c, a]
    assert noted(parser) == set()


@each_case("more", [[], [{"type": "b", "x": [1]}]], ids=["the same", "a longer list"])
def test_annotations_that_are_sent_again_count_once(more: list[Any]) -> None:
    """DashScope's speech recognition sends the language with each piece of text."""
    first = {"type": "audio_info", "language": "zh"}
    parser = fold(*said({"content": "a", "annotations": [first]}, {"content": "b", "annotations": [first, *more]}))
    assert plain(parser.completion().message.annotations) == [first, *more]
    assert noted(parser) == set()


@each_case(
    ("sent", "kept"),
    [
        pytest.param([["a"], ["b", "c"], ["a"]], ["a", "b", "c", "a"], id="new ones with each delta (vLLM)"),
        pytest.param([["a"], ["a"], ["a", "b"]], ["a", "b"], id="all that came so far"),
        pytest.param([[], ["a"], None, []], ["a"], id="none"),
        pytest.param(["x", ["a"]], ["a"], id="a list after another value"),
        pytest.param([["a"], "x"], "x", id="another value after a list"),
    ],
)
def test_citations_in_deltas_accumulate(sent: list[Any], kept: Any) -> None:
    """vLLM sends those of Cohere's models as the text comes; beside the choices, a list is the whole of them."""
    before = deepcopy(sent)
    parser = fold(*said(*({"content": "a", "citations": value} for value in sent)))
    assert parser.completion().message.model_extra == {"citations": kept}
    assert noted(parser) == set()
    assert sent == before


@each_case("raw", ["x", 5, {"x": 1}])
@each_case(("sent", "found"), LISTS.values(), ids=LISTS)
def test_a_value_that_is_no_list_is_kept_raw(sent: Any, found: Any, raw: Any) -> None:
    parser = fold(sent("other"), sent(raw), *said({}))
    (choice,) = parser.completion().choices
    assert found(choice) is None
    holder = choice.logprobs or choice.message
    assert list(holder.raw_values.values()) == [raw]
    assert noted(parser) == {"CF209"}
    # It takes nothing away from a list.
    a, b = {"token": "a"}, {"token": "b"}
    parser = fold(sent(raw), sent([a]), sent(raw), sent([b]), *said({}))
    (choice,) = parser.completion().choices
    assert plain(found(choice)) == [a, b]


def test_other_log_probabilities_add_up() -> None:
    """DeepSeek has those of the reasoning, and Fireworks, if `logprobs` is a number, those of the legacy API."""
    names = ("reasoning_content", "tokens", "token_ids", "token_logprobs", "top_logprobs", "text_offset")
    logprobs = [{"content": None, **{name: [number] for name in names}} for number in range(3)]
    (choice,) = fold(*(chunk({}, choice={"logprobs": one}) for one in logprobs), *said({})).completion().choices
    assert choice.logprobs.model_extra == {name: [0, 1, 2] for name in names}


ITEMS = [{"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "x", "summary": []} for number in range(3)]
TOOLS = [{"index": place, "type": "search", **more} for place in range(2) for more in ({}, {"output": "found"})]


@each_case(
    ("name", "items", "is_sent_back"),
    [
        pytest.param("reasoning_items", ITEMS, True, id="encrypted reasoning (LiteLLM), which the next request needs"),
        pytest.param("executed_tools", TOOLS, False, id="each tool as it is called, and with its output (Groq)"),
        pytest.param("completion_token_ids", [1, 2, 3, 4], False, id="token ids (FastDeploy)"),
        pytest.param("gen_tokens", [1, 2, 3, 4], False, id="token ids (LMDeploy)"),
    ],
)
def test_lists_of_one_provider_extend(name: str, items: list[Any], is_sent_back: bool) -> None:
    message = fold(*said({name: items[:2]}, {name: None}, {"content": "a", name: items[2:]})).completion().message
    assert message.model_extra == {name: items}
    assert message.to_param() == {"role": "assistant", "content": "a", **({name: items} if is_sent_back else {})}


@each_case(
    ("values", "expected"),
    [
        ([{"citation": {"n": 1}}, {"x": 1}, {"citation": {"n": 2}}], {"citations": [{"n": 1}, {"n": 2}], "x": 1}),
        ([{"citation": {"n": 1}}, {"citation": None}], {"citations": [{"n": 1}]}),
        ([{"citations": [[1]]}, {"citations": [[2]]}], {"citations": [[1], [2]]}),
        ([{"citations": [1], "citation": 2}, {"citations": "x", "citation": 3}], {"citations": [1, 2, 3]}),
        ([{"citation": None}], {}),
        (["x"], "x"),
    ],
)
def test_citations_of_litellm_accumulate(values: list[Any], expected: Any) -> None:
    """LiteLLM's proxy in front of Anthropic sends each citation in a delta of its own."""
    sent = deepcopy(values)
    deltas = [{"content": "a", "provider_specific_fields": value} for value in values]
    message = fold(*said(*deltas)).completion().message
    assert message.model_extra == {"provider_specific_fields": expected}
    assert values == sent  # what was folded is not changed
    assert "provider_specific_fields" not in message.to_param()


def test_unknown_keys_of_logprobs_are_kept_and_null_is_none() -> None:
    logprobs = [None, {"content": None, "x": 1}, {"refusal": None, "x": 2, "y": None}]
    (choice,) = fold(*(chunk({}, choice={"logprobs": one}) for one in logprobs), *said({})).completion().choices
    assert choice.logprobs.model_dump() == {"content": None, "refusal": None, "x": 2}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([[1], None, [2, 3], []], [1, 2, 3], id="lists"),
        pytest.param(["x", [1]], [1], id="a list after another value"),
        pytest.param([[1], "x"], "x", id="another value is an unknown key"),
    ],
)
def test_token_ids_of_a_choice_extend(values: list[Any], expected: Any) -> None:
    """vLLM's `return_token_ids`."""
    (choice,) = fold(*(chunk({}, choice={"token_ids": one}) for one in values), *said({})).completion().choices
    assert choice.model_extra == {"token_ids": expected}


def test_images_of_any_kind_extend_and_are_output() -> None:
    parser = fold(*said({"images": ["data:a"]}, {"images": [{"image_url": {"url": "b"}}]}))
    assert parser.completion().message.images == ["data:a", {"image_url": {"url": "b"}}]
    assert parser.emitted_output
