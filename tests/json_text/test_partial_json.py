"""JSON that is still being written: what is shown of it when, with a type and without; and the whole at its end.

Without a type the expectation is written down next to each character by a writer of its own, see `written`. With a
type there are tables, and three promises over all beginnings of a text: nothing raises, nothing that was shown is taken
back, and what was handed out never changes.
"""

import datetime as dt
import enum
import functools
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, NotRequired, Required, Self, TypeVar

import pytest
from cases import each_case
from fronts import (
    generators_of_httpx_are_not_ours,
    over_both_streams,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from linear import assert_linear
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    JsonValue,
    RootModel,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from chunkfold import (
    APIError,
    ChatCompletionMessage,
    ChatCompletionParser,
    ChatCompletionStream,
    Function,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    ParseError,
    PartialJSON,
    StreamInterruptedError,
    TextDelta,
    ToolCallDone,
)
from chunkfold.testing import Answer, ManualClock, StreamBuilder, choice, delta, fragment, sse
from chunkfold.testing.answers import as_answer
from chunkfold.testing.playback import Playback

pytestmark = generators_of_httpx_are_not_ours

ALWAYS_FRESH = 4096  # characters: up to here a value is that of the whole text so far

often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy


def partial(text: str, as_type: Any = None, **options: Any) -> Any:
    """What is known of a text at once."""
    return PartialJSON(as_type, **options).feed(text)


def fed(pieces: Iterable[str], as_type: Any = None, **options: Any) -> list[Any]:
    """What is known after each of the pieces."""
    live = PartialJSON(as_type, **options)
    return [live.feed(piece) for piece in pieces]


# Without a type: what is known is written down next to each character

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=5), values, max_size=4),
    max_leaves=12,
)
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


@often
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


SHOWN = [
    pytest.param("", None, id="nothing"),
    pytest.param(" \n", None, id="blanks"),
    pytest.param('"', "", id="a string that begins"),
    pytest.param('"Lis', "Lis", id="a string that grows"),
    pytest.param('"a\\', "a", id="half an escape"),
    pytest.param('"a\\n', "a\n", id="an escape"),
    pytest.param('"\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t', id="every short escape"),
    pytest.param('"\\u00E9\\u0041', "éA", id="code points"),
    pytest.param('"a\\u00e', "a", id="half a code point"),
    pytest.param('"a\\ud83d', "a", id="half a pair"),
    pytest.param('"a\\ud83d\\ude0', "a", id="almost a pair"),
    pytest.param('"a\\ud83d\\ude00', "a😀", id="a pair"),
    pytest.param('"a\\ud83dx\\ude00', "a\N{REPLACEMENT CHARACTER}x\N{REPLACEMENT CHARACTER}", id="halves apart"),
    pytest.param('"a\\\\ud83d', "a\\ud83d", id="no pair behind an escaped backslash"),
    pytest.param("[tru", [], id="half a literal"),
    pytest.param("[true", [True], id="a literal"),
    pytest.param("[nul", [], id="half a null"),
    pytest.param("tru", None, id="nothing but half a literal"),
    pytest.param("[12", [], id="a number that may go on"),
    pytest.param("[12,", [12], id="a number that has ended"),
    pytest.param("[12 ", [12], id="by a blank"),
    pytest.param("[-", [], id="a sign"),
    pytest.param("[-1.5e+", [], id="a number that must go on"),
    pytest.param("12", None, id="nothing but a number"),
    pytest.param("12 ", 12, id="which has ended"),
    pytest.param('{"city": "Lisbon", "celsius": 2', {"city": "Lisbon"}, id="a number under a key"),
    pytest.param('{"city', {}, id="half a key"),
    pytest.param('{"city"', {}, id="a key"),
    pytest.param('{"city":', {}, id="a key without a value"),
    pytest.param('{"a": {"b": [{', {"a": {"b": [{}]}}, id="inside of others"),
    pytest.param('{"a": 1, "a": "x', {"a": "x"}, id="a key that comes twice"),
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


# Text that can never become JSON

NEVER = [
    pytest.param("nope", id="text"),
    pytest.param("Sure! {", id="text before it"),
    pytest.param("```json\n{", id="a fence"),
    pytest.param("{'a'", id="single quotes"),
    pytest.param("{,", id="a comma for a key"),
    pytest.param('{"a": }', id="no value"),
    pytest.param("[1,]", id="a comma too many"),
    pytest.param('{"a": 1,}', id="a comma too many in an object"),
    pytest.param("[trux", id="a misspelt literal"),
    pytest.param("[nul]", id="a literal that is cut by more"),
    pytest.param("[+1", id="a sign too many"),
    pytest.param("[.5", id="a number without its first digit"),
    pytest.param("[--1", id="two signs"),
    pytest.param('"a\n', id="a line break in a string"),
    pytest.param('{"a\n', id="a line break in a key"),
    pytest.param('"\x1f', id="the last control character"),
    pytest.param('{"a"=1', id="another sign for a colon"),
    pytest.param('["\\q', id="an escape that there is not"),
    pytest.param("\ufeff{", id="a BOM"),
    pytest.param("[1 2", id="a comma is missing"),
    pytest.param("[1 2, 3, 4]", id="a comma was missing"),
    pytest.param('["a" "b', id="a comma is missing between strings"),
    pytest.param('{"a": 1 "b": 2', id="a comma is missing in an object"),
    pytest.param('{"a" "b', id="a colon is missing"),
    pytest.param('{"a": "b"c', id="a letter behind a string"),
    pytest.param("[true false", id="two literals"),
    pytest.param("[1-2]", id="two numbers"),
    pytest.param("[01", id="a leading zero"),
    pytest.param("[1.2.3", id="two points"),
    pytest.param("[1.,", id="no digit behind the point"),
    pytest.param("[1e5e", id="two exponents"),
    pytest.param("[1-2", id="a sign behind a digit"),
    pytest.param("{1", id="a number for a key"),
    pytest.param('{"a" 1', id="a number for a colon"),
    pytest.param("[:", id="a colon for a value"),
    pytest.param('"\\u00g', id="a letter among hexadecimal digits"),
    pytest.param('"\\u00\N{ARABIC-INDIC DIGIT ONE}', id="a digit beyond ASCII in an escape"),
    pytest.param('"\\u000\N{ARABIC-INDIC DIGIT ONE}"', id="a digit beyond ASCII at the end of an escape"),
    pytest.param("[}", id="a brace for a bracket"),
    pytest.param('{"a": 1]', id="a bracket for a brace"),
    pytest.param('{"a":}', id="a brace for a value"),
    pytest.param('{"a"}', id="a brace for a colon"),
    pytest.param("]", id="a bracket of nothing"),
    pytest.param('{"a": 1} and more', id="text behind it"),
    pytest.param('{"a": 1}{', id="an object behind it"),
    pytest.param("[1]]", id="a bracket too many"),
    pytest.param('"a" "b"', id="two strings"),
    pytest.param("1 2", id="two numbers that are all"),
    pytest.param("\xa0", id="a blank that is none of JSON's"),
    pytest.param("\x0b\x0c", id="other blanks"),
    pytest.param("[\u0661", id="a digit that is none of JSON's"),
    pytest.param('{"a": 1}t', id="a word's beginning behind it"),
    pytest.param('["\\q and so on", 1', id="an escape that there is not, and more"),
    pytest.param("[1 t", id="a literal for a comma"),
    pytest.param("{t", id="a literal for a key"),
    pytest.param("[1 .", id="a point for a comma"),
    pytest.param("truee", id="a letter too many"),
    pytest.param('{"a": x}', id="a bare word"),
    pytest.param('["\\q"]', id="an escape that there is not, and the end"),
    pytest.param('["\\u12"]', id="half a code point, and the end"),
]


@each_case("text", NEVER)
@each_case("as_type", [None, Any], ids=["no type", "any type"])
def test_text_that_can_never_become_json_raises_at_once(text: str, as_type: Any) -> None:
    parses: list[Callable[[], Any]] = [
        lambda: partial(text, as_type),
        lambda: fed(text, as_type),
        lambda: ChatCompletionMessage(content=text).parse_partial(as_type),
    ]
    for parse in parses:
        with pytest.raises(ParseError, match="expected JSON, received other text") as caught:
            parse()
        assert not caught.value.cut
        assert caught.value.path == ()
        assert not caught.value.retryable


@each_case("text", ["nope", '{"a": x1', '{"a": "\\q', '{"a": "\\q\\', "[1, 2, x"])
@each_case("as_type", [None, dict[str, Any]], ids=["no type", "a type"])
def test_the_error_has_the_text_as_it_came(text: str, as_type: Any) -> None:
    live = PartialJSON(as_type)
    with pytest.raises(ParseError) as caught:
        live.feed(text)
    assert caught.value.text == text


@each_case("text", NEVER)
def test_the_error_says_where(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        partial(text)
    position = caught.value.position
    assert position is not None
    assert can_become_json(text[:position])
    assert f"at character {position}" in str(caught.value)


WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
STRING_ENDS = ('"', 'n"', *("0" * digits + '"' for digits in range(1, 5)))
ENDS = (
    *("", "0", ":0", '"":0', *STRING_ENDS, *(end + ":0" for end in STRING_ENDS)),
    *(word[place:] for word in WORDS for place in range(1, len(word))),
)
STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)', re.DOTALL)


def is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def can_become_json(text: str) -> bool:
    """Whether some end makes it JSON: what was begun is finished in each way there is, what is open is closed."""
    closing: list[str] = []
    for character in STRING.sub("", text):
        if character in "[{":
            closing.append("]" if character == "[" else "}")
        elif closing and character in "]}":
            closing.pop()
    return any(is_json(text + end + "".join(reversed(closing))) for end in ENDS)


TOKENS = ['"', '"a"', '"b": ', "{", "}", "[", "]", ":", ",", " ", "1", "0", "-", ".", "e", "\\", "\\u00", "x", "\n"]
SOUP = st.lists(st.sampled_from([*TOKENS, "true", "nul", "N"]), max_size=7).map("".join)
CHANGED = st.builds(
    lambda text, cut, more: text[: cut % (len(text) + 1)] + more + text[cut % (len(text) + 1) :],
    *(JSON.map(json.dumps), st.integers(0, 200), st.sampled_from(TOKENS)),
).filter(lambda text: r"\u" not in text)
NEAR_JSON = (SOUP | CHANGED).map("[".__add__)


@often
@given(NEAR_JSON | NEAR_JSON.map(lambda text: text[1:]))
def test_it_raises_if_and_only_if_no_more_text_could_make_it_json(text: str) -> None:
    raised = False
    try:
        partial(text)
    except ParseError:
        raised = True
    assert raised != can_become_json(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('["\\ud83dx"]', id="an escape that is half a pair"),
        pytest.param('["\\ude00"]', id="the other half"),
        pytest.param("[" * 300 + "]" * 300, id="300 lists"),
        pytest.param("[" + "1" * 4_000 + "]", id="4,000 digits"),
        pytest.param("[0." + "1" * 11_000 + "]", id="11,000 digits"),
    ],
)
def test_what_the_whole_text_may_be_does_not_raise_before(text: str) -> None:
    live = PartialJSON()
    for character in text:
        live.feed(character)
    message, value = ChatCompletionMessage(content=text), json.loads(re.sub(r"\\u(d83d|de00)", r"\\ufffd", text))
    assert live.value == live.close() == message.parse() == message.parse(list) == message.parse_partial(list) == value


