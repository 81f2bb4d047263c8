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
import os
import random
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from soak_scenarios import FAULTS, PATIENCE, Scenario, scenario_of, tool_call

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionStream,
    ChunkfoldError,
    StreamEnd,
    aconnect,
)
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, delta

SETTLING = 5.0  # seconds that the event loop gets to close what is being closed
CHECKPOINTS = 10
WARM_UP = 2  # checkpoints
WINDOW = 3  # checkpoints whose median counts
MEGABYTE = 2**20
MAX_GROWTH = 8 * MEGABYTE
PROC = Path("/proc/self")


class Mine(Exception):  # noqa: N818 - the consumer's own
    """What a consumer raises in its loop."""


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
