"""Errors in the shapes in which providers send them: ten shapes, by number, wherever they come.

An error is recognised by its shape, holds whatever came before it, and is read into an `APIError` whose status comes
from the body alone: the outer one says 200.
"""

import json
from email.message import Message
from typing import Any, NamedTuple

import pytest
from cases import each_case
from measured_memory import traced
from parsed_bodies import parsed

from chunkfold import (
    APIError,
    APIStatusError,
    ChatCompletionParser,
    InvalidChunkError,
    LimitExceededError,
    ServerSentEvent,
    StreamEnd,
    error_from_response,
    parse_payload,
)
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.testing import DONE, HEAD, choice, delta, event
from chunkfold.testing.wire import compact_json
from chunkfold.wire.api_errors import api_error

HI = delta(content="Hi")
ANY: Any = ...  # what the contract does not say


def chunk(content: str | None = None, finish_reason: str | None = None, **top: Any) -> dict[str, Any]:
    fields = {} if content is None else {"content": content}
    return {**HEAD, "choices": [choice(finish_reason, **fields)], **top}


def data(payload: Any, name: str = "message") -> bytes:
    """An event; bytes are its data as they are, all else is JSON, text too."""
    return event(payload if isinstance(payload, bytes) else compact_json(payload), name)


def failure(payload: Any, event: str = "message") -> APIError:
    """The error of one event."""
    value = payload if isinstance(payload, bytes) else compact_json(payload)
    error = parse_payload(ServerSentEvent(value, event)).error
    assert isinstance(error, APIError), error
    return error


def is_chunk(payload: Any) -> bool:
    """Whether an event is a chunk and nothing else."""
    result = parse_payload(ServerSentEvent(compact_json(payload)))
    return result.error is None and len(result.chunks) == 1


class Envelope(NamedTuple):
    """What comes, and what it says."""

    block: bytes
    message: str
    code: int | str | None = None
    status: int | None = None


TRANSIENT = (408, 409, 429, 498, 500, 502, 503, 504, 529)

