"""Recordings: what is stored, that a replay gives what was live, and that no secret gets into one.

A stream is read live through a `Recorder`, over both fronts and both libraries, from a real server; its recording is
written and read again, and what comes of that is held against what came live. What holds for every stream holds for the
hostile ones and for bodies that hypothesis makes, out of memory, with a clock that only the body moves. Secrets are marks that stand in every place of an
exchange and come back in its body, in every spelling, cut at every place.
"""

import base64
import copy
import html
import json
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote, quote_plus

import anyio
import anyio.lowlevel
import httpx
import pytest
from cases import each_case
from fronts import (
    LIBRARIES,
    PATIENCE,
    Sync,
    by_turns,
    connections_in_use,
    each_library,
    generators_of_httpx_are_not_ours,
    over_both_streams,
    raw_client_of,
    send,
    text_of,
)
from fronts import STREAMS as BOTH_STREAMS
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from made_streams import CUTS, STOP, STREAMS, Stream
from measured_memory import traced

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.recording import RecordedRead, RecordedTransportError, Recorder, Recording, recording, replay
from chunkfold.recording import format as recording_format
from chunkfold.recording.redaction import Redactor
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    FakeResponse,
    HostileStream,
    ManualClock,
    Raw,
    ReceivedRequest,
    StreamBuilder,
    bytewise,
    cut,
    cut_randomly,
    delta,
    hostile_streams,
    json_answer,
)

pytest_generate_tests = over_both_streams
library = each_library
pytestmark = generators_of_httpx_are_not_ours

SILENCE = 0.15  # seconds; the read timeout where one is to pass
HELLO = delta(content="Hello")
WORLD = delta(content=" world")
WHOLE = [HELLO, WORLD, STOP, DONE]


# What came, in a form that can be compared


def told(result: Any) -> dict[str, Any]:
    """What a stream, or a parser, says at its end; of the transport's error only that there was one."""
    error = result.error
    is_interrupted = isinstance(error, StreamInterruptedError)
    late_fault = r"(CF507: .* \(byte \d+): \w+\)"  # which names the type of what the transport raised
    fields = ("status_code", "code", "type", "param", "request_id", "retry_after", "retryable", "emitted_output")
    return {
        "end": result.end,
        "error": type(error),
        "message": is_interrupted or re.sub(late_fault, r"\1)", str(error)),
        "fields": {name: getattr(error, name, None) for name in fields},
        "snapshot": repr(result.snapshot.model_dump()),
        "anomalies": [(anomaly.rule.id, anomaly.count) for anomaly in result.anomalies],
    }


def told_timing(timing: Any) -> dict[str, Any]:
    names = ("first_byte", "first_chunk", "first_output", "last_chunk", "last_byte", "gaps")
    return {name: getattr(timing, name) for name in names}


def dumped(chunks: list[Any]) -> list[str]:
    return [repr(chunk.model_dump()) for chunk in chunks]


def stored(recorded: Recording) -> Recording:
    """As it is read from its file."""
    return Recording.loads(recorded.dumps())


# Live and again


@dataclass
class Live:
    """A stream that was read through a recorder."""

    recorder: Recorder
    stream: Any
    chunks: list[Any] = field(default_factory=list)

    @cached_property
    def stored(self) -> Recording:
        """What its recording's file holds, once it is over."""
        return stored(self.recorder.recording)


async def read_to_its_end(front: Any, source: Any, **options: Any) -> Live:
    live = Live(source, front(source, **options))
    async with live.stream as stream:
        try:
            async for chunk in stream:
                live.chunks.append(chunk)
        except ChunkfoldError:
            pass
    return live


async def check_replay(front: Any, live: Live) -> None:
    """The recording, replayed and read, gives what was live."""
    recorded = live.stored
    assert told(replay(recorded)) == told(live.stream)
    again = await read_to_its_end(front, recorded)
    assert dumped(again.chunks) == dumped(live.chunks)
    if live.stream.end.complete or recorded.end != "left":
        assert told(again.stream) == told(live.stream)
    if isinstance(live.stream.error, StreamInterruptedError):
        cause = replay(recorded).error.__cause__
        assert isinstance(cause, RecordedTransportError)
        assert str(cause) == recorded.error == type(live.stream.error.__cause__).__name__


async def test_every_hostile_stream_comes_again_as_it_came(front: Any) -> None:
    streams = hostile_streams(abuse=False)
    for number, hostile in enumerate(streams[::3] if front is AsyncChatCompletionStream else streams):
        await check_hostile(front, number, hostile)


@pytest.mark.slow
async def test_abuse_comes_again_as_it_came(front: Any) -> None:
    for number, hostile in enumerate(hostile_streams()):
        if hostile.cost is not None:
            await check_hostile(front, number, hostile)


async def check_hostile(front: Any, number: int, hostile: HostileStream) -> None:
    reads = cut_randomly(hostile.body, number, reads=12)  # anywhere in lines, events and characters
    live = await read_to_its_end(front, Recorder(FakeResponse(Answer(reads))))
    assert hostile.body.startswith(live.stored.body)
    await check_replay(front, live)


ERROR = {"error": {"message": "slow down", "code": "rate_limit_exceeded", "type": "requests", "param": "messages"}}
HINTS = {"x-request-id": "req_1", "retry-after-ms": "1500"}
HTML = b"<html><h1>502 Bad Gateway</h1></html>"
MOMENT = 0.03  # seconds in which the client reads what a reset could cost it


@dataclass(frozen=True)
class Fault:
    """An answer with a fault, and how the stream and the recording end."""

    answer: Answer
    end: StreamEnd
    recorded: str = "body"
    cause: str = ""


