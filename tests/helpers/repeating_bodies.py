"""Bodies of chunks that are equal but for their texts, with anything between them, and each way of reading them."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import made_streams
import pytest
from hypothesis import strategies as st
from invariants.holding import plain
from made_streams import STOP

import chunkfold.event_stream.lines
import chunkfold.parser.parser
import chunkfold.stream.driver
from chunkfold import (
    ChatCompletion,
    ChatCompletionParser,
    ChunkfoldError,
    CumulativeDeltas,
    OneChoice,
    ServerSentEvent,
    StreamEnd,
    ThinkTags,
)
from chunkfold.anomalies import Anomaly
from chunkfold.event_stream.lines import SLICE
from chunkfold.parser.template import EventTemplate
from chunkfold.parser.timing import StreamTiming
from chunkfold.testing import DONE, HEAD, ManualClock, choice, delta, event, fragment
from chunkfold.testing.wire import compact_json

FIRST = delta(role="assistant", content="")
HELLO = delta(content="Hello")
A = choice(content="a")


PROBES = ("value 0", "value 1")  # the texts that are tried


# Bodies: stretches of chunks that are equal but for their texts, and whatever may stand between them


PLAIN_HEAD = compact_json(HEAD)[1:-1]
CREATED, ID = b"1760000000", b"chatcmpl-1"
HEADS = [
    *[PLAIN_HEAD] * 6,
    PLAIN_HEAD + b',"system_fingerprint":"fp"',
    PLAIN_HEAD + b',"system_fingerprint":"other"',
    PLAIN_HEAD + b',"service_tier":"default"',
    PLAIN_HEAD + b',"service_tier":"flex"',
    PLAIN_HEAD + b',"usage":null',
    PLAIN_HEAD + b',"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}',
    PLAIN_HEAD + b',"usage":{"prompt_tokens":0,"completion_tokens":1,"total_tokens":3}',
    PLAIN_HEAD + b',"x":1',
    PLAIN_HEAD + b',"x":2',
    PLAIN_HEAD + b',"x":null',
    PLAIN_HEAD + b',"x_groq":{"id":"g","usage":{"prompt_tokens":1}}',
    PLAIN_HEAD + b',"base_resp":{"status_code":0}',
    PLAIN_HEAD + b',"base_resp":{"status_code":1002}',
    PLAIN_HEAD + b',"error":null',
    PLAIN_HEAD + b',"error":"too bad"',
    PLAIN_HEAD + b',"x":{"content":"$"}',
    PLAIN_HEAD + b',"x\\"content":"$"',
    PLAIN_HEAD.replace(CREATED, b"2"),
    PLAIN_HEAD.replace(ID, b"c2"),
    PLAIN_HEAD.replace(b'"m"', b'"n"'),
    PLAIN_HEAD.replace(b"chat.completion.chunk", b"text_completion"),
    b'"object":"chat.completion.chunk"',
]
PLAIN_CHOICE = b'{"index":0,"delta":{"content":"$"},"finish_reason":null}'
CHOICES = [
    *[PLAIN_CHOICE] * 6,
    b'{"delta":{"content":"$"},"index":0}',
    b'{"index":0,"delta":{"content":"$"},"logprobs":null,"finish_reason":null,"content_filter_results":{}}',
    b'{"index":0,"delta":{"content":"$"},"logprobs":{"content":[{"token":"$","logprob":-1.0}]}}',
    b'{"index":1,"delta":{"content":"$"},"finish_reason":null}',
    b'{"delta":{"content":"$"}}',
    b'{"index":0,"delta":{"role":"assistant","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"role":"","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"role":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","refusal":null,"tool_calls":null},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","reasoning":"hm"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","refusal":"no"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"a","reasoning_content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":null,"reasoning_content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}',
    b'{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"$"}}]},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"a","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$","content":"a"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$"},"delta":{"content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"x":{"content":"$"},"content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"x\\"content":"$","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"x":"\\"content\\":","content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"cont\\u0065nt":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":[{"type":"text","text":"$"}]},"finish_reason":null}',
    b'{"index":0,"delta":{"content":["$"]},"finish_reason":null}',
    b'{"index":0,"delta":{"content":$},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$"},"message":{"content":"whole"},"finish_reason":null}',
    b'{"index":0,"message":{"content":"$"},"finish_reason":null}',
    b'{"index":0,"delta":{"content":"$"},"usage":{"prompt_tokens":1}}',
    b'{"index":0,"delta":{"content":"$"},"native_finish_reason":null}',
    b'{"index":0,"delta":{"content":"$"},"x":1}',
    b'{"index":0,"delta":{"content":"$"},"x":2}',
    b'{"index":0,"delta":{"content":"$"},"error":{"message":"no"}}',
    b'{"index":0,"delta":{"content":"$"},"finish_reason":"stop"}',
    b'{"index":0,"delta":{"content":"$"},"finish_reason":""}',
    b'{"index":0,"delta":{"content":"$"}},{"index":1,"delta":{"content":"$"}}',
    b"",
]
LAYOUTS: list[Callable[[bytes, bytes], bytes]] = [
    *[lambda head, choices: b'{%b,"choices":[%b]}' % (head, choices)] * 4,
    lambda head, choices: b'{%b,"choices":[%b],"obfuscation":"?"}' % (head, choices),
    lambda head, choices: b'{"choices":[%b],%b}' % (choices, head),
    lambda head, choices: b'{%b,"choices":[%b]}'.replace(b":", b": ") % (head.replace(b'":', b'": '), choices),
    lambda head, choices: b'{%b,"choices":[%b]}' % (head, choices.replace(b'":', b'": ')),
    lambda head, choices: b'{%b,"choices":[%b]}' % (head, choices.replace(b'":', b'" :  ')),
    lambda head, choices: b'{%b,\ndata: "choices":[%b]}' % (head, choices),
    lambda head, choices: b'[{%b,"choices":[%b]}]' % (head, choices),
]
BLOCKS = [
    *[b"data: %b\n\n"] * 5,
    b"data:%b\n\n",
    b"event: message\ndata: %b\n\n",
    b"event: chat.completion.chunk\ndata: %b\n\n",
    b"event: other\ndata: %b\n\n",
    b"event: error\ndata: %b\n\n",
    b"id: 1\n: ping\ndata: %b\n\n",
    b"data: %b\n",  # so that several payloads are in one block
]
FRAGMENTS = [
    *[b"a", b" word", "é号".encode(), "😀".encode()] * 2,
    *[b"\\n", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d", b"\\ud83d", b"\\ude00", b'\\"', b"\\\\", b"\\", b'"'],
    *[b"\x00", b"\x01", b"\t", b"\x7f", b"\xc2\x85", b"\xc2\xa0", "\u2028".encode(), "\ufeff".encode()],
    *[b"\xff", b"\xed\xa0\xbd", b"\xed\xb8\x80", b"\xc0\xaf", b"\r", b"\n"],
    *[b'","content":"', b'"},"finish_reason":"stop","x":{"y":"', b'\\"content\\":', b'"content":"', b'"content": '],
    *[*map(str.encode, PROBES), b"{}", b"</think>", b"<think>", b"x" * 300],
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=2).map(b"".join)
PLAIN_TEXTS = st.sampled_from([b"", b"a", b" word", "é号".encode(), "😀".encode(), *map(str.encode, PROBES)])


def filled(template: bytes, texts: Iterator[bytes]) -> bytes:
    """The template with a text in each of its places."""
    pieces = template.split(b"$")
    return b"".join(itertools.chain.from_iterable(zip(pieces, (*itertools.islice(texts, len(pieces) - 1), b""), strict=True)))  # fmt: skip


def stretch(
    head: bytes, choices: bytes, layout: Callable[[bytes, bytes], bytes], block: bytes, texts: list[bytes]
) -> bytes:
    """Chunks of one kind, one for each text."""
    template = block % layout(head, choices)
    return b"".join(
        filled(template.replace(b'"?"', b'"%d"' % 7**place), itertools.chain([text], itertools.cycle(texts)))
        for place, text in enumerate(texts)
    )


def turns(
    heads: list[bytes],
    choices: bytes,
    layout: Callable[[bytes, bytes], bytes],
    block: bytes,
    texts: list[list[bytes]],
) -> bytes:
    """Stretches of chunks that differ in what stands beside their texts, in turns."""
    return b"".join(stretch(*one) for one in zip(itertools.cycle(heads), *map(itertools.repeat, (choices, layout, block)), texts))  # fmt: skip


def runs_of(texts: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[list[bytes]]]:
    return st.lists(st.lists(texts, min_size=1, max_size=6), min_size=1, max_size=4)


STRETCHES = st.builds(
    turns,
    st.lists(st.sampled_from(HEADS), min_size=1, max_size=2),
    st.sampled_from(CHOICES),
    st.sampled_from(LAYOUTS),
    st.sampled_from(BLOCKS),
    runs_of(PLAIN_TEXTS) | runs_of(PLAIN_TEXTS | TEXTS),
)
BETWEEN = made_streams.EVENTS | st.sampled_from(
    [
        STOP,
        delta("length", 1),
        delta(role="assistant"),
        delta(role="assistant", content=""),
        delta(content="\ud83d"),
        delta(content="\ude00"),
        delta(tool_calls=[fragment(0, "call_a", "f", "")]),
        b": ping\n\n",
        b"\n\n",
        b"event: other\n",
        b"foo: bar\n",
        b'error: {"code":429,"message":"slow down"}\n\n',
        event({"error": {"message": "overloaded", "code": 503}}),
        event(""),
        event("null"),
        event("[DONE] "),
        event(b'{"choices":[{"delta"'),
        DONE,
    ]
)
ENDS = st.sampled_from([b"", STOP, STOP + DONE, STOP + DONE, DONE, delta("stop", 1) + STOP + DONE])
BODIES = st.builds(
    lambda parts, end, line_end, last: (b"".join(parts) + end).replace(b"\n", line_end)[:last],
    st.lists(STRETCHES | STRETCHES | BETWEEN, max_size=4),
    ENDS,
    st.sampled_from([b"\n"] * 5 + [b"\r\n", b"\r"]),
    st.sampled_from([None] * 5 + [-1, -2, -9]),
)


# Reading them


class Read(NamedTuple):
    """What of the body comes with one read, and how long after the one before."""

    data: bytes
    wait: float
    is_folded: bool


def reads_of(body: bytes, cuts: list[tuple[int, float, bool]]) -> list[Read]:
    """The body, cut at some places."""
    places = sorted((place % (len(body) + 1), wait, is_folded) for place, wait, is_folded in cuts)
    starts = [0, *(place for place, _, _ in places)]
    ends = [*starts[1:], len(body)]
    hows = [(1.0, False), *((wait, is_folded) for _, wait, is_folded in places)]
    return [Read(body[start:end], *how) for start, end, how in zip(starts, ends, hows, strict=True)]


def each_event(body: bytes) -> list[Read]:
    """The body with a read for each block."""
    return [Read(block + b"\n\n", 1.0, is_folded=False) for block in body.split(b"\n\n")]


CUTS = st.lists(
    st.tuples(st.integers(0, 9000), st.sampled_from([0.0, 0.0, 1.0, 4.0]), st.booleans()), min_size=1, max_size=10
)
READS = st.builds(reads_of, BODIES, CUTS) | st.builds(each_event, BODIES)


class Result(NamedTuple):
    """All that there is to know after a stream, besides its chunks."""

    end: StreamEnd | None
    error: tuple[str, str, str] | None
    snapshot: str
    anomalies: tuple[Anomaly, ...]
    timing: StreamTiming
    seen: list[tuple[ServerSentEvent, str]]  # by `on_server_sent_event`
    events: list[tuple[str, str]]
    halfway: str


def dumped(completion: ChatCompletion | None) -> str:
    return "" if completion is None else completion.model_dump_json()


def shown(events: list[Any]) -> list[tuple[str, str]]:
    """Events by what they say, and what they add up to."""
    return [(plain(event), getattr(event, "snapshot", "")) for event in events]


def result_of(stream: Any, seen: list[Any], events: list[Any], halfway: str) -> Result:
    """What a parser or a stream has to say."""
    error: ChunkfoldError | None = stream.error
    told = None if error is None else (repr(error), str(error), dumped(error.snapshot))
    snapshot = dumped(stream.snapshot)
    return Result(stream.end, told, snapshot, stream.anomalies, stream.timing, seen, shown(events), halfway)


TRANSFORMS: dict[str, tuple[Callable[[], Any], ...]] = {
    "none": (),
    "some": (CumulativeDeltas, ThinkTags, OneChoice),
    "think tags": (ThinkTags,),
}
OPTIONS = st.fixed_dictionaries(
    {
        "is_watched": st.sampled_from([False, False, False, True]),
        "is_reset": st.booleans(),
        "transforms": st.sampled_from(["none"] * 6 + ["some", "think tags"]),
        "strict": st.sampled_from([False] * 6 + [True]),
        "max_output_size": st.sampled_from([None] * 6 + [0, 20]),
        "max_event_size": st.sampled_from([None] * 4 + [100, 200]),
        "progress_timeout": st.sampled_from([None, None, 3.0]),
        "total_timeout": st.sampled_from([None, None, 8.0]),
        "status_code": st.sampled_from([None] * 6 + [200, 503]),
    }
)
NO_OPTIONS: dict[str, Any] = {"is_watched": False, "is_reset": False, "transforms": "none"}


def prepared(options: dict[str, Any], clock: Callable[[], float]) -> tuple[dict[str, Any], list[Any]]:
    """The parser's options, and where `on_server_sent_event` puts what it sees."""
    seen: list[tuple[ServerSentEvent, str]] = []
    options = {**options, "transforms": [make() for make in TRANSFORMS[options["transforms"]]], "clock": clock}
    if options.pop("is_watched"):
        options["on_server_sent_event"] = lambda event, chunks: seen.append((event, plain(chunks)))
    del options["is_reset"]
    return options, seen


