"""The steps of a stream, such as text or a tool call; a `Writer` writes them in a dialect. A `Raw` is one of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from chunkfold.testing.answers import Raw
from chunkfold.testing.error_shapes import ErrorShape, ReportedError


@dataclass(frozen=True, slots=True)
class Say:
    """Pieces of text, reasoning or a refusal."""

    kind: Literal["content", "reasoning", "refusal"]
    pieces: tuple[str, ...]
    choice: int = 0

    def __post_init__(self) -> None:
        """Refuse here what would otherwise become JSON of another type."""
        _check_texts(self.pieces)


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A tool call, with its arguments in pieces."""

    name: str
    pieces: tuple[str, ...]
    id: str

    def __post_init__(self) -> None:
        """Refuse arguments that are not text yet."""
        _check_texts((self.name, *self.pieces))


@dataclass(frozen=True, slots=True)
class CallTools:
    """Tool calls; the pieces of several calls are interleaved."""

    calls: tuple[SaidCall, ...]
    first: int = 0  # the index of the first of them
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The finish reason of a choice, in OpenAI's words."""

    reason: str
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Fail:
    """An error, in the dialect's shape unless another is given."""

    error: ReportedError
    shape: ErrorShape | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """One event, as `event` writes it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SayDone:
    """The last event, `[DONE]`."""


def _check_texts(pieces: Iterable[str]) -> None:
    for piece in pieces:
        if not isinstance(cast("object", piece), str):
            raise TypeError(f"pieces: expected text, received {type(piece).__name__}")


Step: TypeAlias = Say | CallTools | Finish | Fail | Encoded | Raw | SayDone


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """The usage, in tokens."""

    prompt: int
    completion: int
    cached: int | None = None
    reasoning: int | None = None
