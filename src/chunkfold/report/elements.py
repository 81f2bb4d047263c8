"""The elements that the report is made of."""

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Final

from chunkfold.models.html import Html, tag

_NUMBERS: Final = ("Events", "Characters", "Times", "First output", "Longest gap", "Tokens/s", "Chunks")  # columns
_CLASSES: Final = {**dict.fromkeys(_NUMBERS, "num"), "Arguments": "code", "Id": "code"}


def section(title: str, *parts: str, level: str = "h3") -> Html:
    """A card with a heading."""
    return tag("div", tag(level, title), *parts, class_="card")


def table(names: Sequence[str], rows: Sequence[Html], class_: str, *before: Html) -> Html:
    """A table that remains a table for screen readers when a phone shows it differently; `before` is above its head."""
    cells = (
        tag("th", name, scope="col", role="columnheader", class_="num" if name in _NUMBERS else None) for name in names
    )
    head = tag("thead", tag("tr", *cells, role="row"), role="rowgroup")
    return tag("table", *before, head, tag("tbody", *rows, role="rowgroup"), class_=class_, role="table")


def cards(first: str, rows: Sequence[tuple[Html, Mapping[str, str]]], class_: str = "cards") -> Html:
    """A table that a phone shows as cards: the heading of each row, in the first column, and its cells by column."""
    body = [row(head, *starmap(_cell, cells.items())) for head, cells in rows]
    return table((first, *rows[0][1]), body, class_)


def _cell(column: str, content: str) -> Html:
    """A cell, with the name of its column for screens that show no columns."""
    return tag("td", content, class_=_CLASSES.get(column), data_label=column, role="cell")


def row(head: str, *cells: Html) -> Html:
    """A row that begins with its name; "" for a row without a name."""
    first = tag("th", head, scope="row", role="rowheader") if head else tag("td", role="cell")
    return tag("tr", first, *cells, role="row")


def wide(chart: Html) -> Html:
    """A cell with a chart."""
    return tag("td", chart, class_="wide", role="cell")


def number(content: str, unit: str) -> Html:
    """A cell with a number."""
    return tag("td", content, class_="num", data_unit=unit, role="cell")


def swatch(name: str) -> Html:
    """A square in a colour of the charts."""
    square = Html(f'<svg viewBox="0 0 10 10" aria-hidden="true"><path class="{name}" d="M0 0h10v10H0z"/></svg>')
    return tag("span", square, class_="swatch")
