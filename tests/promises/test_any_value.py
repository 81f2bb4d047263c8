"""Whatever stands wherever in what a provider sends: nothing but our errors comes of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from invariants.endings import check_ended
from invariants.readings import Options, curious_reading
from invariants.values import check_anomalies, check_error

from chunkfold import RULES, error_from_response
from chunkfold.testing import DONE, event, hostile_streams

PLAIN = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "a",
    "null",
    "\x1c7",  # stripped by `str`, not by `int`
    [],
    [[]],
    [{}],
    [None],
    ["a"],
    {},
    {"a": 1},
    {"type": []},
]
# Fields that neither the examples of the rules nor the hostile set have.
RARE = {
    "choices": [
        {
            "delta": {
                "function_call": {"name": "f", "arguments": "{}"},
                "tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "g", "input": "x"}}],
                "audio": {"id": "b", "data": "AAAA", "transcript": "a", "expires_at": 1},
                "images": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                "annotations": [{"type": "url_citation", "url_citation": {"title": "t", "url": "u", "start_index": 0}}],
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "id": "r", "text": "hm", "summary": "h"}],
                "unknown": 1,
            },
            "logprobs": {"content": [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": [{"token": "a"}]}]},
            "unknown": 1,
        },
        {"index": 1, "message": {"reasoning_content": "hm", "audio": {"data": "AAAA"}, "function_call": {"name": "f"}}},
    ],
    "usage": {"prompt_tokens_details": {"cached_tokens": 1}, "unknown": 1},
    "service_tier": "default",
    "system_fingerprint": "fp",
    "unknown": 1,
}
BODIES = list(
    dict.fromkeys([event(RARE), *(rule.example for rule in RULES), *(stream.body for stream in hostile_streams())])
)


def objects_in(body: bytes) -> Iterator[Any]:
    """The JSON objects that a body is made of."""
    for line in (body if len(body) < 4_000 else b"").splitlines():
        for prefix in (b"data: ", b"data:", b"error: ", b""):
            try:
                value = json.loads(line.removeprefix(prefix))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
                break


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value, and a key or a place in it."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        yield value, key
        yield from places_in(inner)


def read(payload: Any) -> None:
    """In a stream, twice, then as the data of an event named error; and as the body of a refusal."""
    pieces = [b"".join(map(event, (payload, PLAIN, payload))), event(payload, "error") + DONE]
    reading = curious_reading(pieces, Options(one_choice=True))
    check_ended(reading)
    check_error(error_from_response(500, {}, json.dumps(payload).encode()))
    check_anomalies(reading.parser.anomalies, sum(map(len, pieces)))
    snapshot = reading.parser.snapshot
    dumped = snapshot.model_dump_json()
    assert type(snapshot).model_validate(json.loads(dumped)).model_dump_json() == dumped


@pytest.mark.parametrize("group", range(8))
@pytest.mark.parametrize("step", [3 * len(VALUES), pytest.param(4, marks=pytest.mark.slow)])
def test_any_value_in_any_place(group: int, step: int) -> None:
    """Each value into one of so many places; the next place gets the next value."""
    number = 0
    seen: set[str] = set()
    for body in BODIES[group::8]:
        for payload in objects_in(body):
            shape = json.dumps(payload, sort_keys=True)
            if shape in seen or len(shape) > 2_000:
                continue
            seen.add(shape)
            for holder, key in list(places_in(payload)):
                before = holder[key]
                number += 1
                for value in VALUES[number % step :: step]:
                    holder[key] = value
                    read(payload)
                holder[key] = before
