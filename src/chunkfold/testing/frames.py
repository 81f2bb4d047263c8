"""The events of a body around a place, for failure messages: where two results start to differ, and what was sent."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from chunkfold.event_stream.server_sent_event import ServerSentEvent
from chunkfold.events.types import (
    AnomalyNoted,
    ChatCompletionEvent,
    ChoiceFinished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.excerpts import visible
from chunkfold.models.completion import ChatCompletion
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.readings import one_line

_AROUND: Final = 2  # events before and after the one that is shown
_LONGEST: Final = 160  # characters of its data


class Frame(NamedTuple):
    """One event of a body."""

    number: int  # its place among the events, from 1 on
    offset: int  # of its first byte in the body
    data: str


def frames_of(body: bytes) -> list[Frame]:
    """The events of a body, up to the one that ended it."""
    frames: list[Frame] = []

    def note(event: ServerSentEvent, _chunks: object) -> None:
        frames.append(Frame(len(frames) + 1, event.offset, event.text))

    parser = ChatCompletionParser(on_server_sent_event=note)
    parser.feed(body)
    parser.close()
    return frames


def frame_at(frames: list[Frame], offset: int) -> int | None:
    """Which of the frames has the byte at that place of the body; None if there are none."""
    return max((place for place, frame in enumerate(frames) if frame.offset <= offset), default=None)


def first_frame(body: bytes, frames: list[Frame], has_come: Callable[[ChatCompletion], bool]) -> int | None:
    """The first of the body's frames after which a part has arrived; the last frame if it never arrives."""

    def comes_by(end: int) -> bool:
        parser = ChatCompletionParser()
        parser.fold(body[:end])
        return has_come(parser.snapshot)

    # A snapshot costs as much as the output is long: by halving, it takes a few of them.
    return bisect_left([frame.offset for frame in frames[1:]], True, key=comes_by) if frames else None  # noqa: FBT003 - what is searched for


def brought_by(body: bytes, frames: list[Frame], place: int) -> str:
    """What one of the frames adds to the answer, in words, and which rules it breaks first."""
    start = frames[place].offset
    end = frames[place + 1].offset if place + 1 < len(frames) else len(body)
    parser = ChatCompletionParser()
    parser.events()  # from here on they are kept
    parser.feed(body[:start])
    parser.events()
    parser.feed(body[start:end])
    events = parser.events()
    rules = "; ".join(str(event.anomaly.rule) for event in events if isinstance(event, AnomalyNoted))
    brought = [f"an error: {parser.error}"] if parser.error is not None else list(filter(None, map(_words, events)))
    return (", ".join(brought) or "nothing that adds to the answer") + (f" ({rules})" if rules else "")


def _words(event: ChatCompletionEvent) -> str | None:
    """An event of the answer in words; None for an event that only sums up others."""
    match event:
        case TextDelta() | ReasoningDelta() | RefusalDelta():
            return f"{type(event).__name__.removesuffix('Delta').lower()} {one_line(repr(event.delta))}"
        case ToolCallStarted():
            return f"a call of {event.name}"
        case ToolCallArgumentsDelta():
            return f"arguments {one_line(repr(event.delta))}"
        case ChoiceFinished():
            return f"the finish reason {event.finish_reason!r}"
        case UsageReceived():
            return "usage"
        case AnomalyNoted() | ToolCallDone():
            return None
        case _:
            return type(event).__name__


def shown_frames(frames: list[Frame], place: int | None, note: str = "here") -> str:
    """The frames around one of them, which is marked; a line for each."""
    if place is None:
        return "    (the body has no event)"
    return "\n".join(_lines(frames, place, note))


def common_size(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items two texts or bodies begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def difference_of(one: bytes, other: bytes) -> list[str]:
    """Where two bodies differ first: that event of each, then the events around; lines for people."""
    place = common_size(one, other)
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
        yield f"    ... {len(frames) - last} after"


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
    shown = visible(text)
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]}...{shown[-half:]}"
