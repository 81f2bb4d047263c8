"""The merge rules for unknown keys and for usage."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel

from chunkfold import anomalies
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.excerpts import excerpt
from chunkfold.json_text.values import copied, is_container, is_int64, is_list, is_object
from chunkfold.models.base import validate_leniently
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.content import PROVIDER_FIELDS, REASONING_ITEMS, fields_of
from chunkfold.models.shared import CompletionTokensDetails, CompletionUsage, PromptTokensDetails
from chunkfold.wire.repairs import read_spelled_numbers

EXTENDED_IN_CHOICE = ("token_ids",)
"""Unknown keys of a choice whose lists add up: vLLM sends the tokens with each chunk."""
EXTENDED_IN_MESSAGE = (REASONING_ITEMS, "completion_token_ids", "gen_tokens", "executed_tools", "reasoning_steps")
"""Unknown keys of a delta whose lists add up: FastDeploy and LMDeploy have the tokens there, Groq the tools that its
server ran (each as it is called, then with its output), Perplexity the steps of its search."""
EXTENDED_IN_LOGPROBS = ("reasoning_content", "tokens", "token_ids", "token_logprobs", "top_logprobs", "text_offset")
"""Unknown keys of log probabilities whose lists add up: DeepSeek has one for the reasoning, Fireworks those of the
legacy API."""
_MOST_KEYS = 100  # of an object in usage; what providers send has some twenty
_OTHER_NAMES = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_TYPED_COUNTS = frozenset(CompletionUsage.model_fields)
_DETAIL_COUNTS = frozenset({*PromptTokensDetails.model_fields, *CompletionTokensDetails.model_fields})
_TYPED_KEYS = _TYPED_COUNTS | _DETAIL_COUNTS


def keep_unknown(kept: dict[str, Any], unknown: dict[str, Any] | None, extended: tuple[str, ...] = ()) -> None:
    """Keep unknown keys, but `obfuscation`: the last value that is not null; lists of the `extended` keys add up."""
    for key, value in (unknown or {}).items():
        if value is None or key == "obfuscation":
            continue
        if key in extended and is_list(value):
            known = kept.get(key)
            if is_list(known):
                known.extend(value)
            else:
                kept[key] = [*value]
        else:
            kept[key] = value


def merge_provider_fields(kept: dict[str, Any], value: Any, extended: tuple[str, ...] = ()) -> bool:
    """Merge an object of LiteLLM's field into the one in `kept`, as `keep_unknown` does; return whether it is one."""
    if not is_object(value):
        return False
    if not is_object(kept.get(PROVIDER_FIELDS)):
        kept[PROVIDER_FIELDS] = {}
    keep_unknown(kept[PROVIDER_FIELDS], value, extended)
    return True


def merge_usage(usage: dict[str, Any], new: CompletionUsage, log: AnomalyLog) -> dict[str, Any]:
    """Merge usage key by key: the last value that is not null, but a 0 never replaces a positive number.

    The same holds for the objects of details. Usage that comes more than once is cumulative, so nothing is summed. But
    if a merge leaves a total below prompt + completion (Anthropic's counts come in two parts), it becomes their sum.

    Returns `usage` itself if nothing new came, else a new object that shares the unchanged values with it. Neither
    argument is changed, so you can keep earlier results. Each object keeps the first hundred of its unknown keys.
    """
    counts = fields_of(new)
    if "input_tokens" in counts or "output_tokens" in counts:
        counts = _renamed(counts, usage, log)
    merged = _merge_counts(usage, counts, log)
    if merged is usage:
        return merged
    prompt, completion, total = known = _counts_in(merged)
    is_mixed = known != _counts_in(counts)
    if is_mixed and all(map(is_int64, known)) and total < prompt + completion:
        log.note(anomalies.TOTAL_TOO_SMALL, f"{total} < {prompt} + {completion}")
        merged["total_tokens"] = prompt + completion
    return merged


