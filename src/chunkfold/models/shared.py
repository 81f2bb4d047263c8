"""The parts that stand in chunks and in completions alike: usage, log probabilities, annotations, errors."""

from typing import Any

from chunkfold.json_values import is_integer
from chunkfold.models.base import Model


class PromptTokensDetails(Model):
    """How the prompt's tokens are made up."""

    audio_tokens: int | None = None
    cached_tokens: int | None = None


class CompletionTokensDetails(Model):
    """How the completion's tokens are made up."""

    accepted_prediction_tokens: int | None = None
    audio_tokens: int | None = None
    reasoning_tokens: int | None = None
    rejected_prediction_tokens: int | None = None


class CompletionUsage(Model):
    """Token counts, as the provider reports them (OpenAI API field `usage`)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens read from a cache, wherever the provider put them; None if it did not say."""
        details = self.__dict__.get("prompt_tokens_details")
        if details is not None and _count(details.cached_tokens) is not None:
            return _count(details.cached_tokens)
        # StepFun and Moonshot; DeepSeek; Anthropic's own; Mistral's.
        for name in ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "num_cached_tokens"):
            count = _count((self.model_extra or {}).get(name))
            if count is not None:
                return count
        return None

    @property
    def reasoning_tokens(self) -> int | None:
        """Completion tokens spent on reasoning, wherever the provider put them; None if it did not say."""
        details = self.__dict__.get("completion_tokens_details")
        if details is not None and _count(details.reasoning_tokens) is not None:
            return _count(details.reasoning_tokens)
        return _count((self.model_extra or {}).get("reasoning_tokens"))


class TopLogprob(Model):
    """One of the likeliest tokens at a place."""

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
    """A note to the content, such as a citation."""

    type: str | None = None
    url_citation: AnnotationURLCitation | None = None


class ErrorObject(Model):
    """An error as the provider sent it (OpenAI API field `error`); extra fields are kept.

    Attributes:
        code: An integer, a numeric string or a word, as sent.
    """

    message: str | None = None
    type: str | None = None
    param: str | None = None
    code: int | str | None = None


def _count(value: Any) -> int | None:
    return value if is_integer(value) else None
