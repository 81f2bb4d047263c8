"""Answers without a server: what a client sees of them is what it would see of a socket.

One answer is read three ways: as a `FakeResponse`, through respx, and through a mocked transport of httpx and httpx2,
sync and async. Pauses move a clock by hand, so that times are exact. Where a real server could say otherwise, a
`FakeProvider` is asked the same.
"""

import asyncio
import gzip
import math
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest
import respx
from cases import each_case
from fronts import ASKED, Sync, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts
from own_process import loaded_by

from chunkfold import (
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletionStream,
    IncompleteStreamError,
    StreamInterruptedError,
    connect,
)
from chunkfold.testing import (
    Answer,
    FakeProvider,
    FakeResponse,
    ManualClock,
    Raw,
    StreamBuilder,
    bytewise,
    cut,
    json_answer,
    mock_response,
    mock_transport,
    stalled,
)

pytest_generate_tests = over_both_fronts
library = each_library

pytestmark = generators_of_httpx_are_not_ours

URL = "http://provider.example/v1/chat/completions"
HELLO = StreamBuilder().text("Hel", "lo").finish().done()
CUT = len(b"".join(HELLO.events[:3])) + 20  # inside of the chunk with the finish reason
READS = cut(HELLO.body, 1, 17, 200, -3)
OVERLOADED = json_answer({"error": {"message": "later", "code": "busy"}}, 429, {"Retry-After": "2"})

FAULTS: dict[str, tuple[Answer, str]] = {
    "cut": (HELLO.answer(ending="cut", cut_at=CUT), "RemoteProtocolError"),
    "reset": (HELLO.answer(ending="reset", cut_at=CUT), "ReadError"),
    "silence": (Answer(stalled(HELLO, 2)), "ReadTimeout"),
    "open": (HELLO.answer(ending="open", cut_at=CUT), "ReadTimeout"),
}


over_both = pytest.mark.parametrize("of", [Sync, AsyncChatCompletionStream], ids=["sync", "async"])


def mocked(front: Any, library: ModuleType, *answers: Any, **options: Any) -> AbstractAsyncContextManager[Any]:
    return client_of(front, library, transport=mock_transport(*answers, library=library, **options))


async def read(client: Any, **options: Any) -> tuple[Any, str]:
    async with client.connect(URL, **options) as stream:
        text = "".join([chunk.text async for chunk in stream])
    return stream, text


# A response


@pytest.mark.parametrize("answer", [HELLO, HELLO.body, HELLO.events, HELLO.answer(), Answer(READS)])
def test_a_response_says_what_was_said(answer: Any) -> None:
    response = FakeResponse(answer)
    assert response.read() == response.read() == asyncio.run(response.aread()) == HELLO.body
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    stream = ChatCompletionStream(FakeResponse(answer))
    assert (stream.read().text, stream.end) == ("Hello", "finished")


@each_case("encoding", ["identity", "gzip", "deflate"])
@each_case("pieces", [HELLO.events, READS, bytewise(HELLO.body)], ids=["events", "cut", "byte by byte"])
async def test_reads_are_as_the_pieces_are(encoding: Any, pieces: list[bytes]) -> None:
    response = FakeResponse(Answer([b"", *pieces, b""], encoding=encoding))
    assert response.headers.get("content-encoding", "identity") == encoding
    assert list(response.iter_bytes()) == pieces
    assert [data async for data in response.aiter_bytes()] == pieces


@over_both
@pytest.mark.parametrize(
    ("ending", "error"), [("cut", ConnectionAbortedError), ("reset", ConnectionResetError), ("open", TimeoutError)]
)
async def test_faults_are_the_systems_own(of: Any, ending: Any, error: type[Exception]) -> None:
    stream = of(FakeResponse(HELLO.answer(ending=ending, cut_at=CUT)))
    with pytest.raises(StreamInterruptedError) as caught:
        await stream.read()
    assert isinstance(caught.value.__cause__, error)
    assert stream.snapshot.text == "Hello"


SOCKETS_ONLY = "answer: expected one with a framing and without Raw"
PROVIDERS_ONLY = "answer: expected one without trailers and interim, which only a FakeProvid"
NO_ANSWER = "answer: expected an Answer, a StreamBuilder, bytes or a list of them, received str"


