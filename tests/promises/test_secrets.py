"""What exceptions show: excerpts, never a whole content, never a header's value, nothing that acts; see `marked_texts`."""

import json
import math
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from cases import each_case
from fronts import ALONE, each_library
from marked_texts import (
    BRIEF,
    DETAILS,
    ERRORS,
    EXCERPT,
    HEADERS,
    MESSAGE,
    acting,
    check_text,
    event,
    marked,
    one_line,
    places_in,
)
from parsed_bodies import fed
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

import chunkfold
from chunkfold import (
    APIError,
    ChatCompletionMessage,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    Function,
    ParseError,
    PartialJSON,
    ToolCallDone,
    connect,
    error_from_response,
)
from chunkfold.testing import DONE, HEAD, Answer, FakeProvider, ManualClock, Raw, delta, fragment

library = each_library


# Errors


def failed(*reads: bytes, exc: Exception | None = None, **options: Any) -> ChatCompletionParser:
    parser = fed(reads, **{"headers": HEADERS, **options})
    if exc is None:
        parser.close()
    else:
        parser.interrupt(exc)
    return parser


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
    "an object that nobody can explain": event({"status": marked("status")}),
    "an event with a name and an id": event(
        {marked("name"): 1}, b"event: " + one_line("event"), b"id: " + one_line("id")
    ),
    "HTML": b"<html>" + one_line("text"),
    "a text": marked("text").encode(),
    "a JSON object": json.dumps({marked("name"): marked("value")}).encode(),
    "JSON before a stream": json.dumps({"status": marked("status")}).encode() + b"\n\n" + DONE,
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
    parser = fed(delta("tool_calls", tool_calls=[call(name="weather", arguments=arguments)]), tools={"weather": Broken})
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
    "cut": Answer([TEXT], ending="cut"),
    "cut before output": Answer([b": hi\n\n"], ending="cut"),
    "reset": Answer([], ending="reset"),
    "truncated": Answer(TEXT),
    "stalled": Answer([TEXT, math.inf]),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_over_http_neither_headers_nor_the_url_show(library: Any, what: str) -> None:
    answer = ANSWERS[what]
    sent = {name: re.sub("[^ -~]", "", value)[:2000] for name, value in HEADERS.items()}
    answer = Answer(answer.body, answer.status, headers={**sent, **answer.headers}, ending=answer.ending)
    options_of_client = {"timeout": 0.15} if what == "stalled" else {}
    with FakeProvider(answer) as provider, library.Client(**{**ALONE, **options_of_client}) as client:
        url = provider.url.replace("//", "//user:header_password~0001@") + "?key=header_query~0001"
        with (
            pytest.raises((ChunkfoldError, library.HTTPError)) as caught,
            connect(client, "POST", url, json={"prompt": marked("prompt")}, headers=REQUEST_HEADERS) as stream,
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
