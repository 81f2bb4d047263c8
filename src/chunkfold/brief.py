"""How values show themselves: briefly, so that a log that has their `repr` has no more of a content than an excerpt.

Strings and bytes are cut in the middle and escaped as Python does it, lists and objects show their first few items.
"""

import reprlib
from dataclasses import fields
from typing import Any, cast

_LONGEST = 60  # characters of a text


class _BriefRepr(reprlib.Repr):
    """The standard library's own, for bytes too; what has items or fields of its own shows these, not half of them."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = _LONGEST
        self.maxlist = self.maxtuple = self.maxdict = 4
        self.maxlevel = 4
        self.maxother = 500

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Bytes, cut in the middle."""
        del level
        half = _LONGEST // 2
        return repr(value) if len(value) <= _LONGEST else f"{value[:half]!r}...{value[-half:]!r}"


brief = _BriefRepr().repr


_LONGEST_WHOLE = 2000


def whole(text: str) -> str:
    """A whole `repr`, cut where it is too long for a log."""
    return text if len(text) <= _LONGEST_WHOLE else text[:_LONGEST_WHOLE] + "...)"


class Excerpt:
    """A value that shows itself briefly."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return brief(self._value)


class BriefRepr:
    """Gives a dataclass a `repr` like its own, with brief values."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (field.name for field in fields(cast("Any", self)) if field.repr)
        return f"{type(self).__name__}({', '.join(f'{name}={brief(getattr(self, name))}' for name in shown)})"
