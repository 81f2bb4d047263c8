"""Reports: that what is told of a recording is what a live reader knew, and that what a provider sent stays text.

The facts are held against the parser's own. The page is read back by a parser of HTML: its elements, its pictures and
their alternatives, and that nothing hostile became an element. How it looks is `test_report_browser`'s matter.
"""

import json
import re
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from made_recordings import CUT, EVERY, HOSTILE_RECORDING, KEEP_ALIVE, PLAIN, REFUSED, WHOLE, long_recording, recording
from made_streams import STREAMS, Stream
from shown_html import ACTING, ShownHtml

from chunkfold import StreamEnd
from chunkfold.recording import RecordedRead, Recording, replay
from chunkfold.report import Kind, Stall, StreamFacts, facts_of, page, trace
from chunkfold.report.facts import MOST_STALLS
from chunkfold.report.units import duration, short, steps_up_to, ticks
from chunkfold.testing import DONE, chunk, delta, usage

TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "section", "div", "span"),
    *("h1", "h2", "h3", "h4", "p", "a", "bdi", "strong", "em", "code", "pre", "details", "summary", "ul", "li"),
    *("dl", "dt", "dd", "table", "colgroup", "col", "thead", "tbody", "tr", "th", "td", "svg", "path"),
}


def told(recorded: Recording, name: str = "answer.jsonl") -> StreamFacts:
    return facts_of(recorded, name)


def read(*recordings: Recording) -> ShownHtml:
    return ShownHtml(page([told(each, f"{number}.jsonl") for number, each in enumerate(recordings)]))


# Facts


def test_each_event_is_a_mark_with_what_it_brought() -> None:
    assert [(mark.at, mark.brought, mark.is_chunk) for mark in told(WHOLE).marks] == [
        (0.2, {Kind.OTHER: 0}, True),
        (0.3, {Kind.REASONING: 7}, True),
        (0.4, {Kind.REASONING: 6}, True),
        (0.9, {Kind.OTHER: 0}, False),
        (1.4, {Kind.TEXT: 12}, True),
        (1.5, {Kind.TEXT: 7}, True),
        (1.5, {Kind.TOOL_CALL: 0}, True),
        (1.6, {Kind.TOOL_CALL: 17}, True),
        (1.7, {Kind.OTHER: 0}, True),
        (1.7, {Kind.USAGE: 0}, True),
        (1.8, {Kind.OTHER: 0}, False),
    ]


def test_a_chunk_late_in_a_large_read_is_no_stall() -> None:
    late = b": " + b"x" * 100_000 + b"\n\n" + delta("stop", content="b")
    reads = (RecordedRead(0.1, delta(content="a")), RecordedRead(40.0, late))
    stream = Recording(reads, ended_at=41.0, progress_timeout=30.0)
    assert facts_of(stream, "large").end is replay(stream).end is StreamEnd.FINISHED


CALL_ALONE = {"id": "call_1", "type": "function", "function": {"name": "look_up"}}


@each_case(
    ("recorded", "totals"),
    [
        (EVERY["images and audio"], {Kind.MEDIA: (2, 2)}),
        (EVERY["an old function call"], {Kind.TOOL_CALL: (1, 2)}),
        (EVERY["a whole completion"], {Kind.TEXT: (1, 2)}),
        (recording((0.1, chunk(usage="none"))), {Kind.OTHER: (1, 0)}),
        (recording((0.1, chunk(usage=usage(1, 2))), (0.2, chunk(usage=usage(1, 2)))), {Kind.USAGE: (2, 0)}),
        (
            recording((0.1, chunk({"message": {"tool_calls": [CALL_ALONE]}, "finish_reason": "stop"}))),
            {Kind.OTHER: (1, 0), Kind.TOOL_CALL: (1, 0)},
        ),
        (recording((0.1, b"\n" + KEEP_ALIVE), (0.2, DONE), (0.3, KEEP_ALIVE)), {Kind.OTHER: (2, 0)}),
    ],
)
def test_totals_count_events_and_characters_of_each_kind(recorded: Recording, totals: Any) -> None:
    """Those of several kinds are in the words of the pictures."""
    assert told(recorded).totals() == totals


