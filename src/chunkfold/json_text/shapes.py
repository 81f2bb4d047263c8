"""Find the type that is allowed at each place of a value, so that the value can be checked while it is being written.

A type is split into parts that can be checked one by one: the fields of models, TypedDicts and dataclasses, the items
of lists and similar types, the values of dicts, and for a union those of all its members. A type that cannot be split
is checked as a whole, once its value is complete.
"""

import collections.abc
import dataclasses
import inspect
import types
from collections.abc import Iterator
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Discriminator,
    JsonValue,
    RootModel,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from chunkfold.json_text.parsing import adapter_of

_LISTS: Final = (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Set)
_DICTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_NOTHING: Final = object()
_SOME_TEXT: Final = "\uffff"  # accepted only by a type that accepts any text
_PROBE_SIZES: Final = (1, 65536)  # characters; a type that limits the length is checked with the text itself


class Shape:
    """A type, split into parts as far as possible.

    Attributes:
        takes_all: Whether every JSON value is of this type.
    """

    def __init__(self, as_type: Any, *, is_strict: bool = False, place: "_Place | None" = None) -> None:
        self.takes_all = _takes_all(as_type)
        self._type = as_type
        self._is_strict = is_strict
        self._place = place  # whose own validators also apply
        self._longest_text: int | None = None
        self._members = list(_members_of(as_type))
        self._adapter: TypeAdapter[Any] | None = None
        self._children: dict[tuple[type, str | None], Shape | None] = {}

    def begins_as(self) -> Any:
        """The value before its text arrives: an empty dict if every member of the type has keys, else None."""
        is_keyed = all(member.container is dict for member in self._members) and NoneType not in get_args(self._type)
        return {} if is_keyed else None

    def may_be(self, container: type) -> bool:
        """Whether a dict, or a list, can be checked part by part."""
        return self.takes_all or any(member.container is container for member in self._members)

    def child(self, key: str | None) -> "Shape | None":
        """The type of the value under a key, or for None of a list's items; None if no value is allowed there."""
        if self.takes_all:
            return self
        keys = [member.key for member in self._members if member.container is dict]
        if key is not None and keys and not any(one is None or one.fits(key) for one in keys):
            return None
        name = key if any(key in member.fields for member in self._members) else None  # other keys share one type
        place = (list if key is None else dict, name)
        if place not in self._children:
            self._children[place] = self._new_child(*place)
        return self._children[place]

    def _new_child(self, container: type, name: str | None) -> "Shape | None":
        members = [member for member in self._members if member.container is container]
        found = [(member, member.fields.get(name, member.others)) for member in members]
        found = [(member, as_type) for member, as_type in found if as_type is not _NOTHING]
        if not found:
            return None
        types = [_without_qualifiers(as_type) for _, as_type in found]
        if len(found) > 1:
            return Shape(Union[tuple(types)])  # noqa: UP007 - of any number
        model = found[0][0].model
        if model is None:
            return Shape(types[0], is_strict=self._is_strict)
        config = model.model_config
        may_differ = model.__pydantic_decorators__.field_validators or config.get("coerce_numbers_to_str")
        place = _Place(model, name) if name is not None and may_differ else None
        return Shape(types[0], is_strict=bool(config.get("strict")), place=place)

    def fits(self, value: Any) -> bool:
        """Whether a whole JSON value is of this type. If a validator raises anything, it is not."""
        if self.takes_all or (value is None and NoneType in get_args(self._type)):
            return True
        if self._place is not None:
            return _fits_place(self._place, value)
        try:
            if self._adapter is None:
                self._adapter = adapter_of(self._type)
            self._adapter.validate_json(_json(value), strict=self._is_strict or None)
        except Exception:  # noqa: BLE001 - validators are the user's, and may need the rest of the value
            return False
        return True

    def fits_growing(self, text: str) -> bool:
        """Whether a string that may still grow can be shown: only if any text is allowed there."""
        if self.takes_all:
            return True
        if self._longest_text is None:
            self._longest_text = max((size for size in _PROBE_SIZES if self.fits(_SOME_TEXT * size)), default=0)
        return self._longest_text == _PROBE_SIZES[-1] or (self._longest_text > 0 and self.fits(text))


class _Place(NamedTuple):
    """A model's field, whose own validators also apply."""

    model: type[BaseModel]
    key: str


class _Member(NamedTuple):
    """One type of those that a value may have.

    Attributes:
        container: `dict` or `list`, whose parts are checked one by one; None if a value is checked as a whole.
        fields: The types of its fields by their keys.
        others: The type of all other values in it; `_NOTHING` if there may be none.
        key: What the keys must be, None for any.
        model: The model, if it is one.
    """

    container: type | None
    fields: dict[str | None, Any]
    others: Any
    key: Shape | None = None
    model: type[BaseModel] | None = None


def _takes_all(as_type: Any) -> bool:
    """Whether any JSON value is of a type, or of a member of it."""
    if get_origin(as_type) in (Union, types.UnionType):
        return any(_takes_all(arg) for arg in get_args(as_type))
    return as_type is Any or as_type is object or as_type is JsonValue


