"""For tests of what reads streamed chat completions: an embedded provider, and what it says.

    from chunkfold.testing import Answer, FakeProvider, sse

    with FakeProvider(Answer(sse({"choices": []}), ending="open")) as provider:
        ...  # point any OpenAI client at provider.base_url

Everything here is the standard library's; nothing in the library imports it.
"""

from chunkfold.testing.answers import Answer, json_answer, sse
from chunkfold.testing.provider import FakeProvider
from chunkfold.testing.received import ReceivedRequest

__all__ = ["Answer", "FakeProvider", "ReceivedRequest", "json_answer", "sse"]
