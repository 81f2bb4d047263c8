"""`chunkfold replay`: show a recorded answer as it came, or be the provider that sends it."""

import math

import click

from chunkfold import ChatCompletionParser, StreamEnd
from chunkfold.cli.exit_codes import EXIT_CODES_HELP, exit_code
from chunkfold.cli.facts import Reply, error_line, footer, reply_json
from chunkfold.cli.files import has_times, recording_from
from chunkfold.cli.painter import Painter
from chunkfold.cli.safe import one_line
from chunkfold.cli.view import AnswerView, answer_view, say
from chunkfold.recording import Recording
from chunkfold.recording.replaying import conclude, parser_of

_EXAMPLES = """\b
Examples:
  chunkfold replay hello.jsonl              as it came
  chunkfold replay hello.jsonl --speed 0    all at once
  chunkfold replay hello.jsonl --serve      be the provider that sends it
  curl -sN ... | chunkfold replay -         a plain body
"""


def _speed(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):
        raise click.BadParameter("expected a number")
    return value


@click.command(epilog=f"{_EXAMPLES}\n{EXIT_CODES_HELP}")
@click.argument("file")
@click.option(
    "--speed",
    metavar="FACTOR",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    callback=_speed,
    help="How much faster than it arrived; 10 is ten times as fast, 0 is without pauses.",
)
@click.option("--json", "as_object", is_flag=True, help="Print only one JSON object, without pauses.")
@click.option(
    "--serve", is_flag=True, help="Serve it on this machine as the answer to every POST request, until Ctrl-C."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help="The port to serve on; a free one by default."
)
@click.pass_context
def replay(
    context: click.Context,
    /,
    file: str,
    *,
    speed: float,
    as_object: bool,
    serve: bool,
    port: int | None,
) -> None:
    """Show a recorded answer as it arrived.

    FILE is what `chunkfold record` has written, or the plain body of a stream; "-" is standard
    input. With --serve it is sent to any client: at its pace, in the same reads, with the same end.
    """
    if port and not serve:
        raise click.UsageError("--port needs --serve")
    recording = recording_from(file)
    if serve:
        _serve(recording, file, speed, port)
    else:
        context.exit(_show(recording, 0 if as_object else speed, as_object=as_object))


def _serve(recording: Recording, file: str, speed: float, port: int | None) -> None:
    from chunkfold.cli.scripts import answer_from  # only needed here
    from chunkfold.cli.serve import serve_answers

    try:
        answer = answer_from(file, recording, speed)
    except ValueError as error:
        raise click.ClickException(f"{one_line(file)}: cannot be sent: {error}") from None
    serve_answers([answer], port)


def _show(recording: Recording, speed: float, *, as_object: bool) -> int:
    """Show it, and the facts about it; return the exit code."""
    parser, is_left = parser_of(recording), False
    view = AnswerView() if as_object else answer_view("the recording")
    try:
        with view:
            _watch(recording, speed, parser, Painter(view))
    except KeyboardInterrupt:
        parser.leave()
        is_left = True
    reply = Reply(error=parser.error, is_timed=has_times(recording))
    reply.take(parser)
    if as_object:
        click.echo(reply_json(reply))
    else:
        view.settle(footer(reply))
    if parser.error is not None and parser.end is not StreamEnd.CLOSED:
        say(error_line(reply))
    return exit_code(StreamEnd.CLOSED if is_left else parser.end)


def _watch(recording: Recording, speed: float, parser: ChatCompletionParser, painter: Painter) -> None:
    """Read it at its pace, and draw it."""
    try:
        for read in recording.paced(speed):
            parser.feed(read.data, arrived=read.at)
            if speed:  # else all of it is drawn at the end
                painter.draw_all(parser.events())
        conclude(parser, recording)
        painter.draw_all(parser.events())
    finally:
        painter.end(parser.snapshot)
