"""One event: its chunks, an error, or [DONE]; what is repaired, what is refused, and with which words."""

import inspect
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from parsed_bodies import parsed

from chunkfold import (
    APIError,
    ChatCompletionChunk,
    ChatCompletionParser,
    CompletionTokensDetails,
    InvalidChunkError,
    InvalidStreamError,
    LimitExceededError,
    NotAnEventStreamError,
    Payload,
    PromptTokensDetails,
    ServerSentEvent,
    StreamEnd,
    parse_payload,
)
from chunkfold.excerpts import excerpt_of
from chunkfold.testing import HEAD, choice, sse
from chunkfold.wire import reading, repairs

SLOW = "chat.completion.chunk"  # an event of this name is a chunk like any other, but takes the slow path


def compact(value: Any) -> bytes:
    """JSON with every character beyond ASCII as an escape, surrogates among them."""
    return json.dumps(value, separators=(",", ":")).encode()


def parse(data: Any, event: str = "message") -> Payload:
    """What one event gives; bytes are its data as they are."""
    return parse_payload(ServerSentEvent(data if isinstance(data, bytes) else compact(data), event))


def chunk(delta: Any, finish_reason: Any = None, **more: Any) -> dict[str, Any]:
    """A payload of one choice; what is passed by name stands in the choice."""
    return {**HEAD, "choices": [{**choice(finish_reason), "delta": delta, **more}]}


def stream(*payloads: Any) -> bytes:
    return b"".join(sse(*(one if isinstance(one, bytes) else compact(one) for one in payloads)))


def noted(payload: Payload | ChatCompletionParser) -> set[str]:
    """The rules that were noted."""
    if isinstance(payload, Payload):
        return {rule.id for rule, _ in payload.notes}
    return {anomaly.rule.id for anomaly in payload.anomalies}


def refused_by(parser: ChatCompletionParser) -> str:
    """The rule of a stream that strict mode refused."""
    assert (parser.end, type(parser.error)) == (StreamEnd.INVALID, InvalidStreamError)
    return parser.error.rule.id


def dumped(payload: Payload) -> Any:
    """The only chunk, as it was sent."""
    assert payload.error is None
    (one,) = payload.chunks
    return one.model_dump(exclude_unset=True, warnings="error")


# The fast path and the slow one

SAME = [
    pytest.param(compact(chunk({"content": "a"})), id="a chunk"),
    pytest.param(compact(chunk({"content": "a"}, x={"y": [1, None]}) | {"z": 1}), id="unknown fields"),
    pytest.param(compact({"choices": []}), id="no choice"),
    pytest.param(compact({"choices": [{}]}), id="an empty choice"),
    pytest.param(compact({}), id="nothing"),
    pytest.param(compact({**chunk({"content": "a"}), "error": None}), id="error null"),
    pytest.param(compact({**chunk({"content": "a"}), "error": False}), id="error false"),
    pytest.param(compact({**chunk({"content": "a"}), "error": {}}), id="an empty error beside choices"),
    pytest.param(compact({**chunk({"content": "a"}), "error": {"message": "x"}}), id="an error beside choices"),
    pytest.param(compact({**chunk({"content": "a"}), "base_resp": {"status_code": 0}}), id="base_resp of 0"),
    pytest.param(compact({**chunk({"content": "a"}), "base_resp": {"status_code": 1002}}), id="base_resp"),
    pytest.param(compact({**chunk({"content": "a"}), "object": "error", "message": "x"}), id="object error"),
    pytest.param(compact({"object": "error"}), id="object error alone"),
    pytest.param(compact({"object": "error", "param": "x"}), id="object error with a key"),
    pytest.param(compact({**chunk({"content": "a"}), "type": "error"}), id="type error beside choices"),
    pytest.param(compact({**chunk({"content": "a"}), "code": 500}), id="a code beside choices"),
    pytest.param(compact({**HEAD, "choices": [], "code": 500}), id="a code beside no choice"),
    pytest.param(compact(chunk({}, "error")), id="a finish reason that means an error"),
    pytest.param(compact(chunk({}, "ABORT")), id="the same in capitals"),
    pytest.param(compact({"object": "text_completion", "choices": [{"index": 0, "text": "a"}]}), id="another API"),
    pytest.param(compact({**chunk({"content": "a"}, text="b"), "object": "text_completion"}), id="text beside delta"),
    pytest.param(compact({"type": "message_start", "message": {}}), id="a type of another API"),
    pytest.param(b'{"choices":[{"delta":{"content":"a","content":"b"}}],"x":1,"x":2}', id="duplicate keys"),
    pytest.param(b'{"choices":[{"logprobs":{"content":[{"logprob":-Infinity}]}}],"x":Infinity}', id="infinities"),
    pytest.param(b' \n{"choices" :\t[ ] } ', id="blanks"),
]


@each_case("data", SAME)
def test_both_paths_say_the_same(data: bytes) -> None:
    fast, slow = parse(data), parse(data, SLOW)
    assert fast.chunks == slow.chunks
    assert [one.model_dump_json() for one in fast.chunks] == [one.model_dump_json() for one in slow.chunks]
    assert (type(fast.error), str(fast.error), fast.done) == (type(slow.error), str(slow.error), slow.done)


# Keys and values that mean something to one of the paths, in any combination.
_VALUES = {
    "error": [None, False, {}, "", {"message": "x"}],
    "object": [None, "error", "text_completion", "", 5],
    "type": ["error", "response.created", 5],
    "code": [0, 200, 429, "429", "x"],
    "status_code": [0, 503],
    "message": ["x", ""],
    "detail": ["x", [{"msg": "x"}]],
    "base_resp": [{"status_code": 0}, {"status_code": 1002}, "x"],
    "usage": [None, {}, {"total_tokens": 1}],
    "x_groq": [None, {"id": "r"}, {"error": "x"}, {"error": {}}],
    "success": [True, False],
    "errors": [[], ["x"], [{"code": 1, "message": "x"}]],
    "error_code": [0, 5, "E"],
    "Message": ["", "x"],
    "Response": [{"Error": {"Code": "E", "Message": "x"}}, {}],
    "xException": [{"message": "x"}, "x"],
    "id": ["c"],
    "created": [1],
    "choices": [
        *(None, [], [{}], [{"delta": {"content": "a"}}], [{"text": "a"}], [{"finish_reason": "error"}], "x"),
        *([{"error": value}] for value in (None, {}, "x", {"message": "x"})),
    ],
}
_BODIES = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in _VALUES.items()})


@given(_BODIES)
def test_both_paths_say_the_same_of_anything(body: dict[str, Any]) -> None:
    fast, slow = parse(body), parse(body, SLOW)
    assert (type(fast.error), str(fast.error)) == (type(slow.error), str(slow.error))
    assert [one.model_dump(warnings="error") for one in fast.chunks] == [one.model_dump() for one in slow.chunks]


# Every repair


