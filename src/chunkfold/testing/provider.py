"""The embedded provider: a real HTTP/1.1 server on 127.0.0.1 that gives scripted answers.

This module has the script and the server's life cycle: one thread accepts, and each connection has a
thread (`connection`). `answers` defines an answer, `defaults` the built-in answers.
"""

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import isasyncgenfunction, isclass, iscoroutinefunction
from typing import Any, Final, Self, TypeAlias

from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.answers import Answer, Answerish, Raw, as_answer
from chunkfold.testing.connection import Connection
from chunkfold.testing.defaults import BASE_PATH, default_answer, error_answer
from chunkfold.testing.readings import one_line
from chunkfold.testing.received import ReceivedRequest, mismatch, summary

Answerer: TypeAlias = Callable[[ReceivedRequest], Answerish]
Scripted: TypeAlias = Answerish | Answerer

_HOST: Final = "127.0.0.1"
_BACKLOG: Final = 4096  # connections that wait to be accepted; the system may let fewer wait
_EXCERPT: Final = 60  # characters of an answer's text, or bytes of another body
_STOP_TIMEOUT: Final = 2.0  # seconds for all threads together; they need milliseconds


def _checked(answerer: Answerer) -> Answerer:
    """Refuse callables that do not return an answer: classes and async functions."""
    call = getattr(answerer, "__call__", None)  # noqa: B004 - its value is checked: an object's own may be async
    is_async = any(is_one(each) for is_one in (iscoroutinefunction, isasyncgenfunction) for each in (answerer, call))
    if is_async or isclass(answerer):
        kind = "a class" if isclass(answerer) else "an async function"
        name = getattr(answerer, "__name__", type(answerer).__name__)
        raise TypeError(f"answer: expected one, or a plain function from a request to one, received {kind}, {name}")
    return answerer


