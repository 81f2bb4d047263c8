"""The exit code says how the stream ended. 1 is any other failure, 2 a usage error."""

from typing import Final

from chunkfold import StreamEnd

LEFT: Final = 130  # as a shell says it of what Ctrl-C ended
EXIT_CODES: Final = {
    StreamEnd.FINISHED: 0,
    StreamEnd.DONE: 0,
    StreamEnd.FAILED: 3,
    StreamEnd.INVALID: 4,
    StreamEnd.INTERRUPTED: 5,
    StreamEnd.STALLED: 6,
    StreamEnd.TRUNCATED: 7,
    StreamEnd.EMPTY: 8,
    StreamEnd.CLOSED: LEFT,
}

EXIT_CODES_HELP: Final = """\b
Exit codes:
  0  the stream ended well       5  the connection broke
  1  something else went wrong   6  it stalled, or took too long
  2  usage error                 7  it was cut off without an error
  3  the provider sent an error  8  nothing arrived
  4  it is not a valid stream    130  stopped by Ctrl-C
"""


def exit_code(end: StreamEnd | None) -> int:
    """The exit code for a stream with this end; 1 for one that has not ended."""
    return 1 if end is None else EXIT_CODES[end]
