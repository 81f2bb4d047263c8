"""A test suite for a gateway, with a small gateway to test: pytest examples/test_a_gateway.py."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from chunkfold.testing import Answer, FakeProvider, StreamBuilder, hostile_streams, json_answer, stalled


class Gateway(BaseHTTPRequestHandler):
    """Forwards requests and answers, and breaks off if an answer does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: httpx.Client

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            with self.provider.stream("POST", self.path, content=body) as response:
                self.send_response(response.status_code)
                for name in {"content-type", "retry-after"} & response.headers.keys():
                    self.send_header(name, response.headers[name])
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for data in response.iter_raw():
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.write(b"0\r\n\r\n")
        except httpx.ConnectError:
            self.send_error(502)


@pytest.fixture
def client(chunkfold_provider: FakeProvider) -> Iterator[httpx.Client]:
    with (
        httpx.Client(base_url=chunkfold_provider.base_url) as Gateway.provider,
        ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}") as client,
    ):
        Thread(target=server.serve_forever, args=(0.01,)).start()
        yield client
        server.shutdown()


HELLO = StreamBuilder().text("Hel", "lo").usage(10, 5).finish().done()
REQUEST: Any = {"url": "/chat/completions", "json": {"model": "m", "messages": [], "stream": True}}


def test_bytes_pass_as_they_are(client: httpx.Client, chunkfold_provider: FakeProvider) -> None:
    for stream in hostile_streams():
        chunkfold_provider.add(stream.body)
        assert client.post(**REQUEST).content == stream.body, stream.name
    chunkfold_provider.assert_requested(len(hostile_streams()), path="/chat/completions", json=REQUEST["json"])


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_a_broken_answer_stays_broken(client: httpx.Client, chunkfold_provider: FakeProvider, ending: Any) -> None:
    chunkfold_provider.add(HELLO.answer(cut_at=300, ending=ending))
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(**REQUEST)


def test_a_refusal_stays_one(client: httpx.Client, chunkfold_provider: FakeProvider) -> None:
    chunkfold_provider.add(json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "2"}))
    response = client.post(**REQUEST)
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")
    chunkfold_provider.stop()
    assert client.post(**REQUEST).status_code == 502


def test_a_client_that_leaves(client: httpx.Client, chunkfold_provider: FakeProvider) -> None:
    chunkfold_provider.add(Answer(stalled(HELLO, 1, 60, keep_alive=b": ping\n\n", every=0.05)))
    with client.stream("POST", **REQUEST) as response:
        assert next(response.iter_raw()) == HELLO.events[0]
    assert [request.answered.wait(30) and request.client_left for request in chunkfold_provider.requests] == [True]
