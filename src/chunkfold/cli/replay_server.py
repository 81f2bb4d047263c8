"""A provider on this machine that answers every request with a recording: `chunkfold replay --serve`."""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import click

from chunkfold.cli.files import reason_of
from chunkfold.cli.safe import one_line
from chunkfold.recording import Recording, replay
from chunkfold.testing import Answer, FakeProvider, ReceivedRequest

_AT_ONCE: Final = 64  # requests that may be waiting for their answers
_BEFORE_RESET: Final = 0.1  # seconds: what a client has not read when a reset comes is lost to it
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def serve(recording: Recording, name: str, speed: float, port: int) -> None:
    """Answer requests until Ctrl-C, and say which ones came.

    Args:
        recording: The answer.
        name: What it goes by.
        speed: How much faster than it came; 0 for at once.
        port: Where; 0 for a free port.

    Raises:
        click.ClickException: It is no answer that can be sent, or the port is taken.
    """
    try:
        answer = answer_of(recording, speed)
    except ValueError as error:
        raise click.ClickException(f"{one_line(name)}: cannot be sent: {error}") from None
    provider = FakeProvider(port=port)
    answerer = Answerer(provider, answer, _pause(recording.headers_at or 0.0, speed))
    try:
        provider.start()
    except OSError as error:
        raise click.ClickException(f"port {port}: {reason_of(error)}") from None
    try:
        click.echo(f"serving {one_line(name)} at {provider.base_url}\nCtrl-C ends it.")
        threading.Event().wait()
    except KeyboardInterrupt:
        answerer.leaving.set()
        if sys.stdout.isatty():
            click.echo()  # behind its "^C"
    finally:
        provider.stop()


class Answerer:
    """Gives every request of a provider the same answer, after a pause in seconds."""

    def __init__(self, provider: FakeProvider, answer: Answer, pause: float) -> None:
        self.leaving = threading.Event()
        self._provider = provider
        self._answer = answer
        self._pause = min(pause, threading.TIMEOUT_MAX)
        for _ in range(_AT_ONCE):
            provider.add(self)

    def __call__(self, request: ReceivedRequest) -> Answer:
        """The answer to a request, when its time has come."""
        self._provider.add(self)  # for one of the next
        self._provider.requests.clear()  # nobody asks for them, and they hold keys
        with suppress(OSError):  # whoever read the list of requests may be gone
            click.echo(one_line(f"{request.method} {request.path}"))
        self.leaving.wait(self._pause)
        return self._answer


def answer_of(recording: Recording, speed: float) -> Answer:
    """How it goes over the wire; what was left is cut where nobody read on, unless the stream was complete."""
    ended = replay(recording).end
    is_whole = recording.end == "body" or (recording.end == "left" and ended is not None and ended.complete)
    return Answer(
        list(_pieces(recording, speed)),
        recording.status_code,
        {name: value for name, value in recording.headers.items() if _can_be_sent(name, value)},
        ending="end" if is_whole else "reset" if recording.end == "error" else "cut",
    )


def _pieces(recording: Recording, speed: float) -> Iterator[bytes | float]:
    last_at = recording.headers_at or 0.0
    for read in recording.reads:
        yield _pause(read.at - last_at, speed)
        yield read.data
        last_at = read.at
    pause = _pause(recording.seconds - last_at, speed)
    yield max(pause, _BEFORE_RESET) if recording.end == "error" else pause


def _pause(seconds: float, speed: float) -> float:
    return max(0.0, seconds / speed) if speed else 0.0


def _can_be_sent(name: str, value: str) -> bool:
    """Whether it is a header, and true of what is sent: the body was recorded as it was decoded."""
    return name != "content-encoding" and bool(_HEADER.fullmatch(name)) and value.isascii() and value.isprintable()
