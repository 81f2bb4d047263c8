"""Plain callables are told what a stream does: its chunks, its end, once, and nothing they do reaches the reader."""

import copy
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from cases import each_case
from copies import pickled
from fronts import over_both_streams
from parsed_bodies import fed
from played import ERROR, HI, PING, STOP
from sources import source, texts_of

from chunkfold import (
    APIError,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ServerSentEvent,
    StreamEnd,
)
from chunkfold.parser.parser import feed_in_slices, observe_as
from chunkfold.testing import DONE, ManualClock, delta, event

pytest_generate_tests = over_both_streams


class Log:
    """What an observer was told."""

    def __init__(self) -> None:
        self.chunks: list[int] = []
        self.ends: list[StreamEnd | None] = []

    def on_chunks(self, stream: Any, count: int) -> None:
        assert stream.timing.last_chunk is not None
        self.chunks.append(count)

    def on_end(self, stream: Any) -> None:
        self.ends.append(stream.end)

    def observe(self, stream: Any) -> Any:
        stream.observe(on_chunks=self.on_chunks, on_end=self.on_end)
        return stream


async def test_an_observer_is_told_of_each_read_and_of_the_end(front: Any) -> None:
    log = Log()
    stream = log.observe(front(source(front, [HI + HI, PING, HI, STOP + DONE])))
    assert await texts_of(stream) == ["Hi", "Hi", "Hi", ""]
    assert (log.chunks, log.ends) == ([2, 1, 1], ["finished"])


def test_a_large_read_tells_of_every_chunk() -> None:
    for way in (list, ChatCompletionStream.read):
        log = Log()
        with log.observe(
            ChatCompletionStream([delta(content=" ") * 4999 + delta(content="1") + STOP + DONE])
        ) as stream:
            way(stream)
        assert (sum(log.chunks), log.ends) == (5001, ["finished"])


def test_all_is_known_when_the_end_is_told() -> None:
    told: list[Any] = []
    stream = ChatCompletionStream([HI, ERROR])
    stream.observe(on_end=lambda stream: told.append((stream.error, stream.snapshot.text, stream.timing.last_chunk)))
    with pytest.raises(APIError):
        stream.read()
    assert told == [(stream.error, "Hi", stream.timing.last_chunk)]
    assert stream.error is not None


