"""Tool calls: which call a fragment belongs to, and what becomes of its parts.

A fragment is written as it comes: `(index, id, name, arguments)`, where `...` stands for a key that is not sent. Every
table goes over the wire and through the parser, and says which rules of the catalogue (CF3xx) are to be noted: no
tolerance may be silent, and nothing may be noted that was not served.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from linear import assert_linear
from made_up_ids import MADE_UP, shown_id
from shared_data import shared_data

from chunkfold import (
    AnomalyNoted,
    ChatCompletion,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChoiceFinished,
    ParseError,
)
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.testing import DONE, HEAD, delta, event

W = "get_weather"  # most cases call the same tool three times: nothing but identity tells the calls apart
T = "get_time"
ONE, TWO, THREE = '{"n":1}', '{"n":2}', '{"n":3}'
OPEN = '{"n":'


def on_wire(fragment: tuple[Any, Any, Any, Any] | dict[str, Any]) -> dict[str, Any]:
    """A fragment as JSON; a dict is taken as it is."""
    if isinstance(fragment, dict):
        return fragment
    index, id_, name, arguments = fragment
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    keys = {"index": index, "id": id_, "function": function or ...}
    return {key: value for key, value in keys.items() if value is not ...}


def feed(*deltas: Any) -> ChatCompletionParser:
    """A parser that still runs; each delta is one fragment, or a list of several."""
    parser = ChatCompletionParser()
    for several in deltas:
        parser.feed(delta(tool_calls=[on_wire(one) for one in (several if isinstance(several, list) else [several])]))
    return parser


def read(*deltas: Any, finish_reason: str = "tool_calls") -> ChatCompletionParser:
    """A parser whose stream ended well."""
    parser = feed(*deltas)
    parser.feed(delta(finish_reason) + DONE)
    parser.raise_error()
    return parser


def calls(completion: ChatCompletion) -> list[tuple[str | None, str, str]]:
    """Each call's id, name and arguments; an id that was made up is shown as such."""
    return [(shown_id(call.id), call.name, call.arguments) for call in completion.tool_calls]


def noted(parser: ChatCompletionParser) -> set[str]:
    return {anomaly.rule.id for anomaly in parser.anomalies if anomaly.rule.id.startswith("CF3")}


def check(deltas: list[Any], expected: list[tuple[str | None, str, str]], rules: set[str]) -> None:
    parser = read(*deltas)
    assert calls(parser.completion()) == expected
    assert noted(parser) == rules


# The rules, one by one

PLAIN = [("a", W, ONE), ("b", W, TWO), ("c", W, THREE)]
BARE = [(MADE_UP, W, ONE), (MADE_UP, W, TWO), (MADE_UP, W, THREE)]

RULE_1 = {
    "a known id is that call, however the fragments are interleaved":
        ([*((..., "a", W, ""), (..., "b", W, ""), (..., "c", W, "")),
         *((..., "c", ..., OPEN), (..., "a", ..., OPEN), (..., "b", ..., OPEN)),
         *((..., "b", ..., "2}"), (..., "c", ..., "3}"), (..., "a", ..., "1}"))], PLAIN, {"CF301"}),
    "the index beside a known id is bound to its call":
        ([*((..., "a", W, ""), (..., "b", W, ""), (..., "c", W, "")),
         *((5, "a", ..., OPEN), (6, "b", ..., OPEN), (7, "c", ..., OPEN)),
         *((7, ..., ..., "3}"), (5, ..., ..., "1}"), (6, ..., ..., "2}"))], PLAIN, {"CF301"}),
    "also one that came late": ([(0, ..., W, ""), (0, "a", ..., OPEN), (..., "a", ..., "1}")], PLAIN[:1], {"CF301"}),
    "another index without a name is a second index of the same call":
        ([*((0, "a", W, OPEN), (1, "b", W, OPEN), (2, "c", W, OPEN)),
         *((9, "b", ..., "2"), (9, ..., ..., "}"), (2, ..., ..., "3}"), (0, ..., ..., "1}"))], PLAIN, set()),
    "a name with the call's own index is a repeat":
        ([*((0, "a", W, OPEN), (1, "b", W, OPEN), (2, "c", W, OPEN)),
         *((2, "c", W, "3}"), (0, "a", W, "1}"), (1, "b", W, "2}"))], PLAIN, {"CF307"}),
    "also where that index means another call by now":
        ([(0, "a", W, OPEN), (0, "b", W, TWO), (0, "c", W, THREE), (0, "a", W, "1}")], PLAIN, {"CF305", "CF307"}),
    "a name and another index are a new call, although its id is taken":
        ([*((0, "a", W, OPEN), (1, "a", W, OPEN), (2, "a", W, OPEN)),
         *((1, "a", ..., "2}"), (0, "a", ..., "1}"), (2, "a", ..., "3}"))],
         [("a", W, ONE), ("a", W, TWO), ("a", W, THREE)], {"CF306"}),
    "the id then means the last of them":
        ([(0, "a", W, OPEN), (1, "a", W, OPEN), (..., "a", ..., "2}"), (0, ..., ..., "1}")],
         [("a", W, ONE), ("a", W, TWO)], {"CF301", "CF306"}),
}  # fmt: skip

RULE_2 = {
    "a new id at a free index is a new call": ([(0, "a", W, ONE), (1, "b", W, TWO), (2, "c", W, THREE)], PLAIN, set()),
    "so it is without a name":
        ([*((0, "a", ..., ONE), (1, "b", ..., TWO), (2, "c", ..., THREE)),
         *((0, ..., W, ...), (1, ..., W, ...), (2, ..., W, ...))], PLAIN, set()),
    "a new id without an index, with a name, is a new call":
        ([(..., "a", W, ONE), (..., "b", W, TWO), (..., "c", W, THREE)], PLAIN, {"CF301"}),
    "without a name it is one if there is no call yet":
        ([(..., "a", ..., ...), (..., ..., W, ONE), (..., "b", W, TWO), (..., "c", W, THREE)], PLAIN, {"CF301"}),
    "without a name after a call it is a continuation, and the first id stays":
        ([*((..., "a", W, OPEN), (..., "a2", ..., "1}")), *((..., "b", W, OPEN), (..., "b2", ..., "2}")),
         *((..., "c", W, OPEN), (..., "c2", ..., "3"), (..., "c3", ..., "}"))], PLAIN, {"CF301", "CF304"}),
}  # fmt: skip

