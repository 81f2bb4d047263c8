"""Nothing is made up, and the chunks add up to the message."""

import math
from collections.abc import Iterator
from typing import Any

from chunkfold import ChatCompletion, ChatCompletionChunk, StreamEnd
from invariants.holding import hold, plain, same
from invariants.readings import Reading, has_output


def check_messages(reading: Reading, body: bytes) -> None:
    """Nothing is made up, and the chunks add up to the message."""
    snapshot, chunks = reading.parser.snapshot, reading.chunks
    if not reading.options.is_left:
        same("output is output in a chunk", has_output(reading.parser), any(map(brings_output, chunks)))
        for index, message in ((choice.index, vars(choice.message)) for choice in snapshot.choices):
            if index == 0:
                text = "".join(chunk.text for chunk in chunks)
                same("the chunks' texts are the message's", text, message.get("content") or "")
                reasoning = "".join(chunk.reasoning for chunk in chunks)
                whole = message.get("reasoning") or ""
                # A signed text counts as a repeat where a chunk is looked at alone.
                is_signed = b"signature" in body and len(reasoning) < len(whole)
                hold("so is their reasoning", reasoning == whole or is_signed, reasoning, whole)
    for chunk in chunks:
        chunk.model_dump_json()
    rules = {anomaly.rule.id for anomaly in reading.parser.anomalies}
    sent = {(choice.index, choice.finish_reason) for chunk in chunks for choice in chunk.choices}
    for choice in snapshot.choices:
        came = choice.finish_reason is None or (choice.index, choice.finish_reason) in sent
        hold("no finish reason is made up", came or reading.options.is_left, choice.finish_reason)
        ids = [call.id for call in choice.message.tool_calls if call.id is not None]
        hold("ids that are made up are told from others", len(set(ids)) == len(ids) or "CF306" in rules, ids)
    hold("no usage is made up", snapshot.usage is None or b"usage" in body or b"\\u" in body)
    if reading.parser.end is StreamEnd.DONE:
        hold("nor is [DONE]", b"[DONE]" in body)
    if "CF209" not in rules and _can_be_read_again(snapshot.model_dump()):
        again = ChatCompletion.model_validate_json(snapshot.model_dump_json())
        same("a dump is the message again", plain(again), plain(snapshot))


def _can_be_read_again(value: Any, depth: int = 0) -> bool:
    """Whether pydantic reads the dump of a value: its numbers are finite, and it is nested at most 200 deep."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth < 200 and all(_can_be_read_again(item, depth + 1) for item in items)
    return not isinstance(value, float) or math.isfinite(value)


def brings_output(chunk: ChatCompletionChunk) -> bool:
    """Whether a chunk has text, reasoning, a refusal, a call's name or arguments, audio or an image."""
    return any(
        any(_output_of(vars(choice.delta))) or any(_unknown_output_of(choice.delta.model_extra or {}))
        for choice in chunk.choices
        if choice.delta.role not in ("tool", "function")
    )


def _unknown_output_of(unknown: dict[str, Any]) -> Iterator[Any]:
    """The reasoning that a delta has in fields that the models do not have."""
    texts = ("reasoning_text", "cot_summary", "reasoning_content", "reasoning")
    encrypted = (
        *("reasoning_opaque", "reasoning_signature", "reasoning_content_signature"),
        *("redacted_reasoning_content", "encrypted_content"),
    )
    for value in map(unknown.get, (*texts, *encrypted)):
        text = _object(value).get("text", value)
        if isinstance(text, str):
            yield text
    names = ("thinking", "thinking_blocks", "content_blocks", "tensorzero_extra_content")
    one, *lists = map(unknown.get, names)
    for holder in (one, *(item for items in lists if isinstance(items, list) for item in items)):
        fields = {**holder, **_object(holder.get("delta"))} if isinstance(holder, dict) else {}
        yield from (fields.get(name) for name in ("thinking", "content", "text", "summary_text", "data"))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _output_of(delta: dict[str, Any]) -> Iterator[Any]:
    """What a delta has of it, given its fields without what is kept raw beside them."""
    calls = delta.get("tool_calls") or ()
    holders = [vars(call).get(name) for call in calls for name in ("function", "custom")]
    holders += [delta.get("function_call"), delta.get("audio")]
    for fields in (delta, *(vars(holder) for holder in holders if holder is not None)):
        yield from (fields.get(name) for name in _OUTPUT if isinstance(fields.get(name), str))
    yield from delta.get("images") or ()
    for detail in delta.get("reasoning_details") or ():
        if isinstance(detail, dict):
            yield from (detail.get(name) for name in ("text", "summary", "data", "encrypted"))
    for part in delta["content"] if isinstance(delta.get("content"), list) else ():
        yield from _texts_of(part)


_OUTPUT = ("content", "refusal", "reasoning", "reasoning_content", "name", "arguments", "input", "data", "transcript")


def _texts_of(part: Any) -> Iterator[str]:
    """The texts of an item of a content list: its own, or those of a part of reasoning, whose items have a `text`."""
    fields = part if isinstance(part, dict) else {"text": part}
    is_reasoning = fields.get("type") in ("thinking", "reasoning")
    names = ("thinking", "summary", "reasoning", "text") if is_reasoning else ("text",)
    if is_reasoning or fields.get("type") in ("text", "output_text", "", None):
        for value in map(fields.get, names):
            items = value if is_reasoning and isinstance(value, list) else [value]
            texts = (item.get("text") if isinstance(item, dict) else item for item in items)
            yield from (text for text in texts if isinstance(text, str))
