"""The parser: how a stream ends and what it raises, as the two tables of the design say."""

import copy
import gzip
import json
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from parsed_bodies import parsed

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionAccumulator,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidChunkError,
    LimitExceededError,
    NotAnEventStreamError,
    ParseError,
    ServerSentEvent,
    StreamConsumedError,
    StreamEnd,
    StreamInterruptedError,
    StreamStalledError,
    ThinkTags,
)
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.json_text.values import copied
from chunkfold.testing import DONE, ManualClock, choice, chunk, cut_every, delta, event, usage
from chunkfold.testing.wire import compact_json


def text(content: str, index: int = 0) -> bytes:
    return delta(index=index, content=content)


ROLE = delta(role="assistant")
HI = text("Hi")
STOP = delta("stop")
USAGE = chunk(usage=usage(1, 2))
PING = b": ping\n\n"
ERROR = event({"error": {"message": "overloaded", "type": "server_error", "code": 503}})
GARBAGE = b"data: garbage\n\n"
LIMIT = 1000  # bytes; what `play` allows an event, so that one below is too large
LARGE = text("x" * LIMIT)


def rules(parser: ChatCompletionParser) -> list[str]:
    return [anomaly.rule.id for anomaly in parser.anomalies]


cuts = each_case("size", [None, 1], ids=["whole", "bytewise"])  # bytes in a read


# How a stream ends


