"""Parsers, right and broken, each in a way that is found in the wild."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chunkfold.testing import StreamBuilder

HELLO = StreamBuilder().text("Hel", "lo").finish().done()
CALLS = (
    StreamBuilder()
    .tool_calls(("get_weather", '{"city":', '"Oslo"}'), ("find", '{"q":', '"x"}'))
    .usage(10, 5)
    .finish()
    .done()
)
OVERLOADED = StreamBuilder().text("Hel").error("overloaded", code=503)
CUT_OFF = StreamBuilder().text("Hel", "lo")


def parse(lines: Sequence[str], *, by_index: bool = True, must_finish: bool = True) -> dict[str, Any]:
    """A plain parser of lines, right or wrong as it is told to be."""
    texts, calls, finish_reason = [], {}, ""
    for line in lines:
        data = line.removeprefix("data: ")
        if data in (line, "[DONE]"):
            continue
        payload = json.loads(data)
        if "error" in payload:
            raise RuntimeError(payload["error"]["message"])
        for choice in payload["choices"]:
            texts.append(choice["delta"].get("content") or "")
            finish_reason = choice["finish_reason"] or finish_reason
            for part in choice["delta"].get("tool_calls", ()):
                call = calls.setdefault(part["index"] if by_index else 0, {"name": "", "arguments": ""})
                for key in call:
                    call[key] += part["function"].get(key, "")
    if must_finish and not finish_reason:
        raise EOFError("the stream was cut")
    return {"text": "".join(texts), "tool_calls": list(calls.values()), "finish_reason": finish_reason or "stop"}


def right(body: bytes) -> dict[str, Any]:
    return parse(body.decode().split("\n"))


def ignores_the_index(body: bytes) -> dict[str, Any]:
    return parse(body.decode().split("\n"), by_index=False)


def takes_a_cut_for_whole(body: bytes) -> dict[str, Any]:
    return parse(body.decode().split("\n"), must_finish=False)


def message_of(assertion: Callable[[], None]) -> str:
    with pytest.raises(AssertionError) as caught:
        assertion()
    return str(caught.value)


def marked(message: str) -> list[str]:
    """The events that the message points at."""
    return re.findall(r"^  > event (\d+) at byte", message, re.MULTILINE)


def raises_for_any(error: type[Exception]) -> Callable[[Any], Any]:
    def fold(_: Any) -> Any:
        raise error

    return fold
