"""Read the text and the reasoning of a delta, in every spelling that providers use.

All spellings are listed here, for the properties of chunks and for the fold. `fields` is a delta or a message as a
mapping: its typed and its unknown fields by name.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from types import NoneType
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from chunkfold.json_text.values import copied, is_container, is_list, is_object, objects_in

Fields = Mapping[str, Any]

# Gemini's compatible endpoint may wrap content that it flags as a thought in literal tags, which are dropped. The
# closing one comes with the text after the thought.
OPENING_THOUGHT_TAG: Final = "<thought>"
CLOSING_THOUGHT_TAG: Final = "</thought>"

# Roles whose text is not the assistant's (CF220): MiniMax's search sends its results with the first, and GigaChat with
# the last how long its own function still takes.
_TOOL_ROLES: Final = ("tool", "function", "function_in_progress")
# DeepSeek, vLLM; OpenRouter, StepFun; GitHub Copilot, which also passes on Azure's. Often two have the same text.
_REASONING_TEXTS: Final = ("reasoning_content", "reasoning", "reasoning_text", "cot_summary")
_REASONING_ID: Final = "cot_id"  # of a `cot_summary`; it comes last
ENCRYPTED_REASONING: Final = (
    *("reasoning_opaque", "reasoning_signature", "reasoning_content_signature"),
    *("redacted_reasoning_content", "encrypted_content"),
)
"""GitHub Copilot's encrypted reasoning, the signature of the reasoning text of octopus, TokenHub and Bella, the
encrypted reasoning of the latter two, and that of Doubao."""
ENCRYPTED_FLAG: Final = "reasoning_encrypted"
"""Venice's flag of a delta or a message whose `reasoning_content` ends with encrypted reasoning, after a mark."""
ENCRYPTED_TEXT: Final = "encrypted_text"
"""The fold's own name for it: it has to end the text on the next turn, but more of the text may come after it."""
_ENCRYPTED_MARK: Final = "__ENCRYPTED_REASONING__"
APPENDED: Final = ("reasoning_text", "cot_summary", *ENCRYPTED_REASONING)
"""Unknown fields whose pieces append."""
DRAFT: Final = "diffusion_content"
"""The field of a delta with a draft of the text; Inception's flag, beside the choices, that marks drafts."""
PROVIDER_FIELDS: Final = "provider_specific_fields"
"""LiteLLM's field of a message or a call, with Gemini's thought signatures and what Anthropic's own tools returned."""
# Its keys that LiteLLM reads in a message of a request. It sends each list whole, but the signatures in pieces.
_RETURNED_PROVIDER_FIELDS: Final = (
    "thought_signatures",
    "web_search_results",
    "tool_results",
    "server_tool_calls",
    "compaction_blocks",
)
# GigaChat's, of the functions that it or the client ran, and Gemini's signature of a text, as Venice passes it on.
_STATES: Final = ("functions_state_id", "thought_signature")
REASONING_ITEMS: Final = "reasoning_items"
"""LiteLLM's field with encrypted reasoning of OpenAI's Responses API."""
_TEXT_PARTS: Final = ("text", "output_text")  # the second name is from OpenAI's Responses API
_NO_TYPE: Final = (None, "")
_REASONING_PARTS: Final = ("thinking", "reasoning")
_KIMI_TYPES: Final = ("summary", "encrypted")
_IMAGE_PARTS: Final = ("image_url", "image")
PART_TEXTS: Final = ("thinking", "summary", "reasoning", "text")
"""The keys of a content part that hold its reasoning: a text, or a list of parts with texts."""


class BlockKind(NamedTuple):
    """A field that brings reasoning in blocks, and how the fragments of one block come together."""

    name: str  # of the delta's field
    reasoning: tuple[str, ...] = ()  # the keys of a block that hold its reasoning; the first that brings any counts
    appended: tuple[str, ...] = ()  # the keys whose texts append; for others, the last value that is not empty counts
    lists: tuple[str, ...] = ()  # the keys whose lists of parts extend
    inner: str = ""  # the key below which a fragment has its own keys, "" if it has them at its top
    has_types: bool = True  # blocks of different types may share an index
    whole: tuple[str, ...] = ()  # the keys that only blocks have that come whole
    # Blocks without an index come one after another. A signature or encrypted data then ends a block, and a text beside
    # the signature that equals the whole block repeats it.
    is_sequence: bool = True
    signed_repeats: bool = False  # a text beside a signature is always a repeat, also of other fields


