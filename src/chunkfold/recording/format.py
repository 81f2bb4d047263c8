r"""Read and write the file of a recording: JSON Lines in UTF-8, one object in each line.

    {"chunkfold_recording":1,"status":200,"headers":{"content-type":"text/event-stream"},"url":"https://...","at":0.31}
    {"at":0.52,"text":"data: {\"choices\":[...]}\n\n"}
    {"at":0.55,"base64":"ZGF0YTog4g=="}
    {"end":"body","at":0.9}

The first line has the format's version (1), the response's status, an allow-list of its headers, the URL without user
and query, and the time of the headers. Then there is a line for each read: its bytes as `text` if they are UTF-8, else
as `base64`. The last line has the way in which reading ended: `body`, `error` (then `error` is the name of the
exception's type) or `left`. It may have the `progress_timeout` that the stream was read with, in seconds: if bytes
arrived but no chunks, only this distinguishes a stream that stalled from one that was left. A file without a last line
was truncated, and counts as left; so does one whose last line is not whole.

Times are seconds since the request was sent, and never decrease; they are null or absent if they are not known. Unknown
keys are ignored, and so are lines that have only unknown keys, so that later versions can add some. A file whose first
line has no version is a plain body.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from chunkfold.arguments import check_word
from chunkfold.event_stream.server_sent_event import BOM
from chunkfold.excerpts import TERMINAL_CONTROLS, ShortRepr, short_repr
from chunkfold.json_text.values import is_object

VERSION: Final = 1
_MARK: Final = "chunkfold_recording"
_LOOKS_MARKED: Final = re.compile(rb'\s*\{\s*"' + _MARK.encode() + rb'"')
_LONGEST_HEAD: Final = 65536  # bytes
_LONGEST: Final = 1e9  # seconds, which is decades
_DIGITS: Final = 6  # of a time behind the point: microseconds
# What acts on a terminal that shows the file is written as JSON's escapes; the rest of them JSON escapes itself.
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in TERMINAL_CONTROLS}

RecordedEnd: TypeAlias = Literal["body", "error", "left"]


@dataclass(frozen=True, slots=True, repr=False)
class RecordedRead(ShortRepr):
    """The result of one read of the body.

    Attributes:
        at: The time of the read, in seconds since the request was sent.
        data: The bytes.
    """

    at: float
    data: bytes


def dumps(recording: Mapping[str, Any]) -> bytes:
    """The file of a recording, given as its fields by name."""
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).translate(_CONTROLS).encode("utf-8", "replace")
        + b"\n"
        for line in _lines(recording)
    )


def loads(data: bytes) -> dict[str, Any]:
    """The recording in a file, as its known fields by name.

    Raises:
        ValueError: Its version or one of its lines is unknown; the message names the line.
    """
    lines = [(number, line) for number, line in enumerate(data.removeprefix(BOM).split(b"\n"), 1) if line.strip()]
    if not lines or not _is_marked(lines[0][1]):
        return {"reads": (RecordedRead(0.0, data),) if data else ()}
    (number, head), *rest = lines
    with _line(number):
        fields = _head(_object(head))
    if rest and not data.endswith(b"\n") and rest[-1][1].startswith(b"{") and not _is_object(rest[-1][1]):
        del rest[-1]  # it was not written to its end
    return {**fields, **_body(rest, fields["headers_at"] or 0.0)}


@contextmanager
def _line(number: int) -> Generator[None]:
    """Add the number of the line to an error in it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"recording: line {number}: {error}") from None


def is_recording(head: bytes) -> bool | None:
    """Whether the first bytes of a file are those of a recording; None if more of them are needed."""
    line, end, _ = head.removeprefix(BOM).lstrip().partition(b"\n")
    if not line or (line.startswith(b"{") and not end and len(line) < _LONGEST_HEAD):
        return None if len(head) < _LONGEST_HEAD else False
    return _is_marked(line)


