"""`python -m chunkfold.testing`: what it says of clients where no other library is installed, and of wrong use."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import text_of

from chunkfold.testing import HostileStream, hostile_streams
from chunkfold.testing.__main__ import main, run
from chunkfold.testing.hostile.report import BEGIN, END

FEW = ("bom", "large-event", "html", "cut-in-event")


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {stream.name: stream for stream in hostile_streams()}

    def few(*, abuse: bool) -> tuple[HostileStream, ...]:
        return tuple(by_name[name] for name in (*FEW, *(["abuse-comments"] if abuse else [])))

    for place in ("peers", "report"):
        monkeypatch.setattr(f"chunkfold.testing.hostile.{place}.is_installed", lambda _: False)
    monkeypatch.setattr("chunkfold.testing.__main__.hostile_streams", few)


def test_what_is_not_installed_is_named_if_it_was_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("To compare with other libraries too: pip install openai langchain-openai litellm\n")
    assert main(["--no-peers"]) == 0
    assert "pip install" not in capsys.readouterr().out


# What a client gets wrong

TOY = """
async def hi(body):
    return {"text": "Hi", "tool_calls": []}

def broken(body):
    return {}["body"]

def careful(body):
    raise ValueError("only a part came")
"""


@pytest.fixture(name="toy")
def toy_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "toy_of_a_client.py").write_text(TOY, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "toy_of_a_client"


def test_complete_and_refused_streams_are_counted_apart(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    clients = [part for name in ("hi", "broken", "careful") for part in ("--client", f"{toy}:{name}")]
    assert main(["--no-peers", *clients, "--min", "2"]) == 1  # for which one of them is enough
    shown = capsys.readouterr().out
    rows = [re.split(r" {2,}", line) for line in shown.splitlines()[:5]]
    assert rows[0][1:] == ["complete streams read right", "streams that must be refused", "crashed instead"]
    assert rows[1:] == [
        ["chunkfold 0.1.0", "3 of 3", "2 of 2", "0"],
        [f"{toy}:hi", "2 of 3", "0 of 2", "0"],
        [f"{toy}:broken", "0 of 3", "0 of 2", "2"],
        [f"{toy}:careful", "0 of 3", "2 of 2", "0"],
    ]
    assert re.search(r"^  html +invalid +crashed: KeyError: 'body'$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("function", "least", "code"),
    [("hi", None, 1), ("hi", "2", 0), ("hi", "3", 1), ("broken", "0", 0), ("broken", "1", 1), ("careful", "2", 0)],
)
def test_the_exit_code_holds_what_is_right(toy: str, function: str, least: str | None, code: int) -> None:
    least_right = [] if least is None else ["--min", least]
    assert main(["--no-peers", "--client", f"{toy}:{function}", *least_right]) == code


def test_the_results_as_json(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-peers", "--client", f"{toy}:broken", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["streams"], [client["name"] for client in told["clients"]]) == (5, ["chunkfold", f"{toy}:broken"])
    mine = told["clients"][1]
    assert (mine["complete"], mine["refused"], mine["crashed"]) == (
        {"right": 0, "total": 3},
        {"right": 0, "total": 2},
        2,
    )
    assert mine["wrong"][2] == {
        "stream": "html",
        "ending": "invalid",
        "instead": "crashed: KeyError: 'body'",
        "crashed": True,
    }


def test_one_stream_in_full(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-peers", "--client", f"{toy}:broken", "--show", "bom"]) == 1
    head, mine = capsys.readouterr().out.split(f"\n{toy}:broken: ")
    assert head.startswith("bom: a byte order mark at the start (proxies on Windows)\n\nbody, ")
    assert r"\ufeffdata: {" in head
    assert "expected:\n  an answer\n  text: 'Hi'\n" in head
    assert "\nchunkfold 0.1.0: right\n  text: 'Hi'\n" in head
    assert mine.startswith("wrong: KeyError: 'body'\n")
    places = re.findall(r'File ".*[/\\](\w+)\.py", line \d+, in (\w+)', mine)
    assert places == [(toy, "broken")]  # no frame of the kit
    assert main(["--no-peers", "--client", f"{toy}:hi", "--show", "bom"]) == 0


def test_what_an_encoding_cannot_write_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    assert main(["--no-peers", "--markdown"]) == 0
    sys.stdout.flush()
    assert rb"\u2713" in written.getvalue()


def test_a_long_body_is_shown_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-peers", "--show", "large-event"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  \.\.\. \d+ bytes more$", shown, re.MULTILINE)
    assert len(shown) < 10_000


def test_the_cases_of_abuse_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    told = usage_error(capsys, "--no-abuse", "--show", "abuse-comments")
    assert told.startswith("--show: expected the name of a stream, such as bom, ")
    assert main(["--no-peers", "--show", "abuse-comments"]) == 0


@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), (b"no markers", "expected <!-- begin"), (b"\xff", "utf-8")])  # fmt: skip
def test_a_page_that_cannot_be_written_is_a_wrong_argument(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    if content is not None:
        page.write_bytes(content)
    assert re.match(f"--markdown: .*{message}", usage_error(capsys, "--markdown", str(page)))
    assert page.exists() is (content is not None)


def test_a_disk_that_is_full_is_told_like_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", "utf-8")
    monkeypatch.setattr(Path, "write_text", fail)
    assert usage_error(capsys, "--no-peers", "--markdown", str(page)) == "--markdown: No space left on device\n"


@pytest.mark.parametrize("path", ["nothing", "no_such_module:f", "json:no_such_name", "json:__name__"])
def test_a_client_that_cannot_be_loaded_is_a_wrong_argument(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error(capsys, "--client", path).startswith("--client: ")


def test_a_clients_file_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Was once wrong: a module was refused whose name is no identifier."""
    (tmp_path / "my-client.py").write_text("class Mine:\n    fold = len\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--no-peers", "--client", "my-client:Mine.fold"]) == 1
    assert "my-client:Mine.fold" in capsys.readouterr().out


