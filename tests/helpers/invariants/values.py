"""What may be shown and asked of errors, anomalies and messages."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

from chunkfold import (
    RULES,
    Anomaly,
    APIError,
    AudioPart,
    ChatCompletion,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChunkfoldError,
    CompletionUsage,
    ImagePart,
    ParseError,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCallPart,
    is_retryable,
)
from chunkfold.models.base import validate_leniently
from invariants.holding import hold, plain, same

LONGEST_MESSAGE = 2000  # characters


def check_anomalies(anomalies: tuple[Anomaly, ...], size: int) -> None:
    """Each rule once, with a count and a place; what is quoted is fit to print."""
    rules = [anomaly.rule.id for anomaly in anomalies]
    hold("each rule is there once", len(set(rules)) == len(rules), rules)
    hold("each is in the catalogue", {rule.id for rule in RULES}.issuperset(rules), rules)
    for anomaly in anomalies:
        hold("an anomaly has a count and a place", anomaly.count >= 1 and 0 <= anomaly.offset <= size, anomaly)
        check_text(anomaly.first)


def check_error(error: ChunkfoldError) -> None:
    """An error can be shown, and tells whether to try again."""
    check_text(str(error))
    hold(
        "an error says whether to try again", is_retryable(error) in (True, False) and error.retryable in (True, False)
    )
    hold("output makes it no more likely", error.retryable <= is_retryable(error, after_output=True))
    if isinstance(error, APIError):
        seen = error.message, error.code, error.type, error.param, error.request_id, error.retry_after, error.raw
        "".join(map(str, seen)).encode("utf-8", "surrogatepass")
        hold("the outer 200 is no error's status", error.status_code is None or 400 <= error.status_code <= 599)
        error.error.model_dump_json()


def check_text(text: str) -> None:
    """A text for people is bounded, and does nothing to their terminals."""
    hold("a message is short", len(text) <= LONGEST_MESSAGE, len(text))
    hold("a message can be printed", text.isprintable(), text)


def check_completion(completion: ChatCompletion) -> None:
    """Whatever arrived can be dumped, looked at and sent back."""
    dump = completion.model_dump_json()
    hold("a snapshot is an object in JSON", isinstance(json.loads(dump), dict))
    hold("its views are texts", isinstance(completion.text, str) and isinstance(completion.reasoning, str))
    indexes = [choice.index for choice in completion.choices]
    same("choices are in order, each once", indexes, sorted(set(indexes)))
    if isinstance(completion.usage, CompletionUsage):
        for count in (completion.usage.cached_tokens, completion.usage.reasoning_tokens):
            hold("a count is a number", count is None or isinstance(count, int), count)
    for choice in completion.choices:
        same("an outcome is there with its finish reason", choice.outcome is None, choice.finish_reason is None)
        message = choice.message
        json.dumps(message.to_param(reasoning_content=True)).encode()
        check_parts(message)
        check_parts(validate_leniently(ChatCompletionMessage, message.model_dump())[0])
        _try(message.parse)
        _try(message.parse_partial)
        for call in message.tool_calls:
            hold("a call's views are texts", isinstance(call.name + call.arguments, str))
            if isinstance(call, ChatCompletionMessageFunctionToolCall):
                _try(call.function.parse)
                _try(call.function.parse_partial)


def check_parts(message: ChatCompletionMessage) -> None:
    """The parts of a message are the message, in another order."""
    fields = vars(message)
    parts: defaultdict[type, list[Any]] = defaultdict(list)
    for part in message.parts:
        parts[type(part)].append(part)
    for kind, name in ((TextPart, "content"), (ReasoningPart, "reasoning"), (RefusalPart, "refusal")):
        hold("a part is not empty", all(part.text for part in parts[kind]), parts[kind])
        same(f"the parts have the {name}", "".join(part.text for part in parts[kind]), fields.get(name) or "")
    same("the parts have the calls", [part.tool_call for part in parts[ToolCallPart]], fields.get("tool_calls") or [])
    same(
        "the parts have the images", plain([part.image for part in parts[ImagePart]]), plain(fields.get("images") or [])
    )
    same("the parts have the audio", len(parts[AudioPart]), fields.get("audio") is not None)
    for one, other in pairwise(message.parts):
        hold("neighbors of one kind are one part", type(one) is not type(other) or type(one) not in _TEXTS, one, other)


_TEXTS = (TextPart, ReasoningPart, RefusalPart)


def _try(parse: Any) -> None:
    try:
        parse()
    except ParseError as error:
        check_error(error)
