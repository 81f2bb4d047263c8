"""One tool call, or the legacy function call, while it is being assembled.

Only the stream completes a call, never the fact that its arguments already parse.
"""

import json
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.fold.footprint import Kept
from chunkfold.fold.merging import keep_unknown, merge_provider_fields
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.parsing import is_json
from chunkfold.json_text.surrogates import well_formed
from chunkfold.json_text.values import new_dict
from chunkfold.models.base import validate_leniently, with_unknown
from chunkfold.models.chunk import ChoiceDeltaFunctionCall, ChoiceDeltaToolCall
from chunkfold.models.content import PROVIDER_FIELDS
from chunkfold.models.tool_calls import (
    NEXT_OBJECT,
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    FunctionCall,
    object_in_string,
    without_placeholder,
)

_LONGEST_PLACEHOLDER: Final = 100  # characters, with the blanks after it
_LONGEST_LOOK: Final = 2**20  # characters
_MOST_JUDGED: Final = 8  # times
_decoder: Final = json.JSONDecoder()


@dataclass(slots=True, eq=False)
class ToolCall:
    """What is known of one call."""

    place: int  # among the calls of its choice, by first appearance
    id: str | None = None  # the first that was sent for it, as are index and type
    index: int | None = None
    type: str | None = None
    arguments: TextBuffer = field(default_factory=TextBuffer)  # or its input
    has_name: bool = False
    has_text: bool = False  # whether any of its arguments, or of its input, came
    has_empty_object: bool = False  # whether an empty object, not a text, came as its arguments
    is_displaced: bool = False  # whether it began at an index that another call had
    left_index: int | None = None  # the index it began at, once its arguments came at another one
    is_custom: bool = False
    repeats_name: bool = False  # whether its name comes again with each new id
    is_late: bool = False  # whether any of it came after its choice's finish reason
    is_server_side: bool = True  # whether there is nothing for the client to run, see `is_server_side`
    extra: dict[str, Any] = field(default_factory=new_dict)
    part_extra: dict[str, Any] = field(default_factory=new_dict)  # of its function, or its custom tool
    _name: TextBuffer = field(default_factory=TextBuffer)
    measured: int = 0  # see `footprint`
    _start: str | None = ""  # its arguments without leading blanks; None once they cannot be only a placeholder
    _judged: int = 0  # how many times

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        extra = dict(self.extra)
        merged = extra.pop(PROVIDER_FIELDS, None)
        known = (self.id, self.index, self._name, self.type, self.arguments, merged)
        return Kept(known, replaced=(extra, self.part_extra))

    @property
    def name(self) -> str:
        """Its name so far."""
        return self._name.getvalue()

    def without_text(self) -> "ToolCall":
        """An independent copy without the arguments, for routing."""
        return replace(self, _name=copy(self._name), arguments=TextBuffer(), measured=0)

    def is_open(self) -> bool:
        """Whether the client is to run it, and its arguments are still missing or cut."""
        return not self.is_server_side and (not self.has_text or self._is_whole() is False)

    def _is_whole(self) -> bool | None:
        """Whether its arguments are whole; None if that is not known.

        They are judged a few times only, and up to a size, so that the cost stays linear. A copy for routing has none.
        """
        text = self.arguments.getvalue()
        if self.is_custom or not 0 < len(text) <= _LONGEST_LOOK or self._judged == _MOST_JUDGED:
            return None
        self._judged += 1
        return is_json(text)

    def goes_on(self, name: str, text: str) -> bool:
        """Whether a fragment with a new id continues this call, whose object is cut and whose name it repeats.

        TensorRT-LLM up to 1.1 and Ray Serve LLM up to 2.46 send the name and a new id with each fragment if the request
        names a tool. The first text that begins no object of its own shows it.
        """
        if not (self.has_text and self.is_called(name)):
            return False
        if text and not (self.repeats_name or begins_object(text)) and self.is_open():
            self.repeats_name = self.has_begun_object()
        may_be_next = begins_object(text) and self.arguments.getvalue().endswith("}")
        return self.repeats_name and not (may_be_next and self._is_whole())

    def has_begun_object(self) -> bool:
        """Whether its arguments so far begin an object."""
        return begins_object(self.arguments.getvalue())

    @property
    def has_arguments(self) -> bool:
        """Whether any arguments came, perhaps as an empty object."""
        return self.has_text or self.has_empty_object

    def is_called(self, name: str) -> bool:
        """Whether this is its whole name so far."""
        return self._name.equals(name)

    def is_called_otherwise(self, name: str) -> bool:
        """Whether it has a name, and this is another one; a longer one is, too, once any arguments came."""
        if not self.has_name or self.is_called(name):
            return False
        return self.has_arguments or not self._is_extended_by(name)

    def _is_extended_by(self, name: str) -> bool:
        return len(name) > self._name.tell() and name.startswith(self.name)

    def take_name(self, name: str, log: AnomalyLog) -> int:
        """Fold in a fragment's name: first, a repeat, a longer one, a piece, or too late; return how much it grew."""
        if not self.has_name:
            self.has_name = True
            return self._name.write(name)
        if self.is_called(name):
            log.note(anomalies.CALL_NAME_REPEATED, "{}", name)
            return 0
        if self.has_text:
            log.note(anomalies.CALL_NAME_LATE, "{}", name)
            return 0
        log.note(anomalies.CALL_NAME_IN_PIECES, "{}", name)
        # Also after an empty object: it is a placeholder, as the fragment's id is that of this call.
        piece = name[self._name.tell() :] if self._is_extended_by(name) else name
        return self._name.write(piece)

    def add(self, fragment: ChoiceDeltaToolCall, log: AnomalyLog) -> str:
        """Fold a fragment in, all but its id, index, type and name; return what it added to the arguments."""
        fields, unknown = fragment.__dict__, fragment.__pydantic_extra__
        if unknown:
            merged = merge_provider_fields(self.extra, unknown.get(PROVIDER_FIELDS))  # a signature must not get lost
            keep_unknown(self.extra, {**unknown, PROVIDER_FIELDS: None} if merged else unknown)
        text = ""
        function, custom = fields.get("function"), fields.get("custom")
        if function is not None:
            text = function.__dict__.get("arguments") or ""
            if function.__pydantic_extra__:
                keep_unknown(self.part_extra, function.__pydantic_extra__)
        if custom is not None:
            is_new = function is None and self.type is None and not self.has_name and not self.has_text
            self.is_custom |= is_new or self.type == "custom" or any(custom.__dict__.values())
            text += custom.__dict__.get("input") or ""
            keep_unknown(self.part_extra, custom.__pydantic_extra__)
        self.extend(text, log)
        return text

    def extend(self, text: str, log: AnomalyLog) -> None:
        """Append to the arguments."""
        if text and self._start is not None and not self.is_custom:
            start = (self._start + text).lstrip()
            if start.startswith("{}") and without_placeholder(start) != start:
                log.note(anomalies.ARGUMENTS_PLACEHOLDER, "{}", self.name)
            may_be_placeholder = len(start) <= _LONGEST_PLACEHOLDER and start.rstrip() in ("", "{", "{}")
            self._start = start if may_be_placeholder else None
        self.arguments.write(text)

    def note_arguments(self, log: AnomalyLog) -> None:
        """The stream ended: note arguments that are those of several calls, encoded twice, or the word `null`."""
        arguments = self.arguments.getvalue()
        if self.is_custom:
            return
        if arguments.strip() == "null":
            log.note(anomalies.EMPTY_FOR_ABSENT, "{}: a tool call's arguments are null", self.name)
        if object_in_string(arguments) is not None:
            log.note(anomalies.ARGUMENTS_OBJECT, "{}: an object in a string", self.name)
        if _has_several_objects(arguments):
            log.note(anomalies.ARGUMENTS_SEVERAL, "{}: {}", self.name, arguments)

    def snapshot(self) -> ChatCompletionMessageToolCall:
        """The call so far."""
        text = well_formed(self.arguments.getvalue()) or ("{}" if self.has_empty_object else "")
        known = {"name": well_formed(self.name) or None, "input" if self.is_custom else "arguments": text}
        part = with_unknown(self.part_extra, known)
        if not self.is_custom:
            fields = {"id": self.id, "type": self.type or "function", "function": part}
            return validate_leniently(ChatCompletionMessageFunctionToolCall, with_unknown(self.extra, fields))[0]
        if part.get("arguments") in ({}, []):
            del part["arguments"]  # of an empty function beside it
        type_ = "custom" if self.type == "function" else self.type or "custom"
        fields = {"id": self.id, "type": type_, "custom": part}
        return validate_leniently(ChatCompletionMessageCustomToolCall, with_unknown(self.extra, fields))[0]


