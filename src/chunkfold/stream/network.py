"""Control the connection below a response: limit its reads, read its body to the end, wake its reader, close it.

All but closing needs a client whose responses expose their connection, so it works for HTTP/1 over httpx and httpx2;
over HTTP/2 only a reader can be woken, and only an async one. With any other client it does nothing, and does not fail.
"""

import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import anyio

MAX_WAIT_FOR_END: Final = 0.1  # seconds, after `[DONE]`; `StreamDriver` decides whether to wait
_LONGEST_TIMEOUT: Final = 1e6  # seconds; a socket takes at most 2**31 milliseconds


class DeadlineReachedError(Exception):
    """A read lasted until the deadline that `reads_until` set."""


def owns_connection(response: Any) -> bool:
    """Whether this is HTTP/1 over httpx or httpx2, where an open response has its connection for itself."""
    return _http_version(response) in ("HTTP/1.0", "HTTP/1.1") and not response.is_closed


def may_be_kept(response: Any) -> bool:
    """Whether the client can keep the response's connection at the end of the body, which closes it over HTTP/1.0."""
    if not owns_connection(response) or response.http_version != "HTTP/1.1":
        return False
    return "close" not in map(str.strip, response.headers.get("connection", "").lower().split(","))


def shares_connection(response: Any) -> bool:
    """Whether this is HTTP/2 over httpx or httpx2.

    Closing such a response does not end a read of it: the read then waits, whatever arrives, until the connection ends
    or the read timeout has passed.
    """
    return _http_version(response) == "HTTP/2"


def _http_version(response: Any) -> str | None:
    package = type(response).__module__.partition(".")[0]
    return response.http_version if package in ("httpx", "httpx2") else None


def read_to_end(response: Any, source: Iterator[bytes], seconds: float = MAX_WAIT_FOR_END) -> bool:
    """Read on until the body ends, for at most `seconds` and never more than 100 ms; return whether it ended.

    After `[DONE]` the last chunk of an HTTP/1.1 body is still missing, and only a connection whose body was read to the
    end goes back to the pool. Returning in time is guaranteed, reuse is not.
    """
    deadline = time.monotonic() + min(seconds, MAX_WAIT_FOR_END)
    with suppress(Exception), reads_until(response, deadline) as is_bounded:
        return is_bounded and all(time.monotonic() <= deadline for _ in source)
    return False  # the end is late or broken, but the stream is complete


def end_of_body_scope(seconds: float) -> "anyio.CancelScope":
    """A scope that ends `aread_to_end`: after at most `seconds` from now, and never more than 100 ms."""
    import anyio

    return anyio.move_on_after(min(seconds, MAX_WAIT_FOR_END))


async def aread_to_end(source: AsyncIterator[bytes], scope: "anyio.CancelScope") -> bool:
    """Read on until the body ends or the scope is cancelled; return whether it ended."""
    with scope, suppress(Exception):
        async for _ in source:
            pass
        return True
    return False


@contextmanager
def reads_until(response: Any, deadline: float) -> Generator[bool]:
    """Limit the reads of this thread from the response's connection to a deadline.

    The read timeout of a request cannot be changed once its body is being read, so the network stream's own
    `read` is replaced meanwhile. The replacement affects this thread only: once the body has ended, the pool may give
    the connection to another thread at once.

    From the deadline on, a reading of `time.monotonic`, a read fails with a `DeadlineReachedError`. If the response's
    reads cannot be limited, the context manager yields False.
    """
    bounded: _BoundedRead | None = None
    network_stream: Any = None
    with suppress(AttributeError):  # there is no network stream, or one of another library
        network_stream = response.extensions.get("network_stream")
        read = network_stream.read
        replacement = read if isinstance(read, _BoundedRead) else _BoundedRead(read)
        replacement.deadlines[threading.get_ident()] = deadline
        network_stream.read = replacement  # again, if the thread that had the connection before just removed it
        bounded = replacement
    if bounded is None:
        yield False  # not while that error is handled: it would be the context of what the reader's code raises
        return
    try:
        yield True
    finally:
        del bounded.deadlines[threading.get_ident()]
        # Without a lock, see `reuse`: no other thread runs between the look at the deadlines and the assignment.
        if not bounded.deadlines and network_stream.read is bounded:
            network_stream.read = bounded.read


