"""A small HTTP/2 server for tests that plays a script for each stream.

Each connection has a thread, and in it all its streams take turns: whatever is due is sent in one write, then the
socket is read for a moment. So a script can wait for anything, and what the client sends is seen meanwhile.
"""

import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import hyperframe.frame

HOST: Final = "127.0.0.1"
TURN: Final = 0.002  # seconds between looking at what is due
STOP_TIMEOUT: Final = 5.0  # seconds for each thread
NO_LINGER: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Head:
    """The response's headers."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


@dataclass(frozen=True)
class End:
    """The end of the stream, behind trailers if there are any."""

    trailers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reset:
    """RST_STREAM: this stream ends, the connection goes on."""

    error_code: int = h2.errors.ErrorCodes.INTERNAL_ERROR


@dataclass(frozen=True)
class GoAway:
    """GOAWAY: the connection takes no more streams, and those above `last_stream_id` were not looked at.

    What follows in the script is still sent.
    """

    last_stream_id: int = 2**31 - 1
    error_code: int = h2.errors.ErrorCodes.NO_ERROR


@dataclass(frozen=True)
class Drop:
    """The TCP connection ends, with all its streams: by FIN, or by RST."""

    by_reset: bool = False


@dataclass(frozen=True)
class Until:
    """Wait until this is true."""

    condition: Callable[[], bool]


# Bytes are a DATA frame; a number is a pause in seconds, `math.inf` until the client resets the stream.
Step: TypeAlias = Head | End | Reset | GoAway | Drop | Until | bytes | float


@dataclass
class Stream:
    """One request, and what became of it."""

    id: int
    headers: dict[str, str]
    body: bytes = b""
    reset_by_client: int | None = None  # the error code
    answered: bool = False  # the script was played to its end


class Http2Provider:
    """An HTTP/2 server on a free port of this machine; it runs inside `with`.

    Args:
        scripts: The n-th request, counted over all connections, is answered with the n-th script; the last one is
            repeated.
        ssl_context: A server's, which offers "h2" by ALPN; without one clients have to know that this is HTTP/2.
    """

    def __init__(self, *scripts: Sequence[Step], ssl_context: ssl.SSLContext | None = None) -> None:
        self.streams: list[Stream] = []
        self.connections = 0
        self.failures: list[BaseException] = []
        self.ssl_context = ssl_context
        self._scripts = deque(scripts)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @property
    def url(self) -> str:
        scheme = "http" if self.ssl_context is None else "https"
        return f"{scheme}://{HOST}:{self._listener.getsockname()[1]}/v1/chat/completions"

    def take_script(self, stream: Stream) -> Sequence[Step]:
        with self._lock:
            self.streams.append(stream)
            return self._scripts.popleft() if len(self._scripts) > 1 else self._scripts[0]

    def __enter__(self) -> Self:
        self._listener = socket.create_server((HOST, 0))
        self._run(self._accept)
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        self._stop(self._listener)
        self._listener.close()
        self._threads[0].join(STOP_TIMEOUT)
        for connection in self._sockets:
            self._stop(connection)
        for thread in self._threads:
            thread.join(STOP_TIMEOUT)
            assert not thread.is_alive()
        if exc_type is None and self.failures:
            raise self.failures[0]

    @staticmethod
    def _stop(stopped: socket.socket) -> None:
        with suppress(OSError):  # TLS is shut down beneath it
            socket.socket.shutdown(stopped, socket.SHUT_RDWR)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="http2-provider", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                accepted, _ = self._listener.accept()
                self.connections += 1
                self._run(self._serve, accepted)

    def _serve(self, accepted: socket.socket) -> None:
        try:
            with suppress(OSError), accepted:
                if self.ssl_context is not None:
                    accepted = self.ssl_context.wrap_socket(accepted, server_side=True)
                with accepted:
                    self._sockets.append(accepted)
                    Connection(self, accepted).serve()
        except BaseException as error:  # noqa: BLE001 - raised at the end
            self.failures.append(error)


class Connection:
    """One connection, as long as it lasts."""

    def __init__(self, provider: Http2Provider, accepted: socket.socket) -> None:
        self.provider = provider
        self.socket = accepted
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.streams: dict[int, Stream] = {}
        self.plays: dict[int, Iterator[Callable[[], bool]]] = {}
        self.waits: dict[int, Callable[[], bool]] = {}
        self.outgoing = b""
        self.dropped: Drop | None = None

    def serve(self) -> None:
        self.h2.initiate_connection()
        while True:
            self.play()
            self.socket.settimeout(None)
            self.write()
            self.socket.sendall(self.outgoing)
            if self.dropped is not None:
                self.drop(self.dropped)
                return
            self.outgoing = b""
            self.socket.settimeout(TURN if self.plays else None)
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                continue
            if not data:
                return
            for event in self.h2.receive_data(data):
                self.take(event)

    def drop(self, step: Drop) -> None:
        """End the connection; over TLS without its closing alert."""
        if step.by_reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            return
        socket.socket.shutdown(self.socket, socket.SHUT_WR)
        while self.socket.recv(65536):  # closing with something unread would be a reset
            pass

    def write(self, data: bytes = b"") -> None:
        """Put what h2 has to send in the next write, and these bytes behind it."""
        self.outgoing += self.h2.data_to_send() + data

    def take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=id_, headers=headers):
                self.streams[id_] = Stream(id_, {name.decode(): value.decode() for name, value in headers})
            case h2.events.DataReceived(stream_id=id_, data=data, flow_controlled_length=size):
                self.streams[id_].body += data
                self.h2.acknowledge_received_data(size, id_)
            case h2.events.StreamEnded(stream_id=id_):
                stream = self.streams[id_]
                self.plays[id_] = self.played(stream, self.provider.take_script(stream))
                self.waits[id_] = lambda: True
            case h2.events.StreamReset(stream_id=id_, error_code=code):
                self.streams[id_].reset_by_client = int(code)
                self.plays.pop(id_, None)

    def play(self) -> None:
        """Do what is due in every stream."""
        for id_, play in list(self.plays.items()):
            while self.dropped is None and self.waits[id_]():
                try:
                    self.waits[id_] = next(play)
                except StopIteration:
                    del self.plays[id_]
                    self.streams[id_].answered = True
                    break

    def played(self, stream: Stream, script: Iterable[Step]) -> Iterator[Callable[[], bool]]:
        """Play the script; what is yielded has to be true before it goes on."""
        for step in script:
            match step:
                case Head(status=status, headers=headers):
                    self.h2.send_headers(stream.id, [(":status", str(status)), *headers.items()])
                case bytes():
                    self.h2.send_data(stream.id, step)
                case End(trailers=trailers) if trailers:
                    self.h2.send_headers(stream.id, list(trailers.items()), end_stream=True)
                case End():
                    self.h2.end_stream(stream.id)
                case Reset(error_code=code):
                    self.h2.reset_stream(stream.id, code)
                case GoAway(last_stream_id=last, error_code=code):  # h2 itself would send nothing after it
                    self.write(hyperframe.frame.GoAwayFrame(0, last_stream_id=last, error_code=int(code)).serialize())
                case Drop():
                    self.dropped = step
                    return
                case Until(condition=condition):
                    yield condition
                case pause:
                    yield over(pause)


def over(pause: float) -> Callable[[], bool]:
    """Whether that many seconds have passed since."""
    end = time.monotonic() + pause
    return lambda: time.monotonic() >= end
