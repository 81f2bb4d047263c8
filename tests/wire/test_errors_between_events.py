"""Errors in the framing: in fields and comments of a block, between the blocks, and behind an event that was cut."""

from typing import Any
from unittest.mock import patch

import pytest
from cases import each_case
from error_bodies import chunk, data, failure_of
from parsed_bodies import parsed

from chunkfold import APIError, InvalidChunkError, LimitExceededError, StreamEnd
from chunkfold.testing import DONE, delta
from chunkfold.testing.wire import compact_json
from chunkfold.wire import raw_data

LINE_ENDS = (b"\n", b"\r\n", b"\r")
FIELDS = [
    # A field: no JSON, what only begins like it, nothing, another name.
    *(b"error: %b\n\n" % value for value in (b"overloaded", b"{boom", b"[boom", b'"boom', b"", b"null", b" false ")),
    *(b"error\n\n", b"error:\n\n", b'errors: {"message":"x"}\n\n'),
    # Another event, or none.
    *(b'event: log\ndata: {"object":"error","message":"x"}\n\n', b'event: Error\ndata: {"message":"x"}\n\n'),
    b'event: log\ndata: tried, got data: {"error":{"message":"x"}}\n\n',
    b'event: log\ndata: {"tried":data: {"error":{"message":"x"}}\n\n',
    b'event: progress\ndata: {"choices":null,"message":"thinking"}\n\n',
    b'event: tool_status\ndata: {"tool_call_id":"c","error":{"msg":"x"}}\n\n',  # a tool's (Friendli)
    # Comments, also in an error event without data: keep-alives.
    b': error: {"message":"x"}\n\n',
    *(b"event: error\n%b\n" % comments for comments in (b"", b":\n", b": keep-alive\n", b": OPENROUTER PROCESSING\n")),
    b"event: error\n:PING\n: \n: ping - 2026-01-01 00:00:00\n\n",
    # Bare JSON: without an error, null, cut, too long, with a blank line.
    *(b'{\n"status": "ok"\n}\n\n', b'{\n"error": null\n}\n\n', b'{\n"error": {\n"message": "x"\n}\n\n'),
    b'{\n"error": {\n"message": "' + b"x" * 2**20 + b'"\n}\n}\n\n',
    b'{\n\n"error": {\n"message": "x"\n}\n}\n\n',
]


@each_case("block", FIELDS)
def test_no_error_in_the_framing(block: bytes) -> None:
    assert parsed(data(chunk("a")) + block + data(chunk("b", "stop")) + DONE).completion().text == "ab"


# In fields and comments of a block


COMMENTED = [
    *(b"event: error\n: overloaded\n\n", b"event: error\n:overloaded\n\n"),  # Dynamo; without a blank
    b"event: error\n: overloaded\n: more\nid: 1\n\n",
    b'event: error\n: {"message":"overloaded","code":503}\n\n',
    # After keep-alives, among short lines.
    *(b"event: error\n: keep-alive\n: overloaded\n\n", b"event: error\n: keep alive 5\n:\n: overloaded\n\n"),
    b": a\n\nevent: error\n: overloaded\n: b\n: c\n\n: d\n",
    *(b"event: error\n: overloaded\n", b"event: error\n: overloaded"),
]


@each_case("block", COMMENTED)
@each_case("before", [data(chunk("a")), b": hi\n\n", b""])
def test_an_error_in_a_comment(block: bytes, before: bytes) -> None:
    """The name leaves no doubt, although the standard dispatches no event without data."""
    for line_end in LINE_ENDS:
        body = (before + block + (DONE if block.endswith(b"\n\n") else b"")).replace(b"\n", line_end)
        for size in (len(body), 1, 5):
            parser = parsed(body, size)
            assert (parser.end, str(parser.error)) == (StreamEnd.FAILED, "overloaded"), (line_end, size)
            assert parser.anomalies[-1].rule.id == "CF601"


@each_case(
    "error", [b'{"error":{"message":"m"}}\n', b'{\n"error": {\n"message": "m"\n}\n}\n', b'error: {"message":"m"}\n']
)
def test_an_error_in_full_counts_before_a_comment(error: bytes) -> None:
    for lines in (b": x\n" + error, error + b": x\n", b": x\n: y\n" + error):
        assert failure_of(data(chunk("a")) + b"event: error\n" + lines + b"\n").message == "m"


