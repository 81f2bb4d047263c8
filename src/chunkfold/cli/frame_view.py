"""How frames are shown: in columns on a terminal, one line each elsewhere, as JSON Lines for programs.

Each is printed as it arrives, and not kept: a body of any length takes no more memory than its answer.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from chunkfold.cli.additions import quoted, word
from chunkfold.cli.consoles import print_beside, print_row
from chunkfold.cli.facts import anomaly_object, error_object, exit_code, result_object, result_of
from chunkfold.cli.frames import Frame, Inspection, Kind
from chunkfold.cli.safe import one_line
from chunkfold.cli.verdict import described, facts_of, no_deviations, times

_KIND_WIDTH: Final = max(map(len, Kind))
_TIME_WIDTH: Final = 8
_LEAST: Final = 36  # columns that the additions need, to be shown beside the rest
_DATA: Final = 60  # characters shown of the data of a frame that adds nothing
_TELLING: Final = (Kind.PING, Kind.FOREIGN)  # frames of which only the data is shown
_STYLES: Final = {Kind.DONE: "green", Kind.PING: "dim", Kind.FOREIGN: "dim", Kind.END: "yellow"}


@dataclass(frozen=True, slots=True)
class FrameView(ABC):
    """Shows the frames of one stream as they arrive, and finally the verdict."""

    console: Console
    is_explained: bool  # whether the verdict names who breaks each rule, and what chunkfold does
    only_odd: bool  # whether only errors and frames that break a rule are shown
    timed: bool = True  # whether the times of the stream are meaningful
    offset_width: int = 7  # the number of digits of the largest offset
    hide: Callable[[str], str] = str  # replaces secrets in a text

    def frame(self, frame: Frame) -> None:
        """Show a frame, unless `only_odd` excludes it."""
        if frame.is_odd or not self.only_odd:
            self._show(frame)

    @abstractmethod
    def begin(self) -> None:
        """Show the header above the frames."""

    @abstractmethod
    def verdict(self, inspection: Inspection) -> None:
        """Show the verdict on the whole stream."""

    @abstractmethod
    def _show(self, frame: Frame) -> None: ...


class JsonFrameView(FrameView):
    """One object per line: a frame, and in the last line the verdict."""

    def begin(self) -> None:
        """Show nothing: every line is an object."""

    def _show(self, frame: Frame) -> None:
        self._write(
            {
                "frame": frame.number,
                "kind": frame.kind,
                "event": frame.event,
                "offset": frame.offset,
                "at": None if frame.at is None else round(frame.at, 6),
                "bytes": frame.size,
                "data": frame.data,
                "adds": [
                    {
                        name: value
                        for name, value in adds._asdict().items()
                        if value not in (None, "") or name == "choice"
                    }
                    for adds in frame.adds
                ],
                "anomalies": [
                    {"rule": noted.rule.id, "count": noted.count, "detail": noted.detail} for noted in frame.anomalies
                ],
                "error": error_object(frame.error),
            }
        )

    def verdict(self, inspection: Inspection) -> None:
        """Write the last line: the object of every command, and the counts."""
        parser = inspection.parser
        verdict = result_object(result_of(parser, is_timed=self.timed)) | {
            "exit_code": exit_code(parser.end),
            "frames": inspection.frames,
            "events": inspection.events,
            "bytes": inspection.received,
            "unread_bytes": inspection.unread,
            "unknown_fields": inspection.unknown_fields,
        }
        if self.is_explained:
            verdict["anomalies"] = [anomaly_object(anomaly, explained=True) for anomaly in parser.anomalies]
        self._write({"verdict": verdict})

    def _write(self, value: dict[str, Any]) -> None:
        self.console.file.write(self.hide(json.dumps(value)) + "\n")  # joined, a text can show what its pieces do not
        self.console.file.flush()


class TextFrameView(FrameView):
    """For people: in columns on a terminal, where the additions are wrapped; elsewhere one line per frame."""

    def begin(self) -> None:
        """Show the names of the columns."""
        print_row(self.console, Text(self._head("offset", "seconds", "what") + "adds", "bold"))

    def _show(self, frame: Frame) -> None:
        """Show a frame, and the rules that it breaks: on a terminal a row for each."""
        head = self._head(str(frame.offset), "" if frame.at is None else f"{frame.at:.3f}", frame.kind)
        details = "; ".join(details_of(frame))
        if not self.console.is_interactive:
            ids = " ".join(noted.rule.id for noted in frame.anomalies)
            print_row(self.console, Text(f"{head}{details}" + (f"  ! {ids}" if ids else "")))
            return
        style = "red" if frame.error is not None else _STYLES.get(frame.kind, "")
        print_beside(self.console, Text(head, style or "cyan"), Text(details, style), _LEAST)
        for rule in _rules_of(frame):
            print_beside(self.console, Text(" " * len(head)), Text(rule, "yellow"), _LEAST)

    def verdict(self, inspection: Inspection) -> None:
        """Show the facts, then the rules."""
        anomalies = inspection.parser.anomalies
        facts = dict(facts_of(inspection, timed=self.timed))
        count = len(anomalies)
        facts["deviations"] = str(count) if count else no_deviations(inspection)
        width = max(map(len, facts)) + 2 if self.console.is_interactive else 0
        print_row(self.console, Text())
        for label, value in facts.items():
            print_beside(self.console, Text(f"{label}: ".ljust(width), "cyan"), Text(value))
        if anomalies:
            print_row(self.console, Text())
        for anomaly in anomalies:
            rule = anomaly.rule
            print_beside(
                self.console, Text(f"{rule.id}: ", "yellow"), Text(f"{rule.sentence} ({times(anomaly.count)})")
            )
            explained = (("sent by", rule.senders), ("chunkfold", rule.handling)) if self.is_explained else ()
            for label, value in (("first", one_line(anomaly.first)), *explained):
                print_beside(self.console, Text("  "), Text(f"{label}: {value}", "dim"))

    def _head(self, offset: str, at: str, kind: str) -> str:
        """The columns before the additions."""
        time = f"{at:>{_TIME_WIDTH}}  " if self.timed else ""
        return f"{offset:>{max(len('offset'), self.offset_width)}}  {time}{kind:<{_KIND_WIDTH}}  "


def details_of(frame: Frame) -> Iterator[str]:
    """The details of a frame, each on one line, bounded and escaped."""
    if frame.event and frame.event != "message":
        yield f"event {word(frame.event)}"
    yield from map(str, frame.adds)
    if frame.error is not None:
        yield described(frame.error).replace(f"event at byte {frame.offset}: ", "", 1)
    elif frame.note:
        yield frame.note
    elif not frame.adds:
        yield quoted(frame.data, frame.size, _DATA) if frame.kind in _TELLING else "nothing"


def _rules_of(frame: Frame) -> Iterator[str]:
    """The rules that a frame breaks: in words the first time, later as ids on one line."""
    for noted in frame.anomalies:
        if noted.is_first:
            yield f"{noted.rule}" + (f" ({one_line(noted.detail)})" if noted.detail else "")
    known = [noted.rule.id for noted in frame.anomalies if not noted.is_first]
    if known:
        yield " ".join(known)
