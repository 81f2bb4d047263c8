"""Relay a provider's streams: the bytes pass as they come, unchanged, and a parser beside them keeps the books.

Run it, and one answer is relayed. To serve: OPENAI_BASE_URL=https://... uvicorn --app-dir examples asgi_relay:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx
from _server import ask_through
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from chunkfold import ChatCompletionParser

PRICES = {"gpt-5-mini": (0.25, 2.0)}  # dollars for a million tokens, in and out
KEPT_BACK = b"accept-encoding connection host keep-alive te trailer transfer-encoding upgrade".split()


class Relay:
    """An ASGI app that relays the answer to one request, and notes how it ended, whatever happens to it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Where the client leaves, Starlette cancels this, and so the generation."""
        request = Request(scope, receive)
        headers = [*passed_on(request.headers.raw), (b"accept-encoding", b"identity")]
        options = {"content": await request.body(), "headers": headers}
        async with request.state.client.stream("POST", "chat/completions", **options) as response:
            tap = ChatCompletionParser(status_code=response.status_code, headers=response.headers)
            try:
                async with aclosing(tapped(response, tap)) as body:
                    relayed = StreamingResponse(body, response.status_code)
                    relayed.raw_headers = passed_on(response.headers.raw)
                    await relayed(scope, receive, send)
            finally:
                tap.leave()  # without effect if the stream has ended
                note(tap)


async def tapped(response: httpx.Response, tap: ChatCompletionParser) -> AsyncGenerator[bytes]:
    """The bytes. Where they break off this raises: so the server breaks off too, instead of ending the body."""
    try:
        async for data in response.aiter_raw():
            tap.fold(data)  # raises for nothing that a provider sends
            yield data
        tap.close()
    except httpx.TransportError as exc:
        tap.interrupt(exc)
        raise


def passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """All but those of one connection. Compression is not asked for: the parser could not read along."""
    return [(name.lower(), value) for name, value in headers if name.lower() not in KEPT_BACK]


def note(tap: ChatCompletionParser) -> None:
    """A line in the books: how it ended, and what it cost as far as the provider told the usage."""
    model, usage = tap.snapshot.model, tap.snapshot.usage
    tokens = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
    dollars = sum(count * price / 1e6 for count, price in zip(tokens, PRICES.get(model or "", (0, 0)), strict=True))
    print(f"{model} {tap.end}: {tokens[0]} tokens in, {tokens[1]} out, ${dollars:.7f}", flush=True)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=httpx.Timeout(10, read=120)) as client:
        yield {"client": client}


app = Starlette(lifespan=_lifespan, routes=[Route("/v1/chat/completions", Relay(), methods=["POST"])])
app.add_exception_handler(httpx.TransportError, lambda *_: JSONResponse({"error": {"message": "no answer"}}, 502))

if __name__ == "__main__":
    ask_through(app)
