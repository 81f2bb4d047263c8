"""`chunkfold record`: ask a provider, and keep its answer as it came, without secrets."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from chunkfold import ChatCompletion, ChatCompletionParser, StreamEnd
from chunkfold.cli.exit_codes import EXIT_CODES_HELP, LEFT, exit_code
from chunkfold.cli.facts import Reply, error_line, footer
from chunkfold.cli.painter import Painter
from chunkfold.cli.request import ChatRequest, chat_request, request_options
from chunkfold.cli.safe import Secrets, one_line
from chunkfold.cli.sources import NO_RESPONSE, no_response, reason_of, recording_of
from chunkfold.cli.view import AnswerView, answer_view, say
from chunkfold.cli.waiting import waiting_for
from chunkfold.recording import Recording, replay

_EXAMPLES = """\b
Examples:
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini "Say hello." -o hello.jsonl
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini -o - < prompt.txt | gzip
"""


@click.command(epilog=f"{_EXAMPLES}\n{EXIT_CODES_HELP}")
@click.argument("url", required=False)
@click.argument("prompt", required=False)
@request_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    help='Where the recording goes; "-" is standard output.',
)
@click.option("--show", is_flag=True, help="Show the answer while it is recorded.")
@click.pass_context
def record(
    context: click.Context, /, url: str | None, prompt: str | None, *, output: str, show: bool, **options: Any
) -> None:
    """Ask a provider, and record its answer as it arrives.

    A recording contains every read of the body with its time, and how the body ended. Keys and other
    secrets are overwritten by stars. The prompt is read from standard input if there is none.
    """
    request = chat_request(url, prompt, **options)
    if show and output == "-":
        raise click.UsageError("--show: the recording goes to standard output; expected -o FILE")
    _check_folder(output)
    view = answer_view(str(request.body.get("model", "an answer"))) if show else AnswerView()
    try:
        recording = _recorded(request, view, is_shown=show)
    except KeyboardInterrupt:
        say("Nothing had come.")
        context.exit(LEFT)
    except NO_RESPONSE as error:
        raise no_response(request, error) from None
    data = recording.dumps()
    _write(data, output)
    parser = replay(Recording.loads(data))  # so that a replay of the file says the same
    reply = Reply(parser.error)
    reply.take(parser)
    if show:
        view.settle(footer(reply))
    say(f"{_summary(recording, output)}; ended: {parser.end}")
    if parser.error is not None and parser.end is not StreamEnd.CLOSED:
        say(error_line(reply))
    context.exit(exit_code(parser.end))


def _recorded(request: ChatRequest, view: AnswerView, *, is_shown: bool) -> Recording:
    if not is_shown:
        with waiting_for(str(request.body.get("model", "an answer"))):
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
