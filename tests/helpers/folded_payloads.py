"""Payloads as OpenAI sends them, and what comes of them through the parser."""

from typing import Any

from invariants import check

from chunkfold import ChatCompletion, ChatCompletionChunk, ChatCompletionParser
from chunkfold.testing import HEAD, sse

THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}
REASONING_PART = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "T"}]}
THOUGHT = {"google": {"thought": True}}


def chunk(
    delta: Any = ..., *, finish_reason: Any = None, index: Any = 0, choice: dict[str, Any] | None = None, **top: Any
) -> dict[str, Any]:
    """A chunk as OpenAI sends it, with one choice; `...` leaves a key out."""
    keys = {"index": index, "delta": delta, "finish_reason": finish_reason, **(choice or {})}
    one = {key: value for key, value in keys.items() if value is not ...}
    return {key: value for key, value in {**HEAD, "choices": [one], **top}.items() if value is not ...}


def said(*deltas: Any, finish_reason: Any = "stop") -> list[dict[str, Any]]:
    """A chunk for each delta, and the finish reason beside the last."""
    *first, last = deltas
    return [*(chunk(delta) for delta in first), chunk(last, finish_reason=finish_reason)]


def fold(*payloads: dict[str, Any]) -> ChatCompletionParser:
    """A parser that read the payloads and [DONE], without an error."""
    parser = ChatCompletionParser()
    for data in sse(*payloads):
        parser.feed(data)
    parser.raise_error()
    return parser


def running(*payloads: dict[str, Any]) -> ChatCompletionParser:
    """A parser that read the payloads, and may get more."""
    parser = ChatCompletionParser()
    parser.feed(b"".join(sse(*payloads, done=False)))
    return parser


def noted(parser: ChatCompletionParser) -> set[str]:
    return {anomaly.rule.id for anomaly in parser.anomalies}


def sent_at_the_top(name: str, values: list[Any]) -> list[dict[str, Any]]:
    *first, last = values
    return [*(chunk({}, **{name: value}) for value in first), chunk({}, finish_reason="stop", **{name: last})]


def read_all(*payloads: dict[str, Any]) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    """The parser that read the payloads and [DONE], and the chunks; every other way to read them comes to the same."""
    body = b"".join(sse(*payloads))
    check(body)
    parser = ChatCompletionParser()
    return parser, [*parser.feed(body), *parser.close()]


def texts(completion: ChatCompletion) -> dict[int, str | None]:
    return {choice.index: choice.message.content for choice in completion.choices}
