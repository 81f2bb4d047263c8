"""What logs and terminals get to see: excerpts, never a whole content, never a header's value, nothing that acts.

Every place of a request and a response holds a marked text of its own: 5 kB of numbered words that name the place,
between characters that command a terminal. Whatever shows itself is then searched: how much of which place it shows,
and whether anything in it is more than visible.
"""

import io
import json
import math
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import cache, partial
from typing import Annotated, Any, Literal, get_args
from urllib.parse import unquote

import httpx
import pytest
from cases import each_case
from fronts import ALONE, each_library
from linear import assert_linear
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

import chunkfold
from chunkfold import (
    Anomaly,
    AnomalyNoted,
    APIError,
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionMessage,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    ErrorObject,
    EventStreamDecoder,
    Function,
    MessagePart,
    ParseError,
    PartialJSON,
    ServerSentEvent,
    StreamTiming,
    ToolCallDone,
    connect,
    error_from_response,
    parse_payload,
)
from chunkfold.models.base import Model
from chunkfold.recording import RecordedRead, Recorder, Recording
from chunkfold.recording.credentials import secrets_in_request
from chunkfold.recording.redaction import clean_url
from chunkfold.report import facts_of, page, trace
from chunkfold.testing import (
    DONE,
    HEAD,
    Answer,
    FakeProvider,
    ManualClock,
    Raw,
    delta,
    fragment,
    hold,
    hostile_streams,
    wire,
)
from chunkfold.testing.hostile.clients import client_of
from chunkfold.testing.hostile.report import plain_text

pytest.importorskip("click")
pytest.importorskip("rich")

from rich.console import Console
from rich.pretty import pretty_repr

from chunkfold.cli.answer_view import LiveView, TextView
from chunkfold.cli.facts import error_line, footer, result_of
from chunkfold.cli.painter import Painter, watch

library = each_library

MESSAGE = 500  # characters of a provider's message that may show in an exception's text
EXCERPT = 200  # and of anything else
BRIEF = 60  # and of anything in a repr
COMMANDS = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2066\r\n\x00"


