"""Streams that are read until a limit ends them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from chunkfold import (
    ChatCompletionChunk,
    ChatCompletionParser,
    ChatCompletionStream,
    ChunkfoldError,
    LimitExceededError,
)
from chunkfold.testing import delta

READ = 2**16  # bytes
STOP = delta("stop")
HI = delta(content="Hi")


def call(**fields: Any) -> bytes:
    return delta(tool_calls=[fields])


def in_reads(body: bytes, size: int = READ) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


def parsed_with_chunks(
    body: bytes, size: int = READ, **options: Any
) -> tuple[ChatCompletionParser, list[ChatCompletionChunk]]:
    parser = ChatCompletionParser(**options)
    chunks = [each for data in in_reads(body, size) for each in parser.feed(data)]
    return parser, chunks + parser.close()


LIMIT = 10**6
EACH = range(100)  # how many new things come at once
SMALL_LIMIT = LIMIT // 10
COST = 50  # bytes for a character, at most: an object that is two characters of JSON may take a kilobyte


def fresh(n: int, value: Any = "word " * 20) -> dict[str, Any]:
    """Keys that were never seen before."""
    return {f"key{n}_{each}": value for each in EACH}


TOKEN = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}


def by_iterating(reads: Iterable[bytes], **options: Any) -> Any:
    stream = ChatCompletionStream(reads, **options)
    with suppress(ChunkfoldError):
        for _ in stream:
            pass
    return stream


def assert_named(parser: Any, limit: str, value: int) -> None:
    assert parser.end == "invalid"
    assert type(parser.error) is LimitExceededError
    assert (parser.error.limit, parser.error.value) == (limit, value)
    assert parser.error.snapshot is parser.snapshot


ALLOWED = 2**16
