"""Every command: its arguments, its options and its help. What runs it is loaded when it runs."""

from importlib import import_module
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_EXIT_CODES: Final = """

\b
Exit codes:
  0  the stream ended well       5  the connection broke
  1  something else went wrong   6  it stalled, or took too long
  2  usage error                 7  it was cut off without an error
  3  the provider sent an error  8  no output arrived
  4  it is not a valid stream    130  stopped by Ctrl-C
"""


def _command(name: str, *parameters: click.Parameter, help: str, epilog: str | None = None) -> click.Command:
    """The command; the function of the same name in the module `chunkfold.cli.NAME` takes its parameters."""

    def run(**given: Any) -> Any:
        return getattr(import_module(f"chunkfold.cli.{name}"), name)(**given)

    first_line = help.partition("\n")[0]
    return click.Command(name, callback=run, params=[*parameters], help=help, short_help=first_line, epilog=epilog)


def _option(*names: str, help: str, **options: Any) -> click.Option:
    return click.Option(names, help=help, **options)


def _flag(*names: str, help: str, **options: Any) -> click.Option:
    return click.Option(names, is_flag=True, help=help, **options)


def _argument(name: str) -> click.Argument:
    return click.Argument([name], required=False)


def _files(metavar: str, *, required: bool = True) -> click.Argument:
    options: Any = {"nargs": -1, "required": required, "metavar": metavar}
    return click.Argument(["files"], type=_file_name, callback=_once_from_stdin, **options)


def _output(*names: str, help: str) -> click.Option:
    return _option(*names, metavar="FILE", type=_file_name, help=help)


def _file_name(name: str) -> str:
    if not name:  # it would be the current folder
        raise click.BadParameter("expected the name of a file, received an empty one")
    return name


