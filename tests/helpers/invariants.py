"""What holds for any bytes at all, however they are cut: the promises of the design, as checks that any input goes through.

`check` reads one body in many ways (whole, in pieces, with and without chunks, looked at on the way, strict, with and
without limits, cut short) and holds them to each other, and each layer to those below it. A promise that is broken
raises `Broken`, which says what differs; anything else that is raised came out of a call that must not raise it.
The standard library and chunkfold are all it needs, so that a fuzzer can run it.
"""

import base64
import dataclasses
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel
from reference_decoder import decode_whole

from chunkfold import (
    RULES,
    AnnotationReceived,
    Anomaly,
    AnomalyNoted,
    APIError,
    AudioDelta,
    AudioPart,
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionParser,
    ChoiceFinished,
    ChunkfoldError,
    CompletionUsage,
    CumulativeDeltas,
    EventStreamDecoder,
    ImagePart,
    ImageReceived,
    IncompleteStreamError,
    InvalidStreamError,
    LimitExceededError,
    OneChoice,
    ParseError,
    PartialJSON,
    ReasoningDelta,
    ReasoningPart,
    RefusalDelta,
    RefusalPart,
    ServerSentEvent,
    StreamEnd,
    StreamInterruptedError,
    TextDelta,
    TextPart,
    ThinkTags,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallPart,
    ToolCallStarted,
    UsageReceived,
    encode_event,
    error_from_response,
    is_retryable,
    parse_payload,
)
from chunkfold.json_text.surrogates import scrubbed
from chunkfold.models.base import validate_leniently
from chunkfold.parser.parser import feed_in_slices
from chunkfold.testing import bytewise, cut

LONGEST_MESSAGE = 2000  # characters
FEW_BYTES = 100  # a body of so many is also read byte by byte
MANY_DIGITS = 10**600  # from here on a reconnection time is only a very long time
LONG_NUMBER = 1000  # characters from which on a number is judged when it has ended
RESET = ConnectionError("reset\x1b")
MORE = b'data: {"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ERROR_OF: dict[StreamEnd | None, type[ChunkfoldError]] = {
    StreamEnd.EMPTY: IncompleteStreamError,
    StreamEnd.TRUNCATED: IncompleteStreamError,
    StreamEnd.FAILED: APIError,
    StreamEnd.INVALID: InvalidStreamError,
    StreamEnd.INTERRUPTED: StreamInterruptedError,
}


class Broken(AssertionError):  # noqa: N818 - said of a promise
    """A promise was not kept."""


def hold(promise: str, kept: object, *what: object) -> None:
    """Raise unless the promise was kept."""
    if not kept:
        raise Broken("\n  ".join([promise, *map(repr, what)]))


def same(promise: str, one: object, other: object) -> None:
    """Raise unless both are equal."""
    hold(promise, one == other, one, other)


class Numbers(RootModel[dict[str, int]]):
    """A type of arguments: a class, for which one validator is created."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a body is read.

    Attributes:
        is_reset: Whether the transport fails behind it.
        is_left: Whether the consumer leaves behind it.
        is_transformed: Whether all transforms are applied.
    """

    strict: bool = False
    max_event_size: int | None = None
    max_output_size: int | None = None
    status_code: int | None = None
    is_reset: bool = False
    is_left: bool = False
    is_transformed: bool = False

    def parser(self, **more: Any) -> ChatCompletionParser:
        """A parser for one reading."""
        return ChatCompletionParser(
            strict=self.strict,
            max_event_size=self.max_event_size,
            max_output_size=self.max_output_size,
            status_code=self.status_code,
            headers={"X-Request-Id": "r\x1b1", "Content-Type": "text/\x1bplain", "Retry-After": "5"},
            tools={"g": Numbers},
            transforms=[CumulativeDeltas(), ThinkTags(), OneChoice()] if self.is_transformed else (),
            **more,
        )


def check(body: bytes, cuts: Iterable[int] = (), options: Options | None = None) -> None:
    """Hold a body to every promise.

    Args:
        body: Any bytes.
        cuts: Where to cut it; a number larger than the body counts from its beginning again.
        options: How to read it.

    Raises:
        Broken: A promise was not kept.
    """
    options = options or Options()
    places = sorted(place % (len(body) + 1) for place in cuts)
    check_decoder(body, places, options.max_event_size)
    check_payloads(body)
    check_parser(body, places, options)


def plain(value: Any) -> str:
    """All that a value has, as text: nothing is left out, and a NaN equals itself."""
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, ChatCompletionChunk):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, BaseModel):
        return type(value).__name__, value.model_dump()
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if dataclasses.is_dataclass(value):
        names = (part.name for part in dataclasses.fields(value))
        return type(value).__name__, *((name, _plain(getattr(value, name))) for name in names)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


# The decoder


class Decoded(NamedTuple):
    """What a decoder tells of a body that it has read to the end."""

    events: list[ServerSentEvent]
    discarded: list[ServerSentEvent]
    opening: bytes
    last_event_id: str
    reconnection_time: int | None
    limit_exceeded: bool
    unfinished: Any
    preamble: bytes | None
    opening_limit: int | None = None


