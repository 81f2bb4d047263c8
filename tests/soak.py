"""Thousands of streams with faults at random through one client in one process: all end as they should, nothing stays.

    uv run python tests/soak.py                             # 20,000 streams, a few minutes
    uv run python tests/soak.py --streams 2000 --seed 7     # fewer, and the same each time
    uv run python tests/soak.py --seed 7 --only 1234        # one of them again

What is injected into a stream depends on the seed and the stream's number alone, and both go with the request: the
provider, a process of its own, makes the answer of them, and this process what is to come of it. Texts and messages
have the number in them, so that one stream cannot pass for another.

After every tenth of the streams, when none is open, nothing may be left: no connection in use, no socket beside those
that wait in the pool, no task, no object of chunkfold's; nobody was warned, and nothing went to the event loop's
handler. The memory has to stay where it was after the first streams. It needs Linux's /proc.

One fault of httpcore's own is let pass, and counted: a task that is cancelled just while httpcore takes a lock or closes
loses the connection (its shields hold off anyio's cancellations, not a task's), with or without chunkfold. Such a
connection is taken out of the pool, so that the streams go on; one more that is in use is wrong.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import random
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Literal

import httpx

from chunkfold import (
    APIError,
    APIStatusError,
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    NotAnEventStreamError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    aconnect,
)
from chunkfold.anomalies import DONE_MISSING, FINISH_MISSING, LATE_FAULT, Rule
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    Raw,
    ReceivedRequest,
    chunk,
    cut,
    delta,
    event,
    fragment,
    json_answer,
    paced,
    stalled,
    usage,
)

PATIENCE = 30.0  # seconds, after which a stream hangs
SETTLING = 5.0  # seconds that the event loop gets to close what is being closed
SILENCE = 1.0  # seconds; the read timeout where one is to pass: the headers come in time on a busy machine, too
STALL = 0.3  # seconds; the limits on the time where one is to be passed
CHECKPOINTS = 10
WARM_UP = 2  # checkpoints
WINDOW = 3  # checkpoints whose median counts
MEGABYTE = 2**20
MAX_GROWTH = 8 * MEGABYTE
PROC = Path("/proc/self")


class Mine(Exception):  # noqa: N818 - the consumer's own
    """What a consumer raises in its loop."""


# What is injected


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


# The provider


def respond(request: ReceivedRequest) -> Answer:
    asked = request.json
    return scenario_of(asked["seed"], asked["number"])[1].answer


def provide(streams: int) -> None:
    """Be the provider until the input ends."""
    with FakeProvider(*[respond] * streams) as provider:
        print(provider.url, flush=True)
        sys.stdin.read()


@contextmanager
def provider_for(streams: int) -> Iterator[str]:
    """The URL of a provider in another process."""
    command = [sys.executable, __file__, "--provide", str(streams)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if url:
                yield url
            process.communicate(timeout=PATIENCE)
            if process.returncode:
                raise RuntimeError(f"the provider failed with {process.returncode}")
        finally:
            process.kill()


# One stream


def new_client() -> httpx.AsyncClient:
    """Without a limit on the connections: those that are lost are none too few for the streams to come."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return httpx.AsyncClient(trust_env=False, timeout=PATIENCE, limits=limits)


@dataclass
class Outcome:
    """What became of a stream."""

    stream: AsyncChatCompletionStream | None = None  # None if the response never came
    raised: BaseException | None = None
    hung: bool = False
    was_cancelled: bool = False  # while it ran
    timer: asyncio.TimerHandle | None = None  # until it is cancelled

    @property
    def may_lose_its_connection(self) -> bool:
        """Whether it was cancelled in httpcore, but not while that connected, read or wrote."""
        frames = traceback.walk_tb(self.raised.__traceback__ if self.raised is not None else None)
        names = [(str(frame.f_globals["__name__"]), frame.f_code.co_name) for frame, _ in frames]
        module, function = next((name for name in reversed(names) if name[0].startswith("httpcore.")), ("", ""))
        return self.was_cancelled and bool(module) and ("._backends." not in module or function == "aclose")


VIEWS: dict[str, Callable[[AsyncChatCompletionStream], AsyncIterator[Any]]] = {
    "chunks": lambda stream: stream,
    "texts": lambda stream: stream.text_deltas(),
    "events": lambda stream: stream.events(),
}


