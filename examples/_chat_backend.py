"""What all backends of chat pages share: one client for all requests, the reading of a request, and the response."""

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
T = TypeVar("T")


async def asked(request: Request, read: Callable[[Any], T]) -> T:
    """The JSON that a client sent, as `read` returns it. A request that it cannot read is answered with 400."""
    try:
        sent = await request.json()
        json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()  # NaN and half characters cannot be sent on
        return read(sent)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as cause:
        error = {"message": "Invalid request.", "type": "invalid_request_error", "param": None, "code": None}
        raise HTTPException(400, json.dumps({"error": error}), {"content-type": "application/json"}) from cause


def event_stream(events: AsyncIterator[bytes], headers: Mapping[str, str] | None = None) -> Response:
    """A response of server-sent events that no proxy buffers."""
    all_headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}  # the latter is for nginx
    return StreamingResponse(events, media_type="text/event-stream", headers=all_headers)


async def from_first(first: bytes, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The chunks with the one that was taken; they end with the response."""
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    """One client for all requests."""
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
    timeout = httpx.Timeout(10, read=120)  # the second: how long a model may think
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"], headers=headers, timeout=timeout) as client:
        yield {"client": client}


def app_with(path: str, endpoint: Callable[[Request], Awaitable[Any]]) -> Starlette:
    """An app with one endpoint, which takes POST."""
    return Starlette(lifespan=lifespan, routes=[Route(path, endpoint, methods=["POST"])])
