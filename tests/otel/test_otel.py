"""Telemetry: what a stream leaves in the SDK's in-memory exporters, however it is read and however it ends.

Whole streams come from a real server, over both fronts and both libraries. Times are exact where the stream has a clock
that only its body moves. What is secret is marked, and the marks are looked for in all that was exported.
"""

import contextlib
import gc
import json
import socket
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from cases import each_case
from fronts import (
    ASKED,
    PATIENCE,
    AsyncFront,
    Sync,
    client_of,
    each_library,
    generators_of_httpx_are_not_ours,
    over_both_fronts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_telemetry import Telemetry, kept_telemetry, latest_names, no_complaint, no_names_chosen
from made_streams import CUTS, ERROR, STOP, STREAMS, Stream
from opentelemetry import baggage, context, trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, StatusCode
from own_process import printed_by

from chunkfold import (
    APIStatusError,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    StreamEnd,
    aconnect,
    connect,
)
from chunkfold.otel import instrument, names
from chunkfold.testing import (
    DONE,
    HEAD,
    Answer,
    FakeProvider,
    ManualClock,
    chunk,
    delta,
    event,
    hostile_streams,
    json_answer,
)

pytest_generate_tests = over_both_fronts
library = each_library
pytestmark = generators_of_httpx_are_not_ours
telemetry = kept_telemetry
no_opt_in = no_names_chosen
nothing_failed = no_complaint
latest = latest_names

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
HI = delta(content="Hi")


class Clock(ManualClock):
    """A clock that only what is read moves."""

    def body(self, *pieces: tuple[float, bytes | Exception]) -> Iterator[bytes]:
        """The pieces, each that many seconds after the one before it."""
        for seconds, piece in pieces:
            self.advance(seconds)
            if isinstance(piece, Exception):
                raise piece
            yield piece


def consume(stream: ChatCompletionStream) -> None:
    with suppress(ChunkfoldError):
        for _ in stream:
            pass


# A whole stream


async def test_a_stream_leaves_one_client_span(front: Any, library: Any, telemetry: Telemetry) -> None:
    used = chunk(usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    body = (HI + STOP + used + DONE).replace(b'"model":"m"', b'"model":"m-2026"')
    with FakeProvider(Answer(body)) as provider:
        async with client_of(front, library) as client, client.connect(provider.url) as stream:
            telemetry.instrument(stream, ASKED)
            async for _ in stream:
                assert not trace.get_current_span().is_recording()  # the reader's context is the reader's
    attributes = telemetry.attributes
    assert 0 < attributes.pop("gen_ai.response.time_to_first_chunk") < PATIENCE
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "server.address": "127.0.0.1",
        "server.port": httpx.URL(provider.url).port,
        "gen_ai.response.id": HEAD["id"],
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "chunkfold.stream.end": "finished",
    }
    span = telemetry.span
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "chunkfold"


async def test_the_span_starts_when_the_request_was_sent(front: Any, telemetry: Telemetry) -> None:
    with FakeProvider(Answer([0.05, HI, STOP, DONE])) as provider:
        async with client_of(front, httpx) as client, client.connect(provider.url) as stream:
            telemetry.instrument(stream)
            headers = stream.timing.headers
            await stream.read()
    span = telemetry.span
    seconds = (span.end_time - span.start_time) / 1e9
    assert seconds >= stream.timing.last_chunk >= headers > 0
    assert telemetry.attributes["gen_ai.response.time_to_first_chunk"] == stream.timing.first_chunk


def test_times_are_those_of_the_streams_own_clock(telemetry: Telemetry) -> None:
    clock = Clock()
    pieces = clock.body((0.5, HI), (0.02, HI), (3.0, HI + HI), (0.0, STOP), (1.0, DONE))
    with telemetry.instrument(ChatCompletionStream(pieces, clock=clock, started=-2.0)) as stream:
        stream.read()
    assert telemetry.span.end_time - telemetry.span.start_time == 6_520_000_000
    assert telemetry.point("gen_ai.client.operation.duration").sum == pytest.approx(6.52)
    assert telemetry.point("gen_ai.client.operation.time_to_first_chunk").sum == pytest.approx(2.5)
    # Five chunks: the second of a read came with the first of it.
    gaps = telemetry.point("gen_ai.client.operation.time_per_output_chunk")
    assert (gaps.count, gaps.min, gaps.max, gaps.sum) == (4, 0.0, pytest.approx(3.0), pytest.approx(3.02))


WAYS: dict[str, Callable[[Any], object]] = {
    "for": list,
    "read": lambda stream: stream.read(),
    "text_deltas": lambda stream: list(stream.text_deltas()),
    "events": lambda stream: list(stream.events()),
    "partials": lambda stream: list(stream.partials()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 2**20])
def test_however_it_is_read_the_same_is_measured(way: str, size: int, telemetry: Telemetry) -> None:
    pieces = [delta(content="[") * 1, *[delta(content=" " * 90)] * 600, delta(content="]"), STOP, DONE]
    whole = b"".join(pieces)
    reads = pieces if size == 1 else [whole]  # the second is read in slices
    with telemetry.instrument(ChatCompletionStream(reads)) as stream:
        WAYS[way](stream)
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert telemetry.attributes["chunkfold.stream.end"] == "finished"
    assert telemetry.point("gen_ai.client.operation.time_to_first_chunk").count == 1
    assert telemetry.point("gen_ai.client.operation.time_per_output_chunk").count == len(pieces) - 2
    assert telemetry.point("gen_ai.client.operation.duration").count == 1


def test_the_parent_is_the_context_of_the_call(telemetry: Telemetry) -> None:
    with telemetry.tracers.get_tracer("t").start_as_current_span("request") as parent:
        stream = telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]))
        assert trace.get_current_span() is parent
    stream.read()
    (span,) = [span for span in telemetry.spans if span.name == "chat"]
    assert span.parent is not None
    assert span.parent.span_id == parent.get_span_context().span_id


def test_an_exemplar_leads_to_the_span(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE])).read()
    span = telemetry.span.context
    metrics = telemetry.metrics  # once: the SDK forgets exemplars when they were collected
    for name in ("duration", "time_to_first_chunk"):
        (point,) = metrics[f"gen_ai.client.operation.{name}"].data.data_points
        (exemplar,) = point.exemplars
        assert (exemplar.trace_id, exemplar.span_id) == (span.trace_id, span.span_id)


