"""Events that are folded many at a time give what they give one by one."""

import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from short_inputs import short_runs

from chunkfold import ChatCompletionChunk, ChatCompletionParser, ImageReceived
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models.base import Model
from chunkfold.parser.streamed_body import StreamedBody
from chunkfold.parser.template import EventTemplate
from chunkfold.testing import DONE, chunk, event, fragment
from chunkfold.testing.wire import choice

ID = b'"id":"c1","object":"chat.completion.chunk","created":1760000000,"model":"m"'
FIRST = chunk(choice(role="assistant", content=""), id="c1", model="m")


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


def summarised(text: bytes) -> bytes:
    return detailed(text).replace(b'"reasoning.text","index":0,"text"', b'"reasoning.summary","index":0,"summary"')


def in_turns(text: bytes) -> bytes:
    return said(text, sum(text) % 4)


def at(seconds: int, event: bytes) -> bytes:
    return event.replace(b'"created":1760000000', b'"created":%d' % seconds)


@pytest.fixture(autouse=True, scope="module")
def _short_runs() -> Iterator[None]:
    with short_runs():
        yield


def result_of(reads: list[bytes], take: Callable[[ChatCompletionParser, bytes], Any], **options: Any) -> Any:
    parser = ChatCompletionParser(clock=lambda: 0.0, **options)
    chunks: list[ChatCompletionChunk] = []
    for read in reads:
        chunks += take(parser, read) or []
    chunks += parser.close()
    error = parser.error and (type(parser.error).__name__, str(parser.error))
    kept = parser.snapshot.model_dump_json(exclude_unset=True)
    result = kept, parser.anomalies, parser.chunks, parser.end, error, parser.snapshot.choices[:1]
    return result, [shown(chunk) for chunk in chunks]


class Shown(pickle.Pickler):
    """A chunk with the types of its values, and with what was sent of its fields, in any order."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Model):
            return NotImplemented
        return type(value), (vars(value), value.model_extra, sorted(value.model_fields_set), value.__pydantic_private__)


def shown(chunk: ChatCompletionChunk) -> bytes:
    written = io.BytesIO()
    pickler = Shown(written)
    pickler.fast = True  # a value that is there twice is written twice, whether it is the same object or not
    pickler.dump(chunk)
    return written.getvalue()


def read_each(patch: pytest.MonkeyPatch) -> None:
    """Validate each event on its own."""
    patch.setattr(EventTemplate, "fold_event", lambda *_: False)
    patch.setattr(EventTemplate, "fold_block", lambda *_: False)
    patch.setattr(EventTemplate, "fold_run", lambda *_: 0)


def framed_otherwise(events: list[bytes], field: bytes = b"data:") -> list[bytes]:
    """Lines that end with CRLF, and without a space after the field's name."""
    return [one.replace(b"data: ", field).replace(b"\n", b"\r\n") for one in events]


def check(before: list[bytes], run: list[bytes], **options: Any) -> int:
    """A run after other events is the same as these events, each validated; return how much of it was taken at once.

    Framed one way or another; what is returned is the lesser of the two.
    """
    taken = check_as_it_is(framed_otherwise(before), framed_otherwise(run), **options)
    return min(taken, check_as_it_is(before, run, **options))


def check_as_it_is(before: list[bytes], run: list[bytes], **options: Any) -> int:
    taken = 0
    fold_run = EventTemplate.fold_run

    def watched(*args: Any) -> int:
        nonlocal taken
        size = fold_run(*args)
        taken += size
        return size

    with pytest.MonkeyPatch.context() as patch:
        read_each(patch)
        expected, chunks = result_of([*before, *run], ChatCompletionParser.feed, **options)
    assert result_of([*before, *run], ChatCompletionParser.feed, **options) == (expected, chunks)
    assert result_of([*before, b"".join(run)], ChatCompletionParser.feed, **options) == (expected, chunks)
    cut = [piece for one in run for piece in (one[:9], one[9:])]
    assert result_of([*before, *cut], ChatCompletionParser.feed, **options) == (expected, chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventTemplate, "fold_run", watched)
        assert result_of([*before, b"".join(run)], ChatCompletionParser.fold, **options)[0] == expected
    return taken


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


