"""The events of tool calls: when a call starts, when it is done, and what its arguments are then."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from event_rows import A_DONE, A_STARTED, A_STARTS, B_DONE, B_STARTS, A, B, C, briefly, calls, events_of, only
from invariants import check
from made_streams import ERROR, STOP, Stream, custom

from chunkfold import ChatCompletionParser, ParseError, StreamEnd, ToolCallDone, ToolCallStarted
from chunkfold.testing import DONE, delta, event, fragment


def told_of(steps: list[Any]) -> list[tuple[Any, ...]]:
    """What a stream tells of its calls. A step is a fragment, a list of them, a finish reason, or "[DONE]"."""
    pieces = []
    for step in steps:
        if isinstance(step, str):
            pieces.append(DONE if step == "[DONE]" else delta(step))
        else:
            pieces.append(calls(*(step if isinstance(step, list) else [step])))
    if len(b"".join(pieces)) < 10_000:
        check(b"".join(pieces))  # among all else, what is told adds up to the message
    return [row for row in briefly(events_of(*pieces)) if row[0] != "finished"]


A_BEGINS, A_ENDS = (0, "a", "f", '{"x"'), (0, None, None, ":1}")  # call A in two pieces
A_BEGUN, A_ENDED = [A_STARTED, ("arguments", 0, '{"x"')], ("arguments", 0, ":1}")
EMPTY, EMPTY_DONE = [A_STARTED, ("arguments", 0, "{}")], ("done", 0, "{}", {})
C_STARTS = [("started", 2, "c", "h"), ("arguments", 2, '{"x":3}')]


def of_a(text: str, *more: Any) -> list[Any]:
    """The events of call A with these arguments at once, and what more is told."""
    return [A_STARTED, ("arguments", 0, text), *more]


STARTS = {
    "name and arguments together": ([(0, "a", "f", "{")], [A_STARTED, ("arguments", 0, "{")]),
    "the name, then arguments": ([(0, "a", "f", ""), (0, None, None, "{")], [A_STARTED, ("arguments", 0, "{")]),
    "not by a name alone": ([(0, "a", "f", None), (0, None, None, "")], []),
    "a name in pieces":
        ([(0, "a", "get", None), (0, None, "_we", None), (0, None, "ather", None), (0, None, None, "{")],
         [("started", 0, "a", "get_weather"), ("arguments", 0, "{")]),
    "a name that grows":
        ([(0, "a", "get", None), (0, None, "get_weather", "{")],
         [("started", 0, "a", "get_weather"), ("arguments", 0, "{")]),
    "arguments before the name":
        ([(0, "a", None, "{"), (0, None, None, '"x"'), (0, None, "f", None), (0, None, None, ":1}")],
         [A_STARTED, ("arguments", 0, '{"x"'), ("arguments", 0, ":1}")]),
    "arguments before the name, and with it":
        ([(0, "a", None, "{"), (0, None, "f", '"x"')], [A_STARTED, ("arguments", 0, '{"x"')]),
    "no arguments, but done": ([(0, "a", "f", None), "tool_calls"], [A_STARTED, ("done", 0, "", {})]),
    "an id that comes late":
        ([(0, None, "f", "{"), (0, "a", None, "}"), "tool_calls"], [("started", 0, None, "f"), ("arguments", 0, "{"),
         ("arguments", 0, "}"), ("done", 0, "{}", {})]),
    "no name at all, but done":
        ([(0, "a", None, "{}"), "tool_calls"],
         [("started", 0, "a", ""), ("arguments", 0, "{}"), ("done", 0, "{}", {})]),
    "arguments that are an object":
        ([(0, "a", "f", {"x": 1}), "tool_calls"],
         [A_STARTED, ("arguments", 0, '{"x":1}'), ("done", 0, '{"x":1}', {"x": 1})]),
    "arguments that are an empty object": (
        [(0, "a", "f", {}), "tool_calls"],
        [A_STARTED, ("arguments", 0, "{}"), ("done", 0, "{}", {})],  # at the end: it counts only if nothing else comes
    ),
    "an empty object before other arguments":
        ([(0, "a", "f", {}), (0, None, None, '{"x":1}'), "tool_calls"],
         [A_STARTED, ("arguments", 0, '{"x":1}'), ("done", 0, '{"x":1}', {"x": 1})]),
    "a custom tool":
        ([custom(0, "a", "h"), custom(0, input="in"), custom(0, input="put"), "tool_calls"],
         [("started", 0, "a", "h"), ("arguments", 0, "in"), ("arguments", 0, "put"), ("done", 0, "input", "input")]),
    "several in one delta":
        ([[(0, "a", "f", "{"), (1, "b", "g", "[")]],
         [A_STARTED, ("arguments", 0, "{"), ("started", 1, "b", "g"), ("arguments", 1, "[")]),
}  # fmt: skip


@each_case(("steps", "expected"), STARTS.values(), ids=STARTS)
def test_when_a_call_starts(steps: list[Any], expected: list[tuple[Any, ...]]) -> None:
    assert told_of(steps) == expected


@pytest.mark.parametrize(
    ("id_", "type_", "name", "expected"),
    [
        ("srvtoolu_1", None, "f", True),
        ("a", "web_search", "f", True),
        (None, None, "", True),
        (None, "function", "f", False),
    ],
    ids=["by its id", "by its type", "neither id nor name", "yours"],
)
def test_a_call_that_the_server_ran_says_so_when_it_starts(
    id_: str | None, type_: str | None, name: str, expected: bool
) -> None:
    call = {"index": 0, "id": id_, "type": type_, "function": {"name": name, "arguments": "{}"}}
    started = only(ToolCallStarted, events_of(delta(tool_calls=[call]), STOP, DONE))
    assert [one.is_server_side for one in started] == [expected]


DONES = {
    "never because its arguments parse": ([A], A_STARTS),
    "nor because they parse, and text follows": ([A, (0, None, None, " ")], [*A_STARTS, ("arguments", 0, " ")]),
    "by [DONE] alone": ([A, "[DONE]"], [*A_STARTS, A_DONE]),
    "by a later call": ([A, B], [*A_STARTS, A_DONE, *B_STARTS]),
    "by a later call, whatever it has": ([A, (1, "b", None, None)], [*A_STARTS, A_DONE]),
    "by a later call without index and id": (
        [(None, None, "f", '{"x":1}'), (None, None, "g", '{"x":2}')],
        [("started", 0, None, "f"), A_STARTS[1], A_DONE, ("started", 1, None, "g"), B_STARTS[1]],
    ),
    "by a later call in the same delta": ([[A, B]], [*A_STARTS, A_DONE, *B_STARTS]),
    "each by the next": ([A, B, C], [*A_STARTS, A_DONE, *B_STARTS, B_DONE, *C_STARTS]),
    "not by a later call while its arguments are not whole":
        ([A_BEGINS, B, A_ENDS, "tool_calls"], [*A_BEGUN, *B_STARTS, A_ENDED, A_DONE, B_DONE]),
    "not by a later call while it has none":
        ([(0, "a", "f", ""), B, (0, None, None, '{"x":1}'), "tool_calls"], [*B_STARTS, *A_STARTS, A_DONE, B_DONE]),
    "not by a later call while they are an empty object":
        ([(0, "a", "f", {}), B, (0, None, None, '{"x":1}'), "tool_calls"], [*B_STARTS, *A_STARTS, A_DONE, B_DONE]),
    "not by a later call behind an empty object, which may stand before other arguments": (
        [(0, "a", "f", "{}"), B, (0, None, None, '{"x":1}'), "tool_calls"],
        of_a("{}", *B_STARTS, ("arguments", 0, '{"x":1}'), ("done", 0, '{}{"x":1}', {"x": 1}), B_DONE),
    ),
    **{
        f"not by a later call while they are {text}": ([(0, "a", "f", text), B], of_a(text, *B_STARTS))
        for text in ("1", "true", '[{"x":1}]', '"x"')
    },
    "not by a later call when they are nested too deeply to tell":
        ([(0, "a", "f", "[" * 100_000), B], of_a("[" * 100_000, *B_STARTS)),
    "not by a later call when it is a custom one, whose input has no end of its own": (
        [custom(0, "a", "f", '{"x":1}'), B, custom(0, input="[2]"), "tool_calls"],
        [*A_STARTS, *B_STARTS, ("arguments", 0, "[2]"), ("done", 0, '{"x":1}[2]', '{"x":1}[2]'), B_DONE],
    ),
    "not by a second later call: each call is checked once":
        ([A_BEGINS, B, A_ENDS, C], [*A_BEGUN, *B_STARTS, A_ENDED, *C_STARTS]),
    "interleaved": (
        [A_BEGINS, (1, "b", "g", '{"x"'), (1, None, None, ":2}"), A_ENDS, "tool_calls"],
        [*A_BEGUN, ("started", 1, "b", "g"), ("arguments", 1, '{"x"'), ("arguments", 1, ":2}"), A_ENDED, A_DONE, B_DONE],
    ),
    "once": ([A, "tool_calls", "tool_calls", "stop", "[DONE]"], [*A_STARTS, A_DONE]),
    "once, also by a later call": ([A, B, "tool_calls", "[DONE]"], [*A_STARTS, A_DONE, *B_STARTS, B_DONE]),
    "with nothing new": ([A, "tool_calls", (0, None, None, ""), (0, "a", "f", None), "[DONE]"], [*A_STARTS, A_DONE]),
    "again, when more comes after the finish reason":
        ([A_BEGINS, "tool_calls", A_ENDS, "[DONE]"], [*A_BEGUN, ("done", 0, '{"x"', "cut"), A_ENDED, A_DONE]),
    "again, when more comes after a later call": (
        [A, B, (0, None, None, " "), "tool_calls"],
        [*A_STARTS, A_DONE, *B_STARTS, ("arguments", 0, " "), B_DONE, ("done", 0, '{"x":1} ', {"x": 1})],
    ),
    "again at the end only, when finish reasons are repeated": (
        [(0, "a", "f", "{"), "tool_calls", (0, None, None, '"x"'), "tool_calls", A_ENDS, "stop", "[DONE]"],
        of_a("{", ("done", 0, "{", "cut"), ("arguments", 0, '"x"'), A_ENDED, A_DONE),
    ),
    "a call that comes after the finish reason": ([A, "tool_calls", B, "[DONE]"], [*A_STARTS, A_DONE, *B_STARTS, B_DONE]),
    "cut by a token limit": ([(0, "a", "f", '{"x'), "length"], of_a('{"x', ("done", 0, '{"x', "cut"))),
    "with arguments that are no JSON": ([(0, "a", "f", "{x}"), "tool_calls"], of_a("{x}", ("done", 0, "{x}", "wrong"))),
    "with arguments that are no object":
        ([(0, "a", "f", "[1]"), "tool_calls"], of_a("[1]", ("done", 0, "[1]", "wrong"))),
    "an empty object that comes again as text":
        ([(0, "a", "f", {}), "stop", (0, None, None, "{}"), "[DONE]"], [*EMPTY, EMPTY_DONE, ("arguments", 0, "{}")]),
    "an empty object, done again": (
        [(0, None, "f", {}), "tool_calls", (0, "a", None, None), "[DONE]"],
        [("started", 0, None, "f"), ("arguments", 0, "{}"), EMPTY_DONE, EMPTY_DONE],
    ),
    "an empty object after its call was done": (
        [(0, "a", "f", None), "tool_calls", (0, None, None, {}), "[DONE]"],
        [A_STARTED, ("done", 0, "", {}), ("arguments", 0, "{}"), EMPTY_DONE],
    ),
    "an empty object before later arguments":
        ([(0, "a", "f", {}), "tool_calls", (0, None, None, '{"x":1}'), "[DONE]"], [*EMPTY, EMPTY_DONE, A_STARTS[1], A_DONE]),
    "not by a later call before its name is there":
        ([(0, "a", None, '{"x":1}'), B, (0, None, "f", None), "tool_calls"], [*B_STARTS, *A_STARTS, A_DONE, B_DONE]),
}  # fmt: skip


@each_case(("steps", "expected"), DONES.values(), ids=DONES)
def test_when_a_call_is_done(steps: list[Any], expected: list[tuple[Any, ...]]) -> None:
    assert told_of(steps) == expected


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls", "content_filter", "function_call", "tool_use", "odd"])  # fmt: skip
def test_a_finish_reason_completes_the_calls(reason: str) -> None:
    assert told_of([A, reason]) == [*A_STARTS, A_DONE]


@each_case("reason", ["error", "network_error", "abort", "insufficient_system_resource"])
@each_case("late", [0, 9], ids=["at once", "late"])
def test_a_finish_reason_that_means_an_error_does_not(reason: str, late: int) -> None:
    parser, events = Stream([calls(A), delta(reason), DONE]).read(late)
    assert briefly(events) == [*A_STARTS, ("finished", reason, "error")]
    assert parser.end is StreamEnd.FAILED


def test_a_finish_reason_completes_the_calls_of_its_own_choice() -> None:
    both = [delta(index=index, tool_calls=[fragment(*A)]) for index in (0, 1)]
    told = [one.choice for one in only(ToolCallDone, events_of(*both, delta("tool_calls", 1)))]
    assert told == [1]
    told = [one.choice for one in only(ToolCallDone, events_of(*both, delta("stop", 1), DONE))]
    assert told == [1, 0]


ENDINGS: dict[str, Callable[[ChatCompletionParser], object]] = {
    "truncated": lambda parser: parser.close(),
    "interrupted": lambda parser: parser.interrupt(ConnectionError("reset")),
    "failed": lambda parser: parser.feed(ERROR + DONE),
    "invalid": lambda parser: parser.feed(event("oops") + DONE),
    "stalled": lambda parser: parser.feed(b": ping\n\n"),
    "closed": lambda parser: parser.leave(),
}


@each_case("late", [False, True], ids=["at once", "late"])
@each_case("end", ENDINGS)
def test_a_stream_that_does_not_end_well_completes_no_call(end: str, late: bool) -> None:
    times = iter([0.0, 1.0, 99.0])
    parser = ChatCompletionParser(progress_timeout=10, clock=lambda: next(times))
    told = [] if late else parser.events()
    parser.feed(calls(A) + calls(B))
    told += [] if late else parser.events()
    ENDINGS[end](parser)
    assert parser.end == end
    assert briefly(told + parser.events()) == [*A_STARTS, A_DONE, *B_STARTS]  # what is done stays done
    assert parser.events() == []


NO_NAME = (2, "c", None, '{"x":')
AFTER_FINISH: dict[str, tuple[list[Any], list[Any]]] = {
    "another call": ([B], [*A_STARTS, A_DONE, *B_STARTS]),
    "a call without a name": ([NO_NAME], [*A_STARTS, A_DONE]),
    "more of the call": ([(0, None, None, " ")], [A_STARTED, ("arguments", 0, A[3] + " ")]),
}


@each_case("end", ["interrupted", "closed", None])
@each_case("name", AFTER_FINISH)
def test_late_events_end_no_call_that_came_after_the_finish_reason(name: str, end: str | None) -> None:
    """Was once wrong: the first call of `events` told that it was done, even with arguments that were cut."""
    fragments, expected = AFTER_FINISH[name]
    parser, early = ChatCompletionParser(), ChatCompletionParser()
    early.events()
    for one in (parser, early):
        one.feed(calls(A) + delta("tool_calls") + calls(*fragments))
        if end is not None:
            ENDINGS[end](one)
    assert parser.end == early.end == end
    assert [row for row in briefly(parser.events()) if row[0] in ("started", "arguments", "done")] == expected
    assert [row for row in briefly(early.events()) if row[0] == "done"] == [A_DONE]


def test_a_choice_that_was_continued_is_over_at_its_next_finish_reason() -> None:
    parser = ChatCompletionParser(one_choice=True)
    parser.feed(delta(content="a") + delta("stop") + calls((1, "b", "g", '{"x":')))
    parser.feed(delta(content="x", index=1) + delta(index=1, tool_calls=[fragment(*A)]) + delta("stop", 1))
    assert [row for row in briefly(parser.events()) if row[0] == "done"] == [("done", 1, *A_DONE[2:])]


def test_arguments_with_very_many_values_are_left_to_you() -> None:
    """To parse them, where nobody asked, was once a minute of work and gigabytes."""
    whole = '{"x":[1' + ",1" * 250_000 + "]}"
    body = calls((0, "a", "f", whole)), calls(B), delta("tool_calls"), DONE
    first, second = only(ToolCallDone, events_of(*body))
    assert first.parsed is None
    assert isinstance(first.error, ParseError)
    assert "expected at most 250000 values to parse for an event, and 500000 in a stream" in str(first.error)
    assert first.error.text == first.call.arguments == whole
    assert first.call.type == "function"
    assert len(first.call.function.parse()["x"]) == 250_001
    assert second.error is None
    text = '{"x":"' + "," * 300_000 + '"}'
    [done] = only(ToolCallDone, events_of(calls((0, "a", "f", text)), DONE))
    assert done.parsed == {"x": "," * 300_000}


def test_the_values_of_all_arguments_are_counted_also_where_they_are_left_to_you(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One event of 32 MiB was once parsed for ten seconds, to values of 700 MB."""
    monkeypatch.setattr("chunkfold.events.recorder._MOST_VALUES", 250)
    monkeypatch.setattr("chunkfold.events.recorder._MOST_VALUES_IN_ALL", 500)
    most, more = ('{"x":[1' + ",1" * commas + "]}" for commas in (248, 249))
    for several, parsed in {(most, most, "{}"): [True, True, False], (more, more, '{"x":1}'): [False] * 3}.items():
        pieces = [calls((place, f"c{place}", "f", text)) for place, text in enumerate(several)]
        done = only(ToolCallDone, events_of(*pieces, DONE))
        assert [one.error is None for one in done] == parsed
        assert "and 500 in a stream" in str(done[-1].error)


