"""`stream.partials()`: a value after each delta of the text, and the whole at its end."""

from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from cases import each_case
from fronts import over_both_streams
from json_beginnings import answer
from json_types import City, CityDict
from sources import take

from chunkfold import APIError, ChatCompletionStream, LimitExceededError, ParseError, StreamInterruptedError, TextDelta
from chunkfold.testing import Answer, ManualClock, StreamBuilder, delta, sse
from chunkfold.testing.answers import as_answer
from chunkfold.testing.playback import Playback

pytest_generate_tests = over_both_streams


def opened(front: Any, answer: Answer | StreamBuilder) -> Any:
    return front(Playback(as_answer(answer)))


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
    given, seen = stream.partials(as_type, **options), list[Any]()
    await take(given, seen)
    assert seen == values
    assert stream.completion().message.parse(as_type) == seen[-1]
    assert type(seen[-1]) is type(values[-1])
    assert [value async for value in given] == []


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
    assert [value async for value in opened(front, stream).partials()] == [[], [1, 2], [1, 2]]


async def test_values_come_as_they_arrive(front: Any) -> None:
    clock = ManualClock()
    values = front(Playback(answer(*CITY).answer(pace=1), clock=clock)).partials()
    assert await anext(values) == {"city": "Bo"}
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
    "no text at all": Failure((), City),
    "a value that does not fit": Failure(("[]",), City, seen=1),
}


@each_case("failure", FAILURES.values(), ids=FAILURES)
async def test_text_that_is_not_what_is_asked_for(failure: Failure, front: Any) -> None:
    stream = opened(front, answer(*failure.texts, finish=failure.finish))
    seen: list[Any] = []
    values = stream.partials(failure.as_type)
    with pytest.raises(ParseError) as caught:
        await take(values, seen)
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
        await take(values, more)
    assert more == []


BEGUN = StreamBuilder().text('{"city": "Bo')
INCOMPLETE: dict[str, tuple[Answer | StreamBuilder, type[Exception], list[Any]]] = {
    "interrupted": (BEGUN.answer(ending="reset"), StreamInterruptedError, []),
    "failed behind a whole value": (BEGUN.text('nn"}').error("overloaded", code=503), APIError, [City(city="Bonn")]),
}


@pytest.mark.parametrize(("begun", "kind", "more"), INCOMPLETE.values(), ids=INCOMPLETE)
async def test_a_stream_that_fails_raises_its_own_error(
    begun: Answer | StreamBuilder, kind: type[Exception], more: list[Any], front: Any
) -> None:
    stream = opened(front, begun)
    seen: list[Any] = []
    values = stream.partials(City)
    with pytest.raises(kind) as caught:
        await take(values, seen)
    assert caught.value is stream.error
    assert seen == [{"city": "Bo"}, *more]
    assert [value async for value in values] == []


@each_case("as_one_read", [False, True], ids=["a read each", "one read"])
@each_case("taken", [0, 1, 2, 3, 4])
@each_case("before", ["partials", "events", "chunks"])
async def test_values_go_on_after_others_have_read(front: Any, before: str, taken: int, as_one_read: bool) -> None:
    """After events or other values with the next piece; after chunks with all that has arrived."""
    body = answer(*CITY).body
    stream = front(Playback(Answer(body if as_one_read else [part + b"\n\n" for part in body.split(b"\n\n")[:-1]])))
    if before == "partials":
        for _ in range(taken):
            await anext(stream.partials(City))
    else:
        earlier = stream.events() if before == "events" else stream
        texts = 0
        while texts < taken:
            item = await anext(earlier)
            texts += bool(item.text if before == "chunks" else isinstance(item, TextDelta))
    seen = [value async for value in stream.partials(City)]
    values = [{"city": "Bo"}, *[{"city": "Bonn"}] * 3, *[City(city="Bonn", days=12)] * 2]
    expected = values[max(taken - 1, 0) if before == "chunks" else taken :]
    if before == "chunks" and as_one_read and taken:
        expected = values[-2:]  # it is one piece by then
    assert seen == expected


@each_case("other", ["partials", "events", "text_deltas"])
async def test_values_miss_no_piece_that_others_take_in_between(front: Any, other: str) -> None:
    stream = opened(front, answer('{"days": 1', "2", '3, "city": "B', "onn", '"}'))
    values, others = stream.partials(), getattr(stream, other)()
    assert await anext(values) == {}
    await anext(others)
    assert await anext(values) == {"days": 123, "city": "B"}
    await anext(others)
    assert [value async for value in values] == [{"days": 123, "city": "Bonn"}] * 2


async def test_a_text_that_is_no_json_is_an_error_also_after_others_have_read(front: Any) -> None:
    stream = opened(front, answer("[1", ", x", "]"))
    assert await anext(stream.partials()) == []
    with pytest.raises(ParseError) as caught:
        await take(stream.partials(), [])
    assert (caught.value.text, caught.value.position) == ("[1, x", 4)


async def test_an_unusable_type_is_a_wrong_argument_at_once(front: Any) -> None:
    with pytest.raises(TypeError, match="expected a type that pydantic can validate"):
        opened(front, answer(*CITY)).partials(object())


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
