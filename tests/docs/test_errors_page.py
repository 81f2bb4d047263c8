"""The table of bad input in `docs/errors.md` is closed, and true.

Each row begins with an id, and each id has one case here, or is about one rule of the catalogue, whose example is its
case. The exception, the end and the rules that a row names are taken from the row itself, so it cannot say anything
else.
"""

import asyncio
import gzip
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import httpx
from cases import each_case
from doc_blocks import prose_of, tables_of
from made_up_ids import shown_id
from pydantic import BaseModel, ValidationError

import chunkfold
from chunkfold import (
    RULES,
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
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    connect,
)
from chunkfold.rule_examples import example_of
from chunkfold.testing import event, fragment, sse

# An input, and what is left of it


class Result(NamedTuple):
    """The result of an input: everything that a caller still has."""

    error: BaseException | None
    end: StreamEnd | None = None
    snapshot: ChatCompletion | None = None
    anomalies: tuple[Anomaly, ...] = ()

    def told(self) -> tuple[Any, ...]:
        """In a form that can be compared."""
        return (type(self.error), str(self.error), *self[1:])


# Bytes of a body (which are also read byte by byte), its pieces, a response, or something to do.
Given = bytes | list[bytes | Exception] | httpx.Response | Callable[[], Result]


class Case(NamedTuple):
    """Inputs of one kind, which all have the same result, and what that must be."""

    given: tuple[Given, ...]
    raises: type[BaseException] | None
    end: StreamEnd | None
    has: dict[str, Any]  # what the snapshot has, by path: {"choices.0.outcome": "stop"}
    error: dict[str, Any]  # what the exception has, by path
    options: dict[str, Any]  # the parser's; `times` is what its clock shows, reading by reading


def playing(pieces: Iterable[bytes | Exception]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


def response(
    status_code: int, pieces: list[bytes | Exception], headers: dict[str, str] | None = None
) -> httpx.Response:
    return httpx.Response(status_code, headers=headers, content=playing(pieces))


def results_of(given: Given, options: dict[str, Any]) -> list[Result]:
    if isinstance(given, bytes):
        return [read([given], options), read([given[at : at + 1] for at in range(len(given))], options)]
    if isinstance(given, httpx.Response):
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
    *("error", "failed", "overloaded_error", "abort", "aborted", "timeout", "cancelled", "engine_overloaded"),
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
    return body(*(chunk({"tool_calls": [fragment]}) for fragment in fragments), chunk({}, finish_reason))


# Things to do


class Weather(BaseModel):
    """What `parse` is asked for."""

    city: str


def parse_message(completion: ChatCompletion) -> object:
    return completion.message.parse(Weather)


def parse_arguments(completion: ChatCompletion) -> object:
    (one,) = completion.tool_calls
    return one.function.parse()


def answered(text: str) -> bytes:
    return body(chunk({"content": text}, "stop"))


def called_with(arguments: str) -> bytes:
    return calls(fragment(0, "a", "f", arguments))


def not_connected() -> Result:
    with httpx.Client() as client:
        return Result(raised_by(lambda: connect(client, "POST", "http://127.0.0.1:9/", json={}).__enter__()))


def after(
    reads: list[bytes], use: Callable[[Any], object], then: Callable[[Any], object], **options: Any
) -> Callable[[], Result]:
    """Use a stream, then do what may raise."""

    def do() -> Result:
        stream = ChatCompletionStream(reads, **options)
        use(stream)
        return left(stream, raised_by(lambda: then(stream)))

    return do


def inside(use: Callable[[Any], object]) -> Callable[[Any], None]:
    """The same in the stream's `with`."""

    def enter(stream: Any) -> None:
        with stream:
            use(stream)

    return enter


def leave(stream: Any) -> None:
    next(stream)
    stream.close()


def raising(*_: object) -> None:
    raise LookupError


read_all, completion_of = ChatCompletionStream.read, ChatCompletionStream.completion


def parsed(body: bytes, parse: Callable[[ChatCompletion], object], *, expected: Any = None) -> Callable[[], Result]:
    """Read a stream that ends well, then its text."""

    def then(stream: Any) -> None:
        value = parse(stream.completion())
        assert expected in (None, value)

    return after([body], read_all, then)


def expanded() -> Result:
    sent = gzip.compress(CUT + (b":" + b"x" * 2**16 + b"\n\n") * (33 * 2**4), 1)
    reads = (sent[place : place + 4096] for place in range(0, len(sent), 4096))
    return read(httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=reads), {})


