"""What of a request and a response may be a secret, wherever it turns up again.

That is all that stands in places made for credentials, and elsewhere all but plain words, numbers, dates and versions.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

_SHORTEST: Final = 6  # characters: a shorter one would take too much else with it
_SHORTEST_ELSEWHERE: Final = 8  # where a value need not be a secret

# Names of headers, and of values in a URL's query, that are made for credentials.
_CREDENTIAL: Final = re.compile(r"auth|code|cookie|credential|key|passw|secret|session|sig|token", re.IGNORECASE)
# Names of headers whose values are no secrets; something random in one of them is one all the same.
_FAMILIAR: Final = re.compile(
    r"accept(-.*)?|cache-control|connection|content-.*|http-referer|origin|referer|te|transfer-encoding|user-agent"
    r"|x-title|x-stainless-.*|.*(deployment|model|version).*",
    re.IGNORECASE,
)
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{8,}")
_PLAIN: Final = re.compile(r"[A-Za-z]{1,12}|\d{1,8}|v?\d+(\.\d+){1,3}|\d{4}-\d\d-\d\d([T-].{1,20})?")


def secrets_of(response: Any) -> set[str]:
    """Those of a response, of its request, and of the requests that were redirected to it."""
    found: set[str] = set()
    for each in (*getattr(response, "history", ()), response):
        found |= secrets_in_request(*request_of(each)) | _secrets_in_response(each.headers)
    return found


def secrets_in_request(url: str, headers: Mapping[str, str]) -> set[str]:
    """Those of a request: in its URL, and in its headers."""
    return _secrets_in_url(url).union(*(_secrets_in(name, value) for name, value in headers.items()))


def request_of(response: Any) -> tuple[str, Mapping[str, str]]:
    """The URL and the headers of the request that a response answers; "" and none if it does not tell."""
    try:
        request = response.request
        return str(request.url), dict(request.headers)
    except (AttributeError, RuntimeError):  # what httpx raises for a response that was made by hand
        return "", {}


def _secrets_in_url(url: str) -> set[str]:
    """The user, the password, and values of the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    found = {secret for part in (parts.username, parts.password) if len(secret := unquote(part or "")) >= _SHORTEST}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        found |= _secrets_in(name, value) if value else _secrets_in("", name)
    return found


def _secrets_in_response(headers: Mapping[str, str]) -> set[str]:
    """Its cookies, and values of headers that are made for credentials."""
    found: set[str] = set()
    for name, value in headers.items():
        if name.lower() == "set-cookie":
            for cookie in re.split(r",\s*(?=[^\s;,=]+=)", value):  # clients join several by commas
                found |= _secrets_in("", cookie.partition(";")[0])
        elif _CREDENTIAL.search(name):
            found |= _secrets_in("", value)
    return found


def _secrets_in(name: str, value: str) -> set[str]:
    """What may be a secret of a value that goes by that name."""
    words = set(_words(value))
    if _CREDENTIAL.search(name):
        return {word for word in (*words, value) if len(word) >= _SHORTEST}
    if name.lower() == "host":  # the URL has it, too
        return set()
    if _FAMILIAR.fullmatch(name):
        return {word for word in words if _RANDOM.search(word)}
    return {word for word in words if len(word) >= _SHORTEST_ELSEWHERE and not _PLAIN.fullmatch(word)}


def _words(value: str) -> Iterator[str]:
    """The parts of a value; of `name=value` also the value alone."""
    words = [word.strip("\"'") for word in re.split(r"[\s,;]+", value)]
    if len(words) > 1 and words[0].isalpha():
        scheme, *words = words  # as "Bearer"
        if scheme.lower() == "basic":
            yield from _pair(words[0])
    for word in words:
        yield from (word, word.rstrip("="), word.partition("=")[2].strip("\"'"))


def _pair(text: str) -> list[str]:
    """What stands behind `Basic`: the user and the password."""
    try:
        pair = b64decode(text).decode()
    except ValueError:
        return []
    return [pair, *pair.split(":", 1)]
