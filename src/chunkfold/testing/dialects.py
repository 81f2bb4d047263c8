"""How providers differ in the way they stream: a field of `Dialect` for each difference, one of `DIALECTS` for each.

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_my_adapter(dialect): ...

The facts come from the providers' documentation, public threads and recorded bodies; if these differ, from the bodies.
A dialect is what a provider was observed to send, not everything that it may send. A deviation that has a rule is named
by its id: `chunkfold.RULES` describes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from chunkfold.arguments import check_word
from chunkfold.testing.error_shapes import ErrorShape
from chunkfold.testing.wire import DONE, HEAD

Role: TypeAlias = Literal["first", "each", "empty", "with output"]
Reasoning: TypeAlias = Literal[
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "reasoning_details",
    "reasoning_parts",
    "thinking",
    "thinking_blocks",
    "thoughts",
]
Calls: TypeAlias = Literal[
    "index",
    "whole",
    "whole without index",
    "whole at 0",
    "id",
    "repeated",
    "empty",
    "fresh ids",
    "no ids",
    "name in two",
    "in one delta",
]
Usage: TypeAlias = Literal["trailer", "bare trailer", "finish", "each", "choice", "x_groq", "after finish"]
CachedTokens: TypeAlias = Literal["prompt_tokens_details", "cached_tokens", "prompt_cache_hit_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way to stream a chat completion; by default OpenAI's.

    Attributes:
        about: What is special, in a few words.
        role: Where the role is sent: in a first chunk of its own, in each chunk, as an empty text in each, or with the
            first output.
        left_out: The keys among id, object, created and model that no chunk has.
        empty: The keys among these that are an empty text in each chunk.
        open_finish_reason: The finish reason of a choice that is not finished.
        has_open_finish_reason: Whether a choice that is not finished has the key `finish_reason` at all.
        has_finish_reason: Whether a choice that ends has a finish reason.
        before_finish: Extra fields of a choice in a chunk of its own, without a delta, before the chunk with the finish
            reason; None if there is no such chunk.
        finish_reasons: The provider's words for OpenAI's finish reasons.
        finish_left_out: As `left_out`, for the chunks with a finish reason.
        finish_object: The `object` of the chunks with a finish reason, if it differs.
        head: Payloads before the first chunk.
        keep_alive: Bytes before the first chunk, such as a comment.
        more_of_first: Extra fields at the top level of the first chunk.
        reasoning: The fields that have each piece of reasoning; empty if reasoning is not sent.
            `reasoning_parts` and `thinking`: as a part of a content list. `thoughts`: as content with a flag, in a tag
            that the next piece of text closes.
        after_reasoning: A delta that is sent after the reasoning, such as one with a signature.
        calls: How tool calls are sent.
            `index`: id, name and index first, then arguments by index. `whole`: in one fragment. `whole without
            index`; `whole at 0`: each call at index 0. `id`: distinguished by id alone. `repeated`: id and name in each
            fragment. `empty`: "" for id and name in all fragments but the first. `fresh ids`: another id in each.
            `no ids`. `name in two`: the name is sent in pieces, too. `in one delta`: as `index`, and all fragments of a
            call in one chunk.
        object_arguments: Whether arguments in one piece are sent as an object instead of its text.
        more_of_call: Extra fields of a call's first fragment; if several calls are sent together, of the first call's.
        usage: Where usage is sent.
            `trailer`: in a last chunk without choices. `bare trailer`: that chunk has nothing else. `finish`: beside
            the last finish reason. `each`: in each chunk, growing. `choice`: inside the last choice. `x_groq`: as
            `finish`, and once more inside `x_groq`. `after finish`: in one more chunk with an empty choice.
        null_usage: With `trailer` or `finish`: whether `usage` is null in the chunks before.
        usage_before: With `each`: the usage until the finish reason, if it does not grow.
        more_usage: Extra fields of usage; objects among them are merged with those of the same name.
        cached_tokens: Where the cached tokens are; with `prompt_cache_hit_tokens`, in `prompt_tokens_details` too.
        message: Where the message so far is sent beside the delta: nowhere, in the last chunk, in each.
        error: The shape of an error.
        has_space: Whether a space follows the colon of a field, except in bytes that are sent unchanged.
        done: The last event.
    """

    about: str
    role: Role = "first"
    left_out: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    open_finish_reason: str | None = None
    has_open_finish_reason: bool = True
    has_finish_reason: bool = True
    before_finish: Mapping[str, Any] | None = None
    finish_reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    finish_left_out: frozenset[str] = frozenset()
    finish_object: str | None = None
    head: tuple[Mapping[str, Any], ...] = ()
    keep_alive: bytes = b""
    more_of_first: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reasoning: tuple[Reasoning, ...] = ("reasoning_content",)
    after_reasoning: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: Calls = "index"
    object_arguments: bool = False
    more_of_call: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usage: Usage = "trailer"
    null_usage: bool = True
    usage_before: Mapping[str, Any] | None = None
    more_usage: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cached_tokens: CachedTokens = "prompt_tokens_details"
    message: Literal["never", "last", "each"] = "never"
    error: ErrorShape = "object"
    has_space: bool = True
    done: bytes = DONE


