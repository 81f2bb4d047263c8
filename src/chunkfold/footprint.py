"""How much is kept of what came: a rough size in characters, for a limit that nothing slips under.

Counted is what there is, not what came, so nothing has to be added up on the way. It depends on the content alone, and
costs as much as there is.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, TypeGuard, cast

from pydantic import BaseModel

from chunkfold.json_values import is_list, is_object
from chunkfold.text_buffer import TextBuffer

_EACH: Final = 8
_EACH_WITH_FIELDS: Final = 32  # an object, a list
_NOT_KEPT: Final = frozenset({"log", "_log", "observer"})  # what a state only refers to


def footprint(value: Any) -> int:
    """The size of JSON values, models, and the accumulator's own states, with all that is in them."""
    size = 0
    counted: set[int] = set()
    unseen = [value]
    while unseen:
        value = unseen.pop()
        if isinstance(value, str):
            size += _EACH + len(value)
        elif isinstance(value, TextBuffer):
            size += _EACH_WITH_FIELDS + value.tell()
        elif isinstance(value, int):
            size += _EACH + value.bit_length() // 8
        elif value is None or isinstance(value, float):
            size += _EACH
        elif id(value) not in counted:  # a call is found by its id and by its index, too
            counted.add(id(value))
            size += _EACH_WITH_FIELDS
            unseen += _parts(value)
    return size


def _is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _parts(value: Any) -> Iterable[Any]:
    if is_object(value):
        return chain(value, value.values())
    if is_list(value) or _is_tuple(value):
        return value
    if isinstance(value, BaseModel):
        return [*vars(value).values(), value.__pydantic_extra__]
    names = cast("Iterable[str]", getattr(value, "__slots__", None) or vars(value))
    return [getattr(value, name) for name in names if name not in _NOT_KEPT]
