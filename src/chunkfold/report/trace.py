"""Recordings as a trace in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Each recording is a process of its own, and each kind of event a thread in it. Times are microseconds since the request
was sent.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from chunkfold.report.charts import phases
from chunkfold.report.facts import Kind, StreamFacts

_REQUEST: Final = 1
_STALLS: Final = 2
_KINDS: Final = {kind: number for number, kind in enumerate(Kind, 3)}


def trace(streams: Sequence[StreamFacts]) -> dict[str, Any]:
    """The trace, as JSON, of the recordings that have times; others are left out."""
    events = [event for pid, facts in enumerate(streams, 1) if facts.is_timed for event in _events_of(facts, pid)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _events_of(facts: StreamFacts, pid: int) -> Iterator[dict[str, Any]]:
    came = facts.totals()
    names = {_REQUEST: "request", **({_STALLS: "stalls"} if facts.stalls else {})}
    names |= {_KINDS[kind]: str(kind) for kind in came}
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": facts.name}}
    for tid, name in names.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
    error = None if facts.error is None else f"{type(facts.error).__name__}: {facts.error}"
    rules = [anomaly.rule.id for anomaly in facts.anomalies]
    yield _span("request", 0.0, facts.seconds, pid, _REQUEST, end=facts.end, error=error, url=facts.url, rules=rules)
    for _, what, start, end in phases(facts):
        yield _span(what, start, end, pid, _REQUEST)
    if facts.timing.headers is not None:
        yield _instant("headers", facts.timing.headers, pid, _REQUEST, status=facts.recording.status_code)
    for stall in facts.stalls:
        yield _span("stall", stall.at, stall.at + stall.seconds, pid, _STALLS)
    for mark in facts.marks:
        for kind, characters in mark.brought.items():
            yield _instant(kind, mark.at, pid, _KINDS[kind], characters=characters, bytes=mark.size)


def _span(name: str, start: float, end: float, pid: int, tid: int, /, **args: Any) -> dict[str, Any]:
    duration = _microseconds(end) - _microseconds(start)
    return {"ph": "X", **_event(name, start, pid, tid), "dur": duration, "args": args}


def _instant(name: str, at: float, pid: int, tid: int, /, **args: Any) -> dict[str, Any]:
    return {"ph": "i", "s": "t", **_event(name, at, pid, tid), "args": args}


def _event(name: str, at: float, pid: int, tid: int) -> dict[str, Any]:
    return {"name": name, "cat": "chunkfold", "pid": pid, "tid": tid, "ts": _microseconds(at)}


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
