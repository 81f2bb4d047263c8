"""Relay a provider's streams: forward the bytes unchanged as they arrive, and log how each stream ended and its cost.

Run it, and one answer is relayed. To serve: OPENAI_BASE_URL=https://... uvicorn --app-dir examples asgi_relay:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from http.cookiejar import DefaultCookiePolicy

import httpx
from _relaying import passed_on, usage_and_cost
from _server import ask_through
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from chunkfold import ChatCompletionParser, StreamEnd


class Relay:
    """An ASGI app that relays the answer to one request, and notes how it ended, whatever happens to it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """If the client leaves, Starlette cancels this, which stops the generation."""
        headers = [*passed_on(scope["headers"]), (b"accept-encoding", b"identity")]
        options = {"content": await Request(scope, receive).body(), "headers": headers, "params": scope["query_string"]}
        async with scope["state"]["client"].stream("POST", "chat/completions", **options) as response:
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
    """The bytes. If they break off or end too early, this raises, so that the server breaks off, too."""
    try:
        async for data in response.aiter_raw():
            tap.fold(data)  # raises for nothing that a provider sends
            yield data
        tap.close()
        if tap.end in (StreamEnd.TRUNCATED, StreamEnd.EMPTY):
            tap.raise_error()
    except httpx.TransportError as exc:
        tap.interrupt(exc)
        raise


def note(tap: ChatCompletionParser) -> None:
    """Log how the stream ended, its usage and its cost."""
    print(f"{tap.snapshot.model} {tap.end}: {usage_and_cost(tap.snapshot)}", flush=True)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], timeout=httpx.Timeout(10, read=120)) as client:
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # one client's are not another's
        yield {"client": client}


app = Starlette(lifespan=_lifespan, routes=[Route("/v1/chat/completions", Relay(), methods=["POST"])])
app.add_exception_handler(httpx.TransportError, lambda *_: JSONResponse({"error": {"message": "no answer"}}, 502))

if __name__ == "__main__":
    ask_through(app)
