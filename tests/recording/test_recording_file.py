"""The file of a recording: its format, defaults, and what is cut or damaged."""

import gzip
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from recorded_streams import HELLO, WHOLE, recorded_reads, stored

from chunkfold import StreamEnd
from chunkfold.recording import RecordedRead, Recording, replay
from chunkfold.recording import format as recording_format
from chunkfold.recording.unpacking import unpacked
from chunkfold.testing import StreamBuilder

EXAMPLE = Recording(
    (
        RecordedRead(0.52, b'data: {"choices":[]}\n\n'),
        RecordedRead(0.55, b"\xe2\x82"),
        RecordedRead(0.55, "\xac\u202e\x9b\x7f\u2028".encode() + b"\x1b\x00"),
    ),
    200,
    {"content-type": "text/event-stream"},
    "https://api.example/v1/chat/completions",
    0.31,
    "error",
    0.9,
    "ReadTimeout",
)
EXAMPLE_LINES = [
    b'{"chunkfold_recording":1,"status":200,"headers":{"content-type":"text/event-stream"},"url":"https://api.example/v1/chat/completions","at":0.31}',
    rb'{"at":0.52,"text":"data: {\"choices\":[]}\n\n"}',
    b'{"at":0.55,"base64":"4oI="}',
    '{"at":0.55,"text":"\xac\\u202e\\u009b\\u007f\\u2028\\u001b\\u0000"}'.encode(),
    b'{"end":"error","at":0.9,"error":"ReadTimeout"}',
]


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    EXAMPLE.save(tmp_path / "answer.jsonl")
    assert (tmp_path / "answer.jsonl").read_bytes() == b"".join(line + b"\n" for line in EXAMPLE_LINES)
    assert Recording.load(tmp_path / "answer.jsonl") == EXAMPLE
    assert Recording.load(str(tmp_path / "answer.jsonl")) == EXAMPLE
    left = replace(EXAMPLE, end="left", ended_at=None, error="")
    assert left.dumps().splitlines()[-1] == b'{"end":"left","at":null}'
    assert stored(left) == left
    limited = replace(left, progress_timeout=0.0)
    assert limited.dumps().splitlines()[-1] == b'{"end":"left","at":null,"progress_timeout":0.0}'
    assert stored(limited) == limited


def test_the_limit_that_a_stream_was_read_with_is_that_of_a_replay() -> None:
    late = recorded_reads((0.1, HELLO), (0.5, b": ping\n\n"), end="left", progress_timeout=0.3)
    assert replay(late).end is StreamEnd.STALLED
    assert replay(stored(late)).end is StreamEnd.STALLED
    assert replay(late, progress_timeout=None).end is StreamEnd.CLOSED
    assert replay(replace(late, progress_timeout=None)).end is StreamEnd.CLOSED


def test_the_example_of_the_format_is_one() -> None:
    lines = [line.strip() for line in (recording_format.__doc__ or "").splitlines() if line.startswith("    {")]
    recorded = Recording.loads("\n".join(lines).encode())
    assert (recorded.end, recorded.ended_at, recorded.headers_at) == ("body", 0.9, 0.31)
    assert recorded.body.startswith(b'data: {"choices":[...]}\n\ndata: ')


TIMES = st.integers(0, 10**12).map(lambda microseconds: microseconds / 1e6)
PRINTABLE = st.text(st.characters(codec="utf-8"), max_size=20)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    times = sorted(draw(st.lists(TIMES, max_size=6)))
    headers_at = times.pop(0) if times and draw(st.booleans()) else None
    ended_at = times.pop() if times and draw(st.booleans()) else None
    return Recording(
        tuple(RecordedRead(at, draw(st.binary(max_size=20) | PRINTABLE.map(str.encode))) for at in times),
        draw(st.integers(100, 999)),
        draw(
            st.dictionaries(PRINTABLE.map(str.lower).filter(lambda name: name == name.lower()), PRINTABLE, max_size=3)
        ),
        draw(PRINTABLE),
        headers_at,
        draw(st.sampled_from(["body", "error", "left"])),
        ended_at,
        draw(PRINTABLE),
        draw(st.none() | TIMES),
    )


