"""`max_event_size` bounds one event's data, and any one line, in bytes; ids and names have limits of their own."""

from typing import NamedTuple

import pytest
from cases import each_case
from every_cut import event, in_every_cut
from invariants.decoding import Decoded
from invariants.decoding import decoded as decode
from reference_decoder import decode_whole

from chunkfold import EventStreamDecoder
from chunkfold.event_stream import decoder as decoder_module


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
def test_exactly_the_limit_passes_and_not_a_byte_more(sized: Sized) -> None:
    """Also from the second read on, where a read that is one whole event takes a short way."""
    unlimited = decode([sized.body])
    assert decode_whole(sized.body, sized.size) == decode_whole(sized.body)
    assert not sized.size or decode_whole(sized.body, sized.size - 1).limit_exceeded
    for pieces in in_every_cut(sized.body):
        assert decode(pieces, sized.size) == unlimited
        assert not sized.size or decode(pieces, sized.size - 1).limit_exceeded
        later = [b":\n\n", *pieces]
        assert decode(later, max(sized.size, 1)) == decode(later)
        assert not sized.size or decode(later, sized.size - 1).limit_exceeded


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


@pytest.mark.parametrize("size", [2**13, pytest.param(2**23, marks=pytest.mark.slow)])
@pytest.mark.parametrize("field", [b"id: ", b"event: "])
def test_an_id_or_a_name_may_have_8_mib(field: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps four bytes for each character of a text with an emoji."""
    assert decoder_module._LONGEST_TEXT == 2**23
    monkeypatch.setattr(decoder_module, "_LONGEST_TEXT", size)
    longest = field + b"a" * (size - len(field))
    for line, limit, refused_by in (
        (longest, 4 * size, None),
        (longest + b"a", 4 * size, size),
        (longest + b"aa", size + 1, size + 1),  # known before the line ends, and so whatever line it is
        (longest + b"a", size // 2, size // 2),
        (longest + b"a", None, None),
        (b": " + longest, 4 * size, None),
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
