"""The short ways through the fold lead to where the long way leads.

`fold` makes no chunks, `read` hands none out, a text is folded without reading its JSON again, the usual chunk passes
by the table of rules, a large read is fed in slices: none of this may show in anything but time.
"""

import itertools
import json
import string
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import made_streams
import pytest
from cases import each_case
from fronts import over_both_streams
from hypothesis import example, given, settings
from hypothesis import strategies as st
from invariants import plain
from made_streams import STOP

import chunkfold.event_stream.lines
import chunkfold.parser.event_folder
import chunkfold.parser.parser
import chunkfold.stream.driver
import chunkfold.wire.payload
from chunkfold import (
    APIError,
    AsyncChatCompletionStream,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    CumulativeDeltas,
    EventStreamDecoder,
    OneChoice,
    ServerSentEvent,
    StreamEnd,
    ThinkTags,
    parse_payload,
)
from chunkfold.anomalies import Anomaly
from chunkfold.event_stream.lines import SLICE, slices
from chunkfold.event_stream.server_sent_event import MESSAGE
from chunkfold.events.recorder import EventRecorder
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser.limits import OutputLimit
from chunkfold.parser.template import EventTemplate
from chunkfold.parser.timing import StreamTiming
from chunkfold.testing import (
    DONE,
    HEAD,
    Answer,
    FakeResponse,
    HostileStream,
    ManualClock,
    choice,
    chunk,
    delta,
    event,
    fragment,
    fragments,
    hostile_streams,
)
from chunkfold.testing.playback import Playback
from chunkfold.testing.wire import compact_json
from chunkfold.wire.envelopes import is_only_chunk
from chunkfold.wire.payload import chunk_from_json, valid_chunk

pytest_generate_tests = over_both_streams

often = settings(max_examples=40, deadline=None)  # no deadline: the machine may be busy

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


def each_event(body: bytes, *, is_folded: bool = False) -> list[Read]:
    """The body with a read for each block."""
    return [Read(block + b"\n\n", 1.0, is_folded) for block in body.split(b"\n\n")]


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
        patch.setattr(EventTemplate, "fold_run", lambda *_: 0)
        yield


# `fold` is `feed`


@settings(often, max_examples=60)
@given(READS, OPTIONS, st.integers(0, 12), SIZES)
def test_fold_is_feed(reads: list[Read], options: dict[str, Any], events_from: int, size: int) -> None:
    with each_validated():
        fed = parsed(reads, False, options, events_from=events_from)
    with slices_of(size):
        assert parsed(reads, False, options, events_from=events_from) == fed
        assert parsed(reads, True, options, events_from=events_from) == fed
        assert parsed(reads, None, options, events_from=events_from) == fed


def assert_the_same(body: bytes, **options: Any) -> None:
    """A body is the same, fed and folded, in one read and in a read for each event."""
    for reads in (each_event(body), [Read(body, 1.0, False)]):
        with each_validated():
            fed = parsed(reads, False, {**NO_OPTIONS, **options})
        assert parsed(reads, False, {**NO_OPTIONS, **options}) == fed
        assert parsed(reads, True, {**NO_OPTIONS, **options}) == fed
        mixed = [read._replace(is_folded=number % 3 > 0) for number, read in enumerate(reads)]
        assert parsed(mixed, None, {**NO_OPTIONS, **options}) == fed


FIRST = delta(role="assistant", content="")
HELLO = delta(content="Hello")


def of_kind(choices: bytes, *texts: bytes, head: bytes = PLAIN_HEAD) -> bytes:
    return stretch(head, choices, LAYOUTS[0], BLOCKS[0], list(texts))


def test_half_a_pair_stands_before_the_text_behind_it() -> None:
    """Was once wrong: text that came behind half a pair was folded before it."""
    assert_the_same(FIRST + HELLO * 3 + delta(content="\ud83d") + HELLO * 2 + STOP + DONE)
    assert_the_same(FIRST + HELLO * 3 + delta(content="\ud83d", index=1) + HELLO * 2 + STOP + DONE)
    assert_the_same(FIRST + delta(content="\ud83d") + delta(content="a\ude00") + HELLO * 3 + STOP + DONE)


@each_case(
    "fields",
    [
        {"role": "assistant", "content": "a"},
        {"role": "", "content": "a"},
        {"content": "a", "reasoning_content": "hm"},
        {"reasoning": "hm", "content": "a"},
        {"content": "a", "refusal": "no"},
        {"content": "a", "audio": {"data": "AAAA"}},
        {"content": "a", "function_call": {"arguments": "1"}},
        {"content": "a", "tool_calls": [{"index": 0, "function": {"arguments": "1"}}]},
        {"content": "a", "unknown": 1},
    ],
    ids=str,
)
def test_what_stands_beside_each_text_counts_each_time(fields: dict[str, Any]) -> None:
    """Was once wrong: of what was equal beside each text, only the first few counted; a role's anomaly stood at another event."""
    assert_the_same(FIRST + delta(**fields) * 9 + STOP + DONE)


IN_TURNS = {
    "an unknown key": (HELLO.replace(b'"choices"', b'"x": 1, "choices"'), HELLO.replace(b'"choices"', b'"x": 2, "choices"')),
    "an unknown key of the choice": (HELLO.replace(b'"delta"', b'"x": 1, "delta"'), HELLO.replace(b'"delta"', b'"x": 2, "delta"')),
    "usage": (
        HELLO.replace(b'"choices"', b'"usage": {"completion_tokens": 5}, "choices"'),
        HELLO.replace(b'"choices"', b'"usage": {"completion_tokens": 6}, "choices"'),
    ),
    "usage of zero": (
        HELLO.replace(b'"choices"', b'"usage": {"completion_tokens": 0}, "choices"'),
        HELLO.replace(b'"choices"', b'"usage": {"completion_tokens": 6}, "choices"'),
    ),
    "a service tier": (
        HELLO.replace(b'"choices"', b'"service_tier": "default", "choices"'),
        HELLO.replace(b'"choices"', b'"service_tier": "flex", "choices"'),
    ),
    "a fingerprint": (
        HELLO.replace(b'"choices"', b'"system_fingerprint": "a", "choices"'),
        HELLO.replace(b'"choices"', b'"system_fingerprint": "b", "choices"'),
    ),
}  # fmt: skip


