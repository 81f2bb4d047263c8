"""What the wire can do to a stream, over real sockets: what comes of each fault, for both clients, sync and async.

One table of answers, each with what it has to come to: the ending, the error and its cause, what had arrived, and
what may be retried. Whatever came of it, the response is closed, no connection is in use, and the client can go on.
What happens before there is a response is the client's to tell, in its own words.
"""

import socket
import ssl
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from fronts import (
    ASKED,
    Expected,
    by_turns,
    check_reading,
    client_of,
    connections_in_use,
    generators_of_httpx_are_not_ours,
    over_both_fronts,
    text_of,
)

from chunkfold import (
    APIStatusError,
    IncompleteStreamError,
    NotAnEventStreamError,
    StreamInterruptedError,
    is_retryable,
)
from chunkfold.testing import DONE, Answer, FakeProvider, Raw, delta, json_answer

pytestmark = generators_of_httpx_are_not_ours

pytest_generate_tests = over_both_fronts

A_MOMENT = 0.02  # seconds in which the client reads what a reset could cost it
SECRET = {"Authorization": "Bearer secret"}
DEFAULT_TEXT = "Hello from the fake provider."


ROLE = delta(role="assistant", content="")
HELLO = delta(content="Hello")
WORLD = delta(content=" world")
STOP = delta("stop")
WHOLE = [ROLE, HELLO, WORLD, STOP, DONE]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
GZIP = {"content-encoding": "gzip"}


def gzipped(*pieces: bytes) -> bytes:
    """The pieces, compressed, as far as they go: without the end of the compressed data."""
    compressor = zlib.compressobj(wbits=31)
    return b"".join(compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH) for piece in pieces)


def gzip_size(*pieces: bytes) -> int:
    return len(gzipped(*pieces))


@dataclass(kw_only=True)
class Case(Expected):
    """What the provider says, whether over TLS, and what has to come of it."""

    answer: Answer
    tls: bool = False


def finished(answer: Answer, text: str = "Hello world", noted: tuple[str, ...] = (), **options: Any) -> Case:
    return Case(answer=answer, end="finished", text=text, noted=noted, **options)


def stopped(end: str, answer: Answer, text: str, **options: Any) -> Case:
    """It stopped too early, which is worth another try as long as no output came."""
    return Case(answer=answer, end=end, text=text, retryable=not text, **{"error": IncompleteStreamError, **options})


def reset(body: list[bytes | float | Raw], text: str = "", noted: tuple[str, ...] = (), **options: Any) -> Case:
    answer = Answer([*body, A_MOMENT], ending="reset", **options)
    return stopped("interrupted", answer, text, error=StreamInterruptedError, cause="ReadError", noted=noted)


def broken(
    body: list[bytes | float | Raw], text: str = "", noted: tuple[str, ...] = (), *, tls: bool = False, **options: Any
) -> Case:
    """What comes is no whole HTTP/1.1 response: the client says so."""
    answer = Answer(body, ending="cut", **options)
    cause = "RemoteProtocolError"
    return stopped("interrupted", answer, text, error=StreamInterruptedError, cause=cause, noted=noted, tls=tls)


def undecodable(body: list[bytes | float | Raw], text: str = "", **options: Any) -> Case:
    answer = Answer(body, headers=GZIP, **options)
    return stopped("interrupted", answer, text, error=StreamInterruptedError, cause="DecodingError")


def truncated(answer: Answer, text: str = "Hello", **options: Any) -> Case:
    """The client takes it for the end of the body."""
    return stopped("truncated", answer, text, **options)


def empty(answer: Answer, **options: Any) -> Case:
    return stopped("empty", answer, "", **options)


def refused(answer: Answer, *, retryable: bool) -> Case:
    return Case(answer=answer, end="failed", error=APIStatusError, retryable=retryable)


OVERLOADED = b'{"error":{"message":"overloaded"}}'

