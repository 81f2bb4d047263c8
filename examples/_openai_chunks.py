"""Write an answer as OpenAI streams it, from the events that chunkfold reads of any provider."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from chunkfold import (
    ChatCompletion,
    ChatCompletionEvent,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    encode_event,
)

FINISH_REASONS = ("stop", "length", "content_filter")  # besides `tool_calls`
TEXT = {"function": "arguments", "custom": "input"}  # the field of a call that grows, by the call's type


class Writer:
    """Translates the events of one answer. Finish reasons and usage come last, from the completion."""

    def __init__(self, model: str) -> None:
        head = {"id": f"chatcmpl-{uuid4()}", "object": "chat.completion.chunk", "created": int(time.time())}
        self._head = {**head, "model": model}
        self._choices: set[int] = set()  # those that have their role
        self._calls: dict[tuple[int, int], tuple[int, str]] = {}  # choice and position -> the index sent, the type

    def chunks_of(self, event: ChatCompletionEvent) -> Iterator[bytes]:
        """The chunks of an event. A call without an id has to wait: one may come later, or be made up at the end."""
        match event:
            case TextDelta(choice=choice, delta=text):
                yield self._delta(choice, content=text)
            case ReasoningDelta(choice=choice, delta=text):
                yield self._delta(choice, reasoning_content=text)
            case RefusalDelta(choice=choice, delta=text):
                yield self._delta(choice, refusal=text)
            case ToolCallStarted(choice=choice, position=position, id=str(call_id)) if not event.is_server_side:
                yield self._begun(choice, position, call_id, event.type, event.name)
            case ToolCallArgumentsDelta(choice=choice, position=position, delta=text):
                if (choice, position) in self._calls:
                    yield self._more(choice, position, text)
            case ToolCallDone(choice=choice, position=position, call=call) if not call.is_server_side:
                if (choice, position) not in self._calls:
                    yield self._begun(choice, position, call.id, call.type, call.name)
                    yield self._more(choice, position, call.arguments)
            case _:
                pass

    def end_of(self, completion: ChatCompletion, *, wants_usage: bool) -> Iterator[bytes]:
        """The last chunks, and `[DONE]`. A finish reason that OpenAI does not have, or that is missing, is `stop`."""
        called = {choice for choice, _ in self._calls}  # `tool_calls` without any would leave the client nothing to do
        for choice in completion.choices:
            reason = choice.outcome or "tool_calls"
            is_known = choice.index in called if reason == "tool_calls" else reason in FINISH_REASONS
            yield self._delta(choice.index, reason if is_known else "stop")
        if wants_usage and (usage := completion.usage):
            counts = {"prompt_tokens": usage.prompt_tokens or 0, "completion_tokens": usage.completion_tokens or 0}
            yield self._chunk(usage={**counts, "total_tokens": usage.total_tokens or sum(counts.values())})
        yield encode_event("[DONE]")

    def _begun(self, choice: int, position: int, call_id: str | None, kind: str | None, name: str | None) -> bytes:
        index = sum(known == choice for known, _ in self._calls)  # without gaps, although some calls are left out
        kind = kind if kind in TEXT else "function"
        self._calls[choice, position] = index, kind
        started = {"id": call_id, "type": kind, kind: {"name": name, TEXT[kind]: ""}}
        return self._delta(choice, tool_calls=[{"index": index, **started}])

    def _more(self, choice: int, position: int, text: str) -> bytes:
        index, kind = self._calls[choice, position]
        return self._delta(choice, tool_calls=[{"index": index, kind: {TEXT[kind]: text}}])

    def _delta(self, choice: int, finish_reason: str | None = None, **delta: Any) -> bytes:
        if choice not in self._choices:  # sent again, it would become `assistantassistant` in some clients
            self._choices.add(choice)
            delta = {"role": "assistant", **delta}
        return self._chunk({"index": choice, "delta": delta, "finish_reason": finish_reason})

    def _chunk(self, *choices: dict[str, Any], **fields: Any) -> bytes:
        return encode_event(json.dumps({**self._head, "choices": choices, **fields}))
