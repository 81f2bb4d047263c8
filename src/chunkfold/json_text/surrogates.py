"""Join or replace half characters: JSON can escape a character beyond the BMP as two halves, and be cut in between."""

import re
from collections.abc import Iterator
from typing import Any, Final

from chunkfold.json_text.values import containers_in, contents_of, is_object, places_in

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_SLICE: Final = 2**16  # characters
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_NONCHARACTER: Final = "\U0010ffff"  # which texts do not have


def well_formed(text: str) -> str:
    """The text with split pairs joined and lone surrogates as U+FFFD; the same text where it has none."""
    if len(text) <= _SLICE:
        return _joined(text) if _is_split(text) else text
    holder = [text]
    make_well_formed(holder, 0)
    return holder[0]


def make_well_formed(holder: Any, key: str | int) -> None:
    """Change a text in an object or a list as `well_formed` does. If nothing else refers to it, it is freed first."""
    if len(holder[key]) <= _SLICE:
        holder[key] = well_formed(holder[key])
    elif _is_split(holder[key]):
        parts = [*_slices(holder[key])]
        holder[key] = REPLACEMENT
        for place, part in enumerate(parts):
            parts[place] = _joined(part)
        holder[key] = "".join(parts)


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
    if _PAIR.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if _NONCHARACTER in text:
        return _SURROGATE.sub(REPLACEMENT, text)
    # There may be millions of lone surrogates, and for these encoding them as question marks takes a fifth of the time.
    encoded = text.replace("?", _NONCHARACTER).encode("utf-8", "replace")
    return encoded.decode().replace("?", REPLACEMENT).replace(_NONCHARACTER, "?")


def _is_split(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def has_surrogates(value: Any) -> bool:
    """Whether any string in a JSON value, key or item, has a surrogate in it."""
    texts = (item for holder in containers_in([value]) for item in contents_of(holder) if isinstance(item, str))
    return any(map(_is_split, texts))


def scrub(value: Any) -> Any:
    """Change the JSON value: join split pairs within each string, and make lone surrogates U+FFFD; return it.

    Nothing is copied, since a text may be as large as an event, and take four times its bytes.
    """
    whole = [value]
    for holder in containers_in(whole):
        if is_object(holder):
            _scrub_own_keys(holder)
        for key in places_in(holder):
            if isinstance(holder[key], str):
                make_well_formed(holder, key)
    return whole[0]


def scrub_keys(value: Any) -> None:
    """Change the JSON value so that no key of an object has a surrogate."""
    for fields in filter(is_object, containers_in(value)):
        _scrub_own_keys(fields)


def _scrub_own_keys(fields: dict[str, Any]) -> None:
    if any(map(_is_split, fields)):
        items = [(well_formed(key), item) for key, item in fields.items()]
        fields.clear()
        fields.update(items)
