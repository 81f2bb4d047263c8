"""What the demo's provider says: a journey with a train and a hotel, in OpenAI's format."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

from chunkfold.testing import Answer, sse

QUESTION: Final = "I have to be in Porto on Friday by seven, and need a room for two nights."
FOLLOW_UP: Final = "Book the train. And where is the hotel?"

_REASONING: Final = """\
Two things are asked for: a train from Lisbon that arrives before 19:00, and a room for two nights.
Neither depends on the other, so I can look for both at once.
"""
_TEXT: Final = "I'll look for a train to Porto and for a room near the station, both at the same time."
_TOOL_CALLS: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    ("search_trains", {"origin": "Lisboa", "destination": "Porto", "date": "2026-03-06", "arrive_before": "19:00"}),
    ("find_rooms", {"city": "Porto", "near": "São Bento", "nights": 2, "max_price": 120.0}),
)
_USAGE: Final = {
    "prompt_tokens": 412,
    "completion_tokens": 131,
    "total_tokens": 543,
    "prompt_tokens_details": {"cached_tokens": 384},
    "completion_tokens_details": {"reasoning_tokens": 48},
}
_CUT_TEXT: Final = (
    "Your seat is booked: car 21, seat 46, in the train that leaves Oriente at 15:09 and is in Porto at 18:02. "
    "The hotel is in the Rua das Flores, five minutes on foot from"
)

_FIRST_PAUSE: Final = 0.4  # seconds until a model's first token
_PAUSE: Final = 0.03  # seconds from piece to piece
_FRAGMENT: Final = 7  # characters of a tool call's arguments in one chunk


def request(*questions: str) -> dict[str, Any]:
    """The body of a request, as OpenAI's API takes it."""
    messages = [{"role": "user", "content": question} for question in questions]
    return {"model": "demo-model", "messages": messages, "stream_options": {"include_usage": True}}


def scripted_answers(speed: float = 1.0) -> list[Answer]:
    """Two answers: one that ends with tool calls, and one whose connection is cut in a sentence."""
    whole = sse(*_whole_answer())
    cut = sse(*map(_chunk, _text_deltas(_CUT_TEXT, "content")), done=False)
    return [Answer(_paced(whole, speed)), Answer(_paced(cut, speed), ending="cut")]


def _whole_answer() -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    yield from map(_chunk, _text_deltas(_REASONING, "reasoning_content"))
    yield from map(_chunk, _text_deltas(_TEXT, "content"))
    yield from map(_chunk, _tool_call_deltas())
    yield _chunk({}, "tool_calls")
    yield _envelope([]) | {"usage": _USAGE}


def _text_deltas(text: str, field: str) -> Iterator[dict[str, Any]]:
    return ({field: piece} for piece in re.findall(r"\S+\s*", text))


def _tool_call_deltas() -> Iterator[dict[str, Any]]:
    """The fragments of all calls, in turns, as a model sends calls that it makes at once."""
    turns = zip_longest(*(_fragments(index, *call) for index, call in enumerate(_TOOL_CALLS)))
    return ({"tool_calls": [fragment]} for fragment in chain.from_iterable(turns) if fragment)


def _fragments(index: int, name: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    function = {"name": name, "arguments": ""}
    yield {"index": index, "id": f"call_{index + 1}", "type": "function", "function": function}
    text = json.dumps(arguments, ensure_ascii=False)
    for start in range(0, len(text), _FRAGMENT):
        yield {"index": index, "function": {"arguments": text[start : start + _FRAGMENT]}}


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return _envelope([{"index": 0, "delta": delta, "finish_reason": finish_reason}])


def _envelope(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion.chunk",
        "created": 1_772_700_000,
        "model": "demo-model",
        "choices": choices,
    }


def _paced(pieces: list[bytes], speed: float) -> list[bytes | float]:
    paced: list[bytes | float] = [_FIRST_PAUSE / speed]
    for piece in pieces:
        paced += [piece, _PAUSE / speed]
    return paced