def test_what_an_observer_raises_is_logged_and_never_reaches_the_reader(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    log = Log()
    stream = ChatCompletionStream([HI, STOP, DONE]).observe(on_chunks=broken, on_end=broken)
    log.observe(stream)
    assert stream.read().text == "Hi"
    assert (log.chunks, log.ends) == ([1, 1], ["finished"])
    logged = [(record.name, record.levelno) for record in caplog.records]
    assert logged == [("chunkfold.parser.observers", logging.ERROR)] * 3
    caplog.clear()


def test_a_cancellation_passes_through_an_observer() -> None:
    def stop(stream: object) -> None:
        raise KeyboardInterrupt

    stream = ChatCompletionStream([HI, STOP, DONE]).observe(on_end=stop)
    with pytest.raises(KeyboardInterrupt):
        stream.read()


Feed = Callable[..., object]
# What happens to a parser, how many chunks that brings, and the end that is told.
HAPPENS: dict[str, tuple[Callable[[ChatCompletionParser, Feed], object], list[int], str]] = {
    "a body that ends": (lambda parser, _: parser.close(), [], "truncated"),
    "a deadline that is missed": (lambda parser, feed: feed(parser, PING, arrived=6.0), [], "stalled"),
    "a chunk that comes too late": (lambda parser, feed: feed(parser, HI, arrived=6.0), [1], "stalled"),
    "a fault": (lambda parser, _: parser.interrupt(ConnectionError()), [], "interrupted"),
    "leaving": (lambda parser, _: parser.leave(), [], "closed"),
}


@each_case(
    "feed", [ChatCompletionParser.feed, ChatCompletionParser.fold, lambda *fed, **at: [*feed_in_slices(*fed, **at)]]
)
@each_case("name", HAPPENS)
def test_a_parser_tells_of_every_way_to_feed_it_and_of_its_end(name: str, feed: Feed) -> None:
    act, chunks, end = HAPPENS[name]
    log = Log()
    parser = log.observe(ChatCompletionParser(total_timeout=5.0, started=0.0, clock=lambda: 1.0))
    feed(parser, HI)
    assert (log.chunks, log.ends) == ([1], [])
    act(parser, feed)
    assert (log.chunks, log.ends) == ([1, *chunks], [end])
    parser.leave()
    assert log.ends == [end]


def test_a_refusal_is_told() -> None:
    log = Log()
    parser = log.observe(ChatCompletionParser(status_code=429))
    parser.feed(b'{"error": "slow down"}')
    parser.close()
    assert (log.chunks, log.ends) == ([], ["failed"])


@each_case(
    ("last", "end"), [(DONE, "finished"), (DONE.rstrip(), "finished"), (ERROR, "failed"), (event("x"), "invalid")]
)
def test_an_end_is_told_even_if_the_callback_raises_for_the_last_event(last: bytes, end: str) -> None:
    def fail(sent: ServerSentEvent, _chunks: list[ChatCompletionChunk]) -> None:
        if last.startswith(b"data: " + sent.data):
            raise ZeroDivisionError

    log = Log()
    parser = log.observe(ChatCompletionParser(on_server_sent_event=fail))
    with pytest.raises(ZeroDivisionError):
        _ = parser.feed(HI + STOP + last), parser.close()
    assert (parser.end, log.chunks, log.ends) == (end, [2], [end])


def test_an_observer_that_comes_late_is_told_what_comes_then() -> None:
    first, second, last = Log(), Log(), Log()
    parser = fed(HI)
    first.observe(parser)
    parser.feed(HI)
    second.observe(parser)
    parser.feed(STOP + DONE)
    last.observe(parser)
    assert (first.chunks, second.chunks, last.chunks) == ([1, 1], [1], [])
    assert first.ends == second.ends == last.ends == ["finished"]


def test_an_observer_that_another_one_adds_is_told_what_comes_then() -> None:
    """Was once wrong: it was told of the chunks that were just reported, and one that adds itself never ended."""
    late: list[Log] = []
    parser = ChatCompletionParser()
    parser.observe(on_chunks=lambda parser, _: late.append(Log()) or late[-1].observe(parser))
    parser.feed(HI + HI)
    parser.feed(HI)
    assert [log.chunks for log in late] == [[1], []]


def test_after_the_end_that_an_observer_causes_no_chunks_are_told() -> None:
    told: list[str] = []
    parser = ChatCompletionParser()
    parser.observe(on_chunks=lambda parser, _: parser.leave())
    parser.observe(on_chunks=lambda *_: told.append("chunks"), on_end=lambda _: told.append("end"))
    parser.feed(HI)
    assert told == ["end"]


def test_a_copy_has_no_observers() -> None:
    """Was once wrong: the observers of a copy were called with the original, and a pickle could not be made."""
    told: list[Any] = []
    parser = ChatCompletionParser()
    parser.observe(on_chunks=lambda _, count: told.append(count), on_end=lambda one: told.append(one.end))
    for other in (copy.deepcopy(parser), pickled(parser)):
        other.feed(delta(content="a") + delta("stop") + DONE)
    assert told == []
    parser.feed(delta(content="a") + delta("stop") + DONE)
    assert told == [2, "finished"]


def test_the_time_since_the_request_is_the_streams_own() -> None:
    clock = ManualClock(100.0)
    stream = ChatCompletionStream([HI], clock=clock)
    clock.advance(2.5)
    assert stream.elapsed == 2.5
    assert ChatCompletionParser(clock=clock, started=200.0).elapsed == 0.0


def test_an_observed_stream_is_freed_as_any_other() -> None:
    gc.disable()
    try:
        stream = Log().observe(ChatCompletionStream([HI, HI]))
        next(stream)
        stream_ref, parser_ref = weakref.ref(stream), weakref.ref(stream._parser)
        del stream
        assert (stream_ref(), parser_ref()) == (None, None)
    finally:
        gc.enable()


def test_what_nobody_holds_any_more_is_told_nothing() -> None:
    class Subject:
        pass

    log, subject = Log(), Subject()
    parser = ChatCompletionParser()
    observe_as(parser, subject, log.on_chunks, log.on_end)
    del subject
    parser.feed(HI)
    parser.close()
    assert (log.chunks, log.ends) == ([], [])


@pytest.mark.parametrize("way_out", ["error", "close", "interrupt"])
def test_at_the_end_the_error_knows_whether_the_parser_returns_output(way_out: str) -> None:
    seen: list[tuple[bool, bool]] = []
    parser = ChatCompletionParser()
    parser.observe(on_end=lambda parser: seen.append((parser.error.emitted_output, parser.error.retryable)))
    if way_out == "error":
        parser.feed(HI + event({"error": {"message": "x", "code": 503}}))
    else:
        parser.fold(HI.rstrip())  # its chunk comes at the end of the body
        parser.close() if way_out == "close" else parser.interrupt(ConnectionResetError())
    assert seen == [(True, False)]


@each_case("name", ["on_chunks", "on_end"])
def test_an_observer_that_is_async_would_never_run(name: str) -> None:
    async def wait(*_: object) -> None: ...

    async def generate(*_: object) -> AsyncIterator[int]:
        yield 1

    for callback in (wait, generate, 5):
        with pytest.raises(TypeError, match=rf"^{name}: expected a callable that is not async, or None, received"):
            ChatCompletionParser().observe(**{name: callback})  # type: ignore[arg-type]
