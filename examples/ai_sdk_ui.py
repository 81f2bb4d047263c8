"""A backend for `useChat` of the Vercel AI SDK: the events of a stream become its UI message stream.

Run it, and point `new DefaultChatTransport({ api: "http://.../api/chat" })` at what it prints. To serve:
OPENAI_BASE_URL=https://... OPENAI_API_KEY=... uvicorn --app-dir examples ai_sdk_ui:app
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from _chat_backend import MODEL, app_with, asked, event_stream
from _server import serve
from starlette.requests import Request
from starlette.responses import Response

from chunkfold import (
    AsyncChatCompletionStream,
    ChatCompletion,
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


class UIMessage:
    """Translates events. Text and reasoning are parts that are opened and closed; one is open at a time."""

    def __init__(self) -> None:
        self._open: dict[str, str] = {}
        self._parts = 0
        self._call_ids: dict[int, str] = {}

    def chunks_of(self, event: ChatCompletionEvent) -> Iterator[dict[str, Any]]:
        """An event in the AI SDK's protocol; nothing if the protocol has no such event."""
        match event:
            case TextDelta(delta=delta):
                yield from self._grow("text", delta)
            case ReasoningDelta(delta=delta):
                yield from self._grow("reasoning", delta)
            case ToolCallStarted(position=position, id=call_id, name=name):
                self._call_ids[position] = call_id or f"call_{position}"
                yield from self.close_part()
                yield {"type": "tool-input-start", "toolCallId": self._call_ids[position], "toolName": name}
            case ToolCallArgumentsDelta(position=position, delta=delta):
                yield {"type": "tool-input-delta", "toolCallId": self._call_ids[position], "inputTextDelta": delta}
            case ToolCallDone(position=position, call=call, parsed=parsed, error=error):
                told: dict[str, Any] = {"toolCallId": self._call_ids[position], "toolName": call.name or ""}
                told |= {"providerExecuted": True} if call.is_server_side else {}  # so that the page runs nothing
                if error is None:
                    yield {"type": "tool-input-available", **told, "input": parsed}
                else:
                    yield {"type": "tool-input-error", **told, "input": call.arguments, "errorText": "not JSON"}
            case _:
                pass

    def _grow(self, kind: str, delta: str) -> Iterator[dict[str, Any]]:
        if self._open.get("kind") != kind:
            yield from self.close_part()
            self._open = {"kind": kind, "id": f"{kind}-{self._parts}"}
            self._parts += 1
            yield {"type": f"{kind}-start", "id": self._open["id"]}
        yield {"type": f"{kind}-delta", "id": self._open["id"], "delta": delta}

    def close_part(self) -> Iterator[dict[str, Any]]:
        """The end of the part that is open, if one is."""
        if self._open:
            yield {"type": f"{self._open['kind']}-end", "id": self._open["id"]}
            self._open = {}


async def chunks_of(stream: AsyncChatCompletionStream) -> AsyncIterator[dict[str, Any]]:
    """A whole answer as one step of a message; how it ended and the usage come with `finish`."""
    message = UIMessage()
    yield {"type": "start"}
    yield {"type": "start-step"}
    async for event in stream.events():
        for chunk in message.chunks_of(event):
            yield chunk
    for chunk in message.close_part():
        yield chunk
    yield {"type": "finish-step"}
    yield finish_of(stream.completion())


def finish_of(completion: ChatCompletion) -> dict[str, Any]:
    """The last chunk; outcomes have the AI SDK's names but for the hyphen."""
    outcome = completion.choices[0].outcome if completion.choices else None
    usage = completion.usage.model_dump(exclude_none=True) if completion.usage else None
    return {
        "type": "finish",
        "finishReason": str(outcome or "other").replace("_", "-"),
        "messageMetadata": {"usage": usage},
    }


async def events_for(client: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[bytes]:
    """The protocol on the wire: each chunk as JSON, and `[DONE]`."""
    try:
        async with aconnect(client, "POST", "chat/completions", json=body) as stream:
            async for chunk in chunks_of(stream):
                yield encode_event(json.dumps(chunk))
    except (ChunkfoldError, httpx.TransportError) as error:  # its message may quote a key, and stays here
        yield encode_event(json.dumps({"type": "error", "errorText": type(error).__name__}))
    yield encode_event("[DONE]")


def message_of(sent: dict[str, Any]) -> dict[str, Any]:
    """A message of the page as the provider takes it; here only its text."""
    text = "".join(part["text"] for part in sent["parts"] if part["type"] == "text")
    return {"role": sent["role"], "content": text}


def request_of(sent: dict[str, Any]) -> dict[str, Any]:
    """The request to the provider."""
    messages = [message_of(message) for message in sent["messages"]]
    return {"model": MODEL, "messages": messages, "stream_options": {"include_usage": True}}


async def chat(request: Request) -> Response:
    """The endpoint that `useChat` posts to."""
    events = events_for(request.state.client, await asked(request, request_of))
    return event_stream(events, {"x-vercel-ai-ui-message-stream": "v1"})


app = app_with("/api/chat", chat)

if __name__ == "__main__":
    serve(app)
