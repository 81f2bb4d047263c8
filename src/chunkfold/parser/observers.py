"""Notify plain callables of what a stream does, for telemetry, logs and metrics of any kind.

The task or thread that reads or closes the stream calls them, between two of its steps, when everything that they can
read is up to date. Observers do not refer to the stream itself, so they do not delay its garbage collection.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any
from weakref import ref

_logger = logging.getLogger(__name__)
OnChunks = Callable[[Any, int], object] | None
OnEnd = Callable[[Any], object] | None
_Observer = tuple[ref[object], OnChunks, OnEnd]  # a subject, and two callables to which it is passed


class Observers:
    """The observers of one stream."""

    def __init__(self, chunks: int) -> None:
        self._reported = chunks  # the observers are notified of those that come from now on
        self._observers: list[_Observer] = []

    def __reduce__(self) -> "tuple[type[Observers], tuple[int]]":
        """Copied and pickled without observers, which belong to the original."""
        return Observers, (self._reported,)

    def add(self, subject: object, on_chunks: OnChunks, on_end: OnEnd) -> None:
        """Add an observer, which is called with the subject from now on."""
        self._observers.append((ref(subject), on_chunks, on_end))

    def notify(self, chunks: int, *, has_ended: bool) -> None:
        """Report the chunks since the last call, given their number so far, and the end, once."""
        count = chunks - self._reported
        if count:
            self._reported = chunks
            # Those that are added meanwhile are not called, and none is once an observer has ended the stream.
            for subject, on_chunks, _ in islice(self._observers, len(self._observers)):
                _call(on_chunks, subject(), count)
        if has_ended:
            with suppress(IndexError):  # taken once, even if another thread closes the stream
                while True:
                    subject, _, on_end = self._observers.pop(0)
                    _call(on_end, subject())


def _call(callback: Callable[..., object] | None, subject: object, *more: int) -> None:
    if callback is not None and subject is not None:
        try:
            callback(subject, *more)
        except Exception:
            _logger.exception("an observer of a stream failed")
