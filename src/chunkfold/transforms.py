"""Opt-in transforms of chunks, for providers' habits that cannot be detected. None is on by default.

Each is a small object without I/O. It takes a chunk and returns chunks, and at the end returns what it held back. The
parser applies them in the given order: `ChatCompletionParser(transforms=[CumulativeDeltas(), ThinkTags()])`. An object
is for one stream at a time: it starts over when the stream has ended. Transforms replace chunks and never change them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import filterfalse, islice
from typing import Any, Final, Protocol

from chunkfold.arguments import A_CHUNK, check_flag, check_instance, wrong_type
from chunkfold.fold.stream_fold import brings_output
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.fold.text_channels import Channel, TextChannels
from chunkfold.models.base import ModelT
from chunkfold.models.chunk import CHUNK_OBJECT, ChatCompletionChunk, ChoiceDelta, ChunkChoice, chunks_with
from chunkfold.models.content import (
    REASONING_FIELDS,
    brings_tool_message,
    fields_of,
    is_of_tool,
    reasoning_in,
    text_of,
)
from chunkfold.models.outcome import outcome_of

_OTHER_OUTPUT: Final = (*REASONING_FIELDS, "tool_calls", "function_call", "refusal", "audio", "images")
# Each tag may become a chunk, so in one event, which may have 10,000 choices, their number has a limit.
_MOST_TAGS: Final = 1000
_TAGS_PER_CHOICE: Final = 2  # that are allowed again with each choice of a chunk


class Transform(Protocol):
    """The interface of a transform."""

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """Return the chunks that replace this one: often one, sometimes none or several."""
        ...

    def close(self) -> list[ChatCompletionChunk]:
        """Mark the end of the stream; return what was held back, and forget the stream."""
        ...


def check_transforms(transforms: Sequence[object]) -> None:
    """Check the option `transforms`; a `TypeError` if it is not a sequence of them."""
    # Python finds a tuple, which is the default, much faster as a tuple than as a sequence.
    check_instance("transforms", transforms, (tuple, Sequence), "a sequence of transforms")
    for place, transform in enumerate(transforms):
        methods = [getattr(transform, name, None) for name in ("feed", "close")]
        if isinstance(transform, type) or not all(map(callable, methods)):
            raise wrong_type(f"transforms[{place}]", "a transform, such as ThinkTags()", transform)


class ThinkTags:
    """Turn `<think>...</think>` in the content into reasoning, even if a tag is split over deltas.

    For models whose server does not separate the two (Qwen and DeepSeek-R1 on older servers, MiniMax, MLX). Use it
    only for those: a model that writes about the tags would be misread. A closing tag without an opening one is
    dropped; if the chat template already opens the tag, pass `inside=True`.

    Args:
        opening: The tag that begins reasoning.
        closing: The tag that ends it.
        inside: Whether the content starts inside the tag.

    Raises:
        TypeError: A tag is not a str, or `inside` is not a bool.
        ValueError: A tag is empty, or part of the other.
    """

    def __init__(self, opening: str = "<think>", closing: str = "</think>", *, inside: bool = False) -> None:
        check_instance("opening", opening, str, "a str")
        check_instance("closing", closing, str, "a str")
        check_flag("inside", inside)
        if opening in closing or closing in opening:  # an empty one is part of any other
            raise ValueError(f"expected two tags, neither part of the other, received {opening!r} and {closing!r}")
        self._tags = (opening, closing)
        self._any_tag = re.compile("|".join(map(re.escape, self._tags)))
        self._starts_inside = inside
        self._inside: dict[int, bool] = {}
        self._held: dict[int, str] = {}
        self._tags_left = _MOST_TAGS

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with its content split: the last part has the finish reason, the first everything else.

        The second parts of all choices are in one chunk, and so on: there may be thousands of choices.
        """
        check_instance("chunk", chunk, ChatCompletionChunk, A_CHUNK)
        parts: defaultdict[int, list[ChunkChoice]] = defaultdict(list, {0: []})
        last: dict[int, int] = {}  # of each choice, since an index may come twice in a chunk
        for choice in chunk.choices:
            first, *others = self._split(choice)
            pieces = [_replaced(choice, delta=first), *(ChunkChoice(index=choice.index, delta=one) for one in others)]
            if first.model_fields_set:  # also text that was held back until a choice without a delta came
                pieces[0].__pydantic_fields_set__.add("delta")
            if (message := vars(choice).get("message")) is not None:
                vars(pieces[0])["message"] = self._split_message(message)
            if others:
                vars(pieces[0])["finish_reason"] = None
                pieces[-1].finish_reason = choice.finish_reason
            place = last.get(choice.index, 0)
            for number, piece in enumerate(pieces, place):
                parts[number].append(piece)
            last[choice.index] = place + len(others)
        firsts = parts.pop(0)
        return [_replaced(chunk, choices=firsts), *(_beside(chunk, choices) for choices in parts.values())]

    def close(self) -> list[ChatCompletionChunk]:
        """Return held back text that turned out not to be a tag."""
        held, self._held = self._held, {}
        choices = [ChunkChoice(index=index, delta=self._delta(index, text)) for index, text in held.items() if text]
        self._inside, self._tags_left = {}, _MOST_TAGS
        return chunks_with(choices)

    def _split(self, choice: ChunkChoice) -> list[ChoiceDelta]:
        """The deltas that replace a choice's; only that one if nothing in it changes."""
        self._tags_left = min(self._tags_left + _TAGS_PER_CHOICE, _MOST_TAGS)
        delta, content = choice.delta, choice.delta.content
        if is_of_tool(vars(delta)):
            return [delta]
        held = self._held.pop(choice.index, "")
        if not held and not (content and isinstance(content, str)):
            return [delta]
        if isinstance(content, list) or (not content and any(map(fields_of(delta).get, _OTHER_OUTPUT))):
            return [self._delta(choice.index, held), delta]
        # After a call no text continues the one before it.
        is_over = outcome_of(choice.finish_reason) is not None or delta.tool_calls
        parts = list(self._parts(choice.index, held + (content or ""), hold=not is_over))
        rest = _replaced(delta, content=None)
        rest.__pydantic_fields_set__.discard("content")
        if own := reasoning_in(fields_of(rest)):
            parts = _without_repeats(parts, held + own)
        if not parts or (REASONING_FIELDS & rest.model_fields_set and parts[0].reasoning_content):
            return [rest, *parts]
        # The first stretch of text goes with all else that the delta has.
        first = _replaced(rest, **parts[0].model_dump(exclude_unset=True))
        return [first, *parts[1:]]

    def _split_message(self, message: ChoiceDelta) -> ChoiceDelta:
        """A whole message, beside or instead of deltas, with its content split as that of deltas."""
        content = vars(message).get("content")
        if not isinstance(content, str) or is_of_tool(vars(message)):
            return message
        parts = list(ThinkTags(*self._tags, inside=self._starts_inside)._parts(0, content, hold=False))
        if own := reasoning_in(fields_of(_replaced(message, content=None))):
            parts = _without_repeats(parts, own)
        split = _replaced(message, content="".join(text_of(part.content) for part in parts))
        if reasoning := "".join(part.reasoning_content or "" for part in parts):
            split.reasoning_content = own + reasoning
        return split

    def _parts(self, index: int, text: str, *, hold: bool) -> Iterator[ChoiceDelta]:
        """The stretches of text between tags, up to a limit; what may begin a tag at the end is held back."""
        start, tags = 0, self._any_tag.finditer(text)
        for tag in islice(tags, self._tags_left):
            self._tags_left -= 1
            if tag.start() > start:
                yield self._delta(index, text[start : tag.start()])
            start = tag.end()
            self._inside[index] = tag[0] == self._tags[0]
        rest = text[start:]
        held = _tag_beginning(rest, self._tags) if hold else ""
        self._held[index] = held
        if len(rest) > len(held):
            yield self._delta(index, rest[: len(rest) - len(held)])
        for tag in tags:
            self._inside[index] = tag[0] == self._tags[0]

    def _delta(self, index: int, text: str) -> ChoiceDelta:
        inside = self._inside.get(index, self._starts_inside)
        return ChoiceDelta.model_validate({"reasoning_content" if inside else "content": text})


