"""Check the arguments of public calls: a wrong one raises before it is used, and by its name.

Each check raises a `TypeError` for a value of another type than it expects, a `ValueError` for one out of range.
"""

import math
import sys
from collections.abc import Callable, Collection
from typing import Any, Final, cast

from chunkfold.excerpts import excerpt

A_CHUNK: Final = "a chunkfold.ChatCompletionChunk"


def check_instance(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Check that an argument is of one of some types; `expected` is the same in words."""
    if not isinstance(value, kinds):
        raise wrong_type(name, expected, value)


def check_flag(name: str, value: object) -> None:
    """Check an option that is on or off."""
    check_instance(name, value, bool, "a bool")


def check_count(name: str, value: object) -> None:
    """Check a limit on a number of things, or None."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, "an int or None", value)
    if value < 0:
        raise ValueError(f"{name}: expected 0 or more, received {value}")


def check_word(name: str, value: object, words: Collection[str]) -> None:
    """Check that an argument is one of some words."""
    if value not in words:
        raise ValueError(f"{name}: expected one of {', '.join(words)}, received {excerpt(value)}")


def check_seconds(name: str, value: object, *, optional: bool = True) -> None:
    """Check a duration, or None if it is optional."""
    if value is None and optional:
        return
    expected = "a number of seconds or None" if optional else "a number of seconds"
    if not _seconds(name, value, expected) >= 0:
        raise ValueError(f"{name}: expected seconds, 0 or more, received {value}")


def check_time(name: str, value: object) -> None:
    """Check a reading of a clock, or None."""
    if value is not None and not math.isfinite(_seconds(name, value, "a reading of the clock or None")):
        raise ValueError(f"{name}: expected a reading of the clock, received {value}")


def reading_of(clock: Callable[[], object]) -> float:
    """What a clock says; an error if that is not seconds."""
    now = _seconds("clock", clock(), "a callable that returns seconds")
    check_time("clock", now)
    return now


def check_callback(name: str, value: object) -> None:
    """Check a callback, or None. A coroutine function would never run, since what it returns is not awaited."""
    if value is None:
        return
    from inspect import isasyncgenfunction, iscoroutinefunction  # loaded only for callbacks

    if not callable(value) or iscoroutinefunction(value) or isasyncgenfunction(value):
        raise wrong_type(name, "a callable that is not async, or None", value)


def check_callable(name: str, value: object) -> None:
    """Check a callable."""
    if not callable(value):
        raise wrong_type(name, "a callable", value)


def as_bytes(data: Any) -> bytes:
    """Bytes-like data as bytes; a `TypeError` for anything else."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", data))
    hint = ": pass the bytes of the body, not its lines, or encode its text" if isinstance(data, str) else ""
    raise TypeError(f"data: expected bytes, received {type(data).__name__}{hint}")


def _seconds(name: str, value: object, expected: str) -> float:
    """The value, which has to be seconds: a number that a float can be."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise wrong_type(name, expected, value)
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{name}: expected {expected}, received one that is too large")
    return value


def wrong_type(name: str, expected: str, value: object) -> TypeError:
    """The error for an argument of another type than `expected` says in words."""
    return TypeError(f"{name}: expected {expected}, received {excerpt(value)}")
