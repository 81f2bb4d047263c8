"""Fold the fragments of a choice's tool calls; `call_router` decides which call each belongs to.

Only the stream completes a call, never the fact that its arguments already parse.
"""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from chunkfold.anomalies import ARGUMENTS_PLACEHOLDER, ARGUMENTS_SEVERAL, CALL_ID_MADE_UP, AnomalyLog
from chunkfold.excerpts import excerpt
from chunkfold.fold.call_router import CallIdentity, CallRouter
from chunkfold.fold.footprint import Kept
from chunkfold.fold.merging import keep_unknown
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.parsing import without_placeholder
from chunkfold.json_text.surrogates import well_formed
from chunkfold.models import (
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    ChoiceDeltaToolCall,
)
from chunkfold.models.base import validate_leniently, with_unknown

_NEXT_OBJECT: Final = re.compile(r"\}[ \t\n\r]*\{")
_LONGEST_LOOK: Final = 2**20  # characters
# The type of a call, its model, and the key of its text.
_Kind = tuple[str, type[ChatCompletionMessageToolCall], str]
_FUNCTION: Final[_Kind] = ("function", ChatCompletionMessageFunctionToolCall, "arguments")
_CUSTOM: Final[_Kind] = ("custom", ChatCompletionMessageCustomToolCall, "input")
_decoder: Final = json.JSONDecoder()


class ToolCall(CallIdentity):
    """One call while it is being assembled.

    Attributes:
        arguments: Its arguments, or its input, joined from the pieces.
    """

    __slots__ = ("_empty_object", "_may_be_placeholder", "arguments", "extra", "is_custom", "part_extra", "type")

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.type: str | None = None
        self.is_custom = False
        self.arguments = TextBuffer()
        self.extra: dict[str, Any] = {}
        self.part_extra: dict[str, Any] = {}
        self._empty_object = False
        self._may_be_placeholder = True

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((*super().kept().parts, self.type, self.arguments, self.extra, self.part_extra))

    def add(self, fragment: ChoiceDeltaToolCall, log: AnomalyLog) -> str:
        """Fold a fragment in, all but its id, index and name; return what it added to the arguments."""
        # By the dict, not by attribute: a value of a wrong type is kept raw beside the fields, not among them.
        fields, unknown = fragment.__dict__, fragment.__pydantic_extra__
        if self.type is None:
            self.type = fields.get("type") or None
        if unknown:
            keep_unknown(self.extra, unknown)
        text = ""
        function, custom = fields.get("function"), fields.get("custom")
        if function is not None:
            text = function.__dict__.get("arguments") or ""
            unknown = function.__pydantic_extra__
            if unknown:
                self._empty_object |= unknown.get("arguments") in ({}, [])  # CF310: it counts if no others come
                keep_unknown(self.part_extra, unknown)
        if custom is not None:
            is_new = function is None and self.type is None and not self.has_name and not self.has_text
            self.is_custom |= is_new or self.type == "custom" or any(custom.__dict__.values())
            text += custom.__dict__.get("input") or ""
            keep_unknown(self.part_extra, custom.__pydantic_extra__)
        self.extend(text, log)
        return text

    def extend(self, text: str, log: AnomalyLog) -> None:
        """Append to the arguments."""
        if text and self._may_be_placeholder:
            self._look_for_placeholder(text, log)
        self.arguments.write(text)

    def _look_for_placeholder(self, text: str, log: AnomalyLog) -> None:
        start = self.arguments.getvalue() + text
        if _has_placeholder(start):
            log.note(ARGUMENTS_PLACEHOLDER, excerpt(self.name))
        self._may_be_placeholder = len(start) <= len("{}")

    def note_several_objects(self, log: AnomalyLog) -> None:
        """The stream ended: note whether the arguments of one call are those of several."""
        if not self.is_custom and _has_several_objects(self.arguments.getvalue()):
            log.note(ARGUMENTS_SEVERAL, f"{excerpt(self.name)}: {excerpt(self.arguments.getvalue())}")

    def snapshot(self) -> ChatCompletionMessageToolCall:
        """The call so far."""
        text = well_formed(self.arguments.getvalue()) or ("{}" if self._empty_object else "")
        name = well_formed(self.name) or None
        kind, model, arguments = _CUSTOM if self.is_custom else _FUNCTION
        part = with_unknown(self.part_extra, {"name": name, arguments: text})
        if self.is_custom and part.get("arguments") in ({}, []):
            del part["arguments"]  # of an empty function beside it
        type_ = "custom" if self.is_custom and self.type == "function" else self.type or kind
        fields = with_unknown(self.extra, {"id": self.id, "type": type_, kind: part})
        return validate_leniently(model, fields)[0]


def _has_placeholder(arguments: str) -> bool:
    return arguments.startswith("{}") and arguments[2:].lstrip().startswith("{")


def _has_several_objects(arguments: str) -> bool:
    """Whether there is a whole JSON object, and another one starts after it; a placeholder does not count.

    It reads a bounded amount to save memory: if the first object is larger, the result is False.
    """
    if _NEXT_OBJECT.search(arguments) is None:  # most arguments; they cost only this search
        return False
    text = without_placeholder(arguments)[:_LONGEST_LOOK]
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and text[end:].lstrip().startswith("{")


class ToolCalls(CallRouter[ToolCall]):
    """The calls of one choice, with their arguments.

    Args:
        log: Where to note what was tolerated.
        choice: The choice's index.
        head: The fields that all chunks repeat, if they were sent: `id`, `created`, `model`.
    """

    def __init__(self, log: AnomalyLog, choice: int, head: Mapping[str, Any]) -> None:
        super().__init__(ToolCall, log)
        self._choice = choice
        self._head = head

    def add(self, fragment: ChoiceDeltaToolCall) -> tuple[ToolCall, int, str]:
        """Fold a fragment in.

        Returns the call it belongs to, by how many characters its name grew, and what was added to its arguments.
        """
        call, grown = self.route(fragment)
        return call, grown, call.add(fragment, self._log)

    def extend(self, index: int, text: str) -> ToolCall:
        """Fold a fragment that has nothing but its index and a text; return the call at this index."""
        call = self._by_index[index]
        call.has_text = call.has_text or bool(text)
        call.extend(text, self._log)
        return call

    def snapshot(self) -> list[ChatCompletionMessageToolCall]:
        """All calls so far."""
        return [call.snapshot() for call in self.calls]

    def finish(self) -> None:
        """The stream ended: a call that never got an id gets one, distinct from those that were sent."""
        for call in self.calls:
            call.note_several_objects(self._log)
            if call.id is None:
                self.bind_id(call, self.made_up_id(call))
                self._log.note(CALL_ID_MADE_UP, f"{excerpt(call.name)}: {call.id}")

    def made_up_id(self, call: ToolCall) -> str:
        """The id for a call that was sent without one, distinct from those that were sent so far.

        It is a hash of everything that distinguishes the calls of a conversation, so that no two calls share an id, and
        of nothing else, so that the same bytes always give the same id.
        """
        created = self._head.get("created") or 0
        source = (
            *(self._head.get("id") or "", f"{created:x}", self._head.get("model") or ""),
            *(f"{self._choice:x}", f"{call.place:x}", call.name, call.arguments.getvalue()),
        )
        digest = blake2b("\0".join(source).encode("utf-8", "surrogatepass"), digest_size=12)
        made_up = f"call_{digest.hexdigest()}"
        while made_up in self._by_id:
            made_up += "_"
        return made_up
