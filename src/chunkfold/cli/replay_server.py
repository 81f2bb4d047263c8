"""A provider on this machine that answers every request with a recording: `chunkfold replay --serve`."""

import sys
import threading
from contextlib import suppress
from typing import Final

import click

from chunkfold.cli.files import reason_of
from chunkfold.cli.safe import one_line
from chunkfold.recording import Recording
from chunkfold.testing import Answer, FakeProvider, ReceivedRequest
from chunkfold.testing.recorded import pause_of, recorded_answer

_AT_ONCE: Final = 64  # requests that may be waiting for their answers


def serve(recording: Recording, name: str, speed: float, port: int) -> None:
    """Answer requests until Ctrl-C, and say which ones came.

    Args:
        recording: The answer.
        name: What it goes by.
        speed: How much faster than it came; 0 for at once.
        port: Where; 0 for a free port.

    Raises:
        click.ClickException: It is not an answer that can be sent, or the port is taken.
    """
    try:
        answer = recorded_answer(recording, speed)
    except ValueError as error:
        raise click.ClickException(f"{one_line(name)}: cannot be sent: {error}") from None
    provider = FakeProvider(port=port)
    answerer = Answerer(provider, answer, pause_of(recording.headers_at or 0.0, speed))
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
        self._provider.requests.clear()  # they are not used, and they hold keys
        with suppress(OSError):  # the reader of the list of requests may be gone
            click.echo(one_line(f"{request.method} {request.path}"))
        self.leaving.wait(self._pause)
        return self._answer
