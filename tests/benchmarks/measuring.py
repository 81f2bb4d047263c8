"""How all of this is measured: ratios within one run.

A figure is never a time. What is compared takes turns, round by round, in one process (the order turned around each
time), and the figure is the ratio of the least times. The time is the processor's, and what else runs on the machine
only ever adds to it: of a stream that was measured six times beside other work, ratios of the least times differed by 3 %,
medians of the rounds' ratios by 9 %. The garbage collector runs as it does for users, after a full collection before
each turn.
"""

import gc
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from time import process_time
from typing import Literal

complaints: list[str] = []
NEAR = 1.1  # a figure within a tenth of its target is near it


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    Attributes:
        rounds: How many turns each has.
        chunks: How many chunks a stream has.
        is_quick: Whether all that counts is that it works.
    """

    rounds: int
    chunks: int
    is_quick: bool = False

    def smaller(self, times: int) -> int:
        """So many times fewer chunks, for what is slow."""
        return max(self.chunks // times, 20)


FULL = Scale(rounds=7, chunks=20_000)
QUICK = Scale(rounds=1, chunks=400, is_quick=True)


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure is meant to be; only shown, never enforced: a figure says little about another machine."""

    kind: Literal["at most", "at least"]
    limit: float

    def excess(self, value: float) -> float:
        """How many times too much it is; 1 or less is as it should be."""
        return value / self.limit if self.kind == "at most" else self.limit / value

    def verdict(self, value: float) -> str:
        excess = self.excess(value)
        return "pass" if excess <= 1 else "near" if excess <= NEAR else "miss"

    def __str__(self) -> str:
        return f"{self.kind} {self.limit:.3g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell of one table.

    Attributes:
        table: The table.
        row: The cells at the beginning of its row, which name it.
        column: The heading of its column.
        value: A ratio or a size; a whole number is a count.
        target: What it is meant to be, if anything.
        needs: What has to be there to measure it and may be missing: a library, or the recordings.
    """

    table: str
    row: tuple[str, ...]
    column: str
    value: float
    target: Target | None = None
    needs: str = ""

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """Its place: the table, the row and the column."""
        return self.table, self.row, self.column


def at_most(limit: float) -> Target:
    return Target("at most", limit)


def at_least(limit: float) -> Target:
    return Target("at least", limit)


def least_times(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run all of them by turns; return how long each took at least, in seconds."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    order = list(subjects)
    for _ in range(rounds):
        for name in order:
            times[name].append(seconds(subjects[name]))
        order.reverse()
    return {name: min(of_name) for name, of_name in times.items()}


def seconds(subject: Callable[[], object]) -> float:
    """The processor time that a call takes."""
    gc.collect()
    start = process_time()
    result = subject()
    end = process_time()
    del result  # what it costs to let go of it is not counted
    return end - start


def say(line: str) -> None:
    """Show what is being done; the tables alone go to the standard output."""
    print(line, file=sys.stderr, flush=True)


def complain(line: str) -> None:
    """Something that is compared is wrong, so that it has no figure; the command will fail."""
    complaints.append(line)
    say(f"WRONG: {line}")


def machine() -> dict[str, str]:
    """What a reader must know of the machine."""
    return {
        "cores": str(os.cpu_count()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "pydantic": version("pydantic"),
        "httpx": version("httpx"),
    }
