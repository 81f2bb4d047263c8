"""The example for browsers: its events, its page in a real browser, and the script until it is stopped."""

import json
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from example_scripts import HI, PATIENCE, STOP, THERE, THOUGHT, command, environment, served
from fronts import has_left

from chunkfold import EventStreamDecoder, ServerSentEvent
from chunkfold.testing import DONE, Answer, FakeProvider, ReceivedRequest, delta, event, json_answer

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