@pytest.mark.slow
@given(recordings())
def test_every_recording_is_read_as_it_was_written(recorded: Recording) -> None:
    assert Recording.loads(recorded.dumps()) == recorded
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", recorded.dumps())


def test_what_is_not_known_is_let_be() -> None:
    head, *reads, last = (json.loads(line) for line in EXAMPLE_LINES)
    lines = [
        {"comment": None, **head, "more": [1]},
        {"note": "a kind of line that is to come", "at": 0.4},
        *({**read, "more": {}} for read in reads),
        {**last, "more": 1},
    ]
    text = "\r\n\n".join(["", *(json.dumps(line, indent=None) for line in lines), ""])
    assert Recording.loads(b"\xef\xbb\xbf" + text.encode()) == EXAMPLE


def test_times_are_read_to_the_microsecond() -> None:
    lines = [GOOD, b'{"at":5e-324,"text":"a"}', b'{"at":1.0000006,"text":"b"}', b'{"at":1.0000007,"end":"body"}']
    recording = Recording.loads(b"\n".join(lines))
    assert [read.at for read in recording.reads] == [0.0, 1.000001]
    assert recording.ended_at == 1.000001
    assert not Recording.loads(b"\n".join(lines[:2])).is_timed


def test_what_is_not_there_has_a_default() -> None:
    lines = (
        b'{"chunkfold_recording": 1}\n{"text": "a"}\n{"at": 2, "text": "b"}\n{"at": null, "text": "c"}\n{"end": "body"}'
    )
    assert Recording.loads(lines) == recorded_reads((0.0, b"a"), (2.0, b"b"), (2.0, b"c"))
    assert Recording.loads(b'{"chunkfold_recording":1}') == Recording((), end="left")
    assert Recording.loads(b'{"chunkfold_recording":1,"headers":{"X-Request-ID":"r"}}').headers == {"x-request-id": "r"}


def test_a_file_that_was_cut_counts_as_left() -> None:
    data = EXAMPLE.dumps()
    ends = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    for size in range(ends[1] - 1, len(data) - 1):
        whole = max(number for number, end in enumerate(ends) if end <= size + 1) - 1  # without the first line
        recorded = Recording.loads(data[:size])
        assert recorded.reads == EXAMPLE.reads[: max(whole, 0)]
        assert recorded == replace(EXAMPLE, reads=recorded.reads, end="left", ended_at=None, error="")
    assert Recording.loads(data[:-1]) == EXAMPLE


def test_a_file_that_was_cut_in_its_first_line() -> None:
    mark = len(b'{"chunkfold_recording"')
    for size in range(mark, len(EXAMPLE_LINES[0])):
        with pytest.raises(ValueError, match=r"^recording: line 1: "):
            Recording.loads(EXAMPLE_LINES[0][:size])
    assert Recording.loads(EXAMPLE_LINES[0][: mark - 1]).body == EXAMPLE_LINES[0][: mark - 1]


