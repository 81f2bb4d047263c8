"""Short excerpts of values for reprs, messages and logs, so that none of these shows a whole content.

Strings and bytes are cut in the middle and escaped as Python does it. Lists and objects show their first few items.
"""

import reprlib
from dataclasses import fields
from typing import Any, Final, cast

_LONGEST: Final = 60  # characters of a text in a `repr`
_LONGEST_REPR: Final = 2000
_LARGEST_INTEGER: Final = 2000  # bits, some 600 digits; interpreters can be set to print no more than 640
_EXCERPT: Final = 200

# What acts on a terminal, besides ASCII's control characters: DEL and C1; the marks, embeddings, overrides and isolates
# of bidirectional text; and the separators of lines and paragraphs.
TERMINAL_CONTROLS: Final = frozenset(
    code
    for first, last in ((0x7F, 0x9F), (0x61C, 0x61C), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x2069))
    for code in range(first, last + 1)
)


class _Shortener(reprlib.Repr):
    """The standard library's, which also shortens bytes and accepts integers of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = _LONGEST
        self.maxlist = self.maxtuple = self.maxdict = 4
        self.maxlevel = 4
        self.maxother = 500

    def repr_bytes(self, value: bytes, _level: int) -> str:
        half = _LONGEST // 2
        return repr(value) if len(value) <= _LONGEST else f"{value[:half]!r}...{value[-half:]!r}"

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return super().repr_int(x, level) if bits <= _LARGEST_INTEGER else f"<an integer of {bits} bits>"

    def repr_ellipsis(self, _value: Any, _level: int) -> str:
        """What stands for values that are not shown."""
        return "..."


short_repr = _Shortener().repr


def printed(value: Any) -> str:
    """`str` of a value; a short one where it holds integers of more digits than the interpreter prints."""
    try:
        return str(value)
    except ValueError:
        return short_repr(value)


def exception_text(exc: BaseException) -> str:
    """The message of an exception of another library; "" if it has none, or if making it fails."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - its `__str__` may raise anything
        return ""


def bounded(text: str) -> str:
    """The `repr` of a model, cut where it is too long for a log."""
    return text if len(text) <= _LONGEST_REPR else text[:_LONGEST_REPR] + "...)"


class Excerpt:
    """A value whose `repr` is short."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return short_repr(self._value)


class ShortRepr:
    """Gives a dataclass a `repr` like its own, with short values."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (field.name for field in fields(cast("Any", self)))
        return f"{type(self).__name__}({', '.join(f'{name}={short_repr(getattr(self, name))}' for name in shown)})"


def excerpt(value: object, limit: int = _EXCERPT) -> str:
    """At most `limit` characters of the input, quoted and escaped, safe for messages and terminals."""
    shown = _shown_items(value, limit) if isinstance(value, (dict, list)) else _shown(value, limit)
    return shown if len(shown) <= limit else shown[:limit] + "..."


def _shown_items(holder: Any, limit: int) -> str:
    """The `repr` of an object or a list, or a beginning of more than `limit` characters: all of it may be large."""
    is_object = not isinstance(cast("object", holder), list)
    shown, end = "{}" if is_object else "[]"
    for item in holder:
        if len(shown) > limit:
            return shown
        shown += ", " if len(shown) > 1 else ""
        shown += excerpt(item, max(0, limit - len(shown)))
        if is_object:
            shown += ": "
            shown += excerpt(holder[item], max(0, limit - len(shown)))
    return shown + end


def _shown(value: Any, limit: int) -> str:
    try:
        return repr(value[: limit + 1] if isinstance(value, (str, bytes)) else value)
    except ValueError:  # more digits than the interpreter prints
        return short_repr(value)


def excerpt_of(data: bytes) -> str:
    """An excerpt of UTF-8 data, of which no more is decoded than is shown."""
    return excerpt(data[: 4 * (_EXCERPT + 1)].decode("utf-8", "replace"))


def on_one_line(text: str, limit: int = _EXCERPT) -> str:
    """At most `limit` characters of a text on one line: blanks as spaces, invisible characters escaped."""
    shown = visible(" ".join(text[: limit + 1].split()))
    return shown if len(shown) <= limit and len(text) <= limit else shown[:limit] + "..."


def visible(text: str, kept: str = "") -> str:
    """A text whose invisible characters, except those to keep, are escaped as Python does it."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else repr(one)[1:-1] for one in text)


def counted(count: int, noun: str) -> str:
    """A count with its noun, as in "1 chunk" and "2,000 chunks"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
