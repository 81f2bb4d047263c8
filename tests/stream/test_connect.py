"""`connect` and `aconnect`: what they send, what they pass on, and what becomes of the connection.

The provider is a real server on loopback, so what is shown of connections is shown by the server, too.
"""

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import (
    ALONE,
    ASKED,
    PATIENCE,
    by_turns,
    client_of,
    connections_in_use,
    each_library,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_fronts,
    rescue,
)

from chunkfold import (
    ChatCompletionParser,
    ChatCompletionStream,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    ThinkTags,
    aconnect,
    connect,
)
from chunkfold.stream import reuse
from chunkfold.stream.connection import split_options
from chunkfold.stream.network import read_to_end
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    ReceivedRequest,
    delta,
    event,
    mock_transport,
    stalled,
)
from chunkfold.testing.answers import Raw

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts
library = each_library

TEXT = delta(content="Hello")
STOP = delta("stop")
WHOLE = [TEXT, STOP, DONE]


def sync_client(library: Any, **options: Any) -> Any:
    return library.Client(**{**ALONE, **options})


# What is sent


async def sent(
    front: Any, library: Any, client_options: dict[str, Any] | None = None, **options: Any
) -> ReceivedRequest:
    """The request that `connect` sends with these options."""
    with FakeProvider() as provider:
        async with (
            client_of(front, library, **(client_options or {})) as client,
            client.connect(provider.url, **options) as stream,
        ):
            await stream.read()
    (request,) = provider.requests
    return request


async def test_the_request(front: Any, library: Any) -> None:
    request = await sent(front, library)
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.json == {**ASKED, "stream": True}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == "text/event-stream"
    # A compressed body can expand before any limit is checked.
    assert request.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("said", [{}, {"stream": False}, {"stream": None}, {"stream": 0}], ids=str)
async def test_the_answer_is_streamed_whatever_the_callers_json_says_and_that_is_not_changed(
    front: Any, library: Any, said: dict[str, Any]
) -> None:
    messages = [{"role": "user", "content": "é"}]
    given = {**said, "model": "m", "messages": messages, "stream_options": {"include_usage": True}}
    before = json.dumps(given)
    request = await sent(front, library, json=given)
    assert json.dumps(given) == before
    assert request.json == {**given, "stream": True}


MINE: list[tuple[str, str]] = [("Authorization", "Bearer x"), ("X-Twice", "1"), ("X-Twice", "2")]


def in_kind(kind: str, pairs: list[tuple[str, str]], library: Any) -> Any:
    """The headers as clients take them."""
    joined = {name: ", ".join(value for other, value in pairs if other == name) for name, _ in pairs}
    in_bytes = [(name.encode(), value.encode()) for name, value in pairs]
    kinds = {"dict": joined, "list": list(pairs), "tuple": tuple(pairs), "bytes": in_bytes}
    return library.Headers(pairs) if kind == "Headers" else kinds[kind]


@by_turns("kind", ["dict", "list", "tuple", "Headers", "bytes"])
async def test_the_callers_headers(front: Any, library: Any, kind: str) -> None:
    given = in_kind(kind, MINE, library)
    before = repr(given)
    request = await sent(front, library, headers=given)
    assert repr(given) == before
    assert request.headers["authorization"] == "Bearer x"
    assert request.headers["x-twice"] == "1, 2"
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["accept-encoding"] == "identity"


@by_turns("kind", ["dict", "list", "Headers", "bytes"])
async def test_a_header_of_the_callers_own_is_kept_however_it_is_spelled(front: Any, library: Any, kind: str) -> None:
    for name in ("Accept-Encoding", "accept-encoding", "ACCEPT-ENCODING"):
        pairs = [(name, "gzip"), ("accept", "application/json")]
        request = await sent(front, library, headers=in_kind(kind, pairs, library))
        assert request.headers["accept-encoding"] == "gzip"
        assert request.headers["accept"] == "application/json"


async def test_the_clients_own_settings_and_request_options(front: Any, library: Any) -> None:
    own = {"headers": {"Authorization": "Bearer y"}, "params": {"api-version": "1"}}
    asked: dict[str, Any] = {"params": {"a": "1"}, "cookies": {"b": "2"}, "auth": ("user", "secret"), "headers": None}
    requests = [await sent(front, library, own), await sent(front, library, **asked)]
    assert [request.query for request in requests] == ["api-version=1", "a=1"]
    assert [request.headers["authorization"][:7] for request in requests] == ["Bearer ", "Basic d"]
    assert {request.headers["accept"] for request in requests} == {"text/event-stream"}
    assert requests[1].headers["cookie"] == "b=2"


