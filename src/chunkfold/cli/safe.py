"""Text from a model or a provider, made safe to print.

Control characters can move a terminal's cursor, set its title, or reverse the order of words. Each of them is
shown escaped, as Python writes it. A key that was sent is never shown, even if the other side repeats it.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from chunkfold.excerpts import TERMINAL_CONTROLS

_C0: Final = range(0x20)  # which includes ESC
_HALVES: Final = range(0xD800, 0xE000)  # of characters, which no encoding can write
_HARMLESS: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*_C0, *TERMINAL_CONTROLS, *_HALVES)
    if chr(code) not in "\n\t"
} | {ord("\r"): None}  # half of a line's end, or an attempt to overwrite one
_ONE_LINE: Final = _HARMLESS | {ord("\n"): "\\n", ord("\t"): "\\t"}
_IN_JSON: Final = {code: f"\\u{code:04x}" for code in _HARMLESS}


def harmless(text: str) -> str:
    r"""The text with its control characters escaped; line feeds and tabs stay.

    >>> print(harmless("a red \x1b[31mword"))
    a red \x1b[31mword
    """
    return text.translate(_HARMLESS)


def one_line(text: str) -> str:
    """The text with every control character escaped, for names, messages and arguments."""
    return text.translate(_ONE_LINE)


def reason_of(error: Exception) -> str:
    """The exception's message on one line; its type if it has none."""
    said = "out of memory" if isinstance(error, MemoryError) else getattr(error, "strerror", None)
    return one_line(said or str(error) or type(error).__name__)


def json_line(value: Any) -> str:
    """The value as one line of JSON, with every control character escaped."""
    return json.dumps(value, ensure_ascii=False).translate(_IN_JSON)


class Secrets:
    """Replaces each character of a secret by a star."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
        self.spellings = sorted(spellings, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self.spellings)))

    def hide(self, text: str) -> str:
        """The text with stars in place of every secret."""
        return self._pattern.sub(lambda match: "*" * len(match[0]), text) if self.spellings else text


class SecretsInPieces:
    """The same for a text that arrives in pieces: the end of a piece is held back while it may begin a secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""

    def hide(self, piece: str) -> str:
        """The text that can be shown after this piece."""
        text = self._secrets.hide(self._held + piece)
        held = max((_overlap(text, spelling) for spelling in self._secrets.spellings), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """The text that is still held back at the end."""
        rest, self._held = self._held, ""
        return rest


def _spellings(secret: str) -> set[str]:
    """The forms in which a secret may be repeated: unchanged, in JSON, in a URL."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret, safe="")}


def _overlap(text: str, secret: str) -> int:
    """The number of characters at the end of the text that are the beginning of the secret."""
    longest = min(len(text), len(secret) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(secret[:size])), 0)
