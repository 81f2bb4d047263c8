"""A provider that answers with recordings, and can make them: a request is forwarded once, and replayed from then on.

    with RecordedProvider("https://api.openai.com/v1", "tests/recordings/greeting", record="new") as provider:
        ...  # point any OpenAI client at provider.base_url

The n-th request gets the n-th recording of the folder; requests that a script answered, or whose key was refused, are
not counted. A recording has what `chunkfold record` stores: the bytes, their times and a few headers, without keys. The
request is never stored.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from chunkfold.arguments import check_instance
from chunkfold.recording import Recorder, Recording, replay
from chunkfold.testing.answers import Answer
from chunkfold.testing.provider import FakeProvider
from chunkfold.testing.received import ReceivedRequest

Record: TypeAlias = Literal["none", "new"]

_KEY_REFUSED: Final = (401, 403)
_RESETS: Final = ("ReadError", "ConnectionResetError")  # what httpx calls it, and the system
BEFORE_RESET: Final = 0.1  # seconds: a client loses the bytes that it has not read when a reset arrives
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TIMEOUT: Final = 600.0  # seconds of silence, for models that think
_NOT_FORWARDED: Final = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"}
_TRANSFER_HEADERS: Final = {"content-encoding", "content-length", "transfer-encoding", "connection"}


class RecordedProvider(FakeProvider):
    """A FakeProvider whose answers are recordings.

    Args:
        upstream: The base URL of the real provider, to which the paths below `base_url` are forwarded.
        folder: The folder with the recordings: 1.jsonl, 2.jsonl, ...
        record: `none` to forward nothing; `new` to make a recording if there is none. A refusal of the key
            (401, 403) is returned to the client but not stored, and leaving `with` raises a PermissionError.
        speed: How many times faster than the original the recordings are sent; 0 for no pauses.

    Raises:
        TypeError: The upstream is not a str.
        ValueError: The upstream is not a URL, or `record` is another word.
    """

    def __init__(self, upstream: str, folder: str | Path, *, record: Record = "none", speed: float = 0.0) -> None:
        super().__init__()
        check_instance("upstream", upstream, str, "a base URL as a str")
        if urlsplit(upstream).scheme not in ("http", "https"):
            raise ValueError(f"upstream: expected a base URL with http or https, received {upstream!r}")
        if record not in ("none", "new"):
            raise ValueError(f"record: expected none or new, received {record!r}")
        self._upstream = upstream.rstrip("/")
        self._folder = Path(folder)
        self._record = record
        self._speed = speed
        self._client: Any = None
        self._taken: set[int] = set()  # the numbers of the recordings that requests got
        self._lock = threading.Lock()  # of both, as requests come in several threads

    def stop(self) -> None:
        """Stop, and close the client that forwarded requests."""
        super().stop()
        if self._client is not None:
            self._client.close()

    def answer_unscripted(self, request: ReceivedRequest) -> Answer:
        """The recording with the request's number, made now if `record` is `new`.

        Raises:
            FileNotFoundError: There is none, and `record` is `none`.
        """
        number = self._take_number()
        path = self._folder / f"{number}.jsonl"
        if path.exists():
            return recorded_answer(Recording.load(path), self._speed)
        if self._record == "none":
            raise FileNotFoundError(
                f'no recording {path}: to make it, pass record="new" or run pytest --chunkfold-record=new'
            )
        try:
            recording = self._forwarded(request)
            self._keep(recording, path)
        finally:
            if not path.exists():  # else the next one would be kept with a gap before it, and never be found
                self._taken.discard(number)
        return recorded_answer(recording, self._speed)

    def _take_number(self) -> int:
        """The first number that no other request has."""
        with self._lock:
            number = next(number for number in count(1) if number not in self._taken)
            self._taken.add(number)
        return number

    def _keep(self, recording: Recording, path: Path) -> None:
        """Save it, unless it is not an answer to keep."""
        status = recording.status_code
        if status in _KEY_REFUSED:
            self.failures.append(PermissionError(f"the provider refused the key ({status}): nothing was recorded"))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        recording.save(path)

    def _forwarded(self, request: ReceivedRequest) -> Recording:
        """The real provider's answer, read to its end."""
        import httpx

        with self._lock:
            if self._client is None:
                self._client = httpx.Client(timeout=_TIMEOUT)
        url = self._upstream + request.path.removeprefix(urlsplit(self.base_url).path)
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_FORWARDED}
        headers["accept-encoding"] = "identity"
        asked = self._client.build_request(
            request.method, f"{url}?{request.query}" if request.query else url, headers=headers, content=request.body
        )
        started = time.monotonic()
        recorder = Recorder(self._client.send(asked, stream=True), started=started)
        with closing(recorder), suppress(httpx.TransportError):  # the recording contains it
            for _ in recorder.iter_bytes():
                pass
        return recorder.recording


def recorded_answer(recording: Recording, speed: float = 1.0) -> Answer:
    """A recording as an answer: with the same reads, times and ending.

    If reading stopped early, the answer is cut there, unless the stream was complete. If the transport failed, it is
    cut there, or reset if that was the fault.

    Raises:
        ValueError: The recording cannot be sent as an answer.
    """
    return Answer(
        list(_pieces(recording, speed)),
        recording.status_code,
        # A body is recorded as it was decoded, and framed again.
        {
            name: value
            for name, value in recording.headers.items()
            if name not in _TRANSFER_HEADERS and is_header(name, value)
        },
        ending="end" if _is_whole(recording) else "reset" if _was_reset(recording) else "cut",
    )


def _is_whole(recording: Recording) -> bool:
    """Whether its body ended, or was left once the stream was complete."""
    if recording.end != "left":
        return recording.end == "body"
    ended = replay(recording).end
    return ended is not None and ended.complete


def _was_reset(recording: Recording) -> bool:
    return recording.end == "error" and recording.error in _RESETS


def is_header(name: str, value: str) -> bool:
    """Whether HTTP can carry it."""
    return bool(_FIELD.fullmatch(name)) and value.isascii() and value.isprintable()


def _pieces(recording: Recording, speed: float) -> Iterator[bytes | float]:
    last_at = recording.headers_at or 0.0
    for read in recording.reads:
        yield pause_of(read.at - last_at, speed)
        yield read.data
        last_at = read.at
    pause = pause_of(recording.seconds - last_at, speed)
    yield max(pause, BEFORE_RESET) if _was_reset(recording) else pause


def pause_of(seconds: float, speed: float) -> float:
    """Seconds at that speed, 0 for at once."""
    return max(0.0, seconds / speed) if speed else 0.0
