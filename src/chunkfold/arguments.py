"""Check the arguments of public calls: a wrong one raises before it is used, and by its name."""

import math
from collections.abc import Sequence
from typing import Final, cast

from chunkfold.excerpts import excerpt

A_CHUNK: Final = "a chunkfold.ChatCompletionChunk"


def check_instance(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Check that an argument is of a type.

    Args:
        name: The argument's name.
        value: The argument.
        kinds: The types it may have.
        expected: The same in words.

    Raises:
        TypeError: It is of another type.
    """
    if not isinstance(value, kinds):
        raise _wrong_type(name, expected, value)


def check_flag(name: str, value: object) -> None:
    """Check an option that is on or off.

    Raises:
        TypeError: It is not a bool.
    """
    check_instance(name, value, bool, "a bool")


def check_count(name: str, value: object) -> None:
    """Check a limit on a number of things.

    Raises:
        TypeError: It is neither an int nor None.
        ValueError: It is negative.
    """
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(name, "an int or None", value)
    if value < 0:
        raise ValueError(f"{name}: expected 0 or more, received {value}")


def check_seconds(name: str, value: object, *, optional: bool = True) -> None:
    """Check a duration.

    Raises:
        TypeError: It is neither a number nor, where it is optional, None.
        ValueError: It is negative or NaN.
    """
    if value is None and optional:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong_type(name, "a number of seconds or None" if optional else "a number of seconds", value)
    if not value >= 0:
        raise ValueError(f"{name}: expected seconds, 0 or more, received {value}")


def check_time(name: str, value: object) -> None:
    """Check a reading of a clock.

    Raises:
        TypeError: It is neither a number nor None.
        ValueError: It is not finite.
    """
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong_type(name, "a reading of the clock or None", value)
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a reading of the clock, received {value}")


def check_callable(name: str, value: object, *, optional: bool = False) -> None:
    """Check a callback.

    Raises:
        TypeError: It is not callable, nor None where it is optional.
    """
    if not callable(value) and not (value is None and optional):
        raise _wrong_type(name, "a callable or None" if optional else "a callable", value)


def check_transforms(value: object) -> None:
    """Check a sequence of transforms.

    Raises:
        TypeError: It is not a sequence, or has an item that is not a transform.
    """
    if not isinstance(value, Sequence):
        raise _wrong_type("transforms", "a sequence of transforms", value)
    for place, transform in enumerate(cast("Sequence[object]", value)):
        is_class = isinstance(transform, type)
        if is_class or not all(callable(getattr(transform, name, None)) for name in ("feed", "close")):
            raise _wrong_type(f"transforms[{place}]", "a transform, such as ThinkTags()", transform)


def _wrong_type(name: str, expected: str, value: object) -> TypeError:
    return TypeError(f"{name}: expected {expected}, received {excerpt(value)}")
