"""`chunkfold record`: ask a provider, and record its answer as it arrives, without secrets."""

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chunkfold import ChatCompletionParser, StreamEnd
from chunkfold.cli.answer_view import AnswerView, answer_view
from chunkfold.cli.consoles import say
from chunkfold.cli.facts import error_line, exit_code, footer, result_of
from chunkfold.cli.files import write
from chunkfold.cli.painter import Painter
from chunkfold.cli.request import ChatRequest, chat_request
from chunkfold.cli.safe import one_line
from chunkfold.cli.sending import answer_to, client_for, waiting_for
from chunkfold.cli.signals import LEFT
from chunkfold.excerpts import counted
from chunkfold.recording import Recorder, Recording, replay
from chunkfold.stream.network import DeadlineReachedError, read_to_end


def record(url: str | None, prompt: str | None, *, output: str, is_shown: bool, **options: Any) -> int:
    """Send the request, and write the answer to a file; return the exit code."""
    request = chat_request(url, prompt, **options)
    if is_shown and output == "-":
        raise click.UsageError("--show: the recording goes to standard output; expected -o FILE")
    folder = Path(output).parent
    if output != "-" and not os.access(folder, os.W_OK):  # before the request, whose answer would be lost
        raise click.UsageError(f"-o: {one_line(str(folder))}: the folder does not exist, or is not writable")
    view = answer_view(request.model) if is_shown else AnswerView()
    try:
        with view if is_shown else waiting_for(request.model):
            recording = _recorded(request, view)
    except KeyboardInterrupt:
        say("Nothing had arrived.")
        return LEFT
    data = recording.dumps()
    write(data, output)
    parser = replay(Recording.loads(data))  # so that a replay of the file gives the same facts
    result = result_of(parser)
    if is_shown:
        view.show_facts(footer(result))
    say(f"{_summary(recording, output)}; ended: {parser.end}")
    if parser.error is not None and parser.end is not StreamEnd.CLOSED:
        say(error_line(result))
    return exit_code(parser.end)


def _recorded(request: ChatRequest, view: AnswerView) -> Recording:
    """The recorded answer, drawn as it arrives: the whole body, or the part that had arrived at Ctrl-C.

    After the end of the stream the body has 100 milliseconds to end, too.
    """
    is_over = False
    with client_for(request) as client:
        clock = _LastReading()
        started = clock()  # after the certificates are loaded
        with answer_to(client, request) as response:
            recorder = Recorder(response, started=started, clock=clock)
            parser = ChatCompletionParser(  # with the options of a replay
                status_code=response.status_code,
                headers=response.headers,
                progress_timeout=request.read_timeout,
                started=started,
                clock=lambda: clock.last,
            )
            painter = Painter(view, parser, request.secrets)
            with painter, suppress(Exception, KeyboardInterrupt):  # the recording says how it ended
                is_over = _read(recorder, parser, painter)
    recording = replace(recorder.recording, progress_timeout=request.read_timeout)
    if is_over and recording.error in (DeadlineReachedError.__name__, "ReadTimeout"):
        return replace(recording, end="left", error="")  # this side stopped waiting
    return recording


class _LastReading:
    """A clock that keeps its last reading, so that the parser has the times of the recording."""

    last = 0.0

    def __call__(self) -> float:
        self.last = time.monotonic()
        return self.last


def _read(recorder: Recorder, parser: ChatCompletionParser, painter: Painter) -> bool:
    """Read to the end of the body, or of the stream; return whether the end of the stream came first."""
    reads = recorder.iter_bytes()
    for data in reads:
        parser.fold(data)
        painter.draw()
        if parser.end not in (None, StreamEnd.INVALID):  # the rest of an invalid body can show why it is invalid
            read_to_end(recorder, reads)
            return True
    return False


def _summary(recording: Recording, output: str) -> str:
    where = "" if output == "-" else f" to {one_line(output)}"
    count, size = len(recording.reads), len(recording.body)
    return f"recorded {counted(count, 'read')}, {counted(size, 'byte')} in {recording.seconds:.1f} s{where}"
