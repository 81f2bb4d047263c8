"""The streams that are measured: made here, the same each time, and like what providers send.

A stream is a head that every chunk repeats (an OpenAI or an OpenRouter body is some 300 bytes for each chunk, nearly
all of it head) and deltas of a few characters. Its pieces of text are those of a language model: words, now and then a
line end or a quote, which JSON escapes, and characters that are not ASCII.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, cycle
from pathlib import Path
from typing import Any

from chunkfold import EventStreamDecoder
from chunkfold.testing import DONE, cut_every, event

Chunk = dict[str, Any]

READS = {"one event": None, "64 KiB": 65536, "16 bytes": 16}  # bytes per read, by their name in the tables

_RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"
_OPENAI = {
    "id": "chatcmpl-9f2cK1dVnX4mQ7tRzLwB3sYpEoUa",
    "object": "chat.completion.chunk",
    "created": 1760000000,
    "model": "gpt-5-mini-2025-08-07",
    "service_tier": "default",
    "system_fingerprint": "fp_0a1b2c3d4e",
}
_OPENROUTER = {
    "id": "gen-1760000000-a7Kd02LmXc9VbQeRtYuI",
    "provider": "DeepInfra",
    "model": "deepseek/deepseek-r1",
    "object": "chat.completion.chunk",
    "created": 1760000000,
}
_USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 1,
    "total_tokens": 1201,
    "completion_tokens_details": {"reasoning_tokens": 0},
}
_WORDS = (
    "the of a to in is that for on with as it this be are by from or an at not can which one all more when out time so"
    " each than only how into some then other first between also system value number order point always simple example"
    " measure season harbour winter letter"
)
_OTHERS = (",", ",", ".", ".", "'s", "-", "\n\n", "\n- ", ' "', '"', " São", " 号", " →")
_TOKENS = (*(f" {word}" for word in _WORDS.split()), *_OTHERS)


@dataclass(frozen=True)
class Body:
    """One stream: its events, each with its blank line, and the output that must come of it."""

    events: list[bytes]
    output: str | None = None  # choice by choice: reasoning, text, arguments; None where it is not known

    @cached_property
    def data(self) -> bytes:
        return b"".join(self.events)

    @cached_property
    def plain(self) -> bytes:
        """The same chunks as the floor reads them: one `data` line and a blank one each, nothing else."""
        decoder = EventStreamDecoder()
        return b"".join(b"data: %b\n\n" % event.data for event in decoder.feed(self.data) if event.data[:1] == b"{")

    def reads(self, size: int | None) -> list[bytes]:
        return self.events if size is None else cut_every(self.data, size)


def chunk(delta: Chunk, finish_reason: str | None = None, index: int = 0, **more: Any) -> Chunk:
    """A chunk as OpenAI sends it; what is passed by name stands beside its choices."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**_OPENAI, "choices": [choice], "usage": None, **more}


def tokens(count: int) -> Iterator[str]:
    dice = random.Random(count)
    return (dice.choice(_TOKENS) for _ in range(count))


def rows(size: int) -> str:
    """A JSON document of so many characters, and up to one row more, as a tool gets it."""
    number = size // len(json.dumps(_row(0)) + ", ") + 1
    return json.dumps({"rows": [_row(place) for place in range(number)]})


def _row(place: int) -> Chunk:
    return {"id": 10**6 + place, "name": f"Station {place:06}", "open": place % 2}


def text_chunks(count: int) -> Iterator[Chunk]:
    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": token}) for token in tokens(count))
    yield chunk({}, "stop")
    yield chunk({}, choices=[], usage=_USAGE)


def text_events(count: int) -> Iterator[bytes]:
    """The text stream, event by event: for those who must not hold it."""
    return chain(map(event, text_chunks(count)), (DONE,))


def _body(chunks: Iterable[Chunk], output: str) -> Body:
    return Body([*map(event, chunks), DONE], output)


def text(count: int) -> Body:
    """OpenAI without obfuscation, vLLM, and most others."""
    return _body(text_chunks(count), "".join(tokens(count)))


def text_with_crlf(count: int) -> Body:
    """The same from servers that end their lines with CRLF, as sse-starlette does."""
    body = text(count)
    return replace(body, events=[one.replace(b"\n", b"\r\n") for one in body.events])


