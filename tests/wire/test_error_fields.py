"""What an error says: its text, its code and the status that it means, its message, and the place in the request."""

import json
from typing import Any

import pytest
from cases import each_case
from error_bodies import ANY, INNER, NO_MESSAGE, TRANSIENT, chunk, data, failure, failure_of

from chunkfold import error_from_response
from chunkfold.testing import DONE
from chunkfold.testing.wire import compact_json

# The text


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
    assert str(failure({"error": {"message": message, "error": {"message": "n"}}})) == message


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


REASON = "The reasoning_content in the thinking mode must be passed back to the API."
MIMO = {"error": {"code": "400", "message": "Param Incorrect", "param": REASON, "type": ""}}


def test_the_text_has_the_reason_that_is_told_as_the_param() -> None:
    """Xiaomi MiMo's, also where a router passes it on."""
    response = error_from_response(400, {}, b"data:" + json.dumps(MIMO).encode())
    assert str(response) == f"HTTP 400: Param Incorrect: {REASON}"
    assert (response.message, response.param, response.retryable) == ("Param Incorrect", REASON, False)
    assert str(failure(MIMO)) == f"Param Incorrect: {REASON}"
    passed_on = {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps(MIMO)}}
    assert str(failure({"error": passed_on})) == f"Provider returned error: Param Incorrect: {REASON}"
    assert len(str(failure({"error": {"message": "x", "param": "a b" * 10**6}}))) < 600


@each_case(
    "param", ["model", " model ", "messages.0.role", "", " ", None, 5, ["a b"], {"a b": 1}, "is told", "why it is told"]
)
def test_a_param_that_says_no_more_is_not_in_the_text(param: Any) -> None:
    error = {"message": "why it is told", "param": param}
    assert str(failure({"error": error})) == "why it is told"
    passed_on = {"message": "x", "metadata": {"raw": json.dumps({"error": error})}}
    assert str(failure({"error": passed_on})) == "x: why it is told"


