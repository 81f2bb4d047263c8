"""Opt-in transforms of a stream's chunks, for habits that can only be guessed at. None is on by default.

Each is a small object without I/O: chunks in, chunks out, and at the end what it held back. They compose in the
order in which they are given to the parser: `ChatCompletionParser(transforms=[CumulativeDeltas(), ThinkTags()])`.
An object serves one stream. Chunks are never changed, but replaced.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from chunkfold.models import ChatCompletionChunk, ChoiceDelta, ChunkChoice


class Transform(Protocol):
    """What a transform does."""

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunks that stand for this one: often one, sometimes none or several."""
        ...

    def close(self) -> list[ChatCompletionChunk]:
        """The stream ended: what was held back."""
        ...


class ThinkTags:
    """Turn `<think>...</think>` in the content into reasoning, also where a tag is cut over deltas.

    For models whose server does not separate the two (Qwen and DeepSeek-R1 on older servers, MiniMax, MLX). Use it
    only for those: a model that writes about the tags would be misread. A closing tag without an opening one is
    dropped; where the chat template already opens the tag, say `inside=True`.

    Args:
        opening: The tag that begins reasoning.
        closing: The tag that ends it.
        inside: Whether the content begins inside the tag.
    """

    def __init__(self, opening: str = "<think>", closing: str = "</think>", *, inside: bool = False) -> None:
        self._tags = (opening, closing)
        self._starts_inside = inside
        self._inside: dict[int, bool] = {}
        self._held: dict[int, str] = {}

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with its content split: the first part keeps all else that the chunk had."""
        pieces: list[tuple[int, ChoiceDelta]] = []
        choices: list[ChunkChoice] = []
        for choice in chunk.choices:
            deltas = self._split(choice) or [choice.delta]
            choices.append(choice.model_copy(update={"delta": deltas[0]}))
            pieces += [(choice.index, delta) for delta in deltas[1:]]
        if not pieces:
            return [chunk.model_copy(update={"choices": choices})]
        # A finish reason stays with the last part.
        last = {index: place for place, (index, _) in enumerate(pieces)}
        reasons = {choice.index: choice.finish_reason for choice in chunk.choices}
        whole = [
            choice.model_copy(update={"finish_reason": None}) if choice.index in last else choice for choice in choices
        ]
        parts = [
            ChunkChoice(index=index, delta=delta, finish_reason=reasons[index] if last[index] == place else None)
            for place, (index, delta) in enumerate(pieces)
        ]
        return [chunk.model_copy(update={"choices": whole}), *(_beside(chunk, part) for part in parts)]

    def close(self) -> list[ChatCompletionChunk]:
        """What looked like the beginning of a tag and was none."""
        held, self._held = self._held, {}
        return [
            ChatCompletionChunk(
                object="chat.completion.chunk", choices=[ChunkChoice(index=index, delta=self._delta(index, text))]
            )
            for index, text in held.items()
            if text
        ]

    def _split(self, choice: ChunkChoice) -> list[ChoiceDelta]:
        index, content = choice.index, choice.delta.content
        text = self._held.pop(index, "") + (content if isinstance(content, str) else "")
        if not text:
            return []
        parts = list(self._parts(index, text, hold=not choice.finish_reason))
        rest = choice.delta.model_dump(exclude={"content"}, exclude_unset=True)
        fields = {**rest, **parts[0].model_dump(exclude_unset=True)} if parts else rest
        first = ChoiceDelta.validate_leniently(fields)[0]
        return [first, *parts[1:]]

    def _parts(self, index: int, text: str, *, hold: bool) -> Iterator[ChoiceDelta]:
        """The stretches of text between tags; a possible beginning of a tag at the end is held back."""
        inside = self._inside.setdefault(index, self._starts_inside)
        while text:
            tag = min((tag for tag in self._tags if tag in text), key=text.index, default=None)
            if tag is None:
                held = _tag_beginning(text, self._tags) if hold else ""
                self._held[index] = held
                text = text[: len(text) - len(held)]
                if text:
                    yield self._delta(index, text)
                return
            before, _, text = text.partition(tag)
            if before:
                yield self._delta(index, before)
            inside = tag == self._tags[0]
            self._inside[index] = inside

    def _delta(self, index: int, text: str) -> ChoiceDelta:
        inside = self._inside.get(index, self._starts_inside)
        return ChoiceDelta.model_validate({"reasoning_content" if inside else "content": text})


class CumulativeDeltas:
    """Turn "deltas" that repeat everything sent before into real ones.

    For servers that send snapshots as deltas ("a", "ab", "abc": DashScope unless told otherwise). Never use it where
    deltas are real: "ha" after "h" would lose its "h".
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], str] = {}

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with only what is new in its texts and arguments."""
        return [chunk.model_copy(update={"choices": [self._choice(choice) for choice in chunk.choices]})]

    def close(self) -> list[ChatCompletionChunk]:
        """Nothing is held back."""
        return []

    def _choice(self, choice: ChunkChoice) -> ChunkChoice:
        fields = choice.delta.model_dump(exclude_unset=True)
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            self._shorten(fields, name, (choice.index, name))
        for call in fields.get("tool_calls") or ():
            self._shorten(call.get("function"), "arguments", (choice.index, "arguments", call.get("index")))
        return choice.model_copy(update={"delta": ChoiceDelta.validate_leniently(fields)[0]})

    def _shorten(self, holder: dict[str, Any] | None, name: str, channel: tuple[Any, ...]) -> None:
        text = (holder or {}).get(name)
        if holder is None or not isinstance(text, str) or not text:
            return
        seen = self._seen.get(channel, "")
        new = text.removeprefix(seen)
        self._seen[channel] = seen + new
        holder[name] = new


class OneChoice:
    """Merge one message that is spread over several choices: every choice becomes choice 0.

    For proxies that put text into one choice and tool calls into another (GitHub Copilot for Claude). Only where one
    completion was asked for (`n` is 1).
    """

    def feed(self, chunk: ChatCompletionChunk) -> list[ChatCompletionChunk]:
        """The chunk with all its choices as choice 0."""
        choices = [choice.model_copy(update={"index": 0}) for choice in chunk.choices]
        return [chunk.model_copy(update={"choices": choices})]

    def close(self) -> list[ChatCompletionChunk]:
        """Nothing is held back."""
        return []


def _beside(chunk: ChatCompletionChunk, choice: ChunkChoice) -> ChatCompletionChunk:
    """A further chunk of the same stream."""
    head = {name: getattr(chunk, name) for name in ("id", "object", "created", "model")}
    return ChatCompletionChunk(**head, choices=[choice])


def _tag_beginning(text: str, tags: tuple[str, ...]) -> str:
    """The longest end of the text that is a proper beginning of a tag, "" if none is."""
    for size in range(min(len(text), max(map(len, tags)) - 1), 0, -1):
        if any(len(tag) > size and tag.startswith(text[-size:]) for tag in tags):
            return text[-size:]
    return ""
