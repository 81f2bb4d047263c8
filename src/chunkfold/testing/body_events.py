"""The events of a body around a place, for failure messages: where two results start to differ, and what was sent."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

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
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.readings import one_line

_AROUND: Final = 2  # events before and after the one that is shown
_LONGEST: Final = 160  # characters of its data


def events_of(body: bytes) -> list[ServerSentEvent]:
    """The events of a body, up to the one that ended it."""
    events: list[ServerSentEvent] = []
    parser = ChatCompletionParser(on_server_sent_event=lambda event, _chunks: events.append(event))
    parser.feed(body)
    parser.close()
    return events


def place_at(events: list[ServerSentEvent], offset: int) -> int:
    """The place of the event that has the byte at this offset of the body, or of the first event if none is before."""
    return max((place for place, event in enumerate(events) if event.offset <= offset), default=0)


def first_event(body: bytes, events: list[ServerSentEvent], holds: Callable[[bytes], bool]) -> int:
    """The place of the first event after which something holds for the body up to there; else of the last event."""
    ends = [event.offset for event in events[1:]]
    return bisect_left(ends, True, key=lambda end: holds(body[:end]))  # noqa: FBT003 - what is searched for


def brought_by(body: bytes, events: list[ServerSentEvent], place: int) -> str:
    """What the event at a place adds to the answer, in words, and which rules it breaks first."""
    start = events[place].offset
    end = events[place + 1].offset if place + 1 < len(events) else len(body)
    parser = ChatCompletionParser()
    parser.events()  # from here on they are kept
    parser.feed(body[:start])
    parser.events()
    parser.feed(body[start:end])
    added = parser.events()
    rules = "; ".join(str(event.anomaly.rule) for event in added if isinstance(event, AnomalyNoted))
    brought = [f"an error: {parser.error}"] if parser.error is not None else list(filter(None, map(_words, added)))
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


def shown_events(events: list[ServerSentEvent], place: int, note: str = "here") -> str:
    """The events around one of them, which is marked; a line for each."""
    return "\n".join(_lines(events, place, note)) if events else "    (the body has no event)"


def common_size(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items two texts or bodies begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def difference_of(one: bytes, other: bytes) -> list[str]:
    """Where two bodies differ first: that event of each, then the events around; lines for people."""
    offset = common_size(one, other)
    lines = [f"two bodies of streams differ from byte {offset} on"]  # pytest shows the first 8 lines, or 640 characters
    around: list[str] = []
    for title, body in (("left", one), ("right", other)):
        events = events_of(body)
        place = place_at(events, offset)
        number = f"event {place + 1}" if events else "no event"
        lines.append(f"{title}, {number}: {_excerpt_at(body, offset)}")
        around += ["", f"{title}, {len(body)} bytes:", *shown_events(events, place).splitlines()]
    return lines + around


def _lines(events: list[ServerSentEvent], place: int, note: str) -> Iterator[str]:
    first, last = max(0, place - _AROUND), min(len(events), place + _AROUND + 1)
    if first:
        yield f"    ... {first} before"
    for each in range(first, last):
        mark = "  > " if each == place else "    "
        where = f"<-- {note}" if each == place else ""
        yield f"{mark}event {each + 1} at byte {events[each].offset}: {_excerpt(events[each].text)} {where}".rstrip()
    if last < len(events):
        yield f"    ... {len(events) - last} after"


def _excerpt_at(body: bytes, offset: int) -> str:
    """What is around an offset of a body."""
    half = _LONGEST // 2
    start, end = max(0, offset - half), offset + half
    text = ascii(body[start:end].decode("utf-8", "backslashreplace"))[1:-1]
    return f"{'...' if start else ''}{text}{'...' if end < len(body) else ''}"


def _excerpt(text: str) -> str:
    head, found, rest = text.partition('"choices":')
    if found and head.startswith('{"'):  # what is before it says the same each time
        text = f"{{...{found}{rest}"
    shown = visible(text)
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]}...{shown[-half:]}"