def parsed(reads: list[Read], folded: bool | None, options: dict[str, Any], *, events_from: int = 0) -> Result:
    """What comes of the reads, fed (False), folded (True), or each as it says (None)."""
    clock = ManualClock()
    parser_options, seen = prepared(options, clock)
    parser = ChatCompletionParser(**parser_options)
    events: list[Any] = []
    halfway = ""
    for number, read in enumerate(reads):
        if number >= events_from:
            events += parser.events()
        clock.advance(read.wait)
        if read.is_folded if folded is None else folded:
            parser.fold(read.data)
        else:
            parser.feed(read.data)
        if number == len(reads) // 2:
            halfway = dumped(parser.snapshot)
    clock.advance(1)
    if options["is_reset"]:
        parser.interrupt(ConnectionError("reset"))
    else:
        parser.close()
    if events_from <= len(reads):
        events += parser.events()
    return result_of(parser, seen, events, halfway)


@contextmanager
def slices_of(size: int) -> Iterator[None]:
    """Slices so small that small bodies have many."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (chunkfold.event_stream.lines, chunkfold.parser.parser, chunkfold.stream.driver):
            patch.setattr(module, "SLICE", size)
        yield


SIZES = st.sampled_from([SLICE, 1, 64, 500])


@contextmanager
def each_validated() -> Iterator[None]:
    """No event is taken because another one was like it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventTemplate, "fold_event", lambda *_: False)
        patch.setattr(EventTemplate, "fold_block", lambda *_: False)
        patch.setattr(EventTemplate, "fold_run", lambda *_: 0)
        yield
