"""The embedded provider, as real clients see it."""

import json
import math
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
import httpx2
import pytest

from chunkfold.testing import Answer, FakeProvider, ReceivedRequest, json_answer, sse
from chunkfold.testing.answers import Ending, Framing

PATIENCE = 30.0  # seconds, after which a test that hangs fails
TEXT = "Hello from the fake provider."
GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n"
LAST_GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_left_behind(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capfd.readouterr().err == ""
    assert not [t for t in threading.enumerate() if t.name.startswith("fake-provider")]


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def connect(provider: FakeProvider) -> socket.socket:
    address = urlsplit(provider.base_url)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE)


def exchange(provider: FakeProvider, request: bytes) -> bytes:
    """Send the bytes as they are; return all that comes until the connection ends."""
    with connect(provider) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def left(request: ReceivedRequest) -> bool:
    assert request.answered.wait(PATIENCE)
    return request.client_left


# Without a script


def test_streams_by_default_what_openai_streams(library: Any) -> None:
    asked = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    with FakeProvider() as provider, library.stream("POST", provider.url, json=asked) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    *chunks, trailer = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert lines[-1] == "data: [DONE]"
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == TEXT
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "stop"]
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert trailer["choices"] == []
    assert trailer["usage"]["total_tokens"] == 11
    assert {chunk["model"] for chunk in [*chunks, trailer]} == {"m"}


def test_usage_only_if_asked_for() -> None:
    with FakeProvider() as provider:
        assert "usage" not in httpx.post(provider.url, json={"stream": True}).text


def test_whole_completion_models_and_errors_by_default() -> None:
    with FakeProvider() as provider, httpx.Client(base_url=provider.base_url) as client:
        completion = client.post("/chat/completions", json={"model": "m"}).json()
        assert completion["object"] == "chat.completion"
        assert completion["choices"][0]["message"]["content"] == TEXT
        assert [model["object"] for model in client.get("/models").json()["data"]] == ["model"]
        for response, status in [
            (client.get("/nowhere"), 404),
            (client.get("/chat/completions"), 404),
            (client.post("/chat/completions", content=b"{"), 400),
            (client.post("/chat/completions", json=[]), 400),
        ]:
            assert response.status_code == status
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_the_openai_sdk_takes_it_for_a_provider() -> None:
    openai = pytest.importorskip("openai")
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    with (
        FakeProvider() as provider,
        openai.OpenAI(base_url=provider.base_url, api_key="x", max_retries=0) as client,
    ):
        whole = client.chat.completions.create(**asked)
        with client.chat.completions.create(**asked, stream=True) as stream:
            chunks = list(stream)
        assert [model.id for model in client.models.list()] == ["fake-model"]
        with pytest.raises(openai.NotFoundError, match="Unknown request URL"):
            client.models.retrieve("other")
    assert whole.choices[0].message.content == TEXT
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert provider.requests[0].headers["authorization"] == "Bearer x"


# The script


def test_one_answer_for_each_request_then_the_default() -> None:
    overloaded = json_answer({"error": {"message": "later"}}, 429, {"Retry-After": "1"})
    with FakeProvider(overloaded, b"data: [DONE]\n\n") as provider:
        provider.add(lambda request: request.body[::-1])
        first, second, third, fourth = (httpx.post(provider.url, content=b"{}") for _ in range(4))
    assert (first.status_code, first.headers["retry-after"]) == (429, "1")
    assert first.headers["content-type"] == "application/json"
    assert first.json() == {"error": {"message": "later"}}
    assert (second.content, third.content) == (b"data: [DONE]\n\n", b"}{")
    assert fourth.json()["object"] == "chat.completion"


def test_a_callable_checks_what_was_sent() -> None:
    def answer(request: ReceivedRequest) -> Answer:
        assert request.json["model"] == "right"
        return json_answer({})

    with FakeProvider(answer) as provider:
        assert httpx.post(provider.url, json={"model": "right"}).json() == {}
    provider = FakeProvider(answer)
    with pytest.raises(AssertionError, match="wrong"), provider:
        httpx.post(provider.url, json={"model": "wrong"})
    assert len(provider.failures) == 1


def test_a_failed_callable_does_not_hide_the_exception_of_the_body() -> None:
    def answer(_: ReceivedRequest) -> Any:
        return "text"

    provider = FakeProvider(answer)
    with pytest.raises(httpx.HTTPStatusError, match="500 Internal Server Error"), provider:
        httpx.get(provider.url).raise_for_status()
    messages = [str(error) for error in provider.failures]
    assert messages == ["answer: expected an Answer or bytes, received str"]


