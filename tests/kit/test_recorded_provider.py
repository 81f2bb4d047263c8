"""A provider of recordings: it asks the real one once, and says the same ever after."""

import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from cases import each_case
from fronts import ASKED, PATIENCE

from chunkfold import StreamInterruptedError, connect
from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import (
    Answer,
    FakeProvider,
    ReceivedRequest,
    RecordedProvider,
    StreamBuilder,
    cut,
    error_answer,
    json_answer,
)
from chunkfold.testing.recorded import BEFORE_RESET, recorded_answer

NOWHERE = "http://127.0.0.1:9/v1"
KEY = "sk-live-7Qm2Xc9ZtR4vB8nL1pW6"
HELLO = StreamBuilder("openrouter").reasoning("Hm").text("Hel", "lo 号").usage(3, 2).finish().done()
OVERLOADED = json_answer({"error": {"message": "later", "code": "busy"}}, 429, {"Retry-After": "2", "x-request-id": "req_1"})  # fmt: skip
MODELS = json_answer({"object": "list", "data": [{"id": "m"}]})


def asked(provider: FakeProvider, **options: Any) -> httpx.Response:
    return httpx.post(provider.url, json={**ASKED, "stream": True}, **options)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Recorded and replayed


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (HELLO, 200),
        (Answer(cut(HELLO.body, 1, 50, 700)), 200),
        (HELLO.answer(encoding="gzip"), 200),
        (StreamBuilder().text("Hi").error("overloaded", code=503), 200),
        (MODELS, 200),
        (OVERLOADED, 429),
        (json_answer({"error": "no"}, 500), 500),
        (Answer(b"", 204), 204),
        (Answer(b"<html>", 502, {"content-type": "text/html"}), 502),
    ],
    ids=lambda value: None if isinstance(value, int) else type(value).__name__,
)
def test_a_replay_says_what_was_recorded(tmp_path: Path, answer: Any, status: int) -> None:
    with FakeProvider(answer) as upstream:
        with RecordedProvider(upstream.base_url, tmp_path / "new" / "folder", record="new") as provider:
            live = asked(provider)
        assert len(upstream.requests) == 1
        with RecordedProvider(upstream.base_url, tmp_path / "new" / "folder", record="new") as provider:
            again = asked(provider)
        assert len(upstream.requests) == 1
    with RecordedProvider(NOWHERE, tmp_path / "new" / "folder") as provider:
        replayed = asked(provider)
    assert files(tmp_path / "new" / "folder") == ["1.jsonl"]
    names = ("content-type", "retry-after", "x-request-id")
    seen = [
        (each.status_code, [each.headers.get(name) for name in names], each.content) for each in (live, again, replayed)
    ]
    assert seen[0] == seen[1] == seen[2]
    assert live.status_code == status


def test_requests_are_passed_on_as_they_are(tmp_path: Path) -> None:
    with FakeProvider() as upstream, RecordedProvider(upstream.base_url + "/", tmp_path, record="new") as provider:
        asked(provider, headers={"authorization": f"Bearer {KEY}", "x-mine": "1", "accept-encoding": "gzip"})
        httpx.get(provider.base_url + "/models", params={"limit": "5", "after": "a+b"})
    first, second = upstream.requests
    assert (first.method, first.path, first.json) == ("POST", "/v1/chat/completions", {**ASKED, "stream": True})
    assert (first.headers["authorization"], first.headers["x-mine"]) == (f"Bearer {KEY}", "1")
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["host"] in upstream.base_url
    assert (second.method, second.path, second.query) == ("GET", "/v1/models", "limit=5&after=a%2Bb")


def test_only_what_is_missing_is_recorded(tmp_path: Path) -> None:
    with FakeProvider(HELLO) as upstream, RecordedProvider(upstream.base_url, tmp_path, record="new") as provider:
        asked(provider)
    before = (tmp_path / "1.jsonl").read_bytes()
    with FakeProvider(MODELS) as upstream, RecordedProvider(upstream.base_url, tmp_path, record="new") as provider:
        assert asked(provider).content == HELLO.body
        assert asked(provider).json()["object"] == "list"
    with pytest.raises(httpx.ConnectError):
        asked(provider)
    assert (tmp_path / "1.jsonl").read_bytes() == before
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("ending", ["cut", "reset"])
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_body_that_was_cut_is_cut_again(tmp_path: Path, library: Any, ending: Any) -> None:
    # The pause lets the client read what came before a reset.
    answer = Answer([*HELLO.events[:3], 0.1], ending=ending)
    with FakeProvider(answer) as upstream, RecordedProvider(upstream.base_url, tmp_path, record="new") as provider:
        live = interrupted(provider, library)
    with RecordedProvider(NOWHERE, tmp_path) as provider:
        replayed = interrupted(provider, library)
    assert live == replayed
    assert live == ("Hel", {"cut": "RemoteProtocolError", "reset": "ReadError"}[ending])


