"""Texts with half characters: the same as UTF-16 has it, however they are sliced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.json_text import surrogates
from chunkfold.json_text.surrogates import well_formed

SLICE = 3
TEXTS = st.text(st.sampled_from("a\u00e9\ufffd\N{GRINNING FACE}\ud83d\ude00"), max_size=4 * SLICE)


@given(TEXTS)
def test_pairs_are_joined_and_other_halves_replaced(text: str) -> None:
    expected = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert well_formed(text) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surrogates, "_SLICE", SLICE)
        assert well_formed(text) == expected
