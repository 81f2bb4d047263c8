"""The base of all models: unknown fields are kept, types are exact, and wrong values are kept raw where allowed."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeGuard, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetPydanticSchema, ValidationError
from pydantic_core import core_schema

from chunkfold import anomalies
from chunkfold.anomalies import Rule
from chunkfold.excerpts import Excerpt, bounded, short_repr
from chunkfold.json_text.values import Path, copied, dotted, existing_path, is_container, is_object

RAW_VALUES: Final = "raw_values"
_MOST_WRONG: Final = 25_000  # a kilobyte each, while they are listed
_SHOWN_UNKNOWN: Final = 8

_INT64: Final = "an integer of 64 bits"
_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "less_than": _INT64,
    "greater_than_equal": _INT64,
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}


class WrongType(NamedTuple):
    """A value that is not of its field's type: the place, the expected type, the received one."""

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

    @property
    def rule(self) -> Rule:
        """The rule that the value breaks: an integer of too many bits is a deviation of its own."""
        return anomalies.COUNT_TOO_LARGE if self.expected == _INT64 else anomalies.WRONG_TYPE

    def __str__(self) -> str:
        """Like "choices[0].index: expected an integer, received str"."""
        return f"{dotted(self.path)}: expected {self.expected}, received {type(self.value).__name__}"


AnyString: Final = GetPydanticSchema(lambda _source, _handler: core_schema.str_schema())
"""Annotates a `Literal` that accepts any string: type checkers narrow by it, and providers send other words, too."""


def null_as(default: Any) -> BeforeValidator:
    """Annotates a field of a completion whose null means its default: openai-python dumps missing values as null."""
    return BeforeValidator(lambda value: default if value is None else value)


class Uncompared:
    """A value kept beside a model's fields, never changed: models that differ in it alone are equal."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uncompared)

    def __hash__(self) -> int:
        return 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Model(BaseModel):
    """A value as a provider sent it. Unknown fields are kept in `model_extra` and come out of `model_dump`."""

    # Strict: a number in a string is a deviation worth noting, so it is repaired in one named place, not in passing.
    # Built at their first use: importing stays fast.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", strict=True, protected_namespaces=(), defer_build=True
    )

    # Whether a value of a wrong type keeps its name, as everything that was sent does in a chunk. The value is then an
    # unknown field, which the attribute returns too, so code that needs the right type reads `vars(model)`.
    _has_raw_fields: ClassVar[bool] = False

    @property
    def raw_values(self) -> dict[str, Any]:
        """The values of a completion whose type is not that of their field, by field; the field itself is None.

        They are kept at the level at which they were sent, in `model_extra` and in dumps. A chunk has none: its fields
        keep such values.
        """
        kept = (self.__pydantic_extra__ or {}).get(RAW_VALUES)
        return kept if is_object(kept) else {}

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Short values, so that logs show only excerpts of a content; fields that are None are left out."""
        fields = type(self).model_fields
        known = [(name, value) for name, value in super().__repr_args__() if name in fields and value is not None]
        unknown = [(short_repr(name)[1:-1], value) for name, value in (self.__pydantic_extra__ or {}).items()]
        for name, value in [*known, *unknown[:_SHOWN_UNKNOWN]]:
            yield name, Excerpt(value)
        if len(unknown) > _SHOWN_UNKNOWN:
            yield None, Excerpt(...)

    def __repr__(self) -> str:
        return bounded(super().__repr__())

    def __str__(self) -> str:
        return bounded(super().__str__())


ModelT = TypeVar("ModelT", bound=Model)

_SLOTS: Final = vars(BaseModel)
_new: Final = object.__new__
_set_fields: Final = _SLOTS["__dict__"].__set__
_set_present: Final = _SLOTS["__pydantic_fields_set__"].__set__
_set_extra: Final = _SLOTS["__pydantic_extra__"].__set__
_set_private: Final = _SLOTS["__pydantic_private__"].__set__


