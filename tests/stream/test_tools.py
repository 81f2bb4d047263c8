"""The registry of tools: what the arguments of each tool are, said once, and used wherever arguments are parsed."""

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from cases import each_case
from copies import pickled
from event_rows import only
from fronts import over_both_streams
from made_streams import custom
from parsed_bodies import parsed
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionAccumulator,
    ChatCompletionParser,
    ChatCompletionStream,
    IncompleteStreamError,
    ParseError,
    PartialJSON,
    ToolCallDone,
)
from chunkfold.testing import DONE, FakeResponse, StreamBuilder, delta, fragment, fragments
from chunkfold.testing.playback import Playback
from chunkfold.testing.wire import compact_json

pytest_generate_tests = over_both_streams


class WeatherArgs(BaseModel):
    city: str
    days: int = 1


class Stop(TypedDict):
    city: str
    days: int


@dataclass
class Route:
    start: str
    stops: list[Stop]


class Nothing(BaseModel):
    verbose: bool = False


class Circle(BaseModel):
    kind: Literal["circle"]
    r: float


class Square(BaseModel):
    kind: Literal["square"]
    a: float


Shape = Annotated[Circle | Square, Field(discriminator="kind")]
TOOLS = {"lookup_weather": WeatherArgs}
BONN = '{"city": "Bonn", "days": 3}'
BONN_ARGS, BONN_DICT = WeatherArgs(city="Bonn", days=3), {"city": "Bonn", "days": 3}


def answer(*calls: Sequence[str], finish: str = "tool_calls") -> StreamBuilder:
    """A stream with these calls, each a name and its arguments in pieces."""
    stream = StreamBuilder()
    for name, *pieces in calls:
        stream = stream.tool_call(name, *pieces)
    return stream.finish(finish).done()


WHOLE = answer(("lookup_weather", '{"city": "Bo', 'nn", "days": 3}'), ("other", BONN))


@pytest.mark.parametrize("tools", [TOOLS, None, {}], ids=["registered", "none", "empty"])
async def test_a_registered_type_is_what_arguments_are_and_a_dict_where_none_is(front: Any, tools: Any) -> None:
    async with front(Playback(WHOLE.answer()), tools=tools) as stream:
        events = [one async for one in stream.events()]
    completion = stream.completion()
    expected = [BONN_ARGS if tools else BONN_DICT, BONN_DICT]
    assert [one.parsed for one in only(ToolCallDone, events)] == expected
    assert [one.call.function.parse() for one in only(ToolCallDone, events)] == expected
    assert [one.function.parse() for one in completion.tool_calls] == expected
    assert [one.function.parse_partial() for one in completion.tool_calls] == expected


class Undefined(BaseModel):
    field: "NotDefinedAnywhere"  # noqa: F821 - that is the point


def run_a_tool(arguments: Any) -> Any:
    raise AssertionError(arguments)  # pydantic would call it


UNUSABLE = [
    pytest.param(5, "5", id="a number"),
    pytest.param(run_a_tool, "run_a_tool", id="a function"),
    pytest.param(len, "len", id="a built-in function"),
    pytest.param([WeatherArgs], "WeatherArgs", id="a list of a type"),
    pytest.param(WeatherArgs(city="Bonn"), "Bonn", id="a value of a type"),
    pytest.param({"type": "object", "properties": {}}, "properties", id="a JSON schema"),
    pytest.param("WeatherArgument", "WeatherArgument", id="a name that is not known"),
    pytest.param(list["WeatherArgument"], "WeatherArgument", id="a list of what is not known"),  # noqa: F821
    pytest.param(Undefined, "Undefined", id="a model of what is not known"),
]


