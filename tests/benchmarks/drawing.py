"""What `chat`, `demo` and `replay` draw, on a terminal of 80 columns and 24 rows that is only a string."""

import io
from collections.abc import Iterable
from types import SimpleNamespace

from rich.console import Console

from chunkfold import ChatCompletion, ChatCompletionEvent, TextDelta, ToolCallArgumentsDelta, ToolCallStarted
from chunkfold.cli.answer_view import LiveView
from chunkfold.cli.consoles import THEME
from chunkfold.cli.painter import Painter

_LINE = "    value = compute(item, index) + 'text'  # a comment\n"
_PIECE = 4  # characters: about a token


def tool_calls(count: int) -> list[ChatCompletionEvent]:
    """Calls that begin, each with two fragments of arguments."""
    events: list[ChatCompletionEvent] = []
    for position in range(count):
        events.append(ToolCallStarted(0, position, f"call_{position}", "f"))
        events += [ToolCallArgumentsDelta(0, position, piece) for piece in ('{"x":', " 1}")]
    return events


def zero_width(count: int) -> list[ChatCompletionEvent]:
    """Characters that fill no column."""
    return _text("\u200b" * count)


def code(count: int) -> list[ChatCompletionEvent]:
    """So many characters of Python in a fence."""
    return _text("```python\n" + (_LINE * (count // len(_LINE) + 1))[:count])


def draw(events: Iterable[ChatCompletionEvent]) -> None:
    """Draw them as they come, and for good."""
    size = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    view = LiveView(Console(file=io.StringIO(), force_terminal=True, theme=THEME, _environ=size))
    with view, Painter(view, SimpleNamespace(events=lambda: events, snapshot=ChatCompletion())) as painter:
        painter.draw()


def _text(text: str) -> list[ChatCompletionEvent]:
    return [TextDelta(0, text[place : place + _PIECE]) for place in range(0, len(text), _PIECE)]
