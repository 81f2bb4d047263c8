"""Text to values: the JSON of an answer, or of a tool call's arguments."""

import json
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, TypeVar, overload

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from chunkfold.errors import ParseError, excerpt

T = TypeVar("T")
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_OPEN_NUMBERS = (".", "e", "E", "e+", "e-", "E+", "E-")


@overload
def parse_json(text: str, as_type: type[T]) -> T: ...
@overload
def parse_json(text: str, as_type: None = None) -> Any: ...
def parse_json(text: str, as_type: Any = None) -> Any:
    """Read the whole text as JSON, into `as_type` where one is given (anything pydantic can validate).

    Raises:
        ParseError: The text is no JSON (`cut` says whether it ended too early), or not of that type.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(text, error) from None
    if as_type is None:
        return value
    try:
        return adapter_of(as_type).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the value"
        name = getattr(as_type, "__name__", as_type)
        msg = f"expected {name}, received JSON that does not fit: {place}: {first['msg']} (in {excerpt(text)})"
        raise ParseError(msg, text=text, path=first["loc"]) from error


def adapter_of(as_type: Any) -> TypeAdapter[Any]:
    """What validates values of a type; made once for each.

    Raises:
        TypeError: Pydantic knows nothing to do with it.
    """
    try:
        return _cached_adapter(as_type) if isinstance(as_type, Hashable) else TypeAdapter(as_type)
    except PydanticUserError as error:
        msg = f"type: expected a type that pydantic can validate, received {excerpt(as_type)}"
        raise TypeError(msg) from error


@lru_cache(maxsize=256)
def _cached_adapter(as_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(as_type)


def _no_json(text: str, error: Exception) -> ParseError:
    position = error.pos if isinstance(error, json.JSONDecodeError) else None
    cut = isinstance(error, json.JSONDecodeError) and _is_cut(text, error)
    what = "expected whole JSON, received text that ends too early" if cut else "expected JSON, received other text"
    at = "" if position is None else f" at character {position}"
    return ParseError(f"{what}{at}: {excerpt(text)}", text=text, position=position, cut=cut)


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether more text could have made it JSON: it fails at its end, or in something that its end leaves open."""
    rest = text[error.pos :].rstrip()
    if error.msg.startswith("Unterminated string") or rest in _OPEN_NUMBERS:
        return True
    if error.msg.startswith("Invalid \\"):
        return len(rest) < len(r"\u0000")
    return any(word.startswith(rest) for word in _LITERALS)


def without_placeholder(arguments: str) -> str:
    """A call's arguments as JSON: no text at all is an empty object, a `{}` before another object is dropped."""
    text = arguments.strip() or "{}"
    rest = text[2:].lstrip() if text.startswith("{}") else ""
    return rest if rest.startswith("{") else text