def test_a_parser_is_measured_too(telemetry: Telemetry) -> None:
    parser = telemetry.instrument(ChatCompletionParser(), ASKED)
    for data in (HI, STOP, DONE):
        parser.feed(data)
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert "server.address" not in telemetry.attributes


@pytest.mark.parametrize("value", [None, [HI, STOP, DONE], httpx.Response(200)], ids=["nothing", "bytes", "a response"])
def test_what_cannot_be_measured_is_refused(value: Any, telemetry: Telemetry) -> None:
    for measure in (telemetry.instrument, instrument):  # with an SDK, and without
        with pytest.raises(TypeError, match=r"^stream: expected a stream, a parser or a connection, received "):
            measure(value)


def test_a_connection_that_opens_no_stream_is_refused(telemetry: Telemetry) -> None:
    response = httpx.Response(200, content=HI + STOP + DONE)
    opening: Any = contextlib.nullcontext(response)  # as `client.stream` does
    with pytest.raises(TypeError, match=r"^stream: expected a stream, as connect or aconnect opens it, received "):
        telemetry.instrument_around(opening).__enter__()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request", b'{"model": "m"}'),
        ("provider", 5),
        ("attributes", [("a", 1)]),
        ("capture_content", "no"),
        ("tracer_provider", TracerProvider().get_tracer("a")),
        ("meter_provider", TracerProvider()),
    ],
)
def test_a_wrong_argument_is_refused_before_a_request_is_sent(name: str, value: Any) -> None:
    connection = connect(httpx.Client(), "POST", "http://chunkfold.invalid", json={})
    for measured in (ChatCompletionStream([HI, STOP, DONE]), connection):
        with pytest.raises(TypeError, match=rf"^{name}: expected a.* or None|^{name}: expected a bool"):
            instrument(measured, **{name: value})


def test_two_streams_share_the_metrics(telemetry: Telemetry) -> None:
    for _ in range(2):
        telemetry.instrument(ChatCompletionStream([HI, STOP, DONE])).read()
    assert telemetry.point("gen_ai.client.operation.duration").count == 2
    assert len(telemetry.spans) == 2  # and the SDK, which warns of an instrument that is made twice, logged nothing


# How it ended: what came, the end, the class of the error, the finish reasons

RESET = httpx.ReadError("reset")
ENDS: dict[str, tuple[list[bytes | Exception], StreamEnd, str | None, tuple[str, ...]]] = {
    "finished": ([HI, STOP, DONE], StreamEnd.FINISHED, None, ("stop",)),
    "finished, then a reset": ([HI, STOP, RESET], StreamEnd.FINISHED, None, ("stop",)),
    "done without a finish reason": ([HI, DONE], StreamEnd.DONE, None, ("error",)),
    "empty": ([DONE], StreamEnd.EMPTY, "IncompleteStreamError", ("error",)),
    "no bytes at all": ([], StreamEnd.EMPTY, "IncompleteStreamError", ("error",)),
    "truncated": ([HI], StreamEnd.TRUNCATED, "IncompleteStreamError", ("error",)),
    "an error of the provider": ([HI, ERROR], StreamEnd.FAILED, "503", ("error",)),
    "an error without a status": ([event({"error": {"message": "x"}})], StreamEnd.FAILED, "APIError", ("error",)),
    "an error as the finish reason": ([delta("network_error")], StreamEnd.FAILED, "502", ("network_error",)),
    "no chunk": ([HI, event(b"oops")], StreamEnd.INVALID, "InvalidChunkError", ("error",)),
    "no event stream": ([b"<html></html>"], StreamEnd.INVALID, "NotAnEventStreamError", ("error",)),
    "a reset": ([HI, RESET], StreamEnd.INTERRUPTED, "StreamInterruptedError", ("error",)),
    "one choice of two": ([HI, delta("stop", 1)], StreamEnd.TRUNCATED, "IncompleteStreamError", ("error", "stop")),
    "two choices": ([delta("length"), delta("stop", 1)], StreamEnd.FINISHED, None, ("length", "stop")),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("way", [consume, ChatCompletionStream.read], ids=["for", "read"])
def test_each_end(case: str, way: Callable[[Any], object], telemetry: Telemetry) -> None:
    pieces, end, error, reasons = ENDS[case]
    stream = ChatCompletionStream(Clock().body(*((0.0, piece) for piece in pieces)))
    with telemetry.instrument(stream), suppress(ChunkfoldError):
        way(stream)
    assert_told(telemetry, end, error, reasons)


def assert_told(telemetry: Telemetry, end: StreamEnd, error: str | None, reasons: tuple[str, ...]) -> None:
    span, attributes = telemetry.span, telemetry.attributes
    assert attributes["chunkfold.stream.end"] == end
    assert attributes["gen_ai.response.finish_reasons"] == reasons
    assert attributes.get("error.type") == error
    assert span.status.status_code is (StatusCode.UNSET if error is None else StatusCode.ERROR)
    assert span.status.description is None
    duration = telemetry.point("gen_ai.client.operation.duration")
    assert duration.count == 1
    assert duration.attributes.get("error.type") == error


def test_every_end_has_a_case() -> None:
    elsewhere = {StreamEnd.STALLED, StreamEnd.CLOSED}
    assert {end for _, end, _, _ in ENDS.values()} | elsewhere == set(StreamEnd)


def test_a_stall(telemetry: Telemetry) -> None:
    clock = Clock()
    body = clock.body((1.0, HI), (9.0, b": ping\n\n"))
    with telemetry.instrument(ChatCompletionStream(body, clock=clock, progress_timeout=5.0)) as stream:
        consume(stream)
    assert_told(telemetry, StreamEnd.STALLED, "StreamStalledError", ("error",))
    assert telemetry.point("gen_ai.client.operation.duration").sum == pytest.approx(10.0)


@pytest.mark.parametrize("is_around", [False, True], ids=["inside", "around connect"])
async def test_a_status_that_is_not_2xx(front: Any, library: Any, telemetry: Telemetry, is_around: bool) -> None:
    async def ask(client: Any, url: str) -> None:
        async with measured_connection(client, url, telemetry) if is_around else client.connect(url) as stream:
            if not is_around:
                telemetry.instrument(stream, ASKED)
            await stream.read()

    answer = json_answer({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, status=429)
    with FakeProvider(answer) as provider:
        async with client_of(front, library) as client:
            with pytest.raises(APIStatusError):
                await ask(client, provider.url)
    assert_told(telemetry, StreamEnd.FAILED, "429", ("error",))


# The request fails before there is a response


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    with socket.socket() as bound:  # bound and not listening, so that nobody else can take it
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


UNSENT: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown name": (lambda: contextlib.nullcontext("http://provider.invalid/v1"), "ConnectError"),
    "refused": (closed_port, "ConnectError"),
    "timeout": (silent_server, "ReadTimeout"),
}


@pytest.mark.parametrize("case", UNSENT)
async def test_a_request_that_fails_before_a_response_has_its_span(
    case: str, front: Any, library: Any, telemetry: Telemetry
) -> None:
    serving, error = UNSENT[case]
    tracer = telemetry.tracers.get_tracer("t")
    with serving() as url:
        async with client_of(front, library, timeout=0.2) as client:
            connection = measured_connection(client, url, telemetry)
            with tracer.start_as_current_span("parent") as parent, pytest.raises(getattr(library, error)):
                async with connection:
                    raise AssertionError
    (span,) = [span for span in telemetry.spans if span.name == "chat m"]
    assert span.parent is not None
    assert span.parent.span_id == parent.get_span_context().span_id
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("error",),
        "server.address": httpx.URL(url).host,
        "server.port": httpx.URL(url).port or 80,
        "error.type": error,
    }
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    point = telemetry.point("gen_ai.client.operation.duration")
    assert (point.count, point.attributes["error.type"]) == (1, error)
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(point.sum, abs=1e-6)
    if case == "timeout":
        assert point.sum >= 0.2


