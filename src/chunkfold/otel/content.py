"""Messages in the form that the conventions define (gen-ai-input-messages.json, gen-ai-output-messages.json).

Texts, reasoning and tool calls are included; for images, audio and files only the fact that they were present.
"""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from chunkfold.json_text.values import is_list, is_object, objects_in
from chunkfold.models.completion import ChatCompletion, Choice
from chunkfold.models.content import reasoning_in, thinking_of
from chunkfold.otel.attributes import text_of
from chunkfold.otel.names import FINISH_ERROR, Names

Part = dict[str, Any]


def input_messages(request: Mapping[str, Any]) -> str | None:
    """The request's messages as JSON, None if it has none."""
    messages = request.get("messages")
    return _dumps([_input_message(each) for each in objects_in(messages)]) if is_list(messages) else None


def output_messages(completion: ChatCompletion, version: Names) -> str:
    """The message of each choice as JSON."""
    return _dumps([_output_message(choice, version) for choice in completion.choices])


def _dumps(messages: list[Part]) -> str:
    """The messages as JSON in pure ASCII, which any exporter takes."""
    return json.dumps(messages, default=lambda value: {"type": type(value).__name__})


def _input_message(message: dict[str, Any]) -> Part:
    parts = [_tool_result(message)] if message.get("role") == "tool" else [*_message_parts(message)]
    return {"role": str(message.get("role")), "parts": parts}


def _tool_result(message: dict[str, Any]) -> Part:
    content: Any = message.get("content")
    if is_list(content):
        content = [_input_part(each) for each in content]
    elif not isinstance(content, str | None):
        content = _input_part(content)
    return {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}


def _message_parts(message: dict[str, Any]) -> Iterator[Part]:
    """In the usual order: reasoning, text, refusal, calls, audio."""
    content, refusal = message.get("content"), message.get("refusal")
    if reasoning := reasoning_in({**message, "content": None}):
        yield {"type": "reasoning", "content": reasoning}
    yield from (_input_part(each) for each in (content if is_list(content) else [content]) if each)
    if refusal and isinstance(refusal, str):
        yield {"type": "refusal", "content": refusal}
    yield from map(_input_call, objects_in(message.get("tool_calls")))
    if is_object(legacy := message.get("function_call")):
        yield _call(None, legacy.get("name"), legacy.get("arguments"))
    if is_object(message.get("audio")):
        yield {"type": "audio"}


def _input_part(part: Any) -> Part:
    if isinstance(part, str):
        return {"type": "text", "content": part}
    if not is_object(part):
        return {"type": type(part).__name__}
    for kind in ("text", "refusal"):
        if isinstance(part.get(kind), str):
            return {"type": kind, "content": part[kind]}
    if thinking := thinking_of([part]):
        return {"type": "reasoning", "content": thinking}
    return {"type": str(part.get("type"))}


def _input_call(call: dict[str, Any]) -> Part:
    inner: Any = call.get("function", call.get("custom"))
    if not is_object(inner):
        return {"type": "tool_call", "id": call.get("id"), "name": ""}
    return _call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))


def _output_message(choice: Choice, version: Names) -> Part:
    message: Part = {"role": choice.message.role, "parts": list(_output_parts(choice))}
    if version.has_finish_reason_in_messages:
        message["finish_reason"] = text_of(choice.finish_reason) or FINISH_ERROR
    return message


def _output_parts(choice: Choice) -> Iterator[Part]:
    for part in choice.message.parts:
        if part.type == "tool_call":
            yield _call(part.tool_call.id, part.tool_call.name, part.tool_call.arguments)
        elif part.type == "image" or part.type == "audio":  # noqa: PLR1714 - pyright narrows by this
            yield {"type": part.type}
        elif part.type == "content_part":
            yield {"type": str(part.part.get("type"))}
        else:
            yield {"type": part.type, "content": part.text}
    legacy = choice.message.function_call
    if legacy is not None and not choice.message.tool_calls:  # else it is the same call, in its other form
        yield _call(None, legacy.name, legacy.arguments)


def _call(id_: Any, name: Any, arguments: Any) -> Part:
    return {"type": "tool_call", "id": id_, "name": name or "", "arguments": _value(arguments)}


def _value(arguments: Any) -> Any:
    """Arguments as a JSON value if they are JSON, else as the raw text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return arguments


def _finite(number: str) -> float:
    """The number; not NaN or an infinity, which Python reads, also from `1e400`, and JSON does not have."""
    value = float(number)
    if not isfinite(value):
        raise ValueError(number)
    return value