def decoded(pieces: Iterable[bytes], limit: int | None = None) -> Decoded:
    """Read a body to its end."""
    decoder = EventStreamDecoder(limit)
    events: list[ServerSentEvent] = []
    discarded: list[ServerSentEvent] = []
    opening, opening_limit = b"", None
    for piece in pieces:
        events += decoder.feed(piece)
        discarded += decoder.discarded
        opening += decoder.opening
        opening_limit = opening_limit or decoder.opening_limit
    decoder.close()
    discarded += decoder.discarded
    opening += decoder.opening
    opening_limit = opening_limit or decoder.opening_limit
    ended = _state(decoder)
    same("nothing comes after the end", decoder.feed(b"\n\nid: late\nretry: 1\ndata: late\n\n"), [])
    decoder.close()
    same("nothing changes after the end", _state(decoder), ended)
    return Decoded(events, discarded, opening, *ended, opening_limit)


def _state(decoder: EventStreamDecoder) -> tuple[Any, ...]:
    # A body that is too large was given up within a line that nobody judged.
    preamble = None if decoder.limit_exceeded else decoder.preamble
    heads = decoder.last_event_id, decoder.reconnection_time
    return *heads, decoder.limit_exceeded, decoder.unfinished, preamble


def check_decoder(body: bytes, places: list[int], limit: int | None) -> None:
    """The standard to the letter, limits included, in any cut; and what is encoded is decoded."""
    reference = decode_whole(body, limit)
    whole = decoded([body], limit)
    events = [(event.event, event.data, event.text, event.id, event.offset) for event in whole.events]
    same("events are the standard's", events, [tuple(event) for event in reference.events])
    same("the last event ID is the standard's", whole.last_event_id, reference.last_event_id)
    same("the limit holds for data and lines", whole.limit_exceeded, reference.limit_exceeded)
    times = whole.reconnection_time, reference.reconnection_time
    is_long = None not in times and all(time > MANY_DIGITS for time in times if time is not None)
    hold("the reconnection time is the standard's", times[0] == times[1] or is_long, times)
    for pieces in _cuttings(body, places):
        same("what is decoded does not depend on the cuts", decoded(pieces, limit), whole)
    for event in whole.events:
        if "\0" not in event.event:
            same("what was encoded is decoded", decoded([encode_event(event)]).events, [event._replace(offset=0)])


def _cuttings(body: bytes, places: list[int]) -> Iterator[list[bytes]]:
    yield cut(body, *places)
    if b"\r" in body:
        yield re.split(rb"(?<=\r)", body)  # each CRLF over two reads
    if len(body) <= FEW_BYTES:
        yield bytewise(body)


# Payloads


