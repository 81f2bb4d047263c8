"""An archive folded by an engine: the example runs with Ray Data, and its table is what `fold_record` says.

Run it with the engine: `uv run --isolated --group scale pytest -m slow tests/archive/test_scale.py`.
"""

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from chunkfold.archive import fold_record

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "archive"
PATIENCE = 300.0  # seconds, after which an engine that hangs fails
MISSING = [name for name in ("ray", "pandas", "pyarrow", "duckdb") if find_spec(name) is None]
needs_the_engine = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (group `scale`)")


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONUTF8": "1"} | variables,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def make_archive(folder: Path, count: int) -> Path:
    made: Path = runpy.run_path(str(EXAMPLES / "_recordings.py"))["make_archive"](folder, count)
    return made


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="r") as name:
        yield Path(name)


def test_the_archive_of_the_examples_has_every_kind_of_record(tmp_path: Path) -> None:
    rows = [fold_record(path.read_bytes()) for path in sorted(make_archive(tmp_path, 60).iterdir())]
    assert {row["ending"] for row in rows} == {
        *("finished", "truncated", "failed", "interrupted", "closed", "empty"),
        None,
    }
    assert {row["model"] for row in rows} == {"small-1", "large-2", None}
    assert {row["seconds"] is None for row in rows} == {True, False}
    assert any(row["tool_calls"] for row in rows)
    assert any(row["anomalies"] for row in rows if row["complete"])


@pytest.mark.parametrize("engine", ["ray", "duckdb", "pyarrow"])
def test_without_the_engine_the_example_says_what_to_do(engine: str) -> None:
    modules = dict.fromkeys(("ray", "ray.data", "duckdb", "pyarrow"), "types.ModuleType(name)") | {engine: "None"}
    stand_ins = "; ".join(f"name = {name!r}; sys.modules[name] = {value}" for name, value in modules.items())
    script = str(EXAMPLES / "fold_with_ray.py")
    done = run("-c", f"import sys, types, runpy; {stand_ins}; runpy.run_path({script!r}, run_name='__main__')")
    assert (done.stdout, done.returncode) == ("", 2)
    how = r"Run it with: uv run .* --group scale python examples/archive/fold_with_ray\.py\n"
    assert re.fullmatch(rf"This example needs {engine}, which is not installed\. {how}", done.stderr)


@pytest.mark.slow
@needs_the_engine
def test_the_table_of_the_example_is_what_fold_record_says(tmp_path: Path, short_folder: Path) -> None:
    folder, table = make_archive(tmp_path / "archive", 100), tmp_path / "table"
    (folder / "000100.sse").write_bytes(b"")
    done = run(EXAMPLES / "fold_with_ray.py", folder, table, RAY_TMPDIR=str(short_folder), HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Ray listens on 127.0.0.1\n")
    assert re.search(r"│ large-2 +│ truncated +│ +\d │", done.stdout)
    rows = rows_of(table)
    assert rows == [{"file": path.name, **fold_record(path.read_bytes())} for path in sorted(folder.iterdir())]
    assert_the_page_can_be_asked(table)


def rows_of(table: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet

    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(table).to_pylist()
    return sorted(rows, key=lambda row: str(row["file"]))


def assert_the_page_can_be_asked(table: Path) -> None:
    """Each query of the page gives rows."""
    import duckdb

    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    queries = re.findall(r"^```sql\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(queries) >= 5
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW archive AS FROM read_parquet('{table}/*.parquet')")
        for query in queries:
            assert connection.execute(query).fetchall(), query


@pytest.mark.slow
def test_the_throughput_of_a_core_is_told(tmp_path: Path) -> None:
    done = run(EXAMPLES / "throughput.py", make_archive(tmp_path / "archive", 20))
    assert (done.stderr, done.returncode) == ("", 0)
    told = r"on one core [\d,]+ streams/s, [\d.]+ MB/s; a billion: [\d,]+ core hours, [\d.]+ TB\n"
    table = r"the table: \d+ bytes for each row; a billion: [\d.]+ TB\n" if find_spec("pyarrow") else ""
    kinds = (rf"{kind}: 18 of [\d.]+ kB on average; {told}" for kind in ("plain bodies", "recordings"))
    assert re.fullmatch("".join(kinds) + table, done.stdout)
