"""The scripts of `examples/`: as processes of their own, as modules, and what they serve; and answers to them."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from chunkfold.testing import DONE, FakeProvider, chunk, delta, json_answer, usage

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NEEDS = {  # the example → what it needs beside chunkfold's own test group
    "ag_ui": ["starlette", "uvicorn"],
    "ai_sdk_ui": ["starlette", "uvicorn"],
    "asgi_relay": ["starlette", "uvicorn"],
    "for_browsers": ["starlette", "uvicorn"],
    "langchain_model": ["langchain_core"],
    "openai_gateway": ["starlette", "uvicorn"],
    "openai_sdk": ["openai"],
    "other_clients": ["aiohttp", "requests", "urllib3"],
    "resumable_relay": ["starlette", "uvicorn"],
    "rich_ui": ["rich"],
    "sdk_client": ["stamina"],
}
PATIENCE = 30.0  # seconds, after which a test that hangs fails
HI, THERE = delta(content="Hi "), delta(content="there")
STOP, USAGE = delta("stop"), chunk(usage=usage(1000, 500))
WHOLE = [HI, THERE, STOP, USAGE, DONE]
ROLE = delta(role="assistant", content="")
BUSY = json_answer({"error": {"message": "Slow down."}}, 429, {"retry-after": "0"})
BAD_BODIES = [b"{nope", b"[1]", b"\xff", b"[" * 100_000, b'{"temperature": NaN}', b'{"user": "\\ud800"}']
THOUGHT = delta(reasoning_content="They greet.")


def command(name: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-W", "error", "-X", "utf8", EXAMPLES / f"{name}.py", *arguments]


def environment(provider: FakeProvider | None = None) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    if provider is not None:
        env |= {"OPENAI_BASE_URL": f"{provider.base_url}/", "OPENAI_API_KEY": "sk-test", "OPENAI_MODEL": "m"}
    return env | {"no_proxy": "127.0.0.1"}


def load(name: str) -> Any:
    """An example as a module; they import each other's helpers by name."""
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"needs {package}")
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


@contextmanager
def served(name: str, provider: FakeProvider, **variables: str) -> Iterator[str]:
    """Serve an example's app, which asks this provider; gives its URL."""
    variables = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "sk-secret", "no_proxy": "*", **variables}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        app = load(name).app
        with load("_server").serving(app) as url:
            yield url


def check_refusal(response: httpx.Response) -> None:
    """The answer to a bad body is like that of the provider of the kit."""
    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert response.json()["error"]["type"] == "invalid_request_error"
