"""Every name that the telemetry uses, and the buckets of its histograms.

They are those of OpenTelemetry's semantic conventions for generative AI, in two versions:

- `RELEASED`: v1.41, the last release of the general conventions that has them (later ones point to their new home):
  https://github.com/open-telemetry/semantic-conventions/tree/v1.41.0/docs/gen-ai (gen-ai-spans.md, gen-ai-metrics.md,
  openai.md).
- `LATEST`: those under development in their new home, where v0.1.0 is the first release:
  https://github.com/open-telemetry/semantic-conventions-genai/tree/main/docs/gen-ai (client-inference.md,
  gen-ai-token-metrics.md, openai.md; what changed: non-normative/migration.md).

The environment selects the version, as the conventions require: `OTEL_SEMCONV_STABILITY_OPT_IN` is a comma-separated
list, and `gen_ai_latest_experimental` in it selects the latest names instead of the released ones.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
OPT_IN_LATEST: Final = "gen_ai_latest_experimental"
SCOPE: Final = "chunkfold"  # the instrumentation scope of spans and metrics

# The request.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"

# The answer.
ERROR_TYPE: Final = "error.type"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - tokens of models; of the released token metric
TOKEN_MODALITY: Final = "gen_ai.token.modality"  # noqa: S105 - as above; of the latest token counters

# Only if the provider is OpenAI.
OPENAI_API_TYPE: Final = "openai.api.type"
OPENAI_REQUEST_SERVICE_TIER: Final = "openai.request.service_tier"
OPENAI_RESPONSE_SERVICE_TIER: Final = "openai.response.service_tier"
OPENAI_RESPONSE_SYSTEM_FINGERPRINT: Final = "openai.response.system_fingerprint"

# Content: only if it is requested.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

# Our own.
STREAM_END: Final = "chunkfold.stream.end"
ANOMALIES: Final = "chunkfold.anomalies"

# Values.
CHAT: Final = "chat"
CHAT_COMPLETIONS: Final = "chat_completions"
FINISH_ERROR: Final = "error"  # the finish reason of a choice that should have one and has none
INPUT: Final = "input"
OUTPUT: Final = "output"
UNKNOWN_MODALITY: Final = "unknown"
MODALITIES: Final = ("audio", "image", "text")  # those that the conventions know, besides
OPENAI: Final = "openai"
OTHER: Final = "_OTHER"  # a provider that is not known; `openai` would claim OpenAI's own attributes

# The token metrics, which differ in kind. One histogram, by `TOKEN_TYPE`; or two, and five counters.
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 - as above
OPERATION_INPUT_TOKENS: Final = "gen_ai.client.inference.operation.input_tokens"
OPERATION_OUTPUT_TOKENS: Final = "gen_ai.client.inference.operation.output_tokens"
COUNTED_INPUT_TOKENS: Final = "gen_ai.client.inference.usage.input_tokens"
COUNTED_OUTPUT_TOKENS: Final = "gen_ai.client.inference.usage.output_tokens"
COUNTED_CACHE_READ_TOKENS: Final = "gen_ai.client.inference.usage.cache_read.input_tokens"
COUNTED_CACHE_WRITE_TOKENS: Final = "gen_ai.client.inference.usage.cache_write.input_tokens"
COUNTED_REASONING_TOKENS: Final = "gen_ai.client.inference.usage.reasoning.output_tokens"

# The same in both versions. Seconds, then tokens.
TIME_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS: Final = (
    *(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536),
    *(262144, 1048576, 4194304, 16777216, 67108864),
)


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """The names that differ between the versions of the conventions, in one version."""

    schema_url: str | None  # None if the version has no number
    # Metrics.
    duration: str
    time_to_first_chunk: str
    time_per_output_chunk: str
    has_token_counters: bool
    # Attributes of the span.
    usage_cache_write_tokens: str
    usage_input_tokens_of: Mapping[str, str]  # by their modality
    usage_output_tokens_of: Mapping[str, str]
    request_reasoning_level: str | None  # None if the version has no name for it
    has_whole_top_k: bool
    has_finish_reason_in_messages: bool


RELEASED: Final = Names(
    schema_url="https://opentelemetry.io/schemas/1.41.0",
    duration="gen_ai.client.operation.duration",
    time_to_first_chunk="gen_ai.client.operation.time_to_first_chunk",
    time_per_output_chunk="gen_ai.client.operation.time_per_output_chunk",
    usage_cache_write_tokens="gen_ai.usage.cache_creation.input_tokens",
    usage_input_tokens_of={},
    usage_output_tokens_of={},
    request_reasoning_level=None,
    has_whole_top_k=False,
    has_finish_reason_in_messages=True,
    has_token_counters=False,
)
LATEST: Final = Names(
    schema_url=None,
    duration="gen_ai.client.inference.duration",
    time_to_first_chunk="gen_ai.client.inference.time_to_first_chunk",
    time_per_output_chunk="gen_ai.client.inference.time_per_output_chunk",
    usage_cache_write_tokens="gen_ai.usage.cache_write.input_tokens",
    usage_input_tokens_of={modality: f"gen_ai.usage.{modality}.input_tokens" for modality in MODALITIES},
    usage_output_tokens_of={modality: f"gen_ai.usage.{modality}.output_tokens" for modality in MODALITIES},
    request_reasoning_level="gen_ai.request.reasoning.level",
    has_whole_top_k=True,
    has_finish_reason_in_messages=False,
    has_token_counters=True,
)

# The well-known values of `gen_ai.provider.name`, by the host that is asked.
_PROVIDERS: Final = {
    "api.openai.com": OPENAI,
    "*.api.openai.com": OPENAI,
    "*.openai.azure.com": "azure.ai.openai",
    "*.cognitiveservices.azure.com": "azure.ai.openai",
    "*.services.ai.azure.com": "azure.ai.inference",
    "models.inference.ai.azure.com": "azure.ai.inference",
    "*.inference.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "bedrock-runtime.*.amazonaws.com": "aws.bedrock",
    "bedrock-runtime-fips.*.amazonaws.com": "aws.bedrock",
    "bedrock-mantle.*.api.aws": "aws.bedrock",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "*-aiplatform.googleapis.com": "gcp.vertex_ai",
    "aiplatform.*.rep.googleapis.com": "gcp.vertex_ai",
    "api.groq.com": "groq",
    "*.ml.cloud.ibm.com": "ibm.watsonx.ai",
    "api.mistral.ai": "mistral_ai",
    "api.*.mistral.ai": "mistral_ai",
    "codestral.mistral.ai": "mistral_ai",
    "api.moonshot.ai": "moonshot_ai",
    "api.moonshot.cn": "moonshot_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "*.api.x.ai": "x_ai",
}


def names() -> Names:
    """The names that the environment selects at this moment."""
    opted_in = (word.strip() for word in os.environ.get(OPT_IN, "").split(","))
    return LATEST if OPT_IN_LATEST in opted_in else RELEASED


@lru_cache(maxsize=64)
def provider_of(host: str | None) -> str:
    """The provider with this host, `_OTHER` if it is unknown."""
    matching = (provider for pattern, provider in _PROVIDERS.items() if fnmatchcase(host or "", pattern))
    return next(matching, OTHER)
