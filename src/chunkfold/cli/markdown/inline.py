"""What stands in a line of Markdown: emphasis, code, links; and how far it is settled while it is still written."""

import re
import unicodedata
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.text import Text

from chunkfold.cli.markdown.wrapping import CLOSING, WIDE
from chunkfold.cli.safe import harmless

_CODE: Final = "bold cyan"
FRAME: Final = "dim"

_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable("text_join", ignoreInvalid=True)
)
_STYLES: Final = {"em": "italic", "strong": "bold", "s": "strike"}
_FORMULA: Final = frozenset({"\\(", "\\)", "\\[", "\\]"})  # CommonMark's escapes; models write formulas with them


def inline(source: str, style: str = "") -> Text:
    """Emphasis, code and links as styled text; all else as it stands."""
    text = Text(style=style)
    styles: list[str] = []
    links: list[tuple[int, str]] = []
    for token in _PARSER.parseInline(source)[0].children or ():
        kind, _, edge = token.type.rpartition("_")
        if edge == "open" and kind in _STYLES:
            styles.append(_STYLES[kind])
        elif edge == "close" and kind in _STYLES:
            styles.pop()
        elif token.type == "link_open":
            links.append((len(text), harmless(str(token.attrs.get("href", "")))))
        elif token.type == "link_close":
            _end_link(text, *links.pop())
        else:
            kinds = [*styles, _CODE] if token.type == "code_inline" else styles
            text.append(harmless(_content(token)), " ".join(kinds))
    return text


def _content(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type == "image":
        return f"[image: {token.content}] ({token.attrs.get('src', '')})"
    return token.markup if token.markup in _FORMULA else token.content


def _end_link(text: Text, start: int, target: str) -> None:
    """Say where the link leads, unless its text says that already."""
    text.stylize("underline", start)
    label = text.plain[start:]
    if target and target not in (label, f"mailto:{label}"):
        text.append(f" ({target})", FRAME)


_MARK: Final = re.compile(rf"\\.|`+|\*+|_+|~~+|\[|\]|\s+|[{WIDE}](?=[^\s{CLOSING}])", re.DOTALL)
_DESTINATION: Final = re.compile(r"\((?:[^()\\]|\\.|\([^()]*\))*\)", re.DOTALL)
_IS_WIDE: Final = re.compile(f"[{WIDE}]")


class Scan:
    """How far a piece of Markdown is settled: nothing behind that place can change what stands before it.

    CommonMark's rules, but beside a mark a wide character is as good as a space: such text has none.

    Attributes:
        settled: The characters up to the last such place.
        marks: The marks that are open at the end, the innermost last.
        dangling: The length of a mark at the very end that has nothing to close.
        source: The piece.
    """

    def __init__(self, source: str) -> None:
        self.settled = 0
        self.marks: list[str] = []
        self.dangling = 0
        self.source = source
        self._seams: list[int] = []  # beside marks that CommonMark would not take for some
        position: int | None = 0
        while position is not None and (match := _MARK.search(source, position)):
            position = self._read(match[0], match.start())

    def segments(self, end: int) -> list[str]:
        """The source up to there, in pieces to be read one by one."""
        places = [0, *(seam for seam in self._seams if 0 < seam < end), end]
        return [self.source[start:stop] for start, stop in pairwise(places)]

    def closed(self) -> str:
        """The source as if what is open were closed at its end."""
        shown = self.source[: len(self.source) - self.dangling].rstrip()
        return shown + "".join(mark for mark in reversed(self.marks) if mark[0] not in "[(")

    def _read(self, mark: str, start: int) -> int | None:
        """Where to read on behind a mark; None where the rest belongs to it, or has not come."""
        end = start + len(mark)
        if mark.isspace() or _IS_WIDE.match(mark):
            if not self.marks:
                self.settled = start if end == len(self.source) else end
            return end
        if mark[0] == "`":
            return self._end_of_code(mark, end)
        if mark[0] in "*_~":
            self._read_emphasis(mark, start, end)
        elif mark == "[":
            self.marks.append(mark)
        elif mark == "]" and "[" in self.marks:
            del self.marks[-1 - self.marks[::-1].index("[") :]
            return self._end_of_link(end)
        return end

    def _end_of_code(self, mark: str, start: int) -> int | None:
        closing = re.compile(rf"(?<!`){mark}(?!`)").search(self.source, start)
        if closing is None:
            self.marks.append(mark)
            return None
        return None if closing.end() == len(self.source) else closing.end()

    def _end_of_link(self, end: int) -> int | None:
        """Where the link ends whose text ends here."""
        if end < len(self.source) and self.source[end] != "(":
            return end
        match = _DESTINATION.match(self.source, end)
        if match is None:
            self.marks.append("(")
        return match.end() if match else None

    def _read_emphasis(self, mark: str, start: int, end: int) -> None:
        before, after = self.source[start - 1 : start], self.source[end : end + 1]
        opens, closes = _flanking(mark[0], before, after)
        if closes and self._close(mark):
            if not self.marks and after and _IS_WIDE.search(before + after):
                self._settle_at(end)
        elif not after:
            self.dangling = len(mark)
        elif opens:
            if not self.marks and _IS_WIDE.match(before):
                self._settle_at(start)
            self.marks.append(mark)

    def _settle_at(self, place: int) -> None:
        self.settled = place
        self._seams.append(place)

    def _close(self, mark: str) -> bool:
        """Whether the mark ended something that was open; what was opened inside of that is open no more."""
        count, closed = len(mark), False
        for place in range(len(self.marks) - 1, -1, -1):
            opened = self.marks[place]
            if opened[0] != mark[0]:
                continue
            closed = True
            self.marks[place:] = [opened[count:]] if len(opened) > count else []
            count -= len(opened)
            if count <= 0:
                break
        return closed


def _flanking(mark: str, before: str, after: str) -> tuple[bool, bool]:
    """Whether a run of marks can open emphasis, and whether it can close it."""
    starts = not before or before.isspace()
    ends = not after or after.isspace()
    wide_before, wide_after = _IS_WIDE.match(before) is not None, _IS_WIDE.match(after) is not None
    left = not ends and (not _is_punctuation(after) or starts or _is_punctuation(before) or wide_before)
    right = not starts and (not _is_punctuation(before) or ends or _is_punctuation(after) or wide_before or wide_after)
    if mark == "_":
        return left and (not right or _is_punctuation(before)), right and (not left or _is_punctuation(after))
    return left, right


def _is_punctuation(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "PS"
