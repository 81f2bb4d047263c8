"""The embedded provider, as real clients see it."""

import errno
import json
import math
import socket
import ssl
import struct
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
import pytest
from cases import each_case
from fronts import ALONE, PATIENCE, each_library, has_left
from provider_connections import Certificate, connect, exchange, get, made_certificate, no_thread_left_behind

from chunkfold.testing import Answer, FakeProvider, ManualClock, Raw, ReceivedRequest, StreamBuilder, json_answer, sse
from chunkfold.testing.answers import Encoding, Ending, Framing

library = each_library
nothing_left_behind = no_thread_left_behind
certificate = made_certificate

TEXT = "Hello from the fake provider."
GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n"
LAST_GET = b"GET /v1/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


# Without a script


def test_usage_is_streamed_where_it_is_asked_for() -> None:
    with FakeProvider() as provider:
        *chunks, trailer = chunks_of(provider, {"model": "m", "stream_options": {"include_usage": True}})
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert (trailer["choices"], trailer["usage"]["total_tokens"]) == ([], 11)
    assert {chunk["model"] for chunk in [*chunks, trailer]} == {"m"}


@pytest.mark.parametrize("asked", [{}, {"stream_options": None}, {"n": None}, {"n": 1}])
def test_the_default_stream_is_a_builders(asked: dict[str, Any]) -> None:
    with FakeProvider() as provider:
        chunks = chunks_of(provider, asked)
    assert [chunk["choices"] for chunk in chunks] == [
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        *(
            [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]
            for piece in ["Hello", " from", " the", " fake", " provider", "."]
        ),
        [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    ]
    heads = [{name: value for name, value in chunk.items() if name != "choices"} for chunk in chunks]
    head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "fake-model"}
    assert heads == [head] * 8


def chunks_of(provider: FakeProvider, asked: dict[str, Any]) -> list[dict[str, Any]]:
    response = httpx.post(provider.url, **ALONE, json={"stream": True, **asked})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    lines = response.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@pytest.mark.parametrize("model", ["", 5, ["gpt"]])
def test_a_model_without_a_name_is_the_providers_own(model: Any) -> None:
    with FakeProvider() as provider:
        assert {chunk["model"] for chunk in chunks_of(provider, {"model": model})} == {"fake-model"}


def test_as_many_choices_as_were_asked_for() -> None:
    with FakeProvider() as provider:
        *chunks, trailer = chunks_of(provider, {"n": 3, "stream_options": {"include_usage": True}})
        whole = httpx.post(provider.url, **ALONE, json={"n": 3}).json()
    deltas = [(choice["index"], choice["delta"]) for chunk in chunks for choice in chunk["choices"]]
    for index in range(3):
        mine = [delta for of, delta in deltas if of == index]
        assert mine[0] == {"role": "assistant", "content": ""}
        assert "".join(delta.get("content", "") for delta in mine) == TEXT
    assert [of for of, delta in deltas if delta == {"content": " the"}] == [0, 1, 2]
    pieces = [delta["content"] for _, delta in deltas if delta.get("content")]
    assert pieces[:4] == ["Hello"] * 3 + [" from"]
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert reasons[-4:] == [None, "stop", "stop", "stop"]
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    assert {choice["message"]["content"] for choice in whole["choices"]} == {TEXT}
    assert trailer["usage"] == whole["usage"] == {"prompt_tokens": 5, "completion_tokens": 18, "total_tokens": 23}


@each_case(
    ("asked", "param"),
    [
        *(({"stream_options": value}, "stream_options") for value in (True, "include_usage", [], 1, "")),
        *(({"n": value}, "n") for value in (0, -1, 129, True, "2", 1.5, [])),
    ],
)
def test_what_openai_refuses_is_refused(asked: dict[str, Any], param: str) -> None:
    with FakeProvider() as provider:
        response = httpx.post(provider.url, **ALONE, json={"stream": True, **asked})
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"].startswith(f"Invalid '{param}': expected ")


def test_the_model_that_is_listed_can_be_asked_for() -> None:
    with FakeProvider() as provider:
        (listed,) = httpx.get(f"{provider.base_url}/models", **ALONE).json()["data"]
        assert httpx.get(f"{provider.base_url}/models/{listed['id']}", **ALONE).json() == listed
        assert httpx.get(f"{provider.base_url}/models/other", **ALONE).status_code == 404


