"""Where the examples get their answers from, so that they run anywhere; nothing to learn here."""

import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from math import sin, tau
from typing import Any

from chunkfold.testing import Answer, FakeProvider, sse


@contextmanager
def base_url(script: str = "") -> Iterator[str]:
    """`OPENAI_BASE_URL` if it is set, else that of a provider on this machine that follows a script."""
    if given := os.environ.get("OPENAI_BASE_URL"):
        yield given.rstrip("/")
        return
    os.environ["no_proxy"] = "127.0.0.1"
    with FakeProvider(*_SCRIPTS.get(script, ())) as provider:
        yield provider.base_url


def _chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-example", "object": "chat.completion.chunk", "choices": [choice]}


def _call(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    """A fragment of a tool call; the first one of a call has its name."""
    fragment: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name:
        fragment |= {"id": f"call_{index + 1}", "type": "function"}
        fragment["function"]["name"] = name
    return _chunk(tool_calls=[fragment])


def _spoken(word: str, tone: float) -> dict[str, Any]:
    """A word, said as a tone of so many hertz that takes a quarter of a second, in `pcm16`."""
    samples = (round(9000 * sin(tau * tone * place / 24_000)) for place in range(6_000))
    data = b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples)
    return _chunk(audio={"id": "audio-example", "data": b64encode(data).decode(), "transcript": word})


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _paced(*chunks: dict[str, Any]) -> list[bytes | float]:
    """A body with a pause between the chunks."""
    first, *others = sse(*chunks, done=False)
    return [first, *(step for piece in others for step in (_PAUSE, piece)), *sse()]


_PAUSE = 0.2  # seconds
_ONE_CALL_AFTER_THE_OTHER = [
    _call(index, arguments, name)
    for index, city in enumerate(('"Lisbon"}', '"Oslo"}'))
    for arguments, name in (("", "weather"), ('{"city": ', None), (city, None))
]
_WEATHER_CALLS = [
    *(_call(index, "", "weather") for index in range(2)),
    *(_call(index, arguments) for arguments in ('{"ci', 'ty": ') for index in range(2)),
    *(_call(index, arguments) for index, arguments in enumerate(('"Lisbon"}', '"Oslo"}'))),
    _chunk("tool_calls"),
]
_WEATHER = sse(_chunk(content="Lisbon has sun, "), _chunk(content="Oslo has snow."), _chunk("stop"))
_CITIES = (
    '{"cities": [{"name": "Tokyo", "country": "Japan", "millions": 37.1}, {"name": "Delhi", "country": "India", '
    '"millions": 33.8}, {"name": "Shanghai", "country": "China", "millions": 29.9}]}'
)
_GREETING = [_spoken(word, tone) for word, tone in (("Good ", 440.0), ("morning", 554.4), (".", 659.3))]
_YES = sse(_chunk(content="Yes"), _chunk(content=", please."), _chunk("stop"))
_SCRIPTS = {
    "async_stream": 2 * [Answer([_YES[0], _PAUSE, _YES[1], _PAUSE, *_YES[2:]])],
    "live_table": [Answer(_paced(*(_chunk(content=piece) for piece in _pieces(_CITIES, 16)), _chunk("stop")))],
    "run_tools_early": [Answer(_paced(*_ONE_CALL_AFTER_THE_OTHER, _chunk("tool_calls"))), Answer(_WEATHER)],
    "tool_calls": [Answer(sse(*_WEATHER_CALLS)), Answer(_WEATHER)],
    "voice": [Answer(_paced(*_GREETING, _chunk("stop")))],
    "errors": [
        Answer(sse(_chunk(content="Once upon "), _chunk(content="a ti"), done=False), ending="cut"),
        Answer(sse({"error": {"message": "The model is overloaded.", "type": "server_error", "code": 503}})),
    ],
}
