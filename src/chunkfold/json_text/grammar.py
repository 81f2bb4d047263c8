"""The tokens of JSON, as patterns, for a text that can end within any of them."""

import math
import re
from typing import Final

SPACE: Final = re.compile(r"[ \t\n\r]*")
PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
ESCAPE: Final = re.compile(
    r'\\(?:(["\\/bfnrt])|u([dD][89abAB][\da-fA-F]{2})\\u([dD][c-fC-F][\da-fA-F]{2})|u([\da-fA-F]{4}))'
)
OPEN_ESCAPE: Final = re.compile(
    r"\\(?:u[\da-fA-F]{0,3}|u[dD][89abAB][\da-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][\da-fA-F]?)?)?)?)?)?"
)
_UNESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SCALAR: Final = re.compile(r"[-+.\w]*", re.ASCII)
NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_OPEN_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?(?:[eE][+-]?\d*)?))?", re.ASCII)
WORDS: Final = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what a pattern takes ends; it takes at least nothing."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def may_go_on(token: str) -> bool:
    """Whether a number or a word may begin with these characters."""
    return bool(_OPEN_NUMBER.fullmatch(token)) or any(word.startswith(token) for word in WORDS)


def number_of(token: str) -> int | float:
    """The number that a token is; a `ValueError` if it is none."""
    if not NUMBER.fullmatch(token):
        raise ValueError(token)
    return int(token) if token.removeprefix("-").isdigit() else float(token)


def unescaped(escape: re.Match[str]) -> str:
    """The character that a match of `ESCAPE` stands for; U+FFFD for half of one."""
    simple, high, low, code = escape.groups()
    if simple:
        return _UNESCAPED.get(simple, simple)
    if high:
        return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= int(code, 16) <= 0xDFFF else chr(int(code, 16))
