"""A short stream: what it costs beside its chunks, which is the parser, the stream, the completion, and the end.

Two lengths are measured. What the longer one takes more is the price of its chunks; what is left of the shorter one
without that is the price of a stream. Its unit is the floor of one chunk. The source is a list of reads, one event each.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial

from bodies import text
from folding import fed, floor, sample_of
from measuring import Figure, Scale, at_most, interleaved, say

from chunkfold import ChatCompletion, ChatCompletionStream

TABLE = "short"
_LENGTHS = (2, 202)  # texts


def _iterated(reads: list[bytes]) -> ChatCompletion:
    with ChatCompletionStream(reads) as stream:
        for _ in stream:
            pass
    return stream.completion()


def _read(reads: list[bytes]) -> ChatCompletion:
    with ChatCompletionStream(reads) as stream:
        return stream.read()


_WAYS: dict[str, Callable[[list[bytes]], ChatCompletion]] = {
    "iterating": _iterated,
    "`read()`": _read,
    "`feed()`": fed,
}
_TARGET = at_most(20)


def measure(scale: Scale) -> Iterator[Figure]:
    say("short streams")
    count = scale.smaller(20)  # streams
    bodies = [text(length) for length in _LENGTHS]
    chunks = [len(body.plain.split(b"\n\n")) - 1 for body in bodies]
    floors = sample_of([bodies[1]], None)
    subjects = {"floor": lambda: [floor(floors) for _ in range(count // 10)]}
    for name, way in _WAYS.items():
        subjects[f"{name} short"] = partial(_repeated, way, bodies[0].events, count)
        subjects[f"{name} long"] = partial(_repeated, way, bodies[1].events, count // 10)
    times = interleaved(subjects, 3 * scale.rounds)
    for name in _WAYS:
        costs = [
            (short / count - chunks[0] * (10 * long - short) / count / (chunks[1] - chunks[0]))
            / (least / (count // 10) / chunks[1])
            for short, long, least in zip(times[f"{name} short"], times[f"{name} long"], times["floor"], strict=True)
        ]
        yield Figure(TABLE, (name,), "floors of a chunk", statistics.median(costs), _TARGET)


def _repeated(way: Callable[[list[bytes]], ChatCompletion], reads: list[bytes], count: int) -> None:
    for _ in range(count):
        way(reads)
