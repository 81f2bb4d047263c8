"""The command line, `chunkfold`: click and rich, which the extra `cli` brings.

`app` runs the commands, and `commands` declares the arguments, options and help of each. A command is a function in a
file of the same name, loaded when it runs. An error that the user can correct is a `click.ClickException`, also if
there is no response: `NoResponseError`. What the commands share, in the order in which to read it:

- requests: `request` makes one from the options, `sending` sends it; files: `files`, and `unpacking` for gzip
- an answer: `painter` draws its events on an `answer_view`, which consists of `rows`, `markdown` and a `tail`; `facts`
  are the line below it, and the JSON
- its frames, for `inspect` and `doctor`: `frames`, `additions`, `verdict`, then `frame_view`, and `live` for a response
- for one command each: `checks` and `doctor_report`, `folding` and `workers`, `scripts`
- the terminal: `consoles`, `signals`, and `safe`, which makes a model's or a provider's text safe to print
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