# Was once wrong: what was learned beside an unknown key or usage says them anew, but only the text was folded.
@pytest.mark.parametrize("name", IN_TURNS)
def test_what_stands_beside_a_text_is_said_anew(name: str) -> None:
    """Of two values the last one that came counts, also if it had come before."""
    one, other = IN_TURNS[name]
    assert_the_same(FIRST + one * 5 + other + one + STOP + DONE)
    assert_the_same(FIRST + one * 5 + other + one * 20 + other * 3 + one * 3 + STOP + DONE)
    assert_the_same(FIRST + other + one * 5)


def test_where_an_anomaly_of_the_end_stands() -> None:
    """Was once wrong: at the last event that the shortcut did not take."""
    headless = event({"object": HEAD["object"], "choices": [choice(content="a")]})
    assert_the_same(headless * 9)
    assert_the_same(delta("stop", 1) + HELLO * 9)


PLACES_OF_TWO = [kind for kind in CHOICES if kind.count(b"$") == 2 and b"logprobs" not in kind]


@pytest.mark.parametrize("kind", PLACES_OF_TWO, ids=bytes.decode)
def test_two_texts_that_look_like_one(kind: bytes) -> None:
    """Was once wrong: where both were the text that is tried, either could be taken for the other."""
    texts = [*map(str.encode, PROBES), b"x"]
    template = BLOCKS[0] % LAYOUTS[0](PLAIN_HEAD, kind)
    for learned, taken in itertools.product(itertools.product(texts, repeat=2), repeat=2):
        chunks = [filled(template, iter(two)) for two in ((b"a", b"b"), learned, taken, taken)]
        read = [Read(FIRST + b"".join(chunks) + STOP, 1.0, False)]
        fed = parsed(read, False, NO_OPTIONS, events_from=9)
        assert parsed(read, True, NO_OPTIONS, events_from=9) == fed, (learned, taken)


KINDS = list(dict.fromkeys(CHOICES))


@each_case("kind", KINDS, ids=bytes.decode)
def test_every_kind_of_chunk(kind: bytes) -> None:
    """Each under a fifth of the heads, by turns; in `test_fold_is_feed` they meet by chance."""
    texts = (b"a", b"", *map(str.encode, PROBES), b"b", b"", "é".encode(), b"\\n", b"c")
    for head in [PLAIN_HEAD, *HEADS[6 + KINDS.index(kind) % 5 :: 5]]:
        reads = each_event(FIRST + of_kind(kind, *texts, head=head) + HELLO * 2 + STOP + DONE)
        fed = parsed(reads, False, NO_OPTIONS)
        assert parsed(reads, True, NO_OPTIONS) == fed, head
        assert parsed(reads, False, {**NO_OPTIONS, "is_watched": True})._replace(seen=[]) == fed, head
    assert_the_same(delta(role="assistant") + of_kind(kind, *texts[:3]))


LATE = {
    # The read came in time for its end, and too late for its first slice.
    "keep-alives, then text": (b": ping\n\n" * 1000 + HELLO, {"progress_timeout": 5.0}),
    "text, then the end": (HELLO * 100 + STOP + DONE, {"total_timeout": 5.0}),
    "text, then an error": (HELLO * 100 + event({"error": "no"}), {"total_timeout": 5.0}),
    "a refusal": (b"{" + b"\n\n" * 3000 + b'"error":{"message":"no"}}', {"total_timeout": 5.0, "status_code": 503}),
}


@pytest.mark.parametrize("name", LATE)
def test_a_large_read_is_judged_as_a_whole(name: str) -> None:
    """Was once wrong: its first slice alone was held against the deadlines."""
    body, options = LATE[name]
    reads = [Read(FIRST, 1.0, False), Read(body, 99.0, False)]
    fed = parsed(reads, False, {**NO_OPTIONS, **options})
    assert parsed(reads, True, {**NO_OPTIONS, **options}) == fed
    for read in READERS.values():
        assert read(reads, {**NO_OPTIONS, **options})[1] == fed._replace(events=[], halfway="")


@pytest.mark.parametrize("method", ["feed", "fold"])
@pytest.mark.parametrize("body", [HELLO, HELLO * 200], ids=["small", "large"])
def test_when_the_bytes_arrived_may_be_said(method: str, body: bytes) -> None:
    def clock() -> float:
        pytest.fail("the clock was read")

    parser = ChatCompletionParser(clock=clock, started=10.0, progress_timeout=5.0, total_timeout=20.0)
    take = getattr(parser, method)
    take(b": ping\n\n", arrived=11.0)
    take(body, arrived=12.0)
    take(body, arrived=16.5)
    assert parser.timing == StreamTiming(1.0, 2.0, 2.0, 6.5, 6.5)
    assert parser.end is None
    take(b": ping\n\n", arrived=22.0)
    assert parser.end is StreamEnd.STALLED
    assert "progress_timeout" in str(parser.error)
    parser = ChatCompletionParser(clock=clock, started=10.0, total_timeout=20.0)
    getattr(parser, method)(body, arrived=30.5)
    assert parser.end is StreamEnd.STALLED
    assert "total_timeout" in str(parser.error)


# Recorded and hostile bodies


@each_case("stream", hostile_streams(abuse=False), ids=lambda stream: stream.name)
def test_hostile_streams(stream: HostileStream) -> None:
    assert_no_way_differs(stream)


ABUSE = {stream.name: stream for stream in hostile_streams() if stream.cost is not None}


