"""How frames are shown: in columns on a terminal, one line each elsewhere, as JSON Lines for programs.

Each is printed as it comes, and then forgotten: a body of any length takes no more memory than its answer.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chunkfold import Anomaly
from chunkfold.cli.additions import Addition, quoted, word
from chunkfold.cli.facts import error_object
from chunkfold.cli.frames import Frame, Inspection, Kind
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import Fact, by_the_book, described, facts_of, times, verdict_object

_KIND_WIDTH: Final = max(map(len, Kind))
_TIME_WIDTH: Final = 8
_LEAST: Final = 36  # columns that what a frame adds needs, to stand beside the rest
_DATA: Final = 60  # characters shown of the data of what adds nothing
_TELLING: Final = (Kind.PING, Kind.FOREIGN)  # frames whose data is all they say
_STYLES: Final = {Kind.DONE: "green", Kind.PING: "dim", Kind.FOREIGN: "dim", Kind.END: "yellow"}


class FrameView(ABC):
    """Shows the frames of one stream as they arrive, and finally the verdict.

    Args:
        console: Where.
        timed: Whether the times of the stream mean something.
        explained: Whether the verdict says of each rule who breaks it, and what chunkfold does.
        offset_width: How many digits an offset may have.
    """

    def __init__(self, console: Console, *, timed: bool, explained: bool, offset_width: int) -> None:
        self._console = console
        self._timed = timed
        self._explained = explained
        self._offset_width = max(len("offset"), offset_width)

    @abstractmethod
    def begin(self) -> None:
        """Show the header above the frames."""

    @abstractmethod
    def frame(self, frame: Frame) -> None:
        """Show a frame."""

    @abstractmethod
    def verdict(self, inspection: Inspection) -> None:
        """Show the verdict on the whole stream."""


class JsonFrameView(FrameView):
    """One object in each line: a frame, and in the last line the verdict."""

    def begin(self) -> None:
        """Nothing: every line is an object."""

    def frame(self, frame: Frame) -> None:
        """Write the frame's line."""
        self._write(
            {
                "frame": frame.number,
                "kind": frame.kind,
                "event": frame.event,
                "offset": frame.offset,
                "at": None if frame.at is None else round(frame.at, 6),
                "bytes": frame.size,
                "data": frame.data,
                "adds": [_addition_object(addition) for addition in frame.adds],
                "anomalies": [
                    {"rule": noted.rule.id, "count": noted.count, "detail": noted.detail} for noted in frame.anomalies
                ],
                "error": error_object(frame.error),
            }
        )

    def verdict(self, inspection: Inspection) -> None:
        """Write the last line."""
        self._write({"verdict": verdict_object(inspection, timed=self._timed, explained=self._explained)})

    def _write(self, value: dict[str, Any]) -> None:
        self._console.file.write(json.dumps(value) + "\n")
        self._console.file.flush()


class TextFrameView(FrameView):
    """For people: what the two kinds of text share."""

    def verdict(self, inspection: Inspection) -> None:
        """The facts, then the rules."""
        anomalies = inspection.parser.anomalies
        tolerated = _how_many(anomalies) if anomalies else by_the_book(inspection)
        self._facts([*facts_of(inspection, timed=self._timed), ("to tolerate", tolerated)])
        if anomalies:
            self._console.print()
        for anomaly in anomalies:
            self._rule(anomaly)

    def _facts(self, facts: Sequence[Fact]) -> None:
        """Labels and values, one below the other; they are printed as they are."""
        self._console.print()
        if not self._console.is_interactive:
            for label, value in facts:
                self._console.out(f"{label}: {value}", highlight=False)
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(Text(label), Text(value))
        self._console.print(table)

    @abstractmethod
    def _rule(self, anomaly: Anomaly) -> None:
        """Show a rule that was broken."""

    def _head(self, offset: str, at: str, kind: str) -> str:
        """The columns before what a frame adds."""
        time = f"{at:>{_TIME_WIDTH}}  " if self._timed else ""
        return f"{offset:>{self._offset_width}}  {time}{kind:<{_KIND_WIDTH}}  "

    def _head_of(self, frame: Frame) -> str:
        return self._head(str(frame.offset), "" if frame.at is None else f"{frame.at:.3f}", frame.kind)