def marked(place: str) -> str:
    """5 kB that tell where they stood."""
    first, *words, last = (f"{place}~{number:04}" for number in range(5000 // (len(place) + 6)))
    return f"{first} {COMMANDS} {' '.join(words)} {COMMANDS} {last}"


def one_line(place: str) -> bytes:
    """The same for where no line may end."""
    return re.sub("[\r\n]", " ", marked(place)).encode()


def places_in(text: str) -> Counter[str]:
    """How many characters of each place show, the blanks between the words among them."""
    words = set(re.findall(r"(\w+)~(\d{4})", text))
    return Counter(place for place, number in words for _ in range(len(place) + 6))


def acting(text: str, *allowed: str) -> set[str]:
    """The characters that are more than visible."""
    return {character for character in text if not character.isprintable()} - {*allowed}


def event(payload: Any, *lines: bytes) -> bytes:
    """An event with more lines than its data; one that no provider should send can be among them."""
    data = b"data: " + payload + b"\n\n" if isinstance(payload, bytes) else wire.event(payload)
    return b"\n".join([*lines, data])


# Errors


HEADERS = {
    name: re.sub("[\r\n\x00]", "", marked(f"header_{number}")).encode().decode("latin-1")
    for number, name in zip(
        "abcdefghij",
        (
            *("authorization", "set-cookie", "x-request-id", "content-type", "retry-after"),
            *("retry-after-ms", "date", "location", "x-ratelimit-reset", "www-authenticate"),
        ),
        strict=True,
    )
}


def check_error(error: BaseException, *, most: int = EXCERPT, only: str | None = None) -> None:
    """Its text, and that of its causes and notes: an excerpt, bounded, and nothing that acts."""
    assert len(str(error)) <= most + 200  # and its own words
    told = [str(error), repr(error), *getattr(error, "__notes__", ()), *traceback.format_exception(error, limit=0)]
    for text in told:
        places = places_in(text)
        assert len(text) < 2_000
        assert not acting(text, *("\n" if text in told[2:] else ()))
        assert places.total() <= most
        assert only is None or set(places) <= {only}
        assert not any(place.startswith("header") for place in places)


def failed(*reads: bytes, exc: Exception | None = None, **options: Any) -> ChatCompletionParser:
    parser = ChatCompletionParser(**{"headers": HEADERS, **options})
    for data in reads:
        parser.feed(data)
    if exc is None:
        parser.close()
    else:
        parser.interrupt(exc)
    return parser


def check(parser: ChatCompletionParser, **allowed: Any) -> None:
    """A parser's error, if there is one, and its anomalies."""
    if parser.error is not None:
        check_error(parser.error, **allowed)
    for anomaly in parser.anomalies:
        for text in (anomaly.detail, anomaly.first, repr(anomaly), str(anomaly)):
            assert len(text) <= 1_000
            assert not acting(text)
            assert places_in(text).total() <= 2 * EXCERPT  # some name two values
            assert not any(place.startswith("header") for place in places_in(text))


DETAILS = {
    "message": marked("message"),
    "type": marked("type"),
    "code": marked("code"),
    "param": marked("param"),
    "failed_generation": marked("failed_generation"),
    "metadata": {"raw": marked("raw"), marked("key"): [marked("item")]},
    marked("name"): marked("value"),
}
# The shapes in which errors come; of each, the one place that may show.
ERRORS: dict[str, tuple[bytes, str]] = {
    "envelope": (event({"error": DETAILS}), "message"),
    "envelope beside choices": (
        event({"error": DETAILS, "choices": [{"delta": {"content": marked("content")}, "finish_reason": "error"}]}),
        "message",
    ),
    "object": (event({"object": "error", **DETAILS}), "message"),
    "type": (event({**DETAILS, "type": "error"}), "message"),
    "field": (b"error: " + json.dumps(DETAILS).encode() + b"\n\n", "message"),
    "event": (event(DETAILS, b"event: error"), "message"),
    "event with text": (event(one_line("text"), b"event: error"), "text"),
    "event with a string": (event(marked("text"), b"event: error"), "text"),
    "string": (event({"error": marked("text"), "error_type": marked("type")}), "text"),
    "list": (event({"error": [{"message": marked("text"), "loc": [marked("item")]}]}), "text"),
    "list of many texts": (event({"error": [marked("text")] * 99}), "text"),
    "in a list": (event([{"error": DETAILS}]), "message"),
    "base_resp": (event({"base_resp": {"status_code": 1002, "status_msg": marked("text")}}), "text"),
    "base_resp with a word": (event({"base_resp": {"status_code": marked("code"), "status_msg": ""}}), "code"),
    "code": (event({"code": 429, marked("name"): marked("value")}), ""),
    "detail": (event({"detail": marked("text")}), "text"),
    "details": (event({"detail": [{"msg": marked("text"), "loc": [marked("item")]}]}), "text"),
    "many details": (event({"detail": [{"msg": marked("text")}] * 99}), "text"),
    "no text": (event({"error": {"message": {marked("name"): marked("value")}}}), ""),
    "nested": (event({"error": {"error": {"message": marked("text")}}}), "text"),
    "finish reason": (event({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}), ""),
    "finish reason of an odd choice": (
        event({"choices": [{"index": [marked("index")] * 9, "finish_reason": "error"}]}),
        "index",
    ),
    "finish reason, told": (event({"choices": [{"finish_reason": "error", "error": DETAILS}]}), "message"),
    "finish reason, told aside": (
        event({"choices": [{"finish_reason": "abort"}], "x_groq": {"error": marked("text")}}),
        "text",
    ),
    "other event": (event({"error": DETAILS}, b"event: " + one_line("event")), "message"),
    "body": (json.dumps({"error": DETAILS}).encode(), "message"),
}


@each_case("shape", ERRORS)
def test_an_api_errors_text_is_an_excerpt_of_its_message(shape: str) -> None:
    body, only = ERRORS[shape]
    for error in (
        failed(body).error,
        failed(delta(content=marked("content")), body).error,
        failed(body, strict=True).error,
    ):
        assert isinstance(error, APIError) or (error and shape == "body")  # which is no event stream behind a chunk
        if isinstance(error, APIError):
            check_error(error, most=MESSAGE, only=only)
        else:
            check_error(error)


@each_case("shape", ERRORS)
def test_so_is_that_of_a_status(shape: str) -> None:
    body, only = ERRORS[shape]
    error = failed(body, status_code=503).error
    assert isinstance(error, chunkfold.APIStatusError)
    assert places_in(str(error.request_id)) == {"header_c": 4998}  # it is there, for those who ask
    check_error(error, most=MESSAGE, only=only if shape == "body" else None)
    check_error(error_from_response(400, HEADERS, body), most=MESSAGE)
    assert places_in(repr(error.headers)) == {}
    assert "authorization" in repr(error.headers)


WRONG_VALUES: list[JsonValue] = [{marked("name"): marked("value")}, [marked("item")], marked("text"), 1.5, True, 10**30]
WRONG_PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    **{name: lambda value, name=name: {"choices": [], name: value}
       for name in ("id", "object", "created", "model", "usage", "service_tier", "system_fingerprint", "unknown")},
    "choices": lambda value: {"choices": value},
    "choice": lambda value: {"choices": [value]},
    **{f"choice.{name}": lambda value, name=name: {"choices": [{name: value}]}
       for name in ("index", "delta", "finish_reason", "logprobs", "message", "usage")},
    **{f"delta.{name}": lambda value, name=name: {"choices": [{"delta": {name: value}}]}
       for name in ("role", "content", "refusal", "reasoning", "reasoning_content", "reasoning_details", "tool_calls",
                    "function_call", "audio", "images", "annotations")},
    **{f"call.{name}": lambda value, name=name: {"choices": [{"delta": {"tool_calls": [{"index": 0, name: value}]}}]}
       for name in ("index", "id", "type", "function", "custom")},
    **{f"function.{name}": lambda value, name=name:
       {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {name: value}}]}}]}
       for name in ("name", "arguments")},
}  # fmt: skip


@each_case("place", WRONG_PLACES)
def test_a_value_of_the_wrong_type_shows_as_an_excerpt(place: str) -> None:
    for value in WRONG_VALUES:
        body = event(WRONG_PLACES[place](value))
        for strict in (False, True):
            check(failed(body, body, delta("stop"), strict=strict))


