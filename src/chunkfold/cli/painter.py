"""Draws the events of a stream on a screen: the only place that knows how each event is drawn."""

from typing import Self

from chunkfold import (
    AudioDelta,
    ChatCompletionEvent,
    ChatCompletionParser,
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
    """Draws choice 0 of one source inside `with`, without secrets. No event costs more because the answer is long."""

    def __init__(
        self, view: AnswerView, source: ChatCompletionStream | ChatCompletionParser, secrets: Secrets | None = None
    ) -> None:
        self._view = view
        self._source = source
        self._secrets = secrets or Secrets()
        self._pieces = SecretsInPieces(self._secrets)
        self._is_reasoning = False
        self._calls: dict[int, tuple[Call, SecretsInPieces]] = {}

    def draw(self) -> None:
        """Draw what was not drawn before; of a stream, everything up to its end."""
        for event in self._source.events():
            self._draw(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Show the complete tool calls at the end, and another choice if choice 0 has no output."""
        self._flush()
        shown = choice_of(self._source.snapshot)
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

    def _draw(self, event: ChatCompletionEvent) -> None:
        match event:
            case TextDelta(0, text) | RefusalDelta(0, text) | AudioDelta(choice=0, transcript=text):
                self._add(text)
            case ReasoningDelta(0, text):
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

    def _add(self, text: str, *, is_reasoning: bool = False) -> None:
        if is_reasoning != self._is_reasoning:
            self._flush()
            self._is_reasoning = is_reasoning
        self._view.add(self._pieces.hide(text), is_reasoning=is_reasoning)

    def _flush(self) -> None:
        """Show the text that was held back as the possible beginning of a secret."""
        self._view.add(self._pieces.rest(), is_reasoning=self._is_reasoning)
