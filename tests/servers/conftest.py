"""Real servers: each is started once, as its documentation says. The gateways are in front of an upstream on this machine;
the other servers run the model of `transition_model`, whose answers are known.

A server that is not installed is skipped, with the reason.
"""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from real_servers import Server
from transition_model import CONTEXT, write_folder, write_gguf
from upstreams import Upstream

HERE = Path(__file__).parent
PORTKEY = HERE / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
KEY = "sk-for-these-tests-alone-7c1e0f9a4b2d83e6"
PATIENCE = 300.0  # seconds for a start; LiteLLM's imports alone take some
MODELS = {"anthropic": "claude-3-7-sonnet-20250219", "gemini": "gemini-2.5-flash"}


def need(where: str, *packages: str) -> None:
    """Skip where a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package} ({where})")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], ready: str, log: Path, **env: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A server, from the moment on at which a URL answers; it is stopped at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ANTHROPIC_"))}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment | env, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE
            while not answers(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{command[0]} did not start: {log.read_text('utf-8', 'replace')[-2000:]}")
                time.sleep(0.1)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code < 500
    except httpx.TransportError:
        return False


@contextmanager
def litellm(upstream: Upstream, folder: Path) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    need("`uv run --with 'litellm[proxy]'`", "litellm", "fastapi")
    host = upstream.base_url.removesuffix("/v1")
    models = [
        {"model_name": name, "litellm_params": {"model": f"{protocol}/{name}", "api_base": host, "api_key": "none"}}
        for protocol, name in MODELS.items()
    ]
    config = folder / "litellm.yaml"
    settings = {"num_retries": 0}
    config.write_text(
        json.dumps({"model_list": models, "litellm_settings": settings, "router_settings": {"disable_cooldowns": True}})
    )
    port = free_port()
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(config), "--host", "127.0.0.1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY, "no_proxy": "127.0.0.1"}
    base = f"http://127.0.0.1:{port}"
    with running([*command, "--port", str(port)], f"{base}/health/liveliness", folder / "litellm.log", **env):
        yield f"{base}/v1", {protocol: {"authorization": f"Bearer {KEY}"} for protocol in MODELS}


@contextmanager
def portkey(upstream: Upstream, folder: Path) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    node = shutil.which("node")
    if node is None or not PORTKEY.exists():
        pytest.skip("needs Node.js and Portkey's gateway: npm install --prefix tests/servers")
    port = free_port()
    host = upstream.base_url.removesuffix("/v1")
    hosts = {"anthropic": ("anthropic", f"{host}/v1"), "gemini": ("google", f"{host}/v1beta")}
    headers = {
        protocol: {
            "authorization": f"Bearer {KEY}",
            "x-portkey-provider": provider,
            "x-portkey-custom-host": path,
            "x-portkey-strict-open-ai-compliance": "false",  # else it leaves the reasoning out
        }
        for protocol, (provider, path) in hosts.items()
    }
    base = f"http://127.0.0.1:{port}"
    with running([node, str(PORTKEY), f"--port={port}", "--headless"], base, folder / "portkey.log"):
        yield f"{base}/v1", headers


def llama_cpp(folder: Path, context: int) -> Iterator[Server]:
    need("group `servers`", "xllamacpp", "gguf")
    write_gguf(folder / "model.gguf")
    port = free_port()
    command = [sys.executable, str(HERE / "llama_cpp.py"), str(folder / "model.gguf"), str(port), KEY, str(context)]
    base = f"http://127.0.0.1:{port}"
    with running(command, f"{base}/health", folder / "llama.cpp.log") as process:
        yield Server("llama.cpp", f"{base}/v1", "tiny", {"authorization": f"Bearer {KEY}"}, process=process)


def mlx_lm(folder: Path, context: int) -> Iterator[Server]:
    need("`uv run --with 'mlx[cpu]' --with mlx-lm`", "mlx", "mlx_lm")
    write_folder(folder / "model")
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(folder / "model"), "--port", str(port)]
    base = f"http://127.0.0.1:{port}"
    with running(command, f"{base}/health", folder / "mlx.log", HF_HUB_OFFLINE="1") as process:
        yield Server("mlx-lm", f"{base}/v1", "default_model", {}, process=process)


GATEWAYS = {"litellm": litellm, "portkey": portkey}
MODEL_SERVERS = {"llama.cpp": llama_cpp, "mlx-lm": mlx_lm}


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    with Upstream() as running_upstream:
        yield running_upstream


@pytest.fixture(scope="session")
def started(
    request: pytest.FixtureRequest, upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, dict[str, dict[str, str]]]]:
    with ExitStack() as stack:
        base, headers = stack.enter_context(GATEWAYS[request.param](upstream, tmp_path_factory.mktemp(request.param)))
        yield request.param, base, headers


@pytest.fixture
def gateway(started: tuple[str, str, dict[str, dict[str, str]]], protocol: str) -> Server:
    name, base, headers = started
    return Server(name, base, MODELS[protocol], headers[protocol], protocol, asking={"max_tokens": 2000})


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from MODEL_SERVERS[request.param](tmp_path_factory.mktemp(request.param), 8192)


@pytest.fixture(scope="session")
def portkey_url(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with portkey(upstream, tmp_path_factory.mktemp("portkey")) as (base, _):
        yield base


@pytest.fixture
def killable_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """One that the test may kill, with a context that takes it seconds to fill."""
    yield from MODEL_SERVERS[request.param](tmp_path, CONTEXT)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", MODEL_SERVERS, indirect=True, scope="session")
    if "killable_server" in metafunc.fixturenames:
        metafunc.parametrize("killable_server", MODEL_SERVERS, indirect=True)
    if "gateway" in metafunc.fixturenames:
        metafunc.parametrize("started", GATEWAYS, indirect=True, scope="session")
        metafunc.parametrize("protocol", MODELS)
