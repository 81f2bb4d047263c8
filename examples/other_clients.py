"""Read streams with requests, urllib3 or aiohttp: any client works that gives the bytes, the status and the headers.

It needs those three. The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without.
"""

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import aiohttp
import requests
import urllib3
from _provider import base_url

from chunkfold import AsyncChatCompletionStream, ChatCompletion, ChatCompletionStream

HEADERS = {
    "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}",
    "Accept-Encoding": "identity",  # a small compressed body can expand to a huge one
}
REQUEST: Any = {
    "model": os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
    "messages": [{"role": "user", "content": "Greet me in one sentence."}],
    "stream": True,
}
CONNECT, SILENCE = 10, 120  # seconds: the longest wait for a connection, and for the next bytes
TOTAL = 900  # seconds: the longest time for a whole answer


def reads(raw: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The body as it arrives; `stream` and `iter_content` can wait for more of it, or for all of it."""
    return iter(partial(raw.read1, decode_content=True), b"")


def with_requests(url: str) -> ChatCompletion:
    """Below requests is urllib3, and its response is `raw`. Leaving `with` closes it, and so stops the generation."""
    with (
        requests.Session() as session,
        session.post(url, json=REQUEST, headers=HEADERS, stream=True, timeout=(CONNECT, SILENCE)) as got,
        ChatCompletionStream(reads(got.raw), status_code=got.status_code, headers=got.headers) as stream,
    ):
        for text in stream.text_deltas():
            print(text, end="", flush=True)
    return stream.completion()


def with_urllib3(url: str) -> ChatCompletion:
    """By default urllib3 reads the whole body first; and it has retries of its own."""
    timeout = urllib3.Timeout(connect=CONNECT, read=SILENCE)
    with (
        urllib3.PoolManager(headers=HEADERS, retries=False, timeout=timeout) as pool,
        pool.request("POST", url, json=REQUEST, preload_content=False) as got,
        ChatCompletionStream(reads(got), status_code=got.status, headers=got.headers) as stream,
    ):
        for text in stream.text_deltas():
            print(text, end="", flush=True)
    return stream.completion()


async def with_aiohttp(url: str) -> ChatCompletion:
    """By default aiohttp ends every response after five minutes; without any total, a broken one may never end."""
    timeout = aiohttp.ClientTimeout(total=TOTAL, sock_connect=CONNECT, sock_read=SILENCE)
    async with (
        aiohttp.ClientSession(headers=HEADERS, timeout=timeout) as session,
        session.post(url, json=REQUEST) as got,
        AsyncChatCompletionStream(got.content.iter_any(), status_code=got.status, headers=got.headers) as stream,
    ):
        async for text in stream.text_deltas():
            print(text, end="", flush=True)
    return stream.completion()


if __name__ == "__main__":
    with base_url() as base:
        address = f"{base}/chat/completions"
        for ask in (with_requests, with_urllib3, lambda url: asyncio.run(with_aiohttp(url))):
            print(f"\nfinish reason: {ask(address).finish_reason}")
