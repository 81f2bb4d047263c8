"""The models of chunks: one event, field by field as it was sent, with properties for the common case.

Every field that a provider may leave out is optional. The names are openai-python's, except `ChunkChoice`, whose name
would clash with the completion's.
"""

from typing import Any, ClassVar, Final

from pydantic import Field

from chunkfold.models.base import Model
from chunkfold.models.content import fields_of, reasoning_in, text_in
from chunkfold.models.shared import Annotation, ChoiceLogprobs, CompletionUsage

CHUNK_OBJECT: Final = "chat.completion.chunk"
"""The value of `object` in chunks."""
AMBIGUOUS_OBJECTS: Final = ("error", "text_completion")
"""Values of `object` of data that is valid as a chunk but may be something else."""


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
    """A fragment of a tool call; the accumulator decides which call it belongs to."""

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

    _has_raw_fields: ClassVar[bool] = True

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
        index: A key, not a position; 0 if none was sent.
        message: A whole message, which some providers send beside or instead of deltas.
    """

    index: int = 0
    delta: ChoiceDelta = Field(default_factory=ChoiceDelta)
    finish_reason: str | None = None
    logprobs: ChoiceLogprobs | None = None
    message: ChoiceDelta | None = None


class ChatCompletionChunk(Model):
    """One `chat.completion.chunk`, as sent."""

    _has_raw_fields: ClassVar[bool] = True

    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[ChunkChoice] = Field(default_factory=list[ChunkChoice])
    usage: CompletionUsage | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None

    @property
    def text(self) -> str:
        """The assistant's text of choice 0 in this chunk, "" if none; without reasoning and messages of tools."""
        return "".join([text_in(fields_of(choice.delta)) for choice in self.choices if choice.index == 0])

    @property
    def reasoning(self) -> str:
        """The reasoning text of choice 0 in this chunk, "" if none, whichever field has it.

        A block with both a signature and a text is assumed to repeat earlier text, and is skipped. If the text is new,
        it is only in `completion.reasoning`.
        """
        return "".join([reasoning_in(fields_of(choice.delta)) for choice in self.choices if choice.index == 0])


def chunks_with(choices: list[ChunkChoice]) -> list[ChatCompletionChunk]:
    """A chunk of chunkfold's own, which has only these choices; none if there are none."""
    return [ChatCompletionChunk(object=CHUNK_OBJECT, choices=choices)] if choices else []


# What an object without choices may be made of and still belong to a stream of chunks.
_EXPLAINED: Final = {
    *("usage", "service_tier", "system_fingerprint", "obfuscation"),  # OpenAI
    "error",  # empty: an object with other content is not a chunk
    "base_resp",  # MiniMax
    *("citations", "search_results"),  # Perplexity
    *("prompt_filter_results", "prompt_annotations"),  # Azure
    "timings",  # llama.cpp
    "x_groq",
}
KEEP_ALIVES: Final = ("keepalive", "ping", "heartbeat")
"""Names of events, and types of objects, that keep a connection alive. As text in data they are refused."""
# Where other APIs have their text, beside a usage or an id like ours: DashScope, Workers AI, Baidu.
_OTHER_OUTPUT: Final = ("output", "response", "result")


def is_keep_alive(chunk: ChatCompletionChunk) -> bool:
    """Whether an object that validates as a chunk only keeps the connection alive: `{}`, `{"type":"ping"}`."""
    present = chunk.__pydantic_fields_set__
    return not present or ("choices" not in present and (chunk.__pydantic_extra__ or {}).get("type") in KEEP_ALIVES)


def is_unexplained(chunk: ChatCompletionChunk) -> bool:
    """Whether an object that validates as a chunk has nothing that a chunk or a keep-alive has."""
    present = chunk.__pydantic_fields_set__
    if "choices" in present or not present:
        return False
    unknown = chunk.__pydantic_extra__ or {}
    if any(unknown.get(name) is not None for name in _OTHER_OUTPUT):
        return True
    if not present.isdisjoint(_EXPLAINED) or unknown.get("type") in KEEP_ALIVES:
        return False
    kind = chunk.__dict__.get("object")
    if kind:
        return not kind.startswith("chat.completion")
    return not ({"id", "created"} <= present or {"id", "model"} <= present)
