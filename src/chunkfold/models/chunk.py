"""The chunk side: what one event brings, field by field as it was sent, with views for the common case.

Every field a provider may leave out is optional. The names are openai-python's; the one class that would clash
with the completion's is `ChunkChoice`.
"""

from typing import Any

from pydantic import Field

from chunkfold.models.base import Model
from chunkfold.models.content import reasoning_of, text_of
from chunkfold.models.shared import Annotation, ChoiceLogprobs, CompletionUsage


class ChoiceDeltaFunctionCall(Model):
    """A fragment of the legacy function call."""

    name: str | None = None
    arguments: str | None = None


class ChoiceDeltaToolCallFunction(Model):
    """A fragment of a function's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class ChoiceDeltaToolCallCustom(Model):
    """A fragment of a custom tool's name and input."""

    name: str | None = None
    input: str | None = None


class ChoiceDeltaToolCall(Model):
    """A fragment of a tool call; which call it belongs to is the accumulator's to say."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: ChoiceDeltaToolCallFunction | None = None
    custom: ChoiceDeltaToolCallCustom | None = None


class ChoiceDeltaAudio(Model):
    """A fragment of spoken output; `data` is base64, each piece encoded by itself."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class ChoiceDelta(Model):
    """What a chunk adds to one choice's message."""

    content: str | list[Any] | None = None
    role: str | None = None
    refusal: str | None = None
    tool_calls: list[ChoiceDeltaToolCall] | None = None
    function_call: ChoiceDeltaFunctionCall | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    images: list[Any] | None = None
    audio: ChoiceDeltaAudio | None = None
    annotations: list[Annotation] | None = None


class ChunkChoice(Model):
    """One choice's part of a chunk.

    Attributes:
        index: A key, not a position; 0 where none was sent.
        message: A whole message, which some providers send beside or instead of deltas.
    """

    index: int = 0
    delta: ChoiceDelta = Field(default_factory=ChoiceDelta)
    finish_reason: str | None = None
    logprobs: ChoiceLogprobs | None = None
    message: ChoiceDelta | None = None


class ChatCompletionChunk(Model):
    """One `chat.completion.chunk`, as sent."""

    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[ChunkChoice] = []
    usage: CompletionUsage | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None

    @property
    def text(self) -> str:
        """The text of choice 0 in this chunk, "" if none."""
        return "".join([text_of(choice.delta.content) for choice in self.choices if choice.index == 0])

    @property
    def reasoning(self) -> str:
        """The reasoning text of choice 0 in this chunk, "" if none, whichever field brought it."""
        return "".join([reasoning_of(choice.delta.__dict__) for choice in self.choices if choice.index == 0])
