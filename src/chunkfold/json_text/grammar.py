"""Patterns for the tokens of JSON, in a text that may end inside any of them."""

import re
from typing import Final

SPACE: Final = re.compile(r"[ \t\n\r]*")
PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
ESCAPE: Final = re.compile(
    r"\\(?:[\"\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|u[0-9a-fA-F]{4})"
)
OPEN_ESCAPE: Final = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?"
)
_WORDS: Final = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
# A whole word ends where it is complete: what follows is wrong there, however the text was cut.
SCALAR: Final = re.compile("|".join((*_WORDS, r"[-+.\w]*")), re.ASCII)
NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_OPEN_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?(?:[eE][+-]?\d*)?))?", re.ASCII)


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of what a pattern matches at a place; that place itself if it matches nothing."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def is_unfinished(token: str) -> bool:
    """Whether more text can complete these characters to a number or a word, or make the number longer."""
    return token not in _WORDS and (
        bool(_OPEN_NUMBER.fullmatch(token)) or any(word.startswith(token) for word in _WORDS)
    )
