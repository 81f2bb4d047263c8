"""Excerpts: the beginning of a `repr`, without printing the rest."""

import re
from typing import Any

from cases import each_case
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.excerpts import excerpt, excerpt_of, short_repr

LIMIT = 30
LEAVES = st.none() | st.booleans() | st.integers() | st.text("ab", max_size=LIMIT + 5) | st.binary(max_size=5)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=9), inner, max_size=4)
)


@given(VALUES)
def test_it_is_the_beginning_of_the_repr(value: Any) -> None:
    whole = repr(value)
    assert excerpt(value, LIMIT) == (whole if len(whole) <= LIMIT else whole[:LIMIT] + "...")


@each_case("text", [sign * count for sign in "x\xe9\u5b57\U0001f600" for count in (0, 198, 199, 5000)])
def test_the_excerpt_of_data_is_that_of_its_text(text: str) -> None:
    assert excerpt_of(text.encode()) == excerpt(text)


class _Counted:
    """A value that counts how often any is printed."""

    printed = 0

    def __repr__(self) -> str:
        type(self).printed += 1
        return "x"


@each_case(
    "value",
    [[_Counted()] * 1000, [[_Counted()] * 1000] * 1000, dict.fromkeys(range(1000), [_Counted()] * 1000)],
    ids=["a list", "lists", "a dict of lists"],
)
def test_what_is_not_shown_is_not_printed(value: Any) -> None:
    _Counted.printed = 0
    assert "x, x" in excerpt(value, LIMIT)
    assert _Counted.printed <= LIMIT


def test_depth_beyond_what_is_shown_is_not_looked_at() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert excerpt(value, LIMIT) == "[" * LIMIT + "..."


def test_numbers_of_very_many_digits_show_their_size() -> None:
    shown = "<an integer of 16610 bits>"
    assert excerpt(10**5000) == shown
    assert excerpt([1, 10**5000]) == f"[1, {shown}]"
    assert excerpt({"a": 10**5000}) == f"{{'a': {shown}}}"
    assert short_repr(10**5000) == shown
    assert re.fullmatch(r"10+\.\.\.0+", short_repr(10**600))
