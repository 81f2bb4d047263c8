"""Decide which tool call a fragment belongs to, by six rules per choice.

Providers identify calls by index, by id, by both, by neither, or by an id that is new on every fragment. An index is a
key, never a position; empty ids and names count as absent. The fold uses the router, and so does code that changes
chunks before they are folded. The router does not see the text of arguments, only whether there was any.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from chunkfold.anomalies import (
    CALL_ID_FRESH,
    CALL_ID_REUSED,
    CALL_INDEX_MISSING,
    CALL_INDEX_REUSED,
    CALL_NAME_IN_PIECES,
    CALL_NAME_LATE,
    CALL_NAME_REPEATED,
    EMPTY_FOR_ABSENT,
    AnomalyLog,
)
from chunkfold.excerpts import excerpt
from chunkfold.fold.footprint import Kept
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.models import ChoiceDeltaToolCall
from chunkfold.models.outcome import is_server_side


class CallIdentity:
    """What is known of one call, without its arguments.

    Attributes:
        id: The first id that was sent for it.
        index: The first index that was bound to it.
        place: Its place among the calls of its choice, by first appearance.
        has_text: Whether any of its arguments, or of its input, came.
        is_server_side: Whether there is nothing for the client to run, see `is_server_side`.
    """

    __slots__ = ("_name", "has_text", "id", "index", "is_server_side", "place")

    def __init__(self, place: int) -> None:
        self.id: str | None = None
        self.index: int | None = None
        self.place = place
        self.has_text = False
        self.is_server_side = True
        self._name = TextBuffer()

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self.id, self.index, self._name))

    @property
    def name(self) -> str:
        """Its name so far."""
        return self._name.getvalue()

    @property
    def has_name(self) -> bool:
        """Whether any of its name came."""
        return self._name.tell() > 0

    def copy(self) -> "CallIdentity":
        """A copy, which can be changed independently."""
        copy = CallIdentity(self.place)
        copy.id, copy.index, copy.has_text, copy.is_server_side = (
            self.id,
            self.index,
            self.has_text,
            self.is_server_side,
        )
        copy._name.write(self.name)
        return copy

    def is_called(self, name: str) -> bool:
        """Whether this is its whole name so far."""
        # By the length first: a name that comes in many short pieces is not joined for each of them.
        return len(name) == self._name.tell() and name == self.name

    def grows_into(self, name: str) -> bool:
        """Whether this is a longer form of its name; after its first arguments, a longer name is another name."""
        return not self.has_text and len(name) > self._name.tell() and name.startswith(self.name)

    def is_called_otherwise(self, name: str) -> bool:
        """Whether it has a name, and this one neither equals nor extends it."""
        return self.has_name and not self.is_called(name) and not self.grows_into(name)

    def take_name(self, name: str, log: AnomalyLog) -> int:
        """Fold in a name that came with a fragment: the first, a repeat, a longer one, the next piece, or too late.

        Returns how many characters the name grew by.
        """
        known = self._name.tell()
        if self.is_called(name):
            log.note(CALL_NAME_REPEATED, excerpt(name))
            return 0
        if known and self.has_text:
            log.note(CALL_NAME_LATE, excerpt(name))
            return 0
        if known:
            log.note(CALL_NAME_IN_PIECES, excerpt(name))
            name = name[known:] if self.grows_into(name) else name
        return self._name.write(name)


CallT = TypeVar("CallT", bound=CallIdentity)


class CallRouter(Generic[CallT]):
    """Route the fragments of one choice to its calls.

    Args:
        make: Makes a call, given its place.
        log: Where to note what was tolerated.

    Attributes:
        calls: In the order of their first appearance.
        last: The call that the last fragment belongs to.
        client_side: How many of them are for the client to run.
    """

    def __init__(self, make: Callable[[int], CallT], log: AnomalyLog) -> None:
        self.calls: list[CallT] = []
        self.last: CallT | None = None
        self.client_side = 0
        self._make = make
        self._log = log
        self._by_id: dict[str, CallT] = {}
        self._by_index: dict[int | None, CallT] = {}  # None is never in it

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        return Kept((self.calls,), (self._by_id, self._by_index))

    def route(self, fragment: ChoiceDeltaToolCall) -> tuple[CallT, int]:
        """The call that a fragment belongs to, and how many characters the fragment added to its name."""
        # By the dict, not by attribute: a value of a wrong type is kept raw beside the fields, not among them.
        fields = fragment.__dict__
        index, id_ = fields.get("index"), fields.get("id")
        function, custom = fields.get("function"), fields.get("custom")
        texts: dict[str, Any] = {} if function is None else function.__dict__
        if custom is not None:
            texts = {**custom.__dict__, **{key: value for key, value in texts.items() if value}}
        name = texts.get("name")
        call, grown = self._by_index.get(index), 0
        # Most fragments have an index and arguments alone; to look no further saves a tenth of the fold.
        if call is None or id_ is not None or name is not None:
            call, grown = self._route(call, index, id_, name)
        self.last = call
        if not call.has_text and (texts.get("arguments") or texts.get("input")):
            call.has_text = True
        return call, grown

    def bind_id(self, call: CallT, id_: str) -> None:
        """From now on the id identifies this call; it becomes the call's `id` if that has none yet."""
        self._by_id[id_] = call
        if call.id is None:
            call.id = id_
            self._judge(call)

    def copy(self) -> "CallRouter[CallIdentity]":
        """A router with the same state that continues independently, and notes nothing."""
        other = silent_router()
        other.calls = [call.copy() for call in self.calls]
        other.last = None if self.last is None else other.calls[self.last.place]
        other.client_side = self.client_side
        ids, indexes = self._by_id.items(), self._by_index.items()
        other._by_id = {id_: other.calls[call.place] for id_, call in ids}
        other._by_index = {index: other.calls[call.place] for index, call in indexes}
        return other

    def _route(self, at_index: CallT | None, index: int | None, id_: str | None, name: str | None) -> tuple[CallT, int]:
        """Find the call, or begin one, and set its index, name and id."""
        if id_ == "" or name == "":
            self._log.note(EMPTY_FOR_ABSENT, "a tool call's id or name")
        if index is None:
            self._log.note(CALL_INDEX_MISSING, excerpt(name or id_ or ""))
        call = self._continued(at_index, index, id_, name) or self._new()
        if index is not None:
            self._by_index[index] = call
            if call.index is None:
                call.index = index
        grown = call.take_name(name, self._log) if name else 0
        if id_:
            self.bind_id(call, id_)
        if grown:
            self._judge(call)
        return call, grown

    def _new(self) -> CallT:
        call = self._make(len(self.calls))
        self.calls.append(call)
        return call

    def _judge(self, call: CallT) -> None:
        """The id or the name is new: count the call among those for the client to run, or no longer."""
        was, call.is_server_side = call.is_server_side, is_server_side(call.id, has_name=call.has_name)
        self.client_side += was - call.is_server_side

    def _continued(self, at_index: CallT | None, index: int | None, id_: str | None, name: str | None) -> CallT | None:
        """The call that a fragment continues; None if it begins a new one."""
        if id_:
            known = self._by_id.get(id_)
            if known is not None:
                return self._by_known_id(known, at_index, id_, index, name)
            return self._by_new_id(at_index, id_, index, name)
        if index is None:
            # Rule 6: the call touched last; but a name after name and arguments starts a new one.
            last = self.last
            return None if last is not None and name and last.has_name and last.has_text else last
        # Rule 4: the call bound to the index; but another name after name and arguments starts a new one.
        if at_index is not None and name and at_index.has_text and at_index.is_called_otherwise(name):
            self._log.note(CALL_INDEX_REUSED, f"index {excerpt(index)}, name {excerpt(name)}")
            return None
        return at_index  # None is rule 5

    def _by_known_id(
        self, known: CallT, at_index: CallT | None, id_: str, index: int | None, name: str | None
    ) -> CallT | None:
        """Rule 1: that call; but with a name and an index other than its own, a new one."""
        if at_index is not None and at_index.id == id_:
            return at_index
        if name and index is not None and known.index is not None and index != known.index:
            self._log.note(CALL_ID_REUSED, f"id {excerpt(id_)}, index {excerpt(index)}")
            return None
        return known

    def _by_new_id(self, at_index: CallT | None, id_: str, index: int | None, name: str | None) -> CallT | None:
        if index is None:
            # Rule 2, without an index: a new call if it has a name or is the first, else a continuation.
            continued = None if name else self.last
        elif at_index is None:
            continued = None  # rule 2
        elif not name or (at_index.id is None and not at_index.is_called_otherwise(name)):
            continued = at_index  # rule 3: it has no name, or the call has no id yet and no other name
        else:
            self._log.note(CALL_INDEX_REUSED, f"index {excerpt(index)}, id {excerpt(id_)}")
            continued = None
        if continued is not None and continued.id is not None:
            self._log.note(CALL_ID_FRESH, f"id {excerpt(id_)} after {excerpt(continued.id)}")
        return continued


def silent_router() -> CallRouter[CallIdentity]:
    """A router that only keeps the calls apart, without folding them."""
    return CallRouter(CallIdentity, AnomalyLog())