A_BARE_ERROR = b'{"error":{"message":"m"}}\n'
A_FIELD = b'error: {"message":"m"}\n'
IN_LINES = b'{\n "error": {\n  "message": "m"\n }\n}\n'


def test_an_error_event_that_goes_on_with_the_end_has_several_payloads() -> None:
    parser = parsed(b'event: error\ndata: {"message":"m"}\n' + DONE)
    assert [(one.rule.id, one.count) for one in parser.anomalies] == [("CF601", 1), ("CF102", 1)]


@each_case("behind", [DONE, data({"message": "n"})])
def test_of_an_error_event_of_several_lines_each_byte_is_noted_once(behind: bytes) -> None:
    parser = parsed(b'event: error\ndata: {"message":"m\xff"}\n' + behind)
    assert [(one.rule.id, one.count) for one in parser.anomalies if one.rule.id == "CF107"] == [("CF107", 1)]


@each_case(
    ("block", "text"),
    [
        pytest.param(b'event: error\n{"message":"m"}\n\n', "", id="with the event's name"),
        pytest.param(A_FIELD + IN_LINES.replace(b'"m"', b'"n"') + b"\n", "", id="before another one in lines"),
        pytest.param(b'event: error \ndata: {"message":"m"}\n\n', "", id="a blank after the event's name"),
        pytest.param(b'event: error\ndata: data: {"message":"m"}\n\n', "", id="a doubled prefix"),
        pytest.param(b'event: error\ndata: {"message":"m"}\n' + DONE, "", id="with the event's name, before the end"),
        pytest.param(b'event: error\ndata: {"message":"m"}\ndata: [DONE]', "", id="the same without a line end"),
        pytest.param(b'event: error\ndata: {"message":"m"}\ndata: at f.py\n\n', "", id="and before text"),
        pytest.param(
            b"event: error \n" + data(chunk("a")).rstrip() + b'\ndata: {"message":"m"}\n\n', "a", id="a chunk before it"
        ),
    ],
)
def test_an_error_in_a_block_with_other_lines(block: bytes, text: str) -> None:
    body = data(chunk("", "stop")) + block
    for size in (len(body), 1, 5):
        parser = parsed(body, size)
        assert (parser.end, str(parser.error), parser.snapshot.text) == (StreamEnd.FAILED, "m", text)


@each_case(
    "first", [b'{"choices":[]}', b'{"choices":null,"model":""}', b'{"id":"","choices":[],"prompt_filter_results":[]}']
)
def test_an_error_event_may_begin_with_a_chunk_without_choices(first: bytes) -> None:
    lines = b"data: " + first + b"\n" + data(chunk("a")).rstrip() + b'\ndata: {"message":"m"}\n'
    for last in (b"", b"data: [DONE]\n"):
        parser = parsed(b"event: error\n" + lines + last + b"\n")
        assert (str(parser.error), parser.snapshot.text) == ("m", "a")
    for event in (b'{"choices":[],"error":{"message":"m"}}', b'{"choices":null,"message":"m"}'):
        assert failure_of(b"event: error\ndata: " + event + b"\ndata: at f.py\n\n").message == "m"
    assert failure_of(b'event: error\ndata: {"status":"x"}\ndata: at f.py\n\n').raw == {"status": "x"}


@each_case("comment", [b"ping timeout", b"processing failed", b"503", b"heartbeat lost"])
def test_a_comment_that_only_begins_like_a_keep_alive_is_an_error(comment: bytes) -> None:
    assert failure_of(b"event: error\n: " + comment + b"\n\n").message == comment.decode()


def test_comments_are_kept_up_to_a_limit() -> None:
    body = b"event: error\n: ping\n" + b": ping %d\n" % 1 * 10_000 + b": overloaded\n\n"
    assert parsed(data(chunk("a")) + body + data(chunk("b", "stop")) + DONE).completion().text == "ab"
    assert failure_of(b"event: error\n" + b":  \n: ping\n" * 4500 + b": overloaded\n\n").message == "overloaded"


