"""Streams that are dropped while they are open, or as the event loop ends."""

import gc
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asked import COUNTED, NUMBERS, apart, asked
from fronts import PATIENCE, STREAMS, Sync, by_turns, over_both_streams
from sources import ERROR, async_generator
from spotless import OWN_TO_HTTPX, spotless_loop
from ways_out import (
    close_at_once,
    leave_at_once,
    leave_at_the_finish_reason,
    leave_at_the_first,
    leave_the_events,
    read_it,
    read_to_the_end,
)

from chunkfold import APIError
from chunkfold.testing import Answer

pytest_generate_tests = over_both_streams


@contextmanager
def dropping() -> Iterator[list[str]]:
    """What is said of streams that are dropped inside, and of nothing else."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield said
        gc.collect()
    assert {warning.category for warning in warned} <= {ResourceWarning}
    said += [text for warning in warned if not OWN_TO_HTTPX.match(text := str(warning.message))]


async def read_one_and_close(stream: Any) -> None:
    await leave_at_the_first(stream)
    await stream.aclose()


async def close_the_response(stream: Any) -> None:
    await leave_at_the_first(stream)
    closing = stream.response.close() if isinstance(stream, Sync) else stream.response.aclose()
    await closing if closing is not None else None


async def see_the_error(stream: Any) -> None:
    with pytest.raises(APIError):
        await stream.read()


OPEN = [leave_at_once, leave_at_the_first, leave_the_events, leave_at_the_finish_reason]
OVER = [read_it, read_to_the_end, close_at_once, read_one_and_close, close_the_response, see_the_error]


USES = {use.__name__: use for use in [*OPEN, *OVER]}


@by_turns("name", USES, STREAMS)
async def test_dropping_a_stream(library: Any, front: Any, name: str) -> None:
    """A warning of one that is open, with nothing of the content."""
    use = USES[name]
    failing = [*NUMBERS, ERROR, math.inf]
    pieces = failing if use is see_the_error else [*apart(COUNTED[:-1]), math.inf] if use in OPEN else apart(COUNTED)
    async with asked(library, front, Answer(pieces)) as to:
        to.may_keep = True  # the connection is free when the client is closed
        stream = await to.open()
        await use(stream)
        with dropping() as said:
            to.streams.clear()
            del stream
        assert [text[:9] for text in said] == (["unclosed "] if use in OPEN else [])
        assert not [text for text in said if "[1" in text]


async def test_dropping_a_stream_over_an_iterable(front: Any) -> None:
    async with spotless_loop():
        for read in (leave_at_once, leave_at_the_first):
            source = iter(COUNTED) if front is Sync else async_generator(COUNTED)
            stream = front(source)
            await read(stream)
            with dropping() as said:
                del stream
            assert said == []
            if front is not Sync:
                await source.aclose()


async def test_a_stream_that_could_not_be_made(library: Any, front: Any) -> None:
    """There is nothing to close, and whoever has the response keeps it."""
    async with asked(library, front, Answer([*NUMBERS, math.inf])) as to:
        with dropping() as said:
            with pytest.raises(TypeError):
                front(b"data: x")
            with pytest.raises(TypeError):
                front(5)
            with pytest.raises(TypeError):
                await to.open(no_option=1)
        assert said == []
        to.may_keep = True


LEFT_OPEN = """
import asyncio, importlib, math, sys
from chunkfold import AsyncChatCompletionStream
from chunkfold.testing import Answer, FakeProvider

async def main(library, use):
    if backend == "asyncio":
        asyncio.get_running_loop().slow_callback_duration = 60
    with FakeProvider(Answer([{first!r}, math.inf])) as provider:
        async with library.AsyncClient(trust_env=False, verify=False) as client:
            response = await client.send(client.build_request("POST", provider.url), stream=True)
            stream = AsyncChatCompletionStream(response)
            if use == "half read":
                async for chunk in stream:
                    break
            elif use == "its events":
                async for event in stream.events():
                    break

backend = sys.argv[1]
for name in ("httpx", "httpx2"):
    for use in ("unread", "half read", "its events"):
        if backend == "asyncio":
            asyncio.run(main(importlib.import_module(name), use))
        else:
            import trio
            trio.run(main, importlib.import_module(name), use)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_that_is_still_open_as_the_event_loop_ends(backend: str) -> None:
    """A warning for each, and no word besides."""
    options = ["-X", "dev", "-W", "always::ResourceWarning"]
    script = LEFT_OPEN.format(first=NUMBERS[0])
    done = subprocess.run(
        [sys.executable, *options, "-c", script, backend], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    hint = "ResourceWarning: Enable tracemalloc to get the object allocation traceback"
    said = [line for line in done.stderr.splitlines() if line != hint and not line.startswith("  ")]  # a line of code
    if backend == "trio":
        said = [line for line in said if not OWN_TO_HTTPX.search(line)]
    assert [line.partition("ResourceWarning: ")[2][:9] for line in said] == ["unclosed "] * 6, done.stderr
