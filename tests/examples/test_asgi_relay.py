"""The example of a relay: what arrives has arrived before the upstream has finished, and who leaves closes it."""

import math
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from example_scripts import HI, PATIENCE, STOP, THERE, WHOLE, load, served
from fronts import has_left

from chunkfold import APIStatusError, ChatCompletionParser, StreamEnd
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, chunk, delta, event, usage


class Relayed:
    """The relay as it is served, and what it notes."""

    def __init__(self, module: Any, provider: FakeProvider) -> None:
        self.module = module
        self.provider = provider
        self.notes: queue.Queue[ChatCompletionParser] = queue.Queue()
        self.url = ""

    @contextmanager
    def asked(self, answer: Any, **options: Any) -> Iterator[httpx.Response]:
        """What a client gets where the provider answers so."""
        self.provider.add(answer)
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
        with self.asked(Answer(WHOLE)) as response:
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
        with relayed.asked(Answer(BODIES[name], headers=headers, framing=framing)) as response:
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

    def test_the_tap_tells_the_usage_the_end_and_the_cost(
        self, relayed: Relayed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = [piece.replace(b'"m"', b'"gpt-5-mini"') for piece in WHOLE]
        half = [*model[:3], chunk(usage={"prompt_tokens": 1000})]
        bodies = [model, model[:3], model[:1], half, WHOLE, [chunk(usage=usage(0, 0)), *model[:3]]]
        for body in bodies:
            with relayed.asked(Answer(body)) as response:
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
    def test_pieces_pass_as_they_come_and_a_client_that_leaves_stops_the_provider(
        self, relayed: Relayed, pieces: list[bytes]
    ) -> None:
        with relayed.asked(Answer([*pieces, math.inf])) as response:
            assert pieces[0].startswith(next(response.iter_raw()))
        assert has_left(relayed.request)
        assert relayed.noted().end is StreamEnd.CLOSED
        relayed.check_that_it_goes_on()

    def test_a_client_that_leaves_before_the_answer_begins_stops_the_provider(self, relayed: Relayed) -> None:
        gate = threading.Event()

        def late(_: ReceivedRequest) -> Answer:
            assert gate.wait(PATIENCE)
            return Answer([HI, math.inf])

        with pytest.raises(httpx.ReadTimeout), relayed.asked(late, timeout=0.3):
            pass
        gate.set()
        assert relayed.noted().end is StreamEnd.CLOSED
        assert has_left(relayed.request)
        relayed.check_that_it_goes_on()

    @pytest.mark.parametrize("framing", ["chunked", "content-length"])
    @pytest.mark.parametrize("ending", ["cut", "reset"])
    def test_what_breaks_off_upstream_breaks_off_downstream(self, relayed: Relayed, ending: Any, framing: Any) -> None:
        with relayed.asked(Answer([HI, 0.2], ending=ending, framing=framing)) as response:
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
        [
            ([HI], StreamEnd.TRUNCATED),
            ([HI, THERE[:-9]], StreamEnd.TRUNCATED),
            ([b": hello\n\n"], StreamEnd.EMPTY),
            ([HI, event({"error": {"message": "Overloaded.", "code": 503}})], StreamEnd.FAILED),
        ],
        ids=["between-events", "within-one", "no-output", "failed"],
    )
    def test_what_ends_cleanly_but_too_early_breaks_off_downstream_unless_it_says_that_it_failed(
        self, relayed: Relayed, pieces: list[bytes], end: StreamEnd, framing: Any
    ) -> None:
        with relayed.asked(Answer(pieces, framing=framing)) as response:
            assert self.received_from(response) == (b"".join(pieces), end is not StreamEnd.FAILED)
        assert relayed.noted().end is end
        relayed.check_that_it_goes_on()

    def test_a_refusal_passes_with_all_it_has(self, relayed: Relayed) -> None:
        headers = {"retry-after": "7", "x-ratelimit-remaining-requests": "0", "content-type": "application/json"}
        body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
        with relayed.asked(Answer(body, 429, headers, framing="content-length")) as response:
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
        sent = b'{"model" : "m",\n "stream": true, "caf\xc3\xa9": 1}'
        headers = {"authorization": "Bearer sk-1", "content-type": "application/json", "x-title": "An app"}
        asking = {"content": sent, "headers": {**headers, "accept-encoding": "gzip"}}
        with relayed.asked(Answer(WHOLE), json=None, **asking) as response:
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
        answer = Answer(WHOLE, headers={"content-type": "text/event-stream", **answering, **kept})
        with relayed.asked(answer, headers={**asking, **kept}) as response:
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
            with relayed.asked(Answer(WHOLE, headers=headers)) as response:
                response.read()
            relayed.noted()
        assert "cookie" not in relayed.request.headers
