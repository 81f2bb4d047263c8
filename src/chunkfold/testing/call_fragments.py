"""The fragments of a tool call, for each of the ways that `Dialect.calls` names."""

import json
from collections.abc import Callable
from typing import Any, Final

from chunkfold.testing.dialects import Calls, Dialect
from chunkfold.testing.steps import SaidCall
from chunkfold.testing.wire import fragment


def fragments_of(call: SaidCall, index: int, dialect: Dialect) -> list[dict[str, Any]]:
    """The fragments of the call at this index."""
    parts = _FRAGMENTS[dialect.calls](call, index)
    return [_with_object(part) for part in parts] if dialect.object_arguments and len(call.pieces) == 1 else parts


def _with_object(part: dict[str, Any]) -> dict[str, Any]:
    """A fragment whose arguments, if they are the JSON of an object, are that object."""
    function = part["function"]
    try:
        arguments = json.loads(function.get("arguments", ""))
    except (ValueError, RecursionError):
        return part
    return {**part, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else part


def _whole(call: SaidCall, index: int | None) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, "".join(call.pieces))]


def _in_pieces(
    call: SaidCall, index: int | None, id: str | None, later_id: str | None = None, later_name: str | None = None
) -> list[dict[str, Any]]:
    """The id and the name first, then the pieces, of which each has the later id and name."""
    later = (fragment(index, later_id, later_name, piece) for piece in call.pieces)
    return [fragment(index, id, call.name, ""), *later]


def _repeated(call: SaidCall, index: int) -> list[dict[str, Any]]:
    return [fragment(index, call.id, call.name, piece) for piece in call.pieces or ("",)]


def _fresh_ids(call: SaidCall, index: int) -> list[dict[str, Any]]:
    numbered = enumerate(call.pieces, 1)
    later = [fragment(index, f"{call.id}_{number}", arguments=piece) for number, piece in numbered]
    return [fragment(index, call.id, call.name, ""), *later]


def _name_in_two(call: SaidCall, index: int) -> list[dict[str, Any]]:
    first, *rest = _halves(call.name)
    name = [fragment(index, call.id, first), *(fragment(index, name=piece) for piece in rest)]
    return [*name, *(fragment(index, arguments=piece) for piece in call.pieces)]


def _halves(name: str) -> tuple[str, ...]:
    """A name in two pieces, unless the second would look like a repetition of the first."""
    first, second = name[: len(name) // 2], name[len(name) // 2 :]
    return (first, second) if first and not second.startswith(first) else (name,)


_FRAGMENTS: Final[dict[Calls, Callable[[SaidCall, int], list[dict[str, Any]]]]] = {
    "index": lambda call, index: _in_pieces(call, index, call.id),
    "whole": _whole,
    "whole without index": lambda call, _index: _whole(call, None),
    "whole at 0": lambda call, _index: _whole(call, 0),
    "id": lambda call, _index: _in_pieces(call, None, call.id, call.id, ""),
    "repeated": _repeated,
    "empty": lambda call, index: _in_pieces(call, index, call.id, "", ""),
    "fresh ids": _fresh_ids,
    "no ids": lambda call, index: _in_pieces(call, index, None),
    "name in two": _name_in_two,
    "in one delta": lambda call, index: _in_pieces(call, index, call.id),
}
