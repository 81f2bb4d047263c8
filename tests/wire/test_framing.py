"""What providers do to events and blocks: what is skipped, what has lost its field, several payloads in one block."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from cases import each_case
from parsed_bodies import parsed
from wire_events import A, B, call, chunk, compact, dumped, noted, parse, refused_by, stream

from chunkfold import (
    APIError,
    ChatCompletionChunk,
    ChatCompletionParser,
    InvalidChunkError,
    InvalidStreamError,
    NotAnEventStreamError,
)
from chunkfold.event_stream import discarded
from chunkfold.excerpts import excerpt_of
from chunkfold.testing import HEAD, sse
from chunkfold.wire import payload, raw_data
from chunkfold.wire.reading import read_json

SKIPPED = [  # beside the examples of the rules
    pytest.param(b"data\n\n", "CF103", id="3 without a colon"),
    pytest.param(b"data:  \t\n\n", "CF103", id="3 blanks"),
    pytest.param(b"data:\ndata:\n\n", "CF103", id="3 two empty data lines"),
    pytest.param(b"data: :\n\n", "CF104", id="4 an empty one"),
    pytest.param(b"event: keepalive\ndata: {}\n\n", "CF106", id="6 an empty object"),
    pytest.param(b"event: keepalive\ndata: ping\n\n", "CF106", id="6 that is no JSON"),
    pytest.param(b"event: x\ndata: [1,2]\n\n", "CF106", id="6 nor an object"),
    pytest.param(b'event: x\ndata: {"object":"error","message":"m"}\n\n', "CF106", id="6 envelope 4, object"),
    pytest.param(b'event: x\ndata: {"type":"error","message":"m"}\n\n', "CF106", id="6 envelope 4, type"),
    pytest.param(b'event: x\ndata: {"code":500}\n\n', "CF106", id="6 envelope 7, code"),
    pytest.param(b'event: x\ndata: {"message":"m","code":500}\n\n', "CF106", id="6 envelope 7, code and message"),
    pytest.param(b'event: x\ndata: {"detail":"m"}\n\n', "CF106", id="6 envelope 7, detail"),
    pytest.param(b'event: x\ndata: {"message":"m"}\n\n', "CF106", id="6 envelope 7, message"),
    pytest.param(b'event: x\ndata: [{"error":{"message":"m"}}]\n\n', "CF106", id="6 envelope 8"),
    pytest.param(b' data: {"choices":5}\n\n', "CF110", id="nearly data: a blank before it"),
    pytest.param(b'\xef\xbb\xbfdata: {"choices":5}\n\n', "CF110", id="nearly data: a BOM before it"),
    pytest.param(b'Data: {"choices":5}\n\n', "CF110", id="nearly data: a capital"),
    pytest.param(b': a\n\n{"choices":5}\n\n', "CF110", id="nearly data: no field"),
    pytest.param(b'data : {"choices":5}\n\n', "CF110", id="nearly data: a blank behind it"),
    pytest.param(b"DATA : [DONE]\n\n", "CF110", id="nearly data: [DONE]"),
    pytest.param(b"data: data:\n\n", "CF111", id="the prefix twice, no data"),
]


@each_case(("block", "rule"), SKIPPED)
def test_what_is_skipped_and_noted(block: bytes, rule: str) -> None:
    first, second, done = sse(A, B)
    parser = parsed(first + block + second + done)
    assert parser.completion().text == "ab"
    assert noted(parser) == {rule} | ({"CF103"} if block == b"data: data:\n\n" else set())
    strict = parsed(first + block + second + done, strict=True)
    assert (refused_by(strict), strict.snapshot.text) == (rule, "a")


def test_what_is_nearly_data_is_noted_in_its_place() -> None:
    first, second, done = sse(A, B)
    body = first + b" data: {}\n\ndata: null\n\nData: {}\n\nerror: {}\n\n" + second + done
    for size in (None, 1):
        parser = parsed(body, size)
        found = [(one.rule.id, one.count, one.offset) for one in parser.anomalies]
        after = len(first)
        assert found[:2] == [("CF110", 2, after), ("CF105", 1, after + 11)]
        assert (parser.end, parser.snapshot.text) == ("failed", "a")


def test_a_body_of_what_is_nearly_data_is_no_event_stream() -> None:
    body = b"".join(b" " + block for block in sse(A, B))
    parser = parsed(body)
    assert (parser.end, type(parser.error), noted(parser)) == ("invalid", NotAnEventStreamError, {"CF110"})
    assert refused_by(parsed(body, strict=True)) == "CF110"


@each_case("block", [b"%b\n\n", b"id: 1\n%b\n\n", b"\n%b\r\n\r\n"])
@each_case("before", [b"", b": ping\n\n", stream(A).removesuffix(sse()[0])])
def test_a_chunk_without_the_field_is_read(block: bytes, before: bytes) -> None:
    """Higress loses `data: ` now and then; the text was lost with it."""
    bare, done = block % compact(B), sse()[0]
    for body in (before + bare + stream(A), before + stream(A).removesuffix(done) + bare + done):
        for size in (len(body), 1, 5):
            parser = ChatCompletionParser()
            chunks = [chunk for at in range(0, len(body), size) for chunk in parser.feed(body[at : at + size])]
            assert sorted(chunk.text for chunk in chunks) == sorted(parser.completion().text)
            assert parser.completion().text.count("b") == 1
            assert noted(parser) & {"CF110", "CF109"}


def test_a_chunk_without_the_field_is_told_to_the_callback_and_refused_by_strict_mode() -> None:
    told: list[tuple[bytes, int]] = []
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: told.append((event.data, len(chunks))))
    first, second, done = sse(A, B)
    parser.feed(first + second.removeprefix(b"data: ") + done)
    assert told == [(compact(A), 1), (compact(B), 1), (b"[DONE]", 0)]
    assert refused_by(parsed(first + second.removeprefix(b"data: ") + done, strict=True)) == "CF110"


def test_a_chunk_without_the_field_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes a second."""
    reads: list[bytes] = []

    def read(data: bytes, notes: Any) -> Any:
        reads.append(data)
        return read_json(data, notes)

    for module in (raw_data, payload):
        monkeypatch.setattr(module, "read_json", read)
    first, second, done = sse(A, B)
    assert parsed(first + second.removeprefix(b"data: ") + done).completion().text == "ab"
    assert reads == [compact(B)]


