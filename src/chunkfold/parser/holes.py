"""Find the values in which events that are alike differ, and the fields of the chunk that have them.

The bytes of the events say where the values are, but not which fields they are. So a chunk is made with a marker in
each of these places, and each marker has to appear in the chunk in exactly one field.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from pydantic_core import from_json, to_json

from chunkfold.json_text.values import is_container, is_list, is_object
from chunkfold.models.base import Model, is_model
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.content import PART_TEXTS, read_part
from chunkfold.wire.payload import chunk_from_json

VALUE: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\d-][\d.eE+-]*+)', re.DOTALL)
"""A string or number of JSON; of the numbers, only integers can be in a hole.

A string without an end goes to the end of the data, so that the search does not start in it again and again.
"""
_LISTS: Final = frozenset({"choices", "tool_calls", "reasoning_details"})  # of which the fold keeps nothing as it is


class Field(NamedTuple):
    """A field of a chunk, at any depth."""

    holder: dict[str, Any]
    key: str


class Hole(NamedTuple):
    """One value that changes: its field, its type, and the bytes between it and the next hole."""

    holder: dict[str, Any]
    key: str
    kind: type[str] | type[int]
    after: bytes  # empty for the last hole


def holes_of(
    chunk: ChatCompletionChunk, parts: list[bytes], changed: list[int]
) -> tuple[ChatCompletionChunk, list[Hole]] | None:
    """A chunk like the given one, and its holes for the parts with these numbers; None if one is not just one value."""
    given = [from_json(parts[number]) for number in changed]
    if not {*map(type, given)} <= {str, int}:
        return None
    markers = [f"value {n}" if isinstance(value, str) else 10**9 + n for n, value in enumerate(given)]
    tried = [*parts]
    for number, marker in zip(changed, markers, strict=True):
        tried[number] = to_json(marker)
    try:
        like = chunk_from_json(b"".join(tried))
        found = [field for field in _fields(like) if field.holder[field.key] in markers]
    except ValueError:
        return None
    by_marker = {field.holder[field.key]: field for field in found}
    if not len(found) == len(by_marker) == len(markers):
        return None
    holes: list[Hole] = []
    for number, following, marker, value in zip(changed, [*changed[1:], 0], markers, given, strict=True):
        holder, key = by_marker[marker]
        holder[key] = value
        holes.append(Hole(holder, key, type(value), b"".join(parts[number + 1 : following])))
    return (like, holes) if like == chunk else None  # else a field has the value that was tried elsewhere


def _fields(model: Model) -> Iterator[Field]:
    """The fields that have single values, but for nulls; a `ValueError` if the fold may keep a list or an object."""
    fields, unknown = vars(model), unknown_of(model)
    for key, value in fields.items():
        if is_model(value):
            yield from _fields(value)
        elif is_list(value) and key in _LISTS:
            for item in value:
                yield from _fields(item) if is_model(item) else _fields_of_object(item)
        elif is_list(value) and key == "content":
            for part in value:
                yield from _fields_of_part(part)
        elif is_container(value):
            raise ValueError(f"{key}: expected one value, received several")
        elif value is not None:
            yield Field(fields, key)
    # A hole in a list or an object is not found.
    yield from (Field(unknown, key) for key, value in unknown.items() if not is_container(value))


def _fields_of_object(item: Any) -> Iterator[Field]:
    if not is_object(item) or any(map(is_container, item.values())):
        raise ValueError("expected an object of single values")
    return (Field(item, key) for key in item)


def _fields_of_part(part: Any) -> Iterator[Field]:
    """The fields of a content part that has a text. Its type is not one: with a marker in its place no text is read."""
    if not is_object(part) or read_part(part)[0] == "other":
        raise ValueError("expected a part with a text")
    for key, value in part.items():
        if key in PART_TEXTS and is_list(value):
            for item in value:
                yield from _fields_of_object(item)
        elif not is_container(value):
            yield Field(part, key)


def unknown_of(model: Model) -> dict[str, Any]:
    """The unknown fields of a model of a chunk."""
    return cast("dict[str, Any]", model.__pydantic_extra__)
