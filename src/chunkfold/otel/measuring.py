"""Measure one request, from when it is sent until its stream ends: the span and the metrics."""

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.util.types import AttributeValue

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
from chunkfold.otel.instruments import Instruments, instruments_of, is_apis_own
from chunkfold.otel.names import Names
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.stream.asynchronous import AsyncChatCompletionStream
from chunkfold.stream.sync import ChatCompletionStream

if TYPE_CHECKING:
    from opentelemetry.context import Context

Observable: TypeAlias = ChatCompletionStream | AsyncChatCompletionStream | ChatCompletionParser

_logger = logging.getLogger(__name__)
_NANOSECONDS: Final = 1_000_000_000


def _version_of_library() -> str | None:
    try:
        return version_of(names.SCOPE)
    except PackageNotFoundError:  # the sources alone, on the path
        return None


_VERSION: Final = _version_of_library()


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
            measured = self._begin(getattr(stream, "response", None), stream.elapsed)
            if measured is not None:
                on_chunks = measured.on_chunks if measured.instruments is not None else None
                stream.observe(on_chunks=on_chunks, on_end=measured.on_end)

    def failed(self, error: BaseException, seconds: float) -> None:
        """The request failed before there was a response, `seconds` after it was sent."""
        with _errors_logged():
            measured = self._begin(error, seconds)
            if measured is not None:
                measured.fail(error, seconds)

    def _begin(self, sent: Any, seconds: float) -> "_Measured | None":
        """Start the span of a request that was sent `seconds` ago; None if nothing is recorded."""
        version = names.names()
        common = common_attributes(self.request, self.provider, server_of(sent))
        instruments = instruments_of(self.meters, version, _VERSION)
        started = time.time_ns() - _nanoseconds(seconds)
        span = self.tracers.get_tracer(names.SCOPE, _VERSION, schema_url=version.schema_url).start_span(
            " ".join(str(common[name]) for name in (names.OPERATION_NAME, names.REQUEST_MODEL) if name in common),
            kind=SpanKind.CLIENT,
            attributes=common,
            start_time=started,
        )
        if span.is_recording():
            span.set_attributes(request_attributes(self.request, common[names.PROVIDER_NAME], version))
            messages = input_messages(self.request) if self.capture_content else None
            if messages is not None:
                span.set_attribute(names.INPUT_MESSAGES, messages)
            span.set_attributes(self.attributes)
        elif instruments is None:
            return None
        return _Measured(
            span=span,
            context=set_span_in_context(span),
            started=started,
            common=common,
            choices=choices_asked(self.request),
            version=version,
            instruments=instruments,
            capture_content=self.capture_content,
        )


@dataclass(kw_only=True, slots=True)
class _Measured:
    """The measurement of one stream."""

    span: Span
    context: "Context"  # the span's, for the metrics: it links exemplars to the span
    started: int  # nanoseconds since 1970
    common: Attributes  # of the span and of all metrics
    choices: int  # that were requested
    version: Names
    instruments: Instruments | None  # None if no metrics are recorded
    capture_content: bool
    last_chunk: float | None = None  # seconds since the request was sent

    def on_chunks(self, stream: Observable, count: int) -> None:
        """Record the time of each chunk; the chunks of one read arrive at the same time."""
        before, now = self.last_chunk, stream.timing.last_chunk
        if self.instruments is None or now is None:
            return
        self.last_chunk = now
        if before is None:
            self._note_model(stream.snapshot.model)
            self.instruments.time_to_first_chunk.record(stream.timing.first_chunk or now, self.common, self.context)
        else:
            self.instruments.time_per_output_chunk.record(now - before, self.common, self.context)
        for _ in range(count - 1):
            self.instruments.time_per_output_chunk.record(0.0, self.common, self.context)

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
            if self.instruments is not None:
                self.instruments.duration.record(seconds, {**self.common, **kind}, self.context)
                if stream is not None:
                    self.instruments.tokens.record(usage_of(stream.snapshot), self.common, kind, self.context)
            if self.span.is_recording():
                answer = ChatCompletion() if stream is None else stream.snapshot
                provider = self.common[names.PROVIDER_NAME]
                self.span.set_attributes(response_attributes(answer, self.choices, provider, self.version))
                if stream is not None:
                    self._describe(stream)
                if error is not None:
                    self.span.set_attributes(kind)
                    message = text_of(str(error)) if self.capture_content else None  # it may quote what was sent
                    self.span.set_status(Status(StatusCode.ERROR, message))
        finally:
            self.span.end(self.started + _nanoseconds(seconds))

    def _note_model(self, model: Any) -> None:
        name = text_of(model)
        if name is not None:
            self.common = {**self.common, names.RESPONSE_MODEL: name}

    def _describe(self, stream: Observable) -> None:
        """Set the span's attributes of how the stream went."""
        self.span.set_attribute(names.STREAM_END, str(stream.end))
        if stream.timing.first_chunk is not None:
            self.span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, stream.timing.first_chunk)
        if stream.anomalies:
            self.span.set_attribute(names.ANOMALIES, [anomaly.rule.id for anomaly in stream.anomalies])
        if self.capture_content:
            self.span.set_attribute(names.OUTPUT_MESSAGES, output_messages(stream.snapshot, self.version))


@contextmanager
def _errors_logged() -> Generator[None]:
    """Log an error, such as that of a span processor: the request itself continues, or raises its own error."""
    try:
        yield
    except Exception:
        _logger.exception("a request could not be measured")


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
