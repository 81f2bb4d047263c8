"""What all models share: unknown fields are kept, types are exact, wrong ones are kept raw where that is allowed."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from chunkfold.brief import Excerpt, brief, whole
from chunkfold.json_values import is_list, is_object

Path = tuple[str | int, ...]
_ABSENT: Final = object()
_NAME: Final = re.compile(r"[^\W\d]\w{0,59}")
_SHOWN_UNKNOWN: Final = 8

_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


class WrongType(NamedTuple):
    """A value that is not of its field's type: where, what was expected, what came."""

    path: Path
    expected: str
    value: Any

    @property
    def field(self) -> Path:
        """The place of the field that holds the value: the path up to its last key."""
        end = len(self.path)
        while end and isinstance(self.path[end - 1], int):
            end -= 1
        return self.path[:end]

    def __str__(self) -> str:
        """Like "choices[0].index: expected an integer, received str"."""
        return f"{dotted(self.path)}: expected {self.expected}, received {type(self.value).__name__}"


class AnyString:
    """Annotates a word that type checkers may narrow by, where providers have words of their own: any string goes."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.str_schema()


class Aside:
    """A value kept beside a model's fields: models that differ in it alone are equal.

    Args:
        value: The value; never changed.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aside)

    def __hash__(self) -> int:
        return 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Model(BaseModel):
    """A value as a provider sent it. Unknown fields are kept in `model_extra` and come out of `model_dump`."""

    # Strict: a number in a string is a deviation worth noting, so it is repaired in one named place, not in passing.
    # Built at their first use: importing stays fast.
    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=(), defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Brief values: what is printed or logged has no more of a content than excerpts."""
        fields = type(self).model_fields
        known = [(name, value) for name, value in super().__repr_args__() if name in fields]
        unknown = [(brief(name)[1:-1], value) for name, value in (self.__pydantic_extra__ or {}).items()]
        for name, value in [*known, *unknown[:_SHOWN_UNKNOWN]]:
            yield name, Excerpt(value)
        if len(unknown) > _SHOWN_UNKNOWN:
            yield None, Excerpt(...)

    def __repr__(self) -> str:
        return whole(super().__repr__())

    def __str__(self) -> str:
        return whole(super().__str__())

    @classmethod
    def validate_leniently(cls, value: dict[str, Any]) -> tuple[Self, list[WrongType]]:
        """Validate a dict that is ours to change; fields of a wrong type are kept raw, and listed."""
        wrong: list[WrongType] = []
        raw: dict[Path, Any] = {}
        while True:
            try:
                model = cls.model_validate(value)
                break
            except ValidationError as error:
                found = list(wrong_types(error, value))
            wrong += found
            # Outer fields first: what lies inside a field that is kept raw goes with it.
            for field in sorted({one.field for one in found}, key=len):
                if not field:
                    raise TypeError(str(found[0]))
                holder = _holder(value, field)
                if holder is not None:
                    raw[field] = holder.pop(str(field[-1]))
        for field, kept in raw.items():
            keep_raw(_walk(model, field[:-1]), str(field[-1]), kept)
        return model, wrong


def keep_raw(model: BaseModel, name: str, value: Any) -> None:
    """Keep a value that is not of its field's type beside the unknown fields, where attributes and dumps find it."""
    vars(model).pop(name, None)
    cast("dict[str, Any]", model.__pydantic_extra__)[name] = value
    model.__pydantic_fields_set__.add(name)


def wrong_types(error: ValidationError, value: Any) -> Iterator[WrongType]:
    """The fields that failed, each once, by the place where it stands in the value."""
    expected: dict[Path, list[str]] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        path = existing_path(detail["loc"], value)
        expected.setdefault(path, []).append(_EXPECTED.get(detail["type"], detail["msg"]))
    for path, kinds in expected.items():
        yield WrongType(path, " or ".join(dict.fromkeys(kinds)), _walk(value, path))


def dotted(path: Path) -> str:
    """A path as it is written in a message: `choices[0].delta.content`; a key that is no name is quoted, in brief."""
    parts = (
        f".{part}" if _NAME.fullmatch(str(part)) else f"[{part if part == '[key]' else brief(part)}]" for part in path
    )
    return "".join(parts).removeprefix(".") or "the event"


def existing_path(loc: Path, value: Any) -> Path:
    """Follow a pydantic location as far as it exists in the value (unions add parts that do not)."""
    path: list[str | int] = []
    for part in loc:
        value = _inner(value, part)
        if value is _ABSENT:
            break
        path.append(part)
    return tuple(path)


def _inner(value: Any, part: str | int) -> Any:
    """What an object or a list holds at a key or a place, `_ABSENT` if nothing."""
    if is_object(value):
        return value.get(str(part), _ABSENT)
    return value[part] if is_list(value) and isinstance(part, int) and part < len(value) else _ABSENT


def _walk(value: Any, path: Path) -> Any:
    for part in path:
        value = getattr(value, str(part)) if isinstance(value, BaseModel) else value[part]
    return value


def _holder(value: Any, field: Path) -> dict[str, Any] | None:
    """The object that holds a field; None if it is gone with another field already."""
    for part in field[:-1]:
        value = _inner(value, part)
    return value if is_object(value) and field[-1] in value else None