def test_gaps_and_stalls_are_from_chunk_to_chunk_so_keep_alives_do_not_end_one() -> None:
    facts = told(WHOLE)
    assert facts.gaps == [0.1, 0.1, 1.0, 0.1, 0.1, 0.1]
    assert facts.stalls == [Stall(0.4, 1.0)]


def test_a_stall_is_a_quarter_of_a_second_and_ten_medians_long() -> None:
    def stalls(*times: float) -> list[Stall]:
        return told(recording(*((at, delta(content="a")) for at in times), seconds=99.0)).stalls

    assert stalls(1.0, 1.01, 1.02, 1.24) == []
    assert stalls(1.0, 1.01, 1.02, 1.27) == [Stall(1.02, 0.25)]
    assert stalls(1.0, 1.1, 1.2, 2.1) == []
    assert stalls(1.0, 1.1, 1.2, 2.2) == [Stall(1.2, 1.0)]
    assert stalls(1.0) == stalls(1.0, 9.0) == stalls() == []


def test_of_many_stalls_the_longest_are_told_in_order() -> None:
    pauses = [pause for number in range(22) for pause in (*[0.01] * 20, 0.3 + number)]
    facts = told(recording(*((at, delta(content="a")) for at in accumulate(pauses)), seconds=999.0))
    assert [stall.seconds for stall in facts.stalls] == [0.3 + number for number in range(2, 22)]
    assert len(facts.stalls) == MOST_STALLS
    assert "Of the stalls the 20 longest are shown." in ShownHtml(page([facts])).text


def test_tokens_are_counted_as_usage_told_them_and_never_guessed() -> None:
    assert told(WHOLE).tokens == [(1.7, 28)]
    assert told(WHOLE).tokens_per_second == pytest.approx(28 / (1.7 - 0.3))
    assert told(CUT).tokens_per_second is None
    assert told(PLAIN).tokens_per_second is None
    assert told(EVERY["usage in each"]).tokens == [(pytest.approx(0.2 + 0.1 * n), n) for n in range(1, 9)]


@settings(max_examples=25)
@given(STREAMS, st.lists(st.floats(0, 2).map(lambda seconds: round(seconds, 3)), min_size=12, max_size=12))
def test_the_facts_are_those_of_a_replay(stream: Stream, pauses: list[float]) -> None:
    at = 0.5
    reads: list[RecordedRead] = []
    for piece, pause in zip(stream.pieces, pauses, strict=False):
        at = round(at + pause, 3)
        reads.append(RecordedRead(at, piece))
    recorded = Recording(tuple(reads), headers_at=0.5, end="error" if stream.is_reset else "body", ended_at=at)
    facts, parser = told(recorded), replay(recorded)
    assert (facts.end, facts.chunks, facts.anomalies) == (parser.end, parser.chunks, parser.anomalies)
    assert (type(facts.error), str(facts.error)) == (type(parser.error), str(parser.error))
    assert facts.completion.model_dump_json() == parser.snapshot.model_dump_json()
    gaps = parser.timing.gaps
    assert len(facts.gaps) == (0 if gaps is None else gaps.count)
    assert max(facts.gaps, default=0) == pytest.approx(0 if gaps is None else gaps.longest, abs=1e-6)
    assert ShownHtml(page([facts])).tags <= TAGS


# The page


@each_case("name", EVERY)
def test_every_page_is_whole_and_takes_nothing_from_outside(name: str) -> None:
    markup = page([told(EVERY[name])])
    found = ShownHtml(markup)
    assert markup.startswith("<!doctype html>\n")
    assert found.tags <= TAGS
    values = found.attributes
    assert not [key for key, _ in values if key.startswith("on") or key in ("src", "srcset", "action")]
    assert {value for key, value in values if key == "href"} <= {"data:,"}
    style = markup.partition("<style>")[2].partition("</style>")[0]
    assert "prefers-color-scheme: dark" in style
    assert not re.search(r"@import|url\(|expression|https?:", style)
    assert not [value for key, value in values if value and re.search(r"\b(nan|inf)\b", value)]


