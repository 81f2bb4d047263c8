"""The examples that join chunkfold to something else: what each promises, over real sockets on this machine.

Each needs a package or two, and skips without them; LangChain's runs with the group `peers`, the page with a browser.
The apps are served by uvicorn in a thread, the provider is the embedded one, and a silence of it lasts until somebody
leaves: so what arrives has arrived before the upstream has finished. `test_examples` runs the scripts as they are.
"""

import asyncio
import importlib
import json
import math
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from io import StringIO
from itertools import count
from time import sleep
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from example_scripts import EXAMPLES, NEEDS, ROOT, command, environment, load, served
from fronts import has_left

from chunkfold import (
    APIStatusError,
    ChatCompletionParser,
    ChatCompletionStream,
    ChoiceFinished,
    EventStreamDecoder,
    IncompleteStreamError,
    ServerSentEvent,
    StreamEnd,
    StreamInterruptedError,
    TextDelta,
)
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    Raw,
    ReceivedRequest,
    chunk,
    delta,
    event,
    fragment,
    json_answer,
    usage,
)

BUSY_FOR_A_MOMENT = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after-ms": "1"})
PATIENCE = 30.0  # seconds, after which a test that hangs fails
HI, THERE = delta(content="Hi "), delta(content="there")
STOP, USAGE = delta("stop"), chunk(usage=usage(1000, 500))
WHOLE = [HI, THERE, STOP, USAGE, DONE]
ROLE = delta(role="assistant", content="")
BUSY = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "0"})


