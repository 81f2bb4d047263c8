"""Read two streams at the same time with one async client; the pieces are printed as they arrive.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import asyncio
import os

import httpx
from _provider import base_url

import chunkfold

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


async def ask(client: httpx.AsyncClient, url: str, question: str) -> chunkfold.ChatCompletion:
    """Print each piece of the answer beside the question; return the whole."""
    request = {"model": MODEL, "messages": [{"role": "user", "content": question}]}
    async with chunkfold.aconnect(client, "POST", url, json=request) as stream:
        async for text in stream.text_deltas():
            print(f"{question} {text!r}")
    return stream.completion()


async def main() -> None:
    """Ask two questions; if one of them fails, the other is cancelled, and its response closed."""
    timeout = httpx.Timeout(10, read=120)  # `read` is the longest silence that is allowed
    with base_url("async_stream") as base:
        url = f"{base}/chat/completions"
        async with httpx.AsyncClient(headers=HEADERS, timeout=timeout) as client, asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(ask(client, url, question)) for question in ("Tea?", "Coffee?")]
    for answer in answers:
        print(answer.result().text)


if __name__ == "__main__":
    asyncio.run(main())
