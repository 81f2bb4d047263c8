"""Bodies that are no event stream, and those of a status that is not 2xx."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from limited import assert_named
from parsed_bodies import fed, parsed
from played import BROKEN_LINE, ERROR, HI, STOP, cuts, play, rules, text, unterminated

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionParser,
    IncompleteStreamError,
    NotAnEventStreamError,
    StreamEnd,
    StreamInterruptedError,
)
from chunkfold.testing import DONE
from chunkfold.testing.wire import compact_json

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
    "an error behind a BOM": (b"\xef\xbb\xbf" + compact_json(ERROR_BODY), "failed"),
    "an error in a list": (compact_json([ERROR_BODY]), "failed"),
    "an error that is a string": (compact_json({"error": "overloaded"}), "failed"),
    "a bare error": (compact_json({"object": "error", "message": "overloaded", "code": 503}), "failed"),
    "a bare code": (compact_json({"code": 429}), "failed"),
    "a completion that failed": (
        compact_json({**COMPLETION, "choices": [{**COMPLETION["choices"][0], "finish_reason": "error"}]}),
        "failed",
    ),
    "a completion": (compact_json(COMPLETION), "finished"),
    "a completion over several lines": (json.dumps(COMPLETION, indent=2).encode(), "finished"),
    "a completion before comments": (compact_json(COMPLETION) + b"\n\n: ping\n\n:\n", "finished"),
    "an error before a comment": (compact_json({"code": 429}) + b"\r\r: ping\r", "failed"),
    "an error with the id of a call": (b'{"tool_call_id":"c","error":{"message":"x"}}', "failed"),
    "a completion right before [DONE]": (compact_json(COMPLETION) + b"data: [DONE]\n\n", "finished"),
    "an error right before [DONE]": (compact_json({"error": "x"}) + b"data: [DONE]\n\n", "failed"),
    "something else right before [DONE]": (b'{"object":"list"}data: [DONE]\n\n', "invalid"),
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
        ("cut JSON", "interrupted"),
        ("JSON of something else", "interrupted"),  # a stream could have followed
        ("one object a line", "interrupted"),
    ],
)
def test_bodies_that_are_no_event_stream_over_a_transport_that_fails(body: str, end: str) -> None:
    assert play(BODIES[body][0], "interrupt").end == end


def test_a_whole_completion_over_a_transport_that_fails() -> None:
    """The completion is whole, so it counts as an answer if it has its finish reason, and else as interrupted."""
    late = play(compact_json(COMPLETION), "interrupt")
    assert (late.end, rules(late)) == (StreamEnd.FINISHED, ["CF109", "CF507"])
    body = compact_json({**COMPLETION, "choices": [{**COMPLETION["choices"][0], "finish_reason": None}]})
    early = play(body, "interrupt")
    assert (early.end, type(early.error), early.snapshot.text) == (StreamEnd.INTERRUPTED, StreamInterruptedError, "Hi")
    assert early.error.__cause__ is BROKEN_LINE
    assert play(body).end is StreamEnd.TRUNCATED


@each_case("end_of_line", [b"\n", b"\r\n", b"\r"])
def test_a_done_behind_a_whole_body_may_be_cut_anywhere(end_of_line: bytes) -> None:
    for sent, end, told in ((COMPLETION, "finished", "Hi"), (ERROR_BODY, "failed", "")):
        body = compact_json(sent)
        for field in (b"data: [DONE]", b"event:", b"id:", b"retry:", b"error:"):
            rest = 2 * end_of_line + field
            for size in range(len(rest)):
                for how in ("close", "interrupt"):
                    parser = play(body + rest[:size], how)
                    assert (parser.end, parser.snapshot.text) == (end, told)


@each_case("options", [{"max_event_size": 100}, {"max_event_items": 9}])
def test_limits_of_events_do_not_count_in_text(options: dict[str, Any]) -> None:
    assert type(parsed(b"<p>one, two, not found</p>\n" * 100, **options).error) is NotAnEventStreamError


@cuts
def test_an_event_stream_is_known_by_its_body(size: int | None) -> None:
    for content_type in ("application/json", "text/html", "", "text/event-stream; charset=ISO-8859-1"):
        parser = parsed(text("é") + STOP + DONE, size, headers={"content-type": content_type})
        assert parser.completion().text == "é"
        assert parser.anomalies == ()


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


@each_case(
    ("status_code", "headers", "known"),
    [
        (None, None, ""),
        (200, None, ""),  # of a file: a recording of a plain body has no other
        (None, {"content-type": "text/plain"}, " (content type text/plain)"),
        (200, {"x-request-id": "req_1"}, " (status 200, without a content type)"),
    ],
)
def test_the_error_says_of_the_response_what_is_known(status_code: Any, headers: Any, known: str) -> None:
    error = parsed(b"hello", status_code=status_code, headers=headers).error
    assert str(error) == f"expected an event stream, received another body{known}: 'hello'"


@each_case("compress", [gzip.compress, lambda body: b"\x28\xb5\x2f\xfd" + body], ids=["gzip", "zstd"])
def test_the_error_says_that_a_body_is_compressed(compress: Callable[[bytes], bytes]) -> None:
    error = parsed(compress(b"data: {}\n\n"), status_code=200, headers={"Content-Type": "text/event-stream"}).error
    received = "a compressed body (status 200, content type text/event-stream): pass the decoded one"
    assert str(error) == f"expected an event stream, received {received}"


@each_case("choices", ["", ',"choices":null', ',"choices":[]', ',"choices":{}'])
def test_a_completion_may_have_no_choices(choices: str) -> None:
    parser = parsed(f'{{"object":"chat.completion"{choices}}}'.encode())
    assert (parser.end, rules(parser)) == ("empty", ["CF109", "CF216"])


def test_a_completion_before_the_stream_has_its_items_counted() -> None:
    parser = fed(b'{"object":"chat.completion","choices":[{},{},{},{}]}\n\ndata: [DONE]\n\n', max_event_items=3)
    assert_named(parser, "max_event_items", 3)


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
