"""Events that are folded many at a time give what they give one by one."""

from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from event_runs import (
    FIRST,
    ID,
    WORDS,
    all_runs_are_short,
    argued,
    argued_twice,
    at,
    check,
    check_as_it_is,
    counted,
    framed_otherwise,
    in_turns,
    opened,
    result_of,
    said,
    sent,
    thought,
    with_usage,
)
from hypothesis import given
from hypothesis import strategies as st
from parsed_bodies import folded
from repeating_bodies import each_validated

from chunkfold import ChatCompletionParser, ImageReceived
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.testing import DONE, event

runs_are_short = all_runs_are_short


def padded(text: bytes) -> bytes:
    return said(text, more=b',"obfuscation":"%x"' % (7 * sum(text)))


def named(text: bytes) -> bytes:
    return argued(text).replace(b'"arguments"', b'"name":"f","arguments"')


def detailed(text: bytes) -> bytes:
    details = b'[{"type":"reasoning.text","index":0,"text":"%b"}]' % text
    fields = b'"content":"","reasoning":"%b","reasoning_details":%b' % (text, details)
    return sent(b'{%b,"choices":[{"index":0,"delta":{%b}}]}' % (ID, fields))


def summarised(text: bytes) -> bytes:
    return detailed(text).replace(b'"reasoning.text","index":0,"text"', b'"reasoning.summary","index":0,"summary"')


def named_by(text: bytes) -> bytes:
    fields = b'"role":"assistant","content":"","reasoning":"%b"' % text
    return sent(b'{%b,"provider":"P","choices":[{"index":0,"delta":{%b},"seed":5}]}' % (ID, fields))


def filtered(text: bytes) -> bytes:
    kept = b'"content_filter_results":{"hate":{"filtered":false}}'
    return sent(b'{%b,"choices":[{"index":0,"delta":{"content":"%b"},%b}]}' % (ID, text, kept))


def with_tokens(text: bytes) -> bytes:
    fields = b'"token_id":%d,"content":"%b"' % (sum(text), text)
    return sent(b'{%b,"choices":[{"index":0,"text":"%b","delta":{%b}}]}' % (ID, text, fields))


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


def in_block(block: bytes) -> Callable[[bytes], bytes]:
    """A block of reasoning, which may have the text."""
    details = b'"delta":{"reasoning_details":[%b]}' % block
    return lambda text: sent(b'{%b,"choices":[{"index":0,%b}]}' % (ID, details.replace(b"%", text)))


def in_list(*parts: bytes) -> Callable[[bytes], bytes]:
    """A content list with these parts, which may have the text."""
    content = b'"delta":{"content":[%b]}' % b",".join(parts)
    return lambda text: sent(b'{%b,"choices":[{"index":0,%b}]}' % (ID, content.replace(b"%", text)))


TEXT_PART = b'{"type":"text","text":"%"}'
THINKING_PART = b'{"type":"thinking","thinking":[{"type":"text","text":"%"}]}'
in_parts = in_list(THINKING_PART)
CHOICES = b'"choices":[{"index":0,"delta":{"content":"a"}}]'
KINDS: dict[str, Callable[[bytes], bytes]] = {
    "text": said,
    "text with padding": padded,
    "text with usage": with_usage,
    "text with filter results": filtered,
    "text with tokens": with_tokens,
    "text with fields of known names": lambda text: (
        with_tokens(text).replace(b"token_id", b"created").replace(b'"text":"', b'"content":"a')
    ),
    "text with usage and an unknown field": lambda text: with_usage(text).replace(
        b',"choices"', b',"x":"%b","choices"' % text
    ),
    "reasoning": thought,
    "reasoning with what is known": named_by,
    "arguments": argued,
    "arguments of a call whose type is repeated": lambda text: argued(text, b'"index":0,"type":"function"'),
    "arguments of a call whose id is empty": lambda text: argued(text, b'"index":0,"id":""'),
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
    "thinking in a block": in_block(b'{"type":"thinking","thinking":"%"}'),
    "data in a block": in_block(b'{"data":"%"}'),
    "a text in a block of another kind": in_block(b'{"type":"summary","text":"%"}'),
    "numbers in a block": lambda text: in_block(b'{"text":%d}' % sum(text))(text),
    "details beside the same summary": lambda text: detailed(text).replace(b'0,"text"', b'0,"summary":"a","text"'),
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
    "text beside an empty role": beside(b'"role":""'),
    "text beside audio": beside(b'"audio":{"data":"AAAA"}'),
    "text beside a legacy call": beside(b'"function_call":{"arguments":"1"}'),
    "text beside arguments": beside(b'"tool_calls":[{"index":0,"function":{"arguments":"1"}}]'),
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
    # By the first of equal keys, which counts in pydantic 2.10, or by the last.
    "a text that is overwritten": lambda text: said(text, more=b"," + CHOICES).replace(
        b'"choices"', CHOICES + b',"choices"', 1
    ),
    # What cannot be told apart.
    "an unknown field beside the text that is tried": lambda text: said(b"value 0", more=b',"x":"%b"' % text),
    "an object beside the text that is tried": lambda text: said(b"value 0", more=b',"x":{"y":"%b"}' % text),
    "blocks with a list": beside(b'"reasoning_details":[{"x":["b"],"text":"%"}]'),
    "blocks that are texts": beside(b'"reasoning_details":["%"]'),
}
# What the fold would keep as it is, so that no chunk may be used again.
EACH_IS_READ = {"text beside images", "text beside annotations", "image parts", "images beside text parts"}
EACH_IS_READ |= {"parts of changing types", "an unknown field beside the text that is tried"}
EACH_IS_READ |= {"an object beside the text that is tried"}
EACH_IS_READ |= {"blocks with a list", "blocks that are texts", "a text that is overwritten"}