FAULTS = {
    "the connection is cut": Fault(
        Answer([HELLO], ending="cut"), StreamEnd.INTERRUPTED, "error", "RemoteProtocolError"
    ),
    "it is reset": Fault(Answer([HELLO, MOMENT], ending="reset"), StreamEnd.INTERRUPTED, "error", "ReadError"),
    "silence": Fault(Answer([HELLO], ending="open"), StreamEnd.INTERRUPTED, "error", "ReadTimeout"),
    "silence from the start": Fault(Answer([], ending="open"), StreamEnd.INTERRUPTED, "error", "ReadTimeout"),
    "a chunk with a bad size": Fault(
        Answer([HELLO, Raw(b"zz\r\n")], ending="cut"), StreamEnd.INTERRUPTED, "error", "RemoteProtocolError"
    ),
    "a reset after the finish reason": Fault(
        Answer([HELLO, STOP, MOMENT], ending="reset"), StreamEnd.FINISHED, "error", "ReadError"
    ),
    "no gzip": Fault(
        Answer([HELLO], headers={"content-encoding": "gzip"}), StreamEnd.INTERRUPTED, "error", "DecodingError"
    ),
    "gzip": Fault(Answer(WHOLE, encoding="gzip"), StreamEnd.FINISHED, "left"),
    "an error status": Fault(json_answer(ERROR, 429, HINTS), StreamEnd.FAILED),
    "an error status, cut": Fault(
        Answer([b'{"error":', MOMENT], 500, ending="cut"), StreamEnd.FAILED, "error", "RemoteProtocolError"
    ),
    "an error with status 200": Fault(json_answer(ERROR, 200, HINTS), StreamEnd.FAILED),
    "HTML": Fault(Answer(HTML, 502, {"content-type": "text/html"}), StreamEnd.FAILED),
    "HTML with status 200": Fault(Answer(HTML, headers={"content-type": "text/html"}), StreamEnd.INVALID),
    "no chunk": Fault(Answer([HELLO, b"data: oops\n\n", WORLD]), StreamEnd.INVALID, "left"),
    "too little": Fault(Answer([HELLO]), StreamEnd.TRUNCATED),
    "nothing": Fault(Answer([]), StreamEnd.EMPTY),
    "no [DONE]": Fault(Answer([HELLO, STOP]), StreamEnd.FINISHED),
}


@by_turns("name", FAULTS, BOTH_STREAMS)
async def test_faults_come_again_as_they_came(name: str, library: Any, front: Any) -> None:
    fault = FAULTS[name]
    with FakeProvider(fault.answer) as provider:
        timeout = library.Timeout(PATIENCE, read=SILENCE if fault.answer.ending == "open" else PATIENCE)
        async with raw_client_of(front, library, timeout=timeout) as client:
            live = await read_to_its_end(front, Recorder(await send(client, provider.url)))
            assert connections_in_use(client) == []
    assert live.stream.end is fault.end
    recorded = live.recorder.recording
    assert (recorded.end, recorded.error) == (fault.recorded, fault.cause)
    await check_replay(front, live)


def slow_response(stream: Stream, quarters: list[int], clock: ManualClock) -> FakeResponse:
    """A response whose body takes its time: a quarter of a second, or many, before each read and before the end."""
    pauses = [quarter / 4 for quarter in [*quarters, *[0] * len(stream.pieces)]]
    body = [step for pause, piece in zip(pauses, stream.pieces, strict=False) for step in (pause, piece)]
    ending = "reset" if stream.is_reset else "end"
    return FakeResponse(Answer([*body, *pauses[len(stream.pieces) :][:1]], ending=ending), clock=clock)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "strict": st.booleans(),
        "max_output_size": st.integers(0, 20),
        "progress_timeout": st.sampled_from([0.5, 1.0, 30.0]),
        "total_timeout": st.sampled_from([0.5, 2.0, 30.0]),
    },
)


@given(stream=STREAMS, cuts=CUTS, quarters=st.lists(st.integers(0, 9), max_size=9), options=OPTIONS, left=st.none() | st.integers(0, 4))  # fmt: skip
@example(stream=Stream([STOP], is_reset=True), cuts=[], quarters=[], options={"strict": True}, left=None)
def test_every_stream_comes_again_as_it_came(
    stream: Stream, cuts: list[int], quarters: list[int], options: dict[str, Any], left: int | None
) -> None:
    clock = ManualClock(1000.0)
    started = clock() - 2
    recorder = Recorder(slow_response(stream.cut(cuts), quarters, clock), clock=clock, started=started)
    seen = []
    with ChatCompletionStream(recorder, clock=clock, started=started, **options) as live:
        taken: list[ChatCompletionChunk] = []
        try:
            for number, chunk in enumerate(live):
                taken.append(chunk)
                if number == left:
                    break
                seen.append(chunk)
        except ChunkfoldError:
            pass
    assert recorder.is_closed
    recorded = stored(recorder.recording)
    assert recorded == recorder.recording
    assert recorded.headers_at == 2.0
    replayed = replay(recorded, **options)
    if replayed.error is not None and left is not None:  # what was not taken was not emitted
        assert live.error is not None
        assert live.error.emitted_output is any(map(brings_output, taken))
        replayed.error.emitted_output = live.error.emitted_output
    assert told(replayed) == told(live)
    assert told_timing(replayed.timing) == told_timing(live.timing)
    assert replayed.timing.headers == 2.0
    chunks = dumped(list(chain.from_iterable(chunks_of(recorded, **options))))
    assert chunks[: len(seen)] == dumped(seen)
    assert left is not None or len(chunks) == len(seen)


def brings_output(chunk: ChatCompletionChunk) -> bool:
    accumulator = ChatCompletionAccumulator()
    accumulator.add(chunk)
    return accumulator.has_output


def chunks_of(recorded: Recording, **options: Any) -> Iterator[list[Any]]:
    """The chunks of each read, and of the end."""
    parser = ChatCompletionParser(
        status_code=recorded.status_code, started=0.0, clock=lambda: recorded.seconds, **options
    )
    for read in recorded.reads:
        yield parser.feed(read.data, arrived=read.at)
    yield parser.close() if recorded.end == "body" else parser.interrupt(ConnectionError())


@pytest.mark.parametrize(("is_reset", "error"), [(False, IncompleteStreamError), (True, StreamInterruptedError)])
def test_a_chunk_that_only_the_end_completes_comes_at_the_end(is_reset: bool, error: type[ChunkfoldError]) -> None:
    clock = ManualClock(1000.0)
    recorder = Recorder(slow_response(Stream([HELLO.rstrip()], is_reset), [4, 8], clock), clock=clock)
    with ChatCompletionStream(recorder, clock=clock) as live:
        assert next(live).text == "Hello"
        with pytest.raises(error):
            next(live)
    assert told_timing(replay(stored(recorder.recording)).timing) == told_timing(live.timing)


def test_the_events_come_again_too() -> None:
    recorded = Recorder(FakeResponse(Answer(WHOLE)))
    live = list(ChatCompletionStream(recorded).events())
    assert list(ChatCompletionStream(recorded.recording).events()) == live
    assert len(live) > 2


# What is recorded


class Steps:
    """A response of these reads, of which exceptions are raised; it goes on behind them."""

    status_code = 200
    headers: ClassVar = {"content-type": "text/event-stream"}
    is_closed = False

    def __init__(self, *steps: Any) -> None:
        self.steps = iter(steps)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        step = next(self.steps)
        if isinstance(step, BaseException):
            raise step
        return step

    async def __anext__(self) -> Any:
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def iter_bytes(self) -> Self:
        return self

    aiter_bytes = iter_bytes

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


