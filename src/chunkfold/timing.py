"""When things arrived, in seconds since the request was sent, from one clock reading per read."""

from dataclasses import dataclass


@dataclass(slots=True)
class StreamTiming:
    """Arrival times of one stream, in seconds since the request was sent; None for what has not come.

    Where `connect` did not send it, the seconds count from the making of the parser or the stream.

    Attributes:
        first_byte: The first bytes of the body.
        first_chunk: The first chunk.
        first_output: The first text, reasoning, tool call fragment, audio or image.
        last_chunk: The last chunk so far.
        last_byte: The last bytes so far.
    """

    first_byte: float | None = None
    first_chunk: float | None = None
    first_output: float | None = None
    last_chunk: float | None = None
    last_byte: float | None = None

    def note(self, seconds: float, chunks: bool, output: bool) -> None:  # noqa: FBT001 - called for every read
        """Take one read into account: when it came, whether it brought a chunk, and whether output has come by now."""
        self.last_byte = seconds
        if chunks:
            self.last_chunk = seconds
        if self.first_output is None:
            self._note_firsts(seconds, chunks, output)

    def _note_firsts(self, seconds: float, chunks: bool, output: bool) -> None:  # noqa: FBT001 - as above
        if self.first_byte is None:
            self.first_byte = seconds
        if chunks and self.first_chunk is None:
            self.first_chunk = seconds
        if chunks and output:
            self.first_output = seconds

    def tokens_per_second(self, completion_tokens: int | None) -> float | None:
        """The rate from the first output to the last chunk; None unless the usage is known and time has passed."""
        if completion_tokens is None or self.first_output is None or self.last_chunk is None:
            return None
        seconds = self.last_chunk - self.first_output
        return completion_tokens / seconds if seconds > 0 else None
