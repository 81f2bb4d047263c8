"""Streams in which the provider reports an error after a status of 200, in every known shape."""

import json
from typing import Any, Final

from chunkfold.testing.hostile.values import HI, STOP, HostileStream
from chunkfold.testing.readings import Call
from chunkfold.testing.wire import DONE, choice, chunk, compact_json, delta, event, fragment, fragments

_OVERLOADED: Final = {"message": "the engine is overloaded", "type": "server_error", "code": "overloaded"}
_TOLD: Final = _OVERLOADED["message"]
_EVENT: Final = event({"error": _OVERLOADED})
_BODY: Final[dict[str, Any]] = {"error": {"message": _TOLD, "type": "server_error", "param": None, "code": 503}}


def _error(
    name: str, sentence: str, senders: str, body: bytes, *, text: str = "Hi", message: str = _TOLD
) -> HostileStream:
    """The provider's error, by default after some text."""
    return HostileStream(name, sentence, senders, body, "error", texts=(text,), message=message)


ERRORS: Final[tuple[HostileStream, ...]] = (
    _error("error-then-done", "an error in a data frame, then [DONE]", "OpenToken, vLLM, SGLang", HI + _EVENT + DONE),
    _error("error-at-the-end", "an error in a data frame, and nothing more", "NagaAI, OpenAI", HI + _EVENT),
    _error("error-first", "an error is all that comes", "DashScope, Groq", _EVENT, text=""),
    _error(
        "error-unterminated",
        "an error in a last line without its end",
        "gateways that close right after it",
        HI + _EVENT.rstrip(),
    ),
    _error(
        "error-after-finish",
        "an error after the finish reason",
        "gateways whose last step failed",
        HI + STOP + _EVENT + DONE,
    ),
    _error(
        "error-beside-choices",
        "an error beside a choice that has neither an index nor a delta",
        "OpenRouter, Sansa",
        HI + event({"error": _OVERLOADED, "choices": [{"finish_reason": "error"}]}) + DONE,
    ),
    _error(
        "error-in-choice",
        "an error inside the choice, whose finish reason is error",
        "OpenRouter",
        HI
        + chunk(
            {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": {"message": _TOLD, "code": 502}}
        )
        + DONE,
    ),
    _error(
        "error-by-finish-reason",
        "only the finish reason reports the failure: error",
        "OpenRouter, gateways",
        HI + delta("error") + DONE,
        message="error",
    ),
    _error(
        "error-typed",
        "an error object without an envelope, known by its type",
        "bridges to Claude",
        HI + event({"type": "error", "message": _TOLD}),
    ),
    _error(
        "error-event-enveloped",
        "an event named error, with an envelope in an envelope",
        "bridges to Claude",
        HI + event({"type": "error", "error": {"type": "overloaded_error", "message": _TOLD}}, "error"),
    ),
    _error("error-event-text", "an event named error that is plain text", "proxies", HI + event(_TOLD, "error")),
    _error(
        "error-with-status",
        "an error that has a status and the failed generation",
        "Groq",
        HI
        + event(
            {
                "error": {
                    "message": _TOLD,
                    "type": "invalid_request_error",
                    "code": "tool_use_failed",
                    "failed_generation": "<weather>",
                    "status_code": 400,
                }
            },
            "error",
        ),
    ),
    _error(
        "error-list",
        "the error is in a list of one element",
        "Google",
        HI + event([{"error": {"code": 503, "message": _TOLD, "status": "UNAVAILABLE"}}]),
    ),
    _error(
        "error-code",
        "a code and a message, no envelope",
        "throttling proxies",
        HI + event({"code": 429, "message": _TOLD}),
    ),
    _error("error-detail", "a detail, no envelope", "FastAPI servers", HI + event({"detail": _TOLD})),
    _error("error-empty", "the error is an empty object", "proxies", HI + event({"error": {}}), message=""),
    _error(
        "error-in-open-choice",
        "an error inside a choice that has no finish reason, then [DONE]",
        "OpenRouter and relays of it",
        HI + event({"choices": [{"error": {"code": 504, "message": _TOLD}}]}) + DONE,
    ),
    _error(
        "error-in-stopped-choice",
        "an error inside a choice whose finish reason is stop",
        "relays of OpenRouter",
        HI + chunk({"index": 0, "delta": {}, "finish_reason": "stop", "error": _TOLD}) + DONE,
    ),
    _error(
        "error-in-x-groq",
        "an error in `x_groq`, beside no choice",
        "Groq",
        HI + chunk(x_groq={"id": "req_1", "error": _TOLD}) + DONE,
    ),
    _error(
        "error-cloudflare",
        "a list of errors beside `success: false`",
        "Cloudflare",
        HI
        + event({"success": False, "errors": [{"code": 3040, "message": _TOLD}], "messages": [], "result": None})
        + DONE,
    ),
    _error(
        "error-watsonx",
        "a list of errors beside a status",
        "watsonx",
        HI + event({"errors": [{"code": "overloaded", "message": _TOLD}], "trace": "t", "status_code": 503}) + DONE,
    ),
    _error(
        "error-baidu",
        "an `error_code` and an `error_msg`",
        "Baidu",
        HI + event({"error_code": 336100, "error_msg": _TOLD, "id": "as-1"}) + DONE,
    ),
    _error(
        "error-tencent",
        "an error in an object `Response`",
        "Tencent",
        HI + event({"Response": {"Error": {"Code": "InternalError", "Message": _TOLD}, "RequestId": "r"}}) + DONE,
    ),
    _error("error-aws", "a `Message`, in capitals, and nothing else", "AWS", HI + event({"Message": _TOLD}) + DONE),
    _error(
        "error-exception",
        "an error under the name of an exception",
        "AWS",
        HI + event({"serviceUnavailableException": {"message": _TOLD}}) + DONE,
    ),
    _error(
        "error-databricks",
        "an `error_code` that is a word",
        "Databricks",
        HI + event({"error_code": "TEMPORARILY_UNAVAILABLE", "message": _TOLD}) + DONE,
    ),
    _error(
        "error-as-finish-reason",
        "the finish reason is the type of an error, and [DONE] follows",
        "Portkey in front of Anthropic",
        HI + delta("overloaded_error", content="") + DONE,
        message="overloaded_error",
    ),
    _error(
        "error-as-native-finish-reason",
        "the finish reason is stop, but the upstream's own means an error",
        "OpenRouter",
        HI + chunk({**choice("stop"), "native_finish_reason": "network_error"}) + DONE,
        message="network_error",
    ),
    _error(
        "error-malformed-call",
        "the finish reason says that the call was malformed",
        "Gemini",
        HI + delta("function_call_filter: MALFORMED_FUNCTION_CALL") + DONE,
        message="MALFORMED_FUNCTION_CALL",
    ),
    HostileStream(
        "error-in-call",
        "an error in the middle of a tool call's arguments",
        "anyone",
        fragments(fragment(0, "call_a", "weather", '{"city":')) + _EVENT + DONE,
        "error",
        calls=(Call("weather", '{"city":', "call_a"),),
        message=_TOLD,
    ),
    _error(
        "error-body-after-blank-lines",
        "blank lines, then a JSON error as the whole body",
        "DeepSeek under load",
        b"\n\n\n" + compact_json(_BODY) + b"\n\n",
        text="",
    ),
    _error(
        "error-body-pretty",
        "a JSON error over several lines as the whole body",
        "Google, gateways",
        b'{\n  "error": {\n    "code": 503,\n    "message": "the engine is overloaded"\n  }\n}\n',
        text="",
    ),
    _error(
        "error-event-comment",
        "an event named error that has a comment instead of data, then [DONE]",
        "NVIDIA Dynamo",
        HI + b"event: error\n: " + _TOLD.encode() + b"\n\n" + DONE,
    ),
    _error(
        "error-behind-a-cut-event",
        "an error in the same event as a chunk that was cut",
        "gateways whose upstream broke off",
        HI + delta(content=" there")[:-12] + b"\n" + _EVENT + DONE,
    ),
    _error(
        "error-spliced-into-a-line",
        "an error, with its field, in the middle of a line that was cut",
        "proxies whose upstream broke off",
        HI + delta(content=" there")[:-12] + _EVENT + DONE,
    ),
    _error(
        "error-as-text",
        "the finish reason error_finish, with the error as the text of the choice",
        "DashScope",
        HI + delta("error_finish", content=json.dumps({"error": _OVERLOADED})) + DONE,
    ),
    _error(
        "error-message-field",
        "an error in fields of its own, whose choices are null",
        "DeepInfra, Venice",
        event({"id": "", "choices": None, "error_type": "BadRequestError", "error_message": _TOLD}) + DONE,
        text="",
    ),
)
