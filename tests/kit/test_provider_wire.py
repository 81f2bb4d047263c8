"""The bytes of the provider's answers: framings, endings, compression."""

import math
import zlib
from dataclasses import replace
from typing import Any

import pytest
from cases import each_case
from fronts import ALONE, each_library, has_left
from provider_connections import GET, HEAD, LAST_GET, exchange, get, no_thread_left_behind

from chunkfold.testing import Answer, FakeProvider, Raw, sse
from chunkfold.testing.answers import Encoding, Ending, Framing

library = each_library
nothing_left_behind = no_thread_left_behind


@pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
@pytest.mark.parametrize(("ending", "error"), [("end", None), ("cut", "RemoteProtocolError"), ("reset", "ReadError")])
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
    pieces = sse({"n": 1}, "2", b"3")
    with (
        FakeProvider(Answer([pieces[0], 0.001, b"", *pieces[1:]], encoding=encoding)) as provider,
        library.stream("GET", provider.url, **ALONE) as response,
    ):
        assert response.headers["content-encoding"] == encoding
        decompressor = zlib.decompressobj(wbits=bits)
        assert [decompressor.decompress(data) for data in response.iter_raw()] == [*pieces, b""]
        assert decompressor.eof


@pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_clients_read_a_compressed_body(library: Any, framing: Framing, encoding: Encoding) -> None:
    compressed = Answer([b"ab", b"c"], framing=framing, encoding=encoding)
    with FakeProvider(compressed, Answer([], framing=framing, encoding=encoding)) as provider:
        assert [get(library, provider.url).content for _ in range(2)] == [b"abc", b""]


def test_a_cut_counts_compressed_bytes() -> None:
    whole = Answer([b"ab" * 1000, b"c"], encoding="gzip", framing="content-length")
    with FakeProvider(whole) as provider:
        head, _, body = exchange(provider, LAST_GET).partition(b"\r\n\r\n")
    assert zlib.decompress(body, wbits=31) == b"ab" * 1000 + b"c"
    for size in (0, 1, 12, len(body) - 1, len(body)):
        with FakeProvider(replace(whole, cut_at=size, ending="cut")) as provider:
            assert exchange(provider, LAST_GET) == head + b"\r\n\r\n" + body[:size]
