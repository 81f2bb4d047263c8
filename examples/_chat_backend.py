"""What all backends of chat pages share: one client for all requests, and the response."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


def event_stream(events: AsyncIterator[bytes], headers: Mapping[str, str] | None = None) -> Response:
    """A response of server-sent events that no proxy buffers."""
    all_headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}  # the latter is for nginx
    return StreamingResponse(events, media_type="text/event-stream", headers=all_headers)


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
