"""Measure one request, from when it is sent until its stream ends: the span and the metrics."""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.util.types import AttributeValue

from chunkfold import __version__
from chunkfold.arguments import check_instance
from chunkfold.models.completion import ChatCompletion
from chunkfold.otel import names
from chunkfold.otel.attributes import (
    Attributes,
    choices_asked,
    common_attributes,
    error_type,
    request_attributes,
    response_attributes,
    server_of,
    text_of,
    usage_of,
)
from chunkfold.otel.content import input_messages, output_messages
from chunkfold.otel.instruments import instruments_of, is_apis_own
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.stream.asynchronous import AsyncChatCompletionStream
from chunkfold.stream.sync import ChatCompletionStream

Observable: TypeAlias = ChatCompletionStream | AsyncChatCompletionStream | ChatCompletionParser

_logger = logging.getLogger(__name__)
_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Measuring:
    """The arguments of `instrument`, which describes them."""

    request: Mapping[str, Any]
    provider: str | None
    attributes: Mapping[str, AttributeValue]
    capture_content: bool
    tracers: TracerProvider
    meters: MeterProvider

    @property
    def is_off(self) -> bool:
        """Whether nothing is recorded, because no SDK is set up."""
        return is_apis_own(self.tracers) and is_apis_own(self.meters)

    def observe(self, stream: Observable) -> None:
        """Measure a stream until it ends; a `TypeError` for anything else, such as the response of `client.stream`."""
        check_instance("stream", stream, get_args(Observable), "a stream, as connect or aconnect opens it")
        with _errors_logged():
            measured = _Measured(self, getattr(stream, "response", None), stream.elapsed)
            if measured.is_recorded:
                stream.observe(on_chunks=measured.on_chunks if measured.has_metrics else None, on_end=measured.on_end)

    def failed(self, error: BaseException, seconds: float) -> None:
        """The request failed before there was a response, `seconds` after it was sent."""
        with _errors_logged():
            measured = _Measured(self, error, seconds)
            if measured.is_recorded:
                measured.fail(error, seconds)


class _Measured:
    """The measurement of one stream, whose span starts here: when the request was sent, `seconds` ago."""

    def __init__(self, measuring: Measuring, sent: Any, seconds: float) -> None:
        request = measuring.request
        self._version = version = names.names()
        self._instruments = instruments_of(measuring.meters, version, __version__)  # None if no metrics are recorded
        self._common = common_attributes(request, measuring.provider, server_of(sent))  # of the span and of all metrics
        self._choices = choices_asked(request)
        self._capture_content = measuring.capture_content
        self._last_chunk: float | None = None  # seconds since the request was sent
        self._started = time.time_ns() - _nanoseconds(seconds)
        named = (names.OPERATION_NAME, names.REQUEST_MODEL)
        self._span = measuring.tracers.get_tracer(names.SCOPE, __version__, schema_url=version.schema_url).start_span(
            " ".join(str(self._common[name]) for name in named if name in self._common),
            kind=SpanKind.CLIENT,
            attributes=self._common,
            start_time=self._started,
        )
        self._context = set_span_in_context(self._span)  # for the metrics: it links exemplars to the span
        if self._span.is_recording():
            self._span.set_attributes(request_attributes(request, self._common[names.PROVIDER_NAME], version))
            messages = input_messages(request) if self._capture_content else None
            if messages is not None:
                self._span.set_attribute(names.INPUT_MESSAGES, messages)
            self._span.set_attributes(measuring.attributes)

    @property
    def has_metrics(self) -> bool:
        """Whether metrics are recorded."""
        return self._instruments is not None

    @property
    def is_recorded(self) -> bool:
        """Whether anything is."""
        return self._span.is_recording() or self.has_metrics

    def on_chunks(self, stream: Observable, count: int) -> None:
        """Record the time of each chunk; the chunks of one read arrive at the same time."""
        before, now = self._last_chunk, stream.timing.last_chunk
        if self._instruments is None or now is None:
            return
        self._last_chunk = now
        if before is None:
            self._note_model(stream.snapshot.model)
            self._instruments.time_to_first_chunk.record(stream.timing.first_chunk or now, self._common, self._context)
        else:
            self._instruments.time_per_output_chunk.record(now - before, self._common, self._context)
        for _ in range(count - 1):
            self._instruments.time_per_output_chunk.record(0.0, self._common, self._context)

    def on_end(self, stream: Observable) -> None:
        """The stream ended: complete the span and the metrics."""
        seconds = stream.elapsed
        self._note_model(stream.snapshot.model)
        self._end(stream, stream.error, seconds)

    def fail(self, error: BaseException, seconds: float) -> None:
        """There was no response. A cancellation is not an error, like that of a stream."""
        self._end(None, error if isinstance(error, Exception) else None, seconds)

    def _end(self, stream: Observable | None, error: Exception | None, seconds: float) -> None:
        """Record the end, `seconds` after the request was sent; the stream is None if there was no response."""
        kind: Attributes = {} if error is None else {names.ERROR_TYPE: error_type(error)}
        try:
            if self._instruments is not None:
                self._instruments.duration.record(seconds, {**self._common, **kind}, self._context)
                if stream is not None:
                    self._instruments.tokens.record(usage_of(stream.snapshot), self._common, kind, self._context)
            if self._span.is_recording():
                answer = ChatCompletion() if stream is None else stream.snapshot
                provider = self._common[names.PROVIDER_NAME]
                self._span.set_attributes(response_attributes(answer, self._choices, provider, self._version))
                if stream is not None:
                    self._describe(stream)
                if error is not None:
                    self._span.set_attributes(kind)
                    message = text_of(str(error)) if self._capture_content else None  # it may quote what was sent
                    self._span.set_status(Status(StatusCode.ERROR, message))
        finally:
            self._span.end(self._started + _nanoseconds(seconds))

    def _note_model(self, model: Any) -> None:
        name = text_of(model)
        if name is not None:
            self._common = {**self._common, names.RESPONSE_MODEL: name}

    def _describe(self, stream: Observable) -> None:
        """Set the span's attributes of how the stream went."""
        self._span.set_attribute(names.STREAM_END, str(stream.end))
        if stream.timing.first_chunk is not None:
            self._span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, stream.timing.first_chunk)
        if stream.anomalies:
            self._span.set_attribute(names.ANOMALIES, [anomaly.rule.id for anomaly in stream.anomalies])
        if self._capture_content:
            self._span.set_attribute(names.OUTPUT_MESSAGES, output_messages(stream.snapshot, self._version))


@contextmanager
def _errors_logged() -> Generator[None]:
    """Log an error, such as that of a span processor: the request itself continues, or raises its own error."""
    try:
        yield
    except Exception:
        _logger.exception("a request could not be measured")


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
