"""`chunkfold record`: ask a provider, and keep its answer as it came, without secrets."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from chunkfold.cli.exit_codes import EXIT_CODES_HELP, exit_code
from chunkfold.cli.request import chat_request, request_options
from chunkfold.cli.safe import one_line
from chunkfold.cli.sources import NO_RESPONSE, no_response, reason_of, recording_of
from chunkfold.recording import Recording, replay

_EXAMPLES = """\b
Examples:
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini "Say hello." -o hello.jsonl
  chunkfold record $OPENAI_BASE_URL -m gpt-5-mini -o - < prompt.txt | gzip
"""


@click.command(epilog=f"{_EXAMPLES}\n{EXIT_CODES_HELP}")
@click.argument("url")
@click.argument("prompt", required=False)
@request_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    help='Where the recording goes; "-" is standard output.',
)
@click.pass_context
def record(context: click.Context, /, url: str, prompt: str | None, output: str, **options: Any) -> None:
    """Ask a provider, and keep its answer as it came.

    A recording has every read of the body with its time, and how the body ended. Keys and other
    secrets are overwritten by stars. The prompt is read from standard input if there is none.
    """
    request = chat_request(url, prompt, **options)
    _check_folder(output)
    try:
        recording = recording_of(request)
    except KeyboardInterrupt:
        context.exit(130)
    except NO_RESPONSE as error:
        raise no_response(request, error) from None
    _write(recording, output)
    parser = replay(recording)
    click.echo(f"{_summary(recording, output)}; ended: {parser.end}", err=True)
    if parser.error is not None:
        click.echo(f"{type(parser.error).__name__}: {one_line(str(parser.error))}", err=True)
    context.exit(exit_code(parser.end))


def _check_folder(output: str) -> None:
    """Before anything is asked for: an answer that cannot be written would be lost."""
    folder = Path(output).parent
    if output != "-" and not os.access(folder, os.W_OK):
        raise click.UsageError(f"-o: {one_line(str(folder))}: no folder, or one that cannot be written to")


def _write(recording: Recording, output: str) -> None:
    try:
        if output == "-":
            _print(recording.dumps())
        else:
            recording.save(output)
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
