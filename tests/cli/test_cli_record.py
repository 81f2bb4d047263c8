"""`chunkfold record` and `chunkfold replay`, as a person runs them: against a provider on this machine, in a pipe and on
a terminal, left by Ctrl-C. What is served is read by real clients, and recorded again.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command_line
import httpx
import pytest
from command_line import (
    COMMAND,
    NEEDS_SIGNALS,
    PATIENCE,
    OpenAnswer,
    Ran,
    environment,
    is_waiting,
    on_a_terminal,
    press_ctrl_c,
    started,
    wait_until,
)
from fronts import ALONE
from recorded_streams import recorded_reads

from chunkfold import ChatCompletionParser, ChatCompletionStream
from chunkfold.recording import Recorder, Recording, replay
from chunkfold.testing import (
    DONE,
    Answer,
    FakeProvider,
    StreamBuilder,
    chunk,
    delta,
    fragment,
    json_answer,
    stalled,
    usage,
)

KEY = "my-own-key/1234"
EVIL = "a\x1b[2Jb\x07\u202e"
EVIL_SHOWN = r"a\x1b[2Jb\x07\u202e"


HELLO = [delta(content="Hello")]
STOP = [delta("stop")]
WHOLE = [
    delta(reasoning_content="They ask\nfor rain."),
    delta(content="Let me "),
    delta(content="look."),
    delta(tool_calls=[fragment(0, "call_1", "weather", '{"city":')]),
    delta(tool_calls=[fragment(0, arguments='"Porto"}')]),
    delta("tool_calls"),
    chunk(usage=usage(3, 4)),
    DONE,
]
TEXT = "Let me look."
CALL = 'tool call: weather {"city":"Porto"}\n'
FACTS = "3 prompt tokens, 4 completion tokens\n"


def run(*arguments: str, **options: Any) -> Ran:
    return command_line.run(*arguments, OPENAI_API_KEY=KEY, **options)


def record(answer: Any, output: Path, *options: str) -> Ran:
    """What the command says of an answer that it records."""
    with FakeProvider(answer) as provider:
        return run("record", provider.url, "-m", "m", "hi", "-o", str(output), *options)


def at_once(pieces: list[bytes], **more: Any) -> Recording:
    return recorded_reads(*((0.0, piece) for piece in pieces), **more)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "answer.jsonl"


def saved(recording: Recording, path: Path) -> str:
    recording.save(path)
    return str(path)


# Recording


@pytest.mark.slow
def test_record(output: Path) -> None:
    with FakeProvider(Answer(WHOLE, headers={"x-request-id": "req_1"})) as provider:
        result = run("record", provider.base_url, "-m", "gpt-x", "Rain?", "-o", str(output))
        url = provider.url
    summary = f"recorded 8 reads, {len(b''.join(WHOLE)):,} bytes in "
    assert (result.stdout, result.exit_code) == ("", 0)
    assert re.fullmatch(re.escape(summary) + rf"\d\.\d s to {re.escape(str(output))}; ended: finished\n", result.stderr)  # fmt: skip
    (request,) = provider.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert (request.headers["accept"], request.headers["accept-encoding"]) == ("text/event-stream", "identity")
    assert (request.json["model"], request.json["messages"][0]["content"]) == ("gpt-x", "Rain?")
    recording = Recording.load(output)
    assert [read.data for read in recording.reads] == WHOLE
    assert (recording.end, recording.url, recording.headers["x-request-id"]) == ("body", url, "req_1")
    assert 0 < (recording.headers_at or 0) <= recording.reads[0].at <= recording.seconds
    assert replay(recording).completion().tool_calls[0].name == "weather"


def test_record_to_standard_output(output: Path) -> None:
    with FakeProvider(Answer(WHOLE)) as provider:
        result = run("record", provider.url, "-m", "m", "-o", "-", stdin="Größe?\n".encode())
        assert provider.requests[0].json["messages"] == [{"role": "user", "content": "Größe?\n"}]
    assert result.exit_code == 0
    assert [read.data for read in Recording.loads(result.stdout.encode()).reads] == WHOLE
    assert re.fullmatch(r"recorded 8 reads, [\d,]+ bytes in \d\.\d s; ended: finished\n", result.stderr)


SAID = StreamBuilder().text("Hello")
ENDINGS: dict[str, tuple[Answer | StreamBuilder, int, str, str]] = {
    "whole": (SAID.finish().done(), 0, "finished", ""),
    "no finish reason": (SAID.done(), 0, "done", ""),
    "an error": (SAID.error(EVIL), 3, "failed", f"Error: the provider reported an error: {EVIL_SHOWN}"),
    "a refusal": (json_answer({"error": {"message": "no"}}, 429), 3, "failed", "Error: HTTP 429: no"),
    "HTML": (Answer(b"<html>"), 4, "invalid", "Error: "),
    "no chunk": (SAID.event("{nope"), 4, "invalid", "Error: "),
    "a cut": (SAID.answer(ending="cut"), 5, "interrupted", "Error: the transport failed"),
    "too little": (SAID, 7, "truncated", "Error: the body ended"),
    "nothing": (Answer([]), 8, "empty", "Error: "),
}


@pytest.mark.parametrize(("answer", "code", "end", "message"), ENDINGS.values(), ids=ENDINGS)
def test_the_exit_code_says_how_the_stream_ended(
    answer: Answer | StreamBuilder, code: int, end: str, message: str, output: Path
) -> None:
    with FakeProvider(*[answer] * 3) as provider:
        result = run("record", provider.url, "-m", "m", "hi", "-o", str(output))
        chat, as_json = (run("chat", provider.url, "-m", "m", "hi", *options) for options in ((), ("--json",)))
    assert [each.exit_code for each in (result, chat, as_json)] == [code] * 3
    assert json.loads(as_json.stdout)["end"] == end
    summary, *errors = result.stderr.splitlines()
    assert summary.endswith(f"; ended: {end}")
    assert [error.startswith(message) for error in errors] == [True] * bool(message)
    again = run("replay", str(output))
    assert (again.exit_code, again.stdout) == (code, chat.stdout)
    assert chat.stderr.startswith(end) is (chat.stdout != "")
    assert chat.stderr.count("Error: ") == len(errors)
    facts, *again_errors = again.stderr.splitlines()[-1 - len(errors) :]
    assert facts.startswith(end)
    assert again_errors == errors  # what was said live
    inspected = run("inspect", str(output))
    assert inspected.exit_code == code
    assert ("the transport fails: RemoteProtocolError" in inspected.stdout) is (end == "interrupted")
    assert f"\nended: {end}: " in inspected.stdout


def test_a_stall_is_the_same_wherever_the_recording_is_read(output: Path) -> None:
    pings = stalled(SAID, 2, 10.0, keep_alive=b": ping\n\n", every=0.05)
    with FakeProvider(*[Answer(pings, ending="open")] * 2) as provider:
        result = run("record", provider.url, "-m", "m", "hi", "-o", str(output), "--timeout", "0.3")
        assert run("chat", provider.url, "-m", "m", "hi", "--timeout", "0.3").exit_code == 6
    summary, error = result.stderr.splitlines()
    assert (result.exit_code, summary.rpartition("; ")[2]) == (6, "ended: stalled")
    assert error == "Error: received bytes but no chunk for 0.3 s (progress_timeout)"
    again = run("replay", str(output), "--speed", "0")
    assert (again.exit_code, again.stderr.splitlines()[-1]) == (6, error)
    for command in ("fold", "replay", "inspect"):
        value = json.loads(run(command, str(output), "--json").stdout.splitlines()[-1])
        value = value.get("verdict", value)
        assert (value["end"], f"Error: {value['error']['message']}") == ("stalled", error)


def test_behind_done_nothing_is_waited_for(output: Path) -> None:
    assert record(Answer(WHOLE, ending="open"), output, "--timeout", "600").exit_code == 0
    recording = Recording.load(output)
    assert ([read.data for read in recording.reads], recording.end, recording.error) == (WHOLE, "left", "")


def test_what_comes_at_once_behind_done_is_kept(output: Path) -> None:
    assert record(Answer([*WHOLE, 0.02, b": bye\n\n"], ending="cut"), output).exit_code == 0
    recording = Recording.load(output)
    assert [read.data for read in recording.reads] == [*WHOLE, b": bye\n\n"]
    assert (recording.end, recording.error) == ("error", "RemoteProtocolError")


def test_what_comes_behind_an_invalid_event_is_kept(output: Path) -> None:
    pieces = [*HELLO, b"data: oops\n\n", *HELLO]
    assert record(Answer([*pieces[:2], 0.1, *pieces[2:]]), output).exit_code == 4
    assert [read.data for read in Recording.load(output).reads] == pieces


@contextmanager
def being_recorded(output: Path) -> Iterator[subprocess.Popen[str]]:
    """A recording that has all that comes of an open answer; then its client has to leave."""
    hello = OpenAnswer(*HELLO)
    with FakeProvider(hello.answer) as provider:
        with started("record", provider.url, "-m", "m", "hi", "-o", str(output)) as process:
            wait_until(lambda: hello.is_read_by(process))
            yield process
        wait_until(lambda: provider.requests[0].client_left)


@pytest.mark.slow
@NEEDS_SIGNALS
def test_ctrl_c_keeps_what_had_come(output: Path) -> None:
    with being_recorded(output) as process:
        said, complained, exit_code = press_ctrl_c(process)
    assert (said, exit_code) == ("", 130)
    assert re.fullmatch(r"recorded 1 read, \d+ bytes in \d+\.\d s to .*; ended: closed\n", complained)
    recording = Recording.load(output)
    assert ([read.data for read in recording.reads], recording.end) == (HELLO, "left")
    again = run("replay", str(output))
    assert again.exit_code == 130
    assert (again.stdout, again.stderr.partition(" · ")[0]) == ("Hello", "closed")


@pytest.mark.slow
@NEEDS_SIGNALS
def test_a_signal_keeps_what_had_come(output: Path) -> None:
    """Was once wrong: SIGTERM, which `timeout` sends, left no file."""
    with being_recorded(output) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    recording = Recording.load(output)
    assert ([read.data for read in recording.reads], recording.end) == (HELLO, "left")


# Runs a command on a terminal of its own, which is closed when a line comes; says its process, then its exit code.
ON_A_TERMINAL_THAT_CLOSES = """
import os, pty, signal, sys
process, terminal = pty.fork()
if not process:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
print(process, flush=True)
sys.stdin.readline()
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""


