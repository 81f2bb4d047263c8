"""One TCP connection of the provider: requests in, answers out, in a thread of its own.

The strategy: the thread waits only on its socket. A pause is a read with a timeout, an answer that
stays open is a read without one. So the thread notices at once when a client leaves, and it stops
when another thread shuts the socket down.

Under TLS it waits in the same way below the TLS layer, by the methods of `socket.socket` itself.
"""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BufferedReader
from typing import Final

from chunkfold.testing.answers import CONTINUE, Answer, all_headers, wire_steps
from chunkfold.testing.defaults import error_answer
from chunkfold.testing.received import ReceivedRequest, read_request

_UNREAD: Final = 2**16  # bytes at a time
_LONGEST_TIMEOUT: Final = 86_400.0  # seconds; sockets refuse weeks, so a day or more is forever
# `struct linger` is two ints, on Windows two shorts: on, for 0 seconds, makes close() send RST.
_NO_LINGER: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


class Connection(threading.Thread):
    """Serve an accepted socket, once started, until either side ends it; the socket is closed then.

    Args:
        accepted: The socket; it belongs to the connection from here on.
        respond: Gives the answer to a request. Called in this thread; must not raise.
        ssl_context: For a server that speaks TLS; None without TLS.
    """

    def __init__(
        self,
        accepted: socket.socket,
        respond: Callable[[ReceivedRequest], Answer],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        super().__init__(name="fake-provider-connection", daemon=True)
        self._socket = accepted
        self._respond = respond
        self._ssl_context = ssl_context
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End what the thread reads, writes or waits for. Does not wait for the thread."""
        self._stopping.set()
        with suppress(OSError):  # the thread may just have closed it
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> None:
        """Serve; `start` calls this in the thread."""
        # A client may close or reset whenever it likes, and need not trust the certificate: that ends the connection
        # and is not an error.
        with suppress(OSError, EOFError), self._socket:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._secured() as self._socket, self._socket.makefile("rb") as source:
                if self._stopping.is_set():  # while there was no socket to shut down
                    return
                if isinstance(self._socket, ssl.SSLSocket):
                    self._socket.do_handshake()
                while self._exchange(source):
                    pass

    def _secured(self) -> socket.socket:
        if self._ssl_context is None:
            return self._socket
        # The standard library leaves a socket open that it could not wrap as it was reset before: so
        # wait for the client's first bytes.
        self._socket.recv(1, socket.MSG_PEEK)
        return self._ssl_context.wrap_socket(self._socket, server_side=True, do_handshake_on_connect=False)

    def _exchange(self, source: BufferedReader) -> bool:
        """Read one request and answer it; return whether another may follow."""
        try:
            request = read_request(source, lambda: self._socket.sendall(CONTINUE))
        except ValueError as error:
            refusal = error_answer(400, f"This is not HTTP/1.1: {error}", headers={"connection": "close"})
            self._play(refusal, source)
            self._end_tls()
            self._leave_nothing_unread()
            return False
        answer = self._respond(request)
        try:
            self._play(answer, source, request.method)
        except OSError:
            request.client_left = not self._stopping.is_set()
            return False
        finally:
            request.answered.set()
        if answer.ending == "end" and not (_says_close(all_headers(answer)) or _says_close(request.headers)):
            return True
        if answer.ending == "end":
            self._end_tls()
        elif answer.ending == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return False

    def _play(self, answer: Answer, source: BufferedReader, method: str = "GET") -> None:
        for step in wire_steps(answer, method):
            if isinstance(step, bytes):
                self._socket.sendall(step)
            else:
                self._pause(step, source)

    def _pause(self, seconds: float, source: BufferedReader) -> None:
        """Wait; if the client leaves, or the provider stops, before the time is over, raise a `ConnectionError`."""
        timeout = seconds if seconds < _LONGEST_TIMEOUT else None
        self._socket.settimeout(timeout)
        try:
            gone = not socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):  # the latter is what a pause of 0 seconds gives
            return
        finally:
            self._socket.settimeout(None)
        # Bytes are TLS's closing alert, or the next request, sent ahead: after that the client cannot be seen to leave.
        if gone or not source.peek(1) or self._stopping.wait(timeout):
            raise ConnectionAbortedError

    def _end_tls(self) -> None:
        """Send TLS's closing alert, if this is TLS, and wait until the client closes, too."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.unwrap()

    def _leave_nothing_unread(self) -> None:
        """End the answer, and wait until the client closes, too: a socket that is closed with bytes unread is reset."""
        socket.socket.shutdown(self._socket, socket.SHUT_WR)
        while socket.socket.recv(self._socket, _UNREAD):
            pass


def _says_close(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request or an answer end the connection (RFC 9110, section 7.6.1)."""
    return "close" in map(str.strip, headers.get("connection", "").lower().split(","))
