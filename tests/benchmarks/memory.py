"""Memory: the most that folding a stream takes, in a process of its own, beside the output.

The stream is made event by event while it is read, so that nobody holds it. What the process took before does not
count. The same is measured twice: by what Python allocates (tracemalloc), and by what the process has of the machine's
memory (its peak resident size, where what the interpreter had spare at the start does not show).

As a script this is that process: `memory.py tracemalloc 50000` prints the peak and the output's size, in bytes.
"""

import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bodies import text_events
from folding import output_of
from measuring import Figure, Scale, Target, say

from chunkfold import ChatCompletion, ChatCompletionStream

TABLE = "memory"
_MEGABYTE = 10**6
_STATUS = Path("/proc/self/status")
_WARM_UP = 500  # chunks


class Peak(NamedTuple):
    """What folding a stream took, and the output that came of it: bytes."""

    peak: int
    output: int


def measure(scale: Scale) -> Iterator[Figure]:
    for chunks in (2_000, 4_000) if scale.is_quick else (50_000, 100_000):
        row = (f"{chunks:,}",)
        peaks = {way: _peak_of_process(way, chunks) for way in WAYS}
        output = peaks["tracemalloc"].output
        limit = 2 * output + _MEGABYTE
        yield Figure(TABLE, row, "output, MB", output / _MEGABYTE)
        yield Figure(TABLE, row, "twice that and 1 MB", limit / _MEGABYTE)
        for way, peak in peaks.items():
            yield Figure(TABLE, row, _TITLES[way], peak.peak / _MEGABYTE, Target("at most", limit / _MEGABYTE))


def _peak_of_process(way: str, chunks: int) -> Peak:
    say(f"memory: {chunks:,} chunks, {way}")
    command = [sys.executable, __file__, way, str(chunks)]
    return Peak(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def fold(chunks: int) -> ChatCompletion:
    """Iterate over a stream and take its completion."""
    stream = ChatCompletionStream(text_events(chunks))
    for _ in stream:
        pass
    return stream.completion()


def _traced(chunks: int) -> Peak:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    completion = fold(chunks)
    _, peak = tracemalloc.get_traced_memory()
    return Peak(peak - before, _size(completion))


def _resident(chunks: int) -> Peak:
    _forget_peak()
    before = _peak_resident_size()
    completion = fold(chunks)
    return Peak(_peak_resident_size() - before, _size(completion))


def _size(completion: ChatCompletion) -> int:
    return len(output_of(completion).encode())


def _forget_peak() -> None:
    """Begin anew with what the process has now; where that cannot be done, what the imports took for a while counts."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def _peak_resident_size() -> int:
    """The process's own; `getrusage`, where there is nothing better, also counts what the parent had when it forked."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text("ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


WAYS: dict[str, Callable[[int], Peak]] = {"tracemalloc": _traced, "resident": _resident}
_TITLES = {"tracemalloc": "peak of what Python allocates", "resident": "peak of the process"}

if __name__ == "__main__":
    fold(_WARM_UP)
    print(json.dumps(WAYS[sys.argv[1]](int(sys.argv[2]))))
