"""A short stream: what it costs beside its chunks, which is the parser, the stream, the completion, and the end.

Two lengths are measured. What the longer one takes more is the price of its chunks; what is left of the shorter one
without that is the price of a stream. Its unit is the floor of one chunk. The source is a list of reads, one event each.
"""

from collections.abc import Callable, Iterator
from functools import partial

from bodies import text
from folding import fed, floor, sample_of
from measuring import Figure, Scale, at_most, least_times, say

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
    times = least_times(subjects, 3 * scale.rounds)
    of_chunk = times["floor"] / (count // 10) / chunks[1]
    for name in _WAYS:
        short, long = times[f"{name} short"] / count, times[f"{name} long"] / (count // 10)
        cost = short - chunks[0] * (long - short) / (chunks[1] - chunks[0])
        yield Figure(TABLE, (name,), "floors of a chunk", cost / of_chunk, _TARGET)


def _repeated(way: Callable[[list[bytes]], ChatCompletion], reads: list[bytes], count: int) -> None:
    for _ in range(count):
        way(reads)
