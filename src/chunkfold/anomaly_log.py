"""Log what a stream triggered: each rule of the catalogue once, with a count and the first place."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final, cast

from chunkfold import anomalies
from chunkfold.anomalies import Anomaly, Rule
from chunkfold.excerpts import excerpt, on_one_line

_DETAIL: Final = 400  # characters
_IDS: Final = frozenset(rule.id for rule in anomalies.RULES)


class AnomalyLog:
    """What was tolerated so far, with at most one entry per rule."""

    def __init__(self, refused_ids: Collection[str] = ()) -> None:
        self.offset = 0  # of the event being read, in the body, in bytes
        self.count = 0  # uses of rules that were noted
        self.refused: Anomaly | None = None  # the first that is not tolerated
        self.refused_ids = refused_ids  # see `refused_rules`
        self._noted: dict[str, Anomaly] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._on_first: Callable[[Anomaly], object] | None = None

    def observe(self, on_first: Callable[[Anomaly], object] | None) -> None:
        """Call `on_first` for each rule that was noted, and when another one is noted first; pass None to stop."""
        self._on_first = on_first
        if on_first is not None:
            for anomaly in self.entries():
                on_first(anomaly)

    def note(self, rule: Rule, detail: str = "", *quoted: object) -> None:
        """Count one use of a rule; of each value to quote, an excerpt is shown in the place of a `{}` of the detail."""
        self.count += 1
        self._counts[rule.id] += 1
        if rule.id in self._noted:
            return
        if quoted:
            detail = detail.format(*map(excerpt, quoted))
        anomaly = self._noted[rule.id] = Anomaly(rule, 1, self.offset, on_one_line(detail, _DETAIL))
        if self.refused is None and rule.id in self.refused_ids:
            self.refused = anomaly
        if self._on_first is not None:
            self._on_first(anomaly)

    def note_all(self, notes: Iterable[tuple[Rule, str]]) -> None:
        """Count one use of each rule."""
        for rule, detail in notes:
            self.note(rule, detail)

    def get(self, rule: Rule) -> Anomaly | None:
        """The first use of a rule, as an anomaly with a count of 1; None if there was none."""
        return self._noted.get(rule.id)

    def entries(self) -> tuple[Anomaly, ...]:
        """All of them, in the order of their first place."""
        return tuple(replace(noted, count=self._counts[key]) for key, noted in self._noted.items())


def refused_rules(*, strict: bool | Collection[str], tolerate: Collection[str]) -> frozenset[str]:
    """The ids of the rules that strict mode does not tolerate, given the parser's options of these names."""
    tolerated = _known_ids("tolerate", tolerate)
    if isinstance(strict, bool):  # a late fault is the transport's, not the provider's
        return _IDS - {anomalies.LATE_FAULT.id} - tolerated if strict else frozenset()
    return _known_ids("strict", strict) - tolerated


def _known_ids(option: str, ids: object) -> frozenset[str]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Collection):
        expected = "True, False or a collection of rule ids" if option == "strict" else "a collection of rule ids"
        raise TypeError(f"{option}: expected {expected} such as ('CF501',), received {ids!r}")
    for one in cast("Collection[object]", ids):
        if not isinstance(one, str) or one not in _IDS:
            raise ValueError(f"{option}: expected ids of chunkfold.RULES, received {one!r}")
    return frozenset(cast("Collection[str]", ids))
