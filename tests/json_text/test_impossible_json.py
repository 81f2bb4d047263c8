"""Text that can never become JSON: the error comes as soon as no more text could mend it, and says where."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from json_beginnings import NEAR_JSON, can_become_json, fed, partial, refused

from chunkfold import ChatCompletionMessage, ChatCompletionStream, Function, ParseError, PartialJSON, ToolCallDone
from chunkfold.testing import choice, fragment, sse

NEVER = [
    # Text, alone or around JSON.
    *("nope", "Sure! {", "```json\n{", "\ufeff{", "\xa0", "\x0b\x0c", '{"a": x}', '{"a": 1} and more', '{"a": 1}t'),
    # Quotes, and what is in them.
    *("{'a'", '"a\n', '{"a\n', '"\x1f', '["\\q', '["\\q and so on", 1', '["\\q"]', '{"a": "\\q\\'),
    *('"\\u00g', '["\\u12"]', '"\\u00\N{ARABIC-INDIC DIGIT ONE}', '"\\u000\N{ARABIC-INDIC DIGIT ONE}"'),
    # Numbers.
    *("[+1", "[.5", "[--1", "[1-2]", "[1-2", "[01", "[1.2.3", "[1.,", "[1e5e", "[\u0661"),
    # Literals.
    *("[trux", "[nul]", "truee", "[nullx]", '{"a":true1', "-Infinity0", "NaNN"),
    # Commas and colons: too many, too few, or another sign in their place.
    *("{,", '{"a": }', "[1,]", '{"a": 1,}', '{"a"=1', '{"a" 1', "[:"),
    *("[1 2", "[1 2, 3, 4]", '["a" "b', '{"a": 1 "b": 2', '{"a" "b', '{"a": "b"c', "[true false", "[1 t", "[1 ."),
    # Brackets and braces.
    *("[}", '{"a": 1]', '{"a":}', '{"a"}', "]", "[1]]", '{"a": 1}{'),
    # Keys that are none.
    *("{1", "{t"),
    # Two values.
    *('"a" "b"', "1 2"),
]


@each_case("text", NEVER)
@each_case("as_type", [None, Any, dict[str, Any]], ids=["no type", "any type", "a type"])
def test_text_that_can_never_become_json_raises_at_once_and_says_where(text: str, as_type: Any) -> None:
    parses: list[Any] = [
        lambda: fed(text, as_type),
        lambda: ChatCompletionMessage(content=text).parse_partial(as_type),
        lambda: partial(text, as_type),
    ]
    if text.strip():  # blanks alone are no text at all
        parses += [lambda: ChatCompletionMessage(content=text).parse(as_type)]
        parses += [lambda: Function(arguments=f"  {text}").parse(as_type)]
    positions: list[int | None] = []
    for parse in parses:
        with pytest.raises(ParseError, match="expected JSON, received other text") as caught:
            parse()
        error = caught.value
        positions.append(error.position)
        assert (error.cut, error.path, error.retryable) == (False, (), False)
        assert error.text.lstrip(" ") == text or parse is parses[0]  # which goes no further than it has to
        assert error.position is not None
        assert can_become_json(error.text[: error.position])
        assert f"at character {error.position}" in str(error)
    assert len({*positions[:3]}) == 1  # however the text was cut


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


def readings(text: str) -> list[Callable[[], Any]]:
    """The ways to read a whole text as any JSON."""
    message, function = ChatCompletionMessage(content=text), Function(arguments=text)
    return [message.parse, lambda: message.parse(Any), lambda: function.parse(Any)]


@each_case("deeper", ["[", '{"a":'])
def test_what_is_nested_deeper_than_500_is_refused_as_soon_as_it_is(deeper: str) -> None:
    live = PartialJSON()
    live.feed(deeper * 500)
    assert len(repr(live.value)) > 500
    with pytest.raises(ParseError, match="expected at most 500 levels at character") as raised:
        live.feed(deeper * 1_000_000)
    assert raised.value.position == 500 * len(deeper) + deeper.index(deeper.strip('"a:')[0])
    deepest = deeper * 500 + "1" + ("]" if deeper == "[" else "}") * 500
    for read in readings(deepest):
        assert read() == json.loads(deepest)
    for depth in (501, 10_000):
        for read in readings(deeper * depth + "1" + ("]" if deeper == "[" else "}") * depth):
            with pytest.raises(ParseError, match="expected at most 500 levels"):
                read()


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
        error = refused(parse)
        assert (error.cut, error.text) == (False, text)


@each_case(
    ("item", "expected"),
    [("1" * 5_000, "a number with fewer digits"), ("nope", "a value"), ("1" * 5_000 + ".", "a value")],
)
def test_a_number_that_is_too_long_is_refused_as_one(item: str, expected: str) -> None:
    """Was once wrong: a value was expected, as if none had come."""
    for read in readings(f'{{"a": [1, {item}]}}'):
        assert f"expected {expected} at character 10: '{item[:3]}" in str(refused(read))


def test_a_lone_surrogate_is_shown_as_no_other_character() -> None:
    assert partial('"\ud83d') in ("\ud83d", "", "\N{REPLACEMENT CHARACTER}")
