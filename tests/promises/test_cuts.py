"""Bodies cut short at any byte: what came before the cut is delivered, and no cut is called complete.

What has to come of a cut is worked out here by a plain look at the bytes before it: which events are complete, what
they say, and whether what stands open at the end is whole. No code of the library takes part in that.
"""

import gzip
import itertools
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

import httpx
import pytest
from cases import each_case
from fronts import ALONE, ASKED
from golden_bodies import CASES, golden
from parsed_bodies import fed
from shared_data import shared_data

from chunkfold import (
    APIError,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChunkfoldError,
    IncompleteStreamError,
    InvalidStreamError,
    StreamInterruptedError,
    connect,
    encode_event,
)
from chunkfold.testing import Answer, FakeProvider, StreamBuilder
from chunkfold.testing.answers import Framing

SHORT = "nameless/usage_on_finish"
BROKEN_LINE = ConnectionError("broken line")
ERRORS: dict[str, type] = {
    "finished": NoneType,
    "done": NoneType,
    "empty": IncompleteStreamError,
    "truncated": IncompleteStreamError,
    "interrupted": StreamInterruptedError,
    "failed": APIError,
    "invalid": InvalidStreamError,
}


# What has to come of the beginning of a body

BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r){2}")
LINE_END = re.compile(rb"\r\n|\n|\r")
FIELDS = (b"data", b"event", b"id", b"retry", b"error")
MEANS_ERROR = {"error", "network_error", "insufficient_system_resource", "abort"}
TEXTS = {"content", "text", "thinking", "reasoning", "reasoning_content", "summary", "refusal", "name", "arguments"}


@dataclass(frozen=True)
class Heard:
    """What was heard of a stream: how many chunks, whether each choice has finished, whether there was any output.

    `end` is what ended the stream for good: `[DONE]`, an error, or what is no chunk. `is_early` says that output came
    after a finish reason, which proves nothing then if the transport breaks.
    """

    chunks: int = 0
    choices: dict[int, bool] = field(default_factory=dict)
    has_output: bool = False
    end: str | None = None
    is_early: bool = False

    @property
    def is_finished(self) -> bool:
        return bool(self.choices) and all(self.choices.values())

    def ended(self, *, is_told: bool = False) -> str:
        """How the stream ends if nothing more comes; `is_told` if the transport says that there is more."""
        if self.end in ("failed", "invalid"):
            return self.end
        if self.is_finished and not (self.is_early and is_told and self.end is None):
            return "finished"
        if self.end == "[DONE]":
            return "done" if self.has_output else "empty"
        return "interrupted" if is_told else "truncated" if self.has_output else "empty"

    def then(self, payloads: Iterable[tuple[str, bytes]]) -> "Heard":
        heard = self
        for name, data in payloads:
            if heard.end is None:
                heard = heard._then(name, data.strip())
        return heard

    def _then(self, name: str, data: bytes) -> "Heard":
        if data == b"[DONE]":
            return replace(self, end="[DONE]")
        if not data:
            return self
        payload = parsed(data)
        if not isinstance(payload, dict):
            return replace(self, end="failed" if name == "error" else "invalid")
        failed = name == "error" or payload.get("error") not in (None, False)
        if not payload.get("choices") and failed:
            return replace(self, end="failed")
        if not payload.get("choices"):
            return replace(self, chunks=self.chunks + 1)
        choices, has_output, is_early = dict(self.choices), self.has_output, self.is_early
        for choice in payload["choices"]:
            index, word = choice.get("index", 0), choice.get("finish_reason")
            is_early |= choices.get(index, False) and says_something(choice.get("delta"))
            choices[index] = choices.get(index, False) or bool(word)
            has_output |= says_something(choice.get("delta")) or says_something(choice.get("message"))
            failed |= word in MEANS_ERROR
        return Heard(self.chunks + 1, choices, has_output, "failed" if failed else None, is_early)


def says_something(value: Any, name: str = "") -> bool:
    if isinstance(value, dict):
        return any(says_something(item, key) for key, item in value.items())
    if isinstance(value, list):
        return any(says_something(item, name) for item in value)
    return name in TEXTS and isinstance(value, str) and value != ""


def parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        return None


