"""What is kept of a stream beside its text: measured once, until it is replaced."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import made_streams
import pytest
from cases import each_case
from copies import pickled
from hypothesis import example, given
from limited import assert_named
from linear import assert_linear
from parsed_bodies import fed

from chunkfold import ChatCompletionChunk, ChatCompletionParser
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.parser import limits
from chunkfold.testing import choice, chunk, delta, fragment


@pytest.mark.slow
def test_what_is_only_added_to_is_measured_once() -> None:
    """The tokens of vLLM, which come with each chunk, were once measured anew each time."""
    [one] = ChatCompletionParser().feed(chunk({**choice(content="a"), "token_ids": [*range(100)]}))

    def measured(size: int) -> Callable[[], object]:
        def take() -> None:
            fold = StreamFold()
            for _ in range(size):
                fold.add(one)
                assert fold.measure()

        return take

    assert_linear(measured, 100)


def in_choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, **fields}]}


def in_delta(**fields: Any) -> dict[str, Any]:
    return in_choice(delta=fields)


def in_call(**fields: Any) -> dict[str, Any]:
    return in_delta(tool_calls=[{"index": 0, **fields}])


# Where values are kept until they are replaced.
REPLACED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "a chunk": lambda value: {**in_delta(), "x": value},
    "a choice": lambda value: in_choice(x=value),
    "a delta": lambda value: in_delta(x=value),
    "extra_content": lambda value: in_delta(extra_content=value),
    "provider fields": lambda value: in_delta(provider_specific_fields={"x": value}),
    "a call": lambda value: in_call(x=value),
    "a call's provider fields": lambda value: in_call(provider_specific_fields={"x": value}),
    "a call's function": lambda value: in_call(function={"x": value}),
    "the legacy call": lambda value: in_delta(function_call={"x": value}),
    "audio": lambda value: in_delta(audio={"x": value}),
    "a block": lambda value: in_delta(reasoning_details=[{"type": "t", "index": 0, "x": value}]),
    "log probabilities": lambda value: in_choice(logprobs={"x": value}),
    "usage": lambda value: {**in_delta(), "usage": {"x": value}},
    "a message": lambda value: in_choice(message={"content": "a", "x": value}),
}


# Many of them, each with a number.
MANY: dict[str, Callable[[int], bytes]] = {
    "choices": lambda n: chunk({"index": n, "delta": {"content": "a"}}),
    "calls": lambda n: delta(tool_calls=[fragment(n, f"c{n}", "f", "{}")]),
    "reasoning details": lambda n: delta(reasoning_details=[{"type": "reasoning.text", "index": n, "text": "a"}]),
    "content parts": lambda n: delta(content=[{"type": "x", "y": n}]),
}


def measured_values(fold: StreamFold) -> list[object]:
    """What is kept for its size."""
    footprint = fold._footprint
    every = [footprint._measured, *(known for _, known in footprint._settled.values())]
    return [value for known in every for value, _, _ in known.values()]


@each_case("name", REPLACED)
def test_all_that_is_kept_is_measured_until_it_is_replaced(name: str) -> None:
    fold = StreamFold()

    def size_with(value: Any) -> int:
        fold.add(ChatCompletionChunk.model_validate(REPLACED[name](value)))
        size = fold.measure()
        assert size == fold.measure() == deepcopy(fold).measure()
        return size

    small = size_with({"y": "a"})
    assert size_with({"y": "a" * 20_000}) - small == 19_999
    assert size_with({"y": "b" * 20_000}) - small == 19_999
    assert size_with({"y": "a"}) == small
    assert measured_values(fold) == []  # what was replaced is not kept for its size


CALL = [fragment(0, "call_a", "f", ""), *(fragment(0, arguments=f"word {n}") for n in range(9))]


def deltas(*every: dict[str, Any]) -> made_streams.Stream:
    return made_streams.Stream([delta(**fields) for fields in every])


@given(made_streams.STREAMS)
@example(deltas(*({"tool_calls": [call]} for call in CALL)))  # read by a template, like the next one
@example(deltas(*({"reasoning_details": [{"type": "reasoning.text", "text": f"word {n}"}]} for n in range(9))))
def test_what_changed_is_measured_again(stream: made_streams.Stream) -> None:
    """Choices, calls and blocks keep their sizes until they change."""
    often, once = ChatCompletionParser(), ChatCompletionParser()
    for data in stream.pieces:
        for parser in (often, once):
            parser.feed(data)
        often._fold.measure()
    for parser in (often, once):
        parser.close()
    assert often._fold.measure() == once._fold.measure()


@pytest.mark.parametrize("name", MANY)
def test_what_did_not_change_is_not_measured_again(name: str) -> None:
    """Was once wrong: near the limit, all calls were measured again for each two thousand of them."""
    parser = fed(b"".join(map(MANY[name], range(500))))
    fold = parser._fold
    size = fold.measure()
    before = fold._footprint.visited
    parser.feed(MANY[name](500))
    assert size < fold.measure() < 1.01 * size
    assert fold._footprint.visited - before < 625


@pytest.mark.parametrize("holder", [in_choice, in_delta], ids=["choice", "delta"])
def test_a_choice_that_changes_again_is_not_measured_from_its_beginning(holder: Callable[..., dict[str, Any]]) -> None:
    """Was once wrong: what was known of a choice was forgotten while only another one changed."""
    fold = StreamFold()

    def add(index: int, **fields: Any) -> None:
        [one] = holder(**fields)["choices"]
        fold.add(ChatCompletionChunk.model_validate({"choices": [{**one, "index": index}]}))
        fold.measure()

    for index in (0, 1):
        add(index, x=[{"a": 1}] * 2000, token_ids=[7] * 5000)
    before = fold._footprint.visited
    for index in (0, 0, 1, 1) * 5:
        add(index, y=1)
    assert fold._footprint.visited - before < 1000


GROWING: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "token_ids": lambda items: choice(content="a") | {"token_ids": items},
    "reasoning_items": lambda items: choice(reasoning_items=items),
    "reasoning_items beside a ruled field": lambda items: choice(reasoning_items=items, reasoning_text="a"),
    "logprobs.reasoning_content": lambda items: choice(content="a") | {"logprobs": {"reasoning_content": items}},
    "messages of a tool": lambda items: choice(role="tool", content=items),
}


@each_case("name", GROWING)
@patch.object(limits, "_ALLOWANCE", 2**16)
def test_lists_that_add_up_are_measured_as_they_grow(name: str) -> None:
    parser = fed((chunk(GROWING[name]([{"a": "y" * 1000}])) for _ in range(300)), max_output_size=10_000)
    assert_named(parser, "max_output_size", 10_000)


def test_lists_that_grow_are_forgotten_when_they_are_replaced() -> None:
    fold = StreamFold()
    for value in ([7] * 2000, "x", [8] * 2000, "x"):
        fold.add(ChatCompletionChunk.model_validate(in_choice(token_ids=value)))
        fold.measure()
        assert len(measured_values(fold)) == isinstance(value, list)


def test_small_values_are_not_kept_for_their_sizes() -> None:
    """An entry takes more than they do."""
    fold = StreamFold()
    fold.add(ChatCompletionChunk.model_validate(in_delta(**{f"x{number}": [] for number in range(100)})))
    fold.measure()
    assert measured_values(fold) == []


@each_case("holder", [list, lambda items: {"items": items}], ids=["list", "object"])
def test_an_unknown_field_is_measured_once_until_it_is_replaced(holder: Callable[[list[Any]], Any]) -> None:
    """Was once wrong: all that was kept was measured again and again while more came."""
    fold, visited = StreamFold(), []
    sizes = [(0, 1000), (1, 1000), (1, 10), (2, 1)]
    unknown = [{f"x{name}": holder([{"a": size}] * size)} for name, size in sizes]
    for fields in unknown:
        [one] = ChatCompletionParser().feed(chunk(choice(content="a", **fields), **fields))
        fold.add(one)
        before = fold._footprint.visited
        size = fold.measure()
        visited.append(fold._footprint.visited - before)
    assert visited[0] > visited[1] - 50 > 4000
    assert max(visited[2:]) < 200
    assert deepcopy(fold).measure() == size


def test_an_unknown_list_that_the_consumer_of_its_chunk_empties_can_be_measured_again() -> None:
    parser = ChatCompletionParser()
    [one] = parser.feed(chunk(choice(content="a", x=[{"a": 1}] * 1000)))
    size = parser._fold.measure()
    (one.choices[0].delta.model_extra or {})["x"].clear()
    assert parser._fold.measure() <= size


@pytest.mark.parametrize("again", [deepcopy, pickled])
def test_what_a_copy_keeps_is_measured_anew(again: Callable[[Any], Any]) -> None:
    """Was once wrong: sizes were known by the identity of what was copied, and `feed` raised a `ValueError`."""
    parser = alone = ChatCompletionParser(max_output_size=10_000)
    for number in range(400):
        if number % 20 == 0:
            parser = again(parser)
        data = chunk({**choice(content=f" {number}"), "token_ids": [7] * 8})
        assert parser.feed(data) == alone.feed(data)
        assert parser._fold.measure() == alone._fold.measure()