def test_what_is_noted_of_a_chunk_without_the_field_is_kept() -> None:
    halves = [compact(chunk({"content": "\ud83d"})), compact(chunk({"content": "\ude00"}, "stop"))]
    parser = parsed(sse(A)[0] + b"".join(half + b"\n\n" for half in halves))
    assert (parser.snapshot.text, noted(parser)) == ("a\U0001f600", {"CF110", "CF211", "CF501"})


@each_case("more", [{"choices": []}, {"choices": None}, {"choices": {}}, {}])
def test_an_error_with_usage_is_a_chunk(more: dict[str, Any]) -> None:
    error = {"error": {"message": "m"}, **more}
    payload = parse({**error, "usage": {"prompt_tokens": 1}})
    assert ([chunk.usage.prompt_tokens for chunk in payload.chunks], str(payload.error)) == ([1], "m")
    assert parse(error).chunks == []
    assert len(parse({**error, "x_groq": {"usage": {"prompt_tokens": 1}}}).chunks) == 1
    assert parsed(stream({**error, "usage": {"prompt_tokens": 1}})).snapshot.usage.prompt_tokens == 1


@each_case("before", [b"", b"data:\n", b": ping\n\n", b"event: message\n"])
@each_case("size", [1, 10**6])
def test_so_is_the_first_chunk(before: bytes, size: int) -> None:
    told: list[str] = []
    _, second, done = sse(A, B)
    body = before + compact(A) + b"\n\n" + second + done
    parsed(body, size, on_server_sent_event=lambda _, chunks: told.extend(one.text for one in chunks))
    assert told == ["a", "b"]


NEARLY_FIRST = 2 * b'Data: {"choices":[]}\n\n' + b"%b\n\ndata: [DONE]\n\n"