@pytest.mark.parametrize("deep", [150, 199, 200, 300, 499])
@pytest.mark.parametrize(
    "text", ['"\\ud83d"', '"\\\\\\ud83d\\ud83d\\ude00\\ud83d\\\\ud83d"'], ids=["half a pair", "pairs and halves"]
)
def test_every_way_of_reading_gives_the_same(deep: int, text: str) -> None:
    text = '{"a":' + "[" * deep + text + "]" * deep + "}"
    message = ChatCompletionMessage(content=text)
    live = PartialJSON()
    for character in text:
        live.feed(character)
    found = live.value
    assert found == message.parse() == message.parse(dict) == message.parse(dict[str, Any]) == live.close()
    assert found == message.parse_partial() == message.parse_partial(dict) == Function(arguments=text).parse()
    called = choice("tool_calls", tool_calls=[fragment(0, "a", "f", text)])
    stream = ChatCompletionStream(sse({"choices": [called]}))
    (done,) = [event for event in stream.events() if isinstance(event, ToolCallDone)]
    assert done.parsed == found
    while isinstance(found, dict | list):
        (found,) = found.values() if isinstance(found, dict) else found
    assert found in ("\N{REPLACEMENT CHARACTER}", "\\\N{REPLACEMENT CHARACTER}😀\N{REPLACEMENT CHARACTER}\\ud83d")


@each_case("deeper", ["[", '{"a":'])
def test_what_is_nested_deeper_than_500_is_refused_as_soon_as_it_is(deeper: str) -> None:
    live = PartialJSON()
    live.feed(deeper * 500)
    assert len(repr(live.value)) > 500
    with pytest.raises(ParseError, match="expected at most 500 levels at character") as raised:
        live.feed(deeper * 1_000_000)
    assert raised.value.position == 500 * len(deeper) + deeper.index(deeper.strip('"a:')[0])
    whole = deeper * 10_000 + "1" + ("]" if deeper == "[" else "}") * 10_000
    for parse in (ChatCompletionMessage(content=whole).parse, Function(arguments=whole).parse):
        with pytest.raises(ParseError, match="expected at most 500 levels"):
            parse()


@pytest.mark.parametrize("digits", [4_300, 5_000, 20_000])
def test_half_a_number_may_be_longer_than_the_interpreter_reads(digits: int) -> None:
    """Then it is not shown; whether the whole is too long, the end says."""
    text = "[" + "1" * digits
    for half_numbers in (False, True):
        assert partial(text, half_numbers=half_numbers) in ([], [int("1" * min(digits, 4_300))])


# From Python 3.14 on it is the size of the stack that limits the depth: 20,000 lists may be read.
@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "[" + "1" * 5_000 + "]"], ids=["lists", "digits"])
def test_what_the_interpreter_cannot_read_is_not_cut(text: str) -> None:
    for parse in (ChatCompletionMessage(content=text).parse, Function(arguments=text).parse):
        with pytest.raises(ParseError) as caught:
            parse()
        assert not caught.value.cut
        assert caught.value.text == text


def test_a_lone_surrogate_is_shown_as_no_other_character() -> None:
    assert partial('"\ud83d') in ("\ud83d", "", "\N{REPLACEMENT CHARACTER}")


# At the end


@pytest.mark.parametrize(
    ("text", "as_type"),
    [('{"a": [1', None), ('{"a": 1', dict[str, int]), ("1.", None), ('"a', str)],
)
def test_close_wants_the_whole(text: str, as_type: Any) -> None:
    live = PartialJSON(as_type)
    live.feed(text)
    with pytest.raises(ParseError) as caught:
        live.close()
    assert (caught.value.text, caught.value.cut, caught.value.path) == (text, True, ())
    assert caught.value.position is not None


def test_what_was_wrong_stays_so() -> None:
    live = PartialJSON()
    value = live.feed('{"a": 1, ')
    for piece in ("nope", '"b": 2}', ""):
        with pytest.raises(ParseError) as caught:
            live.feed(piece)
        assert caught.value.position == 9
        assert live.value == value == {"a": 1}
    with pytest.raises(ParseError) as caught:
        live.close()
    assert not caught.value.cut


def test_close_wants_the_type() -> None:
    live = PartialJSON(list[int])
    assert live.feed('[1, "x"]') == [1]
    with pytest.raises(ParseError) as caught:
        live.close()
    assert (caught.value.path, caught.value.position, caught.value.cut) == ((1,), None, False)


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


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize("as_type", [None, list[int]], ids=["no type", "a type"])
def test_a_long_list_is_no_further_behind_than_its_class_says(as_type: Any, size: int) -> None:
    """One character for every 64 items, and a piece; and in the end nothing is missing."""
    text = json.dumps([1] * 7_000)
    live = PartialJSON(as_type)
    for end in range(0, len(text), size):
        shown = live.feed(text[end : end + size])
        there = text.count(",", 0, end + size)
        assert there - there / 64 / len("1, ") - size <= len(shown or []) <= there + 1
    assert live.value == [1] * 7_000


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize("as_type", [None, str], ids=["no type", "a type"])
def test_nor_is_a_long_string(as_type: Any, size: int) -> None:
    """One character for every 1,024 of its characters, and a piece."""
    text = '"' + "x" * 40_000 + '"'
    live = PartialJSON(as_type)
    for end in range(0, len(text), size):
        shown = live.feed(text[end : end + size])
        there = min(end + size, 40_001) - 1
        assert there - there / 1_024 - size <= len(shown) <= there
    assert live.value == "x" * 40_000


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


# With a type


