"""Connections to a `FakeProvider`, in clear and over TLS, of which nothing may stay behind."""

import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from fronts import ALONE, PATIENCE

from chunkfold.testing import FakeProvider


@pytest.fixture(name="nothing_left_behind", autouse=True)
def no_thread_left_behind(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    before = threading.enumerate()
    yield
    assert capfd.readouterr().err == ""
    assert not [t for t in threading.enumerate() if t.name.startswith("fake-provider") and t not in before]


def connect(provider: FakeProvider) -> socket.socket:
    address = urlsplit(provider.base_url)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE)


def get(library: Any, url: str) -> Any:
    return library.get(url, **ALONE)


def exchange(provider: FakeProvider, request: bytes) -> bytes:
    """Send the bytes as they are; return all that comes until the connection ends."""
    with connect(provider) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


class Certificate:
    """A certificate for 127.0.0.1, and both sides of TLS that belong to it."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(self.server)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)

    def connect(self, provider: FakeProvider) -> ssl.SSLSocket:
        """A client that tells TLS's closing alert from a connection that just ends."""
        return self.client.wrap_socket(connect(provider), server_hostname="127.0.0.1", suppress_ragged_eofs=False)


@pytest.fixture(name="certificate", scope="module")
def made_certificate() -> Certificate:
    return Certificate()


GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n"
LAST_GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"


def read_until(client: socket.socket, expected: bytes) -> bool:
    """Read until these bytes came, or the end."""
    seen = b""
    while data := client.recv(65536):
        seen += data
        if expected in seen:
            return True
    return False
