"""A function over many items in several processes, with the results in the items' order.

Each process has one item at a time, so that a process that dies (it was killed, memory ran out) loses only that item,
and it is known which one. Ctrl-C reaches only this process, which kills the others.
"""

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Started from scratch: a fork of a process that has threads can hang.
_CONTEXT: Final = multiprocessing.get_context("spawn")
_AHEAD: Final = 64  # results kept per process while the oldest one is missing


class Lost(NamedTuple):
    """The result of an item whose process died."""

    exit_code: int | None  # negative for the signal that ended it

    def __str__(self) -> str:
        """In words."""
        code = self.exit_code
        if code is None or code >= 0:
            return f"the process that read it ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process that read it was ended by {name}, perhaps for lack of memory"


def in_processes(function: Callable[[T], R], items: Iterable[T], count: int) -> Generator[R | Lost]:
    """The function's results, in the order of the items; all of these can be pickled.

    Close the generator to end its processes at once.
    """
    queue = enumerate(items)
    upcoming = next(queue, None)
    free: list[_Worker[T, R]] = []
    busy: dict[Any, _Worker[T, R]] = {}
    results: dict[int, R | Lost] = {}
    wanted = 0
    try:
        free.extend(_Worker(function) for _ in range(count))
        while upcoming or busy:
            while upcoming and free and upcoming[0] < wanted + count * _AHEAD:
                worker = free.pop()
                worker.begin(*upcoming)
                busy[worker.connection] = worker
                upcoming = next(queue, None)
            for connection in wait(list(busy)):
                worker = busy.pop(connection)
                results[worker.index] = worker.result()
                free.append(worker)
            while wanted in results:
                yield results.pop(wanted)
                wanted += 1
    finally:
        for worker in (*free, *busy.values()):
            worker.kill()


class _Worker(Generic[T, R]):
    """A process that calls the function with one item after the other, and is replaced if it dies."""

    def __init__(self, function: Callable[[T], R]) -> None:
        self.index = 0
        self._function = function
        self._start()

    def begin(self, index: int, item: T) -> None:
        """Begin with an item, in a new process if the last one has died."""
        self.index = index
        try:
            self.connection.send(item)
        except OSError:
            self.kill()
            self._start()
            with suppress(OSError):  # it died at once: `result` reports that
                self.connection.send(item)

    def result(self) -> R | Lost:
        """The result of the item."""
        try:
            result: R = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            return Lost(self._process.exitcode)
        return result

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self.connection.close()

    def _start(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_work, args=(self._function, theirs), daemon=True)
        with _interrupts_held():
            self._process.start()
        theirs.close()


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Block Ctrl-C for processes that are started inside; this process receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it with the first process would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(function: Callable[[Any], Any], connection: Connection) -> None:
    """Serve items in the process until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems without signal masks
    with suppress(EOFError, OSError):
        while True:
            connection.send(function(connection.recv()))
