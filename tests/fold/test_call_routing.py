"""Which call a fragment belongs to: the rules of the router, one by one, and what they cost.

Every table goes over the wire and through the parser, and says which rules of the catalogue (CF3xx) are to be noted: no
tolerance may be silent, and nothing may be noted that was not served.
"""

from typing import Any

import pytest
from call_fragments import ONE, OPEN, THREE, TWO, T, W, calls, check, chunks_of, custom, on_wire, read
from cases import each_case
from invariants import check as check_promises
from made_up_ids import MADE_UP

from chunkfold import ChatCompletion, ChatCompletionParser
from chunkfold.testing import DONE, delta

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
    "also where one of the fragments has no index":
        ([*((..., "a", W, OPEN), (1, "b", W, OPEN)), *((..., "b", W, "2}"), (0, "a", W, "1}"))], PLAIN[:2],
         {"CF301", "CF307"}),
    "a name and another index are a new call, although its id is taken":
        ([*((0, "a", W, OPEN), (1, "a", W, OPEN), (2, "a", W, OPEN)),
         *((1, "a", ..., "2}"), (0, "a", ..., "1}"), (2, "a", ..., "3}"))],
         [("a", W, ONE), ("a", W, TWO), ("a", W, THREE)], {"CF306"}),
    "also where the call at that index is cut":
        ([(0, "a", W, ONE), (1, "b", W, OPEN), (1, "a", W, "3}")], [("a", W, ONE), ("b", W, OPEN), ("a", W, "3}")],
         {"CF306"}),
    "the id then means the last of them":
        ([(0, "a", W, OPEN), (1, "a", W, OPEN), (..., "a", ..., "2}"), (0, ..., ..., "1}")],
         [("a", W, ONE), ("a", W, TWO)], {"CF301", "CF306"}),
    "a number is the id that it spells (Poolside)":
        ([(0, 17, W, OPEN), (0, 17, ..., "1}"), (1, 0, W, TWO), (2, "x", W, THREE)],
         [("17", W, ONE), ("0", W, TWO), ("x", W, THREE)], {"CF303"}),
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
    "also with its last fragment":
        ([(0, ..., W, ""), (0, ..., ..., OPEN), (0, ..., ..., "1"), (0, "a", ..., "}")], PLAIN[:1], set()),
    "also where its name is repeated beside the id":
        ([*((0, ..., W, ""), (1, ..., W, ""), (2, ..., W, "")),
         *((0, "a", W, ONE), (1, "b", W, TWO), (2, "c", W, THREE))], PLAIN, {"CF307"}),
    "or grows beside it":
        ([(0, ..., "get_", ""), (0, "a", "get_weather", ONE)], [("a", "get_weather", ONE)], {"CF308"}),
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
    "also where that call is whole and a later one is cut":
        ([(0, "a", W, ONE), (1, "b", W, OPEN), (0, ..., ..., "2}")], [("a", W, ONE + "2}"), ("b", W, OPEN)], set()),
    "another name after name and arguments is a new call":
        ([(0, ..., W, ONE), (0, ..., T, TWO), (0, ..., W, OPEN), (0, ..., ..., "3}")],
         [(MADE_UP, W, ONE), (MADE_UP, T, TWO), (MADE_UP, W, THREE)], {"CF302", "CF305"}),
    "the word null is none, also where no name came":
        ([(0, "a", ..., OPEN), (0, ..., "null", "1"), (0, ..., "null", ""), (0, ..., W, "}")],
         PLAIN[:1], set()),
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
    "an object that begins there is another call's, if that one has some":
        ([(0, "a", W, OPEN), (1, ..., ..., OPEN), (0, ..., ..., "1}"), (1, "b", W, "2}")], PLAIN[:2], set()),
    "a name there is its own":
        ([(0, ..., W, ""), (1, ..., ..., ONE), (0, "a", W, "")], PLAIN[:1], {"CF307", "CF314"}),
    "also one without an index": ([(..., "a", W, ""), (0, ..., ..., ONE)], PLAIN[:1], {"CF301", "CF314"}),
    "below 0 a call of its own":
        ([(0, "a", W, ""), (-1, ..., ..., ONE), (0, ..., ..., TWO)], [("a", W, TWO), (MADE_UP, "", ONE)], {"CF302"}),
    "but not one without a name":
        ([(0, ..., ..., ONE), (1, ..., ..., TWO)], [(MADE_UP, "", ONE), (MADE_UP, "", TWO)],
         {"CF302", "CF316"}),
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
    "also where these arguments are cut":
        ([(..., ..., W, OPEN), (..., ..., W, "2}")], [(MADE_UP, W, OPEN), (MADE_UP, W, "2}")], {"CF301", "CF302"}),
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


