"""HTTP errors: what the response and its body say, how long to wait, the id of the request, redirects."""

import json
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest
from cases import each_case
from error_bodies import ANY, INNER, LIMITED, NO_MESSAGE, data, failure
from measured_memory import traced
from parsed_bodies import parsed

from chunkfold import APIStatusError, ChatCompletionParser, LimitExceededError, StreamEnd, error_from_response
from chunkfold.testing.wire import compact_json

# What the response and its body say


RESPONSES = [  # beside the shapes that come in streams, too
    pytest.param({"error": LIMITED}, "slow down", "rate_limit_exceeded", id="OpenAI"),
    pytest.param([{"error": {"message": "quota", "code": 429}}], "quota", 429, id="Google"),
    pytest.param([{"message": "bad", "code": "E1"}, {"message": "no"}], "bad; no", "E1", id="a list of several"),
    pytest.param({"msg": "x", "code": "E1"}, "x", "E1", id="others"),
    pytest.param({"error_msg": "404 Route Not Found"}, "404 Route Not Found", None, id="APISIX"),
    pytest.param({"fault": {"faultstring": "x", "detail": {"errorcode": "y"}}}, "x", None, id="Apigee"),
    pytest.param({"status": {"code": "42901", "message": "x"}, "result": None}, "x", "42901", id="CLOVA Studio"),
    pytest.param({"httpStatus": 401, "messages": [{"errorCode": "e", "message": "x"}]}, "x", None, id="IONOS"),
    pytest.param(
        {"code": "900514", "message": {"actionReason": "x", "direction": "REQUEST"}}, "x", "900514", id="WSO2"
    ),
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


NO_CREDIT = b'data: {"error":{"message":"no credit","code":"insufficient_quota"}}'
BAD = b'{"error":{"message":"bad","code":"c"}}'


@each_case(
    ("body", "message", "code"),
    [
        *(
            (
                first + b'event:error\n:HTTP_STATUS/429\ndata:{"code":"Throttling","message":"slow"}\n\n',
                "slow",
                "Throttling",
            )
            for first in (b"id:1\n", b"retry: 5\n", b": hi\n\n", b"data: {}\n\n", b"")
        ),
        (b"event: error\n: overloaded\n\n", "overloaded", None),
        (b"event: error\ndata: overloaded\n\n", "overloaded", None),
        (b'event: error\ndata: {\ndata: "message": "overloaded"\ndata: }\n\n', "overloaded", None),
        (b'error: {"code": 503, "message": "overloaded"}\n\n', "overloaded", 503),
        (b'data: {}\nerror: {"code": 503, "message": "overloaded"}\n\n', "overloaded", 503),
        (b'data: {"error": {"message": "overloaded"}}\nerror: null\n\n', "overloaded", None),
        *(
            (before + NO_CREDIT + ending, "no credit", "insufficient_quota")
            for before in (b"", b"\n", b": hello\n", b"event: error\n")
            for ending in (b"\n\ndata: [DONE]\n\n", b"")
        ),
        (b"\xef\xbb\xbf" + BAD, "bad", "c"),
        # As behind a whole completion. Was once wrong: the error was only quoted.
        (BAD + b"\n: keep-alive\n\n", "bad", "c"),
    ],
)
def test_the_error_of_a_refusal_that_is_an_event_or_has_more_around_it(
    body: bytes, message: str, code: int | str | None
) -> None:
    error = error_from_response(429, {}, body)
    assert (error.message, error.code) == (message, code)
    assert error.retryable is (code != "insufficient_quota")


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


@each_case(("told", "retryable"), [("true", True), ("false", False), ("maybe", None), ("", None), (None, None)])
def test_a_response_is_retried_as_it_says_else_by_its_own_status(told: str | None, retryable: bool | None) -> None:
    headers = {} if told is None else {"X-Should-Retry": told}
    for status, by_status in ((400, False), (401, False), (404, False), (429, True), (503, True)):
        error = error_from_response(status, headers, b'{"error":{"message":"x","code":"server_error"}}')
        assert error.status_code == status
        assert error.retryable is (by_status if retryable is None else retryable)


@pytest.mark.parametrize("body", [b"data: nothing", b": hello", b"data", b"event: error\n\n"])
def test_a_refusal_that_only_looks_like_an_event_is_quoted(body: bytes) -> None:
    assert error_from_response(503, {}, body).message == body.decode().strip()


@each_case(
    ("body", "told"),
    [
        (b'{"httpMessage": "no\x1b[2J",\n "more": "x"}', ': {"httpMessage": "no\\x1b[2J", "more": "x"}'),
        (b'{"x": "' + b"y" * 1000 + b'"}', f': {{"x": "{"y" * 193}...'),
        (b'{"error": {"code": 5}, "x": "y"}', ": code 5"),
        (b"", ""),
    ],
)
def test_a_response_without_a_message_is_quoted(body: bytes, told: str) -> None:
    assert str(error_from_response(400, {}, body)) == f"HTTP 400: {NO_MESSAGE}{told}"


@each_case("kind", [bytes, bytearray, memoryview])
def test_of_a_large_body_only_the_beginning_is_read(kind: Callable[[bytes], Any]) -> None:
    """Was once wrong: a list of 32 MiB took a gigabyte and ten seconds."""
    padding = "x" * (2**16 - len('{"error":{"message":"m"},"a":""}'))
    body = compact_json({"error": {"message": "m"}, "a": padding})
    error = error_from_response(500, {}, kind(body))
    assert (str(error), error.raw, error.__cause__) == ("HTTP 500: m", json.loads(body), None)
    with traced() as memory:
        error = error_from_response(500, {}, kind(b"[" + b"1," * 10**6 + b"1]"))
    assert memory.peak < 10**7
    assert error.raw == "[" + "1," * (2**15 - 1) + "1"
    assert isinstance(error.__cause__, LimitExceededError)
    assert (error.__cause__.limit, error.__cause__.value) == ("max_error_body", 2**16)


@each_case("body", [b'{"error":{"message":"bad\n: worse"}}', b'{"error"\n:{"message":"bad : worse"}}'])
def test_a_line_of_the_error_that_begins_with_a_colon_is_no_comment(body: bytes) -> None:
    assert str(error_from_response(503, {}, body)) == "HTTP 503: bad : worse"
    assert str(parsed(body).error) == "bad : worse"


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


def retry_info(delay: Any) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def in_metadata(seconds: Any, **more: Any) -> dict[str, Any]:
    return {"metadata": {"retry_after_seconds": seconds, **more}}


PLAN = {"type": "usage_limit_reached", "message": "x", "plan_type": "pro", "resets_in_seconds": 173470}
NO_SECONDS = (None, -1, True, [], "soon")
WAITS_IN_BODIES = {
    # Google's compatible endpoint has no header for it.
    "details": ({"details": [{"@type": "x"}, retry_info("34.5s")]}, 34.5),
    "details: none": ({"details": [5, retry_info("0s")]}, 0.0),
    **{
        f"details: nonsense: {delay!r}": ({"details": [retry_info(delay)]}, None)
        for delay in ("", "s", "1m", "-1s", "1e9s", "infs", 5, None)
    },
    **{f"details that are no list: {value}": ({"details": value}, None) for value in (retry_info("34.5s"), None)},
    # Within a stream, OpenRouter has no header for it.
    "metadata": (in_metadata(11, retry_after_seconds_raw=10.918), 11.0),
    "metadata: a fraction": (in_metadata(0.5), 0.5),
    "metadata: before what it passes on": (in_metadata(11, raw=json.dumps(INNER)), 11.0),
    "metadata: else what it passes on": (in_metadata(None, raw=json.dumps(INNER)), 7.0),
    **{f"metadata: nonsense: {wait!r}": (in_metadata(wait), None) for wait in (*NO_SECONDS, float("inf"), 10**20)},
    "metadata that is a text": ({"metadata": "11"}, None),
    "metadata of an error that a gateway passes on": ({"message": json.dumps({"error": in_metadata(9)})}, 9.0),
    # Of a ChatGPT plan, which proxies such as CLIProxyAPI pass on, and CLIProxyAPI's own.
    "the error": (PLAN, 173470.0),
    "the error: PostHog's gateway": ({"retry_after": 30}, 30.0),
    "the error: of two, the seconds": ({**PLAN, "resets_at": 1792000000, "resets_in_seconds": 7200}, 7200.0),
    "the error: CLIProxyAPI": ({"code": "model_cooldown", "reset_seconds": 41, "reset_time": "40s"}, 41.0),
    "the error: passed on": ({"message": json.dumps(PLAN)}, 173470.0),
    "the error: passed on in an envelope": ({"message": json.dumps({"error": {"resets_in_seconds": 60}})}, 60.0),
    "the error: after the metadata": ({**in_metadata(11), "resets_in_seconds": 60}, 11.0),
    "the error: before the details": ({"reset_seconds": 90, "details": [retry_info("34.5s")]}, 90.0),
    **{f"the error: nonsense: {wait!r}": ({"resets_in_seconds": wait}, None) for wait in (*NO_SECONDS, float("inf"))},
}


@each_case(("fields", "seconds"), WAITS_IN_BODIES.values(), ids=WAITS_IN_BODIES)
def test_a_wait_in_the_body(fields: dict[str, Any], seconds: float | None) -> None:
    body = {"error": {"code": 429, "message": "x", **fields}}
    assert failure(body).retry_after == seconds
    assert error_from_response(429, {}, json.dumps(body).encode()).retry_after == seconds
    assert error_from_response(429, {"retry-after": "7"}, json.dumps(body).encode()).retry_after == 7


SENT = {"date": "Sat, 08 Mar 2025 23:59:00 GMT"}
MIDNIGHT = "1741478400000"


@each_case(
    ("reset", "headers", "seconds"),
    [
        (MIDNIGHT, SENT, 60.0),
        (int(MIDNIGHT) + 500, SENT, 60.5),
        (MIDNIGHT, {"date": "Sun, 09 Mar 2025 00:00:00 GMT"}, 0.0),
        (MIDNIGHT, {"date": "Sun, 09 Mar 2025 00:00:01 GMT"}, None),  # it has passed
        (MIDNIGHT, {}, None),
        (MIDNIGHT, {"date": "midnight"}, None),
        (MIDNIGHT, {"date": "Sun, 09 Mar 99999999999999999999 00:00:00 GMT"}, None),
        (MIDNIGHT, {**SENT, "retry-after": "7"}, 7.0),
        ("1741478400", SENT, None),  # not in milliseconds
        ("60s", SENT, None),
        (None, SENT, None),
        (["60"], SENT, None),
    ],
)
def test_the_reset_of_a_limit_in_the_metadata(reset: Any, headers: dict[str, str], seconds: float | None) -> None:
    """OpenRouter says so only there, when the requests of a day or a minute to a free model are used up."""
    metadata = {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}}
    body = {"error": {"code": 429, "message": "x", "metadata": metadata}}
    assert error_from_response(429, headers, json.dumps(body).encode()).retry_after == seconds
    assert parsed(data(body), headers=headers).error.retry_after == seconds
    metadata["retry_after_seconds"] = 5
    assert parsed(data(body), headers=headers).error.retry_after == (7.0 if "retry-after" in headers else 5.0)


