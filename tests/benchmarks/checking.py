"""Whether anything has become slower than the figures that are kept.

One figure alone is noise: what is compared is the mean of all figures of a stream, and that of all figures of a way to
read. It fails if one of them is a quarter more than with the figures that are kept, in each of three tries. Where the
interpreter is slower beside pydantic than on the machine that those come from, so much more is allowed. On another
processor a mean can still differ by a third, so a machine that may be any allows more than a quarter. A figure that is
not kept cannot be compared, which is an error, too.
"""

from collections.abc import Mapping
from statistics import geometric_mean

import folding
from measuring import Figure, Scale, complain, say
from report import Part

_TRIES = 3
_SCALE = Scale(rounds=3, chunks=6_000)


def slower(kept: Mapping[str, Part], most: float) -> list[str]:
    """What is slower than so many times the kept figures in each try: a line for each stream and each way to read."""
    before = {figure.key: figure.value for figure in kept["folding"].figures}
    least: dict[str, float] = {}
    lines: list[str] = []
    for attempt in range(_TRIES):
        yardstick = folding.measure_yardstick(_SCALE)
        slowed = max(yardstick.value / before[yardstick.key], 1)
        figures = [
            figure for row in folding.ROWS if row[1] != "16 bytes" for figure in folding.measure_row(row, _SCALE)
        ]
        unknown = [", ".join(figure.row) for figure in figures if figure.key not in before]
        if unknown:
            complain(f"no figures are kept for {'; '.join(dict.fromkeys(unknown))}: run --only folding --write")
            return []
        for name, mean in _means(figures, before).items():
            least[name] = min(mean / slowed, least.get(name, mean / slowed))
        lines = [f"{name}: {mean:.2f} times the figures that are kept" for name, mean in least.items() if mean > most]
        if not lines:
            break
        say(f"try {attempt + 1}: {'; '.join(lines)}")
    return lines


def _means(figures: list[Figure], before: Mapping[tuple[str, tuple[str, ...], str], float]) -> dict[str, float]:
    """How many times as much it is as before: for each stream, and for each way to read."""
    changes: dict[str, list[float]] = {}
    for figure in figures:
        change = figure.value / before[figure.key]
        for name in (figure.row[0], figure.column):
            changes.setdefault(name, []).append(change)
    return {name: geometric_mean(of_name) for name, of_name in changes.items()}