def cancelled() -> Result:
    async def bytes_and_silence() -> Any:
        yield CUT
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        await asyncio.sleep(60)

    async def use() -> None:
        async with stream:
            await stream.read()

    stream = AsyncChatCompletionStream(bytes_and_silence())
    try:
        asyncio.run(use())
    except asyncio.CancelledError as error:
        return left(stream, error)
    raise AssertionError


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


# The rows


class Row(NamedTuple):
    """What a row says."""

    id: str
    raises: str | None  # the name of the exception, None where nothing is raised
    end: str | None  # the value of `end`, None where it is None or there is no stream
    rules: set[str]  # the ids of the rules that were noted


def rows() -> list[Row]:
    header = ("input", "what is raised", "what you still have", "what to do")
    return [row_of(came, raised, left) for came, raised, left, _ in tables_of(prose_of("docs/errors.md"), *header)]


def row_of(came: str, raised: str, left: str) -> Row:
    (id_,) = re.findall(r"^`([a-z0-9-]+)` ", came)
    name = re.search(r"`(\w+)`", raised)
    assert name is not None or raised == "nothing", id_
    end = re.match(r"`(\w+)`; ", left)
    assert end is not None or left == "no stream", id_
    end_name = end[1] if end is not None and end[1] != "None" else None
    return Row(id_, name and name[1], end_name, set(re.findall(r"CF\d{3}", left)))


ROWS = rows()