def named_by(text: bytes) -> bytes:
    fields = b'"role":"assistant","content":"","reasoning":"%b"' % text
    return sent(b'{%b,"provider":"P","choices":[{"index":0,"delta":{%b},"seed":5}]}' % (ID, fields))


def filtered(text: bytes) -> bytes:
    kept = b'"content_filter_results":{"hate":{"filtered":false}}'
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":"%b"},%b}]}' % (ID, text, kept))


def with_tokens(text: bytes) -> bytes:
    fields = b'"token_id":%d,"content":"%b"' % (sum(text), text)
    return sent(b'{%b,"choices":[{"index":0,"text":"%b","delta":{%b}}]}' % (ID, text, fields))


def with_usage(text: bytes) -> bytes:
    return counted(text, 7 * sum(text) % 1000)


def counted_in_detail(text: bytes) -> bytes:
    """No count is 0."""
    tokens = 1 + sum(text)
    details = b'"completion_tokens_details":{"reasoning_tokens":%d},"prompt_tokens"' % tokens
    return counted(text, tokens).replace(b'"prompt_tokens"', details)


def apart(text: bytes) -> bytes:
    return detailed(text).replace(b'"reasoning":"', b'"reasoning":"another ')


def beside(fields: bytes) -> Callable[[bytes], bytes]:
    """Text with other fields in its delta, which may have it, too."""
    return lambda text: sent(
        b'{%b,"choices":[{"index":0,"delta":{"content":"%b",%b}}]}' % (ID, text, fields.replace(b"%", text))
    )


def in_list(*parts: bytes) -> Callable[[bytes], bytes]:
    """A content list with these parts, which may have the text."""
    content = b'"delta":{"content":[%b]}' % b",".join(parts)
    return lambda text: sent(b'{%b,"choices":[{"index":0,%b}]}' % (ID, content.replace(b"%", text)))


TEXT_PART = b'{"type":"text","text":"%"}'
THINKING_PART = b'{"type":"thinking","thinking":[{"type":"text","text":"%"}]}'
in_parts = in_list(THINKING_PART)

