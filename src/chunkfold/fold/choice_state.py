"""The state of one choice while it is folded, and its notifications to an observer."""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from chunkfold.anomaly_log import AnomalyLog
from chunkfold.fold.footprint import Kept
from chunkfold.fold.text_buffer import TextBuffer
from chunkfold.fold.tool_calls import ToolCalls
from chunkfold.json_text.surrogates import well_formed
from chunkfold.models.content import PROVIDER_FIELDS

if TYPE_CHECKING:
    from chunkfold.fold.audio import Audio
    from chunkfold.fold.blocks import Blocks, ContentParts
    from chunkfold.fold.tool_call import LegacyCall, ToolCall
    from chunkfold.models.chunk import ChoiceDelta
    from chunkfold.models.parts import PartStart
    from chunkfold.models.shared import Annotation


class FoldObserver(Protocol):
    """The notifications of an observer, such as the one that makes events. Each `choice` is a choice's index.

    Folding costs the same without an observer. One that is added late first receives everything that has arrived, in
    order, as if in few large pieces.
    """

    def on_text(self, choice: int, name: str, text: str, buffer: TextBuffer, end: int) -> None:
        """Content, reasoning or refusal grew by `text`; the first `end` characters of the buffer are all of it."""

    def on_tool_call(self, choice: int, calls: ToolCalls, call: "ToolCall", text: str) -> None:
        """A fragment was folded into a call of the choice; `text` is what it added to its arguments."""

    def on_audio(self, choice: int, data: str, transcript: str) -> None:
        """A piece of audio came, encoded as it was sent, or of its transcript."""

    def on_image(self, choice: int, image: Any) -> None:
        """An image came, as it was sent."""

    def on_annotation(self, choice: int, annotation: "Annotation") -> None:
        """An annotation came."""

    def on_finish(self, choice: int, finish_reason: str, *, has_tool_calls: bool) -> None:
        """The choice has its finish reason, and what a whole message added to it."""

    def on_usage(self, usage: dict[str, Any]) -> None:
        """The merged usage changed. The object itself is never changed."""


class ChoiceState:
    """One choice while it is folded. Rare fields are created on first use, since there may be many choices."""

    __slots__ = (
        *("_last_part", "audio", "blocks", "content_parts", "extra", "finish_reason", "function_call", "in_thought"),
        *("index", "lists", "log", "logprobs", "logprobs_extra", "message", "message_extra", "observer", "order"),
        *("head", "is_late", "measured", "role", "texts", "tool_calls", "tool_messages"),
    )

    def __init__(self, index: int, log: AnomalyLog, head: Mapping[str, Any], observer: FoldObserver | None) -> None:
        self.index = index
        self.log = log
        self.head = head
        self.observer = observer
        self.role: str | None = None
        self.finish_reason: str | None = None
        self.measured = 0  # see `footprint`
        self.is_late = False  # the last delta came after the finish reason; what is usual never does
        # Content, refusal, reasoning, and raw fields that append.
        self.texts: defaultdict[str, TextBuffer] = defaultdict(TextBuffer)
        self.in_thought = False  # the last content was flagged as a thought
        self.order: list[PartStart] = []
        self._last_part = ""
        self.tool_calls: ToolCalls | None = None
        self.blocks: dict[str, Blocks] = {}  # reasoning in blocks, by the field they come in
        self.content_parts: ContentParts | None = None
        self.lists: dict[str, list[Any]] = {}  # images, annotations
        self.logprobs: dict[str, list[Any]] = {}
        self.logprobs_extra: dict[str, Any] = {}
        self.function_call: LegacyCall | None = None
        self.audio: Audio | None = None
        self.message: ChoiceDelta | None = None  # the last whole message that says something, else the first
        self.tool_messages: list[dict[str, Any]] = []  # deltas of a tool's role
        self.extra: dict[str, Any] = {}
        self.message_extra: dict[str, Any] = {}

    def kept(self) -> Kept:
        """What it keeps; see `footprint`."""
        texts = (self.role, self.finish_reason, self.texts, self.blocks, self.content_parts, self.audio)
        extra = dict(self.message_extra)
        merged = extra.pop(PROVIDER_FIELDS, None)
        message = {"message": self.message} if self.message else {}
        return Kept(
            (*texts, self.tool_calls, self.function_call, merged),
            growing=(self.order, self.tool_messages, *self.lists.values(), *self.logprobs.values()),
            replaced=(message, self.extra, extra, self.logprobs_extra),
        )

    def write(self, name: str, text: str) -> int:
        """Append to the content, the reasoning or the refusal; return how many characters it grew by."""
        buffer = self.texts[name]
        if text and name != self._last_part:
            self.begin_part(name, buffer.tell())
        size = buffer.write(text)
        if self.observer is not None and text:
            self.observer.on_text(self.index, name, text, buffer, buffer.tell())
        return size

    def begin_part(self, name: str, start: int) -> None:
        """Remember where a part of the message begins: a character of its text, or a place in its list."""
        self._last_part = name
        self.order.append((name, start))

    def text(self, name: str) -> str | None:
        """One of the texts so far, None if none of it came."""
        buffer = self.texts.get(name)
        return None if buffer is None else well_formed(buffer.getvalue())


def replay(state: ChoiceState, observer: FoldObserver) -> None:
    """Notify an observer of everything that a choice has so far."""
    from chunkfold.models.parts import stretches  # loaded only for observers that come late

    for name, start, end in stretches(state.order):
        if name == "tool_calls" and state.tool_calls is not None:
            call = state.tool_calls.calls[start]
            observer.on_tool_call(state.index, state.tool_calls, call, call.arguments.getvalue())
        elif name == "images":
            observer.on_image(state.index, state.lists["images"][start])
        elif name == "content_parts" and state.content_parts is not None and start in state.content_parts.images:
            observer.on_image(state.index, state.content_parts.images[start])
        elif name == "audio" and state.audio is not None:
            observer.on_audio(state.index, state.audio.data, state.audio.transcript.getvalue())
        elif name in state.texts:
            buffer = state.texts[name]
            text = buffer.getvalue()[start:end]
            observer.on_text(state.index, name, text, buffer, start + len(text))
    for annotation in state.lists.get("annotations", ()):
        observer.on_annotation(state.index, annotation)
    if state.message is None:
        notify_finish(state, observer)


def notify_finish(state: ChoiceState, observer: FoldObserver) -> None:
    """Notify an observer of the finish reason, if there is one."""
    if state.finish_reason is not None:
        calls = state.tool_calls
        has_calls = (calls is not None and calls.client_side > 0) or state.function_call is not None
        observer.on_finish(state.index, state.finish_reason, has_tool_calls=has_calls)
