"""Events that are folded many at a time give what they give one by one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chunkfold.parser.streamed_body
from chunkfold import ChatCompletionParser
from chunkfold.parser.limits import OutputLimit
from chunkfold.parser.template import EventTemplate
from chunkfold.testing import DONE, chunk, delta, event, fragment
from chunkfold.testing.wire import choice

ID = b'"id":"c1","object":"chat.completion.chunk","created":1760000000,"model":"m"'
FIRST = delta(role="assistant", content="", id="c1", model="m")


def sent(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def said(text: bytes, choice: int = 0, more: bytes = b"") -> bytes:
    content = b'"delta":{"content":"%b"},"logprobs":null,"finish_reason":null' % text
    return sent(b'{%b,"choices":[{"index":%d,%b}]%b}' % (ID, choice, content, more))


def padded(text: bytes) -> bytes:
    return said(text, more=b',"obfuscation":"%x"' % (7 * sum(text)))


def thought(text: bytes) -> bytes:
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":null,"reasoning_content":"%b"}}]}' % (ID, text))


def argued(text: bytes, call: bytes = b'"index":0') -> bytes:
    calls = b'[{%b,"function":{"arguments":"%b"}}]' % (call, text)
    return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b},"finish_reason":null}]}' % (ID, calls))


def argued_twice(text: bytes) -> bytes:
    calls = b'[{"index":0,"function":{"arguments":"%b"}},{"index":1,"function":{"arguments":"%b."}}]' % (text, text)
    return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b},"finish_reason":null}]}' % (ID, calls))


def named(text: bytes) -> bytes:
    return argued(text).replace(b'"arguments"', b'"name":"f","arguments"')


def counted(text: bytes, tokens: int) -> bytes:
    usage = b',"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}' % (tokens, tokens + 9)
    return said(text, more=usage)


def detailed(text: bytes) -> bytes:
    details = b'[{"type":"reasoning.text","index":0,"text":"%b"}]' % text
    fields = b'"content":"","reasoning":"%b","reasoning_details":%b' % (text, details)
    return sent(b'{%b,"choices":[{"index":0,"delta":{%b}}]}' % (ID, fields))


def in_turns(text: bytes) -> bytes:
    return said(text, sum(text) % 4)


@pytest.fixture(autouse=True, scope="module")
def _short_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunkfold.parser.streamed_body, "_LONG", 300)
        yield


def result_of(reads: list[bytes], take: Callable[[ChatCompletionParser, bytes], object], **options: Any) -> Any:
    parser = ChatCompletionParser(clock=lambda: 0.0, **options)
    for read in reads:
        take(parser, read)
    parser.close()
    error = parser.error and (type(parser.error).__name__, str(parser.error))
    kept = parser.snapshot.model_dump_json(exclude_unset=True)
    return kept, parser.anomalies, parser.chunks, parser.end, error, parser.snapshot.choices[:1]


def check(before: list[bytes], run: list[bytes], **options: Any) -> int:
    """A run after other events is the same as these events fed; return how many of its bytes were folded at once."""
    folded = 0
    take_run = EventTemplate.take_run

    def watched(self: EventTemplate, data: bytes, offset: int) -> int:
        nonlocal folded
        size = take_run(self, data, offset)
        folded += size
        return size

    fed = result_of([*before, *run], ChatCompletionParser.feed, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventTemplate, "take_run", watched)
        assert result_of([*before, b"".join(run)], ChatCompletionParser.fold, **options) == fed
    return folded


WORDS = [
    b"Hel",
    b"lo",
    b"",
    b" there",
    "é号 😀".encode(),
    b"\\n\\u00e9\\\\",
    b"\\ud83d\\ude00",
    b'\\"',
    b"]],[[",
    b",0,",
]
KINDS: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "text": (said, True),
    "text with padding": (padded, True),
    "reasoning": (thought, True),
    "arguments": (argued, True),
    "arguments of a call whose type is repeated": (lambda text: argued(text, b'"index":0,"type":"function"'), True),
    "arguments of two calls": (argued_twice, True),
    "four choices": (in_turns, True),
    "details": (detailed, False),
    "arguments of a call whose name is repeated": (named, False),
    "arguments of a call with a field of its own": (lambda text: argued(text, b'"index":0,"x":"y"'), False),
}


def opened(kind: Callable[[bytes], bytes]) -> list[bytes]:
    """What comes before a run: what opens choices and a call, and enough to learn from."""
    calls = [fragment(place, f"call_{place}", "f", "") for place in range(2 if kind is argued_twice else 1)]
    call = chunk(choice(tool_calls=calls), id="c1", model="m")
    others = [said(b"", place) for place in range(1, 4)] if kind is in_turns else []
    learned = [
        in_turns(b"word %c" % (65 + place)) if kind is in_turns else kind(b"word %d" % place) for place in range(24)
    ]
    return [FIRST, *others, call, *learned]


@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_its_events(name: str) -> None:
    kind, is_run = KINDS[name]
    run = [kind(word) for word in WORDS * 3]
    folded = check(opened(kind), run)
    assert (folded > len(b"".join(run)) / 2) is is_run


@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_its_events_for_who_takes_events(name: str) -> None:
    kind, _ = KINDS[name]
    before, run = opened(kind), [kind(word) for word in WORDS]
    parsers = [ChatCompletionParser(clock=lambda: 0.0) for _ in range(2)]
    events: list[list[Any]] = [parser.events() for parser in parsers]
    for parser, got, reads in zip(parsers, events, ([*before, *run], [*before, b"".join(run)]), strict=True):
        for read in reads:
            parser.fold(read)
            got.extend(parser.events())
    assert [str(one) for one in events[0]] == [str(one) for one in events[1]]


def test_in_a_run_each_event_counts_as_one() -> None:
    """Its chunks, what is odd about each of them, and the place of the last."""
    empty = [one.replace(b'"created":1760000000', b'"created":0') for one in map(said, WORDS * 3)]
    before = [one.replace(b'"created":1760000000', b'"created":0') for one in opened(said)]
    assert check(before, empty)
    assert check(opened(said), [*map(said, WORDS * 3), sent(b'{"choices":null}')])


# What is in the middle of a run, by what it is
ODD = {
    "a finish reason": said(b"a").replace(b'"finish_reason":null', b'"finish_reason":"stop"'),
    "a key between": said(b'a","refusal":"b'),
    "two values": said(b'a","b'),
    "two values and a number": said(b'a",0,"b'),
    "an end of a list": said(b'a"],["b'),
    "no value": said(b"a").replace(b'"a"', b""),
    "a number": said(b"a").replace(b'"a"', b"5"),
    "null": said(b"a").replace(b'"a"', b"null"),
    "a list": said(b"a").replace(b'"a"', b'["a"]'),
    "half of a character": said(b"\\ud83d"),
    "its other half": said(b"\\ude00"),
    "a tab": said(b"a\tb"),
    "no UTF-8": said(b"a\xff"),
    "an open string": said(b"a\\"),
    "a carriage return": said(b"a").replace(b"\n\n", b"\r\n\r\n"),
    "another end of line": said(b"a").replace(b"\n\n", b"\n\r\n"),
    "a comment": b": ping\n\n",
    "a comment in a block": b": ping\n" + said(b"a"),
    "an event of another name": b"event: ping\n" + said(b"a"),
    "an id": b"id: 5\n" + said(b"a"),
    "an error": event({"error": {"message": "overloaded"}}),
    "no JSON": event("garbage"),
    "another head": said(b"a").replace(b'"m"', b'"other"'),
    "another choice": said(b"a", 7),
    "usage": counted(b"a", 5),
    "what ends like the others": sent(b'{"x":"' + said(b"a")[20:-2]),
    "the end": DONE,
    "blank lines": b"\n\n\n",
    "data on two lines": b"data: {\ndata: }\n\n",
    "no blank before the value": said(b"a").replace(b"data: ", b"data:"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", ["text", "text with padding", "four choices"])
def test_what_is_not_like_the_others_is_read(name: str, kind: str) -> None:
    of, _ = KINDS[kind]
    before, words = opened(of), [of(word) for word in WORDS]
    for place in (0, 1, len(words) - 1, len(words)):
        check(before, [*words[:place], ODD[name], *words[place:]])


EVENTS = [*ODD.values(), *map(said, WORDS), *map(padded, WORDS), *map(in_turns, WORDS), *map(thought, WORDS)]


@given(st.sampled_from(sorted(KINDS)), st.lists(st.sampled_from(EVENTS), max_size=8), st.data())
def test_any_events_in_one_read(name: str, others: list[bytes], data: st.DataObject) -> None:
    of, _ = KINDS[name]
    run = [*(of(word) for word in WORDS), *others]
    check(opened(of), data.draw(st.permutations(run)))


# Two values that change: what stands between them must stand there


def two(first: bytes, second: bytes, between: bytes = b',"refusal":') -> bytes:
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":%b%b%b}}]}' % (ID, first, between, second))


@pytest.mark.parametrize(
    "odd",
    [
        two(b'"a"', b'"b"', b',"reasoning":'),
        two(b'"a",0,"b"', b"", b""),
        two(b'"a",1,"b"', b"", b""),
        two(b'"a","refusal":"b"', b'"c"'),
        two(b'"a"', b'"b","refusal":"c"'),
        two(b'"a","refusal":1', b"1"),
        two(b'"a"', b"", b""),
        two(b"1", b"2"),
        two(b'"a"', b'",\\"refusal\\":"'),
    ],
)
def test_what_is_between_two_values_is_looked_at(odd: bytes) -> None:
    before = [FIRST, *(two(b'"word %d"' % place, b'"no %d"' % place) for place in range(9))]
    usual = [two(b'"one"', b'"two"'), two(b'"three"', b'""')]
    for place in range(3):
        check(before, [*usual[:place], odd, *usual[place:]])


def test_values_in_another_order_are_read() -> None:
    def three(keys: list[bytes], words: list[bytes]) -> bytes:
        fields = b",".join(b'"%b":"%b"' % pair for pair in zip(keys, words, strict=True))
        return sent(b'{%b,"choices":[{"index":0,"delta":{%b}}]}' % (ID, fields))

    keys = [b"content", b"refusal", b"reasoning"]
    before = [FIRST, *(three(keys, [b"a%d" % place, b"b%d" % place, b"c%d" % place]) for place in range(12))]
    check(before, [three(keys, [b"a", b"b", b"c"]), three([keys[0], keys[2], keys[1]], [b"d", b"e", b"f"])])


def test_calls_by_turns_each_get_their_own() -> None:
    def argued_behind(text: bytes, call: int) -> bytes:
        calls = b'[{"function":{"arguments":"%b"},"index":%d}]' % (text, call)
        return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b}}]}' % (ID, calls))

    first = [chunk(choice(tool_calls=[fragment(place, f"call_{place}", "f", "")]), id="c1", model="m") for place in range(2)]  # fmt: skip
    before = [FIRST, *first, *(argued_behind(b"%d" % place, place % 2) for place in range(12))]
    assert check(before, [argued_behind(word, place % 2) for place, word in enumerate(WORDS)])


@pytest.mark.parametrize("size", [1, 100, 200])
def test_the_last_event_is_cut(size: int) -> None:
    words = [said(word) for word in WORDS]
    assert check(opened(said), [*words, said(b"cut")[:size]])
    check([*opened(said), said(b"cut")[:size]], [said(b"cut")[size:], *words])
    nameless = [one.replace(b'"c1"', b"null") for one in (*opened(said), said(b"c" * 2_000)[:1_000])]
    check(nameless[:-1], nameless[-1:])


@pytest.mark.parametrize("pieces", [["{}", "{", "}"], ["", "{", "}", "{}"], ["{}", " ", "{}"], ["{} {}"], ["{", "}{}"]])
def test_a_placeholder_is_noted_where_it_is(pieces: list[str]) -> None:
    before = [*opened(argued), chunk(choice(tool_calls=[fragment(0, "call_2", "g", "")]), id="c1", model="m")]
    assert check(before, [argued(piece.encode()) for piece in ("", *pieces, *("x" for _ in range(9)))])


def test_the_same_word_of_each_choice() -> None:
    before = [said(b"same", place % 4) for place in range(24)]
    assert check(before, [said(b"same", place % 4) for place in (0, 0, 1, 2, 3, 1)])


@pytest.mark.parametrize("tokens", [5, 10**17, 10**18, 2**63, 10**30, -5, 0])
def test_large_numbers_are_read(tokens: int) -> None:
    before = [FIRST, *(counted(b"word %d" % place, place) for place in range(12))]
    check(before, [counted(b"a", 20), counted(b"b", tokens), counted(b"c", 21)])
    check(before, [counted(b"a", tokens), *(counted(b"b", 20) for _ in range(4))])


# Limits end a stream at the same event


@pytest.mark.parametrize("most", [0, 10, 60, 100, 101, 200, 5_000])
def test_a_limit_on_the_output_is_passed_at_the_same_event(most: int) -> None:
    check(opened(said), [said(b"word") for _ in range(2_000)], max_output_size=most)


@pytest.mark.parametrize("most", [10, 200, 300, 10_000])
def test_a_limit_on_an_event_holds_in_a_run(most: int) -> None:
    run = [*(said(b"word") for _ in range(9)), said(b"w" * 150), said(b"word")]
    check(opened(said), run, max_event_size=most)


def test_half_of_a_character_that_is_held_comes_before_a_run() -> None:
    before = [*opened(said), said(b"\\ud83d")]
    assert check(before, [said(word) for word in WORDS]) == 0
    check(before, [said(b"\\ude00"), *(said(word) for word in WORDS)])


def test_what_a_run_keeps_besides_text_counts_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_by: dict[str, list[bytes]] = {}
    take = OutputLimit.take
    run = [detailed(word) for word in WORDS]
    for name, reads in (("feed", run), ("fold", [b"".join(run)])):
        seen = counted_by[name] = []

        def watched(self: OutputLimit, data: bytes, seen: list[bytes] = seen) -> None:
            seen.append(data)
            take(self, data)

        monkeypatch.setattr(OutputLimit, "take", watched)
        result_of([*opened(detailed), *reads], getattr(ChatCompletionParser, name))
    assert counted_by["feed"] == counted_by["fold"]


@pytest.mark.parametrize("options", [{"strict": True}, {"on_server_sent_event": lambda event, chunks: None}])
def test_who_looks_at_each_event_gets_each(options: dict[str, Any]) -> None:
    assert check(opened(said), [said(word) for word in WORDS], **options) == 0