def as_custom(fragment: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
    sent = on_wire(fragment)
    function = sent.pop("function", {})
    if "arguments" in function:
        function["input"] = function.pop("arguments")
    return {**sent, "custom": function}


@each_case(("deltas", "expected", "rules"), FRAGMENTS.values(), ids=FRAGMENTS)
def test_rules(deltas, expected, rules) -> None:
    """Also for several fragments in one delta, and for custom tools."""
    for sent in (deltas, [deltas], [as_custom(one) for one in deltas]):
        check(sent, expected, rules)


TEXT, REST = (..., ..., ..., OPEN), (..., ..., ..., "1}")
BEGUN = [(..., "a", W, ""), (..., "b", W, "")]
SIDE_BY_SIDE = {
    "calls that begin in one delta go on by their place": ([BEGUN, [TEXT, TEXT], [REST, (..., ..., ..., "2}")]],
        PLAIN[:2], {"CF301"}),
    "also if it has the beginning of their arguments": ([[(..., "a", W, OPEN), (..., "b", W, OPEN)],
        [REST, (..., ..., ..., "2}")]], PLAIN[:2], {"CF301"}),
    "one fragment alone is the last call's": ([BEGUN, TEXT, REST], [("a", W, ""), ("b", W, ONE)], {"CF301"}),
    "and so are fewer": ([[*BEGUN, (..., "c", W, "")], [TEXT, REST]], [("a", W, ""), ("b", W, ""), ("c", W, ONE)],
        {"CF301"}),
    "and those after another call": ([BEGUN, (..., "c", W, ""), [TEXT, REST]],
        [("a", W, ""), ("b", W, ""), ("c", W, ONE)], {"CF301"}),
    "and those where a call began with all of its arguments": ([[(..., "a", W, f"{ONE} "), (..., "b", W, "")], [TEXT, REST]],
        [("a", W, f"{ONE} "), ("b", W, ONE)], {"CF301"}),
    "also beside more of another call": ([(0, "c", W, OPEN), [(0, ..., ..., "1"), *BEGUN], [TEXT, TEXT], [REST, REST],
        (0, ..., ..., "}")], [("c", W, ONE), ("a", W, ONE), ("b", W, ONE)], {"CF301"}),
    "an id says more": ([BEGUN, [(..., "a", ..., OPEN), (..., "b", ..., OPEN)], [REST, (..., "a", ..., "1}")]],
        [("a", W, ONE), ("b", W, ONE)], {"CF301"}),
    "and so does an index": ([BEGUN, [(0, ..., ..., ONE), (9, ..., ..., TWO)]],
        [("a", W, ONE), ("b", W, ""), (MADE_UP, "", TWO)], {"CF301", "CF302", "CF314", "CF316"}),
    "but a name that is repeated does not": ([BEGUN, [(..., ..., W, ONE), (..., ..., W, TWO)]], PLAIN[:2],
        {"CF301", "CF307"}),
    "the input of a custom tool may be whole at once": (
        [[custom(id="a", name=W, input="x"), custom(id="b", name=W, input="")], [custom(input="y"), custom(input="z")]],
        [("a", W, "x"), ("b", W, "yz")], {"CF301"}),
    "the first fragments may have indexes": ([[(0, "a", W, ""), (1, "b", W, "")], [TEXT, TEXT], [REST, REST]],
        [("a", W, ONE), ("b", W, ONE)], {"CF301"}),
}  # fmt: skip


@each_case(("deltas", "expected", "rules"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_calls_that_begin_in_one_delta_without_indexes(deltas, expected, rules) -> None:
    check(deltas, expected, rules)


def test_an_object_at_a_free_index_continues_a_call_that_has_only_blanks() -> None:
    assert calls(read((0, "a", W, "\n"), (1, ..., ..., ONE)).completion()) == [("a", W, "\n" + ONE)]


def test_a_fragment_without_text_at_a_free_index_begins_a_call() -> None:
    deltas = [(0, "a", W, ""), (1, ..., ..., {}), (0, ..., ..., ONE)]
    check(deltas, [("a", W, ONE), (MADE_UP, "", "{}")], {"CF302", "CF310", "CF316"})


def test_arguments_at_the_index_that_a_call_left_are_its_own_if_it_is_cut_or_no_other_call_lacks_them() -> None:
    two = [(2, "a", W, ""), (1, ..., ..., OPEN), (3, "b", W, ""), (2, ..., ..., "1}"), (3, ..., ..., TWO)]
    check(two, PLAIN[:2], {"CF314"})
    check([(0, "a", W, ""), (1, ..., ..., ONE), (0, ..., ..., TWO)], [("a", W, ONE + TWO)], {"CF312", "CF314"})


@pytest.mark.parametrize("index", [..., 0])
def test_a_name_that_comes_with_each_new_id_belongs_to_the_call_that_is_cut(index: Any) -> None:
    noted = {"CF301"} if index is ... else set()
    pieces = [
        (index, "a", W, '{"n"'),
        (index, "b", W, ":"),
        (index, "c", W, "{"),
        (index, "d", W, "}}"),
        (index, "e", W, ""),
    ]
    check(pieces, [("a", W, '{"n":{}}')], {"CF304", "CF307", *noted})
    reused = set() if noted else {"CF305"}
    other = [*pieces, (index, "f", T, TWO)]
    check(other, [("a", W, '{"n":{}}'), ("f", T, TWO)], {"CF304", "CF307", *noted, *reused})
    check([*pieces, (index, "f", W, TWO)], [("a", W, '{"n":{}}'), ("f", W, TWO)], {"CF304", "CF307", *noted, *reused})
    items = [(index, f"i{number}", W, '{"k":1},') for number in range(12)]
    ended = [(index, "a", W, '{"n":['), (index, "b", W, "1,"), *items, (index, "c", W, "2]}"), (index, "e", W, TWO)]
    assert [call[0] for call in calls(read(*ended).completion())] == ["a", "e"]
    for second in (ONE, ""):  # an object begins, or may begin
        check([(index, "a", W, OPEN), (index, "b", W, second)], [("a", W, OPEN), ("b", W, second)], noted | reused)
    blank = [(index, "a", W, "{\n"), (index, "b", W, "  "), (index, "c", W, '"n":1}')]
    check(blank, [("a", W, '{\n  "n":1}')], {"CF304", "CF307", *noted})
    whole = [(index, "a", W, ONE), (index, "b", W, '"'), (index, "c", T, "x")]
    check(whole, [("a", W, ONE), ("b", W, '"'), ("c", T, "x")], noted | reused)
    for first, second in (('"{', "}"), ("x y", "z")):  # no object is cut
        check([(index, "a", W, first), (index, "b", W, second)], [("a", W, first), ("b", W, second)], noted | reused)


@pytest.mark.parametrize(
    ("id_", "name"), [("", ""), ("", ...), (..., ""), (None, None), ("", "null"), (None, "null"), ("null", ...)]
)
def test_empty_counts_as_absent(id_: Any, name: Any) -> None:
    """DashScope and others write every key in every fragment; CF203 notes the empty strings."""
    parser = read((0, "a", W, ""), (0, id_, name, OPEN), (0, id_, name, "1}"), (1, "b", W, TWO))
    assert calls(parser.completion()) == [("a", W, ONE), ("b", W, TWO)]
    assert ("CF203" in {anomaly.rule.id for anomaly in parser.anomalies}) is bool({"", "null"} & {id_, name})


def test_two_tools_may_be_called_null() -> None:
    parser = read((0, "a", "null", ONE), (0, "b", "null", TWO), (1, "c", W, THREE), (2, "d", "null", TWO))
    named = [("a", "null", ONE), ("b", "null", TWO), ("c", W, THREE), ("d", "null", TWO)]
    assert calls(parser.completion()) == named


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


BARE_HALVES = ((..., ..., ..., '"\ud83d'), (..., ..., ..., '\ude00"'))
HALVES = {
    "by index, then by id": ([(0, "a", W, '"\ud83d'), (..., "a", ..., '\ude00"')], [("a", W, '"😀"')]),
    "by neither": ([(0, "a", W, '"'), (..., ..., ..., "\ud83d"), (0, ..., ..., '\ude00"')], [("a", W, '"😀"')]),
    "a new call at the same index": ([(0, "a", W, "\ud83d"), (0, "b", T, "\ude00")],
        [("a", W, "\ufffd"), ("b", T, "\ufffd")]),
    "one that is not continued, before a new call at the same index": (
        [(0, "a", W, '{"x":"'), (0, ..., ..., "\ud83d"), (0, "b", W, TWO)], [("a", W, '{"x":"\ufffd'), ("b", W, TWO)]),
    "two calls that only ids tell apart": (
        [(..., "a", W, "\ud83d"), (..., "b", T, "\ud83d"), (..., "a", ..., "\ude00"), (..., "b", ..., "\ude01")],
        [("a", W, "😀"), ("b", T, "😁")]),
    "ids that came before the first half": (
        [*((..., "a", W, '"'), (..., "b", W, '"'), (..., "a", ..., "\ud83d"), (..., "b", ..., "\ud83d")),
         *((..., "a", ..., "\ude00"), (..., "c", W, ONE), (..., "b", ..., "\ude00"), (..., "b", ..., '"'), (..., "a", ..., '"'))],
        [("a", W, '"😀"'), ("b", W, '"😀"'), ("c", W, ONE)]),
    "a name in pieces": ([(0, "a", "get_", ...), (0, ..., "weather", '"\ud83d'), (0, ..., ..., '\ude00"')],
        [("a", W, '"😀"')]),
    "another name after an empty object": ([(..., ..., W, {}), (..., ..., T, '"\ud83d'), (..., ..., ..., '\ude00"')],
        [(MADE_UP, W, "{}"), (MADE_UP, T, '"😀"')]),
    "side by side": ([BEGUN, *([half, half] for half in BARE_HALVES)], [("a", W, '"😀"'), ("b", W, '"😀"')]),
    "behind a fragment with nothing in it": (
        [[(..., ..., ..., ...), (..., "a", W, '"\ud83d')], BARE_HALVES[1]], [("a", W, '"😀"')]),
    "one by one": (
        [(..., "a", W, ""), BARE_HALVES[0], (..., "b", W, ""), (..., "a", ..., "\ude00\ud83d"), BARE_HALVES[1]],
        [("a", W, '"😀😀"'), ("b", W, "")]),
}  # fmt: skip


@each_case(("deltas", "expected"), HALVES.values(), ids=HALVES)
def test_halves_of_a_character_find_their_call(deltas, expected) -> None:
    """CF211. The chunks that are handed out, folded again, are the message: a promise."""
    assert calls(read(*deltas).completion()) == expected
    check_promises(b"".join(chunks_of(*deltas)) + delta("tool_calls") + DONE)