CASES = {
    # The response is refused
    "http-error": refused(
        response(429, [json.dumps({"error": SLOW}).encode()], {"Retry-After": "20", "X-Request-Id": "r1"}),
        error={**SLOW, "status_code": 429, "retry_after": 20.0, "request_id": "r1", "retryable": True},
    ),
    "http-error-text": refused(
        response(502, [b"<html>", b"bad gateway"]), error={"status_code": 502, "raw": "<html>bad gateway"}
    ),
    "http-error-no-body": refused(response(401, []), error={"status_code": 401, "retryable": False}),
    "http-error-large": refused(response(500, [b"x" * 2**10] * 2**11), error={"status_code": 500, "raw": "x" * 2**16}),
    "http-error-cut": refused(response(503, [b"try ag", FAULT]), error={"status_code": 503, "message": "try ag"}),
    "http-error-slow": refused(
        response(503, [b"try", b" ag", b"ain"]),
        total_timeout=10,
        times=[0, 1, 11],
        error={"status_code": 503, "message": "try ag"},
    ),
    "http-redirect": refused(
        response(307, [], {"Location": "/v2"}), error={"status_code": 307, "headers.location": "/v2"}
    ),
    "not-connected": case(not_connected, raises=httpx.ConnectError, end=None, has={}),
    # The body is no event stream
    "html-body": foreign(
        response(200, [b"<!doctype html><html>"], {"Content-Type": "text/html"}),
        error={"body": b"<!doctype html><html>", "content_type": "text/html", "status_code": 200},
    ),
    "text-body": foreign(b"Service Unavailable", b"a: b\n\n"),
    "compressed-body": foreign(gzip.compress(body(HI, STOP), mtime=0)),
    "json-body": foreign(b'{"models":[]}', b"[]", b'"text"', b"null"),
    "ndjson-body": foreign(b'{"response":"Hi"}\n{"response":"","done":true}\n'),
    "cut-json-body": foreign(b'{"choices":[{"mess'),
    "interrupted-json-body": interrupted([b'{"choices":[{"mess', FAULT], has=NOTHING, error={"__cause__": FAULT}),
    "completion-then-done": fine(*(start + WHOLE_BODY + b"\n\ndata: [DONE]\n\n" for start in (b"", b": ping\n\n"))),
    "empty-body": empty(b"", b"\n\n\n", response(204, [])),
    "body-beginning": empty(b"d", b"dat", b"\xef\xbb"),
    "keep-alives-only": empty(PING * 3),
    # The provider reports an error
    "event-error-text": failed(
        CUT + event(b"boom", "error"), CUT + event(b'"boom"', "error"), error={"message": "boom"}
    ),
    "event-error-empty": failed(CUT + event(b"", "error"), CUT + event(b"null", "error")),
    "event-error-comment": failed(CUT + b"event: error\n: boom\n\ndata: [DONE]\n\n", error={"message": "boom"}),
    "error-behind-cut-event": failed(
        CUT + b'data: {"choices":[{"de\ndata: %b\n\n' % JSON_BODY,
        CUT[:-1] + b'data: {"choices":[{"de\ndata: %b\n\n' % JSON_BODY,
        CUT + b'data: {"choices":[{"de\nevent: error\ndata: %b\n\n' % JSON_BODY,
        CUT + b'data: {"choices":[{"dedata: %b\n\n' % JSON_BODY,
        error=CODED,
    ),
    "error-envelope": failed(
        body(HI, {"error": BOOM}), error={**CODED, "type": "server_error", "error.failed_generation": "{"}
    ),
    "error-after-finish": failed(
        body(HI, STOP, {"error": BOOM}),
        body(HI, STOP, {"error": BOOM}, done=False),
        has={"text": "Hi", "finish_reason": "stop"},
    ),
    "error-beside-choices": failed(body(HI, chunk({"content": " you"}, error=BOOM)), has="Hi you", error=CODED),
    "error-list": failed(body(HI, {"error": [{"message": "boom"}, "bang"]}), error={"message": "boom; bang"}),
    "error-empty": failed(*(body(HI, {"error": value}) for value in ({}, "", []))),
    "error-empty-beside-choices": fine(*(body(HI, {**STOP, "error": value}) for value in ({}, "", []))),
    "error-null": fine(*(body(HI, {**STOP, "error": value}) for value in (None, False))),
    "error-type": failed(body(HI, {"type": "error", "message": "boom"}), error={"message": "boom"}),
    "finish-error": failed(*(body(HI, chunk({}, word)) for word in FAILED_WORDS), has={"text": "Hi", OUTCOME: "error"}),
    "finish-error-text": failed(
        body(HI, chunk({"content": '{"error":{"message":"boom","code":503}}'}, "error_finish")),
        error={"status_code": 503},
    ),
    "finish-error-described": failed(
        body(HI, chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "error", "error": BOOM}])),
        body(HI, chunk({}, "error", x_groq={"error": "boom"})),
        error={"message": "boom"},
    ),
    "error-vendor": failed(
        body(HI, {"errors": {"message": "boom", "code": "e"}}),
        body(HI, {"choices": None, "error_type": "t", "error_message": "boom", "error_code": "e"}),
        body(HI, {"success": False, "errors": [{"code": "e", "message": "boom"}], "result": None}),
        body(HI, {"errors": [{"code": "e", "message": "boom"}], "status_code": 400}),
        body(HI, {"error_code": "e", "error_msg": "boom"}),
        body(HI, {"error_code": "e", "message": "boom"}),
        body(HI, {"Response": {"Error": {"Code": "e", "Message": "boom"}}}),
        body(HI, {"validationException": {"message": "boom", "code": "e"}}),
        body(HI, {"Message": "boom", "code": "e"}),
        error={"message": "boom", "code": "e"},
    ),
    "bare-code": failed(
        body(HI, {"code": 503}),
        body(HI, {"status_code": "503"}),
        body(HI, {"title": "Busy", "status": 503}),
        error={"status_code": 503},
    ),
    "bare-detail": failed(
        *(body(HI, told) for told in ({"detail": "boom"}, {"detail": [{"msg": "boom"}]}, {"message": "boom"})),
        error={"message": "boom"},
    ),
    "error-in-list": failed(body(HI, [{"error": BOOM}]), error=CODED),
    "foreign-event-error": failed(CUT + event(b'{"error":{"message":"boom"}}', "progress"), error={"message": "boom"}),
    "only-done": empty(body()),
    "no-output": empty(
        body(chunk({"role": "assistant"}, usage={"total_tokens": 3})),
        has={"message.role": "assistant", "usage.total_tokens": 3},
    ),
    # An event is no chunk
    "not-json": invalid(body(HI, b"Internal Server Error"), body(HI, b"[HEARTBEAT]"), error={"position": len(CUT)}),
    "cut-json-event": invalid(
        body(HI, b'{"choices":[{"de'), body(HI, b'{"id":"1","logprodata: {"id":"2"}'), error={"position": len(CUT)}
    ),
    "unfinished-text": invalid(CUT + b"data: Internal Server Error"),
    "json-no-object": invalid(*(body(HI, value) for value in (5, "Hi", True, [HI, HI])), error={"position": len(CUT)}),
    "several-payloads-bad": invalid(b"data: %b\ndata: no\n\n" % json.dumps(HI).encode()),
    "json-too-deep": invalid(body(HI, chunk({"new": json.loads("[" * 600 + "]" * 600)}))),
    "number-too-long": invalid(CUT + b'data: {"choices":[],"x":' + b"1" * 5000 + b"}\n\n"),
    "choices-type": invalid(*(body(HI, {**STOP, "choices": value}) for value in ({"a": 1}, "x", [5], ["x"]))),
    "delta-type": invalid(*(body(HI, chunk(value)) for value in ("x", ["x"], 5))),
    "content-type": invalid(*(body(HI, chunk({"content": value})) for value in ({}, {"a": 1}))),
    "finish-reason-type": invalid(*(body(HI, chunk({}, value)) for value in (5, ["stop"]))),
    "index-type": invalid(*(body(HI, chunk({}, index=value)) for value in ("x", 0.5, True))),
    "tool-calls-type": invalid(
        body(HI, chunk({"tool_calls": 7})),
        *(
            body(HI, chunk({"tool_calls": [value]}))
            for value in ("x", {"id": ["a"]}, {"function": "f"}, fragment(0, name=5), fragment(0, None, "f", 5))
        ),
    ),
    "other-type": fine(
        body(HI, {**STOP, "usage": "none"}), has={"text": "Hi", "usage": None, "raw_values": {"usage": "none"}}
    ),
    "responses-api": invalid(
        event(b'{"type":"response.output_text.delta","delta":"Hi"}', "response.output_text.delta"),
        body({"type": "response.created"}),
        has=NOTHING,
    ),
    "messages-api": invalid(
        event(b'{"type":"message_start"}', "message_start"), body({"type": "content_block_delta"}), has=NOTHING
    ),
    "completions-api": invalid(body({"object": "text_completion", "choices": [{"text": "Hi"}]}), has=NOTHING),
    "another-api": invalid(
        body({"candidates": []}),
        body({"response": "Hi"}, {"response": "", "usage": {"total_tokens": 1}}),
        body({"type": "start"}, {"type": "text-delta", "delta": "Hi"}, done=False),
        has=NOTHING,
        error={"position": 0, "retryable": False},
    ),
    # It stops too early
    "truncated": truncated(CUT, CUT + PING, error={"end": "truncated", "retryable": False}),
    "truncated-in-event": truncated(*(CUT + cut for cut in (b'data: {"choices":[{"de', b"data: [DO", b"data:", b"da"))),
    "truncated-choice": truncated(
        body(HI, chunk({"content": "Ho"}, index=1), STOP, done=False),
        has={"choices.0.finish_reason": "stop", "choices.1.finish_reason": None, "choices.1.message.content": "Ho"},
    ),
    "unexplained": truncated(body(HI, {"status": "worker restarted"}), error={"end": "truncated"}),
    "interrupted": interrupted([CUT, FAULT], error={"end": "interrupted", "__cause__": FAULT, "retryable": False}),
    "interrupted-at-once": interrupted(
        [FAULT], [PING, FAULT], has=NOTHING, error={"__cause__": FAULT, "retryable": True}
    ),
    "read-timeout": interrupted([CUT, WAITED], error={"__cause__": WAITED}),
    "finish-interrupted": fine([body(HI, STOP, done=False), FAULT]),
    "finish-unfinished": fine(CUT + b"data: " + json.dumps(STOP).encode()),
    "finish-cut": fine(body(HI, STOP, done=False) + b'data: {"usage":{"tot'),
    # Limits, deadlines, strict mode
    "max-event-size": limited(
        body(HI, chunk({"content": "x" * 500})), max_event_size=400, error={"limit": "max_event_size", "value": 400}
    ),
    "max-line-size": limited(
        *(CUT + start + b"x" * 500 for start in (b": ", b"note: ", b"data: ")),
        *(CUT + start + b"x" * 500 + b"\n\n" + body(STOP) for start in (b": ", b"note: ")),
        max_event_size=400,
        error={"limit": "max_event_size", "value": 400},
    ),
    "max-event-items": limited(
        body(HI, chunk({"content": "x", "images": [1] * 50})),
        max_event_items=40,
        error={"limit": "max_event_items", "value": 40},
    ),
    "max-event-parts": limited(
        body(HI, chunk({"content": "x", "annotations": [{}] * 10_001})),
        error={"limit": "max_event_parts", "value": 10_000},
    ),
    "max-event-payloads": limited(
        [CUT + b'data: {"choices":[]}\n' * 10_001 + b"\n"], error={"limit": "max_event_payloads", "value": 10_000}
    ),
    "max-output-size": limited(
        body(HI, chunk({"content": " you"}), chunk({"content": " there"})),
        max_output_size=5,
        has="Hi you",
        error={"limit": "max_output_size", "value": 5},
    ),
    "max-partial-values": case(
        after([answered("[" + "1," * 250_000)], iter, inside(lambda stream: list(stream.partials()))),
        raises=LimitExceededError,
        has={},
        error={"limit": "max_partial_values", "value": 250_000},
    ),
    "max-content-encodings": limited(
        response(200, [CUT], {"Content-Encoding": "gzip, gzip"}),
        has=NOTHING,
        error={"limit": "max_content_encodings", "value": 1},
    ),
    "max-expansion": limited(expanded, error={"limit": "max_expansion", "value": 100}),
    "progress-timeout": stalled([CUT, PING, PING], progress_timeout=10, times=[0, 1, 9, 12], error={"end": "stalled"}),
    "total-timeout": stalled([CUT, CUT], total_timeout=10, times=[0, 9, 11], has="HiHi", error={"end": "stalled"}),
    "late-stall": fine([body(HI, STOP, done=False), PING], progress_timeout=10, times=[0, 1, 12]),
    "strict": disapproved(
        body(HI, chunk({"role": "model", "content": "!"}), STOP), has="Hi!", error={"rule.id": "CF204"}
    ),
    "strict-at-the-end": disapproved(body(HI, STOP, done=False), error={"rule.id": "CF501"}),
    "strict-rules": case(
        body(HI), raises=InvalidStreamError, end=StreamEnd.INVALID, error={"rule.id": "CF502"}, strict=("CF502",)
    ),
    "strict-fault": interrupted([body(HI, done=False), FAULT], error={"__cause__": FAULT}, strict=True),
    # You
    "left-early": case(
        after([CUT, body(STOP)], leave, completion_of),
        raises=IncompleteStreamError,
        end=StreamEnd.CLOSED,
        error={"end": "closed", "snapshot.text": "Hi", "retryable": False},
    ),
    "left-after-finish": fine(
        after([body(HI, STOP, done=False), CUT], next, lambda stream: (leave(stream), stream.completion()))
    ),
    "too-early": case(
        after([CUT, body(STOP)], next, completion_of),
        raises=IncompleteStreamError,
        end=None,
        error={"end": None, "snapshot.text": "Hi"},
    ),
    "iterated-again": case(
        after([body(HI, STOP)], read_all, list), raises=StreamConsumedError, error={"snapshot.text": "Hi"}
    ),
    "iterated-after-leaving": case(
        after([CUT, body(STOP)], leave, list), raises=StreamConsumedError, end=StreamEnd.CLOSED
    ),
    "own-exception": case(after([CUT, body(STOP)], next, inside(raising)), raises=LookupError, end=StreamEnd.CLOSED),
    "tap-exception": case(
        after([body(HI, STOP)], iter, inside(read_all), on_server_sent_event=raising),
        raises=LookupError,
        end=StreamEnd.CLOSED,
    ),
    "cancelled": case(cancelled, raises=asyncio.CancelledError, end=StreamEnd.CLOSED),
    "wrong-argument": case(*map(unmade, ([], 5), ({"no_such_option": True}, {})), raises=TypeError, end=None, has={}),
    # The text is not the JSON you asked for
    "parse-cut": unparsed(
        parsed(answered('{"city":"Os'), parse_message),
        has='{"city":"Os',
        error={"cut": True, "text": '{"city":"Os', "position": 8, "snapshot": None},
    ),
    "parse-arguments-cut": unparsed(
        parsed(called_with('{"city":"Os'), parse_arguments),
        has={"calls": [("a", "f", '{"city":"Os')]},
        error={"cut": True, "text": '{"city":"Os', "position": 8, "snapshot": None},
    ),
    "parse-no-text": unparsed(parsed(called_with("{}"), parse_message), has="", error={"cut": False}),
    "parse-no-json": unparsed(
        parsed(answered("Oslo"), parse_message), has="Oslo", error={"cut": False, "text": "Oslo", "position": 0}
    ),
    "parse-type": unparsed(
        parsed(answered('{"city":5}'), parse_message),
        has='{"city":5}',
        error={"cut": False, "position": None, "__context__.__class__": ValidationError},
    ),
    "parse-arguments-type": unparsed(
        parsed(called_with("[5]"), parse_arguments),
        has={"calls": [("a", "f", "[5]")]},
        error={"cut": False, "text": "[5]"},
    ),
    "parse-no-arguments": fine(parsed(called_with(""), parse_arguments, expected={}), has={"calls": [("a", "f", "")]}),
    "parse-placeholder": fine(
        parsed(
            calls(fragment(0, "a", "f", "{}"), fragment(0, arguments='{"x":1}')), parse_arguments, expected={"x": 1}
        ),
        has={"calls": [("a", "f", '{}{"x":1}')]},
    ),
    # Tolerated
    "chunk-without-field": fine(
        body(HI, STOP, done=False) + b"[DONE]\n\n",
        json.dumps(HI).encode().join([body(chunk({"role": "assistant"}), done=False), b"\n\n"]) + body(STOP),
    ),
    "after-done": fine(body(HI, STOP) + body(chunk({"content": " again"})), body(HI, STOP) + b"data: oops\n\n"),
    "full-message-beside": fine(body(HI, chunk(choices=[BESIDE])), has={"text": "Hi", "message.refusal": "no"}),
    "no-number": fine(
        body(HI, chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": LOGPROBS}])),
        has={"text": "Hi", "choices.0.logprobs.content.0.logprob": -math.inf},
    ),
    "reasoning-twice": fine(
        body(chunk({"reasoning": "hm", "reasoning_content": "hm"}), HI, STOP), has={"text": "Hi", "reasoning": "hm"}
    ),
    "list-type": fine(
        body(HI, chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": {"content": "x"}}])),
        body(HI, chunk({"annotations": "x"}, "stop")),
        body(HI, chunk({"images": "x"}, "stop")),
    ),
    "lone-surrogate": fine(
        body(HI, chunk({"content": "?"})).replace(b'"?"', rb'"\ud83d"'), end=StreamEnd.DONE, has="Hi\ufffd"
    ),
    "unknown-keys": fine(
        body(HI, {**STOP, "new": 1, "other": 2}, chunk(choices=[], new=None, other=3)),
        has={"text": "Hi", "model_extra": {"new": 1, "other": 3}},
    ),
    "obfuscation": fine(
        body({**HI, "obfuscation": "aaa"}, STOP),
        body(chunk({"content": "Hi", "obfuscation": "aaa"}), STOP),
        has={"text": "Hi", "model_extra": {}, "message.model_extra": {}},
    ),
    "arguments-twice": fine(calls(fragment(0, "a", "f", r'"{\"x\":1}"')), has={"calls": [("a", "f", r'"{\"x\":1}"')]}),
    "arguments-null": fine(
        calls(fragment(0, "a", "f", "{}"), {"index": 0, "function": {"arguments": None}}),
        has={"calls": [("a", "f", "{}")]},
    ),
    "function-call-object": fine(
        body(chunk({"function_call": {"name": "f", "arguments": {"x": 1}}}), chunk({}, "function_call")),
        has={"message.function_call.name": "f", "message.function_call.arguments": '{"x":1}'},
    ),
    "details-no-index": fine(
        body(
            *(
                chunk({"reasoning_details": [{"type": "reasoning.text", **fields}]})
                for fields in ({"id": "1", "text": "a"}, {"text": "b"}, {"id": "2", "text": "c"})
            ),
            HI,
            STOP,
        ),
        has={
            "reasoning": "abc",
            "message.reasoning_details": [
                {"type": "reasoning.text", "id": "1", "text": "ab"},
                {"type": "reasoning.text", "id": "2", "text": "c"},
            ],
        },
    ),
    "usage-null": fine(
        body(HI, {**STOP, "usage": {"completion_tokens": 4}}, chunk(choices=[], usage={"completion_tokens": None})),
        has={"text": "Hi", "usage.completion_tokens": 4},
    ),
    "stop-with-calls": fine(
        calls(fragment(0, "a", "f", "{}"), finish_reason="stop"),
        has={"calls": [("a", "f", "{}")], "finish_reason": "stop", OUTCOME: "tool_calls"},
    ),
    "output-after-finish-interrupted": interrupted([body(STOP, HI, done=False), FAULT], has={"text": "Hi"}),
}


def case_of(row: Row) -> Case:
    """The case of a row; without one, the row is about the rule that it names, whose body is the catalogue's."""
    if row.id in CASES:
        return CASES[row.id]
    (rule,) = row.rules
    example = example_of(rule)
    return case(
        example.body,
        raises=APIError if example.error else None,
        end=StreamEnd(example.end),
        has=example.text,
        error=dict(zip(("message", "status_code"), example.error or (), strict=False)),
        one_choice=example.is_for_one,
    )


def test_every_case_has_a_row_and_every_row_a_case_or_a_rule_of_its_own() -> None:
    assert [row.id for row in ROWS if row.id in CASES] == list(CASES)
    rules = [row.rules for row in ROWS if row.id not in CASES]
    assert len(set().union(*rules)) == sum(map(len, rules)) == len(rules)


def test_every_exception_every_end_and_every_rule_has_a_row() -> None:
    errors = {
        name for name, value in vars(chunkfold).items() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert errors - {row.raises for row in ROWS} == {"ChunkfoldError"}
    assert set(StreamEnd) <= {row.end for row in ROWS}
    shown = set[str]().union(*(row.rules for row in ROWS))
    assert shown <= {rule.id for rule in RULES}
    assert {rule.id for rule in RULES if rule.id > "CF5"} <= shown  # the others change no end, and have their own page


@each_case("row", ROWS, ids=[row.id for row in ROWS])
def test_row(row: Row) -> None:
    case = case_of(row)
    assert row.raises == (case.raises and case.raises.__name__)
    assert row.end == case.end
    for given in case.given:
        results = results_of(given, case.options)
        assert [result.told() for result in results[1:]] == [results[0].told()] * (len(results) - 1)
        check(row, case, results[0])


def look(value: Any, path: str) -> Any:
    """The value at a path; `calls` are the tool calls in short."""
    if path == "calls":
        return [(shown_id(call.id), call.name, call.arguments) for call in value.tool_calls]
    for part in path.split("."):
        key = int(part) if part.isdigit() else part
        value = value[key] if isinstance(value, list | Mapping) else getattr(value, part)
    return value


def check(row: Row, case: Case, result: Result) -> None:
    assert type(result.error) is (case.raises or type(None))
    assert result.end == case.end
    assert {path: look(result.snapshot, path) for path in case.has} == case.has
    assert {path: look(result.error, path) for path in case.error} == case.error
    noted = {anomaly.rule.id for anomaly in result.anomalies}
    assert row.rules == noted if case.raises is None else row.rules <= noted
