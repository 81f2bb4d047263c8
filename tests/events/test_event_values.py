"""Events are values: frozen, equal where they say the same, and their consumer's own."""

import dataclasses
import pickle
from copy import copy, deepcopy
from typing import Any, get_args

from cases import each_case
from event_rows import CITATION, IMAGE, A, calls, events_of, only
from made_streams import STOP, Stream

from chunkfold import (
    AnnotationReceived,
    AnomalyNoted,
    ChatCompletionEvent,
    ChatCompletionParser,
    ImageReceived,
    TextDelta,
    ToolCallDone,
    UsageReceived,
)
from chunkfold.testing import DONE, choice, chunk, delta, fragment

EVERYTHING = [
    delta(content="a", reasoning="b", refusal="c", audio={"data": "QUI=", "transcript": "A"}, images=[IMAGE]),
    delta(annotations=[CITATION], tool_calls=[fragment(*A)], role=""),
    delta("tool_calls"),
    chunk(usage={"prompt_tokens": 1}),
    DONE,
]
ONE_OF_EACH = {type(one): one for one in events_of(*EVERYTHING)}
each = each_case("one", ONE_OF_EACH.values(), ids=lambda one: type(one).__name__)


def test_the_union_has_every_event() -> None:
    assert ONE_OF_EACH.keys() == set(get_args(ChatCompletionEvent))


def test_every_event_names_its_choice() -> None:
    events = events_of(*(one.replace(b'"index":0,"delta"', b'"index":3,"delta"') for one in EVERYTHING))
    told = {type(one): one.choice for one in events if not isinstance(one, UsageReceived | AnomalyNoted)}
    assert told == dict.fromkeys(ONE_OF_EACH.keys() - {UsageReceived, AnomalyNoted}, 3)


@each
def test_events_of_equal_streams_are_equal(one: Any) -> None:
    again = next(other for other in events_of(*EVERYTHING) if type(other) is type(one))
    assert one == again
    assert [other for other in ONE_OF_EACH.values() if other == one] == [one]
    assert repr(one) == repr(again)
    assert hash(one) == hash(again)


def test_events_with_another_value_are_not_equal() -> None:
    first, second, *_ = events_of(delta(content="a"), delta(content="a", index=1), delta(content="b"))
    assert first != second
    a, b = (events_of(delta(content=text))[0] for text in ("a", "b"))
    assert a != b
    # The same piece of another text is an equal event: what it adds up to is not its value.
    _, second = events_of(delta(content="x"), delta(content="a"))
    assert a == second
    assert hash(a) == hash(second)


def test_the_repr_shows_what_an_event_tells() -> None:
    first, *_ = events_of(delta(content="a"))
    assert repr(first) == "TextDelta(choice=0, delta='a')"
    assert [repr(one) for one in events_of(calls((0, "a", "f", "{")))] == [
        "ToolCallStarted(choice=0, position=0, id='a', name='f', type='function')",
        "ToolCallArgumentsDelta(choice=0, position=0, delta='{')",
    ]
    assert [repr(one) for one in events_of(STOP, DONE)] == [
        "ChoiceFinished(choice=0, finish_reason='stop', outcome=<Outcome.STOP: 'stop'>)"
    ]


@each
def test_events_can_be_copied_and_pickled(one: Any) -> None:
    for made in (copy(one), deepcopy(one), pickle.loads(pickle.dumps(one)), dataclasses.replace(one)):  # noqa: S301 - our own
        assert type(made) is type(one)
        assert repr(made) == repr(one)
        assert isinstance(one, ToolCallDone) or made == one


def test_a_delta_that_was_made_by_hand_or_pickled_knows_its_own_piece() -> None:
    *_, last = events_of(delta(content="a"), delta(content="b"))
    assert TextDelta(0, "b") == last
    assert (copy(last).snapshot, deepcopy(last).snapshot) == ("ab", "ab")
    for made in (TextDelta(0, "b"), pickle.loads(pickle.dumps(last)), dataclasses.replace(last)):  # noqa: S301 - our own
        assert made.snapshot == "b"


# Was once wrong: the recorder compares with the call that it handed out, so one that was changed by its consumer is done again.
def test_what_a_consumer_does_to_an_event_changes_nothing_else() -> None:
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(b"".join(EVERYTHING[:-1]))
    for one in parser.events():
        match one:
            case ImageReceived(image=image):
                image.clear()
            case AnnotationReceived(annotation=annotation):
                annotation.type = "mine"
                annotation.url_citation.url = "mine"
            case UsageReceived(usage=counts):
                counts.prompt_tokens = 99
            case ToolCallDone(call=call, parsed=parsed):
                call.id = "mine"
                call.function.arguments = "mine"
                parsed.clear()
    parser.feed(DONE)
    assert parser.events() == []
    completion = parser.completion()
    assert completion == Stream(EVERYTHING).read()[0].completion()
    message = completion.message
    assert message.images == [IMAGE]
    assert [one.model_dump(exclude_unset=True) for one in message.annotations or ()] == [CITATION]


def test_any_of_2_000_snapshots() -> None:
    texts = chunk(*[choice(content="ab")] * 100) * 20
    deltas: list[Any] = only(TextDelta, events_of(texts))
    assert [len(deltas[place].snapshot) for place in (0, 999, 1_999)] == [2, 2_000, 4_000]
