"""A status that is not 2xx."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from fronts import (
    PATIENCE,
    STREAMS,
    by_turns,
    connections_in_use,
    generators_of_httpx_are_not_ours,
    has_left,
    over_both_streams,
    raw_client_of,
    send,
)
from sources import SILENCE, texts_of

from chunkfold import APIStatusError, StreamEnd
from chunkfold.testing import Answer, FakeProvider, json_answer, stalled

pytestmark = generators_of_httpx_are_not_ours
pytest_generate_tests = over_both_streams

REFUSAL = {"error": {"message": "no", "type": "some_error", "code": "some_code", "param": "n"}}


@asynccontextmanager
async def answered(library: Any, front: Any, answer: Answer, **client_options: Any) -> AsyncIterator[Any]:
    """A stream over a provider's answer."""
    async with AsyncExitStack() as stack:
        provider = stack.enter_context(FakeProvider(answer))
        client = await stack.enter_async_context(raw_client_of(front, library, **client_options))
        yield await stack.enter_async_context(front(await send(client, provider.url)))


@by_turns("status", [302, 400, 401, 404, 429, 500, 503, 529], STREAMS)
async def test_a_status_that_is_not_2xx(library: Any, front: Any, status: int) -> None:
    headers = {"location": "/elsewhere", "x-request-id": "r1", "retry-after": "7", "X-RateLimit-Limit-Requests": "60"}
    async with answered(library, front, json_answer(REFUSAL, status, headers)) as stream:
        with pytest.raises(APIStatusError) as caught:
            await texts_of(stream)
    error = caught.value
    assert (stream.end, stream.error) == (StreamEnd.FAILED, error)
    assert (error.status_code, error.message, error.raw) == (status, "no", REFUSAL)
    assert (error.request_id, error.retry_after, error.headers["x-ratelimit-limit-requests"]) == ("r1", 7.0, "60")
    assert error.retryable is (status == 429 or status >= 500)
    with pytest.raises(APIStatusError):
        stream.completion()


async def test_a_refusal_whose_body_hangs(library: Any, front: Any) -> None:
    answer = Answer(stalled(json_answer(REFUSAL).pieces, 1), 503)
    async with answered(library, front, answer, timeout=library.Timeout(PATIENCE, read=SILENCE)) as stream:
        with pytest.raises(APIStatusError, match="no"):
            await stream.read()


async def test_a_large_body_of_a_refusal_is_not_read_to_its_end(library: Any, front: Any) -> None:
    answer = Answer([b"x" * 2**16] * 1000, 500)
    with FakeProvider(answer) as provider:
        async with raw_client_of(front, library) as client:
            with pytest.raises(APIStatusError) as caught:
                async with front(await send(client, provider.url)) as stream:
                    await stream.read()
            assert connections_in_use(client) == []
            assert has_left(provider.requests[0])
    assert len(caught.value.raw) <= 2**20
    assert len(str(caught.value)) < 1000


async def test_a_refusal_that_is_not_read(library: Any, front: Any) -> None:
    """Nothing was asked, so nothing is raised."""
    async with answered(library, front, Answer(b"{}", 500)) as stream:
        pass
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