STOPPED = [*HELLO.events[:-1]]
ENDED: list[tuple[dict[str, Any], list[bytes], str]] = [
    *(
        ({"end": "error", "error": error}, [b"a"], "cut")
        for error in ("RemoteProtocolError", "IncompleteRead", "ReadTimeout", "")
    ),
    *(({"end": "error", "error": error}, reads, "reset") for error in ("ReadError", "ConnectionResetError") for reads in ([], [b"a"])),
    ({"end": "left", "error": "ReadError"}, [b"a"], "cut"),  # as a recording by hand may say
    ({"end": "body", "error": "ReadError"}, [b"a"], "end"),
    ({"end": "body"}, STOPPED[:3], "end"),
    ({"end": "body", "status_code": 429}, [b"no"], "end"),
    ({"end": "left"}, STOPPED[:3], "cut"),
    ({"end": "left"}, STOPPED, "end"),
    ({"end": "left"}, HELLO.events, "end"),
]  # fmt: skip


@each_case(("fields", "reads", "ending"), ENDED)
def test_it_ends_as_it_ended(fields: dict[str, Any], reads: list[bytes], ending: Any) -> None:
    recording = Recording(tuple(RecordedRead(0.0, data) for data in reads), ended_at=0.0, **fields)
    pieces = [*(step for data in reads for step in (0.0, data)), BEFORE_RESET if ending == "reset" else 0.0]
    assert recorded_answer(recording, 0.0) == Answer(pieces, fields.get("status_code", 200), ending=ending)


def test_headers_that_are_true_of_what_is_sent() -> None:
    true = {"content-type": "text/event-stream", "x-request-id": "req_1"}
    untrue = {"content-encoding": "gzip"}  # the body was recorded as it was decoded
    unsent = {"x-ratelimit-a": "1\r\nx-evil: 1", "x evil": "1", "server": "café"}
    assert recorded_answer(Recording((), headers={**untrue, **true, **unsent})).headers == true


def test_pauses_are_as_they_were_at_the_speed_that_is_asked_for(tmp_path: Path) -> None:
    reads = (RecordedRead(1.0, b"a"), RecordedRead(1.0, b"b"), RecordedRead(4.0, b"c"))
    recording = Recording(reads, headers_at=0.5, ended_at=6.0)
    recording.save(tmp_path / "1.jsonl")
    for speed, pauses in {
        1: (0.5, 0.0, 3.0, 2.0),
        2: (0.25, 0.0, 1.5, 1.0),
        0: (0.0,) * 4,
        math.inf: (0.0,) * 4,
    }.items():
        first, second, third, last = pauses
        answer = RecordedProvider(NOWHERE, tmp_path, speed=speed).answer_unscripted(
            ReceivedRequest("POST", "/", {}, b"")
        )
        assert answer.pieces == (first, b"a", second, b"b", third, b"c", last)


def interrupted(provider: FakeProvider, library: Any) -> tuple[str, str]:
    with (
        library.Client() as client,
        connect(client, "POST", provider.url, json=ASKED) as stream,
        pytest.raises(StreamInterruptedError) as caught,
    ):
        stream.read()
    return stream.snapshot.text, type(caught.value.__cause__).__name__


def test_the_times_of_a_recording_count_from_the_request(tmp_path: Path) -> None:
    slow = StreamBuilder().text("a").finish().done()

    def late(_: object) -> StreamBuilder:
        time.sleep(0.1)
        return slow

    with FakeProvider(late) as upstream, RecordedProvider(upstream.base_url, tmp_path, record="new") as provider:
        asked(provider)
    recording = Recording.load(tmp_path / "1.jsonl")
    assert recording.headers_at is not None
    assert 0.1 <= recording.headers_at <= recording.reads[0].at  # at least, since the server waits so long


