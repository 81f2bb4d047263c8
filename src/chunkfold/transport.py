"""What the streams know of HTTP clients: what a response is, how it is closed, what a request is made of."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol

from chunkfold.parser import ParserOptions

_PARSER_OPTIONS = ParserOptions.__annotations__.keys() - {"status_code", "headers", "started"}


class Response(Protocol):
    """What is read of a response, besides its bytes."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Any:
        """The headers, a case-insensitive mapping."""
        ...


class SyncResponse(Response, Protocol):
    """A response as httpx and httpx2 give it."""

    def iter_bytes(self) -> Iterator[bytes]:
        """The decoded body, read by read."""
        ...

    def close(self) -> None:
        """Close the connection, or give it back."""
        ...


class AsyncResponse(Response, Protocol):
    """A response as the async clients of httpx and httpx2 give it."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decoded body, read by read."""
        ...

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        ...


def split_options(json: Mapping[str, Any], options: dict[str, Any]) -> tuple[ParserOptions, dict[str, Any]]:
    """The parser's options and the client's; whatever the caller gave is copied, never changed."""
    parser_options: Any = {name: options[name] for name in options.keys() & _PARSER_OPTIONS}
    request = {name: value for name, value in options.items() if name not in parser_options}
    request["json"] = {**json, "stream": True}
    request["headers"] = _headers(request.get("headers"))
    return parser_options, request


def _headers(given: Any) -> list[tuple[Any, Any]]:
    """The caller's headers, and ours where the caller has none of that name.

    A compressed body can explode before any limit sees it, so none is asked for.
    """
    pairs: list[tuple[Any, Any]] = list(given.items() if hasattr(given, "items") else given or ())
    names = {(name.decode("latin-1") if isinstance(name, bytes) else str(name)).lower() for name, _ in pairs}
    ours = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
    return [*pairs, *((name, value) for name, value in ours.items() if name.lower() not in names)]


def close_if_possible(source: Any) -> None:
    """Close a source that can be closed."""
    if hasattr(source, "close"):
        source.close()


async def aclose_if_possible(source: Any) -> None:
    """Close an async source that can be closed."""
    if hasattr(source, "aclose"):
        await source.aclose()