@each_case("metadata", ["x", ["x"], {"headers": "x"}, {"headers": {}}, {"headers": ["X-RateLimit-Reset"]}])
def test_metadata_without_the_reset_of_a_limit(metadata: Any) -> None:
    body = {"error": {"code": 429, "message": "x", "metadata": metadata}}
    assert error_from_response(429, SENT, json.dumps(body).encode()).retry_after is None


@each_case(
    "body",
    [
        {"error": "rate_limit_exceeded", "retry_after": 60},
        {"error": {"message": "x"}, "retry_after": "60"},
        {"detail": {"code": "rate_limit_exceeded", "retry_after": 60}},
        {"title": "Error 1015", "status": 429, "error_code": 1015, "retryable": True, "retry_after": 60},  # Cloudflare
    ],
)
def test_a_wait_beside_the_error(body: dict[str, Any]) -> None:
    assert failure(body).retry_after == 60.0
    assert error_from_response(429, {}, json.dumps(body).encode()).retry_after == 60.0


@each_case(("headers", "seconds"), WAITS)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    error = error_from_response(429, headers, b"")
    if seconds is not ANY:
        assert error.retry_after == seconds
    assert error.retry_after is None or type(error.retry_after) is float
    # The same from the headers of a stream whose body has the error.
    assert parsed(data({"error": {"message": "x"}}), headers=headers).error.retry_after == error.retry_after