class Failing(Steps):
    """A response that ends as soon as it raises, as a generator does."""

    def iter_bytes(self) -> Iterator[Any]:  # type: ignore[override]
        yield from self


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


def test_a_read_without_bytes_is_kept_too() -> None:
    recorder = Recorder(Steps(HELLO, b"", WORLD))
    list(recorder.iter_bytes())
    assert [read.data for read in recorder.recording.reads] == [HELLO, b"", WORLD]


def test_bytes_that_the_transport_uses_again_are_copied() -> None:
    buffer = bytearray(HELLO)
    recorder = Recorder(Steps(buffer, memoryview(buffer)))
    list(recorder.iter_bytes())
    buffer[:] = b"x" * len(buffer)
    assert recorder.recording.body == HELLO * 2


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


# A recorder is the response


async def test_without_with(library: Any, front: Any) -> None:
    with FakeProvider(Answer(WHOLE)) as provider:
        async with raw_client_of(front, library) as client:
            response = await send(client, provider.url)
            recorder = Recorder(response)
            assert (recorder.is_closed, recorder.http_version, recorder.headers) == (
                False,
                "HTTP/1.1",
                response.headers,
            )
            assert await text_of(front(recorder)) == "Hello world"
            recorder.close() if front is Sync else await recorder.aclose()
            assert response.is_closed
            assert recorder.is_closed
            assert connections_in_use(client) == []
    assert replay(recorder.recording).completion().text == "Hello world"


async def test_what_is_read_whole_is_recorded_as_one_read(library: Any, front: Any) -> None:
    with FakeProvider(Answer(cut(HTML, 5, 20), 502)) as provider:
        async with raw_client_of(front, library) as client:
            recorder = Recorder(await send(client, provider.url))
            for _ in range(2):
                assert (recorder.read() if front is Sync else await recorder.aread()) == HTML
            assert recorder.text == HTML.decode()
    recorded = recorder.recording
    assert ([read.data for read in recorded.reads], recorded.end) == ([HTML], "body")


async def test_reading_whole_fails(library: Any, front: Any) -> None:
    with FakeProvider(Answer([HELLO], ending="cut")) as provider:
        async with raw_client_of(front, library) as client:
            recorder = Recorder(await send(client, provider.url))
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


# Leaving


async def test_leaving_early(library: Any, front: Any) -> None:
    with FakeProvider(Answer([HELLO, math.inf])) as provider:
        async with raw_client_of(front, library) as client:
            recorder = Recorder(await send(client, provider.url))
            live = Live(recorder, front(recorder))
            async with live.stream as stream:
                assert (await anext(aiter(stream))).text == "Hello"
            assert live.stream.end is StreamEnd.CLOSED
            assert recorder.is_closed
            assert connections_in_use(client) == []
    recorded = live.stored
    assert (recorded.end, recorded.error, recorded.body) == ("left", "", HELLO)
    assert recorded.ended_at is not None
    assert told(replay(recorded)) == told(live.stream)


@pytest.mark.parametrize("reads_on", [False, True])
async def test_cancelling(library: Any, anyio_backend_name: str, reads_on: bool) -> None:
    with FakeProvider(Answer([HELLO, math.inf])) as provider:
        async with raw_client_of(AsyncChatCompletionStream, library) as client:
            recorder = Recorder(await send(client, provider.url))
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
            assert connections_in_use(client) == []
    recorded = live.stored
    cancelled = {"asyncio": "CancelledError", "trio": "Cancelled"}[anyio_backend_name]
    assert (recorded.end, recorded.error) == (("error", cancelled) if reads_on else ("left", ""))
    assert told(replay(recorded)) == told(live.stream)


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
    with FakeProvider(Answer([HELLO, math.inf])) as provider:
        async with raw_client_of(AsyncChatCompletionStream, library) as client:
            recorder = Recorder(await send(client, provider.url))
            live = Live(recorder, AsyncChatCompletionStream(recorder))

            async def consume() -> None:
                live.chunks.extend([chunk async for chunk in live.stream])

            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consume)
                    while not live.stream.snapshot.text:
                        await anyio.lowlevel.checkpoint()
                    await live.stream.aclose()
            assert connections_in_use(client) == []
    assert [chunk.text for chunk in live.chunks] == ["Hello"]
    assert live.stream.end is StreamEnd.CLOSED
    assert told(replay(live.stored)) == told(live.stream)


def test_what_a_transport_raises_when_it_is_closed_is_no_news() -> None:
    recorder = Recorder(FakeResponse(Answer([HELLO], ending="reset")))
    reads = recorder.iter_bytes()
    next(reads)
    recorder.close()
    with pytest.raises(ConnectionError):
        next(reads)
    assert (recorder.recording.end, recorder.recording.error) == ("left", "")


def test_what_comes_after_the_end_is_not_taken() -> None:
    recorder = Recorder(FakeResponse(Answer([HELLO, WORLD])))
    reads = recorder.iter_bytes()
    next(reads)
    recorder.close()
    assert list(reads) == [WORLD]
    assert recorder.recording.body == HELLO


# A recording is a response


def recorded_reads(*reads: tuple[float, bytes], **more: Any) -> Recording:
    return Recording(tuple(RecordedRead(*read) for read in reads), **more)


async def test_a_stream_that_was_left_is_interrupted_where_nobody_read_on(anyio_backend: Any) -> None:
    left = recorded_reads((0.0, HELLO), end="left")
    assert replay(left).end is StreamEnd.CLOSED
    with pytest.raises(IncompleteStreamError, match="was left"):
        replay(left).completion()
    with pytest.raises(StreamInterruptedError, match="the stream was not read further"):
        ChatCompletionStream(left).read()
    with pytest.raises(StreamInterruptedError, match="the stream was not read further"):
        await AsyncChatCompletionStream(left).read()


async def test_a_recording_can_be_read_again_and_again(anyio_backend: Any) -> None:
    recorded = recorded_reads(*((0.0, piece) for piece in WHOLE))
    for _ in range(2):
        with ChatCompletionStream(recorded) as stream:
            assert stream.read().text == "Hello world"
        async with AsyncChatCompletionStream(recorded) as async_stream:
            assert (await async_stream.read()).text == "Hello world"


class Sleeper:
    """A clock that only sleeping moves; it says how long each sleep was."""

    def __init__(self) -> None:
        self.now = 5.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def sleeper(monkeypatch: pytest.MonkeyPatch) -> Sleeper:
    sleeper = Sleeper()
    monkeypatch.setattr(recording, "time", sleeper)
    return sleeper


PACED = recorded_reads((1.0, b"a"), (1.0, b"b"), (3.0, b"c"), end="error", error="ReadError", ended_at=4.0)


