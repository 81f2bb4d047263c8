"""How many values, choices, entries and payloads an event may have."""

import json
from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import pytest
from cases import each_case
from limited import HI, READ, assert_named, parsed_with_chunks
from linear import assert_linear
from measured_memory import only_garbage_of_these_tests, traced
from parsed_bodies import parsed

from chunkfold import ChatCompletionParser, IncompleteStreamError
from chunkfold.json_text.parsing import has_more_items, has_more_wide_text
from chunkfold.models import base
from chunkfold.testing import choice, chunk, delta
from chunkfold.wire import part_counts, payload, raw_data

collecting_is_quick = only_garbage_of_these_tests

ITEMS = {
    b"": 0,
    b"{}": 1,
    b"[1,2,3]": 3,
    b"[{},{}]": 4,
    b'{"a":1,"b":[{"c":",[{"}]}': 4,
    b'["\\",[{", "\\\\", {}]': 4,
    b'["cut,[': 1,
    b'["cut\\': 1,
    b",,,": 3,
    b"no JSON": 0,
}


@each_case("data", ITEMS)
def test_items_are_commas_and_opening_brackets_outside_of_strings(data: bytes) -> None:
    padded = data + b" " * 20  # what has no more bytes than items are allowed is not looked at
    assert has_more_items(padded, ITEMS[data] - 1)
    assert not has_more_items(padded, ITEMS[data])
    assert not has_more_items(data, len(data))


WIDE_BYTES = {
    b'"a"': 0,
    b'"\xe2\x82\xac"': 0,
    b'"\xf0\x9f\x98\x80"': 4,
    b'"\xf0", "b": "\xf4c"': 3,
    b'{"a": "\\"\xf0", "b": "cut': 3,
    b'"\\ud83d\\ude00"': 12,
    b'"\\\\\\uD83D\\uDE00"': 14,
    b'"\\\\ud83d\\ude00"': 0,  # a backslash, `ud83d` and half a pair
    b'"\\ud83d" "\\ude00"': 0,
    b'"\\\xf0"': 2,
    b'"a\\" \xf0': 5,
    b'"cut \xf0': 5,
    b'"\xf0 cut\\': 5,
    b'a "b" \xf0 ""': 0,
}


@each_case("data", WIDE_BYTES)
def test_wide_text_is_the_strings_with_characters_of_four_bytes(data: bytes) -> None:
    padded = b" " * 20 + data
    assert not has_more_wide_text(padded, WIDE_BYTES[data])
    assert has_more_wide_text(padded, max(WIDE_BYTES[data] - 1, 0)) == (WIDE_BYTES[data] > 0)
    assert not has_more_wide_text(data, len(data))