class Inner(BaseModel):
    x: int
    y: str = ""


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Dog(BaseModel):
    kind: Literal["dog"]
    born: dt.date | None = None
    name: str = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Everything(BaseModel):
    name: str
    count: int = 0
    ratio: float = 0.0
    is_open: bool = False
    colour: Colour = Colour.RED
    word: Literal["yes", "yesterday"] = "yes"
    day: dt.date | None = None
    maybe: str | None = None
    inner: Inner | None = None
    items: list[Inner] = []
    table: dict[str, Inner] = {}
    mixed: Inner | str | int = 0
    numbers: list[int] = []
    pair: tuple[int, str] = (0, "")
    short: Annotated[str, Field(max_length=4)] = ""
    letters: Annotated[str, Field(pattern="^[a-z]+$")] = ""
    small: Annotated[int, Field(lt=10)] = 0
    other: str = Field("", alias="otherName")
    pet: Annotated[Dog | Cat, Field(discriminator="kind")] | None = None
    animal: Dog | Cat | None = None


FIELDS = [
    pytest.param('"name": "Li', {"name": "Li"}, id="a string that grows"),
    pytest.param('"name": "Li"', {"name": "Li"}, id="a string"),
    pytest.param('"name": 5,', {}, id="a number for a string"),
    pytest.param('"name": null', {}, id="a null for a string"),
    pytest.param('"count": 5,', {"count": 5}, id="a number"),
    pytest.param('"count": 5', {}, id="a number that may go on"),
    pytest.param('"count": 5.5,', {}, id="a fraction for an integer"),
    pytest.param('"count": "5', {}, id="a string for a number"),
    pytest.param('"count": "x", "name": "Li', {"name": "Li"}, id="something wrong before something right"),
    pytest.param('"name": "Li", "count": "x", "ratio": 1', {"name": "Li"}, id="and after it"),
    pytest.param('"ratio": 1,', {"ratio": 1}, id="an integer for a fraction"),
    pytest.param('"is_open": tru', {}, id="half a literal"),
    pytest.param('"is_open": true', {"is_open": True}, id="a literal"),
    pytest.param('"is_open": "perhaps"', {}, id="a string for a literal"),
    pytest.param('"colour": "red', {}, id="an enumeration's value before it ends"),
    pytest.param('"colour": "red"', {"colour": "red"}, id="an enumeration's value"),
    pytest.param('"colour": "blue"', {}, id="none of the enumeration's values"),
    pytest.param('"word": "yes', {}, id="a word that may become another"),
    pytest.param('"word": "yes"', {"word": "yes"}, id="a word"),
    pytest.param('"word": "no"', {}, id="none of the words"),
    pytest.param('"day": "2024-01-01', {}, id="a date before it ends"),
    pytest.param('"day": "2024-01-01"', {"day": "2024-01-01"}, id="a date"),
    pytest.param('"day": "some day"', {}, id="no date"),
    pytest.param('"maybe": nul', {}, id="half a null"),
    pytest.param('"maybe": null', {"maybe": None}, id="a null"),
    pytest.param('"maybe": "so', {"maybe": "so"}, id="a string that may be null"),
    pytest.param('"inner": {', {"inner": {}}, id="a model without its fields"),
    pytest.param('"inner": {"y": "z', {"inner": {"y": "z"}}, id="a model without what it needs"),
    pytest.param('"inner": {"x": "z", "y": "z', {"inner": {"y": "z"}}, id="a model with a wrong field"),
    pytest.param('"inner": [', {}, id="a list for a model"),
    pytest.param('"items": [', {"items": []}, id="a list of models"),
    pytest.param('"items": [{"x": 1}, {"x": "z"}, {"y": "z', {"items": [{"x": 1}, {}, {"y": "z"}]}, id="its models"),
    pytest.param('"items": [{"x": 1}, "z", {"x": 2},', {"items": [{"x": 1}, {"x": 2}]}, id="what is no model of it"),
    pytest.param('"items": [5, "z", {"x": 2}, 6, 7,', {"items": [{"x": 2}]}, id="more that is no model"),
    pytest.param('"items": {"x"', {}, id="an object for a list"),
    pytest.param('"table": {"a": {"x": 1}, "b": {"x"', {"table": {"a": {"x": 1}, "b": {}}}, id="a table"),
    pytest.param('"table": {"a": 5, "b": {"x": 1}', {"table": {"b": {"x": 1}}}, id="what is wrong in a table"),
    pytest.param('"mixed": "z', {"mixed": "z"}, id="one type of a union"),
    pytest.param('"mixed": 5,', {"mixed": 5}, id="another type"),
    pytest.param('"mixed": {"y": "z', {"mixed": {"y": "z"}}, id="a model of a union"),
    pytest.param('"mixed": [', {}, id="none of a union"),
    pytest.param('"numbers": [1, 2', {"numbers": [1]}, id="numbers"),
    pytest.param('"numbers": [1, "z", 2, "z", 3,', {"numbers": [1, 2, 3]}, id="what is wrong among numbers"),
    pytest.param('"pair": [1', {"pair": []}, id="a tuple that begins"),
    pytest.param('"pair": [1, "z', {"pair": [1, "z"]}, id="a tuple"),
    pytest.param('"short": "abcd"', {"short": "abcd"}, id="a short string"),
    pytest.param('"short": "abcde"', {}, id="one that is too long"),
    pytest.param('"letters": "ab', {}, id="a pattern that more text may break"),
    pytest.param('"letters": "ab"', {"letters": "ab"}, id="a pattern"),
    pytest.param('"letters": "AB"', {}, id="what does not match it"),
    pytest.param('"small": 5,', {"small": 5}, id="a small number"),
    pytest.param('"small": 50,', {}, id="one that is too large"),
    pytest.param('"otherName": "z', {"otherName": "z"}, id="an alias"),
    pytest.param('"otherName": 5,', {}, id="a wrong value under an alias"),
    pytest.param('"pet": {"kind": "dog', {"pet": {}}, id="half a discriminator"),
    pytest.param('"pet": {"kind": "dog"', {"pet": {"kind": "dog"}}, id="a discriminator"),
    pytest.param('"pet": {"kind": "dog", "name": "z', {"pet": {"kind": "dog", "name": "z"}}, id="what it discriminates"),
    pytest.param('"pet": {"kind": "cow"', {"pet": {}}, id="none that it discriminates"),
    pytest.param('"animal": {"kind": "cat", "lives": 7,', {"animal": {"kind": "cat", "lives": 7}}, id="a plain union"),
    pytest.param('"pet": {"kind": "dog", "born": "20', {"pet": {"kind": "dog"}}, id="an open date in a discriminated union"),
    pytest.param('"pet": {"kind": "cat", "lives": "z"', {"pet": {"kind": "cat"}}, id="what is wrong in it"),
    pytest.param('"animal": {"kind": "dog", "born": "20', {"animal": {"kind": "dog"}}, id="an open date in a plain union"),
    pytest.param('"mixed": {"x": "z", "y": "z', {"mixed": {"y": "z"}}, id="a wrong field in a model of a union"),
    pytest.param('"pet": {"name": "z', {"pet": {"name": "z"}}, id="a discriminator that is still to come"),
    pytest.param('"short": "abc', {"short": "abc"}, id="a string that may become too long"),
    pytest.param('"short": "abcde', {}, id="which it is now"),
    pytest.param('"unheard_of": "z"', {}, id="no field at all"),
]  # fmt: skip


@each_case(("fields", "value"), FIELDS)
def test_what_is_shown_of_a_model(fields: str, value: dict[str, Any]) -> None:
    text = "{" + fields
    assert partial(text, Everything) == value
    assert fed(text, Everything)[-1] == value
    assert ChatCompletionMessage(content=text).parse_partial(Everything) == value
    assert Function(arguments=text).parse_partial(Everything) == value
    # At any depth.
    assert partial(f'[{{"a": {text}', list[dict[str, Everything]]) == [{"a": value}]


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next: str = ""


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int = 0
    day: dt.date | None = None


class StrictRatio(BaseModel):
    model_config = ConfigDict(strict=True)
    count: float = 0


class Initials(BaseModel):
    model_config = ConfigDict(str_max_length=2)
    name: str = ""


class Nickname(BaseModel):
    model_config = ConfigDict(str_max_length=4)
    name: str = ""


class Whole(BaseModel):
    kind: Literal["whole"]
    value: int


class Sum(BaseModel):
    kind: Literal["sum"]
    left: "Term"
    right: "Term"


class Product(BaseModel):
    kind: Literal["product"]
    left: "Term"
    right: "Term"


