"""The columns as an Arrow schema.

A schema that an engine infers depends on the rows that it sees: a column with only None has no type. With this schema
every file of a table has the same.
"""

from importlib import import_module
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from chunkfold.archive.columns import FoldedRecord


def arrow_schema() -> Any:
    """The `pyarrow.Schema` of folded records: `string`, `int64`, `double` and `bool`, lists and structs of them.

    Raises:
        ImportError: `pyarrow` is not installed; chunkfold does not depend on it.
    """
    arrow: Any = import_module("pyarrow")
    return arrow.schema(_fields(arrow, FoldedRecord))


def _fields(arrow: Any, columns: type) -> list[Any]:
    return [arrow.field(name, _type(arrow, hint)) for name, hint in get_type_hints(columns).items()]


def _type(arrow: Any, hint: Any) -> Any:
    """The type for values of a type; every column may be null."""
    if get_origin(hint) is list:
        return arrow.list_(_type(arrow, *get_args(hint)))
    if is_typeddict(hint):
        return arrow.struct(_fields(arrow, hint))
    (kind,) = {*(get_args(hint) or (hint,))} - {NoneType}
    return {str: arrow.string, int: arrow.int64, float: arrow.float64, bool: arrow.bool_}[kind]()