CASES = {
    # The connection is reset
    "reset before the body": reset([]),
    "reset before the body of declared length": reset([], framing="content-length"),
    "reset after a comment": reset([b": hello\n\n"]),
    "reset after the role": reset([ROLE]),
    "reset in the middle": reset([ROLE, HELLO], "Hello"),
    "reset in the middle of a body without length": reset([ROLE, HELLO], "Hello", framing="close"),
    "reset inside an event": reset([HELLO, WORLD[:40]], "Hello"),
    "reset behind the last byte of an event's data": reset([HELLO, WORLD.rstrip()], "Hello world", ("CF101",)),
    "reset after the finish reason": finished(Answer([*WHOLE[:4], A_MOMENT], ending="reset"), noted=("CF507",)),
    "reset inside [DONE]": finished(
        Answer([*WHOLE[:4], DONE[:8], A_MOMENT], ending="reset"), noted=("CF101", "CF507")
    ),
    "reset after [DONE]": finished(Answer([*WHOLE, A_MOMENT], ending="reset")),
    # The connection is closed, too early
    "closed before the body": broken([]),
    "closed between chunks": broken([HELLO], "Hello"),
    "closed between the chunks of an event": broken([HELLO, WORLD[:40]], "Hello"),
    "closed inside a chunk": broken([HELLO, Raw(b"ffff\r\n" + WORLD[:40])], "Hello"),
    "closed inside a chunk, behind an event": broken([HELLO, Raw(b"ffff\r\n" + WORLD)], "Hello world"),
    "closed inside a chunk's size": broken([HELLO, Raw(b"f")], "Hello"),
    "closed inside the trailers": broken([HELLO, Raw(b"0\r\nx: 1\r\n")], "Hello"),
    "closed after the finish reason": finished(Answer(WHOLE[:4], ending="cut"), noted=("CF507",)),
    "closed after [DONE]": finished(Answer(WHOLE, ending="cut")),
    "closed before the declared length": broken([HELLO], "Hello", framing="content-length"),
    "closed at once before the declared length": broken([HELLO], framing="content-length", cut_at=0),
    "closed inside an event before the declared length": broken(
        [HELLO, WORLD], "Hello", framing="content-length", cut_at=len(HELLO) + 40
    ),
    "closed one byte before the declared length": broken(
        [HELLO, WORLD], "Hello world", ("CF101",), framing="content-length", cut_at=len(HELLO + WORLD) - 1
    ),
    "closed before the declared length, but after the finish reason": finished(
        Answer(WHOLE[:4], ending="cut", framing="content-length"), noted=("CF507",)
    ),
    # It looks like the end
    "a body without length": finished(Answer(WHOLE, framing="close")),
    "a body without length, closed too early": truncated(Answer([HELLO], framing="close", ending="cut")),
    "a body without length, closed inside an event": truncated(
        Answer([HELLO, WORLD], framing="close", cut_at=len(HELLO) + 40)
    ),
    "a body without length, closed at once": empty(Answer([], framing="close", ending="cut")),
    "a last chunk that comes too early": truncated(Answer([HELLO])),
    "a last chunk at once": empty(Answer([])),
    "a declared length that is too small": truncated(
        Answer([HELLO, Raw(b"".join(WHOLE[2:]))], framing="content-length", headers={"connection": "close"})
    ),
    "a declared length of 0": empty(Answer([], framing="content-length")),
    # The framing is broken
    "a chunk's size that is no number": broken([HELLO, Raw(b"zz\r\n")], "Hello"),
    "a chunk's size that never ends": broken([HELLO, Raw(b"0" * 200_000)], "Hello"),
    "another response in the middle": broken([HELLO, Raw(HEAD + b"\r\n")], "Hello"),
    "broken chunks after the finish reason": finished(
        Answer([*WHOLE[:4], Raw(b"zz\r\n")], ending="cut"), noted=("CF507",)
    ),
    # TLS
    "TLS": finished(Answer(WHOLE), tls=True),
    "TLS, closed between chunks": broken([HELLO], "Hello", tls=True),
    "TLS, closed inside a chunk": broken([HELLO, Raw(b"ffff\r\n" + WORLD)], "Hello world", tls=True),
    "TLS, closed before the declared length": broken([HELLO], "Hello", tls=True, framing="content-length"),
    "TLS, closed after the finish reason": finished(Answer(WHOLE[:4], ending="cut"), noted=("CF507",), tls=True),
    "TLS, a body without length": finished(Answer(WHOLE, framing="close"), tls=True),
    "TLS, a body without length, closed too early": truncated(
        Answer([HELLO], framing="close", ending="cut"), tls=True
    ),
    "TLS, a body without length, closed at once": empty(Answer([], framing="close", ending="cut"), tls=True),
    # What HTTP allows
    "204": empty(Answer([], 204)),
    "201": finished(Answer(WHOLE, 201)),
    "other responses before": finished(Answer(WHOLE, interim=(100, 102, 103))),
    "trailers": finished(Answer(WHOLE, trailers={"x-cost": "1"})),
    "trailers without [DONE]": finished(Answer(WHOLE[:4], trailers={"x-cost": "1"}), noted=("CF501",)),
    "a chunk's extension": finished(Answer([HELLO, Raw(b"%x;a=b\r\n%b\r\n" % (len(WORLD), WORLD)), STOP, DONE])),
    "HTTP/1.0": finished(
        Answer([HEAD.replace(b"1.1", b"1.0"), b"\r\n", *WHOLE], framing="raw", ending="cut")
    ),
    # Compression
    "gzip": finished(Answer(WHOLE, encoding="gzip")),
    "gzip of declared length": finished(Answer(WHOLE, encoding="gzip", framing="content-length")),
    "gzip without length": finished(Answer(WHOLE, encoding="gzip", framing="close")),
    "deflate": finished(Answer(WHOLE, encoding="deflate")),
    "gzip, closed between chunks": broken([HELLO, WORLD], "Hello", encoding="gzip", cut_at=gzip_size(HELLO)),
    "gzip, reset": reset([HELLO, WORLD], "Hello", encoding="gzip", cut_at=gzip_size(HELLO)),
    "gzip, closed at once": broken([HELLO], encoding="gzip", cut_at=0),
    "gzip, cut between events": truncated(Answer([HELLO, WORLD], encoding="gzip", cut_at=gzip_size(HELLO))),
    "gzip, cut inside an event": truncated(Answer([HELLO, WORLD], encoding="gzip", cut_at=gzip_size(HELLO) + 3)),
    "gzip, cut before its last bytes": truncated(
        Answer([HELLO, WORLD], encoding="gzip", cut_at=gzip_size(HELLO, WORLD)), "Hello world"
    ),
    "gzip, cut inside its header": empty(Answer([HELLO], encoding="gzip", cut_at=5)),
    "gzip, cut at once": empty(Answer([HELLO], encoding="gzip", cut_at=0)),
    "gzip without length, cut between events": truncated(
        Answer([HELLO, WORLD], encoding="gzip", cut_at=gzip_size(HELLO), framing="close", ending="cut")
    ),
    "gzip, cut after the finish reason": finished(
        Answer(WHOLE, encoding="gzip", cut_at=gzip_size(*WHOLE[:4])), noted=("CF501",)
    ),
    "deflate, cut inside its header": empty(Answer([HELLO], encoding="deflate", cut_at=1)),
    "deflate, cut between events": truncated(
        Answer([HELLO, WORLD], encoding="deflate", cut_at=gzip_size(HELLO) - 8)  # its header is 8 bytes shorter
    ),
    "garbage instead of gzip": undecodable([b"garbage"]),
    "an event stream that claims to be gzip": undecodable(WHOLE),
    "garbage after gzip": undecodable([gzipped(HELLO), b"\xff" * 20], "Hello"),
    "a wrong checksum of gzip": undecodable([gzipped(HELLO), b"\x03\x00" + b"\x00" * 8], "Hello"),
    "a wrong checksum of gzip after the finish reason": finished(
        Answer([gzipped(*WHOLE[:4]), b"\x03\x00" + b"\x00" * 8], headers=GZIP), noted=("CF507",)
    ),
    "gzip that claims to be an event stream": Case(
        answer=Answer([gzipped(*WHOLE)]), end="invalid", error=NotAnEventStreamError
    ),
    # The request is refused
    "an error in chunks": refused(Answer(OVERLOADED, 503), retryable=True),
    "a compressed error": refused(Answer(OVERLOADED, 503, encoding="gzip"), retryable=True),
    "an error whose body is cut": refused(Answer(OVERLOADED, 503, cut_at=12, ending="cut"), retryable=True),
    "an error whose body is reset": refused(Answer([OVERLOADED, A_MOMENT], 503, ending="reset"), retryable=True),
    "an error whose body cannot be decoded": refused(Answer(OVERLOADED, 400, GZIP), retryable=False),
    "304": refused(Answer([], 304), retryable=False),
}  # fmt: skip