@pytest.mark.slow
@pytest.mark.parametrize("stream", ABUSE.values(), ids=ABUSE)
def test_abuse(stream: HostileStream) -> None:
    assert_no_way_differs(stream)


def assert_no_way_differs(stream: HostileStream) -> None:
    assert_the_same(FIRST + HELLO * 3 + stream.body + HELLO * 3 + STOP + DONE)
    strict = {**NO_OPTIONS, "strict": True}
    read = [Read(HELLO * 3 + stream.body, 1.0, False)]
    assert parsed(read, True, strict) == parsed(read, False, strict)
    size = 1 + len(stream.body) // 250
    reads = [Read(stream.body[place : place + size], 0.0, False) for place in range(0, len(stream.body), size)]
    assert parsed(reads, True, NO_OPTIONS) == parsed(reads, False, NO_OPTIONS)


# The usual chunk


def folded_chunks(events: list[ServerSentEvent], *, usual: bool) -> tuple[Any, ...]:
    """What an accumulator makes of events, and how many took the short way."""
    accumulator = StreamFold()
    recorder = EventRecorder({})
    accumulator.log.observe(recorder.on_anomaly)
    accumulator.observe(recorder)
    taken = 0
    for sent in events:
        accumulator.log.offset = sent.offset
        valid = valid_chunk(sent)
        if usual and valid is not None and accumulator.add_if_usual(valid):
            assert is_only_chunk(valid)
            taken += 1
            continue
        for one in parse_payload(sent).chunks:
            accumulator.add_unusual(one)
    sizes = accumulator.has_output, accumulator.output_size, accumulator.chunks, accumulator.all_finished
    before_the_end = plain(accumulator.snapshot), sizes, accumulator.head.usual
    last = plain(accumulator.finish())
    told = shown(recorder.take()), accumulator.log.entries()
    return (plain(accumulator.snapshot), before_the_end, last, told), taken


@often
@given(BODIES)
@example(delta(role="assistant") + delta(content="") + STOP)
@example(2 * chunk(choice(content="a"), object="text_completion"))
def test_adding_the_usual_chunk_is_adding_a_chunk(body: bytes) -> None:
    events = EventStreamDecoder().feed(body)
    assert folded_chunks(events, usual=True)[0] == folded_chunks(events, usual=False)[0]


@pytest.mark.parametrize("strict", [False, True])
def test_an_empty_text_is_a_text(strict: bool) -> None:
    """Was once wrong: the content was null where nobody watched, and empty where somebody did."""
    parser = ChatCompletionParser(strict=strict)
    parser.feed(delta(role="assistant") + delta(content="") + STOP + DONE)
    assert parser.completion().message.content == ""


A = choice(content="a")
USUAL = {
    "usage": chunk(choice(), usage={"prompt_tokens": 1}),
    "an unknown field": chunk(A, x=1),
    "an unknown field of the choice": chunk({**A, "x": 1}),
    "text": chunk(A),
    "reasoning": delta(reasoning_content="hm"),
    "reasoning and text": delta(reasoning_content="hm", content=""),
    "arguments": delta(tool_calls=[fragment(0, arguments="1")]),
    "a refusal": delta(refusal="no"),
    "text of another choice": delta(index=1, content="a"),
}
UNUSUAL = {
    "a finish reason": STOP,
    "an empty finish reason": delta(""),
    "no choice": chunk(),
    "two choices": chunk(A, A),
    "another id": chunk(A, id="c2"),
    "an empty id": chunk(A, id=""),
    "an error": chunk(A, error="no"),
    "an error of MiniMax": chunk(A, base_resp={"status_code": 1002}),
    "an error of the choice": chunk({**A, "error": {"message": "no"}}),
    "usage of Groq": chunk(A, x_groq={"usage": {"prompt_tokens": 1}}),
    "usage of the choice": chunk({**A, "usage": {"prompt_tokens": 1}}),
    "a choice that has not come before": delta(index=2, content="a"),
    "a choice that is finished": delta(index=3, content="a"),
    "a choice without an index": chunk({"delta": {"content": "a"}}),
    "a choice without a delta": chunk({"index": 0}),
    "log probabilities": chunk({**A, "logprobs": {"content": []}}),
    "a message": chunk({**A, "message": {"content": "b"}}),
}


@each_case("name", [*USUAL, *UNUSUAL])
def test_what_is_usual(name: str) -> None:
    """Else the test before would show nothing."""
    begin = FIRST + delta(index=1, content="") + delta("stop", index=3)
    events = EventStreamDecoder().feed(begin + {**USUAL, **UNUSUAL}[name])
    result, taken = folded_chunks(events, usual=True)
    assert taken == (name in USUAL)
    assert result == folded_chunks(events, usual=False)[0]


# Fragments of tool calls that bring arguments and nothing else


