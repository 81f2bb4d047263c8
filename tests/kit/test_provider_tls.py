"""The provider over TLS."""

import math
import socket
import ssl
import struct
from contextlib import nullcontext
from typing import Any

import pytest
from fronts import each_library, has_left
from provider_connections import (
    GET,
    LAST_GET,
    Certificate,
    connect,
    get,
    made_certificate,
    no_thread_left_behind,
    read_until,
)

from chunkfold.testing import Answer, FakeProvider
from chunkfold.testing.answers import Ending, Framing

library = each_library
nothing_left_behind = no_thread_left_behind
certificate = made_certificate

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
