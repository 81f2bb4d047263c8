"""Fold the values of events that are like an earlier one, and decide how little of the chunk has to be folded for that.

Most often a text is all that is new, and its rule is all that is applied: `ValueFolder.fold`. What each value means to
the fold is found out once, when the template is learned: `meaning_of`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from chunkfold import anomalies
from chunkfold.fold.choice_state import ChoiceState
from chunkfold.fold.deltas import RULED_UNKNOWN, TEXT_RULES, TextRule, brought_fields, rule_for_call, rule_with_block
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.json_text.values import is_list, is_object
from chunkfold.models.base import Model, copier_of, is_model
from chunkfold.models.chunk import ChatCompletionChunk, ChoiceDelta
from chunkfold.models.content import PART_TEXTS, REASONING_DETAILS, read_part
from chunkfold.models.shared import CompletionUsage
from chunkfold.parser.holes import Field, Hole, unknown_of
from chunkfold.parser.limits import OutputLimit
from chunkfold.wire.reading import Notes

_REASONING_AND_BLOCK: Final = ({"reasoning", "reasoning_details"}, {"reasoning_content", "reasoning_details"})
_Kind = Literal["text", "index", "count", "created", "unknown", "padding"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the values in the holes of a chunk, given by the holes' numbers, mean to the fold."""

    texts: list[int]  # one that appends, or a reasoning and that of its block, which have to be equal
    counts: list[int]  # in the usage
    positive: list[int]  # numbers in which a 0 has another meaning: counts, and `created`
    unknown: list[tuple[dict[str, Any], int]]  # values of unknown keys, and where the fold keeps them
    choice: int | None  # the choice's index, if it changes
    notes: Notes  # of each such chunk, besides those of its head
    # For the text, if a chunk like the last one adds nothing else, but for counts at the top of the usage and unknown
    # values; else None.
    rule: TextRule | None
    is_always_usual: bool  # whether `is_usual` is true of all values

    def is_usual(self, values: Sequence[Any]) -> bool:
        """Whether these values mean what the ones in the chunk do."""
        is_same: bool = values[self.texts[0]] == values[self.texts[-1]]
        for number in self.positive:
            is_same = is_same and values[number] > 0
        return is_same

    def joined(self, rows: Sequence[tuple[Any, ...]]) -> list[Any] | None:
        """The values of a single event equivalent to all rows after the first; None if there is none."""
        is_one = self.choice is None or len({row[self.choice] for row in rows}) == 1
        if len(rows) == 1 or self.unknown or not is_one or not (self.is_always_usual or all(map(self.is_usual, rows))):
            return None
        values = [*rows[-1]]
        for number in self.texts:
            values[number] = "".join([row[number] for row in rows[1:]])
        return values