async def test_a_timeout_for_this_request(front: Any, library: Any) -> None:
    with FakeProvider(Answer([TEXT, math.inf])) as provider:
        async with client_of(front, library) as client:
            with pytest.raises(StreamInterruptedError) as caught:
                async with client.connect(provider.url, timeout=library.Timeout(PATIENCE, read=0.15)) as stream:
                    await stream.read()
    assert type(caught.value.__cause__) is library.ReadTimeout
    assert (stream.end, stream.snapshot.text) == (StreamEnd.INTERRUPTED, "Hello")


async def test_a_base_url_and_another_method(front: Any, library: Any) -> None:
    with FakeProvider(Answer(WHOLE)) as provider:
        async with (
            client_of(front, library, base_url=provider.base_url) as client,
            client.connect("/chat/completions", "PUT") as stream,
        ):
            assert (await stream.read()).text == "Hello"
    (request,) = provider.requests
    assert (request.method, request.path) == ("PUT", "/v1/chat/completions")


async def test_nothing_is_sent_before_the_context_is_entered(library: Any) -> None:
    with FakeProvider() as provider, library.Client(**ALONE) as client:
        connect(client, "POST", provider.url, json=ASKED)
        async with library.AsyncClient(**ALONE) as async_:
            aconnect(async_, "POST", provider.url, json=ASKED)
        assert provider.connections == 0


# A context that is entered again


async def test_an_async_request_is_sent_once(library: Any) -> None:
    client = library.AsyncClient(transport=mock_transport(WHOLE, library=library))
    opening = aconnect(client, "POST", "https://provider.test/", json=ASKED)
    async with opening as stream:
        with pytest.raises(StreamConsumedError, match="this request was already sent"):
            await opening.__aenter__()
    assert stream.response.is_closed
    with pytest.raises(StreamConsumedError, match="this request was already sent"):
        await opening.__aenter__()


def test_a_sync_request_is_sent_once(library: Any) -> None:
    """Was once wrong: entering the context again raised an `AttributeError` of the standard library."""
    client = library.Client(transport=mock_transport(WHOLE, library=library))
    opening = connect(client, "POST", "https://provider.test/", json=ASKED)
    with opening as stream:
        with pytest.raises(StreamConsumedError, match="this request was already sent"):
            opening.__enter__()
        assert stream.read().text
    with pytest.raises(StreamConsumedError, match="this request was already sent"), opening:
        pass


# The parser's options


async def test_the_parsers_options(front: Any, library: Any) -> None:
    seen: list[bytes] = []
    times = itertools.count()
    options: dict[str, Any] = {
        "on_server_sent_event": lambda event, chunks: seen.append(event.data),
        "clock": lambda: float(next(times)),
        "progress_timeout": 1000,
        "total_timeout": 1000,
        "max_event_size": 1000,
        "max_output_size": 1000,
        "strict": True,
    }
    with FakeProvider(Answer(WHOLE)) as provider:
        async with client_of(front, library) as client, client.connect(provider.url, **options) as stream:
            await stream.read()
    first, *_, last = seen
    assert event(first) == TEXT
    assert last == b"[DONE]"
    assert (stream.timing.headers, stream.timing.first_byte) == (1, 2)
    # None of them went to the provider.
    assert provider.requests[0].json == {**ASKED, "stream": True}


@pytest.mark.parametrize("option", [{"retries": 3}, {"status_code": 500}])
async def test_an_unknown_option_is_a_type_error(front: Any, library: Any, option: dict[str, Any]) -> None:
    async def ask() -> None:
        async with client_of(front, library) as client, client.connect("http://127.0.0.1:9/", **option):
            pytest.fail("connected")

    with pytest.raises(TypeError, match=next(iter(option))):
        await ask()


