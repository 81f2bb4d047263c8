"""Usage, whose keys are bounded, and numbers that mean nothing: of thousands of digits, or more than 64 bits."""

import sys
from copy import deepcopy
from functools import partial

import pytest
from cases import each_case
from limited import HI, STOP, call, fresh
from linear import assert_linear
from parsed_bodies import fed, parsed

from chunkfold import ChatCompletionParser, UsageReceived
from chunkfold.parser.holes import VALUE
from chunkfold.testing import DONE, choice, chunk, delta, event


def test_keys_of_usage_are_bounded() -> None:
    parser = fed(HI, max_output_size=2)
    for n in range(30):
        details = {f"d{n}": n, "deep": {**fresh(n, n)}}
        parser.feed(chunk(usage={**fresh(n, n), "details": details, "x": {"y": fresh(n, n)}}))
    parser.feed(chunk(usage={"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3, **fresh(0, 1)}}))
    usage = parser.snapshot.usage
    assert (usage.prompt_tokens, usage.cached_tokens, parser.end) == (7, 3, None)
    assert len(usage.model_dump_json()) < 10_000
    assert "CF404" in {anomaly.rule.id for anomaly in parser.anomalies}


def test_keys_of_one_usage_are_bounded() -> None:
    parser = parsed(chunk(usage={"prompt_tokens": 5, **{f"k{n}": n for n in range(300)}}))
    usage = parser.snapshot.usage
    assert usage.model_extra == {f"k{n}": n for n in range(100)}


def test_a_detail_that_has_a_type_comes_after_any_number_of_others() -> None:
    parser = ChatCompletionParser()
    for details in ({"cached_tokens": 3, **fresh(0, 300)}, {"audio_tokens": 4}):
        parser.feed(chunk(usage={"prompt_tokens_details": details}))
    details = parser.snapshot.usage.prompt_tokens_details
    assert (details.cached_tokens, details.audio_tokens) == (3, 4)


def test_lists_and_long_objects_in_usage() -> None:
    """They are the snapshot's own; of an object's keys the first hundred are kept, at every level."""
    parser = ChatCompletionParser()
    whole, long = ({f"k{n}": n for n in range(count)} for count in (100, 101))
    [sent] = [one.usage for one in parser.feed(chunk(usage={"steps": [[1]], "x": {"w": whole, "y": long}}))]
    sent.model_extra["steps"][0].append(2)
    sent.model_extra["x"]["y"].clear()
    usage = parser.snapshot.model_dump()["usage"]
    assert (usage["steps"], usage["x"]["w"], len(usage["x"]["y"])) == ([[1]], whole, 100)
    [noted] = [(one.count, one.detail) for one in parser.anomalies if one.rule.id == "CF404"]
    assert noted == (1, "101 keys")


def usage_of(place: int) -> bytes:
    return chunk(usage={"prompt_tokens": place, "details": {"x": place}, f"key{place}": 1})


def test_an_event_keeps_the_usage_of_its_time() -> None:
    parser = ChatCompletionParser()
    parser.events()
    for place in range(1, 200):
        parser.feed(usage_of(place))
    events = [event for event in parser.events() if isinstance(event, UsageReceived)]
    assert [event.usage.prompt_tokens for event in events] == list(range(1, 200))
    assert [(event.usage.model_extra or {})["details"]["x"] for event in events] == list(range(1, 200))
    first = events[0]
    assert first.usage is first.usage
    assert first == UsageReceived(first.usage) == deepcopy(first)
    assert "prompt_tokens=1" in repr(first)
    first.usage.prompt_tokens = 1000
    assert parser.snapshot.usage.prompt_tokens == 199
    with pytest.raises(AttributeError):
        _ = first.nothing  # type: ignore[attr-defined]


HUGE = 10**4000
NUMBERS: dict[str, list[bytes]] = {
    "counts": [chunk(usage={"prompt_tokens": HUGE, "completion_tokens": HUGE, "total_tokens": 1})] * 2,
    "details": [chunk(usage={"prompt_tokens_details": {"cached_tokens": HUGE}, "x": HUGE})],
    "counts in a choice": [chunk({**choice(), "usage": {"prompt_tokens": HUGE}})],
    "a choice": [
        chunk({"index": HUGE, "delta": {"content": "x"}, "finish_reason": "stop"}),
        chunk({"index": HUGE, "message": {}, "finish_reason": "length"}),
        chunk({"index": HUGE, "delta": {"content": "x"}}),
    ],
    "a creation": [chunk(created=HUGE)],
    "a call": [
        call(index=HUGE, id="a", x=HUGE, function={"name": "f", "arguments": "{}", "x": HUGE}),
        call(index=HUGE, id="b", function={"name": "g", "arguments": "{}"}),
    ],
    "a call's id": [call(index=0, id=HUGE, function={"name": "f", "arguments": "{}"})],
    "arguments that are an object": [call(index=0, function={"name": "f", "arguments": {"x": HUGE}})],
    "unknown fields": [chunk({**choice(content="x"), "x": HUGE}, x=HUGE)],
    "reasoning details": [delta(reasoning_details=[{"type": HUGE, "index": HUGE, "id": HUGE, "data": HUGE}])],
    "an image": [delta(images=[HUGE, {"x": [HUGE]}])],
    "log probabilities": [chunk({**choice(), "logprobs": {"x": HUGE, "content": [{"bytes": [HUGE]}]}})],
    "a wrong type": [delta(role=HUGE)],
    "an error's code": [event({"error": {"message": "m", "code": HUGE, "type": "x"}})],
    "an error without an envelope": [event({"message": "m", "code": HUGE})],
    "an object of no name": [event({"message": "m", "object": HUGE})],
}


def test_learning_from_a_string_without_an_end_is_linear() -> None:
    assert_linear(lambda size: partial(VALUE.split, b':"' + b'\\"' * size), 2_000)


@each_case("digits", [4300, 640])
@each_case("name", NUMBERS)
def test_numbers_of_very_many_digits_raise_nothing_but_our_errors(name: str, digits: int) -> None:
    """The interpreter refuses to print them, and may be told to refuse more."""
    body = b"".join(NUMBERS[name])
    sys.set_int_max_str_digits(digits)
    try:
        for strict in (False, True):
            parser = ChatCompletionParser(strict=strict)
            parser.events()
            shown = repr([parser.feed(body), parser.events(), parser.snapshot, parser.close(), parser.events()])
            shown += repr([parser.snapshot, parser.anomalies, parser.error, parser.error and parser.error.retryable])
            assert len(shown) < 50_000
            usage = parser.snapshot.usage
            assert parser.timing.tokens_per_second(usage and usage.prompt_tokens) is None
    finally:
        sys.set_int_max_str_digits(4300)


def test_a_count_of_more_than_64_bits_is_kept_raw() -> None:
    counts = {"prompt_tokens": 2**63 - 1, "completion_tokens": 2**63, "total_tokens": 1e30}
    parser = parsed(chunk(choice(content="Hi"), usage=counts) + STOP + DONE)
    assert [anomaly.rule.id for anomaly in parser.anomalies] == ["CF403", "CF209"]
    assert "usage.completion_tokens: expected an integer of 64 bits" in parser.anomalies[0].detail
    usage = parser.snapshot.model_dump()["usage"]
    assert usage["completion_tokens"] is usage["total_tokens"] is None
    assert usage["raw_values"] == {"completion_tokens": 2**63, "total_tokens": 1e30}


def test_a_count_that_means_nothing_never_displaces_one() -> None:
    parser = parsed(chunk(usage={"prompt_tokens": 5}) + chunk(usage={"prompt_tokens": HUGE}))
    assert parser.snapshot.usage.prompt_tokens == 5
