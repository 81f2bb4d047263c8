"""Files of commands: recordings to read, and what is written."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click

from chunkfold.cli.safe import one_line
from chunkfold.recording import Recording

_PIECE: Final = 65536  # bytes


def pieces_of(source: str) -> Iterator[bytes]:
    """The bytes of a file as they arrive.

    Args:
        source: Its name; "-" is standard input.

    Raises:
        click.ClickException: It cannot be read.
    """
    stdin: Any = sys.stdin.buffer
    try:
        with nullcontext(stdin) if source == "-" else Path(source).open("rb") as file:
            while piece := file.read1(_PIECE):
                yield piece
    except OSError as error:
        raise click.ClickException(f"{one_line(source)}: {reason_of(error)}") from None


def recording_from(source: str) -> Recording:
    """A file's recording or plain body; "-" is standard input.

    Raises:
        click.ClickException: It cannot be read, or is an invalid recording.
    """
    return loaded(source, pieces_of(source))


def loaded(source: str, pieces: Iterable[bytes]) -> Recording:
    """The recording or plain body that was read from this source.

    Raises:
        click.ClickException: It is an invalid recording.
    """
    try:
        return Recording.loads(b"".join(pieces))
    except ValueError as error:
        raise click.ClickException(f"{one_line(source)}: {reason_of(error)}") from None


def write(data: bytes, output: str) -> None:
    """Write a file; "-" is standard output.

    Raises:
        click.ClickException: It cannot be written.
    """
    try:
        if output != "-":
            Path(output).write_bytes(data)
            return
        rest = memoryview(data)
        while rest:  # without buffering, a write may be partial
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{one_line(output)}: {reason_of(error)}") from None


def is_url(source: str) -> bool:
    """Whether the source is an HTTP URL, and not the name of a file."""
    return source.startswith(("http://", "https://")) and not Path(source).exists()


def reason_of(error: Exception) -> str:
    """The exception's message on one line; its type if it has none."""
    said = error.strerror if isinstance(error, OSError) else None
    return one_line(said or str(error) or type(error).__name__)
