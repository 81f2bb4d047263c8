"""Hold this library, other libraries and any function to the hostile set: `python -m chunkfold.testing`."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from chunkfold.testing.hostile.clients import chunkfold_client, hold, load_client
from chunkfold.testing.hostile.collection import hostile_streams
from chunkfold.testing.hostile.peers import running_peers
from chunkfold.testing.hostile.report import check_page, markdown, plain_text, write_markdown


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the set and print what came of it. The exit code says nothing of the results."""
    parser = argparse.ArgumentParser(
        prog="python -m chunkfold.testing",
        description="Hold chunkfold, and other libraries where they are installed, to the hostile set.",
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="MODULE:CALLABLE",
        help="hold this too: from a body's bytes to an object or a dict with text and tool_calls",
    )
    parser.add_argument(
        "--markdown", nargs="?", const="-", metavar="PAGE", help="tables for documentation, into a page or printed"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave out the other libraries that are installed")
    options = parser.parse_args(arguments)
    try:
        own = [load_client(path) for path in options.client]
    except (ValueError, ImportError, AttributeError, TypeError, SyntaxError) as error:
        parser.error(f"--client: {error}")
    page = None if options.markdown in (None, "-") else Path(options.markdown)
    if page is not None:
        try:
            check_page(page)
        except (OSError, ValueError) as error:
            parser.error(f"--markdown: {error}")
    streams = hostile_streams()
    with ExitStack() as running:
        peers = [] if options.no_peers else running.enter_context(running_peers())
        results = [(client, hold(client, streams)) for client in (chunkfold_client(), *peers, *own)]
    if page is not None:
        write_markdown(page, results)
    elif options.markdown is not None:
        sys.stdout.write(markdown(results) + "\n")
    else:
        sys.stdout.write(plain_text(results, with_peers=not options.no_peers) + "\n")


if __name__ == "__main__":
    main()
