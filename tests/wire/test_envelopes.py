"""Errors in the shapes in which providers send them: ten shapes, by number, wherever they come.

An error is recognised by its shape, holds whatever came before it, and is read into an `APIError` whose status comes
from the body alone: the outer one says 200. What it says is in `test_error_fields`, and errors outside of an event's
data are in `test_errors_between_events`.
"""

from typing import Any, NamedTuple

import pytest
from cases import each_case
from error_bodies import ANY, LIMITED, NO_MESSAGE, TRANSIENT, chunk, data, failure, failure_of
from measured_memory import traced
from parsed_bodies import parsed

from chunkfold import APIError, ChatCompletionParser, ServerSentEvent, StreamEnd, parse_payload
from chunkfold.models.outcome import Outcome, outcome_of
from chunkfold.testing import DONE, HEAD, choice, delta
from chunkfold.testing.wire import compact_json
from chunkfold.wire.api_errors import api_error


class Envelope(NamedTuple):
    """What comes, and what it says."""

    block: bytes
    message: str
    code: int | str | None = None
    status: int | None = None


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
    "4 object alone": Envelope(data({"object": "error"}), ANY),
    "4 type alone": Envelope(data({"type": "error"}), ANY),
    "4 object and a key beside it": Envelope(data({"object": "error", "param": "x"}), ANY),
    "5 base_resp (MiniMax)":
        Envelope(data({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None}),
        "rate limit", 1002, 429),
    # Under another event name, a type of error alone makes none.
    "5 base_resp beside a type, in another event":
        Envelope(data({"type": "error", "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "progress"),
        "rate limit", 1002, 429),
    "7 code alone": Envelope(data({"code": 400}), ANY, 400, 400),
    "7 code in digits": Envelope(data({"code": "429", "msg": "slow down"}), "slow down", "429", 429),
    "7 code that is no HTTP status (Zhipu)": Envelope(data({"code": 1302, "msg": "slow down"}), "slow down", 1302, ANY),
    "7 status_code": Envelope(data({"status_code": 503, "msg": "busy"}), "busy", None, 503),
    "7 message beside a call's id": Envelope(data({"message": "x", "tool_call_id": "t"}), "x"),
    "7 detail (FastAPI)": Envelope(data({"detail": "Not Found"}), "Not Found"),
    "7 message": Envelope(data({"message": "no such model"}), "no such model"),
    "7 Cloudflare":
        Envelope(data({"success": False, "errors": [{"code": 7003, "message": "no route"}], "messages": [],
        "result": None}), "no route", 7003),
    "7 Cloudflare, with a number that means a limit elsewhere":
        Envelope(data({"success": False, "errors": [{"code": 10007, "message": "no script"}]}), "no script", 10007, None),
    "7 a status and a title (RFC 9457)":
        Envelope(data({"type": "about:blank", "title": "Too Many Requests", "status": 429}), "Too Many Requests", ANY, 429),
    "7 a problem beside null choices":
        Envelope(data({"choices": None, "title": "busy", "status": "503"}), "busy", ANY, 503),
    "7 a status that is false": Envelope(data({"status": False, "message": "busy"}), "busy"),
    "7 a code in a detail": Envelope(data({"detail": {"code": "E123"}}), ANY, "E123"),
    "7 another code in a detail": Envelope(data({"detail": {"error_code": "E123"}}), ANY),
    "7 a list of details without words": Envelope(data({"detail": [{"loc": ["body"], "type": "missing"}]}), ANY),
    "7 a limit beside an error that is false":
        Envelope(data({"error": False, "message": "slow down", "code": "rate_limited"}), "slow down", "rate_limited", 429),
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
    # An empty list of choices hides no error, and is none itself (`NO_ERRORS`).
    "7 code beside no choice": Envelope(data({"choices": [], "code": 500, "message": "boom"}), "boom", 500, 500),
    "7 status_code beside no choice":
        Envelope(data({"choices": [], "status_code": 503, "usage": None}), ANY, None, 503),
    "4 type: error beside no choice": Envelope(data({"choices": [], "type": "error", "message": "boom"}), "boom"),
    "7 errors beside no choice": Envelope(data({"choices": [], "errors": [{"message": "boom"}]}), "boom"),
    "7 success is false beside no choice": Envelope(data({"choices": [], "success": False}), ANY),
    "7 AWS, in a stream, beside no choice":
        Envelope(data({"choices": [], "ThrottlingException": {"message": "boom"}}), "boom", None, 429),
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
    "10 broken JSON":
        Envelope(data(b'{"error": "can only concatenate str (not "int") to str"}'),
        '{"error": "can only concatenate str (not "int") to str"}'),
    "10 broken JSON, blanks": Envelope(data(b' { "error" :{"a'), '{ "error" :{"a'),
    "10 broken JSON, [DONE] behind it":
        Envelope(data(b'{"error":{"message":"m"}}[DONE]'), '{"error":{"message":"m"}}[DONE]'),
    "10 broken JSON, another name":
        Envelope(data(b'{"error": "(not "x")"}', "progress"), '{"error": "(not "x")"}'),
    "6 one choice of two":
        Envelope(data({**HEAD, "choices": [choice("stop"), choice("error", 1)]}),
        "the provider ended choice 1 with the finish reason 'error'", ANY, ANY),
}  # fmt: skip
FAILED_CHOICES = {
    # Shape 6: these have a chunk too, the one that says so.
    f"6 finish reason {word}": Envelope(data(chunk(None, word)), ANY, ANY, ANY)
    for word in (
        *("error", "network_error", "insufficient_system_resource", "abort", "aborted", "timeout", "cancelled"),
        *("api_error", "overloaded_error", "rate_limit_error", "server_error", "upstream_error", "engine_overloaded"),
        *("new_error", "MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL", "Error"),
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
ALL_SHAPES = ENVELOPES | FAILED_CHOICES | TOLD_INSIDE
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


def is_chunk(payload: Any) -> bool:
    """Whether an event is a chunk and nothing else."""
    result = parse_payload(ServerSentEvent(compact_json(payload)))
    return result.error is None and len(result.chunks) == 1


@pytest.mark.parametrize(
    "word",
    ["x" * 10**6, "1" * 10**6, "\U0001f600" * 10**6, "rate_limit." + "x" * 10**6],
    ids=["letters", "digits", "beyond ASCII", "one that is known at its beginning"],
)
def test_a_very_long_word_is_not_searched(word: str) -> None:
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
    for choices in ("x", {}, [5], [{"delta": {"content": {}}}]):
        assert failure({"error": {"message": "gone"}, "choices": choices}).message == "gone"


def test_an_error_event_needs_no_body() -> None:
    for body in (b"", b" ", b"null", b"{}", b"[]", b"0", b"[DONE]"):
        assert str(failure_of(b"event: error\ndata: " + body + b"\n\n"))
    assert failure_of(b"event: error\ndata: null\n\n").message == NO_MESSAGE


# What is no error


@each_case(
    "text",
    [
        '{"error": {"message": "x", "code": 500}}',
        'data: {"error": "x"}\n\n',
        "\n\nevent: error\ndata: x\n\n",
        *("[DONE]", "data: [DONE]\n\n", "error: {}", "Internal Server Error", "null"),
    ],
)
def test_content_that_looks_like_an_error_is_content(text: str) -> None:
    deltas = [{"content": text}, {"reasoning": text}, {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}]
    completion = parsed(b"".join(delta(**each) for each in deltas) + delta("stop") + DONE).completion()
    assert (completion.text, completion.reasoning, completion.tool_calls[0].arguments) == (text, text, text)


NO_ERRORS = [
    # Codes and words that say that all is well.
    *({"code": code} for code in (0, 200)),
    *(
        {**fields, "message": "success"}
        for fields in (
            *({"code": 0}, {"code": "0"}, {"code": 200}, {"status_code": 200}, {"success": True}),
            *({"code": "Success"}, {"error_code": 0}, {"status": "ok"}, {"status": "succeeded", "code": 200.0}),
            *({"statusCode": 200}, {"httpCode": "200"}, {"status": True, "code": 200}, {"error": False}),
            *({"status": "ok", "statusCode": 201}, {"code": 0, "http_code": "202 Accepted"}),
        )
    ),
    *({"error_code": code, "error_msg": "success"} for code in (0, "0")),  # Baidu
    *({"error_code": 0, "error_message": "success"}, {"error_message": "ok", "success": True}),
    *({"error_message": text} for text in (["x"], "")),
    # Objects without words, or a code of an error.
    *({"detail": {"tokens": 5}}, {"message": {"id": "1"}, "conversation_id": "c"}, {"status": 200, "title": "x"}),
    *({"status": 1000, "title": "x"}, [{"choices": [], "title": "x", "status": 500}], {"status": 404}),
    *({"message": 0}, {"detail": False}, {"errors": {"reason": "none"}}, {"error_msg": "success"}),
    {"success": True, "errors": {"message": "x"}},
    *({"errors": {"count": 0}, "usage": {"total_tokens": 1}}, {"errors": {"code": 0, "message": ""}}),
    {"success": True, "errors": [], "messages": [], "result": None},  # Cloudflare
    *({"Response": {"RequestId": "r"}}, {"Message": ""}, {"SomeException": "x"}),  # Tencent, AWS
    # Words that are none of an error's.
    {"id": "c"},
    {"model": "m", "message": {"role": "assistant", "content": "a"}},
    *({**HEAD, "message": "x"}, {"usage": {"total_tokens": 1}, "message": "x"}),
    # Beside a list of choices without one.
    *(
        {"choices": [], **fields}
        for fields in (
            {"error_code": 0, "error_message": "success"},
            *({"code": 0, "message": "ok"}, {"code": 500, "usage": {"total_tokens": 3}}),
            *({"message": "a notice"}, {"message": "a notice", "type": "system"}, {"success": True, "errors": []}),
            *({"usage": {"total_tokens": 1}}, {"usage": {"total_tokens": 1}, "code": 0}, {"prompt_filter_results": []}),
            *({"x_groq": value} for value in (None, {}, {"error": None}, {"error": ""}, {"error": {}}, "x")),
        )
    ),
    # Beside a choice.
    *(
        chunk("a", **fields)
        for fields in (
            *({"code": 500}, {"status_code": 500}, {"message": "x"}, {"detail": "x"}, {"type": "error"}),
            *({"base_resp": value} for value in ({"status_code": 0, "status_msg": ""}, {"status_code": "0"}, None)),
            {"metadata": {"error": {"message": "x"}}},
            {"errors": ["x"], "Message": "x", "error_code": 5, "success": False},
        )
    ),
    # In a choice.
    *({**HEAD, "choices": [{"delta": {}, "error": value}]} for value in (None, False, {}, "", [])),
    *({**HEAD, "choices": [{"delta": delta}]} for delta in ({"error": {}}, {"role": "tool", "error": "x"})),
    chunk("a", "errored"),
    *(
        {**HEAD, "choices": [{"delta": {}, "finish_reason": own, "native_finish_reason": native}]}
        for own, native in (
            *(("stop", "completed"), ("stop", None), ("stop", 5)),
            *((None, "network_error"), ("", "error"), ("null", "error")),
        )
    ),
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
