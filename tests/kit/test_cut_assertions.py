"""`assert_same_however_cut`: a parser that depends on cuts fails, and the cut is named."""

import re
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from broken_parsers import CUT_OFF, HELLO, OVERLOADED, marked, message_of, parse, raises_for_any, right

from chunkfold.testing import (
    DONE,
    StreamBuilder,
    assert_folds_to,
    assert_same_however_cut,
    hold,
    hostile_streams,
    ways_to_cut,
)


def decodes_each_read(reads: Sequence[bytes]) -> dict[str, Any]:
    return parse("".join(read.decode("utf-8", "replace") for read in reads).split("\n"))


def assert_cut_within_the_character(message: str, stream: StreamBuilder, character: str) -> None:
    (place,) = re.findall(r"a cut at byte (\d+) is enough", message)
    start = stream.body.index(character.encode())
    assert start < int(place) < start + len(character.encode())


async def right_async(body: bytes) -> dict[str, Any]:
    await anyio.lowlevel.checkpoint()
    return right(body)


async def always_hi(body: bytes) -> dict[str, Any]:
    await anyio.lowlevel.checkpoint()
    return {"text": "Hi", "tool_calls": []}


def test_a_broken_parser_does_not_pass() -> None:
    """Else one that always raises would be the same however the body is cut."""
    with pytest.raises(AttributeError):
        assert_same_however_cut(HELLO, fold_reads=lambda reads: reads.splitlines())  # type: ignore[attr-defined]
    with pytest.raises(LookupError):
        assert_same_however_cut(HELLO, fold_reads=raises_for_any(LookupError))
    for error in (TypeError, AttributeError):
        with pytest.raises(error):
            assert_same_however_cut(CUT_OFF, fold_reads=raises_for_any(error))
    assert_same_however_cut(CUT_OFF, fold_reads=raises_for_any(LookupError))
    assert_same_however_cut(OVERLOADED, fold_reads=raises_for_any(LookupError))


def test_results_must_be_such_that_can_be_compared() -> None:
    with pytest.raises(TypeError, match="fold_reads: expected results that can be compared, received two of object"):
        assert_same_however_cut(HELLO, fold_reads=lambda _: object())


def test_the_search_for_the_cut_takes_few_tries() -> None:
    stream = StreamBuilder().text("a" * 20_000, "号").finish().done()
    tries = 0

    def fold(reads: Sequence[bytes]) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        return decodes_each_read(reads)

    message = message_of(lambda: assert_same_however_cut(stream, fold_reads=fold))
    assert_cut_within_the_character(message, stream, "号")
    assert tries < 400


def test_where_no_cut_alone_is_enough_those_that_are_are_told() -> None:
    message = message_of(lambda: assert_same_however_cut(HELLO, fold_reads=lambda reads: len(reads) > 100))
    assert "the cuts up to byte 100 are enough" in message


def test_a_parser_that_decodes_each_read_fails_inside_of_a_character() -> None:
    stream = StreamBuilder().text("Hel", "lo 号").finish().done()
    message = message_of(lambda: assert_same_however_cut(stream, fold_reads=decodes_each_read))
    assert message.startswith("cut byte by byte, the result differs\n  whole: {'text': 'Hello 号'")
    assert_cut_within_the_character(message, stream, "号")
    assert marked(message) == ["3"]
    assert_same_however_cut(HELLO, fold_reads=decodes_each_read)


def test_a_parser_that_splits_each_read_fails_inside_of_a_line() -> None:
    def fold(reads: Sequence[bytes]) -> dict[str, Any]:
        return parse([line for read in reads for line in read.decode("utf-8", "replace").split("\n")])

    message = message_of(lambda: assert_same_however_cut(HELLO, fold_reads=fold))
    assert "  cut:   EOFError: the stream was cut\n" in message
    assert marked(message) == ["1"]


def test_a_difference_that_one_cut_alone_makes_is_found() -> None:
    only_there = len(HELLO.events[0]) + 7
    message = message_of(
        lambda: assert_same_however_cut(HELLO, fold_reads=lambda reads: len(reads) == 2 and len(reads[0]) == only_there)
    )
    assert message.startswith(f"cut at byte {only_there}, ")
    assert marked(message) == ["2"]


def test_the_seed_is_for_the_random_cuts() -> None:
    seen: list[list[bytes]] = []
    assert_same_however_cut(HELLO, fold_reads=lambda reads: seen.append(list(reads)), seed=7)
    assert seen[0] == [HELLO.body]
    assert [reads for reads in seen if len(reads) > 1] == [reads for _, reads in ways_to_cut(HELLO, 7)]


# Async parsers


async def wrong_async_reads(reads: Sequence[bytes]) -> int:
    return len(reads)


def check_awaited() -> None:
    assert_folds_to(HELLO, fold=right_async)
    with pytest.raises(AssertionError, match="received"):
        assert_folds_to(HELLO, fold=always_hi)
    with pytest.raises(AssertionError, match="whole: 1"):
        assert_same_however_cut(DONE, fold_reads=wrong_async_reads)


def test_an_async_parser_is_awaited() -> None:
    check_awaited()
    assert_same_however_cut(
        StreamBuilder().text("a").finish().body, fold_reads=lambda reads: right_async(b"".join(reads))
    )


async def test_inside_of_an_event_loop_too() -> None:
    check_awaited()
    assert {v.right for v in hold(always_hi, hostile_streams()[:3])}
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]


@pytest.mark.parametrize("result", [None, 42, [], {}, b"Hi"])
def test_a_parser_that_returns_something_else_is_told_so(result: Any) -> None:
    with pytest.raises(
        TypeError, match="result: expected text, or an object or a dict with text and tool_calls, received "
    ):
        assert_folds_to(StreamBuilder().text("Hi").finish(), fold=lambda _: result)
