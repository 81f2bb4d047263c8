"""Tool calls: their ids and names, custom tools, unknown fields, empty calls, and those that the server ran itself.

Which call a fragment belongs to is in `test_call_routing`, what becomes of its arguments in `test_call_arguments`.
"""

from typing import Any

import pytest
from call_fragments import ONE, OPEN, THREE, TWO, T, W, calls, check, custom, feed, noted, on_wire, read
from cases import each_case
from made_up_ids import MADE_UP
from parsed_bodies import parsed

from chunkfold import AnomalyNoted, ChatCompletionParser, ChoiceFinished
from chunkfold.testing import DONE, HEAD, delta, event

# Ids


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


@pytest.mark.parametrize("name", [W, "{}", "{0}"])
def test_a_made_up_id_is_told_beside_the_name_that_was_sent(name: str) -> None:
    parser = read((0, ..., name, ONE))
    (told,) = [anomaly.detail for anomaly in parser.anomalies if anomaly.rule.id == "CF302"]
    assert told == f"{name!r}: {parser.completion().tool_calls[0].id}"


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
    "never": ([(0, "a", ..., ONE)], "", {"CF316"}),
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


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param({"index": 0, "id": "srvtoolu_1"}, id="the server ran it, by its id"),
        pytest.param({"index": 0, "id": "a", "type": "web_search"}, id="by its type"),
        pytest.param({"index": -1, "id": "a"}, id="by its index"),
    ],
)
def test_no_name_is_missing_from_a_call_that_the_client_does_not_run(sent: dict[str, Any]) -> None:
    assert noted(read({**sent, "function": {"arguments": ONE}})) == set()


# Custom tools


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


def test_a_custom_tool_keeps_a_type_of_the_providers_own() -> None:
    (call,) = read(custom(index=0, id="a", type="grammar", name="sql", input="x")).completion().tool_calls
    assert call.model_dump() == {"id": "a", "type": "grammar", "custom": {"name": "sql", "input": "x"}}


@each_case(("function", "custom", "type_"), BOTH)
def test_of_a_function_and_a_custom_tool_the_empty_one_is_none(function: Any, custom: Any, type_: str) -> None:
    whole, empty = ("custom", "function") if type_ == "custom" else ("function", "custom")
    sent = {"function": function, "custom": custom}
    for fragment in ({"index": 0, "id": "a", "type": "function"}, {"index": 0, "id": "a"}):
        for fragments in (
            [{**fragment, **sent}],
            [{**fragment, whole: sent[whole]}, {"index": 0, empty: sent[empty]}],
            [{**fragment, "function": {}, "custom": {}}, {"index": 0, whole: sent[whole]}],
        ):
            (call,) = read(*fragments).completion().tool_calls
            assert call.model_dump() == {"id": "a", "type": type_, whole: sent[whole]}


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
        # Was once wrong: it began a call of its own, without a name.
        pytest.param(
            [(0, "a", W, ""), (1, ..., ..., ONE), {"index": 0, "extra_content": SIGNATURE}],
            id="at the index that its call left",
        ),
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


# Calls with nothing in them


CALL = {"index": 0, "id": "a", "function": {"name": W, "arguments": ONE}}


EMPTY_CALL = {"id": "", "type": "", "function": {"name": "", "arguments": ""}}


NULL_CALL = {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": None}}


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param({"tool_calls": [EMPTY_CALL]}, id="empty texts"),
        pytest.param({"tool_calls": [{**EMPTY_CALL, "index": 0}, {**EMPTY_CALL, "index": 1}]}, id="two, with indexes"),
        pytest.param({"tool_calls": [NULL_CALL]}, id="nulls"),
        pytest.param({"tool_calls": [{"index": 0, "type": "function", "function": {}}]}, id="an empty function"),
        pytest.param({"tool_calls": [{}]}, id="an empty object"),
        pytest.param({"function_call": {"name": "", "arguments": ""}}, id="a legacy call of empty texts"),
        pytest.param({"function_call": {"name": None, "arguments": None}}, id="a legacy call of nulls"),
        pytest.param({"tool_calls": [EMPTY_CALL], "function_call": {"name": "", "arguments": ""}}, id="both"),
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
    whole = event({**HEAD, "choices": [{"message": {"tool_calls": [CALL]}}]})
    parser = parsed(delta(content="", tool_calls=[EMPTY_CALL]) + whole + delta("tool_calls") + DONE)
    assert calls(parser.completion()) == [("a", W, ONE)]


# A finish reason without the calls that it means


def ended(*choices: dict[str, Any]) -> ChatCompletionParser:
    """A parser that read one chunk with these choices, and [DONE]."""
    return parsed(event({**HEAD, "choices": [*choices]}) + DONE)


def choice(index: int, finish_reason: str, **sent: Any) -> dict[str, Any]:
    return {"index": index, "delta": {"content": "Hi", **sent}, "finish_reason": finish_reason}


@pytest.mark.parametrize("word", ["tool_calls", "function_call", "tool_use"])
@pytest.mark.parametrize("sent", [{}, {"tool_calls": None}, {"tool_calls": []}], ids=str)
def test_calls_that_the_finish_reason_means_and_that_did_not_come_are_noted(word: str, sent: Any) -> None:
    """OpenCode in front of GLM."""
    parser = ended(choice(0, word, **sent))
    assert noted(parser) == {"CF315"}
    (told,) = [anomaly.detail for anomaly in parser.anomalies if anomaly.rule.id == "CF315"]
    assert told == f"choice 0: '{word}'"
    (one,) = parser.completion().choices
    assert (one.finish_reason, one.outcome, one.message.tool_calls) == (word, "tool_calls", [])


@pytest.mark.parametrize(
    "choices",
    [
        pytest.param([choice(0, "stop")], id="another finish reason"),
        pytest.param([choice(0, "tool_calls", tool_calls=[CALL])], id="a call"),
        pytest.param([choice(0, "tool_calls", function_call={"name": W, "arguments": ONE})], id="the legacy call"),
        pytest.param([choice(0, "tool_calls"), choice(1, "tool_calls", tool_calls=[CALL])], id="in another choice"),
        pytest.param([{"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}], id="in a whole message"),
    ],
)
def test_calls_that_came_are_not_missing(choices: list[dict[str, Any]]) -> None:
    assert noted(ended(*choices)) == set()


def test_calls_are_not_missing_before_the_end() -> None:
    parser = ChatCompletionParser()
    parser.feed(delta("tool_calls"))
    assert noted(parser) == set()
    parser.feed(delta(tool_calls=[CALL]) + DONE)
    assert noted(parser) == set()


# Calls that the server ran itself


SEARCH = {"index": 0, "id": "a", "function": {"name": "step_websearch", "arguments": ONE, "results": "[]"}}


@pytest.mark.parametrize(
    ("fragments", "outcome"),
    [
        pytest.param([(0, "srvtoolu_1", "web_search", ONE)], "stop", id="by the id"),
        pytest.param([(0, "srvtoolu_1", "web_search", ""), (0, ..., ..., ONE)], "stop", id="in pieces"),
        pytest.param([(0, ..., "web_search", ""), (0, "srvtoolu_1", ..., ONE)], "stop", id="the id comes late"),
        pytest.param([(-1, ..., ..., ONE)], "stop", id="neither id nor name, index -1"),
        pytest.param([custom(index=0, id="srvtoolu_1", name="sql", input="")], "stop", id="a custom one"),
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
