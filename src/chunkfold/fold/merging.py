"""The merge rules for fields that are more than text: unknown keys, usage, blocks of reasoning, content parts."""

from itertools import islice
from typing import Any, TypeGuard

from pydantic import BaseModel

from chunkfold.anomalies import COUNT_TOO_LARGE, TOO_MANY_KEYS, TOTAL_TOO_SMALL, WRONG_TYPE, ZERO_USAGE, AnomalyLog
from chunkfold.excerpts import excerpt, printed
from chunkfold.fold.footprint import Kept
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.surrogates import well_formed
from chunkfold.json_text.values import copied, is_integer, is_list, is_object
from chunkfold.models import ChatCompletionChunk, CompletionTokensDetails, CompletionUsage, PromptTokensDetails
from chunkfold.models.base import validate_leniently
from chunkfold.models.content import CONTENT_ITEMS, CONTENT_PARTS, BlockKind

EXTENDED_IN_CHOICE = ("token_ids",)
"""The keys of a choice whose lists add up: vLLM sends the tokens with each chunk."""
_NEVER_KEPT = frozenset({"obfuscation"})
_MOST_KEYS = 100  # of an object in usage; what providers send has some twenty
_KNOWN_KEYS = frozenset[str]().union(
    *(model.model_fields for model in (CompletionUsage, PromptTokensDetails, CompletionTokensDetails))
)
_DETAIL_COUNTS = frozenset({*PromptTokensDetails.model_fields, *CompletionTokensDetails.model_fields})
_TYPED_COUNTS = frozenset(CompletionUsage.model_fields)


def keep_unknown(kept: dict[str, Any], unknown: dict[str, Any] | None, extended: tuple[str, ...] = ()) -> bool:
    """Unknown keys: the last value that is not null. `obfuscation` stays on the chunk.

    Returns whether anything new is kept: most streams repeat the same keys and values.

    Args:
        kept: What was kept before; changed.
        unknown: The unknown keys of one object.
        extended: The keys whose lists add up.
    """
    is_new = False
    for key, value in (unknown or {}).items():
        if value is None or key in _NEVER_KEPT or (type(value) is str and kept.get(key) == value):
            continue
        is_new = True
        if key in extended and is_list(value):
            known = kept.get(key)
            if is_list(known):
                known.extend(value)
            else:
                kept[key] = [*value]
        else:
            kept[key] = value
    return is_new


def merge_usage(usage: dict[str, Any], new: CompletionUsage, log: AnomalyLog) -> dict[str, Any]:
    """Key by key, the last value that is not null; a 0 never replaces a positive number; the same holds in details.

    Returns `usage` itself if nothing changes, else a new object that shares the unchanged values with it. Neither
    argument is changed, so you can keep earlier results. Of unknown keys the first hundred of each object are kept.

    Usage is cumulative where it comes more than once, so nothing is summed. But a total that falls below prompt +
    completion by such a merge (Anthropic's counts come in two parts) becomes their sum.
    """
    merged = _merge_counts(usage, _fields_of(new), log)
    if merged is usage:
        return usage
    prompt, completion, total = counts = _counts_in(merged)
    is_mixed = counts != _counts_in(vars(new))
    if is_mixed and _is_count(prompt) and _is_count(completion) and _is_count(total) and total < prompt + completion:
        log.note(TOTAL_TOO_SMALL, f"{total} < {prompt} + {completion}")
        merged["total_tokens"] = prompt + completion
        return usage if merged == usage else merged
    return merged


def _counts_in(usage: dict[str, Any]) -> tuple[Any, Any, Any]:
    return usage.get("prompt_tokens"), usage.get("completion_tokens"), usage.get("total_tokens")


def _fields_of(model: BaseModel) -> dict[str, Any]:
    """The fields of a model, the unknown ones among them; those that were not sent are None."""
    unknown = model.__pydantic_extra__
    return {**vars(model), **unknown} if unknown else vars(model)


def _merge_counts(
    usage: dict[str, Any], new: dict[str, Any], log: AnomalyLog, typed: frozenset[str] = _TYPED_COUNTS
) -> dict[str, Any]:
    """Merge the counts of one level; `usage` itself if nothing changes, else a new object.

    Args:
        usage: What was merged before.
        new: The usage that arrived now.
        log: Where to note what was tolerated.
        typed: The keys whose types are checked when a chunk is read.
    """
    merged = usage
    for key, value in new.items():
        if value is None or (old := merged.get(key)) == value:  # 5 and 5.0 are the same
            continue
        kept = _merged(key, old, value, log, is_typed=key in typed)
        if kept is old:
            continue
        if len(merged) >= _MOST_KEYS and key not in merged and key not in _KNOWN_KEYS and _is_full(merged):
            log.note(TOO_MANY_KEYS, excerpt(key))
            continue
        if merged is usage:
            merged = dict(usage)
        merged[key] = kept
    return merged


