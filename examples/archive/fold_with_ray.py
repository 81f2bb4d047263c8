# mypy: disable-error-code="import-not-found"
"""Fold an archive of recorded streams with Ray Data on this machine, and ask DuckDB about the table.

    uv run --isolated --no-default-groups --group scale python examples/archive/fold_with_ray.py [FOLDER [TABLE]]

FOLDER has the recordings, a file each; without it a few are made. TABLE is the folder for the Parquet files.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # one machine, so it listens on 127.0.0.1 alone
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # workers use this environment, not one of their own
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent
try:
    import duckdb
    import pyarrow as pa
    import ray
    import ray.data
except ImportError as missing:
    command = "uv run --isolated --no-default-groups --group scale python examples/archive/fold_with_ray.py"
    print(f"This example needs {missing.name}, which is not installed. Run it with: {command}", file=sys.stderr)
    sys.exit(2)

from _recordings import make_archive

from chunkfold.archive import arrow_schema, fold_record

SCHEMA = pa.schema([pa.field("file", pa.string()), *arrow_schema()])
QUESTIONS = {
    "How did the streams end?": "SELECT model, ending, count(*) AS streams FROM archive GROUP BY ALL ORDER BY ALL",
    "How many tokens, how fast?": """
        SELECT model, sum(prompt_tokens) AS prompt, sum(completion_tokens) AS completion,
            round(quantile_cont(first_chunk_seconds, 0.5), 3) AS p50,
            round(quantile_cont(first_chunk_seconds, 0.95), 3) AS p95
        FROM archive WHERE complete GROUP BY model ORDER BY model""",
    "Which tools were called?": """
        SELECT call.name, count(*) AS calls FROM (SELECT unnest(tool_calls) AS call FROM archive) GROUP BY ALL""",
    "What could not be read?": "SELECT file, error FROM archive WHERE ending IS NULL ORDER BY file LIMIT 5",
}


def fold(batch: Any) -> Any:
    """One batch of files to as many rows, all with the same schema."""
    files = zip(batch["path"].to_pylist(), batch["bytes"].to_pylist(), strict=True)
    rows = [{"file": Path(path).name, **fold_record(data)} for path, data in files]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def main(folder: Path, table: Path) -> None:
    """Fold every file of the folder, and answer the questions."""
    context = ray.init(
        address="local",
        num_cpus=min(4, os.cpu_count() or 1),
        object_store_memory=256 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
    )
    print(f"Ray listens on {context.address_info['node_ip_address']}\n")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        files = ray.data.read_binary_files(str(folder), include_paths=True)
        files.map_batches(fold, batch_format="pyarrow", batch_size=64).write_parquet(str(table))
    finally:
        ray.shutdown()
    duckdb.sql(f"CREATE VIEW archive AS FROM read_parquet('{table}/*.parquet')")
    for question, query in QUESTIONS.items():
        print(f"{question}\n{duckdb.sql(query)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        given = [Path(argument) for argument in sys.argv[1:]]
        main(given[0] if given else make_archive(Path(scratch, "archive")), (given[1:] or [Path(scratch, "table")])[0])