def id_made_up_with(arguments: str) -> str:
    """The id of the first call, named f, if it is sent without one."""
    parser = ChatCompletionParser()
    parser.feed(calls((0, None, "f", arguments)) + delta("tool_calls") + DONE)
    return parser.completion().tool_calls[0].id or ""


WHOLE_CALLS = {
    "ids": [A, B],
    "no ids": [(0, None, "f", "{}"), (1, None, "g", "{}")],
    "no ids, no indexes": [(None, None, "f", "{}"), (None, None, "g", "{}"), (None, None, "f", "{}")],
    "an id like one that is made up": [(0, None, "f", "{}"), (1, id_made_up_with("{}"), "g", "{}")],
    "a name that comes late": [(0, "a", None, '{"x":1}'), B, (0, None, "f", None)],
    "an id that comes with more arguments": [(0, None, "f", '{"x"'), (1, "b", "g", "{}"), (0, "a", None, ":1}")],
    "unknown keys": [{**fragment(*A), "x": 1}, fragment(*B)],
    "a custom tool": [custom(0, "a", "h", "in"), B],
    "a custom tool without an id": [custom(0, None, "h", "in"), B],
}
LATE_CALLS = {
    "an id that comes late": [(0, None, "f", '{"x":1}'), B, (0, "a", None, None)],
    "an id like the one that was made up": [(0, None, "f", '{"x":1}'), B, (2, id_made_up_with('{"x":1}'), "h", "{}")],
    "a name that comes late, in a call of no id": [(0, None, None, '{"x":1}'), B, (0, None, "get_weather", None)],
    "an unknown key that comes late": [A, B, {"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}],
}  # fmt: skip


@each_case("name", [*WHOLE_CALLS, *LATE_CALLS])
def test_a_done_call_is_the_final_messages(name: str) -> None:
    """Of a call that changed late, the last one is."""
    pieces = [calls(one) for one in {**WHOLE_CALLS, **LATE_CALLS}[name]]
    parser, events = Stream([*pieces, delta("tool_calls"), DONE]).read()
    dones, final = only(ToolCallDone, events), parser.completion().tool_calls
    last = {one.position: one.call for one in dones}
    assert list(last.values()) == list(final)
    assert list(last) == list(range(len(final)))
    if name in WHOLE_CALLS:
        assert len(dones) == len({one.call.id for one in dones} - {None}) == len(final)
