"""The lines of Markdown: what stands in front of each, and to which block it belongs."""

import re
from collections.abc import Sequence
from copy import copy
from typing import Final

from rich.console import Console
from rich.text import Text

from chunkfold.cli.markdown.blocks import RULE, Block, Code, Flow, Heading, Heads, Table, indent_of
from chunkfold.cli.markdown.inline import FRAME
from chunkfold.cli.safe import harmless

_HELD_TEXT: Final = 200  # characters of a line that are held while it may still be anything
_HELD_LINE: Final = 1000  # the same of a line that is kept whole: of code, of a table, a fence

_DEEPEST: Final = 20  # quotes and items inside of each other; more are text

_MARKER: Final = "cyan"
_HEADINGS: Final = ("bold underline", "bold", "bold", "italic", "italic", "italic")
_BULLETS: Final = "•◦▪"

_ITEM: Final = re.compile(r"(?P<mark> {0,3}(?P<number>\d{1,9})?(?P<kind>(?(number)[.)]|[-+*])))(?P<space> +|$)")
_FENCE: Final = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_HEADING: Final = re.compile(r" {0,3}(?P<marks>#{1,6})(?: +|$)(?P<text>.*)")
_BREAK: Final = re.compile(r" {0,3}(?:([-*_])(?: *\1){2,}|=+) *")  # of which the last underlines a heading
_KEPT: Final = re.compile(r"[ >]*(?:\||```|~~~)")  # the beginning of a line that is kept whole


class _Quote:
    """A quote."""

    def __init__(self) -> None:
        self.rest = Text("▌ ", FRAME)

    def rest_of(self, line: str) -> str | None:
        """What of a line stands inside; None if it does not belong to it."""
        match = re.match(r" {0,3}> ?", line)
        return line[match.end() :] if match else None


class _Item:
    """An item of a list.

    Args:
        kind: What makes items one list: the bullet, or what follows the number.
        number: Its number, None for a bullet.
        indent: How far what belongs to it is indented.
        depth: In how many items it stands.
    """

    def __init__(self, kind: str, number: int | None, indent: int, depth: int) -> None:
        self.kind = kind
        self.number = number
        self.is_shown = False
        mark = f" {_BULLETS[depth % len(_BULLETS)]} " if number is None else f"{number:2}. "
        self.first = Text(mark, _MARKER)
        self.rest = Text(" " * len(mark))
        self._indent = indent

    def rest_of(self, line: str) -> str | None:
        """What of a line stands inside; None if it does not belong to it."""
        if not line.strip():
            return ""
        return line[self._indent :] if indent_of(line) >= self._indent else None


_Container = _Quote | _Item


