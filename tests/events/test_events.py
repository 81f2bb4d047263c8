"""What each event tells of a stream, as it comes or late. Calls, media and streams have files of their own.

That events add up to the message, whatever the cuts, is a promise (`invariants.events`).
"""

import dataclasses
from typing import Any

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
    events_of,
    only,
    short_repr,
)
from made_streams import ERROR, STOP, Stream

from chunkfold import AnomalyNoted, AudioDelta, ChatCompletionParser
from chunkfold.testing import DONE, choice, chunk, delta

F_START = (0, "a", "f", '{"x"')

TELLS: dict[str, tuple[list[bytes], list[tuple[Any, ...]]]] = {
    "text": ([delta(content="Hel"), delta(content="lo")], [("text", "Hel"), ("text", "lo")]),
    "nothing": ([delta(role="assistant", content=""), delta(refusal="", reasoning=""), delta()], []),
    "text in a content list": (
        [delta(content=[{"type": "text", "text": "a"}, "b", {"type": "text", "text": ""}])],
        [("text", "a"), ("text", "b")],
    ),
    "refusal": ([delta(refusal="I "), delta(refusal="can't")], [("refusal", "I "), ("refusal", "can't")]),
    "a content list, in its order": (
        [delta(content=[{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}])],
        [("text", "a"), ("reasoning", "hm"), ("text", "b")],
    ),
    "several fields of one delta": (
        [delta(content="a", refusal="b", reasoning="c")],
        [("reasoning", "c"), ("text", "a"), ("refusal", "b")],
    ),
    "a pair of surrogates that was cut": (
        [delta(content="a\ud83d"), delta(content="\ude00b")],
        [("text", "a"), ("text", "😀b")],
    ),
    "half a pair at the end": ([delta(content="a\ud83d"), DONE], [("text", "a"), ("text", "\N{REPLACEMENT CHARACTER}")]),
    "a tool call": (
        [calls(F_START), calls((0, None, None, ":1}")), delta("tool_calls")],
        [
            ("started", 0, "a", "f"),
            ("arguments", 0, '{"x"'),
            ("arguments", 0, ":1}"),
            ("done", 0, '{"x":1}', {"x": 1}),
            ("finished", "tool_calls", "tool_calls"),
        ],
    ),
    "audio": (
        [delta(audio={"id": "i", "data": "QUI=", "transcript": "A"}), delta(audio={"expires_at": 1})],
        [("audio", b"AB", "A")],
    ),
    "a transcript alone": ([delta(audio={"transcript": "A"})], [("audio", b"", "A")]),
    "images": ([delta(images=[IMAGE, IMAGE]), delta(images=[])], [("image", IMAGE)] * 2),
    "images in content lists": (
        [delta(content=[{"type": "reference"}, "a", IMAGE, {"type": "refusal", "refusal": "b"}]), delta(content=[IMAGE])],
        [("text", "a"), ("image", IMAGE), ("image", IMAGE)],
    ),
    "annotations": (
        [delta(annotations=[CITATION, {"type": "x"}])],
        [("annotation", "url_citation"), ("annotation", "x")],
    ),
    "a finish reason": ([STOP], [("finished", "stop", "stop")]),
    "a finish reason of the provider's own": ([delta("eos_token")], [("finished", "eos_token", "stop")]),
    "an unknown finish reason": ([delta("whatever")], [("finished", "whatever", "other")]),
    "an empty finish reason": ([delta("")], []),
    "stop beside tool calls": ([calls((0, "a", "f", "{}")), STOP], [("started", 0, "a", "f"), ("arguments", 0, "{}"), ("done", 0, "{}", {}), ("finished", "stop", "tool_calls")]),
    "a stop that turns out to mean calls comes again": ([STOP, calls(A), DONE], [("finished", "stop", "stop"), *A_STARTS, A_DONE, ("finished", "stop", "tool_calls")]),
    "a finish reason comes again after a call that came after it": (
        [calls(A), delta("length"), calls(B), DONE],
        [*A_STARTS, A_DONE, ("finished", "length", "length"), *B_STARTS, B_DONE, ("finished", "length", "length")],
    ),
    "also before an error": ([STOP, calls(A), ERROR], [("finished", "stop", "stop"), *A_STARTS, ("finished", "stop", "tool_calls")]),
    "another finish reason comes as another event": (
        [STOP, STOP, delta("length"), delta(content="a"), delta("length"), DONE],
        [("finished", "stop", "stop"), ("finished", "length", "length"), ("text", "a")],
    ),
    "usage": ([chunk(usage={"prompt_tokens": 1, "x": 2})], [("usage", {"prompt_tokens": 1, "x": 2})]),
    "text beside a finish reason and usage": (
        [chunk(choice("stop", content="a"), usage={"total_tokens": 3})],
        [("text", "a"), ("finished", "stop", "stop"), ("usage", {"total_tokens": 3})],
    ),
}  # fmt: skip


