"""Messages as they go back to a provider."""

from typing import Any

from chunkfold import ChatCompletion, ChatCompletionStream
from chunkfold.testing import DONE, delta, fragment

SIGNATURE = {"google": {"thought_signature": "c2lnbmVk"}}
TEXT = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}


def completion_of(*deltas: dict[str, Any], finish_reason: str = "stop") -> ChatCompletion:
    return ChatCompletionStream([*(delta(**fields) for fields in deltas), delta(finish_reason), DONE]).read()


def param_of(*deltas: dict[str, Any], **options: Any) -> dict[str, Any]:
    return completion_of(*deltas).message.to_param(**options)


def part(arguments: Any, index: int = 0, id_: str | None = "call_a", name: str | None = "f", **fields: Any) -> Any:
    return {**fragment(index, id_, name, arguments), **fields}


RICH = [
    {"role": "assistant", "content": "Hi", "extra_content": SIGNATURE},
    {"reasoning_details": [{**TEXT, "text": "hm", "signature": "c2ln"}]},
    {"tool_calls": [part('{"a":1}', extra_content=SIGNATURE)]},
    {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]},
]
PARALLEL = [
    {"role": "assistant", "content": None, "reasoning_content": "hm"},
    {"reasoning_details": [{**TEXT, "text": "hm"}]},
    {"tool_calls": [part('{"city":', extra_content=SIGNATURE), part("", 1, "call_b", "now")]},
    {"tool_calls": [part('"Bern"}', name=None, id_=None)]},
    {"reasoning_details": [{**TEXT, "signature": "c2ln"}]},
]