KINDS: dict[str, Callable[[bytes], bytes]] = {
    "text": said,
    "text with padding": padded,
    "text with usage": with_usage,
    "text with filter results": filtered,
    "text with tokens": with_tokens,
    "reasoning": thought,
    "reasoning with what is known": named_by,
    "arguments": argued,
    "arguments of a call whose type is repeated": lambda text: argued(text, b'"index":0,"type":"function"'),
    "arguments of two calls": argued_twice,
    "four choices": in_turns,
    "text by the second": lambda text: at(1 + sum(text) % 7, said(text)),
    "four choices with usage": lambda text: with_usage(text).replace(b'"index":0', b'"index":%d' % (sum(text) % 4)),
    "four choices with padding": lambda text: padded(text).replace(b'"index":0', b'"index":%d' % (sum(text) % 4)),
    "four choices with an unknown field": lambda text: said(text, sum(text) % 4, more=b',"x":"%b"' % text),
    "four choices by the second": lambda text: at(1 + sum(text) % 7, in_turns(text)),
    "arguments by the second": lambda text: at(1 + sum(text) % 7, argued(text)),
    "text with details of usage by the second": lambda text: at(1 + sum(text) % 7, counted_in_detail(text)),
    "text with usage by the second": lambda text: at(1 + sum(text) % 7, with_usage(text)),
    "details": detailed,
    "summaries": summarised,
    "summaries alone": lambda text: summarised(text).replace(b'"reasoning":"%b",' % text, b""),
    "summaries beside an empty text": lambda text: summarised(text).replace(b'"summary":', b'"text":"","summary":'),
    "summaries beside a text": lambda text: summarised(text).replace(b'"summary":', b'"text":"a","summary":'),
    "details that differ from the reasoning": apart,
    "arguments of a call whose name is repeated": named,
    "text beside a reasoning text": beside(b'"reasoning_text":"%"'),
    "text beside the same reasoning text": beside(b'"reasoning_text":"a"'),
    "text beside the same reasoning": beside(b'"reasoning":"a"'),
    "text beside its reasoning": beside(b'"reasoning":"%"'),
    "text beside a block": beside(b'"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%"}]'),
    "text beside the same block": beside(b'"reasoning_details":[{"type":"reasoning.text","index":0,"text":"a"}]'),
    "text beside provider fields": beside(b'"provider_specific_fields":{"thought_signatures":["a"]}'),
    "text beside two reasonings": beside(b'"reasoning":"%","reasoning_content":"%"'),
    "text beside a role": beside(b'"role":"user"'),
    "text beside a call": beside(b'"tool_calls":[{"index":0,"id":"call_0","function":{"name":"f","arguments":""}}]'),
    "text beside a refusal": beside(b'"refusal":"no"'),
    "text beside images": beside(b'"images":[{"type":"image_url","image_url":{"url":"a"}}]'),
    "text beside annotations": beside(b'"annotations":[{"type":"url_citation"}]'),
    "text beside a list": beside(b'"token_ids":[1]'),
    "arguments of a call with a field of its own": lambda text: argued(text, b'"index":0,"x":"y"'),
    "text beside an unknown field": beside(b'"x":"y"'),
    "text beside nulls": beside(b'"role":"assistant","tool_calls":null'),
    "text with a large number": lambda text: said(text, more=b',"x":300'),
    "text with a fraction": lambda text: said(text, more=b',"x":1.5'),
    "text parts": in_list(TEXT_PART),
    "text parts with a value of their own": in_list(b'{"type":"text","text":"%","x":"y"}'),
    "text parts and the same part": in_list(TEXT_PART, b'{"type":"text","text":"a"}'),
    "image parts": in_list(b'{"type":"image_url","image_url":"%"}'),
    "images beside text parts": in_list(TEXT_PART, b'{"type":"image_url","image_url":"a"}'),
    "thinking parts": in_parts,
    "thinking parts by the second": lambda text: at(1 + sum(text) % 7, in_parts(text)),
    "thinking parts of four choices": lambda text: in_parts(text).replace(
        b'"index":0', b'"index":%d' % (sum(text) % 4)
    ),
    "thinking parts with padding": lambda text: in_parts(text).replace(
        b'"choices"', b'"obfuscation":"%b","choices"' % text
    ),
    "thinking parts with details of usage": lambda text: counted_in_detail(text).replace(
        b'"content":"%b"' % text, b'"content":[%b]' % THINKING_PART.replace(b"%", text)
    ),
    "thinking parts with a signature": in_list(THINKING_PART.replace(b"]", b'],"signature":"s"')),
    "thinking parts with a flag": in_list(THINKING_PART.replace(b"]", b'],"closed":true')),
    "thinking parts with an item of another type": in_list(THINKING_PART.replace(b'"type":"text"', b'"type":"%"')),
    "thinking parts with a signed item": in_list(THINKING_PART.replace(b'"%"', b'"%","signature":"s"')),
    "text parts with citations": in_list(TEXT_PART.replace(b'"%"', b'"%","citations":[{"url":"a"}]')),
    "thinking parts with two items": in_list(THINKING_PART.replace(b"]", b',{"type":"text","text":"a"}]')),
    "thinking parts with a text": in_list(b'{"type":"thinking","thinking":"%"}'),
    "thinking and text parts": in_list(THINKING_PART, TEXT_PART),
    "thinking parts beside a reasoning": lambda text: in_parts(text).replace(
        b'"content"', b'"reasoning":"a","content"'
    ),
    "reasoning parts": in_list(b'{"type":"reasoning","summary":[{"type":"summary_text","text":"%"}]}'),
    "reasoning parts with two keys": in_list(b'{"type":"reasoning","summary":"%","text":"%"}'),
    "text parts with another key": in_list(b'{"type":"text","thinking":"%"}'),
    "text parts with a list of their own": lambda text: at(
        1 + sum(text) % 7, in_list(b'{"type":"text","x":["a"]}')(text)
    ),
    "text parts with a place": lambda text: in_list(b'{"type":"text","index":%d}' % sum(text))(text),
    "thinking parts with a signature alone": in_list(b'{"type":"thinking","signature":"%"}'),
    "thinking parts with a number": lambda text: in_list(THINKING_PART.replace(b'"%"', b"%d" % sum(text)))(text),
    "parts without a text": in_list(b'{"type":"thinking"}', TEXT_PART),
    "parts of changing types": in_list(b'{"type":"%","text":"%"}'),
    "four choices with an object": lambda text: in_turns(text).replace(b',"choices"', b',"x":{},"choices"'),
}


