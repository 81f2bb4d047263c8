"""Bad input: how it is made and read, and everything that a caller still has of it."""

import asyncio
import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import httpx
from pydantic import BaseModel

from chunkfold import (
    Anomaly,
    APIError,
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    InvalidStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    ParseError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    connect,
)
from chunkfold.testing import sse


class Result(NamedTuple):
    """The result of an input: everything that a caller still has."""

    error: BaseException | None
    end: StreamEnd | None = None
    snapshot: ChatCompletion | None = None
    anomalies: tuple[Anomaly, ...] = ()

    def told(self) -> tuple[Any, ...]:
        """In a form that can be compared."""
        return (type(self.error), str(self.error), *self[1:])


@dataclass(frozen=True)
class Response:
    """A response as clients give it; an exception among the pieces of its body is raised."""

    status_code: int
    pieces: list[bytes | Exception]
    headers: dict[str, str] = field(default_factory=dict)

    def iter_bytes(self) -> Iterator[bytes]:
        return playing(self.pieces)

    def close(self) -> None:
        pass


# Bytes of a body (which are also read byte by byte), its pieces, a response, or something to do.
Given = bytes | list[bytes | Exception] | Response | Callable[[], Result]


@dataclass(frozen=True)
class Case:
    """One kind of bad input, and what must be left of it.

    Attributes:
        given: Inputs of that kind; each must have the same result.
        raises: The exception.
        end: How the stream ends.
        has: What the snapshot has, by path: {"choices.0.outcome": "stop"}.
        error: What the exception has, by path.
        options: The parser's; `times` is what its clock shows, reading by reading.
    """

    given: tuple[Given, ...]
    raises: type[BaseException] | None
    end: StreamEnd | None
    has: dict[str, Any]
    error: dict[str, Any]
    options: dict[str, Any]


