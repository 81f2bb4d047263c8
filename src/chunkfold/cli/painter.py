"""Draws the events of a stream on a screen: the only place that knows how each event is drawn."""

from collections.abc import Iterable

from chunkfold import (
    AudioDelta,
    ChatCompletion,
    ChatCompletionEvent,
    ChatCompletionStream,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallDone,
    ToolCallStarted,
)
from chunkfold.cli.answer_view import AnswerView
from chunkfold.cli.facts import calls_of, choice_of
from chunkfold.cli.safe import Secrets, SecretsInPieces
from chunkfold.cli.tail import Call


class Painter:
    """Draws choice 0 as it arrives, without secrets. No event costs more because the answer is long."""

    def __init__(self, view: AnswerView, secrets: Secrets | None = None) -> None:
        self._view = view
        self._secrets = secrets or Secrets()
        self._pieces = SecretsInPieces(self._secrets)
        self._is_reasoning = False
        self._calls: dict[int, tuple[Call, SecretsInPieces]] = {}

    def draw(self, event: ChatCompletionEvent) -> None:
        """Draw what an event adds."""
        match event:
            case TextDelta(choice=0, delta=text) | RefusalDelta(choice=0, delta=text):
                self._add(text)
            case AudioDelta(choice=0, transcript=text):
                self._add(text)
            case ReasoningDelta(choice=0, delta=text):
                self._add(text, is_reasoning=True)
            case ToolCallStarted(choice=0, position=position, name=name):
                self._calls[position] = Call(self._secrets.hide(name)), SecretsInPieces(self._secrets)
                self._view.show_tool_call(position, self._calls[position][0])
            case ToolCallArgumentsDelta(choice=0, position=position, delta=arguments):
                call, pieces = self._calls[position]
                call.add(pieces.hide(arguments))
                self._view.show_tool_call(position, call)
            case ToolCallDone(choice=0, position=position):
                self._view.show_tool_call(position, self._calls[position][0], is_open=False)
            case _:
                pass

    def draw_all(self, events: Iterable[ChatCompletionEvent]) -> None:
        """Draw what several events add."""
        for event in events:
            self.draw(event)

    def end(self, completion: ChatCompletion) -> None:
        """Show the complete tool calls at the end, and another choice if choice 0 has no output."""
        self._flush()
        shown = choice_of(completion)
        if shown and shown.index:
            message = shown.message
            spoken = message.audio.transcript if message.audio else None
            self._add(message.reasoning or "", is_reasoning=True)
            self._add(message.content or message.refusal or spoken or "")
            self._flush()
        calls = calls_of(shown.message) if shown else []
        if calls:
            hide = self._secrets.hide
            self._view.show_tool_calls([Call(hide(name), hide(arguments)) for name, arguments in calls])

    def _add(self, text: str, *, is_reasoning: bool = False) -> None:
        if is_reasoning != self._is_reasoning:
            self._flush()
            self._is_reasoning = is_reasoning
        self._show(self._pieces.hide(text))

    def _flush(self) -> None:
        """Show the text that was held back as the possible beginning of a secret."""
        self._show(self._pieces.rest())

    def _show(self, text: str) -> None:
        if self._is_reasoning:
            self._view.add_reasoning(text)
        else:
            self._view.add_text(text)


def watch(stream: ChatCompletionStream, painter: Painter) -> None:
    """Draw a stream as it arrives; an error at its end is raised after all of it is drawn."""
    try:
        painter.draw_all(stream.events())
    finally:
        painter.end(stream.snapshot)