class ValueFolder:
    """Fold values as events that have them in the holes of one chunk, which was folded itself.

    It does not refer to the template, which keeps it, so that a stream is freed as soon as it is not used.
    """

    def __init__(
        self, fold: StreamFold, limit: OutputLimit, chunk: ChatCompletionChunk, holes: list[Hole], frame: bytes
    ) -> None:
        [choice] = chunk.choices
        self._fold = fold
        self._limit = limit
        self._chunk = chunk
        self._choice = vars(choice)
        self._holes = holes
        self._frame = frame  # the bytes of an event, but for its values
        self._head = fold.head.usual
        self._has_own_head = any(hole.holder is vars(chunk) for hole in holes)
        self._state = fold.states[choice.index]
        self._meaning = meaning = meaning_of(chunk, holes, fold, self._state)
        self._keeps_more = meaning is not None and bool(meaning.counts or meaning.unknown or meaning.notes)
        self.copy = copier_of(chunk)
        """Returns a copy of the chunk, with the values that are in it."""

    def fill(self, values: Sequence[Any]) -> None:
        """Put values into the chunk."""
        for (holder, key, _, _), value in zip(self._holes, values, strict=True):
            holder[key] = value

    def fold(self, values: Sequence[Any], count: int = 1) -> bool:
        """Fold the values of an event, or the joined ones of several; return whether it was possible.

        After a chunk like this one only the values are folded, which takes half the time.
        """
        fold, meaning = self._fold, self._meaning
        if meaning is None or meaning.rule is None:
            return self._fold_chunk(values, count)
        if not (fold.follows_template and (meaning.is_always_usual or meaning.is_usual(values))):
            return self._fold_chunk(values, count)
        state = self._state if meaning.choice is None else fold.states.get(values[meaning.choice])
        text = values[meaning.texts[0]]
        if state is None or not fold.add_again(state, self._head, meaning.rule, text, count):
            return False
        if self._keeps_more:
            self._keep_more(meaning, values, count)
        return True

    def fold_run(self, rows: Sequence[tuple[Any, ...]], offsets: Sequence[int]) -> int:
        """Fold the values of the events that begin at these offsets; return how many these are.

        Texts that append are joined, unless an observer is notified of each. Joining starts after an event that was
        folded without a note, with a text of more than two characters, since a rule checks the first ones of arguments
        (CF311).
        """
        fold = self._fold
        meaning = self._meaning if fold.observer is None else None
        for count, values in enumerate(rows):
            fold.log.offset = offsets[count]
            if not self.fold(values):
                return count
            if meaning is not None and fold.follows_template and len(values[meaning.texts[0]]) > len("{}"):
                joined, meaning = meaning.joined(rows[count:]), None
                if joined is not None:
                    fold.log.offset = offsets[count + 1]
                    return len(rows) if self.fold(joined, len(rows) - count - 1) else count + 1
        return len(rows)

    def _fold_chunk(self, values: Sequence[Any], count: int) -> bool:
        """Fold all of the chunk, since another one may have been folded before it.

        If anything else is noted of it, the next one has to be folded in full, too, to note it again. The same is true
        after an empty text: after a signature, a new part of a content list begins only with the first text.
        """
        fold, noted, meaning = self._fold, self._fold.log.count, self._meaning
        self.fill(values)
        if self._has_own_head and count == 1:  # what is joined has a usual one
            is_folded = fold.add_if_usual(self._chunk)
        else:
            state = fold.states.get(self._choice["index"])
            is_folded = state is not None and fold.add_again(state, self._head, fold.add_usual, self._chunk, count)
        if is_folded:
            self._limit.count(self._frame, count)
            self._limit.count_values(values)
            if meaning is not None:
                fold.log.note_all(meaning.notes * (count - 1))  # the chunk noted them once
                usual = noted + count * (len(fold.head.notes) + len(meaning.notes))
                fold.follows_template = bool(values[meaning.texts[0]]) and fold.log.count == usual
        return is_folded

    def _keep_more(self, meaning: Meaning, values: Sequence[Any], count: int) -> None:
        """Keep the counts and the values of unknown keys, and note what is noted of each event."""
        if meaning.notes:
            self._fold.log.note_all(meaning.notes * count)
        if meaning.counts:
            self._fold.update_usage({self._holes[number].key: values[number] for number in meaning.counts})
        for kept, number in meaning.unknown:
            kept[self._holes[number].key] = values[number]
        if meaning.unknown:
            self._limit.count_values([values[number] for _, number in meaning.unknown])


def meaning_of(chunk: ChatCompletionChunk, holes: list[Hole], fold: StreamFold, state: ChoiceState) -> Meaning | None:
    """The meaning of a chunk's holes, after it was folded into this choice; None if each has to be folded in full."""
    [choice], usage = chunk.choices, chunk.usage
    delta = choice.delta
    has_index = any(hole.holder is vars(choice) for hole in holes)
    texts = _texts_of(delta, state, has_index=has_index)
    unknown = [unknown_of(model) for model in (chunk, choice, delta)]
    has_lists = any(is_list(value) for one in unknown for value in one.values())
    if has_lists or not RULED_UNKNOWN.isdisjoint(unknown[-1]) or not _has_all_counts(usage):
        return None
    numbers: defaultdict[_Kind | None, list[int]] = defaultdict(list)
    for number, hole in enumerate(holes):
        numbers[_kind_of(hole, chunk, texts, unknown)].append(number)
    if not texts or None in numbers or len(numbers["text"]) != len(texts):
        return None
    counts, created = numbers["count"], numbers["created"]
    has_details = any(usage is None or holes[number].holder is not vars(usage) for number in counts)
    # The rule folds no details, nor what each choice keeps for itself, such as its calls, if the choice changes.
    is_more_kept = has_details or (has_index and any((*unknown[1:], delta.tool_calls)))
    kept = dict(zip(map(id, unknown), (fold.extra, state.extra, state.message_extra), strict=True))
    return Meaning(
        texts=numbers["text"],
        counts=counts,
        positive=counts + created,
        unknown=[(kept[id(holes[number].holder)], number) for number in numbers["unknown"]],
        choice=numbers["index"][0] if has_index else None,
        notes=[(anomalies.CONTENT_PARTS, "")] if is_list(delta.content) else [],
        rule=None if is_more_kept else _rule_for(texts, delta, state),
        is_always_usual=not (counts or created or texts[1:]),
    )


