"""The provider's connections, in clear and over TLS: HEAD, reuse, requests sent ahead, clients that leave, their end."""

import math
import socket
import ssl
import struct
import threading
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fronts import ALONE, PATIENCE, each_library, has_left
from provider_connections import (
    GET,
    HEAD,
    LAST_GET,
    Certificate,
    connect,
    exchange,
    get,
    made_certificate,
    no_thread_left_behind,
    read_until,
)

from chunkfold.testing import Answer, FakeProvider, Raw, ReceivedRequest
from chunkfold.testing.answers import Ending, Framing

library = each_library
nothing_left_behind = no_thread_left_behind
certificate = made_certificate


# Connections


@pytest.mark.parametrize(
    ("answer", "wire"),
    [
        (Answer([b"ab", math.inf, b"c"], trailers={"x": "1"}), HEAD + b"transfer-encoding: chunked\r\n\r\n"),
        (Answer(b"abc", framing="content-length"), HEAD + b"content-length: 3\r\n\r\n"),
        (Answer(b"abc", 201, {"x": "1"}, framing="close"), b"x: 1\r\n\r\n"),
        (Answer([b"HTTP/9.9 200", Raw(b" OK\r\n\r\n")], framing="raw"), b"HTTP/9.9 200 OK\r\n\r\n"),
    ],
    ids=lambda value: value.framing if isinstance(value, Answer) else "",
)
def test_a_head_gets_the_headers_alone(answer: Answer, wire: bytes) -> None:
    with FakeProvider(answer) as provider:
        assert exchange(provider, LAST_GET.replace(b"GET", b"HEAD")).endswith(wire)


@pytest.mark.parametrize("answer", [Answer(b"abc", interim=[103]), Answer(b"abc", framing="content-length")])
def test_the_connection_is_kept_behind_a_head(library: Any, answer: Answer) -> None:
    with FakeProvider(answer, b"next") as provider, library.Client(**ALONE) as client:
        assert client.head(provider.url).content == b""
        assert client.get(provider.url).content == b"next"
        assert provider.connections == 1


def test_a_head_without_a_script(library: Any) -> None:
    with FakeProvider() as provider, library.Client(**ALONE) as client:
        for path in ("/models", "/nowhere", "/models/fake-model", "/models"):
            head, get_ = (client.request(method, provider.base_url + path) for method in ("HEAD", "GET"))
            assert (head.status_code, head.content) == (get_.status_code, b"")
            assert set(head.headers) == set(get_.headers)
        assert provider.connections == 1


def test_a_connection_that_ends_behind_a_head() -> None:
    with FakeProvider(Answer(b"abc", ending="cut")) as provider:
        answered = exchange(provider, b"HEAD /v1/x HTTP/1.1\r\nhost: x\r\n\r\n")
    assert answered.endswith(b"\r\n\r\n")
    assert b"abc" not in answered


@pytest.mark.parametrize("expect", [b"100-continue", b"100-Continue"])
def test_a_client_that_waits_to_be_asked_for_its_body(expect: bytes) -> None:
    head = b"POST /v1/x HTTP/1.1\r\nhost: x\r\nexpect: %b\r\ncontent-length: 2\r\n\r\n" % expect
    with FakeProvider(b"a", b"b") as provider, connect(provider) as client:
        for _ in range(2):
            client.sendall(head)
            assert client.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert len(provider.requests) < 2
            client.sendall(b"{}")
            assert read_until(client, b"0\r\n\r\n")
    assert [request.body for request in provider.requests] == [b"{}", b"{}"]


def test_nobody_else_is_asked_for_a_body() -> None:
    with FakeProvider(b"a") as provider:
        request = LAST_GET.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\ncontent-length: 2\r\n\r\n{}")
        assert exchange(provider, request).startswith(b"HTTP/1.1 200 OK")


def test_a_connection_is_reused(library: Any) -> None:
    with FakeProvider(b"1", Answer(b"2", framing="content-length")) as provider:
        with library.Client(**ALONE) as client:
            assert [client.get(provider.url).content for _ in range(2)] == [b"1", b"2"]
            assert client.post(provider.url, content=iter([b"{}"])).status_code == 200
            assert provider.connections == 1
            provider.add(Answer(b"3", framing="close"))
            assert [client.get(provider.url).status_code for _ in range(2)] == [200, 404]
            assert provider.connections == 2
            client.get(provider.url, headers={"connection": "close"})
        assert provider.connections == 2
        assert len(provider.requests) == 6


