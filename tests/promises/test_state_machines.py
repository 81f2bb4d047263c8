"""The calls of a parser in any order: bytes of any kind between them, and after each call a model to compare with.

It is held to another parser that gets all its bytes at once. So whatever was called before, what can be seen is what the
bytes so far mean. The layers below have less to be called: `test_event_stream` holds the decoder, in any cut, to the
standard written out plainly, and `invariants` fold all chunks anew.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from invariants.events import check_events
from invariants.holding import plain
from invariants.readings import Options, Reading, check_running, has_output
from invariants.values import check_completion, check_error
from made_streams import ERROR, EVENTS, STOP

from chunkfold import (
    Anomaly,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChatCompletionParser,
    ChunkfoldError,
    StreamEnd,
    StreamStalledError,
    ThinkTags,
)
from chunkfold.testing import DONE, HEAD, ManualClock, choice, chunk, cut, delta, event

BOM = b"\xef\xbb\xbf"
LINES = st.sampled_from(
    [
        *(b"data: a", b"data:", b"data", b"data: \xe5\x8f", b"\xb7", b"event: x", b"event: error", b"id: 1", b"id: \0"),
        *(b"retry: 5", b"retry: x", b"error: {}", b'error: {"code":500}', b": hi", b"foo: bar", b"dat", b"", b"", b"<p>"),
        *(b"event: x\r\ndata: a", b"data: a\r\ndata: b", b"data: [DONE]", b"data: null", b'data: {"choices":'),
        *(b"data: []}", b"data: :", b"{}", BOM, BOM[:2]),
    ]
)  # fmt: skip
LINE_ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b""])
SNIPPETS = st.builds(lambda line, end: line + end, LINES, LINE_ENDS) | st.binary(max_size=4)
BARE = {"object": HEAD["object"], "choices": [choice("stop", content="a")]}
CALL = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
ENDINGS = [
    *(DONE, STOP, ERROR, event(BARE), event("oops"), delta("tool_calls", tool_calls=[CALL])),
    chunk({"index": 0, "message": {"role": "assistant", "content": "a", "tool_calls": [CALL]}}),
]
ODD = [
    *(delta(content="\ud83d"), delta(content="\ude00"), delta(content="a").replace(b"\n", b"\r")),
    *(delta(content="a").replace(b"\n", b"\r\n"), delta(content="word " * 20), b"data:\ndata: a\n\n", b"data:\n\n"),
    delta(tool_calls=[{**CALL, "id": "\ud83d", "function": {"name": "f", "arguments": "\ud83d"}}]),
]


@st.composite
def whole_events(draw: st.DrawFn, most: int = 5) -> bytes:
    """Whole events; now and then one that ends the stream, or an odd one."""
    events = st.lists(EVENTS | EVENTS | st.sampled_from(ODD), min_size=1, max_size=most)
    return b"".join(draw(events)) + (draw(st.sampled_from(ENDINGS)) if draw(st.integers(0, 9)) == 9 else b"")


def mutated(body: bytes, place: int, removed: int, inserted: bytes) -> bytes:
    place %= len(body) + 1
    return body[:place] + inserted + body[place + removed :]


@st.composite
def garbage(draw: st.DrawFn) -> bytes:
    """What nobody means to send, or what something on the way made of an event."""
    if draw(st.booleans()):
        return b"".join(draw(st.lists(SNIPPETS, max_size=8)))
    edit = (draw(st.integers(0, 400)), draw(st.integers(0, 9)), draw(st.binary(max_size=3)))
    return mutated(draw(whole_events(2)), *edit)


# As they stand in JSON, well escaped or not.
RAW_WORDS = [b"a", b"a", b"b c", b"\xe5\x8f\xb7", b'\\"', b'"', b"\\ud83d", b"\\ude00", b"\t", b"\xff", b"\xe2\x80\xa8"]
CUTS = st.lists(st.integers(0, 400), max_size=3)
NO_LIMIT = st.none() | st.none() | st.none() | st.none()
KINDS: Any = st.sampled_from([bytes, bytearray, memoryview])


def pieces_of(body: bytes, cuts: list[int]) -> list[bytes]:
    return cut(body, *(place % (len(body) + 1) for place in cuts))


# The parser


def interrupt(parser: ChatCompletionParser) -> object:
    return parser.interrupt(ConnectionError("reset"))


ENDS: Any = st.sampled_from([ChatCompletionParser.close, interrupt, ChatCompletionParser.leave])


class ParserMachine(RuleBasedStateMachine):
    """A parser beside another one that is made anew and gets all the bytes so far at once, and the same end."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.reads: list[tuple[bytes, float]] = []
        self.finish: Callable[[ChatCompletionParser], object] | None = None
        self.known = 0  # chunks
        self.events: list[ChatCompletionEvent] = []
        self.snapshots: list[tuple[ChatCompletion, str]] = []
        self.last_anomalies: tuple[Anomaly, ...] = ()
        self.final: tuple[Any, ...] | None = None

    @initialize(
        strict=st.sampled_from([False] * 5 + [True]),
        max_event_size=NO_LIMIT | st.integers(0, 400),
        max_output_size=NO_LIMIT | st.integers(0, 40),
        progress_timeout=NO_LIMIT | st.integers(0, 5),
        total_timeout=NO_LIMIT | st.integers(0, 20),
        transformed=st.sampled_from([False, False, True]),
    )
    def begin(self, transformed: bool, **options: Any) -> None:
        self.options = options
        self.transformed = transformed
        self.parser = self.fresh()

    def fresh(self) -> ChatCompletionParser:
        transforms = [ThinkTags()] if self.transformed else []
        return ChatCompletionParser(clock=self.clock, started=0.0, transforms=transforms, **self.options)

    def expected(self) -> tuple[ChatCompletionParser, list[str]]:
        """What a parser comes to that reads it all anew: at once, where it does not matter when what came."""
        parser = self.fresh()
        chunks: list[ChatCompletionChunk] = []
        if self.options["progress_timeout"] is None and self.options["total_timeout"] is None:
            chunks += parser.feed(b"".join(body for body, _ in self.reads))
        else:
            for body, arrived in self.reads:
                chunks += parser.feed(body, arrived=arrived)
        if self.finish is not None:
            last = self.finish(parser)
            chunks += last if isinstance(last, list) else []
        return parser, [plain(chunk) for chunk in chunks]

    def hand_out(self, chunks: list[ChatCompletionChunk] | None) -> None:
        """What came of a call, and what had to come."""
        _, expected = self.expected()
        if chunks is not None:
            assert [plain(chunk) for chunk in chunks] == expected[self.known :]
        self.known = len(expected)

    def read(self, pieces: list[bytes], kind: Callable[[bytes], bytes], is_folded: bool) -> None:
        for piece in pieces:
            if self.parser.end is None:
                self.reads.append((piece, self.clock()))
            if is_folded:
                self.parser.fold(kind(piece))
                self.hand_out(None)
            else:
                self.hand_out(self.parser.feed(kind(piece)))

    @rule(body=whole_events(), cuts=CUTS, kind=KINDS)
    def feed(self, body: bytes, cuts: list[int], kind: Callable[[bytes], bytes]) -> None:
        self.read(pieces_of(body, cuts), kind, is_folded=False)

    @rule(body=whole_events(), cuts=CUTS, kind=KINDS)
    def fold(self, body: bytes, cuts: list[int], kind: Callable[[bytes], bytes]) -> None:
        self.read(pieces_of(body, cuts), kind, is_folded=True)

    # Garbage has a rule of its own: hypothesis leaves out some rules in each run, and few streams survive garbage.
    @rule(body=garbage(), cuts=CUTS, is_folded=st.booleans())
    def read_garbage(self, body: bytes, cuts: list[int], is_folded: bool) -> None:
        self.read(pieces_of(body, cuts), bytes, is_folded)

    @rule(words=st.lists(st.sampled_from(RAW_WORDS), min_size=4, max_size=10))
    def fold_much_text(self, words: list[bytes]) -> None:
        """Enough of it that folding takes the short way."""
        self.read([delta(content="<word>").replace(b"<word>", word) for word in words], bytes, is_folded=True)

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: len(self.reads) > 2 or self.final)
    @rule(finish=ENDS)
    def end(self, finish: Callable[[ChatCompletionParser], object]) -> None:
        if self.parser.end is None:
            self.finish = finish
            chunks = finish(self.parser)
            self.hand_out(chunks if isinstance(chunks, list) else None)
        else:
            assert not finish(self.parser)

    @rule(with_events=st.booleans())
    def look(self, with_events: bool) -> None:
        """At all that there is to see."""
        parser = self.parser
        check_completion(parser.snapshot)
        self.snapshots.append((parser.snapshot, plain(parser.snapshot)))
        if with_events:
            self.events += parser.events()
            assert parser.events() == []
        if parser.end is None:
            check_running(parser)
        elif parser.end.complete:
            assert parser.completion() is parser.snapshot
            parser.raise_error()
        else:
            with pytest.raises(ChunkfoldError) as caught:
                parser.completion()
            check_error(caught.value)
            assert caught.value is parser.error or (parser.end is StreamEnd.CLOSED and parser.error is None)
            assert caught.value.snapshot is parser.snapshot

    @precondition(lambda self: hasattr(self, "parser") and self.parser.error is not None)
    @rule()
    def raise_the_error(self) -> None:
        with pytest.raises(ChunkfoldError) as caught:
            self.parser.raise_error()
        assert caught.value is self.parser.error

    @invariant()
    def it_is_what_the_bytes_mean(self) -> None:
        if not hasattr(self, "parser"):
            return
        parser, (expected, _) = self.parser, self.expected()
        assert parser.end is expected.end
        assert plain(parser.error) == plain(expected.error)
        assert plain(parser.snapshot) == plain(expected.snapshot)
        assert parser.anomalies == expected.anomalies
        assert has_output(parser) == has_output(expected)
        assert (parser.error is None) == (parser.end in {None, StreamEnd.CLOSED} or parser.end.complete)
        if self.options["strict"] and parser.end is not None and parser.end.complete:
            assert parser.anomalies == ()

    @invariant()
    def anomalies_are_never_taken_back(self) -> None:
        if not hasattr(self, "parser"):
            return
        anomalies = self.parser.anomalies
        before = [(one.rule, one.offset, one.detail) for one in self.last_anomalies]
        assert [(one.rule, one.offset, one.detail) for one in anomalies[: len(before)]] == before
        assert all(new.count >= old.count for new, old in zip(anomalies, self.last_anomalies, strict=False))
        self.last_anomalies = anomalies

    @invariant()
    def the_end_is_the_end(self) -> None:
        if not hasattr(self, "parser") or self.parser.end is None:
            return
        parser = self.parser
        state = (parser.end, parser.error, parser.snapshot, parser.anomalies)  # events may still be emitted
        if self.final is not None:
            assert all(new is old or new == old for new, old in zip(state, self.final, strict=True))
        self.final = state

    @invariant()
    def deadlines_hold(self) -> None:
        if not hasattr(self, "parser") or not self.reads:
            return
        total = self.options["total_timeout"]
        if self.parser.end is None and total is not None:
            assert self.reads[-1][1] <= total
        if isinstance(self.parser.error, StreamStalledError):
            assert self.parser.end is StreamEnd.STALLED
            assert total is not None or self.options["progress_timeout"] is not None

    def teardown(self) -> None:
        for snapshot, shown in self.snapshots:
            assert plain(snapshot) == shown
        if hasattr(self, "parser") and self.parser.end is not None:
            self.events += self.parser.events()
            check_events(Reading(self.parser, Options(), events=self.events))


@pytest.mark.parametrize("examples", [4, pytest.param(48, marks=pytest.mark.slow)])
def test_calls_in_any_order(examples: int) -> None:
    # No deadline: the machine may be busy. Explaining a failure would take minutes.
    phases = [phase for phase in Phase if phase is not Phase.explain]
    often = settings(max_examples=examples, stateful_step_count=30, deadline=None, phases=phases)
    run_state_machine_as_test(ParserMachine, settings=often)