def _rule_for(texts: list[Field], delta: ChoiceDelta, state: ChoiceState) -> TextRule | None:
    """The rule for a text of a delta, for a reasoning in a block, or for a call's arguments; None if there is none."""
    if delta.tool_calls:
        [call], calls = delta.tool_calls, state.tool_calls
        return None if calls is None or call.index is None else rule_for_call(calls, call.index)
    if is_list(delta.content):
        [part], parts = delta.content, state.content_parts
        if parts is None or read_part(part)[0] == "text":
            return TEXT_RULES["content"]
        return rule_with_block(TEXT_RULES["reasoning"], parts.blocks, *(part.keys() - {"type"}))
    rule = TEXT_RULES[next((text.key for text in texts if text.holder is vars(delta)), "reasoning")]
    in_block = [text.key for text in texts if text.holder is not vars(delta)]
    return rule_with_block(rule, state.blocks[REASONING_DETAILS.name], *in_block) if in_block else rule


def _kind_of(hole: Hole, chunk: ChatCompletionChunk, texts: list[Field], unknown: list[dict[str, Any]]) -> _Kind | None:
    """What is in a hole, such as a count in the usage or the value of an unknown key; None for any other value."""
    holder, [choice], usage = hole.holder, chunk.choices, chunk.usage
    if any(holder is text.holder and hole.key == text.key for text in texts):
        return "text"
    if holder is vars(choice):
        return "index"
    if holder is vars(chunk) and hole.key == "created":
        return "created" if chunk.created else None  # while it is 0, each is noted
    if usage is not None and any(holder is vars(part) for part in (usage, *filter(is_model, vars(usage).values()))):
        return "count"
    if any(holder is fields for fields in unknown):
        return "padding" if hole.key == "obfuscation" else "unknown"
    return None


def _texts_of(delta: ChoiceDelta, state: ChoiceState, *, has_index: bool) -> list[Field]:
    """The text that a delta brings, or two: a reasoning and the same in a block. Empty if it brings anything else.

    `has_index` says that the choice changes.
    """
    if has_index and (is_list(delta.content) or delta.reasoning_details):
        return []  # something is noted of it, or depends on what came before
    brought = brought_fields(delta, None if has_index else state)
    if len(brought) != 1 and {*brought} not in _REASONING_AND_BLOCK:
        return []
    texts = [text for name in brought if (text := _text_of(delta, name, state)) is not None]
    return texts if len(texts) == len(brought) else []


def _text_of(delta: ChoiceDelta, name: str, state: ChoiceState) -> Field | None:
    """The text in a field of a delta, if nothing else is in it that is kept."""
    fields = vars(delta)
    if is_list(fields[name]) and name == "content":
        return _text_of_part(*fields[name]) if len(fields[name]) == 1 else None
    if name in TEXT_RULES:
        return Field(fields, name)
    if name not in ("tool_calls", "reasoning_details") or len(fields[name]) != 1:
        return None
    [item] = fields[name]
    if is_object(item):
        kind = state.blocks[name].kind
        brought = [key for key in (*kind.appended, *kind.whole, "signature") if item.get(key)]
        is_text = len(brought) == 1 and brought[0] in kind.reasoning  # any but a text is noted each time
        return Field(item, brought[0]) if is_text else None
    # The call's other fields are kept with it or not at all.
    function: Model | None = item.function if item.custom is None else None
    brought = [name for name, value in function or () if value is not None]
    return Field(vars(function), "arguments") if brought == ["arguments"] else None


def _text_of_part(part: dict[str, Any]) -> Field | None:
    """The text of a content part, which may be in a list of its own, if the part has nothing else but its type."""
    keys = part.keys() - {"type"}
    if len(keys) != 1 or keys.isdisjoint(PART_TEXTS if read_part(part)[0] == "reasoning" else ("text",)):
        return None
    [key] = keys
    if is_list(items := part[key]) and len(items) == 1 and items[0].keys() == {"type", "text"}:
        part, key = items[0], "text"
    return Field(part, key) if isinstance(part[key], str) else None


def _has_all_counts(usage: CompletionUsage | None) -> bool:
    """Whether a usage, if there is one, has its three counts, so that none of them comes from an earlier one."""
    if usage is None:
        return True
    counts = map(vars(usage).get, ("prompt_tokens", "completion_tokens", "total_tokens"))
    return all(isinstance(count, int) and count > 0 for count in counts)