LIMITED = {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
ENVELOPES = {
    "1 event: error, an object": Envelope(data({"message": "slow down", "code": 429}, "error"), "slow down", 429, 429),
    "1 event: error, an envelope": Envelope(data({"error": LIMITED}, "error"), "slow down", "rate_limit_exceeded", 429),
    "1 event: error, base_resp":
        Envelope(data({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "error"), "rate limit", 1002,
        429),
    "1 event: error, a string": Envelope(data("overloaded", "error"), "overloaded"),
    "1 event: error, plain text": Envelope(data(b"upstream gone", "error"), "upstream gone"),
    "1 event: error, a list": Envelope(data([{"message": "bad", "code": 400}], "error"), "bad", 400, 400),
    "1 event: error, no JSON": Envelope(data(b'{"message": ', "error"), '{"message":'),
    "2 a field named error":
        Envelope(b'error: {"code":400,"message":"too long","type":"invalid_request_error"}\n\n', "too long", 400, 400),
    "2 a field named error, no space": Envelope(b'error:{"code":500,"message":"x"}\n\n', "x", 500, 500),
    "3 error, an object": Envelope(data({"error": LIMITED}), "slow down", "rate_limit_exceeded", 429),
    "3 error, a string": Envelope(data({"error": "overloaded", "error_type": "overloaded"}), "overloaded", None, ANY),
    "3 error, a list": Envelope(data({"error": ["overloaded"]}), "overloaded"),
    "3 error, a list of objects":
        Envelope(data({"error": [{"message": "slow down", "code": 429}]}), "slow down", 429, 429),
    "3 error, an object in an object":
        Envelope(data({"error": {"error": {"message": "slow down", "code": 429}}}), "slow down", 429, 429),
    "3 error, true beside a message": Envelope(data({"error": True, "message": "bad"}), "bad"),
    "3 error, a number beside a message": Envelope(data({"error": 503, "message": "busy"}), "busy", 503, 503),
    "3 error beside a head":
        Envelope(data({**HEAD, "error": {"message": "bad", "code": "400"}, "choices": []}), "bad", "400", 400),
    "3 error and a failed choice (Sansa)":
        Envelope(data({"error": {"code": 502, "message": "gone"}, "choices": [{"finish_reason": "error"}]}), "gone",
        502, 502),
    "4 object: error (vLLM)":
        Envelope(data({"object": "error", "message": "bad", "type": "BadRequestError", "param": None, "code": 400}),
        "bad", 400, 400),
    "4 type: error": Envelope(data({"type": "error", "message": "bad", "code": 400}), "bad", 400, 400),
    "4 type: error and an envelope (Anthropic)":
        Envelope(data({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), "busy", None, ANY),
    "5 base_resp (MiniMax)":
        Envelope(data({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}),
        "rate limit", 1002, 429),
    "7 code alone": Envelope(data({"code": 400}), ANY, 400, 400),
    "7 code in digits": Envelope(data({"code": "429", "msg": "slow down"}), "slow down", "429", 429),
    "7 code that is no HTTP status (Zhipu)": Envelope(data({"code": 1302, "msg": "slow down"}), "slow down", 1302, ANY),
    "7 status_code": Envelope(data({"status_code": 503, "msg": "busy"}), "busy", None, 503),
    "7 detail (FastAPI)": Envelope(data({"detail": "Not Found"}), "Not Found"),
    "7 message": Envelope(data({"message": "no such model"}), "no such model"),
    "7 Cloudflare":
        Envelope(data({"success": False, "errors": [{"code": 7003, "message": "no route"}], "messages": [],
        "result": None}), "no route", 7003),
    "7 Cloudflare, several":
        Envelope(data({"success": False,
        "errors": [{"code": 10000, "message": "no"}, {"code": 1, "message": "way"}]}), "no; way", 10000),
    "7 success is false": Envelope(data({"success": False, "msg": "busy"}), "busy"),
    "7 watsonx":
        Envelope(data({"errors": [{"code": "model_not_found", "message": "gone"}], "trace": "t", "status_code": 404}),
        "gone", "model_not_found", 404),
    "7 watsonx, no code": Envelope(data({"errors": ["busy"], "status_code": 503}), "busy", 503, 503),
    "7 Baidu": Envelope(data({"error_code": 336003, "error_msg": "too long", "id": "a"}), "too long", 336003),
    "7 Tencent":
        Envelope(data({"Response": {"Error": {"Code": "AuthFailure.SignatureFailure", "Message": "no"},
        "RequestId": "r"}}), "no", "AuthFailure.SignatureFailure", 401),
    "7 AWS": Envelope(data({"Message": "denied"}), "denied"),
    "7 AWS, in a stream": Envelope(data({"throttlingException": {"message": "slow down"}}), "slow down", None, 429),
    "7 Databricks":
        Envelope(data({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "slow down"}), "slow down",
        "REQUEST_LIMIT_EXCEEDED", 429),
    "7 FastChat": Envelope(data({"text": "**NETWORK ERROR**", "error_code": 50004}), "**NETWORK ERROR**", 50004),
    "7 code before status_code":
        Envelope(data({"code": 429, "status_code": 400, "message": "slow down"}), "slow down", 429, 429),
    "8 a list around an envelope (Google)":
        Envelope(data([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}]), "quota", 429,
        429),
    "8 a list around a bare error":
        Envelope(data([{"object": "error", "message": "bad", "code": 400}]), "bad", 400, 400),
    "8 a list around a code": Envelope(data([{"code": 400, "message": "bad"}]), "bad", 400, 400),
    "6 the upstream's own finish reason":
        Envelope(data({**HEAD,
        "choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "network_error"}]}),
        "the provider ended choice 0 with the native finish reason 'network_error'", ANY, ANY),
}  # fmt: skip
FAILED_CHOICES = {
    # Shape 6: these have a chunk too, the one that says so.
    f"6 finish reason {word}": Envelope(data(chunk(None, word)), ANY, ANY, ANY)
    for word in (
        *("error", "network_error", "insufficient_system_resource", "abort", "timeout", "cancelled", "api_error"),
        *("overloaded_error", "rate_limit_error", "server_error", "upstream_error", "engine_overloaded", "new_error"),
        *("MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL", "Error"),
    )
} | {
    "6 with an error in the choice": Envelope(
        data({**HEAD, "choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "gone", "code": 502}}]}),
        "gone",
        502,
        502,
    ),
    "6 with an error in x_groq": Envelope(
        data(chunk(None, "error", x_groq={"error": "over capacity"})), "over capacity"
    ),
}
TOLD_INSIDE = {
    # These have a chunk too, and no finish reason that means an error.
    "9 an error in a choice":
        Envelope(data({**HEAD, "choices": [{"delta": {}, "index": 0, "error": {"message": "gone", "code": 504}}]}),
        "gone", 504, 504),
    "9 an error in a choice that says stop":
        Envelope(data({**HEAD, "choices": [{"delta": {}, "index": 0, "finish_reason": "stop", "error": "gone"}]}),
        "gone"),
    "9 an error in another choice":
        Envelope(data({**HEAD, "choices": [choice(), {"delta": {}, "index": 1, "error": {"message": "gone"}}]}),
        "gone"),
    "9 an error in a delta":
        Envelope(data({**HEAD, "choices": [{"index": 0, "delta": {"content": "", "error": {"message": "gone"}}}]}),
        "gone"),
    "9 an error in a message":
        Envelope(data({**HEAD, "choices": [{"index": 0, "message": {"content": None, "error": "gone"}}]}), "gone"),
    "9 an error in a message beside a delta":
        Envelope(data({**HEAD, "choices": [{"index": 0, "delta": {}, "message": {"error": "gone"}}]}), "gone"),
    "9 an error in x_groq":
        Envelope(data({**HEAD, "choices": [], "x_groq": {"id": "r", "error": "stopped early"}}), "stopped early"),
    "9 an error in x_groq beside a choice":
        Envelope(data(chunk(None, "stop", x_groq={"error": {"message": "gone", "code": 503}})), "gone", 503, 503),
}  # fmt: skip
BROKEN = {
    "10 broken JSON": Envelope(
        data(b'{"error": "can only concatenate str (not "int") to str"}'),
        '{"error": "can only concatenate str (not "int") to str"}',
    ),
    "10 broken JSON, blanks": Envelope(data(b' { "error" :{"a'), '{ "error" :{"a'),
    "10 broken JSON, [DONE] behind it": Envelope(
        data(b'{"error":{"message":"m"}}[DONE]'), '{"error":{"message":"m"}}[DONE]'
    ),
    "10 broken JSON, another name": Envelope(data(b'{"error": "(not "x")"}', "progress"), '{"error": "(not "x")"}'),
}
ALL_SHAPES = ENVELOPES | FAILED_CHOICES | TOLD_INSIDE | BROKEN
PLACES = {
    # What comes before it and behind it, and the texts that are then delivered.
    "before chunks": ([], [chunk("b"), chunk(None, "stop")], ""),
    "between chunks": ([chunk("a")], [chunk("b"), chunk(None, "stop")], "a"),
    "after chunks": ([chunk("a"), chunk("b")], [], "ab"),
    "after the finish reason": ([chunk("a"), chunk(None, "stop")], [], "a"),
}


def run(block: bytes, place: str, *, done: bool) -> tuple[ChatCompletionParser, list[str]]:
    """The parser at the end, and the texts of the chunks it gave."""
    before, behind, _ = PLACES[place]
    body = b"".join([*map(data, before), block, *map(data, behind), DONE if done else b""])
    parser = ChatCompletionParser(status_code=200, headers={"X-Request-Id": "req_1", "Retry-After": "7"})
    chunks = [*parser.feed(body), *parser.close()]
    return parser, [one.text for one in chunks]


@each_case("done", [True, False], ids=["[DONE]", "no [DONE]"])
@each_case("place", PLACES)
@each_case("name", ALL_SHAPES)
def test_recognised_wherever_it_comes(name: str, place: str, done: bool) -> None:
    block, message, code, status = ALL_SHAPES[name]
    _, _, text = PLACES[place]
    parser, texts = run(block, place, done=done)
    error = parser.error
    assert parser.end is StreamEnd.FAILED
    assert type(error) is APIError
    # What it says.
    if message is not ANY:
        assert error.message == error.error.message == message
        assert message in str(error)
    assert str(error)
    assert code is ANY or error.code == code
    assert status is ANY or error.status_code == status
    assert error.status_code != 200
    # What came before is there, what came behind is not.
    assert "".join(texts) == text
    assert error.snapshot.text == parser.snapshot.text == text
    with pytest.raises(APIError) as raised:
        parser.completion()
    assert raised.value is error
    # Retryable where it makes sense, and never once output was emitted.
    assert error.emitted_output is bool(text)
    if status is not ANY:
        assert error.is_transient() is (status in TRANSIENT)
        assert error.retryable is (status in TRANSIENT and not text)
    # What the response's headers add.
    assert (error.request_id, error.retry_after) == ("req_1", 7.0)


@each_case(
    ("fields", "is_error"),
    [
        ({"code": 500, "message": "boom"}, True),
        ({"status_code": 503, "usage": None}, True),
        ({"type": "error", "message": "boom"}, True),
        ({"errors": [{"message": "boom"}]}, True),
        ({"success": False}, True),
        ({"ThrottlingException": {"message": "boom"}}, True),
        ({"code": 0, "message": "ok"}, False),
        ({"code": 500, "usage": {"total_tokens": 3}}, False),
        ({"message": "a notice"}, False),
        ({"success": True, "errors": []}, False),
    ],
)
def test_an_empty_list_of_choices_hides_no_error_and_is_none_itself(fields: dict[str, Any], is_error: bool) -> None:
    """Was once wrong: a stream with an error seemed to end well."""
    parser = parsed(HI + (b"" if is_error else delta("stop")) + event({"choices": [], **fields}) + DONE)
    assert parser.end is (StreamEnd.FAILED if is_error else StreamEnd.FINISHED)
    assert [anomaly.rule.id for anomaly in parser.anomalies] == ["CF604" if is_error else "CF206"]


@pytest.mark.parametrize("word", ["x" * 10**6, "1" * 10**6, "\U0001f600" * 10**6, "rate_limit." + "x" * 10**6])
def test_a_very_long_word_is_not_searched(word: str) -> None:
    """Was once wrong: seconds, and ten times its memory."""
    for body in ({"code": word}, {"type": word}, {"message": "m", "status": word}, {"finish_reason": word}):
        with traced() as memory:
            status = api_error(body, body).status_code
        assert memory.peak < 100_000
        assert status == (429 if word.startswith("rate") else None)
    with traced() as memory:
        assert outcome_of(word) is Outcome.OTHER
        assert outcome_of(f"{word}_error") is Outcome.ERROR
    assert memory.peak < len(word) * 5


def test_the_text_beside_an_error_is_not_copied() -> None:
    data = b'{"error":{"message":"m"},"choices":[{"delta":{"content":"%b"}}]}' % (b"x" * 10**6 + "\U0001f600".encode())
    with traced() as memory:
        payload = parse_payload(ServerSentEvent(data))
    assert payload.error is not None
    assert len(payload.chunks) == 1
    assert memory.peak < 10 * 10**6  # four bytes for each character, and what parsing takes


SHAPES = {
    # The rule of the catalogue for each row; OpenAI's own shape is none.
    "1 event: error": {"CF601"},
    "2 a field": {"CF602"},
    "3 error, an object": set(),
    "3 error, a string": {"CF603"},
    "3 error, a list": {"CF603"},
    "3 error, true": {"CF603"},
    "3 error, a number": {"CF603"},
    "3 error beside": set(),
    "3 error and": set(),
    "4 ": {"CF604"},
    "4 type: error and an envelope": set(),
    "5 ": {"CF605"},
    "6 ": {"CF606"},
    "7 ": {"CF604"},
    "8 a list around": {"CF604"},
    "8 a list around an envelope": set(),
    "9 ": {"CF608"},
    "10 ": {"CF609"},
}

# What else is odd about the chunks that they came with.
NOTED_BESIDE = {
    "3 error and a failed choice (Sansa)": {"CF202", "CF206", "CF210"},
    "6 the upstream's own finish reason": {"CF210"},
    "6 with an error in the choice": {"CF210"},
    "9 an error in a message": {"CF207"},
    "9 an error in a message beside a delta": {"CF207"},
}


@each_case("name", ALL_SHAPES)
def test_each_shape_is_noted(name: str) -> None:
    prefix = max((prefix for prefix in SHAPES if name.startswith(prefix)), key=len)
    parser, _ = run(ALL_SHAPES[name].block, "after chunks", done=True)
    noted = {anomaly.rule.id for anomaly in parser.anomalies}
    is_list = name.startswith("8") or name == "1 event: error, a list"
    assert noted == SHAPES[prefix] | NOTED_BESIDE.get(name, set()) | ({"CF214"} if is_list else set())


@each_case("name", FAILED_CHOICES)
def test_the_chunk_of_a_failed_choice_is_delivered_as_sent(name: str) -> None:
    parser = ChatCompletionParser()
    chunks = parser.feed(data(chunk("a")) + FAILED_CHOICES[name].block)
    assert len(chunks) == 2
    (choice,) = parser.snapshot.choices
    assert choice.finish_reason == chunks[1].choices[0].finish_reason
    assert choice.outcome == "error"
    assert choice.message.content == "a"


def test_one_failed_choice_of_several() -> None:
    choices = [{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {}, "finish_reason": "error"}]
    assert "1" in str(failure({**HEAD, "choices": choices}))


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        pytest.param(chunk("b", error={"message": "x", "code": 503}), ["b"], id="an error field"),
        pytest.param(chunk("b", object="error", message="x"), ["b"], id="an object named error"),
        pytest.param(chunk("b", base_resp={"status_code": 1013, "status_msg": "x"}), ["b"], id="base_resp"),
        pytest.param(chunk("b", "error"), ["b"], id="a finish reason"),
        pytest.param([chunk("b", error={"message": "x"})], ["b"], id="a list"),
        pytest.param({"error": {"message": "x"}, "choices": [{"finish_reason": "error"}]}, [""], id="no delta"),
    ],
)
def test_text_beside_an_error_counts(payload: Any, texts: list[str]) -> None:
    for name in ("message", "error"):
        parser = ChatCompletionParser()
        chunks = parser.feed(data(payload, name) + DONE)
        assert [one.text for one in chunks] == texts
        assert parser.snapshot.text == "".join(texts)
        assert isinstance(parser.error, APIError)
        assert parser.error.emitted_output is any(texts)
        assert not parser.error.retryable


def test_choices_that_are_none_do_not_hide_the_error() -> None:
    """Error wins: that its choices are wrong is not what went wrong."""
    for choices in ("x", {}, [5], [{"delta": {"content": 5}}]):
        assert failure({"error": {"message": "gone"}, "choices": choices}).message == "gone"


@pytest.mark.parametrize("body", [{"object": "error"}, {"type": "error"}, {"object": "error", "param": "x"}])
def test_an_error_object_needs_no_message(body: Any) -> None:
    assert str(failure(body))


def test_an_error_event_needs_no_body() -> None:
    for body in (b"", b" ", b"null", b"{}", b"[]", b"0", b"[DONE]"):
        assert str(failure_of(b"event: error\ndata: " + body + b"\n\n"))
    assert failure_of(b"event: error\ndata: null\n\n").message == NO_MESSAGE


# What is no error

LOOKS = [
    pytest.param('{"error": {"message": "x", "code": 500}}', id="an envelope"),
    pytest.param('data: {"error": "x"}\n\n', id="a block of a stream"),
    pytest.param("\n\nevent: error\ndata: x\n\n", id="an error event"),
    pytest.param("[DONE]", id="[DONE]"),
    pytest.param("data: [DONE]\n\n", id="the block of [DONE]"),
    pytest.param("error: {}", id="an error field"),
    pytest.param("Internal Server Error", id="words"),
    pytest.param("null", id="null"),
]


@each_case("text", LOOKS)
def test_content_that_looks_like_an_error_is_content(text: str) -> None:
    deltas = [{"content": text}, {"reasoning": text}, {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}]
    completion = parsed(b"".join(delta(**each) for each in deltas) + delta("stop") + DONE).completion()
    assert (completion.text, completion.reasoning, completion.tool_calls[0].arguments) == (text, text, text)


NO_ERRORS = [
    pytest.param({"error_code": 0, "error_message": "success"}, id="a good error_code"),
    pytest.param({"choices": [], "error_code": 0, "error_message": "success"}, id="a good error_code, no choices"),
    pytest.param({"error_message": "ok", "success": True}, id="success beside error_message"),
    pytest.param({"error_message": ["x"]}, id="an error_message that is no text"),
    pytest.param({"error_message": ""}, id="an empty error_message"),
    pytest.param({"success": True, "errors": {"message": "x"}}, id="success beside errors"),
    pytest.param({"errors": {"count": 0}, "usage": {"total_tokens": 1}}, id="errors without words"),
    pytest.param({"errors": {"code": 0, "message": ""}}, id="errors with empty words"),
    pytest.param(chunk("a", code=500), id="code beside choices"),
    pytest.param(chunk("a", status_code=500), id="status_code beside choices"),
    pytest.param(chunk("a", message="x"), id="message beside choices"),
    pytest.param(chunk("a", detail="x"), id="detail beside choices"),
    pytest.param(chunk("a", type="error"), id="type beside choices"),
    pytest.param(chunk("a", base_resp={"status_code": 0, "status_msg": ""}), id="base_resp of 0"),
    pytest.param(chunk("a", base_resp={"status_code": "0"}), id="base_resp of the text 0"),
    pytest.param(chunk("a", base_resp=None), id="base_resp null"),
    pytest.param(chunk("a", metadata={"error": {"message": "x"}}), id="an error inside another key"),
    pytest.param({**HEAD, "choices": [{"delta": {"error": {}}}]}, id="an empty error inside a delta"),
    pytest.param({**HEAD, "choices": [{"delta": {"role": "tool", "error": "x"}}]}, id="an error of a tool"),
    pytest.param({**HEAD, "choices": [{"delta": {}, "error": None}]}, id="a null error inside a choice"),
    *(
        pytest.param({**HEAD, "choices": [{"delta": {}, "error": value}]}, id=f"an error of {value!r} inside a choice")
        for value in (False, {}, "", [])
    ),
    *(
        pytest.param({**HEAD, "choices": [], "x_groq": value}, id=f"an x_groq of {value!r}")
        for value in (None, {}, {"error": None}, {"error": ""}, {"error": {}}, "x")
    ),
    pytest.param({"success": True, "errors": [], "messages": [], "result": None}, id="Cloudflare's success"),
    pytest.param({"error_code": 0, "error_msg": "success"}, id="Baidu's success"),
    pytest.param({"error_code": "0", "error_msg": "success"}, id="the same as text"),
    pytest.param({"Response": {"RequestId": "r"}}, id="Tencent's success"),
    pytest.param({"Message": ""}, id="an empty message of AWS"),
    pytest.param({"SomeException": "x"}, id="an exception that is no object"),
    pytest.param({"model": "m", "message": {"role": "assistant", "content": "a"}}, id="a message with a role"),
    pytest.param(chunk("a", errors=["x"], Message="x", error_code=5, success=False), id="all of them beside choices"),
    pytest.param(chunk("a", "errored"), id="a finish reason that means none"),
    *(
        pytest.param(
            {**HEAD, "choices": [{"delta": {}, "finish_reason": own, "native_finish_reason": native}]},
            id=f"the upstream's {native!r} beside {own!r}",
        )
        for own, native in (
            ("stop", "completed"),
            ("stop", None),
            ("stop", 5),
            (None, "network_error"),
            ("", "error"),
            ("null", "error"),
        )
    ),
    pytest.param({**HEAD, "choices": [], "usage": {"total_tokens": 1}}, id="usage alone"),
    pytest.param({"choices": [], "usage": {"total_tokens": 1}, "code": 0}, id="usage and a code of 0"),
    pytest.param({**HEAD, "choices": [], "prompt_filter_results": []}, id="Azure's first chunk"),
    pytest.param({"code": 200}, id="code 200"),
    pytest.param({"code": 0}, id="code 0"),
    *(
        pytest.param({**fields, "message": "success"}, id=f"a message beside {fields}")
        for fields in (
            *({"code": 0}, {"code": "0"}, {"code": 200}, {"status_code": 200}, {"success": True}),
            *({"code": "Success"}, {"error_code": 0}, {"status": "ok"}, {"status": "succeeded", "code": 200.0}),
        )
    ),
    pytest.param({"id": "c"}, id="an id alone"),
    pytest.param({**HEAD, "message": "x"}, id="a message in a chunk that has no choices"),
    pytest.param({"usage": {"total_tokens": 1}, "message": "x"}, id="a message beside usage"),
]


@each_case("payload", NO_ERRORS)
def test_no_error(payload: Any) -> None:
    assert is_chunk(payload)


@each_case(
    ("value", "alone", "beside"),
    [
        pytest.param(None, False, False, id="null"),
        pytest.param(False, False, False, id="false"),
        pytest.param({}, True, False, id="an empty object"),
        pytest.param("", True, False, id="an empty string"),
        pytest.param([], True, False, id="an empty list"),
        pytest.param({"message": "", "type": "", "code": None}, True, False, id="an object of nothing (Apertis)"),
        pytest.param({"x": 5}, True, True, id="an object without a message"),
        pytest.param(True, True, True, id="true"),
        pytest.param(500, True, True, id="a number"),
    ],
)
def test_an_empty_error(value: Any, alone: bool, beside: bool) -> None:
    """Null and false are absent; an empty one is an error without choices and absent beside them."""
    assert is_chunk({"error": value}) is not alone
    assert is_chunk(chunk("a", error=value)) is not beside
    if alone:
        assert str(failure({"error": value}))


FIELDS = [
    pytest.param(b"error: overloaded\n\n", id="no JSON"),
    *(pytest.param(b"error: %cboom\n\n" % sign, id=f"what begins like JSON: {sign}") for sign in (b"{", b"[", b'"')),
    pytest.param(b"error\n\n", id="no value"),
    pytest.param(b"error:\n\n", id="an empty value"),
    pytest.param(b"error: null\n\n", id="null"),
    pytest.param(b"error:  false \n\n", id="false, with blanks"),
    pytest.param(b'event: log\ndata: {"object":"error","message":"x"}\n\n', id="an error object in another event"),
    pytest.param(b'errors: {"message":"x"}\n\n', id="another name"),
    pytest.param(b': error: {"message":"x"}\n\n', id="in a comment"),
    pytest.param(b'event: Error\ndata: {"message":"x"}\n\n', id="an event of another name"),
    pytest.param(b"event: error\n\n", id="an error event without data"),
    pytest.param(b"event: error\n:\n\n", id="an error event with an empty comment"),
    pytest.param(b"event: error\n: keep-alive\n\n", id="an error event with a keep-alive"),
    pytest.param(b"event: error\n:PING\n: \n: ping - 2026-01-01 00:00:00\n\n", id="an error event with others"),
    pytest.param(b"event: error\n: OPENROUTER PROCESSING\n\n", id="an error event with that of OpenRouter"),
    pytest.param(b'event: log\ndata: tried, got data: {"error":{"message":"x"}}\n\n', id="in the text of a log"),
    pytest.param(b'event: log\ndata: {"tried":data: {"error":{"message":"x"}}\n\n', id="in the JSON of a log"),
    pytest.param(b'event: progress\ndata: {"choices":null,"message":"thinking"}\n\n', id="a message in another event"),
    pytest.param(b'{\n"status": "ok"\n}\n\n', id="bare JSON without an error"),
    pytest.param(b'{\n"error": null\n}\n\n', id="bare JSON, null"),
    pytest.param(b'{\n"error": {\n"message": "x"\n}\n\n', id="bare JSON, cut"),
    pytest.param(b'{\n"error": {\n"message": "' + b"x" * 2**20 + b'"\n}\n}\n\n', id="bare JSON, too long"),
    pytest.param(b'{\n\n"error": {\n"message": "x"\n}\n}\n\n', id="bare JSON with a blank line"),
]


@each_case("block", FIELDS)
def test_no_error_in_the_framing(block: bytes) -> None:
    assert parsed(data(chunk("a")) + block + data(chunk("b", "stop")) + DONE).completion().text == "ab"


COMMENTED = [
    pytest.param(b"event: error\n: overloaded\n\n", id="a comment (Dynamo)"),
    pytest.param(b"event: error\n:overloaded\n\n", id="without a blank"),
    pytest.param(b"event: error\n: overloaded\n: more\nid: 1\n\n", id="the first of several"),
    pytest.param(b'event: error\n: {"message":"overloaded","code":503}\n\n', id="JSON"),
    pytest.param(b"event: error\n: keep-alive\n: overloaded\n\n", id="after a keep-alive"),
    pytest.param(b"event: error\n: keep alive 5\n:\n: overloaded\n\n", id="after others"),
    pytest.param(b": a\n\nevent: error\n: overloaded\n: b\n: c\n\n: d\n", id="among short lines"),
    pytest.param(b"event: error\n: overloaded\n", id="without a blank line"),
    pytest.param(b"event: error\n: overloaded", id="without a line end"),
]


@each_case("block", COMMENTED)
@each_case("before", [data(chunk("a")), b": hi\n\n", b""])
def test_an_error_in_a_comment(block: bytes, before: bytes) -> None:
    """The name leaves no doubt, although the standard dispatches no event without data."""
    for line_end in (b"\n", b"\r\n", b"\r"):
        body = (before + block + (DONE if block.endswith(b"\n\n") else b"")).replace(b"\n", line_end)
        for size in (len(body), 1, 5):
            parser = parsed(body, size)
            assert (parser.end, str(parser.error)) == (StreamEnd.FAILED, "overloaded"), (line_end, size)
            assert parser.anomalies[-1].rule.id == "CF601"


@each_case(
    "error", [b'{"error":{"message":"m"}}\n', b'{\n"error": {\n"message": "m"\n}\n}\n', b'error: {"message":"m"}\n']
)
def test_an_error_in_full_counts_before_a_comment(error: bytes) -> None:
    for lines in (b": x\n" + error, error + b": x\n", b": x\n: y\n" + error):
        assert failure_of(data(chunk("a")) + b"event: error\n" + lines + b"\n").message == "m"


A_BARE_ERROR = b'{"error":{"message":"m"}}\n'
IN_LINES = b'{\n "error": {\n  "message": "m"\n }\n}\n'


def test_an_error_event_that_goes_on_with_the_end_has_several_payloads() -> None:
    parser = parsed(b'event: error\ndata: {"message":"m"}\n' + DONE)
    assert [(one.rule.id, one.count) for one in parser.anomalies] == [("CF601", 1), ("CF102", 1)]


@each_case("behind", [DONE, data({"message": "n"})])
def test_of_an_error_event_of_several_lines_each_byte_is_noted_once(behind: bytes) -> None:
    parser = parsed(b'event: error\ndata: {"message":"m\xff"}\n' + behind)
    assert [(one.rule.id, one.count) for one in parser.anomalies if one.rule.id == "CF107"] == [("CF107", 1)]


@each_case(
    ("block", "text"),
    [
        pytest.param(data(chunk("a", "stop")).rstrip() + b"\n" + A_BARE_ERROR + b"\n", "a", id="after a chunk"),
        pytest.param(data(chunk("a", "stop")).rstrip() + b"\n" + A_BARE_ERROR, "a", id="after a chunk, at the end"),
        pytest.param(A_BARE_ERROR + DONE, "", id="before the end"),
        pytest.param(IN_LINES + DONE, "", id="in several lines, before the end"),
        pytest.param(data(chunk("a", "stop")).rstrip() + b"\n" + IN_LINES + b"\n", "a", id="and after a chunk"),
        pytest.param(A_BARE_ERROR + DONE.rstrip(), "", id="before an end without a blank line"),
        pytest.param(b"id: 1\n" + A_BARE_ERROR + DONE, "", id="between an id and the end"),
        pytest.param(b'event: error\n{"message":"m"}\n\n', "", id="with the event's name"),
        pytest.param(b'event: error \ndata: {"message":"m"}\n\n', "", id="a blank after the event's name"),
        pytest.param(b'event: error\ndata: data: {"message":"m"}\n\n', "", id="a doubled prefix"),
        pytest.param(b'event: error\ndata: {"message":"m"}\n' + DONE, "", id="with the event's name, before the end"),
        pytest.param(b'event: error\ndata: {"message":"m"}\ndata: [DONE]', "", id="the same without a line end"),
        pytest.param(b'event: error\ndata: {"message":"m"}\ndata: at f.py\n\n', "", id="and before text"),
        pytest.param(
            b"event: error \n" + data(chunk("a")).rstrip() + b'\ndata: {"message":"m"}\n\n', "a", id="a chunk before it"
        ),
    ],
)
def test_an_error_in_a_block_with_other_lines(block: bytes, text: str) -> None:
    """Was once wrong: where every choice had finished, nothing told of the error."""
    body = data(chunk("", "stop")) + block
    for size in (len(body), 1, 5):
        parser = parsed(body, size)
        assert (parser.end, str(parser.error), parser.snapshot.text) == (StreamEnd.FAILED, "m", text)


@each_case("comment", [b"ping timeout", b"processing failed", b"503", b"heartbeat lost"])
def test_a_comment_that_only_begins_like_a_keep_alive_is_an_error(comment: bytes) -> None:
    assert failure_of(b"event: error\n: " + comment + b"\n\n").message == comment.decode()


def test_comments_are_kept_up_to_a_limit() -> None:
    body = b"event: error\n: ping\n" + b": ping %d\n" % 1 * 100_000 + b": overloaded\n\n"
    assert parsed(data(chunk("a")) + body + data(chunk("b", "stop")) + DONE).completion().text == "ab"
    assert failure_of(b"event: error\n" + b": ping\n" * 9000 + b": overloaded\n\n").message == "overloaded"


def test_a_comment_beside_the_data_of_an_error_is_none() -> None:
    for lines in (b": x\ndata: overloaded\n", b"data: overloaded\n: x\n"):
        assert failure_of(b"event: error\n" + lines + b"\n").message == "overloaded"
    body = data(chunk("a")) + b"event: error\n\n: x\n\nevent: ping\n: x\n\n" + data(chunk("b", "stop")) + DONE
    assert parsed(body).completion().text == "ab"


def failure_of(body: bytes) -> APIError:
    """The error of a body."""
    error = parsed(body).error
    assert isinstance(error, APIError)
    return error


CUT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"wor\n'
WHOLE = data(chunk("b")).removesuffix(b"\n")
ADDED = b'data: {"error":{"type":"upstream_error","message":"reset"}}\n'
WRAPPED = b'data: [{"error":{"type":"upstream_error","message":"reset"}}]\n'


@each_case("named", [b"", b"event: error\n"])
@each_case(
    ("lines", "text"), [(CUT, "a"), (WHOLE, "ab"), (WHOLE + CUT, "ab"), (CUT + WHOLE, "ab"), (b"data: \n" + CUT, "a")]
)
@each_case(
    "ending",
    [
        *(ADDED + b"\n", ADDED, WRAPPED + b"\n", WRAPPED),
        *(ADDED + DONE, WRAPPED + DONE.rstrip(), ADDED + b"data: [DONE] \n\n"),
    ],
)
def test_an_error_right_behind_an_event_that_was_cut(named: bytes, lines: bytes, text: str, ending: bytes) -> None:
    """A gateway adds it where its upstream broke off, so both are lines of one event."""
    parser = parsed(data(chunk("a")) + lines + named + ending)
    assert isinstance(parser.error, APIError)
    assert (parser.error.message, parser.error.status_code) == ("reset", 502)
    assert parser.snapshot.text == text
    assert "CF102" in {anomaly.rule.id for anomaly in parser.anomalies}


@each_case("prefix", [b"data: ", b"data:"])
@each_case("ending", [b"\n\n" + DONE, b"\n" + DONE, b"\n\n", b"\n", b""])
def test_an_error_spliced_into_an_event_that_was_cut(prefix: bytes, ending: bytes) -> None:
    """A proxy writes its own frame where its upstream broke off, in the middle of a line."""
    body = data(chunk("a")) + CUT.rstrip() + prefix + ADDED.removeprefix(b"data: ").rstrip() + ending
    for size in (len(body), 1):
        parser = parsed(body, size)
        assert isinstance(parser.error, APIError)
        assert (parser.error.message, parser.error.status_code, parser.snapshot.text) == ("reset", 502, "a")


def test_also_one_that_is_a_text() -> None:
    assert failure_of(data(chunk("a")) + CUT + b'data: {"error":"reset"}\n\n').message == "reset"


@each_case("line", [CUT.rstrip() + b'{"error":"reset"}', b'data: tried, got data: {"error":"reset"}'])
def test_an_error_without_its_field_or_behind_text_that_is_not_json_is_not_spliced(line: bytes) -> None:
    assert type(parsed(data(chunk("a")) + line + b"\n\n" + DONE).error) is InvalidChunkError


def test_text_that_looks_like_a_spliced_error_is_text() -> None:
    said = 'data: {"error":"reset"}'
    assert parsed(data(chunk(said, "stop")) + DONE).completion().text == said


@each_case("last", [b'data: {"id":"y"}\n', b"data: [1]\n", b"data: reset\n", b'data: {"message":"reset"}\n'])
def test_what_is_no_error_without_doubt_does_not_excuse_the_event_before(last: bytes) -> None:
    """Nor one that it is spliced into."""
    for cut in (CUT, CUT.rstrip()):
        assert type(parsed(data(chunk("a")) + cut + last + b"\n" + DONE).error) is InvalidChunkError
    assert failure_of(b"event: error\n" + CUT + last + b"\n").message.startswith('{"id"')


def test_an_error_behind_too_many_lines() -> None:
    assert isinstance(parsed(b"data: {}\n" * 10_001 + ADDED + b"\n").error, LimitExceededError)


BARE = [
    pytest.param({"code": "workflow_error", "message": "x", "details": "ValueError"}, id="a code and a message"),
    pytest.param({"code": "STREAM_ERROR", "message": "x"}, id="a code in capitals"),
    pytest.param({"object": "error", "message": "x", "code": 400}, id="an object named error"),
    pytest.param({"type": "error", "message": "x"}, id="a type named error"),
    pytest.param({"id": 1, "error": {"message": "x"}}, id="an envelope behind another key"),
]


@each_case("body", BARE)
@each_case("ending", [b"", b"\n", b"\n\n", b"\n\n" + DONE])
@each_case("before", [data(chunk("a")), b": hi\n\n"])
def test_an_error_as_bare_json_of_another_shape(body: Any, ending: bytes, before: bytes) -> None:
    assert failure_of(before + compact_json(body) + ending).message == "x"


@each_case(
    "body",
    [
        {"level": "info", "message": "x"},
        {"level": "warn", "msg": "x", "error": "connection reset"},
        {"level": "info", "code": "I100", "message": "x"},
        {"code": 1, "message": "success"},
        {"detail": "x"},
        {"code": 0, "message": "ok"},
        {"error": None},
    ],
)
def test_bare_json_that_may_be_anything_is_ignored(body: Any) -> None:
    parser = parsed(data(chunk("a")) + compact_json(body) + b"\n\n" + data(chunk("b", "stop")) + DONE)
    assert parser.completion().text == "ab"
    assert "CF110" in {anomaly.rule.id for anomaly in parser.anomalies}


# JSON between the blocks, in one line or in several, as Google prints it

PRINTED = {
    "in one line": b'{"error":{"code":503,"message":"x"}}\n',
    "in several": b'{\n  "error": {\n    "code": 503,\n    "message": "x"\n  }\n}\n',
    "without blanks": b'{\n"error": {\n"code": 503,\n"message": "x"\n}\n}\n',
    "with equal lines": b'{\n"error": {\n"code": 503,\n"message": "x",\n"a": {\n"b": {\n"c": 1\n}\n}\n}\n}\n',
    "in a list": b'[{\n  "error": {\n    "code": 503,\n    "message": "x"\n  }\n}\n]\n',
    "in a list of its own line": b'[\n  {\n    "error": {\n      "code": 503,\n      "message": "x"\n    }\n  }\n]\n',
    "in a list in one line": b'[{"error":{"code":503,"message":"x"}}]\n',
}


@each_case("name", PRINTED)
@each_case("ending", [b"", b"\n", b"\n" + delta("stop") + DONE])
@each_case("before", [data(chunk("a")), data(chunk("a", "stop")), b": comment\n\n", b":\n" * 30])
def test_an_error_as_bare_json(name: str, ending: bytes, before: bytes) -> None:
    for line_end in (b"\n", b"\r\n", b"\r"):
        body = before + (PRINTED[name] + ending).replace(b"\n", line_end)
        for size in (None, 1):
            parser = parsed(body, size)
            assert isinstance(parser.error, APIError), (line_end, size)
            assert (parser.end, parser.error.status_code, parser.error.message) == (StreamEnd.FAILED, 503, "x")
            assert [one.rule.id for one in parser.anomalies] in (["CF602"], ["CF602", "CF214"])


@each_case(
    ("metadata", "more"),
    [
        ({"raw": '{"error":{"message":"too many images"}}'}, ": too many images"),
        ({"raw": '[{"error":{"message":"too many images"}}]'}, ": too many images"),
        ({"raw": "too many images"}, ": too many images"),
        ({"raw": {"message": "too many images"}}, ": too many images"),
        *(({"raw": raw}, "") for raw in ("Provider", None, "", [], {}, False, 0)),  # which say no more
        *((metadata, "") for metadata in ({}, "raw", None)),
    ],
)
def test_the_text_has_what_the_provider_behind_a_router_said(metadata: Any, more: str) -> None:
    error = failure({"error": {"message": "Provider returned error", "metadata": metadata}})
    assert str(error) == f"Provider returned error{more}"
    assert error.message == "Provider returned error"


INNER = {"error": {"code": 429, "message": "slow down", "details": [{"retryDelay": "7s"}]}}
PASSED_ON = [
    pytest.param({"message": json.dumps(INNER)}, "slow down", id="JSON as the message"),
    pytest.param({"message": json.dumps([INNER])}, "slow down", id="in a list"),
    pytest.param({"message": "\n" + json.dumps(INNER)}, "slow down", id="on a line of its own"),
    pytest.param({"message": json.dumps(INNER).replace("slow", "sl\\u006fw")}, "slow down", id="with escapes"),
    pytest.param({"message": "x", "metadata": {"raw": json.dumps(INNER)}}, "x: slow down", id="OpenRouter"),
    pytest.param({"message": "x", "metadata": {"raw": INNER}}, "x: slow down", id="OpenRouter, an object"),
    pytest.param({"message": "x", "value": {"error_message": json.dumps(INNER)}}, "x: slow down", id="Vercel"),
]


@each_case(("outer", "text"), PASSED_ON)
def test_the_status_is_that_of_the_error_that_a_gateway_passes_on(outer: dict[str, Any], text: str) -> None:
    error = failure({"error": outer})
    assert (str(error), error.status_code, error.retry_after) == (text, 429, 7.0)
    assert (error.message, error.code, error.raw) == (outer["message"], None, {"error": outer})
    assert failure({"error": {**outer, "code": 502}}).status_code == 502
    response = error_from_response(502, {}, json.dumps({"error": outer}).encode())
    assert (str(response), response.status_code, response.retry_after) == (f"HTTP 502: {text}", 502, 7.0)


@each_case("message", ["{", "[]", "{}", '{"a":1}', '{"message": 5', '{"message": ""}', "[1]"])
def test_a_message_that_only_looks_like_an_error_stays(message: str) -> None:
    error = failure({"error": {"message": message}})
    assert (str(error), error.status_code) == (message, None)


@each_case(
    ("text", "message", "status"),
    [
        ('{"error":{"message":"slow down","code":"Throttling.RateQuota"}}', "slow down", 429),
        ('{"code":503,"message":"overloaded"}', "overloaded", 503),
        ("overloaded", "overloaded", None),
        ("event:error without a status", "event:error without a status", None),
    ],
)
def test_the_text_of_a_choice_that_ends_with_error_finish_is_the_error(
    text: str, message: str, status: int | None
) -> None:
    """DashScope's; none of it is an answer, so that a retry repeats nothing."""
    error = failure_of(data(chunk(text, "error_finish")) + DONE)
    assert (str(error), error.message, error.status_code) == (message, text, status)
    assert (error.type, error.snapshot.text, error.emitted_output) == (None, "", False)
    assert error.raw["choices"][0]["delta"]["content"] == text


@each_case("start", ["id:1\nevent:error\n:HTTP_STATUS/503\ndata:", "event: error\r\n:HTTP_STATUS/503\r\ndata: "])
@each_case(
    ("said", "message"),
    [('{"code":"ModelServingError","message":"too many requests"}', "too many requests"), ("busy", "busy")],
)
def test_that_text_may_be_a_whole_event(start: str, said: str, message: str) -> None:
    error = failure_of(data(chunk(f"{start}{said}\n\n", "error_finish")) + DONE)
    assert (str(error), error.status_code, error.snapshot.text) == (message, 503, "")
    assert error.retryable


@each_case("delta", [{}, {"content": None}, {"content": ""}, {"content": " \n"}, {"content": 5}, None])
def test_and_where_it_has_none_the_finish_reason_is(delta: Any) -> None:
    body = data({"choices": [{"index": 0, "delta": delta, "finish_reason": "error_finish"}]})
    assert str(failure_of(body)) == "the provider ended choice 0 with the finish reason 'error_finish'"


@each_case("named", ["error", "network_error", "recover_stop"])
def test_the_text_before_another_finish_reason_is_an_answer(named: str) -> None:
    error = failure_of(data(chunk("Hi", named)))
    assert (error.message, error.snapshot.text) == (
        f"the provider ended choice 0 with the finish reason '{named}'",
        "Hi",
    )


def test_what_the_provider_behind_a_router_said_is_bounded() -> None:
    for raw in ('{"a":' * 10_000, "[" * 70_000, '{"message":"x"' + " " * 70_000 + "}"):
        text = str(failure({"error": {"message": "m", "metadata": {"raw": raw}}}))
        assert len(text) < 600
        assert text != "m: x"  # a long one is not read


def test_the_place_in_the_request_that_is_wrong() -> None:
    """FastAPI's `loc`."""
    detail = [{"msg": "x"}, {"loc": ["body", "messages", 0, "role"], "msg": "Field required"}, {"loc": ["query"]}]
    error = failure({"detail": detail})
    assert (error.param, error.message) == ("body.messages.0.role", "x; Field required")
    assert failure({"error": {"detail": {"errors": detail}}}).param == "body.messages.0.role"  # Llama Stack
    assert failure({"detail": [{"loc": [], "msg": "x"}, {"loc": "body"}, 5]}).param is None
    assert len(failure({"detail": [{"loc": ["a"] * 1000, "msg": "x"}]}).param or "") < 30
    assert len(failure({"detail": [{"loc": ["a" * 1000], "msg": "x"}]}).param or "") < 60


# The code, as sent, and the status it means


LIMIT = {"message": "x", "code": "rate_limit_exceeded", "param": "p"}
OF_THE_LIMIT = {**LIMIT, "status_code": 429, "retryable": True}
GENERATION = {"type": "invalid_request_error", "param": "tools", "code": "tool_use_failed", "failed_generation": "<f>"}
ATTRIBUTES: dict[str, tuple[Any, dict[str, Any]]] = {  # of the error, or of its object
    **{
        f"the code {code!r}, as sent": ({"error": {"message": "x", "code": code}}, {"code": code})
        for code in (429, "429", "rate_limit_exceeded", 1302, 0, -1, "", None, "E-17")
    },
    "a code and a type beside a string": (
        {"error": "x", "error_type": "overloaded_error", "code": "E1"},
        {"message": "x", "type": "overloaded_error", "code": "E1"},
    ),
    **{
        f"a code named in camel case beside {name}, {word}": (
            {**body, "errorCode": word},
            {"message": "x", "code": word, "status_code": status},
        )
        for word, status in (("BAD_REQUEST", 400), ("RATE_LIMITED", 429), ("OTHER", None))
        for name, body in (("a string", {"success": False, "error": "x"}), ("an object", {"error": {"message": "x"}}))
    },
    "a type beside a bare message": (
        {"message": "x", "error_type": "overloaded_error"},
        {"type": "overloaded_error", "status_code": 503},
    ),
    "a code in camel case in an envelope": ({"error": {"message": "x", "errorCode": "200"}}, {"code": "200"}),
    "a code before one in camel case": ({"error": {"message": "x", "code": "a"}, "errorCode": "b"}, {"code": "a"}),
    # FastAPI's `HTTPException` with an object, which gateways fill with the error of their upstream.
    "a detail": ({"detail": LIMIT}, OF_THE_LIMIT),
    "an error in a detail": ({"detail": {"error": LIMIT}}, OF_THE_LIMIT),
    "a detail in an error": ({"error": {"detail": LIMIT}}, OF_THE_LIMIT),
    "a code beside a detail": (
        {"code": LIMIT["code"], "param": "p", "detail": {"message": "x", "code": 500}},
        OF_THE_LIMIT,
    ),
    "a detail beside a message is not the error": ({"error": {"message": "m", "detail": LIMIT}}, {"code": None}),
    "the rest (Groq's recoverable payload)": (
        {"error": {"message": "x", **GENERATION, "metadata": {"raw": [1]}}, "user_id": "u"},
        {**GENERATION, "metadata": {"raw": [1]}},
    ),
}


@each_case("name", ATTRIBUTES)
def test_what_an_error_has(name: str) -> None:
    body, expected = ATTRIBUTES[name]
    error = failure(body)
    assert {key: getattr(error if hasattr(error, key) else error.error, key) for key in expected} == expected
    assert error.raw == body


STATUSES = {
    # A number, wherever it stands.
    "code": ({"error": {"code": 429}}, 429),
    "code in digits (LiteLLM)": ({"error": {"code": "503"}}, 503),
    "with a fraction of 0": ({"error": {"code": 429.0}}, 429),
    "status_code (Groq)": ({"error": {"status_code": 400}}, 400),
    "status_code beside a string": ({"error": "x", "status_code": 500}, 500),
    "code beside the error": ({"error": {"message": "x"}, "code": 502}, 502),
    "code before status_code": ({"error": {"code": 429, "status_code": 400}}, 429),
    "status_code before status": ({"error": {"status_code": 400, "status": 503}}, 400),
    # It comes before the words.
    "a number before a code": ({"error": {"code": "rate_limit_exceeded", "status_code": 400}}, 400),
    "a number before a type": ({"error": {"type": "rate_limit_error", "code": 503}}, 503),
    "also one outside": ({"error": {"type": "rate_limit_error"}, "status_code": 503}, 503),
    "a number before metadata": ({"error": {"code": 402, "metadata": {"error_type": "rate_limit"}}}, 402),
    # The words of code and type.
    "rate_limit_exceeded": ({"error": {"code": "rate_limit_exceeded"}}, 429),
    "invalid_api_key": ({"error": {"code": "invalid_api_key"}}, 401),
    "model_not_found": ({"error": {"code": "model_not_found"}}, 404),
    "context_length_exceeded": ({"error": {"code": "context_length_exceeded"}}, 400),
    "tool_use_failed": ({"error": {"code": "tool_use_failed"}}, 400),
    "upstream_timeout (OpenToken)": ({"error": {"code": "upstream_timeout"}}, 504),
    "provider_error (Sansa)": ({"error": {"code": "provider_error"}}, 502),
    "invalid_request_error": ({"error": {"type": "invalid_request_error"}}, 400),
    "authentication_error": ({"error": {"type": "authentication_error"}}, 401),
    "permission_error": ({"error": {"type": "permission_error"}}, 403),
    "server_error": ({"error": {"type": "server_error"}}, 500),
    "BadRequestError (vLLM)": ({"error": {"type": "BadRequestError"}}, 400),
    "RateLimitError": ({"error": {"type": "RateLimitError"}}, 429),
    "RESOURCE_EXHAUSTED (Google)": ({"error": {"status": "RESOURCE_EXHAUSTED"}}, 429),
    "UNAVAILABLE (Google)": ({"error": {"status": "UNAVAILABLE"}}, 503),
    "a word in the metadata": ({"error": {"metadata": {"error_type": "overloaded"}}}, 503),
    "a word that nobody knows": ({"error": {"message": "m", "code": "unheard_of"}}, None),
    "OpenRouter's own words": ({"error": {"metadata": {"error_type": "provider_overloaded"}}}, 503),
    "OpenRouter's other words": ({"error": {"metadata": {"error_type": "provider_unavailable"}}}, 503),
    "a limit of tokens (OpenRouter)": ({"error": {"metadata": {"error_type": "token_limit_exceeded"}}}, 400),
    "a long text (OpenRouter)": ({"error": {"metadata": {"error_type": "string_too_long"}}}, 400),
    "a large image (OpenRouter)": ({"error": {"metadata": {"error_type": "image_too_large"}}}, 400),
    "a condition (OpenRouter)": ({"error": {"metadata": {"error_type": "precondition_failed"}}}, 412),
    "a large request (OpenRouter)": ({"error": {"metadata": {"error_type": "payload_too_large"}}}, 413),
    "what nobody can process (OpenRouter)": ({"error": {"metadata": {"error_type": "unprocessable"}}}, 422),
    "a word beside the message": ({"error": {"message": "x", "error_type": "overloaded"}}, 503),
    "a number that is no status of an error": ({"error": {"code": 600, "message": "x"}}, None),
    # They come before metadata.
    "metadata (OpenRouter)": ({"error": {"metadata": {"error_type": "rate_limit_exceeded"}}}, 429),
    "a type first": ({"error": {"type": "server_error", "metadata": {"error_type": "rate_limit_exceeded"}}}, 500),
    "a code first": ({"error": {"code": "invalid_api_key", "metadata": {"error_type": "rate_limit_exceeded"}}}, 401),
    "queue_exceeded (Cerebras)": ({"error": {"type": "queue_exceeded", "code": "queue_exceeded"}}, 429),
    "an exception's type (AWS)": ({"__type": "ThrottlingException", "message": "x"}, 429),
    "an exception's name (Bedrock)": ({"modelStreamErrorException": {"message": "x"}}, 500),
    "a word beside no choice": ({"id": "c", "choices": [], "message": "x", "type": "server_error"}, 500),
    # Numbers under other names, and numbers that are words.
    "http_code": ({"error": {"http_code": 429}}, 429),
    "http_status_code": ({"error": {"http_status_code": "429"}}, 429),
    "the upstream's finish reason":
        ({"choices": [{"finish_reason": "stop", "native_finish_reason": "rate_limit_error"}]}, 429),
    "raw_status_code (Mistral)":
        ({"object": "error", "type": "service_tier_capacity_exceeded", "code": "3505", "raw_status_code": 503}, 503),
    "Zhipu's 1002: a wrong key": ({"error": {"code": "1002", "message": "x"}}, 401),
    "Zhipu's 1302: too many requests": ({"error": {"code": 1302, "message": "x"}}, 429),
    "Mistral's 1300 beside a type": ({"object": "error", "type": "rate_limited", "code": "1300"}, 429),
    "Zhipu's 1300: unsafe": ({"error": {"code": "1300"}}, 400),
    "Zhipu's 1302 behind another word": ({"error": {"code": "odd", "type": "1302"}}, 429),
    "Gemini's too many calls": (chunk(None, "too_many_tool_calls"), 500),
    "Gemini's unexpected call": (chunk(None, "unexpected_tool_call"), 500),
    "Gemini's malformed response": (chunk(None, "MALFORMED_RESPONSE"), 500),
    "Bedrock's malformed call": (chunk(None, "malformed_tool_use"), 500),
    "Bedrock's malformed output": (chunk(None, "malformed_model_output"), 500),
    "Gemini's missing signature": (chunk(None, "MISSING_THOUGHT_SIGNATURE"), 400),
    "no channel (new-api)": ({"error": {"code": "get_channel_failed", "type": "new_api_error"}}, 500),
    "no connection (one-api)": ({"error": {"message": "x", "type": "do_request_failed"}}, 500),
    "LLM Gateway": ({"error": {"message": "x", "type": "gateway_error", "code": "streaming_error"}}, 502),
    "no credit (one-api)": ({"error": {"code": "insufficient_user_quota"}}, 403),
    "a burst (DashScope)": ({"error": {"code": "limit_burst_rate"}}, 429),
    "requests a minute (Baidu)": ({"code": "rpm_rate_limit_exceeded", "message": "m"}, 429),
    "tokens a minute (Baidu)": ({"code": "tpm_rate_limit_exceeded", "message": "m"}, 429),
    "a high load": ({"error": {"code": "server_high_load"}}, 503),
    "statusCode": ({"error": {"message": "x", "statusCode": 429}}, 429),
    "httpCode (gRPC gateways)": ({"error": {"grpcCode": 8, "httpCode": 429, "message": "x"}}, 429),
    "a word in two parts": ({"error": {"code": "model.not_found"}}, 404),
    "a word and what more it says": ({"error": {"code": "RATE_LIMIT.EXCEEDED"}}, 429),
    "a sentence (xAI)": ({"code": "The service is currently unavailable", "error": "x"}, 503),
    "another sentence (xAI)": ({"code": "Some resource has been exhausted", "error": "x"}, 429),
    "slow_down (OpenAI)": ({"type": "error", "error": {"code": "slow_down", "message": "x"}}, 503),
    "capacity_exceeded (Groq)": ({"error": {"code": "capacity_exceeded"}}, 503),
    "stream_error (gateways)": ({"error": "x", "code": "stream_error", "message": "x"}, 502),
    "server_is_overloaded": ({"error": {"code": "server_is_overloaded"}}, 503),
    "MiniMax's 1002: too many requests": ({"base_resp": {"status_code": 1002, "status_msg": "x"}}, 429),
    "its 2045: too many at once": ({"base_resp": {"status_code": 2045, "status_msg": "x"}}, 429),
    "MiniMax's 1004: a wrong key": ({"base_resp": {"status_code": 1004, "status_msg": "x"}}, 401),
    "SiliconFlow's 50508: too busy": ({"code": 50508, "message": "x", "data": None}, 503),
    # Never 200, nor any number that is no status of an error.
    "200": ({"error": {"code": 200}}, None),
    "200 in digits": ({"error": {"code": "200"}}, None),
    "200 and a word": ({"error": {"code": 200, "type": "rate_limit_error"}}, 429),
    "0": ({"error": {"code": 0}}, None),
    "302": ({"error": {"code": 302}}, None),
    "3302": ({"error": {"code": 3302}}, None),
    "-429": ({"error": {"code": -429}}, None),
    "a fraction": ({"error": {"code": 429.5}}, None),
    "true": ({"error": {"code": True}}, None),
    "a status line": ({"error": {"code": "429 Too Many Requests"}}, ANY),
    "an unknown word": ({"error": {"code": "no_such_word"}}, None),
    "no words": ({"error": {"code": ["rate_limit"], "type": {}}}, None),
    "a message is no code": ({"error": "rate_limit_exceeded"}, None),
}  # fmt: skip


def test_an_empty_error_hides_no_other() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "", "code": None}}
    body = {"id": "c", "choices": [choice], "x_groq": {"error": {"message": "overloaded", "code": 503}}}
    assert failure(body).message == "overloaded"
    assert "finish reason" in failure({"id": "c", "choices": [choice]}).message


def test_an_error_before_another_api() -> None:
    body = {"object": "text_completion", "choices": [{"index": 0, "text": "a", "finish_reason": "error"}]}
    assert "finish reason" in failure(body).message
    assert failure({"type": "response.created", "error": {"message": "x"}}).message == "x"


@each_case(("body", "status"), STATUSES.values(), ids=STATUSES)
def test_status(body: Any, status: int | None) -> None:
    """A number in the body, then the words of code and type, then `metadata.error_type`."""
    error = failure(body)
    if status is not ANY:
        assert error.status_code == status
    assert error.status_code != 200


@each_case(
    ("status", "transient"),
    [
        *((status, False) for status in (400, 401, 402, 403, 404, 413, 422)),
        *((status, True) for status in TRANSIENT),
    ],
)
def test_what_may_be_gone_at_the_next_try(status: int, transient: bool) -> None:
    error = failure({"error": {"code": status}})
    assert error.status_code == status
    assert error.is_transient() is error.retryable is transient


def test_an_empty_account_does_not_fill_by_itself() -> None:
    """It has the status of a rate limit, and no retry helps."""
    for fields in (
        {"type": "insufficient_quota", "code": "insufficient_quota"},
        {"type": "exceeded_current_quota_error"},  # Moonshot
        {"code": "1113"},  # Zhipu
        {"code": 1113},
        {"type": "budget_exceeded", "code": "429"},  # LiteLLM
    ):
        error = error_from_response(429, {}, json.dumps({"error": {"message": "x", **fields}}).encode())
        assert error.status_code == 429
        assert not error.retryable


NO_MESSAGE = "the provider sent an error without a message"


def nested(depth: int) -> Any:
    """A message in so many objects."""
    return {"message": nested(depth - 1)} if depth else "x"


MESSAGES = [
    pytest.param({"error": {"message": "x"}}, "x", id="message"),
    pytest.param({"error": {"msg": "x"}}, "x", id="msg"),
    pytest.param({"error": {"detail": "x"}}, "x", id="detail"),
    pytest.param({"error": "x"}, "x", id="a string"),
    pytest.param({"error": "Bad Request", "message": "x"}, "Bad Request: x", id="a phrase beside a message (Fastify)"),
    pytest.param({"error": "x", "error_description": "y"}, "x: y", id="a word beside its description (OAuth)"),
    pytest.param({"error": {"error": "x", "error_description": "y"}}, "y", id="its description in an envelope"),
    pytest.param({"error": "x", "title": "y"}, "x: y", id="a phrase beside a title"),
    pytest.param({"error": "x", "message": "x"}, "x", id="the same twice"),
    pytest.param({"error": "x", "message": "x: y"}, "x: y", id="a phrase that begins the message"),
    pytest.param({"message": "x", "code": "LIMIT", "status": 200}, "x", id="a code beside a good status"),
    pytest.param({"message": "x", "code": "E1", "error_code": 0}, "x", id="a code beside a good one"),
    pytest.param({"error": ["x"]}, "x", id="a list"),
    pytest.param({"error": [{"message": "x"}]}, "x", id="a list of objects"),
    pytest.param({"error": {"error": {"message": "x"}}}, "x", id="an envelope in an envelope"),
    pytest.param({"error": {"message": {"message": "x"}}}, "x", id="a message that is an object"),
    pytest.param({"error": {"message": nested(4)}}, "x", id="a few objects deep"),
    pytest.param({"error": {"message": nested(5)}}, NO_MESSAGE, id="but no deeper"),
    pytest.param({"detail": [{"loc": ["body"], "msg": "x", "type": "missing"}]}, "x", id="FastAPI's list"),
    pytest.param({"detail": {"message": "x"}}, "x", id="FastAPI's object"),
    pytest.param({"error": {"detail": {"errors": [{"loc": ["m"], "msg": "x"}]}}}, "x", id="Llama Stack's list"),
    pytest.param({"message": "x"}, "x", id="bare"),
    pytest.param({"message": {"error": "x"}}, "x", id="bare, an object"),
    pytest.param({"code": 500, "message": "x", "usage": {"total_tokens": 0}}, "x", id="bare, beside a usage"),
    pytest.param({"error_type": "BadRequestError", "error_message": "x"}, "x", id="error_message (Venice)"),
    pytest.param({"choices": None, "error_message": "x", "error_code": 400}, "x", id="beside a code (DeepInfra)"),
    pytest.param({"choices": [], "error_message": "x"}, "x", id="beside an empty list"),
    pytest.param({"errors": {"message": "x"}}, "x", id="an object of errors (ModelScope)"),
    pytest.param({"error": {"error_message": "x"}}, "x", id="error_message"),
    pytest.param({"error": {"title": "x"}}, "x", id="title"),
    pytest.param({"error": True, "title": "x"}, "x", id="the first name that has words"),
    pytest.param({"success": False, "errors": [{"description": "x", "key": "k"}]}, "x", id="description (Writer)"),
    *(
        pytest.param(
            {"choices": [{name: {"error": {"message": "x"}}, "finish_reason": "error"}]}, "x", id=f"in a {name}"
        )
        for name in ("delta", "message")
    ),
]


@each_case(("body", "message"), MESSAGES)
def test_message(body: Any, message: str) -> None:
    error = failure(body)
    assert error.message == message
    assert str(error) == message


def test_a_message_is_escaped_and_kept_raw() -> None:
    """The exception's text is fit for a terminal; the message is what was sent."""
    error = failure({"error": {"message": "a\nb\x1b[31m"}})
    assert error.message == "a\nb\x1b[31m"
    assert str(error).isprintable()
    assert str(error).startswith("a")


@each_case(
    ("message", "shown"),
    [
        ("line 1\nline 2", "line 1 line 2"),
        ("  line 1\r\n\t line 2\n", "line 1 line 2"),
        ('it\'s a "quote" and a \\', 'it\'s a "quote" and a \\'),
        ("\x1b[31m\u202e\x00", "\\x1b[31m\\u202e\\x00"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 500 + "..."),
        ("x" * 10_000, "x" * 500 + "..."),
        ("\x1b" * 400, ("\\x1b" * 125) + "..."),
    ],
)
def test_a_message_is_shown_as_text_on_one_line(message: str, shown: str) -> None:
    body = {"error": {"message": message}}
    assert str(failure(body)) == shown
    error = error_from_response(400, {}, compact_json(body))
    assert (str(error), error.message) == (f"HTTP 400: {shown}", message)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"error":{"message":"a\\ud83d"}}', id="in the message"),
        pytest.param(b'{"error":"a\\ud83d"}', id="in a string"),
        pytest.param(b'{"error":{"message":"a","x":"\\ud83d"}}', id="in another value"),
        pytest.param(b'{"error":{"message":"a","\\ud83d":1}}', id="in a key"),
    ],
)
def test_half_a_character_is_replaced(body: bytes) -> None:
    """As everywhere: no text that is handed out has half a surrogate pair."""
    for error in (failure(body), error_from_response(500, {}, body)):
        assert error.message.startswith("a")
        assert "\ufffd" in error.error.model_dump_json().encode().decode()