class LegacyCall:
    """The legacy function call: its name is the first that was sent, its arguments append."""

    def __init__(self) -> None:
        self._name = ""
        self.arguments = TextBuffer()
        self._extra: dict[str, Any] = {}

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self._name, self.arguments), replaced=(self._extra,))

    def add(self, call: ChoiceDeltaFunctionCall) -> int:
        """Fold a fragment in; return how many characters of output it brought."""
        name, text = "" if self._name else call.__dict__.get("name") or "", call.__dict__.get("arguments") or ""
        self._name += name
        self.arguments.write(text)
        keep_unknown(self._extra, call.__pydantic_extra__)
        return len(text) + len(name)

    def snapshot(self) -> FunctionCall:
        """The call so far."""
        unknown, text = dict(self._extra), well_formed(self.arguments.getvalue())
        raw = unknown.pop("arguments", None)  # kept because it was not text; an empty list is PHP's empty object
        arguments = text or ("" if raw is None else json.dumps({} if raw == [] else raw))
        fields = with_unknown(unknown, {"name": self._name or None, "arguments": arguments})
        return validate_leniently(FunctionCall, fields)[0]


def begins_object(text: str) -> bool:
    """Whether a fragment's arguments begin an object."""
    return text.lstrip().startswith("{")


def _has_several_objects(arguments: str) -> bool:
    """Whether there is a whole JSON object, and another one starts after it; a placeholder does not count.

    It reads a bounded amount to save memory: if the first object is larger, the result is False.
    """
    if NEXT_OBJECT.search(arguments) is None:  # most arguments; they cost only this search
        return False
    text = without_placeholder(arguments)[:_LONGEST_LOOK]
    try:
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and text[end:].lstrip().startswith("{")