# Each is refused where it is first known: by the parser or the stream, and by `connect` before it sends anything.
WRONG_OPTIONS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "tools that are no mapping": ({"tools": [int]}, TypeError),
    "tools of no type": ({"tools": {"f": 5}}, TypeError),
    "a transform without a list": ({"transforms": ThinkTags()}, TypeError),
    "the class of a transform": ({"transforms": [ThinkTags]}, TypeError),
    "transforms that are none": ({"transforms": ["think"]}, TypeError),
    "transforms in a generator": ({"transforms": iter([ThinkTags()])}, TypeError),
    "no transforms": ({"transforms": None}, TypeError),
    "a size in words": ({"max_event_size": "1"}, TypeError),
    "half a size": ({"max_output_size": 0.5}, TypeError),
    "a size that is true": ({"max_output_size": True}, TypeError),
    "a negative size": ({"max_event_size": -1}, ValueError),
    "half an item": ({"max_event_items": 1.5}, TypeError),
    "a timeout in words": ({"total_timeout": "60"}, TypeError),
    "a timeout that is true": ({"progress_timeout": True}, TypeError),
    "a negative timeout": ({"total_timeout": -1}, ValueError),
    "a timeout that is no number": ({"progress_timeout": math.nan}, ValueError),
    "a timeout that is no float": ({"total_timeout": 10**400}, ValueError),
    "a clock that does not run": ({"clock": 5.0}, TypeError),
    "no clock": ({"clock": None}, TypeError),
    "an observer that cannot be called": ({"on_server_sent_event": []}, TypeError),
    "one choice in words": ({"one_choice": "no"}, TypeError),
    "a connection to reuse in words": ({"reuse_connection": "no"}, TypeError),
}


