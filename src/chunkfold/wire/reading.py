"""Read the JSON of an event, or of a body: also where a strict reader refuses it, but its meaning is clear."""

import json
from typing import Any, Final

from pydantic_core import from_json

from chunkfold import anomalies
from chunkfold.anomalies import Rule
from chunkfold.json_text.parsing import is_wide
from chunkfold.json_text.surrogates import has_surrogates, scrub_keys
from chunkfold.json_text.values import MAX_DEPTH, is_list, is_nested_deeper, is_object

Notes = list[tuple[Rule, str]]
"""What was tolerated: each rule, and the place within the event."""

# Of texts with characters such as emoji: Python stores each of their characters in four bytes, in several copies.
MAX_WIDE_TEXT: Final = 8 * 2**20  # bytes in one event
_LARGE: Final = 2**20  # bytes; reading what cannot be repaired once more takes eight times as many
# Bytes. The text and its values may take four times as many, each; a key that is not UTF-8 takes seven times as many.
_LARGEST_WIDE: Final = 2**24
_BEYOND_REPAIR: Final = ("EOF while", "expected ", "trailing ", "key must be ", "invalid escape", "invalid number")
_NO_JSON: Final = "expected a JSON object, received text that is not JSON"
TOO_LONG: Final = "expected numbers that the interpreter can read, received more digits"
_TOO_WIDE: Final = (
    f"expected at most {_LARGEST_WIDE // 2**20} MiB of JSON to repair, because it has characters of four bytes or is"
    " not UTF-8, received more"
)
_TOO_DEEP: Final = f"expected JSON nested at most {MAX_DEPTH} deep, received deeper"


def read_json(data: bytes, notes: Notes) -> tuple[Any, str]:
    """The JSON value, or None and the problem: other text, or what would take too much to read."""
    try:
        return from_json(data), ""  # what the fast path reads needs no repair, and is not nested deeper
    except ValueError as error:
        problem = str(error)
    if len(data) > _LARGE and problem.startswith(_BEYOND_REPAIR):
        return None, f"{_NO_JSON} ({problem})"
    if len(data) > _LARGEST_WIDE and is_wide(data):
        return None, _TOO_WIDE
    value, problem = _value_of_text(data, notes)
    if b"\\u" in data and has_surrogates(value):
        notes.append((anomalies.SPLIT_SURROGATES, ""))
        scrub_keys(value)  # texts are left to the joiner
    return value, problem


def unwrapped(value: Any, notes: Notes) -> Any:
    """Google wraps an error in a list of one."""
    if is_list(value) and len(value) == 1 and is_object(value[0]):
        notes.append((anomalies.WRAPPED_IN_LIST, ""))
        return value[0]
    return value


def _value_of_text(data: bytes, notes: Notes) -> tuple[Any, str]:
    """The same of data as text, which may be larger than the data. Nothing keeps it: an exception would."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if len(data) > _LARGEST_WIDE:
            return None, _TOO_WIDE
        text = data.decode("utf-8", "replace")
        notes.append((anomalies.NOT_UTF8, ""))
    try:
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = json.loads(text, strict=False)
            notes.append((anomalies.CONTROL_CHARACTERS, ""))
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" starting at")
        return None, f"{_NO_JSON} ({what} at character {error.pos})"
    except RecursionError:
        is_deeper = is_nested_deeper(text, MAX_DEPTH)
        return None, _TOO_DEEP if is_deeper else "expected JSON that the interpreter can read, received deeper nesting"
    except ValueError:
        return None, TOO_LONG
    if is_nested_deeper(text, MAX_DEPTH):  # checked last: several events in one block are many characters
        return None, _TOO_DEEP
    return value, ""
