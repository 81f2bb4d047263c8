"""Framing alone: bytes to server-sent events, against other readers of event streams.

Each reads the same response in the way its users do: httpx-sse and httpx2 by their `EventSource`, ours by feeding what
`iter_bytes` gives to an `EventStreamDecoder`. So the client's own iteration counts on both sides.
"""

import importlib
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from bodies import READS, text
from measuring import Figure, Scale, at_least, complain, least_times, say

from chunkfold import EventStreamDecoder
from chunkfold.parser.options import DEFAULT_MAX_EVENT_SIZE

TABLE = "framing"
_TARGET = at_least(1)
_READERS = {"httpx-sse": ("httpx", "httpx_sse"), "httpx2": ("httpx2", "httpx2")}  # the client, the reader's module


def measure(scale: Scale) -> Iterator[Figure]:
    installed = {name: modules for name, modules in _READERS.items() if find_spec(modules[1])}
    for name in _READERS.keys() - installed.keys():
        say(f"framing: {name} is not installed; it is in the group `peers`")
    for size_name, size in READS.items():
        reads = text(scale.smaller(10) if size_name == "16 bytes" else scale.chunks).reads(size)
        for name, modules in installed.items():
            say(f"framing: {name}, {size_name}")
            value = _times_ours(*map(importlib.import_module, modules), reads, scale.rounds)
            yield Figure(TABLE, (size_name,), name, value, _TARGET, name)


def _times_ours(client: Any, reader: Any, reads: list[bytes], rounds: int) -> float:
    """How many times as long as ours the other takes."""
    subjects = {"ours": partial(_decode, client, reads), "other": partial(_decode_otherwise, client, reader, reads)}
    if subjects["ours"]() != subjects["other"]():
        complain(f"framing: {reader.__name__} finds another number of events")
    times = least_times(subjects, rounds)
    return times["other"] / times["ours"]


def _response(client: Any, reads: list[bytes]) -> Any:
    request = client.Request("POST", "http://localhost/")
    return client.Response(200, headers={"content-type": "text/event-stream"}, content=reads, request=request)


def _decode(client: Any, reads: list[bytes]) -> int:
    decoder = EventStreamDecoder(DEFAULT_MAX_EVENT_SIZE)
    count = 0
    for data in _response(client, reads).iter_bytes():
        for _ in decoder.feed(data):
            count += 1
    return count


def _decode_otherwise(client: Any, reader: Any, reads: list[bytes]) -> int:
    source = reader.EventSource(_response(client, reads))
    count = 0
    for _ in source.iter_sse() if hasattr(source, "iter_sse") else source:
        count += 1
    return count
