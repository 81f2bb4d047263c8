"""The hostile set, and what holds clients to it: `chunkfold.testing.hostile`."""

import re
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import each_case

from chunkfold import RULES
from chunkfold.testing import HostileStream, hold, hostile_streams
from chunkfold.testing.hostile import Call, Cost, Reading, chunkfold_client, judge
from chunkfold.testing.hostile.peers import PEERS, running_peers
from chunkfold.testing.hostile.report import BEGIN, END
from chunkfold.testing.readings import as_reading

COLUMNS = "complete streams read right | streams that must be refused | crashed instead"
PAGE = Path(__file__).parents[2] / "docs" / "hostile-streams.md"
STREAMS = {stream.name: stream for stream in hostile_streams()}

ANSWER = HostileStream("a", "", "", b"", texts=("Hi",), finish_reason="stop")
CALLING = replace(ANSWER, texts=("",), calls=(Call("f", '{"a":1}', "call_a"),), finish_reason="tool_calls")
FACTS = replace(ANSWER, reasoning="Hm", usage={"prompt_tokens": 1})
ERROR = replace(ANSWER, ending="error", finish_reason=None, message="overloaded")
CUT = replace(ANSWER, ending="cut", finish_reason=None)
HI = Reading(texts=("Hi",), calls=(), finish_reason="stop")
REFUSED = Reading(refused="ValueError: no")
CRASHED = Reading(refused="KeyError: 'choices'", has_crashed=True)


# The set


