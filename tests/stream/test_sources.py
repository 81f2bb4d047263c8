"""What a stream can be read from: any iterable of bytes, any response with the methods that are needed."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, ClassVar

import httpx
import httpx2
import pytest
from cases import each_case
from fronts import generators_of_httpx_are_not_ours, over_both_streams
from sources import HELLO, HI, STOP, WHOLE, Kin, source

from chunkfold import APIStatusError, AsyncChatCompletionStream, ChatCompletionStream, StreamInterruptedError

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams


class StartingOver:
    """An iterator that begins again whenever it is asked for an iterator."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        self.left = [*self.pieces]
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        return self.left.pop(0)


class Bare:
    """Its iterator can only go on."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Any:
        left = iter(self.pieces)
        return type("Reads", (), {"__next__": lambda _: next(left)})()


@pytest.mark.parametrize("kind", [StartingOver, Bare])
def test_a_source_is_asked_for_its_iterator_once(kind: Callable[[list[bytes]], Iterable[bytes]]) -> None:
    stream = ChatCompletionStream(kind(WHOLE))
    assert [next(stream).text for _ in WHOLE[:3]] == ["", "Hello", " wor"]
    assert stream.read().text == "Hello world"


@pytest.mark.parametrize("encoding", ["gzip", "x-zip"])
@pytest.mark.parametrize("library", [httpx, httpx2])
def test_an_encoded_response_without_a_request(library: Any, encoding: str) -> None:
    body = b"".join(WHOLE)
    sent = gzip.compress(body) if encoding == "gzip" else body
    response = library.Response(200, headers={"content-encoding": encoding}, content=iter([sent]))
    assert ChatCompletionStream(response).read().text == "Hello world"


async def test_any_response_with_these_methods(front: Any) -> None:
    response = Kin(WHOLE)
    async with front(response) as stream:
        assert (await stream.read()).text == "Hello world"
    assert (stream.response, stream.request_id) == (response, "r1")
    assert response.closings == 1
    refused = front(Kin([b'{"error":{"message":"no"}}'], status_code=401))
    with pytest.raises(APIStatusError) as caught:
        await refused.read()
    assert (caught.value.status_code, caught.value.request_id) == (401, "r1")


class Failing(Kin):
    """A client whose methods raise when they are called, such as one that was read already."""

    def iter_bytes(self) -> Any:
        raise OSError("broken")

    aiter_bytes = __iter__ = __aiter__ = iter_bytes


class FailingIterable(Failing):
    """The same without the methods of httpx, such as that of requests."""

    iter_bytes = aiter_bytes = property()


@each_case("kind", [Failing, FailingIterable])
def test_a_source_that_raises_as_it_is_opened_is_a_broken_transport(kind: type[Kin]) -> None:
    response = kind([])
    with ChatCompletionStream(response) as stream, pytest.raises(StreamInterruptedError) as caught:
        list(stream)
    assert (str(caught.value.__cause__), stream.end) == ("broken", "interrupted")
    assert response.closings == 1 or kind is FailingIterable


@each_case("kind", [Failing, FailingIterable])
async def test_so_it_is_for_async_clients(kind: type[Kin]) -> None:
    response = kind([])
    with pytest.raises(StreamInterruptedError):
        async with AsyncChatCompletionStream(response) as stream:  # type: ignore[arg-type, unused-ignore]
            await stream.read()
    assert response.closings == 1 or kind is FailingIterable


def test_reads_of_the_other_kind_are_a_wrong_source() -> None:
    class Crossed(Kin):
        iter_bytes = Kin.aiter_bytes  # type: ignore[assignment]
        aiter_bytes = Kin.iter_bytes  # type: ignore[assignment]

    for kind, method in ((ChatCompletionStream, "iter_bytes"), (AsyncChatCompletionStream, "aiter_bytes")):
        with pytest.raises(TypeError, match=rf"^source: expected {method}\(\) for {kind.__name__}, received"):
            kind(Crossed([HI]))  # type: ignore[arg-type]


async def test_status_and_headers_beside_a_plain_iterable(front: Any) -> None:
    """As with requests or aiohttp, whose responses have no `iter_bytes`."""
    stream = front(source(front, [b"slow down"]), status_code=429, headers={"Retry-After": "3"})
    with pytest.raises(APIStatusError) as caught:
        await stream.read()
    assert (caught.value.status_code, caught.value.retry_after) == (429, 3.0)


def test_an_iterable_with_a_status_and_headers_is_read_with_them() -> None:
    """As a response of requests, which was passed itself; options that are passed come first."""

    class Response:
        status_code = 429
        headers: ClassVar = {"Retry-After": "3", "x-request-id": "r1"}

        def __iter__(self) -> Iterator[bytes]:
            yield b"slow down"

    with pytest.raises(APIStatusError) as caught:
        ChatCompletionStream(Response()).read()
    error = caught.value
    assert (error.status_code, error.retry_after, error.request_id, error.retryable) == (429, 3.0, "r1", True)
    with pytest.raises(APIStatusError) as caught:
        ChatCompletionStream(Response(), status_code=401).read()
    assert (caught.value.status_code, caught.value.retry_after) == (401, 3.0)


@pytest.mark.parametrize("status_code", ["429", None, pytest])
def test_a_status_of_another_type_is_none(status_code: Any) -> None:
    class Source(list[bytes]):
        headers = 5

    source = Source([HI, STOP])
    source.status_code = status_code  # type: ignore[attr-defined]
    assert ChatCompletionStream(source).read().text == "Hi"


@each_case("body", [b"data: x", bytearray(b"data: x"), "data: x", memoryview(b"data: x"), None, 5, object()])
def test_what_is_no_source(body: Any) -> None:
    received = type(body).__name__ if isinstance(body, bytes | bytearray | str) else ""
    hint = r": pass a whole body as \[body\]$" if isinstance(body, bytes | bytearray) else ""
    with pytest.raises(
        TypeError, match=f"^source: expected a response or an iterable of bytes, received {received}{hint}"
    ):
        ChatCompletionStream(body)
    expected = "source: expected an async response or async iterable of bytes, received"
    with pytest.raises(TypeError, match=f"^{expected} {received}"):
        AsyncChatCompletionStream(body)


def test_a_response_has_a_status_and_headers() -> None:
    class Body:
        def iter_bytes(self) -> Iterator[bytes]:
            return iter([HI])

    class WithStatus(Body):
        status_code = 200

    with pytest.raises(TypeError, match=r"expected a response with status_code and headers, received Body$"):
        ChatCompletionStream(Body())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a response with headers, received WithStatus$"):
        ChatCompletionStream(WithStatus())  # type: ignore[arg-type]


def test_a_source_of_the_other_kind_is_refused_at_once(library: Any) -> None:
    """Otherwise it fails at the first read as a transport does, which is retried."""

    class Body(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            yield HELLO

    class AsyncBody(library.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield HELLO

    with pytest.raises(TypeError, match=r"received the Response of an async client$"):
        ChatCompletionStream(library.Response(200, stream=AsyncBody()))
    with pytest.raises(TypeError, match=r"received the Response of a sync client$"):
        AsyncChatCompletionStream(library.Response(200, stream=Body()))
    response = library.Response(200, stream=AsyncBody())
    asyncio.run(response.aread())
    assert ChatCompletionStream(response).__next__().text == "Hello"
    with pytest.raises(TypeError, match=r"received list$"):
        AsyncChatCompletionStream([HELLO])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"received AsyncBody$"):
        ChatCompletionStream(AsyncBody())


@pytest.mark.parametrize("kind", [bytearray, memoryview])
@pytest.mark.parametrize("repeats", [1, 500], ids=["small", "large"])
def test_other_kinds_of_bytes(kind: type, repeats: int) -> None:
    pieces = [kind(HI * repeats), kind(STOP)]
    assert [chunk.text for chunk in ChatCompletionStream(pieces)] == ["Hi"] * repeats + [""]
    assert ChatCompletionStream(pieces).read().text == "Hi" * repeats
