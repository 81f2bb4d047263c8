"""The provider's answers when none is scripted: the minimum that an OpenAI client accepts.

All values are fixed, including times, so that a test can compare whole answers.
"""

from collections.abc import Mapping
from typing import Any, Final

from chunkfold.json_text.values import is_integer, is_object
from chunkfold.testing.answers import Answer, json_answer
from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.received import ReceivedRequest, json_object
from chunkfold.testing.wire import usage

BASE_PATH: Final = "/v1"
PROMPT_TOKENS: Final = 5

_MODEL: Final = "fake-model"
_CREATED: Final = 1_700_000_000  # seconds since 1970
_MODEL_OBJECT: Final = {
    "id": _MODEL,
    "object": "model",
    "created": _CREATED,
    "owned_by": "chunkfold",
}
_TEXT_PIECES: Final = ("Hello", " from", " the", " fake", " provider", ".")
_MOST_CHOICES: Final = 128  # as OpenAI has it


def default_answer(request: ReceivedRequest) -> Answer:
    """Answer as OpenAI's API would: chat completions, the list of models, a model, and 404 for all else."""
    method = "GET" if request.method == "HEAD" else request.method
    route = f"{method} {request.path}"
    if route == f"POST {BASE_PATH}/chat/completions":
        return _chat_answer(request)
    if route == f"GET {BASE_PATH}/models":
        return json_answer({"object": "list", "data": [_MODEL_OBJECT]})
    if route == f"GET {BASE_PATH}/models/{_MODEL}":
        return json_answer(_MODEL_OBJECT)
    return error_answer(404, f"Unknown request URL: {request.method} {request.path}.", code="unknown_url")


def error_answer(
    status: int,
    message: str,
    *,
    type: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Create a refusal with an error in OpenAI's form: `{"error": {message, type, param, code}}`.

    Args:
        status: The HTTP status.
        message: The error message.
        type: The kind of error.
        code: The error code, a word.
        param: The key of the request that is wrong.
        headers: Headers such as `retry-after`.
    """
    error = {"message": message, "type": type, "param": param, "code": code}
    return json_answer({"error": error}, status, headers)


def no_object_answer() -> Answer:
    """The refusal of a request whose body is not a JSON object."""
    return error_answer(400, "The body of a request must be a JSON object.")


def _chat_answer(request: ReceivedRequest) -> Answer:
    asked = json_object(request)
    if asked is None:
        return no_object_answer()
    stream_options, count = asked.get("stream_options"), asked.get("n")
    count = 1 if count is None else count
    if stream_options is not None and not is_object(stream_options):
        return _wrong("stream_options", "an object")
    if not is_integer(count) or not 1 <= count <= _MOST_CHOICES:
        return _wrong("n", f"an integer from 1 to {_MOST_CHOICES}")
    if not asked.get("stream"):
        return json_answer(_completion(asked, range(count)))
    with_usage = stream_options is not None and bool(stream_options.get("include_usage"))
    return _stream(asked, range(count), with_usage=with_usage).answer()


def _wrong(param: str, expected: str) -> Answer:
    return error_answer(400, f"Invalid '{param}': expected {expected}.", param=param, code="invalid_value")


def _stream(asked: Mapping[str, Any], choices: range, *, with_usage: bool) -> StreamBuilder:
    """The same text in each choice, with interleaved pieces, and the usage if it was requested."""
    stream = StreamBuilder(head=head_of(asked))
    for piece in _TEXT_PIECES:
        for choice in choices:
            stream = stream.text(piece, choice=choice)
    for choice in choices:
        stream = stream.finish(choice=choice)
    if with_usage:
        stream = stream.usage(PROMPT_TOKENS, _completion_tokens(choices))
    return stream.done()


def _completion(asked: Mapping[str, Any], choices: range) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(_TEXT_PIECES), "refusal": None}
    choice = {"message": message, "logprobs": None, "finish_reason": "stop"}
    return {
        **head_of(asked, "chat.completion"),
        "choices": [{"index": index, **choice} for index in choices],
        "usage": usage(PROMPT_TOKENS, _completion_tokens(choices)),
    }


def _completion_tokens(choices: range) -> int:
    return len(_TEXT_PIECES) * len(choices)


def head_of(asked: Mapping[str, Any], kind: str = "chat.completion.chunk") -> dict[str, Any]:
    """The id, object, created and model of an answer; the model is the one that was asked for, if it has a name."""
    model = asked.get("model")
    named = model if model and isinstance(model, str) else _MODEL
    return {"id": "chatcmpl-fake", "object": kind, "created": _CREATED, "model": named}
