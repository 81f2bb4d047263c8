"""What reading a body costs, for the streams that say what it may cost."""

import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from chunkfold.testing.hostile.values import Cost

Result = TypeVar("Result")

_MEGABYTE = 10**6


def measured(read: Callable[[], Result], cost: Cost) -> tuple[Result, str | None]:
    """The result, and one line on the limit that it exceeds.

    It is read twice: time is processor time, which other processes do not add to, and memory is measured in a second
    reading, as that is slow. Limits are far above what a reader needs that is linear in the bytes.
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
