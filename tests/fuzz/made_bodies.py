"""Bodies whose events are chunks, made of any bytes: each byte is a choice among what providers send.

A fuzzer that changes bytes changes choices, and what it makes is nearly always JSON with something in it to fold.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

MOST_EVENTS: Final = 24
ODD_VALUES: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        0,
        -1,
        7,
        1.0,
        1.5,
        2**63,
        "",
        "a",
        "5",
        " 5 ",
        "stop",
        "error",
        "{}",
        "\ud83d",
        "\ude00",
        "\x1b[31m",
    ),
    *([], {}, [1], ["a"], {"a": 1}, [None], [{}], {"type": "text", "text": "t"}, "<deep>", "<infinite>", "<digits>"),
)
UNWRITABLE: Final = {
    b'"<deep>"': b"[" * 210 + b"]" * 210,
    b'"<infinite>"': b"-1e999",
    b'"<digits>"': b"9" * 5000,
}
TEXTS: Final = (
    "a",
    "b ",
    "",
    "号",
    "\U0001f600",
    "\ud83d",
    "\ude00",
    "<think>",
    "</think>",
    "<thi",
    "nk>x",
    "\n",
    "ab",
    '{"x":',
    "1}",
)
INDEXES: Final = (0, 0, 0, 1, 7, -1, "0", None)
NAMES: Final = ("f", "f", "g", "fg", "", None)
IDS: Final = (None, "a", "b", "", "call_0", 5, "call_1")
ARGUMENTS: Final = ("", "{}", '{"x":', "1}", '{"x":1}', {"x": 1}, {}, None, "null", "\ud83d")
FINISH_REASONS: Final = (
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "",
    "eos_token",
    "error",
    "function_call",
    None,
)
COUNTS: Final = (0, 1, 2, 3, None, "4", 5.0, 2.5)
BASE64: Final = ("AAAA", "AA==", "A", "", "QUJD", "====", "QU\nJD", "é")
ODD_KEYS: Final = (
    "x",
    "index",
    "error",
    "usage",
    "_order",
    "text",
    "parts",
    "model_extra",
    "__class__",
    "type",
    "\ud83d",
    "",
)


class Choices:
    """Bytes as choices; where they are used up, the first one is taken.

    Args:
        data: The bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def are_left(self) -> bool:
        """Whether there are any."""
        return self._place < len(self._data)

    def number(self, end: int) -> int:
        """A number below `end`."""
        self._place += 1
        return self._data[self._place - 1] % end if self._place <= len(self._data) else 0

    def pick(self, values: Sequence[T]) -> T:
        """One of these."""
        return values[self.number(len(values))]

    def often(self) -> bool:
        """Seven times out of eight, and where no bytes are left."""
        return self.number(8) != 7

    def value(self, values: Sequence[Any]) -> Any:
        """As a rule one of these, sometimes anything."""
        return self.pick(values) if self.often() else self.pick(ODD_VALUES)


def made_body(data: bytes) -> bytes:
    """The body that bytes stand for: as a rule an event stream, sometimes JSON alone."""
    choices = Choices(data)
    if choices.number(16) == 15:
        return _written(choices.pick((_chunk, _completion, _error))(choices), choices)
    events: list[bytes] = []
    while choices.are_left and len(events) < MOST_EVENTS:
        events.append(_event(choices))
    return b"".join(events)


def _event(choices: Choices) -> bytes:
    kind = choices.number(16)
    if kind == 15:
        return choices.pick(_OTHER_EVENTS)
    if kind == 13:
        return _much_text(choices)
    line_end = choices.pick((b"\n", b"\n", b"\n", b"\r\n", b"\r"))
    field = (
        b"data"
        if choices.often()
        else choices.pick((b"error", b"event: error\ndata", b"event: meta\ndata", b"data:\ndata"))
    )
    body = _written(_error(choices) if kind == 14 else _chunk(choices), choices)
    return (field + b": " + body + b"\n" * (2 if choices.often() else 1)).replace(b"\n", line_end)


_OTHER_EVENTS: Final = (
    *(
        b"data: [DONE]\n\n",
        b"data: [DONE] \n\n",
        b": ping\n\n",
        b"data:\n\n",
        b"data: null\n\n",
        b"\n",
        b"\r",
        b"id: 1\n",
    ),
    *(b"data: oops\n\n", b'data: {"choices":\ndata: []}\n\n', b"event: chat.completion.chunk\n", b"<p>\n", b"{}\n"),
)


def _much_text(choices: Choices) -> bytes:
    """Events that differ in their text alone, as most of a stream does."""
    chunk = _chunk(choices)
    chunk["choices"] = [{"index": choices.number(2), "delta": {"content": "<text>"}, "finish_reason": None}]
    event = b"data: " + _written(chunk, choices) + b"\n\n"
    texts = [choices.pick(_RAW_TEXTS) if choices.often() else b"a" for _ in range(choices.number(12))]
    return b"".join(event.replace(b"<text>", text) for text in (b"a", b"b", b"c", *texts))


_RAW_TEXTS: Final = (
    b"a",
    b"b ",
    b"",
    b"\t",
    b"\xff",
    b"\\n",
    b'"',
    b"\xe5\x8f\xb7",
    b"\\ud83d",
    b"\\ude00",
    b"\xe2\x80\xa8",
    b"\0",
    b"\x7f",
)


