"""Fold the fields that every chunk repeats: the id of the completion, its model and similar fields.

Almost every chunk has the same head as the one before. So the head is compared as a whole, and folded field by field
only if it differs. Its `created` may differ: many providers send the current second, and only the first one is kept.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from chunkfold import anomalies
from chunkfold.anomalies import Rule
from chunkfold.anomaly_log import AnomalyLog
from chunkfold.excerpts import excerpt
from chunkfold.models.chunk import AMBIGUOUS_OBJECTS, CHUNK_OBJECT

_KEEP_ALIVE: Final = "keepalive"  # the word of oMLX and OmniRoute, in chunks whose `created` is 0
_FIRST_WINS: Final = ("id", "created", "model", "system_fingerprint")
head_values: Final = itemgetter("id", "model", "system_fingerprint", "object", "service_tier")
"""The values that are usually the same in successive chunks. `KeyError`: a value of a wrong type is kept elsewhere."""


class Head:
    """The head of one stream."""

    def __init__(self, log: AnomalyLog) -> None:
        self.fields: dict[str, Any] = {}  # the first value of each that is not empty; of the service tier the last
        # The values of the last chunk's head, except `created`; None if the next chunk must not take the short path.
        self.usual: tuple[Any, ...] | None = None
        self.created: int | None = None  # whether the last chunk's `created` was missing (None), 0, or a time (1)
        self.notes: list[tuple[Rule, str]] = []  # of the last chunk's head, noted with every chunk that repeats it
        self._log = log

    def add(self, chunk: dict[str, Any], *, is_usual: bool) -> None:
        """Fold the head of a chunk; `is_usual` says that a chunk that repeats it can be a usual one."""
        try:
            values = head_values(chunk)
        except KeyError:
            values = None
        created = chunk.get("created") and 1
        if values is None or values != self.usual or created != self.created:
            self.notes = list(self._fold(chunk))
            self.usual = values if is_usual and chunk.get("object") not in AMBIGUOUS_OBJECTS else None
            self.created = created
        if self.notes:
            self._log.note_all(self.notes)

    def add_partial(self, chunk: dict[str, Any]) -> None:
        """Fold the head of a chunk that may lack one: only another id or model is noted."""
        self._log.note_all([note for note in self._fold(chunk) if note[0] is anomalies.ID_CHANGED])

    def _fold(self, chunk: dict[str, Any]) -> Iterator[tuple[Rule, str]]:
        """Keep what is new; yield a note for each deviation."""
        is_waiting = not chunk.get("created")
        is_keep_alive = is_waiting and _is_keep_alive(chunk.get("id"))  # then the model is the gateway's own name
        for name in _FIRST_WINS:
            value = chunk.get(name)
            is_stand_in = name in ("id", "model") and (is_keep_alive or (is_waiting and _is_keep_alive(value)))
            if value and not is_stand_in:
                first = self.fields.setdefault(name, value)
                if first != value and name in ("id", "model"):
                    yield anomalies.ID_CHANGED, f"{name}: {excerpt(value)} after {excerpt(first)}"
            elif value is not None and name != "system_fingerprint":
                yield anomalies.EMPTY_FOR_ABSENT, name
        if (kind := chunk.get("object")) != CHUNK_OBJECT:
            yield anomalies.OBJECT_UNUSUAL, excerpt(kind)
        if tier := chunk.get("service_tier"):
            self.fields["service_tier"] = tier


def _is_keep_alive(value: Any) -> bool:
    """Whether an id or a model only says that a chunk keeps the connection alive: `chatcmpl-keepalive`."""
    return isinstance(value, str) and value.rpartition("-")[2] == _KEEP_ALIVE
