"""Streams whose events are framed in ways that the standard allows, or nearly: lines, comments, fields, `[DONE]`."""

from typing import Final

from chunkfold.testing.hostile.values import HI, STOP, HostileStream, answer
from chunkfold.testing.wire import DONE, HEAD, choice, delta, event

_END: Final = STOP + DONE
_DONE_IN_TEXT: Final = 'Ends with "data: [DONE]"\n\ndata: [DONE]\n\n'
_SEPARATORS: Final = "a\u2028b\u2029c\x85d\x0be\x0cf"
_PRETTY: Final = b"""data: {"id": "chatcmpl-1", "object": "chat.completion.chunk",
data:  "created": 1760000000, "model": "m", "choices": [
data:   {"index": 0, "delta": {"content": "Hi"}, "finish_reason": null}
data: ]}

"""

FRAMING: Final[tuple[HostileStream, ...]] = (
    answer(
        "comments",
        "comments keep the connection alive, before, between and inside events",
        "OpenRouter, DeepSeek, llama.cpp, gateways",
        b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + HI + b": ping\n" + STOP + b":\n\n" + DONE,
    ),
    answer(
        "blocks-without-data",
        "blocks that have an id or a retry time but no data",
        "gateways that resume streams",
        b"retry: 3000\n\nid: 1\n\n" + HI + b"id: 2\n\n: ping\n\n" + _END,
    ),
    answer(
        "id-and-name-on-each-event",
        "each event has an id and the name `message`",
        "Spring gateways, relays",
        HI.replace(b"data: ", b"id: 7\nevent: message\ndata: ") + STOP + DONE,
    ),
    answer(
        "named-as-chunk",
        "each event has the name `chat.completion.chunk`",
        "bridges from other APIs",
        (HI + STOP).replace(b"data: ", b"event: chat.completion.chunk\ndata: ") + DONE,
    ),
    answer(
        "ping-events",
        "events named `ping` between chunks",
        "bridges to Claude",
        HI + event({"type": "ping"}, "ping") + _END,
    ),
    answer(
        "unknown-fields",
        "lines with fields that the standard does not know",
        "gateways that add a trace",
        HI.replace(b"data: ", b"trace: 1\ndata: ") + _END,
    ),
    answer("bom", "a byte order mark at the start", "proxies on Windows", b"\xef\xbb\xbf" + HI + _END),
    answer("crlf", "lines end with CRLF", "ASP.NET and Java servers", (HI + _END).replace(b"\n", b"\r\n")),
    answer("cr", "lines end with CR alone", "proxies; the standard allows it", (HI + _END).replace(b"\n", b"\r")),
    answer(
        "mixed-line-ends",
        "CRLF, LF and CR in one stream",
        "proxies that write lines of their own",
        HI.replace(b"\n", b"\r\n") + b": ping\r\r" + _END,
    ),
    answer(
        "no-space",
        "no space after the colon",
        "Kimi, Spring gateways",
        (HI + _END).replace(b"data: ", b"data:"),
    ),
    answer("data-over-lines", "one chunk over several data lines", "servers that print JSON nicely", _PRETTY + _END),
    answer(
        "doubled-prefix",
        "`data: data: `, also before [DONE]",
        "servers that frame framed strings",
        (HI + _END).replace(b"data: ", b"data: data: "),
    ),
    answer(
        "separators-in-text",
        "characters in the text that some languages take for line ends: U+2028, U+2029, U+0085, VT, FF",
        "any model",
        delta(content=_SEPARATORS) + _END,
        _SEPARATORS,
    ),
    answer(
        "done-in-text",
        "the text quotes data: [DONE]",
        "any model that explains streaming",
        delta(content=_DONE_IN_TEXT) + _END,
        _DONE_IN_TEXT,
    ),
    answer(
        "text-after-done",
        "a comment, an event and half an event after [DONE]",
        "relays that join two upstreams",
        HI + _END + b": ping\n\n" + HI + b'data: {"choices":[{"del',
    ),
    answer(
        "large-event",
        "one event of 300 KB",
        "providers that hold reasoning back; inlined images",
        delta(content="x" * 300_000) + _END,
        "x" * 300_000,
    ),
    answer(
        "chunks-without-field",
        "chunks as bare JSON, without `data:`",
        "a plugin of Higress",
        delta(role="assistant", content="H") + delta(content="i").removeprefix(b"data: ") + _END,
    ),
    answer(
        "role-and-finish-in-one",
        "the whole answer is one chunk",
        "mocks, caches, guardrails that hold the text back",
        event({**HEAD, "choices": [choice("stop", role="assistant", content="Hi")]}) + DONE,
    ),
    answer(
        "nul-in-text",
        "an escaped NUL in the text",
        "models that print binary data",
        delta(content="a\0b") + _END,
        "a\0b",
    ),
)