NO_CHUNKS: dict[str, bytes] = {
    "text": event(one_line("text")),
    "broken JSON": event(b"{" + one_line("text")),
    "cut JSON": event(b'{"choices": [{"delta": {"content": "' + one_line("text")),
    "a string": event(marked("text")),
    "a list": event([marked("text"), marked("item")]),
    "a number": event(b"9" * 5000),
    "a number in an object": event(b'{"x":' + b"9" * 5000 + b"}"),
    "deep JSON": event(b"[" * 5000),
    "no UTF-8": event(b"\xff" + one_line("text")),
    "several payloads": event(b'{"choices": []}\ndata: ' + one_line("text")),
    "another API's object": event({"type": "response." + marked("type"), marked("name"): marked("value")}),
    "another API's event": event({}, b"event: response." + one_line("event")),
    "an event with a name and an id": event(
        {marked("name"): 1}, b"event: " + one_line("event"), b"id: " + one_line("id")
    ),
    "HTML": b"<html>" + one_line("text"),
    "a text": marked("text").encode(),
    "a JSON object": json.dumps({marked("name"): marked("value")}).encode(),
    "JSON lines": json.dumps({"model": marked("model")}).encode() + b"\n{}",
    "a long line": b"data: " + one_line("text"),
    "a field of no meaning": one_line("field") + b": " + one_line("value") + b"\n\n",
    "a retry that is none": b"retry: " + one_line("retry") + b"\n\n",
}


@each_case("what", NO_CHUNKS)
def test_what_is_no_chunk_shows_as_an_excerpt(what: str) -> None:
    body = NO_CHUNKS[what]
    for strict in (False, True):
        check(failed(body, status_code=200, strict=strict))
        check(failed(delta(content="x"), body, strict=strict))
    check(failed(body, max_event_size=100), only="")
    check(failed(body, status_code=500), most=MESSAGE)


def call(**function: Any) -> dict[str, Any]:
    return {"index": 0, "id": marked("id"), "type": marked("type"), "function": function}


DIGITS = b"9" * 4300
LONG_ID = delta(tool_calls=[fragment(0, "<digits>", "f")]).replace(b'"<digits>"', DIGITS)
# Streams that break a rule, whose note quotes what was sent.
QUOTED: dict[str, bytes] = {
    "CF204 a role": delta(role="a") + delta(role=marked("role")),
    "CF205 an id that changes": event({**HEAD, "id": marked("id")}) + event({**HEAD, "id": "b"}),
    "CF205 a model that changes": event({**HEAD, "model": "m"}) + event({**HEAD, "model": marked("model")}),
    "CF206 an unusual object": event({**HEAD, "object": marked("object"), "choices": []}),
    "CF206 an object that is a list": event({**HEAD, "object": [marked("object")] * 99, "choices": []}),
    "CF209 a value of a wrong type": event({**HEAD, "usage": [marked("usage")]}),
    "CF212 a key whose value is too deep": delta(content="a", **{marked("key"): json.loads("[" * 260 + "]" * 260)}),
    "CF301 a tool call's name": delta(tool_calls=[fragment(None, name=marked("name"))]),
    "CF302 a tool call without an id": delta(tool_calls=[fragment(0, name=marked("name"), arguments="{}")]),
    "CF303 a tool call's id of 4,300 digits": LONG_ID,
    "CF304 a tool call's id": delta(tool_calls=[fragment(0, marked("id"), "f"), fragment(0, marked("other_id"), arguments="")]),
    "CF305 another tool call's id": delta(tool_calls=[fragment(0, "a", "f", ""), fragment(0, marked("id"), "g", "")]),
    "CF306 a tool call's id that is taken": delta(tool_calls=[fragment(0, marked("id"), "f"), fragment(1, marked("id"), "g")]),
    "CF307 a tool call's name, repeated": delta(tool_calls=[fragment(0, "a", marked("name"))] * 2),
    "CF308 a piece of a tool call's name": delta(tool_calls=[fragment(0, "a", "f"), fragment(0, name=marked("name"))]),
    "CF309 a tool call's late name": delta(tool_calls=[fragment(0, "a", marked("name"), "{}"), fragment(0, "a", marked("late"))]),
    "CF311 the name of a call with a placeholder": delta(tool_calls=[fragment(0, "a", marked("name"), "{}"), fragment(0, arguments="{}")]),
    "CF401 usage": event({**HEAD, "usage": {marked("key"): 1}}) + event({**HEAD, "usage": {marked("key"): 0}}),
    "CF504 finish reasons": delta(marked("reason")) + delta(marked("other_reason")),
    "CF506 a finish reason": delta(marked("reason"), content="a") * 2,
}  # fmt: skip


@each_case("name", QUOTED)
def test_anomalies_quote_by_excerpt(name: str) -> None:
    noted = failed(QUOTED[name], delta("stop"))
    assert name[:5] in {anomaly.rule.id for anomaly in noted.anomalies}
    check(noted)
    strict = failed(QUOTED[name], delta("stop"), strict=True)
    assert isinstance(strict.error, chunkfold.InvalidStreamError)
    check(strict, most=2 * EXCERPT)


TEXT = delta(content=marked("content"), reasoning=marked("reasoning"))


def test_limits_and_ends_show_nothing() -> None:
    clock = ManualClock()
    stalled = ChatCompletionParser(progress_timeout=1, clock=clock, headers=HEADERS)
    stalled.feed(TEXT)
    clock.advance(2)
    stalled.feed(b": " + one_line("comment") + b"\n\n")
    parsers = {
        "max_event_size": failed(TEXT, max_event_size=9),
        "max_output_size": failed(TEXT, max_output_size=9),
        "truncated": failed(TEXT),
        "[DONE]": failed(b": " + one_line("comment") + b"\n\n" + DONE),
        "progress_timeout": stalled,
    }
    for told, parser in parsers.items():
        assert parser.error is not None
        assert told in str(parser.error) or told == "truncated"
        check(parser, only="")