@pytest.mark.parametrize(("speed", "slept"), [(1, [1, 2, 1]), (4, [0.25, 0.5, 0.25]), (0.5, [2, 4, 2]), (0, []), (math.inf, [])])  # fmt: skip
def test_reads_at_their_times(sleeper: Sleeper, speed: float, slept: list[float]) -> None:
    assert list(PACED.paced(speed)) == list(PACED.reads)
    assert sleeper.slept == slept
    reads = PACED.iter_paced(speed)
    assert [next(reads), next(reads), next(reads)] == [b"a", b"b", b"c"]
    with pytest.raises(RecordedTransportError, match=r"^ReadError$"):
        next(reads)


def test_what_takes_time_meanwhile_is_not_waited_for_again(sleeper: Sleeper) -> None:
    for _ in PACED.paced():
        sleeper.now += 0.5
    assert sleeper.slept == [1.0, 1.0, 0.5]


def test_a_pause_that_no_system_can_sleep(sleeper: Sleeper) -> None:
    reads = recorded_reads((1e9, b"a")).paced(1e-9)
    assert next(reads).data == b"a"
    assert 0 < sleeper.slept[0] <= 1e6


@pytest.mark.parametrize("speed", [-1, -0.001, math.nan])
def test_no_speed(speed: float) -> None:
    with pytest.raises(ValueError, match="speed: expected 0 or more"):
        PACED.paced(speed)


def test_how_long_it_took() -> None:
    assert PACED.seconds == 4.0
    assert replace(PACED, ended_at=None).seconds == 3.0
    assert Recording((), headers_at=2.0).seconds == 2.0
    assert Recording(()).seconds == 0.0
    assert Recording((), headers_at=2.0).is_timed
    assert not Recording.loads(b"data: [DONE]\n\n").is_timed


def test_closing_a_recording_is_nothing() -> None:
    PACED.close()
    anyio.run(PACED.aclose)


def test_what_a_log_sees_of_a_recording_is_an_excerpt() -> None:
    big = recorded_reads(*((0.0, b"x" * 10_000) for _ in range(100)))
    assert len(repr(big)) < 1000
    assert len(repr(big.reads[0])) < 200


# The file

EXAMPLE = Recording(
    (
        RecordedRead(0.52, b'data: {"choices":[]}\n\n'),
        RecordedRead(0.55, b"\xe2\x82"),
        RecordedRead(0.55, "\xac\u202e\x9b\x7f\u2028".encode() + b"\x1b\x00"),
    ),
    200,
    {"content-type": "text/event-stream"},
    "https://api.example/v1/chat/completions",
    0.31,
    "error",
    0.9,
    "ReadTimeout",
)
EXAMPLE_LINES = [
    b'{"chunkfold_recording":1,"status":200,"headers":{"content-type":"text/event-stream"},"url":"https://api.example/v1/chat/completions","at":0.31}',
    rb'{"at":0.52,"text":"data: {\"choices\":[]}\n\n"}',
    b'{"at":0.55,"base64":"4oI="}',
    '{"at":0.55,"text":"\xac\\u202e\\u009b\\u007f\\u2028\\u001b\\u0000"}'.encode(),
    b'{"end":"error","at":0.9,"error":"ReadTimeout"}',
]


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    EXAMPLE.save(tmp_path / "answer.jsonl")
    assert (tmp_path / "answer.jsonl").read_bytes() == b"".join(line + b"\n" for line in EXAMPLE_LINES)
    assert Recording.load(tmp_path / "answer.jsonl") == EXAMPLE
    assert Recording.load(str(tmp_path / "answer.jsonl")) == EXAMPLE
    left = replace(EXAMPLE, end="left", ended_at=None, error="")
    assert left.dumps().splitlines()[-1] == b'{"end":"left","at":null}'
    assert stored(left) == left
    limited = replace(left, progress_timeout=0.0)
    assert limited.dumps().splitlines()[-1] == b'{"end":"left","at":null,"progress_timeout":0.0}'
    assert stored(limited) == limited


def test_the_limit_that_a_stream_was_read_with_is_that_of_a_replay() -> None:
    late = recorded_reads((0.1, HELLO), (0.5, b": ping\n\n"), end="left", progress_timeout=0.3)
    assert replay(late).end is StreamEnd.STALLED
    assert replay(stored(late)).end is StreamEnd.STALLED
    assert replay(late, progress_timeout=None).end is StreamEnd.CLOSED
    assert replay(replace(late, progress_timeout=None)).end is StreamEnd.CLOSED


def test_the_example_of_the_format_is_one() -> None:
    lines = [line.strip() for line in (recording_format.__doc__ or "").splitlines() if line.startswith("    {")]
    recorded = Recording.loads("\n".join(lines).encode())
    assert (recorded.end, recorded.ended_at, recorded.headers_at) == ("body", 0.9, 0.31)
    assert recorded.body.startswith(b'data: {"choices":[...]}\n\ndata: ')


TIMES = st.integers(0, 10**12).map(lambda microseconds: microseconds / 1e6)
PRINTABLE = st.text(st.characters(codec="utf-8"), max_size=20)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    times = sorted(draw(st.lists(TIMES, max_size=6)))
    headers_at = times.pop(0) if times and draw(st.booleans()) else None
    ended_at = times.pop() if times and draw(st.booleans()) else None
    return Recording(
        tuple(RecordedRead(at, draw(st.binary(max_size=20) | PRINTABLE.map(str.encode))) for at in times),
        draw(st.integers(100, 999)),
        draw(
            st.dictionaries(PRINTABLE.map(str.lower).filter(lambda name: name == name.lower()), PRINTABLE, max_size=3)
        ),
        draw(PRINTABLE),
        headers_at,
        draw(st.sampled_from(["body", "error", "left"])),
        ended_at,
        draw(PRINTABLE),
        draw(st.none() | TIMES),
    )


@pytest.mark.slow
@given(recordings())
def test_every_recording_is_read_as_it_was_written(recorded: Recording) -> None:
    assert Recording.loads(recorded.dumps()) == recorded
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", recorded.dumps())


def test_what_is_not_known_is_let_be() -> None:
    head, *reads, last = (json.loads(line) for line in EXAMPLE_LINES)
    lines = [
        {"comment": None, **head, "more": [1]},
        {"note": "a kind of line that is to come", "at": 0.4},
        *({**read, "more": {}} for read in reads),
        {**last, "more": 1},
    ]
    text = "\r\n\n".join(["", *(json.dumps(line, indent=None) for line in lines), ""])
    assert Recording.loads(b"\xef\xbb\xbf" + text.encode()) == EXAMPLE