@pytest.mark.parametrize("framed", [list, pytest.param(framed_otherwise, marks=pytest.mark.slow)])
@each_case("name", KINDS)
def test_a_run_is_its_events(name: str, framed: Callable[[list[bytes]], list[bytes]]) -> None:
    kind = KINDS[name]
    before, run = framed(opened(kind)), framed([kind(word) for word in WORDS * 2])
    assert (check_as_it_is(before, run) > len(b"".join(run)) / 2) is (name not in EACH_IS_READ)
    check_as_it_is(before, [run[0], ODD["a finish reason"], *run[:3]])  # what comes behind it is noted


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
    with each_validated():
        expected = events_of([*before, *run])
    assert events_of([*before, *run]) == expected
    assert events_of([*before, b"".join(run)]) == expected


def test_a_piece_goes_to_the_block_of_its_type_also_of_choices_by_turns() -> None:
    def piece(number: int) -> bytes:
        kind = summarised if number % 10 == 0 else detailed
        alone = kind(b"%d " % number).replace(b'"content":"",', b"")
        return alone.replace(b'"index":0,"delta"', b'"index":%d,"delta"' % (number % 4))

    check([*map(piece, range(20))], [*map(piece, range(20, 100))])


@pytest.mark.parametrize("more", [b"", b',"logprobs":{"content":[]}'])
def test_after_another_block_all_of_an_event_is_folded(more: bytes) -> None:
    """What is usual may change between two events that are alike, by one that is not like them, usual or not."""
    other = detailed(b"other").replace(b'"index":0,"text"', b'"index":1,"text"').replace(b"}]}", more + b"}]}")
    check([FIRST, *(detailed(b"a%d " % place) for place in range(30))], [other, detailed(b"b"), detailed(b"c")])


def test_a_block_goes_on_under_the_key_of_its_last_fragment() -> None:
    words = [b"a%d " % place for place in range(30)]
    check([FIRST, *map(detailed, words)], [*map(summarised, words), *map(detailed, words)])


@each_case("key", ["thinking", "text"])
def test_an_empty_text_does_not_begin_a_part_behind_a_signature(key: str) -> None:
    """So the text after it does, whether the signature is that of a part or of an item in it."""
    of_part = b'{"type":"thinking","thinking":"%"}'
    of_item = b'{"type":"thinking","thinking":[%b]}' % TEXT_PART
    piece = of_part if key == "thinking" else of_item
    signed = piece.replace(b'"%"', b'"%","signature":"s"')
    before = [in_list(piece)(b"a%d " % number) for number in range(30)]
    check(before, [in_list(signed)(b"b"), *map(in_list(piece), (b"", b"c", b"d"))])


