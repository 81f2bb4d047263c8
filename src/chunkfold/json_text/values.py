"""The type of a JSON value for type checkers, and copies of such values."""

import marshal
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final, TypeGuard

MAX_DEPTH: Final = 500
"""How many levels of objects and lists JSON may have."""
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
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
    """Whether a JSON value is a whole number; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


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
    unseen: list[Any] = [whole]
    while unseen:
        holder = unseen.pop()
        for key in _keys(holder):
            if is_container(holder[key]):
                holder[key] = holder[key].copy()
                unseen.append(holder[key])
    return whole[0]


def _keys(value: Any) -> Iterable[Any]:
    """The keys of an object, or the indexes of a list."""
    return value if is_object(value) else range(len(value))


def values_in(value: Any) -> Iterator[Any]:
    """A JSON value and everything in it, including keys, in no particular order and without copying."""
    unseen = [value]
    while unseen:
        item = unseen.pop()
        yield item
        if is_object(item):
            unseen += item
            unseen += item.values()
        elif is_list(item):
            unseen += item


def size_of(value: Any) -> int:
    """Roughly how many characters a JSON value has; more than none."""
    return sum(len(item) if isinstance(item, str) else 1 for item in values_in(value))
