"""Answers of the provider, as values, and the bytes and pauses that they become.

No socket is involved here: `wire_steps` splits an `Answer` into steps (write these bytes, wait that long), so that
sending it needs no knowledge of HTTP.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from chunkfold.arguments import check_count, check_word
from chunkfold.excerpts import ShortRepr
from chunkfold.testing.wire import compact_json

Framing: TypeAlias = Literal["chunked", "content-length", "close", "raw"]
Encoding: TypeAlias = Literal["identity", "gzip", "deflate"]
Ending: TypeAlias = Literal["end", "cut", "reset", "open"]

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
_WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}  # for zlib: with a gzip or a zlib header
WITHOUT_BODY: Final = (204, 304)  # statuses


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes among the pieces of a body that are written unchanged: neither compressed nor framed.

    Use it for invalid framing: a chunk with a bad size, the beginning of a chunk, garbage.
    These bytes count neither for `cut_at` nor for a declared length.

    Raises:
        TypeError: They are not bytes.
    """

    data: bytes

    def __post_init__(self) -> None:
        """Refuse here what would otherwise fail in the server's thread."""
        if not isinstance(cast("object", self.data), bytes):
            raise TypeError(f"data: expected bytes, received {type(self.data).__name__}")


@dataclass(frozen=True, slots=True, repr=False)
class Answer(ShortRepr):
    """One HTTP response, and how it goes over the wire.

    Attributes:
        body: In one piece or in several, which are kept as a tuple. Each `bytes` is one write to the
            socket, and one HTTP chunk where the framing is chunked; an empty one writes nothing. Each number is a pause
            in seconds; `math.inf` pauses until the client leaves or the provider stops. A `Raw`
            goes past the framing.
        status: The HTTP status code, from 200 to 599. With 204 and 304 there is no body, and no header that
            describes one.
        headers: Added to the default headers, or replacing them: `content-type` (an event stream),
            `content-encoding`, and the one that the framing needs. Names are sent in lower case.
        framing: How the client knows where the body ends: by its last chunk, its declared length, or
            the end of the connection. With `raw` neither a status line nor headers nor framing are
            written: the body is all that is sent, for invalid HTTP.
        encoding: How the body is compressed. Each piece can be read as soon as it has
            arrived; the end of the compressed data is one more piece after the last.
        cut_at: How many bytes of the body, as they are sent, without their framing, are written;
            `ending` follows at once. A declared length is still that of the whole body. None for
            all of them.
        trailers: Header fields after the last chunk.
        interim: 1xx statuses, such as 103, that are sent before the answer.
        ending: What follows the last piece.
            `end`: the body is finished, and the connection is kept unless the framing is `close`.
            `cut`: the connection is closed (FIN) with the body unfinished: without its last chunk,
            or one byte short of its declared length (`headers` may declare another, and so does
            `cut_at`). A body framed by `close` cannot be cut: there it looks like `end`. Over TLS
            the closing alert is left out.
            `reset`: like `cut`, but by RST, which can cost the client what it had not read yet.
            `open`: the body stays unfinished and the connection silent, until the client leaves or
            the provider stops.

    Raises:
        TypeError: The body is neither bytes nor several of them, a piece is neither bytes nor a number nor a `Raw`, or
            `cut_at` is not an int.
        ValueError: The status is not that of an answer; a pause is negative or NaN; `cut_at` is negative; the framing,
            the encoding or the ending is not one of those above; an interim status is not a 1xx
            status; or two options contradict each other: trailers without chunks, a body with a status that
            has none, a body that ends before its declared length.
    """

    body: bytes | Sequence[bytes | float | Raw]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    framing: Framing = "chunked"
    ending: Ending = "end"
    encoding: Encoding = "identity"
    cut_at: int | None = None
    trailers: Mapping[str, str] = field(default_factory=dict[str, str])
    interim: Sequence[int] = ()

    @property
    def pieces(self) -> Sequence[bytes | float | Raw]:
        """The body in its pieces."""
        return (self.body,) if isinstance(self.body, bytes) else self.body

    def __post_init__(self) -> None:
        """Refuse here, in the caller's thread, what would otherwise fail in the server's."""
        if not isinstance(self.body, bytes):
            _check_body(self.body)
            object.__setattr__(self, "body", tuple(self.body))
        for index, piece in enumerate(self.pieces):
            _check_piece(f"body[{index}]", piece)
        _check_status(self.status)
        check_count("cut_at", self.cut_at)
        check_word("framing", self.framing, get_args(Framing))
        check_word("ending", self.ending, get_args(Ending))
        check_word("encoding", self.encoding, get_args(Encoding))
        object.__setattr__(self, "interim", tuple(self.interim))
        for index, status in enumerate(self.interim):
            _check_interim(f"interim[{index}]", status)
        _check_headers("headers", self.headers)
        _check_headers("trailers", self.trailers)
        _check_sense(self)
        _head(self)  # headers that cannot be written
        _last_chunk(self)


