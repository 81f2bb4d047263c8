"""A first call of `events()` that comes late begins with what has arrived."""

import pytest
from cases import each_case
from event_rows import (
    A_DONE,
    A_STARTED,
    A_STARTS,
    B_DONE,
    B_STARTS,
    CITATION,
    IMAGE,
    A,
    B,
    briefly,
    calls,
    only,
    short_repr,
)
from made_streams import STOP, Stream

from chunkfold import AnomalyNoted, AudioDelta, ChatCompletionParser
from chunkfold.testing import DONE, chunk, delta


def test_a_late_first_call_begins_with_what_has_arrived() -> None:
    parser = ChatCompletionParser()
    parser.feed(b"".join([delta(role="assistant"), delta(reasoning="h"), delta(reasoning="m"), delta(content="a")]))
    parts = delta(content=["b", IMAGE, {"type": "reference"}])
    parser.feed(b"".join([parts, calls((0, "a", "f", '{"x"')), chunk(usage={"prompt_tokens": 1})]))
    assert briefly(parser.events()) == [
        ("reasoning", "hm"),
        ("text", "ab"),
        ("image", IMAGE),
        A_STARTED,
        ("arguments", 0, '{"x"'),
        ("usage", {"prompt_tokens": 1}),
    ]
    parser.feed(calls((0, None, None, ":1}")) + delta(reasoning="!"))
    assert briefly(parser.events()) == [("arguments", 0, ":1}"), ("reasoning", "!")]
    parser.feed(delta("tool_calls") + DONE)
    assert briefly(parser.events()) == [A_DONE, ("finished", "tool_calls", "tool_calls")]
    assert parser.events() == []


def test_a_late_first_call_tells_things_in_their_order() -> None:
    pieces = [
        *(delta(reasoning="h"), delta(content="a"), delta(images=[IMAGE]), delta(reasoning="m"), calls(A)),
        *(delta(refusal="r"), calls(B), delta(audio={"data": "QUI="}), delta(content="b")),
        *(delta(index=1, content="x"), delta(annotations=[CITATION]), delta("tool_calls"), delta("stop", 1)),
    ]
    _, events = Stream([*pieces, DONE]).read(99)
    assert [(one.choice, *short_repr(one)) for one in events] == [
        (0, "reasoning", "h"),
        (0, "text", "a"),
        (0, "image", IMAGE),
        (0, "reasoning", "m"),
        *((0, *row) for row in A_STARTS),
        (0, "refusal", "r"),
        (0, *A_DONE),
        *((0, *row) for row in B_STARTS),
        (0, "audio", b"AB", ""),
        (0, "text", "b"),
        (0, "annotation", "url_citation"),
        (0, *B_DONE),
        (0, "finished", "tool_calls", "tool_calls"),
        (1, "text", "x"),
        (1, "finished", "stop", "stop"),
    ]


@each_case("late", [1, 2, 3, 4])
@each_case("pieces", [["QUI=", "Qw==", "REVG", "Rw=="], ["Q", "UJDR", "EVGR", "w=="]], ids=["each", "cut"])
def test_a_late_first_call_in_the_middle_of_audio(pieces: list[str], late: int) -> None:
    stream = Stream([delta(audio={"data": piece, "transcript": piece[0]}) for piece in pieces])
    told = only(AudioDelta, stream.read(late)[1])
    assert b"".join(one.data for one in told) == b"ABCDEFG"
    assert "".join(one.transcript for one in told) == "".join(piece[0] for piece in pieces)
    assert len(told) == 1 + len(pieces) - late


def test_a_late_first_call_tells_of_anomalies_first() -> None:
    parser, events = Stream([delta(content="a", role=""), delta(role=""), STOP]).read(99)
    assert briefly(events, noted=True) == [
        ("noted", "CF203"),
        ("noted", "CF501"),
        ("text", "a"),
        ("finished", "stop", "stop"),
    ]
    assert [one.anomaly for one in only(AnomalyNoted, events)] == list(parser.anomalies)


def test_a_late_first_call_of_a_stream_without_anything() -> None:
    assert ChatCompletionParser().events() == []
    parser = ChatCompletionParser(status_code=500)
    parser.feed(b"oops")
    parser.close()
    assert parser.events() == []


FEW = {
    "text": [delta(content="a")] * 500,
    "reasoning and text": [delta(reasoning="h")] * 500 + [delta(content="a")] * 500,
    "arguments": [calls((0, "a", "f", "x"))] + [calls((0, None, None, "x"))] * 500,
    "interleaved calls": [calls((0, "a", "f", "x"), (1, "b", "g", "x"))] * 500,
    "usage": [chunk(usage={"prompt_tokens": count}) for count in range(500)],
    "audio": [delta(audio={"data": "QUJD"})] * 500,
}


@pytest.mark.parametrize("pieces", FEW.values(), ids=FEW)
def test_a_late_first_call_tells_it_in_few_events(pieces: list[bytes]) -> None:
    assert 0 < len(briefly(Stream(pieces).read(len(pieces))[1])) <= 4
