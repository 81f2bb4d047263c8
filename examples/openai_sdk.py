"""Let the openai SDK send the request, read the answer with chunkfold and continue with the SDK's own `ChatCompletion`.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import asyncio
import os
from typing import Any

from _provider import base_url
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import chunkfold

KEY = os.environ.get("OPENAI_API_KEY") or "none"
REQUEST: dict[str, Any] = {
    "model": os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
    "messages": [{"role": "user", "content": "Greet me in one sentence."}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def completion_of(ours: chunkfold.ChatCompletion) -> ChatCompletion:
    """The completion as the SDK's own type, to read and to send back.

    `construct` is how the SDK makes it: fields that its types do not know are kept. It would send all fields of a
    message, so empty ones are left out, such as `tool_calls: []`, which OpenAI refuses.
    """
    fields = ours.model_dump()
    for choice in fields["choices"]:
        told = {name: value for name, value in choice["message"].items() if value not in (None, [])}
        choice["message"] = {"content": None, **told}
    return ChatCompletion.construct(**fields)


def chunk_of(ours: chunkfold.ChatCompletionChunk) -> ChatCompletionChunk:
    """The same for a chunk, for code that reads the SDK's streams; choices and deltas that were not sent are empty."""
    return ChatCompletionChunk.construct(**ours.model_dump(exclude_none=True))


def ask(client: OpenAI) -> ChatCompletion:
    """The SDK retries and raises its own errors until the stream begins; from there on, chunkfold raises its."""
    with (
        client.chat.completions.with_streaming_response.create(**REQUEST) as response,
        chunkfold.ChatCompletionStream(response.http_response) as stream,
    ):
        for chunk in map(chunk_of, stream):
            for choice in chunk.choices:
                print(choice.delta.content or "", end="", flush=True)
    return completion_of(stream.completion())


async def ask_async(client: AsyncOpenAI) -> ChatCompletion:
    """The same."""
    async with (
        client.chat.completions.with_streaming_response.create(**REQUEST) as response,
        chunkfold.AsyncChatCompletionStream(response.http_response) as stream,
    ):
        async for text in stream.text_deltas():
            print(text, end="", flush=True)
    return completion_of(stream.completion())


async def main(url: str) -> None:
    """Ask twice."""
    with OpenAI(base_url=url, api_key=KEY) as client:
        print("\n", ask(client).usage)
    async with AsyncOpenAI(base_url=url, api_key=KEY) as client:
        print("\n", (await ask_async(client)).usage)


if __name__ == "__main__":
    with base_url() as base:
        asyncio.run(main(base))