REASONING_DETAILS: Final = BlockKind(
    "reasoning_details", ("text", "summary"), ("text", "summary", "data"), whole=("thinking",), is_sequence=False
)
"""OpenRouter's blocks, and Helicone's, which come whole at the end, without a type or an index."""
ENCRYPTED_DETAIL: Final = "reasoning.encrypted"
"""The type of a block of `reasoning_details` without text; Bifrost's have Gemini's signature in place of the data."""
THINKING_BLOCKS: Final = BlockKind("thinking_blocks", ("thinking",), ("thinking",))
"""Anthropic's blocks as LiteLLM passes them on."""
# In `reasoning_details`, OpenRouter's blocks may follow blocks of another kind.
_THINKING_TEXTS: Final = ("thinking", "text", "summary")
THINKING_DETAILS: Final = BlockKind(REASONING_DETAILS.name, _THINKING_TEXTS, _THINKING_TEXTS, signed_repeats=True)
"""Anthropic's blocks in `reasoning_details`, as Meituan passes them on."""
KIMI_DETAILS: Final = BlockKind(REASONING_DETAILS.name, ("summary", "text"), ("summary", "text"))
"""Kimi Code's blocks in `reasoning_details`, of the types "summary" and "encrypted"; only a stream has their index."""
THINKING: Final = BlockKind("thinking", ("content",), ("content",))
"""The one object of musistudio/llms, with `content` and `signature`."""
CONTENT_BLOCKS: Final = BlockKind("content_blocks", ("thinking",), ("thinking", "text"), inner="delta", has_types=False)
"""Anthropic's blocks as Portkey passes them on, text blocks included."""
TENSORZERO_CONTENT: Final = BlockKind(
    "tensorzero_extra_content", ("text", "summary_text"), ("text", "summary_text"), whole=("data",), is_sequence=False
)
"""TensorZero's blocks, with an id instead of an index; those of type "unknown" come whole."""
CONTENT_PARTS: Final = BlockKind("content_parts", appended=PART_TEXTS, lists=PART_TEXTS)
"""The parts of a content list (Mistral, Databricks)."""
CONTENT_ITEMS: Final = BlockKind("content_parts", appended=("text",))
"""The parts inside such a part."""
BLOCK_KINDS: Final = (REASONING_DETAILS, THINKING_BLOCKS, THINKING, CONTENT_BLOCKS, TENSORZERO_CONTENT)
"""The fields with blocks, in the order in which their reasoning is looked for."""

REASONING_FIELDS: Final = frozenset({*_REASONING_TEXTS, *(kind.name for kind in BLOCK_KINDS)})
"""Every field that brings reasoning, except the content."""


def fields_of(model: BaseModel) -> Fields:
    """The fields of a model by name, the unknown ones last; those that were not sent have their default."""
    unknown = model.__pydantic_extra__
    return {**vars(model), **unknown} if unknown else vars(model)


def text_of(content: Any) -> str:
    """The text of `content`: a string, or the text parts of a list (Mistral)."""
    return content if isinstance(content, str) else _joined_parts(content, "text")


def thinking_of(content: Any) -> str:
    """The reasoning in a content list: Mistral's `thinking` parts, Databricks' `reasoning` parts."""
    return _joined_parts(content, "reasoning")


def _joined_parts(content: Any, wanted: str) -> str:
    return "".join(text for kind, text in map(read_part, content) if kind == wanted) if is_list(content) else ""


def text_in(fields: Fields) -> str:
    """The assistant's text in a delta: without thoughts, and "" if the delta is a tool's message."""
    content = fields.get("content")
    return "" if not content or is_of_tool(fields) or is_thought(fields) else text_of(content)


def reasoning_in(fields: Fields) -> str:
    """The reasoning in a delta: the first spelling that is not empty.

    Looked at alone, a block with a signature and a text may be new or repeat the whole block. Here it counts as a
    repeat, as LiteLLM and musistudio/llms send it; the fold knows what came before and decides exactly.
    """
    if is_of_tool(fields):
        return ""
    if text := reasoning_text(fields):
        return text
    for kind in BLOCK_KINDS:
        value = fields.get(kind.name)
        if value and (text := _unsigned_text(kind, value)):
            return text
    content = fields.get("content")
    if isinstance(content, str):
        return content.removeprefix(OPENING_THOUGHT_TAG) if is_thought(fields) else ""
    return thinking_of(content)


