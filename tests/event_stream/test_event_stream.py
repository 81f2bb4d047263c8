"""The decoder: WHATWG HTML section 9.2, rule by rule, and no rule depends on how the bytes were cut.

Each rule is a body in a table, with what must come out of it. Every body is read whole, in every two parts, byte by
byte, with empty reads in between, and with more data behind it. Beside the tables stands the standard once more, as
plainly as it can be written, to which any bytes at all are held.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from cases import each_case
from counted_calls import calls_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants import Decoded, check_decoder
from invariants import decoded as decode
from reference_decoder import decode_whole
from shared_data import shared_data

from chunkfold import EventStreamDecoder, ServerSentEvent
from chunkfold.testing import bytewise, cut

Pieces = list[bytes]

BOM = b"\xef\xbb\xbf"
often = settings(max_examples=60, deadline=None)  # no deadline: the machine may be busy
LONG_NUMBER = b"9" * 5000  # the interpreter refuses to convert so many digits at once


def event(data: bytes, event: str = "message", *, id: str = "", offset: int = 0) -> ServerSentEvent:
    return ServerSentEvent(data, event, id, offset)


# Ways to cut a body


def in_every_cut(body: bytes) -> Iterator[Pieces]:
    """Whole, in two at each place, byte by byte, and with empty reads around each byte."""
    yield [body]
    for place in range(len(body) + 1):
        yield cut(body, place)
    yield bytewise(body)
    yield [piece for byte in bytewise(body) for piece in (b"", byte, b"")]


# The rules


class Wire(NamedTuple):
    """A rule as a body, which ends where a block ends, and what comes of it."""

    rule: str
    body: bytes
    events: list[ServerSentEvent]
    last_event_id: str = ""
    reconnection_time: int | None = None


# 9.2.5 "Parsing an event stream": the body is UTF-8, decoded with one BOM less; a line ends with CRLF, LF or CR.
PARSING = [
    Wire("no bytes at all", b"", []),
    Wire("line ends: LF", b"data: a\n\ndata: b\n\n", [event(b"a"), event(b"b", offset=9)]),
    Wire("line ends: CR", b"data: a\r\rdata: b\r\r", [event(b"a"), event(b"b", offset=9)]),
    Wire("line ends: CRLF", b"data: a\r\n\r\ndata: b\r\n\r\n", [event(b"a"), event(b"b", offset=11)]),
    Wire("line ends: all three in one block", b"data: a\ndata: b\rdata: c\r\n\n", [event(b"a\nb\nc")]),
    Wire("line ends: CR, then CRLF is blank", b"data: a\r\r\ndata: b\n\n", [event(b"a"), event(b"b", offset=10)]),
    Wire("line ends: CRLF, then LF is blank", b"data: a\r\n\ndata: b\n\n", [event(b"a"), event(b"b", offset=10)]),
    Wire("line ends: LF, then CR is blank", b"data: a\n\rdata: b\n\n", [event(b"a"), event(b"b", offset=9)]),
    Wire("line ends: LF CR LF are two", b"data: a\n\r\ndata: b\n\n", [event(b"a"), event(b"b", offset=10)]),
    Wire(
        "line ends: nothing else ends a line, whatever Unicode says",
        "data: a\v\f\x1c\x1d\x1e\x85\u2028\u2029b\n\n".encode(),
        [event("a\v\f\x1c\x1d\x1e\x85\u2028\u2029b".encode())],
    ),
    Wire("JSON before data: no part of its event", b"data: a\n\n{\ndata: b\n\n", [event(b"a"), event(b"b", offset=11)]),
    Wire("BOM: dropped", BOM + b"data: a\n\n", [event(b"a", offset=3)]),
    Wire("BOM: dropped before a blank line", BOM + b"\n\ndata: a\n\n", [event(b"a", offset=5)]),
    Wire("BOM: alone", BOM, []),
    Wire("BOM: dropped once, the second names a field", BOM + BOM + b"data: a\n\n", []),
    Wire("BOM: only at the start", b"data: a\n\n" + BOM + b"data: b\n\n", [event(b"a")]),
    Wire("BOM: an ordinary character inside a value", b"data: " + BOM + b"a\n\n", [event(BOM + b"a")]),
    Wire("BOM: only whole", BOM[:2] + b"data: a\n\ndata: b\n\n", [event(b"b", offset=11)]),
    Wire("BOM: only its own bytes", b"\xef\xbb\xbe\ndata: a\n\n", [event(b"a", offset=4)]),
    Wire("UTF-8: a code point of four bytes", "data: 😀\n\n".encode(), [event("😀".encode())]),
    Wire("UTF-8: what is none ends no line and stays in the data", b"data: \xff\xe4\xbd\n\n", [event(b"\xff\xe4\xbd")]),
    Wire("UTF-8: a line end inside a code point is one", b"data: \xe4\ndata: \xbd\xa0\n\n", [event(b"\xe4\n\xbd\xa0")]),
    Wire("NUL is a character like others in data", b"data: a\0b\n\n", [event(b"a\0b")]),
]

# 9.2.6 "Interpreting an event stream": how a line is taken apart.
LINES = [
    Wire("comment: ignored", b": hi\n:\n::\n\ndata: a\n\n", [event(b"a", offset=11)]),
    Wire("comment: between data lines", b"data: a\n: hi\n:data: x\ndata: b\n\n", [event(b"a\nb")]),
    Wire("comment: no block of its own", b"data: a\n: hi\n\n: hi\n\n", [event(b"a")]),
    Wire("colon: one space after it is dropped", b"data: a\n\n", [event(b"a")]),
    Wire("colon: the space is optional", b"data:a\n\n", [event(b"a")]),
    Wire("colon: the second space stays", b"data:  a \n\n", [event(b" a ")]),
    Wire("colon: a tab stays", b"data:\ta\n\n", [event(b"\ta")]),
    Wire("colon: the first one counts", b"data:a: b:c\n\n", [event(b"a: b:c")]),
    Wire("no colon: the whole line is the name", b"data\n\n", [event(b"")]),
    Wire("no colon: nor is there a value", b"data a\n\n", []),
    Wire("field: unknown", b"foo: a\nfoo\ndata: b\nfoo: c\n\nfoo: d\n\n", [event(b"b", offset=11)]),
    Wire("field: the case counts", b"Data: a\nDATA: b\nEVENT: c\nID: d\nRetry: 5\n\n", []),
    Wire("field: blanks belong to the name", b" data: a\ndata : b\ndata\t: c\n\n", []),
    Wire("field: the whole name counts", b"dat: a\ndata2: b\nda\n\n", []),
    Wire("field: a name that is not UTF-8", b"data\xff: a\n\xff\n\n", []),
]

# 9.2.6 "Interpreting an event stream": what each field does, and when an event is dispatched.
FIELDS = [
    Wire("data: lines are joined by LF", b"data: a\ndata: b\ndata: c\n\n", [event(b"a\nb\nc")]),
    Wire("data: an empty line is a line", b"data: a\ndata:\ndata\ndata: \ndata: b\n\n", [event(b"a\n\n\n\nb")]),
    Wire("data: alone, it is dispatched", b"data:\n\ndata: \n\n", [event(b""), event(b"", offset=7)]),
    Wire("data: twice alone is one LF", b"data\ndata\n\n", [event(b"\n")]),
    Wire("no data: nothing is dispatched", b"\n\n: hi\n\nevent: a\n\nid:\n\nretry: x\n\nfoo: b\n\n", []),
    Wire("event: names the type", b"event: add\ndata: a\n\n", [event(b"a", "add")]),
    Wire("event: after the data as well", b"data: a\nevent: add\n\n", [event(b"a", "add")]),
    Wire("event: the last one counts", b"event: add\nevent: remove\ndata: a\n\n", [event(b"a", "remove")]),
    Wire("event: empty means message", b"event: add\nevent:\ndata: a\n\n", [event(b"a")]),
    Wire("event: without a colon means message", b"event: add\nevent\ndata: a\n\n", [event(b"a")]),
    Wire("event: a blank is a name", b"event:  \ndata: a\n\n", [event(b"a", " ")]),
    Wire("event: forgotten after its event", b"event: add\ndata: a\n\ndata: b\n\n", [event(b"a", "add"), event(b"b", offset=20)]),
    Wire("event: forgotten where there is no data", b"event: add\n\ndata: a\n\n", [event(b"a", offset=12)]),
    Wire("event: UTF-8", "event: 添\ndata: a\n\n".encode(), [event(b"a", "添")]),
    Wire("event: what is no UTF-8 is U+FFFD", b"event: a\xffb\ndata: a\n\n", [event(b"a", "a\N{REPLACEMENT CHARACTER}b")]),
    Wire("id: stands for its event", b"id: 1\ndata: a\n\n", [event(b"a", id="1")], "1"),
    Wire("id: after the data as well", b"data: a\nid: 1\n\n", [event(b"a", id="1")], "1"),
    Wire("id: sticky", b"id: 1\ndata: a\n\ndata: b\n\n", [event(b"a", id="1"), event(b"b", id="1", offset=15)], "1"),
    Wire("id: the last one counts", b"id: 1\nid: 2\ndata: a\n\n", [event(b"a", id="2")], "2"),
    Wire("id: a blank line commits it, without data too", b"id: 1\n\ndata: a\n\n", [event(b"a", id="1", offset=7)], "1"),
    Wire("id: empty takes it back", b"id: 1\n\nid:\ndata: a\n\n", [event(b"a", offset=7)], ""),
    Wire("id: without a colon takes it back", b"id: 1\n\nid\ndata: a\n\n", [event(b"a", offset=7)], ""),
    Wire("id: with NUL is ignored", b"id: 1\nid: 2\0\nid: \0\ndata: a\n\n", [event(b"a", id="1")], "1"),
    Wire("id: with NUL leaves the last one", b"id: 1\n\nid: \0\ndata: a\n\n", [event(b"a", id="1", offset=7)], "1"),
    Wire("id: UTF-8", "id: 号\ndata: a\n\n".encode(), [event(b"a", id="号")], "号"),
    Wire("id: what is no UTF-8 is U+FFFD", b"id: \xff\n\n", [], "\N{REPLACEMENT CHARACTER}"),
    Wire("retry: the reconnection time", b"retry: 1500\ndata: a\n\n", [event(b"a")], "", 1500),
    Wire("retry: the last one counts", b"retry: 1\nretry:2\n\nretry: 3\n\n", [], "", 3),
    Wire("error: no field of the standard", b'error: {"code":400}\nevent: x\n\ndata: a\n\n', [event(b"a", offset=30)]),
]  # fmt: skip

WIRE = [*PARSING, *LINES, *FIELDS]
on_every_rule = each_case("wire", WIRE, ids=lambda wire: wire.rule)


@on_every_rule
def test_rule(wire: Wire) -> None:
    for pieces in in_every_cut(wire.body):
        decoded = decode(pieces)
        assert decoded.events == wire.events
        assert decoded.last_event_id == wire.last_event_id
        assert decoded.reconnection_time == wire.reconnection_time
        assert decoded.unfinished is None
        assert not decoded.limit_exceeded


@on_every_rule
def test_rule_with_more_data_behind(wire: Wire) -> None:
    behind = event(b"behind", id=wire.last_event_id, offset=len(wire.body))
    for pieces in in_every_cut(wire.body + b"data: behind\n\n"):
        assert decode(pieces).events == [*wire.events, behind]


@each_case("wire", [wire for wire in WIRE if BOM[:2] not in wire.body[:2]], ids=lambda wire: wire.rule)
def test_rule_with_another_read_before(wire: Wire) -> None:
    """A body that has proved to be an event stream is read in another way."""
    before = b"data: before\n\n"
    events = [event(b"before"), *(one._replace(offset=len(before) + one.offset) for one in wire.events)]
    for pieces in in_every_cut(wire.body):
        assert decode([before, *pieces]).events == events


@each_case(
    ("value", "expected"),
    [
        # 9.2.6: "If the field value consists of only ASCII digits" ...
        (b"0", 0),
        (b"007", 7),
        (b"12345678910", 12345678910),
        (b"0" * 5000 + b"7", 7),
        # ... "Otherwise, ignore the field", so that the first one stands.
        (b"", 1),
        (b" 5", 1),
        (b"5 ", 1),
        (b"+5", 1),
        (b"-5", 1),
        (b"5.0", 1),
        (b"5e3", 1),
        (b"0x5", 1),
        (b"5_000", 1),
        (b"5000ms", 1),
        (b"5\0", 1),
        ("٥".encode(), 1),
        ("５".encode(), 1),
        ("²".encode(), 1),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_retry_takes_ascii_digits_only(value: bytes, expected: int) -> None:
    body = b"retry: 1\nretry: " + value + b"\n"
    for pieces in ([body], bytewise(body)):
        assert decode(pieces).reconnection_time == expected


def test_retry_of_very_many_digits_is_a_very_long_time() -> None:
    decoded = decode([b"retry: " + LONG_NUMBER + b"\ndata: a\n\n"])
    assert decoded.events == [event(b"a")]
    assert decoded.reconnection_time is not None
    assert decoded.reconnection_time > 10**600


@pytest.mark.parametrize(
    ("body", "dispatched_after"),
    [
        (b"data: a\n\ndata: b\n\n", [9, 18]),
        # The CR that ends the blank line is enough: its LF may never come.
        (b"data: a\r\rdata: b\r\r", [9, 18]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [10, 21]),
        (b"data: a\r\n\rdata: b\n\r\n", [10, 19]),
        (BOM + b"data: a\n\n", [12]),
    ],
)
def test_an_event_is_dispatched_with_the_byte_that_completes_it(body: bytes, dispatched_after: list[int]) -> None:
    decoder = EventStreamDecoder()
    seen = [place for place, byte in enumerate(body, 1) for _ in decoder.feed(bytes([byte]))]
    assert seen == dispatched_after


@each_case(
    ("data", "text"),
    [
        (b"", ""),
        ("aé号😀".encode(), "aé号😀"),
        (BOM + b"a", "\N{ZERO WIDTH NO-BREAK SPACE}a"),
        (b"a\xffb", "a\N{REPLACEMENT CHARACTER}b"),
        # The Encoding standard puts one U+FFFD for each longest beginning of a character, and for each other byte.
        (b"\xf0\x9f\x98", "\N{REPLACEMENT CHARACTER}"),
        (b"\xe4\n\xbd\xa0", "\N{REPLACEMENT CHARACTER}\n\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (b"\xc0\xaf", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"\xed\xa0\x80", "\N{REPLACEMENT CHARACTER}" * 3),
        (b"\xf4\x90\x80\x80", "\N{REPLACEMENT CHARACTER}" * 4),
    ],
)
def test_text_is_the_data_decoded_with_replacement_characters(data: bytes, text: str) -> None:
    assert event(data).text == text


# The standard once more, as plainly as it can be written


# Bytes that mean something to a decoder, in any order, and any others.
TOKENS = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b":", b" ", b"a", b"12", b"\0", b"\xff", BOM, BOM[:2], "é号😀".encode()),
        *(b"data", b"data:", b"data: ", b"data: a\n\n", b"event: ", b"id: ", b"retry: ", b"error:", b"error: {}"),
        *(b"foo", b"dat", b": hi"),
    ]
)
BODIES = st.lists(TOKENS | st.binary(max_size=3), max_size=30).map(b"".join)
FIRST_READS = st.sampled_from([b"", b":\n", b"data: a\n\n"])  # an empty one leaves open what the body is
LIMITS = st.none() | st.integers(0, 12) | st.sampled_from([100, 5000])
CUTS = st.lists(st.integers(0, 120), max_size=12)


@often
@given(FIRST_READS, BODIES, CUTS, LIMITS)
@example(b": ping\n", b"data: a\n\n", [], None)  # the comment does not belong to the event
@example(b"", b"retry: 5", [], None)  # 9.2.5: the end of the file is none of the ways in which a line can end
@example(b"error:\n\ndata: 1234567", b"\n\n", [], 6)  # a read after the limit was passed brings no error field
@example(b"", b"\n\na", [1], None)  # a blank line is all that the first read brings
@example(b"", b"a\r\nb", [2], None)  # a CRLF over two reads
@example(b"", b"a\nb\nc\nd", [3], 2)  # a body that is larger than the limit, in lines that are not
def test_any_bytes_are_read_by_the_book_in_any_cut(
    first: bytes, body: bytes, cuts: list[int], limit: int | None
) -> None:
    check_decoder(first + body, [len(first) + min(place, len(body)) for place in [0, *sorted(cuts)]], limit)


LIKE_FIELDS = [
    *(b"data: a", b"data", b" data: b", b"Data:c", b"DATA", b"\x0bdata :d", BOM + b"data: e", b"dates: f", b"data\x00"),
    *(b"event: a", b"event: error", b"event", b"events", b" event: b", b"id: 1", b"id", b"ids: 2", b" id: 3"),
    *(b"retry: 5", b"retry 6", b"error: boom", b"error", b"errors: no", b" error: no", b": a", b":", b" : a"),
    *(b'{"a": 1}', b" {", b"}", b"[", b"[DONE]", b" [DONE]", b'"error": {"code": 1}', b' [{"error":'),
    *(b'{"error": "a"}', b"", b"", b"a", b" a", b"\t", b"a" * 300),
]


@often
@given(
    FIRST_READS,
    st.lists(st.sampled_from(LIKE_FIELDS), max_size=12),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    LIMITS,
)
@example(b":\n", [b"DATA", b"a", b""], b"\n", None)
def test_lines_that_are_taken_in_one_step_are_each_line(
    first: bytes, lines: list[bytes], end: bytes, limit: int | None
) -> None:
    body = b"".join(line + end for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chunkfold.event_stream.decoder._SHORT_LINE", 1)
        expected = decode([first, body], limit)
        patch.setattr("chunkfold.event_stream.decoder._SHORT_LINE", 10**9)
        for longest in (0, 5, 10**9):
            patch.setattr("chunkfold.event_stream.decoder._SHORT_RUN", longest)
            for stretch in (5, 1024):
                patch.setattr("chunkfold.event_stream.lines._STRETCH", stretch)
                assert decode([first, body], limit) == expected


@pytest.mark.parametrize("begin", [b"x", b"dat", b"events", b" id", b": "])
def test_lines_that_mean_nothing_take_few_steps(begin: bytes) -> None:
    body = b"".join(b"%b%040d\n" % (begin, number) for number in range(1000))
    assert calls_of(lambda: decode([b":\n", body])) < 100


@pytest.mark.parametrize("line", [b"[1]", b'{"a": 1}'])
def test_a_line_of_json_that_is_repeated_takes_few_steps_once_no_more_is_shown(line: bytes) -> None:
    repeated = b"%b\n" % line * 100_000
    assert calls_of(lambda: decode([b":\n", repeated, b"\n"])) < 100_000


def test_different_short_lines_take_few_steps_each() -> None:
    body = b"id:\nevent:\nretry:\n" * 10_000
    assert calls_of(lambda: decode([b":\n", body])) < 5 * 30_000


def test_a_stretch_of_short_lines_does_not_end_within_a_line_end() -> None:
    """The 1024th byte is CR, and the LF behind it would be a blank line."""
    body = b"id:\r\nevent\r\n" * 1_000
    assert body[1023:1025] == b"\r\n"
    assert decode([b"data: x\n", body]).events == []
    assert [made.data for made in decode([b"data: x\n", body, b"\r\n"]).events] == [b"x"]


def test_blank_lines_before_the_first_event_are_no_opening() -> None:
    for pieces in ([b"\n" * 20, b"data: x\n\n"], [b"\n" * 20 + b"data: x\n\n"]):
        decoded = decode(pieces, 10)
        assert (decoded.opening, decoded.opening_limit) == (b"", None)


LINES_OF_BLOCKS = st.lists(st.sampled_from([b"data: a", b"data", b"id: 1", b"event: b", b""]), max_size=12)


@often
@given(LINES_OF_BLOCKS, st.sampled_from([b"\n", b"\r", b"\r\n"]), st.sampled_from([b"", BOM]))
def test_the_offset_is_where_the_block_begins(lines: list[bytes], end: bytes, start: bytes) -> None:
    body = start + b"".join(line + end for line in [*lines, b""])
    for one in decode([body]).events:
        before, rest = body[: one.offset], body[one.offset :]
        assert before.endswith(end * 2) or not before.removeprefix(start).strip()
        # From there on it is the same event, but for the id, which may be an earlier one's.
        assert decode([rest]).events[0]._replace(id=one.id, offset=one.offset) == one


# Other projects' tests


def load_suites() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(shared_data("conformance/sse.json").read_text("utf-8"))
    return cases


def body_of(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["input_base64"])


def own_cuts(case: dict[str, Any]) -> Pieces:
    """The pieces in which the suite feeds the body: whole, where it does not say."""
    return [base64.b64decode(piece) for piece in case.get("chunks_base64", [case["input_base64"]])]


def test_third_party_suites(subtests: pytest.Subtests) -> None:
    for case in load_suites():
        body = body_of(case)
        with subtests.test(suite=case["suite"], name=case["name"]):
            for pieces in (own_cuts(case), [body], bytewise(body)):
                decoded = decode(pieces)
                expected = [(event["event"], event["data"], event["id"]) for event in case["expected_events"]]
                assert [(event.event, event.text, event.id) for event in decoded.events] == expected
                assert decoded.last_event_id == case["expected_last_event_id"]
                assert decoded.reconnection_time == case["expected_retry_ms"]


def test_third_party_suites_after_each_read(subtests: pytest.Subtests) -> None:
    for case in load_suites():
        if "events_after_chunk" not in case:
            continue
        with subtests.test(suite=case["suite"], name=case["name"]):
            decoder, dispatched, counts = EventStreamDecoder(), 0, []
            for piece in own_cuts(case):
                dispatched += len(decoder.feed(piece))
                counts.append(dispatched)
            assert counts == case["events_after_chunk"]


def test_third_party_suites_with_limits(subtests: pytest.Subtests) -> None:
    limited = [case for case in load_suites() if "limits" in case]
    assert len(limited) == 2
    for case in limited:
        with subtests.test(suite=case["suite"], name=case["name"]):
            (limit,) = (size for size in case["limits"].values() if size is not True)
            for pieces in in_every_cut(body_of(case)):
                decoded = decode(pieces, limit)
                assert decoded.limit_exceeded
                assert decoded.events == []


# max_event_size: one event's data, and any one line, in bytes


class Sized(NamedTuple):
    """A body, and the smallest limit that it passes."""

    what: str
    body: bytes
    size: int


SIZED = [
    Sized("nothing", b"", 0),
    Sized("blank lines", b"\n" * 50, 0),
    Sized("the value of data", b"data: 12345\n\n", 5),
    Sized("the value of data without a space", b"data:12345\n\n", 5),
    Sized("the value of data with a space of its own", b"data:  2345\n\n", 5),
    Sized("bytes, not characters", "data: 号号\n\n".encode(), 6),
    Sized("data without a value", b"data\n\n", 0),
    Sized("several lines, with the LF between them", b"data: 12\ndata: 45\n\n", 5),
    Sized("several lines, CRLF counts like LF", b"data: 12\r\ndata: 45\r\n\r\n", 5),
    Sized("several lines without a value", b"data\ndata:\ndata: \ndata\n\n", 3),
    Sized("the largest of many events", b"data: 1\n\n" * 50 + b"data: 12345\n\n" + b"data: 1\n\n", 5),
    Sized("an unfinished line of data", b"data: 12345", 5),
    Sized("an unfinished block", b"data: 12\ndata: 45", 5),
    Sized("a comment", b": 3456789\n", 9),
    Sized("a comment between data", b"data: 1\n: 3456789\ndata: 2\n\n", 9),
    Sized("the largest of many comments", b": 3\n" * 50 + b": 3456789\n", 9),
    Sized("an unfinished comment", b": 3456789", 9),
    Sized("an unknown field", b"foo: 6789\n", 9),
    Sized("an unknown field that begins like data", b"dat: 6789\n", 9),
    Sized("an unknown field that data begins", b"data6: 89\n", 9),
    Sized("an unknown field, cut off data", b"dat\n", 3),
    Sized("an unknown field, data with a blank", b"data \n", 5),
    Sized("an unfinished unknown field", b"foo: 6789", 9),
    Sized("a word without a colon", b"123456789\n", 9),
    Sized("an event type", b"event: 89\n", 9),
    Sized("an id", b"id: 56789\n", 9),
    Sized("a retry", b"retry: 89\n", 9),
    Sized("an error", b"error: 89\n", 9),
]


@each_case("sized", SIZED, ids=lambda sized: sized.what)
def test_exactly_the_limit_passes(sized: Sized) -> None:
    unlimited = decode([sized.body])
    for pieces in in_every_cut(sized.body):
        assert decode(pieces, sized.size) == unlimited


@each_case("sized", [sized for sized in SIZED if sized.size], ids=lambda sized: sized.what)
def test_one_byte_more_than_the_limit_fails(sized: Sized) -> None:
    for pieces in in_every_cut(sized.body):
        assert decode(pieces, sized.size - 1).limit_exceeded


TOO_LARGE = [b"data: 123456\n\n", b"data: 12\ndata: 456\n\n", b": 3456\n", b"foo: 6\n", b"id: 56\n\n"]


@pytest.mark.parametrize("too_large", TOO_LARGE)
def test_what_came_before_the_limit_is_delivered_and_nothing_after(too_large: bytes) -> None:
    body = b"id: 1\ndata: 12345\n\n" + too_large + b"id: 2\ndata: a\n\nretry: 5\nerror: {}\n\ndata: b"
    for pieces in in_every_cut(body):
        decoded = decode(pieces, 5)
        assert decoded == Decoded([event(b"12345", id="1")], [], b"", "1", None, True, None, None)


@pytest.mark.parametrize("begin", [b"data: ", b"data:", b"data: 12\ndata: ", b": 1"])
def test_an_unfinished_line_may_have_the_limit_and_no_byte_more(begin: bytes) -> None:
    line = begin + b"1234567890"
    largest = decode([line + b"\n\n"]).events
    limit = len(largest[0].data) if largest else len(line)
    for size, is_passed in ((limit, False), (limit - 1, True)):
        decoder = EventStreamDecoder(max_event_size=size)
        decoder.feed(line)
        assert decoder.limit_exceeded is is_passed


@pytest.mark.parametrize("field", [b"id: ", b"event: "])
def test_an_id_or_a_name_may_have_8_mib(field: bytes) -> None:
    """Python keeps four bytes for each character of a text with an emoji."""
    longest = field + b"a" * (2**23 - len(field))
    for line, limit, refused_by in (
        (longest, 2**25, None),
        (longest + b"a", 2**25, 2**23),
        (longest + b"aa", 2**23 + 1, 2**23 + 1),  # known before the line ends, and so whatever line it is
        (longest + b"a", 2**22, 2**22),
        (longest + b"a", None, None),
        (b": " + longest, 2**25, None),
    ):
        for pieces in ([line + b"\ndata: 1\n\n"], [line, b"\ndata: 1\n\n"]):
            decoder = EventStreamDecoder(limit)
            events = [event for piece in pieces for event in decoder.feed(piece)]
            assert (len(events), decoder.limit_exceeded) == (refused_by is None, refused_by is not None)
            assert decoder.limit == (refused_by or limit)


def test_a_line_without_end_is_refused_as_soon_as_it_is_too_long() -> None:
    decoder = EventStreamDecoder(max_event_size=100)
    read = 0
    while not decoder.limit_exceeded:
        decoder.feed(b": wait " if not read else b"x" * 7)
        read += 7
    assert read == 105


# What the standard throws away


class Ending(NamedTuple):
    """A body that ends inside a block, and what is kept of that."""

    what: str
    body: bytes
    event: ServerSentEvent | None = None
    error: bytes | None = None
    data_terminated: bool = True


ENDINGS = [
    Ending("a whole line of data", b"data: a\n", event(b"a")),
    Ending("a line of data that CR ends", b"data: a\r", event(b"a")),
    Ending("a line of data without end", b"data: a", event(b"a"), data_terminated=False),
    Ending("data without a value", b"data", event(b""), data_terminated=False),
    Ending("the second line without end", b"data: a\ndata: b", event(b"a\nb"), data_terminated=False),
    Ending("another field without end", b"data: a\nfoo", event(b"a")),
    Ending("an event type", b"event: add\ndata: a\n", event(b"a", "add")),
    Ending("an event type without end", b"data: a\nevent: add", event(b"a", "add")),
    Ending("an id, as its dispatch would have committed it", b"id: 1\n\nid: 2\ndata: a\n", event(b"a", id="2", offset=7)),
    Ending("after another event", b"id: 1\ndata: a\n\ndata: b\n", event(b"b", id="1", offset=15)),
    Ending("after a BOM", BOM + b"data: a\n", event(b"a", offset=3)),
    Ending("an error", b'error: {"code":400}\n', error=b'{"code":400}'),
    Ending("an error without end", b'error: {"code":400}', error=b'{"code":400}'),
    Ending("an error that is no JSON", b"error: oops\n", error=b"oops"),
    Ending("an error beside data is none", b"error: {}\ndata: a\n", event(b"a")),
]  # fmt: skip


@each_case("ending", ENDINGS, ids=lambda ending: ending.what)
def test_an_unfinished_block_is_not_dispatched_but_kept(ending: Ending) -> None:
    """9.2.6: "If the file ends in the middle of an event, before the final empty line" it is not dispatched."""
    complete = decode_whole(ending.body)
    for pieces in in_every_cut(ending.body):
        decoded = decode(pieces)
        assert [event.data for event in decoded.events] == [event.data for event in complete.events]
        assert decoded.last_event_id == complete.last_event_id
        assert decoded.discarded == []
        assert decoded.unfinished is not None
        assert decoded.unfinished.event == ending.event
        error = decoded.unfinished.error
        assert (error and error.data) == ending.error
        assert decoded.unfinished.data_terminated is ending.data_terminated


@each_case("body", [b"", b"data: a\n\n", b": hi", b"event: a\n", b"id: 1\n", b"retry: 5\n", b"foo: a\n", BOM])
def test_without_data_or_error_nothing_is_unfinished(body: bytes) -> None:
    for pieces in in_every_cut(body):
        assert decode(pieces).unfinished is None


@each_case(
    ("body", "expected"),
    [
        (b'error: {"code":400}\n\n', [event(b'{"code":400}', "error")]),
        (b"error:[1]\n\n", [event(b"[1]", "error")]),
        (b'error: "oops"\n\n', [event(b'"oops"', "error")]),
        (b"error: {}\nerror: []\n\n", [event(b"[]", "error")]),
        (b"data: a\n\nid: 1\nerror: {}\n\n", [event(b"{}", "error", id="1", offset=9)]),
        (b"error: {}\n\nerror: []\n\n", [event(b"{}", "error"), event(b"[]", "error", offset=11)]),
        (b"error: oops\n\nerror\n\n", [event(b"oops", "error"), event(b"", "error", offset=13)]),
        (b"error: {}\ndata: a\n\n", []),
        (b"ERROR: {}\n\n", []),
        (b'data: a\n\n{"error":{"code":1}}\n\n', [event(b'{"error":{"code":1}}', "error", offset=9)]),
        (b': a\n\n{ "error" : "oops"}\n\n', [event(b'{ "error" : "oops"}', "error", offset=5)]),
        (b': a\n\n{\n"error": {\n"a":1}}\n\n', [event(b'{\n"error": {\n"a":1}}\n', "error", offset=5)]),
        (b': a\n\n[{\n"error": {\n"a":1}}]\n\n', [event(b'[{\n"error": {\n"a":1}}]\n', "error", offset=5)]),
        (b'data: a\n\n{"error":null}\n\n{"error":{}}\n\n{"error":""}\n\n{"a":1}\n\n', []),
        (b'data: a\n{"error":"oops"}\n\n', [event(b'{"error":"oops"}', "error", offset=8)]),
        (b'id: 1\n{"error":"oops"}\ndata: a\n\n', [event(b'{"error":"oops"}', "error", id="1")]),
        (b'event: error\n{"message":"oops"}\n\n', [event(b'{"message":"oops"}', "error")]),
    ],
)
def test_a_block_with_a_field_error_and_without_data_is_shown(body: bytes, expected: list[ServerSentEvent]) -> None:
    for pieces in in_every_cut(body):
        decoded = decode(pieces)
        assert [event for event in decoded.discarded if event.event == "error"] == expected
        assert all(event.event == "message" for event in decoded.events)


def test_what_is_discarded_is_that_of_the_last_feed() -> None:
    decoder = EventStreamDecoder()
    decoder.feed(b"error: {}\n\n")
    decoder.feed(b"data: a\n\n")
    assert decoder.discarded == []


def test_what_is_discarded_of_a_block_is_in_the_order_of_the_body() -> None:
    body = b'Data: 1\nid: 7\nerror: {}\n{"a":1}\n\n'
    expected = [event(b"1"), event(b"{}", "error", id="7", offset=8), event(b'{"a":1}', "", offset=24)]
    for pieces in in_every_cut(b": a\n" + body):
        assert [one._replace(offset=one.offset - 4) for one in decode(pieces).discarded] == expected


NEARLY_DATA = {
    b" data: {}\n\n": [event(b"{}")],
    b"Data: {}\n\n": [event(b"{}")],
    b"data : {}\n\n": [event(b"{}")],
    b"\tDATA\t:{}\n\n": [event(b"{}")],
    b"data: a\n\n\xef\xbb\xbfdata: {}\n\n": [event(b"{}", offset=9)],  # a BOM before each event, not only the first
    b"\xef\xbb\xbf\xef\xbb\xbfdata: {}\n\n": [event(b"{}", offset=3)],
    b" data: {}": [event(b"{}")],  # no line end, no blank line
    b" data: 1\n data: 2\n\n": [event(b"1")],  # the first of a block
    b"id: 7\ndata: a\n\n Data: b\n\n": [event(b"b", id="7", offset=15)],
    b"data: a\n data: b\n\n": [event(b"b", offset=8)],
    b" data: a\n\ndata: b\n\n data: c\n\n": [event(b"a"), event(b"c", offset=19)],
    b'data: a\n\n{"a": 1}\n\n': [event(b'{"a": 1}', "", offset=9)],  # bare JSON within a stream, not a body of it
    # Bare JSON, and a bare [DONE]: each line, while they are small together.
    b': a\n{"a": 1}\n{"b": 2}\n\n': [event(b'{"a": 1}', "", offset=4), event(b'{"b": 2}', "", offset=13)],
    b': a\nData: b\n{"a": 1}\nData: c\n\n': [event(b"b", offset=4), event(b'{"a": 1}', "", offset=12)],
    b"data: a\n\n[DONE] \n\n": [event(b"[DONE] ", "", offset=9)],
    b"[DONE]\n\ndata: a\n\n": [],
    b": a\n[1]\n\n": [],
    b'{"a": 1}\n\ndata: a\n\n': [],
    b'"data": {}\n\n': [],
    b"datum: {}\n\n": [],
    b"data: {}\n\n": [],
}


@each_case(("body", "expected"), NEARLY_DATA.items())
def test_a_field_that_is_nearly_data_is_shown_and_not_dispatched(body: bytes, expected: list[ServerSentEvent]) -> None:
    """9.2.6: "Otherwise: The field is ignored." """
    for pieces in in_every_cut(body):
        decoded = decode(pieces)
        assert decoded.discarded == expected
        assert [one.data for one in decoded.events] == [
            line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")
        ]


@each_case("line", [b"{" + b"a" * 99 + b"}\n", b"[DONE]" + b" " * 94 + b"\n"])
def test_what_is_shown_of_bare_json_is_bounded(line: bytes) -> None:
    decoder = EventStreamDecoder()
    decoder.feed(b": a\n" + line * 10_000 + b"\n")
    assert len(decoder.discarded) == (2**16 - 1) // (len(line) - 1)
    decoder.feed(line + b"\n")
    assert len(decoder.discarded) == 1


@each_case("other", [b"x" * 2**16, b"\n".join([b"data : 1"] * 2**13)])
def test_of_what_is_shown_of_bare_json_other_lines_do_not_count(other: bytes) -> None:
    body = b':\n{"a": 1}\n%b\n{"b": 2}\n\n' % other
    for pieces in ([body], body.splitlines(keepends=True)):
        assert [shown.data for shown in decode(pieces).discarded] == [b'{"a": 1}', b'{"b": 2}']


@each_case(("size", "is_shown"), [(2**16 - 3, True), (2**16 - 2, False)])
def test_how_much_bare_json_of_a_block_is_shown_after_its_first_line(size: int, is_shown: bool) -> None:
    """Less than 64 KiB with that line."""
    line = b"{" + b"x" * (size - 1)
    shown = [event(line, "", offset=5)] if is_shown else []
    assert decode([b":\n{}\n" + line + b"\n\n"]).discarded == [event(b"{}", "", offset=2), *shown]


@each_case("size", [2**20 - 3, 2**20 - 2, 2**21])
def test_how_much_is_shown_of_bare_json_in_several_lines(size: int) -> None:
    sent = b"{\n" + b"x" * size + b"\n"
    assert decode([b":\n" + sent + b"\n"]).discarded == [event(sent[: 2**20], "", offset=2)]


@each_case(("size", "is_whole"), [(2**16 - 3, True), (2**16 - 2, False)])
def test_how_much_is_shown_of_the_comments_in_an_error_event(size: int, is_whole: bool) -> None:
    """Less than 64 KiB, the end of the last line apart."""
    first = b":" + b"x" * (size - 1)
    expected = first + b"\n:y" if is_whole else first
    assert [shown.data for shown in decode([b"event: error\n" + first + b"\n:y\n\n"]).discarded] == [expected]


def test_bare_json_that_is_repeated_after_a_long_one_is_shown_each_time() -> None:
    body = b":\n{\n" + b'"a": 1,\n' * 2**17 + b'{"b": 2}\n' * 3 + b"\n"
    for pieces in ([body], body.splitlines(keepends=True)):
        assert [shown.data for shown in decode(pieces).discarded] == [body[2:][: 2**20], *[b'{"b": 2}'] * 3]


def test_what_is_nearly_data_stays_behind_the_events_before_it() -> None:
    """Its block is shown with the next events, so plain blocks must not overtake it."""
    decoder = EventStreamDecoder()
    decoder.feed(b"data: a\n\n Data: {}\n")
    assert decoder.discarded == []
    assert decoder.feed(b"data: b\n\n") == [event(b"b", offset=19)]
    assert decoder.discarded == [event(b"{}", offset=9)]
    assert decoder.feed(b"data: c\n\n") == [event(b"c", offset=28)]
    assert decoder.discarded == []


OPENINGS = {
    b"{}\n\ndata: a\n\n": b"{}\n\n",
    b"\n\r\n{}\r\n\r\ndata: a\n\n": b"{}\r\n\r\n",
    BOM + b"{\r}\rdata: a\r\r": b"{\r}\r",
    b"{\n: hi\n}\nid: 1\n\n": b"{\n: hi\n}\n",
    b"{}\ndata": b"{}\n",
    b"\n\ndata: a\n\n{}\n": b"",
    b": hi\n{}\ndata: a\n\n": b"",
    b"{}\n": b"",
    b"{}": b"",
}


@each_case(("body", "opening"), OPENINGS.items())
def test_what_stands_before_an_event_stream_is_shown(body: bytes, opening: bytes) -> None:
    for pieces in in_every_cut(body):
        assert decode(pieces).opening == opening


@pytest.mark.parametrize("size", [9, 10, 11, 5000, 5001])
@pytest.mark.parametrize("limit", [10, 5000])
def test_of_an_opening_that_is_larger_than_the_limit_only_the_beginning_is_shown(size: int, limit: int) -> None:
    """Also where the read that ends it is larger than the limit by itself."""
    opening = b"{\n" * (size // 2) + b"\n" * (size % 2)
    body = opening + b"data: a\n\n" * 1000
    for pieces in ([body], [opening, body[size:]], [body[:3], body[3:]], [bytes([one]) for one in body]):
        decoded = decode(pieces, limit)
        whole = (opening, None)
        assert (decoded.opening, decoded.opening_limit) == (whole if size <= limit else (opening[:4096], limit))


PREAMBLES = {
    b"": b"",
    BOM: b"",
    BOM[:2]: BOM[:2],
    BOM + b"{}": b"{}",
    b'{"error":{}}': b'{"error":{}}',
    b'{\r\n"a": 1\r\n}\r\n': b'{\r\n"a": 1\r\n}\r\n',
    b"<html>\r\r</html>\r": b"<html>\r\r</html>\r",
    b"foo: bar\n\nfoo\n\n": b"foo: bar\n\nfoo\n\n",
    b"dat": b"dat",
    # A colon at the start of a line proves nothing where other lines are foreign: style sheets have them.
    b"a {\n:root\n}\n": b"a {\n:root\n}\n",
    b"data": None,
    b"data: a\n\n": None,
    b"event:\n": None,
    b"id:\n": None,
    b"retry: x\n": None,
    b"error: x\n": None,
    b": hi\n": None,
    b": hi\nfoo: bar\n": None,
    b"foo: bar\ndata: a\n": None,
}


@each_case(("body", "preamble"), PREAMBLES.items())
def test_the_preamble_is_the_body_while_nothing_of_it_is_an_event_stream(body: bytes, preamble: bytes | None) -> None:
    for pieces in in_every_cut(body):
        assert decode(pieces).preamble == preamble


def test_blank_lines_prove_nothing() -> None:
    for pieces in in_every_cut(b"\n\r\n\r{}"):
        preamble = decode(pieces).preamble
        assert preamble is not None
        assert preamble.strip() == b"{}"


def test_the_preamble_is_bounded_by_the_limit() -> None:
    decoder = EventStreamDecoder(max_event_size=1000)
    for _ in range(1000):
        decoder.feed(b"<p>" + b"x" * 95 + b"\r\n")
    assert not decoder.limit_exceeded
    assert decoder.preamble
    assert decoder.preamble.startswith(b"<p>xxx")
    assert len(decoder.preamble) < 5000


# The end


def test_after_close_nothing_changes() -> None:
    decoder = EventStreamDecoder()
    decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b")
    decoder.close()
    unfinished = decoder.unfinished
    assert unfinished is not None
    decoder.close()
    assert decoder.feed(b"\n\nid: 3\nretry: 5\ndata: c\n\nerror: {}\n\n") == []
    decoder.close()
    assert decoder.unfinished is unfinished
    assert decoder.last_event_id == "1"
    assert decoder.reconnection_time is None
    assert decoder.discarded == []


def test_after_the_limit_nothing_changes() -> None:
    decoder = EventStreamDecoder(max_event_size=5)
    decoder.feed(b"data: a\n\ndata: 123456")
    assert decoder.feed(b"\n\ndata: b\n\n") == []
    decoder.close()
    assert decoder.limit_exceeded
    assert decoder.unfinished is None


def test_a_decoder_that_was_fed_nothing() -> None:
    assert decode([]) == Decoded([], [], b"", "", None, False, None, b"")


def test_an_event_is_a_value_with_the_defaults_of_the_standard() -> None:
    one = ServerSentEvent(b"a")
    assert one == (b"a", "message", "", 0)
    assert hash(one) == hash(ServerSentEvent(b"a"))
    with pytest.raises(AttributeError):
        one.data = b"b"


@pytest.mark.parametrize(("data", "exceeded"), [(b"12345", False), (b"123456", True)])
def test_the_limit_holds_for_whole_events_that_come_one_by_one(data: bytes, exceeded: bool) -> None:
    """From the second read on, a read that is one whole event takes a short way."""
    decoder = EventStreamDecoder(max_event_size=5)
    decoder.feed(b"data: a\n\n")
    events = decoder.feed(b"data: " + data + b"\n\n")
    assert ([event.data for event in events], decoder.limit_exceeded) == ([] if exceeded else [data], exceeded)


@each_case("is_closed", [True, False])
def test_no_event_comes_after_the_end(is_closed: bool) -> None:
    decoder = EventStreamDecoder(max_event_size=10)
    assert len(decoder.feed(b"data: a\n\n")) == 1
    if is_closed:
        decoder.close()
    else:
        assert decoder.feed(b"data: 01234567890\n\n") == []
        assert decoder.limit_exceeded
    assert [decoder.feed(b"data: b\n\n") for _ in range(3)] == [[], [], []]