class Failing(SpanProcessor):
    """A span processor that raises.

    Args:
        where: In which of its methods.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._call("on_start")

    def on_end(self, span: Any) -> None:
        self._call("on_end")

    def _call(self, method: str) -> None:
        if method == self._where:
            raise ZeroDivisionError


@pytest.mark.parametrize("where", ["on_start", "on_end"])
def test_an_error_of_the_telemetry_never_reaches_the_reader(
    where: str, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry.tracers.add_span_processor(Failing(where))
    with httpx.Client() as client, FakeProvider(Answer(HI + STOP + DONE)) as provider:
        with telemetry.instrument_around(connect(client, "POST", provider.url, json=ASKED), ASKED) as stream:
            assert stream.read().text == "Hi"
        with pytest.raises(httpx.UnsupportedProtocol):
            telemetry.instrument_around(connect(client, "POST", "nowhere", json=ASKED), ASKED).__enter__()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    caplog.clear()


def measured_connection(client: Any, url: str, telemetry: Telemetry) -> Any:
    """What `instrument` makes of `connect` or `aconnect`, with the methods of the async one."""
    open_ = aconnect if isinstance(client, AsyncFront) else connect
    measured = telemetry.instrument_around(open_(client.client, "POST", url, json=ASKED), ASKED)
    return measured if isinstance(client, AsyncFront) else as_async(measured)


@contextlib.asynccontextmanager
async def as_async(connection: Any) -> Any:
    with connection as stream:
        yield Sync.of(stream)


async def test_around_connect_the_stream_is_measured(front: Any, library: Any, telemetry: Telemetry) -> None:
    with FakeProvider(Answer(HI + STOP + DONE)) as provider:
        async with client_of(front, library) as client:
            async with measured_connection(client, provider.url, telemetry) as stream:
                assert (await stream.read()).text == "Hi"
                assert stream.response.is_closed is False
            assert stream.response.is_closed
    assert_told(telemetry, StreamEnd.FINISHED, None, ("stop",))
    assert telemetry.attributes["server.port"] == httpx.URL(provider.url).port


def test_the_message_of_a_failed_request_is_content(telemetry: Telemetry) -> None:
    with closed_port() as url, httpx.Client(trust_env=False) as client:
        connection = connect(client, "POST", url, json=ASKED)
        measured = telemetry.instrument_around(connection, ASKED, capture_content=True)
        with pytest.raises(httpx.ConnectError) as caught, measured:
            raise AssertionError
    assert telemetry.span.status.description == str(caught.value)
    assert "gen_ai.input.messages" in telemetry.attributes


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelling_before_a_response_is_no_error(library: Any, telemetry: Telemetry) -> None:
    async with client_of(AsyncFront, library) as client:
        with silent_server() as url, anyio.move_on_after(0.1) as scope:
            async with measured_connection(client, url, telemetry):
                raise AssertionError
    assert scope.cancelled_caught
    assert "error.type" not in telemetry.attributes
    assert telemetry.span.status.status_code is StatusCode.UNSET


# The consumer leaves


class BoredError(Exception):
    """The consumer's own."""


def throw(stream: object) -> None:
    raise BoredError


LEAVING: dict[str, Callable[[Any], object]] = {
    "without a word": lambda stream: None,
    "by close": lambda stream: stream.close(),
    "by an exception": throw,
}


@pytest.mark.parametrize("way", LEAVING)
def test_leaving_ends_the_span_and_is_no_error(way: str, telemetry: Telemetry) -> None:
    with (
        FakeProvider(Answer([HI], ending="open")) as provider,
        httpx.Client(trust_env=False) as client,
        suppress(BoredError),
        connect(client, "POST", provider.url, json=ASKED) as stream,
    ):
        telemetry.instrument(stream, ASKED)
        for _ in stream:
            break
        assert telemetry.spans == []
        LEAVING[way](stream)
    assert_told(telemetry, StreamEnd.CLOSED, None, ("error",))
    stream.close()
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelling_ends_the_span_and_is_no_error(library: Any, telemetry: Telemetry) -> None:
    with FakeProvider(Answer([HI], ending="open")) as provider:
        async with client_of(AsyncFront, library) as client:
            with anyio.CancelScope() as scope:
                async with client.connect(provider.url) as stream:
                    telemetry.instrument(stream, ASKED)
                    async for _ in stream:
                        scope.cancel()
    assert scope.cancelled_caught
    assert_told(telemetry, StreamEnd.CLOSED, None, ("error",))


def test_leaving_after_every_finish_reason_is_a_finish(telemetry: Telemetry) -> None:
    with telemetry.instrument(ChatCompletionStream([HI, STOP, DONE])) as stream:
        next(stream)
        next(stream)
    assert_told(telemetry, StreamEnd.FINISHED, None, ("stop",))


def test_a_stream_that_has_ended_before_is_told_at_once(telemetry: Telemetry) -> None:
    stream = ChatCompletionStream([HI, STOP, DONE])
    stream.read()
    telemetry.instrument(stream)
    assert_told(telemetry, StreamEnd.FINISHED, None, ("stop",))