# HTTP errors

RESPONSES = [
    pytest.param({"error": LIMITED}, "slow down", "rate_limit_exceeded", id="OpenAI"),
    pytest.param({"error": "overloaded"}, "overloaded", None, id="a string"),
    pytest.param([{"error": {"message": "quota", "code": 429}}], "quota", 429, id="Google"),
    pytest.param([{"message": "bad", "code": "E1"}, {"message": "no"}], "bad; no", "E1", id="a list of several"),
    pytest.param({"object": "error", "message": "bad", "code": 40003}, "bad", 40003, id="vLLM"),
    pytest.param({"detail": "Not Found"}, "Not Found", None, id="FastAPI"),
    pytest.param({"message": "Forbidden"}, "Forbidden", None, id="AWS"),
    pytest.param({"Message": "Forbidden"}, "Forbidden", None, id="AWS, in capitals"),
    pytest.param({"throttlingException": {"message": "slow"}}, "slow", None, id="Bedrock"),
    pytest.param({"success": False, "errors": [{"code": 7003, "message": "no"}]}, "no", 7003, id="Cloudflare"),
    pytest.param({"errors": [{"code": "e", "message": "no"}], "status_code": 4}, "no", "e", id="watsonx"),
    pytest.param({"error_code": 17, "error_msg": "no"}, "no", 17, id="Baidu"),
    pytest.param({"Response": {"Error": {"Code": "E", "Message": "no"}}}, "no", "E", id="Tencent"),
    pytest.param({"error_code": "GONE", "message": "no"}, "no", "GONE", id="Databricks"),
    pytest.param({"msg": "x", "code": "E1"}, "x", "E1", id="others"),
    pytest.param({"error_msg": "404 Route Not Found"}, "404 Route Not Found", None, id="APISIX"),
    pytest.param({"fault": {"faultstring": "x", "detail": {"errorcode": "y"}}}, "x", None, id="Apigee"),
    pytest.param({"httpStatus": 401, "messages": [{"errorCode": "e", "message": "x"}]}, "x", None, id="IONOS"),
    pytest.param(b"upstream connect error\n", "upstream connect error", None, id="text"),
    pytest.param(b"<html>502</html>", "<html>502</html>", None, id="HTML"),
    pytest.param(b'{"error": {"mess', '{"error": {"mess', None, id="cut JSON"),
    pytest.param(b"", ANY, None, id="nothing"),
    pytest.param(b"null", ANY, None, id="null"),
    pytest.param({"error": None}, ANY, None, id="a null error"),
    pytest.param(b"[" * 10_000, ANY, None, id="deep"),
]


