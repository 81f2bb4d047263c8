"""What a command reads that takes FILE, URL or "-": always a recording, of which a plain body is the simplest."""

import sys
import time
from pathlib import Path

import click
import httpx

from chunkfold.cli.request import ChatRequest
from chunkfold.recording import RecordedRead, Recorder, Recording


def recording_from(source: str) -> Recording:
    """A file's recording or plain body; "-" is standard input.

    Raises:
        click.ClickException: It cannot be read, or is a recording of a kind that is not known.
    """
    try:
        return _from_stdin() if source == "-" else Recording.load(source)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise click.ClickException(f"{source}: {reason}") from None


def recording_of(request: ChatRequest) -> Recording:
    """What a provider answers to a request, read to its end.

    Raises:
        httpx.TransportError: There was no response.
    """
    timeout = httpx.Timeout(10, read=request.read_timeout)
    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", **request.headers}
    started = time.monotonic()
    with (
        httpx.Client(timeout=timeout) as client,
        client.stream("POST", request.url, json={**request.body, "stream": True}, headers=headers) as response,
    ):
        recorder = Recorder(response, secrets=request.secrets, started=started)
        try:
            for _ in recorder.iter_bytes():
                pass
        except httpx.TransportError:
            pass  # the recording says so
        return recorder.recording


def is_url(source: str) -> bool:
    """Whether it names something to ask over HTTP, and no file."""
    return source.startswith(("http://", "https://")) and not Path(source).exists()


def _from_stdin() -> Recording:
    from chunkfold.recording.format import loads

    loaded = loads(sys.stdin.buffer.read(), Recording)
    return loaded if loaded.reads else Recording(reads=(RecordedRead(0.0, b""),))