@each_case(
    ("bare", "rules"),
    [(compact(A), ["CF110", "CF109", "CF502"]), (b'{"error":{"message":"overloaded"}}', ["CF110", "CF607"])],
)
@each_case("size", [1, 30, 1000])
def test_what_comes_before_a_stream_is_noted_in_its_order(bare: bytes, rules: list[str], size: int) -> None:
    """Was once wrong in one read: JSON without the field was read before the line that is nearly `data` was noted."""
    body = NEARLY_FIRST % bare
    parser, strict = (parsed(body, size, strict=strict) for strict in (False, True))
    assert [anomaly.rule.id for anomaly in parser.anomalies] == rules
    assert "CF110" in str(strict.error)
    assert strict.snapshot.text == ""


def test_a_last_chunk_without_the_field_and_without_choices_is_read() -> None:
    trailer = {**HEAD, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    first, second, done = sse(A, B)
    assert parsed(first + second + compact(trailer) + b"\n\n" + done).completion().usage.total_tokens == 3


FIRST, SECOND, END = sse(A, B)
COMPLETION = {**HEAD, "object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
# What comes, how it ends, the text, and all rules that are noted. Of JSON that lost its field, of what stands before the
# stream and of the last block, text or the whole stream was once lost.
FRAMES = {
    "nearly data that is text": (FIRST + b" data: text\n\n" + SECOND + END, "finished", "ab", ""),
    "nearly data that is a number": (FIRST + b"Data: 5\n\n" + SECOND + END, "finished", "ab", ""),
    "JSON between blanks that JSON does not have":
        (FIRST + b'Data: \x0b{"status":"ok"}\x0c\n\n' + END, "done", "a", "CF110 CF502"),
    "nearly data that is a list": (FIRST + b"data : [1]\n\n" + SECOND + END, "finished", "ab", ""),
    "nearly data that is a keep-alive": (FIRST + b" data: [HEARTBEAT]\n\n" + b"data: [DONE]\n\n", "done", "a", "CF502"),
    "broken JSON that is nearly data": (FIRST + b'Data: {"choices": [\n\n' + END, "truncated", "a", "CF219"),
    "a broken list of chunks that is nearly data":
        (FIRST + b'Data: [{"choices": [\n\n' + END, "truncated", "a", "CF219"),
    "broken JSON without the field": (FIRST + b'{"choices": [\n\n' + END, "truncated", "a", "CF219"),
    "chunks in a list in several lines without the field":
        (FIRST + json.dumps([B, B], indent=1).encode() + b"\n\n" + END, "truncated", "a", "CF219"),
    "an error that is nearly data": (FIRST + b' data: {"error":{"message":"x"}}\n\n' + SECOND + END, "finished", "ab", "CF110"),
    "a chunk without its name and the field":
        (FIRST + compact({**B, "object": ""}) + b"\n\n" + END, "finished", "ab", "CF110 CF206"),
    "data in quotes": (FIRST + b'"data": {}\n\n' + SECOND + END, "finished", "ab", ""),
    "each line of a block that lost its fields, and [DONE]":
        (FIRST + b"\n".join([compact(B), compact(A), b"[DONE]"]) + b"\n\n" + SECOND, "finished", "aba", "CF110 CF505"),
    "[DONE] that lost its field": (FIRST + b"[DONE]\n\n", "done", "a", "CF110 CF502"),
    **{f"a line of the last block that lost its field, then {end!r}":
        (b": ping\n\n" + FIRST.rstrip() + b"\n" + compact(B) + end, "finished", "ab", rules)
       for end, rules in ((b"", "CF101 CF110 CF501"), (b"\n", "CF101 CF110 CF501"), (b"\n\n", "CF110 CF501"))},
    **{f"a line of the last block before one with the field, then {end!r}":
        (b": ping\n\n" + compact(A) + b"\n" + SECOND.rstrip() + end, "finished", "ab", rules)
       for end, rules in ((b"", "CF101 CF109 CF501"), (b"\n", "CF101 CF109 CF501"), (b"\n\n", "CF109 CF501"))},
    "a chunk behind [DONE] in the last block": (FIRST + b"data: [DONE]\n" + compact(B), "done", "a", "CF101 CF502"),
    "other JSON without the field: no choices":
        (FIRST + compact({"choices": []}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: a text":
        (FIRST + compact({"choices": [{"text": "b"}]}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: a choice that is none":
        (FIRST + compact({"choices": ["b"]}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: usage":
        (FIRST + compact({"usage": {"total_tokens": 5}}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "the prefix twice, each time": (b"data: " + FIRST + b"data: data: [DONE]\n\n", "done", "a", "CF111 CF502"),
    "twice without blanks": (b"data:data:" + compact(A) + b"\n\n" + END, "done", "a", "CF111 CF502"),
    "twice, and lost blank lines":
        (b"data: " + FIRST.rstrip() + b"\ndata: data: [DONE]\n\n", "done", "a", "CF102 CF111 CF502"),
    "twice, not ended": (b"data: " + FIRST.rstrip(), "truncated", "a", "CF101 CF111"),
    "twice, cut": (b'data: data: {"choi', "empty", "", ""),
    "three times: only one is taken off": (b"data: data: " + FIRST, "invalid", "", "CF111"),
    "twice before text": (b"data: data: hello\n\n", "invalid", "", "CF111"),
    "any number of times": (b"data: " * 5001 + b"\n\n", "invalid", "", "CF111"),
    "a completion before the stream": (compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion over lines":
        (json.dumps(COMPLETION, indent=2).encode() + b"\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion with CRLF": (b"\r\n" + compact(COMPLETION) + b"\r\n\r\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion after a comment":
        (b": ping\n\n" + compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion after a field":
        (b"retry: 5\n" + compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion without choices": (compact({**COMPLETION, "choices": []}), "empty", "", "CF109"),
    "an error before the stream": (compact({"error": {"message": "x"}}) + b"\n\n" + END, "failed", "", "CF607"),
    "an error, a comment and chunks":
        (compact({"error": {"message": "x"}}) + b"\n\n: ping\n\n" + FIRST + END, "failed", "", "CF607"),
    "a chunk behind an error before the stream":
        (compact({"error": {"message": "x"}}) + b"\n" + compact(A) + b"\n\n" + END, "failed", "", "CF607"),
    "the end without the field": (b"[DONE]\n\n" + END, "empty", "", "CF110"),
    "what may be no error": (compact({"message": "starting"}) + b"\n\n" + END, "empty", "", "CF219"),
    "an error without an envelope before the end":
        (compact({"detail": "x", "message": "y"}) + b"\n\n" + END, "failed", "", "CF604 CF607"),
    "the same over lines, a comment and a name": (
        json.dumps({"success": False, "errors": [{"message": "x"}]}, indent=2).encode()
        + b"\n\n: ping\n\nevent: ping\ndata: {}\n\n" + END,
        "failed", "", "CF106 CF604 CF607",
    ),
    "the same after a keep-alive, and no end":
        (b": ping\n\n" + compact({"code": 429}) + b"\n\n", "failed", "", "CF110 CF604 CF607"),
    "the first of two, and the last": (
        b": ping\n\n" + compact({"code": 429, "message": "x"}) + b"\n\n" + compact({"code": 500}) + b"\n\n" + END,
        "failed", "", "CF110 CF604 CF607",
    ),
    "the same, and chunks":
        (compact({"code": 429}) + b"\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "the same in 64 KiB":
        (compact({"code": 429}).ljust(2**16 - 2) + b"\n\n" + END, "failed", "", "CF604 CF607"),
    "the same in more":
        (compact({"code": 429}).ljust(2**16 - 1) + b"\n\n" + END, "empty", "", ""),
    "several objects": (b'{"a":1}\n{"b":2}\n' + END, "empty", "", ""),
    "text before the stream": (b"Starting\n" + END, "empty", "", ""),
    "what may be no error, and chunks":
        (compact({"message": "starting"}) + b"\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "text, and chunks": (b"Starting\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "a comment of HTML, and chunks": (b"<!-- a -->\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "a chunk without the field before the stream":
        (b"Starting\n" + compact(A) + b"\n\n" + SECOND + END, "finished", "ab", "CF109"),
    "a chunk without the field and a comment before the stream":
        (b"Starting\n" + compact(A) + b"\n\n: ping\n\n" + SECOND + END, "finished", "ab", "CF109"),
    "a chunk without the field and a line of no field before the stream":
        (b"Starting\n" + compact(A) + b"\n\nretry : 5\n" + SECOND + END, "finished", "ab", "CF109"),
    "two chunks without the field before the stream":
        (b"Starting\n" + 2 * (compact(A) + b"\n\n") + SECOND + END, "finished", "aab", "CF109 CF110"),
    **{f"a chunk in several lines without the field, then {end!r}":
        (FIRST + json.dumps(B, indent=1).encode() + end, "finished", "ab", "CF110 CF501")
       for end in (b"", b"\n", b"\n\n")},
    "JSON in several lines that is no chunk": (FIRST + b'{\n"a": 1\n}\n\n', "truncated", "a", "CF110"),
    **{f"a completion after keep-alives, then {end!r}":
        (b": ping\n\n" + compact(COMPLETION) + end, "finished", "Hi", "CF109 CF210 CF501")
       for end in (b"", b"\n", b"\n\n")},
    "a completion after a chunk": (b": ping\n\n" + FIRST + compact(COMPLETION), "truncated", "a", "CF110"),
    "broken JSON of an error": (FIRST + b'data: {"error": "not "int""}\n\n', "failed", "a", "CF609"),
    "broken JSON of an error, its line ended":
        (FIRST + b'data: {"error": "not "int""}\n', "failed", "a", "CF101 CF609"),
    "broken JSON of an error, cut": (FIRST + b'data: {"error": "not "int""}', "truncated", "a", "CF219"),
    "an event named error, cut": (FIRST + b'event: error\ndata: {"code": 5', "truncated", "a", "CF219"),
    "an error behind the finish reason, cut":
        (FIRST + SECOND + b'data: {"error": {"mess', "finished", "ab", "CF101 CF219 CF501"),
    "an event named error, cut before its data": (FIRST + b"event: error\ndata: ", "truncated", "a", ""),
    **{
        f"a chunk that begins with the error {empty}, cut":
            (FIRST + b'data: {"error": %s, "choices": [{"del' % empty.encode(), "truncated", "a", "")
        for empty in ("null", "false", '""', "{ }")
    },
}  # fmt: skip


@each_case(("body", "end", "text", "rules"), FRAMES.values(), ids=FRAMES)
@each_case("size", [None, 1, 5])
def test_what_comes_without_its_field_twice_or_before_the_stream(
    body: bytes, end: str, text: str, rules: str, size: int | None
) -> None:
    parser = parsed(body, size and max(size, len(body) // 2**10))
    assert (parser.end, parser.snapshot.text, sorted(noted(parser))) == (end, text, rules.split())
    assert parser.snapshot.usage is None


QUOTED = {
    "JSON between events": FIRST + b'{"detail": "overloaded"}\n\n',
    "JSON over several lines": FIRST + json.dumps({"detail": "overloaded"}, indent=1).encode() + b"\n\n",
    "JSON before the stream": b'{"message": "overloaded"}\n\ndata: [DONE]\n\n',
    "a field that is nearly data": FIRST + b' data: {"error": "overloaded"}\n\n',
    "an object": FIRST + b'data: {"status": "overloaded"}\n\n',
}


@each_case("body", QUOTED.values(), ids=QUOTED)
def test_what_was_not_read_is_quoted_if_the_stream_is_not_complete(body: bytes) -> None:
    for parser in (parsed(body), parsed(body, 1)):
        assert parser.end in ("empty", "truncated")
        assert '"overloaded"' in str(parser.error)
        assert parsed(SECOND + body).error is None


def test_a_line_that_was_read_as_a_chunk_is_not_quoted() -> None:
    assert "nearly" not in str(parsed(b": ping\n\n" + FIRST + compact(A) + b"\n\n").error)


@each_case("tail", [b'data: {"error": {"mess', b'event: error\ndata: {"code": 5'])
def test_strict_mode_takes_an_error_that_is_cut_off_for_a_cut(tail: bytes) -> None:
    ended, broken = ChatCompletionParser(strict=True), ChatCompletionParser(strict=True)
    for parser in (ended, broken):
        parser.feed(FIRST + tail)
    ended.close()
    broken.interrupt(OSError())
    assert (ended.end, broken.end, noted(ended), noted(broken)) == ("truncated", "interrupted", set(), set())


def test_an_error_before_a_stream_counts_if_the_transport_fails_but_not_if_the_consumer_leaves() -> None:
    opening = compact({"detail": "x"}) + b"\n\nevent: ping\ndata: {}\n\n"
    broken, left = ChatCompletionParser(), ChatCompletionParser()
    for parser in (broken, left):
        parser.feed(opening)
    broken.interrupt(OSError())
    left.leave()
    assert (broken.end, str(broken.error), left.end) == ("failed", "x", "closed")
    assert {anomaly.rule.id: anomaly.offset for anomaly in broken.anomalies} == {"CF106": 16, "CF604": 0, "CF607": 0}


def test_of_two_errors_before_a_stream_the_first_counts() -> None:
    assert str(parsed(FRAMES["the first of two, and the last"][0]).error) == "x"


def test_an_error_before_a_stream_is_none_if_a_transform_holds_the_chunks_back() -> None:

    class Last:
        def __init__(self) -> None:
            self.held: list[ChatCompletionChunk] = []

        def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
            self.held.append(chunk)
            return []

        def close(self) -> list[ChatCompletionChunk]:
            return self.held

    parser = parsed(compact({"code": 429}) + b"\n\n" + FIRST + SECOND + END, transforms=[Last()])
    assert (parser.end, parser.snapshot.text, noted(parser)) == ("finished", "ab", set())


@each_case(("body", "end"), [(COMPLETION, "finished"), ({"error": {"message": "x"}}, "failed")])
def test_a_large_body_of_json_in_lines_behind_a_comment_is_read(body: dict[str, Any], end: str) -> None:
    sent = b": ping\n\n" + json.dumps({**body, "padding": ["a" * 200] * 4_000}, indent=1).encode()
    assert parsed(sent).end == end
    assert parsed(sent.replace(b'"a', b'"' + b"a" * 80)).end == "empty"  # past a MiB it is not read


LONGEST, MOST_ITEMS = 2**15, 10_000  # bytes of JSON in several lines; its items
PADDING = b'"padding": [\n' + b'"aaaaaaaaaaaaaaaaaaaa",\n' * (LONGEST // 23) + b"0\n]\n}\n\n"
UNREAD = [
    b'{\n"error": {"message": "x"},\n' + PADDING,
    b'{\n"choices": [],\n' + PADDING,
    b"{\n" + b'"a": 1,\n' * (LONGEST // 8) + b"\n",
    b'{"a": [' + b"0," * MOST_ITEMS + b"0]}\n\n",
    b'{\n"a": [' + b"0," * MOST_ITEMS + b"0]\n}\n\n",
    b'data : {"a": [' + b"0," * MOST_ITEMS + b"0]}\n\n",
    b'{"error": {"message": "boom\n\n',
    b'{\n"error": {"message": "boom\n\n',
    b'error: {"error": {"message": "boom\n\n',
]


@each_case("unread", UNREAD)
@patch.object(discarded, "_LONGEST_JSON", LONGEST)
def test_json_without_the_field_that_cannot_be_read_is_unexplained(unread: bytes) -> None:
    first, done = sse(A)
    for size in (2**12, 2**20):
        parser = parsed(first + unread + done, size, max_event_items=MOST_ITEMS)
        assert (parser.end, noted(parser)) == ("truncated", {"CF219"})
        assert excerpt_of(unread.removeprefix(b"error: ").removeprefix(b"data : "))[:12] in str(parser.error)
    assert parsed(first + unread + done, max_event_items=MOST_ITEMS, strict=True).end == "invalid"
    assert parsed(first + unread + sse(B)[0] + done, max_event_items=MOST_ITEMS).end == "finished"


@pytest.mark.parametrize("data", [b'{"id":"1","logprodata: {"id":"2"}', b"[HEARTBEAT]", b"OK"])
def test_what_has_no_clear_meaning_stays_invalid(data: bytes) -> None:
    """A line spliced into another, words as keep-alives."""
    payload = parse(data)
    assert isinstance(payload.error, InvalidChunkError)
    assert data.decode() in str(payload.error)
    assert payload.notes == []


@pytest.mark.parametrize("name", ["message", "chat.completion.chunk", "meta"])
def test_an_event_of_any_name_may_be_a_chunk(name: str) -> None:
    payload = parse(A, name)
    assert dumped(payload) == A
    assert noted(payload) == set()


@each_case("body", [{"error": {"message": "m"}}, {"error": "m"}, {"base_resp": {"status_code": 1}}])
def test_an_event_of_any_name_may_be_an_error(body: Any) -> None:
    assert isinstance(parse(body, "meta").error, APIError)


def lines(*values: Any) -> bytes:
    """One block with a data line for each value, joined as its event has them."""
    return b"\n".join(value if isinstance(value, bytes) else compact(value) for value in values)


SEVERAL = [
    # The lines of one block; the texts of its chunks; the error; whether it was [DONE].
    pytest.param(lines(A, B), ["a", "b"], None, False, id="15 two chunks"),
    pytest.param(lines(A, B, b"[DONE]"), ["a", "b"], None, True, id="15 and [DONE]"),
    pytest.param(lines(A, b"", B), ["a", "b"], None, False, id="15 an empty line between"),
    pytest.param(lines(A, b"null", b": ping", B), ["a", "b"], None, False, id="15 keep-alives between"),
    pytest.param(lines(A, b"garbage", B), ["a"], InvalidChunkError, False, id="15 up to the first that is invalid"),
    pytest.param(lines(A, b'{"choi', B), ["a"], InvalidChunkError, False, id="15 or cut"),
    pytest.param(lines(A, {"error": {"message": "x"}}, B), ["a"], APIError, False, id="15 or an error"),
    pytest.param(lines({"error": {"message": "x"}}, A), [], APIError, False, id="15 an error first"),
    pytest.param(lines(A, b"[DONE]", B), ["a"], None, True, id="15 [DONE] ends it"),
    pytest.param(lines(b"[DONE]", B), [], None, True, id="15 also as the first"),
    pytest.param(lines(A, {"choices": 5}, B), ["a"], InvalidChunkError, False, id="15 or no chunk"),
    pytest.param(lines(b"garbage", A), [], InvalidChunkError, False, id="15 the first line decides"),
    pytest.param(lines([A], [B], b"[DONE]"), ["a", "b"], None, True, id="15 and 35, chunks in lists"),
    pytest.param(lines([{"error": {"message": "x"}}], b"[DONE]"), [], APIError, False, id="15 and 35, an error"),
    pytest.param(lines(b"[]", A), [], InvalidChunkError, False, id="15 and must be an object"),
]


@each_case(("data", "texts", "error", "done"), SEVERAL)
def test_several_payloads_in_one_block(data: bytes, texts: list[str], error: Any, done: bool) -> None:
    payload = parse(data)
    assert [one.text for one in payload.chunks] == texts
    assert (type(payload.error) if payload.error else None, payload.done) == (error, done)
    is_split = not data.startswith((b"garbage", b"[]"))
    assert ("CF102" in noted(payload)) is is_split


@each_case(
    ("choices", "error"),
    [
        ([5], InvalidChunkError),
        (5, NotAnEventStreamError),
        ("x", NotAnEventStreamError),
        ({"0": {"message": {"content": "a"}}}, NotAnEventStreamError),
    ],
)
def test_a_completion_whose_choices_are_no_objects(choices: Any, error: type[InvalidStreamError]) -> None:
    assert type(parsed(compact({**COMPLETION, "choices": choices})).error) is error


def test_a_null_among_the_tool_calls_of_a_completion_is_skipped() -> None:
    choice = {"message": {"tool_calls": [None, call("{}")]}, "finish_reason": "tool_calls"}
    parser = parsed(compact({**COMPLETION, "choices": [choice]}))
    assert [call.name for call in parser.completion().tool_calls] == ["f"]
    assert "CF217" in noted(parser)


@each_case(
    ("indexes", "names", "arguments"),
    [
        *((indexes, ("get", "get"), "{}") for indexes in [(0, 0), (None, 0), (1, None), ("x", "x")]),
        ((None, None), ("get", "get_weather"), ""),
    ],
)
def test_calls_of_a_completion_are_told_apart_by_their_places(
    indexes: tuple[Any, ...], names: tuple[str, ...], arguments: str
) -> None:
    """Whatever index they have. Was once wrong: the arguments, or the name, of one were appended to the other's."""
    functions = [{"name": name, "arguments": arguments} for name in names]
    calls = [{"index": index, "function": function} for index, function in zip(indexes, functions, strict=True)]
    choice = {"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}
    for body in (compact({**COMPLETION, "choices": [choice]}), stream({"choices": [choice]})):
        parser = parsed(body)
        assert [call.function.model_dump() for call in parser.completion().tool_calls] == functions
        assert "CF301" not in noted(parser)
