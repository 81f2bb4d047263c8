"""Repair the fields of a chunk that have unexpected values.

Only events that the fast path could not validate get here. Every repair has a name. What cannot be repaired without
guessing is refused, with a message that has the expected and the received value.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.errors import exceeded
from chunkfold.json_text.values import (
    Path,
    dotted,
    is_container,
    is_integer,
    is_list,
    is_object,
    objects_in,
    places_in,
    size_of,
    values_in,
)
from chunkfold.models.base import WrongType, validate_leniently
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.content import DRAFT, reasoning_in
from chunkfold.models.shared import CompletionTokensDetails, CompletionUsage, PromptTokensDetails
from chunkfold.wire.reading import TOO_LONG, Notes

AUDIO_MODALITY: Final = "audio"
DIFFUSION: Final = "diffusion_meta"
"""Inception's field beside the choices, which says whether their contents are drafts."""
SUMMARY: Final = "reasoning_summary"
"""Inception's field beside the choices, with a summary of the reasoning as its `content`."""
_MAX_UNKNOWN_DEPTH: Final = 200
# Characters of an event's arguments and ids of calls that are not text, and of a body's contents that are objects. As
# text, each may take 24 bytes instead of one, and an integer takes the square of its digits to print.
MAX_VALUES_AS_TEXT: Final = 2**21
# What a chunk is about: a wrong type here is an error, elsewhere the value is kept raw.
_ESSENTIAL: Final = frozenset({"content", "tool_calls", "finish_reason", "index", "choices", "delta"})
_ESSENTIAL_IN_CALL: Final = frozenset({"function", "custom", "name", "arguments", "input"})
_IDENTIFYING_CALL: Final = frozenset({"index", "id"})  # but not in a whole message, whose calls have their places
_MESSAGE_LISTS: Final = ("content", "tool_calls", "annotations", "images", "reasoning_details")
_MESSAGE_FIELDS: Final = (*_MESSAGE_LISTS, "function_call", "audio")
# The containers that the models know, by the key of the one they are in. No name is below itself.
_STRUCTURE: Final[dict[str, tuple[str, ...]]] = {
    "": ("choices", "usage"),
    "usage": ("prompt_tokens_details", "completion_tokens_details"),
    "choices": ("delta", "message", "logprobs"),
    "delta": _MESSAGE_FIELDS,
    "message": _MESSAGE_FIELDS,
    "tool_calls": ("function", "custom"),
    "annotations": ("url_citation",),
    "logprobs": ("content", "refusal"),
    "content": ("top_logprobs", "thinking"),
    "refusal": ("top_logprobs",),
}
_LISTS: Final = frozenset({*_MESSAGE_LISTS, "choices", "refusal", "top_logprobs", "thinking"})
# The integers that some providers spell, by the key of the object they are in.
_INTEGERS: Final[dict[str, frozenset[str]]] = {
    "": frozenset({"created"}),
    **dict.fromkeys(("choices", "tool_calls"), frozenset({"index"})),
    "usage": frozenset(CompletionUsage.model_fields.keys() - _STRUCTURE["usage"]),
    "prompt_tokens_details": frozenset(PromptTokensDetails.model_fields),
    "completion_tokens_details": frozenset(CompletionTokensDetails.model_fields),
}


def repaired_chunk(fields: dict[str, Any], notes: Notes) -> ChatCompletionChunk:
    """The chunk a JSON object stands for, with every named repair applied; `fields` may be changed.

    Raises:
        ValueError: Its choices, content, tool calls, finish reason or index are not what they should be.
        LimitExceededError: Arguments that come as a value are too large.
    """
    if is_too_deep(fields):
        _drop_deep_values(fields, notes, ())
    _drop_empty_values(fields, notes)
    read_contents(_messages(fields), (int, float), notes)
    _move_contents(fields, notes)
    _move_summary(fields)
    _repair_calls(fields, notes)
    read_spelled_numbers(fields, notes, ())
    chunk, wrong = validate_leniently(ChatCompletionChunk, fields)
    essential = next((one for one in wrong if _is_essential(one)), None)
    if essential is not None:
        raise ValueError(str(essential).replace("a string or a list", "a string or a list of parts"))
    notes += [(one.rule, str(one)) for one in wrong if not _is_empty_arguments(one)]
    return chunk


