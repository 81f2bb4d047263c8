"""The fold of usage: key by key, wherever it stands, and never summed."""

from typing import Any

import pytest
from cases import each_case
from folded_payloads import chunk, fold, noted, said, sent_at_the_top


def counts(prompt: Any = ..., completion: Any = ..., total: Any = ..., **more: Any) -> dict[str, Any]:
    """Usage; `...` leaves a count out."""
    known = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}
    return {name: count for name, count in known.items() if count is not ...}


USAGES = {
    "at the end": ([None, counts(3)], counts(3), set()),
    "null and absent take nothing away": ([counts(3), None, ...], counts(3), set()),
    "cumulative on every chunk: the last, never the sum":
        ([counts(completion=n, total=n) for n in (1, 2, 9)], counts(completion=9, total=9), set()),
    "key by key, the last that is not null": ([counts(3, 1), counts(None, 2)], counts(3, 2), set()),
    "also a smaller one": ([counts(completion=9), counts(completion=4)], counts(completion=4), set()),
    "a 0 never replaces a positive number (MiniMax)": ([counts(3, x=0.5), counts(0, x=0)], counts(3, x=0.5), {"CF401"}),
    "nor a text or a negative number": ([{"x": "a", "y": -1}, {"x": 0, "y": 0}], {"x": 0, "y": 0}, set()),
    "a 0 is a value where none was": ([counts(0, None), counts(3, 0)], counts(3, 0), set()),
    "nor does a number that is too large": ([{"x": 5}, {"x": 2**64}], {"x": 5}, {"CF209"}),
    "details merge alike":
        ([{"prompt_tokens_details": {"cached_tokens": 5, "x": 1},
         "completion_tokens_details": {"reasoning_tokens": 7}},
         {"prompt_tokens_details": {"cached_tokens": 0, "y": 2}, "completion_tokens_details": None}],
         {"prompt_tokens_details": {"cached_tokens": 5, "x": 1, "y": 2},
         "completion_tokens_details": {"reasoning_tokens": 7}}, {"CF401"}),
    "a provider's own keys too":
        ([{"cached_tokens": 1, "cost": 0.1, "tier": "a"}, {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}}],
         {"cached_tokens": 2, "cost": 0.2, "tier": "b", "more": {}}, set()),
    "a total too small by the merge becomes the sum (bridges to Claude)":
        ([counts(10, 1, 11), counts(completion=5, total=5)], counts(10, 5, 15), {"CF402"}),
    "also where a 0 was held back": ([counts(10, 0, 10), counts(0, 5, 5)], counts(10, 5, 15), {"CF401", "CF402"}),
    "a total that was sent too small stays": ([counts(10, 5, 12)] * 2, counts(10, 5, 12), set()),
    "also where a part of it comes again": ([counts(10, 5, 12), counts(10)], counts(10, 5, 12), set()),
    "also beside other keys: it was not the merge that made it so":
        ([{"x": 1}, counts(10, 5, 12)], counts(10, 5, 12, x=1), set()),
    "a larger total stays": ([counts(10, 5, 99), counts(completion=6)], counts(10, 6, 99), set()),
    "a total that is one below the sum": ([counts(10, total=14), counts(completion=5)], counts(10, 5, 15), {"CF402"}),
    "a total that is the sum": ([counts(10, total=15), counts(completion=5)], counts(10, 5, 15), set()),
    "empty": ([{}], {}, set()),
    "the names of another API (mlx-vlm)":
        ([counts(total=16, input_tokens=11, output_tokens=5), {"output_tokens": 7}],
         counts(11, 7, 18, input_tokens=11, output_tokens=7), {"CF402", "CF405"}),
    "one of them": ([{"input_tokens": 3}], {"prompt_tokens": 3, "input_tokens": 3}, {"CF405"}),
    "beside its own":
        ([counts(10, 5, 15, input_tokens=0, output_tokens=0)], counts(10, 5, 15, input_tokens=0, output_tokens=0),
         set()),
    "after its own":
        ([counts(100, 20, 120), {"input_tokens": 3, "output_tokens": 20}],
         counts(100, 20, 120, input_tokens=3, output_tokens=20), set()),
    "unless they are below 0": ([{"output_tokens": -5}], {"output_tokens": -5}, set()),
    "unless they are no counts":
        ([counts(total=3, input_tokens="11", output_tokens=2.5)],
         counts(total=3, input_tokens="11", output_tokens=2.5), set()),
}  # fmt: skip


@each_case(("usages", "expected", "rules"), USAGES.values(), ids=USAGES)
def test_usage(usages: list[Any], expected: dict[str, Any], rules: set[str]) -> None:
    parser = fold(*sent_at_the_top("usage", usages))
    assert parser.completion().usage.model_dump(exclude_none=True) == expected
    assert noted(parser) == rules


