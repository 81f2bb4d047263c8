"""Test this library, other libraries and any function with the hostile set: `python -m chunkfold.testing`."""

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from chunkfold.testing.hostile.clients import Client, chunkfold_client, hold, load_client
from chunkfold.testing.hostile.collection import hostile_streams
from chunkfold.testing.hostile.peers import running_peers
from chunkfold.testing.hostile.report import (
    Results,
    as_json,
    in_full,
    markdown,
    parts_of,
    plain_text,
    score_of,
    write_markdown,
)
from chunkfold.testing.hostile.values import HostileStream

_COMMAND: Final = "python -m chunkfold.testing"
_EPILOG = """\
Exit codes: 0 if your clients get every stream right, or as many as --min says; 1 if not; 2 for a usage error. Your
clients are those of --client, or chunkfold if there is none; the other libraries are for comparison.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the set and print the results; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    own = _clients(parser, options.client)
    page = _page(parser, options.markdown)
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # for encodings that cannot write what is shown
    streams = hostile_streams(abuse=not options.no_abuse)
    if options.show is not None:
        streams = (_named(parser, options.show, streams),)
    with ExitStack() as running:
        peers = [] if options.no_peers else running.enter_context(running_peers())
        clients = [chunkfold_client(), *peers, *own]
        if options.show is not None:
            _write(in_full(streams[0], clients) + "\n")
        results = [(client, hold(client, streams)) for client in clients]
    if page is not None:
        try:
            write_markdown(page, results)
        except (OSError, ValueError) as error:
            parser.error(f"--markdown: {error}")
    elif options.show is None:
        _write(_shown(results, options) + "\n")
    held = results[-len(own) :] if own else results[:1]
    least = len(streams) if options.min is None else options.min
    return int(any(score_of(verdicts).right < least for _, verdicts in held))


def run() -> int | str:
    """Run the command; return its exit code, or one line about an output that is closed."""
    stdout: Any = sys.stdout
    if stdout is None:
        return f"{_COMMAND}: error: standard output is closed"
    try:
        try:
            return main()
        finally:
            _write()  # what argparse wrote
    except KeyboardInterrupt:
        return 130


def _write(text: str = "") -> None:
    """Write all of it; end in one line if the output is full or closed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        sys.exit(f"{_COMMAND}: error: standard output: {error.strerror or error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_COMMAND,
        description="Test chunkfold, and the other libraries that are installed, with the hostile set.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="MODULE:CALLABLE",
        help="test this function too: from a body's bytes to an object or a dict with text and tool_calls",
    )
    parser.add_argument(
        "--min", type=int, metavar="N", help="the number of right results that exit code 0 needs; by default all"
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--show",
        metavar="STREAM",
        help="show one stream: its body, the expected result, and each client's result or traceback",
    )
    forms.add_argument("--json", action="store_true", help="print the results as one JSON object")
    forms.add_argument(
        "--markdown", nargs="?", const="-", metavar="PAGE", help="print tables for documentation, or write them to PAGE"
    )
    parser.add_argument(
        "--no-abuse", action="store_true", help="omit the cases of abuse, for a client that trusts its provider"
    )
    parser.add_argument("--no-peers", action="store_true", help="omit the other libraries")
    return parser


def _clients(parser: argparse.ArgumentParser, paths: Sequence[str]) -> list[Client]:
    try:
        return [load_client(path) for path in paths]
    except (ValueError, ImportError, AttributeError, TypeError, SyntaxError) as error:
        parser.error(f"--client: {error}")


def _page(parser: argparse.ArgumentParser, path: str | None) -> Path | None:
    """The page to write to; None if there is none."""
    if path in (None, "-"):
        return None
    page = Path(path)
    try:
        parts_of(page)  # before the streams are read, which takes long
    except (OSError, ValueError) as error:
        parser.error(f"--markdown: {error}")
    return page


def _named(parser: argparse.ArgumentParser, name: str, streams: Sequence[HostileStream]) -> HostileStream:
    by_name = {stream.name: stream for stream in streams}
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, 3) or list(by_name)[:3]
        parser.error(f"--show: expected the name of a stream, such as {', '.join(near)}, received {name}")
    return by_name[name]


def _shown(results: Results, options: argparse.Namespace) -> str:
    if options.json:
        return as_json(results)
    if options.markdown is not None:
        return markdown(results)
    return plain_text(results, with_peers=not options.no_peers)


if __name__ == "__main__":
    sys.exit(run())
