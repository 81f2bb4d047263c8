"""Who wants to know what the fold does, as it does it: events are made of this.

Folding costs the same without an observer. One that comes late is told what has arrived so far, in the order in which
it came, as if it had come in few large pieces.
"""

from typing import TYPE_CHECKING, Any, Protocol

from chunkfold.audio import join_audio
from chunkfold.text_buffer import TextBuffer

if TYPE_CHECKING:
    from chunkfold.choices import ChoiceState
    from chunkfold.models import Annotation
    from chunkfold.tool_calls import ToolCall, ToolCalls


class FoldObserver(Protocol):
    """What an observer is told. Each `choice` is a choice's index."""

    def on_text(self, choice: int, name: str, text: str, buffer: TextBuffer, end: int) -> None:
        """Content, reasoning or refusal grew by `text`; the first `end` characters of the buffer are all of it."""
        ...

    def on_tool_call(self, choice: int, calls: "ToolCalls", call: "ToolCall", text: str) -> None:
        """A fragment was folded into a call of the choice; `text` is what it added to its arguments."""
        ...

    def on_audio(self, choice: int, data: str, transcript: str) -> None:
        """A piece of audio came, encoded as it was sent, or of its transcript."""
        ...

    def on_image(self, choice: int, image: Any) -> None:
        """An image came, as it was sent."""
        ...

    def on_annotation(self, choice: int, annotation: "Annotation") -> None:
        """An annotation came."""
        ...

    def on_finish(self, choice: int, finish_reason: str, *, has_tool_calls: bool) -> None:
        """The choice has its finish reason, and what a whole message added to it."""
        ...

    def on_usage(self, usage: dict[str, Any]) -> None:
        """The usage, merged, is not what it was."""
        ...


def replay(state: "ChoiceState", observer: FoldObserver) -> None:
    """Tell an observer what has come of a choice so far."""
    for name, start, end in _stretches(state):
        if name == "tool_calls" and state.tool_calls is not None:
            call = state.tool_calls.calls[start]
            observer.on_tool_call(state.index, state.tool_calls, call, call.arguments.getvalue())
        elif name == "images":
            observer.on_image(state.index, state.lists["images"][start])
        elif name == "audio" and state.audio is not None:
            audio = state.audio
            observer.on_audio(state.index, join_audio(audio.pieces), audio.transcript.getvalue())
        else:
            buffer = state.buffer(name)
            observer.on_text(state.index, name, buffer.getvalue()[start:end], buffer, end)
    for annotation in state.lists.get("annotations", ()):
        observer.on_annotation(state.index, annotation)
    if state.message is None:
        tell_finish(state, observer)


def tell_finish(state: "ChoiceState", observer: FoldObserver) -> None:
    """Tell an observer of the finish reason, if it has come."""
    if state.finish_reason is not None:
        observer.on_finish(state.index, state.finish_reason, has_tool_calls=state.has_calls)


def _stretches(state: "ChoiceState") -> list[tuple[str, int, int]]:
    """The parts of the message: the field, and where in it they begin and end."""
    ends = {name: buffer.tell() for name, buffer in state.texts.items()}
    stretches: list[tuple[str, int, int]] = []
    for name, start in reversed(state.order or ()):
        stretches.append((name, start, ends.get(name, 0)))
        ends[name] = start
    return stretches[::-1]
