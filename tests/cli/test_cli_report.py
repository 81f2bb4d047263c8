"""`chunkfold report`, as a person runs it: which files it writes, what it says, and what it refuses."""

import json
import os
from pathlib import Path

import pytest
from command_line import Ran, run
from made_recordings import CUT, HOSTILE, PLAIN, WHOLE


def report(*arguments: str, stdin: bytes = b"") -> Ran:
    return run("report", *arguments, stdin=stdin)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    WHOLE.save(tmp_path / "whole.jsonl")
    CUT.save(tmp_path / "cut.jsonl")
    (tmp_path / "plain.sse").write_bytes(PLAIN.body)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_it_writes_a_page_and_says_so() -> None:
    result = report("whole.jsonl", "-o", "report.html")
    page = Path("report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")
    assert "<title>whole.jsonl - chunkfold report</title>" in page
    size = round(len(page.encode()) / 1000)
    told = f"wrote report.html: 1 recording, {size} kB\n"
    assert result == ("", told, 0)


@pytest.mark.usefixtures("folder")
def test_it_ends_well_however_the_streams_did() -> None:
    result = report("cut.jsonl", "whole.jsonl", "plain.sse", "-o", "report.html")
    assert result.exit_code == 0
    assert "3 recordings" in result.stderr
    page = Path("report.html").read_text("utf-8")
    assert "interrupted" in page
    assert "<title>3 streams - chunkfold report</title>" in page


@pytest.mark.usefixtures("folder")
def test_it_writes_a_trace_with_or_without_a_page() -> None:
    assert report("whole.jsonl", "--trace", "alone.json").exit_code == 0
    result = report("whole.jsonl", "-o", "both.html", "--trace", "both.json")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["wrote both.html", "wrote both.json"]
    alone, both = (json.loads(Path(name).read_bytes()) for name in ("alone.json", "both.json"))
    assert alone == both
    assert {event["ph"] for event in alone["traceEvents"]} == {"M", "X", "i"}


@pytest.mark.usefixtures("folder")
def test_what_has_no_times_is_not_in_a_trace_and_that_is_said() -> None:
    mixed = report("whole.jsonl", "plain.sse", "--trace", "trace.json")
    assert mixed.exit_code == 0
    assert mixed.stderr.startswith("plain.sse: not in the trace, because it has no times\n")
    alone = report("plain.sse", "--trace", "none.json")
    assert alone.exit_code == 1
    assert alone.stderr == "Error: --trace: no times were recorded, so there is nothing to trace\n"
    assert not Path("none.json").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["whole.jsonl"], "expected -o, for a page, --trace or --motion"),
        (["whole.jsonl", "-o", "x", "--trace", ""], "'--trace': expected the name of a file, received an empty one"),
        ([], "Missing argument 'FILE...'"),
        (["-", "-", "-o", "x.html"], 'expected "-" once'),
        *(
            (
                ["whole.jsonl", "-o", name, "--trace", name],
                "-o, --trace and --motion: expected different files, received the same one twice",
            )
            for name in ("x", "-")
        ),
        (["whole.jsonl", "-o", "./whole.jsonl"], "expected an output file that is not an input file"),
        (["cut.jsonl", "whole.jsonl", "--trace", "cut.jsonl"], "expected an output file"),
    ],
)
def test_wrong_use_is_told_and_nothing_is_written(arguments: list[str], told: str) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    result = report(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["whole.jsonl", "-o", "none/x.html"], "Error: none/x.html: No such file or directory\n"),
        (["whole.jsonl", "--trace", "."], "Error: .: Is a directory\n"),
    ],
)
def test_what_cannot_be_written_is_told_in_one_line(arguments: list[str], told: str) -> None:
    result = report(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("file", ["picture.png", "-"])
def test_a_binary_is_refused(file: str) -> None:
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    Path("picture.png").write_bytes(picture)
    result = report(file, "-o", "report.html", stdin=picture)
    told = f"Error: {file}: expected a recording or the body of a stream, received binary data\n"
    assert result == ("", told, 1)
    assert not Path("report.html").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a file system that takes any name")
def test_the_name_of_a_file_does_nothing_to_the_page_nor_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = HOSTILE.replace("\x00", "").replace("/", "") + ".jsonl"
    WHOLE.save(name)
    result = report(name, "-o", f"{name}.html")
    assert result.exit_code == 0
    assert result.stderr.isprintable() or result.stderr[:-1].isprintable()
    assert "<script" not in Path(f"{name}.html").read_text("utf-8")