def test_a_comment_beside_the_data_of_an_error_is_none() -> None:
    for lines in (b": x\ndata: overloaded\n", b"data: overloaded\n: x\n"):
        assert failure_of(b"event: error\n" + lines + b"\n").message == "overloaded"
    body = data(chunk("a")) + b"event: error\n\n: x\n\nevent: ping\n: x\n\n" + data(chunk("b", "stop")) + DONE
    assert parsed(body).completion().text == "ab"


# Beside the data of an event


CHUNK = data(chunk("a", "stop")).rstrip() + b"\n"
CUT_CHUNK = CHUNK[:-9] + b"\n"
LAST = b"data: [DONE]\n"


@each_case(("turn", "error"), enumerate([A_FIELD, A_BARE_ERROR, b"[%b]\n" % A_BARE_ERROR.rstrip(), IN_LINES]))
@each_case(
    ("before", "behind", "text"),
    [
        *((CHUNK, behind, "a") for behind in (b"", LAST, b"id: 1\n" + LAST, CUT_CHUNK)),
        (CHUNK + LAST, b"", "a"),
        (CHUNK * 2, LAST, "aa"),
        (CHUNK, CHUNK + LAST, "aa"),
        (b"id: 1\n", CHUNK + LAST, "a"),
        (CUT_CHUNK, LAST, ""),
        (CHUNK + CUT_CHUNK, b"", "a"),
        *((before, LAST, "") for before in (b"", b"id: 1\n", b"data:\n")),
        (b"data:\n", b"", ""),
        # Was once wrong: these hid it.
        (b"id: 1\n", b"data: oops\n", ""),
        (CHUNK, b"data: oops\n", "a"),
        (b"id: 1\n", b"data: []\n" + LAST, ""),
        (CHUNK + LAST + CHUNK, b"", "a"),
        (b"id: 1\n", LAST + CUT_CHUNK, ""),
    ],
)
def test_an_error_beside_data(turn: int, error: bytes, before: bytes, behind: bytes, text: str) -> None:
    """Each ending with another line end for each error."""
    block = before + error + behind
    for place, ending in enumerate((block + b"\n", block, block.removesuffix(b"\n"))):
        line_end = LINE_ENDS[(turn + place) % 3]
        body = (data(chunk("", "stop")) + ending).replace(b"\n", line_end)
        for size in (len(body), 1 if line_end == b"\r\n" else 3):
            parser = parsed(body, size)
            assert (parser.end, str(parser.error), parser.snapshot.text) == (StreamEnd.FAILED, "m", text)


def test_an_error_beside_data_is_one_in_strict_mode() -> None:
    for lines in (CHUNK + A_FIELD, CHUNK * 2 + A_FIELD, A_BARE_ERROR + CHUNK * 2 + LAST):
        for ending in (b"\n", b""):
            parser = parsed(lines + ending, strict=True)
            assert (parser.end, str(parser.error)) == (StreamEnd.FAILED, "m")


def test_an_error_beside_data_may_have_a_chunk() -> None:
    body = CHUNK * 2 + b'{"error":{"message":"m"},"choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'
    parser = parsed(body)
    assert (str(parser.error), parser.snapshot.text) == ("m", "aab")
    noted = [(one.rule.id, one.offset) for one in parser.anomalies if one.rule.id in {"CF102", "CF602"}]
    assert noted == [("CF102", 0), ("CF602", 0)]


def test_the_data_of_an_error_event_comes_before_an_error_beside_it() -> None:
    for before, behind, message in (
        (b"", LAST, "m"),
        (CUT_CHUNK, b"", "m"),
        (b'data: {"message":"n"}\n', b"", "n"),
        (b"data: n\n", LAST, "n"),
    ):
        for ending in (b"\n", b""):
            assert failure_of(b"event: error\n" + before + A_FIELD + behind + ending).message == message


def test_the_callback_gets_the_event_beside_an_error() -> None:
    for lines, texts in ((CHUNK + LAST, ["a"]), (LAST, []), (CUT_CHUNK, [])):
        seen: list[Any] = []
        parsed(lines + A_FIELD + b"\n", on_server_sent_event=lambda *told, seen=seen: seen.append(told))
        [(event, chunks)] = seen
        assert event.data == b"\n".join(line[6:] for line in lines.splitlines())
        assert [chunk.text for chunk in chunks] == texts


