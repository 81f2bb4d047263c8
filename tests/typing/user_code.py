"""The public API as users write it: mypy and pyright in strict mode hold the types that a user sees."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from types import TracebackType
from typing import Any, TypedDict, assert_never, assert_type

import httpx
import httpx2
from pydantic import BaseModel

import chunkfold
from chunkfold.otel import instrument
from chunkfold.recording import Recorder, Recording
from chunkfold.testing import (
    FakeProvider,
    FakeResponse,
    ManualClock,
    ReceivedRequest,
    StreamBuilder,
    assert_folds_to,
    assert_same_however_cut,
)


class Weather(BaseModel):
    """A model for structured output."""

    city: str
    celsius: float


class Arguments(TypedDict):
    """A typed dict for a tool's arguments."""

    city: str


@dataclass
class Search:
    """A dataclass for another one's."""

    query: str


TOOLS = {"lookup_weather": Weather, "find": Arguments, "search": Search}


def read(client: httpx.Client, url: str) -> chunkfold.ChatCompletion:
    """The sync front."""
    with chunkfold.connect(client, "POST", url, json={"model": "m"}, timeout=120, max_event_size=None) as stream:
        assert_type(stream, chunkfold.ChatCompletionStream)
        for chunk in stream:
            assert_type(chunk, chunkfold.ChatCompletionChunk)
            assert_type(chunk.text, str)
            assert_type(chunk.reasoning, str)
    assert_type(stream.drain(), chunkfold.ChatCompletion)
    assert_type(stream.end, chunkfold.StreamEnd | None)
    assert_type(stream.error, chunkfold.ChunkfoldError | None)
    assert_type(stream.request_id, str | None)
    return stream.completion()


async def read_async(client: httpx.AsyncClient, url: str) -> chunkfold.ChatCompletion:
    """The async front."""
    async with chunkfold.aconnect(client, "POST", url, json={"model": "m"}) as stream:
        assert_type(stream, chunkfold.AsyncChatCompletionStream)
        async for text in stream.text_deltas():
            assert_type(text, str)
        assert_type(await stream.drain(within=2), chunkfold.ChatCompletion)
        return await stream.read()


