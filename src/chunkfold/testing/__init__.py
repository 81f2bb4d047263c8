"""For tests of what reads streamed chat completions: an embedded provider, what it says, and the hostile set.

    from chunkfold.testing import Answer, FakeProvider, sse

    with FakeProvider(Answer(sse({"choices": []}), ending="open")) as provider:
        ...  # point any OpenAI client at provider.base_url

`python -m chunkfold.testing` holds this library, and others that are installed, to the hostile set.
Everything here is the standard library's; nothing in the library imports it.
"""

from chunkfold.testing.answers import Answer, Raw, json_answer
from chunkfold.testing.hostile import HostileStream, hold, hostile_streams
from chunkfold.testing.provider import FakeProvider
from chunkfold.testing.received import ReceivedRequest
from chunkfold.testing.wire import sse

__all__ = [
    "Answer",
    "FakeProvider",
    "HostileStream",
    "Raw",
    "ReceivedRequest",
    "hold",
    "hostile_streams",
    "json_answer",
    "sse",
]
