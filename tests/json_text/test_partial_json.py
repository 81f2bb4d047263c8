"""JSON that is still being written, without a type: what is shown of it when, and the whole at its end.

The expectation is written down next to each character by a writer of its own, see `written`.
"""

import json
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given
from hypothesis import strategies as st
from json_beginnings import JSON, fed, partial, refused

from chunkfold import ChatCompletionMessage, Function, PartialJSON

ALWAYS_FRESH = 4096  # characters: up to here a value is that of the whole text so far


NOTHING = object()


def is_number(value: Any) -> bool:
    """Whether a value is written in digits, so that one more may follow."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def joined(known: Any, key: Any, item: Any) -> Any:
    """A list or an object with its last item, as far as there is one."""
    if item is NOTHING:
        return known
    return {**known, key: item} if isinstance(known, dict) else [*known[:key], item]


def written(value: Any, ascii_only: bool, indent: int | None, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The characters of a value in JSON, each with what is known once it is there."""

    def line(depth: int) -> str:
        return "" if indent is None else "\n" + " " * indent * depth

    if isinstance(value, str):
        yield '"', ""
        for place, character in enumerate(value):
            *escape, last = json.dumps(character, ensure_ascii=ascii_only)[1:-1]
            yield from ((one, value[:place]) for one in escape)
            yield last, value[: place + 1]
        yield '"', value
    elif isinstance(value, dict | list):
        keys = [json.dumps(key, ensure_ascii=ascii_only) + ": " for key in value] if isinstance(value, dict) else None
        known: Any = [] if keys is None else {}
        yield "[" if keys is None else "{", known
        for place, key in enumerate(value if keys is not None else range(len(value))):
            gap = "" if place == 0 else ", " if indent is None else ","
            yield from ((one, known) for one in gap + line(depth + 1) + ("" if keys is None else keys[place]))
            for one, part in written(value[key], ascii_only, indent, depth + 1):
                yield one, joined(known, key, part)
            known = joined(known, key, value[key])  # a number, too, now that another character comes
        yield from ((one, known) for one in (line(depth) if value else "") + ("]" if keys is None else "}"))
    else:
        *beginning, last = json.dumps(value)
        yield from ((one, NOTHING) for one in beginning)
        yield last, NOTHING if is_number(value) else value


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


CUTS = st.lists(st.integers(0, 2000), max_size=12)
CHARACTERS = '{"\\"a\\u00e9": ["\\ud83d\\ude00\\\\", -1.5e3, true], "b": {"c": null}}'


