"""The ways of reading a body: whole, in pieces, looked at on the way, without chunks, with somebody who is told."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import RootModel

from chunkfold import (
    Anomaly,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionParser,
    CumulativeDeltas,
    IncompleteStreamError,
    OneChoice,
    ServerSentEvent,
    StreamEnd,
    ThinkTags,
)
from chunkfold.parser.parser import feed_in_slices
from invariants.decoding import decoded
from invariants.holding import Broken, hold, plain, same, shown
from invariants.values import check_completion, check_error

RESET = ConnectionError("reset\x1b")


class Numbers(RootModel[dict[str, int]]):
    """A type of arguments: a class, for which one validator is created."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a body is read.

    Attributes:
        is_reset: Whether the transport fails behind it.
        is_left: Whether the consumer leaves behind it.
        is_transformed: Whether all transforms are applied.
        one_choice: Whether all choices are taken for one.
    """

    strict: bool = False
    max_event_size: int | None = None
    max_output_size: int | None = None
    status_code: int | None = None
    is_reset: bool = False
    is_left: bool = False
    is_transformed: bool = False
    one_choice: bool = False

    def parser(self, **more: Any) -> ChatCompletionParser:
        """A parser for one reading."""
        return ChatCompletionParser(
            strict=self.strict,
            max_event_size=self.max_event_size,
            max_output_size=self.max_output_size,
            status_code=self.status_code,
            one_choice=self.one_choice,
            headers={"X-Request-Id": "r\x1b1", "Content-Type": "text/\x1bplain", "Retry-After": "5"},
            tools={"g": Numbers},
            transforms=[CumulativeDeltas(), ThinkTags(), OneChoice()] if self.is_transformed else (),
            **more,
        )


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
        snapshot = parser.snapshot
        shown_now = plain(snapshot)
        if not looks or looks[-1][1] != shown_now:
            check_completion(snapshot)
        looks.append((snapshot, shown_now))
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
    for snapshot, before in looks:
        same("a snapshot does not change", plain(snapshot), before)
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
        same("an event comes with its chunks", chunks, shown(reading.chunks)[: len(chunks)])
    return reading
