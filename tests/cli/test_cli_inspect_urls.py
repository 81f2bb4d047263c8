"""`chunkfold inspect` with a URL: a provider that is asked, a stored body, keys that are echoed."""

from pathlib import Path

import pytest
from command_line import PATIENCE, piped, press_ctrl_c, run, started
from inspect_command import BODY, HI, KEY, ROLE, STOP, inspect, recording

from chunkfold.rule_examples import example_of
from chunkfold.testing import DONE, Answer, FakeProvider, json_answer

# Asking


@pytest.mark.slow
def test_a_url_with_a_model_is_asked_and_watched_as_it_comes() -> None:
    with FakeProvider(Answer([ROLE, 0.05, HI, 0.05, STOP + DONE], headers={"x-request-id": "req_1"})) as provider:
        result = piped("inspect", provider.base_url, "-m", "m", "--param", "max_tokens=5", OPENAI_API_KEY=KEY)
        (request,) = provider.requests
    assert (result.exit_code, result.stderr) == (0, "")
    times = [float(line.split()[1]) for line in result.stdout.splitlines()[1:5]]
    assert times == sorted(times)
    assert times[2] > 0.1  # the pauses
    assert "request id: req_1" in result.stdout
    assert request.method == "POST"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.json["messages"][0]["content"], request.json["max_tokens"]) == ("Say hello.", 5)


def test_an_answer_whose_index_wanders_is_one_choice_as_for_chat() -> None:
    with FakeProvider(example_of("CF221").body, example_of("CF221").body) as provider:
        asked_for_one = run("inspect", provider.base_url, "-m", "m")
        asked_for_two = run("inspect", provider.base_url, "-m", "m", "--param", "n=2")
    assert "CF221: " in asked_for_one.stdout
    assert "CF221: " not in asked_for_two.stdout


@pytest.mark.slow
def test_frames_are_shown_while_the_stream_runs_and_ctrl_c_gives_the_verdict() -> None:
    with FakeProvider(Answer([ROLE, HI], ending="open")) as provider:
        with started("inspect", provider.url, "-m", "m", "Hello?") as process:
            assert process.stdout
            shown = [process.stdout.readline() for _ in range(3)]
            rest, errors, exit_code = press_ctrl_c(process)
        (request,) = provider.requests
        assert request.answered.wait(PATIENCE)
        assert request.client_left
    assert "text 'Hi'" in shown[2]
    assert "reading stops early" in rest
    assert "\nended: closed: the client left before the end\n" in rest
    assert (exit_code, errors) == (130, "")
    assert request.json["messages"][0]["content"] == "Hello?"


@pytest.mark.parametrize(
    ("answer", "code", "shown"),
    [
        (json_answer({"error": {"message": "no such model"}}, 404), 3, "APIStatusError: HTTP 404: no such model"),
        (Answer([HI], ending="cut"), 5, "the transport fails: RemoteProtocolError: peer closed connection"),
        (Answer([HI, STOP], ending="cut"), 0, "CF507"),
        (Answer([HI + STOP + DONE, 60.0], ending="open"), 0, "ended: finished"),  # what comes then is not waited for
    ],
)
def test_answers_that_break(answer: Answer, code: int, shown: str) -> None:
    with FakeProvider(answer) as provider:
        result = inspect(provider.url, "-m", "m")
    assert shown in result.stdout
    assert (result.exit_code, result.stderr) == (code, "")


def test_a_url_without_a_model_is_a_stored_body(tmp_path: Path) -> None:
    stored = Path(recording(tmp_path, (0.5, BODY))).read_bytes()
    with FakeProvider(BODY, Answer(stored), Answer([HI], ending="cut"), json_answer({}, 404)) as provider:
        url = f"{provider.base_url}/body.sse"
        plain, recorded, cut, missing = (inspect(url, key=KEY) for _ in range(4))
        assert {request.method for request in provider.requests} == {"GET"}
        assert {request.path for request in provider.requests} == {"/v1/body.sse"}
        assert {request.body for request in provider.requests} == {b""}
    assert plain.stdout == inspect("-", body=BODY).stdout
    assert [line.split()[1] for line in recorded.stdout.splitlines()[1:11]] == ["0.500"] * 10
    assert [result.exit_code for result in (plain, recorded, cut, missing)] == [0, 0, 5, 3]


def test_a_download_that_is_too_large_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkfold.cli.inspect._LARGEST_DOWNLOAD", len(BODY))
    much = [b"\n" * 2**16] * 1000  # more than sockets hold
    with FakeProvider(BODY, Answer([BODY, *much])) as provider:
        assert inspect(provider.url).exit_code == 0
        large = inspect(provider.url)
        assert provider.requests[1].answered.wait(PATIENCE)
        assert provider.requests[1].client_left
    assert (large.stdout, large.exit_code) == ("", 1)
    assert large.stderr == f"Error: URL: expected at most {len(BODY):,} bytes, received more\n"