GOOD_USAGE = {
    "total_tokens": 5,
    "cached_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "x_details": {"a": 1},
}
WRONG_USAGES = [
    *({"total_tokens": wrong} for wrong in ("many", [1], True, {"a": 1})),
    *({"prompt_tokens_details": wrong} for wrong in ({"cached_tokens": "many"}, 7)),
    *({"cached_tokens": "many"}, {"x_details": "none"}),  # a provider's own count, its own details
    *([], "12"),  # all of it; PHP relays
]


@each_case("wrong", WRONG_USAGES)
def test_a_wrong_count_never_displaces_a_good_one(wrong: Any) -> None:
    for order in ([GOOD_USAGE, wrong], [wrong, GOOD_USAGE]):
        parser = fold(*sent_at_the_top("usage", order))
        assert parser.completion().usage.model_dump(exclude_none=True) == GOOD_USAGE
        assert noted(parser) <= {"CF209"}
    assert noted(fold(*sent_at_the_top("usage", [GOOD_USAGE, wrong]))) == {"CF209"}


def test_usage_has_the_details_that_were_sent() -> None:
    sent = {"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": None, "x": [1]}}
    usage = fold(*said({"content": "a"}), chunk({}, usage=sent)).completion().usage
    assert usage is not None
    details = {"cached_tokens": 0, "x": [1]}
    assert usage.model_dump(exclude_unset=True) == {"prompt_tokens": 4, "prompt_tokens_details": details}


WHERE = {
    "in the chunk": ({"usage": {"total_tokens": 1}}, {}, 1),
    "in the choice (Moonshot)": ({}, {"usage": {"total_tokens": 2}}, 2),
    "in x_groq": ({"x_groq": {"id": "req_1", "usage": {"total_tokens": 3}}}, {}, 3),
    "the chunk before the choice": ({"usage": {"total_tokens": 1}}, {"usage": {"total_tokens": 2}}, 1),
    "the choice before x_groq": ({"x_groq": {"usage": {"total_tokens": 3}}}, {"usage": {"total_tokens": 2}}, 2),
    "a null is not there": ({"usage": None, "x_groq": {"usage": {"total_tokens": 3}}}, {"usage": None}, 3),
    "nor is an empty one": ({"usage": {}, "x_groq": {"usage": {"total_tokens": 3}}}, {}, 3),
    "an empty one before the choice's": ({"usage": {}}, {"usage": {"total_tokens": 2}}, 2),
}  # fmt: skip


@each_case(("top", "choice", "total"), WHERE.values(), ids=WHERE)
def test_where_usage_stands_is_no_anomaly(top: dict[str, Any], choice: dict[str, Any], total: int) -> None:
    parser = fold(chunk({"content": "a"}), chunk({}, finish_reason="stop", choice=choice, **top))
    assert parser.completion().usage.total_tokens == total
    assert noted(parser) == set()


@each_case(("wrong", "received"), [({"usage": []}, "list"), ({"choice": {"usage": "x"}}, "str")])
def test_usage_of_a_wrong_type_is_noted_wherever_it_stands_and_makes_way(wrong: Any, received: str) -> None:
    parser = fold(*said({"content": "a"}), chunk({}, **wrong, x_groq={"usage": {"total_tokens": 3}}))
    assert parser.completion().usage.total_tokens == 3
    assert [one.detail for one in parser.anomalies if one.rule.id == "CF209"] == [
        f"usage: expected an object, received {received}"
    ]


@pytest.mark.parametrize("place", ["top", "choice", "x_groq"])
def test_counts_are_read_from_strings_and_wrong_details_kept_wherever_usage_stands(place: str) -> None:
    counts = {"prompt_tokens": "3", "total_tokens": 5.0, "prompt_tokens_details": {"cached_tokens": "2"}}
    usage = {"usage": {**counts, "completion_tokens_details": "7"}}
    sent = {"top": usage, "choice": {"choice": usage}, "x_groq": {"x_groq": usage}}[place]
    parser = fold(*said({"content": "a"}), chunk({}, **sent))
    counted = parser.completion().usage
    assert (counted.prompt_tokens, counted.total_tokens, counted.cached_tokens) == (3, 5, 2)
    assert counted.raw_values == {"completion_tokens_details": "7"}
    noted_of_types = {one.rule.id: one.count for one in parser.anomalies if one.rule.id in ("CF209", "CF215")}
    assert noted_of_types == {"CF209": 1, "CF215": 3}


def test_usage_after_the_finish_reason() -> None:
    """A trailer with empty choices; NagaAI's has nothing else at all."""
    parser = fold(*said({"content": "a"}), {"choices": [], "usage": {"total_tokens": 4}})
    assert parser.completion().usage.total_tokens == 4
    assert noted(parser) == {"CF206"}  # the trailer has no object