def test_a_param_is_no_message() -> None:
    failed = failure({"error": {"code": 400, "message": "", "param": REASON}})
    assert (failed.message, failed.param) == ("the provider sent an error without a message: code 400", REASON)


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
    assert str(failure({"error": value})) == f"{NO_MESSAGE}{told}"


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
    "a type named tpe (Writer)": (
        {"tpe": "TooManyRequests", "errors": [{"description": "x", "key": "k", "extras": {}}], "extras": {}},
        {"message": "x", "type": "TooManyRequests", "status_code": 429, "retryable": True},
    ),
    "a code in camel case in an envelope": ({"error": {"message": "x", "errorCode": "200"}}, {"code": "200"}),
    "a code before one in camel case": ({"error": {"message": "x", "code": "a"}, "errorCode": "b"}, {"code": "a"}),
    "a code in the details (Anthropic)": ({"error": {"message": "x", "details": {"error_code": "a"}}}, {"code": "a"}),
    "details that are a list (Google)": ({"error": {"message": "x", "details": [{"error_code": "a"}]}}, {"code": None}),
    "a code before one in the details": (
        {"error": {"message": "x", "code": "a", "details": {"error_code": "b"}}},
        {"code": "a"},
    ),
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
    "no key left (new-api)": ({"error": {"code": "channel:no_available_key", "type": "new_api_error"}}, 503),
    "a channel that is too slow (new-api)": ({"error": {"code": "channel:response_time_exceeded"}}, 504),
    "an empty response (new-api)": ({"error": {"code": "empty_response", "type": "new_api_error"}}, 500),
    "Bedrock's failure (new-api)": ({"error": {"code": "aws_invoke_error"}}, 500),
    "a wrong key of a channel (new-api)": ({"error": {"code": "channel:invalid_key"}}, None),
    "no connection (one-api)": ({"error": {"message": "x", "type": "do_request_failed"}}, 500),
    "LLM Gateway": ({"error": {"message": "x", "type": "gateway_error", "code": "streaming_error"}}, 502),
    "Lemonade": ({"error": {"message": "x", "type": "streaming_error"}}, 502),
    "no model (Lemonade)": ({"error": {"message": "x", "type": "model_not_loaded"}}, 404),
    "no credit (one-api)": ({"error": {"code": "insufficient_user_quota"}}, 403),
    "a burst (DashScope)": ({"error": {"code": "limit_burst_rate"}}, 429),
    **{
        f"a fault of the server (DashScope): {word}": ({"error": {"code": word, "message": "m", "type": word}}, status)
        for word, status in (
            *(("SystemError", 500), ("ModelServiceFailed", 500), ("RewriteFailed", 500), ("ResponseTimeout", 500)),
            *(("ModelServingError", 503), ("ModelUnavailable", 503)),
        )
    },
    **{
        f"too many requests or tokens (Volcengine): {word}": ({"error": {"code": word, "message": "m"}}, 429)
        for word in (
            *(f"ModelAccount{what}RateLimitExceeded" for what in ("Rpm", "Tpm", "Ipm")),
            *("APIAccountRpmRateLimitExceeded", "AccountRateLimitExceeded", "RequestBurstTooFast"),
            *("InflightBatchsizeExceeded", "SetLimitExceeded"),
        )
    },
    "a fault of the server (Volcengine)": ({"error": {"code": "InternalServiceError", "message": "m"}}, 500),
    "too many requests (Together)": ({"error": {"message": "m", "error_type": "dynamic_request_limited"}}, 429),
    "too many tokens (Together)": ({"error": {"message": "m", "type": "dynamic_token_limited"}}, 429),
    "an empty account (Volcengine)": ({"error": {"code": "AccountOverdueError", "message": "m"}}, 403),
    "requests a minute (Baidu)": ({"code": "rpm_rate_limit_exceeded", "message": "m"}, 429),
    "tokens a minute (Baidu)": ({"code": "tpm_rate_limit_exceeded", "message": "m"}, 429),
    **{
        f"too many a {time} (Baidu's search): {word}": ({"code": word, "message": "m", "requestId": "r"}, 429)
        for time, word in (
            *(("second", f"RATE_LIMIT_{who}QPS") for who in ("TOTAL_", "SEARCH_TOTAL_", "SEARCH_")),
            *(("day", f"QUOTA_USER_DAILY_{what}") for what in ("REQUEST", "FREE")),
        )
    },
    "an empty account (Baidu's search)": ({"code": "BILLING_INSUFFICIENT_BALANCE", "message": "m"}, 402),
    "too many at once (Tencent)": ({"code": "EXCEED_CONCURRENT_REQUEST_LIMIT", "message": "m"}, 429),
    "no tokens left (Tencent)": ({"error": {"code": "EXCEED_TOKEN_QUOTA_LIMIT", "message": "m"}}, 429),
    **{
        f"an operation that failed (Tencent): {word}":
            ({"Response": {"Error": {"Code": f"FailedOperation{word}", "Message": "m"}, "RequestId": "r"}}, status)
        for word, status in (
            *((".EngineServerLimitExceeded", 429), (".EngineServerError", 500), (".EngineRequestTimeout", 504)),
            *((f".{word}", 402) for word in ("ResourcePackExhausted", "FreeResourcePackExhausted")),
            *((".ServiceStopArrears", 402), (".ServiceNotActivated", None), ("", None)),
        )
    },
    "what is censored (StepFun)": ({"error": {"message": "m", "type": "censorship_blocked"}}, 451),
    "tokens a minute (Cerebras)": ({"message": "m", "type": "too_many_tokens_error", "param": "quota"}, 429),
    "its code for them": ({"message": "m", "code": "token_quota_exceeded"}, 429),
    "its code for requests": ({"message": "m", "code": "request_quota_exceeded"}, 429),
    "as much as a plan allows (ChatGPT)": ({"error": {"type": "usage_limit_reached", "plan_type": "pro"}}, 429),
    "the same, passed on": ({"error": {"message": '{"type": "usage_limit_reached", "message": "x"}'}}, 429),
    "a model's pause (CLIProxyAPI)": ({"error": {"code": "model_cooldown", "model": "m"}}, 429),
    "as much as a plan allows (GitHub Copilot)": ({"error": {"code": "user_global_rate_limited:pro_plus"}}, 429),
    "its provider's limit": ({"error": {"code": "upstream_provider_rate_limit"}}, 429),
    "as much as a plan allows (Zhipu)": ({"error": {"code": "1316", "message": "x"}}, 429),
    "the same in seven days": ({"error": {"code": "1321", "message": "x"}}, 429),
    "a high load": ({"error": {"code": "server_high_load"}}, 503),
    "statusCode": ({"error": {"message": "x", "statusCode": 429}}, 429),
    "httpCode (gRPC gateways)": ({"error": {"grpcCode": 8, "httpCode": 429, "message": "x"}}, 429),
    "a word in two parts": ({"error": {"code": "model.not_found"}}, 404),
    "a word and what more it says": ({"error": {"code": "RATE_LIMIT.EXCEEDED"}}, 429),
    "a sentence (xAI)": ({"code": "The service is currently unavailable", "error": "x"}, 503),
    "another sentence (xAI)": ({"code": "Some resource has been exhausted", "error": "x"}, 429),
    **{
        f"a sentence of gRPC (xAI): {sentence}": ({"code": sentence, "error": "x"}, status)
        for sentence, status in (
            ("Client specified an invalid argument", 400),
            ("Operation was attempted past the valid range", 400),
            ("The system is not in a state required for the operation's execution", 400),
            ("The request does not have valid authentication credentials", 401),
            ("The caller does not have permission to execute the specified operation", 403),
            ("Some requested entity was not found", 404),
            ("The operation was aborted", 409),
            ("Some entity that we attempted to create already exists", 409),
            ("Internal error", 500),
            ("Unrecoverable data loss or corruption", 500),
            ("Operation is not implemented or not supported", 501),
            ("Deadline expired before operation could complete", 504),
        )
    },
    "a word of gRPC": ({"error": {"message": "m", "code": "OUT_OF_RANGE"}}, 400),
    "another word of gRPC": ({"error": {"message": "m", "code": "ALREADY_EXISTS"}}, 409),
    "a third word of gRPC": ({"error": {"message": "m", "code": "DATA_LOSS"}}, 500),
    "a fourth word of gRPC": ({"error": {"message": "m", "code": "UNIMPLEMENTED"}}, 501),
    "an exception (LiteLLM)": ({"error": {"message": "m", "type": "ContextWindowExceededError"}}, 400),
    "another exception (LiteLLM)": ({"error": {"message": "m", "type": "UnsupportedParamsError"}}, 400),
    "a third exception (LiteLLM)": ({"error": {"message": "m", "type": "APIConnectionError"}}, 500),
    "an account in arrears (DashScope)": ({"error": {"code": "Arrearage", "message": "m", "type": "Arrearage"}}, 400),
    **{
        f"no access to it (DashScope): {what}": ({"error": {"code": f"{what}.AccessDenied", "message": "m"}}, 403)
        for what in ("Model", "Workspace", "App")
    },
    "an image that is unsafe (Baidu)": ({"error": {"code": "image_url_unsafe", "type": "unsafe_request"}}, 400),
    "a model that is not known (GitHub Models)": ({"error": {"code": "unknown_model", "details": "x"}}, 400),
    "no access to a model (GitHub Models)": ({"error": {"code": "no_access", "details": "x"}}, 403),
    "no deployment (Azure)": ({"error": {"code": "DeploymentNotFound", "message": "m"}}, 404),
    "another API of a model (Azure)": ({"error": {"code": "OperationNotSupported", "message": "m"}}, 400),
    "a number and its name (ChatAnywhere)": ({"error": {"type": "x_error", "code": "429 TOO_MANY_REQUESTS"}}, 429),
    "a number between blanks": ({"error": {"code": " 429 "}}, 429),
    "a longer number and a name": ({"error": {"code": "4290 TOO_MANY_REQUESTS"}}, None),
    "a number that no blank follows": ({"error": {"code": "429_TOO_MANY"}}, None),
    "as much as is free (OpenCode)": ({"type": "error", "error": {"type": "FreeUsageLimitError", "message": "m"}}, 429),
    "as much as a plan allows (OpenCode)": ({"type": "error", "error": {"type": "GoUsageLimitError"}}, 429),
    "a long request (GitHub Models)": ({"error": {"code": "tokens_limit_reached", "details": "x"}}, 413),
    "an incomplete generation (Hugging Face)": ({"error": "x", "error_type": "incomplete_generation"}, 500),
    "slow_down (OpenAI)": ({"type": "error", "error": {"code": "slow_down", "message": "x"}}, 503),
    "capacity_exceeded (Groq)": ({"error": {"code": "capacity_exceeded"}}, 503),
    "stream_error (gateways)": ({"error": "x", "code": "stream_error", "message": "x"}, 502),
    "no upstream (Cline)": ({"error": {"message": "x", "code": "stream_initialization_failed"}}, 502),
    "server_is_overloaded": ({"error": {"code": "server_is_overloaded"}}, 503),
    "MiniMax's 1002: too many requests": ({"base_resp": {"status_code": 1002, "status_msg": "x"}}, 429),
    "its 2045: too many at once": ({"base_resp": {"status_code": 2045, "status_msg": "x"}}, 429),
    "its 2056: as much as a plan allows": ({"base_resp": {"status_code": 2056, "status_msg": "x"}}, 429),
    "MiniMax's 1004: a wrong key": ({"base_resp": {"status_code": 1004, "status_msg": "x"}}, 401),
    "SiliconFlow's 50508: too busy": ({"code": 50508, "message": "x", "data": None}, 503),
    "its 50603: really busy": ({"code": 50603, "message": "x", "data": None}, 503),
    **{
        f"iFlytek's {code}: {what}": ({"error": {"message": "x", "type": "api_error", "code": code}}, status)
        for code, what, status in (
            *(("10005", "a wrong value", 400), ("10907", "too long", 400), ("11200", "no permission", 403)),
            *(("11202", "too many requests", 429), ("10012", "its engine", 500), ("10222", "its network", 502)),
            ("10110", "too busy", 503),
        )
    },
    "its 10005 beside a type that says more": ({"error": {"type": "rate_limit_error", "code": "10005"}}, 429),
    "iFlytek's 10014 without an envelope: unsafe": ({"code": 10014, "message": "x", "sid": "s"}, 400),
    **{
        f"302.AI's {code}: {what}": ({"error": {"err_code": code, "message": "x", "type": "api_error"}}, status)
        for code, what, status in (
            *((-10001, "no key", 401), (-10003, "its network", 500), (-10004, "no credit", 402)),
            *((-10007, "as much as a day allows", 429), (-10008, "no channel", 503), (-10009, "no such function", 400)),
            *((-10013, "no permission", 403), (-1024, "too slow", 504)),
        )
    },
    "42901 (CLOVA Studio)": ({"error": {"message": "x", "code": "42901"}}, 429),
    **{
        f"gRPC's {code}": ({"error": {"code": code, "message": "x", "details": []}}, status)
        for code, status in ((1, None), (3, 400), (7, 403), (8, 429), (13, 500), (14, 503), (16, 401), (17, None))
    },
    "gRPC's 8 without an envelope": ({"code": 8, "message": "x", "details": []}, 429),
    "8 without details": ({"error": {"code": 8, "message": "x"}}, None),
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
    "a word that is no error's without its end": ({"error": {"message": "x", "type": "system"}}, None),
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
        *((status, False) for status in (400, 401, 402, 403, 404, 413, 422, 501)),
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
        # OpenAI; the type may be another.
        *({"code": f"{who}_spend_limit_exceeded", "type": "server_error"} for who in ("organization", "project")),
        *({"code": code} for code in ("organization_usage_limit_exceeded", "credit_balance_exhausted")),
        {"type": "usage_not_included", "plan_type": "free"},  # a plan of ChatGPT without the model
        *(
            {"type": "rate_limit_error", "details": {"error_code": code}}  # Anthropic
            for code in ("enforced_spend_limit_reached", "credits_required")
        ),
        {"type": "exceeded_current_quota_error"},  # Moonshot
        {"code": "1113"},  # Zhipu
        {"code": 1113},
        {"code": "1309"},  # its coding plan has expired
        *({"code": code} for code in ("CommodityNotPurchased", "PrepaidBillOverdue")),  # Alibaba
        *({"code": code} for code in ("PostpaidBillOverdue", "BudgetLimitExceeded")),
        {"code": "SetLimitExceeded", "param": "", "type": "TooManyRequests"},  # Volcengine pauses the model
        {"type": "budget_exceeded", "code": "429"},  # LiteLLM
        *({"code": code} for code in ("BILLING_INSUFFICIENT_BALANCE", "QUOTA_USER_DAILY_FREE")),  # Baidu
        {"code": "EXCEED_TOKEN_QUOTA_LIMIT"},  # Tencent
        {"code": "insufficient_quota_error"},  # Sarvam
        *({"type": f"{plan}UsageLimitError"} for plan in ("Free", "Go")),  # OpenCode; of some hours, a week or a month
        *({"code": code, "type": "one_api_error"} for code in ("11200", 11200)),  # iFlytek
        *({"err_code": code, "type": "api_error"} for code in (-10004, -10006)),  # 302.AI
    ):
        error = error_from_response(429, {}, json.dumps({"error": {"message": "x", **fields}}).encode())
        assert error.status_code == 429
        assert not error.retryable