@pytest.mark.slow
@NEEDS_SIGNALS
def test_a_terminal_that_is_closed_keeps_what_had_come(output: Path) -> None:
    """Was once wrong: what was shown there failed, and nothing was written."""
    hello = OpenAnswer(*HELLO)
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8", "env": environment()}
    with FakeProvider(hello.answer) as provider:
        asked = [COMMAND, "record", provider.url, "-m", "m", "hi", "-o", str(output)]
        with subprocess.Popen([sys.executable, "-c", ON_A_TERMINAL_THAT_CLOSES, *asked], **options) as driver:
            recording: Any = SimpleNamespace(pid=int(driver.stdout.readline()))
            try:
                wait_until(lambda: hello.is_read_by(recording))
                said, _ = driver.communicate("close\n", timeout=PATIENCE)
            finally:
                driver.kill()
    assert int(said) == 128 + signal.SIGHUP
    assert ([read.data for read in Recording.load(output).reads]) == HELLO


FAILURES = {
    "no folder": (("http://127.0.0.1:9", "-o", "OUT/x/y.jsonl"), "-o: .*x: the folder does not exist, .*"),
    "a folder": (("http://127.0.0.1:9", "-o", "."), ".*'-o' / '--output'.*"),
    "no name": (("http://127.0.0.1:9", "-o", ""), ".*'-o' / '--output': expected the name of a file, received .*"),
    "no output": (("http://127.0.0.1:9",), "Missing option '-o' / '--output'."),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), FAILURES.values(), ids=FAILURES)
