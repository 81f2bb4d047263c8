"""Send a streamed request and read its response, sync and async."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    _GeneratorContextManager,  # pyright: ignore[reportPrivateUsage] - the class of what `contextmanager` returns
)
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Unpack, cast

from chunkfold.arguments import check_flag, check_instance, reading_of
from chunkfold.errors import StreamConsumedError
from chunkfold.excerpts import excerpt
from chunkfold.parser.options import ParserOptions, ReadOptions
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.stream.asynchronous import AsyncChatCompletionStream
from chunkfold.stream.driver import StreamDriver
from chunkfold.stream.responses import AsyncResponse, SyncResponse
from chunkfold.stream.reuse import may_reuse, note_failure, note_kept
from chunkfold.stream.sync import ChatCompletionStream
from chunkfold.wire.headers import Headers

_OTHER_BODIES: Final = frozenset({"content", "data", "files"})  # options of clients, which send them instead of `json`


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


class SyncClient(Protocol):
    """A client whose `stream` sends a request, such as those of httpx and httpx2."""

    @property
    def stream(self) -> Callable[..., AbstractContextManager[SyncResponse]]:
        """Takes the method, the URL and options; gives the response, with its body still to be read."""
        ...


class AsyncClient(Protocol):
    """The same for an async client."""

    @property
    def stream(self) -> Callable[..., AbstractAsyncContextManager[AsyncResponse]]:
        """Takes the method, the URL and options; gives the response, with its body still to be read."""
        ...


def connect(
    client: SyncClient,
    method: str,
    url: Any,
    *,
    json: Mapping[str, Any],
    reuse_connection: bool = True,
    **options: Unpack[ConnectOptions],
) -> AbstractContextManager[ChatCompletionStream]:
    """Send a streamed request; a context manager that returns the `ChatCompletionStream` and closes it.

    Args:
        client: An `httpx.Client`, an `httpx2.Client`, or anything with their `stream` method.
        method: The HTTP method, usually "POST".
        url: The URL of the chat completions endpoint.
        json: The request's body. A copy of it is sent, in which `stream` is true.
        reuse_connection: Whether closing waits up to 100 ms for the end of the body after `[DONE]`, so that the client
            can use the connection again. Closing no longer waits once the server has closed a connection that it had
            announced to keep open.
        options: The options of `ChatCompletionParser`, except `status_code`, `headers` and `started`, and the request
            options of the client: `headers`, `timeout`, `params`, `auth`, `cookies`, `follow_redirects`, `extensions`.
            `Accept: text/event-stream` and `Accept-Encoding: identity` are added to a copy of the headers, unless
            given. If `n` is absent from `json`, or 1, `one_choice` is true, unless given.

    Raises:
        TypeError, ValueError: An option is wrong; nothing was sent.
        Exception: What the client raises while it opens the request is not wrapped. A status that is not 2xx is
            raised as `APIStatusError` by the first read.
    """
    request = _Request(client, method, url, json, options, reuse_connection)
    return _Connection(_connection, (request,), {})


def aconnect(
    client: AsyncClient,
    method: str,
    url: Any,
    *,
    json: Mapping[str, Any],
    reuse_connection: bool = True,
    **options: Unpack[ConnectOptions],
) -> AbstractAsyncContextManager[AsyncChatCompletionStream]:
    """Send a streamed request with an async client; see `connect`."""
    return _AsyncConnection(_Request(client, method, url, json, options, reuse_connection))


@dataclass(repr=False)  # options may have secrets
class _Request:
    """A request, which is checked before it is sent."""

    client: Any
    method: str
    url: Any
    json: Mapping[str, Any]
    options: ConnectOptions
    reuse_connection: bool
    is_sent: bool = False

    def __post_init__(self) -> None:
        check_instance("method", self.method, (str, bytes), "a str")
        check_flag("reuse_connection", self.reuse_connection)
        self._parser_options, self._client_options = split_options(self.json, self.options)
        self._parser_options["started"] = 0.0  # until it is sent; otherwise the parser would read the clock
        ChatCompletionParser(**self._parser_options)  # options that it refuses must not cost a request
        if not callable(getattr(self.client, "stream", None)):  # that of a session of requests is a flag
            raise TypeError(f"client: expected a client of httpx or httpx2, received {type(self.client).__name__}")
        self._clock = self._parser_options.get("clock", time.monotonic)

    def send(self, enter: str) -> Any:
        """The client's context manager, which sends the request when it is entered by the method of that name."""
        if self.is_sent:
            raise _sent_error()
        self._parser_options["started"] = reading_of(self._clock)
        sending = self.client.stream(self.method, self.url, **self._client_options)
        if not hasattr(sending, enter):
            kind = "an async client for `aconnect`" if enter == "__aenter__" else "a sync client for `connect`"
            raise TypeError(f"client: expected {kind}, received {type(self.client).__name__}")
        self.is_sent = True
        return sending

    def stream_options(self, response: Any) -> dict[str, Any]:
        may_keep = self.reuse_connection and may_reuse(self.client, response)
        return {**self._parser_options, "reuse_connection": may_keep}

    def note_closed(self, stream: StreamDriver) -> None:
        """The stream was closed: if its connection was kept, the client may send its next request over it."""
        if stream.connection_was_kept:
            note_kept(self.client, stream.response)


