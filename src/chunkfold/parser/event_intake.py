"""Pass events through their payloads into the fold.

The payload decides what an event is. This module decides what happens to it in which order: limits, repairs, merged
choices, joined halves of characters, transforms, the fold, observers.
"""

from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from pydantic import ValidationError

from chunkfold.anomalies import SPLIT_SURROGATES
from chunkfold.errors import APIError, ChunkfoldError, exceeded
from chunkfold.event_stream import MESSAGE, ServerSentEvent
from chunkfold.excerpts import excerpt
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models import ChatCompletionChunk
from chunkfold.parser.choice_merger import merger_for
from chunkfold.parser.endings import Stop
from chunkfold.parser.limits import OutputLimit, has_more_items
from chunkfold.parser.options import OnServerSentEvent
from chunkfold.parser.surrogate_joiner import SurrogateJoiner
from chunkfold.parser.template import EventTemplate
from chunkfold.wire.parts import MAX_EVENT_PARTS
from chunkfold.wire.payload import DONE, Payload, is_plain, parse_slowly, valid_chunk, validate_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chunkfold.transforms import Transform

_LARGE: Final = 2 * MAX_EVENT_PARTS  # bytes; an event that has no more is below all limits on what it holds


class EventOptions(TypedDict):
    """The parser's options for processing events, and whether strict mode refuses anything."""

    max_event_items: int | None
    max_output_size: int | None
    on_server_sent_event: OnServerSentEvent | None
    transforms: "Sequence[Transform]"
    one_choice: bool
    is_strict: bool


