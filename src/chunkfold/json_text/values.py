"""JSON values: their types for type checkers, places in them, their depth and size, and copies of them."""

import marshal
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final, TypeGuard

from chunkfold.excerpts import short_repr

Path = tuple[str | int, ...]
"""A place in a JSON value: keys and list indexes from the root."""
MAX_DEPTH: Final = 500
"""How many levels of objects and lists JSON may have."""
# For fields of dataclasses: `list[str]` and `dict[str, Any]` take ten times as long to make one.
new_list: Final[Callable[[], list[Any]]] = list
new_dict: Final[Callable[[], dict[Any, Any]]] = dict
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_NAME: Final = re.compile(r"[^\W\d]\w{0,59}")
_WITHOUT_REFERENCES: Final = 2  # the version of marshal's format


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a JSON value is a list."""
    return isinstance(value, list)


def is_container(value: Any) -> TypeGuard[dict[str, Any] | list[Any]]:
    """Whether a JSON value holds others."""
    return isinstance(value, (dict, list))


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a JSON value is a whole number; `true` is not one."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_int64(value: Any) -> TypeGuard[int]:
    """Whether a JSON value is a whole number of 64 bits, as tables and telemetry hold them. No real count is larger."""
    return type(value) is int and -(2**63) <= value < 2**63


def objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none if the value is not a list."""
    return [item for item in value if is_object(item)] if is_list(value) else []


def dotted(path: Path) -> str:
    """A path as it is written in a message: `choices[0].delta.content`; a key that is not a name is quoted, shortened.

    Pydantic's `[key]` after a key means that key itself, instead of its value.
    """
    return "".join(map(_step, path)).removeprefix(".") or "the value"


def _step(part: str | int) -> str:
    if part == "[key]":
        return " (the key)"
    return f".{part}" if _NAME.fullmatch(str(part)) else f"[{short_repr(part)}]"


def existing_path(loc: Path, value: Any) -> Path:
    """The parts of a pydantic location that exist in the value: unions add parts that do not."""
    path: list[str | int] = []
    for part in loc:
        key: Any = part if is_list(value) else str(part)
        with suppress(LookupError, TypeError):
            value = value[key]
            path.append(part)
    return tuple(path)


def is_nested_deeper(text: str, limit: int) -> bool:
    """Whether a JSON text is nested deeper than the limit; checked before anything parses it."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        sign = text[token.start()]
        if sign in "[{":
            depth += 1
            if depth > limit:
                return True
        elif sign != '"':
            depth -= 1
    return False


def copied(value: Any) -> Any:
    """A deep copy of a JSON value, made through bytes: that is fast, and needs little stack however deep the value is.

    The bytes are `marshal`'s, not JSON, because no interpreter prints integers of very many digits.
    """
    try:
        return marshal.loads(marshal.dumps(value, _WITHOUT_REFERENCES))  # noqa: S302 - written by the same line
    except ValueError:  # something that was put into a model by hand
        return deepcopy(value)


def with_shared_texts(value: Any) -> Any:
    """A copy of a JSON value that shares its texts: a copy of one may take four times its bytes."""
    whole = [value]
    for holder in containers_in(whole):
        for key in places_in(holder):
            if is_container(holder[key]):
                holder[key] = holder[key].copy()
    return whole[0]


def containers_in(value: Any) -> Iterator[Any]:
    """The objects and lists of a JSON value, itself first. Each may be changed before the next is taken."""
    unseen = [value] if is_container(value) else []
    while unseen:
        holder = unseen.pop()
        yield holder
        unseen += [item for item in values_in(holder) if isinstance(item, (dict, list))]


def values_in(holder: Any) -> Iterable[Any]:
    """The values of an object, or the items of a list."""
    return holder.values() if is_object(holder) else holder


def contents_of(holder: Any) -> Iterable[Any]:
    """The keys and the values of an object, or the items of a list."""
    return [*holder, *holder.values()] if is_object(holder) else holder


def places_in(holder: Any) -> Iterable[Any]:
    """The keys of an object, or the indexes of a list."""
    return holder if is_object(holder) else range(len(holder))


def size_of(holder: Any) -> int:
    """Roughly how many characters an object or a list has; more than none."""
    contents = (item for inner in containers_in(holder) for item in contents_of(inner))
    return 1 + sum(map(_length, contents))


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return 1 + (value.bit_length() // 8 if isinstance(value, int) else 0)