def test_times_are_read_to_the_microsecond() -> None:
    lines = [GOOD, b'{"at":5e-324,"text":"a"}', b'{"at":1.0000006,"text":"b"}', b'{"at":1.0000007,"end":"body"}']
    recording = Recording.loads(b"\n".join(lines))
    assert [read.at for read in recording.reads] == [0.0, 1.000001]
    assert recording.ended_at == 1.000001
    assert not Recording.loads(b"\n".join(lines[:2])).is_timed


def test_what_is_not_there_has_a_default() -> None:
    lines = (
        b'{"chunkfold_recording": 1}\n{"text": "a"}\n{"at": 2, "text": "b"}\n{"at": null, "text": "c"}\n{"end": "body"}'
    )
    assert Recording.loads(lines) == recorded_reads((0.0, b"a"), (2.0, b"b"), (2.0, b"c"))
    assert Recording.loads(b'{"chunkfold_recording":1}') == Recording((), end="left")
    assert Recording.loads(b'{"chunkfold_recording":1,"headers":{"X-Request-ID":"r"}}').headers == {"x-request-id": "r"}


def test_a_file_that_was_cut_counts_as_left() -> None:
    data = EXAMPLE.dumps()
    ends = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    for size in range(ends[1] - 1, len(data) - 1):
        whole = max(number for number, end in enumerate(ends) if end <= size + 1) - 1  # without the first line
        recorded = Recording.loads(data[:size])
        assert recorded.reads == EXAMPLE.reads[: max(whole, 0)]
        assert recorded == replace(EXAMPLE, reads=recorded.reads, end="left", ended_at=None, error="")
    assert Recording.loads(data[:-1]) == EXAMPLE


def test_a_file_that_was_cut_in_its_first_line() -> None:
    mark = len(b'{"chunkfold_recording"')
    for size in range(mark, len(EXAMPLE_LINES[0])):
        with pytest.raises(ValueError, match=r"^recording: line 1: "):
            Recording.loads(EXAMPLE_LINES[0][:size])
    assert Recording.loads(EXAMPLE_LINES[0][: mark - 1]).body == EXAMPLE_LINES[0][: mark - 1]


GOOD = b'{"chunkfold_recording":1}'
DAMAGED = {
    "a newer version": ([b'{"chunkfold_recording":2}'], 1, "version 2 is newer than this chunkfold, which knows 1"),
    "no version": ([b'{"chunkfold_recording":0}'], 1, "expected version 1, received 0"),
    "a version that is text": ([b'{"chunkfold_recording":"1"}'], 1, "chunkfold_recording: expected int, received str"),
    "a version that is true": ([b'{"chunkfold_recording":true}'], 1, "expected int, received bool"),
    "a first line that is none": ([b'{"chunkfold_recording":1'], 1, "expected a JSON object: "),
    "a status that is text": ([b'{"chunkfold_recording":1,"status":"200"}'], 1, "status: expected int, received str"),
    "a status that is none": ([b'{"chunkfold_recording":1,"status":20}'], 1, "expected a number of three digits, received 20"),
    "headers that are a list": ([b'{"chunkfold_recording":1,"headers":[]}'], 1, "headers: expected dict, received list"),
    "a header that is a number": ([b'{"chunkfold_recording":1,"headers":{"a":1}}'], 1, "a: expected str, received int"),
    "a URL that is null": ([b'{"chunkfold_recording":1,"url":null}'], 1, "url: expected str, received NoneType"),
    "a negative start": ([b'{"chunkfold_recording":1,"at":-1}'], 1, "at: expected seconds, 0 or more, received -1"),
    "no JSON": ([GOOD, b'{"at":0,"text":"a"', GOOD], 2, "expected a JSON object: "),
    "no UTF-8": ([GOOD, b'{"text":"\xff"}', b""], 2, "expected a JSON object: 'utf-8' codec"),
    "a list": ([GOOD, b"[]"], 2, "expected a JSON object, received list"),
    "too deep": ([GOOD, b'{"a":' + b"[" * 100_000, b""], 2, "too deep"),
    "text that is a number": ([GOOD, b'{"text":1}'], 2, "text: expected str, received int"),
    "text that is null": ([GOOD, b'{"text":null}'], 2, "text: expected str, received NoneType"),
    "half a character": ([GOOD, b"", rb'{"text":"\ud800"}'], 3, "surrogates not allowed"),
    "base64 that is a list": ([GOOD, b'{"base64":[]}'], 2, "base64: expected str, received list"),
    "no base64": ([GOOD, b'{"base64":"a"}'], 2, "base64"),
    "letters that are not base64's": ([GOOD, b'{"base64":"YQ==\xc3\xa9"}'], 2, "ASCII"),
    "blanks in base64": ([GOOD, b'{"base64":"Y Q=="}'], 2, "base64"),
    "text and base64": ([GOOD, b'{"text":"a","base64":"YQ=="}'], 2, "expected text or base64, received both"),
    "a negative time": ([GOOD, b'{"text":"a"}', b'{"at":-0.5,"text":"a"}'], 3, "received -0.5"),
    "a time that goes back": ([GOOD, b'{"at":3,"text":"a"}', b'{"at":2,"text":"a"}'], 3, "at: expected seconds, 3 or more, received 2"),
    "an end before the last read": ([GOOD, b'{"at":3,"text":"a"}', b'{"at":2,"end":"body"}'], 3, "received 2"),
    "a time that is text": ([GOOD, b'{"at":"1","text":"a"}'], 2, "at: expected seconds, received str"),
    "a time that is true": ([GOOD, b'{"at":true,"text":"a"}'], 2, "at: expected seconds, received bool"),
    "no time": ([GOOD, b'{"at":NaN,"text":"a"}'], 2, "received nan"),
    "for ever": ([GOOD, b'{"at":1e999,"text":"a"}'], 2, "received inf"),
    "nearly for ever": ([GOOD, b'{"at":1' + b"0" * 400 + b"}"], 2, "at: expected seconds"),
    "more digits than a number may have": ([GOOD, b'{"at":1' + b"0" * 5000 + b"}", b""], 2, "expected a JSON object"),
    "an end of another kind": ([GOOD, b'{"end":"gone"}'], 2, "end: expected one of body, error, left, received 'gone'"),
    "an end that is a list": ([GOOD, b'{"end":[]}'], 2, "received []"),
    "an error that is a number": ([GOOD, b'{"end":"error","error":1}'], 2, "error: expected str, received int"),
    "a limit that is text": ([GOOD, b'{"end":"left","progress_timeout":"1"}'], 2, "progress_timeout: expected seconds, received str"),
    "a negative limit": ([GOOD, b'{"end":"left","progress_timeout":-1}'], 2, "progress_timeout: expected seconds, 0 or more, received -1"),
    "something behind the end": ([GOOD, b'{"end":"body"}', b"", b'{"text":"a"}'], 4, "expected nothing after the end"),
    "two recordings": ([GOOD, b'{"end":"body"}', GOOD], 3, "expected nothing after the end"),
}  # fmt: skip