class EventIntake:
    """Process the events of one stream.

    Args:
        fold: Where chunks are folded; what is tolerated is noted in its log.
        options: See `EventOptions`.

    Attributes:
        stop: Why no more events are taken; None while they are.
        error: The error that an event or a limit caused, if any.
        has_progress: Whether chunks arrived, even if a transform held them back. The reader of this flag resets it.
        foreign: The place and the start of the first event that does not belong to a stream of chunks.
    """

    def __init__(self, fold: StreamFold, **options: Unpack[EventOptions]) -> None:
        self.stop: Stop | None = None
        self.error: ChunkfoldError | None = None
        self.has_progress = False
        self.foreign: tuple[int, str] | None = None
        self._fold = fold
        self._log = fold.log
        self._max_event_items = most = options["max_event_items"]
        self._large = _LARGE if most is None else min(_LARGE, most)
        self._on_server_sent_event = options["on_server_sent_event"]
        self._last: tuple[ServerSentEvent, list[ChatCompletionChunk]] | None = None  # the event that ended the stream
        self._transforms = transforms = tuple(options["transforms"])
        self._sees_all = options["is_strict"] or self._on_server_sent_event is not None or bool(transforms)
        self._is_direct = not self._sees_all  # whether a plain chunk may go straight to the fold
        self._merger = merger_for(fold, transforms) if options["one_choice"] else None
        self._output_limit = OutputLimit(options["max_output_size"], fold)
        self._template = EventTemplate(fold, self._output_limit)
        # Transforms can change calls, so fragments cannot be routed before; but then all chunks pass through them.
        self._joiner = SurrogateJoiner(None if transforms else fold.calls_of)

    def _take_events(  # noqa: C901 - the loop of every event, in which one more call can be measured
        self, events: list[ServerSentEvent], chunks: list[ChatCompletionChunk], *, folding: bool = False
    ) -> None:
        """Take each event by the fastest path that is correct for it, up to the one that ends the stream."""
        fold, output_limit, log, large = self._fold, self._output_limit, self._log, self._large
        take_alike, made = self._template.take, None if folding else chunks
        for event in events:
            data = event.data
            log.offset = offset = event.offset
            end = offset + len(data)
            if len(data) > large:
                self._take_large(event, chunks)
                if self.stop is not None:
                    return
            elif not self._is_direct or not take_alike(event, made):
                output_limit.objects += data.count(b"{")
                try:
                    chunk = validate_json(data) if event.event == MESSAGE and data != DONE else None
                except ValidationError:
                    chunk = None
                direct = chunk if self._is_direct else None
                if direct is not None and fold.add_if_usual(direct):
                    chunks.append(direct)
                elif direct is None or not self._add_plain(direct, chunks):
                    self._take(event, chunk, chunks)
                    if self.stop is not None:
                        return
            if end >= output_limit.look_at:
                fold.compact()
                self._check_guards(end, chunks)
                if self.stop is not None:
                    return

    def _take_large(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        """Take an event that is large enough to have too many values, which are counted before it is parsed."""
        if not self._has_too_many_items(event.data, chunks):
            self._output_limit.objects += event.data.count(b"{")
            self._take(event, valid_chunk(event), chunks)

    def _has_too_many_items(self, data: bytes, chunks: list[ChatCompletionChunk]) -> bool:
        """Whether an event has more values than are allowed; if so, end the stream without parsing it."""
        most = self._max_event_items
        if most is None or not has_more_items(data, most):
            return False
        self._exceed("max_event_items", most, chunks)
        return True

    def _take(
        self, event: ServerSentEvent, chunk: ChatCompletionChunk | None, chunks: list[ChatCompletionChunk]
    ) -> None:
        """Take an event that is more than the next piece of text, or that is observed.

        Args:
            event: The event.
            chunk: The event as a chunk, None if it is not valid.
            chunks: The chunks are appended to it.
        """
        known = len(chunks)
        if chunk is not None and not is_plain(chunk):
            chunk = None  # it may be large, and is read again
        payload = parse_slowly(event) if chunk is None else Payload([chunk])
        if payload.foreign and self.foreign is None:
            self.foreign = (event.offset, payload.foreign)
        self._absorb(payload, event.offset + len(event.data), chunks)
        if self._on_server_sent_event is None:
            return
        if self.stop is None:
            self._on_server_sent_event(event, chunks[known:])
        else:
            self._last = (event, chunks[known:])

    def tell_last(self) -> None:
        """Notify observers of the event that ended the stream; to be called when it is known how it ended."""
        if self._last is not None and self._on_server_sent_event is not None:
            last, self._last = self._last, None
            self._on_server_sent_event(*last)

    def end(self, stop: Stop, chunks: list[ChatCompletionChunk], error: ChunkfoldError | None = None) -> None:
        """End the stream, and add the chunks that were held back.

        Args:
            stop: Why.
            chunks: The last chunks are appended to it.
            error: The error, if there is one.
        """
        self.stop, self.error = stop, error
        self._flush(chunks)
        limit = self._output_limit
        if error is None and stop not in (Stop.REFUSED, Stop.LEFT) and limit.is_passed(self._log.offset):
            self.stop, self.error = Stop.INVALID, exceeded("max_output_size", limit.most or 0)

    def _add_plain(self, chunk: ChatCompletionChunk, chunks: list[ChatCompletionChunk]) -> bool:
        """Fold an unusual chunk; return False if it may be more than a chunk."""
        if not is_plain(chunk):
            return False
        if self._merger is None:
            chunks.append(self._fold.add_unusual(chunk))
        else:
            self._merger.merge(chunk)  # which may make it usual
            chunks.append(self._fold.add(chunk))
        return True

    def _absorb(self, payload: Payload, end: int, chunks: list[ChatCompletionChunk]) -> None:
        """Process the payload of an event: merge choices, join halves of characters, transform, fold.

        Args:
            payload: What the event means.
            end: Where its data ends in the body.
            chunks: The chunks are appended to it.
        """
        self._log.note_all(payload.notes)
        if self._merger is not None:
            for chunk in payload.chunks:
                self._merger.merge(chunk)
        is_split = any(rule is SPLIT_SURROGATES for rule, _ in payload.notes)
        if is_split or self._joiner.is_needed:
            payload.chunks = [self._joiner.join(chunk, is_split=is_split) for chunk in payload.chunks]
            self._is_direct = not (self._sees_all or self._joiner.is_needed)
        self.has_progress |= bool(payload.chunks)
        chunks += map(self._fold.add, self._transformed(payload.chunks, self._transforms))
        if payload.error is not None:
            self._fail(payload.error, chunks)
        else:
            self._check_guards(end, chunks)
        if payload.done and self.stop is None:
            self.end(Stop.DONE, chunks)

    def _transformed(
        self, chunks: list[ChatCompletionChunk], transforms: "Sequence[Transform]"
    ) -> list[ChatCompletionChunk]:
        for transform in transforms:
            chunks = [new for chunk in chunks for new in _chunks_from(transform, transform.feed(chunk))]
        return chunks

    def _check_guards(self, end: int, chunks: list[ChatCompletionChunk]) -> None:
        """Check the output limit, and whether strict mode refuses an anomaly, after data that ends at this offset."""
        if self._output_limit.is_passed(end):
            self._exceed("max_output_size", self._output_limit.most, chunks)
        elif self._log.refused is not None:
            self.end(Stop.REFUSED, chunks)

    def _flush(self, chunks: list[ChatCompletionChunk]) -> None:
        """Add the last chunks: what was held back, and what whole messages add to the deltas."""
        held = self._joiner.flush()
        last_chunks = self._transformed([held] if held is not None else [], self._transforms)
        for place, transform in enumerate(self._transforms, 1):
            returned = _chunks_from(transform, transform.close())
            last_chunks += self._transformed(returned, self._transforms[place:])
        chunks += last_chunks
        rest = self._fold.finish(last_chunks)
        if rest is not None:
            chunks.append(rest)

    def _exceed(self, limit: str, value: int | None, chunks: list[ChatCompletionChunk]) -> None:
        self._fail(exceeded(limit, value or 0), chunks)

    def _fail(self, error: ChunkfoldError, chunks: list[ChatCompletionChunk]) -> None:
        """End the stream with a provider's error, or with that of an invalid event or a limit."""
        self.end(Stop.ERROR if isinstance(error, APIError) else Stop.INVALID, chunks, error)


def _chunks_from(transform: "Transform", returned: Any) -> list[ChatCompletionChunk]:
    """What a transform returned, if that is chunks, as its protocol promises."""
    items: list[Any] = list(returned) if hasattr(returned, "__iter__") else [returned]
    if not all(isinstance(item, ChatCompletionChunk) for item in items):
        raise TypeError(f"{type(transform).__name__}: expected a list of chunks, received {excerpt(returned)}")
    return items
