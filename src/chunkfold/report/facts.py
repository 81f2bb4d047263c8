"""The facts about a recording that a report shows, as values.

The recording is parsed once more, each read at its time, so that every fact is what a live reader knew. Nothing else
decodes the bytes: the parser reports each event, and what changed in it since the last one is the result of that event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import nlargest
from itertools import pairwise
from statistics import median_low
from typing import Any, Final

from chunkfold import (
    Anomaly,
    AudioDelta,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChunkfoldError,
    ImageReceived,
    ReasoningDelta,
    RefusalDelta,
    ServerSentEvent,
    StreamEnd,
    StreamTiming,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.json_text.values import is_list
from chunkfold.recording import Recording
from chunkfold.recording.redaction import clean_url
from chunkfold.recording.replaying import conclude, parser_of, take

MOST_STALLS: Final = 20  # the longest are shown
_SHORTEST_STALL: Final = 0.25  # seconds
_STALL_MEDIANS: Final = 10


class Kind(StrEnum):
    """The kind of content that an event has."""

    REASONING = "reasoning"
    TEXT = "text"
    TOOL_CALL = "tool call"
    MEDIA = "audio, images"
    USAGE = "usage"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Mark:
    """One server-sent event, or a read that held nothing but a comment.

    Attributes:
        at: When it arrived, in seconds since the request was sent.
        brought: The kinds of its content, each with the number of characters; `other` only if there is no other kind.
        size: The bytes of its data.
        is_chunk: Whether it is a chunk.
    """

    at: float
    brought: dict[Kind, int]
    size: int
    is_chunk: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """A gap between chunks that was much longer than the others.

    Attributes:
        at: When it began, in seconds since the request was sent.
        seconds: Its duration.
    """

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """All facts about one recording.

    Attributes:
        name: The recording's name.
        recording: The recording.
        end: How the stream ended.
        error: The error, None if there is none.
        completion: The completion at the end of the stream.
        timing: When things arrived.
        anomalies: What was tolerated.
        chunks: The number of chunks.
        marks: The events, in order.
        gaps: The times between reads that brought chunks, in seconds, in order.
        stalls: The longest stalls, in order: gaps of at least a quarter of a second and ten times the median.
        tokens: The times at which the usage changed, each with the completion tokens reported then.
    """

    name: str
    recording: Recording
    end: StreamEnd
    error: ChunkfoldError | None
    completion: ChatCompletion
    timing: StreamTiming
    anomalies: tuple[Anomaly, ...]
    chunks: int
    marks: list[Mark]
    gaps: list[float]
    stalls: list[Stall]
    tokens: list[tuple[float, int]]

    @property
    def url(self) -> str:
        """The URL of the request, without secrets: the recording may have been made by hand, or long ago."""
        return clean_url(self.recording.url)

    @property
    def seconds(self) -> float:
        """The duration of the recording in seconds."""
        return self.recording.seconds

    @property
    def is_timed(self) -> bool:
        """Whether the recording has times; else the times here are meaningless."""
        return self.recording.is_timed

    @property
    def tokens_per_second(self) -> float | None:
        """The rate from the first output to the last chunk; None unless times and usage are known."""
        usage = self.completion.usage
        return None if usage is None else self.timing.tokens_per_second(usage.completion_tokens)

    def totals(self) -> dict[Kind, tuple[int, int]]:
        """For each kind: the number of events and the number of characters."""
        found: dict[Kind, tuple[int, int]] = {}
        for mark in self.marks:
            for kind, characters in mark.brought.items():
                count, total = found.get(kind, (0, 0))
                found[kind] = (count + 1, total + characters)
        return {kind: found[kind] for kind in Kind if kind in found}


def facts_of(recording: Recording, name: str) -> StreamFacts:
    """Collect the facts about a recording.

    Args:
        recording: The recording.
        name: The name to show.
    """
    reader = _Reader(recording)
    parser, starts = reader.parser, reader.starts
    # Rounded to microseconds, as they are stored, so that 0.1 stays 0.1.
    gaps = [round(after - before, 6) for before, after in pairwise(starts)]
    return StreamFacts(
        name=name,
        recording=recording,
        end=parser.end or StreamEnd.CLOSED,
        error=parser.error,
        completion=parser.snapshot,
        timing=parser.timing,
        anomalies=parser.anomalies,
        chunks=parser.chunks,
        marks=reader.marks,
        gaps=gaps,
        stalls=_stalls(starts, gaps),
        tokens=reader.tokens,
    )


class _Reader:
    """Reads a recording, and notes its events with their times."""

    def __init__(self, recording: Recording) -> None:
        self.marks: list[Mark] = []
        self.starts: list[float] = []  # the times of the reads that brought chunks, each once
        self.tokens: list[tuple[float, int]] = []  # when completion tokens were reported, and how many
        self._now = 0.0
        self.parser = parser_of(recording, on_server_sent_event=self._take)
        self.parser.events()  # from now on
        for read in recording.reads:
            self._now = read.at
            known = len(self.marks)
            take(self.parser, read)
            if len(self.marks) == known and self.parser.end is None and read.data.lstrip(b"\r\n").startswith(b":"):
                self.marks.append(Mark(read.at, {Kind.OTHER: 0}, len(read.data), is_chunk=False))
        self._now = recording.seconds
        conclude(self.parser, recording)
        rest = self._brought([])
        if rest:  # what no event reported, such as a whole completion as JSON
            self._note(Mark(self._now, rest, 0, is_chunk=True))

    def _take(self, event: ServerSentEvent, chunks: list[ChatCompletionChunk]) -> None:
        brought = self._brought(chunks) or {Kind.OTHER: 0}
        self._note(Mark(self._now, brought, len(event.data), is_chunk=bool(chunks)))

    def _note(self, mark: Mark) -> None:
        self.marks.append(mark)
        if mark.is_chunk and (not self.starts or mark.at > self.starts[-1]):
            self.starts.append(mark.at)

    def _brought(self, chunks: list[ChatCompletionChunk]) -> dict[Kind, int]:
        brought: dict[Kind, int] = {}
        for kind, characters in (*self._of_events(), *(each for chunk in chunks for each in _of_chunk(chunk))):
            brought[kind] = brought.get(kind, 0) + characters
        return brought

    def _of_events(self) -> Iterator[tuple[Kind, int]]:
        for event in self.parser.events():
            if isinstance(event, UsageReceived) and event.usage.completion_tokens is not None:
                self.tokens.append((self._now, event.usage.completion_tokens))
            yield from _of_event(event)


def _of_event(event: ChatCompletionEvent) -> Iterator[tuple[Kind, int]]:
    match event:
        case ReasoningDelta(delta=text):
            yield Kind.REASONING, len(text)
        case TextDelta(delta=text) | RefusalDelta(delta=text):
            yield Kind.TEXT, len(text)
        case ToolCallArgumentsDelta(delta=text):
            yield Kind.TOOL_CALL, len(text)
        case ToolCallStarted():
            yield Kind.TOOL_CALL, 0
        case AudioDelta(transcript=text):
            yield Kind.MEDIA, len(text)
        case ImageReceived():
            yield Kind.MEDIA, 0
        case UsageReceived():
            yield Kind.USAGE, 0
        case _:
            pass  # other events have their content


def _of_chunk(chunk: ChatCompletionChunk) -> Iterator[tuple[Kind, int]]:
    """What no typed event reports: names of calls before their arguments, legacy calls, repeated usage."""
    if vars(chunk).get("usage") is not None:  # not by attribute, which may be a value of a wrong type
        yield Kind.USAGE, 0
    for choice in chunk.choices:
        calls: Any = choice.delta.tool_calls  # these may be of a wrong type
        legacy: Any = choice.delta.function_call
        if is_list(calls) and calls:
            yield Kind.TOOL_CALL, 0
        if legacy is not None:
            arguments = getattr(legacy, "arguments", None)
            yield Kind.TOOL_CALL, len(arguments) if isinstance(arguments, str) else 0


def _stalls(starts: list[float], gaps: list[float]) -> list[Stall]:
    if not gaps:
        return []
    long = max(_SHORTEST_STALL, _STALL_MEDIANS * median_low(gaps))
    found = [Stall(at, seconds) for at, seconds in zip(starts, gaps, strict=False) if seconds >= long]
    return sorted(nlargest(MOST_STALLS, found, key=lambda stall: stall.seconds), key=lambda stall: stall.at)
