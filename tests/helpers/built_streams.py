"""The same answers said in any dialect, and the traits of a body, taken from JSON alone."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from parsed_bodies import parsed

from chunkfold import ChatCompletionParser
from chunkfold.testing import StreamBuilder


def read(stream: StreamBuilder) -> ChatCompletionParser:
    return parsed(stream.body, status_code=200)


def hello(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hel", "lo", " 号\u2028😀").finish().done()


def thinking(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).reasoning("Hm", "m.").text("Hi", "!").finish().done()


def calling(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).tool_call("get_weather", '{"city":', '"Oslo"}').finish().done()


def calling_in_turns(dialect: str) -> StreamBuilder:
    calls = ("get_weather", '{"city":', '"Oslo"', "}"), ("find_trains", '{"to":"Rome"}')
    return StreamBuilder(dialect).text("Let me see.").tool_calls(*calls).finish().done()


def counting(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").usage(10, 5, cached=3, reasoning=2).finish().done()


def failing(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").error("overloaded", code=503)


def cut_off(dialect: str) -> StreamBuilder:
    return StreamBuilder(dialect).text("Hi", "!").usage(10, 5)


class Traits:
    """What a body shows of its provider, taken from JSON alone."""

    def __init__(self, body: bytes) -> None:
        blocks = [block for block in re.split(rb"\r?\n\r?\n", body) if b"data:" in block]
        data = [block[block.index(b"data:") + 5 :].strip() for block in blocks]
        self.names = {block.split(b"\n")[0] for block in blocks if block.startswith(b"event:")}
        self.is_done = b"[DONE]" in data
        self.chunks: list[Any] = [json.loads(each) for each in data if each != b"[DONE]"]
        self.choices = [choice for chunk in self.chunks for choice in chunk.get("choices") or ()]
        self.open = [choice for choice in self.choices if not choice.get("finish_reason")]
        self.last = [chunk for chunk in self.chunks if any(c.get("finish_reason") for c in chunk.get("choices") or ())]

    @property
    def role(self) -> str:
        roles = [choice["delta"].get("role") for choice in self.choices if "delta" in choice]
        if len(set(roles)) == 1:
            return repr(roles[0])
        return "first" if [bool(role) for role in roles] == [True, *[False] * (len(roles) - 1)] else "some"

    @property
    def open_finish_reason(self) -> set[str]:
        return {repr(choice.get("finish_reason", "absent")) for choice in self.open}

    @property
    def usage(self) -> list[str]:
        return [place for place, _ in groupby(place for chunk in self.chunks for place in self._usage(chunk))]

    def _usage(self, chunk: Any) -> Iterator[str]:
        choices = chunk.get("choices") or []
        where = "finish" if any(choice.get("finish_reason") for choice in choices) else "open" if choices else "trailer"
        if "usage" in chunk:
            yield f"{where} {'null' if chunk['usage'] is None else 'counts'}"
        yield from (f"{where} x_groq" for _ in [0] if "usage" in (chunk.get("x_groq") or {}))
        yield from (f"{where} choice" for choice in choices if "usage" in choice)

    @property
    def reasoning(self) -> set[str]:
        deltas = [choice.get("delta") or {} for choice in self.choices]
        lists = {"thinking" for delta in deltas if isinstance(delta.get("content"), list)}
        return lists | {key for delta in deltas for key, value in delta.items() if "reasoning" in key and value}

    @property
    def fragments(self) -> set[tuple[str, str, str]]:
        """Of each fragment of a tool call: whether it has an index, an id and a name."""
        calls = [call for choice in self.choices for call in (choice.get("delta") or {}).get("tool_calls") or ()]
        return {(state(call, "index"), state(call, "id"), state(call.get("function") or {}, "name")) for call in calls}

    @property
    def finish_delta(self) -> set[str]:
        return {
            key for chunk in self.last for choice in chunk["choices"] for key, value in choice["delta"].items() if value
        }

    @property
    def finish_object(self) -> set[str | None]:
        return {chunk.get("object") for chunk in self.last}

    @property
    def finish_lacks(self) -> set[str]:
        return {key for chunk in self.last for key in ("id", "object", "created", "model") if key not in chunk}

    @property
    def messages(self) -> bool:
        return any("message" in choice for choice in self.choices)

    @property
    def error(self) -> tuple[set[bytes], list[tuple[str, ...]]]:
        return self.names, [tuple(sorted(chunk)) for chunk in self.chunks if "error" in chunk]


def state(value: Any, key: str) -> str:
    return "absent" if key not in value else "empty" if value[key] in ("", None) else "there"