HOSTILE_TEXTS = [b'"",', b'"' + b"x" * 50, b'"\\"' * 20, b'"', b"1", b"}", b'"a":"\\\\",', b"\\"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE_TEXTS)
def test_items_are_counted_in_linear_time(piece: bytes) -> None:
    assert_linear(lambda size: partial(has_more_items, piece * (size // len(piece)), size), 300_000)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [b"\xf0", b'"\xf0"', b"\\ud83d\\ude00"])
@pytest.mark.parametrize("piece", HOSTILE_TEXTS)
def test_wide_text_is_measured_in_linear_time(piece: bytes, wide: bytes) -> None:
    def take(size: int) -> Callable[[], bool]:
        data = wide + (piece + wide) * (size // len(piece + wide))
        return partial(has_more_wide_text, data, len(data) - 1)

    assert_linear(take, 300_000)


def ones(count: int) -> list[int]:
    return [1] * count


MANY_ITEMS = 2_000_000
TOO_MANY: dict[str, Callable[[int], bytes]] = {
    "calls": lambda n: delta(tool_calls=ones(n)),
    "choices": lambda n: chunk(*ones(n)),
    "equal keys": lambda n: b"data: {" + b'"a":1,' * n + b'"choices":[]}\n\n',
    "brackets": lambda n: b"data: " + b"[" * n + b"\n\n",
    "an error": lambda n: b'data: {"error":' + b"[1," * n + b"}\n\n",
    "an event named error": lambda n: b"event: error\ndata: [" + b"1," * n + b"1]\n\n",
    "an event of another name": lambda n: b"event: ping\ndata: [" + b"1," * n + b"1]\n\n",
    "a field named error": lambda n: b"error: [" + b"1," * n + b"1]\n\n",
    "lines of one event": lambda n: (b'data: {"a":[1' + b",1" * 100 + b"]}\n") * (n // 200) + b"\n",
    "no JSON": lambda n: b"data: " + b"{,[" * n + b"\n\n",
    "a last event that nothing ends": lambda n: b"data: [" + b"1," * n,
    "a last error that nothing ends": lambda n: b"error: [" + b"1," * n + b"1]",
}


@each_case("name", TOO_MANY)
def test_an_event_with_more_values_than_are_allowed_is_not_read(name: str) -> None:
    parser = parsed(HI + TOO_MANY[name](2_000), max_event_items=1_000)
    assert_named(parser, "max_event_items", 1_000)
    assert parser.snapshot.text == "Hi"


@pytest.mark.slow
@pytest.mark.parametrize("name", TOO_MANY)
def test_an_event_with_very_many_values_costs_little_more_than_its_bytes(name: str) -> None:
    """Each of them would take hundreds of bytes, and some a kilobyte of errors."""
    body = HI + TOO_MANY[name](MANY_ITEMS)
    for read in (READ, len(body)):
        with traced() as memory:
            parser, _ = parsed_with_chunks(body, read)
        assert_named(parser, "max_event_items", 250_000)
        assert parser.snapshot.text == "Hi"
        assert memory.peak < 8 * len(body)
    folded = ChatCompletionParser()
    folded.fold(body)
    folded.close()
    assert (folded.end, repr(folded.error)) == (parser.end, repr(parser.error))


@pytest.mark.parametrize("start", [b"{", b"["])
def test_a_whole_body_with_too_many_values_is_not_read(start: bytes) -> None:
    parser = parsed(start + b'"choices":[' + b"1," * 250_000 + b"1]}")
    assert_named(parser, "max_event_items", 250_000)


@pytest.mark.slow
def test_a_whole_completion_with_log_probabilities_is_read() -> None:
    """4,000 tokens with five top log probabilities each, of four bytes."""
    token = {"token": "word", "logprob": -0.25, "bytes": list(b"word")}
    logprobs = {"content": [{**token, "top_logprobs": [token] * 5}] * 4000}
    message = {"role": "assistant", "content": "word" * 4000}
    whole = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
    parser = parsed(json.dumps({"object": "chat.completion", "choices": [whole]}).encode())
    assert len(parser.completion().choices[0].logprobs.content or ()) == 4000


def test_without_a_limit_there_may_be_any_number_of_values() -> None:
    body = chunk(x=ones(251_000)) + HI
    assert_named(parsed(body), "max_event_items", 250_000)
    assert parsed(body, max_event_items=None).snapshot.text == "Hi"
    assert parsed(body, max_event_items=251_020).snapshot.text == "Hi"
    assert_named(parsed(HI, max_event_items=5), "max_event_items", 5)


PARTS = 10_000
MANY_PARTS: dict[str, Callable[[int], bytes]] = {
    "choices": lambda n: chunk(*({"index": index} for index in range(n))),
    "empty choices": lambda n: chunk(*[{}] * n),
    "wrong choices": lambda n: chunk(*ones(n)),
    "calls": lambda n: delta(tool_calls=[{"index": index} for index in range(n - 1)]),
    "calls with an id of a wrong type": lambda n: delta(tool_calls=[{"id": 1.5}] * (n - 1)),
    "annotations": lambda n: delta(annotations=[{}] * (n - 1)),
    "images": lambda n: delta(images=[{}] * (n - 1)),
    "parts": lambda n: delta(content=[{"type": "text", "text": "x"}] * (n - 1)),
    "reasoning details": lambda n: delta(reasoning_details=[{"index": index} for index in range(n - 1)]),
    "thinking blocks": lambda n: delta(thinking_blocks=[{"index": index} for index in range(n - 1)]),
    "content blocks": lambda n: delta(content_blocks=[{"index": index} for index in range(n - 1)]),
    "TensorZero's blocks": lambda n: delta(tensorzero_extra_content=[{}] * (n - 1)),
    "parts of a part": lambda n: delta(
        content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}] * (n - 2)}]
    ),
    "log probabilities": lambda n: chunk({**choice(), "logprobs": {"content": [{}] * (6 * n - 6)}}),
    "other likely tokens": lambda n: chunk(
        {**choice(), "logprobs": {"refusal": [{"top_logprobs": [{}, {}]}] * (2 * n - 2)}}
    ),
    "a message's calls": lambda n: chunk({"index": 0, "message": {"tool_calls": [{}] * (n - 1)}}),
    "a whole completion's calls": lambda n: json.dumps(
        {"object": "chat.completion", "choices": [{"message": {"tool_calls": [{}] * (n - 1)}}]}
    ).encode(),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "choices" else pytest.mark.slow) for name in MANY_PARTS]
)
def test_an_event_has_no_more_choices_and_entries_than_that(name: str) -> None:
    """A model writes no ten thousand calls, and each takes some kilobytes until it stands in a snapshot."""
    parser = parsed(MANY_PARTS[name](PARTS))
    assert getattr(parser.error, "limit", None) is None
    parser = parsed(MANY_PARTS[name](PARTS + 1))
    assert_named(parser, "max_event_parts", PARTS)