def reasoning_text(fields: Fields) -> str:
    """The reasoning that comes as a text in a field of its own, "" if none.

    Envoy AI Gateway sends Bedrock's in an object, as its `text`, Braintrust's proxy Anthropic's as its `content`, and
    Heroku as its `thinking`; a whole message of Braintrust's has a list of such objects. These are values of a wrong
    type (CF209).
    """
    for name in _REASONING_TEXTS:
        text = fields.get(name)
        if text and not isinstance(text, str):
            text = _text_in_objects(text)
        elif text and name == "reasoning_content" and fields.get(ENCRYPTED_FLAG):
            text, _ = split_encrypted(text)
        if text:
            return text
    return ""


def split_encrypted(text: str) -> tuple[str, str]:
    """The reasoning in a flagged text, and the encrypted reasoning at its end, with the mark and the blank line."""
    end = text.find(_ENCRYPTED_MARK)
    if end < 0:
        return text, ""
    end -= len("\n\n") if text.endswith("\n\n", 0, end) else 0  # without a copy: the text may be large
    return text[:end], text[end:]


def _text_in_objects(value: Any) -> str:
    objects = filter(is_object, value if is_list(value) else [value])
    texts = (part.get("text") or part.get("content") or part.get("thinking") for part in objects)
    return "".join([text for text in texts if isinstance(text, str)])


def says_something(fields: Fields, besides: tuple[str, ...] = ("role",)) -> bool:
    """Whether a delta has more than a role, or an object more than some of its keys, and empty values."""
    return any(value not in (None, "", [], {}) for name, value in fields.items() if name not in besides)


def is_of_tool(fields: Fields) -> bool:
    """Whether a delta is part of a tool's message, by its role."""
    return fields.get("role") in _TOOL_ROLES


def brings_tool_message(choice: BaseModel) -> bool:
    """Whether a choice of a chunk brings a tool's message, as its delta or as a whole message."""
    delta: BaseModel | None = vars(choice).get("delta")
    message: BaseModel | None = vars(choice).get("message")
    return (delta is not None and is_of_tool(vars(delta))) or (message is not None and is_of_tool(vars(message)))


def is_thought(fields: Fields) -> bool:
    """Whether the content of a delta is flagged as a thought (Gemini's compatible endpoint)."""
    extra = fields.get("extra_content")
    if not extra:
        return False
    google = extra.get("google") if is_object(extra) else None
    return is_object(google) and google.get("thought") is True and isinstance(fields.get("content"), str)


def thought_flag() -> dict[str, Any]:
    """An `extra_content` that has only the flag."""
    return {"google": {"thought": True}}


def without_thought_flag(extra: Any) -> Any:
    """An `extra_content` without the flag; None if nothing else is in it."""
    if not is_object(extra) or not is_object(google := extra.get("google")) or "thought" not in google:
        return extra
    rest = {key: value for key, value in google.items() if key != "thought"}
    left = {**extra, "google": rest} if rest else {key: value for key, value in extra.items() if key != "google"}
    return left or None


def fragments_of(kind: BlockKind, value: Any) -> list[dict[str, Any]] | None:
    """The fragments of blocks in a field's value, without items that are not objects; None if it is not blocks."""
    items = [value] if kind is THINKING and is_object(value) else value
    if not is_list(items):
        return None
    fragments = list(filter(is_object, items))
    return [_unwrapped(item, kind.inner) for item in fragments] if kind.inner else fragments


def kind_in(kind: BlockKind, fragments: list[dict[str, Any]]) -> BlockKind:
    """The kind of the fragments in the field of a kind: `reasoning_details` may have Anthropic's blocks, or Kimi's."""
    first = fragments[0] if fragments and kind is REASONING_DETAILS else {}
    type_ = first.get("type")
    if type_ in _KIMI_TYPES and type_ in first:
        return KIMI_DETAILS
    is_anthropic = type_ == "redacted_thinking" or (type_ == "thinking" and "thinking" in first)
    return THINKING_DETAILS if is_anthropic else kind


def reasoning_of(kind: BlockKind, fragments: list[dict[str, Any]]) -> str:
    """The reasoning in fragments of blocks: the texts under the first key that has any."""
    for key in kind.reasoning:
        texts = [text for fragment in fragments if (text := fragment.get(key)) and isinstance(text, str)]
        if texts:
            return "".join(texts)
    return ""


def content_block(block: dict[str, Any]) -> dict[str, Any]:
    """One of Portkey's `content_blocks` as a whole message has it: with its type, which a stream leaves out."""
    types = (("thinking", "thinking"), ("text", "text"), ("data", "redacted_thinking"))
    type_ = block.get("type") or next((name for key, name in types if key in block), None)
    rest = {key: value for key, value in block.items() if key not in ("index", "type")}
    return rest if type_ is None else {"type": type_, **rest}


