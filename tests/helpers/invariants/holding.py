"""Say which promise is broken, and show values so that nothing is left out."""

import dataclasses
from typing import Any

from pydantic import BaseModel

from chunkfold import ChatCompletionChunk

FEW_BYTES = 100  # a body of so many is also read byte by byte


class Broken(AssertionError):  # noqa: N818 - said of a promise
    """A promise was not kept."""


def hold(promise: str, kept: object, *what: object) -> None:
    """Raise unless the promise was kept."""
    if not kept:
        raise Broken("\n  ".join([promise, *map(repr, what)]))


def same(promise: str, one: object, other: object) -> None:
    """Raise unless both are equal."""
    hold(promise, one == other, one, other)


def plain(value: Any) -> str:
    """All that a value has, as text: nothing is left out, and a NaN equals itself."""
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, ChatCompletionChunk):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, BaseModel):
        return type(value).__name__, value.model_dump()
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if dataclasses.is_dataclass(value):
        names = (part.name for part in dataclasses.fields(value))
        return type(value).__name__, *((name, _plain(getattr(value, name))) for name in names)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def shown(chunks: list[ChatCompletionChunk]) -> list[str]:
    return [plain(chunk) for chunk in chunks]
