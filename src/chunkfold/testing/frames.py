"""The events of a body around a place, for people: where two results begin to differ, and what came there."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from chunkfold.event_stream import ServerSentEvent
from chunkfold.models import ChatCompletion
from chunkfold.parser import ChatCompletionParser

_AROUND: Final = 2  # events before and behind the one that is shown
_LONGEST: Final = 160  # characters of its data


class Frame(NamedTuple):
    """One event of a body.

    Attributes:
        number: Its place among the events, from 1 on.
        offset: Of its first byte in the body.
        data: Its data, as text.
    """

    number: int
    offset: int
    data: str


def frames_of(body: bytes) -> list[Frame]:
    """The events of a body, up to the one that ended it."""
    frames: list[Frame] = []

    def note(event: ServerSentEvent, _chunks: object) -> None:
        frames.append(Frame(len(frames) + 1, event.offset, event.text))

    parser = ChatCompletionParser(on_event=note)
    parser.feed(body)
    parser.close()
    return frames


def frame_at(frames: list[Frame], offset: int) -> int | None:
    """Which of the frames has the byte at that place of the body; None if there are none."""
    return max((place for place, frame in enumerate(frames) if frame.offset <= offset), default=None)


def frame_that_brought(
    body: bytes, frames: list[Frame], size: int, text_of: Callable[[ChatCompletion], str]
) -> int | None:
    """Which of the body's frames made a text longer than `size` characters; the last one if none did."""

    def is_longer(end: int) -> bool:
        parser = ChatCompletionParser()
        parser.fold(body[:end])
        return len(text_of(parser.snapshot)) > size

    # A snapshot costs as much as the output is long: by halving, it takes a few of them.
    return bisect_left([frame.offset for frame in frames[1:]], True, key=is_longer) if frames else None  # noqa: FBT003


def shown_frames(frames: list[Frame], place: int | None, note: str = "here") -> str:
    """The frames around one of them, which is marked; a line for each."""
    if place is None:
        return "    (the body has no event)"
    return "\n".join(_lines(frames, place, note))


def difference_of(one: bytes, other: bytes) -> list[str]:
    """Where two bodies differ first: that event of each, then the events around; lines for people."""
    pairs = enumerate(zip(one, other, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    bodies = [(title, body, frames_of(body)) for title, body in (("left", one), ("right", other))]
    lines = [f"two bodies of streams differ from byte {place} on"]  # pytest shows the first 8 lines, or 640 characters
    lines += [f"{title}, {_number_at(frames, place)}: {_excerpt_at(body, place)}" for title, body, frames in bodies]
    for title, body, frames in bodies:
        lines += ["", f"{title}, {len(body)} bytes:", *shown_frames(frames, frame_at(frames, place)).splitlines()]
    return lines


def _lines(frames: list[Frame], place: int, note: str) -> Iterator[str]:
    first, last = max(0, place - _AROUND), min(len(frames), place + _AROUND + 1)
    if first:
        yield f"    ... {first} before"
    for each in range(first, last):
        mark = "  > " if each == place else "    "
        frame = frames[each]
        where = f"<-- {note}" if each == place else ""
        yield f"{mark}event {frame.number} at byte {frame.offset}: {_excerpt(frame.data)} {where}".rstrip()
    if last < len(frames):
        yield f"    ... {len(frames) - last} behind"


def _number_at(frames: list[Frame], place: int) -> str:
    at = frame_at(frames, place)
    return "no event" if at is None else f"event {frames[at].number}"


def _excerpt_at(body: bytes, place: int) -> str:
    """What is around a place of a body."""
    half = _LONGEST // 2
    start, end = max(0, place - half), place + half
    text = ascii(body[start:end].decode("utf-8", "backslashreplace"))[1:-1]
    return f"{'...' if start else ''}{text}{'...' if end < len(body) else ''}"


def _excerpt(text: str) -> str:
    head, found, rest = text.partition('"choices":')
    if found and head.startswith('{"'):  # what is before it says the same each time
        text = f"{{...{found}{rest}"
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]}...{shown[-half:]}"
