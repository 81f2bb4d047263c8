"""Files of commands: recordings to read, and what is written."""

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from chunkfold.cli.safe import one_line, reason_of
from chunkfold.recording import Recording
from chunkfold.recording.unpacking import unpacked


@contextmanager
def errors_of(name: str) -> Generator[None]:
    """Turn the errors of a file into a `ClickException` that names it."""
    try:
        yield
    except (OSError, ValueError, MemoryError) as error:
        raise click.ClickException(f"{one_line(name)}: {reason_of(error)}") from None


def pieces_of(source: str) -> Iterator[bytes]:
    """The bytes of a file, or of standard input for "-", as they arrive, unpacked if they are gzip."""
    with errors_of(source), nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as file:
        yield from unpacked(file)


def recording_from(source: str, pieces: Iterable[bytes] | None = None) -> Recording:
    """A file's recording or plain body; `pieces` are its bytes, if they are being read already."""
    with errors_of(source):
        return Recording.loads(b"".join(pieces_of(source) if pieces is None else pieces))


def write(data: bytes, output: str) -> None:
    """Write a file; "-" is standard output, whose failure `app` reports."""
    if output != "-":
        with errors_of(output):
            Path(output).write_bytes(data)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