@each_case(("body", "message", "code"), RESPONSES)
def test_error_from_response(body: Any, message: str, code: Any) -> None:
    headers = {"X-Request-ID": "req_1", "Content-Type": "application/json", "x-ratelimit-remaining": "0"}
    raw = body if isinstance(body, bytes) else compact_json(body)
    error = error_from_response(429, headers, raw)
    assert type(error) is APIStatusError
    assert error.status_code == 429  # the response's own; the body has no say
    assert error.code == code
    assert error.request_id == "req_1"
    assert error.headers["x-ratelimit-remaining"] == "0"
    assert error.headers["content-type"] == "application/json"
    assert error.retryable
    assert "429" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 1_000
    if message is not ANY:
        assert error.message == message
        assert message.replace('"', "") in str(error).replace('"', "").replace("\\", "")
    if not isinstance(body, bytes):
        assert error.raw == (body[0] if isinstance(body, list) and len(body) == 1 else body)
    elif body and body != b"null" and len(body) < 1000:
        assert error.raw == body.decode().strip()


@each_case("first", [b"id:1\n", b"retry: 5\n", b": hi\n\n", b"data: {}\n\n", b""])
def test_the_error_of_a_refused_response_that_is_an_event_stream(first: bytes) -> None:
    body = first + b'event:error\n:HTTP_STATUS/429\ndata:{"code":"Throttling","message":"slow down"}\n\n'
    error = error_from_response(429, {}, body)
    assert (error.message, error.code) == ("slow down", "Throttling")


