"""Join or replace half characters: JSON can escape a character beyond the BMP as two halves, and be cut in between."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from chunkfold.json_text.values import values_in

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SLICE: Final = 2**16  # characters
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONE: Final = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def well_formed(text: str) -> str:
    """The text with split pairs joined and lone surrogates as U+FFFD; the same text where it has none."""
    return "".join(map(_joined, _slices(text))) if _is_split(text) else text


def _slices(text: str) -> Iterator[str]:
    """Slices that cut no pair: joining takes a multiple of the memory of what it joins."""
    start = 0
    while start < len(text):
        end = start + _SLICE
        if "\ud800" <= text[end - 1 : end] <= "\udbff":
            end -= 1
        yield text[start:end]
        start = end


def _joined(text: str) -> str:
    # Not decoded with the handler "replace", which is called for each lone surrogate: there may be millions.
    return _LONE.sub(REPLACEMENT, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _is_split(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def has_surrogates(value: Any) -> bool:
    """Whether any string in a JSON value, key or item, has a surrogate in it."""
    return any(isinstance(item, str) and _is_split(item) for item in values_in(value))


def scrubbed(value: Any) -> Any:
    """The JSON value with split pairs joined within each string and lone surrogates as U+FFFD."""
    return json.loads(well_formed(json.dumps(value, ensure_ascii=False))) if has_surrogates(value) else value
