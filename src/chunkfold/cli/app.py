"""The command `chunkfold`: it runs its subcommands, and reports in one line what ends them."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from chunkfold.cli.commands import COMMANDS
from chunkfold.cli.safe import one_line
from chunkfold.cli.signals import LEFT, ended_by_signals


def _show(error: click.ClickException) -> None:
    from chunkfold.cli.consoles import say

    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
    say(f"Error: {error.format_message()}")


def _show_failure(error: OSError) -> int:
    """Report the file that failed; without a name it is standard output, full or closed. No more output is written."""
    name = "standard output" if error.filename is None else one_line(str(error.filename))
    click.echo(f"Error: {name}: {error.strerror or error}", err=True)
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _open_closed_streams() -> None:
    """Replace standard streams that are closed: input is then empty, and errors are discarded."""
    missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in missing:  # in the order of their descriptors, of which each takes the lowest that is free
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end of the process
    if "stdout" in missing:
        raise click.ClickException("standard output is closed")


def _buffer_output() -> None:
    """Buffer standard output where Python does not: an unbuffered write may write only a part, without an error."""
    stdout = sys.stdout
    if isinstance(getattr(stdout, "buffer", None), io.RawIOBase):  # PYTHONUNBUFFERED, or `python -u`
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(stdout.fileno(), "w", closefd=False)),
            encoding=stdout.encoding,
            errors=stdout.errors,
            line_buffering=True,
        )


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which they were added."""
        return [*self.commands]

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
        with ended_by_signals() as signals:
            try:
                _open_closed_streams()
                _buffer_output()
                code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
                sys.stdout.flush()
            except click.ClickException as error:
                code = error.exit_code
                with suppress(OSError):  # as below
                    _show(error)
            except (KeyboardInterrupt, click.Abort):
                code = LEFT
            except OSError as error:
                code = 1
                with suppress(OSError):  # a terminal that was closed takes no messages
                    _show_failure(error)
        sys.exit(128 + signals[0] if signals else code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a failed write is reported before click sees it, which would not report it."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            return _show_failure(error)


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:  # noqa: FBT001 - click's
    if is_wanted and not context.resilient_parsing:
        from chunkfold import __version__

        click.echo(f"chunkfold, version {__version__}")
        context.exit()


@click.group(
    cls=_Group,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read streamed chat completions as they arrive.",
    epilog="""\b
Examples:
  chunkfold demo                                    see what the library does, without a key
  chunkfold chat URL --model M "Say hello."         ask a provider
  chunkfold record URL -m M "Hello" -o hello.jsonl  record the answer
  chunkfold inspect hello.jsonl --rules             see its deviations
  chunkfold report hello.jsonl -o hello.html        see its timeline

Each command has its own help, with more examples: chunkfold chat --help
""",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def chunkfold() -> None:
    """Run the command that is given. The help is an argument, because `python -OO` removes docstrings."""
