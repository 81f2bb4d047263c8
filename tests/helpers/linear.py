"""Growth: ten times as much must cost about ten times as much. Linear is 10, quadratic 100.

What is measured is the processor's time, which says little about one look; so a machine that is busy elsewhere gets
more than one chance. The garbage collector is off meanwhile: what it costs depends on everything else in the process.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time


def assert_linear(take: Callable[[int], Callable[[], object]], small: int, most: float = 25) -> None:
    """Fail if ten times as much takes far more than ten times as long.

    Args:
        take: Given a size, prepares what is measured and gives it as a callable, which may be called again.
        small: The smaller of the two sizes.
        most: How many times as long it may take, between linear and quadratic.
    """
    take_small, take_large = take(small), take(10 * small)
    ratios: list[float] = []
    with no_collector():
        while len(ratios) < 5 and not (ratios and ratios[-1] < most):
            least = min(seconds(take_small) for _ in range(3))
            ratios.append(seconds(take_large) / least)
    assert ratios[-1] < most, ratios


def seconds(take: Callable[[], object]) -> float:
    """The processor's time for one call."""
    start = process_time()
    result = take()
    end = process_time()
    del result  # what it costs to let go of it is not counted
    return end - start


@contextmanager
def no_collector() -> Iterator[None]:
    """Without collecting garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
