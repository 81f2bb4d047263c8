"""The embedded provider, with a script and without: what it answers, records and refuses; how it starts and stops."""

import errno
import json
import math
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import ALONE, PATIENCE, each_library
from provider_connections import GET, connect, get, no_thread_left_behind

from chunkfold.testing import Answer, FakeProvider, ManualClock, Raw, ReceivedRequest, StreamBuilder, json_answer

library = each_library
nothing_left_behind = no_thread_left_behind

TEXT = "Hello from the fake provider."


# Without a script


@pytest.mark.parametrize(
    "asked",
    [{}, {"stream_options": None}, {"n": None}, {"n": 1}, *({"model": nameless} for nameless in ("", 5, ["gpt"]))],
)
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


def test_as_many_choices_as_were_asked_for_and_usage_where_it_was() -> None:
    asked = {"model": "m", "n": 3, "stream_options": {"include_usage": True}}
    with FakeProvider() as provider:
        *chunks, trailer = chunks_of(provider, asked)
        whole = httpx.post(provider.url, **ALONE, json={"n": 3}).json()
    assert {chunk["model"] for chunk in [*chunks, trailer]} == {"m"}
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert trailer["choices"] == []
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [(choice["index"], choice["delta"].get("content")) for choice in choices] == [
        *((index, piece) for index in range(3) for piece in ("", "Hello")),
        *((index, piece) for piece in (" from", " the", " fake", " provider", ".", None) for index in range(3)),
    ]
    assert [choice["finish_reason"] for choice in choices[-4:]] == [None, "stop", "stop", "stop"]
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


def test_whole_completion_models_and_errors_by_default() -> None:
    with FakeProvider() as provider, httpx.Client(**ALONE, base_url=provider.base_url) as client:
        completion = client.post("/chat/completions", json={"model": "m"}).json()
        assert completion["object"] == "chat.completion"
        assert completion["choices"][0]["message"]["content"] == TEXT
        (listed,) = client.get("/models").json()["data"]
        assert listed["object"] == "model"
        assert client.get(f"/models/{listed['id']}").json() == listed
        for response, status in [
            (client.get("/models/other"), 404),
            (client.get("/nowhere"), 404),
            (client.get("/chat/completions"), 404),
            (client.post("/chat/completions", content=b"{"), 400),
            (client.post("/chat/completions", json=[]), 400),
            (client.post("/chat/completions", content=b"[" * 100_000), 400),
        ]:
            assert response.status_code == status
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}


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


def test_a_failed_callable_does_not_hide_the_exception_of_the_body() -> None:
    def answer(_: ReceivedRequest) -> Any:
        return "text"

    provider = FakeProvider(answer)
    with pytest.raises(httpx.HTTPStatusError, match="500 Internal Server Error") as caught, provider:
        get(httpx, provider.url).raise_for_status()
    assert caught.value.response.headers["x-should-retry"] == "false"  # which openai's SDK heeds
    provider.assert_requested(1)  # after the end, too
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
    assert (first.method, first.path, first.query) == ("POST", "/v1/chat/completions", "api-version=1")
    assert first.headers["x-twice"] == "1, 2"
    assert first.headers["content-length"] == str(len(first.body))
    assert second.headers["transfer-encoding"] == "chunked"
    assert second.body == b'{"model":"n"}'
    assert (first.json["model"], second.json["model"]) == ("m", "n")
    assert not first.client_left


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


def test_a_function_among_the_answers_may_stop_it() -> None:
    """Was once wrong: its own thread cannot be waited for."""

    threads: list[threading.Thread] = []

    def answer(_: ReceivedRequest) -> bytes:
        threads.append(threading.current_thread())
        provider.stop()
        return b"too late"

    with FakeProvider(answer) as provider, pytest.raises(httpx.RemoteProtocolError):
        get(httpx, provider.url)
    threads[0].join(PATIENCE)
    assert provider.failures == []


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


@each_case(
    ("arguments", "message"),
    [
        *(
            ({"body": wrong}, f"body: expected bytes, or a list of .*, received {type(wrong).__name__}")
            for wrong in ("text", "", bytearray(b"ab"), memoryview(b"ab"), {b"a": 1}, {b"a", b"b"}, None, 1.0)
        ),
        ({"body": [b"", "text"]}, r"body\[1\]: expected bytes, a pause in seconds or a Raw, received str"),
        *(
            ({"body": [wrong]}, rf"body\[0\]: .* received {type(wrong).__name__}")
            for wrong in (bytearray(b"ab"), memoryview(b"ab"), True, None)
        ),
        *(
            ({"status": wrong}, f"status: expected a status from 200 to 599, received {wrong!r}")
            for wrong in (99, 103, 600, "200")
        ),
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
        ({"interim": ["103"]}, r"interim\[0\]: .* received '103'"),
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


A_FUNCTION = "one, or a plain function from a request to one"


@each_case(
    ("given", "message"),
    [
        (StreamBuilder, f"{A_FUNCTION}, received a class, StreamBuilder"),
        (AsyncAnswerer, f"{A_FUNCTION}, received a class, AsyncAnswerer"),
        (answer_async, f"{A_FUNCTION}, received an async function, answer_async"),
        (partial(answer_async), f"{A_FUNCTION}, received an async function, partial"),
        (answer_in_pieces, f"{A_FUNCTION}, received an async function, answer_in_pieces"),
        (AsyncAnswerer(), f"{A_FUNCTION}, received an async function, AsyncAnswerer"),
        ("text", "an Answer, a StreamBuilder, bytes or a list of them, received str"),
    ],
)
def test_what_is_no_answer_is_refused_at_once(given: Any, message: str) -> None:
    for use in (FakeProvider, FakeProvider().add):
        with pytest.raises(TypeError, match=f"^answer: expected {message}$"):
            use(given)


def test_raw_bytes_are_bytes() -> None:
    with pytest.raises(TypeError, match="data: expected bytes, received str"):
        Raw("text")  # type: ignore[arg-type]
