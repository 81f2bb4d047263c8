"""What a command reads that takes FILE, URL or "-": always a recording, of which a plain body is the simplest."""

import importlib.metadata
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import click
import httpx

from chunkfold import ChatCompletionParser, StreamEnd
from chunkfold.cli.files import reason_of, recording_from
from chunkfold.cli.request import ChatRequest
from chunkfold.cli.safe import one_line
from chunkfold.recording import Recorder, Recording
from chunkfold.recording.credentials import secrets_in_request
from chunkfold.recording.redaction import Redactor, bare_url
from chunkfold.stream.network import DeadlineReachedError, read_to_end

__all__ = [
    "NO_RESPONSE",
    "NoResponseError",
    "client_for",
    "no_response",
    "reason_of",
    "recording_from",
    "recording_of",
    "waited",
]

_CONNECT_TIMEOUT: Final = 10.0  # seconds

# What sending a request raises where there is no response: an invalid URL or header is a ValueError, and an ImportError
# a proxy that needs another package.
NO_RESPONSE: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError)


class NoResponseError(click.ClickException):
    """There was no response.

    Attributes:
        kind: The name of the class of what was raised: "ConnectError".
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def client_for(request: ChatRequest) -> httpx.Client:
    """A client that waits as long as the request says.

    Raises:
        NoResponseError: There cannot be one, as with a proxy of a kind that is not known.
    """
    headers = {"User-Agent": f"chunkfold/{importlib.metadata.version('chunkfold')}"}
    try:
        timeout = httpx.Timeout(_CONNECT_TIMEOUT, read=request.read_timeout)
        return httpx.Client(headers=headers, timeout=timeout, trust_env=request.uses_proxy)
    except NO_RESPONSE as error:
        raise no_response(request, error) from None


def recording_of(request: ChatRequest, on_data: Callable[[ChatCompletionParser], object] | None = None) -> Recording:
    """What a provider answers to a request: the whole body, or what had arrived of it at Ctrl-C.

    After the end of the stream the body has 100 milliseconds to end, too.

    Args:
        request: What to send.
        on_data: Called with the parser that has read what came, each time something did.

    Raises:
        httpx.TransportError: There was no response, or another of `NO_RESPONSE`; see `no_response`.
        KeyboardInterrupt: Ctrl-C, before there was a response.
    """
    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", **request.headers}
    body = {**request.body, "stream": True}
    is_over = False
    with client_for(request) as client:
        clock = _LastReading()
        started = clock()  # now that the certificates are loaded
        with client.stream("POST", request.url, json=body, headers=headers) as response:
            recorder = Recorder(response, started=started, clock=clock)
            parser = ChatCompletionParser(
                status_code=response.status_code,
                headers=response.headers,
                progress_timeout=request.read_timeout,
                started=started,
                clock=lambda: clock.last,
            )
            with suppress(Exception, KeyboardInterrupt):  # the recording says how it ended
                is_over = _read(recorder, parser, on_data)
    recording = replace(recorder.recording, progress_timeout=request.read_timeout)
    if is_over and recording.error in (DeadlineReachedError.__name__, "ReadTimeout", "TimeoutError"):
        # this side waited no longer
        return replace(recording, end="left", error="")
    return recording


class _LastReading:
    """A clock that remembers what it said, so that a parser has the times of the recording."""

    last = 0.0

    def __call__(self) -> float:
        self.last = time.monotonic()
        return self.last


def no_response(request: ChatRequest, error: Exception) -> NoResponseError:
    """Why there was none, in one line with the URL, and without the request's secrets."""
    if isinstance(error, UnicodeEncodeError):
        reason = "a header has a character that is not ASCII"
    elif isinstance(error, httpx.InvalidURL):  # which quotes it, and there may be a password in it
        reason = "the URL, or that of a proxy, is not valid"
    elif isinstance(error, httpx.ReadTimeout):
        reason = waited(error, request)
    else:
        reason = re.sub(r"\[Errno -?\d+\] ", "", reason_of(error))
    redactor = Redactor(secrets_in_request(request.url, request.headers))
    where = redactor.clean_text(bare_url(request.url))
    told = one_line(f"no response{where and f' from {where}'}: {redactor.clean_text(reason)}")
    return NoResponseError(told, type(error).__name__)


def waited(error: object, request: ChatRequest) -> str:
    """How long was waited, if it was too long."""
    cause = getattr(error, "__cause__", None)
    is_late = isinstance(error, httpx.ReadTimeout) or isinstance(cause, httpx.ReadTimeout)
    return f"nothing came for {request.read_timeout:g} s" if is_late else ""


def _read(
    recorder: Recorder, parser: ChatCompletionParser, on_data: Callable[[ChatCompletionParser], object] | None
) -> bool:
    """Read to the end of the body, or of the stream; return whether the stream's came first."""
    reads = recorder.iter_bytes()
    for data in reads:
        if on_data is None:
            parser.fold(data)
        else:
            parser.feed(data)
            on_data(parser)
        if parser.end not in (None, StreamEnd.INVALID):  # behind what is invalid may be more that tells why
            read_to_end(recorder, reads)
            return True
    return False