def test_another_thread_may_close_it(telemetry: Telemetry) -> None:
    released, reading = threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        yield HI
        reading.set()
        assert released.wait(PATIENCE)
        yield STOP + DONE

    stream = telemetry.instrument(ChatCompletionStream(body()))
    reader = threading.Thread(target=consume, args=(stream,))
    reader.start()
    assert reading.wait(PATIENCE)
    stream.close()
    released.set()
    reader.join(PATIENCE)
    assert_told(telemetry, StreamEnd.CLOSED, None, ("error",))


# What was asked for

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
ASKED_FOR = {
    "gen_ai.request.model": "gpt-5-mini",
    "gen_ai.request.choice.count": 2,
    "gen_ai.request.temperature": 0.0,
    "gen_ai.request.top_p": 0.5,
    "gen_ai.request.top_k": 40.0,
    "gen_ai.request.frequency_penalty": 0.25,
    "gen_ai.request.presence_penalty": -1.0,
    "gen_ai.request.max_tokens": 20,
    "gen_ai.request.seed": 7,
    "gen_ai.request.stop_sequences": ("END",),
    "gen_ai.output.type": "json",
    "openai.request.service_tier": "flex",
}


def test_the_parameters_of_the_request(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), REQUEST, provider="openai").read()
    attributes = telemetry.attributes
    assert {name: attributes.get(name) for name in ASKED_FOR} == ASKED_FOR
    assert isinstance(attributes["gen_ai.request.top_k"], float)
    assert "gen_ai.request.reasoning.level" not in attributes
    assert telemetry.span.name == "chat gpt-5-mini"


def test_a_request_of_wrong_types_says_nothing(telemetry: Telemetry) -> None:
    wrong: dict[str, Any] = {name: {"a": object()} for name in REQUEST}
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), {**wrong, "seed": True, "n": -1}).read()
    assert telemetry.attributes.keys() & ASKED_FOR.keys() == set()
    assert telemetry.span.name == "chat"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"response_format": {"type": "json_object"}}, {"gen_ai.output.type": "json"}),
        ({"response_format": {"type": "text"}}, {"gen_ai.output.type": "text"}),
        ({"response_format": {"type": "another"}}, {}),
        ({"modalities": ["text", "audio"]}, {"gen_ai.output.type": "speech"}),
        ({"modalities": ["text"]}, {}),
        ({"seed": 2**63 - 1}, {"gen_ai.request.seed": 2**63 - 1}),
        ({"seed": -(2**63)}, {"gen_ai.request.seed": -(2**63)}),
        ({"seed": -(2**63) - 1, "max_tokens": -1}, {}),
        ({"max_completion_tokens": 0, "max_tokens": 20}, {"gen_ai.request.max_tokens": 0}),
        ({"seed": 2**63, "temperature": 10**400, "top_k": -(10**400)}, {}),  # beyond what exporters can send
        ({"max_completion_tokens": None, "max_tokens": 20}, {"gen_ai.request.max_tokens": 20}),
    ],
)
def test_single_parameters_of_the_request(asked: Any, found: dict[str, Any], telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), asked).read()
    assert {name: telemetry.attributes[name] for name in ASKED_FOR if name in telemetry.attributes} == found


@pytest.mark.parametrize(
    ("asked", "body", "reasons"),
    [
        (1, HI + STOP, ("stop",)),
        (3, HI + STOP + DONE, ("stop", "error", "error")),
        (2, DONE, ("error", "error")),
        (1, delta("stop", 7), ("error", "stop")),
        (10**9, DONE, ("error",) * 128),
    ],
)
def test_each_choice_that_was_asked_for_has_a_finish_reason(
    asked: int, body: bytes, reasons: tuple[str, ...], telemetry: Telemetry
) -> None:
    stream = telemetry.instrument(ChatCompletionStream([body]), {"n": asked})
    consume(stream)
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == reasons


HOSTS = {
    "https://api.openai.com/v1": ("openai", 443),
    "https://my.openai.azure.com/openai": ("azure.ai.openai", 443),
    "https://my.cognitiveservices.azure.com/openai": ("azure.ai.openai", 443),
    "https://us-central1-aiplatform.googleapis.com/v1": ("gcp.vertex_ai", 443),
    "https://aiplatform.eu.rep.googleapis.com/v1": ("gcp.vertex_ai", 443),
    "https://generativelanguage.googleapis.com/v1beta/openai": ("gcp.gemini", 443),
    "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1": ("aws.bedrock", 443),
    "https://bedrock-runtime-fips.us-west-2.amazonaws.com/openai/v1": ("aws.bedrock", 443),
    "https://bedrock-mantle.us-east-1.api.aws/v1": ("aws.bedrock", 443),
    "https://api.deepseek.com": ("deepseek", 443),
    "https://api.groq.com/openai/v1": ("groq", 443),
    "http://api.mistral.ai:8080": ("mistral_ai", 8080),
    "https://api.eu.mistral.ai/v1": ("mistral_ai", 443),
    "https://codestral.mistral.ai/v1": ("mistral_ai", 443),
    "https://us.api.x.ai/v1": ("x_ai", 443),
    "http://vllm.example/v1": ("_OTHER", 80),
    "https://api.deepseek.com.example": ("_OTHER", 443),
}


@pytest.mark.parametrize("url", HOSTS)
def test_the_provider_is_known_by_its_host(url: str, telemetry: Telemetry) -> None:
    provider, port = HOSTS[url]
    body = event({**HEAD, "service_tier": "flex", "choices": []}) + STOP + DONE
    response = httpx.Response(200, content=body, request=httpx.Request("POST", url))
    telemetry.instrument(ChatCompletionStream(response)).read()
    attributes = telemetry.attributes
    assert (attributes["gen_ai.provider.name"], attributes["server.port"]) == (provider, port)
    assert attributes["server.address"] == httpx.URL(url).host
    assert ("openai.response.service_tier" in attributes) == (provider == "openai")


def test_a_provider_and_more_attributes_can_be_given(telemetry: Telemetry) -> None:
    given = {"gen_ai.conversation.id": "conv_1", "gen_ai.request.model": "alias"}
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, ASKED, provider="groq", attributes=given).read()
    assert telemetry.attributes.items() >= given.items()
    assert telemetry.attributes["gen_ai.provider.name"] == "groq"
    assert "openai.api.type" not in telemetry.attributes
    point = telemetry.point("gen_ai.client.operation.duration")
    assert point.attributes["gen_ai.provider.name"] == "groq"
    assert "gen_ai.conversation.id" not in point.attributes


