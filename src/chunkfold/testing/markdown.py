"""Write text and tables as Markdown."""

import re
from collections.abc import Sequence


def code_span(text: str) -> str:
    """One line of text as Markdown shows it unchanged."""
    fence = code_fence(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text or ' '}{pad}{fence}"


def code_fence(text: str, least: int = 3) -> str:
    """Backticks that can enclose a text in Markdown: more than it has in a row, and at least `least`."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def markdown_table(rows: Sequence[Sequence[str]], *, is_aligned: bool = False) -> list[str]:
    """The lines of a table in Markdown, the head first; if aligned, the columns line up as plain text, too."""
    widths = [max(map(len, column)) if is_aligned else 0 for column in zip(*rows, strict=True)]
    lines = (rows[0], ["-" * max(3, width) for width in widths], *rows[1:])
    return [f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines]
