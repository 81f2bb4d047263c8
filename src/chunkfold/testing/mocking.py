r"""Answers for clients that are mocked: a response for respx, a transport for httpx and httpx2.

    route.mock(return_value=mock_response(builder.answer()))
    client = httpx.Client(transport=mock_transport(builder, b"data: [DONE]\n\n"))

Each piece of the answer is one read, and its faults are the client's own exceptions. httpx is imported when it is
needed, unless another library is given.
"""

from collections import deque
from importlib import import_module
from typing import Any

from chunkfold.testing.answers import Answerish, all_headers, as_answer
from chunkfold.testing.pacing import ManualClock
from chunkfold.testing.playback import Faults, Playback


def mock_response(
    answer: Answerish,
    *,
    library: Any = None,
    clock: ManualClock | None = None,
    read_timeout: float | None = None,
) -> Any:
    """Create a response of httpx, or of a similar library, that delivers an answer; it can be used repeatedly.

    Args:
        answer: An `Answer`, a `StreamBuilder`, or the bytes of a body, whole or in a list with pauses.
        library: The module whose response it is: `httpx`, which is the default, or `httpx2`, which openai's SDK uses.
        clock: The clock that pauses advance; None to really wait.
        read_timeout: Seconds after which a pause raises the library's `ReadTimeout`. An endless pause always raises
            it, and at once.

    Returns:
        `library.Response`, for sync and async clients.

    Raises:
        TypeError: It is not an answer.
        ValueError: Only a socket can send that answer.
    """
    module = library or import_module("httpx")
    sent = as_answer(answer)
    faults = Faults(cut=module.RemoteProtocolError, reset=module.ReadError, timeout=module.ReadTimeout)
    # The library wants a stream of its own classes.
    new_stream: Any = type("PlaybackStream", (Playback, module.SyncByteStream, module.AsyncByteStream), {})
    stream = new_stream(sent, clock=clock, read_timeout=read_timeout, faults=faults)
    return module.Response(sent.status, headers=all_headers(sent), stream=stream)


def mock_transport(*answers: Answerish, library: Any = None, clock: ManualClock | None = None) -> Any:
    """Create a transport that answers the requests of a client, sync or async, one after the other.

    Args:
        answers: One for each request; the last one is repeated for all that follow.
        library: The client's module: `httpx`, which is the default, or `httpx2`.
        clock: The clock that pauses advance; None to really wait. A pause longer than the request's read timeout raises
            the library's `ReadTimeout`; an endless pause raises it at once.

    Returns:
        `library.MockTransport`.

    Raises:
        TypeError: One of them is not an answer.
        ValueError: There is no answer, or one that only a socket can send.
    """
    module = library or import_module("httpx")
    script = deque(map(as_answer, answers))
    if not script:
        raise ValueError("answers: expected one or more, received none")
    for answer in script:
        Playback(answer)  # refuse here what would otherwise fail in the client

    def respond(request: Any) -> Any:
        client = type(request).__module__.partition(".")[0]
        if client != module.__name__:
            raise TypeError(f"library: expected the client's, which is {client}, received {module.__name__}")
        answer = script.popleft() if len(script) > 1 else script[0]
        read_timeout = request.extensions.get("timeout", {}).get("read")
        return mock_response(answer, library=module, clock=clock, read_timeout=read_timeout)

    return module.MockTransport(respond)
