"""The blocks of Markdown: each gives out its rows as soon as they are final, and the rest at its end.

A block that is open has a twin: one that may be ended to see what is not final yet.
"""

import re
from collections.abc import Sequence
from copy import copy
from typing import Final, Protocol, Self

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.syntax import Syntax
from rich.table import Table as RichTable
from rich.text import Text

from chunkfold.cli.markdown.inline import FRAME, Scan, inline
from chunkfold.cli.markdown.wrapping import wrapped

RULE: Final = 40  # cells
_HELD: Final = 500  # characters of text that are held for a mark that is not closed
_WRAPPED: Final = 60  # characters from which on a line's end was made by wrapping, not by meaning
_TABLE: Final = 100  # rows of a table that are drawn at once; those behind them make a table of their own
_OPEN_TABLE: Final = 20  # rows that are drawn of a table which is open: the last ones
_COLUMN: Final = 10  # cells that a column needs, for a table to be read
_CODE: Final = "cyan"
_CONTEXT: Final = 600  # characters of code before a line that have a say in its colours
_DELIMITER: Final = re.compile(r" {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *")


class Block(Protocol):
    """What stands between containers and characters; `width` is how wide its rows may be."""

    def add(self, line: str, width: int) -> list[Text]:
        """A line, or a part of one; the rows that are final now."""
        ...

    def end(self, width: int) -> list[Text]:
        """The rows that are left."""
        ...

    def twin(self, width: int) -> Self:
        """One that can be ended without this one being touched."""
        ...