@pytest.mark.parametrize("name", [name for name in NEEDS if name not in ("ag_ui", "ai_sdk_ui", "resumable_relay")])
def test_each_is_short_and_says_how_to_run_it(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert re.match(r'"""[^"]+\.\n\n[^"]+"""\n', source)
    assert len(source.splitlines()) < 80
    assert f"examples/{name}.py" in (ROOT / "docs" / "adapters.md").read_text("utf-8")


# A client of a provider's own


@contextmanager
def without_waits() -> Iterator[None]:
    """stamina waits for nothing, and tells nobody."""
    stamina: Any = importlib.import_module("stamina")
    stamina.instrumentation.set_on_retry_hooks([])
    with stamina.set_testing(True, attempts=3, cap=True):
        yield
    stamina.instrumentation.set_on_retry_hooks(None)


@pytest.fixture
def slow_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """stamina retries as it does for users, by a clock that goes on by 100 seconds whenever it is looked at."""
    stamina: Any = pytest.importorskip("stamina")
    tenacity: Any = importlib.import_module("tenacity")
    monkeypatch.setattr(tenacity, "time", SimpleNamespace(monotonic=partial(next, count(0, 100)), sleep=sleep))
    with stamina.set_testing(False):
        yield


class Events:
    """An iterator as an async one."""

    def __init__(self, events: Iterator[Any]) -> None:
        self.events = events

    async def __aiter__(self) -> AsyncIterator[Any]:
        for one in self.events:
            yield one


@asynccontextmanager
async def sync_chat(sdk: Any, url: str) -> AsyncIterator[Any]:
    with sdk.Acme(base_url=url, trust_env=False) as acme, acme.chat(model="m", messages=[]) as events:
        yield Events(events)


@asynccontextmanager
async def async_chat(sdk: Any, url: str) -> AsyncIterator[Any]:
    async with sdk.AsyncAcme(base_url=url, trust_env=False) as acme, acme.chat(model="m", messages=[]) as events:
        yield events


FRONTS = {"sync": (sync_chat, "asyncio"), "asyncio": (async_chat, "asyncio"), "trio": (async_chat, "trio")}


# httpx nests async generators and closes only the outermost: trio says so of those that were not exhausted.
pytestmark = pytest.mark.filterwarnings(r"ignore:Async generator 'http(x|core)\.:ResourceWarning")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `front` over both, and over the sync one once."""
    if "front" in metafunc.fixturenames:
        metafunc.parametrize(("front", "anyio_backend"), FRONTS.values(), ids=FRONTS)


class TestSdkClient:
    @pytest.fixture(autouse=True)
    def _without_waits(self) -> Iterator[None]:
        with without_waits():
            yield

    @pytest.fixture
    def sdk(self) -> Any:
        return load("sdk_client")

    async def test_asks_again_until_there_is_output_and_tells_all_of_it(self, sdk: Any, front: Any) -> None:
        broken = Answer([ROLE, 0.01], ending="cut")
        with FakeProvider(BUSY, broken, Answer(WHOLE)) as provider:
            async with front(sdk, provider.base_url) as events:
                told = [one async for one in events]
        assert "".join(one.delta for one in told if isinstance(one, TextDelta)) == "Hi there"
        assert [one.finish_reason for one in told if isinstance(one, ChoiceFinished)] == ["stop"]
        assert len(provider.requests) == 3

    async def test_asks_nothing_twice_once_output_was_handed_out(self, sdk: Any, front: Any) -> None:
        told: list[Any] = []
        with FakeProvider(Answer([HI, 0.01, THERE], ending="cut")) as provider:
            with pytest.raises(sdk.AcmeError) as caught:
                await self.tell(front(sdk, provider.base_url), told)
            assert len(provider.requests) == 1
        assert "".join(one.delta for one in told) == "Hi there"
        assert isinstance(caught.value.__cause__, StreamInterruptedError)
        assert caught.value.__cause__.snapshot is not None
        assert caught.value.__cause__.snapshot.text == "Hi there"

    async def tell(self, chat: Any, told: list[Any]) -> None:
        async with chat as events:
            async for one in events:  # one by one: what came before an error counts
                told.append(one)  # noqa: PERF401

    @pytest.mark.parametrize(
        ("answer", "kind", "attempts"),
        [
            (json_answer({"error": {"message": "Wrong key."}}, 401), "AcmeKeyError", 1),
            (BUSY, "AcmeBusyError", 3),
            (json_answer({"error": {"message": "Later."}}, 429, {"retry-after": "3600"}), "AcmeBusyError", 1),
            (json_answer({"error": {"message": "What?"}}, 400), "AcmeError", 1),
            (Answer(event({"error": {"message": "Overloaded.", "code": 503}})), "AcmeBusyError", 3),
            (Answer(b"<html>", headers={"content-type": "text/html"}), "AcmeError", 1),
        ],
        ids=["key", "busy", "for-an-hour", "request", "inside-the-stream", "no-stream"],
    )
    async def test_errors_have_types(self, sdk: Any, front: Any, answer: Answer, kind: str, attempts: int) -> None:
        with FakeProvider(*[answer] * 3) as provider:
            with pytest.raises(sdk.AcmeError) as caught:
                await self.tell(front(sdk, provider.base_url), [])
            assert len(provider.requests) == attempts
        assert type(caught.value) is getattr(sdk, kind)

    @pytest.mark.usefixtures("slow_attempts")
    async def test_each_attempt_may_take_its_time(self, sdk: Any, front: Any) -> None:
        with FakeProvider(BUSY_FOR_A_MOMENT, BUSY_FOR_A_MOMENT, Answer(WHOLE)) as provider:
            async with front(sdk, provider.base_url) as events:
                assert [one async for one in events]
            assert len(provider.requests) == 3

    async def test_who_is_not_there_is_asked_again_too(self, sdk: Any, front: Any) -> None:
        with FakeProvider() as provider:
            url = provider.base_url
        with pytest.raises(sdk.AcmeError) as caught:
            await self.tell(front(sdk, url), [])
        assert isinstance(caught.value.__cause__, httpx.ConnectError)

    async def test_an_answer_may_be_empty(self, sdk: Any, front: Any) -> None:
        with FakeProvider(Answer([ROLE, delta("content_filter"), DONE])) as provider:
            async with front(sdk, provider.base_url) as events:
                assert [one.finish_reason async for one in events] == ["content_filter"]

    async def test_leaving_stops_the_provider(self, sdk: Any, front: Any) -> None:
        with FakeProvider(Answer([HI, math.inf])) as provider:
            async with front(sdk, provider.base_url) as events:
                async for one in events:
                    assert one.delta == "Hi "
                    break
            assert has_left(provider.requests[0])


@pytest.mark.usefixtures("slow_attempts")
def test_falling_back_lets_each_attempt_take_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    load("sdk_client")
    module = importlib.import_module("retry_and_fall_back")
    with FakeProvider(*[BUSY_FOR_A_MOMENT] * 4, Answer(WHOLE)) as provider, httpx.Client(trust_env=False) as client:
        assert module.ask(client, provider.url, []) == "Hi there"
    assert capsys.readouterr().out == "Hi there"


# The relay


class Relayed:
    """The relay as it is served, and what it notes.

    Args:
        module: The example.
        provider: What it relays to.
    """

    def __init__(self, module: Any, provider: FakeProvider) -> None:
        self.module = module
        self.provider = provider
        self.notes: queue.Queue[ChatCompletionParser] = queue.Queue()
        self.url = ""

    @contextmanager
    def asked(self, **options: Any) -> Iterator[httpx.Response]:
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            options = {"json": {"model": "gpt-5-mini", "stream": True}, **options}
            with client.stream("POST", self.url, **options) as response:
                yield response

    @property
    def request(self) -> ReceivedRequest:
        """The last one that the provider received."""
        return self.provider.requests[-1]

    def noted(self) -> ChatCompletionParser:
        return self.notes.get(timeout=PATIENCE)

    def check_that_it_goes_on(self) -> None:
        self.provider.add(Answer(WHOLE))
        with self.asked() as response:
            assert response.read() == b"".join(WHOLE)
        assert self.noted().end is StreamEnd.FINISHED


@pytest.fixture(scope="module")
def running_relay() -> Iterator[Relayed]:
    with FakeProvider() as provider, served("asgi_relay", provider) as url:
        assert httpx.get(f"{url}/nothing", trust_env=False).status_code == 404  # the environment was read
        relayed = Relayed(load("asgi_relay"), provider)
        relayed.url = f"{url}/v1/chat/completions"
        yield relayed


@pytest.fixture
def relayed(running_relay: Relayed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relayed]:
    monkeypatch.setattr(running_relay.module, "note", running_relay.notes.put)
    yield running_relay
    assert running_relay.notes.empty()  # one for each, and the test has taken it


BODIES = {
    "usual": WHOLE,
    "line-ends": [piece.replace(b"\n", b"\r\n") for piece in WHOLE],
    "comments": [b"\xef\xbb\xbf: hello\n\nretry: 10\nid: 7\n\n", *WHOLE],
    "no-text": [b"data: \xff\xfe\x00", b"\n\n", bytes(range(256))],
    "unfinished": [HI, THERE[:-20]],
    "json": [b'{"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'],
    "large": [delta(content="x" * 10**6), STOP, DONE],
    "nothing": [b""],
}


class TestAsgiRelay:
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    @pytest.mark.parametrize("name", BODIES)
    def test_the_bytes_are_the_same(self, relayed: Relayed, name: str, framing: Any) -> None:
        headers = {"x-request-id": "req_1", "content-type": "text/event-stream", "x-ratelimit-remaining": "7"}
        relayed.provider.add(Answer(BODIES[name], headers=headers, framing=framing))
        with relayed.asked() as response:
            received, broke_off = self.received_from(response)
        assert received == b"".join(BODIES[name])
        assert {name: response.headers[name] for name in headers} == headers
        tap = relayed.noted()
        assert (tap.end, tap.request_id) == (self.end_of(BODIES[name]), "req_1")
        assert broke_off == (name in ("unfinished", "nothing"))

    def received_from(self, response: httpx.Response) -> tuple[bytes, bool]:
        """What came, and whether it broke off."""
        received = bytearray()
        try:
            for data in response.iter_raw():
                received += data
        except httpx.RemoteProtocolError:
            return bytes(received), True
        return bytes(received), False

    def end_of(self, pieces: list[bytes]) -> StreamEnd | None:
        parser = ChatCompletionParser()
        parser.feed(b"".join(pieces))
        parser.close()
        return parser.end

    def test_they_pass_as_they_come(self, relayed: Relayed) -> None:
        relayed.provider.add(Answer([HI, math.inf]))
        with relayed.asked() as response:
            pieces = response.iter_raw()
            assert next(pieces) == HI
            assert not relayed.request.answered.is_set()
        assert relayed.noted().end is StreamEnd.CLOSED

    def test_the_tap_tells_the_usage_the_end_and_the_cost(
        self, relayed: Relayed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = [piece.replace(b'"m"', b'"gpt-5-mini"') for piece in WHOLE]
        half = [*model[:3], chunk(usage={"prompt_tokens": 1000})]
        bodies = [model, model[:3], model[:1], half, WHOLE, [chunk(usage=usage(0, 0)), *model[:3]]]
        for body in bodies:
            relayed.provider.add(Answer(body))
            with relayed.asked() as response:
                self.received_from(response)
        taps = [relayed.noted() for _ in bodies]
        monkeypatch.undo()
        for tap in taps:
            relayed.module.note(tap)
        assert capsys.readouterr().out.splitlines() == [
            "gpt-5-mini finished: 1000 tokens in, 500 out, $0.0012500",
            "gpt-5-mini finished: usage and cost not known",
            "gpt-5-mini truncated: usage and cost not known",
            "gpt-5-mini finished: usage and cost not known",
            "m finished: 1000 tokens in, 500 out, cost not known",
            "m finished: 0 tokens in, 0 out, cost not known",
        ]

    @pytest.mark.parametrize(
        "pieces",
        [[HI], [HI, THERE], [b": keep-alive\n\n"], [delta(content="x" * 2**20)] * 40],
        ids=["one", "two", "comment", "while the relay waits to write"],
    )
    def test_a_client_that_leaves_stops_the_provider(self, relayed: Relayed, pieces: list[bytes]) -> None:
        relayed.provider.add(Answer([*pieces, math.inf]))
        with relayed.asked() as response:
            assert next(response.iter_raw())
        assert has_left(relayed.request)
        assert relayed.noted().end is StreamEnd.CLOSED
        relayed.check_that_it_goes_on()

    def test_a_client_that_leaves_before_the_answer_begins_stops_the_provider(self, relayed: Relayed) -> None:
        gate = threading.Event()

        def late(_: ReceivedRequest) -> Answer:
            assert gate.wait(PATIENCE)
            return Answer([HI, math.inf])

        relayed.provider.add(late)
        with pytest.raises(httpx.ReadTimeout), relayed.asked(timeout=0.3):
            pass
        gate.set()
        assert relayed.noted().end is StreamEnd.CLOSED
        assert has_left(relayed.request)
        relayed.check_that_it_goes_on()

    @pytest.mark.parametrize("framing", ["chunked", "content-length"])
    @pytest.mark.parametrize("ending", ["cut", "reset"])
    def test_what_breaks_off_upstream_breaks_off_downstream(self, relayed: Relayed, ending: Any, framing: Any) -> None:
        relayed.provider.add(Answer([HI, 0.2], ending=ending, framing=framing))
        with relayed.asked() as response:
            pieces = response.iter_raw()
            assert next(pieces) == HI
            with pytest.raises(httpx.TransportError):
                next(pieces)
        tap = relayed.noted()
        assert (tap.end, tap.snapshot.text) == (StreamEnd.INTERRUPTED, "Hi ")
        relayed.check_that_it_goes_on()

    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    @pytest.mark.parametrize(
        ("pieces", "end"),
        [([HI], StreamEnd.TRUNCATED), ([HI, THERE[:-9]], StreamEnd.TRUNCATED), ([b": hello\n\n"], StreamEnd.EMPTY)],
        ids=["between-events", "within-one", "no-output"],
    )
    def test_what_ends_cleanly_but_too_early_breaks_off_downstream(
        self, relayed: Relayed, pieces: list[bytes], end: StreamEnd, framing: Any
    ) -> None:
        relayed.provider.add(Answer(pieces, framing=framing))
        with relayed.asked() as response:
            assert self.received_from(response) == (b"".join(pieces), True)
        assert relayed.noted().end is end
        relayed.check_that_it_goes_on()

    def test_what_fails_and_says_so_ends_cleanly(self, relayed: Relayed) -> None:
        body = [HI, event({"error": {"message": "Overloaded.", "code": 503}})]
        relayed.provider.add(Answer(body))
        with relayed.asked() as response:
            assert self.received_from(response) == (b"".join(body), False)
        assert relayed.noted().end is StreamEnd.FAILED

    def test_a_refusal_passes_with_all_it_has(self, relayed: Relayed) -> None:
        headers = {"retry-after": "7", "x-ratelimit-remaining-requests": "0", "content-type": "application/json"}
        body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
        relayed.provider.add(Answer(body, 429, headers, framing="content-length"))
        with relayed.asked() as response:
            assert (response.status_code, response.read()) == (429, body)
        assert {name: response.headers[name] for name in headers} == headers
        tap = relayed.noted()
        assert isinstance(tap.error, APIStatusError)
        assert (tap.end, tap.error.status_code, tap.error.retry_after) == (StreamEnd.FAILED, 429, 7)
        relayed.check_that_it_goes_on()

    def test_no_provider_is_a_bad_gateway(self) -> None:
        with FakeProvider() as provider, served("asgi_relay", provider) as url:
            provider.stop()
            response = httpx.post(f"{url}/v1/chat/completions", trust_env=False)
        assert (response.status_code, response.headers["content-type"]) == (502, "application/json")
        assert "error" in response.json()

    def test_the_request_passes_unchanged(self, relayed: Relayed) -> None:
        relayed.provider.add(Answer(WHOLE))
        sent = b'{"model" : "m",\n "stream": true, "caf\xc3\xa9": 1}'
        headers = {"authorization": "Bearer sk-1", "content-type": "application/json", "x-title": "An app"}
        with relayed.asked(json=None, content=sent, headers={**headers, "accept-encoding": "gzip"}) as response:
            response.read()
        relayed.noted()
        request = relayed.request
        assert request.body == sent
        assert {name: request.headers[name] for name in headers} == headers
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["host"] == httpx.URL(relayed.provider.base_url).netloc.decode()

    def test_the_query_passes(self, relayed: Relayed) -> None:
        url = relayed.url
        for query in ("api-version=2026-01-01&tag=a%2Fb%26", ""):
            relayed.provider.add(Answer(WHOLE))
            with httpx.stream("POST", f"{url}?{query}", json={}, trust_env=False) as response:
                response.read()
            relayed.noted()
            assert (relayed.request.path, relayed.request.query) == ("/v1/chat/completions", query)

    def test_the_headers_of_one_connection_stay_there(self, relayed: Relayed) -> None:
        gone = {
            "connection": "close, X-Hop,\tx-other",
            "keep-alive": "timeout=5",
            "proxy-connection": "keep-alive",
            "te": "trailers",
            "upgrade": "h2c",
            "x-hop": "1",
            "x-other": "2",
        }
        kept = {"x-kept": "3"}
        asking = {**gone, "proxy-authorization": "Basic c2VjcmV0"}
        answering = {**gone, "proxy-authenticate": "Basic"}
        relayed.provider.add(Answer(WHOLE, headers={"content-type": "text/event-stream", **answering, **kept}))
        with relayed.asked(headers={**asking, **kept}) as response:
            response.read()
        relayed.noted()
        for headers in (relayed.request.headers, response.headers):
            assert headers["x-kept"] == "3"
            assert {name: headers[name] for name in {**asking, **answering} if name in headers} in (
                {},
                {"connection": "keep-alive"},  # of the relay's own connection
                {"connection": "close"},
            )

    def test_a_cookie_of_one_client_is_not_sent_for_another(self, relayed: Relayed) -> None:
        for _ in range(2):
            headers = {"content-type": "text/event-stream", "set-cookie": "session=alice; Path=/"}
            relayed.provider.add(Answer(WHOLE, headers=headers))
            with relayed.asked() as response:
                response.read()
            relayed.noted()
        assert "cookie" not in relayed.request.headers


# For browsers


THOUGHT = delta(reasoning_content="They greet.")
SPOKEN = delta(content='Hi\r\n"<b>é😀')
ANSWERED = [THOUGHT, SPOKEN, THERE, STOP, DONE]


@pytest.fixture(scope="module")
def running_page() -> Iterator[tuple[str, FakeProvider]]:
    with FakeProvider() as provider, served("for_browsers", provider) as url:
        yield url, provider


@pytest.fixture
def page(running_page: tuple[str, FakeProvider]) -> tuple[str, FakeProvider]:
    """The page's URL, and the provider behind it, which was asked nothing yet."""
    running_page[1].requests.clear()
    return running_page


def events_of(url: str, **headers: str) -> list[ServerSentEvent]:
    response = httpx.get(f"{url}/answer", params={"question": "Hi?"}, headers=headers, trust_env=False)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    return EventStreamDecoder().feed(response.content)


class TestForBrowsers:
    def test_chunks_become_events_with_names(self, page: Any) -> None:
        url, provider = page
        provider.add(Answer(ANSWERED))
        events = events_of(url)
        assert [(one.event, json.loads(one.data), one.id) for one in events] == [
            ("reasoning", "They greet.", "1"),
            ("message", 'Hi\r\n"<b>é😀', "2"),
            ("message", "there", "3"),
            ("finished", "stop", "4"),
        ]
        (request,) = provider.requests
        assert request.json["messages"] == [{"role": "user", "content": "Hi?"}]
        assert request.headers["authorization"] == "Bearer sk-secret"

    @pytest.mark.parametrize(
        ("answer", "told", "kind", "retryable"),
        [
            (Answer([HI], ending="cut"), ["message"], "StreamInterruptedError", False),
            (json_answer({"error": {"message": "Incorrect API key: sk-secret"}}, 401), [], "APIStatusError", False),
            (Answer(event({"error": {"message": "sk-secret is busy", "code": 503}})), [], "APIError", True),
            (Answer([delta(content="Hi "), b"data: sk-secret\n\n"]), ["message"], "InvalidChunkError", False),
        ],
        ids=["cut", "refused", "failed", "invalid"],
    )
    def test_a_failure_is_the_last_event_and_tells_the_public_nothing(
        self, page: Any, answer: Answer, told: list[str], kind: str, retryable: bool
    ) -> None:
        url, provider = page
        provider.add(answer)
        events = events_of(url)
        assert [one.event for one in events] == [*told, "failed"]
        assert json.loads(events[-1].data) == {"kind": kind, "retryable": retryable}
        assert all(b"sk-" not in one.data for one in events)

    def test_who_asks_for_the_rest_is_told_that_there_is_none(self, page: Any) -> None:
        url, provider = page
        response = httpx.get(f"{url}/answer", headers={"last-event-id": "0"}, trust_env=False)
        assert (response.status_code, response.content, provider.requests) == (204, b"", [])

    def test_who_asks_again_before_the_first_event_is_told_that_there_is_none(self, page: Any) -> None:
        url, provider = page
        is_asked = threading.Event()

        def think(_: ReceivedRequest) -> Answer:
            is_asked.set()
            return Answer([math.inf])

        provider.add(think)
        decoder = EventStreamDecoder()
        with httpx.stream("GET", f"{url}/answer", trust_env=False) as response:
            pieces = response.iter_raw()  # to be kept: without it, the response would be closed
            assert decoder.feed(next(pieces)) == []
            assert is_asked.wait(PATIENCE)
        assert decoder.last_event_id
        headers = {"last-event-id": decoder.last_event_id}
        assert httpx.get(f"{url}/answer", headers=headers, trust_env=False).status_code == 204
        assert len(provider.requests) == 1

    def test_a_browser_that_leaves_stops_the_provider(self, page: Any) -> None:
        url, provider = page
        provider.add(Answer([HI, math.inf]))
        with httpx.stream("GET", f"{url}/answer", trust_env=False) as response:
            assert any(b"Hi" in data for data in response.iter_raw())
        assert has_left(provider.requests[0])


CLOSED = 2  # EventSource.CLOSED: it will not connect again


@pytest.mark.browser
class TestInABrowser:
    def test_the_answer_reaches_the_page(self, browser: Any, page: Any) -> None:
        url, provider = page
        provider.add(Answer([THOUGHT, 0.1, SPOKEN, 0.1, THERE, STOP, DONE]))
        tab = browser.new_page()
        tab.goto(url)
        tab.get_by_text("finished").wait_for()
        assert tab.text_content("#reasoning") == "They greet."
        assert tab.text_content("#text") == 'Hi\r\n"<b>é😀there'
        assert tab.text_content("#end") == 'finished "stop"'
        assert tab.evaluate("source.readyState") == CLOSED
        assert len(provider.requests) == 1
        tab.close()

    def test_it_is_shown_while_it_comes_and_stops_with_the_tab(self, browser: Any, page: Any) -> None:
        url, provider = page
        provider.add(Answer([HI, math.inf]))
        tab = browser.new_page()
        tab.goto(url)
        tab.get_by_text("Hi").wait_for()
        assert not provider.requests[0].answered.is_set()
        tab.close()
        assert has_left(provider.requests[0])

    def test_a_failure_reaches_the_page_with_what_came_before_it(self, browser: Any, page: Any) -> None:
        url, provider = page
        provider.add(Answer([HI, 0.1], ending="cut"))
        tab = browser.new_page()
        tab.goto(url)
        tab.get_by_text("failed").wait_for()
        assert tab.text_content("#text") == "Hi "
        assert json.loads((tab.text_content("#end") or "").removeprefix("failed ")) == {
            "kind": "StreamInterruptedError",
            "retryable": False,
        }
        assert tab.evaluate("source.readyState") == CLOSED
        tab.close()

    def test_a_page_that_forgets_to_close_asks_once_more_and_never_again(self, browser: Any, page: Any) -> None:
        url, provider = page
        provider.add(Answer(ANSWERED))
        tab = browser.new_page()
        tab.goto(f"{url}/nothing")  # an empty page of the same origin
        statuses: list[int] = []
        tab.on("response", lambda response: statuses.append(response.status))
        tab.evaluate("() => { window.forgetful = new EventSource('/answer?question=Hi') }")
        tab.wait_for_function(f"forgetful.readyState === {CLOSED}", timeout=PATIENCE * 1000)
        assert statuses == [200, 204]
        assert len(provider.requests) == 1
        tab.close()


# Other clients


class SeenError(Exception):
    """The first piece of text was there."""


class TestOtherClients:
    @pytest.fixture
    def clients(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        module = load("other_clients")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(module, "SILENCE", PATIENCE)
        return module

    @pytest.fixture(params=["requests", "urllib3", "aiohttp"])
    def ask(self, request: pytest.FixtureRequest, clients: Any) -> Callable[[str], Any]:
        function = getattr(clients, f"with_{request.param}")
        if request.param != "aiohttp":
            return function
        return lambda url: asyncio.run(asyncio.wait_for(function(url), 2 * PATIENCE))

    @pytest.mark.parametrize("encoding", ["identity", "gzip"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_a_stream_is_read_to_its_end(self, ask: Any, capsys: Any, framing: Any, encoding: Any) -> None:
        with FakeProvider(Answer(WHOLE, framing=framing, encoding=encoding)) as provider:
            completion = ask(provider.url)
        assert (completion.text, completion.finish_reason, completion.usage.total_tokens) == ("Hi there", "stop", 1500)
        assert capsys.readouterr().out == "Hi there"
        (request,) = provider.requests
        assert request.json["stream"]
        assert request.headers["accept-encoding"] == "identity"

    @pytest.mark.parametrize("encoding", ["identity", "gzip"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_text_is_there_when_it_comes_and_leaving_stops_the_provider(
        self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch, framing: Any, encoding: Any
    ) -> None:
        def leave(text: str, **_: Any) -> None:
            raise SeenError(text)

        monkeypatch.setattr(clients, "print", leave, raising=False)
        answer = Answer([HI, math.inf, *WHOLE[1:]], framing=framing, encoding=encoding)
        with FakeProvider(answer) as provider:
            with pytest.raises(SeenError, match="Hi "):
                ask(provider.url)
            assert has_left(provider.requests[0])

    @pytest.mark.parametrize("ending", ["cut", "reset"])
    @pytest.mark.parametrize("framing", ["chunked", "content-length", "close"])
    def test_what_breaks_off_is_an_error_with_what_came(self, ask: Any, capsys: Any, framing: Any, ending: Any) -> None:
        answer = Answer([HI, 0.1], framing=framing, ending=ending)
        with FakeProvider(answer) as provider, pytest.raises(IncompleteStreamError) as caught:
            ask(provider.url)
        assert caught.value.snapshot is not None
        assert caught.value.snapshot.text == capsys.readouterr().out == "Hi "
        assert caught.value.end in (StreamEnd.INTERRUPTED, StreamEnd.TRUNCATED)

    def test_a_refusal_is_an_error_with_its_status(self, ask: Any) -> None:
        refusal = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "7"})
        with FakeProvider(refusal) as provider, pytest.raises(APIStatusError) as caught:
            ask(provider.url)
        assert (caught.value.status_code, caught.value.retry_after) == (429, 7)

    def test_a_silence_is_an_interruption(self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clients, "SILENCE", 0.3)
        with FakeProvider(Answer([HI, math.inf])) as provider:
            with pytest.raises(StreamInterruptedError):
                ask(provider.url)
            assert has_left(provider.requests[0])

    def test_a_chunk_of_an_invalid_size_is_an_interruption(
        self, ask: Any, clients: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clients, "TOTAL", 3)  # only this makes aiohttp stop waiting, long after the text
        with FakeProvider(Answer([HI, 0.2, Raw(b"zz\r\n")], ending="open")) as provider:
            with pytest.raises(StreamInterruptedError) as caught:
                ask(provider.url)
            assert caught.value.snapshot is not None
            assert caught.value.snapshot.text == "Hi "


# The openai SDK


CALLED = [
    delta(tool_calls=[fragment(0, "call_a", "weather", '{"city":')]),
    delta(tool_calls=[fragment(0, arguments='"Oslo"}')]),
    delta("tool_calls"),
    USAGE,
    DONE,
]
WEATHER = {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
REASONED = ("reasoning", "reasoning_content")
ODD = [event({"choices": [{"index": 0, "delta": {"content": "Hi", "mood": "good"}, "finish_reason": "eos"}]}), DONE]


@pytest.fixture(params=["sync", "async"])
def ask_openai(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    module = load("openai_sdk")
    openai = pytest.importorskip("openai", minversion="3", reason="needs openai>=3, group `dev`")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def ask_async(options: Any) -> Any:
        async with openai.AsyncOpenAI(**options) as client:
            return await module.ask_async(client)

    def ask(provider: FakeProvider, **more: Any) -> Any:
        options = {"base_url": provider.base_url, "api_key": "sk-test", **more}
        if request.param == "async":
            return asyncio.run(ask_async(options))
        with openai.OpenAI(**options) as client:
            return module.ask(client)

    return ask


class TestOpenaiSdk:
    @pytest.mark.parametrize("body", [[ROLE, *WHOLE], [ROLE, *CALLED]], ids=["text", "call"])
    def test_the_completion_is_theirs_and_says_what_they_would_say(self, ask_openai: Any, body: list[bytes]) -> None:
        chat: Any = importlib.import_module("openai.types.chat")
        with FakeProvider(Answer(body)) as provider:
            ours = ask_openai(provider)
        assert type(ours) is chat.ChatCompletion
        assert type(ours.choices[0].message) is chat.ChatCompletionMessage
        theirs = their_reading(body)
        assert (ours.id, ours.model, ours.usage.total_tokens) == (theirs.id, theirs.model, 1500)
        assert spoken(ours) == spoken(theirs)
        assert all(type(call) is chat.ChatCompletionMessageFunctionToolCall for call in calls_of(ours))

    @pytest.mark.parametrize(
        ("body", "sent_back"),
        [
            ([ROLE, *WHOLE], {"role": "assistant", "content": "Hi there"}),
            (
                [ROLE, THOUGHT, *WHOLE[1:]],
                {"role": "assistant", "content": "there", **dict.fromkeys(REASONED, "They greet.")},
            ),
            ([delta(refusal="No."), STOP, DONE], {"role": "assistant", "content": None, "refusal": "No."}),
            ([*CALLED], {"role": "assistant", "content": None, "tool_calls": [WEATHER]}),
        ],
        ids=["text", "reasoning", "refusal", "call"],
    )
    def test_the_message_can_be_sent_back(self, ask_openai: Any, body: list[bytes], sent_back: Any) -> None:
        openai: Any = importlib.import_module("openai")
        with FakeProvider(Answer(body), json_answer({"choices": []})) as provider:
            message = ask_openai(provider).choices[0].message
            with openai.OpenAI(base_url=provider.base_url, api_key="x") as client:
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi?"}, message])
        assert provider.requests[1].json["messages"][1] == sent_back

    def test_what_their_types_do_not_know_is_kept(self, ask_openai: Any) -> None:
        with FakeProvider(Answer(ODD)) as provider:
            ours = ask_openai(provider)
        assert (ours.id, ours.choices[0].finish_reason, ours.choices[0].message.mood) == (None, "eos", "good")

    @pytest.mark.slow  # it waits for half a second and more
    def test_their_client_retries_before_the_stream(self, ask_openai: Any, capsys: Any) -> None:
        with FakeProvider(BUSY, Answer(WHOLE)) as provider:
            ask_openai(provider)
        assert len(provider.requests) == 2
        assert provider.requests[1].headers["authorization"] == "Bearer sk-test"
        assert capsys.readouterr().out == "Hi there"

    def test_their_errors_come_before_the_stream_and_ours_inside_it(self, ask_openai: Any) -> None:
        openai: Any = importlib.import_module("openai")
        refusal = json_answer({"error": {"message": "Wrong key."}}, 401)
        with FakeProvider(refusal, Answer([HI], ending="cut")) as provider:
            with pytest.raises(openai.AuthenticationError):
                ask_openai(provider, max_retries=0)
            with pytest.raises(StreamInterruptedError):
                ask_openai(provider, max_retries=0)

    def test_chunks_are_theirs_too(self) -> None:
        module = load("openai_sdk")
        chat: Any = importlib.import_module("openai.types.chat")
        for body in (WHOLE, CALLED, ODD):
            ours = list(ChatCompletionStream(body))
            theirs = [module.chunk_of(chunk) for chunk in ours]
            assert all(type(chunk) is chat.ChatCompletionChunk for chunk in theirs)
            dumps = [chunk.to_dict() for chunk in theirs]
            assert dumps == [chunk.model_dump(exclude_none=True) for chunk in ours]

    def test_chunks_without_choices_or_deltas_are_read_like_any_other(self, ask_openai: Any, capsys: Any) -> None:
        told = b'data: {"id": "1", "usage": {"total_tokens": 2}}\n\n'
        with FakeProvider(Answer([HI, b'data: {"choices": [{"finish_reason": "stop"}]}\n\n', told, DONE])) as provider:
            assert ask_openai(provider).usage.total_tokens == 2
        assert capsys.readouterr().out == "Hi "


def their_reading(body: list[bytes]) -> Any:
    """What the SDK's own reading gives."""
    state_class = importlib.import_module("openai.lib.streaming.chat").ChatCompletionStreamState
    openai: Any = importlib.import_module("openai")
    state = state_class()
    with FakeProvider(Answer(body)) as provider, openai.OpenAI(base_url=provider.base_url, api_key="x") as client:
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            state.handle_chunk(chunk)
    return state.current_completion_snapshot


def spoken(completion: Any) -> Any:
    (one,) = completion.choices
    calls = [(call.id, call.function.name, call.function.arguments) for call in calls_of(completion)]
    return one.finish_reason, one.message.role, one.message.content, one.message.refusal, calls


def calls_of(completion: Any) -> Any:
    return completion.choices[0].message.tool_calls or []


# LangChain


OFFERED = {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {}}}
CUT_CALL = [*CALLED[:1], delta("length"), DONE]


@pytest.mark.peers
class TestLangchainModel:
    @pytest.fixture
    def asked(self) -> Callable[..., Any]:
        module = load("langchain_model")

        @asynccontextmanager
        async def asked(*answers: Any) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                provider = stack.enter_context(FakeProvider(*answers))
                options: Any = {"base_url": provider.base_url, "trust_env": False}
                client = stack.enter_context(httpx.Client(**options))
                async_client = await stack.enter_async_context(httpx.AsyncClient(**options))
                yield provider, module.ChatChunkfold(model="m", client=client, async_client=async_client)

        return asked

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_it_streams(self, asked: Any) -> None:
        async with asked(*[Answer([HI, 0.02, *WHOLE[1:]])] * 2) as (provider, model):
            sync = list(model.stream("Hi?"))
            by_loop = [piece async for piece in model.astream("Hi?")]
        for pieces in (sync, by_loop):
            assert [piece.text for piece in pieces if piece.text] == ["Hi ", "there"]
            whole = sum(pieces[1:], start=pieces[0])
            assert whole.text == "Hi there"
            assert whole.usage_metadata == {"input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500}
            assert whole.response_metadata["finish_reason"] == "stop"
        assert provider.requests[0].json["messages"] == [{"role": "user", "content": "Hi?"}]
        assert provider.requests[0].json["stream_options"] == {"include_usage": True}

    async def test_it_answers_at_once(self, asked: Any) -> None:
        async with asked(*[Answer([THOUGHT, *WHOLE])] * 2) as (_, model):
            for message in (model.invoke([("system", "Be brief."), ("user", "Hi?")]), await model.ainvoke("Hi?")):
                assert message.text == "Hi there"
                assert message.additional_kwargs["reasoning_content"] == "They greet."
                assert message.usage_metadata["total_tokens"] == 1500

    async def test_usage_that_comes_with_every_chunk_is_not_added_up(self, asked: Any) -> None:
        body = [HI, chunk(usage=usage(5, 1)), THERE, chunk(usage=usage(5, 2))]
        async with asked(Answer([*body, STOP, DONE])) as (_, model):
            pieces = list(model.stream("Hi?"))
        assert sum(pieces[1:], start=pieces[0]).usage_metadata["output_tokens"] == 2

    async def test_a_total_that_is_missing_is_added_up(self, asked: Any) -> None:
        told = chunk(usage={"prompt_tokens": 5, "completion_tokens": 2})
        async with asked(Answer([HI, STOP, told, DONE]), Answer([HI, STOP, DONE])) as (_, model):
            assert model.invoke("Hi?").usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
            assert model.invoke("Hi?").usage_metadata is None

    async def test_a_refusal_is_told_and_what_is_not_there_is_not(self, asked: Any) -> None:
        refused = [delta(refusal="I can"), delta(refusal="not."), STOP, DONE]
        async with asked(Answer(refused), Answer(refused), Answer(WHOLE)) as (_, model):
            pieces = list(model.stream("Hi?"))
            for message in (sum(pieces[1:], start=pieces[0]), model.invoke("Hi?")):
                assert message.additional_kwargs == {"refusal": "I cannot."}
            assert model.invoke("Hi?").additional_kwargs == {}

    async def test_it_calls_tools(self, asked: Any) -> None:
        tools: Any = importlib.import_module("langchain_core.messages")
        async with asked(*[Answer(CALLED)] * 2, Answer(WHOLE)) as (provider, model):
            offering = model.bind_tools([OFFERED], stop=["END"])
            pieces = list(offering.stream("How is the weather?"))
            message = offering.invoke("How is the weather?")
            for told in (sum(pieces[1:], start=pieces[0]), message):
                (call,) = told.tool_calls
                assert (call["name"], call["args"], call["id"]) == ("weather", {"city": "Oslo"}, "call_a")
            result = tools.ToolMessage("Snow.", tool_call_id="call_a")
            assert model.invoke([("user", "How?"), message, result]).text == "Hi there"
        asked_first, _, asked_last = (request.json for request in provider.requests)
        assert asked_first["tools"] == [{"type": "function", "function": OFFERED}]
        assert asked_first["stop"] == ["END"]
        assert [one["role"] for one in asked_last["messages"]] == ["user", "assistant", "tool"]
        assert asked_last["messages"][1]["tool_calls"][0]["function"]["name"] == "weather"

    async def test_a_signature_goes_back_with_its_call(self, asked: Any) -> None:
        tools: Any = importlib.import_module("langchain_core.messages")
        signed = {**fragment(0, "call_a", "weather", "{}"), "extra_content": {"google": {"thought_signature": "c2ln"}}}
        async with asked(*[Answer([delta(tool_calls=[signed]), delta("tool_calls"), DONE]), Answer(WHOLE)] * 2) as one:
            provider, model = one
            pieces = list(model.stream("How?"))
            for message in (sum(pieces[1:], start=pieces[0]), None):
                told = message or model.invoke("How?")
                model.invoke([("user", "How?"), told, tools.ToolMessage("Snow.", tool_call_id="call_a")])
        for request in provider.requests[1::2]:
            (call,) = request.json["messages"][1]["tool_calls"]
            assert call["extra_content"] == signed["extra_content"]

    async def test_a_call_that_the_server_ran_is_not_one_to_run(self, asked: Any) -> None:
        searched = delta(tool_calls=[fragment(0, "srvtoolu_1", "web_search", "{}")])
        async with asked(Answer([searched, *WHOLE])) as (_, model):
            message = model.invoke("Hi?")
        assert (message.text, message.tool_calls, message.invalid_tool_calls) == ("Hi there", [], [])

    async def test_half_a_call_is_no_call(self, asked: Any) -> None:
        async with asked(Answer(CUT_CALL)) as (_, model):
            message = model.invoke("How is the weather?")
        assert message.tool_calls == []
        assert [(call["name"], call["args"]) for call in message.invalid_tool_calls] == [("weather", '{"city":')]

    async def test_errors_are_chunkfolds(self, asked: Any) -> None:
        async with asked(BUSY, Answer([HI], ending="cut")) as (_, model):
            with pytest.raises(APIStatusError):
                model.invoke("Hi?")
            with pytest.raises(StreamInterruptedError):
                list(model.stream("Hi?"))


# In the terminal


class TestRichUi:
    def shown(self, source: Any, **options: Any) -> str:
        module = load("rich_ui")
        console: Any = importlib.import_module("rich.console")
        screen = options.pop("file", StringIO())
        module.show(ChatCompletionStream(source), console.Console(file=screen, width=60, **options))
        return str(screen.getvalue())

    def test_the_answer_is_printed_once_and_then_the_facts(self) -> None:
        pieces = ["# Tea\n", "\nBlack or", " green?\n\n", "```py\nx = 1\n\n", "# no heading\n```\n\n", "- one\n- two"]
        lines = self.shown([THOUGHT, *(delta(content=piece) for piece in pieces), STOP, USAGE, DONE]).splitlines()
        told = [
            bare for line in lines if (bare := line.strip(" ┏━┓┃┗┛"))
        ]  # some versions of rich put a heading in a box
        assert told[:6] == ["Tea", "Black or green?", "x = 1", "# no heading", "• one", "• two"]
        assert re.fullmatch(r"finished, first output after \d+\.\d s(, .* tokens/s)?", told[6])
        assert len(told) == 7

    def test_the_reasoning_is_seen_while_it_lasts(self) -> None:
        screen = StringIO()

        def body() -> Iterator[bytes]:
            yield THOUGHT
            for _ in range(int(PATIENCE * 100)):
                if "They greet." in screen.getvalue():
                    break
                threading.Event().wait(0.01)
            yield from (HI, STOP, DONE)

        written = self.shown(body(), file=screen, force_terminal=True)
        assert "They greet." in written
        assert "Hi" in written.partition("They greet.")[2]

    def test_a_failure_is_told_below_what_came(self) -> None:
        failure = event({"error": {"message": "Over\x1b[2Jloaded.", "code": 503}})
        told = self.shown([delta(content="Once upon"), failure])
        assert re.search(r"Once upon.*APIError.*loaded\..*failed, first output", told, re.DOTALL)
        assert "\x1b" not in told

    def test_a_call_is_told_and_nothing_steers_the_terminal(self) -> None:
        call = fragment(0, "call_a", "save\x1b]0;x\x07", '{"to": "\x1b[31m"}')
        told = self.shown([delta(content="\x1b[2J\x9bHi\x08\r"), delta(tool_calls=[call]), delta("tool_calls"), DONE])
        assert "save" in told
        assert '{"to": "' in told
        assert "Hi" in told
        assert not set(told) & {*map(chr, range(9)), "\x1b", "\r", "\x9b"}


# As scripts


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent otherwise")
def test_for_browsers_serves_until_it_is_stopped() -> None:
    options: Any = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command("for_browsers"), **options) as process:
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            url = process.stdout.readline().strip()
            assert "new EventSource" in httpx.get(url, trust_env=False).text
            assert events_of(url)[-1].event == "finished"
            process.send_signal(signal.SIGINT)
            assert process.communicate()[1] == ""
        finally:
            timer.cancel()
            process.kill()
    assert process.returncode == 0
