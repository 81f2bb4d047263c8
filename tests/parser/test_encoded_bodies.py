"""Compressed bodies: those that explode, and which encodings are read."""

import gzip
from collections.abc import Iterator
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each_case
from fronts import by_turns, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts, read_by
from limited import ALLOWED, COST, HI, LIMIT, READ, STOP, assert_named
from measured_memory import only_garbage_of_these_tests, traced
from sources import Kin, Pieces

from chunkfold import (
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletionParser,
    ChatCompletionStream,
    LimitExceededError,
)
from chunkfold.stream import responses
from chunkfold.testing import DONE, Answer, FakeProvider, delta

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts
library = each_library
collecting_is_quick = only_garbage_of_these_tests

EXPLODED = 10 * LIMIT  # bytes


@cache
def compressed(piece: bytes, start: bytes = b"", size: int = EXPLODED) -> bytes:
    return gzip.compress(start + piece * (size // len(piece)))


# What comes over and over again, behind what, and the limit that ends it.
BOMBS = {
    "a line": (b"x", b"data: ", "max_event_size"),
    "text": (delta(content="word " * 1000), b"", "max_output_size"),
}


async def answered(answer: Answer, library: Any, front: Any, **options: Any) -> tuple[Any, int]:
    """The stream of an answer, behind which its only connection is as good as new, and what memory reading it takes."""
    with FakeProvider(answer) as provider:
        async with client_of(front, library, limits=library.Limits(max_connections=1)) as client:
            with traced() as memory:
                stream = await read_by(client, provider.url, **options)
            assert (await read_by(client, provider.url)).end == "finished"
    assert provider.requests[0].headers["accept-encoding"] == "identity"
    return stream, memory.peak


def encoded(body: bytes, encoding: str = "gzip", status: int = 200) -> Answer:
    return Answer(body, status, headers={"content-encoding": encoding})


@by_turns("name", BOMBS)
async def test_a_body_that_explodes(library: Any, front: Any, name: str) -> None:
    """No limit sees it before the client has decoded a read of it: that is what it costs, and a few copies."""
    piece, start, limit = BOMBS[name]
    sent = compressed(piece, start)
    assert len(sent) < 100_000
    stream, memory = await answered(encoded(sent), library, front, max_output_size=LIMIT, max_event_size=LIMIT)
    assert_named(stream, limit, LIMIT)
    assert memory < 3 * EXPLODED + COST * READ


async def test_a_refusal_that_explodes(library: Any, front: Any) -> None:
    stream, memory = await answered(encoded(compressed(b"x"), status=503), library, front)
    assert type(stream.error) is APIStatusError
    assert type(stream.error.__cause__) is LimitExceededError
    assert len(stream.error.raw) <= ALLOWED
    assert memory < 3 * EXPLODED + COST * READ


TWICE = (1, "expected at most 1 content encoding of the body, received more (max_content_encodings)")
UNASKED = (0, "expected at most 0 content encodings that were not requested, received more (max_content_encodings)")
ENCODINGS = {
    "gzip, gzip": TWICE,
    "deflate, gzip": TWICE,
    "gzip , identity,GZIP": TWICE,
    "br": UNASKED,
    "zstd": UNASKED,
}


@by_turns("encoding", ENCODINGS)
async def test_a_body_that_is_encoded_twice_or_unasked_is_not_read(library: Any, front: Any, encoding: str) -> None:
    """A few hundred bytes of two layers become gigabytes, before any limit sees one of them."""
    sent = gzip.compress(compressed(b"x", b"data: "))
    for status, kind in ((200, LimitExceededError), (503, APIStatusError)):
        stream, memory = await answered(encoded(sent, encoding, status), library, front)
        assert type(stream.error) is kind
        limited = stream.error if status == 200 else stream.error.__cause__
        assert limited.limit == "max_content_encodings"
        assert (limited.value, str(limited)) == ENCODINGS[encoding]
        assert memory < EXPLODED


@pytest.mark.parametrize("allowed", [2**20, pytest.param(2**25, marks=pytest.mark.slow)])
async def test_a_large_body_expands_a_hundred_times_at_most(
    library: Any, front: Any, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments pass no limit on what is kept, and cost time all the same."""
    assert responses._EXPANSION_ALLOWED == 2**25
    monkeypatch.setattr(responses, "_EXPANSION_ALLOWED", allowed)
    size = allowed + allowed // 4
    incompressible = Random(1).randbytes(1000).hex().encode()  # so a line with it expands some sixty times
    for start, more, error in ((b"", b"", ("max_expansion", 100)), (HI + STOP, incompressible, None)):
        sent = compressed(b":" + more + b"x" * 2**16 + b"\n\n", start, size)
        stream, _ = await answered(encoded(sent), library, front)
        assert (stream.error and (stream.error.limit, stream.error.value)) == error
        assert error or (stream.end == "finished" and 30 < size / len(sent) < 90)


@by_turns("encoding", ["identity, GZIP", "none", "utf-8", "null", "x-unheard-of", "gzip, none"])
async def test_one_encoding_is_read_and_one_that_no_client_decodes_is_none(
    library: Any, front: Any, encoding: str
) -> None:
    """`none` is a common way to keep a proxy from compressing a stream. Was once wrong: its body was refused."""
    for status, sent, end in ((200, HI + STOP + DONE, "finished"), (429, b'{"error":{"message":"slow"}}', "failed")):
        body = gzip.compress(sent) if "gzip" in encoding.lower() else sent
        stream, _ = await answered(encoded(body, encoding, status), library, front)
        assert stream.end == end
        assert stream.error is None or "slow" in str(stream.error)


def encoded_by_kin(encoding: str, asked: str | None) -> Any:
    """A response of a client of another make."""
    response: Any = Kin([HI + STOP + DONE])
    response.headers["Content-Encoding"] = encoding
    if asked is not None:
        response.request = SimpleNamespace(headers={"Accept-Encoding": asked})
    return response


def test_an_encoding_that_was_asked_for_is_read() -> None:
    for encoding, asked in (("br", "gzip, br;q=0.5"), ("zstd", "*"), ("zstd", None), ("gzip", "identity")):
        assert ChatCompletionStream(encoded_by_kin(encoding, asked)).read().text == "Hi"
    with pytest.raises(LimitExceededError):
        ChatCompletionStream(encoded_by_kin("zstd", "gzip")).read()


class Iterated:
    """A response of requests: an iterable with a status and headers."""

    status_code = 200

    def __init__(self, encoding: str) -> None:
        self.headers = {"Content-Encoding": encoding}
        self.request = SimpleNamespace(headers={"Accept-Encoding": "gzip, deflate"})

    def __iter__(self) -> Iterator[bytes]:
        yield pytest.fail("it was read")


@each_case("encoding", ENCODINGS)
def test_the_same_holds_for_other_clients(encoding: str) -> None:
    with pytest.raises(LimitExceededError) as caught:
        ChatCompletionStream(Iterated(encoding)).read()
    assert (caught.value.value, str(caught.value)) == ENCODINGS[encoding]


def test_headers_that_are_passed_are_those_of_the_body() -> None:
    headers = {"content-encoding": "gzip, br"}
    for stream in (
        ChatCompletionStream([HI], headers=headers),
        AsyncChatCompletionStream(Pieces([HI]), headers=headers),
    ):
        assert (type(stream.error), stream.error.value) == (LimitExceededError, 1)
    assert (
        ChatCompletionStream(encoded_by_kin("gzip, br", None), headers={}).error.value == 1
    )  # those of the response, too
    refused = ChatCompletionParser(headers=headers, status_code=429)
    refused.feed(b'{"error":{"message":"slow"}}')
    refused.close()
    assert str(refused.error) == "HTTP 429: slow"
    parser = ChatCompletionParser(headers=headers)
    assert parser.feed(HI) == []
    assert_named(parser, "max_content_encodings", 1)
    assert ChatCompletionStream([HI + STOP], headers={"content-encoding": "br"}).read().text == "Hi"