def playing(pieces: Iterable[bytes | Exception]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


def results_of(given: Given, options: dict[str, Any]) -> list[Result]:
    if isinstance(given, bytes):
        return [read([given], options), read([given[at : at + 1] for at in range(len(given))], options)]
    if isinstance(given, Response):
        return [read(given, options)]
    return [read(playing(given), options)] if isinstance(given, list) else [given()]


def read(source: Any, options: dict[str, Any]) -> Result:
    """Read to the end, and check what holds however it ends."""
    options = dict(options)
    if times := options.pop("times", None):
        options["clock"] = iter(times).__next__
    stream = ChatCompletionStream(source, **options)
    chunks: list[ChatCompletionChunk] = []
    error = None
    try:
        for chunk in stream:
            chunks.append(chunk)  # noqa: PERF402 - chunks before an error count
    except ChunkfoldError as exc:
        error = exc
        assert error.snapshot == stream.snapshot
    assert stream.error is error is raised_by(stream.completion)
    assert "".join(chunk.text for chunk in chunks) == stream.snapshot.text
    return left(stream, error)


def left(stream: Any, error: BaseException | None) -> Result:
    return Result(error, stream.end, stream.snapshot, stream.anomalies)


def raised_by(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as exc:  # noqa: BLE001 - any exception is compared
        return exc
    return None


# Inputs


NOTHING = {"choices": []}
OUTCOME = "choices.0.outcome"
FAULT = OSError("connection reset")
FAILED_WORDS = (
    *("error", "overloaded_error", "abort", "aborted", "timeout", "cancelled", "engine_overloaded"),
    *("insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"),
    *("TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "malformed_tool_use", "malformed_model_output"),
)
WAITED = httpx.ReadTimeout("timed out")
BOOM = {"message": "boom", "type": "server_error", "code": "overloaded", "failed_generation": "{"}
LOGPROBS = {"content": [{"token": "Hi", "logprob": -math.inf}]}
BESIDE = {"index": 0, "message": {"content": "Hi, but longer", "refusal": "no"}, "finish_reason": "stop"}
COMPLETION = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}
WHOLE_BODY = json.dumps({"id": "c1", "created": 1, "model": "m", **COMPLETION}).encode()


def chunk(delta: Any = None, finish_reason: Any = None, *, index: Any = 0, **fields: Any) -> dict[str, Any]:
    """A chunk without fault, unless one is put in."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish_reason}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [choice], **fields}


def body(*payloads: Any, done: bool = True) -> bytes:
    """The body of a stream; a payload that no mapping is, is sent as its JSON."""
    sent = [one if isinstance(one, bytes | dict) else json.dumps(one) for one in payloads]
    return b"".join(sse(*sent, done=done))


HI = chunk({"role": "assistant", "content": "Hi"})
STOP = chunk({}, "stop")
CUT = body(HI, done=False)


def calls(*fragments: dict[str, Any], finish_reason: str = "tool_calls") -> bytes:
    """A stream of tool call fragments, one in each chunk."""
    return body(*(chunk({"tool_calls": [fragment]}) for fragment in fragments), chunk({}, finish_reason))


def call(name: Any = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: value for key, value in function.items() if value is not None}}


def named(event: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event, data)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# Things to do


class Weather(BaseModel):
    """What `parse` is asked for."""

    city: str


def parsed(body: bytes, parse: Callable[[ChatCompletion], object], *, expected: Any = None) -> Callable[[], Result]:
    """Read a stream that ends well, then its text."""

    def do() -> Result:
        stream = ChatCompletionStream([body])
        completion = stream.read()
        if expected is None:
            return left(stream, raised_by(lambda: parse(completion)))
        assert parse(completion) == expected
        return left(stream, None)

    return do


def parse_message(completion: ChatCompletion) -> object:
    return completion.message.parse(Weather)


def parse_arguments(completion: ChatCompletion) -> object:
    (one,) = completion.tool_calls
    return one.function.parse()


def answered(text: str) -> bytes:
    return body(chunk({"content": text}, "stop"))


def called_with(arguments: str) -> bytes:
    return calls(call("f", arguments, index=0, id="a"))


def not_connected() -> Result:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    def ask() -> None:
        client = httpx.Client(transport=httpx.MockTransport(refuse))
        with client, connect(client, "POST", "http://test/", json={}):
            pass

    return Result(raised_by(ask))


def left_early() -> Result:
    with ChatCompletionStream([CUT, body(STOP)]) as stream:
        for _ in stream:
            break
    assert stream.error is None
    return left(stream, raised_by(stream.completion))


def left_after_finish() -> Result:
    with ChatCompletionStream([body(HI, STOP, done=False), CUT]) as stream:
        for one in stream:
            if one.choices[0].finish_reason:
                break
    return left(stream, raised_by(stream.completion))


def too_early() -> Result:
    stream = ChatCompletionStream([CUT, body(STOP)])
    next(stream)
    return left(stream, raised_by(stream.completion))


def iterated_again() -> Result:
    stream = ChatCompletionStream([body(HI, STOP)])
    stream.read()
    return left(stream, raised_by(lambda: list(stream)))


def iterated_after_leaving() -> Result:
    stream = ChatCompletionStream([CUT, body(STOP)])
    next(stream)
    stream.close()
    return left(stream, raised_by(lambda: list(stream)))


def with_too_many_values() -> Result:
    with ChatCompletionStream([body(chunk({"content": "[" + "1," * 250_000}, "stop"))]) as stream:
        error = raised_by(lambda: list(stream.partials()))
    return left(stream, error)


def expanded() -> Result:
    sent = gzip.compress(CUT + (b":" + b"x" * 2**16 + b"\n\n") * (33 * 2**4))
    reads = (sent[place : place + 4096] for place in range(0, len(sent), 4096))
    return read(httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=reads), {})


def own_exception() -> Result:
    stream = ChatCompletionStream([CUT, body(STOP)])

    def use() -> None:
        with stream:
            for _ in stream:
                raise LookupError

    return left(stream, raised_by(use))


def tap_exception() -> Result:
    def tap(event: object, chunks: object) -> None:
        raise LookupError

    stream = ChatCompletionStream([body(HI, STOP)], on_server_sent_event=tap)

    def use() -> None:
        with stream:
            stream.read()

    return left(stream, raised_by(use))


def cancelled() -> Result:
    async def bytes_and_silence() -> Any:
        yield CUT
        await asyncio.sleep(60)

    async def use() -> Result:
        error: BaseException | None = None
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        try:
            async with AsyncChatCompletionStream(bytes_and_silence()) as stream:
                async for _ in stream:
                    pass
        except asyncio.CancelledError as exc:
            error = exc
            task.uncancel()
        return left(stream, error)

    return asyncio.run(use())


def unmade(source: Any, options: dict[str, Any]) -> Callable[[], Result]:
    return lambda: Result(raised_by(lambda: ChatCompletionStream(source, **options)))


# Expected results


def case(
    *given: Given,
    raises: type[BaseException] | None = None,
    end: StreamEnd | None = StreamEnd.FINISHED,
    has: dict[str, Any] | str = "Hi",
    error: dict[str, Any] | None = None,
    **options: Any,
) -> Case:
    return Case(given, raises, end, {"text": has} if isinstance(has, str) else has, error or {}, options)


fine = case
failed = partial(case, raises=APIError, end=StreamEnd.FAILED)
refused = partial(case, raises=APIStatusError, end=StreamEnd.FAILED, has=NOTHING)
invalid = partial(case, raises=InvalidChunkError, end=StreamEnd.INVALID)
foreign = partial(invalid, raises=NotAnEventStreamError, has=NOTHING)
limited = partial(invalid, raises=LimitExceededError)
disapproved = partial(invalid, raises=InvalidStreamError, strict=True)
empty = partial(case, raises=IncompleteStreamError, end=StreamEnd.EMPTY, has=NOTHING)
truncated = partial(case, raises=IncompleteStreamError, end=StreamEnd.TRUNCATED)
interrupted = partial(case, raises=StreamInterruptedError, end=StreamEnd.INTERRUPTED)
stalled = partial(case, raises=StreamStalledError, end=StreamEnd.STALLED)
unparsed = partial(case, raises=ParseError)

PING = b": ping\n\n"
JSON_BODY = json.dumps({"error": BOOM}).encode()
SLOW = {"message": "slow down", "code": "rate_limit_exceeded"}
CODED = {"code": "overloaded", "status_code": 503, "message": "boom"}
