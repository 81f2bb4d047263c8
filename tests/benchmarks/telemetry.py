"""Telemetry: what it adds to reading a stream that somebody observes, or that is instrumented.

Where nothing is recorded, `instrument` leaves the stream as it is: what it costs is one call for each stream, whatever
comes after it. What recording costs depends on the number of reads, so every event is a read of its own here, the most
that there can be.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import bodies
import folding
from measuring import Figure, Scale, at_most, least_times, say

from chunkfold import ChatCompletionStream

TABLE = "telemetry"
_PLAIN = "not observed"
_OBSERVED = "an observer"
_CHUNKS = 100  # in a stream: a short answer
_REQUEST = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Say hello."}]}


def measure(scale: Scale) -> Iterator[Figure]:
    plain = folding.sample_of([bodies.text(_CHUNKS)], None)
    streams = max(scale.chunks // _CHUNKS, 1)
    for way in (_iterate, ChatCompletionStream.read):
        name = "iterating" if way is _iterate else "`read()`"
        say(f"telemetry: {name}")
        subjects: dict[str, Callable[[], object]] = {"floor": lambda: [folding.floor(plain) for _ in range(streams)]}
        subjects |= {name: partial(_read_all, streams, way, prepare) for name, prepare in _observers().items()}
        times = least_times(subjects, 3 * scale.rounds)
        for subject in list(subjects)[2:]:
            more = (times[subject] - times[_PLAIN]) / times["floor"]
            needs = "" if subject == _OBSERVED else "opentelemetry"
            yield Figure(TABLE, (subject,), name, more, at_most(0.3), needs)


def _iterate(stream: ChatCompletionStream) -> None:
    for _ in stream:
        pass


def _read_all(
    streams: int,
    way: Callable[[ChatCompletionStream], object],
    prepare: Callable[[ChatCompletionStream], object],
) -> None:
    events = bodies.text(_CHUNKS).events
    for _ in range(streams):
        with ChatCompletionStream(events) as stream:
            prepare(stream)
            way(stream)


def _observers() -> dict[str, Callable[[ChatCompletionStream], object]]:
    """What is done with a stream before it is read."""
    observers: dict[str, Callable[[ChatCompletionStream], object]] = {
        _PLAIN: lambda _: None,
        _OBSERVED: lambda stream: stream.observe(on_chunks=lambda _stream, _count: None),
    }
    with suppress(ImportError):
        from chunkfold.otel import instrument

        for name, options in _telemetries().items():
            observers[name] = partial(instrument, request=_REQUEST, **options)
    return observers


def _telemetries() -> dict[str, dict[str, Any]]:
    """What is set up, and the options that say so."""
    from opentelemetry.metrics import NoOpMeterProvider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    no_tracers, no_meters = TracerProvider(sampler=ALWAYS_OFF), NoOpMeterProvider()
    return {
        "no SDK is set up": {},
        "spans, not sampled": {"tracer_provider": no_tracers, "meter_provider": no_meters},
        "spans": {"tracer_provider": tracers, "meter_provider": no_meters},
        "spans and metrics": {"tracer_provider": tracers, "meter_provider": meters},
    }
