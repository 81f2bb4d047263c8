"""`chunkfold replay`: show a recorded answer as it arrived, or serve it."""

import click

from chunkfold import StreamEnd
from chunkfold.cli.answer_view import AnswerView, answer_view
from chunkfold.cli.consoles import say
from chunkfold.cli.facts import error_line, exit_code, footer, result_json, result_of
from chunkfold.cli.files import recording_from
from chunkfold.cli.painter import Painter
from chunkfold.cli.safe import one_line
from chunkfold.recording import Recording
from chunkfold.recording.replaying import conclude, parser_of, take


def replay(file: str, *, speed: float, as_json: bool, is_served: bool, port: int | None) -> int:
    """Show a recording, or serve it; return the exit code."""
    if port and not is_served:
        raise click.UsageError("--port needs --serve")
    if as_json and is_served:
        raise click.UsageError("--json: expected it without --serve, which prints a URL")
    recording = recording_from(file)
    if is_served:
        _serve(recording, file, speed, port)
        return 0
    return _show(recording, 0 if as_json else speed, as_json=as_json)


def _serve(recording: Recording, file: str, speed: float, port: int | None) -> None:
    from chunkfold.cli.scripts import ScriptedAnswer  # only needed here
    from chunkfold.cli.serve import serve_answers

    try:
        answer = ScriptedAnswer(file, recording, speed)
    except ValueError as error:
        raise click.ClickException(f"{one_line(file)}: cannot be sent: {error}") from None
    serve_answers([answer], port)


def _show(recording: Recording, speed: float, *, as_json: bool) -> int:
    """Show the answer, and the facts about it; return the exit code."""
    parser, is_left = parser_of(recording), False
    view = AnswerView() if as_json else answer_view("the recording")
    try:
        with view, Painter(view, parser) as painter:
            for read in recording.paced(speed):
                take(parser, read)
                if speed:  # else all of it is drawn at the end
                    painter.draw()
            conclude(parser, recording)
            painter.draw()
    except KeyboardInterrupt:
        parser.leave()
        is_left = True
    result = result_of(parser, is_timed=recording.is_timed)
    if as_json:
        click.echo(result_json(result))
    else:
        view.show_facts(footer(result))
    if parser.error is not None and parser.end is not StreamEnd.CLOSED:
        say(error_line(result))
    return exit_code(StreamEnd.CLOSED if is_left else parser.end)
