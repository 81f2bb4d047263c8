"""`chunkfold record`: ask a provider, and keep its answer as it came, without secrets."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from chunkfold import ChatCompletion, ChatCompletionParser, StreamEnd
from chunkfold.cli.facts import Reply, error_line, exit_code, footer
from chunkfold.cli.painter import Painter
from chunkfold.cli.request import ChatRequest, chat_request
from chunkfold.cli.safe import Secrets, one_line
from chunkfold.cli.signals import LEFT
from chunkfold.cli.sources import NO_RESPONSE, no_response, reason_of, recording_of
from chunkfold.cli.view import AnswerView, answer_view, say
from chunkfold.cli.waiting import waiting_for
from chunkfold.recording import Recording, replay


def record(url: str | None, prompt: str | None, *, output: str, is_shown: bool, **options: Any) -> int:
    """Send the request, and write what is answered to a file; return the exit code."""
    request = chat_request(url, prompt, **options)
    if is_shown and output == "-":
        raise click.UsageError("--show: the recording goes to standard output; expected -o FILE")
    _check_folder(output)
    view = answer_view(request.model) if is_shown else AnswerView()
    try:
        recording = _recorded(request, view, is_shown=is_shown)
    except KeyboardInterrupt:
        say("Nothing had come.")
        return LEFT
    except NO_RESPONSE as error:
        raise no_response(request, error) from None
    data = recording.dumps()
    _write(data, output)
    parser = replay(Recording.loads(data))  # so that a replay of the file says the same
    reply = Reply(parser.error)
    reply.take(parser)
    if is_shown:
        view.settle(footer(reply))
    say(f"{_summary(recording, output)}; ended: {parser.end}")
    if parser.error is not None and parser.end is not StreamEnd.CLOSED:
        say(error_line(reply))
    return exit_code(parser.end)


def _recorded(request: ChatRequest, view: AnswerView, *, is_shown: bool) -> Recording:
    if not is_shown:
        with waiting_for(request.model):
            return recording_of(request)
    painter, parsers = Painter(view, Secrets(request.secrets)), list[ChatCompletionParser]()

    def draw(parser: ChatCompletionParser) -> None:
        parsers[:] = [parser]
        painter.draw_all(parser.events())

    with view:
        try:
            return recording_of(request, draw)
        finally:
            painter.end(parsers[0].snapshot if parsers else ChatCompletion())


def _check_folder(output: str) -> None:
    """Checked before the request: an answer that cannot be written would be lost."""
    folder = Path(output).parent
    if output != "-" and not os.access(folder, os.W_OK):
        raise click.UsageError(f"-o: {one_line(str(folder))}: no folder, or one that cannot be written to")


def _write(data: bytes, output: str) -> None:
    try:
        if output == "-":
            _print(data)
        else:
            Path(output).write_bytes(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{one_line(output)}: {reason_of(error)}") from None


def _print(data: bytes) -> None:
    rest = memoryview(data)
    while rest:  # where Python does not buffer, a write may take a part
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _summary(recording: Recording, output: str) -> str:
    where = "" if output == "-" else f" to {one_line(output)}"
    count, size = len(recording.reads), len(recording.body)
    return f"recorded {count:,} read{'s' * (count != 1)}, {size:,} bytes in {recording.seconds:.1f} s{where}"