RULE_3 = {
    "a new id at a taken index without a name is a continuation, and the first id stays":
        ([*((0, "a", W, ""), (0, "a1", ..., OPEN), (0, "a2", ..., "1}")),
         *((1, "b", W, ""), (1, "b1", ..., OPEN), (1, "b2", ..., "2}")),
         *((2, "c", W, ""), (2, "c1", ..., OPEN), (2, "c2", ..., "3}"))], PLAIN, {"CF304"}),
    "a call that has no id yet takes the one that comes late":
        ([*((0, ..., W, OPEN), (1, ..., W, OPEN), (2, ..., W, OPEN)),
         *((2, "c", ..., "3}"), (0, "a", ..., "1}"), (1, "b", ..., "2}"))], PLAIN, set()),
    "also where its name is repeated beside the id":
        ([*((0, ..., W, ""), (1, ..., W, ""), (2, ..., W, "")),
         *((0, "a", W, ONE), (1, "b", W, TWO), (2, "c", W, THREE))], PLAIN, {"CF307"}),
    "with a name it is a new call": ([(0, "a", W, ONE), (0, "b", W, TWO), (0, "c", W, THREE)], PLAIN, {"CF305"}),
    "so it is where the call without an id has another name":
        ([(0, ..., T, ""), (0, "b", W, TWO)], [(MADE_UP, T, ""), ("b", W, TWO)], {"CF302", "CF305"}),
    "the index then means the new call; the old one is still known by its id":
        ([*((0, "a", W, OPEN), (0, ..., ..., "1}")), *((0, "b", W, OPEN), (0, ..., ..., "2}")),
         *((0, "c", W, OPEN), (0, ..., ..., "3"), (0, "a", ..., " "), (0, "c", ..., "}"))],
         [("a", W, ONE + " "), ("b", W, TWO), ("c", W, THREE)], {"CF305"}),
}  # fmt: skip

RULE_4 = {
    "an index alone is the call bound to it (the API's own way)":
        ([*((0, "a", W, ""), (1, "b", W, ""), (2, "c", W, "")),
         *((1, ..., ..., OPEN), (2, ..., ..., OPEN), (0, ..., ..., OPEN)),
         *((0, ..., ..., "1}"), (1, ..., ..., "2}"), (2, ..., ..., "3}"))], PLAIN, set()),
    "another name after name and arguments is a new call":
        ([(0, ..., W, ONE), (0, ..., T, TWO), (0, ..., W, OPEN), (0, ..., ..., "3}")],
         [(MADE_UP, W, ONE), (MADE_UP, T, TWO), (MADE_UP, W, THREE)], {"CF302", "CF305"}),
    "the same name after arguments is a repeat":
        ([(0, "a", W, OPEN), (0, ..., W, "1"), (0, ..., W, "}"), (1, "b", W, TWO), (2, "c", W, THREE)], PLAIN,
         {"CF307"}),
}  # fmt: skip

RULE_5 = {
    "a free index without an id is a new call, whose id is made up":
        ([(0, ..., W, ONE), (1, ..., W, TWO), (2, ..., W, THREE)], BARE, {"CF302"}),
    "its fragments may be interleaved":
        ([*((0, ..., W, OPEN), (1, ..., W, OPEN), (2, ..., W, OPEN)),
         *((2, ..., ..., "3}"), (1, ..., ..., "2}"), (0, ..., ..., "1}"))], BARE, {"CF302"}),
    "between calls with ids":
        ([(0, "a", W, ONE), (1, ..., W, TWO), (2, "c", W, THREE)], [("a", W, ONE), (MADE_UP, W, TWO), ("c", W, THREE)],
         {"CF302"}),
    "without a name, the call at that place, if it began at a taken index":
        ([*((0, "a", W, ""), (0, ..., ..., ONE), (0, "b", W, ""), (1, ..., ..., OPEN), (1, ..., ..., "2}")),
         *((0, "c", W, ""), (2, ..., ..., THREE))], PLAIN, {"CF305", "CF314"}),
    "also where no call has an id":
        ([(0, ..., W, ONE), (0, ..., T, ""), (1, ..., ..., TWO)], [(MADE_UP, W, ONE), (MADE_UP, T, TWO)],
         {"CF302", "CF305", "CF314"}),
    "with a name, a new call":
        ([(0, "a", W, ONE), (0, "b", W, TWO), (1, ..., W, THREE)], [("a", W, ONE), ("b", W, TWO), (MADE_UP, W, THREE)],
         {"CF302", "CF305"}),
    "else the last call, if none of its arguments came before the index changed":
        ([(2, "a", W, ""), (0, ..., ..., ONE), (7, "b", W, ""), (1, ..., ..., TWO)], PLAIN[:2], {"CF314"}),
    "the index that it began at is then free for the next":
        ([*((1, "a", W, ""), (0, ..., ..., OPEN), (0, ..., ..., "1}"), (2, "b", W, ""), (1, ..., ..., OPEN)),
         *((1, ..., ..., "2}"), (3, "c", W, ""), (2, ..., ..., OPEN), (2, ..., ..., "3}"))], PLAIN, {"CF314"}),
    "a name there is its own":
        ([(0, ..., W, ""), (1, ..., ..., ONE), (0, "a", W, "")], PLAIN[:1], {"CF307", "CF314"}),
    "also one without an index": ([(..., "a", W, ""), (0, ..., ..., ONE)], PLAIN[:1], {"CF301", "CF314"}),
    "below 0 a call of its own":
        ([(0, "a", W, ""), (-1, ..., ..., ONE), (0, ..., ..., TWO)], [("a", W, TWO), (MADE_UP, "", ONE)], {"CF302"}),
    "but not one without a name":
        ([(0, ..., ..., ONE), (1, ..., ..., TWO)], [(MADE_UP, "", ONE), (MADE_UP, "", TWO)], {"CF302"}),
    "an index that is known is that of its call":
        ([(0, "a", W, ""), (1, "b", W, ""), (0, ..., ..., ONE), (1, ..., ..., TWO)], PLAIN[:2], set()),
}  # fmt: skip

RULE_6 = {
    "neither id nor index: the call touched last":
        ([*((..., "a", W, ""), (..., ..., ..., OPEN), (..., ..., ..., "1}")),
         *((..., "b", W, ""), (..., ..., ..., OPEN), (..., ..., ..., "2}")),
         *((..., "c", W, ""), (..., ..., ..., OPEN), (..., ..., ..., "3}"))], PLAIN, {"CF301"}),
    "touched, not begun":
        ([*((0, "a", W, OPEN), (1, "b", W, OPEN), (2, "c", W, OPEN)),
         *((1, ..., ..., "2"), (..., ..., ..., "}"), (0, ..., ..., "1"), (..., ..., ..., "}")),
         *((..., "c", ..., "3"), (..., ..., ..., "}"))], PLAIN, {"CF301"}),
    "a name after name and arguments is a new call, even the same name":
        ([(..., ..., W, ONE), (..., ..., W, TWO), (..., ..., W, THREE)], BARE, {"CF301", "CF302"}),
    "a name after arguments alone belongs to them":
        ([(..., ..., ..., OPEN), (..., ..., W, "1}"), (..., ..., W, TWO), (..., ..., W, THREE)], BARE,
         {"CF301", "CF302"}),
    "a name before any arguments is a piece":
        ([(..., ..., "get_", ...), (..., ..., "weather", ...), (..., ..., ..., ONE), (..., ..., W, TWO)], BARE[:2],
         {"CF301", "CF302", "CF308"}),
}  # fmt: skip


