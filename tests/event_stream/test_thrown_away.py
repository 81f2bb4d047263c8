"""What the standard throws away and providers mean: unfinished blocks, other fields, bare JSON, what is no event stream."""

from typing import NamedTuple

import pytest
from cases import each_case
from every_cut import BOM, event, in_every_cut
from invariants.decoding import decoded as decode
from reference_decoder import decode_whole

from chunkfold import EventStreamDecoder, ServerSentEvent


def test_blank_lines_before_the_first_event_are_no_opening() -> None:
    for pieces in ([b"\n" * 20, b"data: x\n\n"], [b"\n" * 20 + b"data: x\n\n"]):
        decoded = decode(pieces, 10)
        assert (decoded.opening, decoded.opening_limit) == (b"", None)


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
    Ending("an error before data", b'error: {"a":1}\ndata: a\n', event(b"a"), error=b'{"a":1}'),
    Ending("an error after data", b'data: a\nerror: "b"', event(b"a"), error=b'"b"'),
    Ending("an empty error beside data is none", b"error: {}\ndata: a\n", event(b"a")),
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
        *((b"data: a\nerror:%b\n\n" % value, []) for value in (b"", b" {}", b" []", b' ""', b" null", b" oops")),
        (b'error: {"a":1}\ndata: a\n\n', [event(b'{"a":1}', "error")]),
        (b'id: 1\ndata: a\nerror: "b"\n\n', [event(b'"b"', "error", id="1")]),
        (
            b'data: a\n\nid: 1\ndata: b\n{"error":{"code":1}}\n\n',
            [event(b'{"error":{"code":1}}', "error", id="1", offset=9)],
        ),
        (b"ERROR: {}\n\n", []),
        (b'data: a\n\n{"error":{"code":1}}\n\n', [event(b'{"error":{"code":1}}', "error", offset=9)]),
        (b': a\n\n{ "error" : "oops"}\n\n', [event(b'{ "error" : "oops"}', "error", offset=5)]),
        (b': a\n\n{\n"error": {\n"a":1}}\n\n', [event(b'{\n"error": {\n"a":1}}\n', "error", offset=5)]),
        (b': a\n\n[{\n"error": {\n"a":1}}]\n\n', [event(b'[{\n"error": {\n"a":1}}]\n', "error", offset=5)]),
        (b'data: a\n\n{"error":null}\n\n{"error":{}}\n\n{"error":""}\n\n{"a":1}\n\n', []),
        (b'data: a\n{"error":"oops"}\n\n', [event(b'{"error":"oops"}', "error")]),
        (b'id: 1\n{"error":"oops"}\ndata: a\n\n', [event(b'{"error":"oops"}', "error", id="1")]),
        (b'event: error\n{"message":"oops"}\n\n', [event(b'{"message":"oops"}', "error")]),
    ],
)
def test_an_error_in_a_block_is_shown(body: bytes, expected: list[ServerSentEvent]) -> None:
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
    body = b":\n{\n" + b'"a": "%b",\n' % (b"a" * 55) * 2**14 + b'{"b": 2}\n' * 3 + b"\n"
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
    body = opening + b"data: a\n\n" * (1 + limit // 9)
    for pieces in ([body], [opening, body[size:]], [body[:3], body[3:]], [bytes([one]) for one in body]):
        decoded = decode(pieces, limit)
        whole = (opening, None)
        assert (decoded.opening, decoded.opening_limit) == (whole if size <= limit else (opening[:4096], limit))


def test_an_opening_is_shown_though_the_lines_after_it_exceed_the_limit() -> None:
    """Those are taken in one step, but for the first, which ends the opening."""
    opening = b'{"choices": [{"index": 0, "delta": {"content": "How are you?"}}]}\n'
    for pieces in ([opening + b"data: a\n" * 100], [opening, *[b"data: a\n"] * 100]):
        decoder = EventStreamDecoder(len(opening))
        openings = [decoder.opening for piece in pieces if decoder.feed(piece) == []]
        assert (b"".join(openings), decoder.limit_exceeded, decoder.preamble) == (opening, True, None)


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