def test_the_snapshot_of_an_error_is_made_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be large, and the event that failed is to cost little."""
    parser = ChatCompletionParser()
    with monkeypatch.context() as patch:
        patch.delattr(StreamFold, "snapshot")
        parser.feed(HI + GARBAGE)
        error = parser.error
        assert error is not None
        with pytest.raises(AttributeError):
            _ = error.snapshot
    assert error.snapshot.text == "Hi"
    assert error.snapshot is parser.snapshot


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@each_case("is_read", [False, True])
@each_case("copied", [copy.copy, copy.deepcopy, pickled])
def test_an_error_is_copied_with_its_snapshot(copied: Callable[[Any], Any], is_read: bool) -> None:
    parser = ChatCompletionParser()
    parser.feed(HI + ERROR)
    error = parser.error
    assert error is not None
    if is_read:
        assert error.snapshot.text == "Hi"
    other = copied(error)
    assert (type(other), str(other), other.emitted_output) == (type(error), str(error), True)
    assert other.snapshot == parser.snapshot
    assert copied(ChunkfoldError("x")).snapshot is None


@each_case("copied", [copy.deepcopy, pickled])
def test_a_copy_of_a_parser_has_the_snapshot_of_its_error(copied: Callable[[Any], Any]) -> None:
    parser = ChatCompletionParser()
    parser.feed(HI + ERROR)
    other = copied(parser)
    assert other.error.snapshot == other.snapshot == parser.snapshot


def test_the_words_for_an_end() -> None:
    assert {end.value for end in StreamEnd} == {
        "finished", "done", "empty", "truncated", "failed", "invalid", "interrupted", "stalled", "closed",
    }  # fmt: skip
    assert {end for end in StreamEnd if end.complete} == {"finished", "done"}


BROKEN_LINE = ConnectionResetError("gone")


def stall(parser: ChatCompletionParser, clock: ManualClock) -> list[ChatCompletionChunk]:
    clock.advance(61)
    return parser.feed(PING)


def leave(parser: ChatCompletionParser, clock: ManualClock) -> list[ChatCompletionChunk]:
    parser.leave()
    return []


WAYS_OUT: dict[str, Callable[[ChatCompletionParser, ManualClock], list[ChatCompletionChunk]]] = {
    "close": lambda parser, clock: parser.close(),
    "interrupt": lambda parser, clock: parser.interrupt(BROKEN_LINE),
    "stall": stall,
    "leave": leave,
}


def play(body: bytes, way_out: str, size: int | None = None) -> ChatCompletionParser:
    """The bytes come, and then the body ends, the transport fails, nothing but pings come, or the consumer leaves."""
    clock = ManualClock(100.0)
    parser = ChatCompletionParser(clock=clock, total_timeout=60, max_event_size=LIMIT)
    for piece in cut_every(body, size or len(body) or 1) or [body]:
        parser.feed(piece)
    WAYS_OUT[way_out](parser, clock)
    return parser


#                                                    the body ends, the transport fails, it stalls, the consumer leaves
OPEN_WITHOUT_OUTPUT = ("empty", "interrupted", "stalled", "closed")
OPEN_WITH_OUTPUT = ("truncated", "interrupted", "stalled", "closed")
# A finish reason that output followed is no proof where something else than the provider stopped the bytes.
EARLY = ("finished", "interrupted", "stalled", "closed")


def always(end: str) -> tuple[str, str, str, str]:
    """What came has decided; how the bytes stop after it changes nothing."""
    return (end, end, end, end)


# What came, and how the stream has ended then, one for each way out.
ENDS: dict[str, tuple[bytes, tuple[str, str, str, str]]] = {
    # Not decided by what came.
    "nothing": (b"", OPEN_WITHOUT_OUTPUT),
    "a keep-alive": (PING, OPEN_WITHOUT_OUTPUT),
    "a role": (ROLE, OPEN_WITHOUT_OUTPUT),
    "an empty text": (text(""), OPEN_WITHOUT_OUTPUT),
    "usage alone": (USAGE, OPEN_WITHOUT_OUTPUT),
    "an empty finish reason": (delta(""), OPEN_WITHOUT_OUTPUT),
    "text": (ROLE + HI, OPEN_WITH_OUTPUT),
    "the word null as finish reason": (delta("null"), OPEN_WITHOUT_OUTPUT),
    "text, then the word null as finish reason": (HI + delta("null"), OPEN_WITH_OUTPUT),
    "text, then the end of thinking as finish reason": (HI + delta("thinking_end"), OPEN_WITH_OUTPUT),
    "text, then an empty finish reason": (HI + delta(""), OPEN_WITH_OUTPUT),
    "text, then usage": (HI + USAGE, OPEN_WITH_OUTPUT),
    "one of two choices finished": (HI + text("Ho", 1) + delta("stop", 1), OPEN_WITH_OUTPUT),
    "a second choice opened after the first finished": (HI + STOP + text("Ho", 1), OPEN_WITH_OUTPUT),
    "a second choice without output after the first finished": (
        STOP + delta(index=1, role="assistant"),
        OPEN_WITHOUT_OUTPUT,
    ),
    # Every choice seen has its finish reason: nothing that happens later takes that back, but for output.
    "text and finish": (HI + STOP, always("finished")),
    "text and finish in one chunk": (delta("length", content="Hi"), always("finished")),
    "finish without output": (STOP, always("finished")),
    "an unknown finish reason": (HI + delta("eos_token"), always("finished")),
    "both choices finished": (HI + text("Ho", 1) + delta("stop", 1) + STOP, always("finished")),
    "finish, then usage": (HI + STOP + USAGE, always("finished")),
    "text after the finish reason": (HI + STOP + text("!"), EARLY),
    "finish with every chunk": (delta("stop", content="H") + delta("stop", content="i"), EARLY),
    "text after the finish reason and [DONE]": (HI + STOP + text("!") + DONE, always("finished")),
    "no output after the finish reason": (HI + STOP + text("") + ROLE + STOP, always("finished")),
    "finish and [DONE]": (HI + STOP + DONE, always("finished")),
    "finish without output and [DONE]": (STOP + DONE, always("finished")),
    # [DONE] without a finish reason.
    "text and [DONE]": (HI + DONE, always("done")),
    "[DONE], one of two choices finished": (HI + text("Ho", 1) + STOP + DONE, always("done")),
    "[DONE] alone": (DONE, always("empty")),
    "[DONE] after a role": (ROLE + DONE, always("empty")),
    "[DONE] after usage": (USAGE + DONE, always("empty")),
    # The provider said so.
    "an error": (ERROR, always("failed")),
    "an error and [DONE]": (ERROR + DONE, always("failed")),
    "text, then an error": (HI + ERROR, always("failed")),
    "finish, then an error": (HI + STOP + ERROR, always("failed")),
    "finish, then an error event": (HI + STOP + b"event: error\ndata: overloaded\n\n", always("failed")),
    "finish, then an error field": (HI + STOP + b'error: {"message":"overloaded"}\n\n', always("failed")),
    "an error beside choices": (
        chunk(choice("stop", content="Hi"), error={"message": "overloaded"}),
        always("failed"),
    ),
    "an error beside what would be no chunk": (event({"error": {"message": "x"}, "choices": 5}), always("failed")),
    "finish reason error": (HI + delta("error"), always("failed")),
    "finish reason network_error": (HI + delta("network_error"), always("failed")),
    "finish reason insufficient_system_resource": (HI + delta("insufficient_system_resource"), always("failed")),
    "finish reason abort": (HI + delta("abort"), always("failed")),
    "finish, then finish reason error": (HI + STOP + delta("error"), always("failed")),
    # Not a stream of chunks.
    "an event that is no JSON": (HI + GARBAGE, always("invalid")),
    "finish, then an event that is no JSON": (HI + STOP + GARBAGE, always("invalid")),
    "an event that is no object": (event([1, 2]), always("invalid")),
    "an event of another API": (b'event: message_start\ndata: {"type":"message_start"}\n\n', always("invalid")),
    "an event that is too large": (HI + LARGE, always("invalid")),
    "finish, then an event that is too large": (HI + STOP + LARGE, always("invalid")),
    "finish, then the beginning of one that is too large": (HI + STOP + LARGE[:-20], always("invalid")),
    # The first that came decides between two that both would.
    "[DONE], then an error": (HI + STOP + DONE + ERROR, always("finished")),
    "[DONE], then an event that is no JSON": (HI + DONE + GARBAGE, always("done")),
    "an error, then an event that is no JSON": (ERROR + GARBAGE, always("failed")),
    "an event that is no JSON, then an error": (GARBAGE + ERROR, always("invalid")),
    "an error, then finish and [DONE]": (ERROR + STOP + DONE, always("failed")),
}

RAISED: dict[str, type[ChunkfoldError] | tuple[type[ChunkfoldError], ...] | None] = {
    "finished": None,
    "done": None,
    "empty": IncompleteStreamError,
    "truncated": IncompleteStreamError,
    "failed": APIError,
    "invalid": (InvalidChunkError, LimitExceededError, NotAnEventStreamError),
    "interrupted": StreamInterruptedError,
    "stalled": StreamStalledError,
    "closed": None,  # leaving raises nothing
}


@cuts
@each_case("what_came", ENDS)
def test_ends(what_came: str, size: int | None) -> None:
    body, ends = ENDS[what_came]
    for way_out, expected in zip(WAYS_OUT, ends, strict=True):
        check_end(play(body, way_out, size), expected)


def check_end(parser: ChatCompletionParser, expected: str) -> None:
    assert parser.end is StreamEnd(expected)
    raised = RAISED[expected]
    if raised is None:
        assert parser.error is None
        parser.raise_error()
    else:
        kinds = raised if isinstance(raised, tuple) else (raised,)
        assert type(parser.error) in kinds
        with pytest.raises(kinds) as caught:
            parser.raise_error()
        assert caught.value is parser.error
    check_completion(parser)


def check_completion(parser: ChatCompletionParser) -> None:
    """It is for those that ended well."""
    if parser.end in ("finished", "done"):
        assert parser.completion() == parser.snapshot
        return
    with pytest.raises(ChunkfoldError) as caught:
        parser.completion()
    if parser.end == "closed":
        assert type(caught.value) is IncompleteStreamError
        assert caught.value.snapshot == parser.snapshot
    else:
        assert caught.value is parser.error


@each_case("what_came", ENDS)
def test_nothing_has_an_effect_after_the_end(what_came: str) -> None:
    for way_out in WAYS_OUT:
        parser = play(ENDS[what_came][0], way_out)
        before = state_of(parser)
        assert parser.feed(HI + STOP + ERROR) == []
        assert parser.close() == []
        assert parser.interrupt(ConnectionError()) == []
        parser.leave()
        assert parser.feed(LARGE) == []
        assert parser.fold(HI) is None
        assert state_of(parser) == before


def state_of(parser: ChatCompletionParser) -> tuple[Any, ...]:
    return (parser.end, parser.error, parser.snapshot.model_dump(), parser.anomalies, asdict(parser.timing))


def test_end_is_set_by_the_bytes_that_decide_it() -> None:
    for decisive in (DONE, ERROR, GARBAGE, delta("error")):
        parser = ChatCompletionParser()
        parser.feed(HI)
        assert parser.end is None
        assert parser.error is None
        parser.feed(decisive)
        assert parser.end is not None


def test_finished_waits_for_the_usage_behind_it() -> None:
    parser = ChatCompletionParser()
    parser.feed(HI + STOP)
    assert parser.end is None
    parser.feed(USAGE)
    assert parser.end is None
    parser.feed(DONE)
    assert parser.completion().usage is not None


@pytest.mark.parametrize(
    ("what_came", "way_out", "late"),
    [
        ("text and finish", "close", "CF501"),  # no [DONE]
        ("text and finish", "interrupt", "CF507"),
        ("text and finish", "stall", "CF507"),
        ("finish and [DONE]", "close", None),
        ("finish and [DONE]", "interrupt", None),
        ("finish and [DONE]", "stall", None),
        ("text and [DONE]", "close", "CF502"),  # no finish reason
    ],
)
def test_a_late_fault_is_an_anomaly(what_came: str, way_out: str, late: str | None) -> None:
    assert rules(play(ENDS[what_came][0], way_out)) == ([late] if late else [])


CALL = {"index": 0, "id": "t1", "type": "function"}
OUTPUT: dict[str, dict[str, Any]] = {
    "text": {"content": "Hi"},
    "a list of parts": {"content": [{"type": "text", "text": "Hi"}]},
    "reasoning": {"reasoning": "Hm"},
    "reasoning_content": {"reasoning_content": "Hm"},
    "reasoning details": {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm"}]},
    "reasoning details of no type": {"reasoning_details": [{"text": "Hm"}]},
    "encrypted reasoning": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "zzz"}]},
    "opaque reasoning": {"reasoning_opaque": "x"},
    "a signature of reasoning": {"reasoning_signature": "x"},
    "a signature under another name": {"reasoning_content_signature": "x"},
    "redacted reasoning": {"redacted_reasoning_content": "x"},
    "reasoning encrypted by Doubao": {"encrypted_content": "x"},
    "a refusal": {"refusal": "No"},
    "a tool call's name": {"tool_calls": [{**CALL, "function": {"name": "f"}}]},
    "a tool call's arguments": {"tool_calls": [{**CALL, "function": {"arguments": "{"}}]},
    "a custom tool's input": {"tool_calls": [{**CALL, "type": "custom", "custom": {"input": "x"}}]},
    "arguments of a legacy call": {"function_call": {"name": "f", "arguments": "{}"}},
    "audio": {"audio": {"data": "AAAA"}},
    "an audio transcript": {"audio": {"transcript": "Hi"}},
    "an image in a list of parts": {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
    "a refusal in a list of parts": {"content": [{"type": "refusal", "refusal": "No"}]},
    "an image": {"images": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
}
NO_OUTPUT: dict[str, dict[str, Any]] = {
    "a role": {"role": "assistant"},
    "empty texts": {"content": "", "reasoning": "", "refusal": ""},
    "a tool call's id": {"tool_calls": [CALL]},
    "an audio's id": {"audio": {"id": "a1"}},
    "an audio's expiry": {"audio": {"expires_at": 1}},
    "a part of another kind": {"content": [{"type": "reference", "reference_ids": [1]}]},
    "an annotation": {"annotations": [{"type": "t"}]},
    "an unknown key": {"mood": "good"},
}


@each_case("kind", OUTPUT | NO_OUTPUT)
def test_what_counts_as_output(kind: str) -> None:
    is_output = kind in OUTPUT
    body = delta(**(OUTPUT | NO_OUTPUT)[kind])
    assert parsed(body + DONE).end is (StreamEnd.DONE if is_output else StreamEnd.EMPTY)
    assert parsed(body).end is (StreamEnd.TRUNCATED if is_output else StreamEnd.EMPTY)
    failed = parsed(body + ERROR)
    assert failed.error.emitted_output is is_output
    accumulator = ChatCompletionAccumulator()
    for one in ChatCompletionParser().feed(body + USAGE):
        accumulator.add(one)
    assert accumulator.has_output is is_output


# While it runs


def test_no_completion_while_it_runs() -> None:
    parser = ChatCompletionParser()
    parser.feed(HI)
    with pytest.raises(IncompleteStreamError) as caught:
        parser.completion()
    assert caught.value.snapshot.text == "Hi"
    # That was the caller's mistake, not the stream's.
    assert parser.error is None
    parser.feed(text(" there") + STOP + DONE)
    assert parser.completion().text == "Hi there"


# Errors


FAULTS: dict[str, tuple[bytes, type[ChunkfoldError]]] = {
    "an error": (ERROR, APIError),
    "an error field": (b'error: {"message":"overloaded"}\n\n', APIError),
    "garbage": (GARBAGE, InvalidChunkError),
    "a large event": (LARGE, LimitExceededError),
    "a finish reason": (delta("abort"), APIError),
}


@cuts
@each_case("fault", FAULTS)
def test_what_arrived_before_an_error_is_delivered(fault: str, size: int | None) -> None:
    body, kind = FAULTS[fault]
    parser = ChatCompletionParser(max_event_size=LIMIT)
    sent = HI + text(" there") + body + text("never")
    chunks = [c for piece in cut_every(sent, size or len(sent)) for c in parser.feed(piece)]
    assert "".join(c.text for c in chunks) == "Hi there"
    assert type(parser.error) is kind
    assert parser.error.snapshot.text == "Hi there"
    assert parser.snapshot == parser.error.snapshot
    assert parser.error.emitted_output
    assert not parser.error.retryable


TAIL = HI.removesuffix(b"\n")  # its chunk comes at the end of the body
HANDLERS: dict[str, tuple[Callable[[ChatCompletionParser], object], bool]] = {
    "nothing returned": (lambda parser: parser.fold(HI), False),
    "a chunk": (lambda parser: parser.feed(HI), True),
    "a chunk of a large read": (lambda parser: parser.feed(HI + b": \n" * 2**19), True),
    "a chunk without output": (lambda parser: (parser.feed(ROLE), parser.fold(HI)), False),
    "a chunk at the end": (lambda parser: parser.fold(TAIL), True),
    "events": (lambda parser: (parser.fold(HI), parser.events()), True),
    "events that wait": (lambda parser: (parser.events(), parser.fold(HI)), False),
}


@each_case("name", HANDLERS)
def test_output_is_emitted_where_a_chunk_or_an_event_is_returned(name: str) -> None:
    parser = ChatCompletionParser()
    take, is_emitted = HANDLERS[name]
    take(parser)
    parser.close()
    assert isinstance(parser.error, IncompleteStreamError)
    assert (parser.emitted_output, parser.error.emitted_output, parser.error.retryable) == (
        *(is_emitted, is_emitted),
        not is_emitted,
    )


def test_events_of_an_error_are_emitted_with_it() -> None:
    parser = ChatCompletionParser()
    parser.fold(HI + event({"error": {"message": "x", "code": 503}}))
    assert parser.error.retryable
    assert parser.events()
    assert (parser.emitted_output, parser.error.emitted_output, parser.error.retryable) == (True, True, False)


@each_case("way", [ChatCompletionParser.feed, ChatCompletionParser.fold])
def test_what_a_late_read_ends_with_is_emitted(way: Callable[[ChatCompletionParser, bytes], Any]) -> None:
    """A stall ends the stream after a large read, and returns the text that a transform held back."""
    readings = iter([0.0, 9.0])
    parser = ChatCompletionParser(transforms=[ThinkTags()], total_timeout=5, clock=lambda: next(readings))
    chunks = way(parser, delta(content="<thi") + b": " + b"x" * 2**20 + b"\n")
    assert isinstance(parser.error, StreamStalledError)
    assert parser.error.snapshot.text == "<thi"
    assert parser.error.emitted_output is bool(chunks) is (way is ChatCompletionParser.feed)


def test_what_a_callback_gets_is_emitted() -> None:
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: None)
    parser.fold(HI)
    assert parser.emitted_output


def test_where_and_what_an_invalid_chunk_is() -> None:
    error = parsed(HI + delta(content=5)).error
    assert type(error) is InvalidChunkError
    assert error.position == len(HI)
    for word in ("choices[0].delta.content", "string", "int"):
        assert word in str(error)
    assert error.rule is None  # no rule of strict mode


# [DONE]


@cuts
@each_case(
    ("done", "noted"),
    [
        (b"data: [DONE]\n\n", []),
        (b"data:[DONE]\n\n", []),
        (b"data: [DONE]\r\n\r\n", []),
        (b"data: [DONE]\r\r", []),
        (b"id: 7\ndata: [DONE]\n\n", []),
        (b": bye\ndata: [DONE]\n\n", []),
        (b"data: [DONE] \n\n", ["CF108"]),
        (b"data:   [DONE]\t\n\n", ["CF108"]),
        (b"data: [DONE]", ["CF101"]),
        (b"data: [DONE]\n", ["CF101"]),
        (b"data: [DONE] ", ["CF101", "CF108"]),
    ],
)
def test_done(done: bytes, noted: list[str], size: int | None) -> None:
    assert rules(parsed(HI + STOP + done, size)) == noted
    assert parsed(HI + done, size).end is StreamEnd.DONE


@cuts
@each_case("no_done", [b'data: "[DONE]"\n\n', b"data: DONE\n\n", b"data: [DONE]]\n\n"])
def test_what_is_not_done(no_done: bytes, size: int | None) -> None:
    assert type(parsed(HI + no_done + STOP + DONE, size).error) is InvalidChunkError


# Blocks that no blank line ends


def unterminated(piece: bytes) -> bytes:
    return piece.removesuffix(b"\n\n")


OVER_TWO_LINES = unterminated(STOP).removeprefix(b"data: ").replace(b',"model"', b',\ndata: "model"')
UNFINISHED: dict[str, tuple[bytes, str]] = {
    # Whole: read.
    "a chunk, its line not ended": (unterminated(STOP), "finished"),
    "a chunk, its line ended": (unterminated(STOP) + b"\n", "finished"),
    "a chunk, its line ended by CR": (unterminated(STOP) + b"\r", "finished"),
    "a chunk over two lines": (b"data: " + OVER_TWO_LINES, "finished"),
    "a chunk over two lines, both ended": (b"data: " + OVER_TWO_LINES + b"\n", "finished"),
    "a chunk, then the beginning of a field": (unterminated(STOP) + b"\ndat", "finished"),
    "an error": (unterminated(ERROR), "failed"),
    "an error field": (b'error: {"message":"overloaded"}', "failed"),
    # Without blank lines between them: each line is an event.
    "two chunks": (unterminated(STOP) + b"\n" + unterminated(USAGE), "finished"),
    "a chunk and [DONE]": (unterminated(STOP) + b"\n" + unterminated(DONE), "finished"),
    "a chunk and a cut one": (unterminated(STOP) + b"\n" + STOP[:50], "finished"),
    "a chunk and text": (unterminated(STOP) + b"\ndata: garbage", "invalid"),
    # The beginning of JSON: a cut, dropped and never invalid.
    "a cut object behind the finish reason": (STOP + USAGE[:50], "finished"),
    "a cut object": (STOP[:50], "truncated"),
    "a brace": (b"data: {", "truncated"),
    "an object cut inside a character": (b'data: {"choices":[{"delta":{"content":"\xe4\xbd', "truncated"),
    "a cut list": (b'data: [{"error":{"message":"ov', "truncated"),
    "a cut [DONE]": (b"data: [DON", "truncated"),
    "a cut error": (ERROR[:30], "truncated"),
    "a cut error event": (b'event: error\ndata: {"message":"ov', "truncated"),
    "a cut error field": (b'error: {"message":"ov', "truncated"),
    "whole lines of a cut object": (b'data: {"id":"c1",\ndata: "choices":[\n', "truncated"),
    "whole lines of a cut object, and a cut line": (b'data: {"id":"c1",\ndata: "choices":[\ndata: {"ind', "truncated"),
    "an object cut in its first line, ended": (b'data: {"id":"c1",\n', "truncated"),
    # So is the beginning of a keep-alive, or of a doubled prefix.
    "a cut null": (b"data: nul", "truncated"),
    "a cut null behind the finish reason": (STOP + b"data: n", "finished"),
    "a cut null without a blank line before it": (unterminated(STOP) + b"\ndata: nu", "finished"),
    "a cut second prefix": (b"data: dat", "truncated"),
    "a cut null behind a second prefix": (b"data: data: nul", "truncated"),
    "the beginning of null, its line ended": (b"data: nul\n", "invalid"),
    "the beginning of null in an error event": (b"event: error\ndata: nul", "failed"),
    # Nothing that could be an event.
    "a field name": (b"data", "truncated"),
    "an empty value": (b"data: ", "truncated"),
    "an event's name": (b"event: error\n", "truncated"),
    "an id": (b"id: 7", "truncated"),
    "a comment": (b": ping", "truncated"),
    # Other text is judged as if the event were whole, so that an error's text is not lost.
    "text": (b"data: Internal Server Error", "invalid"),
    "text, its line ended": (b"data: Internal Server Error\n", "invalid"),
    "text, then the beginning of an object": (b'data: Internal Server Error\ndata: {"requ', "invalid"),
    "a number": (b"data: 5\n", "invalid"),
    "text in an error event": (b"event: error\ndata: overloaded", "failed"),
    "a keep-alive in data": (b"data: : keepalive", "truncated"),
    "null": (b"data: null", "truncated"),
}


@cuts
@each_case("way_out", ["close", "interrupt"])
@each_case("tail", UNFINISHED)
def test_an_unfinished_last_block(tail: str, way_out: str, size: int | None) -> None:
    body, end = UNFINISHED[tail]
    parser = play(HI + body, way_out, size)
    # The transport's fault changes what is missing, not what came.
    assert parser.end == ("interrupted" if (way_out, end) == ("interrupt", "truncated") else end)
    assert parser.snapshot.text == "Hi"
    if end == "invalid":
        assert type(parser.error) is InvalidChunkError


def test_an_unfinished_last_block_gives_its_chunks_before_its_error() -> None:
    parser = ChatCompletionParser()
    assert parser.feed(unterminated(HI) + b"\ndata: garbage") == []
    assert [c.text for c in parser.close()] == ["Hi"]
    assert type(parser.error) is InvalidChunkError
    assert parser.error.snapshot.text == "Hi"


# Bodies that are no event stream


COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
ERROR_BODY = {"error": {"message": "overloaded", "type": "server_error", "code": 503}}
BODIES: dict[str, tuple[bytes, str]] = {
    "an error": (compact_json(ERROR_BODY), "failed"),
    "an error over several lines": (json.dumps(ERROR_BODY, indent=2).encode(), "failed"),
    "an error behind blank lines": (b"\n\n\n" + compact_json(ERROR_BODY) + b"\n", "failed"),
    "an error behind CRLFs": (b"\r\n\r\n" + compact_json(ERROR_BODY), "failed"),
    "an error behind a blank": (b"\n \n" + compact_json(ERROR_BODY), "failed"),
    "an error behind a BOM": (b"\xef\xbb\xbf" + compact_json(ERROR_BODY), "failed"),
    "an error in a list": (compact_json([ERROR_BODY]), "failed"),
    "an error that is a string": (compact_json({"error": "overloaded"}), "failed"),
    "a bare error": (compact_json({"object": "error", "message": "overloaded", "code": 503}), "failed"),
    "a bare code": (compact_json({"code": 429}), "failed"),
    "a bare detail": (compact_json({"detail": "Not Found"}), "failed"),
    "a base_resp": (
        compact_json({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}),
        "failed",
    ),
    "a completion that failed": (
        compact_json({**COMPLETION, "choices": [{**COMPLETION["choices"][0], "finish_reason": "error"}]}),
        "failed",
    ),
    "a completion": (compact_json(COMPLETION), "finished"),
    "a completion over several lines": (json.dumps(COMPLETION, indent=2).encode(), "finished"),
    "a completion behind blank lines": (b"\n\n\n" + compact_json(COMPLETION), "finished"),
    "a completion before comments": (compact_json(COMPLETION) + b"\n\n: ping\n\n:\n", "finished"),
    "an error before a comment": (compact_json({"code": 429}) + b"\r\r: ping\r", "failed"),
    "text behind a comment": (compact_json(COMPLETION) + b"\n: ping\nupstream failed\n", "invalid"),
    "HTML": (b"<!doctype html>\n<title>Blocked</title>\n<style>\na:hover {}\n:root {}\n</style>", "invalid"),
    "text": (b"upstream connect error", "invalid"),
    "text that begins like a field": (b"database is down", "invalid"),
    "text with a colon": (b"message: not found\n\nplease: retry\n\n", "invalid"),
    "one object a line": (b'{"message":{"content":"a"},"done":false}\n{"message":{"content":"b"}}\n', "invalid"),
    "chunks, one a line": (2 * (unterminated(HI).removeprefix(b"data: ") + b"\n"), "invalid"),
    "JSON of something else": (compact_json({"object": "list", "data": []}), "invalid"),
    "a completion of another API": (b'{"object":"text_completion","choices":[{"text":"a"}]}', "invalid"),
    "an empty object": (b"{}", "invalid"),
    "a JSON list": (b"[]", "invalid"),
    "a JSON string": (b'"Hi"', "invalid"),
    "cut JSON": (compact_json(COMPLETION)[:-9], "invalid"),
    "binary": (bytes(range(128, 256)), "invalid"),
    "nothing": (b"", "empty"),
    "blank lines": (b"\n\r\n\r\r\n", "empty"),
    "blanks": (b"  \n\t", "empty"),
    "a BOM": (b"\xef\xbb\xbf", "empty"),
    "the beginning of a BOM": (b"\xef\xbb", "empty"),
    "the beginning of data": (b"da", "empty"),
    "the beginning of event": (b"ev", "empty"),
    "the beginning of id": (b"i", "empty"),
    "the beginning of retry": (b"retr", "empty"),
    "the beginning of error": (b"err", "empty"),
    "the beginning of data behind blank lines": (b"\n\nda", "empty"),
    # A comment or a field of the standard makes it an event stream, if an empty one.
    "a comment": (b": ping\n", "empty"),
    "an id": (b"id: 7\n\n", "empty"),
    "a retry": (b"retry: 10\n\n", "empty"),
}


@cuts
@each_case("body", BODIES)
def test_bodies_that_are_no_event_stream(body: str, size: int | None) -> None:
    """Whatever they are said to be."""
    data, end = BODIES[body]
    for content_type in (None, "text/event-stream", "application/json"):
        parser = parsed(data, size, headers={"content-type": content_type} if content_type else None)
        assert parser.end == end
        if end in ("invalid", "empty"):
            assert type(parser.error) is (NotAnEventStreamError if end == "invalid" else IncompleteStreamError)
            assert rules(parser) == []
        if end == "invalid":
            assert parser.error.body == data.strip()
        if end == "failed":
            assert (type(parser.error), "CF607" in rules(parser)) == (APIError, True)


@each_case(
    ("body", "end"),
    [
        ("an error", "failed"),
        ("a completion", "finished"),
        ("HTML", "invalid"),
        ("text", "invalid"),
        ("nothing", "interrupted"),
        ("blank lines", "interrupted"),
        ("the beginning of data", "interrupted"),
        ("a comment", "interrupted"),
    ],
)
def test_bodies_that_are_no_event_stream_over_a_transport_that_fails(body: str, end: str) -> None:
    assert play(BODIES[body][0], "interrupt").end == end


@cuts
def test_an_event_stream_is_known_by_its_body(size: int | None) -> None:
    for content_type in ("application/json", "text/html", "", "text/event-stream; charset=ISO-8859-1"):
        parser = parsed(text("é") + STOP + DONE, size, headers={"content-type": content_type})
        assert parser.completion().text == "é"
        assert parser.anomalies == ()


def test_a_whole_completion_is_one_chunk() -> None:
    parser = ChatCompletionParser()
    assert parser.feed(compact_json(COMPLETION)) == []
    (only,) = parser.close()
    assert only.text == "Hi"
    completion = parser.completion()
    assert (completion.text, completion.finish_reason, completion.id) == ("Hi", "stop", "c1")
    assert completion.usage.total_tokens == 3
    # That there was no [DONE] and no delta is what the one rule says already.
    assert "CF109" in rules(parser)
    assert "CF501" not in rules(parser)


@each_case("end_of_line", [b"\n", b"\r\n", b"\r"])
def test_comments_between_a_whole_completion_and_done_change_nothing(end_of_line: bytes) -> None:
    sent = json.dumps(COMPLETION, indent=1).encode()
    expected = parsed(sent + b"\n\n" + DONE)
    parser = parsed((sent + b"\n\n: ping\n: pong\n\n" + DONE).replace(b"\n", end_of_line))
    assert parser.completion() == expected.completion()
    assert rules(parser) == rules(expected)


def test_the_error_quotes_the_beginning_of_a_foreign_body() -> None:
    page = b"<html>\x1b[31m" + b"x" * 100_000
    error = parsed(page, status_code=200, headers={"Content-Type": "text/html"}).error
    assert type(error) is NotAnEventStreamError
    assert (error.status_code, error.content_type) == (200, "text/html")
    assert error.body == page[:1024]
    for word in ("200", "text/html", "<html>"):
        assert word in str(error)
    assert len(str(error)) < 1000
    assert str(error).isprintable()
    assert not error.retryable


@each_case("compress", [gzip.compress, lambda body: b"\x28\xb5\x2f\xfd" + body], ids=["gzip", "zstd"])
def test_the_error_says_that_a_body_is_compressed(compress: Callable[[bytes], bytes]) -> None:
    error = parsed(compress(b"data: {}\n\n"), status_code=200, headers={"Content-Type": "text/event-stream"}).error
    received = "a compressed body (status 200, content type text/event-stream): pass the decoded one"
    assert str(error) == f"expected an event stream, received {received}"


@cuts
def test_a_large_foreign_body_is_still_no_event_stream(size: int | None) -> None:
    """`max_event_size` is about events and lines, not about bodies."""
    parser = parsed(b"<p>not found</p>\n" * 100, size, max_event_size=100)
    assert type(parser.error) is NotAnEventStreamError


def test_reprs_show_the_state_without_content() -> None:
    parser, accumulator = ChatCompletionParser(), ChatCompletionAccumulator()
    for sent in parser.feed(HI):
        accumulator.add(sent)
    assert (repr(parser), repr(accumulator)) == (
        "<ChatCompletionParser: running, 1 chunk>",
        "<ChatCompletionAccumulator: 1 chunk>",
    )
    stream = ChatCompletionStream([HI, STOP])
    assert repr(stream) == "<ChatCompletionStream: running, 0 chunks>"
    stream.read()
    assert repr(stream) == "<ChatCompletionStream: finished, 2 chunks>"


# A status that is not 2xx


@cuts
@each_case("status", [302, 400, 401, 404, 429, 500, 503, 529])
def test_a_status_that_is_not_2xx(status: int, size: int | None) -> None:
    sent = {"error": {"message": "no", "type": "t", "code": "c", "param": "p"}}
    headers = {"X-Request-Id": "r1", "Retry-After": "7", "X-RateLimit-Remaining-Tokens": "0"}
    parser = parsed(compact_json(sent), size, status_code=status, headers=headers)
    assert parser.end is StreamEnd.FAILED
    error = parser.error
    assert type(error) is APIStatusError
    assert error.status_code == status
    assert (error.message, error.type, error.code, error.param) == ("no", "t", "c", "p")
    assert (error.request_id, error.retry_after) == ("r1", 7.0)
    assert error.headers["x-ratelimit-remaining-tokens"] == "0"
    assert error.raw == sent
    assert error.snapshot.choices == []
    assert not error.emitted_output
    assert str(status) in str(error)


@pytest.mark.parametrize("status", [200, 201, 206, 299])
def test_a_status_that_is_2xx_is_a_stream(status: int) -> None:
    assert parsed(HI + STOP + DONE, status_code=status).completion().text == "Hi"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b"<html>Bad Gateway</html>", "Bad Gateway"),
        (b"upstream connect error", "upstream connect error"),
        (b"\xff\xfe", ""),
        (b"[1]", ""),
        (ERROR, ""),
        (HI + STOP + DONE, ""),  # not even a perfect stream is one then
    ],
)
def test_whatever_the_body_of_a_refusal_is(body: bytes, shown: str) -> None:
    parser = ChatCompletionParser(status_code=502)
    assert parser.feed(body) == []
    assert parser.close() == []
    assert type(parser.error) is APIStatusError
    assert parser.error.status_code == 502
    assert shown in str(parser.error)


# Limits


@cuts
@each_case("kind", OUTPUT)
def test_max_output_size_counts_output_of_every_kind(kind: str, size: int | None) -> None:
    error = parsed(delta(**OUTPUT[kind]) * 3 + STOP + DONE, size, max_output_size=0).error
    assert type(error) is LimitExceededError
    assert (error.limit, error.value) == ("max_output_size", 0)


@cuts
def test_max_output_size_counts_nothing_else(size: int | None) -> None:
    nothing = b"".join(delta(**NO_OUTPUT[kind]) for kind in ("a role", "empty texts", "an unknown key"))
    assert parsed(nothing + USAGE + PING + STOP + DONE, size, max_output_size=0).end is StreamEnd.FINISHED


# Timing


def feed_at(parser: ChatCompletionParser, clock: ManualClock, *reads: tuple[float, bytes]) -> list[ChatCompletionChunk]:
    """Feed each piece at its time, in seconds since the parser was made."""
    chunks = []
    for seconds, data in reads:
        clock.advance(100.0 + seconds - clock())
        chunks += parser.feed(data)
    return chunks


def test_timing() -> None:
    clock = ManualClock(100.0)
    parser = ChatCompletionParser(clock=clock)
    assert set(asdict(parser.timing).values()) == {None}
    feed_at(parser, clock, (1, PING), (2, ROLE), (4, HI), (8, HI), (16, STOP), (32, PING))
    timing = parser.timing
    assert (timing.first_byte, timing.first_chunk, timing.first_output) == (1, 2, 4)
    assert (timing.last_chunk, timing.last_byte) == (16, 32)
    parser = ChatCompletionParser(clock=clock, started=clock())
    feed_at(parser, clock, (35, HI + STOP + DONE))
    timing = parser.timing
    assert (timing.first_byte, timing.first_chunk, timing.first_output, timing.last_chunk, timing.last_byte) == (3,) * 5


def test_an_empty_read_has_no_bytes_to_time() -> None:
    clock = ManualClock(100.0)
    parser = ChatCompletionParser(clock=clock)
    feed_at(parser, clock, (1, b""), (2, HI), (4, b""))
    assert (parser.timing.first_byte, parser.timing.last_byte) == (2, 2)


# Strict mode


NO_ANOMALIES: dict[str, bytes] = {
    "as OpenAI sends it": ROLE + HI + STOP + USAGE + DONE,
    "a BOM": b"\xef\xbb\xbf" + HI + STOP + DONE,
    "CRLF": (HI + STOP + DONE).replace(b"\n", b"\r\n"),
    "CR": (HI + STOP + DONE).replace(b"\n", b"\r"),
    "no space behind the colon": (HI + STOP + DONE).replace(b"data: ", b"data:"),
    "comments": PING + HI + b": x\n" + STOP + PING + DONE,
    "ids, names and retries alone": b"retry: 10\n\nid: 1\n" + HI + b"id: 2\n\nevent: x\n\n" + STOP + DONE,
    "an event's default name": HI + b"event: message\n" + STOP + DONE,
    "a field nobody knows": b"mood: good\n" + HI + STOP + DONE,
    "data over two lines": HI + b"data: " + OVER_TWO_LINES + b"\n\n" + DONE,
    "an empty line more": b"\n" + HI + b"\n\n" + STOP + DONE,
    "keys nobody knows": chunk(choice(content="Hi", mood=1), x=[1], obfuscation="abc") + STOP + DONE,
    "reasoning": delta(reasoning_content="Hm") + delta(reasoning="Hm") + STOP + DONE,
    "usage beside the finish reason": HI + chunk(choice("stop"), usage={"total_tokens": 3}) + DONE,
    "usage null until the end": chunk(choice(content="Hi"), usage=None) + STOP + USAGE + DONE,
    "usage in the choice": HI + chunk({**choice("stop"), "usage": {"total_tokens": 3}}) + DONE,
}


@cuts
@each_case("body", NO_ANOMALIES)
def test_what_is_never_an_anomaly(body: str, size: int | None) -> None:
    parser = parsed(NO_ANOMALIES[body], size, strict=True)
    assert parser.error is None
    assert parser.end is StreamEnd.FINISHED
    assert parser.anomalies == ()


@each_case("word", ["null", "None", "NONE", " ", "thinking_end"])
def test_a_word_for_nothing_is_no_finish_reason(word: str) -> None:
    parser = parsed(delta(word, content="H") + delta(word, content="i") + STOP + DONE)
    (choice,) = parser.completion().choices
    assert (parser.end, choice.finish_reason, choice.message.content) == ("finished", "stop", "Hi")
    assert [(one.rule.id, one.count, one.detail) for one in parser.anomalies] == [("CF203", 2, "finish_reason")]


def test_an_invalid_chunk_is_no_rule() -> None:
    error = parsed(GARBAGE, strict=True).error
    assert type(error) is InvalidChunkError
    assert error.rule is None


# Anomalies


def test_an_anomaly_has_its_rule_a_count_and_the_first_place() -> None:
    parser = parsed(HI + PING + b"data: null\n\n" * 1000 + b"data: \n\n" + STOP + DONE)
    null, blank = parser.anomalies
    assert (null.rule.id, null.count, null.offset) == ("CF105", 1000, len(HI + PING))
    assert (blank.rule.id, blank.count, blank.offset) == ("CF103", 1, len(HI + PING) + 12_000)
    assert str(null.offset) in null.first


def test_anomalies_can_be_read_while_it_runs() -> None:
    parser = ChatCompletionParser()
    parser.feed(HI)
    assert parser.anomalies == ()
    parser.feed(b"data: null\n\n")
    early = parser.anomalies
    parser.feed(b"data: null\n\n")
    assert [anomaly.count for anomaly in (*early, *parser.anomalies)] == [1, 2]


# The tap


def tapped(body: bytes, size: int | None = None) -> list[tuple[ServerSentEvent, list[str]]]:
    """Each event that `on_server_sent_event` was given, with the texts of its chunks."""
    seen: list[tuple[ServerSentEvent, list[str]]] = []

    def on_server_sent_event(event: ServerSentEvent, chunks: Iterable[ChatCompletionChunk]) -> None:
        seen.append((event, [c.text for c in chunks]))

    parsed(body, size, on_server_sent_event=on_server_sent_event)
    return seen


@cuts
def test_on_event_is_called_for_every_event(size: int | None) -> None:
    meta = b"event: meta\nid: 7\ndata: {}\n\n"
    body = HI + PING + meta + b"data: null\n\n" + unterminated(text("a")) + b"\n" + text("b") + STOP + DONE
    seen = tapped(body, size)
    assert [texts for _, texts in seen] == [["Hi"], [], [], ["a", "b"], [""], []]
    events = [event for event, _ in seen]
    assert [event.event for event in events] == ["message", "meta", *["message"] * 4]
    assert (events[1].id, events[1].data, events[1].offset) == ("7", b"{}", len(HI + PING))
    assert (events[-1].data, events[-1].text) == (b"[DONE]", "[DONE]")


@cuts
@each_case(
    ("last", "data", "texts"),
    [
        (ERROR, unterminated(ERROR).removeprefix(b"data: "), []),
        (GARBAGE, b"garbage", []),
        (chunk(choice(content="x"), error="y"), None, ["x"]),
        (unterminated(text("x")), None, ["x"]),  # an unfinished block that is read
    ],
)
def test_on_event_is_called_for_the_last_event_too(
    last: bytes, data: bytes | None, texts: list[str], size: int | None
) -> None:
    seen = tapped(HI + last, size)
    assert [texts for _, texts in seen] == [["Hi"], texts]
    assert data is None or seen[-1][0].data == data


@cuts
def test_on_event_is_not_called_after_the_end(size: int | None) -> None:
    assert [event.data for event, _ in tapped(DONE + HI + STOP, size)] == [b"[DONE]"]
    assert len(tapped(ERROR + HI, size)) == 1


# Whole messages are output too


def test_a_whole_message_is_bounded_like_its_deltas() -> None:
    """What shows at the end is noted once, also where the end is itself an error."""
    body = event({"choices": [{"index": 0, "message": {"content": "too long"}, "finish_reason": "stop"}]})
    parser = parsed(body, max_output_size=5)
    assert (type(parser.error), parser.snapshot.text) == (LimitExceededError, "too long")
    assert {one.rule.id: one.count for one in parser.anomalies}["CF216"] == 1


class FailsOnce:
    """A tap, or a transform, that raises once."""

    def __init__(self, error: BaseException) -> None:
        self._errors = iter([error])

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        for error in self._errors:
            raise error
        return [chunk]

    def close(self) -> list[ChatCompletionChunk]:
        return []

    def __call__(self, event: object, chunks: object) -> None:
        for error in self._errors:
            raise error


@each_case("error", [LookupError("mine"), KeyboardInterrupt()])
@each_case("way", ["tap", "transform"])
@each_case("copies", [1, 2, 5_000])
def test_after_an_exception_of_the_consumer_a_stream_with_a_gap_is_not_complete(
    copies: int, way: str, error: BaseException
) -> None:
    """What was read with it is lost: the stream has been left."""
    ended: list[object] = []
    fails = FailsOnce(error)
    options: Any = {"on_server_sent_event": fails} if way == "tap" else {"transforms": [fails]}
    parser = ChatCompletionParser(**options)
    parser.observe(on_end=lambda one: ended.append(one.end))
    with pytest.raises(type(error)):
        parser.feed(text("a") * copies)
    arrived = "a" if way == "tap" else ""
    assert (parser.end, parser.snapshot.text or "", ended) == (StreamEnd.CLOSED, arrived, [StreamEnd.CLOSED])
    assert parser.emitted_output is (way == "tap")
    assert parser.feed(text("last") + STOP + DONE) == parser.close() == []
    with pytest.raises(IncompleteStreamError, match="left before it ended") as raised:
        parser.completion()
    assert (raised.value.snapshot.text or "") == arrived


@each_case(("body", "end"), [(text("a") + STOP, StreamEnd.CLOSED), (STOP + DONE, StreamEnd.FINISHED)])
def test_a_tap_that_leaves_and_raises_ends_the_stream_once(body: bytes, end: StreamEnd) -> None:
    ended: list[object] = []

    def tap(event: object, chunks: object) -> None:
        parser.leave()
        raise LookupError

    parser = ChatCompletionParser(on_server_sent_event=tap)
    parser.observe(on_end=lambda one: ended.append(one.end))
    events = parser.events()
    with pytest.raises(LookupError):
        parser.feed(body)
    events += parser.events()
    expected = ["TextDelta"] if end is StreamEnd.CLOSED else ["ChoiceFinished"]
    assert (parser.end, ended, [type(event).__name__ for event in events]) == (end, [end], expected)


def test_a_tap_that_interrupts_the_stream_ends_it_once() -> None:
    fault, told = ConnectionError(), list[object]()

    def tap(event: object, chunks: object) -> None:
        parser.interrupt(fault)

    parser = ChatCompletionParser(on_server_sent_event=tap)
    parser.observe(on_end=lambda one: told.append(one.error))
    assert [one.text for one in parser.feed(text("a") + text("b"))] == ["a"]
    assert parser.end is StreamEnd.INTERRUPTED
    assert isinstance(parser.error, StreamInterruptedError)
    assert (parser.error.__cause__, told) == (fault, [parser.error])


@each_case("way", ["feed", "fold"])
@each_case("hook", ["tap", "transform"])
def test_a_read_within_a_read_returns_its_own_chunks(hook: str, way: str) -> None:
    """Was once wrong: it returned those of the read around it, too, or lost them."""

    class ReadsOnce:
        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            self(chunk, ())
            return [chunk]

        def close(self) -> list[ChatCompletionChunk]:
            return []

        def __call__(self, event: object, chunks: object) -> None:
            for body in bodies:
                inner.extend(getattr(parser, way)(body) or ())

    bodies, inner = iter([text("b") + text("c")]), list[ChatCompletionChunk]()
    options: Any = {"on_server_sent_event": ReadsOnce()} if hook == "tap" else {"transforms": [ReadsOnce()]}
    parser = ChatCompletionParser(**options)
    assert [chunk.text for chunk in parser.feed(text("a") + text("d"))] == ["a", "d"]
    assert [chunk.text for chunk in inner] == (["b", "c"] if way == "feed" else [])


@each_case("read", [lambda parser: parser.feed(text("b") + text("bad")), ChatCompletionParser.close])
def test_a_read_within_a_read_that_fails_leaves_the_chunks_of_the_other(
    read: Callable[[ChatCompletionParser], object],
) -> None:
    class Broken:
        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            return [chunk] if chunk.text != "bad" else self.close()

        def close(self) -> list[ChatCompletionChunk]:
            raise LookupError

    def tap(event: object, chunks: object) -> None:
        for read_once in reads:
            with suppress(LookupError):
                read_once(parser)

    reads = iter([read])
    parser = ChatCompletionParser(on_server_sent_event=tap, transforms=[Broken()])
    assert [chunk.text for chunk in parser.feed(text("a") + text("c"))] == ["a"]
    assert parser.end is not None


@each_case("lost", [text("more"), ERROR, b"", DONE])
def test_a_read_that_was_cut_off_is_not_complete_although_all_had_finished(lost: bytes) -> None:
    """What is lost may be an error, or more output."""
    parser = ChatCompletionParser(on_server_sent_event=FailsOnce(LookupError()))
    with pytest.raises(LookupError):
        parser.feed(STOP + lost)
    assert (parser.end, parser.error) == (StreamEnd.CLOSED, None)


def test_output_that_no_callback_got_is_not_emitted() -> None:
    parser = ChatCompletionParser(on_server_sent_event=FailsOnce(LookupError()), transforms=[ThinkTags()])
    with pytest.raises(LookupError):
        parser.feed(text("<thi"))  # held back until the stream ends
    assert (parser.snapshot.text, parser.emitted_output) == ("<thi", False)


def test_a_transform_may_raise_again_while_the_stream_ends() -> None:
    class Broken:
        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            raise LookupError("first")

        def close(self) -> list[ChatCompletionChunk]:
            raise KeyError("second")

    parser = ChatCompletionParser(transforms=[Broken()])
    with pytest.raises(LookupError, match="first"):
        parser.feed(HI)
    assert parser.end is StreamEnd.CLOSED


def test_a_stream_whose_tap_raised_is_over() -> None:
    stream = ChatCompletionStream([HI, HI + STOP + DONE], on_server_sent_event=FailsOnce(LookupError()))
    with pytest.raises(LookupError):
        next(stream)
    for again in (iter, ChatCompletionStream.events, ChatCompletionStream.text_deltas):
        with pytest.raises(StreamConsumedError, match=r"the stream is over \(closed\)"):
            again(stream)
    with pytest.raises(IncompleteStreamError):
        stream.read()


@each_case("raised", [StreamInterruptedError("x"), APIError("x"), ParseError("x", text=""), OSError("x")])
def test_any_exception_of_a_source_is_the_transports(raised: Exception) -> None:
    """The source of a relay may be another stream of this library."""
    parser = ChatCompletionParser()
    parser.feed(HI)
    parser.interrupt(raised)
    assert (parser.end, type(parser.error)) == (StreamEnd.INTERRUPTED, StreamInterruptedError)
    assert parser.error is not raised
    assert parser.error.__cause__ is raised
    assert getattr(raised, "snapshot", None) is None
    parser = ChatCompletionParser()
    parser.feed(HI + STOP)
    parser.interrupt(raised)
    assert (parser.end, rules(parser)) == (StreamEnd.FINISHED, ["CF507"])


def test_a_completion_before_the_stream_has_its_items_counted() -> None:
    parser = ChatCompletionParser(max_event_items=3)
    parser.feed(b'{"object":"chat.completion","choices":[{},{},{},{}]}\n\ndata: [DONE]\n\n')
    assert isinstance(parser.error, LimitExceededError)
    assert parser.error.limit == "max_event_items"


def test_a_copy_of_what_somebody_put_in_by_hand() -> None:
    by_hand = {"a": [Path("here")]}
    copy = copied(by_hand)
    assert copy == by_hand
    assert copy["a"] is not by_hand["a"]


@each_case("status_code", [200, 500])
@each_case("data", ["text", None, 5, [b"x"]])
def test_what_is_not_bytes_is_a_wrong_argument_and_changes_nothing(data: Any, status_code: int) -> None:
    parser = ChatCompletionParser(status_code=status_code)
    for take in (parser.feed, parser.fold):
        with pytest.raises(TypeError, match=f"data: expected bytes, received {type(data).__name__}"):
            take(data)
    assert parser.end is None
