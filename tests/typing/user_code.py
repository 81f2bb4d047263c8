"""The public API as users write it: mypy and pyright in strict mode hold the types that a user sees."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict, assert_type

import httpx
from pydantic import BaseModel

import chunkfold


class Weather(BaseModel):
    """A model for structured output."""

    city: str
    celsius: float


class Arguments(TypedDict):
    """A typed dict for a tool's arguments."""

    city: str


def read(client: httpx.Client, url: str) -> chunkfold.ChatCompletion:
    """The sync front."""
    with chunkfold.connect(client, "POST", url, json={"model": "m"}, timeout=120, max_event_size=None) as stream:
        assert_type(stream, chunkfold.ChatCompletionStream)
        for chunk in stream:
            assert_type(chunk, chunkfold.ChatCompletionChunk)
            assert_type(chunk.text, str)
            assert_type(chunk.reasoning, str)
    assert_type(stream.end, chunkfold.StreamEnd | None)
    assert_type(stream.error, chunkfold.ChunkfoldError | None)
    assert_type(stream.request_id, str | None)
    return stream.completion()


async def read_async(client: httpx.AsyncClient, url: str) -> chunkfold.ChatCompletion:
    """The async front."""
    async with chunkfold.aconnect(client, "POST", url, json={"model": "m"}) as stream:
        assert_type(stream, chunkfold.AsyncChatCompletionStream)
        async for text in stream.text_deltas():
            assert_type(text, str)
        return await stream.read()


def wrap(response: httpx.Response, pieces: list[bytes], generator: Iterator[bytes]) -> None:
    """What the streams take."""
    chunkfold.ChatCompletionStream(response, strict=True)
    chunkfold.ChatCompletionStream(pieces, headers={"x-request-id": "r"})
    chunkfold.ChatCompletionStream(generator)
    chunkfold.AsyncChatCompletionStream(response)


def wrap_async(generator: AsyncIterator[bytes]) -> None:
    """What the async stream takes."""
    chunkfold.AsyncChatCompletionStream(generator, total_timeout=60.0)


def look(completion: chunkfold.ChatCompletion) -> None:
    """Results."""
    assert_type(completion.text, str)
    assert_type(completion.reasoning, str)
    assert_type(completion.finish_reason, str | None)
    assert_type(completion.choices[0].outcome, chunkfold.Outcome | None)
    assert_type(completion.choices[0].message.parse(Weather), Weather)
    assert_type(completion.usage.cached_tokens if completion.usage else None, int | None)
    for call in completion.tool_calls:
        assert_type(call.name, str)
        assert_type(call.arguments, str)
        if call.type == "function":
            assert_type(call.function.parse(), Any)  # a dict, or what is registered for the tool
            assert_type(call.function.parse(Weather), Weather)
            assert_type(call.function.parse(Arguments), Arguments)
        else:
            assert_type(call.custom.input, str)


def parse(data: bytes) -> list[chunkfold.ChatCompletionChunk]:
    """The sans-IO core."""
    parser = chunkfold.ChatCompletionParser(max_output_size=10_000, progress_timeout=30)
    chunks = parser.feed(data)
    chunks += parser.close()
    assert_type(parser.anomalies, tuple[chunkfold.Anomaly, ...])
    assert_type(parser.snapshot, chunkfold.ChatCompletion)
    if isinstance(parser.error, chunkfold.APIError):
        assert_type(parser.error.code, int | str | None)
        assert_type(parser.error.retry_after, float | None)
    return chunks