def test_a_client_that_is_no_python_is_a_wrong_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half_a_client.py").write_text("def fold(body:\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert "half_a_client.py, line 1" in usage_error(capsys, "--client", "half_a_client:fold")
    assert "half_a_client" not in sys.modules


def test_the_page_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    options = set(re.findall("--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    said = text_of("docs/testing.md").partition("## The hostile set")[2].partition("\n## ")[0]
    assert set(re.findall("--[a-z][a-z-]+", said)) == options


def test_it_writes_the_tables_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nthe tables of before\n{END}\n\nafter\n", "utf-8")
    main(["--markdown", str(page)])
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n\n{BEGIN}\n\n| client |")
    assert text.endswith(f"|\n\n{END}\n\nafter\n")
    assert "the tables of before" not in text


def test_it_keeps_the_results_of_clients_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = (Path(__file__).parents[2] / "docs" / "hostile-streams.md").read_text("utf-8")
    page = tmp_path / "page.md"
    page.write_text(known, "utf-8")
    told = usage_error(capsys, "--markdown", str(page))
    assert "its results of langchain-openai, litellm, openai would be lost" in told
    assert page.read_text("utf-8") == known


def test_it_keeps_those_of_ones_own_client_and_of_a_pre_release(
    toy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Was once wrong: only clients with a plain version were looked for."""
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", "utf-8")
    main(["--no-peers", "--client", f"{toy}:hi", "--markdown", str(page)])
    written = page.read_text("utf-8").replace("| chunkfold | 0.1.0 |", "| other | 3.0.0rc1 |")
    page.write_text(written, "utf-8")
    told = usage_error(capsys, "--no-peers", "--markdown", str(page))
    assert f"its results of other, {toy}:hi would be lost" in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_is_full_is_one_line() -> None:
    command = [sys.executable, "-m", "chunkfold.testing", "--show", "bom", "--no-peers"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "python -m chunkfold.testing: error: standard output: No space left on device\n"
    assert (done.stderr, done.returncode) == (said, 1)


def test_an_output_that_is_closed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert run() == "python -m chunkfold.testing: error: standard output is closed"


def test_a_file_that_a_client_misses_is_not_called_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "client_without_its_file.py").write_text("open('/none/of/its/files')\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.argv", ["", "--client", "client_without_its_file:read"])
    with pytest.raises(FileNotFoundError, match="/none/of/its/files"):
        run()


def test_ctrl_c_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("chunkfold.testing.__main__.main", interrupted)
    assert run() == 130


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What it says where it ends with the exit code of wrong use."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err.partition(" error: ")[2]