@each_case("name", EVERY)
def test_every_page_can_be_read_without_seeing_it(name: str) -> None:
    found = read(EVERY[name], WHOLE)
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for picture in found.all("svg"):
        assert picture.get("aria-hidden") == "true" or (picture["role"] == "img" and picture["aria-label"])
    assert all(each.get("scope") in ("row", "col") for each in found.all("th"))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(each["href"])[1:] for each in found.all("a")} <= set(ids)
    assert {
        attributes["aria-labelledby"] for _, attributes in found.elements if "aria-labelledby" in attributes
    } <= set(ids)


def test_pictures_say_in_words_what_they_show() -> None:
    pictures = read(WHOLE).pictures
    assert pictures == [
        "waiting for headers 100 ms, waiting for output 200 ms, output 1.40 s, until the end 300 ms",
        "reasoning: 2 events, 300 ms to 400 ms",
        "text: 2 events, 1.40 s to 1.50 s",
        "tool call: 2 events, 1.50 s to 1.60 s",
        "usage: 1 event, at 1.70 s",
        "other: 4 events, 200 ms to 1.80 s",
        "1 stall: 1.00 s from 400 ms",
        "6 gaps; 5 from 100 ms to 200 ms, 1 from 1.00 s to 2.00 s",
        "49 characters over 2.00 s: 13 of reasoning, 19 of text, 17 of tool call",
    ]


def test_the_page_tells_the_facts() -> None:
    text = read(WHOLE).text
    for expected in (
        "✓ finished",
        "Tokens per second\n20.0\n",
        "Longest gap\n1.00 s\n",
        "First output\n300 ms\n",
        "prompt 12, completion 28, total 40 tokens",
        "read to its end",
        "https://api.example.com/v1/chat/completions",
        "Nothing: no rule was broken.",
        "Long ones: 1.00 s from 400 ms.",
        "One moment, please.",
        "look_up",
        '{"city": "Porto"}',
        "tool_calls",
        *("mean", "p50", "p95", "p99"),
    ):
        assert expected in text


LOOK_UP = {"name": "look_up", "arguments": '{"city": "Faro"}'}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": LOOK_UP}


@each_case(
    ("pieces", "told_once"),
    [
        ([delta("function_call", function_call=LOOK_UP)], ("look_up", '{"city": "Faro"}')),
        ([delta("tool_calls", tool_calls=[CALL], function_call=LOOK_UP)], ("look_up",)),
        (
            [delta(audio={"id": "a", "transcript": "Good "}), delta("stop", audio={"transcript": "morning."})],
            ("Transcript, 13 characters\nGood morning.\n",),
        ),
    ],
    ids=["a legacy function call", "a call in both forms", "a transcript"],
)
def test_what_else_was_called_or_spoken_is_told_once(pieces: list[bytes], told_once: tuple[str, ...]) -> None:
    text = read(recording(*((0.2, piece) for piece in pieces))).text
    assert [text.count(expected) for expected in told_once] == [1] * len(told_once)


def test_what_the_end_means_is_told_in_words() -> None:
    assert "Every choice has its finish reason.\n" in read(WHOLE).text
    done = recording((0.2, delta(content="a")), (0.3, DONE))
    assert "[DONE] arrived, but a choice has no finish reason.\n" in read(done).text


def test_what_broke_is_told_with_its_error_and_what_was_tolerated_with_its_rule() -> None:
    text = read(CUT).text
    assert "✕ interrupted" in text
    assert "StreamInterruptedError" in text
    assert "the transport raised ReadError" in text
    assert "Tokens per second" not in text
    assert "not reported" in text
    assert "reported without counts" in read(recording((0.1, chunk(usage={"cost": 0.1})))).text
    counts = recording((0.1, chunk(usage={"prompt_tokens": 3})), (0.2, chunk(usage={"completion_tokens": 0})))
    assert "prompt 3, completion 0 tokens" in read(counts).text
    assert told(counts).tokens == [(0.2, 0)]
    assert "APIStatusError" in read(REFUSED).text
    anomaly = told(HOSTILE_RECORDING).anomalies[0]
    tolerated = read(HOSTILE_RECORDING).text
    assert anomaly.rule.id in tolerated
    assert anomaly.rule.sentence in tolerated