def test_a_response_that_was_made_by_hand_has_no_server(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream(httpx.Response(200, content=HI + STOP))).read()
    assert "server.address" not in telemetry.attributes


# The metrics

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
SPENT = chunk(
    usage={
        "prompt_tokens": 900,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 512, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
)
COMMON = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}


def counted(telemetry: Telemetry, body: Iterable[bytes]) -> None:
    with telemetry.instrument(ChatCompletionStream(body), ASKED) as stream:
        consume(stream)


def test_the_released_metrics(telemetry: Telemetry) -> None:
    counted(telemetry, [HI, STOP, SPENT, DONE])
    metrics = telemetry.metrics
    assert {name: (metric.unit, telemetry.points(name)[0].explicit_bounds) for name, metric in metrics.items()} == {
        "gen_ai.client.operation.duration": ("s", SECONDS),
        "gen_ai.client.operation.time_to_first_chunk": ("s", SECONDS),
        "gen_ai.client.operation.time_per_output_chunk": ("s", SECONDS),
        "gen_ai.client.token.usage": ("{token}", TOKENS),
    }
    used = {point.attributes["gen_ai.token.type"]: point.sum for point in telemetry.points("gen_ai.client.token.usage")}
    assert used == {"input": 900, "output": 30}
    for name in metrics:
        for point in telemetry.points(name):
            assert set(point.attributes) - {"gen_ai.token.type"} == COMMON
    assert telemetry.attributes["gen_ai.usage.cache_creation.input_tokens"] == 100
    assert telemetry.attributes["gen_ai.usage.reasoning.output_tokens"] == 20


@pytest.mark.usefixtures("latest")
def test_the_latest_metrics(telemetry: Telemetry) -> None:
    counted(telemetry, [HI, STOP, SPENT, DONE])
    metrics = telemetry.metrics
    histograms = {name: telemetry.point(name) for name in metrics if ".usage." not in name}
    assert {name: (metrics[name].unit, point.explicit_bounds) for name, point in histograms.items()} == {
        "gen_ai.client.inference.duration": ("s", SECONDS),
        "gen_ai.client.inference.time_to_first_chunk": ("s", SECONDS),
        "gen_ai.client.inference.time_per_output_chunk": ("s", SECONDS),
        "gen_ai.client.inference.operation.input_tokens": ("{token}", TOKENS),
        "gen_ai.client.inference.operation.output_tokens": ("{token}", TOKENS),
    }
    counters = {name: telemetry.point(name) for name in metrics if ".usage." in name}
    assert {name: (metrics[name].unit, point.value) for name, point in counters.items()} == {
        "gen_ai.client.inference.usage.input_tokens": ("{token}", 900),
        "gen_ai.client.inference.usage.output_tokens": ("{token}", 30),
        "gen_ai.client.inference.usage.cache_read.input_tokens": ("{token}", 512),
        "gen_ai.client.inference.usage.cache_write.input_tokens": ("{token}", 100),
        "gen_ai.client.inference.usage.reasoning.output_tokens": ("{token}", 20),
    }
    assert {point.attributes["gen_ai.token.modality"] for point in counters.values()} == {"unknown"}
    assert all(set(point.attributes) == COMMON for point in histograms.values())
    span = telemetry.span
    assert histograms["gen_ai.client.inference.duration"].sum == pytest.approx((span.end_time - span.start_time) / 1e9)


@pytest.mark.usefixtures("latest")
def test_the_latest_attributes(telemetry: Telemetry) -> None:
    stream = ChatCompletionStream([HI, STOP, SPENT, DONE])
    telemetry.instrument(stream, REQUEST, capture_content=True).read()
    attributes = telemetry.attributes
    assert attributes["gen_ai.usage.cache_write.input_tokens"] == 100
    assert attributes["gen_ai.request.reasoning.level"] == "low"
    assert attributes["gen_ai.request.top_k"] == 40
    assert isinstance(attributes["gen_ai.request.top_k"], int)
    assert "gen_ai.usage.cache_creation.input_tokens" not in attributes
    assert json.loads(attributes["gen_ai.output.messages"])[0].keys() == {"role", "parts"}


@pytest.mark.usefixtures("latest")
def test_the_latest_token_histograms_say_that_it_failed(telemetry: Telemetry) -> None:
    counted(telemetry, [HI, SPENT, ERROR])
    assert telemetry.point("gen_ai.client.inference.operation.input_tokens").attributes["error.type"] == "503"
    assert "error.type" not in telemetry.point("gen_ai.client.inference.usage.input_tokens").attributes


def test_usage_that_did_not_come_is_not_invented(telemetry: Telemetry) -> None:
    counted(telemetry, [HI, STOP, DONE])
    assert [name for name in telemetry.metrics if "token" in name] == []
    assert [name for name in telemetry.attributes if "usage" in name] == []


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize("body", [[HI, STOP, DONE], [HI, ERROR], []], ids=["whole", "failed", "nothing came"])
def test_the_latest_counters_count_0_for_usage_that_did_not_come(body: list[bytes], telemetry: Telemetry) -> None:
    counted(telemetry, body)
    counters = [name for name in telemetry.metrics if "token" in name]
    assert all(".usage." in name for name in counters)
    assert len(counters) == 5
    for name in counters:
        point = telemetry.point(name)
        assert (point.value, point.attributes["gen_ai.token.modality"]) == (0, "unknown")
    assert [name for name in telemetry.attributes if "usage" in name] == []


MODALITIES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "all of them": (
        {"text_tokens": 60, "audio_tokens": 30, "image_tokens": 10},
        {"text": 60, "audio": 30, "image": 10},
    ),
    "a part": ({"audio_tokens": 30}, {"audio": 30, "unknown": 70}),
    "none": ({"audio_tokens": 0, "cached_tokens": 5}, {"unknown": 100}),
    "more than there are": ({"text_tokens": 80, "audio_tokens": 30}, {"unknown": 100}),
    "of wrong types": ({"text_tokens": "60", "audio_tokens": -1, "image_tokens": True}, {"unknown": 100}),
}


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize("case", MODALITIES)
@pytest.mark.parametrize(("way", "field"), [("input", "prompt"), ("output", "completion")])
def test_tokens_are_split_by_the_modalities_that_were_sent(
    way: str, field: str, case: str, telemetry: Telemetry
) -> None:
    details, parts = MODALITIES[case]
    used = chunk(usage={f"{field}_tokens": 100, f"{field}_tokens_details": details})
    counted(telemetry, [HI, STOP, used, DONE])
    points = telemetry.points(f"gen_ai.client.inference.usage.{way}_tokens")
    assert {point.attributes["gen_ai.token.modality"]: point.value for point in points} == parts
    assert telemetry.point(f"gen_ai.client.inference.operation.{way}_tokens").sum == 100


