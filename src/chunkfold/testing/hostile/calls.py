"""Streams with tool calls: which call a fragment belongs to, and what its name, id and arguments are."""

from typing import Any, Final

from chunkfold.testing.hostile.values import CALLED, HI, STOP, HostileStream
from chunkfold.testing.readings import Call
from chunkfold.testing.wire import DONE, chunk, delta, fragment, fragments

_PARIS: Final = Call("weather", '{"city":"Paris"}', "call_a")
_ROME: Final = Call("weather", '{"city":"Rome"}', "call_b")
_OSLO: Final = Call("weather", '{"city":"Oslo"}', "call_c")
_TIME: Final = Call("time", '{"zone":"CET"}', "call_b")


def _calling(
    name: str,
    sentence: str,
    senders: str,
    body: bytes,
    *calls: Call,
    text: str = "",
    finish_reason: str = "tool_calls",
) -> HostileStream:
    """A whole answer that calls tools."""
    return HostileStream(name, sentence, senders, body, texts=(text,), calls=calls, finish_reason=finish_reason)


def _whole(name: str, sentence: str, senders: str, body: bytes, *calls: Call, text: str = "") -> HostileStream:
    """Calls whose body ends as it should."""
    return _calling(name, sentence, senders, body + CALLED + DONE, *calls, text=text)


def _sent(index: int | None, call: Call) -> dict[str, Any]:
    """A whole call in one fragment."""
    return fragment(index, call.id, call.name, call.arguments)