class HostileError(Exception):
    """A transport's, whose text is not to be trusted."""


def test_an_interruption_quotes_the_transport_by_excerpt() -> None:
    cause = HostileError(marked("cause"))
    error = failed(TEXT, exc=cause).error
    assert error.__cause__ is cause  # its own text is its own
    error.__cause__ = None
    check_error(error, only="cause")
    check(failed(TEXT, delta("stop"), exc=cause), only="")
    strict = failed(delta(marked("reason")), exc=cause, strict=True).error
    strict.__cause__ = None
    check_error(strict)


def test_leaving_and_reading_again_show_nothing() -> None:
    with ChatCompletionStream([TEXT, TEXT]) as left:
        next(left)
    with ChatCompletionStream([TEXT, delta("stop"), DONE], headers=HEADERS) as whole:
        whole.read()
    for again in (left.completion, lambda: list(left), lambda: list(whole), ChatCompletionParser().completion):
        with pytest.raises(ChunkfoldError) as caught:
            again()
        check_error(caught.value, only="")


# Errors of `parse`


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Pet(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Tree(BaseModel):
    below: dict[str, "Tree"] = {}
    leaf: int = 0


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


def refused(city: str) -> str:
    raise ValueError(f"no such city: {city}")


class Fussy(BaseModel):
    city: Annotated[str, AfterValidator(refused)]


def tree(depth: int) -> dict[str, Any]:
    return {"below": {marked(f"branch_{depth}"): tree(depth - 1)}} if depth else {"leaf": marked("leaf")}


MISFITS: dict[str, tuple[Any, Any]] = {
    "no integer": (int, marked("text")),
    "no object": (Tree, marked("text")),
    "an unknown key": (Closed, {marked("key"): marked("value")}),
    "a key that is no integer": (dict[int, int], {marked("key"): 1}),
    "a value below a long key": (dict[str, int], {marked("key"): marked("value")}),
    "no member of a union": (int | bool | Closed, marked("text")),
    "no literal": (Literal["cat", "dog"], marked("text")),
    "a list of the wrong kind": (list[int], [marked("item")] * 500),
}
MISFITS_QUOTED_TWICE: dict[str, tuple[Any, Any]] = {
    "no tag of a union": (Pet, {"pet": {"kind": marked("tag")}}),
    "what a validator says": (Fussy, {"city": marked("city")}),
    "deep below long keys": (Tree, tree(20)),
}


def misfit(as_type: Any, value: Any, *, raw: bool) -> Iterator[ParseError]:
    """The errors of every way to parse a value as what it is not."""
    text = json.dumps(value, ensure_ascii=not raw)
    for parse in (Function(arguments=text).parse, ChatCompletionMessage(content=text).parse):
        with pytest.raises(ParseError) as caught:
            parse(as_type)
        yield caught.value


@each_case("raw", [False, True], ids=["escaped", "raw"])
@each_case("what", [*MISFITS, *MISFITS_QUOTED_TWICE])
def test_json_of_the_wrong_type_shows_as_an_excerpt(what: str, raw: bool) -> None:
    for error in misfit(*(MISFITS | MISFITS_QUOTED_TWICE)[what], raw=raw):
        # Of the text, and of a key; or of the text, and of what pydantic says or a long path.
        check_error(error, most=EXCERPT + BRIEF if what in MISFITS else 2 * EXCERPT)


@each_case("as_type", [None, Tree, dict[str, Any]], ids=str)
@each_case("text", [
    marked("text"),
    "{" + marked("text"),
    '{"key": ' + marked("text"),
    '{"key": "' + marked("text"),
    json.dumps(marked("key")) + ":",
    "[" * 1_000,
    "9" * 10_000,
    "\ud800" * 5000,
], ids=["text", "begun object", "begun value", "begun string", "no object", "too deep", "long number", "halves"])  # fmt: skip
def test_what_is_no_json_shows_as_an_excerpt(text: str, as_type: Any) -> None:
    for parse in (
        Function(arguments=text).parse,
        Function(arguments=text).parse_partial,
        ChatCompletionMessage(content=text).parse,
        ChatCompletionMessage(content=text).parse_partial,
        lambda as_type: PartialJSON(as_type).feed(text),
        lambda as_type: read_partials(text, as_type),
    ):
        try:
            parse(as_type)
        except ChunkfoldError as error:
            error.__cause__ = None
            check_error(error)


def read_partials(text: str, as_type: Any) -> None:
    stream = ChatCompletionStream([delta(content=text), delta("stop"), DONE])
    for _ in stream.partials(as_type):
        pass


def test_a_refusal_in_place_of_json_shows_as_an_excerpt() -> None:
    with pytest.raises(ParseError) as caught:
        ChatCompletionMessage(refusal=marked("refusal")).parse()
    check_error(caught.value, only="refusal")


def test_arguments_that_a_validator_breaks_on_show_as_an_excerpt() -> None:
    def broken(city: str) -> str:
        raise KeyError(city)

    class Broken(BaseModel):
        city: Annotated[str, AfterValidator(broken)]

    arguments = json.dumps({"city": marked("city")})
    parser = ChatCompletionParser(tools={"weather": Broken})
    parser.feed(delta("tool_calls", tool_calls=[call(name="weather", arguments=arguments)]))
    (done,) = (event for event in parser.events() if isinstance(event, ToolCallDone))
    assert isinstance(done.error, ParseError)
    assert isinstance(done.error.__cause__, KeyError)  # the validator's own text is its own
    done.error.__cause__ = None
    check_error(done.error, only="city")
    assert len(repr(done)) < 3_000
    assert not acting(repr(done))
    assert places_in(repr(done)).total() <= EXCERPT + 3 * BRIEF


# Errors over HTTP


REQUEST_HEADERS = {"authorization": "Bearer header_key~0001", "cookie": "key=header_cookie~0001"}
ANSWERS: dict[str, Answer] = {
    "status": Answer(json.dumps({"error": DETAILS}).encode(), status=429),
    "redirect": Answer(b"", status=307),
    "redirect with secrets": Answer(
        b"",
        status=307,
        headers={"location": "https://header_user~0001:header_password~0001@api.example/v1?key=header_query~0001"},
    ),
    "HTML": Answer(b"<html>" + one_line("text")),
    "error in the stream": Answer(ERRORS["envelope"][0]),
    "no chunk": Answer(event(one_line("text"))),
    "cut": Answer([TEXT], ending="cut"),
    "cut before output": Answer([b": hi\n\n"], ending="cut"),
    "reset": Answer([], ending="reset"),
    "truncated": Answer(TEXT),
    "stalled": Answer([TEXT, math.inf]),
    "too large": Answer(TEXT, headers={"content-encoding": "identity"}),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_over_http_neither_headers_nor_the_url_show(library: Any, what: str) -> None:
    answer = ANSWERS[what]
    sent = {name: re.sub("[^ -~]", "", value)[:2000] for name, value in HEADERS.items()}
    answer = Answer(answer.body, answer.status, headers={**sent, **answer.headers}, ending=answer.ending)
    options: dict[str, Any] = {"max_event_size": 100} if what == "too large" else {}
    options_of_client = {"timeout": 0.15} if what == "stalled" else {}
    with FakeProvider(answer) as provider, library.Client(**{**ALONE, **options_of_client}) as client:
        url = provider.url.replace("//", "//user:header_password~0001@") + "?key=header_query~0001"
        with (
            pytest.raises((ChunkfoldError, library.HTTPError)) as caught,
            connect(
                client, "POST", url, json={"prompt": marked("prompt")}, headers=REQUEST_HEADERS, **options
            ) as stream,
        ):
            stream.read()
    trace = "".join(traceback.format_exception(caught.value))
    shown = places_in(trace)
    assert not any(place.startswith(("header", "prompt")) for place in shown)
    assert not acting(trace, "\n")
    if isinstance(caught.value, ChunkfoldError):
        check_error(caught.value, most=MESSAGE)
        check_text(repr(stream), most=0)


def test_a_trailer_does_not_show_either(library: Any) -> None:
    answer = Answer([TEXT, Raw(b"0\r\nset-cookie header_trailer~0001\r\n\r\n")], ending="cut")
    with (
        FakeProvider(answer) as provider,
        library.Client(**ALONE) as client,
        pytest.raises(ChunkfoldError) as caught,
        connect(client, "POST", provider.url, json={}) as stream,
    ):
        stream.read()
    assert not places_in(str(caught.value))


# What values show of themselves


def check_text(text: str, *, most: int, longest: int = 3_000, allowed: str = "") -> None:
    assert len(text) < longest
    assert not acting(text, *allowed)
    places = places_in(text)
    assert not places or max(places.values()) <= BRIEF
    assert places.total() <= most
    assert not any(place.startswith("header") for place in places)


def check_shown(value: Any, *, most: int = 3_000) -> None:
    for show in (repr, str):
        check_text(show(value), most=most)


def arguments(place: str) -> str:
    return json.dumps({"text": marked(place)})


LOGPROB = {"token": marked("token"), "bytes": [*range(256)], "logprob": -0.5}
CITATION = {"type": "url_citation", "url_citation": {"url": marked("url"), "title": marked("title")}}
FULL_DELTA = {
    "role": "assistant",
    "content": marked("content"),
    "refusal": marked("refusal"),
    "reasoning": marked("reasoning"),
    "reasoning_details": [{"type": "reasoning.text", "text": marked("detail"), "signature": marked("signature")}],
    "tool_calls": [
        {"index": 0, "id": marked("id"), "type": "function",
         "function": {"name": marked("tool"), "arguments": arguments("arguments")}},
        {"index": 1, "id": marked("id"), "type": "custom", "custom": {"name": marked("tool"), "input": marked("input")}},
    ],
    "function_call": {"name": marked("tool"), "arguments": marked("arguments")},
    "images": [{"type": "image_url", "image_url": {"url": marked("image")}}],
    "audio": {"id": marked("id"), "data": "QUJD" * 2000, "transcript": marked("transcript"), "expires_at": 1},
    "annotations": [CITATION],
    "unknown": {marked("key"): [marked("unknown")]},
}  # fmt: skip
FULL_USAGE = {
    "prompt_tokens": 1,
    "completion_tokens": 1,
    "total_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 0, "unknown": marked("unknown")},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
FULL = [
    event({
        "id": marked("id"), "object": "chat.completion.chunk", "created": 1, "model": marked("model"),
        "system_fingerprint": marked("fingerprint"), "service_tier": marked("tier"), "unknown": marked("unknown"),
        "choices": [{
            "index": 0,
            "delta": FULL_DELTA,
            "finish_reason": None,
            "logprobs": {"content": [{**LOGPROB, "top_logprobs": [LOGPROB]}] * 9, "refusal": [LOGPROB] * 9},
        }],
    }, b"id: " + one_line("event_id")),
    delta(content=[{"type": "reference", "title": marked("title")}]),
    event(one_line("data"), b"event: " + one_line("event_name")),
    delta(marked("reason")),
    event({"choices": [], "usage": FULL_USAGE}),
    DONE,
]  # fmt: skip


def models_in(value: Any) -> Iterator[Model]:
    """A model, and the models in it."""
    if isinstance(value, Model):
        yield value
        for part in (*vars(value).values(), *(value.model_extra or {}).values()):
            yield from models_in(part)
    elif isinstance(value, list):
        for item in value:
            yield from models_in(item)


def full() -> tuple[ChatCompletionParser, list[ChatCompletionChunk], list[ServerSentEvent]]:
    sent: list[ServerSentEvent] = []
    parser = ChatCompletionParser(on_server_sent_event=lambda event, _: sent.append(event), headers=HEADERS)
    chunks = [chunk for data in FULL for chunk in parser.feed(data)]
    parser.close()
    assert parser.error is None
    return parser, chunks, sent


@cache
def every_model() -> dict[str, Model]:
    parser, chunks, _ = full()
    models = [
        *models_in(chunks),
        *models_in(parser.completion()),
        ErrorObject.model_validate(dict(DETAILS_WITHOUT_NAMES)),
    ]
    return {type(model).__name__: model for model in models}


DETAILS_WITHOUT_NAMES = {name: value for name, value in DETAILS.items() if name.isidentifier()}


def all_models(model: type[Model] = Model) -> Iterator[type[Model]]:
    for each in model.__subclasses__():
        if each.__module__.startswith("chunkfold."):
            yield each
            yield from all_models(each)


MODELS = sorted(model.__name__ for model in all_models())


def test_every_model_is_among_them() -> None:
    assert sorted(every_model()) == MODELS


@each_case("name", MODELS)
def test_a_model_shows_excerpts(name: str) -> None:
    check_shown(every_model()[name])


@each_case("name", MODELS)
def test_a_model_shows_excerpts_to_rich_too(name: str) -> None:
    text = pretty_repr(every_model()[name])
    check_text(re.sub(r"\n *", " ", text), most=3_000)


MANY = 30


def test_what_has_many_parts_shows_a_few() -> None:
    calls = [
        {"id": marked("id"), "type": "function", "function": {"name": marked("tool"), "arguments": marked("arguments")}}
    ]
    message = {"content": marked("content"), "reasoning": marked("reasoning"), "tool_calls": calls * MANY}
    choice = {"index": 0, "finish_reason": marked("reason"), "message": message}
    completion = ChatCompletion.model_validate({"id": marked("id"), "choices": [choice] * MANY})
    check_shown(completion)


def test_the_name_of_an_unknown_key_shows_as_an_excerpt() -> None:
    for model in all_models():
        check_shown(model.model_construct(**{marked("key"): 1}))


def test_of_many_unknown_keys_a_few_show() -> None:
    check_shown(ChatCompletionChunk.model_validate({f"key_{number}": marked("value") for number in range(1000)}))


def test_a_number_of_any_length_can_be_shown() -> None:
    chunk = ChatCompletionChunk.model_validate_json(b'{"unknown": ' + b"9" * 4000 + b"}")
    check_shown(chunk)


def test_every_event_shows_excerpts() -> None:
    parser = ChatCompletionParser()
    parser.events()
    shown: list[ChatCompletionEvent] = []
    for data in FULL:
        parser.feed(data)
        shown += parser.events()
    parser.close()
    shown += parser.events()
    assert {type(event) for event in shown} == set(get_args(ChatCompletionEvent))
    for each in shown:
        if isinstance(each, AnomalyNoted):
            check_anomaly(each)
        else:
            check_shown(each)


def test_every_part_of_a_message_shows_excerpts() -> None:
    parts = full()[0].completion().message.parts
    assert {type(part) for part in parts} == set(get_args(MessagePart))
    for part in parts:
        check_shown(part)


def test_what_reads_shows_nothing() -> None:
    parser, _, sent = full()
    accumulator = ChatCompletionAccumulator()
    accumulator.add(ChatCompletionChunk.model_validate_json(FULL[0].partition(b"data: ")[2]))
    decoder = EventStreamDecoder()
    decoder.feed(FULL[0][:-1])
    partial = PartialJSON()
    partial.feed(json.dumps({"text": marked("text")})[:-1])
    stream = ChatCompletionStream(FULL, headers=HEADERS)
    stream.read()
    broken = ChatCompletionStream([FULL[0]], headers=HEADERS)
    with pytest.raises(ChunkfoldError):
        broken.read()
    for value in (parser, accumulator, decoder, partial, stream, broken, parser.timing, StreamTiming(), stream.timing):
        check_shown(value, most=0)
    assert len(sent) == len(FULL)
    for event in sent:
        check_shown(event)
        check_shown(parse_payload(event))
    for anomaly in (*parser.anomalies, *broken.anomalies):
        check_anomaly(anomaly)


def check_anomaly(anomaly: Anomaly | AnomalyNoted) -> None:
    """Its detail is an excerpt already, as it is in a message."""
    assert len(repr(anomaly)) < 2_000
    assert not acting(repr(anomaly))
    assert places_in(repr(anomaly)).total() <= EXCERPT


@each_case("shape", ERRORS)
def test_a_payload_with_an_error_shows_excerpts(shape: str) -> None:
    for sent in EventStreamDecoder().feed(ERRORS[shape][0]):
        payload = parse_payload(sent)
        text = repr(payload)
        assert len(text) < 3_000
        assert not acting(text)
        places = places_in(text)
        assert places.total() <= MESSAGE + 8 * BRIEF
        assert {place for place, size in places.items() if size > BRIEF} <= {ERRORS[shape][1]}


# The terminal

# What rich writes of itself: its styles, the cursor hidden and shown, up a row, a row erased.
VIEWS_OWN = re.compile(r"\x1b\[(?:0|1|2|36|1;36)m|\x1b\[\?(?:25|7)[lh]|\x1b\[\d{1,3}[AB]|\x1b\[999M|\x1b\[2K|\r")
ATTACKS = {
    "colour": "\x1b[31m",
    "conceal": "\x1b[8m",
    "bright": "\x1b[38;2;1;2;3m",
    "erase": "\x1b[2J",
    "cursor home": "\x1b[1;1H",
    "reset": "\x1bc",
    "title": "\x1b]0;root\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "device control": "\x1bP$qm\x1b\\",
    "a question": "\x1b[6n",
    "C1": "\x9b31m\x9d0;root\x9c\x85",
    "carriage return": "yes\rno\r\nand",
    "backspaces": "yes\b\b\bno\x7f",
    "bells": "\x07\x00\x0b\x0c\x0e\x0f",
    "override": "\u202egpj.exe\u202c",
    "embedding": "\u202a\u202b\u202dx\u202c",
    "isolate": "\u2067x\u2066y\u2068z\u2069",
    "marks": "\u200e\u200f\u061c",
    "separators": "a\u2028b\u2029c",
    "half a character": "\ud83d",
    "both halves": "\ud83d\ude00",
    "halves the wrong way": "\ude00\ud83d",
    "markup": "[red]x[/red] :smile: [link=http://evil.example]y[/link]",
}


def on_a_console(is_terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), width=80, height=24, force_terminal=is_terminal, highlight=False, _environ={"TERM": "xterm"}
    )


def shown_of(reads: list[bytes], *, is_terminal: bool) -> str:
    """What the command line writes of a stream: as it comes, then what there is to say of it."""
    console = on_a_console(is_terminal)
    assert isinstance(console.file, io.StringIO)
    view, failure = LiveView(console) if is_terminal else TextView(console.file), None
    stream = ChatCompletionStream(reads)
    with redirect_stderr(console.file):
        try:
            with view:
                watch(stream, Painter(view))
        except ChunkfoldError as error:
            failure = error
        result = result_of(stream, failure)
        view.show_facts(footer(result))
    if result.error is not None:
        console.file.write(error_line(result) + "\n")
    return console.file.getvalue()


def check_screen(written: str, *, is_terminal: bool) -> None:
    """Nothing acts but what rich wrote of itself, and elsewhere than on a terminal nothing at all."""
    rest = VIEWS_OWN.sub("", written) if is_terminal else written
    assert not acting(rest, "\n")
    written.encode()  # which halves of characters would not let


def everywhere(first: str, second: str) -> list[bytes]:
    """Two deltas that bring the two texts in every field that is drawn."""
    return [
        *(delta(reasoning=text) for text in (first, second)),
        *(delta(content=text) for text in (first, second)),
        *(delta(tool_calls=[fragment(0, first, text)]) for text in (first, second)),
        *(delta(tool_calls=[fragment(0, arguments=text)]) for text in (first, second)),
        delta(
            tool_calls=[{"index": 1, "id": "b", "type": "custom", "custom": {"name": second, "input": first + second}}]
        ),
        delta(tool_calls=[fragment(2, "c", first, arguments_of(first + second))]),
    ]


def arguments_of(text: str) -> str:
    return json.dumps({text: [text]})


@each_case("is_terminal", [True, False], ids=["terminal", "pipe"])
@each_case("attack", ATTACKS)
def test_nothing_a_model_says_acts_wherever_it_is_cut(attack: str, is_terminal: bool) -> None:
    text = ATTACKS[attack]
    size = len(text)
    places = {*range(min(size, 12)), size - 1, size}  # which the longer ones do not need to their middle
    for place in sorted(places) if is_terminal else (0, size // 2):  # elsewhere see also the next test
        reads = everywhere(text[:place], text[place:])
        check_screen(shown_of([*reads, delta(text), DONE], is_terminal=is_terminal), is_terminal=is_terminal)


@each_case("attack", ATTACKS)
def test_it_is_visible_instead(attack: str) -> None:
    text = ATTACKS[attack]
    for place in range(len(text) + 1):
        reads = [delta(content=part) for part in (text[:place], text[place:])]
        written = shown_of([*reads, delta("stop"), DONE], is_terminal=False)
        assert written.rpartition("finished: stop")[0] == visible(text)


def visible(text: str) -> str:
    """The text with what acts in it as Python would write it; carriage returns are dropped."""
    text = text.replace("\r", "")
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves that belong together, joined
    return "".join(
        letter if letter == "\n" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in whole
    )


@each_case("is_terminal", [True, False], ids=["terminal", "pipe"])
@each_case("attack", ATTACKS)
def test_nothing_a_provider_says_of_an_error_acts(attack: str, is_terminal: bool) -> None:
    text = ATTACKS[attack]
    for place in (0, len(text) // 2) if is_terminal else (len(text) // 2,):
        reads = everywhere(text[:place], text[place:])
        for last in (
            event({"error": {"message": text, "type": text, "code": text}}),
            event(re.sub("[\r\n]", " ", text).encode("utf-8", "replace")),
            delta(content={text: text}),
            b"",
        ):
            check_screen(shown_of([*reads, last], is_terminal=is_terminal), is_terminal=is_terminal)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_nothing_that_stands_for_a_count_acts(name: str, is_terminal: bool) -> None:
    for attack in ATTACKS.values():
        usage = {"prompt_tokens": 1, "completion_tokens": 1, name: attack}
        reads = [delta(content="Hi"), delta("stop"), event({"choices": [], "usage": usage}), DONE]
        check_screen(shown_of(reads, is_terminal=is_terminal), is_terminal=is_terminal)


@pytest.mark.parametrize(
    "returned",
    [
        {"error": marked("error")},
        {
            "text": marked("text"),
            "tool_calls": [{"id": marked("id"), "name": marked("name"), "arguments": marked("text")}],
        },
        {"text": "", "reasoning": marked("reasoning")},
        {"text": "", "usage": {"prompt_tokens": marked("count")}},
        {"text": "", "finish_reason": marked("reason")},
    ],
    ids=lambda returned: [*returned][-1],
)
def test_nothing_that_a_client_returns_acts_in_the_report_on_it(returned: dict[str, Any]) -> None:
    client = client_of("a client", lambda body: returned)
    report = plain_text([(client, hold(client, hostile_streams()))])
    assert not acting(report, "\n")
    assert max(map(len, report.splitlines())) < 2_000


# A URL's path


KEYS_IN_PATHS = {
    "a known prefix": ("sk-proj-AbCdEfGhIjKlMnOp1234", "/v1/{}/chat/completions"),
    "a short key with a known prefix": ("sk-a1b2c3d4", "/{}/v1"),
    "letters and digits": ("x7Gk2PqR9sLw4TzB8nVd", "/v1/{}/openai"),
    "one case": ("d41d8cd98f00b204e9800998ecf8427e", "/v1/{}/gateway/openai"),
    "with a number before it": ("bot123:x7Gk2PqR9sLw4TzB8nVd", "/{}/v1"),
    "escaped": ("x7Gk2PqR9sLw4TzB8nVd%3D%3D", "/v1/{}/openai"),
    "after its name": ("swordfish-and-more", "/token/{}/v1"),
    "after its name, with a prefix": ("swordfish-and-more", "/v1/api_key/{}"),
    "after its name and a sign": ("swordfish-and-more", "/v1/x-key={};v=1/openai"),
}


@each_case(("key", "path"), KEYS_IN_PATHS.values(), ids=KEYS_IN_PATHS)
def test_a_key_in_a_urls_path_is_starred(key: str, path: str) -> None:
    url = f"https://gateway.example{path.format(key)}"
    assert clean_url(url) == f"https://gateway.example{path.format('*' * len(key))}"
    refused = httpx.Response(401, text=f"no such key: {unquote(key)}", request=httpx.Request("POST", url))
    recorder = Recorder(refused)
    recorder.read()
    assert recorder.recording.url == clean_url(url)
    assert recorder.recording.body == f"no such key: {'*' * len(unquote(key))}".encode()
    for shown in (page([facts_of(Recording((), url=url), "a")]), json.dumps(trace([facts_of(at_times(url), "a")]))):
        assert key not in shown
        assert "*" * len(key) in shown


def at_times(url: str) -> Recording:
    return Recording((RecordedRead(0.5, delta("stop")),), url=url, headers_at=0.1)


NAMES_IN_PATHS = [
    "/v1/chat/completions",
    "/openai/deployments/gpt-4o-mini-2024-07-18/chat/completions",
    "/openai/deployments/gpt4ominideploymenteastus2/chat/completions",
    "/openai/deployments/MetaLlama31InstructTurbo/chat/completions",
    "/accounts/fireworks/models/llama-v3p1-405b-instruct",
    "/model/anthropic.claude-3-5-sonnet-20241022-v2:0/converse",
    "/models/Qwen/Qwen2.5-VL-7B-Instruct-GGUF-Q4_K_M/v1",
    "/models/hf-internal-testing/tiny-random-gpt2",
    "/models/mixtral8x7binstructv01/sk-learn",
    "/v1/projects/my-project-123456/locations/us-central1/endpoints/1234567890123456789/chat/completions",
    "/v2/pexec/functions/f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "/v2/vllm-abc123xyz/openai/v1",
    "/token/v1/chat/completions",
    "/chatcompletionsstreamingendpointnameofours/v1",
]


@each_case("path", NAMES_IN_PATHS)
def test_names_in_a_urls_path_stay(path: str) -> None:
    assert clean_url(f"https://gateway.example{path}") == f"https://gateway.example{path}"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["sk-", "sk-a-", "a", "a1", "aB3", "/", "key/", "%", "="], ids=repr)
def test_looking_at_a_path_is_linear(piece: str) -> None:
    assert_linear(lambda size: partial(secrets_in_request, "https://a.example/sk-" + piece * size, {}), 2_000)
