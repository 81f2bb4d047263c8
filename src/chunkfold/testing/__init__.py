"""Test code that reads or forwards streamed chat completions, with any client.

    from chunkfold.testing import FakeProvider, StreamBuilder

    answer = StreamBuilder("stepfun").text("Hel", "lo").usage(10, 5).finish().done()
    with FakeProvider(answer) as provider:
        ...  # point any OpenAI client at provider.base_url

Bodies: `StreamBuilder` in one of the `DIALECTS`, or spelled out with `sse`, `event`, `chunk`, `delta`. Cuts, pauses and
faults: `cut`, `cut_every`, `bytewise`, `cut_randomly`, `paced`, `stalled`, `without_done`, `with_bad_utf8`, and the
options of an `Answer`. What sends them: `FakeProvider` (a real server), `FakeResponse`, `mock_response` (respx),
`mock_transport`. Assertions about the result: `assert_folds_to`, `assert_same_however_cut`, and the hostile set, with
which `python -m chunkfold.testing` tests this library and others. With hypothesis: `chunkfold.testing.strategies`.

It needs only the standard library and chunkfold; of chunkfold's other packages only `cli` imports it.

Read it in this order. A body: `wire`, `error_shapes`, `steps`, `dialects`, `builder`, `writing`; then `cuts`, `faults`
and `pacing`. What is sent: `answers`, `received`, `defaults`, `provider`, `connection`, `recorded`; without a server
`playback`, `mocking`. The expected result: `readings`, `expected`, `golden`, `differences`, `body_events`; then
`hostile`.
"""

from chunkfold.testing.answers import Answer, Raw, json_answer
from chunkfold.testing.builder import StreamBuilder
from chunkfold.testing.cuts import bytewise, cut, cut_every, cut_randomly, ways_to_cut
from chunkfold.testing.defaults import error_answer
from chunkfold.testing.dialects import DIALECTS, Dialect
from chunkfold.testing.error_shapes import ERROR_SHAPES
from chunkfold.testing.faults import stalled, with_bad_utf8, without_done
from chunkfold.testing.golden import assert_folds_to, assert_same_however_cut
from chunkfold.testing.hostile import HostileStream, hold, hostile_streams
from chunkfold.testing.mocking import mock_response, mock_transport
from chunkfold.testing.pacing import ManualClock, paced
from chunkfold.testing.playback import FakeResponse
from chunkfold.testing.provider import FakeProvider
from chunkfold.testing.readings import Call, Reading
from chunkfold.testing.received import ReceivedRequest
from chunkfold.testing.recorded import RecordedProvider
from chunkfold.testing.wire import DONE, HEAD, choice, chunk, delta, event, fragment, fragments, sse, usage

__all__ = [
    "DIALECTS",
    "DONE",
    "ERROR_SHAPES",
    "HEAD",
    "Answer",
    "Call",
    "Dialect",
    "FakeProvider",
    "FakeResponse",
    "HostileStream",
    "ManualClock",
    "Raw",
    "Reading",
    "ReceivedRequest",
    "RecordedProvider",
    "StreamBuilder",
    "assert_folds_to",
    "assert_same_however_cut",
    "bytewise",
    "choice",
    "chunk",
    "cut",
    "cut_every",
    "cut_randomly",
    "delta",
    "error_answer",
    "event",
    "fragment",
    "fragments",
    "hold",
    "hostile_streams",
    "json_answer",
    "mock_response",
    "mock_transport",
    "paced",
    "sse",
    "stalled",
    "usage",
    "ways_to_cut",
    "with_bad_utf8",
    "without_done",
]
