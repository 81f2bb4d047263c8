"""The figures as tables: for the terminal, with what they are meant to be, and for the documentation.

What was measured last is kept in `results.json`, and the documentation is made from that. So parts can be measured in
different runs, and with different libraries installed, and no number is ever typed by hand.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Figure, Target

RESULTS = Path(__file__).with_name("results.json")


class Table(NamedTuple):
    """A table's title, and the headings of the columns that name its rows."""

    title: str
    heads: tuple[str, ...]


TABLES = {
    "folding": Table("Folding: the floor is 1", ("stream", "bytes per read")),
    "yardstick": Table("The interpreter: the floor is 1", ("measured",)),
    "short": Table("A short stream", ("way",)),
    "telemetry": Table("Telemetry: what it adds, in floors", ("what is set up",)),
    "concurrency": Table("Many streams at once", ("client", "streams")),
    "parts": Table("What each part costs: the floor is 1", ("stream", "bytes per read")),
    "framing": Table("Framing: chunkfold is 1", ("bytes per read",)),
    "peers": Table("Other clients: chunkfold is 1", ("client", "stream")),
    "growth": Table("Growth: ten times as much takes so many times as long", ("what grows", "from", "to")),
    "partial": Table("Partial JSON: PartialJSON is 1", ("document",)),
    "memory": Table("Memory in MB", ("chunks",)),
    "import": Table("Import: pydantic with one model is 1", ("measured",)),
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of the command found, and where."""

    machine: Mapping[str, str]
    figures: Sequence[Figure] = field(default_factory=list)

    def updated_with(self, new: "Part") -> "Part":
        """The new figures; of the old ones those that could not be measured now, because what they need was missing."""
        fresh = {figure.key: figure for figure in new.figures}
        present = {figure.needs for figure in new.figures} | {""}
        kept = [fresh.pop(old.key, old) for old in self.figures if old.key in fresh or old.needs not in present]
        return Part(new.machine, [*kept, *fresh.values()])


Results = dict[str, Part]


# What was measured last


def load() -> Results:
    if not RESULTS.exists():
        return {}
    parts = json.loads(RESULTS.read_text("utf-8"))
    return {name: Part(part["machine"], [_figure(one) for one in part["figures"]]) for name, part in parts.items()}


def _figure(fields: dict[str, Any]) -> Figure:
    target = fields["target"]
    return Figure(**{**fields, "row": tuple(fields["row"]), "target": target and Target(**target)})


def save(results: Results) -> None:
    """A line for each figure, so that a difference shows which one changed."""
    RESULTS.write_text("{\n" + ",\n".join(_lines(name, part) for name, part in results.items()) + "\n}\n", "utf-8")


def _lines(name: str, part: Part) -> str:
    figures = [
        asdict(figure) | {"value": figure.value if isinstance(figure.value, int) else round(figure.value, 3)}
        for figure in part.figures
    ]
    lines = ",\n".join(json.dumps(figure, ensure_ascii=False) for figure in figures)
    return f'{json.dumps(name)}: {{"machine": {json.dumps(part.machine)}, "figures": [\n{lines}\n]}}'


# Tables


def figures_by_table(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    tables: dict[str, list[Figure]] = {}
    for figure in figures:
        tables.setdefault(figure.table, []).append(figure)
    return tables


def plain_text(figures: Iterable[Figure]) -> str:
    """The tables for a terminal; beside a figure that has a target stands whether it is met."""
    texts: list[str] = []
    for name, of_table in figures_by_table(figures).items():
        rows = [[cell.replace("`", "") for cell in row] for row in _cells(name, of_table, with_targets=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        names = len(TABLES[name].heads)
        lines = ["  ".join(_aligned(row, widths, names)).rstrip() for row in rows]
        texts.append("\n".join([TABLES[name].title, "", *lines, ""]))
    return "\n".join(texts)


def _aligned(row: list[str], widths: list[int], names: int) -> Iterable[str]:
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.ljust(width) if place < names else cell.rjust(width)


def markdown(table: str, figures: list[Figure]) -> str:
    """A table for the documentation."""
    head, *rows = _cells(table, figures, with_targets=False)
    names = len(TABLES[table].heads)
    rule = ["---"] * names + ["---:"] * (len(head) - names)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _cells(table: str, figures: list[Figure], *, with_targets: bool) -> list[list[str]]:
    columns = list(dict.fromkeys(figure.column for figure in figures))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for figure in figures:
        cell = shown(figure.value)
        if with_targets and figure.target is not None:
            cell += f" ({figure.target.verdict(figure.value)}: {figure.target})"
        rows.setdefault(figure.row, {})[figure.column] = cell
    cells = [[*row, *(by_column.get(column, "") for column in columns)] for row, by_column in rows.items()]
    return [[*TABLES[table].heads, *columns], *cells]


def shown(value: float) -> str:
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


# The documentation


def write_page(path: Path, results: Results) -> None:
    """Put the tables between the markers of a page.

    Raises:
        ValueError: A table has no place there, or a place no table.
    """
    tables = figures_by_table(figure for part in results.values() for figure in part.figures)
    blocks = {name: markdown(name, figures) for name, figures in tables.items()} | {"machine": _machine(results)}
    blocks["missed"] = _missed([figure for of_table in tables.values() for figure in of_table])
    page = path.read_text("utf-8")
    places = re.findall(r"^<!-- benchmark: (\w+) -->$", page, re.MULTILINE)
    if sorted(places) != sorted(blocks):
        raise ValueError(f"{path}: expected places for {sorted(blocks)}, found {sorted(places)}")
    for name, block in blocks.items():
        begin, end = f"<!-- benchmark: {name} -->\n", "<!-- end -->\n"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n{block}\n\n{end}{rest.partition(end)[2]}"
    path.write_text(page, "utf-8")


def _missed(figures: Iterable[Figure]) -> str:
    """Every figure that is not what it is meant to be."""
    rows = [
        f"| {TABLES[figure.table].title.partition(':')[0]} | {', '.join(figure.row)} | {figure.column}"
        f" | {shown(figure.value)} | {figure.target} |"
        for figure in figures
        if figure.target is not None and figure.target.excess(figure.value) > 1
    ]
    return "\n".join(["| table | row | column | measured | meant |", "| --- | --- | --- | ---: | ---: |", *rows])


def _machine(results: Results) -> str:
    """Where it was measured; parts that were measured elsewhere are named."""
    parts: dict[str, list[str]] = {}
    for name, part in results.items():
        known = part.machine
        line = f"{known['cores']} cores, {known['python']}, pydantic {known['pydantic']}, httpx {known['httpx']}"
        parts.setdefault(line, []).append(name)
    if len(parts) == 1:
        return f"Measured with {next(iter(parts))}."
    return "\n".join(f"- {', '.join(names)}: measured with {line}" for line, names in parts.items())