def test_record_says_in_one_line_what_is_wrong(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    paths = [argument.replace("OUT", str(tmp_path / "answer.jsonl")) for argument in arguments]
    result = run("record", *paths, "-m", "m", "hi")
    assert (result.stdout, result.exit_code) == ("", 2)
    *usage_, line = result.stderr.splitlines()
    assert re.fullmatch(f"Error: {message}", line)
    assert len(usage_) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk() -> None:
    result = record(HELLO, Path("/dev/full"))
    assert (result.stderr, result.exit_code) == ("Error: /dev/full: No space left on device\n", 1)


# Replaying


def test_replay_in_a_pipe_gives_the_text_alone(output: Path) -> None:
    times = [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5]
    path = saved(recorded_reads(*zip(times, WHOLE, strict=True), ended_at=3.0), output)
    facts = f"finished: tool_calls · first token 0.50 s · 2.7 tokens/s · 2.50 s in all · {FACTS}"
    for speed in ("1000", "0", "inf"):
        assert run("replay", path, "--speed", speed) == (TEXT, CALL + facts, 0)


def test_replay_as_json_is_what_chat_gives(output: Path) -> None:
    path = saved(recorded_reads((0.5, HELLO[0]), (1e6, STOP[0]), ended_at=1e6), output)
    result = run("replay", path, "--json")
    value = json.loads(result.stdout)
    assert (result.stderr, result.exit_code) == ("", 0)
    assert list(value) == ["end", "error", "anomalies", "completion", "timing", "request_id"]
    assert value["completion"]["choices"][0]["message"]["content"] == "Hello"
    assert (value["end"], value["timing"]["first_output"]) == ("finished", 0.5)


def test_a_plain_body_has_no_times(tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    path.write_bytes(b"".join(WHOLE))
    expected = (TEXT, f"{CALL}finished: tool_calls · {FACTS}", 0)
    assert run("replay", str(path)) == run("replay", "-", stdin=b"".join(WHOLE)) == expected
    assert json.loads(run("replay", str(path), "--json").stdout)["timing"] is None


def test_what_it_takes_is_what_it_took(output: Path) -> None:
    path = saved(recorded_reads((0.1, HELLO[0]), (0.2, STOP[0]), ended_at=0.3), output)
    begun = time.monotonic()
    assert run("replay", path).exit_code == 0
    assert time.monotonic() - begun > 0.2  # at least: a busy machine only takes longer


def test_all_that_is_said_is_shown_once(output: Path) -> None:
    said = StreamBuilder().text("never", choice=1).refusal("I ", "won't.").raw(delta(audio={"transcript": " Said."}))
    path = saved(at_once(said.finish().done().events), output)
    assert run("replay", path).stdout == "I won't. Said."


def test_another_choice_is_shown_if_nothing_came_of_the_first(output: Path) -> None:
    result = run("replay", saved(at_once([delta(index=1, content="Other.") + delta("stop", index=1) + DONE]), output))
    assert result.stdout == "Other."
    assert "choice 1 of 2 is shown" in result.stderr
    call = delta(content="") + delta("function_call", index=1, function_call={"name": "f", "arguments": "{}"})
    result = run("replay", saved(at_once([call + DONE]), output))
    assert result.stderr.startswith("tool call: f {}\n")
    assert "choice 1 of 2 is shown" in result.stderr


@pytest.mark.parametrize(("width", "variables"), [(40, {}), (80, {"NO_COLOR": "1"})])
def test_replay_on_a_terminal(width: int, variables: dict[str, str], output: Path) -> None:
    recording = recorded_reads(*((0.01 * number, piece) for number, piece in enumerate(WHOLE)), ended_at=0.1)
    _, written, code = on_a_terminal("replay", saved(recording, output), width=width, **variables)
    assert code == 0
    assert "\x1b[2m" in written  # the reasoning is dimmed
    for shown in ("They ask", "for rain.", "look.", "finished: tool_calls", "3 prompt tokens"):
        assert shown in written
    assert bool(re.search(r"\x1b\[[\d;]*3[0-7]m", written)) == (not variables)


def test_a_dumb_terminal_gets_plain_lines(output: Path) -> None:
    written = on_a_terminal("replay", saved(at_once(WHOLE), output), TERM="dumb").written.replace("\r", "")
    assert written == f"{TEXT}\n{CALL}finished: tool_calls · {FACTS}"


def test_record_shows_the_answer_while_it_records(output: Path) -> None:
    result = record(WHOLE, output, "--show")
    assert (result.stdout, result.exit_code) == (TEXT, 0)
    assert result.stderr.startswith(CALL + "finished: tool_calls · first token ")
    assert Recording.load(output).body == b"".join(WHOLE)


def test_record_shows_what_a_replay_of_its_file_shows_also_of_an_index_that_wanders(output: Path) -> None:
    wandering = delta(content="Hello") + delta(index=1, content=" there") + delta("stop", index=1) + DONE
    recorded_live = record(wandering, output, "--show")
    assert recorded_live.stdout == run("replay", str(output)).stdout == "Hello"
    assert "choice 0 of 2 is shown" in recorded_live.stderr


def test_a_replay_at_its_pace_makes_no_snapshot_per_read(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    snapshot = ChatCompletionParser.snapshot.fget
    assert snapshot is not None
    monkeypatch.setattr(ChatCompletionParser, "snapshot", property(lambda parser: made.append(1) or snapshot(parser)))
    counts: list[int] = []
    for size in (10, 200):
        pieces = [*WHOLE[:4], *[delta(tool_calls=[fragment(0, arguments=" ")])] * size, *WHOLE[4:]]
        shown = run("replay", saved(at_once(pieces, headers_at=0.0), output), "--speed", "1000").stderr
        assert 'tool call: weather {"city":' + " " * size + '"Porto"}' in shown
        counts.append(len(made))
        made.clear()
    assert counts[0] == counts[1] <= 4


@NEEDS_SIGNALS
def test_ctrl_c_leaves_a_replay(output: Path) -> None:
    path = saved(recorded_reads((0.0, HELLO[0]), (1e6, STOP[0])), output)
    with started("replay", path) as process:
        assert process.stdout
        assert process.stdout.read(5) == "Hello"
        wait_until(lambda: is_waiting(process))
        said, complained, exit_code = press_ctrl_c(process)
    assert (said, exit_code) == ("", 130)
    assert complained.startswith("closed · first token ")


WRONG = {
    "a folder": ((".",), 1, ".: Is a directory"),
    "what cannot be sent": (("STATUS", "--serve"), 1, ".*status.jsonl: cannot be sent: .*204.*"),
    "no number": (("EMPTY", "--speed", "nan"), 2, "Invalid value for '--speed': expected a number"),
    "backwards": (("EMPTY", "--speed", "-1"), 2, "Invalid value for '--speed': -1.0 is not in the range x>=0."),
    "a port alone": (("EMPTY", "--port", "8000"), 2, "--port needs --serve"),
    "JSON of a provider": (("EMPTY", "--serve", "--json"), 2, "--json: expected it without --serve, .*"),
    "no port": (("EMPTY", "--serve", "--port", "70000"), 2, ".*'--port'.*"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG.values(), ids=WRONG)
def test_replay_says_in_one_line_what_is_wrong(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "status.jsonl").write_text('{"chunkfold_recording":1,"status":204}\n{"text":"a"}\n')
    paths = [str(tmp_path / f"{name.lower()}.jsonl") if name.isupper() else name for name in arguments]
    result = run("replay", *paths)
    assert (result.stdout, result.exit_code) == ("", code)
    assert re.fullmatch(f"Error: {message}", result.stderr.splitlines()[-1])


# Serving


@contextmanager
def serving(recording: Recording, path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with started("replay", saved(recording, path), "--serve", *options) as process:
        assert process.stdout
        first = process.stdout.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1\n", first)
        yield process, first.strip()


def record_again(url: str) -> tuple[Recording, ChatCompletionStream]:
    with httpx.Client(**ALONE) as client, client.stream("POST", url, json={}) as response:
        recorder = Recorder(response)
        with suppress(httpx.TransportError):
            for _ in recorder.iter_bytes():
                pass
    return recorder.recording, ChatCompletionStream(recorder.recording)


@pytest.mark.slow
@NEEDS_SIGNALS
def test_serve_until_ctrl_c_and_a_port_that_is_taken(output: Path) -> None:
    recording = recorded_reads(*((0.01 * number, piece) for number, piece in enumerate(WHOLE)), ended_at=0.1)
    with serving(recording, output) as (process, base_url):
        for path in ("/chat/completions", "/models?key=secret"):  # whatever is asked for
            again, stream = record_again(base_url + path)
            assert [read.data for read in again.reads] == WHOLE
            assert again.end == "body"
            assert stream.read().tool_calls[0].arguments == '{"city":"Porto"}'
        port = base_url.split(":")[2].removesuffix("/v1")
        taken = run("replay", str(output), "--serve", "--port", port)
        stdout, stderr, code = press_ctrl_c(process)
    assert (stdout, code) == ("", 0)
    assert taken == ("", f"Error: port {port}: Address already in use\n", 1)
    told = [re.sub(r" after [\d.]+ s", "", line) for line in stderr.splitlines()]
    assert told == [f"POST /v1/{path}: {output}: 200, sent whole" for path in ("chat/completions", "models")]


def test_a_closed_list_of_requests_is_no_trouble(output: Path) -> None:
    with serving(at_once(WHOLE), output) as (process, base_url):
        assert process.stderr
        process.stderr.close()
        for _ in range(3):
            assert record_again(base_url)[0].body == b"".join(WHOLE)


def test_an_encoding_that_cannot_write_everything(output: Path) -> None:
    path = saved(at_once(StreamBuilder().text("São").finish().done().events), output)
    result = run("replay", path, encoding="ascii")
    assert (result.stdout, result.exit_code) == (r"S\xe3o", 0)
