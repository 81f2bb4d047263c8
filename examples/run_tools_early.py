"""Run each tool as soon as its call is done, while the model still writes the next one.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import asyncio
import os
from typing import Any

import httpx
from _provider import base_url
from pydantic import BaseModel

from chunkfold import ToolCallDone, aconnect

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


class Place(BaseModel):
    """The arguments of `weather`."""

    city: str


async def run(done: ToolCallDone) -> dict[str, Any]:
    """Run one tool; the result is a message that names the call it answers."""
    content = f"no such tool: {done.call.name}"
    if done.error:
        content = str(done.error)  # the model may correct itself
    elif isinstance(done.parsed, Place):
        await asyncio.sleep(0.05)  # stands for a request
        content = {"Lisbon": "sun, 24 °C", "Oslo": "snow, -3 °C"}.get(done.parsed.city, "unknown")
    print(f"{done.call.name}({done.call.arguments}) -> {content}", flush=True)
    return {"role": "tool", "tool_call_id": done.call.id, "content": content}


async def main(url: str) -> None:
    """Ask until the model answers without calling anything. A stream that fails cancels what it started."""
    tools = [{"type": "function", "function": {"name": "weather", "parameters": Place.model_json_schema()}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How is the weather in Lisbon and in Oslo?"}]
    async with httpx.AsyncClient(headers=HEADERS, timeout=120) as client:
        while messages[-1]["role"] != "assistant":
            request = {"model": MODEL, "messages": messages, "tools": tools}
            running: dict[int, asyncio.Task[dict[str, Any]]] = {}
            response = aconnect(client, "POST", url, json=request, tools={"weather": Place})
            async with asyncio.TaskGroup() as tasks, response as stream:
                async for event in stream.events():
                    if isinstance(event, ToolCallDone) and not event.call.is_server_side:
                        running[event.position] = tasks.create_task(run(event))
                print("the stream has ended", flush=True)
            messages.append(stream.completion().message.to_param())
            messages += [task.result() for _, task in sorted(running.items())]
    print(messages[-1]["content"])


if __name__ == "__main__":
    with base_url("run_tools_early") as base:
        asyncio.run(main(f"{base}/chat/completions"))
