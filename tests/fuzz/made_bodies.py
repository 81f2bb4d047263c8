"""Bodies made of any bytes: each byte is a choice among the events that providers send, and what else may stand in them.

A fuzzer that changes bytes changes choices, and what it makes is nearly always JSON with something in it to fold.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, TypeVar

from sent_events import places_in, sent_events

from chunkfold import ServerSentEvent, parse_payload

T = TypeVar("T")

MOST_EVENTS: Final = 24
# What may stand in place of a text, a number or anything that is sent; pieces of arguments and base64 are texts, too.
TEXTS: Final = (
    *("a", "b ", "", "号", "\U0001f600", "\ud83d", "\ude00", "<think>", "</think>", "<thi", "nk>x", "\n", "ab"),
    *('{"x":', "1}", "{}", '{"x":1}', "null", "f", "g", "fg", "call_0", "stop", "tool_calls", "AAAA", "AA==", "A"),
)
NUMBERS: Final = (0, 0, 1, 2, 3, 7, -1, 5.0, 2.5, "0", "4", None)
ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 7, 1.0, 1.5, 2**63, "", "a", "5", " 5 ", "stop", "error", "{}", "\ud83d", "\x1b[31m"),
    *([], {}, [1], ["a"], {"a": 1}, [None], [{}], {"type": "text", "text": "t"}, "<deep>", "<infinite>", "<digits>"),
)
LIKE: Final[dict[type, Sequence[Any]]] = {
    str: TEXTS,
    int: NUMBERS,
    dict: ({}, None),
    list: ([], None),
    type(None): (None, "", "stop"),
}
ODD_KEYS: Final = (
    *("x", "index", "error", "usage", "_order", "text", "parts", "model_extra", "__class__", "type", "\ud83d", ""),
    *("content", "reasoning", "refusal", "tool_calls", "audio", "message", "finish_reason", "logprobs"),
)
UNWRITABLE: Final = {
    b'"<deep>"': b"[" * 210 + b"]" * 210,
    b'"<infinite>"': b"-1e999",
    b'"<digits>"': b"9" * 5000,
}
OTHER_EVENTS: Final = (
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
RAW_TEXTS: Final = (
    *(b"a", b"b ", b"", b"\t", b"\xff", b"\\n", b'"', b"\xe5\x8f\xb7", b"\\ud83d", b"\\ude00", b"\xe2\x80\xa8", b"\0"),
)


def _is_chunk(payload: Any) -> bool:
    read = parse_payload(ServerSentEvent(json.dumps(payload).encode()))
    return read.error is None and any(chunk.choices or chunk.usage for chunk in read.chunks)


EVENTS: Final = sent_events()
CHUNKS: Final = list(filter(_is_chunk, EVENTS))


class Choices:
    """Bytes as choices; where they are used up, the first one is taken."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def are_left(self) -> bool:
        """Whether there are any."""
        return self._place < len(self._data)

    def number(self, end: int) -> int:
        """A number below `end`; of two bytes where one has too few."""
        size = 1 if end <= 256 else 2
        taken = self._data[self._place : self._place + size]
        self._place += size
        return int.from_bytes(taken, "big") % end

    def pick(self, values: Sequence[T]) -> T:
        """One of these."""
        return values[self.number(len(values))]

    def often(self) -> bool:
        """Seven times out of eight, and where no bytes are left."""
        return self.number(8) != 7


def made_body(data: bytes) -> bytes:
    """The body that bytes stand for: as a rule an event stream, sometimes JSON alone."""
    choices = Choices(data)
    if choices.number(16) == 15:
        return _written(_payload(choices), choices)
    events: list[bytes] = []
    while choices.are_left and len(events) < MOST_EVENTS:
        events.append(_event(choices))
    return b"".join(events)


def _event(choices: Choices) -> bytes:
    kind = choices.number(16)
    if kind == 15:
        return choices.pick(OTHER_EVENTS)
    body = _written(_payload(choices), choices)
    if kind == 14:  # events that differ in their text alone, as most of a stream does
        texts = [b"a", b"b", b"c", *(choices.pick(RAW_TEXTS) for _ in range(choices.number(12)))]
        return b"".join(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % text for text in texts)
    names = (b"error", b"event: error\ndata", b"event: meta\ndata", b"data:\ndata")
    field = b"data" if choices.often() else choices.pick(names)
    line_end = choices.pick((b"\n", b"\n", b"\n", b"\r\n", b"\r"))
    return (field + b": " + body + b"\n" * (2 if choices.often() else 1)).replace(b"\n", line_end)


def _payload(choices: Choices) -> Any:
    """What a provider sends, as a rule a chunk, with something else in some places."""
    payload = deepcopy(choices.pick(CHUNKS if choices.often() else EVENTS))
    for _ in range(choices.pick((0, 0, 1, 1, 2))):
        places = list(places_in(payload))
        if not places:
            break
        holder, key = choices.pick(places)
        values = LIKE.get(type(holder[key]), ODD_VALUES) if choices.often() else ODD_VALUES
        if isinstance(holder, dict) and not choices.often():
            key = choices.pick(ODD_KEYS)
        holder[key] = deepcopy(choices.pick(values))
    return payload


def _written(body: Any, choices: Choices) -> bytes:
    data = json.dumps(body, ensure_ascii=choices.often()).encode("utf-8", "surrogatepass")
    for name, written in UNWRITABLE.items():
        data = data.replace(name, written)
    return data
