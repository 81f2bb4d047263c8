"""Other libraries, each used as its documentation says, against a provider on this machine that sends the body.

They are imported only when they are tested, and by name, since none of them is a dependency. Each is used in its most
lenient way: no retries, usage requested, the message taken unchanged, without the checks that refuse a `length`; openai
by `create` and its state, which get more right than its `stream`.
"""

import gc
import importlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

from chunkfold.testing.answers import Answer
from chunkfold.testing.hostile.clients import Client
from chunkfold.testing.provider import FakeProvider
from chunkfold.testing.readings import Call, Reading, as_reading, as_text, counts

_MESSAGES: Final = [{"role": "user", "content": "Say hi."}]
_WITH_USAGE: Final = {"include_usage": True}
_OPTIONS: Final[Any] = {"api_key": "sk-fake", "max_retries": 0, "timeout": 20.0}  # seconds; each calls them the same
_LANGCHAIN_COUNTS: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}


def is_installed(name: str) -> bool:
    """Whether that peer can be imported here."""
    return importlib.util.find_spec(name.replace("-", "_")) is not None


@contextmanager
def running_peers() -> Generator[list[Client]]:
    """The peers that are installed; the provider they talk to runs until the block ends.

    Inside the block warnings and logs are turned off, since the peers emit many of both for such streams. And garbage
    is collected only between streams: a stream that a peer abandoned after an exception is closed when it is collected,
    and if that happens while the same thread holds the lock of httpcore's connection pool, the thread waits forever.
    """
    disabled = logging.root.manager.disable
    frozen = gc.get_freeze_count()
    logging.disable()
    try:
        with FakeProvider() as provider, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {name: peer for name, peer in PEERS.items() if is_installed(name)}
            peers = [Client(name, version(name), _folding(provider, peer)) for name, peer in found.items()]
            gc.collect()
            gc.freeze()  # what is loaded by now need not be traversed after each stream
            gc.disable()
            yield peers
    finally:
        gc.enable()
        if not frozen:  # else that is for the caller to end
            gc.unfreeze()
        logging.disable(disabled)


def _folding(provider: FakeProvider, peer: Callable[[str], Callable[[], Reading]]) -> Callable[[bytes], Reading]:
    ask = peer(provider.base_url)

    def fold(body: bytes) -> Reading:
        gc.collect()  # what the stream before left; its exception is gone by now
        provider.add(_answer(body))
        return ask()

    return fold


def _openai(base_url: str) -> Callable[[], Reading]:
    """The SDK: the chunks of `create`, assembled by its `ChatCompletionStreamState`."""
    new_state: Any = importlib.import_module("openai.lib.streaming.chat").ChatCompletionStreamState
    client: Any = importlib.import_module("openai").OpenAI(base_url=base_url, **_OPTIONS)

    def ask() -> Reading:
        state: Any = new_state()
        for chunk in client.chat.completions.create(
            model="m", messages=_MESSAGES, stream=True, stream_options=_WITH_USAGE
        ):
            state.handle_chunk(chunk)
        return replace(as_reading(state.current_completion_snapshot), reasoning=None)  # it does not know any

    return ask


def _langchain(base_url: str) -> Callable[[], Reading]:
    """LangChain: the chunks of `ChatOpenAI.stream`, added up."""
    model: Any = importlib.import_module("langchain_openai").ChatOpenAI(
        model="m", base_url=base_url, stream_usage=True, **_OPTIONS
    )

    def ask() -> Reading:
        message: Any = None
        for chunk in model.stream("Say hi."):
            message = chunk if message is None else message + chunk
        return Reading(
            texts=(str(message.text),),
            calls=tuple(
                Call(as_text(call["name"]), as_text(call["args"]), call["id"]) for call in message.tool_call_chunks
            ),
            finish_reason=message.response_metadata.get("finish_reason") or "",
            usage=counts(message.usage_metadata, _LANGCHAIN_COUNTS),
        )

    return ask


def _litellm(base_url: str) -> Callable[[], Reading]:
    """LiteLLM: the chunks of `completion`, assembled by `stream_chunk_builder`."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import asks the network
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True

    def ask() -> Reading:
        stream = litellm.completion(
            model="openai/m",
            messages=_MESSAGES,
            base_url=base_url,
            stream=True,
            stream_options=_WITH_USAGE,
            **_OPTIONS,
        )
        completion = litellm.stream_chunk_builder(list(stream), messages=_MESSAGES)
        message = completion.choices[0].message
        return replace(as_reading(completion), reasoning=as_text(getattr(message, "reasoning_content", None)))

    return ask


PEERS: Final = {"openai": _openai, "langchain-openai": _langchain, "litellm": _litellm}


def _answer(body: bytes) -> Answer:
    """The body with the content type that it would have."""
    kinds = {b"{": "application/json", b"<": "text/html"}
    kind = kinds.get(body.strip()[:1], "text/event-stream")
    return Answer(body, headers={"content-type": kind})
