"""A recorder is the response: what it records, reads on and hands on, and leaving it."""

import copy
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from fronts import (
    LIBRARIES,
    PATIENCE,
    Sync,
    connections_in_use,
    each_library,
    generators_of_httpx_are_not_ours,
    over_both_streams,
    raw_client_of,
    send,
    text_of,
)
from made_streams import STOP, Stream
from recorded_streams import (
    HELLO,
    HTML,
    WHOLE,
    WORLD,
    Failing,
    Live,
    Steps,
    read_to_its_end,
    slow_response,
    stored,
    told,
)

from chunkfold import AsyncChatCompletionStream, ChatCompletionStream, StreamEnd, StreamInterruptedError
from chunkfold.recording import RecordedRead, Recorder, Recording, replay
from chunkfold.testing import Answer, FakeProvider, FakeResponse, ManualClock, bytewise, cut

pytest_generate_tests = over_both_streams
library = each_library
pytestmark = generators_of_httpx_are_not_ours


# What is recorded


def test_reads_are_kept_as_they_came() -> None:
    clock = ManualClock(1000.0)
    pieces = [HELLO[:9], HELLO[9:], *bytewise("é".encode())]
    recorder = Recorder(slow_response(Stream(pieces), [1, 2, 4, 1, 8], clock), clock=clock)
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    assert recorder.recording == Recording((), headers=headers, end="left")
    assert list(recorder.iter_bytes()) == pieces
    reads = tuple(map(RecordedRead, (0.25, 0.75, 1.75, 2.0), pieces))
    assert recorder.recording == Recording(reads, headers=headers, end="body", ended_at=4.0)
    assert recorder.recording.body == b"".join(pieces)
    assert stored(recorder.recording) == recorder.recording


def test_bytes_that_the_transport_uses_again_are_copied_and_a_read_without_any_is_kept() -> None:
    buffer = bytearray(HELLO)
    recorder = Recorder(Steps(buffer, b"", memoryview(buffer)))
    list(recorder.iter_bytes())
    buffer[:] = b"x" * len(buffer)
    assert [read.data for read in recorder.recording.reads] == [HELLO, b"", HELLO]


@asynccontextmanager
async def recorded(library: Any, front: Any, answer: Answer) -> AsyncIterator[Recorder]:
    """A recorder of an answer, which lets go of its connection."""
    with FakeProvider(answer) as provider:
        async with raw_client_of(front, library) as client:
            yield Recorder(await send(client, provider.url))
            assert connections_in_use(client) == []


async def test_status_url_and_headers_that_say_something(library: Any, front: Any) -> None:
    headers = {"X-Request-ID": "req_1", "retry-after": "2", "x-ratelimit-remaining-tokens": "99", "x-other": "1", "set-cookie": "a=1"}  # fmt: skip
    with FakeProvider(Answer(HELLO, 503, headers)) as provider:
        async with raw_client_of(front, library) as client:
            live = await read_to_its_end(front, Recorder(await send(client, f"{provider.url}?a=b#c")))
        recorded = live.recorder.recording
        assert recorded.url == provider.url
    assert recorded.status_code == 503
    assert recorded.headers == {
        "content-type": "text/event-stream; charset=utf-8",
        "retry-after": "2",
        "x-ratelimit-remaining-tokens": "99",
        "x-request-id": "req_1",
    }


def test_without_a_request() -> None:
    for package in LIBRARIES.values():
        recorder = Recorder(package.Response(200, content=HELLO))
        assert list(recorder.iter_bytes()) == [HELLO]
        assert (recorder.recording.url, recorder.recording.body) == ("", HELLO)


def test_the_clock_must_be_the_one_that_said_when_it_started() -> None:
    with pytest.raises(ValueError, match="started: expected at most"):
        Recorder(Steps(), started=time.time() + 1e6)