@pytest.mark.parametrize("value", ["close", "Close", "TE, close"])
def test_either_side_can_end_the_connection_in_any_spelling(value: str) -> None:
    answers = Answer(b"a"), Answer(b"a", headers={"Connection": value})
    for answer, asked in zip(answers, (LAST_GET.replace(b"close", value.encode()), GET), strict=True):
        with FakeProvider(answer) as provider:
            assert exchange(provider, asked).endswith(b"1\r\na\r\n0\r\n\r\n")


@pytest.mark.parametrize("tls", [False, True], ids=["in clear", "TLS"])
def test_requests_sent_ahead_are_answered_in_order(certificate: Certificate, tls: bool) -> None:
    asked, sent = threading.Event(), threading.Event()

    def answer(_: ReceivedRequest) -> Answer:
        asked.set()
        assert sent.wait(PATIENCE)  # the next request is there before the pause
        return Answer([b"a", 0.001, 0.001, b"b"])

    with (
        FakeProvider(answer, b"c", ssl_context=certificate.server if tls else None) as provider,
        certificate.connect(provider) if tls else connect(provider) as client,
    ):
        client.sendall(GET)
        assert asked.wait(PATIENCE)
        client.sendall(LAST_GET)
        sent.set()
        wire = b"".join(iter(lambda: client.recv(65536), b""))
    assert wire.count(b"HTTP/1.1 200 OK") == 2
    assert wire.endswith(b"1\r\nc\r\n0\r\n\r\n")
    assert not provider.requests[0].client_left
    assert provider.connections == 1


def test_a_port_of_ones_own_and_one_that_is_taken() -> None:
    with FakeProvider() as provider:
        port = urlsplit(provider.base_url).port or 0
        with pytest.raises(OSError, match="in use"):
            FakeProvider(port=port).start()
    with FakeProvider(port=port) as provider:
        assert provider.base_url == f"http://127.0.0.1:{port}/v1"
        assert get(httpx, f"{provider.base_url}/models").status_code == 200


def test_what_is_no_request_gets_400_and_is_not_recorded() -> None:
    with FakeProvider() as provider:
        for request in [
            b"hello\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % 10**20,
            b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ]:
            assert exchange(provider, request).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        for beginning in [b"", b"GET", b"GET / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"]:
            with connect(provider) as client:
                client.sendall(beginning)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b""
    assert provider.requests == []


