"""The exceptions: one tree, what each one carries, and which of them are worth another try."""

import asyncio
import copy
import inspect
import pickle
import re
import ssl
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import errors_of
import httpx
import httpx2
import pytest
from cases import each_case
from errors_of import raised, stalled

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    Function,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    ParseError,
    StreamConsumedError,
    StreamInterruptedError,
    StreamStalledError,
    errors,
    is_retryable,
)
from chunkfold.testing import StreamBuilder, choice, chunk, delta, event

# The tree: each class, its parent, and the attributes it adds.
TREE: dict[type[ChunkfoldError], tuple[type[Exception], set[str]]] = {
    ChunkfoldError: (Exception, {"snapshot", "emitted_output", "retryable"}),
    APIError: (
        ChunkfoldError,
        {"error", "status_code", "code", "type", "param", "request_id", "retry_after", "raw"},
    ),
    APIStatusError: (APIError, {"headers"}),
    InvalidStreamError: (ChunkfoldError, {"rule"}),
    NotAnEventStreamError: (InvalidStreamError, {"status_code", "content_type", "body"}),
    InvalidChunkError: (InvalidStreamError, {"position"}),
    LimitExceededError: (InvalidStreamError, {"limit", "value"}),
    IncompleteStreamError: (ChunkfoldError, set()),
    StreamInterruptedError: (IncompleteStreamError, set()),
    StreamStalledError: (IncompleteStreamError, set()),
    ParseError: (ChunkfoldError, {"text", "position", "cut"}),
    StreamConsumedError: (ChunkfoldError, set()),
}


HI = delta(content="Hi")
HEADERS = {"X-Request-Id": "req_1", "Retry-After": "7", "Content-Type": "text/plain"}
LIMITED = {"message": "slow down", "type": "rate_limit_error", "param": "n", "code": 429, "x": [1]}


failed = partial(errors_of.failed, headers=HEADERS)
interrupted = partial(errors_of.failed, exc=ConnectionResetError("gone"))
left = partial(errors_of.failed, left=True)


def consumed() -> ChunkfoldError:
    stream = ChatCompletionStream(StreamBuilder().text("Hi").finish().done())
    list(stream)
    return raised(lambda: list(stream))


def envelope(**error: Any) -> bytes:
    return event({"error": {"message": "x", **error}})


# Every error as it comes: how it comes about, its class, whether it is retryable as it is, and after output.
REAL: dict[str, tuple[Callable[[], ChunkfoldError], type[ChunkfoldError], bool, bool]] = {
    "API error": (lambda: failed(envelope(**LIMITED)), APIError, True, True),
    "API error, server's fault": (lambda: failed(envelope(code=503)), APIError, True, True),
    "API error, client's fault": (lambda: failed(envelope(code=400)), APIError, False, False),
    "API error, nothing known": (lambda: failed(envelope()), APIError, False, False),
    "API error, no quota": (lambda: failed(envelope(code="insufficient_quota")), APIError, False, False),
    "API error after output": (lambda: failed(HI, envelope(code=503)), APIError, False, True),
    "API error after output, client's fault": (lambda: failed(HI, envelope(code=400)), APIError, False, False),
    "status 429": (lambda: failed(b'{"error":{"message":"x"}}', status_code=429), APIStatusError, True, True),
    "status 401": (lambda: failed(b"no", status_code=401), APIStatusError, False, False),
    "strict mode": (
        lambda: failed(chunk(choice(content="Hi"), object="x"), strict=True),
        InvalidStreamError,
        False,
        False,
    ),
    "HTML": (lambda: failed(b"<html>", status_code=200), NotAnEventStreamError, False, False),
    "no chunk": (lambda: failed(b"data: x\n\n"), InvalidChunkError, False, False),
    "no chunk after output": (lambda: failed(HI, b"data: x\n\n"), InvalidChunkError, False, False),
    "too large": (lambda: failed(HI, max_event_size=9), LimitExceededError, False, False),
    "too much": (lambda: failed(HI, max_output_size=1), LimitExceededError, False, False),
    "empty": (lambda: failed(b"data: [DONE]\n\n"), IncompleteStreamError, True, True),
    "truncated": (lambda: failed(HI), IncompleteStreamError, False, True),
    "interrupted": (lambda: interrupted(delta()), StreamInterruptedError, True, True),
    "interrupted after output": (lambda: interrupted(HI), StreamInterruptedError, False, True),
    "stalled": (stalled, StreamStalledError, True, True),
    "stalled after output": (lambda: stalled(HI), StreamStalledError, False, True),
    "left": (left, IncompleteStreamError, False, False),
    "left after output": (lambda: left(HI), IncompleteStreamError, False, False),
    "still running": (lambda: raised(ChatCompletionParser().completion), IncompleteStreamError, False, False),
    "cut arguments": (lambda: raised(Function(arguments='{"a').parse), ParseError, False, False),
    "wrong arguments": (lambda: raised(Function(arguments="x").parse), ParseError, False, False),
    "iterated again": (consumed, StreamConsumedError, False, False),
}


