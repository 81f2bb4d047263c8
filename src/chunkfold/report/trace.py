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
_CATEGORY: Final = "chunkfold"


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
    yield _span("request", 0.0, facts.seconds, pid, _REQUEST, **_told(facts))
    for _, what, start, end in phases(facts):
        yield _span(what, start, end, pid, _REQUEST)
    if facts.timing.headers is not None:
        yield _instant("headers", facts.timing.headers, pid, _REQUEST, status=facts.recording.status_code)
    for stall in facts.stalls:
        yield _span("stall", stall.at, stall.at + stall.seconds, pid, _STALLS)
    for mark in facts.marks:
        for kind, characters in mark.brought.items():
            yield _instant(kind, mark.at, pid, _KINDS[kind], characters=characters, bytes=mark.size)


def _told(facts: StreamFacts) -> dict[str, Any]:
    told = {"end": facts.end, "error": None if facts.error is None else f"{type(facts.error).__name__}: {facts.error}"}
    return {**told, "url": facts.url, "rules": [anomaly.rule.id for anomaly in facts.anomalies]}


def _span(name: str, start: float, end: float, pid: int, tid: int, /, **args: Any) -> dict[str, Any]:
    begin = _microseconds(start)
    length = _microseconds(end) - begin
    common = {"name": name, "cat": _CATEGORY, "pid": pid, "tid": tid}
    return {"ph": "X", **common, "ts": begin, "dur": length, "args": args}


def _instant(name: str, at: float, pid: int, tid: int, /, **args: Any) -> dict[str, Any]:
    common = {"name": name, "cat": _CATEGORY, "pid": pid, "tid": tid}
    return {"ph": "i", "s": "t", **common, "ts": _microseconds(at), "args": args}


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
