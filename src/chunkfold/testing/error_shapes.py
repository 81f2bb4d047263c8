"""The shapes in which providers report an error in the middle of a stream, each as the event that has it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from chunkfold.testing.wire import HEAD, compact_json, event

Code: TypeAlias = int | str | None
ErrorShape: TypeAlias = Literal[
    "object",
    "choices",
    "text",
    "event",
    "event_object",
    "event_text",
    "field",
    "bare",
    "type",
    "base_resp",
    "finish_reason",
    "code",
    "message",
    "detail",
    "list",
    "errors",
]


class ReportedError(NamedTuple):
    """A provider's error: its message, its code (the provider's own or an HTTP status), its type.

    The head is that of the chunk, for the shape that is one.
    """

    message: str
    code: Code = None
    type: str | None = None
    head: Mapping[str, Any] = HEAD

    @property
    def fields(self) -> dict[str, Any]:
        """As OpenAI names them; what is None is not sent."""
        told = {"message": self.message, "code": self.code, "type": self.type}
        return {name: value for name, value in told.items() if value is not None}


def _number(code: Code, default: int) -> int:
    return code if isinstance(code, int) else default


ERROR_SHAPES: Final[dict[ErrorShape, Callable[[ReportedError], bytes]]] = {
    "object": lambda error: event({"error": error.fields}),  # OpenAI and most others
    # OpenRouter, Sansa
    "choices": lambda error: event({"error": error.fields, "choices": [{"finish_reason": "error"}]}),
    # TGI
    "text": lambda error: event({"error": error.message, **({"error_type": error.type} if error.type else {})}),
    "event": lambda error: event(error.fields, "error"),  # LM Studio, Responses-like APIs
    "event_object": lambda error: event({"error": error.fields}, "error"),  # Groq
    "event_text": lambda error: event(error.message, "error"),  # relays
    "field": lambda error: b"error: " + compact_json(error.fields) + b"\n\n",  # llama.cpp
    "bare": lambda error: event({"object": "error", **error.fields}),  # vLLM
    "type": lambda error: event({"type": "error", "error": error.fields}),  # Anthropic-like APIs
    "base_resp": lambda error: event(  # MiniMax
        {"base_resp": {"status_code": _number(error.code, 1000), "status_msg": error.message}, "choices": None}
    ),
    "finish_reason": lambda error: event(  # OpenRouter, Groq
        {**error.head, "choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": error.fields}]}
    ),
    "code": lambda error: event({"code": _number(error.code, 500), "message": error.message}),  # throttling proxies
    "message": lambda error: event({"message": error.message}),  # gateways
    "detail": lambda error: event({"detail": error.message}),  # FastAPI
    "list": lambda error: event([{"error": error.fields}]),  # Google
    "errors": lambda error: event(  # Cloudflare
        {
            "success": False,
            "errors": [{"code": _number(error.code, 5000), "message": error.message}],
            "messages": [],
            "result": None,
        }
    ),
}
"""Each shape, by its name, with a provider that sends it."""
