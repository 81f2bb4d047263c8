"""Which tool call does a fragment belong to? Six rules, per choice, in one place.

Providers identify calls by index, by id, by both, by neither, or by an id that is new on every fragment. An index
is a key, never a position; empty ids and names count as absent. A call is complete only when the stream says so,
never because its arguments already parse.
"""

from typing import Any

from chunkfold.anomalies import (
    ARGUMENTS_PLACEHOLDER,
    CALL_ID_FRESH,
    CALL_ID_MADE_UP,
    CALL_ID_REUSED,
    CALL_INDEX_MISSING,
    CALL_INDEX_REUSED,
    CALL_NAME_IN_PIECES,
    CALL_NAME_LATE,
    CALL_NAME_REPEATED,
    EMPTY_FOR_ABSENT,
    AnomalyLog,
)
from chunkfold.errors import excerpt
from chunkfold.json_values import copied
from chunkfold.merging import keep_unknown
from chunkfold.models import (
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageToolCall,
    ChoiceDeltaToolCall,
)
from chunkfold.surrogates import well_formed
from chunkfold.text_buffer import TextBuffer


class ToolCall:
    """One call while it is being assembled.

    Attributes:
        id: The first id that was sent for it.
        index: The first index that was bound to it.
        place: Its place among the calls of its choice, by first appearance.
        arguments: Its arguments, or its input, joined from the pieces.
    """

    __slots__ = (
        *("_empty_object", "_may_be_placeholder", "_name", "arguments", "extra", "id", "index", "is_custom"),
        *("part_extra", "place", "type"),
    )

    def __init__(self, index: int | None, place: int) -> None:
        self.id: str | None = None
        self.index = index
        self.place = place
        self._name = TextBuffer()
        self.type: str | None = None
        self.is_custom = False
        self.arguments = TextBuffer()
        self.extra: dict[str, Any] = {}
        self.part_extra: dict[str, Any] = {}
        self._empty_object = False
        self._may_be_placeholder = True

    @property
    def name(self) -> str:
        """Its name so far."""
        return self._name.getvalue()

    @property
    def has_name(self) -> bool:
        """Whether any of its name came."""
        return self._name.tell() > 0

    @property
    def has_arguments(self) -> bool:
        """Whether any argument text came."""
        return self.arguments.tell() > 0

    def compact(self) -> None:
        """Join the pieces of its texts."""
        self._name.compact()
        self.arguments.compact()

    def add(self, fragment: ChoiceDeltaToolCall, log: AnomalyLog) -> int:
        """Fold a fragment in; return how many characters of output it brought."""
        # By the dict, not by attribute: a value of a wrong type is kept raw beside the fields, not among them.
        fields = fragment.__dict__
        if self.id is None:
            self.id = fields.get("id") or None
        if self.type is None:
            self.type = fields.get("type") or None
        keep_unknown(self.extra, fragment.__pydantic_extra__)
        size = 0
        function, custom = fields.get("function"), fields.get("custom")
        if function is not None:
            size += self._take(function.__dict__.get("name"), function.__dict__.get("arguments"), log)
            extra = function.__pydantic_extra__
            if extra:
                self._empty_object |= extra.get("arguments") in ({}, [])
                keep_unknown(self.part_extra, {key: value for key, value in extra.items() if key != "arguments"})
        if custom is not None:
            self.is_custom = True
            size += self._take(custom.__dict__.get("name"), custom.__dict__.get("input"), log)
            keep_unknown(self.part_extra, custom.__pydantic_extra__)
        return size

    def grow(self, text: str, log: AnomalyLog) -> int:
        """Append to the arguments; return how many characters that are."""
        if self._may_be_placeholder:
            known = self.arguments.getvalue()
            if _has_placeholder(known + text):
                log.note(ARGUMENTS_PLACEHOLDER, excerpt(self.name))
            self._may_be_placeholder = len(known) + len(text) <= len("{}")
        return self.arguments.write(text)

    def _take(self, name: str | None, text: str | None, log: AnomalyLog) -> int:
        size = self._take_name(name, log) if name else 0
        return size + self.grow(text, log) if text else size

    def _take_name(self, name: str, log: AnomalyLog) -> int:
        """First; a repeat; a longer one that starts with it; the next piece; or too late."""
        before = self._name.tell()
        # A name that comes in many short pieces stays linear: the whole is only looked at where it matters.
        known = self.name if len(name) >= before else None
        if name == known:
            log.note(CALL_NAME_REPEATED, excerpt(name))
        elif before and self.has_arguments and (known is None or not name.startswith(known)):
            log.note(CALL_NAME_LATE, excerpt(name))
        else:
            if before:
                log.note(CALL_NAME_IN_PIECES, excerpt(name))
            self._name.write(name if known is None or not name.startswith(known) else name[before:])
        return self._name.tell() - before

    def snapshot(self) -> ChatCompletionMessageToolCall:
        """The call so far."""
        text = well_formed(self.arguments.getvalue()) or ("{}" if self._empty_object else "")
        name = well_formed(self.name) or None
        fields = {**copied(self.extra), "id": self.id} if self.extra else {"id": self.id}
        if self.is_custom:
            fields |= {"type": self.type or "custom", "custom": {**self.part_extra, "name": name, "input": text}}
            return ChatCompletionMessageCustomToolCall.validate_leniently(fields)[0]
        fields |= {"type": self.type or "function", "function": {**self.part_extra, "name": name, "arguments": text}}
        return ChatCompletionMessageFunctionToolCall.validate_leniently(fields)[0]


