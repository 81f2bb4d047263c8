"""What a delta's fields mean: the text and the reasoning in the shapes in which providers send them."""

from collections.abc import Iterator, Mapping
from typing import Any

from chunkfold.json_values import is_list, is_object


def text_of(content: Any) -> str:
    """The text of `content`: a string, or (Mistral) the text parts of a list."""
    if isinstance(content, str):
        return content
    return "".join(_part_texts(content, "text")) if is_list(content) else ""


def thinking_of(content: Any) -> str:
    """The reasoning inside a content list (Mistral's `thinking` parts)."""
    return "".join(_part_texts(content, "thinking")) if is_list(content) else ""


def details_text(details: list[Any]) -> str:
    """The text of `reasoning_details` (OpenRouter), else its summaries."""
    for key in ("text", "summary"):
        texts = [item[key] for item in details if is_object(item) and isinstance(item.get(key), str)]
        if any(texts):
            return "".join(texts)
    return ""


def reasoning_of(fields: Mapping[str, Any]) -> str:
    """The reasoning text of a delta or message, given its fields by name.

    It comes as `reasoning_content` (DeepSeek, vLLM), `reasoning` (OpenRouter, StepFun), `reasoning_details` or
    `thinking` parts, often the same text twice: the first that is not empty counts.
    """
    content = fields.get("content")
    return named_reasoning(fields) or ("" if isinstance(content, str) else thinking_of(content))


def named_reasoning(fields: Mapping[str, Any]) -> str:
    """The reasoning text that has a field of its own."""
    for name in ("reasoning_content", "reasoning"):
        text = fields.get(name)
        if text and isinstance(text, str):
            return text
    details = fields.get("reasoning_details")
    return details_text(details) if details else ""


def stretches_of(content: list[Any]) -> Iterator[tuple[str, str]]:
    """The texts in a content list in their order, each with its kind: "text" or "thinking"."""
    for part in content:
        for kind in ("text", "thinking"):
            yield from ((kind, text) for text in _part_texts([part], kind) if text)


def _part_texts(parts: list[Any], kind: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            if kind == "text":
                yield part
        elif is_object(part) and part.get("type", "text") == kind:
            inner = part.get(kind)
            if isinstance(inner, str):
                yield inner
            elif kind == "thinking" and is_list(inner):
                yield from _part_texts(inner, "text")
