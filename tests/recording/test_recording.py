"""Live and again: a stream that is recorded and replayed gives what it gave, faults, times and events included.

A stream is read live through a `Recorder`, over both fronts and both libraries, from a real server; its recording is
written and read again, and what comes of that is held against what came live. What holds for every stream holds for the
hostile ones and for bodies that hypothesis makes, out of memory, with a clock that only the body moves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

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
from recorded_streams import HELLO, HTML, WHOLE, WORLD, Live, read_to_its_end, slow_response, stored, told

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
from chunkfold.recording import RecordedTransportError, Recorder, Recording, replay
from chunkfold.testing import (
    Answer,
    FakeProvider,
    FakeResponse,
    HostileStream,
    ManualClock,
    Raw,
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
