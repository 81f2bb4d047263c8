"""An answer in a web page, read by the browser's own `EventSource`: chunks become a few small events with names.

Run it, and open the address that it prints. To serve (it needs starlette, and any ASGI server):
OPENAI_BASE_URL=https://... OPENAI_API_KEY=... uvicorn --app-dir examples for_browsers:app
"""

import json
from collections.abc import AsyncIterator
from itertools import count

import httpx
from _chat_backend import MODEL, event_stream, lifespan
from _server import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chunkfold import ChunkfoldError, aconnect, encode_event, is_retryable

PAGE = """<!doctype html><meta charset="utf-8"><title>An answer</title>
<p id="reasoning" style="opacity: .6"></p><p id="text" style="white-space: pre-wrap"></p><p id="end"></p>
<script>
const add = (id, text) => document.getElementById(id).textContent += text;
const source = new EventSource("answer?" + new URLSearchParams({question: "Greet me in one sentence."}));
source.onmessage = event => add("text", JSON.parse(event.data));
source.addEventListener("reasoning", event => add("reasoning", JSON.parse(event.data)));
for (const name of ["finished", "failed"]) source.addEventListener(name, event => {
  source.close();  // or the browser would ask again
  add("end", name + " " + event.data);
});
source.onerror = () => add("end", "connection lost ");
</script>"""


async def answer(request: Request) -> Response:
    """The stream for an `EventSource`; if it reconnects, it gets the status 204, which stops it."""
    if "last-event-id" in request.headers:
        return Response(status_code=204)  # otherwise the question would be asked and paid for twice
    return event_stream(events_for(request.state.client, request.query_params.get("question", "")))


async def events_for(client: httpx.AsyncClient, question: str) -> AsyncIterator[bytes]:
    """The text as messages, the reasoning as events of that name, and a last one: `finished` or `failed`."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": question}]}
    yield b"id: 0\n\n"  # not an event, but the browser keeps the id, and sends it when it reconnects
    ids = map(str, count(1))
    try:
        async with aconnect(client, "POST", "chat/completions", json=body) as stream:
            async for chunk in stream:
                for name, text in (("reasoning", chunk.reasoning), ("message", chunk.text)):
                    if text:  # as JSON, since a CR in it would end the line
                        yield encode_event(json.dumps(text), event=name, id=next(ids))
        yield encode_event(json.dumps(stream.completion().finish_reason), event="finished", id=next(ids))
    except (ChunkfoldError, httpx.TransportError) as exc:  # its message is not for the public: it may quote a key
        failure = {"kind": type(exc).__name__, "retryable": is_retryable(exc)}
        yield encode_event(json.dumps(failure), event="failed", id=next(ids))


async def page(_: Request) -> Response:
    """The page."""
    return HTMLResponse(PAGE)


app = Starlette(lifespan=lifespan, routes=[Route("/", page), Route("/answer", answer)])

if __name__ == "__main__":
    serve(app)