def test_a_clock_that_is_set_back_leaves_a_recording_that_can_be_read() -> None:
    readings = iter([5.0, 7.0, 2.0, 8.0, 1.0])
    recorder = Recorder(
        httpx.Response(200, content=iter([HELLO, WORLD, STOP])), started=4.0, clock=lambda: next(readings)
    )
    list(recorder.iter_bytes())
    recording = recorder.recording
    assert (recording.headers_at, [read.at for read in recording.reads], recording.ended_at) == (
        1.0,
        [3.0, 3.0, 4.0],
        4.0,
    )
    assert Recording.loads(recording.dumps()) == recording


# A recorder is the response


async def test_without_with(library: Any, front: Any) -> None:
    async with recorded(library, front, Answer(WHOLE)) as recorder:
        assert (recorder.is_closed, recorder.http_version) == (False, "HTTP/1.1")
        assert recorder.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert await text_of(front(recorder)) == "Hello world"
        recorder.close() if front is Sync else await recorder.aclose()
        assert recorder.is_closed
    assert replay(recorder.recording).completion().text == "Hello world"


async def test_what_is_read_whole_is_recorded_as_one_read(library: Any, front: Any) -> None:
    async with recorded(library, front, Answer(cut(HTML, 5, 20), 502)) as recorder:
        for _ in range(2):
            assert (recorder.read() if front is Sync else await recorder.aread()) == HTML
        assert recorder.text == HTML.decode()
    assert ([read.data for read in recorder.recording.reads], recorder.recording.end) == ([HTML], "body")


async def test_reading_whole_fails(library: Any, front: Any) -> None:
    async with recorded(library, front, Answer([HELLO], ending="cut")) as recorder:
        with pytest.raises(library.RemoteProtocolError):
            recorder.read() if front is Sync else await recorder.aread()
    assert (recorder.recording.end, recorder.recording.error) == ("error", "RemoteProtocolError")


def test_reading_whole_what_was_read_already_records_nothing_twice() -> None:
    recorder = Recorder(httpx.Response(200, content=HELLO))
    list(recorder.iter_bytes())
    assert recorder.read() == HELLO
    assert recorder.recording.body == HELLO


def test_options_of_the_response_are_handed_on() -> None:
    recorder = Recorder(httpx.Response(200, content=HELLO))
    pieces = cut(HELLO, *range(50, len(HELLO), 50))
    assert list(recorder.iter_bytes(chunk_size=50)) == pieces
    assert [read.data for read in recorder.recording.reads] == pieces


def test_a_copy_is_a_recorder() -> None:
    response = httpx.Response(418)
    assert copy.copy(Recorder(response)).status_code == 418
    with pytest.raises(AttributeError, match="nothing"):
        _ = Recorder(response).nothing


@pytest.mark.parametrize(
    ("response", "options", "message"),
    [
        (None, {}, "response: expected a response of httpx or httpx2, received NoneType"),
        ([HELLO], {}, "response: expected a response of httpx or httpx2, received list"),
        (httpx.Response(200), {"secrets": "secret"}, "secrets: expected several strings, received one.*"),
        (httpx.Response(200), {"secrets": [b"secret"]}, "secrets: expected strings, received one of type bytes"),
        (httpx.Response(200), {"secrets": b"secret"}, "secrets: expected strings, received one of type int"),
        (httpx.Response(200), {"clock": 5}, "clock: expected a callable, received 5"),
        (httpx.Response(200), {"started": "now"}, "started: expected a reading of the clock or None, received 'now'"),
    ],
)
def test_a_wrong_argument_of_a_recorder(response: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        Recorder(response, **options)


class Disguised:
    """A response that tells of another request."""

    def __init__(self, response: httpx.Response, url: str, headers: dict[str, str]) -> None:
        self.response = response
        self.request = type("Request", (), {"url": url, "headers": headers})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://[bad", {}),
        ("http://user:half/of-a-password@a.example/", {}),
        ("no url", {}),
        ("https://a.example/?=&a=", {}),
        ("", {"authorization": "Basic !!!"}),
        ("", {"authorization": "Basic /w=="}),
        ("", {"cookie": "", "x": "="}),
    ],
)
def test_what_is_no_url_and_no_header_is_no_trouble(url: str, headers: dict[str, str]) -> None:
    response = httpx.Response(200, content=HELLO)
    recorder = Recorder(Disguised(response, url, headers))
    list(recorder.iter_bytes())
    assert recorder.recording.body == HELLO
    assert recorder.recording.url in ("", "https://a.example/")