def test_a_refusal_arrives_although_more_was_sent() -> None:
    """A socket that is closed with bytes unread is reset, which can cost the client the refusal."""
    body = b"x" * 2**20
    with FakeProvider() as provider:
        wire = exchange(provider, b"POST / HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        assert b"expected HTTP/1.1, received HTTP/1.0" in wire
        wire = exchange(provider, b"hello\r\n")
    assert b"request line: expected a method, a target and a version, received 'hello'" in wire
    assert b"connection: close" in wire


# Clients that leave


@pytest.mark.parametrize(
    "answer",
    [Answer(b"ab", ending="open"), Answer([b"ab", 3600.0, b"c"]), Answer([b"ab", *[b"c" * 65536] * 1000])],
    ids=["for ever", "in a pause", "while it is sent to"],
)
def test_a_client_that_leaves_early(library: Any, answer: Answer) -> None:
    with FakeProvider(answer, b"next") as provider, library.Client(**ALONE) as client:
        with client.stream("GET", provider.url) as response:
            pieces = response.iter_bytes()  # to be kept: without it, the response would be closed
            assert next(pieces)[:2] == b"ab"
            assert not provider.requests[0].answered.is_set()
        assert has_left(provider.requests[0])
        assert client.get(provider.url).content == b"next"
        assert provider.connections == 2


# Over TLS


ABRUPT = (ssl.SSLEOFError, ConnectionResetError)  # how a TLS client sees a connection that ends without an alert


def test_tls(library: Any, certificate: Certificate) -> None:
    with (
        FakeProvider(b"1", Answer([b"2", 0.001, b"3"]), ssl_context=certificate.server) as provider,
        library.Client(verify=certificate.client) as client,
    ):
        assert provider.url.startswith("https://127.0.0.1:")
        assert [client.get(provider.url).content for _ in range(2)] == [b"1", b"23"]
        assert client.get(f"{provider.base_url}/models").status_code == 200
        assert provider.connections == 1
        assert provider.requests[1].answered.is_set()
        assert not provider.requests[1].client_left


@pytest.mark.parametrize("request_", [GET, LAST_GET], ids=["kept", "last"])
@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("ending", ["end", "cut", "reset"])
def test_only_an_end_has_tls_closing_alert(
    certificate: Certificate, framing: Framing, ending: Ending, request_: bytes
) -> None:
    answer = Answer([b"ab", 0.01], framing=framing, ending=ending)
    with (
        FakeProvider(answer, Answer([], framing="close"), ssl_context=certificate.server) as provider,
        certificate.connect(provider) as client,
    ):
        client.sendall(request_)
        assert read_until(client, b"ab")
        if ending != "end":
            with pytest.raises(ABRUPT):
                read_until(client, b"never")
        else:
            if (framing, request_) == ("chunked", GET):
                client.sendall(GET)
            assert not read_until(client, b"never")
    assert not has_left(provider.requests[0])


def test_what_is_no_request_gets_400_and_tls_closing_alert(certificate: Certificate) -> None:
    with FakeProvider(ssl_context=certificate.server) as provider, certificate.connect(provider) as client:
        client.sendall(b"hello\r\n")
        assert b"".join(iter(lambda: client.recv(65536), b"")).startswith(b"HTTP/1.1 400 Bad Request\r\n")


@pytest.mark.parametrize("way", ["alert", "close", "reset", "reset in clear"])
@pytest.mark.parametrize("body", [[b"ab", math.inf], [b"ab", 3600.0, b"c"]], ids=["for ever", "in a pause"])
def test_a_socket_that_leaves_early(certificate: Certificate, body: list[bytes | float], way: str) -> None:
    in_clear = way == "reset in clear"
    with FakeProvider(Answer(body), ssl_context=None if in_clear else certificate.server) as provider:
        with connect(provider) if in_clear else certificate.connect(provider) as client:
            client.sendall(GET)
            assert read_until(client, b"ab")
            if way == "alert":
                with pytest.raises(ABRUPT):  # the provider goes without an alert of its own
                    client.unwrap()
            elif way != "close":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert has_left(provider.requests[0])


def test_a_failed_handshake_is_no_failure_of_the_provider(library: Any, certificate: Certificate) -> None:
    with FakeProvider(ssl_context=certificate.server) as provider:
        with pytest.raises(library.ConnectError, match="certificate verify failed"):
            library.get(provider.url)
        with pytest.raises(library.TransportError):
            get(library, provider.url.replace("https:", "http:"))
        with connect(provider) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert library.get(provider.url, verify=certificate.client).status_code == 404
        assert provider.connections == 4
    assert len(provider.requests) == 1
    assert provider.failures == []


@pytest.mark.parametrize("said", ["nothing", "a handshake", "a request"])
def test_stopping_ends_what_waits_over_tls(certificate: Certificate, said: str) -> None:
    with FakeProvider(Answer([b"ab", math.inf]), ssl_context=certificate.server) as provider:
        client = connect(provider) if said == "nothing" else certificate.connect(provider)
        with client:
            if said == "a request":
                client.sendall(GET)
                assert read_until(client, b"ab")
            provider.stop()
            with pytest.raises(ABRUPT) if said != "nothing" else nullcontext():
                assert client.recv(1) == b""
    assert [(request.answered.is_set(), request.client_left) for request in provider.requests] == (
        [(True, False)] if said == "a request" else []
    )


def test_a_context_of_a_client_is_refused_at_once(certificate: Certificate) -> None:
    with pytest.raises(ssl.SSLError, match="Cannot create a server socket"):
        FakeProvider(ssl_context=certificate.client)