def test_requests_are_recorded(library: Any) -> None:
    headers = [("X-Twice", "1"), ("X-Twice", "2")]
    with FakeProvider() as provider, library.Client() as client:
        client.post(f"{provider.url}?api-version=1", headers=headers, json={"model": "m"})
        client.post(provider.url, content=iter([b'{"model"', b"", b':"n"}']))
    first, second = provider.requests
    assert (first.method, first.path, first.query) == (
        "POST", "/v1/chat/completions", "api-version=1",
    )  # fmt: skip
    assert first.headers["x-twice"] == "1, 2"
    assert first.headers["content-length"] == str(len(first.body))
    assert second.headers["transfer-encoding"] == "chunked"
    assert second.body == b'{"model":"n"}'
    assert (first.json["model"], second.json["model"]) == ("m", "n")
    assert not first.client_left


# On the wire

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"


@pytest.mark.parametrize(
    ("framing", "ending", "wire"),
    [
        ("chunked", "end", b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
        ("chunked", "cut", b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n"),
        ("content-length", "end", b"content-length: 3\r\n\r\nabc"),
        ("content-length", "cut", b"content-length: 4\r\n\r\nabc"),
        ("close", "end", b"connection: close\r\n\r\nabc"),
        ("close", "cut", b"connection: close\r\n\r\nabc"),
    ],
)
def test_exact_bytes(framing: Framing, ending: Ending, wire: bytes) -> None:
    with FakeProvider(Answer([b"ab", 0.0, b"", b"c"], framing=framing, ending=ending)) as provider:
        assert exchange(provider, LAST_GET) == HEAD + wire


def test_given_headers_win() -> None:
    headers = {"Content-Length": "9", "Content-Type": "text/plain", "Connection": "close"}
    answer = Answer(b"abc", 599, headers, framing="content-length")
    with FakeProvider(answer) as provider:
        assert exchange(provider, GET) == (
            b"HTTP/1.1 599 \r\ncontent-type: text/plain\r\ncontent-length: 9\r\nconnection: close\r\n\r\nabc"
        )


def test_pieces_arrive_as_written(library: Any) -> None:
    pieces = sse({"n": 1}, "2", b"3")
    with (
        FakeProvider(Answer([pieces[0], 0.001, *pieces[1:]])) as provider,
        library.stream("GET", provider.url) as response,
    ):
        assert list(response.iter_raw()) == pieces


@pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
@pytest.mark.parametrize(
    ("ending", "error"),
    [("end", None), ("cut", "RemoteProtocolError"), ("reset", "ReadError")],
)
def test_endings(library: Any, framing: Framing, ending: Ending, error: str | None) -> None:
    with FakeProvider(Answer([b"ab", b"c"], framing=framing, ending=ending)) as provider:
        if error is None or (framing, ending) == ("close", "cut"):
            assert library.get(provider.url).content == b"abc"
        else:
            with pytest.raises(getattr(library, error)):
                library.get(provider.url)
        assert not left(provider.requests[0])
        assert library.get(f"{provider.base_url}/models").status_code == 200
        assert provider.connections == 2


# Connections


def test_a_connection_is_reused(library: Any) -> None:
    with FakeProvider(b"1", Answer(b"2", framing="content-length")) as provider:
        with library.Client() as client:
            assert [client.get(provider.url).content for _ in range(2)] == [b"1", b"2"]
            assert client.post(provider.url, content=iter([b"{}"])).status_code == 200
            assert provider.connections == 1
            provider.add(Answer(b"3", framing="close"))
            assert [client.get(provider.url).status_code for _ in range(2)] == [200, 404]
            assert provider.connections == 2
            client.get(provider.url, headers={"connection": "close"})
        assert provider.connections == 2
        assert len(provider.requests) == 6


def test_requests_sent_ahead_are_answered_in_order() -> None:
    asked, sent = threading.Event(), threading.Event()

    def answer(_: ReceivedRequest) -> Answer:
        asked.set()
        assert sent.wait(PATIENCE)  # the next request is there before the pause
        return Answer([b"a", 0.001, b"b"])

    with FakeProvider(answer, b"c") as provider, connect(provider) as client:
        client.sendall(GET)
        assert asked.wait(PATIENCE)
        client.sendall(LAST_GET)
        sent.set()
        wire = b"".join(iter(lambda: client.recv(65536), b""))
    assert wire.count(b"HTTP/1.1 200 OK") == 2
    assert wire.endswith(b"1\r\nc\r\n0\r\n\r\n")
    assert not provider.requests[0].client_left
    assert provider.connections == 1


def test_requests_are_answered_at_the_same_time() -> None:
    everyone = threading.Barrier(8, timeout=PATIENCE)

    def answer(request: ReceivedRequest) -> bytes:
        everyone.wait()
        return request.body

    with FakeProvider(*[answer] * 8) as provider, ThreadPoolExecutor(8) as pool:

        def post(body: bytes) -> bytes:
            return httpx.post(provider.url, content=body).content

        bodies = [bytes([65 + n]) for n in range(8)]
        assert list(pool.map(post, bodies)) == bodies
    assert provider.connections == 8


def test_what_is_no_request_gets_400_and_is_not_recorded() -> None:
    with FakeProvider() as provider:
        for request in [
            b"hello\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ]:
            assert exchange(provider, request).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        for beginning in [b"", b"GET", b"GET / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"]:
            with connect(provider) as client:
                client.sendall(beginning)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b""
    assert provider.requests == []


# Clients that leave


async def test_an_open_body_after_done_until_the_client_leaves(library: Any) -> None:
    async with FakeProvider(Answer(sse(), ending="open"), b"next") as provider:
        async with library.AsyncClient() as client:
            async with client.stream("POST", provider.url, json={"stream": True}) as response:
                with anyio.CancelScope() as scope:
                    async for data in response.aiter_bytes():
                        assert data == b"data: [DONE]\n\n"
                        assert not provider.requests[0].answered.is_set()
                        scope.cancel()
            assert await anyio.to_thread.run_sync(left, provider.requests[0])
            assert (await client.get(provider.url)).content == b"next"
        assert provider.connections == 2


@pytest.mark.parametrize(
    "body",
    [[b"ab", math.inf], [b"ab", 3600.0, b"c"], [b"ab", *[b"c" * 65536] * 1000]],
    ids=["for ever", "in a pause", "while it is sent to"],
)
def test_a_client_that_leaves_early(library: Any, body: list[bytes | float]) -> None:
    with FakeProvider(Answer(body)) as provider:
        with library.stream("GET", provider.url) as response:
            assert next(response.iter_bytes())[:2] == b"ab"
        assert left(provider.requests[0])


def test_a_client_that_resets() -> None:
    with FakeProvider(Answer([b"ab", math.inf])) as provider:
        with connect(provider) as client:
            client.sendall(GET)
            assert client.recv(1) == b"H"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert left(provider.requests[0])


# Starting and stopping


@pytest.mark.parametrize("answer", [Answer(b"ab", ending="open"), Answer([b"ab", 3600.0, b"c"])])
async def test_stopping_ends_what_waits(library: Any, answer: Answer) -> None:
    async with (
        FakeProvider(answer) as provider,
        library.AsyncClient() as client,
        client.stream("GET", provider.url) as response,
        aclosing(response.aiter_bytes()) as body,
    ):
        assert await anext(body) == b"ab"
        provider.stop()
        with pytest.raises(library.RemoteProtocolError):
            await anext(body)
        assert provider.requests[0].answered.is_set()
        assert not provider.requests[0].client_left
        with pytest.raises(library.ConnectError):
            await client.get(provider.url)


def test_stopping_ends_what_is_not_read() -> None:
    asked = threading.Event()

    def answer(_: ReceivedRequest) -> Answer:
        asked.set()
        return Answer([b"x" * 65536] * 1000)

    with FakeProvider(answer) as provider, connect(provider) as client:
        client.sendall(GET)
        assert asked.wait(PATIENCE)
        provider.stop()
        assert provider.requests[0].answered.is_set()
        assert not provider.requests[0].client_left


def test_a_provider_lives_once() -> None:
    provider = FakeProvider()
    provider.stop()
    with pytest.raises(RuntimeError, match="no address before it is started"):
        _ = provider.url
    assert provider.start() is provider
    assert httpx.get(f"{provider.base_url}/models").status_code == 200
    with pytest.raises(RuntimeError, match="started once"):
        provider.start()
    provider.stop()
    provider.stop()
    assert provider.url.endswith("/v1/chat/completions")
    with pytest.raises(RuntimeError, match="started once"):
        provider.start()


# Values


def test_sse_builds_the_pieces_of_a_stream() -> None:
    assert sse({"content": "é"}, b"{}", "null") == [
        'data: {"content":"é"}\n\n'.encode(), b"data: {}\n\n", b"data: null\n\n", b"data: [DONE]\n\n",
    ]  # fmt: skip
    assert sse(done=False) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"body": "text"}, r"body\[0\]: expected bytes or a pause in seconds, received str"),
        ({"body": [b"", -1]}, r"body\[1\]: expected a pause of 0 seconds or more, received -1"),
        ({"body": [math.nan]}, r"body\[0\]: .* received nan"),
        ({"framing": "none"}, "framing: expected one of chunked, .*, received 'none'"),
        ({"ending": "stop"}, "ending: expected one of end, cut, reset, open, received 'stop'"),
        ({"headers": {"x": "\ud800"}}, "surrogates not allowed"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    everything: dict[str, Any] = {"body": b"", **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        Answer(**everything)


def test_what_is_no_answer_is_refused_at_once() -> None:
    unusable: Any = "text"
    with pytest.raises(TypeError, match="answer: expected an Answer or bytes, received str"):
        FakeProvider(unusable)