def payloads_of(lines: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """The payloads of a block, each with the name of its event: one, or a line each where the blank lines were lost."""
    name, data, error = "", [], b""
    for line in lines:
        key, _, value = line.partition(b":")
        if key == b"event":
            name = value.strip().decode()
        if key == b"data":
            data.append(value.strip())
        if key == b"error":
            error = value
    whole = b"\n".join(data)
    if len(data) > 1 and parsed(whole) is None and (data[0] == b"[DONE]" or parsed(data[0]) is not None):
        yield from ((name, line) for line in data)
    elif data:
        yield name, whole
    elif parsed(error) is not None:
        yield "error", error


def is_cut(data: bytes) -> bool:
    """Whether it begins like JSON and is none: what stands open is not read then."""
    return data[:1] in (b"{", b"[") and data != b"[DONE]" and parsed(data) is None


def payloads_of_the_rest(rest: bytes) -> Iterator[tuple[str, bytes]]:
    """The payloads of the block that stood open at the end, as far as they are whole."""
    *lines, last = LINE_END.split(rest)
    with_last = list(payloads_of([*lines, last]))
    payloads = list(payloads_of(lines)) if with_last and is_cut(with_last[-1][1]) else with_last
    return iter(() if payloads and is_cut(payloads[0][1]) else payloads)


def is_foreign(body: bytes) -> bool:
    """Whether nothing in it belongs to an event stream, nor is the beginning of what would."""
    names = {line.partition(b":")[0] for line in LINE_END.split(body) if line}
    belongs = names & {b"", *FIELDS}
    return not belongs and not any(name.startswith(body.strip()) for name in FIELDS)


class Cuts:
    """A body, and what has to come of every beginning of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.whole = read(body)[1]
        self.ends = [0]
        self.heard = [Heard()]
        for match in BLANK_LINE.finditer(body):
            block = body[self.ends[-1] : match.end()]
            self.ends.append(match.end())
            self.heard.append(self.heard[-1].then(payloads_of(LINE_END.split(block))))

    def heard_of(self, size: int) -> Heard:
        """What is heard of the first `size` bytes."""
        place = bisect_right(self.ends, size) - 1
        heard = self.heard[place].then(payloads_of_the_rest(self.body[self.ends[place] : size]))
        return replace(heard, end="invalid") if not heard.chunks and is_foreign(self.body[:size]) else heard

    def check(self, size: int, stream: Any, chunks: list[ChatCompletionChunk], *, is_told: bool) -> None:
        """Hold what came of the first `size` bytes against it; `is_told` if the transport said that there is more."""
        heard = self.heard_of(size)
        assert len(chunks) == heard.chunks, f"cut at {size}"
        assert chunks == self.whole[: len(chunks)], f"cut at {size}"
        end = heard.ended(is_told=is_told)
        assert stream.end == end, f"cut at {size}"
        assert stream.snapshot.text == "".join(chunk.text for chunk in chunks)
        error = stream.error
        if error is None:
            assert stream.completion() is stream.snapshot
        else:
            assert error.snapshot is stream.snapshot
            assert error.emitted_output == heard.has_output
        assert isinstance(error, ERRORS[end])
        assert type(error) is ERRORS[end] or end == "invalid"


def read(body: bytes, broken: BaseException | None = None) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    parser = ChatCompletionParser()
    chunks = parser.feed(body)
    chunks += parser.close() if broken is None else parser.interrupt(broken)
    return parser, chunks


# Through the parser


def check_cuts(body: bytes, step: int, ways: Iterable[BaseException | None]) -> None:
    """Cut a body at every so many bytes; what comes behind the cut is by turns the end of the body and a fault."""
    cuts = Cuts(body)
    for size, broken in zip([*range(0, len(body), step), len(body)], itertools.cycle(ways)):
        cuts.check(size, *read(body[:size], broken), is_told=broken is not None)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_every_byte", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_golden_bodies_cut_at_every_few_bytes(case: str, is_every_byte: bool) -> None:
    """The longer ones at fewer places: to read all beginnings of a body costs its size squared."""
    body = golden(case)
    check_cuts(body, 1 if is_every_byte else max(5, len(body) // 20), [None, BROKEN_LINE])


HI = b'{"choices":[{"index":0,"delta":{"content":"Hi"}}]}'
STOP = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
ERROR = b'{"error":{"message":"overloaded"}}'
FRAMINGS = {
    "LF": b"data: %b\n\ndata: %b\n\ndata: [DONE]\n\n" % (HI, STOP),
    "CRLF": b"data: %b\r\n\r\ndata: %b\r\n\r\ndata: [DONE]\r\n\r\n" % (HI, STOP),
    "CR": b"data: %b\r\rdata: %b\r\rdata: [DONE]\r\r" % (HI, STOP),
    "no blanks": b"data:%b\n\ndata:%b\n\ndata:[DONE]\n\n" % (HI, STOP),
    "comments and ids": b": hello\n\nid: 1\nretry: 5\ndata: %b\n: ping\n\n: ping\n\ndata: [DONE]\n\n" % HI,
    "several lines of data": b"data: " + HI.replace(b",", b",\ndata: ") + b"\n\ndata: [DONE]\n\n",
    "lost blank lines": b"data: %b\ndata: %b\ndata: [DONE]\n" % (HI, STOP),
    "an error": b"data: %b\n\ndata: %b\n\ndata: [DONE]\n\n" % (HI, ERROR),
    "an error behind the finish reason": b"data: %b\n\ndata: %b\n\n" % (STOP, ERROR),
    "an event named error": b"data: %b\n\nevent: error\ndata: %b\n\n" % (HI, ERROR),
    "an event named error, its name behind": b"data: %b\n\ndata: %b\nevent: error\n\n" % (HI, HI),
    "a field named error": b"data: %b\n\nerror: %b\n\n" % (HI, ERROR),
    "text": b"data: %b\n\ndata: Internal Server Error\n\n" % HI,
    "HTML": b"<html><body>\n\nBad Gateway\n\n</body></html>\n",
}


@pytest.mark.parametrize("ways", [[None, BROKEN_LINE], pytest.param([BROKEN_LINE, None], marks=pytest.mark.slow)])
@each_case("name", FRAMINGS)
def test_every_framing_cut_at_every_byte(name: str, ways: list[BaseException | None]) -> None:
    check_cuts(FRAMINGS[name], 1, ways)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_that_a_gateway_sends_after_a_cut(line_end: bytes, step: int) -> None:
    body = StreamBuilder().comment("ping").text("Hi").tool_call("f", "{}").body.replace(b"\n", line_end)
    for size in range(0, len(body) + 1, step):
        parser = fed(body[:size] + b"\n" + encode_event('{"error": {"message": "The provider failed."}}'))
        assert repr(parser.error) == "APIError('The provider failed.')", size


@pytest.mark.slow
def test_recordings_cut_short(subtests: pytest.Subtests) -> None:
    for entry in json.loads(shared_data("recordings/MANIFEST.json").read_bytes()):
        with subtests.test(entry["file"]):
            body = shared_data(f"recordings/{entry['file']}").read_bytes()
            check_cuts(body, max(7, len(body) // 150), [None, BROKEN_LINE])


# Over a socket

# How a body is sent, and whether the client is told that it was cut: not where the end of the connection is its end,
# and an incomplete gzip body is no fault for httpx.
TELLING: dict[tuple[Framing, str], bool] = {
    ("chunked", "identity"): True,
    ("content-length", "identity"): True,
    ("close", "identity"): False,
    ("chunked", "gzip"): True,
    ("content-length", "gzip"): True,
    ("close", "gzip"): False,
}
every_way = pytest.mark.parametrize(("framing", "encoding"), TELLING)


def decoded(sent: bytes, encoding: str) -> bytes:
    """As much of a body as can be read of what arrived of it."""
    if encoding == "identity":
        return sent
    decompressor = zlib.decompressobj(wbits=31)
    return decompressor.decompress(sent) + decompressor.flush()


def check_cuts_on_the_way(body: bytes, step: int, framing: Framing, encoding: str) -> None:
    cuts = Cuts(body)
    sent = gzip.compress(body) if encoding == "gzip" else body
    headers = {"content-encoding": encoding}
    sizes = [*range(0, len(sent), step), len(sent) - 1]
    answers = [Answer(sent, headers=headers, framing=framing, ending="cut", cut_at=size) for size in sizes]
    with FakeProvider(*answers) as provider, httpx.Client(**ALONE) as client:
        for size in sizes:
            chunks: list[ChatCompletionChunk] = []
            # What is raised, `check` looks at.
            with connect(client, "POST", provider.url, json=ASKED) as stream, suppress(ChunkfoldError):
                chunks.extend(stream)
            arrived = len(decoded(sent[:size], encoding))
            cuts.check(arrived, stream, chunks, is_told=TELLING[framing, encoding])
            assert stream.response.is_closed


@every_way
@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.slow)])
def test_a_body_cut_on_the_way(framing: Framing, encoding: str, step: int) -> None:
    check_cuts_on_the_way(golden(SHORT), step, framing, encoding)


@pytest.mark.slow
@every_way
def test_many_bodies_cut_on_the_way(framing: Framing, encoding: str, subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case):
            check_cuts_on_the_way(golden(case), 197, framing, encoding)