def test_an_error_beside_data_drops_nothing_of_the_event_before() -> None:
    for error in (A_FIELD, A_BARE_ERROR, IN_LINES):
        assert parsed(CUT_CHUNK + b"\n" + error + CHUNK + b"\n").end is StreamEnd.INVALID
        assert parsed(CHUNK + b"\n" + error + CHUNK + b"\n").snapshot.text == "aa"


@each_case("value", [b"null", b"false", b"{}", b"[]", b"[{}]", b'""', b"", b"oops", b"{oops", b'{"oops', b'"oops'])
def test_an_empty_error_beside_data_is_none(value: bytes) -> None:
    for lines in (CHUNK + b"error: %b\n" % value, b"error: %b\n" % value + CHUNK):
        for ending in (b"\n" + DONE, LAST, b"\n"):
            assert parsed(lines + ending).completion().text == "a"


def test_an_error_behind_the_end_of_a_stream_is_none() -> None:
    for error in (A_FIELD, A_BARE_ERROR):
        assert parsed(CHUNK + b"\n" + LAST + b"\n" + error + b"\n").end is StreamEnd.FINISHED
        assert parsed(CHUNK + LAST + b"\n" + error + b"\n").end is StreamEnd.FINISHED


def test_an_error_beside_data_has_the_limits_of_an_event() -> None:
    large = b'{"x":[%b0]}' % (b"0," * 300)
    for lines in (CHUNK + b"error: " + large + b"\n", b"data: " + large + b"\n" + A_FIELD):
        parser = parsed(lines + b"\n", max_event_items=250)
        assert isinstance(parser.error, LimitExceededError)


# Behind an event that was cut


CUT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"wor\n'
WHOLE = data(chunk("b")).removesuffix(b"\n")
ADDED = b'data: {"error":{"type":"upstream_error","message":"reset"}}\n'
WRAPPED = b'data: [{"error":{"type":"upstream_error","message":"reset"}}]\n'


@each_case("named", [b"", b"event: error\n"])
@each_case(
    ("lines", "text"), [(CUT, "a"), (WHOLE, "ab"), (WHOLE + CUT, "ab"), (CUT + WHOLE, "ab"), (b"data: \n" + CUT, "a")]
)
@each_case(
    "ending",
    [
        ADDED + b"\n",
        ADDED,
        WRAPPED + b"\n",
        WRAPPED,
        ADDED + DONE,
        WRAPPED + DONE.rstrip(),
        ADDED + b"data: [DONE] \n\n",
    ],
)
def test_an_error_right_behind_an_event_that_was_cut(named: bytes, lines: bytes, text: str, ending: bytes) -> None:
    """A gateway adds it where its upstream broke off, so both are lines of one event."""
    parser = parsed(data(chunk("a")) + lines + named + ending)
    assert isinstance(parser.error, APIError)
    assert (parser.error.message, parser.error.status_code) == ("reset", 502)
    assert parser.snapshot.text == text
    assert "CF102" in {anomaly.rule.id for anomaly in parser.anomalies}


@each_case("prefix", [b"data: ", b"data:"])
@each_case("ending", [b"\n\n" + DONE, b"\n" + DONE, b"\n\n", b"\n", b""])
def test_an_error_spliced_into_an_event_that_was_cut(prefix: bytes, ending: bytes) -> None:
    """A proxy writes its own frame where its upstream broke off, in the middle of a line."""
    body = data(chunk("a")) + CUT.rstrip() + prefix + ADDED.removeprefix(b"data: ").rstrip() + ending
    for size in (len(body), 1):
        parser = parsed(body, size)
        assert isinstance(parser.error, APIError)
        assert (parser.error.message, parser.error.status_code, parser.snapshot.text) == ("reset", 502, "a")


def test_also_one_that_is_a_text() -> None:
    assert failure_of(data(chunk("a")) + CUT + b'data: {"error":"reset"}\n\n').message == "reset"


@each_case("line", [CUT.rstrip() + b'{"error":"reset"}', b'data: tried, got data: {"error":"reset"}'])
def test_an_error_without_its_field_or_behind_text_that_is_not_json_is_not_spliced(line: bytes) -> None:
    assert type(parsed(data(chunk("a")) + line + b"\n\n" + DONE).error) is InvalidChunkError