def _sent_error() -> StreamConsumedError:
    return StreamConsumedError("this request was already sent: call `connect` or `aconnect` for another one")


class _Unopened:
    """Used as a stream outside of `with`, it says how to get the stream."""

    _usage: ClassVar[str]

    if not TYPE_CHECKING:  # a type checker only knows the context manager

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{name}: expected `{self._usage}`, which gives the stream", name=name, obj=self)

        def __iter__(self) -> Any:
            raise TypeError(f"expected `{self._usage}`, which gives the stream")

        __aiter__ = __await__ = __iter__


class _Connection(_Unopened, _GeneratorContextManager[ChatCompletionStream]):
    """A generator as a context manager that raises an error of its own if it is entered twice."""

    _usage = "with connect(...) as stream:"
    _is_entered = False

    def __enter__(self) -> ChatCompletionStream:
        if self._is_entered:
            raise _sent_error()
        self._is_entered = True
        return super().__enter__()


def _connection(request: _Request) -> Generator[ChatCompletionStream]:
    """A generator, so that an interrupt cannot come between leaving the context and closing the response."""
    with ExitStack() as stack:
        try:
            response = stack.enter_context(request.send("__enter__"))
        except Exception as exc:
            note_failure(request.client, exc)
            raise
        stream = ChatCompletionStream(response, **request.stream_options(response))
        stack.callback(request.note_closed, stream)
        with stream:
            stream.timing.headers = stream.elapsed
            yield stream


class _AsyncConnection(_Unopened, AbstractAsyncContextManager[AsyncChatCompletionStream]):
    """A class, so that a connection that is open when the event loop ends leaves no open generator."""

    _usage = "async with aconnect(...) as stream:"

    def __init__(self, request: _Request) -> None:
        self._request = request

    async def __aenter__(self) -> AsyncChatCompletionStream:
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(self._request.send("__aenter__"))
            except Exception as exc:
                note_failure(self._request.client, exc)
                raise
            stream = AsyncChatCompletionStream(response, **self._request.stream_options(response))
            stack.callback(self._request.note_closed, stream)
            await stack.enter_async_context(stream)
            stream.timing.headers = stream.elapsed
            self._stack = stack.pop_all()
        return stream

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(exc_type, exc, traceback)


def split_options(json: Any, options: ConnectOptions) -> tuple[ParserOptions, dict[str, Any]]:
    """The parser's options and the client's; the caller's values are copied, never changed."""
    if not isinstance(json, Mapping):
        raise TypeError(f"json: expected the request as a mapping, received {type(json).__name__}")
    for name in _OTHER_BODIES & options.keys():
        raise TypeError(f"{name}: expected no other body than `json`, received {excerpt(options.get(name))}")
    body = cast("Mapping[str, Any]", json)
    parser_options: Any = {name: value for name, value in options.items() if name in ReadOptions.__optional_keys__}
    parser_options.setdefault("one_choice", body.get("n") in (None, 1))
    request: dict[str, Any] = {name: value for name, value in options.items() if name not in parser_options}
    request["json"] = {**body, "stream": True}
    request["headers"] = _headers(request.get("headers"))
    return parser_options, request


def _headers(given: Any) -> list[tuple[Any, Any]]:
    """The caller's headers, and chunkfold's unless the caller has one of that name."""
    try:
        pairs = [(name, value) for name, value in (given.items() if hasattr(given, "items") else given or ())]
    except (TypeError, ValueError):
        expected = "a mapping of strings, or pairs of them"
        raise TypeError(f"headers: expected {expected}, received {type(given).__name__}") from None
    for name, value in pairs:
        if not isinstance(name, str | bytes):
            raise TypeError(f"headers: expected a string as a name, received {excerpt(name)}")
        if not isinstance(value, str | bytes):  # which may be a secret
            raise TypeError(f"headers[{excerpt(name)}]: expected a string, received {type(value).__name__}")
    known = Headers(dict[Any, Any](pairs))
    # A compressed body can expand before any limit is checked.
    ours = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
    return [*pairs, *((name, value) for name, value in ours.items() if name not in known)]