CALLS: Final[tuple[HostileStream, ...]] = (
    _whole(
        "calls-without-index",
        "two whole calls, each with an id, none with an index",
        "Gemini",
        fragments(_sent(None, _PARIS), _sent(None, _TIME)),
        _PARIS,
        _TIME,
    ),
    _whole(
        "calls-without-index-in-one-delta",
        "two calls in one delta, none with an index",
        "NagaAI, old Ollama",
        delta(tool_calls=[_sent(None, _PARIS), _sent(None, _TIME)]),
        _PARIS,
        _TIME,
    ),
    _whole(
        "pieces-without-index",
        "a call in pieces without an index, only the first with an id",
        "relays",
        fragments(
            fragment(None, "call_a", "weather", ""),
            fragment(None, arguments='{"city":'),
            fragment(None, arguments='"Paris"}'),
        ),
        _PARIS,
    ),
    _whole(
        "pieces-by-id",
        "two calls in pieces, interleaved, distinguished by id alone",
        "StepFun",
        fragments(
            fragment(None, "call_a", "weather", '{"city":'),
            fragment(None, "call_b", "weather", '{"city":'),
            fragment(None, "call_a", arguments='"Paris"}'),
            fragment(None, "call_b", arguments='"Rome"}'),
        ),
        _PARIS,
        _ROME,
    ),
    _whole(
        "one-tool-thrice",
        "three calls of one tool, interleaved",
        "models that call in parallel",
        fragments(
            fragment(0, "call_a", "weather", ""),
            fragment(1, "call_b", "weather", ""),
            fragment(2, "call_c", "weather", ""),
            fragment(1, arguments='{"city":'),
            fragment(0, arguments='{"city":'),
            fragment(2, arguments='{"city":'),
            fragment(2, arguments='"Oslo"}'),
            fragment(0, arguments='"Paris"}'),
            fragment(1, arguments='"Rome"}'),
        ),
        _PARIS,
        _ROME,
        _OSLO,
    ),
    _whole(
        "id-and-name-on-each",
        "the id, the type and the name in every fragment",
        "MiniMax, NVIDIA NIM, bridges to Claude",
        fragments(
            fragment(0, "call_a", "weather", ""),
            fragment(0, "call_a", "weather", '{"city":'),
            fragment(0, "call_a", "weather", '"Paris"}'),
        ),
        _PARIS,
    ),
    _whole(
        "empty-id-and-name",
        "an empty id and an empty name on what continues a call",
        "DashScope, Oracle",
        fragments(
            fragment(0, "call_a", "weather", ""),
            fragment(0, "", "", '{"city":'),
            fragment(0, "", "", '"Paris"}'),
        ),
        _PARIS,
    ),
    _whole(
        "null-id-and-name",
        "null for id, type and name on what continues a call",
        "vLLM, SGLang",
        fragments(fragment(0, "call_a", "weather", ""))
        + b"".join(
            delta(tool_calls=[{"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": text}}])
            for text in ('{"city":', '"Paris"}')
        ),
        _PARIS,
    ),
    _whole(
        "late-id",
        "the id comes with the second fragment",
        "proxies",
        fragments(fragment(0, None, "weather", ""), fragment(0, "call_a", arguments='{"city":"Paris"}')),
        _PARIS,
    ),
    _whole(
        "sparse-indexes",
        "the calls' indexes are 1 and 3: text parts were counted too",
        "bridges to Claude",
        HI
        + fragments(
            fragment(1, "call_a", "weather", '{"city":'),
            fragment(1, arguments='"Paris"}'),
            _sent(3, _TIME),
        ),
        _PARIS,
        _TIME,
        text="Hi",
    ),
    _whole(
        "one-call-twice-in-a-delta",
        "two fragments of one call in one delta",
        "vLLM with speculative decoding",
        delta(tool_calls=[fragment(0, "call_a", "weather", '{"city":'), fragment(0, arguments='"Paris"}')]),
        _PARIS,
    ),
    _whole(
        "arguments-first",
        "arguments come before the name",
        "some servers",
        fragments(fragment(0, "call_a", arguments='{"city":'), fragment(0, None, "weather", '"Paris"}')),
        _PARIS,
    ),
    _whole(
        "arguments-null",
        "the arguments are null before they begin",
        "vLLM",
        delta(
            tool_calls=[
                {"index": 0, "id": "call_a", "type": "function", "function": {"name": "weather", "arguments": None}}
            ]
        )
        + fragments(fragment(0, arguments='{"city":"Paris"}')),
        _PARIS,
    ),
    _whole(
        "no-arguments",
        "a tool without parameters: its arguments are empty",
        "many",
        fragments(fragment(0, "call_a", "now", "")),
        Call("now", "", "call_a"),
    ),
    _whole(
        "surrogates-in-arguments",
        "an emoji in the arguments as two escaped halves in two fragments",
        "providers that escape what is beyond the BMP",
        fragments(fragment(0, "call_a", "say", '{"text":"'))
        + fragments(fragment(0, arguments="?")).replace(b"?", b"\\ud83d")
        + fragments(fragment(0, arguments="?")).replace(b"?", b"\\ude00")
        + fragments(fragment(0, arguments='"}')),
        Call("say", '{"text":"😀"}', "call_a"),
    ),
    _whole(
        "signature-late",
        "a signature for a call in a fragment that has no function",
        "Gemini",
        fragments(_sent(0, _PARIS))
        + delta(tool_calls=[{"index": 0, "id": "call_a", "extra_content": {"google": {"thought_signature": "c2ln"}}}]),
        _PARIS,
    ),
    _calling(
        "calls-null-beside-text",
        "`tool_calls` is null, then an empty list, beside text",
        "vLLM, gateways",
        delta(role="assistant", content="H", tool_calls=None) + delta(content="i", tool_calls=[]) + STOP + DONE,
        text="Hi",
        finish_reason="stop",
    ),
    _calling(
        "call-cut-by-length",
        "the token limit cut the arguments",
        "everyone",
        fragments(fragment(0, "call_a", "weather", '{"city":'), fragment(0, arguments='"Par')) + delta("length") + DONE,
        Call("weather", '{"city":"Par', "call_a"),
        finish_reason="length",
    ),
    _calling(
        "calls-in-message",
        "the calls are in a whole message, without a delta or an index",
        "upstreams that do not really stream",
        chunk(
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [_sent(None, _PARIS)],
                },
                "finish_reason": "tool_calls",
            }
        )
        + DONE,
        _PARIS,
    ),
    _whole(
        "text-between-calls",
        "text between the fragments of a call",
        "GLM, Qwen",
        fragments(fragment(0, "call_a", "weather", '{"city":')) + HI + fragments(fragment(0, arguments='"Paris"}')),
        _PARIS,
        text="Hi",
    ),
    _whole(
        "name-that-extends-another",
        "two calls at one index without ids; the second one's name begins with the first one's",
        "Ollama-like servers, with tools such as `search` and `search_web`",
        fragments(fragment(0, None, "search", '{"q":1}'), fragment(0, None, "search_web", '{"q":2}')),
        Call("search", '{"q":1}'),
        Call("search_web", '{"q":2}'),
    ),
    _whole(
        "equal-calls-without-index-and-id",
        "two calls of one tool with equal arguments, without index and id",
        "old Ollama, relays",
        fragments(fragment(None, None, "roll", '{"sides":6}'), fragment(None, None, "roll", '{"sides":6}')),
        Call("roll", '{"sides":6}'),
        Call("roll", '{"sides":6}'),
    ),
    _whole(
        "calls-as-object-in-pieces",
        "`tool_calls` is one object, and what continues it has neither index nor id",
        "Portkey in front of Cohere",
        delta(tool_calls=fragment(None, "call_a", "weather", ""))
        + delta(tool_calls={"function": {"arguments": '{"city":'}})
        + delta(tool_calls={"function": {"arguments": '"Paris"}'}}),
        _PARIS,
    ),
    _calling(
        "call-of-the-server",
        "a call that the server ran itself, then the answer; the finish reason is stop",
        "LiteLLM in front of Anthropic",
        fragments(
            fragment(0, "srvtoolu_1", "web_search", ""),
            fragment(0, arguments='{"query":"x"}'),
        )
        + HI
        + STOP
        + DONE,
        Call("web_search", '{"query":"x"}', "srvtoolu_1"),
        text="Hi",
        finish_reason="stop",
    ),
    _whole(
        "calls-without-head",
        "chunks with calls that have neither id nor model nor object",
        "NagaAI, bare gateways",
        b"".join(
            fragments(fragment).replace(
                b'"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m",', b""
            )
            for fragment in (fragment(0, "call_a", "weather", '{"city":'), fragment(0, arguments='"Paris"}'))
        ),
        _PARIS,
    ),
    _whole(
        "call-at-its-place",
        "each call begins at the index 0, and continues without id and name at its place",
        "a relay in front of DeepSeek",
        fragments(
            fragment(0, "call_a", "weather", ""),
            fragment(0, arguments='{"city":"Paris"}'),
            fragment(0, "call_b", "weather", ""),
            fragment(1, arguments='{"city":'),
            fragment(1, arguments='"Rome"}'),
        ),
        _PARIS,
        _ROME,
    ),
)
