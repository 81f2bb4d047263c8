"""One TCP connection of the provider: requests in, answers out, in a thread of its own.

The strategy: whatever the thread waits for, it waits for on its socket. A pause is a read with a
timeout, an answer that stays open is a read without one. So a client that leaves is seen at once,
and to stop the thread it is enough to shut the socket down from outside.
"""

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final

from chunkfold.testing import answers, received
from chunkfold.testing.answers import Answer
from chunkfold.testing.defaults import error_answer
from chunkfold.testing.received import ReceivedRequest

_LONGEST_TIMEOUT: Final = 86_400.0  # seconds; sockets refuse weeks, so a day and more is for ever
# `struct linger` is two ints, on Windows two shorts: on, for 0 seconds, makes close() send RST.
_NO_LINGER: Final = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


class Connection:
    """Serve an accepted socket until either side ends it; the socket is closed then.

    Args:
        accepted: The socket; it belongs to the connection from here on.
        respond: Gives the answer to a request. Called in the connection's thread; must not raise.
    """

    def __init__(self, accepted: socket.socket, respond: Callable[[ReceivedRequest], Answer]) -> None:
        self._socket = accepted
        self._respond = respond
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="fake-provider-connection", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Serve from now on, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End what the thread reads, writes or waits for. Does not wait for the thread."""
        self._stopping.set()
        with suppress(OSError):  # the thread may just have closed it
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, for at most `timeout` seconds."""
        self._thread.join(timeout)

    def _serve(self) -> None:
        # A client may close or reset whenever it likes: that ends the connection and is no error.
        with self._socket, self._socket.makefile("rb") as source, suppress(OSError, EOFError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self._exchange(source):
                pass

    def _exchange(self, source: BinaryIO) -> bool:
        """Read one request and answer it; return whether another may follow."""
        try:
            request = received.read_request(source)
        except ValueError as error:
            self._play(error_answer(400, f"This is not HTTP/1.1: {error}"))
            return False
        try:
            return self._answer(request)
        finally:
            request.answered.set()

    def _answer(self, request: ReceivedRequest) -> bool:
        answer = self._respond(request)
        try:
            self._play(answer)
        except OSError:
            request.client_left = not self._stopping.is_set()
            return False
        if answer.ending == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return answers.keeps_connection(answer) and received.keeps_connection(request)

    def _play(self, answer: Answer) -> None:
        for step in answers.wire_steps(answer):
            if isinstance(step, bytes):
                self._socket.sendall(step)
            else:
                self._pause(step)

    def _pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            ConnectionError: The client left, or the provider stopped, before the time was over.
        """
        timeout = seconds if seconds < _LONGEST_TIMEOUT else None
        self._socket.settimeout(timeout)
        try:
            gone = not self._socket.recv(1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):  # the latter is what a pause of 0 seconds gives
            return
        finally:
            self._socket.settimeout(None)
        # Bytes are the next request, sent ahead: behind them the client cannot be seen to leave.
        if gone or self._stopping.wait(timeout):
            raise ConnectionAbortedError
