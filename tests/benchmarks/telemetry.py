"""Telemetry: reading a stream that is instrumented, beside the same stream that is not.

Where nothing is recorded, `instrument` leaves the stream as it is: what it costs is one call for each stream, whatever
comes after it. What recording costs depends on the number of reads, so every event is a read of its own here, the most
that there can be.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bodies
from measuring import FULL, Figure, Scale, at_most, interleaved, ratio, say

from chunkfold import ChatCompletionStream

TABLE = "telemetry"
_PLAIN = "not instrumented"
_CHUNKS = 100  # in a stream: a short answer
_REQUEST = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Say hello."}]}


def measure(scale: Scale) -> Iterator[Figure]:
    for way in (_iterate, ChatCompletionStream.read):
        name = "iterating" if way is _iterate else "`read()`"
        say(f"telemetry: {name}")
        subjects = {name: partial(_read_all, scale, way, options) for name, options in _telemetries().items()}
        times = interleaved(subjects, 3 * scale.rounds)
        for subject in subjects:
            if subject != _PLAIN:
                target = at_most(1.03) if subject == "no SDK is set up" else None
                yield Figure(TABLE, (subject,), name, ratio(times, subject, _PLAIN), target, needs="opentelemetry")


def _iterate(stream: ChatCompletionStream) -> None:
    for _ in stream:
        pass


def _read_all(scale: Scale, way: Callable[[ChatCompletionStream], object], options: dict[str, Any] | None) -> None:
    from chunkfold.otel import instrument

    events = bodies.text(_CHUNKS).events
    for _ in range(max(scale.chunks // _CHUNKS, 1)):
        with ChatCompletionStream(events) as stream:
            if options is not None:
                instrument(stream, _REQUEST, **options)
            way(stream)


def _telemetries() -> dict[str, dict[str, Any] | None]:
    """What is set up, and the options that say so."""
    from opentelemetry.metrics import NoOpMeterProvider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    no_tracers, no_meters = TracerProvider(sampler=ALWAYS_OFF), NoOpMeterProvider()
    return {
        _PLAIN: None,
        "no SDK is set up": {},
        "spans, not sampled": {"tracer_provider": no_tracers, "meter_provider": no_meters},
        "spans": {"tracer_provider": tracers, "meter_provider": no_meters},
        "spans and metrics": {"tracer_provider": tracers, "meter_provider": meters},
    }


if __name__ == "__main__":
    for figure in measure(FULL):
        print(*figure.row, figure.column, round(figure.value, 3), sep="\t")
