"""Recordings of streams: the bytes of a body as they were read, with their times, and no secret.

    with client.stream("POST", url, json=body) as response:
        recorder = Recorder(response)
        with ChatCompletionStream(recorder) as stream:
            ...
    recorder.recording.save("answer.jsonl")

    recording = Recording.load("answer.jsonl")       # also a plain body, as `curl` saves it
    parser = replay(recording)                       # the same ending, error and timing as live

A `Recording` is a response as streams take it, sync and async: `ChatCompletionStream(recording)`. The file's format is
in `recording.format`. Beside the core: nothing in it imports this.
"""

from chunkfold.recording.recorder import Recorder
from chunkfold.recording.recording import RecordedRead, RecordedTransportError, Recording
from chunkfold.recording.replaying import replay

__all__ = ["RecordedRead", "RecordedTransportError", "Recorder", "Recording", "replay"]
