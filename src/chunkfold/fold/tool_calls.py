"""Fold the fragments of a choice's tool calls, and decide which call each belongs to, by the rules in docs/folding.md.

Providers identify calls by index, by id, by both, by neither, or by an id that is new on every fragment. An index is a
key, never a position; empty ids and names count as absent. Code that changes chunks before they are folded uses
`route` alone.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from chunkfold import anomalies
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.fold.footprint import Kept
from chunkfold.fold.tool_call import ToolCall, begins_object
from chunkfold.models.chunk import ChoiceDeltaToolCall
from chunkfold.models.content import fields_of
from chunkfold.models.tool_calls import is_server_side


class ToolCalls:
    """The calls of one choice. If only `route` is used, they need no log and no head."""

    def __init__(self, choice: int, log: AnomalyLog | None = None, head: Mapping[str, Any] | None = None) -> None:
        self.calls: list[ToolCall] = []  # in the order of their first appearance
        self.last: ToolCall | None = None  # the call that the last fragment belongs to
        self.client_side = 0  # how many of them are for the client to run
        self._textless = 0  # calls of which no arguments came
        self._log = AnomalyLog() if log is None else log
        self._choice = choice
        self._head: Mapping[str, Any] = {} if head is None else head  # the id and all else that every chunk repeats
        self._by_id: dict[str, ToolCall] = {}
        self._by_index: dict[int | None, ToolCall] = {}  # None is never in it
        self._abreast: list[ToolCall] = []  # those that began in one delta, none with whole arguments

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((), (self._by_id, self._by_index), settled=self.calls)

    def in_places(self, fragments: list[ChoiceDeltaToolCall]) -> Iterator[ChoiceDeltaToolCall]:
        """The fragments of a delta; route each before you take the next one.

        Rule 6: if the latest calls began side by side, as many fragments without ids and indexes continue one each.
        """
        known, abreast = len(self.calls), self._abreast
        are_latest = len(abreast) == len(fragments) and abreast[-1] is self.calls[-1]
        by_place = are_latest and all(map(_is_anonymous, fragments))
        for place, fragment in enumerate(fragments):
            if by_place:
                self.last = abreast[place]
            yield fragment
        begun = self.calls[known:]
        if len(begun) > 1 and not any(map(_may_be_whole, fragments)):
            self._abreast = begun

    def route(self, fragment: ChoiceDeltaToolCall) -> tuple[ToolCall | None, int]:
        """The call that a fragment belongs to, and how many characters the fragment added to its name.

        There is none if the fragment belongs to no call that is known, and has nothing in it that could begin one.
        """
        fields = fragment.__dict__
        index, id_ = fields.get("index"), fields.get("id")
        if id_ == "null":  # Mistral sends the word in further fragments (CF203)
            id_ = ""
        function, custom = fields.get("function"), fields.get("custom")
        texts: dict[str, Any] = {} if function is None else function.__dict__
        if custom is not None:
            texts = {**custom.__dict__, **{key: value for key, value in texts.items() if value}}
        name, text = texts.get("name"), texts.get("arguments") or texts.get("input") or ""
        has_text = bool(text)
        at_index = self._by_index.get(index)
        if name == "null" and self._null_continues(at_index, index, id_, has_text=has_text):
            name = ""
        known = self.last if index is None else at_index
        if known and name and id_ and id_ not in self._by_id and known.goes_on(name, text):  # rules 2 and 3
            self._log.note(anomalies.CALL_NAME_REPEATED, "{}", name)
            name = None
        if not (known or id_ or name or has_text) and _is_empty(fragment):
            self._log.note(anomalies.EMPTY_FOR_ABSENT, "a tool call")
            return None, 0
        is_free = at_index is None or at_index.left_index == index
        if is_free and index is not None and has_text and not (id_ or name):
            at_index = self._continued_at_new_index(index, at_index, text)
        call, grown = self._bind(at_index, index, id_, name)
        if call.type is None and (type_ := fields.get("type")):
            call.type = type_
            self._count_client_side(call)
        self.last = call
        call.measured = 0
        if function is not None and function.__pydantic_extra__:
            # It counts if no other arguments come (CF310).
            call.has_empty_object |= function.__pydantic_extra__.get("arguments") in ({}, [])
        if has_text and not call.has_text:
            self._textless -= 1
            call.has_text = True
        return call, grown

    def bind_id(self, call: ToolCall, id_: str) -> None:
        """From now on the id identifies this call; it becomes the call's `id` if that has none yet."""
        self._by_id[id_] = call
        if call.id is None:
            call.id, call.measured = id_, 0
            self._count_client_side(call)

    def without_texts(self) -> "ToolCalls":
        """An independent copy without arguments, for routing; it notes nothing."""
        other = ToolCalls(self._choice)
        other._textless = self._textless
        other.calls = [call.without_text() for call in self.calls]
        other.last = None if self.last is None else other.calls[self.last.place]
        other._by_id = {id_: other.calls[call.place] for id_, call in self._by_id.items()}
        other._by_index = {index: other.calls[call.place] for index, call in self._by_index.items()}
        other._abreast = [other.calls[call.place] for call in self._abreast]
        return other

    def extend(self, index: int, text: str) -> ToolCall:
        """Fold a fragment that has nothing but its index and a text; return the call at this index, which has some."""
        call = self._by_index[index]
        call.measured = 0
        call.extend(text, self._log)
        return call

    def finish(self) -> None:
        """The stream ended: a call that never got an id gets one, distinct from those that were sent."""
        for call in self.calls:
            call.note_arguments(self._log)
            is_for_client = not is_server_side(call.id, call.type, has_name=True) and (call.index or 0) >= 0
            if is_for_client and not call.has_name:
                self._log.note(anomalies.CALL_NAME_MISSING, "{}", call.id or "")
            if call.id is None:
                self.bind_id(call, self.made_up_id(call))
                self._log.note(anomalies.CALL_ID_MADE_UP, f"{{}}: {call.id}", call.name)  # ours, so it is not quoted

    def made_up_id(self, call: ToolCall) -> str:
        """The id for a call that was sent without one, distinct from those that were sent so far.

        It has the call's position and a hash of all else that distinguishes the calls of a conversation, so that no two
        calls share an id, and of nothing else, so that the same bytes always give the same id.
        """
        id_, created, model = map(self._head.get, ("id", "created", "model"))
        stream = (id_ or "", f"{created or 0:x}", model or "", f"{self._choice:x}")
        source = "\0".join((*stream, call.name, call.arguments.getvalue()))
        digest = blake2b(source.encode("utf-8", "surrogatepass"), digest_size=12)
        made_up = f"call_{call.place}_{digest.hexdigest()}"
        while made_up in self._by_id:
            made_up += "_"
        return made_up

    def _null_continues(self, at_index: ToolCall | None, index: int | None, id_: str | None, *, has_text: bool) -> bool:
        """Whether a fragment named `null` continues a call: some relays send the word with each further fragment."""
        call = at_index if index is not None else self._by_id.get(id_ or "", self.last)
        return call is not None and not call.is_called("null") and (call.has_text or has_text)

    def _bind(
        self, at_index: ToolCall | None, index: int | None, id_: str | None, name: str | None
    ) -> tuple[ToolCall, int]:
        """Find the call, or begin one, and set its index, name and id."""
        if id_ == "" or name == "":
            self._log.note(anomalies.EMPTY_FOR_ABSENT, "a tool call's id or name")
        if index is None:
            self._log.note(anomalies.CALL_INDEX_MISSING, "{}", name or id_ or "")
        call = self._continued(at_index, index, id_, name)
        if call is None:
            call = ToolCall(len(self.calls), is_displaced=at_index is not None)
            self.calls.append(call)
            self._textless += 1
        if index is not None:
            self._by_index[index] = call
            if call.index is None:
                call.index = index
        grown = call.take_name(name, self._log) if name else 0
        if id_:
            self.bind_id(call, id_)
        if grown:
            self._count_client_side(call)
        return call, grown

    def _count_client_side(self, call: ToolCall) -> None:
        """The id, the type or the name is new: count the call among those for the client to run, or no longer."""
        was, call.is_server_side = call.is_server_side, is_server_side(call.id, call.type, has_name=call.has_name)
        self.client_side += was - call.is_server_side

    def _continued(
        self, at_index: ToolCall | None, index: int | None, id_: str | None, name: str | None
    ) -> ToolCall | None:
        """The call that a fragment continues; None if it begins a new one."""
        if id_:
            known = self._by_id.get(id_)
            if known is None:
                return self._by_new_id(at_index, index, id_, name)
            # Rule 1: that call; but with a name and an index other than its own, a new one.
            if at_index is not None and at_index.id == id_:
                return at_index
            if name and index is not None and known.index is not None and index != known.index:
                self._log.note(anomalies.CALL_ID_REUSED, "id {}, index {}", id_, index)
                return None
            return known
        if index is None:
            # Rule 6: the call touched last; but a name after name and arguments starts a new one.
            last = self.last
            is_new = last is not None and name and last.has_name and (last.has_text or _is_another(last, name))
            return None if is_new else last
        # Rule 4: the call bound to the index; but another name after name and arguments starts a new one.
        if at_index is not None and name and _is_another(at_index, name):
            self._log.note(anomalies.CALL_INDEX_REUSED, "index {}, name {}", index, name)
            return None
        return at_index  # None is rule 5

    def _continued_at_new_index(self, index: int, left: ToolCall | None, text: str) -> ToolCall | None:
        """Rule 5, with nothing but text at a free index: the call that continues there; None if there is none.

        It is the call at that place, if it began without an index or at one that was taken: some relays give the first
        fragment of each call the index 0, and the next ones the right index. Else it is the last one, unless another
        one lacks its text too: SGLang's first fragments have another index, and Nebius changes it in the middle. A call
        whose text is whole is not continued, nor one that has some by what begins another object, nor any below 0,
        where nothing is for the client (Portkey).

        `left` is the call that began at this index, if its text came at another one. It is continued while its text is
        not whole; then the next call's text may come here (LibreChat). If no other call continues, `left` does.
        """
        if left is not None:
            left.left_index = None
        if index < 0 or (left is not None and left.is_open()):
            return left
        calls = [call for call in self.calls[index : index + 1] if call.is_displaced or call.index is None]
        last = self.last
        if last is not None and self._textless == (not last.has_text):
            calls.append(last)
        is_own = begins_object(text)
        call = next((one for one in calls if one.is_open() and not (is_own and one.has_begun_object())), None)
        if call is None:
            return left
        self._log.note(anomalies.CALL_INDEX_CHANGED, "index {} after {}", index, call.index)
        if self._by_index.get(call.index) is call:
            call.left_index = call.index
        return call

    def _by_new_id(self, at_index: ToolCall | None, index: int | None, id_: str, name: str | None) -> ToolCall | None:
        """Rules 2 and 3: a new call, unless the fragment has no name or belongs to a call without an id."""
        if at_index is None:  # rule 2: without an index and a name it continues the last call, if any
            continued = self.last if index is None and not name else None
        elif not name or (at_index.id is None and not at_index.is_called_otherwise(name)):
            continued = at_index  # rule 3: it has no name, or the call has no id yet and no other name
        else:
            self._log.note(anomalies.CALL_INDEX_REUSED, "index {}, id {}", index, id_)
            continued = None
        if continued is not None and continued.id is not None:
            self._log.note(anomalies.CALL_ID_FRESH, "id {} after {}", id_, continued.id)
        return continued


def _is_empty(fragment: ChoiceDeltaToolCall) -> bool:
    """Whether a fragment has nothing but an index and the usual type."""
    fields = {**fields_of(fragment), "index": None}
    function = fields.pop("function", None)
    values = [*fields.values(), *(() if function is None else fields_of(function).values())]
    return all(value in (None, "", "function") for value in values)


def _is_anonymous(fragment: ChoiceDeltaToolCall) -> bool:
    fields = fragment.__dict__
    return fields.get("index") is None and not fields.get("id")


def _may_be_whole(fragment: ChoiceDeltaToolCall) -> bool:
    """Whether a fragment may have all arguments of its call: any input of a custom tool, or what ends like an object.

    Parsing them would take seconds if they are large.
    """
    function, custom = map(fragment.__dict__.get, ("function", "custom"))
    text = "" if function is None else function.__dict__.get("arguments") or ""
    return text.rstrip().endswith("}") or bool(custom is not None and custom.__dict__.get("input"))


def _is_another(call: ToolCall, name: str) -> bool:
    """Whether a name after a call's arguments is that of another call."""
    return call.has_arguments and call.is_called_otherwise(name)