async def consume(stream: AsyncChatCompletionStream, scenario: Scenario, outcome: Outcome) -> None:
    if scenario.view == "read":
        await stream.read()
        return
    count = 0
    async for _ in VIEWS[scenario.view](stream):
        count += 1
        if count == scenario.items:
            if scenario.way_out == "leaves":
                break
            if scenario.way_out == "raises":
                raise Mine
            cancel(asyncio.current_task(), outcome)


def cancel(task: asyncio.Task[Any] | None, outcome: Outcome) -> None:
    if task is not None and task.cancel():
        outcome.was_cancelled = True


def cancel_later(task: asyncio.Task[Any] | None, scenario: Scenario, outcome: Outcome) -> None:
    if scenario.cancelled_after is not None:
        loop = asyncio.get_running_loop()
        outcome.timer = loop.call_later(scenario.cancelled_after, cancel, task, outcome)


async def run_stream(client: httpx.AsyncClient, url: str, seed: int, number: int, scenario: Scenario) -> Outcome:
    """The stream, in a task of its own."""
    outcome = Outcome()
    asked = {"model": "m", "messages": [], "seed": seed, "number": number}

    async def connect_and_consume() -> None:
        async with aconnect(client, "POST", url, json=asked, **scenario.options) as stream:
            outcome.stream = stream
            if scenario.counts_from_response:
                cancel_later(asyncio.current_task(), scenario, outcome)
            await consume(stream, scenario, outcome)

    task = asyncio.create_task(connect_and_consume())
    if not scenario.counts_from_response:
        cancel_later(task, scenario, outcome)
    _, pending = await asyncio.wait({task}, timeout=PATIENCE)
    if pending:
        outcome.hung = True
        task.cancel()
    try:
        await task
    except BaseException as exc:  # noqa: BLE001 - whatever it is, it is judged
        outcome.raised = exc
    if outcome.timer is not None:
        outcome.timer.cancel()
    return outcome


def complaints(scenario: Scenario, outcome: Outcome) -> Iterator[str]:
    """What is not as it was to be."""
    if outcome.hung:
        yield f"it hangs: not over after {PATIENCE:.0f} s"
        return
    if is_early(scenario, outcome):
        return
    if scenario.cancelled_after is not None and not outcome.was_cancelled:  # it was over before
        scenario = replace(scenario, end=StreamEnd.FINISHED, is_whole=True)
    yield from complaints_of_what_was_raised(scenario, outcome)
    if outcome.stream is not None:
        yield from complaints_of_the_stream(scenario, outcome, outcome.stream)
    elif not outcome.was_cancelled:
        yield "there was no stream"


def is_early(scenario: Scenario, outcome: Outcome) -> bool:
    """Whether the fault struck before there was a stream, where it can: the client's own exception passes."""
    return scenario.may_fail_early and outcome.stream is None and type(outcome.raised) is scenario.cause


def complaints_of_what_was_raised(scenario: Scenario, outcome: Outcome) -> Iterator[str]:
    expected: type[BaseException] | None = scenario.error
    if scenario.way_out == "raises":
        expected = Mine
    elif outcome.was_cancelled:
        expected = asyncio.CancelledError
    raised = outcome.raised
    if type(raised) is not (expected or type(None)):
        yield f"expected {expected and expected.__name__}, raised {raised!r}"
    elif isinstance(raised, ChunkfoldError):
        if outcome.stream is None or outcome.stream.error is not raised:
            yield "the stream's error is not the one that was raised"
        if scenario.told not in str(raised):
            yield f"expected a message with {scenario.told!r}, received {str(raised)!r}"
        if scenario.cause is not None and type(raised.__cause__) is not scenario.cause:
            yield f"expected {scenario.cause.__name__} as the cause, received {raised.__cause__!r}"


def complaints_of_the_stream(scenario: Scenario, outcome: Outcome, stream: AsyncChatCompletionStream) -> Iterator[str]:
    has_read_all = scenario.cancelled_after is not None and stream.end is StreamEnd.FINISHED
    if stream.end is not scenario.end and not has_read_all:
        yield f"expected the end {scenario.end}, received {stream.end}"
    if not stream.response.is_closed:
        yield "its response is open"
    yield from complaints_of_the_content(scenario, stream.snapshot)
    try:
        completion = stream.completion()
    except ChunkfoldError:
        if stream.end is None or stream.end.complete:
            yield f"no completion although it is {stream.end}"
        return
    if completion != stream.snapshot:
        yield "the completion is not the snapshot"
    rules = tuple(anomaly.rule for anomaly in stream.anomalies)
    if rules != scenario.rules and not outcome.was_cancelled:
        yield f"expected the anomalies {scenario.rules}, received {rules}"


