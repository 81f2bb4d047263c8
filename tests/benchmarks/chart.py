"""The chart of the documentation: two rows of bars, as an SVG that is written here.

Its background is transparent and its colours stand in the middle between black and white, so that it can be read on a
light page and on a dark one, whichever the page is: an image knows the reader's system, but not the page's theme.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from measuring import Figure
from report import Results, shown

_TEXT = "#7a7a7a"
_OURS = "#1f9d84"
_OTHER = "#8f8aa8"
_WIDTH = 760
_LABELS = 300  # where the bars begin
_LONGEST = 380
_BAR = 18
_STEP = 27
_FONT = "font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 14px"

_FOLDING = (  # the label, the row and the column of the table of folding, whether it is ours
    ("from_json per event", "one event", "`from_json`", False),
    ("fold(), 64 KiB reads", "64 KiB", "`fold()`", True),
    ("fold(), one event per read", "one event", "`fold()`", True),
    ("the floor", "", "", False),
    ("iterating, 64 KiB reads", "64 KiB", "iterating", True),
    ("iterating, one event per read", "one event", "iterating", True),
    ("async iterating, one event per read", "one event", "async", True),
    ("events(), one event per read", "one event", "`events()`", True),
)


class Bar(NamedTuple):
    """One bar."""

    label: str
    value: float
    is_ours: bool


def svg(results: Results) -> str:
    """The chart of what was measured."""
    figures = [figure for part in results.values() for figure in part.figures]
    panels = {
        "Folding text into a message (the floor, one validate_json per event, is 1)": _folding(figures),
        "Other clients (chunkfold is 1)": _peers(figures),
    }
    parts: list[str] = []
    top = 0
    for title, bars in panels.items():
        parts += [_label(0, top + 22, title, weight="bold"), *_bars(bars, top + 36)]
        top += 36 + len(bars) * _STEP + 16
    return "\n".join([_head(top, panels), *parts, "</svg>", ""])


def _folding(figures: Sequence[Figure]) -> list[Bar]:
    values = {(*figure.row, figure.column): figure.value for figure in figures if figure.table == "folding"}
    values["text", "", ""] = 1.0
    found = [(label, values.get(("text", size, column)), ours) for label, size, column, ours in _FOLDING]
    return [Bar(label, value, ours) for label, value, ours in found if value is not None]


def _peers(figures: Sequence[Figure]) -> list[Bar]:
    others = [
        Bar(", ".join(figure.row), figure.value, is_ours=False)
        for figure in figures
        if figure.table == "peers" and figure.column != "chunks"
    ]
    return [Bar("chunkfold", 1.0, is_ours=True), *sorted(others, key=lambda bar: bar.value)]


def _bars(bars: Sequence[Bar], top: int) -> list[str]:
    scale = _LONGEST / max(bar.value for bar in bars)
    parts: list[str] = []
    for place, bar in enumerate(bars):
        y, width = top + place * _STEP, max(bar.value * scale, 1)
        parts += [
            _label(_LABELS - 10, y + 14, bar.label, anchor="end"),
            f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2" fill="{_OURS if bar.is_ours else _OTHER}"/>',
            _label(_LABELS + width + 8, y + 14, shown(bar.value)),
        ]
    return parts


def _label(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" fill="{_TEXT}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'


def _head(height: int, panels: Mapping[str, Sequence[Bar]]) -> str:
    """The opening tag, and in words what the bars say."""
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    said = "; ".join(
        f"{title}: " + ", ".join(f"{bar.label} {shown(bar.value)}" for bar in bars) for title, bars in panels.items()
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" style="{_FONT}">\n<title>{escape(said)}</title>'
