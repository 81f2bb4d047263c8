"""How much one event may hold: its depth, numbers that no interpreter reads, values as arguments, text that is large."""

import inspect
import json
import math
import sys
from typing import Any

import pytest
from cases import each_case
from parsed_bodies import parsed
from wire_events import SLOW, A, call, calls, chunk, compact, dumped, noted, parse, stream

from chunkfold import InvalidChunkError, LimitExceededError, ServerSentEvent, parse_payload
from chunkfold.testing import HEAD, sse
from chunkfold.wire import reading, repairs


def deep(levels: int) -> Any:
    """Lists, nested so deep."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# Nesting and numbers


DEEP_PLACES = [
    # Where an unknown value of any depth stands, beside something that must not be lost with it.
    pytest.param(lambda value: {**chunk({"content": "a"}), "x": value}, id="chunk"),
    pytest.param(lambda value: chunk({"content": "a"}, x=value), id="choice"),
    pytest.param(lambda value: chunk({"content": "a", "x": value}), id="delta"),
    pytest.param(lambda value: chunk({"content": [{"type": "text", "text": "a", "x": value}]}), id="content part"),
    pytest.param(lambda value: chunk({}, message={"content": "a", "x": value}), id="message"),
    pytest.param(lambda value: calls({**call("a"), "x": value}), id="tool call"),
    pytest.param(lambda value: calls({"index": 0, "function": {"arguments": "a", "x": value}}), id="function"),
    pytest.param(lambda value: calls({"index": 0, "custom": {"input": "a", "x": value}}), id="custom"),
    pytest.param(lambda value: chunk({"function_call": {"arguments": "a", "x": value}}), id="function_call"),
    pytest.param(lambda value: chunk({"audio": {"transcript": "a", "x": value}}), id="audio"),
    pytest.param(lambda value: chunk({"annotations": [{"type": "a", "x": value}]}), id="annotation"),
    pytest.param(
        lambda value: chunk({"annotations": [{"type": "a", "url_citation": {"url": "a", "x": value}}]}), id="citation"
    ),
    pytest.param(lambda value: chunk({}, logprobs={"content": [{"token": "a"}], "x": value}), id="logprobs"),
    *(
        pytest.param(
            lambda value, name=name: chunk({}, logprobs={name: [{"top_logprobs": [{"token": "a", "x": value}]}]}),
            id=f"likely token of the {name}",
        )
        for name in ("content", "refusal")
    ),
    pytest.param(lambda value: {**chunk({}), "usage": {"a": 1, "x": value}}, id="usage"),
]


@each_case("place", DEEP_PLACES)
def test_an_unknown_value_may_be_200_deep_and_a_deeper_one_alone_is_dropped(place: Any) -> None:
    deepest, deeper, without = (parsed(stream(place(value))) for value in (deep(200), deep(201), None))
    assert ["CF212" in noted(parser) for parser in (deepest, deeper, without)] == [False, True, False]
    assert deepest.snapshot.model_dump_json(warnings="error").count("[" * 200) == 1
    assert deeper.snapshot.model_dump(exclude_none=True) == without.snapshot.model_dump(exclude_none=True)


@each_case(
    "body",
    [
        # Arguments are those of a function; the same key elsewhere is unknown like any other.
        *(chunk({"arguments": deep(201)}), calls({"index": 0, "arguments": deep(201)})),
        *({"choices": [], "x": value} for value in (deep(201), {"a": deep(200)}, [1, {"a": deep(199)}])),
    ],
    ids=["arguments of a delta", "arguments of a call", "lists", "in an object", "in both"],
)
def test_names_objects_and_lists_count_alike(body: dict[str, Any]) -> None:
    assert noted(parse(body)) == {"CF212"}


def test_each_item_that_is_too_deep_is_dropped_from_a_list_where_an_object_should_be() -> None:
    [one] = parse(chunk({"audio": [deep(201), 1, deep(201), deep(201), 2]})).chunks
    assert one.model_dump()["choices"][0]["delta"]["audio"] == [1, 2]


def test_an_event_may_be_500_deep() -> None:
    payload = parse(b'{"choices":[],"x":' + b"[" * 499 + b"]" * 499 + b"}")
    assert payload.error is None
    assert noted(payload) == {"CF212"}
    for depth in (500, 100_000):  # more than the interpreter can read, too
        error = parse(b'{"choices":[],"x":' + b"[" * depth + b"]" * depth + b"}").error
        assert isinstance(error, InvalidChunkError)
        assert "nested at most 500 deep" in str(error)


@pytest.mark.parametrize("depth", [200, 201, 300, 490])
def test_arguments_are_no_unknown_value(depth: int) -> None:
    """An object there becomes text, which has no depth; text that looks deep never had one."""
    value = {"a": deep(depth - 1)}
    for arguments in (value, json.dumps(value)):
        (one,) = parse(chunk({"tool_calls": [call(arguments)], "function_call": {"arguments": arguments}})).chunks
        delta = one.choices[0].delta
        for text in (delta.tool_calls[0].function.arguments, delta.function_call.arguments):
            assert json.loads(text) == value


@pytest.mark.parametrize(
    "text",
    ["[" * 10_000, '\\"' + "{" * 10_000, '"[' * 10_000, "\\" * 9_999],
    ids=["lists", "objects", "quotes", "backslashes"],
)
def test_brackets_in_text_have_no_depth(text: str) -> None:
    for event in ("message", SLOW):
        assert dumped(parse(chunk({"content": text}), event)) == chunk({"content": text})


@pytest.mark.parametrize("before", [b'"x":', b'"x":"\t","y":'], ids=["alone", "beside a control character"])
def test_numbers_that_no_interpreter_reads(before: bytes) -> None:
    error = parse(b'{"choices":[],' + before + b"1" * 5_000 + b"}").error
    assert type(error) is InvalidChunkError
    assert "digits" in str(error)


@pytest.mark.parametrize("event", ["message", SLOW])
def test_numbers_that_it_reads(event: str) -> None:
    digits = "1" * 4_300
    data = f'{{"choices":[{{"index":{digits},"delta":{{"content":"a"}}}}],"x":{digits},"y":1e5000}}'.encode()
    payload = parse(data, event)
    assert dumped(payload) == {
        "choices": [{"index": int(digits), "delta": {"content": "a"}}],
        "x": int(digits),
        "y": math.inf,
    }
    assert parsed(b"data: " + data + b"\n\n").snapshot.choices[0].message.content == "a"


@each_case("digits", ["1" * 19, "1" * 5_000, "1e2", "0x1", "1_0", "\u0661", "--1", "", " "])
def test_what_spells_no_number_is_kept_as_it_is(digits: str) -> None:
    payload = parse({**HEAD, "created": digits, "choices": []})
    assert dumped(payload) == {**HEAD, "created": digits, "choices": []}
    assert noted(payload) == {"CF209"}


@pytest.mark.parametrize("most", [2**12, pytest.param(2**21, marks=pytest.mark.slow)])
def test_arguments_that_come_as_a_value_are_bounded(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As text they take several times as much memory as they were sent in."""
    assert repairs.MAX_VALUES_AS_TEXT == 2**21
    monkeypatch.setattr(repairs, "MAX_VALUES_AS_TEXT", most)

    def fragment(characters: int) -> bytes:
        arguments = {"a": "\x01" * (characters - 2)}  # the object and its key count one each
        return compact(
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]})
        )

    assert parse(fragment(most)).error is None
    error = parse(fragment(most + 1)).error
    assert isinstance(error, LimitExceededError)
    assert (error.limit, error.value) == ("max_arguments_values", most)
    function = {"name": "f", "arguments": {"a": "x" * (most // 4)}}
    several = chunk({"tool_calls": [{"index": at, "function": function} for at in range(4)]})
    assert type(parse(several).error) is LimitExceededError
    parser = parsed(sse(A)[0] + b"data: " + fragment(most + 1) + b"\n\n")
    assert (parser.end, parser.snapshot.text, type(parser.error)) == ("invalid", "a", LimitExceededError)


def test_numbers_where_a_call_has_text_are_bounded_by_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing an integer takes the square of its digits."""
    monkeypatch.setattr(repairs, "MAX_VALUES_AS_TEXT", repairs.MAX_VALUES_AS_TEXT // 50)

    def error_of(calls: list[Any]) -> Any:
        return parse(compact(chunk({"tool_calls": calls}))).error

    number = int("9" * 4000)
    one = {"name": "f", "arguments": {"a": [number] * 20}}
    assert error_of([{"index": 0, "id": number}] * 20) is None
    assert error_of([{"index": 0, "function": one}]) is None
    many_ids = error_of([{"index": 0, "id": number}] * 26)
    many_arguments = error_of([{"index": at, "function": one} for at in range(2)])
    assert many_ids.limit == many_arguments.limit == "max_arguments_values"


@each_case(
    ("digits", "numbers", "choices", "is_read"),
    [(4300, 1, 1, True), (4300, 4, 1, False), (4300, 2, 2, False), (640, 1, 1, False)],
)
def test_contents_that_are_objects_are_bounded(
    digits: int, numbers: int, choices: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger ones are refused as in a chunk, and so is one that the interpreter does not print."""
    monkeypatch.setattr(repairs, "MAX_VALUES_AS_TEXT", 5000)
    content = b'{"a":[%b]}' % b",".join([b"9" * 4000] * numbers)
    choice = b'{"message":{"content":%b},"finish_reason":"stop"}' % content
    sys.set_int_max_str_digits(digits)
    try:
        parser = parsed(b'{"choices":[%b]}' % b",".join([choice] * choices))
    finally:
        sys.set_int_max_str_digits(4300)
    assert (parser.snapshot.text == content.decode()) is is_read
    assert is_read or "expected a string or a list of parts, received dict" in str(parser.error)


@each_case(("digits", "is_read"), [(4300, True), (640, False)])
def test_a_content_that_is_a_number_is_read_if_the_interpreter_prints_it(digits: int, is_read: bool) -> None:
    number = int("9" * 4000)
    event = compact(chunk({"content": number}))
    sys.set_int_max_str_digits(digits)
    try:
        error = parse(event).error
    finally:
        sys.set_int_max_str_digits(4300)
    assert (error is None) is is_read


@each_case("tail", [b"", b"\\x", b'"', b'",}', b'"]', b'","b":01}', b'",b:1}', b'""b":1}', b'"} x'])
def test_large_data_that_nothing_can_repair_is_not_read_twice(tail: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second reading would take memory, and find nothing else."""
    small, large = (b'{"a":"' + b"x" * size + tail for size in (10, 2**20))
    found = [type(parse(data).error) for data in (small, large)]
    assert found == [InvalidChunkError] * 2
    with monkeypatch.context() as patch:
        patch.delattr(reading, "json")
        assert "received text that is not JSON" in str(parse(large).error)
        with pytest.raises(NameError):
            parse(small)


@each_case("text", ["\x01", "\\ud83d", "\\ud83d\\u0041", "\\ude00"])
def test_large_data_that_can_be_repaired_is(text: str) -> None:
    payload = parse(b'{"choices":[{"delta":{"content":"' + b"x" * 2**20 + text.encode() + b'"}}]}')
    assert payload.error is None
    assert len(payload.chunks[0].text) in {2**20 + 1, 2**20 + 2}


# What is left of the interpreter's limits


@pytest.mark.parametrize(
    "nested", [b"[" * 450 + b"]" * 450, b'{"a":' * 400 + b"1" + b"}" * 400], ids=["lists", "objects"]
)
def test_a_caller_deep_in_its_own_stack_gets_no_recursion_error(nested: bytes) -> None:
    """Wherever the interpreter's limit is met, it is a chunk that cannot be read: never a RecursionError of ours."""
    event = ServerSentEvent(b'{"choices":[{"delta":{"content":"a"}}],"x":' + nested + b"}")

    def at_depth(frames: int) -> Any:
        return parse_payload(event) if frames == 0 else at_depth(frames - 1)

    room = sys.getrecursionlimit() - len(inspect.stack())
    payloads = [at_depth(room - left) for left in range(600, 20, -1) if left < room]
    assert {type(payload.error) for payload in payloads} <= {type(None), InvalidChunkError}
    told = {str(payload.error).split(": ")[1] for payload in payloads if payload.error is not None}
    assert told <= {"expected JSON that the interpreter can read, received deeper nesting"}