class Flow:
    """A paragraph or a heading. Text is read as soon as no mark is open in it, a row given out as soon as it is full.

    Args:
        style: How it looks.
        is_open: Whether it ends only for a look: what is open is shown as if it were closed.
    """

    def __init__(self, style: str = "", *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.is_begun = False
        self._style = style
        self._row = Text()  # the last one, as far as it is settled
        self._source = ""  # what follows it
        self._length = 0  # of the line
        self._ending = ""

    def add_line(self, line: str, width: int) -> list[Text]:
        """A line, or the beginning of one; the rows that are final now."""
        rows = self.add(self._joint, width) if self.is_begun else []
        self.is_begun, self._length, self._ending = True, 0, ""
        return [*rows, *self.add(line, width)]

    def add(self, line: str, width: int) -> list[Text]:
        """More of the line."""
        rows: list[Text] = []
        self._length += len(line)
        self._ending = (self._ending + line)[-2:]
        while line:
            room = _HELD - len(self._source)
            self._source, line = self._source + line[:room], line[room:]
            scan = Scan(self._source)
            cut = scan.settled
            if not cut and len(self._source) == _HELD:
                cut = self._source.rfind(" ") + 1 or _HELD
            if cut:
                self._read(scan.segments(cut))
                self._source = self._source[cut:]
                *full, self._row = wrapped(self._row, width)
                rows += full
        return rows

    def end(self, width: int) -> list[Text]:
        """The rows that are left."""
        scan = Scan(self._source)
        if self.is_open:
            scan = Scan(scan.closed())
        self._read(scan.segments(len(scan.source)))
        self._source = ""
        return wrapped(self._row, width) if self._row else []

    def twin(self, width: int) -> Self:  # noqa: ARG002 - every block is told the width
        """One that shows what is open as if it were closed."""
        twin = copy(self)
        twin.is_open = True
        return twin

    @property
    def _joint(self) -> str:
        """What stands between two lines: a line's end that was made by wrapping is as good as a space."""
        is_hard = self._ending == "  " or self._ending.endswith("\\")
        return " " if self._length >= _WRAPPED and not is_hard else "\n"

    def _read(self, segments: Sequence[str]) -> None:
        self._row = Text.assemble(self._row, *(inline(segment, self._style) for segment in segments))


class Heading(Flow):
    """A heading, which ends with its line."""


class Code:
    """Code, indented or between fences. A row is a line, which the terminal wraps: so it can be copied.

    Args:
        fence: What stands above and below it; "" if it is indented.
        indent: How far its lines are indented, or the fence.
        language: What colours it.
    """

    def __init__(self, fence: str = "", indent: int = 0, language: str = "") -> None:
        self.fence = fence
        self.language = language
        self._indent = indent
        self._context = ""

    def add(self, line: str, width: int) -> list[Text]:  # noqa: ARG002 - as above
        """A line."""
        line = line[min(self._indent, indent_of(line)) :]
        row = self._coloured(line) if self.language else Text(line, _CODE)
        self._context = (self._context + line + "\n")[-_CONTEXT:]
        return [row]

    def end(self, width: int) -> list[Text]:  # noqa: ARG002 - as above
        """Nothing: every line was given out."""
        return []

    def twin(self, width: int) -> Self:  # noqa: ARG002 - as above
        """One that takes a line which has not ended: it has no colours yet."""
        twin = copy(self)
        twin.language = ""
        return twin

    def is_closed_by(self, line: str) -> bool:
        """Whether the line is the fence that ends it."""
        mark = line.strip()
        return indent_of(line) < 4 and len(mark) >= len(self.fence) and set(mark) == {self.fence[0]}

    def _coloured(self, line: str) -> Text:
        """The line as it looks behind those before it."""
        before = self._context
        if len(before) == _CONTEXT:
            before = before[before.find("\n") + 1 :]
        code = Syntax("", self.language, theme="ansi_dark").highlight(before + line)
        row = code[len(before) : len(before) + len(line)]
        return row if row.plain == line else Text(line, _CODE)  # a lexer may drop characters


class Heads:
    """A line of a paragraph that may be a table's first: the next line tells."""

    def __init__(self, paragraph: Flow, line: str) -> None:
        self.paragraph = paragraph
        self.line = line

    def is_table(self, line: str) -> bool:
        """Whether the next line says so."""
        return bool(_DELIMITER.fullmatch(line)) and len(_cells(line)) == len(_cells(self.line))

    def as_text(self, width: int) -> list[Text]:
        """It was text: now it is in the paragraph. The rows that are final with it."""
        return self.paragraph.add_line(self.line, width)

    def add(self, line: str, width: int) -> list[Text]:
        """Both lines are text."""
        return [*self.as_text(width), *self.paragraph.add_line(line, width)]

    def end(self, width: int) -> list[Text]:
        """It was text."""
        return [*self.as_text(width), *self.paragraph.end(width)]

    def twin(self, width: int) -> Self:
        """One whose end leaves the paragraph as it is."""
        twin = copy(self)
        twin.paragraph = self.paragraph.twin(width)
        return twin


class Table:
    """A table. It is drawn when it has ended, for every row has a say in how wide the columns are.

    Args:
        console: Where it will be drawn.
        heads: Its first line.
        delimiter: Its second line.
    """

    def __init__(self, console: Console, heads: str, delimiter: str) -> None:
        self.open_lines: list[str] | None = None  # a twin's: the line that is not whole
        self._console = console
        self._heads = _cells(heads)
        self._sides: list[JustifyMethod] = [_side(cell) for cell in _cells(delimiter)]
        self._lines: list[str] = []
        self._is_drawn = False
        self._last: tuple[tuple[int, int], list[Text]] = ((-1, 0), [])  # what twins show of the whole lines

    def add(self, line: str, width: int) -> list[Text]:
        """A row."""
        if self.open_lines is not None:
            self.open_lines.append(line)
            return []
        self._lines.append(line)
        if len(self._lines) < _TABLE:
            return []
        lines, self._lines, self._is_drawn = self._lines, [], True
        return [*self._draw(lines, width), Text()]

    def end(self, width: int) -> list[Text]:
        """The rows that are left, as a table."""
        if self.open_lines is not None:
            return [*self._last[1], *(Text(line, FRAME) for line in self.open_lines)]
        return self._draw(self._lines, width) if self._lines or not self._is_drawn else []

    def twin(self, width: int) -> Self:
        """One with the last rows, and with room for one that is not whole."""
        state = len(self._lines), width
        if self._last[0] != state:
            self._last = state, self._draw(self._lines[-_OPEN_TABLE:], width)
        twin = copy(self)
        twin.open_lines = []
        return twin

    def _draw(self, lines: list[str], width: int) -> list[Text]:
        count = len(self._heads)
        heads = [inline(cell, "bold") for cell in self._heads]
        body = [[inline(cell) for cell in [*_cells(line), *[""] * count][:count]] for line in lines]
        needed = sum(max(cell_len(row[column].plain) for row in [heads, *body]) + 2 for column in range(count)) - 2
        if needed > width and width // count < _COLUMN:
            return _as_records(heads, body, width)
        table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style=FRAME)
        for cell, side in zip(heads, self._sides, strict=True):
            table.add_column(cell, justify=side, overflow="fold")
        for row in body:
            table.add_row(*row)
        drawn = self._console.render_lines(table, self._console.options.update(width=width), pad=False)
        return [Text.assemble(*((segment.text, segment.style or "") for segment in row)) for row in drawn]


def _as_records(heads: list[Text], body: list[list[Text]], width: int) -> list[Text]:
    """Each row of a table as lines of names and values, for a screen that has no room for columns."""
    rows: list[Text] = [] if body else [row for cell in heads for row in wrapped(cell, width)]
    for number, record in enumerate(body):
        rows += [Text("─" * min(width, RULE), FRAME)] if number else []
        for name, value in zip(heads, record, strict=True):
            rows += wrapped(Text.assemble(name, ": ", value), width)
    return rows


def _cells(line: str) -> list[str]:
    """What stands between the bars of a table's line; escaped ones separate nothing."""
    line = re.sub(r"^\||(?<!\\)\|$", "", line.strip())
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]


def _side(delimiter: str) -> JustifyMethod:
    if delimiter.endswith(":"):
        return "center" if delimiter.startswith(":") else "right"
    return "left"


def indent_of(line: str) -> int:
    """How many spaces a line begins with."""
    return len(line) - len(line.lstrip(" "))
