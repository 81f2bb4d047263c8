"""The decoder: WHATWG HTML section 9.2, rule by rule, and no rule depends on how the bytes were cut.

Each rule is a body in a table, with what must come out of it. Every body is read whole, in every two parts, byte by
byte, with empty reads in between, and with more data behind it. Beside the tables stands the standard once more, as
plainly as it can be written, to which any bytes at all are held.
"""

import base64
from itertools import accumulate
from typing import Any, NamedTuple

import pytest
from cases import each_case
from counted_calls import calls_of
from every_cut import BOM, Pieces, event, in_every_cut
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants.decoding import Decoded, check_decoder
from invariants.decoding import decoded as decode
from reference_decoder import decode_whole
from shared_data import event_stream_suites

from chunkfold import EventStreamDecoder, ServerSentEvent
from chunkfold.event_stream.lines import SLICE, slices
from chunkfold.testing import bytewise

often = settings(max_examples=60, deadline=None)  # no deadline: the machine may be busy
LONG_NUMBER = b"9" * 5000  # the interpreter refuses to convert so many digits at once


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


@each_case("wire", WIRE, ids=lambda wire: wire.rule)
def test_rule(wire: Wire) -> None:
    """Also with more data behind it; and with a read before, since what has proved to be an event stream is read anew."""
    before = b"data: before\n\n"
    events = [event(b"before"), *(one._replace(offset=len(before) + one.offset) for one in wire.events)]
    behind = event(b"behind", id=wire.last_event_id, offset=len(wire.body))
    for pieces in in_every_cut(wire.body + b"data: behind\n\n"):
        assert decode(pieces).events == [*wire.events, behind]
    for pieces in in_every_cut(wire.body):
        assert wire.body.startswith(BOM[:2]) or decode([before, *pieces]).events == events
        decoded = decode(pieces)
        assert decoded.events == wire.events
        assert decoded.last_event_id == wire.last_event_id
        assert decoded.reconnection_time == wire.reconnection_time
        assert decoded.unfinished is None
        assert not decoded.limit_exceeded


@each_case("wire", WIRE, ids=lambda wire: wire.rule)
def test_the_reference_is_the_standard(wire: Wire) -> None:
    """It is what the decoder is held to for any other bytes."""
    reference = decode_whole(wire.body)
    assert [(one.data, one.event, one.id, one.offset) for one in reference.events] == [
        tuple(one) for one in wire.events
    ]
    assert (reference.last_event_id, reference.reconnection_time) == (wire.last_event_id, wire.reconnection_time)


@each_case(
    ("value", "expected"),
    [
        # 9.2.6: "If the field value consists of only ASCII digits" ...
        *((b"0", 0), (b"007", 7), (b"12345678910", 12345678910), (b"0" * 5000 + b"7", 7)),
        # ... "Otherwise, ignore the field", so that the first one stands.
        *(
            (value, 1)
            for value in (b"", b" 5", b"5 ", b"+5", b"-5", b"5.0", b"5e3", b"0x5", b"5_000", b"5000ms", b"5\0")
        ),
        *((digit.encode(), 1) for digit in "٥５²"),
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


@each_case(
    ("body", "steps"),
    [
        *((b"".join(b"%b%040d\n" % (begin, number) for number in range(1000)), 100)
          for begin in (b"x", b"dat", b"events", b" id", b": ")),
        *((b"%b\n" % line * 100_000, 100_000) for line in (b"[1]", b'{"a": 1}')),  # of which no more is shown
        (b"id:\nevent:\nretry:\n" * 10_000, 5 * 30_000),
    ],
)  # fmt: skip
def test_lines_that_mean_nothing_take_few_steps(body: bytes, steps: int) -> None:
    assert calls_of(lambda: decode([b":\n", body, b"\n"])) < steps


def test_a_stretch_of_short_lines_does_not_end_within_a_line_end() -> None:
    """The 1024th byte is CR, and the LF behind it would be a blank line."""
    body = b"id:\r\nevent\r\n" * 1_000
    assert body[1023:1025] == b"\r\n"
    assert decode([b"data: x\n", body]).events == []
    assert [made.data for made in decode([b"data: x\n", body, b"\r\n"]).events] == [b"x"]


# Other projects' tests


def body_of(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["input_base64"])


def own_cuts(case: dict[str, Any]) -> Pieces:
    """The pieces in which the suite feeds the body: whole, where it does not say."""
    return [base64.b64decode(piece) for piece in case.get("chunks_base64", [case["input_base64"]])]


def test_third_party_suites(subtests: pytest.Subtests) -> None:
    for case in event_stream_suites():
        body = body_of(case)
        with subtests.test(suite=case["suite"], name=case["name"]):
            decoder = EventStreamDecoder()
            counts = [*accumulate(len(decoder.feed(piece)) for piece in own_cuts(case))]
            assert case.get("events_after_chunk", counts) == counts
            for pieces in (own_cuts(case), [body], bytewise(body)):
                decoded = decode(pieces)
                expected = [(event["event"], event["data"], event["id"]) for event in case["expected_events"]]
                assert [(event.event, event.text, event.id) for event in decoded.events] == expected
                assert decoded.last_event_id == case["expected_last_event_id"]
                assert decoded.reconnection_time == case["expected_retry_ms"]


# The end


@each_case("last", [b"\n\ndata: 0123456789", None], ids=["a limit", "close"])
def test_after_the_end_nothing_changes(last: bytes | None) -> None:
    decoder = EventStreamDecoder(max_event_size=8)
    assert len(decoder.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b")) == 1
    if last is None:
        decoder.close()
    else:
        decoder.feed(last)
    assert decoder.limit_exceeded is (last is not None)
    unfinished = decoder.unfinished
    assert (unfinished is not None) is (last is None)
    for _ in range(2):
        assert decoder.feed(b"\n\nid: 3\nretry: 5\ndata: c\n\nerror: {}\n\n") == []
        decoder.close()
    assert decoder.unfinished is unfinished
    assert decoder.last_event_id == ("1" if last is None else "2")
    assert (decoder.reconnection_time, decoder.discarded) == (None, [])


def test_a_decoder_that_was_fed_nothing() -> None:
    assert decode([]) == Decoded([], [], b"", "", None, False, None, b"")


def test_an_event_is_a_value_with_the_defaults_of_the_standard() -> None:
    one = ServerSentEvent(b"a")
    assert one == (b"a", "message", "", 0)
    assert hash(one) == hash(ServerSentEvent(b"a"))
    with pytest.raises(AttributeError):
        one.data = b"b"


# Large reads are cut where blocks end, whichever ends their lines have


@pytest.mark.parametrize("data", [b"x" * 100_000, b"\r\n" * 50_000, b"\r\n\r\n" + b"data: a\n\n" * 10_000])
def test_whatever_is_in_it_no_slice_is_large(data: bytes) -> None:
    pieces = [*slices(data)]
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= 4 * SLICE