@each_case("play", [FakeResponse, mock_response, mock_transport], ids=lambda play: play.__name__)
@each_case(
    ("answer", "message"),
    [
        (Answer([Raw(b"x")]), SOCKETS_ONLY),
        (Answer(b"x", framing="raw"), SOCKETS_ONLY),
        (Answer(b"x", trailers={"x-cost": "1"}), PROVIDERS_ONLY),
        (Answer(b"x", interim=[103]), PROVIDERS_ONLY),
        ("data: [DONE]", NO_ANSWER),
    ],
)
def test_what_cannot_be_played_is_refused(play: Callable[[Any], Any], answer: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        play(answer)


def test_a_cut_that_http_cannot_see_is_none() -> None:
    stream = ChatCompletionStream(FakeResponse(HELLO.answer(ending="cut", cut_at=CUT, framing="close")))
    with pytest.raises(IncompleteStreamError) as caught:
        stream.read()
    assert not isinstance(caught.value, StreamInterruptedError)


@pytest.mark.parametrize("ending", ["cut", "reset", "open"])
@pytest.mark.parametrize(
    "answer",
    [Answer([], 204), Answer(HELLO.body, framing="content-length", cut_at=len(HELLO.body))],
    ids=["no body", "a body of its declared length"],
)
def test_a_fault_after_the_whole_body_is_none(answer: Answer, ending: Any) -> None:
    answer = replace(answer, ending=ending)
    assert FakeResponse(answer).read() == b"".join(piece for piece in answer.pieces if isinstance(piece, bytes))
    if ending != "reset":  # which can cost a real client some of the body
        with FakeProvider(answer) as provider, httpx.Client() as client:
            assert client.get(provider.url).content == FakeResponse(answer).read()


# Times


TIMES = [("", 2.0), ("Hel", 2.25), ("lo", 2.5), ("", 2.75)]


@over_both
async def test_times_are_exactly_those_of_the_pauses(of: Any) -> None:
    clock = ManualClock(100.0)
    response = FakeResponse(HELLO.answer(first=2.0, pace=0.25), clock=clock)
    async with of(response, clock=clock) as stream:
        assert [(chunk.text, clock() - 100.0) async for chunk in stream] == TIMES
        assert not response.is_closed
    timing = stream.timing
    assert (timing.first_byte, timing.first_chunk, timing.first_output) == (2.0, 2.0, 2.25)
    assert response.is_closed


@over_both
async def test_without_a_clock_it_waits_for_real(of: Any) -> None:
    started = time.monotonic()
    assert (await of(FakeResponse(Answer([0.02, *HELLO.events]))).read()).text == "Hello"
    assert time.monotonic() - started >= 0.02  # at least: a busy machine only takes longer


@pytest.mark.parametrize(
    ("pause", "read_timeout", "waited"),
    [(9.9, 10.0, 9.9), (10.0, 10.0, None), (11.0, 10.0, None), (math.inf, 10.0, None), (1e9, None, 1e9)],
)
def test_a_pause_as_long_as_the_patience_is_a_timeout(
    pause: float, read_timeout: float | None, waited: float | None
) -> None:
    clock = ManualClock()
    answer = Answer([HELLO.events[0], pause, *HELLO.events[1:]])
    stream = ChatCompletionStream(FakeResponse(answer, clock=clock, read_timeout=read_timeout), clock=clock)
    if waited is None:
        with pytest.raises(StreamInterruptedError) as caught:
            stream.read()
        assert isinstance(caught.value.__cause__, TimeoutError)
    else:
        stream.read()
    assert clock() == (read_timeout if waited is None else waited)


# Clients


@each_case(
    ("body", "encoding"),
    [(gzip.compress(HELLO.body), "gzip"), (zlib.compress(HELLO.body), "Deflate"), (HELLO.body, "identity")],
)
def test_a_body_compressed_by_the_test_is_decoded(body: bytes, encoding: str) -> None:
    """As a client of a real server does: it knows the header alone."""
    answer = Answer(body, headers={"Content-Encoding": encoding})
    with FakeProvider(answer) as provider:
        assert httpx.get(provider.url).content == FakeResponse(answer).read() == HELLO.body


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate"])
async def test_a_client_is_answered(front: Any, library: ModuleType, encoding: Any) -> None:
    async with mocked(front, library, HELLO.answer(encoding=encoding)) as client:
        stream, text = await read(client)
    assert (text, stream.end) == ("Hello", "finished")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_the_clients_own_exception(front: Any, library: ModuleType, fault: str) -> None:
    answer, name = FAULTS[fault]
    async with mocked(front, library, answer, clock=ManualClock()) as client, client.connect(URL) as stream:
        with pytest.raises(StreamInterruptedError) as caught:
            async for _ in stream:
                pass
    cause = caught.value.__cause__
    assert type(cause) is getattr(library, name)
    assert str(cause.request.url) == URL
    assert stream.snapshot.text == ("Hel" if fault == "silence" else "Hello")
    assert stream.end == "interrupted"


async def test_the_patience_is_that_of_the_request(front: Any, library: ModuleType) -> None:
    clock = ManualClock()
    async with mocked(front, library, Answer(stalled(HELLO, 2, 8.0)), clock=clock) as client:
        _, text = await read(client, timeout=library.Timeout(5.0, read=10.0))
        assert (text, clock()) == ("Hello", 8.0)
        async with client.connect(URL, timeout=library.Timeout(5.0, read=7.0)) as stream:
            with pytest.raises(StreamInterruptedError):
                async for _ in stream:
                    pass
    assert clock() == 15.0


async def test_a_status_is_the_clients_answer(front: Any, library: ModuleType) -> None:
    async with mocked(front, library, OVERLOADED, HELLO) as client:
        async with client.connect(URL) as stream:
            with pytest.raises(APIStatusError, match="later") as caught:
                async for _ in stream:
                    pass
        _, text = await read(client)
    assert (caught.value.retry_after, text) == (2.0, "Hello")


async def test_answers_come_one_after_the_other_and_the_last_one_again(front: Any, library: ModuleType) -> None:
    answers = [StreamBuilder().text(text).finish().done() for text in ("one", "two", "three")]
    async with mocked(front, library, *answers) as client:
        texts = [(await read(client))[1] for _ in range(5)]
    assert texts == ["one", "two", "three", "three", "three"]


def test_a_transport_needs_an_answer() -> None:
    with pytest.raises(ValueError, match="answers: expected one or more, received none"):
        mock_transport()


# respx


@respx.mock
def test_respx_gives_a_response_as_often_as_it_is_asked() -> None:
    route = respx.post(URL).mock(return_value=mock_response(Answer(READS)))
    with httpx.Client() as client:
        for _ in range(3):
            with client.stream("POST", URL) as response:
                assert list(response.iter_bytes()) == READS
        with connect(client, "POST", URL, json=ASKED) as stream:
            assert stream.read().text == "Hello"
    assert route.call_count == 4


@respx.mock
def test_respx_raises_faults_as_often_as_it_is_asked() -> None:
    answer, name = FAULTS["cut"]
    respx.post(URL).mock(return_value=mock_response(answer))
    with httpx.Client() as client:
        for _ in range(2):
            with connect(client, "POST", URL, json=ASKED) as stream, pytest.raises(StreamInterruptedError) as caught:
                stream.read()
            assert type(caught.value.__cause__) is getattr(httpx, name)


# Nothing that is not asked for


PLAYED = """
import asyncio
from chunkfold import AsyncChatCompletionStream, ChatCompletionStream
from chunkfold.testing import FakeResponse, ManualClock, StreamBuilder
answer = StreamBuilder().text("Hello").finish().done().answer(first=5.0)
assert ChatCompletionStream(FakeResponse(answer, clock=ManualClock())).read().text == "Hello"
assert asyncio.run(AsyncChatCompletionStream(FakeResponse(answer, clock=ManualClock())).read()).text == "Hello"
"""


def test_using_it_loads_no_client() -> None:
    hostile = "import chunkfold.testing.__main__; chunkfold.testing.hostile_streams()"
    loaded = loaded_by(f"from chunkfold.testing import *\n{hostile}\n{PLAYED}")
    assert "chunkfold.testing" in loaded
    clients = {"httpx", "httpx2", "respx", "openai", "langchain_openai", "litellm"}
    assert loaded.isdisjoint(clients | {"anyio", "hypothesis", "pytest"})


def test_an_answer_can_be_played_by_several_at_once() -> None:
    """Each iteration is one of its own."""
    response = mock_response(Answer(READS))
    first, second = iter(response.stream), iter(response.stream)
    assert [next(first), next(second), next(first)] == [READS[0], READS[0], READS[1]]


def test_a_pause_without_an_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    with httpx.Client(transport=mock_transport([b"data: 1", math.inf])) as client, pytest.raises(httpx.ReadTimeout):
        client.post(URL, timeout=60)
    assert waited == []


def test_a_transport_for_another_library_says_so() -> None:
    with (
        httpx2.Client(transport=mock_transport(HELLO)) as client,
        pytest.raises(TypeError, match="library: expected the client's, which is httpx2, received httpx"),
    ):
        client.post(URL)
