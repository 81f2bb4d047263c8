"""The attributes of a request and of its answer. None of them has content.

A provider can send values of any type and size: a value of the wrong type is left out, and a long text is truncated.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from chunkfold.errors import APIError
from chunkfold.json_text.values import is_int64, is_integer, is_list, is_object
from chunkfold.models.completion import ChatCompletion
from chunkfold.models.content import fields_of
from chunkfold.models.shared import CompletionTokensDetails, CompletionUsage, PromptTokensDetails
from chunkfold.otel import names
from chunkfold.otel.names import Names

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]

_LONGEST: Final = 256  # characters of a text
_MOST_CHOICES: Final = 128  # that OpenAI's API takes as `n`
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NUMBERS: Final = {
    "frequency_penalty": names.REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": names.REQUEST_PRESENCE_PENALTY,
    "temperature": names.REQUEST_TEMPERATURE,
    "top_p": names.REQUEST_TOP_P,
}
_OUTPUT_TYPES: Final = {"json_object": "json", "json_schema": "json", "text": "text"}


def text_of(value: Any) -> str | None:
    """A text that any exporter can send: truncated, without halves of characters; None if it is empty or not a text."""
    return value[:_LONGEST].encode("utf-8", "replace").decode() or None if isinstance(value, str) else None


def server_of(sent: Any) -> tuple[str, int | None] | None:
    """The host and port of a request, by its response or by the client's exception; None if unknown."""
    try:
        url = urlsplit(str(sent.request.url))
        return (url.hostname, url.port or _DEFAULT_PORTS.get(url.scheme)) if url.hostname else None
    except (AttributeError, RuntimeError, ValueError):  # httpx raises the second for a response that was made by hand
        return None


def common_attributes(
    request: Mapping[str, Any], provider: str | None, server: tuple[str, int | None] | None
) -> Attributes:
    """The attributes of the span and of all metrics, known when the request is sent."""
    host, port = server or (None, None)
    found: dict[str, Value | None] = {
        names.OPERATION_NAME: names.CHAT,
        names.PROVIDER_NAME: provider or names.provider_of(host),
        names.REQUEST_MODEL: text_of(request.get("model")),
        names.SERVER_ADDRESS: text_of(host),
        names.SERVER_PORT: port,
    }
    return _present(found)


def request_attributes(request: Mapping[str, Any], provider: Value, version: Names) -> Attributes:
    """The span's attributes of the request, besides the common ones."""
    choices, seed, most = choices_asked(request), request.get("seed"), request.get("max_completion_tokens")
    found: dict[str, Value | None] = {
        names.REQUEST_STREAM: True,
        names.REQUEST_CHOICE_COUNT: choices if choices != 1 else None,
        **{name: _number(request.get(key)) for key, name in _NUMBERS.items()},
        names.REQUEST_MAX_TOKENS: count(request.get("max_tokens") if most is None else most),
        names.REQUEST_SEED: seed if is_int64(seed) else None,
        names.REQUEST_TOP_K: (count if version.has_whole_top_k else _number)(request.get("top_k")),
        names.REQUEST_STOP_SEQUENCES: _texts(request.get("stop")),
        names.OUTPUT_TYPE: _output_type(request),
    }
    if version.request_reasoning_level is not None:
        found[version.request_reasoning_level] = text_of(request.get("reasoning_effort"))
    if provider == names.OPENAI:
        tier = text_of(request.get("service_tier"))
        found[names.OPENAI_API_TYPE] = names.CHAT_COMPLETIONS
        found[names.OPENAI_REQUEST_SERVICE_TIER] = tier if tier != "auto" else None
    return _present(found)


