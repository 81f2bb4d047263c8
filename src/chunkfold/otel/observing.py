"""Be told what a stream does, by plain callables: telemetry of any make can be built on that.

What is watched is the stream's parser, which both fronts share, and which knows of every chunk and of every end. Its
class is exchanged for one that tells, so that the stream stays the object it is, wherever somebody holds it already.
Nothing refers back to the stream, so it is freed as it would be otherwise.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast
from weakref import ref

from chunkfold.models import ChatCompletionChunk
from chunkfold.parser import ChatCompletionParser
from chunkfold.stream import AsyncChatCompletionStream, ChatCompletionStream

Observable = ChatCompletionStream | AsyncChatCompletionStream | ChatCompletionParser
StreamT = TypeVar("StreamT", bound=Observable)

_logger = logging.getLogger(__name__)


def observe(
    stream: StreamT,
    *,
    on_chunks: Callable[[StreamT, int], object] | None = None,
    on_end: Callable[[StreamT], object] | None = None,
) -> StreamT:
    """Have plain callables told what a stream does; return the stream itself.

    They are called by whoever reads or closes the stream, in between: they should be quick, and only look. What they
    raise is logged and never reaches the reader. Of several observers, the first is told first.

    Args:
        stream: A stream of either front, or a parser.
        on_chunks: Called as `on_chunks(stream, count)` after each read that brought chunks, with how many it brought;
            `stream.timing.last_chunk` says when. Of a large read, slice by slice.
        on_end: Called as `on_end(stream)` exactly once, as soon as the stream has ended, in whichever way; at once if
            it has already. Its `end`, `error`, `snapshot`, `anomalies` and `timing` are the final ones. A stream that
            is neither read to its end nor closed never ends.
    """
    parser = parser_of(stream)
    if not isinstance(parser, _Observed):
        parser.__class__ = _class_of_observed(type(parser))
    cast("_Observed", parser).add_observer(_Observer(ref(stream), on_chunks, on_end))
    return stream


def parser_of(stream: Observable) -> ChatCompletionParser:
    """The parser of a stream; a parser itself."""
    if isinstance(stream, ChatCompletionParser):
        return stream
    return stream._parser  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - one library


def seconds_since_request(stream: Observable) -> float:
    """How long ago the request was sent, on the clock that `stream.timing` has its times from."""
    parser = parser_of(stream)
    return max(parser._clock() - parser._started, 0.0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as above


class _Observer(Generic[StreamT]):
    """Two callables, and what they are told about."""

    def __init__(
        self,
        stream: "ref[StreamT]",
        on_chunks: Callable[[StreamT, int], object] | None,
        on_end: Callable[[StreamT], object] | None,
    ) -> None:
        self._stream = stream
        self._on_chunks = on_chunks
        self._on_end = on_end

    def tell_chunks(self, count: int) -> None:
        if self._on_chunks is not None:
            self._call(self._on_chunks, count)

    def tell_end(self) -> None:
        if self._on_end is not None:
            self._call(self._on_end)

    def _call(self, tell: Callable[..., object], *more: int) -> None:
        stream = self._stream()
        if stream is not None:
            try:
                tell(stream, *more)
            except Exception:
                _logger.exception("telemetry of a stream failed")


class _Observed(ChatCompletionParser):
    """A parser that tells; not made, but become by one that was made before."""

    _observers: list[_Observer[Any]]
    _told: int  # chunks

    def add_observer(self, observer: _Observer[Any]) -> None:
        """Tell one more, from now on."""
        if "_observers" not in self.__dict__:
            self._observers, self._told = [], self.chunks
        self._observers.append(observer)
        self._tell()

    def feed(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> list[ChatCompletionChunk]:
        chunks = super().feed(data, arrived=arrived)
        self._tell()
        return chunks

    def feed_in_slices(self, data: bytes) -> Generator[list[ChatCompletionChunk]]:
        for chunks in super().feed_in_slices(data):
            self._tell()
            yield chunks
        self._tell()

    def fold(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> None:
        super().fold(data, arrived=arrived)
        self._tell()

    def close(self) -> list[ChatCompletionChunk]:
        chunks = super().close()
        self._tell()
        return chunks

    def interrupt(self, exc: BaseException) -> list[ChatCompletionChunk]:
        chunks = super().interrupt(exc)
        self._tell()
        return chunks

    def leave(self) -> None:
        super().leave()
        self._tell()

    def _tell(self) -> None:
        count = self.chunks - self._told
        if count:
            self._told += count
            for observer in self._observers:
                observer.tell_chunks(count)
        if self.end is not None:
            with suppress(IndexError):  # whoever takes one tells it, also where another thread closes the stream
                while True:
                    self._observers.pop(0).tell_end()


_classes: dict[type, type[_Observed]] = {}


def _class_of_observed(kind: type[ChatCompletionParser]) -> type[_Observed]:
    """What a parser of that class becomes, made once; the class may be a user's own."""
    return _classes.get(kind) or _classes.setdefault(kind, type(kind.__name__, (_Observed, kind), {}))
