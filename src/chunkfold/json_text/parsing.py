"""Read a whole JSON text, and validate its value."""

import inspect
import json
import re
from functools import lru_cache
from itertools import accumulate, islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from chunkfold.excerpts import excerpt
from chunkfold.json_text.values import MAX_DEPTH, is_nested_deeper

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

OBJECT: Final[Any] = dict[str, Any]  # the type of any JSON object
_PYDANTIC_DEPTH: Final = 200  # levels of objects and lists; pydantic reads no deeper JSON

# Everything up to the next comma or opening bracket outside of strings, or up to the end, so that every try matches:
# a search that fails would start again at each byte.
_ITEM: Final = re.compile(rb'(?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+([,\[{]|\Z)', re.DOTALL)
# Characters that make Python keep four bytes for each one of their text, as they are and escaped.
_WIDE_BYTE: Final = rb"\xf0-\xf4"
_WIDE_PAIR: Final = rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]"
_WIDE_BYTES: Final = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))
_HAS_WIDE_PAIR: Final = re.compile(_WIDE_PAIR, re.DOTALL)
# Everything up to the next string with such a character, and that string; or up to the end, as in `_ITEM`.
_WIDE_STRING: Final = re.compile(
    rb'(?:[^"]++|"[^"\\%(byte)b]*+(?:(?!%(pair)b)\\[^%(byte)b][^"\\%(byte)b]*+)*+(?:"|\\?\Z))*+'
    rb'(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)"?|\Z)' % {b"byte": _WIDE_BYTE, b"pair": _WIDE_PAIR},
    re.DOTALL,
)

_NOT_BLANK: Final = re.compile(r"\S")


def has_more_items(data: bytes, most: int | None) -> bool:
    """Whether JSON has more than `most` items: commas and opening brackets outside of strings; None allows any number.

    An empty object in a list counts 2, a number 1. The data need not be JSON. Data with no more bytes than the limit is
    not counted; else the cost is linear.
    """
    return most is not None and len(data) > most and count_items(data, most) > most


def count_items(data: bytes, most: int) -> int:
    """The number of items, but at most one more than the limit."""
    items = (match for match in _ITEM.finditer(data) if match[1])
    return sum(1 for _ in islice(items, most + 1))


def is_wide(data: bytes) -> bool:
    """Whether JSON has characters that make Python keep four bytes for each one of their text.

    Looked for quickly: half a pair behind an escaped backslash and `ud83d` is taken for one.
    """
    # One search for each byte takes a tenth of one search for all of them.
    return any(lead in data for lead in _WIDE_BYTES) or _HAS_WIDE_PAIR.search(data) is not None


def has_more_wide_text(data: bytes, most: int) -> bool:
    """Whether the strings in JSON that have such characters have more bytes. The data need not be JSON; linear."""
    if len(data) <= most or not is_wide(data):
        return False
    places = (string.span(1) for string in _WIDE_STRING.finditer(data))
    return any(size > most for size in accumulate(end - start for start, end in places))


def adapter_of(as_type: Any) -> TypeAdapter[Any]:
    """The validator of a type, one for each class; a `TypeError` if pydantic cannot validate it."""
    # Not for other types: unions that are equal, for instance, may list their members in another order.
    return _adapter_of(as_type) if isinstance(as_type, type) or as_type is OBJECT else _new_adapter(as_type)


def _new_adapter(as_type: Any) -> TypeAdapter[Any]:
    reason = "a function, which validating would call"
    if isinstance(as_type, BaseModel):
        reason = "a value of a type"
    elif not inspect.isroutine(as_type):
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(as_type)
            if adapter.pydantic_complete or adapter.rebuild(raise_errors=False):
                return adapter
            reason = "a type that names another one which is not defined"
        except Exception as error:  # noqa: BLE001 - pydantic has several, and some types raise their own
            reason = str(error).partition("\n")[0]
    raise TypeError(f"type: expected a type that pydantic can validate, received {excerpt(as_type)}: {reason}")


_adapter_of = lru_cache(maxsize=256)(_new_adapter)


def load_json(text: str) -> Any:
    """The value of a whole JSON text, with U+FFFD for half a surrogate pair; a `ValueError` or a `RecursionError`.

    How deep the interpreter reads depends on its version and on the calls so far; 500 levels are the most anywhere.
    """
    if is_nested_deeper(text, MAX_DEPTH):
        raise ValueError(f"expected at most {MAX_DEPTH} levels")
    return json.loads(_with_whole_pairs(text))


def is_json(text: str) -> bool:
    """Whether a text is whole JSON that the interpreter can read."""
    try:
        load_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def validate_json(text: str, as_type: Any) -> Any:
    """The value of a whole JSON text as a type, or what its validators raise, usually a `ValidationError`."""
    adapter = adapter_of(as_type)
    if is_nested_deeper(text, _PYDANTIC_DEPTH):
        return adapter.validate_python(load_json(text))
    return adapter.validate_json(_with_whole_pairs(text))


def _with_whole_pairs(text: str) -> str:
    """A JSON text with escaped halves of surrogate pairs as U+FFFD: pydantic refuses them. Places stay the same."""
    if "\\u" not in text:
        return text
    from chunkfold.json_text.grammar import ESCAPE  # loaded only for escapes

    return ESCAPE.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], text)


def name_of(as_type: Any) -> str:
    """A type as it is written in code, without modules: `list[City]`, `City | None`."""
    origin, args = get_origin(as_type), get_args(as_type)
    if origin is Annotated:
        return name_of(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(name_of, args))
    if origin is Literal:
        return " | ".join(map(repr, args))
    if args:
        return f"{name_of(origin)}[{', '.join(map(name_of, args))}]"
    if as_type is NoneType:
        return "None"
    return "..." if as_type is ... else str(getattr(as_type, "__name__", as_type))


def first_of_equal(text: str) -> str:
    """The first of several JSON values that are equal, however each is written; all of the text if one is not."""
    whole, decode = _with_whole_pairs(text), json.JSONDecoder().raw_decode
    try:
        first, end = decode(whole)
        place, same = end, json.dumps(first, sort_keys=True)
        while (start := _NOT_BLANK.search(whole, place)) is not None:
            value, place = decode(whole, start.start())
            if json.dumps(value, sort_keys=True) != same:
                return text
    except (ValueError, RecursionError):
        return text
    return text[:end]