class Answerable(Protocol):
    """An object that can be sent as an answer: a `StreamBuilder`."""

    def answer(self) -> Answer:
        """The answer."""
        ...


Answerish: TypeAlias = Answer | Answerable | bytes | Sequence[bytes | float | Raw]


def as_answer(value: Answerish) -> Answer:
    """Return the answer itself, a builder's answer, or an answer whose body is these bytes or pieces."""
    make: Any = getattr(value, "answer", None)
    answer: object = make() if callable(make) else value
    if isinstance(answer, bytes | list | tuple):
        return Answer(cast("bytes | Sequence[bytes | float | Raw]", answer))
    if not isinstance(answer, Answer):
        raise TypeError(
            f"answer: expected an Answer, a StreamBuilder, bytes or a list of them, received {type(value).__name__}"
        )
    return answer


def json_answer(payload: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Create an answer that is one JSON text with a declared length: a whole completion, an error body.

    Raises:
        TypeError: `json.dumps` cannot write the payload, or a header is not a string.
    """
    given = headers or {}
    _check_headers("headers", given)
    all_headers = {"content-type": "application/json", **_lower_names(given)}
    return Answer(compact_json(payload), status, all_headers, framing="content-length")


def wire_steps(answer: Answer, method: str = "GET") -> Iterator[bytes | float]:
    """The steps, in order: bytes, each for one write, and pauses in seconds.

    Each interim response, and the status line with the headers, is one write of its own. An answer
    that stays open ends with an infinite pause. The answer to a HEAD request has no body (RFC 9110, section
    9.3.2), unless its framing is `raw`.
    """
    for status in answer.interim:
        yield _block(_status_line(status), {})
    if answer.framing != "raw":
        yield _head(answer)
    is_left_out = method == "HEAD" and answer.framing != "raw"
    is_chunked = answer.framing == "chunked" and _has_body(answer) and not is_left_out
    for piece in () if is_left_out else sent_pieces(answer):
        if isinstance(piece, Raw):
            yield piece.data
        elif not isinstance(piece, bytes):
            yield piece
        elif piece:  # an empty chunk would be the last one
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece
    if answer.ending == "open":
        yield math.inf
    elif answer.ending == "end" and is_chunked:
        yield _last_chunk(answer)


def visible_ending(answer: Answer) -> Ending:
    """The ending as a client sees it: `end` if the client has what it takes for the whole body by then."""
    is_whole = not _has_body(answer) or (answer.framing, answer.ending) == ("close", "cut")
    if answer.framing == "content-length" and not is_whole:
        is_whole = all_headers(answer)["content-length"] == str(_size(sent_pieces(answer)))
    return "end" if is_whole else answer.ending


def sent_pieces(answer: Answer) -> Iterator[bytes | float | Raw]:
    """The body as it is sent, before its framing: compressed, then cut."""
    left = answer.cut_at
    for piece in _encoded_pieces(answer):
        if left is not None and left <= 0:
            return
        if left is None or not isinstance(piece, bytes):
            yield piece
        else:
            yield piece[:left]
            left -= len(piece)


def _encoded_pieces(answer: Answer) -> Iterator[bytes | float | Raw]:
    if answer.encoding == "identity":
        yield from answer.pieces
        return
    compressor = zlib.compressobj(wbits=_WINDOW_BITS[answer.encoding])
    for piece in answer.pieces:
        if isinstance(piece, bytes) and piece:
            yield compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)
        else:
            yield piece
    yield compressor.flush()


def _size(pieces: Iterable[bytes | float | Raw]) -> int:
    return sum(len(piece) for piece in pieces if isinstance(piece, bytes))


def _has_body(answer: Answer) -> bool:
    return answer.framing == "raw" or answer.status not in WITHOUT_BODY


def _head(answer: Answer) -> bytes:
    return _block(_status_line(answer.status), all_headers(answer))


def _last_chunk(answer: Answer) -> bytes:
    return _block("0", _lower_names(answer.trailers))


def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {responses.get(status, '')}"


def _block(line: str, fields: Mapping[str, str]) -> bytes:
    """A line, header fields, and the empty line that ends them."""
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()


def all_headers(answer: Answer) -> dict[str, str]:
    """Those that come by themselves, and the answer's own, by lower-case name."""
    own: dict[str, str] = {}
    if _has_body(answer):
        encoding = {} if answer.encoding == "identity" else {"content-encoding": answer.encoding}
        own = {"content-type": _EVENT_STREAM, **encoding, **_framing_header(answer)}
    return own | _lower_names(answer.headers)


def _framing_header(answer: Answer) -> dict[str, str]:
    if answer.framing == "chunked":
        return {"transfer-encoding": "chunked"}
    if answer.framing == "close":
        return {"connection": "close"}
    size = _size(_encoded_pieces(answer))
    # One byte too many: as long as it does not come, the body is not finished.
    is_whole = answer.ending == "end" or answer.cut_at is not None
    return {"content-length": str(size if is_whole else size + 1)}


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _check_body(body: Any) -> None:
    """Refuse types whose items are not pieces: a text has letters, a bytearray numbers."""
    kind = type(body).__name__
    if isinstance(body, str | bytearray | memoryview | Mapping | AbstractSet) or not isinstance(body, Iterable):
        raise TypeError(f"body: expected bytes, or a list of bytes, pauses and Raws, received {kind}")


def _check_status(status: object) -> None:
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"status: expected a status from 200 to 599, received {status!r}")


