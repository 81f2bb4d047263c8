"""Merge reasoning in blocks (`reasoning_details`, `thinking_blocks` and others), and the parts of content lists."""

from typing import Any, Final

from chunkfold.excerpts import printed
from chunkfold.fold.footprint import Kept
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.surrogates import well_formed
from chunkfold.json_text.values import copied, is_list, is_object
from chunkfold.models.content import CONTENT_ITEMS, CONTENT_PARTS, ENCRYPTED_DETAIL, BlockKind, read_part

_UNTYPED: Final = ""


class Blocks:
    """The fragments of one kind of block, merged into blocks by the rules of that kind.

    A fragment with an index belongs to the block with that index and its type, or to the last one with that index if it
    has no type; one without an index to the last block of its type, unless its id differs or it is a whole block. So a
    signature that arrives alone, even after the content began, is added to its block.
    """

    def __init__(self, kind: BlockKind) -> None:
        self.kind = kind
        self._blocks: list[_Block] = []
        self._by_index: dict[tuple[str, str], _Block] = {}
        self._last_of: dict[str, _Block] = {}
        self._current: _Block  # once a fragment came

    def kept(self) -> Kept:
        """What they keep; see `footprint`."""
        return Kept(([*self._last_of],), (self._by_index,), settled=self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, fragments: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Fold fragments in; return those that repeat nothing. They are not changed."""
        new: list[dict[str, Any]] = []
        for fragment in fragments:
            self._current = block = self._block_of(fragment)
            is_repeat = self.kind.is_sequence and block.is_repeated_by(fragment)
            if not (is_repeat or (self.kind.signed_repeats and fragment.get("signature"))):
                new.append(fragment)
            block.add(fragment, appends=not is_repeat)
        return new

    def add_whole(self, block: dict[str, Any]) -> None:
        """Add a block that nothing continues, and that continues none."""
        self.end_block()
        self._blocks.append(_Block(self.kind))
        self._blocks[-1].add(block, appends=True)

    def append_to_last(self, key: str, text: str) -> None:
        """Fold in a fragment that differs from the last one only in this text, which appends."""
        self._current.append(key, text)

    def end_block(self) -> None:
        """Let the next fragment without an index begin a block."""
        self._last_of.clear()

    def snapshot(self) -> list[dict[str, Any]]:
        """The blocks so far, in the order of their first appearance."""
        return [block.snapshot() for block in self._blocks]

    def _block_of(self, fragment: dict[str, Any]) -> "_Block":
        kind, type_, index = self.kind, printed(fragment.get("type") or _UNTYPED), fragment.get("index")
        key = (type_ if kind.has_types else _UNTYPED, printed(index))
        if index is None:
            block = self._last_of.get(type_)
            is_next = block is not None and block.is_followed_by(fragment)
        else:
            block = self._by_index.get(key)
            is_next = block is not None and self._is_next(block, fragment)
        if block is None or is_next:
            block = _Block(kind)
            self._blocks.append(block)
            if kind.is_sequence:
                self.end_block()
        if index is not None:
            self._by_index[key] = self._by_index[_UNTYPED, key[1]] = block
        self._last_of[type_] = block
        return block

    def _is_next(self, block: "_Block", fragment: dict[str, Any]) -> bool:
        """Whether a fragment with the index of a block begins another one.

        OpenRouter gives all blocks the index 0, and so did Bifrost, which now starts at 0 in each delta. Encrypted data
        of another id begins one, and so do another signature in place of the data, a text after encrypted data with an
        id, and a text after a signed one.
        """
        if fragment.get("data"):
            return block.has_other_id(fragment)
        signature = block.fields.get("signature")
        is_signed = bool(signature) and fragment.get("signature") != signature
        if is_signed and fragment.get("type") == ENCRYPTED_DETAIL:
            return bool(fragment.get("signature"))
        last = self._current.fields
        is_untyped = not fragment.get("type")
        is_after_data = (block is not self._current or is_untyped) and "data" in last and bool(last.get("id"))
        has_ended = (is_signed and block.has_text()) or (is_after_data and last.get("index") == fragment["index"])
        return has_ended and any(fragment.get(key) for key in self.kind.appended)


class _Block:
    """One block while it is assembled; texts are joined from buffers, so that many pieces stay linear."""

    __slots__ = ("_kind", "_lists", "_texts", "fields", "measured")

    def __init__(self, kind: BlockKind) -> None:
        self.fields: dict[str, Any] = {}
        self.measured = 0  # see `footprint`
        self._kind = kind
        self._texts: dict[str, TextBuffer] = {}
        self._lists: dict[str, Blocks] = {}  # parts inside a part

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self._texts, self._lists), replaced=(self.fields,))

    def is_repeated_by(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment with a signature repeats the whole text of the block (LiteLLM, musistudio/llms)."""
        is_signed = bool(fragment.get("signature"))
        return is_signed and any(self._equals(key, fragment.get(key)) for key in self._kind.appended)

    def has_text(self) -> bool:
        """Whether any of its texts came."""
        return any(text.tell() for text in self._texts.values())

    def has_other_id(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment has an id, and the block another one."""
        id_ = fragment.get("id")
        return bool(id_) and self.fields.get("id") not in (None, "", id_)

    def is_followed_by(self, fragment: dict[str, Any]) -> bool:
        """Whether a fragment of the same type, without an index, begins a block of its own."""
        if self.has_other_id(fragment) or not fragment.keys().isdisjoint(self._kind.whole):
            return True
        if not self._kind.is_sequence:
            return False
        if fragment.get("signature") and self.fields.get("signature") not in (None, "", fragment["signature"]):
            return not self.is_repeated_by(fragment)  # a block whose text is left out has nothing else
        if fragment.keys().isdisjoint((*self._kind.appended, "signature")):
            return True  # a value of its own, such as a redacted block or a reference
        if not (self.fields.get("signature") or self.fields.get("data")):
            return False
        return any(fragment.get(key) for key in self._kind.appended) and not self.is_repeated_by(fragment)

    def add(self, fragment: dict[str, Any], *, appends: bool) -> None:
        """Fold a fragment in, its texts only if they are to be appended."""
        self.measured = 0
        appended, lists = self._kind.appended, self._kind.lists
        for key, value in fragment.items():
            if key in appended and isinstance(value, str):
                if key in self._lists:
                    self._extend(key, [value] if value else [])
                elif appends:
                    self.append(key, value)
            elif key in lists and is_list(value):
                self._extend(key, value)
            elif value not in (None, "") or (key not in self.fields and value is None):
                self.fields[key] = value

    def snapshot(self) -> dict[str, Any]:
        """The block so far."""
        return {
            **copied(self.fields),
            **{key: well_formed(text.getvalue()) for key, text in self._texts.items()},
            **{key: items.snapshot() for key, items in self._lists.items()},
        }

    def append(self, key: str, value: str) -> None:
        """Append to one of the texts, which may be that of the last nested part."""
        self.measured = 0
        text = self._texts.get(key)
        if text is None:
            if key in self._lists:
                self._lists[key].append_to_last("text", value)
                return
            self.fields.setdefault(key, "")
            text = self._texts[key] = TextBuffer()
        text.write(value)

    def _extend(self, key: str, items: list[Any]) -> None:
        """Add nested parts; a bare string is a text part, and so is one that came before them instead of a list."""
        inner = self._lists.get(key)
        if inner is None:
            self.fields.setdefault(key, [])
            inner = self._lists[key] = Blocks(CONTENT_ITEMS)
            if (text := self._texts.pop(key, None)) is not None and text.tell():
                items = [text.getvalue(), *items]
        inner.add([item if is_object(item) else {"type": "text", "text": item} for item in items])

    def _equals(self, key: str, value: Any) -> bool:
        text = self._texts.get(key)
        return text is not None and isinstance(value, str) and value != "" and text.equals(value)


class ContentParts:
    """The parts of content lists that are more than a text, and the position of each in the text.

    Thinking and reasoning parts that follow each other without text in between are pieces of one part. A text that has
    more values, such as citations, is a part of its own.
    """

    def __init__(self) -> None:
        self.others = 0  # how many of them are neither text nor reasoning
        self.images: dict[int, dict[str, Any]] = {}  # among these, as sent, by their places
        self.blocks = Blocks(CONTENT_PARTS)
        self._starts: list[int] = []

    def kept(self) -> Kept:
        """What they keep; see `footprint`."""
        return Kept((self.blocks,), (self._starts, self.images))

    def add(self, part: dict[str, Any], start: int, *, may_continue: bool) -> None:
        """Fold in a part, or a piece of the last one, after that many characters of text."""
        if may_continue:
            if self._starts and start != self._starts[-1]:
                self.blocks.end_block()
            self.blocks.add([part])
        else:
            self.blocks.add_whole(part)
        if len(self.blocks) > len(self._starts):
            self._starts.append(start)

    def snapshot(self, text: str) -> list[dict[str, Any]]:
        """All parts so far, and between them the rest of the text as parts of type "text"."""
        parts: list[dict[str, Any]] = []
        end = 0
        for start, part in zip(self._starts, self.blocks.snapshot(), strict=True):
            parts += _text_part(text[end:start])
            parts.append(part)
            kind, own_text = read_part(part)
            end = start + (len(own_text) if kind == "text" else 0)
        return parts + _text_part(text[end:])


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
