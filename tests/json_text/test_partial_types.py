"""What is shown of JSON that is still being written, read as a type: tables of types, and of the fields of a model."""

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, NotRequired, Required, Self, TypeVar

import pytest
from cases import each_case
from json_beginnings import fed, partial
from json_types import Cat, City, CityDict, Dog, Everything, Sum
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
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from chunkfold import ChatCompletionMessage, Function, ParseError, PartialJSON

AS_WRITTEN = [
    # What fits, or may still fit, is shown as it is without a type.
    *('"name": "Li', '"name": "Li"', '"count": 5,', '"ratio": 1,', '"is_open": true', '"maybe": null', '"maybe": "so'),
    *('"colour": "red"', '"word": "yes"', '"day": "2024-01-01"', '"otherName": "z'),  # an enumeration, words, an alias
    *('"short": "abc', '"short": "abcd"', '"letters": "ab"', '"small": 5,'),  # a length, a pattern, a limit
    *('"inner": {', '"inner": {"y": "z', '"items": [', '"numbers": [1, 2', '"pair": [1', '"pair": [1, "z'),
    *('"mixed": "z', '"mixed": 5,', '"mixed": {"y": "z'),  # a union
    *('"pet": {"kind": "dog"', '"pet": {"kind": "dog", "name": "z', '"pet": {"name": "z'),  # a discriminated one
    '"animal": {"kind": "cat", "lives": 7,',
]
HIDDEN = [
    # What does not fit.
    *('"name": 5,', '"name": null', '"count": 5.5,', '"count": "5', '"is_open": "perhaps"', '"day": "some day"'),
    *('"colour": "blue"', '"word": "no"', '"otherName": 5,', '"inner": [', '"items": {"x"', '"mixed": ['),
    *('"short": "abcde', '"short": "abcde"', '"letters": "AB"', '"small": 50,', '"unheard_of": "z"'),
    # What may become something else.
    *('"count": 5', '"is_open": tru', '"maybe": nul', '"colour": "red', '"word": "yes', '"day": "2024-01-01'),
    '"letters": "ab',
]
FIELDS = [
    pytest.param('"count": "x", "name": "Li', {"name": "Li"}, id="something wrong before something right"),
    pytest.param('"name": "Li", "count": "x", "ratio": 1', {"name": "Li"}, id="and after it"),
    pytest.param('"inner": {"x": "z", "y": "z', {"inner": {"y": "z"}}, id="a model with a wrong field"),
    pytest.param('"items": [{"x": 1}, {"x": "z"}, {"y": "z', {"items": [{"x": 1}, {}, {"y": "z"}]}, id="its models"),
    pytest.param('"items": [{"x": 1}, "z", {"x": 2},', {"items": [{"x": 1}, {"x": 2}]}, id="what is no model of it"),
    pytest.param('"items": [5, "z", {"x": 2}, 6, 7,', {"items": [{"x": 2}]}, id="more that is no model"),
    pytest.param('"table": {"a": {"x": 1}, "b": {"x"', {"table": {"a": {"x": 1}, "b": {}}}, id="a table"),
    pytest.param('"table": {"a": 5, "b": {"x": 1}', {"table": {"b": {"x": 1}}}, id="what is wrong in a table"),
    pytest.param('"numbers": [1, "z", 2, "z", 3,', {"numbers": [1, 2, 3]}, id="what is wrong among numbers"),
    pytest.param('"pet": {"kind": "dog', {"pet": {}}, id="half a discriminator"),
    pytest.param('"pet": {"kind": "cow"', {"pet": {}}, id="none that it discriminates"),
    pytest.param('"pet": {"kind": "dog", "born": "20', {"pet": {"kind": "dog"}}, id="an open date in a discriminated union"),
    pytest.param('"pet": {"kind": "cat", "lives": "z"', {"pet": {"kind": "cat"}}, id="what is wrong in it"),
    pytest.param('"animal": {"kind": "dog", "born": "20', {"animal": {"kind": "dog"}}, id="an open date in a plain union"),
    pytest.param('"mixed": {"x": "z", "y": "z', {"mixed": {"y": "z"}}, id="a wrong field in a model of a union"),
    *((fields, partial("{" + fields)) for fields in AS_WRITTEN),
    *((fields, {}) for fields in HIDDEN),
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


def model(config: ConfigDict | None = None, **fields: Any) -> type[BaseModel]:
    """A model of these fields, each a type and a default."""
    return create_model("Made", __config__=config, **fields)


Strict = model(ConfigDict(strict=True), count=(int, 0), day=(dt.date | None, None))
StrictRatio = model(ConfigDict(strict=True), count=(float, 0))
Initials = model(ConfigDict(str_max_length=2), name=(str, ""))
Nickname = model(ConfigDict(str_max_length=4), name=(str, ""))
Closed = model(ConfigDict(extra="forbid"), a=(str, ""))
Open = model(ConfigDict(extra="allow"), a=(str, ""))
Renamed = model(ConfigDict(loc_by_alias=False), a=(int, Field(0, alias="A")), b=(str, ""))
EitherName = model(a=(int, Field(0, validation_alias=AliasChoices("x", "y"))), b=(str, ""))
ByBothNames = model(ConfigDict(alias_generator=to_camel, populate_by_name=True), my_name=(str, ""))
Swapped = model(
    ConfigDict(populate_by_name=True), a=(int, Field(0, validation_alias="b")), b=(str, Field("", validation_alias="a"))
)
ByPath = model(x=(int, Field(0, validation_alias=AliasPath("point", 0))))
Coercing = model(ConfigDict(coerce_numbers_to_str=True), name=(str, ""))
Sized = model(name=(Annotated[str, Field(min_length=3)], ...))
Numbers = RootModel[list[int]]


class AliasedDict(TypedDict):
    a: Annotated[int, Field(alias="A")]
    b: str


class Tree(BaseModel):
    n: int = 0
    children: list["Tree"] = []


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


@dataclass
class CityData:
    city: str
    days: int = 1


class CityTuple(NamedTuple):
    city: str
    days: int = 1


TYPED = [
    pytest.param(Page[int], '{"items": [1, "x", 2', {"items": [1]}, id="a generic model"),
    pytest.param(Strict, '{"count": "5", "day": "2024-01-01"', {"day": "2024-01-01"}, id="a strict model"),
    pytest.param(Closed, '{"b": {"c": 1}, "a": "z', {"a": "z"}, id="a key that is forbidden"),
    pytest.param(EitherName, '{"y": "z", "b": "z', {"b": "z"}, id="one of several aliases"),
    pytest.param(Tree, '{"children": [{"n": 1, "children": [{"n": "z"', {"children": [{"n": 1, "children": [{}]}]}, id="a tree"),
    pytest.param(Numbers, '[1, "z", 2, 3', [1, 2], id="a root model of a list"),
    pytest.param(RootModel[dict[str, int]], '{"a": 1, "b": "z", "c": 2}', {"a": 1, "c": 2}, id="a root model of an object"),
    pytest.param(CityDict, '{"city": 5, "days": 2,', {"days": 2}, id="what is wrong in a TypedDict"),
    pytest.param(CityData, '{"city": "Bonn", "days": "z"', {"city": "Bonn"}, id="what is wrong in a dataclass"),
    pytest.param(City | None, '{"city": "Bo', {"city": "Bo"}, id="a model or null"),
    pytest.param(City | None, "null", None, id="a null"),
    pytest.param(dict[int, int], '{"1": 1, "2": "z", "z": 3, "4": 4,', {"1": 1, "4": 4}, id="a dict of numbers by numbers"),
    pytest.param(list[int], '[1, "z", 3,', [1, 3], id="what is wrong in a list"),
    pytest.param(list[list[int]], '[[1, "z"], "z", [2, [3], 4,', [[1], [2, 4]], id="lists in a list"),
    pytest.param(set[int], "[1, 2,", [1, 2], id="a set is a list until it is whole"),
    pytest.param(str, '"Bo', "Bo", id="a string"),
    pytest.param(int, "12 ", 12, id="a number"),
    pytest.param(int, '"z', None, id="a string for a number"),
    pytest.param(dt.date, '"2024-01-0', None, id="a date that may go on"),
    pytest.param(Owner, '{"pet": {"kind": "dog", "born": "20', {"pet": {"kind": "dog"}}, id="a discriminator that is called"),
    pytest.param(Shouting, '{"city": "BONN', {}, id="a validator that more text may break"),
    pytest.param(Shouting, '{"city": "BONN",', {"city": "BONN"}, id="and that holds"),
    pytest.param(Range, '{"high": 2, "low": 1, "name": "z', {"high": 2, "low": 1, "name": "z"}, id="fields that belong together"),
    pytest.param(dict[Annotated[str, Field(min_length=3)], int], '{"a": 1, "abc": 2,', {"abc": 2}, id="keys of a length"),
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
    pytest.param(Swapped, '{"b": 1, "a": "z', {"b": 1, "a": "z"}, id="aliases that are names of other fields"),
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
    pytest.param(Mapping[str, Sequence[int]], '{"a": [1, "z", 2,', {"a": [1, 2]}, id="abstract types"),
    pytest.param(list, '[1, {"a": "z', [1, {"a": "z"}], id="a bare list"),
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


@pytest.mark.parametrize(
    ("as_type", "known"),
    [
        *((as_type, {}) for as_type in (City, CityDict, CityData, dict)),
        *((as_type, None) for as_type in (None, City | None, list[City], str, int, Any)),
    ],
)
def test_what_has_fields_is_a_dict_from_the_start_and_of_anything_else_nothing_is_known(
    as_type: Any, known: Any
) -> None:
    live = PartialJSON(as_type)
    assert [live.value, *map(live.feed, ["", " "])] == [known] * 3
    assert known is None or live.feed("{") == {}
    assert ChatCompletionMessage(content=None).parse_partial(as_type) == known


def test_what_pydantic_cannot_validate_is_a_wrong_argument() -> None:
    for use in (PartialJSON, ChatCompletionMessage(content="{}").parse_partial, Function().parse_partial):
        with pytest.raises(TypeError, match="expected a type that pydantic can validate, received <object object"):
            use(object())