def _is_empty_arguments(wrong: WrongType) -> bool:
    return wrong.path[-1] == "arguments" and wrong.value in ({}, [])


def _is_essential(wrong: WrongType) -> bool:
    """Whether a value is too important to be kept raw."""
    path = [part for part in wrong.field if isinstance(part, str)]
    if "logprobs" in path:
        return False
    if "tool_calls" in path[:-1]:
        is_identity = path[-1] in _IDENTIFYING_CALL and "message" not in path
        return is_identity or (path[-1] in _ESSENTIAL_IN_CALL and not _is_empty_arguments(wrong))
    return path[-1] in _ESSENTIAL


def _drop_empty_values(fields: dict[str, Any], notes: Notes) -> None:
    """A null instead of a default is an empty field; some languages write an empty list and an empty object alike."""
    choices = fields.get("choices", ())
    if choices is None or choices == {}:
        fields["choices"] = []
        notes.append((anomalies.CHOICES_MISSING, ""))
    elif is_list(choices) and None in choices:
        fields["choices"] = [choice for choice in choices if choice is not None]
        notes.append((anomalies.FIELD_NULL_ITEM, ""))
    for choice in objects_in(fields.get("choices")):
        if choice.get("index", 0) is None:
            del choice["index"]
        delta = choice.get("delta")
        if "delta" in choice and not delta and not is_object(delta):
            del choice["delta"]
            if delta is not None:
                notes.append((anomalies.WRONG_TYPE, f"delta: expected an object, received {type(delta).__name__}"))


def read_contents(messages: list[dict[str, Any]], kinds: tuple[type, ...], notes: Notes) -> None:
    """Contents of these kinds become their JSON text; objects that are too large to print stay, and are refused."""
    found = [message for message in messages if isinstance(message.get("content"), kinds)]
    objects = [message["content"] for message in found if is_object(message["content"])]
    if size_of(objects) > MAX_VALUES_AS_TEXT + 1:  # the list itself is one
        return
    for message in found:
        content = message["content"]
        with suppress(ValueError):
            message["content"] = _json_text(content)
            notes.append((anomalies.CONTENT_NOT_TEXT, type(content).__name__))


