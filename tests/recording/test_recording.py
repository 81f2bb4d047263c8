"""Live and again: a stream that is recorded and replayed gives what it gave, faults and times included.

A stream is read live through a `Recorder`, over both fronts and both libraries, from a real server; its recording is
written and read again, and what comes of that is held against what came live. What holds for every stream holds for the
hostile ones and for bodies that hypothesis makes, out of memory, with a clock that only the body moves.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fronts import (
    PATIENCE,
    by_turns,
    connections_in_use,
    each_library,
    generators_of_httpx_are_not_ours,
    over_both_streams,
    raw_client_of,
    send,
)
from fronts import STREAMS as BOTH_STREAMS
from hypothesis import example, given
from hypothesis import strategies as st
from made_streams import CUTS, STOP, STREAMS, Stream
from measured_memory import traced
from recorded_streams import (
    HELLO,
    WHOLE,
    WORLD,
    Live,
    read_to_its_end,
    recorded_reads,
    slow_response,
    stored,
    told,
)

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
from chunkfold.testing import (
    Answer,
    FakeProvider,
    FakeResponse,
    ManualClock,
    StreamBuilder,
    cut_randomly,
    hostile_streams,
    json_answer,
)

pytest_generate_tests = over_both_streams
library = each_library
pytestmark = generators_of_httpx_are_not_ours

SILENCE = 0.15  # seconds; the read timeout where one is to pass


def told_timing(timing: Any) -> dict[str, Any]:
    names = ("first_byte", "first_chunk", "first_output", "last_chunk", "last_byte", "gaps")
    return {name: getattr(timing, name) for name in names}


def dumped(chunks: list[Any]) -> list[str]:
    return [repr(chunk.model_dump()) for chunk in chunks]


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


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
async def test_every_hostile_stream_comes_again_as_it_came(front: Any, step: int) -> None:
    for number, hostile in enumerate(hostile_streams(abuse=step == 1)[::step]):
        reads = cut_randomly(hostile.body, number, reads=12)  # anywhere in lines, events and characters
        live = await read_to_its_end(front, Recorder(FakeResponse(Answer(reads))))
        assert hostile.body.startswith(live.stored.body)
        await check_replay(front, live)


ERROR = {"error": {"message": "slow down", "code": "rate_limit_exceeded", "type": "requests", "param": "messages"}}
HINTS = {"x-request-id": "req_1", "retry-after-ms": "1500"}
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
    "no chunk": Fault(Answer([HELLO, b"data: oops\n\n", WORLD]), StreamEnd.INVALID, "left"),
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
        accumulator = ChatCompletionAccumulator()
        for chunk in taken:
            accumulator.add(chunk)
        assert live.error is not None
        assert live.error.emitted_output is accumulator.has_output
        replayed.error.emitted_output = live.error.emitted_output
    assert told(replayed) == told(live)
    assert told_timing(replayed.timing) == told_timing(live.timing)
    assert replayed.timing.headers == 2.0
    chunks = dumped(list(chain.from_iterable(chunks_of(recorded, **options))))
    assert chunks[: len(seen)] == dumped(seen)
    assert left is not None or len(chunks) == len(seen)


def chunks_of(recorded: Recording, **options: Any) -> Iterator[list[Any]]:
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


# A recording is a response: read again and again, at its times or at once


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


@pytest.mark.parametrize("words", [3, 3000])
def test_a_replay_makes_no_chunks_but_its_output_counts_as_emitted(words: int) -> None:
    body = StreamBuilder().text(*["word "] * words).error("Overloaded", code=503).body
    few = StreamBuilder().text("word").error("Overloaded", code=503).body
    replay(Recording((RecordedRead(0.5, few),)))  # what is kept of the first time is no cost of the body
    with traced() as memory:
        parser = replay(Recording((RecordedRead(0.5, body),)))
    assert memory.peak < 100_000 + len(body)
    assert parser.emitted_output
    assert parser.error is not None
    assert parser.error.emitted_output
    assert not parser.error.retryable
