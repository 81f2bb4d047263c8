"""Resume an answer: a browser that lost its connection continues where it stopped, even after a restart.

Run it, and open the address that it prints; reload the page while it writes. To serve (one process):
OPENAI_BASE_URL=https://... OPENAI_API_KEY=... ANSWERS=/var/lib/answers uvicorn --app-dir examples resumable_relay:app
"""

import json
import os
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
from _chat_backend import MODEL, asked, event_stream, lifespan
from _server import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from chunkfold import AsyncChatCompletionStream, ChatCompletionParser, ChunkfoldError, encode_event
from chunkfold.recording import RecordedTransportError, Recorder, Recording

PAGE = """<!doctype html><meta charset="utf-8"><title>An answer</title>
<p id="text" style="white-space: pre-wrap"></p><p id="end"></p>
<script>
const add = (id, text) => document.getElementById(id).textContent += text;
const ask = async () => {  // the address has the answer's id, so that a reload reads the same answer
  const body = JSON.stringify({question: "Tell me a story."});
  location.hash = (await (await fetch("answers", {method: "POST", body})).json()).id;
};
const read = () => {
  const source = new EventSource("answers/" + location.hash.slice(1));
  source.onmessage = event => add("text", JSON.parse(event.data));
  for (const name of ["finished", "failed"]) source.addEventListener(name, event => {
    source.close();  // or the browser would ask again
    add("end", name + " " + event.data);
  });
};
(location.hash ? Promise.resolve() : ask()).then(read);
</script>"""


class Stored:
    """The reads of one response. Any number of readers may follow them from the first, while more come."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.response: dict[str, Any] = {}  # its status and headers, as options of a stream
        self.ended = False
        self.error: Exception | None = None
        self._changed = anyio.Event()

    def changed(self) -> None:
        """Wake the readers."""
        self._changed.set()
        self._changed = anyio.Event()

    async def responded(self) -> None:
        """Wait until there is a response, or the request has failed."""
        while not (self.response or self.ended):
            await self._changed.wait()

    async def follow(self) -> AsyncIterator[bytes]:
        """Every read, and what the transport raised."""
        place = 0
        while True:
            while place == len(self.reads) and not self.ended:
                await self._changed.wait()
            if place == len(self.reads):
                break
            yield self.reads[place]
            place += 1
        if self.error is not None:
            raise self.error


class Answers:
    """Answers that are being written, and the files of those that are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Stored] = {}

    async def fetch(self, answer_id: str, client: httpx.AsyncClient, body: dict[str, Any]) -> None:
        """Read the provider's answer to its end, whether or not a page listens, and keep it as a recording."""
        stored = self._running[answer_id]
        try:
            async with client.stream("POST", "chat/completions", json=body) as response:
                recorder = Recorder(response)
                stored.response = {"status_code": response.status_code, "headers": response.headers}
                try:
                    await self._read(recorder, stored)
                finally:  # also where the server stops, and this is cancelled
                    recorder.recording.save(self._folder / f"{answer_id}.jsonl")
        except httpx.RequestError as error:  # also a body that cannot be decoded
            stored.error = error
        finally:
            stored.ended = True
            stored.changed()
            del self._running[answer_id]

    @staticmethod
    async def _read(recorder: Recorder, stored: Stored) -> None:
        tap = ChatCompletionParser(**stored.response)
        async for data in recorder.aiter_bytes():
            stored.reads.append(data)
            stored.changed()
            tap.fold(data)
            if tap.end is not None:  # some servers leave the connection open after `[DONE]`
                break

    def start(self) -> str:
        """A new answer; returns its id, which cannot be guessed."""
        answer_id = uuid4().hex
        self._running[answer_id] = Stored()
        return answer_id

    def find(self, answer_id: str) -> Stored | None:
        """An answer that is being written, or one from its file; None if there is neither."""
        path = self._folder / f"{answer_id}.jsonl"
        if answer_id in self._running or not re.fullmatch("[0-9a-f]{32}", answer_id) or not path.exists():
            return self._running.get(answer_id)
        recording = Recording.load(path)
        stored = Stored()
        stored.reads = [read.data for read in recording.reads]
        stored.response = {"status_code": recording.status_code, "headers": recording.headers}
        stored.ended = True
        stored.error = RecordedTransportError(recording.error) if recording.end == "error" else None
        return stored


async def events_of(stored: Stored, after: int) -> AsyncIterator[bytes]:
    """The events after that id. The same bytes give the same events, however they come, so an id is a number."""
    ids = count(1)
    await stored.responded()
    try:
        async with AsyncChatCompletionStream(stored.follow(), **stored.response) as stream:
            async for text in stream.text_deltas():
                if (number := next(ids)) > after:
                    yield encode_event(json.dumps(text), id=str(number))
        last = ("finished", stream.completion().finish_reason)
    except (ChunkfoldError, httpx.TransportError) as error:
        last = ("failed", type(error).__name__)
    yield encode_event(json.dumps(last[1]), event=last[0], id=str(next(ids)))


async def ask(request: Request) -> Response:
    """Start an answer. It is written and kept even if no client reads it."""
    question = await asked(request, itemgetter("question"))
    body = {"model": MODEL, "messages": [{"role": "user", "content": question}], "stream": True}
    state = request.state
    answer_id = state.answers.start()
    state.tasks.start_soon(state.answers.fetch, answer_id, state.client, body)
    return JSONResponse({"id": answer_id}, 201)


async def read(request: Request) -> Response:
    """The endpoint for an `EventSource`, which sends the id of its last event when it reconnects."""
    stored = request.state.answers.find(request.path_params["answer_id"])
    if stored is None:
        return Response(status_code=404)  # which an `EventSource` takes as an end
    after = request.headers.get("last-event-id", "")
    return event_stream(events_of(stored, int(after) if after.isascii() and after.isdigit() else 0))


@asynccontextmanager
async def with_tasks(app: Starlette) -> AsyncGenerator[dict[str, Any]]:
    """The client, the answers, and the tasks that fetch them; these end with the server."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Answers(Path(os.environ.get("ANSWERS", folder)))
        async with lifespan(app) as state, anyio.create_task_group() as tasks:
            yield {**state, "answers": answers, "tasks": tasks}
            tasks.cancel_scope.cancel()


async def page(_: Request) -> Response:
    """The page."""
    return HTMLResponse(PAGE)


ROUTES = [Route("/", page), Route("/answers", ask, methods=["POST"]), Route("/answers/{answer_id}", read)]
app = Starlette(lifespan=with_tasks, routes=ROUTES)

if __name__ == "__main__":
    serve(app)
