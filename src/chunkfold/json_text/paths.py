"""Places in a JSON value: keys and list indexes from the root."""

import re
from typing import Any, Final

from chunkfold.excerpts import short_repr
from chunkfold.json_text.values import is_list, is_object

Path = tuple[str | int, ...]
_ABSENT: Final = object()
_NAME: Final = re.compile(r"[^\W\d]\w{0,59}")


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
        if (found := _inner(value, part)) is not _ABSENT:
            path.append(part)
            value = found
    return tuple(path)


def _inner(value: Any, part: str | int) -> Any:
    """What an object or a list holds at a key or a place, `_ABSENT` if nothing."""
    if is_object(value):
        return value.get(str(part), _ABSENT)
    return value[part] if is_list(value) and isinstance(part, int) and part < len(value) else _ABSENT
