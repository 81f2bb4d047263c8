"""The arguments of tool calls: their text, whether they are whole, and several objects in one call."""

import json
from typing import Any

import pytest
from call_fragments import ONE, OPEN, THREE, TWO, T, W, calls, custom, noted, read
from cases import each_case
from parsed_bodies import parsed

from chunkfold import ParseError
from chunkfold.testing import DONE, HEAD, delta, event

# Arguments


TEXT_OF_OBJECT = {"n": [1, {"ü": None}], "x": "a\nb"}
ENCODED, HALF = json.dumps(ONE), r'"{\"n\": \"\ud800\"}"'
DOUBLED = '{",":0,":":"}' * 2
ARGUMENTS = [
    # `arguments` as sent, one value per fragment; their text; what `parse` makes of it; the rules.
    pytest.param([OPEN, "1}"], ONE, {"n": 1}, set(), id="text"),
    pytest.param([None, ONE, None], ONE, {"n": 1}, set(), id="null adds nothing"),
    pytest.param(["", ""], "", {}, set(), id="none for a tool without parameters"),
    pytest.param([None], "", {}, set(), id="null alone"),
    pytest.param(["null"], "null", {}, set(), id="the text null"),
    pytest.param(["nu", "ll", " "], "null ", {}, set(), id="the text null in pieces"),
    pytest.param([...], "", {}, set(), id="not sent"),
    pytest.param([" \n"], " \n", {}, set(), id="blank"),
    pytest.param([f" {ONE}\n"], f" {ONE}\n", {"n": 1}, set(), id="blanks around"),
    pytest.param([f" {ENCODED} "], f" {ENCODED} ", {"n": 1}, {"CF310"}, id="blanks around, encoded twice"),
    pytest.param([HALF], HALF, {"n": "\ufffd"}, {"CF310"}, id="half a character, encoded twice"),
    pytest.param(['{} {"n": {}}'], '{} {"n": {}}', {"n": {}}, {"CF311"}, id="a placeholder and a blank"),
    pytest.param([ENCODED], ENCODED, {"n": 1}, {"CF310"}, id="encoded twice"),
    pytest.param([{"n": 1}], ONE, {"n": 1}, {"CF310"}, id="an object is its JSON text"),
    pytest.param([{}], "{}", {}, {"CF310"}, id="an empty object alone"),
    pytest.param([{}, OPEN, "1}"], ONE, {"n": 1}, {"CF310"}, id="an empty object before other arguments"),
    pytest.param([OPEN, {}, "1}"], ONE, {"n": 1}, {"CF310"}, id="an empty object between others"),
    pytest.param([ONE, {}], ONE, {"n": 1}, {"CF310"}, id="an empty object after others"),
    pytest.param([{}, {"n": 1}], ONE, {"n": 1}, {"CF310"}, id="an empty object, then the object"),
    pytest.param(["{}", ONE], "{}" + ONE, {"n": 1}, {"CF311"}, id="a placeholder: the text stays, parse drops it"),
    pytest.param(["{}", OPEN, "1}"], "{}" + ONE, {"n": 1}, {"CF311"}, id="a placeholder before pieces"),
    pytest.param(["{}"], "{}", {}, set(), id="what might be a placeholder, alone"),
    pytest.param(["{", "}"], "{}", {}, set(), id="an empty object in pieces"),
    pytest.param([DOUBLED], DOUBLED, {",": 0, ":": "}{", ":0,": ":"}, set(), id="two equal halves"),
]


@each_case(("values", "text", "value", "rules"), ARGUMENTS)
def test_arguments(values: list[Any], text: str, value: dict[str, Any], rules: set[str]) -> None:
    name_first = [(0, "a", W, values[0]), *((0, ..., ..., more) for more in values[1:])]
    parser = read(*name_first)
    (call,) = parser.completion().tool_calls
    assert call.arguments == text
    assert call.function.parse() == call.function.parse(dict[str, Any]) == value
    assert noted(parser) == rules


