"""Record streams: the bytes of a body as they were read, with their times, and without secrets.

    with client.stream("POST", url, json=body) as response:
        recorder = Recorder(response)
        with ChatCompletionStream(recorder) as stream:
            ...
    recorder.recording.save("answer.jsonl")

    recording = Recording.load("answer.jsonl")       # also a plain body, as `curl` saves it, and gzip
    parser = replay(recording)                       # the same ending, error and timing as live

A `Recording` can be read like a response, sync and async: `ChatCompletionStream(recording)`. The core never imports
this package.

Read `recording`, the value; `format` and `unpacking`, its file; `replaying`; then `recorder`, and what keeps secrets
out of its recordings: `redaction`, which uses `credentials`.
"""

from chunkfold.recording.format import RecordedRead
from chunkfold.recording.recorder import Recorder
from chunkfold.recording.recording import RecordedTransportError, Recording
from chunkfold.recording.replaying import replay

__all__ = ["RecordedRead", "RecordedTransportError", "Recorder", "Recording", "replay"]