class _BoundedRead:
    """A network stream's `read` that applies the deadline of the calling thread, if it has one."""

    def __init__(self, read: Callable[..., bytes]) -> None:
        self.read = read
        self.deadlines: dict[int, float] = {}

    def __call__(self, max_bytes: int, timeout: float | None = None) -> bytes:
        deadline = self.deadlines.get(threading.get_ident())
        if deadline is None:
            return self.read(max_bytes, timeout)
        rest = deadline - time.monotonic()
        if rest <= 0:  # a compressed body that decodes to nothing is read in one go
            raise DeadlineReachedError
        longest = _LONGEST_TIMEOUT if timeout is None else timeout
        try:
            return self.read(max_bytes, min(rest, longest))
        except Exception as exc:
            if rest <= longest and type(exc).__name__ == "ReadTimeout":
                raise DeadlineReachedError from exc
            raise


def wake_reader(response: Any) -> bool:
    """Wake another thread that waits for bytes in a read; return whether that was possible.

    The connection is shut down below TLS: `SSLSocket.shutdown` would remove the TLS state that the reader still uses.
    """
    import socket

    with suppress(Exception):  # no socket, a closed one, or one of another library
        if owns_connection(response):
            connected = response.extensions["network_stream"].get_extra_info("socket")
            socket.socket.shutdown(connected, socket.SHUT_RDWR)
            return True
    return False


class InterruptibleReads(AsyncIterator[bytes]):
    """The body of an async response that shares its connection; another task can interrupt a read of it."""

    def __init__(self, source: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._scope: anyio.CancelScope  # once a read began

    async def __anext__(self) -> bytes:
        import anyio

        with anyio.CancelScope() as self._scope:
            return await anext(self._source)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the source; no task may be reading it."""
        await self._source.aclose()

    def interrupt(self) -> None:
        """End the body for the task that waits for its next bytes; the connection and its other streams continue."""
        self._scope.cancel()


def run_to_completion(
    work: Coroutine[Any, Any, None], response: Any, scope: "anyio.CancelScope | None", *, shield: bool = True
) -> Coroutine[Any, Any, None]:
    """Wait until `work` is done, such as closing; if this task was cancelled meanwhile, raise the cancellation then.

    A pool loses a connection forever if the closing of its response is interrupted. The shields of httpcore are
    anyio's: they protect from cancellation by anyio and trio, but not from asyncio's own `task.cancel()`. So on asyncio
    the work is done by a separate task, except without a response: a plain iterable may have to be closed by the task
    that started it.

    `scope` is cancelled when this task is, to make the work finish sooner; a cancellation by a scope of anyio does that
    only without `shield`, and otherwise waits until the work is done.
    """
    return work if response is None or not _is_asyncio() else _in_own_task(work, scope, shield=shield)


async def _in_own_task(work: Coroutine[Any, Any, None], scope: "anyio.CancelScope | None", *, shield: bool) -> None:
    import asyncio

    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    anyio = sys.modules.get("anyio")
    around: Any = anyio.CancelScope(shield=shield) if anyio is not None else nullcontext()
    with around:
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
                around.shield = True  # from anyio's cancellation, which anyio repeats in every iteration of the loop
                if scope is not None:
                    scope.cancel()
    try:
        if cancelled is not None:
            task.exception()  # else asyncio would log that it was not retrieved
            raise cancelled
        task.result()
    finally:
        cancelled = None  # else it and this frame would refer to each other


def _is_asyncio() -> bool:
    """Whether this runs in a task of asyncio; trio may run as its guest, where there is none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False
