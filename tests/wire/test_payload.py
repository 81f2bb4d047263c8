"""One event: its chunks, an error, or [DONE]; what is repaired, what is refused, and with which words."""

import json
import math
from typing import Any

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st
from parsed_bodies import parsed
from wire_events import SLOW, call, calls, chunk, compact, dumped, noted, parse, refused_by, stream

from chunkfold import (
    ChatCompletionChunk,
    CompletionTokensDetails,
    InvalidChunkError,
    PromptTokensDetails,
    ServerSentEvent,
    parse_payload,
)
from chunkfold.testing import HEAD

# The fast path and the slow one


SAME = [
    chunk({"content": "a"}, x={"y": [1, None]}) | {"z": 1},
    *({}, {"choices": []}, {"choices": [{}]}),
    b'{"choices":[{"delta":{"content":"a","content":"b"}}],"x":1,"x":2}',
    b'{"choices":[{"logprobs":{"content":[{"logprob":-Infinity}]}}],"x":Infinity}',
    b' \n{"choices" :\t[ ] } ',
    # What may be an error.
    *(
        {**chunk({"content": "a"}), **fields}
        for fields in (
            *({}, {"error": None}, {"error": False}, {"error": {}}, {"error": {"message": "x"}}),
            *({"base_resp": {"status_code": 0}}, {"base_resp": {"status_code": 1002}}, {"code": 500}),
            *({"object": "error", "message": "x"}, {"type": "error"}),
        )
    ),
    *({"object": "error"}, {"object": "error", "param": "x"}, {**HEAD, "choices": [], "code": 500}),
    *(chunk({}, reason) for reason in ("error", "ABORT")),
    # Another API.
    {"object": "text_completion", "choices": [{"index": 0, "text": "a"}]},
    {**chunk({"content": "a"}, text="b"), "object": "text_completion"},
    {"type": "message_start", "message": {}},
    # Digits where no number has to be: under unknown keys, in blocks, parts and unknown counts.
    chunk({"index": "1", "created": 1.0}),
    {"choices": [], "x": {"index": "5", "y": [{"created": "5"}]}},
    chunk({"reasoning_details": [{"index": 0.0}]}),
    chunk({"content": [{"type": "text", "index": "0"}]}),
    {"choices": [], "usage": {"cached_tokens": "4", "index": 1.0}},
]


@each_case("data", SAME)
def test_both_paths_say_the_same(data: Any) -> None:
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