def complaints_of_the_content(scenario: Scenario, snapshot: ChatCompletion) -> Iterator[str]:
    text = snapshot.text
    if not scenario.text.startswith(text) or (scenario.is_whole and text != scenario.text):
        yield f"expected the text {shortened(scenario.text)}, received {shortened(text)}"
    if snapshot.reasoning != scenario.reasoning:
        yield f"expected the reasoning {scenario.reasoning!r}, received {snapshot.reasoning!r}"
    arguments = tuple(call.arguments for call in snapshot.tool_calls)
    if arguments != scenario.arguments:
        yield f"expected the arguments {scenario.arguments}, received {arguments}"
    tokens = snapshot.usage.total_tokens if snapshot.usage is not None else None
    if tokens != scenario.tokens:
        yield f"expected a usage of {scenario.tokens} tokens, received {tokens}"


def shortened(text: str) -> str:
    return repr(text) if len(text) < 60 else f"{text[:20]!r}...{text[-20:]!r} ({len(text)})"


# What may be left


def resident_size() -> int:
    """The memory of this process, in bytes."""
    return int((PROC / "statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    """How many files and sockets are open, but for shared libraries: libffi keeps its own open once it is needed."""
    return sum(1 for file in (PROC / "fd").iterdir() if ".so" not in target_of(file).suffixes) - 1  # which lists them


def target_of(file: Path) -> Path:
    try:
        return file.readlink()
    except FileNotFoundError:  # closed since it was listed
        return file


def objects_alive() -> tuple[int, Counter[str]]:
    """How many objects there are more than before the first stream, and which of them are a stream's."""
    gc.collect()
    objects = gc.get_objects()
    kinds = Counter(type(one) for one in objects)
    ours = {kind: count for kind, count in kinds.items() if is_of_a_stream(kind)}
    return len(objects), Counter({kind.__name__: count for kind, count in ours.items()})


def is_of_a_stream(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] == "chunkfold" or kind in (httpx.Request, httpx.Response)


class Pool:
    """The connections of a client, as httpcore knows them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        transport: Any = client._transport
        self._pool = transport._pool

    @property
    def size(self) -> int:
        return len(self._pool.connections)

    def in_use(self) -> list[Any]:
        """Those that are neither idle nor closed, and those that a request still has."""
        held = [one for one in self._pool.connections if not (one.is_idle() or one.is_closed())]
        return held + [asked.connection for asked in self._pool._requests if asked.connection not in held]

    async def let_go(self) -> None:
        """Take what is in use out of the pool."""
        held = self.in_use()
        self._pool._requests.clear()
        self._pool._connections = [one for one in self._pool.connections if one not in held]
        for one in held:
            await one.aclose()


def load_what_is_loaded_when_used() -> None:
    """What a module keeps is not left by a stream."""
    for _ in ChatCompletionStream([*tool_call(0, 0, '{"a": 1}'), delta("tool_calls"), DONE]).events():
        pass


async def settled(count: Callable[[], int]) -> int:
    """What is left when the event loop had time to close what is being closed."""
    deadline = time.monotonic() + SETTLING
    while count() and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing tells when
        await asyncio.sleep(0.01)
    return count()


@contextmanager
def noting(notes: list[str]) -> Iterator[None]:
    """Whatever is warned of, and what is raised where nobody can catch it."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda args: notes.append(f"unraisable: {args.exc_value!r} in {args.object!r}")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
            gc.collect()
        notes += [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    finally:
        sys.unraisablehook = hook


# All streams


@dataclass
class Checkpoint:
    """After so many streams."""

    streams: int
    seconds: float
    memory: int  # bytes
    objects: int

    def __str__(self) -> str:
        return f"{self.streams:8} streams{self.seconds:6.0f} s{self.memory / MEGABYTE:8.1f} MB{self.objects:8} objects"


@dataclass
class Report:
    """What came of all streams."""

    seed: int
    concurrency: int
    streams: int
    done: int = 0
    seconds: float = 0.0
    lost: int = 0  # connections, by httpcore
    ends: dict[str, Counter[str]] = field(default_factory=lambda: {fault: Counter() for fault in FAULTS})
    checkpoints: list[Checkpoint] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def growth_of(self, value: Callable[[Checkpoint], int]) -> tuple[float, float] | None:
        """The medians after the warm-up and at the end; None if there are too few checkpoints."""
        values = [value(checkpoint) for checkpoint in self.checkpoints[WARM_UP:]]
        return (median(values[:WINDOW]), median(values[-WINDOW:])) if len(values) >= 2 * WINDOW else None

    def judge_growth(self) -> None:
        memory = self.growth_of(lambda checkpoint: checkpoint.memory)
        if memory is not None and memory[1] - memory[0] > MAX_GROWTH:
            self.wrong.append(f"the memory grew from {memory[0] / MEGABYTE:.1f} to {memory[1] / MEGABYTE:.1f} MB")
        objects = self.growth_of(lambda checkpoint: checkpoint.objects)
        allowed = max(2_000, self.done / 50)  # idle connections come and go
        if objects is not None and objects[1] - objects[0] > allowed:
            self.wrong.append(f"the objects grew from {objects[0]:.0f} to {objects[1]:.0f}")

    def __str__(self) -> str:
        return "\n".join([*self._endings(), "", *self._growth(), "", *self._verdict()])

    def _endings(self) -> Iterator[str]:
        yield f"{'injected':24}{'streams':>8}  ended"
        for name, ends in self.ends.items():
            yield f"{name:24}{ends.total():8}  {', '.join(f'{end} {count}' for end, count in ends.most_common())}"

    def _growth(self) -> Iterator[str]:
        yield f"{self.done} streams in {self.seconds:.0f} s: {self.done / max(self.seconds, 0.001):.0f} per second"
        if self.done < self.streams:
            yield f"then the time was up: {self.streams - self.done} were not begun"
        if self.lost:
            yield f"httpcore lost {self.lost} connections of tasks that were cancelled while it took a lock or closed"
        memory = self.growth_of(lambda checkpoint: checkpoint.memory)
        if memory is None:
            yield "memory: too few checkpoints to tell"
        else:
            yield (
                f"memory: {memory[0] / MEGABYTE:.1f} MB after the warm-up, {memory[1] / MEGABYTE:.1f} MB at the end"
                f" (at most {MAX_GROWTH / MEGABYTE:.0f} MB more)"
            )

    def _verdict(self) -> Iterator[str]:
        yield from (f"WRONG: {what}" for what in self.wrong[:20])
        if len(self.wrong) > 20:
            yield f"and {len(self.wrong) - 20} more"
        if not self.wrong:
            yield "OK: every stream ended as it should, and nothing was left"


class Soak:
    """One client, and the streams through it.

    Args:
        url: The provider's.
        streams: How many.
        concurrency: How many at a time.
        seed: With a stream's number, all there is to know about the stream.
        seconds: After which no stream is begun any more.
        say: Told each checkpoint.
    """

    def __init__(
        self,
        url: str,
        *,
        streams: int,
        concurrency: int,
        seed: int,
        seconds: float = 600.0,
        say: Callable[[str], object] = lambda line: None,
    ) -> None:
        self.report = Report(seed, concurrency, streams)
        self._url = url
        self._seconds = seconds
        self._say = say
        self._started = time.monotonic()
        self._may_be_lost = 0  # connections, since the last checkpoint

    def run(self) -> Report:
        notes: list[str] = []
        load_what_is_loaded_when_used()
        was_frozen = gc.get_freeze_count() > 0
        gc.collect()
        gc.freeze()  # what was there before does not count
        try:
            with noting(notes):
                asyncio.run(self._run(notes))
        finally:
            if not was_frozen:  # else that is for others to end
                gc.unfreeze()
        self.report.judge_growth()
        self.report.wrong += [f"{count} times: {note}" for note, count in Counter(notes).items()]
        return self.report

    async def _run(self, notes: list[str]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: notes.append(f"the event loop's handler: {context}"))
        report = self.report
        files = open_files()
        self._started = time.monotonic()
        async with new_client() as client:
            bounds = [report.streams * part // CHECKPOINTS for part in range(CHECKPOINTS + 1)]
            for numbers in itertools.starmap(range, itertools.pairwise(bounds)):
                if numbers and not self._is_over():
                    await self._run_through(client, iter(numbers))
                    await self._check(client, files)
            report.seconds = time.monotonic() - self._started
        if left := await settled(lambda: max(0, open_files() - files)):
            report.wrong.append(f"at the end: {left} files are open that were not at the start")

    def _is_over(self) -> bool:
        return time.monotonic() - self._started > self._seconds

    async def _run_through(self, client: httpx.AsyncClient, numbers: Iterator[int]) -> None:
        async def work() -> None:
            for number in numbers:
                await self._run_one(client, number)
                if self._is_over():
                    break

        await asyncio.gather(*(work() for _ in range(self.report.concurrency)))

    async def _run_one(self, client: httpx.AsyncClient, number: int) -> None:
        report = self.report
        name, scenario = scenario_of(report.seed, number)
        outcome = await run_stream(client, self._url, report.seed, number, scenario)
        report.done += 1
        self._may_be_lost += outcome.may_lose_its_connection
        report.ends[name][str(outcome.stream.end) if outcome.stream is not None else "before there was a stream"] += 1
        again = f"--seed {report.seed} --only {number}"
        report.wrong += [f"{name}: {complaint} ({again})" for complaint in complaints(scenario, outcome)]
        if outcome.raised is not None:
            outcome.raised.__traceback__ = None  # so that nothing waits for the garbage collector: what grows is a leak

    async def _check(self, client: httpx.AsyncClient, files: int) -> None:
        report, pool, me = self.report, Pool(client), {asyncio.current_task()}
        left = {
            "tasks run": await settled(lambda: len(asyncio.all_tasks() - me)),
            "connections are in use": await self._connections_left(pool),
            "files are open beside the idle connections": await settled(
                lambda: max(0, open_files() - files - pool.size)
            ),
        }
        report.wrong += [f"after {report.done} streams: {count} {what}" for what, count in left.items() if count]
        objects, kept = objects_alive()
        if kept:
            report.wrong.append(f"after {report.done} streams there are still: {dict(kept.most_common(5))}")
        checkpoint = Checkpoint(report.done, time.monotonic() - self._started, resident_size(), objects)
        report.checkpoints.append(checkpoint)
        self._say(f"{checkpoint}{pool.size:6} idle connections{len(report.wrong):6} wrong")

    async def _connections_left(self, pool: Pool) -> int:
        """How many connections are in use beside those that httpcore lost; none afterwards."""
        left = await settled(lambda: max(0, len(pool.in_use()) - self._may_be_lost))
        self.report.lost += len(pool.in_use()) - left
        self._may_be_lost = 0
        await pool.let_go()
        return left


async def run_alone(url: str, seed: int, number: int) -> list[str]:
    """One stream again; say what it is and what is wrong."""
    name, scenario = scenario_of(seed, number)
    print(name, repr(scenario)[:2000], sep="\n")
    async with new_client() as client:
        outcome = await run_stream(client, url, seed, number, scenario)
    print(outcome)
    return list(complaints(scenario, outcome))


def main() -> int:
    parser = argparse.ArgumentParser(description="Thousands of streams with faults through one client.")
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=50, metavar="N", help="how many at a time")
    parser.add_argument("--seed", type=int, help="of the faults; another one each time, if not given")
    parser.add_argument("--seconds", type=float, default=600.0, metavar="MAX", help="then no more are begun")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this one alone")
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.provide is not None:
        provide(options.provide)
        return 0
    if not PROC.exists():
        print("needs Linux's /proc", file=sys.stderr)
        return 2
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.only is not None:
        with provider_for(1) as url:
            wrong = asyncio.run(run_alone(url, seed, options.only))
        print(*(f"WRONG: {what}" for what in wrong), sep="\n")
        return 1 if wrong else 0
    print(f"{options.streams} streams, {options.concurrency} at a time, seed {seed}", flush=True)
    with provider_for(options.streams) as url:
        soak = Soak(
            url,
            streams=options.streams,
            concurrency=options.concurrency,
            seed=seed,
            seconds=options.seconds,
            say=lambda line: print(line, flush=True),
        )
        report = soak.run()
    print("", report, sep="\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
