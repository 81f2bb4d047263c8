"""Beginnings of JSON, and texts that are none; and what is known of them."""

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st

from chunkfold import ParseError, PartialJSON
from chunkfold.testing import StreamBuilder


def partial(text: str, as_type: Any = None, **options: Any) -> Any:
    """What is known of a text at once."""
    return PartialJSON(as_type, **options).feed(text)


def fed(pieces: Iterable[str], as_type: Any = None, **options: Any) -> list[Any]:
    """What is known after each of the pieces."""
    live = PartialJSON(as_type, **options)
    return [live.feed(piece) for piece in pieces]


def refused(call: Callable[[], Any]) -> ParseError:
    """The error of a call that parses."""
    with pytest.raises(ParseError) as caught:
        call()
    return caught.value


def answer(*texts: str, finish: str = "stop") -> StreamBuilder:
    """A stream with these texts, an event each."""
    return StreamBuilder().text(*texts).finish(finish).done()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=5), values, max_size=4),
    max_leaves=12,
)


WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
STRING_ENDS = ('"', 'n"', *("0" * digits + '"' for digits in range(1, 5)))
ENDS = (
    *("", "0", ":0", '"":0', *STRING_ENDS, *(end + ":0" for end in STRING_ENDS)),
    *(word[place:] for word in WORDS for place in range(1, len(word))),
)
STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)', re.DOTALL)


def is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def can_become_json(text: str) -> bool:
    """Whether some end makes it JSON: what was begun is finished in each way there is, what is open is closed."""
    closing: list[str] = []
    for character in STRING.sub("", text):
        if character in "[{":
            closing.append("]" if character == "[" else "}")
        elif closing and character in "]}":
            closing.pop()
    return any(is_json(text + end + "".join(reversed(closing))) for end in ENDS)


TOKENS = ['"', '"a"', '"b": ', "{", "}", "[", "]", ":", ",", " ", "1", "0", "-", ".", "e", "\\", "\\u00", "x", "\n"]
SOUP = st.lists(st.sampled_from([*TOKENS, "true", "nul", "N"]), max_size=7).map("".join)
CHANGED = st.builds(
    lambda text, cut, more: text[: cut % (len(text) + 1)] + more + text[cut % (len(text) + 1) :],
    *(JSON.map(json.dumps), st.integers(0, 200), st.sampled_from(TOKENS)),
).filter(lambda text: r"\u" not in text)
NEAR_JSON = (SOUP | CHANGED).map("[".__add__)