# Once arguments came, a longer name is another name.
ALIKE = {
    "rule 3, with ids":
        ([(0, "a", "search", ONE), (0, "b", "search_web", TWO)], [("a", "search", ONE), ("b", "search_web", TWO)],
         {"CF305"}),
    "rule 3, the first without an id":
        ([(0, ..., "search", ONE), (0, "b", "search_web", TWO)], [(MADE_UP, "search", ONE), ("b", "search_web", TWO)],
         {"CF302", "CF305"}),
    "rule 4":
        ([(0, "a", "search", ""), (0, ..., ..., ONE), (0, ..., "search_web", TWO)],
         [("a", "search", ONE), (MADE_UP, "search_web", TWO)], {"CF302", "CF305"}),
    "rule 6":
        ([(..., ..., "search", ONE), (..., ..., "search_web", TWO)],
         [(MADE_UP, "search", ONE), (MADE_UP, "search_web", TWO)], {"CF301", "CF302"}),
    "a shorter one too":
        ([(0, ..., "search_web", ONE), (0, ..., "search", TWO)],
         [(MADE_UP, "search_web", ONE), (MADE_UP, "search", TWO)], {"CF302", "CF305"}),
}  # fmt: skip

RULES = {
    "1, the id is known": RULE_1,
    "2, the id is new and the index free": RULE_2,
    "3, the id is new and the index taken": RULE_3,
    "4, no id and the index taken": RULE_4,
    "5, no id and the index free": RULE_5,
    "6, neither id nor index": RULE_6,
    "of names that begin alike": ALIKE,
}
FRAGMENTS = {f"rule {rule}: {name}": case for rule, cases in RULES.items() for name, case in cases.items()}