def misspell(client: httpx.Client, other: httpx.AsyncClient, url: str, response: httpx.Response) -> None:
    """A misspelt option is a type error, wherever options are taken; without one, the ignore would be unused."""
    chunkfold.connect(client, "POST", url, json={}, max_event_sise=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    chunkfold.aconnect(other, "POST", url, json={}, time_out=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    chunkfold.ChatCompletionStream(response, stict=True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    chunkfold.AsyncChatCompletionStream(response, stict=True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    chunkfold.ChatCompletionParser(stict=True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def mix_up(client: httpx.Client, other: httpx.AsyncClient, url: str) -> None:
    """A client of the other kind is a type error."""
    chunkfold.connect(other, "POST", url, json={})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    chunkfold.aconnect(client, "POST", url, json={})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def any_client(client: httpx2.Client, other: httpx2.AsyncClient, url: str) -> None:
    """Clients of httpx2."""
    chunkfold.connect(client, "POST", url, json={})
    chunkfold.aconnect(other, "POST", url, json={})


def keep_options(client: httpx.Client, url: str) -> None:
    """Options that are kept in a dict."""
    options: chunkfold.ConnectOptions = {"timeout": httpx.Timeout(10, read=120), "headers": {"a": "b"}, "strict": True}
    chunkfold.connect(client, "POST", url, json={}, **options)
    chunkfold.connect(client, "POST", url, json={}, auth=("user", "secret"), params={"v": "1"}, total_timeout=60)


def keep_limits(client: httpx.Client, url: str, pieces: list[bytes], headers: dict[str, str]) -> None:
    """The same dict where the headers are those of a request, and where they are a response's."""
    limits: chunkfold.ReadOptions = {"max_output_size": 10_000, "total_timeout": 60, "strict": True}
    chunkfold.connect(client, "POST", url, json={}, headers=headers, timeout=10, **limits)
    chunkfold.ChatCompletionStream(pieces, status_code=200, headers=headers, **limits)
    chunkfold.ChatCompletionParser(started=0.0, **limits)


def wrap(response: httpx.Response, pieces: list[bytes], generator: Iterator[bytes]) -> None:
    """What the streams take."""
    chunkfold.ChatCompletionStream(response, strict=True)
    chunkfold.ChatCompletionStream(pieces, headers={"x-request-id": "r"})
    chunkfold.ChatCompletionStream(generator, reuse_connection=False)
    chunkfold.ChatCompletionStream([bytearray(), memoryview(b"")])
    chunkfold.AsyncChatCompletionStream(response)


def wrap_async(generator: AsyncIterator[bytes]) -> None:
    """What the async stream takes."""
    chunkfold.AsyncChatCompletionStream(generator, total_timeout=60.0)


class Logged(chunkfold.ChatCompletionStream):
    """A stream of one's own, with the exit that any context manager has."""

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(exc_type, exc, traceback)


class AsyncLogged(chunkfold.AsyncChatCompletionStream):
    """The same, async."""

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await super().__aexit__(exc_type, exc, traceback)


def read_other_clients(response: HTTPResponse, pieces: list[bytes]) -> None:
    """Headers of the standard library, which are not a mapping, and one whose value is None."""
    missing: dict[str, str | None] = {"retry-after": None}
    chunkfold.ChatCompletionStream(response, status_code=response.status, headers=response.headers)
    chunkfold.ChatCompletionStream(pieces, headers=missing)
    chunkfold.error_from_response(response.status, response.headers, response.read())


def record(response: httpx.Response, other: httpx2.Response, recording: Recording) -> None:
    """A response that is recorded, and a recording."""
    chunkfold.ChatCompletionStream(Recorder(response))
    chunkfold.AsyncChatCompletionStream(Recorder(other))
    chunkfold.ChatCompletionStream(recording)
    chunkfold.AsyncChatCompletionStream(recording)


def look(completion: chunkfold.ChatCompletion) -> None:
    """Results."""
    assert_type(completion.text, str)
    assert_type(completion.reasoning, str)
    assert_type(completion.finish_reason, str | None)
    assert_type(completion.choices[0].outcome, chunkfold.Outcome | None)
    assert_type(completion.choices[0].message.parse(Weather), Weather)
    perhaps: Weather | None = completion.choices[0].message.parse(Weather | None)
    print(perhaps)
    assert_type(completion.usage.cached_tokens if completion.usage else None, int | None)
    for call in completion.tool_calls:
        assert_type(call.name, str)
        assert_type(call.arguments, str)
        if call.type == "function":
            assert_type(call.function.parse(), Any)  # a dict, or what is registered for the tool
            assert_type(call.function.parse(Weather), Weather)
            assert_type(call.function.parse(Arguments), Arguments)
            either: Weather | list[Weather] = call.function.parse(Weather | list[Weather])
            print(either)
        else:
            assert_type(call.custom.input, str)


def parse(data: bytes) -> list[chunkfold.ChatCompletionChunk]:
    """The sans-IO core."""
    parser = chunkfold.ChatCompletionParser(max_output_size=10_000, progress_timeout=30)
    chunks = parser.feed(data)
    chunks += parser.close()
    assert_type(parser.anomalies, tuple[chunkfold.Anomaly, ...])
    assert_type(parser.snapshot, chunkfold.ChatCompletion)
    if isinstance(parser.error, chunkfold.APIError):
        assert_type(parser.error.code, int | str | None)
        assert_type(parser.error.retry_after, float | None)
    return chunks


def tell(event: chunkfold.ChatCompletionEvent) -> str:  # noqa: PLR0912 - a case for each event
    """Every event has its case; a type checker says so where one is missing."""
    match event:
        case chunkfold.TextDelta(choice=choice, delta=delta):
            assert_type(choice, int)
            assert_type(delta, str)
            assert_type(event.snapshot, str)
            return delta
        case chunkfold.ReasoningDelta() | chunkfold.RefusalDelta():
            assert_type(event.delta, str)
            assert_type(event.snapshot, str)
            return ""
        case chunkfold.ToolCallStarted():
            assert_type(event.position, int)
            assert_type(event.id, str | None)
            return event.name
        case chunkfold.ToolCallArgumentsDelta(position=position, delta=delta):
            assert_type(position, int)
            assert_type(event.snapshot, str)
            return delta
        case chunkfold.ToolCallDone(call=call, parsed=parsed, error=error):
            assert_type(call, chunkfold.ChatCompletionMessageToolCall)
            assert_type(parsed, Any)
            assert_type(error, chunkfold.ParseError | None)
            if error is not None:
                assert_type(error.path, tuple[str | int, ...])
                assert_type(error.cut, bool)
            return call.name
        case chunkfold.AudioDelta(data=data):
            assert_type(data, bytes)
            return event.transcript
        case chunkfold.ImageReceived(image=image):
            assert_type(image, Any)
            return ""
        case chunkfold.AnnotationReceived(annotation=annotation):
            assert_type(annotation.url_citation, chunkfold.AnnotationURLCitation | None)
            return annotation.type or ""
        case chunkfold.ChoiceFinished(finish_reason=finish_reason, outcome=outcome):
            assert_type(outcome, chunkfold.Outcome)
            return finish_reason
        case chunkfold.UsageReceived(usage=usage):
            assert_type(usage.completion_tokens, int | None)
            return ""
        case chunkfold.AnomalyNoted(anomaly=anomaly):
            return anomaly.rule.id
        case _:
            assert_never(event)


def follow(client: httpx.Client, url: str) -> None:
    """Events, and JSON while it is written."""
    with chunkfold.connect(client, "POST", url, json={"model": "m"}, tools=TOOLS) as stream:
        for event in stream.events():
            assert_type(event, chunkfold.ChatCompletionEvent)
            tell(event)
    with chunkfold.connect(client, "POST", url, json={"model": "m"}) as stream:
        for value in stream.partials(Weather, half_numbers=True):
            assert_type(value, Weather | dict[str, Any])
            if isinstance(value, Weather):
                assert_type(value.celsius, float)
            else:
                assert_type(value, dict[str, Any])
        for value in stream.partials(Arguments):
            assert_type(value, Any)
        for value in stream.partials(list[Weather]):
            assert_type(value, Any)
        for value in stream.partials():
            assert_type(value, Any)


async def follow_async(client: httpx.AsyncClient, url: str) -> None:
    """The same, async."""
    async with chunkfold.aconnect(client, "POST", url, json={"model": "m"}, tools=TOOLS) as stream:
        async for event in stream.events():
            assert_type(event, chunkfold.ChatCompletionEvent)
        async for value in stream.partials(Weather):
            assert_type(value, Weather | dict[str, Any])


def feed(data: bytes) -> list[chunkfold.ChatCompletionEvent]:
    """Events without I/O, and a registry as each class takes it."""
    parser = chunkfold.ChatCompletionParser(tools=TOOLS)
    chunkfold.ChatCompletionStream([data], tools={"find": Weather})
    chunkfold.AsyncChatCompletionStream(pieces(data), tools={})
    chunkfold.ChatCompletionAccumulator(tools=TOOLS)
    parser.feed(data)
    return parser.events()


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """What arrives."""
    yield data


def show(message: chunkfold.ChatCompletionMessage) -> list[str]:
    """The parts of a message, each with its case, by class and by `type`."""
    shown: list[str] = []
    for part in message.parts:
        assert_type(part, chunkfold.MessagePart)
        match part:
            case chunkfold.TextPart(text=text) | chunkfold.ReasoningPart(text=text) | chunkfold.RefusalPart(text=text):
                assert_type(text, str)
                shown.append(text)
            case chunkfold.ToolCallPart(tool_call=call):
                assert_type(call, chunkfold.ChatCompletionMessageToolCall)
                shown.append(call.name)
            case chunkfold.ImagePart(image=image):
                assert_type(image, Any)
            case chunkfold.AudioPart(audio=audio):
                assert_type(audio.transcript, str | None)
            case chunkfold.ContentPart(part=part_as_sent):
                assert_type(part_as_sent, dict[str, Any])
            case _:
                assert_never(part)
        if part.type == "text" or part.type == "reasoning":  # noqa: PLR1714 - narrowing
            assert_type(part, chunkfold.TextPart | chunkfold.ReasoningPart)
    return shown


def look_early(message: chunkfold.ChatCompletionMessage, function: chunkfold.Function) -> None:
    """What is known of JSON that is still being written."""
    assert_type(message.parse_partial(Weather), Weather | dict[str, Any])
    assert_type(message.parse_partial(Arguments), Any)
    assert_type(message.parse_partial(), Any)
    assert_type(function.parse_partial(Weather, half_numbers=True), Weather | dict[str, Any])
    assert_type(function.parse_partial(), Any)
    live = chunkfold.PartialJSON(Weather, half_numbers=True)
    assert_type(live.feed("{"), Any)
    assert_type(live.close(), Any)
    assert_type(live.value, Any)


def observe(stream: chunkfold.ChatCompletionStream, body: dict[str, Any]) -> chunkfold.ChatCompletionStream:
    """Telemetry, and hooks of one's own."""

    def on_chunks(observed: chunkfold.ChatCompletionStream, count: int) -> None:
        assert_type(observed.timing.last_chunk, float | None)
        assert_type(count, int)

    assert_type(stream.observe(on_chunks=on_chunks), chunkfold.ChatCompletionStream)
    return instrument(stream, body, capture_content=False)


async def measure(client: httpx.Client, other: httpx.AsyncClient, url: str) -> None:
    """Telemetry around `connect` gives the same streams."""
    with instrument(chunkfold.connect(client, "POST", url, json={}), provider="p") as stream:
        assert_type(stream, chunkfold.ChatCompletionStream)
    async with instrument(chunkfold.aconnect(other, "POST", url, json={})) as streaming:
        assert_type(streaming, chunkfold.AsyncChatCompletionStream)


def row(data: bytes) -> str | None:
    """An archive's row."""
    folded = chunkfold.fold_record(data)
    assert_type(folded["prompt_tokens"], int | None)
    assert_type(folded["texts"], list[str | None])
    return folded["ending"]


def test_kit(clock: ManualClock) -> bytes:
    """The testing kit, as a test suite uses it."""
    stream = StreamBuilder("stepfun").reasoning("Hm").text("Hel", "lo").tool_call("f", "{}").usage(1, 2).finish().done()
    assert_type(stream, StreamBuilder)
    assert_type(stream.events, list[bytes])
    assert_type(stream.reading.text, str)
    with FakeProvider(stream, stream.answer(first=0.1, ending="reset"), b"data: [DONE]\n\n") as provider:
        assert_type(provider.assert_requested(0), list[ReceivedRequest])
    response = FakeResponse(stream, clock=clock)
    assert_type(chunkfold.ChatCompletionStream(response, clock=clock).read(), chunkfold.ChatCompletion)
    assert_folds_to(stream, {"text": "Hello", "tool_calls": []}, fold=lambda body: body.decode())
    assert_same_however_cut(stream, fold_reads=b"".join)
    assert_same_however_cut(stream, fold_reads=count_reads)
    return stream.body


def count_reads(reads: list[bytes]) -> int:
    """A parser that takes what `assert_same_however_cut` gives it."""
    return len(reads)
