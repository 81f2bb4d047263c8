"""The request that `chat`, `record`, `inspect` and `doctor` send: the options, and the request made from them."""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import click

from chunkfold.cli.safe import Secrets
from chunkfold.json_text.values import is_list, is_object
from chunkfold.parser.options import ParserOptions
from chunkfold.recording.credentials import secrets_in_request
from chunkfold.recording.redaction import Redactor
from chunkfold.stream.connection import split_options

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~]*")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a streamed chat completion."""

    url: str
    body: dict[str, Any]  # without `stream`
    headers: dict[str, str] = field(repr=False)  # including the key; never shown
    read_timeout: float = 120.0  # seconds, the longest silence
    uses_proxy: bool = True  # whether one from the environment is used

    @property
    def model(self) -> str:
        """The model's name; "an answer" if there is none."""
        return str(self.body.get("model", "an answer"))

    @property
    def parser_options(self) -> ParserOptions:
        """The options with which the answer is parsed, as `connect` has them."""
        return split_options(self.body, {"progress_timeout": self.read_timeout})[0]

    @property
    def secrets(self) -> Secrets:
        """Hides the request's secrets in the answer, and changes nothing else in it."""
        return Secrets(secrets_in_request(self.url, self.headers))

    @property
    def redactor(self) -> Redactor:
        """Hides them in messages and reports, with all that looks like a secret."""
        return Redactor(secrets_in_request(self.url, self.headers))


def endpoint(url: str) -> str:
    """The URL of chat completions: any other URL is taken as the base URL of an API, as OPENAI_BASE_URL is."""
    parts = urlsplit(checked_url(url))
    path = parts.path.rstrip("/")
    path = path if path.endswith("/completions") else f"{path}/chat/completions"
    return urlunsplit(parts._replace(path=path, fragment=""))


def checked_url(url: str) -> str:
    """The URL, if it is a valid HTTP URL. An error does not quote it, since it may hold a password."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        is_valid = False
    if not is_valid and _is_without_scheme(url):
        raise click.UsageError(f"URL: expected http://HOST[:PORT]/..., did you mean http://{url}?")
    if not is_valid:
        raise click.UsageError("URL: expected http://HOST[:PORT]/..., with special characters in a password escaped")
    return url


def _is_without_scheme(url: str) -> bool:
    """Whether it looks like a URL without its scheme, and not like a word, such as a prompt."""
    is_host = re.fullmatch(r"[\w.-]+(:\d{1,5})?(/[\w./-]*)?", url)
    return bool(is_host and re.search(r"[.:/]\w|^localhost", url))


def headers_of(key_env: str, headers: tuple[str, ...]) -> dict[str, str]:
    """The headers that the options give; the last one of a name, in any case, replaces those before."""
    key = os.environ.get(key_env, "").strip()  # a key that was read from a file often ends with a line break
    found = {"Authorization": f"Bearer {key}"} if key else {}
    _check_value(key_env, key)
    for header in headers:
        name, colon, value = (part.strip() for part in header.partition(":"))
        if not colon or not _NAME.fullmatch(name):
            raise click.UsageError("--header: expected NAME:VALUE")  # not quoted: it may be a secret
        _check_value(f"--header {name}", value)
        found = {known: each for known, each in found.items() if known.lower() != name.lower()} | {name: value}
    return found


def _check_value(name: str, value: str) -> None:
    if not _VALUE.fullmatch(value):
        raise click.UsageError(f"{name}: expected only visible ASCII characters, as in any header")


def with_default_url(url: str | None, prompt: str | None = None) -> tuple[str, str | None]:
    """The URL, else that of OPENAI_BASE_URL, and the prompt, which may be the only argument."""
    default = os.environ.get("OPENAI_BASE_URL") or None  # as for every variable of click's, an empty one is not set
    if url and (prompt is not None or "://" in url or (default is None and _is_without_scheme(url))):
        return url, prompt
    if default is None:
        raise click.UsageError("expected a URL, as an argument or in OPENAI_BASE_URL")
    return default, url or prompt


def chat_request(
    url: str | None,
    prompt: str | None,
    *,
    model: str,
    system: str | None,
    tools: tuple[Path, ...],
    params: tuple[str, ...],
    key_env: str,
    headers: tuple[str, ...],
    timeout: float,
) -> ChatRequest:
    """The request for the options and the prompt; by default the prompt is read from standard input."""
    url, prompt = with_default_url(url, prompt)
    url = endpoint(url)  # before the prompt is missed
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": _prompt(prompt)})
    body: dict[str, Any] = {"model": model, "messages": messages, "stream_options": {"include_usage": True}}
    if tools:
        body["tools"] = [tool for path in tools for tool in _tools_in(path)]
    body |= dict(map(_param, params))
    body = {name: value for name, value in body.items() if value is not None}
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise click.UsageError("expected UTF-8 text, and numbers that JSON allows") from None
    return ChatRequest(url, body, headers_of(key_env, headers), timeout)


def _prompt(given: str | None) -> str:
    """The prompt given as an argument, followed by piped input."""
    piped = "" if sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    parts = [part for part in (given if given != "-" else "", piped) if part and part.strip()]
    if not parts:
        raise click.UsageError("expected a prompt, as an argument or on standard input")
    return "\n\n".join(parts)


def _param(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--param: expected NAME=VALUE, received {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _tools_in(path: Path) -> list[dict[str, Any]]:
    """The tools in a file: one or a list, with or without `{"type": "function", "function": ...}` around each."""
    try:
        value: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--tool {path}: expected JSON: {error}") from None
    tools: list[Any] = value if is_list(value) else [value]
    if not all(isinstance(tool, dict) for tool in tools):
        raise click.UsageError(f"--tool {path}: expected an object, or a list of objects")
    found = [tool if _named_part(tool) else {"type": "function", "function": tool} for tool in tools]
    if not all(map(_named_part, found)):
        raise click.UsageError(f"--tool {path}: expected a tool with a name, received none")
    return found


def _named_part(tool: dict[str, Any]) -> bool:
    """Whether it is a tool as the API takes it: a type, and under the key of that name an object with a name."""
    part: Any = tool.get(str(tool.get("type")))
    return is_object(part) and isinstance(part.get("name"), str)
