"""Fold text without reading its JSON again: successive chunks of a stream are equal but for a few characters.

When a plain text chunk has come, its bytes are split at its text: what stands before and behind it. An event that
begins and ends with exactly the same bytes, and whose text in between needs no unescaping, is the same chunk with
another text. That this is so is not taken on trust: the bytes around it are tried once with a text of our own, and
must give the same chunk with that text. Where there is any doubt the event takes the usual way.
"""

from typing import Final

from chunkfold.accumulator import ChatCompletionAccumulator
from chunkfold.event_stream import MESSAGE, ServerSentEvent
from chunkfold.models import ChatCompletionChunk
from chunkfold.payload import valid_chunk

_KEY: Final = b'"content":'
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_PROBES: Final = ("a text of our own", "another one")
_LONGEST_WAIT: Final = 1024  # events
_WORTH_LEARNING: Final = 8  # events that were taken since


class TextShortcut:
    """Fold the text chunks of one stream that are like the one before.

    Args:
        accumulator: Where they are folded.
    """

    def __init__(self, accumulator: ChatCompletionAccumulator) -> None:
        self._accumulator = accumulator
        self._before = b"\r"  # no event's data has one
        self._before_size = 1
        self._behind = b""
        self._behind_size = 0
        self._choice = 0
        self._head: object = None
        self._wait = 0  # events to let pass before learning again
        self._next_wait = 1
        self._hits = 0  # since it was learned

    def take(self, event: ServerSentEvent) -> bool:
        """Fold an event, if it is safe to do so here; else nothing happens, and False is returned."""
        data = event.data
        if not (data.startswith(self._before) and data.endswith(self._behind)):
            return self._take_other(event)
        end = len(data) - self._behind_size
        raw = data[self._before_size : end]
        if _QUOTE in raw or _BACKSLASH in raw or end < self._before_size or event.event != MESSAGE:
            return False
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return False
        if not text.isprintable():
            return False
        if not self._accumulator.add_text(self._choice, text, self._head):
            return self._take_other(event)  # what stands in the head came anew meanwhile
        self._hits += 1
        return True

    def _take_other(self, event: ServerSentEvent) -> bool:
        """Learn from an event that is not like the last one learned from, if it is time to try that."""
        if self._wait:
            self._wait -= 1
            return False
        # Where the bytes around the text change all the time, learning is tried less and less often.
        self._next_wait = 1 if self._hits >= _WORTH_LEARNING else min(2 * self._next_wait, _LONGEST_WAIT)
        self._wait = self._next_wait
        self._hits = 0
        chunk = valid_chunk(event)
        return chunk is not None and self._learn(event.data, chunk)

    def _learn(self, data: bytes, chunk: ChatCompletionChunk) -> bool:
        """Fold a chunk that brings text and nothing else, if it is a usual one, and remember what stands around it."""
        content = _mere_text(chunk)
        if content is None or not self._accumulator.add_usual(chunk):
            return False
        begin = data.find(_KEY) + len(_KEY)
        begin += data[begin : begin + 1] == b" "
        before, behind = data[: begin + 1], data[begin + 1 + len(content.encode()) :]
        if before.endswith(b'"') and behind.startswith(b'"') and _is_hole(before, behind, chunk):
            self._before, self._before_size = before, len(before)
            self._behind, self._behind_size = behind, len(behind)
            self._choice = chunk.choices[0].index
            self._head = self._accumulator.plain_head
        return True


def _mere_text(chunk: ChatCompletionChunk) -> str | None:
    """The text of a chunk that brings nothing else, no usage and no unknown key; None of any other."""
    if chunk.usage is not None or chunk.__pydantic_extra__ or not chunk.choices or chunk.choices[0].__pydantic_extra__:
        return None
    delta = chunk.choices[0].delta
    content = delta.content if len(delta.model_fields_set) == 1 else None
    return content if isinstance(content, str) else None


def _is_hole(before: bytes, behind: bytes, chunk: ChatCompletionChunk) -> bool:
    """Whether any text between these bytes gives the same chunk with that text."""
    content = chunk.choices[0].delta.content
    probe = _PROBES[content == _PROBES[0]]
    tried = valid_chunk(ServerSentEvent(before + probe.encode() + behind))
    if tried is None or not tried.choices or tried.choices[0].delta.content != probe:
        return False
    tried.choices[0].delta.content = content
    return tried == chunk
