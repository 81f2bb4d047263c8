"""Charts as inline SVG.

Shapes are in the SVG, which stretches to any width; text is beside it in HTML, so that it has the same size on every
screen.

However many chunks there are, a chart has at most a few hundred places; events in the same place are added up.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import floor
from typing import Final

from chunkfold.excerpts import counted
from chunkfold.models.html import Html, joined, tag
from chunkfold.parser.timing import Gaps
from chunkfold.report.facts import Kind, StreamFacts
from chunkfold.report.units import duration, round_step, short, steps_up_to, ticks

_FEW: Final = 2  # bins, or fewer, that show too little of the lengths of gaps
_SPREAD: Final = 3  # the longest of even gaps is at most this many times the shortest
_EVEN: Final = 12  # bins for even gaps, or one more
_WIDTH: Final = 1000  # units of every SVG
_HEIGHT: Final = 100
_PLACES: Final = 250
_TICKS: Final = 6
_MINUTES: Final = 300  # seconds from which on an axis shows minutes
_MANY: Final = 9  # bars: with more, a phone has no space to label each
GROWING: Final = (Kind.REASONING, Kind.TEXT, Kind.TOOL_CALL)


def css_name(kind: Kind) -> str:
    """The name of a kind in the page's style sheet."""
    return f"k-{kind.split()[0].strip(',')}"


def axis(seconds: float) -> Html:
    """The times below a chart."""
    labels = (
        tag("span", _tick(at, seconds), style=f"left:{_percent(at, seconds)}%")
        for at in _times(seconds)
        if at <= seconds * 0.97
    )
    return tag("div", *labels, class_="axis", aria_hidden="true")


def strip(facts: StreamFacts, kind: Kind) -> Html:
    """When the events of a kind arrived: a bar for each place in time, whose height is their number."""
    times = [mark.at for mark in facts.marks if kind in mark.brought]
    counts = Counter(_place(at, facts.seconds) for at in times)
    most = max(counts.values())
    width = _WIDTH / _PLACES
    bars = "".join(
        f"M{place * width:g} {_HEIGHT}v-{35 + 65 * (number / most) ** 0.5:.0f}h{width:g}V{_HEIGHT}z"
        for place, number in sorted(counts.items())
    )
    when = f"at {duration(times[0])}" if times[0] == times[-1] else f"{duration(times[0])} to {duration(times[-1])}"
    return _svg(f"{kind}: {counted(len(times), 'event')}, {when}", _grid(facts.seconds), _path(bars, css_name(kind)))


def stall_strip(facts: StreamFacts) -> Html:
    """The stalls, as bars whose length is their duration."""
    bars = "".join(
        f"M{_x(stall.at, facts.seconds):g} 25h{max(2, _x(stall.seconds, facts.seconds)):g}v50"
        f"H{_x(stall.at, facts.seconds):g}z"
        for stall in facts.stalls
    )
    told = ", ".join(f"{duration(stall.seconds)} from {duration(stall.at)}" for stall in facts.stalls[:5])
    return _svg(f"{counted(len(facts.stalls), 'stall')}: {told}", _grid(facts.seconds), _path(bars, "k-stall"))


def phases(facts: StreamFacts) -> list[tuple[str, str, float, float]]:
    """The phases of a stream: the style's name, the label, the start and the end of each."""
    timing = facts.timing
    found: list[tuple[str, str, float, float]] = []
    start = 0.0
    for name, what, end in (
        ("p-headers", "waiting for headers", timing.headers),
        ("p-wait", "waiting for output", timing.first_output),
        ("p-output", "output", timing.last_chunk if timing.first_output is not None else None),
        ("p-rest", "until the end" if timing.first_output is not None else "no output", facts.seconds),
    ):
        if end is not None and end > start:
            found.append((name, what, start, end))
            start = end
    return found


def phase_strip(facts: StreamFacts, seconds: float) -> Html:
    """The phases of a stream, as one bar on a scale of that many seconds."""
    found = phases(facts)
    bars = (
        _path(f"M{_x(start, seconds):g} 0H{_x(end, seconds):g}V{_HEIGHT}H{_x(start, seconds):g}z", name)
        for name, _, start, end in found
    )
    told = ", ".join(f"{what} {duration(end - start)}" for _, what, start, end in found)
    return _svg(told, _grid(seconds), *bars)


