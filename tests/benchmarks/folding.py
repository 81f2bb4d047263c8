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

import httpx
from bodies import READS, STREAMS, Body, recordings
from measuring import Figure, Scale, Target, at_most, complain, interleaved, ratio, say
from pydantic_core import from_json

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    EventStreamDecoder,
)
from chunkfold.event_stream import SLICE, slices
from chunkfold.parser import DEFAULT_MAX_EVENT_SIZE

TABLE = "folding"
PARTS = "parts"
_RECORDINGS = "recorded streams"
_validate_json = ChatCompletionChunk.__pydantic_validator__.validate_json

_ITERATING_TARGETS = {"one event": at_most(1.7), "64 KiB": at_most(1.5)}  # by the size of the reads
_JSON_TARGET = at_most(4)
_FOLD_TARGET = at_most(0.5)


@dataclass(frozen=True, slots=True)
class Sample:
    """Streams that are read one after another.

    Attributes:
        plain: Each body as the floor reads it.
        reads: The reads of each.
        outputs: What must come of each, None where it is not known.
    """

    plain: list[bytes]
    reads: list[list[bytes]]
    outputs: list[str | None]


def sample_of(bodies: Sequence[Body], size: int | None) -> Sample:
    return Sample(
        [body.plain for body in bodies], [body.reads(size) for body in bodies], [body.output for body in bodies]
    )


# The floor


def floor(sample: Sample) -> None:
    for body in sample.plain:
        for event in body.split(b"\n\n"):
            if event:
                _validate_json(event[6:])


def json_floor(sample: Sample) -> None:
    for body in sample.plain:
        for event in body.split(b"\n\n"):
            if event:
                from_json(event[6:])


# The ways to read a stream


def iterate(sample: Sample) -> list[ChatCompletion]:
    return [_iterated(httpx.Response(200, content=reads)) for reads in sample.reads]


def _iterated(source: httpx.Response | Iterable[bytes]) -> ChatCompletion:
    stream = ChatCompletionStream(source)
    with suppress(ChunkfoldError):  # some recordings are of streams that failed
        for _ in stream:
            pass
    return stream.snapshot


def iterate_async(sample: Sample) -> list[ChatCompletion]:
    async def read_all() -> list[ChatCompletion]:
        return [await _iterated_async(reads) for reads in sample.reads]

    return asyncio.run(read_all())


async def _iterated_async(reads: list[bytes]) -> ChatCompletion:
    stream = AsyncChatCompletionStream(httpx.Response(200, content=_async(reads)))
    with suppress(ChunkfoldError):
        async for _ in stream:
            pass
    return stream.snapshot


async def _async(reads: list[bytes]) -> AsyncIterator[bytes]:
    for data in reads:
        yield data


def take_events(sample: Sample) -> list[ChatCompletion]:
    return [_taken(reads) for reads in sample.reads]


def _taken(reads: list[bytes]) -> ChatCompletion:
    stream = ChatCompletionStream(httpx.Response(200, content=reads))
    with suppress(ChunkfoldError):
        for _ in stream.events():
            pass
    return stream.snapshot


def read(sample: Sample) -> list[ChatCompletion]:
    return [_read(reads) for reads in sample.reads]


def _read(reads: list[bytes]) -> ChatCompletion:
    stream = ChatCompletionStream(httpx.Response(200, content=reads))
    with suppress(ChunkfoldError):
        return stream.read()
    return stream.snapshot


def fold(sample: Sample) -> list[ChatCompletion]:
    return [_folded(reads) for reads in sample.reads]


def _folded(reads: list[bytes]) -> ChatCompletion:
    parser = ChatCompletionParser()
    for data in httpx.Response(200, content=reads).iter_bytes():
        parser.fold(data)
    parser.close()
    return parser.snapshot


FLOORS: dict[str, Callable[[Sample], None]] = {"floor": floor, "from_json": json_floor}
WAYS: dict[str, Callable[[Sample], list[ChatCompletion]]] = {
    "iterating": iterate,
    "async": iterate_async,
    "events()": take_events,
    "read()": read,
    "fold()": fold,
}


def measure(scale: Scale) -> Iterator[Figure]:
    for name, make in STREAMS.items():
        for size in READS:
            body = make(scale.smaller(10) if size == "16 bytes" else scale.chunks)
            yield from _measure_ways((name, size), sample_of([body], READS[size]), scale)
    recorded = recordings()[: 10 if scale.is_quick else None]
    if not recorded:
        say(f"{_RECORDINGS}: skipped, ../shared/recordings is not there")
    for size in READS if recorded else ():
        for figure in _measure_ways((_RECORDINGS, size), sample_of(recorded, READS[size]), scale):
            yield replace(figure, needs=_RECORDINGS)
    for name in ("text", "text with obfuscation", "tool arguments", "OpenRouter"):
        for size in ("one event", "64 KiB"):
            yield from _measure_parts((name, size), STREAMS[name](scale.chunks), READS[size], scale)


def _measure_ways(row: tuple[str, str], sample: Sample, scale: Scale) -> Iterator[Figure]:
    say(f"folding: {', '.join(row)}")
    right = {name: run for name, run in WAYS.items() if is_right(name, row, sample)}
    times = interleaved({name: partial(run, sample) for name, run in (FLOORS | right).items()}, scale.rounds)
    yield Figure(TABLE, row, "`from_json`", ratio(times, "from_json", "floor"))
    for way in right:
        yield Figure(TABLE, row, _title(way), ratio(times, way, "floor"), _target(row, way))
    if "iterating" in right:
        yield Figure(TABLE, row, "iterating / `from_json`", ratio(times, "iterating", "from_json"), _json_target(row))


def _title(way: str) -> str:
    return f"`{way}`" if way.endswith("()") else way


def _target(row: tuple[str, str], way: str) -> Target | None:
    stream, size = row
    if way == "iterating" and stream in ("text", "tool arguments"):
        return _ITERATING_TARGETS.get(size)
    return _FOLD_TARGET if way == "fold()" and stream == "text" and size != "16 bytes" else None


def _json_target(row: tuple[str, str]) -> Target | None:
    stream, size = row
    return _JSON_TARGET if stream in ("text", "tool arguments") and size != "16 bytes" else None


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
    times = interleaved({"floor": partial(floor, route.sample), **stages}, scale.rounds)
    times["nothing"] = [0.0] * scale.rounds
    for before, stage in pairwise(("nothing", *_STAGES)):
        times["step"] = [more - less for more, less in zip(times[stage], times[before], strict=True)]
        yield Figure(PARTS, row, stage, ratio(times, "step", "floor"))
    yield Figure(PARTS, row, "all of it", ratio(times, stage, "floor"))


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
    decoder, accumulator = EventStreamDecoder(DEFAULT_MAX_EVENT_SIZE), ChatCompletionAccumulator()
    for data in route.fed:
        for event in decoder.feed(data):
            if event.data != b"[DONE]":
                chunk = _validate_json(event.data)
                if not accumulator.add_usual(chunk):
                    accumulator.add(chunk)
    return accumulator.snapshot


def _parsed(route: Route) -> ChatCompletion:
    parser = ChatCompletionParser()
    for data in route.fed:
        parser.feed(data)
    return parser.snapshot


_STAGES: dict[str, Callable[[Route], object]] = {
    "framing": _framed,
    "validation": _validated,
    "folding": _accumulated,
    "the parser around them": _parsed,
    "iterating": lambda route: _iterated(route.reads),
    "httpx's own iteration": lambda route: iterate(route.sample),
}