@each_case(
    "body",
    [
        b"event: error\n: overloaded\n\n",
        b"event: error\ndata: overloaded\n\n",
        b'event: error\ndata: {\ndata: "message": "overloaded"\ndata: }\n\n',
        b'error: {"code": 503, "message": "overloaded"}\n\n',
    ],
)
def test_the_error_of_a_refused_response_that_is_an_error_event(body: bytes) -> None:
    assert error_from_response(503, {}, body).message == "overloaded"


def test_the_parser_gives_the_same_error() -> None:
    headers = {"X-Request-ID": "req_1", "Retry-After": "3"}
    raw = compact_json({"error": LIMITED})
    parser = parsed(raw, status_code=503, headers=headers)
    error, same = parser.error, error_from_response(503, headers, raw)
    assert isinstance(error, APIStatusError)
    assert parser.end is StreamEnd.FAILED
    assert str(error) == str(same)
    for name in ("error", "status_code", "code", "type", "param", "request_id", "retry_after", "raw", "headers"):
        assert getattr(error, name) == getattr(same, name)


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (401, False), (404, False), (429, True), (503, True)])
def test_a_response_is_retried_by_its_own_status(status: int, retryable: bool) -> None:
    error = error_from_response(status, {}, b'{"error":{"message":"x","code":"server_error"}}')
    assert error.status_code == status
    assert error.retryable is retryable


