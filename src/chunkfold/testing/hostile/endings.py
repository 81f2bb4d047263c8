"""Streams that stop too early, or nearly, and bodies that are not streams of chat completion chunks."""

import json
from typing import Any, Final

from chunkfold.testing.hostile.values import HI, STOP, HostileStream, answer
from chunkfold.testing.readings import Call
from chunkfold.testing.wire import DONE, HEAD, chunk, delta, event, fragment, fragments, usage


def _cut(
    name: str, sentence: str, senders: str, body: bytes, *, text: str = "Hi", calls: tuple[Call, ...] = ()
) -> HostileStream:
    """A stream that ended too early."""
    return HostileStream(name, sentence, senders, body, "cut", texts=(text,), calls=calls)


def _invalid(name: str, sentence: str, senders: str, body: bytes, *, text: str = "") -> HostileStream:
    """The body is not a stream of chat completion chunks."""
    return HostileStream(name, sentence, senders, body, "invalid", texts=(text,))


def _typed(*payloads: dict[str, Any]) -> bytes:
    """Events that have their type as their name."""
    return b"".join(event(payload, payload["type"]) for payload in payloads)


_TRAILER: Final = chunk(usage=usage(10, 5))
_WHOLE: Final[dict[str, Any]] = {
    **HEAD,
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": usage(10, 5),
}
_HTML: Final = b"<!DOCTYPE html>\n<html>\n<head><title>Just a moment...</title></head>\n<body></body>\n</html>\n"
_OLLAMA: Final = b"""{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
"""
_ANTHROPIC: Final = _typed(
    {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "model": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)
_RESPONSES: Final = _typed(
    {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hi",
    },
    {"type": "response.completed", "response": {"id": "resp_1", "object": "response", "status": "completed"}},
)
_GEMINI: Final = event({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}) + event(
    {"candidates": [{"content": {"parts": [{"text": ""}]}}], "usageMetadata": {"totalTokenCount": 15}}
)
_DASHSCOPE: Final = b"".join(
    event({"output": {"text": "Hi", "finish_reason": word}, "usage": {"total_tokens": 15}}, "result")
    for word in ("null", "stop")
)
_WORKERS_AI: Final = event({"response": "Hi"}) + event({"response": "", "usage": usage(10, 5)}) + DONE
_UI_MESSAGES: Final = (
    event({"type": "start"})
    + event({"type": "text-delta", "id": "0", "delta": "Hi"})
    + event({"type": "finish"})
    + DONE
)
_COMPLETIONS: Final = (
    event({**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "Hi", "finish_reason": None}]})
    + event({**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    + DONE
)

ENDINGS: Final[tuple[HostileStream, ...]] = (
    answer("cut-in-done", "the body ends inside [DONE]", "anyone", HI + STOP + b"data: [DO"),
    answer(
        "cut-in-usage", "the body ends inside the usage after the finish reason", "anyone", HI + STOP + _TRAILER[:-30]
    ),
    answer(
        "finish-unterminated",
        "the body ends with the finish reason's line, without a blank one",
        "gateways that close right after it",
        HI + STOP.rstrip(),
    ),
    _cut("cut-between-events", "the body ends cleanly in the middle of the answer", "anyone", HI),
    _cut("cut-in-event", "the body ends inside an event", "anyone", HI + delta(content=" you")[:-20]),
    _cut("cut-in-character", "the body ends inside a character", "anyone", HI + delta(content="号")[:-30]),
    _cut("cut-in-finish", "the body ends inside the finish reason", "anyone", HI + STOP[:-8]),
    _cut(
        "cut-in-call",
        "the body ends inside a tool call's arguments",
        "anyone",
        fragments(fragment(0, "call_a", "weather", '{"city":')),
        text="",
        calls=(Call("weather", '{"city":', "call_a"),),
    ),
    _cut(
        "cut-after-call",
        "the body ends when a tool call's arguments look whole",
        "anyone",
        fragments(fragment(0, "call_a", "weather", '{"city":"Paris"}')),
        text="",
        calls=(Call("weather", '{"city":"Paris"}', "call_a"),),
    ),
    _cut("done-alone", "[DONE] is all that comes", "vLLM when it fails early", DONE, text=""),
    _cut(
        "role-and-done",
        "a role and [DONE], nothing else",
        "vLLM when it fails early",
        delta(role="assistant", content="") + DONE,
        text="",
    ),
    _cut(
        "unexplained-object",
        "an object that is neither a chunk nor an error, then [DONE] without a finish reason",
        "relays whose worker failed",
        HI + event({"status": "worker restarting"}) + DONE,
    ),
    _cut(
        "finish-null-as-word",
        "each finish reason is the word null, and the body ends in the middle",
        "iFlytek, relays in front of DashScope",
        delta("null", content="H") + delta("null", content="i"),
    ),
    _cut("nothing", "an empty body", "gateways", b"", text=""),
    _cut("keep-alives-alone", "comments are all that comes", "OpenRouter, gateways", b": ping\n\n: ping\n\n", text=""),
    answer(
        "whole-body",
        "the body is one JSON completion, over several lines",
        "upstreams that ignore `stream`, mocks",
        json.dumps(_WHOLE, indent=2).encode(),
        usage=usage(10, 5),
    ),
    answer(
        "whole-body-after-blank-lines",
        "blank lines, then one JSON completion",
        "DeepSeek under load",
        b"\n\n\n" + json.dumps(_WHOLE).encode(),
        usage=usage(10, 5),
    ),
    answer(
        "whole-body-and-done",
        "one JSON completion, then [DONE] as an event",
        "relays that lose `stream`",
        json.dumps(_WHOLE).encode() + b"\n\n" + DONE,
        usage=usage(10, 5),
    ),
    answer(
        "whole-in-event", "one event with a whole completion", "mocks, caches", event(_WHOLE) + DONE, usage=usage(10, 5)
    ),
    _invalid("whole-body-cut", "half of a JSON completion", "anyone", json.dumps(_WHOLE).encode()[:-60]),
    _invalid("html", "a page of HTML", "firewalls, a wrong base URL", _HTML),
    _invalid(
        "plain-text",
        "a line of plain text",
        "Envoy, nginx",
        b"upstream connect error or disconnect/reset before headers",
    ),
    _invalid(
        "text-event",
        "an event that is plain text",
        "throttling proxies",
        HI + b"data: Internal Server Error\n\n",
        text="Hi",
    ),
    _invalid(
        "word-as-keep-alive",
        "a word in data that keeps the connection alive",
        "home-made relays",
        HI + b"data: [HEARTBEAT]\n\n" + STOP + DONE,
        text="Hi",
    ),
    _invalid(
        "line-in-another",
        "a data line inside of another",
        "LM Studio, Z.AI",
        HI + delta(content="!").replace(b'"model"', b'"mo' + STOP.rstrip() + b'\n\n"model"') + DONE,
        text="Hi",
    ),
    _invalid("number-event", "an event that is a number", "broken relays", HI + b"data: 500\n\n", text="Hi"),
    _invalid("json-lines", "JSON lines of another API", "Ollama's own API", _OLLAMA),
    _invalid("messages-api", "the events of the Messages API", "Anthropic, a wrong URL", _ANTHROPIC),
    _invalid("responses-api", "the events of the Responses API", "OpenAI, a wrong URL", _RESPONSES),
    _invalid("generate-content", "the events of generateContent", "Gemini, a wrong URL", _GEMINI),
    _invalid("dashscope-api", "the events of DashScope's own API", "DashScope, a wrong URL", _DASHSCOPE),
    _invalid("workers-ai-api", "the events of Workers AI's own API", "Cloudflare, a wrong URL", _WORKERS_AI),
    _invalid("ui-messages", "the events of a UI message stream", "the Vercel AI SDK, a wrong URL", _UI_MESSAGES),
    _invalid("completions-api", "the chunks of the legacy Completions API", "any server, a wrong URL", _COMPLETIONS),
)
