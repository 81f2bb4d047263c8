"""What a frame adds to the answer, in words: the parser's typed events, and what a chunk has beyond them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from chunkfold import (
    AnnotationReceived,
    AudioDelta,
    ChatCompletionChunk,
    ChatCompletionEvent,
    ChoiceFinished,
    CompletionUsage,
    ImageReceived,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageReceived,
)
from chunkfold.cli.safe import one_line
from chunkfold.excerpts import excerpt
from chunkfold.json_text.values import is_list
from chunkfold.models.base import Model
from chunkfold.models.chunk import ChoiceDeltaToolCall

_EXCERPT: Final = 400  # characters kept of a piece of text
_SHOWN: Final = 120  # characters shown of it
_COUNT: Final = 40  # characters shown of a count, which may be none
_MOST: Final = 50  # additions told of one frame
_TEXTS: Final[dict[type[ChatCompletionEvent], str]] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    RefusalDelta: "refusal",
}
_WORD: Final = re.compile(r"[\w./:@+-]{1,80}", re.ASCII)


class Addition(NamedTuple):
    """One thing that a frame adds.

    Attributes:
        what: Its name: "text", "finish reason".
        value: What is added; of a long text its beginning.
        length: How long the text is, in characters; None for what is no text.
        choice: The choice's index.
        call: The place of the tool call, for what belongs to one.
        note: More to say of it.
    """

    what: str
    value: str = ""
    length: int | None = None
    choice: int = 0
    call: int | None = None
    note: str = ""

    def __str__(self) -> str:
        """In words, on one line, bounded: `text 'Hel'`."""
        choice = f"choice {self.choice}:" if self.choice else ""
        call = "" if self.call is None else f"call {self.call}"
        value = word(self.value) if self.length is None else quoted(self.value, self.length)
        note = f"({self.note})" if self.note else ""
        return " ".join(filter(None, (choice, call, self.what, value if self.value else "", note)))


def word(text: str) -> str:
    """A provider's word: as it is if it looks like one, else quoted, bounded and escaped."""
    return text if _WORD.fullmatch(text) else quoted(text, len(text))


def quoted(text: str, length: int, most: int = _SHOWN) -> str:
    """A text quoted and escaped; of a long one the beginning and the length.

    Args:
        text: The text, or its beginning.
        length: How long it is, in characters.
        most: How many of them are shown.
    """
    shown = one_line(repr(text[:most]))
    return shown if length <= most else f"{shown}... ({length:,} characters)"


def additions_of(events: Sequence[ChatCompletionEvent], chunks: Iterable[ChatCompletionChunk]) -> tuple[Addition, ...]:
    """What came, in words.

    Args:
        events: What the chunks meant.
        chunks: The chunks, for what no event tells: the role, names and ids of calls that have no arguments yet, and
            what came before and is repeated.
    """
    told = {type(event) for event in events}
    of_chunks = [addition for chunk in chunks for addition in _of_chunk(chunk, told)]
    found = [*of_chunks, *filter(None, map(_of_event, events))]
    rest = len(found) - _MOST
    return (*found[:_MOST], *((Addition(f"and {rest:,} more"),) if rest > 0 else ()))


def _of_event(event: ChatCompletionEvent) -> Addition | None:
    match event:
        case TextDelta(choice, delta) | ReasoningDelta(choice, delta) | RefusalDelta(choice, delta):
            return _piece(_TEXTS[type(event)], delta, choice)
        case ToolCallStarted() | ToolCallArgumentsDelta() | ToolCallDone():
            return _of_call(event)
        case AudioDelta():
            return _of_audio(event)
        case ImageReceived(choice):
            return Addition("image", choice=choice)
        case AnnotationReceived(choice):
            return Addition("annotation", choice=choice)
        case ChoiceFinished(choice, finish_reason, outcome):
            note = "" if outcome == finish_reason else f"outcome {outcome}"
            return Addition("finish reason", finish_reason[:_EXCERPT], choice=choice, note=note)
        case UsageReceived(usage):
            return Addition("usage", note=tokens_of(usage))
        case _:
            return None  # anomalies stand beside what is added


def _of_call(event: ToolCallStarted | ToolCallArgumentsDelta | ToolCallDone) -> Addition:
    choice, call = event.choice, event.position
    match event:
        case ToolCallStarted(id=id_, name=name):
            note = f"id {word(id_)}" if id_ else "without an id"
            return Addition("started", name[:_EXCERPT], choice=choice, call=call, note=note)
        case ToolCallArgumentsDelta(delta=delta):
            return _piece("arguments", delta, choice, call)
        case ToolCallDone(error=error):
            note = "its arguments do not parse" if error else ""
            return Addition("done", choice=choice, call=call, note=note)


def _of_audio(event: AudioDelta) -> Addition:
    size = f"{len(event.data):,} bytes" if event.data else ""
    spoken = _piece("audio", event.transcript, event.choice) if event.transcript else Addition("audio")
    return spoken._replace(choice=event.choice, note=size)


def _of_chunk(chunk: ChatCompletionChunk, told: set[type[ChatCompletionEvent]]) -> Iterator[Addition]:
    for choice in chunk.choices:
        index = choice.index
        delta: Any = choice.delta
        if role := getattr(delta, "role", None):
            yield Addition("role", str(role)[:_EXCERPT], choice=index)
        if choice.message is not None:
            yield Addition("whole message", choice=index)
        if not told & {ToolCallStarted, ToolCallArgumentsDelta}:
            yield from _fragments(getattr(delta, "tool_calls", None), index)
        if choice.finish_reason and ChoiceFinished not in told:
            yield Addition("finish reason", str(choice.finish_reason)[:_EXCERPT], choice=index)
        tokens = getattr(choice.logprobs, "content", None)
        if is_list(tokens) and tokens:
            yield Addition("log probabilities", choice=index, note=f"{len(tokens)} tokens")
    if chunk.usage is not None and UsageReceived not in told:
        yield Addition("usage", note="nothing new")


def _fragments(calls: Any, choice: int) -> Iterator[Addition]:
    """Fragments that name calls before their arguments come."""
    for call in calls if is_list(calls) else ():
        part: Any = getattr(call, "function", None) or getattr(call, "custom", None)
        name = getattr(part, "name", None)
        if isinstance(call, ChoiceDeltaToolCall) and (name or call.id):
            note = f"id {word(str(call.id))}" if call.id else "without an id"
            yield Addition("call named" if name else "call", str(name or "")[:_EXCERPT], choice=choice, note=note)


def _piece(what: str, delta: str, choice: int, call: int | None = None) -> Addition:
    return Addition(what, delta[:_EXCERPT], len(delta), choice, call)


def tokens_of(usage: CompletionUsage) -> str:
    """The counts of a usage, in words."""
    counts = (("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens), ("total", usage.total_tokens))
    more = (("cached", usage.cached_tokens), ("reasoning", usage.reasoning_tokens))
    told = [*counts, *((name, count) for name, count in more if count)]
    return ", ".join(f"{name} {'not told' if count is None else excerpt(count, _COUNT)}" for name, count in told)


def unknown_fields(chunk: ChatCompletionChunk) -> Iterator[str]:
    """The fields of a chunk that OpenAI's API does not know, by their paths, but for an error: bounded, escaped."""
    yield from _unknown_in("", chunk)
    for choice in chunk.choices:
        yield from _unknown_in("choices[].", choice)
        yield from _unknown_in("choices[].delta.", choice.delta)


def _unknown_in(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, Model):
        known = type(value).model_fields
        yield from (f"{path}{word(name)}" for name in value.model_extra or () if name not in known and name != "error")
