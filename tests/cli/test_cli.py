"""The command line, as a user sees it: in a pipe, on a terminal, and without its extra."""

import errno
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_command import KEY
from command_line import (
    COMMAND,
    NEEDS_SIGNALS,
    PATIENCE,
    environment,
    on_a_terminal,
    piped,
    press_ctrl_c,
    read_a_line_and_close,
    run,
    screen_of,
    started,
    styles,
    terminal,
    wait_until,
    written_to,
)

from chunkfold.cli.answer_view import LiveView
from chunkfold.cli.app import chunkfold
from chunkfold.cli.demo import scripted_answers
from chunkfold.cli.safe import harmless, json_line, one_line
from chunkfold.cli.tail import Call
from chunkfold.testing import Answer, FakeProvider, StreamBuilder, delta

CLOSED = "Error: standard output: Broken pipe\n"
DEMO = ("demo", "--speed", "1000")

REASONING = [
    "Two things are asked for: a train from Lisbon that arrives before 19:00, and a room for two nights.",
    "Neither depends on the other, so I can look for both at once.",
]
ANSWER = "I'll look for a train to Porto and for a room near the station, both at the same time."
CALLS = [
    'tool call: search_trains {"origin": "Lisboa", "destination": "Porto", "date": "2026-03-06", "arrive_before": "19:00"}',
    'tool call: find_rooms {"city": "Porto", "near": "São Bento", "nights": 2, "max_price": 120.0}',
]
FACTS = "finished: tool_calls · # · 412 prompt tokens (384 cached), 131 completion tokens (48 reasoning)"
CUT = (
    "Your seat is booked: car 21, seat 46, in the train that leaves Oriente at 15:09 and is in Porto at 18:02. "
    "The hotel is in the Rua das Flores, five minutes on foot from"
)
CUT_FACTS = "interrupted · # · no usage"
PEER_CLOSED = "peer closed connection without sending complete message body (incomplete chunked read)"
ERROR = f"Error: the transport failed before the stream was complete: {PEER_CLOSED!r}"
SAID = [
    "",
    "1. Reasoning, text, and two tool calls at once",
    "you: I have to be in Porto on Friday by seven, and need a room for two nights.",
    "",
    *CALLS,
    FACTS,
    "",
    "2. The connection breaks",
    "you: Book the train. And where is the hotel?",
    "",
    CUT_FACTS,
    ERROR,
]


def without_numbers(line: str) -> str:
    """Times are not the same twice, and where everything comes in one read there is no speed."""
    return re.sub(r"first token .*? in all", "#", line)


# The demo


@pytest.mark.parametrize(
    ("width", "variables", "colours"), [(50, {}, {"1;36"}), (200, {"NO_COLOR": "1"}, set())], ids=["50", "200"]
)
def test_demo_on_a_terminal_has_the_same_facts(width: int, variables: dict[str, str], colours: set[str]) -> None:
    drawn, written, exit_code = on_a_terminal(*DEMO, width=width, **variables)
    assert exit_code == 0
    shown = without_numbers(" ".join(" ".join(drawn).split()))
    for line in [*REASONING, ANSWER, *CALLS, CUT, *CUT_FACTS.split(" · ")]:
        assert line in shown
    # Once each: nothing of what was drawn in between is left.
    assert shown.count("Neither depends") == shown.count("tool call: find_rooms") == shown.count("search_trains {") == 1
    assert "\x1b[2mNeither" in written  # dimmed
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 2  # the cursor is back
    assert styles(written) == {"0", "1", "2"} | colours


def test_demo_in_a_pipe_gives_the_answers_alone_whatever_colours_and_proxies_the_environment_has() -> None:
    proxy = {"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9", "NO_PROXY": None}
    ran = run(*DEMO, FORCE_COLOR="1", CLICOLOR_FORCE="1", TTY_COMPATIBLE="1", **proxy)
    assert (ran.stdout, ran.exit_code) == (f"{ANSWER}\n\n{CUT}\n\n", 0)
    assert all(character.isprintable() or character == "\n" for character in ran.stderr)
    assert [without_numbers(line) for line in ran.stderr.splitlines()] == SAID


