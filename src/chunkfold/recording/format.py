r"""The file of a recording: JSON Lines in UTF-8, one object in each line.

    {"chunkfold_recording":1,"status":200,"headers":{"content-type":"text/event-stream"},"url":"https://...","at":0.31}
    {"at":0.52,"text":"data: {\"choices\":[...]}\n\n"}
    {"at":0.55,"base64":"ZGF0YTog4g=="}
    {"end":"body","at":0.9}

The first line has the format's version (1), the response's status, an allow-list of its headers, the URL without user
and query, and when the headers came. Then a line for each read, as it came: its bytes as `text` where they are UTF-8,
else as `base64`. The last line says how reading ended: `body`, `error` (then `error` is the name of the exception's
type) or `left`; a file without it was cut, and counts as left. Times are seconds since the request was sent.

Keys that are not known are let be, so that later versions may add some. A file that does not begin with such a line is
a plain body.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, Final, TypeVar, cast

from chunkfold.recording.recording import RecordedRead, Recording

VERSION: Final = 1
_MARK: Final = b'{"chunkfold_recording":'

RecordingT = TypeVar("RecordingT", bound=Recording)


def dumps(recording: Recording) -> bytes:
    """The file of a recording."""
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in _lines(recording)
    )


def loads(data: bytes, kind: type[RecordingT]) -> RecordingT:
    """The recording that a file holds.

    Raises:
        ValueError: It has a version or a line that is not known.
    """
    if not data.lstrip().startswith(_MARK):
        return kind(reads=(RecordedRead(0.0, data),))
    try:
        return _read(data, kind)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"recording: a value of another type than expected: {error}") from None


def _read(data: bytes, kind: type[RecordingT]) -> RecordingT:
    reads: list[RecordedRead] = []
    end: dict[str, Any] = {"end": "left"}
    head, *lines = [line for line in data.split(b"\n") if line.strip()]
    first = _object(head, 1)
    if first["chunkfold_recording"] != VERSION:
        raise ValueError(f"recording: expected version {VERSION}, received {first['chunkfold_recording']!r}")
    for number, line in enumerate(lines, 2):
        value = _object(line, number)
        if "end" in value:
            end = value
        elif "text" in value or "base64" in value:
            reads.append(RecordedRead(float(value.get("at") or 0.0), _data(value)))
    return kind(
        reads=tuple(reads),
        status_code=first.get("status", 200),
        headers=first.get("headers", {}),
        url=first.get("url", ""),
        headers_at=first.get("at"),
        end=end["end"] if end["end"] in ("body", "error") else "left",
        ended_at=end.get("at"),
        error=str(end.get("error", "")),
    )


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    yield {
        "chunkfold_recording": VERSION,
        "status": recording.status_code,
        "headers": recording.headers,
        "url": recording.url,
        "at": _rounded(recording.headers_at),
    }
    for read in recording.reads:
        yield {"at": _rounded(read.at), **_encoded(read.data)}
    last: dict[str, Any] = {"end": recording.end, "at": _rounded(recording.ended_at)}
    yield {**last, "error": recording.error} if recording.error else last


def _encoded(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:  # a read may end inside a character
        return {"base64": b64encode(data).decode()}


def _data(value: dict[str, Any]) -> bytes:
    return b64decode(value["base64"]) if "base64" in value else value["text"].encode()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise ValueError(f"recording: line {number}: expected a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise TypeError(f"line {number}: expected a JSON object, received {type(value).__name__}")
    return cast("dict[str, Any]", value)