def _named(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    return _file_name(name)


def _once_from_stdin(_context: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    if files.count("-") > 1:
        raise click.BadParameter('expected "-" once: standard input cannot be read again')
    return files


def _number(_context: click.Context, _parameter: click.Parameter, number: float) -> float:
    if isnan(number):
        raise click.BadParameter("expected a number")
    return number


def _list_checks(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:  # noqa: FBT001 - click's
    if is_wanted and not context.resilient_parsing:
        from chunkfold.cli.checks import CHECKS

        formatter = context.make_formatter()
        formatter.write_dl([(check.name, check.asks) for check in CHECKS])
        click.echo(formatter.getvalue(), nl=False)
        context.exit()


def _checks() -> click.Choice[str]:
    from chunkfold.cli.checks import CHECKS

    return click.Choice([check.name for check in CHECKS])


def _known_checks(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_checks().convert(name, parameter, context) for name in names)


def _completed_check(context: click.Context, parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
    return _checks().shell_complete(context, parameter, begun)


def _model(**options: Any) -> click.Option:
    return _option("-m", "--model", help="The model's name.", **options)


_MODEL: Final = _model(required=True, envvar="CHUNKFOLD_MODEL", show_envvar=True)
_PORT: Final = _option(
    "--port", metavar="N", type=click.IntRange(1, 65535), help="The port on 127.0.0.1; a free one by default."
)
_CONNECTION: Final = (
    _option(
        "--key-env",
        default="OPENAI_API_KEY",
        metavar="NAME",
        show_default=True,
        help="The environment variable with the API key; no key is sent if it is not set.",
    ),
    _option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="An additional header; may be repeated."),
    _option(
        "--timeout",
        type=click.FloatRange(0, 86_400, min_open=True),
        callback=_number,
        default=120,
        show_default=True,
        metavar="SECONDS",
        help="The longest wait for a chunk, thinking included.",
    ),
)
_REQUEST: Final = (
    _option("--system", metavar="TEXT", help="A system message before the prompt."),
    _option(
        "--tool",
        "tools",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A JSON file with a tool, or a list of tools; may be repeated.",
    ),
    _option(
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="An additional field of the body: JSON, or else text; null removes the field. May be repeated.",
    ),
    *_CONNECTION,
)
_PROMPT: Final = (_argument("url"), _argument("prompt"), _MODEL, *_REQUEST)

COMMANDS: Final = (
    _command(
        "demo",
        _option(
            "--speed",
            metavar="FACTOR",
            type=click.FloatRange(0, min_open=True),
            default=1,
            show_default=True,
            callback=_number,
            help="How much faster than usual it runs; 10 is ten times as fast.",
        ),
        help="""Watch two streamed answers; the second one breaks.

Needs no key and no network: the provider is part of chunkfold, and runs on this machine for a few seconds.""",
    ),
    _command(
        "chat",
        *_PROMPT,
        _flag("--reasoning", "shows_reasoning", help="Show all of the reasoning, not only its last lines."),
        _flag("--json", "as_json", help="Only print one JSON object, at the end."),
        _flag("--raw", help="Keep control characters; refused on a terminal."),
        _flag("-q", "--quiet", help="Do not show the statistics below the answer."),
        help="""Ask a provider, and watch the answer.

URL is an API's base URL, or its URL of chat completions; OPENAI_BASE_URL by default. Piped input is
appended to the prompt. On a terminal, the answer is rendered as Markdown; a pipe only gets the text,
as it was sent.""",
        epilog=f"""\b
Examples:
  chunkfold chat https://api.openai.com/v1 -m gpt-5-mini "Why is it dark?"
  cat article | chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini "Summarize"
  chunkfold chat http://127.0.0.1:8080/v1 -m qwen3 --tool rain.json "Rain?"
  chunkfold chat "Why is it dark?"       with OPENAI_BASE_URL, CHUNKFOLD_MODEL
  chunkfold chat $OPENAI_BASE_URL -m gpt-5-mini --param n=2 --json Hi | jq .end{_EXIT_CODES}""",
    ),
    _command(
        "record",
        *_PROMPT,
        _option(
            "-o",
            "--output",
            required=True,
            type=click.Path(dir_okay=False, writable=True, allow_dash=True),
            callback=_named,
            help='Write the recording to FILE; "-" is standard output.',
        ),
        _flag("--show", "is_shown", help="Show the answer while it is recorded."),
        help="""Ask a provider, and record its answer as it arrives.

A recording contains every read of the body with its time, and how the body ended. Keys and other
secrets are overwritten with stars. URL is an API's base URL, or its URL of chat completions;
OPENAI_BASE_URL by default. Piped input is appended to the prompt.""",
        epilog=f"""\b
Examples:
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini "Say hello." -o hello.jsonl
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini -o - < prompt.txt | gzip{_EXIT_CODES}""",
    ),
    _command(
        "replay",
        click.Argument(["file"], type=_file_name),
        _option(
            "--speed",
            metavar="FACTOR",
            type=click.FloatRange(0),
            default=1,
            show_default=True,
            callback=_number,
            help="How much faster than it arrived; 10 is ten times as fast, 0 without pauses.",
        ),
        _flag("--json", "as_json", help="Only print one JSON object, without pauses."),
        _flag(
            "--serve", "is_served", help="Serve it on this machine as the answer to every POST request, until Ctrl-C."
        ),
        _PORT,
        help="""Show a recorded answer as it arrived, or serve it.

FILE is what `chunkfold record` has written, or the plain body of a stream (either may be gzipped); "-" is
standard input. With --serve, it is sent to any client: at the same pace, in the same reads, with the same ending.""",
        epilog=f"""\b
Examples:
  chunkfold replay hello.jsonl              as it arrived
  chunkfold replay hello.jsonl --speed 0    all at once
  chunkfold replay hello.jsonl --serve      be the provider that sends it
  curl -sN ... | chunkfold replay -         a plain body{_EXIT_CODES}""",
    ),
    _command(
        "inspect",
        click.Argument(["source"], metavar="FILE|URL|-", type=_file_name),
        _argument("prompt"),
        _flag("--rules", "is_explained", help="Explain each rule: who breaks it, and what chunkfold does."),
        _option("--only", type=click.Choice(["anomalies"]), help="Only frames that break a rule, and errors."),
        _flag("--json", "as_json", help="JSON Lines: an object for each frame, the verdict last."),
        _model(),  # not of the environment: a body that is stored at a URL comes without one
        *_REQUEST,
        help="""Show a stream frame by frame, and what a client must tolerate to read it.

FILE is a recording, or a body as curl saves it (either may be gzipped); "-" is standard input. With --model,
the provider at URL answers PROMPT (by default "Say hello."); without it, URL is a stored body to download.""",
        epilog=f"""\b
Examples:
  chunkfold inspect answer.jsonl                   a recording
  curl -N ... | chunkfold inspect -                a body, from a pipe
  chunkfold inspect body.sse --only anomalies --rules
  chunkfold inspect body.sse --json | jq .kind
  chunkfold inspect $OPENAI_BASE_URL -m gpt-5-mini "Say hello."{_EXIT_CODES}""",
    ),
    _command(
        "doctor",
        _argument("url"),
        _MODEL,
        _option(
            "--only",
            "names",
            multiple=True,
            metavar="CHECK",
            callback=_known_checks,
            shell_complete=_completed_check,
            help="Only this check; may be repeated.",
        ),
        _flag("--list", is_eager=True, expose_value=False, callback=_list_checks, help="List the checks."),
        _flag("--json", "as_json", help="The report as one JSON object."),
        *_CONNECTION,
        help="""Check how well a provider follows the protocol.

Sends at most 15 small requests, each with a limit of 256 tokens, and prints a report in Markdown that
you can paste into a bug report. It never contains keys. URL is OPENAI_BASE_URL by default.""",
        epilog="""\b
Examples:
  chunkfold doctor https://api.openai.com/v1 -m gpt-5-mini
  chunkfold doctor http://127.0.0.1:8080/v1 -m qwen3 --only tools --only usage
  chunkfold doctor $OPENAI_BASE_URL -m gpt-5-mini --json | jq .checks[].result

\b
Exit codes:
  0    nothing failed
  1    something failed, or there was no answer: no response, or too many requests
  2    usage error
  130  stopped by Ctrl-C
""",
    ),
    _command(
        "report",
        _files("FILE..."),
        _output("-o", "--output", help='Write the page to FILE; "-" is standard output.'),
        _output("--trace", "trace_to", help="Write a trace in Chrome's JSON format to FILE."),
        _output("--motion", "motion_to", help="Write an animation to FILE, as SVG."),
        help="""Draw the timeline of a recording, as a page, a trace or an animation.

FILE is a recording, or a body as curl saves it (either may be gzipped); "-" is standard input. The page is
self-contained. A body has no times, so its page shows what arrived, but not when.""",
        epilog="""\b
Examples:
  chunkfold report answer.jsonl -o report.html      the timeline
  chunkfold report monday/*.jsonl -o monday.html    several, to compare them
  chunkfold report answer.jsonl --trace trace.json  for ui.perfetto.dev
  chunkfold report answer.jsonl --motion answer.svg an animation, for a README

\b
Exit codes:
  0  the report was written, however the streams ended
  1  something else went wrong
  2  usage error
""",
    ),
    _command(
        "fold",
        _files("FILE..."),
        _flag("--json", "as_json", help="Print JSON Lines: only an object for each file."),
        _option(
            "-j",
            "--jobs",
            metavar="N",
            type=click.IntRange(1),
            help="The number of processes; 1 is the main process alone. By default one for each CPU, if the input is "
            "large.",
        ),
        help="""Fold many recorded streams into their completions.

Each FILE is a recording, or the plain body of a stream (either may be gzipped); "-" is standard input, and a folder
stands for the files in it. The results are printed in the order of the files, followed by a summary of the endings and
the broken rules; with --json the summary goes to standard error.""",
        epilog="""\b
Examples:
  chunkfold fold recordings/
  chunkfold fold --json *.sse > completions.jsonl
  chunkfold fold --json *.jsonl | jq -r .completion.choices[0].message.content
  curl -sN ... | chunkfold fold -

\b
Exit codes:
  0    every file was read, however its stream ended
  1    a file could not be read
  2    usage error
  130  stopped by Ctrl-C
""",
    ),
    _command(
        "serve",
        _files("[SCRIPT|RECORDING]...", required=False),
        _PORT,
        _option(
            "--loop/--once",
            default=True,
            help="Whether to start over after the last answer, which is the default. With --once, the built-in "
            "answers follow.",
        ),
        help="""Run a provider that sends the answers of a script, faults included.

Each POST request gets the next answer. The files are scripts in TOML or JSON, recordings or plain
bodies (either may be gzipped), whose answers are sent in order. The first line on standard output is
the base URL, and each request is logged on standard error. Stop it with Ctrl-C or SIGTERM.""",
        epilog="""\b
Examples:
  chunkfold serve                 a provider that says hello
  chunkfold serve script.toml     answers, pauses and faults as scripted
  chunkfold serve a.jsonl b.sse   a recording as it arrived, then a plain body

\b
A script (docs/fold-and-serve.md describes all keys):
  [[answers]]
  status = 429
  headers = { retry-after = "1" }
  [[answers]]
  text = "Hello there!"
  pace = 0.05
  cut_at = 300
""",
    ),
)
