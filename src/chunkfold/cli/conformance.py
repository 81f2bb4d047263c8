"""The report of `chunkfold doctor`: the requests, their results, and what was wrong; as Markdown and JSON.

Everything that a provider said is in it as code: bounded, on one line, and without Markdown's special characters.
"""

import importlib.metadata
import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from chunkfold.cli.checks import Check, Judgement, Reply, Result
from chunkfold.cli.facts import error_object
from chunkfold.cli.frames import Frame
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import rule_object, times

_EXCERPT: Final = 300  # characters of an event that was off
_PAST: Final = {
    Result.PASS: "passed",
    Result.TOLERATED: "tolerated",
    Result.FAIL: "failed",
    Result.SKIPPED: "skipped",
}
_TITLES: Final = ("check", "result", "ended", "first output", "rules")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        check: The check.
        judgement: What is said of the answer.
        reply: The answer, None if there was none.
    """

    check: Check
    judgement: Judgement
    reply: Reply | None = None

    @property
    def ended(self) -> str:
        """How the stream ended, in a word."""
        return str(self.reply.parser.end) if self.reply else "-"

    @property
    def first_output(self) -> float | None:
        """When the first output came, in seconds since the request was sent."""
        return self.reply.parser.timing.first_output if self.reply else None

    @property
    def rules(self) -> list[str]:
        """The ids of the rules that were broken."""
        return [anomaly.rule.id for anomaly in self.reply.parser.anomalies] if self.reply else []


@dataclass(slots=True)
class Report:
    """All that was found.

    Attributes:
        url: The endpoint; only its host is shown.
        model: The model's name.
        date: When it was asked.
        note: What else has to be known.
        findings: The result of each check, in order.
    """

    url: str
    model: str
    date: datetime
    note: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def has_failed(self) -> bool:
        """Whether anything failed."""
        return any(finding.judgement.result is Result.FAIL for finding in self.findings)

    @property
    def is_unanswered(self) -> bool:
        """Whether not even the plain request was answered, as after too many: nothing is known of the provider."""
        return any(
            finding.check.name == "text" and finding.judgement.result is Result.SKIPPED for finding in self.findings
        )

    @property
    def host(self) -> str:
        """Scheme, host and port: the rest of a URL may be a secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def counts(self) -> dict[Result, int]:
        """How many checks had each result."""
        found = Counter(finding.judgement.result for finding in self.findings)
        return {result: found[result] for result in Result}

    @property
    def versions(self) -> str:
        """What it was asked with."""
        chunkfold = importlib.metadata.version("chunkfold")
        return f"chunkfold {chunkfold}, Python {platform.python_version()}, httpx {httpx.__version__}"


def markdown(report: Report, width: int | None = None) -> str:
    """The report as Markdown.

    Args:
        report: The report.
        width: How many columns there are; where a table would be wider, there is a list instead. None for no limit.
    """
    return "\n".join(_lines(report, width)) + "\n"


def as_json(report: Report) -> str:
    """The report as JSON."""
    value = {
        "chunkfold": importlib.metadata.version("chunkfold"),
        "python": platform.python_version(),
        "httpx": httpx.__version__,
        "host": report.host,
        "model": report.model,
        "date": report.date.isoformat(timespec="seconds"),
        "note": report.note,
        "counts": report.counts,
        "checks": [_finding_object(finding) for finding in report.findings],
    }
    return json.dumps(value, indent=2) + "\n"


def _lines(report: Report, width: int | None) -> Iterator[str]:
    counts = ", ".join(f"{count} {_PAST[result]}" for result, count in report.counts.items() if count)
    yield f"## chunkfold doctor: {code(report.model)}"
    yield ""
    yield f"- host: {code(report.host)}"
    yield f"- date: {report.date:%Y-%m-%d %H:%M} UTC"
    yield f"- with: {report.versions}"
    yield f"- result: {counts or 'nothing was checked'}"
    if report.note:
        yield f"- note: {report.note}"
    yield ""
    yield from _overview(report.findings, width)
    for finding in report.findings:
        if finding.judgement.result is not Result.PASS:
            yield ""
            yield from _details(finding)


def _overview(findings: Sequence[Finding], width: int | None) -> Iterator[str]:
    rows = [_TITLES, *map(_row, findings)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None and sum(widths) + 3 * len(widths) + 1 > width:
        yield from map(_item, findings)
        return
    yield _table_row(_TITLES, widths)
    yield _table_row(["-" * width for width in widths], widths)
    for row in rows[1:]:
        yield _table_row(row, widths)


def _row(finding: Finding) -> tuple[str, ...]:
    first = finding.first_output
    result = finding.judgement.result
    shown = f"**{result}**" if result is Result.FAIL else str(result)
    return (
        finding.check.name,
        shown,
        finding.ended,
        "-" if first is None else f"{first:.2f} s",
        " ".join(finding.rules) or "-",
    )


def _item(finding: Finding) -> str:
    name, result, ended, first, rules = _row(finding)
    told = [f"{name}: {result}", *([rules] if finding.rules else ()), *([f"ended {ended}"] if finding.reply else ())]
    return "- " + ", ".join([*told, f"first output {first}"] if finding.first_output is not None else told)


def _table_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _details(finding: Finding) -> Iterator[str]:
    """Why it is not a plain pass, and what was wrong."""
    judgement, reply = finding.judgement, finding.reply
    yield f"### {finding.check.name}: {judgement.result}"
    yield ""
    yield f"- asked for: {finding.check.asks}"
    yield f"- found: {judgement.reason}" + (f": {code(judgement.quote)}" if judgement.quote else "")
    if reply is None:
        return
    if reply.parser.request_id and judgement.result is Result.FAIL:
        yield f"- request id: {code(reply.parser.request_id)}"
    for anomaly in reply.parser.anomalies:
        rule = anomaly.rule
        first = f"byte {anomaly.offset}" + (f", {code(anomaly.detail)}" if anomaly.detail else "")
        yield f"- {rule.id}, {times(anomaly.count)}: {rule.sentence} (first at {first}); chunkfold {rule.handling}"
    seen = [f"byte {frame.offset}: {_shortened(frame)}" for frame in reply.odd_frames if frame.data]
    if seen:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "".join(seen))), default=0))
        yield from ("", fence, *seen, fence)


def code(text: str) -> str:
    """A provider's words as Markdown shows them unchanged, on one line."""
    text = one_line(text) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _shortened(frame: Frame) -> str:
    name = "" if frame.event in (None, "message") else f"event {one_line(frame.event or '')}: "
    data = one_line(frame.data[:_EXCERPT])
    return f"{name}{data}" + (f"... ({frame.size:,} bytes)" if len(frame.data) > _EXCERPT else "")


def _finding_object(finding: Finding) -> dict[str, Any]:
    judgement, reply = finding.judgement, finding.reply
    told = {
        "check": finding.check.name,
        "asks": finding.check.asks,
        "result": judgement.result,
        "reason": judgement.reason,
        "quote": judgement.quote,
    }
    if reply is None:
        return told | {
            "end": None,
            "first_output": None,
            "error": None,
            "request_id": None,
            "anomalies": [],
            "frames": [],
        }
    parser = reply.parser
    return told | {
        "end": parser.end,
        "first_output": finding.first_output,
        "error": error_object(parser.error),
        "request_id": parser.request_id,
        "anomalies": [rule_object(anomaly, explained=True) for anomaly in parser.anomalies],
        "frames": [
            {"offset": frame.offset, "event": frame.event, "bytes": frame.size, "data": frame.data[:_EXCERPT]}
            for frame in reply.odd_frames
        ],
    }