def test_of_a_body_without_times_no_time_is_told() -> None:
    found = read(PLAIN)
    assert "This body has no times" in found.text
    assert found.pictures == []
    assert not re.search(r"\d (ms|s|min)\b", found.text)
    assert not re.search("First output|Longest gap|Tokens per second|Took", found.text)
    assert "no times" in read(PLAIN, WHOLE).text


def test_tokens_are_drawn_where_usage_comes_more_than_once_and_has_any() -> None:
    assert "8 completion tokens, reported 8 times over 2.00 s" in read(EVERY["usage in each"]).pictures
    none = recording(*((at, chunk(usage=usage(at, 0))) for at in (1, 2)))
    assert not [picture for picture in read(WHOLE, none).pictures if "completion token" in picture]


def test_several_recordings_begin_with_a_table_that_leads_to_each() -> None:
    found = read(WHOLE, CUT, PLAIN)
    assert [each["href"] for each in found.all("a")] == ["#s1", "#s2", "#s3"]
    overview = found.text.partition("Overview\n")[2]
    assert overview.index("2.jsonl") < overview.index("Timeline")
    assert re.findall(r'data-label="Longest gap"[^>]*>([^<]*)', page([told(WHOLE), told(PLAIN)])) == ["1.00 s", ""]
    assert [attributes["id"] for attributes in found.all("section")] == ["s1", "s2", "s3"]


def test_columns_of_numbers_and_of_code_look_like_them() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    calling = recording((0.2, delta(role="tool", tool_calls=[call])))
    looks = {*re.findall(r'class="(\w+)" data-label="([^"]+)"', page([told(calling), told(WHOLE)]))}
    numbers = ("First output", "Longest gap", "Tokens/s", "Chunks", "Times")
    assert looks == {*(("num", name) for name in numbers), ("code", "Arguments"), ("code", "Id")}


def test_the_bars_of_the_overview_have_one_scale() -> None:
    def last_x(markup: str, number: int) -> float:
        cell = markup.split('data-label="Took"')[number]
        return max(float(x) for x in re.findall(r"H([\d.]+)V100", cell.partition("</svg>")[0]))

    half = replace(WHOLE, ended_at=4.0)
    markup = page([told(WHOLE), told(half)])
    assert (last_x(markup, 1), last_x(markup, 2)) == (500, 1000)


def test_no_recording_is_no_page() -> None:
    with pytest.raises(ValueError, match="streams: expected at least one"):
        page([])


def test_what_a_provider_sends_is_text_and_every_character_of_it_can_be_seen() -> None:
    markup = page([told(HOSTILE_RECORDING, f"{HOSTILE_RECORDING.error}.jsonl")])
    found = ShownHtml(markup)
    assert found.tags <= TAGS
    assert not ACTING.search(markup.replace("\n", ""))
    assert "<script" not in markup
    harmless = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    # Name, error, rules, texts, refusal, call (thrice), finish reason, url, model, header (twice), transport's error.
    assert found.text.count(harmless) >= 12
    assert r"\x00\x1b[31m\u202eevil\u2066\u2028\x85" in found.text


def test_the_name_of_a_file_may_be_none_that_can_be_written() -> None:
    page([told(WHOLE, "a\udcff</title>.jsonl")]).encode()


