"""Parse a recording as it was parsed live, at the original times."""

from typing import Unpack

from chunkfold.arguments import check_instance
from chunkfold.event_stream.lines import SLICE
from chunkfold.parser.options import ParserOptions
from chunkfold.parser.parser import ChatCompletionParser, feed_in_slices, feed_or_fold
from chunkfold.recording.format import RecordedRead
from chunkfold.recording.recording import RecordedTransportError, Recording


def replay(recording: Recording, **options: Unpack[ParserOptions]) -> ChatCompletionParser:
    """Return a parser that has read the recording to its end: with the same ending, error, events and timing as live.

    A stream that was left ends as it did then: with what had arrived. For the chunks, iterate over
    `ChatCompletionStream(recording)`.

    Args:
        recording: The recording.
        options: The parser's options; status, headers, clock and `progress_timeout` are the recording's own, unless
            given.
    """
    parser = parser_of(recording, **options)
    for read in recording.reads:
        take(parser, read)
    conclude(parser, recording)
    return parser


def parser_of(recording: Recording, **options: Unpack[ParserOptions]) -> ChatCompletionParser:
    """A parser that has read nothing yet; the caller feeds it the reads, with their times as `arrived`."""
    check_instance("recording", recording, Recording, "a Recording")
    given: ParserOptions = {**options_of(recording), **options}
    parser = ChatCompletionParser(**given)
    parser.timing.headers = recording.headers_at
    return parser


def take(parser: ChatCompletionParser, read: RecordedRead) -> None:
    """Feed a read to a parser like `fold`, except that its output counts as emitted, as it was live.

    Not by `feed`, since the chunks of a plain body would all be held at once.
    """
    if len(read.data) > SLICE:
        for _ in feed_in_slices(parser, read.data, read.at, folding=True, is_returned=True):
            pass
    elif parser.end is None:
        feed_or_fold(parser, read.data, read.at, folding=True, is_returned=True)


def options_of(recording: Recording) -> ParserOptions:
    """The options with which a parser reads it as it was read live."""
    return {
        "status_code": recording.status_code,
        "headers": recording.headers,
        "started": 0.0,
        "clock": lambda: recording.seconds,
        "progress_timeout": recording.progress_timeout,
    }


def conclude(parser: ChatCompletionParser, recording: Recording) -> None:
    """End a parser that has read a recording as the recording ended."""
    if recording.end == "body":
        parser.close()
    elif recording.end == "error":
        parser.interrupt(RecordedTransportError(recording.error))
    else:
        parser.leave()
