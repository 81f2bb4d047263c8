"""Markdown while it is written, drawn by rich's `Markdown`: a block is final once markdown-it-py sees another begin.

Only whole lines can make a block final, since a line that is cut may still turn the one above it into a heading or a
table. In a list each item is a block, and in code each line that does not end within a string or a comment: it is
coloured then, and not again. The open block is drawn as if the text ended there; if it is larger than `_LOOK`, only its
end, as plain text. So the cost of a look is bounded, and the rest is linear.

Differences from rich: a line end within a paragraph is kept, HTML is text, images are names and targets, tasks are
boxes, and stars emphasise East Asian text whatever punctuation is beside them.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from unicodedata import east_asian_width

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis
from markdown_it.token import Token
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, String
from pygments.util import ClassNotFound
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from chunkfold.cli.safe import one_line

_LOOK: Final = 4000  # characters of an open block that are drawn as Markdown
_LEAST: Final = 10  # columns: on a narrower terminal, the terminal wraps the rows
_WRAPPED: Final = 60  # characters from which on a line break is taken for wrapping and not kept
_FRAME: Final = "dim"
_OPEN_LINK: Final = re.compile(r"\]\([^()\s]{1,200}$")
_BOXES: Final = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
# Languages in which single lines have too little context: many lines are coloured at once.
_NESTED: Final = frozenset({"CSS", "HTML", "HTML + PHP", "JSX", "LESS", "PHP", "SCSS", "TSX", "Vue", "XML"})
_MANY: Final = 64  # lines


class MarkdownRows:
    """Turns Markdown in pieces into rows that fit the console; how it is cut does not change them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        self._parser.inline.ruler.before("escape", "formula", _formula)
        self._parser.inline.ruler.at("emphasis", _emphasis)
        self._references: dict[str, Any] = {}
        self._pieces: list[str] = []
        self._source = ""  # of the open block
        self._parsed = 0  # characters of it that were parsed without a final block
        self._code: _Code | None = None
        self._item: str | None = None  # the kind of the list whose items are being returned
        self._number = 0  # of its next item
        self._has_rows = False

    def add(self, text: str) -> None:
        """The next piece."""
        self._pieces.append(text)

    def settled(self) -> list[Text]:
        """The rows that are final now, and were not returned before."""
        self._source += "".join(self._pieces)
        self._pieces.clear()
        rows: list[Text] = []
        while (found := self._settle_code(self._code) if self._code else self._settle_blocks()) is not None:
            rows += found
        return rows

    def end(self) -> list[Text]:
        """The rows that are left."""
        rows = self.settled()
        if self._source:
            self.add("\n")  # ends the last line, unless it is empty
            rows += self.settled()
        if self._code:
            rows += self._code.end()
        else:
            rows += self._drawn(self._parse(self._source))
        self._source, self._code = "", None
        return rows

    def open_rows(self) -> list[Text]:
        """The rows after the settled ones, if the text ended here."""
        if self._code:
            return [*self._code.open_rows(), *([Text(self._source[-_LOOK:])] if self._source else [])]
        if len(self._source) > _LOOK:
            shown = Text(one_line(self._source[-_LOOK:].replace("\n", " ")))
            return list(shown.wrap(self._console, self._width))
        state = self._item, self._number, self._has_rows
        rows = self._drawn(self._parse(_closed(self._source)))
        self._item, self._number, self._has_rows = state
        return rows

    @property
    def _width(self) -> int:
        return max(self._console.width, _LEAST)

    def _parse(self, source: str) -> list[Token]:
        return self._parser.parse(source, self._references)

    def _settle_blocks(self) -> list[Text] | None:
        """The rows of the blocks that are final; None if there are none."""
        end = self._source.rfind("\n") + 1
        if end <= self._parsed or (self._parsed > _LOOK and end < self._parsed * 1.5):
            return None
        tokens = self._parse(self._source[:end])
        starts = [place for place, token in enumerate(tokens) if _begins(token)]
        last = next((place for place in starts if tokens[place].type == "fence"), starts[-1] if starts else 0)
        if not tokens or (not _first_line(tokens[last]) and tokens[last].type != "fence"):
            self._parsed = end
            return None
        rows = self._drawn(_whole(tokens, last))
        self._drop_lines(_first_line(tokens[last]))
        if tokens[last].type == "fence":
            rows += self._begin_code(tokens[last])
        return rows

    def _drop_lines(self, count: int) -> None:
        *_, self._source = self._source.split("\n", count)
        self._parsed = 0

    def _begin_code(self, token: Token) -> list[Text]:
        first = self._source.partition("\n")[0]
        self._drop_lines(1)
        self._code = _Code(token.info.strip().partition(" ")[0], token.markup, len(first) - len(first.lstrip()))
        self._item = None
        return [*self._gap(), Text(one_line(first.strip()), _FRAME)]

    def _settle_code(self, code: "_Code") -> list[Text] | None:
        *lines, self._source = self._source.split("\n")
        rows: list[Text] = []
        for place, line in enumerate(lines):
            if code.is_closed_by(line):
                rows += [*code.end(), Text(one_line(line.strip()), _FRAME)]
                self._code = None
                self._source = "\n".join((*lines[place + 1 :], self._source))
                return rows
            rows += code.add(line)
        return rows or None

    def _gap(self) -> list[Text]:
        gap = [Text()] if self._has_rows else []
        self._has_rows = True
        return gap

    def _drawn(self, tokens: Sequence[Token]) -> list[Text]:
        """The rows of whole blocks, with an empty one between any two but the items of a list."""
        rows: list[Text] = []
        for block in _blocks(tokens):
            kind = f"{block[0].type} {block[0].markup}" if block[0].type.endswith("list_open") else None
            is_next = kind is not None and kind == self._item
            if block[0].type == "ordered_list_open":
                self._number = self._number if is_next else int(block[0].attrs.get("start", 1))
                block[0].attrs["start"] = self._number
                self._number += 1
            drawn = self._rows_of(block)
            if drawn:
                rows += drawn if is_next else [*self._gap(), *drawn]
            self._item = kind
        return rows

    def _rows_of(self, block: list[Token]) -> list[Text]:
        if block[0].type == "code_block":
            return [Text(one_line(line)) for line in block[0].content.expandtabs(4).splitlines()]
        if block[0].type == "fence":  # its first line is not complete yet
            return [Text(one_line(f"{block[0].markup}{block[0].info}"), _FRAME)]
        drawing = _Markdown("", hyperlinks=False, code_theme=_theme_name())
        drawing.parsed = [_as_drawn(token) for token in block]
        options = self._console.options.update(width=self._width, height=None)
        lines = self._console.render_lines(drawing, options, pad=False)
        rows = [Text.assemble(*((one_line(part.text), part.style or "") for part in line)) for line in lines]
        for row in rows:
            row.rstrip()
        return _stripped(rows)


