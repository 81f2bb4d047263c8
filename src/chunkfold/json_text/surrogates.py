"""Join or replace half characters: JSON can escape a character beyond the BMP as two halves, and be cut in between."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from chunkfold.json_text.values import is_list, is_object

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_REPLACEMENT_BYTES: Final = REPLACEMENT.encode()
_SLICE: Final = 2**16  # characters
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile(rb"\xed[\xa0-\xaf].\xed[\xb0-\xbf].", re.DOTALL)


def well_formed(text: str) -> str:
    """The text with split pairs joined and lone surrogates as U+FFFD; the same text where it has none."""
    if not _is_split(text):
        return text
    return _joined(text) if len(text) <= _SLICE else "".join(map(_joined, _slices(text)))


def _slices(text: str) -> Iterator[str]:
    """Slices that cut no pair: decoding takes up to four times the memory of what it decodes."""
    start = 0
    while start < len(text):
        end = start + _SLICE
        if "\ud800" <= text[end - 1 : end] <= "\udbff":
            end -= 1
        yield text[start:end]
        start = end


def _joined(text: str) -> str:
    data = _PAIR.sub(_joined_pair, text.encode("utf-8", "surrogatepass"))
    # Decoding replaces each of the three bytes of a lone surrogate by one U+FFFD; those that were there become three
    # as well. There may be millions, and a handler of errors is called for each.
    data = data.replace(_REPLACEMENT_BYTES, 3 * _REPLACEMENT_BYTES)
    return data.decode("utf-8", "replace").replace(3 * REPLACEMENT, REPLACEMENT)


def _joined_pair(pair: re.Match[bytes]) -> bytes:
    halves = pair[0].decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()


def _is_split(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def has_surrogates(value: Any) -> bool:
    """Whether any string in a JSON value, key or item, has a surrogate in it."""
    return any(map(_is_split, _texts_in(value)))


def _texts_in(value: Any) -> Iterator[str]:
    """The strings in a JSON value, keys among them, without a copy of any."""
    unseen = [value]
    while unseen:
        item = unseen.pop()
        if isinstance(item, str):
            yield item
        elif is_object(item):
            unseen += item
            unseen += item.values()
        elif is_list(item):
            unseen += item


def scrubbed(value: Any) -> Any:
    """The JSON value with split pairs joined within each string and lone surrogates as U+FFFD."""
    return json.loads(well_formed(json.dumps(value, ensure_ascii=False))) if has_surrogates(value) else value
