"""Parse a recording as it was parsed live, at the times at which it came."""

from typing import Unpack

from chunkfold.parser import ChatCompletionParser, ParserOptions
from chunkfold.recording.recording import RecordedTransportError, Recording


def replay(recording: Recording, **options: Unpack[ParserOptions]) -> ChatCompletionParser:
    """The parser that has read it to its end: the same chunks, ending and error as live, and the same timing.

    Args:
        recording: What to read.
        options: The parser's; status, headers and clock are the recording's own, unless given.
    """
    given: ParserOptions = {
        "status_code": recording.status_code,
        "headers": recording.headers,
        "started": 0.0,
        "clock": lambda: recording.ended_at or (recording.reads[-1].at if recording.reads else 0.0),
        **options,
    }
    parser = ChatCompletionParser(**given)
    parser.timing.headers = recording.headers_at
    for read in recording.reads:
        parser.feed(read.data, arrived=read.at)
    if recording.end == "body":
        parser.close()
    elif recording.end == "error":
        parser.interrupt(RecordedTransportError(recording.error))
    else:
        parser.leave()
    return parser