def test_arguments_take_the_short_way_only_where_nothing_else_is_said() -> None:
    """Each fragment stands behind one of another call, so that a wrong turn would show."""
    begin = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "1"}},
        {"index": 1, "function": {"name": "g", "arguments": "2"}},
        {"index": 2, "custom": {"name": "h", "input": "3"}},
    ]
    parts: list[dict[str, Any]] = [
        {"arguments": "x"},
        {"arguments": ""},
        {"arguments": None},
        {"arguments": {"y": 1}},
        {"arguments": {}},
        {"arguments": "x", "name": None},
        {"arguments": "x", "name": ""},
        {"arguments": "x", "name": "f"},
        {"arguments": "x", "name": "other"},
        {"arguments": "x", "strict": True},
        {},
    ]
    around: list[dict[str, Any]] = [
        {},
        {"type": "function"},
        {"type": ""},
        {"type": None},
        {"id": None},
        {"id": ""},
        {"id": "a"},
        {"id": "b"},
        {"x": 1},
        {"custom": None},
        {"custom": {"input": "z"}},
    ]
    indexes = [0, 1, 2, 3, None]
    each_two = [
        *itertools.product(indexes, parts, around[:1]),
        *itertools.product(indexes, parts[:1], around[1:]),
        *itertools.product(indexes[:1], parts[1:], around[1:]),
    ]
    for index, part, outer in each_two:
        if index == 3 and part in ({}, {"arguments": ""}, {"arguments": None}):
            continue  # alone there is nothing in it (CF203), beside an unknown key there is
        one = {**outer, "index": index, "function": part}
        fed = [*begin, one, fragment(None, arguments="!"), fragment(1, arguments="?")]
        # In a list of its own each fragment is folded alone; beside an empty object, it cannot take the short way.
        one_by_one = fragments(*fed)
        spelled_out = fragments(*map(with_everything, fed))
        short, long = (
            parsed([Read(one_by_one, 1.0, False)], False, NO_OPTIONS),
            parsed([Read(spelled_out, 1.0, False)], False, NO_OPTIONS),
        )
        assert calls_of(short) == calls_of(long), one
        assert [(one.rule.id, one.count) for one in short.anomalies] == [
            (one.rule.id, one.count) for one in long.anomalies
        ], fed


UNREAD = "an unknown key, so that nothing takes the short way"


def with_everything(fragment: dict[str, Any]) -> dict[str, Any]:
    function = fragment.get("function")
    return {**fragment, UNREAD: 1, **({} if function is None else {"function": {**function, UNREAD: 1}})}


def calls_of(result: Result) -> list[Any]:
    calls = json.loads(result.snapshot)["choices"][0]["message"]["tool_calls"]
    return json.loads(json.dumps(calls), object_hook=lambda value: {key: value[key] for key in value if key != UNREAD})


# Streams, which feed a large read in slices


@contextmanager
def its_error(stream: Any) -> Iterator[None]:
    """What is raised is what went wrong, if anything did."""
    raised: ChunkfoldError | None = None
    try:
        yield
    except ChunkfoldError as error:
        raised = error
    assert raised is stream.error


