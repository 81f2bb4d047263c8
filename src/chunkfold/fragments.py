"""Which call a fragment belongs to, told on the chunk side, before anything is folded.

What the accumulator decides by six rules with all that came before, near enough for those who only need to keep the
texts of different calls apart.
"""

from typing import Any

from chunkfold.models import ChoiceDeltaToolCall


class CallNumbers:
    """A number for each call of a stream: by id, else by index, else the one seen last."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str, Any], int] = {}

    def number(self, choice: int, call: ChoiceDeltaToolCall) -> int:
        """The number of the call that a fragment belongs to."""
        fields = vars(call)
        index, id_ = fields.get("index"), fields.get("id")
        part: Any = fields.get("function") or fields.get("custom")
        begins = bool(id_) and (choice, "id", id_) not in self._numbers and part is not None and bool(_name(part))
        names: list[tuple[str, Any]] = [("id", id_)] if id_ else []
        # A new id with a name begins a call, whatever its index was before.
        if index is not None and not begins:
            names.append(("index", index))
        elif index is None and not id_:
            names.append(("last", None))
        known = (self._numbers.get((choice, *name)) for name in names)
        number = next((one for one in known if one is not None), len(self._numbers))
        for kind, value in (("id", id_ or None), ("index", index)):
            if value is not None:
                self._numbers[choice, kind, value] = number
        self._numbers[choice, "last", None] = number
        return number


def _name(part: Any) -> Any:
    return part.__dict__.get("name")
