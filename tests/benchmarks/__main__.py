"""How fast chunkfold is, as ratios measured in one run.

    uv run python tests/benchmarks                           # everything that this environment can measure
    uv run python tests/benchmarks --quick --only folding    # whether it works, in a few seconds
    uv run python tests/benchmarks --check                   # whether anything became slower
    uv run python tests/benchmarks --write                   # and put the tables and the chart into docs

Some comparisons need libraries of the group `peers`, beside which the newest openai does not fit. They come from a run
of their own; with `--write` the tables keep what the other run measured:

    uv run --isolated --no-default-groups --group peers python tests/benchmarks --only framing peers --write
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import chart
import checking
import concurrency
import folding
import framing
import growth
import importing
import memory
import peers
import report
import short
import telemetry
from measuring import FULL, QUICK, Figure, Scale, complaints, machine

DOCS = Path(__file__).parents[2] / "docs"
PARTS: dict[str, Callable[[Scale], Iterator[Figure]]] = {
    "folding": folding.measure,
    "framing": framing.measure,
    "peers": peers.measure,
    "growth": growth.measure,
    "memory": memory.measure,
    "short": short.measure,
    "telemetry": telemetry.measure,
    "concurrency": concurrency.measure,
    "import": importing.measure,
}


def main() -> int:
    options = _options()
    results = report.load()
    if options.check:
        lines = checking.slower(results, options.most)
        print("\n".join(lines) or "nothing is slower than the figures that are kept")
        return 1 if lines or complaints else 0
    if not options.render:
        print(", ".join(f"{name} {value}" for name, value in machine().items()), end="\n\n")
        for name in options.only or PARTS:
            found = list(PARTS[name](QUICK if options.quick else FULL))
            print(report.plain_text(found), flush=True)
            new = report.Part(machine(), found)
            results[name] = results[name].updated_with(new) if name in results else new
    if options.write:
        report.save(results)
        results = report.load()  # as they were kept: rounded
    if options.write or options.render:
        report.write_page(options.docs / "performance.md", results)
        (options.docs / "performance.svg").write_text(chart.svg(results), "utf-8")
    for line in complaints:
        print(f"WRONG: {line}")
    return 1 if complaints else 0


def _options() -> argparse.Namespace:
    description, _, epilog = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        "tests/benchmarks",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small streams, one round: only to see that it works")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="keep the figures, and put them into the documentation")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing, make the documentation of what was kept"
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether folding is slower than the figures that were kept"
    )
    parser.add_argument(
        "--most", type=float, default=1.25, metavar="TIMES", help="how much slower --check allows (default: 1.25)"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder with performance.md")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick measures too little to be written")
    return options


if __name__ == "__main__":
    sys.exit(main())
