"""What an event must share with those before it to be folded with them."""

from collections.abc import Callable

import pytest
from cases import each_case
from event_runs import (
    FIRST,
    ID,
    WORDS,
    all_runs_are_short,
    argued,
    at,
    check,
    check_as_it_is,
    counted,
    framed_otherwise,
    in_turns,
    opened,
    said,
    sent,
    with_usage,
)

from chunkfold.testing import chunk, fragment
from chunkfold.testing.wire import choice

runs_are_short = all_runs_are_short

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
    for place, framed in enumerate((list, framed_otherwise, list)):
        check_as_it_is(framed(before), framed([*usual[:place], odd, *usual[place:]]))


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


def argued_behind(text: bytes, call: int) -> bytes:
    calls = b'[{"function":{"arguments":"%b"},"index":%d}]' % (text, call)
    return sent(b'{%b,"choices":[{"index":0,"delta":{"tool_calls":%b}}]}' % (ID, calls))


def argued_in(text: bytes, choice: int) -> bytes:
    return argued(text).replace(b'"choices":[{"index":0', b'"choices":[{"index":%d' % choice)


@pytest.mark.parametrize("argued_by", [argued_behind, argued_in])
def test_calls_by_turns_each_get_their_own(argued_by: Callable[[bytes, int], bytes]) -> None:
    places = ((place, 0) if argued_by is argued_in else (0, place) for place in range(2))
    first = [chunk(choice(None, at, tool_calls=[fragment(call, f"call_{at}{call}", "f", "")]), id="c1", model="m") for at, call in places]  # fmt: skip
    before = [FIRST, *first, *(argued_by(b"%d" % place, place % 2) for place in range(12))]
    assert check(before, [argued_by(word, place % 2) for place, word in enumerate(WORDS)])


def test_each_choice_keeps_what_its_deltas_repeat() -> None:
    def marked(text: bytes, choice: int) -> bytes:
        return said(text, choice).replace(b'"delta":{', b'"delta":{"mark":"m",')

    before = [FIRST, *(said(b"", place) for place in range(1, 4)), *(marked(b"%d" % place, place % 2) for place in range(8))]  # fmt: skip
    check(before, [marked(word, place % 4) for place, word in enumerate(WORDS)])


def test_lists_that_add_up_are_folded_with_each_event() -> None:
    def listed(text: bytes) -> bytes:
        return said(text).replace(b'"delta":{', b'"token_ids":[7],"delta":{')

    check([FIRST, *(listed(b"%d" % place) for place in range(12))], [listed(word) for word in WORDS])


def test_an_empty_content_is_kept_of_each_choice() -> None:
    def thought(text: bytes, choice: int) -> bytes:
        return said(text, choice).replace(b'"content"', b'"content":"","reasoning"')

    other = said(b"", 2).replace(b'"content"', b'"reasoning"')
    before = [FIRST, said(b"", 1), other, *(thought(b"%d" % place, place % 2) for place in range(8))]
    check(before, [thought(word, place % 3) for place, word in enumerate(WORDS)])


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
def test_a_time_that_is_none_is_noted(said_by: Callable[[bytes], bytes]) -> None:
    before = [*opened(said_by), *(at(place, said_by(b"word %d" % place)) for place in range(1, 25))]
    assert check_as_it_is(before, [at(20 + place // 3, said_by(b"a%d" % place)) for place in range(9)])
    for seconds in (5, 0, -5, 10**30):
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


def test_after_an_event_that_could_not_be_learned_each_gives_its_own_chunk() -> None:
    """Was once wrong: those that fit the template learned before were given the chunk of that event."""
    run = [said(b"%d" % place, more=b',"x":%d.5' % place if place % 8 < 3 else b"") for place in range(160)]
    check(opened(said), run)
