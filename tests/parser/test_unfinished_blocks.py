"""The last block of a body, if no blank line ends it; `promises/test_cuts` cuts bodies of each framing at every byte."""

from cases import each_case
from played import ERROR, HI, OVER_TWO_LINES, STOP, USAGE, cuts, play, unterminated

from chunkfold import InvalidChunkError
from chunkfold.testing import DONE

UNFINISHED: dict[str, tuple[bytes, str]] = {
    # Whole: read.
    "a chunk, its line not ended": (unterminated(STOP), "finished"),
    "a chunk over two lines": (b"data: " + OVER_TWO_LINES, "finished"),
    "an error": (unterminated(ERROR), "failed"),
    # Without blank lines between them: each line is an event.
    "two chunks": (unterminated(STOP) + b"\n" + unterminated(USAGE), "finished"),
    "a chunk and text": (unterminated(STOP) + b"\ndata: garbage", "invalid"),
    # The beginning of JSON: a cut, dropped and never invalid.
    "a cut object behind the finish reason": (STOP + USAGE[:50], "finished"),
    "a cut object": (STOP[:50], "truncated"),
    "an object cut inside a character": (b'data: {"choices":[{"delta":{"content":"\xe4\xbd', "truncated"),
    "a cut list": (b'data: [{"error":{"message":"ov', "truncated"),
    # So is the beginning of a keep-alive, or of a doubled prefix.
    "a cut null": (b"data: nul", "truncated"),
    "a cut null behind the finish reason": (STOP + b"data: n", "finished"),
    "a cut null without a blank line before it": (unterminated(STOP) + b"\ndata: nu", "finished"),
    "a cut second prefix": (b"data: dat", "truncated"),
    "a cut null behind a second prefix": (b"data: data: nul", "truncated"),
    "the beginning of null, its line ended": (b"data: nul\n", "invalid"),
    "the beginning of null in an error event": (b"event: error\ndata: nul", "failed"),
    # Lines without their ends: not cut, but invalid, unless all has been said.
    "two chunks on one line": (unterminated(STOP) + unterminated(USAGE), "invalid"),
    "a chunk and [DONE] on one line": (unterminated(STOP) + unterminated(DONE), "invalid"),
    "three chunks on one line, the last cut": (unterminated(STOP) * 2 + STOP[:50], "invalid"),
    "two chunks on one line, the second cut": (unterminated(STOP) + STOP[:50], "truncated"),
    "the same after the finish reason": (STOP + unterminated(USAGE) + unterminated(DONE), "finished"),
    "a text like that, cut": (STOP.replace(b"{}", b'{"content":"}data: {}data: "}')[:-9], "truncated"),
    # Nothing that could be an event.
    "a field name": (b"data", "truncated"),
    # Other text is judged as if the event were whole, so that an error's text is not lost.
    "text": (b"data: Internal Server Error", "invalid"),
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


COMMENT = b": OPENROUTER PROCESSING\n\n"


LINES = {
    "data": HI + STOP + DONE,
    "comments": COMMENT + COMMENT + HI + COMMENT + STOP + DONE,
    "a comment and one chunk": COMMENT + HI,
    "a comment and an error": COMMENT + ERROR,
    "a comment and an error that is a text": COMMENT + b'data: {"error": "overloaded"}\n\n',
    "an event": b"event: message\n" + HI + b"event: message\n" + STOP,
    "an event that is no chunk": b'event: hook_results\ndata: {"a": 1}\n\n' + HI + STOP,
    "a comment and no chunk": COMMENT + b'data: {"choices": [], "prompt_filter_results": []}\n\n' + COMMENT + HI,
    "an id": b"id: 1\n" + HI + b"id: 2\n" + STOP,
    "a time": b"retry: 3000\n" + HI + DONE,
    "a time with each event": b"retry: 3000\n" + HI + b"retry: 3000\n" + STOP,
    "a BOM": b"\xef\xbb\xbf" + COMMENT + HI,
}


@each_case("way_out", ["close", "interrupt"])
@each_case("lines", LINES)
def test_lines_that_were_passed_without_their_ends_are_named(lines: str, way_out: str) -> None:
    """As `iter_lines()` of requests gives them."""
    parser = play(LINES[lines].replace(b"\n", b""), way_out)
    assert isinstance(parser.error, InvalidChunkError)
    assert "received several on one: pass bytes with their line ends: " in str(parser.error)
    assert not parser.error.retryable


@each_case("line", [b": ping", b': data: {"a": 1}', b": data: {", b"event: data"])
def test_a_line_that_may_be_only_one_is_cut(line: bytes) -> None:
    assert play(line).end == "empty"
    assert play(line, "interrupt").end == "interrupted"


def test_what_has_too_many_values_beside_a_comment_is_not_parsed() -> None:
    body = b": ping" + unterminated(HI)
    assert play(body, max_event_items=99).end == "invalid"
    assert play(body, max_event_items=1).end == "empty"
