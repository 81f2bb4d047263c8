"""`stream.events()`, sync and async: the parser's events, as they arrive, after a break, and after chunks were read."""

from typing import Any

import pytest
from event_rows import A_DONE, A_STARTS, A, briefly, calls, short_repr
from fronts import over_both_streams

from chunkfold.testing import DONE, Answer, ManualClock, delta, paced
from chunkfold.testing.playback import Playback

pytest_generate_tests = over_both_streams


def opened(front: Any, pieces: list[bytes], **options: Any) -> Any:
    return front(Playback(Answer(pieces)), **options)


HELLO = [delta(role="assistant"), delta(content="Hello"), delta(content=" world"), calls(A), delta("tool_calls"), DONE]  # fmt: skip
OF_HELLO = [("text", "Hello"), ("text", " world"), *A_STARTS, A_DONE, ("finished", "tool_calls", "tool_calls")]


async def test_events_come_as_they_arrive(front: Any) -> None:
    clock = ManualClock()
    stream = front(Playback(Answer(paced(HELLO, pace=1)), clock=clock))
    told = [(short_repr(one)[0], clock()) async for one in stream.events()]
    assert told == [("text", 1), ("text", 2), ("started", 3), ("arguments", 3), ("done", 4), ("finished", 4)]


async def test_events_after_some_chunks_begin_with_what_has_arrived(front: Any) -> None:
    stream = opened(front, HELLO)
    chunks = aiter(stream)
    assert [(await anext(chunks)).text for _ in range(3)] == ["", "Hello", " world"]
    assert briefly([one async for one in stream.events()]) == [("text", "Hello world"), *OF_HELLO[2:]]


@pytest.mark.parametrize("pieces", [HELLO, [b"".join(HELLO)]], ids=["a read each", "one read"])
async def test_going_on_after_a_break(front: Any, pieces: list[bytes]) -> None:
    stream = opened(front, pieces)
    told = []
    for _ in range(2):
        async for one in stream.events():
            told.append(one)
            break
    events = stream.events()
    told += [await anext(events)]  # and with the same iterator
    assert briefly(told + [one async for one in events]) == OF_HELLO
