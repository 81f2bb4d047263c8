"""A response or a body that raises as it is closed."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

import pytest
from asked import NUMBERS, Mine
from fronts import over_both_streams
from sources import Kin
from spotless import spotless_loop

from chunkfold import StreamEnd

pytest_generate_tests = over_both_streams


class Unwilling(Kin):
    """A response that raises `of_body` when its body is closed, and `of_response` when it is closed itself."""

    def __init__(
        self,
        of_body: BaseException | None = None,
        of_response: BaseException | None = None,
        on_read: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        super().__init__([])
        self.of_body, self.of_response, self.on_read = of_body, of_response, on_read

    def iter_bytes(self) -> "UnwillingBody":
        return UnwillingBody(self)

    aiter_bytes = iter_bytes

    def close(self) -> None:
        super().close()
        if self.of_response is not None:
            raise self.of_response

    async def aclose(self) -> None:
        self.close()


class UnwillingBody:
    """Its body."""

    def __init__(self, response: Unwilling) -> None:
        self.response = response

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> bytes:
        if self.response.on_read is not None:
            with suppress(StopIteration):  # what it awaits is sync code, too
                self.response.on_read().send(None)
        return NUMBERS[0]

    async def __anext__(self) -> bytes:
        if self.response.on_read is not None:
            await self.response.on_read()
        return NUMBERS[0]

    def close(self) -> None:
        if self.response.of_body is not None:
            raise self.response.of_body

    async def aclose(self) -> None:
        self.close()


@pytest.mark.parametrize("failing", ["body", "response"])
@pytest.mark.parametrize("kind", [OSError, Mine])
async def test_closing_that_fails(front: Any, kind: type[BaseException], failing: str) -> None:
    """What a transport raises is no news; what is no `Exception` passes. The response is closed in any case."""
    mine = kind("mine")
    async with spotless_loop():
        response = Unwilling(**{f"of_{failing}": mine})
        raised: BaseException | None = None
        try:
            async with front(response) as stream:
                await anext(aiter(stream))
        except Mine as error:
            raised = error
        assert raised is (mine if kind is Mine else None)
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
        raised = None


class Unfinished(UnwillingBody):
    """A body whose methods to close it cannot even be read."""

    @property
    def close(self) -> Any:
        raise OSError("mine")

    aclose = close


async def test_closing_that_cannot_be_read(front: Any) -> None:
    async with front(Unfinished(Unwilling())) as stream:
        await anext(aiter(stream))
    assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)


async def test_a_body_that_cannot_be_closed_after_its_stream_was(front: Any) -> None:
    """It is closed by whoever reads it, when closing came during a read; that it fails is no news then either."""
    async with spotless_loop():

        async def close() -> None:
            await stream.aclose()

        response = Unwilling(of_body=OSError("mine"), on_read=close)
        stream = front(response)
        async for _ in stream:
            pytest.fail("it was closed")
        assert response.closings == 1
        assert (stream.end, stream.error) == (StreamEnd.CLOSED, None)
