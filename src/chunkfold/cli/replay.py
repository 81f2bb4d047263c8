"""`chunkfold replay`: show a recorded answer as it came, or be the provider that sends it."""

import math

import click

from chunkfold import (
    AudioDelta,
    ChatCompletionParser,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
)
from chunkfold.cli.answer import AnswerView
from chunkfold.cli.exit_codes import EXIT_CODES_HELP, exit_code
from chunkfold.cli.facts import completion_facts, error_facts, stream_facts
from chunkfold.cli.files import recording_from
from chunkfold.cli.screen import Fact, Screen
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
    help="How much faster than it came; 10 is ten times as fast, 0 is all at once.",
)
@click.option("--serve", is_flag=True, help="Answer every request to this machine with it, until Ctrl-C.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="PORT", help="Where to serve; a free port unless given.")
@click.pass_context
def replay(context: click.Context, file: str, speed: float, serve: bool, port: int | None) -> None:  # noqa: FBT001 - click's
    """Show a recorded answer as it came.

    FILE is what `chunkfold record` has written, or the plain body of a stream; "-" is standard
    input. With --serve it is sent to any client: at its pace, cut as it was cut, ended as it ended.
    """
    if port and not serve:
        raise click.UsageError("--port needs --serve")
    recording = recording_from(file)
    if serve:
        from chunkfold.cli.replay_server import serve as serve_until_ctrl_c  # only for those who want it

        serve_until_ctrl_c(recording, file, speed, port or 0)
    else:
        context.exit(_show(recording, speed))


def _show(recording: Recording, speed: float) -> int:
    """Draw it, and what there is to say of it; return the exit code."""
    screen, parser, is_left = Screen(), parser_of(recording), False
    try:
        with screen.answer() as answer:
            for read in recording.paced(speed):
                parser.feed(read.data, arrived=read.at)
                if speed:  # else all of it is drawn in the end
                    _draw(answer, parser)
            conclude(parser, recording)
            _draw(answer, parser)
    except KeyboardInterrupt:
        parser.leave()
        is_left = True
    screen.facts(_facts(parser, recording))
    return exit_code(StreamEnd.CLOSED if is_left else parser.end)


def _draw(answer: AnswerView, parser: ChatCompletionParser) -> None:
    """What has come since the last time, of the first choice."""
    calls_grew = False
    for event in parser.events():
        match event:
            case ReasoningDelta(choice=0, delta=text):
                answer.add_reasoning(text)
            case TextDelta(choice=0, delta=text) | RefusalDelta(choice=0, delta=text):
                answer.add_text(text)
            case AudioDelta(choice=0, transcript=text):
                answer.add_text(text)
            case ToolCallStarted(choice=0) | ToolCallArgumentsDelta(choice=0) | ToolCallDone(choice=0):
                calls_grew = True
            case _:
                pass
    if calls_grew:
        answer.show_tool_calls(parser.snapshot.tool_calls)


def _facts(parser: ChatCompletionParser, recording: Recording) -> list[Fact]:
    """What `demo` says of a stream; times only if they were recorded."""
    completion = parser.snapshot
    told = stream_facts(parser.end, parser.timing, completion.usage)
    if not recording.seconds:
        told = [fact for fact in told if fact[0] == "ended"]
    if parser.error is None:
        return [*completion_facts(completion), *told]
    return [*error_facts(parser.error, parser.end), *(fact for fact in told if fact[0] != "ended")]
