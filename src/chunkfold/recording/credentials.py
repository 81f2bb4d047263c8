"""Find the secrets of a request and a response, so that they can be removed wherever else they appear.

All values in places meant for credentials are secrets, and elsewhere all values except plain words, numbers, dates and
versions. In a URL's path most segments are names (of a version, a deployment, a model), so only a segment that looks
like a key, or that follows a segment such as `key` or `token`, is a secret.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from chunkfold.json_text.values import is_list, is_object

_SHORTEST: Final = 6  # characters: a shorter one would take too much else with it
_SHORTEST_ELSEWHERE: Final = 8  # where a value need not be a secret

# Names of headers, and of values in a URL's query, that are made for credentials.
_CREDENTIAL: Final = re.compile(
    r"auth|code|cookie|credential|(?<!port)key|passw|secret|session|sig|token", re.IGNORECASE
)
# Names of headers whose values are not secrets, except for parts that look random.
_FAMILIAR: Final = re.compile(
    r"accept(-.*)?|cache-control|connection|content-.*|http-referer|origin|referer|te|transfer-encoding|user-agent"
    r"|x-title|x-stainless-.*|.*(deployment|model|version).*",
    re.IGNORECASE,
)
# Headers of Portkey's that name a provider or an id, and the key of the first in its configuration.
_NAMES: Final = re.compile(r"x-portkey-(provider|.*-id)|provider", re.IGNORECASE)
# Keys that local servers' documentation gives because a client requires one: no secrets, but words of their answers,
# such as Ollama's fingerprint `fp_ollama`.
_PLACEHOLDERS: Final = frozenset({"ollama", "lm-studio"})
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{8,}")
_PLAIN: Final = re.compile(r"[A-Za-z]{1,12}|\d{1,8}|v?\d+(\.\d+){1,3}|\d{4}-\d\d-\d\d([T-].{1,20})?")

# The beginning of a key as providers make them.
KEY_PREFIX: Final = r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|xai|nvapi|hf|pplx|csk|fw|r8|tgp|key|ghp|glpat)[-_]"
_KEY_BEGINS: Final = re.compile(KEY_PREFIX)
_KEY_FOLLOWS: Final = re.compile(
    r"(?:[a-z]{1,12}[-_])?(?:api)?(?:credential|key|password|secret|token)s?", re.IGNORECASE
)
# Letters and digits in a row. A name is rarely this long without a separator, and then made of words: `MetaLlama`,
# `mixtral8x7binstruct`. The words of a random text are short.
_RUN: Final = re.compile(r"[A-Za-z0-9]{8,}")
_LEAST_RANDOM: Final = 20  # characters
_LONGEST_NAME: Final = 31  # characters
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_SHORT_WORDS: Final = 2.75  # characters on average


def secrets_of(response: Any) -> set[str]:
    """The secrets of a response, of its request, and of the requests that were redirected to it."""
    found: set[str] = set()
    for each in (*getattr(response, "history", ()), response):
        found |= secrets_in_request(*request_of(each)) | _secrets_in_response(each.headers)
    return found


def secrets_in_request(url: str, headers: Mapping[str, str]) -> set[str]:
    """The secrets of a request: in its URL and in its headers."""
    return _secrets_in_url(url).union(*(_secrets_in(name, value) for name, value in headers.items()))


def request_of(response: Any) -> tuple[str, Mapping[str, str]]:
    """The URL and the headers of the request that a response answers; "" and none if it does not have them."""
    try:
        request = response.request
        return str(request.url), dict(request.headers)
    except (AttributeError, RuntimeError):  # what httpx raises for a response that was made by hand
        return "", {}


def _secrets_in_url(url: str) -> set[str]:
    """The user, the password, values of the query, and segments of the path that look like keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    found = {secret for part in (parts.username, parts.password) if len(secret := unquote(part or "")) >= _SHORTEST}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        found |= _secrets_in(name, value) if value else _secrets_in("", name)
    return found | _secrets_in_path(parts.path)


def _secrets_in_path(path: str) -> set[str]:
    """The segments of a URL's path, and values of `name=value` in them, that look like keys or follow their name."""
    found: set[str] = set()
    previous = ""
    for segment in map(unquote, re.split(r"[/;=]", path)):
        is_named = _KEY_FOLLOWS.fullmatch(previous) and len(segment) >= _SHORTEST_ELSEWHERE
        if _looks_like_key(segment) or (is_named and not _PLAIN.fullmatch(segment)):
            found.add(segment)
        previous = segment
    return found


def _looks_like_key(segment: str) -> bool:
    runs: list[str] = [run for run in _RUN.findall(segment) if not (run.isalpha() or run.isdigit())]
    return any(map(_is_random, runs)) or bool(runs and _KEY_BEGINS.match(segment))


def _is_random(run: str) -> bool:
    """Whether letters and digits look random, and not like a name."""
    if len(run) > _LONGEST_NAME:
        return True
    return len(run) >= _LEAST_RANDOM and len(run) <= _SHORT_WORDS * len(_WORD.findall(run))


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
    """The possible secrets in a value with this name, or in the texts of JSON, such as a gateway's configuration."""
    texts = _texts_in_json(name, value)
    return _secrets_in_text(name, value) if texts is None else set[str]().union(*(_secrets_in(*each) for each in texts))


def _texts_in_json(name: str, value: str) -> list[tuple[str, str]] | None:
    """The texts in a JSON object or list, each with its key, or a name for credentials above it; None for any other."""
    try:
        held: Any = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not is_object(held) and not is_list(held):
        return None
    texts: list[tuple[str, str]] = []
    left: list[tuple[str, Any]] = [(name, held)]
    while left:
        key, held = left.pop()
        if is_object(held):
            left += ((key if _CREDENTIAL.search(key) else inner, each) for inner, each in held.items())
        elif is_list(held):
            left += ((key, each) for each in held)
        elif isinstance(held, str):
            texts.append((key, held))
    return texts


def _secrets_in_text(name: str, value: str) -> set[str]:
    words = set(_words(value))
    if _CREDENTIAL.search(name):
        return {word for word in (*words, value) if len(word) >= _SHORTEST} - _PLACEHOLDERS
    if name.lower() == "host" or _NAMES.fullmatch(name):  # the URL has the host, too
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
    """The credentials after `Basic`: the user and the password."""
    try:
        pair = b64decode(text).decode()
    except ValueError:
        return []
    return [pair, *pair.split(":", 1)]
