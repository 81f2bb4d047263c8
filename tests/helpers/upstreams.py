"""Upstreams for gateways: servers on this machine that speak Anthropic's and Gemini's own streaming protocols.

Which answer comes is said in the question: "scenario-thinking". Without a word it is text, or two calls where tools are
offered, so that a plain client is answered too.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from chunkfold.testing import Answer, FakeProvider, ReceivedRequest, json_answer

TEXT = ("Hel", "lo, wör", "ld 😀", ".")
THOUGHT = ("Let me ", "think.")
SIGNATURE = "U0lHTkFUVVJF"
CITIES = ("Paris", "Tokyo")
PROMPT_TOKENS, COMPLETION_TOKENS = 12, 20
OVERLOADED = "the upstream is overloaded"
_PAUSE = 0.001  # seconds after each event


class Upstream(FakeProvider):
    """One that answers in the protocol that the path belongs to."""

    def answer_unscripted(self, request: ReceivedRequest) -> Answer:
        """The answer of the scenario that the question names."""
        if request.path.endswith("/messages"):
            return _answer(request, _anthropic, {"type": "overloaded_error", "message": OVERLOADED}, 529)
        if ":streamGenerateContent" in request.path:
            return _answer(request, _gemini, {"code": 503, "message": OVERLOADED, "status": "UNAVAILABLE"}, 503)
        return json_answer({"error": {"message": f"no such path: {request.path}"}}, 404)


def _answer(request: ReceivedRequest, protocol: Any, error: dict[str, Any], status: int) -> Answer:
    scenario = _scenario_of(request)
    if scenario == "refused":
        return json_answer({"type": "error", "error": error}, status)
    events = list(protocol(scenario))
    if scenario in ("cut", "slow"):
        events = events[: len(events) // 2]
    pieces = [step for event in events for step in (event, _PAUSE)]
    ending = {"cut": "cut", "slow": "open"}.get(scenario, "end")
    return Answer(pieces, ending=ending)  # type: ignore[arg-type]


def _scenario_of(request: ReceivedRequest) -> str:
    named = re.search(rb"scenario-(\w+)", request.body)
    if named:
        return named[1].decode()
    return "calls" if request.json.get("tools") and b'"tool_result"' not in request.body else "text"


# Anthropic's Messages API


def _anthropic(scenario: str) -> Iterator[bytes]:
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    yield _typed("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
    yield _typed("ping")
    place = 0
    if scenario == "thinking":
        block = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in THOUGHT]
        yield from _block(place, block, *deltas, {"type": "signature_delta", "signature": SIGNATURE})
        place += 1
    yield from _block(place, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in TEXT))
    if scenario == "failing":
        yield _typed("error", error={"type": "overloaded_error", "message": OVERLOADED})
        return
    if scenario == "calls":
        for number, city in enumerate(CITIES, place + 1):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": "get_weather", "input": {}}
            pieces = ('{"city":', f'"{city}"', "}")
            yield from _block(number, block, *({"type": "input_json_delta", "partial_json": each} for each in pieces))
    reason = "tool_use" if scenario == "calls" else "end_turn"
    used = {"output_tokens": COMPLETION_TOKENS}
    yield _typed("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=used)
    yield _typed("message_stop")


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> Iterator[bytes]:
    yield _typed("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield _typed("content_block_delta", index=index, delta=delta)
    yield _typed("content_block_stop", index=index)


def _typed(type: str, **fields: Any) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields}, ensure_ascii=False)}\n\n".encode()


# Gemini's streamGenerateContent


def _gemini(scenario: str) -> Iterator[bytes]:
    if scenario == "thinking":
        yield from (_candidate({"text": piece, "thought": True}) for piece in THOUGHT)
    *first, last = TEXT
    yield from (_candidate({"text": piece}) for piece in first)
    if scenario == "failing":
        yield _untyped(error={"code": 503, "message": OVERLOADED, "status": "UNAVAILABLE"})
        return
    signed = {"thoughtSignature": SIGNATURE} if scenario == "thinking" else {}
    yield _candidate({"text": last, **signed})
    if scenario == "calls":
        yield from (_candidate({"functionCall": {"name": "get_weather", "args": {"city": city}}}) for city in CITIES)
    yield _candidate({"text": ""}, finishReason="STOP")


def _candidate(part: dict[str, Any], **more: Any) -> bytes:
    counts = {"promptTokenCount": PROMPT_TOKENS, "candidatesTokenCount": COMPLETION_TOKENS}
    usage = {**counts, "totalTokenCount": PROMPT_TOKENS + COMPLETION_TOKENS}
    candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **more}
    return _untyped(candidates=[candidate], usageMetadata=usage, modelVersion="gemini", responseId="resp1")


def _untyped(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\r\n\r\n".encode()
