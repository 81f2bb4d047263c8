"""What is fuzzed: each target turns bytes into an input of one layer and holds what comes of it to the promises.

The first bytes of an input choose the options and the cuts, the rest is the body. That is done without the fuzzer's
own means, so that a finding can be replayed wherever the tests run.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fuzz.made_bodies import made_body
from invariants import check
from invariants.decoding import check_decoder
from invariants.layers import check_payloads
from invariants.live_json import check_json
from invariants.readings import Options
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic's

from chunkfold import encode_event

HEAD: Final = 9  # bytes
PLAIN: Final = bytes(HEAD)  # no options, and only cuts at the beginning
EVENT_NAMES: Final = ("message", "error", "chat.completion.chunk", "meta", "response.created", "message_start")


class City(BaseModel):
    """A type to read live JSON as."""

    name: str
    celsius: float | None = None
    tags: list[str] = []


class Row(TypedDict, total=False):
    """Another one."""

    a: int
    b: "list[City]"


TYPES: Final[tuple[Any, ...]] = (None, None, dict[str, Any], list[int], City, Row, int | str, list[City], bool)


class Input(NamedTuple):
    """An input taken apart."""

    first: int
    options: Options
    cuts: list[int]
    rest: bytes

    @classmethod
    def of(cls, data: bytes) -> "Input":
        """The meaning of bytes; any have one."""
        head = data[:HEAD].ljust(HEAD, b"\0")
        flags, event_size, output_size = head[:3]
        options = Options(
            strict=bool(flags & 1),
            is_reset=bool(flags & 2),
            is_left=bool(flags & 4),
            is_transformed=bool(flags & 8),
            status_code=503 if flags >= 0xF0 else None,
            max_event_size=event_size - 1 if event_size else None,
            max_output_size=output_size - 1 if output_size else None,
        )
        cuts = [int.from_bytes(head[place : place + 2], "big") for place in (3, 5, 7)]
        return cls(flags, options, cuts, data[HEAD:])


def decoder(data: bytes) -> None:
    """Any bytes, as the decoder reads them."""
    given = Input.of(data)
    size = len(given.rest) + 1
    check_decoder(given.rest, sorted(cut % size for cut in given.cuts), given.options.max_event_size)


def payload(data: bytes) -> None:
    """Any bytes, as the data of one event."""
    given = Input.of(data)
    check_payloads(encode_event(given.rest, event=EVENT_NAMES[given.first % len(EVENT_NAMES)]))


def parser(data: bytes) -> None:
    """Any bytes, as a body."""
    given = Input.of(data)
    check(given.rest, given.cuts, given.options)


def accumulator(data: bytes) -> None:
    """Events with chunks in them: any bytes say which."""
    given = Input.of(data)
    check(made_body(given.rest), given.cuts, given.options)


def live_json(data: bytes) -> None:
    """Any text, as JSON that is still being written."""
    given = Input.of(data)
    as_type = TYPES[given.first % len(TYPES)]
    check_json(given.rest.decode("utf-8", "replace"), given.cuts, as_type, half_numbers=given.first >= 128)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "decoder": decoder,
    "payload": payload,
    "parser": parser,
    "accumulator": accumulator,
    "json": live_json,
}
