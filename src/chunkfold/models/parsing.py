"""What validates values, and what arguments have to be before they are values."""

import inspect
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from chunkfold.errors import excerpt


def adapter_of(as_type: Any) -> TypeAdapter[Any]:
    """What validates values of a type; made once for each class.

    Raises:
        TypeError: It is no type that pydantic can validate, or none that is complete.
    """
    # Only classes: of other types, such as unions, equal ones need not be the same.
    return _adapter_of_class(as_type) if isinstance(as_type, type) else _new_adapter(as_type)


def _new_adapter(as_type: Any) -> TypeAdapter[Any]:
    reason = "a function, which validating would call"
    if not inspect.isroutine(as_type):
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(as_type)
            if adapter.pydantic_complete or adapter.rebuild(raise_errors=False):
                return adapter
            reason = "a type that names another one which is not defined"
        except Exception as error:  # noqa: BLE001 - pydantic has several, and some types raise their own
            reason = str(error).partition("\n")[0]
    raise TypeError(f"type: expected a type that pydantic can validate, received {excerpt(as_type)}: {reason}")


_adapter_of_class = lru_cache(maxsize=256)(_new_adapter)


def without_placeholder(arguments: str) -> str:
    """A call's arguments as JSON: no text at all is an empty object, a `{}` before another object is dropped."""
    text = arguments.lstrip() or "{}"
    rest = text[2:].lstrip() if text.startswith("{}") else ""
    return rest if rest.startswith("{") else text
