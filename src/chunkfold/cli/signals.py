"""What signals do to a command: it cleans up and exits, or stops with the terminal restored."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

LEFT: Final = 130  # the exit code after Ctrl-C, as shells report it


def ended_by_signals() -> AbstractContextManager[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does, with 128 and the signal's number as its exit code."""

    def end(number: int, _: Any) -> None:
        sys.exit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # A handler other than the default was set by the parent, such as `nohup`.
    return _handled({number: end for number in numbers if signal.getsignal(number) is signal.SIG_DFL})


def on_suspend(around: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """Ctrl-Z stops the command inside the context `around`, and `fg` continues it there."""

    def stop(number: int, _: Any) -> None:
        with around():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # stops here, and continues here
            signal.signal(number, stop)

    return _handled({signal.SIGTSTP: stop} if hasattr(signal, "SIGTSTP") else {})


@contextmanager
def _handled(handlers: Mapping[int, Callable[[int, Any], None]]) -> Generator[None]:
    """Handle signals, then restore the handlers; in other threads than the main one, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
