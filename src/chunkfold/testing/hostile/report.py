"""The results as tables: for a terminal, for the documentation, for programs; and one stream in full."""

import json
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from chunkfold.excerpts import visible
from chunkfold.testing.hostile.clients import Client, Verdict, reading_of
from chunkfold.testing.hostile.judging import judge
from chunkfold.testing.hostile.peers import PEERS, is_installed
from chunkfold.testing.hostile.values import HostileStream
from chunkfold.testing.markdown import code_span, markdown_table
from chunkfold.testing.readings import Reading

Results = Sequence[tuple[Client, Sequence[Verdict]]]

BEGIN: Final = "<!-- begin: python -m chunkfold.testing --markdown -->"
END: Final = "<!-- end -->"
_LONGEST_BODY: Final = 4_000  # bytes that are shown
_LONGEST_VALUE: Final = 500  # characters


class Score(NamedTuple):
    """How many streams of a kind a client got right."""

    right: int
    total: int

    def __str__(self) -> str:
        """As it is read."""
        return f"{self.right} of {self.total}"


def score_of(verdicts: Sequence[Verdict], *, complete: bool | None = None) -> Score:
    """The score among the complete streams, among those that must be refused, or among all."""
    counted = [v for v in verdicts if complete in (None, v.stream.ending == "complete")]
    return Score(sum(v.right for v in counted), len(counted))


def plain_text(results: Results, *, with_peers: bool = True) -> str:
    """How many streams each client got right, its wrong results, and with peers which of them are not installed."""
    rows = [("", *_COLUMNS), *((_title(client), *_cells(verdicts)) for client, verdicts in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for client, verdicts in results:
        wrong = _wrong(verdicts)
        if wrong:
            wide = max(len(verdict.stream.name) for verdict in wrong)
            lines += ["", f"{_title(client)}: wrong result"]
            lines += [f"  {v.stream.name:<{wide}}  {v.stream.ending:<8}  {v.instead}" for v in wrong]
    return "\n".join([*lines, *(_missing() if with_peers else [])])


def as_json(results: Results) -> str:
    """The same as one JSON object."""
    clients = [
        {
            "name": client.name,
            "version": client.version,
            "complete": score_of(verdicts, complete=True)._asdict(),
            "refused": score_of(verdicts, complete=False)._asdict(),
            "crashed": _crashed(verdicts),
            "wrong": [
                {"stream": v.stream.name, "ending": v.stream.ending, "instead": v.instead, "crashed": v.has_crashed}
                for v in _wrong(verdicts)
            ],
        }
        for client, verdicts in results
    ]
    return json.dumps({"streams": len(results[0][1]), "clients": clients}, indent=2)


def in_full(stream: HostileStream, clients: Sequence[Client]) -> str:
    """One stream: its body, the expected result, and each client's result or exception."""
    lines = [f"{stream.name}: {stream.sentence} ({stream.senders})", "", *_shown_body(stream.body), ""]
    lines += ["expected:", f"  {_ENDINGS[stream.ending]}", *_facts(_expected(stream))]
    for client in clients:
        reading, error = reading_of(client, stream.body)
        instead = judge(stream, reading)
        lines += ["", f"{_title(client)}: {'right' if instead is None else f'wrong: {instead}'}", *_facts(reading)]
        if error is not None:
            lines += ["", *(f"  {line}" for line in "".join(traceback.format_exception(error)).splitlines())]
    return "\n".join(lines)


def markdown(results: Results) -> str:
    """The scores for the documentation, and a table of all streams."""
    names = [client.name for client, _ in results]
    scores = [(client.name, client.version, *_cells(verdicts)) for client, verdicts in results]
    streams = [verdict.stream for verdict in results[0][1]]
    marks = [["✓" if v.right else "crash" if v.has_crashed else "✗" for v in verdicts] for _, verdicts in results]
    rows = [
        (f"`{stream.name}`", _cell(stream.sentence), _cell(stream.senders), stream.ending, *of_stream)
        for stream, *of_stream in zip(streams, *marks, strict=True)
    ]
    lines = [*markdown_table([("client", "version", *_COLUMNS), *scores]), ""]
    lines += markdown_table([("stream", "what is sent", "who sends it", "ending", *names), *rows])
    for client, verdicts in results:
        wrong = [(f"`{v.stream.name}`", code_span(v.instead or "").replace("|", "\\|")) for v in _wrong(verdicts)]
        if wrong:
            lines += ["", f"### {_title(client)}", "", *markdown_table([("stream", "wrong result"), *wrong])]
    return "\n".join(lines)


# Of the first table: the name of a client, beside its version, if it has one, or that column's heading.
_ROW: Final = re.compile(r"^\| ([^|`]+) \| (?:version|\d\S*)? \|", re.MULTILINE)


def write_markdown(path: Path, results: Results) -> None:
    """Put the tables between the markers of a page, unless it has results of a client that is not among these."""
    before, old, after = parts_of(path)
    lost = {*_ROW.findall(old)} - {"client", *(client.name for client, _ in results)}
    if lost:
        what = f"its results of {', '.join(sorted(lost))} would be lost"
        raise ValueError(f"{path}: {what}: install what is missing, or remove the tables from the page")
    path.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}", "utf-8")


def parts_of(path: Path) -> tuple[str, str, str]:
    """The text before the markers of a page, the text between them, and the text after them."""
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: expected {BEGIN} and {END}")
    return before, old, after


_COLUMNS: Final = ("complete streams read right", "streams that must be refused", "crashed instead")


def _cells(verdicts: Sequence[Verdict]) -> tuple[str, str, str]:
    """What is in the columns."""
    complete, refused = (str(score_of(verdicts, complete=kind)) for kind in (True, False))
    return complete, refused, str(_crashed(verdicts))


def _crashed(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.has_crashed for verdict in verdicts)


_ENDINGS: Final = {
    "complete": "an answer",
    "error": "a refusal: the provider reports an error",
    "cut": "a refusal: the stream was cut",
    "invalid": "a refusal: this is not a stream of chat completion chunks",
}


def _expected(stream: HostileStream) -> Reading:
    return Reading(
        stream.texts, stream.calls, stream.reasoning, stream.finish_reason, stream.usage or None, stream.message or None
    )


def _facts(reading: Reading) -> list[str]:
    """The values of a reading, a line for each."""
    found = {
        "text": reading.text if len(reading.texts or ()) == 1 else reading.texts,
        "tool calls": reading.calls,
        "reasoning": reading.reasoning,
        "finish reason": reading.finish_reason,
        "usage": reading.usage,
        "refused": reading.refused,
    }
    shown = ((name, repr(value)) for name, value in found.items() if value is not None)
    return [f"  {name}: {value[:_LONGEST_VALUE]}{'...' * (len(value) > _LONGEST_VALUE)}" for name, value in shown]


def _shown_body(body: bytes) -> list[str]:
    """The body as it can be printed; what cannot is escaped."""
    text = body[:_LONGEST_BODY].decode("utf-8", "backslashreplace")
    lines = map(visible, text.split("\n"))
    more = [f"... {len(body) - _LONGEST_BODY} bytes more"] if len(body) > _LONGEST_BODY else []
    return [f"body, {len(body)} bytes:", *(f"  {line}".rstrip() for line in [*lines, *more])]


def _title(client: Client) -> str:
    return f"{client.name} {client.version}".rstrip()


def _wrong(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if not verdict.right]


def _missing() -> list[str]:
    names = [name for name in PEERS if not is_installed(name)]
    return ["", f"To compare with other libraries too: pip install {' '.join(names)}"] if names else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