@each_case(
    ("type_", "key", "text", "rules"),
    [
        ("function", "arguments", "null", ["CF203"]),
        ("function", "arguments", " null\n", ["CF203"]),
        ("function", "arguments", "nullable", []),
        ("custom", "input", "null", []),
    ],
)
def test_arguments_that_are_the_text_null_are_noted(type_: str, key: str, text: str, rules: list[str]) -> None:
    call = {"index": 0, "id": "a", "type": type_, type_: {"name": W, key: text}}
    parser = parsed(delta(tool_calls=[call]) + delta("tool_calls") + DONE)
    assert [one.rule.id for one in parser.anomalies] == rules


def test_arguments_of_a_whole_message_may_be_an_object() -> None:
    message = {"tool_calls": [{"id": "a", "function": {"name": W, "arguments": {"n": 1}}}]}
    parser = parsed(event({**HEAD, "choices": [{"message": message, "finish_reason": "tool_calls"}]}) + DONE)
    assert parser.completion().tool_calls[0].arguments == '{"n":1}'
    assert "CF310" in noted(parser)


@each_case("index", [..., 0])
@each_case("empty", [{}, []])
def test_another_name_after_an_empty_object_is_another_call(index: Any, empty: Any) -> None:
    """Servers that send an object send all of it. The same name may continue: the object was a placeholder."""
    longer = f"{W}_later"
    for deltas in (
        [[(index, ..., W, empty), (index, ..., T, empty)]],
        [(index, ..., W, empty), (index, ..., T, empty)],
    ):
        parser = read(*deltas)
        assert [call[1:] for call in calls(parser.completion())] == [(W, "{}"), (T, "{}")]
        assert "CF308" not in noted(parser)
    parser = read((index, ..., W, empty), (index, ..., longer, ONE))
    assert [call[1:] for call in calls(parser.completion())] == [(W, "{}"), (longer, ONE)]
    parser = read((index, ..., W, empty), (index, ..., W, ONE), (index, ..., ..., " "))
    assert [call[1:] for call in calls(parser.completion())] == [(W, ONE + " ")]


@each_case("index", [..., 0])
@each_case("empty", [{}, []])
@each_case("rest", ["get_weather", "weather"])
def test_a_name_goes_on_after_an_empty_object_if_the_id_is_the_same(index: Any, empty: Any, rest: str) -> None:
    parser = read((index, "a", "get_", empty), (index, "a", rest, ONE))
    assert calls(parser.completion()) == [("a", "get_weather", ONE)]
    assert "CF308" in noted(parser)


def test_an_object_keeps_its_meaning() -> None:
    """Only the meaning is promised: how the text is spaced and escaped is the library's own."""
    (call,) = read((0, "a", W, TEXT_OF_OBJECT)).completion().tool_calls
    assert json.loads(call.arguments) == TEXT_OF_OBJECT


def test_a_call_is_not_complete_because_its_arguments_parse() -> None:
    """Every prefix here that parses is the beginning of something longer."""
    parser = read((0, "a", W, "1"), (0, ..., ..., "2"), (0, ..., ..., " "), (0, ..., ..., "34"))
    assert calls(parser.completion()) == [("a", W, "12 34")]


# Several objects in one call


