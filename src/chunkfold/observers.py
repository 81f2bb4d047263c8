"""Who is told what a stream does: plain callables, for telemetry, logs and meters of any make.

They are called by whoever reads or closes the stream, between two of its steps, when everything that they may look at
is up to date. Nothing here refers to the stream itself, so it is freed as it would be without them.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import ref

_logger = logging.getLogger(__name__)


class Observers:
    """The observers of one stream.

    Args:
        chunks: How many chunks came before there was any observer.
    """

    __slots__ = ("_observers", "_told")

    def __init__(self, chunks: int) -> None:
        self._told = chunks
        self._observers: list[_Observer] = []

    def add(
        self, subject: object, on_chunks: Callable[[Any, int], object] | None, on_end: Callable[[Any], object] | None
    ) -> None:
        """Tell one more, from now on; what it is told about is the subject."""
        self._observers.append(_Observer(subject, on_chunks, on_end))

    def tell(self, chunks: int, *, has_ended: bool) -> None:
        """Tell of the chunks that came since the last time, and of the end, once.

        Args:
            chunks: How many have come in all.
            has_ended: Whether the stream has.
        """
        count = chunks - self._told
        if count:
            self._told = chunks
            for observer in self._observers:
                observer.tell_chunks(count)
        if has_ended:
            with suppress(IndexError):  # whoever takes one tells it, also where another thread closes the stream
                while True:
                    self._observers.pop(0).tell_end()


class _Observer:
    """Two callables, and what they are told about."""

    __slots__ = ("_on_chunks", "_on_end", "_subject")

    def __init__(
        self, subject: object, on_chunks: Callable[[Any, int], object] | None, on_end: Callable[[Any], object] | None
    ) -> None:
        self._subject = ref(subject)
        self._on_chunks = on_chunks
        self._on_end = on_end

    def tell_chunks(self, count: int) -> None:
        if self._on_chunks is not None:
            self._call(self._on_chunks, count)

    def tell_end(self) -> None:
        if self._on_end is not None:
            self._call(self._on_end)

    def _call(self, tell: Callable[..., object], *more: int) -> None:
        subject = self._subject()
        if subject is not None:
            try:
                tell(subject, *more)
            except Exception:
                _logger.exception("an observer of a stream failed")