def _is_marked(line: bytes) -> bool:
    """Whether it is the first line of a recording; a damaged one is recognised by its beginning."""
    return bool(_LOOKS_MARKED.match(line)) or (_is_object(line) and _MARK in _object(line))


def _head(line: dict[str, Any]) -> dict[str, Any]:
    version = _of_type(line, _MARK, int)
    if version > VERSION:
        raise ValueError(f"version {version} is newer than this chunkfold, which knows {VERSION}")
    if version != VERSION:
        raise ValueError(f"{_MARK}: expected version {VERSION}, received {version}")
    status = _of_type(line, "status", int, 200)
    if not 100 <= status <= 999:
        raise ValueError(f"status: expected a number of three digits, received {short_repr(status)}")
    headers: dict[str, Any] = _of_type(line, "headers", dict, {})
    return {
        "status_code": status,
        "headers": {name.lower(): _of_type(headers, name, str) for name in headers},
        "url": _of_type(line, "url", str, ""),
        "headers_at": _seconds(line, "at", 0.0),
    }


def _body(lines: list[tuple[int, bytes]], last_at: float) -> dict[str, Any]:
    """The reads and the end."""
    reads: list[RecordedRead] = []
    end: dict[str, Any] = {}
    for number, text in lines:
        with _line(number):
            if end:
                raise ValueError("expected nothing after the end")
            line = _object(text)
            at = _seconds(line, "at", last_at)
            last_at = last_at if at is None else at
            if "end" in line:
                end = {**_ending(line), "ended_at": at}
            elif "text" in line or "base64" in line:
                reads.append(RecordedRead(last_at, _data(line)))
    return {"reads": tuple(reads), **(end or {"end": "left"})}


def _ending(line: dict[str, Any]) -> dict[str, Any]:
    end = line["end"]
    check_word("end", end, get_args(RecordedEnd))
    error = _of_type(line, "error", str, "")
    return {"end": end, "error": error, "progress_timeout": _seconds(line, "progress_timeout", 0.0)}


def _data(line: dict[str, Any]) -> bytes:
    """The bytes of a read."""
    if "text" not in line:
        return b64decode(_of_type(line, "base64", str), validate=True)
    if "base64" in line:
        raise ValueError("expected text or base64, received both")
    text: str = _of_type(line, "text", str)
    return text.encode()


def _seconds(line: dict[str, Any], key: str, least: float) -> float | None:
    value = line.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{key}: expected seconds, received {type(value).__name__}")
    if not least <= (rounded := round(value, _DIGITS)) <= _LONGEST:
        raise ValueError(f"{key}: expected seconds, {least:g} or more, received {short_repr(value)}")
    return float(rounded)  # not the value, which could be so small that a rate would be infinite


def _of_type(line: dict[str, Any], key: str, kind: type[Any], default: Any = None) -> Any:
    """A value of that type; the default where there is none."""
    value = line.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{short_repr(key)[1:-1]}: expected {kind.__name__}, received {type(value).__name__}")
    return value


def _object(line: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(line.decode())
    except RecursionError:
        raise ValueError("expected a JSON object, received one that is too deep") from None
    except ValueError as error:
        raise ValueError(f"expected a JSON object: {error}") from None
    if not is_object(value):
        raise TypeError(f"expected a JSON object, received {type(value).__name__}")
    return value


def _is_object(line: bytes) -> bool:
    try:
        _object(line)
    except (TypeError, ValueError):
        return False
    return True


def _lines(recording: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {
        _MARK: VERSION,
        "status": recording["status_code"],
        "headers": recording["headers"],
        "url": recording["url"],
        "at": _rounded(recording["headers_at"]),
    }
    for read in recording["reads"]:
        yield {"at": _rounded(read.at), **_encoded(read.data)}
    last: dict[str, Any] = {"end": recording["end"], "at": _rounded(recording["ended_at"])}
    more = {name: recording[name] for name in ("error", "progress_timeout")}
    yield last | {name: value for name, value in more.items() if value not in ("", None)}


def _encoded(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:  # a read may end inside a character
        return {"base64": b64encode(data).decode()}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)
