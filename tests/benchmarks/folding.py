"""Folding: from the bytes of an httpx response to the final message, against the floor.

The floor is what nobody can do without who gives typed chunks: cut the body at its blank lines, and one `validate_json`
for each event, with the same model, the chunk thrown away at once. It knows the whole body, reads nothing, checks
nothing and folds nothing. `from_json` does the same without a model.

Before a stream is measured, all ways of reading it must give the same message, and that of which it was made. A way
that does not has no figures, and the command fails.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
from bodies import READS, STREAMS, Body, recordings
from measuring import Figure, Scale, Target, at_most, complain, least_times, say
from pydantic_core import from_json

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    EventStreamDecoder,
)
from chunkfold.event_stream.lines import SLICE, slices
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser.options import DEFAULT_MAX_EVENT_SIZE

TABLE = "folding"
PARTS = "parts"
YARDSTICK = "yardstick"
_RECORDINGS = "recorded streams"
Options = dict[str, Any]
_validate_json = ChatCompletionChunk.__pydantic_validator__.validate_json

_LIMITED = "text with all limits and deadlines"
_LIMITS: Options = {
    "max_event_size": 2**20,
    "max_event_items": 10**6,
    "max_output_size": 10**8,
    "progress_timeout": 60.0,
    "total_timeout": 600.0,
}

_BARS = {  # iterating with one event per read and with 64 KiB; `events()` with one event; `read()`, `fold()` with 64 KiB
    "text": (1.6, 1.35, 1.2, 0.4),
    "text with CRLF": (1.6, 1.35, 1.2, 0.4),
    "text with obfuscation": (1.7, 1.4, 1.4, 0.6),
    "reasoning": (1.7, 1.4, 1.3, 0.45),
    "tool arguments": (1.6, 1.35, 1.3, 0.45),
    "n = 4": (1.7, 1.45, 1.6, 0.6),
    "usage on every chunk": (1.8, 1.6, 1.8, 0.7),
    "OpenRouter": (2.0, 1.8, 2.0, 0.9),
    _RECORDINGS: (2.2, 2.0, 2.4, 1.8),
    _LIMITED: (1.7, 1.45, 1.3, 0.5),
}
_BAR_PLACES = {
    ("iterating", "one event"): 0,
    ("iterating", "64 KiB"): 1,
    ("events()", "one event"): 2,
    ("read()", "64 KiB"): 3,
    ("fold()", "64 KiB"): 3,
}
_TEXTS_TARGET = at_most(1.1)


@dataclass(frozen=True, slots=True)
class Sample:
    """Streams that are read one after another.

    Attributes:
        plain: Each body as the floor reads it.
        reads: The reads of each.
        outputs: What must come of each, None where it is not known.
        options: Those of the parser.
    """

    plain: list[bytes]
    reads: list[list[bytes]]
    outputs: list[str | None]
    options: Options


def sample_of(bodies: Sequence[Body], size: int | None, options: Options | None = None) -> Sample:
    plain, reads = [body.plain for body in bodies], [body.reads(size) for body in bodies]
    return Sample(plain, reads, [body.output for body in bodies], options or {})


# The floor


def floor(sample: Sample, parse: Callable[[bytes], object] = _validate_json) -> None:
    for body in sample.plain:
        for event in body.split(b"\n\n"):
            if event:
                parse(event[6:])


class _Empty:
    def call(self) -> None:
        pass


def interpreter(sample: Sample) -> None:
    """What the interpreter takes for something of its own: so runs on two machines can be compared."""
    call = _Empty().call
    for body in sample.plain:
        for _ in range(50 * body.count(b"\n\n")):
            call()


# The ways to read a stream


def iterate(sample: Sample) -> list[ChatCompletion]:
    return [_exhausted(stream, stream) for stream in _streams(sample)]


def _iterated(source: Iterable[bytes]) -> ChatCompletion:
    stream = ChatCompletionStream(source)
    return _exhausted(stream, stream)


def _streams(sample: Sample) -> Iterator[ChatCompletionStream]:
    for reads in sample.reads:
        yield ChatCompletionStream(httpx.Response(200, content=reads), **sample.options)


def _exhausted(stream: ChatCompletionStream, items: Iterable[object]) -> ChatCompletion:
    with suppress(ChunkfoldError):  # some recordings are of streams that failed
        for _ in items:
            pass
    return stream.snapshot


def iterate_async(sample: Sample) -> list[ChatCompletion]:
    async def read_all() -> list[ChatCompletion]:
        return [await _iterated_async(reads, sample.options) for reads in sample.reads]

    return asyncio.run(read_all())


async def _iterated_async(reads: list[bytes], options: Options) -> ChatCompletion:
    stream = AsyncChatCompletionStream(httpx.Response(200, content=_async(reads)), **options)
    with suppress(ChunkfoldError):
        async for _ in stream:
            pass
    return stream.snapshot


async def _async(reads: list[bytes]) -> AsyncIterator[bytes]:
    for data in reads:
        yield data


def _of_each(way: Callable[[ChatCompletionStream], ChatCompletion]) -> Callable[[Sample], list[ChatCompletion]]:
    return lambda sample: list(map(way, _streams(sample)))


def _read(stream: ChatCompletionStream) -> ChatCompletion:
    with suppress(ChunkfoldError):
        return stream.read()
    return stream.snapshot


def _folded(reads: list[bytes], options: Options) -> ChatCompletion:
    parser = ChatCompletionParser(**options)
    for data in httpx.Response(200, content=reads).iter_bytes():
        parser.fold(data)
    parser.close()
    return parser.snapshot


FLOORS: dict[str, Callable[[Sample], None]] = {"floor": floor, "from_json": partial(floor, parse=from_json)}
WAYS: dict[str, Callable[[Sample], list[ChatCompletion]]] = {
    "iterating": iterate,
    "async": iterate_async,
    "events()": _of_each(lambda stream: _exhausted(stream, stream.events())),
    "text_deltas()": _of_each(lambda stream: _exhausted(stream, stream.text_deltas())),
    "read()": _of_each(_read),
    "fold()": lambda sample: [_folded(reads, sample.options) for reads in sample.reads],
}


def measure(scale: Scale) -> Iterator[Figure]:
    yield measure_yardstick(scale)
    for row in ROWS:
        yield from measure_row(row, scale)
    if not recordings():
        say(f"{_RECORDINGS}: skipped, ../shared/recordings is not there")
    for name in ("text", "text with obfuscation", "tool arguments", "OpenRouter"):
        for size in ("one event", "64 KiB"):
            yield from _measure_parts((name, size), STREAMS[name](scale.chunks), READS[size], scale)


ROWS = [(name, size) for name in (*STREAMS, _LIMITED, _RECORDINGS) for size in READS]


def measure_row(row: tuple[str, str], scale: Scale) -> list[Figure]:
    """The figures of one stream in reads of one size; none if there is no such stream here."""
    name, size = row
    if name == _RECORDINGS:
        bodies = recordings()[: 10 if scale.is_quick else None]
    else:
        bodies = [STREAMS.get(name, STREAMS["text"])(scale.smaller(10) if size == "16 bytes" else scale.chunks)]
    sample = sample_of(bodies, READS[size], _LIMITS if name == _LIMITED else None)
    needs = _RECORDINGS if name == _RECORDINGS else ""
    return [replace(figure, needs=needs) for figure in _measure_ways(row, sample, scale)] if bodies else []


def measure_yardstick(scale: Scale) -> Figure:
    """How fast the interpreter is here beside pydantic."""
    sample = sample_of([STREAMS["text"](scale.chunks)], None)
    times = least_times({"floor": partial(floor, sample), "calls": partial(interpreter, sample)}, scale.rounds)
    row = ("50 calls of an empty method for each chunk",)
    return Figure(YARDSTICK, row, "times the floor", times["calls"] / times["floor"])


def _measure_ways(row: tuple[str, str], sample: Sample, scale: Scale) -> Iterator[Figure]:
    say(f"folding: {', '.join(row)}")
    right = {name: run for name, run in WAYS.items() if is_right(name, row, sample)}
    times = least_times({name: partial(run, sample) for name, run in (FLOORS | right).items()}, scale.rounds)
    yield Figure(TABLE, row, "`from_json`", times["from_json"] / times["floor"])
    for way in right:
        title = f"`{way}`" if way.endswith("()") else way
        yield Figure(TABLE, row, title, times[way] / times["floor"], _target(row, way))


def _target(row: tuple[str, str], way: str) -> Target | None:
    stream, size = row
    if way == "text_deltas()":
        return _TEXTS_TARGET if stream == "text" and size == "64 KiB" else None
    place = _BAR_PLACES.get((way, size))
    return None if place is None else at_most(_BARS[stream][place])


def is_right(way: str, row: tuple[str, str], sample: Sample) -> bool:
    """Whether a way gives the messages that iterating gives, and what was sent. Trying it warms things up, too."""
    completions = WAYS[way](sample)
    outputs = [
        output if output is None else output_of(completion)
        for completion, output in zip(completions, sample.outputs, strict=True)
    ]
    if completions == iterate(sample) and outputs == sample.outputs:
        return True
    complain(f"folding: {', '.join(row)}: {way} gives another message than it should")
    return False


def output_of(completion: ChatCompletion) -> str:
    """All output: choice by choice the reasoning, the text and the arguments."""
    pieces: list[str] = []
    for choice in completion.choices:
        message = choice.message
        pieces += [message.reasoning or "", message.content or ""]
        pieces += [call.function.arguments for call in message.tool_calls or () if call.type == "function"]
    return "".join(pieces)


# What each part of the path costs


@dataclass(frozen=True, slots=True)
class Route:
    """One body on its way.

    Attributes:
        sample: The body, as the whole way takes it.
        reads: Its reads.
        fed: The same as the stream feeds them to its parser: large reads in slices.
    """

    sample: Sample
    reads: list[bytes]
    fed: list[bytes]


def _measure_parts(row: tuple[str, str], body: Body, size: int | None, scale: Scale) -> Iterator[Figure]:
    """Stage by stage: each does what the one before it does and one thing more, which costs the difference."""
    say(f"parts: {', '.join(row)}")
    reads = body.reads(size)
    fed = [piece for data in reads for piece in (slices(data) if len(data) > SLICE else (data,))]
    route = Route(sample_of([body], size), reads, fed)
    stages = {name: partial(stage, route) for name, stage in _STAGES.items()}
    times = least_times({"floor": partial(floor, route.sample), **stages}, scale.rounds)
    times["nothing"] = 0.0
    for before, stage in pairwise(("nothing", *_STAGES)):
        yield Figure(PARTS, row, stage, (times[stage] - times[before]) / times["floor"])
    yield Figure(PARTS, row, "all of it", times[stage] / times["floor"])


def _framed(route: Route) -> None:
    decoder = EventStreamDecoder(DEFAULT_MAX_EVENT_SIZE)
    for data in route.fed:
        decoder.feed(data)


def _validated(route: Route) -> None:
    decoder = EventStreamDecoder(DEFAULT_MAX_EVENT_SIZE)
    for data in route.fed:
        for event in decoder.feed(data):
            if event.data != b"[DONE]":
                _validate_json(event.data)


def _accumulated(route: Route) -> ChatCompletion:
    decoder, accumulator = EventStreamDecoder(DEFAULT_MAX_EVENT_SIZE), StreamFold()
    for data in route.fed:
        for event in decoder.feed(data):
            if event.data != b"[DONE]":
                accumulator.add(_validate_json(event.data))
    return accumulator.snapshot


def fed(reads: Iterable[bytes]) -> ChatCompletion:
    """What a parser comes to that makes the chunks of these reads."""
    parser = ChatCompletionParser()
    for data in reads:
        parser.feed(data)
    parser.close()
    return parser.completion()


_STAGES: dict[str, Callable[[Route], object]] = {
    "framing": _framed,
    "validation": _validated,
    "folding": _accumulated,
    "the parser around them": lambda route: fed(route.fed),
    "iterating": lambda route: _iterated(route.reads),
    "httpx's own iteration": lambda route: iterate(route.sample),
}