LONG = (delta(content="\n" + "x" * 100) + delta(content="Hello")) * 3_000
WRITERS: dict[str, list[str]] = {  # of more than a pipe holds
    "chat": ["chat", "URL", "-m", "m", "Hi"],
    "fold in one process": ["fold", "--json", "--jobs", "1", *["FILE"] * 20],
    "fold in two processes": ["fold", "--json", "--jobs", "2", *["FILE"] * 20],
    "inspect": ["inspect", "FILE"],
    "record": ["record", "URL", "-m", "m", "Hi", "-o", "-"],
    "record, unbuffered": ["record", "URL", "-m", "m", "Hi", "-o", "-"],
    "replay": ["replay", "FILE"],
    "replay, unbuffered": ["replay", "FILE"],
    "report": ["report", *["FILE"] * 20, "-o", "-"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_pipe_that_is_closed_early_is_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "body.sse"
    file.write_bytes(LONG)
    with FakeProvider(Answer(LONG)) as provider:
        arguments = [{"URL": provider.url, "FILE": str(file)}.get(argument, argument) for argument in WRITERS[name]]
        with started(*arguments, PYTHONUNBUFFERED="1" if "unbuffered" in name else "") as process:
            assert read_a_line_and_close(process) == CLOSED
            assert process.returncode == 1
        assert all(request.answered.wait(PATIENCE) for request in provider.requests)


def test_help_in_a_pipe_that_is_closed_early_leaves_no_traceback() -> None:
    with started("--help") as process:
        assert read_a_line_and_close(process) in ("", CLOSED)  # all of it may be written by then


FULL = "Error: standard output: No space left on device\n"
INHERITS_CLOSED_STREAMS = pytest.mark.skipif(
    os.name == "nt", reason="needs a system where a closed stream is inherited"
)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [("--help",), ("demo", "--speed", "1000"), ("doctor", "--list"), ("fold", "x")])
def test_an_output_that_is_full_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.stderr.decode().endswith(FULL)
    assert done.returncode == 1


def test_another_file_that_fails_is_not_called_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "a\x07.toml")

    monkeypatch.setattr("chunkfold.cli.serve.serve", fail)
    assert run("serve") == ("", r"Error: a\x07.toml: Permission denied" + "\n", 1)


def test_a_missing_file_of_the_environment_is_one_line(tmp_path: Path) -> None:
    # With SSL_CERT_FILE this happens from httpx 0.28 on.
    result = run("chat", "http://127.0.0.1:9/v1", "-m", "m", "Hi", SSLKEYLOGFILE=str(tmp_path / "none" / "keys"))
    reason = "a file that SSL_CERT_FILE or SSLKEYLOGFILE names does not exist"
    assert result.stderr == f"Error: no response from http://127.0.0.1:9/v1/chat/completions: {reason}\n"