@pytest.mark.parametrize("opt_in", ["", names.OPT_IN_LATEST])
def test_the_span_has_the_modalities_by_the_latest_names(
    opt_in: str, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.OPT_IN, opt_in)
    spoken = {"audio_tokens": 30, "text_tokens": 70, "image_tokens": 0}
    used = {"prompt_tokens": 100, "prompt_tokens_details": spoken, "completion_tokens_details": {"audio_tokens": 5}}
    counted(telemetry, [HI, STOP, chunk(usage=used), DONE])
    kinds = {name: value for name, value in telemetry.attributes.items() if name.count(".") == 3 and "usage" in name}
    latest = {"audio.input_tokens": 30, "text.input_tokens": 70, "audio.output_tokens": 5}
    assert kinds == ({f"gen_ai.usage.{name}": value for name, value in latest.items()} if opt_in else {})


def test_a_stream_without_chunks_has_no_time_to_one(telemetry: Telemetry) -> None:
    counted(telemetry, [DONE])
    assert set(telemetry.metrics) == {"gen_ai.client.operation.duration"}
    assert "gen_ai.response.time_to_first_chunk" not in telemetry.attributes


# The names


def test_the_environment_chooses_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, chosen in {
        "": names.RELEASED,
        "http/dup": names.RELEASED,
        "gen_ai_latest_experimental_2": names.RELEASED,
        "gen_ai_latest_experimental": names.LATEST,
        "http, gen_ai_latest_experimental ,db": names.LATEST,
    }.items():
        monkeypatch.setenv(names.OPT_IN, value)
        assert names.names() is chosen


def all_names() -> set[str]:
    """Every name of an attribute or a metric."""
    texts = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    for version in (names.RELEASED, names.LATEST):
        texts |= {value for value in map(version.__getattribute__, version.__slots__) if isinstance(value, str)}
        texts |= {*version.usage_input_tokens_of.values(), *version.usage_output_tokens_of.values()}
    return {text for text in texts if text.startswith(("gen_ai.", "openai.", "server.", "error.", "chunkfold."))}


def test_the_page_has_every_name() -> None:
    text = PAGE.read_text("utf-8")
    assert {name for name in all_names() if f"`{name}`" not in text} == set()


def test_the_released_names_are_known_to_the_conventions_package() -> None:
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    metrics = pytest.importorskip("opentelemetry.semconv._incubating.metrics.gen_ai_metrics")
    if not hasattr(pytest.importorskip("opentelemetry.semconv.schemas").Schemas, "V1_41_1"):
        pytest.skip("needs opentelemetry-semantic-conventions of v1.41 or later")
    known = {value for module in (attributes, metrics) for value in vars(module).values() if isinstance(value, str)}
    latest = {names.TOKEN_MODALITY} | {name for name in all_names() if "client.inference." in name}
    latest |= {names.LATEST.usage_cache_write_tokens, names.LATEST.request_reasoning_level}
    latest |= {*names.LATEST.usage_input_tokens_of.values(), *names.LATEST.usage_output_tokens_of.values()}
    assert {name for name in all_names() - latest if name.startswith("gen_ai.")} <= known


def test_no_other_module_has_names() -> None:
    for path in Path(names.__file__).parent.glob("*.py"):
        if path.name != "names.py":
            assert '"gen_ai.' not in path.read_text("utf-8"), path.name


# Content

SECRET = "Rosebud"
TALK = {
    "model": "m",
    "user": SECRET,
    "messages": [
        {"role": "system", "content": f"Be {SECRET}."},
        {"role": "user", "content": [{"type": "text", "text": SECRET}, {"type": "image_url", "image_url": "data:x"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": f'{{"a":"{SECRET}"}}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": SECRET},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}],
}
TOLD = [
    delta(reasoning_content=SECRET),
    delta(content=SECRET),
    delta(refusal=SECRET),
    delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": f'{{"a":"{SECRET}"}}'}}]),
]
SPOKEN: dict[str, list[bytes]] = {
    "an answer": [*TOLD, delta("tool_calls"), DONE],
    "a cut answer": TOLD,
    "an error": [*TOLD, event({"error": {"message": SECRET, "type": SECRET, "code": SECRET, "param": SECRET}})],
    "no chunk": [*TOLD, event(f'"{SECRET}"'.encode())],
    "no event stream": [SECRET.encode()],
    "a reply of an unknown kind": [event({**HEAD, SECRET: SECRET, "choices": [{"delta": {SECRET: SECRET}}]})],
}


@pytest.mark.parametrize("case", SPOKEN)
def test_no_content_is_exported_unless_asked(case: str, telemetry: Telemetry) -> None:
    with telemetry.instrument(ChatCompletionStream(SPOKEN[case]), TALK) as stream:
        consume(stream)
    assert telemetry.spans
    assert SECRET not in telemetry.exported


def test_content_is_captured_when_asked(telemetry: Telemetry) -> None:
    telemetry.instrument(ChatCompletionStream(SPOKEN["an answer"]), TALK, capture_content=True).read()
    call = {"type": "tool_call", "id": "a", "name": "f", "arguments": {"a": SECRET}}
    assert json.loads(telemetry.attributes["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": f"Be {SECRET}."}]},
        {"role": "user", "parts": [{"type": "text", "content": SECRET}, {"type": "image_url"}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "a", "response": SECRET}]},
    ]
    assert json.loads(telemetry.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": SECRET},
                {"type": "text", "content": SECRET},
                {"type": "refusal", "content": SECRET},
                {**call, "id": "b"},
            ],
            "finish_reason": "tool_calls",
        }
    ]
    assert SECRET not in str(telemetry.reader.get_metrics_data())


def test_a_legacy_function_call_of_the_answer_is_captured(telemetry: Telemetry) -> None:
    call = delta("function_call", function_call={"name": "f", "arguments": '{"a":1}'})
    telemetry.instrument(ChatCompletionStream([call, DONE]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "tool_call", "id": None, "name": "f", "arguments": {"a": 1}}]


