"""`chunkfold fold`: many recordings or plain bodies to their completions, in parallel."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from chunkfold import RULES, StreamEnd
from chunkfold.cli.consoles import console_on, print_beside, print_row, standard_output
from chunkfold.cli.facts import Problem, StreamResult
from chunkfold.cli.folding import Folded, Job, folded
from chunkfold.cli.folding import fold as fold_job
from chunkfold.cli.safe import one_line
from chunkfold.cli.signals import LEFT
from chunkfold.cli.workers import Lost, in_processes
from chunkfold.excerpts import counted

_BYTES_FOR_ONE: Final = 8 * 2**20  # folded in less time than it takes to start one more process
_LONGEST_NAME: Final = 40  # cells of a file's name, unless on a terminal
_UNREADABLE: Final = "unreadable"
_ENDINGS: Final = (*StreamEnd, _UNREADABLE)
_END_WIDTH: Final = max(map(len, _ENDINGS))
_GAP: Final = "  "


def fold(files: tuple[str, ...], *, as_json: bool, jobs: int | None) -> int:
    """Show the result of every file, and the summary; return the exit code."""
    run = _Run([job for file in files for job in _jobs_for(file, as_json=as_json)], as_json=as_json)
    is_over = False
    with suppress(KeyboardInterrupt):
        with _bar(len(run.jobs), run.output) as advance, closing(_results(run, jobs)) as results:
            for result in results:
                run.show(result)
                advance()
        is_over = True
    with suppress(KeyboardInterrupt):
        run.summarise()
        return int(run.endings[_UNREADABLE] > 0) if is_over else LEFT
    return LEFT


def _jobs_for(file: str, *, as_json: bool) -> Iterator[Job]:
    """The file, or the files in a folder, each with the problem that is found before it is read, if there is one."""
    folder = Path(file)
    try:
        if file == "-" or not folder.is_dir():
            yield Job(file, as_json)
            return
        found = sorted(entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    except OSError as error:
        yield Job(file, as_json, problem=Problem(type(error).__name__, error.strerror or ""))
        return
    yield from (Job(str(entry), as_json) for entry in found)
    if not found:
        yield Job(file, as_json, problem=Problem("IsADirectoryError", "a folder without files"))


class _Run:
    """Shows the results of many files, and counts them."""

    def __init__(self, jobs: list[Job], *, as_json: bool) -> None:
        self.jobs = jobs
        self.as_json = as_json
        self.output = standard_output()
        self.endings = Counter[str]()
        self._files, self._times = Counter[str](), Counter[str]()  # that broke a rule; how often it was broken
        self._started = time.monotonic()
        longest = max(cell_len(one_line(job.file)) for job in jobs)
        is_live = self.output.is_interactive
        self._name_width = min(longest, max(1, self.output.width * 2 // 5) if is_live else _LONGEST_NAME)
        self._excerpt_width = self.output.width - self._name_width - _END_WIDTH - 2 * len(_GAP) if is_live else None

    def show(self, result: Folded) -> None:
        """Show and count a result."""
        self.endings[result.end or _UNREADABLE] += 1
        self._files.update(result.anomalies.keys())
        self._times.update(result.anomalies)
        if not self.as_json:
            print_row(self.output, self._row(result))
        elif self.output.is_interactive:  # above the bar
            self.output.print(Text(result.json), soft_wrap=True)
        else:
            click.echo(result.json.encode())  # in UTF-8, whatever the locale's encoding is

    def summarise(self) -> None:
        """How many streams ended in which way, and which rules they broke."""
        console = console_on(sys.stderr) if self.as_json else self.output
        read, all_ = self.endings.total(), len(self.jobs)
        of_all = "" if read == all_ else f"{read:,} of "
        heading = f"{of_all}{counted(all_, 'file')} in {time.monotonic() - self._started:.1f} s"
        rows = [Text(), Text(heading, "bold")]
        if read:
            rows += [Text(), Text(f"{'ending':{_END_WIDTH}}{_GAP}files", "dim")]
        for end in (*StreamEnd, None):
            if count := self.endings[end or _UNREADABLE]:
                rows.append(Text.assemble((f"{end or _UNREADABLE:{_END_WIDTH}}", _style_of(end)), f"{_GAP}{count:5,}"))
        if self._files:
            rows += [Text(), Text(_GAP.join(("rule ", "files", "times", "deviation")), "dim")]
        for row in rows:
            print_row(console, row)
        sentences = {rule.id: rule.sentence for rule in RULES}
        for rule_id, files in sorted(self._files.items()):
            head = f"{rule_id}{_GAP}{files:5,}{_GAP}{self._times[rule_id]:5,}{_GAP}"
            print_beside(console, Text(head), Text(sentences[rule_id]))

    def _row(self, result: Folded) -> Text:
        name, excerpt = one_line(result.file), Text(result.excerpt)
        if self._excerpt_width is not None:  # only on a terminal: the full name may be needed in a file
            name = _last_cells(name, self._name_width)
            excerpt.truncate(max(1, self._excerpt_width), overflow="ellipsis")
        name += " " * (self._name_width - cell_len(name))
        ended = f"{result.end or _UNREADABLE:{_END_WIDTH}}"
        return Text.assemble(name, _GAP, (ended, _style_of(result.end)), _GAP, excerpt)


def _results(run: _Run, jobs: int | None) -> Generator[Folded]:
    count = min(len(run.jobs), jobs or _worthwhile_processes(run.jobs))
    ready = (replace(job, data=sys.stdin.buffer.read()) if job.file == "-" else job for job in run.jobs)
    if count == 1:
        yield from map(fold_job, ready)
        return
    with closing(in_processes(fold_job, ready, count)) as results:
        for job, result in zip(run.jobs, results, strict=True):
            yield folded(job, StreamResult(Problem("Lost", str(result)))) if isinstance(result, Lost) else result


def _worthwhile_processes(jobs: Sequence[Job]) -> int:
    """One process for each CPU, but not for a few bytes."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = 0
    for job in jobs:
        with suppress(OSError):
            size += Path(job.file).stat().st_size
    return max(1, min(cpus, size // _BYTES_FOR_ONE))


@contextmanager
def _bar(total: int, output: Console) -> Generator[Callable[[], object]]:
    """A progress bar on standard error, if that is a terminal; results on the same terminal scroll above it."""
    errors = console_on(sys.stderr)
    columns = (TextColumn("folding"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(
        *columns,
        console=output if output.is_interactive else errors,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=total == 1 or not errors.is_interactive,
    ) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _last_cells(name: str, width: int) -> str:
    """The name in at most `width` cells; the end of a long one, which differs between files."""
    if cell_len(name) <= width:
        return name
    start = next(start for start in range(len(name) + 1) if cell_len(name[start:]) < width)
    return f"…{name[start:]}"


def _style_of(end: StreamEnd | None) -> str:
    return "green" if end is not None and end.complete else "yellow" if end is StreamEnd.CLOSED else "red"
