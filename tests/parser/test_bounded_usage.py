"""Usage: its keys are bounded, and each event keeps that of its time."""

from copy import deepcopy

import pytest
from limited import HI, fresh, parsed
from parsed_bodies import fed

from chunkfold import ChatCompletionParser, UsageReceived
from chunkfold.testing import chunk


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
    long = {f"k{n}": n for n in range(101)}
    [sent] = [one.usage for one in parser.feed(chunk(usage={"steps": [[1]], "x": {"y": long}}))]
    sent.model_extra["steps"][0].append(2)
    sent.model_extra["x"]["y"].clear()
    usage = parser.snapshot.model_dump()["usage"]
    assert (usage["steps"], len(usage["x"]["y"])) == ([[1]], 100)
    assert [(one.rule.id, one.detail) for one in parser.anomalies if one.rule.id == "CF404"] == [("CF404", "101 keys")]


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