def response_attributes(completion: ChatCompletion, choices: int, provider: Value, version: Names) -> Attributes:
    """The span's attributes of the answer; `choices` is how many were requested."""
    usage = usage_of(completion)
    found: dict[str, Value | None] = {
        names.RESPONSE_ID: text_of(completion.id),
        names.RESPONSE_MODEL: text_of(completion.model),
        names.RESPONSE_FINISH_REASONS: finish_reasons(completion, choices),
        names.USAGE_INPUT_TOKENS: count(usage.prompt_tokens),
        names.USAGE_OUTPUT_TOKENS: count(usage.completion_tokens),
        names.USAGE_CACHE_READ_TOKENS: count(usage.cached_tokens),
        version.usage_cache_write_tokens: cache_write_tokens(usage),
        names.USAGE_REASONING_TOKENS: count(usage.reasoning_tokens),
    }
    sent_in, sent_out = modalities(usage.prompt_tokens_details), modalities(usage.completion_tokens_details)
    found |= {name: sent_in.get(modality) for modality, name in version.usage_input_tokens_of.items()}
    found |= {name: sent_out.get(modality) for modality, name in version.usage_output_tokens_of.items()}
    if provider == names.OPENAI:
        found[names.OPENAI_RESPONSE_SERVICE_TIER] = text_of(completion.service_tier)
        found[names.OPENAI_RESPONSE_SYSTEM_FINGERPRINT] = text_of(completion.system_fingerprint)
    return _present(found)


def finish_reasons(completion: ChatCompletion, choices: int) -> list[str]:
    """One for each choice that was requested or received, as sent; `error` if one was expected and not received."""
    sent = {choice.index: text_of(choice.finish_reason) for choice in completion.choices}
    return [sent.get(index) or names.FINISH_ERROR for index in sorted({*range(choices), *sent})]


def choices_asked(request: Mapping[str, Any]) -> int:
    """How many choices a request asks for."""
    asked = request.get("n")
    return min(asked, _MOST_CHOICES) if is_integer(asked) and asked > 0 else 1


def error_type(error: BaseException) -> str:
    """The class of an error, from a small set: the HTTP status that the provider meant, else the exception's name."""
    if isinstance(error, APIError) and error.status_code is not None and 100 <= error.status_code <= 599:
        return str(error.status_code)
    return type(error).__name__


def usage_of(completion: ChatCompletion) -> CompletionUsage:
    """The usage; one without counts if none was received."""
    return completion.usage or CompletionUsage()


def by_modality(total: int, sent: Mapping[str, int]) -> dict[str, int]:
    """The total, split by modality: the counts that were sent, and the remainder as unknown.

    If the counts exceed the total, or if there are none, all of the total is unknown.
    """
    rest = total - sum(sent.values())
    if rest < 0 or not sent:
        return {names.UNKNOWN_MODALITY: total}
    return {**sent, names.UNKNOWN_MODALITY: rest} if rest else dict(sent)


def cache_write_tokens(usage: CompletionUsage) -> int | None:
    """Tokens of the prompt that were written to a cache (OpenAI's field, or Anthropic's), None if not sent."""
    details = usage.prompt_tokens_details
    written = count(fields_of(details).get("cache_write_tokens")) if details is not None else None
    return written if written is not None else count(fields_of(usage).get("cache_creation_input_tokens"))


def modalities(details: PromptTokensDetails | CompletionTokensDetails | None) -> dict[str, int]:
    """Tokens by their modality: those above 0 that were sent in the details of a usage."""
    fields: Mapping[str, Any] = {} if details is None else fields_of(details)
    sent = {modality: count(fields.get(f"{modality}_tokens")) for modality in names.MODALITIES}
    return {modality: tokens for modality, tokens in sent.items() if tokens}


def _present(found: Mapping[str, Value | None]) -> Attributes:
    return {name: value for name, value in found.items() if value is not None}


def count(value: Any) -> int | None:
    """The value if it is a number of tokens, as any exporter can send it; else None."""
    return value if is_int64(value) and value >= 0 else None


def _number(value: Any) -> float | None:
    return float(value) if is_int64(value) or isinstance(value, float) else None


def _texts(value: Any) -> list[str] | None:
    texts = [text for text in map(text_of, value if is_list(value) else [value]) if text is not None]
    return texts or None


def _output_type(request: Mapping[str, Any]) -> str | None:
    modalities, asked = request.get("modalities"), request.get("response_format")
    if is_list(modalities) and "audio" in modalities:
        return "speech"
    return _OUTPUT_TYPES.get(str(asked.get("type"))) if is_object(asked) else None
