"""The JSON that providers send as the data of events, and the places in it where something else may stand."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from chunkfold import RULES
from chunkfold.testing import event, hostile_streams

# Fields that neither the examples of the rules nor the hostile set have.
RARE = {
    "choices": [
        {
            "delta": {
                "function_call": {"name": "f", "arguments": "{}"},
                "tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "g", "input": "x"}}],
                "audio": {"id": "b", "data": "AAAA", "transcript": "a", "expires_at": 1},
                "images": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                "annotations": [{"type": "url_citation", "url_citation": {"title": "t", "url": "u", "start_index": 0}}],
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "id": "r", "text": "hm", "summary": "h"}],
                "unknown": 1,
            },
            "logprobs": {"content": [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": [{"token": "a"}]}]},
            "unknown": 1,
        },
        {"index": 1, "message": {"reasoning_content": "hm", "audio": {"data": "AAAA"}, "function_call": {"name": "f"}}},
    ],
    "usage": {"prompt_tokens_details": {"cached_tokens": 1}, "unknown": 1},
    "service_tier": "default",
    "system_fingerprint": "fp",
    "unknown": 1,
}


@cache
def sent_events() -> list[Any]:
    """Each once, unless it is large: of the examples of the rules, of the hostile set, and `RARE`."""
    bodies = [event(RARE), *(rule.example for rule in RULES), *(stream.body for stream in hostile_streams())]
    shapes = {json.dumps(value, sort_keys=True): value for body in bodies for value in objects_in(body)}
    return [value for shape, value in shapes.items() if len(shape) <= 2_000]


def objects_in(body: bytes) -> Iterator[Any]:
    """The JSON objects that a body is made of."""
    for line in (body if len(body) < 4_000 else b"").splitlines():
        for prefix in (b"data: ", b"data:", b"error: ", b""):
            try:
                value = json.loads(line.removeprefix(prefix))
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value
                break


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value, and a key or a place in it."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        yield value, key
        yield from places_in(inner)
