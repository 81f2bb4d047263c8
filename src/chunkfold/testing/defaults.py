"""What the provider says when no answer was scripted: the least that satisfies an OpenAI client.

All of it is fixed, the times too, so that a test may compare it whole.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from chunkfold.testing.answers import Answer, json_answer
from chunkfold.testing.received import ReceivedRequest
from chunkfold.testing.wire import sse

BASE_PATH: Final = "/v1"

_MODEL: Final = "fake-model"
_CREATED: Final = 1_700_000_000  # seconds since 1970
_MODEL_OBJECT: Final = {
    "id": _MODEL,
    "object": "model",
    "created": _CREATED,
    "owned_by": "chunkfold",
}
_TEXT_PIECES: Final = ("Hello", " from", " the", " fake", " provider", ".")
_USAGE: Final = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}


def default_answer(request: ReceivedRequest) -> Answer:
    """Answer as OpenAI's API would: chat completions, the list of models, and 404 for all else."""
    route = f"{request.method} {request.path}"
    if route == f"POST {BASE_PATH}/chat/completions":
        return _chat_answer(request)
    if route == f"GET {BASE_PATH}/models":
        return json_answer({"object": "list", "data": [_MODEL_OBJECT]})
    return error_answer(404, f"Unknown request URL: {route}.", code="unknown_url")


def error_answer(
    status: int,
    message: str,
    *,
    type: str = "invalid_request_error",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A refusal with an error in OpenAI's form: `{"error": {message, type, param, code}}`.

    Args:
        status: The HTTP status.
        message: What it says.
        type: The kind of error.
        code: A word for it.
        headers: Such as `retry-after`.
    """
    error = {"message": message, "type": type, "param": None, "code": code}
    return json_answer({"error": error}, status, headers)


def _chat_answer(request: ReceivedRequest) -> Answer:
    try:
        asked: object = request.json
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        return error_answer(400, "The body of a request must be a JSON object.")
    options = cast("dict[str, Any]", asked)
    if options.get("stream"):
        return Answer(sse(*_chunks(options)))
    return json_answer(_completion(options))


def _chunks(options: dict[str, Any]) -> list[dict[str, Any]]:
    """The role, the text in pieces, the finish reason, and the usage if it was asked for."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": text} for text in _TEXT_PIECES)]
    choices = [*(_choice(None, delta=delta) for delta in deltas), _choice("stop", delta={})]
    chunks = [_envelope("chat.completion.chunk", options, choice) for choice in choices]
    stream_options: dict[str, Any] = options.get("stream_options") or {}
    if not stream_options.get("include_usage"):
        return chunks
    # OpenAI's form: a trailer without choices has it, and every chunk before says null.
    trailer = _envelope("chat.completion.chunk", options) | {"usage": _USAGE}
    return [*(chunk | {"usage": None} for chunk in chunks), trailer]


def _completion(options: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(_TEXT_PIECES), "refusal": None}
    choice = _choice("stop", message=message)
    return _envelope("chat.completion", options, choice) | {"usage": _USAGE}


def _choice(finish_reason: str | None, **content: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}


def _envelope(kind: str, options: dict[str, Any], *choices: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-fake",
        "object": kind,
        "created": _CREATED,
        "model": options.get("model") or _MODEL,
        "choices": list(choices),
    }