@pytest.mark.parametrize("command", [("replay",), ("inspect",), ("fold",), ("report", "-o", "-"), ("serve",)])
def test_a_file_that_does_not_fit_into_memory_is_one_line(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    for module in ("files", "folding"):
        monkeypatch.setattr(f"chunkfold.cli.{module}.unpacked", fail)
    (tmp_path / "body.sse").write_bytes(b"data: [DONE]\n\n")
    result = run(*command, str(tmp_path / "body.sse"))
    assert re.search(r"(Error: \S*body\.sse: |body\.sse  unreadable +)out of memory$", result.shown, re.MULTILINE)
    assert (result.exit_code, "Traceback" in result.shown) == (1, False)


@pytest.mark.parametrize("command", [("chat", "Hi"), ("record", "Hi", "-o", "OUT"), ("inspect", "Hi"), ("doctor",)])
def test_no_response_is_one_line_without_a_key(command: tuple[str, ...], tmp_path: Path) -> None:
    name, *arguments = (argument.replace("OUT", str(tmp_path / "answer.jsonl")) for argument in command)
    result = run(name, "http://127.0.0.1:9/sk-another-0123456789abc/v1", "-m", "m", *arguments, OPENAI_API_KEY=KEY)
    assert (result.stdout, result.exit_code) == ("", 1)
    line = r"Error: no response from http://127.0.0.1:9/\*+/v1/chat/completions: .*refused.*\n"
    assert re.fullmatch(line, result.stderr)
    assert not re.search(f"Errno|{KEY}", result.stderr)
    assert list(tmp_path.iterdir()) == []


def closed(stream: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with one of its standard streams closed."""
    code = f"import os; os.close({stream}); os.execv({COMMAND!r}, {[COMMAND, *arguments]!r})"
    options: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8", "timeout": PATIENCE}
    return subprocess.run([sys.executable, "-c", code], check=False, env=environment(), **options)


@pytest.mark.slow
@INHERITS_CLOSED_STREAMS
@pytest.mark.parametrize("arguments", [("doctor", "--list"), ("inspect", "-"), ("demo",), ("fold", "-")])
def test_an_output_that_is_closed_is_one_line(arguments: tuple[str, ...]) -> None:
    """Was once wrong: a traceback."""
    done = closed(1, *arguments)
    assert (done.returncode, done.stderr) == (1, "Error: standard output is closed\n")


@pytest.mark.slow
@INHERITS_CLOSED_STREAMS
def test_other_closed_streams_are_empty_or_discarded(tmp_path: Path) -> None:
    done = closed(0, "inspect", "-")
    assert (done.returncode, done.stderr) == (8, "")
    assert "received: 0 events in 0 bytes" in done.stdout
    body = tmp_path / "body.sse"
    body.write_bytes(StreamBuilder().text("Hello").finish().done().body)
    done = closed(2, "fold", "--json", str(body))
    assert (done.returncode, json.loads(done.stdout)["end"]) == (0, "finished")
    assert closed(2, "nothing").returncode == 2


@pytest.mark.slow
@NEEDS_SIGNALS
@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("chat", "--json", "Hi"), ""), (("record", "Hi", "-o", "OUT"), "Nothing had arrived.\n"), (("inspect",), "")],
)
def test_ctrl_c_before_there_is_a_response(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    name, *more = (argument.replace("OUT", str(tmp_path / "answer.jsonl")) for argument in arguments)
    silent = FakeProvider(Answer([math.inf], framing="raw"))
    with silent as provider, started(name, provider.url, "-m", "m", *more) as process:
        wait_until(lambda: provider.requests or process.poll() is not None)
        stdout, stderr, exit_code = press_ctrl_c(process)
    assert (stderr, exit_code, list(tmp_path.iterdir())) == (says, 130, [])
    if name == "chat":  # the object says that nothing came
        value = json.loads(stdout)
        assert (value["end"], value["error"], value["completion"]) == (None, None, None)
    else:
        assert stdout == ""


def test_the_demo_takes_some_seconds() -> None:
    assert 3 < sum(map(pauses, scripted_answers())) < 6
    assert sum(map(pauses, scripted_answers(speed=1000))) < 0.01


def pauses(answer: Answer) -> float:
    return sum(piece for piece in answer.body if isinstance(piece, float))


# The command itself


def test_the_commands_are_listed() -> None:
    result = run("--help")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.startswith("Usage: chunkfold ")
    assert "\n    chunkfold demo  " in result.stdout
    assert all(f"\n  {name}  " in result.stdout for name in chunkfold.commands)


def test_without_a_command_the_help_is_an_error() -> None:
    result = run()
    assert (result.stdout, result.stderr, result.exit_code) == ("", run("--help").stdout, 2)


# An example and an exit code that the help of a command has.
HELP = {
    "doctor": ("https://api.openai.com/v1 -m gpt-5-mini", ""),
    "inspect": ("body.sse --only anomalies --rules", "7  it was cut off without an error"),
    "record": ("", "5  the connection broke"),
    "replay": ("", "5  the connection broke"),
    "report": ("answer.jsonl -o report.html", "0  the report was written, however the streams ended"),
}


@pytest.mark.parametrize("command", HELP)
def test_help_has_examples_and_the_exit_codes(command: str) -> None:
    example, exit_code = HELP[command]
    said = run(command, "--help").stdout
    assert f"\n    chunkfold {command} {example}" in said
    assert exit_code in said


def test_it_is_a_module_too_whose_help_is_the_same_without_docstrings() -> None:
    plain, optimised = (piped(*flags, "-m", "chunkfold", "-h", command=sys.executable) for flags in ([], ["-OO"]))
    assert plain.stdout.startswith("Usage: chunkfold ")
    assert optimised == plain


def test_help_loads_none_of_the_libraries_that_take_long_and_reading_files_no_client() -> None:
    script = (
        "import sys\n"
        "from chunkfold.cli.app import chunkfold\n"
        "for command in ('', *chunkfold.commands):\n"
        "    chunkfold([*command.split(), '--help'], standalone_mode=False)\n"
        "    print('loaded:', command, {'pydantic', 'httpx', 'rich', 'asyncio'} & sys.modules.keys())\n"
        "import chunkfold.cli.fold, chunkfold.cli.inspect, chunkfold.cli.replay, chunkfold.cli.report, chunkfold.cli.serve\n"
        "print('loaded: files', {'httpx', 'httpx2', 'h11'} & sys.modules.keys())"
    )
    loaded = re.findall("^loaded: .*", piped("-c", script, command=sys.executable).stdout, re.MULTILINE)
    assert loaded == [f"loaded: {command} set()" for command in ("", *chunkfold.commands, "files")]


def test_errors_and_lists_are_wrapped_between_words_on_a_terminal() -> None:
    shown = on_a_terminal("chat", "127.0.0.1:9/v1", "-m", "m", "Hi", width=50).rows
    assert shown[-3:-1] == ["Error: URL: expected http://HOST[:PORT]/..., did", "you mean http://127.0.0.1:9/v1?"]
    shown = on_a_terminal("doctor", "--list", width=50).rows
    assert shown[2:4] == ["parallel-tools     two calls of a tool in one", "                   answer"]


def test_the_version_of_the_sources_alone_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(sys.modules["chunkfold"]), "__version__", "0+unknown")
    assert run("--version").stdout == "chunkfold, version 0+unknown\n"


BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from chunkfold.cli import main
sys.argv = ["chunkfold", "demo"]
main()
"""


@pytest.mark.parametrize("name", ["click", "rich"])
def test_without_the_extra_one_line_says_what_to_install(name: str) -> None:
    told = f'chunkfold: the command line needs {name}: pip install "chunkfold[cli]"\n'
    assert piped("-c", BLOCK.format(name=name), command=sys.executable) == ("", told, 1)


def test_without_something_else_the_error_stays_what_it_is() -> None:
    result = piped("-c", BLOCK.format(name="pydantic"), command=sys.executable)
    assert result.exit_code == 1
    *_, last = result.stderr.splitlines()
    assert last.startswith("ModuleNotFoundError: No module named 'pydantic'")  # 3.15 adds a guess


# Drawing

EVIL = "a\x1b[2Jb\x07\x9b1m\u202e\ud800\r"
EVIL_SHOWN = r"a\x1b[2Jb\x07\x9b1m\u202e\ud800"
ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_control_characters_are_made_visible() -> None:
    assert harmless(f"{EVIL}\n\té") == f"{EVIL_SHOWN}\n\té"
    assert one_line(f"{EVIL}\n\té") == rf"{EVIL_SHOWN}\n\té"
    everything = "".join(map(chr, range(0x3000)))
    assert json.loads(json_line({"a": everything})) == {"a": everything}
    assert not ACTING.search(re.sub("[\t\n]", "", harmless(everything)))
    assert not ACTING.search(one_line(everything) + json_line(everything))
    assert one_line(everything).isascii() is False


def test_open_calls_fill_in_below_the_text() -> None:
    console = terminal(40)
    with LiveView(console, frame=0) as answer:
        answer.add("Both at on")
        answer.show_tool_calls([Call("f", '{"a": ')])
        assert screen_of(written_to(console), 40) == ["Both at on", "", 'tool call: f {"a":']
        answer.show_tool_calls([Call("f", '{"a": '), Call("g", '{"long": "' + "x" * 30)])
        answer.add("ce.")
        assert screen_of(written_to(console), 40) == [
            "Both at once.",
            "",
            'tool call: f {"a":',
            'tool call: g {"long":',
            '"' + "x" * 30,
        ]
        answer.show_tool_calls([Call("f", '{"a": 1}'), Call("g", "x" * 1000)])
        assert "..." + "x" * 37 in screen_of(written_to(console), 40)
    drawn = screen_of(written_to(console), 40)
    assert drawn[:4] == ["Both at once.", "", 'tool call: f {"a": 1}', "tool call: g"]
    assert "".join(drawn[4:]) == "x" * 1000