@pytest.mark.parametrize("most", [3, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_block_has_no_more_payloads_than_that(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is delivered, as with every error."""
    assert raw_data.MAX_EVENT_PAYLOADS == 10_000
    monkeypatch.setattr(raw_data, "MAX_EVENT_PAYLOADS", most)
    line = b"data: {}\n"
    parser, chunks = parsed_with_chunks(line * most + b"\n")
    assert (parser.error and type(parser.error), len(chunks)) == (IncompleteStreamError, most)
    assert parser.anomalies[0].detail == f"{most} payloads"
    parser, chunks = parsed_with_chunks(line * (most + 1) + b"\n")
    assert_named(parser, "max_event_payloads", most)
    assert len(chunks) == most
    assert parser.anomalies[0].detail == f"more than {most} payloads"


@each_case("begin", [b"", b'"x":"\\ud800",'])  # half a surrogate pair: read by the slow path alone
@patch.object(payload, "MAX_BLOCK_PARTS", 150)
def test_the_payloads_of_a_block_together_have_half_as_many_more(begin: bytes) -> None:
    """Each needs few, so a block of many payloads is read; but a state for each of the parts costs too much."""
    assert part_counts.MAX_BLOCK_PARTS == 3 * PARTS // 2
    calls = b",".join([b"{}"] * 9)
    lines = [b'data: {%b"choices":[{"delta":{"tool_calls":[%b]}}]}\n' % (begin, calls)] * 15
    more = b'data: {%b"choices":[{}]}\n' % begin
    parser = parsed(b"".join(lines) + b"\n")
    assert getattr(parser.error, "limit", None) is None
    parser, chunks = parsed_with_chunks(b"".join([*lines, more]) + b"\n")
    assert_named(parser, "max_event_parts", 150)
    assert len(chunks) == 15


@pytest.mark.parametrize("most", [30, pytest.param(25_000, marks=pytest.mark.slow)])
def test_fields_of_a_wrong_type_are_counted_before_they_are_listed(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert base._MOST_WRONG == 25_000
    monkeypatch.setattr(base, "_MOST_WRONG", most)

    def body(count: int) -> bytes:
        return chunk({**choice(), "logprobs": {"content": [{"token": 1}] * count}})

    parser = parsed(body(most) + HI)
    assert parser.snapshot.text == "Hi"
    assert [(anomaly.rule.id, anomaly.count) for anomaly in parser.anomalies] == [("CF209", most)]
    parser = parsed(body(most + 1) + HI)
    assert (parser.end, parser.snapshot.text) == ("invalid", "")
    assert f"{most} fields of a wrong type" in str(parser.error)