@each_case(("pieces", "expected"), TELLS.values(), ids=TELLS)
def test_what_each_event_tells(pieces: list[bytes], expected: list[tuple[Any, ...]]) -> None:
    assert briefly(events_of(*pieces)) == expected


def test_an_anomaly_is_noted_once_where_it_comes_first() -> None:
    pieces = [delta(content="a"), delta(role="", content="b"), delta(role="", content="c"), delta("odd")]
    parser, events = Stream(pieces).read()
    assert briefly(events, noted=True) == [
        ("text", "a"),
        ("text", "b"),
        ("noted", "CF203"),
        ("text", "c"),
        ("noted", "CF506"),
        ("finished", "odd", "other"),
        ("noted", "CF501"),
    ]
    first, *_ = [one.anomaly for one in only(AnomalyNoted, events)]
    assert (first.count, first.offset) == (1, len(pieces[0]))
    assert parser.anomalies[0] == dataclasses.replace(first, count=2)


def test_choices_come_as_they_are_interleaved() -> None:
    pieces = [delta(content="a"), delta(index=1, content="b"), delta(content="c"), delta("stop", 1), STOP]
    told = [(one.choice, *short_repr(one)[:2]) for one in events_of(*pieces, DONE)]
    assert told == [
        (0, "text", "a"),
        (1, "text", "b"),
        (0, "text", "c"),
        (1, "finished", "stop"),
        (0, "finished", "stop"),
    ]


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
MESSAGE = {"role": "assistant", "content": "a", "reasoning": "hm", "tool_calls": [CALL]}
OF_THE_MESSAGE = [("reasoning", "hm"), ("text", "a"), *A_STARTS, A_DONE, ("finished", "stop", "tool_calls")]
IN_A_CHOICE = chunk({"index": 0, "message": MESSAGE, "finish_reason": "stop"})
WHOLE_MESSAGES = {
    "the body": IN_A_CHOICE.removeprefix(b"data: "),
    "instead of deltas": IN_A_CHOICE + DONE,
    "after a delta": delta(reasoning="hm") + delta(content="a") + IN_A_CHOICE + DONE,
    "before the finish reason": IN_A_CHOICE.replace(b'"stop"', b"null") + STOP + DONE,
}


@each_case("late", [0, 1, 9], ids=["at once", "after the body", "late"])
@each_case("body", WHOLE_MESSAGES.values(), ids=WHOLE_MESSAGES)
def test_a_whole_message_is_told_too(body: bytes, late: int) -> None:
    assert briefly(Stream([body]).read(late)[1]) == OF_THE_MESSAGE


def test_the_last_draft_is_told_before_the_finish_reason_if_no_text_came() -> None:
    assert briefly(events_of(delta(diffusion_content="a"), STOP, DONE)) == [("text", "a"), ("finished", "stop", "stop")]
    parser = ChatCompletionParser()
    parser.feed(delta(diffusion_content="a") + delta("stop", content="b"))
    assert briefly(parser.events()) == [("text", "b"), ("finished", "stop", "stop")]


def test_what_a_message_adds_after_the_first_call_came() -> None:
    """It is told when the stream ends: deltas may still bring it. So is its finish reason."""
    parser = ChatCompletionParser()
    parser.feed(IN_A_CHOICE)
    assert briefly(parser.events()) == []
    parser.feed(DONE)
    assert briefly(parser.events()) == OF_THE_MESSAGE


# A first call of `events()` that comes late


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