# The id of the request


@each_case(
    "body",
    [
        {"error": {"message": "x", "request_id": "b"}},
        {"error": {"message": "x"}, "request_id": "b"},
        {"error": {"message": "x", "request_id": ""}, "request_id": "b"},
        {"Response": {"Error": {"Code": "E", "Message": "x"}, "RequestId": "b"}},
    ],
)
def test_the_id_of_the_request_in_the_body(body: dict[str, Any]) -> None:
    assert failure(body).request_id == "b"
    for headers, expected in ({}, "b"), ({"x-request-id": "a"}, "a"):
        assert error_from_response(400, headers, json.dumps(body).encode()).request_id == expected
        assert parsed(data(body), headers=headers).error.request_id == expected
    assert failure({"error": {"message": "x", "request_id": 5}}).request_id is None
    assert failure({"title": "Bad Request", "status": 400, "detail": "x", "requestId": "b"}).request_id == "b"  # NVIDIA


@each_case(
    ("headers", "expected"),
    [
        *(
            ({name: "a"}, "a")
            for name in (
                *("X-Request-Id", "request-id", "x-oneapi-request-id", "apim-request-id", "x-amzn-requestid"),
                *("x-generation-id", "mistral-correlation-id", "x-ds-trace-id", "x-log-id", "x-trace-id", "trace-id"),
                *("Nvcf-Reqid", "Helicone-Id", "cf-aig-log-id", "X-Kong-Request-Id", "x-siliconcloud-trace-id"),
                *("x-together-request-id", "X-Baseten-Request-Id", "X-Snowflake-Request-Id", "opc-request-id"),
                *("X-Global-Transaction-Id", "X-Chutes-InvocationID", "x-inference-id", "X-GitHub-Request-Id"),
                *("x-litellm-call-id", "X-Portkey-Trace-Id"),
            )
        ),
        ({"x-msh-trace-id": "b", "Msh-Request-Id": "a"}, "a"),
        ({"trace-id": "b", "minimax-request-id": "a", "alb_request_id": "c"}, "a"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c", "request-id": "b", "x-request-id": "a"}, "a"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c", "request-id": "b"}, "b"),
        ({"x-portkey-trace-id": "d", "x-litellm-call-id": "c"}, "c"),
        ({"x-requests": "a", "cf-ray": "a"}, None),
    ],
)
def test_request_id(headers: dict[str, str], expected: str | None) -> None:
    """OpenAI, Anthropic, LiteLLM and Portkey have names of their own for it."""
    assert error_from_response(500, headers, b"").request_id == expected
    parser = parsed(data({"error": {"message": "x"}}), headers=headers)
    assert parser.request_id == parser.error.request_id == expected


