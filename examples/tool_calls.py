"""Let the model call local functions: assemble its tool calls, run them, send back what they return.

The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os
from typing import Any

import httpx
from _provider import base_url
from pydantic import BaseModel

import chunkfold

HEADERS = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


class Place(BaseModel):
    """The arguments of `weather`."""

    city: str


def weather(place: Place) -> str:
    """The function that the model may call."""
    return {"Lisbon": "sun, 24 °C", "Oslo": "snow, -3 °C"}.get(place.city, "unknown")


def run(call: chunkfold.ChatCompletionMessageToolCall) -> dict[str, Any]:
    """Run one tool call; the result is a message that names the call it answers."""
    content = f"no such tool: {call.name}"
    try:
        if call.type == "function" and call.name == "weather":
            content = weather(call.function.parse(Place))
    except chunkfold.ParseError as error:
        content = str(error)  # the model may correct itself
    print(f"{call.name}({call.arguments}) -> {content}")
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def main() -> None:
    """Ask until the model answers without calling anything."""
    tool = {"type": "function", "function": {"name": "weather", "parameters": Place.model_json_schema()}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How is the weather in Lisbon and in Oslo?"}]
    with base_url("tool_calls") as base, httpx.Client(headers=HEADERS, timeout=120) as client:
        while True:
            request = {"model": MODEL, "messages": messages, "tools": [tool]}
            with chunkfold.connect(client, "POST", f"{base}/chat/completions", json=request) as stream:
                completion = stream.read()  # the fragments of parallel calls, each in its own call
            calls = [call for call in completion.tool_calls if not call.is_server_side]
            if not calls:
                break
            messages += [completion.message.to_param(), *map(run, calls)]
    print(completion.text)


if __name__ == "__main__":
    main()