def test_whole_completion_models_and_errors_by_default() -> None:
    with FakeProvider() as provider, httpx.Client(**ALONE, base_url=provider.base_url) as client:
        completion = client.post("/chat/completions", json={"model": "m"}).json()
        assert completion["object"] == "chat.completion"
        assert completion["choices"][0]["message"]["content"] == TEXT
        assert [model["object"] for model in client.get("/models").json()["data"]] == ["model"]
        for response, status in [
            (client.get("/nowhere"), 404),
            (client.get("/chat/completions"), 404),
            (client.post("/chat/completions", content=b"{"), 400),
            (client.post("/chat/completions", json=[]), 400),
            (client.post("/chat/completions", content=b"[" * 100_000), 400),
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
    with FakeProvider(overloaded, [b"data: ", b"[DONE]\n\n"]) as provider:
        provider.add(lambda request: request.body[::-1])
        first, second, third, fourth = (httpx.post(provider.url, **ALONE, content=b"{}") for _ in range(4))
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
        assert httpx.post(provider.url, **ALONE, json={"model": "right"}).json() == {}
    provider = FakeProvider(answer)
    with pytest.raises(AssertionError, match="wrong"), provider:
        httpx.post(provider.url, **ALONE, json={"model": "wrong"})
    assert len(provider.failures) == 1


def test_a_failed_callable_does_not_hide_the_exception_of_the_body() -> None:
    def answer(_: ReceivedRequest) -> Any:
        return "text"

    provider = FakeProvider(answer)
    with pytest.raises(httpx.HTTPStatusError, match="500 Internal Server Error"), provider:
        get(httpx, provider.url).raise_for_status()
    messages = [str(error) for error in provider.failures]
    assert messages == ["answer: expected an Answer, a StreamBuilder, bytes or a list of them, received str"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only a connection wakes accept()")
def test_stopping_needs_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong: where no connection could be made, the acceptor's thread stayed."""
    with FakeProvider() as provider:
        monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.EADDRNOTAVAIL)
        assert httpx.get(provider.url).text
    assert provider.failures == []


def test_requests_are_recorded(library: Any) -> None:
    headers = [("X-Twice", "1"), ("X-Twice", "2")]
    with FakeProvider() as provider, library.Client(**ALONE) as client:
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


def test_pieces_arrive_as_written(library: Any) -> None:
    pieces = sse({"n": 1}, "2", b"3")
    with (
        FakeProvider(Answer([pieces[0], 0.001, *pieces[1:]])) as provider,
        library.stream("GET", provider.url, **ALONE) as response,
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
            assert get(library, provider.url).content == b"abc"
        else:
            with pytest.raises(getattr(library, error)):
                get(library, provider.url)
        assert not has_left(provider.requests[0])
        assert get(library, f"{provider.base_url}/models").status_code == 200
        assert provider.connections == 2


def framed(framing: Framing, ending: Ending = "end", **options: Any) -> Answer:
    return Answer([b"ab", 0.0, b"", b"c"], framing=framing, ending=ending, **options)


CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
GIVEN = {"Content-Length": "9", "Content-Type": "text/plain", "Connection": "close"}
ON_THE_WIRE: dict[str, tuple[Answer, bytes]] = {
    "chunked": (framed("chunked"), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
    "chunked, cut": (framed("chunked", "cut"), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n"),
    "a length": (framed("content-length"), HEAD + b"content-length: 3\r\n\r\nabc"),
    "a length, cut": (framed("content-length", "cut"), HEAD + b"content-length: 4\r\n\r\nabc"),
    "until the end": (framed("close"), HEAD + b"connection: close\r\n\r\nabc"),
    "until the end, cut": (framed("close", "cut"), HEAD + b"connection: close\r\n\r\nabc"),
    "cut at the last byte": (framed("chunked", cut_at=3), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
    "cut between pieces": (framed("chunked", cut_at=2), CHUNKED + b"2\r\nab\r\n0\r\n\r\n"),
    "cut in a piece": (framed("chunked", "cut", cut_at=1), CHUNKED + b"1\r\na\r\n"),
    "cut at once": (framed("chunked", "cut", cut_at=0), CHUNKED),
    "cut behind the last byte": (framed("chunked", "cut", cut_at=9), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n"),
    "a length, cut in a piece": (framed("content-length", "cut", cut_at=1), HEAD + b"content-length: 3\r\n\r\na"),
    "a length, cut at its end": (framed("content-length", cut_at=3), HEAD + b"content-length: 3\r\n\r\nabc"),
    "until the end, cut in a piece": (framed("close", cut_at=1), HEAD + b"connection: close\r\n\r\na"),
    "nothing behind a cut": (
        Answer([Raw(b"1\r\nx\r\n"), b"ab", math.inf, Raw(b"never")], cut_at=2, ending="cut"),
        CHUNKED + b"1\r\nx\r\n2\r\nab\r\n",
    ),
    "raw bytes between chunks": (
        Answer([b"ab", Raw(b"zz\r\n"), b"c"], ending="cut"),
        CHUNKED + b"2\r\nab\r\nzz\r\n1\r\nc\r\n",
    ),
    "raw bytes in a body of a length": (
        Answer([b"ab", Raw(b"zz"), b"c"], framing="content-length"),
        HEAD + b"content-length: 3\r\n\r\nabzzc",
    ),
    "interim responses and trailers": (
        Answer(b"ab", interim=(100, 103), trailers={"X-Request-Cost": "1", "x-b": "2"}),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
        + CHUNKED
        + b"2\r\nab\r\n0\r\nx-request-cost: 1\r\nx-b: 2\r\n\r\n",
    ),
    "headers that are given": (
        Answer(b"abc", 599, GIVEN, framing="content-length"),
        b"HTTP/1.1 599 \r\ncontent-type: text/plain\r\ncontent-length: 9\r\nconnection: close\r\n\r\nabc",
    ),
}


@each_case("name", ON_THE_WIRE)
def test_exact_bytes(name: str) -> None:
    answer, wire = ON_THE_WIRE[name]
    with FakeProvider(answer) as provider:
        assert exchange(provider, LAST_GET) == wire
        assert not has_left(provider.requests[0])


def test_what_is_no_http() -> None:
    answer = Answer([b"HTTP/9.9 204", Raw(b" OK\r\n\r\n")], 204, framing="raw", ending="cut")
    with FakeProvider(answer, Answer([], framing="raw", interim=[103], ending="cut")) as provider:
        assert exchange(provider, GET) == b"HTTP/9.9 204 OK\r\n\r\n"
        assert exchange(provider, GET) == b"HTTP/1.1 103 Early Hints\r\n\r\n"


def test_a_client_that_takes_interim_responses_and_trailers(library: Any) -> None:
    answer = Answer(b"ab", interim=(100, 102, 103), trailers={"x": "1"})
    with FakeProvider(*[answer] * 2) as provider, library.Client(**ALONE) as client:
        assert [client.get(provider.url).content for _ in range(2)] == [b"ab", b"ab"]
        assert provider.connections == 1


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
def test_a_status_without_a_body(library: Any, status: int, framing: Framing) -> None:
    answer = Answer([b"", 0.0], status, {"x": "1"}, framing=framing)
    with FakeProvider(answer, answer, b"next") as provider:
        assert exchange(provider, LAST_GET).partition(b"\r\n")[2] == b"x: 1\r\n\r\n"
        with library.Client(**ALONE) as client:
            assert [client.get(provider.url).content for _ in range(2)] == [b"", b"next"]
        assert provider.connections == 2


@pytest.mark.parametrize(("encoding", "bits"), [("gzip", 31), ("deflate", 15)])
def test_a_compressed_body_arrives_as_written(library: Any, encoding: Encoding, bits: int) -> None:
    with (
        FakeProvider(Answer([b"ab", 0.001, b"", b"c"], encoding=encoding)) as provider,
        library.stream("GET", provider.url, **ALONE) as response,
    ):
        assert response.headers["content-encoding"] == encoding
        decompressor = zlib.decompressobj(wbits=bits)
        assert [decompressor.decompress(data) for data in response.iter_raw()] == [b"ab", b"c", b""]
        assert decompressor.eof


@pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_clients_read_a_compressed_body(library: Any, framing: Framing, encoding: Encoding) -> None:
    compressed = Answer([b"ab", b"c"], framing=framing, encoding=encoding)
    with FakeProvider(compressed, Answer([], framing=framing, encoding=encoding)) as provider:
        assert [get(library, provider.url).content for _ in range(2)] == [b"abc", b""]


def test_a_cut_counts_compressed_bytes() -> None:
    body = b"".join(zlib_pieces([b"ab" * 1000, b"c"], 31))
    for size in (0, 1, 12, len(body) - 1, len(body)):
        answer = Answer([b"ab" * 1000, b"c"], encoding="gzip", framing="content-length", cut_at=size, ending="cut")
        with FakeProvider(answer) as provider:
            head, _, sent = exchange(provider, LAST_GET).partition(b"\r\n\r\n")
        assert head.endswith(b"content-length: %d" % len(body))
        assert sent == body[:size]


def zlib_pieces(pieces: list[bytes], bits: int) -> Iterator[bytes]:
    compressor = zlib.compressobj(wbits=bits)
    for piece in pieces:
        yield compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)
    yield compressor.flush()


# TLS

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


def read_until(client: socket.socket, expected: bytes) -> bool:
    """Read until these bytes came, or the end."""
    seen = b""
    while data := client.recv(65536):
        seen += data
        if expected in seen:
            return True
    return False


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


def test_requests_are_answered_at_the_same_time() -> None:
    everyone = threading.Barrier(8, timeout=PATIENCE)

    def answer(request: ReceivedRequest) -> bytes:
        everyone.wait()
        return request.body

    with FakeProvider(*[answer] * 8) as provider, ThreadPoolExecutor(8) as pool:

        def post(body: bytes) -> bytes:
            return httpx.post(provider.url, **ALONE, content=body).content

        bodies = [bytes([65 + n]) for n in range(8)]
        assert list(pool.map(post, bodies)) == bodies
    assert provider.connections == 8


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


async def test_an_open_body_after_done_until_the_client_leaves(library: Any) -> None:
    async with FakeProvider(Answer(sse(), ending="open"), b"next") as provider:
        async with library.AsyncClient(**ALONE) as client:
            async with client.stream("POST", provider.url, json={"stream": True}) as response:
                with anyio.CancelScope() as scope:
                    async for data in response.aiter_bytes():
                        assert data == b"data: [DONE]\n\n"
                        assert not provider.requests[0].answered.is_set()
                        scope.cancel()
            assert await anyio.to_thread.run_sync(has_left, provider.requests[0])
            assert (await client.get(provider.url)).content == b"next"
        assert provider.connections == 2


@pytest.mark.parametrize(
    "body",
    [[b"ab", math.inf], [b"ab", 3600.0, b"c"], [b"ab", *[b"c" * 65536] * 1000]],
    ids=["for ever", "in a pause", "while it is sent to"],
)
def test_a_client_that_leaves_early(library: Any, body: list[bytes | float]) -> None:
    with FakeProvider(Answer(body)) as provider:
        with library.stream("GET", provider.url, **ALONE) as response:
            assert next(response.iter_bytes())[:2] == b"ab"
        assert has_left(provider.requests[0])


# Starting and stopping


@pytest.mark.parametrize("answer", [Answer(b"ab", ending="open"), Answer([b"ab", 3600.0, b"c"])])
async def test_stopping_ends_what_waits(library: Any, answer: Answer) -> None:
    async with (
        FakeProvider(answer) as provider,
        library.AsyncClient(**ALONE) as client,
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
    assert get(httpx, f"{provider.base_url}/models").status_code == 200
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


@each_case(
    ("arguments", "message"),
    [
        ({"body": "text"}, "body: expected bytes, or a list of bytes, pauses and Raws, received str"),
        ({"body": ""}, "body: .* received str"),
        ({"body": bytearray(b"ab")}, "body: .* received bytearray"),
        ({"body": memoryview(b"ab")}, "body: .* received memoryview"),
        ({"body": {b"a": 1}}, "body: .* received dict"),
        ({"body": {b"a", b"b"}}, "body: .* received set"),
        ({"body": None}, "body: .* received NoneType"),
        ({"body": 1.0}, "body: .* received float"),
        ({"body": [b"", "text"]}, r"body\[1\]: expected bytes, a pause in seconds or a Raw, received str"),
        ({"body": [bytearray(b"ab")]}, r"body\[0\]: .* received bytearray"),
        ({"body": [memoryview(b"ab")]}, r"body\[0\]: .* received memoryview"),
        ({"body": [True]}, r"body\[0\]: .* received bool"),
        ({"body": [None]}, r"body\[0\]: .* received NoneType"),
        ({"status": 99}, "status: expected a status from 200 to 599, received 99"),
        ({"status": 103}, "status: .* received 103"),
        ({"status": 600}, "status: .* received 600"),
        ({"status": "200"}, "status: .* received '200'"),
        ({"body": [b"", -1]}, r"body\[1\]: expected a pause of 0 seconds or more, received -1"),
        ({"body": [math.nan]}, r"body\[0\]: .* received nan"),
        ({"framing": "none"}, "framing: expected one of chunked, .*, received 'none'"),
        ({"ending": "stop"}, "ending: expected one of end, cut, reset, open, received 'stop'"),
        ({"headers": {"x": "\ud800"}}, "surrogates not allowed"),
        ({"headers": [("x", "1")]}, "headers: expected a mapping of strings, received list"),
        ({"headers": {"retry-after": 2}}, "headers: expected a mapping of strings, received 'retry-after': 2"),
        ({"headers": {b"x": "1"}}, "headers: expected a mapping of strings, received b'x': '1'"),
        ({"trailers": {"x": None}}, "trailers: expected a mapping of strings, received 'x': None"),
        ({"trailers": {"x": "\ud800"}}, "surrogates not allowed"),
        ({"trailers": {"x": "1"}, "framing": "close"}, "trailers: expected a chunked framing, received 'close'"),
        ({"encoding": "br"}, "encoding: expected one of identity, gzip, deflate, received 'br'"),
        ({"interim": [100, 200]}, r"interim\[1\]: expected a status from 100 to 199 other than 101, received 200"),
        ({"interim": [101]}, r"interim\[0\]: .* received 101"),
        ({"cut_at": -1}, "cut_at: expected 0 or more, received -1"),
        ({"cut_at": "1"}, "cut_at: expected an int or None, received '1'"),
        ({"body": b"abc", "framing": "content-length", "cut_at": 2}, "cut_at: a body that is shorter .* has no end"),
        ({"body": b"a", "status": 204}, "body: a response with status 204 has none"),
        ({"encoding": "gzip", "status": 304}, "body: a response with status 304 has none"),
        ({"trailers": {"x": "1"}, "status": 204}, "body: a response with status 204 has none"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    everything: dict[str, Any] = {"body": b"", **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        Answer(**everything)


def test_reprs_are_short() -> None:
    assert len(repr(Answer([b"data: " * 50] * 9))) < 700
    assert repr(ManualClock(1.5)) == "ManualClock(1.5)"
    provider = FakeProvider(b"", b"")
    assert repr(provider) == "<FakeProvider: not started, requests: 0, answers left: 2>"
    with provider:
        get(httpx, provider.url)
        assert repr(provider) == f"<FakeProvider: {provider.base_url}, requests: 1, answers left: 1>"


def test_a_body_may_come_from_a_generator() -> None:
    answer = Answer(piece for piece in (b"ab", 0.0, b"c"))  # type: ignore[arg-type]
    assert answer.body == (b"ab", 0.0, b"c")
    pieces: list[bytes | float] = [b"ab"]
    kept = Answer(pieces)
    pieces.append(-1.0)
    assert kept.pieces == (b"ab",)
    with FakeProvider(answer, answer) as provider:
        assert [get(httpx, provider.url).content for _ in range(2)] == [b"abc", b"abc"]


async def answer_async(_: ReceivedRequest) -> bytes:
    return b""


async def answer_in_pieces(_: ReceivedRequest) -> AsyncIterator[bytes]:
    yield b""


class AsyncAnswerer:
    async def __call__(self, _: ReceivedRequest) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("answerer", "received"),
    [
        (StreamBuilder, "a class, StreamBuilder"),
        (AsyncAnswerer, "a class, AsyncAnswerer"),
        (answer_async, "an async function, answer_async"),
        (partial(answer_async), "an async function, partial"),
        (answer_in_pieces, "an async function, answer_in_pieces"),
        (AsyncAnswerer(), "an async function, AsyncAnswerer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_be_called_and_gives_no_answer_is_refused_at_once(answerer: Any, received: str) -> None:
    message = f"answer: expected one, or a plain function from a request to one, received {received}"
    with pytest.raises(TypeError, match=f"^{message}$"):
        FakeProvider(answerer)
    with pytest.raises(TypeError, match=f"^{message}$"):
        FakeProvider().add(answerer)


def test_what_is_no_answer_is_refused_at_once() -> None:
    unusable: Any = "text"
    with pytest.raises(TypeError, match="data: expected bytes, received str"):
        Raw(unusable)
    with pytest.raises(
        TypeError, match="answer: expected an Answer, a StreamBuilder, bytes or a list of them, received str"
    ):
        FakeProvider(unusable)
