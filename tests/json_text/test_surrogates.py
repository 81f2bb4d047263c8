"""Texts with half characters: the same as UTF-16 has it, however they are sliced; and copies of JSON values."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.json_text import surrogates
from chunkfold.json_text.surrogates import scrub, well_formed
from chunkfold.json_text.values import copied

SLICE = 3
TEXTS = st.text(st.sampled_from("a?\u00e9\ufffd\N{GRINNING FACE}\U0010ffff\ud83d\ude00"), max_size=4 * SLICE)


@given(TEXTS)
@example("aa\ud83d\ude00")  # a slice would cut the pair
@example("?\ud83d\U0010ffff")  # neither is taken for a half, and nothing is taken for them
def test_pairs_are_joined_and_other_halves_replaced(text: str) -> None:
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert well_formed(text) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogates, "_SLICE", SLICE)
        assert well_formed(text) == expected


def test_scrubbing_changes_every_key_and_text() -> None:
    half = "a\ud83d"
    value = {half: [half, {"b": half, "c": 1}], "d": "\ud83d\ude00", "e": None}
    assert scrub(value) is value
    assert value == {"a\ufffd": ["a\ufffd", {"b": "a\ufffd", "c": 1}], "d": "\N{GRINNING FACE}", "e": None}
    assert scrub(half) == "a\ufffd"
    assert scrub(1) == 1


def test_a_copy_of_what_somebody_put_in_by_hand() -> None:
    by_hand = {"a": [Path("here")]}
    copy = copied(by_hand)
    assert copy == by_hand
    assert copy["a"] is not by_hand["a"]
