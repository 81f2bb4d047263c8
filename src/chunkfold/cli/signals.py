"""What signals do to a command: it ends in good order, or stops with the terminal as it was."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

LEFT: Final = 130  # the exit code after Ctrl-C, as shells report it


@contextmanager
def ended_by_signals() -> Generator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does, with 128 and the signal's number as its exit code."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: Any) -> None:
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is signal.SIG_DFL:  # else the parent, such as `nohup`, has set it
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def on_suspend(around: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
    """Ctrl-Z stops the command inside of what is given, and `fg` goes on there."""
    if not hasattr(signal, "SIGTSTP") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: Any) -> None:
        with around():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # here it stops, and here it goes on
            signal.signal(number, stop)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