# What the fold would keep as it is, so that no chunk may be used again.
EACH_IS_READ = {"text beside images", "text beside annotations", "image parts", "images beside text parts"}
EACH_IS_READ |= {"parts of changing types"}


def opened(kind: Callable[[bytes], bytes]) -> list[bytes]:
    """What comes before a run: what opens choices and a call, and enough to learn from."""
    calls = [fragment(place, f"call_{place}", "f", "") for place in range(2 if kind is argued_twice else 1)]
    call = chunk(choice(tool_calls=calls), id="c1", model="m")
    others = [said(b"", place) for place in range(1, 4)] if kind is in_turns else []
    words = (
        [b"word %c" % (65 + place) for place in range(16)] if kind is in_turns else [*map(b"word %d".__mod__, range(8))]
    )
    return [FIRST, *others, call, *map(kind, words)]


@each_case("name", KINDS)
def test_a_run_is_its_events(name: str) -> None:
    kind = KINDS[name]
    before, run = opened(kind), [kind(word) for word in WORDS * 3]
    assert (check(before, run) > len(b"".join(run)) / 2) is (name not in EACH_IS_READ)


def events_of(reads: list[bytes]) -> list[str]:
    parser = ChatCompletionParser(clock=lambda: 0.0)
    events: list[Any] = parser.events()
    for read in reads:
        parser.fold(read)
        events += parser.events()
    return [str(one) for one in events]


@each_case("name", KINDS)
def test_a_run_is_its_events_for_who_takes_events(name: str) -> None:
    kind = KINDS[name]
    before, run = opened(kind), [kind(word) for word in WORDS for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        read_each(patch)
        expected = events_of([*before, *run])
    assert events_of([*before, *run]) == expected
    assert events_of([*before, b"".join(run)]) == expected


def test_a_piece_goes_to_the_block_of_its_type_also_of_choices_by_turns() -> None:
    parser = ChatCompletionParser()
    expected: list[dict[str, str]] = [{} for _ in range(4)]
    for number in range(100):
        place, text = number % 4, f"{number} "
        kind, name = (summarised, "reasoning.summary") if number % 10 == 0 else (detailed, "reasoning.text")
        expected[place][name] = expected[place].get(name, "") + text
        alone = kind(text.encode()).replace(b'"content":"",', b"")
        parser.fold(alone.replace(b'"index":0,"delta"', b'"index":%d,"delta"' % place))
    blocks = [one.message.reasoning_details or [] for one in parser.snapshot.choices]
    assert [{one["type"]: one.get("text") or one["summary"] for one in of_one} for of_one in blocks] == expected


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
    "a carriage return after the value": said(b"a").replace(b'"a"', b'"a"\r'),
    "a line break before the value": said(b"a").replace(b'"a"', b'\n"a"'),
    "a line that ends like the others": said(b"a").partition(b'"content":')[2],
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


@pytest.mark.parametrize(
    "kind", ["text", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("text with padding", "four choices"))]
)
@each_case("name", ODD)
def test_what_is_not_like_the_others_is_read(name: str, kind: str) -> None:
    of = KINDS[kind]
    before, words = opened(of), [of(word) for word in WORDS]
    for place in (0, 1, len(words) - 1, len(words)):
        check_as_it_is(before, [*words[:place], ODD[name], *words[place:]])
    check_as_it_is(framed_otherwise(before), framed_otherwise([*words[:5], ODD[name], *words[5:]]))