def growth(facts: StreamFacts) -> Html:
    """The cumulative characters over time: an area for each kind, stacked."""
    grown = {kind: _cumulated(facts, kind) for kind in GROWING}
    total = sum(sums[-1] for sums in grown.values())
    below = [0] * (_PLACES + 1)
    areas: list[Html] = []
    parts: list[str] = []
    for kind, sums in grown.items():
        if sums[-1]:
            above = [low + more for low, more in zip(below, sums, strict=True)]
            areas.append(_path(_area(below, above, total), css_name(kind)))
            parts.append(f"{sums[-1]:,} of {kind}")
            below = above
    what = f"{counted(total, 'character')} over {duration(facts.seconds)}: {', '.join(parts)}"
    return _plot(_svg(what, _grid(facts.seconds), *areas), total, facts.seconds)


def token_growth(facts: StreamFacts) -> Html:
    """The completion tokens over time, as the usage reported them."""
    times = [at for at, _ in facts.tokens]
    most = max(tokens for _, tokens in facts.tokens)
    counts = [
        facts.tokens[known - 1][1] if (known := bisect_right(times, facts.seconds * place / _PLACES)) else 0
        for place in range(_PLACES + 1)
    ]
    what = f"{counted(most, 'completion token')}, reported {counted(len(times), 'time')} over {duration(facts.seconds)}"
    area = _path(_area([0] * (_PLACES + 1), counts, most), "k-usage")
    return _plot(_svg(what, _grid(facts.seconds), area), most, facts.seconds)


def histogram(lengths: Sequence[float], gaps: Gaps) -> Html:
    """A histogram of the gaps, in steps of 1, 2, 5, 10, ... milliseconds, with the percentiles above."""
    edges, counts = _binned(lengths)
    most, width = max(counts), _WIDTH / len(counts)
    bars = "".join(
        f"M{place * width + 4:.1f} {_HEIGHT}v-{max(2, 100 * number / most):.1f}h{width - 8:.1f}V{_HEIGHT}z"
        for place, number in enumerate(counts)
        if number
    )
    marked = (("p50", gaps.p50), ("p95", gaps.p95), ("p99", gaps.p99))
    places = [(name, at, _log_place(round(at, 6), edges)) for name, at in marked]
    lines = "".join(f"M{place * _WIDTH:.1f} 0V{_HEIGHT}" for *_, place in places)
    bins = (
        f"{number:,} from {duration(low)} to {duration(high)}"
        for number, (low, high) in zip(counts, pairwise(edges), strict=True)
        if number
    )
    what = f"{counted(len(lengths), 'gap')}; {', '.join(bins)}"
    return joined(
        [
            tag("div", *(_marker(*place) for place in places), class_="markers", aria_hidden="true"),
            _svg(what, _path(bars, "bar"), _path(lines, "line")),
            _cells([short(number) if number else "" for number in counts], "counts"),
            _cells([_edge(edge) for edge in edges[:-1]], "edges many" if len(counts) > _MANY else "edges"),
        ]
    )


def _edge(seconds: float) -> str:
    """A time in a short form."""
    if not seconds:
        return "0"
    return f"{seconds * 1000:g}ms" if seconds < 0.0999 else f"{seconds:g}s"


def _binned(lengths: Sequence[float]) -> tuple[list[float], list[int]]:
    """The edges of the bins, one more than there are bins, and how many lengths are in each."""
    edges = [0.0, *steps_up_to(max(lengths))]
    ordered = sorted(lengths)
    counts = [bisect_left(ordered, high) - bisect_left(ordered, low) for low, high in pairwise(edges)]
    first = next(place for place, number in enumerate(counts) if number)
    if sum(map(bool, counts)) <= _FEW and ordered[0] < ordered[-1] <= _SPREAD * ordered[0]:
        return _evenly_binned(ordered)
    return edges[first:], counts[first:]


