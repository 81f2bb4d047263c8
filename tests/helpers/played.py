"""Small bodies, and a parser that has read one when the bytes stop in one of four ways."""

from collections.abc import Callable
from typing import Any

from cases import each_case

from chunkfold import ChatCompletionParser
from chunkfold.testing import ManualClock, chunk, cut_every, delta, event, usage


def text(content: str, index: int = 0) -> bytes:
    return delta(index=index, content=content)


ROLE = delta(role="assistant")
HI = text("Hi")
STOP = delta("stop")
USAGE = chunk(usage=usage(1, 2))
PING = b": ping\n\n"
ERROR = event({"error": {"message": "overloaded", "type": "server_error", "code": 503}})
GARBAGE = b"data: garbage\n\n"


def rules(parser: ChatCompletionParser) -> list[str]:
    return [anomaly.rule.id for anomaly in parser.anomalies]


cuts = each_case("size", [None, 1], ids=["whole", "bytewise"])  # bytes in a read
BROKEN_LINE = ConnectionResetError("gone")


def stall(parser: ChatCompletionParser, clock: ManualClock) -> None:
    clock.advance(61)
    parser.feed(PING)


WAYS_OUT: dict[str, Callable[[ChatCompletionParser, ManualClock], object]] = {
    "close": lambda parser, clock: parser.close(),
    "interrupt": lambda parser, clock: parser.interrupt(BROKEN_LINE),
    "stall": stall,
    "leave": lambda parser, clock: parser.leave(),
}


def play(body: bytes, way_out: str = "close", size: int | None = None, **options: Any) -> ChatCompletionParser:
    """The bytes come, and then the body ends, the transport fails, nothing but pings come, or the consumer leaves."""
    clock = ManualClock(100.0)
    parser = ChatCompletionParser(clock=clock, total_timeout=60, **options)
    for piece in cut_every(body, size or len(body) or 1) or [body]:
        parser.feed(piece)
    WAYS_OUT[way_out](parser, clock)
    return parser


def unterminated(piece: bytes) -> bytes:
    return piece.removesuffix(b"\n\n")


OVER_TWO_LINES = unterminated(STOP).removeprefix(b"data: ").replace(b',"model"', b',\ndata: "model"')