class CumulativeDeltas:
    """Turn "deltas" that repeat everything sent before into real ones: all texts, also in lists, and arguments.

    For servers that send snapshots as deltas ("a", "ab", "abc": DashScope by default). Never use it where
    deltas are real: "ha" after "h" would lose its "h".
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], TextBuffer] = {}
        self._channels = TextChannels()

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with only what is new."""
        check_instance("chunk", chunk, ChatCompletionChunk, A_CHUNK)
        return [_replaced(chunk, choices=[self._choice(choice) for choice in chunk.choices])]

    def close(self) -> list[ChatCompletionChunk]:
        """Nothing is held back."""
        self._seen, self._channels = {}, TextChannels()
        return []

    def _choice(self, choice: ChunkChoice) -> ChunkChoice:
        choice = _replaced(choice, delta=choice.delta.model_copy(deep=True))
        texts: dict[tuple[Any, ...], list[Channel]] = {}
        for channel in self._channels.of(choice):
            if channel.text:
                texts.setdefault(channel.key, []).append(channel)
        for key, pieces in texts.items():
            self._shorten(self._seen.setdefault(key, TextBuffer()), pieces)
        return choice

    def _shorten(self, seen: TextBuffer, pieces: list[Channel]) -> None:
        """Remove the part of a text that was seen before; it can be in several pieces, such as a content list's."""
        text = "".join([piece.text for piece in pieces])
        size = seen.tell()
        # The length first: what is shorter than all that came is a real delta, and costs no joining.
        known = size if len(text) >= size and text.startswith(seen.getvalue()) else 0
        seen.write(text[known:])
        for piece in pieces:
            whole = piece.text
            piece.holder[piece.name] = whole[known:]
            known = max(known - len(whole), 0)


