"""Whatever stands wherever in what a provider sends: nothing but our errors comes of it."""

import json
from copy import deepcopy
from typing import Any

import pytest
from invariants.endings import check_ended
from invariants.readings import Options, curious_reading
from invariants.values import check_anomalies, check_error
from sent_events import places_in, sent_events

from chunkfold import error_from_response
from chunkfold.testing import DONE, event

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
@pytest.mark.parametrize("step", [15 * len(VALUES), pytest.param(4, marks=pytest.mark.slow)])
def test_any_value_in_any_place(group: int, step: int) -> None:
    """Each value into one of so many places; places that are neighbors get values that are far apart, or none."""
    number = 0
    for payload in deepcopy(sent_events()[group::8]):  # `fuzz.made_bodies` uses the same objects
        for holder, key in list(places_in(payload)):
            before = holder[key]
            number += 101
            for value in VALUES[number % step :: step]:
                holder[key] = value
                read(payload)
            holder[key] = before
