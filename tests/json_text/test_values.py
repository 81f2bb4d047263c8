"""Copies of JSON values."""

from pathlib import Path

from chunkfold.json_text.values import copied


def test_a_copy_of_what_somebody_put_in_by_hand() -> None:
    by_hand = {"a": [Path("here")]}
    copy = copied(by_hand)
    assert copy == by_hand
    assert copy["a"] is not by_hand["a"]