EVENTS = [*ODD.values(), *map(said, WORDS), *map(padded, WORDS), *map(in_turns, WORDS), *map(thought, WORDS)]
EVENTS += [*map(in_parts, WORDS), *map(KINDS["text parts"], WORDS), *map(KINDS["thinking parts with a text"], WORDS)]


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.sampled_from(EVENTS), max_size=8),
    st.sampled_from([list, framed_otherwise]),
    st.data(),
)
def test_any_events_in_one_read(
    name: str, others: list[bytes], framed: Callable[[list[bytes]], list[bytes]], data: st.DataObject
) -> None:
    of = KINDS[name]
    run = [*(of(word) for word in WORDS), *others]
    check_as_it_is(framed(opened(of)), framed(data.draw(st.permutations(run))))


def test_a_run_of_one_choice_among_several_is_folded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    add_again = StreamFold.add_again

    def watched(*given: Any) -> bool:
        counts.append(given[-1])
        return add_again(*given)

    run = [said(word, 2) for word in WORDS * 3]
    check(opened(in_turns), run)
    monkeypatch.setattr(StreamFold, "add_again", watched)
    result_of([*opened(in_turns), b"".join(run)], ChatCompletionParser.fold)
    assert max(counts) > len(run) / 2


def test_counts_that_an_earlier_usage_completes_are_merged_each_time() -> None:
    """From some event on, the total is too small for the prompt's tokens and those of the completion."""

    def half_counted(tokens: int) -> bytes:
        return said(b"word %d" % tokens, more=b',"usage":{"completion_tokens":%d,"total_tokens":45}' % tokens)

    prompt = said(b"a", more=b',"usage":{"prompt_tokens":9}')
    assert check([FIRST, prompt, *map(half_counted, range(1, 9))], [*map(half_counted, range(10, 60))])


# Two values that change: what stands between them must stand there


def two(first: bytes, second: bytes, between: bytes = b',"refusal":') -> bytes:
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":%b%b%b}}]}' % (ID, first, between, second))


