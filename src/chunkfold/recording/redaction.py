"""Keep secrets out of recordings: known secrets, and strings that look like one, are overwritten with stars.

The length stays the same, so that every read keeps its boundaries, and a body its offsets. A known secret is found
however it is escaped: by JSON, in a URL, in HTML. Strings in the form of providers' keys look like secrets.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from html.entities import codepoint2name
from typing import Final
from urllib.parse import urlsplit

from chunkfold.recording.credentials import KEY_PREFIX, secrets_in_request
from chunkfold.wire.headers import READ_HEADERS, Headers

_LEAST_BEGINNING: Final = 6  # bytes of a secret that the data ends with; fewer are not specific
# Characters of each secret that are looked for first: a pattern for all of a long one takes a second to compile, and
# most data has none.
_BEGINNING: Final = 16

# Response headers that say something about a stream; no others are stored.
_KEPT_HEADERS: Final = re.compile(
    r"content-(type|encoding)|date|server|openai-processing-ms|x-ratelimit-[a-z-]+|" + "|".join(sorted(READ_HEADERS))
)
# Keys as providers make them: a known prefix and 16 random letters and digits; Hugging Face's, which have no digits;
# what a provider leaves of a key when it quotes it; Google's and Amazon's; tokens in three parts; what follows
# "Bearer". A repetition that could fail at every place has a bound, so that looking stays linear.
_PREFIX: Final = KEY_PREFIX.encode()
_LOOKS_SECRET: Final = re.compile(
    _PREFIX + rb"(?:[A-Za-z0-9]{1,64}[-_]){0,8}(?=[A-Za-z]{0,64}\d)[A-Za-z0-9]{16,}[A-Za-z0-9_-]*"
    rb"|(?<![A-Za-z0-9])hf_[A-Za-z]{34}(?![A-Za-z0-9])"
    rb"|" + _PREFIX + rb"[A-Za-z0-9_-]{0,64}\*{3,}[A-Za-z0-9]{1,16}"
    rb"|(?<![A-Za-z0-9+/])(?:AIza[A-Za-z0-9_-]{35}|A[KS]IA[A-Z0-9]{16}|ABSK[A-Za-z0-9+/]{100,}={0,2})(?![A-Za-z0-9+/])"
    rb"|(?<![A-Za-z0-9+/._-])AQ\.(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{32,}"
    rb"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    rb"|(?<=[Bb]earer )(?=[A-Za-z._~+/-]{0,64}\d)[A-Za-z0-9._~+/-]{12,}"
)


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a response that are stored, by lower-case names."""
    return {name: value for name, value in Headers(headers).items() if _KEPT_HEADERS.fullmatch(name)}


def bare_url(url: str) -> str:
    """The URL without user, password, query and fragment; "" if it is not a URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # this may be a half of a password
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme and host else ""


def clean_url(url: str) -> str:
    """The URL with stars in place of its own secrets."""
    return Redactor(secrets_in_request(url, {})).clean_text(url)


class Redactor:
    """Overwrites known secrets, and strings that look like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._spellings = [spelling for secret in self._secrets for spelling in _spellings(secret)]

    @cached_property
    def _beginnings(self) -> re.Pattern[bytes] | None:
        beginnings = {_ways_to_write(secret[:_BEGINNING]) for secret in self._secrets}
        return re.compile(b"|".join(sorted(beginnings))) if beginnings else None

    @cached_property
    def _known(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(map(_pattern, self._secrets)))

    def clean(self, data: bytes) -> bytes:
        """The data with stars in place of every secret, of the same length; the data may end within a secret."""
        if self._beginnings is not None and self._beginnings.search(data):
            data = self._known.sub(_stars, data)
        data = _LOOKS_SECRET.sub(_stars, data)
        begun = max((_length_begun(spelling, data) for spelling in self._spellings), default=0)
        return data[: len(data) - begun] + b"*" * begun

    def clean_text(self, text: str) -> str:
        """The same for text."""
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _pattern(secret: str) -> bytes:
    pattern = _ways_to_write(secret)
    # A number is none within a longer one, such as a time.
    return rb"(?<![\d.])" + pattern + rb"(?![\d.])" if secret.isascii() and secret.isdigit() else pattern


def _ways_to_write(text: str) -> bytes:
    """A pattern for a text in which each character is written in any way."""
    return b"".join(map(_ways_to_write_one, text))


@cache
def _ways_to_write_one(character: str) -> bytes:
    """A pattern for a character, unescaped or escaped by JSON, a URL or HTML, also nested."""
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    ways = [
        rb"\\{1,8}" if character == "\\" else (b"" if character.isalnum() else rb"\\{0,7}") + re.escape(data),
        b"".join(rb"\\{1,7}u" + _hex(units[at : at + 2].hex()) for at in range(0, len(units), 2)),
        b"".join(b"%(?:25){0,3}" + _hex(f"{byte:02x}") for byte in data),
        b"&#(?:0{0,6}%d|[xX]0{0,6}%b);" % (code, _hex(f"{code:x}")),
    ]
    if code in codepoint2name:
        ways.append(f"&{codepoint2name[code]};".encode())
    short = json.dumps(character)[2:-1]
    if len(short) == 1:  # as \n
        ways.append(rb"\\{1,7}" + re.escape(short.encode()))
    if character == " ":
        ways.append(rb"\+")
    return b"(?:" + b"|".join(ways) + b")"


def _hex(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits).encode()


def _spellings(secret: str) -> set[bytes]:
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    return {text.encode("utf-8", "surrogatepass") for text in texts}


def _length_begun(secret: bytes, data: bytes) -> int:
    """How many bytes at the end of the data are the beginning of a secret; 0 if they are too few to be sure."""
    end = data[max(0, len(data) - len(secret) + 1) :]
    at = end.find(secret[:_LEAST_BEGINNING])
    while at >= 0 and not secret.startswith(end[at:]):
        at = end.find(secret[:_LEAST_BEGINNING], at + 1)
    return len(end) - at if at >= 0 else 0


def _stars(match: re.Match[bytes]) -> bytes:
    return b"*" * len(match[0])
