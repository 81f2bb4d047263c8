"""Nothing stays behind: no socket, no task, and nothing that is only told to a hook, a log or as a warning.

It compares before and after.
"""

import asyncio
import gc
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import trio


def open_sockets() -> set[str]:
    """The sockets of this process; none where nobody tells."""
    links: set[str] = set()
    if sys.platform == "linux":
        for descriptor in os.scandir("/proc/self/fd"):
            with suppress(OSError):  # that of the listing itself
                links.add(os.readlink(descriptor.path))  # noqa: PTH115 - pathlib takes far longer
    return {link for link in links if link.startswith("socket:")}


def living_tasks() -> int | set[Any]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living if trio.lowlevel.in_trio_run() else 0


class Told(logging.Handler):
    """What is told to nobody in particular."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def hear(self, *context: Any) -> None:
        self.messages.append(repr(context))


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Hear what goes to hooks and logs."""
    told = Told()
    unraisable, thread_failure = sys.unraisablehook, threading.excepthook
    sys.unraisablehook, threading.excepthook = told.hear, told.hear
    loggers = [logging.getLogger(name) for name in ("asyncio", "trio")]
    for logger in loggers:
        logger.addHandler(told)
    try:
        yield told.messages
    finally:
        sys.unraisablehook, threading.excepthook = unraisable, thread_failure
        for logger in loggers:
            logger.removeHandler(told)


# httpx nests async generators and closes only the outermost, whoever reads it: trio says so of those that were not
# exhausted. They are named here, so that a generator of chunkfold's own would be seen.
OWN_TO_HTTPX = re.compile(r"Async generator 'http(x|core)2?\.")


@contextmanager
def spotless() -> Iterator[None]:
    """Nothing stays behind."""
    gc.freeze()  # so that collecting looks at nothing but what comes now
    sockets = open_sockets()
    with hearing() as told, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    noise = [str(warning.message) for warning in warned]
    assert [text for text in noise if not OWN_TO_HTTPX.match(text)] == []
    assert told == []
    assert open_sockets() <= sockets


@asynccontextmanager
async def spotless_loop() -> AsyncIterator[None]:
    """Nothing stays behind, in the event loop either."""
    tasks = living_tasks()
    loop = asyncio.get_running_loop() if isinstance(tasks, set) else None
    handler = loop and loop.get_exception_handler()
    told: list[Any] = []
    with spotless():
        if loop is not None:
            loop.set_exception_handler(lambda _, context: told.append(context))
        try:
            yield
            gc.collect()
            for _ in range(20):  # the event loop ends what generators were left to it
                await anyio.lowlevel.checkpoint()
        finally:
            if loop is not None:
                loop.set_exception_handler(handler)
    assert living_tasks() == tasks
    assert told == []