def whole(message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def saying(raw: bytes) -> bytes:
    """A chunk whose text is these bytes, as they are."""
    return compact(chunk({"content": "?"})).replace(b"?", raw)


WITHOUT_DELTA = {**HEAD, "choices": [{"index": 0, "finish_reason": None}]}
REPAIRS = [
    # What comes, which plain chunk it is read as, and the rule that is noted.
    pytest.param(saying(b"a\xff"), chunk({"content": "a\ufffd"}), "CF107", id="a byte that is not UTF-8"),
    pytest.param(saying(b"a\xe4\xbd"), chunk({"content": "a\ufffd"}), "CF107", id="a cut character"),
    pytest.param(saying(b"\x00\x1b\tb"), chunk({"content": "\x00\x1b\tb"}), "CF213", id="raw control characters"),
    pytest.param([chunk({"content": "a"})], chunk({"content": "a"}), "CF214", id="a list of one chunk"),
    *(
        pytest.param({**chunk({}), "created": sent}, {**chunk({}), "created": 17}, "CF215", id=f"{sent!r} for a number")
        for sent in ("17", 17.0)
    ),
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
    pytest.param(chunk([]), WITHOUT_DELTA, "CF209", id="an empty list"),
    pytest.param(chunk(""), WITHOUT_DELTA, "CF209", id="an empty string"),
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


PARTS, CALL = "a string or a list of parts", "choices[0].delta.tool_calls[0]"
ESSENTIAL: list[tuple[Any, str, str, list[Any]]] = [
    # What comes with a value of a wrong type, where it is then, what is expected, and some such values.
    (lambda wrong: {"choices": wrong}, "choices", "a list", [{"delta": {}}, "x"]),
    (lambda wrong: {"choices": [wrong]}, "choices[0]", "an object", ["x"]),
    (lambda wrong: {"choices": [{}, wrong]}, "choices[1]", "an object", [5]),
    (lambda wrong: chunk({}, index=wrong), "choices[0].index", "an integer", ["x", 1.5, True, []]),
    (lambda wrong: chunk({}, wrong), "choices[0].finish_reason", "a string", [5, {"reason": "stop"}, False]),
    (chunk, "choices[0].delta", "an object", ["x", [{}], 5]),
    (lambda wrong: chunk({"content": wrong}), "choices[0].delta.content", PARTS, [{}]),
    (lambda wrong: {"choices": [{}, {"delta": {"content": wrong}}]}, "choices[1].delta.content", PARTS, [{}]),
    (lambda wrong: chunk({"tool_calls": wrong}), "choices[0].delta.tool_calls", "a list", [7]),
    (calls, CALL, "an object", ["x"]),
    (lambda wrong: calls({"index": wrong}), f"{CALL}.index", "an integer", ["x"]),
    (lambda wrong: calls({"id": wrong}), f"{CALL}.id", "a string", [["a"], True]),
    (lambda wrong: calls({"function": wrong}), f"{CALL}.function", "an object", ["f"]),
    (lambda wrong: calls({"custom": wrong}), f"{CALL}.custom", "an object", [[]]),
    (lambda wrong: calls({"function": {"name": wrong}}), f"{CALL}.function.name", "a string", [5]),
    (lambda wrong: calls(call(wrong)), f"{CALL}.function.arguments", "a string", [5]),
    (lambda wrong: calls(call("{}"), {"custom": {"input": wrong}}), f"{CALL[:-3]}[1].custom.input", "a string", [{}]),
    (lambda wrong: whole({"content": wrong}), "choices[0].message.content", PARTS, [{"text": "Hi"}]),
    (lambda wrong: whole({"tool_calls": wrong}), "choices[0].message.tool_calls", "a list", [7]),
    (
        lambda wrong: whole({"tool_calls": [call(wrong)]}),
        "choices[0].message.tool_calls[0].function.arguments",
        "a string",
        [5],
    ),
]


@each_case(("sent", "place", "expected", "values"), ESSENTIAL)
def test_an_essential_field_of_a_wrong_type_is_refused(sent: Any, place: str, expected: str, values: list[Any]) -> None:
    """An error says what was expected, what was received, and where."""
    for wrong in values:
        error = parse_payload(ServerSentEvent(compact(sent(wrong)), offset=1234)).error
        assert isinstance(error, InvalidChunkError)
        assert f": {place}: expected {expected}, received {type(wrong).__name__}" in str(error)
        assert "1234" in str(error).split(":")[0]
        assert error.position == 1234
        assert not error.retryable


NO_OBJECTS = [
    *((b"5", "int"), (b'"x"', "str"), (b"true", "bool"), (b"[]", "list"), (b"[{},{}]", "list"), (b'["x"]', "list")),
    (b"[[{}]]", "list"),
    (b"[" + b"1," * 10_000 + b"1]", "list"),  # more values than parts may be in an event, so its parts are counted
    *((data, "text that is not JSON (") for data in (b"garbage", b"{'a': 1}", b"<html>", b'{"choices":[]', b"{,}")),
    *((data, "text that is not JSON (") for data in (b"[DONE", b"\xff")),
    (b'{"a": "b', "text that is not JSON (Unterminated string at character 6)"),
    (b'{"a', "text that is not JSON (Unterminated string at character 1)"),
    (b'{"a" 1}', "text that is not JSON (Expecting ':' delimiter at character 5)"),
]


@each_case(("data", "received"), NO_OBJECTS)
def test_what_is_no_json_object_is_refused_and_quoted(data: bytes, received: str) -> None:
    error = parse(data).error
    assert isinstance(error, InvalidChunkError)
    assert f"expected a JSON object, received {received}" in str(error)
    assert repr(data[:100].decode("utf-8", "replace"))[1:-1] in str(error).replace('\\"', '"')


# Events of another API


OTHER_APIS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    # The path of an API, and names and data of its events.
    "/responses": [
        *(("response.created", {"type": "response.created"}), ("response.output_text.delta", {"delta": "a"})),
        ("message", {"type": "response.created", "response": {}}),
        ("message", {"type": "response.output_text.delta", "delta": "a"}),
        ("message", {"type": "response.created", "message": "x"}),
        ("message", {"type": "response.failed", "code": 500}),
    ],
    "/messages": [
        *((name, {"type": "message_start", "message": {}}) for name in ("message_start", "message")),
        ("content_block_delta", {"type": "content_block_delta"}),
    ],
    "/completions": [
        ("message", {"object": "text_completion", "choices": [{"index": 0, "text": "a"}]}),
        ("message", {"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}),
        ("message", {"object": "chat.completion.chunk", "choices": [{"index": 0, "text": "a"}]}),
    ],
}


@each_case(("api", "name", "body"), [(api, *sent) for api, several in OTHER_APIS.items() for sent in several])
def test_another_api_is_named(api: str, name: str, body: Any) -> None:
    payload = parse(body, name)
    assert isinstance(payload.error, InvalidChunkError)
    assert api in str(payload.error)
    assert "expected chunks of the chat completions API, received" in str(payload.error)
    assert noted(payload) == set()


@each_case(
    "body",
    [
        {**HEAD, "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        {**chunk({}, "stop"), "object": "text_completion"},
        {**HEAD, "object": "text_completion", "choices": [{"index": 0, "finish_reason": "stop"}]},
        # A text beside a delta.
        *(chunk({"content": "a"}, text="b"), {**chunk({"content": "a"}, text="b"), "object": "text_completion"}),
    ],
)
def test_is_no_other_api(body: dict[str, Any]) -> None:
    assert dumped(parse(body)) == body


# What a chunk keeps


def test_the_dump_of_a_chunk_is_parsed_as_it_was_sent() -> None:
    sent = b'{"created":"x","choices":[{"index":0,"delta":{"role":5,"content":"a"}}]}'
    [chunk] = parse_payload(ServerSentEvent(sent)).chunks
    assert json.loads(chunk.model_dump_json(exclude_unset=True)) == json.loads(sent)
    assert parse_payload(ServerSentEvent(chunk.model_dump_json().encode())).chunks[0].model_dump() == chunk.model_dump()


def test_a_content_that_does_not_append_is_moved_in_each_choice() -> None:
    """An empty one is no audio, and the one that comes with the finish reason no draft."""
    deltas = [{"content": None}, {"content": ""}, {"content": "a"}]
    choices = [{"index": index, "delta": delta} for index, delta in enumerate(deltas)]
    (spoken,) = parse({"choices": choices, "modality": "audio"}).chunks
    assert [one.delta.content for one in spoken.choices] == [None, "", None]
    assert [one.delta.audio is None for one in spoken.choices] == [True, True, False]
    choices[1]["finish_reason"] = "stop"
    (drafted,) = parse({"choices": choices, "diffusion_meta": {"diffusion_content": True}}).chunks
    assert [one.delta.content for one in drafted.choices] == [None, "", None]
    assert [one.delta.model_extra for one in drafted.choices] == [{}, {}, {"diffusion_content": "a"}]
    (both,) = parse({"choices": choices[2:], "modality": "audio", "diffusion_meta": {"diffusion_content": True}}).chunks
    assert both.choices[0].delta.model_dump(exclude_unset=True) == {"audio": {"data": "a"}}