@pytest.mark.parametrize("usage_in_each", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_of_a_long_recording_the_page_stays_small(usage_in_each: bool) -> None:
    small, large = (len(page([told(long_recording(n, usage_in_each=usage_in_each))])) for n in (500, 4000))
    assert large < 120_000
    assert large - small < 3500  # a byte for each chunk more, so a megabyte for a million


def test_long_values_are_cut_and_what_is_left_out_is_counted() -> None:
    found = read(EVERY["many of each"])
    assert "... and 1,000 more characters" in found.text
    assert "And 2 more choices." in found.text
    assert "And 5 more tool calls." in found.text
    long = "x" * 50_000
    wide = recording((0.2, delta(long, content="a")), url=long, error=long, end="error", headers={long: long})
    assert len(page([told(wide, long)])) - len(page([told(WHOLE)])) < 10_000


# The trace


def valid_events(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace, each checked against what the format asks of its phase."""
    value = json.loads(json.dumps(value, allow_nan=False))
    assert value["displayTimeUnit"] == "ms"
    for event in value["traceEvents"]:
        assert event["ph"] in ("M", "X", "i")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            continue
        assert type(event["ts"]) is int
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] >= 0
        else:
            assert event["s"] == "t"
    return value["traceEvents"]


def test_a_trace_has_the_request_its_phases_the_chunks_and_the_stalls() -> None:
    events = valid_events(trace([told(WHOLE)]))
    threads = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    rows = [
        (threads[each["tid"]], each["ph"], each["name"], each["ts"], each.get("dur"))
        for each in events
        if each["ph"] != "M"
    ]
    assert rows == [
        ("request", "X", "request", 0, 2_000_000),
        ("request", "X", "waiting for headers", 0, 100_000),
        ("request", "X", "waiting for output", 100_000, 200_000),
        ("request", "X", "output", 300_000, 1_400_000),
        ("request", "X", "until the end", 1_700_000, 300_000),
        ("request", "i", "headers", 100_000, None),
        ("stalls", "X", "stall", 400_000, 1_000_000),
        *((kind, "i", kind, round(mark.at * 1e6), None) for mark in told(WHOLE).marks for kind in mark.brought),
    ]


def test_each_recording_of_a_trace_is_a_process_and_those_without_times_are_left_out() -> None:
    events = valid_events(trace([told(WHOLE, "a"), told(PLAIN, "b"), told(CUT, "c")]))
    processes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert processes == {1: "a", 3: "c"}
    assert {each["pid"] for each in events} == {1, 3}


@each_case("name", EVERY)
def test_every_trace_is_valid_and_its_spans_nest(name: str) -> None:
    events = valid_events(trace([told(EVERY[name])]))
    spans = [(each["ts"], each["ts"] + each["dur"]) for each in events if each["ph"] == "X" and each["tid"] == 1]
    for outer, *inner in [spans] if spans else []:
        assert all(outer[0] <= start <= end <= outer[1] for start, end in inner)
        assert all(before[1] <= after[0] for before, after in pairwise(inner))


# Numbers


@each_case(
    ("seconds", "expected"),
    [
        (0, "0 ms"),
        (0.0000021, "0.0021 ms"),
        (0.00149, "1.5 ms"),
        (0.00995, "10 ms"),
        (0.0321, "32 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (9.994, "9.99 s"),
        (12.34, "12.3 s"),
        (125, "2 min 05 s"),
        (3600, "1 h 00 min"),
        (9001, "2 h 30 min"),
    ],
)
def test_durations_are_written_as_people_read_them(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected


def test_counts_are_written_as_people_read_them() -> None:
    assert [short(n) for n in (0, 999, 1000, 1250, 9999, 10_500, 2_000_000, 34_000_000)] == [
        *("0", "999", "1k", "1.2k", "10k", "10k", "2M", "34M")
    ]


@given(st.floats(1e-6, 1e9), st.integers(4, 8))
def test_ticks_are_round_and_neither_few_nor_many(most: float, wanted: int) -> None:
    found = ticks(most, wanted)
    assert found[0] == 0
    assert found[-1] <= most * 1.001
    assert 2 <= len(found) <= wanted + 2
    assert re.fullmatch(r"[125]\.?0*e[+-]\d+", f"{found[1]:.6e}")


def test_steps_end_with_the_first_above_the_most() -> None:
    assert list(steps_up_to(0.01)) == [0.001, 0.002, 0.005, 0.01, 0.02]
    assert list(steps_up_to(0.0)) == [0.001]


def test_even_gaps_are_binned_finely() -> None:
    reads = [RecordedRead(0.1 * number + number * number % 13 / 1000, delta(content="x")) for number in range(1, 200)]
    written = page([facts_of(Recording(tuple(reads), headers_at=0.0), "even")])
    assert len(re.findall(r"from \d+ ms to \d+ ms", written)) > 5
