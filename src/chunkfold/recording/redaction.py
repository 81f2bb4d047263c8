"""Keep secrets out of recordings: what is known to be one, and what looks like one, is overwritten by as many stars.

The length stays, so that every read keeps its boundaries, and a body its offsets.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

_SHORTEST: Final = 6  # characters: a shorter one would take too much else with it
# Request headers that are no secrets; the values of all others are taken for some.
_HARMLESS_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
# Response headers that say something about a stream; no others are kept.
_KEPT_HEADERS: Final = re.compile(
    r"content-(type|encoding)|date|server|x-request-id|retry-after(-ms)?|openai-processing-ms|x-ratelimit-[a-z-]+"
)
# Keys as providers make them, which no base64 looks like: a known prefix and many letters; tokens in three parts;
# what follows "Bearer".
_LOOKS_SECRET: Final = re.compile(
    rb"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|nvapi|hf|pplx|csk|fw|r8|tgp|key|ghp|glpat)[-_][A-Za-z0-9_-]{15,}[A-Za-z0-9]"
    rb"|(?<![A-Za-z0-9+/])(?:AIza[A-Za-z0-9_-]{35}|AKIA[A-Z0-9]{16})(?![A-Za-z0-9+/])"
    rb"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    rb"|(?<=Bearer )[A-Za-z0-9._~+/-]{6,}"
)


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of a response's headers that are stored, by lower-case names."""
    pairs = ((name.lower(), value) for name, value in headers.items())
    return {name: value for name, value in pairs if _KEPT_HEADERS.fullmatch(name)}


def bare_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else parts.path


def secrets_in_request(url: str, headers: Mapping[str, str]) -> set[str]:
    """What of a request may be a secret: values of headers, the URL's user and password, and values of its query."""
    parts = urlsplit(url)
    found = {parts.username or "", parts.password or "", *(value for _, value in parse_qsl(parts.query))}
    found |= {value for name, value in headers.items() if name.lower() not in _HARMLESS_HEADERS}
    words = {word for value in found for word in re.split(r"[\s;,=]+", value)}
    return found | words


class Redactor:
    """Overwrites secrets.

    Args:
        secrets: Those that are known, as text; ones of fewer than six characters are let be.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if len(secret) >= _SHORTEST for spelling in _spellings(secret)}
        known = b"|".join(re.escape(each) for each in sorted(spellings, key=len, reverse=True))
        self._known = re.compile(known) if known else None

    def clean(self, data: bytes) -> bytes:
        """The data with stars in place of every secret, as long as before."""
        if self._known is not None:
            data = self._known.sub(_stars, data)
        return _LOOKS_SECRET.sub(_stars, data)

    def clean_text(self, text: str) -> str:
        """The same for text."""
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def _spellings(secret: str) -> set[bytes]:
    """A secret as it may stand in a body: as it is, in JSON, in a URL."""
    texts = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret),
        unquote(secret),
    }
    return {text.encode("utf-8", "surrogatepass") for text in texts if len(text) >= _SHORTEST}


def _stars(match: re.Match[bytes]) -> bytes:
    return b"*" * len(match[0])