def test_messages_of_other_kinds_are_captured_as_far_as_they_are_known(telemetry: Telemetry) -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "f", "input": "no JSON"}}
    calls = [custom, {"id": "b", "type": "x"}, "no call"]
    messages = [{"role": "assistant", "content": ["Hi", 5, {"type": "file"}], "tool_calls": calls}, "no message"]
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, {"messages": messages}, capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.input.messages"])
    assert message["parts"] == [
        {"type": "text", "content": "Hi"},
        {"type": "int"},
        {"type": "file"},
        {"type": "tool_call", "id": "a", "name": "f", "arguments": "no JSON"},
        {"type": "tool_call", "id": "b", "name": ""},
    ]


PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{SECRET}"}}
SOUND = {"type": "input_audio", "input_audio": {"data": SECRET, "format": "wav"}}
TOOL_RESULTS: dict[str, tuple[Any, Any]] = {
    "a text": ("22 °C", "22 °C"),
    "nothing": (None, None),
    "texts": ([{"type": "text", "text": "22"}, "°C"], [{"type": "text", "content": text} for text in ("22", "°C")]),
    "an image": (
        [{"type": "text", "text": "Look:"}, PICTURE],
        [{"type": "text", "content": "Look:"}, {"type": "image_url"}],
    ),
    "audio and a number": ([SOUND, 5], [{"type": "input_audio"}, {"type": "int"}]),
    "an image that stands alone": (PICTURE, {"type": "image_url"}),
}


TURNS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a refusal": ({"refusal": "No."}, [{"type": "refusal", "content": "No."}]),
    "a refusal among the content": (
        {"content": [{"type": "refusal", "refusal": "No."}]},
        [{"type": "refusal", "content": "No."}],
    ),
    "reasoning_content": ({"reasoning_content": "So."}, [{"type": "reasoning", "content": "So."}]),
    "reasoning": ({"reasoning": "So."}, [{"type": "reasoning", "content": "So."}]),
    "reasoning_details": (
        {"reasoning_details": [{"type": "reasoning.text", "text": "So."}]},
        [{"type": "reasoning", "content": "So."}],
    ),
    "reasoning among the content": (
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So."}]}, {"type": "text", "text": "Hi"}]},
        [{"type": "reasoning", "content": "So."}, {"type": "text", "content": "Hi"}],
    ),
    "an old function call": (
        {"function_call": {"name": "f", "arguments": '{"a": 1}'}},
        [{"type": "tool_call", "id": None, "name": "f", "arguments": {"a": 1}}],
    ),
    "audio": ({"audio": {"id": "audio_1"}}, [{"type": "audio"}]),
    "several": (
        {"reasoning_content": "So.", "content": "Hi", "refusal": "No.", "function_call": {"name": "f"}},
        [
            {"type": "reasoning", "content": "So."},
            {"type": "text", "content": "Hi"},
            {"type": "refusal", "content": "No."},
            {"type": "tool_call", "id": None, "name": "f", "arguments": None},
        ],
    ),
    "values of wrong types": (
        {"refusal": 5, "reasoning": [1], "reasoning_details": 5, "function_call": "f", "audio": 5, "tool_calls": 5},
        [],
    ),
}  # fmt: skip


MESSAGES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    **{
        f"a tool's result: {name}": (
            {"role": "tool", "tool_call_id": "a", "content": content},
            [{"type": "tool_call_response", "id": "a", "response": response}],
        )
        for name, (content, response) in TOOL_RESULTS.items()
    },
    **{name: ({"role": "assistant", "content": None, **fields}, parts) for name, (fields, parts) in TURNS.items()},
}


@pytest.mark.parametrize("case", MESSAGES)
def test_of_a_message_of_the_request_texts_and_calls_are_captured(case: str, telemetry: Telemetry) -> None:
    message, parts = MESSAGES[case]
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, {"messages": [message]}, capture_content=True).read()
    (told,) = json.loads(telemetry.attributes["gen_ai.input.messages"])
    assert told == {"role": message["role"], "parts": parts}
    assert SECRET not in telemetry.exported


def test_the_message_of_an_error_counts_as_content(telemetry: Telemetry) -> None:
    telemetry.instrument(stream := ChatCompletionStream(SPOKEN["an error"]), capture_content=True)
    consume(stream)
    assert SECRET in (telemetry.span.status.description or "")


