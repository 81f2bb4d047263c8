"""`parse` and `parse_partial` of messages and tool calls: their values, what does not fit, and whether the text was cut."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, Optional

import pytest
from cases import each_case
from hypothesis import given
from json_beginnings import NEAR_JSON, answer, can_become_json, is_json, refused
from json_types import City, Everything, Trip
from parsed_bodies import parsed
from pydantic import BaseModel, Field, ValidationError

from chunkfold import ChatCompletionMessage, ChatCompletionParser, Function, ParseError
from chunkfold.testing import delta

# `parse_partial`


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


PARTIAL_ARGUMENTS = [
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


@each_case(("arguments", "as_type", "value"), PARTIAL_ARGUMENTS)
def test_what_is_known_of_arguments(arguments: str, as_type: Any, value: Any) -> None:
    function = Function(name="f", arguments=arguments)
    assert function.parse_partial(as_type) == value
    assert function.arguments == arguments


@each_case("arguments", ["nope", "{'a'", '{"a": 1,}', "{}[1", "{}1"])
@each_case("as_type", [None, City])
def test_arguments_that_can_never_become_json_raise_too(arguments: str, as_type: Any) -> None:
    error = refused(lambda: Function(arguments=arguments).parse_partial(as_type))
    assert (error.text, error.cut) == (arguments, False)


def test_blanks_at_the_end_of_an_open_string_belong_to_it() -> None:
    assert Function(arguments='{"city": "New ').parse_partial() == {"city": "New "}
    with pytest.raises(ParseError):
        Function(arguments='{"city": "New\n').parse_partial()


def test_content_of_a_wrong_type_is_no_text() -> None:
    assert parsed(delta("stop", content=5)).snapshot.message.parse_partial() is None


# `parse`


def test_the_error_of_arguments_has_the_raw_text() -> None:
    function = Function(name="f", arguments=' {"a": 1,}')
    error = refused(function.parse)
    assert (error.text, error.position) == (function.arguments, function.arguments.index("}"))


DOCUMENT = '{"a": [1, -2.5e+3, true, false, null], "b\\"": {"c": "x\\u00e9\\n\U0001f600"}, "d": []}'


@each_case("end", range(1, len(DOCUMENT)))
def test_every_beginning_is_cut(end: int) -> None:
    """A token limit cuts anywhere; the text is never repaired silently."""
    error = refused(ChatCompletionMessage(content=DOCUMENT[:end]).parse)
    assert (error.cut, error.text) == (True, DOCUMENT[:end])
    assert f"whole JSON, received text that ends too early at character {error.position}: " in str(error)
    assert refused(lambda: Function(arguments=DOCUMENT[:end]).parse(City)).cut


@each_case(
    ("parse", "said"),
    [
        (ChatCompletionMessage(content="1" * 5_000).parse, "expected JSON, received what cannot be read: '111"),
        (ChatCompletionMessage(refusal="No.").parse, "received a refusal"),
        *((ChatCompletionMessage(content=text).parse, "expected JSON, received no text") for text in (None, " ")),
        *((Function(arguments=text).parse, "expected") for text in ("[1]", "false", '"a {}"')),
    ],
)
def test_what_is_not_cut_says_what_is_wrong(parse: Callable[[], object], said: str) -> None:
    error = refused(parse)
    assert said in str(error)
    assert (error.cut, error.position) == (False, None)


def test_a_refusal_beside_content_is_no_matter() -> None:
    assert ChatCompletionMessage(content="[1]", refusal="No.").parse() == [1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\x1b[31m" * 20_000, id="control characters"),
        pytest.param('{"a": "' + "\u202e" * 20_000, id="cut"),
        pytest.param('{"city": ["' + "x" * 20_000 + '"]}', id="another type"),
        pytest.param("[" * 20_000, id="deep"),
        pytest.param('{"city": ' + "1" * 5_000 + "}", id="more digits than the interpreter reads"),
    ],
)
def test_a_message_is_bounded_and_escaped(text: str) -> None:
    error = refused(lambda: ChatCompletionMessage(content=text).parse(City))
    assert len(str(error)) < 1_000
    assert str(error).isprintable()
    assert error.text == text


# Which part of the value does not fit, and whether the text was cut


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
        error = refused(partial(parse, as_type))
        assert (error.text, error.path, error.position, error.cut) == (text, path, None, False)
        assert isinstance(error.__context__, ValidationError)


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


# What it says


class Town(BaseModel):
    name: str


@each_case(
    ("as_type", "text", "said"),
    [
        pytest.param(Town, "[]", "expected Town, received JSON that does not fit: the value: ", id="a model"),
        pytest.param(list[Town], "{}", "expected list[Town], received", id="a list of them"),
        pytest.param(Town | None, "[]", "expected Town | None, received", id="a union"),
        pytest.param(Optional[list[Town]], "1", "expected list[Town] | None, received", id="an optional one"),  # noqa: UP045 - as older code writes it
        pytest.param(Literal["a", "b"], '"c"', "expected 'a' | 'b', received", id="a literal"),
        pytest.param(Annotated[int, Field(gt=1)], "1", "expected int, received", id="an annotated one"),
        pytest.param(tuple[int, ...], "1", "expected tuple[int, ...], received", id="a tuple"),
        pytest.param(dict[str, Any], "[]", "expected dict[str, Any], received", id="a dict"),
        pytest.param(Town, '{"name": 1}', "does not fit: name: Input should be", id="a field"),
        pytest.param(dict[int, str], '{"a": "b"}', "does not fit: a (the key): Input should be", id="a key"),
        pytest.param(list[dict[int, str]], '[{"a b": "c"}]', "does not fit: [0]['a b'] (the key): ", id="a key inside"),
    ],
)
def test_what_was_expected_is_said_in_words(as_type: Any, text: str, said: str) -> None:
    assert said in str(refused(lambda: ChatCompletionMessage(content=text).parse(as_type)))