@each_case(("lines", "number", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named(lines: list[bytes], number: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        Recording.load(path)
    assert str(caught.value).startswith(f"recording: line {number}: ")
    assert len(str(caught.value)) < 300


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["chunkfold_recording", "status", "headers", "url", "at", "text", "base64", "end", "error", "progress_timeout"]
)
ANY_LINE = (
    st.binary(max_size=30)
    | st.dictionaries(KEYS, JSON_LIKE | st.just(1), max_size=4).map(lambda line: json.dumps(line).encode())
    | st.sampled_from([GOOD, b'{"end":"body"}', b'{"text":"a"}'])
)


@given(st.lists(ANY_LINE, max_size=6), st.booleans())
def test_nothing_but_a_value_error_comes_of_any_file(lines: list[bytes], is_marked: bool) -> None:
    data = b"\n".join([GOOD] * is_marked + lines)
    try:
        recorded = Recording.loads(data)
    except ValueError as error:
        said = str(error)
    else:
        said = "recording: line 0: nothing"
        assert b"".join(read.data for read in stored(recorded).reads) == recorded.body
    assert re.match(r"recording: line \d+: ", said)


@pytest.mark.parametrize(
    "body",
    [b"".join(WHOLE), b"\xef\xbb\xbf" + HELLO, b"\n\n" + HELLO, b'{"error":{}}', b"[1]", b"\xff\xfe", b"<html>", b'{"a"', b"\n", b"chunkfold_recording"],
)  # fmt: skip
def test_a_plain_body_is_a_recording(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "body.sse").write_bytes(body)
    assert Recording.load(tmp_path / "body.sse") == recorded_reads((0.0, body))


def test_an_empty_file_is_an_empty_body() -> None:
    assert Recording.loads(b"") == Recording(())
    assert replay(Recording.loads(b"")).end is StreamEnd.EMPTY


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "nothing.jsonl")
    with pytest.raises(FileNotFoundError):
        EXAMPLE.save(tmp_path / "nothing" / "answer.jsonl")


# Secrets

PLACES = (
    *(
        "authorization",
        "api-key",
        "x-api-key",
        "cookie",
        "proxy-authorization",
        "x-goog-api-key",
        "openai-organization",
    ),
    *("x-custom", "x-title", "user-agent", "accept-language", "x-stainless-lang", "idempotency-key", "referer"),
    *("user", "password", "key in the query", "another in the query", "alone in the query"),
    *("sent cookie", "sent token"),
)
MARK = "7f3a9c21"


def mark(place: str) -> str:
    """A secret of this place, as nothing else is."""
    return f"{re.sub('[^a-z]', '', place)}{MARK}"


def echo(request: ReceivedRequest) -> Answer:
    """Say all that came, and all that is answered, in many spellings, and cut everywhere."""
    sent = {
        "set-cookie": f"sid={mark('sent cookie')}; path=/, b=2",
        "x-token": mark("sent token"),
        "x-request-id": "r1",
    }
    credentials = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
    told = f"{request.path}?{request.query} {json.dumps(request.headers)} {credentials} {json.dumps(sent)}"
    spelled = [told, quote(told), html.escape(told), json.dumps(told), json.dumps(json.dumps(told))]
    body = StreamBuilder().text(*spelled, "".join(f"\\u{ord(c):04x}" for c in told)).body
    return Answer(cut_randomly(body, reads=1000), headers=sent)


async def test_no_secret_of_an_exchange_is_stored(library: Any, front: Any) -> None:
    headers = {name: mark(name) for name in PLACES[:14]}
    headers["cookie"] = f'theme=dark; sid="{mark("cookie")}"'
    headers["proxy-authorization"] = f"Bearer {mark('proxy-authorization')}"
    del headers["authorization"]  # httpx makes it of the user and the password
    url = f"?key={mark('key in the query')}&x={mark('another in the query')}&{mark('alone in the query')}&api-version=2024-10-01"
    with FakeProvider(echo) as provider:
        address = provider.url.replace("//", f"//{mark('user')}:{mark('password')}@")
        async with raw_client_of(front, library, headers=headers) as client:
            live = await read_to_its_end(front, Recorder(await send(client, address + url)))
        assert live.recorder.recording.url == provider.url
    recorded = live.recorder.recording
    echoed = b"".join(data for _, data in live.recorder._log._reads)
    assert echoed.count(MARK.encode()) > 50
    assert all(mark(place).encode() in echoed for place in PLACES if place != "authorization")
    data = recorded.dumps() + repr(recorded).encode() + repr(live.recorder).encode()
    assert MARK.encode() not in data
    assert mark("x").removesuffix(MARK) != MARK
    assert [len(read.data) for read in recorded.reads] == [len(data) for _, data in live.recorder._log._reads]
    for harmless in ("2024-10-01", "chat/completions", "text/event-stream", "keep-alive"):
        if harmless.encode() in echoed:
            assert harmless.encode() in recorded.body, harmless
    assert recorded.headers["x-request-id"] == "r1"


SECRET = 'pa/ss+"w\\ö&rd<1'
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not only ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON for HTML": lambda text: json.dumps(text)[1:-1].replace("<", "\\u003C").replace("&", "\\u0026"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps(text)))[7:-7],
    "escaped unit by unit": lambda text: re.sub(
        "....", lambda unit: f"\\u{unit[0]}", text.encode("utf-16-be").hex().upper()
    ),
    "URL": quote,
    "URL, slashes too": lambda text: quote(text, safe=""),
    "URL in URL": lambda text: quote(quote(text)),
    "URL in lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text)),
    "form": quote_plus,
    "HTML": html.escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "HTML by hexadecimal numbers": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "HTML in JSON": lambda text: json.dumps(html.escape(text))[1:-1],
}


@each_case("spell", SPELLINGS.values(), ids=SPELLINGS)
@each_case("secret", [SECRET, "abcdef", "two words", "a\tb\nc/d", "emoji 😀 key", "C:\\Users\\me"])
def test_a_secret_is_found_in_every_spelling_and_every_cut(spell: Callable[[str], str], secret: str) -> None:
    body = f"before {spell(secret)} behind".encode()
    expected = b"before " + b"*" * (len(body) - 14) + b" behind"
    for place in range(len(body) + 1):
        recorder = Recorder(Steps(*cut(body, place)), secrets=[secret])
        list(recorder.iter_bytes())
        first, second = (read.data for read in recorder.recording.reads)
        assert (first, second) == (expected[:place], expected[place:])