Term = Annotated[Whole | Sum | Product, Field(discriminator="kind")]


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: str = ""


class Renamed(BaseModel):
    model_config = ConfigDict(loc_by_alias=False)
    a: int = Field(0, alias="A")
    b: str = ""


class EitherName(BaseModel):
    a: int = Field(0, validation_alias=AliasChoices("x", "y"))
    b: str = ""


class Numbers(RootModel[list[int]]):
    pass


class Table(RootModel[dict[str, int]]):
    pass


class Tree(BaseModel):
    n: int = 0
    children: list["Tree"] = []


class CityDict(TypedDict):
    city: str
    days: int


@dataclass
class CityData:
    city: str
    days: int = 1


class CityTuple(NamedTuple):
    city: str
    days: int = 1


class City(BaseModel):
    city: str
    days: int = 1


class Range(BaseModel):
    low: int = 0
    high: int = 0
    name: str = ""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Hasty(BaseModel):
    a: str
    b: str = ""

    @model_validator(mode="before")
    @classmethod
    def strip(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "a": fields["a"].strip()}


class Shouting(BaseModel):
    city: str
    is_loud: bool

    @field_validator("city")
    @classmethod
    def check(cls, city: str) -> str:
        if not (city.isascii() and city.isupper()):
            raise ValueError("louder")
        return city


class Sized(BaseModel):
    name: Annotated[str, Field(min_length=3)]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: str = ""


