"""Find the type that is allowed at each place of a value, so that the value can be checked while it is being written.

Pydantic's own schema of a type is split into parts that can be checked one by one: the fields of models, TypedDicts and
dataclasses, the items of lists and similar types, the values of dicts, and for a union those of all its members. What
cannot be split is checked as a whole, once its value is complete.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, to_json

from chunkfold.json_text.values import is_list, is_object

_Schema = Mapping[str, Any]
"""A schema of pydantic-core, which has another `type` for each kind of type."""

_ANY: Final[_Schema] = {"type": "any"}
_NULL: Final[_Schema] = {"type": "none"}
_KEYED: Final = ("model-fields", "typed-dict", "dataclass-args")
_LISTS: Final = ("list", "set", "frozenset", "tuple", "generator")
_SOME_TEXT: Final = "\uffff"  # accepted only by a type that accepts any text
_PROBE_SIZES: Final = (1, 65536)  # characters; a type that limits the length is checked with the text itself


class _Part(NamedTuple):
    """The type of a part of a value, with the configuration of the model that it belongs to, and its field's name."""

    schema: _Schema
    config: Mapping[str, Any] = {}
    name: str = "value"

    @property
    def identity(self) -> tuple[int, int, str]:
        """What tells it from the other parts of the same type; its schema and configuration are that type's own."""
        return id(self.schema), id(self.config), self.name


class _Member(NamedTuple):
    """One type of those that a value may have."""

    container: type | None = None  # `dict` or `list`, checked part by part; None if a value is checked as a whole
    fields: Mapping[str | None, tuple[_Part, ...]] = {}  # the type of each of its fields, by its key
    others: tuple[_Part, ...] = ()  # the types of all other values in it; none if there may be none
    key: "Shape | None" = None  # what the keys must be, None for any


class _Schemas(NamedTuple):
    """What all shapes of one type share."""

    definitions: Mapping[str, _Schema]  # to which other schemas refer
    # Those so far, by their parts: a type that contains itself has few, however deep its values are.
    shapes: dict[tuple[tuple[int, int, str], ...], "Shape"]


class Shape:
    """A type, split into parts as far as possible; `takes_all` says that every JSON value is of it."""

    def __init__(self, parts: tuple[_Part, ...], schemas: _Schemas) -> None:
        self.takes_all = any(_takes_all(part.schema, schemas.definitions) for part in parts)
        self._parts = parts  # a value may be of any of them, each with its own configuration
        self._schemas = schemas
        self._longest_text: int | None = None
        leaves = {leaf.identity: leaf for part in parts for leaf in _leaves_of(part, schemas.definitions)}  # once
        self._members = [_member_of(leaf.schema, leaf.config, schemas) for leaf in leaves.values()]
        self._validators: dict[int, SchemaValidator] = {}
        self._children: dict[tuple[type, str | None], Shape | None] = {}

    def begins_as(self) -> Any:
        """The value before its text arrives: an empty dict if every member of the type has keys, else None."""
        return {} if all(member.container is dict for member in self._members) else None

    def may_be(self, container: type) -> bool:
        """Whether a dict, or a list, can be checked part by part."""
        return self.takes_all or any(member.container is container for member in self._members)

    def child(self, key: str | None) -> "Shape | None":
        """The type of the value under a key, or for None of a list's items; None if no value is allowed there."""
        if self.takes_all:
            return self
        container = list if key is None else dict
        members = [member for member in self._members if member.container is container]
        if key is not None and not any(member.key is None or member.key.fits(key) for member in members):
            return None
        name = key if any(key in member.fields for member in members) else None  # other keys share one type
        if (container, name) not in self._children:
            self._children[container, name] = self._new_child(members, name)
        return self._children[container, name]

    def _new_child(self, members: list[_Member], name: str | None) -> "Shape | None":
        parts = {part.identity: part for member in members for part in member.fields.get(name, member.others)}
        if not parts:
            return None
        shapes, identity = self._schemas.shapes, tuple(parts)
        if identity not in shapes:
            shapes[identity] = Shape(tuple(parts.values()), self._schemas)
        return shapes[identity]

    def fits(self, value: Any) -> bool:
        """Whether a whole JSON value is of this type."""
        return self.takes_all or any(self._is_of(place, value) for place in range(len(self._parts)))

    def _is_of(self, place: int, value: Any) -> bool:
        """Whether a value is of one of the parts. If a validator raises anything, it is not."""
        part = self._parts[place]
        try:
            if place not in self._validators:
                self._validators[place] = self._new_validator(part)
            self._validators[place].validate_json(to_json({part.name: value}, inf_nan_mode="constants"))
        except Exception:  # noqa: BLE001 - validators are the user's, and may need the rest of the value
            return False
        return True

    def _new_validator(self, part: _Part) -> SchemaValidator:
        # As the only field of a model, because a validator of a field may ask for its name and for other fields.
        field = {"type": "model-field", "schema": part.schema}
        model = {"type": "model-fields", "fields": {part.name: field}}
        schema = {"type": "definitions", "schema": model, "definitions": [*self._schemas.definitions.values()]}
        return SchemaValidator(cast("Any", schema), cast("Any", part.config))

    def fits_growing(self, text: str) -> bool:
        """Whether a string that may still grow can be shown: only if any text is allowed there."""
        if self.takes_all:
            return True
        if self._longest_text is None:
            self._longest_text = max((size for size in _PROBE_SIZES if self.fits(_SOME_TEXT * size)), default=0)
        return self._longest_text == _PROBE_SIZES[-1] or (self._longest_text > 0 and self.fits(text))