class OneChoice:
    """Merge one message that is spread over several choices: every choice becomes choice 0.

    For proxies that put text into one choice and tool calls into another (GitHub Copilot for Claude). Use it only if
    one completion was requested (`n` is 1). The finish reason is sent at the end: only then is it certain that no other
    choice continued after it.
    """

    def __init__(self) -> None:
        self._finished: ChunkChoice | None = None

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with all its choices as choice 0, and without their finish reasons."""
        check_instance("chunk", chunk, ChatCompletionChunk, A_CHUNK)
        for choice in filterfalse(brings_tool_message, chunk.choices):
            last = self._finished
            if outcome_of(choice.finish_reason) is not None:
                self._finished = choice
            elif last is not None and choice.index != last.index and brings_output(choice):
                self._finished = None
        return [_replaced(chunk, choices=[self._as_first(choice) for choice in chunk.choices])]

    def close(self) -> list[ChatCompletionChunk]:
        """Return the last finish reason, if no other choice continued after it."""
        finished, self._finished = self._finished, None
        if finished is None:
            return []
        return chunks_with([ChunkChoice(index=0, delta=ChoiceDelta(), finish_reason=finished.finish_reason)])

    def _as_first(self, choice: ChunkChoice) -> ChunkChoice:
        is_open = outcome_of(choice.finish_reason) is None  # also with the word `null`, which the fold notes
        return _replaced(choice, index=0) if is_open else _replaced(choice, index=0, finish_reason=None)


def _replaced(model: ModelT, **fields: Any) -> ModelT:
    """A copy with some fields replaced; which fields were sent stays known."""
    copy = model.model_copy()
    vars(copy).update(fields)
    # A text that is new counts as sent; an index or a delta that was not sent does not.
    copy.__pydantic_fields_set__.update(name for name, value in fields.items() if isinstance(value, str))
    return copy


def _beside(chunk: ChatCompletionChunk, choices: list[ChunkChoice]) -> ChatCompletionChunk:
    """A further chunk of the same stream."""
    head = {name: vars(chunk).get(name) for name in ("id", "created", "model")}
    return ChatCompletionChunk.model_validate({**head, "object": CHUNK_OBJECT, "choices": choices})


def _without_repeats(parts: list[ChoiceDelta], own: str) -> list[ChoiceDelta]:
    """The parts without reasoning that is in a field of its own, too, in the same order (MiniMax-M3)."""
    kept: list[ChoiceDelta] = []
    place = 0
    for part in parts:
        begin = -1
        if part.reasoning_content:
            text = part.reasoning_content.strip()
            begin = own.find(text, place)
            place = len(own) if begin < 0 else begin + len(text)  # once one is not, none is: both may be large
        if begin < 0:
            kept.append(part)
    return kept


def _tag_beginning(text: str, tags: tuple[str, ...]) -> str:
    """The longest end of the text that is a proper beginning of a tag, "" if none is."""
    for size in range(min(len(text), max(map(len, tags)) - 1), 0, -1):
        if any(len(tag) > size and tag.startswith(text[-size:]) for tag in tags):
            return text[-size:]
    return ""
