"""Text from a model or a provider, made fit to be printed.

What reaches a terminal unchanged can move its cursor, set its title, or show words in another order
than they stand. Every such character becomes visible instead, as Python would write it.
"""

from typing import Final

_LINES_AND_TABS: Final = frozenset("\n\t")
_RANGES: Final = (
    (0x00, 0x1F),  # C0, ESC among them
    (0x7F, 0x9F),  # DEL and C1
    (0x061C, 0x061C),  # the marks, embeddings, overrides and isolates of bidirectional text
    (0x200E, 0x200F),
    (0x2028, 0x202E),  # and the separators of lines and paragraphs
    (0x2066, 0x2069),
    (0xD800, 0xDFFF),  # halves of characters, which no encoding can write
)
_HARMLESS: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for first, last in _RANGES
    for code in range(first, last + 1)
    if chr(code) not in _LINES_AND_TABS
} | {ord("\r"): None}  # half of a line's end, or an attempt to overwrite one
_ONE_LINE: Final = _HARMLESS | {ord("\n"): "\\n", ord("\t"): "\\t"}


def harmless(text: str) -> str:
    r"""The text with its control characters escaped; line feeds and tabs stay.

    >>> print(harmless("a red \x1b[31mword"))
    a red \x1b[31mword
    """
    return text.translate(_HARMLESS)


def one_line(text: str) -> str:
    """The text with every control character escaped, for names, messages and arguments."""
    return text.translate(_ONE_LINE)