class ByBothNames(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    my_name: str = ""


class ByPath(BaseModel):
    x: int = Field(0, validation_alias=AliasPath("point", 0))


Names = NewType("Names", list[str])
Inverse = Annotated[int, AfterValidator(lambda n: 1 // n)]  # of 0 there is none: a ZeroDivisionError


@dataclass
class ListedBySelf:
    n: int = 0
    children: list["ListedBySelf"] = field(default_factory=list)


class WithMarks(TypedDict):
    a: Required[int]
    b: NotRequired[str]


class Arbitrary:
    pass


class WithArbitrary(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    a: int = 0
    x: Arbitrary | None = None


class SmallDict(TypedDict):
    n: Annotated[int, Field(lt=10)]
    m: Annotated[int, Field(lt=10)]


@dataclass
class WithVars:
    a: int
    b: InitVar[int] = 0
    c: ClassVar[int] = 1


@dataclass
class Unresolved:
    a: list[int]
    b: ClassVar["NotDefinedAnywhere"] = 1  # noqa: F821 - pydantic does not need it


@dataclass
class AliasedData:
    a: Annotated[int, Field(alias="A")]
    b: str = ""


class AliasedDict(TypedDict):
    a: Annotated[int, Field(alias="A")]
    b: str


class Lenient(BaseModel):
    count: int

    @field_validator("count", mode="before")
    @classmethod
    def without_commas(cls, count: Any) -> Any:
        return count.replace(",", "") if isinstance(count, str) else count


class Curious(BaseModel):
    a: int = 0
    b: str = ""

    @field_validator("b")
    @classmethod
    def check(cls, b: str, info: ValidationInfo) -> str:
        if info.field_name != "b" or info.data.get("a"):
            raise ValueError("another field")
        return b


class Coercing(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    name: str = ""


@dataclass
class Box(Generic[Item]):
    item: Item
    items: list[Item]


class Touchy(BaseModel):
    a: str
    b: str = ""

    @model_validator(mode="before")
    @classmethod
    def strip(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "a": fields["a"].strip()}

    @field_validator("b")
    @classmethod
    def check(cls, b: str) -> str:
        return b


def kind_of(pet: Any) -> Any:
    return pet.get("kind") if isinstance(pet, dict) else pet.kind


class Owner(BaseModel):
    pet: Annotated[Annotated[Dog, Tag("dog")] | Annotated[Cat, Tag("cat")], Field(discriminator=Discriminator(kind_of))]


TYPED = [
    pytest.param(Page[int], '{"items": [1, "x", 2', {"items": [1]}, id="a generic model"),
    pytest.param(Page[Page[str]], '{"items": [{"next": "z', {"items": [{"next": "z"}]}, id="generic models in one another"),
    pytest.param(Strict, '{"count": "5", "day": "2024-01-01"', {"day": "2024-01-01"}, id="a strict model"),
    pytest.param(Strict, '{"count": 5,', {"count": 5}, id="what fits a strict model"),
    pytest.param(Closed, '{"b": {"c": 1}, "a": "z', {"a": "z"}, id="a key that is forbidden"),
    pytest.param(EitherName, '{"y": "z", "b": "z', {"b": "z"}, id="one of several aliases"),
    pytest.param(Tree, '{"children": [{"n": 1, "children": [{"n": "z"', {"children": [{"n": 1, "children": [{}]}]}, id="a tree"),
    pytest.param(Numbers, '[1, "z", 2, 3', [1, 2], id="a root model of a list"),
    pytest.param(Table, '{"a": 1, "b": "z", "c": 2}', {"a": 1, "c": 2}, id="a root model of an object"),
    pytest.param(CityDict, '{"city": "Bo', {"city": "Bo"}, id="a TypedDict"),
    pytest.param(CityDict, '{"city": 5, "days": 2,', {"days": 2}, id="what is wrong in a TypedDict"),
    pytest.param(CityData, '{"city": "Bo', {"city": "Bo"}, id="a dataclass"),
    pytest.param(CityData, '{"city": "Bonn", "days": "z"', {"city": "Bonn"}, id="what is wrong in a dataclass"),
    pytest.param(City | None, '{"city": "Bo', {"city": "Bo"}, id="a model or null"),
    pytest.param(City | None, "null", None, id="a null"),
    pytest.param(list[City], '[{"city": "Bonn"}, {"days"', [{"city": "Bonn"}, {}], id="a list of models"),
    pytest.param(dict[str, City], '{"a": {"city": "Bo', {"a": {"city": "Bo"}}, id="a dict of models"),
    pytest.param(dict[int, int], '{"1": 1, "2": "z", "z": 3, "4": 4,', {"1": 1, "4": 4}, id="a dict of numbers by numbers"),
    pytest.param(list[int], "[1, 2", [1], id="a list of numbers"),
    pytest.param(list[int], '[1, "z", 3,', [1, 3], id="what is wrong in a list"),
    pytest.param(list[list[int]], '[[1, "z"], "z", [2, [3], 4,', [[1], [2, 4]], id="lists in a list"),
    pytest.param(set[int], "[1, 2,", [1, 2], id="a set is a list until it is whole"),
    pytest.param(list[int], '{"a"', None, id="an object for a list"),
    pytest.param(str, '"Bo', "Bo", id="a string"),
    pytest.param(str, "[", None, id="a list for a string"),
    pytest.param(int, "12 ", 12, id="a number"),
    pytest.param(int, '"z', None, id="a string for a number"),
    pytest.param(bool, "true", True, id="a literal"),
    pytest.param(Literal["yes", "yesterday"], '"yes', None, id="a word that may become another"),
    pytest.param(Literal["yes", "yesterday"], '"yes"', "yes", id="a word"),
    pytest.param(dt.date, '"2024-01-0', None, id="a date that may go on"),
    pytest.param(Annotated[Dog | Cat, Field(discriminator="kind")], '{"kind": "dog", "na', {"kind": "dog"}, id="a discriminated union"),
    pytest.param(Owner, '{"pet": {"kind": "dog", "born": "20', {"pet": {"kind": "dog"}}, id="a discriminator that is called"),
    pytest.param(Shouting, '{"city": "BONN', {}, id="a validator that more text may break"),
    pytest.param(Shouting, '{"city": "BONN",', {"city": "BONN"}, id="and that holds"),
    pytest.param(Range, '{"high": 2, "low": 1, "name": "z', {"high": 2, "low": 1, "name": "z"}, id="fields that belong together"),
    pytest.param(Annotated[dict[str, int], {"unhashable": []}], '{"a": 1,', {"a": 1}, id="unhashable metadata"),
    pytest.param(Renamed, '{"A": "z", "b": "z', {"b": "z"}, id="a model that reports fields by their names"),
    pytest.param(Range, '{"low": 1, "name": "z', {"low": 1, "name": "z"}, id="fields that do not fit together yet"),
    pytest.param(Hasty, '{"b": "z', {"b": "z"}, id="a validator that trips over what is missing"),
    pytest.param(Numbers, "", None, id="a root model of a list before its text"),
    pytest.param(Numbers, "{", None, id="a root model of a list that is an object"),
    pytest.param(dict[str, Any], '{"a": 1, "b": 2, "a": "x', {"a": "x", "b": 2}, id="a key that comes twice"),
    pytest.param(dict[str, Any], '{"a": "x\uffff", "b', {"a": "x\uffff"}, id="U+FFFF before a key"),
    pytest.param(CityTuple, '{"city": "Bo', None, id="what is only judged as a whole"),
    pytest.param(list[CityTuple], '[{"city": "Bonn"}, {"city": "Bo', [{"city": "Bonn"}], id="several of it"),
    pytest.param(list[CityTuple], '[{"days": 2}, {"city": "Bonn"}, 5', [{"city": "Bonn"}], id="some of it wrong"),
    pytest.param(Sized, '{"name": "ab"', {}, id="a string that is still too short, and has ended"),
    pytest.param(Sized, '{"name": "ab', {"name": "ab"}, id="one that may become long enough"),
    pytest.param(Open, '{"b": {"c": [1, ', {"b": {"c": [1]}}, id="keys that a model takes besides its own"),
    pytest.param(ByBothNames, '{"myName": "z', {"myName": "z"}, id="an alias that is generated"),
    pytest.param(ByBothNames, '{"my_name": "z', {"my_name": "z"}, id="a name beside an alias"),
    pytest.param(ByPath, '{"point": [1, 2', {"point": [1]}, id="a path for an alias"),
    pytest.param(Literal[1, 2] | None, "1 ", 1, id="a number that is a literal"),
    pytest.param(dict[Literal["a", "b"], int], '{"c": 1, "a": 1,', {"a": 1}, id="a key that is none of those"),
    pytest.param(dict[str, int] | City, '{"city": "z', {"city": "z"}, id="a dict or a model"),
    pytest.param(list[int] | dict[str, int], '{"a": 1,', {"a": 1}, id="a list or a dict"),
    pytest.param(Names, '["a", "b', ["a", "b"], id="a new type"),
    pytest.param(tuple[int, ...], '[1, "z", 2,', [1, 2], id="a tuple of any length"),
    pytest.param(list[float], "[-Infinity, 1.5,", [-math.inf, 1.5], id="an infinite number"),
    pytest.param(list[Inverse], "[0, 2,", [2], id="a validator that fails in another way"),
    pytest.param(EitherName, '{"y": 1, "b": "z', {"y": 1, "b": "z"}, id="the other alias"),
    pytest.param(SmallDict, '{"n": 50, "m": 5,', {"m": 5}, id="a limit in a TypedDict"),
    pytest.param(Mapping[str, Sequence[int]], '{"a": [1, "z", 2,', {"a": [1, 2]}, id="abstract types"),
    pytest.param(list, '[1, {"a": "z', [1, {"a": "z"}], id="a bare list"),
    pytest.param(dict, '{"a": [', {"a": []}, id="a bare dict"),
    pytest.param(dict[str, Any] | None, '{"a": [', {"a": []}, id="a dict or null"),
    pytest.param(ListedBySelf, '{"children": [{"children": [5, {"n": 1,', {"children": [{"children": [{"n": 1}]}]}, id="a dataclass of itself"),
    pytest.param(WithMarks, '{"a": 1, "b": "z', {"a": 1, "b": "z"}, id="NotRequired and Required"),
    pytest.param(WithMarks, '{"b": 1, "a": 1,', {"a": 1}, id="what is wrong under NotRequired"),
    pytest.param(WithVars, '{"b": 2, "a": 1,', {"b": 2, "a": 1}, id="a dataclass with an InitVar"),
    pytest.param(WithArbitrary, '{"a": 1, "x": null', {"a": 1, "x": None}, id="a field of an arbitrary type"),
    pytest.param(AliasedData, '{"A": 1, "b": "z', {"A": 1, "b": "z"}, id="an alias in a dataclass"),
    pytest.param(AliasedDict, '{"A": 1, "b": "z', {"A": 1, "b": "z"}, id="an alias in a TypedDict"),
    pytest.param(dict[str, Any | None], '{"a": {"b": [1,', {"a": {"b": [1]}}, id="anything or null"),
    pytest.param(JsonValue, '{"a": {"b": [1,', {"a": {"b": [1]}}, id="any JSON value"),
    pytest.param(dict[int, str] | City, '{"city": "z', {"city": "z"}, id="a dict by numbers or a model"),
    pytest.param(Lenient, '{"count": "1,000"', {"count": "1,000"}, id="a validator that comes before the type"),
    pytest.param(Coercing, '{"name": 5,', {"name": 5}, id="numbers for strings where a model allows it"),
    pytest.param(Curious, '{"b": "z",', {"b": "z"}, id="a validator that asks for its field's name and the other fields"),
    pytest.param(RootModel[Any], '{"a": [1,', {"a": [1]}, id="a root model of anything"),
    pytest.param(list[Annotated[Any, AfterValidator(int)]], '[1, "z", 2,', [1, 2], id="anything that a validator refuses"),
    pytest.param(list[Json[list[int]]], '["[1]", [1', ["[1]"], id="JSON in a text, which came as a value"),
    pytest.param(Annotated[int, Tag("n")] | Annotated[list[int], Tag("l")], '[1, "z", 2,', [1, 2], id="members with tags"),
    pytest.param(Strict | StrictRatio, '{"count": "1",', {}, id="a text for a number in a union of strict models"),
    pytest.param(Strict | StrictRatio, '{"count": 1.5,', {"count": 1.5}, id="a number that one of them takes"),
    pytest.param(Initials | Nickname, '{"name": "Anna', {"name": "Anna"}, id="a text as long as one member of a union takes"),
    pytest.param(Initials | Nickname, '{"name": "Annab', {}, id="a text that is too long for all of them"),
    pytest.param(Curious | WithVars, '{"b": "z",', {"b": "z"}, id="a member's validator that asks for its field's name"),
    pytest.param(Sum, '{"left": {"left": {"value": "z", "kind": "whole"', {"left": {"left": {"kind": "whole"}}}, id="a union of itself"),
    pytest.param(Box[int], '{"item": "z", "items": [1, "z", 2,', {"items": [1, 2]}, id="a generic dataclass"),
]  # fmt: skip


@each_case(("as_type", "text", "value"), TYPED)
def test_what_is_shown_of_other_types(as_type: Any, text: str, value: Any) -> None:
    assert partial(text, as_type) == value
    assert ChatCompletionMessage(content=text).parse_partial(as_type) == value


def test_a_dataclass_with_a_name_that_pydantic_does_not_need_is_checked_like_any_other() -> None:
    live = PartialJSON(Unresolved)
    assert live.feed('{"a": [1, "x", ') == {"a": [1]}
    assert live.feed("2]}") == {"a": [1, 2]}
    with pytest.raises(ParseError):
        live.close()


@pytest.mark.skipif("validate_by_name" not in ConfigDict.__annotations__, reason="needs pydantic 2.11")
def test_an_alias_that_the_model_ignores_is_no_field() -> None:
    class ByName(BaseModel):
        model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=False, validate_by_name=True)
        my_name: str = ""

    assert PartialJSON(ByName).feed('{"my_name": "z", "myName": "y",') == {"my_name": "z"}


WHOLE = [
    pytest.param(City, '{"city": "Bonn"}', City(city="Bonn"), id="a model"),
    pytest.param(City | None, '{"city": "Bonn"}', City(city="Bonn"), id="a model or null"),
    pytest.param(list[City], '[{"city": "Bonn"}]', [City(city="Bonn")], id="a list of models"),
    pytest.param(dict[str, City], '{"a": {"city": "Bonn"}}', {"a": City(city="Bonn")}, id="a dict of models"),
    pytest.param(CityData, '{"city": "Bonn"}', CityData("Bonn"), id="a dataclass"),
    pytest.param(CityDict, '{"city": "Bonn", "days": 2}', {"city": "Bonn", "days": 2}, id="a TypedDict"),
    pytest.param(CityTuple, '{"city": "Bonn"}', CityTuple("Bonn"), id="a named tuple"),
    pytest.param(Page[City], '{"items": [{"city": "Bonn"}]}', Page[City](items=[City(city="Bonn")]), id="a generic model"),
    pytest.param(Numbers, "[1, 2]", Numbers([1, 2]), id="a root model of a list"),
    pytest.param(set[int], "[1, 2]", {1, 2}, id="a set"),
    pytest.param(dt.date, '"2024-01-01"', dt.date(2024, 1, 1), id="a date"),
    pytest.param(Cat | Dog, '{"kind": "dog"}', Dog(kind="dog"), id="a union"),
    *(pytest.param(Any, text, value, id=f"any JSON: {text}")
      for text, value in (('"a"', "a"), ("null", None), (' {"a": "é"} ', {"a": "é"}))),
]  # fmt: skip


@each_case(("as_type", "text", "value"), WHOLE)
def test_what_is_whole_and_valid_is_what_parse_gives(as_type: Any, text: str, value: Any) -> None:
    live = PartialJSON(as_type)
    *_, last = [live.feed(character) for character in text]
    assert last == value
    assert type(last) is type(value)
    assert live.feed(" \n") == value
    assert live.close() == live.value == value
    message = ChatCompletionMessage(content=text)
    assert message.parse_partial(as_type) == message.parse(as_type) == value
    assert message.parse() == json.loads(text)
    assert Function(arguments=text).parse(as_type) == value or text == "null"


def test_a_validator_of_the_callers_may_fail_in_any_way() -> None:
    """While the text is written that is no error; at the end it is the caller's own."""
    live = PartialJSON(Hasty)
    assert live.feed('{"b": "z"}') == {"b": "z"}
    with pytest.raises(KeyError):
        live.close()


def test_nor_is_it_one_where_fields_have_validators_too() -> None:
    live = PartialJSON(Touchy)
    live.feed('{"b": "z", ')
    assert live.feed('"a": " z "}') == live.close() == Touchy(a="z", b="z")


def test_what_is_whole_but_does_not_fit_is_shown_without_it() -> None:
    for text, value in [('{"days": 2}', {"days": 2}), ('{"city": 5, "days": 2}', {"days": 2}), ("[]", {})]:
        live = PartialJSON(City)
        assert live.feed(text) == value
        with pytest.raises(ParseError):
            live.close()


@pytest.mark.parametrize("as_type", [City, CityDict, CityData, dict])
def test_what_has_fields_is_a_dict_from_the_start(as_type: Any) -> None:
    live = PartialJSON(as_type)
    assert [live.value, *map(live.feed, ["", " ", "{"])] == [{}] * 4
    assert ChatCompletionMessage(content=None).parse_partial(as_type) == {}


@pytest.mark.parametrize("as_type", [None, City | None, list[City], str, int, Any])
def test_of_anything_else_nothing_is_known_at_the_start(as_type: Any) -> None:
    live = PartialJSON(as_type)
    assert [live.value, *map(live.feed, ["", " "])] == [None] * 3
    assert ChatCompletionMessage(content=None).parse_partial(as_type) is None


# Over all beginnings of a text


def may_become(part: Any, whole: Any) -> bool:
    """Whether a value may grow into another one: a string by its end, a list or an object by its last item."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, dict) and isinstance(whole, dict):
        names = list(whole)[: len(part)]
        return list(part) == names and may_become(list(part.values()), [whole[name] for name in names])
    if isinstance(part, list) and isinstance(whole, list) and part:
        *before, last = part
        rest = whole[len(before) :]
        return bool(rest) and repr(before) == repr(whole[: len(before)]) and may_become(last, rest[0])
    return repr(part) == repr(whole) or (part == [] and isinstance(whole, list))


class Stop(BaseModel):
    city: str
    nights: int = 1
    price: float | None = None
    is_paid: bool = False
    kind: Literal["visit", "visitation"] = "visit"
    arrival: dt.date | None = None
    guests: list[City] = []


class Trip(BaseModel):
    title: str
    stops: list[Stop]
    by_name: dict[str, Stop | None] = {}
    notes: list[str] = []
    budget: dict[str, int] = {}


CITIES = st.builds(City)
STOPS = st.builds(Stop, price=st.none() | st.floats(allow_nan=False, allow_infinity=False))
TRIPS = st.builds(
    Trip,
    stops=st.lists(STOPS, max_size=2),
    by_name=st.dictionaries(st.text(max_size=4), st.none() | STOPS, max_size=2),
    notes=st.lists(st.text(max_size=8), max_size=3),
    budget=st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
)
TYPES = [None, Trip, CityDict, dict[str, Any], Annotated[Dog | Cat, Field(discriminator="kind")], Everything, list[int]]


@settings(often, max_examples=40)
@given(TRIPS, st.booleans())
def test_nothing_that_was_shown_is_taken_back(trip: Trip, ascii_only: bool) -> None:
    """Each value may become the next one, and the last is the model."""
    fields = trip.model_dump(mode="json")
    text = json.dumps(fields, ensure_ascii=ascii_only)
    live = PartialJSON(Trip)
    *shown, last = [live.feed(character) for character in text]
    assert last == trip == live.close()
    for before, after in pairwise([{}, *shown, fields]):
        assert may_become(before, after)


RETRACTED = [
    pytest.param({"otherName": "abc", "mixed": "abc"}, id="plain strings"),
    pytest.param({"short": "abcd"}, id="a string as long as it may be"),
    pytest.param({"pet": {"kind": "dog", "born": "2024-01-01", "name": "Rex"}}, id="a date in a discriminated union"),
    pytest.param({"animal": {"kind": "dog", "born": "2024-01-01", "name": "Rex"}}, id="a date in a plain union"),
]


@pytest.mark.parametrize("fields", RETRACTED)
def test_nor_is_anything_of_these(fields: dict[str, Any]) -> None:
    shown = fed(json.dumps(fields), Everything)
    for before, after in pairwise([*shown, fields]):
        assert may_become(before, after)


@settings(often, max_examples=40)
@given(JSON | TRIPS.map(lambda trip: trip.model_dump(mode="json")), st.sampled_from([*TYPES, Any]), st.booleans())
def test_no_beginning_raises_whatever_the_type(value: Any, as_type: Any, half_numbers: bool) -> None:
    """Nor does it matter whether a text comes at once or piece by piece."""
    text = json.dumps(value)
    live = PartialJSON(as_type, half_numbers=half_numbers)
    shown: list[tuple[Any, str]] = []
    for end, character in enumerate(text, 1):
        at_once = PartialJSON(as_type, half_numbers=half_numbers).feed(text[:end])
        shown.append((live.feed(character), repr(at_once)))
        assert repr(live.value) == repr(at_once)
    for kept, as_it_was in shown:  # a value that was handed out never changes
        assert repr(kept) == as_it_was


def test_what_the_caller_does_to_a_value_is_forgotten() -> None:
    live = PartialJSON(Everything)
    live.feed('{"numbers": [1, ')["numbers"].append(5)
    assert live.feed("2, ") == {"numbers": [1, 2]}


def test_what_pydantic_cannot_validate_is_a_wrong_argument() -> None:
    for use in (PartialJSON, ChatCompletionMessage(content="{}").parse_partial, Function().parse_partial):
        with pytest.raises(TypeError, match="expected a type that pydantic can validate, received <object object"):
            use(object())


# Messages and tool calls


def answer(*texts: str, finish: str = "stop") -> StreamBuilder:
    """A stream with these texts, an event each."""
    return StreamBuilder().text(*texts).finish(finish).done()


def test_a_snapshot_shows_what_is_known_so_far() -> None:
    parser = ChatCompletionParser()
    assert parser.snapshot.message.parse_partial() is None
    assert parser.snapshot.message.parse_partial(City) == {}
    seen = []
    for data in answer('{"city": "Bo', 'nn", "days": 2', "}"):
        parser.feed(data)
        message = parser.snapshot.message
        seen.append((message.parse_partial(), message.parse_partial(City)))
    assert seen == [
        (None, {}),  # the role
        ({"city": "Bo"}, {"city": "Bo"}),
        ({"city": "Bonn"}, {"city": "Bonn"}),
        *[({"city": "Bonn", "days": 2}, City(city="Bonn", days=2))] * 3,
    ]
    assert parser.completion().message.parse(City) == City(city="Bonn", days=2)


ARGUMENTS = [
    pytest.param("", None, {}, id="none yet"),
    pytest.param(" \n", None, {}, id="blanks"),
    pytest.param("{", None, {}, id="a beginning"),
    pytest.param('{"city": "Bo', None, {"city": "Bo"}, id="a string that grows"),
    pytest.param('{"city": "Bo', City, {"city": "Bo"}, id="with a type"),
    pytest.param("", City, {}, id="a type before any"),
    pytest.param('{"city": "Bonn"}', City, City(city="Bonn"), id="whole"),
    pytest.param('{}{"city": "Bo', None, {"city": "Bo"}, id="a placeholder"),
    pytest.param('{} {"city": "Bo', City, {"city": "Bo"}, id="a placeholder and a blank"),
    pytest.param("[1, 2", None, {}, id="no object"),
]


@each_case(("arguments", "as_type", "value"), ARGUMENTS)
def test_what_is_known_of_arguments(arguments: str, as_type: Any, value: Any) -> None:
    function = Function(name="f", arguments=arguments)
    assert function.parse_partial(as_type) == value
    assert function.arguments == arguments


@each_case("arguments", ["nope", "{'a'", '{"a": 1,}', "{}[1", "{}1"])
@each_case("as_type", [None, City])
def test_arguments_that_can_never_become_json_raise_too(arguments: str, as_type: Any) -> None:
    with pytest.raises(ParseError) as caught:
        Function(arguments=arguments).parse_partial(as_type)
    assert (caught.value.text, caught.value.cut) == (arguments, False)


def test_blanks_at_the_end_of_an_open_string_belong_to_it() -> None:
    assert Function(arguments='{"city": "New ').parse_partial() == {"city": "New "}
    with pytest.raises(ParseError):
        Function(arguments='{"city": "New\n').parse_partial()


def test_content_of_a_wrong_type_is_no_text() -> None:
    parser = ChatCompletionParser()
    parser.feed(delta("stop", content=5))
    assert parser.snapshot.message.parse_partial() is None


# The final parse: which part of the value does not fit, and whether the text was cut

MISFITS = [
    pytest.param(City, '{"city": 5}', ("city",), id="a field"),
    pytest.param(City, '{"days": 2}', ("city",), id="a field that is missing"),
    pytest.param(City, "[]", (), id="the value"),
    pytest.param(Trip, '{"title": "", "stops": [{"city": ""}, {"city": null}]}', ("stops", 1, "city"), id="inside of others"),
    pytest.param(dict[str, City], '{"a": {"city": ""}, "b": {"city": 1}}', ("b", "city"), id="a dict"),
    pytest.param(list[int], '[1, "z"]', (1,), id="a list"),
    pytest.param(Everything, '{"name": "", "otherName": 5}', ("otherName",), id="an alias"),
    pytest.param(int | str, "[]", (), id="a union"),
    pytest.param(Everything, '{"name": "", "mixed": []}', ("mixed",), id="a union in a field"),
    pytest.param(Everything, '{"name": "", "pet": {"kind": "dog", "born": 1.5}}', ("pet", "born"), id="a discriminated union"),
    pytest.param(dict[int, int], '{"z": 1}', ("z",), id="a key"),
]  # fmt: skip


@each_case(("as_type", "text", "path"), MISFITS)
def test_the_error_names_the_place_that_does_not_fit(as_type: Any, text: str, path: tuple[str | int, ...]) -> None:
    for parse in (ChatCompletionMessage(content=text).parse, Function(arguments=text).parse):
        with pytest.raises(ParseError) as caught:
            parse(as_type)
        error = caught.value
        assert (error.text, error.path, error.position, error.cut) == (text, path, None, False)
        assert isinstance(error.__context__, ValidationError)


@each_case("text", [case for case in NEVER if case.values[0].strip()])  # blanks alone are no text at all
@each_case("as_type", [None, City])
def test_what_no_more_text_could_make_json_is_not_cut(text: str, as_type: Any) -> None:
    assert not can_become_json(text)
    for parse in (ChatCompletionMessage(content=text).parse, Function(arguments=f"  {text}").parse):
        with pytest.raises(ParseError) as caught:
            parse(as_type)
        error = caught.value
        assert (error.cut, error.path, error.text.lstrip(" ")) == (False, (), text)
        assert error.position is not None
        assert f"character {error.position}" in str(error)
        assert can_become_json(error.text[: error.position])


@each_case("text", ["[1]", "false", '"a {}"'])
def test_arguments_that_are_no_object_do_not_fit(text: str) -> None:
    with pytest.raises(ParseError, match="expected") as caught:
        Function(arguments=text).parse()
    assert (caught.value.cut, caught.value.position) == (False, None)


@often
@given(NEAR_JSON | NEAR_JSON.map(lambda text: text[1:]))
def test_cut_is_what_more_text_could_make_json(text: str) -> None:
    cut = None
    try:
        ChatCompletionMessage(content=text).parse()
    except ParseError as error:
        cut = error.cut
    assert cut == (None if is_json(text) else can_become_json(text) and not text.isspace() and text != "")


def test_a_type_is_not_mistaken_for_one_that_equals_it() -> None:
    """`A | B` equals `B | A`, but of two that both fit the first one is meant."""

    class A(BaseModel):
        x: int = 0

    class B(BaseModel):
        x: int = 0

    function = Function(arguments='{"x": 1}')
    assert [type(function.parse(as_type)) for as_type in (A | B, B | A)] == [A, B]
    assert [type(function.parse_partial(as_type)) for as_type in (A | B, B | A)] == [A, B]


# Growth


LIMIT = 25


class Growth(NamedTuple):
    """A text about so long, what it is to be, and how many characters come at once."""

    text: Callable[[int], str]
    as_type: Any = None
    size: int = 20
    half_numbers: bool = False


def records(n: int) -> str:
    return json.dumps({"stops": [{"city": "x" * 40 + '\n"', "nights": i} for i in range(n // 72)]})


def one_string(n: int) -> str:
    return json.dumps({"title": 'so "on"\n' * (n // 12)})


def numbers(n: int) -> str:
    return json.dumps([1_000 + i for i in range(n // 6)])


def names(n: int) -> str:
    return json.dumps({str(i): 1_000 + i for i in range(n // 15)})


def misfits(n: int) -> str:
    return json.dumps({"stops": [{"city": "x" * 200, "nights": "one"} for _ in range(n // 232)]})


GROWTH = {
    "records": Growth(records),
    "records with a type": Growth(records, Trip),
    "one string": Growth(one_string),
    "one string in small pieces": Growth(one_string, size=4),
    "one string with a type": Growth(one_string, Trip),
    "numbers": Growth(numbers),
    "numbers with a type": Growth(numbers, list[int]),
    "names": Growth(names),
    "what does not fit": Growth(misfits, Trip),
    "lists in one another": Growth(lambda n: "[" + ("[" * 400 + "]" * 400 + ",") * (n // 1_600)),
    "one number": Growth(lambda n: "[0." + "1" * n),
    "one number that is shown": Growth(lambda n: "[0." + "1" * (n // 2), half_numbers=True),
}


def fed_whole(text: str, growth: Growth) -> PartialJSON:
    live = PartialJSON(growth.as_type, half_numbers=growth.half_numbers)
    for place in range(0, len(text), growth.size):
        live.feed(text[place : place + growth.size])
    return live


@pytest.mark.slow
@pytest.mark.parametrize(
    "growth",
    [
        pytest.param(growth, id=name, marks=pytest.mark.slow if "with a type" in name or "lists" in name else ())
        for name, growth in GROWTH.items()
    ],
)
def test_ten_times_the_text_costs_ten_times_as_much(growth: Growth) -> None:
    """A value after each of 5,000 pieces.

    A little more than 10 is no wonder: up to some length every piece has its copy, and caches hold less than it takes.
    """
    assert_linear(lambda n: functools.partial(fed_whole, growth.text(n), growth), 10_000, LIMIT)


def test_types_that_contain_themselves_cost_no_more_at_each_level() -> None:
    def take(levels: int) -> Callable[[], object]:
        inner = '{"kind": "whole", "value": 1}'
        for _ in range(levels):
            inner = f'{{"kind": "sum", "left": {inner}, "right": {{"kind": "whole", "value": 1}}}}'
        return lambda: PartialJSON(list[Term]).feed(f"[{inner}")  # a list, because of a class the parts are kept

    assert_linear(take, 1, LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("half_numbers", [False, True])
def test_a_number_in_single_characters(half_numbers: bool) -> None:
    def take(count: int) -> Callable[[], object]:
        def read() -> None:
            live = PartialJSON(half_numbers=half_numbers)
            for character in "[0." + "1" * count + "]":
                live.feed(character)
            assert isinstance(live.value[0], float)

        return read

    assert_linear(take, 10_000, LIMIT)


# From a stream


pytest_generate_tests = over_both_streams


def opened(front: Any, answer: Answer | StreamBuilder) -> Any:
    return front(Playback(as_answer(answer)))


def partials(stream: Any, as_type: Any = None, **options: Any) -> Any:
    """Its values, from an iterator of the stream's own kind."""
    return getattr(stream, "stream", stream).partials(as_type, **options)


async def collect(values: Any, seen: list[Any]) -> list[Any]:
    """Gather what an iterator of either kind gives, in a list that the caller keeps when it raises."""
    if isinstance(values, AsyncIterator):
        async for value in values:
            seen.append(value)  # noqa: PERF401 - what was seen before an error counts
    else:
        seen.extend(values)
    return seen


async def first_of(values: Any) -> Any:
    return await anext(values) if isinstance(values, AsyncIterator) else next(values)


CITY = ('{"city": "Bo', 'nn", "da', 'ys": 1', "2", "}")
SEEN = [
    pytest.param(None, {}, [{"city": "Bo"}, *[{"city": "Bonn"}] * 3, *[{"city": "Bonn", "days": 12}] * 2], id="no type"),
    pytest.param(City, {}, [{"city": "Bo"}, *[{"city": "Bonn"}] * 3, *[City(city="Bonn", days=12)] * 2], id="a model"),
    pytest.param(
        CityDict,
        {"half_numbers": True},
        [{"city": "Bo"}, {"city": "Bonn"}, {"city": "Bonn", "days": 1}, *[{"city": "Bonn", "days": 12}] * 3],
        id="half numbers",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("as_type", "options", "values"), SEEN)
async def test_a_value_after_each_delta_and_the_whole_at_the_end(
    as_type: Any, options: dict[str, Any], values: list[Any], front: Any
) -> None:
    stream = opened(front, answer(*CITY))
    given = partials(stream, as_type, **options)
    seen = await collect(given, [])
    assert seen == values
    assert stream.completion().message.parse(as_type) == seen[-1]
    assert type(seen[-1]) is type(values[-1])
    assert await collect(given, []) == []


async def test_only_text_gives_values(front: Any) -> None:
    """Roles, reasoning, tool calls and other choices do not."""
    stream = (
        StreamBuilder("deepseek")
        .reasoning("hm")
        .text("[1")
        .text('{"other": 1', choice=1)
        .finish(choice=1)
        .tool_call("f", '{"x": 1}')
        .text(", 2]")
        .finish()
        .done()
    )
    assert await collect(partials(opened(front, stream)), []) == [[], [1, 2], [1, 2]]


async def test_values_come_as_they_arrive(front: Any) -> None:
    clock = ManualClock()
    values = partials(front(Playback(answer(*CITY).answer(pace=1), clock=clock)))
    assert await first_of(values) == {"city": "Bo"}
    assert clock() == 1  # the role came at 0


class Failure(NamedTuple):
    """Texts that are not what is asked for, and what is said of them."""

    texts: tuple[str, ...]
    as_type: Any
    finish: str = "stop"
    cut: bool = False
    path: tuple[str | int, ...] = ()
    seen: int = 0


FAILURES = {
    "cut by a token limit": Failure(CITY[:3], None, "length", cut=True, seen=3),
    "cut by a token limit, with a type": Failure(CITY[:3], City, "length", cut=True, seen=3),
    "cut without a word": Failure(CITY[:3], City, "stop", cut=True, seen=3),
    "only a number's beginning": Failure(("1", "."), None, "length", cut=True, seen=2),
    "text behind it": Failure((*CITY, " and", " more"), City, seen=5),
    "an object behind it": Failure((*CITY, "{}"), None, seen=5),
    "text for JSON": Failure(("Sure", "! {"), None),
    "text for JSON, with a type": Failure(("Sure", "! {"), City),
    "text inside of it": Failure(('{"city":', " Bonn}"), City, seen=1),
    "text where the tokens end": Failure(("nope",), City, "length"),
    "a field that does not fit": Failure(('{"city":', " 5}"), City, path=("city",), seen=2),
    "a field that is missing": Failure(("{}",), City, path=("city",), seen=1),
    "a value that does not fit": Failure(("[]",), City, seen=1),
}


@each_case("failure", FAILURES.values(), ids=FAILURES)
async def test_text_that_is_not_what_is_asked_for(failure: Failure, front: Any) -> None:
    stream = opened(front, answer(*failure.texts, finish=failure.finish))
    seen: list[Any] = []
    values = partials(stream, failure.as_type)
    with pytest.raises(ParseError) as caught:
        await collect(values, seen)
    error = caught.value
    assert len(seen) == failure.seen
    assert (error.cut, error.path) == (failure.cut, failure.path)
    assert error.text == "".join(failure.texts)[: len(error.text)]
    assert error.snapshot == stream.snapshot
    assert error.snapshot is not None
    assert error.snapshot.text.startswith(error.text)
    assert error.emitted_output is bool(seen)
    assert not error.retryable
    # There are no more values.
    more: list[Any] = []
    with suppress(ParseError):
        await collect(values, more)
    assert more == []


async def test_no_text_at_all_is_not_cut(front: Any) -> None:
    stream = opened(front, answer())
    with pytest.raises(ParseError) as caught:
        await collect(partials(stream, City), [])
    assert (str(caught.value), caught.value.cut) == ("expected JSON, received no text", False)
    assert caught.value.snapshot == stream.snapshot
    assert not caught.value.emitted_output


BEGUN = StreamBuilder().text('{"city": "Bo')
INCOMPLETE: dict[str, tuple[Answer | StreamBuilder, type[Exception], list[Any]]] = {
    "truncated": (BEGUN, IncompleteStreamError, []),
    "interrupted": (BEGUN.answer(ending="reset"), StreamInterruptedError, []),
    "failed": (BEGUN.error("overloaded", code=503), APIError, []),
    "invalid": (BEGUN.event("oops"), InvalidChunkError, []),
    "failed behind a whole value": (BEGUN.text('nn"}').error("overloaded", code=503), APIError, [City(city="Bonn")]),
}


@pytest.mark.parametrize(("begun", "kind", "more"), INCOMPLETE.values(), ids=INCOMPLETE)
async def test_a_stream_that_fails_raises_its_own_error(
    begun: Answer | StreamBuilder, kind: type[Exception], more: list[Any], front: Any
) -> None:
    stream = opened(front, begun)
    seen: list[Any] = []
    values = partials(stream, City)
    with pytest.raises(kind) as caught:
        await collect(values, seen)
    assert caught.value is stream.error
    assert seen == [{"city": "Bo"}, *more]
    assert await collect(values, []) == []


@each_case("as_one_read", [False, True], ids=["a read each", "one read"])
@each_case("taken", [0, 1, 2, 3, 4])
@each_case("before", ["partials", "events", "chunks"])
async def test_values_go_on_after_others_have_read(front: Any, before: str, taken: int, as_one_read: bool) -> None:
    """After events or other values with the next piece; after chunks with all that has arrived."""
    body = answer(*CITY).body
    stream = front(Playback(Answer(body if as_one_read else [part + b"\n\n" for part in body.split(b"\n\n")[:-1]])))
    if before == "partials":
        for _ in range(taken):
            await first_of(partials(stream, City))
    else:
        inner = getattr(stream, "stream", stream)
        earlier = inner.events() if before == "events" else stream
        texts = 0
        while texts < taken:
            item = await first_of(earlier) if before == "events" else await anext(aiter(earlier))
            texts += bool(item.text if before == "chunks" else isinstance(item, TextDelta))
    seen = await collect(partials(stream, City), [])
    values = [{"city": "Bo"}, *[{"city": "Bonn"}] * 3, *[City(city="Bonn", days=12)] * 2]
    expected = values[max(taken - 1, 0) if before == "chunks" else taken :]
    if before == "chunks" and as_one_read and taken:
        expected = values[-2:]  # it is one piece by then
    assert seen == expected


async def test_a_text_that_is_no_json_is_an_error_also_after_others_have_read(front: Any) -> None:
    stream = opened(front, answer("[1", ", x", "]"))
    assert await first_of(partials(stream)) == []
    with pytest.raises(ParseError) as caught:
        await collect(partials(stream), [])
    assert (caught.value.text, caught.value.position) == ("[1, x", 4)


async def test_an_unusable_type_is_a_wrong_argument_at_once(front: Any) -> None:
    with pytest.raises(TypeError, match="expected a type that pydantic can validate"):
        partials(opened(front, answer(*CITY)), object())


def test_a_text_of_endless_values_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkfold.stream.partials.MAX_PARTIAL_VALUES", 9)
    stream = ChatCompletionStream(
        sse(delta(content="[[],[],"), delta(content="[],[],"), delta(content="[]]"), delta("stop"))
    )
    shown: list[Any] = []
    with pytest.raises(LimitExceededError, match="at most 9 values in JSON") as raised:
        shown.extend(stream.partials())
    assert shown == [[[], []], [[], [], [], []]]
    assert (raised.value.limit, raised.value.snapshot.text) == ("max_partial_values", "[[],[],[],[],[]]")