@given(
    secret=st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=6, max_size=12),
    spell=st.sampled_from(list(SPELLINGS.values())),
    around=st.text(max_size=5),
)
@settings(max_examples=60)
def test_any_secret_is_found(secret: str, spell: Callable[[str], str], around: str) -> None:
    spelled = spell(secret).encode()
    before, behind = around.encode("utf-8", "replace"), b" behind"
    assume(not (secret.isdigit() and (before[-1:].isdigit() or before.endswith(b"."))))  # a part of a longer number
    cleaned = Redactor([secret]).clean(before + spelled + behind)
    assert len(cleaned) == len(before + spelled + behind)
    assert spelled not in cleaned or not spelled.strip(b"*")


def test_a_body_that_ends_within_a_secret() -> None:
    spelled = json.dumps(SECRET)[1:-1]
    for size in range(6, len(spelled)):
        cleaned = Redactor(["abcdefgh", SECRET]).clean(f"no {spelled[:size]}".encode())
        assert cleaned == b"no " + b"*" * size
    assert Redactor([SECRET]).clean(f"no {spelled[:5]}".encode()) == f"no {spelled[:5]}".encode()
    assert Redactor(["aaaaaaab"]).clean(b"aaaaaaaaaa") == b"aaa*******"
    assert Redactor(["abcabcabd"]).clean(b"xabcabcabcab") == b"xabc********"


@each_case(
    ("secrets", "text", "cleaned"),
    [
        (["secret", "secret-and-more", ""], "secret-and-more, secret, secre", "***************, ******, secre"),
        ([], "secret", "secret"),
        # A number is no secret within a longer one.
        (["123456"], "123456, at 1123456, 123456.5, 0.123456", "******, at 1123456, 123456.5, 0.123456"),
        ([], "Bearer a1/b2+c3.d4~e5", "Bearer **************"),
    ],
)
def test_secrets_in_others_and_in_numbers(secrets: list[str], text: str, cleaned: str) -> None:
    assert Redactor(secrets).clean_text(text) == cleaned
    assert Redactor(secrets).clean(text.encode()) == cleaned.encode()


@pytest.mark.parametrize("words", [3, 3000])
def test_a_replay_makes_no_chunks_but_its_output_counts_as_emitted(words: int) -> None:
    body = StreamBuilder().text(*["word "] * words).error("Overloaded", code=503).body
    with traced() as memory:
        parser = replay(Recording((RecordedRead(0.5, body),)))
    assert memory.peak < 100_000 + len(body)
    assert parser.emitted_output
    assert parser.error is not None
    assert parser.error.emitted_output
    assert not parser.error.retryable


LOOKS_SECRET = [
    "sk-proj-AbCdEfGhIjKlMnOp1234_-zz",
    "sk-ant-api03-AbCdEfGhIjKlMnOp1234AA",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "gsk_0123456789abcdefABCDEF",
    "xai-0123456789abcdefABCDEF",
    "hf_abcdefghijklmnopQRST12",
    "hf_" + "AbCdEfGhIjKlMnOpQ" * 2,
    "nvapi-0123456789abcdefABCDEF-_",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "AKIAABCDEFGHIJKL1234",
    "ASIAABCDEFGHIJKL1234",
    "ABSK" + base64.b64encode(b"BedrockAPIKey-made-up-at-000000000000:" + bytes(range(60, 120))).decode(),
    "AQ.Ab8RN6" + "AbCdEfGh-_" * 4,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_",
    "sk-ab******************yz12",
]
LOOKS_PLAIN = [
    "key_value_pairs_sorted_by_name",
    "sk-learn",
    "task-oriented-programming-language",
    "hf_hub_download(repo_id)",
    "hf_" + "abcdefghijklmnopq" * 3,
    "pk_column_name",
    "the Bearer authentication scheme",
    "Authorization: Bearer YOUR_API_KEY_HERE",
    "eyJust.a.word",
    "disk-0123456789abcdefghij",
    "FAQ.how-to-write-a-page-of-answers-in-2026",
    "AQ.a-name-of-many-words-without-any-number",
    "ABSK" + "Ab12" * 5,
    "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    base64.b64encode(bytes(range(256))).decode(),
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
]


@each_case("text", LOOKS_SECRET)
def test_what_looks_like_a_key_is_overwritten(text: str) -> None:
    assert Redactor().clean(delta(content=f"my key is {text}.")) == delta(content=f"my key is {'*' * len(text)}.")
    assert Redactor().clean_text(f"Bearer {text}") == f"Bearer {'*' * len(text)}"


@each_case("text", LOOKS_PLAIN)
def test_what_does_not_is_let_be(text: str) -> None:
    assert Redactor().clean(delta(content=f"so {text}.")) == delta(content=f"so {text}.")


def test_what_a_client_says_of_itself_is_no_secret() -> None:
    headers = {
        "user-agent": "OpenAI/Python 1.99.1",
        "x-stainless-lang": "python",
        "x-stainless-os": "MacOS",
        "x-stainless-package-version": "1.99.1",
        "x-stainless-runtime": "CPython",
        "accept": "text/event-stream, application/json;q=0.9",
        "http-referer": "https://weather.example/",
        "x-title": "Weather for everyone",
        "x-model": "claude-3-5-sonnet-20241022",
        "anthropic-version": "2023-06-01",
        "openai-beta": "assistants",
    }
    url = "https://api.example/v1/chat/completions?api-version=2024-10-01-preview"
    said = (json.dumps(headers) + url).encode()
    assert stored_body(said, headers, url) == said


PORTKEY = {  # a gateway's headers, and whether their values are secrets
    "x-portkey-provider": ("vertex-ai-eu1", False),
    "x-portkey-trace-id": ("checkout-8f3a21bc", False),
    "x-portkey-span-id": ("span-77b01c2d", False),
    "x-portkey-api-key": ("pk9-marked-1", True),
    "x-portkey-virtual-key": ("vk9-marked-2", True),
    "authorization": ("Bearer marked-3-upstream", True),
    "x-portkey-aws-secret-access-key": ("marked-4-aws", True),
    "x-portkey-aws-session-token": ("marked-5-aws", True),
    "x-portkey-custom-host": ("https://user:marked-6-host@own.example/v1", True),
}