def _merged(key: str, old: Any, value: Any, log: AnomalyLog, *, is_typed: bool) -> Any:
    """The merged value of one key: only a count replaces a count, and a 0 never replaces a positive one.

    It is noted here, unless it was noted when the chunk was read: there the types of typed keys are checked, and the
    size of all whole numbers.
    """
    if _is_count(value) and (old is None or (value and _is_count(old))):
        return value
    details = _fields_of(value) if isinstance(value, BaseModel) else value
    if is_object(details) and is_object(old):
        return _merge_counts(old, details, log, _DETAIL_COUNTS)
    if not _is_right(key, details) and _is_right(key, old):
        if not is_typed and not is_integer(value):
            log.note(WRONG_TYPE, f"usage: {excerpt(key)}: received {type(value).__name__} after a count")
        return old
    if value == 0 and _is_positive(old):
        log.note(ZERO_USAGE, excerpt(key))
        return old
    return _with_few_keys(_own(value), log)


def _own(value: Any) -> Any:
    """A copy of a value, independent of its chunk; of a model only the fields that are not null."""
    if isinstance(value, BaseModel):
        value = {key: item for key, item in _fields_of(value).items() if item is not None}
    return copied(value)


def _is_full(usage: dict[str, Any]) -> bool:
    return len(usage.keys() - _KNOWN_KEYS) >= _MOST_KEYS


