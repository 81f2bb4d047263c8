"""How providers differ in the way they stream: a field of `Dialect` for each difference, one of `DIALECTS` for each.

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_my_adapter(dialect): ...

The facts come from the providers' documentation, public threads and recorded bodies. A dialect is what a provider is
known to send, not all that it may send.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from chunkfold.testing.error_shapes import ErrorShape
from chunkfold.testing.wire import DONE

Role: TypeAlias = Literal["first", "each", "empty", "with output"]
Reasoning: TypeAlias = Literal["reasoning_content", "reasoning", "reasoning_details", "thinking"]
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
]
Usage: TypeAlias = Literal["trailer", "bare trailer", "finish", "each", "choice", "x_groq", "after finish"]
CachedTokens: TypeAlias = Literal["prompt_tokens_details", "cached_tokens", "prompt_cache_hit_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way to stream a chat completion; by default OpenAI's.

    Attributes:
        about: What is special, in a few words.
        role: Where the role comes: in a first chunk of its own, in each chunk, as an empty text in each, or with the
            first output.
        left_out: The keys among id, object, created and model that no chunk has.
        open_finish_reason: The finish reason of a choice that goes on.
        has_open_finish_reason: Whether a choice that goes on has one at all.
        finish_reasons: Words of the provider's own for OpenAI's.
        finish_left_out: As `left_out`, for the chunks with a finish reason.
        finish_object: The object of the chunks with a finish reason, if it is another one.
        head: Payloads before the first chunk.
        keep_alive: Bytes before the first chunk, such as a comment.
        reasoning: The fields in which each piece of reasoning comes; none if it does not come.
        calls: How tool calls come.
            `index`: id, name and index first, then arguments by index. `whole`: in one fragment. `whole without
            index`; `whole at 0`: each call at index 0. `id`: told apart by id alone. `repeated`: id and name in each
            fragment. `empty`: "" for id and name in all fragments but the first. `fresh ids`: another id in each.
            `no ids`. `name in two`: the name, too, comes in pieces.
        usage: Where usage comes.
            `trailer`: in a last chunk without choices. `bare trailer`: that chunk has nothing else. `finish`: beside
            the last finish reason. `each`: in each chunk, growing. `choice`: inside the last choice. `x_groq`: inside
            `x_groq`. `after finish`: in one more chunk with an empty choice.
        null_usage: Whether it is null in the chunks before, where it comes as `trailer` or `finish`.
        cached_tokens: Where the cached tokens are; with `prompt_cache_hit_tokens`, in `prompt_tokens_details` too.
        message: Where the message so far comes beside the delta: nowhere, in the last chunk, in each.
        error: The shape of an error.
        prefix: What stands before the data of an event.
        done: The last event.
    """

    about: str
    role: Role = "first"
    left_out: frozenset[str] = frozenset()
    open_finish_reason: str | None = None
    has_open_finish_reason: bool = True
    finish_reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    finish_left_out: frozenset[str] = frozenset()
    finish_object: str | None = None
    head: tuple[Mapping[str, Any], ...] = ()
    keep_alive: bytes = b""
    reasoning: tuple[Reasoning, ...] = ("reasoning_content",)
    calls: Calls = "index"
    usage: Usage = "trailer"
    null_usage: bool = True
    cached_tokens: CachedTokens = "prompt_tokens_details"
    message: Literal["never", "last", "each"] = "never"
    error: ErrorShape = "object"
    prefix: bytes = b"data: "
    done: bytes = DONE


_AZURE_HEAD: Final[Mapping[str, Any]] = {
    "id": "",
    "object": "",
    "created": 0,
    "model": "",
    "choices": [],
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}

DIALECTS: Final[dict[str, Dialect]] = {
    "openai": Dialect(about="the reference", reasoning=()),
    "azure": Dialect(about="a first chunk without choices, with empty id and model", head=(_AZURE_HEAD,), reasoning=()),
    "databricks": Dialect(about="usage on each chunk", usage="each", reasoning=()),
    "deepseek": Dialect(
        about="comments ahead, reasoning_content, usage beside the finish reason",
        keep_alive=b": keep-alive\n\n" * 2,
        usage="finish",
        cached_tokens="prompt_cache_hit_tokens",
    ),
    "gemini": Dialect(
        about="whole calls without index, stop beside them, usage on each chunk, errors in a list",
        reasoning=(),
        calls="whole without index",
        finish_reasons={"tool_calls": "stop"},
        usage="each",
        error="list",
    ),
    "groq": Dialect(
        about="usage in x_groq, whole calls, errors in an event named error",
        reasoning=("reasoning",),
        calls="whole",
        usage="x_groq",
        error="event_object",
    ),
    "kimi": Dialect(about="another id in each fragment of a call", calls="fresh ids", usage="choice"),
    "llamacpp": Dialect(about="errors in a field named error", null_usage=False, error="field"),
    "lmstudio": Dialect(
        about="another id in each fragment of a call, errors in an event named error",
        reasoning=("reasoning",),
        calls="fresh ids",
        error="event",
    ),
    "minimax": Dialect(
        about="id and name in each fragment, the whole message at the end, errors in base_resp",
        role="each",
        finish_object="chat.completion",
        calls="repeated",
        usage="finish",
        null_usage=False,
        message="last",
        error="base_resp",
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
    "opentoken": Dialect(about="usage always, errors as one more chunk", null_usage=False),
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
        about="reasoning_details, usage beside the finish reason, which lacks object and created",
        finish_left_out=frozenset({"object", "created"}),
        reasoning=("reasoning_details",),
        usage="finish",
        null_usage=False,
        error="choices",
    ),
    "stepfun": Dialect(
        about="empty role and finish reason, calls told apart by id, usage on each chunk",
        role="empty",
        open_finish_reason="",
        reasoning=("reasoning",),
        calls="id",
        usage="each",
        cached_tokens="cached_tokens",
    ),
    "tgi": Dialect(
        about="eos_token for stop, errors as text",
        reasoning=(),
        calls="no ids",
        finish_reasons={"stop": "eos_token"},
        error="text",
    ),
    "vllm": Dialect(
        about="reasoning twice, errors as a bare object",
        reasoning=("reasoning", "reasoning_content"),
        null_usage=False,
        error="bare",
    ),
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
    """A dialect by its name, or as it is.

    Raises:
        ValueError: None has that name.
    """
    if isinstance(value, Dialect):
        return value
    if value not in DIALECTS:
        raise ValueError(f"dialect: expected one of {', '.join(DIALECTS)}, received {value!r}")
    return DIALECTS[value]
