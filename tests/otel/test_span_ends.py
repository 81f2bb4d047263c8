"""How the span of a stream ends: by its end, before a response, or as the consumer leaves."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest
from fronts import ASKED, AsyncFront, Sync, client_of, each_library, generators_of_httpx_are_not_ours, over_both_fronts
from kept_telemetry import HI, Clock, Telemetry, consume, kept_telemetry, undisturbed
from made_streams import ERROR, STOP
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode

from chunkfold import APIStatusError, ChatCompletionStream, ChunkfoldError, StreamEnd, aconnect, connect
from chunkfold.testing import DONE, Answer, FakeProvider, delta, event, json_answer

pytest_generate_tests = over_both_fronts
library = each_library
pytestmark = generators_of_httpx_are_not_ours
telemetry = kept_telemetry
nothing_failed = undisturbed


# How it ended: what came, the end, the class of the error, the finish reasons


RESET = httpx.ReadError("reset")
ENDS: dict[str, tuple[list[bytes | Exception], StreamEnd, str | None, tuple[str, ...]]] = {
    "finished": ([HI, STOP, DONE], StreamEnd.FINISHED, None, ("stop",)),
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
    tracer, begun = telemetry.tracers.get_tracer("t"), time.monotonic()
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
    assert 0 < point.sum < time.monotonic() - begun
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(point.sum, abs=1e-6)
    if case == "timeout":
        assert point.sum >= 0.2


def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("where", ["on_start", "on_end"])
def test_an_error_of_the_telemetry_never_reaches_the_reader(
    where: str, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    processor = SpanProcessor()
    setattr(processor, where, fail)
    telemetry.tracers.add_span_processor(processor)
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


def test_a_stream_that_has_ended_before_is_told_at_once(telemetry: Telemetry) -> None:
    stream = ChatCompletionStream([HI, STOP, DONE])
    stream.read()
    telemetry.instrument(stream)
    assert_told(telemetry, StreamEnd.FINISHED, None, ("stop",))