@by_turns("name", CASES)
async def test_a_fault_while_the_answer_comes(
    front: Any, library: Any, name: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    ssl_context = request.getfixturevalue("server_side") if case.tls else None
    with FakeProvider(case.answer, ssl_context=ssl_context) as provider:
        async with client_of(front, library) as client:
            await check_reading(case, client, library, provider.url, [])
            async with client.connect(provider.url) as another:
                assert await text_of(another) == DEFAULT_TEXT


@by_turns(
    "name", ["204", "304", "other responses before", "trailers", "TLS", "gzip", "gzip of declared length", "deflate"]
)
async def test_the_connection_is_used_again(
    front: Any, library: Any, name: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    ssl_context = request.getfixturevalue("server_side") if case.tls else None
    with FakeProvider(*[case.answer] * 2, ssl_context=ssl_context) as provider:
        async with client_of(front, library) as client:
            for _ in range(2):
                with suppress(IncompleteStreamError, APIStatusError):
                    async with client.connect(provider.url) as stream:
                        assert await text_of(stream) == case.text
        assert provider.connections == 1


@dataclass
class Unopened:
    """What the provider says instead of a response, and the name of the client's exception."""

    answer: Answer
    error: str
    tls: bool = False


def no_response(*pieces: bytes, **options: Any) -> Unopened:
    return Unopened(Answer(list(pieces), framing="raw", **{"ending": "cut", **options}), "RemoteProtocolError")


UNOPENED = {
    "closed": no_response(),
    "reset": Unopened(Answer([], framing="raw", ending="reset"), "ReadError"),
    "TLS, closed": Unopened(Answer([], framing="raw", ending="cut"), "RemoteProtocolError", tls=True),
    "closed inside the status line": no_response(HEAD[:12]),
    "closed inside the headers": no_response(HEAD),
    "closed after an interim response": no_response(interim=[103]),
    "another protocol": no_response(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a status that is no number": no_response(b"HTTP/1.1 OK\r\n\r\n"),
    "headers without end": no_response(HEAD + b"x: y\r\n" * 50_000),
}


async def open_and_fail(client: Any, url: str, **options: Any) -> None:
    async with client.connect(url, **options):
        pytest.fail("connected")


@by_turns("name", UNOPENED)
async def test_a_fault_before_the_answer_is_told_by_the_client(
    front: Any, library: Any, name: str, request: pytest.FixtureRequest
) -> None:
    case = UNOPENED[name]
    ssl_context = request.getfixturevalue("server_side") if case.tls else None
    with FakeProvider(case.answer, ssl_context=ssl_context) as provider:
        async with client_of(front, library) as client:
            with pytest.raises(library.TransportError) as caught:
                await open_and_fail(client, provider.url)
            assert type(caught.value) is getattr(library, case.error)
            assert is_retryable(caught.value)
            assert connections_in_use(client) == []
            async with client.connect(provider.url) as stream:
                assert await text_of(stream) == DEFAULT_TEXT


def unused_url() -> str:
    """The URL of a port that was just closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/"


async def test_where_nobody_answers_or_in_clear(front: Any, library: Any) -> None:
    with FakeProvider() as in_clear:
        async with client_of(front, library) as client:
            for url in (unused_url(), in_clear.url.replace("http:", "https:")):
                with pytest.raises(library.ConnectError) as caught:
                    await open_and_fail(client, url)
                assert type(caught.value) is library.ConnectError
                assert is_retryable(caught.value) or url.startswith("https:")
                assert connections_in_use(client) == []
    assert in_clear.requests == []


async def test_a_certificate_that_is_not_trusted(front: Any, library: Any, server_side: ssl.SSLContext) -> None:
    with FakeProvider(ssl_context=server_side) as provider:
        async with client_of(front, library, verify=True) as client:
            with pytest.raises(library.ConnectError) as caught:
                await open_and_fail(client, provider.url)
            assert not is_retryable(caught.value)
            assert connections_in_use(client) == []
            try:
                raise caught.value
            except library.ConnectError:  # the next exception has it as its context, not as its cause
                with pytest.raises(library.ConnectError) as another:
                    await open_and_fail(client, unused_url())
            assert is_retryable(another.value)
    assert provider.requests == []


async def test_a_compressed_error_that_is_not_labelled_is_not_quoted(front: Any, library: Any) -> None:
    with FakeProvider(Answer([gzipped(OVERLOADED)], 429)) as provider:
        async with client_of(front, library) as client, client.connect(provider.url) as stream:
            with pytest.raises(APIStatusError) as caught:
                await anext(aiter(stream))
            assert connections_in_use(client) == []
    assert str(caught.value) == "HTTP 429: a compressed body: pass the decoded one"


@pytest.mark.parametrize("status", [301, 308])
async def test_a_redirect_is_not_followed(front: Any, library: Any, status: int) -> None:
    with FakeProvider() as other:
        redirect = json_answer({"error": {"message": "moved"}}, status, {"Location": other.url})
        with FakeProvider(redirect) as provider:
            async with client_of(front, library, headers=SECRET) as client, client.connect(provider.url) as stream:
                with pytest.raises(APIStatusError) as caught:
                    await anext(aiter(stream))
                assert stream.response.is_closed
                assert connections_in_use(client) == []
    assert (caught.value.status_code, caught.value.headers["location"]) == (status, other.url)
    assert caught.value.message == "moved"
    assert (stream.end, caught.value.retryable, caught.value.emitted_output) == ("failed", False, False)
    assert provider.requests[0].headers["authorization"] == "Bearer secret"
    assert other.connections == 0


@pytest.mark.parametrize(("status", "by"), [(307, "the client"), (308, "the request")])
async def test_a_redirect_that_the_client_follows(front: Any, library: Any, status: int, by: str) -> None:
    """The request is sent again, but the key only to whom it was meant for."""
    of_client: dict[str, Any] = {"follow_redirects": True} if by == "the client" else {}
    of_request: dict[str, Any] = {} if by == "the client" else {"follow_redirects": True}
    with FakeProvider() as other, FakeProvider(Answer([], status, {"Location": other.url})) as provider:
        async with (
            client_of(front, library, **of_client) as client,
            client.connect(provider.url, headers=SECRET, **of_request) as stream,
        ):
            assert await text_of(stream) == DEFAULT_TEXT
    (received,) = other.requests
    assert (received.method, received.json) == ("POST", {**ASKED, "stream": True})
    assert received.headers["accept"] == "text/event-stream"
    assert "authorization" not in received.headers
    assert provider.requests[0].headers["authorization"] == "Bearer secret"
