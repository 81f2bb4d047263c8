"""A server that really runs, and what tests ask of it: by this library, by its commands, and by openai's SDK."""

from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from command_line import Ran, run

from chunkfold import ChatCompletion, aconnect, connect

TIMEOUT = 60.0


@dataclass(frozen=True)
class Server:
    """One that runs, as a client sees it.

    Attributes:
        protocol: What is spoken behind a gateway.
        process: What runs the model.
        asking: What each request to it has beside its question.
    """

    name: str
    base_url: str
    model: str
    headers: dict[str, str]
    protocol: str = ""
    process: Any = None
    asking: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.base_url}/chat/completions"

    @property
    def key(self) -> str:
        return self.headers.get("authorization", "Bearer sk-to-a-server-without-keys").removeprefix("Bearer ")


def asked(server: Server, scenario: str, **more: Any) -> dict[str, Any]:
    question = {"role": "user", "content": f"scenario-{scenario}"}
    usage = {"include_usage": True}
    return {"model": server.model, "messages": [question], "stream_options": usage, **server.asking, **more}


def read(server: Server, scenario: str, *, strict: bool = False, **more: Any) -> tuple[ChatCompletion, set[str]]:
    body = asked(server, scenario, **more)
    with (
        httpx.Client(timeout=TIMEOUT, headers=server.headers) as client,
        connect(client, "POST", server.url, json=body, strict=strict) as stream,
    ):
        completion = stream.read()
    return completion, {anomaly.rule.id for anomaly in stream.anomalies}


async def texts_of_a_hundred_at_once(server: Server, connections: int = 100) -> list[str]:
    came: list[str] = []

    async def one(client: httpx.AsyncClient) -> None:
        async with aconnect(client, "POST", server.url, json=asked(server, "text")) as stream:
            came.append((await stream.read()).text)

    limits = httpx.Limits(max_connections=connections)
    async with (
        httpx.AsyncClient(timeout=240, headers=server.headers, limits=limits) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(100):
            group.start_soon(one, client)
    return came


def command(server: Server, name: str, *arguments: str, by: Any = run) -> Ran:
    headers = [part for name, value in server.headers.items() for part in ("--header", f"{name}: {value}")]
    ran: Ran = by(name, server.base_url, "-m", server.model, *arguments, *headers)
    return ran


def openai_client(base_url: str, key: str = "none", **options: Any) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=TIMEOUT, **options)
