"""A relay whose answers outlive their page: a reader that lost its connection gets the rest, and nothing twice.

The relay serves over HTTP in this process; its provider is an embedded one. How pages read the other two backends is
for `tests/npm`, with the packages that pages have.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from example_scripts import BAD_BODIES, PATIENCE, ROOT, check_refusal, served

from chunkfold import EventStreamDecoder, ServerSentEvent
from chunkfold.testing import DONE, Answer, FakeProvider, StreamBuilder, delta, json_answer

WORDS = ["Once ", "upon ", "a ", "time."]
STORY = StreamBuilder().text(*WORDS).finish().done()
TOLD = [*[("message", word) for word in WORDS], ("finished", "stop")]


class Page:
    """What a browser does: it asks, it reads, it reads on."""

    def __init__(self, url: str, provider: FakeProvider) -> None:
        self.url = url
        self.provider = provider
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE)

    def ask(self, answer: Any) -> str:
        self.provider.add(answer)
        response = self.client.post("/answers", json={"question": "Tell me a story."})
        assert response.status_code == 201
        answer_id = response.json()["id"]
        assert isinstance(answer_id, str)
        return answer_id

    def read(self, answer_id: str, after: str | None = None, most: int | None = None) -> list[ServerSentEvent]:
        """Read events to the end, or so many of them and then lose the connection."""
        headers = {} if after is None else {"last-event-id": after}
        events: list[ServerSentEvent] = []
        decoder = EventStreamDecoder()
        with self.client.stream("GET", f"/answers/{answer_id}", headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            for data in response.iter_bytes():
                events += decoder.feed(data)
                if most is not None and len(events) >= most:
                    break
        return events if most is None else events[:most]


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    with FakeProvider() as provider, served("resumable_relay", provider, ANSWERS=str(folder)) as url:
        page = Page(url, provider)
        yield page
        page.client.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with opened(tmp_path) as page:
        yield page


def told(events: list[ServerSentEvent]) -> list[tuple[str, Any]]:
    return [(event.event, json.loads(event.data)) for event in events]


def test_an_answer_is_read_to_its_end(page: Page) -> None:
    events = page.read(page.ask(STORY))
    assert told(events) == TOLD
    assert [event.id for event in events] == ["1", "2", "3", "4", "5"]


def test_a_lost_connection_costs_nothing(page: Page) -> None:
    """The second half is read while the provider still writes; it is asked once."""
    slow = [piece for event in STORY.events for piece in (event, 0.05)]
    answer_id = page.ask(Answer(slow))
    first = page.read(answer_id, most=2)
    rest = page.read(answer_id, after=first[-1].id)
    assert told(first + rest) == TOLD
    assert [event.id for event in first + rest] == ["1", "2", "3", "4", "5"]
    assert len(page.provider.requests) == 1


def test_an_answer_outlives_the_relay(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        answer_id = page.ask(STORY)
        page.read(answer_id, most=2)
    with opened(tmp_path) as page:
        assert told(page.read(answer_id, after="2")) == TOLD[2:]
        assert page.provider.requests == []


FAILING: dict[str, tuple[Any, list[tuple[str, Any]]]] = {
    "cut": (Answer([delta(content="Hi ")], ending="cut"), [("message", "Hi "), ("failed", "StreamInterruptedError")]),
    "refused": (json_answer({"error": {"message": "no"}}, 401), [("failed", "APIStatusError")]),
    "not in its encoding": (
        Answer(STORY.body, headers={"content-encoding": "gzip"}),
        [("failed", "StreamInterruptedError")],
    ),
    "without an end": (Answer([delta(content="Hi ")]), [("message", "Hi "), ("failed", "IncompleteStreamError")]),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_failure_is_told_alike_live_and_from_its_file(case: str, tmp_path: Path) -> None:
    answer, expected = FAILING[case]
    with opened(tmp_path) as page:
        answer_id = page.ask(answer)
        assert told(page.read(answer_id)) == expected
    with opened(tmp_path) as page:
        assert told(page.read(answer_id)) == expected


def test_a_server_that_keeps_the_connection_is_left_after_done(page: Page) -> None:
    answer_id = page.ask(Answer([*STORY.events, DONE], ending="open"))
    assert told(page.read(answer_id)) == TOLD


@pytest.mark.parametrize("answer_id", ["0" * 32, "..%2F..%2Fetc", "nothing"])
def test_an_unknown_answer_is_not_found(answer_id: str, page: Page) -> None:
    assert page.client.get(f"/answers/{answer_id}").status_code == 404


REQUIRED = [b"{}", b'{"messages": 3}', b'{"messages": [3]}', b'{"question": "\\ud800"}']


@pytest.mark.parametrize(("name", "path"), [("resumable_relay", "answers"), ("ai_sdk_ui", "api/chat"), ("ag_ui", "")])
def test_a_request_that_cannot_be_read_is_refused(name: str, path: str) -> None:
    with FakeProvider() as provider, served(name, provider) as url, httpx.Client(trust_env=False) as client:
        for body in (*BAD_BODIES, *REQUIRED):
            check_refusal(client.post(f"{url}/{path}", content=body))
        assert provider.requests == []


def test_the_page_is_served(page: Page) -> None:
    assert "new EventSource" in page.client.get("/").text


def test_each_backend_is_on_the_page() -> None:
    text = (ROOT / "docs" / "chat-pages.md").read_text("utf-8")
    for name in ("resumable_relay", "ai_sdk_ui", "ag_ui"):
        assert f"examples/{name}.py" in text
