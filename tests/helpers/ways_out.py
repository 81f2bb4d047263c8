"""The ways in which a consumer comes to the end of a stream or leaves it."""

from collections.abc import Awaitable, Callable
from typing import Any

from sources import texts_of

from chunkfold import TextDelta


async def read_to_the_end(stream: Any) -> None:
    await texts_of(stream)


async def read_it(stream: Any) -> None:
    await stream.read()


async def read_the_texts(stream: Any) -> None:
    assert [delta async for delta in stream.text_deltas()] == ["Hello", " wor", "ld"]


async def leave_at_the_first(stream: Any) -> None:
    async for _ in stream:
        break


async def leave_the_texts(stream: Any) -> None:
    async for _ in stream.text_deltas():
        break


async def read_the_events(stream: Any) -> None:
    assert [event.delta async for event in stream.events() if isinstance(event, TextDelta)] == ["Hello", " wor", "ld"]


async def leave_the_events(stream: Any) -> None:
    async for _ in stream.events():
        break


async def leave_at_the_finish_reason(stream: Any) -> None:
    async for chunk in stream:
        if chunk.choices[0].finish_reason:
            break


async def leave_at_once(stream: Any) -> None:
    pass


async def close_at_once(stream: Any) -> None:
    await stream.aclose()


async def close_in_the_loop(stream: Any) -> None:
    async for _ in stream:
        await stream.aclose()


async def close_behind_the_loop(stream: Any) -> None:
    await texts_of(stream)
    await stream.aclose()
    await stream.aclose()


WAYS_OUT: dict[Callable[[Any], Awaitable[None]], str] = {
    read_to_the_end: "finished",
    read_it: "finished",
    read_the_texts: "finished",
    read_the_events: "finished",
    close_behind_the_loop: "finished",
    leave_at_the_finish_reason: "finished",
    leave_at_the_first: "closed",
    leave_the_texts: "closed",
    leave_the_events: "closed",
    leave_at_once: "closed",
    close_at_once: "closed",
    close_in_the_loop: "closed",
}