GOOD = b'{"chunkfold_recording":1}'
DAMAGED = {
    "a newer version": ([b'{"chunkfold_recording":2}'], 1, "version 2 is newer than this chunkfold, which knows 1"),
    "no version": ([b'{"chunkfold_recording":0}'], 1, "expected version 1, received 0"),
    "a version that is text": ([b'{"chunkfold_recording":"1"}'], 1, "chunkfold_recording: expected int, received str"),
    "a version that is true": ([b'{"chunkfold_recording":true}'], 1, "expected int, received bool"),
    "a first line that is none": ([b'{"chunkfold_recording":1'], 1, "expected a JSON object: "),
    "a status that is text": ([b'{"chunkfold_recording":1,"status":"200"}'], 1, "status: expected int, received str"),
    "a status that is none": ([b'{"chunkfold_recording":1,"status":20}'], 1, "expected a number of three digits, received 20"),
    "headers that are a list": ([b'{"chunkfold_recording":1,"headers":[]}'], 1, "headers: expected dict, received list"),
    "a header that is a number": ([b'{"chunkfold_recording":1,"headers":{"a":1}}'], 1, "a: expected str, received int"),
    "a URL that is null": ([b'{"chunkfold_recording":1,"url":null}'], 1, "url: expected str, received NoneType"),
    "a negative start": ([b'{"chunkfold_recording":1,"at":-1}'], 1, "at: expected seconds, 0 or more, received -1"),
    "no JSON": ([GOOD, b'{"at":0,"text":"a"', GOOD], 2, "expected a JSON object: "),
    "no UTF-8": ([GOOD, b'{"text":"\xff"}', b""], 2, "expected a JSON object: 'utf-8' codec"),
    "a list": ([GOOD, b"[]"], 2, "expected a JSON object, received list"),
    "too deep": ([GOOD, b'{"a":' + b"[" * 100_000, b""], 2, "too deep"),
    "text that is a number": ([GOOD, b'{"text":1}'], 2, "text: expected str, received int"),
    "text that is null": ([GOOD, b'{"text":null}'], 2, "text: expected str, received NoneType"),
    "half a character": ([GOOD, b"", rb'{"text":"\ud800"}'], 3, "surrogates not allowed"),
    "base64 that is a list": ([GOOD, b'{"base64":[]}'], 2, "base64: expected str, received list"),
    "no base64": ([GOOD, b'{"base64":"a"}'], 2, "base64"),
    "letters that are not base64's": ([GOOD, b'{"base64":"YQ==\xc3\xa9"}'], 2, "ASCII"),
    "blanks in base64": ([GOOD, b'{"base64":"Y Q=="}'], 2, "base64"),
    "text and base64": ([GOOD, b'{"text":"a","base64":"YQ=="}'], 2, "expected text or base64, received both"),
    "a negative time": ([GOOD, b'{"text":"a"}', b'{"at":-0.5,"text":"a"}'], 3, "received -0.5"),
    "a time that goes back": ([GOOD, b'{"at":3,"text":"a"}', b'{"at":2,"text":"a"}'], 3, "at: expected seconds, 3 or more, received 2"),
    "an end before the last read": ([GOOD, b'{"at":3,"text":"a"}', b'{"at":2,"end":"body"}'], 3, "received 2"),
    "a time that is text": ([GOOD, b'{"at":"1","text":"a"}'], 2, "at: expected seconds, received str"),
    "a time that is true": ([GOOD, b'{"at":true,"text":"a"}'], 2, "at: expected seconds, received bool"),
    "no time": ([GOOD, b'{"at":NaN,"text":"a"}'], 2, "received nan"),
    "for ever": ([GOOD, b'{"at":1e999,"text":"a"}'], 2, "received inf"),
    "nearly for ever": ([GOOD, b'{"at":1' + b"0" * 400 + b"}"], 2, "at: expected seconds"),
    "more digits than a number may have": ([GOOD, b'{"at":1' + b"0" * 5000 + b"}", b""], 2, "expected a JSON object"),
    "an end of another kind": ([GOOD, b'{"end":"gone"}'], 2, "end: expected one of body, error, left, received 'gone'"),
    "an end that is a list": ([GOOD, b'{"end":[]}'], 2, "received []"),
    "an error that is a number": ([GOOD, b'{"end":"error","error":1}'], 2, "error: expected str, received int"),
    "a limit that is text": ([GOOD, b'{"end":"left","progress_timeout":"1"}'], 2, "progress_timeout: expected seconds, received str"),
    "a negative limit": ([GOOD, b'{"end":"left","progress_timeout":-1}'], 2, "progress_timeout: expected seconds, 0 or more, received -1"),
    "something behind the end": ([GOOD, b'{"end":"body"}', b"", b'{"text":"a"}'], 4, "expected nothing after the end"),
    "two recordings": ([GOOD, b'{"end":"body"}', GOOD], 3, "expected nothing after the end"),
}  # fmt: skip