# Headers


def test_headers_of_urllib_in_bytes_and_one_without_a_value() -> None:
    message: Any = Message()
    message["Retry-After"], message["X-Request-ID"] = "7", "a"
    without: Any = {"retry-after": "7", "x-request-id": None, "request-id": "a", "x": None}
    in_bytes: Any = {b"Retry-After": b"7", b"X-Request-ID": "a"}
    for headers in message, without, in_bytes:
        error = error_from_response(429, headers, b"")
        assert (error.retry_after, error.request_id) == (7.0, "a")
        assert "x" not in error.headers
        assert ChatCompletionParser(headers=headers).request_id == "a"


def test_headers_are_looked_up_in_any_case_and_show_no_values() -> None:
    headers = error_from_response(429, {"Retry-After": "3", "Set-Cookie": "secret"}, b"").headers
    assert dict(headers) == {"retry-after": "3", "set-cookie": "secret"}
    assert headers["RETRY-AFTER"] == "3"
    assert ("Retry-after" in headers, len(headers), headers.get("x")) == (True, 2, None)
    assert "secret" not in repr(headers)


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
        *(
            (where, "")
            for where in (
                *("", "secret", "user:secret@api.example", "data:text/plain,secret", "http:///a@secret"),
                *("http:secret", "http://[secret", "?secret", "http:\\\\user:secret@host"),
            )
        ),
    ],
)
@each_case("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_without_what_may_be_secret(status: int, location: str, told: str) -> None:
    error = error_from_response(status, {"Location": location}, b"")
    assert str(error) == f"HTTP {status}{told}: the provider sent an error without a message"
    assert error.headers["location"] == location


def test_a_long_redirect_is_cut_and_another_status_has_none() -> None:
    headers = {"location": "https://api.example/" + "a/" * 5000}
    assert len(str(error_from_response(307, headers, b'{"error":"moved"}'))) < 260
    assert str(error_from_response(307, headers, b'{"error":"moved"}')).endswith("...: moved")
    for status in (300, 304, 401, 503):
        assert "api.example" not in str(error_from_response(status, headers, b""))