@each_case(("told", "retryable"), [("true", True), ("false", False), ("maybe", None), ("", None)])
def test_what_the_response_says_of_a_retry_counts_first(told: str, retryable: bool | None) -> None:
    for status, by_status in ((400, False), (429, True)):
        error = error_from_response(status, {"X-Should-Retry": told}, b"{}")
        assert error.retryable is (by_status if retryable is None else retryable)


@each_case("word", ["exceed_context_size_error", "context_length_exceeded"])
def test_a_request_that_is_too_long_is_not_retried(word: str) -> None:
    error = failure({"error": {"code": 500, "message": "x", "type": word}})
    assert (error.status_code, error.retryable) == (500, False)


# How long to wait

NOON = "Wed, 21 Oct 2015 12:00:00 GMT"
WAITS = [
    pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
    pytest.param({"retry-after": "0"}, 0.0, id="at once"),
    pytest.param({"retry-after": "1.5"}, 1.5, id="a fraction"),
    pytest.param({"Retry-After": " 7 "}, 7.0, id="names in any case, blanks around"),
    pytest.param({"retry-after-ms": "250"}, 0.25, id="milliseconds"),
    pytest.param({"retry-after-ms": "250", "retry-after": "7"}, 0.25, id="milliseconds first: they say more"),
    pytest.param({"retry-after-ms": "soon", "retry-after": "7"}, 7.0, id="unless they are nonsense"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 12:00:30 GMT", "date": NOON}, 30.0, id="a date, against Date"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 14:00:30 +0200", "date": NOON}, 30.0, id="in another time zone"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 11:59:00 GMT", "date": NOON}, 0.0, id="a date that has passed"),
    pytest.param({"retry-after": "Wed Oct 21 12:00:30 2015", "date": NOON}, 30.0, id="a date of asctime"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 12:00:30 GMT"}, None, id="a date without Date: no clock is asked"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 12:00:30 GMT", "date": "noon"}, None, id="a Date that is none"),
    pytest.param({"retry-after": "Wed, 21 Oct 2015 12:00:30 -0000", "date": NOON}, ANY, id="a date of no zone"),
    pytest.param({}, None, id="not sent"),
    *(
        pytest.param({"retry-after": text, "date": NOON}, None, id=f"nonsense: {text!r}")
        for text in (
            *("", "soon", "-1", "nan", "inf", "-inf", "1e999", "0x10", "1_000", "\u0661", "7 s", "7;8", "--7"),
            *("Wed, 99 Oct 2015 12:00:30 GMT", "Wed, 21 Oct 99999999999999999999 12:00:30 GMT"),
            *("Wed, 21 Oct 2015 12:00:30 +99999999999999999999", "21 Oct", ",", "Wed,"),
        )
    ),
    pytest.param({"llm_provider-retry-after": "7"}, 7.0, id="LiteLLM"),
    pytest.param({"llm_provider-retry-after-ms": "250", "llm_provider-retry-after": "7"}, 0.25, id="LiteLLM, ms"),
    pytest.param({"llm_provider-retry-after-ms": "250", "retry-after": "7"}, 7.0, id="LiteLLM's own first"),
    pytest.param({"llm_provider-retry-after": "7", "retry-after": "soon"}, 7.0, id="unless it is nonsense"),
    pytest.param({"retry-after-ms": "-1"}, None, id="milliseconds below 0"),
    pytest.param({"retry-after-ms": "nan"}, None, id="no milliseconds"),
]


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