@pytest.mark.parametrize("is_abuse", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_chunkfold_gets_each_right(is_abuse: bool) -> None:
    streams = [stream for stream in STREAMS.values() if (stream.cost is not None) is is_abuse]
    if is_abuse:  # a fifth of the time that is left to others
        streams = [replace(stream, cost=Cost(seconds=2, megabytes=100)) for stream in streams]
    assert {verdict.stream.name: verdict.instead for verdict in hold(chunkfold_client(), streams)} == {
        stream.name: None for stream in streams
    }


def test_chunkfold_is_judged_by_its_texts_and_calls_also_if_the_snapshot_has_an_error() -> None:
    readings = [chunkfold_client().fold(stream.body) for stream in hostile_streams(abuse=False)]
    assert all(None not in (reading.texts, reading.calls) for reading in readings)


def test_the_set_is_large_and_has_no_doubles() -> None:
    assert len(STREAMS) == len(hostile_streams()) >= 60
    assert len({stream.body for stream in hostile_streams()}) == len(hostile_streams())
    assert {stream.ending for stream in hostile_streams()} == {"complete", "error", "cut", "invalid"}
    assert all(stream.sentence and stream.senders for stream in hostile_streams())


def test_each_rule_that_a_body_can_show_is_in_it() -> None:
    bodies = {stream.body for stream in hostile_streams()}
    # Whether CF221 is broken depends on the request; CF507 has the same body as CF501.
    assert {rule.id for rule in RULES if rule.example not in bodies} == {"CF221"}
    assert {rule.id for rule in RULES} - STREAMS.keys() == {"CF221", "CF507"}


# The judge


@each_case(
    ("stream", "reading"),
    [
        (ANSWER, HI),
        (ANSWER, replace(HI, finish_reason="end_turn")),
        (CALLING, Reading(texts=("",), calls=(Call("f", '{"a": 1}'),))),
        (FACTS, HI),
        (FACTS, replace(HI, reasoning="Hm", usage={"prompt_tokens": 1, "completion_tokens": 2})),
        (ERROR, REFUSED),
        (ERROR, replace(HI, finish_reason="error")),
        (ERROR, Reading(texts=("Hi",), calls=(), refused="APIError: overloaded", ending="error")),
        (CUT, REFUSED),
        (CUT, replace(HI, finish_reason="")),
    ],
)
def test_what_is_right(stream: HostileStream, reading: Reading) -> None:
    assert judge(stream, reading) is None


@each_case(
    ("stream", "reading", "instead"),
    [
        (ANSWER, REFUSED, "ValueError: no"),
        (ANSWER, replace(HI, texts=("HiHi\n",)), r"text: 'HiHi\n'"),
        (ANSWER, replace(HI, texts=()), "text: ''"),
        (ANSWER, replace(HI, finish_reason="stopstop"), "finish reason: 'stopstop'"),
        (ANSWER, replace(HI, calls=(Call("f", ""),)), "calls: f()"),
        (replace(ANSWER, texts=("Hi", "Ho")), replace(HI, texts=("Hi", "")), "text of choice 1: ''"),
        (CALLING, Reading(calls=()), "calls: none"),
        (CALLING, Reading(calls=(Call("f", '{"a":1}', "x"),)), 'calls: f({"a":1}) with the id x'),
        (FACTS, replace(HI, reasoning=""), "reasoning: ''"),
        (FACTS, replace(HI, usage={}), "usage: prompt_tokens missing"),
        (FACTS, replace(HI, usage={"prompt_tokens": 2}), "usage: prompt_tokens 2"),
        (ANSWER, CRASHED, "KeyError: 'choices'"),
        (ERROR, CRASHED, "crashed: KeyError: 'choices'"),
        (ERROR, HI, "no error: 'Hi', finish reason stop"),
        (CUT, replace(HI, finish_reason="error"), "accepted as whole: 'Hi', finish reason error"),
        (ANSWER, replace(REFUSED, ending="cut"), "taken as cut: ValueError: no"),
        (ERROR, replace(REFUSED, ending="error"), "without the provider's words: ValueError: no"),
        (ERROR, replace(REFUSED, ending="cut"), "taken as cut: ValueError: no"),
        (ERROR, Reading(texts=("",), refused="overloaded", ending="error"), "text: ''"),
        (CUT, HI, "accepted as whole: 'Hi', finish reason stop"),
        (CUT, replace(HI, finish_reason=None), "accepted as whole: 'Hi'"),
        (CUT, replace(HI, ending="complete"), "taken as complete: 'Hi', finish reason stop"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(stream: HostileStream, reading: Reading, instead: str) -> None:
    assert judge(stream, reading) == instead


# What abuse may cost


def test_the_cases_of_abuse_are_bounded_and_can_be_left_out() -> None:
    abuse = [stream for stream in STREAMS.values() if stream.cost is not None]
    assert {stream.name.startswith("abuse-") for stream in abuse} == {True}
    assert len(abuse) >= 10
    assert max(len(stream.body) for stream in STREAMS.values()) < 2**20
    assert [stream for stream in hostile_streams() if stream not in abuse] == [*hostile_streams(abuse=False)]


def large(_: bytes) -> str:
    held = [bytearray(1000) for _ in range(10_000)]
    return "Hi" if held else ""


def test_what_takes_too_long_or_too_much_memory_is_wrong() -> None:
    stream = replace(ANSWER, cost=Cost(seconds=0.2, megabytes=5))

    def slow(_: bytes) -> str:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return "Hi"

    def waits(_: bytes) -> str:
        time.sleep(0.3)
        return "Hi"

    told = [hold(fold, [stream])[0].instead for fold in (slow, large, waits, lambda _: "Ho")]
    assert told == ["takes more than 0.2 s of processor time", "takes more than 5 MB of memory", None, "text: 'Ho'"]
    assert not tracemalloc.is_tracing()
    assert [verdict.instead for verdict in hold(large, [ANSWER])] == [None]


def test_memory_is_measured_where_it_is_traced_already() -> None:
    tracemalloc.start()
    try:
        assert hold(large, [replace(ANSWER, cost=Cost(seconds=5, megabytes=5))])[0].instead is not None
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


# Any function

AS_DICT = {"text": "Hi", "tool_calls": [{"id": 7, "function": {"name": "f", "arguments": "{}"}}], "usage": None}
AS_OBJECT = SimpleNamespace(text="Hi", tool_calls=[SimpleNamespace(id=7, name="f", arguments="{}")], usage=None)


AS_READING = Reading(texts=("Hi",), calls=(Call("f", "{}", "7"),), usage={})
NOTHING_SAID = Reading(texts=(), calls=(), finish_reason="")


@pytest.mark.parametrize(
    ("value", "reading"), [(AS_DICT, AS_READING), (AS_OBJECT, AS_READING), ({"choices": []}, NOTHING_SAID)]
)
def test_a_function_may_return_a_dict_or_an_object(value: Any, reading: Reading) -> None:
    assert as_reading(value) == reading


def rows_of(page: str, columns: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    table = page.partition(f"| {columns} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[2:]]


def test_the_page_shows_the_set_and_that_chunkfold_gets_it_right() -> None:
    page = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = rows_of(page, "stream | what is sent | who sends it | ending")
    shown = [(cells[0].strip("`"), cells[3]) for cells in rows]
    assert shown == [(stream.name, stream.ending) for stream in hostile_streams()]
    assert {cells[4] for cells in rows} == {"✓"}
    scores = {cells[0]: cells[2:] for cells in rows_of(page, f"client | version | {COLUMNS}")}
    assert scores.keys() == {"chunkfold", *PEERS}
    for place, name in enumerate(scores, 4):
        complete, refused = (
            [cells[place] for cells in rows if (cells[3] == "complete") is kind] for kind in (True, False)
        )
        shown = [*(f"{marks.count('✓')} of {len(marks)}" for marks in (complete, refused)), str(refused.count("crash"))]
        assert scores[name] == shown


@pytest.mark.peers
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_answers_what_is_not_hostile(name: str) -> None:
    """Else its column would say nothing about the streams."""
    pytest.importorskip(name.replace("-", "_"))
    plain = ["comments", "crlf", "no-space", "one-tool-thrice", "usage-trailer", "error-then-done", "length"]
    with running_peers() as peers:
        client = next(peer for peer in peers if peer.name == name)
        verdicts = hold(client, [STREAMS[stream] for stream in plain])
    assert [(verdict.stream.name, verdict.instead) for verdict in verdicts if not verdict.right] == []
