"""The metrics, created once for each meter provider."""

from weakref import WeakKeyDictionary

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider

from chunkfold.models.shared import CompletionUsage
from chunkfold.otel import names
from chunkfold.otel.attributes import Attributes, by_modality, cache_write_tokens, count, modalities
from chunkfold.otel.names import Names

_made: "WeakKeyDictionary[MeterProvider, dict[Names, Instruments]]" = WeakKeyDictionary()


def instruments_of(provider: MeterProvider, version: Names, library_version: str) -> "Instruments | None":
    """The metrics of a provider; None if it records none: the API's own, or one that is switched off."""
    if is_apis_own(provider):
        return None
    made = _made.setdefault(provider, {})
    if version not in made:
        meter = provider.get_meter(names.SCOPE, library_version, version.schema_url)
        if is_apis_own(meter):
            return None
        made[version] = Instruments(meter, version)
    return made[version]


def is_apis_own(maker: object) -> bool:
    """Whether a provider or a meter is opentelemetry-api's own, which does nothing, or not yet."""
    return type(maker).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


class Instruments:
    """The metrics of one meter, by one version of the names."""

    def __init__(self, meter: Meter, version: Names) -> None:
        self.duration = _seconds(meter, version.duration, "The duration of a streamed operation.")
        self.time_to_first_chunk = _seconds(meter, version.time_to_first_chunk, "The time to the first chunk.")
        self.time_per_output_chunk = _seconds(meter, version.time_per_output_chunk, "The time between chunks.")
        self.tokens = _CountedTokens(meter) if version.has_token_counters else _TokenUsage(meter)


class _TokenUsage:
    """One histogram for input and output."""

    def __init__(self, meter: Meter) -> None:
        self._usage = _tokens(meter, names.TOKEN_USAGE, "Tokens used, input and output.")

    def record(
        self,
        usage: CompletionUsage,
        common: Attributes,
        error: Attributes,  # noqa: ARG002 - as below, but these names have no place for it
        context: Context,
    ) -> None:
        """Record the usage of one stream; counts that were not sent are not recorded."""
        counts = {names.INPUT: count(usage.prompt_tokens), names.OUTPUT: count(usage.completion_tokens)}
        for kind, tokens in counts.items():
            if tokens is not None:
                self._usage.record(tokens, {**common, names.TOKEN_TYPE: kind}, context)


class _CountedTokens:
    """Counters for all tokens, histograms for the tokens of one stream."""

    def __init__(self, meter: Meter) -> None:
        self._histograms: dict[str, Histogram] = {
            names.COUNTED_INPUT_TOKENS: _tokens(meter, names.OPERATION_INPUT_TOKENS, "Tokens of the prompt."),
            names.COUNTED_OUTPUT_TOKENS: _tokens(meter, names.OPERATION_OUTPUT_TOKENS, "Tokens of the completion."),
        }
        self._counters: dict[str, Counter] = {
            name: meter.create_counter(name, "{token}", description)
            for name, description in (
                (names.COUNTED_INPUT_TOKENS, "Tokens of prompts."),
                (names.COUNTED_OUTPUT_TOKENS, "Tokens of completions."),
                (names.COUNTED_CACHE_READ_TOKENS, "Tokens of prompts that were read from a cache."),
                (names.COUNTED_CACHE_WRITE_TOKENS, "Tokens of prompts that were written to a cache."),
                (names.COUNTED_REASONING_TOKENS, "Tokens of completions that were reasoning."),
            )
        }

    def record(self, usage: CompletionUsage, common: Attributes, error: Attributes, context: Context) -> None:
        """Record the usage of one stream.

        For a count that was not sent the counter adds 0, as the conventions require: this shows that there was a
        stream. The histogram records nothing: a 0 in it would be a stream without tokens.
        """
        counts = {
            names.COUNTED_INPUT_TOKENS: count(usage.prompt_tokens),
            names.COUNTED_OUTPUT_TOKENS: count(usage.completion_tokens),
            names.COUNTED_CACHE_READ_TOKENS: count(usage.cached_tokens),
            names.COUNTED_CACHE_WRITE_TOKENS: cache_write_tokens(usage),
            names.COUNTED_REASONING_TOKENS: count(usage.reasoning_tokens),
        }
        sent = {
            names.COUNTED_INPUT_TOKENS: modalities(usage.prompt_tokens_details),
            names.COUNTED_OUTPUT_TOKENS: modalities(usage.completion_tokens_details),
        }
        for name, tokens in counts.items():
            for modality, part in by_modality(tokens or 0, sent.get(name, {})).items():
                self._counters[name].add(part, {**common, names.TOKEN_MODALITY: modality}, context)
        for name, histogram in self._histograms.items():
            if (tokens := counts[name]) is not None:
                histogram.record(tokens, {**common, **error}, context)


def _seconds(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=names.TIME_BUCKETS)


def _tokens(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "{token}", description, explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS)
