"""What an error says: its text, its code and the status that it means, its message, and the place in the request."""

import json
from typing import Any

import pytest
from cases import each_case
from error_bodies import INNER, NO_MESSAGE, TRANSIENT, chunk, data, failure, failure_of

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
    "a type and a code beside a text": ({"error": "x", "type": "a", "code": "b"}, {"type": "a", "code": "b"}),
    "a type named tpe (Writer)": (
        {"tpe": "TooManyRequests", "errors": [{"description": "x", "key": "k", "extras": {}}], "extras": {}},
        {"message": "x", "type": "TooManyRequests", "status_code": 429, "retryable": True},
    ),
    "an exception's type (AWS)": (
        {"__type": "a#ThrottlingException", "message": "x"},
        {"type": "a#ThrottlingException", "status_code": 429},
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


# Words that mean a status, in any spelling, and the numbers of some providers.
WORDS = {
    400: [
        *("context_length_exceeded", "tool_use_failed", "invalid_request_error"),
        *("BadRequestError", "ContextWindowExceededError", "UnsupportedParamsError"),  # vLLM, LiteLLM
        *("token_limit_exceeded", "string_too_long", "image_too_large"),  # OpenRouter
        *("OUT_OF_RANGE", "Client specified an invalid argument"),  # gRPC, and its sentences as xAI sends them
        "Operation was attempted past the valid range",
        "The system is not in a state required for the operation's execution",
        *("Arrearage", "unsafe_request", "unknown_model"),  # DashScope, Baidu, GitHub Models
        *("OperationNotSupported", "1300", "MISSING_THOUGHT_SIGNATURE"),  # Azure; Zhipu: unsafe; Gemini
    ],
    401: [
        *("invalid_api_key", "authentication_error", "1002"),  # OpenAI; Zhipu: a wrong key
        "The request does not have valid authentication credentials",
    ],
    402: ["BILLING_INSUFFICIENT_BALANCE"],  # Baidu's search
    403: [
        *("permission_error", "insufficient_user_quota", "AccountOverdueError", "no_access"),  # one-api, Volcengine
        *(f"{what}.AccessDenied" for what in ("Model", "Workspace", "App")),  # DashScope
        "The caller does not have permission to execute the specified operation",
    ],
    404: [
        *("model_not_found", "model.not_found", "model_not_loaded", "DeploymentNotFound"),  # Lemonade, Azure
        "Some requested entity was not found",
    ],
    409: ["ALREADY_EXISTS", "The operation was aborted", "Some entity that we attempted to create already exists"],
    412: ["precondition_failed"],
    413: ["payload_too_large", "tokens_limit_reached"],  # GitHub Models
    422: ["unprocessable"],
    429: [
        *("rate_limit_exceeded", "rate_limit_error", "RateLimitError", "RATE_LIMIT.EXCEEDED", "RESOURCE_EXHAUSTED"),
        *("queue_exceeded", "too_many_tokens_error", "token_quota_exceeded", "request_quota_exceeded"),  # Cerebras
        *("limit_burst_rate", "1302", "1316", "1321"),  # DashScope; Zhipu: too many requests, a plan's limits
        *(f"ModelAccount{what}RateLimitExceeded" for what in ("Rpm", "Tpm", "Ipm")),  # Volcengine
        *("APIAccountRpmRateLimitExceeded", "AccountRateLimitExceeded", "RequestBurstTooFast"),
        *("InflightBatchsizeExceeded", "SetLimitExceeded"),
        *("dynamic_request_limited", "dynamic_token_limited"),  # Together
        *("rpm_rate_limit_exceeded", "tpm_rate_limit_exceeded"),  # Baidu, and its search
        *(f"RATE_LIMIT_{who}QPS" for who in ("TOTAL_", "SEARCH_TOTAL_", "SEARCH_")),
        *(f"QUOTA_USER_DAILY_{what}" for what in ("REQUEST", "FREE")),
        *("EXCEED_CONCURRENT_REQUEST_LIMIT", "EXCEED_TOKEN_QUOTA_LIMIT"),  # Tencent
        *("usage_limit_reached", "FreeUsageLimitError", "GoUsageLimitError"),  # ChatGPT's plans, OpenCode's
        *("user_global_rate_limited:pro_plus", "upstream_provider_rate_limit"),  # GitHub Copilot
        *("model_cooldown", "Some resource has been exhausted"),  # CLIProxyAPI, xAI
    ],
    451: ["censorship_blocked"],  # StepFun
    500: [
        *("server_error", "APIConnectionError", "DATA_LOSS", "InternalServiceError"),  # OpenAI, LiteLLM, Volcengine
        *("SystemError", "ModelServiceFailed", "RewriteFailed", "ResponseTimeout"),  # DashScope
        *("get_channel_failed", "empty_response", "aws_invoke_error", "do_request_failed"),  # new-api, one-api
        *("Internal error", "Unrecoverable data loss or corruption", "incomplete_generation"),  # xAI, Hugging Face
        *("too_many_tool_calls", "unexpected_tool_call", "MALFORMED_RESPONSE"),  # Gemini
        *("malformed_tool_use", "malformed_model_output"),  # Bedrock
    ],
    501: ["UNIMPLEMENTED", "Operation is not implemented or not supported"],
    502: [
        *("provider_error", "stream_error", "stream_initialization_failed"),  # Sansa, gateways, Cline
        *("gateway_error", "streaming_error"),  # LLM Gateway, Lemonade
    ],
    503: [
        *("UNAVAILABLE", "overloaded", "server_is_overloaded", "server_high_load", "slow_down", "capacity_exceeded"),
        *("provider_overloaded", "provider_unavailable"),  # OpenRouter
        *("ModelServingError", "ModelUnavailable", "channel:no_available_key"),  # DashScope, new-api
        "The service is currently unavailable",
    ],
    504: ["upstream_timeout", "channel:response_time_exceeded", "Deadline expired before operation could complete"],
    None: ["no_such_word", "channel:invalid_key", "system"],  # the last is no error's word without its end
}


@each_case(("word", "status"), [(word, status) for status, words in WORDS.items() for word in words])
def test_the_status_of_a_word(word: str, status: int | None) -> None:
    for where in ({"code": word}, {"type": word}, {"metadata": {"error_type": word}}, {"error_type": word}):
        assert failure({"error": {"message": "m", **where}}).status_code == status, where


STATUSES = {
    # A number, wherever it stands, and whatever it is named.
    "code": ({"error": {"code": 429}}, 429),
    "beside what is nested deep": ({"error": {"code": 429, "metadata": json.loads("[" * 300 + "]" * 300)}}, 429),
    "code in digits (LiteLLM)": ({"error": {"code": "503"}}, 503),
    "with a fraction of 0": ({"error": {"code": 429.0}}, 429),
    "status_code (Groq)": ({"error": {"status_code": 400}}, 400),
    "status_code beside a string": ({"error": "x", "status_code": 500}, 500),
    "code beside the error": ({"error": {"message": "x"}, "code": 502}, 502),
    "code before status_code": ({"error": {"code": 429, "status_code": 400}}, 429),
    "status_code before status": ({"error": {"status_code": 400, "status": 503}}, 400),
    "http_code": ({"error": {"http_code": 429}}, 429),
    "http_status_code": ({"error": {"http_status_code": "429"}}, 429),
    "statusCode": ({"error": {"message": "x", "statusCode": 429}}, 429),
    "httpCode (gRPC gateways)": ({"error": {"grpcCode": 8, "httpCode": 429, "message": "x"}}, 429),
    "raw_status_code (Mistral)":
        ({"object": "error", "type": "service_tier_capacity_exceeded", "code": "3505", "raw_status_code": 503}, 503),
    "a number and its name (ChatAnywhere)": ({"error": {"type": "x_error", "code": "429 TOO_MANY_REQUESTS"}}, 429),
    "a number between blanks": ({"error": {"code": " 429 "}}, 429),
    # It comes before the words.
    "a number before a code": ({"error": {"code": "rate_limit_exceeded", "status_code": 400}}, 400),
    "a number before a type": ({"error": {"type": "rate_limit_error", "code": 503}}, 503),
    "also one outside": ({"error": {"type": "rate_limit_error"}, "status_code": 503}, 503),
    "a number before metadata": ({"error": {"code": 402, "metadata": {"error_type": "rate_limit"}}}, 402),
    # The words of code and type come before metadata.
    "a type first": ({"error": {"type": "server_error", "metadata": {"error_type": "rate_limit_exceeded"}}}, 500),
    "a code first": ({"error": {"code": "invalid_api_key", "metadata": {"error_type": "rate_limit_exceeded"}}}, 401),
    "status (Google)": ({"error": {"status": "RESOURCE_EXHAUSTED"}}, 429),
    "an exception's type (AWS)": ({"__type": "ThrottlingException", "message": "x"}, 429),
    "an exception's type in a namespace": (
        {"__type": "com.amazon.coral.service#ThrottlingException", "message": "x"}, 429),
    "a number beside errors, unlike Cloudflare's": ({"error": {"code": "1302"}, "errors": ["x"]}, 429),
    "an exception's name (Bedrock)": ({"modelStreamErrorException": {"message": "x"}}, 500),
    "a word beside no choice": ({"id": "c", "choices": [], "message": "x", "type": "server_error"}, 500),
    "a sentence beside the error (xAI)": ({"code": "The service is currently unavailable", "error": "x"}, 503),
    "a word that is passed on": ({"error": {"message": '{"type": "usage_limit_reached", "message": "x"}'}}, 429),
    "a finish reason": (chunk(None, "too_many_tool_calls"), 500),
    "the upstream's finish reason":
        ({"choices": [{"finish_reason": "stop", "native_finish_reason": "rate_limit_error"}]}, 429),
    **{
        f"an operation that failed (Tencent): {word}":
            ({"Response": {"Error": {"Code": f"FailedOperation{word}", "Message": "m"}, "RequestId": "r"}}, status)
        for word, status in (
            *((".EngineServerLimitExceeded", 429), (".EngineServerError", 500), (".EngineRequestTimeout", 504)),
            *((f".{word}", 402) for word in ("ResourcePackExhausted", "FreeResourcePackExhausted")),
            *((".ServiceStopArrears", 402), (".ServiceNotActivated", None), ("", None)),
        )
    },
    # Numbers that are words.
    "Mistral's 1300 beside a type": ({"object": "error", "type": "rate_limited", "code": "1300"}, 429),
    "Zhipu's 1302, a number": ({"error": {"code": 1302, "message": "x"}}, 429),
    "Zhipu's 1302 behind another word": ({"error": {"code": "odd", "type": "1302"}}, 429),
    **{
        f"MiniMax's {code}: {what}": ({"base_resp": {"status_code": code, "status_msg": "x"}}, status)
        for code, what, status in (
            *((1002, "too many requests", 429), (2045, "too many at once", 429), (2056, "a plan's limit", 429)),
            (1004, "a wrong key", 401),
        )
    },
    **{
        f"SiliconFlow's {code}: {what}": ({"code": code, "message": "x", "data": None}, 503)
        for code, what in ((50508, "too busy"), (50603, "really busy"))
    },
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
    **{
        f"no status: {code!r}": ({"error": {"code": code}}, None)
        for code in (200, "200", 0, 302, 600, 3302, -429, 429.5, True, "4290 TOO_MANY_REQUESTS", "429_TOO_MANY")
    },
    "200 and a word": ({"error": {"code": 200, "type": "rate_limit_error"}}, 429),
    "no words": ({"error": {"code": ["rate_limit"], "type": {}}}, None),
    "a message is no code": ({"error": "rate_limit_exceeded"}, None),
}  # fmt: skip


def test_an_empty_message_is_kept_as_sent() -> None:
    assert [failure({"error": {"message": text}}).error.message for text in ("", " ", None)] == ["", None, None]


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
    assert failure(body).status_code == status


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
        *({"code": code} for code in ("INSUFFICIENT_QUOTA", "insufficient_balance", "insufficient_credits")),
        *({"code": code} for code in ("insufficient_user_quota", "Arrearage", "AccountOverdueError", "billing_error")),
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


NAMED_X = [
    # Under one of its names, in an envelope or bare.
    *({"error": {name: "x"}} for name in ("message", "msg", "detail", "error_message", "title")),
    {"error": {"Code": "c", "Message": "x"}},
    *({"error": {"type": "t", name: "x"}} for name in ("reason", "errorMessage", "errorSummary", "details")),
    {"error": {"message": "", "reason": " ", "errorMessage": "x", "details": "y"}},
    {"error": "x", "details": "y"},
    *({"error": {"message": blank, "detail": "x"}} for blank in ("", " ")),
    *({"error_type": "BadRequestError", "error_message": "x"}, {"choices": [], "error_message": "x"}),  # Venice
    {"choices": None, "error_message": "x", "error_code": 400},  # DeepInfra
    {"code": 500, "message": "x", "usage": {"total_tokens": 0}},
    *({"message": "x", "code": "LIMIT", "status": 200}, {"message": "x", "code": "E1", "error_code": 0}),
    {"error": "x", "message": "x"},  # the same twice
    {"error": True, "title": "x"},  # the first name that has words
    # In an object, a few of them deep.
    *({"error": {"message": {"message": "x"}}}, {"error": {"message": nested(4)}}, {"message": {"error": "x"}}),
    *({"detail": {"message": "x"}}, {"errors": {"message": "x"}}),  # FastAPI, ModelScope
    # In a list.
    {"detail": [{"loc": ["body"], "msg": "x", "type": "missing"}]},  # FastAPI
    {"error": {"detail": {"errors": [{"loc": ["m"], "msg": "x"}]}}},  # Llama Stack
    {"success": False, "errors": [{"description": "x", "key": "k"}]},  # Writer
    # In what a choice has.
    *({"choices": [{name: {"error": {"message": "x"}}, "finish_reason": "error"}]} for name in ("delta", "message")),
]
MESSAGES = [
    *((body, "x") for body in NAMED_X),
    ({"error": "Bad Request", "message": "x"}, "Bad Request: x"),  # Fastify has a phrase beside a message
    ({"error": "x", "message": "x: y"}, "x: y"),
    ({"error": "x", "error_description": "y"}, "x: y"),  # OAuth has a word beside its description
    ({"error": {"error": "x", "error_description": "y"}}, "y"),
    ({"error": "x", "title": "y"}, "x: y"),
    ({"error": {"message": nested(5)}}, NO_MESSAGE),
    ({"error": {"message": " "}}, NO_MESSAGE),
    ({"error": {"code": "c", "reason": 404}}, f"{NO_MESSAGE}: code 'c'"),
    ({"detail": [[[[["x"]]]]]}, "['x']"),
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
