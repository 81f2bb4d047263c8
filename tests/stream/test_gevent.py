"""Under gevent, which patches sockets and threads: greenlets are threads to the sync stream."""

from importlib.util import find_spec

import pytest
from own_process import printed_by

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("gevent") is None, reason="needs gevent")]

READ_BY_GREENLETS = """
from gevent import monkey; monkey.patch_all()
import gevent, httpx, httpx2
from gevent.event import Event
from chunkfold import StreamConsumedError, connect
from chunkfold.testing import Answer, FakeProvider, StreamBuilder

said = StreamBuilder().text("Hello")

def start(client, provider):
    "Read up to the text; returns who reads, and the stream."
    waits, streams = Event(), []
    def read():
        with connect(client, "POST", provider.url, json={}) as stream:
            streams.append(stream)
            for text in stream.text_deltas():
                waits.set()
    reading = gevent.spawn(read)
    assert waits.wait(30)
    return reading, streams[0]

for library in (httpx, httpx2):
    with FakeProvider(*[Answer(said, ending="open")] * 3, said.finish().done()) as provider, library.Client() as client:
        reading, stream = start(client, provider)
        try:
            next(stream)
        except StreamConsumedError as error:
            print(error)
        stream.close()
        reading.get(timeout=30)
        print(stream.end, stream.snapshot.text)
        reading, stream = start(client, provider)
        reading.kill(timeout=30)
        print(stream.end, stream.snapshot.text)
        try:
            with connect(client, "POST", provider.url, json={}) as stream:
                texts = stream.text_deltas()
                next(texts)
                with gevent.Timeout(0.2):  # once the text is there, on a busy machine, too
                    next(texts)
        except gevent.Timeout:
            print(stream.end, stream.snapshot.text)
        for request in provider.requests:
            assert request.answered.wait(30) and request.client_left
        with connect(client, "POST", provider.url, json={}) as stream:
            print(stream.end, stream.read().text)
"""


def test_greenlets_read_close_and_are_killed() -> None:
    assert printed_by(READ_BY_GREENLETS).splitlines() == 2 * [
        "another task or thread is reading this stream",
        "closed Hello",
        "closed Hello",
        "closed Hello",
        "None Hello",
    ]
