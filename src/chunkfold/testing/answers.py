"""What the provider says, as values, and the bytes and pauses a value becomes.

No socket is known here: `wire_steps` takes an `Answer` apart into what has to be done, in order
(write these bytes, wait that long), so that playing it needs no knowledge of HTTP.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, Final, Literal, TypeAlias, cast, get_args

Framing: TypeAlias = Literal["chunked", "content-length", "close"]
Ending: TypeAlias = Literal["end", "cut", "reset", "open"]

_EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
_LAST_CHUNK: Final = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response, and how it goes over the wire.

    Attributes:
        body: In one piece or in several. Each `bytes` is one write to the socket, and one HTTP
            chunk where the framing is chunked; an empty one writes nothing. Each number is a pause
            in seconds; `math.inf` pauses until the client leaves or the provider stops.
        status: The HTTP status code.
        headers: Added to, or put in place of, those that come by themselves: `content-type` (an
            event stream) and the one that the framing needs. Names are sent in lower case.
        framing: What tells the client where the body ends: its last chunk, its declared length, or
            the end of the connection.
        ending: What follows the last piece.
            `end`: the body is finished, and the connection is kept unless the framing is `close`.
            `cut`: the connection is closed (FIN) with the body unfinished: without its last chunk,
            or one byte short of its declared length (`headers` may declare another). A body framed
            by `close` cannot be cut: there it looks like `end`.
            `reset`: like `cut`, but by RST, which can cost the client what it had not read yet.
            `open`: the body stays unfinished and the connection silent, until the client leaves or
            the provider stops.

    Raises:
        TypeError: A piece of the body is neither bytes nor a number.
        ValueError: A pause is negative or NaN, or the framing or the ending is none of those above.
    """

    body: bytes | Sequence[bytes | float]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    framing: Framing = "chunked"
    ending: Ending = "end"

    def __post_init__(self) -> None:
        """Refuse here, in the caller's thread, what would otherwise fail in the server's."""
        for index, piece in enumerate(_pieces(self)):
            _check_piece(f"body[{index}]", piece)
        _check_word("framing", self.framing, get_args(Framing))
        _check_word("ending", self.ending, get_args(Ending))
        _head(self)  # headers that cannot be written


def as_answer(value: Answer | bytes) -> Answer:
    """The answer itself, or one whose body are these bytes.

    Raises:
        TypeError: It is neither.
    """
    answer = Answer(value) if isinstance(value, bytes) else value
    if not isinstance(cast("object", answer), Answer):
        raise TypeError(f"answer: expected an Answer or bytes, received {type(answer).__name__}")
    return answer


def json_answer(payload: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that is one JSON text with a declared length: a whole completion, an error body.

    Raises:
        TypeError: `json.dumps` cannot write the payload.
    """
    all_headers = {"content-type": "application/json", **_lower_names(headers or {})}
    return Answer(_compact_json(payload), status, all_headers, framing="content-length")


def sse(*payloads: Mapping[str, Any] | bytes | str, done: bool = True) -> list[bytes]:
    r"""The body of a stream: one `data: ...\n\n` piece for each payload.

    Args:
        payloads: A mapping becomes compact JSON in UTF-8; bytes and text are taken as they are.
        done: Whether a last piece `data: [DONE]\n\n` follows.

    >>> sse({"choices": []}, '{"usage": null}')
    [b'data: {"choices":[]}\n\n', b'data: {"usage": null}\n\n', b'data: [DONE]\n\n']
    """
    pieces = [b"data: " + _payload_bytes(payload) + b"\n\n" for payload in payloads]
    return [*pieces, b"data: [DONE]\n\n"] if done else pieces


def wire_steps(answer: Answer) -> Iterator[bytes | float]:
    """What to do, in order: bytes to write, each in one write, and pauses in seconds.

    The status line and the headers are one write of their own. An answer that stays open ends in
    an infinite pause.
    """
    yield _head(answer)
    for piece in _pieces(answer):
        if not isinstance(piece, bytes):
            yield piece
        elif piece:  # an empty chunk would be the last one
            yield _chunk(piece) if answer.framing == "chunked" else piece
    if answer.ending == "open":
        yield math.inf
    elif answer.ending == "end" and answer.framing == "chunked":
        yield _LAST_CHUNK


def keeps_connection(answer: Answer) -> bool:
    """Whether the connection can serve another request after this answer."""
    return answer.ending == "end" and _all_headers(answer).get("connection") != "close"


def _pieces(answer: Answer) -> Sequence[bytes | float]:
    return (answer.body,) if isinstance(answer.body, bytes) else answer.body


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, '')}"]
    lines += [f"{name}: {value}" for name, value in _all_headers(answer).items()]
    return "\r\n".join([*lines, "", ""]).encode()


def _all_headers(answer: Answer) -> dict[str, str]:
    own = {"content-type": _EVENT_STREAM, **_framing_header(answer)}
    return own | _lower_names(answer.headers)


def _framing_header(answer: Answer) -> dict[str, str]:
    if answer.framing == "chunked":
        return {"transfer-encoding": "chunked"}
    if answer.framing == "close":
        return {"connection": "close"}
    sent = sum(len(piece) for piece in _pieces(answer) if isinstance(piece, bytes))
    # One byte too many: as long as it does not come, the body is not finished.
    return {"content-length": str(sent if answer.ending == "end" else sent + 1)}


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _payload_bytes(payload: Mapping[str, Any] | bytes | str) -> bytes:
    if isinstance(payload, bytes):
        return payload
    return payload.encode() if isinstance(payload, str) else _compact_json(payload)


def _compact_json(payload: object) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def _check_piece(name: str, piece: object) -> None:
    if not isinstance(piece, bytes | float | int):
        raise TypeError(f"{name}: expected bytes or a pause in seconds, received {type(piece).__name__}")
    if not isinstance(piece, bytes) and not piece >= 0:  # NaN is not
        raise ValueError(f"{name}: expected a pause of 0 seconds or more, received {piece}")


def _check_word(name: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise ValueError(f"{name}: expected one of {', '.join(words)}, received {word!r}")
