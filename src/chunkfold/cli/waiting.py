"""What is going on while nothing is drawn: a line on standard error that goes again, if that is a terminal."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from chunkfold.cli.safe import one_line
from chunkfold.cli.view import console_on


@contextmanager
def waiting_for(what: str) -> Generator[Callable[[str], object]]:
    """Show for what, and for how long; what is given is called with something else to say."""
    console = console_on(sys.stderr)
    if not console.is_interactive:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(f"waiting for {one_line(what)}", total=None)
        yield lambda told: progress.update(task, description=one_line(told))
