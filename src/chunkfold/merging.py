"""The merge rules for fields that are more than text: unknown keys, usage, reasoning details."""

from typing import Any

from chunkfold.anomalies import TOTAL_TOO_SMALL, ZERO_USAGE, AnomalyLog
from chunkfold.errors import excerpt
from chunkfold.json_values import copied, is_integer, is_object
from chunkfold.surrogates import well_formed
from chunkfold.text_buffer import TextBuffer

_NEVER_KEPT = frozenset({"obfuscation"})
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAIL_TEXTS = ("text", "summary", "data")


def keep_unknown(kept: dict[str, Any], unknown: dict[str, Any] | None) -> None:
    """Unknown keys: the last value that is not null. `obfuscation` stays on the chunk."""
    if unknown:
        kept.update({key: value for key, value in unknown.items() if value is not None and key not in _NEVER_KEPT})


def merge_usage(usage: dict[str, Any], new: dict[str, Any], log: AnomalyLog) -> bool:
    """Key by key, the last value that is not null; a 0 never replaces a positive number; details alike.

    Returns whether anything changed.

    Usage is cumulative where it comes more than once, so nothing is summed. But a total that falls below prompt +
    completion by such a merge (Anthropic's counts come in two parts) becomes their sum.
    """
    known = usage.get("total_tokens")
    changed = _merge_counts(usage, {key: value for key, value in new.items() if key != "total_tokens"}, log)
    _merge_counts(usage, {"total_tokens": new.get("total_tokens")}, log)
    prompt, completion, total = (usage.get(name) for name in _COUNTS)
    mixed = (changed or total != known) and any(usage.get(name) != new.get(name) for name in _COUNTS)
    if mixed and is_integer(prompt) and is_integer(completion) and is_integer(total) and total < prompt + completion:
        log.note(TOTAL_TOO_SMALL, f"{total} < {prompt} + {completion}")
        usage["total_tokens"] = prompt + completion
    return changed or usage.get("total_tokens") != known


def _merge_counts(usage: dict[str, Any], new: dict[str, Any], log: AnomalyLog) -> bool:
    changed = False
    for key, value in new.items():
        old = usage.get(key)
        if value is None:
            continue
        if is_object(old) and is_object(value):
            changed |= _merge_counts(old, value, log)
        elif value == 0 and _is_positive(old):
            log.note(ZERO_USAGE, excerpt(key))
        elif old != value:  # 5 and 5.0 are the same
            changed = True
            usage[key] = value
    return changed


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


class ReasoningDetails:
    """The fragments of `reasoning_details`, merged by (type, index).

    Text, summary and data append; everything else is the last value that is not empty. A fragment without an index
    continues the last of its type, unless its id differs. So a signature that comes alone, maybe after the content
    began, finds its block.
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_index: dict[tuple[str, str], _Block] = {}
        self._last_of: dict[str, _Block] = {}

    def add(self, fragments: list[dict[str, Any]]) -> None:
        """Fold fragments in; they are not changed."""
        for fragment in fragments:
            kind, index = str(fragment.get("type")), fragment.get("index")
            block = self._block_of(kind, index, fragment.get("id"))
            if block is None:
                block = _Block()
                self._blocks.append(block)
            if index is not None:
                self._by_index[kind, str(index)] = block
            self._last_of[kind] = block
            block.add(fragment)

    def snapshot(self) -> list[dict[str, Any]]:
        """The blocks so far, in the order of their first appearance."""
        return [block.snapshot() for block in self._blocks]

    def compact(self) -> None:
        """Join the pieces of all texts."""
        for block in self._blocks:
            block.compact()

    def _block_of(self, kind: str, index: Any, id_: Any) -> "_Block | None":
        if index is not None:
            return self._by_index.get((kind, str(index)))
        last = self._last_of.get(kind)
        differs = last is not None and id_ and last.fields.get("id") not in (None, "", id_)
        return None if differs else last


class _Block:
    """One reasoning block while it is assembled; texts are joined from buffers, so that many pieces stay linear."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self._texts: dict[str, TextBuffer] = {}

    def add(self, fragment: dict[str, Any]) -> None:
        for key, value in fragment.items():
            if key in _DETAIL_TEXTS and isinstance(value, str):
                text = self._texts.get(key)
                if text is None:
                    self.fields.setdefault(key, "")
                    text = self._texts[key] = TextBuffer()
                text.write(value)
            elif value not in (None, "") or (key not in self.fields and value is None):
                self.fields[key] = value

    def compact(self) -> None:
        for text in self._texts.values():
            text.compact()

    def snapshot(self) -> dict[str, Any]:
        return {**copied(self.fields), **{key: well_formed(text.getvalue()) for key, text in self._texts.items()}}