def copier_of(model: ModelT) -> Callable[[], ModelT]:
    """A function that returns an independent copy of a model, as it is when the function is called.

    A copy takes half the time of validating the same JSON, since the tree of models is walked only once, here. So only
    single values may change from call to call, no list or object. Private attributes are not copied: the models of a
    chunk have none, and no object as the value of a field.
    """
    kind, fields, present = type(model), vars(model), model.__pydantic_fields_set__
    extra = cast("dict[str, Any]", model.__pydantic_extra__)
    copy_extra = partial(copied, extra) if any(map(is_container, extra.values())) else extra.copy
    values = [(name, value) for name, value in fields.items() if value is not None]
    inner = [(name, _copier(value)) for name, value in values if isinstance(value, (list, Model))]

    def copy() -> ModelT:
        new = _new(kind)
        own = fields.copy()
        for name, copy_value in inner:
            own[name] = copy_value()
        _set_fields(new, own)
        _set_present(new, present.copy())
        _set_extra(new, copy_extra())
        _set_private(new, None)
        return new

    return copy


def _copier(value: Any) -> Callable[[], Any]:
    if is_model(value):
        return copier_of(value)
    if not all(map(is_model, value)):
        return (lambda: [*map(dict[str, Any].copy, value)]) if _is_flat(value) else partial(copied, value)
    copiers = [copier_of(item) for item in value]
    if len(copiers) == 1:  # nearly always: saves 3 % of a chunk
        [only] = copiers
        return lambda: [only()]
    return lambda: [copy_item() for copy_item in copiers]


def _is_flat(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a list has only objects of single values: copying them one by one saves OpenRouter 10 %."""
    return all(is_object(item) and not any(map(is_container, item.values())) for item in value)


def is_model(value: Any) -> TypeGuard[Model]:
    """Whether a value is one of these models."""
    return isinstance(value, Model)


def validate_leniently(kind: type[ModelT], value: dict[str, Any]) -> tuple[ModelT, list[WrongType]]:
    """Validate a dict that is ours to change; values of a wrong type are kept raw, and listed.

    A chunk, which is what was sent, keeps such a value under its own name. Any other model keeps it in
    `raw_values`, and its field has its default.

    Raises:
        ValueError: There are more than 25,000 of them.
    """
    wrong: list[WrongType] = []
    raw: dict[Path, Any] = {}
    while True:
        try:
            model = kind.__pydantic_validator__.validate_python(value)
            break
        except ValidationError as error:
            if error.error_count() > _MOST_WRONG:
                raise ValueError(f"expected at most {_MOST_WRONG} fields of a wrong type, received more") from None
            found = list(_wrong_types(error, value))
        wrong += found
        # Outer fields first: what lies inside a field that is kept raw goes with it.
        for field in sorted(dict.fromkeys(one.field for one in found), key=len):
            if not field:
                raise TypeError(str(found[0]))
            if existing_path(field, value) == field:
                raw[field] = _walk(value, field[:-1]).pop(field[-1])
    for field, kept in raw.items():
        holder, unknown = _walk(model, field[:-1]), {str(field[-1]): kept}
        if kind._has_raw_fields:  # pyright: ignore[reportPrivateUsage] - of this module
            holder.__dict__.pop(field[-1], None)
        else:
            unknown = {RAW_VALUES: holder.raw_values | unknown}
        holder.__pydantic_extra__.update(unknown)  # where dumps find it
        holder.__pydantic_fields_set__.update(unknown)
    return model, wrong


def for_completion(model: ModelT) -> ModelT:
    """A copy of a model of a chunk as a completion has it: values of a wrong type are in `raw_values`."""
    return validate_leniently(type(model), model.model_dump(exclude_unset=True))[0]


def with_unknown(unknown: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a completion and copies of the unknown ones; a raw value of one of the fields is in `raw_values`."""
    if not unknown:
        return {**fields}
    kept = copied_fields(unknown)
    raw = {name: kept.pop(name) for name in unknown if name in fields}
    if raw:
        known = kept.get(RAW_VALUES)
        kept[RAW_VALUES] = {**(known if is_object(known) else {}), **raw}
    return {**kept, **fields}


def copied_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of fields that can be changed. Texts are shared: copying one takes up to five times its memory."""
    return {name: copied(value) if is_container(value) else value for name, value in fields.items()}


def _wrong_types(error: ValidationError, value: Any) -> Iterator[WrongType]:
    """The fields that failed, each once, by its path in the value."""
    expected: dict[Path, list[str]] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        path = existing_path(detail["loc"], value)
        expected.setdefault(path, []).append(_EXPECTED.get(detail["type"], detail["msg"]))
    for path, kinds in expected.items():
        yield WrongType(path, " or ".join(dict.fromkeys(kinds)), _walk(value, path))


def _walk(value: Any, path: Path) -> Any:
    for part in path:
        value = getattr(value, str(part)) if isinstance(value, BaseModel) else value[part]
    return value