def calls(*fragments: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


def call(arguments: Any) -> dict[str, Any]:
    return {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}


def whole(message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


REPAIRS = [
    # What comes, which plain chunk it is read as, and the rule that is noted.
    pytest.param(
        compact(chunk({"content": "a?"})).replace(b"?", b"\xff"),
        chunk({"content": "a\ufffd"}),
        "CF107",
        id="a byte that is not UTF-8",
    ),
    pytest.param(
        compact(chunk({"content": "a?"})).replace(b"?", b"\xe4\xbd"),
        chunk({"content": "a\ufffd"}),
        "CF107",
        id="a cut character",
    ),
    pytest.param(
        compact(chunk({"content": "a?b"})).replace(b"?", b"\x00\x1b\t"),
        chunk({"content": "a\x00\x1b\tb"}),
        "CF213",
        id="raw control characters",
    ),
    pytest.param([chunk({"content": "a"})], chunk({"content": "a"}), "CF214", id="a list of one chunk"),
    pytest.param(
        {**HEAD, "created": "17", "choices": []}, {**HEAD, "created": 17, "choices": []}, "CF215", id="digits"
    ),
    pytest.param({**HEAD, "created": 17.0, "choices": []}, {**HEAD, "created": 17, "choices": []}, "CF215", id="17.0"),
    pytest.param(chunk({}, index="1"), chunk({}, index=1), "CF215", id="an index in digits"),
    pytest.param(chunk({}, index="\x1c-1\x1f"), chunk({}, index=-1), "CF215", id="an index between blanks"),
    pytest.param(chunk({}, index=1.0), chunk({}, index=1), "CF215", id="an index of 1.0"),
    pytest.param(calls({**call("{}"), "index": "1"}), calls({**call("{}"), "index": 1}), "CF215", id="a call's index"),
    pytest.param(
        {"choices": [], "usage": {"prompt_tokens": "3", "completion_tokens_details": {"reasoning_tokens": 2.0}}},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}}},
        "CF215",
        id="counts",
    ),
    *(
        pytest.param(
            {"choices": [], "usage": {field: dict.fromkeys(details.model_fields, "3")}},
            {"choices": [], "usage": {field: dict.fromkeys(details.model_fields, 3)}},
            "CF215",
            id=f"each count of {field}",
        )
        for field, details in [
            ("prompt_tokens_details", PromptTokensDetails),
            ("completion_tokens_details", CompletionTokensDetails),
        ]
    ),
    pytest.param(calls(None, call("{}"), None), calls(call("{}")), "CF217", id="a null among tool calls"),
    pytest.param({**HEAD, "choices": [None, *calls()["choices"]]}, calls(), "CF217", id="a null among choices"),
    pytest.param({**HEAD, "choices": [None]}, {**HEAD, "choices": []}, "CF217", id="a null as the only choice"),
    pytest.param(chunk({"tool_calls": call("{}")}), calls(call("{}")), "CF313", id="one object as tool calls"),
    pytest.param(chunk({"tool_calls": {}}), calls(), "CF313", id="an empty object as tool calls"),
    pytest.param(calls({**call("{}"), "id": 7}), calls({**call("{}"), "id": "7"}), "CF303", id="a number as id"),
    pytest.param(calls(call({"a": [1]})), calls(call('{"a":[1]}')), "CF310", id="arguments as an object"),
    pytest.param(chunk([]), {**HEAD, "choices": [{"index": 0, "finish_reason": None}]}, "CF209", id="an empty list"),
    pytest.param(chunk(""), {**HEAD, "choices": [{"index": 0, "finish_reason": None}]}, "CF209", id="an empty string"),
]


@each_case(("data", "expected", "rule"), REPAIRS)
def test_repairs(data: Any, expected: Any, rule: str) -> None:
    payload = parse(data)
    assert dumped(payload) == expected
    assert noted(payload) == {rule}
    # Repaired or not, the chunk is the same as one that needed no repair.
    assert payload.chunks == [ChatCompletionChunk.model_validate(expected)]
    strict = parsed(stream(data), strict=True)
    assert refused_by(strict) == rule
    assert rule in str(strict.error)


NULLS = [
    pytest.param({**HEAD, "choices": None}, HEAD, id="choices"),
    pytest.param(chunk(None), {**HEAD, "choices": [{"index": 0, "finish_reason": None}]}, id="delta"),
    pytest.param(chunk({}, index=None), {**HEAD, "choices": [{"delta": {}, "finish_reason": None}]}, id="index"),
]


@pytest.mark.parametrize(("data", "expected"), NULLS)
def test_a_null_is_an_absent_field(data: Any, expected: Any) -> None:
    """The fold notes what is missing (CF201, CF202, CF210), however it is missing."""
    assert parse(data).chunks == parse(expected).chunks == [ChatCompletionChunk.model_validate(expected)]


def test_duplicate_keys_are_what_the_last_says() -> None:
    for event in ("message", SLOW):
        assert dumped(parse(b'{"choices":[{"delta":{"content":"a","content":"b"}}],"x":1,"x":2}', event)) == {
            "choices": [{"delta": {"content": "b"}}],
            "x": 2,
        }


@pytest.mark.parametrize(("word", "value"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)])
def test_no_numbers_are_values(word: str, value: float) -> None:
    """Log probabilities of 0, mostly."""
    data = b'{"choices":[{"logprobs":{"content":[{"logprob":%b}]}}],"x":%b}' % (word.encode(), word.encode())
    for event in ("message", SLOW):
        payload = parse(data, event)
        (one,) = payload.chunks
        for found in (one.choices[0].logprobs.content[0].logprob, one.model_extra["x"]):
            assert found == value or math.isnan(found) is math.isnan(value) is True
        assert noted(payload) == set()


# What is refused, and with which words

LIST_OF_PARTS = "a string or a list of parts"
ESSENTIAL = {
    "choices: object": ({"choices": {}}, "choices", "a list", "dict"),
    "choices: string": ({"choices": "x"}, "choices", "a list", "str"),
    "a choice": ({"choices": ["x"]}, "choices[0]", "an object", "str"),
    "the second choice": ({"choices": [{}, 5]}, "choices[1]", "an object", "int"),
    "index: word": (chunk({}, index="x"), "choices[0].index", "an integer", "str"),
    "index: fraction": (chunk({}, index=1.5), "choices[0].index", "an integer", "float"),
    "index: true": (chunk({}, index=True), "choices[0].index", "an integer", "bool"),
    "index: list": (chunk({}, index=[]), "choices[0].index", "an integer", "list"),
    "finish_reason: number": (chunk({}, 5), "choices[0].finish_reason", "a string", "int"),
    "finish_reason": (chunk({}, {"reason": "stop"}), "choices[0].finish_reason", "a string", "dict"),
    "finish_reason: false": (chunk({}, False), "choices[0].finish_reason", "a string", "bool"),
    "delta: string": (chunk("x"), "choices[0].delta", "an object", "str"),
    "delta: list": (chunk([{}]), "choices[0].delta", "an object", "list"),
    "delta: number": (chunk(5), "choices[0].delta", "an object", "int"),
    "content: number": (chunk({"content": 5}), "choices[0].delta.content", LIST_OF_PARTS, "int"),
    "content: object": (chunk({"content": {}}), "choices[0].delta.content", LIST_OF_PARTS, "dict"),
    "content: true": (chunk({"content": True}), "choices[0].delta.content", LIST_OF_PARTS, "bool"),
    "the second": ({"choices": [{}, {"delta": {"content": 5}}]}, "choices[1].delta.content", LIST_OF_PARTS, "int"),
    "tool_calls": (chunk({"tool_calls": 7}), "choices[0].delta.tool_calls", "a list", "int"),
    "a call": (calls("x"), "choices[0].delta.tool_calls[0]", "an object", "str"),
    "its index": (calls({"index": "x"}), "choices[0].delta.tool_calls[0].index", "an integer", "str"),
    "its id": (calls({"id": ["a"]}), "choices[0].delta.tool_calls[0].id", "a string", "list"),
    "its id: true": (calls({"id": True}), "choices[0].delta.tool_calls[0].id", "a string", "bool"),
    "its function": (calls({"function": "f"}), "choices[0].delta.tool_calls[0].function", "an object", "str"),
    "its custom": (calls({"custom": []}), "choices[0].delta.tool_calls[0].custom", "an object", "list"),
    "a name": (calls({"function": {"name": 5}}), "choices[0].delta.tool_calls[0].function.name", "a string", "int"),
    "arguments: number": (calls(call(5)), "choices[0].delta.tool_calls[0].function.arguments", "a string", "int"),
    "the second call's input":
        (calls(call("{}"), {"custom": {"input": {}}}), "choices[0].delta.tool_calls[1].custom.input", "a string",
         "dict"),
    "a message's content": (whole({"content": {"text": "Hi"}}), "choices[0].message.content", LIST_OF_PARTS, "dict"),
    "a message's calls": (whole({"tool_calls": 7}), "choices[0].message.tool_calls", "a list", "int"),
    "a message's arguments":
        (whole({"tool_calls": [call(5)]}), "choices[0].message.tool_calls[0].function.arguments", "a string", "int"),
}  # fmt: skip