@given(JSON, st.booleans(), st.sampled_from([None, 0, 1]), CUTS | st.none())
@example(json.loads(CHARACTERS), True, None, None)
@example("\\😀\\\\", True, None, None)
@example([1, -0.0, 1e300, -float("inf"), float("nan")], True, 1, None)
def test_all_that_is_sure_is_shown_and_nothing_else(
    value: Any, ascii_only: bool, indent: int | None, cuts: list[int] | None
) -> None:
    """After every piece, wherever the text is cut; and at the end it is what the standard's parser reads."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    characters = list(written(value, ascii_only, indent))
    assert "".join(character for character, _ in characters) == text
    pieces = list(text) if cuts is None else pieces_of(text, cuts)
    live = PartialJSON()
    shown = [(live.feed(piece), end) for piece, end in zip(pieces, accumulate(map(len, pieces)), strict=True)]
    expected = [None if end == 0 or characters[end - 1][1] is NOTHING else characters[end - 1][1] for _, end in shown]
    assert repr([value for value, _ in shown]) == repr(expected)  # as repr, for NaN and for the kinds of numbers
    assert repr(live.value) == repr(expected[-1])
    assert repr(live.close()) == repr(live.value) == repr(json.loads(text))


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_same_where_any_value_fits(ascii_only: bool) -> None:
    for text in (CHARACTERS, json.dumps(json.loads(CHARACTERS), ensure_ascii=ascii_only)):
        for end in range(len(text) + 1):
            assert partial(text[:end], Any) == partial(text[:end])


SHOWN: list[tuple[str, Any]] = [
    *((text, None) for text in ("", " \n", "tru", "12")),
    ("12 ", 12),
    # Strings: half an escape, half a code point, half a pair and almost one are not shown.
    *(('"' + text, text) for text in ("", "Lis")),
    *(('"a' + half, "a") for half in ("\\", "\\u00e", "\\ud83d", "\\ud83d\\ude0")),
    *(
        ('"a\\n', "a\n"),
        ('"\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t'),
        ('"\\u00E9\\u0041', "éA"),
        ('"a\\ud83d\\ude00', "a😀"),
    ),
    ('"a\\ud83dx\\ude00', "a\N{REPLACEMENT CHARACTER}x\N{REPLACEMENT CHARACTER}"),
    ('"a\\\\ud83d', "a\\ud83d"),  # no pair behind an escaped backslash
    # Lists: literals are shown whole, and numbers once they have ended.
    *((text, []) for text in ("[tru", "[nul", "[12", "[-", "[-1.5e+")),
    *(("[true", [True]), ("[12,", [12]), ("[12 ", [12])),
    # Objects: keys are shown with their values; of a key that comes twice, the last one.
    *((text, {}) for text in ('{"city', '{"city"', '{"city":')),
    ('{"city": "Lisbon", "celsius": 2', {"city": "Lisbon"}),
    ('{"a": {"b": [{', {"a": {"b": [{}]}}),
    ('{"a": 1, "a": "x', {"a": "x"}),
]


@each_case(("text", "value"), SHOWN)
def test_what_is_shown(text: str, value: Any) -> None:
    assert partial(text) == value
    assert fed(text)[-1:] == ([value] if text else [])
    message = ChatCompletionMessage(content=text)
    assert message.parse_partial() == value


HALF_NUMBERS = [
    pytest.param("12", None, 12, id="alone"),
    pytest.param("[12", None, [12], id="in a list"),
    pytest.param('{"n": 12', None, {"n": 12}, id="under a key"),
    pytest.param('{"n": 12', dict[str, int], {"n": 12}, id="with a type"),
    pytest.param('{"n": 1.5', None, {"n": 1.5}, id="a fraction"),
    pytest.param('{"n": 1.5', dict[str, int], {}, id="a fraction for an integer"),
    pytest.param("[-", None, [], id="a sign is no number"),
    pytest.param('{"n": tru', None, {}, id="half a literal is none either"),
    pytest.param('{"n', None, {}, id="nor is half a key"),
    pytest.param("[1.", None, [1], id="a number before its fraction"),
    pytest.param("[1e", None, [1], id="a number before its exponent"),
]


@each_case(("text", "as_type", "value"), HALF_NUMBERS)
def test_half_numbers_are_shown_where_they_are_asked_for(text: str, as_type: Any, value: Any) -> None:
    assert partial(text, as_type, half_numbers=True) == value
    assert ChatCompletionMessage(content=text).parse_partial(as_type, half_numbers=True) == value
    assert Function(arguments=text).parse_partial(as_type or Any, half_numbers=True) == value


# At the end


@pytest.mark.parametrize(
    ("text", "as_type"),
    [('{"a": [1', None), ('{"a": 1', dict[str, int]), ("1.", None), ('"a', str)],
)
def test_close_wants_the_whole(text: str, as_type: Any) -> None:
    live = PartialJSON(as_type)
    live.feed(text)
    error = refused(live.close)
    assert (error.text, error.cut, error.path) == (text, True, ())
    assert error.position is not None


def test_what_was_wrong_stays_so() -> None:
    live = PartialJSON()
    value = live.feed('{"a": 1, ')
    for piece in ("nope", '"b": 2}', ""):
        assert refused(lambda piece=piece: live.feed(piece)).position == 9
        assert live.value == value == {"a": 1}
    assert not refused(live.close).cut


def test_close_wants_the_type() -> None:
    live = PartialJSON(list[int])
    assert live.feed('[1, "x"]') == [1]
    error = refused(live.close)
    assert (error.path, error.position, error.cut) == ((1,), None, False)


def test_close_takes_a_number_that_nothing_follows() -> None:
    live = PartialJSON(int)
    assert live.feed("42") is None
    assert live.close() == live.value == 42


# Pieces, and texts that are long


LONG = {
    "one string": '"' + "x" * 20_000,
    "strings": json.dumps(["x" * 40] * 500),
    "records": json.dumps([{"city": "x" * 40, "nights": n} for n in range(300)]),
    "records, character by character": json.dumps([{"city": "x" * 40, "nights": n} for n in range(50)]),
    "digits": json.dumps([1] * 7_000),
}


@each_case("name", LONG)
@each_case("as_type", [None, Any, list[Any] | str], ids=["no type", "any type", "a type"])
def test_a_long_text_is_at_most_a_hundredth_behind(name: str, as_type: Any) -> None:
    """And up to 4,096 characters not at all."""
    text = LONG[name]
    size = 17
    live = PartialJSON(as_type)
    read = 0  # the end of the text that the value is made of
    shown = live.value
    for end in range(0, len(text), size):
        there = min(end + size, len(text))
        value = live.feed(text[end:there])
        if value is not shown:
            read, shown = there, value
        assert there - read <= (there / 100 if there > ALWAYS_FRESH else 0)


NUMBERS, STRING = [1] * 3_000, "x" * 15_000


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize(
    ("value", "as_type"),
    [(NUMBERS, None), (NUMBERS, list[int]), (STRING, None), (STRING, str)],
    ids=["numbers, no type", "numbers, a type", "a string, no type", "a string, a type"],
)
def test_a_long_value_is_no_further_behind_than_its_class_says(value: Any, as_type: Any, size: int) -> None:
    """One character for every 64 items or 1,024 characters, and a piece; and in the end nothing is missing."""
    text = json.dumps(value)
    item, pace, more = (",", 64 * len("1, "), 1) if value is NUMBERS else ("x", 1_024, 0)
    live = PartialJSON(as_type)
    there = 0
    for end in range(0, len(text), size):
        shown = live.feed(text[end : end + size])
        there += text.count(item, end, end + size)
        assert there - there / pace - size <= len(shown or []) <= there + more
    assert live.value == value


def test_a_text_of_some_hundred_characters_is_never_behind() -> None:
    text = json.dumps([1] * 250)
    for there, shown in enumerate(fed(text), 1):
        assert len(shown) == text.count(",", 0, there) + (there == len(text))


@pytest.mark.parametrize("size", [1, 7, 3_000])
def test_a_long_number_ends_like_any_other(size: int) -> None:
    text = "[0." + "1" * 2_500 + ", 5]"
    assert fed(text[start : start + size] for start in range(0, len(text), size))[-1] == json.loads(text)


def test_a_long_text_at_once_is_read_to_its_end() -> None:
    text = json.dumps(["x" * 5_000, "y" * 5_000])[:-1]
    for shown in (partial(text), partial(text, list[str]), ChatCompletionMessage(content=text).parse_partial()):
        assert shown == ["x" * 5_000, "y" * 5_000]


def test_no_piece_is_no_news() -> None:
    live = PartialJSON()
    assert live.value is None
    assert live.feed("") is None
    value = live.feed('{"a": "x')
    assert live.feed("") == value == live.value == {"a": "x"}
