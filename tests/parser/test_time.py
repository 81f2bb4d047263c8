"""Deadlines, by a clock that the test moves: what counts as progress, from when time is counted, and who judges it.

One table of streams, each read with its time, and how it has to end. Every way to read one must judge alike: fed,
folded, fed in slices, iterated over, read at once, sync and async. Real time passes in the last section alone.
Silence is no matter of these deadlines: the client's read timeout ends it (`test_draining`, `test_connect`).
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import anyio.lowlevel
import pytest
from cases import each_case
from fronts import PATIENCE, URL, Sync, by_turns, client_of, generators_of_httpx_are_not_ours, has_left, read_by
from made_transforms import Made
from parsed_bodies import fed
from played import ERROR, GARBAGE, HI, PING, STOP, USAGE
from sources import VIEWS_OF_TEXT, take

from chunkfold import (
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChunkfoldError,
    StreamStalledError,
    TextDelta,
)
from chunkfold.event_stream.lines import SLICE
from chunkfold.parser.parser import feed_in_slices
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    ManualClock,
    bytewise,
    chunk,
    delta,
    fragment,
    mock_response,
    paced,
    stalled,
)

pytestmark = generators_of_httpx_are_not_ours

START = 1000.0

# Bytes that bring no chunk.
KEEP_ALIVES = {
    "comments": PING,
    "blank lines": b"\n",
    "ids": b"id: 1\n\n",
    "events of another name": b"event: ping\ndata: {}\n\n",
    "events of another name with text": b"event: keepalive\ndata: still here\n\n",
    "events with blank data": b"data:\n\n",
    "null": b"data: null\n\n",
    "empty objects": b"data: {}\n\n",
    "objects of the type ping": b'data: {"type":"ping"}\n\n',
    "comments inside data": b"data: : ping\n\n",
    "a line without end": b"x",
    "a chunk without end": b"data: ",
    "nothing": b"",
}
# Chunks, whatever they bring.
CHUNKS = {
    "text": HI,
    "reasoning": delta(reasoning="hm"),
    "reasoning details": delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "hm"}]),
    "a tool call": delta(tool_calls=[fragment(0, "a", "f", "")]),
    "a fragment of a tool call": delta(tool_calls=[fragment(0, arguments="{")]),
    "another choice": delta(index=1, content="Hi"),
    "a role": delta(role="assistant"),
    "an empty text": delta(content=""),
    "an empty delta": delta(),
    "no choices": chunk(),
    "usage": USAGE,
    "unknown fields": chunk(prompt_filter_results=[]),
    "the type of a keep-alive": chunk(type="ping"),
    "a block that lost its blank line": HI.rstrip() + b"\n" + HI,
}

ENOUGH = STOP + delta("stop", index=1)

Read = tuple[float, bytes]


def repeated(data: bytes, *seconds: float) -> list[Read]:
    """The same data at each of these times, in seconds since the start."""
    return [(each, data) for each in seconds]


def dripped(body: bytes, start: float, pause: float) -> list[Read]:
    """A body byte by byte."""
    return [(start + place * pause, byte) for place, byte in enumerate(bytewise(body))]


@dataclass
class Case:
    """A stream whose bytes come at these times, and how it ends if its body ends behind the last of them.

    `missed` is what the error names, and `after` how many reads end the stream; all, if it is None.
    """

    reads: list[Read]
    end: str
    missed: str = ""
    after: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        body = b"".join(data for _, data in self.reads[: self.after])
        return "Hi" * body.count(HI.rstrip())


def no_progress(reads: list[Read], after: int | None = None, **options: Any) -> Case:
    return Case(reads, "stalled", "progress_timeout", after, {"progress_timeout": 10, **options})


def progress(reads: list[Read], end: str = "truncated", **options: Any) -> Case:
    return Case(reads, end, options={"progress_timeout": 10, **options})


def too_late(reads: list[Read], after: int | None = None, **options: Any) -> Case:
    return Case(reads, "stalled", "total_timeout", after, {"total_timeout": 60, **options})


def in_time(reads: list[Read], end: str = "truncated", **options: Any) -> Case:
    return Case(reads, end, options={"total_timeout": 60, **options})


LARGE_SILENCE = b": %b\n\n" % (b"ping " * 20) * (5 * SLICE // 100)
LARGE_TEXT = HI * (5 * SLICE // len(HI))
BOTH = {"progress_timeout": 10, "total_timeout": 60}
SINCE_LONG = {"started": START - 50}

CASES = {
    **{f"{name}: no progress": no_progress([(0, HI), *repeated(data, *range(1, 20))], 12) for name, data in KEEP_ALIVES.items()},
    **{f"{name} alone: no progress": no_progress(repeated(data, *range(1, 20)), 11) for name, data in KEEP_ALIVES.items()},
    **{f"{name}: progress": progress([*repeated(data, 0, 9, 18, 27, 36), (45, ENOUGH)], "finished") for name, data in CHUNKS.items()},
    # No chunk for so long
    "not even the first chunk": no_progress([(10, PING), (10.001, PING)]),
    "a chunk as late as can be": progress([(10, HI), (20, HI), (30, PING)]),
    "a chunk that is too late is one": progress([(0, HI), (15, HI), (25, PING)]),
    "behind a chunk that is too late": no_progress([(0, HI), (15, HI), (25.001, PING)]),
    "a chunk of which a byte comes each second": no_progress([(0, HI), *dripped(HI, 1, 1)], 12),
    "a chunk of which twenty bytes come each second": progress(dripped(HI, 0, 0.05)),
    "patience": progress([(0, HI), *repeated(PING, *range(0, 600, 50)), (600, HI)], progress_timeout=600),
    "no patience": no_progress([(0, HI), (0, PING), (0.001, PING)], progress_timeout=0),
    "five minutes of thinking": progress([*repeated(CHUNKS["reasoning"], *range(0, 300, 9)), (300, HI)]),
    "five minutes of arguments": progress(repeated(CHUNKS["a fragment of a tool call"], *range(0, 300, 9))),
    "a late finish reason": progress([(0, HI), (15, STOP)], "finished"),
    "a late [DONE]": progress([(0, HI), (15, DONE)], "done"),
    "a late error": progress([(0, HI), (15, ERROR)], "failed"),
    "what is no chunk, late": progress([(0, HI), (15, GARBAGE)], "invalid"),
    "nothing behind the finish reason": progress([(0, HI), (5, STOP), (15.001, PING)], "finished"),
    "usage behind the finish reason, in time": progress([(0, HI), (5, STOP), (15, PING), (15, USAGE), (25, PING)], "finished"),
    # The whole takes too long
    "while output flows": too_late(repeated(HI, 0, 20, 40, 60, 80, 100), 5),
    "while output drips": too_late(dripped(HI * 9, 0, 0.5), 122),
    "while nothing flows": too_late([(0, HI), *repeated(PING, 20, 40, 60, 80, 100)], 5),
    "before the first chunk": too_late([(60, PING), (60.001, b"d")]),
    "the last moment": in_time([(0, HI), (60, HI)]),
    "a moment later": too_late([(0, HI), (60.001, HI)]),
    "the finish reason too late": in_time([(0, HI), (61, STOP)], "finished"),
    "[DONE] too late": in_time([(0, HI), (61, DONE)], "done"),
    "[DONE] too late, without output": in_time([(61, DONE)], "empty"),
    "all too late": in_time([(61, HI + STOP + USAGE + DONE)], "finished"),
    "an error too late": in_time([(0, HI), (61, ERROR)], "failed"),
    "what is no chunk too late": in_time([(0, HI), (61, GARBAGE)], "invalid"),
    "a keep-alive too late, behind the finish reason": in_time([(0, HI + STOP), (61, PING)], "finished"),
    "one choice of two too late": too_late([(0, HI + CHUNKS["another choice"]), (61, STOP)]),
    "half a finish reason too late": too_late([(0, HI), (61, STOP[:-9])]),
    "no time at all": too_late([(0, HI), (0.001, HI)], total_timeout=0),
    "all the time": in_time([(0, HI), (1e9, HI), (1e12, PING)], total_timeout=math.inf, progress_timeout=math.inf),
    "no deadline": Case([(0, HI), (1e9, PING), (1e12, STOP)], "finished"),
    # Both
    "both, and no progress": no_progress([(0, HI), (9, HI), (20, PING)], **BOTH),
    "both, and too late": too_late([*repeated(HI, *range(0, 60, 9)), (61, HI)], **BOTH),
    "both at once": Case([(0, HI), (61, PING)], "stalled", "timeout", None, BOTH),
    "both in time": progress([*repeated(HI, *range(0, 60, 9)), (60, STOP)], "finished", **BOTH),
    # Time is counted from when the request was sent
    "since long, and no progress": no_progress([(0, PING)], **SINCE_LONG),
    "since long, and too late": too_late([(0, HI), (10, HI), (10.001, HI)], **SINCE_LONG),
    "since long, and in time": in_time([(0, HI), (10, HI)], **SINCE_LONG),
    "since long, but then a chunk": progress([(0, HI), (10, PING)], **SINCE_LONG),
    # Large reads, which are fed in slices
    "silence in a large read": no_progress([(0, HI), (11, LARGE_SILENCE)]),
    "a chunk at the start of a large read": progress([(0, HI), (11, HI + LARGE_SILENCE), (21, PING)]),
    "a chunk at the end of a large read": progress([(0, HI), (11, LARGE_SILENCE + HI), (21, PING)]),
    "a large read too late": too_late([(0, HI), (61, LARGE_TEXT)]),
    "a large read too late, and the finish reason at its start": in_time([(0, HI), (61, STOP + LARGE_SILENCE)], "finished"),
    "a large read too late, and the finish reason at its end": in_time([(0, HI), (61, LARGE_TEXT + STOP)], "finished"),
    "a large read too late, and [DONE] at its end": in_time([(0, HI), (61, LARGE_TEXT + DONE)], "done"),
    "a large read too late, and an error at its end": in_time([(0, HI), (61, LARGE_TEXT + ERROR)], "failed"),
    "a large read too late, and garbage at its end": in_time([(0, HI), (61, LARGE_TEXT + GARBAGE)], "invalid"),
}  # fmt: skip


# Who judges


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = START
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return self.now


class Source:
    """A body that takes its time, by the clock; a sync and an async iterable."""

    def __init__(self, clock: Clock, reads: list[Read]) -> None:
        self.taken = 0
        self._clock = clock
        self._reads = reads

    def __iter__(self) -> Iterator[bytes]:
        for seconds, data in self._reads:
            self._clock.now = START + seconds
            self.taken += 1
            yield data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for data in self:
            await anyio.lowlevel.checkpoint()
            yield data


def in_slices(parser: ChatCompletionParser, data: bytes) -> list[ChatCompletionChunk]:
    return [chunk for chunks in feed_in_slices(parser, data) for chunk in chunks]


TAKES: list[Callable[..., Any]] = [ChatCompletionParser.feed, ChatCompletionParser.fold, in_slices]


def parsed_by(take: Callable[..., Any], *, tell_times: bool = False) -> Callable[..., Awaitable[tuple[Any, str]]]:
    async def parse(source: Source, *, clock: Clock, **options: Any) -> tuple[Any, str]:
        parser = ChatCompletionParser(clock=clock, **options)
        texts: list[str] = []
        for data in source:
            told = {"arrived": clock.now} if tell_times else {}
            if tell_times:
                clock.now = math.nan  # what it says by now does not matter
            texts += [chunk.text for chunk in take(parser, data, **told) or ()]
            if parser.end is not None:
                break
        parser.close()
        return parser, "".join(texts) if take is not ChatCompletionParser.fold else parser.snapshot.text

    return parse


def text_of(item: Any) -> str:
    if isinstance(item, ChatCompletionChunk):
        return item.text
    return item.delta if isinstance(item, TextDelta) and item.choice == 0 else ""


def streamed_by(front: Any, view: str) -> Callable[..., Awaitable[tuple[Any, str]]]:
    async def stream_of(source: Source, **options: Any) -> tuple[Any, str]:
        items: list[Any] = []
        async with front(source, **options) as stream:
            with suppress(ChunkfoldError):
                await (stream.read() if view == "read" else take(VIEWS_OF_TEXT[view](stream), items))
        return stream, "".join(map(text_of, items)) if view != "read" else stream.snapshot.text

    return stream_of


# Each way of reading, and whether it hands out what came.
WAYS: dict[str, tuple[Callable[..., Awaitable[tuple[Any, str]]], bool]] = {
    "fed": (parsed_by(ChatCompletionParser.feed), True),
    "fed with times": (parsed_by(ChatCompletionParser.feed, tell_times=True), True),
    "folded": (parsed_by(ChatCompletionParser.fold), False),
    "folded with times": (parsed_by(ChatCompletionParser.fold, tell_times=True), False),
    "fed in slices": (parsed_by(in_slices), False),
    **{
        f"{view}, {front.__name__}": (streamed_by(front, view), view != "read")
        for view, front in [*product(["chunks", "read"], [Sync, AsyncChatCompletionStream]), ("events", Sync)]
    },
}
BY_TURNS = [(name, ("asyncio", "trio")[place % 2]) for place, name in enumerate(CASES)]


@pytest.mark.parametrize(("name", "anyio_backend"), BY_TURNS, ids=CASES)
async def test_deadlines(name: str) -> None:
    case = CASES[name]
    for way, (read, is_handed_out) in WAYS.items():
        clock = Clock()
        source = Source(clock, case.reads)
        stream, text = await read(source, clock=clock, **case.options)
        assert (way, stream.end, source.taken) == (way, case.end, case.after or len(case.reads))
        # Late or not, what came is handed out and stands in the snapshot.
        assert text == stream.snapshot.text == case.text
        assert (type(stream.error) is StreamStalledError) == (case.end == "stalled")
        if case.end == "stalled":
            assert case.missed in str(stream.error)
            assert stream.error.end == "stalled"
            assert stream.error.snapshot == stream.snapshot
            assert stream.error.retryable == (case.text == "" or not is_handed_out)


OPTIONS = {"progress_timeout": 10, "total_timeout": 60}


def stretched(*reads: Read) -> tuple[ChatCompletionParser, Clock]:
    """A parser with both deadlines that read these, and a clock by which both have passed since."""
    clock = Clock()
    parser = fed(Source(clock, list(reads)), clock=clock, **OPTIONS)
    clock.now = START + 1000
    return parser, clock


def interrupted(parser: ChatCompletionParser) -> object:
    return parser.interrupt(TimeoutError("read timeout"))


@each_case(
    ("body", "way_out", "end"),
    [
        pytest.param(HI, None, None, id="as long as nothing comes nothing is judged"),
        pytest.param(b"", ChatCompletionParser.close, "empty", id="a body that ends late has ended"),
        pytest.param(HI, ChatCompletionParser.close, "truncated", id="so has one with output"),
        pytest.param(HI + STOP, ChatCompletionParser.close, "finished", id="and one that finished"),
        pytest.param(
            HI + STOP.rstrip(), ChatCompletionParser.close, "finished", id="a last event without a blank line"
        ),
        pytest.param(HI, ChatCompletionParser.leave, "closed", id="a consumer that leaves late has left"),
        # So silence is told from a stall: it is the client that notices it, by its read timeout.
        pytest.param(HI, interrupted, "interrupted", id="a transport that fails late has failed"),
    ],
)
def test_a_deadline_is_looked_at_when_bytes_come(
    body: bytes, way_out: Callable[[ChatCompletionParser], object] | None, end: str | None
) -> None:
    parser, _ = stretched((0, body))
    if way_out is not None:
        way_out(parser)
    assert parser.end == end
    assert type(parser.error) is not StreamStalledError


def test_after_the_end_time_does_not_matter() -> None:
    parser, clock = stretched((0, HI + STOP + DONE))
    before = clock.readings
    assert parser.feed(PING) == parser.close() == []
    parser.fold(LARGE_TEXT)
    assert (parser.end, parser.anomalies, clock.readings) == ("finished", (), before)


@pytest.mark.parametrize("name", ["progress_timeout", "total_timeout"])
def test_a_deadline_behind_the_finish_reason_is_noted(name: str) -> None:
    clock = Clock()
    parser = fed(HI + STOP, clock=clock, **{name: 10})
    clock.now += 11
    parser.feed(PING)
    assert parser.completion().text == "Hi"
    (noted,) = (each for each in parser.anomalies if each.rule.id == "CF507")
    assert name in noted.detail


def readings_of(call: Callable[[Clock], object]) -> int:
    clock = Clock()
    call(clock)
    return clock.readings


@each_case("data", [b"", PING, HI, HI * 20, LARGE_TEXT, LARGE_SILENCE, b":" * 2**20 + b"\n\n", STOP + DONE, ERROR])
@each_case("options", [{}, OPTIONS], ids=["no deadlines", "deadlines"])
def test_the_clock_is_read_once_per_read(data: bytes, options: dict[str, Any]) -> None:
    """And once when the parser is made, if it is not told when the request was sent."""

    def parser(clock: Clock) -> ChatCompletionParser:
        return ChatCompletionParser(clock=clock, started=START, **options)

    assert readings_of(parser) == 0
    assert readings_of(lambda clock: ChatCompletionParser(clock=clock, **options)) == 1
    assert readings_of(lambda clock: parser(clock).feed(data)) == 1
    assert readings_of(lambda clock: parser(clock).fold(data)) == 1
    assert readings_of(lambda clock: list(feed_in_slices(parser(clock), data))) == 1
    assert readings_of(lambda clock: parser(clock).feed(data, arrived=START)) == 0
    assert readings_of(lambda clock: parser(clock).fold(data, arrived=START)) == 0


class HurriedClock(Clock):
    """A clock that goes on by ten seconds whenever it is read."""

    def __call__(self) -> float:
        self.now += 10
        return super().__call__()


@pytest.mark.parametrize(
    ("way", "kind"),
    [*((way, bytes) for way in TAKES), (ChatCompletionParser.feed, bytearray), (ChatCompletionParser.fold, bytearray)],
)
def test_what_arrived_in_time_is_read_however_long_that_takes(
    way: Callable[[ChatCompletionParser, bytes], None], kind: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chunkfold.parser.parser._LARGE_READ", SLICE)  # above this, `feed` takes slices as well
    parser = ChatCompletionParser(clock=HurriedClock(), started=START, total_timeout=25)
    way(parser, kind(LARGE_TEXT + STOP + DONE))
    assert (parser.end, parser.error, parser.anomalies) == ("finished", None, ())


REFUSED = b'{"error":{"message":"slow down"}}'


@each_case(
    ("options", "in_time", "late"),
    [
        ({}, range(30, 36), 35.1),
        ({"total_timeout": 60}, (1, 30, 60), 61),
        ({"total_timeout": 90, "progress_timeout": 60}, (11, 30, 60), 61),
    ],
)
def test_a_refusal_that_drips_is_given_up(options: dict[str, Any], in_time: Iterable[int], late: float) -> None:
    """Its status is known: five seconds after the first bytes of its body are enough, unless a timeout says otherwise."""
    clock = Clock()
    parser = ChatCompletionParser(clock=clock, status_code=429, **options)
    for second in in_time:
        clock.now = START + second
        parser.feed(b" ")
    assert parser.end is None
    clock.now = START + late
    parser.feed(REFUSED)
    error = parser.error
    assert (parser.end, type(error), type(error.__cause__)) == ("failed", APIStatusError, StreamStalledError)
    assert str(error) == "HTTP 429: slow down"


@pytest.mark.parametrize("way", TAKES)
def test_all_of_a_late_read_counts_for_a_refusal(way: Callable[[ChatCompletionParser, bytes], None]) -> None:
    """Was once wrong: of a large read, only the slice that came too late was taken."""
    clock = Clock()
    parser = fed(b"{\n\n", clock=clock, status_code=429)
    clock.now = START + 6
    way(parser, b'"x":"%b",\n\n"error":{"message":"slow down"}}' % (b"x" * 2**14))
    assert str(parser.error) == "HTTP 429: slow down"


# Two clients, two fronts

# When the headers come, and then the body, in seconds since the request was sent, and since what came before.
ANSWERS: dict[str, tuple[float, list[bytes | float], str, str]] = {
    "late headers": (55, [1, HI, 5, HI], "stalled", "total_timeout"),
    "late headers, and no progress": (9, [2, PING], "stalled", "progress_timeout"),
    "too late headers, and all at once": (70, [1, HI + STOP], "finished", ""),
}


@by_turns("name", ANSWERS)
async def test_time_counts_from_the_request(library: Any, front: Any, name: str) -> None:
    headers_after, body, end, missed = ANSWERS[name]
    clock = ManualClock(START)

    def respond(_: Any) -> Any:
        clock.advance(headers_after)
        return mock_response(Answer(body), library=library, clock=clock)

    async with client_of(front, library, transport=library.MockTransport(respond)) as client:
        stream = await read_by(client, URL, clock=clock, **OPTIONS)
    assert stream.end == end
    assert missed in str(stream.error)


# In real time

A_WHILE = 0.1  # seconds
OFTEN = 0.02
STALLS: dict[str, tuple[list[bytes | float], dict[str, Any]]] = {
    "keep-alives": (stalled([HI], 1, PATIENCE, keep_alive=PING, every=OFTEN), {"progress_timeout": A_WHILE}),
    "output": (paced([HI] * 1000, pace=OFTEN), {"total_timeout": A_WHILE}),
}


@by_turns("name", STALLS)
async def test_a_stall_lets_go_of_the_connection(library: Any, front: Any, name: str) -> None:
    body, options = STALLS[name]
    with FakeProvider(Answer(body)) as provider:
        async with client_of(front, library, limits=library.Limits(max_connections=1)) as client:
            stream = await read_by(client, provider.url, **options)
            assert has_left(provider.requests[0])
            another = await read_by(client, provider.url)
    assert type(stream.error) is StreamStalledError
    assert next(iter(options)) in str(stream.error)
    assert stream.error.snapshot == stream.snapshot
    assert stream.snapshot.text.startswith("Hi")
    assert stream.error.retryable  # whatever was read, nothing was yielded
    assert another.end == "finished"


def test_what_a_transform_keeps_to_itself_is_progress() -> None:
    parser = ChatCompletionParser(progress_timeout=10, transforms=[Made(lambda _: [])], started=0.0)
    for seconds in range(5, 60, 5):
        assert parser.feed(delta(reasoning="hm"), arrived=seconds) == []
    assert parser.end is None
    parser.feed(b": ping\n\n", arrived=70.0)
    assert parser.end == "stalled"
