"""The parser's options and their checks, so that a wrong option raises before it is used."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypedDict, cast

from chunkfold.event_stream import ServerSentEvent
from chunkfold.excerpts import excerpt
from chunkfold.models import ChatCompletionChunk
from chunkfold.models.tool_calls import ToolTypes

if TYPE_CHECKING:
    from chunkfold.transforms import Transform


DEFAULT_MAX_EVENT_SIZE: Final = 32 * 2**20  # bytes

OnServerSentEvent = Callable[[ServerSentEvent, list[ChatCompletionChunk]], object]


class ReadOptions(TypedDict, total=False):
    """The options that say how a body is read, whatever it comes from; described by `ChatCompletionParser`."""

    strict: bool | Collection[str]
    tolerate: Collection[str]
    max_event_size: int | None
    max_event_items: int | None
    max_output_size: int | None
    progress_timeout: float | None
    total_timeout: float | None
    on_server_sent_event: OnServerSentEvent | None
    clock: Callable[[], float]
    transforms: "Sequence[Transform]"
    one_choice: bool
    tools: ToolTypes | None


class ParserOptions(ReadOptions, total=False):
    """The options of `ChatCompletionParser`, which describes them. The streams and `replay` take the same."""

    status_code: int | None
    headers: Mapping[str, str] | None
    started: float | None


def check_flag(name: str, value: object) -> None:
    """Check an option that is on or off.

    Raises:
        TypeError: It is not a bool.
    """
    if not isinstance(value, bool):
        raise _wrong_type(name, "a bool", value)


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
        ValueError: It is negative, or not a number in the sense of NaN.
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
        raise _wrong_type(name, "what the clock said, or None", value)
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected what the clock said, received {value}")


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