def _written(body: Any, choices: Choices) -> bytes:
    data = json.dumps(body, ensure_ascii=choices.often()).encode("utf-8", "surrogatepass")
    for name, written in UNWRITABLE.items():
        data = data.replace(name, written)
    return data


def _error(choices: Choices) -> Any:
    code = choices.value((429, "500", "overloaded"))
    error = {"message": choices.value(TEXTS), "code": code, "type": choices.value(TEXTS)}
    beside = {"error": error, "choices": [_choice(choices)]}
    bare = {"base_resp": {"status_code": code, "status_msg": "m"}}
    return choices.pick(({"error": error}, error, [{"error": error}], beside, bare, {"error": code}, {"detail": error}))


def _completion(choices: Choices) -> Any:
    message = {"index": 0, "message": _delta(choices), "finish_reason": choices.value(FINISH_REASONS)}
    return {"id": "c1", "object": "chat.completion", "choices": choices.value(([message], [message] * 2, []))}


def _chunk(choices: Choices) -> dict[str, Any]:
    chunk: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if not choices.often():
        key = choices.pick(
            ("id", "object", "created", "model", "service_tier", "system_fingerprint", "x_groq", *ODD_KEYS)
        )
        chunk[key] = choices.value(("c2", "", None, 0))
    several = choices.pick((1, 1, 1, 1, 2, 0))
    chunk["choices"] = [_choice(choices) for _ in range(several)]
    if not several or not choices.often():
        chunk["usage"] = _usage(choices)
    return chunk


def _choice(choices: Choices) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": choices.value(INDEXES), "finish_reason": None}
    choice["delta" if choices.often() else "message"] = _delta(choices)
    if choices.number(4) == 3:
        choice["finish_reason"] = choices.value(FINISH_REASONS)
    if not choices.often():
        choice["logprobs"] = {"content": choices.value(([{"token": "a", "logprob": -1.0}], [], None))}
    if not choices.often():
        choice[choices.pick(ODD_KEYS)] = choices.value(({"prompt_tokens": 1}, "v"))
    return choice


def _delta(choices: Choices) -> dict[str, Any]:
    delta: dict[str, Any] = {}
    for _ in range(choices.pick((1, 1, 1, 2, 3))):
        kind = choices.number(20)
        if kind < 6:
            delta["content"] = choices.value(TEXTS)
        elif kind < 11:
            delta["tool_calls"] = [_call(choices) for _ in range(choices.pick((1, 1, 2, 3)))]
        else:
            name, values = _FIELDS[kind - 11]
            delta[name or choices.pick(ODD_KEYS)] = choices.value(values)
    return delta


_PARTS: Final = (
    [{"type": "text", "text": "t"}, {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}],
    [{"type": "thinking", "thinking": "h"}, "t", {"text": "\ud83d"}, 5],
)
_DETAILS: Final = (
    [{"type": "reasoning.text", "index": 0, "text": "h"}],
    [{"type": "reasoning.text", "text": "h\ud83d"}, {"type": "reasoning.summary", "summary": "s"}],
    [
        {"type": "reasoning.encrypted", "id": "r", "data": "d", "signature": ""},
        {"type": "reasoning.text", "signature": "s"},
    ],
)
_AUDIO: Final = tuple({"id": "au", "data": data, "transcript": "t", "expires_at": 1} for data in BASE64)
_CITATIONS: Final = ([{"type": "url_citation", "url_citation": {"url": "u", "start_index": 0}}], [{"type": "x"}])
_FIELDS: Final[tuple[tuple[str, Sequence[Any]], ...]] = (
    ("reasoning_content", TEXTS),
    ("reasoning", TEXTS),
    ("refusal", TEXTS),
    ("role", ("assistant", "", "user")),
    ("content", _PARTS),
    ("reasoning_details", _DETAILS),
    ("audio", _AUDIO),
    ("function_call", ({"name": "f"}, {"arguments": "{}"}, {"name": "f", "arguments": {}}, {"arguments": {"x": 1}})),
    ("", (1, "v", None, [{"image_url": {"url": "u"}}], *_CITATIONS)),
)


def _call(choices: Choices) -> dict[str, Any]:
    call: dict[str, Any] = {}
    if choices.often():
        call["index"] = choices.value(INDEXES)
    if choices.number(2):
        call["id"] = choices.value(IDS)
    part, text = ("function", "arguments") if choices.often() else ("custom", "input")
    inner = call[part] = {}
    if choices.number(2):
        inner["name"] = choices.value(NAMES)
    if choices.number(4):
        inner[text] = choices.value(ARGUMENTS)
    if not choices.often():
        choices.pick((call, inner))[choices.pick(ODD_KEYS)] = choices.value(("function", "custom", "", 1))
    return call


def _usage(choices: Choices) -> Any:
    if not choices.often():
        return choices.pick(ODD_VALUES)
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "x")
    usage = {name: choices.value(COUNTS) for name in names if choices.number(2)}
    if choices.number(2):
        usage["completion_tokens_details"] = {"reasoning_tokens": choices.value(COUNTS)}
    return usage
