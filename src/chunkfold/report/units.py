"""Numbers in the form that people read."""

import itertools
from collections.abc import Iterator
from math import floor, log10
from typing import Final

_STEPS: Final = (1, 2, 5)


def duration(seconds: float) -> str:
    """Like "320 ms", "1.42 s", "2 min 05 s"."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.00995 or not seconds else f"{seconds * 1000:.2g} ms"
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def short(number: int) -> str:
    """Like "980", "12k", "3.4M"."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if number >= size * 10:
            return f"{number // size:,}{letter}"
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + letter
    return str(number)


def ticks(most: float, wanted: int) -> list[float]:
    """Round values from 0 up to a positive maximum, about as many as requested."""
    step = round_step(most / wanted * 0.999)
    return [step * number for number in range(floor(most / step * 1.000001) + 1)]


def round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten: the first that is not below a positive number."""
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (*_STEPS, 10) if factor * power >= least)


def steps_up_to(most: float) -> Iterator[float]:
    """1, 2, 5, 10, 20, ... thousandths, up to the first that is above a maximum."""
    for power in itertools.count():
        for factor in _STEPS:
            step = factor * 10**power * 0.001
            yield step
            if step > most:
                return