@each_case(("as_type", "name"), UNUSABLE)
def test_it_is_named(as_type: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^tools\['lookup_weather'\]: .*{name}") as raised:
        ChatCompletionParser(tools={"lookup_weather": as_type})
    assert raised.value.__suppress_context__  # which would say the same twice
    for stream in (ChatCompletionStream, AsyncChatCompletionStream):
        with pytest.raises(TypeError, match=name):
            stream(FakeResponse(b""), tools={"lookup_weather": as_type})
    with pytest.raises(TypeError, match=name):
        PartialJSON(as_type)


@pytest.mark.parametrize("tools", [[WeatherArgs], WeatherArgs, "lookup_weather", {WeatherArgs: WeatherArgs}, False, []])
def test_types_without_names_are_a_wrong_argument(tools: Any) -> None:
    with pytest.raises(TypeError, match=r"^tools: expected types by the tools' names, received "):
        ChatCompletionParser(tools=tools)


@pytest.mark.parametrize("late", [False, True], ids=["before the events", "after the events"])
def test_the_mapping_is_copied(late: bool) -> None:
    tools: dict[str, Any] = dict(TOOLS)
    parser = ChatCompletionParser(tools=tools)
    if late:
        parser.events()
    tools.clear()
    tools["other"] = WeatherArgs
    parser.feed(WHOLE.body)
    assert [type(one.parsed) for one in only(ToolCallDone, parser.events())] == [WeatherArgs, dict]
    assert [type(one.function.parse()) for one in parser.completion().tool_calls] == [WeatherArgs, dict]
    assert tools == {"other": WeatherArgs}


TYPES = [
    pytest.param(WeatherArgs, BONN, BONN_ARGS, id="a model"),
    pytest.param(Stop, BONN, BONN_DICT, id="a TypedDict"),
    pytest.param(list[int], "[1, 2]", [1, 2], id="a list, which some models send"),
    pytest.param(Nothing, "", Nothing(), id="no arguments"),
    pytest.param(WeatherArgs, "{}" + BONN, BONN_ARGS, id="a placeholder"),
    pytest.param(None, BONN, BONN_DICT, id="none"),
]


@each_case(("as_type", "arguments", "value"), TYPES)
def test_what_a_type_may_be(as_type: Any, arguments: str, value: Any) -> None:
    parser = parsed(answer(("tool", arguments)).body, tools={"tool": as_type})
    (last,) = only(ToolCallDone, parser.events())
    (one,) = parser.completion().tool_calls
    assert (last.parsed, last.error) == (value, None)
    assert last.call == one
    assert one.function.parse() == one.function.parse_partial() == value
    assert type(one.function.parse()) is type(value)
    assert one.function.arguments == arguments  # the raw text stays


@pytest.mark.parametrize("as_type", [WeatherArgs, Stop])
def test_what_is_known_while_the_arguments_come(as_type: Any) -> None:
    """In snapshots, with the type and without asking for it; only what fits it."""
    parser = ChatCompletionParser(tools={"tool": as_type})
    seen = []
    role, *calls = StreamBuilder().tool_call("tool", '{"ci', 'ty": "Bo', 'nn", "other', '": "', 'x", "days": 3', "}")
    parser.feed(role)
    for data in calls:
        parser.feed(data)
        function = parser.snapshot.tool_calls[0].function
        seen.append((function.parse_partial(), function.parse_partial(half_numbers=True)))
    bonn, whole = {"city": "Bonn"}, as_type(city="Bonn", days=3)
    assert seen == [*[({}, {})] * 2, ({"city": "Bo"},) * 2, *[(bonn, bonn)] * 2, (bonn, BONN_DICT), (whole, whole)]
    with pytest.raises(IncompleteStreamError) as caught:
        parser.completion()
    assert caught.value.snapshot.tool_calls[0].function.parse() == whole


IN_PIECES = [fragment(0, "a", "lookup_"), fragment(0, name="weather"), fragment(0, arguments=BONN)]
FUNCTION = {"name": "lookup_weather", "arguments": BONN}
WHOLE_MESSAGE = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION}]}
SECOND_CHOICE = StreamBuilder().text("a").tool_call("lookup_weather", BONN, choice=1).finish().finish(choice=1).done()
VALUES: dict[str, tuple[Iterable[bytes], list[Any]]] = {  # what the arguments of each call are, choice by choice
    "by its name alone": (
        answer(
            *(("lookup_weather", BONN), ("route", '{"start": "Ulm", "stops": []}')),
            *(("Lookup_Weather", BONN), ("lookup_weather", BONN), ("", BONN)),
        ),
        [BONN_ARGS, Route("Ulm", []), BONN_DICT, BONN_ARGS, BONN_DICT],
    ),
    "a name in pieces": ([fragments(*IN_PIECES), delta("tool_calls"), DONE], [BONN_ARGS]),
    "another choice": (SECOND_CHOICE, [BONN_ARGS]),
    "a whole completion, as some gateways answer": (
        [compact_json({"object": "chat.completion", "choices": [{"message": WHOLE_MESSAGE, "finish_reason": "stop"}]})],
        [BONN_ARGS],
    ),
    "a custom tool has text": (
        [delta("tool_calls", tool_calls=[custom(0, "a", "lookup_weather", BONN)]), DONE],
        [BONN],
    ),
}