def _messages(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The deltas and messages of a chunk's choices."""
    parts = (choice.get(name) for choice in objects_in(fields.get("choices")) for name in ("delta", "message"))
    return [part for part in parts if is_object(part)]


def _move_contents(fields: dict[str, Any], notes: Notes) -> None:
    """A content that does not append, as a key beside the choices says, goes where it belongs.

    vLLM-Omni sends audio as the content. Inception marks a content as the whole text so far, unless it is the last.
    """
    meta = fields.get(DIFFUSION)
    has_audio, has_drafts = fields.get("modality") == AUDIO_MODALITY, is_object(meta) and meta.get(DRAFT) is True
    for choice in objects_in(fields.get("choices")):
        delta = choice.get("delta")
        if not is_object(delta) or not isinstance(delta.get("content"), str):
            continue
        if has_audio and delta["content"] and not delta.get("audio"):
            delta["audio"] = {"data": delta.pop("content")}
        elif has_drafts and not choice.get("finish_reason"):
            delta[DRAFT] = delta.pop("content")
            notes.append((anomalies.DRAFT, ""))


def _move_summary(fields: dict[str, Any]) -> None:
    """A summary beside the choices is the reasoning of the first one, if that has none of its own.

    Inception sends one for each stretch of reasoning, once it is over.
    """
    summary, choices = fields.get(SUMMARY), objects_in(fields.get("choices"))
    text = summary.get("content") if is_object(summary) else None
    delta = choices[0].get("delta") if choices else None
    if isinstance(text, str) and is_object(delta) and delta.get("reasoning") in (None, "") and not reasoning_in(delta):
        delta["reasoning"] = text


def _repair_calls(fields: dict[str, Any], notes: Notes) -> None:
    """Ids and arguments that are not text become their JSON text; empty arguments stay raw, for the fold to judge."""
    places = [place for part in _messages(fields) for place in _values_in_calls(part, notes)]
    if size_of([holder[key] for holder, key in places]) > MAX_VALUES_AS_TEXT + 1:  # the list itself is one
        raise exceeded("max_arguments_values", MAX_VALUES_AS_TEXT)
    for holder, key in places:
        if holder[key] not in ({}, []):
            holder[key] = _json_text(holder[key])
        is_id = key == "id"
        notes.append((anomalies.CALL_ID_NOT_TEXT, f"id {holder[key]}") if is_id else (anomalies.ARGUMENTS_OBJECT, ""))


def _values_in_calls(part: dict[str, Any], notes: Notes) -> Iterator[tuple[dict[str, Any], str]]:
    """List the calls of a delta or message; yield the places of ids and arguments that are not text: holder and key."""
    calls = part.get("tool_calls")
    if is_object(calls):
        part["tool_calls"] = calls = [calls] if calls else []
        notes.append((anomalies.CALLS_OBJECT, ""))
    if is_list(calls) and None in calls:
        part["tool_calls"] = calls = [call for call in calls if call is not None]
        notes.append((anomalies.FIELD_NULL_ITEM, ""))
    for call in objects_in(calls):
        if is_integer(call.get("id")):
            yield call, "id"
    for holder in (*objects_in(calls), {"function": part.get("function_call")}):
        if is_object(function := holder.get("function")) and is_container(function.get("arguments")):
            yield function, "arguments"


def _json_text(value: Any) -> str:
    """The JSON text of a value; a `ValueError` if it has a number with more digits than the interpreter prints."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise ValueError(TOO_LONG) from None


def read_spelled_numbers(value: Any, notes: Notes, path: Path) -> None:
    """Whole numbers written as a string or with a fraction of 0, where an integer is wanted."""
    integers = _INTEGERS.get(_parent(path), frozenset())
    for key in places_in(value):
        item, place = value[key], (*path, key)
        if key in integers and (number := whole_number(item)) is not None:
            value[key] = number
            detail = f"{dotted(place)}: expected an integer, received {type(item).__name__}"
            notes.append((anomalies.NUMBER_SPELLED, detail))
        elif is_container(item) and _is_structure(path, key):
            read_spelled_numbers(item, notes, place)


def whole_number(item: Any) -> int | None:
    """The integer that a string or a float stands for, None if it stands for none."""
    if isinstance(item, float):
        return int(item) if item.is_integer() and abs(item) < 2**63 else None
    text = item.strip() if isinstance(item, str) else ""  # `int` strips fewer characters
    digits = text.removeprefix("-")
    # No count has more digits; a longer text is kept as it is.
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _drop_deep_values(value: Any, notes: Notes, path: Path) -> None:
    """Drop what is nested deeper than 200 under unknown keys, so that a snapshot can always be dumped."""
    for key in reversed([*places_in(value)]):
        item = value[key]
        if not is_container(item) or (key == "arguments" and _parent(path) in ("function", "function_call")):
            continue
        if _is_structure(path, key):
            _drop_deep_values(item, notes, (*path, key))
        elif is_too_deep(item):
            del value[key]
            notes.append((anomalies.TOO_DEEP, dotted((*path, key))))


def _is_structure(path: Path, key: str | int) -> bool:
    """Whether a key leads on to a container that the models know."""
    if isinstance(key, int):
        return path[-1] in _LISTS
    return key in _STRUCTURE.get(_parent(path), ())


def _parent(path: Path) -> str:
    """The last key of an object on the path, "" at the top."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def is_too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than 200; level by level, so that no depth is too deep to look at."""
    level = [value] if is_container(value) else []
    for _ in range(_MAX_UNKNOWN_DEPTH):
        level = [item for part in level for item in values_in(part) if isinstance(item, (dict, list))]
        if not level:
            return False
    return True