@each_case(("lines", "number", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named(lines: list[bytes], number: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        Recording.load(path)
    assert str(caught.value).startswith(f"recording: line {number}: ")
    assert len(str(caught.value)) < 300


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["chunkfold_recording", "status", "headers", "url", "at", "text", "base64", "end", "error", "progress_timeout"]
)
ANY_LINE = (
    st.binary(max_size=30)
    | st.dictionaries(KEYS, JSON_LIKE | st.just(1), max_size=4).map(lambda line: json.dumps(line).encode())
    | st.sampled_from([GOOD, b'{"end":"body"}', b'{"text":"a"}'])
)


@given(st.lists(ANY_LINE, max_size=6), st.booleans())
def test_nothing_but_a_value_error_comes_of_any_file(lines: list[bytes], is_marked: bool) -> None:
    data = b"\n".join([GOOD] * is_marked + lines)
    try:
        recorded = Recording.loads(data)
    except ValueError as error:
        said = str(error)
    else:
        said = "recording: line 0: nothing"
        assert b"".join(read.data for read in stored(recorded).reads) == recorded.body
    assert re.match(r"recording: line \d+: ", said)


@pytest.mark.parametrize(
    "body",
    [b"".join(WHOLE), b"\xef\xbb\xbf" + HELLO, b"\n\n" + HELLO, b'{"error":{}}', b"[1]", b"\xff\xfe", b"<html>", b'{"a"', b"\n", b"chunkfold_recording"],
)  # fmt: skip
def test_a_plain_body_is_a_recording(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "body.sse").write_bytes(body)
    assert Recording.load(tmp_path / "body.sse") == recorded_reads((0.0, body))


def test_a_buffer_that_is_used_again_is_copied() -> None:
    """Was once wrong: a plain body in a bytearray was kept as that."""
    buffer = bytearray(HELLO)
    recorded = Recording.loads(buffer)
    buffer.clear()
    assert recorded == recorded_reads((0.0, HELLO))


def test_an_empty_file_is_an_empty_body() -> None:
    assert Recording.loads(b"") == Recording(())
    assert replay(Recording.loads(b"")).end is StreamEnd.EMPTY


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "nothing.jsonl")
    with pytest.raises(FileNotFoundError):
        EXAMPLE.save(tmp_path / "nothing" / "answer.jsonl")


@pytest.mark.parametrize("value", ["", "data: x", None, 5])
def test_what_is_not_the_bytes_of_a_recording(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^data: expected bytes, received "):
        Recording.loads(value)
    with pytest.raises(TypeError, match=r"^recording: expected a Recording, received "):
        replay(value)


# Gzipped


BODY = StreamBuilder().text("Hel", "lo").finish().done().body


class Slow(io.BytesIO):
    """A pipe that brings one byte at a time."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 1, 1))


def test_how_it_arrives_changes_nothing() -> None:
    for content in (b"", b"d", b"\x1f", BODY):
        assert b"".join(unpacked(Slow(content))) == content
        assert b"".join(unpacked(Slow(gzip.compress(content)))) == content


def test_several_members_follow_each_other_in_bounded_pieces() -> None:
    content = bytes(range(256)) * 2**12
    packed = gzip.compress(content) + gzip.compress(b"") + gzip.compress(content[::-1])
    pieces = list(unpacked(io.BytesIO(packed)))
    assert b"".join(pieces) == content + content[::-1]
    assert 0 < min(map(len, pieces)) <= max(map(len, pieces)) == 65536


def test_load_unpacks(tmp_path: Path) -> None:
    file = tmp_path / "packed"  # recognised by its content
    file.write_bytes(gzip.compress(EXAMPLE.dumps()))
    assert Recording.load(file) == EXAMPLE
    file.write_bytes(gzip.compress(BODY))
    assert Recording.load(file).body == BODY
    file.write_bytes(gzip.compress(BODY)[:-10])
    with pytest.raises(ValueError, match="gzip: the data ends too early"):
        Recording.load(file)
    assert Recording.loads(gzip.compress(BODY)).reads == (RecordedRead(0.0, gzip.compress(BODY)),)