def _evenly_binned(ordered: Sequence[float]) -> tuple[list[float], list[int]]:
    """The same in steps of equal length, for gaps so even that steps of 1, 2, 5 would show nothing."""
    step = round_step((ordered[-1] - ordered[0]) / _EVEN)
    first, last = floor(ordered[0] / step), floor(ordered[-1] / step) + 1
    edges = [round(place * step, 9) for place in range(first, last + 1)]
    inner = [bisect_left(ordered, edge) for edge in edges[1:-1]]
    return edges, [high - low for low, high in pairwise([0, *inner, len(ordered)])]


def _log_place(at: float, edges: Sequence[float]) -> float:
    """The place of a length in the histogram, from 0 to 1: all bins are equally wide."""
    place = min(max(bisect_right(edges, at) - 1, 0), len(edges) - 2)
    low, high = edges[place], edges[place + 1]
    return (place + min(1.0, max(0.0, (at - low) / (high - low)))) / (len(edges) - 1)


def _marker(name: str, at: float, place: float) -> Html:
    side = f"right:{100 - 100 * place:.1f}%" if place > 0.6 else f"left:{100 * place:.1f}%"
    return tag("div", tag("span", f"{name} {duration(at)}", class_="after" if place > 0.6 else "before", style=side))


def _cells(labels: Iterable[str], class_: str) -> Html:
    return tag("div", *(tag("span", label) for label in labels), class_=class_, aria_hidden="true")


def _cumulated(facts: StreamFacts, kind: Kind) -> list[int]:
    """The number of characters of a kind that had arrived by the end of each place."""
    places = [0] * _PLACES
    for mark in facts.marks:
        places[_place(mark.at, facts.seconds)] += mark.brought.get(kind, 0)
    return list(accumulate(places, initial=0))


def _area(below: Sequence[int], above: Sequence[int], most: int) -> str:
    """The path around the area between two lines; points where a line does not bend are left out."""
    there = _line(above, most)
    back = list(reversed(_line(below, most)))
    return "M" + "L".join([*there, *back]) + "z"


def _line(values: Sequence[int], most: int) -> list[str]:
    kept = [
        place
        for place, value in enumerate(values)
        if place in (0, len(values) - 1) or not values[place - 1] == value == values[place + 1]
    ]
    return [f"{place * _WIDTH / _PLACES:g} {_HEIGHT - _HEIGHT * values[place] / most:.1f}" for place in kept]


def _plot(chart: Html, most: int, seconds: float) -> Html:
    """A chart with a scale of counts on its left, and one of times below."""
    labels = (
        tag("span", short(round(value)), style=f"bottom:{_percent(value, most)}%")
        for value in ticks(most, 4)
        if value == round(value) and value <= most * 0.97
    )
    scale = tag("div", *labels, class_="scale", aria_hidden="true")
    return tag("div", scale, tag("div", chart, axis(seconds)), class_="plot")


def _grid(seconds: float) -> Html:
    lines = "".join(f"M{_x(at, seconds):g} 0V{_HEIGHT}" for at in _times(seconds)[1:])
    return _path(lines, "grid") if lines else Html()


def _svg(what: str, *shapes: Html) -> Html:
    """A picture, with a description in words."""
    title = tag("title", what)
    view = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", title, *shapes, viewBox=view, preserveAspectRatio="none", role="img", aria_label=what)


def _path(d: str, class_: str) -> Html:
    return tag("path", d=d, class_=class_)


def _place(at: float, seconds: float) -> int:
    return max(0, min(int(at / seconds * _PLACES), _PLACES - 1))


def _x(at: float, seconds: float) -> float:
    return round(at / seconds * _WIDTH, 1)


def _percent(value: float, most: float) -> str:
    return f"{100 * value / most:.1f}"


def _times(seconds: float) -> list[float]:
    """Round times from 0 on; round minutes if the chart spans minutes."""
    unit = 60 if seconds >= _MINUTES else 1
    return [at * unit for at in ticks(seconds / unit, _TICKS)]


def _tick(at: float, seconds: float) -> str:
    """A time on an axis: all of them in the same unit."""
    if not at:
        return "0"
    if seconds < 1:
        return f"{at * 1000:g} ms"
    return f"{at:g} s" if seconds < _MINUTES else f"{at / 60:g} min"