@pytest.mark.parametrize("make", [dict, MappingProxyType])
@each_case("name", VALUES)
def test_each_call_has_the_type_of_its_name(name: str, make: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    body, values = VALUES[name]
    parser = parsed(b"".join(body), tools=make({**TOOLS, "route": Route}))
    assert [(one.parsed, one.error) for one in only(ToolCallDone, parser.events())] == [
        (value, None) for value in values
    ]
    calls = [call for choice in parser.completion().choices for call in choice.message.tool_calls]
    assert [call.custom.input if call.type == "custom" else call.function.parse() for call in calls] == values


def test_an_accumulator_alone() -> None:
    accumulator = ChatCompletionAccumulator(tools=TOOLS)
    parser = ChatCompletionParser()
    for chunk in parser.feed(WHOLE.body):
        accumulator.add(chunk)
    kinds = [type(one.function.parse()) for one in accumulator.snapshot.tool_calls]
    assert kinds == [WeatherArgs, dict]
    assert type(parser.completion().tool_calls[0].function.parse()) is dict


def test_a_type_that_is_asked_for_wins() -> None:
    function = parsed(WHOLE.body, tools=TOOLS).completion().tool_calls[0].function
    assert function.parse(Stop) == function.parse(dict) == BONN_DICT
    assert function.parse_partial(Stop) == function.parse_partial(dict[str, Any]) == BONN_DICT
    assert function.parse() == function.parse(None) == BONN_ARGS
    with pytest.raises(ParseError) as caught:
        function.parse(Circle)
    assert caught.value.path == ("kind",)
    # Also where the arguments do not fit the registered one.
    function = (
        parsed(answer(("lookup_weather", '{"town": "Bonn"}')).body, tools=TOOLS).completion().tool_calls[0].function
    )
    with pytest.raises(ParseError):
        function.parse()
    assert function.parse(dict[str, str]) == {"town": "Bonn"}
    assert function.parse_partial(dict[str, str]) == {"town": "Bonn"}


class Broken(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def fail(cls, value: str) -> str:
        raise KeyError(value)


class Unprintable(Broken):
    @field_validator("city")
    @classmethod
    def fail(cls, value: str) -> str:
        raise KeyError(10**5000)  # more digits than the interpreter prints


WRONG = [
    pytest.param('{"city": 5}', "tool_calls", ("city",), False, id="a field of another type"),
    pytest.param("", "tool_calls", ("city",), False, id="no arguments"),
    pytest.param("city=Bonn", "tool_calls", (), False, id="no JSON"),
    pytest.param(BONN[:12], "length", (), True, id="cut by a token limit"),
    pytest.param(BONN[:12], "tool_calls", (), True, id="cut without a word"),
]


@each_case(("arguments", "finish", "path", "cut"), WRONG)
def test_wrong_arguments(arguments: str, finish: str, path: tuple[str, ...], cut: bool) -> None:
    parser = parsed(answer(("lookup_weather", arguments), ("other", BONN), finish=finish).body, tools=TOOLS)
    wrong, right = sorted(only(ToolCallDone, parser.events()), key=lambda one: one.position)
    assert wrong.parsed is None
    assert isinstance(wrong.error, ParseError)
    assert (wrong.error.path, wrong.error.cut) == (path, cut)
    assert (right.parsed, right.error) == (BONN_DICT, None)
    function = parser.completion().tool_calls[0].function
    with pytest.raises(ParseError) as caught:
        function.parse()
    assert (caught.value.path, caught.value.cut, caught.value.text) == (path, cut, wrong.error.text)
    assert (caught.value.position is None) == (wrong.error.position is None)
    assert function.arguments == arguments


@each_case("broken", [Broken, Unprintable])
def test_a_type_whose_validator_fails(broken: type[BaseModel]) -> None:
    (last,) = only(
        ToolCallDone, parsed(answer(("lookup_weather", BONN)).body, tools={"lookup_weather": broken}).events()
    )
    assert last.parsed is None
    assert isinstance(last.error, ParseError)
    assert (last.error.text, last.error.cut, last.error.path) == (BONN, False, ())
    assert isinstance(last.error.__cause__, KeyError)


def test_copies_know_their_types() -> None:
    completion = parsed(WHOLE.body, tools=TOOLS).completion()
    copies = [copy.copy(completion), copy.deepcopy(completion), completion.model_copy(deep=True), pickled(completion)]
    for other in copies:
        assert other == completion
        assert other.tool_calls[0].function.parse() == BONN_ARGS


@pytest.mark.parametrize("as_type", [dict[str, Any], Shape, WeatherArgs | None])
def test_a_type_that_cannot_be_found_again_is_left_behind(as_type: Any) -> None:
    """Pickles hold types by their names."""

    class Local(BaseModel):
        city: str

    for tools in ({"lookup_weather": as_type}, {"lookup_weather": Local}):
        completion = parsed(WHOLE.body, tools=tools).completion()
        other = pickled(completion)
        assert other == completion
        assert other.tool_calls[0].function.parse() == BONN_DICT


def test_a_dump_has_nothing_of_the_types() -> None:
    typed, untyped = parsed(WHOLE.body, tools=TOOLS).completion(), parsed(WHOLE.body).completion()
    assert typed.model_dump() == untyped.model_dump()
    assert json.loads(typed.model_dump_json(warnings="error")) == untyped.model_dump(mode="json")
    assert typed.message.to_param() == untyped.message.to_param()
    assert repr(typed) == repr(untyped)