@each_case(
    ("details", "seconds"),
    [
        ([{"@type": "x"}, RETRY_INFO], 34.5),
        ([5, {"retryDelay": "0s"}], 0.0),
        *(([{"retryDelay": delay}], None) for delay in ("", "s", "1m", "-1s", "1e9s", "infs", 5, None)),
        (RETRY_INFO, None),
        (None, None),
    ],
)
def test_a_wait_in_the_body(details: Any, seconds: float | None) -> None:
    """Google's compatible endpoint has no header for it."""
    body = {"error": {"code": 429, "message": "x", "details": details}}
    assert failure(body).retry_after == seconds
    assert error_from_response(429, {}, json.dumps(body).encode()).retry_after == seconds
    assert error_from_response(429, {"retry-after": "7"}, json.dumps(body).encode()).retry_after == 7


@each_case(
    ("metadata", "seconds"),
    [
        ({"retry_after_seconds": 11, "retry_after_seconds_raw": 10.918}, 11.0),
        ({"retry_after_seconds": 0.5}, 0.5),
        ({"raw": json.dumps(INNER), "retry_after_seconds": 11}, 11.0),
        ({"raw": json.dumps(INNER), "retry_after_seconds": None}, 7.0),
        *(({"retry_after_seconds": wait}, None) for wait in (None, -1, True, float("inf"), 10**20, [], "soon")),
        ("11", None),
    ],
)
def test_a_wait_in_the_metadata(metadata: Any, seconds: float | None) -> None:
    """Within a stream, OpenRouter has no header for it."""
    body = {"error": {"code": 429, "message": "x", "metadata": metadata}}
    assert api_error(body["error"], body).retry_after == seconds


