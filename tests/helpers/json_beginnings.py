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


NEVER = [
    pytest.param("nope", id="text"),
    pytest.param("Sure! {", id="text before it"),
    pytest.param("```json\n{", id="a fence"),
    pytest.param("{'a'", id="single quotes"),
    pytest.param("{,", id="a comma for a key"),
    pytest.param('{"a": }', id="no value"),
    pytest.param("[1,]", id="a comma too many"),
    pytest.param('{"a": 1,}', id="a comma too many in an object"),
    pytest.param("[trux", id="a misspelt literal"),
    pytest.param("[nul]", id="a literal that is cut by more"),
    pytest.param("[+1", id="a sign too many"),
    pytest.param("[.5", id="a number without its first digit"),
    pytest.param("[--1", id="two signs"),
    pytest.param('"a\n', id="a line break in a string"),
    pytest.param('{"a\n', id="a line break in a key"),
    pytest.param('"\x1f', id="the last control character"),
    pytest.param('{"a"=1', id="another sign for a colon"),
    pytest.param('["\\q', id="an escape that there is not"),
    pytest.param("\ufeff{", id="a BOM"),
    pytest.param("[1 2", id="a comma is missing"),
    pytest.param("[1 2, 3, 4]", id="a comma was missing"),
    pytest.param('["a" "b', id="a comma is missing between strings"),
    pytest.param('{"a": 1 "b": 2', id="a comma is missing in an object"),
    pytest.param('{"a" "b', id="a colon is missing"),
    pytest.param('{"a": "b"c', id="a letter behind a string"),
    pytest.param("[true false", id="two literals"),
    pytest.param("[1-2]", id="two numbers"),
    pytest.param("[01", id="a leading zero"),
    pytest.param("[1.2.3", id="two points"),
    pytest.param("[1.,", id="no digit behind the point"),
    pytest.param("[1e5e", id="two exponents"),
    pytest.param("[1-2", id="a sign behind a digit"),
    pytest.param("{1", id="a number for a key"),
    pytest.param('{"a" 1', id="a number for a colon"),
    pytest.param("[:", id="a colon for a value"),
    pytest.param('"\\u00g', id="a letter among hexadecimal digits"),
    pytest.param('"\\u00\N{ARABIC-INDIC DIGIT ONE}', id="a digit beyond ASCII in an escape"),
    pytest.param('"\\u000\N{ARABIC-INDIC DIGIT ONE}"', id="a digit beyond ASCII at the end of an escape"),
    pytest.param("[}", id="a brace for a bracket"),
    pytest.param('{"a": 1]', id="a bracket for a brace"),
    pytest.param('{"a":}', id="a brace for a value"),
    pytest.param('{"a"}', id="a brace for a colon"),
    pytest.param("]", id="a bracket of nothing"),
    pytest.param('{"a": 1} and more', id="text behind it"),
    pytest.param('{"a": 1}{', id="an object behind it"),
    pytest.param("[1]]", id="a bracket too many"),
    pytest.param('"a" "b"', id="two strings"),
    pytest.param("1 2", id="two numbers that are all"),
    pytest.param("\xa0", id="a blank that is none of JSON's"),
    pytest.param("\x0b\x0c", id="other blanks"),
    pytest.param("[\u0661", id="a digit that is none of JSON's"),
    pytest.param('{"a": 1}t', id="a word's beginning behind it"),
    pytest.param('["\\q and so on", 1', id="an escape that there is not, and more"),
    pytest.param("[1 t", id="a literal for a comma"),
    pytest.param("{t", id="a literal for a key"),
    pytest.param("[1 .", id="a point for a comma"),
    pytest.param("truee", id="a letter too many"),
    pytest.param('{"a": x}', id="a bare word"),
    pytest.param('["\\q"]', id="an escape that there is not, and the end"),
    pytest.param('["\\u12"]', id="half a code point, and the end"),
]


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
