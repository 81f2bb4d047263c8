"""`chunkfold fold` as a user runs it: many files of every kind, in a pipe and on a terminal, left and killed.

What comes of a file is compared with what `replay` gives for it, and what is printed for people with what they read.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE, Ran, on_a_terminal, piped, press_ctrl_c, run, started
from doc_blocks import keys_of, text_of
from worker_functions import double

from chunkfold import RULES, StreamEnd
from chunkfold.cli.facts import error_object
from chunkfold.cli.folding import Folded, Job, Problem, fold
from chunkfold.cli.workers import Lost, in_processes
from chunkfold.recording import RecordedRead, Recording, replay
from chunkfold.testing import DONE, StreamBuilder, choice, chunk, delta, fragment

HAS_PROC = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc, to find the processes that read files"
)
HAS_FIFOS = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


def said(*pieces: str) -> bytes:
    return StreamBuilder().text(*pieces).finish().done().body


WELL = said("Hello\n you")
CUT = StreamBuilder().text("Hel").body
FAILED = StreamBuilder().text("Hel").error("overloaded").body
TWO_ROLES = delta(role="assistant", content="a") + delta(role="model", content="a") * 2 + delta("stop") + DONE
CALLED = StreamBuilder().tool_call("add", '{"a":1}').finish().done().body
RESET = Recording((RecordedRead(0.1, CUT),), end="error", error="ReadError")
REFUSED = Recording((RecordedRead(0.1, b'{"error":{"message":"slow down"}}'),), status_code=429)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of each kind; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    bodies = {"a.sse": WELL, "b.sse": CUT, "c.sse": FAILED, "d.sse": TWO_ROLES, "e.sse": CALLED}
    for name, body in bodies.items():
        (tmp_path / name).write_bytes(body)
    RESET.save(tmp_path / "f.jsonl")
    REFUSED.save(tmp_path / "g.jsonl")
    return tmp_path


def fold_files(*arguments: str, **options: Any) -> Ran:
    return run("fold", *arguments, **options)


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# For programs


def test_json_has_a_line_for_each_file_in_their_order(folder: Path) -> None:
    names = ["g.jsonl", "a.sse", "f.jsonl", "b.sse", "c.sse", "d.sse", "e.sse"]
    output, _, code = fold_files("--json", *names)
    assert code == 0  # whatever the endings
    lines = lines_of(output)
    assert [line["file"] for line in lines] == names
    of_the_page = text_of("docs/fold-and-serve.md").partition("With `--json`")[2].partition("\n##")[0]
    assert list(lines[0]) == list(keys_of(of_the_page, "key", "what it says"))
    for line in lines:
        parser = replay(Recording.load(folder / line["file"]))
        error, snapshot = parser.error, parser.snapshot.model_dump(mode="json")
        assert line == {
            "file": line["file"],
            "end": parser.end,
            "error": error_object(error),
            "anomalies": {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies},
            "completion": snapshot if error is None else None,
            "snapshot": snapshot if error else None,
        }
    assert [line["end"] for line in lines] == [
        *("failed", "finished", "interrupted", "truncated", "failed", "finished", "finished")
    ]
    assert (lines[0]["error"]["type"], lines[0]["error"]["status_code"]) == ("APIStatusError", 429)
    assert (lines[2]["error"]["type"], lines[2]["error"]["retryable"]) == ("StreamInterruptedError", False)
    assert lines[5]["anomalies"] == {"CF204": 2}
    assert lines[3]["snapshot"]["choices"][0]["message"]["content"] == "Hel"


def test_json_leaves_the_summary_to_standard_error(folder: Path) -> None:
    colours = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}  # which are none but on a terminal
    output, errors, _ = fold_files("--json", *sorted(map(str, folder.iterdir())), **colours)
    assert "\x1b" not in output + errors
    assert len(output.splitlines()) == 7
    assert errors.splitlines()[1].startswith("7 files in ")
    assert errors.splitlines()[4].split() == ["finished", "3"]


def test_the_number_of_processes_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(120):
        (tmp_path / f"{number:03}.sse").write_bytes(said(f"{number}" * (2000 if number % 50 == 0 else 1)))
    (tmp_path / "100.sse").unlink()
    (tmp_path / "100.sse").mkdir()  # an empty folder in the middle
    (tmp_path / "110.sse").write_bytes(RESET.dumps().replace(b'"end"', b'"and'))
    (tmp_path / "111.sse").write_bytes(b'{"chunkfold_recording":9}\n')
    (tmp_path / "112.sse").unlink()
    names = [f"{number:03}.sse" if number != 60 else "-" for number in range(120)]
    one, other = (fold_files("--json", "--jobs", jobs, *names, stdin=RESET.dumps()) for jobs in ("1", "2"))
    assert one.stdout == other.stdout
    assert one.exit_code == other.exit_code == 1
    lines = lines_of(one.stdout)
    assert [line["file"] for line in lines] == names
    texts = [line["completion"] and line["completion"]["choices"][0]["message"]["content"] for line in lines]
    assert texts[119] == "119"
    assert texts[50] == "50" * 2000
    assert lines[60]["end"] == "interrupted"  # standard input


def test_what_cannot_be_read_does_not_stop_the_rest(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "damaged.jsonl").write_bytes(RESET.dumps().replace(b'"end"', b'"and'))
    too_long = "x" * 5000  # which no file can have as its name
    names = ["missing", "empty", "damaged.jsonl", too_long, "a.sse"]
    output, errors, code = fold_files("--json", "--jobs", "1", *names)
    *bad, good = lines_of(output)
    assert code == 1
    assert [(line["file"], line["end"], line["completion"], line["snapshot"]) for line in bad] == [
        (name, None, None, None) for name in names[:-1]
    ]
    types = ["FileNotFoundError", "IsADirectoryError", "ValueError", "OSError"]
    assert [line["error"]["type"] for line in bad] == types
    assert bad[0]["error"] == error_object(Problem("FileNotFoundError", "No such file or directory"))
    assert bad[1]["error"]["message"] == "a folder without files"
    assert "line 3" in bad[2]["error"]["message"]
    assert good["end"] == "finished"
    assert "unreadable       4" in errors


def test_a_folder_stands_for_the_files_in_it(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "deeper").mkdir()
    for name in ("x/2.txt", "x/1.sse", "x/.hidden", "x/deeper/3.sse"):
        (folder / name).write_bytes(WELL)
    output, _, _ = fold_files("--json", "x", "a.sse")
    assert [Path(line["file"]).as_posix() for line in lines_of(output)] == ["x/1.sse", "x/2.txt", "a.sse"]


TWICE = 'expected "-" once: standard input cannot be read again\n'
EMPTY = "expected the name of a file, received an empty one\n"


@pytest.mark.parametrize(
    ("command", "files", "told"),
    [
        *((command, ("-", "-"), TWICE) for command in ("fold", "serve")),
        *((command, ("",), EMPTY) for command in ("fold", "inspect", "replay", "report", "serve")),
    ],
)
def test_what_cannot_be_a_file_is_refused(command: str, files: tuple[str, ...], told: str) -> None:
    output, errors, code = run(command, *files, stdin=WELL)
    assert (output, code) == ("", 2)
    assert errors.endswith(told)


def test_json_is_utf_8_and_harmless_whatever_the_locale_is(folder: Path) -> None:
    text = "señor 日本 \x1b[31m \u202e \u2028"
    (folder / "x.sse").write_bytes(said(text))
    output, _, _ = fold_files("--json", "x.sse", encoding="ascii")
    assert output.count("\n") == 1
    assert output.strip().isprintable()
    assert lines_of(output)[0]["completion"]["choices"][0]["message"]["content"] == text


def test_a_number_that_json_does_not_have_is_null_in_every_command(folder: Path) -> None:
    """Was once wrong: `fold` wrote -Infinity, which is no JSON."""
    token = {"token": "a", "logprob": -math.inf}
    (folder / "x.sse").write_bytes(chunk({**choice("stop", content="a"), "logprobs": {"content": [token]}}) + DONE)
    for command in ("fold", "replay", "inspect"):
        last = run(command, "--json", "x.sse").stdout.splitlines()[-1]
        value = json.loads(last, parse_constant=pytest.fail)
        completion = value.get("verdict", value)["completion"]
        assert completion["choices"][0]["logprobs"]["content"][0]["logprob"] is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs names of files that are no text, which other systems refuse")
def test_a_name_that_is_no_text(folder: Path) -> None:
    name = b"\xff\x1b[31m.sse"
    Path(os.fsdecode(name)).write_bytes(WELL)
    output, _, code = piped("fold", "--json", "--jobs", "2", name, "a.sse")
    assert code == 0
    assert os.fsencode(lines_of(output)[0]["file"]) == name
    assert "\x1b" not in fold_files(os.fsdecode(name)).stdout
    assert folder


# For people


def test_lines_and_a_summary(folder: Path) -> None:
    output, errors, code = fold_files(*sorted(path.name for path in folder.iterdir()), "missing")
    assert (code, errors) == (1, "")
    lines = output.splitlines()
    assert lines[:8] == [
        "a.sse    finished     Hello you",
        f"b.sse    truncated    {replay(Recording.load('b.sse')).error}",
        "c.sse    failed       overloaded",
        "d.sse    finished     aaa",
        'e.sse    finished     add({"a":1})',
        f"f.jsonl  interrupted  {replay(RESET).error}",
        f"g.jsonl  failed       {replay(REFUSED).error}",
        "missing  unreadable   No such file or directory",
    ]
    assert lines[9].startswith("8 files in ")
    role = next(rule for rule in RULES if rule.id == "CF204")
    assert lines[10:] == [
        "",
        "ending       files",
        "finished         3",
        "truncated        1",
        "failed           2",
        "interrupted      1",
        "unreadable       1",
        "",
        "rule   files  times  deviation",
        f"CF204      1      2  {role.sentence}",
    ]


def test_what_a_model_says_does_nothing_to_a_terminal(folder: Path) -> None:
    (folder / "x.sse").write_bytes(said("\x1b]0;title\x07 red \x1b[31m\u202e[bold]x[/bold]"))
    output, _, _ = fold_files("x.sse")
    assert output.splitlines()[0] == r"x.sse  finished     \x1b]0;title\x07 red \x1b[31m\u202e[bold]x[/bold]"


def test_a_long_answer_is_cut(folder: Path) -> None:
    (folder / "x.sse").write_bytes(said("word " * 100_000))
    assert len(fold_files("x.sse").stdout.splitlines()[0]) < 250


@pytest.mark.parametrize("width", [40, pytest.param(80, marks=pytest.mark.slow)])
def test_on_a_terminal_each_file_has_one_row(folder: Path, width: int) -> None:
    long = "日本語のとても長い名前のファイル-with-a-tail.sse"
    (folder / long).write_bytes(said("日本語 🙂 " * 50))
    rows, _, _ = on_a_terminal("fold", "a.sse", "d.sse", long, width=width)
    assert rows[0].split() == ["a.sse", "finished", "Hello", "you"]
    assert rows[2].startswith("…")
    assert "tail.sse" in rows[2]
    assert "日本" in rows[2].partition("finished")[2]
    assert rows[4].startswith("3 files in ")
    role = next(rule for rule in RULES if rule.id == "CF204")
    assert role.sentence in " ".join(" ".join(rows[9:]).split())
    assert on_a_terminal("fold", "a.sse", "d.sse", width=1).exit_code == 0


@pytest.mark.slow
@HAS_FIFOS
def test_a_bar_shows_how_far_long_work_is_and_goes(folder: Path) -> None:
    os.mkfifo(folder / "slow")

    def write_late() -> None:
        with (folder / "slow").open("wb") as slow:  # as soon as it is being read
            time.sleep(1.0)  # the work is long now, and on a busy machine only longer
            slow.write(WELL)

    writing = threading.Thread(target=write_late)
    writing.start()
    with (folder / "output").open("wb") as output:
        _, written, _ = on_a_terminal("fold", "--json", "a.sse", "slow", "b.sse", width=60, stdout=output)
    writing.join()
    assert "folding" in written
    assert "2/3" in written or "3/3" in written
    assert written.index("3 files in") > written.rindex("\x1b[2K")  # the bar is erased before
    assert len(lines_of((folder / "output").read_text("utf-8"))) == 3


# Leaving, and dying


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that read files; Linux only."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split() if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def fifo(folder: Path) -> str:
    os.mkfifo(folder / "never")
    return "never"


@pytest.mark.slow
@HAS_PROC
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_all_processes_and_tells_what_had_come(fifo: str, jobs: str) -> None:
    with started("fold", "--jobs", jobs, "a.sse", fifo, "b.sse") as process:
        assert process.stdout.readline() == "a.sse  finished     Hello you\n"
        workers = workers_of(process)
        assert len(workers) == (2 if jobs == "2" else 0)
        output, errors, code = press_ctrl_c(process)
    assert (code, errors) == (130, "")
    assert output.splitlines()[1].startswith("1 of 3 files in ")
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
@HAS_PROC
def test_a_process_that_dies_costs_its_file_alone(fifo: str) -> None:
    with started("fold", "--json", "--jobs", "2", "a.sse", fifo, "b.sse", "c.sse") as process:
        process.stdout.readline()
        for pid in workers_of(process):  # one reads, the other has nothing to do any more
            os.kill(pid, signal.SIGKILL)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    died, *others = lines_of(output)
    assert (died["file"], died["end"], died["error"]["type"]) == (fifo, None, "Lost")
    assert "SIGKILL" in died["error"]["message"]
    assert {line["end"] for line in others if line["error"]["type"] != "Lost"} <= {"truncated", "failed"}
    assert "Traceback" not in errors


# The processes


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a process that ends itself by a signal")
def test_results_come_in_order_and_what_died_is_known() -> None:
    with closing(in_processes(double, range(40), 2)) as results:
        came = list(results)
    assert came == [Lost(3) if n == 13 else Lost(-signal.SIGTERM) if n == 17 else 2 * n for n in range(40)]
    assert "exit code 3" in str(came[13])
    assert "SIGTERM" in str(came[17])


@pytest.mark.slow
def test_items_are_taken_as_they_are_wanted() -> None:
    """A result that is late does not make all the others pile up."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in [100, *[1] * 10_000]:
            taken.append(number)
            yield number

    with closing(in_processes(double, items(), 2)) as results:
        assert next(results) == 200
    assert len(taken) < 150


@pytest.mark.parametrize(
    ("fields", "excerpt"),
    [
        ({"content": "text", "reasoning_content": "r"}, "text"),
        ({"reasoning_content": "why  not"}, "(reasoning) why not"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "f({})"),
        ({"refusal": "no"}, "no"),
        ({"audio": {"transcript": "spoken"}}, "spoken"),
        ({"tool_calls": [fragment(0, "1", "add", '{"a":1}')]}, 'add({"a":1})'),
        ({}, ""),
    ],
)
def test_the_excerpt_is_what_says_most(fields: dict[str, Any], excerpt: str) -> None:
    body = delta(role="assistant", **fields) + delta("stop") + DONE
    assert fold(Job("x", data=body)) == Folded("x", StreamEnd.FINISHED, {}, excerpt, "")
