"""Clients to test with the set, and the test: each is a name, a version and a function from a body to a reading."""

import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import Any

import chunkfold
from chunkfold.errors import StreamEnd
from chunkfold.testing.hostile.judging import judge
from chunkfold.testing.hostile.values import Cost, HostileStream
from chunkfold.testing.readings import (
    Ending,
    Reading,
    as_reading,
    awaited,
    refusal,
    without_our_frames,
)


@dataclass(frozen=True, slots=True)
class Client:
    """Something that reads streams.

    Attributes:
        name: The name to show.
        version: The version to show, "" if there is none.
        fold: Returns the reading for a body. An exception is a refusal.
    """

    name: str
    version: str
    fold: Callable[[bytes], Reading]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A client's result for a stream.

    Attributes:
        stream: The stream.
        instead: The wrong result, in one line; None if the result was right.
        has_crashed: Whether the client crashed although it had to refuse the stream.
    """

    stream: HostileStream
    instead: str | None
    has_crashed: bool = False

    @property
    def right(self) -> bool:
        """Whether the client got the expected result."""
        return self.instead is None


def hold(client: Client | Callable[[bytes], Any], streams: Iterable[HostileStream]) -> list[Verdict]:
    """Test a client, or a function as `client_of` takes it, with the streams; those with a `cost` are read twice."""
    held = client if isinstance(client, Client) else client_of("client", client)
    return [_verdict(held, stream) for stream in streams]


def _verdict(client: Client, stream: HostileStream) -> Verdict:
    def read() -> Reading:
        return reading_of(client, stream.body)[0]

    reading, excess = (read(), None) if stream.cost is None else _measured(read, stream.cost)
    has_crashed = reading.has_crashed and stream.ending != "complete"
    return Verdict(stream, judge(stream, reading) or excess, has_crashed)


def _measured(read: Callable[[], Reading], cost: Cost) -> tuple[Reading, str | None]:
    """The result, and the limit that it exceeds, in one line.

    The body is read twice: once for the CPU time, which other processes do not increase, and once for the memory, since
    measuring that is slow. The limits are far above the needs of a reader that is linear in the bytes.
    """
    started = time.process_time()
    result = read()
    if time.process_time() - started > cost.seconds:
        return result, f"takes more than {cost.seconds:g} s of processor time"
    if _peak_of(read) > cost.megabytes * 10**6:
        return result, f"takes more than {cost.megabytes:g} MB of memory"
    return result, None


def _peak_of(read: Callable[[], object]) -> int:
    """Bytes that Python allocated at the peak, beside those it had before."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        read()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def reading_of(client: Client, body: bytes) -> tuple[Reading, Exception | None]:
    """A client's reading of a body, and its exception, with the traceback from its own code on."""
    try:
        return client.fold(body), None
    except Exception as error:  # noqa: BLE001 - any exception is a refusal
        return refusal(error), without_our_frames(error)


def client_of(name: str, function: Callable[[bytes], Any], release: str = "") -> Client:
    """Create a client from a function, plain or async (on asyncio), that takes a body and returns an object or a dict.

    The result has `text` and `tool_calls` (each with `name` and `arguments`, itself or in its `function`, and perhaps
    `id`). It may have `reasoning`, `finish_reason`, `usage`, and `error`: an explicit error, which counts like an
    exception. Values that it does not have do not count.
    """
    return Client(name, release, lambda body: as_reading(awaited(function(body))))


def load_client(path: str) -> Client:
    """Create a client from `module:callable`; what importing it raises is raised unchanged."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"expected module:callable, received {path!r}")
    function: Any = attrgetter(name)(import_module(module))
    if not callable(function):
        raise TypeError(f"{path}: expected a callable, received {type(function).__name__}")
    return client_of(path, function)


def chunkfold_client() -> Client:
    """This library."""
    return Client("chunkfold", chunkfold.__version__, _fold)


def _fold(body: bytes) -> Reading:
    parser = chunkfold.ChatCompletionParser(status_code=200)
    parser.feed(body)
    parser.close()
    refused = None if parser.error is None else f"{type(parser.error).__name__}: {parser.error}"
    failures: dict[StreamEnd | None, Ending] = {StreamEnd.FAILED: "error", StreamEnd.INVALID: "invalid"}
    ending = "complete" if parser.error is None else failures.get(parser.end, "cut")
    reading = as_reading(parser.snapshot)  # if it has an `error`, empty texts and calls would not be judged
    return replace(reading, texts=reading.texts or (), calls=reading.calls or (), refused=refused, ending=ending)