@pytest.mark.parametrize(
    ("before", "brought"),
    [
        (b'"tool_calls"', b'"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%b"}],'),
        (b'"function"', b'"custom":{"input":"y"},'),
    ],
)
def test_what_comes_beside_equal_arguments_is_not_lost(before: bytes, brought: bytes) -> None:
    """Was once wrong: the equal text of a block, or a custom tool's input that stays the same, was folded once."""
    words = [b"w%d " % place for place in range(60)]
    events = [argued(word).replace(before, brought.replace(b"%b", word) + before) for word in words]
    check([FIRST, named(b"{}"), *events[:20]], events[20:])


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
    "a quote": said(b'a"b'),
    "a quote at the end": said(b'a"'),
    "a quote that opens a finish reason": said(b'a"},"finish_reason":"stop","x":{"y":"'),
    "a quote that opens another content": said(b'a","content":"b'),
    "a quote that opens another choice": said(b'a"}},{"index":1,"delta":{"content":"b'),
    "NUL": said(b"a\0b"),
    "a control character": said(b"a\x1fb"),
    "a line feed": said(b"a\nb"),
    "an overlong encoding": said(b"a\xc0\xafb"),
    "a surrogate as bytes": said(b"\xed\xa0\xbd"),
    "a character that is cut": said("号".encode()[:2]),
    "a later time": at(1760000001, said(b"a")),
    "an end that is as long": said(b"a").replace(b"null}", b'"ab"}'),
    "more behind": said(b"a").replace(b"\n\n", b" \n\n"),
    "the quotes in one": said(b"").replace(b'""', b'"'),
    "what stands before, alone": said(b"a").partition(b'a"')[0] + b"\n\n",
    "an event named error": b"event: error\n" + said(b"a"),
    "an event named like a chunk": b"event: chat.completion.chunk\n" + said(b"a"),
}


@pytest.mark.parametrize(
    "kind", ["text", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("text with padding", "four choices"))]
)
@each_case("name", ODD)
def test_what_is_not_like_the_others_is_read(name: str, kind: str) -> None:
    of = KINDS[kind]
    before, words = opened(of), [of(word) for word in WORDS]
    for place, framed in ((1, list), (len(words) // 2, framed_otherwise), (len(words), list)):
        check_as_it_is(framed(before), framed([*words[:place], ODD[name], *words[place:]]))


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
    check(opened(in_turns), [*run, said(b"a", 7)])
    parts = KINDS["thinking parts of four choices"]
    check(opened(parts), [*map(parts, WORDS), parts(b"a").replace(b'"index":1', b'"index":7')])
    texts = KINDS["text parts"]
    check([*opened(in_parts), *opened(texts)[1:]], [*map(texts, WORDS)])
    monkeypatch.setattr(StreamFold, "add_again", watched)
    result_of([*opened(in_turns), b"".join(run)], ChatCompletionParser.fold)
    assert max(counts) > len(run) / 2


def test_counts_that_an_earlier_usage_completes_are_merged_each_time() -> None:
    """From some event on, the total is too small for the prompt's tokens and those of the completion."""

    def half_counted(tokens: int) -> bytes:
        return said(b"word %d" % tokens, more=b',"usage":{"completion_tokens":%d,"total_tokens":45}' % tokens)

    prompt = said(b"a", more=b',"usage":{"prompt_tokens":9}')
    assert check([FIRST, prompt, *map(half_counted, range(1, 9))], [*map(half_counted, range(10, 60))])


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


@pytest.mark.parametrize("options", [{"strict": True}, {"on_server_sent_event": lambda event, chunks: None}])
def test_who_looks_at_each_event_gets_each(options: dict[str, Any]) -> None:
    assert check(opened(said), [said(word) for word in WORDS], **options) == 0


def test_thinking_goes_on_in_a_block_of_its_own_behind_a_signature() -> None:
    thinking = KINDS["thinking in a block"]
    words = [*map(thinking, WORDS)]
    for odd in (b'"signature":"s"', b'"thinking":"a","signature":"s"'):
        signed = in_block(b'{"type":"thinking",%b}' % odd)(b"")
        for behind in (words, [thinking(b""), *words], [signed, *words]):
            check(opened(thinking), [*words, signed, *behind])
            check_as_it_is(opened(thinking), [signed, *behind])


def test_an_image_is_not_changed_by_the_parts_after_it() -> None:
    def typed(kind: bytes) -> bytes:
        return in_list(b'{"type":"%b","text":"a"}' % kind)(b"")

    parser = folded(typed(kind) for kind in (*(b"text", b"output_text") * 10, b"image_url", b"text"))
    assert [one.image["type"] for one in parser.events() if isinstance(one, ImageReceived)] == ["image_url"]