_SIGNED: Final = "c2lnbmVk"  # "signed", as base64
_AZURE_HEAD: Final[Mapping[str, Any]] = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}

_AZURE: Final = Dialect(
    about="a first chunk without choices, with empty id and model", head=(_AZURE_HEAD,), reasoning=()
)
_MINIMAX: Final = Dialect(
    about="id and name in each fragment, arguments as objects, usage 0 until a whole message, errors in base_resp",
    role="each",  # with an empty content beside reasoning and calls
    finish_object="chat.completion",
    calls="repeated",  # CF307
    object_arguments=True,  # CF310
    usage="each",
    usage_before={"total_tokens": 0, "total_characters": 0},
    more_usage={"total_characters": 0},
    message="last",  # CF207
    error="base_resp",
)
_VLLM: Final = Dialect(
    about="reasoning twice, errors as a bare object",
    reasoning=("reasoning", "reasoning_content"),
    null_usage=False,
    error="bare",
)
_SEARCHED: Final[Mapping[str, Any]] = {
    **HEAD,
    "choices": [
        {
            "index": 0,
            "delta": {"role": "tool", "tool_call_id": "call_search", "content": '[{"title":"Oslo"}]'},  # CF220
            "finish_reason": None,
        }
    ],
}

DIALECTS: Final[dict[str, Dialect]] = {
    "openai": Dialect(about="the reference", reasoning=()),
    "azure": _AZURE,
    "azure-async": replace(
        _AZURE,
        about="as azure, and a choice without delta, of the asynchronous content filter, before the finish reason",
        before_finish={"content_filter_offsets": {"check_offset": 0, "start_offset": 0, "end_offset": 0}},  # CF202
    ),
    "cloudflare": Dialect(about="errors in a list of its own envelope", reasoning=(), error="errors"),  # CF604
    "copilot": Dialect(
        about="reasoning_text with an opaque end, no object, the role in each chunk, whole calls",
        role="each",
        left_out=frozenset({"object"}),
        has_open_finish_reason=False,
        reasoning=("reasoning_text",),
        after_reasoning={"reasoning_opaque": _SIGNED},
        calls="whole",
        usage="finish",
        null_usage=False,
    ),
    "databricks": Dialect(
        about="reasoning as parts of a content list, with a signature, usage on each chunk",
        reasoning=("reasoning_parts",),  # CF208
        after_reasoning={
            "content": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "", "signature": _SIGNED}]},
            ]
        },
        usage="each",
    ),
    "deepseek": Dialect(
        about="comments ahead, reasoning_content, usage beside the finish reason",
        keep_alive=b": keep-alive\n\n" * 2,
        usage="finish",
        cached_tokens="prompt_cache_hit_tokens",
    ),
    "gemini": Dialect(
        about="thoughts in content, whole calls without index, stop beside them, usage on each chunk, errors in a list",
        reasoning=("thoughts",),
        calls="whole without index",
        more_of_call={"extra_content": {"google": {"thought_signature": _SIGNED}}},
        finish_reasons={"tool_calls": "stop"},
        usage="each",
        error="list",
    ),
    "evolink": Dialect(about="no finish reason, only [DONE]", has_finish_reason=False),  # CF502
    "groq": Dialect(
        about="usage in x_groq and beside it, whole calls, errors in an event named error",
        more_of_first={"x_groq": {"id": "req_1"}},
        reasoning=("reasoning",),
        calls="whole",
        usage="x_groq",  # some of its streams have a trailer too
        error="event_object",
    ),
    "kimi": Dialect(
        about="no space after the colon, another id in each fragment of a call, usage inside the choice",
        calls="fresh ids",  # CF304
        usage="choice",
        has_space=False,
    ),
    "litellm": Dialect(
        about="reasoning twice, once in thinking_blocks with a signature, no finish reason but the last",
        role="with output",
        has_open_finish_reason=False,
        reasoning=("reasoning_content", "thinking_blocks"),
        after_reasoning={"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": _SIGNED}]},
        null_usage=False,
    ),
    "llamacpp": Dialect(about="errors in a field named error", null_usage=False, error="field"),
    "lmstudio": Dialect(
        about="another id in each fragment of a call, errors in an event named error",
        reasoning=("reasoning",),
        calls="fresh ids",
        error="event",
    ),
    "minimax": _MINIMAX,
    "minimax-search": replace(
        _MINIMAX, about="as minimax, and a tool's result in the answer's choice, before it", head=(_SEARCHED,)
    ),
    "mistral": Dialect(
        about="content as a list of parts while it thinks, whole calls",
        reasoning=("thinking",),
        calls="whole",
        usage="finish",
        null_usage=False,
        error="bare",
    ),
    "moonshot": Dialect(about="usage inside the choice", usage="choice"),
    "nagaai": Dialect(
        about="no id, created or model, whole calls without index, usage in a chunk that has nothing else",
        left_out=frozenset({"id", "created", "model"}),
        reasoning=("reasoning_content", "reasoning_details"),
        calls="whole without index",
        usage="bare trailer",
        more_usage={"completion_tokens_details": {"image_tokens": 0}},
    ),
    "nameless": Dialect(
        about="no created and no model, the role with the first token, a call's name in pieces",
        role="with output",
        left_out=frozenset({"created", "model"}),
        calls="name in two",
        usage="finish",
        null_usage=False,
    ),
    "ollama": Dialect(
        about="the role in each chunk, whole calls, each at index 0",
        role="each",
        reasoning=("reasoning",),
        calls="whole at 0",
        null_usage=False,
    ),
    "openrouter": Dialect(
        about="comments ahead, reasoning twice, usage with an empty choice after the finish reason",
        role="each",
        keep_alive=b": OPENROUTER PROCESSING\n\n" * 2,
        reasoning=("reasoning", "reasoning_details"),
        usage="after finish",
        error="choices",
    ),
    # The provider always sends usage. Here, as in every dialect, it is sent only after `usage()`, which has its counts.
    "opentoken": Dialect(about="usage in the last chunk alone, errors as one more chunk", null_usage=False),
    "perplexity": Dialect(
        about="role, usage and the message so far in each chunk, no finish reason but the last, another object there",
        role="each",
        has_open_finish_reason=False,
        finish_object="chat.completion.done",
        reasoning=(),
        usage="each",
        message="each",
    ),
    "qwen": Dialect(about="empty id and name in all fragments of a call but the first", calls="empty"),
    "sansa": Dialect(
        about="reasoning_details with a signature, usage beside the finish reason, which lacks object and created",
        finish_left_out=frozenset({"object", "created"}),
        reasoning=("reasoning_details",),
        after_reasoning={"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": _SIGNED}]},
        usage="finish",
        null_usage=False,
        error="choices",
    ),
    "stepfun": Dialect(
        about="empty role and finish reason, calls distinguished by id, usage on each chunk",
        role="empty",
        open_finish_reason="",
        reasoning=("reasoning",),  # some of its streams repeat it in `reasoning_content`
        calls="id",
        usage="each",
        cached_tokens="cached_tokens",
    ),
    "tgi": Dialect(
        about="empty id, the role in each chunk, eos_token for stop, errors as text",
        role="each",
        empty=frozenset({"id"}),  # CF203
        reasoning=(),
        calls="no ids",
        finish_reasons={"stop": "eos_token"},
        error="text",
    ),
    "vllm": _VLLM,
    "vllm-speculative": replace(_VLLM, about="as vllm, and all fragments of a call in one chunk", calls="in one delta"),
    # Usage beside the finish reason or in each chunk, and empty texts for absent values, were reported of this provider
    # too. In the recorded bodies usage is a trailer, and no text is empty.
    "xai": Dialect(
        about="the role with the first token, no finish reason but the last, whole calls",
        role="with output",
        has_open_finish_reason=False,
        calls="whole",
        null_usage=False,
    ),
}
"""The providers, by name."""


def dialect_of(value: str | Dialect) -> Dialect:
    """Return a dialect by its name; a `Dialect` is returned unchanged."""
    if isinstance(value, Dialect):
        return value
    check_word("dialect", value, DIALECTS)
    return DIALECTS[value]