@each_case(("deltas", "expected", "rules"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_rules(deltas, expected, rules) -> None:
    check(deltas, expected, rules)


def test_a_fragment_without_text_at_a_free_index_begins_a_call() -> None:
    deltas = [(0, "a", W, ""), (1, ..., ..., {}), (0, ..., ..., ONE)]
    check(deltas, [("a", W, ONE), (MADE_UP, "", "{}")], {"CF302", "CF310"})


def test_arguments_at_the_index_that_a_call_left_are_its_own_if_it_is_cut_or_no_other_call_lacks_them() -> None:
    two = [(2, "a", W, ""), (1, ..., ..., OPEN), (3, "b", W, ""), (2, ..., ..., "1}"), (3, ..., ..., TWO)]
    check(two, PLAIN[:2], {"CF314"})
    check([(0, "a", W, ""), (1, ..., ..., ONE), (0, ..., ..., TWO)], [("a", W, ONE + TWO)], {"CF312", "CF314"})


def test_unknown_keys_at_the_index_that_a_call_left_are_its_own() -> None:
    """Was once wrong: they began a call of their own, without a name."""
    signed = {"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}
    parser = ChatCompletionParser()
    for one in (on_wire((0, "a", W, "")), on_wire((1, ..., ..., ONE)), signed):
        parser.feed(delta(tool_calls=[one]))
    [call] = parser.snapshot.tool_calls
    assert call.model_extra == {"extra_content": {"google": {"thought_signature": "s"}}}


@each_case(("deltas", "expected", "rules"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_several_fragments_in_one_delta_follow_the_same_rules(deltas, expected, rules) -> None:
    check([deltas], expected, rules)


@pytest.mark.parametrize(
    ("id_", "name"), [("", ""), ("", ...), (..., ""), (None, None), ("", "null"), (None, "null"), ("null", ...)]
)
def test_empty_counts_as_absent(id_: Any, name: Any) -> None:
    """DashScope and others write every key in every fragment; CF203 notes the empty strings."""
    parser = read((0, "a", W, ""), (0, id_, name, OPEN), (0, id_, name, "1}"), (1, "b", W, TWO))
    assert calls(parser.completion()) == [("a", W, ONE), ("b", W, TWO)]
    assert ("CF203" in {anomaly.rule.id for anomaly in parser.anomalies}) is bool({"", "null"} & {id_, name})


def test_two_tools_may_be_called_null() -> None:
    parser = read((0, "a", "null", ONE), (0, "b", "null", TWO))
    assert calls(parser.completion()) == [("a", "null", ONE), ("b", "null", TWO)]


@each_case("empty", ["", "null"])
def test_an_empty_id_is_none_to_be_known_by(empty: str) -> None:
    parser = read((0, empty, W, ONE), (1, empty, W, TWO), (..., empty, W, THREE))
    assert calls(parser.completion()) == BARE


def test_the_calls_of_two_choices_have_nothing_to_do_with_each_other() -> None:
    first, second = (..., "a", W, ""), (..., ..., ..., ONE)
    parser = ChatCompletionParser()
    # Choice 1 stands between: "the call touched last" is asked per choice.
    order = [(0, first), (1, (..., "a", T, "")), (0, second), (1, (..., ..., ..., TWO))]
    for index, one in order:
        parser.feed(delta(index=index, tool_calls=[on_wire(one)]))
    assert [calls(ChatCompletion(choices=[choice])) for choice in parser.snapshot.choices] == [
        [("a", W, ONE)],
        [("a", T, TWO)],
    ]


# Indexes

INDEXES = [
    pytest.param([0, 1, 2], set(), id="as the API does"),
    pytest.param([1, 2, 3], set(), id="from 1"),
    pytest.param([7, 3, 5], set(), id="out of order, with gaps"),
    pytest.param([-1, -2, -3], set(), id="negative"),
    pytest.param([0, 0, 0], {"CF305"}, id="always 0"),
    pytest.param([-1, -1, -1], {"CF305"}, id="always -1"),
    pytest.param([0, 1, 0], {"CF305"}, id="reused"),
    pytest.param([..., ..., ...], {"CF301"}, id="missing"),
    pytest.param([None, None, None], {"CF301"}, id="null"),
    pytest.param([0, ..., 1], {"CF301"}, id="missing once"),
]


@each_case(("indexes", "rules"), INDEXES)
def test_an_index_is_a_key_and_never_a_position(indexes: list[Any], rules: set[str]) -> None:
    whole = [(index, *call) for index, call in zip(indexes, PLAIN, strict=True)]
    check(whole, PLAIN, rules)
    # In pieces too: calls come one after the other, so the index, or the call touched last, is the right one.
    pieces = [
        piece
        for index, (id_, name, arguments) in zip(indexes, PLAIN, strict=True)
        for piece in ((index, id_, name, ""), (index, ..., ..., arguments[:5]), (index, ..., ..., arguments[5:]))
    ]
    check(pieces, PLAIN, rules)


# Ids


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_an_id_may_come_with_any_fragment(place: int) -> None:
    ids: list[Any] = [...] * 4
    ids[place] = "a"
    texts = ["", OPEN, "1", "}"]
    parser = read(*((0, id_, W if text == "" else ..., text) for id_, text in zip(ids, texts, strict=True)))
    assert calls(parser.completion()) == [("a", W, ONE)]
    assert noted(parser) == set()


def test_numbers_are_read_as_text() -> None:
    """CF303 (Poolside)."""
    parser = read((0, 17, W, OPEN), (0, 17, ..., "1}"), (1, 0, W, TWO), (2, "x", W, THREE))
    assert calls(parser.completion()) == [("17", W, ONE), ("0", W, TWO), ("x", W, THREE)]
    assert noted(parser) == {"CF303"}


def test_a_made_up_id_comes_at_the_end_and_stays() -> None:
    parser = feed((0, ..., W, ONE), (1, "b", W, TWO))
    assert [call.id for call in parser.snapshot.tool_calls] == [None, "b"]
    assert noted(parser) == set()
    parser.feed(delta("tool_calls") + DONE)
    assert calls(parser.completion()) == [(MADE_UP, W, ONE), ("b", W, TWO)]
    assert noted(parser) == {"CF302"}
    parser.feed(delta(tool_calls=[on_wire((0, "late", ..., ...))]) + DONE)
    parser.close()
    assert calls(parser.completion()) == calls(parser.snapshot) == [(MADE_UP, W, ONE), ("b", W, TWO)]


ENDS = {
    "cut": lambda parser: parser.close(),
    "interrupted": lambda parser: parser.interrupt(OSError("reset")),
    "failed": lambda parser: parser.feed(event({"error": {"message": "x"}})),
    "invalid": lambda parser: parser.feed(event("x")),
    "left": lambda parser: parser.leave(),
    "[DONE]": lambda parser: parser.feed(DONE),
}


@pytest.mark.parametrize("end", ENDS)
def test_it_comes_at_any_end(end: str) -> None:
    parser = feed((0, ..., W, ONE))
    ENDS[end](parser)
    assert calls(parser.snapshot) == [(MADE_UP, W, ONE)]


@pytest.mark.parametrize("is_first", [True, False], ids=["sent before", "sent after"])
@pytest.mark.parametrize("suffixes", [[""], ["", "_"]], ids=["once", "and the likely way out too"])
def test_a_made_up_id_differs_from_every_id_that_was_sent(is_first: bool, suffixes: list[str]) -> None:
    def ids(*sent: str) -> list[str]:
        """The ids; the call without one is at the same place and has the same arguments each time."""
        others = [(place, id_, T, ONE) for place, id_ in enumerate(sent, 1)]
        bare = (0, ..., W, "")
        late = [*others, (0, ..., ..., TWO)] if is_first else [(0, ..., ..., TWO), *others]
        return [call.id for call in read(bare, *late).completion().tool_calls]

    (made_up,) = ids()
    sent = [made_up + suffix for suffix in suffixes]
    assert ids(*sent) == [made_up + "_" * len(sent), *sent]


def test_made_up_ids_do_not_come_again_in_the_next_turn() -> None:
    """Whatever differs between two answers is enough: many servers send no id, or always the same."""
    bare: dict[str, Any] = {"index": 0, "function": {"name": W, "arguments": ONE}}

    def ids(call: dict[str, Any] = bare, head: dict[str, Any] | None = None, index: int = 0) -> list[str]:
        parser = ChatCompletionParser()
        for fields in ({"delta": {"tool_calls": [call, {**call, "index": 1}]}}, {"finish_reason": "stop"}):
            parser.feed(event({**HEAD, **(head or {}), "choices": [{"index": index, **fields}]}))
        parser.close()
        return [call.id for call in parser.completion().tool_calls]

    turns = [
        ids(),
        ids(head={"id": "chatcmpl-2"}),
        ids(head={"created": 1760000001}),
        ids(head={"created": -1}),
        ids(head={"model": "n"}),
        ids(index=1),
        ids({"index": 0, "function": {"name": T, "arguments": ONE}}),
        ids({"index": 0, "function": {"name": W, "arguments": TWO}}),
    ]
    assert len({id_ for turn in turns for id_ in turn}) == 2 * len(turns)
    assert ids() == turns[0]  # the same bytes, the same ids


# Names

NAMES = {
    "repeated": ([(0, "a", W, OPEN), (0, "a", W, "1}")], W, {"CF307"}),
    "empty": ([(0, "a", W, OPEN), (0, "a", "", "1}")], W, set()),
    "growing": ([(0, "a", "get", ""), (0, ..., "get_wea", ""), (0, ..., W, ONE)], W, {"CF308"}),
    "growing after arguments": ([(0, "a", W, OPEN), (0, "a", W + "_now", "1}")], W, {"CF309"}),
    "shorter after arguments": ([(0, "a", W, OPEN), (0, "a", "get", "1}")], W, {"CF309"}),
    "in pieces": ([(0, "a", "get", ""), (0, ..., "_", ""), (0, ..., "weather", ONE)], W, {"CF308"}),
    "in pieces beside the id": ([(0, "a", "get_", ...), (0, "a", "weather", ONE)], W, {"CF308"}),
    "of one letter, repeated": ([(0, "a", "f", OPEN), (0, "a", "f", "1}")], "f", {"CF307"}),
    "of one letter each, in pieces": ([(0, "a", "f", ...), (0, "a", "g", ONE)], "fg", {"CF308"}),
    "in pieces, last with arguments": ([(0, "a", "get_", ...), (0, ..., "weather", ONE)], W, {"CF308"}),
    "another after arguments": ([(0, "a", W, OPEN), (0, "a", T, "1}")], W, {"CF309"}),
    "after the first character of them": ([(0, "a", W, "{"), (0, "a", T, '"n":1}')], W, {"CF309"}),
    "late": ([(0, "a", ..., OPEN), (0, ..., ..., "1}"), (0, ..., W, ...)], W, set()),
    "between arguments": ([(0, "a", ..., OPEN), (0, ..., W, "1}")], W, set()),
    "never": ([(0, "a", ..., ONE)], "", set()),
    "the word null": ([(0, "a", W, OPEN), (0, "", "null", "1}")], W, set()),
    "the word null before arguments": ([(0, "a", W, ""), (0, "", "null", ONE)], W, set()),
    "a tool of that name": ([(0, "a", "null", ONE)], "null", set()),
    "a piece of it": ([(0, "a", "is_", ""), (0, ..., "null", ""), (0, ..., ..., ONE)], "is_null", {"CF308"}),
    "the word null without an index": ([(..., "a", W, OPEN), (..., "", "null", "1}")], W, {"CF301"}),
    "the word null beside the id": ([(..., "a", W, OPEN), (..., "a", "null", "1}")], W, {"CF301"}),
}  # fmt: skip


@each_case(("deltas", "name", "rules"), NAMES.values(), ids=NAMES)
def test_names(deltas, name: str, rules: set[str]) -> None:
    check(deltas, [("a", name, ONE)], rules)


def test_a_name_that_never_came_is_none() -> None:
    function, custom_tool = read((0, "a", ..., ONE), {"index": 1, "custom": {"input": "x"}}).completion().tool_calls
    assert function.function.name is custom_tool.custom.name is None
    assert function.name == custom_tool.name == ""


# Arguments

TEXT_OF_OBJECT = {"n": [1, {"ü": None}], "x": "a\nb"}
ARGUMENTS = [
    # `arguments` as sent, one value per fragment; their text; what `parse` makes of it; the rules.
    pytest.param([OPEN, "1}"], ONE, {"n": 1}, set(), id="text"),
    pytest.param([None, ONE, None], ONE, {"n": 1}, set(), id="null adds nothing"),
    pytest.param(["", ""], "", {}, set(), id="none for a tool without parameters"),
    pytest.param([None], "", {}, set(), id="null alone"),
    pytest.param(["null"], "null", {}, set(), id="the text null"),
    pytest.param(["nu", "ll", " "], "null ", {}, set(), id="the text null in pieces"),
    pytest.param([...], "", {}, set(), id="not sent"),
    pytest.param([json.dumps(ONE)], json.dumps(ONE), {"n": 1}, {"CF310"}, id="encoded twice"),
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
]


@each_case(("values", "text", "value", "rules"), ARGUMENTS)
def test_arguments(values: list[Any], text: str, value: dict[str, Any], rules: set[str]) -> None:
    name_first = [(0, "a", W, values[0]), *((0, ..., ..., more) for more in values[1:])]
    parser = read(*name_first)
    (call,) = parser.completion().tool_calls
    assert call.arguments == text
    assert call.function.parse() == value
    assert noted(parser) == rules


@each_case(
    ("type_", "key", "text", "rules"),
    [
        ("function", "arguments", "null", ["CF203"]),
        ("function", "arguments", "nullable", []),
        ("custom", "input", "null", []),
    ],
)
def test_arguments_that_are_the_text_null_are_noted(type_: str, key: str, text: str, rules: list[str]) -> None:
    call = {"index": 0, "id": "a", "type": type_, type_: {"name": W, key: text}}
    parser = ChatCompletionParser()
    parser.feed(delta(tool_calls=[call]) + delta("tool_calls") + DONE)
    assert [one.rule.id for one in parser.anomalies] == rules


def test_arguments_of_a_whole_message_may_be_an_object() -> None:
    message = {"tool_calls": [{"id": "a", "function": {"name": W, "arguments": {"n": 1}}}]}
    parser = ChatCompletionParser()
    parser.feed(event({**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}) + DONE)
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


def test_a_copy_for_routing_knows_the_empty_object() -> None:
    sent = delta(tool_calls=[on_wire((..., ..., name, {})) for name in (W, T)])
    first, second = ChatCompletionParser().feed(sent)[0].choices[0].delta.tool_calls or ()
    calls = ToolCalls.for_routing(0)
    assert calls.route(first)[0].place == 0
    assert calls.without_texts().route(second)[0].place == 1


def test_a_copy_for_routing_has_names_of_its_own() -> None:
    sent = [delta(tool_calls=[on_wire(one)]) for one in ((0, "a", "get_", ...), (0, ..., "weather", ...))]
    parser = ChatCompletionParser()
    first, second = (parser.feed(one)[0].choices[0].delta.tool_calls or [] for one in sent)
    calls = ToolCalls.for_routing(0)
    calls.route(first[0])
    copy = calls.without_texts()
    copy.route(second[0])
    assert [[call.name for call in one.calls] for one in (calls, copy)] == [["get_"], ["get_weather"]]


def test_an_object_keeps_its_meaning() -> None:
    """Only the meaning is promised: how the text is spaced and escaped is the library's own."""
    (call,) = read((0, "a", W, TEXT_OF_OBJECT)).completion().tool_calls
    assert json.loads(call.arguments) == TEXT_OF_OBJECT


def test_a_call_is_not_complete_because_its_arguments_parse() -> None:
    """Every prefix here that parses is the beginning of something longer."""
    parser = read((0, "a", W, "1"), (0, ..., ..., "2"), (0, ..., ..., " "), (0, ..., ..., "34"))
    assert calls(parser.completion()) == [("a", W, "12 34")]


# Custom tools


def custom(**keys: Any) -> dict[str, Any]:
    part = {name: keys.pop(name) for name in ("name", "input") if name in keys}
    return {**keys, "custom": part}


def test_custom_tools_have_a_name_and_free_input() -> None:
    deltas = [
        custom(index=0, id="a", type="custom", name="sql", input=""),
        custom(index=1, id="b", name="sql", input="SELECT "),
        (2, "c", W, THREE),
        custom(index=0, input="DROP "),
        custom(index=1, input="2"),
        custom(index=0, input="TABLE"),
    ]
    parser = read(*deltas)
    completion = parser.completion()
    assert calls(completion) == [("a", "sql", "DROP TABLE"), ("b", "sql", "SELECT 2"), ("c", W, THREE)]
    assert [call.type for call in completion.tool_calls] == ["custom", "custom", "function"]
    assert completion.tool_calls[0].model_dump() == {
        "id": "a",
        "type": "custom",
        "custom": {"name": "sql", "input": "DROP TABLE"},
    }
    assert noted(parser) == set()


FUNCTION, SQL = {"name": W, "arguments": ONE}, {"name": "sql", "input": "DROP"}
BOTH = [
    *((one, SQL, "custom") for one in ({}, {"name": None, "arguments": None}, {"name": "", "arguments": ""})),
    ({"name": "", "arguments": {}}, SQL, "custom"),
    ({}, {**SQL, "arguments": "z"}, "custom"),
    *((FUNCTION, one, "function") for one in ({}, {"name": None, "input": None}, {"name": "", "input": ""})),
]


@each_case(("function", "custom", "type_"), BOTH)
def test_of_a_function_and_a_custom_tool_the_empty_one_is_none(function: Any, custom: Any, type_: str) -> None:
    """Was once wrong: an unknown key of the tool was taken for the arguments of the function."""
    whole, empty = ("custom", "function") if type_ == "custom" else ("function", "custom")
    sent = {"function": function, "custom": custom}
    for fragment in ({"index": 0, "id": "a", "type": "function"}, {"index": 0, "id": "a"}):
        for fragments in ([{**fragment, **sent}], [{**fragment, whole: sent[whole]}, {"index": 0, empty: sent[empty]}]):
            (call,) = read(*fragments).completion().tool_calls
            assert call.model_dump() == {"id": "a", "type": type_, whole: sent[whole]}


@each_case(("deltas", "expected", "rules"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_custom_tools_follow_the_same_rules_of_identity(deltas, expected, rules) -> None:
    def as_custom(fragment: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
        sent = on_wire(fragment)
        function = sent.pop("function", {})
        if "arguments" in function:
            function["input"] = function.pop("arguments")
        return {**sent, "custom": function}

    check([as_custom(one) for one in deltas], expected, rules)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        pytest.param([..., ...], "function", id="never sent"),
        pytest.param(["", "function"], "function", id="empty, then sent"),
        pytest.param(["function", ""], "function", id="sent, then empty"),
        pytest.param([None, "builtin_function"], "builtin_function", id="a provider's own"),
        pytest.param(["builtin_function", "function"], "builtin_function", id="the first holds"),
        pytest.param(["custom", ...], "custom", id="custom, as long as nothing custom came"),
    ],
)
def test_the_type_is_the_first_that_is_not_empty(types: list[Any], expected: str) -> None:
    fragments = [on_wire((0, "a", W, OPEN)), on_wire((0, ..., ..., "1}"))]
    for fragment, type_ in zip(fragments, types, strict=True):
        if type_ is not ...:
            fragment["type"] = type_
    completion = read(*fragments).completion()
    assert completion.tool_calls[0].type == expected
    # A type that is neither of the API's is dumped like any other, without a warning.
    dumped = completion.model_dump(warnings="error")
    assert dumped["choices"][0]["message"]["tool_calls"][0]["type"] == expected


# Unknown fields

SIGNATURE = {"google": {"thought_signature": "c2ln"}}


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{**on_wire((0, "a", W, ONE)), "extra_content": SIGNATURE}], id="beside the call"),
        pytest.param([(0, "a", W, ONE), {"id": "a", "extra_content": SIGNATURE}], id="alone, by id"),
        pytest.param([(0, "a", W, ONE), {"index": 0, "extra_content": SIGNATURE}], id="alone, by index"),
        pytest.param([(0, "a", W, ONE), {"extra_content": SIGNATURE}], id="alone, to the call touched last"),
        pytest.param([{"index": 0, "extra_content": SIGNATURE}, (0, "a", W, ONE)], id="before the call"),
        pytest.param(
            [{**on_wire((0, "a", W, ONE)), "extra_content": SIGNATURE}, {"index": 0, "extra_content": None}],
            id="a null does not take it away",
        ),
    ],
)
def test_a_thought_signature_stays_on_its_call(deltas) -> None:
    """Gemini wants it back with the call, so it must not be lost, whichever fragment has it."""
    (call, other) = read(*deltas, (1, "b", W, TWO)).completion().tool_calls
    assert (call.id, call.name, call.arguments) == ("a", W, ONE)
    assert call.extra_content == SIGNATURE
    assert call.model_dump()["extra_content"] == SIGNATURE
    assert "extra_content" not in other.model_dump()


# Several objects in one call

SEVERAL = [
    pytest.param([ONE, TWO], {"CF312"}, id="two"),
    pytest.param([ONE, " \n", OPEN, "2}"], {"CF312"}, id="in pieces"),
    pytest.param([ONE + TWO + THREE], {"CF312"}, id="three in one fragment"),
    pytest.param([ONE, OPEN], {"CF312"}, id="the second one is cut"),
    pytest.param([{"n": 1}, {"n": 2}], {"CF310", "CF312"}, id="as objects"),
    pytest.param([ONE, " \n"], set(), id="one, then a blank"),
    pytest.param(["{}", ONE], {"CF311"}, id="a placeholder, then one"),
    pytest.param(["{}", "\n", ONE], {"CF311"}, id="a placeholder, a blank, then one"),
    pytest.param([" {", "}", " ", " ", ONE], {"CF311"}, id="a placeholder in pieces, with blanks around it"),
    pytest.param(["{}", "\n"], set(), id="a placeholder, then only a blank"),
    pytest.param(["{}", *[" "] * 90, ONE], {"CF311"}, id="a placeholder, then many blanks"),
    pytest.param(["{}", *[" "] * 200, ONE], set(), id="a placeholder, then more than are looked at"),
    pytest.param(["{}", "x", ONE], set(), id="no placeholder, then one"),
    pytest.param(["{}", ONE, TWO], {"CF311", "CF312"}, id="a placeholder, then two"),
    pytest.param(['{"n":"}{"}'], set(), id="braces in a text"),
    pytest.param(["[{}", "{}]"], set(), id="no object"),
    pytest.param(['{"n":}{}'], set(), id="no JSON"),
    pytest.param(['{"n":' + "[" * 100_000 + "}{"], set(), id="too deep to tell"),
    pytest.param(['{"n":"' + "a" * 2**20 + '"}', TWO], set(), id="too long to be looked at"),
]


@each_case(("pieces", "rules"), SEVERAL)
def test_several_objects_in_one_call_are_noted(pieces: list[Any], rules: set[str]) -> None:
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


def test_json_of_two_equal_halves_is_whole() -> None:
    (call,) = read((0, "a", W, '{",":0,":":"}' * 2)).completion().tool_calls
    assert call.function.parse() == {",": 0, ":": "}{", ":0,": ":"}


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


def test_the_input_of_a_custom_tool_may_be_several_objects() -> None:
    assert noted(read(custom(index=0, id="a", name="sql", input=ONE + TWO))) == set()


# Calls that the server ran itself

SEARCH = {"index": 0, "id": "a", "function": {"name": "step_websearch", "arguments": ONE, "results": "[]"}}


@pytest.mark.parametrize(
    ("fragments", "outcome"),
    [
        pytest.param([(0, "srvtoolu_1", "web_search", ONE)], "stop", id="by the id"),
        pytest.param([(0, "srvtoolu_1", "web_search", ""), (0, ..., ..., ONE)], "stop", id="in pieces"),
        pytest.param([(0, ..., "web_search", ""), (0, "srvtoolu_1", ..., ONE)], "stop", id="the id comes late"),
        pytest.param([(-1, ..., ..., ONE)], "stop", id="neither id nor name, index -1"),
        pytest.param([{**SEARCH, "type": "web_search"}], "stop", id="by the type"),
        pytest.param([SEARCH, {"index": 0, "type": "web_search"}], "stop", id="the type comes late"),
        pytest.param([{**SEARCH, "type": "builtin_function"}], "tool_calls", id="Moonshot's, which the client answers"),
        pytest.param([(0, "srvtoolu_1", "web_search", ONE), (1, "b", W, TWO)], "tool_calls", id="beside one of yours"),
        pytest.param([(0, "a", W, ONE)], "tool_calls", id="yours alone"),
        pytest.param([(0, "a", "", ONE), (0, ..., W, "")], "tool_calls", id="the name comes late"),
    ],
)
def test_stop_beside_calls_that_the_server_ran_means_stop(fragments, outcome: str) -> None:
    parser = feed(*fragments)
    events = parser.events()
    parser.feed(delta("stop") + DONE)
    events += parser.events()
    (choice,) = parser.completion().choices
    assert choice.outcome == outcome
    assert [event.outcome for event in events if isinstance(event, ChoiceFinished)] == [outcome]
    assert any(not call.is_server_side for call in choice.message.tool_calls) is (outcome == "tool_calls")


EMPTY_CALL = {"id": "", "type": "", "function": {"name": "", "arguments": ""}}
NULL_CALL = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": None}}


@pytest.mark.parametrize(
    "empty",
    [
        {"tool_calls": [EMPTY_CALL]},
        {"tool_calls": [{**EMPTY_CALL, "index": 0}, {**EMPTY_CALL, "index": 1}]},
        {"tool_calls": [NULL_CALL]},
        {"tool_calls": [{"index": 0, "type": "function", "function": {}}]},
        {"tool_calls": [{}]},
        {"function_call": {"name": "", "arguments": ""}},
        {"function_call": {"name": None, "arguments": None}},
        {"tool_calls": [EMPTY_CALL], "function_call": {"name": "", "arguments": ""}},
    ],
)
def test_a_call_with_nothing_in_it_is_none(empty: dict[str, Any]) -> None:
    """A gateway in front of Qwen sends all fields of a delta with each chunk."""
    parser = ChatCompletionParser()
    parser.events()
    parser.feed(delta(content="Hi", **empty) + delta("stop", content="", **empty) + DONE)
    (choice,) = parser.completion().choices
    assert (choice.outcome, choice.message.tool_calls, choice.message.function_call) == ("stop", [], None)
    kinds = [type(event).__name__ for event in parser.events() if not isinstance(event, AnomalyNoted)]
    assert kinds == ["TextDelta", "ChoiceFinished"]
    assert {one.rule.id for one in parser.anomalies} == {"CF203"}


def test_a_call_with_nothing_in_it_adds_none_to_those_that_came() -> None:
    parser = feed((0, "a", W, ONE))
    parser.feed(delta("tool_calls", tool_calls=[{**EMPTY_CALL, "index": 1}, EMPTY_CALL]) + DONE)
    assert calls(parser.completion()) == [("a", W, ONE)]


def test_a_whole_message_has_its_calls_although_the_deltas_had_empty_ones() -> None:
    message = {"tool_calls": [{"id": "a", "function": {"name": W, "arguments": ONE}}]}
    parser = ChatCompletionParser()
    parser.feed(delta(content="", tool_calls=[EMPTY_CALL]) + event({**HEAD, "choices": [{"message": message}]}))
    parser.feed(delta("tool_calls") + DONE)
    assert calls(parser.completion()) == [("a", W, ONE)]


def test_a_web_search_behind_litellm_is_the_servers() -> None:
    parser = ChatCompletionParser()
    parser.feed(shared_data("recordings-2/litellm__anthropic-web.sse").read_bytes())
    parser.close()
    (choice,) = parser.completion().choices
    assert (choice.outcome, choice.message.content) == ("stop", "Found.")
    assert [(call.name, call.is_server_side) for call in choice.message.tool_calls] == [("web_search", True)]


def test_a_custom_call_may_be_the_servers_too() -> None:
    (call,) = read(custom(index=0, id="srvtoolu_1", name="sql", input="")).completion().tool_calls
    assert call.is_server_side


# Cost


@pytest.mark.slow
@pytest.mark.parametrize(
    "fragment",
    [
        pytest.param(lambda n: {"index": 0, "function": {"name": "a"}}, id="a name in short pieces"),
        pytest.param(lambda n: {"index": 0, "function": {"name": "a" * (n + 1)}}, id="a name that grows"),
        pytest.param(lambda n: {"index": 0, "function": {"name": W, "arguments": "{}"}}, id="a name that is repeated"),
        pytest.param(lambda n: {"index": n, "id": str(n), "function": {"name": W}}, id="calls"),
        pytest.param(lambda n: {"function": {"name": W, "arguments": "{}"}}, id="calls without index and id"),
        pytest.param(lambda n: {"index": n, "id": f"srvtoolu_{n}", "function": {"name": W}}, id="calls of the server"),
        pytest.param(lambda n: {"index": 0, "function": {"arguments": "{}"}}, id="objects in one call"),
        pytest.param(lambda n: {"index": 0, "function": {"arguments": " " * 100}}, id="blanks in one call"),
    ],
)
def test_routing_is_linear(fragment: Callable[[int], dict[str, Any]]) -> None:
    def take(count: int) -> Callable[[], object]:
        # A name that grows has texts that add up to the square of their number.
        count = int(count**0.5) * 10 if len(fragment(50)["function"].get("name", "")) > len(W) else count
        chunks = [
            ChatCompletionChunk.model_validate({"choices": [{"delta": {"tool_calls": [fragment(n)]}}]})
            for n in range(count)
        ]

        def fold() -> None:
            accumulator = ChatCompletionAccumulator()
            for chunk in chunks:
                accumulator.add(chunk)
            accumulator.finish()

        return fold

    assert_linear(take, 500)


def test_halves_of_a_character_find_their_call_whatever_came_before() -> None:
    """CF211: the calls are known by ids that came before the first half."""
    high, low = "\ud83d", "\ude00"
    fragments = [
        *((..., "a", W, '{"x":"'), (..., "b", W, '{"x":"'), (..., "a", ..., high), (..., "b", ..., high)),
        *((..., "a", ..., low), (..., "c", W, ONE), (..., "b", ..., low), (..., "b", ..., '"}'), (..., "a", ..., '"}')),
    ]
    parser, chunks = ChatCompletionParser(), []
    for one in fragments:
        chunks += parser.feed(delta(tool_calls=[on_wire(one)]))
    parser.feed(delta("tool_calls") + DONE)
    assert calls(parser.completion()) == [("a", W, '{"x":"😀"}'), ("b", W, '{"x":"😀"}'), ("c", W, ONE)]
    handed_out: dict[str, str] = {}
    for chunk in chunks:
        (fragment,) = chunk.choices[0].delta.tool_calls
        handed_out[fragment.id] = handed_out.get(fragment.id, "") + fragment.function.arguments
    assert handed_out == {call.id: call.arguments for call in parser.completion().tool_calls}


@each_case(
    ("deltas", "expected"),
    [
        # It moves to a free index unless its arguments are whole.
        ([(0, "a", W, OPEN), (1, ..., ..., "1}")], [("a", W, ONE)]),
        ([(0, "a", W, OPEN), (1, ..., ..., "1"), (2, ..., ..., "}")], [("a", W, ONE)]),
        ([(0, "a", W, ONE), (1, ..., ..., TWO)], [("a", W, ONE), (MADE_UP, "", TWO)]),
        ([(0, "a", W, "{}"), (1, ..., ..., TWO)], [("a", W, "{}"), (MADE_UP, "", TWO)]),
        ([(0, "a", W, ONE), (1, ..., ..., TWO), (0, ..., ..., " "), (2, ..., ..., THREE)],
         [("a", W, ONE + " "), (MADE_UP, "", TWO), (MADE_UP, "", THREE)]),
        ([(0, "a", W, ""), (1, ..., ..., ONE), (2, ..., ..., TWO)], [("a", W, ONE), (MADE_UP, "", TWO)]),
        ([(0, "a", W, ""), (1, ..., ..., ""), (1, ..., T, TWO)], [("a", W, ""), (MADE_UP, T, TWO)]),
        ([(0, "srvtoolu_a", W, ""), (1, ..., ..., TWO)], [("srvtoolu_a", W, ""), (MADE_UP, "", TWO)]),
        ([(0, "a", W, ONE), (0, "b", W, TWO), (1, ..., ..., THREE), (1, "c", W, ...)], [*PLAIN[:2], ("c", W, THREE)]),
        ([(0, "a", W, ONE), (0, "b", W, TWO), (0, "c", W, OPEN), (1, ..., ..., "3}")], PLAIN),
        ([(0, "a", W, ONE), (0, "b", W, ""), (0, "c", W, ""), (1, ..., ..., TWO), (2, ..., ..., THREE)], PLAIN),
        ([(0, "a", W, ONE), (0, "b", W, TWO), (5, ..., ..., THREE)], [*PLAIN[:2], (MADE_UP, "", THREE)]),
        # Where several calls lack their arguments, a free index does not say whose they are, unless it is a place.
        ([(..., "a", W, ""), (..., "b", W, ""), (0, ..., ..., ONE), (1, ..., ..., TWO)], PLAIN[:2]),
        ([(2, "a", W, ""), (5, "b", W, ""), (0, ..., ..., ONE), (1, ..., ..., TWO)],
         [("a", W, ""), ("b", W, ""), (MADE_UP, "", ONE), (MADE_UP, "", TWO)]),
        ([(2, "a", W, ""), (2, ..., ..., ONE), (5, "b", W, ""), (0, ..., ..., TWO)], PLAIN[:2]),
        ([(2, "a", W, ""), (5, "b", W, OPEN), (0, ..., ..., "2}"), (2, ..., ..., ONE)],
         [("a", W, ONE), ("b", W, OPEN), (MADE_UP, "", "2}")]),
        # The halves of a character go with it, and not to another.
        ([(0, "a", W, ONE), (0, "b", W, ""), (0, "c", W, THREE), (1, ..., ..., '"\ud83d'),
         (..., "b", ..., '\ude00"')], [("a", W, ONE), ("b", W, '"😀"'), ("c", W, THREE)]),
        ([(2, "a", W, ""), (0, ..., ..., '"\ud83d'), (..., "a", ..., '\ude00"')], [("a", W, '"😀"')]),
        ([(0, "a", W, ONE), (1, ..., ..., '{"x":"\ud83d'), (1, "b", T, '\ude00"}')],
         [("a", W, ONE), ("b", T, '{"x":"😀"}')]),
    ],
)  # fmt: skip
def test_which_call_moves_to_a_free_index(deltas: Any, expected: Any) -> None:
    assert calls(read(*deltas).completion()) == expected


def test_a_custom_tools_input_is_always_whole() -> None:
    parser = read(
        {"index": 0, "id": "a", "custom": {"name": "f", "input": "x"}}, {"index": 1, "custom": {"input": "y"}}
    )
    assert [call.custom.input for call in parser.completion().tool_calls] == ["x", "y"]


def test_whether_arguments_are_whole_is_judged_a_few_times_only() -> None:
    """Else each new index would cost as much as all that came."""

    def take(count: int) -> Callable[[], None]:
        fragments = [(0, "a", W, '{"x":"'), *((number, ..., ..., "}") for number in range(1, count))]
        chunks = [ChatCompletionChunk.model_validate_json(delta(tool_calls=[on_wire(one)])[6:]) for one in fragments]

        def fold() -> None:
            accumulator = ChatCompletionAccumulator()
            for chunk in chunks:
                accumulator.add(chunk)

        return fold

    assert_linear(take, 1000)


def test_arguments_that_are_long_are_not_judged() -> None:
    parser = read((0, "a", W, "[" + "[]," * 2**19), (1, ..., ..., "1]"))
    assert [call.arguments for call in parser.completion().tool_calls][1:] == ["1]"]


def test_half_a_character_at_the_end_of_a_call_stays_there() -> None:
    """The index means another call by now; the half that is left is the first one's."""
    parser = feed((0, "a", W, '{"x":"'), (0, ..., ..., "\ud83d"), (0, "b", W, TWO))
    chunks = parser.feed(delta("tool_calls") + DONE)
    assert calls(parser.completion()) == [("a", W, '{"x":"\N{REPLACEMENT CHARACTER}'), ("b", W, TWO)]
    (last,) = chunks[-1].choices[0].delta.tool_calls
    assert (last.id, last.function.arguments) == ("a", "\N{REPLACEMENT CHARACTER}")
