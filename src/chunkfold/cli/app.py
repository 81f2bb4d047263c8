"""The command `chunkfold` and the list of its subcommands, each loaded when it is used."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import click

from chunkfold.cli.exit_codes import LEFT
from chunkfold.cli.signals import ended_by_signals

# The command's name, its module, and its line in the help of `chunkfold`.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("chunkfold.cli.demo", "Watch two streamed answers; the second one breaks."),
    "chat": ("chunkfold.cli.chat", "Ask a provider, and watch the answer."),
    "record": ("chunkfold.cli.record", "Ask a provider, and record its answer as it arrives."),
    "replay": ("chunkfold.cli.replay", "Show a recorded answer as it arrived, or serve it."),
    "inspect": ("chunkfold.cli.inspect", "Show a stream frame by frame, and what a client must tolerate to read it."),
    "doctor": ("chunkfold.cli.doctor", "Check how well a provider follows the protocol."),
    "report": ("chunkfold.cli.report", "Draw the timeline of a recording, as an HTML page or a trace."),
    "fold": ("chunkfold.cli.fold", "Fold many recorded streams into their completions."),
    "serve": ("chunkfold.cli.serve", "Run a provider that sends the answers of a script, faults included."),
}

_EXAMPLES = """\b
Examples:
  chunkfold demo                                    see what the library does, without a key
  chunkfold chat URL --model M "Say hello."         ask a provider
  chunkfold record URL -m M "Hello" -o hello.jsonl  record the answer
  chunkfold inspect hello.jsonl --rules             see its deviations
  chunkfold report hello.jsonl -o hello.html        see its timeline

Each command has its own help, with more examples: chunkfold chat --help
"""


def _show(error: click.ClickException) -> None:
    if isinstance(error, click.UsageError):
        error.show()
        return
    from chunkfold.cli.view import say

    say(f"Error: {error.format_message()}")


def _output_failed(error: OSError) -> int:
    """Report that standard output is full, or closed; the rest of the output is discarded."""
    click.echo(f"Error: standard output: {error.strerror or error}", err=True)
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


class _LazyGroup(click.Group):
    """Loads a command's module when it is called, so that each starts as fast as if it were the only one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order of the list."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """The command; it has the name that it goes by."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's
        **extra: Any,
    ) -> Any:
        """Run the command, and end this process: Ctrl-C, a signal, and a failed output are reported in one line."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        with ended_by_signals():
            try:
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
                sys.stdout.flush()
            except click.ClickException as error:
                _show(error)
                code = error.exit_code
            except (KeyboardInterrupt, click.Abort):
                code = LEFT
            except OSError as error:
                code = _output_failed(error)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a failed write is reported before click sees it, which would not report it."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            ctx.exit(_output_failed(error))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Names and what they do, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])


@click.group(cls=_LazyGroup, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chunkfold")
def chunkfold() -> None:
    """Streamed chat completions, read as they arrive."""