@each_case(
    ("option", "value", "error", "message"),
    [
        *(("headers", value, TypeError, "^headers: expected a mapping, received") for value in (5, 0, [], [("a", "b")])),
        *(("status_code", value, TypeError, "^status_code: expected an int or None, received") for value in ("200", 200.0, True)),
        ("started", "now", TypeError, "started"),
        ("started", True, TypeError, "started"),
        ("started", math.inf, ValueError, "started"),
        ("started", 10**400, ValueError, "^started: expected .* received one that is too large"),
    ],
)  # fmt: skip
def test_a_wrong_status_header_or_start(option: str, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ChatCompletionParser(**{option: value})  # type: ignore[arg-type]


OPEN = [partial(open_, None, "POST", "https://provider.test/", json=ASKED) for open_ in (connect, aconnect)]


@each_case(("options", "error"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_is_refused_before_a_request_is_sent(options: dict[str, Any], error: type[Exception]) -> None:
    makers = [partial(ChatCompletionStream, [])] if "reuse_connection" in options else [ChatCompletionParser]
    expected = ": expected a bool, received 'no'" if "no" in options.values() else ""
    for make in (*makers, *OPEN):
        with pytest.raises(error, match=next(iter(options)) + expected):
            make(**options)


@each_case(
    ("wrong", "message"),
    [
        *(({"json": json}, "^json: expected") for json in (None, [ASKED])),
        *(
            ({"client": client}, "^client: expected a client of httpx or httpx2, received")
            for client in (None, SimpleNamespace(stream=False))  # the latter is a session of requests
        ),
        # Was once sent instead of `json`, without `stream`.
        *(
            ({name: b"{}"}, rf"^{name}: expected no other body than `json`, received b'{{}}'")
            for name in ("content", "data", "files")
        ),
        *(
            ({"headers": headers}, "^headers: expected a mapping of strings, or pairs of them, received")
            for headers in (5, "accept", [1], [("accept", "a", "b")])
        ),
        ({"headers": {1: "a"}}, "^headers: expected a string as a name, received 1$"),
        ({"headers": {"a": "b", "x-key": None}}, r"^headers\['x-key'\]: expected a string, received NoneType$"),
    ],
)
def test_what_is_no_request_is_refused_before_it_is_sent(wrong: dict[str, Any], message: str) -> None:
    client, options = wrong.get("client", httpx.Client()), {"json": ASKED, **wrong}
    options.pop("client", None)
    for open_stream in (connect, aconnect):
        with pytest.raises(TypeError, match=message):
            open_stream(client, "POST", "https://provider.test/", **options)


async def test_a_client_of_the_other_kind_is_refused_before_the_request_is_sent() -> None:
    with pytest.raises(TypeError, match=r"^client: expected an async client for `aconnect`, received Client"):
        async with aconnect(httpx.Client(), "POST", "https://provider.test/", json=ASKED):
            pass
    opening = connect(httpx.AsyncClient(), "POST", "https://provider.test/", json=ASKED)
    with (
        pytest.raises(TypeError, match=r"^client: expected a sync client for `connect`, received AsyncClient"),
        opening,
    ):
        pass


@pytest.mark.parametrize(
    ("json", "options", "expected"),
    [
        ({}, {}, True),
        ({"n": 1}, {}, True),
        ({"n": None}, {}, True),
        ({"n": 2}, {}, False),
        ({}, {"one_choice": False}, False),
        ({"n": 2}, {"one_choice": True}, True),
    ],
)
def test_a_request_for_one_choice_says_so_to_the_parser(json: Any, options: dict[str, Any], expected: bool) -> None:
    parser_options, request = split_options({**ASKED, **json}, options)
    assert parser_options["one_choice"] is expected
    assert "one_choice" not in request


# What goes wrong


async def test_a_timeout_before_the_headers_passes_unchanged(front: Any, library: Any) -> None:
    leave = threading.Event()

    def answer(_: ReceivedRequest) -> bytes:
        assert leave.wait(PATIENCE)
        return b""

    async def ask(client: Any, url: str) -> None:
        async with client.connect(url, timeout=library.Timeout(PATIENCE, read=0.05)):
            pytest.fail("connected")

    with FakeProvider(answer) as provider:
        async with client_of(front, library) as client:
            with pytest.raises(library.ReadTimeout):
                await ask(client, provider.url)
            assert connections_in_use(client.client) == []
        leave.set()


async def test_a_bad_url_passes_unchanged(front: Any, library: Any) -> None:
    async def ask() -> None:
        async with client_of(front, library) as client, client.connect("nowhere"):
            pytest.fail("connected")

    with pytest.raises(library.UnsupportedProtocol):
        await ask()


# Connections


@pytest.mark.parametrize("body", [WHOLE, [TEXT, DONE], [TEXT, STOP]], ids=["whole", "done", "finished"])
async def test_streams_one_after_the_other_use_one_connection(front: Any, library: Any, body: list[bytes]) -> None:
    with FakeProvider(*[Answer(body)] * 3) as provider:
        async with client_of(front, library) as client:
            for _ in range(3):
                async with client.connect(provider.url) as stream:
                    assert (await stream.read()).text == "Hello"
                assert connections_in_use(client.client) == []
        assert len(provider.requests) == 3
        assert provider.connections == 1


async def test_leaving_at_the_finish_reason_keeps_the_connection(front: Any, library: Any) -> None:
    with FakeProvider(*[Answer(WHOLE)] * 2) as provider:
        async with client_of(front, library) as client:
            for _ in range(2):
                async with client.connect(provider.url) as stream:
                    async for chunk in stream:
                        if chunk.choices[0].finish_reason:
                            break
                assert stream.completion().text == "Hello"
        assert provider.connections == 1


AFTER_DONE: dict[str, Answer] = {
    "nothing": Answer(WHOLE, ending="open"),
    "keep-alives": Answer(stalled(WHOLE, len(WHOLE), 10.0, keep_alive=b": ping\n\n", every=0.01)),
    "a flood": Answer([*WHOLE, *[b":" * 2**16] * 2**14]),  # a gigabyte, of which a tenth of a second is read at most
}


@pytest.mark.parametrize("what", AFTER_DONE)
async def test_a_body_that_stays_open_after_done_holds_nobody(front: Any, library: Any, what: str) -> None:
    """Not even a client without any timeout."""
    with FakeProvider(AFTER_DONE[what], Answer(WHOLE)) as provider, rescue(provider):
        async with client_of(front, library, timeout=None) as client:
            async with client.connect(provider.url) as stream:
                assert (await stream.read()).text == "Hello"
                # `[DONE]` ended the loop, although the provider holds the body open.
                assert not provider.requests[0].answered.is_set()
            assert connections_in_use(client.client) == []
            assert has_left(provider.requests[0])
            assert stream.end is StreamEnd.FINISHED
            # The client can go on, over another connection.
            async with client.connect(provider.url) as stream:
                assert (await stream.read()).text == "Hello"
        assert provider.connections == 2


@pytest.mark.parametrize("ending", ["cut", "reset"])
async def test_what_happens_to_the_body_after_done_is_nobodys_concern(front: Any, library: Any, ending: Any) -> None:
    with FakeProvider(Answer([*WHOLE, 0.02], ending=ending), Answer(WHOLE)) as provider:
        async with client_of(front, library) as client:
            for _ in range(2):
                async with client.connect(provider.url) as stream:
                    assert (await stream.read()).text == "Hello"
                assert (stream.error, stream.anomalies) == (None, ())
                assert connections_in_use(client.client) == []


async def test_the_timeouts_of_the_next_request_are_its_own(front: Any, library: Any) -> None:
    """The wait after `[DONE]` hurries the connection; whoever uses it next is not hurried."""
    slow = Answer([TEXT, 0.15, STOP, DONE])  # longer than that wait may be
    with FakeProvider(Answer(WHOLE), slow) as provider:
        async with client_of(front, library) as client:
            for _ in range(2):
                async with client.connect(provider.url) as stream:
                    assert (await stream.read()).text == "Hello"
        assert provider.connections == 1


# A server that promises to keep the connection, and closes it some milliseconds after the last chunk. llama.cpp's does.
LAST_CHUNK = Raw(b"0\r\n\r\n")


def closing_soon(seconds: float) -> Answer:
    return Answer([*WHOLE, LAST_CHUNK, seconds], headers={"Keep-Alive": "timeout=5, max=100"}, ending="cut")


async def ask_back_to_back(client: Any, url: str, times: int, **options: Any) -> list[Exception]:
    """One request after another; what the client raised."""
    failures: list[Exception] = []
    for _ in range(times):
        try:
            async with client.connect(url, **options) as stream:
                assert (await stream.read()).text == "Hello"
        except Exception as exc:  # noqa: BLE001 - looked at by the caller
            failures.append(exc)
    return failures


async def test_a_connection_that_is_closed_right_after_done_fails_one_request(front: Any, library: Any) -> None:
    """After the first failure at an origin no connection is kept there; what the client raises passes unchanged."""
    with FakeProvider(*[closing_soon(0.1)] * 6) as provider:
        async with client_of(front, library) as client:
            failures = await ask_back_to_back(client, provider.url, 6)
    (failure,) = failures
    assert type(failure) in (library.RemoteProtocolError, library.ReadError)
    assert len(provider.requests) == 5


async def test_no_connection_is_reused_where_none_is_to_be(front: Any, library: Any) -> None:
    with FakeProvider(*[closing_soon(0.1)] * 3, *[Answer(WHOLE)] * 3) as provider:
        async with client_of(front, library) as client:
            assert await ask_back_to_back(client, provider.url, 6, reuse_connection=False) == []
            assert connections_in_use(client.client) == []
        assert provider.connections == 6


async def test_the_connections_of_other_origins_and_clients_are_kept(front: Any, library: Any) -> None:
    with (
        FakeProvider(*[closing_soon(0.1)] * 2, *[Answer(WHOLE)] * 3) as bad,
        FakeProvider(*[Answer(WHOLE)] * 3) as good,
    ):
        async with client_of(front, library) as client:
            assert len(await ask_back_to_back(client, bad.url, 3)) == 1
            assert await ask_back_to_back(client, good.url, 3) == []
        assert good.connections == 1
        before = bad.connections
        async with client_of(front, library) as other:
            assert await ask_back_to_back(other, bad.url, 3) == []
        assert bad.connections == before + 1


async def test_a_failure_long_after_the_last_stream_is_not_blamed_on_the_wait(
    front: Any, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may close a connection that was idle for long, and a client may see it too late."""
    monkeypatch.setattr(reuse, "_SOON", 0.0)
    with FakeProvider(closing_soon(0.1), *[Answer(WHOLE)] * 3) as provider:
        async with client_of(front, library) as client:
            assert len(await ask_back_to_back(client, provider.url, 4)) == 1
        assert provider.connections == 2


class AnyClient:
    """A client as far as it is remembered."""


def test_what_is_remembered_of_origins_is_bounded() -> None:
    def url(host: int) -> Any:
        return SimpleNamespace(scheme="https", host=f"{host}.test", port=None)

    def failure(host: int) -> Exception:
        exc: Any = type("ReadError", (Exception,), {})()
        exc.request = SimpleNamespace(url=url(host))
        return exc

    client = AnyClient()
    for host in range(1000):
        reuse.note_kept(client, url(host))
        reuse.note_failure(client, failure(host))
    assert [reuse.may_reuse(client, url(host)) for host in (0, 743, 744, 999)] == [True, True, False, False]
    assert len(reuse._clients[client]) == 256
    assert reuse.may_reuse(AnyClient(), url(999))


def test_nothing_is_remembered_of_what_cannot_be_told_apart() -> None:
    """A client that cannot be referred to weakly, a URL that is none, an exception without a request."""
    reuse.note_kept({}, None)
    client = AnyClient()
    reuse.note_kept(client, "https://provider.test/")
    reuse.note_failure(client, httpx.ReadError("no request"))
    reuse.note_failure(client, KeyError())
    reuse.note_failure(client, type("ReadError", (Exception,), {})("of another library, without `request`"))
    assert reuse.may_reuse({}, None)
    assert reuse.may_reuse(client, "https://provider.test/")


class NetworkStream:
    """What a sync client reads from; it keeps the timeouts it was asked to read with."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.timeouts.append(timeout)
        return b""


def read_and_close(library: Any, network_stream: NetworkStream, after_done: Callable[[], object]) -> None:
    """Read a stream over the network stream and close it; `after_done` happens while its end is waited for."""

    def body() -> Iterator[bytes]:
        yield from WHOLE
        after_done()

    def respond(_: Any) -> Any:
        return library.Response(200, content=body(), extensions={"network_stream": network_stream})

    with (
        sync_client(library, transport=library.MockTransport(respond)) as client,
        connect(client, "POST", "https://provider.test/", json=ASKED) as stream,
    ):
        assert stream.read().text == "Hello"


def test_only_the_thread_that_waits_is_hurried(library: Any) -> None:
    """Once the body has ended, the pool may hand the connection to another thread at once."""
    network_stream = NetworkStream()

    def after_done() -> None:
        network_stream.read(1, timeout=5.0)
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(network_stream.read, 1, timeout=6.0).result(PATIENCE)

    read_and_close(library, network_stream, after_done)
    network_stream.read(1, timeout=7.0)
    hurried, *others = network_stream.timeouts
    assert hurried is not None
    assert hurried <= 0.1
    assert others == [6.0, 7.0]
    assert network_stream.read == NetworkStream.read.__get__(network_stream)  # nothing of ours is left on it


def test_two_threads_that_wait_on_one_connection(library: Any) -> None:
    """The second got the connection, and came to its own end, before the first had tidied up."""
    network_stream = NetworkStream()
    second_waits, first_is_through = threading.Event(), threading.Event()

    def second_after_done() -> None:
        second_waits.set()
        assert first_is_through.wait(PATIENCE)
        network_stream.read(1, timeout=5.0)

    with ThreadPoolExecutor(1) as elsewhere:
        second: list[Future[None]] = []

        def first_after_done() -> None:
            second.append(elsewhere.submit(read_and_close, library, network_stream, second_after_done))
            assert second_waits.wait(PATIENCE)

        read_and_close(library, network_stream, first_after_done)
        first_is_through.set()
        second[0].result(PATIENCE)
    network_stream.read(1, timeout=7.0)
    hurried, other = network_stream.timeouts
    assert hurried is not None
    assert hurried <= 0.1
    assert other == 7.0


def test_threads_that_share_a_client(library: Any) -> None:
    def ask(client: Any, url: str) -> None:
        for _ in range(10):
            with connect(client, "POST", url, json=ASKED) as stream:
                assert stream.read().text == "Hello"

    with (
        FakeProvider(*[Answer(WHOLE)] * 40) as provider,
        sync_client(library) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        for asked in [threads.submit(ask, client, provider.url) for _ in range(4)]:
            asked.result(PATIENCE)
        assert connections_in_use(client) == []


def test_a_network_stream_of_another_make_is_not_waited_for() -> None:
    class Own:
        __slots__ = ()

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            raise AssertionError("nobody reads")

    def untouched() -> Iterator[bytes]:
        raise AssertionError("nobody reads")
        yield b""

    read_to_end(SimpleNamespace(extensions={"network_stream": Own()}), untouched())


def test_a_body_that_decodes_to_nothing_is_not_waited_for_either() -> None:
    class Endless:
        reads = 0

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            self.reads += 1
            time.sleep(0.01)
            return b""

    network_stream = Endless()

    def decoded() -> Iterator[bytes]:
        while True:  # as a client does that waits for something to hand out
            network_stream.read(1, 30.0)
        yield b""

    read_to_end(SimpleNamespace(extensions={"network_stream": network_stream}), decoded())
    assert 0 < network_stream.reads <= 11
