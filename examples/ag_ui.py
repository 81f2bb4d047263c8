"""An AG-UI agent, as CopilotKit and other pages talk to one: the events of a stream become those of a run.

Run it, and point `new HttpAgent({ url })` of @ag-ui/client at what it prints. To serve:
OPENAI_BASE_URL=https://... OPENAI_API_KEY=... uvicorn --app-dir examples ag_ui:app
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import httpx
from _chat_backend import MODEL, app_with, asked, event_stream
from _server import serve
from starlette.requests import Request
from starlette.responses import Response

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletionEvent,
    ChunkfoldError,
    ReasoningDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    aconnect,
    encode_event,
)

STARTS: dict[str, list[dict[str, Any]]] = {
    "text": [{"type": "TEXT_MESSAGE_START", "role": "assistant"}],
    "reasoning": [{"type": "REASONING_START"}, {"type": "REASONING_MESSAGE_START", "role": "reasoning"}],
}
CONTENTS = {"text": "TEXT_MESSAGE_CONTENT", "reasoning": "REASONING_MESSAGE_CONTENT"}
ENDS = {"text": ["TEXT_MESSAGE_END"], "reasoning": ["REASONING_MESSAGE_END", "REASONING_END"]}


class Run:
    """Translates events. Text and reasoning are messages that are started and ended; one is open at a time."""

    def __init__(self) -> None:
        self._open: tuple[str, str] | None = None  # the kind of message, its id
        self._answer_id = str(uuid4())  # of the message that has the text and the calls
        self._call_ids: dict[int, str] = {}
        self._ended: set[int] = set()

    def events_of(self, event: ChatCompletionEvent) -> Iterator[dict[str, Any]]:
        """An event in AG-UI; nothing if AG-UI has no such event."""
        match event:
            case TextDelta(delta=delta):
                yield from self._grow("text", delta)
            case ReasoningDelta(delta=delta):
                yield from self._grow("reasoning", delta)
            case ToolCallStarted(position=position) if event.is_server_side:  # the page has nothing to run
                self._ended.add(position)
            case ToolCallStarted(position=position, id=call_id, name=name):
                self._call_ids[position] = call_id or f"call_{uuid4()}"
                yield from self.close_message()
                started = {"toolCallId": self._call_ids[position], "toolCallName": name}
                yield {"type": "TOOL_CALL_START", **started, "parentMessageId": self._answer_id}
            case ToolCallArgumentsDelta(position=position, delta=delta) if position not in self._ended:
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": self._call_ids[position], "delta": delta}
            case ToolCallDone(position=position) if position not in self._ended:  # it comes again if arguments follow
                self._ended.add(position)
                yield {"type": "TOOL_CALL_END", "toolCallId": self._call_ids[position]}
            case _:
                pass

    def _grow(self, kind: str, delta: str) -> Iterator[dict[str, Any]]:
        if self._open is None or self._open[0] != kind:
            yield from self.close_message()
            self._open = (kind, self._answer_id if kind == "text" else str(uuid4()))
            yield from ({**start, "messageId": self._open[1]} for start in STARTS[kind])
        yield {"type": CONTENTS[kind], "messageId": self._open[1], "delta": delta}

    def close_message(self) -> Iterator[dict[str, Any]]:
        """The end of the message that is open, if one is."""
        if self._open is not None:
            kind, message_id = self._open
            yield from ({"type": end, "messageId": message_id} for end in ENDS[kind])
            self._open = None


async def events_of(stream: AsyncChatCompletionStream) -> AsyncIterator[dict[str, Any]]:
    """The events of an answer, without the start and the end of its run."""
    run = Run()
    async for event in stream.events():
        for translated in run.events_of(event):
            yield translated
    for end in run.close_message():
        yield end


async def run_of(client: httpx.AsyncClient, run: dict[str, Any], body: dict[str, Any]) -> AsyncIterator[bytes]:
    """A run on the wire: it starts, and is finished or has an error."""
    yield encode_event(json.dumps({"type": "RUN_STARTED", **run}))
    try:
        async with aconnect(client, "POST", "chat/completions", json=body) as stream:
            async for event in events_of(stream):
                yield encode_event(json.dumps(event))
        yield encode_event(json.dumps({"type": "RUN_FINISHED", **run}))
    except (ChunkfoldError, httpx.TransportError) as error:  # its message may quote a key, and stays here
        failed = {"message": "The model did not answer.", "code": type(error).__name__}
        yield encode_event(json.dumps({"type": "RUN_ERROR", **failed}))


def read(sent: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ids of a run, and the request to the provider: AG-UI's messages and tools in OpenAI's form."""
    body: dict[str, Any] = {"model": MODEL, "messages": [message_of(message) for message in sent["messages"]]}
    names = ("name", "description", "parameters")
    tools = [{name: tool[name] for name in names if name in tool} for tool in sent.get("tools", ())]
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    return {"threadId": sent["threadId"], "runId": sent["runId"]}, body


def message_of(sent: dict[str, Any]) -> dict[str, Any]:
    """One message: the same roles and the same calls; two names are written differently."""
    renamed = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
    kept = ("role", "content", "toolCalls", "toolCallId")
    return {renamed.get(name, name): sent[name] for name in kept if name in sent}


async def run_agent(request: Request) -> Response:
    """The endpoint that an `HttpAgent` posts to."""
    run, body = await asked(request, read)
    return event_stream(run_of(request.state.client, run, body))


app = app_with("/", run_agent)

if __name__ == "__main__":
    serve(app)