def _check_headers(name: str, headers: Any) -> None:
    if not isinstance(headers, Mapping):
        raise TypeError(f"{name}: expected a mapping of strings, received {type(headers).__name__}")
    for pair in cast("Mapping[object, object]", headers).items():
        if not all(isinstance(part, str) for part in pair):
            raise TypeError(f"{name}: expected a mapping of strings, received {pair[0]!r}: {pair[1]!r}")


def _check_piece(name: str, piece: object) -> None:
    if isinstance(piece, bool) or not isinstance(piece, bytes | float | int | Raw):
        raise TypeError(f"{name}: expected bytes, a pause in seconds or a Raw, received {type(piece).__name__}")
    if isinstance(piece, float | int) and not piece >= 0:  # NaN is not
        raise ValueError(f"{name}: expected a pause of 0 seconds or more, received {piece}")


def _check_interim(name: str, status: object) -> None:
    if not isinstance(status, int) or not 100 <= status < 200 or status == 101:  # which would be the last of HTTP/1.1
        raise ValueError(f"{name}: expected a status from 100 to 199 other than 101, received {status!r}")


def _check_sense(answer: Answer) -> None:
    """Refuse options that contradict each other."""
    if answer.trailers and answer.framing != "chunked":
        raise ValueError(f"trailers: expected a chunked framing, received {answer.framing!r}")
    if not _has_body(answer) and (_size(answer.pieces) or answer.encoding != "identity" or answer.trailers):
        raise ValueError(f"body: a response with status {answer.status} has none")
    if answer.cut_at is None:
        return
    if (answer.framing, answer.ending) == ("content-length", "end") and answer.cut_at < _size(_encoded_pieces(answer)):
        raise ValueError("cut_at: a body that is shorter than its declared length has no end")
