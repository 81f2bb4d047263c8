"""Whatever stands wherever in what a provider sends: nothing but our errors comes of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from chunkfold import RULES, ChatCompletionParser, ChunkfoldError
from chunkfold.testing import DONE, hostile_streams

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
BODIES = list(dict.fromkeys([*(rule.example for rule in RULES), *(stream.body for stream in hostile_streams())]))


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


def read(event: Any) -> None:
    parser = ChatCompletionParser(one_choice=True)
    for data in (event, {"choices": [{"index": 0, "delta": {"content": "a"}}]}, event):
        parser.feed(b"data: " + json.dumps(data).encode() + b"\n\n")
        parser.events()
    parser.feed(DONE)
    parser.close()
    assert parser.error is None or isinstance(parser.error, ChunkfoldError)
    snapshot = parser.snapshot
    dumped = snapshot.model_dump_json()
    assert type(snapshot).model_validate(json.loads(dumped)).model_dump_json() == dumped
    snapshot.message.to_param()
    for choice in snapshot.choices:
        assert choice.outcome is None or choice.finish_reason


@pytest.mark.parametrize("group", range(8))
@pytest.mark.parametrize("step", [3 * len(VALUES), pytest.param(4, marks=pytest.mark.slow)])
def test_any_value_in_any_place(group: int, step: int) -> None:
    """Each value into one of so many places; the next place gets the next value."""
    number = 0
    seen: set[str] = set()
    for body in BODIES[group::8]:
        for event in objects_in(body):
            shape = json.dumps(event, sort_keys=True)
            if shape in seen or len(shape) > 2_000:
                continue
            seen.add(shape)
            for holder, key in list(places_in(event)):
                before = holder[key]
                number += 1
                for value in VALUES[number % step :: step]:
                    holder[key] = value
                    read(event)
                holder[key] = before