SEVERAL: list[tuple[set[str], list[list[Any]]]] = [
    # The rules that are noted, and the pieces of arguments.
    ({"CF312"}, [[ONE, TWO], [ONE, " \n", OPEN, "2}"], [ONE + TWO + THREE], [ONE, OPEN]]),
    ({"CF310", "CF312"}, [[{"n": 1}, {"n": 2}]]),
    # A placeholder, and blanks around it.
    ({"CF311"}, [["{}", ONE], ["{}", "\n", ONE], [" {", "}", " ", " ", ONE], ["{}", *[" "] * 90, ONE]]),
    ({"CF311", "CF312"}, [["{}", ONE, TWO]]),
    # Only blanks follow, or more than are looked at, or something else before it.
    (set(), [[ONE, " \n"], ["{}", "\n"], ["{}", *[" "] * 200, ONE], ["{}", "x", ONE]]),
    # Braces in a text, no object, no JSON, too deep to tell, too long to be looked at.
    (set(), [['{"n":"}{"}'], ["[{}", "{}]"], ['{"n":}{}'], ['{"n":' + "[" * 100_000 + "}{"]]),
    (set(), [['{"n":"' + "a" * 2**20 + '"}', TWO]]),
]


@each_case(("rules", "pieces"), [(rules, pieces) for rules, cases in SEVERAL for pieces in cases])
def test_several_objects_in_one_call_are_noted(rules: set[str], pieces: list[Any]) -> None:
    """CF312: the text stays, and does not parse."""
    first, *more = pieces
    parser = read((0, "a", W, first), *((0, ..., ..., piece) for piece in more))
    (call,) = parser.completion().tool_calls
    assert call.arguments == "".join(
        one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in pieces
    )
    assert noted(parser) == rules
    if "CF312" in rules:
        with pytest.raises(ParseError, match=r"expected nothing more|ends too early|expected JSON"):
            call.function.parse()


@each_case(
    ("text", "value"),
    [
        (ONE * 2, {"n": 1}),
        ("{}" + ONE * 2, {"n": 1}),
        ("{}{}", {}),
        ('{"n":{}}' * 2, {"n": {}}),
        (" " + ONE * 2, {"n": 1}),
        (ONE * 3, {"n": 1}),
        (ONE * 4, {"n": 1}),
        (ONE + " \n" + ONE + " ", {"n": 1}),
        (ONE + '{ "n" : 1 }', {"n": 1}),
        ('{"a":1,"b":{}}{"b":{},"a":1}', {"a": 1, "b": {}}),
        ('{"a":"\\u00e9"}{"a":"é"}', {"a": "é"}),
    ],
)
def test_the_same_object_repeated_counts_once(text: str, value: Any) -> None:
    """Some servers send all of the arguments again, some with each fragment, some written in another way."""
    parser = read((0, "a", W, text))
    message = parser.completion().message
    (call,) = message.tool_calls
    assert call.arguments == text
    assert call.function.parse() == value
    assert json.loads(message.to_param()["tool_calls"][0]["function"]["arguments"]) == value
    assert ("CF312" in noted(parser)) is (text != "{}{}")


@each_case(
    "text",
    [
        *(ONE + TWO, ONE * 2 + TWO, ONE * 2 + '{"n":', ONE * 2 + "x", "[1][1]", "1" + ONE * 2, '{"n":}' * 2),
        *('{"n":true}{"n":1}', '{"n":1}{"n":1.0}', '{"n":1}{"n":"1"}', '{"n":' * 5000 + "1" + "}" * 5000 + ONE),
    ],
)
def test_other_repeats_do_not_parse(text: str) -> None:
    (call,) = read((0, "a", W, text)).completion().tool_calls
    with pytest.raises(ParseError):
        call.function.parse()


def test_a_custom_tools_input_is_always_whole() -> None:
    """It may be several objects, too."""
    sent = {"a": ONE + TWO, "b": "y", "c": "{}" + ONE}
    parser = read(*(custom(index=i, id=id_, name="f", input=text) for i, (id_, text) in enumerate(sent.items())))
    assert [call.custom.input for call in parser.completion().tool_calls] == [*sent.values()]
    assert noted(parser) == set()


def test_arguments_that_are_long_are_not_judged() -> None:
    parser = read((0, "a", W, "[" + "[]," * 2**19), (1, ..., ..., "1]"))
    assert [call.arguments for call in parser.completion().tool_calls][1:] == ["1]"]
