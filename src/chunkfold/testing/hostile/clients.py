"""What is held to the set: a client is a name, a version and a function from a body to an outcome."""

import importlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, cast

from chunkfold.testing.hostile.judging import judge, one_line
from chunkfold.testing.hostile.values import Call, Ending, HostileStream, Outcome

_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True)
class Client:
    """Something that reads streams.

    Attributes:
        name: As shown.
        version: As shown, "" if there is none.
        fold: Gives the outcome for a body. What it raises is a refusal.
    """

    name: str
    version: str
    fold: Callable[[bytes], Outcome]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a client did on a stream; `instead` is one line on what came where that was wrong."""

    stream: HostileStream
    instead: str | None

    @property
    def right(self) -> bool:
        """Whether it got what a correct client must get."""
        return self.instead is None


def hold(client: Client | Callable[[bytes], Any], streams: Iterable[HostileStream]) -> list[Verdict]:
    """Hold a client, or a function as `client_of` takes it, to the streams."""
    held = client if isinstance(client, Client) else client_of("client", client)
    return [Verdict(stream, judge(stream, _outcome(held, stream.body))) for stream in streams]


def _outcome(client: Client, body: bytes) -> Outcome:
    try:
        return client.fold(body)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its refusal
        return Outcome(refused=one_line(f"{type(error).__name__}: {error}".rstrip(": ")))


def client_of(name: str, function: Callable[[bytes], Any], release: str = "") -> Client:
    """A client from a function, plain or async, that takes a body and returns an object or a dict.

    What it returns has `text` and `tool_calls` (each with `name` and `arguments`, itself or in its `function`, and
    perhaps `id`). It may have `reasoning`, `finish_reason`, `usage`, and `error`: an explicit error, as good as an
    exception. What it lacks is not judged.
    """
    return Client(name, release, lambda body: as_outcome(_awaited(function(body))))


def load_client(path: str) -> Client:
    """A client from `module:callable`.

    Raises:
        ValueError: The text is not of that form.
        ImportError: There is no such module.
        AttributeError: The module has no such name.
        TypeError: What has that name cannot be called.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ValueError(f"expected module:callable, received {path!r}")
    function: Any = importlib.import_module(module_name)
    for attribute in name.split("."):
        function = getattr(function, attribute)
    if not callable(function):
        raise TypeError(f"{path}: expected a callable, received {type(function).__name__}")
    return client_of(path, function)


def as_outcome(value: Any) -> Outcome:
    """An outcome from what a function returned."""
    if isinstance(value, Outcome):
        return value
    error = _get(value, "error")
    return Outcome(
        texts=(as_text(_get(value, "text")),),
        calls=tuple(as_call(call) for call in _get(value, "tool_calls") or ()),
        reasoning=as_text(_get(value, "reasoning")) if _has(value, "reasoning") else None,
        finish_reason=as_text(_get(value, "finish_reason")) if _has(value, "finish_reason") else None,
        usage=counts(_get(value, "usage")) if _has(value, "usage") else None,
        refused=one_line(str(error)) if error else None,
    )


def as_call(call: Any) -> Call:
    """A tool call from an object or a dict."""
    function = _get(call, "function") or call
    sent = _get(call, "id")
    return Call(
        as_text(_get(function, "name")), as_text(_get(function, "arguments")), None if sent is None else str(sent)
    )


def as_text(value: Any) -> str:
    """Text as it is, nothing as "", anything else as JSON or as Python shows it."""
    return value if isinstance(value, str) else json.dumps(value, default=str) if value else ""


def counts(usage: Any, names: Mapping[str, str] | None = None) -> dict[str, int]:
    """The counts of a usage, an object or a dict; `names` gives the client's names for OpenAI's."""
    found = {name: _get(usage, (names or {}).get(name, name)) for name in _COUNTS}
    return {name: count for name, count in found.items() if count is not None}


def chunkfold_client() -> Client:
    """This library."""
    return Client("chunkfold", version("chunkfold"), _fold)


def _fold(body: bytes) -> Outcome:
    import chunkfold

    parser = chunkfold.ChatCompletionParser(status_code=200)
    parser.feed(body)
    parser.close()
    completion = parser.snapshot
    return Outcome(
        texts=tuple(choice.message.content or "" for choice in completion.choices),
        calls=tuple(as_call(call) for call in completion.tool_calls),
        reasoning=completion.reasoning,
        finish_reason=completion.finish_reason or "",
        usage=counts(completion.usage),
        refused=None if parser.error is None else f"{type(parser.error).__name__}: {parser.error}",
        ending=_KINDS.get(str(parser.end)),
    )


_KINDS: Final[dict[str, Ending]] = {
    "finished": "complete",
    "done": "complete",
    "failed": "error",
    "empty": "cut",
    "truncated": "cut",
    "invalid": "invalid",
}


def _get(value: Any, name: str) -> Any:
    """An attribute, or a dict's item; None if there is none."""
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _has(value: Any, name: str) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


def _awaited(value: Any) -> Any:
    if not inspect.isawaitable(value):
        return value
    import asyncio

    return asyncio.run(_await(value))


async def _await(value: Awaitable[Any]) -> Any:
    return await value
