"""An answer while it streams: what is finished is printed once, only the open end is drawn again.

On a terminal the open end is the last row of the text, and the tool calls that are filling in.
Elsewhere there is none: text is written as it comes, tool calls when they are whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from chunkfold import ChatCompletionMessageToolCall
from chunkfold.cli.safe import harmless, one_line

_OPEN_ARGUMENTS: Final = 400  # characters drawn of a call that is still filling in: the last ones


@dataclass(frozen=True, slots=True)
class _Part:
    """A kind of output: how its lines begin where there is no style, and its style."""

    prefix: str
    style: str


_REASONING: Final = _Part("reasoning: ", "dim")
_TEXT: Final = _Part("", "")


class AnswerView(ABC):
    """Draws one answer inside `with`; the end of the block finishes what is still open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._part = _TEXT
        self._calls: Sequence[ChatCompletionMessageToolCall] = ()

    def add_reasoning(self, text: str) -> None:
        """The next piece of the reasoning; "" changes nothing."""
        self._add(text, _REASONING)

    def add_text(self, text: str) -> None:
        """The next piece of the text; "" changes nothing."""
        self._add(text, _TEXT)

    def show_tool_calls(self, calls: Sequence[ChatCompletionMessageToolCall]) -> None:
        """All tool calls, as far as they have come."""
        self._calls = calls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()
        for call in self._calls:
            self._console.print(_call_text(call), soft_wrap=not self._console.is_interactive)

    def _add(self, text: str, part: _Part) -> None:
        if not text:
            return
        if part is not self._part:
            self._end_line()
            self._part = part
        self._extend(harmless(text))

    @abstractmethod
    def _extend(self, text: str) -> None:
        """Add to the open line."""

    @abstractmethod
    def _end_line(self) -> None:
        """Finish the open line, if there is one."""


class PlainAnswerView(AnswerView):
    """Plain lines: no styles, no wrapping, each line of reasoning marked by a prefix."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._line_is_open = False

    def _extend(self, text: str) -> None:
        for number, line in enumerate(text.split("\n")):
            if number:
                self._write("\n")
                self._line_is_open = False
            if line:
                self._write(line if self._line_is_open else self._part.prefix + line)
                self._line_is_open = True

    def _end_line(self) -> None:
        if self._line_is_open:
            self._write("\n")
            self._line_is_open = False

    def _write(self, text: str) -> None:
        self._console.file.write(text)  # as it is: rich would expand its tabs
        self._console.file.flush()


class LiveAnswerView(AnswerView):
    """Rows are wrapped here: those before the last cannot change any more, and scroll away."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._open_row = ""
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._console:  # one write: the open end is erased, and printed for good
            self._live.stop()
            super().__exit__()

    def show_tool_calls(self, calls: Sequence[ChatCompletionMessageToolCall]) -> None:
        """All tool calls, as far as they have come; they stand below the text."""
        super().show_tool_calls(calls)
        self._draw()

    def _extend(self, text: str) -> None:
        *lines, last = (self._open_row + text).split("\n")
        with self._console:  # one write for what is finished and what is open
            for line in lines:
                self._console.print(self._styled(line))
            self._open_row = self._print_full_rows(last)
            self._draw()

    def _print_full_rows(self, line: str) -> str:
        """Print all rows of a line but the last; return that one, with the spaces at its end."""
        words, width = line.rstrip(" "), self._console.width
        *full, last = self._styled(words).wrap(self._console, width)
        for row in full:
            self._console.print(row)
        spaces = line[len(words) :][:width]  # more of them would change nothing
        return last.plain + spaces

    def _end_line(self) -> None:
        if self._open_row:
            row, self._open_row = self._open_row, ""
            self._console.print(self._styled(row))

    def _draw(self) -> None:
        row = [self._styled(self._open_row)] if self._open_row else []
        self._live.update(Group(*row, *map(_open_call_text, self._calls)), refresh=True)

    def _styled(self, text: str) -> Text:
        return Text(text, self._part.style)


def _call_text(call: ChatCompletionMessageToolCall) -> Text:
    return _call_row(call.name, call.arguments)


def _open_call_text(call: ChatCompletionMessageToolCall) -> Text:
    arguments = call.arguments
    shown = arguments if len(arguments) <= _OPEN_ARGUMENTS else "..." + arguments[-_OPEN_ARGUMENTS:]
    return _call_row(call.name, shown)


def _call_row(name: str, arguments: str) -> Text:
    return Text.assemble("tool call: ", (one_line(name), "bold cyan"), " ", one_line(arguments), overflow="fold")