class _Code:
    """Lines of code, coloured as soon as they do not end within a string or a comment."""

    def __init__(self, language: str, fence: str, indent: int) -> None:
        self._fence = re.compile(rf" {{0,3}}{re.escape(fence)}{re.escape(fence[0])}*[ \t]*")
        self._indent = indent
        self._lexer = _lexer(language)
        self._theme = Syntax.get_theme(_theme_name())
        self._open: list[str] = []
        self._wanted = self._first_wanted = _MANY if self._lexer and self._lexer.name in _NESTED else 1

    def is_closed_by(self, line: str) -> bool:
        """Whether the line is the closing fence."""
        return bool(self._fence.fullmatch(line))

    def add(self, line: str) -> list[Text]:
        """Add a line, and return the rows that are final now."""
        indent = len(line) - len(line.lstrip(" "))
        self._open.append(line[min(indent, self._indent) :].replace("\t", "    "))
        if len(self._open) < self._wanted:
            return []
        rows, is_inside = self._coloured()
        if is_inside:
            self._wanted = 2 * len(self._open)  # so that no line is coloured more than twice
            return []
        self._wanted = self._first_wanted
        self._open.clear()
        return rows

    def end(self) -> list[Text]:
        """The rows that are left."""
        rows = self._coloured()[0] if self._open else []
        self._open.clear()
        return rows

    def open_rows(self) -> list[Text]:
        """The last open lines, not coloured yet."""
        return [Text(one_line(line)) for line in self._open[-_MANY:]]

    def _coloured(self) -> tuple[list[Text], bool]:
        """The rows of the open lines, and whether they end within a string or a comment."""
        source = "\n".join(self._open) + "\n"
        if self._lexer is None:
            return [Text(one_line(line)) for line in self._open], False
        text = Text()
        kind: Any = None
        for kind, part in self._lexer.get_tokens(source):
            text.append("\n".join(map(one_line, part.split("\n"))), self._theme.get_style_for_token(kind))
        rows = list(text.split("\n", allow_blank=True))[: len(self._open)]
        return rows, kind is not None and (kind in String or kind in Comment.Multiline)


