"""What Python allocates, and collecting that is quick: a collection looks at every object there is, else."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from chunkfold import ChatCompletionStream
from chunkfold.testing import DONE, delta, fragment


@dataclass
class Memory:
    """Bytes that were allocated: at most, and in the end."""

    peak: int = 0
    kept: int = 0


@contextmanager
def traced() -> Iterator[Memory]:
    """How much is allocated inside; it is known on leaving."""
    memory = Memory()
    gc.collect()
    gc.freeze()  # collecting looks at nothing but what comes now
    tracemalloc.start()
    try:
        yield memory
        memory.peak = tracemalloc.get_traced_memory()[1]
        gc.collect()
        memory.kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.fixture(name="collecting_is_quick", scope="module", autouse=True)
def only_garbage_of_these_tests() -> None:
    """For modules that give it a name of theirs: collecting is quick, and shows what a test left and nothing else.

    Models are built when they are first used, and kept for good: a stream is read before anything is measured.
    """
    body = [
        b": ping\n\n",
        delta(content="a"),
        delta(tool_calls=[fragment(0, "call_a", "f", "{}")]),
        delta("stop"),
        DONE,
    ]
    ChatCompletionStream(body).read()
    gc.collect()
    gc.freeze()
