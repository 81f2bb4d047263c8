"""The streams of the soak: what the provider answers, what the consumer does, and what is to come of it.

What is injected into a stream depends on the seed and the stream's number alone.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import httpx

from chunkfold import (
    APIError,
    APIStatusError,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    NotAnEventStreamError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
)
from chunkfold.anomalies import DONE_MISSING, FINISH_MISSING, LATE_FAULT, Rule
from chunkfold.testing import DONE, Answer, Raw, chunk, cut, delta, event, fragment, json_answer, paced, stalled, usage

PATIENCE = 30.0  # seconds, after which a stream hangs
SILENCE = 1.0  # seconds; the read timeout where one is to pass: the headers come in time on a busy machine, too
STALL = 0.3  # seconds; the limits on the time where one is to be passed


WayOut = Literal["none", "leaves", "raises", "is cancelled"]


@dataclass(frozen=True)
class Scenario:
    """One stream: what the provider answers, what the consumer does, and what is to come of it."""

    answer: Answer
    end: StreamEnd
    text: str = ""
    is_whole: bool = True  # or the text may stop anywhere
    reasoning: str = ""
    arguments: tuple[str, ...] = ()  # of the tool calls
    tokens: int | None = None
    rules: tuple[Rule, ...] = ()  # the anomalies of a stream that is complete
    error: type[ChunkfoldError] | None = None
    cause: type[Exception] | None = None  # of the error; where `may_fail_early`, what the client may raise instead
    may_fail_early: bool = False  # the fault can strike before the headers were read
    told: str = ""  # in the error's message
    options: dict[str, Any] = field(default_factory=dict)
    view: str = "chunks"
    way_out: WayOut = "none"
    items: int = 0  # after which the consumer takes its way out
    cancelled_after: float | None = None  # seconds; None if it is at an item
    counts_from_response: bool = False  # these seconds


class Message:
    """What a provider says in the stream of that number, event by event."""

    def __init__(self, number: int, rng: random.Random, texts: int | None = None) -> None:
        texts = rng.choice([1, 3, 10, 30, 30, 200]) if texts is None else texts
        self.texts = [f"{number}.{place} {rng.choice(FILLINGS)}" for place in range(texts)]
        self.rng = rng

    @cached_property
    def events(self) -> list[bytes]:
        return [delta(role="assistant", content=""), *(delta(content=text) for text in self.texts)]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def cut(self) -> tuple[list[bytes], str]:
        """The first events, and the beginning of the next one, which is no JSON yet; and the text of the first."""
        whole = self.rng.randrange(len(self.events))
        beginning = self.events[whole][: self.rng.randrange(len(self.events[whole]) - 3)]
        return [*self.events[:whole], beginning], "".join(self.texts[: max(0, whole - 1)])


FILLINGS = ["word ", "words ", "号 ", "😀\n", '"quoted" ', "x" * 100 + " ", "long " * 300]
OF_ANSWER = {"status", "headers", "framing", "ending", "encoding"}


@dataclass(frozen=True)
class Draw:
    """What is drawn for the stream of a number."""

    number: int
    rng: random.Random

    def message(self, texts: int | None = None) -> Message:
        return Message(self.number, self.rng, texts)

    def framing(self) -> Any:
        return self.rng.choice(["chunked", "chunked", "chunked", "content-length", "content-length", "close"])

    def delivered(self, events: Sequence[bytes]) -> list[bytes | float | Raw]:
        """The same bytes in pieces: event by event, all at once, cut anywhere, or with pauses between them."""
        way, body = self.rng.randrange(4), b"".join(events)
        if way == 1:
            return [body]
        if way == 2:
            return list(cut(body, *(self.rng.randrange(len(body) + 1) for _ in range(self.rng.randrange(1, 20)))))
        if way == 3:
            steps = [step for one in events[:20] for step in (one, self.rng.choice([0, 0.002]))]
            return [*steps, b"".join(events[20:])]
        return list(events)

    def scenario(self, said: Answer | Sequence[bytes], end: StreamEnd, text: str = "", **fields: Any) -> Scenario:
        """An answer, or events that are delivered with options of one, and what is to come of it."""
        options = {name: fields.pop(name) for name in OF_ANSWER & fields.keys()}
        view = self.rng.choice(["chunks", "chunks", "texts", "events", "read"])
        answer = said if isinstance(said, Answer) else Answer(self.delivered(said), **options)
        return Scenario(answer, end, text, **{"view": view, **fields})

    def after_a_message(self, *events: bytes, end: StreamEnd, **fields: Any) -> Scenario:
        message = self.message()
        return self.scenario([*message.events, *events], end, message.text, **fields)

    def cut(self, cause: type[Exception], *more: Raw | float, **fields: Any) -> Scenario:
        """A message that stops anywhere, by a fault of the transport."""
        events, text = self.message().cut()
        options = {name: fields.pop(name) for name in OF_ANSWER & fields.keys()}
        answer = Answer([*self.delivered(events), *more], **options)
        fields = {"error": StreamInterruptedError, "cause": cause, **fields}
        return self.scenario(answer, StreamEnd.INTERRUPTED, text, **fields)

    def too_long(self, message: Message, body: Any, **options: float) -> Scenario:
        fields: dict[str, Any] = {"is_whole": False, "error": StreamStalledError, "options": options}
        return self.scenario(Answer(body, ending="open"), StreamEnd.STALLED, message.text, **fields)

    def left(self, way_out: WayOut) -> Scenario:
        """The consumer goes after some items of a stream that would not end."""
        message = self.message()
        fields = {
            "view": self.rng.choice(["chunks", "texts", "events"]),
            "items": self.rng.randint(1, len(message.texts)),
        }
        answer = Answer(self.delivered(message.events), ending="open")
        return self.scenario(answer, StreamEnd.CLOSED, message.text, is_whole=False, way_out=way_out, **fields)

    def cancelled(self, **moment: Any) -> Scenario:
        message = self.message(texts=20)
        body = paced([*message.events, delta("stop"), DONE], pace=0.005)
        answer = Answer(body, ending=self.rng.choice(["end", "open"]))
        return self.scenario(answer, StreamEnd.CLOSED, message.text, is_whole=False, way_out="is cancelled", **moment)


def whole(draw: Draw, **options: Any) -> Scenario:
    """Text, at times with reasoning, tool calls and usage."""
    number, rng, message = draw.number, draw.rng, draw.message()
    events, reasoning, arguments, tokens = list(message.events), "", (), None
    if rng.random() < 0.3:
        reasoning = f"thought {number}"
        events[1:1] = [delta(reasoning_content=piece) for piece in (reasoning[:3], reasoning[3:])]
    if rng.random() < 0.3:
        arguments = tuple(json.dumps({"number": number, "call": call}) for call in range(rng.randrange(1, 4)))
        events += [piece for call, whole in enumerate(arguments) for piece in tool_call(number, call, whole)]
    events.append(delta("tool_calls" if arguments else "stop"))
    if rng.random() < 0.5:
        tokens = number + 10
        events.append(chunk(usage=usage(10, number)))
    has_done = rng.random() < 0.8
    fields: dict[str, Any] = {"reasoning": reasoning, "arguments": arguments, "tokens": tokens}
    fields |= {"rules": () if has_done else (DONE_MISSING,), "framing": draw.framing(), **options}
    return draw.scenario([*events, DONE] if has_done else events, StreamEnd.FINISHED, message.text, **fields)


def tool_call(number: int, call: int, arguments: str) -> Iterator[bytes]:
    yield delta(tool_calls=[fragment(call, f"call_{number}_{call}", "look_up", "")])
    for piece in (arguments[:7], arguments[7:]):
        yield delta(tool_calls=[fragment(call, arguments=piece)])


def cut_clean(draw: Draw) -> Scenario:
    events, text = draw.message().cut()
    end = StreamEnd.TRUNCATED if text else StreamEnd.EMPTY
    return draw.scenario(events, end, text, error=IncompleteStreamError, framing=draw.framing())


def nothing(draw: Draw) -> Scenario:
    answer = Answer(draw.rng.choice([b"", DONE, delta(role="assistant") + DONE]), framing=draw.framing())
    return draw.scenario(answer, StreamEnd.EMPTY, error=IncompleteStreamError)


def bad_gzip(draw: Draw) -> Scenario:
    answer = Answer(draw.message().events, headers={"content-encoding": "gzip"})
    return draw.scenario(answer, StreamEnd.INTERRUPTED, error=StreamInterruptedError, cause=httpx.DecodingError)


def keep_alives_only(draw: Draw) -> Scenario:
    message = draw.message(texts=3)
    body = stalled(message.events, len(message.events), 5.0, keep_alive=b": keep-alive\n\n", every=0.05)
    return draw.too_long(message, body, progress_timeout=STALL)


def too_slow(draw: Draw) -> Scenario:
    message = draw.message(texts=200)
    return draw.too_long(message, paced(message.events, pace=0.05), total_timeout=STALL)


def error_event(draw: Draw) -> Scenario:
    told, ending = f"overloaded {draw.number}", draw.rng.choice(["end", "cut", "open"])
    error = event({"error": {"message": told, "code": 503}})
    return draw.after_a_message(error, end=StreamEnd.FAILED, error=APIError, told=told, ending=ending)


def error_status(draw: Draw) -> Scenario:
    told, status = f"refused {draw.number}", draw.rng.choice([400, 401, 403, 404, 422, 429, 500, 502, 503, 529])
    page = Answer(f"<html>{told}</html>".encode(), status, framing=draw.framing())
    answer = draw.rng.choice([json_answer({"error": {"message": told, "type": "t"}}, status), page])
    return draw.scenario(answer, StreamEnd.FAILED, error=APIStatusError, told=told)


def error_with_200(draw: Draw) -> Scenario:
    told = f"refused {draw.number}"
    answer = json_answer({"error": {"message": told, "type": "t"}})
    return draw.scenario(answer, StreamEnd.FAILED, error=APIError, told=told)


def html_with_200(draw: Draw) -> Scenario:
    page = f"<html>blocked {draw.number}</html>".encode()
    answer = Answer(page, headers={"content-type": "text/html"}, framing=draw.framing())
    return draw.scenario(answer, StreamEnd.INVALID, error=NotAnEventStreamError, told=f"blocked {draw.number}")


def invalid_chunk(draw: Draw) -> Scenario:
    garbage = f"garbage {draw.number}"
    payload, told = draw.rng.choice([(garbage, garbage), ({"choices": draw.number}, "expected a list")])
    return draw.after_a_message(
        event(payload), DONE, delta(content="late"), end=StreamEnd.INVALID, error=InvalidChunkError, told=told
    )


def limit_passed(draw: Draw) -> Scenario:
    message, large = draw.message(texts=30), "x" * 50_000
    events = [*message.events, delta(content=large), delta("stop"), DONE]
    limit = draw.rng.choice(["max_event_size", "max_output_size"])
    fields = {"is_whole": False, "error": LimitExceededError, "told": limit, "options": {limit: 20_000}}
    return draw.scenario(events, StreamEnd.INVALID, message.text + large, **fields)


BROKEN, UNREAD, SILENT = httpx.RemoteProtocolError, httpx.ReadError, httpx.ReadTimeout
WAITING = {"timeout": httpx.Timeout(PATIENCE, read=SILENCE)}
STOP = delta("stop")
FAULTS: dict[str, tuple[float, Callable[[Draw], Scenario]]] = {  # and how often; those that take long stand last
    "whole": (25, whole),
    "gzip": (5, lambda draw: whole(draw, encoding="gzip")),
    "without finish reason": (
        3,
        lambda draw: draw.after_a_message(DONE, end=StreamEnd.DONE, rules=(FINISH_MISSING,), framing=draw.framing()),
    ),
    "late fault": (
        4,
        lambda draw: draw.after_a_message(STOP, end=StreamEnd.FINISHED, rules=(LATE_FAULT,), ending="cut"),
    ),
    "cut clean": (6, cut_clean),
    "cut in chunks": (6, lambda draw: draw.cut(BROKEN, ending="cut")),
    "cut below its length": (5, lambda draw: draw.cut(BROKEN, framing="content-length", ending="cut")),
    "error event": (5, error_event),
    "error status": (5, error_status),
    "consumer leaves": (6, lambda draw: draw.left("leaves")),
    "consumer raises": (4, lambda draw: draw.left("raises")),
    "cancelled at an item": (4, lambda draw: draw.left("is cancelled")),
    "nothing": (2, nothing),
    "bad framing": (2, lambda draw: draw.cut(BROKEN, Raw(b"no size\r\n"), ending="open")),
    "bad gzip": (2, bad_gzip),
    "error with 200": (3, error_with_200),
    "html with 200": (2, html_with_200),
    "invalid chunk": (4, invalid_chunk),
    "limit passed": (3, limit_passed),
    "kept open": (4, lambda draw: draw.after_a_message(STOP, DONE, end=StreamEnd.FINISHED, ending="open")),
    "reset": (4, lambda draw: draw.cut(UNREAD, 0.1, ending="reset", is_whole=False, may_fail_early=True)),
    # While it connects or waits for the headers, or soon after; then while it reads, or while it closes.
    "cancelled early": (
        3,
        lambda draw: draw.cancelled(cancelled_after=draw.rng.choice([0.0, draw.rng.uniform(0, 0.5)])),
    ),
    "cancelled at a moment": (
        5,
        lambda draw: draw.cancelled(cancelled_after=draw.rng.uniform(0, 0.2), counts_from_response=True),
    ),
    "silence": (0.5, lambda draw: draw.cut(SILENT, ending="open", may_fail_early=True, options=WAITING)),
    "keep alives only": (0.5, keep_alives_only),
    "too slow": (0.5, too_slow),
}


def scenario_of(seed: int, number: int) -> tuple[str, Scenario]:
    """The fault's name, and the stream: the same in both processes. The first streams have each fault once."""
    rng = random.Random(f"{seed} {number}")
    faults = list(FAULTS)
    weights = [weight for weight, _ in FAULTS.values()]
    fault = faults[number] if number < len(faults) else rng.choices(faults, weights)[0]
    return fault, FAULTS[fault][1](Draw(number, rng))
