"""The report of `chunkfold doctor`: the requests, their results, and what was wrong; as Markdown and JSON.

The provider's words are shown as code: bounded, on one line, and without Markdown's special characters.
"""

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

import httpx

import chunkfold
from chunkfold import Anomaly, ChunkfoldError
from chunkfold.cli.checks import Check, Judgement, Reply, Result, is_one_too_many
from chunkfold.cli.facts import Problem, anomaly_object, error_object
from chunkfold.cli.frames import Frame
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import times
from chunkfold.testing.markdown import code_fence, code_span, markdown_table

_EXCERPT: Final = 300  # characters shown of an event that broke a rule
_PAST: Final = {Result.PASS: "passed", Result.FAIL: "failed"}
_TITLES: Final = ("check", "result", "ended", "first output", "rules")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; `lost` says why the request after the replies got no response, None if there was none."""

    check: Check
    judgement: Judgement
    replies: Sequence[Reply] = ()
    lost: Problem | None = None

    @property
    def error(self) -> ChunkfoldError | Problem | None:
        """What went wrong."""
        return next((reply.error for reply in self.replies if reply.error), self.lost)

    @property
    def is_one_too_many(self) -> bool:
        """Whether its first request was one too many."""
        return any(is_one_too_many(reply.error) for reply in self.replies[:1])

    @property
    def anomalies(self) -> list[Anomaly]:
        """The rules that were broken, each once."""
        found: dict[str, Anomaly] = {}
        for reply in self.replies:
            for anomaly in reply.parser.anomalies:
                found.setdefault(anomaly.rule.id, anomaly)
        return [*found.values()]


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks, in order."""

    host: str  # with scheme and port; the rest of a URL may be a secret
    model: str
    date: datetime
    note: str  # what the reader must know besides; "" if nothing
    findings: Sequence[Finding]

    @property
    def counts(self) -> dict[Result, int]:
        """The number of checks with each result."""
        found = [finding.judgement.result for finding in self.findings]
        return {result: found.count(result) for result in Result}


def to_json(report: Report) -> str:
    """The report as JSON."""
    value = {
        **_versions(),
        "host": report.host,
        "model": report.model,
        "date": report.date.isoformat(timespec="seconds"),
        "note": report.note,
        "counts": report.counts,
        "checks": [_finding_object(finding) for finding in report.findings],
    }
    return json.dumps(value, indent=2)


def _versions() -> dict[str, str]:
    """The versions of the software that sent the requests."""
    return {"chunkfold": chunkfold.__version__, "python": platform.python_version(), "httpx": httpx.__version__}


def to_markdown(report: Report, width: int | None = None) -> Iterator[str]:
    """The report as the lines of a page; a list instead of a table that would be wider."""
    counts = ", ".join(f"{count} {_PAST.get(result, result)}" for result, count in report.counts.items() if count)
    versions = ", ".join(f"{name.replace('py', 'Py')} {version}" for name, version in _versions().items())
    yield f"## chunkfold doctor: {code(report.model)}"
    yield ""
    yield f"- host: {code(report.host)}"
    yield f"- date: {report.date:%Y-%m-%d %H:%M} UTC"
    yield f"- with: {versions}"
    yield f"- result: {counts or 'nothing was checked'}"
    if report.note:
        yield f"- note: {report.note}"
    yield ""
    table = markdown_table([_TITLES, *map(_row, report.findings)], is_aligned=True)
    yield from table if width is None or len(table[0]) <= width else map(_item, report.findings)
    passed = [finding for finding in report.findings if finding.judgement.result is Result.PASS]
    if passed:
        yield from ("", "### Passed", "")
        yield from (f"- {finding.check.name}: {_reason(finding)}" for finding in passed)
    others = [finding for finding in report.findings if finding.judgement.result is not Result.PASS]
    for _, group in groupby(others, lambda finding: finding.judgement if not finding.replies else finding):
        yield ""
        yield from _details([*group])


def _row(finding: Finding) -> tuple[str, ...]:
    parser, result = finding.replies[0].parser if finding.replies else None, finding.judgement.result
    first = parser.timing.first_output if parser else None
    return (
        finding.check.name,
        f"**{result}**" if result is Result.FAIL else str(result),
        str(parser.end) if parser else "-",
        "-" if first is None else f"{first:.2f} s",
        " ".join(anomaly.rule.id for anomaly in finding.anomalies) or "-",
    )


def _item(finding: Finding) -> str:
    name, result, ended, first, rules = _row(finding)
    told = [f"{name}: {result}", rules, f"ended {ended}", f"first output {first}"]
    return "- " + ", ".join(each for each in told if not each.endswith("-"))


def _reason(finding: Finding) -> str:
    judgement = finding.judgement
    return judgement.reason + (f": {code(judgement.quote)}" if judgement.quote else "")


def _details(findings: Sequence[Finding]) -> Iterator[str]:
    """Why it is not a plain pass, and what was wrong; once for all checks that sent nothing."""
    finding = findings[0]
    yield f"### {', '.join(each.check.name for each in findings)}: {finding.judgement.result}"
    yield ""
    if finding.replies or finding.lost:
        yield f"- requested: {finding.check.asks}"
    yield f"- found: {_reason(finding)}"
    for reply in finding.replies:
        if reply.parser.request_id and finding.judgement.result is Result.FAIL:
            yield f"- request id: {code(reply.parser.request_id)}"
    for anomaly in finding.anomalies:
        rule = anomaly.rule
        first = f"byte {anomaly.offset}" + (f", {code(anomaly.detail)}" if anomaly.detail else "")
        yield f"- {rule.id}, {times(anomaly.count)}: {rule.sentence} (first at {first}); chunkfold {rule.handling}"
    frames = (frame for reply in finding.replies for frame in reply.odd_frames)
    seen = [f"byte {frame.offset}: {_shortened(frame)}" for frame in frames if frame.data]
    if seen:
        yield from ("", code_fence("".join(seen)), *seen, code_fence("".join(seen)))


def code(text: str) -> str:
    """A provider's words as Markdown shows them unchanged, on one line."""
    return code_span(one_line(text))


def _shortened(frame: Frame) -> str:
    name = f"event {one_line(frame.event)}: " if frame.event and frame.event != "message" else ""
    data = one_line(frame.data[:_EXCERPT])
    return f"{name}{data}" + (f"... ({frame.size:,} bytes)" if len(frame.data) > _EXCERPT else "")


def _finding_object(finding: Finding) -> dict[str, Any]:
    parser = finding.replies[0].parser if finding.replies else None
    return {
        "check": finding.check.name,
        "asks": finding.check.asks,
        **finding.judgement._asdict(),
        "end": parser and parser.end,
        "first_output": parser and parser.timing.first_output,
        "error": error_object(finding.error),
        "request_id": next((reply.parser.request_id for reply in reversed(finding.replies)), None),
        "anomalies": [anomaly_object(anomaly, explained=True) for anomaly in finding.anomalies],
        "frames": [
            {"offset": frame.offset, "event": frame.event, "bytes": frame.size, "data": frame.data[:_EXCERPT]}
            for reply in finding.replies
            for frame in reply.odd_frames
        ],
    }
