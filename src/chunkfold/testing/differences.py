"""How two readings differ, and a message that shows it beside the events of the body: what `assert_folds_to` prints."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest
from operator import eq
from typing import Any, Final, NamedTuple, TypeAlias

from chunkfold.json_text.values import is_list, is_object
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.testing.body_events import brought_by, common_size, events_of, first_event, shown_events
from chunkfold.testing.readings import Call, Reading, as_reading, one_line, same_calls

HasArrived: TypeAlias = Callable[[Any], bool]


class _Part(NamedTuple):
    """Something that two readings can differ in."""

    name: str  # the field of a `Reading`
    title: str  # in words
    nothing: Any  # its value before any of it has arrived
    same: Callable[[Any, Any], bool]  # whether two values of it are the same; None is a value of neither
    # Of two values that differ: a function of the value so far, whether that in which they differ has arrived.
    has_arrived: Callable[[Any, Any], HasArrived]

    def agrees(self, wanted: Reading, found: Reading) -> bool:
        """Whether they are the same, where both have a value."""
        one, other = getattr(wanted, self.name), getattr(found, self.name)
        return one is None or other is None or self.same(one, other)


def complaint_of(body: bytes, expected: Reading, came: Reading) -> str | None:
    """The first difference, with the event with the difference; None if there is none."""
    part = next((part for part in _PARTS if not part.agrees(expected, came)), None)
    if part is None:
        return None
    wanted, found = getattr(expected, part.name), getattr(came, part.name)
    events = events_of(body)
    has_arrived = part.has_arrived(wanted, found)

    def has_arrived_by(part_of_body: bytes) -> bool:
        parser = ChatCompletionParser()
        parser.fold(part_of_body)
        return has_arrived(getattr(as_reading(parser.snapshot), part.name) or part.nothing)

    place = first_event(body, events, has_arrived_by)
    return (
        f"{part.title}: expected {_shown_value(wanted, part)}\n"
        f"{' ' * len(part.title)}  received {_shown_value(found, part)}\n"
        f"{shown_events(events, place, 'the first difference')}"
    )


def at_the_end(body: bytes) -> str:
    """The last events of a body."""
    events = events_of(body)
    return shown_events(events, len(events) - 1, "the end")


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
    return one_line(repr(value))


def _shown_value(value: Any, part: _Part) -> str:
    """The text alone if there is one choice."""
    return shown(value[0] if part.name == "texts" and len(value) == 1 else value)


def _more_text(wanted: tuple[str, ...], found: tuple[str, ...]) -> HasArrived:
    """Of the first choice that differs."""
    pairs = zip_longest(wanted, found, fillvalue="")
    choice = next((index for index, (one, other) in enumerate(pairs) if one != other), 0)
    return _more_of(lambda texts: "".join(texts[choice : choice + 1]), wanted, found)


def _more_reasoning(wanted: str, found: str) -> HasArrived:
    return _more_of(str, wanted, found)


def _call_that_differs(wanted: tuple[Call, ...], found: tuple[Call, ...]) -> HasArrived:
    """The first call that is lost; else what the first one that differs differs in: name and arguments, or the id."""
    pairs = enumerate(zip(wanted, found, strict=False))
    place = next((place for place, (one, other) in pairs if not same_calls((one,), (other,))), None)
    if place is None or len(found) < len(wanted):
        count = len(found)
    elif same_calls((replace(wanted[place], id=None),), (found[place],)):
        count = place
    else:
        return _more_of(lambda calls: _text_of_call(calls, place), wanted, found)
    return lambda calls: len(calls) > count


def _text_of_call(calls: tuple[Call, ...], place: int) -> str:
    return "".join(f"{call.name}{call.arguments}" for call in calls[place : place + 1])


def _more_of(text_of: Callable[[Any], str], wanted: Any, found: Any) -> HasArrived:
    """Arrived once it has more of a text than both have in common."""
    size = common_size(text_of(wanted), text_of(found))
    return lambda so_far: len(text_of(so_far)) > size


def _finish(_wanted: str, _found: str) -> HasArrived:
    return bool


def _counts(wanted: Mapping[str, int], _found: Mapping[str, int]) -> HasArrived:
    return lambda so_far: _has_counts(wanted, so_far)


def _has_counts(wanted: Mapping[str, int], found: Mapping[str, int]) -> bool:
    return wanted.items() <= found.items()


_PARTS: Final = (
    _Part("texts", "text", (), eq, _more_text),
    _Part("reasoning", "reasoning", "", eq, _more_reasoning),
    _Part("calls", "tool calls", (), same_calls, _call_that_differs),
    _Part("finish_reason", "finish reason", "", eq, _finish),
    _Part("usage", "usage", {}, _has_counts, _counts),
)