@each_case(
    "odd",
    [
        two(b'"a"', b'"b"', b',"reasoning":'),
        two(b'"a",0,"b"', b"", b""),
        two(b'"a",1,"b"', b"", b""),
        two(b'"a"', b'"b"', b",1,\n"),
        two(b'"a"', b'"b"', b",1,\r"),
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


def test_blanks_before_the_object_are_read() -> None:
    """The first of them belongs to the field, the others to the data."""

    def numbered(text: bytes) -> bytes:
        return at(1_000 + sum(text), said(text))

    for learned, field in ((b"data:  ", b"data: "), (b"data: ", b"data:  "), (b"data: \t", b"data:\t")):
        before = [FIRST, *framed_otherwise([numbered(b"word %d" % place) for place in range(24)], learned)]
        check_as_it_is(before, framed_otherwise([numbered(word) for word in WORDS], field))


def test_data_of_several_lines_is_read() -> None:
    before = [one.replace(b'"choices"', b'\ndata: "choices"') for one in opened(said)]
    check(before, [said(word).replace(b'"choices"', b'\n"choices"') for word in WORDS])


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


def test_calls_of_choices_by_turns_each_get_their_own() -> None:
    def argued_in(text: bytes, choice: int) -> bytes:
        return argued(text).replace(b'"choices":[{"index":0', b'"choices":[{"index":%d' % choice)

    first = [chunk(choice(None, place, tool_calls=[fragment(0, f"call_{place}", "f", "")]), id="c1", model="m") for place in range(2)]  # fmt: skip
    before = [*first, *(argued_in(b"%d" % place, place % 2) for place in range(12))]
    assert check(before, [argued_in(word, place % 2) for place, word in enumerate(WORDS)])


def test_each_choice_keeps_what_its_deltas_repeat() -> None:
    def marked(text: bytes, choice: int) -> bytes:
        return said(text, choice).replace(b'"delta":{', b'"delta":{"mark":"m",')

    before = [FIRST, *(said(b"", place) for place in range(1, 4)), *(marked(b"%d" % place, place % 2) for place in range(8))]  # fmt: skip
    check(before, [marked(word, place % 4) for place, word in enumerate(WORDS)])


def test_a_total_that_was_too_small_is_replaced_by_the_next() -> None:
    def counted_apart(prompt: int, tokens: int) -> bytes:
        counts = b'"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":16' % (prompt, tokens)
        return said(b"word %d" % prompt, more=b',"usage":{%b}' % counts)

    before = [FIRST, *(counted_apart(place, place) for place in range(1, 6))]
    check(before, [counted_apart(9, 20), counted_apart(10, 0), counted_apart(11, 8)])


def test_a_template_learned_of_a_thought_knows_its_head() -> None:
    def flagged(text: bytes) -> bytes:
        return said(text).replace(b'"delta":{', b'"delta":{"extra_content":{"google":{"thought":true}},')

    before = [FIRST, flagged(b"a"), said(b"b"), said(b"c", more=b',"x":1'), flagged(b"d")]
    check(before, [flagged(b"e").replace(b'"c1"', b'"c2"').replace(b"null", b"null "), flagged(b"f"), flagged(b"g")])


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


@each_case("said_by", [said, in_turns, with_usage, argued])
@each_case("seconds", [5, 0, -5, 10**30])
def test_a_time_that_is_none_is_noted(seconds: int, said_by: Callable[[bytes], bytes]) -> None:
    before = [*opened(said_by), *(at(place, said_by(b"word %d" % place)) for place in range(1, 25))]
    assert check_as_it_is(before, [at(20 + place // 3, said_by(b"a%d" % place)) for place in range(9)])
    odd = [at(seconds, said_by(b"b")), at(seconds, said_by(b"c"))]
    check_as_it_is(before, [at(20, said_by(b"a")), *odd, at(21, said_by(b"d"))])
    check_as_it_is(before, [at(seconds, said_by(b"a")), *(at(20, said_by(b"b")) for _ in range(4))])


@each_case("said_by", [said, in_turns, with_usage, argued])
def test_a_time_after_none_is_not_noted(said_by: Callable[[bytes], bytes]) -> None:
    seconds = [5, 6, 0, 0, 0, 0, 7, 0, 0, 0, 0, 8, 9, 0]
    opening = opened(said_by)
    for place in range(3, len(seconds)):
        before = [*opening, *(at(second, said_by(b"a")) for second in seconds[:place])]
        check_as_it_is(before, [at(second, said_by(b"word")) for second in seconds[place:]])


@pytest.mark.parametrize("tokens", [5, 10**17, 10**18, 2**63, 10**30, -5, 0])
def test_large_numbers_are_read(tokens: int) -> None:
    before = [FIRST, *(counted(b"word %d" % place, place) for place in range(12))]
    check(before, [counted(b"a", 20), counted(b"b", tokens), counted(b"c", 21)])
    check(before, [counted(b"a", tokens), *(counted(b"b", 20) for _ in range(4))])


# Learning pays for itself


def calls_of(name: str, reads: list[bytes]) -> list[Any]:
    """What a method of the template returned for these reads."""
    returned: list[Any] = []
    method = getattr(EventTemplate, name)

    def watched(*given: Any) -> Any:
        returned.append(method(*given))
        return returned[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventTemplate, name, watched)
        result_of(reads, ChatCompletionParser.feed)
    return returned


@pytest.mark.parametrize("size", [2, 5, 13, 30])
def test_templates_that_fit_a_few_events_only_are_learned_rarely(size: int) -> None:
    """To learn one costs as much as to validate some ten events."""
    events = [(said, thought)[place // size % 2](b"word %d" % place) for place in range(3_000)]
    assert 0 < len(calls_of("_learn", [FIRST, *events])) < 50


def test_a_template_that_every_other_event_fits_but_for_a_value_is_forgotten() -> None:
    events = [said(b"word", more=b',"x":%b' % (b"%d.5", b"%d")[place % 2] % place) for place in range(3_000)]
    assert 0 < sum(map(bool, calls_of("fold_event", [FIRST, *events]))) < 200


def test_no_template_has_a_hole_for_a_fraction() -> None:
    events = [said(b"word %d" % place, more=b',"x":%d.5' % place) for place in range(100)]
    assert calls_of("_learn", [FIRST, *events])
    assert not calls_of("_fold_values", [FIRST, *events])


def test_after_an_event_that_could_not_be_learned_each_gives_its_own_chunk() -> None:
    """Was once wrong: those that fit the template learned before were given the chunk of that event."""
    run = [said(b"%d" % place, more=b',"x":%d.5' % place if place % 8 < 3 else b"") for place in range(160)]
    check(opened(said), run)


# Limits end a stream at the same event


@pytest.mark.parametrize("most", [0, 10, 60, 100, 101, 200, 1_000])
def test_a_limit_on_the_output_is_passed_at_the_same_event(most: int) -> None:
    check(opened(said), [said(b"word") for _ in range(400)], max_output_size=most)


@pytest.mark.parametrize("most", [10, 200, 300, 10_000])
def test_a_limit_on_an_event_holds_in_a_run(most: int) -> None:
    run = [*(said(b"word") for _ in range(9)), said(b"w" * 150), said(b"word")]
    check(opened(said), run, max_event_size=most)


def test_half_of_a_character_that_is_held_comes_before_a_run() -> None:
    before = [*opened(said), said(b"\\ud83d")]
    assert check(before, [said(word) for word in WORDS]) == 0
    check(before, [said(b"\\ude00"), *(said(word) for word in WORDS)])


def counted_by(reads: list[bytes], **options: Any) -> int:
    """How many bytes count towards the limit on what is kept besides text."""
    parser = ChatCompletionParser(**options)
    for data in reads:
        parser.fold(data)
    body = parser._body
    assert isinstance(body, StreamedBody)
    return body._output_limit._estimate


@each_case("name", KINDS)
def test_what_is_kept_besides_text_counts_towards_the_limit_however_it_is_cut(name: str) -> None:
    kind = KINDS[name]
    before, run = opened(kind), [kind(word) for word in WORDS * 3]
    assert 0 < counted_by([*before, *run]) == counted_by([*before, b"".join(run)])


def test_a_large_event_counts_towards_the_limit_however_it_is_cut() -> None:
    run = b"".join([*map(said, WORDS), said(b"w" * 200), said(b"word")])
    pieces = [run[place : place + 100] for place in range(0, len(run), 100)]
    counted = {counted_by([*opened(said), *reads], max_event_items=300) for reads in ([run], pieces)}
    assert len(counted) == 1


@pytest.mark.parametrize("options", [{"strict": True}, {"on_server_sent_event": lambda event, chunks: None}])
def test_who_looks_at_each_event_gets_each(options: dict[str, Any]) -> None:
    assert check(opened(said), [said(word) for word in WORDS], **options) == 0


@pytest.mark.parametrize("more", [b"", b',"logprobs":{"content":[]}'])
def test_after_another_block_all_of_an_event_is_folded(more: bytes) -> None:
    """What is usual may change between two events that are alike, by one that is not like them, usual or not."""
    other = detailed(b"other").replace(b'"index":0,"text"', b'"index":1,"text"').replace(b"}]}", more + b"}]}")
    parser = ChatCompletionParser()
    for data in (FIRST, *(detailed(b"a%d " % place) for place in range(30)), other, detailed(b"b"), detailed(b"c")):
        parser.feed(data)
    blocks = parser.snapshot.message.reasoning_details or []
    assert [block["text"][-4:] for block in blocks] == ["9 bc", "ther"]


def test_what_is_noted_of_one_event_is_noted_of_each_like_it() -> None:
    parser = ChatCompletionParser()
    parser.feed(FIRST + chunk(choice(tool_calls=[fragment(0, "call_1", "f", "")]), id="c1", model="m"))
    for number in range(60):
        parser.feed(argued(b"x%d" % number, b'"index":0,"id":""'))
    assert {anomaly.rule.id: anomaly.count for anomaly in parser.anomalies} == {"CF203": 60}


@each_case("key", ["thinking", "text"])
def test_an_empty_text_does_not_begin_a_part_behind_a_signature(key: str) -> None:
    """So the text after it does, whether the signature is that of a part or of an item in it."""
    of_part = b'{"type":"thinking","thinking":"%"}'
    of_item = b'{"type":"thinking","thinking":[%b]}' % TEXT_PART
    piece = of_part if key == "thinking" else of_item
    signed = piece.replace(b'"%"', b'"%","signature":"s"')
    parser = ChatCompletionParser()
    for text in (b"a%d " % number for number in range(30)):
        parser.fold(in_list(piece)(text))
    parser.fold(in_list(signed)(b"b"))
    for text in (b"", b"c", b"d"):
        parser.fold(in_list(piece)(text))
    [part] = (parser.snapshot.choices[0].message.content_parts or [])[-1:]
    assert (part if key == "thinking" else part["thinking"][-1])[key] == "cd"


def test_an_image_is_not_changed_by_the_parts_after_it() -> None:
    def typed(kind: bytes) -> bytes:
        return in_list(b'{"type":"%b","text":"a"}' % kind)(b"")

    parser = ChatCompletionParser()
    for kind in (*(b"text", b"output_text") * 10, b"image_url", b"text"):
        parser.fold(typed(kind))
    assert [one.image["type"] for one in parser.events() if isinstance(one, ImageReceived)] == ["image_url"]


def test_a_block_goes_on_under_the_key_of_its_last_fragment() -> None:
    parser = ChatCompletionParser()
    words = [b"a%d " % place for place in range(30)]
    for data in (FIRST, *map(detailed, words), *map(summarised, words), *map(detailed, words)):
        parser.fold(data)
    text = b"".join(words).decode()
    blocks = parser.snapshot.message.reasoning_details or []
    assert [(block.get("text"), block.get("summary")) for block in blocks] == [(2 * text, None), (None, text)]


def with_details(text: bytes) -> bytes:
    details = b'"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%b"}]' % text
    return argued(text).replace(b'"tool_calls"', details + b',"tool_calls"')


def with_input(text: bytes) -> bytes:
    return argued(text).replace(b'"function"', b'"custom":{"input":"y"},"function"')


@pytest.mark.parametrize("brings", [with_details, with_input])
@pytest.mark.parametrize("size", [1, 10, 40])
def test_what_comes_beside_equal_arguments_is_not_lost(brings: Callable[[bytes], bytes], size: int) -> None:
    """Was once wrong: the equal text of a block, or a custom tool's input that stays the same, was folded once."""
    events = [FIRST, named(b"{}"), *(brings(b"w%d " % place) for place in range(60))]
    observed = ChatCompletionParser(on_server_sent_event=lambda *_: None)
    for data in events:
        observed.feed(data)
    for take in (ChatCompletionParser.feed, ChatCompletionParser.fold):
        parser = ChatCompletionParser()
        for start in range(0, len(events), size):
            take(parser, b"".join(events[start : start + size]))
        assert parser.snapshot.model_dump() == observed.snapshot.model_dump()
