"""Recordings as an animated picture: the bytes above, as they arrive, and the resulting message below.

The picture is SVG animated only by CSS, so it works wherever an image does. Everything from one read has one class,
whose keyframes define when it is visible. If the viewer prefers reduced motion, the end of the first stream is shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from typing import Final

from chunkfold.errors import ChunkfoldError, StreamEnd
from chunkfold.event_stream.server_sent_event import ServerSentEvent
from chunkfold.events.types import (
    AudioDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)
from chunkfold.excerpts import on_one_line, visible
from chunkfold.parser.parser import ChatCompletionParser
from chunkfold.recording import Recording
from chunkfold.recording.replaying import conclude, parser_of, take

_SIZE: Final = (600, 424)  # narrow, so that it can be read on a phone too
_ROW: Final = 20  # pixels
_CHARACTER: Final = 8.4  # pixels; text is stretched to this width
_LEFT: Final = 20
_BYTES_TOP: Final = 62
_BYTES_ROWS: Final = 7
_MESSAGE_TOP: Final = 232
_MESSAGE_ROWS: Final = 7
_END_TOP: Final = 388
_WIDTH: Final = 66  # characters
_LABEL: Final = "Streams as they come: the bytes above, the message below."
_STAY: Final = 3.0  # seconds for which the end of a stream is shown

_STYLE: Final = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.ground { fill: #fff; stroke: #d0d7de } .pane { fill: #f6f8fa }
.title, .frame, .reasoning { fill: #636c76 } .call { fill: #0550ae } .good { fill: #116329 } .bad { fill: #b3261e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .ground { fill: #0d1117; stroke: #30363d } .pane { fill: #161b22 }
.title, .frame, .reasoning { fill: #9198a1 } .call { fill: #79c0ff } .good { fill: #56d364 } .bad { fill: #ff8079 }
}
@media (prefers-reduced-motion: reduce) { * { animation: none !important } .later { display: none } }
"""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece that becomes visible at a time."""

    at: float  # seconds since the stream began
    kind: str  # its class
    text: str
    block: str = ""  # pieces of the same block are placed together


class _Act:
    """One stream: its pieces, and when they become visible."""

    def __init__(self, recording: Recording, speed: float) -> None:
        self._now = 0.0
        self.frames: list[_Piece] = []
        self.message: list[_Piece] = []
        self._parser = parser_of(recording, on_server_sent_event=self._take_frame)
        self._parser.events()  # from now on
        for read in recording.reads:
            self._now = read.at / speed
            take(self._parser, read)
            self._take_events()
        self._now = self.seconds = max(self._now, recording.seconds / speed)
        conclude(self._parser, recording)
        self._take_events()
        self.end = self._parser.end or StreamEnd.CLOSED
        self.verdict = _verdict(self._parser)

    def _take_frame(self, event: ServerSentEvent, _chunks: object) -> None:
        self.frames.append(_Piece(self._now, "frame", _excerpt(event.text)))

    def _take_events(self) -> None:
        for event in self._parser.events():
            match event:
                case ReasoningDelta():
                    self._add("reasoning", event.delta, event.choice)
                case TextDelta(delta=text) | RefusalDelta(delta=text) | AudioDelta(transcript=text):
                    self._add("text", text, event.choice)
                case ToolCallStarted():
                    self._add("call", f"{event.name} ", event.choice, event.position)
                case ToolCallArgumentsDelta():
                    self._add("call", event.delta, event.choice, event.position)
                case _:
                    pass

    def _add(self, kind: str, text: str, choice: int, position: int = 0) -> None:
        self.message.append(_Piece(self._now, kind, visible(text, "\n\t"), f"{kind} {choice} {position}"))


def motion(recordings: Sequence[Recording], *, speed: float = 1.0) -> str:
    """Return an SVG file of 600 by 424 pixels, as text. It shows one stream after the other, in an endless loop.

    Args:
        recordings: Recordings with times; text that is not in a Latin script may be squeezed.
        speed: How many times faster than the original they are shown.

    Raises:
        ValueError: There is no recording, or the speed is not above 0.
    """
    if not recordings or not speed > 0:
        raise ValueError(f"expected one or more recordings and a speed above 0, received {len(recordings)} and {speed}")
    acts = [_Act(recording, speed) for recording in recordings]
    *starts, total = accumulate((act.seconds + _STAY for act in acts), initial=0.0)
    drawings = [
        _Drawing(number, act, start, total) for number, (act, start) in enumerate(zip(acts, starts, strict=True))
    ]
    drawn = [drawing.draw() for drawing in drawings]
    keyframes = "".join(keyframe for drawing in drawings for keyframe in drawing.keyframes)
    width, height = _SIZE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{_LABEL}">',
            f"<style>{_STYLE}{keyframes}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            f'<rect class="pane" x="8" y="40" width="{width - 16}" height="{_BYTES_ROWS * _ROW + 14}" rx="6"/>',
            '<clipPath id="pane">',
            f'<rect x="8" y="{_BYTES_TOP - 15}" width="{width - 16}" height="{_BYTES_ROWS * _ROW}"/></clipPath>',
            f'<text class="title" x="{_LEFT}" y="28">bytes as they arrive</text>',
            f'<text class="title" x="{_LEFT}" y="{_MESSAGE_TOP - 14}">the message so far</text>',
            *drawn,
            "</svg>\n",
        ]
    )


class _Drawing:
    """Draws one act, which begins at a time of the whole animation, and is visible until the next one begins."""

    def __init__(self, number: int, act: _Act, start: float, total: float) -> None:
        self._number = number
        self._act = act
        self._start, self._total = start, total
        self._classes: dict[float, str] = {}
        self.keyframes: list[str] = []

    def draw(self) -> str:
        """The bytes, the message and the end of the act."""
        later = ' class="later"' if self._number else ""
        return "\n".join([f"<g{later}>", *self._frames(), *self._message(), *self._end(), "</g>"])

    def _frames(self) -> Iterator[str]:
        """The frames, one below the other; all of them move up when there is no room for the next."""
        moves = {frame.at: rows * _ROW for rows, frame in enumerate(self._act.frames[_BYTES_ROWS:], 1)}
        name = f"up{self._number}"
        places = (f"{self._share(at):.3f}%{{transform:translateY(-{up}px)}}" for at, up in moves.items())
        self._keyframes_of(name, f"0%{{transform:none}}{''.join(places)}")
        yield f'<g clip-path="url(#pane)"><g class="{name}">'
        for row, frame in enumerate(self._act.frames):
            yield self._text(frame, _BYTES_TOP + row * _ROW)
        yield "</g></g>"

    def _message(self) -> Iterator[str]:
        for row, column, piece in _laid_out(self._act.message):
            if row < _MESSAGE_ROWS:
                yield self._text(piece, _MESSAGE_TOP + 10 + row * _ROW, column)

    def _end(self) -> Iterator[str]:
        kind = "good" if self._act.end.complete else "bad"
        for row, text in enumerate((f"end: {self._act.end}", self._act.verdict)):
            yield self._text(_Piece(self._act.seconds, kind, text), _END_TOP + row * _ROW)

    def _text(self, piece: _Piece, y: float, column: int = 0) -> str:
        x, length = _LEFT + column * _CHARACTER, len(piece.text) * _CHARACTER
        return (
            f'<text class="{piece.kind} {self._from(piece.at)}" x="{x:.1f}" y="{y}" '
            f'textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{escape(piece.text)}</text>'
        )

    def _from(self, at: float) -> str:
        """The class of pieces that are visible from a time of the act on; one for each time."""
        key = round(at, 3)
        if key not in self._classes:
            name = self._classes[key] = f"s{self._number}_{len(self._classes)}"
            gone = self._share(self._act.seconds + _STAY)
            hidden = f"{gone:.3f}%,100%{{opacity:0}}" if gone < 100 else ""
            self._keyframes_of(name, f"0%{{opacity:0}}{self._share(at):.3f}%{{opacity:1}}{hidden}")
        return self._classes[key]

    def _share(self, at: float) -> float:
        """A time of the act, in per cent of the whole animation."""
        return min(100.0, 100 * (self._start + at) / self._total)

    def _keyframes_of(self, name: str, steps: str) -> None:
        self.keyframes.append(
            f"@keyframes {name}{{{steps}}}.{name}{{animation:{name} {self._total:.2f}s step-end infinite}}\n"
        )


def _laid_out(pieces: Sequence[_Piece]) -> Iterator[tuple[int, int, _Piece]]:
    """The pieces in rows and columns, block by block."""
    blocks: dict[str, list[_Piece]] = {}
    for piece in pieces:
        blocks.setdefault(piece.block, []).append(piece)
    top = 0
    for block in blocks.values():
        rows = list(_wrapped(block))
        yield from ((top + row, column, part) for row, column, part in rows)
        top += rows[-1][0] + 1 if rows else 0


def _wrapped(pieces: Sequence[_Piece]) -> Iterator[tuple[int, int, _Piece]]:
    """The pieces of a block in rows and columns; a word that does not fit begins a new row."""
    row = column = 0
    for piece in pieces:
        for number, line in enumerate(piece.text.split("\n")):
            if number:
                row, column = row + 1, 0
            left = line
            if column + len(left.rstrip()) > _WIDTH >= len(left.rstrip()):
                row, column = row + 1, 0
            while left:
                part, left = left[: _WIDTH - column], left[_WIDTH - column :]
                yield row, column, replace(piece, text=part)
                row, column = (row + 1, 0) if left else (row, column + len(part))


def _verdict(parser: ChatCompletionParser) -> str:
    """What `completion()` does after this ending, in one line."""
    try:
        completion = parser.completion()
    except ChunkfoldError as error:
        return f"completion() raises {type(error).__name__}; the text so far is kept"
    count = None if completion.usage is None else completion.usage.completion_tokens
    tokens = "" if count is None else f", {count} tokens"
    return on_one_line(f"finish reason {completion.finish_reason}{tokens}: completion() returns", _WIDTH - len("..."))


def _excerpt(data: str) -> str:
    """The part of an event to show: its delta, if it has one."""
    _, delta, rest = data.partition('"delta":')
    shown = f"data: {{..{rest}" if delta else f"data: {data}"
    shown = "".join(character if character.isprintable() else " " for character in shown)
    return shown if len(shown) <= _WIDTH else shown[: _WIDTH - 2] + ".."
