"""Serve the apps of the examples on this machine."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import httpx
import uvicorn
from _provider import base_url
from starlette.applications import Starlette

import chunkfold


@contextmanager
def serving(app: Starlette) -> Generator[str]:
    """Serve an app from a thread, on a free port, and yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))  # connections are accepted from now on
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def ask_through(relay: Starlette) -> None:
    """Ask the provider through a relay, and print the answer."""
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
    request = {
        "model": os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
        "messages": [{"role": "user", "content": "Greet me in one sentence."}],
        "stream_options": {"include_usage": True},
    }
    with base_url() as base:
        os.environ["OPENAI_BASE_URL"] = base
        with (
            serving(relay) as url,
            httpx.Client(headers=headers, timeout=120) as client,
            chunkfold.connect(client, "POST", f"{url}/v1/chat/completions", json=request) as stream,
        ):
            answer = stream.read()
        print(answer.text, stream.end, sep="\n")  # after the relay's line, which another thread prints


def serve(app: Starlette) -> None:
    """Serve an app until Ctrl-C."""
    with base_url() as base:
        os.environ["OPENAI_BASE_URL"] = base
        with serving(app) as url, suppress(KeyboardInterrupt):
            print(url, flush=True)
            Event().wait()
