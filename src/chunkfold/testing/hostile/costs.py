"""Measure the cost of reading a body, for the streams that have a limit on it."""

import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from chunkfold.testing.hostile.values import Cost

Result = TypeVar("Result")

_MEGABYTE = 10**6


def measured(read: Callable[[], Result], cost: Cost) -> tuple[Result, str | None]:
    """The result, and the limit that it exceeds, in one line.

    The body is read twice: once for the CPU time, which other processes do not increase, and once for the memory, since
    measuring that is slow. The limits are far above the needs of a reader that is linear in the bytes.
    """
    started = time.process_time()
    result = read()
    if time.process_time() - started > cost.seconds:
        return result, f"takes more than {cost.seconds:g} s of processor time"
    if _peak_of(read) > cost.megabytes * _MEGABYTE:
        return result, f"takes more than {cost.megabytes:g} MB of memory"
    return result, None


def _peak_of(read: Callable[[], object]) -> int:
    """Bytes that Python allocated at the peak, beside those it had before."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        read()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
