"""`chunkfold serve`: the embedded provider as a command, to test clients in any language."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Final

import click

from chunkfold.cli.files import errors_of, recording_from
from chunkfold.cli.safe import one_line, reason_of
from chunkfold.cli.scripts import SCRIPTS, ScriptedAnswer, script_from
from chunkfold.testing import Answer, FakeProvider, ReceivedRequest
from chunkfold.testing.defaults import default_answer

_LONGEST_PATH: Final = 200  # characters shown of a path
_LAST_BYTES: Final = 0.1  # seconds to wait for answers that are about to end
_LAST_LINES: Final = 2.0  # seconds to wait for the last lines of the log
_OUTCOMES: Final = {"end": "sent whole", "cut": "cut off", "reset": "reset", "open": "left open"}
_OWN: Final = "the provider's own answer"


def serve(files: tuple[str, ...], *, port: int | None, loop: bool) -> None:
    """Answer requests as the files say."""
    serve_answers([answer for file in files for answer in answers_of(file)], port, loop=loop)


def serve_answers(answers: Sequence[ScriptedAnswer], port: int | None, *, loop: bool = True) -> None:
    """Answer requests until Ctrl-C or SIGTERM, and log them."""
    provider = ScriptedProvider(answers, port=port or 0, loop=loop)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        provider.start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else reason_of(error)
        raise click.ClickException(f"port {port}: {reason}") from None
    with suppress(KeyboardInterrupt):
        try:
            click.echo(provider.base_url)
            while True:
                time.sleep(3600)
        finally:
            provider.stop()


def answers_of(file: str) -> Sequence[ScriptedAnswer]:
    """The answers of a script; for any other file, its only answer."""
    with errors_of(file):
        if Path(file).suffix.lower() in SCRIPTS:
            return script_from(file)
        return [ScriptedAnswer(file, recording_from(file))]


class ScriptedProvider(FakeProvider):
    """Answers requests, and logs each answer when it is over.

    Each POST request gets the next answer, after the last one from the start if it loops; other requests get the
    provider's built-in answers.
    """

    def __init__(self, answers: Sequence[ScriptedAnswer], *, port: int = 0, loop: bool = True) -> None:
        super().__init__(port=port)
        self._answers = cycle(answers) if loop else iter(answers)
        self._lock = threading.Lock()  # the n-th request gets the n-th answer
        self._ending = threading.Event()
        self._watched: list[tuple[ReceivedRequest, threading.Thread]] = []
        self._cut_short = frozenset[ReceivedRequest]()  # by `stop`

    def stop(self) -> None:
        """End every answer; its outcome is logged before this returns."""
        deadline = time.monotonic() + _LAST_BYTES
        for request, _ in self._watched:
            request.answered.wait(max(0.0, deadline - time.monotonic()))
        self._cut_short = frozenset(request for request, _ in self._watched if not request.answered.is_set())
        self._ending.set()
        super().stop()
        deadline = time.monotonic() + _LAST_LINES
        for _, watching in self._watched:
            watching.join(max(0.0, deadline - time.monotonic()))

    def answer_unscripted(self, request: ReceivedRequest) -> Answer:
        """The next answer of the script, after its delay."""
        started = time.monotonic()
        with self._lock:
            self.requests.clear()  # they are not used, and they hold keys
            scripted = next(self._answers, None) if request.method == "POST" else None
        label = _OWN if scripted is None else scripted.label
        answer = default_answer(request) if scripted is None else scripted.answer_to(request)
        watching = threading.Thread(target=self._log_outcome, args=(request, label, answer, started), daemon=True)
        with self._lock:
            self._watched = [*(watched for watched in self._watched if watched[1].is_alive()), (request, watching)]
            watching.start()
        if scripted is not None:
            self._ending.wait(scripted.delay)
        return answer

    def _log_outcome(self, request: ReceivedRequest, label: str, answer: Answer, started: float) -> None:
        """Log the answer on one line, once it is over."""
        request.answered.wait()
        if request.client_left:
            outcome = "the client left"
        else:
            outcome = "stopped" if request in self._cut_short else _OUTCOMES[answer.ending]
        asked = one_line(f"{request.method} {request.path}")[:_LONGEST_PATH]
        seconds = time.monotonic() - started
        with suppress(OSError):  # the reader of the log may be gone
            click.echo(f"{asked}: {one_line(label)}: {answer.status}, {outcome} after {seconds:.2f} s", err=True)