@lru_cache(maxsize=256)  # which saves the parsing of short texts a half of its time; a class has one adapter
def shape_of(adapter: TypeAdapter[Any]) -> Shape:
    """The shape of the type that an adapter validates."""
    schema: Any = adapter.core_schema
    if schema["type"] != "definitions":
        return Shape((_Part(schema),), _Schemas({}, {}))
    definitions = {definition["ref"]: definition for definition in schema["definitions"]}
    return Shape((_Part(schema["schema"]),), _Schemas(definitions, {}))


def _takes_all(schema: _Schema, definitions: Mapping[str, _Schema]) -> bool:
    """Whether any JSON value is of a type, or of a member of it."""
    if schema["type"].startswith("function"):  # a validator may refuse it
        return False
    return schema["type"] == "any" or any(_takes_all(inner, definitions) for inner in _inside(schema, definitions))


def _inside(schema: _Schema, definitions: Mapping[str, _Schema]) -> list[_Schema]:
    """The members of a union, or the type that is inside a wrapper, such as a default or a validator; else none."""
    match schema:
        case {"type": "definition-ref", "schema_ref": ref}:
            return [definitions[ref]]
        case {"type": "union", "choices": choices}:
            return [choice[0] if isinstance(choice, tuple) else choice for choice in choices]
        case {"type": "tagged-union", "choices": choices}:
            return [*choices.values()]
        case {"type": "nullable", "schema": inner}:
            return [_NULL, inner]
        case {"type": "json-or-python", "json_schema": inner}:
            return [inner]
        case {"type": kind, "schema": inner} if kind != "json":  # which is a text
            return [inner]
        case _:
            return []


def _leaves_of(part: _Part, definitions: Mapping[str, _Schema]) -> Iterator[_Part]:
    """The members of a union, or the one type."""
    schema = part.schema
    config = schema.get("config", part.config)
    inside = _inside(schema, definitions)
    for inner in inside:
        yield from _leaves_of(_Part(inner, config), definitions)
    if not inside:
        yield _Part(schema, config)


def _member_of(schema: _Schema, config: Mapping[str, Any], schemas: _Schemas) -> _Member:
    if schema["type"] in _KEYED:
        extra = schema.get("extra_behavior") or config.get("extra_fields_behavior")
        return _Member(dict, _fields_of(schema["fields"], config), (_Part(_ANY),) if extra == "allow" else ())
    if schema["type"] == "dict":
        keys = schema.get("keys_schema", _ANY)
        is_any = keys["type"] in ("any", "str") and keys.keys() <= {"type", "metadata"}
        key = None if is_any else Shape((_Part(keys),), schemas)
        return _Member(dict, others=(_Part(schema.get("values_schema", _ANY), config),), key=key)
    if schema["type"] in _LISTS:
        items = schema.get("items_schema", _ANY)
        kinds = items if schema["type"] == "tuple" else [items]
        return _Member(list, others=tuple(_Part(kind, config) for kind in kinds))
    return _Member()


def _fields_of(fields: Any, config: Mapping[str, Any]) -> dict[str | None, tuple[_Part, ...]]:
    """The types of fields by the keys that they may have; those of a dataclass come in a list."""
    found: dict[str | None, tuple[_Part, ...]] = {}
    named: Iterable[Any] = fields.items() if is_object(fields) else [(field["name"], field) for field in fields]
    for name, field in named:
        part = _Part(field["schema"], config, name)
        alias: Any = name if config.get("validate_by_alias") is False else field.get("validation_alias", name)
        paths: list[list[Any]] = [[alias]] if isinstance(alias, str) else alias if is_list(alias[0]) else [alias]
        for first, *rest in paths:
            found[first] = (_Part(_ANY) if rest else part,)  # the field's value is somewhere inside
        if config.get("populate_by_name") or config.get("validate_by_name"):
            found.setdefault(name, (part,))
    return found