# The tree


def test_the_tree_is_the_designs() -> None:
    found = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)}
    assert found == set(TREE)
    assert {each: each.__bases__ for each in TREE} == {each: (parent,) for each, (parent, _) in TREE.items()}


def test_the_docstring_draws_it() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if found:
            drawn.append((len(found[1]) // 3, found[2]))

    def branch(each: type, depth: int) -> list[tuple[int, str]]:
        below = [line for other, (parent, _) in TREE.items() if parent is each for line in branch(other, depth + 1)]
        return [(depth, each.__name__), *below]

    assert drawn == branch(ChunkfoldError, 0)


@each_case("name", REAL)
def test_every_class_comes_with_its_attributes(name: str) -> None:
    make, kind, _, _ = REAL[name]
    error = make()
    assert type(error) is kind
    for each in kind.__mro__:
        for attribute in TREE.get(each, (None, set()))[1]:
            assert hasattr(error, attribute)
    assert str(error)
    assert str(error).isprintable()


def test_every_class_can_come() -> None:
    assert {kind for _, kind, _, _ in REAL.values()} | {ChunkfoldError} == set(TREE)


@each_case("kind", TREE)
def test_any_of_them_can_be_made_from_a_message(kind: type[ChunkfoldError]) -> None:
    """For the tests of those who handle them."""
    error = kind("message")
    assert str(error) == getattr(error, "message", "message") == "message"
    assert (error.snapshot, error.emitted_output, error.retryable) == (None, False, False)


# What they carry


def test_what_is_no_chunk_knows_the_rule_that_was_broken_before() -> None:
    error = failed(b"data: data: oops\n\n", strict=True)
    assert (type(error), error.rule and error.rule.id) == (InvalidChunkError, "CF111")


def test_the_transports_exception_is_the_cause() -> None:
    cause = httpx.ReadError("peer closed connection")
    error = interrupted(HI, exc=cause)
    assert error.__cause__ is cause
    assert "peer closed connection" in str(error)


WITH_STREAM = [name for name in REAL if "arguments" not in name]


@each_case("name", WITH_STREAM)
def test_what_had_arrived(name: str) -> None:
    error = REAL[name][0]()
    assert error.snapshot is not None
    assert error.emitted_output is bool(error.snapshot.text)
    output = "output" in name or name in ("strict mode", "too much", "truncated", "iterated again")
    assert error.snapshot.text == ("Hi" if output else "")


# Copies


@each_case("name", REAL)
@each_case(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - our own bytes
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
    ids=["copy", "deepcopy", *(f"pickle {protocol}" for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1))],
)
def test_a_copy_keeps_everything(name: str, again: Callable[[ChunkfoldError], ChunkfoldError]) -> None:
    """Errors cross process borders in task queues and test runners."""
    error = REAL[name][0]()
    error.add_note("a note")
    other = again(error)
    assert type(other) is type(error)
    assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
    for each in type(error).__mro__:
        for attribute in TREE.get(each, (None, set()))[1]:
            assert getattr(other, attribute) == getattr(error, attribute)
    assert vars(other) == vars(error)
    assert other.__notes__ == ["a note"]
    if isinstance(error, IncompleteStreamError):
        assert isinstance(other, IncompleteStreamError)
        assert other.end is error.end
    if isinstance(error, APIError):
        assert isinstance(other, APIError)
        assert other.message == error.message


# Worth another try?


@each_case("name", REAL)
def test_is_retryable(name: str) -> None:
    make, _, as_it_is, after_output = REAL[name]
    error = make()
    assert error.retryable is is_retryable(error) is as_it_is
    assert is_retryable(error, after_output=True) is is_retryable(error, True) is after_output
    # A retry library calls it with the exception alone.
    assert [each for each in [error] if is_retryable(each)] == [error] * as_it_is


def test_nothing_is_retryable_after_output_unless_the_caller_says_so() -> None:
    for name in REAL:
        error = REAL[name][0]()
        error.emitted_output = True
        assert not error.retryable
        assert not is_retryable(error)
        error.emitted_output = False
        assert is_retryable(error) is is_retryable(error, after_output=True)


TRANSIENT = [
    *("ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout"),
    *("ConnectError", "ReadError", "WriteError", "CloseError", "RemoteProtocolError"),
]
LASTING = ["LocalProtocolError", "UnsupportedProtocol", "DecodingError", "TooManyRedirects"]


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("name", ["ConnectError", "ReadError", "ConnectTimeout"])
def test_a_certificate_that_was_refused_will_be_no_better(library: Any, name: str) -> None:
    error = getattr(library, name)("no")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    assert is_retryable(error) is False
    error.__cause__ = OSError()
    error.__cause__.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    assert is_retryable(error) is False
    error.__cause__.__cause__ = ssl.SSLError("handshake failure")
    assert is_retryable(error) is True


def test_an_exception_may_be_its_own_cause() -> None:
    error = ConnectionError("reset")
    error.__cause__ = error  # as after `raise error from error`
    assert is_retryable(error) is True
    error.__cause__ = OSError()
    error.__cause__.__cause__ = error
    assert is_retryable(error) is True


@each_case("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@each_case(("name", "retryable"), [*((n, True) for n in TRANSIENT), *((n, False) for n in LASTING)])
def test_transport_errors(library: Any, name: str, retryable: bool) -> None:
    error = getattr(library, name)("x")
    assert is_retryable(error) is retryable
    # Such an error says nothing of output: the caller of the client knows whether there was any.
    assert is_retryable(error, after_output=True) is retryable


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_what_else_the_clients_raise(library: Any) -> None:
    request = library.Request("POST", "http://x")
    response = library.Response(503, request=request)
    for error in (
        library.InvalidURL("x"),
        library.HTTPStatusError("x", request=request, response=response),
        library.StreamConsumed(),
        library.StreamClosed(),
    ):
        assert is_retryable(error) is False


@each_case(
    ("error", "retryable"),
    [
        *(
            (kind("x"), True)
            for kind in (ConnectionError, *ConnectionError.__subclasses__(), TimeoutError)
            if kind.__module__ == "builtins"
        ),
        *(
            (kind("x"), False)
            for kind in (OSError, ValueError, RuntimeError, FileNotFoundError, ssl.SSLError, Exception)
        ),
        *((kind(), False) for kind in (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_the_interpreters_own(error: BaseException, retryable: bool) -> None:
    assert is_retryable(error) is retryable


def test_no_client_is_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = httpx.ReadError("x")
    for name in ("httpx", "httpx2"):
        monkeypatch.delitem(sys.modules, name)
    assert not is_retryable(error)  # nobody who loaded it could have raised it
    assert not {"httpx", "httpx2"} & set(sys.modules)


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
@pytest.mark.parametrize("module", [ModuleType("unfinished"), None], ids=["being imported", "not to be imported"])
def test_a_client_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch, name: str, module: Any) -> None:
    """A module that another thread is importing has no names yet; None in its place forbids the import."""
    monkeypatch.setitem(sys.modules, name, module)
    assert is_retryable(ValueError("x")) is False
    assert is_retryable(TimeoutError("x")) is True
