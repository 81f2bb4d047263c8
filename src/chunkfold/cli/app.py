"""The command `chunkfold` and the list of its subcommands, each loaded when it is wanted."""

from importlib import import_module
from typing import Final

import click

# The command's name, its module, and what it does, for the help of the whole.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("chunkfold.cli.demo", "Watch two streamed answers; the second one breaks."),
    "chat": ("chunkfold.cli.chat", "Ask a provider, and watch the answer."),
    "record": ("chunkfold.cli.record", "Ask a provider, and keep its answer as it came."),
    "replay": ("chunkfold.cli.replay", "Show a recorded answer as it came, or be the provider that sends it."),
    "inspect": ("chunkfold.cli.inspect", "Show a stream frame by frame, and what a client must tolerate to read it."),
    "doctor": ("chunkfold.cli.doctor", "Check how well a provider keeps to the protocol."),
    "report": ("chunkfold.cli.report", "Draw what came when, as a page of HTML or a trace."),
    "fold": ("chunkfold.cli.fold", "Fold many recorded streams into their completions."),
    "serve": ("chunkfold.cli.serve", "Be a provider that answers as a script says, faults included."),
}

_EXAMPLES = """\b
Examples:
  chunkfold demo                                    see what the library does, without a key
  chunkfold chat URL --model M "Say hello."         ask a provider
  chunkfold record URL -m M "Hello" -o hello.jsonl  keep the answer as it came
  chunkfold inspect hello.jsonl --rules             see what is odd about it
  chunkfold report hello.jsonl -o hello.html        see what came when

Each command has a help of its own, with more examples: chunkfold chat --help
"""


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

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C that it does not catch itself, as while it is loaded, is no failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(130)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Names and what they do, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])


@click.group(cls=_LazyGroup, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chunkfold")
def chunkfold() -> None:
    """Streamed chat completions, read as they arrive."""
