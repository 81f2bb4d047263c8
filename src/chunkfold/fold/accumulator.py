"""Fold chunks into a message: one rule per field, never by Python type."""

from chunkfold.anomalies import Anomaly
from chunkfold.arguments import A_CHUNK, check_instance
from chunkfold.excerpts import counted
from chunkfold.fold.stream_fold import StreamFold
from chunkfold.models.chunk import ChatCompletionChunk
from chunkfold.models.completion import ChatCompletion
from chunkfold.models.tool_calls import ToolTypes


class ChatCompletionAccumulator:
    """Fold the chunks of one stream, from any source.

    Args:
        tools: The types of the tools' arguments, by the tools' names: models, TypedDicts or dataclasses.

    Raises:
        TypeError: Pydantic cannot validate the type of a tool.
    """

    def __init__(self, tools: ToolTypes | None = None) -> None:
        self._fold = StreamFold(tools=tools)

    def __repr__(self) -> str:
        """Show the state, without content."""
        return f"<{type(self).__name__}: {counted(self.chunks, 'chunk')}>"

    @property
    def snapshot(self) -> ChatCompletion:
        """The answer so far, made in time proportional to the output."""
        return self._fold.snapshot

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What was tolerated: each rule once, with a count. Their offsets are unknown."""
        return self._fold.log.entries()

    @property
    def chunks(self) -> int:
        """The number of chunks so far."""
        return self._fold.chunks

    @property
    def has_output(self) -> bool:
        """Whether there was any output: text, reasoning, refusal, a tool call's name or arguments, audio, image."""
        return self._fold.has_output

    @property
    def output_size(self) -> int:
        """The size of the output so far, in characters."""
        return self._fold.output_size

    @property
    def all_finished(self) -> bool:
        """Whether there is at least one choice, and each has its finish reason."""
        return self._fold.all_finished

    def add(self, chunk: ChatCompletionChunk) -> ChatCompletionChunk:
        """Fold in one chunk, which is not changed.

        Returns the chunk to pass on: this one, or a copy without a literal closing tag, if the chunk has the first text
        after content that was flagged as a thought (Gemini's compatible endpoint).

        Raises:
            TypeError: It is not a chunk, or another library's: `ChatCompletionChunk.model_validate` reads its dump.
        """
        check_instance("chunk", chunk, ChatCompletionChunk, A_CHUNK)
        self._fold.compact()
        return self._fold.add(chunk)

    def finish(self) -> ChatCompletionChunk | None:
        """Mark the end of the stream; return what whole messages add to the deltas as a last, folded chunk, or None."""
        return next(iter(self._fold.finish()), None)
