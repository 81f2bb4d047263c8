"""Promises over all beginnings of a text, read as a type.

Nothing raises, nothing that was shown is taken back, and what was handed out never changes.
"""

import json
from itertools import pairwise
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_beginnings import JSON, fed
from json_types import Cat, CityDict, Dog, Everything, Stop, Trip
from pydantic import Field

from chunkfold import PartialJSON


def may_become(part: Any, whole: Any) -> bool:
    """Whether a value may grow into another one: a string by its end, a list or an object by its last item."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, dict) and isinstance(whole, dict):
        names = list(whole)[: len(part)]
        return list(part) == names and may_become(list(part.values()), [whole[name] for name in names])
    if isinstance(part, list) and isinstance(whole, list) and part:
        *before, last = part
        rest = whole[len(before) :]
        return bool(rest) and repr(before) == repr(whole[: len(before)]) and may_become(last, rest[0])
    return repr(part) == repr(whole) or (part == [] and isinstance(whole, list))


TYPES = [None, Trip, CityDict, dict[str, Any], Annotated[Dog | Cat, Field(discriminator="kind")], Everything, list[int]]


STOPS = st.builds(Stop, price=st.none() | st.floats(allow_nan=False, allow_infinity=False))
TRIPS = st.builds(
    Trip,
    stops=st.lists(STOPS, max_size=2),
    by_name=st.dictionaries(st.text(max_size=4), st.none() | STOPS, max_size=2),
    notes=st.lists(st.text(max_size=8), max_size=3),
    budget=st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
)


@given(TRIPS, st.booleans())
def test_nothing_that_was_shown_is_taken_back(trip: Trip, ascii_only: bool) -> None:
    """Each value may become the next one, and the last is the model."""
    fields = trip.model_dump(mode="json")
    text = json.dumps(fields, ensure_ascii=ascii_only)
    live = PartialJSON(Trip)
    *shown, last = [live.feed(character) for character in text]
    assert last == trip == live.close()
    for before, after in pairwise([{}, *shown, fields]):
        assert may_become(before, after)


RETRACTED = [
    pytest.param({"otherName": "abc", "mixed": "abc"}, id="plain strings"),
    pytest.param({"short": "abcd"}, id="a string as long as it may be"),
    pytest.param({"pet": {"kind": "dog", "born": "2024-01-01", "name": "Rex"}}, id="a date in a discriminated union"),
    pytest.param({"animal": {"kind": "dog", "born": "2024-01-01", "name": "Rex"}}, id="a date in a plain union"),
]


@pytest.mark.parametrize("fields", RETRACTED)
def test_nor_is_anything_of_these(fields: dict[str, Any]) -> None:
    shown = fed(json.dumps(fields), Everything)
    for before, after in pairwise([*shown, fields]):
        assert may_become(before, after)


@given(JSON | TRIPS.map(lambda trip: trip.model_dump(mode="json")), st.sampled_from([*TYPES, Any]), st.booleans())
def test_no_beginning_raises_whatever_the_type(value: Any, as_type: Any, half_numbers: bool) -> None:
    """Nor does it matter whether a text comes at once or piece by piece."""
    text = json.dumps(value)
    live = PartialJSON(as_type, half_numbers=half_numbers)
    shown: list[tuple[Any, str]] = []
    for end, character in enumerate(text, 1):
        shown.append((live.feed(character), repr(live.value)))
        if end % (1 + len(text) // 100) == 0:
            at_once = PartialJSON(as_type, half_numbers=half_numbers).feed(text[:end])
            assert repr(live.value) == repr(at_once)
    for kept, as_it_was in shown:  # a value that was handed out never changes
        assert repr(kept) == as_it_was


def test_what_the_caller_does_to_a_value_is_forgotten() -> None:
    live = PartialJSON(Everything)
    live.feed('{"numbers": [1, ')["numbers"].append(5)
    assert live.feed("2, ") == {"numbers": [1, 2]}