def sync_chunks(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    return streamed(reads, options, lambda source, given, take: sync_loop(ChatCompletionStream(source, **given), take))


def async_chunks(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    return streamed(
        reads,
        options,
        lambda source, given, take: run(async_loop(AsyncChatCompletionStream(each(source), **given), take)),
    )


def sync_loop(stream: ChatCompletionStream, take: Callable[[Any], object]) -> ChatCompletionStream:
    with its_error(stream):
        for chunk in stream:
            take(chunk)
    return stream


async def async_loop(stream: AsyncChatCompletionStream, take: Callable[[Any], object]) -> AsyncChatCompletionStream:
    with its_error(stream):
        async for chunk in stream:
            take(chunk)
    return stream


def sync_read(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    def read(source: Iterator[bytes], given: dict[str, Any], take: Callable[[Any], object]) -> ChatCompletionStream:
        stream = ChatCompletionStream(source, **given)
        with its_error(stream):
            assert stream.read() is stream.completion()
        return stream

    return streamed(reads, options, read)


def async_read(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    async def read(source: Iterator[bytes], given: dict[str, Any]) -> AsyncChatCompletionStream:
        stream = AsyncChatCompletionStream(each(source), **given)
        with its_error(stream):
            assert await stream.read() is stream.completion()
        return stream

    return streamed(reads, options, lambda source, given, take: run(read(source, given)))


async def each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def streamed(reads: list[Read], options: dict[str, Any], use: Callable[..., Any]) -> tuple[list[str], Result]:
    """The chunks that a stream hands out, and all else."""
    clock = ManualClock()
    given, seen = prepared(options, clock)

    def source() -> Iterator[bytes]:
        for read in reads:
            clock.advance(read.wait)
            yield read.data
        clock.advance(1)
        if options["is_reset"]:
            raise ConnectionError("reset")

    chunks: list[str] = []
    stream = use(source(), given, lambda chunk: chunks.append(plain(chunk)))
    return chunks, result_of(stream, seen, [], "")


READERS = {"sync": sync_chunks, "async": async_chunks, "sync read": sync_read, "async read": async_read}


def fed_chunks(reads: list[Read], options: dict[str, Any]) -> tuple[list[str], Result]:
    """The same by a parser, which is fed whole reads."""
    clock = ManualClock()
    given, seen = prepared(options, clock)
    parser = ChatCompletionParser(**given)
    chunks: list[Any] = []
    for read in reads:
        if parser.end is None:  # a stream does not read on behind its end
            clock.advance(read.wait)
            chunks += parser.feed(read.data)
    if parser.end is None:
        clock.advance(1)
        chunks += parser.interrupt(ConnectionError("reset")) if options["is_reset"] else parser.close()
    return [plain(chunk) for chunk in chunks], result_of(parser, seen, [], "")


@often
@given(READS, OPTIONS, SIZES)
def test_streams_are_the_parser_whatever_the_slices(reads: list[Read], options: dict[str, Any], size: int) -> None:
    with each_validated():
        chunks, result = fed_chunks(reads, options)
    assert fed_chunks(reads, options) == (chunks, result)
    with slices_of(size):
        assert sync_chunks(reads, options) == (chunks, result)
        assert async_chunks(reads, options) == (chunks, result)
        assert sync_read(reads, options) == ([], result)
        assert async_read(reads, options) == ([], result)


@often
@given(READS, SIZES)
def test_events_are_the_parsers_whatever_the_slices(reads: list[Read], size: int) -> None:
    fed = parsed([read for read in reads if read.data], False, NO_OPTIONS)
    events: list[Any] = []
    with slices_of(size):
        stream = ChatCompletionStream([read.data for read in reads])
        with its_error(stream):
            for one in stream.events():
                events.append(one)  # noqa: PERF402 - what came before an error counts
    assert (shown(events), stream.end) == (fed.events, fed.end)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\n\n", b"data: x\n\n", b"x" * 40]), max_size=60).map(b"".join), st.sampled_from([1, 2, 30]), st.booleans())  # fmt: skip
def test_slices_are_the_data_cut_behind_blocks(data: bytes, size: int, has_crlf: bool) -> None:
    blank = b"\r\n\r\n" if has_crlf else b"\n\n"
    data = data.replace(b"\n", blank[: len(blank) // 2])
    with slices_of(size):
        pieces = list(slices(data))
    assert b"".join(pieces) == data
    assert all(piece.endswith(blank) for piece in pieces[:-1])
    assert all(len(piece) >= size for piece in pieces[1:-1])
    assert all(piece for piece in pieces)
    # No slice is longer than it has to be; the first one ends with its first block.
    assert all(blank not in piece[size if place else 0 : -1] for place, piece in enumerate(pieces))


LARGE = FIRST + HELLO * 200
LARGE_TEXT = "Hello" * 200


def test_a_large_read_is_not_parsed_at_once() -> None:
    """Few chunks are held at a time: many cost more."""
    stream = ChatCompletionStream([LARGE + STOP + DONE])
    next(stream)
    next(stream)
    assert 0 < len(stream.snapshot.text) < len(LARGE_TEXT) / 2
    assert stream.end is None
    assert len(list(stream)) == 200  # the others, and the finish reason


ARRIVED = {
    "all": (LARGE + STOP + DONE, StreamEnd.FINISHED, LARGE_TEXT),
    "all but [DONE]": (LARGE + STOP, StreamEnd.FINISHED, LARGE_TEXT),
    "[DONE] alone": (LARGE + DONE, StreamEnd.DONE, LARGE_TEXT),
    "not all": (LARGE, StreamEnd.CLOSED, LARGE_TEXT),
    "an error": (LARGE + event({"error": {"message": "overloaded"}}) + HELLO, StreamEnd.FAILED, LARGE_TEXT),
    "garbage": (LARGE + event("garbage") + HELLO, StreamEnd.INVALID, LARGE_TEXT),
    "all in a few bytes": (FIRST + HELLO + STOP + DONE, StreamEnd.FINISHED, "Hello"),
    "an error in a few bytes": (FIRST + event({"error": "no"}), StreamEnd.FAILED, ""),
}


@each_case("name", ARRIVED)
async def test_what_had_arrived_counts_for_who_leaves(front: Any, name: str) -> None:
    body, end, text = ARRIVED[name]
    async with front(Playback(Answer([body, HELLO]))) as stream:
        async for _ in stream:
            break
    assert (stream.end, stream.snapshot.text) == (end, text)
    if end.complete:
        assert stream.completion().text == text
    else:
        with pytest.raises(ChunkfoldError):
            stream.completion()


def test_what_had_arrived_is_not_handed_out_by_read() -> None:
    stream = ChatCompletionStream([LARGE + STOP + DONE])
    for _ in zip(range(3), stream, strict=False):
        pass
    assert stream.read().text == LARGE_TEXT
    assert list(stream._ready) == []


def test_an_error_behind_a_large_read_comes_last() -> None:
    stream = ChatCompletionStream([LARGE + event({"error": {"message": "overloaded"}})])
    texts: list[str] = []
    with pytest.raises(APIError):
        texts.extend(chunk.text for chunk in stream)
    assert stream.snapshot.text == LARGE_TEXT


@pytest.mark.parametrize("read", [sync_chunks, sync_read], ids=["chunks", "read"])
def test_the_chunks_of_a_large_read_came_with_it(read: Callable[..., Any]) -> None:
    _, result = read([Read(LARGE, 2.0, False), Read(LARGE + STOP + DONE, 3.0, False)], NO_OPTIONS)
    assert result.timing == StreamTiming(2.0, 2.0, 2.0, 5.0, 5.0)


def test_who_takes_long_over_the_first_chunks_does_not_make_the_others_come_late() -> None:
    seconds = itertools.count()
    stream = ChatCompletionStream([LARGE, LARGE + STOP + DONE], clock=lambda: float(next(seconds)))
    for _ in stream:
        next(seconds)  # time passes
    second = 201 + 2.0  # a second for each chunk before it, and one for each read
    assert stream.timing == StreamTiming(1.0, 1.0, 1.0, second, second)


def failing_at(number: int) -> Callable[[Any, Any], None]:
    """An `on_server_sent_event` that fails at one event."""
    events = itertools.count(1)

    def on_server_sent_event(_: Any, __: Any) -> None:
        if next(events) == number:
            raise KeyError("mine")

    return on_server_sent_event


async def test_leaving_closes_whatever_a_tap_raises(front: Any) -> None:
    """Was once wrong: what it raised of a slice that had not been fed kept the response open."""
    response = FakeResponse(LARGE + STOP + DONE)
    with pytest.raises(KeyError):
        async with front(response, on_server_sent_event=failing_at(150)) as stream:
            await anext(aiter(stream))
    assert response.is_closed


@pytest.mark.parametrize("body", [FIRST + HELLO * 3 + STOP + DONE, LARGE + STOP + DONE], ids=["small", "large"])
def test_a_tap_may_close_the_stream(body: bytes) -> None:
    """Was once wrong: of a large read, that was a ValueError, and the response stayed open."""
    response = FakeResponse(body)
    stream = ChatCompletionStream(response, on_server_sent_event=lambda event, chunks: stream.close())
    list(stream)
    assert response.is_closed
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


@pytest.mark.parametrize("body", [FIRST + HELLO * 3 + STOP + DONE, LARGE + STOP + DONE], ids=["small", "large"])
def test_closing_from_another_thread_while_a_read_is_parsed(body: bytes) -> None:
    """Was once wrong: of a large read, that was a ValueError, and the response stayed open."""
    parsing, closed = threading.Event(), threading.Event()

    def on_server_sent_event(_: Any, __: Any) -> None:
        parsing.set()
        assert closed.wait(30)

    response = FakeResponse(body)
    stream = ChatCompletionStream(response, on_server_sent_event=on_server_sent_event)
    with ThreadPoolExecutor(1) as elsewhere:
        reading = elsewhere.submit(list, stream)
        try:
            assert parsing.wait(30)
            stream.close()
        finally:
            closed.set()
        reading.result(30)
    assert response.is_closed
    assert stream.end is not None
    assert stream.error is None


def test_reading_on_while_another_thread_closes() -> None:
    """Whoever closes parses what had arrived; meanwhile the consumer comes to the end of what it was given."""
    reading, closing, read_on = threading.Event(), threading.Event(), threading.Event()
    closer = threading.get_ident()

    def on_server_sent_event(_: Any, __: Any) -> None:
        if threading.get_ident() == closer and not closing.is_set():
            closing.set()
            read_on.wait(0.1)

    stream = ChatCompletionStream([LARGE + STOP + DONE], on_server_sent_event=on_server_sent_event)

    def consume() -> None:
        for _ in stream:
            reading.set()
            assert closing.wait(30)
        read_on.set()

    with ThreadPoolExecutor(1) as elsewhere:
        consumed = elsewhere.submit(consume)
        assert reading.wait(30)
        stream.close()
        consumed.result(30)
    assert (stream.end, stream.error) == (StreamEnd.FINISHED, None)


# The template itself


class Watched(EventTemplate):
    """Counts the events that do not fit."""

    others = 0

    def _compare(self, event: ServerSentEvent) -> ChatCompletionChunk | None:
        self.others += 1
        return super()._compare(event)


class Folded:
    """Events folded as the parser folds them, with a template, and beside it without one."""

    def __init__(self) -> None:
        self.accumulator = StreamFold()
        self.expected = StreamFold()
        self.template = Watched(self.accumulator, OutputLimit(None, self.accumulator))

    def take(self, data: bytes, event: str = MESSAGE) -> bool:
        """Fold an event; return whether its JSON was not read."""
        known = self.template.others
        sent = ServerSentEvent(data, event)
        make_chunk = self.template.fold_event(sent)
        for one in parse_payload(sent).chunks:
            self.expected.add(one)
            if make_chunk is None:
                self.accumulator.add(one)
            else:
                assert plain([make_chunk()]) == plain([one])
        assert dumped(self.accumulator.snapshot) == dumped(self.expected.snapshot)
        assert self.accumulator.chunks == self.expected.chunks
        assert self.accumulator.output_size == self.expected.output_size
        assert self.accumulator.has_output == self.expected.has_output
        assert self.accumulator.log.entries() == self.expected.log.entries()
        return make_chunk is not None and self.template.others == known


BEFORE = b'{%b,"choices":[{"index":0,"delta":{"content":"' % PLAIN_HEAD
BEHIND = b'"},"finish_reason":null}]}'


def said(text: bytes | str, before: bytes = BEFORE, behind: bytes = BEHIND) -> bytes:
    return before + (text if isinstance(text, bytes) else text.encode()) + behind


@pytest.fixture
def folded() -> Folded:
    """One that has learned from texts."""
    folded = Folded()
    folded.take(said("first"))  # opens the choice
    assert any(folded.take(said(text)) for text in ("Hello", "there", "you", "and", "me"))
    return folded


TAKEN = {
    "a word": " word",
    "nothing": "",
    "other letters": "é号 ñ",
    "an emoji": "😀",
    "a long text": "x" * 2**20,
    "a long text of other letters": "号" * 2**16,
    "the text that is tried": PROBES[0],
    "the other text that is tried": PROBES[1],
    "half of what stands before": BEFORE.replace(b'"', b"").decode(),
    "brackets": "}]}{[",
    "a key without quotes": "content:",
    "what printf would read": "%s%b%",
    "DEL": "a\x7fb",
    "NEL": "a\x85b",
    "U+2028": "a\u2028b",
    "a BOM": "\ufeffa",
}


ESCAPED = {
    "two backslashes": (b"a\\\\", "a\\"),
    "an escape": (b"a\\nb", "a\nb"),
    "an escaped quote": (b'a\\"b', 'a"b'),
    "an escaped emoji": (b"\\ud83d\\ude00", "😀"),
    "what stands behind, escaped": (BEHIND.replace(b'"', b'\\"'), BEHIND.decode()),
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_texts_that_are_folded_unread(folded: Folded, text: str) -> None:
    assert folded.take(said(text))
    assert folded.accumulator.snapshot.text.endswith(text)


@pytest.mark.parametrize("name", ESCAPED)
def test_escapes_that_are_folded_unread(folded: Folded, name: str) -> None:
    written, meant = ESCAPED[name]
    assert folded.take(said(written))
    assert folded.accumulator.snapshot.text.endswith(meant)


NOT_TAKEN = {
    "a quote": said(b'a"b'),
    "a quote at the end": said(b'a"'),
    "a quote that opens a finish reason": said(b'a"},"finish_reason":"stop","x":{"y":"'),
    "a quote that opens another content": said(b'a","content":"b'),
    "a quote that opens another choice": said(b'a"}},{"index":1,"delta":{"content":"b'),
    "a backslash": said(b"a\\"),
    "half a pair": said(b"\\ud83d"),
    "NUL": said(b"a\0b"),
    "a tab": said(b"a\tb"),
    "a line feed": said(b"a\nb"),
    "a control character": said(b"a\x1fb"),
    "no UTF-8": said(b"a\xffb"),
    "an overlong encoding": said(b"a\xc0\xafb"),
    "a surrogate as bytes": said(b"\xed\xa0\xbd"),
    "a character that is cut": said("号".encode()[:2]),
    "another beginning": said("a", before=BEFORE.replace(ID, b"c2")),
    "a later time": said("a", before=BEFORE.replace(CREATED, b"1760000001")),
    "another end": said("a", behind=BEHIND.replace(b"null", b'"stop"')),
    "an end that is as long": said("a", behind=BEHIND.replace(b"null", b'"ab"')),
    "more behind": said("a") + b" ",
    "the quotes in one": said("")[: len(BEFORE)] + BEHIND[1:],
    "what stands before, alone": BEFORE,
    "what stands behind, alone": BEHIND,
    "nothing": b"",
}


@pytest.mark.parametrize("data", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_near_misses_are_read(folded: Folded, data: bytes) -> None:
    assert not folded.take(data)
    for _ in range(3):
        folded.take(said("a"))


@pytest.mark.parametrize("name", ["error", "chat.completion.chunk", "other"])
def test_events_of_another_name_are_read(folded: Folded, name: str) -> None:
    assert not folded.take(said("a"), name)
    assert folded.take(said("a"))


def test_nothing_is_taken_for_a_choice_that_is_finished(folded: Folded) -> None:
    folded.take(said("", behind=BEHIND.replace(b"null", b'"stop"')))
    assert not folded.take(said("a"))
    assert [anomaly.rule.id for anomaly in folded.accumulator.log.entries()] == ["CF505"]


def test_no_value_that_is_kept_is_taken_for_a_choice_that_is_finished(folded: Folded) -> None:
    def numbered(number: int) -> bytes:
        return said(f"word {number}", behind=BEHIND[:-1] + b',"x":%d}' % number)

    taken = [folded.take(numbered(number)) for number in range(60)]
    assert taken[-1]
    folded.take(said("", behind=BEHIND.replace(b"null", b'"stop"')))
    assert not folded.take(numbered(99))


def test_nothing_is_taken_under_a_head_that_is_not_the_last(folded: Folded) -> None:
    tier = BEFORE.replace(b'"m"', b'"m","service_tier":"flex"')
    assert any(folded.take(said(text, before=tier)) for text in string.ascii_letters)
    assert folded.accumulator.snapshot.service_tier == "flex"
    other = tier.replace(b"flex", b"default")
    folded.take(said("a", before=other))
    # What was learned under the first tier must bring that tier back.
    assert not folded.take(said("a", before=tier))
    assert folded.accumulator.snapshot.service_tier == "flex"


LOOKALIKES = {
    "an unknown field": b'{%b,"choices":[{"index":0,"delta":{"x":{"content":"$"},"content":"a"}}]}',
    "an unknown field with the same text": b'{%b,"choices":[{"index":0,"delta":{"x":{"content":"$"},"content":"$"}}]}',
    "an earlier content": b'{%b,"choices":[{"index":0,"delta":{"content":"$","content":"a"}}]}',
    "an earlier delta": b'{%b,"choices":[{"index":0,"delta":{"content":"$"},"delta":{"content":"a"}}]}',
    "earlier choices": b'{%b,"choices":[{"index":0,"delta":{"content":"$"}}],"choices":[{"index":0,"delta":{"content":"a"}}]}',
    "a key that ends like it": b'{%b,"choices":[{"index":0,"delta":{"x\\"content":"$","content":"a"}}]}',
    "a text beside it": b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning":"$"}}]}',
}


@each_case("template", LOOKALIKES.values(), ids=LOOKALIKES)
@each_case("learned", ["a", "b", "longer", *PROBES])
def test_what_looks_like_the_content_and_is_not(template: bytes, learned: str) -> None:
    """Was once wrong: with the text that is tried as content, an unknown field's text was taken for it."""
    for content in ("a", *PROBES):
        folded = Folded()
        folded.take(said("first"))
        kind = template.replace(b'"a"', b'"%b"' % content.encode()) % PLAIN_HEAD
        for text in [learned] * 5 + ["x", *PROBES, "z"]:
            folded.take(kind.replace(b"$", text.encode()))


@pytest.mark.parametrize(
    "kind",
    [
        b'{%b,"choices":[{"index":0,"delta":{"content":"value 0"}}],"x":"$"}',
        b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning_details":[{"x":["b"],"text":"$"}]}}]}',
        b'{%b,"choices":[{"index":0,"delta":{"content":"a","reasoning_details":["$"]}}]}',
    ],
)
def test_what_cannot_be_told_apart_is_read(kind: bytes) -> None:
    folded = Folded()
    folded.take(said("first"))
    assert not any(folded.take(kind.replace(b"%b", PLAIN_HEAD).replace(b"$", b"%d" % place)) for place in range(50))


# How often it takes what, and what it costs where it does not


def validations(monkeypatch: pytest.MonkeyPatch, body: bytes) -> int:
    """How many events' JSON is read to fold a body."""
    count = 0

    def counted(data: bytes) -> Any:
        nonlocal count
        count += 1
        return chunk_from_json(data)

    with monkeypatch.context() as patch:
        for module in (chunkfold.parser.event_folder, chunkfold.wire.payload):
            patch.setattr(module, "chunk_from_json", counted)
        parser = ChatCompletionParser()
        parser.fold(body)
        parser.close()
    expected = ChatCompletionParser()
    expected.feed(body)
    expected.close()
    assert (parser.end, dumped(parser.snapshot)) == (expected.end, dumped(expected.snapshot))
    return count


def numbered(count: int, data: Callable[[int], bytes]) -> bytes:
    return FIRST + b"".join(b"data: " + data(number) + b"\n\n" for number in range(count)) + STOP + DONE


def spaced(value: bytes) -> bytes:
    return value.replace(b'":', b'": ').replace(b',"', b', "')


STEADY: dict[str, Callable[[int], bytes]] = {
    "as OpenAI writes": lambda n: said(f" word{n}"),
    "with blanks": lambda n: said(f" word{n}", spaced(BEFORE), spaced(BEHIND)),
    "the content first": lambda n: b'{"choices":[{"delta":{"content":"%d"},"index":0}],%b}' % (n, PLAIN_HEAD),
    "null beside it": lambda n: said(str(n), behind=b'"},"logprobs":null,"finish_reason":null}],"usage":null}'),
    "other letters": lambda n: said("号😀" * (n % 5)),
}


@pytest.mark.parametrize("kind", STEADY)
def test_plain_text_is_hardly_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The first chunk, one to learn from, and that with a text of our own; finish reason and [DONE].
    assert 4 <= validations(monkeypatch, numbered(2000, STEADY[kind])) <= 10


AFTER: dict[str, bytes] = {
    "an escape": b"data: " + said(b"\\n") + b"\n\n",
    "a keep-alive": b": ping\n\n",
    "blank data": event(""),
    "reasoning": delta(reasoning_content="hm"),
    "a tool call": delta(tool_calls=[fragment(0, "call_a", "f", "{}")]),
    "usage": chunk(usage={"prompt_tokens": 1}),
    "usage beside a text": chunk(A, usage={"prompt_tokens": 1}),
    "another head for one event": chunk(A, service_tier="flex"),
    "an empty choice list": chunk(),
}


@pytest.mark.parametrize("name", AFTER)
def test_plain_text_is_hardly_read_behind_something_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong, with another head: what was learned is not used any more, and nothing else is learned."""
    text = b"".join(b"data: " + said(f" word{number}") + b"\n\n" for number in range(500))
    assert validations(monkeypatch, FIRST + text + AFTER[name] + text + STOP + DONE) <= 20


def test_a_change_now_and_then_is_learned_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints = [b'"m","system_fingerprint":"fp%d"' % number for number in range(20)]
    befores = [BEFORE.replace(b'"m"', fingerprint) for fingerprint in fingerprints]
    body = numbered(20 * 100, lambda number: said(f" word{number}", befores[number // 100]))
    assert validations(monkeypatch, body) <= 20 * 8


@pytest.mark.parametrize("length", [100, 200])
def test_reasoning_and_text_by_turns_are_hardly_read(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Was once wrong: the key, which is another one there, was taken for a value that changes."""
    befores = (BEFORE.replace(b"content", b"reasoning"), BEFORE)
    body = numbered(20 * length, lambda number: said(f" word{number}", befores[number // length % 2]))
    assert validations(monkeypatch, body) <= 20 * 8


CHANGING: dict[str, Callable[[int], bytes]] = {
    "obfuscation": lambda n: b'{%b,"choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"%d"}' % (PLAIN_HEAD, n),
    "a delta's id": lambda n: said("a", behind=b'","id":"%d"}}]}' % n),
    "usage": lambda n: said("a", behind=b'"}}],"usage":{"completion_tokens":%d}}' % (n + 1)),
    "reasoning": lambda n: b'{%b,"choices":[{"index":0,"delta":{"reasoning":"%d"}}]}' % (PLAIN_HEAD, n),
    "two spellings of reasoning": lambda n: said(str(n), THOUGHT, b'","reasoning_details":[{"type":"reasoning.text","text":"%d"}]}}]}' % n),
    "arguments": lambda n: b'{%b,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%d"}}]}}]}' % (PLAIN_HEAD, n),
    "several": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 3)), b'"}}],"usage":{"total_tokens":%d},"x":"%d"}' % (n, n)),
    "the time": lambda n: said(str(n), BEFORE.replace(CREATED, b"%d" % (n + 1))),
}  # fmt: skip
THOUGHT = BEFORE.replace(b"content", b"reasoning")


@pytest.mark.parametrize("kind", CHANGING)
def test_values_that_change_are_hardly_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 4 <= validations(monkeypatch, numbered(2000, CHANGING[kind])) <= 25


UNSTEADY: dict[str, Callable[[int], bytes]] = {
    "the id": lambda n: said("a", BEFORE.replace(ID, b"c%d" % n)),
    "a number with a point": lambda n: said("a", behind=b'"}}],"x":%d.5}' % n),
    "a key": lambda n: said("a", behind=b'"}}],"x%d":1}' % n),
    "nothing but a list": lambda n: b'{%b,"choices":[{"index":0,"delta":{"content":["%d"]}}]}' % (PLAIN_HEAD, n),
    "an object of somebody's": lambda n: said("a", behind=b'"}}],"timings":{"n":%d}}' % n),
    "many values": lambda n: said("a", behind=b'"}}],"usage":{%b}}' % b",".join(b'"%c":%d' % (65 + m, n) for m in range(9))),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNSTEADY)
def test_learning_backs_off_where_it_does_not_help(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = (300, 1200)
    few, many = (validations(monkeypatch, numbered(count, UNSTEADY[kind])) - count for count in counts)
    assert 0 < few <= 30
    assert many - few <= 10


def test_learning_backs_off_also_behind_much_that_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = UNSTEADY["the id"]
    body = numbered(1200, lambda number: said(f" word{number}") if number < 100 else changing(number))
    assert 1100 < validations(monkeypatch, body) <= 1100 + 50


TURNS: dict[str, Callable[[int], bytes]] = {
    "two choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 2))),
    "three choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 3))),
    "fifty choices": lambda n: said(str(n), BEFORE.replace(b'"index":0', b'"index":%d' % (n % 50))),
    "texts and escapes": lambda n: said(["a", "\\n"][n % 2]),
    "obfuscation every other time": lambda n: said(str(n), behind=BEHIND if n % 2 else b'"}}],"x":"%d"}' % n),
    "a tool call every other time": lambda n: (
        said(str(n))
        if n % 2
        else b'{%b,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}'
        % PLAIN_HEAD
    ),
}


@pytest.mark.parametrize("kind", TURNS)
def test_taking_turns_costs_no_more_than_reading_each(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other event may be learned from in vain: one reading more for it, at most."""
    assert 0 < validations(monkeypatch, numbered(1000, TURNS[kind])) <= 1.5 * 1000 + 10
