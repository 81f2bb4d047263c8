"""An SDK of OpenTelemetry whose exporters keep everything, and the fixtures of the tests that look at it.

Where it is not installed, the modules that import this one are skipped.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk (group `test`)")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from chunkfold import ChatCompletionStream, ChunkfoldError
from chunkfold.otel import instrument, names
from chunkfold.testing import DONE, ManualClock, chunk, delta

HI = delta(content="Hi")
WHOLE = [HI, delta("stop"), DONE]


def consume(stream: ChatCompletionStream) -> None:
    with suppress(ChunkfoldError):
        for _ in stream:
            pass


class Telemetry:
    """An SDK whose exporters keep everything."""

    def __init__(self, *, is_sampled: bool = True) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(sampler=ALWAYS_ON if is_sampled else ALWAYS_OFF)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def instrument(self, stream: Any, request: Any = None, **options: Any) -> Any:
        stream = getattr(stream, "stream", stream)  # of a front that stands in for the other
        assert self.instrument_around(stream, request, **options) is stream
        return stream

    def instrument_around(self, connection: Any, request: Any = None, **options: Any) -> Any:
        providers = {"tracer_provider": self.tracers, "meter_provider": self.meters}
        return instrument(connection, request, **{**providers, **options})

    def read(self, body: Any = WHOLE, request: Any = None, **options: Any) -> ChatCompletionStream:
        """A measured stream that was read, however it ended."""
        with self.instrument(ChatCompletionStream(body), request, **options) as stream:
            consume(stream)
        return stream

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.span.attributes or {})

    @property
    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name: str) -> list[Any]:
        return list(self.metrics[name].data.data_points)

    def point(self, name: str) -> Any:
        (point,) = self.points(name)
        return point

    @property
    def exported(self) -> str:
        """Everything, as text."""
        return "\n".join([*(span.to_json() for span in self.spans), str(self.reader.get_metrics_data())])


@pytest.fixture(name="telemetry")
def kept_telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


@pytest.fixture(name="nothing_failed", autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No names are chosen, and neither our telemetry nor the SDK had anything to complain of."""
    monkeypatch.delenv(names.OPT_IN, raising=False)
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


class Clock(ManualClock):
    """A clock that only what is read moves."""

    def body(self, *pieces: tuple[float, bytes | Exception]) -> Iterator[bytes]:
        """The pieces, each that many seconds after the one before it."""
        for seconds, piece in pieces:
            self.advance(seconds)
            if isinstance(piece, Exception):
                raise piece
            yield piece


REQUEST = {
    "model": "gpt-5-mini",
    "messages": [],
    "n": 2,
    "temperature": 0,
    "top_p": 0.5,
    "top_k": 40,
    "frequency_penalty": 0.25,
    "presence_penalty": -1,
    "max_tokens": 10,
    "max_completion_tokens": 20,
    "seed": 7,
    "stop": "END",
    "response_format": {"type": "json_schema"},
    "reasoning_effort": "low",
    "service_tier": "flex",
}
SPENT = chunk(
    usage={
        "prompt_tokens": 900,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 512, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
)