LINK = "https://help.aliyun.com/zh/model-studio/error-code#token-limit"


@each_case(
    ("message", "retryable"),
    [
        (
            f"You exceeded your current quota, please check your plan and billing details. For details, see: {LINK}",
            True,
        ),
        (f"Allocated quota exceeded, please increase your quota limit. For details, see: {LINK}", True),
        (f"Free allocated quota exceeded. For details, see: {LINK}", False),
        ("You exceeded your current quota, please check your plan and billing details.", False),  # OpenAI
    ],
)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_alibaba_calls_its_limit_of_tokens_per_minute_an_empty_account(
    message: str, retryable: bool, is_streamed: bool
) -> None:
    body = {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": message}}
    error = failure(body) if is_streamed else error_from_response(429, {}, json.dumps(body).encode())
    assert (error.status_code, error.retryable) == (429, retryable)


def test_a_budget_that_running_requests_fill_is_free_again_soon() -> None:
    """OpenRouter says how long to wait, which it does not where credits have to be bought."""
    body = b'{"error":{"code":402,"message":"x","metadata":{"limit_source":"openrouter_in_flight_budget"}}}'
    error = error_from_response(402, {"Retry-After": "3"}, body)
    assert (error.status_code, error.retry_after, error.retryable) == (402, 3, True)
    assert error_from_response(402, {"Retry-After": "0"}, body).retryable
    assert not error_from_response(402, {}, body).retryable
    assert not error_from_response(403, {"Retry-After": "3"}, body).retryable


@each_case("word", ["exceed_context_size_error", "context_length_exceeded"])
def test_a_request_that_is_too_long_is_not_retried(word: str) -> None:
    error = failure({"error": {"code": 500, "message": "x", "type": word}})
    assert (error.status_code, error.retryable) == (500, False)


# The message


def nested(depth: int) -> Any:
    """A message in so many objects."""
    return {"message": nested(depth - 1)} if depth else "x"


MESSAGES = [
    pytest.param({"error": {"message": "x"}}, "x", id="message"),
    pytest.param({"error": {"msg": "x"}}, "x", id="msg"),
    pytest.param({"error": {"detail": "x"}}, "x", id="detail"),
    pytest.param({"error": "Bad Request", "message": "x"}, "Bad Request: x", id="a phrase beside a message (Fastify)"),
    pytest.param({"error": "x", "error_description": "y"}, "x: y", id="a word beside its description (OAuth)"),
    pytest.param({"error": {"error": "x", "error_description": "y"}}, "y", id="its description in an envelope"),
    pytest.param({"error": "x", "title": "y"}, "x: y", id="a phrase beside a title"),
    pytest.param({"error": "x", "message": "x"}, "x", id="the same twice"),
    pytest.param({"error": "x", "message": "x: y"}, "x: y", id="a phrase that begins the message"),
    pytest.param({"message": "x", "code": "LIMIT", "status": 200}, "x", id="a code beside a good status"),
    pytest.param({"message": "x", "code": "E1", "error_code": 0}, "x", id="a code beside a good one"),
    pytest.param({"error": {"message": {"message": "x"}}}, "x", id="a message that is an object"),
    pytest.param({"error": {"message": nested(4)}}, "x", id="a few objects deep"),
    pytest.param({"error": {"message": nested(5)}}, NO_MESSAGE, id="but no deeper"),
    pytest.param({"detail": [{"loc": ["body"], "msg": "x", "type": "missing"}]}, "x", id="FastAPI's list"),
    pytest.param({"detail": [[[[["x"]]]]]}, "['x']", id="lists in lists"),
    pytest.param({"detail": {"message": "x"}}, "x", id="FastAPI's object"),
    pytest.param({"error": {"detail": {"errors": [{"loc": ["m"], "msg": "x"}]}}}, "x", id="Llama Stack's list"),
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


# The place in the request


def test_the_place_in_the_request_that_is_wrong() -> None:
    """FastAPI's `loc`."""
    detail = [{"msg": "x"}, {"loc": ["body", "messages", 0, "role"], "msg": "Field required"}, {"loc": ["query"]}]
    error = failure({"detail": detail})
    assert (error.param, error.message) == ("body.messages.0.role", "x; Field required")
    assert failure({"error": {"detail": {"errors": detail}}}).param == "body.messages.0.role"  # Llama Stack
    assert failure({"detail": [{"loc": [], "msg": "x"}, {"loc": "body"}, 5]}).param is None
    assert len(failure({"detail": [{"loc": ["a"] * 1000, "msg": "x"}]}).param or "") < 30
    assert len(failure({"detail": [{"loc": ["a" * 1000], "msg": "x"}]}).param or "") < 60


def test_of_a_list_of_messages_the_first_hundred_are_joined() -> None:
    """Was once wrong: an event may have a hundred thousand, and all of them were copied."""
    detail = [{"msg": ""}, *({"msg": f"x{n}"} for n in range(102))]
    error = failure({"detail": detail})
    assert error.error.message == "; ".join(f"x{n}" for n in range(100))
    assert error.raw == {"detail": detail}
