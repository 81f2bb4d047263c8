"""What the fuzzer starts from: the golden bodies, the hostile set, and words that mean something to a parser."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fuzz.targets import EVENT_NAMES, PLAIN

from chunkfold import EventStreamDecoder
from chunkfold.testing import hostile_streams

GOLDEN: Final = Path(__file__).parents[1] / "golden"
JSON_TEXTS: Final = (
    '{"name": "Lisbon", "celsius": 24.5, "tags": ["a", "b\\u00e9\\ud83d\\ude00"], "x": {"y": [null, true, -0, 1e5]}}',
    '[{"name": "a"}, {"name": "b", "celsius": NaN}]',
    "[1, 2, 3.5, -Infinity]",
    '{"a": 120, "b": [{"name": "\\n\\"\\\\"}]}',
    '"text"',
    "12",
)
WORDS: Final = (
    *(b"data: ", b"data:", b"event: ", b"event: error\n", b"id: ", b"retry: ", b"error: ", b": ", b"\n\n", b"\r\n", b"\r"),
    *(b"\xef\xbb\xbf", b"[DONE]", b"data: [DONE]\n\n", b"null", b"true", b"1e999", b"NaN", b"-0", b"{}", b"[]", b"\\ud83d"),
    *(b"\\ude00", b'"error":', b'"code":', b'"message":', b'"detail":', b'"base_resp":', b'"status_code":', b'"object":'),
    *(b'"choices":[', b'"index":', b'"delta":{', b'"message":{', b'"content":', b'"role":', b'"finish_reason":', b'"stop"'),
    *(b'"tool_calls":[{', b'"id":', b'"type":', b'"function":{', b'"custom":{', b'"name":', b'"arguments":', b'"input":'),
    *(b'"reasoning":', b'"reasoning_content":', b'"reasoning_details":[{', b'"text":', b'"summary":', b'"data":', b'"audio":{'),
    *(b'"images":[', b'"annotations":[', b'"refusal":', b'"function_call":{', b'"logprobs":{', b'"usage":{', b'"x_groq":{'),
    *(b'"prompt_tokens":', b'"completion_tokens":', b'"total_tokens":', b'"thinking"', b"<think>", b"</think>", b"<html>"),
)  # fmt: skip


def seeds_of(target: str) -> Iterator[bytes]:
    """Inputs for a target."""
    if target == "json":
        yield from (PLAIN + text.encode() for text in JSON_TEXTS)
    elif target == "accumulator":
        chance = random.Random(1)  # the same inputs each time
        yield from (PLAIN + chance.randbytes(4 * size) for size in range(24))
    elif target == "payload":
        kinds = [bytes([kind]) + PLAIN[1:] for kind in range(len(EVENT_NAMES))]
        found = sorted({event.data for body in bodies() for event in EventStreamDecoder().feed(body)})
        yield from (kinds[len(data) % len(kinds)] + data for data in found[::5])
    else:
        yield from (PLAIN + body for body in bodies())


def bodies() -> list[bytes]:
    """Whole bodies of streams."""
    golden = [path.read_bytes() for path in sorted(GOLDEN.rglob("*.sse"))]
    return golden + [stream.body for stream in hostile_streams()]


def dictionary() -> str:
    """The words, in libFuzzer's format."""
    return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS)
