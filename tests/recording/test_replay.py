"""A recording is a response: read again and again, at its times or at once."""

import math
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fronts import over_both_streams
from measured_memory import traced
from recorded_streams import HELLO, WHOLE, recorded_reads

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionStream,
    IncompleteStreamError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.recording import RecordedRead, RecordedTransportError, Recording, recording, replay
from chunkfold.testing import StreamBuilder

pytest_generate_tests = over_both_streams


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
    with traced() as memory:
        parser = replay(Recording((RecordedRead(0.5, body),)))
    assert memory.peak < 100_000 + len(body)
    assert parser.emitted_output
    assert parser.error is not None
    assert parser.error.emitted_output
    assert not parser.error.retryable