def _members_of(as_type: Any) -> Iterator[_Member]:
    """The members of a union, or the one type, without wrappers such as `Annotated`."""
    origin, args = get_origin(as_type), get_args(as_type)
    if origin in (Union, types.UnionType):
        for arg in args:
            if arg is not NoneType:
                yield from _members_of(arg)
    elif (inner := _inner(as_type)) is not None:
        yield from _members_of(inner)
    else:
        yield _member(origin or as_type, args)


def _without_qualifiers(as_type: Any) -> Any:
    """A field's type without `Required`, `NotRequired` or `InitVar` around it."""
    if isinstance(as_type, dataclasses.InitVar):
        return as_type.type  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return _without_qualifiers(get_args(as_type)[0]) if get_origin(as_type) in (Required, NotRequired) else as_type


def _inner(as_type: Any) -> Any:
    """The type inside `Annotated`, a root model, a `NewType` or an alias; None for every other type."""
    if get_origin(as_type) is Annotated:
        return get_args(as_type)[0]
    if inspect.isclass(as_type) and issubclass(as_type, RootModel):
        return _annotation(as_type.model_fields["root"])
    # `NewType` has the first attribute, an alias of the `type` statement the second.
    return getattr(as_type, "__supertype__", None) or getattr(as_type, "__value__", None)


def _member(origin: Any, args: tuple[Any, ...]) -> _Member:
    if inspect.isclass(origin) and issubclass(origin, BaseModel):
        others = Any if origin.model_config.get("extra") == "allow" else _NOTHING
        return _Member(dict, _fields_of(origin), others, model=origin)
    if hasattr(origin, "__required_keys__") or (inspect.isclass(origin) and dataclasses.is_dataclass(origin)):
        try:
            hints = get_type_hints(origin, include_extras=True)
        except Exception:  # noqa: BLE001 - names that cannot be resolved here
            return _Member(dict, {}, Any)
        arguments = dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))
        fields: dict[str | None, Any] = {
            _key_of(name, hint): _substituted(hint, arguments) for name, hint in hints.items()
        }
        return _Member(dict, fields, _NOTHING)
    if origin in _DICTS:
        key, value = args or (Any, Any)
        return _Member(dict, {}, value, None if key in (Any, str) else Shape(key))
    if origin in _LISTS or origin is tuple:
        items = tuple(arg for arg in args if arg is not ...)
        return _Member(list, {}, Union[items] if items else Any)  # noqa: UP007 - as above
    return _Member(None, {}, _NOTHING)


def _key_of(name: str, hint: Any) -> str:
    """The key of a field that is only annotated: its name, unless the annotation has an alias."""
    fields = (extra for extra in get_args(hint)[1:] if isinstance(extra, FieldInfo))
    return next((field.alias for field in fields if field.alias), name)


def _substituted(hint: Any, arguments: dict[Any, Any]) -> Any:
    """A type with the arguments of a generic type for its variables."""
    if isinstance(hint, TypeVar):
        return arguments.get(hint, Any)
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        fields = [extra for extra in extras if isinstance(extra, FieldInfo)]
        rest = [extra for extra in extras if not isinstance(extra, FieldInfo)]
        metadata = [*rest, *(one for field in fields for one in field.metadata)]
        return Annotated[_substituted(inner, arguments), *metadata] if metadata else _substituted(inner, arguments)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(arguments.get(one, Any) for one in variables)] if variables else hint


def _fields_of(model: type[BaseModel]) -> dict[str | None, Any]:
    fields: dict[str | None, Any] = {}
    for name, field in model.model_fields.items():
        fields |= _keys_of(name, field, model)
    return fields


def _keys_of(name: str, field: FieldInfo, model: type[BaseModel]) -> dict[str | None, Any]:
    """The keys of a field, and the type of its value."""
    alias = field.validation_alias if field.validation_alias is not None else field.alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
    keys: dict[str | None, Any] = {}
    for choice in choices:
        if isinstance(choice, AliasPath):
            keys[str(choice.path[0])] = Any  # the field's value is somewhere inside
        else:
            keys[choice] = _annotation(field)
    if model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"):
        keys.setdefault(name, _annotation(field))
    return keys


def _annotation(field: FieldInfo) -> Any:
    metadata = list(field.metadata)
    if field.discriminator is not None:
        metadata.append(
            Discriminator(field.discriminator) if isinstance(field.discriminator, str) else field.discriminator
        )
    return Annotated[field.annotation, *metadata] if metadata else field.annotation


def _fits_place(place: _Place, value: Any) -> bool:
    """Whether a model's own validators accept the value of a field while all its other fields are missing."""
    try:
        place.model.model_validate_json(_json({place.key: value}))
    except ValidationError as error:
        return not any(detail["loc"][:1] == (place.key,) for detail in error.errors(include_url=False))
    except Exception:  # noqa: BLE001 - validators are the user's, and may need the rest of the model
        return False
    return True


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="constants")