def test_text_that_looks_like_a_spliced_error_is_text() -> None:
    said = 'data: {"error":"reset"}'
    assert parsed(data(chunk(said, "stop")) + DONE).completion().text == said


@each_case("last", [b'data: {"id":"y"}\n', b"data: [1]\n", b"data: reset\n", b'data: {"message":"reset"}\n'])
def test_what_is_no_error_without_doubt_does_not_excuse_the_event_before(last: bytes) -> None:
    """Nor one that it is spliced into."""
    for cut in (CUT, CUT.rstrip()):
        assert type(parsed(data(chunk("a")) + cut + last + b"\n" + DONE).error) is InvalidChunkError
    assert failure_of(b"event: error\n" + CUT + last + b"\n").message.startswith('{"id"')


@patch.object(raw_data, "MAX_EVENT_PAYLOADS", 100)
def test_an_error_behind_too_many_lines() -> None:
    assert isinstance(parsed(b"data: {}\n" * 101 + ADDED + b"\n").error, LimitExceededError)


# JSON between the blocks


BARE = [
    {"code": "workflow_error", "message": "x", "details": "ValueError"},
    *({"code": "STREAM_ERROR", "message": "x"}, {"type": "error", "message": "x"}),
    *({"object": "error", "message": "x", "code": 400}, {"id": 1, "error": {"message": "x"}}),
]


@each_case("body", BARE)
@each_case("ending", [b"", b"\n", b"\n\n", b"\n\n" + DONE])
@each_case("before", [data(chunk("a")), b": hi\n\n"])
def test_an_error_as_bare_json_of_another_shape(body: Any, ending: bytes, before: bytes) -> None:
    assert failure_of(before + compact_json(body) + ending).message == "x"


@each_case(
    "body",
    [
        {"level": "info", "message": "x"},
        {"level": "warn", "msg": "x", "error": "connection reset"},
        {"level": "info", "code": "I100", "message": "x"},
        {"code": 1, "message": "success"},
        {"detail": "x"},
        {"code": 0, "message": "ok"},
        {"error": None},
    ],
)
def test_bare_json_that_may_be_anything_is_ignored(body: Any) -> None:
    parser = parsed(data(chunk("a")) + compact_json(body) + b"\n\n" + data(chunk("b", "stop")) + DONE)
    assert parser.completion().text == "ab"
    assert "CF110" in {anomaly.rule.id for anomaly in parser.anomalies}


PRINTED = {  # in one line or in several, as Google prints it
    "in one line": b'{"error":{"code":503,"message":"x"}}\n',
    "in several": b'{\n  "error": {\n    "code": 503,\n    "message": "x"\n  }\n}\n',
    "without blanks": b'{\n"error": {\n"code": 503,\n"message": "x"\n}\n}\n',
    "with equal lines": b'{\n"error": {\n"code": 503,\n"message": "x",\n"a": {\n"b": {\n"c": 1\n}\n}\n}\n}\n',
    "in a list": b'[{\n  "error": {\n    "code": 503,\n    "message": "x"\n  }\n}\n]\n',
    "in a list of its own line": b'[\n  {\n    "error": {\n      "code": 503,\n      "message": "x"\n    }\n  }\n]\n',
    "in a list in one line": b'[{"error":{"code":503,"message":"x"}}]\n',
}


@each_case("name", PRINTED)
@each_case("ending", [b"", b"\n", b"\n" + delta("stop") + DONE])
@each_case(("turn", "before"), enumerate([data(chunk("a")), data(chunk("a", "stop")), b": comment\n\n", b":\n" * 30]))
def test_an_error_as_bare_json(name: str, ending: bytes, turn: int, before: bytes) -> None:
    body = before + (PRINTED[name] + ending).replace(b"\n", LINE_ENDS[turn % 3])
    for size in (None, 1):
        parser = parsed(body, size)
        assert isinstance(parser.error, APIError), size
        assert (parser.end, parser.error.status_code, parser.error.message) == (StreamEnd.FAILED, 503, "x")
        assert [one.rule.id for one in parser.anomalies] in (["CF602"], ["CF602", "CF214"])
