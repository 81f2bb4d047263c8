"""Parse one stream without I/O: bytes in, chunks out, and at the end how it ended.

`feed` never raises for what the peer sent: an error becomes state, so that the chunks before it are always delivered.
"""

import sys
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, Final

from chunkfold.anomaly_log import AnomalyLog, refused_rules
from chunkfold.arguments import (
    check_callable,
    check_callback,
    check_count,
    check_flag,
    check_instance,
    check_seconds,
    check_time,
    reading_of,
)
from chunkfold.errors import IncompleteStreamError
from chunkfold.event_stream.lines import SLICE
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.models.tool_calls import ToolTypes
from chunkfold.parser.lifecycle import Lifecycle
from chunkfold.parser.limits import Deadlines, layers_error
from chunkfold.parser.options import DEFAULT_MAX_EVENT_SIZE, BodyOptions, OnServerSentEvent
from chunkfold.parser.refused_body import MAX_BODY_SECONDS, RefusedBody
from chunkfold.parser.streamed_body import StreamedBody
from chunkfold.transforms import Transform, check_transforms
from chunkfold.wire.headers import GivenHeaders, Headers, decoded_encodings

_LARGE_READ: Final = 2**20  # bytes


class ChatCompletionParser(Lifecycle):
    """Parse one streamed chat completion, fed in pieces of any size. It belongs to one task or thread.

    Args:
        strict: True to raise the first anomaly as an `InvalidStreamError` that names its rule; or the ids of the rules
            that raise.
        tolerate: The ids of rules that strict mode accepts.
        max_event_size: The maximum size of one event's data, and of any line, in bytes; None for no limit. It also
            limits JSON in lines of its own before the first event, to 32 MiB if it is None.
        max_event_items: The maximum number of values in one event; None for no limit. Commas and opening brackets
            outside strings are counted. The default is more than a whole completion of 4,000 tokens has, with five top
            log probabilities for each.
        max_output_size: The maximum number of characters of output; None for no limit. Everything that is kept (text,
            choices, calls, log probabilities, unknown fields) may take four bytes for each of these characters, plus
            1 MiB.
        progress_timeout: The longest time from chunk to chunk while bytes arrive, in seconds; None for no limit.
        total_timeout: The longest time for the whole stream, in seconds; None for no limit.
        status_code: The response's status, for error messages.
        headers: The response's headers, for `request_id`, `retry_after` and the content type in error messages. A body
            with more than one layer of content encoding is refused.
        on_server_sent_event: Called for every server-sent event with its chunks. Its exceptions propagate from
            `feed`, and the remaining events of that read are lost.
        clock: Seconds from any fixed point; read once per `feed`.
        transforms: Opt-in transforms of the chunks, applied in this order before anything else sees them.
        one_choice: Whether one choice was requested (`n` is absent or 1): choices with other indexes are then read as
            choice 0 (CF221), unless two of them have text in one chunk. Costs nothing until another index arrives.
        tools: The types of the tools' arguments, by the tools' names: `{"lookup_weather": WeatherArgs}`. A type is a
            pydantic model, a TypedDict or a dataclass; `function.parse()` and `ToolCallDone.parsed` return it.
        started: The clock's reading when the request was sent; now, if not given. Timing and deadlines count from it.

    Raises:
        TypeError: An option is of a wrong type, or pydantic cannot validate the type of a tool.
        ValueError: A limit or a timeout is negative; `strict` or `tolerate` has an unknown id.
    """

    def __init__(
        self,
        *,
        strict: bool | Collection[str] = False,
        tolerate: Collection[str] = (),
        max_event_size: int | None = DEFAULT_MAX_EVENT_SIZE,
        max_event_items: int | None = 250_000,
        max_output_size: int | None = 64 * 2**20,
        progress_timeout: float | None = None,
        total_timeout: float | None = None,
        status_code: int | None = None,
        headers: GivenHeaders | None = None,
        on_server_sent_event: OnServerSentEvent | None = None,
        clock: Callable[[], float] = time.monotonic,
        transforms: Sequence[Transform] = (),
        one_choice: bool = False,
        tools: ToolTypes | None = None,
        started: float | None = None,
    ) -> None:
        check_count("max_event_size", max_event_size)
        check_count("max_event_items", max_event_items)
        check_count("max_output_size", max_output_size)
        check_seconds("progress_timeout", progress_timeout)
        check_seconds("total_timeout", total_timeout)
        check_callback("on_server_sent_event", on_server_sent_event)
        check_callable("clock", clock)
        check_transforms(transforms)
        check_flag("one_choice", one_choice)
        check_time("started", started)
        check_count("status_code", status_code)
        log = AnomalyLog(refused_rules(strict=strict, tolerate=tolerate))
        given = Headers({} if headers is None else headers)
        fold = StreamFold(log, tools)
        started = reading_of(clock) if started is None else started
        deadlines = Deadlines(total_timeout, progress_timeout, started)
        body: StreamedBody | RefusedBody
        if status_code is None or 200 <= status_code <= 299:
            options = BodyOptions(
                max_event_size=max_event_size,
                max_event_items=max_event_items,
                max_output_size=max_output_size,
                on_server_sent_event=on_server_sent_event,
                transforms=tuple(transforms),
                one_choice=one_choice,
                status_code=status_code,
                headers=given,
            )
            body = StreamedBody(fold, options)
        else:
            body = RefusedBody(status_code, given)
            if not deadlines.is_set:
                body.has_progress = True  # the limit counts from its first bytes
                deadlines = Deadlines(None, MAX_BODY_SECONDS, started)
        super().__init__(fold, body, deadlines, headers=given, clock=clock)
        if isinstance(body, StreamedBody) and (refused := layers_error(decoded_encodings(given))) is not None:
            self.interrupt(refused)

    def completion(self) -> ChatCompletion:
        """The final message.

        Raises:
            ChunkfoldError: The stream did not end well: `error`, or `IncompleteStreamError` while it runs or if it
                was left early.
        """
        self.raise_error()
        if self.end is None or not self.end.complete:
            what = "the stream still runs" if self.end is None else "the stream was left before it ended"
            raise self._with_context(IncompleteStreamError(f"no completion: {what}", end=self.end))
        return self.snapshot

    def observe(
        self, *, on_chunks: Callable[[Any, int], object] | None = None, on_end: Callable[[Any], object] | None = None
    ) -> None:
        """Call plain callables as chunks arrive and when the stream ends. Their exceptions are logged, not propagated.

        Args:
            on_chunks: Called as `on_chunks(parser, count)` after each call that brought chunks, with their number;
                `timing.last_chunk` is their time. A large read is reported in slices.
            on_end: Called as `on_end(parser)` exactly once, as soon as `end` is set; immediately if it already is.

        Raises:
            TypeError: One of them is not callable, or async.
        """
        self._observe(self, on_chunks, on_end)

    def raise_error(self) -> None:
        """Raise `error`, if there is one."""
        if self.error is not None:
            # The traceback would grow each time. That of an error that is being handled is still needed.
            raise self.error if sys.exception() is self.error else self.error.with_traceback(None)

    def feed(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> list[ChatCompletionChunk]:
        """Take the next bytes of the body; return the chunks they complete. Has no effect after the end.

        Args:
            data: The bytes.
            arrived: The clock's reading when they arrived; now, if not given.

        Raises:
            TypeError: The data is not bytes, or `arrived` is not a number.
            ValueError: `arrived` is not finite.
        """
        if self.end is not None:
            return []
        if arrived is not None:
            check_time("arrived", arrived)
        if type(data) is bytes and len(data) > _LARGE_READ:
            return list(chain.from_iterable(self._feed_in_slices(data, arrived, is_returned=True)))
        return self._feed_or_fold(data, arrived, is_returned=True)

    def fold(self, data: bytes | bytearray | memoryview, *, arrived: float | None = None) -> None:
        """Take the next bytes of the body like `feed`, but without making chunks. Use it if you only need the result.

        `end`, `error`, `snapshot`, `anomalies` and `events()` are the same as after `feed`. While successive chunks
        differ in only a few values, it takes about half the time, in large reads about a quarter. The arguments and the
        errors are those of `feed`.
        """
        if self.end is not None:
            return
        if arrived is not None:
            check_time("arrived", arrived)
        if type(data) is bytes and len(data) > SLICE:
            for _ in self._feed_in_slices(data, arrived, folding=True):
                pass
        else:
            self._feed_or_fold(data, arrived, folding=True)

    def close(self) -> list[ChatCompletionChunk]:
        """Mark the end of the body. May return last chunks; afterwards `end` is set in any case."""
        return self._end_of_body(None, is_returned=True)

    def interrupt(self, exc: BaseException) -> list[ChatCompletionChunk]:
        """Mark that the transport raised. Like `close`, but an incomplete stream counts as interrupted.

        If the exception is an `InvalidStreamError`, such as that of a body that expands too much, it becomes `error`.

        Raises:
            TypeError: It is not an exception.
        """
        check_instance("exc", exc, BaseException, "an exception")
        return self._end_of_body(exc, is_returned=True)


# What streams and recordings do with a parser, besides its public methods.
feed_or_fold = ChatCompletionParser._feed_or_fold  # pyright: ignore[reportPrivateUsage] - of its base class
feed_in_slices = ChatCompletionParser._feed_in_slices  # pyright: ignore[reportPrivateUsage]
end_of_body = ChatCompletionParser._end_of_body  # pyright: ignore[reportPrivateUsage]
take_events = ChatCompletionParser._take_events  # pyright: ignore[reportPrivateUsage]
after_failure = ChatCompletionParser._after_failure  # pyright: ignore[reportPrivateUsage]
note_yielded = ChatCompletionParser._note_yielded  # pyright: ignore[reportPrivateUsage]
observe_as = ChatCompletionParser._observe  # pyright: ignore[reportPrivateUsage]