def returned_fields(fields: Fields) -> dict[str, Any]:
    """What a provider needs back on the next turn beside the content and the calls, as copies."""
    names = [*(kind.name for kind in BLOCK_KINDS), "extra_content", REASONING_ITEMS]
    found = {name: fields[name] for name in names if is_container(fields.get(name))}
    found |= {name: fields.get(name) for name in _STATES}
    if is_list(blocks := found.get(CONTENT_BLOCKS.name)):
        # Anthropic refuses a text block that is empty.
        found[CONTENT_BLOCKS.name] = [
            block for block in filter(is_object, blocks) if block.get("type") != "text" or block.get("text")
        ]
    encrypted = {name: fields[name] for name in (*ENCRYPTED_REASONING, _REASONING_ID) if fields.get(name)}
    extra = fields.get("extra_content")
    anthropic = extra.get("anthropic") if is_object(extra) else None  # any-llm's, with the signature of the text
    if encrypted or (is_object(anthropic) and anthropic.get("signature")):
        # The text goes back under the name that it came with; `reasoning` always has it.
        texts = filter(fields.get, ("reasoning_text", "cot_summary", "reasoning_content", "reasoning"))
        found |= encrypted | {name: fields[name] for name in islice(texts, 1)}
    provider = fields.get(PROVIDER_FIELDS)
    if is_object(provider):
        found[PROVIDER_FIELDS] = {name: provider[name] for name in _RETURNED_PROVIDER_FIELDS if provider.get(name)}
    found |= _kimi_fields(fields)
    if fields.get(ENCRYPTED_FLAG) and _ENCRYPTED_MARK in (text := fields.get("reasoning_content") or ""):
        found["reasoning_content"] = text
    returned: dict[str, Any] = copied({name: value for name, value in found.items() if value})
    return returned


def _kimi_fields(fields: Fields) -> dict[str, Any]:
    """Kimi's blocks of reasoning without their index, which it refuses in a request, and the text; empty if none came.

    The summary in the blocks is the text only if no other came.
    """
    blocks = objects_in(fields.get(REASONING_DETAILS.name))
    if kind_in(REASONING_DETAILS, blocks) is not KIMI_DETAILS:
        return {}
    sent = [{key: value for key, value in block.items() if key != "index"} for block in blocks]
    text = fields.get("reasoning_content") or fields.get("reasoning")
    return {REASONING_DETAILS.name: sent, "reasoning_content": text}


def read_part(part: Any) -> tuple[str, str]:
    """What an item of a content list is, and its text: a "text", a "reasoning", or an "other" part without a text."""
    if isinstance(part, str):
        return "text", part
    if not is_object(part):
        return "other", ""
    kind, text = part.get("type"), part.get("text")
    if kind in _TEXT_PARTS or (kind in _NO_TYPE and isinstance(text, str)):
        return "text", text if isinstance(text, str) else ""
    if kind not in _REASONING_PARTS:
        return "other", ""
    return "reasoning", next(filter(None, ("".join(_texts_in(part.get(name))) for name in PART_TEXTS)), "")


def is_image(part: dict[str, Any]) -> bool:
    """Whether a part of a content list is an image."""
    return part.get("type") in _IMAGE_PARTS


def is_wrong_part(part: Any) -> bool:
    """Whether an item of a content list is neither a text nor an object, or has its text in another type."""
    if not is_object(part):
        return not isinstance(part, str)
    if part.get("type") in _REASONING_PARTS:
        return not all(isinstance(part.get(name), (str, list, NoneType)) for name in PART_TEXTS)
    return part.get("type") in (*_TEXT_PARTS, *_NO_TYPE) and not isinstance(part.get("text"), str | None)


def has_more_than_text(part: dict[str, Any]) -> bool:
    """Whether a text part of a content list has more values than its text, except its place."""
    return not isinstance(part.get("text"), str | None) or says_something(part, ("type", "text", "index"))


def _texts_in(value: Any) -> Iterator[str]:
    """The texts of a string, or of the items of a list, which have theirs as `text`."""
    if isinstance(value, str):
        yield value
    for item in value if is_list(value) else ():
        text = item.get("text") if is_object(item) else item
        if isinstance(text, str):
            yield text


def _unwrapped(fragment: dict[str, Any], inner: str) -> dict[str, Any]:
    own = fragment.get(inner)
    return {**{key: value for key, value in fragment.items() if key != inner}, **own} if is_object(own) else fragment


def _unsigned_text(kind: BlockKind, value: Any) -> str:
    fragments = fragments_of(kind, value) or []
    kind = kind_in(kind, fragments)
    return reasoning_of(kind, [one for one in fragments if not (kind.is_sequence and one.get("signature"))])
