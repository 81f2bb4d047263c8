"""The command `chunkfold` and the list of its subcommands."""

import click

from chunkfold.cli.demo import demo

_EXAMPLES = """\b
Examples:
  chunkfold demo            see what the library does, without a key
  chunkfold demo | cat      the same as plain lines
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chunkfold")
def chunkfold() -> None:
    """Streamed chat completions, read as they arrive."""


chunkfold.add_command(demo)