def obfuscated(count: int) -> Body:
    """OpenAI unless it is told otherwise: padding of its own in every chunk, which hides how long the text is."""
    padding = random.Random(count)
    chunks = ({**one, "obfuscation": f"{padding.getrandbits(48):x}"} for one in text_chunks(count))
    return _body(chunks, "".join(tokens(count)))


def reasoning(count: int) -> Body:
    """DeepSeek and those who serve its models: reasoning for three quarters, then text."""
    thinking = count * 3 // 4
    pieces = (
        {"content": None, "reasoning_content": token}
        if place < thinking
        else {"content": token, "reasoning_content": None}
        for place, token in enumerate(tokens(count))
    )
    first = chunk({"role": "assistant", "content": None, "reasoning_content": ""})
    return _body(chain((first,), map(chunk, pieces), (chunk({}, "stop"),)), "".join(tokens(count)))


def tool_arguments(count: int) -> Body:
    """One call whose arguments come in pieces of four characters."""
    arguments = rows(4 * count)
    pieces = [arguments[place : place + 4] for place in range(0, len(arguments), 4)][: count - 1]
    pieces.append(arguments[4 * len(pieces) :])
    call = {"index": 0, "id": "call_d3tQk9wZ", "type": "function", "function": {"name": "save", "arguments": ""}}
    first = chunk({"role": "assistant", "content": None, "tool_calls": [call]})
    rest = (chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces)
    last = (chunk({}, "tool_calls"), chunk({}, choices=[], usage=_USAGE))
    return _body(chain((first,), rest, last), arguments)


def four_choices(count: int) -> Body:
    """n = 4: the choices take turns."""
    pieces = list(tokens(count))
    first = (chunk({"role": "assistant", "content": ""}, index=index) for index in range(4))
    rest = (chunk({"content": piece}, index=index) for index, piece in zip(cycle(range(4)), pieces, strict=False))
    last = (chunk({}, "stop", index=index) for index in range(4))
    return _body(chain(first, rest, last), "".join("".join(pieces[index::4]) for index in range(4)))


def usage_everywhere(count: int) -> Body:
    """xAI, and vLLM with `continuous_usage_stats`: the usage so far in every chunk."""
    chunks = (
        chunk({"content": token}, usage={**_USAGE, "completion_tokens": place, "total_tokens": 1200 + place})
        for place, token in enumerate(tokens(count), 1)
    )
    return _body(chain(chunks, (chunk({}, "stop"),)), "".join(tokens(count)))


def openrouter(count: int) -> Body:
    """OpenRouter: reasoning in two forms for one half, then text; fields of its own in chunk and choice."""
    pieces = [
        {"reasoning": token, "reasoning_details": [_detail(token)]} if place < count // 2 else {}
        for place, token in enumerate(tokens(count))
    ]
    contents = ("" if piece else token for piece, token in zip(pieces, tokens(count), strict=True))
    deltas = [
        {"role": "assistant", "content": content, **piece} for content, piece in zip(contents, pieces, strict=True)
    ]
    chunks = [_openrouter_chunk(delta, None) for delta in deltas]
    return _body([*chunks, _openrouter_chunk({"role": "assistant", "content": ""}, "stop")], "".join(tokens(count)))


def _detail(token: str) -> Chunk:
    return {"type": "reasoning.text", "text": token, "format": "unknown", "index": 0}


def _openrouter_chunk(delta: Chunk, finish_reason: str | None) -> Chunk:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "native_finish_reason": finish_reason}
    return {**_OPENROUTER, "choices": [choice]}


STREAMS: dict[str, Callable[[int], Body]] = {
    "text": text,
    "text with CRLF": text_with_crlf,
    "text with obfuscation": obfuscated,
    "reasoning": reasoning,
    "tool arguments": tool_arguments,
    "n = 4": four_choices,
    "usage on every chunk": usage_everywhere,
    "OpenRouter": openrouter,
}


def recordings() -> list[Body]:
    """Bodies that real providers sent, none if they are not there: they are other people's, and stand beside the clone.

    Those without blank lines are left out: the floor finds no event in them.
    """
    bodies = [Body(_events_of(path.read_bytes())) for path in sorted(_RECORDINGS.glob("*.sse"))]
    return [body for body in bodies if body.plain]


def _events_of(data: bytes) -> list[bytes]:
    """A recorded body cut behind its blank lines."""
    blank = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
    *whole, rest = data.split(blank)
    return [one + blank for one in whole] + ([rest] if rest else [])
