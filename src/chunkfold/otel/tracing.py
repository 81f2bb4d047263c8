"""One call that measures a stream: a client span, and the metrics.

The span's parent is the context of the call. The span itself is never made current: a stream is read in pieces, maybe
by several tasks, and between two of them the context belongs to whoever reads.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer_provider,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

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
from chunkfold.parser import ChatCompletionParser
from chunkfold.stream import AsyncChatCompletionStream, ChatCompletionStream

if TYPE_CHECKING:
    from opentelemetry.context import Context

Observable: TypeAlias = ChatCompletionStream | AsyncChatCompletionStream | ChatCompletionParser
StreamT = TypeVar("StreamT", bound=Observable)

_NANOSECONDS: Final = 1_000_000_000


def _version_of_library() -> str | None:
    try:
        return version_of(names.SCOPE)
    except PackageNotFoundError:  # the sources alone, on the path
        return None


_VERSION: Final = _version_of_library()


def instrument(
    stream: StreamT,
    request: Mapping[str, Any] | None = None,
    *,
    provider: str | None = None,
    attributes: Mapping[str, AttributeValue] | None = None,
    capture_content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> StreamT:
    """Measure a stream with OpenTelemetry: one client span, and the metrics; return the stream itself.

    The span starts when the request was sent, as the stream knows it from `connect` or from its option `started`, and
    ends with the stream: when it is complete, when it fails, or when it is closed. A stream that is closed early is no
    error. One that is neither read to its end nor closed has no end, and so no span.

    Where nothing is recorded, because no SDK is set up, the stream is left as it is.

    Args:
        stream: A stream of either front, or a parser, before it is read.
        request: The body of the request, as `connect` gets it: for the model and the parameters.
        provider: `gen_ai.provider.name`; if not given, by the host that was asked, else `openai`.
        attributes: More attributes for the span, such as `gen_ai.conversation.id`.
        capture_content: Whether the span gets the messages, of the request and of the answer, and the error's message,
            which may quote them. Think of who reads your traces.
        tracer_provider: Where the span goes; to the global one, if not given.
        meter_provider: Where the metrics go; to the global one, if not given.
    """
    tracers = get_tracer_provider() if tracer_provider is None else tracer_provider
    meters = get_meter_provider() if meter_provider is None else meter_provider
    if is_apis_own(tracers) and is_apis_own(meters):
        return stream
    request = request or {}
    version = names.names()
    common = common_attributes(request, provider, server_of(stream))
    instruments = instruments_of(meters, version, _VERSION)
    started = time.time_ns() - _nanoseconds(stream.elapsed)
    span = tracers.get_tracer(names.SCOPE, _VERSION, schema_url=version.schema_url).start_span(
        " ".join(str(common[name]) for name in (names.OPERATION_NAME, names.REQUEST_MODEL) if name in common),
        kind=SpanKind.CLIENT,
        attributes=common,
        start_time=started,
    )
    if span.is_recording():
        span.set_attributes(request_attributes(request, common[names.PROVIDER_NAME], version))
        messages = input_messages(request) if capture_content else None
        span.set_attributes({names.INPUT_MESSAGES: messages} if messages is not None else {})
        span.set_attributes(attributes or {})
    elif instruments is None:
        return stream
    measured = _Measured(
        span=span,
        context=set_span_in_context(span),
        started=started,
        common=common,
        choices=choices_asked(request),
        version=version,
        instruments=instruments,
        capture_content=capture_content,
    )
    stream.observe(on_chunks=measured.on_chunks if instruments is not None else None, on_end=measured.on_end)
    return stream


@dataclass(kw_only=True, slots=True)
class _Measured:
    """What is being measured of one stream.

    Attributes:
        span: Its span.
        context: The span's, for the metrics: so that an exemplar leads to it.
        started: When the span started, in nanoseconds since 1970.
        common: What the span and all metrics have.
        choices: How many choices were asked for.
        version: Of the names.
        instruments: The metrics, None if none are recorded.
        capture_content: Whether the messages are wanted.
        last_chunk: When the last chunk came, in seconds since the request was sent.
    """

    span: Span
    context: "Context"
    started: int
    common: Attributes
    choices: int
    version: Names
    instruments: Instruments | None
    capture_content: bool
    last_chunk: float | None = None

    def on_chunks(self, stream: Observable, count: int) -> None:
        """Chunks came: one time for each of them; those of one read came at once."""
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
        """The stream ended: all that is known of it now."""
        seconds = stream.elapsed
        self._note_model(stream.snapshot.model)
        kind = error_type(stream.error)
        error: Attributes = {} if kind is None else {names.ERROR_TYPE: kind}
        try:
            if self.instruments is not None:
                self.instruments.duration.record(seconds, {**self.common, **error}, self.context)
                self.instruments.tokens.record(usage_of(stream.snapshot), self.common, error, self.context)
            if self.span.is_recording():
                self._describe(stream, error)
        finally:
            self.span.end(self.started + _nanoseconds(seconds))

    def _note_model(self, model: Any) -> None:
        name = text_of(model)
        if name is not None:
            self.common = {**self.common, names.RESPONSE_MODEL: name}

    def _describe(self, stream: Observable, error: Attributes) -> None:
        """Put on the span what came, and how it ended."""
        provider = self.common[names.PROVIDER_NAME]
        self.span.set_attributes(response_attributes(stream.snapshot, self.choices, provider, self.version))
        self.span.set_attributes({names.STREAM_END: str(stream.end), **error})
        if stream.timing.first_chunk is not None:
            self.span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, stream.timing.first_chunk)
        if stream.anomalies:
            self.span.set_attribute(names.ANOMALIES, [anomaly.rule.id for anomaly in stream.anomalies])
        if self.capture_content:
            self.span.set_attribute(names.OUTPUT_MESSAGES, output_messages(stream.snapshot, self.version))
        if error:
            told = text_of(str(stream.error)) if self.capture_content else None  # it may quote what was sent
            self.span.set_status(Status(StatusCode.ERROR, told))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
