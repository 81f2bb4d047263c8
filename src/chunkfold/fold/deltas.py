"""Fold one delta: a rule for each of its fields."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.fold.audio import Audio
from chunkfold.fold.blocks import Blocks, ContentParts
from chunkfold.fold.choice_state import ChoiceState
from chunkfold.fold.merging import EXTENDED_IN_LOGPROBS, EXTENDED_IN_MESSAGE, keep_unknown, merge_provider_fields
from chunkfold.fold.tool_call import LegacyCall
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.values import is_list, is_object, size_of
from chunkfold.models.chunk import ChoiceDelta, ChoiceDeltaAudio, ChoiceDeltaFunctionCall
from chunkfold.models.content import (
    APPENDED,
    BLOCK_KINDS,
    CONTENT_BLOCKS,
    ENCRYPTED_FLAG,
    ENCRYPTED_REASONING,
    ENCRYPTED_TEXT,
    OPENING_THOUGHT_TAG,
    PROVIDER_FIELDS,
    REASONING_DETAILS,
    REASONING_FIELDS,
    THINKING,
    BlockKind,
    Fields,
    fields_of,
    fragments_of,
    has_more_than_text,
    is_image,
    is_of_tool,
    is_thought,
    is_wrong_part,
    kind_in,
    read_part,
    reasoning_of,
    reasoning_text,
    split_encrypted,
    without_thought_flag,
)
from chunkfold.models.shared import ChoiceLogprobs

TextRule = Callable[[ChoiceState, str], int]
"""Folds a text into a choice; returns how many characters of output it brought."""


def fold_delta(state: ChoiceState, delta: ChoiceDelta) -> int:
    """Fold each field by its rule, else as an unknown key; return how many characters of output the delta brought."""
    fields, unknown, present = delta.__dict__, delta.__pydantic_extra__, delta.__pydantic_fields_set__
    role = fields.get("role")
    is_new_role = role is not None and role != state.role  # most providers repeat it
    if is_new_role and is_of_tool(fields):
        return _keep_tool_message(state, delta)
    if unknown and unknown.get(ENCRYPTED_FLAG) and isinstance(fields.get("reasoning_content"), str):
        return _fold_encrypted(state, delta)
    if unknown and RULED_UNKNOWN.isdisjoint(unknown):
        keep_unknown(state.message_extra, unknown, EXTENDED_IN_MESSAGE)
        unknown = None
    every = {**unknown, **fields} if unknown else fields
    reasoning, size = "", 0
    if not REASONING_FIELDS.isdisjoint(present):
        reasoning, size = _fold_reasoning(state, every)
    if fields.get("content") is not None:
        size += _add_content(state, every, reasoning)
    if is_new_role:
        _add_role(state, fields["role"])
    if not _DELTA_RULES.keys().isdisjoint(present):
        for name, rule in _DELTA_RULES.items():
            if (value := fields.get(name)) is not None:
                size += rule(state, value)
    return size + _fold_unknown_fields(state, unknown) if unknown else size


def _fold_encrypted(state: ChoiceState, delta: ChoiceDelta) -> int:
    """Fold a flagged delta without its encrypted reasoning, which has to stay at the end of the raw text."""
    text, encrypted = split_encrypted(delta.__dict__["reasoning_content"])
    state.texts[ENCRYPTED_TEXT].write(encrypted)
    state.message_extra[ENCRYPTED_FLAG] = True
    rest = delta.model_copy(update={"reasoning_content": text, ENCRYPTED_FLAG: None})
    return len(encrypted) + fold_delta(state, rest)


def brought_fields(delta: ChoiceDelta, state: ChoiceState | None) -> list[str]:
    """The fields that a delta brings; not nulls, nor a role or an empty content that its choice already has.

    An empty content that comes alone counts: it is folded as any text.
    """
    fields = delta.__dict__
    brought = [name for name in delta.__pydantic_fields_set__ if fields.get(name) is not None]
    if state is not None:
        if "role" in brought and fields["role"] == state.role:
            brought.remove("role")
        if len(brought) > 1 and fields.get("content") == "" and "content" in state.texts:
            brought.remove("content")
    return brought


def _fold_unknown_fields(state: ChoiceState, unknown: dict[str, Any]) -> int:
    for name, value in unknown.items():
        rule = _UNKNOWN_RULES.get(name)
        if rule is None or not rule(state, name, value):
            keep_unknown(state.message_extra, {name: value}, EXTENDED_IN_MESSAGE)
    # Output, like the data of a block.
    return sum(len(value) for value in map(unknown.get, ENCRYPTED_REASONING) if isinstance(value, str))


def _fold_reasoning(state: ChoiceState, fields: Fields) -> tuple[str, int]:
    """Fold the fields of reasoning; return their text, and how many characters of output they brought.

    Images among the `content_blocks`, as Portkey sends Gemini's, go to the others: all of them have the same index.
    """
    reasoning, size = "", 0
    for kind in BLOCK_KINDS:
        value = fields.get(kind.name)
        if not value or (fragments := fragments_of(kind, value)) is None:
            continue
        if is_list(value) and len(fragments) < len(value):
            wrong = next(item for item in value if not is_object(item))
            state.log.note(anomalies.WRONG_TYPE, f"{kind.name}: expected objects, received {{}}", wrong)
        if kind is CONTENT_BLOCKS:
            size += _take_images(state, fragments)
            if not fragments:
                continue
        known = state.blocks.get(kind.name)
        blocks = state.blocks[kind.name] = known or Blocks(kind_in(kind, fragments))
        brought = _fold_blocks(state, blocks, fragments, are_first=known is None)
        reasoning = reasoning or brought
        for fragment in fragments:
            for key in blocks.kind.appended:
                if (text := fragment.get(key)) is not None and not isinstance(text, str):
                    _note_no_text(state, f"{kind.name}: {key}", text)
            if data := fragment.get("data") or fragment.get("encrypted"):
                size += size_of(data)  # encrypted, output of its own
    reasoning = reasoning_text(fields) or reasoning
    return reasoning, size + _add_reasoning(state, reasoning)


def _fold_blocks(state: ChoiceState, blocks: Blocks, fragments: list[dict[str, Any]], *, are_first: bool) -> str:
    """Fold fragments of blocks; return the reasoning that is new in them.

    The first ones may repeat all of the reasoning, which came in another field, if there is a signature beside it.
    """
    new = blocks.add(fragments)
    reasoning = reasoning_of(kind_in(blocks.kind, new), new)
    may_repeat = are_first and reasoning and any(fragment.get("signature") for fragment in new)
    return "" if may_repeat and state.texts["reasoning"].equals(reasoning) else reasoning


def _take_images(state: ChoiceState, fragments: list[dict[str, Any]]) -> int:
    """Take the images out of fragments, and fold them; return how many characters of output they are."""
    images = list(filter(is_image, fragments))
    if not images:
        return 0
    fragments[:] = [fragment for fragment in fragments if not is_image(fragment)]
    return _add_images(state, images)


def _note_no_text(state: ChoiceState, place: str, value: Any) -> None:
    state.log.note(anomalies.WRONG_TYPE, f"{place}: expected a string, received {type(value).__name__}")


def _add_content(state: ChoiceState, fields: Fields, known_reasoning: str) -> int:
    """Fold the content as text, or as reasoning if it is flagged as a thought and no other field has the reasoning."""
    content = fields["content"]
    if not isinstance(content, str):
        return _add_content_list(state, content, has_reasoning=bool(known_reasoning))
    if is_thought(fields):
        state.in_thought = True
        return _add_reasoning(state, "" if known_reasoning else content.removeprefix(OPENING_THOUGHT_TAG))
    return state.write("content", content)


def _add_content_list(state: ChoiceState, content: list[Any], *, has_reasoning: bool) -> int:
    """Fold the texts of the parts (reasoning only if no other field has it); keep the parts that have more."""
    state.log.note(anomalies.CONTENT_PARTS)
    state.write("content", "")
    size = 0
    for part in content:
        kind, text = read_part(part)
        if is_object(part) and (kind != "text" or has_more_than_text(part)):
            size += _keep_part(state, part, kind)
        if is_wrong_part(part):
            state.log.note(anomalies.WRONG_TYPE, "content: expected texts or parts with a text, received {}", part)
        if text and not (kind == "reasoning" and has_reasoning):
            size += state.write("content" if kind == "text" else "reasoning", text)
    return size


def _keep_part(state: ChoiceState, part: dict[str, Any], kind: str) -> int:
    """Keep a part as it was sent; return how many characters of output it has, besides text."""
    parts = state.content_parts = state.content_parts or ContentParts()
    parts.add(part, state.texts["content"].tell(), may_continue=kind == "reasoning")
    if kind != "other":
        return 0
    state.begin_part("content_parts", parts.others)
    if is_image(part):
        parts.images[parts.others] = part
        if state.observer is not None:
            state.observer.on_image(state.index, part)
    parts.others += 1
    return size_of(part) if is_image(part) or part.get("type") == "refusal" else 0


def _keep_tool_message(state: ChoiceState, delta: ChoiceDelta) -> int:
    """Keep a tool's message apart from the assistant's. Tool calls are the assistant's, even with a tool's role."""
    state.log.note(anomalies.TOOL_MESSAGE, "role {}", delta.role)
    state.tool_messages.append(delta.model_dump(exclude_unset=True, exclude={"tool_calls"}))
    return fold_tool_calls(state, delta.tool_calls or [])


def _append_raw(state: ChoiceState, name: str, value: Any) -> bool:
    if isinstance(value, str):
        state.texts[name].write(value)
        return True
    if value is not None:
        _note_no_text(state, name, value)
    return False


def _check_blocks(kind: BlockKind, state: ChoiceState, name: str, value: Any) -> bool:
    """Note a value that is not blocks; return whether it is, so that it was folded as reasoning."""
    is_folded = fragments_of(kind, value) is not None
    if not is_folded and value is not None and kind is not THINKING:  # a bare `thinking` can have any meaning
        state.log.note(anomalies.WRONG_TYPE, f"{name}: expected a list, received {type(value).__name__}")
    return is_folded


def _keep_extra_content(state: ChoiceState, name: str, value: Any) -> bool:
    keep_unknown(state.message_extra, {name: without_thought_flag(value)})
    return True


def _add_role(state: ChoiceState, role: str) -> None:
    if not role:
        state.log.note(anomalies.EMPTY_FOR_ABSENT, "role")
    elif state.role is None:
        state.role = role
    else:
        state.log.note(anomalies.ROLE_CHANGED, "{}", role)
        if role == "assistant":  # a temporary one preceded it
            state.role = role


def _add_reasoning(state: ChoiceState, text: str) -> int:
    return state.write("reasoning", text) if text else 0


def rule_with_block(rule: TextRule, blocks: Blocks, key: str) -> TextRule:
    """The rule for reasoning that blocks bring as well, under this key of a fragment that continues the last one."""

    def add(state: ChoiceState, text: str) -> int:
        blocks.append_to_last(key, text)
        return rule(state, text)

    return add


def _add_raw_reasoning(state: ChoiceState, text: str) -> int:
    state.texts["reasoning_content"].write(text)
    return 0


def fold_tool_calls(state: ChoiceState, fragments: list[Any]) -> int:
    """Fold fragments of tool calls; return how many characters of output they brought."""
    if not fragments:
        return 0
    calls = state.tool_calls = state.tool_calls or ToolCalls(state.index, state.log, state.head)
    size = 0
    for fragment in fragments if len(fragments) == 1 else calls.in_places(fragments):
        known = len(calls.calls)
        call, grown = calls.route(fragment)
        if call is None:
            continue
        call.is_late |= state.is_late and state.finish_reason is not None
        text = call.add(fragment, state.log)
        size += grown + len(text)
        if len(calls.calls) > known:
            state.begin_part("tool_calls", known)
        if state.observer is not None:
            state.observer.on_tool_call(state.index, calls, call, text)
    if not calls.calls:
        state.tool_calls = None
    return size


def rule_for_call(calls: ToolCalls, index: int) -> TextRule:
    """The rule for more arguments of the call at this index, of a fragment that has nothing else."""

    def add(state: ChoiceState, text: str) -> int:
        call = calls.extend(index, text)
        if state.observer is not None:
            state.observer.on_tool_call(state.index, calls, call, text)
        return len(text)

    return add


def _add_function_call(state: ChoiceState, call: ChoiceDeltaFunctionCall) -> int:
    if state.function_call is None:
        if not any(fields_of(call).values()):
            state.log.note(anomalies.EMPTY_FOR_ABSENT, "a function call")
            return 0
        state.function_call = LegacyCall()
    return state.function_call.add(call)


def _add_audio(state: ChoiceState, audio: ChoiceDeltaAudio) -> int:
    if state.audio is None:
        state.audio = Audio()
        state.begin_part("audio", 0)
    data, transcript = state.audio.add(audio, state.log)
    if state.observer is not None:
        state.observer.on_audio(state.index, data, transcript)
    return len(data) + len(transcript)


def _add_images(state: ChoiceState, images: list[Any]) -> int:
    kept = state.lists.setdefault("images", [])
    for image in images:
        state.begin_part("images", len(kept))
        kept.append(image)
        if state.observer is not None:
            state.observer.on_image(state.index, image)
    return sum(size_of(image) for image in images)


def _add_annotations(state: ChoiceState, annotations: list[Any]) -> int:
    """Add annotations; DashScope's speech recognition sends all that came so far with each delta."""
    new = _extend_with_new(state.lists.setdefault("annotations", []), annotations)
    if state.observer is not None:
        for annotation in new:
            state.observer.on_annotation(state.index, annotation)
    return 0


