"""One call that measures a request with OpenTelemetry: a client span, and the metrics.

The span's parent is the context of the call. The span itself is never made current: a stream is read in pieces,
possibly by several tasks, and between two of them the context belongs to the reader.
"""

import time
from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from types import NoneType, TracebackType
from typing import Any, TypeAlias, TypeVar, cast

from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.trace import TracerProvider, get_tracer_provider
from opentelemetry.util.types import AttributeValue

from chunkfold.arguments import check_flag, check_instance
from chunkfold.otel.measuring import Measuring, Observable
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.stream.asynchronous import AsyncChatCompletionStream
from chunkfold.stream.sync import ChatCompletionStream

Connection: TypeAlias = AbstractContextManager[ChatCompletionStream]
AsyncConnection: TypeAlias = AbstractAsyncContextManager[AsyncChatCompletionStream]
MeasuredT = TypeVar("MeasuredT", bound=Observable | Connection | AsyncConnection)


def instrument(
    stream: MeasuredT,
    request: Mapping[str, Any] | None = None,
    *,
    provider: str | None = None,
    attributes: Mapping[str, AttributeValue] | None = None,
    capture_content: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> MeasuredT:
    """Measure a request with OpenTelemetry: one client span, and the metrics.

    Around `connect` or `aconnect` it measures requests that fail before there is a response too:

        with instrument(connect(client, "POST", url, json=body), body) as stream:
            ...

    The span starts when the request is sent, which a stream knows from `connect` or from its option `started`. It ends
    with the stream: when it is complete, when it fails, or when it is closed. Closing a stream early is not an error. A
    stream that is neither read to its end nor closed has no end, and so no span.

    If no SDK is set up, nothing is recorded, and the argument is returned unchanged.

    Args:
        stream: What `connect` or `aconnect` returns, to be entered; or a stream or a parser, before it is read.
        request: The body of the request, as `connect` gets it: for the model and the parameters.
        provider: `gen_ai.provider.name`; by default it follows from the host, and is `_OTHER` for an unknown host.
        attributes: More attributes for the span, such as `gen_ai.conversation.id`.
        capture_content: Whether the span gets the messages, of the request and of the answer, and the error's message,
            which may quote them. Consider who can read your traces.
        tracer_provider: Where the span goes; by default the global one.
        meter_provider: Where the metrics go; by default the global one.

    Returns:
        The stream or the parser itself; for the result of `connect`, a context manager that returns the same stream.

    Raises:
        TypeError: The stream is something else, such as a response, or another argument is of a wrong type.
    """
    context_managers = (AbstractContextManager, AbstractAsyncContextManager)
    check_instance("stream", stream, (ChatCompletionParser, *context_managers), "a stream, a parser or a connection")
    check_instance("request", request, (Mapping, NoneType), "a body as a dict or None")
    check_instance("provider", provider, (str, NoneType), "a string or None")
    check_instance("attributes", attributes, (Mapping, NoneType), "a dict or None")
    check_flag("capture_content", capture_content)
    check_instance("tracer_provider", tracer_provider, (TracerProvider, NoneType), "a TracerProvider or None")
    check_instance("meter_provider", meter_provider, (MeterProvider, NoneType), "a MeterProvider or None")
    measuring = Measuring(
        request=request or {},
        provider=provider,
        attributes=attributes or {},
        capture_content=capture_content,
        tracers=get_tracer_provider() if tracer_provider is None else tracer_provider,
        meters=get_meter_provider() if meter_provider is None else meter_provider,
    )
    if measuring.is_off:
        return stream
    if isinstance(stream, Observable):
        measuring.observe(stream)
        return stream
    around: Connection | AsyncConnection = (
        _measured(stream, measuring)
        if isinstance(stream, AbstractContextManager)
        else _AsyncMeasured(stream, measuring)
    )
    return cast("MeasuredT", around)


@contextmanager
def _measured(connection: Connection, measuring: Measuring) -> Generator[ChatCompletionStream]:
    with ExitStack() as stack:
        started = time.monotonic()
        try:
            stream = stack.enter_context(connection)
        except BaseException as error:
            measuring.failed(error, time.monotonic() - started)
            raise
        measuring.observe(stream)
        yield stream


class _AsyncMeasured(AbstractAsyncContextManager[AsyncChatCompletionStream]):
    """A class, so that one that is still open when the event loop ends leaves no generator behind."""

    def __init__(self, connection: AsyncConnection, measuring: Measuring) -> None:
        self._connection = connection
        self._measuring = measuring

    async def __aenter__(self) -> AsyncChatCompletionStream:
        started = time.monotonic()
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._connection)
            except BaseException as error:
                self._measuring.failed(error, time.monotonic() - started)
                raise
            self._measuring.observe(stream)
            stack.pop_all()
        return stream

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._connection.__aexit__(exc_type, exc, traceback)
