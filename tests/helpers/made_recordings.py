"""Recordings of streams with times, for tests of what is drawn of them."""

from chunkfold.recording import RecordedRead, Recording
from chunkfold.testing import DONE, StreamBuilder, choice, chunk, delta, fragment, fragments, usage

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;\x00\x1b[31m\u202eevil\u2066\u2028\x85"


def recording(*reads: tuple[float, bytes], seconds: float = 2.0, **fields: object) -> Recording:
    """A recording of these reads that took that long."""
    given = {"headers_at": 0.1, "ended_at": seconds, "url": "https://api.example.com/v1/chat/completions", **fields}
    return Recording(tuple(RecordedRead(at, data) for at, data in reads), **given)  # type: ignore[arg-type]


KEEP_ALIVE = b": keep-alive\n\n"
WHOLE = recording(
    (0.2, delta(role="assistant", content="")),
    (0.3, delta(reasoning_content="Let me ")),
    (0.4, delta(reasoning_content="think.")),
    (0.9, KEEP_ALIVE),
    (1.4, delta(content="One moment, ")),
    (1.5, delta(content="please.") + fragments(fragment(0, "call_0", "look_up", ""))),
    (1.6, fragments(fragment(0, arguments='{"city": "Porto"}'))),
    (1.7, delta("tool_calls") + chunk(usage=usage(12, 28))),
    (1.8, DONE),
    headers={"content-type": "text/event-stream"},
)
CUT = recording((0.3, delta(content="One ")), (0.5, delta(content="mo")), end="error", error="ReadError")
REFUSED = recording(
    (0.2, b'{"error": {"message": "slow down", "type": "rate_limit", "code": 429}}'), status_code=429, seconds=0.3
)
PLAIN = Recording((RecordedRead(0.0, WHOLE.body),))
EMPTY = Recording(())
HOSTILE_RECORDING = recording(
    (0.2, delta(role=HOSTILE, content=HOSTILE, reasoning=HOSTILE, refusal=HOSTILE)),
    (0.3, fragments(fragment(0, "call_0", HOSTILE, HOSTILE))),
    (0.4, chunk(choice(index=1, content=HOSTILE), id=HOSTILE, model=HOSTILE)),
    (0.5, delta(HOSTILE)),
    (0.6, StreamBuilder().error(HOSTILE, code=HOSTILE).body),
    url=f"https://x/{HOSTILE}",
    headers={f"x-{HOSTILE}": HOSTILE},
    end="error",
    error=HOSTILE,
)
EVERY = {
    "whole": WHOLE,
    "cut": CUT,
    "refused": REFUSED,
    "plain": PLAIN,
    "empty": EMPTY,
    "empty, with times": recording(end="left"),
    "one chunk": recording((0.2, delta("stop", content="a"))),
    "all at once": recording((0.2, delta(content="a")), (0.2, delta("stop", content="b")), seconds=0.2),
    "hostile": HOSTILE_RECORDING,
    "usage in each": recording(
        *((0.2 + 0.1 * n, chunk(choice(content="a"), usage={"completion_tokens": n})) for n in range(1, 9))
    ),
    "hours": recording((0.2, delta(content="a")), (9000.0, delta("stop", content="b")), seconds=9001.0),
    "stalled": recording((0.2, delta(content="a")), (1.4, KEEP_ALIVE), end="left", progress_timeout=1.0),
    "very short": recording((2e-6, delta(content="a")), (3e-6, delta("stop")), seconds=4e-6, headers_at=None),
    "a whole completion": recording(
        (0.3, b'{"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'),
        seconds=0.4,
    ),
    "html": recording((0.3, b"<html>busy</html>")),
    "images and audio": recording(
        (0.3, delta(images=[{"type": "image_url", "image_url": {"url": "data:,"}}])),
        (0.4, delta("stop", audio={"data": "AAAA", "transcript": "hi"})),
    ),
    "many of each": recording(
        *((0.2, delta(index=index, content="a" * 4000)) for index in range(6)),
        *(
            (0.3 + place / 100, fragments(fragment(place, f"call_{place}", f"f{place}", '{"a":1}')))
            for place in range(25)
        ),
    ),
    "an old function call": recording((0.3, delta(function_call={"name": "f", "arguments": "{}"}))),
}


def long_recording(count: int, *, usage_in_each: bool = False) -> Recording:
    """A stream of that many chunks, each in a read of its own, every few hundredth of them late."""
    reads: list[RecordedRead] = []
    at = 0.5
    for number in range(1, count + 1):
        at += 0.4 if number % 300 == 0 else 0.001 * (1 + number % 7)
        told = {"usage": {"completion_tokens": number}} if usage_in_each else {}
        reads.append(RecordedRead(at, chunk(choice(content="word "), **told)))
    return Recording(tuple(reads), headers_at=0.4, ended_at=at)
