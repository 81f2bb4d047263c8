"""What signals do to a command: it cleans up and exits, or stops with the terminal restored."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

LEFT: Final = 130  # the exit code after Ctrl-C, as shells report it


@contextmanager
def ended_by_signals() -> Generator[list[int]]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does; the list has the number of the one that came."""
    received: list[int] = []

    def end(number: int, _: Any) -> None:
        received.append(number)
        if len(received) == 1:  # another one must not interrupt what the first one has to save
            raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # A handler other than the default was set by the parent, such as `nohup`.
    with _handled({number: end for number in numbers if signal.getsignal(number) is signal.SIG_DFL}):
        yield received


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