class _Heading(rich_markdown.Heading):
    """A heading at the left, whatever its level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _List(rich_markdown.ListElement):
    """A list with numbers of the same width, since its items are drawn one by one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.list_type == "bullet_list_open":
            yield from super().__rich_console__(console, options)
            return
        first = 1 if self.list_start is None else self.list_start
        for number, item in enumerate(self.items, first):
            yield from item.render_number(console, options, number, max(first + len(self.items), 10))


class _CodeBlock(rich_markdown.CodeBlock):
    """Code in a list or a quote, without a background."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, background_color="default", word_wrap=True)


class _Rule(rich_markdown.HorizontalRule):
    """A line like those of a table."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=_FRAME)


class _Markdown(rich_markdown.Markdown):
    elements = rich_markdown.Markdown.elements | {
        "heading_open": _Heading,
        "hr": _Rule,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
    }


def _closed(source: str) -> str:
    """The source, with the mark or the link target that is open at its end closed."""
    paragraph = source[source.rfind("\n\n") + 1 :]
    if "```" in paragraph:
        return source
    mark = next((mark for mark in ("`", "**") if paragraph.count(mark) % 2), "")
    if not mark:
        return f"{source})" if _OPEN_LINK.search(paragraph) else source
    if paragraph.endswith(mark):
        return source
    return source.rstrip() + mark if mark == "**" else source + mark


# Tokens


def _formula(state: StateInline, _: bool) -> bool:  # noqa: FBT001 - markdown-it's
    r"""The marks of formulas, \( and \[, are not escapes."""
    mark = state.src[state.pos : state.pos + 2]
    if mark not in (r"\(", r"\)", r"\[", r"\]"):
        return False
    state.pending += mark
    state.pos += 2
    return True


def _emphasis(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - markdown-it's
    """As in CommonMark, but next to East Asian characters stars open and close even beside punctuation.

    CommonMark expects spaces around words, and these languages have none.
    """
    start, known = state.pos, len(state.delimiters)
    is_found = emphasis.tokenize(state, silent)
    before, after = state.src[start - 1 : start], state.src[state.pos : state.pos + 1]
    if is_found and state.src[start] == "*" and any(east_asian_width(each) in "FHW" for each in before + after):
        for delimiter in state.delimiters[known:]:
            delimiter.open, delimiter.close = bool(after.strip()), bool(before.strip())
    return is_found


def _begins(token: Token) -> bool:
    """Whether a block begins here, or an item of a list that is not inside another block."""
    return (token.level == 0 and token.nesting >= 0) or (token.level == 1 and token.type == "list_item_open")


def _first_line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _whole(tokens: list[Token], end: int) -> list[Token]:
    """The tokens before the last block, or before the last item of a list, which is closed."""
    return tokens[:end] + (tokens[-1:] if tokens[end].type == "list_item_open" else [])


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Block by block, and a list item by item."""
    block: list[Token] = []
    for token in tokens:
        if token.level == 0 and token.nesting < 0 and block[-1].type.endswith("list_open"):
            block = []  # the end of a list whose items were all returned
            continue
        block.append(token)
        if token.level == 1 and token.type == "list_item_close":
            opening = block[0]
            yield [*block, Token(opening.type.replace("open", "close"), opening.tag, -1)]
            block = [opening.copy()]
        elif token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _as_drawn(token: Token) -> Token:
    """The token, changed where `rich` would omit it or draw it differently."""
    if token.type != "inline" or not token.children:
        return token
    children, length = list[Token](), 0
    for child in token.children:
        shown = child
        if child.type == "image":
            shown = Token("text", "", 0, content=f"[image: {child.content}] ({child.attrs.get('src', '')})")
        elif child.type in ("link_open", "link_close") and child.info == "auto":
            continue
        elif child.type == "softbreak" and length < _WRAPPED:
            shown = Token("hardbreak", "br", 0)
        length = 0 if shown.type in ("softbreak", "hardbreak") else length + len(shown.content)
        children.append(shown)
    first = children[0]
    if token.level >= 3 and first.type == "text" and first.content[:4] in _BOXES:
        children[0] = Token("text", "", 0, content=_BOXES[first.content[:4]] + first.content[4:])
    return token.copy(children=children)


def _stripped(rows: list[Text]) -> list[Text]:
    """The rows without empty ones at the beginning and the end."""
    filled = [place for place, row in enumerate(rows) if row.plain]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _theme_name() -> str:
    """The terminal's own colours; bright ones, unless the terminal says that its background is white."""
    return "ansi_light" if os.environ.get("COLORFGBG", "").endswith((";7", ";15")) else "ansi_dark"


def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False) if language else None
    except ClassNotFound:
        return None