@each_case(("data", "place", "expected", "received"), ESSENTIAL.values(), ids=ESSENTIAL)
def test_an_essential_field_of_a_wrong_type_is_refused(data: Any, place: str, expected: str, received: str) -> None:
    """An error says what was expected, what was received, and where."""
    event = ServerSentEvent(compact(data), offset=1234)
    error = parse_payload(event).error
    assert isinstance(error, InvalidChunkError)
    assert f": {place}: expected {expected}, received {received}" in str(error)
    assert "1234" in str(error).split(":")[0]
    assert error.position == 1234
    assert not error.retryable


NO_OBJECTS = [
    pytest.param(b"5", "int", id="a number"),
    pytest.param(b'"x"', "str", id="a string"),
    pytest.param(b"true", "bool", id="true"),
    pytest.param(b"[]", "list", id="an empty list"),
    pytest.param(b"[{},{}]", "list", id="a list of two"),
    pytest.param(b'["x"]', "list", id="a list of one string"),
    pytest.param(b"[[{}]]", "list", id="a list of a list"),
]


@pytest.mark.parametrize(("data", "received"), NO_OBJECTS)
def test_json_that_is_no_object_is_refused(data: bytes, received: str) -> None:
    error = parse(data).error
    assert isinstance(error, InvalidChunkError)
    assert f"expected a JSON object, received {received}" in str(error)
    assert data.decode() in str(error).replace("\\", "")


def test_a_list_of_many_numbers_is_refused() -> None:
    """It has more values than parts may be in an event, so its parts are counted."""
    error = parse(b"[" + b"1," * 10_000 + b"1]").error
    assert isinstance(error, InvalidChunkError)
    assert "expected a JSON object, received list" in str(error)


@pytest.mark.parametrize("data", [b"garbage", b"{'a': 1}", b"<html>", b'{"choices":[]', b"{,}", b"[DONE", b"\xff"])
def test_text_that_is_no_json_is_refused(data: bytes) -> None:
    error = parse(data).error
    assert isinstance(error, InvalidChunkError)
    assert "expected a JSON object" in str(error)
    assert repr(data.decode("utf-8", "replace"))[1:-1] in str(error)


