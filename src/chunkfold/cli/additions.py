"""What a frame adds to the answer, in words: the parser's typed events, and what a chunk has beyond them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
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
from chunkfold.json_text.values import is_list
from chunkfold.models.base import Model
from chunkfold.models.chunk import ChoiceDeltaToolCall

_EXCERPT: Final = 400  # characters kept of a piece of text
_SHOWN: Final = 120  # characters of it that are shown
_MOST: Final = 50  # additions listed for one frame
_WORD: Final = re.compile(r"[\w./:@+-]{1,80}", re.ASCII)


class Addition(NamedTuple):
    """One thing that a frame adds."""

    what: str  # such as "text" and "finish reason"
    value: str = ""  # only the beginning of a long text
    length: int | None = None  # of the text, in characters; None if it is not a text
    choice: int = 0  # the choice's index
    call: int | None = None  # the position of the tool call; None if it does not belong to one
    note: str = ""  # a further detail

    def __str__(self) -> str:
        """The addition in words, bounded, on one line: `text 'Hel'`."""
        choice = f"choice {self.choice}:" if self.choice else ""
        call = "" if self.call is None else f"call {self.call}"
        value = word(self.value) if self.length is None else quoted(self.value, self.length)
        note = f"({self.note})" if self.note else ""
        return " ".join(filter(None, (choice, call, self.what, value if self.value else "", note)))


def word(text: str) -> str:
    """A provider's word: unchanged if it looks like one, else quoted, bounded and escaped."""
    return text if _WORD.fullmatch(text) else quoted(text, len(text))


def quoted(text: str, length: int, most: int = _SHOWN) -> str:
    """The beginning of a text of that length, quoted and escaped; with the length if more than `most` characters."""
    shown = one_line(repr(text[:most]))
    return shown if length <= most else f"{shown}... ({length:,} characters)"


def additions_of(events: Sequence[ChatCompletionEvent], chunks: Iterable[ChatCompletionChunk]) -> tuple[Addition, ...]:
    """What one frame adds.

    Its chunks show what no event reports: the role, names and ids of calls without arguments yet, and repeated values.
    """
    told = {type(event) for event in events}
    found = [addition for chunk in chunks for addition in _beyond_events(chunk, told)]
    found += chain.from_iterable(map(_of_event, events))
    shown = [addition._replace(value=addition.value[:_EXCERPT]) for addition in found[:_MOST]]
    rest = len(found) - len(shown)
    return (*shown, *((Addition(f"and {rest:,} more"),) if rest else ()))


def _of_event(event: ChatCompletionEvent) -> Iterator[Addition]:  # noqa: C901 - a row for each event
    """The addition of an event; none for an anomaly, which is shown beside the additions."""
    match event:
        case TextDelta(choice, text):
            yield Addition("text", text, len(text), choice)
        case ReasoningDelta(choice, text):
            yield Addition("reasoning", text, len(text), choice)
        case RefusalDelta(choice, text):
            yield Addition("refusal", text, len(text), choice)
        case ToolCallStarted(choice=choice, position=call, id=id_, name=name):
            yield Addition("started", name, choice=choice, call=call, note=_id(id_))
        case ToolCallArgumentsDelta(choice=choice, position=call, delta=text):
            yield Addition("arguments", text, len(text), choice, call)
        case ToolCallDone(choice=choice, position=call, error=error):
            yield Addition("done", choice=choice, call=call, note="its arguments do not parse" if error else "")
        case AudioDelta(choice=choice, data=data, transcript=text):
            yield Addition("audio", text, len(text) or None, choice, note=f"{len(data):,} bytes" if data else "")
        case ImageReceived(choice):
            yield Addition("image", choice=choice)
        case AnnotationReceived(choice):
            yield Addition("annotation", choice=choice)
        case ChoiceFinished(choice, reason, outcome):
            note = "" if outcome == reason else f"outcome {outcome}"
            yield Addition("finish reason", reason, choice=choice, note=note)
        case UsageReceived(usage):
            yield Addition("usage", note=tokens_of(usage))
        case _:
            pass


def _beyond_events(chunk: ChatCompletionChunk, told: set[type[ChatCompletionEvent]]) -> Iterator[Addition]:
    for choice in chunk.choices:
        index, delta = choice.index, choice.delta
        if delta.role:
            yield Addition("role", str(delta.role), choice=index)  # a wrong type is kept as it was sent
        if choice.message is not None:
            yield Addition("whole message", choice=index)
        if delta.tool_calls and not told & {ToolCallStarted, ToolCallArgumentsDelta}:
            yield from (named for fragment in delta.tool_calls for named in _named(fragment, index))
        if choice.finish_reason and ChoiceFinished not in told:
            yield Addition("finish reason", choice.finish_reason, choice=index)
        tokens = getattr(choice.logprobs, "content", None)
        if is_list(tokens) and tokens:
            yield Addition("log probabilities", choice=index, note=f"{len(tokens)} tokens")
    if chunk.usage is not None and UsageReceived not in told:
        yield Addition("usage", note="nothing new")


def _named(fragment: ChoiceDeltaToolCall, choice: int) -> Iterator[Addition]:
    """A fragment that names a call before its arguments arrive."""
    part = fragment.function or fragment.custom
    name = (part and part.name) or ""
    if name or fragment.id:
        yield Addition("call named" if name else "call", name, choice=choice, note=_id(fragment.id))


def _id(id_: str | None) -> str:
    return f"id {word(id_)}" if id_ else "without an id"


def tokens_of(usage: CompletionUsage) -> str:
    """The counts of a usage, in words."""
    counts = (("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens), ("total", usage.total_tokens))
    more = (("cached", usage.cached_tokens), ("reasoning", usage.reasoning_tokens))
    told = [*counts, *((name, count) for name, count in more if count)]
    return ", ".join(f"{name} {'not sent' if count is None else f'{count:,}'}" for name, count in told)


def unknown_fields(chunk: ChatCompletionChunk) -> Iterator[str]:
    """The paths of the fields that OpenAI's API does not know, except for an error: bounded, escaped."""
    parts: list[tuple[str, Any]] = [("", chunk)]
    for choice in chunk.choices:
        parts += [("choices[].", choice), ("choices[].delta.", choice.delta)]
    for path, part in parts:
        if isinstance(part, Model):
            known = {*type(part).model_fields, "error"}
            yield from (f"{path}{word(name)}" for name in part.model_extra or () if name not in known)
