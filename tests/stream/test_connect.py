"""`connect` and `aconnect`: what they send, what they pass on, and what they refuse before a request is sent.

The provider is a real server on loopback.
"""

import itertools
import json
import math
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from cases import each_case
from fronts import ALONE, ASKED, PATIENCE, URL, by_turns, client_of, generators_of_httpx_are_not_ours, over_both_fronts

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
from chunkfold.stream.connection import split_options
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, delta, event, mock_transport

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_fronts

TEXT = delta(content="Hello")
WHOLE = [TEXT, delta("stop"), DONE]


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


async def test_a_stream_that_was_not_opened_says_how(library: Any) -> None:
    """Python alone says that a `_Connection` has no `read` and is not iterable."""
    client = library.Client(transport=mock_transport(WHOLE, library=library))
    opening: Any = connect(client, "POST", "https://provider.test/", json=ASKED)
    with pytest.raises(TypeError, match=r"^expected `with connect"):
        list(opening)
    with pytest.raises(AttributeError, match=r"^read: expected `with connect"):
        opening.read()
    with opening as stream:
        assert stream.read().text == "Hello"
    async_client = library.AsyncClient(transport=mock_transport(WHOLE, library=library))
    opening = aconnect(async_client, "POST", "https://provider.test/", json=ASKED)
    with pytest.raises(TypeError, match=r"^expected `async with aconnect"):
        await opening
    with pytest.raises(TypeError, match=r"^expected `async with aconnect"):
        async for _ in opening:
            pass
    with pytest.raises(AttributeError, match=r"^events: expected `async with aconnect"):
        opening.events()
    async with opening as stream:
        assert (await stream.read()).text == "Hello"


SENT = "this request was already sent"


async def test_a_request_is_sent_once(library: Any) -> None:
    """Was once wrong: entering the context again raised an `AttributeError` of the standard library."""
    client = library.Client(transport=mock_transport(WHOLE, library=library))
    opening = connect(client, "POST", URL, json=ASKED)
    with opening as stream:
        with pytest.raises(StreamConsumedError, match=SENT):
            opening.__enter__()
        assert stream.read().text
    with pytest.raises(StreamConsumedError, match=SENT), opening:
        pass
    async_client = library.AsyncClient(transport=mock_transport(WHOLE, library=library))
    async_opening = aconnect(async_client, "POST", URL, json=ASKED)
    async with async_opening as async_stream:
        with pytest.raises(StreamConsumedError, match=SENT):
            await async_opening.__aenter__()
    assert async_stream.response.is_closed
    with pytest.raises(StreamConsumedError, match=SENT):
        await async_opening.__aenter__()


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
        "tools": {"f": dict},
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


async def open_and_fail(front: Any, library: Any, url: str, **options: Any) -> None:
    async with client_of(front, library) as client, client.connect(url, **options):
        pytest.fail("connected")


@pytest.mark.parametrize("option", [{"retries": 3}, {"status_code": 500}])
async def test_an_unknown_option_is_a_type_error(front: Any, library: Any, option: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(option))):
        await open_and_fail(front, library, "http://127.0.0.1:9/", **option)


# Each is refused where it is first known: by the parser or the stream, and by `connect` before it sends anything.
WRONG_OPTIONS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
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
    "an observer that nobody awaits": ({"on_server_sent_event": anyio.sleep}, TypeError),
    "one choice in words": ({"one_choice": "no"}, TypeError),
    "a connection to reuse in words": ({"reuse_connection": "no"}, TypeError),
}


@each_case(
    ("option", "value", "error", "message"),
    [
        *(("headers", value, TypeError, "^headers: expected a mapping, received") for value in (5, 0, [], [("a", "b")])),
        *(("status_code", value, TypeError, "^status_code: expected an int or None, received") for value in ("200", 200.0, True)),
        ("clock", lambda: None, TypeError, "^clock: expected a callable that returns seconds, received None"),
        ("clock", lambda: math.nan, ValueError, "^clock: expected a reading of the clock, received nan"),
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
        *(({"method": method}, "^method: expected a str, received") for method in (None, ["POST"])),
        ({"headers": {1: "a"}}, "^headers: expected a string as a name, received 1$"),
        ({"headers": {"a": "b", "x-key": None}}, r"^headers\['x-key'\]: expected a string, received NoneType$"),
    ],
)
def test_what_is_no_request_is_refused_before_it_is_sent(wrong: dict[str, Any], message: str) -> None:
    request: dict[str, Any] = {"client": httpx.Client(), "method": "POST", "url": URL, "json": ASKED, **wrong}
    for open_stream in (connect, aconnect):
        with pytest.raises(TypeError, match=message):
            open_stream(**request)


@each_case("reading", [None, "now"])
async def test_a_clock_that_says_no_seconds_is_refused_before_the_request_is_sent(
    library: Any, front: Any, reading: Any
) -> None:
    with FakeProvider() as provider:
        with pytest.raises(TypeError, match=r"^clock: expected a callable that returns seconds, received"):
            await open_and_fail(front, library, provider.url, clock=lambda: reading)
        assert provider.requests == []


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


async def test_a_client_may_give_a_response_that_was_made_by_hand(library: Any) -> None:
    """One that does not know its request, nor the URL, as in a user's tests."""

    async def body() -> AsyncIterator[bytes]:
        for data in WHOLE:
            yield data

    bare = SimpleNamespace(status_code=200, headers={}, iter_bytes=lambda: iter(WHOLE), close=lambda: None)
    for given in (library.Response(200, content=iter(WHOLE)), bare):
        client = SimpleNamespace(stream=lambda *_, given=given, **__: closing(given))
        with connect(client, "POST", URL, json=ASKED) as stream:
            assert stream.read().text == "Hello"
        assert not stream.connection_was_kept  # the time of its reads cannot be limited
    async_given = library.Response(200, content=body())
    opening = aconnect(SimpleNamespace(stream=lambda *_, **__: aclosing(async_given)), "POST", URL, json=ASKED)
    async with opening as async_stream:
        assert (await async_stream.read()).text == "Hello"
    assert async_stream.connection_was_kept


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


async def test_a_bad_url_passes_unchanged(front: Any, library: Any) -> None:
    with pytest.raises(library.UnsupportedProtocol):
        await open_and_fail(front, library, "nowhere")