def _with_few_keys(value: Any, log: AnomalyLog) -> Any:
    """An object with as many keys as are kept, at every level; anything else as it is."""
    if not is_object(value):
        return value
    if len(value) > _MOST_KEYS:
        log.note(TOO_MANY_KEYS, f"{len(value)} keys")
    return {key: _with_few_keys(item, log) for key, item in islice(value.items(), _MOST_KEYS)}


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is a number of tokens that a provider can mean."""
    return type(value) is int and -(2**63) <= value < 2**63


def _is_right(key: str, value: Any) -> bool:
    """Whether a value is of the kind that usage has under this key: an object of details, or a number."""
    if key.endswith("_details"):
        return is_object(value)
    return _is_count(value) or isinstance(value, float)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


class Blocks:
    """The fragments of one kind of block, merged into blocks by the rules of that kind.

    A fragment with an index belongs to the block with that index, one without to the last block of its type, unless
    its id differs. So a signature that arrives alone, even after the content began, is added to its block.

    Args:
        kind: The field that the fragments come in.
    """

    def __init__(self, kind: BlockKind) -> None:
        self._kind = kind
        self._blocks: list[_Block] = []
        self._by_index: dict[tuple[str, str], _Block] = {}
        self._last_of: dict[str, _Block] = {}
        self._last: tuple[object, object, _Block] | None = None  # the type and the index of the last fragment

    def kept(self) -> Kept:
        """What they keep; see `footprint`."""
        return Kept((self._blocks, self._last_of), (self._by_index,))

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def add(self, fragments: list[dict[str, Any]]) -> str:
        """Fold fragments in; return the reasoning that is new in them. They are not changed."""
        is_sequence = self._kind.is_sequence
        new: list[dict[str, Any]] = []
        for fragment in fragments:
            block = self._block_of(fragment)
            is_repeat = is_sequence and block.is_repeated_by(fragment)
            if not is_repeat:
                new.append(fragment)
            block.add(fragment, appends=not is_repeat)
        for key in self._kind.reasoning:
            texts = [text for fragment in new if (text := fragment.get(key)) and isinstance(text, str)]
            if texts:
                return "".join(texts)
        return ""

    def end_block(self) -> None:
        """Let the next fragment without an index begin a block."""
        self._last_of.clear()
        self._last = None

    def snapshot(self) -> list[dict[str, Any]]:
        """The blocks so far, in the order of their first appearance."""
        return [block.snapshot() for block in self._blocks]

    def compact(self) -> None:
        """Join the pieces of all texts."""
        for block in self._blocks:
            block.compact()

    def _block_of(self, fragment: dict[str, Any]) -> "_Block":
        """The block that a fragment belongs to: an existing one, else a new one."""
        type_, index = fragment.get("type"), fragment.get("index")
        if self._last is not None:  # most fragments continue the block of the one before
            last_type, last_index, block = self._last
            if type_ == last_type and index == last_index and type(index) is int:
                return block
        block = self._found(printed(type_), index, fragment)
        self._last = (type_, index, block) if type(index) is int and type(type_) is str else None
        return block

    def _found(self, type_: str, index: Any, fragment: dict[str, Any]) -> "_Block":
        kind = self._kind
        key = (type_ if kind.has_types else "", printed(index))
        block = self._last_of.get(type_) if index is None else self._by_index.get(key)
        if index is None and block is not None and block.is_followed_by(fragment):
            block = None
        if block is None:
            block = _Block(kind)
            self._blocks.append(block)
            if kind.is_sequence:
                self.end_block()
        if index is not None:
            self._by_index[key] = block
        self._last_of[type_] = block
        return block


class _Block:
    """One block while it is assembled; texts are joined from buffers, so that many pieces stay linear."""

    __slots__ = ("_kind", "_lists", "_texts", "fields")

    def __init__(self, kind: BlockKind) -> None:
        self.fields: dict[str, Any] = {}
        self._kind = kind
        self._texts: dict[str, TextBuffer] = {}
        self._lists: dict[str, Blocks] = {}  # parts inside a part

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self.fields, self._texts, self._lists))

    def is_repeated_by(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment with a signature repeats the whole text of the block (LiteLLM, musistudio/llms)."""
        return bool(fragment.get("signature")) and any(
            self._equals(key, fragment.get(key)) for key in self._kind.appended
        )

    def is_followed_by(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment of the same type, without an index, begins a block of its own."""
        id_ = fragment.get("id")
        if id_ and self.fields.get("id") not in (None, "", id_):
            return True
        if not self._kind.is_sequence:
            return False
        if not any(key in fragment for key in (*self._kind.appended, "signature")):
            return True  # a value of its own, such as a redacted block or a reference
        is_over = any(self.fields.get(key) for key in ("signature", "data"))
        return is_over and any(fragment.get(key) for key in self._kind.appended) and not self.is_repeated_by(fragment)

    def add(self, fragment: dict[str, Any], *, appends: bool = True) -> None:
        """Fold a fragment in, its texts only if they are to be appended."""
        appended, lists = self._kind.appended, self._kind.lists
        for key, value in fragment.items():
            if key in appended and isinstance(value, str) and key not in self._lists:
                if appends:
                    self._append(key, value)
            elif key in lists and is_list(value) and key not in self._texts:
                self._extend(key, value)
            elif value not in (None, "") or (key not in self.fields and value is None):
                self.fields[key] = value

    def compact(self) -> None:
        """Join the pieces of all texts."""
        for text in self._texts.values():
            text.compact()
        for items in self._lists.values():
            items.compact()

    def snapshot(self) -> dict[str, Any]:
        """The block so far."""
        return {
            **copied(self.fields),
            **{key: well_formed(text.getvalue()) for key, text in self._texts.items()},
            **{key: items.snapshot() for key, items in self._lists.items()},
        }

    def _append(self, key: str, value: str) -> None:
        text = self._texts.get(key)
        if text is None:
            self.fields.setdefault(key, "")
            text = self._texts[key] = TextBuffer()
        text.write(value)

    def _extend(self, key: str, items: list[Any]) -> None:
        """Parts inside a part; a string among them is a text."""
        inner = self._lists.get(key)
        if inner is None:
            self.fields.setdefault(key, [])
            inner = self._lists[key] = Blocks(CONTENT_ITEMS)
        inner.add([item if is_object(item) else {"type": "text", "text": item} for item in items])

    def _equals(self, key: str, value: Any) -> bool:
        text = self._texts.get(key)
        if text is None or not isinstance(value, str) or not value or text.tell() != len(value):
            return False  # without joining the pieces
        return text.getvalue() == value


class ContentParts:
    """The parts of content lists that are more than text, and the position of each in the text.

    Thinking and reasoning parts that follow each other without text in between are pieces of one part.

    Attributes:
        others: How many of them are neither text nor reasoning.
    """

    def __init__(self) -> None:
        self.others = 0
        self._parts = Blocks(CONTENT_PARTS)
        self._starts: list[int] = []

    def kept(self) -> Kept:
        """What they keep; see `footprint`."""
        return Kept((self._parts,), (self._starts,))

    def __len__(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def add(self, part: dict[str, Any], start: int) -> bool:
        """Fold in a part that comes after that number of characters of text; return whether it is a new one."""
        if self._starts and start != self._starts[-1]:
            self._parts.end_block()
        self._parts.add([part])
        is_new = len(self._parts) > len(self._starts)
        if is_new:
            self._starts.append(start)
        return is_new

    def compact(self) -> None:
        """Join the pieces of all texts."""
        self._parts.compact()

    def snapshot(self, text: str) -> list[dict[str, Any]]:
        """All parts so far, and between them the text as parts of type "text"."""
        parts: list[dict[str, Any]] = []
        end = 0
        for start, part in zip(self._starts, self._parts.snapshot(), strict=True):
            parts += _text_part(text[end:start])
            parts.append(part)
            end = start
        return parts + _text_part(text[end:])


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def nested_usage(chunk: ChatCompletionChunk, log: AnomalyLog) -> CompletionUsage | None:
    """Moonshot puts usage into the choice, Groq into `x_groq`."""
    groq = (chunk.__pydantic_extra__ or {}).get("x_groq")
    holders = [*((choice.__pydantic_extra__ or {}) for choice in chunk.choices), groq]
    for holder in holders:
        if is_object(holder) and is_object(holder.get("usage")):
            usage, wrong = validate_leniently(CompletionUsage, copied(holder["usage"]))
            for one in wrong:
                log.note(COUNT_TOO_LARGE if one.is_too_large else WRONG_TYPE, str(one))
            return usage
    return None