def test_a_wait_in_the_metadata_of_an_error_that_a_gateway_passes_on() -> None:
    passed_on = json.dumps({"error": {"message": "x", "metadata": {"retry_after_seconds": 9}}})
    assert failure({"error": {"message": passed_on}}).retry_after == 9.0


@each_case(
    "body",
    [
        {"error": {"message": "x", "request_id": "b"}},
        {"error": {"message": "x"}, "request_id": "b"},
        {"error": {"message": "x", "request_id": ""}, "request_id": "b"},
    ],
)
def test_the_id_of_the_request_in_the_body(body: dict[str, Any]) -> None:
    assert failure(body).request_id == "b"
    for headers, expected in ({}, "b"), ({"x-request-id": "a"}, "a"):
        assert error_from_response(400, headers, json.dumps(body).encode()).request_id == expected
        assert parsed(data(body), headers=headers).error.request_id == expected
    assert failure({"error": {"message": "x", "request_id": 5}}).request_id is None
    assert failure({"title": "Bad Request", "status": 400, "detail": "x", "requestId": "b"}).request_id == "b"  # NVIDIA


def test_headers_of_urllib_and_one_without_a_value() -> None:
    message: Any = Message()
    message["Retry-After"], message["X-Request-ID"] = "7", "a"
    without: Any = {"retry-after": "7", "x-request-id": None, "request-id": "a", "x": None}
    for headers in message, without:
        error = error_from_response(429, headers, b"")
        assert (error.retry_after, error.request_id) == (7.0, "a")
        assert "x" not in error.headers
        assert ChatCompletionParser(headers=headers).request_id == "a"


def test_headers_in_bytes() -> None:
    headers: Any = {b"Retry-After": b"7", b"X-Request-ID": "a"}
    error = error_from_response(429, headers, b"")
    assert (error.retry_after, error.request_id) == (7.0, "a")


@each_case(("headers", "seconds"), WAITS)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    error = error_from_response(429, headers, b"")
    if seconds is not ANY:
        assert error.retry_after == seconds
    assert error.retry_after is None or type(error.retry_after) is float
    # The same from the headers of a stream whose body has the error.
    assert parsed(data({"error": {"message": "x"}}), headers=headers).error.retry_after == error.retry_after


@each_case(
    ("headers", "expected"),
    [
        ({"X-Request-Id": "a"}, "a"),
        ({"request-id": "a"}, "a"),
        *(({name: "a"}, "a") for name in ("x-oneapi-request-id", "apim-request-id", "x-amzn-requestid")),
        *(({name: "a"}, "a") for name in ("x-generation-id", "mistral-correlation-id", "x-ds-trace-id", "x-log-id")),
        ({"x-msh-trace-id": "b", "Msh-Request-Id": "a"}, "a"),
        ({"trace-id": "b", "minimax-request-id": "a", "alb_request_id": "c"}, "a"),
        *(({name: "a"}, "a") for name in ("x-trace-id", "trace-id", "Nvcf-Reqid")),
        ({"x-litellm-call-id": "a"}, "a"),
        ({"X-Portkey-Trace-Id": "a"}, "a"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c", "request-id": "b", "x-request-id": "a"}, "a"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c", "request-id": "b"}, "b"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c"}, "c"),
        ({"x-requests": "a"}, None),
    ],
)
def test_request_id(headers: dict[str, str], expected: str | None) -> None:
    """OpenAI, Anthropic, LiteLLM and Portkey have names of their own for it."""
    assert error_from_response(500, headers, b"").request_id == expected
    parser = parsed(data({"error": {"message": "x"}}), headers=headers)
    assert parser.request_id == parser.error.request_id == expected


def test_headers_are_looked_up_in_any_case_and_show_no_values() -> None:
    headers = error_from_response(429, {"Retry-After": "3", "Set-Cookie": "secret"}, b"").headers
    assert dict(headers) == {"retry-after": "3", "set-cookie": "secret"}
    assert headers["RETRY-AFTER"] == "3"
    assert ("Retry-after" in headers, len(headers), headers.get("x")) == (True, 2, None)
    assert "secret" not in repr(headers)


@pytest.mark.parametrize("before", [b"", b"\n", b": hello\n", b"event: error\n"])
def test_a_refusal_that_is_told_as_an_event_is_read(before: bytes) -> None:
    body = before + b'data: {"error":{"message":"no credit","code":"insufficient_quota"}}\n\ndata: [DONE]\n\n'
    for cut in (body, body.removesuffix(b"\n\ndata: [DONE]\n\n")):
        error = error_from_response(429, {}, cut)
        assert (error.message, error.code, error.retryable) == ("no credit", "insufficient_quota", False)


def test_a_refusal_of_apisix_has_its_message() -> None:
    assert error_from_response(404, {}, b'{"error_msg":"404 Route Not Found"}').message == "404 Route Not Found"


@pytest.mark.parametrize("body", [b"data: nothing", b": hello", b"data", b"event: error\n\n"])
def test_a_refusal_that_only_looks_like_an_event_is_quoted(body: bytes) -> None:
    assert error_from_response(503, {}, body).message == body.decode().strip()


# Redirects


@each_case(
    ("location", "told"),
    [
        ("https://api.example/v1/chat/completions", ", redirected to 'https://api.example/v1/chat/completions'"),
        ("HTTPS://api.example:8443/v1", ", redirected to 'https://api.example:8443/v1'"),
        ("https://user:secret@api.example/v1?key=secret#secret", ", redirected to 'https://api.example/v1'"),
        ("//user:secret@api.example/v1", ", redirected to '//api.example/v1'"),
        ("/v1/models/a-b:stream?key=secret", ", redirected to '/v1/models/a-b:stream'"),
        ("https://[::1]:80", ", redirected to 'https://[::1]:80'"),
        ("https://api.example/v1;id=secret", ", redirected to 'https://api.example'"),
        ("https://api.example/user:secret@v1", ", redirected to 'https://api.example'"),
        ("https://api.example/v1%3Fkey%3Dsecret", ", redirected to 'https://api.example'"),
        ("https://api.example/a\x1b[2Jb", ", redirected to 'https://api.example'"),
        *[
            (where, "")
            for where in ("", "secret", "user:secret@api.example", "data:text/plain,secret", "http:///a@secret")
        ],
        *[(where, "") for where in ("http:secret", "http://[secret", "?secret", "http:\\\\user:secret@host")],
    ],
)
@each_case("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_without_what_may_be_secret(status: int, location: str, told: str) -> None:
    error = error_from_response(status, {"Location": location}, b"")
    assert str(error) == f"HTTP {status}{told}: the provider sent an error without a message"
    assert error.headers["location"] == location


@each_case(
    ("value", "told"),
    [
        ({"code": "foo"}, ": code 'foo'"),
        ({"code": 503, "type": "busy"}, ": code 503, type 'busy'"),
        ({"type": "a\x1b[2J"}, ": type 'a\\x1b[2J'"),
        ({"message": "", "code": None}, ""),
        ({"param": "x"}, ""),
    ],
)
def test_an_error_without_a_message_shows_its_code_and_type(value: dict[str, Any], told: str) -> None:
    error = parse_payload(ServerSentEvent(json.dumps({"error": value}).encode())).error
    assert str(error) == f"the provider sent an error without a message{told}"


@each_case(
    ("body", "told"),
    [
        (
            b'{"httpMessage": "no\x1b[2J",\n "moreInformation": "x"}',
            ': {"httpMessage": "no\\x1b[2J", "moreInformation": "x"}',
        ),
        (b'{"x": "' + b"y" * 1000 + b'"}', f': {{"x": "{"y" * 193}...'),
        (b'{"error": {"code": 5}, "x": "y"}', ": code 5"),
        (b"", ""),
    ],
)
def test_a_response_without_a_message_is_quoted(body: bytes, told: str) -> None:
    assert str(error_from_response(400, {}, body)) == f"HTTP 400: {NO_MESSAGE}{told}"


def test_a_long_redirect_is_cut_and_another_status_has_none() -> None:
    headers = {"location": "https://api.example/" + "a/" * 5000}
    assert len(str(error_from_response(307, headers, b'{"error":"moved"}'))) < 260
    assert str(error_from_response(307, headers, b'{"error":"moved"}')).endswith("...: moved")
    for status in (300, 304, 401, 503):
        assert "api.example" not in str(error_from_response(status, headers, b""))


def test_a_byte_order_mark_hides_no_error() -> None:
    error = error_from_response(400, {}, b'\xef\xbb\xbf{"error":{"message":"bad","code":"c"}}')
    assert (error.error.message, error.code) == ("bad", "c")