def _mere_arguments(fragment: ChoiceDeltaToolCall) -> str:
    """The text of a fragment that brings argument text and, beside an index, nothing else; "" if it is any other."""
    fields = fragment.__dict__
    function = fields.get("function")
    if function is None or fragment.__pydantic_extra__ or function.__pydantic_extra__:
        return ""
    if fields.get("id") or fields.get("type") or fields.get("custom") is not None:
        return ""
    fields = function.__dict__
    return "" if fields.get("name") is not None else fields.get("arguments") or ""


def _has_placeholder(arguments: str) -> bool:
    return arguments.startswith("{}") and arguments[2:].lstrip().startswith("{")


class ToolCalls:
    """The calls of one choice.

    Attributes:
        calls: In the order of their first appearance.
        last: The one touched last.
    """

    def __init__(self, log: AnomalyLog) -> None:
        self.calls: list[ToolCall] = []
        self.last: ToolCall | None = None
        self._log = log
        self._by_id: dict[str, ToolCall] = {}
        self._by_index: dict[int, ToolCall] = {}

    def __bool__(self) -> bool:
        """Whether there is any call."""
        return bool(self.calls)

    def add(self, fragment: ChoiceDeltaToolCall) -> int:
        """Fold a fragment into the call it belongs to; return how many characters of output it brought."""
        fields = fragment.__dict__
        index, id_ = fields.get("index"), fields.get("id")
        known = self._by_index.get(index) if index is not None else None
        if known is not None and id_ is None and (text := _mere_arguments(fragment)):
            self.last = known
            return known.grow(text, self._log)
        function = fields.get("function") or fields.get("custom")
        name = function.__dict__.get("name") if function is not None else None
        if id_ == "" or name == "":
            self._log.note(EMPTY_FOR_ABSENT, "a tool call's id or name")
        if index is None:
            self._log.note(CALL_INDEX_MISSING, excerpt(name or id_ or ""))
        if id_:
            call = self._by_known_id(id_, index, name) if id_ in self._by_id else self._by_new_id(id_, index, name)
            self._by_id[id_] = call
        elif index is not None:
            call = self._by_index_alone(index, name)
        else:
            call = self._by_nothing(name)
        if index is not None:
            self._by_index[index] = call
            if call.index is None:
                call.index = index
        self.last = call
        return call.add(fragment, self._log)

    def snapshot(self) -> list[ChatCompletionMessageToolCall]:
        """All calls so far."""
        return [call.snapshot() for call in self.calls]

    def finish(self) -> None:
        """The stream ended: a call that never got an id gets one, distinct from those that were sent."""
        for call in self.calls:
            if call.id is None:
                call.id = self.made_up_id(call)
                self._by_id[call.id] = call
                self._log.note(CALL_ID_MADE_UP, f"{excerpt(call.name)}: {call.id}")

    def made_up_id(self, call: ToolCall) -> str:
        """The id for a call that was sent without one, distinct from those that were sent so far."""
        made_up = f"call_{call.place}"
        while made_up in self._by_id:
            made_up += "_"
        return made_up

    def _new(self, index: int | None) -> ToolCall:
        call = ToolCall(index, len(self.calls))
        self.calls.append(call)
        return call

    def _by_known_id(self, id_: str, index: int | None, name: str | None) -> ToolCall:
        """Rule 1: that call; but with a name and an index other than its own, a new one."""
        call = self._by_id[id_]
        at_index = None if index is None else self._by_index.get(index)
        if at_index is not None and at_index.id == id_:
            return at_index
        if name and index is not None and call.index is not None and index != call.index:
            self._log.note(CALL_ID_REUSED, f"id {excerpt(id_)}, index {index}")
            return self._new(index)
        return call

    def _by_new_id(self, id_: str, index: int | None, name: str | None) -> ToolCall:
        if index is None:
            # Rule 2, without an index: a new call if it has a name or is the first, else a continuation.
            if name or self.last is None:
                return self._new(None)
            self._note_fresh_id(self.last, id_)
            return self.last
        call = self._by_index.get(index)
        if call is None:
            return self._new(index)  # rule 2
        # Rule 3: a continuation without a name, or of a call that has no id yet and no other name.
        if not name or (call.id is None and (not call.has_name or name.startswith(call.name))):
            self._note_fresh_id(call, id_)
            return call
        self._log.note(CALL_INDEX_REUSED, f"index {index}, id {excerpt(id_)}")
        return self._new(index)

    def _by_index_alone(self, index: int, name: str | None) -> ToolCall:
        call = self._by_index.get(index)
        if call is None:
            return self._new(index)  # rule 5
        # Rule 4: the call bound to it; but another name after name and arguments starts a new one.
        if name and call.has_name and call.has_arguments and not name.startswith(call.name):
            self._log.note(CALL_INDEX_REUSED, f"index {index}, name {excerpt(name)}")
            return self._new(index)
        return call

    def _by_nothing(self, name: str | None) -> ToolCall:
        """Rule 6: the call touched last; but a name after name and arguments starts a new one."""
        call = self.last
        if call is None or (name and call.has_name and call.has_arguments):
            return self._new(None)
        return call

    def _note_fresh_id(self, call: ToolCall, id_: str) -> None:
        if call.id is not None:
            self._log.note(CALL_ID_FRESH, f"id {excerpt(id_)} after {excerpt(call.id)}")