def _renamed(new: Mapping[str, Any], usage: Mapping[str, Any], log: AnomalyLog) -> Mapping[str, Any]:
    """Usage with the counts that it has, and that came so far, only under the names of another API."""
    found: dict[str, int] = {}
    for name, other in _OTHER_NAMES.items():
        count = new.get(other)
        is_missing = new.get(name) is None and usage.get(name) in (None, usage.get(other))
        if is_missing and is_int64(count) and count >= 0:
            found[name] = count
    if found:
        log.note(anomalies.USAGE_NAMES, ", ".join(_OTHER_NAMES[name] for name in found))
    return {**new, **found}


def _counts_in(usage: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("total_tokens")


def _merge_counts(
    usage: dict[str, Any], new: Mapping[str, Any], log: AnomalyLog, typed: frozenset[str] = _TYPED_COUNTS
) -> dict[str, Any]:
    """Merge the counts of one level, as `merge_usage` does; reading the chunk checked the types of the `typed` keys."""
    merged = usage
    room: int | None = None  # for keys that OpenAI does not have; counted once it matters
    for key, value in new.items():
        old = merged.get(key)
        if value is None or old == value:  # 5 and 5.0 are the same
            continue
        kept = _copy_to_keep(value, log) if old is None else _merged(key, old, value, log, is_typed=key in typed)
        if kept is old:
            continue
        if key not in merged and key not in _TYPED_KEYS:
            room = _MOST_KEYS - len(merged.keys() - _TYPED_KEYS) if room is None else room
            if room <= 0:
                log.note(anomalies.TOO_MANY_KEYS, "{}", key)
                continue
            room -= 1
        if merged is usage:
            merged = dict(usage)
        merged[key] = kept
    return merged


def _merged(key: str, old: Any, value: Any, log: AnomalyLog, *, is_typed: bool) -> Any:
    """The merged value of a key that has one already: only a count replaces a count, and a 0 never a positive one.

    A wrong type is noted here only if reading the chunk did not note it: that checks the typed keys.
    """
    if value and is_int64(value) and is_int64(old):
        return value
    details = fields_of(value) if isinstance(value, BaseModel) else value
    if is_object(details) and is_object(old):
        return _merge_counts(old, details, log, _DETAIL_COUNTS)
    if not _is_right(key, details) and _is_right(key, old):
        if not is_typed:
            log.note(anomalies.WRONG_TYPE, f"usage: {excerpt(key)}: received {type(value).__name__} after a count")
        return old
    if value == 0 and isinstance(old, int | float) and old > 0:
        log.note(anomalies.ZERO_USAGE, "{}", key)
        return old
    return _copy_to_keep(value, log)


def _copy_to_keep(value: Any, log: AnomalyLog) -> Any:
    """An independent copy of a value, without the nulls of a model and with as many keys of an object as are kept."""
    if isinstance(value, BaseModel):
        value = {key: item for key, item in fields_of(value).items() if item is not None}
    elif not is_container(value):
        return value
    if not is_object(value):
        return copied(value)
    if len(value) > _MOST_KEYS:
        log.note(anomalies.TOO_MANY_KEYS, f"{len(value)} keys")
    return {key: _copy_to_keep(item, log) for key, item in islice(value.items(), _MOST_KEYS)}


def _is_right(key: str, value: Any) -> bool:
    """Whether a value is of the kind that usage has under this key: an object of details, or a number."""
    if key.endswith("_details"):
        return is_object(value)
    return is_int64(value) or isinstance(value, float)


def nested_usage(chunk: ChatCompletionChunk, log: AnomalyLog) -> CompletionUsage | None:
    """The usage inside a choice (Moonshot) or `x_groq` (Groq); None if there is none."""
    groq = (chunk.__pydantic_extra__ or {}).get("x_groq")
    for holder in (*[choice.__pydantic_extra__ for choice in chunk.choices], groq):
        sent = holder.get("usage") if is_object(holder) else None
        if sent is None:
            continue
        if is_object(sent):
            counts: dict[str, Any] = copied(sent)
            notes: list[tuple[anomalies.Rule, str]] = []
            read_spelled_numbers(counts, notes, ("usage",))
            usage, wrong = validate_leniently(CompletionUsage, counts)
            log.note_all([*notes, *((one.rule, str(one)) for one in wrong)])
            return usage
        log.note(anomalies.WRONG_TYPE, f"usage: expected an object, received {type(sent).__name__}")
    return None