class MarkdownRows:
    """Markdown in pieces of any size to rows that fit the screen; they do not depend on how it was cut.

    Args:
        console: Where the rows will be printed; it knows how wide they may be.
        is_twin: Whether it ends only for a look at what is open.
    """

    def __init__(self, console: Console, *, is_twin: bool = False) -> None:
        self._console = console
        self._is_twin = is_twin
        self._line = ""  # what is held of the line that is open
        self._is_begun = False  # whether the beginning of that line was read
        self._containers: list[_Container] = []
        self._block: Block | None = None
        self._gap: Text | None = None  # the empty row that is due before the next one
        self._has_rows = False
        self._rows: list[Text] = []

    def add(self, text: str) -> list[Text]:
        """The next piece; the rows that are final now."""
        first, *lines = harmless(text).split("\n")
        self._take(first)
        for line in lines:
            self._end_line()
            self._take(line)
        return self._given_out()

    def end(self) -> list[Text]:
        """The rows that are left."""
        if self._line or self._is_begun:
            self._end_line()
        self._leave(0)
        return self._given_out()

    def open_rows(self) -> list[Text]:
        """The rows that would be left if the text ended here."""
        twin = MarkdownRows(self._console, is_twin=True)
        containers = [copy(container) for container in self._containers]
        block = self._block.twin(self._room) if self._block else None
        vars(twin).update(vars(self), _is_twin=True, _containers=containers, _block=block, _rows=[])
        return twin.end()

    def _take(self, piece: str) -> None:
        """A part of a line."""
        while piece:
            if self._is_begun and isinstance(self._block, Flow):
                self._emit(self._block.add(piece.replace("\t", " "), self._room))
                return
            room = (_HELD_TEXT if len(self._line) < _HELD_TEXT else _HELD_LINE) - len(self._line)
            self._line, piece = self._line + piece[:room], piece[room:]
            is_kept = isinstance(self._block, Code | Table) or _KEPT.match(self._line)
            if len(self._line) == _HELD_LINE or (len(self._line) == _HELD_TEXT and not is_kept):
                self._read_held(is_whole=False)
                self._is_begun = True

    def _end_line(self) -> None:
        if self._line or not self._is_begun:
            self._read_held(is_whole=True)
        self._is_begun = False
        if isinstance(self._block, Heading):
            self._end_block()

    def _read_held(self, *, is_whole: bool) -> None:
        line, self._line = self._line.expandtabs(4), ""
        if self._is_begun and isinstance(self._block, Code | Table):
            self._emit(self._block.add(line, self._room))  # more of a line that was too long
        else:
            self._read(line, is_whole=is_whole)

    def _read(self, line: str, *, is_whole: bool) -> None:
        """Find out what a line is, and where it stands."""
        rest, depth = self._inside(line)
        if depth == len(self._containers) and self._goes_on(rest):
            return
        if not rest.strip():
            self._leave(depth)
            self._gap = Text.assemble(*(container.rest for container in self._containers))
            self._gap.rstrip()
            return
        if isinstance(self._block, Heads):
            self._emit(self._block.as_text(self._room))
            self._block = self._block.paragraph
        rest, is_new = self._enter(rest, depth)
        is_lazy = self._is_paragraph and not _begins_block(rest)  # then it goes on without what stands in front
        if depth < len(self._containers) and not is_new and not is_lazy:
            self._leave(depth)
        if rest.strip():
            self._read_leaf(rest, is_whole=is_whole)

    # Containers

    def _inside(self, line: str) -> tuple[str, int]:
        """What of a line stands inside of how many of the open containers."""
        for depth, container in enumerate(self._containers):
            rest = container.rest_of(line)
            if rest is None:
                return line, depth
            line = rest
        return line, len(self._containers)

    def _enter(self, line: str, depth: int) -> tuple[str, bool]:
        """Open the containers that begin in a line; what stands inside of them, and whether there were any."""
        is_new = False
        while depth < _DEEPEST:
            container: _Container
            rest = _Quote().rest_of(line)
            match = None if _BREAK.fullmatch(line) else _ITEM.match(line)
            if rest is not None:
                container = _Quote()
            elif match and (is_new or self._may_begin(match, line, depth)):
                rest = line[match.end("mark") + 1 :] if len(match["space"]) > 4 else line[match.end() :]
                indent = len(line) - len(rest) if rest.strip() else match.end("mark") + 1
                container = self._item(match, indent, depth)
            else:
                break
            self._leave(depth)
            self._containers.append(container)
            line, depth, is_new = rest, depth + 1, True
        return line, is_new

    def _may_begin(self, match: re.Match[str], line: str, depth: int) -> bool:
        """Whether an item may begin here; inside a paragraph only one with text that is the first of its list."""
        if not self._is_paragraph or depth < len(self._containers):
            return True
        return bool(line[match.end() :].strip()) and match["number"] in (None, "1")

    def _item(self, match: re.Match[str], indent: int, depth: int) -> _Item:
        before = self._containers[depth] if depth < len(self._containers) else None
        number = int(match["number"]) if match["number"] else None
        if isinstance(before, _Item) and before.kind == match["kind"] and before.number is not None:
            number = before.number + 1
        items = sum(isinstance(container, _Item) for container in self._containers[:depth])
        return _Item(match["kind"], number, indent, items)

    def _leave(self, depth: int) -> None:
        """End the block, and all but so many of the containers."""
        self._end_block()
        if any(isinstance(container, _Item) and not container.is_shown for container in self._containers[depth:]):
            self._emit([Text()])
        del self._containers[depth:]

    # Blocks

    @property
    def _is_paragraph(self) -> bool:
        return isinstance(self._block, Flow) and not isinstance(self._block, Heading)

    def _goes_on(self, line: str) -> bool:
        """Whether the line belongs to the open block, whatever it looks like; then it is read."""
        block = self._block
        if isinstance(block, Code):
            return self._read_code(block, line)
        if isinstance(block, Heads) and block.is_table(line):
            self._emit(block.paragraph.end(self._room))
            self._block = Table(self._console, block.line, line)
            return True
        if isinstance(block, Table) and "|" in line and not _begins_block(line):
            self._emit(block.add(line, self._room))
            return True
        return False

    def _read_code(self, block: Code, line: str) -> bool:
        if block.fence and block.is_closed_by(line):
            self._end_block()
            self._emit([Text(line.strip(), FRAME)])
        elif block.fence or indent_of(line) >= 4:
            self._emit(block.add(line, self._room))
        else:
            return False
        return True

    def _read_leaf(self, line: str, *, is_whole: bool) -> None:
        text = line.strip() + ("  " if line.endswith("  ") else "") if is_whole else line.lstrip()
        if indent_of(line) >= 4 and not self._is_paragraph:
            self._end_block()
            self._block = Code(indent=4)
            self._emit(self._block.add(line, self._room))
        elif is_whole and (match := _FENCE.fullmatch(line)):
            self._end_block()
            self._emit([Text(line.strip(), FRAME)])
            self._block = Code(match["fence"], indent_of(line), match["info"].strip().partition(" ")[0])
        elif match := _HEADING.fullmatch(line):
            self._end_block()
            self._block = Heading(_HEADINGS[len(match["marks"]) - 1], is_open=self._is_twin)
            self._emit(self._block.add_line(re.sub(r"(?:^| )#+ *$", "", match["text"]), self._room))
        elif is_whole and _BREAK.fullmatch(line) and (text[0] != "=" or self._is_paragraph):
            self._end_block()
            self._emit([Text("─" * min(self._room, RULE), FRAME)])
        else:
            self._read_text(text, may_be_heads=is_whole and "|" in text)

    def _read_text(self, text: str, *, may_be_heads: bool) -> None:
        if isinstance(self._block, Flow):
            paragraph = self._block
        else:
            self._end_block()
            self._block = paragraph = Flow(is_open=self._is_twin)
        if may_be_heads:
            self._block = Heads(paragraph, text)
        else:
            self._emit(paragraph.add_line(text, self._room))

    def _end_block(self) -> None:
        block, self._block = self._block, None
        if block:
            self._emit(block.end(self._room))

    # Rows

    @property
    def _room(self) -> int:
        """How wide a block's rows may be."""
        width = self._console.width
        return max(width - min(sum(len(container.rest) for container in self._containers), width // 2), 1)

    def _emit(self, rows: Sequence[Text]) -> None:
        for row in rows:
            if self._gap is not None and self._has_rows:
                self._rows.append(self._gap)
            self._gap, self._has_rows = None, True
            drawn = Text.assemble(self._prefix(), row)
            drawn.rstrip()
            self._rows.append(drawn)

    def _prefix(self) -> Text:
        """What stands in front of the next row; of what is nested too deep for the screen, the innermost."""
        prefix = Text.assemble(*map(_taken, self._containers))
        return prefix[max(len(prefix) - self._console.width // 2, 0) :]

    def _given_out(self) -> list[Text]:
        rows, self._rows = self._rows, []
        return rows


def _taken(container: _Container) -> Text:
    """What stands in front of its next row."""
    if isinstance(container, _Quote) or container.is_shown:
        return container.rest
    container.is_shown = True
    return container.first


def _begins_block(line: str) -> bool:
    """Whether a line begins a block that can stand behind text without an empty line between them."""
    return any(pattern.fullmatch(line) for pattern in (_FENCE, _HEADING, _BREAK))
