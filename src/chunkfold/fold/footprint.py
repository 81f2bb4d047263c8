"""Estimate the memory that is kept of a stream, for a limit that nothing can bypass. This also joins the texts.

The estimate visits the current content, so no running sum is needed. It depends on the content alone, not on how much
of it is shared or how the interpreter stores it. Content that only grows at its end is not measured twice, nor are
unknown fields until they are replaced, nor choices and calls until they change.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.json_text.values import is_list, is_object

# Bytes.
_VALUE: Final = 24  # a number, a reference to a value
_TEXT: Final = 48
_WIDE: Final = 4  # of each character of a text that is not ASCII
_CONTAINER: Final = 64  # an object, a list
_MODEL: Final = 360
_STATE: Final = 850
_BUFFER: Final = 150
_WORTH_KEEPING: Final = 4096  # a size that is kept takes some 300


class Kept(NamedTuple):
    """What a state of the fold keeps of its input, as its method `kept` returns it."""

    parts: Iterable[Any]  # values, models and other states
    # Lists and objects that it only adds to; of the objects only the keys count, the values are counted elsewhere.
    growing: Iterable[list[Any] | dict[Any, Any]] = ()
    # Objects whose values it replaces. It never changes one, but may add to a list.
    replaced: Iterable[Mapping[str, Any]] = ()
    # States of which there may be many. Each keeps its size as `measured`, which is 0 once it changes.
    settled: Collection[Any] = ()


class Footprint:
    """Measure the states of one stream repeatedly. Measuring also joins the pieces of each text."""

    def __init__(self) -> None:
        self.visited = 0  # values so far, which is what measuring costs
        # What is not measured again, by its identity, with its measured length and its size.
        self._measured: dict[int, tuple[object, int, int]] = {}
        self._known = self._measured  # what the last measuring found, while the next one runs
        # The same of each settled state, which is not forgotten while the state does not change.
        self._settled: dict[int, tuple[object, dict[int, tuple[object, int, int]]]] = {}

    def __reduce__(self) -> "tuple[type[Footprint], tuple[()]]":
        """Copied and pickled without sizes, since a copy of what was measured has another identity."""
        return Footprint, ()

    def of(self, value: Any) -> int:
        """The size in bytes of JSON values, models, and the accumulator's own states, with all that is in them."""
        self._measured = {}  # what is no longer there is forgotten
        size = self._of(value)
        self._known = self._measured
        return size

    def _of(self, value: Any) -> int:
        size = 0
        unseen = [value]
        while unseen:
            value = unseen.pop()
            self.visited += 1
            if isinstance(value, str):
                size += _TEXT + (len(value) if value.isascii() else _WIDE * len(value))
            elif value is None or isinstance(value, float):
                size += _VALUE
            elif isinstance(value, int):
                size += _VALUE + value.bit_length() // 8
            elif is_object(value):
                size += _CONTAINER + _VALUE * len(value)
                unseen += value
                unseen += value.values()
            elif isinstance(value, (list, tuple)):
                size += _CONTAINER
                unseen += value
            elif isinstance(value, TextBuffer):
                size += _BUFFER + value.size
            elif isinstance(value, BaseModel):  # after all others, since pydantic's check is slow
                fields = [*vars(value).values(), value.__pydantic_extra__]
                present = [field for field in fields if field is not None]
                size += _MODEL + _VALUE * (len(fields) - len(present))
                unseen += present
            else:
                kept: Kept = value.kept()  # most parts are empty
                size += _STATE + sum(self._of_growing(part) for part in kept.growing if part)
                size += sum(self._of_replaced(part) for part in kept.replaced if part)
                size += sum(state.measured or self._settle(state) for state in kept.settled)
                self.visited += len(kept.settled)
                unseen += filter(None, kept.parts)
        return size

    def _settle(self, state: Any) -> int:
        """The size of a state that changed; of what only grew in it, only what is new is measured."""
        around = self._known, self._measured
        _, self._known = self._settled.get(id(state), (state, {}))
        self._measured = {}
        state.measured = size = self._of(state)
        if self._known or self._measured:
            self._settled[id(state)] = (state, self._measured)
        self._known, self._measured = around
        return size

    def _of_growing(self, part: list[Any] | dict[Any, Any]) -> int:
        """The size of a list, or of the keys of an object; only what was added since the last time is measured."""
        _, length, size = self._known.get(id(part), (None, 0, _CONTAINER))
        new = list(islice(reversed(part), max(len(part) - length, 0)))  # a chunk's list may have been shortened since
        return self._remember(part, len(part), size + self._of(new) - _CONTAINER + _VALUE * len(new))

    def _of_replaced(self, fields: Mapping[str, Any]) -> int:
        """The size of an object; of its lists, objects and models, only what is new is measured."""
        single: dict[str, Any] = {}
        size = 0
        for name, value in fields.items():
            if value is None or isinstance(value, (str, int, float)):
                single[name] = value
            elif is_list(value):
                size += _VALUE + self._of(name) + self._of_growing(value)
            else:
                known = self._known.get(id(value))
                own = self._of(value) if known is None else known[2]
                size += _VALUE + self._of(name) + self._remember(value, 0, own)
        return size + self._of(single)

    def _remember(self, value: object, length: int, size: int) -> int:
        if size > _WORTH_KEEPING:
            self._measured[id(value)] = (value, length, size)
        return size