def test_no_key_is_in_the_files(tmp_path: Path) -> None:
    echo = StreamBuilder().text(f"your key is {KEY}", KEY[:10], KEY[10:]).finish().done()
    answer = Answer(
        cut(echo.body, len(echo.body) // 2), headers={"set-cookie": f"s={KEY}", "x-echo": KEY, "x-request-id": KEY}
    )
    with FakeProvider(answer) as upstream, RecordedProvider(upstream.base_url, tmp_path, record="new") as provider:
        httpx.post(
            f"{provider.url}?api_key={KEY}", json={**ASKED, "user": KEY}, headers={"authorization": f"Bearer {KEY}"}
        )
    stored = (tmp_path / "1.jsonl").read_text("utf-8")
    assert KEY not in stored
    assert KEY not in "".join(read.data.decode() for read in Recording.load(tmp_path / "1.jsonl").reads)
    assert "Bearer" not in stored
    assert "set-cookie" not in stored
    assert ASKED["messages"][0]["content"] not in stored.replace("\\", "")  # the request is not stored at all


# What is missing


def test_a_missing_recording_fails_in_clear_words(tmp_path: Path) -> None:
    words = f'no recording {tmp_path / "1.jsonl"}: to make it, pass record="new" or run pytest --chunkfold-record=new'
    provider = RecordedProvider(NOWHERE, tmp_path)
    with pytest.raises(FileNotFoundError, match=re.escape(words)), provider:
        response = asked(provider)
    assert (response.status_code, response.json()["error"]["message"]) == (500, f"FileNotFoundError: {words}")
    assert not files(tmp_path)


def test_a_recording_that_is_none_fails(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"chunkfold_recording":99}\n', "utf-8")
    provider = RecordedProvider(NOWHERE, tmp_path)
    with pytest.raises(ValueError, match="recording"), provider:
        asked(provider)


def test_an_upstream_that_cannot_be_reached_is_no_recording(tmp_path: Path) -> None:
    provider = RecordedProvider(NOWHERE, tmp_path, record="new")
    with pytest.raises(httpx.ConnectError), provider:
        asked(provider)
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("upstream", "record", "error", "words"),
    [
        *(
            (upstream, "none", ValueError, "upstream: expected a base URL with http or https, received")
            for upstream in ("", "api.openai.com/v1", "ftp://x/v1")
        ),
        (httpx.URL("http://x/v1"), "none", TypeError, r"upstream: expected a base URL as a str, received URL\("),
        ("http://x/v1", "all", ValueError, "record: expected none or new, received 'all'"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, upstream: Any, record: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        RecordedProvider(upstream, tmp_path, record=record)


# Like any provider


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_was_refused_is_told_of_at_the_end_and_recorded_is_what_follows(tmp_path: Path, status: int) -> None:
    with FakeProvider(error_answer(status, "Wrong key."), HELLO, MODELS) as upstream:
        provider = RecordedProvider(upstream.base_url, tmp_path, record="new")
        words = rf"the provider refused the key \({status}\): nothing was recorded"
        with pytest.raises(PermissionError, match=words), provider:
            refused, *others = (asked(provider) for _ in range(3))
    assert (refused.status_code, refused.json()["error"]["message"]) == (status, "Wrong key.")
    assert [response.status_code for response in others] == [200, 200]
    assert files(tmp_path) == ["1.jsonl", "2.jsonl"]
    with RecordedProvider(NOWHERE, tmp_path) as provider:
        assert asked(provider).content == HELLO.body
        assert asked(provider).json()["object"] == "list"


def test_what_a_script_answers_has_no_recording(tmp_path: Path) -> None:
    for record in ("new", "none"):
        with (
            FakeProvider(HELLO) as upstream,
            RecordedProvider(upstream.base_url, tmp_path, record=record) as provider,  # type: ignore[arg-type]
        ):
            provider.add(OVERLOADED)
            assert [asked(provider).status_code for _ in range(2)] == [429, 200]
            provider.assert_requested(2, json={"stream": True})
            provider.assert_script_used()
        assert files(tmp_path) == ["1.jsonl"]


def test_requests_at_the_same_time_have_a_recording_each(tmp_path: Path) -> None:
    everyone = threading.Barrier(4, timeout=PATIENCE)

    def answer(_: ReceivedRequest) -> StreamBuilder:
        everyone.wait()
        return HELLO

    with (
        FakeProvider(*[answer] * 4) as upstream,
        RecordedProvider(upstream.base_url, tmp_path, record="new") as provider,
        ThreadPoolExecutor(4) as pool,
    ):
        assert [each.status_code for each in pool.map(asked, [provider] * 4)] == [200] * 4
    assert files(tmp_path) == ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl"]