class FakeProvider:
    r"""An OpenAI-compatible provider for tests, on a port of this machine.

    It runs between `start` and `stop`, or inside `with` or `async with`. Starting and stopping take
    milliseconds and do not await anything, so you can do both under any event loop.

    Args:
        answers: One for each request, whatever its path, in the order in which the requests were
            completely received. Each is an `Answer`, a `StreamBuilder`, the bytes of an event stream, or a
            list of bytes and pauses. Or it is a function, not an async one, that takes the request and
            returns the answer; it is called in a thread of the server. When all are used up, the provider
            answers like OpenAI's API: with a short chat completion, streamed if requested, with `n`
            choices, or with the list of models, a model, or 404.
        ssl_context: A server's context with its certificate: the provider then speaks TLS, and its
            `base_url` is https. A client that aborts the handshake is not a failure.
        port: The port; 0 for a free one.

    Attributes:
        requests: The requests received so far, in the order of their answers.
        connections: The number of TCP connections accepted so far.
        failures: The exceptions that functions among the answers raised (their clients get a status 500),
            and those that kept the server from accepting. Leaving `with` raises the first of them, unless
            another exception is propagating.

    Raises:
        TypeError: One of the answers is of another type.
        ssl.SSLError: The context is a client's.

    Examples:
        >>> with FakeProvider(b"data: [DONE]\n\n") as provider:
        ...     provider.base_url  # doctest: +ELLIPSIS
        'http://127.0.0.1:.../v1'
    """

    def __init__(self, *answers: Scripted, ssl_context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.requests: list[ReceivedRequest] = []
        self.connections: int = 0
        self.failures: list[BaseException] = []
        self._script: deque[Answerer | Answer] = deque()
        self._script_lock = threading.Lock()  # the n-th request is given the n-th answer
        self._ssl_context = ssl_context
        if ssl_context is not None:  # refuse here what would otherwise fail in the server's threads
            try:
                ssl_context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
            except ValueError as error:  # Python 3.14: it checks host names, which a client's does
                raise ssl.SSLError(f"Cannot create a server socket: {error}") from None
        self._port = port
        self._acceptor: threading.Thread | None = None
        self._listener: socket.socket  # from the start on
        self._served: list[Connection] = []
        self._stopping = False
        self._has_raised = False
        self._used = 0  # answers of the script
        for answer in answers:
            self.add(answer)

    def __repr__(self) -> str:
        """Show the address, and what was requested and is left of the script."""
        address = "not started" if self._acceptor is None else self.base_url
        return f"<{type(self).__name__}: {address}, requests: {len(self.requests)}, answers left: {self.unused}>"

    def add(self, answer: Scripted) -> None:
        """Append an answer to the script, at any time.

        Raises:
            TypeError: It is not an answer, a builder, bytes or a function. Classes and async functions are refused.
        """
        self._script.append(_checked(answer) if callable(answer) else as_answer(answer))

    @property
    def base_url(self) -> str:
        """The base URL to pass to an OpenAI client; known once the provider has started.

        Raises:
            RuntimeError: The provider was not started.
        """
        if self._acceptor is None:
            raise RuntimeError("the provider has no address before it is started")
        scheme = "http" if self._ssl_context is None else "https"
        return f"{scheme}://{_HOST}:{self._port}{BASE_PATH}"

    @property
    def url(self) -> str:
        """The URL of chat completions."""
        return f"{self.base_url}/chat/completions"

    @property
    def unused(self) -> int:
        """How many answers of the script have not been requested yet."""
        return len(self._script)

    def assert_requested(
        self,
        times: int = 1,
        *,
        method: str | None = None,
        path: str | None = None,
        headers: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
    ) -> list[ReceivedRequest]:
        """Assert that this number of requests was received, counting those that match all other arguments.

        Args:
            times: The number of matching requests.
            method: The method, for example "POST".
            path: The end of the path, for example "/chat/completions".
            headers: Some of the request's headers, names in any case.
            json: Some of the keys at the top of the request's body, with their values.

        Returns:
            The requests that match.

        Raises:
            AssertionError: There were more, or fewer; the message lists the requests that were received, and why those
                that do not match do not.
        """
        __tracebackhide__ = True
        came = [
            (request, mismatch(request, method=method, path=path, headers=headers, json=json))
            for request in self.requests
        ]
        found = [request for request, why in came if why is None]
        if len(found) != times:
            lines = (f"\n  {summary(request)}{'' if why is None else f' <-- {why}'}" for request, why in came)
            raise AssertionError(
                f"requests: expected {times}, found {len(found)}; received:{''.join(lines) or ' none'}"
            )
        return found

    def assert_script_used(self) -> None:
        """Assert that every answer of the script was requested.

        Raises:
            AssertionError: Some were not; the message lists them.
        """
        __tracebackhide__ = True
        if self._script:
            lines = (f"\n  {number}. {_shown_script(each)}" for number, each in enumerate(self._script, self._used + 1))
            raise AssertionError(
                f"script: expected all answers to be used, {self.unused} were not; left:{''.join(lines)}"
            )

    def answer_unscripted(self, request: ReceivedRequest) -> Answer:
        """The answer to a request when the script is used up; subclasses can override it."""
        return default_answer(request)

    def start(self) -> Self:
        """Start to listen, and serve in threads.

        Raises:
            RuntimeError: It was started before; a provider cannot be restarted.
            OSError: The port is in use, or not permitted.
        """
        if self._acceptor is not None:
            raise RuntimeError("a provider is started once")
        self._listener = socket.create_server((_HOST, self._port), backlog=_BACKLOG)
        self._port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="fake-provider-acceptor", daemon=True)
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """Close every connection, whatever it is doing, and wait for the threads.

        It takes milliseconds, or two seconds if a function among the answers does not return.
        Without effect before the start and after the first call.
        """
        if self._acceptor is None or self._stopping:
            return
        deadline = time.monotonic() + _STOP_TIMEOUT
        self._stopping = True
        # Closing a socket does not wake accept() on every system; a connection does, and comes after those that wait.
        with socket.socket() as waker:
            waker.settimeout(0)
            waker.connect_ex((_HOST, self._port))
            self._acceptor.join(_STOP_TIMEOUT / 2)
        if self._acceptor.is_alive():  # no connection could be made
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._acceptor.join(_STOP_TIMEOUT / 2)
        for connection in self._served:
            connection.stop()
        for connection in self._served:
            if connection is not threading.current_thread():  # as where a function among the answers stops it
                connection.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        """Start, unless it is already running, as a fixture's provider is."""
        is_running = self._acceptor is not None and not self._stopping
        return self if is_running else self.start()

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if exc_type is None and self.failures and not self._has_raised:
            self._has_raised = True  # once, also where a fixture leaves what a test has left
            raise self.failures[0]

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        self.__exit__(exc_type)

    def _accept(self) -> None:
        with self._listener:
            while (accepted := self._next_socket()) is not None:
                self.connections += 1
                connection = Connection(accepted, self._respond, self._ssl_context)
                connection.start()
                self._served = [*(served for served in self._served if served.is_alive()), connection]

    def _next_socket(self) -> socket.socket | None:
        """Wait for the next client; None after the server was stopped."""
        try:
            accepted, _ = self._listener.accept()
        except OSError as error:  # no file descriptor is left, for example
            if not self._stopping:
                self.failures.append(error)
            return None
        if self._stopping:
            accepted.close()
            return None
        return accepted

    def _respond(self, request: ReceivedRequest) -> Answer:
        with self._script_lock:
            self.requests.append(request)
            self._used += bool(self._script)
            scripted = self._script.popleft() if self._script else self.answer_unscripted
        try:
            return as_answer(scripted(request)) if callable(scripted) else scripted
        except BaseException as error:  # noqa: BLE001 - pytest's own too; raised at the end
            self.failures.append(error)
            no_retry = {"x-should-retry": "false"}  # openai's SDK would ask again, and hide what was wrong
            return error_answer(500, f"{type(error).__name__}: {error}", type="server_error", headers=no_retry)


def _shown_script(scripted: Answer | Answerer) -> str:
    """One answer of a script, or the function that would give it."""
    if not isinstance(scripted, Answer):
        return f"the function {getattr(scripted, '__qualname__', repr(scripted))}"
    pieces = (piece.data if isinstance(piece, Raw) else piece for piece in scripted.pieces)
    body = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    return f"{scripted.status}, {len(body)} bytes: {_described(body)}"


def _described(body: bytes) -> str:
    """The text of a stream; for any other body, its beginning."""
    parser = ChatCompletionParser()
    parser.fold(body)
    parser.close()
    if parser.end in ("invalid", "empty"):
        return one_line(ascii(body[:_EXCERPT].decode("utf-8", "replace")) + "..." * (len(body) > _EXCERPT))
    text = parser.snapshot.text
    said = [f"text {text[:_EXCERPT]!r}{'...' * (len(text) > _EXCERPT)}"] if text else []
    said += [f"a call of {call.name}" for call in parser.snapshot.tool_calls]
    said += [f"the error {parser.error}"] if parser.error is not None else []
    return one_line(", ".join(said) or f"a stream that is {parser.end}")
