"""What a large event, a large read or many short lines cost, in time and memory."""

from collections.abc import Callable

import pytest
from cases import each_case
from limited import COST, HI, READ, assert_named, by_iterating, in_reads, parsed_with_chunks
from linear import no_collector, seconds
from measured_memory import only_garbage_of_these_tests, traced
from parsed_bodies import fed, parsed

from chunkfold import APIError, ChatCompletionParser, ChunkfoldError, IncompleteStreamError, InvalidChunkError
from chunkfold.parser import event_folder
from chunkfold.testing import DONE, chunk, delta, event, fragment
from chunkfold.wire import payload, reading

collecting_is_quick = only_garbage_of_these_tests

MIB = 2**20
SHORT: dict[str, Callable[[int], bytes]] = {
    "data of one character": lambda size: b"data:1\n" * (size // 7) + b"\n",
    "data with CRLF": lambda size: b"data:1\r\n" * (size // 8) + b"\r\n",
    "data without a value": lambda size: b"data\n" * (size // 5) + b"\n",
    "comments": lambda size: b":\n" * (size // 2),
    "comments behind data": lambda size: b"data: {}\n" + b":\n" * (size // 2) + b"\n",
    "lines of no field": lambda size: b"x\n" * (size // 2),
    "blank lines": lambda size: b"\n" * size,
    "ids": lambda size: b"data: {}\n" + b"id\n" * (size // 3) + b"\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_short_line_costs_little_more_than_its_bytes(name: str) -> None:
    """There are 16 million of them in 32 MiB."""
    body = SHORT[name](4 * MIB)
    tries = [seconds_of(body) for _ in range(3)]
    assert min(tries) < 0.5, tries  # a tenth of that if nothing else runs; line by line it is a second


FULL = 32 * MIB - 200  # bytes
LARGE = 5 * MIB // 4  # bytes; above a MiB, reads and events take other paths
COSTLY: dict[str, Callable[[], bytes]] = {
    "empty choices": lambda: chunk(*[{}] * 124_000),
    "choices with a field": lambda: chunk(*[{"x": 1}] * 62_000),
    "lines": lambda: b"data: {}\n" * 240_000 + b"\n",
    "lines of keep-alives": lambda: b"data: {}\n" + b"data: null\n" * 2_000_000 + b"\n",
    "blank lines of data": lambda: b"data: {}\n" + b"data:  \n" * 2_000_000 + b"\n",
    "half a character, again and again": lambda: delta(content="?").replace(b"?", b"\\ud83d" * (FULL // 6)),
    "half a character before a long text": lambda: delta(content="?").replace(b"?", b"\\ud83d" + b"a" * FULL),
    "half a character in each key": lambda: delta(**{f"?{n}": n for n in range(120_000)}).replace(b"?", b"\\ud83d"),
    "half a character in an error": lambda: b'data: {"error": {"message": "%b"}}\n\n' % (b"\\ude00" * (FULL // 6)),
    "arguments of parallel calls": lambda: delta(
        tool_calls=[fragment(None, name, "f", "?") for name in "abcdefghijklmnopqrstuvwxyz"]
    ).replace(b"?", b"[" + b"[]," * (FULL // 26 // 3 - 100)),
    "quotes in an error with an emoji": lambda: b"event: error\ndata: %b\n\n" % (WIDE + b'a "b" ' * (FULL // 6 - 10)),
    "quotes around emoji": lambda: b"event: error\ndata: %b\n\n" % (b'"%b"' % WIDE * (FULL // 6 - 10)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_an_event_takes_a_few_seconds_at_most(name: str) -> None:
    """Two, where nothing else runs."""
    body = COSTLY[name]()
    tries: list[float] = []
    while len(tries) < 5 and not (tries and tries[-1] < 5):
        tries.append(seconds_of(body))
    assert tries[-1] < 5, tries


WIDE = "\N{GRINNING FACE}".encode()  # each takes four bytes, on the wire and in a text
WIDE_TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "beside half a pair": lambda wide: delta(content="?").replace(b"?", b"\\ud83d" + wide),
    "beside half a pair in another field": lambda wide: delta(x="?").replace(b"?", b"\\ud83d" + wide),
    "beside half a pair in an error": lambda wide: b'data: {"error": {"message": "\\ude00%b"}}\n\n' % wide,
    "of a tool": lambda wide: delta(role="tool", content="?").replace(b"?", wide),
    "before encrypted reasoning, beside half a pair": lambda wide: delta(
        reasoning_content="?\n\n__ENCRYPTED_REASONING__", reasoning_encrypted=True
    ).replace(b"?", b"\\ud83d" + b"a" * len(wide)),
}


@pytest.mark.parametrize("size", [LARGE, pytest.param(FULL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WIDE_TEXTS)
def test_a_large_text_takes_six_times_its_bytes_at_most(name: str, size: int) -> None:
    body = WIDE_TEXTS[name](WIDE * ((size - 200) // len(WIDE)))
    with traced() as memory:
        parser, _ = parsed_with_chunks(body)
        assert isinstance(parser.error, ChunkfoldError)
        parser.error.snapshot.model_dump()
    assert memory.peak < 6.2 * size


ERRORS = {
    "in an envelope": b'{"error": {"message": "?"}}',
    "as a text": b'{"error": "?"}',
    "beside a phrase": b'{"error": "Bad Request", "message": "?"}',
    "as a phrase": b'{"error": "?", "message": "Bad Request"}',
    "in a list": b'{"detail": [{"msg": "?"}, {"msg": "more"}]}',
    "in a list of errors": b'{"errors": [{"message": "?"}, {"message": "more"}]}',
    "passed on": b'{"error": {"message": "Provider returned error", "metadata": {"raw": "?"}}}',
    "as a parameter": b'{"error": {"message": "Param Incorrect", "param": "of the request: ?"}}',
    "beside a parameter": b'{"error": {"message": "?", "param": "of the request"}}',
    "in a choice": b'{"choices": [{"delta": {"content": "Hi"}, "error": {"message": "?"}}]}',
    "beside a text": b'{"choices": [{"delta": {"content": "?"}, "error": {"message": "Overloaded"}}]}',
    "in a status": b'{"base_resp": {"status_code": 1002, "status_msg": "?"}}',
    "as the answer": b'{"choices": [{"delta": {"content": "?"}, "finish_reason": "error_finish"}]}',
}


@pytest.mark.parametrize(
    ("begin", "size"),
    [(b"\\ude00", LARGE), (WIDE, LARGE), pytest.param(b"\\ude00", FULL, marks=pytest.mark.slow)],
    ids=["half a character", "a wide one", "half a character in a full event"],
)
@pytest.mark.parametrize("name", ERRORS)
def test_a_large_error_takes_six_times_its_bytes_at_most(name: str, begin: bytes, size: int) -> None:
    """Half a character makes Python take two bytes for each of the others, and the text is made again without it.

    One wide character makes it take four bytes for each.
    """

    def body_of(size: int) -> bytes:
        return b"data: %b\n\n" % ERRORS[name].replace(b"?", begin + b"a" * (size - 200))

    def read_error(body: bytes) -> None:
        parser, _ = parsed_with_chunks(body)
        assert isinstance(parser.error, APIError)
        str(parser.error)

    body = body_of(size)
    read_error(body_of(1000))  # what is kept of the first time, such as a coverage tool's lines, is no cost of it
    with traced() as memory:
        read_error(body)
    assert memory.peak < 6.2 * size


def assert_at_most_200_mb(body: bytes, before: bytes = HI) -> ChatCompletionParser:
    parser = fed(before)
    with traced() as memory:
        for data in in_reads(body):
            parser.feed(data)
        parser.close()
    assert memory.peak < 200 * 10**6 + COST * READ
    return parser


@pytest.mark.slow
@pytest.mark.parametrize("name", ["errors", "detail", "error"])
def test_an_error_of_many_texts_takes_at_most_200_mb(name: str) -> None:
    body = b'data: {"%b": [' % name.encode() + b'"\\ude00%b",' % (b"a" * 100) * 249_000 + b"1]}\n\n"
    with traced() as memory:
        parser, _ = parsed_with_chunks(body)
    assert isinstance(parser.error, APIError)
    assert memory.peak < 200 * 10**6


LARGE_TEXTS = {
    "in a delta": delta(content="?"),
    "under an unknown key": delta(x="?"),
    "in an error": b'data: {"error": {"message": "?"}}\n\n',
    "in the error of a choice": b'data: {"choices": [{"delta": {}, "error": {"message": "?"}}]}\n\n',
    "in a whole completion": b'{"object": "chat.completion", "choices": [{"message": {"content": "?"}}]}\n',
    "in a completion before the end": b'{"object": "chat.completion", "choices": [{"message": {"content": "?"}}]}\n'
    + DONE,
    "in an error as the body": b'{"error": {"message": "?"}}\n',
}


@pytest.mark.parametrize("size", [LARGE, pytest.param(FULL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LARGE_TEXTS)
def test_a_large_text_with_halves_of_characters_takes_six_times_its_bytes_at_most(name: str, size: int) -> None:
    """Was once wrong: all of the text was made again, in parts that took two bytes for each character, before it went."""
    part = b"\\ud83d" + b"a" * 50_000
    body = LARGE_TEXTS[name].replace(b"?", part * ((size - 200) // len(part)))
    with traced() as memory:
        parser, _ = parsed_with_chunks(body)
        assert parser.end is not None
        assert parser.end != "invalid"
    assert memory.peak < 6 * size


TO_REPAIR = {
    "half a pair": b"\\ud83d ",
    "a control character": b"\x01",
    "bytes that are not UTF-8": b"\xff",
}


@pytest.mark.slow
@pytest.mark.parametrize("wide", [WIDE, b"\\ud83d\\ude00"], ids=["as it is", "escaped"])
@pytest.mark.parametrize("field", ["content", "x"])
@pytest.mark.parametrize("name", TO_REPAIR)
def test_a_large_event_to_repair_takes_at_most_200_mb(name: str, field: str, wide: bytes) -> None:
    """Python keeps four bytes for each character of a text that has one beyond the Basic Multilingual Plane."""
    for size, is_read in ((16 * MIB, True), (FULL, False)):
        body = delta(**{field: "?", "y": "~"}).replace(b"?", TO_REPAIR[name] + b"a" * (size - 2 * MIB))
        parser = assert_at_most_200_mb(body.replace(b"~", wide + b"a" * (2 * MIB - 400)), b"")
        assert (parser.end != "invalid") == is_read


@pytest.mark.slow
@pytest.mark.parametrize("field", ["content", "reasoning_content", "x"])
def test_an_event_with_a_large_wide_text_takes_at_most_200_mb(field: str) -> None:
    for size in (8 * MIB, FULL - 400):
        text = WIDE + b"a" * (size - len(WIDE))
        body = delta(**{field: "?", "y": "~"}).replace(b"?", text).replace(b"~", b"a" * (FULL - 400 - size))
        parser = assert_at_most_200_mb(body, delta(**{field: "Hi"}))
        if size == 8 * MIB:
            assert isinstance(parser.error, IncompleteStreamError)
        else:
            assert_named(parser, "max_wide_text", 8 * MIB)


@pytest.mark.slow
@pytest.mark.parametrize("start", [b"", b"{", b'{"error": "'], ids=["text", "object", "string"])
def test_an_error_that_is_a_large_wide_text_takes_at_most_200_mb(start: bytes) -> None:
    for size in (8 * MIB, FULL - 400):
        text = (start + WIDE + b'a "b" ' * (size // 6))[:size]
        parser = assert_at_most_200_mb(b"event: error\ndata: %b\n\n" % text)
        if size == 8 * MIB:
            assert isinstance(parser.error, APIError)
            assert len(parser.error.raw) == len(text.decode())
        else:
            assert_named(parser, "max_wide_text", 8 * MIB)


@each_case("wide", [WIDE, b"\\ud83d\\ude00"])
def test_only_the_strings_with_wide_characters_count_as_wide_text(wide: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_folder, "MAX_WIDE_TEXT", 100)
    event = delta(**{"content": "?", 'a "key"': "~", "b": "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 20_000})
    event = event.replace(b"?", wide + b"a" * (50 - len(wide))).replace(b"~", b'\\"' + wide + b"b" * (48 - len(wide)))
    fits = parsed(HI + event)
    assert (fits.end, len(fits.snapshot.text)) == ("truncated", len("Hi") + 1 + 50 - len(wide))
    exceeds = parsed(HI + event.replace(b'a"', b'aa"'))
    assert_named(exceeds, "max_wide_text", 100)
    assert exceeds.snapshot.text == "Hi"


def test_an_error_that_is_text_is_limited_by_its_size_only_if_it_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_WIDE_TEXT", 100)
    for text in (b"a" * 101, WIDE + b"a" * (100 - len(WIDE))):
        fits = parsed(HI + b"event: error\ndata: %b\n\n" % text)
        assert (fits.end, str(fits.error)) == ("failed", text.decode())
    exceeds = parsed(HI + b"event: error\ndata: %b\n\n" % (WIDE + b"a" * (101 - len(WIDE))))
    assert_named(exceeds, "max_wide_text", 100)
    assert exceeds.snapshot.text == "Hi"


@pytest.mark.slow
@pytest.mark.parametrize("size", [8 * MIB - 200, FULL - 200])
def test_a_long_id_and_a_long_name_take_at_most_200_mb(size: int) -> None:
    text = WIDE + b"a" * size
    parser = assert_at_most_200_mb(b"id: %b\nevent: %b\ndata: {}\n\n" % (text, text), b"")
    assert getattr(parser.error, "value", None) == (8 * MIB if size > 8 * MIB else None)


@each_case("wide", [WIDE, b"\\ud83d\\ude00", b"\\uD83D\\uDE00"])
def test_an_event_to_repair_that_has_wide_characters_is_read_up_to_a_size(
    wide: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = delta(content="?").replace(b"?", b"\x01" + wide)
    monkeypatch.setattr(reading, "_LARGEST_WIDE", len(event) - len(b"data: \n\n"))
    parser = parsed(event)
    assert (parser.snapshot.text, parser.end) == ("\x01\N{GRINNING FACE}", "truncated")
    parser = parsed(HI + event.replace(wide, b"a" + wide))
    assert (parser.snapshot.text, parser.end) == ("Hi", "invalid")
    assert "expected at most 16 MiB of JSON to repair" in str(parser.error)
    parser = parsed(event.replace(wide, b"a" * 100 + b"\\ud83d \\ude00"))
    assert parser.end == "truncated"


def test_an_event_that_is_not_utf8_is_read_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    event = delta(content="?", a=1).replace(b"?", b"\xff")
    monkeypatch.setattr(reading, "_LARGEST_WIDE", len(event) - len(b"data: \n\n"))
    assert parsed(event).snapshot.text == "\ufffd"
    parser = parsed(HI + event.replace(b"\xff", b"\xffa"))
    assert (parser.snapshot.text, parser.end) == ("Hi", "invalid")
    assert "expected at most 16 MiB of JSON to repair" in str(parser.error)
    assert parsed(event.replace(b"\xff", "\u00e9\u00e9\u00e9".encode())).end == "truncated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "small_error", "large_error"),
    [
        (delta(**{"?": 1}), IncompleteStreamError, InvalidChunkError),
        (event({"error": {"message": "a", "?": 1}}), APIError, APIError),
    ],
    ids=["chunk", "error"],
)
def test_a_long_key_that_is_not_utf8_takes_at_most_200_mb(
    body: bytes, small_error: type[ChunkfoldError], large_error: type[ChunkfoldError]
) -> None:
    """Was once wrong: U+FFFD takes two bytes in a key, two in a copy of it, and three in UTF-8."""
    for size, error in ((16 * MIB, small_error), (FULL, large_error)):
        assert type(assert_at_most_200_mb(body.replace(b"?", b"\xff" * (size - 400))).error) is error


def test_a_large_line_that_is_nearly_data_takes_one_copy_more_than_a_comment() -> None:
    peaks: list[int] = []
    for line in (b": %b", b' data: {"a": "%b"}'):
        with traced() as memory:
            parsed(HI + line % (b"a" * MIB) + b"\n\n")
        peaks.append(memory.peak)
    assert peaks[1] < peaks[0] + 1.1 * MIB


def test_short_lines_of_one_event_take_little_more_than_their_bytes() -> None:
    """One at a time, as a list of them would take twenty times as much."""
    parser = ChatCompletionParser()
    line = b"data:ab\n"
    with traced() as memory:
        for _ in range(100):
            parser.feed(line * 1000)
    assert memory.peak < 4 * 3 * 100_000
    parser.feed(b"\n")
    parser.close()
    assert isinstance(parser.error, InvalidChunkError)


@pytest.mark.slow
def test_lines_of_one_event_are_read_up_to_the_one_that_ends_the_stream() -> None:
    body = b'data: {"choices":[]}\n' + b"data: x\n" * 200_000 + b"\n"
    parser = ChatCompletionParser()
    with traced() as memory:
        for data in in_reads(body, 2**14):
            parser.feed(data)
    assert isinstance(parser.error, InvalidChunkError)
    assert memory.peak < 4 * len(body)


LARGE = {
    "LF": HI,
    "CRLF": HI.replace(b"\n", b"\r\n"),
    "CR": HI.replace(b"\n", b"\r"),
    "comments": b":\n",
    "blocks of comments": b":\n\n",
    "blank lines": b"\n",
    "blank lines with CRLF": b"\r\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_read_costs_a_few_times_its_size(name: str) -> None:
    data = LARGE[name] * (300_000 // len(LARGE[name]))
    with traced() as memory:
        by_iterating([data])
    assert memory.peak < 5 * len(data)


def seconds_of(body: bytes) -> float:
    """Of the processor, as the machine may be busy; and without the collector, whose cost is not of this body."""
    with no_collector():
        return seconds(lambda: parsed(body, READ))
