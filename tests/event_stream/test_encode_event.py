"""The encoder: what it writes, what it refuses, and that the decoder gives back what went in."""

import re
from itertools import accumulate
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from parsed_bodies import decoded

from chunkfold import EventStreamDecoder, ServerSentEvent, encode_event

# Whatever fits into one line of UTF-8; the decoder ignores an id with NUL, so an encoder cannot send one.
ONE_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20)
EVENT_TYPES = ONE_LINE.filter(bool) | st.just("message")  # an empty type would come out as "message"
DATA = st.text(st.sampled_from("\r\n :\0aé"), max_size=20).map(str.encode) | st.binary(max_size=40)
EVENTS = st.builds(ServerSentEvent, DATA, EVENT_TYPES, ONE_LINE)


@each_case(
    ("data", "fields", "wire"),
    [
        (b"a", {}, b"data: a\n\n"),
        (b"", {}, b"data: \n\n"),
        ("号", {}, b"data: \xe5\x8f\xb7\n\n"),
        (b"a\nb", {}, b"data: a\ndata: b\n\n"),
        (b"a\r\nb\rc", {}, b"data: a\ndata: b\ndata: c\n\n"),
        (b"\n", {}, b"data: \ndata: \n\n"),
        (b"a\n", {}, b"data: a\ndata: \n\n"),
        (b"a\r", {}, b"data: a\ndata: \n\n"),
        ("a\u2028b\x0bc\x85d", {}, "data: a\u2028b\x0bc\x85d\n\n".encode()),
        (bytearray(b"a"), {}, b"data: a\n\n"),
        (memoryview(b"a\nb"), {}, b"data: a\ndata: b\n\n"),
        (b"a", {"event": "message"}, b"data: a\n\n"),
        (b"a", {"event": "add"}, b"event: add\ndata: a\n\n"),
        (b"a", {"id": "1"}, b"id: 1\ndata: a\n\n"),
        (b"a", {"retry": 0}, b"retry: 0\ndata: a\n\n"),
        (b"a", {"event": "号", "id": "é", "retry": 1500}, "event: 号\nid: é\nretry: 1500\ndata: a\n\n".encode()),
        (ServerSentEvent(b"a"), {}, b"data: a\n\n"),
        (ServerSentEvent(b"a\nb", "add", "1", 99), {"retry": 5}, b"event: add\nid: 1\nretry: 5\ndata: a\ndata: b\n\n"),
    ],
)
def test_on_the_wire(data: Any, fields: dict[str, Any], wire: bytes) -> None:
    assert encode_event(data, **fields) == wire


@given(st.lists(EVENTS, max_size=5))
def test_decoding_gives_the_same_events_back(events: list[ServerSentEvent]) -> None:
    """But for the line ends, which are LF then, and for an empty id, which takes back none that came before."""
    again = decoded(b"".join(map(encode_event, events)))
    ids = accumulate((event.id for event in events), lambda last, id_: id_ or last)
    assert [(event.data, event.event, event.id) for event in again] == [
        (re.sub(b"\r\n|\r", b"\n", event.data), event.event, id_) for event, id_ in zip(events, ids, strict=True)
    ]


@given(st.integers(min_value=0))
def test_retry_comes_back(retry: int) -> None:
    decoder = EventStreamDecoder()
    decoder.feed(encode_event(b"a", retry=retry))
    assert decoder.reconnection_time == retry


@each_case("field", ["event", "id"])
@each_case("value", ["\n", "\r", "\0", "a\nb", "a\r", "\r\na", "a\ndata: forged", "message\n"])
def test_more_than_one_line_is_refused(field: str, value: str) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(
        ValueError, match=re.escape(f"{field}: expected one line without CR, LF or NUL, received {value!r}")
    ):
        encode_event(b"a", **fields)
    with pytest.raises(ValueError, match=f"{field}: "):
        encode_event(ServerSentEvent(b"a", **fields))


@pytest.mark.parametrize("data", [5, [97], None])
def test_what_bytes_could_be_made_of_is_no_data(data: Any) -> None:
    """`bytes` would make five NULs of a 5, and an `a` of the list."""
    with pytest.raises(
        TypeError, match=re.escape(f"data: expected bytes, a str or a ServerSentEvent, received {data}")
    ):
        encode_event(data)


def test_a_negative_retry_is_refused() -> None:
    with pytest.raises(ValueError, match=r"retry: expected 0 or more, received -1"):
        encode_event(b"a", retry=-1)
    with pytest.raises(TypeError, match=r"retry: expected an int or None, received True"):
        encode_event(b"a", retry=True)


@pytest.mark.parametrize(
    "fields", [{"data": "\ud83d"}, {"data": b"a", "event": "\ud83d"}, {"data": b"a", "id": "\ud83d"}]
)
def test_half_a_surrogate_pair_is_refused(fields: dict[str, Any]) -> None:
    """It has no UTF-8; the codec's own error says so, and it is a ValueError."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_event(**fields)
