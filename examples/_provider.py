"""Where the examples get their answers from, so that they run anywhere; nothing to learn here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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


_WEATHER_CALLS = [
    *(_call(index, "", "weather") for index in range(2)),
    *(_call(index, arguments) for arguments in ('{"ci', 'ty": ') for index in range(2)),
    *(_call(index, arguments) for index, arguments in enumerate(('"Lisbon"}', '"Oslo"}'))),
    _chunk("tool_calls"),
]
_YES = sse(_chunk(content="Yes"), _chunk(content=", please."), _chunk("stop"))
_PAUSE = 0.2  # seconds
_SCRIPTS = {
    "async_stream": 2 * [Answer([_YES[0], _PAUSE, _YES[1], _PAUSE, *_YES[2:]])],
    "tool_calls": [
        Answer(sse(*_WEATHER_CALLS)),
        Answer(sse(_chunk(content="Lisbon has sun, "), _chunk(content="Oslo has snow."), _chunk("stop"))),
    ],
    "errors": [
        Answer(sse(_chunk(content="Once upon "), _chunk(content="a ti"), done=False), ending="cut"),
        Answer(sse({"error": {"message": "The model is overloaded.", "type": "server_error", "code": 503}})),
    ],
}