TARGETS = [
    {"provider": "azure-openai", "api_key": "short7", "weight": 1, "credentials": [{"value": "short8"}]},
    {"custom": 'marked-1 q"o\\te-7', "key-name-1": None, "override_params": {"model": "gpt-4o-mini"}},
]
CONFIGURATION = {"strategy": {"mode": "fallback"}, "targets": TARGETS}  # JSON in a gateway's header
CREDENTIALS = base64.b64encode(b"user-name:pass:word").decode()
# The headers of a request, and the texts that are secrets where its answer quotes them, or are none.
QUOTED: list[tuple[dict[str, str], list[str], list[str]]] = [
    (
        {name: value for name, (value, _) in PORTKEY.items()},
        [value.removeprefix("Bearer ") for value, is_secret in PORTKEY.values() if is_secret],
        [value for value, is_secret in PORTKEY.values() if not is_secret],
    ),
    *(
        (
            {"x-portkey-config": json.dumps(CONFIGURATION, separators=separators)},
            ["marked-1", "short7", "short8", 'q"o\\te-7'],
            ["azure-openai", "gpt-4o-mini", "fallback", "override_params", "key-name-1"],
        )
        for separators in ((",", ":"), (", ", ": "))
    ),
    ({"authorization": f"Basic {CREDENTIALS}"}, ["user-name", "pass:word", CREDENTIALS], []),
    ({"authorization": "Bearer short"}, ["Bearer short"], ["short"]),  # so short, it may be any word
    ({"authorization": "Bearer ollama"}, ["Bearer ollama"], ["fp_ollama"]),  # a key that is none
]


@each_case(
    ("headers", "text", "is_secret"),
    [
        (headers, text, is_secret)
        for headers, secrets, others in QUOTED
        for texts, is_secret in ((secrets, True), (others, False))
        for text in texts
    ],
)
def test_of_a_requests_headers_the_secrets_are_hidden_alone(
    headers: dict[str, str], text: str, is_secret: bool
) -> None:
    quoted = json.dumps(text)[1:-1]
    shown = "*" * len(quoted) if is_secret else quoted
    expected = delta(content="a X b").replace(b"X", shown.encode())
    assert stored_body(delta(content=f"a {text} b"), headers) == expected


def stored_body(content: bytes, headers: dict[str, str], url: str = "https://api.example/v1") -> bytes:
    """What is stored of the body that answers a request."""
    recorder = Recorder(httpx.Response(200, content=content, request=httpx.Request("POST", url, headers=headers)))
    list(recorder.iter_bytes())
    return recorder.recording.body


def test_json_in_a_header_may_be_nested_too_deep_to_be_read() -> None:
    headers = {"x-nested": "[" * 1500 + "]" * 1500}
    request = httpx.Request("POST", "https://api.example/v1", headers=headers)
    assert Recorder(httpx.Response(200, request=request)).recording.status_code == 200


def test_a_stored_header_and_the_path_hold_no_secret() -> None:
    key = "sk-proj-AbCdEfGhIjKlMnOp1234"
    request = httpx.Request("POST", f"https://api.example/{key}/marked-secret/v1", headers={"x-a": "marked-secret"})
    response = httpx.Response(200, headers={"server": f"{key} marked-secret ok", "date": "today"}, request=request)
    recorded = Recorder(response).recording
    assert recorded.headers == {"server": f"{'*' * 28} {'*' * 13} ok", "date": "today"}
    assert recorded.url == f"https://api.example/{'*' * 28}/{'*' * 13}/v1"


async def test_the_key_of_a_request_that_was_redirected(library: Any, front: Any) -> None:
    """On the way to another host clients drop it, but it was sent."""
    with FakeProvider(Answer([HELLO[:-9], mark("authorization").encode()], 403)) as other:
        away = Answer(b"", 307, {"location": other.url.replace("127.0.0.1", "localhost")}, framing="content-length")
        with FakeProvider(away) as provider:
            headers = {"authorization": f"Bearer {mark('authorization')}"}
            async with raw_client_of(front, library, headers=headers, follow_redirects=True) as client:
                live = await read_to_its_end(front, Recorder(await send(client, provider.url)))
        assert "authorization" not in other.requests[0].headers
    assert live.recorder.recording.body.endswith(b"*" * len(mark("authorization")))


async def test_an_error_body_that_quotes_the_key(library: Any, front: Any) -> None:
    key = "my-own-key/1"

    def refuse(request: ReceivedRequest) -> Answer:
        text = f"Incorrect API key provided: {request.headers['authorization'].removeprefix('Bearer ')}."
        body = json.dumps({"error": {"message": text, "code": "invalid_api_key"}}).replace("/", "\\/").encode()
        return Answer(cut_randomly(body), 401)

    with FakeProvider(refuse) as provider:
        async with raw_client_of(front, library, headers={"authorization": f"Bearer {key}"}) as client:
            live = await read_to_its_end(front, Recorder(await send(client, provider.url)))
    assert key in str(live.stream.error)
    error = replay(live.stored).error
    assert str(error) == str(live.stream.error).replace(key, "*" * 13)
    assert (type(error), error.status_code, error.code) == (type(live.stream.error), 401, "invalid_api_key")


def test_of_an_exception_only_the_types_name_is_stored() -> None:
    recorder = Recorder(Failing(HELLO, ConnectionResetError(f"while sending {MARK}")))
    with pytest.raises(StreamInterruptedError, match=MARK):
        ChatCompletionStream(recorder).read()
    assert MARK.encode() not in recorder.recording.dumps()
    assert recorder.recording.error == "ConnectionResetError"


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


@pytest.mark.parametrize("value", ["", "data: x", None, 5])
def test_what_is_not_the_bytes_of_a_recording(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^data: expected bytes, received "):
        Recording.loads(value)
    with pytest.raises(TypeError, match=r"^recording: expected a Recording, received "):
        replay(value)


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


class Disguised:
    """A response that tells of another request."""

    def __init__(self, response: httpx.Response, url: str, headers: dict[str, str]) -> None:
        self.response = response
        self.request = type("Request", (), {"url": url, "headers": headers})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


HARD = [b"sk-", b"sk-a-", b"sk-***", b"eyJ", b"eyJa-", b"eyJaaaaaaaa.", b"Bearer ", b"Bearer a/", b"\\", b"%25", b"&#0000", b"\\u", b"a", b"sk-" + b"a" * 60 + b"-"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HARD, ids=repr)
def test_looking_for_secrets_is_linear(piece: bytes) -> None:
    """A fifth of a megabyte takes a fifth of a second; growing with the square, it would take minutes at least."""
    redactor = Redactor(["sk-proj-" + "aB3" * 40, SECRET, "a" * 20 + "b"])
    body = b"sk-" + piece * (200_000 // len(piece))
    started = time.monotonic()
    cleaned = redactor.clean(body)
    assert len(cleaned) == len(body)
    assert time.monotonic() - started < PATIENCE


def test_a_repr_shows_the_response() -> None:
    assert repr(Recorder(FakeResponse(b""))) == "<Recorder of <FakeResponse [200]>>"
