"""What the streams need to know about HTTP clients: responses, how to close them, and how to build a request."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from chunkfold.errors import LimitExceededError, exceeded
from chunkfold.excerpts import excerpt
from chunkfold.parser.options import ParserOptions, ReadOptions
from chunkfold.wire.headers import Headers

MAX_CONTENT_ENCODINGS: Final = 1
MAX_EXPANSION: Final = 100  # decoded bytes for each received byte
_EXPANSION_ALLOWED: Final = 32 * 2**20  # bytes, before the ratio is checked
_OTHER_BODIES: Final = frozenset({"content", "data", "files"})  # options of clients, which send them instead of `json`
_BOUNDED: Final = frozenset({"gzip", "x-gzip", "deflate"})
# What clients decode. A body with any other encoding is passed on as it is: `none` is often sent against compression.
_DECODED: Final = _BOUNDED | {"br", "zstd"}


class ConnectOptions(ReadOptions, total=False):
    """The options of `connect` and `aconnect`: the parser's (except those that the response has), and the client's.

    The client's options are passed to its `stream` method; httpx and httpx2 describe them.

    Attributes:
        headers: More headers for the request: a mapping, or pairs of a name and a value.
        timeout: How long the client waits: seconds, or an `httpx.Timeout`.
        params: Parameters to add to the URL's query.
        auth: Credentials: a user and a password, or an `httpx.Auth`.
        cookies: Cookies for the request.
        follow_redirects: Whether redirects are followed.
        extensions: Request extensions of the client.
    """

    headers: Any
    timeout: Any
    params: Any
    auth: Any
    cookies: Any
    follow_redirects: bool
    extensions: Mapping[str, Any]


class Response(Protocol):
    """The attributes of a response that are read, besides its bytes."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Any:
        """The headers, a case-insensitive mapping."""
        ...


class SyncResponse(Response, Protocol):
    """A response of a sync client, such as those of httpx and httpx2."""

    def iter_bytes(self) -> Iterator[bytes]:
        """The decoded body, read by read."""
        ...

    def close(self) -> None:
        """Close the connection, or return it to the pool."""
        ...


class AsyncResponse(Response, Protocol):
    """A response of an async client, such as those of httpx and httpx2."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The decoded body, read by read."""
        ...

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool."""
        ...


def split_options(json: Any, options: ConnectOptions) -> tuple[ParserOptions, dict[str, Any]]:
    """The parser's options and the client's; the caller's values are copied, never changed.

    If the request asks for one choice, `one_choice` is set, whatever indexes the provider sends.
    """
    if not isinstance(json, Mapping):
        msg = f"json: expected the request as a mapping, received {type(json).__name__}"
        raise TypeError(msg)
    for name in _OTHER_BODIES & options.keys():
        msg = f"{name}: expected no other body than `json`, received {excerpt(options.get(name))}"
        raise TypeError(msg)
    body = cast("Mapping[str, Any]", json)
    parser_options: Any = {name: value for name, value in options.items() if name in ReadOptions.__optional_keys__}
    parser_options.setdefault("one_choice", body.get("n") in (None, 1))
    request: dict[str, Any] = {name: value for name, value in options.items() if name not in parser_options}
    request["json"] = {**body, "stream": True}
    request["headers"] = _headers(request.get("headers"))
    return parser_options, request


def _headers(given: Any) -> list[tuple[Any, Any]]:
    """The caller's headers, and chunkfold's unless the caller has one of that name.

    A compressed body can expand before any limit is checked, so none is requested.
    """
    try:
        pairs = [(name, value) for name, value in (given.items() if hasattr(given, "items") else given or ())]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(isinstance(one, str | bytes) for pair in pairs for one in pair):
        msg = f"headers: expected a mapping of strings, or pairs of them, received {type(given).__name__}"
        raise TypeError(msg)
    known = Headers(dict[Any, Any](pairs))
    ours = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
    return [*pairs, *((name, value) for name, value in ours.items() if name not in known)]


def encoding_error(response: Any, layers: list[str]) -> LimitExceededError | None:
    """The error if the encodings of a response are not safe, found before anything is decoded; else None.

    With two layers a few hundred bytes can become gigabytes in one read; one layer of gzip yields at most a thousand
    times the 64 KiB that a client reads at once. Newer encodings have no such bound, so they must have been requested.
    """
    if len(layers) > MAX_CONTENT_ENCODINGS:
        return exceeded("max_content_encodings", MAX_CONTENT_ENCODINGS)
    if _BOUNDED.issuperset(layers):
        return None
    try:
        asked = response.request.headers
    except (AttributeError, RuntimeError):  # a response that was made by hand
        return None
    known = set(_encodings(Headers(asked).get("accept-encoding")))
    if known.issuperset(layers) or "*" in known:
        return None
    return exceeded("max_content_encodings", 0, "content encodings that were not requested")


def check_source(source: Any, reader: str) -> None:
    """Check that a source is read as its stream reads: sync, or async.

    The response of a client of the other kind has the method too, and would look like a transport that failed.

    Raises:
        TypeError: It is not.
    """
    kind = type(cast("object", source))
    is_async = reader == "aiter_bytes"
    own, other = ("__aiter__", "__iter__") if is_async else ("__iter__", "__aiter__")
    if hasattr(source, reader):
        body = getattr(source, "stream", None)
        may_have_been_read = getattr(source, "is_closed", False)
        missing = [name for name in ("status_code", "headers") if not hasattr(source, name)]
        if missing:
            raise TypeError(f"source: expected a response with {' and '.join(missing)}, received {kind.__name__}")
        if may_have_been_read or hasattr(body, own) or not hasattr(body, other):
            return
        received = f"the {kind.__name__} of {'a sync' if is_async else 'an async'} client"
    elif hasattr(source, own) and not issubclass(kind, bytes | bytearray | memoryview | str):
        return
    else:
        received = kind.__name__
    expected = "an async response or async iterable of bytes" if is_async else "a response or an iterable of bytes"
    raise TypeError(f"source: expected {expected}, received {received}")


def expansion_error(received: int, decoded: int) -> LimitExceededError | None:
    """The error if a compressed body with this many received and decoded bytes expands too much; else None."""
    if decoded <= _EXPANSION_ALLOWED or decoded <= MAX_EXPANSION * received:
        return None
    return exceeded("max_expansion", MAX_EXPANSION)


def _encodings(header: str | None) -> list[str]:
    names = (name.partition(";")[0].strip().lower() for name in (header or "").split(","))
    return [name for name in names if name not in ("", "identity")]


def decoded_encodings(headers: Headers) -> list[str]:
    """The encodings of a response with these headers that its client decodes."""
    return [name for name in _encodings(headers.get("content-encoding")) if name in _DECODED]


def close_quietly(source: Any) -> None:
    """Close a source, if it can be closed; what it raises is ignored, since how the stream ended is already known."""
    with suppress(Exception):
        source.close()


async def aclose_quietly(source: Any) -> None:
    """The same for an async source."""
    with suppress(Exception):
        await source.aclose()
