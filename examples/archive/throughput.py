# mypy: disable-error-code="import-not-found"
"""How many recorded streams one core folds in a second, and what that means for a billion of them.

    python examples/archive/throughput.py [FOLDER]

FOLDER has plain bodies or recordings, a file each; without it answers of 500 words are made. They are measured as plain
bodies, and as recordings with a read for each event. For a FOLDER it also prints the size of the table, with pyarrow.
"""

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from chunkfold import EventStreamDecoder
from chunkfold.archive import arrow_schema, fold_record
from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import sse

LEAST = 2.0  # seconds of CPU time


def made_body() -> bytes:
    """An answer of 500 words, one in each chunk of about 300 bytes."""
    head: dict[str, Any] = {"id": f"chatcmpl-{'x' * 29}", "object": "chat.completion.chunk", "created": 1_700_000_000}
    head |= {"model": "gpt-5-mini-2025-08-07", "service_tier": "default", "system_fingerprint": "fp_0123456789"}

    def chunk(finish_reason: str | None = None, **delta: str) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]}

    words = 125 * ["the", "clocks", "were", "striking"]
    return b"".join(sse(*(chunk(content=f" {word}") for word in words), chunk("stop")))


def recorded(body: bytes) -> bytes:
    """A plain body as a recording that has each event in a read of its own, one every 20 ms."""
    starts = [event.offset for event in EventStreamDecoder().feed(body)]
    bounds = sorted({0, *starts, len(body)})
    reads = tuple(RecordedRead(at / 50, body[start:end]) for at, (start, end) in enumerate(pairwise(bounds), 1))
    return Recording(reads, headers_at=0.01, ended_at=len(reads) / 50).dumps()


def seconds_each(records: Sequence[bytes]) -> float:
    """The average CPU time of a record."""
    rounds, started = 0, time.process_time()
    while time.process_time() - started < LEAST:
        for record in records:
            fold_record(record)
        rounds += 1
    return (time.process_time() - started) / rounds / len(records)


def print_table_size(records: Sequence[bytes]) -> None:
    """Print how many bytes of a Parquet file a row takes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([fold_record(record) for record in records], schema=arrow_schema())
    pq.write_table(table, file := BytesIO(), compression="zstd")
    row_group = pq.read_metadata(file).row_group(0)
    size = sum(row_group.column(number).total_compressed_size for number in range(row_group.num_columns))
    print(f"the table: {size / len(records):,.0f} bytes for each row; a billion: {size / len(records) / 1e3:.2f} TB")


def main(files: Sequence[bytes]) -> None:
    """Measure both kinds."""
    bodies = [Recording.loads(data).body for data in files if fold_record(data)["choices"]]
    for kind, records in (("plain bodies", bodies), ("recordings", [recorded(body) for body in bodies])):
        size, each = sum(map(len, records)) / len(records), seconds_each(records)
        print(
            f"{kind}: {len(records)} of {size / 1e3:.1f} kB on average; on one core {1 / each:,.0f} streams/s, "
            f"{size / each / 1e6:.1f} MB/s; a billion: {1e9 * each / 3600:,.0f} core hours, {size / 1e3:.1f} TB"
        )


if __name__ == "__main__":
    given = [path.read_bytes() for folder in sys.argv[1:] for path in sorted(Path(folder).iterdir()) if path.is_file()]
    main(given or [made_body()])
    if given and find_spec("pyarrow"):
        print_table_size(given)
