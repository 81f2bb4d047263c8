"""A provider's own client, built on chunkfold: sync and async, typed errors, and retries until there is output.

It needs stamina. The provider is `OPENAI_BASE_URL` with the key `OPENAI_API_KEY`, or one on this machine without them.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager

import httpx
import stamina
from _provider import base_url

from chunkfold import ChatCompletionEvent, ChunkfoldError, aconnect, connect, is_retryable


class AcmeError(Exception):
    """A request failed; the cause is the exception of chunkfold or httpx, with the details."""


class AcmeKeyError(AcmeError):
    """The key is wrong, or lacks a permission."""


class AcmeBusyError(AcmeError):
    """There were too many requests, even after the retries."""


@contextmanager
def _own_errors() -> Generator[None]:
    try:
        yield
    except (ChunkfoldError, httpx.TransportError) as exc:
        kinds = {401: AcmeKeyError, 403: AcmeKeyError, 429: AcmeBusyError, 503: AcmeBusyError}
        raise kinds.get(getattr(exc, "status_code", None) or 0, AcmeError)(str(exc)) from exc


def wait_or_give_up(exc: Exception) -> float | bool:
    """For stamina: the seconds that the provider asks for, True for the usual wait, False to give up."""
    seconds: float = getattr(exc, "retry_after", None) or 0
    return is_retryable(exc) and seconds <= 60 and (seconds or True)


class Acme(httpx.Client):
    """An httpx client, created with the provider's base URL, the key and the timeouts."""

    @contextmanager
    def chat(self, **request: object) -> Generator[Iterator[ChatCompletionEvent]]:
        """Retry until an answer has begun, and yield all of its events; leaving `with` closes it."""
        with _own_errors(), ExitStack() as stack:
            for attempt in stamina.retry_context(wait_or_give_up, attempts=3, timeout=None):
                with attempt:
                    stream = stack.enter_context(connect(self, "POST", "chat/completions", json=request))
                    while stream.timing.first_output is None and not stream.snapshot.finish_reason:
                        next(stream)
            yield stream.events()


class AsyncAcme(httpx.AsyncClient):
    """The same, async."""

    @asynccontextmanager
    async def chat(self, **request: object) -> AsyncGenerator[AsyncIterator[ChatCompletionEvent]]:
        """Retry until an answer has begun, and yield all of its events; leaving `async with` closes it."""
        async with AsyncExitStack() as stack:
            stack.enter_context(_own_errors())
            async for attempt in stamina.retry_context(wait_or_give_up, attempts=3, timeout=None):
                with attempt:
                    stream = await stack.enter_async_context(aconnect(self, "POST", "chat/completions", json=request))
                    while stream.timing.first_output is None and not stream.snapshot.finish_reason:
                        await anext(stream)
            yield stream.events()


if __name__ == "__main__":
    key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'none'}"}
    request = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Greet me."}]}
    with base_url() as base, Acme(base_url=base, headers=key, timeout=120) as acme, acme.chat(**request) as events:
        print(*events, sep="\n")
