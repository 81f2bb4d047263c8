"""How two readings differ, and a message that shows it beside the events of the body: what `assert_folds_to` prints."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest
from operator import eq
from typing import Any, Final, NamedTuple, TypeAlias

from chunkfold.json_text.values import is_list, is_object
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.body_events import brought_by, common_size, events_of, first_event, shown_events
from chunkfold.testing.readings import Reading, as_reading, one_line, same_calls

HasArrived: TypeAlias = Callable[[Reading], bool]


class _Part(NamedTuple):
    """Something that two readings can differ in."""

    name: str  # the field of a `Reading`
    title: str  # in words
    same: Callable[[Any, Any], bool]  # whether two values of it are the same; None is a value of neither
    # Of two readings that differ in it: a function of a snapshot, whether the part in which they differ has arrived.
    has_arrived: Callable[[Reading, Reading], HasArrived]

    def agrees(self, wanted: Reading, found: Reading) -> bool:
        """Whether they are the same, where both have a value."""
        one, other = getattr(wanted, self.name), getattr(found, self.name)
        return one is None or other is None or self.same(one, other)


def complaint_of(body: bytes, expected: Reading, came: Reading) -> str | None:
    """The first difference, with the event with the difference; None if there is none."""
    part = next((part for part in _PARTS if not part.agrees(expected, came)), None)
    if part is None:
        return None
    wanted, found = (shown(_value(reading, part)) for reading in (expected, came))
    events = events_of(body)
    has_arrived = part.has_arrived(expected, came)

    def has_arrived_by(part_of_body: bytes) -> bool:
        parser = ChatCompletionParser()
        parser.fold(part_of_body)
        return has_arrived(as_reading(parser.snapshot))

    place = first_event(body, events, has_arrived_by) if events else None
    return (
        f"{part.title}: expected {wanted}\n{' ' * len(part.title)}  received {found}\n"
        f"{shown_events(events, place, 'the first difference')}"
    )


def at_the_end(body: bytes) -> str:
    """The last events of a body."""
    events = events_of(body)
    return shown_events(events, len(events) - 1 if events else None, "the end")


def where_it_raises(body: bytes, raises: Callable[[bytes], bool]) -> str:
    """The event with which a parser raises what it raised for the whole body, and what was expected of that event.

    If it raises the same for an empty body, the error is not about an event, and the end is shown.
    """
    events = events_of(body)
    if not events or raises(b""):
        return at_the_end(body)
    place = first_event(body, events, raises)
    expected = f"expected of event {place + 1}: {brought_by(body, events, place)}"
    return f"{shown_events(events, place, 'it raises once this event has arrived')}\n{expected}"


def first_difference(wanted: Any, found: Any, path: str = "") -> str | None:
    """The first place at which a JSON value differs from the expected one, and how."""
    pairs: Iterable[tuple[str, Any, Any]] = ()
    if is_object(wanted) and is_object(found):
        pairs = ((f"{path}.{key}", wanted.get(key), found.get(key)) for key in wanted)
    elif is_list(wanted) and is_list(found) and len(wanted) == len(found):
        pairs = ((f"{path}[{place}]", one, other) for place, (one, other) in enumerate(zip(wanted, found, strict=True)))
    elif wanted != found and repr(wanted) != repr(found) and (wanted, found) != (None, []):  # NaN != NaN
        return f"{path.lstrip('.')}: expected {shown(wanted)}, received {shown(found)}"
    return next(filter(None, (first_difference(one, other, at) for at, one, other in pairs)), None)


def shown(value: Any) -> str:
    """A value for a message: one bounded line."""
    return one_line(value.__name__ if isinstance(value, type) else repr(value))


def _value(reading: Reading, part: _Part) -> Any:
    """The values to compare; the text alone if there is one choice."""
    return reading.text if part.name == "texts" and len(reading.texts or ()) == 1 else getattr(reading, part.name)


def _more_text(expected: Reading, came: Reading) -> HasArrived:
    """Of the first choice that differs."""
    pairs = zip_longest(expected.texts or (), came.texts or (), fillvalue="")
    choice = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    return _more_of(lambda reading: "".join((reading.texts or ())[choice : choice + 1]), expected, came)


def _more_reasoning(expected: Reading, came: Reading) -> HasArrived:
    return _more_of(lambda reading: reading.reasoning or "", expected, came)


def _call_that_differs(expected: Reading, came: Reading) -> HasArrived:
    """The first call that is lost; else what the first one that differs differs in: name and arguments, or the id."""
    wanted, found = expected.calls or (), came.calls or ()
    pairs = enumerate(zip(wanted, found, strict=False))
    place = next((place for place, (one, other) in pairs if not same_calls((one,), (other,))), None)
    if place is None or len(found) < len(wanted):
        count = len(found)
    elif same_calls((replace(wanted[place], id=None),), (found[place],)):
        count = place
    else:
        return _more_of(lambda reading: _text_of_call(reading, place), expected, came)
    return lambda snapshot: len(snapshot.calls or ()) > count


def _text_of_call(reading: Reading, place: int) -> str:
    return "".join(f"{call.name}{call.arguments}" for call in (reading.calls or ())[place : place + 1])


def _more_of(text_of: Callable[[Reading], str], expected: Reading, came: Reading) -> HasArrived:
    """Arrived once it has more of a text than both readings have in common."""
    size = common_size(text_of(expected), text_of(came))
    return lambda snapshot: len(text_of(snapshot)) > size


def _finish(_expected: Reading, _came: Reading) -> HasArrived:
    return lambda snapshot: bool(snapshot.finish_reason)


def _counts(expected: Reading, _came: Reading) -> HasArrived:
    return lambda snapshot: _has_counts(expected.usage or {}, snapshot.usage or {})


def _has_counts(wanted: Mapping[str, int], found: Mapping[str, int]) -> bool:
    return wanted.items() <= found.items()


_PARTS: Final = (
    _Part("texts", "text", eq, _more_text),
    _Part("reasoning", "reasoning", eq, _more_reasoning),
    _Part("calls", "tool calls", same_calls, _call_that_differs),
    _Part("finish_reason", "finish reason", eq, _finish),
    _Part("usage", "usage", _has_counts, _counts),
)