def deep(levels: int) -> Any:
    """Lists, nested so deep."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_an_anomaly_says_what_was_found() -> None:
    first, *_ = parsed(stream({**chunk({}), "id": "one"}, {**chunk({}), "id": "two"})).anomalies
    assert first.rule.id == "CF205"
    assert "'one'" in first.detail
    assert "'two'" in first.detail


# Surrogate pairs that are split over deltas

Channel = tuple[Callable[[str | None], Any], Callable[[Any], Any]]


def text_of(delta: Any, *path: str | int) -> str:
    """The text at a place in a delta or a message; "" where there is none."""
    for part in path:
        delta = delta[part] if isinstance(part, int) and delta else getattr(delta, str(part), None)
    return delta or ""


CHANNELS: dict[str, Any] = {
    # The delta that brings a text, and where the text stands in a delta and in the message.
    "content": (lambda text: {"content": text}, lambda part: text_of(part, "content")),
    "refusal": (lambda text: {"refusal": text}, lambda part: text_of(part, "refusal")),
    "reasoning": (lambda text: {"reasoning": text}, lambda part: text_of(part, "reasoning")),
    "reasoning_content": (lambda text: {"reasoning_content": text}, lambda part: text_of(part, "reasoning_content")),
    "reasoning_details: text":
        (lambda text: {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]},
         lambda part: (text_of(part, "reasoning_details", 0) or {}).get("text") or ""),
    "reasoning_details: summary":
        (lambda text: {"reasoning_details": [{"type": "reasoning.summary", "summary": text}]},
         lambda part: (text_of(part, "reasoning_details", 0) or {}).get("summary") or ""),
    "arguments":
        (lambda text: {"tool_calls": [{"index": 3, "id": "a", "function": {"arguments": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "function", "arguments")),
    "arguments, by id":
        (lambda text: {"tool_calls": [{"id": "a", "function": {"arguments": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "function", "arguments")),
    "input of a custom tool":
        (lambda text: {"tool_calls": [{"index": 3, "custom": {"input": text}}]},
         lambda part: text_of(part, "tool_calls", 0, "custom", "input")),
    "function_call":
        (lambda text: {"function_call": {"arguments": text}}, lambda part: text_of(part, "function_call", "arguments")),
    "transcript": (lambda text: {"audio": {"transcript": text}}, lambda part: text_of(part, "audio", "transcript")),
}  # fmt: skip
PIECES = [
    pytest.param(["a\ud83d", "\ude00b"], "a\U0001f600b", id="split once"),
    pytest.param(["\ud83d", "\ude00\ud83d", "\ude01"], "\U0001f600\U0001f601", id="split twice"),
    pytest.param(["\ud83d", "", None, "\ude00"], "\U0001f600", id="nothing between"),
    pytest.param(["\ud83d\ude00"], "\U0001f600", id="not split"),
    pytest.param(["a\ud83d"], "a\ufffd", id="the first half at the end"),
    pytest.param(["a\ud83d", "b"], "a\ufffdb", id="the first half alone"),
    pytest.param(["a", "\ude00b"], "a\ufffdb", id="the second half alone"),
    pytest.param(["\ud83d", "\ud83d", "\ude00"], "\ufffd\U0001f600", id="the first half twice"),
    pytest.param(["a\ud83db", "\ude00"], "a\ufffdb\ufffd", id="something between"),
]


@each_case(("pieces", "expected"), PIECES)
@each_case(("sent", "found"), CHANNELS.values(), ids=CHANNELS)
def test_halves_are_joined(sent: Any, found: Any, pieces: list[str | None], expected: str) -> None:
    """What is handed out has whole characters only, and adds up to the message."""
    parser = ChatCompletionParser()
    chunks = [one for data in sse(*(compact(chunk(sent(piece))) for piece in pieces)) for one in parser.feed(data)]
    texts = [found(choice.delta) for one in chunks for choice in one.choices]
    assert "".join(texts) == expected
    assert found(parser.snapshot.message) == expected
    assert "".join(texts).encode().decode() == expected  # no half anywhere
    if all(piece is None or piece.isascii() or piece == "\U0001f600" for piece in pieces):
        assert "CF211" not in noted(parser)
    elif pieces != ["\ud83d\ude00"]:
        assert "CF211" in noted(parser)


def test_halves_at_the_end_of_a_list_are_kept_in_both_channels() -> None:
    parts = [{"type": "thinking", "thinking": "a\ud83d"}, {"type": "text", "text": "b\ud83d"}]
    parser = parsed(stream(chunk({"content": parts})))
    assert (parser.snapshot.message.reasoning, parser.snapshot.text) == ("a\ufffd", "b\ufffd")


def test_channels_do_not_mix() -> None:
    """Choices, fields, calls and details that speak in turns, each cut between the halves of another character."""

    def say(half: int) -> list[dict[str, Any]]:
        def text(place: int) -> str:
            return ("\ud83d", chr(0xDE00 + place))[half]

        deltas = [
            {"content": text(0)},
            {"reasoning": text(1)},
            {"refusal": text(2)},
            {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": text(3)}}]},
            {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "f", "arguments": text(4)}}]},
            {"tool_calls": [{"index": 2, "id": "c", "custom": {"name": "f", "input": text(5)}}]},
        ]
        return [*map(chunk, deltas), chunk({"content": text(6)}, index=1), chunk({"content": text(7)}, index=2)]

    parser = parsed(stream(*say(0), *say(1)))
    first, second, third = parser.snapshot.choices
    assert (first.message.content, first.message.reasoning, first.message.refusal) == ("😀", "😁", "😂")
    assert [one.arguments for one in first.message.tool_calls] == ["😃", "😄", "😅"]
    assert (second.message.content, third.message.content) == ("😆", "😇")


def test_a_held_half_is_not_lost_at_any_end() -> None:
    for tail in (b"", b"data: [DONE]\n\n", b'data: {"error":{"message":"x"}}\n\n', b"data: garbage\n\n"):
        parser = ChatCompletionParser()
        chunks = parser.feed(stream(chunk({"content": "a\ud83d"})).removesuffix(b"data: [DONE]\n\n"))
        chunks += parser.feed(tail) + parser.close()
        assert "".join(one.text for one in chunks) == parser.snapshot.text == "a\ufffd"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({**chunk({}), "id": "c\ud83d", "model": "\ude00"}, id="id and model"),
        pytest.param(chunk({"role": "\ud83d"}, "\ude00"), id="role and finish reason"),
        pytest.param(calls({"index": 0, "id": "\ud83d", "function": {"name": "\ude00"}}), id="a call's id and name"),
        pytest.param({**chunk({"x": ["\ud83d"]}), "y": {"\ud83d": "\ude00"}}, id="unknown values"),
        pytest.param({**chunk({}), "\ude00": 1}, id="an unknown key of the chunk"),
        pytest.param(chunk({"\ude00": 1}), id="an unknown key of the delta"),
        pytest.param(chunk({}, logprobs={"content": [{"token": "\ud83d"}]}), id="a token"),
    ],
)
def test_elsewhere_a_half_is_replaced(payload: Any) -> None:
    """Nothing tells what would continue it there."""
    parser = ChatCompletionParser()
    (one,) = parser.feed(stream(payload).removesuffix(b"data: [DONE]\n\n"))
    assert "\ufffd" in one.model_dump_json().encode().decode()
    assert "\ufffd" in parser.snapshot.model_dump_json().encode().decode()


def test_one_event_alone_keeps_the_half_at_its_edge() -> None:
    """`parse_payload` knows no other event; the parser does."""
    payload = parse(chunk({"content": "a\ud83d"}))
    assert payload.chunks[0].text == "a\ud83d"
    assert noted(payload) == {"CF211"}


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


def test_a_name_makes_no_arguments() -> None:
    """Arguments are those of a function; the same key elsewhere is unknown like any other."""
    for payload in (chunk({"arguments": deep(201)}), calls({"index": 0, "arguments": deep(201)})):
        assert noted(parse(payload)) == {"CF212"}


@pytest.mark.parametrize("value", [deep(201), {"a": deep(200)}, [1, {"a": deep(199)}]])
def test_objects_and_lists_count_alike(value: Any) -> None:
    assert "CF212" in noted(parse({"choices": [], "x": value}))


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


@pytest.mark.parametrize("text", ["[" * 10_000, '\\"' + "{" * 10_000, '"[' * 10_000, "\\" * 9_999])
def test_brackets_in_text_have_no_depth(text: str) -> None:
    for event in ("message", SLOW):
        assert dumped(parse(chunk({"content": text}), event)) == chunk({"content": text})


def test_an_error_may_be_deep() -> None:
    error = parse({"error": {"message": "x", "code": 429, "metadata": deep(300)}}).error
    assert isinstance(error, APIError)
    assert error.status_code == 429


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


def test_what_spells_a_number_under_an_unknown_key_is_kept_as_it_is() -> None:
    unknown = {"x": {"index": "5", "y": [{"created": "5"}]}}
    payload = parse({**HEAD, **unknown, "created": "5", "choices": []})
    assert dumped(payload) == {**HEAD, **unknown, "created": 5, "choices": []}


# What providers do to events and blocks

A, B = chunk({"content": "a"}), chunk({"content": "b"}, "stop")

SKIPPED = [
    pytest.param(b"data:\n\n", "CF103", id="3 an empty data line"),
    pytest.param(b"data\n\n", "CF103", id="3 without a colon"),
    pytest.param(b"data:  \t\n\n", "CF103", id="3 blanks"),
    pytest.param(b"data:\ndata:\n\n", "CF103", id="3 two empty data lines"),
    pytest.param(b"data: : keepalive\n\n", "CF104", id="4 a comment inside data"),
    pytest.param(b"data: :\n\n", "CF104", id="4 an empty one"),
    pytest.param(b"data: null\n\n", "CF105", id="5 null"),
    pytest.param(b'event: meta\ndata: {"foo":1}\n\n', "CF106", id="6 another event"),
    pytest.param(b"event: keepalive\ndata: {}\n\n", "CF106", id="6 an empty object"),
    pytest.param(b"event: keepalive\ndata: ping\n\n", "CF106", id="6 that is no JSON"),
    pytest.param(b"event: x\ndata: [1,2]\n\n", "CF106", id="6 nor an object"),
    pytest.param(b'event: x\ndata: {"object":"error","message":"m"}\n\n', "CF106", id="6 envelope 4, object"),
    pytest.param(b'event: x\ndata: {"type":"error","message":"m"}\n\n', "CF106", id="6 envelope 4, type"),
    pytest.param(b'event: x\ndata: {"code":500}\n\n', "CF106", id="6 envelope 7, code"),
    pytest.param(b'event: x\ndata: {"message":"m","code":500}\n\n', "CF106", id="6 envelope 7, code and message"),
    pytest.param(b'event: x\ndata: {"detail":"m"}\n\n', "CF106", id="6 envelope 7, detail"),
    pytest.param(b'event: x\ndata: {"message":"m"}\n\n', "CF106", id="6 envelope 7, message"),
    pytest.param(b'event: x\ndata: [{"error":{"message":"m"}}]\n\n', "CF106", id="6 envelope 8"),
    pytest.param(b' data: {"choices":5}\n\n', "CF110", id="nearly data: a blank before it"),
    pytest.param(b'\xef\xbb\xbfdata: {"choices":5}\n\n', "CF110", id="nearly data: a BOM before it"),
    pytest.param(b'Data: {"choices":5}\n\n', "CF110", id="nearly data: a capital"),
    pytest.param(b': a\n\n{"choices":5}\n\n', "CF110", id="nearly data: no field"),
    pytest.param(b'data : {"choices":5}\n\n', "CF110", id="nearly data: a blank behind it"),
    pytest.param(b"DATA : [DONE]\n\n", "CF110", id="nearly data: [DONE]"),
    pytest.param(b"data: data:\n\n", "CF111", id="the prefix twice, no data"),
    pytest.param(b'data: {"status":"ok"}\n\n', "CF219", id="an object that nobody can explain"),
]


@each_case(("block", "rule"), SKIPPED)
def test_what_is_skipped_and_noted(block: bytes, rule: str) -> None:
    first, second, done = sse(A, B)
    parser = parsed(first + block + second + done)
    assert parser.completion().text == "ab"
    assert noted(parser) == {rule} | ({"CF103"} if block == b"data: data:\n\n" else set())
    strict = parsed(first + block + second + done, strict=True)
    assert (refused_by(strict), strict.snapshot.text) == (rule, "a")


def test_what_is_nearly_data_is_noted_in_its_place() -> None:
    first, second, done = sse(A, B)
    body = first + b" data: {}\n\ndata: null\n\nData: {}\n\nerror: {}\n\n" + second + done
    for size in (None, 1):
        parser = parsed(body, size)
        found = [(one.rule.id, one.count, one.offset) for one in parser.anomalies]
        after = len(first)
        assert found[:2] == [("CF110", 2, after), ("CF105", 1, after + 11)]
        assert (parser.end, parser.snapshot.text) == ("failed", "a")


def test_a_body_of_what_is_nearly_data_is_no_event_stream() -> None:
    body = b"".join(b" " + block for block in sse(A, B))
    parser = parsed(body)
    assert (parser.end, type(parser.error), noted(parser)) == ("invalid", NotAnEventStreamError, {"CF110"})
    assert refused_by(parsed(body, strict=True)) == "CF110"


def test_arguments_that_come_as_a_value_are_bounded() -> None:
    """As text they take several times as much memory as they were sent in."""

    def fragment(characters: int) -> bytes:
        arguments = {"a": "\x01" * (characters - 2)}  # the object and its key count one each
        return compact(
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]})
        )

    assert parse(fragment(2**21)).error is None
    error = parse(fragment(2**21 + 1)).error
    assert isinstance(error, LimitExceededError)
    assert (error.limit, error.value) == ("max_arguments_values", 2**21)
    function = {"name": "f", "arguments": {"a": "x" * 2**19}}
    several = chunk({"tool_calls": [{"index": at, "function": function} for at in range(4)]})
    assert type(parse(several).error) is LimitExceededError
    parser = parsed(sse(A)[0] + b"data: " + fragment(2**21 + 1) + b"\n\n")
    assert (parser.end, parser.snapshot.text, type(parser.error)) == ("invalid", "a", LimitExceededError)


def test_numbers_where_a_call_has_text_are_bounded_by_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing an integer takes the square of its digits."""
    monkeypatch.setattr(repairs, "MAX_ARGUMENTS_VALUES", repairs.MAX_ARGUMENTS_VALUES // 50)

    def error_of(calls: list[Any]) -> Any:
        return parse(compact(chunk({"tool_calls": calls}))).error

    number = int("9" * 4000)
    one = {"name": "f", "arguments": {"a": [number] * 20}}
    assert error_of([{"index": 0, "id": number}] * 20) is None
    assert error_of([{"index": 0, "function": one}]) is None
    many_ids = error_of([{"index": 0, "id": number}] * 26)
    many_arguments = error_of([{"index": at, "function": one} for at in range(2)])
    assert many_ids.limit == many_arguments.limit == "max_arguments_values"


@each_case("tail", [b"", b"\\x", b'"', b'",}', b'"]', b'","b":01}', b'",b:1}', b'""b":1}', b'"} x'])
def test_large_data_that_nothing_can_repair_is_not_read_twice(tail: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second reading would take memory, and find nothing else."""
    small, large = (b'{"a":"' + b"x" * size + tail for size in (10, 2**20))
    found = [type(parse(data).error) for data in (small, large)]
    assert found == [InvalidChunkError] * 2
    with monkeypatch.context() as patch:
        patch.delattr(reading, "_loads")
        assert "received text that is not JSON" in str(parse(large).error)
        with pytest.raises(NameError):
            parse(small)


@each_case("text", ["\x01", "\\ud83d", "\\ud83d\\u0041", "\\ude00"])
def test_large_data_that_can_be_repaired_is(text: str) -> None:
    payload = parse(b'{"choices":[{"delta":{"content":"' + b"x" * 2**20 + text.encode() + b'"}}]}')
    assert payload.error is None
    assert len(payload.chunks[0].text) in {2**20 + 1, 2**20 + 2}


MISSING = [
    pytest.param(b"%b\n\n", id="a block of its own"),
    pytest.param(b"id: 1\n%b\n\n", id="after another field"),
    pytest.param(b"\n%b\r\n\r\n", id="other line ends"),
]


@each_case("block", MISSING)
@each_case("before", [b"", b": ping\n\n", stream(A).removesuffix(sse()[0])])
def test_a_chunk_without_the_field_is_read(block: bytes, before: bytes) -> None:
    """Higress loses `data: ` now and then; the text was lost with it."""
    bare, done = block % compact(B), sse()[0]
    for body in (before + bare + stream(A), before + stream(A).removesuffix(done) + bare + done):
        for size in (len(body), 1, 5):
            parser = ChatCompletionParser()
            chunks = [chunk for at in range(0, len(body), size) for chunk in parser.feed(body[at : at + size])]
            assert sorted(chunk.text for chunk in chunks) == sorted(parser.completion().text)
            assert parser.completion().text.count("b") == 1
            assert noted(parser) & {"CF110", "CF109"}


def test_a_chunk_without_the_field_is_told_to_the_callback_and_refused_by_strict_mode() -> None:
    told: list[tuple[bytes, int]] = []
    parser = ChatCompletionParser(on_server_sent_event=lambda event, chunks: told.append((event.data, len(chunks))))
    first, second, done = sse(A, B)
    parser.feed(first + second.removeprefix(b"data: ") + done)
    assert told == [(compact(A), 1), (compact(B), 1), (b"[DONE]", 0)]
    assert refused_by(parsed(first + second.removeprefix(b"data: ") + done, strict=True)) == "CF110"


@pytest.mark.parametrize(("more", "count"), [({"choices": []}, 1), ({}, 0)])
def test_an_error_with_usage_is_a_chunk_if_it_has_choices(more: dict[str, Any], count: int) -> None:
    payload = parse({"error": {"message": "m"}, "usage": {"prompt_tokens": 1}, **more})
    assert (len(payload.chunks), str(payload.error)) == (count, "m")


@each_case("before", [b"", b"data:\n", b": ping\n\n", b"event: message\n"])
@each_case("size", [1, 10**6])
def test_so_is_the_first_chunk(before: bytes, size: int) -> None:
    """Was once wrong: it was not told, although it counted as emitted."""
    told: list[str] = []
    _, second, done = sse(A, B)
    body = before + compact(A) + b"\n\n" + second + done
    parsed(body, size, on_server_sent_event=lambda _, chunks: told.extend(one.text for one in chunks))
    assert told == ["a", "b"]


NEARLY_FIRST = 2 * b'Data: {"choices":[]}\n\n' + b"%b\n\ndata: [DONE]\n\n"


@each_case(
    ("bare", "rules"),
    [(compact(A), ["CF110", "CF109", "CF502"]), (b'{"error":{"message":"overloaded"}}', ["CF110", "CF607"])],
)
@each_case("size", [1, 30, 1000])
def test_what_comes_before_a_stream_is_noted_in_its_order(bare: bytes, rules: list[str], size: int) -> None:
    """Was once wrong in one read: JSON without the field was read before the line that is nearly `data` was noted."""
    body = NEARLY_FIRST % bare
    parser, strict = (parsed(body, size, strict=strict) for strict in (False, True))
    assert [anomaly.rule.id for anomaly in parser.anomalies] == rules
    assert "CF110" in str(strict.error)
    assert strict.snapshot.text == ""


def test_a_last_chunk_without_the_field_and_without_choices_is_read() -> None:
    trailer = {**HEAD, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    first, second, done = sse(A, B)
    assert parsed(first + second + compact(trailer) + b"\n\n" + done).completion().usage.total_tokens == 3


FIRST, SECOND, END = sse(A, B)
COMPLETION = {**HEAD, "object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
# What comes, how it ends, the text, and all rules that are noted. Of JSON that lost its field, of what stands before the
# stream and of the last block, text or the whole stream was once lost.
FRAMES = {
    "nearly data that is text": (FIRST + b" data: text\n\n" + SECOND + END, "finished", "ab", ""),
    "nearly data that is a number": (FIRST + b"Data: 5\n\n" + SECOND + END, "finished", "ab", ""),
    "nearly data that is a list": (FIRST + b"data : [1]\n\n" + SECOND + END, "finished", "ab", "CF219"),
    "broken JSON that is nearly data": (FIRST + b'Data: {"choices": [\n\n' + END, "truncated", "a", "CF219"),
    "broken JSON without the field": (FIRST + b'{"choices": [\n\n' + END, "truncated", "a", "CF219"),
    "chunks in a list in several lines without the field":
        (FIRST + json.dumps([B, B], indent=1).encode() + b"\n\n" + END, "truncated", "a", "CF219"),
    "data in quotes": (FIRST + b'"data": {}\n\n' + SECOND + END, "finished", "ab", ""),
    "each line of a block that lost its fields, and [DONE]":
        (FIRST + b"\n".join([compact(B), compact(A), b"[DONE]"]) + b"\n\n" + SECOND, "finished", "aba", "CF110 CF505"),
    "[DONE] that lost its field": (FIRST + b"[DONE]\n\n", "done", "a", "CF110 CF502"),
    "a line of the last block that lost its field":
        (b": ping\n\n" + FIRST.rstrip() + b"\n" + compact(B), "finished", "ab", "CF101 CF110 CF501"),
    "a line of the last block that lost its field, and a line end":
        (b": ping\n\n" + FIRST.rstrip() + b"\n" + compact(B) + b"\n", "finished", "ab", "CF101 CF110 CF501"),
    "a line of the last block that lost its field, and a blank line":
        (b": ping\n\n" + FIRST.rstrip() + b"\n" + compact(B) + b"\n\n", "finished", "ab", "CF110 CF501"),
    "a line of the last block before one with the field":
        (b": ping\n\n" + compact(A) + b"\n" + SECOND.rstrip(), "finished", "ab", "CF101 CF109 CF501"),
    "a line of the last block before one with the field, and a line end":
        (b": ping\n\n" + compact(A) + b"\n" + SECOND.rstrip() + b"\n", "finished", "ab", "CF101 CF109 CF501"),
    "a line of the last block before one with the field, and a blank line":
        (b": ping\n\n" + compact(A) + b"\n" + SECOND, "finished", "ab", "CF109 CF501"),
    "a chunk behind [DONE] in the last block": (FIRST + b"data: [DONE]\n" + compact(B), "done", "a", "CF101 CF502"),
    "other JSON without the field: no choices":
        (FIRST + compact({"choices": []}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: a text":
        (FIRST + compact({"choices": [{"text": "b"}]}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: a choice that is none":
        (FIRST + compact({"choices": ["b"]}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "other JSON without the field: usage":
        (FIRST + compact({"usage": {"total_tokens": 5}}) + b"\n\n" + SECOND + END, "finished", "ab", "CF110"),
    "the prefix twice, each time": (b"data: " + FIRST + b"data: data: [DONE]\n\n", "done", "a", "CF111 CF502"),
    "twice without blanks": (b"data:data:" + compact(A) + b"\n\n" + END, "done", "a", "CF111 CF502"),
    "twice, and lost blank lines":
        (b"data: " + FIRST.rstrip() + b"\ndata: data: [DONE]\n\n", "done", "a", "CF102 CF111 CF502"),
    "twice, not ended": (b"data: " + FIRST.rstrip(), "truncated", "a", "CF101 CF111"),
    "twice, cut": (b'data: data: {"choi', "empty", "", ""),
    "three times: only one is taken off": (b"data: data: " + FIRST, "invalid", "", "CF111"),
    "twice before text": (b"data: data: hello\n\n", "invalid", "", "CF111"),
    "any number of times": (b"data: " * 5001 + b"\n\n", "invalid", "", "CF111"),
    "a completion before the stream": (compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion over lines":
        (json.dumps(COMPLETION, indent=2).encode() + b"\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion with CRLF": (b"\r\n" + compact(COMPLETION) + b"\r\n\r\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion after a comment":
        (b": ping\n\n" + compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion after a field":
        (b"retry: 5\n" + compact(COMPLETION) + b"\n\n" + END, "finished", "Hi", "CF109 CF210"),
    "a completion without choices": (compact({**COMPLETION, "choices": []}), "empty", "", "CF109"),
    "an error before the stream": (compact({"error": {"message": "x"}}) + b"\n\n" + END, "failed", "", "CF607"),
    "an error, a comment and chunks":
        (compact({"error": {"message": "x"}}) + b"\n\n: ping\n\n" + FIRST + END, "failed", "", "CF607"),
    "what may be no error": (compact({"message": "starting"}) + b"\n\n" + END, "empty", "", ""),
    "several objects": (b'{"a":1}\n{"b":2}\n' + END, "empty", "", ""),
    "text before the stream": (b"Starting\n" + END, "empty", "", ""),
    "what may be no error, and chunks":
        (compact({"message": "starting"}) + b"\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "text, and chunks": (b"Starting\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "a comment of HTML, and chunks": (b"<!-- a -->\n\n" + FIRST + SECOND + END, "finished", "ab", ""),
    "a chunk without the field before the stream":
        (b"Starting\n" + compact(A) + b"\n\n" + SECOND + END, "finished", "ab", "CF109"),
    "a chunk without the field and a comment before the stream":
        (b"Starting\n" + compact(A) + b"\n\n: ping\n\n" + SECOND + END, "finished", "ab", "CF109"),
    "a chunk without the field and a line of no field before the stream":
        (b"Starting\n" + compact(A) + b"\n\nretry : 5\n" + SECOND + END, "finished", "ab", "CF109"),
    "two chunks without the field before the stream":
        (b"Starting\n" + 2 * (compact(A) + b"\n\n") + SECOND + END, "finished", "aab", "CF109 CF110"),
    "a chunk in several lines without the field":
        (FIRST + json.dumps(B, indent=1).encode() + b"\n\n", "finished", "ab", "CF110 CF501"),
    "a chunk in several lines without the field and a blank line":
        (FIRST + json.dumps(B, indent=1).encode() + b"\n", "finished", "ab", "CF110 CF501"),
    "a chunk in several lines without the field and a line end":
        (FIRST + json.dumps(B, indent=1).encode(), "finished", "ab", "CF110 CF501"),
    "JSON in several lines that is no chunk": (FIRST + b'{\n"a": 1\n}\n\n', "truncated", "a", "CF110"),
    "a completion after keep-alives, its line not ended":
        (b": ping\n\n" + compact(COMPLETION), "finished", "Hi", "CF109 CF210 CF501"),
    "a completion after keep-alives, its line ended":
        (b": ping\n\n" + compact(COMPLETION) + b"\n", "finished", "Hi", "CF109 CF210 CF501"),
    "a completion after keep-alives, and a blank line":
        (b": ping\n\n" + compact(COMPLETION) + b"\n\n", "finished", "Hi", "CF109 CF210 CF501"),
    "a completion after a chunk": (b": ping\n\n" + FIRST + compact(COMPLETION), "truncated", "a", "CF110"),
    "broken JSON of an error": (FIRST + b'data: {"error": "not "int""}\n\n', "failed", "a", "CF609"),
    "broken JSON of an error, its line ended":
        (FIRST + b'data: {"error": "not "int""}\n', "failed", "a", "CF101 CF609"),
    "broken JSON of an error, cut": (FIRST + b'data: {"error": "not "int""}', "truncated", "a", ""),
}  # fmt: skip


@each_case(("body", "end", "text", "rules"), FRAMES.values(), ids=FRAMES)
@each_case("size", [None, 1, 5])
def test_what_comes_without_its_field_twice_or_before_the_stream(
    body: bytes, end: str, text: str, rules: str, size: int | None
) -> None:
    parser = parsed(body, size)
    assert (parser.end, parser.snapshot.text, sorted(noted(parser))) == (end, text, rules.split())
    assert parser.snapshot.usage is None


@pytest.mark.parametrize(("body", "end"), [(COMPLETION, "finished"), ({"error": {"message": "x"}}, "failed")])
def test_a_large_body_of_json_in_lines_behind_a_comment_is_read(body: dict[str, Any], end: str) -> None:
    """Was once wrong: it was lost, and the stream was `empty`."""
    sent = b": ping\n\n" + json.dumps({**body, "padding": ["a" * 20] * 30_000}, indent=1).encode()
    assert parsed(sent).end == end
    assert parsed(sent.replace(b'"a', b'"' + b"a" * 20)).end == "empty"  # past a MiB it is not read


PADDING = b'"padding": [\n' + b'"aaaaaaaaaaaaaaaaaaaa",\n' * 50_000 + b"0\n]\n}\n\n"
UNREAD = [
    b'{\n"error": {"message": "x"},\n' + PADDING,
    b'{\n"choices": [],\n' + PADDING,
    b"{\n" + b'"a": 1,\n' * 2**18 + b"\n",
    b'{"a": [' + b"0," * 300_000 + b"0]}\n\n",
    b'{\n"a": [' + b"0," * 300_000 + b"0]\n}\n\n",
    b'data : {"a": [' + b"0," * 300_000 + b"0]}\n\n",
    b'{"error": {"message": "boom\n\n',
    b'{\n"error": {"message": "boom\n\n',
    b'error: {"error": {"message": "boom\n\n',
]


@pytest.mark.parametrize("unread", UNREAD, ids=[repr(one[:40]) for one in UNREAD])
def test_json_without_the_field_that_cannot_be_read_is_unexplained(unread: bytes) -> None:
    """Was once wrong: it was ignored without a note, and a `[DONE]` after it made the stream `done`."""
    first, done = sse(A)
    for size in (2**16, 2**24):
        parser = parsed(first + unread + done, size)
        assert (parser.end, noted(parser)) == ("truncated", {"CF219"})
        assert excerpt_of(unread.removeprefix(b"error: ").removeprefix(b"data : "))[:12] in str(parser.error)
        assert parsed(first + unread + done, size, strict=True).end == "invalid"
        assert parsed(first + unread + sse(B)[0] + done, size).end == "finished"


@pytest.mark.parametrize("data", [b'{"id":"1","logprodata: {"id":"2"}', b"[HEARTBEAT]", b"OK"])
def test_what_has_no_clear_meaning_stays_invalid(data: bytes) -> None:
    """A line spliced into another, words as keep-alives."""
    payload = parse(data)
    assert isinstance(payload.error, InvalidChunkError)
    assert data.decode() in str(payload.error)
    assert payload.notes == []


@pytest.mark.parametrize("name", ["message", "chat.completion.chunk", "meta"])
def test_an_event_of_any_name_may_be_a_chunk(name: str) -> None:
    payload = parse(A, name)
    assert dumped(payload) == A
    assert noted(payload) == set()


@pytest.mark.parametrize("body", [{"error": {"message": "m"}}, {"error": "m"}, {"base_resp": {"status_code": 1}}])
def test_an_event_of_any_name_may_be_an_error(body: Any) -> None:
    assert isinstance(parse(body, "meta").error, APIError)


def lines(*values: Any) -> bytes:
    """One block with a data line for each value, joined as its event has them."""
    return b"\n".join(value if isinstance(value, bytes) else compact(value) for value in values)


SEVERAL = [
    # The lines of one block; the texts of its chunks; the error; whether it was [DONE].
    pytest.param(lines(A, B), ["a", "b"], None, False, id="15 two chunks"),
    pytest.param(lines(A, B, b"[DONE]"), ["a", "b"], None, True, id="15 and [DONE]"),
    pytest.param(lines(A, b"", B), ["a", "b"], None, False, id="15 an empty line between"),
    pytest.param(lines(A, b"null", b": ping", B), ["a", "b"], None, False, id="15 keep-alives between"),
    pytest.param(lines(A, b"garbage", B), ["a"], InvalidChunkError, False, id="15 up to the first that is invalid"),
    pytest.param(lines(A, b'{"choi', B), ["a"], InvalidChunkError, False, id="15 or cut"),
    pytest.param(lines(A, {"error": {"message": "x"}}, B), ["a"], APIError, False, id="15 or an error"),
    pytest.param(lines({"error": {"message": "x"}}, A), [], APIError, False, id="15 an error first"),
    pytest.param(lines(A, b"[DONE]", B), ["a"], None, True, id="15 [DONE] ends it"),
    pytest.param(lines(b"[DONE]", B), [], None, True, id="15 also as the first"),
    pytest.param(lines(A, {"choices": 5}, B), ["a"], InvalidChunkError, False, id="15 or no chunk"),
    pytest.param(lines(b"garbage", A), [], InvalidChunkError, False, id="15 the first line decides"),
    pytest.param(lines([A], [B], b"[DONE]"), ["a", "b"], None, True, id="15 and 35, chunks in lists"),
    pytest.param(lines([{"error": {"message": "x"}}], b"[DONE]"), [], APIError, False, id="15 and 35, an error"),
    pytest.param(lines(b"[]", A), [], InvalidChunkError, False, id="15 and must be an object"),
]


@each_case(("data", "texts", "error", "done"), SEVERAL)
def test_several_payloads_in_one_block(data: bytes, texts: list[str], error: Any, done: bool) -> None:
    payload = parse(data)
    assert [one.text for one in payload.chunks] == texts
    assert (type(payload.error) if payload.error else None, payload.done) == (error, done)
    is_split = not data.startswith((b"garbage", b"[]"))
    assert ("CF102" in noted(payload)) is is_split


OTHER_APIS = [
    pytest.param("response.created", {"type": "response.created"}, "/responses", id="98 Responses API"),
    pytest.param("response.output_text.delta", {"delta": "a"}, "/responses", id="98 its text"),
    pytest.param("message", {"type": "response.created", "response": {}}, "/responses", id="98 without a name"),
    pytest.param(
        "message", {"type": "response.output_text.delta", "delta": "a"}, "/responses", id="98 its text without a name"
    ),
    pytest.param("message_start", {"type": "message_start", "message": {}}, "/messages", id="98 Messages API"),
    pytest.param("content_block_delta", {"type": "content_block_delta"}, "/messages", id="98 its text"),
    pytest.param("message", {"type": "message_start", "message": {}}, "/messages", id="98 without a name"),
    pytest.param("message", {"type": "response.created", "message": "x"}, "/responses", id="98 with a message"),
    pytest.param("message", {"type": "response.failed", "code": 500}, "/responses", id="98 with a code"),
    pytest.param(
        "message", {"object": "text_completion", "choices": [{"index": 0, "text": "a"}]}, "/completions", id="98 legacy"
    ),
    pytest.param(
        "message",
        {"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        "/completions",
        id="98 legacy, without text",
    ),
    pytest.param(
        "message",
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "text": "a"}]},
        "/completions",
        id="98 with the object of a chunk",
    ),
]


@pytest.mark.parametrize(("name", "body", "api"), OTHER_APIS)
def test_another_api_is_named(name: str, body: Any, api: str) -> None:
    payload = parse(body, name)
    assert isinstance(payload.error, InvalidChunkError)
    assert api in str(payload.error)
    assert "expected chunks of the chat completions API, received" in str(payload.error)
    assert noted(payload) == set()


def test_text_beside_a_delta_is_only_an_extra() -> None:
    for kind in ("chat.completion.chunk", "text_completion"):
        payload = parse({**chunk({"content": "a"}, text="b"), "object": kind})
        assert payload.error is None
        assert payload.chunks[0].text == "a"
        assert payload.chunks[0].choices[0].model_extra == {"text": "b"}


def test_an_empty_text_in_a_chunk_is_no_other_api() -> None:
    body = {**HEAD, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
    assert dumped(parse(body)) == body


def test_an_object_alone_is_no_other_api() -> None:
    body = {**chunk({}, "stop"), "object": "text_completion"}
    assert dumped(parse(body)) == body
    del body["choices"][0]["delta"]  # neither delta nor text
    assert dumped(parse(body)) == body


@each_case(
    ("fragments", "expected"),
    [
        # (index, id, arguments); what is None is not sent.
        pytest.param([(0, "a", '"\ud83d'), (None, "a", '\ude00"')], ['"😀"'], id="by index, then by id"),
        pytest.param([(0, "a", '"'), (None, None, "\ud83d"), (0, None, '\ude00"')], ['"😀"'], id="by neither"),
        pytest.param([(0, "a", "\ud83d"), (0, "b", "\ude00")], ["\ufffd", "\ufffd"], id="a new call, the same index"),
        pytest.param(
            [(None, "a", "\ud83d"), (None, "b", "\ud83d"), (None, "a", "\ude00"), (None, "b", "\ude01")],
            ["😀", "😁"],
            id="two calls that only ids tell apart",
        ),
    ],
)
def test_halves_go_to_the_call_of_their_fragment(fragments: list[Any], expected: list[str]) -> None:
    """Which call a fragment belongs to is the same question for half a character."""
    payloads, known = [], set()
    for index, id_, arguments in fragments:
        name = {} if id_ in known or id_ is None else {"name": f"f_{id_}"}
        known.add(id_)
        keys = {"index": index, "id": id_, "function": {**name, "arguments": arguments}}
        payloads.append(calls({key: value for key, value in keys.items() if value is not None}))
    assert [one.arguments for one in parsed(stream(*payloads)).snapshot.tool_calls] == expected


@each_case(
    ("sent", "view"),
    [
        (lambda half: {"content": [{"type": "text", "text": half}]}, "text"),
        (lambda half: {"content": [{"type": "thinking", "thinking": half}]}, "reasoning"),
        (lambda half: {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": half}]}]}, "reasoning"),
        (lambda half: {"reasoning_details": [None, {"type": "reasoning.text", "text": half}]}, "reasoning"),
    ],
)
def test_halves_in_lists_are_joined(sent: Callable[[str], Any], view: str) -> None:
    halves = [chunk(sent(half)) for half in "\ud83d\ude00"]
    assert getattr(parsed(stream(*halves)).snapshot, view) == "\U0001f600"


# What is left of the interpreter's limits


@pytest.mark.parametrize("nested", [b"[" * 450 + b"]" * 450, b'{"a":' * 400 + b"1" + b"}" * 400])
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


@each_case(
    ("choices", "error"),
    [
        ([5], InvalidChunkError),
        (5, NotAnEventStreamError),
        ("x", NotAnEventStreamError),
        ({"0": {"message": {"content": "a"}}}, NotAnEventStreamError),
    ],
)
def test_a_completion_whose_choices_are_no_objects(choices: Any, error: type[InvalidStreamError]) -> None:
    assert type(parsed(compact({**COMPLETION, "choices": choices})).error) is error


def test_a_null_among_the_tool_calls_of_a_completion_is_skipped() -> None:
    choice = {"message": {"tool_calls": [None, call("{}")]}, "finish_reason": "tool_calls"}
    parser = parsed(compact({**COMPLETION, "choices": [choice]}))
    assert [call.name for call in parser.completion().tool_calls] == ["f"]
    assert "CF217" in noted(parser)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{"a": "b', "Unterminated string at character 6"),
        (b'{"a', "Unterminated string at character 1"),
        (b'{"a" 1}', "Expecting ':' delimiter at character 5"),
    ],
)
def test_text_that_is_no_json_is_described_in_one_sentence(data: bytes, what: str) -> None:
    assert f"received text that is not JSON ({what})" in str(parse(data).error)


def test_the_dump_of_a_chunk_is_parsed_as_it_was_sent() -> None:
    sent = b'{"created":"x","choices":[{"index":0,"delta":{"role":5,"content":"a"}}]}'
    [chunk] = parse_payload(ServerSentEvent(sent)).chunks
    assert json.loads(chunk.model_dump_json(exclude_unset=True)) == json.loads(sent)
    assert parse_payload(ServerSentEvent(chunk.model_dump_json().encode())).chunks[0].model_dump() == chunk.model_dump()
