"""Streams that are recorded, and what came of them in a form that can be compared."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from made_streams import STOP, Stream

from chunkfold import ChunkfoldError, StreamInterruptedError
from chunkfold.recording import RecordedRead, Recorder, Recording
from chunkfold.testing import DONE, Answer, FakeResponse, ManualClock, delta

HELLO = delta(content="Hello")
WORLD = delta(content=" world")
WHOLE = [HELLO, WORLD, STOP, DONE]


def told(result: Any) -> dict[str, Any]:
    """What a stream, or a parser, says at its end; of the transport's error only that there was one."""
    error = result.error
    is_interrupted = isinstance(error, StreamInterruptedError)
    late_fault = r"(CF507: .* \(byte \d+): \w+\)"  # which names the type of what the transport raised
    fields = ("status_code", "code", "type", "param", "request_id", "retry_after", "retryable", "emitted_output")
    return {
        "end": result.end,
        "error": type(error),
        "message": is_interrupted or re.sub(late_fault, r"\1)", str(error)),
        "fields": {name: getattr(error, name, None) for name in fields},
        "snapshot": repr(result.snapshot.model_dump()),
        "anomalies": [(anomaly.rule.id, anomaly.count) for anomaly in result.anomalies],
    }


def stored(recorded: Recording) -> Recording:
    """As it is read from its file."""
    return Recording.loads(recorded.dumps())


@dataclass
class Live:
    """A stream that was read through a recorder."""

    recorder: Recorder
    stream: Any
    chunks: list[Any] = field(default_factory=list)

    @cached_property
    def stored(self) -> Recording:
        """What its recording's file holds, once it is over."""
        return stored(self.recorder.recording)


async def read_to_its_end(front: Any, source: Any, **options: Any) -> Live:
    live = Live(source, front(source, **options))
    async with live.stream as stream:
        try:
            async for chunk in stream:
                live.chunks.append(chunk)
        except ChunkfoldError:
            pass
    return live


HTML = b"<html><h1>502 Bad Gateway</h1></html>"


def slow_response(stream: Stream, quarters: list[int], clock: ManualClock) -> FakeResponse:
    """A response whose body takes its time: a quarter of a second, or many, before each read and before the end."""
    pauses = [quarter / 4 for quarter in [*quarters, *[0] * len(stream.pieces)]]
    body = [step for pause, piece in zip(pauses, stream.pieces, strict=False) for step in (pause, piece)]
    ending = "reset" if stream.is_reset else "end"
    return FakeResponse(Answer([*body, *pauses[len(stream.pieces) :][:1]], ending=ending), clock=clock)


class Steps:
    """A response of these reads, of which exceptions are raised; it goes on behind them."""

    status_code = 200
    headers: ClassVar = {"content-type": "text/event-stream"}
    is_closed = False

    def __init__(self, *steps: Any) -> None:
        self.steps = iter(steps)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        step = next(self.steps)
        if isinstance(step, BaseException):
            raise step
        return step

    async def __anext__(self) -> Any:
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    def iter_bytes(self) -> Self:
        return self

    aiter_bytes = iter_bytes

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


class Failing(Steps):
    """A response that ends as soon as it raises, as a generator does."""

    def iter_bytes(self) -> Iterator[Any]:  # type: ignore[override]
        yield from self


def recorded_reads(*reads: tuple[float, bytes], **more: Any) -> Recording:
    return Recording(tuple(RecordedRead(*read) for read in reads), **more)
