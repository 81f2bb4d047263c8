"""Send a request; show one line while waiting, or the reason why there is no response."""

import re
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import click
import httpx
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import chunkfold
from chunkfold.cli.consoles import console_on
from chunkfold.cli.facts import Problem
from chunkfold.cli.request import ChatRequest
from chunkfold.cli.safe import one_line, reason_of
from chunkfold.recording.redaction import bare_url
from chunkfold.stream.connection import split_options

_CONNECT_TIMEOUT: Final = 10.0  # seconds


class NoResponseError(click.ClickException):
    """There was no response."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@contextmanager
def explained(request: ChatRequest) -> Generator[None]:
    """Turn the errors of a request without a response into a `NoResponseError`.

    An invalid URL or header is a ValueError; a proxy that needs another package is an ImportError.
    """
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
        raise NoResponseError(Problem(type(error).__name__, _reason(request, error))) from None


def client_for(request: ChatRequest) -> httpx.Client:
    """A client with the timeout of the request. An unknown kind of proxy counts as no response."""
    headers = {"User-Agent": f"chunkfold/{chunkfold.__version__}"}
    with explained(request):
        timeout = httpx.Timeout(_CONNECT_TIMEOUT, read=request.read_timeout)
        return httpx.Client(headers=headers, timeout=timeout, trust_env=request.uses_proxy)


@contextmanager
def answer_to(client: httpx.Client, request: ChatRequest, method: str = "POST") -> Generator[httpx.Response]:
    """Send the request, with "GET" only its headers, and close the response afterwards."""
    _, options = split_options(request.body, {"headers": request.headers})
    if method == "GET":
        del options["json"]
    with ExitStack() as stack:
        with explained(request):
            response = stack.enter_context(client.stream(method, request.url, **options))
        yield response


@contextmanager
def waiting_for(what: str) -> Generator[Callable[[str], object]]:
    """Show what is waited for, and how long; call the yielded function to change the text."""
    console = console_on(sys.stderr)
    if not console.is_interactive:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    progress.start()
    try:
        task = progress.add_task(f"waiting for {one_line(what)}", total=None)
        yield lambda told: progress.update(task, description=one_line(told))
    finally:
        with suppress(OSError):  # a terminal that was closed must not cost what has arrived
            progress.stop()


def _reason(request: ChatRequest, error: Exception) -> str:
    """Why there was no response, on one line with the URL, without the request's secrets."""
    if isinstance(error, UnicodeEncodeError):
        reason = "a header has a character that is not ASCII"
    elif isinstance(error, httpx.InvalidURL):  # which quotes it, and there may be a password in it
        reason = "the URL, or that of a proxy, is not valid"
    elif isinstance(error, FileNotFoundError):  # of the client's certificates; it does not say which
        reason = "a file that SSL_CERT_FILE or SSLKEYLOGFILE names does not exist"
    else:
        reason = waited(error, request) or re.sub(r"\[Errno -?\d+\] ", "", reason_of(error))
    clean_text = request.redactor.clean_text
    return one_line(f"no response from {clean_text(bare_url(request.url))}: {clean_text(reason)}")


def waited(error: object, request: ChatRequest) -> str:
    """The time waited, if it was too long; else ""."""
    is_late = isinstance(error, httpx.ReadTimeout) or isinstance(getattr(error, "__cause__", None), httpx.ReadTimeout)
    return f"nothing arrived for {request.read_timeout:g} s" if is_late else ""
