"""Other clients: the same stream to the same message, each used as its documentation says.

All go through the client library that they have and a transport in memory, and so does chunkfold beside each of them:
nothing but the reading of the stream differs. What each makes of it is compared first: a client that is fast because
it loses output would be no comparison.
"""

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bodies import text, tool_arguments
from folding import output_of
from measuring import Figure, Scale, at_least, complain, least_times, say

import chunkfold

TABLE = "peers"
_URL = "http://localhost/v1"
_MESSAGES = [{"role": "user", "content": "Say hi."}]
_KEY = "sk-fake"
_MODEL = "gpt-4o-mini"  # one that they know
_STREAMS = {"text": text, "tool arguments": tool_arguments}
_TARGETS = {("openai", "text"): at_least(30), ("openai", "tool arguments"): at_least(27)}
# So many times fewer chunks than elsewhere. What LangChain takes for arguments grows with their square.
_FEWER = {"openai": 4, "langchain-openai": 10, "litellm": 10}

Read = Callable[[list[bytes]], str]  # the reads of a body to its output


def measure(scale: Scale) -> Iterator[Figure]:
    with _silence():
        for library, make in _LIBRARIES.items():
            if not find_spec(library.replace("-", "_")):
                say(
                    f"peers: {library} is not installed; it is in the group `{'dev' if library == 'openai' else 'peers'}`"
                )
            else:
                client = _client_module()
                for stream in _STREAMS:
                    say(f"peers: {library}, {stream}")
                    yield from _compare(library, stream, make(client), _ours(client), scale)


def _compare(library: str, stream: str, other: Read, ours: Read, scale: Scale) -> Iterator[Figure]:
    body = _STREAMS[stream](scale.smaller(_FEWER[library]))
    subjects = {library: partial(other, body.events), "chunkfold": partial(ours, body.events)}
    for name, read in subjects.items():
        if read() != body.output:
            complain(f"peers: {stream}: {name} gives another message than it should")
            return
    row = (f"{library} {version(library)}", stream)
    yield Figure(TABLE, row, "chunks", len(body.events), needs=library)
    times = least_times(subjects, scale.rounds)
    value = times[library] / times["chunkfold"]
    yield Figure(TABLE, row, "times chunkfold", value, _TARGETS.get((library, stream)), library)


@contextmanager
def _silence() -> Iterator[None]:
    """They log and warn of much."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network
    logging.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def _client_module() -> Any:
    """The client library that the installed openai is made for: httpx2 since its version 3, httpx before."""
    default: type = importlib.import_module("openai").DefaultHttpxClient
    modules = [importlib.import_module(name) for name in ("httpx2", "httpx") if find_spec(name)]
    return next(module for module in modules if issubclass(default, module.Client))


def _http_client(client: Any, reads: list[bytes]) -> Any:
    headers = {"content-type": "text/event-stream"}
    return client.Client(transport=client.MockTransport(lambda _: client.Response(200, headers=headers, content=reads)))


def _ours(client: Any) -> Read:
    """Iterate over the chunks, then take the completion."""

    def read(reads: list[bytes]) -> str:
        with chunkfold.connect(_http_client(client, reads), "POST", _URL, json={"messages": _MESSAGES}) as stream:
            for _ in stream:
                pass
        return output_of(stream.completion())

    return read


def _openai_client(client: Any, reads: list[bytes]) -> Any:
    http_client = _http_client(client, reads)
    openai: Any = importlib.import_module("openai")
    return openai.OpenAI(base_url=_URL, api_key=_KEY, max_retries=0, http_client=http_client)


def _openai(client: Any) -> Read:
    """The SDK: the `Stream` of `create`, put together by its `ChatCompletionStreamState`."""
    new_state: Any = importlib.import_module("openai.lib.streaming.chat").ChatCompletionStreamState

    def read(reads: list[bytes]) -> str:
        state = new_state()
        completions = _openai_client(client, reads).chat.completions
        for chunk in completions.create(model=_MODEL, messages=_MESSAGES, stream=True):
            state.handle_chunk(chunk)
        return _output(state.current_completion_snapshot.choices[0].message)

    return read


def _langchain(client: Any) -> Read:
    """LangChain: the chunks of `ChatOpenAI.stream`, added up."""
    chat: Any = importlib.import_module("langchain_openai").ChatOpenAI

    def read(reads: list[bytes]) -> str:
        http_client = _http_client(client, reads)
        model = chat(model=_MODEL, base_url=_URL, api_key=_KEY, max_retries=0, http_client=http_client)
        message: Any = None
        for chunk in model.stream("Say hi."):
            message = chunk if message is None else message + chunk
        return str(message.text) + "".join(call["args"] for call in message.tool_call_chunks)

    return read


def _litellm(client: Any) -> Read:
    """LiteLLM: the chunks of `completion`, put together by `stream_chunk_builder`."""
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True

    def read(reads: list[bytes]) -> str:
        openai_client = _openai_client(client, reads)
        chunks = litellm.completion(model=f"openai/{_MODEL}", messages=_MESSAGES, stream=True, client=openai_client)
        return _output(litellm.stream_chunk_builder(list(chunks), messages=_MESSAGES).choices[0].message)

    return read


def _output(message: Any) -> str:
    return (message.content or "") + "".join(call.function.arguments for call in message.tool_calls or ())


_LIBRARIES: dict[str, Callable[[Any], Read]] = {"openai": _openai, "langchain-openai": _langchain, "litellm": _litellm}