def _extend_with_new(kept: list[Any], items: list[Any]) -> list[Any]:
    """Extend a list; return the new items: without the beginning, if that repeats all of the list."""
    new = items[len(kept) :] if items[: len(kept)] == kept else items
    kept.extend(new)
    return new


def _keep_citations(state: ChoiceState, name: str, value: Any) -> bool:
    """Citations accumulate: vLLM sends those of Cohere's models as the text comes."""
    if not is_list(value):
        return False
    if not is_list(state.message_extra.get(name)):
        state.message_extra[name] = []
    _extend_with_new(state.message_extra[name], value)
    return True


def _keep_provider_fields(state: ChoiceState, _: str, value: Any) -> bool:
    """Gemini's signatures accumulate, and so do Anthropic's citations, each of which is the `citation` of a delta."""
    if is_object(value) and value.get("citation") is not None:
        known = value.get("citations")
        citations = [*(known if is_list(known) else ()), value["citation"]]
        value = {**value, "citation": None, "citations": citations}
    return merge_provider_fields(state.message_extra, value, ("thought_signatures", "citations"))


# The rules for fields that the models do not have; a rule returns whether it folded all of the value.
_UNKNOWN_RULES: Final[dict[str, Callable[[ChoiceState, str, Any], bool]]] = {
    **dict.fromkeys(APPENDED, _append_raw),
    **{kind.name: partial(_check_blocks, kind) for kind in BLOCK_KINDS if kind is not REASONING_DETAILS},
    "extra_content": _keep_extra_content,
    "citations": _keep_citations,
    PROVIDER_FIELDS: _keep_provider_fields,
    ENCRYPTED_FLAG: lambda state, name, _: state.message_extra.get(name) is True,  # it stays
}
RULED_UNKNOWN: Final = REASONING_FIELDS.union(_UNKNOWN_RULES)
"""Unknown fields of a delta of which more is kept than the last value."""
# The role, the content and the spellings of reasoning are folded before them. In the order of the model's fields.
_DELTA_RULES: Final[dict[str, Callable[[ChoiceState, Any], int]]] = {
    "refusal": lambda state, text: state.write("refusal", text),
    "tool_calls": fold_tool_calls,
    "function_call": _add_function_call,
    "reasoning_content": _add_raw_reasoning,
    "images": _add_images,
    "audio": _add_audio,
    "annotations": _add_annotations,
}
# The rule for a delta that has one text and nothing else, by its field: the rest of `fold_delta` does not apply to it.
TEXT_RULES: Final[dict[str, TextRule]] = {
    "content": lambda state, text: state.write("content", text),
    "reasoning": _add_reasoning,
    "reasoning_content": lambda state, text: _add_reasoning(state, text) + _add_raw_reasoning(state, text),
}


def fold_logprobs(state: ChoiceState, logprobs: ChoiceLogprobs) -> None:
    """Extend the lists; a value that is not a list is an unknown key."""
    fields = logprobs.__dict__
    for name in ("content", "refusal"):
        if fields.get(name) is not None:
            state.logprobs.setdefault(name, []).extend(fields[name])
    keep_unknown(state.logprobs_extra, logprobs.__pydantic_extra__, EXTENDED_IN_LOGPROBS)