def test_what_is_no_text_shows_as_its_kind(telemetry: Telemetry) -> None:
    audio = delta(audio={"id": "x", "data": "AAAA", "transcript": "Hi"})
    image = delta(images=[{"type": "image_url", "image_url": {"url": "data:,x"}}])
    telemetry.instrument(ChatCompletionStream([audio, image, STOP]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert {part["type"] for part in message["parts"]} == {"audio", "image"}
    assert all(part.keys() == {"type"} for part in message["parts"])


# What is hostile


def test_a_hostile_head_is_cut_and_can_be_sent(telemetry: Telemetry) -> None:
    head = {"id": "\ud83d" * 1000, "model": "m" * 10**6, "service_tier": "\ude00", "system_fingerprint": "f" * 10**6}
    reason = {"index": 0, "delta": {"content": "\ud83d"}, "finish_reason": "x" * 10**6}
    wrong = {"prompt_tokens": "many", "completion_tokens": -1, "prompt_tokens_details": [1]}
    body = event({**head, "choices": [reason], "usage": wrong}) + DONE
    asked = {"model": "half \ud83d", "messages": [{"role": "user", "content": "half \ud83d"}]}
    telemetry.instrument(ChatCompletionStream([body]), asked, capture_content=True).read()
    assert telemetry.attributes["gen_ai.request.model"] == "half ?"
    values = [value for value in telemetry.attributes.values() if isinstance(value, str | tuple)]
    texts = [text for value in values for text in ([value] if isinstance(value, str) else value)]
    assert all(len(text.encode()) <= 1024 for text in texts), texts
    assert [name for name in telemetry.attributes if "usage" in name] == []


@each_case("case", hostile_streams(), ids=lambda case: case.name)
def test_whatever_comes_the_span_ends(case: Any, telemetry: Telemetry) -> None:
    telemetry.exporter.clear()
    with telemetry.instrument(ChatCompletionStream([case.body]), ASKED, capture_content=True) as stream:
        consume(stream)
    assert telemetry.attributes["chunkfold.stream.end"] == stream.end
    assert telemetry.attributes.get("chunkfold.anomalies", ()) == tuple(a.rule.id for a in stream.anomalies)


WRONG: list[Any] = [None, True, -1, 1.5, 10**30, "x", [1], {"a": [{}]}]
WRONG_PLACES: dict[str, Callable[[Any], Any]] = {
    **{
        key: lambda value, key=key: {key: value}
        for key in ("id", "model", "service_tier", "system_fingerprint", "usage")
    },
    **{
        f"usage.{key}": lambda value, key=key: {"usage": {key: value}}
        for key in ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
    },
    "cached_tokens": lambda value: {"usage": {"prompt_tokens_details": {"cached_tokens": value}}},
    "cache_write_tokens": lambda value: {"usage": {"prompt_tokens_details": {"cache_write_tokens": value}}},
    "cache_creation_input_tokens": lambda value: {"usage": {"cache_creation_input_tokens": value}},
    **{
        f"delta.{key}": lambda value, key=key: {"choices": [{"index": 0, "delta": {key: value}}]}
        for key in ("role", "content", "reasoning", "refusal", "tool_calls", "audio", "images", "function_call")
    },
    "index": lambda value: {"choices": [{"index": value, "delta": {"content": "a"}}]},
    "finish_reason": lambda value: {"choices": [{"index": 0, "delta": {}, "finish_reason": value}]},
}


@pytest.mark.parametrize("place", WRONG_PLACES)
@pytest.mark.parametrize("opt_in", ["", names.OPT_IN_LATEST])
def test_a_value_of_a_wrong_type_breaks_no_telemetry(
    opt_in: str, place: str, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.OPT_IN, opt_in)
    for value in WRONG:
        body = [event({**HEAD, "choices": [], **WRONG_PLACES[place](value)}), STOP, DONE]
        with telemetry.instrument(ChatCompletionStream(body), capture_content=True) as stream:
            consume(stream)
        attributes = dict(telemetry.spans[-1].attributes or {})
        assert attributes["chunkfold.stream.end"] == stream.end
        assert all(count >= 0 for name, count in attributes.items() if "usage" in name)
    assert len(telemetry.spans) == len(WRONG)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STREAMS, CUTS, st.booleans(), st.integers(0, 8))
def test_a_measured_stream_gives_what_it_gives_otherwise(
    made: Stream, cuts: list[int], folded: bool, left: int
) -> None:
    def result(stream: ChatCompletionStream) -> tuple[Any, ...]:
        chunks: list[Any] = []
        with suppress(ChunkfoldError), stream:
            if folded:
                stream.read()
            for chunk in () if folded else stream:
                chunks.append(chunk.model_dump())
                if len(chunks) == left:
                    break
        return chunks, stream.end, str(stream.error), stream.snapshot.model_dump(), stream.anomalies

    telemetry, pieces = Telemetry(), made.cut(cuts)
    assert result(telemetry.instrument(ChatCompletionStream(pieces))) == result(ChatCompletionStream(pieces))
    assert len(telemetry.spans) == 1


@pytest.mark.parametrize(
    "arguments", ["[" * 100_000, '{"x":', '{"x":NaN}', "-Infinity", '{"x":1e400}'], ids=lambda text: text[:9]
)
def test_arguments_that_are_no_json_are_captured_as_written(arguments: str, telemetry: Telemetry) -> None:
    call = delta(tool_calls=[{"index": 0, "id": "b", "function": {"name": "f", "arguments": arguments}}])
    telemetry.instrument(ChatCompletionStream([call, STOP, DONE]), capture_content=True).read()
    (message,) = json.loads(telemetry.attributes["gen_ai.output.messages"])
    assert message["parts"][0]["arguments"] == arguments


# Where nothing is recorded


@pytest.mark.parametrize("why", ["no SDK", "not sampled, and no metrics", "switched off"])
def test_where_nothing_is_recorded_the_stream_is_left_as_it_is(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "switched off":
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    stream = ChatCompletionStream([HI, STOP, DONE])
    before = dict(vars(stream))
    if why == "no SDK":
        assert instrument(stream, ASKED) is stream
    else:
        meters = {} if why == "switched off" else {"meter_provider": NoOpMeterProvider()}
        Telemetry(is_sampled=why == "switched off").instrument(stream, **meters)
    assert vars(stream) == before
    assert type(stream._parser) is ChatCompletionParser
    with httpx.Client(trust_env=False) as client:
        connection = connect(client, "POST", "http://127.0.0.1:9", json=ASKED)
        assert why != "no SDK" or instrument(connection, ASKED) is connection


def test_metrics_do_not_need_a_sampled_span() -> None:
    unsampled = Telemetry(is_sampled=False)
    unsampled.instrument(ChatCompletionStream([HI, STOP, SPENT, DONE])).read()
    assert unsampled.spans == []
    assert unsampled.point("gen_ai.client.operation.duration").count == 1
    assert len(unsampled.points("gen_ai.client.token.usage")) == 2


def test_a_span_does_not_need_metrics(telemetry: Telemetry) -> None:
    stream = ChatCompletionStream([HI, STOP, DONE])
    telemetry.instrument(stream, meter_provider=NoOpMeterProvider()).read()
    assert telemetry.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert telemetry.metrics == {}


# Where it is not installed

WITHOUT = """\
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def test_without_opentelemetry_the_import_says_what_to_install() -> None:
    script = "try:\n    from chunkfold.otel import instrument\nexcept ImportError as error:\n    print(error)"
    said = printed_by(WITHOUT + script).strip()
    assert said == 'chunkfold.otel.instrument needs opentelemetry-api: pip install "chunkfold[otel]"'


def test_the_package_has_no_other_names() -> None:
    import chunkfold.otel

    assert chunkfold.otel.__all__ == ["instrument"]
    with pytest.raises(AttributeError, match="Nothing"):
        _ = chunkfold.otel.Nothing


def test_telemetry_keeps_no_stream(telemetry: Telemetry) -> None:
    gc.disable()
    try:
        stream = telemetry.instrument(ChatCompletionStream([HI, STOP, DONE]), ASKED)
        stream.read()
        stream_ref = weakref.ref(stream)
        del stream
        assert stream_ref() is None
    finally:
        gc.enable()


def test_the_callers_context_is_untouched(telemetry: Telemetry) -> None:
    token = context.attach(baggage.set_baggage("a", "b"))
    try:
        before = context.get_current()
        for _ in telemetry.instrument(ChatCompletionStream([HI, STOP, DONE])):
            assert context.get_current() is before
        assert context.get_current() is before
    finally:
        context.detach(token)
