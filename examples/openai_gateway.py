"""A gateway whose clients get chunks as OpenAI sends them, whichever provider answers.

Run it to ask a provider through it. To serve (it needs starlette, and any ASGI server):
OPENAI_BASE_URL=https://... OPENAI_API_KEY=... uvicorn --app-dir examples openai_gateway:app
"""

import json
from collections.abc import AsyncGenerator
from math import ceil
from typing import Any

import httpx
from _chat_backend import app_with, asked, event_stream, from_first
from _openai_chunks import Writer
from _server import ask_through
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chunkfold import APIError, ChunkfoldError, aconnect, encode_event

FOR_THE_CLIENT = (400, 413, 422, 429, 503)  # others, such as 401, are about the gateway's own account


def request_of(sent: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The request to the provider, which asks for the usage, and whether the client asked for it."""
    options = sent.get("stream_options") or {}
    return {**sent, "stream_options": {**options, "include_usage": True}}, bool(options.get("include_usage"))


async def written(client: httpx.AsyncClient, body: dict[str, Any], *, wants_usage: bool) -> AsyncGenerator[bytes]:
    """The answer, chunk by chunk. What fails before the first chunk is raised; later it is the last event."""
    writer, has_begun = Writer(str(body.get("model"))), False
    try:
        async with aconnect(client, "POST", "chat/completions", json=body) as stream:
            async for event in stream.events():
                for chunk in writer.chunks_of(event):
                    has_begun = True
                    yield chunk
        for chunk in writer.end_of(stream.completion(), wants_usage=wants_usage):
            yield chunk
    except (ChunkfoldError, httpx.TransportError) as error:
        if not has_begun:
            raise
        yield encode_event(json.dumps(failure(error)))  # and no [DONE]


def failure(error: Exception) -> dict[str, Any]:
    """An error for the client, without the provider's message: it may quote a key."""
    return {"error": {"message": "The provider failed.", "type": type(error).__name__, "code": None, "param": None}}


def refused(error: Exception) -> Response:
    """The failure as a response, with the provider's status if a client can do something about it, else 502."""
    status = error.status_code if isinstance(error, APIError) else None
    seconds = error.retry_after if isinstance(error, ChunkfoldError) else None
    headers = {} if seconds is None else {"Retry-After": str(ceil(seconds))}
    return JSONResponse(failure(error), status if status in FOR_THE_CLIENT else 502, headers)


async def chat(request: Request) -> Response:
    """The endpoint. It answers once there is output, so that a failure before it has a status of its own."""
    body, wants_usage = await asked(request, request_of)
    chunks = written(request.state.client, body, wants_usage=wants_usage)
    try:
        first = await anext(chunks)
    except (ChunkfoldError, httpx.TransportError) as error:
        return refused(error)
    return event_stream(from_first(first, chunks))


app = app_with("/v1/chat/completions", chat)

if __name__ == "__main__":
    ask_through(app)
