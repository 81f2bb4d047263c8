"""The benchmarks work, and the documentation says what they found. What they measure is no test's concern."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tests" / "benchmarks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PARTS = {
    "folding": ["Folding", "tool arguments", "fold()", "What each part costs"],
    "framing": ["Framing", "16 bytes", "httpx2"],
    "peers": ["openai", "tool arguments", "times chunkfold"],
    "growth": ["Growth", "empty lines", "at most 10.5", "Partial JSON"],
    "memory": ["Memory", "peak of the process", "pass"],
    "import": ["Import", "the whole process"],
    "short": ["A short stream", "read()"],
    "telemetry": ["Telemetry", "an observer", "spans and metrics"],
    "concurrency": ["Many streams", "chunkfold", "openai"],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.slow
def test_each_part_prints_its_tables(part: str) -> None:
    if part == "peers":
        pytest.importorskip("openai", reason="needs openai (group `dev`)")
    done = run("--quick", "--only", part)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in PARTS[part]:
        assert words in done.stdout
    assert done.stdout.startswith("cores ")
    assert part.rstrip("s") in done.stderr  # what is being done


def test_each_stream_has_figures_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong: a new stream had none, and comparing ended in a bare `KeyError`."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "benchmarks")
    folding, report = importlib.import_module("folding"), importlib.import_module("report")
    kept = {figure.row for figure in report.load()["folding"].figures if figure.table == "folding"}
    assert kept == set(folding.ROWS)


@pytest.mark.slow
def test_quick_figures_are_not_written() -> None:
    done = run("--quick", "--write")
    assert done.returncode == 2
    assert "too little" in done.stderr


@pytest.mark.slow
def test_the_page_and_the_chart_show_what_was_measured(tmp_path: Path) -> None:
    """No number was typed by hand: both come from the results as they were kept, byte for byte."""
    page, chart = "performance.md", "performance.svg"
    shutil.copy(DOCS / page, tmp_path)
    done = run("--render", "--docs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / page).read_text("utf-8") == (DOCS / page).read_text("utf-8")
    assert (tmp_path / chart).read_text("utf-8") == (DOCS / chart).read_text("utf-8")


@pytest.mark.slow
def test_a_page_without_a_place_for_a_table_is_refused(tmp_path: Path) -> None:
    text = (DOCS / "performance.md").read_text("utf-8").replace("<!-- benchmark: growth -->", "")
    (tmp_path / "performance.md").write_text(text, "utf-8")
    done = run("--render", "--docs", tmp_path)
    assert done.returncode == 1
    assert "expected places for" in done.stderr
