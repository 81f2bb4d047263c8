"""The short ways through the fold lead to where the long way leads.

`fold` makes no chunks, `read` hands none out, a text is folded without reading its JSON again, the usual chunk passes
by the table of rules: none of this may show in anything but time. See also `test_template` and `test_large_reads`.
"""

import itertools
import json
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given
from hypothesis import strategies as st
from invariants.holding import plain
from made_streams import STOP
from repeating_bodies import (
    BLOCKS,
    BODIES,
    CHOICES,
    FIRST,
    HEADS,
    HELLO,
    LAYOUTS,
    NO_OPTIONS,
    OPTIONS,
    PLAIN_HEAD,
    PROBES,
    READS,
    SIZES,
    A,
    Read,
    Result,
    each_event,
    each_validated,
    filled,
    parsed,
    shown,
    slices_of,
    stretch,
)

from chunkfold import EventStreamDecoder, ServerSentEvent, parse_payload
from chunkfold.events.recorder import EventRecorder
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import (
    DONE,
    HEAD,
    HostileStream,
    choice,
    chunk,
    delta,
    event,
    fragment,
    fragments,
    hostile_streams,
)
from chunkfold.wire.envelopes import is_only_chunk
from chunkfold.wire.payload import valid_chunk

# `fold` is `feed`


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
    options = {**NO_OPTIONS, **options}
    mixed = [read._replace(is_folded=number % 3 > 0) for number, read in enumerate(each_event(body))]
    for reads, ways in ((mixed, (False, True, None)), ([Read(body, 1.0, False)], (False, True))):
        with each_validated():
            fed = parsed(reads, False, options)
        for folded in ways:
            assert parsed(reads, folded, options) == fed


def of_kind(choices: bytes, *texts: bytes, head: bytes = PLAIN_HEAD) -> bytes:
    return stretch(head, choices, LAYOUTS[0], BLOCKS[0], list(texts))


def test_half_a_pair_stands_before_the_text_behind_it() -> None:
    assert_the_same(FIRST + HELLO * 3 + delta(content="\ud83d") + HELLO * 2 + STOP + DONE)
    assert_the_same(FIRST + HELLO * 3 + delta(content="\ud83d", index=1) + HELLO * 2 + STOP + DONE)
    assert_the_same(FIRST + delta(content="\ud83d") + delta(content="a\ude00") + HELLO * 3 + STOP + DONE)


# The key that a field stands before, and the field with one value and with another.
IN_TURNS = {
    "an unknown key": (b'"choices"', b'"x": 1', b'"x": 2'),
    "an unknown key of the choice": (b'"delta"', b'"x": 1', b'"x": 2'),
    "usage": (b'"choices"', b'"usage": {"completion_tokens": 5}', b'"usage": {"completion_tokens": 6}'),
    "usage of zero": (b'"choices"', b'"usage": {"completion_tokens": 0}', b'"usage": {"completion_tokens": 6}'),
    "a service tier": (b'"choices"', b'"service_tier": "default"', b'"service_tier": "flex"'),
    "a fingerprint": (b'"choices"', b'"system_fingerprint": "a"', b'"system_fingerprint": "b"'),
}


# Was once wrong: what was learned beside an unknown key or usage says them anew, but only the text was folded.
@pytest.mark.parametrize("name", IN_TURNS)
def test_what_stands_beside_a_text_is_said_anew(name: str) -> None:
    """Of two values the last one that came counts, also if it had come before."""
    place, *fields = IN_TURNS[name]
    one, other = (HELLO.replace(place, field + b", " + place) for field in fields)
    assert_the_same(FIRST + one * 5 + other + one + STOP + DONE)
    assert_the_same(FIRST + one * 5 + other + one * 20 + other * 3 + one * 3 + STOP + DONE)
    assert_the_same(FIRST + other + one * 5)


def test_where_an_anomaly_of_the_end_stands() -> None:
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
    """Each under an eighth of the heads, by turns; in `test_fold_is_feed` they meet by chance."""
    texts = (b"a", b"", *map(str.encode, PROBES), b"b", b"", "é".encode(), b"\\n", b"c")
    for head in [PLAIN_HEAD, *HEADS[6 + KINDS.index(kind) % 8 :: 8]]:
        reads = each_event(FIRST + of_kind(kind, *texts, head=head) + HELLO * 2 + STOP + DONE)
        fed = parsed(reads, False, NO_OPTIONS)
        assert parsed(reads, True, NO_OPTIONS) == fed, head
        assert parsed(reads, False, {**NO_OPTIONS, "is_watched": True})._replace(seen=[]) == fed, head
    assert_the_same(delta(role="assistant") + of_kind(kind, *texts[:3]))


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
    size = 1 + len(stream.body) // 25
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


@given(BODIES)
@example(delta(role="assistant") + delta(content="") + STOP)
@example(2 * chunk(choice(content="a"), object="text_completion"))
def test_adding_the_usual_chunk_is_adding_a_chunk(body: bytes) -> None:
    events = EventStreamDecoder().feed(body)
    assert folded_chunks(events, usual=True)[0] == folded_chunks(events, usual=False)[0]


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
        *({"arguments": value} for value in ("x", "", None, {"y": 1}, {})),
        *({"arguments": "x", "name": name} for name in (None, "", "f", "other")),
        {"arguments": "x", "strict": True},
        {},
    ]
    around: list[dict[str, Any]] = [
        {},
        *({"type": value} for value in ("function", "", None)),
        *({"id": value} for value in (None, "", "a", "b")),
        {"x": 1},
        *({"custom": value} for value in (None, {"input": "z"})),
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
        short, long = (
            parsed([Read(fragments(*each), 1.0, False)], False, NO_OPTIONS)
            for each in (fed, [*map(with_everything, fed)])
        )
        assert calls_of(short) == calls_of(long), one
        short_rules, long_rules = ([(one.rule.id, one.count) for one in each.anomalies] for each in (short, long))
        assert short_rules == long_rules, fed


UNREAD = "an unknown key, so that nothing takes the short way"


def with_everything(fragment: dict[str, Any]) -> dict[str, Any]:
    function = fragment.get("function")
    return {**fragment, UNREAD: 1, **({} if function is None else {"function": {**function, UNREAD: 1}})}


def calls_of(result: Result) -> list[Any]:
    calls = json.loads(result.snapshot)["choices"][0]["message"]["tool_calls"]
    return json.loads(json.dumps(calls), object_hook=lambda value: {key: value[key] for key in value if key != UNREAD})
