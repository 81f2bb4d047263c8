"""Recognise events of other APIs, so that the error names the API: the URL is wrong, and a retry does not help."""

from typing import Any, Final

from chunkfold.wire.repairs import objects_in

_ANTHROPIC_EVENTS: Final = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


def other_api(name: Any) -> str | None:
    """The API whose event names or types these are."""
    if not isinstance(name, str):
        return None
    if name.startswith("response."):
        return "OpenAI's Responses API (/responses)"
    return "Anthropic's Messages API (/messages)" if name in _ANTHROPIC_EVENTS else None


def other_api_object(body: dict[str, Any]) -> str | None:
    """The API whose object this is."""
    choices = body.get("choices")
    if not choices:
        return other_api(body.get("type"))
    if body.get("object") != "text_completion":
        return None
    is_text = any("text" in choice and "delta" not in choice for choice in objects_in(choices))
    return "the legacy completions API (/completions)" if is_text else None


def names_other_api(api: str) -> str:
    """The error message for events of that API."""
    return f"expected chunks of the chat completions API, received events of {api}"