class PlainFrameView(TextFrameView):
    """One line for each frame, in columns, however long it is: for pipes, and for `grep`."""

    def begin(self) -> None:
        """The columns' names."""
        self._write(self._head("offset", "seconds", "what") + "adds")

    def frame(self, frame: Frame) -> None:
        """Write the frame's line."""
        ids = [noted.rule.id for noted in frame.anomalies]
        self._write(self._head_of(frame) + "; ".join(told_of(frame)) + (f"  ! {' '.join(ids)}" if ids else ""))

    def _rule(self, anomaly: Anomaly) -> None:
        self._write(f"{anomaly.rule.id}: {anomaly.rule.sentence} ({times(anomaly.count)})")
        for label, value in _facts_of_rule(anomaly, explained=self._explained):
            self._write(f"  {label}: {value}")

    def _write(self, line: str) -> None:
        self._console.file.write(line + "\n")
        self._console.file.flush()


class ColumnFrameView(TextFrameView):
    """For a terminal: what a frame adds has a column of its own, or goes below the rest where that is too narrow."""

    def begin(self) -> None:
        """The columns' names."""
        self._console.print(
            Text(self._head("offset", "seconds", "what") + "adds", "bold"), overflow="crop", no_wrap=True
        )

    def frame(self, frame: Frame) -> None:
        """Print the frame, with a line for each rule that it breaks."""
        head = self._head_of(frame)
        style = "red" if frame.error is not None else _STYLES.get(frame.kind, "")
        self._beside(Text(head, style or "cyan"), Text("; ".join(told_of(frame)), style))
        for told in _rules_of(frame):
            self._beside(Text(" " * len(head)), Text(told, "yellow"))

    def _rule(self, anomaly: Anomaly) -> None:
        rule = anomaly.rule
        self._beside(Text(f"{rule.id}  ", "yellow"), Text(f"{rule.sentence} ({times(anomaly.count)})"), 0)
        for label, value in _facts_of_rule(anomaly, explained=self._explained):
            self._beside(Text(" " * len(f"{rule.id}  ")), Text(f"{label}: {value}", "dim"), 0)

    def _beside(self, head: Text, told: Text, least: int = _LEAST) -> None:
        """Print the details, wrapped, beside the head; below it if there is too little room."""
        left = self._console.width - len(head)
        is_beside = left >= max(least, 1)
        indent = " " * (len(head) if is_beside else 2)
        rows = told.wrap(self._console, max(1, self._console.width - len(indent)))
        if not is_beside and head.plain.strip():
            self._print(head)
        for number, row in enumerate(rows):
            self._print(Text.assemble(head if is_beside and not number else indent, row))

    def _print(self, row: Text) -> None:
        row.rstrip()
        self._console.print(row, no_wrap=True, overflow="crop")


def told_of(frame: Frame) -> Iterator[str]:
    """The details of a frame, each on one line, bounded and escaped."""
    if frame.event not in (None, "message"):
        yield f"event {word(frame.event or '')}"
    yield from map(str, frame.adds)
    if frame.error is not None:
        yield described(frame.error).replace(f"event at byte {frame.offset}: ", "", 1)
    elif frame.note:
        yield frame.note
    elif not frame.adds:
        yield quoted(frame.data, frame.size, _DATA) if frame.kind in _TELLING else "nothing"


def _rules_of(frame: Frame) -> Iterator[str]:
    """The rules that a frame breaks: each for the first time in words, those that are known in one line of ids."""
    for noted in frame.anomalies:
        if noted.is_first:
            yield f"{noted.rule}" + (f" ({one_line(noted.detail)})" if noted.detail else "")
    known = [noted.rule.id for noted in frame.anomalies if not noted.is_first]
    if known:
        yield " ".join(known)


def _addition_object(addition: Addition) -> dict[str, Any]:
    return {name: value for name, value in addition._asdict().items() if value not in (None, "") or name == "choice"}


def _facts_of_rule(anomaly: Anomaly, *, explained: bool) -> Iterator[Fact]:
    yield "first", one_line(anomaly.first)
    if explained:
        yield "sent by", anomaly.rule.senders
        yield "chunkfold", anomaly.rule.handling


def _how_many(anomalies: Sequence[Anomaly]) -> str:
    return "this:" if len(anomalies) == 1 else f"these {len(anomalies)}:"