def test_a_repr_shows_the_response() -> None:
    assert repr(Recorder(FakeResponse(b""))) == "<Recorder of <FakeResponse [200]>>"


# Leaving


async def test_leaving_early(library: Any, front: Any) -> None:
    async with recorded(library, front, Answer([HELLO, math.inf])) as recorder:
        live = Live(recorder, front(recorder))
        async with live.stream as stream:
            assert (await anext(aiter(stream))).text == "Hello"
        assert live.stream.end is StreamEnd.CLOSED
        assert recorder.is_closed
    assert (live.stored.end, live.stored.error, live.stored.body) == ("left", "", HELLO)
    assert live.stored.ended_at is not None
    assert told(replay(live.stored)) == told(live.stream)


@pytest.mark.parametrize("reads_on", [False, True])
async def test_cancelling(library: Any, anyio_backend_name: str, reads_on: bool) -> None:
    async with recorded(library, AsyncChatCompletionStream, Answer([HELLO, math.inf])) as recorder:
        live = Live(recorder, AsyncChatCompletionStream(recorder))
        async with live.stream as stream:
            with anyio.move_on_after(PATIENCE) as scope:
                async for chunk in stream:
                    live.chunks.append(chunk)
                    scope.deadline = anyio.current_time() + 0.02
            assert scope.cancelled_caught
            if reads_on:
                with pytest.raises(StreamInterruptedError):
                    await stream.read()
        assert recorder.is_closed
    cancelled = {"asyncio": "CancelledError", "trio": "Cancelled"}[anyio_backend_name]
    assert (live.stored.end, live.stored.error) == (("error", cancelled) if reads_on else ("left", ""))
    assert told(replay(live.stored)) == told(live.stream)


def test_a_sync_read_that_is_left_half_done() -> None:
    recorder = Recorder(Failing(HELLO, KeyboardInterrupt()))
    stream = ChatCompletionStream(recorder)
    assert next(stream).text == "Hello"
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    assert recorder.recording.end == "left"
    with pytest.raises(StreamInterruptedError):
        next(stream)
    assert (recorder.recording.end, recorder.recording.error) == ("error", "KeyboardInterrupt")
    assert told(replay(recorder.recording)) == told(stream)


async def test_a_source_that_survives_a_read_left_half_done(front: Any) -> None:
    recorder = Recorder(Steps(HELLO, KeyboardInterrupt(), STOP, HELLO[:20]))
    stream = front(recorder)
    with pytest.raises(KeyboardInterrupt):
        await stream.read()
    assert (await stream.read()).text == "Hello"
    assert recorder.recording.end == "body"
    assert told(replay(recorder.recording)) == told(stream)


async def test_another_task_closes(library: Any, anyio_backend: Any) -> None:
    async with recorded(library, AsyncChatCompletionStream, Answer([HELLO, math.inf])) as recorder:
        live = Live(recorder, AsyncChatCompletionStream(recorder))

        async def consume() -> None:
            live.chunks.extend([chunk async for chunk in live.stream])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                while not live.stream.snapshot.text:
                    await anyio.lowlevel.checkpoint()
                await live.stream.aclose()
    assert [chunk.text for chunk in live.chunks] == ["Hello"]
    assert live.stream.end is StreamEnd.CLOSED
    assert told(replay(live.stored)) == told(live.stream)


def test_of_a_response_that_was_closed_nothing_more_is_taken_neither_reads_nor_errors() -> None:
    recorder = Recorder(FakeResponse(Answer([HELLO, WORLD], ending="reset")))
    reads = recorder.iter_bytes()
    next(reads)
    recorder.close()
    assert next(reads) == WORLD
    with pytest.raises(ConnectionError):
        next(reads)
    recorded = recorder.recording
    assert (recorded.body, recorded.end, recorded.error) == (HELLO, "left", "")
