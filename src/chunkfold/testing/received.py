"""Requests that the provider received: each one HTTP/1.1 request, read completely from a stream of bytes.

It implements the part of the protocol that API clients use: a request line, headers, and a body with a
declared length or in chunks.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from chunkfold.excerpts import short_repr
from chunkfold.json_text.values import is_object

_EXCERPT: Final = 200  # bytes of a body
_LARGEST: Final = 2**30  # bytes of a body, or of a chunk of one: room is made for all of them at once


@dataclass(slots=True, eq=False)
class ReceivedRequest:
    """One request, as it arrived, and whether the client left before the answer was complete.

    Attributes:
        method: As sent: "POST".
        path: The request target without its query: "/v1/chat/completions".
        headers: By lower-case name; the values of a repeated one are joined by ", ".
        body: The body's bytes, without the framing of a chunked one.
        query: What followed the "?", undecoded; "" if nothing did.
        client_left: Whether the client closed or reset the connection before the answer was finished.
            The provider notices this while the answer pauses or stays open, or when a write fails; bytes
            that fit into the sockets' buffers count as written, whether they are read or not. False if the
            provider stopped first. Final once `answered` is set.
        answered: Set as soon as nothing more of the answer will be written, however it ended.
    """

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)  # a key among them
    body: bytes = field(repr=False)
    query: str = ""
    client_left: bool = False
    answered: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def json(self) -> Any:
        """The body, parsed.

        Raises:
            ValueError: It is not JSON in one of Unicode's encodings, or too deep.
        """
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("body: expected JSON, received one that is too deep") from None


def summary(request: ReceivedRequest) -> str:
    """The request in one line: method, path and the beginning of the body; no headers, as they include a key."""
    body = request.body[:_EXCERPT].decode("utf-8", "backslashreplace")
    more = "..." if len(request.body) > _EXCERPT else ""
    return f"{request.method} {request.path} {body}{more}".rstrip()


def mismatch(
    request: ReceivedRequest,
    *,
    method: str | None,
    path: str | None,
    headers: Mapping[str, str] | None,
    json: Mapping[str, Any] | None,
) -> str | None:
    """The first thing in which the request is not as expected, without values of headers; None if it matches."""
    if method not in (None, request.method):
        return f"method: expected {method}"
    if not request.path.endswith(path or ""):
        return f"path: expected one that ends with {path}"
    for name, value in (headers or {}).items():
        sent = request.headers.get(name.lower())
        if sent is None or sent != value:
            came = "none" if sent is None else "another value"
            return f"headers: {name}: expected the value passed, received {came}"
    return None if json is None else _json_mismatch(request, json)


def _json_mismatch(request: ReceivedRequest, wanted: Mapping[str, Any]) -> str | None:
    body = json_object(request)
    if body is None:
        return "json: expected an object"
    for key, value in wanted.items():
        if key not in body or body[key] != value:
            came = short_repr(body[key]) if key in body else "none"
            return f"json: {key}: expected {short_repr(value)}, received {came}"
    return None


def json_object(request: ReceivedRequest) -> dict[str, Any] | None:
    """The body as a JSON object; None if it is anything else."""
    try:
        body = request.json
    except ValueError:
        return None
    return body if is_object(body) else None


def read_request(source: BinaryIO, ask_for_body: Callable[[], object]) -> ReceivedRequest:
    """Wait for one request and read it to its end; a client that waits for `100 Continue` is asked for the body.

    Raises:
        EOFError: The client closed the connection before it had sent a whole request.
        ValueError: The bytes are not HTTP/1.1.
    """
    line = _read_line(source)
    if len(line.split()) != 3:
        raise ValueError(f"request line: expected a method, a target and a version, received {short_repr(line)}")
    method, target, version = line.split()
    if version != "HTTP/1.1":
        raise ValueError(f"version: expected HTTP/1.1, received {version}")
    path, _, query = target.partition("?")
    headers = _read_headers(source)
    if headers.get("expect", "").lower() == "100-continue":
        ask_for_body()
    return ReceivedRequest(method, path, headers, _read_body(source, headers), query)


def _read_headers(source: BinaryIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := _read_line(source):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"header: expected a name, a colon and a value, received {line!r}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _read_body(source: BinaryIO, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return b"".join(_read_chunks(source))
    return _read_exactly(source, int(headers.get("content-length", "0")))


def _read_chunks(source: BinaryIO) -> Iterator[bytes]:
    """The chunks' data (RFC 9112, section 7.1); extensions and trailers are read and dropped."""
    while size := int(_read_line(source).partition(";")[0], 16):
        yield _read_exactly(source, size)
        _read_line(source)
    _read_headers(source)


def _read_line(source: BinaryIO) -> str:
    line = source.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line.rstrip(b"\r\n").decode("latin-1")


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    if not 0 <= size <= _LARGEST:
        raise ValueError(f"size: expected 0 to {_LARGEST} bytes, received {size}")
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data
