"""The result of one read of a body, and how reading ended."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from chunkfold.excerpts import ShortRepr

RecordedEnd: TypeAlias = Literal["body", "error", "left"]


@dataclass(frozen=True, slots=True, repr=False)
class RecordedRead(ShortRepr):
    """The result of one read of the body.

    Attributes:
        at: The time of the read, in seconds since the request was sent.
        data: The bytes.
    """

    at: float
    data: bytes
