"""Live JSON raises for what can never become JSON, and for nothing else; what it showed does not change."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from chunkfold import ParseError, PartialJSON
from chunkfold.json_text.surrogates import scrub
from invariants.holding import FEW_BYTES, hold, plain, same
from invariants.values import check_error

LONG_NUMBER = 1000  # characters from which on a number is judged when it has ended


def check_json(text: str, cuts: Iterable[int] = (), as_type: Any = None, *, half_numbers: bool = False) -> None:
    """Live JSON raises for what can never become JSON, and for nothing else; what it showed does not change."""
    whole = _fed([text], as_type, half_numbers)
    pieces = [
        text[start:end] for start, end in pairwise([0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)])
    ]
    has_long_number = any(len(word) > LONG_NUMBER for word in text.split())
    for several in (pieces, list(text) if len(text) <= FEW_BYTES else pieces):
        live = _fed(several, as_type, half_numbers)
        if has_long_number:
            continue
        same("whether it raises does not depend on the cuts", live.failed_at is None, whole.failed_at is None)
        if live.failed_at is None:
            same("nor does the value", live.last, whole.last)
            same("nor does the end", live.end, whole.end)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        hold("what is no JSON has no value", whole.end.startswith("ParseError"), whole.end)
    else:
        hold("what is JSON does not raise", whole.failed_at is None, whole)
        if as_type is None:
            same("what is JSON is its value", whole.end, plain(scrub(value)))


class _Fed(NamedTuple):
    failed_at: int | None
    last: str
    end: str


def _fed(pieces: list[str], as_type: Any, half_numbers: bool) -> _Fed:
    live = PartialJSON(as_type, half_numbers=half_numbers)
    shown: list[tuple[Any, str]] = []
    failed_at = None
    for piece in pieces:
        try:
            value = live.feed(piece)
        except ParseError as error:
            check_error(error)
            hold("a text that is wrong now is no text that was cut", not error.cut)
            hold("an error has its place", error.position is not None and 0 <= error.position <= len(error.text), error)
            failed_at = error.position
            break
        shown.append((value, plain(value)))
    for value, before in shown:
        same("a value that was handed out does not change", plain(value), before)
    last = plain(live.value)
    try:
        end = plain(live.close()) if failed_at is None else "ParseError"
    except ParseError as error:
        check_error(error)
        end = f"ParseError {error.position} {error.cut} {error}"
    return _Fed(failed_at, last, end)
