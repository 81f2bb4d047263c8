"""Wait a moment for the end of a body whose stream is over, so that its connection can be used again.

After `[DONE]` an HTTP/1.1 body still has its last chunk to come, and only a connection whose body was read to the
end goes back to the pool. Returning in time is certain, reuse is best effort.
"""

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import anyio

MAX_SECONDS: Final = 0.1
_lock: Final = threading.Lock()


def is_drainable(response: Any) -> bool:
    """Whether this is HTTP/1.1 over httpx or httpx2, whose pools keep a connection that was read to its end."""
    package = type(response).__module__.partition(".")[0]
    return package in ("httpx", "httpx2") and response.http_version == "HTTP/1.1" and not response.is_closed


def drain(response: Any, source: Iterator[bytes]) -> None:
    """Read on for at most 100 ms.

    The read timeout of a request cannot be changed any more once its body is being read, so the network stream's own
    `read` gets a shorter one, for this thread alone: once the body has ended, the pool may hand the connection on to
    another thread at once.
    """
    network_stream = response.extensions.get("network_stream")
    if network_stream is None:
        return
    thread = threading.get_ident()
    try:
        deadlines = _timed_read(network_stream).deadlines
    except AttributeError:  # a stream of another make, whose `read` is its own
        return
    deadlines[thread] = deadline = time.monotonic() + MAX_SECONDS
    try:
        for _ in source:
            if time.monotonic() > deadline:
                return
    except Exception:  # noqa: BLE001, S110 - no end in time, or a broken one: the stream is complete all the same
        pass
    finally:
        del deadlines[thread]


class _TimedRead:
    """A network stream's `read` that keeps the deadlines of the threads that have one.

    It stays once it was put in place: taking it away would race with the next thread on the same connection.
    """

    def __init__(self, read: Callable[..., bytes]) -> None:
        self.deadlines: dict[int, float] = {}
        self._read = read

    def __call__(self, max_bytes: int, timeout: float | None = None) -> bytes:
        deadline = self.deadlines.get(threading.get_ident())
        if deadline is not None:
            timeout = deadline - time.monotonic()
            if timeout <= 0:  # a compressed body that decodes to nothing never comes back to `drain`
                raise TimeoutError
        return self._read(max_bytes, timeout)


def _timed_read(network_stream: Any) -> _TimedRead:
    with _lock:
        if not isinstance(network_stream.read, _TimedRead):
            network_stream.read = _TimedRead(network_stream.read)
        return network_stream.read


def new_patience() -> "anyio.CancelScope":
    """How long `drain_async` reads on: at most 100 ms from now."""
    import anyio

    return anyio.move_on_after(MAX_SECONDS)


async def drain_async(source: AsyncIterator[bytes], patience: "anyio.CancelScope") -> None:
    """Read on for as long as there is patience."""
    with patience:
        try:
            async for _ in source:
                pass
        except Exception:  # noqa: BLE001, S110 - no end in time, or a broken one: the stream is complete all the same
            pass
