"""The command line, `chunkfold`: click and rich, which the extra `cli` brings.

`commands` declares the arguments, options and help of each command. A command is a function in a file of the same name,
loaded when it runs. `view`, `painter` and `facts` draw the output. Text from a model or a provider goes through `safe`
before it reaches a terminal.
"""

import sys

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command line, or say in one line what it needs."""
    try:
        from chunkfold.cli.app import chunkfold

        chunkfold(prog_name="chunkfold")
    except KeyboardInterrupt:  # while the command was still being loaded
        sys.exit(130)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.exit(f'chunkfold: the command line needs {error.name}: pip install "chunkfold[cli]"')
