"""`chunkfold report`: recordings as a page of HTML, as a trace for Perfetto, and as an animated picture."""

import json
from pathlib import Path

import click

from chunkfold.cli.files import recording_from, write
from chunkfold.cli.safe import one_line
from chunkfold.excerpts import counted
from chunkfold.recording import Recording
from chunkfold.report import StreamFacts, facts_of, motion, page, trace

_LOOK = 4096  # bytes checked to see whether a file is text


def report(files: tuple[str, ...], output: str | None, trace_to: str | None, motion_to: str | None) -> None:
    """Write the page, the trace and the animation that are asked for."""
    outputs = [*filter(None, (output, trace_to, motion_to))]
    if not outputs:
        raise click.UsageError("expected -o, for a page, --trace or --motion")
    _check_outputs(outputs, files)
    recordings = [_checked(file, recording_from(file)) for file in files]
    names = ("standard input" if file == "-" else file for file in files)
    streams = [facts_of(recording, name) for recording, name in zip(recordings, names, strict=True)]
    if output is not None:
        _write(output, page(streams), streams)
    if trace_to is not None:
        _write_trace(trace_to, streams)
    if motion_to is not None:
        _write(motion_to, motion(recordings), streams)


def _checked(file: str, recording: Recording) -> Recording:
    """The recording, unless it is binary data: an image or an archive has nothing to draw."""
    if not recording.is_timed and b"\0" in recording.body[:_LOOK]:
        raise click.ClickException(
            f"{one_line(file)}: expected a recording or the body of a stream, received binary data"
        )
    return recording


def _check_outputs(outputs: list[str], read: tuple[str, ...]) -> None:
    """Refuse to write a file twice, and to overwrite a file that is read."""
    written = [Path(file).resolve() if file != "-" else file for file in outputs]
    if len(set(written)) < len(written):
        raise click.UsageError("-o, --trace and --motion: expected different files, received the same one twice")
    if {Path(file).resolve() for file in read if file != "-"} & set(written):
        raise click.UsageError("expected an output file that is not an input file")


def _write_trace(output: str, streams: list[StreamFacts]) -> None:
    timed = [facts for facts in streams if facts.is_timed]
    if not timed:
        raise click.ClickException("--trace: no times were recorded, so there is nothing to trace")
    for facts in streams:
        if not facts.is_timed:
            click.echo(f"{one_line(facts.name)}: not in the trace, because it has no times", err=True)
    _write(output, json.dumps(trace(streams), separators=(",", ":")) + "\n", timed)


def _write(output: str, text: str, streams: list[StreamFacts]) -> None:
    data = text.encode()
    write(data, output)
    if output != "-":
        click.echo(
            f"wrote {one_line(output)}: {counted(len(streams), 'recording')}, {len(data) / 1000:,.0f} kB", err=True
        )
