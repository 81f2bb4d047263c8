"""Models that chunks and completions share: usage, log probabilities, annotations, audio, errors."""

from typing import Annotated

from pydantic import Field

from chunkfold.json_text.values import is_int64, is_object
from chunkfold.models.base import Model
from chunkfold.models.content import fields_of

Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # a larger number cannot be one of tokens, and is kept raw


class PromptTokensDetails(Model):
    """How the prompt's tokens are made up."""

    audio_tokens: Count | None = None
    cached_tokens: Count | None = None


class CompletionTokensDetails(Model):
    """How the completion's tokens are made up."""

    accepted_prediction_tokens: Count | None = None
    audio_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    rejected_prediction_tokens: Count | None = None


class CompletionUsage(Model):
    """Token counts, as the provider reports them (OpenAI API field `usage`)."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens read from a cache, wherever the provider put them; None if they were not sent."""
        # DeepSeek's; Anthropic's own; Mistral's; GigaChat's; Inception's. StepFun and Moonshot use the usual name.
        names = (
            *("prompt_cache_hit_tokens", "cache_read_input_tokens", "num_cached_tokens", "precached_prompt_tokens"),
            "cached_input_tokens",
        )
        details = ("prompt_tokens_details", "input_tokens_details", "prompt_token_details")  # last: Writer's, Mistral's
        return self._count("cached_tokens", details, names)

    @property
    def reasoning_tokens(self) -> int | None:
        """Completion tokens spent on reasoning, wherever the provider put them; None if they were not sent."""
        details = ("completion_tokens_details", "output_tokens_details", "completion_token_details")  # last: Writer's
        return self._count("reasoning_tokens", details)

    def _count(self, name: str, details: tuple[str, ...], names: tuple[str, ...] = ()) -> int | None:
        """The first positive count in the details or at the top, there also under other names; 0 if only zeros came."""
        top = fields_of(self)
        inner = [vars(part) if isinstance(part, Model) else part for part in map(top.get, details)]
        found = [part.get(name) for part in inner if is_object(part)] + [top.get(one) for one in (name, *names)]
        counts = [count for count in found if is_int64(count)]
        return next(filter(None, counts), 0 if counts else None)


class TopLogprob(Model):
    """One of the most likely tokens at a position."""

    token: str | None = None
    bytes: list[int] | None = None
    logprob: float | None = None


class ChatCompletionTokenLogprob(Model):
    """A token with its log probability."""

    token: str | None = None
    bytes: list[int] | None = None
    logprob: float | None = None
    top_logprobs: list[TopLogprob] | None = None


class ChoiceLogprobs(Model):
    """Log probabilities of a choice's tokens."""

    content: list[ChatCompletionTokenLogprob] | None = None
    refusal: list[ChatCompletionTokenLogprob] | None = None


class AnnotationURLCitation(Model):
    """A web page that was cited; the indexes are characters of the content."""

    start_index: int | None = None
    end_index: int | None = None
    title: str | None = None
    url: str | None = None


class Annotation(Model):
    """A note on the content, such as a citation."""

    type: str | None = None
    url_citation: AnnotationURLCitation | None = None


class ChatCompletionAudio(Model):
    """Spoken output; `data` is base64 of the whole, `expires_at` seconds since 1970."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class ErrorObject(Model):
    """An error as the provider sent it (OpenAI API field `error`); extra fields are kept.

    Attributes:
        code: An integer, a numeric string or a word, as sent.
    """

    message: str | None = None
    type: str | None = None
    param: str | None = None
    code: int | str | None = None
