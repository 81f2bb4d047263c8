"""What a command reads that takes FILE, URL or "-": always a recording, of which a plain body is the simplest."""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import httpx

from chunkfold import ChatCompletionParser, StreamEnd
from chunkfold.cli.files import reason_of, recording_from
from chunkfold.cli.request import ChatRequest
from chunkfold.drain import drain
from chunkfold.recording import Recorder, Recording
from chunkfold.recording.credentials import secrets_in_request
from chunkfold.recording.redaction import Redactor

__all__ = ["NO_RESPONSE", "is_url", "no_response", "reason_of", "recording_from", "recording_of"]

# What sending a request raises where there is no response: an invalid URL or header is a ValueError, and an ImportError
# a proxy that needs another package.
NO_RESPONSE: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError)


def recording_of(request: ChatRequest) -> Recording:
    """What a provider answers to a request: the whole body, or what had come of it at Ctrl-C.

    Behind the end of the stream the body is given 100 milliseconds to end, too.

    Raises:
        httpx.TransportError: There was no response, or another of `NO_RESPONSE`; see `no_response`.
        KeyboardInterrupt: Ctrl-C, before there was a response.
    """
    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", **request.headers}
    body = {**request.body, "stream": True}
    is_over = False
    with httpx.Client(timeout=httpx.Timeout(10, read=request.read_timeout)) as client:
        started = time.monotonic()  # now that the certificates are loaded
        with client.stream("POST", request.url, json=body, headers=headers) as response:
            recorder = Recorder(response, started=started)
            with suppress(Exception, KeyboardInterrupt):  # the recording says how it ended
                is_over = _read(recorder, request.read_timeout)
    recording = recorder.recording
    if is_over and recording.error in ("ReadTimeout", "TimeoutError"):  # this side did not wait any longer
        return replace(recording, end="left", error="")
    return recording


def no_response(request: ChatRequest, error: Exception) -> click.ClickException:
    """Why there was none, in one line and without the request's secrets."""
    if isinstance(error, UnicodeEncodeError):
        return click.ClickException("no response: a header has a character that is not ASCII")
    if isinstance(error, httpx.InvalidURL):  # which quotes it, and there may be a password in it
        return click.ClickException("no response: the URL, or that of a proxy, is not valid")
    redactor = Redactor(secrets_in_request(request.url, request.headers))
    return click.ClickException(f"no response: {redactor.clean_text(reason_of(error))}")


def is_url(source: str) -> bool:
    """Whether it names something to ask over HTTP, and no file."""
    return source.startswith(("http://", "https://")) and not Path(source).exists()


def _read(recorder: Recorder, patience: float) -> bool:
    """Read to the end of the body, or of the stream; return whether the stream's came first."""
    parser = ChatCompletionParser(status_code=recorder.status_code, headers=recorder.headers, progress_timeout=patience)
    reads = recorder.iter_bytes()
    for data in reads:
        parser.fold(data)
        if parser.end not in (None, StreamEnd.INVALID):  # behind what is invalid may be more that tells why
            drain(recorder, reads)
            return True
    return False
