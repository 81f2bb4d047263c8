"""The interface for observers of the fold, such as the one that makes events.

Folding costs the same without an observer. An observer that is added late first receives everything that has arrived,
in order, as if in few large pieces.
"""

from typing import TYPE_CHECKING, Any, Protocol

from chunkfold.fold.text_buffer import TextBuffer

if TYPE_CHECKING:
    from chunkfold.fold.tool_call import ToolCall
    from chunkfold.fold.tool_calls import ToolCalls
    from chunkfold.models import Annotation


class FoldObserver(Protocol):
    """The notifications of an observer. Each `choice` is a choice's index."""

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
        """The merged usage changed. The object itself is never changed."""
        ...