def check_payloads(body: bytes) -> None:
    """Nothing raises for what an event, or the body of a refusal, may be."""
    for event in decoded([body]).events:
        before = plain(event)
        payload = parse_payload(event)
        again = parse_payload(event)
        same("a payload is read the same each time", _shown(payload.chunks), _shown(again.chunks))
        same("an event is not changed", plain(event), before)
        hold("after an error, or [DONE], nothing is both", not (payload.done and payload.error))
        if payload.error is not None:
            check_error(payload.error)
        for rule, detail in payload.notes:
            hold("a note is a rule and a text", rule in RULES and isinstance(detail, str), rule, detail)
    for headers in ({}, {"Retry-After": body[:30].decode("latin-1"), "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}):
        error = error_from_response(500, headers, body)
        hold("a refusal is known by its status", error.status_code is not None)
        check_error(error)


def _shown(chunks: list[ChatCompletionChunk]) -> list[str]:
    return [plain(chunk) for chunk in chunks]


# The parser


class Result(NamedTuple):
    """What a parser tells of a body that it has read to the end."""

    end: StreamEnd | None
    error: str
    snapshot: str
    parts: str
    anomalies: tuple[Anomaly, ...]
    has_output: bool


@dataclass
class Reading:
    """One way of reading a body, and what came of it.

    Attributes:
        fed: The chunks that came while it was read.
        chunks: All chunks, those that came at its end too.
        events: What was told from the beginning on, if it was asked for.
    """

    parser: ChatCompletionParser
    options: Options
    fed: list[ChatCompletionChunk] = field(default_factory=list)
    chunks: list[ChatCompletionChunk] = field(default_factory=list)
    events: list[ChatCompletionEvent] = field(default_factory=list)

    def end(self) -> "Reading":
        """The body is over."""
        last: list[ChatCompletionChunk] = []
        if self.options.is_left:
            self.parser.leave()
        elif self.options.is_reset:
            last = self.parser.interrupt(RESET)
        else:
            last = self.parser.close()
        self.chunks = [*self.fed, *last]
        return self

    @property
    def result(self) -> Result:
        """All that does not depend on how it was read."""
        parser = self.parser
        parts = [choice.message.parts for choice in parser.snapshot.choices]
        return Result(
            parser.end, _error(parser), plain(parser.snapshot), plain(parts), parser.anomalies, has_output(parser)
        )


def has_output(parser: ChatCompletionParser) -> bool:
    """Whether output came, whoever got it."""
    return parser._fold.has_output


def _error(parser: ChatCompletionParser) -> str:
    error = parser.error
    if error is None:
        return ""
    # Output that was only folded was not emitted.
    fields = {name: value for name, value in vars(error).items() if name not in ("_snapshot", "emitted_output")}
    return f"{type(error).__name__}: {error} {plain(list(fields.items()))} {error.__cause__!r}"


def whole_reading(body: bytes, options: Options) -> Reading:
    """The body in one piece, its chunks, and nothing else that is asked for."""
    reading = Reading(options.parser(), options)
    reading.fed = reading.parser.feed(body)
    return reading.end()


def curious_reading(pieces: list[bytes], options: Options) -> Reading:
    """The body in pieces of all kinds of bytes, everything looked at after each, events included."""
    clock = Clock()
    reading = Reading(options.parser(clock=clock), options)
    parser = reading.parser
    looks: list[tuple[ChatCompletion, str]] = []
    reading.events += parser.events()
    for number, piece in enumerate(pieces):
        looks.append((parser.snapshot, plain(parser.snapshot)))
        check_completion(parser.snapshot)
        if parser.end is None:
            check_running(parser)
        known, was_over = clock.looks, parser.end is not None
        buffer = bytearray(piece)
        reading.fed += parser.feed((piece, buffer, memoryview(buffer))[number % 3])
        buffer[:] = b"\n" * len(buffer)  # as a client does that reads into the same memory again
        hold("the clock is read once for each read", clock.looks == known + (not was_over), clock.looks, known)
        reading.events += parser.events()
    reading.end()
    reading.events += parser.events()
    for snapshot, shown in looks:
        same("a snapshot does not change", plain(snapshot), shown)
    timing = parser.timing
    known_times = (timing.first_byte, timing.first_chunk, timing.first_output, timing.last_chunk, timing.last_byte)
    times = [time for time in known_times if time is not None]
    same("things arrive in their order", times, sorted(times))
    return reading


class Clock:
    """Milliseconds that pass one by one, whenever somebody looks: too few for any deadline."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.looks / 1000


def folded_reading(pieces: list[bytes], options: Options, *, late: int = 0) -> Reading:
    """The body without its chunks; events are asked for when so many pieces have been read, and then after each."""
    reading = Reading(options.parser(), options)
    reading.events += [] if late else reading.parser.events()
    for number, piece in enumerate(pieces):
        reading.parser.fold(piece)
        reading.events += reading.parser.events() if number >= late else []
    reading.end()
    reading.events += reading.parser.events()
    return reading


def is_json(body: bytes) -> bool:
    """Whether the body begins as JSON does, not as an event stream."""
    return body.lstrip().startswith((b"{", b"["))


def watched_reading(pieces: list[bytes], options: Options) -> Reading:
    """The body with somebody who is told of each event, in slices."""
    seen: list[tuple[ServerSentEvent, list[ChatCompletionChunk]]] = []
    reading = Reading(options.parser(on_server_sent_event=lambda event, chunks: seen.append((event, chunks))), options)
    for piece in pieces:
        reading.fed += [chunk for chunks in feed_in_slices(reading.parser, piece) for chunk in chunks]
    reading.end()
    body = b"".join(pieces)
    wire = decoded([body], options.max_event_size)
    events = wire.events
    if not (is_json(body) or wire.opening):  # JSON before the first event is told, too, and is no event
        # A chunk as bare JSON is read, although it is no event.
        told = [event for event, _ in seen if not (is_json(event.data) and body.startswith(event.data, event.offset))]
        hold("each event is told of once, up to the end", told[: len(events)] == events[: len(told)], told, events)
        hold("beside them one may be unfinished", len(told) <= len(events) + 1, told, events)
    if wire.preamble is None:  # else the body is not an event stream
        chunks = [plain(chunk) for _, several in seen for chunk in several]
        same("an event comes with its chunks", chunks, _shown(reading.chunks)[: len(chunks)])
    return reading


def check_parser(body: bytes, places: list[int], options: Options) -> None:
    """All ways of reading a body come to the same, and what they come to keeps the promises."""
    whole = whole_reading(body, options)
    result, chunks, fed = whole.result, _shown(whole.chunks), _shown(whole.fed)
    pieces = cut(body, *places)
    told: list[str] | None = None
    for reads in _cuttings(body, places):
        curious, folded = curious_reading(reads, options), folded_reading(reads, options)
        same("the result does not depend on the cuts, nor on who looks", curious.result, result)
        same("nor do the chunks", _shown(curious.chunks), chunks)
        same("nor does it depend on whether there are chunks", folded.result, result)
        told = told or [plain(event) for event in curious.events]
        same("nor do the events depend on the cuts", [plain(event) for event in curious.events], told)
        same("nor do they on whether there are chunks", [plain(event) for event in folded.events], told)
        check_events(curious)
    for reads in ([body], pieces):
        late = folded_reading(reads, options, late=1 + len(reads) // 2)
        same("nor on when events are asked for", late.result, result)
        check_events(late)
    watched = watched_reading(pieces, options)
    same("nor on who is told", watched.result, result)
    same("nor do the chunks", _shown(watched.chunks), chunks)
    check_ended(whole)
    check_anomalies(whole.parser.anomalies, len(body))
    check_messages(whole, body)
    check_refolded(whole)
    check_strict(body, options, result)
    check_limits(body, options, result)
    if options == Options():
        check_layers(body, whole)
    for place in places:
        check_cut_short(body[:place], options, fed)


def check_running(parser: ChatCompletionParser) -> None:
    """A stream that still runs has no completion, and no error."""
    parser.raise_error()
    try:
        parser.completion()
    except IncompleteStreamError as error:
        check_error(error)
        hold("it has no end", error.end is None and not parser.error)
    else:
        raise Broken("a stream that still runs has no completion")


def check_ended(reading: Reading) -> None:
    """How it ended, what that means for the error and the completion, and that it is the end."""
    parser = reading.parser
    end, error, snapshot = parser.end, parser.error, parser.snapshot
    if end is None:
        raise Broken("a body that is over has an end")
    finished = bool(snapshot.choices) and all(choice.finish_reason for choice in snapshot.choices)
    hold("an end that fails has its error", isinstance(error, ERROR_OF.get(end, type(None))), end, error)
    if end in (StreamEnd.EMPTY, StreamEnd.TRUNCATED):
        same("that of a body that ends too early", type(error), IncompleteStreamError)
    finished_early = any(anomaly.rule.id == "CF505" for anomaly in parser.anomalies)
    if finished_early and end in (StreamEnd.INTERRUPTED, StreamEnd.STALLED, StreamEnd.CLOSED):
        return
    if end not in (StreamEnd.FAILED, StreamEnd.INVALID):
        same("finished is where every choice has its finish reason", end is StreamEnd.FINISHED, finished)
    hold(
        "empty is without output", has_output(parser) is (end is not StreamEnd.EMPTY) or end not in _TOLD_BY_OUTPUT, end
    )
    hold("interrupted is where the transport failed", end is not StreamEnd.INTERRUPTED or reading.options.is_reset)
    hold("closed is where the consumer left", end is not StreamEnd.CLOSED or reading.options.is_left)
    hold("nothing stalls without a deadline", end is not StreamEnd.STALLED)
    if isinstance(error, IncompleteStreamError):
        same("the error knows the end", error.end, end)
    if isinstance(error, StreamInterruptedError):
        hold("and the transport's exception", error.__cause__ is RESET)
    try:
        completion = parser.completion()
    except ChunkfoldError as raised:
        hold("an end that is complete has a completion", not end.complete, end)
        is_of_leaving = end is StreamEnd.CLOSED and type(raised) is IncompleteStreamError and raised.end is end
        hold("what is raised is the error", raised is error or (error is None and is_of_leaving), raised)
        hold("and has what arrived", raised.snapshot is snapshot and raised.emitted_output is parser.emitted_output)
        check_error(raised)
    else:
        hold("a completion is of a complete end", end.complete and completion is snapshot, end)
    check_completion(snapshot)
    before = reading.result
    nothing: list[Any] = [parser.feed(MORE), parser.fold(MORE), parser.close(), parser.interrupt(ValueError())]
    nothing += [*feed_in_slices(parser, MORE), parser.leave()]
    hold("nothing comes after the end", not any(nothing), nothing)
    same("nothing changes after the end", reading.result, before)


_TOLD_BY_OUTPUT = (StreamEnd.EMPTY, StreamEnd.TRUNCATED, StreamEnd.DONE)


def check_anomalies(anomalies: tuple[Anomaly, ...], size: int) -> None:
    """Each rule once, with a count and a place; what is quoted is fit to print."""
    rules = [anomaly.rule.id for anomaly in anomalies]
    hold("each rule is there once", len(set(rules)) == len(rules), rules)
    hold("each is in the catalogue", {rule.id for rule in RULES}.issuperset(rules), rules)
    for anomaly in anomalies:
        hold("an anomaly has a count and a place", anomaly.count >= 1 and 0 <= anomaly.offset <= size, anomaly)
        check_text(anomaly.first)


def check_error(error: ChunkfoldError) -> None:
    """An error can be shown, and tells whether to try again."""
    check_text(str(error))
    hold(
        "an error says whether to try again", is_retryable(error) in (True, False) and error.retryable in (True, False)
    )
    hold("output makes it no more likely", error.retryable <= is_retryable(error, after_output=True))
    if isinstance(error, APIError):
        seen = error.message, error.code, error.type, error.param, error.request_id, error.retry_after, error.raw
        "".join(map(str, seen)).encode("utf-8", "surrogatepass")
        hold("the outer 200 is no error's status", error.status_code is None or 400 <= error.status_code <= 599)
        error.error.model_dump_json()


def check_text(text: str) -> None:
    """A text for people is bounded, and does nothing to their terminals."""
    hold("a message is short", len(text) <= LONGEST_MESSAGE, len(text))
    hold("a message can be printed", text.isprintable(), text)


def check_completion(completion: ChatCompletion) -> None:
    """Whatever arrived can be dumped, looked at and sent back."""
    dump = completion.model_dump_json()
    hold("a snapshot is an object in JSON", isinstance(json.loads(dump), dict))
    hold("its views are texts", isinstance(completion.text, str) and isinstance(completion.reasoning, str))
    indexes = [choice.index for choice in completion.choices]
    same("choices are in order, each once", indexes, sorted(set(indexes)))
    if isinstance(completion.usage, CompletionUsage):
        for count in (completion.usage.cached_tokens, completion.usage.reasoning_tokens):
            hold("a count is a number", count is None or isinstance(count, int), count)
    for choice in completion.choices:
        same("an outcome is there with its finish reason", choice.outcome is None, choice.finish_reason is None)
        message = choice.message
        json.dumps(message.to_param(reasoning_content=True)).encode()
        check_parts(message)
        check_parts(validate_leniently(ChatCompletionMessage, message.model_dump())[0])
        _try(message.parse)
        _try(message.parse_partial)
        for call in message.tool_calls:
            hold("a call's views are texts", isinstance(call.name + call.arguments, str))
            if isinstance(call, ChatCompletionMessageFunctionToolCall):
                _try(call.function.parse)
                _try(call.function.parse_partial)


def check_parts(message: ChatCompletionMessage) -> None:
    """The parts of a message are the message, in another order."""
    fields = vars(message)
    parts: defaultdict[type, list[Any]] = defaultdict(list)
    for part in message.parts:
        parts[type(part)].append(part)
    for kind, name in ((TextPart, "content"), (ReasoningPart, "reasoning"), (RefusalPart, "refusal")):
        hold("a part is not empty", all(part.text for part in parts[kind]), parts[kind])
        same(f"the parts have the {name}", "".join(part.text for part in parts[kind]), fields.get(name) or "")
    same("the parts have the calls", [part.tool_call for part in parts[ToolCallPart]], fields.get("tool_calls") or [])
    same(
        "the parts have the images", plain([part.image for part in parts[ImagePart]]), plain(fields.get("images") or [])
    )
    same("the parts have the audio", len(parts[AudioPart]), fields.get("audio") is not None)
    for one, other in pairwise(message.parts):
        hold("neighbors of one kind are one part", type(one) is not type(other) or type(one) not in _TEXTS, one, other)


_TEXTS = (TextPart, ReasoningPart, RefusalPart)


def _try(parse: Any) -> None:
    try:
        parse()
    except ParseError as error:
        check_error(error)


def check_messages(reading: Reading, body: bytes) -> None:
    """Nothing is made up, and the chunks add up to the message."""
    snapshot, chunks = reading.parser.snapshot, reading.chunks
    if not reading.options.is_left:
        same("output is output in a chunk", has_output(reading.parser), any(map(brings_output, chunks)))
        for index, message in ((choice.index, vars(choice.message)) for choice in snapshot.choices):
            if index == 0:
                text = "".join(chunk.text for chunk in chunks)
                same("the chunks' texts are the message's", text, message.get("content") or "")
                reasoning = "".join(chunk.reasoning for chunk in chunks)
                whole = message.get("reasoning") or ""
                # A signed text counts as a repeat where a chunk is looked at alone.
                is_signed = b"signature" in body and len(reasoning) < len(whole)
                hold("so is their reasoning", reasoning == whole or is_signed, reasoning, whole)
    for chunk in chunks:
        chunk.model_dump_json()
    rules = {anomaly.rule.id for anomaly in reading.parser.anomalies}
    sent = {(choice.index, choice.finish_reason) for chunk in chunks for choice in chunk.choices}
    for choice in snapshot.choices:
        came = choice.finish_reason is None or (choice.index, choice.finish_reason) in sent
        hold("no finish reason is made up", came or reading.options.is_left, choice.finish_reason)
        ids = [call.id for call in choice.message.tool_calls if call.id is not None]
        hold("ids that are made up are told from others", len(set(ids)) == len(ids) or "CF306" in rules, ids)
    hold("no usage is made up", snapshot.usage is None or b"usage" in body or b"\\u" in body)
    if reading.parser.end is StreamEnd.DONE:
        hold("nor is [DONE]", b"[DONE]" in body)
    if "CF209" not in rules and _can_be_read_again(snapshot.model_dump()):
        again = ChatCompletion.model_validate_json(snapshot.model_dump_json())
        same("a dump is the message again", plain(again), plain(snapshot))


def brings_output(chunk: ChatCompletionChunk) -> bool:
    """Whether a chunk has text, reasoning, a refusal, a call's name or arguments, audio or an image."""
    return any(
        any(_output_of(vars(choice.delta))) or any(_unknown_output_of(choice.delta.model_extra or {}))
        for choice in chunk.choices
        if choice.delta.role not in ("tool", "function")
    )


def _unknown_output_of(unknown: dict[str, Any]) -> Iterator[Any]:
    """The reasoning that a delta has in fields that the models do not have."""
    texts = ("reasoning_text", "cot_summary", "reasoning_content", "reasoning")
    encrypted = (
        *("reasoning_opaque", "reasoning_signature", "reasoning_content_signature"),
        *("redacted_reasoning_content", "encrypted_content"),
    )
    for value in map(unknown.get, (*texts, *encrypted)):
        text = _object(value).get("text", value)
        if isinstance(text, str):
            yield text
    names = ("thinking", "thinking_blocks", "content_blocks", "tensorzero_extra_content")
    one, *lists = map(unknown.get, names)
    for holder in (one, *(item for items in lists if isinstance(items, list) for item in items)):
        fields = {**holder, **_object(holder.get("delta"))} if isinstance(holder, dict) else {}
        yield from (fields.get(name) for name in ("thinking", "content", "text", "summary_text", "data"))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _output_of(delta: dict[str, Any]) -> Iterator[Any]:
    """What a delta has of it, given its fields without what is kept raw beside them."""
    calls = delta.get("tool_calls") or ()
    holders = [vars(call).get(name) for call in calls for name in ("function", "custom")]
    holders += [delta.get("function_call"), delta.get("audio")]
    for fields in (delta, *(vars(holder) for holder in holders if holder is not None)):
        yield from (fields.get(name) for name in _OUTPUT if isinstance(fields.get(name), str))
    yield from delta.get("images") or ()
    for detail in delta.get("reasoning_details") or ():
        if isinstance(detail, dict):
            yield from (detail.get(name) for name in ("text", "summary", "data"))
    yield from _texts_in(delta.get("content"), "text")
    yield from _texts_in(delta.get("content"), "thinking")
    for part in delta["content"] if isinstance(delta.get("content"), list) else ():
        if _object(part).get("type") == "thinking":
            yield _object(part).get("text")
        summary = _object(part).get("summary")
        yield from (_object(item).get("text") for item in (summary if isinstance(summary, list) else ()))


_OUTPUT = ("content", "refusal", "reasoning", "reasoning_content", "name", "arguments", "input", "data", "transcript")


def _texts_in(parts: Any, kind: str) -> Iterator[str]:
    """The texts of one kind in a content list; a thinking part may have a list of text parts."""
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and part.get("type", "text") == kind:
            inner = part.get(kind)
            yield from [inner] if isinstance(inner, str) else _texts_in(inner, "text")


def _can_be_read_again(value: Any, depth: int = 0) -> bool:
    """Whether pydantic reads the dump of a value: its numbers are finite, and it is nested at most 200 deep."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth < 200 and all(_can_be_read_again(item, depth + 1) for item in items)
    return not isinstance(value, float) or math.isfinite(value)


def check_refolded(reading: Reading) -> None:
    """The chunks, folded again, are the snapshot; and folding does not change them."""
    if reading.options.is_left:
        return
    accumulator = ChatCompletionAccumulator()
    before = _shown(reading.chunks)
    for chunk in reading.chunks:
        accumulator.add(chunk)
    accumulator.finish()
    same("a chunk is not changed", _shown(reading.chunks), before)
    same("the chunks, folded again, are the snapshot", plain(accumulator.snapshot), plain(reading.parser.snapshot))
    same("and as much output", accumulator.has_output, has_output(reading.parser))


def check_strict(body: bytes, options: Options, result: Result) -> None:
    """Strict lets no anomaly through with a complete end; where there is none, it changes nothing.

    What shows only because the transport broke or the consumer left is not refused.
    """
    tolerant = whole_reading(body, replace(options, strict=False)).result
    reading = whole_reading(body, replace(options, strict=True))
    strict, error = reading.result, reading.parser.error
    hold("one of them is the reading at hand", result in (tolerant, strict))
    if tolerant.anomalies:
        is_cut = options.is_reset or options.is_left
        is_complete = strict.end is not None and strict.end.complete
        hold("strict lets no anomaly through", is_cut or not is_complete, strict.anomalies)
        if type(error) is InvalidStreamError:
            same("strict names the first rule", error.rule, strict.anomalies[0].rule)
    else:
        same("strict changes nothing where nothing is tolerated", strict, tolerant)


def check_limits(body: bytes, options: Options, result: Result) -> None:
    """A limit that was not passed changes nothing; one that was is named."""
    if options.max_event_size is None and options.max_output_size is None:
        return
    limited = whole_reading(body, options)
    error = limited.parser.error
    if isinstance(error, LimitExceededError):
        same("a limit is named", error.value, getattr(options, error.limit))
        if error.limit == "max_event_size":
            hold("a limit that is passed is one", decode_whole(body, options.max_event_size).limit_exceeded)
        else:
            hold("output has to be too long", len(body) > error.value)
    elif decoded([body]).preamble is None:  # else of a body that is no event stream only the beginning is kept
        unlimited = whole_reading(body, replace(options, max_event_size=None, max_output_size=None))
        same("a limit that was not passed changes nothing", result, unlimited.result)
        same("nor does it change chunks", _shown(limited.chunks), _shown(unlimited.chunks))


def check_layers(body: bytes, whole: Reading) -> None:
    """The layers, put together by hand, come to what the parser comes to, where it adds nothing of its own."""
    wire = decoded([body])
    accumulator = ChatCompletionAccumulator()
    chunks: list[ChatCompletionChunk] = []
    error: ChunkfoldError | None = None
    is_done = False
    unexplained = ""
    for event in wire.events:
        payload = parse_payload(event)
        chunks += map(accumulator.add, payload.chunks)
        error, is_done = payload.error, payload.done
        unexplained = unexplained or payload.foreign
        if error is not None or is_done:
            break
    # Halves of characters, what the standard throws away, and other bodies are the parser's.
    is_nearly = any(anomaly.rule.id in ("CF109", "CF110") for anomaly in whole.parser.anomalies)
    is_more = is_nearly or (wire.unfinished is not None and error is None and not is_done)
    is_more = is_more or any(one.event == "error" for one in wire.discarded)
    if is_more or is_json(body) or wire.opening or wire.preamble is not None or b"\\u" in body:
        return
    last = accumulator.finish()
    chunks += [last] if last is not None else []
    same("by hand, the chunks are the same", _shown(chunks), _shown(whole.chunks))
    same("by hand, the message is the same", plain(accumulator.snapshot), plain(whole.parser.snapshot))
    if error is not None:
        same("by hand, the error is the same", plain(error), plain(whole.parser.error))
    elif accumulator.all_finished:
        same("by hand, it is finished", whole.parser.end, StreamEnd.FINISHED)
    elif is_done and accumulator.has_output and not unexplained:
        same("by hand, it is done", whole.parser.end, StreamEnd.DONE)


def check_cut_short(body: bytes, options: Options, fed: list[str]) -> None:
    """What came before a cut was delivered, and no cut is called complete."""
    short = whole_reading(body, options)
    shown = _shown(short.fed)
    same("what came before a cut is delivered", shown, fed[: len(shown)])
    finished = all(choice.finish_reason for choice in short.parser.snapshot.choices)
    end = short.parser.end
    hold("no cut is called complete", end is not StreamEnd.FINISHED or finished, end)
    hold("unless [DONE] came", end is not StreamEnd.DONE or b"[DONE]" in body, end)


# Events


@dataclass
class Told:
    """What events add up to."""

    texts: defaultdict[tuple[type, int], str] = field(default_factory=lambda: defaultdict(str))
    arguments: dict[tuple[int, int], str] = field(default_factory=dict)
    done: dict[tuple[int, int], Any] = field(default_factory=dict)
    images: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    audio: defaultdict[int, bytes] = field(default_factory=lambda: defaultdict(bytes))
    transcripts: defaultdict[int, str] = field(default_factory=lambda: defaultdict(str))
    annotations: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    finishes: dict[int, tuple[str, str]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)  # choices with a call that was done after their finish reason
    usage: CompletionUsage | None = None
    rules: list[str] = field(default_factory=list)

    def take(self, event: ChatCompletionEvent) -> None:
        """Take the next one."""
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                hold("a delta is not empty", event.delta)
                self.texts[type(event), event.choice] += event.delta
                same("a delta knows its text", event.snapshot, self.texts[type(event), event.choice])
            case ToolCallStarted() | ToolCallArgumentsDelta() | ToolCallDone():
                self._take_call(event, (event.choice, event.position))
            case AudioDelta():
                self.audio[event.choice] += event.data
                self.transcripts[event.choice] += event.transcript
            case ImageReceived():
                self.images[event.choice].append(event.image)
            case AnnotationReceived():
                self.annotations[event.choice].append(event.annotation)
            case ChoiceFinished():
                finish = event.finish_reason, event.outcome
                hold(
                    "a choice that finishes again does so in another way, or after another call",
                    self.finishes.get(event.choice) != finish or event.choice in self.late,
                    event,
                )
                self.finishes[event.choice] = finish
                self.late.discard(event.choice)
            case UsageReceived():
                hold("usage that is told again has changed", plain(event.usage) != plain(self.usage), event)
                self.usage = event.usage
            case AnomalyNoted():
                self.rules.append(event.anomaly.rule.id)

    def _take_call(
        self, event: ToolCallStarted | ToolCallArgumentsDelta | ToolCallDone, place: tuple[int, int]
    ) -> None:
        match event:
            case ToolCallStarted():
                hold("a call starts once", place not in self.arguments, event)
                self.arguments[place] = ""
            case ToolCallArgumentsDelta():
                hold("a delta is not empty", event.delta)
                if place in self.done and self.arguments[place] == "{}" and event.snapshot == event.delta:
                    self.arguments[place] = ""  # an empty object (CF310) that was a placeholder
                self.arguments[place] += event.delta
                same("a delta knows its text", event.snapshot, self.arguments[place])
            case ToolCallDone():
                same("a call that is done is what was told of it", event.call.arguments, self.arguments[place])
                hold("it is parsed, or says why not", (event.parsed is None) == (event.error is not None), event)
                if event.error is not None:
                    check_error(event.error)
                self.done[place] = event.call
                if event.choice in self.finishes:
                    self.late.add(event.choice)


def check_events(reading: Reading) -> None:
    """Folded again, the events are the message."""
    snapshot, anomalies = reading.parser.snapshot, reading.parser.anomalies
    told = Told()
    for event in reading.events:
        told.take(event)
    same("anomalies are told, once each", told.rules, [anomaly.rule.id for anomaly in anomalies])
    same("usage is told", plain(told.usage), plain(vars(snapshot).get("usage")))
    finished = [choice for choice in snapshot.choices if choice.finish_reason]
    finishes = {choice.index: (choice.finish_reason, choice.outcome) for choice in finished}
    same("finish reasons are told", told.finishes, finishes)
    is_complete = reading.parser.end is not None and reading.parser.end.complete
    hold("the last finish reason comes after every call", not (is_complete and told.late), told.late)
    for choice in snapshot.choices:
        index, message = choice.index, vars(choice.message)
        for kind, name in ((TextDelta, "content"), (ReasoningDelta, "reasoning"), (RefusalDelta, "refusal")):
            same(f"the {name} is told", told.texts[kind, index], message.get(name) or "")
        in_content = [part for part in choice.message.content_parts or () if part.get("type") in ("image_url", "image")]
        images = [*(message.get("images") or ()), *in_content]
        same("images are told", sorted(map(plain, told.images[index])), sorted(map(plain, images)))
        same("annotations are told", plain(told.annotations[index]), plain(message.get("annotations") or []))
        spoken = {} if message.get("audio") is None else vars(message["audio"])
        same("a transcript is told", told.transcripts[index], spoken.get("transcript") or "")
        if "CF218" not in told.rules:  # else its pieces are not base64
            same("audio is told", told.audio[index], base64.b64decode(spoken.get("data") or ""))
        if is_complete:
            calls = [told.done.get((index, position)) for position, _ in enumerate(choice.message.tool_calls)]
            same("calls are told when they are done", plain(calls), plain(choice.message.tool_calls))
        for position, call in enumerate(choice.message.tool_calls):
            text = told.arguments.get((index, position))
            if text or (call.name and call.arguments not in ("", "{}")):  # else it need not have started
                same("arguments are told", text, call.arguments)


# Live JSON


def check_json(text: str, cuts: Iterable[int] = (), as_type: Any = None, *, half_numbers: bool = False) -> None:
    """Live JSON raises for what can never become JSON, and for nothing else; what it showed does not change."""
    whole = _fed([text], as_type, half_numbers)
    pieces = [
        text[start:end] for start, end in pairwise([0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)])
    ]
    has_long_number = any(len(word) > LONG_NUMBER for word in text.split())
    for several in (pieces, list(text) if len(text) <= FEW_BYTES else pieces):
        live = _fed(several, as_type, half_numbers)
        if has_long_number:
            continue
        same("whether it raises does not depend on the cuts", live.failed_at is None, whole.failed_at is None)
        if live.failed_at is None:
            same("nor does the value", live.last, whole.last)
            same("nor does the end", live.end, whole.end)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        hold("what is no JSON has no value", whole.end.startswith("ParseError"), whole.end)
    else:
        hold("what is JSON does not raise", whole.failed_at is None, whole)
        if as_type is None:
            same("what is JSON is its value", whole.end, plain(scrubbed(value)))


class _Fed(NamedTuple):
    failed_at: int | None
    last: str
    end: str


def _fed(pieces: list[str], as_type: Any, half_numbers: bool) -> _Fed:
    live = PartialJSON(as_type, half_numbers=half_numbers)
    shown: list[tuple[Any, str]] = []
    failed_at = None
    for piece in pieces:
        try:
            value = live.feed(piece)
        except ParseError as error:
            check_error(error)
            hold("a text that is wrong now is no text that was cut", not error.cut)
            hold("an error has its place", error.position is not None and 0 <= error.position <= len(error.text), error)
            failed_at = error.position
            break
        shown.append((value, plain(value)))
    for value, before in shown:
        same("a value that was handed out does not change", plain(value), before)
    last = plain(live.value)
    try:
        end = plain(live.close()) if failed_at is None else "ParseError"
    except ParseError as error:
        check_error(error)
        end = f"ParseError {error.position} {error.cut} {error}"
    return _Fed(failed_at, last, end)
