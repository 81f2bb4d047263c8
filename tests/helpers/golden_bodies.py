"""The bodies of `tests/golden`, by the names of their cases: `provider/case`."""

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.relative_to(GOLDEN).with_suffix("").as_posix() for path in GOLDEN.rglob("*.sse"))


def golden(case: str) -> bytes:
    return (GOLDEN / f"{case}.sse").read_bytes()
